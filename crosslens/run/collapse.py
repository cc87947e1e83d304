"""Layers that cannot be measured: those whose vectors are all alike, and those that a measure
refuses.

Such a layer is no reason to lose the others. Its value becomes NaN with its reason, and a run is
refused only where nothing of it could be measured.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from crosslens.activations import Activations
from crosslens.errors import InputError
from crosslens.score import Score

__all__ = ["ROUNDING", "collapse_reason", "is_collapsed", "reason_of", "refuse_unmeasured"]

_BLOCK = 4096  # rows that are read at a time
ROUNDING = 256 * float(np.finfo(np.float32).eps)
"""What an encoder's arithmetic makes of equal vectors, as a share of their length."""


def is_collapsed(layers: Sequence[Any]) -> bool:
    """Whether the rows of all these arrays together are one vector, but for rounding.

    They are where their distance from the mean, as a root mean square, is at most 256 eps of
    float32 (0.003 %) of their length, beyond what one eps of the type that they are stored in is of
    each column. An encoder of twelve layers that is given one vector for everything ends, after
    summing over more or fewer tokens, with about 45 eps; sentences of real encoders lie thousands
    of times farther apart. All columns are taken together: a single one that is near zero may hold
    nothing but what rounding has left.

    Parameters
    ----------
    layers: of shape (n, d), n may differ; in memory or mapped from disk, read in blocks. Rows of
        NaN (words without vectors) are passed over.

    >>> rows = np.ones((3, 2), np.float32) + np.array([[0], [1e-6], [0]], np.float32)
    >>> is_collapsed([rows]), is_collapsed([rows, 2 * rows])
    (True, False)
    """
    count, total, squares, lengths, first = 0, 0.0, 0.0, 0.0, None
    # what overflows is refused by the measures, by name
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in layers:
            for start in range(0, len(layer), _BLOCK):
                rows = np.asarray(layer[start : start + _BLOCK]).astype(np.float64)
                rows = rows[~np.isnan(rows).any(axis=1)]
                if not len(rows):
                    continue
                first = rows[0] if first is None else first
                apart = rows - first
                count, total = count + len(rows), total + apart.sum(axis=0)
                squares = squares + np.square(apart).sum(axis=0)
                lengths = lengths + np.square(rows).sum(axis=0)
        around = squares - (np.square(total) / count if count else 0.0)
        # of each number by itself
        stored = max(float(ml_dtypes.finfo(layer.dtype).eps) for layer in layers)
        return bool(
            np.maximum(around - stored**2 * lengths, 0).sum() <= ROUNDING**2 * np.sum(lengths)
        )


def collapse_reason(stores: Iterable[Activations], number: int) -> str:
    """Why a layer of these activation datasets cannot be measured: in one of them all vectors are
    alike. Empty where they are not.

    Raises
    ------
    InputError: an activation dataset has no such layer.
    """
    alike = dict.fromkeys(store.language for store in stores if is_collapsed([store.layer(number)]))
    return "; ".join(f"all vectors of {language} are alike" for language in alike)


def reason_of(error: InputError) -> str:
    """A refusal as a reason: without the advice at its end, where it has one.

    >>> reason_of(InputError("X: expected rows that differ, got 30 equal row(s); give two different items"))
    'X: expected rows that differ, got 30 equal row(s)'
    """
    told = str(error)
    return told.partition("; ")[0] if ": expected " in told else told


def refuse_unmeasured(scores: Sequence[Score], what: str) -> None:
    """Refuse measurements of which there is none, with the first reason.

    Raises
    ------
    InputError: every value is NaN.

    >>> refuse_unmeasured([Score(quantity="accuracy", value=1.0, n=2)], "language identification")
    """
    if scores and all(math.isnan(score.value) for score in scores):
        reasons = dict.fromkeys(
            part
            for score in scores
            for part in str((score.details or {}).get("reason")).split("; ")
        )
        told = "; ".join(list(reasons)[:3])
        raise InputError(
            f"{what}: expected a layer that can be measured, got none ({told}); use another "
            f"encoder, pooling or layers"
        )
