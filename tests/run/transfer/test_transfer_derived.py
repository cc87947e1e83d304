"""Transfer to derived languages: the zero-shot score on the copy, beside that of a training in it
and of an encoder of the original alone."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from battery_data import write
from derived_models import derived_model
from test_transfer import found, ner_lines, pair_lines
from test_transfer_answers import questions
from xlm_models import save_xlm

from crosslens.cli.main import main
from crosslens.errors import InputError, OutputError
from crosslens.files import read_json
from crosslens.outcomes import read_outcomes
from crosslens.probes.methods.span_scores import count_spans
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.recipes.quickstart import DATA
from crosslens.run.transfer import fits as transfer_fits
from crosslens.run.transfer.data import transfer_data
from crosslens.run.transfer.derived import readings_of
from crosslens.run.transfer.mapped_transfer import MappedTransfer, run_mapped_transfer
from crosslens.run.transfer.measures import Answers, in_order
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.splits import Split
from crosslens.run.transfer.summary import tables
from crosslens.run.transfer.transfer import run_transfer
from crosslens.score import read_scores

TINY = str(DATA / "tiny-encoder")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("ner", "xnli"):
        (folder / name).mkdir()
    for split, n, start in (("train", 16, 0), ("dev", 4, 16), ("test", 8, 20)):
        write(folder / "ner" / f"en_ewt-ud-{split}.iob2", list(ner_lines(n, start)))
        write(folder / "xnli" / f"{split}-en.tsv", list(pair_lines(n, start)))
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folder of a model for each derivation; copies have the rows of the original."""
    place, made = tmp_path_factory.mktemp("models"), {}

    def model(by, **changes):
        key = by, *sorted(changes.items())
        if key not in made:
            made[key] = str(derived_model(place / f"model{len(made)}", by, copied=True, **changes))
        return made[key]

    return model


def settings(data, *encoders, **changes):
    told = {
        "encoders": list(encoders),
        "tasks": ["ner"],
        "data": str(data),
        "train": ["eng"],
        "test": ["eng", "eng-x"],
        "epochs": 2,
        "batch_size": 8,
        "peak_rate": 1e-2,
        "seeds": 1,
        "random_control": False,
        "checkpoints": False,
    }
    return Transfer(**{**told, **changes})


@pytest.fixture(scope="module")
def finished(data, models, tmp_path_factory):
    told = settings(data, models("transliteration"), freeze=[0], in_language=True)
    folder = tmp_path_factory.mktemp("runs") / "run"
    return run_transfer(told, folder), told


def test_rows_that_are_copied_and_stay_give_the_predictions_of_the_original(finished):
    folder, _ = finished
    one, other = (
        [o for o in read_outcomes(folder, target=target, suite="dev") if o.condition is None]
        for target in ("eng", "eng-x")
    )
    assert len(one) == len(other) == 4  # three readings of names, and accuracy
    for a, b in zip(one, other, strict=True):
        for name in ("predicted", "gold", "outcome", "of", "item_id"):
            assert getattr(a, name).tolist() == getattr(b, name).tolist()


def test_trained_in_the_derived_language_it_has_a_difference(finished):
    folder, _ = finished
    (own, *_) = found(folder, condition="in_language", part="test")
    assert (own.source, own.target) == ("eng-x", "eng-x")
    (gap, *_) = found(folder, condition="zero_shot_less_in_language")
    (zero, *_) = found(folder, condition=None, target="eng-x", part="test")
    assert gap.value == pytest.approx(zero.value - own.value)
    assert gap.target == "eng-x" and zero.n == own.n


def test_the_run_says_how_it_is_derived_and_shows_no_overlap_of_its_words(finished):
    folder, _ = finished
    told = read_json(folder / "config.json", dict)["settings"]["derived"]
    assert [*told.values()] == [{"eng-x": {"of": "eng", "by": "transliteration", "seed": 0}}]
    shown = {
        title: rows for title, rows, _ in tables(folder, list(read_scores(folder / "scores.jsonl")))
    }
    assert shown["Settings, ner"][-1][:2] == ("eng-x", "eng by transliteration, seed 0")
    assert {s.target for s in found(folder, condition="predictor")} == {"eng"}


def test_names_are_counted_in_the_order_of_the_language(data, models, tmp_path):
    told = settings(data, models("inversion"), train=["eng-x"], test=["eng", "eng-x"], epochs=5)
    folder = run_transfer(told, tmp_path / "run")
    plain, turned = (
        read_outcomes(folder, quantity="span_f1", method="strict", target=target)[0]
        for target in ("eng", "eng-x")
    )
    assert plain.gold[0] == "B-PER I-PER O O B-LOC"
    assert turned.gold[0] == "B-LOC O O B-PER I-PER"
    assert plain.item_id.tolist() == turned.item_id.tolist()
    assert turned.mean > 0.5  # it is learnt where it is asked for
    (score, *_) = found(folder, target="eng-x", quantity="span_f1", part="test", condition=None)
    assert score.n == 16
    assert "B-" not in (folder / "examples.jsonl").read_text(encoding="utf-8")


