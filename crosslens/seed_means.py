"""Means over seeds of what a controlled study measures of each training."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.hits import equal_items, hits_of
from crosslens.score import QUANTITIES, Score
from crosslens.seed_intervals import seeds_share
from crosslens.stats import mean_interval

__all__ = ["means"]


def means(scores: Sequence[Score]) -> list[Score]:
    """Means over seeds with 95 % intervals, as scores without a seed.

    Retrieval: over both directions, of the held-out sentences, the interval over seeds and
    sentences (those that say the same count as one), with one seed over sentences alone.
    Everything else: Student's interval over seeds; with one seed, or where all have the same
    value, that of the first measurement over its items. NaN with the reason where a seed has none.
    """
    groups: dict[tuple[Any, ...], list[Score]] = {}
    for score in scores:
        is_retrieval = score.quantity == "precision_at_1"
        if is_retrieval and (score.details or {}).get("part") != "held_out":
            continue
        way = () if is_retrieval else (score.source, score.target)
        key = (score.encoder, score.quantity, score.condition, score.layer, *way)
        groups.setdefault(key, []).append(score)
    return [_mean(found) for found in groups.values()]


def _mean(found: Sequence[Score]) -> Score:
    first, seeds = found[0], sorted({score.seed for score in found if score.seed is not None})
    value: float
    low: float | None
    high: float | None
    told: dict[str, Any] = {"seeds": seeds}
    if lost := [score for score in found if math.isnan(score.value)]:
        value, low, high = math.nan, None, None
        reasons = dict.fromkeys(str(score.evidence.reason) for score in lost)
        told["reason"] = f"{len(lost)} of {len(found)} were not measured: {'; '.join(reasons)}"
    elif all("hits" in (score.details or {}) for score in found):
        value, low, high = seeds_share(*hits_of(found, equal_items(found)))
        told["part"] = "held_out"
    else:
        value, low, high = _over_seeds([score.value for score in found], first)
    told["values"] = [
        float(np.mean([score.value for score in found if score.seed == seed])) for seed in seeds
    ]
    for name in ("chance", "by_frequency"):
        if all(name in (score.details or {}) for score in found):
            told[name] = float(np.mean([(score.details or {})[name] for score in found]))
    return dataclasses.replace(
        first, value=value, low=low, high=high, seed=None, details=_plain(told)
    )


def _over_seeds(values: Sequence[float], first: Score) -> tuple[float, float | None, float | None]:
    if len(set(values)) == 1:  # of equal ones Student's would have no width
        return first.value, first.low, first.high
    mean, low, high = mean_interval(np.array(values))
    limits = QUANTITIES[first.quantity]
    return mean, max(low, limits.low), min(high, limits.high)


def _plain(told: Mapping[str, Any]) -> dict[str, Any]:
    """Details that JSON has words for: what could not be computed is null."""
    return {
        name: [None if value != value else value for value in item]
        if isinstance(item, list)
        else item
        for name, item in told.items()
    }
