"""Encoders of different runs against each other: on the test items that both have and on nothing
else.

A run keeps what came of each item (:mod:`crosslens.outcomes`), and items have names that follow
from what they are. What two runs have in common is compared by a paired test; runs that kept no
outcomes are compared by their intervals if everything that decides on their test items is the same,
and otherwise stand side by side without being ranked.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.errors import InputError
from crosslens.outcomes import FILE, Outcomes, pair_outcomes, read_outcomes, shared_ratings
from crosslens.report.folders.probes import ProbeRuns, Subject, against
from crosslens.report.parts.wording import join
from crosslens.report.sections.probes_pairs import pair_averages
from crosslens.score import Score, by_language

__all__ = ["Compared", "Ranking", "RunComparison", "Task", "compare_runs", "part_of"]

# settings that decide on the test items
_DECIDE = ("limit", "seed", "treebank", "languages", "tasks")


@dataclasses.dataclass(frozen=True)
class Compared:
    """Two encoders on one task.

    Attributes
    ----------
    n: items that both have measured; n_first, n_second: of how many.
    difference, low, high: the first's value minus the second's on these items, with its 95 %
        interval where there is one.
    p, corrected_p: of the paired test, and after Holm over all tests of the page; None where none
        was made.
    verdict: "above", "below" or "unclear" of the first; None where they are not compared, and
        ``reason`` says why.
    how: "items" (paired, on shared items), "files" (by intervals, the files being the same) or "".
    """

    first: Subject
    second: Subject
    n: int = 0
    n_first: int = 0
    n_second: int = 0
    values: tuple[float, float] = (float("nan"), float("nan"))
    difference: float = float("nan")
    low: float | None = None
    high: float | None = None
    p: float | None = None
    corrected_p: float | None = None
    verdict: str | None = None
    how: str = ""
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The highest encoder of a task on the n items that all of them have, those that it is clearly
    above, and the others."""

    top: Subject
    n: int
    apart: list[Subject]
    near: list[Subject]


Task = tuple[str, str]  # task, and the method of minimal pairs ("": classified)


@dataclasses.dataclass(frozen=True)
class RunComparison:
    """Every task that two or more encoders have: all pairs of them, and the ranking where there can
    be one."""

    pairs: dict[Task, list[Compared]]
    rankings: dict[Task, Ranking]

    def not_ranked(self) -> list[Task]:
        """Tasks whose encoders cannot all be compared."""
        return [task for task in self.pairs if task not in self.rankings]


class _Items:
    """What came of each item, of the encoders of several runs; every file is read once."""

    def __init__(self, runs: ProbeRuns) -> None:
        self.runs = runs
        self._read = functools.cache(self._of_the_encoders)

    def _of_the_encoders(self, run: int) -> list[Outcomes]:
        """A run's outcomes, those of the first seed where it has several."""
        settings = part_of(self.runs.configs[run], "settings")
        wanted = {} if settings.get("seeds") is None else {"seed": settings.get("seed")}
        return by_language(read_outcomes(self.runs.folders[run], condition=None, **wanted))

    def of(self, subject: Subject, task: Task) -> Outcomes | None:
        """An encoder where the task is reported; None where the run kept nothing of it."""
        folder: Path = self.runs.folders[subject.run]
        if not (folder / FILE).is_file():
            return None
        mine = [
            one
            for one in self._read(subject.run)
            if one.task == task[0] and one.encoder in (None, subject.encoder)
        ]
        if task[1]:
            return next((one for one in mine if (one.method or "") == task[1]), None)
        chosen, main = self.runs.chosen(subject, task[0]), self.runs.main_quantity(task[0])
        for one in mine:
            place = (one.layer, one.representation or "", one.quantity)
            if chosen is not None and place == (chosen.layer, chosen.representation, main):
                return one
        return None


def _measured(runs: ProbeRuns) -> dict[Task, dict[Subject, tuple[Score, int]]]:
    """Of each task the score of each encoder, and of how many layers and representations it is the
    best on the reported items."""
    found: dict[Task, dict[Subject, tuple[Score, int]]] = {}
    for task, subject in itertools.product(runs.tasks(), runs.subjects):
        chosen = runs.chosen(subject, task)
        if chosen is not None:
            choices = 1 if chosen.on_dev else max(1, chosen.layers) * chosen.representations
            found.setdefault((task, ""), {})[subject] = chosen.score, choices
    for task, subject, method, name, score, _ in pair_averages(runs):
        if name == "all pairs":
            found.setdefault((task, method), {})[subject] = score, 1
    return {
        task: scores
        for task, scores in found.items()
        if len({subject.run for subject in scores}) > 1
    }


def compare_runs(runs: ProbeRuns) -> RunComparison:
    """All encoders of each task against each other; nothing where there is one run.

    Raises
    ------
    StoreError: outcomes that are damaged.
    """
    items, pairs = _Items(runs), {}
    for task, scores in _measured(runs).items():
        pairs[task] = [
            _compared(runs, items, task, scores, *pair)
            for pair in itertools.combinations(scores, 2)
        ]
    tests = [one.p for found in pairs.values() for one in found if one.p is not None]
    corrected = iter(_holm(tests) if tests else [])
    for task, found in pairs.items():
        pairs[task] = [_judged(one, next(corrected)) if one.p is not None else one for one in found]
    rankings = {
        task: rank
        for task, scores in _measured(runs).items()
        if (rank := _ranked(items, task, scores, pairs[task]))
    }
    return RunComparison(pairs, rankings)


def _holm(p: list[float]) -> list[float]:
    from crosslens.probes.methods.paired_tests import holm

    return [float(value) for value in holm(p)]


