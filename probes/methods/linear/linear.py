"""A linear classifier on fixed vectors, with the standardisation that belongs to it."""

import warnings

import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from crosslens.checks import check_matrix, check_positive_int
from crosslens.errors import refuse
from crosslens.probes.methods.controls import check_classes
from crosslens.probes.methods.fitted import LabelProbe, check_fitted, fitted_matrix
from crosslens.probes.methods.linear.solver import Surprise, fit_softmax, frequencies
from crosslens.probes.methods.rows import StandardisedLayer

__all__ = ["LinearProbe", "class_codes", "logits", "own_rows"]

_TOLERANCE = 1e-10  # of the objective: what minimising further would gain


class LinearProbe(LabelProbe, ClassifierMixin, BaseEstimator):
    """Multinomial logistic regression with an L2 penalty on standardised features.

    With ``z = (x - mean_) / scale_`` the probability of class c is ``softmax(z Wᵀ + b)_c``;
    W and b minimise ``C Σ_i -log p(y_i | x_i) + ||W||² / 2`` (for two classes W is one
    row, the second class's logit against 0, as in scikit-learn). The minimum is unique and found
    without randomness. Means and scales come from the training rows only; a feature
    that does not vary in training has no influence.

    Parameters
    ----------
    C: inverse strength of the penalty, above 0, as scikit-learn calls it; smaller is stricter.
    max_iter: most steps of the optimiser (L-BFGS).

    Attributes
    ----------
    classes_: shape (c,), the labels in sorted order.
    coef_: shape (c, d), or (1, d) for two classes: W, for standardised features.
    intercept_: shape (c,) or (1,): b.
    mean_, scale_: shape (d,), of the training rows; the scale is the standard deviation
        (dividing by n), and 1 for features that do not vary.
    n_iter_: steps that the optimiser took.
    n_features_in_: d.

    References
    ----------
    Alain & Bengio 2017, Understanding intermediate layers using linear classifier probes;
    Hastie, Tibshirani & Friedman 2009, The elements of statistical learning, equation 4.17.

    >>> x = np.array([[0.0, 1.0], [0.2, 1.1], [1.0, 0.9], [1.2, 1.0]])
    >>> probe = LinearProbe().fit(x, ["de", "de", "fr", "fr"])
    >>> probe.predict([[0.1, 1.0], [1.1, 1.0]]).tolist()
    ['de', 'fr']
    """

    def __init__(self, C: float | int = 1.0, max_iter: int = 1000) -> None:
        self.C = C
        self.max_iter = max_iter

    def fit(self, X: ArrayLike, y: ArrayLike) -> "LinearProbe":
        """Learn from labelled vectors.

        Parameters
        ----------
        X: shape (n, d). y: shape (n,), at least two different labels.

        Warns
        -----
        ConvergenceWarning: the optimiser stopped before the minimum; the message says what to do.

        Raises
        ------
        InputError: not finite, not one label per row, a single class, or no feature that varies.
        """
        X = check_matrix(X, "X")
        classes, codes = class_codes(check_classes(y, "y", len(X)), "y")
        if not isinstance(self.C, (int, float, np.number)) or not 0 < self.C < np.inf:
            refuse("C", "a finite number above 0", repr(self.C), "1.0 is a usual choice")
        max_iter = check_positive_int(self.max_iter, "max_iter")
        layer = StandardisedLayer.of(X, "X")
        if not layer.varies.any():
            got = f"{X.shape[1]} constant columns"
            remedy = "give different items or another layer's vectors"
            refuse("X", "at least one feature that varies", got, remedy)
        objective = Surprise(layer, codes, len(classes))
        found = fit_softmax(
            objective,
            float(self.C),
            frequencies(objective),
            tolerance=_TOLERANCE,
            max_iter=max_iter,
        )
        if not found.converged:
            message = (
                f"max_iter: expected convergence, got none in {found.steps} step(s); raise "
                f"max_iter or lower C"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        self.classes_ = classes
        self.coef_, self.intercept_ = own_rows(found.at, X.dtype)
        self.mean_, self.scale_ = layer.mean, layer.scale
        self.n_iter_ = found.steps
        self.n_features_in_ = X.shape[1]
        return self

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Probability of each class, in the order of ``classes_``; rows sum to 1.

        Parameters
        ----------
        X: shape (n, d).

        Returns
        -------
        shape (n, c), in the precision of ``X``.

        Raises
        ------
        InputError: not fitted, not finite, or another number of columns than in ``fit``.
        """
        return softmax(self._scores(X), axis=1)

    def _scores(self, vectors: ArrayLike) -> Float[np.ndarray, "n c"]:
        check_fitted(self, "coef_", "coefficients", "fit(X, y)")
        layer = StandardisedLayer.learnt(fitted_matrix(self, vectors), "X", self.mean_, self.scale_)
        return logits(layer, self.coef_, self.intercept_)


def class_codes(
    y: Shaped[np.ndarray, " n"], name: str
) -> tuple[Shaped[np.ndarray, " c"], Int[np.ndarray, " n"]]:
    """Different labels in sorted order, and which of them each item has.

    Raises
    ------
    InputError: fewer than two different labels.

    >>> class_codes(np.array(["fr", "de", "fr"]), "y")[1].tolist()
    [1, 0, 1]
    """
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        remedy = "give items of another class: there is nothing to tell apart"
        refuse(name, "at least two classes", f"only {classes[0]!s}", remedy)
    return classes, codes


def own_rows(
    at: Float[np.ndarray, "c d1"], precision: np.dtype
) -> tuple[Float[np.ndarray, "k d"], Float[np.ndarray, " k"]]:
    """W and b of a minimum, one row for each class, or for two classes the second's row less the
    first's."""
    rows = (at[1:] - at[:1] if len(at) == 2 else at).astype(precision)
    return rows[:, :-1], rows[:, -1]


def logits(
    layer: StandardisedLayer,
    coefficients: Float[np.ndarray, "k d"],
    intercept: Float[np.ndarray, " k"],
) -> Float[np.ndarray, "n c"]:
    """``z Wᵀ + b``; for two classes, which have one row, the first class's are 0."""
    values = layer.apply(coefficients, intercept)
    return (
        np.concatenate([np.zeros_like(values), values], axis=1) if len(intercept) == 1 else values
    )
