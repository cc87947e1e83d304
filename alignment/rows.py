"""Rows of a matrix: their lengths, their mean, and what they must be before they are compared: of
length 1 for cosine, centred, and not all the same."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.checks import check_matrix
from crosslens.errors import refuse

__all__ = ["centred_to_one", "check_varies", "mean_row", "row_lengths", "unit_rows"]

_BLOCK = 4096  # rows squared at a time, so that the float64 squares stay small
_TINY = 1e-146  # squares of smaller numbers have few digits in float64, or none
_LARGER = 2.0**600


def check_varies(x: Float[np.ndarray, "n d"], name: str) -> None:
    """Refuse a matrix whose rows are all the same: centred, nothing but rounding is left of it.

    Raises
    ------
    InputError: every row equals the first.

    >>> check_varies(np.array([[1.0, 2.0], [1.0, 3.0]]), "x")
    """
    for start in range(0, len(x), _BLOCK):  # the first block nearly always settles it
        if (x[start : start + _BLOCK] != x[0]).any():
            return
    remedy = "give at least two different items; with one vector for all, nothing varies"
    refuse(name, "rows that differ", f"{len(x)} equal row(s)", remedy)


def centred_to_one(x: Float[np.ndarray, "n d"], name: str) -> Float[np.ndarray, "n d"]:
    """The rows less their mean, all divided by the largest number among them, so that no product
    overflows.

    Raises
    ------
    InputError: all rows are equal, or a difference does not fit in the type of the numbers.

    >>> centred_to_one(np.array([[0.0, 2.0], [4.0, 2.0]]), "x").tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    check_varies(x, name)
    centred = x - x.mean(axis=0, dtype=np.float64)
    peak = float(np.abs(centred).max())
    if not np.isfinite(peak):
        expected = f"values whose differences fit in {centred.dtype}"
        refuse(name, expected, "an overflow", "scale them down")
    centred /= peak
    return centred


def row_lengths(
    x: Float[np.ndarray, "n d"], name: str, *, zeros: bool = False
) -> Float[np.ndarray, " n"]:
    """Euclidean length of each row in float64; a row of length zero is refused by its number.

    A row's length depends on that row alone, to the last bit: the squares are summed
    along contiguous memory, never across a buffer's edge.

    Parameters
    ----------
    x: shape (n, d), as :func:`crosslens.checks.check_matrix` returns it.
    name: what the caller calls ``x``.
    zeros: allow rows of length zero.

    Returns
    -------
    shape (n,), float64, every value above 0 (with ``zeros``, or 0).

    Raises
    ------
    InputError: a row is zero and so has no direction, or so long that its length overflows.

    >>> row_lengths(np.array([[3.0, 4.0], [0.0, 2.0]]), "x")
    array([5., 2.])
    """
    lengths = np.empty(len(x))
    with np.errstate(over="ignore", under="ignore"):  # an overflow is refused below, by row
        for start in range(0, len(x), _BLOCK):
            rows = slice(start, start + _BLOCK)
            lengths[rows] = np.sqrt(np.square(x[rows], dtype=np.float64, order="C").sum(axis=1))
    low = np.flatnonzero(lengths < _TINY)
    larger = np.multiply(x[low], _LARGER, dtype=np.float64)
    lengths[low] = np.sqrt(np.square(larger).sum(axis=1)) / _LARGER
    long = np.flatnonzero(lengths > np.finfo(x.dtype).max)
    if len(long):
        expected = f"rows whose lengths fit in {x.dtype}"
        refuse(name, expected, f"an overflow in row {long[0]}", "scale the vectors down")
    zero = np.flatnonzero(lengths == 0)
    if len(zero) and not zeros:
        got = f"{len(zero)} row(s) of zeros, the first is row {zero[0]}"
        remedy = "remove these items: a zero vector has no cosine"
        refuse(name, "rows with a direction", got, remedy)
    return lengths


def unit_rows(x: ArrayLike) -> Float[np.ndarray, "n d"]:
    """Scale every row to Euclidean length 1: ``x_i / ||x_i||``.

    Parameters
    ----------
    x: shape (n, d); not written to.

    Returns
    -------
    shape (n, d), in the precision of ``x``.

    Raises
    ------
    InputError: ``x`` is no finite matrix, or a row is zero.

    >>> unit_rows([[3, 4], [0, 2]])
    array([[0.6, 0.8],
           [0. , 1. ]], dtype=float32)
    """
    x = check_matrix(x, "x")
    return x / row_lengths(x, "x").astype(x.dtype)[:, None]


def mean_row(x: Float[np.ndarray, "n d"], name: str) -> Float[np.ndarray, " d"]:
    """The mean over rows, added up in float64 and given in the precision of ``x``.

    Raises
    ------
    InputError: the sum overflows.

    >>> mean_row(np.array([[1.0, 2.0], [3.0, 4.0]]), "x")
    array([2., 3.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = x.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mean).all():
        refuse(name, "values whose sum fits in float64", "an overflow", "scale the vectors down")
    return mean.astype(x.dtype)
