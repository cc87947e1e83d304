"""Is a layer, or an encoder, better than another on a task? Paired tests on the same items,
corrected together.

Per encoder the layer that is best on dev is compared with layer 0, and a mix of all layers with
that layer; encoders are compared with each other, each at its best layer. All tests of a run are
one family, corrected by Holm's procedure. A task without dev has its best layer chosen on the very
items that are tested: then p is multiplied by the number of comparisons that it was chosen from
(Bonferroni), and no interval is given, since one that does not know of the choice would not cover.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

from crosslens.errors import InputError
from crosslens.outcomes import Outcomes, pair_outcomes, shared_ratings
from crosslens.probes.methods.paired_tests import holm, mcnemar
from crosslens.score import Score
from crosslens.selection import choose
from crosslens.stats import spearman_difference

__all__ = ["paired_tests"]

_MIX = ":mix"  # behind the name of a task: its items are those of the task

_CENTRED = "centred_cosine"  # encoders and layers are compared by cosines as they are
_PLACE = ("part", "suite", "method", "representation")


def paired_tests(scores: Sequence[Score], outcomes: Sequence[Outcomes], seed: int) -> list[Score]:
    """A row for each paired test.

    What is right or wrong is compared by McNemar's test, with groups of items (words of a sentence,
    say) that stand and fall together; cosines by the difference of their Spearman correlations with
    the ratings. A row has the condition "paired_test", and in its details the fields of
    :class:`crosslens.probes.methods.paired_tests.PairedTest` that fit. Where a test cannot be made
    (too few items) the value is NaN, with the reason; two that share no items are not compared.

    Parameters
    ----------
    scores: all measurements; they say which layer is best on dev.
    outcomes: those of the encoders themselves.
    seed: of the run: what was measured with further seeds is not compared.
    """
    scores = [s for s in scores if s.seed in (None, seed)]
    outcomes = [one for one in outcomes if one.seed in (None, seed)]
    tests = [
        test
        for one, other, choices in _pairs(scores, outcomes)
        if (test := _test(one, other, choices, seed)) is not None
    ]
    made = [test for test in tests if "p" in (test.details or {})]
    corrected: list[float] = (
        holm([(test.details or {})["p"] for test in made]).tolist() if made else []
    )
    rows = []
    for test, p in zip(made, corrected, strict=True):
        rows.append(
            dataclasses.replace(
                test, details={**(test.details or {}), "corrected_p": p, "tests": len(made)}
            )
        )
    return [*rows, *(test for test in tests if test not in made)]


def _pairs(
    scores: Sequence[Score], outcomes: Sequence[Outcomes]
) -> list[tuple[Outcomes, Outcomes, int]]:
    """What is compared: the best layer with layer 0 of each encoder, mixes with the best layer,
    then encoders at their best layers; and of how many it was chosen."""
    found: list[tuple[Outcomes, Outcomes, int]] = []
    groups: dict[tuple[Any, ...], dict[str | None, list[Outcomes]]] = {}
    for one in outcomes:
        if one.representation != _CENTRED:
            groups.setdefault(
                (one.task, one.source, one.target, one.suite, one.method, one.quantity), {}
            ).setdefault(one.encoder, []).append(one)
    values = {_place(s): s.value for s in scores if s.condition is None}
    layers: dict[tuple[Any, ...], tuple[Outcomes, int]] = {}
    for (task, *rest), encoders in groups.items():
        chosen = {name: _best(mine, values) for name, mine in encoders.items()}
        best = {name: one for name, (one, _) in chosen.items()}
        choices = {name: count for name, (_, count) in chosen.items()}
        for name, mine in encoders.items():
            first = [
                one
                for one in mine
                if one.layer == 0 and one.representation == best[name].representation
            ]
            found += (
                [(best[name], first[0], max(1, choices[name] - 1))]
                if first and best[name].layer != 0
                else []
            )
            layers[task, *rest, name] = best[name], choices[name]
            # measured before its mix
            beside = (
                layers.get((task.removesuffix(_MIX), *rest, name)) if task.endswith(_MIX) else None
            )
            found += [(best[name], *beside)] if beside is not None else []
        found += [
            (best[one], best[other], choices[one] * choices[other])
            for one, other in itertools.combinations(best, 2)
        ]
    return found


def _place(one: Score | Outcomes, part: str | None = None) -> tuple[Any, ...]:
    """By which a measurement and its outcomes are found: the part may be another. Dev is of the
    language that is trained on."""
    said = (
        {name: (one.details or {}).get(name) for name in _PLACE}
        if isinstance(one, Score)
        else {n: getattr(one, n) for n in _PLACE}
    )
    part = part or said["part"]
    languages = one.source, one.source if part == "dev" else one.target
    return (
        one.task,
        one.encoder,
        one.quantity,
        one.layer,
        *languages,
        said["representation"],
        said["suite"],
        said["method"],
        part,
    )


def _best(mine: Sequence[Outcomes], values: dict[tuple[Any, ...], float]) -> tuple[Outcomes, int]:
    """The best layer and representation, and from how many it was chosen on the items tested.

    By dev, where there is one: then these items chose nothing (1).
    """
    found = choose(
        mine,
        lambda one: values.get(_place(one), one.mean),
        lambda one: values.get(_place(one, "dev"), math.nan),
        lambda one: one.layer,
    )
    best = mine[0] if found is None else found.item
    return best, 1 if found is not None and found.elsewhere else len(mine)


def _test(first: Outcomes, second: Outcomes, choices: int, seed: int) -> Score | None:
    """The row of one test, which is the best of ``choices`` on the same items; None where the two
    share no items."""
    names = _name(first, second), _name(second, first)
    together = (
        first.encoder if first.encoder == second.encoder else f"{first.encoder} / {second.encoder}"
    )
    fields: dict[str, Any] = {
        "task": first.task,
        "condition": "paired_test",
        "encoder": together,
        "seed": seed,
    }
    fields |= {
        "source": first.source,
        "target": first.target,
        "layer": first.layer,
        "other_layer": second.layer,
        "quantity": f"{first.quantity}_difference",
    }
    told = {name: value for name in _PLACE if (value := getattr(first, name)) is not None}
    told |= {"first": names[0], "second": names[1]}
    one, other, groups = pair_outcomes(first, second)
    if not len(one):
        return None
    if first.quantity == "spearman":
        told["test"] = "difference of rank correlations, infinitesimal jackknife"
        try:
            value, low, high, p = spearman_difference(
                one, other, shared_ratings(first, second), groups
            )
        except InputError as error:  # too few items, or the same number for all of them
            return Score(**fields, value=float("nan"), n=0, details={**told, "reason": str(error)})
        return Score(**fields, value=value, n=len(one), **_corrected(p, low, high, choices, told))
    test = mcnemar(one == 1, other == 1, names, groups=groups)
    told |= {
        "only_first": test.only_first,
        "only_second": test.only_second,
        "test": "McNemar, mid-p",
    }
    if test.groups < test.n:
        told |= {"groups": test.groups, "test": "McNemar, mid-p, over groups of items"}
    return Score(
        **fields,
        value=test.difference,
        n=test.n,
        **_corrected(test.p, test.low, test.high, choices, told),
    )


def _corrected(
    p: float, low: float, high: float, choices: int, told: dict[str, Any]
) -> dict[str, Any]:
    """p and the interval as fields of a score, for the best of ``choices`` comparisons on the same
    items."""
    if choices == 1:
        return {"low": low, "high": high, "details": {**told, "p": p}}
    return {"details": {**told, "p": min(1.0, p * choices), "chosen_from": choices}}


def _name(one: Outcomes, other: Outcomes) -> str:
    """What a measurement is called in a test: by its encoder where encoders are compared, and by
    its layer."""
    layer = (
        ("mix of layers" if one.task.endswith(_MIX) else "")
        if one.layer is None
        else f"layer {one.layer}"
    )
    if one.encoder == other.encoder:
        return layer
    return ", ".join(part for part in (str(one.encoder), layer) if part)
