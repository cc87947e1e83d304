"""Intervals: from outcomes per item to what the number could have been.

All functions are exact or seeded; none looks at the clock or at global random state.
"""

import math

import numpy as np

from crosslens.checks import check_positive_int
from crosslens.errors import refuse

__all__ = [
    "cluster_sums",
    "difference_interval",
    "effective_interval",
    "jackknife_error",
    "jackknife_interval",
    "mean_interval",
    "paired_interval",
    "pearson_interval",
    "share_interval",
    "spearman_difference",
    "spearman_interval",
    "wilson_interval",
]

_Z = 1.959963984540054  # the normal distribution's 97.5 % point
# clusters with the rarer outcome; below this how much the clusters differ cannot be estimated
_FEW = 10
_ROUNDING = 1e-14  # by which a correlation of 1 may be less


def wilson_interval(successes: int | float, n: int) -> tuple[float, float]:
    """95 % interval of a proportion (Wilson 1927, equation 4).

    It never leaves [0, 1] and is sensible at 0 and at n successes, where the normal approximation
    has width zero. Its exact coverage is between 93 and 97 % at n = 200 and 2,000 where ten
    successes and ten failures are expected, and between 91.5 and 98.5 % where one is.

    >>> low, high = wilson_interval(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    n = check_positive_int(n, "n")
    if not 0 <= successes <= n:
        remedy = "count items, not fractions"
        refuse("successes", f"a number from 0 to n = {n}", repr(successes), remedy)
    share = successes / n
    centre = share + _Z**2 / (2 * n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    low, high = ((centre + sign * half) / (1 + _Z**2 / n) for sign in (-1, 1))
    # there exactly, but for rounding
    return 0.0 if successes == 0 else low, 1.0 if successes == n else high


def paired_interval(
    first: np.ndarray, second: np.ndarray, groups: np.ndarray | None = None
) -> tuple[float, float, float]:
    """Difference of two proportions on the same items, first - second, and its 95 % interval
    (Agresti & Min 2005, "Wald+2").

    With b items that only the first got right, c that only the second did, and n in all, half an
    item is added to each of the four cells of the table: ``(b - c) / (n + 2) ± z sqrt(b + c + 1 -
    (b - c)^2 / (n + 2)) / (n + 2)``. The difference that is returned is the plain one, (b - c) / n.
    Simulated coverage is between 92.5 and 97 % at n = 200 and 2,000 where b + c is expected to be
    10 or more; where it is less, higher.

    Parameters
    ----------
    first, second: shape (n,), True where an item was right.
    groups: shape (n,), which items stand and fall together, words of a sentence say: the interval
        is then that of :func:`difference_interval`, and of a single group from -1 to 1. Without it,
        or where each item is a group, items are independent.

    Returns
    -------
    difference, low, high: each from -1 to 1.

    >>> first, second = np.arange(100) < 60, np.arange(100) < 40
    >>> tuple(round(x, 3) for x in paired_interval(first, second))
    (0.2, 0.117, 0.275)
    """
    if len(first) != len(second) or len(first) == 0:
        expected = f"{len(first)} outcomes, of the same items, and at least one"
        refuse("second", expected, str(len(second)), "give one outcome per item to each")
    if groups is not None:
        balance, of = cluster_sums(first.astype(np.int64) - second, groups)
        if len(of) < len(first):
            return (
                difference_interval(balance, of)
                if len(of) > 1
                else (float(balance[0]) / len(first), -1.0, 1.0)
            )
    only_first, only_second = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    n, more, either = len(first), only_first - only_second, only_first + only_second
    half = _Z * math.sqrt(either + 1 - more**2 / (n + 2)) / (n + 2)
    centre = more / (n + 2)
    return more / n, max(-1.0, centre - half), min(1.0, centre + half)


def share_interval(found: np.ndarray, of: np.ndarray) -> tuple[float, float, float]:
    """Share of items over clusters whose items stand and fall together, and its 95 % interval.

    Words of a sentence, questions of a paragraph and outcomes of one sentence in several directions
    are not independent. The variance of the share ``p = sum(found) / sum(of)`` is that of a ratio
    over g clusters, ``g / (g - 1) sum((found - p of)^2) / sum(of)^2``; the interval is Wilson's for
    as many independent items as have that variance, ``p (1 - p) / variance``, with Student's t of g
    - 1 degrees of freedom (Kott & Carr 1997; Korn & Graubard 1998 for the effective sample size).
    Where fewer than ten clusters hold the rarer outcome that variance cannot be estimated, and no
    cluster counts for more than one item.

    Simulated coverage is between 93 and 97 % from 200 clusters of similar size on, however large;
    where the rarer outcome is in fewer than ten clusters, or with 30 clusters, up to 100 %. Where
    few clusters hold most of the items it is less: 92 to 97 % for geometric sizes, 86 to 96 % for
    lognormal ones (sigma 1.5), 81 to 93 % for Pareto's (exponent 1.2), and 16 to 30 % where one of
    30 clusters has 500 items and each other one 5.

    Parameters
    ----------
    found: shape (g,), how much was right in each cluster, from 0 to ``of``. of: shape (g,), items
        in each; g >= 2.

    Returns
    -------
    share, low, high: each from 0 to 1.

    >>> share, low, high = share_interval(np.array([4, 0] * 20), np.full(40, 4))
    >>> share, round(low, 2), round(high, 2)  # as wide as for 40 items, not for 160
    (0.5, 0.35, 0.65)
    """
    found, of = _check_clusters(found, of, "found")
    if (found < 0).any() or (found > of).any():
        expected = "from 0 to the number of items of each cluster"
        refuse("found", expected, "others", "count the items that were right")
    g, n = len(of), float(of.sum())
    share = float(found.sum()) / n
    variance = g / (g - 1) * float(np.square(found - share * of).sum()) / n**2
    rarer = int(min(np.sum(found > 0), np.sum(found < of)))
    return share, *effective_interval(share, variance, n, of, rarer)


def effective_interval(
    share: float, variance: float, n: float, weights: np.ndarray, rarer: int
) -> tuple[float, float]:
    """95 % interval of a share, or of another score from 0 to 1, whose variance was estimated over
    clusters: Wilson's for as many independent items as have that variance.

    Parameters
    ----------
    share: from 0 to 1. variance: its estimate. n: how many items there are: the effective number is
        no larger.
    weights: shape (g,), g >= 2, of each cluster in the share. rarer: how many clusters hold the
        rarer outcome; of fewer than ten the variance cannot be estimated, and the effective number
        is no larger than Kish's, ``sum(weights)^2 / sum(weights^2)``.

    >>> low, high = effective_interval(1.0, 0.0, 160, np.full(40, 4), 0)
    >>> round(low, 2), high  # as wide as for 40 items
    (0.91, 1.0)
    """
    from scipy.special import stdtrit

    effective = min(n, share * (1 - share) / variance) if variance > 0 else n
    if rarer < _FEW:
        # clusters of equal weight count as one item each
        effective = min(effective, float(np.sum(weights)) ** 2 / float(np.square(weights).sum()))
    t = float(stdtrit(len(weights) - 1, 0.975))
    centre = share + t**2 / (2 * effective)
    half = t * math.sqrt(share * (1 - share) / effective + t**2 / (4 * effective**2))
    low, high = ((centre + sign * half) / (1 + t**2 / effective) for sign in (-1, 1))
    return 0.0 if share == 0 else low, 1.0 if share == 1 else high


def difference_interval(more: np.ndarray, of: np.ndarray) -> tuple[float, float, float]:
    """Difference of two shares on the same clusters of items, first - second, and its 95 %
    interval.

    :func:`paired_interval` for items that stand and fall together: the variance of ``sum(more) /
    sum(of)`` is that of a ratio over g clusters, half an item is added to each cell of the table of
    outcomes (Agresti & Min 2005), and Student's t has g - 1 degrees of freedom. The difference that
    is returned is the plain one.

    Simulated coverage is between 93 and 97 % from 200 clusters of similar size and 10 items on
    which the two differ; with fewer such items it is higher. Where few clusters hold most of the
    items it is less: 87 to 91 % for lognormal sizes (sigma 1.5), 79 to 86 % for Pareto's (exponent
    1.2), and 19 % where one of 30 clusters has 500 items and each other one 5.

    Parameters
    ----------
    more: shape (g,), items of each cluster that the first got right minus those that the second did
        (means over repetitions need not be whole), from -of to of. of: shape (g,), items in each; g
        >= 2.

    Returns
    -------
    difference, low, high: each from -1 to 1.

    >>> difference, low, high = difference_interval(np.array([4, 0, 0, -2] * 10), np.full(40, 4))
    >>> difference, low < 0 < high
    (0.125, True)
    """
    more, of = _check_clusters(more, of, "more")
    if (np.abs(more) > of).any():
        expected = "from minus to plus the number of items of each cluster"
        refuse("more", expected, "others", "count the items that differ")
    from scipy.special import stdtrit

    g, n = len(of), float(of.sum())
    centre = float(more.sum()) / (n + 2)
    squares = g / (g - 1) * float(np.square(more - centre * of).sum()) + 1
    half = float(stdtrit(g - 1, 0.975)) * math.sqrt(squares) / (n + 2)
    return float(more.sum()) / n, max(-1.0, centre - half), min(1.0, centre + half)


def cluster_sums(values: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the values of each group of items, and how many items it has; groups in sorted
    order.

    Parameters
    ----------
    values: shape (n,), one per item. groups: shape (n,), the group of each.

    Returns
    -------
    shape (g,) each.

    >>> cluster_sums(np.array([1, 0, 1, 1]), np.array(["a", "a", "b", "a"]))
    (array([2., 1.]), array([3, 1]))
    """
    if np.shape(values) != np.shape(groups) or np.ndim(groups) != 1:
        expected = f"a group for each of {np.size(values)} items"
        refuse("groups", expected, f"shape {np.shape(groups)}", "name the group of every item")
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    return np.bincount(codes, weights=np.asarray(values, np.float64)), np.bincount(codes)


