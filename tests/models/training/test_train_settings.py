"""Recipes: built from dictionaries, changed by name, printed, and refused where they make no
sense."""

import dataclasses

import pytest

from crosslens.errors import InputError
from crosslens.models.network.encoder import EncoderConfig
from crosslens.models.network.sharing import SYSTEMS
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training.masking import Masking
from crosslens.models.training.settings import (
    Optimisation,
    Source,
    TrainRecipe,
    describe,
    from_dict,
    resolve,
    with_overrides,
)

VALUES = {
    "name": "x",
    "steps": 10,
    "sources": [{"name": "s", "texts": {"eng": "e.txt", "fra": "f.txt"}}],
}


@pytest.fixture
def recipe():
    return TrainRecipe(
        name="x", sources=(Source(name="s", texts={"eng": "e.txt", "fra": "f.txt"}),), steps=10
    )


def test_a_recipe_can_be_built_from_dictionaries(recipe):
    assert from_dict(TrainRecipe, VALUES) == recipe
    full = {
        **VALUES,
        "masking": {"rate": 0.3},
        "encoder": {"vocab_size": 100, "layers": 2},
        "optimisation": {"peak_rate": 1},
    }
    built = from_dict(TrainRecipe, full)
    assert built.masking == Masking(rate=0.3) and built.encoder == EncoderConfig(
        vocab_size=100, layers=2
    )
    assert built.optimisation.peak_rate == 1.0 and isinstance(built.optimisation.peak_rate, float)


def test_a_recipe_survives_the_way_through_dictionaries(recipe):
    changed = dataclasses.replace(
        recipe, exclude=("a", "b"), vocabulary=Vocabulary(kind="bpe"), seed=4
    )
    assert from_dict(TrainRecipe, dataclasses.asdict(changed)) == changed


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"stepz": 3},
            (r"stepz: expected a setting of TrainRecipe \(.*steps.*\)"),
        ),
        (
            {"masking": {"rat": 0.1}},
            r"masking.rat: expected a setting of Masking \(count, .*rate.*\)",
        ),
        (
            {"sources": [{"name": "s", "text": {}}]},
            r"sources\[0\].text: expected a setting of Source",
        ),
        ({"steps": "many"}, "steps: expected int"),
        ({"steps": 2.5}, "steps: expected int"),
        ({"steps": True}, "steps: expected int"),
        ({"tlm_share": "half"}, "tlm_share: expected float"),
        ({"tlm_share": True}, "tlm_share: expected float"),
        ({"masking": {"count": 1}}, "masking.count: expected str"),
        ({"masking": 0.15}, "masking: expected Masking"),
        ({"sources": "e.txt"}, "sources: expected tuple"),
        ({"exclude": "e.txt"}, "exclude: expected tuple"),
        ({"exclude": [1]}, r"exclude\[0\]: expected str"),
        (
            {"sources": [{"name": "s", "texts": {"eng": 3}}]},
            r"sources\[0\].texts.eng: expected str",
        ),
        (
            {"sources": [{"name": "s", "texts": ["e.txt"]}]},
            r"sources\[0\].texts: expected Mapping",
        ),
        (
            {"sources": [{"name": "s"}]},
            (r"sources\[0\].: expected all required settings"),
        ),
    ],
)
def test_names_and_types_that_do_not_fit_are_refused(values, told):
    with pytest.raises(InputError, match=told):
        from_dict(TrainRecipe, {**VALUES, **values})


