"""What vectors must be before they are compared: rows of length 1 for cosine, rows that differ for a variance."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.checks import check_matrix
from crosslens.errors import refuse

__all__ = ["check_varies", "row_lengths", "unit_rows"]

_BLOCK = 4096  # rows squared at a time, so that the float64 squares stay small


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
    refuse(name, "rows that differ", f"{len(x)} equal row(s)", "give at least two different items; with one vector for all, nothing varies")


def row_lengths(x: Float[np.ndarray, "n d"], name: str) -> Float[np.ndarray, " n"]:
    """Euclidean length of each row in float64; a row of length zero is refused by its number.

    A row's length depends on that row alone, to the last bit: the squares are summed
    along contiguous memory, never across a buffer's edge.

    Parameters
    ----------
    x: shape (n, d), as :func:`crosslens.checks.check_matrix` returns it.
    name: what the caller calls ``x``.

    Returns
    -------
    shape (n,), float64, every value above 0.

    Raises
    ------
    InputError: a row is zero and so has no direction.

    >>> row_lengths(np.array([[3.0, 4.0], [0.0, 2.0]]), "x")
    array([5., 2.])
    """
    lengths = np.empty(len(x))
    for start in range(0, len(x), _BLOCK):
        rows = slice(start, start + _BLOCK)
        lengths[rows] = np.sqrt(np.square(x[rows], dtype=np.float64, order="C").sum(axis=1))
    zero = np.flatnonzero(lengths == 0)
    if len(zero):
        refuse(
            name,
            "rows with a direction",
            f"{len(zero)} row(s) of zeros, the first is row {zero[0]}",
            "remove these items: a zero vector has no cosine",
        )
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
