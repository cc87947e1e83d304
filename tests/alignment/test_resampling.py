"""Bootstrap over groups against a loop and in a simulation; the permutation baseline against its definition."""

import functools

import numpy as np
import pytest
from scipy.special import ndtr, stdtrit

from crosslens.alignment.cka_products import Layer, Products, hsic, products
from crosslens.alignment.geometry import rsa
from crosslens.alignment.resampling import bootstrap_cka, permutation_baseline
from crosslens.alignment.similarity import linear_cka
from crosslens.errors import InputError


@pytest.fixture
def rng():
    return np.random.default_rng(17)


def group_products(layers, groups):
    """Both layers as sides of their own."""
    read = [Layer.of(layer, f"layer {i}", min_rows=5) for i, layer in enumerate(layers)]
    return products(read, [slice(i, i + 1) for i in range(len(read))], groups)


def resampled_cka(x, y, counts):
    """A resample's biased and debiased CKA, pair of items by pair of items, from the definition in the docstring."""
    n, groups = len(x), len(counts)
    group = np.arange(n) % groups
    grams = [side @ side.T for side in (x - x.mean(axis=0), y - y.mean(axis=0))]
    factor = groups * (groups - 1) / (groups**2 - (counts**2).sum())
    weight = np.empty((n, n))
    for i, j in np.ndindex(n, n):
        same = group[i] == group[j]
        weight[i, j] = counts[group[i]] if same else factor * counts[group[i]] * counts[group[j]]

    def both(k, m):
        diagonals, one = (np.diag(k), np.diag(m)), counts[group]
        cross = (weight * k * m).sum()
        debiased = cross - (1 + 2 / (n - 2)) * (one * diagonals[0] * diagonals[1]).sum()
        return np.array([cross, debiased + (one @ diagonals[0]) * (one @ diagonals[1]) / ((n - 1) * (n - 2))])

    return both(*grams) / np.sqrt(both(grams[0], grams[0]) * both(grams[1], grams[1]))


def test_it_is_the_loop_over_resamples(rng):
    x = rng.normal(size=(23, 4))
    y = x[:, :3] + rng.normal(size=(23, 3))
    found = bootstrap_cka(group_products([x, y], 7), 40, seed=5)
    counts = np.random.default_rng(5).multinomial(7, np.full(7, 1 / 7), size=40).astype(float)
    values = np.array([resampled_cka(x, y, count) for count in counts])
    tail = ndtr(-np.sqrt(7 / 6) * stdtrit(6, 0.975))
    for kind in range(2):
        expected = np.quantile(values[:, kind], [tail, 1 - tail])
        assert found[kind, :, 0, 1] == pytest.approx(expected, abs=1e-10)
        assert found[kind, :, 1, 0] == pytest.approx(expected, abs=1e-10)
        assert found[kind, :, 0, 0] == pytest.approx([1, 1], abs=1e-12)


def test_every_group_once_is_the_value_itself(rng):
    x, y = rng.normal(size=(30, 4)), rng.normal(size=(30, 6))
    assert resampled_cka(x, y, np.ones(6)) == pytest.approx([linear_cka(x, y), linear_cka(x, y, debiased=True)], abs=1e-10)


def test_the_seed_decides_and_nothing_else(rng):
    found = group_products([rng.normal(size=(40, 4)), rng.normal(size=(40, 3))], 20)
    first, again, other = (bootstrap_cka(found, 50, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(("n", "d", "least", "most"), [(100, 5, 0.9, 0.985), (80, 40, 0.95, 1.0)])
def test_intervals_hold_the_expected_value_about_as_often_as_they_say_and_more_often_with_many_dimensions(n, d, least, most):
    """200 samples of one population; the truth is the mean over samples. The count alone has a standard error of 1.5 %."""
    rng = np.random.default_rng(0)
    scale = np.linspace(0.3, 2, d)
    values, bounds = [], []
    for _ in range(200):
        x = rng.normal(size=(n, d)) * scale
        y = 0.7 * x + rng.normal(size=(n, d))
        found = group_products([x, y], 20)
        squares = found.squares.sum(axis=0), found.squares.T @ found.squares
        values.append([k[0, 1] / np.sqrt(k[0, 0] * k[1, 1]) for k in hsic(n, found.cross.sum(axis=(0, 1)), *squares)])
        bounds.append(bootstrap_cka(found, 200, seed=0)[:, :, 0, 1])
    truth, spread, bounds = np.mean(values, axis=0), np.std(values, axis=0), np.array(bounds)
    covered = ((bounds[:, :, 0] <= truth) & (truth <= bounds[:, :, 1])).mean(axis=0)
    assert (covered >= least).all() and (covered <= most).all(), covered
    width = (bounds[:, :, 1] - bounds[:, :, 0]).mean(axis=0) / (2 * 1.96 * spread)
    assert (width > 0.9).all() and (width < 1.6).all(), width


def test_pairs_without_products_and_layers_without_variance_have_no_interval(rng):
    found = group_products([rng.normal(size=(40, 2)), rng.normal(size=(40, 3))], 20)
    for where in ((0, 1), (0, 0)):
        cross = found.cross.copy()
        cross[:, :, where[0], where[1]] = np.nan if where == (0, 1) else 0
        assert np.isnan(bootstrap_cka(Products(cross, found.squares), 100, 0)[:, :, 0, 1]).all()


def test_the_baseline_is_its_definition(rng):
    x = rng.normal(size=(30, 4))
    y = x + 3 * rng.normal(size=(30, 4))
    found = permutation_baseline(rsa, x, y, permutations=39, seed=8)
    shuffle = np.random.default_rng(8)
    shuffled = np.array([rsa(x, y[shuffle.permutation(30)]) for _ in range(39)])
    assert (found.value, found.mean, found.high) == pytest.approx((rsa(x, y), shuffled.mean(), np.quantile(shuffled, 0.95)), abs=1e-12)
    assert found.p == (np.sum(shuffled >= found.value) + 1) / 40
    assert found.permutations == 39


def test_true_pairs_have_the_smallest_p_and_unrelated_ones_any(rng):
    x, y = rng.normal(size=(2, 60, 5))
    debiased = functools.partial(linear_cka, debiased=True)
    assert permutation_baseline(debiased, x, x + y).p == 1 / 101
    chance = [
        permutation_baseline(lambda a, b: float(a[:, 0] @ b[:, 0]), *rng.normal(size=(2, 25, 3)), permutations=19).p for _ in range(400)
    ]
    assert np.mean(np.array(chance) <= 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(np.array(chance) <= 0.5) == pytest.approx(0.5, abs=0.08)


def test_refusals(rng):
    x = rng.normal(size=(10, 3))
    with pytest.raises(InputError, match=r"permutations: expected a whole number from 1 up, got 0"):
        permutation_baseline(linear_cka, x, x, permutations=0)
    with pytest.raises(InputError, match=r"seed: expected a whole number from 0 up, got -1"):
        permutation_baseline(linear_cka, x, x, seed=-1)
    with pytest.raises(InputError, match=r"y: expected as many rows as x \(10\), got 9 rows"):
        permutation_baseline(linear_cka, x, x[:9])
