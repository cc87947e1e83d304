"""What a probe may remember is no knowledge, and one task that fails takes no other with it: from
the command line."""

import json

import numpy as np
import pytest
from battery_data import make_data, write
from typed import typed

from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.outcomes import read_outcomes
from crosslens.run.probing.kinds.tag import WordTask
from crosslens.score import read_scores, shared_texts


@pytest.fixture(scope="module")
def leaked(small_encoder, tmp_path_factory):
    """Sixty texts with labels by the toss of a coin, the first twenty of them in test, with ten
    others."""
    folder, coin = tmp_path_factory.mktemp("leaked"), np.random.default_rng(0).integers(0, 2, 90)
    lines = [f"{'ab'[coin[i]]}\tthe king {i} gives water to {i * i} houses" for i in range(90)]
    parts = {"train": lines[:60], "dev": lines[60:80], "test": [*lines[:20], *lines[80:]]}
    files = ",".join(str(write(folder / f"{part}.tsv", some)) for part, some in parts.items())
    assert (
        typed(
            "probe",
            "--encoder",
            str(small_encoder),
            "--labels",
            f"coin={files}",
            "--out",
            str(folder / "run"),
            "--quiet",
        )
        == 0
    )
    return folder / "run"


def test_texts_of_test_that_are_in_train_are_counted_and_the_score_is_told_without_them(leaked):
    scores = {
        (s.layer, s.condition): s
        for s in read_scores(leaked / "scores.jsonl")
        if s.quantity == "accuracy" and s.details["part"] == "test"
    }
    for layer in range(3):
        shared, without = shared_texts(scores[layer, None])
        assert (shared.train, shared.same_label, shared.dev, shared.dev_train, without.n) == (
            20,
            20,
            0,
            0,
            10,
        )
        (items,) = read_outcomes(leaked, layer=layer, condition=None)
        assert (
            without.value == pytest.approx(items.outcome[20:].mean()) != scores[layer, None].value
        )
        assert (
            shared_texts(scores[layer, "random_encoder"])[1].n == 10
            and shared_texts(scores[layer, "shuffled_labels"])[1].n == 10
        )
    assert shared_texts(scores[None, "majority"])[1].n == 10
    report = (leaked / "report.html").read_text(encoding="utf-8")
    assert (
        "20 of 30 test items have a text that is in train, too" in report
        and "20 with the same label: without them it is" in report
    )


def test_the_control_gives_a_label_to_each_text(leaked):
    """So a probe that remembers does as well on it."""
    best = max(
        (s for s in read_scores(leaked / "scores.jsonl") if s.quantity == "selectivity"),
        key=lambda s: s.layer,
    )
    assert abs(best.value) < 0.25 and best.low < 0 < best.high


def test_a_task_that_fails_is_told_and_the_others_go_on(
    small_encoder, tmp_path, monkeypatch, capsys
):
    data = make_data(tmp_path / "data")

    def fail(*_):
        raise InputError("types: expected types whose control labels differ, got one label")

    command = [
        "probe",
        "--encoder",
        str(small_encoder),
        "--battery",
        "all",
        "--data",
        str(data),
        "--quiet",
        "--tasks",
        "scws,feature_Number",
    ]
    with monkeypatch.context() as broken:
        broken.setattr(WordTask, "measure", fail)
        assert main([*command, "--out", str(tmp_path / "run")]) == 0
    told = capsys.readouterr()
    assert (
        "Not measured: feature_Number (types: expected types whose control labels differ, got "
        "one label)"
    ) in told.out
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["not_measured"] == {
        "feature_Number": "types: expected types whose control labels differ, got one label"
    }
    assert {s.task for s in read_scores(tmp_path / "run" / "scores.jsonl")} == {"scws"}
    with monkeypatch.context() as broken:
        broken.setattr(WordTask, "measure", fail)
        assert main([*command[:-1], "feature_Number", "--out", str(tmp_path / "none")]) == 2
    assert (
        "--battery: expected a task that can be measured, got feature_Number: types: expected"
        in capsys.readouterr().err
    )
