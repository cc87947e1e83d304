"""A classifier with one hidden layer: what can be read off vectors where a line between the classes
does not do."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from crosslens.checks import check_matrix, check_positive_int, check_seed
from crosslens.errors import refuse
from crosslens.probes.methods.controls import check_classes
from crosslens.probes.methods.fitted import (
    LabelProbe,
    check_fitted,
    check_seen,
    development_layers,
    fitted_layers,
    fitted_matrix,
)
from crosslens.probes.methods.linear.linear import class_codes
from crosslens.probes.methods.linear.solver import check_strengths
from crosslens.probes.methods.rows import StandardisedLayer, check_layers

__all__ = ["LayerMLP", "MLPProbe"]

_FALL = 1e-4  # nats by which the surprise must fall to count


class MLPProbe(LabelProbe, ClassifierMixin, BaseEstimator):
    """scikit-learn's perceptron with one hidden layer of rectified units, on standardised features,
    stopped by development data.

    Trained by Adam in batches of 200 rows. After every epoch the mean surprise on the development
    part is taken. Training ends when it has not fallen by 1e-4 nats for ``patience`` epochs, and
    the weights with the lowest are kept. A probe with a
    hidden layer can memorise more: read its accuracy beside that of a control task.

    Parameters
    ----------
    hidden: units of the hidden layer.
    penalty: on the squared weights, 0 or above (scikit-learn's ``alpha``).
    max_epochs: most passes over the training rows.
    patience: epochs without a lower surprise after which training ends.
    seed: of the first weights and of the order of rows; the same seed gives the same probe.

    Attributes
    ----------
    classes_: shape (c,), the labels in sorted order.
    network_: the fitted :class:`sklearn.neural_network.MLPClassifier`, for standardised features
        and class numbers.
    mean_, scale_: shape (d,), of the training rows; the scale is 1 for features that do not vary.
    n_iter_: epochs until the lowest surprise. dev_loss_: this surprise, in nats.
    n_features_in_: d.

    References
    ----------
    Hewitt & Liang 2019, Designing and interpreting probes with control tasks, who compare such
    probes with linear ones.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2))
    >>> y = np.where(x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=300) > 0, "same", "other")
    >>> probe = MLPProbe(patience=3).fit(x[:200], y[:200], x[200:], y[200:])
    >>> probe.score(x[200:], y[200:]) > 0.7
    True
    """

    def __init__(
        self,
        hidden: int = 100,
        penalty: float | int = 1e-4,
        max_epochs: int = 1000,
        patience: int = 10,
        seed: int = 0,
    ) -> None:
        self.hidden = hidden
        self.penalty = penalty
        self.max_epochs = max_epochs
        self.patience = patience
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike, dev_X: ArrayLike, dev_y: ArrayLike) -> "MLPProbe":
        """Learn from the labelled vectors of one layer, which are copied.

        Parameters
        ----------
        X: shape (n, d). y: shape (n,), at least two different labels.
        dev_X, dev_y: the development part, shape (m, d) and (m,), which training is stopped by.

        Warns
        -----
        ConvergenceWarning: the surprise was still falling after ``max_epochs``.

        Raises
        ------
        InputError: not finite, not one label per row, a single class, other columns in the
            development part, or labels there that training does not have.
        """
        X, dev_X = check_matrix(X, "X"), check_matrix(dev_X, "dev_X")
        classes, codes = class_codes(check_classes(y, "y", len(X)), "y")
        if dev_X.shape[1] != X.shape[1]:
            remedy = "take both splits from the same layer"
            refuse("dev_X", f"{X.shape[1]} columns, as in X", f"{dev_X.shape[1]} columns", remedy)
        labels = check_classes(dev_y, "dev_y", len(dev_X))
        check_seen(labels, classes, "dev_y")
        hidden, seed = check_positive_int(self.hidden, "hidden"), check_seed(self.seed)
        (penalty,) = check_strengths([self.penalty], "penalty", least="0 or above")
        max_epochs = check_positive_int(self.max_epochs, "max_epochs")
        patience = check_positive_int(self.patience, "patience")
        layer = StandardisedLayer.of(X, "X")
        # goes on from epoch to epoch, where a number would repeat itself
        draws = np.random.RandomState(seed)
        network = MLPClassifier((hidden,), alpha=penalty, random_state=draws)
        rows = _standardise(X, layer.mean, layer.scale)
        dev_rows = _standardise(dev_X, layer.mean, layer.scale)
        best, stopped = _train(
            network,
            (rows, codes),
            (dev_rows, np.searchsorted(classes, labels)),
            max_epochs,
            patience,
        )
        if not stopped:
            message = (
                f"max_epochs: expected surprise to stop falling, got none of it in {max_epochs} "
                f"epoch(s); raise max_epochs"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        network.coefs_, network.intercepts_ = best.weights[:2], best.weights[2:]
        self.classes_, self.n_features_in_ = classes, X.shape[1]
        self.mean_, self.scale_ = layer.mean, layer.scale
        self.network_, self.n_iter_, self.dev_loss_ = network, best.epoch, best.loss
        return self

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Probability of each class, in the order of ``classes_``; rows sum to 1.

        Parameters
        ----------
        X: shape (n, d).

        Raises
        ------
        InputError: not fitted, not finite, or another number of columns than in ``fit``.
        """
        check_fitted(self, "dev_loss_", "weights", "fit(X, y, dev_X, dev_y)")
        X = fitted_matrix(self, X)
        return np.asarray(self.network_.predict_proba(_standardise(X, self.mean_, self.scale_)))

    def _scores(self, vectors: ArrayLike) -> Float[np.ndarray, "n c"]:
        return self.predict_proba(vectors)


