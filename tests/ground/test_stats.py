"""Intervals against scipy, brute force, and their own promises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from crosslens.errors import InputError
from crosslens.stats import (
    difference_interval,
    jackknife_interval,
    mean_interval,
    paired_interval,
    pearson_interval,
    share_interval,
    spearman_difference,
    spearman_interval,
    wilson_interval,
)


@pytest.mark.parametrize("n", [1, 2, 7, 30, 600, 100_000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.99, 1.0])
def test_wilson_is_scipy_s(n, share):
    successes = round(n * share)
    expected = reference.binomtest(successes, n).proportion_ci(method="wilson")
    # the same closed form
    assert wilson_interval(successes, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


@settings(deadline=None)
@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_wilson_holds_the_share_stays_in_range_and_is_symmetric(pair):
    n, successes = pair
    low, high = wilson_interval(successes, n)
    assert 0 <= low <= successes / n <= high <= 1  # the bounds meet the share at 0 and n
    assert low < high
    mirrored = wilson_interval(n - successes, n)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high), abs=1e-12)


def test_wilson_narrows_with_the_square_root_of_n():
    wide, narrow = (
        high - low for low, high in (wilson_interval(500, 1000), wilson_interval(50_000, 100_000))
    )
    # 100 times the items; the rest is Wilson's correction
    assert wide / narrow == pytest.approx(10, rel=0.01)


def test_wilson_takes_fractional_successes():
    whole, half = wilson_interval(3, 10), wilson_interval(3.5, 10)
    assert whole[0] < half[0] and whole[1] < half[1]


@pytest.mark.parametrize(("successes", "n"), [(-1, 10), (11, 10), (math.nan, 10), (0, 0), (1, -3)])
def test_wilson_refuses_what_is_no_proportion(successes, n):
    with pytest.raises(InputError):
        wilson_interval(successes, n)


def test_jackknife_of_the_mean_is_the_standard_error_of_the_mean():
    x = np.random.default_rng(0).normal(size=50)
    left_out = np.array([np.delete(x, i).mean() for i in range(50)])
    low, high = jackknife_interval(x.mean(), left_out)
    error = x.std(ddof=1) / math.sqrt(50)  # exact for the mean (Efron & Stein 1981)
    assert (low, high) == pytest.approx(reference.t.interval(0.95, 49, x.mean(), error), abs=1e-9)


@pytest.mark.parametrize("g", [2, 3, 20])
def test_jackknife_is_the_formula_in_a_loop(g):
    x = np.random.default_rng(g).exponential(size=120)
    parts = np.array_split(np.arange(120), g)
    left_out = np.array([np.median(np.delete(x, part)) for part in parts])
    mean, total = sum(left_out) / g, 0.0
    for value in left_out:
        total += (value - mean) ** 2
    half = reference.t.ppf(0.975, g - 1) * math.sqrt((g - 1) / g * total)
    assert jackknife_interval(1.5, left_out) == pytest.approx((1.5 - half, 1.5 + half), abs=1e-12)


def test_jackknife_covers_about_95_per_cent():
    rng, inside = np.random.default_rng(1), 0
    for _ in range(400):
        x = rng.normal(3, 1, size=200)
        low, high = jackknife_interval(
            x.mean(),
            np.array([np.delete(x, part).mean() for part in np.array_split(np.arange(200), 20)]),
        )
        inside += low <= 3 <= high
    assert 0.925 <= inside / 400 <= 0.975  # 95 %, plus or minus 2.3 standard errors of 400 draws


def test_jackknife_of_equal_values_has_no_width_and_one_value_is_refused():
    assert jackknife_interval(0.5, np.array([0.4, 0.4])) == (0.5, 0.5)
    with pytest.raises(InputError, match="left_out: .*got 1"):
        jackknife_interval(0.5, np.array([0.4]))


def test_the_mean_s_interval_is_scipy_s():
    x = np.random.default_rng(1).normal(3, 2, 40)
    expected = reference.t.interval(0.95, 39, x.mean(), reference.sem(x))
    assert mean_interval(x) == pytest.approx((x.mean(), *expected), abs=1e-12)
    with pytest.raises(InputError, match="values: .*got 1"):
        mean_interval(x[:1])


def test_paired_difference_is_wald_s_on_a_table_with_half_an_item_more_in_each_cell():
    draw = np.random.default_rng(2)
    first = draw.random(200) < 0.6
    second = np.where(draw.random(200) < 0.3, draw.random(200) < 0.4, first)
    cells = (
        np.array(
            [
                [np.sum(first & second), np.sum(first & ~second)],
                [np.sum(~first & second), np.sum(~first & ~second)],
            ]
        )
        + 0.5
    )
    n = cells.sum()
    p = cells / n
    centre = p[0, 1] - p[1, 0]
    error = math.sqrt((p[0, 1] + p[1, 0] - centre**2) / n)
    z = reference.norm.ppf(0.975)
    difference, low, high = paired_interval(first, second)
    assert difference == pytest.approx(first.mean() - second.mean(), abs=1e-12)
    assert (low, high) == pytest.approx((centre - z * error, centre + z * error), abs=1e-12)


def test_paired_intervals_hold_the_truth_as_often_as_they_say():
    """Outcomes that depend on each other, with a known difference of .1."""
    draw, held = np.random.default_rng(3), 0
    for _ in range(1000):
        # both, only the first, only the second, none
        kind = draw.choice(4, 60, p=[0.2, 0.25, 0.15, 0.4])
        _, low, high = paired_interval(kind <= 1, (kind == 0) | (kind == 2))
        held += low <= 0.1 <= high
    assert 930 <= held <= 975  # 950 and three standard errors


def test_swapping_the_two_swaps_the_sign_and_equal_outcomes_differ_by_nothing():
    first, second = np.arange(50) % 3 == 0, np.arange(50) % 2 == 0
    (d, low, high), (e, a, b) = paired_interval(first, second), paired_interval(second, first)
    assert (d, low, high) == pytest.approx((-e, -b, -a))
    same = paired_interval(first, first)
    assert same[0] == 0 and same[1] < 0 < same[2]  # no certainty from agreement
    with pytest.raises(InputError, match="second: .*got 49"):
        paired_interval(first, second[:-1])


@pytest.mark.parametrize("n", [4, 13, 200])
@pytest.mark.parametrize("mix", [0.0, 0.5, -2.0])
def test_pearson_is_scipy_s(n, mix):
    x, noise = np.random.default_rng(n).normal(size=(2, n))
    expected = reference.pearsonr(x, mix * x + noise)
    interval = expected.confidence_interval()
    assert pearson_interval(x, mix * x + noise) == pytest.approx(
        (expected.statistic, interval.low, interval.high), abs=1e-12
    )


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_pearson_does_not_mind_very_large_and_very_small_numbers(scale):
    x, y = np.random.default_rng(0).normal(size=(2, 9))
    assert pearson_interval(scale * x, y) == pytest.approx(pearson_interval(x, y), abs=1e-12)


def test_pearson_of_a_line_is_one_and_its_interval_a_point():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert pearson_interval(x, x) == pytest.approx((1, 1, 1), abs=1e-7)
    assert pearson_interval(x, -3 * x + 1) == pytest.approx((-1, -1, -1), abs=1e-7)


@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        (
            [1, 2, 3],
            [1, 2, 3],
            "x, y: expected 4 or more pairs of numbers",
        ),
        ([1, 2, 3, 4], [1, 2, 3], "x, y: expected 4 or more pairs"),
        ([1, 2, 3, math.nan], [1, 2, 3, 4], "x, y: expected finite numbers"),
        ([1, 2, 3, 4], [5, 5, 5, 5], "x, y: expected numbers that vary"),
    ],
)
def test_pearson_refuses_what_has_no_correlation(x, y, told):
    with pytest.raises(InputError, match=told):
        pearson_interval(np.array(x, float), np.array(y, float))


def test_a_share_over_clusters_of_one_item_is_wilson_s():
    found = np.arange(3000) % 10 < 3
    share, low, high = share_interval(found, np.ones(3000))
    # t, and g - 1
    assert share == pytest.approx(0.3) and (low, high) == pytest.approx(
        wilson_interval(900, 3000), abs=1e-4
    )


def test_clusters_that_agree_count_once_and_clusters_that_do_not_count_in_full():
    whole, mixed = (
        share_interval(found, np.full(400, 8))
        for found in (np.arange(400) % 2 * 8, np.full(400, 4))
    )
    assert whole[1:] == pytest.approx(wilson_interval(200, 400), abs=1e-3)
    assert mixed[1:] == pytest.approx(wilson_interval(1600, 3200), abs=1e-3)
    # no eight times 30
    assert share_interval(np.zeros(30), np.full(30, 8))[1:] == pytest.approx(
        wilson_interval(0, 30), abs=0.01
    )


def test_the_variance_of_a_share_is_the_jackknife_s():
    """A ratio's linearised variance and leaving out one cluster in turn agree for many clusters."""
    rng = np.random.default_rng(0)
    of = 1 + rng.poisson(9, 800)
    found = rng.binomial(of, rng.beta(2, 2, 800))
    share, low, high = share_interval(found, of)
    left_out = (found.sum() - found) / (of.sum() - of)
    assert (low, high) == pytest.approx(jackknife_interval(share, left_out), abs=2e-3)


