"""Multinomial logistic regression to its minimum: L-BFGS, told beforehand how features vary
together.

The features of an encoder's layer are far from independent: a few directions carry a thousand times
the variance of others, and plain L-BFGS spends most of its steps on finding that out. But the
curvature of the loss is known in advance up to a factor: the Hessian of the mean surprise lies
below ``(I - 11ᵀ / c) / 2 ⊗ S`` (Böhning 1992), with ``S`` the correlations of the features, and at
the start, where all classes are equally likely, it is ``(I - 11ᵀ / c) / c ⊗ S`` exactly. So each
step begins from

    M⁻¹ g   with   M = a S + penalty,   a = mean of (1 - Σ_k p_k²) / (c - 1)

where ``a`` follows the probabilities: that is Newton's step where ``S`` tells all, and L-BFGS
learns the rest. ``S`` is taken from some of the rows; it changes the number of steps and not the
minimum.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from crosslens.blas import share
from crosslens.checks import is_number
from crosslens.errors import refuse
from crosslens.probes.methods.rows import BLOCK, StandardisedLayer, TakenRows

__all__ = [
    "Minimum",
    "Objective",
    "Pairs",
    "Preconditioner",
    "Surprise",
    "check_strengths",
    "fit_softmax",
    "frequencies",
    "minimise",
    "minimise_sparse",
    "new_pairs",
    "residuals_in_place",
    "rough_start",
]

_MEMORY = 10  # steps that L-BFGS remembers
_TRIALS = 30  # points tried along a direction
_ENOUGH = 1e-4  # share of the decrease promised by the slope that a step must bring
_LONGER = 2.0  # times the last step is tried first, up to the whole
_FLATTER = 0.9  # share of the slope that may be left
_PER_DIMENSION, _LEAST_ROWS = 8, 4096  # rows from which correlations, and a rough start, are taken
_ROUGHLY = 1e-3  # tolerance of a start
_STAGES, _STEPS_ROUGHLY = 3, 10  # towards a start, at most; after each stage it is judged
_OVERFITTED = 4.0  # times its value on the sample that a start may have on another sample
_WORTH_IT = 4  # times as many rows there must be for it
_ROUNDING = 1e-6  # of a mean of float32 surprises, beside which a decrease is not seen
_CHANGE = 1.5  # by this factor the curvature may change before M is computed anew
# of the rows, each summed by itself, so that threads without work of their own may take some
_PARTS = 8
_LEAST = 1e-12  # what probabilities leave open at least, for the curvature
# added to correlations: M must be positive definite, and directions below this need no help
_RIDGE = 1e-5


Pairs = collections.deque[tuple[np.ndarray, np.ndarray, float]]
"""The last steps of a search: each with what it changed in the gradient, and their inner product.
That tells of the curvature."""


def new_pairs() -> Pairs:
    """The memory of a search at its beginning, without a step."""
    return collections.deque(maxlen=_MEMORY)


@runtime_checkable
class Objective(Protocol):
    """What :func:`minimise` needs: a value with its gradient, and roughly the inverse of its
    Hessian."""

    def __call__(self, at: np.ndarray, /) -> tuple[float, np.ndarray]:
        """The value, above 0, and the gradient, of the shape of ``at``; float64."""

    def precondition(self, gradient: np.ndarray, /) -> np.ndarray:
        """``M⁻¹ gradient``; M symmetric and positive definite."""


@dataclasses.dataclass(frozen=True, eq=False)
class Minimum:
    """Where a search ended: ``at``, its ``value``, the ``steps`` taken, and whether it
    ``converged``."""

    at: np.ndarray
    value: float
    steps: int
    converged: bool


def minimise(
    objective: Objective,
    start: np.ndarray,
    *,
    tolerance: float,
    max_iter: int,
    pairs: Pairs | None = None,
) -> Minimum:
    """Minimise by preconditioned L-BFGS with a line search.

    It has converged where the decrease that is still to be had, ``gᵀ H g / 2`` with the gradient g
    and L-BFGS's inverse Hessian H, is below ``tolerance`` times the value. Unlike the length of the
    gradient, that does not depend on how the unknowns are scaled.

    Parameters
    ----------
    objective: of values above 0.
    start: where to begin; any shape.
    tolerance: as above. max_iter: most steps.
    pairs: what another search has learnt of the curvature around there; this one adds to it.

    References
    ----------
    Nocedal & Wright 2006, Numerical optimization, algorithm 7.4; Hager & Zhang 2005, equation 4.1,
    for the line search's allowance for rounding.

    >>> class Bowl:
    ...     def __call__(self, at):
    ...         return 1 + float(((at - 3) ** 2 * [1, 100]).sum()), 2 * (at - 3) * [1, 100]
    ...     def precondition(self, gradient):
    ...         return gradient / 100
    >>> found = minimise(Bowl(), np.zeros(2), tolerance=1e-12, max_iter=50)
    >>> found.at.round(4).tolist(), found.converged
    ([3.0, 3.0], True)
    """
    at, (value, gradient) = start, objective(start)
    pairs = new_pairs() if pairs is None else pairs
    length = 1.0
    for steps in range(max_iter + 1):
        direction = -_inverse_hessian(objective.precondition, pairs, gradient)
        slope = float(np.vdot(gradient, direction))
        if -slope / 2 <= tolerance * value:
            return Minimum(at, value, steps, True)
        length = min(1.0, _LONGER * length)  # while whole steps are too long, the next one is too
        found = (
            _line_search(objective, at, value, slope, direction, length)
            if steps < max_iter
            else None
        )
        if found is None:
            return Minimum(at, value, steps, False)
        new_at, value, new_gradient, length = found
        _remember(pairs, new_at - at, new_gradient - gradient)
        at, gradient = new_at, new_gradient
    raise AssertionError("the last round of the loop returns")


def _remember(pairs: Pairs, step: np.ndarray, change: np.ndarray) -> None:
    """Keep a step with what it changed in the gradient, if H stays positive definite with it."""
    along = float(np.vdot(step, change))
    if along > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        pairs.append((step, change, along))


def _inverse_hessian(
    precondition: Callable[[np.ndarray], np.ndarray], pairs: Pairs, gradient: np.ndarray
) -> np.ndarray:
    """H g, by the two loops of L-BFGS around the preconditioner, which is scaled to the last
    step."""
    rest, weights = gradient.copy(), []
    for step, change, along in reversed(pairs):
        weights.append(float(np.vdot(step, rest)) / along)
        rest -= weights[-1] * change
    result = precondition(rest)
    if pairs:
        _, change, along = pairs[-1]
        result = result * (along / float(np.vdot(change, precondition(change))))
    for (step, change, along), weight in zip(pairs, reversed(weights), strict=True):
        result += (weight - float(np.vdot(change, result)) / along) * step
    return result


def _line_search(
    objective: Objective,
    at: np.ndarray,
    value: float,
    slope: float,
    direction: np.ndarray,
    length: float,
) -> tuple[np.ndarray, float, np.ndarray, float] | None:
    """A point far enough along the direction, its value, its gradient and how far it is, ``length``
    being tried first.

    None if rounding hides every decrease.
    """
    low, high = 0.0, math.inf
    allowance = _ROUNDING * value
    for _ in range(_TRIALS):
        new_at = at + length * direction
        new_value, gradient = objective(new_at)
        new_slope = float(np.vdot(gradient, direction))
        if not new_value <= value + _ENOUGH * length * slope + allowance:  # nor a number
            high = length
        elif new_slope < _FLATTER * slope:
            low = length
        elif new_slope > -_FLATTER * slope and new_value > value + _ENOUGH * length * slope:
            high = length  # within the allowance, but steeper upwards than it was downwards
        else:
            return new_at, new_value, gradient, length
        if math.isinf(high):
            length *= 2
        else:  # where the slope would vanish if it changed evenly, kept away from both ends
            guess = length * slope / (slope - new_slope) if new_slope > slope else math.nan
            inner = low + 0.1 * (high - low), high - 0.1 * (high - low)
            length = (
                min(max(guess, inner[0]), inner[1]) if math.isfinite(guess) else (low + high) / 2
            )
    return None


def minimise_sparse(
    objective: Objective, start: np.ndarray, weights: np.ndarray, *, tolerance: float, max_iter: int
) -> Minimum:
    """Minimise ``objective(x) + Σ_i weights_i |x_i|`` by OWL-QN: L-BFGS within one orthant at a
    time, so that many x_i are 0 exactly.

    It has converged as :func:`minimise` has, with the slope of the sum in place of the gradient.
    The preconditioner is not used: it would mix what must stay 0 with the rest.

    Parameters
    ----------
    objective, start, tolerance, max_iter: as for :func:`minimise`.
    weights: 0 or above, of the shape of ``start`` or one that it broadcasts to; 0 for what has no
        penalty.

    References
    ----------
    Andrew & Gao 2007, Scalable training of L1-regularized log-linear models.

    >>> class Bowl:
    ...     def __call__(self, at):
    ...         return 1 + float(((at - [3, 0.1]) ** 2).sum()) / 2, at - [3, 0.1]
    >>> minimise_sparse(Bowl(), np.zeros(2), np.array([0.5, 0.5]), tolerance=1e-12, max_iter=50).at.round(6).tolist()
    [2.5, 0.0]
    """
    at, (smooth, gradient) = start, objective(start)
    value = smooth + float((weights * np.abs(at)).sum())
    pairs = new_pairs()
    for steps in range(max_iter + 1):
        slopes = _steepest(at, gradient, weights)
        direction = -_inverse_hessian(np.copy, pairs, slopes)
        direction[(direction * slopes >= 0) & (weights > 0)] = 0  # only where the sum falls
        slope = float(np.vdot(slopes, direction))
        if -slope / 2 <= tolerance * value:
            return Minimum(at, value, steps, True)
        first = 1.0 if pairs else 1 / float(np.linalg.norm(slopes))
        found = (
            _search_orthant(objective, at, value, slopes, first * direction, weights)
            if steps < max_iter
            else None
        )
        if found is None:
            return Minimum(at, value, steps, False)
        new_at, value, new_gradient = found
        _remember(pairs, new_at - at, new_gradient - gradient)
        at, gradient = new_at, new_gradient
    raise AssertionError("the last round of the loop returns")


def _search_orthant(
    objective: Objective,
    at: np.ndarray,
    value: float,
    slopes: np.ndarray,
    direction: np.ndarray,
    weights: np.ndarray,
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """A low enough point along the direction, no unknown of it beyond 0, its value and its smooth
    gradient; None if there is none."""
    orthant = np.where(at == 0, -np.sign(slopes), np.sign(at))
    for halvings in range(_TRIALS):
        new_at = at + direction / 2**halvings
        new_at[(new_at * orthant <= 0) & (weights > 0)] = 0
        smooth, gradient = objective(new_at)
        new_value = smooth + float((weights * np.abs(new_at)).sum())
        if new_value <= value + _ENOUGH * float(np.vdot(slopes, new_at - at)) + _ROUNDING * value:
            return new_at, new_value, gradient
    return None


def _steepest(at: np.ndarray, gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The slope of the penalised sum along each unknown, towards the side where it falls; 0 where
    it rises on both sides."""
    aside = np.sign(gradient) * np.maximum(np.abs(gradient) - weights, 0)
    return np.where((at == 0) & (weights > 0), aside, gradient + weights * np.sign(at))