class LayerMLP(BaseEstimator):
    """An :class:`MLPProbe` for each of L layers, for
    :func:`crosslens.probes.methods.evaluation.probe_layers`.

    Parameters
    ----------
    hidden, seed: of each.

    Attributes
    ----------
    probes_: the fitted probes. n_features_in_: d.

    >>> rng, y = np.random.default_rng(0), np.arange(200) % 2
    >>> layer = rng.normal(size=(200, 3)) + 3 * y[:, None]
    >>> LayerMLP(hidden=8).fit([layer], y, [layer], y).predict([layer])[0][:4].tolist()
    [0, 1, 0, 1]
    """

    def __init__(self, hidden: int = 100, seed: int = 0) -> None:
        self.hidden = hidden
        self.seed = seed

    def fit(
        self, layers: Any, y: ArrayLike, dev_layers: Any = None, dev_y: ArrayLike | None = None
    ) -> "LayerMLP":
        """Learn each layer's probe; the development part says when to stop.

        Raises
        ------
        InputError: no development part, one of other layers, or as :meth:`MLPProbe.fit` refuses.
        """
        layers = check_layers(layers)
        held = development_layers(dev_layers, dev_y, layers, needed=False)
        if held is None or dev_y is None:
            remedy = "hold a share of train out (hold_out_dev)"
            refuse("dev_layers", "a dev split, which training is stopped by", "None", remedy)
        self.probes_ = [
            MLPProbe(self.hidden, seed=self.seed).fit(
                np.asarray(layer[:]), y, np.asarray(dev[:]), dev_y
            )
            for layer, dev in zip(layers, held, strict=True)
        ]
        self.n_features_in_ = int(layers[0].shape[1])
        return self

    def predict(self, layers: Any) -> Shaped[np.ndarray, "L n"]:
        """The most probable label of each row by each layer's probe.

        Raises
        ------
        InputError: not fitted, not finite, or layers of another number or width than in ``fit``.
        """
        check_fitted(self, "probes_", "networks", "fit(layers, y, dev_layers, dev_y)")
        layers = fitted_layers(self, layers, "probes_")
        return np.stack(
            [
                probe.predict(np.asarray(layer[:]))
                for probe, layer in zip(self.probes_, layers, strict=True)
            ]
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Best:
    loss: float
    epoch: int
    weights: list[np.ndarray]


def _train(
    network: MLPClassifier,
    train: tuple[np.ndarray, np.ndarray],
    dev: tuple[np.ndarray, np.ndarray],
    max_epochs: int,
    patience: int,
) -> tuple[_Best, bool]:
    """The weights with the lowest mean surprise on the development part, and whether training ended
    before ``max_epochs``."""
    # the lowest surprise, and the last that was clearly lower than those before, with its epoch
    best, mark = None, (np.inf, 0)
    for epoch in range(1, max_epochs + 1):
        network.partial_fit(*train, classes=np.unique(train[1]))
        with np.errstate(divide="ignore"):  # a probability of 0 is an infinite surprise
            loss = float(
                -np.log(network.predict_proba(dev[0])[np.arange(len(dev[1])), dev[1]]).mean()
            )
        if best is None or loss < best.loss:
            best = _Best(
                loss, epoch, [part.copy() for part in (*network.coefs_, *network.intercepts_)]
            )
        if loss < mark[0] - _FALL:
            mark = loss, epoch
        elif epoch - mark[1] >= patience:
            return best, True
    assert best is not None
    return best, False


def _standardise(x: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return (x - mean.astype(x.dtype)) / scale.astype(x.dtype)
