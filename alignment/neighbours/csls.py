"""Nearest neighbours when some vectors are near to everything: CSLS, inverted softmax and the two
margins.

Among vectors of many dimensions a few, the hubs, are the nearest of very many others. Each score
here takes from the cosine of a pair what is usual for its two vectors, so that hubs are not found
by everybody:

    cosine            cos(x, y)
    csls              2 cos(x, y) - r_T(x) - r_S(y)                    Conneau et al. 2018, equation
                      3
    margin_distance   cos(x, y) - (r_T(x) + r_S(y)) / 2                Artetxe & Schwenk 2019,
                      section 4.1
    margin_ratio      cos(x, y) / ((r_T(x) + r_S(y)) / 2)              the same
    inverted_softmax  b cos(x, y) - log sum over x' of exp(b cos(x', y))   Smith et al. 2017,
                      equation 10, its logarithm

r_T(x) is the mean cosine of x and its ``neighbourhood`` nearest rows of all of y, r_S(y) that of y
and its nearest rows of all of x; the sum, too, is over all rows of x. All are higher for closer
pairs. CSLS and the margin distance order alike.

Scores are float64 and computed from single pairs wherever rounding could change an order: equal
ones are ordered by the lower index, whatever the number of threads
(:mod:`crosslens.alignment.neighbours.tiles`). The sums of inverted softmax alone are accurate to
single precision only.

What is usual takes one pass over all products, the scores a second one. Where the products of the
rows that ask take up to 512 MB they are kept from the first for the second; more are computed
again.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from crosslens.alignment.neighbours.copies import Copies
from crosslens.alignment.neighbours.products import Cosine
from crosslens.alignment.neighbours.tiles import Found, Scores, find_both, in_threads
from crosslens.checks import as_array, check_matrix, check_positive_int, check_same_width, is_number
from crosslens.errors import check_choice, refuse

__all__ = [
    "By",
    "adjusted_neighbours",
    "check_rows",
    "csls_neighbours",
    "neighbours_both",
    "scores_of",
]

By = Literal["cosine", "csls", "inverted_softmax", "margin_ratio", "margin_distance"]
_PART = 512  # rows whose exponentials are held at a time
_COLUMNS = 1024  # of inverted softmax, summed together
_KEPT = 2**29  # bytes of products that are kept from the first pass for the second, at most


def csls_neighbours(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 1,
    *,
    rows: ArrayLike | None = None,
    neighbourhood: int = 10,
) -> tuple[Int[np.ndarray, "q k"], Float[np.ndarray, "q k"]]:
    """The k rows of y with the highest CSLS, ``2 cos - r_T - r_S``, for some rows of x, best first.

    :func:`adjusted_neighbours` with ``by="csls"``; see there.

    >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    >>> csls_neighbours(x, x[::-1], rows=[2], neighbourhood=1)[0].tolist()
    [[0]]
    """
    return adjusted_neighbours(x, y, k, by="csls", rows=rows, neighbourhood=neighbourhood)


def adjusted_neighbours(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 1,
    *,
    by: By = "csls",
    rows: ArrayLike | None = None,
    neighbourhood: int = 10,
    inverse_temperature: int | float = 30.0,
) -> tuple[Int[np.ndarray, "q k"], Float[np.ndarray, "q k"]]:
    """The k rows of y with the highest score, for some rows of x, best first.

    Parameters
    ----------
    x: shape (n, d), the whole source vocabulary: what is usual for a row of y is learnt from all of
        it.
    y: shape (m, d), the whole target vocabulary; all of it competes.
    k: how many to find, 1 to m.
    by: which score; see the module's text.
    rows: shape (q,), the rows of x to find neighbours for, in the order of the results; without it,
        all.
    neighbourhood: how many neighbours say what is usual, 1 to the smaller of n and m. Not used by
        cosine and inverted softmax.
    inverse_temperature: b of inverted softmax, above 0: the higher, the more the nearest rows alone
        count.

    Returns
    -------
    indices: shape (q, k), rows of y. Equal scores are ordered by the lower index.
    scores: shape (q, k), in the precision of the inputs, falling along each row.

    Raises
    ------
    InputError: not finite, a zero row (named), different numbers of columns, a number out of range,
        an unknown score, or a margin ratio of vectors whose neighbourhoods' cosines are not
        positive.

    References
    ----------
    Conneau et al. 2018, Word translation without parallel data. Smith et al. 2017, Offline
    bilingual word vectors, orthogonal transformations and the inverted softmax. Artetxe & Schwenk
    2019, Margin-based parallel corpus mining.

    A hub, (1, 1), is nearest to both rows, until it is taken into account:

    >>> x, y = np.array([[1.0, 0.2], [0.2, 1.0]]), np.array([[1.0, 1.0], [1.0, -0.6], [-0.6, 1.0]])
    >>> adjusted_neighbours(x, y, by="cosine")[0].ravel().tolist()
    [0, 0]
    >>> adjusted_neighbours(x, y, by="csls", neighbourhood=2)[0].ravel().tolist()
    [1, 2]
    """
    x, y, asked = _check(x, y, rows)
    k = check_positive_int(k, "k", most=len(y))
    scores = scores_of(x, y, asked, by, neighbourhood, inverse_temperature)
    found, _ = find_both(scores, k, None, 0)
    return found.indices, found.scores.astype(np.result_type(x, y))


def neighbours_both(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 1,
    *,
    by: By = "csls",
    neighbourhood: int = 10,
    inverse_temperature: int | float = 30.0,
) -> tuple[Found, Found]:
    """The k best partners of every row of both sides; each side asks, and the other competes.

    The products are computed once for what is usual and once for the scores, whichever side asks;
    inverted softmax, whose sums differ by direction, needs twice as many.

    Parameters
    ----------
    x: shape (n, d). y: shape (m, d).
    k: how many partners, 1 to the smaller of n and m.
    by, neighbourhood, inverse_temperature: as in :func:`adjusted_neighbours`.

    Returns
    -------
    of x, whose indices are rows of y; and of y.

    Raises
    ------
    InputError: as for :func:`adjusted_neighbours`.

    >>> of_x, of_y = neighbours_both(np.eye(2), [[0.6, 0.8], [0.8, 0.6]], neighbourhood=1)
    >>> of_x.indices.ravel().tolist(), of_y.indices.ravel().tolist()
    ([1, 0], [1, 0])
    """
    x, y, every = _check(x, y, None)
    k = check_positive_int(k, "k", most=min(len(x), len(y)))
    scores = scores_of(x, y, every, by, neighbourhood, inverse_temperature)
    if by != "inverted_softmax":
        return find_both(scores, k)
    of_x, _ = find_both(scores, k, None, 0)
    of_y, _ = find_both(
        scores_of(y, x, np.arange(len(y)), by, neighbourhood, inverse_temperature, ("y", "x")),
        k,
        None,
        0,
    )
    return of_x, of_y


def scores_of(
    x: np.ndarray,
    y: np.ndarray,
    rows: np.ndarray,
    by: By,
    neighbourhood: int,
    inverse_temperature: int | float,
    names: tuple[str, str] = ("x", "y"),
) -> Scores:
    """What the pairs of some rows of x and all of y are compared by; from checked matrices."""
    check_choice(by, "by", get_args(By))
    if by == "cosine":
        return Cosine.of(x, y, names, rows).scores()
    if by == "inverted_softmax":
        if not is_number(inverse_temperature) or not 0 < inverse_temperature < np.inf:
            got, remedy = repr(inverse_temperature), "30 is what MUSE uses"
            refuse("inverse_temperature", "a number above 0", got, remedy)
        cosine = Cosine.of(x, y, names, _first(rows, len(x)))
        sums = _log_sums(cosine, float(inverse_temperature))
        return cosine.less(
            np.zeros(len(rows)), sums / inverse_temperature, float(inverse_temperature)
        )
    neighbourhood = check_positive_int(neighbourhood, "neighbourhood", most=min(len(x), len(y)))
    cosine = Cosine.of(x, y, names, _first(rows, len(x)))
    plain = cosine.scores()
    kept = (
        _Kept(len(rows), len(y))
        if 4 * len(rows) * len(y) <= _KEPT and cosine.copies == (None, None)
        else None
    )
    of_x, of_y = find_both(
        plain if kept is None else dataclasses.replace(plain, adjust=kept.take),
        neighbourhood,
        len(rows),
        None,
    )
    r_x, r_y = of_x.scores.mean(axis=1), of_y.scores.mean(axis=1)
    if by == "margin_ratio":
        scores = _ratios(cosine, r_x, r_y)
        return scores if kept is None else dataclasses.replace(scores, multiply=kept.give)
    scores = cosine.less(r_x / 2, r_y / 2, 2.0 if by == "csls" else 1.0)
    return (
        scores
        if kept is None
        else dataclasses.replace(scores, multiply=kept.less(r_x / 2, r_y / 2))
    )


class _Kept:
    """Quick cosines of the rows that ask and all of y, kept from the pass that learns what is
    usual: the scores then need no products.

    Parameters
    ----------
    n: how many rows ask, the first ones. m: rows of y.
    """

    def __init__(self, n: int, m: int) -> None:
        self._products = np.empty((n, m), np.float32)

    def take(self, tile: np.ndarray, row: int, column: int) -> None:
        """Keep what a tile has of them."""
        mine = self._products[row : row + len(tile), column : column + tile.shape[1]]
        mine[...] = tile[: len(mine)]

    def give(self, tile: np.ndarray, row: int, column: int) -> None:
        """Write a tile."""
        tile[...] = self._products[row : row + len(tile), column : column + tile.shape[1]]

    def less(self, of_x: np.ndarray, of_y: np.ndarray) -> Callable[[np.ndarray, int, int], None]:
        """What writes a tile of ``cos - of_x - of_y``."""
        by_row, by_column = of_x.astype(np.float32)[:, None], of_y.astype(np.float32)

        def write(tile: np.ndarray, row: int, column: int) -> None:
            columns = slice(column, column + tile.shape[1])
            np.subtract(
                self._products[row : row + len(tile), columns], by_column[columns], out=tile
            )
            tile -= by_row[row : row + len(tile)]

        return write


def check_rows(rows: ArrayLike | None, n: int, name: str = "rows") -> Int[np.ndarray, " q"]:
    """Row numbers from 0 to n - 1, at least one; all rows for None.

    Raises
    ------
    InputError: none, of another shape, not whole numbers, out of range, or one of them twice.

    >>> check_rows([2, 0], 3).tolist()
    [2, 0]
    """
    if rows is None:
        return np.arange(n)
    asked = as_array(rows, "rows")
    if asked.ndim != 1 or not len(asked) or asked.dtype.kind not in "iu":
        got = f"{asked.dtype} of shape {asked.shape}"
        refuse(name, "a list of row numbers, at least one", got, "say which rows of x to look up")
    outside = asked[(asked < 0) | (asked >= n)]
    if len(outside):
        refuse(name, f"row numbers from 0 to {n - 1}", str(outside[0]), "count rows of x from 0")
    if len(np.unique(asked)) < len(asked):
        refuse(name, "each row once", "a row more than once", "give unique rows")
    return asked.astype(np.int64)


def _check(
    x: ArrayLike, y: ArrayLike, rows: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = check_matrix(x, "x"), check_matrix(y, "y")
    check_same_width(x, y)
    return x, y, check_rows(rows, len(x))


def _first(rows: np.ndarray, n: int) -> np.ndarray:
    """All n row numbers, these first."""
    others = np.ones(n, bool)
    others[rows] = False
    return np.concatenate([rows, np.flatnonzero(others)])


def _ratios(cosine: Cosine, r_x: np.ndarray, r_y: np.ndarray) -> Scores:
    """Cosines divided by the mean of what is usual for both sides."""
    least = (r_x.min() + r_y.min()) / 2
    if least <= 0:
        refuse(
            "by",
            "a score that these vectors have",
            f"margin_ratio, while the least mean cosine of two neighbourhoods is {least:.3g}",
            "use margin_distance or csls: a ratio to a number that is not positive has no order",
        )

    def restrict(rows: np.ndarray, columns: np.ndarray) -> Callable[[np.ndarray, int, int], None]:
        by_row, by_column = r_x[rows].astype(np.float32)[:, None], r_y[columns].astype(np.float32)

        def adjust(tile: np.ndarray, row: int, column: int) -> None:
            tile /= (by_row[row : row + len(tile)] + by_column[column : column + tile.shape[1]]) / 2

        return adjust

    def closely(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return cosine.closely(rows, columns) / ((r_x[rows, None] + r_y[columns]) / 2)

    def exact(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return cosine.exact(rows, columns) / ((r_x[rows] + r_y[columns]) / 2)

    def tile(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return cosine.exact_tile(rows, columns) / ((r_x[rows, None] + r_y[columns]) / 2)

    plain = cosine.scores()
    # half of it for the cosine's own rounding, and half, generously, for the division's
    margin = 2 * plain.margin / least
    return Scores(
        plain.left[: len(r_x)],
        plain.right,
        margin,
        exact,
        tile,
        closely,
        adjust=restrict(np.arange(len(r_x)), np.arange(len(r_y))),
        copies=cosine.copies_of(r_x, r_y),
        restrict=restrict,
    )


def _log_sums(cosine: Cosine, b: float) -> Float[np.ndarray, " m"]:
    """``log sum over rows x' of exp(b cos(x', y))`` for each row y, from cosines in float64.

    Sums of float32 differ in their last bits for rows that are equal, and decided between them.
    Here all rows of y of one direction have the same sum, and tiles have one size, whatever else
    does.
    """
    n, units = len(cosine.x_units), cosine.y / cosine.y_lengths[:, None]
    copies = Copies.among(units) or Copies.each(len(units))
    logs = np.empty(len(copies.first))

    def look(start: int) -> None:
        columns = copies.first[start : start + _COLUMNS]
        most, total = np.full(len(columns), -np.inf), np.zeros(len(columns))
        for row in range(0, n, _PART):
            tile = b * cosine.closely(np.arange(row, min(row + _PART, n)), columns)
            higher = np.maximum(most, tile.max(axis=0))  # so that nothing overflows or vanishes
            total = total * np.exp(most - higher) + np.exp(tile - higher).sum(axis=0)
            most = higher
        logs[start : start + _COLUMNS] = most + np.log(total)

    with in_threads(n * len(logs)) as (run, _):
        run(look, list(range(0, len(logs), _COLUMNS)))
    return logs[copies.of]