def test_missing_settings_are_named():
    with pytest.raises(InputError, match="TrainRecipe: .*got .*missing.*'steps'.*"):
        from_dict(TrainRecipe, {"name": "x"})


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"steps": 0},
            "steps: expected a whole number from 1 to 100,000,000",
        ),
        ({"save_every": -1}, "save_every: expected a whole number from 1 to 1,000,000,000"),
        ({"validation": 0}, "validation: expected a whole number from 1 to 1,000,000,000"),
        (
            {"tlm_share": 1.5},
            ("tlm_share: expected a number from 0 to 1"),
        ),
        ({"sources": []}, "sources: expected at least one text"),
        (
            {"max_length": 127},
            ("max_length: expected at most encoder.max_positions - 2 = 126"),
        ),
        ({"seed": -1}, "seed: expected a whole number from 0 to 4,294,967,295"),
        (
            {"sources": VALUES["sources"] * 2},
            "sources: expected different names",
        ),
        (
            {"sources": [{"name": "s", "texts": {}}]},
            "s.texts: expected at least one language",
        ),
        (
            {"sources": [{**VALUES["sources"][0], "weight": 0}]},
            r"s.weight: expected a number from 1e-06 to 1e\+06",
        ),
        (
            {"optimisation": {"decay": "steps"}},
            "optimisation.decay: expected one of linear, cosine, inverse_sqrt, constant, plateau",
        ),
        (
            {"optimisation": {"warmup": -1}},
            "optimisation.warmup: expected a whole number from 0 to 100,000,000",
        ),
        (
            {"optimisation": {"clip": -1}},
            (r"optimisation.clip: expected a number from 0 to 1e\+10"),
        ),
        (
            {"optimisation": {"first_rate": 1}},
            ("optimisation.first_rate: expected at most peak_rate = 0.001"),
        ),
        (
            {"optimisation": {"optimiser": "sgd"}},
            "optimisation.optimiser: expected one of adamw, adam, lamb",
        ),
        (
            {"units": "words"},
            ("units: expected one of sentences, stream, packed, nsp"),
        ),
        ({"batch_languages": "two"}, "batch_languages: expected one of one, mixed"),
        ({"precision": "half"}, "precision: expected one of float32, bfloat16"),
        (
            {"select": "deu"},
            "select: expected one of last, best, eng, fra",
        ),
        (
            {"patience": -1},
            ("patience: expected a whole number from 0 to 1,000,000,000"),
        ),
        ({"accumulate": 0}, "accumulate: expected a whole number from 1 to 1,000,000"),
        (
            {"units": "stream", "max_length": 129},
            "max_length: expected at most encoder.max_positions = 128",
        ),
        (
            {"optimisation": {"peak_rate": 0}},
            (r"optimisation.peak_rate: expected a number from 1e-12 to 1e\+10"),
        ),
    ],
)
def test_values_that_make_no_sense_are_refused(values, told):
    with pytest.raises(InputError, match=told):
        from_dict(TrainRecipe, {**VALUES, **values})


def test_overrides_reach_nested_settings_and_leave_the_recipe_alone(recipe):
    changed = with_overrides(
        recipe,
        {"steps": 20, "masking.rate": 0.3, "optimisation.decay": "cosine", "exclude": ["t.txt"]},
    )
    assert (changed.steps, changed.masking.rate, changed.optimisation.decay, changed.exclude) == (
        20,
        0.3,
        "cosine",
        ("t.txt",),
    )
    assert (
        dataclasses.replace(
            changed, steps=10, masking=Masking(), optimisation=Optimisation(), exclude=()
        )
        == recipe
    )
    assert recipe.steps == 10 and recipe.masking.rate == 0.15


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("stepz", "stepz: expected a setting of TrainRecipe"),
        ("masking.rat", "masking.rat: expected a setting of Masking"),
        (
            "maskin.rate",
            ("maskin.rate: expected a setting of the recipe"),
        ),
        ("steps.more", "steps.more: expected a setting of the recipe"),
    ],
)
def test_overrides_of_unknown_settings_are_refused(recipe, name, told):
    with pytest.raises(InputError, match=told):
        with_overrides(recipe, {name: 1})


def test_an_override_of_the_wrong_type_is_refused(recipe):
    with pytest.raises(InputError, match="masking.rate: .*got 'much'"):
        with_overrides(recipe, {"masking.rate": "much"})


