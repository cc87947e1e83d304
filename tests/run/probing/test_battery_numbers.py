"""Labels that are numbers, from the command line: ridge regression beside shuffled numbers and
random weights."""

import json

import numpy as np
import pytest
from battery_data import NOUNS, write
from scipy.stats import spearmanr

from crosslens.cli.main import main
from crosslens.outcomes import read_outcomes
from crosslens.score import read_scores
from crosslens.stats import mean_interval, spearman_interval


def line(i):
    """How many words stand before the full stop."""
    words = [NOUNS[(i * k) % 6] for k in range(1, 2 + i % 7)]
    return f"{len(words)}\t{' '.join(words)} {i} ."


@pytest.fixture(scope="module")
def run(small_encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    lines = [line(i) for i in range(70)]
    parts = [
        write(folder / f"{name}.tsv", some)
        for name, some in (("train", lines[:45]), ("dev", lines[45:55]), ("test", lines[55:]))
    ]
    with parts[2].open("a") as test:
        test.write(lines[0] + "\n")  # a text that training has, too
    command = [
        "probe",
        "--encoder",
        str(small_encoder),
        "--numbers",
        f"depth={','.join(map(str, parts))}",
        "--quiet",
    ]
    assert main([*command, "--out", str(folder / "run")]) == 0
    return folder / "run", command


def scores_of(run, quantity, condition, part="test"):
    found = [
        s
        for s in read_scores(run[0] / "scores.jsonl")
        if (s.quantity, s.condition) == (quantity, condition)
    ]
    return {s.layer: s for s in found if s.details["part"] == part}


def test_every_score_follows_from_its_outcomes(run):
    for condition in (None, "random_encoder"):
        kept = read_outcomes(run[0], task="depth", condition=condition)
        r2 = scores_of(run, "r2", condition)
        for one, score in zip(kept, scores_of(run, "spearman", condition).values(), strict=True):
            gold = one.gold.astype(float)
            assert score.n == 16 and (score.low, score.high) == pytest.approx(
                spearman_interval(one.outcome, gold, one.group)[1:]
            )
            assert score.value == pytest.approx(spearmanr(one.outcome, gold).statistic)
            errors = np.square(one.outcome - gold).sum() / np.square(gold - gold.mean()).sum()
            assert r2[one.layer].value == pytest.approx(1 - errors) and r2[one.layer].low is None
    best = scores_of(run, "spearman", None)
    assert max(s.value for s in best.values()) > 0.6 and {
        "ridge_penalty",
        "resampled",
        "above_control",
    } <= set(best[1].details)
    assert set(scores_of(run, "spearman", None, "dev")) == {0, 1, 2}


def test_shuffled_numbers_are_told_seed_by_seed(run):
    for layer, score in scores_of(run, "spearman", "shuffled_labels").items():
        kept = read_outcomes(run[0], condition="shuffled_labels", layer=layer)
        assert [one.seed for one in kept] == [0, 1, 2] == score.details["seeds"]
        values = np.array(
            [spearmanr(one.outcome, one.gold.astype(float)).statistic for one in kept]
        )
        assert (score.value, score.high) == pytest.approx(
            (mean_interval(values)[0], min(1.0, mean_interval(values)[2]))
        )


def test_a_text_of_training_is_counted_and_told_apart(run):
    score = scores_of(run, "spearman", None)[1]
    assert score.details["shared_texts"] == {"train": 1, "same_label": 1, "dev": 0, "dev_train": 0}
    (one,) = read_outcomes(run[0], condition=None, layer=1)
    told = score.details["without_shared"]
    assert told["n"] == 15 and told["value"] == pytest.approx(
        spearmanr(one.outcome[:15], one.gold[:15].astype(float)).statistic
    )


def test_the_terminal_and_the_report_tell_it(run, capsys):
    assert main([*run[1], "--out", str(run[0])]) == 0
    told = capsys.readouterr().out
    assert "\ndepth " in told and "without them" in told
    page = (run[0] / "report.html").read_text()
    assert (
        "A ridge regression is trained" in page
        and "Ridge penalty, chosen on dev" in page
        and "R²" in page
    )
    assert json.loads((run[0] / "config.json").read_text())["settings"]["numbers"] == ["depth"]


def test_a_run_with_its_files_in_another_order_is_another_run(run, capsys):
    folder, command = run
    train, dev, test = (str(folder.parent / f"{part}.tsv") for part in ("train", "dev", "test"))
    there = f"depth={train},{dev},{test}"
    for files, status in ((f"{train},{dev},{test}", 0), (f"{test},{dev},{train}", 2)):
        given = [f"depth={files}" if one == there else one for one in command]
        assert main([*given, "--out", str(folder)]) == status
    assert "expected the same settings, got other ones (own.depth: " in capsys.readouterr().err


def test_what_numbers_cannot_be_is_refused(run, small_encoder, tmp_path, capsys):
    def refused(lines, *more):
        path = write(tmp_path / "depth.tsv", lines)
        command = [
            "probe",
            "--encoder",
            str(small_encoder),
            "--numbers",
            f"depth={path}",
            "--out",
            str(tmp_path / "run"),
            "--quiet",
        ]
        assert main([*command, *more]) == 2
        return capsys.readouterr().err

    assert "depth.tsv:2: expected a number in front of the text, got 'deep'; repair" in refused(
        [line(0), "deep\ta", line(1)]
    )
    assert "depth.tsv:1: expected a number in front of the text, got 'nan'" in refused(["nan\ta"])
    assert "depth: expected 4 or more texts in dev, with numbers that differ, got 2" in refused(
        [line(i) for i in range(20)]
    )
    assert "texts in train, with numbers that differ, got 49 with 1 different" in refused(
        [f"1\ttext {i}" for i in range(70)]
    )
    assert "got depth, which is a task already" in refused(
        [line(0)], "--labels", f"depth={tmp_path / 'depth.tsv'}"
    )
    assert not (tmp_path / "run").exists()
