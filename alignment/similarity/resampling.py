"""How far a similarity could have come out otherwise: intervals of debiased CKA without new
products, and a permutation baseline."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.alignment.similarity.cka_products import Products, hsic
from crosslens.checks import check_paired, check_positive_int, check_seed
from crosslens.errors import quote, refuse
from crosslens.one_line import one_line

__all__ = ["PermutationBaseline", "cka_intervals", "permutation_baseline"]

_Z = 1.959963984540054  # the normal distribution's 97.5 % point


@dataclasses.dataclass(frozen=True)
class PermutationBaseline:
    """A similarity beside the same similarity of wrongly paired items.

    Attributes
    ----------
    value: with the true pairing.
    mean: over the shuffled pairings: what unrelated items give at this n and d.
    high: the 95 % quantile over the shuffled pairings.
    p: ``(b + 1) / (m + 1)`` with b of m shuffled values at least as large as ``value`` (Davison &
        Hinkley 1997, equation 4.11).
    permutations: m.
    """

    value: float
    mean: float
    high: float
    p: float
    permutations: int

    __repr__ = one_line


def permutation_baseline(
    measure: Callable[[np.ndarray, np.ndarray], float],
    x: ArrayLike,
    y: ArrayLike,
    *,
    permutations: int = 100,
    seed: int = 0,
) -> PermutationBaseline:
    """A similarity, and what it would be if the rows of ``y`` belonged to other rows of ``x``.

    Parameters
    ----------
    measure: two matrices -> a number that is higher for more alike ones, as :func:`linear_cka`; for
        options, give a lambda or ``functools.partial``. For a distance, give its negative.
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    permutations: m, how many times the rows of ``y`` are shuffled; ``p`` cannot be below 1 / (m +
        1).
    seed: of the shuffling. The same seed gives the same result.

    Raises
    ------
    InputError: not finite, different numbers of rows, fewer than 2 rows; no permutations; a seed
        that is none; a ``measure`` that gives something else than a finite number; or what it
        refuses.

    References
    ----------
    Davison & Hinkley 1997, Bootstrap methods and their application, section 4.3.

    >>> from crosslens.alignment.similarity.linear_cka import linear_cka
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 4))
    >>> baseline = permutation_baseline(linear_cka, x, x + 0.1 * rng.normal(size=(50, 4)), permutations=99)
    >>> baseline.p, bool(baseline.mean < baseline.high < 0.3 < baseline.value)
    (0.01, True)
    """
    x, y = check_paired(x, y, min_rows=2)
    permutations = check_positive_int(permutations, "permutations")
    rng = np.random.default_rng(check_seed(seed))
    value = _measured(measure, x, y)
    shuffled = np.array(
        [_measured(measure, x, y[rng.permutation(len(y))]) for _ in range(permutations)]
    )
    at_least = int((shuffled >= value).sum())
    return PermutationBaseline(
        value,
        float(shuffled.mean()),
        float(np.quantile(shuffled, 0.95)),
        (at_least + 1) / (permutations + 1),
        permutations,
    )


def _measured(
    measure: Callable[[np.ndarray, np.ndarray], float], x: np.ndarray, y: np.ndarray
) -> float:
    """A similarity that has an order among others: NaN would be beaten by no shuffled pairing."""
    given = measure(x, y)
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = np.nan
    if not np.isfinite(value):
        remedy = "give a measure that has a value for these items"
        refuse("measure", "a function that gives a finite number", quote(given), remedy)
    return value


def cka_intervals(
    found: Products, debiased: Float[np.ndarray, "m m"]
) -> Float[np.ndarray, "2 m m"]:
    """95 % intervals of the true CKA around its debiased estimates, from the sums of products of
    pairs of groups of items.

    To first order the estimate is off by the mean over pairs of items of ``g_ij = h_xy / sqrt(B C)
    - v/2 (h_xx / B + h_yy / C)`` (h the products of a pair, B and C each side's HSIC with itself, v
    the estimate). Its variance has two parts: ``4 ζ / n``, which comes from items, and ``2 ω /
    n²``, which comes from pairs and is all there is where two sides have nothing in common. Both
    are estimated from the means of groups and of pairs of groups. As the first grows with the true
    value θ, and both vanish where θ is 1, the interval holds all θ with ``(v - θ)² <= (z² 2 ω / n²
    + t² 4 ζ / n · θ / v) (1 - θ) / (1 - v)``, t with a degree of freedom less than groups.

    There is none for the biased value: it is off by about d / n from what it estimates, and no
    interval around it says by how much.

    Parameters
    ----------
    found: with G >= 5 groups. debiased: shape (M, M), debiased CKA of the same products.

    Returns
    -------
    shape (2, M, M): low and high; NaN for pairs without products, and where one group holds nine
    tenths of what a layer varies (an item far from all others): nothing is known then of how it
    would vary.

    Notes
    -----
    Simulated coverage (tests/alignment/similarity/test_interval_coverage.py): with n = 200 and
    2,000 items 93 to 98 %, from independent sides, whose interval ends at 0 on one side, to a true
    value of .98; with heavy-tailed rows (t with 5 degrees of freedom) of a spectrum of 1 / k, and
    with a weak relation of such a spectrum, 90 to 93 % at n = 200 and 94 to 96 % from n = 2,000. Of
    unrelated sides whose heavy-tailed lengths and such a spectrum are shared 88 to 92 %, at n =
    2,000 still: their eighth moments are infinite.
    With fewer than 30 items it is too narrow: at 8 and at 15 it covers 70 to 81 % of values between
    .5 and .95 of layers whose spectrum decays, at 30 some 90 %.

    References
    ----------
    Hoeffding 1948, A class of statistics with asymptotically normal distribution, section 5 (the
    variance); Song et al. 2012.

    >>> rows = np.random.default_rng(0).normal(size=(40, 3))
    >>> rows -= rows.mean(axis=0)
    >>> parts = rows.reshape(4, 10, 3).swapaxes(0, 1)
    >>> gram = np.einsum("gid,hjd->gihj", parts, parts)
    >>> cross = np.einsum("gihj,gihj->gh", gram, gram)[:, :, None, None]
    >>> cka_intervals(Products(cross, np.square(rows).sum(axis=1, keepdims=True)), np.ones((1, 1))).ravel()
    array([1., 1.])
    """
    from scipy.special import stdtrit

    n, groups = len(found.squares), len(found.cross)
    sizes = np.array([len(range(group, n, groups)) for group in range(groups)], dtype=float)
    squares = found.squares.sum(axis=0)
    total = found.cross.sum(axis=(0, 1))
    own = np.diag(hsic(n, total, squares, found.squares.T @ found.squares)[1]) / (n * (n - 3))
    scale = np.sqrt(own[:, None] * own)
    means = found.cross / (sizes[:, None] * sizes)[:, :, None, None]
    selves = np.einsum("ghii->ghi", means) / own
    effect = means / scale - debiased / 2 * (selves[..., :, None] + selves[..., None, :])
    items, pairs = _variance_parts(effect)
    pairs *= 2 / groups**2
    items *= 4 / groups
    # without what pairs put into the means of groups
    beside = np.maximum(items - 2 * groups / (groups - 2) * pairs, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = debiased > _Z * np.sqrt(pairs)
        # by the biased value, which is off alike
        slope = np.where(clear, beside / debiased, items * n**2 * scale / total)
    left_out = np.einsum("ghii->gi", found.cross) * 2 - np.einsum("ggii->gi", found.cross)
    # one group holds nearly all that varies
    alone = (np.diag(total) - left_out < 0.1 * np.diag(total)).any(axis=0)
    debiased = np.where(alone[:, None] | alone, np.nan, debiased)
    return _score_interval(debiased, _Z**2 * pairs, float(stdtrit(groups - 1, 0.975)) ** 2 * slope)


def _variance_parts(
    effect: Float[np.ndarray, "g g m m"],
) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
    """The variance of groups' own part of pairs' means, and of what is left in pairs; a group's
    pairs with itself are left out."""
    groups = len(effect)
    apart = effect * ~np.eye(groups, dtype=bool)[:, :, None, None]
    rows = apart.sum(axis=1) / (groups - 1)
    mean = rows.mean(axis=0)
    rows = (rows - mean) * (groups - 1) / (groups - 2)
    rest = apart - (rows[:, None] + rows + mean) * ~np.eye(groups, dtype=bool)[:, :, None, None]
    return rows.var(axis=0, ddof=1), np.square(rest).sum(axis=(0, 1)) / (groups * (groups - 3))


def _score_interval(
    value: Float[np.ndarray, "m m"],
    fixed: Float[np.ndarray, "m m"],
    slope: Float[np.ndarray, "m m"],
) -> Float[np.ndarray, "2 m m"]:
    """The ends of all θ with ``(value - θ)² <= (fixed + slope max(θ, 0)) (1 - θ) / (1 - value)``,
    by halving."""
    inside = value < 1

    def beyond(at: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            far: np.ndarray = np.square(value - at) * (1 - value) > (
                fixed + slope * np.maximum(at, 0)
            ) * (1 - at)
        return far

    centre = np.maximum(value, 0)
    ends = []
    for outer in (np.zeros_like(value), np.ones_like(value)):
        near, far = centre.copy(), outer
        for _ in range(60):
            middle = (near + far) / 2
            out = beyond(middle)
            near, far = np.where(out, near, middle), np.where(out, middle, far)
        ends.append((near + far) / 2)
    low, high = ends
    with np.errstate(divide="ignore", invalid="ignore"):
        below = value - np.sqrt(fixed / (1 - value))
    low = np.where((value <= 0) | ~beyond(np.zeros_like(value)), np.minimum(below, centre), low)
    bounds = np.where(inside, np.stack([low, high]), value)
    return np.where(np.isnan(value + fixed + slope), np.nan, bounds)