def test_a_difference_over_clusters_of_one_item_is_the_paired_one():
    first, second = np.arange(3000) % 10 < 4, np.arange(3000) % 7 < 2
    plain = paired_interval(first, second)
    assert difference_interval(first.astype(int) - second, np.ones(3000)) == pytest.approx(
        plain, abs=1e-4
    )
    turned = difference_interval(second.astype(int) - first, np.ones(3000))
    assert turned == pytest.approx((-plain[0], -plain[2], -plain[1]), abs=1e-4)


def test_a_difference_over_clusters_that_agree_is_wider():
    more = np.repeat([1, 1, 1, -1, 0, 0], 50)
    alone, together = (
        difference_interval(more, np.ones(300)),
        difference_interval(8 * more, np.full(300, 8)),
    )
    assert together[0] == pytest.approx(alone[0]) and together[2] - together[1] == pytest.approx(
        alone[2] - alone[1], rel=0.02
    )


@pytest.mark.parametrize(
    ("values", "of"),
    [([1], [2]), ([1, 2], [2]), ([1, 3], [2, 2]), ([1, math.nan], [2, 2]), ([0, 0], [2, 0])],
)
@pytest.mark.parametrize("interval", [share_interval, difference_interval])
def test_clusters_that_are_none_are_refused(interval, values, of):
    with pytest.raises(InputError, match="found|more"):
        interval(np.array(values), np.array(of))


