"""One mix of all layers, its weights learnt together with a linear classifier on it: where in the
encoder a task's answer lies."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from crosslens.blas import for_each
from crosslens.checks import check_positive_int
from crosslens.probes.methods.controls import check_classes
from crosslens.probes.methods.fitted import LabelProbe, development_layers, fitted_layers
from crosslens.probes.methods.linear.linear import class_codes, own_rows
from crosslens.probes.methods.linear.solver import (
    Minimum,
    Preconditioner,
    check_strengths,
    minimise,
    residuals_in_place,
)
from crosslens.probes.methods.rows import StandardisedLayer, check_layers

__all__ = ["LayerMix", "MixProbe", "MixedSurprise"]

_TOLERANCE = 1e-7  # of the objective: what minimising further would gain


class LayerMix(LabelProbe, BaseEstimator):
    """Multinomial logistic regression on a weighted mean of L layers, the weights learnt with it.

    The vector of an item is ``h = Σ_l s_l z_l`` with ``s = softmax(a)`` (Peters et al. 2018,
    equation 1) and the standardised features z_l of layer l; W, b and a minimise ``C Σ_i -log
    softmax(W h_i + b)_{y_i} + ||W||² / 2``. The paper's factor γ is not there: W's own length has
    its place, and under a penalty on W a free γ would undo the penalty.

    The search begins from equal weights. The objective is convex in (W, b) but not in a, so another
    start might end in another minimum; nothing is random. A layer's weight says how much the mix
    uses it, beside all others: layers that carry the same share it in ways that mean little.

    Parameters
    ----------
    C: inverse strength of the penalty, above 0, as scikit-learn calls it; smaller is stricter.
    max_iter: most steps of the optimiser (L-BFGS), which stops where further steps would gain less
        than a ten-millionth.

    Attributes
    ----------
    weights_: shape (L,), s: each from 0 to 1, together 1.
    classes_: shape (c,), the labels in sorted order.
    coef_: shape (c, d), or (1, d) for two classes: W. intercept_: shape (c,) or (1,): b.
    mean_, scale_: shape (L, d), of the training rows; the scale is 1 for features that do not vary.
    loss_: in nats, ``(Σ_i -log p(y_i | x_i) + ||W||² / 2 C) / n`` on the training rows, the
        objective over C n.
    n_iter_: steps that the optimiser took.
    n_features_in_: d.

    References
    ----------
    Peters et al. 2018, Deep contextualized word representations; Tenney, Das & Pavlick 2019, BERT
    rediscovers the classical NLP pipeline, for what the weights are read for.

    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["de", "fr", "sw"], 40)
    >>> clear = rng.normal(size=(120, 5)) + 2 * np.eye(5)[np.repeat([0, 1, 2], 40)]
    >>> mix = LayerMix().fit([rng.normal(size=(120, 5)), clear, rng.normal(size=(120, 5))], y)
    >>> int(mix.weights_.argmax()), round(float(mix.weights_.sum()), 6)
    (1, 1.0)
    """

    def __init__(self, C: float | int = 1.0, max_iter: int = 1000) -> None:
        self.C = C
        self.max_iter = max_iter

    def fit(self, layers: Any, y: ArrayLike) -> "LayerMix":
        """Learn from labelled vectors of every layer.

        Parameters
        ----------
        layers: L layers of shape (n, d), as
            :class:`crosslens.probes.methods.linear.layer_probe.LayerProbe` takes them; read in
            blocks.
        y: shape (n,), at least two different labels.

        Warns
        -----
        ConvergenceWarning: the optimiser stopped before the minimum; the message says what to do.

        Raises
        ------
        InputError: not finite, not one label per row, a single class, or layers of different
            shapes.
        """
        (strength,) = check_strengths([self.C], "C")
        max_iter = check_positive_int(self.max_iter, "max_iter")
        layers = check_layers(layers)
        classes, codes = class_codes(check_classes(y, "y", layers[0].shape[0]), "y")
        read = for_each(lambda i: StandardisedLayer.of(layers[i], f"layers[{i}]"), len(layers))

        def search(_: int) -> Minimum:
            # two rows, as in fit_softmax
            penalty = (2 if len(classes) == 2 else 1) / (strength * len(codes))
            objective = MixedSurprise(read, codes, len(classes), penalty)
            return minimise(objective, objective.start(), tolerance=_TOLERANCE, max_iter=max_iter)

        (found,) = for_each(search, 1)
        if not found.converged:
            message = (
                f"max_iter: expected convergence, got none in {found.steps} step(s); raise "
                f"max_iter or lower C"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        self.classes_, self.n_features_in_ = classes, int(layers[0].shape[1])
        self.mean_ = np.stack([layer.mean for layer in read])
        self.scale_ = np.stack([layer.scale for layer in read])
        at, mix = _parts(found.at, len(classes), len(layers))
        self.coef_, self.intercept_ = own_rows(at, self.mean_.dtype)
        self.weights_ = softmax(mix)
        self.loss_, self.n_iter_ = found.value, found.steps
        return self

    def predict_proba(self, layers: Any) -> Float[np.ndarray, "n c"]:
        """Probability of each class, in the order of ``classes_``; rows sum to 1.

        Parameters
        ----------
        layers: as in ``fit``, n rows.

        Raises
        ------
        InputError: not fitted, not finite, or layers of another number or width than in ``fit``.
        """
        return softmax(self._scores(layers), axis=1)

    def judged(self, layers: Any, y: ArrayLike) -> tuple[float, float]:
        """Accuracy on labelled vectors, and the mean log probability of their labels, in nats; of
        labels that training had."""
        labels = check_classes(y, "y", len(layers[0]))
        scores, seen = self._scores(layers), np.isin(labels, self.classes_)
        true = np.searchsorted(self.classes_, labels[seen])
        surprise = log_softmax(scores[seen], axis=1)[np.arange(len(true)), true]
        return float((self.classes_[scores.argmax(axis=1)] == labels).mean()), float(
            surprise.mean()
        ) if len(true) else 0.0

    def _scores(self, vectors: Any) -> Float[np.ndarray, "n c"]:
        layers = fitted_layers(self, vectors, "weights_")
        none = np.zeros_like(self.intercept_)

        def part(i: int) -> Float[np.ndarray, "n k"]:
            layer = StandardisedLayer.learnt(
                layers[i], f"layers[{i}]", self.mean_[i], self.scale_[i]
            )
            return layer.apply(self.weights_[i] * self.coef_, none)

        values = np.sum(for_each(part, len(layers)), axis=0) + self.intercept_
        return (
            np.concatenate([np.zeros_like(values), values], axis=1)
            if len(self.intercept_) == 1
            else values
        )


class MixProbe(BaseEstimator):
    """A :class:`LayerMix` whose penalty is chosen on a development part;
    :func:`crosslens.probes.methods.evaluation.probe_layers` takes it.

    Parameters
    ----------
    penalties: inverse strengths C to choose from, as of
        :class:`crosslens.probes.methods.linear.layer_probe.LayerProbe`: the most accurate on the
        development part, of such the one with the lower mean surprise there, of equal ones the
        strictest.

    Attributes
    ----------
    C_: shape (1,), the one that was chosen. weights_: shape (L,), of the layers. mix_: the fitted
        mix.

    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["de", "fr"], 40)
    >>> layers = [rng.normal(size=(80, 3)), rng.normal(size=(80, 3)) + 3 * (y == "fr")[:, None]]
    >>> probe = MixProbe((0.1, 1.0)).fit(layers, y, layers, y)
    >>> probe.predict(layers).shape, int(probe.weights_.argmax())
    ((1, 80), 1)
    """

    def __init__(self, penalties: float | Sequence[float] = (1.0,)) -> None:
        self.penalties = penalties

    def fit(
        self, layers: Any, y: ArrayLike, dev_layers: Any = None, dev_y: ArrayLike | None = None
    ) -> "MixProbe":
        """Learn from labelled vectors of every layer.

        Parameters
        ----------
        layers, y: as :meth:`LayerMix.fit` takes them. dev_layers, dev_y: to choose among several
            penalties by.

        Raises
        ------
        InputError: as of :meth:`LayerMix.fit`, or several penalties without a development part.
        """
        strengths = sorted(check_strengths(self.penalties, "penalties"))
        layers = check_layers(layers)
        held = development_layers(dev_layers, dev_y, layers, needed=len(strengths) > 1)
        best = (-np.inf, -np.inf)
        for strength in strengths:
            mix = LayerMix(strength).fit(layers, y)
            reached = (
                (0.0, 0.0)
                if held is None or dev_y is None or len(strengths) == 1
                else mix.judged(held, dev_y)
            )
            if reached > best:
                best, self.mix_, self.C_ = reached, mix, np.array([strength])
        self.weights_ = self.mix_.weights_
        return self

    def predict(self, layers: Any) -> Shaped[np.ndarray, "1 n"]:
        """The most probable label of each row, as of a single layer."""
        return self.mix_.predict(layers)[None]

    def again(self) -> "MixProbe":
        """One that is not fitted, with the penalty that was chosen."""
        return MixProbe(float(self.C_[0]))


class MixedSurprise:
    """The mean surprise of the true classes given a mix of layers, with its penalty, as a function
    of W, b and a.

    All unknowns are one vector: the rows of ``(W | b)``, one for each class, then a. Every call
    reads each layer once, a block of rows of all of them at a time.

    Parameters
    ----------
    layers: L layers of n rows and d features.
    codes: shape (n,), from 0 to c - 1. classes: c. penalty: on ``||W||² / 2``.
    """

    def __init__(
        self,
        layers: list[StandardisedLayer],
        codes: Int[np.ndarray, " n"],
        classes: int,
        penalty: float,
    ) -> None:
        self.layers, self.codes, self.classes, self.penalty = layers, codes, classes, penalty
        self._folded = [layer.folded for layer in layers]
        equal = np.full(len(layers), 1 / len(layers))
        mixed = (self._mixed(blocks, equal) for _, blocks in self._blocks())
        self._preconditioner = Preconditioner.of(mixed, len(codes), classes)

    def start(self) -> Float[np.ndarray, " u"]:
        """No coefficients, equal weights."""
        return np.zeros(self.classes * (len(self.layers[0].mean) + 1) + len(self.layers))

    def __call__(self, unknowns: Float[np.ndarray, " u"]) -> tuple[float, Float[np.ndarray, " u"]]:
        """The objective and its gradient."""
        at, mix = _parts(unknowns, self.classes, len(self.layers))
        weights = softmax(mix)
        precision = self.layers[0].mean.dtype
        rows_of_w, intercept = at[:, :-1].astype(precision), at[:, -1:].astype(precision)
        surprise, openness, n = 0.0, 0.0, len(self.codes)
        gradient, by_weight = np.zeros(at.shape), np.zeros(len(weights))
        for rows, blocks in self._blocks():
            mixed = self._mixed(blocks, weights)
            scores = rows_of_w @ mixed.T + intercept
            found = residuals_in_place(scores, self.codes[rows])
            surprise, openness = surprise + found[0], openness + found[1]
            gradient[:, :-1] += scores @ mixed
            gradient[:, -1] += scores.sum(axis=1, dtype=np.float64)
            pull = scores.T @ rows_of_w  # of the surprise on the mix
            by_weight += [
                float(np.einsum("ij,ij->j", pull, x) @ folded)
                for x, folded in zip(blocks, self._folded, strict=True)
            ]
        self._preconditioner.follow(openness / n)
        gradient[:, :-1] += n * self.penalty * at[:, :-1]
        by_mix = weights * (by_weight - weights @ by_weight)
        value = surprise / n + self.penalty * float(np.square(at[:, :-1]).sum()) / 2
        return value, np.concatenate([gradient.ravel(), by_mix]) / n

    def precondition(self, gradient: Float[np.ndarray, " u"]) -> Float[np.ndarray, " u"]:
        """The coefficients as for one layer; weights, each moving the mix by about one of L parts,
        get steps L times as long."""
        by_at, by_mix = _parts(gradient, self.classes, len(self.layers))
        return np.concatenate(
            [self._preconditioner.solve(by_at, self.penalty).ravel(), len(self.layers) * by_mix]
        )

    def _blocks(self) -> Iterator[tuple[slice, list[np.ndarray]]]:
        """Which rows, and these rows of every layer less the means."""
        for together in zip(*(layer.centred() for layer in self.layers), strict=True):
            yield together[0][0], [block for _, block in together]

    def _mixed(
        self, blocks: list[np.ndarray], weights: Float[np.ndarray, " L"]
    ) -> Float[np.ndarray, "b d"]:
        total = np.zeros_like(blocks[0])
        for weight, block, folded in zip(weights, blocks, self._folded, strict=True):
            total += block * (weight * folded).astype(block.dtype)
        return total


def _parts(
    unknowns: Float[np.ndarray, " u"], classes: int, layers: int
) -> tuple[Float[np.ndarray, "c d1"], Float[np.ndarray, " L"]]:
    return unknowns[:-layers].reshape(classes, -1), unknowns[-layers:]
