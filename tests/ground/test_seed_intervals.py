"""Means over seeds: the interval is a plain one where there is one seed or one item a group, and
covers what it says where both vary."""

import math

import numpy as np
import pytest
from scipy.stats import t as student

from crosslens.errors import InputError
from crosslens.seed_intervals import seeds_contrast, seeds_difference, seeds_share


def sampled(rng, seeds, groups, mean, seed_spread, group_spread, size=4):
    """Right answers of a model trained with each seed, on groups of some items each."""
    level = math.log(mean / (1 - mean))
    of_seed = rng.normal(0, seed_spread, (seeds, 1, 1))
    of_group = rng.normal(0, group_spread, (1, groups, 1))
    p = 1 / (1 + np.exp(-(level + of_seed + of_group + np.zeros((1, 1, size)))))
    return (rng.random(p.shape) < p).sum(-1).astype(float), np.full((seeds, groups), float(size))


def truth(mean, seed_spread, group_spread):
    rng = np.random.default_rng(1)
    level = math.log(mean / (1 - mean)) + rng.normal(
        0, math.hypot(seed_spread, group_spread), 200_000
    )
    return float((1 / (1 + np.exp(-level))).mean())


@pytest.mark.parametrize(
    ("seeds", "groups", "mean", "seed_spread", "group_spread"),
    [
        (2, 300, 0.7, 0.3, 1.0),
        (3, 100, 0.7, 0.0, 1.0),
        (5, 200, 0.9, 0.2, 1.0),
        (3, 200, 0.5, 0.3, 0.5),
        (1, 200, 0.6, 0.0, 1.0),
    ],
)
def test_the_interval_covers_other_seeds_and_other_items(
    seeds, groups, mean, seed_spread, group_spread
):
    rng, hits, runs = np.random.default_rng(0), 0, 400
    true = truth(mean, seed_spread, group_spread)
    for _ in range(runs):
        _, low, high = seeds_share(*sampled(rng, seeds, groups, mean, seed_spread, group_spread))
        hits += low <= true <= high
    assert 0.91 <= hits / runs <= 0.995  # two standard errors of 400 runs are 2 points


def test_differences_cover_nothing_where_there_is_none():
    rng, hits = np.random.default_rng(0), 0
    for _ in range(300):
        first, of = sampled(rng, 6, 100, 0.7, 0.2, 1.0)
        _, low, high = seeds_difference((first[:3], of[:3]), (first[3:], of[3:]))
        hits += low <= 0 <= high
    assert 0.90 <= hits / 300 <= 1.0


def paired(rng, seeds, groups, means, seed_spread):
    """Measurements of the same trainings, on items that are as hard in all of them."""
    of_seed, of_group = rng.normal(0, seed_spread, (seeds, 1)), rng.normal(0, 1, (1, groups))
    of = np.ones((seeds, groups))
    p = [1 / (1 + np.exp(-(math.log(m / (1 - m)) + of_seed + of_group))) for m in means]
    return [((rng.random((seeds, groups)) < one).astype(float), of) for one in p]


def test_what_trainings_have_in_common_cancels_within_a_side_alone():
    """Two measurements of three trainings that differ widely, and the same of three others."""
    rng, hits, widths, runs = np.random.default_rng(0), np.zeros(2), [], 300
    alike = truth(0.6, 1.0, 1.0) - truth(0.8, 1.0, 1.0)
    for _ in range(runs):
        (zero, taught), (zero2, taught2) = (paired(rng, 3, 200, (0.6, 0.8), 1.0) for _ in range(2))
        _, low, high = seeds_contrast([(1.0, *zero), (-1.0, *taught)])
        _, apart_low, apart_high = seeds_difference(zero, taught)  # as if of different trainings
        widths.append((apart_high - apart_low) / (high - low))
        sides = [(1.0, *zero), (-1.0, *taught)], [(-1.0, *zero2), (1.0, *taught2)]
        _, low2, high2 = seeds_contrast(*sides)
        hits += [low <= alike <= high, low2 <= 0 <= high2]
    assert (hits / runs > 0.89).all() and np.median(widths) > 1.5