class Preconditioner:
    """``M⁻¹``, as the module's docstring has it, for the current probabilities.

    Parameters
    ----------
    correlations: shape (d, d), S. classes: c.
    """

    def __init__(self, correlations: Float[np.ndarray, "d d"], classes: int) -> None:
        self.correlations, self.classes = correlations, classes
        self._curvature = 1 / classes  # of equal probabilities
        self._solved_for = (0.0, 0.0)  # the curvature and the penalty of the factor
        self._factor: Any = None  # of M, by Cholesky

    @classmethod
    def of(
        cls, blocks: Iterable[Float[np.ndarray, "b d"]], n: int, classes: int
    ) -> "Preconditioner":
        """From n standardised rows in blocks. Rows are sampled evenly, since neighbours are often
        alike."""
        rng, total, count = np.random.default_rng(0), 0.0, 0
        for block in blocks:
            share = min(1.0, max(_LEAST_ROWS, _PER_DIMENSION * block.shape[1]) / n)
            some = block if share == 1 else block[rng.random(len(block)) < share]
            total, count = total + (some.T @ some).astype(np.float64), count + len(some)
        return cls(np.asarray(total) / max(count, 1), classes)

    def follow(self, openness: float) -> None:
        """Take the curvature from the mean over items of ``1 - Σ_k p_k²``."""
        self._curvature = max(openness, _LEAST) / (self.classes - 1)

    def solve(
        self, gradient: Float[np.ndarray, "c d1"], penalty: float
    ) -> Float[np.ndarray, "c d1"]:
        """``M⁻¹ g`` for the row of each class; for its intercept, in the last column, g over the
        curvature."""
        curvature, of_penalty = self._solved_for
        if penalty != of_penalty or not curvature / _CHANGE < self._curvature < curvature * _CHANGE:
            curvature = self._curvature
            matrix = curvature * self.correlations
            matrix[np.diag_indices_from(matrix)] += penalty + _RIDGE * curvature
            self._factor = scipy.linalg.cho_factor(
                matrix, lower=True, overwrite_a=True, check_finite=False
            )
            self._solved_for = curvature, penalty
        solved = scipy.linalg.cho_solve(self._factor, gradient[:, :-1].T, check_finite=False).T
        return np.concatenate([solved, gradient[:, -1:] / curvature], axis=1)


