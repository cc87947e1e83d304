"""Mapped transfer: an encoder that is another one rotated is read as well as that one; what is
measured beside it, resuming, and what is refused."""

import copy
import dataclasses
import json
import re

import numpy as np
import pytest
import test_transfer
import torch
from derived_models import derived_model
from test_transfer import ENCODER, TOWNS, found, ner_lines, write
from xlm_models import save_xlm

from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.models.extraction.extract import extract
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.pretrained import PretrainedEncoder
from crosslens.report.export import export_run
from crosslens.report.pages.page import render_report
from crosslens.run.transfer import mapped_transfer as run_module
from crosslens.run.transfer.mapped_transfer import MappedTransfer, run_mapped_transfer, summary
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.word_maps import learn_map
from crosslens.score import read_scores

data, trees = test_transfer.data, test_transfer.trees


def rotate(encoder):
    """The same encoder, the states of each layer rotated by a matrix of its own."""
    rng, other = np.random.default_rng(0), copy.copy(encoder)
    turns = [np.linalg.qr(rng.normal(size=(other.d, other.d)))[0] for _ in range(other.layers)]
    other.turns = [torch.tensor(turn, dtype=torch.float32) for turn in turns]
    other.fingerprint, other.__class__ = "rotated", Rotated
    return other


class Rotated(PretrainedEncoder):
    def states(self, *given, **more):
        hidden = super().states(*given, **more)["hidden"]
        return {"hidden": [state @ turn for state, turn in zip(hidden, self.turns, strict=True)]}


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(ENCODER)


@pytest.fixture(scope="module")
def parallel(tmp_path_factory):
    """A text, twice, and the links of each word with itself."""
    folder = tmp_path_factory.mktemp("parallel")
    lines = [
        f"{name} {n} lives in {TOWNS[n % 4]} with the {animal} of house {n * 7}"
        for n in range(30)
        for name, animal in ((f"Person{n}", "dog"), ("Ada", "bird"))
    ]
    write(folder / "text", lines)
    write(folder / "links", [" ".join(f"{i}-{i}" for i in range(10)) for _ in lines])
    return folder


def told(data, parallel, **changes):
    options = {"encoders": [ENCODER], "tasks": ["ner"], "data": str(data), "train": ["en_ewt"]}
    options |= {"test": ["en_ewt", "de_pud"], "features": "transformer", "seeds": 2}
    options |= {"epochs": 4, "batch_size": 8, "peak_rate": 1e-3}
    mapped = {"target": ENCODER, "layers": [2, 4], "links": str(parallel / "links")}
    mapped["texts"] = {name: str(parallel / "text") for name in ("eng", "deu")}
    mapped |= {name: changes.pop(name) for name in list(changes) if name in mapped}
    return MappedTransfer(transfer=Transfer(**{**options, **changes}), **mapped)


@pytest.fixture(scope="module")
def rotated(data, parallel, encoder, tmp_path_factory):
    """A run whose target encoder is the source rotated; its test items are those of the source."""
    german = [*ner_lines(12, 32)]
    write(data / "ner" / "de_pud-ud-test.iob2", german)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run_module, "load_both", lambda _: (encoder, rotate(encoder)))
        return run_mapped_transfer(told(data, parallel), tmp_path_factory.mktemp("runs") / "run")


def test_a_rotated_encoder_is_read_as_the_one_it_was_made_from(rotated):
    """Golden check 12, through a whole run: the map undoes the rotation."""
    told = {"part": "test", "counted_as": "strict"}
    for layer in (2, 4):
        by = {row.condition: row for row in found(rotated, quantity="span_f1", layer=layer, **told)}
        own, mapped, unmapped = by[None], by["procrustes"], by["unaligned"]
        assert mapped.value == own.value > 0.5 and unmapped.value < own.value - 0.2
        assert (own.target, mapped.target) == ("eng", "deu")
        (gap,) = found(rotated, quantity="span_f1_difference", layer=layer, **told)
        assert gap.value == pytest.approx(mapped.value - unmapped.value)
        assert mapped.details["over_seeds"]["seeds"] == [0, 1]
        assert (mapped.details["fitted_on"], mapped.details["dimensions"]) == (600, 128)


