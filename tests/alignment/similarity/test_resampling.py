"""Intervals of CKA against loops, whose coverage is in test_interval_coverage; the permutation
baseline against its definition."""

import functools

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import stdtrit

from crosslens.alignment.similarity.cka_products import Layer, hsic, products
from crosslens.alignment.similarity.geometry import rsa
from crosslens.alignment.similarity.linear_cka import linear_cka
from crosslens.alignment.similarity.resampling import cka_intervals, permutation_baseline
from crosslens.errors import InputError


@pytest.fixture
def rng():
    return np.random.default_rng(17)


def group_products(layers, groups):
    """Both layers as sides of their own."""
    read = [Layer.of(layer, f"layer {i}", min_rows=5) for i, layer in enumerate(layers)]
    return products(read, [slice(i, i + 1) for i in range(len(read))], groups)


def intervals(x, y, groups=20):
    found = group_products([x, y], groups)
    squares = found.squares.sum(axis=0), found.squares.T @ found.squares
    own = hsic(len(x), found.cross.sum(axis=(0, 1)), *squares)[1]
    return cka_intervals(found, own / np.sqrt(np.outer(np.diag(own), np.diag(own))))


def by_loops(x, y, groups):
    """The two parts of the variance and the ends of the interval, pair of groups by pair of groups,
    as the docstring has it."""
    n, value = len(x), linear_cka(x, y, debiased=True)
    grams = [side @ side.T for side in (x - x.mean(axis=0), y - y.mean(axis=0))]
    of = np.arange(n) % groups

    def unbiased(a, b):
        k, m = np.diag(a), np.diag(b)
        return (
            (a * b).sum() - k @ m * (1 + 2 / (n - 2)) + k.sum() * m.sum() / ((n - 1) * (n - 2))
        ) / (n * (n - 3))

    b, c = (unbiased(gram, gram) for gram in grams)
    g = grams[0] * grams[1] / np.sqrt(b * c) - value / 2 * (grams[0] ** 2 / b + grams[1] ** 2 / c)
    means = np.array(
        [[g[np.ix_(of == i, of == j)].mean() for j in range(groups)] for i in range(groups)]
    )
    row = np.array([means[i, np.arange(groups) != i].mean() for i in range(groups)])
    own = (row - row.mean()) * (groups - 1) / (groups - 2)
    left = [means[i, j] - own[i] - own[j] - row.mean() for i in range(groups) for j in range(i)]
    pairs = 2 / groups**2 * np.square(left).sum() / (groups * (groups - 3) / 2)
    items = 4 / groups * own.var(ddof=1)
    slope = max(items - 2 * groups / (groups - 2) * pairs, 0) / value
    if value <= 1.959964 * np.sqrt(pairs):
        slope = items / ((grams[0] * grams[1]).sum() / n**2 / np.sqrt(b * c))
    fixed, slope = 1.959964**2 * pairs, stdtrit(groups - 1, 0.975) ** 2 * slope
    ends = (
        [
            brentq(
                lambda at: (
                    (value - at) ** 2 * (1 - value) - (fixed + slope * max(at, 0)) * (1 - at)
                ),
                *where,
            )
            for where in ((0, value), (value, 1))
        ]
        if value > 0 and value**2 * (1 - value) > fixed
        else None
    )
    return pairs, items, ends


@pytest.mark.parametrize("groups", [20, 7])
def test_the_interval_is_its_definition(rng, groups):
    x = rng.normal(size=(83, 4))
    y = x[:, :3] + rng.normal(size=(83, 3))
    _, _, ends = by_loops(x, y, groups)
    found = intervals(x, y, groups)
    assert found[:, 0, 1] == pytest.approx(ends, abs=1e-6)
    assert found[:, 1, 0] == pytest.approx(ends, abs=1e-6)
    assert found[:, 0, 0] == pytest.approx([1, 1], abs=1e-6)


def test_of_unrelated_sides_it_holds_0_and_of_nearly_equal_ones_it_ends_below_1(rng):
    low, high = intervals(*rng.normal(size=(2, 200, 10)))[:, 0, 1]
    assert low < 0 <= high < 0.1
    x = rng.normal(size=(200, 10))
    low, high = intervals(x, x + 0.05 * rng.normal(size=x.shape))[:, 0, 1]
    assert 0.98 < low < high < 1


def test_scale_and_order_of_the_sides_change_nothing(rng):
    x, y = rng.normal(size=(2, 60, 4))
    first, second = intervals(x, x + y), intervals(1e3 * (x + y), x)
    assert first[:, 0, 1] == pytest.approx(second[:, 0, 1], abs=1e-9)


def test_pairs_without_products_and_layers_of_which_one_group_holds_all_have_no_interval(rng):
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 3))
    found = group_products([x, y], 20)
    found.cross[:, :, 0, 1] = np.nan
    assert np.isnan(cka_intervals(found, np.ones((2, 2)))[:, 0, 1]).all()
    x[np.arange(40) % 20 != 3] = 0
    assert np.isnan(intervals(x, y)[:, 0, 1]).all()


def test_the_baseline_is_its_definition(rng):
    x = rng.normal(size=(30, 4))
    y = x + 3 * rng.normal(size=(30, 4))
    found = permutation_baseline(rsa, x, y, permutations=39, seed=8)
    shuffle = np.random.default_rng(8)
    shuffled = np.array([rsa(x, y[shuffle.permutation(30)]) for _ in range(39)])
    assert (found.value, found.mean, found.high) == pytest.approx(
        (rsa(x, y), shuffled.mean(), np.quantile(shuffled, 0.95)), abs=1e-12
    )
    assert found.p == (np.sum(shuffled >= found.value) + 1) / 40
    assert found.permutations == 39


def test_true_pairs_have_the_smallest_p_and_unrelated_ones_any(rng):
    x, y = rng.normal(size=(2, 60, 5))
    debiased = functools.partial(linear_cka, debiased=True)
    assert permutation_baseline(debiased, x, x + y).p == 1 / 101
    chance = [
        permutation_baseline(
            lambda a, b: float(a[:, 0] @ b[:, 0]), *rng.normal(size=(2, 25, 3)), permutations=19
        ).p
        for _ in range(400)
    ]
    assert np.mean(np.array(chance) <= 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(np.array(chance) <= 0.5) == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("given", [np.nan, np.inf, None])
def test_a_measure_without_a_value_has_no_p(rng, given):
    x = rng.normal(size=(12, 3))
    with pytest.raises(InputError, match="measure: expected a function that gives a finite number"):
        permutation_baseline(lambda a, b: given, x, x)
    with pytest.raises(InputError, match="measure: expected a function that gives a finite number"):
        permutation_baseline(lambda a, b: 1.0 if (a == b).all() else given, x, x)


def test_refusals(rng):
    x = rng.normal(size=(10, 3))
    with pytest.raises(InputError, match=r"permutations: .*got 0"):
        permutation_baseline(linear_cka, x, x, permutations=0)
    with pytest.raises(InputError, match=r"seed: .*got -1"):
        permutation_baseline(linear_cka, x, x, seed=-1)
    with pytest.raises(InputError, match=r"y: .*got 9 rows"):
        permutation_baseline(linear_cka, x, x[:9])
