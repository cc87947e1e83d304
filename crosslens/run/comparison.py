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
from crosslens.score import Score
from crosslens.stats import difference_interval, paired_interval, share_interval

__all__ = ["CONTROLS", "compare_with_controls"]

CONTROLS = {"unaligned": "random_encoder", "procrustes": "random_encoder_procrustes"}
_Place = tuple[str | None, int | None]  # condition, layer


def compare_with_controls(scores: Sequence[Score]) -> list[Score]:
    """Retrieval scores with the outcomes per sentence replaced by what they are for.

    Scores whose details hold ``hits`` (a string of 0 and 1, a sentence each) and that have a
    control on the same sentences get ``details["above_control"]``: difference, low and high
    (Agresti & Min 2005). For each condition and layer a score of the task
    ``mean_sentence_retrieval`` is added: the mean over directions, whose interval has sentences as
    its units, since one sentence takes part in every direction
    (:func:`crosslens.stats.share_interval`). Where a direction was not measured, neither is the
    mean: it is NaN, with the reason in the details.
    """
    hits = {_key(score): _hits(score) for score in scores if "hits" in (score.details or {})}
    found = [_without_hits(score, hits) for score in scores]
    places: dict[_Place, list[Score]] = {}
    for score in scores:
        lacks = (
            math.isnan(score.value)
            and score.task == "sentence_retrieval"
            and (score.details or {}).get("part") == "held_out"
        )
        if (_key(score) in hits or lacks) and score.condition in CONTROLS:
            places.setdefault((score.condition, score.layer), []).append(score)
    return found + [
        _mean(mine, hits) for mine in places.values() if len({score.n for score in mine}) == 1
    ]


def _key(score: Score, condition: str | None = None) -> tuple[Any, ...]:
    return (
        condition or score.condition,
        score.layer,
        score.source,
        score.target,
        (score.details or {}).get("part"),
    )


def _hits(score: Score) -> np.ndarray:
    return np.array([mark == "1" for mark in (score.details or {})["hits"]])


def _control(score: Score, hits: dict[tuple[Any, ...], np.ndarray]) -> np.ndarray | None:
    """The outcomes of a score's control on the same sentences."""
    control = CONTROLS.get(score.condition or "")
    return hits.get(_key(score, control)) if control else None


def _without_hits(score: Score, hits: dict[tuple[Any, ...], np.ndarray]) -> Score:
    if _key(score) not in hits:
        return score
    details = {name: value for name, value in (score.details or {}).items() if name != "hits"}
    control = _control(score, hits)
    if control is not None and len(control) == score.n:
        above = Difference.of(paired_interval(hits[_key(score)], control))
        details["above_control"] = above.as_dict()
    return dataclasses.replace(score, details=details)


def _mean(scores: list[Score], hits: dict[tuple[Any, ...], np.ndarray]) -> Score:
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
    mine = np.sum([hits[_key(score)] for score in scores], axis=0)
    of = np.full(len(mine), len(scores))
    value, low, high = share_interval(mine, of)
    controls = [control for score in scores if (control := _control(score, hits)) is not None]
    if len(controls) == len(scores):
        control = np.sum(controls, axis=0)
        details["control"] = float(control.sum() / of.sum())
        above = Difference.of(difference_interval(mine - control, of))
        details["above_control"] = above.as_dict()
    return dataclasses.replace(first, value=value, low=low, high=high, details=details)
