"""Similarity in context: cosines by hand, correlations by scipy, and every pair that has none is
counted."""

import math

import ml_dtypes
import numpy as np
import pytest
from scipy.stats import spearmanr

from crosslens.errors import InputError
from crosslens.probes.methods.scws import cosines, missing_rows, scws
from crosslens.stats import spearman_interval


def pairs(seed=0, n=60, d=6, layers=3):
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(layers, n, d))
    second = rng.normal(size=(layers, n, d)) + np.linspace(-1, 1, n)[:, None] * first
    return first, second, np.linspace(0, 10, n) + rng.normal(size=n)


def loop_cosine(u, v):
    dot = sum(a * b for a, b in zip(u.tolist(), v.tolist(), strict=True))
    return (
        dot / math.sqrt(sum(a * a for a in u.tolist())) / math.sqrt(sum(b * b for b in v.tolist()))
    )


def test_correlations_are_scipy_s_of_cosines_by_hand():
    first, second, ratings = pairs()
    ratings[3] = ratings[7] = ratings[20]  # ties
    result = scws(first, second, ratings)
    for layer in range(3):
        values = [loop_cosine(u, v) for u, v in zip(first[layer], second[layer], strict=True)]
        assert result.spearman[layer] == pytest.approx(
            spearmanr(values, ratings).statistic, abs=1e-12
        )
        found = (result.spearman[layer], result.low[layer], result.high[layer])
        assert found == pytest.approx(spearman_interval(np.array(values), ratings), abs=1e-9)
    assert 0.3 < result.spearman.min() < result.spearman.max() < 0.95, (
        "the case is too easy or too hard to show anything"
    )
    assert result.n.tolist() == [60, 60, 60]
    assert (result.not_found, result.zero.tolist()) == (0, [0, 0, 0])


def test_centring_subtracts_the_mean_of_both_sides():
    first, second, ratings = pairs()
    moved = first + 5, second + 5
    centred = scws(*moved, ratings, centred=True)
    for layer in range(3):
        mean = np.concatenate([first[layer], second[layer]]).mean(axis=0)
        values = [
            loop_cosine(u - mean, v - mean)
            for u, v in zip(first[layer], second[layer], strict=True)
        ]
        assert centred.spearman[layer] == pytest.approx(
            spearmanr(values, ratings).statistic, abs=1e-12
        )
    assert centred.spearman == pytest.approx(scws(first, second, ratings, centred=True).spearman)
    assert scws(*moved, ratings).spearman != pytest.approx(centred.spearman, abs=0.01), (
        "a common shift changes plain cosines"
    )


def test_what_does_not_matter_and_what_does():
    first, second, ratings = pairs()
    rng = np.random.default_rng(1)
    rotation, order = np.linalg.qr(rng.normal(size=(6, 6)))[0], rng.permutation(60)
    expected = scws(first, second, ratings).spearman
    assert scws(first @ rotation, second @ rotation, ratings).spearman == pytest.approx(expected)
    assert scws(3 * first, 0.1 * second, ratings).spearman == pytest.approx(expected)
    assert scws(second, first, ratings).spearman == pytest.approx(expected)
    assert scws(first[:, order], second[:, order], ratings[order]).spearman == pytest.approx(
        expected
    )
    assert scws(first, second, np.exp(ratings)).spearman == pytest.approx(expected), (
        "ranks alone count"
    )
    assert scws(first, second, -ratings).spearman == pytest.approx(-expected)
    stretched = np.array([9.0, 1, 1, 1, 1, 1])
    assert scws(first * stretched, second * stretched, ratings).spearman != pytest.approx(
        expected, abs=0.01
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_layers_in_fewer_bits_give_nearly_the_same_and_are_not_written_to(dtype):
    first, second, ratings = pairs()
    some, others = first.astype(dtype), second.astype(dtype)
    before = some.copy()
    assert scws(some, others, ratings).spearman == pytest.approx(
        scws(first, second, ratings).spearman, abs=0.02
    )
    assert np.array_equal(some, before)


def test_layers_larger_than_a_block_are_read_whole():
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 9001, 3))
    expected = (u * v).sum(axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    np.testing.assert_allclose(cosines(u, v), expected, atol=1e-12)
    np.testing.assert_allclose(cosines(u, v, rows=[9000, 3]), expected[[9000, 3]], atol=1e-12)
    u[8999] = np.nan
    assert np.flatnonzero(missing_rows(u, v)).tolist() == [8999]


def test_words_without_a_vector_and_zero_vectors_are_left_out_and_counted():
    first, second, ratings = pairs()
    expected = scws(first[:, 5:], second[:, 5:], ratings[5:])
    first[:, 0], second[:, 1] = np.nan, np.nan  # no pieces: NaN in all layers
    first[1, 2:5], second[1, 4] = 0, 0
    result = scws(first, second, ratings)
    assert (result.not_found, result.zero.tolist(), result.n.tolist()) == (
        2,
        [0, 3, 0],
        [58, 55, 58],
    )
    assert result.spearman[1] == pytest.approx(expected.spearman[1])


def test_refusals():
    first, second, ratings = pairs()
    with pytest.raises(InputError, match=r"second: .*got 2"):
        scws(first, second[:2], ratings)
    with pytest.raises(InputError, match=r"second\[1\]: .*got shape \(59"):
        scws(first, [second[0], second[1][1:], second[2]], ratings)
    with pytest.raises(InputError, match=r"first\[0\]: .*got shape \(60, 6\) of object"):
        scws(first.astype(object), second, ratings)
    with pytest.raises(InputError, match=r"layer 0: .*got shapes \(60"):
        scws(first, second[:, :, 1:], ratings)
    for bad in (ratings[1:], np.where(np.arange(60) == 3, np.nan, ratings), ratings.astype(str)):
        with pytest.raises(InputError, match="ratings: expected"):
            scws(first, second, bad)
    with pytest.raises(InputError, match=r"ratings: .*got equal ones"):
        scws(first, second, np.ones(60))
    with pytest.raises(InputError, match=r"cosines of layer 0: .*got equal ones"):
        scws(np.ones_like(first), np.ones_like(second), ratings)
    with pytest.raises(InputError, match=r"layer 0: .*got 3"):
        scws(first[:, :3], second[:, :3], ratings[:3])
    broken = first.copy()
    broken[1, 7, 2] = np.nan
    with pytest.raises(InputError, match=r"layer 1: .*got NaN or infinity"):
        scws(broken, second, ratings)


@pytest.mark.parametrize("size", [1e-200, 1e-100, 1e100, 1e200])
def test_cosines_do_not_depend_on_how_large_numbers_are(size):
    u, v = np.random.default_rng(0).normal(size=(2, 9, 4))
    assert cosines(size * u, size * v) == pytest.approx(cosines(u, v), abs=1e-12)