def test_it_is_exported(rotated, tmp_path):
    names = {path.name for path in export_run(rotated, tmp_path / "out")}
    assert {"scores.csv", "tables.tex", "tables.md"} <= names


def test_its_page_shows_each_layer_and_says_where_the_map_serves(rotated):
    page = render_report(rotated)
    assert page == render_report(rotated)
    (layers,) = re.findall(r"Clearly better with the map at layers ([\d, ]+)", page)
    assert layers == "2, 4" and "Clearly worse" not in page
    rows = {row.condition: row for row in found(rotated, quantity="span_f1", layer=4, part="test")}
    assert f"{rows['procrustes'].value:.3f}" in page and "600" in page
    label = re.search(r'aria-label="(span F1|F1)[^"]* by layer: ([^"]*)"', page)
    assert label and label[2] == "English, source encoder, German, no map, German, mapped"
    assert "asked for" in page  # where a setting is from


def test_a_run_that_is_not_finished_has_no_page(rotated, tmp_path):
    (tmp_path / "config.json").write_bytes((rotated / "config.json").read_bytes())
    with pytest.raises(InputError, match="a finished run of crosslens mapped-transfer"):
        render_report(tmp_path)


def test_only_scores_and_outcomes_are_left_and_each_layer_has_a_row(rotated):
    assert not {"states", "words", "models"} & {path.name for path in rotated.iterdir()}
    rows = summary(list(read_scores(rotated / "scores.jsonl")))
    assert [row[0] for row in rows] == ["layer", "2", "4"] and len({len(row) for row in rows}) == 1
    (majority, *_) = found(rotated, condition="majority", target="deu", part="test")
    assert majority.layer is None


def test_the_map_of_a_layer_is_the_rotation_itself(encoder, parallel):
    other = rotate(encoder)
    lines = (parallel / "text").read_text().splitlines()
    mine, theirs = (extract(one, lines, unit="word", language="eng") for one in (encoder, other))
    links = np.array([(row, i, i) for row in range(len(lines)) for i in range(10)])
    for layer in (0, 3):
        learnt = learn_map(mine, theirs, links, len(lines), layer)
        x = mine.layer(layer)[:40]
        np.testing.assert_allclose(
            learnt.of_target(x @ other.turns[layer].numpy()), learnt.of_source(x), atol=1e-4
        )
        assert np.allclose(np.linalg.norm(learnt.of_source(x), axis=1), 1, atol=1e-5)
    with pytest.raises(InputError, match="links: expected links of words that both encoders"):
        learn_map(mine, theirs, links[:0], len(lines), 0)