class Surprise:
    """The mean surprise of the true classes, with its L2 penalty, as a function of the
    coefficients.

    ``F(W, b) = mean_i -log softmax(W z_i + b)_{y_i} + penalty ||W||² / 2``, with z the standardised
    features of a layer. Every call reads the layer once, a block of rows at a time; memory holds a
    block for each thread, and its (c, block) probabilities. Threads that have nothing else to do
    take some of the rows (:func:`crosslens.blas.share`), which does not change the sums.

    Parameters
    ----------
    layer: n rows of d features.
    codes: shape (n,), the class of each row, from 0 to c - 1.
    classes: c, at least 2.
    correlations: how features vary together, roughly, for :class:`Preconditioner`; without them,
        they are taken from the rows.

    Attributes
    ----------
    penalty: 0 or above; may be changed between calls.
    """

    def __init__(
        self,
        layer: StandardisedLayer,
        codes: Int[np.ndarray, " n"],
        classes: int,
        correlations: Float[np.ndarray, "d d"] | None = None,
    ) -> None:
        self.layer, self.codes, self.classes, self.penalty = layer, codes, classes, 1.0
        self._folded = layer.folded
        if correlations is None:
            blocks = (block * self._folded for _, block in layer.centred())
            self._preconditioner = Preconditioner.of(blocks, len(layer), classes)
        else:
            self._preconditioner = Preconditioner(correlations, classes)

    def sample(self, rows: Int[np.ndarray, " s"]) -> "Surprise":
        """The same of some rows, standardised alike; their features vary together as all rows' are
        taken to."""
        layer = self.layer.held_out(TakenRows(self.layer.source, rows), self.layer.name)
        return Surprise(layer, self.codes[rows], self.classes, self._preconditioner.correlations)

    def __call__(self, at: Float[np.ndarray, "c d1"]) -> tuple[float, Float[np.ndarray, "c d1"]]:
        """F and its gradient at ``(W | b)``, the intercept being the last column."""
        precision = self.layer.mean.dtype
        weights = (at[:, :-1] * self._folded).astype(precision)
        intercept = at[:, -1:].astype(precision)

        def sums(some: slice) -> tuple[float, float, np.ndarray]:
            room = np.empty(self.classes * min(BLOCK, len(self.codes)), precision)
            surprise, openness, gradient = 0.0, 0.0, np.zeros(at.shape)
            for rows, block in self.layer.centred(some):
                scores = np.matmul(
                    weights,
                    block.T,
                    out=room[: self.classes * len(block)].reshape(self.classes, -1),
                )
                scores += intercept
                found = residuals_in_place(scores, self.codes[rows])
                surprise, openness = surprise + found[0], openness + found[1]
                gradient[:, :-1] += scores @ block
                gradient[:, -1] += scores.sum(axis=1, dtype=np.float64)
            return surprise, openness, gradient

        n = len(self.codes)
        step = BLOCK * math.ceil(n / (_PARTS * BLOCK))
        parts = share(sums, [slice(start, start + step) for start in range(0, n, step)])
        surprise, openness = (math.fsum(part[i] for part in parts) for i in (0, 1))
        gradient = np.asarray(sum(part[2] for part in parts))
        self._preconditioner.follow(openness / n)
        gradient /= n
        gradient[:, :-1] *= self._folded
        gradient[:, :-1] += self.penalty * at[:, :-1]
        return surprise / n + self.penalty * float(np.square(at[:, :-1]).sum()) / 2, gradient

    def precondition(self, gradient: Float[np.ndarray, "c d1"]) -> Float[np.ndarray, "c d1"]:
        """``M⁻¹ gradient``."""
        return self._preconditioner.solve(gradient, self.penalty)


