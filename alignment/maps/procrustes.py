"""The best rotation of one vector space onto another (Schönemann 1966), as a function and as an
aligner.

:func:`orthogonal_procrustes` is the mathematics; :class:`Procrustes` adds what is
learnt once and replayed on new vectors (length, means), and can be saved.
"""

import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.alignment.normalisation import CentredMap
from crosslens.alignment.rows import check_varies
from crosslens.checks import check_paired, check_same_width, decompose, is_number
from crosslens.errors import quote, refuse

__all__ = ["Procrustes", "check_same_shape", "orthogonal_procrustes"]

_BLOCK = 4096  # rows multiplied at a time
# tried by cross-validation; 100 is nearly no rotation
_SHRINKAGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_FOLDS = 3


@dataclasses.dataclass(frozen=True)
class _Solution:
    """The rotation, and the rank of the cross-product that it was read from."""

    rotation: Float[np.ndarray, "d d"]
    rank: int


def orthogonal_procrustes(
    x: ArrayLike, y: ArrayLike, *, rotation_only: bool = False
) -> Float[np.ndarray, "d d"]:
    """The orthogonal matrix that brings ``x`` closest to ``y``.

    ``W = argmin ||x W - y||_F`` over ``WᵀW = I``; with the singular value
    decomposition ``xᵀy = U S Vᵀ`` it is ``W = U Vᵀ``. Reflections are allowed
    (determinant -1) unless ``rotation_only``; then, where det(U Vᵀ) = -1, the direction of the
    smallest singular value is flipped, which is the best among the rotations.
    Nothing is centred or scaled; :class:`Procrustes` does that.

    Parameters
    ----------
    x, y: shape (n, d); row i of one belongs to row i of the other.
    rotation_only: let the determinant be 1.

    Returns
    -------
    shape (d, d), in the precision of the inputs; apply it as ``x @ W``.

    Raises
    ------
    InputError: the matrices are not finite, differ in shape, or have no cross-product to
        learn from; or the decomposition does not converge.

    Notes
    -----
    With fewer independent pairs than dimensions, ``W`` is only determined on the space
    that the pairs span; the rest is completed to some orthogonal matrix.

    References
    ----------
    Schönemann 1966, A generalized solution of the orthogonal Procrustes problem; rotations:
    Kabsch 1976, Umeyama 1991 (equation 43, without the scale).

    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> quarter_turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> np.abs(orthogonal_procrustes(x, x @ quarter_turn) - quarter_turn).max() < 1e-12
    np.True_
    """
    x, y = check_same_shape(x, y, ("x", "y"))
    return _solve(_cross(x, y, ("x", "y"), False), ("x", "y"), rotation_only).rotation.astype(
        np.result_type(x, y)
    )


