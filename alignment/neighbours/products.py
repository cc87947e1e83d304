"""Cosines of two sides in one pass: what each row's neighbourhood is like (r of CSLS), and who is
nearest to whom.

Rows of length 1 in; how the pass is made, and why its answers do not depend on it, is told in
:mod:`crosslens.alignment.neighbours.tiles`.
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from crosslens.alignment.neighbours.copies import Copies
from crosslens.alignment.neighbours.exact_products import ExactRows, exact_pairs, exact_tile
from crosslens.alignment.neighbours.tiles import Found, Scores, find_both, rounding
from crosslens.alignment.rows import row_lengths
from crosslens.blas import for_each
from crosslens.checks import as_array, check_matrix, check_positive_int, check_same_width
from crosslens.errors import refuse

__all__ = ["Cosine", "best_both", "nearest_both", "neighbourhood_means"]

_PART = 2048  # rows scaled at a time


@dataclasses.dataclass(frozen=True, eq=False)
class Cosine:
    """Both sides as they came, their lengths, and float32 copies with rows of length 1, with room
    for two more columns.

    ``order`` says which rows of x these float32 rows are of: those that look for partners come
    first. ``copies`` has the rows that are equal to the last bit, of x in this order, and of y;
    ``exact_rows`` both sides as exact products take them.
    """

    x: np.ndarray
    y: np.ndarray
    x_lengths: np.ndarray
    y_lengths: np.ndarray
    x_units: np.ndarray
    y_units: np.ndarray
    order: np.ndarray
    copies: tuple[Copies | None, Copies | None]
    exact_rows: tuple[ExactRows, ExactRows]

    @classmethod
    def of(
        cls,
        x: np.ndarray,
        y: np.ndarray,
        names: tuple[str, str] = ("x", "y"),
        order: np.ndarray | None = None,
    ) -> "Cosine":
        """From two checked matrices.

        Raises
        ------
        InputError: they differ in their number of columns, or a row is zero.
        """
        check_same_width(x, y, names)
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        orders = np.arange(len(x)) if order is None else order, np.arange(len(y))

        def prepare(side: int) -> tuple[np.ndarray, np.ndarray, Copies | None, ExactRows]:
            lengths = row_lengths((x, y)[side], names[side])
            rows = (x, y)[side]
            copies = Copies.among(rows if side or order is None else rows[order])
            return lengths, _units(rows, lengths, orders[side]), copies, ExactRows.of(rows)

        (x_lengths, x_units, x_copies, x_exact), (y_lengths, y_units, y_copies, y_exact) = for_each(
            prepare, 2
        )
        return cls(
            x,
            y,
            x_lengths,
            y_lengths,
            x_units,
            y_units,
            orders[0],
            (x_copies, y_copies),
            (x_exact, y_exact),
        )

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Cosines of single pairs in float64."""
        (x, y), rows = self.exact_rows, self.order[rows]
        lengths = (self.x_lengths[rows] / x.units[rows]) * (
            self.y_lengths[columns] / y.units[columns]
        )
        cosines: np.ndarray = exact_pairs(x, y, rows, columns) / lengths
        return cosines

    def exact_tile(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The same cosines, of all pairs of some rows and columns."""
        (x, y), rows = self.exact_rows, self.order[rows]
        tile = exact_tile(x, y, rows, columns)
        tile /= (self.x_lengths[rows] / x.units[rows])[:, None] * (
            self.y_lengths[columns] / y.units[columns]
        )
        return tile

    def copies_of(self, of_x: np.ndarray, of_y: np.ndarray) -> tuple[Copies | None, Copies | None]:
        """The copies among those that look for partners, and on the other side, where these numbers
        are equal, too."""
        if self.copies == (None, None):
            return self.copies
        left = self.copies[0] and Copies.among(self.x[self.order[: len(of_x)]], of_x)
        return left, self.copies[1] and Copies.among(self.y, of_y)

    def closely(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Cosines of all pairs of some rows and columns, by a product in float64."""
        rows = self.order[rows]
        left = self.x[rows] / self.x_lengths[rows, None]
        right = self.y[columns] / self.y_lengths[columns, None]
        found: np.ndarray = left @ right.T
        return found

    def scores(self) -> Scores:
        """The cosine itself."""
        d = self.x.shape[1]
        quick = self.x_units[:, :d], self.y_units[:, :d]
        return Scores(
            *quick, rounding(d), self.exact, self.exact_tile, self.closely, copies=self.copies
        )

    def less(self, of_x: np.ndarray, of_y: np.ndarray, scale: float) -> Scores:
        """``scale (cos - of_x - of_y)``, of as many rows of x as ``of_x`` has, in ``order``."""
        d, n = self.x.shape[1], len(of_x)
        self.x_units[:n, d], self.x_units[:n, d + 1] = -of_x, 1
        self.y_units[:, d], self.y_units[:, d + 1] = 1, -of_y

        def exact(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return scale * (self.exact(rows, columns) - (of_x[rows] + of_y[columns]))

        def tile(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return scale * (self.exact_tile(rows, columns) - (of_x[rows, None] + of_y[columns]))

        def closely(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return scale * (self.closely(rows, columns) - (of_x[rows, None] + of_y[columns]))

        size = 1 + float(np.abs(of_x).max() + np.abs(of_y).max())
        copies = self.copies_of(of_x, of_y)
        return Scores(
            self.x_units[:n],
            self.y_units,
            rounding(d + 2, size),
            exact,
            tile,
            closely,
            scale,
            copies=copies,
        )


def neighbourhood_means(
    x: ArrayLike, y: ArrayLike, k: int = 10
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " m"]]:
    """How near each row's k nearest on the other side are, on average: r of CSLS, for both sides
    from one pass.

    ``r(x_i) = 1/k sum of cos(x_i, y_j) over the k largest`` (Conneau et al. 2018, equation 2), from
    -1 to 1, high for hubs.

    Parameters
    ----------
    x: shape (n, d), rows of length 1, as :func:`crosslens.alignment.rows.unit_rows` makes
        them.
    y: shape (m, d), rows of length 1.
    k: how many neighbours, 1 to the smaller of n and m.

    Returns
    -------
    r_x: shape (n,); r_y: shape (m,); in the precision of the inputs, rounded from exact means of
        the k best.

    Raises
    ------
    InputError: not finite, rows of other lengths, different numbers of columns, or k out of range.

    >>> r_x, r_y = neighbourhood_means([[1, 0], [0, 1]], [[1, 0], [0, 1], [0.6, 0.8]], k=2)
    >>> r_x.round(3).tolist(), r_y.round(3).tolist()
    ([0.8, 0.9], [0.5, 0.5, 0.7])
    """
    x, y = _check_units(x, y)
    k = check_positive_int(k, "k", most=min(len(x), len(y)))
    of_x, of_y = find_both(_dot_scores(x, y, None, None), k)
    precision = np.result_type(x, y)
    return of_x.scores.mean(axis=1).astype(precision), of_y.scores.mean(axis=1).astype(precision)


def nearest_both(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 1,
    r_x: ArrayLike | None = None,
    r_y: ArrayLike | None = None,
    *,
    block: int | None = None,
) -> tuple[Found, Found]:
    """The k best partners of every row of both sides by ``2 cos - r_x - r_y``, or by the cosine,
    from one pass.

    Parameters
    ----------
    x: shape (n, d), rows of length 1. y: shape (m, d), rows of length 1.
    k: how many partners, 1 to the smaller of n and m.
    r_x: shape (n,), r_y: shape (m,), from :func:`neighbourhood_means`; without both, partners are
        compared by the cosine.
    block: rows of each side that are multiplied at a time. It changes time and memory, and nothing
        else.

    Returns
    -------
    of x, whose indices are rows of y; and of y. Equal scores are ordered by the lower index.

    Raises
    ------
    InputError: as for :func:`neighbourhood_means`; one of r_x and r_y without the other, of another
        shape, or not finite.

    >>> of_x, of_y = nearest_both([[1, 0], [0, 1]], [[1, 0], [0.6, 0.8]])
    >>> of_x.indices.tolist(), of_y.indices.tolist()
    ([[0], [1]], [[0], [1]])
    """
    x, y = _check_units(x, y)
    k = check_positive_int(k, "k", most=min(len(x), len(y)))
    if (r_x is None) != (r_y is None):
        remedy = "compute both with neighbourhood_means"
        refuse("r_y" if r_y is None else "r_x", "means of both sides, or of none", "None", remedy)
    return find_both(
        _dot_scores(x, y, r_x, r_y),
        k,
        block=None if block is None else check_positive_int(block, "block"),
    )


def best_both(
    x: ArrayLike, y: ArrayLike, r_x: ArrayLike, r_y: ArrayLike
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
    """The best partner of every row of both sides by CSLS, ``2 cos - r_x - r_y``, from one pass.

    Parameters
    ----------
    x: shape (n, d), rows of length 1. y: shape (m, d), rows of length 1.
    r_x: shape (n,), r_y: shape (m,), from :func:`neighbourhood_means`.

    Returns
    -------
    shape (n,), the row of y that is best for each row of x; and shape (m,), the row of x that is
    best for each row of y. Equal scores go to the lower index.

    Raises
    ------
    InputError: as for :func:`nearest_both`.

    >>> x, y = np.eye(2, dtype=np.float32), np.array([[0.6, 0.8], [0.8, 0.6]], dtype=np.float32)
    >>> best_both(x, y, *neighbourhood_means(x, y, 1))
    (array([1, 0]), array([1, 0]))
    """
    of_x, of_y = nearest_both(x, y, 1, r_x, r_y)
    return of_x.indices[:, 0], of_y.indices[:, 0]


def _check_units(x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = check_matrix(x, "x"), check_matrix(y, "y")
    check_same_width(x, y)
    for side, name in ((x, "x"), (y, "y")):
        lengths = row_lengths(side, name)
        far = np.flatnonzero(np.abs(lengths - 1) > 1e-3)
        if len(far):
            got = f"length {lengths[far[0]]:.3g} in row {far[0]}"
            refuse(name, "rows of length 1", got, "pass it through unit_rows first")
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def _check_means(value: ArrayLike, name: str, n: int) -> np.ndarray:
    means = as_array(value, name)
    if means.shape != (n,) or means.dtype.kind != "f" or not np.isfinite(means).all():
        got = (
            f"{means.dtype} of shape {means.shape}"
            if means.shape != (n,) or means.dtype.kind != "f"
            else "NaN or infinity"
        )
        refuse(name, f"{n} finite means, one per row", got, "compute them with neighbourhood_means")
    return means.astype(np.float64)


def _dot_scores(
    x: np.ndarray, y: np.ndarray, r_x: ArrayLike | None, r_y: ArrayLike | None
) -> Scores:
    """Scores of rows of length 1, which are taken as they are."""
    both, copies = (ExactRows.of(x), ExactRows.of(y)), (Copies.among(x), Copies.among(y))
    if r_x is None or r_y is None:

        def exact(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return exact_pairs(*both, rows, columns) * (
                both[0].units[rows] * both[1].units[columns]
            )

        def tile(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return exact_tile(*both, rows, columns) * (
                both[0].units[rows, None] * both[1].units[columns]
            )

        def closely(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            products: np.ndarray = x[rows].astype(np.float64) @ y[columns].astype(np.float64).T
            return products

        quick = x.astype(np.float32, copy=False), y.astype(np.float32, copy=False)
        return Scores(*quick, rounding(x.shape[1]), exact, tile, closely, copies=copies)
    of_x, of_y = _check_means(r_x, "r_x", len(x)) / 2, _check_means(r_y, "r_y", len(y)) / 2
    left, right = (np.pad(side.astype(np.float32, copy=False), ((0, 0), (0, 2))) for side in (x, y))
    ones = np.ones(len(x)), np.ones(len(y))
    return Cosine(x, y, *ones, left, right, np.arange(len(x)), copies, both).less(of_x, of_y, 2.0)


def _units(x: np.ndarray, lengths: np.ndarray, order: np.ndarray) -> np.ndarray:
    units = np.empty((len(order), x.shape[1] + 2), np.float32)
    for start in range(0, len(order), _PART):
        rows = order[start : start + _PART]
        # divided in float64: no length is too small for it
        units[start : start + _PART, :-2] = x[rows] / lengths[rows, None]
    return units
