"""What fitted probes share: refusing to answer before they have learnt, or about other features;
labels from scores."""

import abc
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from crosslens.checks import check_matrix
from crosslens.errors import InputError, refuse
from crosslens.probes.methods.controls import check_classes
from crosslens.probes.methods.rows import check_layers, check_same_layers

__all__ = [
    "LabelProbe",
    "NotFitted",
    "check_fitted",
    "check_seen",
    "development_layers",
    "fitted_layers",
    "fitted_matrix",
]


class NotFitted(InputError, NotFittedError):
    """Both this library's error and the one that scikit-learn's tools expect."""


class LabelProbe(abc.ABC):
    """The answers of a probe with one label for each row, from ``_scores``: (n, c), higher is
    likelier."""

    classes_: np.ndarray

    @abc.abstractmethod
    def _scores(self, vectors: Any) -> Float[np.ndarray, "n c"]:
        """How likely each class is, for each row."""

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """The most probable label of each row; of equally probable ones the first in ``classes_``.

        Parameters
        ----------
        X: as in ``fit``, n rows.

        Raises
        ------
        InputError: not fitted, not finite, or of another width (or number of layers) than in
            ``fit``.
        """
        scores = self._scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X: Any, y: ArrayLike) -> float:
        """Accuracy: the share of rows whose label is predicted, from 0 to 1; higher is better.

        Parameters
        ----------
        X: as in ``fit``, n rows. y: shape (n,).

        Raises
        ------
        InputError: as for :meth:`predict`; not one label per row; or labels that training did not
            have, which no prediction could match.
        """
        predicted = self.predict(X)
        labels = check_classes(y, "y", len(predicted))
        check_seen(labels, self.classes_, "y")
        return float((predicted == labels).mean())


def check_fitted(probe: Any, learnt: str, told: str, call: str) -> None:
    """Refuse a probe that has not learnt.

    Parameters
    ----------
    learnt: an attribute that it has once it has. told: what that is, in words. call: what to call
        first.
    """
    if not hasattr(probe, learnt):
        got = f"one without {told}"
        refuse(type(probe).__name__, "a fitted probe", got, f"call {call} first", NotFitted)


def fitted_matrix(probe: Any, X: ArrayLike) -> np.ndarray:
    """The rows that a fitted probe of one layer is asked about, if they are as wide as those that
    it has learnt from."""
    X = check_matrix(X, "X")
    if X.shape[1] != probe.n_features_in_:
        remedy = "probe vectors of the same encoder and layer"
        refuse("X", f"{probe.n_features_in_} columns, as in fit", f"{X.shape[1]} columns", remedy)
    return X


def fitted_layers(probe: Any, layers: Any, learnt: str = "coef_") -> list[Any]:
    """The layers that a fitted probe is asked about, if they are as many and as wide as those that
    it has learnt from.

    Parameters
    ----------
    learnt: an attribute of the fitted probe whose first axis is that of the layers.
    """
    check_fitted(probe, learnt, "coefficients", "fit(layers, y)")
    layers = check_layers(layers)
    check_same_layers(layers, probe.n_features_in_, len(getattr(probe, learnt)))
    return layers


def development_layers(
    dev_layers: Any, dev_y: ArrayLike | None, layers: list[Any], needed: bool
) -> list[Any] | None:
    """The checked layers of the development part, or None where there is none and none is
    needed."""
    if (dev_layers is None) != (dev_y is None):
        missing = "dev_y" if dev_y is None else "dev_layers"
        remedy = "give vectors with what is to be learnt of them"
        refuse(missing, "both dev_layers and dev_y, or neither", "None", remedy)
    if dev_layers is None:
        if needed:
            expected = "a dev split to choose among several penalties by"
            refuse("dev_layers", expected, "None", "give one, or a single penalty")
        return None
    dev_layers = check_layers(dev_layers, "dev_layers")
    check_same_layers(dev_layers, int(layers[0].shape[1]), len(layers), "dev_layers")
    return dev_layers


def check_seen(y: Shaped[np.ndarray, " n"], classes: Shaped[np.ndarray, " c"], name: str) -> None:
    """Refuse labels that training did not have.

    >>> check_seen(np.array(["fr"]), np.array(["de", "fr"]), "y")
    """
    unseen = {*np.unique(y).tolist()} - {*classes.tolist()}  # as Python compares: "1" is not 1
    if unseen:
        remedy = "train on these labels too, or leave their items out"
        refuse(name, "labels seen in fit", ", ".join(sorted(map(repr, unseen))), remedy)
