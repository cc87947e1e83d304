"""Derived languages in training: the same sentences in another order, held out together, drawn anew
where that is asked for, and resumed to the same bits."""

import dataclasses
import json

import numpy as np
import pytest
from toy_texts import log, prepared, toy_recipe, weights

from crosslens.derive.registry import transformation
from crosslens.derive.transformation import Sentence
from crosslens.errors import InputError
from crosslens.models.saved.derived_languages import (
    DerivedLanguage,
    derived_languages,
    own_languages,
)
from crosslens.models.saved.loading import load_encoder
from crosslens.models.text.tokenisation import SPECIAL_TOKENS, Vocabulary
from crosslens.models.training.derivation import Derivation, check_derived
from crosslens.models.training.masked_batches import MaskedBatches
from crosslens.models.training.masked_lm import train
from crosslens.models.training.settings import (
    Source,
    from_dict,
    recipe_settings,
    resolve,
    with_overrides,
)
from crosslens.models.training.streams import at_epoch
from crosslens.recipes import load_recipe

SEP = SPECIAL_TOKENS.index("[SEP]")


def derived_recipe(folder, by, mode="disjoint", units="stream", **changes):
    """English and a language derived from it, of one text."""
    made = toy_recipe(folder, **changes)
    text = made.sources[0].texts["eng"]
    return dataclasses.replace(
        made,
        sources=(Source(name="toy", texts={"eng": text, "eng-x": text}),),
        derived={"eng-x": Derivation(of="eng", by=by)},
        units=units,
        batch_languages="mixed",
        max_length=24,
        tlm_share=0.0,
        vocabulary=Vocabulary(size=110, kind="bpe", sentences=300, mode=mode),
    )


def files(data, language):
    """The token file of a language's training text, and the rows that are trained on."""
    stream = data.streams[0]
    [group] = [one for one in stream._groups if one.language == language]
    return group.files[0], group


@pytest.mark.parametrize(
    ("by", "mode"),
    [
        ("transliteration", "disjoint"),
        ("transliteration+inversion", "disjoint"),
        ("transliteration+permutation", "disjoint"),
        ("permutation+transliteration+inversion", "disjoint"),
        ("inversion", "union"),
        ("local-shuffle:3", "union"),
        ("inversion", "joint"),
    ],
)
def test_every_sentence_is_the_original_s_in_the_order_of_the_transformation(tmp_path, by, mode):
    recipe, data, vocabularies = prepared(derived_recipe(tmp_path, by, mode), tmp_path / "run")
    original, derived = (files(data, language)[0] for language in ("eng", "eng-x"))
    order = "+".join(part for part in by.split("+") if part != "transliteration")
    made = transformation(order or "identity")
    table = dict(
        zip(*(vocabularies.tables[name].tolist() for name in ("eng", "eng-x")), strict=True)
    )
    assert len(original) == len(derived) == 160
    for number in range(len(original)):
        ids = original[number].astype(int)
        wanted = made.derive(Sentence(ids), recipe.seed, number).tokens
        assert derived[number].tolist() == [table[i] for i in wanted.tolist()]
    shared = [i for i in table if table[i] == i]
    assert shared == (list(range(5)) if mode == "disjoint" else list(table))


def test_the_same_sentences_are_held_out_in_both(tmp_path):
    recipe = derived_recipe(tmp_path, "transliteration+inversion", units="sentences")
    _, data, _ = prepared(recipe, tmp_path / "run")
    kept = {
        stream.languages[0]: set(stream.rows.tolist())
        for stream in data.held_out.values()
        if len(stream.languages) == 1
    }
    assert kept["eng"] == kept["eng-x"] and len(kept["eng"]) == 20
    trained = data.streams[0]
    # items are numbered language by language: no held-out row is among them
    assert trained.n == 2 * (160 - 20)


def test_rows_of_continuous_text_hold_whole_sentences_in_their_new_order(tmp_path):
    """What the model sees, against sentences that are turned round by hand."""
    recipe = derived_recipe(tmp_path, "inversion", mode="union")
    batches = MaskedBatches(*prepared(recipe, tmp_path / "run"))
    stream = batches.data.streams[0]
    sentences = {}
    for which, language in enumerate(("eng", "eng-x")):
        first, last = stream._first[which], stream._first[which + 1]
        ids = stream.collate(np.arange(first, last)).ids
        per_batch = ids.reshape(-1, stream.rows, stream.length)
        columns = per_batch.transpose(1, 0, 2).reshape(-1).tolist()
        cut = "".join("|" if i == SEP else chr(i + 200) for i in columns).split("|")
        sentences[language] = {one for one in cut if one}
    turned = {one[::-1] for one in sentences["eng"]}
    # the last line of a stream is never served: a sentence in each column may lack a token, in each
    assert len(turned & sentences["eng-x"]) >= len(turned) - 2 * stream.rows > 100


