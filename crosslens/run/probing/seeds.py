"""Several seeds of a battery: further random encoders, other first weights of a probe, other orders
of what it reads.

The first seed's measurements are what tables and tests read; what the others give stands in their
details:

    over_seeds    seeds, values, their mean, and low and high: Student's 95 % interval over the
                  seeds

A further seed's measurements are rows of their own, under its number; they are distinguished by it
alone.
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from crosslens.evidence import OverSeeds
from crosslens.run.probing.items import Measured
from crosslens.score import QUANTITIES, Score
from crosslens.stats import mean_interval

__all__ = ["of_copy", "over_seeds", "seed_spread", "without_fixed"]

_FIXED = ("majority", "word_majority", "word_order")  # what no seed changes
_OF_THE_ENCODER = ("confusion", "f1", "resampled", "seeds")
_PLACE = ("part", "representation", "category", "average", "method")


def seed_spread(values: Iterable[float], seeds: Iterable[int], quantity: str) -> dict[str, Any]:
    """For the details: what each seed gave, the mean, and Student's 95 % interval within the
    quantity's range.

    Nothing where there is one seed. Where a value could not be computed (null among the values)
    there is no mean.

    >>> seed_spread([0.5, 0.7], [0, 1], "accuracy")["over_seeds"]["mean"]
    0.6
    """
    found = [float(value) for value in values]
    if len(found) < 2:
        return {}
    told: list[float | None] = [None if math.isnan(value) else value for value in found]
    if None in told:
        return {"over_seeds": OverSeeds([*seeds], told, None, None, None).as_dict()}
    mean, low, high = mean_interval(np.array(found))
    least, most = QUANTITIES[quantity].low, QUANTITIES[quantity].high
    ends = max(low, least), min(high, most)
    return {"over_seeds": OverSeeds([*seeds], told, mean, *ends).as_dict()}


def of_copy(found: Measured) -> Measured:
    """What was measured of a re-initialised encoder as if it were one, under the name of the
    control."""
    scores = []
    for score in found.scores:
        details = {
            name: value
            for name, value in (score.details or {}).items()
            if name not in _OF_THE_ENCODER
        }
        if score.condition is None and details.get("part") != "dev":
            scores.append(dataclasses.replace(score, condition="random_encoder", details=details))
    return Measured(
        scores,
        [
            dataclasses.replace(one, condition="random_encoder")
            for one in found.outcomes
            if one.condition is None
        ],
    )


def without_fixed(found: Measured) -> Measured:
    """The measurements that depend on a seed."""
    scores = [one for one in found.scores if one.condition not in _FIXED]
    return Measured(scores, [one for one in found.outcomes if one.condition not in _FIXED])


def over_seeds(first: Sequence[Score], further: Iterable[Sequence[Score]]) -> list[Score]:
    """The first seed's scores with the spread over all seeds in their details, then those of the
    further seeds.

    A seed that could not be measured is not among ``further``; ``over_seeds`` names those that are.
    """
    others = [_placed(some) for some in further]
    told = []
    for place, score in _placed(first).items():
        same = [score, *(some[place] for some in others if place in some)]
        spread = seed_spread(
            (one.value for one in same), (one.seed or 0 for one in same), score.quantity
        )
        told.append(
            dataclasses.replace(score, details={**(score.details or {}), **spread})
            if spread
            else score
        )
    return [*told, *(score for some in others for score in some.values())]


def _placed(scores: Iterable[Score]) -> dict[tuple[Any, ...], Score]:
    """What each score is of, but for its seed. None is lost: those of one place are counted."""
    found = dict[tuple[Any, ...], Score]()
    counts = collections.Counter[tuple[Any, ...]]()
    for score in scores:
        place = _place(score)
        found[*place, counts[place]] = score
        counts[place] += 1
    return found


def _place(score: Score) -> tuple[Any, ...]:
    details = score.details or {}
    return (
        score.task,
        score.quantity,
        score.condition,
        score.layer,
        score.source,
        score.target,
        *(details.get(name) for name in _PLACE),
    )