def test_windows_that_are_examples_of_their_own_are_counted_in_the_order():
    gold, predicted = ["B-PER", "I-PER", "I-PER", "O"], ["O", "B-PER", "B-PER", "O"]
    split = Split("eng-x", ["a b c d"], [gold], np.arange(1))
    windows = [[np.array([0, 1]), np.array([2, 3])]]
    found = in_order(split, Answers([predicted], windows=windows), [np.array([1, 0, 3, 2])])
    assert found.gold == [["B-PER", "I-PER", "O", "B-PER"]]
    assert found.labels == [["B-PER", "O", "O", "B-PER"]]
    assert [rows.tolist() for rows in found.windows[0]] == [[0, 1], [2, 3]]
    counts = count_spans(found.gold, found.labels, "wu_dredze", found.windows)
    assert (counts.found.tolist(), counts.of.tolist()) == ([2.0], [4.0])


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Questions without splits."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "xquad").mkdir()
    (folder / "xquad" / "xquad.en.json").write_text(questions("en", 20))
    return folder


@pytest.mark.parametrize("task", ["ner", "xquad"])
def test_the_test_items_are_those_of_the_original(data, asked, task):
    folder, told = DataFolder(asked if task == "xquad" else data), {"data_of": {"eng-x": "eng"}}
    both = transfer_data(task, folder, ["eng"], ["eng", "eng-x"], limit=4, **told)
    one, other = both.tests.values()
    assert [*both.tests] == ["eng", "eng-x"] and list(one.texts) == list(other.texts)
    assert [one.language, one.original] == ["eng", ""]
    assert [other.language, other.original] == ["eng-x", "eng"]
    alone = transfer_data(task, folder, ["eng-x"], ["eng-x"], limit=4, **told)
    assert list(alone.tests["eng-x"].texts) == list(other.texts)
    assert alone.train[0].language == "eng-x"
    seen = {group for split in (*both.train, *both.dev) for group in split.groups.tolist()}
    assert not seen & {*other.groups.tolist()}


@pytest.mark.parametrize("unseen", ["unknown", pytest.param("random", marks=pytest.mark.slow)])
def test_an_encoder_of_the_original_alone_is_given_what_it_can_read(data, tmp_path, unseen):
    told = settings(
        data,
        TINY,
        tasks=["xnli"],
        test=["eng-x"],
        derived={"eng-x": "eng:transliteration"},
        unseen=unseen,
        epochs=1,
    )
    folder = run_transfer(told, tmp_path / "run")
    (one,) = read_outcomes(folder, quantity="accuracy", target="eng-x")
    if unseen == "unknown":  # premises and hypotheses are of one length in these data
        assert len({*one.predicted.tolist()}) == 1
    kept = read_json(folder / "config.json", dict)
    assert kept["settings"]["derived"]["tiny-encoder"]["eng-x"]["unseen"] == unseen
    assert kept["asked"]["derived"] == {"eng-x": "eng:transliteration"}
    rows = [
        row
        for _, rows, _ in tables(folder, list(read_scores(folder / "scores.jsonl")))
        for row in rows
    ]
    said = {"unknown": "the unknown token", "random": "new rows with random weights"}[unseen]
    assert any(row[0] == "eng-x" and said in row[1] for row in rows)
    other = {"unknown": "random", "random": "unknown"}[unseen]
    with pytest.raises(OutputError, match="derived"):
        run_transfer(dataclasses.replace(told, unseen=other), folder)


@pytest.mark.slow
def test_both_encoders_are_compared_on_the_derived_language(data, models, tmp_path):
    command = ["transfer", "--encoder", models("inversion"), "--encoder", TINY, "--tasks", "xnli"]
    command += [
        "--train",
        "eng",
        "--test",
        "eng-x",
        "--data",
        str(data),
        "--out",
        str(tmp_path / "run"),
    ]
    command += ["--seeds", "1", "--epochs", "1", "--no-random-control", "--no-checkpoints"]
    assert main(command) != 0  # nobody says what eng-x is to the second
    assert main([*command, "--derived", "eng-x=eng:inversion"]) == 0
    (gap,) = found(tmp_path / "run", condition="encoders")
    assert gap.target == "eng-x" and gap.encoder.endswith("/ tiny-encoder")