def check_same_shape(
    x: ArrayLike, y: ArrayLike, names: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return both as matrices of pairs if they have equally many rows, and equally many columns.

    Raises
    ------
    InputError: they are not finite, or differ in shape.

    >>> x, y = check_same_shape([[1, 2]], [[3, 4]], ("x", "y"))
    >>> x.shape == y.shape
    True
    """
    x, y = check_paired(x, y, names)
    remedy = "bring both sides to the same number of dimensions first, for example by PCA"
    check_same_width(x, y, names, remedy)
    return x, y


def _cross(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n d"], names: tuple[str, str], centre: bool
) -> Float[np.ndarray, "d d"]:
    """The cross-product in float64; what rounding of the means has left of them is taken off.

    Products of float32 would bury directions in which each side varies a thousandth as much as in
    others.
    """
    cross = np.zeros((x.shape[1], x.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is refused below, by name
        for start in range(0, len(x), _BLOCK):
            cross += x[start : start + _BLOCK].astype(np.float64).T @ y[
                start : start + _BLOCK
            ].astype(np.float64)
        if centre:
            cross -= np.outer(
                x.sum(axis=0, dtype=np.float64), y.sum(axis=0, dtype=np.float64)
            ) / len(x)
    if not np.isfinite(cross).all():
        expected = f"values whose products with {names[1]} fit in float64"
        refuse(names[0], expected, "an overflow", "scale both sides down")
    return cross


def _solve(
    cross: Float[np.ndarray, "d d"],
    names: tuple[str, str],
    rotation_only: bool,
    shrinkage: float = 0.0,
) -> _Solution:
    """Rotation and rank, in float64."""
    if not cross.any():
        expected = f"rows that vary together with those of {names[1]}"
        remedy = "give other pairs; every rotation fits these equally well"
        refuse(names[0], expected, "a cross-product of zeros", remedy)
    rotation, values = _rotation(cross, names, rotation_only)
    rank = int((values > values[0] * (len(values) * np.finfo(np.float64).eps)).sum())
    if shrinkage:
        rotation, _ = _rotation(_shrunk(cross, shrinkage, values), names, rotation_only)
    return _Solution(rotation, rank)


def _rotation(
    cross: Float[np.ndarray, "d d"], names: tuple[str, str], rotation_only: bool
) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, " d"]]:
    """The orthogonal W of greatest tr(Wᵀ cross), and the singular values, largest first."""
    left, values, right = decompose(cross, names[0], f"rescale {names[0]} and {names[1]}")
    if rotation_only and np.linalg.slogdet(left @ right)[0] < 0:
        left[:, -1] *= -1
    return left @ right, values


def _shrunk(
    cross: Float[np.ndarray, "d d"], shrinkage: float, values: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "d d"]:
    """``XᵀY + λ s I``, with s the mean singular value."""
    return cross + shrinkage * values.mean() * np.eye(len(cross))


def _chosen_shrinkage(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n d"], rotation_only: bool, centre: bool
) -> float:
    """The shrinkage whose rotations bring rows that they were not learnt from closest; the least of
    equally good ones.

    A rotation keeps lengths, so that the squared distance is least where tr(Wᵀ XᵀY) of the judged
    rows is greatest.
    """
    folds = np.arange(len(x)) % _FOLDS
    gains = np.zeros(len(_SHRINKAGES))
    for fold in range(_FOLDS):
        sides = []
        for side in (x, y):
            learnt = side[folds != fold].astype(np.float64)
            judged = side[folds == fold].astype(np.float64)
            mean = learnt.mean(axis=0) if centre else 0.0
            sides.append((learnt - mean, judged - mean))
        cross, judged_cross = (a.T @ b for a, b in zip(*sides, strict=True))
        values = _rotation(cross, ("X", "Y"), False)[1]
        for place, number in enumerate(_SHRINKAGES):
            rotation, _ = _rotation(_shrunk(cross, number, values), ("X", "Y"), rotation_only)
            gains[place] += (rotation * judged_cross).sum()
    return _SHRINKAGES[int(gains.argmax())]


class Procrustes(CentredMap):
    """An orthogonal map from one space to another, learnt from pairs and applied to any vectors.

    ``fit`` finds ``W = argmin ||(X - mean_x) W - (Y - mean_y)||_F`` over orthogonal W;
    ``transform`` computes ``(X - mean_x) W + mean_y``. Rows are items. Whatever was
    learnt in ``fit`` is replayed, never learnt again, on new vectors.

    Parameters
    ----------
    centre: subtract each side's mean over the training pairs first.
    normalise: scale every row to length 1 before centring, in ``fit`` and in both
        directions of mapping, as is usual when the mapped vectors are compared by cosine.
    rotation_only: look for the best map among rotations only (determinant 1); in the plane,
        say, turned but never mirrored. The residual can only grow.
    shrinkage: pull the map towards none at all, for few pairs of one encoder: λ, 0 or above, of the
        penalty ``λ s ||W - I||²_F``, with s the mean singular value of the cross-product
        ``XᵀY``, so that it depends neither on units nor on the number of pairs. "auto" chooses λ
        by cross-validation in three parts of the pairs (row i is in part i mod 3), the one
        that brings unseen rows closest. None, the default, is λ = 0.

    Attributes
    ----------
    rotation_: shape (d, d), orthogonal.
    mean_x_, mean_y_: shape (d,), the two means; zeros where ``centre`` is False.
    rank_: rank of the cross-covariance, computed in float64 whatever the type of the rows. Below d,
        the map is only determined on a space of that many dimensions: give more pairs.
    determinant_: 1 for a pure rotation, -1 where a reflection is part of it.
    residual_: ``||X W - Y||_F / ||Y||_F`` on the (normalised, centred) training pairs;
        0 is a perfect fit, lower is better. 1 means no better than mapping everything to the mean.
    shrinkage_: the λ that was used.
    n_features_in_: d.

    Notes
    -----
    With a penalty, ``||X W - Y||²_F + μ ||W - I||²_F`` over orthogonal W is a constant minus
    ``2 tr(Wᵀ(XᵀY + μ I))``: the solution is that of plain Procrustes with ``XᵀY + μ I`` in place of
    ``XᵀY``, or with √μ times the unit vectors given as further pairs of themselves. Directions
    that no pair tells of are left as they are. It makes sense where both sides are of one
    encoder; λ = 0 is among those that "auto" tries.

    References
    ----------
    Schönemann 1966, A generalized solution of the orthogonal Procrustes problem; for word
    vectors, Xing et al. 2015 (length 1) and Artetxe et al. 2016 (centring); for
    rotations, Kabsch 1976 and Umeyama 1991. The penalty follows from Schönemann's solution as
    above.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 3))
    >>> turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    >>> aligner = Procrustes().fit(x, x @ turn + 5)
    >>> np.abs(aligner.transform(x) - (x @ turn + 5)).max() < 1e-12
    np.True_
    """

    _lacks = "a rotation"
    _matrix = "rotation_"
    _learnt = (
        "rotation_",
        "mean_x_",
        "mean_y_",
        "rank_",
        "determinant_",
        "residual_",
        "shrinkage_",
        "n_features_in_",
    )
    _later: ClassVar = {"shrinkage_": 0.0}

    def __init__(
        self,
        centre: bool = True,
        normalise: bool = False,
        rotation_only: bool = False,
        shrinkage: float | int | str | None = None,
    ) -> None:
        self.centre = centre
        self.normalise = normalise
        self.rotation_only = rotation_only
        self.shrinkage = shrinkage

    def fit(self, X: ArrayLike, Y: ArrayLike) -> "Procrustes":
        """Learn the map from pairs of rows.

        Parameters
        ----------
        X, Y: shape (n, d); row i of one belongs to row i of the other. n may be below d.

        Raises
        ------
        InputError: not finite, different shapes, a zero row under ``normalise``, nothing
            to learn from (equal rows, say), no convergence of the decomposition, a shrinkage
            below 0, or fewer than six pairs to choose one by.
        """
        X, Y = check_same_shape(X, Y, ("X", "Y"))
        self._check_shrinkage(len(X))
        X, Y = self._scaled(X, "X"), self._scaled(Y, "Y")
        if self.centre:
            check_varies(X, "X")
            check_varies(Y, "Y")
        mean_x, mean_y = self._mean(X, "X"), self._mean(Y, "Y")
        x, y = X - mean_x, Y - mean_y
        cross = _cross(x, y, ("X", "Y"), self.centre)
        chosen = (
            _chosen_shrinkage(x, y, self.rotation_only, self.centre)
            if self.shrinkage == "auto"
            else float(self.shrinkage or 0)
        )
        solution = _solve(cross, ("X", "Y"), self.rotation_only, chosen)
        self.rotation_ = solution.rotation.astype(np.result_type(x, y))
        self.shrinkage_ = chosen
        self.mean_x_, self.mean_y_ = mean_x, mean_y
        self.rank_ = solution.rank
        self.determinant_ = int(np.linalg.slogdet(self.rotation_)[0])
        self.residual_ = _relative_residual(x, y, self.rotation_)
        self.n_features_in_ = x.shape[1]
        return self

    def _check_shrinkage(self, n: int) -> None:
        given = self.shrinkage
        if given is None or isinstance(given, str):
            fits = given in (None, "auto")
        else:
            fits = is_number(given) and 0 <= float(given) < np.inf
        if not fits:
            expected = 'None, "auto" or a finite number, 0 or above'
            refuse("shrinkage", expected, quote(given), "0 is plain Procrustes; more is stricter")
        if given == "auto" and n < 2 * _FOLDS:
            remedy = "give more pairs, or a number as shrinkage"
            refuse("X", f'at least {2 * _FOLDS} pairs for shrinkage="auto"', str(n), remedy)

    def inverse_transform(self, Y: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Map rows of Y's space into X's: ``(Y - mean_y_) @ rotation_.T + mean_x_``.

        It undoes :meth:`transform` when ``normalise`` is False. With ``normalise`` the
        rows given here are scaled to length 1 first, as they were in ``fit``, so that
        lengths are lost.

        Parameters
        ----------
        Y: shape (n, d), any number of rows.

        Returns
        -------
        shape (n, d), in the precision of ``Y``.

        Raises
        ------
        InputError: as for :meth:`transform`.
        """
        Y = self._ready(Y, "Y")
        return (Y - self.mean_y_.astype(Y.dtype)) @ self.rotation_.T.astype(
            Y.dtype
        ) + self.mean_x_.astype(Y.dtype)


def _relative_residual(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n d"], rotation: Float[np.ndarray, "d d"]
) -> float:
    """``||x W - y||_F / ||y||_F``, row block by row block; measured, since the closed form cancels
    near zero."""
    error = total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # beyond 1e±150, refused below
        for start in range(0, len(x), _BLOCK):
            rows = slice(start, start + _BLOCK)
            error += float(np.square(x[rows] @ rotation - y[rows], dtype=np.float64).sum())
            total += float(np.square(y[rows], dtype=np.float64).sum())
    if not (0 < total < np.inf and error < np.inf):
        got = "an overflow" if total else "an underflow"
        refuse("Y", "values whose squares fit in float64", got, "rescale X and Y")
    return float(np.sqrt(error / total))