@pytest.mark.parametrize("units", ["sentences", "stream", "packed", "nsp"])
def test_an_order_that_is_drawn_in_every_epoch_is_another_one_in_the_next(tmp_path, units):
    heads = {"encoder.segments": 2, "encoder.next_sentence": True} if units == "nsp" else {}
    recipe = with_overrides(
        derived_recipe(tmp_path, "transliteration+permutation:epoch", units=units, steps=200), heads
    )
    batches = MaskedBatches(*prepared(recipe, tmp_path / "run"))
    stream = batches.data.streams[0]
    first, second = at_epoch(stream, 0), at_epoch(stream, 1)
    plan = stream.plan([0, 2, 0, 0])
    same = moved = 0
    for items in plan:
        one, other = first.collate(items), second.collate(items)
        assert (stream.collate(items).ids == one.ids).all()
        derived = one.languages == 1
        same += int((one.ids != other.ids)[~derived].sum())
        moved += int((one.ids != other.ids)[derived].sum())
        assert (one.lengths == other.lengths).all()
    assert same == 0 and moved > 100
    # a step of the second epoch is the same whatever was asked for before
    late = next(
        step for step in range(200) if batches._items(0, step) is not None and batches._plans[0][0]
    )
    fresh = MaskedBatches(recipe, batches.data, batches.vocabularies)
    fresh[0]
    assert all(
        (a == b).all()
        for a, b in zip([batches[late].parts[0]["ids"]], [fresh[late].parts[0]["ids"]], strict=True)
    )
    once = derived_recipe(tmp_path, "transliteration+permutation", units="stream")
    unchanged = MaskedBatches(*prepared(once, tmp_path / "once")).data.streams[0]
    assert at_epoch(unchanged, 3) is unchanged


def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path, stopped_at):
    recipe = derived_recipe(tmp_path, "transliteration+permutation:epoch")
    train(recipe, tmp_path / "whole")
    folder = stopped_at(recipe, 17)
    train(recipe, folder, resume=True)
    assert weights(folder) == weights(tmp_path / "whole")
    # the copy has its own ids, so its alignment is measured
    assert "eng>eng-x" in log(folder)[-1]["alignment"]
    told = json.loads((folder / "config.json").read_text())
    assert told["settings"]["derived"] == recipe_settings(recipe)["derived"]
    assert load_recipe(str(folder)).derived == recipe.derived


def test_ids_that_are_shared_have_no_alignment_to_measure(tmp_path):
    train(derived_recipe(tmp_path, "inversion", mode="union", steps=2), tmp_path / "run")
    assert "alignment" not in log(tmp_path / "run")[-1]


@pytest.mark.parametrize(
    ("by", "mode", "own"),
    [("transliteration+inversion", "disjoint", ("eng", "eng-x")), ("inversion", "joint", ())],
)
def test_the_model_and_its_checkpoint_say_how_it_is_derived(tmp_path, by, mode, own):
    train(derived_recipe(tmp_path, by, mode, steps=2, seed=4), tmp_path / "run")
    how = DerivedLanguage("eng", by, 4)
    (checkpoint,) = (tmp_path / "run" / "checkpoints").glob("step-*")
    for folder in (tmp_path / "run" / "model", checkpoint):
        assert derived_languages(folder) == {"eng-x": how}
        assert load_encoder(folder).layers == 3
    assert own_languages(tmp_path / "run" / "model") == own
    assert own_languages(checkpoint) == ("eng", "eng-x")


def test_random_tokens_come_from_the_original_half(tmp_path):
    recipe = with_overrides(
        derived_recipe(tmp_path, "transliteration"),
        {"masking.scope": "original", "masking.masked": 0.0, "masking.random": 1.0},
    )
    batches = MaskedBatches(*prepared(recipe, tmp_path / "run"))
    half = int(batches.vocabularies.tables["eng"].max()) + 1
    seen = 0
    for step in range(10):
        part = batches[step].parts[0]
        replaced = part["ids"].reshape(-1)[part["masked"]]
        assert (replaced < half).all()
        seen += int((part["labels"] >= half).sum())
    assert seen > 100


def test_a_recipe_s_words_are_its_settings(tmp_path):
    values = {"of": "eng", "by": "transliteration+inversion"}
    assert from_dict(Derivation, values) == Derivation(**values)
    resolved = resolve(derived_recipe(tmp_path, "transliteration"))
    assert resolved.vocabulary.copies == {"eng-x": "eng"}
    assert resolve(derived_recipe(tmp_path, "inversion", "joint")).vocabulary.copies == {}


@pytest.mark.parametrize(
    ("by", "mode", "message"),
    [
        ("transliteration", "joint", "vocabulary.mode: expected disjoint or separate where eng-x"),
        ("inversion", "disjoint", "vocabulary.mode: expected joint or union where eng-x is by inv"),
        ("token-hop", "union", r"derived.eng-x.by: expected transformations of the order of subw"),
        ("no-reversal", "union", r"derived.eng-x.by: expected transformations of the order"),
        ("transliteration+turned", "disjoint", "transformation: expected one of"),
    ],
)
def test_what_cannot_be_derived_is_refused(tmp_path, by, mode, message):
    with pytest.raises(InputError, match=message):
        train(derived_recipe(tmp_path, by, mode), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("derived", [{"eng-y": "eng"}, {"eng-x": "deu"}, {"eng-x": "eng-x"}])
def test_a_language_that_is_not_there_is_refused(tmp_path, derived):
    recipe = derived_recipe(tmp_path, "transliteration")
    told = {name: Derivation(of=of, by="transliteration") for name, of in derived.items()}
    with pytest.raises(InputError, match="a language of the texts, of one of eng"):
        resolve(dataclasses.replace(recipe, derived=told))


def test_spaces_around_a_plus_say_nothing():
    one = Derivation(of="eng", by="transliteration + inversion")
    assert one.transliterated and one.order == "inversion"
    assert check_derived({"eng-x": one}, ["eng", "eng-x"], "disjoint") == {"eng-x": "eng"}


def test_a_seed_that_is_none_is_refused_by_its_name():
    with pytest.raises(
        InputError, match=r"derived.seed: expected a whole number from 0 up, got -5"
    ):
        Derivation(of="eng", by="inversion", seed=-5)
