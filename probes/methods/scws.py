"""Similarity of words in context: do cosines order pairs of words as people do?"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from crosslens.checks import as_array
from crosslens.errors import refuse
from crosslens.one_line import one_line
from crosslens.probes.methods.rows import is_layer
from crosslens.stats import spearman_interval

__all__ = ["ScwsResult", "cosines", "missing_rows", "scws"]

_ROWS = 4096  # that are read at a time


@dataclasses.dataclass(frozen=True, eq=False)
class ScwsResult:
    """Spearman's correlation of each layer's cosines with the ratings.

    Attributes
    ----------
    spearman: shape (L,), from -1 to 1; higher is better. Papers print it × 100.
    low, high: shape (L,), 95 % intervals (:func:`crosslens.stats.spearman_interval`).
    n: shape (L,), pairs that the correlation is over.
    not_found: pairs in which the encoder has no vector for a word (a row of NaN, as extraction
        marks words without subwords).
    zero: shape (L,), pairs in which a vector is zero in that layer, which has no cosine. Neither
        kind is in ``n``.
    """

    spearman: Float[np.ndarray, " L"]
    low: Float[np.ndarray, " L"]
    high: Float[np.ndarray, " L"]
    n: Int[np.ndarray, " L"]
    not_found: int
    zero: Int[np.ndarray, " L"]

    __repr__ = one_line


def scws(first: Any, second: Any, ratings: ArrayLike, *, centred: bool = False) -> ScwsResult:
    """Correlate the cosines of word vectors in context with people's ratings, layer by layer.

    Parameters
    ----------
    first, second: L layers each, of shape (n, d) (a sequence, or an array of shape (L, n, d)): row
        i has the vectors of the two words of pair i. Layers mapped from disk are read a block at a
        time.
    ratings: shape (n,), people's mean ratings; higher for more similar words.
    centred: subtract from the vectors of a layer the mean of all of them, first and second, before
        cosines are taken. Vectors of contextual encoders lie in a narrow cone, and their mean tells
        nothing of a word (Ethayarajh 2019).

    Raises
    ------
    InputError: other numbers of layers, rows or columns; a row that is infinite, or NaN in part;
        fewer than four pairs left; ratings or cosines that are all equal.

    References
    ----------
    Huang et al. 2012 (the data); Artetxe et al. 2020, appendix D (mean of a word's subwords; 45.9 ×
    10⁻² for their English encoder).

    >>> first = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> second = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [1.0, 0.0], [-1.0, 0.0]])
    >>> result = scws([first], [second], [9.0, 7.0, 8.0, 3.0, 1.0])
    >>> result.spearman.round(3).tolist(), result.n.tolist()
    ([0.9], [5])
    """
    sides = {"first": first, "second": second}
    first, second = (
        [layer if is_layer(layer) else as_array(layer, name) for layer in side]
        for name, side in sides.items()
    )
    rated = _check(first, second, ratings)
    found = ~missing_rows(first[0], second[0])
    rows = []
    for number, (u, v) in enumerate(zip(first, second, strict=True)):
        values = cosines(u, v, centred=centred, rows=np.flatnonzero(found), name=f"layer {number}")
        there = ~np.isnan(values)
        _check_numbers(values[there], rated[found][there], number)
        rows.append(
            (
                *spearman_interval(values[there], rated[found][there]),
                int(there.sum()),
                int((~there).sum()),
            )
        )
    spearman, low, high, n, zero = (np.array(column) for column in zip(*rows, strict=True))
    return ScwsResult(spearman, low, high, n, int((~found).sum()), zero)


def _check(first: list[Any], second: list[Any], ratings: ArrayLike) -> np.ndarray:
    if len(first) != len(second) or not len(first):
        refuse(
            "second",
            f"{len(first)} layers, as many as first, and at least one",
            str(len(second)),
            "give both words' layers",
        )
    n = len(first[0])
    for name, layers in (("first", first), ("second", second)):
        for number, layer in enumerate(layers):
            if not is_layer(layer) or len(layer) != n:
                expected = f"numbers of shape ({n}, d), as first[0]"
                got = f"shape {np.shape(layer)} of {layer.dtype}"
                refuse(f"{name}[{number}]", expected, got, "row i of every layer must be pair i")
    rated = as_array(ratings, "ratings")
    if rated.shape != (n,) or rated.dtype.kind not in "fiu" or not np.isfinite(rated).all():
        refuse(
            "ratings",
            f"{n} finite numbers, one per pair",
            f"{rated.dtype} of shape {rated.shape}",
            "give one rating per row",
        )
    return rated.astype(np.float64)


def missing_rows(*layers: Any) -> Bool[np.ndarray, " n"]:
    """Which items have no vector in one of these layers: rows that are NaN from end to end, as
    extraction marks words without subwords.

    Parameters
    ----------
    layers: shape (n, d) each, with as many rows, read a block at a time.

    >>> missing_rows(np.array([[1.0, 0.0], [np.nan, np.nan]]), np.ones((2, 3))).tolist()
    [False, True]
    """
    missing = np.zeros(len(layers[0]), bool)
    for start in range(0, len(missing), _ROWS):
        block = slice(start, start + _ROWS)
        for layer in layers:
            missing[block] |= np.isnan(np.asarray(layer[block])).all(axis=1)
    return missing


def cosines(
    u: Any, v: Any, *, centred: bool = False, rows: ArrayLike | None = None, name: str = "u, v"
) -> Float[np.ndarray, " n"]:
    """The cosine of each row of u with the same row of v, from -1 to 1; NaN where one of them is
    zero.

    Parameters
    ----------
    u, v: shape (n, d), read a block at a time.
    centred: subtract from both the mean of all the rows of both.
    rows: which rows; without it all.
    name: what a refusal calls the vectors.

    Raises
    ------
    InputError: different shapes, or rows that are not finite.

    >>> cosines(np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])).tolist()
    [1.0, nan]
    """
    if np.shape(u) != np.shape(v) or len(np.shape(u)) != 2:
        got = f"shapes {np.shape(u)} and {np.shape(v)}"
        refuse(name, "two matrices of one shape (n, d)", got, "take both from one layer")
    chosen = np.arange(len(u)) if rows is None else np.asarray(rows)
    mean = np.zeros(np.shape(u)[1])
    if centred and len(chosen):
        mean = sum(a.sum(axis=0) + b.sum(axis=0) for a, b in _blocks(u, v, chosen, name)) / (
            2 * len(chosen)
        )
    found = []
    for a, b in _blocks(u, v, chosen, name):
        # by powers of two, which round nothing: squares of large or small numbers leave float64
        a, b = (
            np.ldexp(side, -np.frexp(np.abs(side).max(axis=1, keepdims=True, initial=0))[1])
            for side in (a - mean, b - mean)
        )
        lengths = np.sqrt(np.square(a).sum(axis=1) * np.square(b).sum(axis=1))
        products = (a * b).sum(axis=1)
        there = lengths > 0
        values = np.full(len(a), np.nan)
        values[there] = products[there] / lengths[there]
        found.append(values)
    return np.concatenate([np.empty(0), *found])


def _blocks(u: Any, v: Any, rows: np.ndarray, name: str) -> Iterator[list[np.ndarray]]:
    """The chosen rows of both, block after block, in float64."""
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        pair = [np.asarray(layer[some], np.float64) for layer in (u, v)]
        for block in pair:
            bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
            if len(bad):
                got = f"NaN or infinity in row {some[bad[0]]}"
                refuse(name, "finite numbers", got, "remove or repair these rows")
        yield pair


def _check_numbers(values: np.ndarray, ratings: np.ndarray, layer: int) -> None:
    if len(values) < 4:
        expected = "at least four pairs with a cosine"
        refuse(f"layer {layer}", expected, str(len(values)), "give more pairs")
    for what, some in (("ratings", ratings), (f"cosines of layer {layer}", values)):
        if np.ptp(some) == 0:
            remedy = "a correlation with a constant is not defined"
            refuse(what, "numbers that vary", "equal ones", remedy)
