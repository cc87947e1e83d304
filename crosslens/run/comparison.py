"""An encoder beside its random control, on the same sentences: paired differences, per direction
and over all of them.

Both looked for the same translations, so a sentence that is hard for one is hard for the other.
Comparing outcome by outcome takes that out, which two intervals side by side cannot.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from crosslens.evidence import Difference
from crosslens.hits import equal_items, item_outcomes
from crosslens.score import Score
from crosslens.stats import cluster_sums, difference_interval, paired_interval, share_interval

__all__ = ["CONTROLS", "compare_with_controls"]

CONTROLS = {"unaligned": "random_encoder", "procrustes": "random_encoder_procrustes"}
_Place = tuple[str | None, int | None]  # condition, layer


def compare_with_controls(scores: Sequence[Score]) -> list[Score]:
    """Retrieval scores with the outcomes per sentence replaced by what they are for.

    Scores whose details hold ``hits`` (:func:`crosslens.hits.kept_hits`) and that have a control on
    the same sentences get ``details["above_control"]``: difference, low and high (Agresti & Min
    2005; over groups of sentences, :func:`crosslens.stats.difference_interval`, where some say the
    same). For each condition and layer a score of the task
    ``mean_sentence_retrieval`` is added: the mean over directions, whose interval has sentences as
    its units, or groups of those that say the same, since one sentence takes part in every direction
    (:func:`crosslens.stats.share_interval`). Where a direction was not measured, neither is the
    mean: it is NaN, with the reason in the details.
    """
    hits = {
        _key(score): found
        for score in scores
        if (found := item_outcomes(score.details)) is not None
    }
    groups = equal_items(scores)
    told = [_without_hits(score, hits, groups) for score in scores]
    places: dict[_Place, list[Score]] = {}
    for score in scores:
        lacks = (
            math.isnan(score.value)
            and score.task == "sentence_retrieval"
            and (score.details or {}).get("part") == "held_out"
        )
        if (_key(score) in hits or lacks) and score.condition in CONTROLS:
            places.setdefault((score.condition, score.layer), []).append(score)
    return told + [
        _mean(mine, hits, groups)
        for mine in places.values()
        if len({score.n for score in mine}) == 1
    ]


def _key(score: Score, condition: str | None = None) -> tuple[Any, ...]:
    return (
        condition or score.condition,
        score.layer,
        score.source,
        score.target,
        (score.details or {}).get("part"),
    )


def _control(score: Score, hits: dict[tuple[Any, ...], np.ndarray]) -> np.ndarray | None:
    """The outcomes of a score's control on the same sentences."""
    control = CONTROLS.get(score.condition or "")
    return hits.get(_key(score, control)) if control else None


def _without_hits(
    score: Score, hits: dict[tuple[Any, ...], np.ndarray], groups: np.ndarray | None
) -> Score:
    if _key(score) not in hits:
        return score
    details = {
        name: value
        for name, value in (score.details or {}).items()
        if name not in ("hits", "equal_items")
    }
    mine, control = hits[_key(score)], _control(score, hits)
    if control is not None and len(control) == score.n:
        above = (
            paired_interval(mine, control)
            if groups is None
            else difference_interval(*cluster_sums(mine.astype(float) - control, groups))
        )
        details["above_control"] = Difference.of(above).as_dict()
    return dataclasses.replace(score, details=details)


def _mean(
    scores: list[Score], hits: dict[tuple[Any, ...], np.ndarray], groups: np.ndarray | None
) -> Score:
    """The mean over directions, of one condition and layer; NaN where one of them is."""
    first = dataclasses.replace(scores[0], task="mean_sentence_retrieval", source=None, target=None)
    details: dict[str, Any] = {"part": (first.details or {}).get("part"), "directions": len(scores)}
    lost = [score for score in scores if _key(score) not in hits]
    if lost:
        reasons = dict.fromkeys(str((score.details or {}).get("reason")) for score in lost)
        details["reason"] = (
            f"{len(lost)} of {len(scores)} directions were not measured: {'; '.join(reasons)}"
        )
        return dataclasses.replace(first, value=math.nan, low=None, high=None, details=details)
    each = np.arange(first.n) if groups is None else groups

    def together(found: list[np.ndarray]) -> np.ndarray:
        return cluster_sums(np.sum(found, axis=0), each)[0]

    mine = together([hits[_key(score)] for score in scores])
    of = cluster_sums(each, each)[1] * len(scores)
    value, low, high = share_interval(mine, of)
    if groups is not None:
        details["groups"] = len(of)
    controls = [control for score in scores if (control := _control(score, hits)) is not None]
    if len(controls) == len(scores):
        control = together(controls)
        details["control"] = float(control.sum() / of.sum())
        above = Difference.of(difference_interval(mine - control, of))
        details["above_control"] = above.as_dict()
    return dataclasses.replace(first, value=value, low=low, high=high, details=details)
