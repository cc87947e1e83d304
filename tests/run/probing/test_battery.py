"""A battery from data sets to measurements: completeness, references, what is refused before any
work, and life after kill -9."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from battery_data import LANGUAGES, NOUNS, PARTS, make_data, write
from declared import misdeclared
from safetensors.numpy import load_file, save_file
from scipy.stats import spearmanr
from tests_run_helpers import other_encoder
from transformers import AutoModel, AutoTokenizer

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.errors import InputError, OutputError
from crosslens.models.saved import loading
from crosslens.models.scoring import cloze
from crosslens.outcomes import read_outcomes
from crosslens.probes.methods.linear.linear import LinearProbe
from crosslens.readers.labelled_text import first_two_sentences
from crosslens.run.probing.battery import Battery, run_battery
from crosslens.run.probing.summary import (
    coverage_table,
    summary_notes,
    summary_table,
    tables,
    test_table,
)
from crosslens.score import Score, read_scores

test_table.__test__ = False  # a table of tests, and none itself
LAYERS = 3
TASKS = (
    "wic",
    "scws",
    "topic",
    "minimal_pairs",
    "blimp",
    "upos",
    "feature_Number",
    "structural_depth",
    "language_id",
)
DETAILS = ("hits", "cosines", "ratings")  # of items, for the paired tests alone


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(small_encoder, data, tmp_path_factory):
    battery = Battery(encoders=[str(small_encoder)], battery="all", only=TASKS, data=str(data))
    return run_battery(battery, tmp_path_factory.mktemp("runs") / "all"), battery


@pytest.fixture(scope="module")
def scores(finished):
    return list(read_scores(finished[0] / "scores.jsonl"))


def test_what_stands_beside_scores_is_what_is_declared(scores):
    assert misdeclared(scores) == []


@pytest.fixture(scope="module")
def headless(small_encoder, tmp_path_factory):
    """The same encoder without the head that fills in blanks."""
    folder = tmp_path_factory.mktemp("headless") / "headless"
    shutil.copytree(small_encoder, folder)
    weights = load_file(folder / "model.safetensors")
    kept = {name: array for name, array in weights.items() if not name.startswith("cls")}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def found(scores, **wanted):
    """Measurements with these fields; fields of details may be named as well."""
    fields = ("quantity", "task", "layer", "condition", "encoder")
    return [
        s
        for s in scores
        if all(
            (getattr(s, name) if name in fields else (s.details or {}).get(name)) == value
            for name, value in wanted.items()
        )
    ]


def only(scores, **wanted):
    (score,) = found(scores, **wanted)
    return score


def test_every_measurement_stands_beside_its_controls(scores):
    met = {}
    for s in scores:
        if s.condition != "paired_test":
            met.setdefault(s.task, set()).add((s.quantity, s.condition))
    probed = {("accuracy", c) for c in (None, "random_encoder", "majority")} | {
        ("macro_f1", c) for c in (None, "random_encoder")
    }
    probed |= {("selectivity", None)}
    words = probed | {
        ("accuracy", "control_task"),
        ("accuracy", "word_majority"),
        ("macro_f1", "word_majority"),
    }
    sentences = probed | {("accuracy", "shuffled_labels")}
    surface = {
        (quantity, c)
        for quantity in ("accuracy", "macro_f1")
        for c in ("character_ngrams", "fasttext")
    }
    pairs = {(q, c) for q in ("accuracy", "macro_accuracy") for c in (None, "random_encoder")}
    assert met == {
        "wic": {("accuracy", c) for c in (None, "random_encoder", "majority", "shuffled_labels")},
        "scws": {("spearman", c) for c in (None, "random_encoder")},
        "topic": sentences,
        "language_id": sentences | surface,
        "upos": words,
        "feature_Number": words,
        "structural_depth": {
            (q, c)
            for q in ("root_accuracy", "depth_spearman")
            for c in (None, "random_encoder", "word_order")
        },
        "minimal_pairs": pairs,
        "blimp": pairs,
    }


def test_every_layer_is_measured_and_every_number_is_told_with_its_n(scores):
    for task in ("upos", "language_id", "structural_depth", "scws"):
        assert {s.layer for s in found(scores, task=task, condition=None)} == set(range(LAYERS))
    assert all((s.n > 0) != np.isnan(s.value) or "reason" in s.details for s in scores) and {
        s.seed for s in scores
    } == {0}
    rounding = 1e-12
    assert all(
        s.low - rounding <= s.value <= s.high + rounding
        for s in scores
        if s.low is not None and not np.isnan(s.value)
    )
    assert {s.encoder for s in scores} == {"small-encoder", None}
    assert {s.condition for s in scores if s.encoder is None} == {"character_ngrams", "fasttext"}
    assert not [s for s in scores if any(name in (s.details or {}) for name in DETAILS)]


def test_every_score_of_items_follows_from_the_outcomes_beside_it(finished, scores):
    """Layers, controls and baselines alike; cosines give their correlation with the ratings."""
    met = set()
    for one in read_outcomes(finished[0]):
        mine = {
            "task": one.task,
            "encoder": one.encoder,
            "condition": one.condition,
            "layer": one.layer,
            "quantity": one.quantity,
        }
        mine |= (
            {"average": "all pairs"} if one.task in ("minimal_pairs", "blimp") else {"part": "test"}
        )
        mine |= {} if one.condition == "majority" else {"representation": one.representation}
        score = only([s for s in scores if s.encoder == one.encoder], **mine)
        value = (
            spearmanr(one.outcome, one.gold.astype(float)).statistic
            if one.quantity == "spearman"
            else one.mean
        )
        assert value == pytest.approx(score.value) and one.measured.sum() == score.n
        met.add((one.task, one.condition))
    assert {task for task, _ in met} == {*TASKS}
    controls = {None, "random_encoder", "majority", "shuffled_labels"}
    assert {c for task, c in met if task == "language_id"} == {
        *controls,
        "character_ngrams",
        "fasttext",
    }
    assert {c for task, c in met if task == "topic"} == controls and ("upos", "control_task") in met


def test_a_test_of_one_s_own_is_as_short_as_the_document_says(finished, capsys):
    document = (Path(__file__).parents[3] / "docs" / "probes.md").read_text(encoding="utf-8")
    (code,) = [
        code
        for code in re.findall(r"^```python\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)
        if "read_outcomes" in code
    ]
    code = code.replace("runs/mine", str(finished[0])).replace("runs/other", str(finished[0]))
    exec(code.replace("layer=6", "layer=2").replace("layer=8", "layer=0"), {})
    assert f"n={PARTS['test'] * 8}, " in capsys.readouterr().out


def test_sizes_are_those_of_the_files(scores):
    assert {s.n for s in found(scores, task="language_id", quantity="accuracy", part="test")} == {
        PARTS["test"] * 3
    }
    assert {
        s.n for s in found(scores, task="topic", quantity="accuracy", condition=None, part="dev")
    } == {PARTS["dev"]}
    assert {s.n for s in found(scores, task="upos", quantity="accuracy", part="test")} == {
        PARTS["test"] * 8
    }
    upos, number = (
        only(scores, task=t, quantity="accuracy", condition=None, layer=0, part="test")
        for t in ("upos", "feature_Number")
    )
    assert upos.details["n_train"] == PARTS["train"] * 8 and upos.details["classes"] == 6
    assert number.n == PARTS["test"] * 3 and number.details["dropped"] == {
        "no such label": sum(PARTS.values()) * 5
    }
    assert {s.n for s in found(scores, task="wic", part="dev")} == {2 * PARTS["dev"]}


def test_the_words_probe_is_the_plain_one_on_the_stored_vectors(finished, scores):
    (folder,) = (finished[0] / "activations" / "small-encoder" / "encoder").glob("words-*")
    store = Activations(folder)
    index = store.index(["id", "upos"])
    part = np.array([name.split(":")[1].split("-")[0] for name in index["id"]])
    x, y = np.asarray(store.layer(1)), np.array(index["upos"])
    score = only(scores, task="upos", quantity="accuracy", condition=None, layer=1, part="test")
    probe = LinearProbe(C=score.details["penalty"]).fit(x[part == "train"], y[part == "train"])
    assert score.value == np.mean(probe.predict(x[part == "test"]) == y[part == "test"])
    majority = only(scores, task="upos", quantity="accuracy", condition="majority")
    assert majority.value == np.mean(y[part == "test"] == "NOUN") and majority.layer is None


def test_similarity_is_the_plain_loop_on_the_stored_vectors(finished, scores):
    first, second = (
        Activations(finished[0] / "activations" / "small-encoder" / "encoder" / f"scws-{n}")
        for n in ("first", "second")
    )
    cosines = []
    for u, v in zip(
        np.array(first.layer(2), np.float64), np.array(second.layer(2), np.float64), strict=True
    ):
        cosines.append(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
    expected = spearmanr(cosines, [(7 * i) % 10 for i in range(14)]).statistic
    score = only(scores, task="scws", condition=None, layer=2, representation="cosine")
    assert score.value == pytest.approx(expected, abs=1e-6) and score.n == 14


def test_each_text_is_encoded_once_by_the_encoder_and_once_by_its_control(finished):
    stores = {
        path.parent.relative_to(finished[0] / "activations").as_posix()
        for path in finished[0].rglob("manifest.json")
    }
    names = {store.split("/")[-1] for store in stores}
    (words,) = (name for name in names if name.startswith("words-"))  # of five tasks
    assert names == {
        "language_id",
        "topic",
        "wic-first",
        "wic-second",
        "wic-pairs",
        "scws-first",
        "scws-second",
        words,
    }
    assert stores == {
        f"small-encoder/{condition}/{name}"
        for condition in ("encoder", "random_encoder")
        for name in names
    }


def test_topics_are_those_of_the_english_sentences(finished, scores, data):
    store = Activations(finished[0] / "activations" / "small-encoder" / "encoder" / "language_id")
    lines = [
        line.split("\t")
        for line in (data / "sib200" / "sib200.tsv").read_text(encoding="utf-8").splitlines()[1:]
    ]
    rows = {
        part: [i for i, line in enumerate(lines) if line[:2] == [part, "eng_Latn"]]
        for part in PARTS
    }
    y, x = np.array([line[3] for line in lines]), np.asarray(store.layer(2))
    score = only(scores, task="topic", quantity="accuracy", condition=None, layer=2, part="test")
    probe = LinearProbe(C=score.details["penalty"]).fit(x[rows["train"]], y[rows["train"]])
    assert score.value == np.mean(probe.predict(x[rows["test"]]) == y[rows["test"]])


def test_languages_are_told_apart_and_their_confusion_is_kept(scores):
    best = max(
        found(scores, task="language_id", quantity="accuracy", condition=None, part="dev"),
        key=lambda s: (s.value, -s.layer),
    )
    score = only(
        scores,
        task="language_id",
        quantity="accuracy",
        condition=None,
        part="test",
        layer=best.layer,
    )
    assert score.low > 1 / 3  # tokens alone do it
    assert score.details["confusion"]["labels"] == sorted(LANGUAGES) and set(
        score.details["f1"]
    ) == set(LANGUAGES)
    assert np.trace(score.details["confusion"]["counts"]) == round(score.value * score.n)


def test_languages_are_told_apart_with_the_paper_s_settings(small_encoder, tmp_path):
    folder = tmp_path / "data" / "wili-2018"
    folder.mkdir(parents=True)
    texts = {
        part: [
            f"The {NOUNS[i % 6]} is {part}. A {NOUNS[i % 5]} {i}!" if i % 3 else f"alone {i}"
            for i in range(n)
        ]
        for part, n in PARTS.items()
    }
    for part in ("train", "test"):
        write(folder / f"x_{part}.txt", texts[part])
        write(folder / f"y_{part}.txt", [("deu", "eng")[i % 2] for i in range(len(texts[part]))])
    battery = Battery(
        encoders=[str(small_encoder)],
        battery="language",
        only=["language_id_paper"],
        data=str(tmp_path / "data"),
        mdl=True,
    )
    run = run_battery(battery, tmp_path / "run")
    store = run / "activations" / "small-encoder" / "encoder" / "language_id_paper"
    tokenizer, model = (
        AutoTokenizer.from_pretrained(small_encoder),
        AutoModel.from_pretrained(small_encoder).eval(),
    )
    for i, text in enumerate(texts["train"]):
        first, second = first_two_sentences(text)
        with torch.no_grad():
            states = model(
                **tokenizer(*([first, second] if second else [first]), return_tensors="pt"),
                output_hidden_states=True,
            ).hidden_states
        np.testing.assert_allclose(
            Activations(store).layer(LAYERS - 1)[i], states[-1][0].mean(0), atol=1e-5
        )
    scores = list(read_scores(run / "scores.jsonl"))
    assert {s.task for s in scores} == {"language_id_paper"} and not found(
        scores, quantity="codelength"
    )
    assert {s.condition for s in scores} >= {None, "majority", "random_encoder", "shuffled_labels"}
    for layer in range(LAYERS):
        (score,) = [
            s
            for s in found(scores, quantity="accuracy", layer=layer, condition=None)
            if s.details["part"] == "test"
        ]
        assert score.details["penalty"] is None and score.n == PARTS["test"]


def test_minimal_pairs_are_told_by_category_with_their_coverage(scores):
    rows = [
        s
        for s in found(scores, task="minimal_pairs", quantity="accuracy", condition=None)
        if "category" in s.details
    ]
    assert [(s.details["category"], s.details["pairs"]) for s in rows] == [
        ("simple agreement", 6),
        ("across a prepositional phrase", 6),
    ]
    (whole,) = found(
        scores, task="minimal_pairs", quantity="accuracy", condition=None, average="all pairs"
    )
    assert (
        whole.details["covered"] + sum(whole.details["dropped"].values()) == 12
        and whole.details["method"] == "single_mask"
    )
    assert whole.n == whole.details["covered"] == sum(s.n for s in rows) == 11
    averages = {
        s.details["average"]: s
        for s in found(scores, task="minimal_pairs", quantity="macro_accuracy", condition=None)
    }
    assert (
        np.isnan(averages["reflexive anaphora"].value)
        and "can be scored" in averages["reflexive anaphora"].details["reason"]
    )
    agreement = averages["subject-verb agreement"]
    assert agreement.n == 11 and averages["reflexive anaphora"].n == 0
    assert {s.details["method"] for s in found(scores, task="blimp")} == {"pll"}


def test_a_finished_run_is_not_computed_again(finished, monkeypatch):
    folder, battery = finished
    before = (folder / "scores.jsonl").read_bytes()
    monkeypatch.setattr(
        "crosslens.models.saved.loading.load_encoder", lambda *a, **k: pytest.fail("loaded again")
    )
    assert run_battery(battery, folder) == folder
    assert (folder / "scores.jsonl").read_bytes() == before and not (folder / "parts").exists()


def test_other_settings_or_data_are_refused_and_named(finished, data, tmp_path):
    folder, battery = finished
    with pytest.raises(
        OutputError, match=r"expected the same settings, got other ones \(seed: 0 there, 1 here\)"
    ):
        run_battery(dataclasses.replace(battery, seed=1), folder)
    other = shutil.copytree(data, tmp_path / "data")
    write(other / "wic" / "dev.gold.txt", ["T"] * 2 * PARTS["dev"])
    with pytest.raises(OutputError, match=r"files\.wic/dev\.gold\.txt: '\w+' there, '\w+' here"):
        run_battery(dataclasses.replace(battery, data=str(other)), folder)


def test_what_is_not_there_is_told_and_the_rest_is_measured(small_encoder, data, tmp_path):
    some = tmp_path / "data"
    shutil.copytree(data / "scws", some / "scws")
    folder = run_battery(
        Battery(encoders=[str(small_encoder)], battery="semantic", data=str(some)), tmp_path / "run"
    )
    missing = json.loads((folder / "config.json").read_text())["not_measured"]
    assert (
        set(missing) == {"wic", "topic"}
        and "wic/train.data.txt" in missing["wic"]
        and "sib200/sib200.tsv" in missing["topic"]
    )
    scores = list(read_scores(folder / "scores.jsonl"))
    assert {s.task for s in scores} == {"scws"}
    assert "Not measured: topic" in summary_notes(folder, scores)


def test_a_named_task_without_data_or_head_is_refused_before_anything_is_written(
    small_encoder, headless, data, tmp_path
):
    (tmp_path / "empty").mkdir()
    shutil.copytree(data / "scws", tmp_path / "some" / "scws")
    with pytest.raises(InputError, match=r"task wic: .*got no wic/train\.data\.txt"):
        run_battery(
            Battery(
                encoders=[str(small_encoder)],
                battery="all",
                only=["scws", "wic"],
                data=str(tmp_path / "some"),
            ),
            tmp_path / "run",
        )
    with pytest.raises(
        InputError, match=r"task squad: .*fine-tuned for; crosslens transfer has it"
    ):
        run_battery(
            Battery(encoders=[str(small_encoder)], battery="all", only=["squad"], data=str(data)),
            tmp_path / "run",
        )
    with pytest.raises(InputError, match=r"--data: .*got wic: no .*"):
        run_battery(
            Battery(
                encoders=[str(small_encoder)], battery="semantic", data=str(tmp_path / "empty")
            ),
            tmp_path / "run",
        )
    with pytest.raises(InputError, match=r"task blimp: .*got .*no weights"):
        run_battery(
            Battery(
                encoders=[str(headless)], battery="all", only=["blimp", "upos"], data=str(data)
            ),
            tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_an_encoder_without_a_head_is_measured_in_all_but_cloze_tasks(headless, data, tmp_path):
    told = Battery(
        encoders=[str(headless)],
        battery="syntactic",
        data=str(data),
        random_control=False,
        limit=8,
        mdl=True,
    )
    folder = run_battery(told, tmp_path / "run")
    missing = json.loads((folder / "config.json").read_text())["not_measured"]
    assert (
        set(missing) == {"minimal_pairs", "blimp"}
        and "headless" in missing["blimp"]
        and "no weights for cls" in missing["blimp"]
    )
    scores = list(read_scores(folder / "scores.jsonl"))
    assert {s.task for s in scores} == {
        "upos",
        "deprel",
        "feature_Number",
        "structural_distance",
        "structural_depth",
    }
    assert "random_encoder" not in {s.condition for s in scores}
    measured = {
        (s.quantity, s.condition)
        for s in found(scores, task="structural_distance")
        if s.condition != "paired_test"
    }
    assert measured == {
        (quantity, condition)
        for quantity in ("uuas", "distance_spearman")
        for condition in (None, "word_order")
    }
    for s in found(scores, task="upos", quantity="compression"):
        bits = only(scores, task="upos", quantity="codelength", layer=s.layer)
        assert (
            s.value == pytest.approx(8 * 8 * np.log2(6) / bits.value)
            and s.details["part"] == "train"
        )
    # eight sentences of eight words
    assert {s.n for s in found(scores, task="upos", part="test", quantity="accuracy")} == {8 * 8}


@pytest.fixture(scope="module")
def two(small_encoder, data, tmp_path_factory):
    """A run of two encoders whose folders have one name: its folder, the encoders' names, and the
    measurements."""
    place = tmp_path_factory.mktemp("two")
    second = other_encoder(place / "other" / "small-encoder", layers=3, width=16, seed=5)
    told = Battery(
        encoders=[str(small_encoder), str(second)],
        battery="all",
        only=["scws", "upos", "minimal_pairs"],
        data=str(data),
    )
    folder = run_battery(told, place / "run")
    return (
        folder,
        (f"{small_encoder.parent.name}/small-encoder", "other/small-encoder"),
        list(read_scores(folder / "scores.jsonl")),
    )


def test_two_encoders_are_measured_under_names_of_their_own(two):
    folder, names, scores = two
    # by the folders they are in
    assert tuple(s.encoder for s in found(scores, task="upos", condition="majority")) == names
    layers = [
        {s.layer for s in found(scores, task="upos", encoder=name, condition=None)}
        for name in names
    ]
    assert layers == [{0, 1, 2}, {0, 1, 2, 3}]
    mine = [s for s in scores if s.encoder == names[1]]
    assert [row[0] for row in summary_table(scores, names[1])] == [
        "task",
        "scws (cosine)",
        "scws (centred_cosine)",
        "upos",
    ]
    assert len(coverage_table(mine)[0]) == 1 + 5  # two categories, two macro-averages, all pairs
    assert len(test_table(scores)[0]) == 1 + len(found(scores, condition="paired_test"))
    titles = [title for title, *_ in tables(folder, scores)]
    assert titles == [*names, "", f"minimal_pairs, {names[0]}", f"minimal_pairs, {names[1]}", ""]


def test_the_summary_tells_what_was_left_out_and_the_first_lines_of_a_file_that_could_not_be_used(
    two, tmp_path
):
    _, (first, second), _ = two
    rows = [
        Score(
            quantity="spearman",
            value=0.5,
            n=9,
            layer=0,
            task="scws",
            encoder=first,
            details={"dropped": {"a zero vector": 1}},
        ),
        Score(
            quantity="spearman",
            value=0.5,
            n=7,
            layer=1,
            task="scws",
            encoder=first,
            details={"dropped": {"a zero vector": 3}},
        ),
        Score(
            quantity="accuracy",
            value=0.5,
            n=9,
            task="upos",
            encoder=second,
            details={"unseen_in_training": {"test": {"SYM": 1}}},
        ),
        Score(
            quantity="accuracy",
            value=0.5,
            n=9,
            task="blimp",
            encoder=second,
            details={"category": "x", "dropped": {"unknown": 4}},
        ),
    ]
    lines = [f"line {number}: no <b>" for number in range(1, 6)]
    (tmp_path / "config.json").write_text(
        json.dumps(
            {"data": {"tasks": {"scws": {"left_out": lines}, "upos": {"left_out": lines[:1]}}}}
        )
    )
    assert summary_notes(tmp_path, rows).split("\n")[3:] == [
        f"scws, {first}: up to 3 items left out: a zero vector.",
        f"upos, {second}: 1 item in test with a label that training lacks (SYM), counted as wrong.",
        "scws, its file: line 1: no <b>; line 2: no <b>; line 3: no <b>; and 2 more.",
        "upos, its file: line 1: no <b>.",
    ]
    rows[1] = dataclasses.replace(rows[1], encoder=None)  # of the text alone
    assert (
        summary_notes(tmp_path, rows[:2]).split("\n")[3]
        == "scws: up to 3 items left out: a zero vector."
    )
    assert "\nscws: 3 items left out: a zero vector." in summary_notes(tmp_path, rows)


def test_the_summary_tells_the_layer_that_is_best_on_dev(two):
    _, names, scores = two
    *_, row = summary_table(scores, names[0])
    told = {"task": "upos", "encoder": names[0], "quantity": "accuracy"}
    best = max(found(scores, **told, condition=None, part="dev"), key=lambda s: (s.value, -s.layer))
    conditions = (None, "majority", "control_task", "random_encoder")
    cells = [
        only(
            scores, **told, condition=c, part="test", layer=None if c == "majority" else best.layer
        ).value
        for c in conditions
    ]
    assert row[:3] == ("upos", str(best.layer), f"{100 * cells[0]:.1f}")
    assert row[4:] == (*(f"{100 * value:.1f}" for value in cells[1:]), str(PARTS["test"] * 8))


def test_two_encoders_are_compared_on_the_same_items_and_all_tests_are_one_family(two):
    _, names, scores = two
    tests = found(scores, condition="paired_test")
    assert {s.details["tests"] for s in tests} == {len(tests)}
    assert all(s.details["corrected_p"] >= s.details["p"] for s in tests)
    between = [s for s in tests if " / " in s.encoder]
    assert {s.task for s in between} == {"scws", "upos", "minimal_pairs"}
    for s in between:
        assert s.details["first"].startswith(names[0]) and s.details["second"].startswith(names[1])
    for s in found(tests, task="upos") + found(tests, task="scws"):
        quantity = {"upos": "accuracy", "scws": "spearman"}[s.task]
        told = {
            "task": s.task,
            "quantity": quantity,
            "condition": None,
            "part": "test",
            "representation": s.details.get("representation"),
        }
        encoders = names if " / " in s.encoder else (s.encoder, s.encoder)
        first, second = (
            only(scores, **told, encoder=e, layer=at)
            for e, at in zip(encoders, (s.layer, s.other_layer), strict=True)
        )
        assert s.value == pytest.approx(first.value - second.value)


def test_one_encoder_twice_is_refused(small_encoder, data, tmp_path):
    with pytest.raises(InputError, match=r"--encoder: .*got .*, which are"):
        run_battery(
            Battery(encoders=[str(small_encoder)] * 2, battery="semantic", data=str(data)),
            tmp_path / "run",
        )


def test_a_task_of_one_s_own_finds_what_is_there_and_nothing_else(small_encoder, tmp_path):
    """Labels that follow from the words are found; the same labels shuffled are not."""
    rng = np.random.default_rng(0)
    texts = [
        f"{NOUNS[rng.integers(6)]} {('takes', 'sees')[i % 2]} {NOUNS[rng.integers(6)]} {i}"
        for i in range(120)
    ]
    labels = np.array(["ab"[i % 2] for i in range(120)])
    shuffled = rng.permutation(labels)
    told = write(
        tmp_path / "told.tsv",
        [f"{label}\t{text}" for label, text in zip(labels, texts, strict=True)],
    )
    blank = write(
        tmp_path / "blank.tsv",
        [f"{label}\t{text}" for label, text in zip(shuffled, texts, strict=True)],
    )
    battery = Battery(
        encoders=[str(small_encoder)], labels={"told": [str(told)], "blank": [str(blank)]}
    )
    scores = list(read_scores(run_battery(battery, tmp_path / "run") / "scores.jsonl"))
    first = {
        task: only(scores, task=task, quantity="accuracy", condition=None, layer=0, part="test")
        for task in ("told", "blank")
    }
    assert first["told"].value > 0.9 and first["told"].n == 24
    assert first["blank"].low < 0.5 < first["blank"].high
    assert first["told"].details["parts"] == "a random 70 / 10 / 20 % of each label, seed 0"
    assert only(scores, task="told", quantity="selectivity", layer=0).value > 0.2


def test_a_treebank_of_one_s_own_is_tagged(small_encoder, data, tmp_path):
    files = [str(data / "ud" / f"en_ewt-ud-{part}.conllu") for part in PARTS]
    battery = Battery(
        encoders=[str(small_encoder)],
        labels={"upos": files, "feature_Number": files[:1]},
        random_control=False,
    )
    scores = list(read_scores(run_battery(battery, tmp_path / "run") / "scores.jsonl"))
    assert {s.n for s in found(scores, task="upos", quantity="accuracy", part="test")} == {
        PARTS["test"] * 8
    }
    number = only(
        scores, task="feature_Number", quantity="accuracy", condition=None, layer=0, part="test"
    )
    assert "of the sentences" in number.details["parts"]  # one file is divided


def test_texts_that_cannot_be_read_are_refused_before_anything_is_written(
    small_encoder, data, tmp_path
):
    broken = shutil.copytree(data, tmp_path / "data")
    lines = (broken / "wic" / "dev.data.txt").read_text().splitlines()
    write(broken / "wic" / "dev.data.txt", [lines[0].replace("1-2", "1-99"), *lines[1:]])
    with pytest.raises(InputError, match=r"dev\.data\.txt: expected .*1 wrong"):
        run_battery(
            Battery(encoders=[str(small_encoder)], battery="all", data=str(broken)),
            tmp_path / "run",
        )
    one = write(tmp_path / "one.tsv", [f"same\ttext {i}" for i in range(20)])
    with pytest.raises(InputError, match=r"mine: .*got only same"):
        run_battery(
            Battery(encoders=[str(small_encoder)], labels={"mine": [str(one)]}), tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def calm(small_encoder, data, tmp_path_factory):
    """An undisturbed run, and its arguments on the command line."""
    out = tmp_path_factory.mktemp("calm") / "run"
    told = [
        "probe",
        "--encoder",
        str(small_encoder),
        "--battery",
        "all",
        "--tasks",
        "scws,feature_Number",
        "--data",
        str(data),
        "--quiet",
    ]
    assert main([*told, "--out", str(out)]) == 0
    return out, told


def test_a_stopped_run_goes_on_with_what_is_missing(calm, tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    with monkeypatch.context() as stopped:
        stopped.setattr(
            "crosslens.run.probing.kinds.tag.WordTask.measure",
            lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        assert main([*calm[1], "--out", str(out)]) == 130
    assert "what is finished is kept, the same command resumes it" in capsys.readouterr().err
    kept = ["scws.small-encoder.jsonl", "scws.small-encoder.parquet"]
    assert (
        sorted(path.name for path in (out / "parts").iterdir()) == kept
        and not (out / "scores.jsonl").exists()
    )
    monkeypatch.setattr(
        "crosslens.run.probing.kinds.rank.ScwsTask.measure",
        lambda *_: pytest.fail("measured again"),
    )
    assert main([*calm[1], "--out", str(out)]) == 0
    for name in ("scores.jsonl", "outcomes.parquet"):
        assert (out / name).read_bytes() == (calm[0] / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "stage",
    [
        "activations/small-encoder/encoder/scws-first",
        "parts/scws.small-encoder.parquet",
        "parts/scws.small-encoder.jsonl",
    ],
)
def test_kill_9_and_the_same_command_again_give_the_undisturbed_scores(calm, tmp_path, stage):
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "crosslens.cli.main", *calm[1], "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    deadline = time.monotonic() + 120
    while not (out / stage).exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # else nothing was killed
    assert main([*calm[1], "--out", str(out)]) == 0
    for name in ("scores.jsonl", "outcomes.parquet"):
        assert (out / name).read_bytes() == (calm[0] / name).read_bytes()
    assert not list(out.rglob("*.partial")) and not (out / "parts").exists()


def test_encoders_and_language_models_are_loaded_on_the_device_that_is_asked_for(
    small_encoder, data, tmp_path, monkeypatch, capsys
):
    given = [
        "probe",
        "--encoder",
        str(small_encoder),
        "--battery",
        "syntactic",
        "--tasks",
        "minimal_pairs",
        "--data",
        str(data),
    ]
    assert main([*given, "--out", str(tmp_path / "run"), "--device", "tpu"]) == 2
    assert (
        "device: expected cpu, cuda, cuda:NUMBER or mps, got 'tpu'" in capsys.readouterr().err
        and not (tmp_path / "run").exists()
    )
    seen = []
    for module, name in ((loading, "load_encoder"), (cloze, "load_scorer")):
        load = getattr(module, name)

        def watched(given, *, device="?", load=load, name=name, **more):
            seen.append((name, device))
            return load(given, **more)

        monkeypatch.setattr(module, name, watched)
    own = {
        "topic": [
            str(
                write(
                    tmp_path / "topic.tsv",
                    [f"{label}\t{label} {i}" for i in range(12) for label in ("one", "two")],
                )
            )
        ]
    }
    battery = Battery(
        encoders=[str(small_encoder)],
        battery="syntactic",
        only=["minimal_pairs"],
        labels=own,
        data=str(data),
        device="mps:0",
    )
    run_battery(battery, tmp_path / "run")
    assert (
        {device for _, device in seen} == {"mps:0"}
        and {name for name, _ in seen} == {"load_encoder", "load_scorer"}
        and len(seen) == 6
    )
