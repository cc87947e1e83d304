"""Several runs on one page: ranked on the test items that they share and on nothing else."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import Page
from synthetic_probes import make_probe_run, share

from crosslens.outcomes import FILE, Outcomes, item_ids, write_outcomes
from crosslens.report.folders.probes import load_probe_runs
from crosslens.report.pages.probes import probe_runs_page
from crosslens.report.sections.probes_comparison import RunComparison, compare_runs
from crosslens.report.sections.probes_ranking import comparison_sentences
from crosslens.score import Score

FILES = {"files": {"t/test.tsv": "aa"}}


def make(
    folder: Path,
    encoder: str,
    items: range,
    right: np.ndarray,
    *,
    dev: bool = True,
    groups: int = 0,
    keep: bool = True,
    **config: Any,
) -> Path:
    """A run of one task on two layers: of the items, those that layer 1 gets right; ``groups``:
    items to a sentence."""
    part = {"part": "test"}
    fields: dict[str, Any] = {"task": "topic", "encoder": encoder}
    scores = [
        share(0.3, len(items), layer=0, details=part, **fields),
        share(right.mean(), len(items), layer=1, details=part, **fields),
    ]
    if dev:
        scores += [dataclasses.replace(score, details={"part": "dev"}) for score in scores]
    make_probe_run(folder, scores, not_measured={}, **{"data": FILES, **config})
    if keep:
        ids = item_ids([(f"sentence {i}",) for i in items])
        of = np.array([str(i // groups) for i in items]) if groups else ids
        place: dict[str, Any] = {
            "quantity": "accuracy",
            "part": "test",
            "item": np.arange(len(ids)),
            "item_id": ids,
            "group": of,
        }
        outcomes = [
            Outcomes(**fields, **place, layer=layer, outcome=np.asarray(found, np.float64))
            for layer, found in ((0, np.arange(len(ids)) < 0.3 * len(ids)), (1, right))
        ]
        write_outcomes(outcomes, folder / FILE)
    return folder


def compared(*folders: Path) -> RunComparison:
    return compare_runs(load_probe_runs(folders))


def better(n: int, share: float) -> np.ndarray:
    """Right in a share of the items, spread over all of them."""
    return (np.arange(n) * 7919 % n) < share * n


def test_runs_of_the_same_items_are_ranked_by_a_paired_test(tmp_path: Path) -> None:
    runs = [
        make(tmp_path / name, name, range(200), better(200, p))
        for name, p in (("low", 0.6), ("high", 0.8))
    ]
    found = compared(*runs)
    (one,) = found.pairs["topic", ""]
    assert (one.n, one.n_first, one.n_second, one.how, one.verdict) == (
        200,
        200,
        200,
        "items",
        "below",
    )
    assert (
        one.difference == pytest.approx(-0.2)
        and one.low is not None
        and one.low < -0.2 < (one.high or 0) < 0
    )
    rank = found.rankings["topic", ""]
    assert (rank.top.label, rank.n, [s.label for s in rank.apart], rank.near) == (
        "high",
        200,
        ["low"],
        [],
    )
    words = Page(probe_runs_page(runs)).text
    assert "highest is high on the n = 200 test items that all share: clearly above low." in words
    assert "one encoder is clearly above all others in 1 of 1 task: high in 1." in words
    assert "200of 200 and 200" in words and "the second is higher" in words


def test_only_shared_items_count(tmp_path: Path) -> None:
    """By all of its own items the second is far ahead, on the shared ones the first is."""
    mine = better(300, 0.7)
    # items 200 to 499: 100 of them are shared
    theirs = np.concatenate([better(100, 0.3), np.ones(200, bool)])
    found = compared(
        make(tmp_path / "a", "a", range(300), mine),
        make(tmp_path / "b", "b", range(200, 500), theirs),
    )
    (one,) = found.pairs["topic", ""]
    assert (one.n, one.n_first, one.n_second) == (100, 300, 300)
    assert one.values == pytest.approx((mine[200:].mean(), theirs[:100].mean()))
    assert one.verdict == "above" and found.rankings["topic", ""].top.label == "a"


def test_runs_without_an_item_in_common_are_not_ranked_and_it_is_said(tmp_path: Path) -> None:
    runs = [
        make(tmp_path / "a", "a", range(100), better(100, 0.5)),
        make(tmp_path / "b", "b", range(100, 200), better(100, 0.9)),
    ]
    found = compared(*runs)
    assert (
        found.pairs["topic", ""][0].verdict is None
        and found.not_ranked() == [("topic", "")]
        and found.rankings == {}
    )
    words = Page(probe_runs_page(runs)).text
    assert "Not ranked: Topic, since they have no test item in common." in words
    assert "a and b are not ranked: they have no test item in common." in words
    assert "highest is" not in words and "clearly above all others" not in words


def test_words_of_one_sentence_count_as_one(tmp_path: Path) -> None:
    """The same answers: clear if each of 200 items stood alone, not if they are twenty to a
    sentence."""
    mine, theirs = np.ones(200, bool), np.ones(200, bool)
    theirs[:20] = False
    alone = compared(
        *(
            make(tmp_path / "alone" / name, name, range(200), right)
            for name, right in (("a", mine), ("b", theirs))
        )
    )
    grouped = compared(
        *(
            make(tmp_path / "grouped" / name, name, range(200), right, groups=20)
            for name, right in (("a", mine), ("b", theirs))
        )
    )
    assert alone.pairs["topic", ""][0].verdict == "above"
    assert grouped.pairs["topic", ""][0].verdict == "unclear"
    assert grouped.rankings["topic", ""].near and not grouped.rankings["topic", ""].apart


def test_a_layer_that_was_chosen_on_the_reported_items_pays_for_it(tmp_path: Path) -> None:
    rights = (("a", better(200, 0.7)), ("b", better(200, 0.6)))
    on_dev = compared(
        *(make(tmp_path / "dev" / name, name, range(200), right) for name, right in rights)
    ).pairs["topic", ""][0]
    chosen = compared(
        *(
            make(tmp_path / "own" / name, name, range(200), right, dev=False)
            for name, right in rights
        )
    ).pairs["topic", ""][0]
    # the best of two layers, twice
    assert on_dev.p is not None and chosen.p == pytest.approx(min(1.0, 4 * on_dev.p))
    assert on_dev.low is not None and chosen.low is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"data": {"files": {"t/test.tsv": "bb"}}}, "their files differ"),
        ({"settings": {"limit": 50}}, "their settings differ (limit)"),
        ({"settings": {"seed": 4}}, "their settings differ (seed)"),
        ({"data": {}}, "its test files are not recorded"),
    ],
)
def test_old_runs_are_compared_only_if_all_that_decides_on_their_items_is_the_same(
    tmp_path: Path, change: dict, told: str
) -> None:
    def run(name: str, p: float, **config: Any) -> Path:
        return make(
            tmp_path / name,
            name,
            range(400),
            better(400, p),
            keep=False,
            **{"settings": {}, **config},
        )

    same = compared(run("a", 0.5), run("b", 0.9))
    assert same.pairs["topic", ""][0].how == "files" and same.rankings["topic", ""].top.label == "b"
    other = compared(tmp_path / "a", run("c", 0.9, **change))
    assert other.pairs["topic", ""][0].reason == f"a run without outcomes per item, and {told}"
    assert other.rankings == {}


def test_three_runs_are_ranked_on_what_all_share_and_corrected_together(tmp_path: Path) -> None:
    folders = [
        make(tmp_path / name, name, items, better(len(items), p))
        for name, items, p in (
            ("a", range(300), 0.5),
            ("b", range(100, 400), 0.8),
            ("c", range(50, 350), 0.78),
        )
    ]
    runs = load_probe_runs(folders)
    found = compare_runs(runs)
    rank = found.rankings["topic", ""]
    assert rank.n == 200 and [one.n for one in found.pairs["topic", ""]] == [200, 250, 250]
    assert all(
        one.corrected_p is not None and one.p is not None and one.corrected_p >= one.p
        for one in found.pairs["topic", ""]
    )
    assert {s.label for s in rank.apart} == {"a"} and len(rank.near) == 1
    assert comparison_sentences(runs, found) == [
        (
            "On the test items that all share (n = 200), one encoder is clearly above all others "
            "in <strong>0 of 1 task</strong>."
        )
    ]


def test_correlations_are_compared_on_shared_items_too(tmp_path: Path) -> None:
    draw, ids = np.random.default_rng(0), item_ids([(i,) for i in range(120)])
    ratings = draw.normal(size=120)
    folders = []
    for name, noise in (("good", 0.3), ("poor", 3.0)):
        cosines = ratings + noise * draw.normal(size=120)
        score = Score(
            quantity="spearman",
            value=0.5,
            n=120,
            layer=1,
            task="scws",
            encoder=name,
            details={"part": "test"},
        )
        folder = make_probe_run(tmp_path / name, [score], not_measured={})
        place: dict[str, Any] = {
            "item": np.arange(120),
            "item_id": ids,
            "group": ids,
            "gold": ratings.astype(str),
        }
        write_outcomes(
            [
                Outcomes(
                    task="scws",
                    quantity="spearman",
                    encoder=name,
                    layer=1,
                    outcome=cosines,
                    **place,
                )
            ],
            folder / FILE,
        )
        folders.append(folder)
    (one,) = compared(*folders).pairs["scws", ""]
    assert one.n == 120 and one.verdict == "above" and one.values[0] > 0.9 > one.values[1]


def test_correlations_are_ranked_on_the_items_that_all_share(tmp_path: Path) -> None:
    """By all of its own items the second is far ahead, on the shared ones the first is."""
    ratings = np.random.default_rng(0).normal(size=200)
    noise = np.random.default_rng(1).normal(size=200)
    items = {"first": np.arange(120), "second": np.arange(60, 200)}
    answers = {
        "first": np.where(np.arange(200) < 60, noise, ratings + 0.1 * noise),
        "second": np.where(np.arange(200) < 120, noise, ratings + 0.1 * noise),
    }
    folders = []
    for name, own in items.items():
        ids = item_ids([(int(i),) for i in own])
        fields: dict[str, Any] = {"task": "scws", "quantity": "spearman", "encoder": name}
        score = Score(
            value=0.3 if name == "first" else 0.8,
            n=len(own),
            layer=1,
            details={"part": "test"},
            **fields,
        )
        place = {"item": np.arange(len(own)), "item_id": ids, "group": ids}
        one = Outcomes(
            layer=1, outcome=answers[name][own], gold=ratings[own].astype(str), **place, **fields
        )
        folders.append(make_probe_run(tmp_path / name, [score], not_measured={}))
        write_outcomes([one], folders[-1] / FILE)
    found = compared(*folders)
    assert found.pairs["scws", ""][0].verdict == "above"
    rank = found.rankings["scws", ""]
    assert (rank.top.label, rank.n) == ("first", 60)
    assert [subject.label for subject in rank.apart] == ["second"]


def test_runs_that_share_items_by_two_but_none_together_say_why_they_are_not_ranked(
    tmp_path: Path,
) -> None:
    parts = {"a": range(200), "b": range(100, 300), "c": [*range(100), *range(200, 300)]}
    folders = [
        make(tmp_path / name, name, part, better(200, 0.6))  # type: ignore[arg-type]
        for name, part in parts.items()
    ]
    words = Page(probe_runs_page(folders)).text
    assert "since all of them together share too few test items." in words
    assert "since ." not in words


def test_settings_that_differ_are_said(tmp_path: Path) -> None:
    runs = [
        make(
            tmp_path / name,
            name,
            range(40),
            better(40, 0.5),
            settings={"seed": seed, "limit": limit, "mdl": False},
        )
        for name, seed, limit in (("a", 0, 100), ("b", 1, None))
    ]
    words = Page(probe_runs_page(runs)).text
    assert "The runs differ in their settings: seed is 0 in a and 1 in b." in words
    assert (
        "The runs differ in their settings: limit is 100 in a and null in b." in words
        and "mdl is" not in words
    )