def test_a_difference_of_what_never_varies_has_the_width_of_its_shares():
    of, none = np.ones((3, 40)), np.zeros((3, 40))
    above = seeds_share(none, of)[2]
    value, low, high = seeds_difference((none, of), (none, of))
    assert value == 0 and (low, high) == pytest.approx((-above, above)) and above > 0.05
    value, low, high = seeds_difference((none, of), (of, of))
    assert value == low == -1 and high == pytest.approx(-1 + math.sqrt(2) * above)


def test_a_contrast_is_the_sum_of_its_shares():
    rng = np.random.default_rng(0)
    (a, b), (c, d) = (paired(rng, 2, 30, (0.6, 0.8), 0.5) for _ in range(2))
    value, low, high = seeds_contrast([(1.0, *a), (-1.0, *b)], [(-1.0, *c), (1.0, *d)])
    shares = [(found.sum(axis=1) / of.sum(axis=1)).mean() for found, of in (a, b, c, d)]
    assert value == pytest.approx(shares[0] - shares[1] - shares[2] + shares[3])
    assert -2 <= low < value < high <= 2
    assert seeds_contrast([(1.0, *a)], [(-1.0, *c)]) == seeds_difference(a, c)


def test_the_mean_is_that_of_the_seeds():
    found, of = np.array([[1.0, 2.0], [0.0, 2.0]]), np.array([[2.0, 2.0], [2.0, 2.0]])
    assert seeds_share(found, of)[0] == pytest.approx((0.75 + 0.5) / 2)
    assert seeds_difference((found, of), (found, of))[0] == 0.0


def test_ends_stay_between_0_and_1_and_are_closed_there():
    of = np.ones((3, 40))
    assert seeds_share(np.zeros((3, 40)), of)[:2] == (0.0, 0.0)
    assert seeds_share(of, of)[2] == 1.0
    assert 0 < seeds_share(np.zeros((3, 40)), of)[2] < 0.2


def test_several_seeds_of_one_model_are_no_new_items():
    rng = np.random.default_rng(0)
    one = (rng.random((1, 100)) < 0.5).astype(float)
    of = np.ones((1, 100))
    _, low, high = seeds_share(one, of)
    _, low3, high3 = seeds_share(np.repeat(one, 3, 0), np.repeat(of, 3, 0))
    assert high3 - low3 == pytest.approx(high - low, rel=0.1)


def test_one_group_has_no_interval():
    mean, low, high = seeds_share(np.array([[1.0]]), np.array([[2.0]]))
    assert mean == 0.5 and math.isnan(low) and math.isnan(high)


@pytest.mark.parametrize(
    ("found", "of", "match"),
    [
        (np.full((1, 2), 2.0), np.ones((1, 2)), "found: expected from 0"),
        (np.full((1, 2), np.nan), np.ones((1, 2)), "found: expected finite"),
        (np.zeros((1, 2)), np.zeros((1, 2)), "of: expected something"),
    ],
)
def test_what_is_no_count_is_refused(found, of, match):
    with pytest.raises(InputError, match=match):
        seeds_share(found, of)


def test_other_clusters_are_refused():
    with pytest.raises(InputError, match="second: expected the clusters of first"):
        seeds_difference((np.ones((2, 3)), np.ones((2, 3))), (np.ones((2, 4)), np.ones((2, 4))))


def by_hand(*sides):
    """Variance of a contrast, cluster by cluster and seed by seed, and Student's t: that of clusters and
    that of seeds (Welch's), weighted by their variances."""
    g = len(sides[0][0][1][0])
    clusters, parts, twice = [0.0] * g, [], 0.0
    for side in sides:
        seeds = len(side[0][1])
        moves = [[0.0] * g for _ in range(seeds)]
        shares = [0.0] * seeds
        for weight, found, of in side:
            for k in range(seeds):
                share = sum(found[k]) / sum(of[k])
                shares[k] += weight * share
                for j in range(g):
                    moves[k][j] += weight * (found[k][j] - share * of[k][j]) * g / sum(of[k])
        means = [sum(row[j] for row in moves) / seeds for j in range(g)]
        clusters = [a + b for a, b in zip(clusters, means, strict=True)]
        if seeds > 1:
            parts.append((np.var(shares, ddof=1) / seeds, seeds - 1))
            single = sum((row[j] - means[j]) ** 2 for row in moves for j in range(g))
            twice += single / ((seeds - 1) * (g - 1)) / (seeds * g)
    items = sum(one**2 for one in clusters) / (g * (g - 1))
    seeds = sum(part for part, _ in parts)
    variance = max(items + seeds - twice, items, *(part for part, _ in parts))
    t = items * student.ppf(0.975, g - 1)
    if seeds:
        welch = seeds**2 / sum(part**2 / freedom for part, freedom in parts)
        t += seeds * student.ppf(0.975, welch)
    return variance, t / (items + seeds)