def _judged(one: Compared, p: float) -> Compared:
    verdict = "unclear" if p >= 0.05 else "above" if one.difference > 0 else "below"
    return dataclasses.replace(one, corrected_p=p, verdict=verdict)


def _compared(
    runs: ProbeRuns,
    items: _Items,
    task: Task,
    scores: Mapping[Subject, tuple[Score, int]],
    first: Subject,
    second: Subject,
) -> Compared:
    """Two encoders, not yet corrected for how many comparisons there are."""
    mine, theirs = items.of(first, task), items.of(second, task)
    if mine is None or theirs is None:
        return _by_files(runs, scores, first, second)
    one, other, groups = pair_outcomes(mine, theirs)
    counts: dict[str, Any] = {
        "n": len(one),
        "n_first": int(mine.measured.sum()),
        "n_second": int(theirs.measured.sum()),
    }
    if not len(one):
        return Compared(first, second, **counts, reason="they have no test item in common")
    choices = scores[first][1] * scores[second][1]
    try:
        tested = (
            _rank_test(mine, theirs)
            if mine.quantity == "spearman"
            else _share_test(one, other, groups)
        )
    except InputError as error:
        return Compared(first, second, **counts, reason=f"too few items in common: {error}")
    values, difference, low, high, p = tested
    ends: dict[str, Any] = (
        {"low": low, "high": high} if choices == 1 else {}
    )  # an interval that does not know of the choice would not cover
    return Compared(
        first,
        second,
        **counts,
        values=values,
        difference=difference,
        **ends,
        p=min(1.0, p * choices),
        how="items",
    )


# both values, difference, its interval, p
_Tested = tuple[tuple[float, float], float, float, float, float]


def _share_test(one: np.ndarray, other: np.ndarray, groups: np.ndarray) -> _Tested:
    """McNemar's test of what is right and wrong, over groups of items."""
    from crosslens.probes.methods.paired_tests import mcnemar

    test = mcnemar(one == 1, other == 1, groups=groups)
    return (float(one.mean()), float(other.mean())), test.difference, test.low, test.high, test.p


def _rank_test(mine: Outcomes, theirs: Outcomes) -> _Tested:
    """The difference of two Spearman correlations with the ratings."""
    from crosslens.stats import spearman_difference, spearman_interval

    one, other, groups = pair_outcomes(mine, theirs)
    ratings = shared_ratings(mine, theirs)
    first, second = (spearman_interval(values, ratings, groups)[0] for values in (one, other))
    return (first, second), *spearman_difference(one, other, ratings, groups)


def _by_files(
    runs: ProbeRuns, scores: Mapping[Subject, tuple[Score, int]], first: Subject, second: Subject
) -> Compared:
    """Encoders of which one run kept no outcomes per item: by their intervals, if what decides on
    the test items is the same."""
    one, other = (scores[subject][0] for subject in (first, second))
    if first.run == second.run:
        difference = (
            ""
            if one.n == other.n
            else "they were measured on different numbers of items of one run"
        )
    else:
        difference = _differ(runs.configs[first.run], runs.configs[second.run])
    if difference:
        return Compared(first, second, reason=f"a run without outcomes per item, and {difference}")
    counts: dict[str, Any] = {
        "n": min(one.n, other.n),
        "n_first": one.n,
        "n_second": other.n,
        "values": (float(one.value), float(other.value)),
    }
    return Compared(
        first,
        second,
        **counts,
        difference=one.value - other.value,
        verdict=against(one, other) or "unclear",
        how="files",
    )


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Why two runs may have different test items; empty where they have the same."""
    files = [
        part_of(config, "data").get("files") or part_of(config, "settings").get("files")
        for config in (one, other)
    ]
    if not all(isinstance(some, dict) and some for some in files):
        return "its test files are not recorded"
    if files[0] != files[1]:
        return "their files differ"
    changed = [
        name
        for name in _DECIDE
        if part_of(one, "settings").get(name) != part_of(other, "settings").get(name)
    ]
    return f"their settings differ ({join(changed)})" if changed else ""


def part_of(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A part of a run's configuration, empty where it is missing or no table."""
    given = config.get(name)
    return given if isinstance(given, dict) else {}


def _ranked(
    items: _Items,
    task: Task,
    scores: Mapping[Subject, tuple[Score, int]],
    pairs: Sequence[Compared],
) -> Ranking | None:
    """The highest on the items that all have; None where one pair cannot be compared."""
    if any(one.verdict is None for one in pairs):
        return None
    values = {subject: float(score.value) for subject, (score, _) in scores.items()}
    n = min(score.n for score, _ in scores.values())
    if all(one.how == "items" for one in pairs):
        found = {subject: one for subject in scores if (one := items.of(subject, task)) is not None}
        shared = set.intersection(
            *(set(one.item_id[one.measured].tolist()) for one in found.values())
        )
        if not shared:
            return None
        n = len(shared)
        try:
            values = {subject: _value_on(one, shared) for subject, one in found.items()}
        except InputError:  # too few of them for a correlation
            return None
    top = max(values, key=lambda subject: values[subject])
    stands = {
        one.second if one.first == top else one.first: one
        for one in pairs
        if top in (one.first, one.second)
    }
    apart = [
        subject
        for subject, one in stands.items()
        if one.verdict == ("above" if one.first == top else "below")
    ]
    return Ranking(top, n, apart, [subject for subject in stands if subject not in apart])


def _value_on(one: Outcomes, shared: set[str]) -> float:
    """What an encoder has on some of its items."""
    here = np.array([name in shared for name in one.item_id.tolist()])
    if one.quantity != "spearman" or one.gold is None:
        return float(one.outcome[here].mean())
    from crosslens.stats import spearman_interval

    return spearman_interval(one.outcome[here], np.asarray(one.gold)[here].astype(np.float64))[0]
