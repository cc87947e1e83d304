"""How far a similarity could have come out otherwise: bootstrap intervals without new products, and a permutation baseline."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.alignment.cka_products import Products, hsic
from crosslens.checks import check_paired, check_positive_int, check_seed

__all__ = ["PermutationBaseline", "bootstrap_cka", "permutation_baseline"]


@dataclasses.dataclass(frozen=True)
class PermutationBaseline:
    """A similarity beside the same similarity of wrongly paired items.

    Attributes
    ----------
    value: with the true pairing.
    mean: over the shuffled pairings: what unrelated items give at this n and d.
    high: the 95 % quantile over the shuffled pairings.
    p: ``(b + 1) / (m + 1)`` with b of m shuffled values at least as large as ``value`` (Davison & Hinkley 1997, equation 4.11).
    permutations: m.
    """

    value: float
    mean: float
    high: float
    p: float
    permutations: int


def permutation_baseline(
    measure: Callable[[np.ndarray, np.ndarray], float], x: ArrayLike, y: ArrayLike, *, permutations: int = 100, seed: int = 0
) -> PermutationBaseline:
    """A similarity, and what it would be if the rows of ``y`` belonged to other rows of ``x``.

    Parameters
    ----------
    measure: two matrices -> a number that is higher for more alike ones, as :func:`linear_cka`; for options, give a
        lambda or ``functools.partial``. For a distance, give its negative.
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    permutations: m, how many times the rows of ``y`` are shuffled; ``p`` cannot be below 1 / (m + 1).
    seed: of the shuffling. The same seed gives the same result.

    Raises
    ------
    InputError: not finite, different numbers of rows, fewer than 2 rows; no permutations; a seed that is none; or what
        ``measure`` refuses.

    References
    ----------
    Davison & Hinkley 1997, Bootstrap methods and their application, section 4.3.

    >>> from crosslens.alignment.similarity import linear_cka
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 4))
    >>> baseline = permutation_baseline(linear_cka, x, x + 0.1 * rng.normal(size=(50, 4)), permutations=99)
    >>> baseline.p, bool(baseline.mean < baseline.high < 0.3 < baseline.value)
    (0.01, True)
    """
    x, y = check_paired(x, y, min_rows=2)
    permutations = check_positive_int(permutations, "permutations")
    rng = np.random.default_rng(check_seed(seed))
    value = measure(x, y)
    shuffled = np.array([measure(x, y[rng.permutation(len(y))]) for _ in range(permutations)])
    at_least = int((shuffled >= value).sum())
    return PermutationBaseline(
        float(value), float(shuffled.mean()), float(np.quantile(shuffled, 0.95)), (at_least + 1) / (permutations + 1), permutations
    )


def bootstrap_cka(found: Products, resamples: int, seed: int) -> Float[np.ndarray, "2 2 m m"]:
    """95 % intervals of biased and debiased CKA from the sums of products of pairs of groups of items.

    Groups are drawn with replacement; a group that is drawn c times counts c times. Pairs of items of different groups
    then count as the product of their groups' counts, times a factor that makes up for the pairs of one group with its
    own copies, which are left out: an item is no evidence for itself, and counting such pairs would push the biased CKA up.
    Every resample is an exact weighted sum of what was computed. Rows stay centred at the mean of all items: a difference
    of order 1 / n. Quantiles are moved outwards for the number of groups (the "expanded percentile interval").

    Parameters
    ----------
    found: with G >= 5 groups.
    resamples: how many times groups are drawn.
    seed: of the drawing.

    Returns
    -------
    shape (2, 2, M, M): first the biased CKA, then the debiased one, and of each low and high; NaN for pairs without products or where
    a resample leaves nothing that varies. Not cut at 1.

    References
    ----------
    Hesterberg 2015, What teachers should know about the bootstrap, section 4.3.3 (expanded percentiles).

    >>> rows = np.random.default_rng(0).normal(size=(40, 3))
    >>> rows -= rows.mean(axis=0)
    >>> parts = rows.reshape(10, 4, 3)
    >>> gram = np.einsum("gid,hjd->gihj", parts, parts)
    >>> cross = np.einsum("gihj,gihj->gh", gram, gram)[:, :, None, None]
    >>> bootstrap_cka(Products(cross, np.square(rows).sum(axis=1, keepdims=True)), 20, 0)[0].ravel()
    array([1., 1.])
    """
    from scipy.special import ndtr, stdtrit

    n, groups = len(found.squares), len(found.cross)
    counts = np.random.default_rng(seed).multinomial(groups, np.full(groups, 1 / groups), size=resamples).astype(float)
    within = np.einsum("gg...->g...", found.cross)
    pairs = np.einsum("bg,gh...->bh...", counts, found.cross, optimize=True)
    between = np.einsum("bh,bh...->b...", counts, pairs) - np.einsum("bg,g...->b...", counts**2, within, optimize=True)
    different = groups**2 - np.square(counts).sum(axis=1)  # ordered pairs of draws of different groups
    between *= (groups * (groups - 1) / different)[:, None, None]
    parts = [found.squares[group::groups] for group in range(groups)]
    squares = counts @ np.array([part.sum(axis=0) for part in parts])
    squares_product = np.einsum("bg,g...->b...", counts, np.array([part.T @ part for part in parts]), optimize=True)
    both = hsic(n, between + np.einsum("bg,g...->b...", counts, within, optimize=True), squares, squares_product)
    tail = float(ndtr(-math.sqrt(groups / (groups - 1)) * stdtrit(groups - 1, 0.975)))
    return np.stack([np.quantile(_ratios(estimate), (tail, 1 - tail), axis=0) for estimate in both])


def _ratios(estimate: Float[np.ndarray, "b m m"]) -> Float[np.ndarray, "b m m"]:
    own = np.einsum("bii->bi", estimate)
    own = np.where(own > 0, own, np.nan)
    return estimate / np.sqrt(own[:, :, None] * own[:, None, :])
