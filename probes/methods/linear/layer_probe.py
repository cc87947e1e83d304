"""A linear classifier for every layer of an encoder at once: read in blocks, its penalty chosen on
development data."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from crosslens.blas import for_each
from crosslens.checks import check_positive_int
from crosslens.errors import check_choice
from crosslens.probes.methods.controls import check_classes
from crosslens.probes.methods.fitted import check_seen, development_layers, fitted_layers
from crosslens.probes.methods.linear.linear import class_codes, logits, own_rows
from crosslens.probes.methods.linear.solver import (
    Minimum,
    Surprise,
    check_strengths,
    fit_softmax,
    frequencies,
    new_pairs,
    residuals_in_place,
    rough_start,
)
from crosslens.probes.methods.rows import StandardisedLayer, check_layers
from crosslens.progress import Progress

__all__ = ["LayerProbe"]

# of the objective: what minimising further would gain; the value is then within 1e-4 of the minimum
_TOLERANCE = 5e-6


class LayerProbe(BaseEstimator):
    """Multinomial logistic regression with a penalty on the standardised features of each of L
    layers.

    Each layer gets the probe that :class:`crosslens.probes.LinearProbe` would give it: with ``z =
    (x - mean_) / scale_`` the probability of class c is ``softmax(z Wᵀ + b)_c``; W and b minimise
    ``C Σ_i -log p(y_i | x_i) + ||W||² / 2`` (for two classes W is one row, the second class's logit
    against 0). Means and scales come from the training rows; a feature that does not vary there has
    no influence, and a layer of such features answers with the frequencies of classes.

    Layers are read a block of rows at a time, from memory or from disk, and several are fitted at
    once, one on each of BLAS's threads. The minimum is unique, and the result is the same on any
    number of threads.

    Of several penalties each layer takes the one with the highest accuracy on the development part;
    of equally accurate ones that with the lower mean surprise there; of equal ones the strictest.
    They are fitted from strict to loose, each from where the last has ended.

    Parameters
    ----------
    penalties: inverse strengths C above 0, as scikit-learn calls them, smaller being stricter; one,
        or some to choose from.
    max_iter: most steps of the optimiser (L-BFGS) for each penalty. It stops where further steps
        would lower the objective by about a hundred-thousandth (see
        :func:`crosslens.probes.methods.linear.solver.minimise`), not after a number of epochs.
    norm: "l2", or "l1" for ``||W||_1`` in place of ``||W||² / 2``: many entries of W are then 0
        exactly. It takes more steps.

    Attributes
    ----------
    classes_: shape (c,), the labels in sorted order.
    coef_: shape (L, c, d), or (L, 1, d) for two classes: W, for standardised features.
    intercept_: shape (L, c) or (L, 1): b.
    mean_, scale_: shape (L, d), of the training rows; the scale is 1 for features that do not vary.
    C_: shape (L,), the penalty that each layer took.
    n_iter_: shape (L,), steps for the penalty taken, over all rows; those that only looked for a
        start in a sample are left out.
    loss_: shape (L,), in nats: ``(Σ_i -log p(y_i | x_i) + ||W||² / 2 C) / n`` on the training rows,
        the objective over C n.
    dev_accuracy_, dev_loss_: shape (L, penalties), on the development part, in the order of
        ``penalties``: accuracy from 0 to 1, and mean surprise in nats. NaN where no development
        part was given.
    n_features_in_: d.

    References
    ----------
    Alain & Bengio 2017, Understanding intermediate layers using linear classifier probes; Böhning
    1992, Multinomial logistic regression algorithm, for the bound on the curvature that the
    optimiser starts from.

    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["de", "fr", "sw"], 40)
    >>> clear = rng.normal(size=(120, 5)) + 4 * np.eye(5)[np.repeat([0, 1, 2], 40)]
    >>> probe = LayerProbe().fit([rng.normal(size=(120, 5)), clear], y)
    >>> probe.predict([clear[:1], clear[:1]]).shape, bool(probe.loss_[0] > probe.loss_[1])
    ((2, 1), True)
    """

    def __init__(
        self,
        penalties: float | int | Sequence[float | int] = (1.0,),
        max_iter: int = 1000,
        norm: str = "l2",
    ) -> None:
        self.penalties = penalties
        self.max_iter = max_iter
        self.norm = norm

    def fit(
        self, layers: Any, y: ArrayLike, dev_layers: Any = None, dev_y: ArrayLike | None = None
    ) -> "LayerProbe":
        """Learn from labelled vectors of every layer.

        Parameters
        ----------
        layers: L layers of shape (n, d): an array (L, n, d), or a sequence of arrays, of arrays
            mapped from disk (float16, bfloat16, float32, float64), or of
            :class:`crosslens.probes.methods.rows.TakenRows`.
        y: shape (n,), at least two different labels.
        dev_layers, dev_y: the development part, m rows of the same layers, to choose among several
            penalties by.

        Warns
        -----
        ConvergenceWarning: the optimiser stopped before the minimum; the message says for which
            layers, and what to do.

        Raises
        ------
        InputError: not finite, not one label per row, a single class, layers of different shapes,
            several penalties without a development part, or labels there that training does not
            have.
        """
        strengths = check_strengths(self.penalties, "penalties")
        max_iter = check_positive_int(self.max_iter, "max_iter")
        check_choice(self.norm, "norm", ("l2", "l1"))
        layers = check_layers(layers)
        classes, codes = class_codes(check_classes(y, "y", layers[0].shape[0]), "y")
        dev = _development(dev_layers, dev_y, layers, classes, len(strengths) > 1)

        def fit_one(i: int) -> "_Fitted":
            layer = StandardisedLayer.of(layers[i], f"layers[{i}]")
            held = None if dev is None else (layer.held_out(dev[0][i], f"dev_layers[{i}]"), dev[1])
            found = _fit_layer(
                Surprise(layer, codes, len(classes)), strengths, self.norm, max_iter, held
            )
            progress.add(1)
            return found

        with Progress(len(layers), "fitting linear probes", "layers") as progress:
            fitted = for_each(fit_one, len(layers))
        short = {
            f"layers[{i}]": found.minimum.steps
            for i, found in enumerate(fitted)
            if not found.minimum.converged
        }
        if short:
            message = (
                f"max_iter: expected convergence, got none in {max(short.values())} steps for "
                f"{', '.join(short)}; raise max_iter or lower C"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        self.classes_, self.n_features_in_ = classes, int(layers[0].shape[1])
        self.mean_ = np.stack([found.layer.mean for found in fitted])
        self.scale_ = np.stack([found.layer.scale for found in fitted])
        pairs = [own_rows(found.minimum.at, found.layer.mean.dtype) for found in fitted]
        self.coef_, self.intercept_ = (np.stack(parts) for parts in zip(*pairs, strict=True))
        self.C_ = np.array([found.strength for found in fitted])
        self.n_iter_ = np.array([found.minimum.steps for found in fitted])
        self.loss_ = np.array([found.minimum.value for found in fitted])
        self.dev_accuracy_, self.dev_loss_ = (
            np.stack([found.dev[:, k] for found in fitted]) for k in (0, 1)
        )
        return self

    def predict_proba(self, layers: Any) -> Float[np.ndarray, "L n c"]:
        """Probability of each class by each layer's probe, in the order of ``classes_``.

        Parameters
        ----------
        layers: as in ``fit``, n rows.

        Returns
        -------
        shape (L, n, c); the last axis sums to 1.

        Raises
        ------
        InputError: not fitted, not finite, or layers of another number or width than in ``fit``.
        """
        return np.stack([softmax(scores, axis=1) for scores in self._scores(layers)])

    def predict_log_proba(self, layers: Any) -> Float[np.ndarray, "L n c"]:
        """Natural logarithm of :meth:`predict_proba`, in float64: finite where the probability is
        too small for a number above 0.

        Parameters
        ----------
        layers: as in ``fit``, n rows.

        Raises
        ------
        InputError: as for :meth:`predict_proba`.
        """
        return np.stack(
            [log_softmax(scores.astype(np.float64), axis=1) for scores in self._scores(layers)]
        )

    def predict(self, layers: Any) -> Shaped[np.ndarray, "L n"]:
        """The most probable label of each row by each layer's probe; of equally probable ones the
        first in ``classes_``.

        Parameters
        ----------
        layers: as in ``fit``, n rows.

        Raises
        ------
        InputError: as for :meth:`predict_proba`.
        """
        return np.stack([self.classes_[scores.argmax(axis=1)] for scores in self._scores(layers)])

    def score(self, layers: Any, y: ArrayLike) -> Float[np.ndarray, " L"]:
        """Accuracy of each layer's probe, from 0 to 1; higher is better.

        Parameters
        ----------
        layers: as in ``fit``, n rows. y: shape (n,).

        Raises
        ------
        InputError: as for :meth:`predict_proba`; not one label per row; or labels that training did
            not have.
        """
        predicted = self.predict(layers)
        y = check_classes(y, "y", predicted.shape[1])
        check_seen(y, self.classes_, "y")
        return (predicted == y).mean(axis=1)

    def _scores(self, layers: Any) -> list[Float[np.ndarray, "n c"]]:
        layers = fitted_layers(self, layers)

        def scores(i: int) -> Float[np.ndarray, "n c"]:
            layer = StandardisedLayer.learnt(
                layers[i], f"layers[{i}]", self.mean_[i], self.scale_[i]
            )
            return logits(layer, self.coef_[i], self.intercept_[i])

        return for_each(scores, len(layers))


@dataclasses.dataclass(frozen=True, eq=False)
class _Fitted:
    layer: StandardisedLayer
    minimum: Minimum
    strength: float
    dev: Float[np.ndarray, "penalties 2"]  # accuracy and mean surprise


def _fit_layer(
    objective: Surprise,
    strengths: list[float],
    norm: str,
    max_iter: int,
    dev: tuple[StandardisedLayer, Int[np.ndarray, " m"]] | None,
) -> _Fitted:
    """The minimum for each penalty, from strict to loose, and the one that the development part
    likes best."""
    pairs = new_pairs()
    # for L1 what is 0 already is a better start than the minimum over a sample
    start = (
        rough_start(objective, min(strengths), pairs) if norm == "l2" else frequencies(objective)
    )
    best, scores = None, np.full((len(strengths), 2), np.nan)
    for k in np.argsort(strengths, kind="stable"):
        found = fit_softmax(
            objective,
            strengths[k],
            start,
            tolerance=_TOLERANCE,
            max_iter=max_iter,
            norm=norm,
            pairs=pairs,
        )
        start, pairs = found.at, new_pairs()  # with another penalty the curvature is another
        if dev is not None:
            scores[k] = _accuracy_and_surprise(found.at, *dev)
        if best is None or (-scores[k, 0], scores[k, 1]) < (
            -scores[best[0], 0],
            scores[best[0], 1],
        ):
            best = k, found
    assert best is not None
    return _Fitted(objective.layer, best[1], strengths[best[0]], scores)


def _development(
    dev_layers: Any,
    dev_y: ArrayLike | None,
    layers: list[Any],
    classes: Shaped[np.ndarray, " c"],
    needed: bool,
) -> tuple[list[Any], Int[np.ndarray, " m"]] | None:
    """The checked development part with its class codes, or None where there is none and none is
    needed."""
    dev_layers = development_layers(dev_layers, dev_y, layers, needed)
    if dev_layers is None or dev_y is None:
        return None
    labels = check_classes(dev_y, "dev_y", dev_layers[0].shape[0])
    check_seen(labels, classes, "dev_y")
    return dev_layers, np.searchsorted(classes, labels)


def _accuracy_and_surprise(
    at: Float[np.ndarray, "c d1"], layer: StandardisedLayer, codes: Int[np.ndarray, " m"]
) -> tuple[float, float]:
    """The share of rows that are classified correctly, and the mean surprise of their classes, in
    nats."""
    scores = layer.apply(at[:, :-1], at[:, -1])
    correct = scores.argmax(axis=1) == codes
    return float(correct.mean()), residuals_in_place(scores.T, codes)[0] / len(codes)
