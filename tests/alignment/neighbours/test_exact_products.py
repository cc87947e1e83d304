"""Dot products that no order of summation changes: fractions as the reference, pairs alone and in
tiles, at all scales."""

from fractions import Fraction

import numpy as np
import pytest

from crosslens.alignment.neighbours import exact_products
from crosslens.alignment.neighbours.exact_products import (
    ExactRows,
    exact_pairs,
    exact_tile,
    slice_bits,
)


@pytest.fixture
def rng():
    return np.random.default_rng(17)


def dot(one, other):
    """Without rounding."""
    return sum(
        (Fraction(a) * Fraction(b) for a, b in zip(one.tolist(), other.tolist(), strict=True)),
        Fraction(),
    )


def rows(rng, kind, d, n=5):
    plain = rng.normal(size=(n, d)).astype(np.float32)
    if kind == "near":
        return (plain[:1] + np.float32(1e-7) * plain).astype(np.float32)
    if kind == "cancelling":
        return np.concatenate([plain, -plain + np.float32(1e-7) * plain[::-1]], axis=1).astype(
            np.float32
        )[:, : max(1, d)]
    if kind == "scaled":
        return (plain + np.float32(9)) * np.float32(2.0) ** rng.integers(-120, 120, (n, 1)).astype(
            np.float32
        )
    if kind == "denormal":
        return (rng.integers(-9, 9, (n, d)) * 1e-44 + 1e-44).astype(np.float32)
    if kind == "zeros":
        return np.where(rng.random((n, d)) < 0.5, np.float32(0), plain + np.float32(9)) + np.eye(
            1, d, dtype=np.float32
        )
    return plain


EXACT = ["plain", "near", "cancelling", "scaled", "denormal", "zeros"]


@pytest.mark.parametrize("d", [1, 2, 3, 33, 128, 300])
@pytest.mark.parametrize("kind", EXACT)
def test_products_of_float32_are_exact_but_for_one_rounding(rng, kind, d):
    x, y = rows(rng, kind, d), rows(rng, kind, d)[::-1].copy()
    left, right = ExactRows.of(x), ExactRows.of(y)
    first, second = (index.ravel() for index in np.indices((len(x), len(y))))
    units = [
        Fraction(float(left.units[i])) * Fraction(float(right.units[j]))
        for i, j in zip(first, second, strict=True)
    ]
    expected = [
        float(dot(x[i], y[j]) / unit) for i, j, unit in zip(first, second, units, strict=True)
    ]
    assert np.array_equal(exact_pairs(left, right, first, second), expected)
    assert np.array_equal(
        exact_tile(left, right, np.arange(len(x)), np.arange(len(y))).ravel(), expected
    )


@pytest.mark.parametrize("kind", ["float64", "wide", "wide float64", "tiny float64"])
@pytest.mark.parametrize("d", [2, 31, 500])
def test_others_are_as_near_as_is_said(rng, kind, d):
    x = rng.normal(size=(4, d))
    if kind.startswith("wide"):
        x *= 10.0 ** rng.uniform(-20, 0, x.shape)
    if kind.startswith("tiny"):
        x *= 1e-150
    side = ExactRows.of(x.astype(np.float64 if "float64" in kind else np.float32))
    tile = exact_tile(side, side, np.arange(4), np.arange(4))
    for i in range(4):
        for j in range(4):
            unit = Fraction(float(side.units[i])) * Fraction(float(side.units[j]))
            expected = dot(side.rows[i], side.rows[j]) / unit
            bound = 2 * d * Fraction(2) ** -(3 * slice_bits(d)) + abs(expected) * Fraction(2) ** -53
            assert abs(Fraction(float(tile[i, j])) - expected) <= bound
            assert bound <= 3 * d * Fraction(2) ** -60 + abs(expected) * Fraction(2) ** -53


@pytest.mark.parametrize("kind", [*EXACT, "float64", "wide", "some wide"])
def test_a_pair_has_the_same_product_alone_in_any_order_and_in_any_tile(rng, kind, monkeypatch):
    x = rows(rng, kind, 70, 60).astype(np.float64 if kind == "float64" else np.float32)
    x[:, 3] += np.float32(1e-30) if kind == "float64" else 0
    if "wide" in kind:
        x[:: 1 if kind == "wide" else 3] *= np.float32(10) ** rng.uniform(
            -12, 0, x.shape[1]
        ).astype(np.float32)
    side, every = ExactRows.of(x), np.arange(len(x))
    tile = exact_tile(side, side, every, every)
    assert np.array_equal(tile, tile.T)
    first, second = (index.ravel() for index in np.indices(tile.shape))
    some = rng.permutation(len(first))
    assert np.array_equal(exact_pairs(side, side, first[some], second[some]), tile.ravel()[some])
    assert np.array_equal(exact_tile(side, side, every[7:8], every[5:21:2]), tile[7:8, 5:21:2])
    turn = rng.permutation(x.shape[1])
    turned = ExactRows.of(np.ascontiguousarray(x[:, turn]))
    # the order of a sum means nothing
    assert np.array_equal(exact_tile(turned, turned, every, every), tile)
    monkeypatch.setattr(exact_products, "_TILE_NUMBERS", 500)
    monkeypatch.setattr(exact_products, "_NUMBERS", 100)
    monkeypatch.setattr(exact_products, "_PART", 7)
    again = ExactRows.of(x)
    assert np.array_equal(exact_tile(again, again, every, every), tile)
    assert np.array_equal(exact_pairs(again, again, first, second), tile.ravel())


@pytest.mark.parametrize("d", [1, 2, 5, 127, 300, 1024, 4096, 70_000])
def test_the_largest_sums_of_slices_fit_into_float64(d):
    most = 2 ** slice_bits(d)
    # of the last order, with what the one before leaves
    assert (2 * d * most * (most // 2) + d * (most // 2) ** 2) + most**2 // 2 <= 2**53
    assert (4 * most) ** 2 * (1.25 * d + 0.5) > 2**53, "bits are wasted"
    rows = np.full((2, d), np.float32(1 - 2**-24))
    rows[1, ::2] *= -1
    side, both = ExactRows.of(rows), np.arange(2)
    whole = int(rows[0, 0] * 2**24) ** 2
    expected = [[d * whole / 2**48, (d // 2 - (d - d // 2)) * whole / 2**48]]
    assert np.array_equal(exact_tile(side, side, both[:1], both), expected)
    assert np.array_equal(exact_pairs(side, side, np.zeros(2, int), both), expected[0])


def test_which_rows_take_the_quicker_way_changes_nothing(rng):
    x = rows(rng, "plain", 128, 40)
    x[::4, 7] = 2e-7
    side, (first, second) = ExactRows.of(x), (index.ravel() for index in np.indices((40, 40)))
    assert 0 < side.narrow.sum() < 40
    slow = ExactRows(side.rows, side.units, np.zeros(40, bool))
    assert np.array_equal(
        exact_pairs(side, side, first, second), exact_pairs(slow, slow, first, second)
    )