def test_one_encoder_for_both_is_measured_without_and_with_a_map(
    data, parallel, tmp_path, capsys, monkeypatch
):
    """By the command, and resumed to the same scores by Python's call."""
    monkeypatch.setenv("COLUMNS", "120")
    arguments = ["--encoder", ENCODER, "--target-encoder", ENCODER, "--task", "ner"]
    arguments += ["--train", "en_ewt", "--test", "de_pud", "--data", str(data), "--layers", "4"]
    arguments += ["--text", f"eng={parallel / 'text'}", f"deu={parallel / 'text'}"]
    arguments += ["--links", str(parallel / "links"), "--out", str(tmp_path / "run")]
    arguments += ["--seeds", "1", "--epochs", "2", "--batch-size", "8", "--peak-rate", "1e-3"]
    assert main(["mapped-transfer", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "deu, mapped" in printed and printed.splitlines()[1].split()[0] == "4"
    (own,) = found(tmp_path / "run", quantity="accuracy", condition=None, layer=4, part="test")
    for condition in ("unaligned", "procrustes"):
        rows = found(tmp_path / "run", quantity="accuracy", condition=condition, layer=4)
        assert [row.encoder for row in rows] == [own.encoder]
    before = (tmp_path / "run" / "scores.jsonl").read_bytes()
    assert (tmp_path / "run" / "report.html").is_file()
    again = ["--config", str(tmp_path / "run"), "--out", str(tmp_path / "again")]
    assert main(["mapped-transfer", *again]) == 0
    assert (tmp_path / "again" / "scores.jsonl").read_bytes() == before
    one = told(data, parallel, layers=[4], seeds=1, epochs=2)
    assert (
        run_mapped_transfer(one, tmp_path / "run").joinpath("scores.jsonl").read_bytes() == before
    )


def test_trees_are_parsed_through_a_map(trees, parallel, tmp_path):
    changes = {"tasks": ["parsing"], "train": ["eng"], "test": ["eng", "deu"], "epochs": 1}
    one = told(trees, parallel, layers=[3], seeds=1, **changes)
    folder = run_mapped_transfer(one, tmp_path / "run")
    rows = found(folder, quantity="las", layer=3, part="test", counted_as="wu_dredze")
    assert [row.condition for row in rows] == [None, "unaligned", "procrustes"]
    assert rows[1].n == rows[2].n == 5 * 9 and rows[0].n == 5 * 12
    assert {row.n for row in found(folder, part="dev")} == {5 * 8}


def test_a_run_that_was_stopped_ends_in_the_same_scores(
    data,
    parallel,
    tmp_path,
    monkeypatch,
):
    one = told(data, parallel, layers=[1, 3], seeds=1, epochs=1)
    whole = run_mapped_transfer(one, tmp_path / "whole")
    compute = run_module._compute

    def stopping(work, layer, seed):
        if layer == 3:
            raise KeyboardInterrupt
        return compute(work, layer, seed)

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "_compute", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_mapped_transfer(one, tmp_path / "run")
    again = run_mapped_transfer(one, tmp_path / "run")
    for name in ("scores.jsonl", "outcomes.parquet"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"texts": {"eng": "text"}}, "--text: expected a text of each language"),
        ({"test": ["en_ewt", "en_ewt"]}, "--test: expected another language"),
        ({"texts": {"deu": "text", "eng": "text"}}, "--text: expected a text in eng, that of"),
        ({"texts": {"eng": "text", "fra": "text"}}, "--text: .*, got eng, fra; give both"),
        ({"layers": [9]}, "layers: expected from 0 to 4"),
        ({"layers": []}, r"layers: expected whole numbers of layers, each once, got \[\]"),
        ({"layers": [4, 4]}, r"layers: .*got \[4, 4\]"),
        ({"layers": [1.5]}, "layers: expected whole numbers"),
        ({"layers": ["4"]}, "layers: expected whole numbers"),
        ({"layers": 4}, "layers: expected whole numbers of layers, each once, got 4"),
        ({"links": "short"}, "--links: expected a line for each pair of sentences"),
        ({"tasks": ["nothing"]}, "^task: expected one that can be fine-tuned"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    data,
    parallel,
    tmp_path,
    changes,
    match,
):
    write(tmp_path / "short", ["0-0"])
    if "links" in changes:
        changes = {"links": str(tmp_path / "short")}
    with pytest.raises(InputError, match=match):
        run_mapped_transfer(told(data, parallel, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_language_that_an_encoder_lacks_is_refused_before_anything_is_written(
    data, parallel, tmp_path, side
):
    encoder, option, got = {
        "source": (save_xlm, "--train", r"\(fr, zh\), got 'eng'"),
        "target": (derived_model, "--test", r"\(eng, eng-x\), got 'deu'"),
    }[side]
    how = {"languages": ("fr", "zh")} if side == "source" else {"by": "inversion"}
    path = str(encoder(tmp_path / "model", **how))
    changes = {"encoders": [path]} if side == "source" else {"target": path}
    with pytest.raises(
        InputError, match=f"{option}: expected languages that encoder model has {got}"
    ):
        run_mapped_transfer(told(data, parallel, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_encoders_of_other_shapes_are_refused(data, parallel, small_encoder, tmp_path):
    one = dataclasses.replace(told(data, parallel), target=str(small_encoder))
    with pytest.raises(InputError, match="target encoder: expected an encoder with 4 layers"):
        run_mapped_transfer(one, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_was_asked_and_where_settings_are_from_is_kept(rotated):
    config = json.loads((rotated / "config.json").read_text())
    assert config["kind"] == "mapped_transfer" and config["settings"]["layers"] == [2, 4]
    assert config["sources"]["ner"]["peak_rate"] == "asked for"
    assert config["settings"]["values"]["ner"]["features"] == "transformer"
