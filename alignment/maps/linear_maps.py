"""Linear maps from one vector space to another without any constraint on their shape: least squares
and ridge."""

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from crosslens.alignment.normalisation import CentredMap
from crosslens.alignment.rows import check_varies
from crosslens.checks import check_paired, decompose, is_number
from crosslens.errors import refuse

__all__ = ["LeastSquares", "above_rounding", "pseudo_inverse", "triangular_factor"]

_BLOCK = 4096  # rows taken up at a time, in float64
_SMALLEST = 1e-140  # squares of smaller values, and of their inverses, leave float64


class LeastSquares(CentredMap):
    """The linear map with the smallest squared error, learnt from pairs and applied to any vectors.

    ``fit`` finds ``W = argmin ||(X - mean_x) W - (Y - mean_y)||²_F + penalty ||W||²_F``;
    ``transform`` computes ``(X - mean_x) W + mean_y``. Without a penalty this is the
    regression of Mikolov et al. 2013, and where several W fit equally well (fewer
    independent pairs than dimensions) it is the one with the smallest ``||W||_F``. The
    two sides may have different numbers of dimensions.

    Parameters
    ----------
    penalty: of ridge regression, 0 or above, in units of squared vector length: it is added to
        the squared singular values of the centred X, so it must grow with the number of pairs.
    centre: subtract each side's mean over the training pairs first.
    normalise: scale every row to length 1 before centring, in ``fit`` and in both
        directions of mapping.

    Attributes
    ----------
    matrix_: shape (d, e); applied as ``x @ matrix_`` (scikit-learn's ``coef_`` is its transpose).
    mean_x_, mean_y_: shape (d,) and (e,), the two means; zeros where ``centre`` is False.
    rank_: rank of the (normalised, centred) X: directions that vary by more than rounding of its
        type. Below d, the pairs say nothing about the other directions, and the map sends these
        to zero: give more pairs.
    residual_: ``||X W - Y||_F / ||Y||_F`` on the (normalised, centred) training pairs, from 0
        (a perfect fit, to be expected of any data when ``rank_`` is n or n - 1) to 1.
    n_features_in_: d.

    References
    ----------
    Mikolov, Le & Sutskever 2013, Exploiting similarities among languages for machine
    translation, equation 3; Hoerl & Kennard 1970, Ridge regression.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 3))
    >>> stretch = rng.normal(size=(3, 2))
    >>> aligner = LeastSquares().fit(x, x @ stretch + 5)
    >>> bool(np.abs(aligner.transform(x) - (x @ stretch + 5)).max() < 1e-12)
    True
    """

    _lacks = "a matrix"
    _matrix = "matrix_"
    _learnt = ("matrix_", "mean_x_", "mean_y_", "rank_", "residual_", "n_features_in_")

    def __init__(
        self, penalty: float | int = 0.0, centre: bool = True, normalise: bool = False
    ) -> None:
        self.penalty = penalty
        self.centre = centre
        self.normalise = normalise

    def fit(self, X: ArrayLike, Y: ArrayLike) -> "LeastSquares":
        """Learn the map from pairs of rows.

        Parameters
        ----------
        X: shape (n, d). Y: shape (n, e); row i of one belongs to row i of the other. n may be
            below d.

        Raises
        ------
        InputError: not finite, different numbers of rows, a penalty below 0, a zero row under
            ``normalise``, nothing to learn from (equal rows, say), no convergence of the
            decomposition, or a map that does not fit the precision.

        Notes
        -----
        Everything is computed in float64 from a QR decomposition of the rows, never from
        ``XᵀX``: that would square the condition number.
        """
        X, Y = check_paired(X, Y, ("X", "Y"))
        self._check_penalty()
        X, Y = self._scaled(X, "X"), self._scaled(Y, "Y")
        for side, name in ((X, "X"), (Y, "Y")):
            if self.centre:
                check_varies(side, name)
            elif not side.any():
                remedy = "give other pairs; there is nothing to learn"
                refuse(name, "rows that are not all zero", f"{len(side)} row(s) of zeros", remedy)
        mean_x, mean_y = self._mean(X, "X"), self._mean(Y, "Y")
        exact = [
            side.mean(axis=0, dtype=np.float64) if self.centre else mean
            for side, mean in ((X, mean_x), (Y, mean_y))
        ]
        x, y = triangular_factor(X, Y, exact[0], exact[1], ("X", "Y"))
        sizes = np.hypot(
            scipy.linalg.norm(x, axis=0), np.sqrt(len(X)) * np.abs(exact[0].astype(np.float64))
        )
        matrix, rank = _solve(x, y, float(self.penalty), sizes, len(X), X.dtype)
        precision = np.result_type(X, Y)
        if not np.abs(matrix).max() <= np.finfo(precision).max:
            expected = f"a map to Y whose entries fit in {precision}"
            refuse("X", expected, "an overflow", "bring X and Y to similar lengths")
        self.matrix_ = matrix.astype(precision)
        self.mean_x_, self.mean_y_ = mean_x, mean_y
        self.rank_ = rank
        self.residual_ = float(scipy.linalg.norm(x @ matrix - y) / scipy.linalg.norm(y))
        self.n_features_in_ = X.shape[1]
        return self

    def inverse_transform(self, Y: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Map rows of Y's space into X's by the pseudo-inverse: ``(Y - mean_y_) @ pinv(matrix_) +
        mean_x_``.

        Of all vectors that :meth:`transform` brings nearest to Y, the one nearest to
        ``mean_x_``. It undoes :meth:`transform` when ``matrix_`` has rank d (not with
        fewer independent pairs than dimensions, nor with e < d) and ``normalise`` is False.

        Parameters
        ----------
        Y: shape (n, e), any number of rows.

        Returns
        -------
        shape (n, d), in the precision of ``Y``.

        Raises
        ------
        InputError: as for :meth:`transform`.
        """
        Y = self._ready(Y, "Y")
        back = pseudo_inverse(self.matrix_, Y.dtype)
        return (Y - self.mean_y_.astype(Y.dtype)) @ back + self.mean_x_.astype(Y.dtype)

    def _check_penalty(self) -> None:
        if not is_number(self.penalty) or not 0 <= self.penalty < np.inf:
            remedy = "0 is plain least squares; more is stricter"
            refuse("penalty", "a finite number, 0 or above", repr(self.penalty), remedy)


def triangular_factor(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n e"],
    mean_x: Float[np.ndarray, " d"],
    mean_y: Float[np.ndarray, " e"],
    names: tuple[str, str],
) -> tuple[Float[np.ndarray, "r d"], Float[np.ndarray, "r e"]]:
    """Two small matrices with the inner products of the centred ``x`` and ``y``, whatever the
    number of rows.

    With ``[x - mean_x, y - mean_y] = Q [A, B]``, Q having orthonormal columns, ``A`` and ``B``
    stand for the two sides in every least-squares problem: ``AᵀA``, ``AᵀB`` and ``BᵀB`` are those
    of the rows, but never computed, so no precision is lost to squaring.

    Parameters
    ----------
    x, y: shape (n, d) and (n, e). mean_x, mean_y: shape (d,) and (e,), subtracted in float64.
    names: what the caller calls x and y.

    Returns
    -------
    A and B, float64, of shape (r, d) and (r, e) with r = min(n, d + e).

    Raises
    ------
    InputError: the values are so large or so small that their squares leave float64.

    >>> x, y = np.array([[3.0], [4.0], [0.0]]), np.array([[1.0], [0.0], [2.0]])
    >>> a, b = triangular_factor(x, y, np.zeros(1), np.zeros(1), ("x", "y"))
    >>> (a.T @ a).round(9), (a.T @ b).round(9), (b.T @ b).round(9)
    (array([[25.]]), array([[3.]]), array([[5.]]))
    """
    factor = np.zeros((0, x.shape[1] + y.shape[1]))
    mean = np.concatenate([mean_x, mean_y]).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(x), _BLOCK):
            rows = slice(start, start + _BLOCK)
            block = np.concatenate([x[rows], y[rows]], axis=1).astype(np.float64)
            block -= mean
            factor = np.asarray(np.linalg.qr(np.concatenate([factor, block]), mode="r"))
    sides = factor[:, : x.shape[1]], factor[:, x.shape[1] :]
    for side, name in zip(sides, names, strict=True):
        largest = np.abs(side).max()
        if not (largest == 0 or _SMALLEST < largest < 1 / _SMALLEST):
            expected = f"values whose squares fit in float64 ({_SMALLEST:g} to {1 / _SMALLEST:g})"
            refuse(name, expected, f"{largest:.1e}", f"rescale {name}")
    return sides


def above_rounding(
    values: Float[np.ndarray, " r"],
    right: Float[np.ndarray, "r d"],
    sizes: Float[np.ndarray, " d"],
    n: int,
    dtype: np.dtype,
) -> Bool[np.ndarray, " r"]:
    """Which singular values are more than what rounding of the entries makes of nothing.

    Every entry is rounded by itself, so the error along a direction v is ``||sizes v||`` times some
    share of eps, whatever other columns are like and however many rows there are; of all directions
    without any variance together the largest has ``1 + sqrt(d / n)`` of it.

    Parameters
    ----------
    values, right: of the singular value decomposition, the right vectors as rows.
    sizes: length of each column as it was rounded, its mean included. n: rows. dtype: what the
        entries were rounded to.

    >>> above_rounding(np.array([2.0, 1e-3]), np.eye(2), np.array([2.0, 1e-3]), 9, np.dtype(np.float32)).tolist()
    [True, True]
    """
    return values > 4 * float(np.finfo(dtype).eps) * (1 + np.sqrt(len(sizes) / n)) * np.linalg.norm(
        right * sizes, axis=1
    )


def pseudo_inverse(matrix: Float[np.ndarray, "d e"], dtype: np.dtype) -> Float[np.ndarray, "e d"]:
    """The Moore-Penrose inverse; singular values that rounding of ``matrix`` may have made count as
    zero.

    Parameters
    ----------
    matrix: shape (d, e). dtype: the precision of the result; the inverse is computed in float64.

    Returns
    -------
    shape (e, d).

    Raises
    ------
    InputError: an entry of the inverse overflows ``dtype``.

    >>> pseudo_inverse(np.array([[2.0, 0.0], [0.0, 0.0]]), np.dtype(float))
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    exact = matrix.astype(np.float64)
    left, values, right = decompose(exact, "fit", "rescale both sides of the pairs")
    kept = above_rounding(values, right, np.linalg.norm(exact, axis=0), len(matrix), matrix.dtype)
    inverse = right[kept].T / values[kept] @ left[:, kept].T
    if not np.abs(inverse).max() <= np.finfo(dtype).max:
        remedy = "bring both sides of the pairs to similar lengths"
        refuse("fit", f"a map whose inverse fits in {dtype}", "an overflow", remedy)
    return inverse.astype(dtype)


def _solve(
    x: Float[np.ndarray, "r d"],
    y: Float[np.ndarray, "r e"],
    penalty: float,
    sizes: Float[np.ndarray, " d"],
    n: int,
    dtype: np.dtype,
) -> tuple[Float[np.ndarray, "d e"], int]:
    """The map, by the singular value decomposition of ``x``, and the number of directions above
    rounding."""
    left, values, right = decompose(x, "X")
    varies = above_rounding(values, right, sizes, n, dtype)
    rank = int(varies.sum())
    if not rank:
        expected = "rows that differ by more than rounding"
        remedy = "give other items, or vectors in float64"
        refuse("X", expected, "differences lost beside the mean", remedy)
    kept = values > 0 if penalty else varies
    # a direction that the penalty swamps gets 0, and a map too large is refused by the caller
    with np.errstate(over="ignore"):
        gains = 1 / (values[kept] + penalty / values[kept])
        return right[kept].T @ (gains[:, None] * (left[:, kept].T @ y)), rank
