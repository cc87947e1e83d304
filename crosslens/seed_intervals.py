"""Means over seeds with an interval that covers both: other seeds, and other test items.

Fine-tuning with another seed gives another model, and another test set would hold other items. An
interval over seeds alone says nothing of the items, and one over items nothing of the seeds. Here
both vary: every seed is measured on the same items, so seeds and items are crossed.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from crosslens.errors import refuse

__all__ = ["seeds_contrast", "seeds_difference", "seeds_share"]

_FEW = 10  # clusters with the rarer outcome, below which their variance cannot be estimated


def seeds_share(
    found: Float[np.ndarray, "s g"], of: Float[np.ndarray, "s g"]
) -> tuple[float, float, float]:
    """The mean over seeds of ``sum(found) / sum(of)``, and its 95 % interval over seeds and items.

    The variance is that of clusters plus that of seeds, less that of single answers, which both
    contain (Cameron, Gelbach & Miller 2011), and at least the larger of the two.
    Student's t is the mean of that of clusters and that of seeds, weighted by these variances (Cochran
    1964), and the interval has Wilson's form with as many independent items as have that variance, so
    that it stays between 0 and 1.

    Simulated with 2 to 10 seeds and 250 to 300 clusters, items that differ in how hard they are and
    seeds that are normal in logits, it holds the truth in 93 to 99 %. Of seeds that are of two kinds,
    some that learn and others that do not, three hold the mean of all in 62 to 90 %.

    Parameters
    ----------
    found: what counts for each seed and cluster of items (sentence, paragraph or document): right
        answers; for F1 twice the true positives. 0 to ``of``.
    of: what it is a share of: items; for F1 predicted plus gold. At least 1 in all per seed.

    Returns
    -------
    mean, low, high: each from 0 to 1. With one seed the interval is over items alone; with one
    cluster it is NaN.

    Raises
    ------
    InputError: shapes differ, numbers are not finite, or found is not between 0 and of.

    References
    ----------
    Cameron, Gelbach & Miller 2011, Robust inference with multiway clustering, equation 2.6.
    Cochran 1964, Approximate significance levels of the Behrens-Fisher test, Biometrics 20.

    >>> right = np.array([[1.0, 0.0, 1.0, 1.0] * 25, [1.0, 0.0, 0.0, 1.0] * 25])
    >>> mean, low, high = seeds_share(right, np.ones((2, 100)))
    >>> mean, low < 0.25, high > 0.75  # two seeds that differ so say little
    (0.625, True, True)
    """
    found, of = _check(found, of)
    if (found < 0).any() or (found > of).any():
        refuse("found", "from 0 to what it is a share of", "others", "count what was right")
    shares = found.sum(axis=1) / of.sum(axis=1)
    mean = float(shares.mean())
    if found.shape[1] < 2:
        return mean, math.nan, math.nan
    variance, t = _variance([(_residuals(found, of, shares), shares)])
    most = float(of.sum())  # as many as there were answers
    effective = min(most, mean * (1 - mean) / variance) if variance > 0 else most / len(found)
    if min(np.sum(found.sum(axis=0) > 0), np.sum((of - found).sum(axis=0) > 0)) < _FEW:
        sizes = of.mean(axis=0)  # Kish: clusters of equal size count as one item each
        effective = min(effective, float(sizes.sum() ** 2 / np.square(sizes).sum()))
    centre = mean + t**2 / (2 * effective)
    half = t * math.sqrt(mean * (1 - mean) / effective + t**2 / (4 * effective**2))
    low, high = ((centre + sign * half) / (1 + t**2 / effective) for sign in (-1, 1))
    return mean, 0.0 if mean == 0 else low, 1.0 if mean == 1 else high


def seeds_difference(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> tuple[float, float, float]:
    """The difference of two systems' means over seeds on the same clusters, first - second, and
    its 95 % interval over seeds and items.

    The clusters are the same, so that what makes one of them hard for both cancels; seeds are not
    paired: seed 0 of one system has nothing in common with seed 0 of another.

    Parameters
    ----------
    first, second: ``found`` and ``of`` of :func:`seeds_share`, shape (seeds, g) each; numbers of
        seeds may differ, the g clusters are the same, in the same order.

    Returns
    -------
    difference, low, high: each from -1 to 1.

    >>> easy, hard = np.tile([1.0, 1.0, 1.0, 0.0], (3, 50)), np.tile([1.0, 0.0, 1.0, 0.0], (3, 50))
    >>> difference, low, high = seeds_difference((easy, np.ones((3, 200))), (hard, np.ones((3, 200))))
    >>> difference, low > 0.1
    (0.25, True)
    """
    return seeds_contrast([(1.0, *first)], [(-1.0, *second)])


def seeds_contrast(
    *sides: Sequence[tuple[float, np.ndarray, np.ndarray]],
) -> tuple[float, float, float]:
    """A sum of shares with weights, each a mean over seeds on the same clusters, and its 95 % interval
    over seeds and items.

    Parameters
    ----------
    sides: of each independent system (weight, ``found``, ``of``) of what was measured of it, shapes
        (seeds, g) as of :func:`seeds_share`. Within a side seeds are the same trainings: what one of
        them has in all of its measurements cancels. Sides may differ in their number of seeds; the g
        clusters are the same.

    Returns
    -------
    value, low, high: from minus the sum of the negative weights' sizes to that of the positive ones.
        With one cluster low and high are NaN. Where neither seeds nor clusters differ, they follow
        from the intervals of the shares (Newcombe 1998, method 10), so that they have a width.

    Notes
    -----
    Simulated with 2 to 10 trainings, whose shares go together within a side, on 250 to 2,500 items that
    differ in how hard they are: a difference within a side is covered in 92 to 99 % (in 88 to 90 where
    trainings differ widely, and by the same in both measurements), the difference of two such in 94 to
    99 %, and twice one condition less two others, which is how one difference is above another, in 93
    to 99 %. Where nearly all items are right on one side and nearly none on the other, fewer than ten
    the other way on each, three seeds cover their difference in 91 to 94 %.

    >>> zero_shot, taught = np.tile([1.0, 0.0], (3, 50)), np.tile([1.0, 1.0], (3, 50))
    >>> seeds_contrast([(1.0, zero_shot, np.ones((3, 100))), (-1.0, taught, np.ones((3, 100)))])[0]
    -0.5
    """
    moved, low, high = list[tuple[np.ndarray, np.ndarray]](), 0.0, 0.0
    for side in sides:
        rows, shares = [], []
        for weight, *counts in side:
            found, of = _check(*counts)
            share = found.sum(axis=1) / of.sum(axis=1)
            rows.append(weight * _residuals(found, of, share))
            shares.append(weight * share)
            low, high = low + min(weight, 0.0), high + max(weight, 0.0)
        moved.append((np.sum(rows, axis=0), np.sum(shares, axis=0)))
    sizes = {rows.shape[1] for rows, _ in moved}
    if len(sizes) > 1:
        told = " and ".join(str(rows.shape[1]) for rows, _ in moved)
        refuse("second", "the clusters of first", told, "measure both on the same items")
    value = float(sum(shares.mean() for _, shares in moved))
    if min(sizes) < 2:
        return value, math.nan, math.nan
    variance, t = _variance(moved)
    if variance <= 0:
        return value, *_ends_of_shares(sides, value)
    half = t * math.sqrt(variance)
    return value, max(low, value - half), min(high, value + half)


def _ends_of_shares(
    sides: Sequence[Sequence[tuple[float, np.ndarray, np.ndarray]]], value: float
) -> tuple[float, float]:
    """The interval of a contrast whose shares are all without variance, from those of the shares."""
    down = up = 0.0
    for weight, found, of in (one for side in sides for one in side):
        mean, low, high = seeds_share(found, of)
        below, above = weight * (mean - low), weight * (high - mean)
        down += (below if weight > 0 else above) ** 2
        up += (above if weight > 0 else below) ** 2
    return value - math.sqrt(down), value + math.sqrt(up)


def _residuals(found: np.ndarray, of: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(s, g) how far each cluster moves each seed's ratio (its linear approximation), times g."""
    residuals: np.ndarray = (found - shares[:, None] * of) / of.mean(axis=1, keepdims=True)
    return residuals


