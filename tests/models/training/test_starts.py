"""A training that starts from a finished model: what it learns, as a recipe of one's own, and what it
refuses; languages joined, and what cannot be."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from toy_texts import toy_recipe

from crosslens.errors import InputError, OutputError
from crosslens.models.saved.joining import join_languages
from crosslens.models.saved.native import load_model, save_model
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.text.vocabularies import (
    Vocabularies,
    check_separate,
    join_vocabularies,
    learn_vocabularies,
    load_vocabularies,
)
from crosslens.models.training.masked_lm import build_model, train
from crosslens.models.training.settings import Source, resolve, with_overrides
from crosslens.models.training.starts import check_start, started_model
from crosslens.recipes import load_recipe

SETTINGS = Vocabulary(size=60, kind="bpe", sentences=99, mode="separate")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """English alone, with token embeddings of its own."""
    toy = toy_recipe(tmp_path_factory.mktemp("toy"), steps=2, sharing="sep=token", tlm_share=0.0)
    changes = {"vocabulary.mode": "separate", "encoder.special_table": True, "validate_every": 2}
    return with_overrides(dataclasses.replace(toy, sources=(one(toy, "eng"),)), changes)


def one(recipe, language, file=None):
    path = recipe.sources[0].texts[language] if file is None else file
    return Source(name="toy", texts={language: path})


@pytest.fixture(scope="module")
def dutch(recipe):
    """The same of Dutch; it has no start yet."""
    path = recipe.sources[0].texts["eng"].replace("toy.eng", "toy.nld")
    return dataclasses.replace(recipe, sources=(one(recipe, "nld", path),))


@pytest.fixture(scope="module")
def english(recipe, tmp_path_factory):
    """The folder of the English model. Not to be written to."""
    return train(recipe, tmp_path_factory.mktemp("english") / "run")


@pytest.fixture(scope="module")
def both(english, dutch, tmp_path_factory):
    """Dutch under its body, with adapters; from a TOML file with a path beside it."""
    folder = tmp_path_factory.mktemp("both")
    (folder / "english").symlink_to(english)
    lines = ['name = "dutch"', "steps = 2", 'start = "english"', 'sharing = "sep=token,adapters"']
    lines += ["batch_tokens = 256", "max_length = 30", "validation = 20"]
    lines += ['vocabulary = {size = 110, kind = "bpe", sentences = 300, mode = "separate"}']
    lines += [
        "encoder = {hidden_size = 32, layers = 2, heads = 2, ffn_size = 64, max_positions = 32, "
    ]
    lines[-1] += "special_table = true, adapters = 4}"
    lines += ["[[sources]]", 'name = "toy"', f'texts = {{nld = "{dutch.sources[0].texts["nld"]}"}}']
    (folder / "recipe.toml").write_text("\n".join(lines))
    return train(load_recipe(str(folder / "recipe.toml")), folder / "run")


def test_a_recipe_with_a_start_learns_what_the_new_language_owns(english, both):
    body, now = (load_file(folder / "model.safetensors") for folder in (english, both))
    assert all(torch.equal(now[name], tensor) for name, tensor in body.items())
    model, vocabularies = load_model(both)
    assert model.languages == vocabularies.languages == ("eng", "nld")
    assert str(model.plan) == "sep=token,adapters,softmax,bias"
    sharing = json.loads((both.parent / "sharing.json").read_text())
    assert sharing["adapters"]["nld"] > 0
    asked = json.loads((both.parent / "config.json").read_text())["asked"]["recipe"]
    assert asked["start"].endswith("english") and asked["start"].startswith("/")


def test_new_parts_do_not_begin_as_those_of_the_start_did(english, recipe):
    """With the same text, seed and vocabulary: the control that learns a language again would
    otherwise begin where its body's embeddings began."""
    copy = Source(name="toy", texts={"eng-x": recipe.sources[0].texts["eng"]})
    again = dataclasses.replace(recipe, sources=(copy,), start=str(english))
    first = load_vocabularies(english.parent / "tokenizer")
    own = Vocabularies(first.mode, *({"eng-x": one["eng"]} for one in (
        first.tokenizers, first.tables, first.sizes)))  # fmt: skip
    both = join_vocabularies(first, own)
    new, began = started_model(again, both), build_model(recipe, first)
    mine, other = new.encoder.token.of("eng-x").weight, began.encoder.token.of("eng").weight
    assert mine.shape == other.shape and not torch.isclose(mine, other).any()
    twice = started_model(again, both).encoder.token.of("eng-x").weight
    assert torch.equal(mine, twice)


