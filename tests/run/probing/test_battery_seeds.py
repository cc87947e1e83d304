"""Several seeds of a battery: as many random encoders, control tasks and first weights, and their
mean with Student's interval."""

import collections
import dataclasses
import json
import math

import numpy as np
import pytest
from battery_data import NOUNS, make_data, tree, write
from scipy.stats import spearmanr
from scipy.stats import t as student

from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.outcomes import read_outcomes
from crosslens.report.folders.probes import load_probe_runs
from crosslens.report.pages.probes import probe_page
from crosslens.report.sections.probes_comparison import compare_runs
from crosslens.run.probing.battery import Battery, run_battery
from crosslens.run.probing.kinds import task as probe_tasks
from crosslens.run.probing.seeds import over_seeds, seed_spread
from crosslens.run.probing.summary import tables
from crosslens.score import Score, read_scores, write_scores

# the last one's probe has a seed; the others have one minimum
TASKS = ("scws", "topic", "minimal_pairs", "upos", "structural_depth")
PLACE = ("part", "representation", "category", "average")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    make_data(folder / "data")
    for part, n in (("train", 12), ("dev", 5), ("test", 8)):
        write(
            folder / "data" / "ud" / f"en_ewt-ud-{part}.conllu",
            [tree(f"{part}-{i}", i) for i in range(n)],
        )
    lines = [[NOUNS[(i * k) % 6] for k in range(1, 2 + i % 7)] for i in range(70)]
    write(
        folder / "depth.tsv",
        [f"{len(words)}\t{' '.join(words)} {i} ." for i, words in enumerate(lines)],
    )
    return folder


@pytest.fixture(scope="module")
def battery(small_encoder, place):
    told = {"data": str(place / "data"), "numbers": {"depth": [str(place / "depth.tsv")]}}
    return Battery(encoders=[str(small_encoder)], battery="all", only=TASKS, seeds=2, **told)


@pytest.fixture(scope="module")
def command(battery):
    told = [
        "probe",
        "--encoder",
        *battery.encoders,
        "--battery",
        "all",
        "--tasks",
        ",".join(TASKS),
        "--data",
        battery.data,
        "--quiet",
    ]
    return [*told, "--numbers", f"depth={battery.numbers['depth'][0]}"]


@pytest.fixture(scope="module")
def both(battery, place):
    return run_battery(battery, place / "both")


@pytest.fixture(scope="module")
def scores(both):
    return list(read_scores(both / "scores.jsonl"))


def key(score, *more):
    return (
        score.task,
        score.quantity,
        score.condition,
        score.layer,
        *((score.details or {}).get(name) for name in PLACE),
        *more,
    )


def test_the_mean_and_the_interval_are_those_of_the_rows_of_each_seed(scores):
    rows = {key(s, s.seed): s for s in scores if s.condition != "paired_test"}
    # nothing stands twice
    assert len(rows) == len([s for s in scores if s.condition != "paired_test"])
    met = collections.Counter()
    for s in scores:
        told = (s.details or {}).get("over_seeds")
        if told is None or s.condition == "control_task" or s.quantity == "selectivity":
            continue
        values = np.array(told["values"], float)
        if s.condition != "shuffled_labels":
            np.testing.assert_array_equal(values, [rows[key(s, seed)].value for seed in (0, 1)])
        assert told["seeds"] == [0, 1] and s.seed == 0
        if s.n and np.ptp(values) > 0:
            ends = student.interval(0.95, 1, values.mean(), values.std(ddof=1) / math.sqrt(2))
            low = (
                0
                if s.quantity in ("accuracy", "macro_f1", "macro_accuracy", "root_accuracy")
                else -1
            )
            assert told["mean"] == pytest.approx(values.mean())
            assert (told["low"], told["high"]) == pytest.approx(
                (max(low, ends[0]), min(1, ends[1]))
            ) or s.quantity == "r2"
        met[s.task, s.condition] += 1
    assert {task for task, condition in met if condition == "random_encoder"} == {*TASKS, "depth"}
    assert {one for one in met if one[1] != "random_encoder"} == {
        ("structural_depth", None),
        ("topic", "shuffled_labels"),
        ("depth", "shuffled_labels"),
    }