def test_a_run_that_was_stopped_ends_in_the_same_scores(data, models, tmp_path, monkeypatch):
    told = settings(data, models("permutation", seed=5), in_language=True, epochs=1)
    whole = run_transfer(told, tmp_path / "whole")
    compute, calls = transfer_fits._compute, []

    def stopping(*arguments):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return compute(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(transfer_fits, "_compute", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_transfer(told, tmp_path / "run")
    again = run_transfer(told, tmp_path / "run")
    for name in ("scores.jsonl", "outcomes.parquet", "examples.jsonl"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize(
    ("by", "changes", "match"),
    [
        ("old", {}, r"eng-x: expected how this language is derived, got no word .*--derived eng-x="),
        ("none", {}, r"eng-x: expected how this language is derived"),
        ("none", {"derived": {"eng-x": "inversion"}}, r"derived: expected ORIGINAL:TRANSFORM"),
        ("none", {"derived": {"eng-x": "fra:inversion"}}, "task ner: expected a language of the data"),
        ("none", {"derived": {"eng-y": "eng:inversion"}}, "--derived: expected languages that are"),
        ("inversion", {"derived": {"eng-x": "eng:permutation"}}, "--derived: expected eng-x=eng:inv"),
        ("inversion", {"derived": {"eng-x": "eng:inversion@7"}}, "--derived: expected eng-x=eng:inversion, as .*@7"),
        ("inversion", {"crf": True}, "--crf: expected languages whose words keep their order"),
        ("none", {"unseen": "nothing"}, "--unseen: expected one of unknown, random"),
        ("none", {"unseen": "random", "keep": True}, "--keep: expected no --keep with random"),
        ("inversion", {"keep": True}, "--keep: expected encoders that transformers loads, got .*views/eng"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_before_anything_is_written(
    data, models, tmp_path, by, changes, match
):
    encoders = {"old": lambda: models("transliteration", told=False), "none": lambda: TINY}
    with pytest.raises(InputError, match=match):
        encoder = encoders.get(by, lambda: models(by))()
        run_transfer(settings(data, encoder, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["ours", "xlm"])
@pytest.mark.parametrize("option", ["train", "test"])
def test_a_language_that_an_encoder_lacks_is_refused_before_anything_is_trained(
    data, models, tmp_path, kind, option
):
    shutil.copytree(data, tmp_path / "data")
    for split in ("train", "dev", "test"):
        write(tmp_path / "data" / "xnli" / f"{split}-de.tsv", list(pair_lines(8, 40)))
    encoder = models("inversion") if kind == "ours" else str(save_xlm(tmp_path / "xlm"))
    languages = {"train": ["eng"], "test": ["eng"], option: ["eng", "deu"]}
    told = settings(tmp_path / "data", encoder, tasks=["xnli"], **languages)
    with pytest.raises(
        InputError,
        match=rf"--{option}: expected languages that encoder .* has \(en.*got 'deu'; leave",
    ):
        run_transfer(told, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_old_folder_is_read_once_it_is_told(data, models):
    folder = models("transliteration", told=False)
    derived = {"eng-x": "eng:transliteration"}
    found = readings_of(settings(data, folder, derived=derived), folder, Path(folder))
    assert found["eng-x"].told == "eng-x" and found["eng-x"].unseen is None  # it has its rows
    alone = readings_of(settings(data, TINY, derived=derived), TINY, Path(TINY))
    assert alone["eng-x"].told == "eng" and alone["eng-x"].unseen == "unknown"


def test_answers_are_tested_turned_round_and_refused_torn_apart(asked, models, tmp_path):
    told = settings(asked, models("inversion"), tasks=["xquad"], epochs=1, max_length=40)
    folder = run_transfer(told, tmp_path / "run")
    (one,) = read_outcomes(folder, quantity="exact_match", target="eng-x", method="squad")
    assert all(text for text in one.predicted.tolist())
    (two,) = read_outcomes(folder, quantity="exact_match", target="eng-x", method="mlqa")
    assert len(two) == len(one)  # the articles of English
    told = settings(asked, models("permutation"), tasks=["xquad"])
    with pytest.raises(InputError, match=r"task xquad: expected a language in which answers stay"):
        run_transfer(told, tmp_path / "other")


def test_mapped_transfer_has_no_derived_languages(data, tmp_path):
    transfer = settings(data, TINY)
    told = MappedTransfer(
        transfer=transfer, target=TINY, texts={"eng": "a", "eng-x": "b"}, links="l"
    )
    with pytest.raises(InputError, match="languages: expected those with data of their own"):
        run_mapped_transfer(told, tmp_path / "run")