def rough_start(objective: Surprise, strength: float, pairs: Pairs) -> Float[np.ndarray, "c d1"]:
    """Where the minimum over a sample of the rows roughly lies, with an L2 penalty;
    :func:`frequencies` where a sample tells little.

    A search spends most of its steps far from the minimum, where a sample shows the way as well and
    costs a fraction; and what it has learnt of the curvature holds nearly as well for all rows. But
    with a loose penalty a sample is overfitted, and its minimum is a worse start than none. It
    changes the number of steps and not the minimum.

    Parameters
    ----------
    objective: of n rows. strength: C. pairs: take what is learnt of the curvature.
    """
    start = frequencies(objective)
    every = len(objective.codes) // max(_LEAST_ROWS, _PER_DIMENSION * len(objective.layer.mean))
    if every < _WORTH_IT:
        return start
    # so that a sample has of each class alike
    by_class = np.argsort(objective.codes, kind="stable")
    sample, other = (objective.sample(np.sort(by_class[first::every])) for first in (0, 1))
    weight = len(objective.codes) / len(sample.codes)  # of a row of the sample
    found = Minimum(start, math.inf, 0, False)
    for _ in range(_STAGES):
        found = fit_softmax(
            sample,
            strength * weight,
            found.at,
            tolerance=_ROUGHLY,
            max_iter=_STEPS_ROUGHLY,
            pairs=pairs,
        )
        other.penalty = sample.penalty
        if other(found.at)[0] > _OVERFITTED * found.value:
            pairs.clear()
            return start
        if found.converged:
            break
    return found.at