def test_further_rows_are_of_random_encoders_and_of_probes_that_have_a_seed(scores):
    met = {(s.task, s.condition) for s in scores if s.seed == 1}
    assert {task for task, condition in met if condition == "random_encoder"} == {*TASKS, "depth"}
    assert {one for one in met if one[1] != "random_encoder"} == {("structural_depth", None)}
    assert not [s for s in scores if s.seed and {"confusion", "f1"} & set(s.details or {})]


def test_every_score_of_items_follows_from_its_outcomes_seed_by_seed(both, scores):
    there = {
        key(s, s.seed): s
        for s in scores
        if (s.details or {}).get("part", "test") == "test" and s.condition != "majority"
    }
    kept, told = read_outcomes(both), 0
    assert len({(o.task, o.condition, o.layer, o.representation, o.seed) for o in kept}) == len(
        kept
    )
    for one in kept:
        if (
            one.condition not in ("majority", "word_majority", "shuffled_labels", "control_task")
            and one.task != "minimal_pairs"
        ):
            score = there[
                one.task,
                one.quantity,
                one.condition,
                one.layer,
                one.part,
                one.representation,
                None,
                None,
                one.seed,
            ]
            value = (
                spearmanr(one.outcome, one.gold.astype(float)).statistic
                if one.quantity == "spearman"
                else one.mean
            )
            assert value == pytest.approx(score.value)
            told += one.seed > 0
    assert told > 20


def test_the_first_seed_is_measured_as_without_further_ones(battery, place, scores):
    plain = measured(battery, place / "plain", "scws", "topic", "upos", "structural_depth")
    mine = {key(s): s for s in scores if s.seed == 0}
    for s in plain:
        if (
            s.condition in (None, "random_encoder", "majority", "word_order")
            and s.quantity != "selectivity"
        ):
            assert s.value == mine[key(s)].value and (s.low, s.high, s.n) == (
                mine[key(s)].low,
                mine[key(s)].high,
                mine[key(s)].n,
            )
    assert {(s.condition, s.seed) for s in plain} >= {(None, 0), ("random_encoder", 0)} and {
        s.seed for s in plain
    } == {0}


def measured(battery, out, *tasks, **more):
    told = dataclasses.replace(battery, **{"only": tasks, "numbers": {}, "seeds": None} | more)
    return list(read_scores(run_battery(told, out) / "scores.jsonl"))


def test_a_further_random_encoder_is_the_first_one_of_a_run_with_that_seed(
    battery, place, scores, both
):
    """Items of these tasks are not drawn, and their probes have no seed."""
    names = ("scws", "upos", "minimal_pairs")
    other = [
        s
        for s in measured(battery, place / "one", *names, seed=1)
        if s.condition == "random_encoder"
    ]
    mine = {
        key(s): s
        for s in scores
        if s.seed == 1 and s.condition == "random_encoder" and s.task in names
    }
    assert {key(s) for s in other} == set(mine) and len(mine) > 15
    for s in other:
        assert (s.value == mine[key(s)].value or math.isnan(s.value)) and s.n == mine[key(s)].n
    for layer in (0, 2):
        (one,), (same,) = (
            read_outcomes(f, task="upos", seed=1, condition="random_encoder", layer=layer)
            for f in (both, place / "one")
        )
        assert np.array_equal(one.outcome, same.outcome) and np.array_equal(
            one.predicted, same.predicted
        )
    stores = {path.parent.parent.name for path in (both / "activations").rglob("manifest.json")}
    assert stores == {"encoder", "random_encoder", "random_encoder-1"}


