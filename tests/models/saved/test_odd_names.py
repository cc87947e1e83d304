"""Folders whose names are no UTF-8, and tokenisers that end in a panic of the library below
them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.corpus import Corpus
from crosslens.errors import InputError, panics_as_errors
from crosslens.models.extraction.extract import extract
from crosslens.models.extraction.units import Reading, locate
from crosslens.models.saved.arrays import load_tensors
from crosslens.models.saved.loading import load_encoder
from crosslens.models.scoring.cloze import load_scorer
from crosslens.models.text.tokenisation import load_tokenizer
from crosslens.models.training.masked_lm import train

ODD = os.fsdecode(b"caf\xe9")
TEXT = ["the cat sat on the mat", "the dog ran"]


@pytest.mark.parametrize("unit", ["sentence", "type"])
def test_texts_encoders_and_stores_may_lie_in_folders_of_any_name(copy_of, tmp_path, unit, capsys):
    folder = copy_of("bert", ODD)
    (tmp_path / f"{ODD}.txt").write_text("\n".join(TEXT) + "\n")
    arguments = [
        "extract",
        "--encoder",
        str(folder),
        "--text",
        f"eng={tmp_path / ODD}.txt",
        "--out",
        str(tmp_path / "out" / ODD),
        "--unit",
        unit,
    ]
    assert main(arguments) == 0, capsys.readouterr().err
    store = Activations(tmp_path / "out" / ODD / "eng")
    assert len(store.index(["id"])["id"]) == store.n > 1 and len(store.layer(1)) == store.n
    assert main(arguments) == 0  # and comes back to it


def test_tensors_and_tokenisers_are_read_from_folders_of_any_name(copy_of, originals):
    folder = copy_of("bert", ODD)
    found, expected = (
        load_tensors(folder / "model.safetensors"),
        load_file(originals["bert"] / "model.safetensors"),
    )
    assert found.keys() == expected.keys() and all(
        torch.equal(found[name], expected[name]) for name in found
    )
    assert load_tokenizer(folder).get_vocab() == load_tokenizer(originals["bert"]).get_vocab()


def test_a_training_may_lie_in_a_folder_of_any_name_and_resumes_there(toy, stopped_at, undisturbed):
    folder = stopped_at(toy, 25, ODD)
    train(toy, folder, resume=True)
    found, expected = (
        load_tensors(Path(run) / "model" / "model.safetensors") for run in (folder, undisturbed)
    )
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def lacking(folder, only_pairs=False):
    """Take the special tokens out of what the tokeniser knows how to put around a text."""
    path = folder / "tokenizer.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}]
        if only_pairs
        else [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}],
        "pair": [
            {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "special_tokens": {},
    }
    path.write_text(json.dumps(told), encoding="utf-8")
    return folder


def test_a_tokeniser_that_lacks_a_token_it_adds_is_refused(copy_of):
    folder = lacking(copy_of("ours"))
    for load in (load_encoder, load_scorer):
        with pytest.raises(
            InputError,
            match=(
                "expected a tokeniser that takes every text, got a panic of the library .*; check "
                "its token"
            ),
        ):
            load(str(folder))


def test_one_that_lacks_it_for_pairs_alone_is_refused_when_they_come(copy_of):
    encoder = load_encoder(str(lacking(copy_of("ours"), only_pairs=True)))
    first, second = (Corpus("eng", TEXT, ["a", "b"], "x.txt") for _ in range(2))
    locate(encoder, first, range(2), Reading("sentence"))
    with pytest.raises(
        InputError, match="expected a tokeniser that takes every text, got a panic of the library"
    ):
        locate(encoder, first, range(2), Reading("pair"), second)


def test_what_is_no_panic_passes_unchanged():
    for kind in (KeyboardInterrupt, SystemExit, ValueError):
        with pytest.raises(kind), panics_as_errors():
            raise kind("x")


def test_ids_beyond_the_models_table_are_refused_wherever_they_come_up(copy_of, tmp_path):
    folder = copy_of("ours")
    path = folder / "tokenizer.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["added_tokens"].append(
        {
            **told["added_tokens"][0],
            "id": len(told["model"]["vocab"]),
            "content": "zebra",
            "special": False,
        }
    )
    path.write_text(json.dumps(told), encoding="utf-8")
    encoder = load_encoder(str(folder))  # a token that does not come up does no harm
    corpus = Corpus("eng", ["the cat", "a zebra"], ["a", "b"], "x.txt")
    with pytest.raises(InputError, match=r"encoder encoder: .*got \d+ for 'zebra'"):
        extract(encoder, corpus, tmp_path / "store")
    with pytest.raises(InputError, match="expected token ids below"):
        load_scorer(str(folder)).score_sentences(["a zebra"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_terminal_without_unicode_takes_folders_with_it(copy_of, tmp_path, locale):
    folder = copy_of("bert", "modèle")
    (tmp_path / "texte é.txt").write_text("\n".join(TEXT) + "\n")
    command = [
        sys.executable,
        "-m",
        "crosslens.cli.main",
        "extract",
        "--encoder",
        str(folder),
        "--text",
        f"eng={tmp_path}/texte é.txt",
        "--out",
        f"{tmp_path}/été",
    ]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))
    } | locale
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert Activations(tmp_path / "été" / "eng").n == 2
