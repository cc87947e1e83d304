"""Linear regression for every layer of an encoder at once: numbers that vectors tell, such as a
word's depth in its tree."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from crosslens.blas import for_each
from crosslens.checks import as_array, check_finite_rows
from crosslens.errors import InputError, refuse
from crosslens.probes.methods.fitted import development_layers, fitted_layers
from crosslens.probes.methods.linear.solver import check_strengths
from crosslens.probes.methods.rows import StandardisedLayer, check_layers

__all__ = ["LayerRidge"]


class LayerRidge(BaseEstimator):
    """Ridge regression on the standardised features of each of L layers, in closed form.

    With ``z = (x - mean_) / scale_`` the answer is ``W z + b``; W and b minimise ``Σ_i ||y_i - W
    z_i - b||² + penalty ||W||²``, as in scikit-learn's ``Ridge`` on standardised features. Without
    a penalty this is least squares, and where several W fit equally well the shortest of them.
    Means and scales come from the training rows; a feature that does not vary there has no
    influence.

    Layers are read a block of rows at a time; ``ZᵀZ`` and ``ZᵀY`` are summed in float64. Of several
    penalties each layer takes the one with the highest R² on the development part, of equal ones
    the strictest.

    Parameters
    ----------
    penalties: 0 or above, larger being stricter (scikit-learn's ``alpha``); one, or some to choose
        from.

    Attributes
    ----------
    coef_: shape (L, t, d), W for standardised features; intercept_: shape (L, t), b. t is 1 where y
        has one dimension.
    mean_, scale_: shape (L, d), of the training rows; the scale is 1 for features that do not vary.
    penalty_: shape (L,), the one that each layer took.
    dev_r2_: shape (L, penalties), in the order of ``penalties``: R² on the development part, the
        mean over the t numbers; NaN where no development part was given.
    n_features_in_: d.

    References
    ----------
    Hoerl & Kennard 1970, Ridge regression; Hastie, Tibshirani & Friedman 2009, The elements of
    statistical learning, equation 3.44.

    >>> x = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 5.0]])
    >>> ridge = LayerRidge(0).fit([x, -x], x[:, 0] - 2 * x[:, 1])
    >>> ridge.predict([x[:2], -x[:2]]).round(6).tolist()
    [[-2.0, -5.0], [-2.0, -5.0]]
    """

    def __init__(self, penalties: float | int | Sequence[float | int] = (1.0,)) -> None:
        self.penalties = penalties

    def fit(
        self, layers: Any, y: ArrayLike, dev_layers: Any = None, dev_y: ArrayLike | None = None
    ) -> "LayerRidge":
        """Learn from vectors of every layer with their numbers.

        Parameters
        ----------
        layers: L layers of shape (n, d), as
            :class:`crosslens.probes.methods.linear.layer_probe.LayerProbe` takes them.
        y: shape (n,), or (n, t) for t numbers of each row, which share a penalty.
        dev_layers, dev_y: the development part, m rows of the same layers, to choose among several
            penalties by.

        Raises
        ------
        InputError: not finite, not one number (or t) per row, layers of different shapes, several
            penalties without a development part, or one in which a number is the same for all rows,
            so that R² is not defined.
        """
        penalties = check_strengths(self.penalties, "penalties", least="0 or above")
        layers = check_layers(layers)
        targets = _check_targets(y, "y", layers[0].shape[0])
        dev = _development(dev_layers, dev_y, layers, targets.shape[1], len(penalties) > 1)

        def fit_one(i: int) -> _Fitted:
            layer = StandardisedLayer.of(layers[i], f"layers[{i}]")
            held = None if dev is None else (layer.held_out(dev[0][i], f"dev_layers[{i}]"), dev[1])
            return _fit_layer(layer, targets, penalties, held)

        fitted = for_each(fit_one, len(layers))
        self.mean_ = np.stack([found.layer.mean for found in fitted])
        self.scale_ = np.stack([found.layer.scale for found in fitted])
        self.coef_ = np.stack(
            [found.coefficients.astype(found.layer.mean.dtype) for found in fitted]
        )
        self.intercept_ = np.stack(
            [targets.mean(axis=0).astype(found.layer.mean.dtype) for found in fitted]
        )
        self.penalty_ = np.array([found.penalty for found in fitted])
        self.dev_r2_ = np.stack([found.dev for found in fitted])
        self.n_features_in_ = int(layers[0].shape[1])
        self._one_dimension = np.ndim(y) == 1
        return self

    def predict(self, layers: Any) -> Float[np.ndarray, "L n *t"]:
        """The answer of each layer's probe for each row.

        Parameters
        ----------
        layers: as in ``fit``, n rows.

        Returns
        -------
        shape (L, n), or (L, n, t) where y had two dimensions.

        Raises
        ------
        InputError: not fitted, not finite, or layers of another number or width than in ``fit``.
        """
        layers = fitted_layers(self, layers)

        def answers(i: int) -> Float[np.ndarray, "n t"]:
            layer = StandardisedLayer.learnt(
                layers[i], f"layers[{i}]", self.mean_[i], self.scale_[i]
            )
            return layer.apply(self.coef_[i], self.intercept_[i])

        every = np.stack(for_each(answers, len(layers)))
        return every[:, :, 0] if self._one_dimension else every

    def score(self, layers: Any, y: ArrayLike) -> Float[np.ndarray, " L"]:
        """R² of each layer's probe, the mean over the t numbers: 1 is perfect, 0 no better than the
        mean of y; it may be negative.

        Parameters
        ----------
        layers: as in ``fit``, n rows. y: shape (n,) or (n, t), as in ``fit``.

        Raises
        ------
        InputError: as for :meth:`predict`; not as many numbers as in ``fit``, or one that is the
            same for all rows.
        """
        predicted = self.predict(layers)
        targets = _check_targets(y, "y", predicted.shape[1], self.coef_.shape[1])
        _check_varies(targets, "y")
        return np.array([_r2(values.reshape(targets.shape), targets) for values in predicted])


@dataclasses.dataclass(frozen=True, eq=False)
class _Fitted:
    layer: StandardisedLayer
    coefficients: Float[np.ndarray, "t d"]
    penalty: float
    dev: Float[np.ndarray, " penalties"]


def _fit_layer(
    layer: StandardisedLayer,
    targets: Float[np.ndarray, "n t"],
    penalties: list[float],
    dev: tuple[StandardisedLayer, Float[np.ndarray, "m t"]] | None,
) -> _Fitted:
    """W for each penalty from one decomposition, and the one that the development part likes best,
    strictest first."""
    mean = targets.mean(axis=0)
    gram, products = _sums(layer, targets - mean)
    values, vectors = np.linalg.eigh(gram)
    # nothing but rounding varies along the others
    kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
    vectors, values = vectors[:, kept], values[kept]
    turned = vectors.T @ products
    scores, best = np.full(len(penalties), np.nan), None
    for k in np.argsort([-penalty for penalty in penalties], kind="stable"):
        found = (vectors @ (turned / (values + penalties[k])[:, None])).T
        if dev is not None:
            scores[k] = _r2(dev[0].apply(found, mean), dev[1])
        if best is None or scores[k] > scores[best[0]]:
            best = k, found
    assert best is not None
    return _Fitted(layer, best[1], penalties[best[0]], scores)


def _sums(
    layer: StandardisedLayer, centred: Float[np.ndarray, "n t"]
) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, "d t"]]:
    """``ZᵀZ`` and ``ZᵀY`` of standardised features and centred numbers, in float64.

    The means of float32 features are rounded, so their standardised columns do not sum to zero
    exactly; what is left is taken off.
    """
    d, folded = len(layer.mean), layer.folded.astype(np.float64)
    gram, products, rest = np.zeros((d, d)), np.zeros((d, centred.shape[1])), np.zeros(d)
    for rows, block in layer.centred():
        standard = block * folded
        gram += standard.T @ standard
        products += standard.T @ centred[rows]
        rest += standard.sum(axis=0)
    return gram - np.outer(rest, rest) / len(centred), products


def _r2(answers: Float[np.ndarray, "m t"], targets: Float[np.ndarray, "m t"]) -> float:
    """The coefficient of determination, the mean over the columns, none of which is constant."""
    left = np.square(targets - answers).sum(axis=0)
    return float((1 - left / np.square(targets - targets.mean(axis=0)).sum(axis=0)).mean())


def _check_targets(
    value: ArrayLike, name: str, n: int, t: int | None = None
) -> Float[np.ndarray, "n t"]:
    """Finite numbers as float64 in two dimensions."""
    try:
        numbers = as_array(value, name)
    except InputError:
        raise
    except ValueError:
        remedy = "give as many numbers for each row"
        refuse(name, f"{n} numbers, one per row", "rows of different lengths", remedy)
    if (
        numbers.dtype.kind not in "fiub"
        or numbers.ndim not in (1, 2)
        or len(numbers) != n
        or 0 in numbers.shape
    ):
        got = f"an array of {numbers.dtype} of shape {numbers.shape}"
        refuse(
            name, f"numbers of shape ({n},) or ({n}, t)", got, "give one number, or t, for each row"
        )
    columns = numbers.reshape(n, -1).astype(np.float64)
    check_finite_rows(columns, name)
    if t is not None and columns.shape[1] != t:
        expected = f"{t} number(s) for each row, as in y of fit"
        refuse(name, expected, str(columns.shape[1]), "give the same numbers")
    return columns


def _check_varies(targets: Float[np.ndarray, "m t"], name: str) -> None:
    constant = np.flatnonzero(np.ptp(targets, axis=0) == 0)
    if len(constant):
        got = f"{targets[0, constant[0]]:g} in all {len(targets)} row(s) of column {constant[0]}"
        remedy = "give more rows, or leave this number out"
        refuse(name, "numbers that vary, so that R² is defined", got, remedy)


def _development(
    dev_layers: Any, dev_y: ArrayLike | None, layers: list[Any], t: int, needed: bool
) -> tuple[list[Any], Float[np.ndarray, "m t"]] | None:
    """The checked development part, or None where there is none and none is needed."""
    dev_layers = development_layers(dev_layers, dev_y, layers, needed)
    if dev_layers is None or dev_y is None:
        return None
    targets = _check_targets(dev_y, "dev_y", dev_layers[0].shape[0], t)
    _check_varies(targets, "dev_y")
    return dev_layers, targets