def test_the_description_has_every_setting_with_its_value(recipe):
    lines = describe(recipe).splitlines()
    assert {
        "name = 'x'",
        "steps = 10",
        "masking.rate = 0.15",
        "encoder.layers = 4",
        "sources[0].texts.fra = 'f.txt'",
    } <= set(lines)
    told = {line.split(" = ")[0] for line in lines}
    assert len(told) == len(lines)
    for field in dataclasses.fields(TrainRecipe):
        assert any(
            name == field.name or name.startswith((f"{field.name}.", f"{field.name}["))
            for name in told
        ), field.name


@pytest.mark.parametrize(
    ("system", "plan", "mode", "scope"),
    [
        ("", "sep=none", "joint", "all"),
        ("default", "sep=none", "joint", "all"),
        ("no-anchors", "sep=none", "disjoint", "all"),
        ("default-anchors", "sep=none", "union", "all"),
        ("sep-emb", "sep=emb", "separate", "language"),
        ("sep-1-3", "sep=1-3", "union", "all"),
        ("sep-1-6", "sep=1-6", "union", "all"),
        ("sep-emb-1-3", "sep=emb,1-3", "separate", "language"),
        ("sep-emb-1-6", "sep=emb,1-6", "separate", "language"),
        ("monolingual", "sep=all", "separate", "language"),
    ],
)
def test_a_named_system_brings_its_plan_vocabulary_and_masking(recipe, system, plan, mode, scope):
    asked = with_overrides(
        recipe,
        {
            "sharing": system,
            "tlm_share": 0.0,
            "encoder.layers": 8,
            "optimisation.warmup": 3,
            "masking.counts": "language",
        },
    )
    found = resolve(asked)
    assert (found.sharing, found.vocabulary.mode, found.masking.scope) == (plan, mode, scope)
    assert resolve(found) == found  # what a run saves is what it was
    same = {"sharing": system, "vocabulary.mode": "joint", "masking.scope": "all"}
    assert with_overrides(found, same) == asked  # nothing else is touched


def test_every_named_system_is_in_the_table_above(recipe):
    table = test_a_named_system_brings_its_plan_vocabulary_and_masking.pytestmark[0].args[1]
    assert {row[0] for row in table} == {"", *SYSTEMS}