def test_the_start_is_known_by_its_content(english, dutch, tmp_path):
    """Another body with the same name is another run; the same body elsewhere is the same."""
    model, vocabularies = load_model(english)
    save_model(model, vocabularies, tmp_path / "start")
    recipe = dataclasses.replace(dutch, start=str(english))
    train(recipe, tmp_path / "run")
    again = dataclasses.replace(recipe, start=str(tmp_path / "start"))
    assert train(again, tmp_path / "run", resume=True) == tmp_path / "run" / "model"
    with torch.no_grad():
        model.encoder.position.of("eng").weight[0, 0] += 1
    save_model(model, vocabularies, tmp_path / "start")
    with pytest.raises(OutputError, match="start: "):
        train(again, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"encoder.hidden_size": 16}, "encoder.hidden_size: expected 32, as the model that"),
        ({"encoder.cls_position": False}, "encoder.cls_position: expected True, as the model"),
        ({"encoder.special_table": False}, "encoder.special_table: expected True"),
        (
            {"sharing": "sep=token,position"},
            "sharing: expected sep=token,softmax,bias, as the start",
        ),
        (
            {"encoder.adapters": 4},
            "sharing: expected sep=token,adapters,softmax,bias, as the start",
        ),
    ],
)
def test_a_shape_or_plan_that_does_not_fit_is_refused(english, dutch, changes, told):
    recipe = with_overrides(dataclasses.replace(dutch, start=str(english)), changes)
    with pytest.raises(InputError, match=told):
        check_start(resolve(recipe))


def test_what_cannot_start_is_refused_before_anything_is_made(
    english, both, dutch, recipe, originals, tmp_path
):
    def refused(told, recipe=dutch, **changes):
        with pytest.raises(InputError, match=told):
            train(dataclasses.replace(recipe, **changes), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    refused("expected a language that .* does not have .eng.*got eng", recipe, start=str(english))
    refused("expected a language that .* does not have .eng, nld.", start=str(both))
    refused("expected a model that save_model wrote", start=str(originals["bert"]))
    refused("expected a model that save_model wrote, got none", start=str(tmp_path))
    sources = (*dutch.sources, dataclasses.replace(recipe.sources[0], name="other"))
    refused("start: expected sources of one new language", start=str(english), sources=sources)
    mode = {"vocabulary": dataclasses.replace(dutch.vocabulary, mode="joint")}
    refused("vocabulary.mode: expected separate where a new", start=str(english), **mode)
    shape = dataclasses.replace(dutch.encoder, language_embeddings=True)
    refused("encoder.language_embeddings: expected false", start=str(english), encoder=shape)


def test_languages_that_were_not_learnt_under_the_same_body_are_not_joined(english, both, tmp_path):
    with pytest.raises(InputError, match="expected a language that .* does not have, got eng"):
        join_languages(both, [english])
    with pytest.raises(
        InputError, match="vocabularies: expected different languages, got nld twice"
    ):
        join_languages(english, [both, both])
    model, vocabularies = load_model(both)
    with torch.no_grad():
        model.encoder.layers[1]["shared"].ffn_out.bias[3] += 1e-6
    save_model(model, vocabularies, tmp_path / "other")
    told = (
        "expected languages learnt under the body of .* got another encoder.layers.1.shared.ffn_out"
    )
    with pytest.raises(InputError, match=told):
        join_languages(english, [tmp_path / "other"])
    model, _ = load_model(both)
    other = learn_vocabularies({"eng": ["a b c"] * 9}, SETTINGS, 0)
    mine = join_vocabularies(other, of(vocabularies, "nld"))
    save_model(model, mine, tmp_path / "another")
    with pytest.raises(InputError, match="got another tokeniser of eng"):
        join_languages(english, [tmp_path / "another"])


def of(vocabularies, language):
    mine = ({language: part[language]} for part in (vocabularies.tokenizers, vocabularies.tables))
    return Vocabularies("separate", *mine, {language: vocabularies.sizes[language]})


def test_vocabularies_keep_their_ids_when_they_are_joined():
    one, other = (
        learn_vocabularies({name: [text] * 9}, SETTINGS, 0)
        for name, text in (("eng", "a cat and a dog"), ("nld", "een kat en een hond"))
    )
    both = join_vocabularies(one, other)
    for mine in (one, other):
        (language,) = mine.languages
        assert both.pieces(language) == mine.pieces(language)
        assert both.sizes[language] == mine.sizes[language]
    assert both.overlap("eng", "nld").shared == 0


def test_vocabularies_that_cannot_stand_beside_others_are_refused():
    one = learn_vocabularies({"eng": ["a cat"] * 9}, SETTINGS, 0)
    joint = learn_vocabularies(
        {"nld": ["een kat"] * 9}, dataclasses.replace(SETTINGS, mode="joint"), 0
    )
    with pytest.raises(InputError, match="vocabularies: expected ids of each .* got mode joint"):
        join_vocabularies(one, joint)
    with pytest.raises(InputError, match="expected different languages, got eng twice"):
        join_vocabularies(one, one)

    numbers = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 3, "[SEP]": 2, "[MASK]": 4}
    for vocab, told in ((numbers, r"got \[CLS\] as 3"), ({"a": 0}, r"got none called \[PAD\]")):
        tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
        odd = Vocabularies("separate", {"nld": tokenizer}, {}, {})
        with pytest.raises(InputError, match=f"vocabulary of nld: expected the special .* {told}"):
            check_separate(odd)
