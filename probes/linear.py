"""A linear classifier on fixed vectors, with the standardisation that belongs to it."""

import warnings

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from crosslens.checks import check_matrix, check_positive_int
from crosslens.errors import refuse
from crosslens.probes.controls import check_classes

__all__ = ["LinearProbe"]

_TOLERANCE = 1e-6  # of the gradient; float32 gets no nearer (probabilities within 1e-3 of the minimum's, 1e-4 in float64)


class LinearProbe(ClassifierMixin, BaseEstimator):
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
        y = check_classes(y, "y", len(X))
        if not isinstance(self.C, (int, float, np.number)) or not 0 < self.C < np.inf:
            refuse("C", "a finite number above 0", repr(self.C), "1.0 is a usual choice")
        max_iter = check_positive_int(self.max_iter, "max_iter")
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            refuse("y", "at least two classes", f"only {classes[0]!s}", "give items of another class: there is nothing to tell apart")
        mean, scale = _mean_and_scale(X)
        model = LogisticRegression(C=self.C, max_iter=max_iter, tol=_TOLERANCE)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(_standardise(X, mean, scale), codes)
        _tell(caught, model)
        self.classes_ = classes
        self.coef_, self.intercept_ = model.coef_, model.intercept_
        self.mean_, self.scale_ = mean, scale
        self.n_iter_ = int(model.n_iter_.max())
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
        return softmax(self._logits(X), axis=1)

    def predict(self, X: ArrayLike) -> Shaped[np.ndarray, " n"]:
        """The most probable label of each row; of equally probable ones the first in ``classes_``.

        Parameters
        ----------
        X: shape (n, d).

        Raises
        ------
        InputError: as for :meth:`predict_proba`.
        """
        logits = self._logits(X)
        return self.classes_[logits.argmax(axis=1)]

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy: the share of rows whose label is predicted, from 0 to 1; higher is better.

        Parameters
        ----------
        X: shape (n, d). y: shape (n,).

        Raises
        ------
        InputError: as for :meth:`predict_proba`; not one label per row; or labels that
            training did not have, which no prediction could match.
        """
        predicted = self.predict(X)
        y = check_classes(y, "y", len(predicted))
        unseen = {*np.unique(y).tolist()} - {*self.classes_.tolist()}  # as Python compares: "1" is not 1
        if unseen:
            refuse("y", "labels seen in fit", ", ".join(sorted(map(repr, unseen))), "train on these labels too, or leave their items out")
        return float((predicted == y).mean())

    def _logits(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        if not hasattr(self, "coef_"):
            refuse("LinearProbe", "a fitted probe", "one without coefficients", "call fit(X, y) first")
        X = check_matrix(X, "X")
        if X.shape[1] != self.n_features_in_:
            refuse("X", f"{self.n_features_in_} columns, as in fit", f"{X.shape[1]} columns", "probe vectors of the same encoder and layer")
        logits = _standardise(X, self.mean_, self.scale_) @ self.coef_.T.astype(X.dtype) + self.intercept_.astype(X.dtype)
        return np.concatenate([np.zeros_like(logits), logits], axis=1) if len(self.classes_) == 2 else logits


def _mean_and_scale(x: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Mean and standard deviation of each feature, the latter 1 where only rounding varies."""
    mean = x.mean(axis=0, dtype=np.float64)
    scale = np.sqrt(np.square(x - mean.astype(x.dtype)).mean(axis=0, dtype=np.float64))  # centred before squaring
    rounding = 4 * np.finfo(x.dtype).eps + len(x) * np.finfo(np.float64).eps  # of the values, and of their mean
    varies = scale > rounding * np.abs(mean)
    if not varies.any():
        refuse("X", "at least one feature that varies", f"{x.shape[1]} constant columns", "give different items or another layer's vectors")
    return mean.astype(x.dtype), np.where(varies, scale, 1).astype(x.dtype)


def _standardise(x: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    block = x - mean.astype(x.dtype)
    block /= scale.astype(x.dtype)
    return block


def _tell(caught: list[warnings.WarningMessage], model: LogisticRegression) -> None:
    """Say in our words that the optimiser did not converge, and pass every other warning on."""
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning):
            steps = int(model.n_iter_.max())
            message = f"max_iter: expected convergence, got none in {steps} step(s); raise max_iter or lower C"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