def _check_clusters(values: np.ndarray, of: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    values, of = np.asarray(values, np.float64), np.asarray(of, np.float64)
    if values.ndim != 1 or values.shape != of.shape or len(of) < 2:
        got = f"shapes {values.shape} and {of.shape}"
        refuse(name, "a number for each of 2 or more clusters", got, "give one number per cluster")
    if not (np.isfinite(values).all() and np.isfinite(of).all() and (of > 0).all()):
        refuse(
            name, "finite numbers, and clusters with items", "others", "leave out empty clusters"
        )
    return values, of


def mean_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and its 95 % interval by Student's t with n - 1 degrees of freedom.

    Parameters
    ----------
    values: shape (n,), n >= 2, one per item.

    >>> tuple(round(x, 2) for x in mean_interval(np.array([1.0, 2.0, 3.0])))
    (2.0, -0.48, 4.48)
    """
    n = len(values)
    if n < 2:
        refuse("values", "at least 2 values", str(n), "measure more items")
    from scipy.special import stdtrit

    mean = float(np.mean(values))
    half = float(stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(n))
    return mean, mean - half, mean + half


def jackknife_interval(value: float, left_out: np.ndarray) -> tuple[float, float]:
    """95 % interval from the values that result when each of g groups of items is left out.

    The delete-a-group jackknife: standard error
    ``sqrt((g - 1) / g * sum((left_out - mean(left_out)) ** 2))`` (Efron & Stein 1981),
    interval of Student's t with g - 1 degrees of freedom around ``value``.

    Parameters
    ----------
    value: the statistic on all items.
    left_out: shape (g,), g >= 2, the statistic without group i.

    >>> low, high = jackknife_interval(2.0, np.array([1.5, 2.0, 2.5]))
    >>> round(low, 2), round(high, 2)
    (-0.48, 4.48)
    """
    g = len(left_out)
    if g < 2:
        refuse("left_out", "at least 2 values", str(g), "leave out at least two groups in turn")
    from scipy.special import stdtrit  # here, so that a page can be drawn without scipy

    half = float(stdtrit(g - 1, 0.975)) * jackknife_error(left_out)
    return value - half, value + half


def jackknife_error(left_out: np.ndarray) -> float:
    """Standard error of :func:`jackknife_interval`.

    >>> round(jackknife_error(np.array([1.5, 2.0, 2.5])), 2)
    0.58
    """
    g = len(left_out)
    return math.sqrt((g - 1) / g * float(np.square(left_out - np.mean(left_out)).sum()))


def pearson_interval(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Pearson's correlation of paired numbers, from -1 to 1, and its 95 % interval (Fisher 1915,
    the z transformation).

    The interval takes the pairs to be independent, and the numbers to be jointly normal: simulated
    coverage is then 94 to 96 % from 13 pairs on. With tails as heavy as Student's t with 3 degrees
    of freedom it is 48 to 83 %: rank the numbers first (:func:`spearman_interval`).

    Raises
    ------
    InputError: fewer than 4 pairs, different lengths, or numbers that do not vary or are not
        finite.

    >>> r, low, high = pearson_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([1.0, 3.0, 2.0, 5.0, 4.0]))
    >>> round(r, 3), round(low, 3), round(high, 3)
    (0.8, -0.28, 0.986)
    """
    # squares of very large or small numbers would be infinite or 0
    x, y = (np.ldexp(v, -int(np.frexp(np.abs(v).max())[1])) for v in _check_pairs(x, y))
    r = max(-1.0, min(1.0, float(np.corrcoef(x, y)[0, 1])))  # rounding may go one bit beyond
    if abs(r) == 1:
        return r, r, r
    half = _Z / math.sqrt(len(x) - 3)
    return r, math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def spearman_interval(
    x: np.ndarray, y: np.ndarray, clusters: np.ndarray | None = None
) -> tuple[float, float, float]:
    """Spearman's correlation of paired numbers, from -1 to 1, and its 95 % interval.

    The standard error is that of the infinitesimal jackknife (Jaeckel 1972; Efron 1982, chapter 6):
    what a little more weight on each pair does to Pearson's correlation of the midranks. It is
    taken on Fisher's z scale, with Student's t. Unlike formulas in r and n alone it needs no normal
    distribution and knows of ties: simulated coverage is 93 to 97 % at n = 30, 200 and 2,000 for
    normal, skewed, heavy-tailed and tied numbers (with two different numbers on one side 92 % at n
    = 30). Where all pairs stand in one order (r of 1 or -1) there is no error to be seen: the
    interval is then that of the smallest departure, two neighbours exchanged, and reaches to r.
    With fewer than 12 pairs it is far too wide near 1 and -1: at n = 8 eight pairs in one order have
    [-.14, 1], and where the true correlation is .9 the interval holds 0 in 60 % of the samples (8 %
    at n = 12). Bonett & Wright's formula is narrower there, but covers ranks with many ties in as
    little as 80 %.

    Parameters
    ----------
    x, y: shape (n,), n >= 4.
    clusters: shape (n,), a label per pair; pairs of one cluster (words of one sentence, say) are
        not taken to be independent, and n is the number of clusters. Each pair is its own without
        it.

    Raises
    ------
    InputError: fewer than 4 pairs or clusters, different lengths, or numbers that do not vary or
        are not finite.

    >>> r, low, high = spearman_interval(np.arange(40.0), np.arange(40.0) + 9 * np.sin(np.arange(40)))
    >>> round(r, 2), round(low, 2), round(high, 2)
    (0.87, 0.81, 0.92)
    """
    r, near, each = _departing_correlation(x, y, clusters)
    ends = _fisher_ends(near, each) if 1 - abs(near) >= _ROUNDING else (near, near)
    return r, min(r, *ends), max(r, *ends)


def _departing_correlation(
    x: np.ndarray, y: np.ndarray, clusters: np.ndarray | None
) -> tuple[float, float, np.ndarray]:
    """Spearman's correlation; the same where there is an error to be seen, else that of the
    smallest departure; and per cluster what a little more weight on it does to the latter."""
    r, each = _rank_correlation(x, y, clusters)
    if 1 - abs(r) >= _ROUNDING:
        return r, r, each
    return math.copysign(1.0, r), *_rank_correlation(x, _one_swap(x, y), clusters)


def _fisher_ends(r: float, each: np.ndarray) -> tuple[float, float]:
    """The interval of a correlation from what a little more weight on each pair does to it."""
    from scipy.special import stdtrit

    g = len(each)
    half = float(stdtrit(g - 1, 0.975)) * math.sqrt(float(each @ each) / (g * (g - 1))) / (1 - r**2)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def _one_swap(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``y``, whose order is that of x throughout, or the opposite one, with two neighbours in it
    exchanged: those in the middle. Where there are no ties any two give the same interval."""
    x, swapped = np.asarray(x), np.array(y)
    order = np.argsort(x, kind="stable")
    steps = np.flatnonzero(np.diff(x[order]))
    step = steps[len(steps) // 2]
    pair = order[[step, step + 1]]
    swapped[pair] = swapped[pair[::-1]]
    return swapped


def spearman_difference(
    first: np.ndarray, second: np.ndarray, y: np.ndarray, clusters: np.ndarray | None = None
) -> tuple[float, float, float, float]:
    """Difference of two Spearman correlations with the same numbers, first - second, its 95 %
    interval, and p of no difference.

    The standard error is that of the infinitesimal jackknife, as in :func:`spearman_interval`, of
    both correlations on the same pairs; interval and p-value are Student's t. Simulated coverage is
    94 to 96.5 % at n = 30, 200 and 2,000, with and without ties. A correlation of 1 or -1 has the
    error of two neighbours exchanged, as there, and the two errors are then taken to be
    independent.

    Parameters
    ----------
    first, second: shape (n,), two answers to each item. y: shape (n,), what both are compared with.
    clusters: as for :func:`spearman_interval`.

    Returns
    -------
    difference, low, high: each from -2 to 2. p: two-sided; 1 where no pair speaks for either.

    Raises
    ------
    InputError: as :func:`spearman_interval`.

    >>> y = np.arange(60.0)
    >>> difference, low, high, p = spearman_difference(y + 9 * np.sin(y), y + 40 * np.sin(y), y)
    >>> round(difference, 2), low > 0, p < 0.05
    (0.44, True, True)
    """
    from scipy.special import stdtr, stdtrit

    (r, near, one), (s, close, other) = (
        _departing_correlation(x, y, clusters) for x in (first, second)
    )
    g, squares = len(one), float((one - other) @ (one - other))
    if (near, close) != (r, s):
        # what was exchanged says nothing of how the two vary together
        squares = float(one @ one + other @ other)
    error = math.sqrt(squares / (g * (g - 1)))
    if error == 0:
        return r - s, r - s, r - s, 1.0 if r == s else 0.0
    half = float(stdtrit(g - 1, 0.975)) * error
    p = 2 * float(stdtr(g - 1, -abs(r - s) / error))
    return r - s, max(-2.0, r - s - half), min(2.0, r - s + half), p


def _rank_correlation(
    x: np.ndarray, y: np.ndarray, clusters: np.ndarray | None
) -> tuple[float, np.ndarray]:
    """Pearson's correlation of midranks, and per cluster what a little more weight on it does to
    the correlation."""
    from scipy.stats import rankdata

    x, y = _check_pairs(x, y)
    n = len(x)
    a, b = ((rankdata(values) - (n + 1) / 2) / n for values in (x, y))
    product = float((a * b).mean())
    squares_a = float((a * a).mean())
    squares_b = float((b * b).mean())
    size = math.sqrt(squares_a * squares_b)
    r = max(-1.0, min(1.0, product / size))  # rounding may go one bit beyond
    above_a, above_b = (_mean_above(values, np.stack([a, b])) for values in (x, y))
    influence = [a * b + above_a[1] + above_b[0], a * a + 2 * above_a[0], b * b + 2 * above_b[1]]
    products, of_a, of_b = (values - values.mean() for values in influence)
    each = products / size - r / 2 * (of_a / squares_a + of_b / squares_b)
    if clusters is not None:
        if np.shape(clusters) != (n,):
            expected = f"a label for each of {n} pairs"
            refuse("clusters", expected, f"shape {np.shape(clusters)}", "name every pair's cluster")
        of = np.unique(clusters, return_inverse=True)[1]
        each = np.bincount(of, each) * (int(of.max()) + 1) / n
    if len(each) < 4:
        refuse("clusters", "4 or more clusters", str(len(each)), "give pairs of more clusters")
    return r, each


def _mean_above(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Per row of values and item: the sum over items with a higher key, and half of those with the
    same, divided by n."""
    order = np.argsort(keys, kind="stable")
    ends = [np.searchsorted(keys[order], keys, side) for side in ("left", "right")]
    sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values[:, order], axis=1)], axis=1)
    left, right = (sums[:, end] for end in ends)
    return (sums[:, -1:] - (left + right) / 2) / len(keys)


def _check_pairs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.ndim != 1 or x.shape != y.shape or len(x) < 4:
        got = f"shapes {x.shape} and {y.shape}"
        refuse("x, y", "4 or more pairs of numbers", got, "give more pairs")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        refuse("x, y", "finite numbers", "others", "leave out pairs that could not be measured")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        remedy = "a correlation with a constant is not defined"
        refuse("x, y", "numbers that vary", "equal ones", remedy)
    return x, y