def test_a_run_that_was_stopped_between_seeds_ends_in_the_same_bytes(battery, place, monkeypatch):
    battery = dataclasses.replace(battery, only=("scws", "minimal_pairs"), numbers={})
    whole = run_battery(battery, place / "whole")
    measure, calls = probe_tasks.Task.measure_again, []

    def stopped(self, given):
        calls.append((self.name, given.seed))
        if calls[-1] == ("minimal_pairs", 1):
            raise KeyboardInterrupt
        return measure(self, given)

    monkeypatch.setattr(probe_tasks.Task, "measure_again", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_battery(battery, place / "again")
    monkeypatch.setattr(
        probe_tasks.Task,
        "measure_again",
        lambda self, given: calls.append((self.name, given.seed)) or measure(self, given),
    )
    calls.clear()
    run_battery(battery, place / "again")
    assert calls == [("minimal_pairs", 1)]  # what was measured is not measured again
    for name in ("scores.jsonl", "outcomes.parquet"):
        assert (whole / name).read_bytes() == (place / "again" / name).read_bytes()


def test_the_terminal_and_the_report_tell_the_mean_of_the_encoders(
    both, command, scores, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*command, "--seeds", "2", "--out", str(both)]) == 0
    told = capsys.readouterr().out
    assert (
        "random weights: mean of 2 encoders" in told
        and "Random: mean of 2 encoders, with Student's" in told
    )
    (row,) = [line for line in told.splitlines() if line.split()[:1] == ["upos"]]
    best = max(
        (
            s
            for s in scores
            if (s.task, s.quantity, s.condition) == ("upos", "accuracy", None)
            and s.details["part"] == "dev"
        ),
        key=lambda s: (s.value, -s.layer),
    )
    (random,) = [
        s
        for s in scores
        if key(s, s.seed)
        == ("upos", "accuracy", "random_encoder", best.layer, "test", None, None, None, 0)
    ]
    over = random.details["over_seeds"]
    assert f"{100 * over['mean']:.1f} ({100 * over['low']:.1f}-{100 * over['high']:.1f})" in row
    page = (both / "report.html").read_text()
    assert "mean of 2 encoders" in page and "repeat the keys" not in page
    assert f"{over['mean']:.3f}"[1:] in page
    assert json.loads((both / "config.json").read_text())["settings"]["seeds"] == 2


def test_a_probe_that_has_a_seed_is_told_with_its_mean(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"kind": "probe", "settings": {"seed": 0, "seeds": 2}, "data": {"tasks": {}}})
    )
    row = {"quantity": "uuas", "n": 9, "task": "structural_distance", "layer": 1, "encoder": "e"}
    rows = over_seeds(
        [Score(**row, value=0.5, seed=0, details={"part": "test"})],
        [[Score(**row, value=0.52, seed=1, details={"part": "test"})]],
    )
    write_scores(rows, tmp_path / "scores.jsonl")
    *_, note = (text for _, _, text in tables(tmp_path, rows))
    assert "structural_distance, e: the mean over 2 seeds of the probe is 51.0 (38.3-63.7)." in note
    page = probe_page(tmp_path)
    assert (
        "That is the first seed’s probe: the mean over 2 seeds is 0.510 [0.383, 0.637], the "
        "interval over seeds."
    ) in page


