"""Activations that are held in memory: the same bits as on disk, read in the same way, and refused
where they do not fit."""

import contextlib
import json

import numpy as np
import pytest
from toy_models import HARD

from crosslens import checks
from crosslens.corpus import Corpus, as_corpus
from crosslens.errors import InputError
from crosslens.models.extraction import encode
from crosslens.models.extraction import extract as module
from crosslens.models.extraction.extract import extract
from crosslens.models.machine.distributed import World
from crosslens.models.saved.loading import load_encoder

UNITS = ("sentence", "word", "token", "type", "embedding")


@pytest.fixture(scope="module")
def encoder(originals):
    return load_encoder(originals["bert"])


@pytest.fixture(autouse=True)
def several_blocks_and_batches(monkeypatch):
    monkeypatch.setattr(module, "_block_text", lambda *_: 90)
    monkeypatch.setattr(encode, "_BATCH_TOKENS", {"cpu": 60})


def same(held, stored):
    assert (
        held.arrays == stored.arrays
        and held.dtype == stored.dtype
        and held.columns == stored.columns
    )
    for name in held.arrays:
        assert np.array(held._array(name)).tobytes() == np.array(stored._array(name)).tobytes(), (
            name
        )
    assert held.table().equals(stored.table()) and held.fingerprint == stored.fingerprint
    assert json.dumps(held.manifest, sort_keys=True) == json.dumps(stored.manifest, sort_keys=True)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_held_is_what_would_be_stored(encoder, tmp_path, unit, dtype):
    settings = {"unit": unit, "dtype": dtype, "language": "eng"} | (
        {"outputs": ("hidden", "mlp")} if unit == "word" else {}
    )
    held = extract(encoder, list(HARD), **settings)
    same(held, extract(encoder, list(HARD), tmp_path / "store", **settings))
    assert (
        held.folder is None
        and "None" not in held.name
        and list(tmp_path.iterdir()) == [tmp_path / "store"]
    )


def test_pairs_are_two_lists(encoder, tmp_path):
    given = {"unit": "pair", "second": ["a", "", "c"], "special_tokens": True}
    same(
        extract(encoder, ["x", "y", "z"], **given),
        extract(encoder, ["x", "y", "z"], tmp_path / "store", **given),
    )


def test_nobody_can_write_into_them_and_rows_are_found_as_on_disk(encoder):
    held = extract(encoder, ["the cat", "a dog"], unit="word")
    assert held.rows(word=["cat", "dog"]).tolist() == [1, 3] and held.rows(id="1").tolist() == [
        2,
        3,
    ]
    with pytest.raises(ValueError, match="read-only"):
        held.layer(0)[0, 0] = 1
    with pytest.raises(InputError, match="^layer: expected one that"):
        held.layer(9)
    held.verify()


def test_what_does_not_fit_into_memory_is_refused_before_any_work(encoder, monkeypatch):
    monkeypatch.setattr(checks.os, "sysconf", lambda _: 10)
    monkeypatch.setattr(module, "locate", lambda *_: pytest.fail("tokenised"))
    with pytest.raises(InputError, match=r"^out: .*memory.*; give out=FOLDER"):
        extract(encoder, ["the cat"])


def test_words_that_do_not_fit_are_refused_before_they_are_encoded(encoder, monkeypatch):
    # 1,225 bytes: four rows of 16 numbers and four layers, but no eight
    monkeypatch.setattr(checks.os, "sysconf", lambda _: 35)
    monkeypatch.setattr(module, "encode", lambda *_: pytest.fail("encoded"))
    with pytest.raises(InputError, match=r"^out: .*8 items"):
        extract(encoder, ["a b c d e f g h"], unit="word")


@pytest.mark.parametrize(
    ("given", "language", "argument"),
    [
        ("one string", None, "text"),
        (["a", 1], None, r"text\[1\]"),
        (3, None, "text"),
        (["a"], "e/ng", "language"),
        (Corpus("eng", ["a"], ["0"], "x"), "fra", "language"),
    ],
)
def test_what_is_no_list_of_sentences_is_refused(given, language, argument):
    with pytest.raises(InputError, match=f"^{argument}: expected"):
        as_corpus(given, language)


@pytest.mark.parametrize("unit", ["sentence", "type"])
def test_a_text_without_sentences_is_refused_by_its_name(encoder, tmp_path, unit):
    with pytest.raises(InputError, match="^text: expected at least one sentence, got none; give"):
        extract(encoder, [], tmp_path / "store", unit=unit)
    assert not list(tmp_path.iterdir())


def test_a_blank_sentence_is_refused_by_its_place(encoder):
    with pytest.raises(InputError, match="^text:2: expected a sentence"):
        extract(encoder, ["a", " "])


def test_an_encoder_may_be_named(encoder, originals):
    assert (
        extract(originals["bert"], ["the cat"]).fingerprint
        == extract(encoder, ["the cat"]).fingerprint
    )


def test_processes_that_share_the_work_share_a_folder(encoder, monkeypatch):
    monkeypatch.setattr(
        module, "_world", lambda _: contextlib.nullcontext(World(0, 2, encoder.device))
    )
    with pytest.raises(InputError, match="^out: .*got none"):
        extract(encoder, ["the cat"])
