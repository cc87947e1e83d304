"""VecMap's framework of linear transformations: both sides are mapped into a space between them
(Artetxe et al. 2018)."""

import dataclasses

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.alignment.maps.fitted import FittedEstimator
from crosslens.alignment.maps.linear_maps import above_rounding, pseudo_inverse, triangular_factor
from crosslens.alignment.maps.procrustes import check_same_shape
from crosslens.checks import check_paired, check_positive_int, decompose, is_number
from crosslens.errors import refuse

__all__ = ["MultiStepMap", "multi_step_maps"]


@dataclasses.dataclass(frozen=True)
class _Whitening:
    """One side's rows in a few numbers: with ``X = U S Vᵀ``, the rows ``U Vᵀ``, and the two
    matrices between the two."""

    # stand for the whitened training rows; the identity of the whitening where it is off
    rows: Float[np.ndarray, "r d"]
    whiten: Float[np.ndarray, "d d"]  # (XᵀX)^(-1/2)
    restore: Float[np.ndarray, "d d"]  # (XᵀX)^(1/2)


@dataclasses.dataclass(frozen=True)
class _Maps:
    x: Float[np.ndarray, "d p"]
    y: Float[np.ndarray, "d p"]
    singular_values: Float[np.ndarray, " d"]
    rank: int


def multi_step_maps(
    x: ArrayLike,
    y: ArrayLike,
    *,
    whiten: bool = True,
    reweight_x: float | int = 0.5,
    reweight_y: float | int = 0.5,
    dewhiten_x: str | None = "x",
    dewhiten_y: str | None = "y",
    dimensions: int | None = None,
) -> tuple[Float[np.ndarray, "d p"], Float[np.ndarray, "d p"]]:
    """Two maps into one space, by VecMap's steps; the function under :class:`MultiStepMap`, which
    says what each step does.

    Parameters
    ----------
    x, y: shape (n, d); row i of one belongs to row i of the other. Normalise them first.
    whiten, reweight_x, reweight_y, dewhiten_x, dewhiten_y, dimensions: as in :class:`MultiStepMap`.

    Returns
    -------
    W_x and W_y, of shape (d, p) with p = ``dimensions`` or d, in the precision of the inputs;
    compare ``x @ W_x`` with ``y @ W_y``, by cosine or CSLS.

    Raises
    ------
    InputError: as for :meth:`MultiStepMap.fit`; sides are called x and y.

    References
    ----------
    Artetxe, Labaka & Agirre 2018, Generalizing and improving bilingual word embedding
    mappings with a multi-step framework of linear transformations (AAAI).

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> w_x, w_y = multi_step_maps(x, x[:, ::-1])
    >>> bool(np.allclose(x @ w_x, x[:, ::-1] @ w_y))
    True
    """
    settings = MultiStepMap(whiten, reweight_x, reweight_y, dewhiten_x, dewhiten_y, dimensions)
    maps = _solve(*check_same_shape(x, y, ("x", "y")), ("x", "y"), settings)
    return maps.x, maps.y