def _variance(sides: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """The variance of a sum of means over seeds, over clusters and over each side's seeds, less what
    both have counted; and Student's t for its interval. That of few seeds is large, and they may look
    alike by chance: the degrees of freedom of the sum (Satterthwaite 1946) would then be those of the
    many clusters, and the interval too narrow."""
    g = sides[0][0].shape[1]
    clusters = float(np.square(sum(rows.mean(axis=0) for rows, _ in sides)).sum()) / (g * (g - 1))
    parts, twice = list[tuple[float, int]](), 0.0
    for rows, shares in sides:
        if (n := len(shares)) > 1:
            parts.append((float(shares.var(ddof=1)) / n, n - 1))
            inner = float(np.square(rows - rows.mean(axis=0)).sum()) / ((n - 1) * (g - 1))
            twice += inner / (n * g)
    seeds = sum(part for part, _ in parts)
    variance = max(clusters + seeds - twice, clusters, *(part for part, _ in parts), 0.0)
    t = _student(float(g - 1))
    if seeds > 0:
        # of several sides' seeds as Welch has it
        degrees = seeds**2 / sum(part**2 / freedom for part, freedom in parts)
        t = (clusters * t + seeds * _student(degrees)) / (clusters + seeds)
    return variance, t


def _student(degrees: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))


def _check(found: np.ndarray, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found, of = np.asarray(found, np.float64), np.asarray(of, np.float64)
    if found.ndim != 2 or found.shape != of.shape:
        told = f"{found.shape} and {of.shape}"
        refuse("found", "one number per seed and cluster, as of", told, "give both as (s, g)")
    if not (np.isfinite(found).all() and np.isfinite(of).all()):
        refuse("found", "finite numbers", "others", "leave out what was not measured")
    if not found.size or (of.sum(axis=1) <= 0).any():
        refuse("of", "something to count for every seed", "nothing", "leave out empty test sets")
    return found, of