def drawn(rng, seeds, groups, spread):
    """What is right of 1 to 4 that each seed has in each group, as F1 counts it."""
    of = rng.integers(1, 5, (seeds, groups)).astype(float)
    p = np.clip(rng.normal(0.6, spread, (seeds, 1)) + rng.normal(0, 0.2, (1, groups)), 0.05, 0.95)
    return rng.binomial(of.astype(int), p).astype(float), of


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.1, 0.3])
def test_ends_are_those_of_the_formulas(spread):
    """Where seeds differ little, the clusters' variance is the least; where much, the seeds'."""
    rng = np.random.default_rng(0)
    for seeds, groups in ((2, 40), (3, 60), (5, 100)):
        found, of = drawn(rng, seeds, groups, spread)
        variance, t = by_hand([(1.0, found, of)])
        mean = (found.sum(1) / of.sum(1)).mean()
        n = min(mean * (1 - mean) / variance, of.sum())
        half = t * math.sqrt(mean * (1 - mean) / n + (t / (2 * n)) ** 2) / (1 + t**2 / n)
        centre = (mean + t**2 / (2 * n)) / (1 + t**2 / n)
        assert seeds_share(found, of) == pytest.approx((mean, centre - half, centre + half))
        other = drawn(rng, 3, groups, spread)
        other = other[0].clip(max=of[0]), np.repeat(of[:1], 3, 0)
        variance, t = by_hand([(1.0, found, of)], [(-1.0, *other)])
        half = t * math.sqrt(variance)
        value, low, high = seeds_difference((found, of), other)
        assert (low, high) == pytest.approx((max(value - half, -1), min(value + half, 1)))


def test_a_rare_outcome_has_as_many_items_as_clusters_at_most():
    """Nine clusters with a wrong answer, of 40 whose sizes differ."""
    of = np.repeat(np.array([[1.0, 9.0] * 20]), 3, 0)
    for wrong in (9, 10):
        found = of.copy()
        found[:, : 2 * wrong : 2] = 0
        mean, t = found[0].sum() / 200, student.ppf(0.975, 39)
        variance, _ = by_hand([(1.0, found, of)])
        n, kish = mean * (1 - mean) / variance, 200**2 / (20 * (1 + 81))
        n = min(n, kish) if wrong < 10 else n
        assert (n == kish) == (wrong < 10)
        half = t * math.sqrt(mean * (1 - mean) / n + (t / (2 * n)) ** 2) / (1 + t**2 / n)
        centre = (mean + t**2 / (2 * n)) / (1 + t**2 / n)
        _, low, high = seeds_share(found, of)
        assert (low, high) == pytest.approx((centre - half, centre + half))
        assert seeds_share(of - found, of)[1:] == pytest.approx((1 - high, 1 - low))


def test_answers_that_hardly_vary_are_no_more_than_there_were():
    """One of two items is right in each cluster: what all seeds have counts once."""
    of, t = np.full((3, 40), 2.0), student.ppf(0.975, 39)
    for found, n in ((np.ones((3, 40)), 80), (np.ones((3, 40)), 240)):
        if n == 240:
            found[0, 0], found[0, 1] = 2, 0
            _, t = by_hand([(1.0, found, of)])
        half = t * math.sqrt(0.25 / n + (t / (2 * n)) ** 2) / (1 + t**2 / n)
        assert seeds_share(found, of) == pytest.approx((0.5, 0.5 - half, 0.5 + half))


def test_what_is_less_than_nothing_is_refused_and_differences_end_at_one():
    with pytest.raises(InputError, match="found: expected from 0"):
        seeds_share(np.array([[-1.0, 1.0]]), np.ones((1, 2)))
    of = np.ones((2, 12))
    first, second = of.copy(), np.zeros((2, 12))
    first[0, :6], second[0, :2] = 0, 1
    value, low, high = seeds_difference((first, of), (second, of))
    assert high == 1.0 and low < value < 1
    value, low, high = seeds_difference((second, of), (first, of))
    assert low == -1.0 and -1 < value < high
