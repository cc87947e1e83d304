"""Is a layer, or an encoder, better than another on a task? Paired tests on the same items, corrected together.

Per encoder the layer that is best on dev (or, of a task without dev, on the items themselves, which favours it) is compared with layer 0;
encoders are compared with each other, each at its best layer. All tests of a run are one family, corrected by Holm's procedure.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from crosslens.errors import InputError
from crosslens.probes.paired_tests import ResamplingTest, holm, mcnemar, permutation_test
from crosslens.score import Score

__all__ = ["with_paired_tests"]

SAMPLES = 1000  # of a permutation test
_OUTCOMES = ("hits", "cosines", "ratings", "per_sentence")  # what details hold for the tests, and lose


def with_paired_tests(scores: Sequence[Score], seed: int) -> list[Score]:
    """The measurements without the outcomes per item, followed by a row for each paired test.

    Rows whose details hold ``hits`` (a character per item: 1 right, 0 wrong, "." not measured) are compared by McNemar's test; those
    with ``cosines`` (a number per item, or None) and ``ratings`` by a permutation test of Spearman's correlation on ranks; those with
    ``per_sentence`` (numbers of ``sentences``, how much was ``found`` in each, ``of`` how much) by a permutation test over the sentences
    that both have, of the share that is found in all of them. A test's row has the condition "paired_test", and in its details the fields
    of :class:`crosslens.probes.paired_tests.PairedTest` that fit. Where a test cannot be made (too few items) the value is NaN, with the
    reason.
    """
    tests = [test for pair in _pairs(scores) if (test := _test(*pair, seed)) is not None]
    made = [test for test in tests if "p" in (test.details or {})]
    corrected: list[float] = holm([(test.details or {})["p"] for test in made]).tolist() if made else []
    rows = []
    for test, p in zip(made, corrected, strict=True):
        rows.append(dataclasses.replace(test, details={**(test.details or {}), "corrected_p": p, "tests": len(made)}))
    return [*map(_without_outcomes, scores), *rows, *(test for test in tests if test not in made)]


def _pairs(scores: Sequence[Score]) -> list[tuple[Score, Score]]:
    """Which rows are compared: the best layer with layer 0 of each encoder, then encoders at their best layers."""
    found = []
    groups: dict[tuple[Any, ...], dict[str | None, list[Score]]] = {}
    for score in scores:
        details = score.details or {}
        if score.condition is None and any(name in details for name in ("hits", "cosines", "per_sentence")):
            place = (score.task, details.get("suite"), details.get("method"), score.quantity)
            groups.setdefault(place, {}).setdefault(score.encoder, []).append(score)
    for encoders in groups.values():
        best = {name: _best(mine, scores) for name, mine in encoders.items()}
        for name, mine in encoders.items():
            first = [s for s in mine if s.layer == 0 and _representation(s) == _representation(best[name])]
            found += [(best[name], first[0])] if first and best[name].layer != 0 else []
        found += list(itertools.combinations(best.values(), 2))
    return found


def _best(mine: Sequence[Score], scores: Sequence[Score]) -> Score:
    """The row of the best layer: by dev, of the same representation, where there is one."""
    dev = {(s.layer, _representation(s)): s.value for s in scores if _is_dev_of(s, mine[0])}
    return max(mine, key=lambda s: (dev.get((s.layer, _representation(s)), s.value), -(s.layer or 0)))


def _is_dev_of(score: Score, other: Score) -> bool:
    same = (score.task, score.encoder, score.quantity, score.condition) == (other.task, other.encoder, other.quantity, None)
    return same and (score.details or {}).get("part") == "dev"


def _representation(score: Score) -> str | None:
    return (score.details or {}).get("representation")


def _test(first: Score, second: Score, seed: int) -> Score | None:
    """The row of one test; None where the two share no items."""
    one, other = first.details or {}, second.details or {}
    names = _name(first, second), _name(second, first)
    together = first.encoder if first.encoder == second.encoder else f"{first.encoder} / {second.encoder}"
    fields: dict[str, Any] = {"task": first.task, "condition": "paired_test", "encoder": together, "seed": seed}
    fields |= {"layer": first.layer, "other_layer": second.layer}
    told = {name: one[name] for name in ("part", "suite", "method", "representation") if one.get(name) is not None}
    told |= {"first": names[0], "second": names[1]}
    if "hits" in one:
        both = [np.frombuffer(details["hits"].encode(), np.uint8) for details in (one, other)]
        there = np.logical_and.reduce([marks != ord(".") for marks in both])
        if not there.any():
            return None
        first_right, second_right = (marks[there] == ord("1") for marks in both)
        test = mcnemar(first_right, second_right, names)
        told |= {"only_first": test.only_first, "only_second": test.only_second, "p": test.p, "test": "McNemar, mid-p"}
        return Score(
            **fields, quantity="accuracy_difference", value=test.difference, n=test.n, low=test.low, high=test.high, details=told
        )  # fmt: skip
    if "cosines" in one:
        quantity, compare, told["test"] = "spearman_difference", _correlations, "permutation of ranks, bootstrap interval"
    else:
        quantity, compare, told["test"] = f"{first.quantity}_difference", _shares, "permutation over sentences, bootstrap interval"
    try:
        result = compare(one, other, seed)
    except InputError as error:  # too few items for a number on every sample
        return Score(**fields, quantity=quantity, value=float("nan"), n=0, details={**told, "reason": str(error)})
    told["p"] = result.p
    return Score(**fields, quantity=quantity, value=result.difference, n=result.n, low=result.low, high=result.high, details=told)


def _correlations(one: Mapping[str, Any], other: Mapping[str, Any], seed: int) -> ResamplingTest:
    """Two Spearman correlations with the same ratings. Cosines of two layers have scales of their own: their ranks have one."""
    pair = [np.array([np.nan if value is None else value for value in details["cosines"]]) for details in (one, other)]
    there = ~np.isnan(pair[0]) & ~np.isnan(pair[1])
    ranks = [rankdata(values[there]) for values in pair]
    ratings = np.array(one["ratings"])[there]
    return permutation_test(ranks[0], ranks[1], ratings, _spearman, samples=SAMPLES, seed=seed)


def _shares(one: Mapping[str, Any], other: Mapping[str, Any], seed: int) -> ResamplingTest:
    """Two shares of what there is to be found in the same sentences."""
    sides = [details["per_sentence"] for details in (one, other)]
    _, *rows = np.intersect1d(sides[0]["sentences"], sides[1]["sentences"], assume_unique=True, return_indices=True)
    found = [np.array(side["found"])[mine] for side, mine in zip(sides, rows, strict=True)]
    of = np.array(sides[0]["of"])[rows[0]]
    return permutation_test(found[0], found[1], of, _share, samples=SAMPLES, seed=seed)


def _share(of: np.ndarray, found: np.ndarray) -> float:
    """What is found, of all that there is; NaN where there is nothing to be found."""
    there = int(of.sum())
    return int(found.sum()) / there if there else float("nan")


def _spearman(true: np.ndarray, given: np.ndarray) -> float:
    """Pearson's correlation of ranks; NaN where one side does not vary."""
    a, b = (ranks - ranks.mean() for ranks in (rankdata(true), rankdata(given)))
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else float("nan")


def _name(score: Score, other: Score) -> str:
    """What a row is called in a test: by its encoder where encoders are compared, and by its layer."""
    layer = "" if score.layer is None else f"layer {score.layer}"
    if score.encoder == other.encoder:
        return layer
    return ", ".join(part for part in (str(score.encoder), layer) if part)


def _without_outcomes(score: Score) -> Score:
    if not any(name in (score.details or {}) for name in _OUTCOMES):
        return score
    return dataclasses.replace(score, details={name: value for name, value in (score.details or {}).items() if name not in _OUTCOMES})