def frequencies(objective: Surprise) -> Float[np.ndarray, "c d1"]:
    """The best answer without looking at the features: how frequent the classes are."""
    start = np.zeros((objective.classes, len(objective.layer.mean) + 1))
    logs = np.log(np.bincount(objective.codes, minlength=objective.classes))
    start[:, -1] = logs - logs.mean()
    return start


def fit_softmax(
    objective: Surprise,
    strength: float,
    start: Float[np.ndarray, "c d1"],
    *,
    tolerance: float,
    max_iter: int,
    norm: str = "l2",
    pairs: Pairs | None = None,
) -> Minimum:
    """The minimum of ``C Σ_i -log p(y_i | x_i) + ||W||² / 2``, or with ``||W||_1`` for its norm,
    found as that of its mean over C n.

    Parameters
    ----------
    objective: of n rows; its penalty is set. Two classes have a row each here, opposite to each
        other, where scikit-learn and this library's probes have one, their difference, whose square
        is twice the sum of theirs, and whose absolute value is that sum.
    strength: C. norm: "l2" or "l1".
    start, tolerance, max_iter: as for :func:`minimise` and :func:`minimise_sparse`. pairs: as for
        the former; the latter takes none.
    """
    penalty = 1 / (strength * len(objective.codes))
    if norm == "l1":
        objective.penalty = 0.0
        weights = np.append(np.full(start.shape[1] - 1, penalty), 0)  # none for the intercept
        return minimise_sparse(objective, start, weights, tolerance=tolerance, max_iter=max_iter)
    objective.penalty = penalty * (2 if objective.classes == 2 else 1)
    return minimise(objective, start, tolerance=tolerance, max_iter=max_iter, pairs=pairs)


def check_strengths(value: Any, name: str, *, least: str = "above 0") -> list[float]:
    """Return one number, or each of some different numbers, as floats above 0 (or ``least="0 or
    above"``).

    >>> check_strengths((0.1, 1), "penalties")
    [0.1, 1.0]
    """
    several = (
        list(value)
        if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
        else [value]
    )
    for each in several:
        if not is_number(each) or not 0 <= each < np.inf or (each == 0 and least == "above 0"):
            refuse(name, f"finite numbers {least}", repr(each), "1.0 is a usual choice")
    if not several or len(set(several)) < len(several):
        refuse(name, "one number, or several different ones", repr(value), "give each once")
    return [float(each) for each in several]


def residuals_in_place(
    scores: Float[np.ndarray, "c b"], codes: Int[np.ndarray, " b"]
) -> tuple[float, float]:
    """Turn the scores of items, one in each column, into probabilities less 1 for the true class.

    What is left for the other classes is summed by itself, never as 1 less a probability near 1: so
    float32 keeps its digits where classes are distinguished well.

    Returns
    -------
    The summed surprise of the true classes, in nats, and the sum of ``1 - Σ_k p_k²``.

    >>> scores = np.array([[0.0, 5.0], [0.0, 5.0]])
    >>> surprise, openness = residuals_in_place(scores, np.array([0, 1]))
    >>> round(surprise, 4), openness, scores.tolist()
    (1.3863, 1.0, [[-0.5, 0.5], [0.5, -0.5]])
    """
    items = np.arange(scores.shape[1])
    scores -= scores.max(axis=0)
    true = scores[codes, items].astype(np.float64)
    np.exp(scores, out=scores)
    scores[codes, items] = 0
    others = scores.sum(axis=0).astype(np.float64)
    total = others + np.exp(true)
    missed = others / total  # 1 - p of the true class
    scores /= total.astype(scores.dtype)
    openness = float((missed * (2 - missed)).sum()) - float(np.vdot(scores, scores))
    scores[codes, items] = -missed
    return float((np.log(total) - true).sum()), openness