def delete_one(x, y, clusters):
    """Standard error of Fisher's z of Spearman's correlation by leaving out each cluster in turn,
    in a loop."""
    names = np.unique(clusters)
    z = [
        math.atanh(reference.spearmanr(x[clusters != c], y[clusters != c]).statistic) for c in names
    ]
    return math.sqrt((len(names) - 1) / len(names) * np.sum((np.array(z) - np.mean(z)) ** 2))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_spearman_is_scipy_s_and_its_error_that_of_leaving_out_one_in_turn(ties, size):
    rng = np.random.default_rng(size)
    shared, x, y = (
        np.repeat(rng.normal(size=(1, 300 // size)), size, axis=1)[0],
        *rng.normal(size=(2, 300)),
    )
    x, y = x + shared, y + shared + 0.3 * x
    if ties:
        x, y = np.round(x), np.round(2 * y)
    clusters = np.repeat(np.arange(300 // size), size)
    r, low, high = spearman_interval(x, y, None if size == 1 else clusters)
    assert r == pytest.approx(reference.spearmanr(x, y).statistic, abs=1e-12)
    half = (math.atanh(high) - math.atanh(low)) / 2 / reference.t.ppf(0.975, 300 // size - 1)
    # the two differ by order 1 / n
    assert half == pytest.approx(delete_one(x, y, clusters), rel=0.04)
    assert (math.atanh(low) + math.atanh(high)) / 2 == pytest.approx(math.atanh(r))


def test_spearman_does_not_mind_order_sign_or_a_monotone_scale():
    x, y = np.random.default_rng(0).normal(size=(2, 50)).cumsum(axis=1)
    r, low, high = spearman_interval(x, y)
    order = np.random.default_rng(1).permutation(50)
    assert spearman_interval(np.exp(x)[order], (y**3)[order]) == pytest.approx(
        (r, low, high), abs=1e-12
    )
    assert spearman_interval(x, -y) == pytest.approx((-r, -high, -low), abs=1e-12)


@pytest.mark.parametrize("n", [4, 8, 30])
def test_ranks_that_agree_have_the_interval_of_those_that_differ_by_one_swap(n):
    """An interval without width would say that nothing can come otherwise."""
    x = np.arange(float(n))
    swapped = x.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    near, low, high = spearman_interval(x, swapped)
    assert near == pytest.approx(1 - 12 / (n * (n**2 - 1)))
    assert spearman_interval(x, np.exp(x / n)) == pytest.approx((1, low, 1))
    assert spearman_interval(x, -np.exp(x / n)) == pytest.approx((-1, -1, -low))
    order = np.random.default_rng(n).permutation(n)
    assert spearman_interval(x[order], x[order]) == pytest.approx((1, low, 1))
    tied = np.arange(n) // 2
    r, low, high = spearman_interval(tied, tied)
    assert (r, high) == (1, 1) and low < 0.999
    if n > 20:
        clusters = np.arange(n) // 3
        r, low, high = spearman_interval(x, x, clusters)
        assert (r, high) == (1, 1) and 0.5 < low < 1


def test_spearman_refuses_few_clusters_and_constants():
    x = np.arange(8.0)
    with pytest.raises(InputError, match="clusters: .*got 2"):
        spearman_interval(x, x % 3, np.arange(8) % 2)
    with pytest.raises(InputError, match="clusters: expected a label for each of 8 pairs, got"):
        spearman_interval(x, x % 3, np.arange(7))
    with pytest.raises(InputError, match="x, y: expected numbers that"):
        spearman_interval(x, np.ones(8))


def test_a_difference_of_rank_correlations_is_that_of_leaving_out_one_in_turn():
    y, luck, one, other = np.random.default_rng(7).normal(size=(4, 300))
    first, second = y + luck + one, np.round(y + 2 * luck + other)
    difference, low, high, p = spearman_difference(first, second, y)

    def gap(kept):
        return (
            reference.spearmanr(first[kept], y[kept]).statistic
            - reference.spearmanr(second[kept], y[kept]).statistic
        )

    left_out = np.array([gap(np.arange(300) != i) for i in range(300)])
    error = math.sqrt(299 / 300 * np.sum((left_out - left_out.mean()) ** 2))
    assert difference == pytest.approx(gap(np.ones(300, bool)), abs=1e-12)
    assert (high - low) / 2 / reference.t.ppf(0.975, 299) == pytest.approx(error, rel=0.02)
    assert p == pytest.approx(
        2 * reference.t.sf(difference / ((high - low) / 2 / reference.t.ppf(0.975, 299)), 299)
    )
    assert spearman_difference(second, first, y) == pytest.approx((-difference, -high, -low, p))
    assert spearman_difference(first, np.exp(first / 4), y) == pytest.approx((0, 0, 0, 1), abs=1e-9)


@pytest.mark.parametrize("n", [4, 6])
def test_a_difference_of_few_pairs_that_all_agree_has_an_error(n):
    y = np.arange(float(n))
    difference, low, high, p = spearman_difference(y, -y, y)
    assert (difference, high) == (2, 2) and low < 1.7 and 1e-5 < p < 0.05
    assert spearman_difference(-y, y, y) == pytest.approx((-2, -2, -low, p))
    # one exchange does not speak for either, wherever it is
    for place in range(n - 1):
        swapped = y.copy()
        swapped[[place, place + 1]] = swapped[[place + 1, place]]
        _, low, high, p = spearman_difference(y, swapped, y)
        assert low < 0 < high and p > 0.2
    _, low, high, p = spearman_difference(y, np.exp(y), y)
    assert low < 0 < high and p == 1