def test_runs_of_several_seeds_and_of_one_are_compared_by_the_first(both, battery, place):
    if not (place / "plain").exists():
        measured(battery, place / "plain", "scws", "topic", "upos", "structural_depth")
    runs = load_probe_runs([both, place / "plain"])
    assert not runs.repeated and not runs.undrawn
    pairs = compare_runs(runs).pairs
    assert {task for task, _ in pairs} == {"scws", "topic", "upos", "structural_depth"}
    assert {(one.how, one.difference) for found in pairs.values() for one in found} == {
        ("items", 0.0)
    }


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            ["--seeds", "1"],
            (
                "--seeds: expected 2 or more, got 1; leave it out for one random encoder and "
                "three control tasks"
            ),
        ),
        (
            ["--seeds", "2", "--seed", str(2**32 - 1)],
            f"--seed: expected at most {2**32 - 2} with --seeds 2, got {2**32 - 1}",
        ),
    ],
)
def test_what_seeds_cannot_be_is_refused(command, tmp_path, capsys, more, told):
    assert main([*command, *more, "--out", str(tmp_path / "run")]) == 2
    assert told in capsys.readouterr().err and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"seed": -1}, "--seed: expected a whole number from 0 to 4294967295, got -1"),
        ({"seed": 1.5}, "--seed: expected a whole number"),
        ({"seeds": 2.5}, "--seeds: expected 2 or more, got 2.5"),
        ({"seeds": "3"}, "--seeds: expected 2 or more, got '3'"),
    ],
)
def test_numbers_that_are_no_seeds_are_refused_by_name(more, told):
    with pytest.raises(InputError, match=told):
        Battery(encoders=["encoder"], labels={"mine": ["file"]}, **more)


def test_another_number_of_seeds_is_another_run(both, command, capsys):
    assert main([*command, "--out", str(both)]) == 2
    assert "seeds: 2 there, None here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "more", "quantity"),
    [
        ("wic", {"limit": 12}, "accuracy"),
        ("topic", {"probe": "mlp"}, "accuracy"),
        ("topic", {"mdl": True}, "codelength"),
    ],
)
def test_first_weights_and_orders_are_of_each_seed(battery, tmp_path, task, more, quantity):
    scores = measured(battery, tmp_path / "run", task, seeds=2, **more)
    rows = [
        s for s in scores if s.quantity == quantity and s.layer == 1 and s.details["part"] != "dev"
    ]
    first = {key(s): s for s in rows if s.condition != "shuffled_labels" or task == "wic"}
    mine = {key(s, s.seed): s.value for s in rows}
    assert {s.condition for s in first.values()} >= (
        {None} if more.get("mdl") else {None, "random_encoder"}
    )
    for place in first:
        (told,) = [t.details["over_seeds"] for t in rows if key(t) == place and t.seed == 0]
        assert told["values"] == [mine[*place, 0], mine[*place, 1]]
    if more.get("mdl"):
        assert len({mine[one] for one in mine}) == 2  # another order, another length


def test_a_mix_has_its_random_encoders_and_control_labels(battery, tmp_path):
    scores = measured(battery, tmp_path / "run", "topic", seeds=2, probe="mix")
    rows = [
        s
        for s in scores
        if s.task == "topic:mix" and s.quantity == "accuracy" and s.details["part"] == "test"
    ]
    assert {(s.condition, s.seed) for s in rows if "over_seeds" in s.details} == {
        ("random_encoder", 0),
        ("shuffled_labels", 0),
    }
    assert {(s.condition, s.seed) for s in rows if s.seed} == {("random_encoder", 1)}


def test_a_seed_without_a_value_leaves_no_mean_and_one_that_failed_is_not_counted():
    told = seed_spread([0.5, math.nan], [0, 1], "accuracy")["over_seeds"]
    assert told == {"seeds": [0, 1], "values": [0.5, None], "mean": None, "low": None, "high": None}
    row = {"quantity": "accuracy", "n": 9, "task": "t", "condition": "random_encoder", "layer": 1}
    first, second, third = (
        Score(**row, value=value, seed=seed) for seed, value in enumerate((0.5, 0.6, 0.7))
    )
    (one, other) = over_seeds([first], [[], [third]])
    assert one.details["over_seeds"]["seeds"] == [0, 2] and other is third
    assert over_seeds([first], [[], []]) == [first]
    assert seed_spread([0.99, 0.9], [0, 1], "accuracy")["over_seeds"]["high"] == 1.0