def test_a_plan_of_ones_own_keeps_its_vocabulary_and_masking(recipe):
    own = {
        "sharing": "sep=2,1",
        "vocabulary.mode": "union",
        "masking.scope": "language",
        "tlm_share": 0.0,
    }
    found = resolve(with_overrides(recipe, own))
    assert (found.sharing, found.vocabulary.mode, found.masking.scope) == (
        "sep=1-2",
        "union",
        "language",
    )


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"sharing": "sep=1-5"},
            ("sharing: expected layers from 1 to 4"),
        ),
        ({"sharing": "sep-1-6"}, "sharing: expected layers from 1 to 4"),
        ({"sharing": "sep-all"}, "sharing: expected .*default, no-anchors, .* got 'sep-all'"),
        (
            {"vocabulary.mode": "separate"},
            ("vocabulary.mode: expected shared ids where token embeddings are shared"),
        ),
        (
            {"vocabulary.mode": "separate", "sharing": "sep=token,softmax", "encoder.tied": False},
            ("sharing: expected an output bias for each language where ids are separate"),
        ),
        (
            {"vocabulary.mode": "separate", "sharing": "sep=token,bias", "encoder.tied": False},
            ("sharing: expected an output softmax for each language where ids are separate"),
        ),
        (
            {"sharing": "sep-1-3", "tlm_share": 0.1},
            (r"tlm_share: expected 0 where languages own parts \(a pair is of two languages\)"),
        ),
        (
            {"units": "nsp"},
            ('encoder: expected next_sentence=true and segments=2 for units="nsp"'),
        ),
        (
            {"units": "nsp", "encoder.next_sentence": True},
            "encoder: expected .*",
        ),
        (
            {"encoder.next_sentence": True, "encoder.segments": 2},
            'encoder.next_sentence: expected false without units="nsp"',
        ),
        ({"sharing": "sep=adapters"}, r"encoder.adapters: .*\(sep=adapters\), got 0"),
        (
            {"sharing": "default", "vocabulary.mode": "disjoint"},
            "vocabulary.mode: expected joint, which sharing=default brings, got disjoint; leave it "
            'out, or write the plan itself: sharing="sep=none"',
        ),
        ({"sharing": "no-anchors", "vocabulary.mode": "union"}, "mode: expected disjoint, which"),
        ({"sharing": "sep-emb", "masking.scope": "original"}, "masking.scope: expected language"),
        ({"anchors.rate": 0.5}, "anchors.dictionary: expected a file of word pairs, .* got none"),
        ({"sharing": "sep=segment"}, "sharing: expected parts that the encoder has, got segment"),
        ({"sharing": "sep=2,transform", "encoder.head": "plain"}, "has, got transform; leave it"),
        (
            {"encoder.position_offset": 2, "encoder.pad_id": 1},
            "encoder.pad_id: expected 0, .* got 1; .* layout is encoder.position_offset=1",
        ),
        ({"encoder.cls_position": False, "units": "stream"}, "encoder.cls_position: .*no .CLS."),
        ({"encoder.cls_position": False, "units": "packed"}, "encoder.cls_position: .*later"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(recipe, values, told):
    with pytest.raises(InputError, match=told):
        resolve(with_overrides(recipe, {"tlm_share": 0.0, **values}))


def test_the_parts_of_monotrans_are_asked_for_by_name(recipe):
    asked = {
        "sharing": "sep=token,position,adapters",
        "encoder.adapters": 64,
        "encoder.cls_position": False,
        "encoder.noise": 0.075,
        "encoder.special_table": True,
    }
    found = resolve(with_overrides(recipe, {"tlm_share": 0.0, **asked}))
    assert found.sharing == "sep=token,position,adapters,softmax,bias"
    assert found.encoder == EncoderConfig(
        adapters=64, cls_position=False, noise=0.075, special_table=True
    )
    assert resolve(found) == found and "encoder.adapters = 64" in describe(found)
    # nothing shared has its adapters too, where there are any
    assert resolve(
        with_overrides(
            recipe, {"sharing": "sep=all", "tlm_share": 0.0, "vocabulary.mode": "separate"}
        )
    )


@pytest.mark.parametrize("name", ["../../evil", "", ".hidden", "a/b", "x" * 101])
def test_names_that_become_paths_lead_nowhere_else(name):
    source = Source(name="s", texts={"eng": "e.txt"})
    with pytest.raises(InputError, match=r"^name: expected a name of"):
        TrainRecipe(name=name, sources=(source,), steps=10)
    with pytest.raises(InputError, match=r"^sources.name: expected a name of"):
        Source(name=name, texts={"eng": "e.txt"})
    with pytest.raises(InputError, match=r"^s\.texts: expected a name of"):
        Source(name="s", texts={name: "e.txt"})


def test_an_exponent_that_nothing_is_sampled_with_is_refused(recipe):
    mixed = with_overrides(recipe, {"batch_languages": "mixed", "tlm_share": 0.0})
    assert resolve(mixed).sample_exponent == 0.7
    with pytest.raises(InputError, match=r"sample_exponent: expected 0.7, the default, .* got 0.3"):
        resolve(with_overrides(mixed, {"sample_exponent": 0.3}))
    for other in ({"batch_languages": "one"}, {"tlm_share": 0.5}):  # languages, or pairs, are
        assert resolve(with_overrides(mixed, {"sample_exponent": 0.3, **other}))
