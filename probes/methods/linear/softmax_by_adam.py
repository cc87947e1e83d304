"""A softmax layer trained by Adam for a number of epochs, as published probes often are, for every
layer at once."""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import BaseEstimator

from crosslens.checks import check_positive_int, check_seed
from crosslens.errors import refuse
from crosslens.probes.methods.controls import check_classes
from crosslens.probes.methods.fitted import fitted_layers
from crosslens.probes.methods.linear.linear import class_codes
from crosslens.probes.methods.rows import BLOCK, check_layers

__all__ = ["SoftmaxByAdam"]

_BETAS, _TINY = (0.9, 0.999), 1e-8  # Adam's own constants (Kingma & Ba 2015, algorithm 1)


class SoftmaxByAdam(BaseEstimator):
    """Softmax regression on vectors as they are, without a penalty, by Adam from weights of 0.

    It stops after a number of epochs, not at a minimum: it is here to repeat published settings.
    What it gives depends on the scale of the vectors and on the order of the batches.

    Parameters
    ----------
    epochs: how often every item is seen. batch: items per step. learning_rate: of every step.
    seed: of the order of the items, which is another in each epoch and the same for all layers.

    Attributes
    ----------
    classes_: shape (c,). coef_: shape (L, c, d). intercept_: shape (L, c).
    n_features_in_: d.

    References
    ----------
    Kingma & Ba 2015, Adam: a method for stochastic optimization; Wu & Dredze 2019, Beto, Bentz,
    Becas, section 5.3.

    >>> rng, y = np.random.default_rng(0), np.arange(200) % 2
    >>> layer = rng.normal(size=(200, 3)) + 3 * y[:, None]
    >>> float((SoftmaxByAdam(learning_rate=0.05).fit([layer], y).predict([layer])[0] == y).mean()) > 0.9
    True
    """

    def __init__(
        self, epochs: int = 10, batch: int = 32, learning_rate: float | int = 1e-3, seed: int = 0
    ) -> None:
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.seed = seed

    def fit(
        self, layers: Any, y: ArrayLike, dev_layers: Any = None, dev_y: ArrayLike | None = None
    ) -> "SoftmaxByAdam":
        """Learn from labelled vectors of every layer; the development part, if it is given, is not
        used.

        Parameters
        ----------
        layers: L layers of shape (n, d). y: shape (n,), at least two different labels.

        Raises
        ------
        InputError: numbers that are not finite, not one label per row, a single class, or a
            parameter out of range.
        """
        epochs = check_positive_int(self.epochs, "epochs")
        batch = check_positive_int(self.batch, "batch")
        if not 0 < self.learning_rate < np.inf:
            got = repr(self.learning_rate)
            refuse("learning_rate", "a finite number above 0", got, "0.001 is a usual choice")
        layers = check_layers(layers)
        n, d = layers[0].shape
        classes, codes = class_codes(check_classes(y, "y", n), "y")
        precision = _precision(layers)
        weights = [
            np.zeros((len(layers), len(classes), d), precision),
            np.zeros((len(layers), len(classes)), precision),
        ]
        adam = _Adam(weights, self.learning_rate)
        rng = np.random.default_rng([check_seed(self.seed), 0xADA3])
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            for _ in range(epochs):
                order = rng.permutation(n)
                for start in range(0, n, batch):
                    rows = order[start : start + batch]
                    adam.step(
                        _gradient(
                            np.stack([np.asarray(layer[rows], precision) for layer in layers]),
                            codes[rows],
                            weights,
                        )
                    )
        for i in range(len(layers)):
            if not (np.isfinite(weights[0][i]).all() and np.isfinite(weights[1][i]).all()):
                _check_finite(layers[i], f"layers[{i}]")
                got = f"weights that do not, of layers[{i}]"
                remedy = "lower it, or rescale the vectors"
                refuse("learning_rate", "steps that stay finite", got, remedy)
        self.classes_, self.n_features_in_ = classes, int(d)
        self.coef_, self.intercept_ = weights
        return self

    def predict(self, layers: Any) -> Shaped[np.ndarray, "L n"]:
        """The most probable label of each row by each layer's probe.

        Parameters
        ----------
        layers: as in ``fit``, n rows.

        Raises
        ------
        InputError: not fitted, numbers that are not finite, or layers of another number or width
            than in ``fit``.
        """
        layers = fitted_layers(self, layers)
        answers = np.empty((len(layers), layers[0].shape[0]), np.int64)
        for i, layer in enumerate(layers):
            _check_finite(layer, f"layers[{i}]")
            for start in range(0, layer.shape[0], BLOCK):
                rows = slice(start, min(start + BLOCK, layer.shape[0]))
                logits = (
                    np.asarray(layer[rows], self.coef_.dtype) @ self.coef_[i].T + self.intercept_[i]
                )
                answers[i, rows] = logits.argmax(axis=1)
        return self.classes_[answers]


class _Adam:
    """Steps on some arrays, in place (Kingma & Ba 2015, algorithm 1)."""

    def __init__(self, weights: list[np.ndarray], rate: float) -> None:
        self.weights, self.rate, self.steps = weights, rate, 0
        self.means, self.squares = ([np.zeros_like(weight) for weight in weights] for _ in range(2))

    def step(self, gradients: list[np.ndarray]) -> None:
        self.steps += 1
        first, second = (1 - beta**self.steps for beta in _BETAS)
        for weight, mean, square, gradient in zip(
            self.weights, self.means, self.squares, gradients, strict=True
        ):
            mean += (1 - _BETAS[0]) * (gradient - mean)
            square += (1 - _BETAS[1]) * (np.square(gradient) - square)
            weight -= self.rate / first * mean / (np.sqrt(square / second) + _TINY)


def _gradient(
    x: Float[np.ndarray, "L b d"], codes: np.ndarray, weights: list[np.ndarray]
) -> list[np.ndarray]:
    """Of the mean surprise of a batch, in weights and intercepts."""
    errors = softmax(x @ weights[0].transpose(0, 2, 1) + weights[1][:, None], axis=2)
    errors[:, np.arange(len(codes)), codes] -= 1
    errors /= len(codes)
    return [errors.transpose(0, 2, 1) @ x, errors.sum(axis=1)]


def _check_finite(layer: Any, name: str) -> None:
    for start in range(0, layer.shape[0], BLOCK):
        bad = np.flatnonzero(
            ~np.isfinite(
                np.asarray(layer[start : min(start + BLOCK, layer.shape[0])], np.float64)
            ).all(axis=1)
        )
        if len(bad):
            got = f"NaN or infinity in row {start + bad[0]}"
            refuse(name, "finite numbers", got, "remove or repair these rows")


def _precision(layers: list[Any]) -> type[np.floating]:
    return np.float64 if all(layer.dtype == np.float64 for layer in layers) else np.float32