class MultiStepMap(FittedEstimator):
    """VecMap's supervised mapping of two spaces into a common one, learnt from pairs and applied to
    any vectors.

    With the rows of the training pairs in X and Y (their lengths and means are the
    caller's: step 0 is :func:`crosslens.alignment.normalisation.normalise` on whole
    vocabularies), each step multiplies each side by a matrix:

    1. whitening: ``(XᵀX)^(-1/2)`` and ``(YᵀY)^(-1/2)``, so that XᵀX = YᵀY = I;
    2. orthogonal mapping: U and V of the singular value decomposition ``XᵀY = U S Vᵀ``, which
       bring the two sides together direction by direction, best first;
    3. re-weighting: ``S`` to a power of one's own for each side, so that directions
       in which the two agree count for more;
    4. de-whitening: ``Uᵀ (XᵀX)^(1/2) U`` (the variances of X) or ``Vᵀ (YᵀY)^(1/2) V`` (those of Y);
    5. dimensionality reduction: the first so many directions.

    The defaults are those of VecMap's supervised and semi-supervised modes. Without steps
    1, 3, 4 and 5 (``MultiStepMap(False, 0, 0, None, None)``) it is orthogonal Procrustes,
    with the rotation shared out: ``W = map_x_ map_y_ᵀ``.

    Parameters
    ----------
    whiten: do step 1.
    reweight_x, reweight_y: power of S on each side, 0 or above; 0 leaves the step out.
    dewhiten_x, dewhiten_y: whose variances each side gets back: ``"x"``, ``"y"``, or None to leave
        the step out, as it must be without whitening.
    dimensions: how many directions to keep, from 1 to d; None keeps all.

    Attributes
    ----------
    map_x_, map_y_: shape (d, p) with p = ``dimensions`` or d.
    singular_values_: shape (d,), S of step 2, falling; under whitening the canonical correlations
        of the pairs, from 0 to 1.
    rank_: number of directions in which the two sides vary together (the singular values above
        rounding; the others are 0). Below d, as with fewer pairs than dimensions, the
        maps are only determined on a space of that many dimensions; whitening is then the
        pseudo-inverse, and sends what the pairs do not span to zero.
    n_features_in_: d.

    References
    ----------
    Artetxe, Labaka & Agirre 2018, Generalizing and improving bilingual word embedding
    mappings with a multi-step framework of linear transformations (AAAI).

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 3))
    >>> y = x @ rng.normal(size=(3, 3))
    >>> aligner = MultiStepMap().fit(x, y)
    >>> aligner.singular_values_.round(6).tolist()  # a linear map, whatever its shape: perfectly correlated
    [1.0, 1.0, 1.0]
    >>> bool(np.allclose(aligner.inverse_transform(aligner.transform(x)), x))
    True
    """

    _lacks = "maps"
    _learnt = ("map_x_", "map_y_", "singular_values_", "rank_", "n_features_in_")

    def __init__(
        self,
        whiten: bool = True,
        reweight_x: float | int = 0.5,
        reweight_y: float | int = 0.5,
        dewhiten_x: str | None = "x",
        dewhiten_y: str | None = "y",
        dimensions: int | None = None,
    ) -> None:
        self.whiten = whiten
        self.reweight_x = reweight_x
        self.reweight_y = reweight_y
        self.dewhiten_x = dewhiten_x
        self.dewhiten_y = dewhiten_y
        self.dimensions = dimensions

    def fit(self, X: ArrayLike, Y: ArrayLike) -> "MultiStepMap":
        """Learn both maps from pairs of rows.

        Parameters
        ----------
        X, Y: shape (n, d); row i of one belongs to row i of the other. n may be below d.

        Raises
        ------
        InputError: not finite, different shapes, a parameter out of its range, de-whitening
            without whitening, sides that do not vary together, or no convergence of a
            decomposition.
        """
        X, Y = check_same_shape(X, Y, ("X", "Y"))
        maps = _solve(X, Y, ("X", "Y"), self)
        self.map_x_, self.map_y_ = maps.x, maps.y
        self.singular_values_ = maps.singular_values
        self.rank_ = maps.rank
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "n p"]:
        """Map rows of X's space into the common one: ``X @ map_x_``.

        Parameters
        ----------
        X: shape (n, d), any number of rows, normalised as those of ``fit``.

        Returns
        -------
        shape (n, p), in the precision of ``X``.

        Raises
        ------
        InputError: not fitted, not finite, or another number of columns.
        """
        return self._apply(X, "X")

    def transform_y(self, Y: ArrayLike) -> Float[np.ndarray, "n p"]:
        """Map rows of Y's space into the common one: ``Y @ map_y_``; otherwise as
        :meth:`transform`."""
        return self._apply(Y, "Y")

    def predict(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Map rows of X's space into Y's: into the common one, and back by the pseudo-inverse, ``X
        @ map_x_ @ pinv(map_y_)``.

        Parameters
        ----------
        X: shape (n, d), any number of rows.

        Returns
        -------
        shape (n, d), in the precision of ``X``.

        Raises
        ------
        InputError: as for :meth:`transform`.
        """
        mapped = self.transform(X)
        return mapped @ pseudo_inverse(self.map_y_, mapped.dtype)

    def score(self, X: ArrayLike, Y: ArrayLike) -> float:
        """Precision at 1 of retrieval by cosine in the common space, the mean of both directions.

        All rows given here compete: compare scores of equally many rows. Scikit-learn's searches
        choose by it.

        Parameters
        ----------
        X, Y: shape (n, d). Row i of one belongs to row i of the other.

        Returns
        -------
        From 0 to 1, higher is better; 1 / n by chance.

        Raises
        ------
        InputError: as for :meth:`transform`, of both sides; different numbers of rows; or a row
            that is mapped to zeros.
        """
        return self._score(*check_paired(self.transform(X), self.transform_y(Y), ("X", "Y")))

    def inverse_transform(self, Z: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Map rows of the common space into X's by the pseudo-inverse: ``Z @ pinv(map_x_)``.

        It undoes :meth:`transform` when ``rank_`` is d and ``dimensions`` is None (or d); otherwise
        it gives the shortest of the vectors that :meth:`transform` brings nearest to Z.

        Parameters
        ----------
        Z: shape (n, p), any number of rows.

        Returns
        -------
        shape (n, d), in the precision of ``Z``.

        Raises
        ------
        InputError: not fitted, not finite, or another number of columns than p.
        """
        self._check_fitted()
        Z = self._check_rows(Z, "Z", self.map_x_.shape[1])
        return Z @ pseudo_inverse(self.map_x_, Z.dtype)

    def _apply(self, rows: ArrayLike, name: str) -> np.ndarray:
        self._check_fitted()
        rows = self._check_rows(rows, name, self.n_features_in_)
        return rows @ (self.map_x_ if name == "X" else self.map_y_).astype(rows.dtype)


def _solve(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n d"],
    names: tuple[str, str],
    steps: MultiStepMap,
) -> _Maps:
    """All steps, in float64, on the triangular factors of the two sides instead of their rows."""
    dimensions = _check_steps(steps, x.shape[1])
    precision = np.result_type(x, y)
    nothing = np.zeros(x.shape[1])
    a, b = triangular_factor(x, y, nothing, nothing, names)
    eps = float(np.finfo(np.float64).eps)
    side_x, side_y = (
        _whitening(side, name, rows, steps.whiten)
        for side, name, rows in zip((a, b), names, (x, y), strict=True)
    )
    # an overflow is refused below, or by the decomposition
    with np.errstate(over="ignore", invalid="ignore"):
        left, values, right = decompose(side_x.rows.T @ side_y.rows, names[0])
        rank = int(
            (values > eps * scipy.linalg.norm(side_x.rows) * scipy.linalg.norm(side_y.rows)).sum()
        )
        if not rank:
            expected = f"rows that vary together with those of {names[1]}"
            remedy = "give other pairs; nothing in them corresponds"
            refuse(names[0], expected, "a cross-product of zeros", remedy)
        values[rank:] = 0  # rounding: a small power would make much of it
        restore = {
            "x": left.T @ side_x.restore @ left,
            "y": right @ side_y.restore @ right.T,
            None: np.eye(len(left)),
        }
        map_x = (side_x.whiten @ left * values**steps.reweight_x) @ restore[steps.dewhiten_x]
        map_y = (side_y.whiten @ right.T * values**steps.reweight_y) @ restore[steps.dewhiten_y]
        maps = _Maps(
            map_x[:, :dimensions].astype(precision),
            map_y[:, :dimensions].astype(precision),
            values.astype(precision),
            rank,
        )
    if not all(np.isfinite(learnt).all() for learnt in (maps.x, maps.y, maps.singular_values)):
        got = "an overflow"
        remedy = "normalise both sides first"
        refuse(names[0], f"rows whose products with {names[1]} fit in {precision}", got, remedy)
    return maps


def _check_steps(steps: MultiStepMap, d: int) -> int:
    for name in ("reweight_x", "reweight_y"):
        power = getattr(steps, name)
        if not is_number(power) or not 0 <= power < np.inf:
            remedy = "0.5 is VecMap's; 0 leaves re-weighting out"
            refuse(name, "a finite number, 0 or above", repr(power), remedy)
    for name in ("dewhiten_x", "dewhiten_y"):
        whose = getattr(steps, name)
        if whose not in ("x", "y", None):
            expected = '"x", "y" or None'
            refuse(name, expected, repr(whose), "name the side whose variances are to be restored")
        if whose is not None and not steps.whiten:
            expected = "None where whiten is False"
            got = repr(whose)
            refuse(name, expected, got, "there is no whitening to undo: set it to None, or whiten")
    return (
        d
        if steps.dimensions is None
        else check_positive_int(steps.dimensions, "dimensions", most=d)
    )


def _whitening(
    side: Float[np.ndarray, "r d"], name: str, rows: np.ndarray, wanted: bool
) -> _Whitening:
    d = side.shape[1]
    if not wanted:
        return _Whitening(side, np.eye(d), np.eye(d))
    left, values, right = decompose(side, name, "rescale both sides")
    kept = above_rounding(values, right, scipy.linalg.norm(side, axis=0), len(rows), rows.dtype)
    if not kept.any():
        remedy = "give other pairs; there is nothing to learn"
        refuse(name, "rows that are not all zero", "zeros", remedy)
    left, values, right = left[:, kept], values[kept], right[kept]
    return _Whitening(left @ right, right.T / values @ right, right.T * values @ right)
