"""Embeddings of a new vocabulary, beside loops and scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from crosslens.alignment.words.new_rows import (
    copied_rows,
    factorised_rows,
    mean_rows,
    random_rows,
    similar_rows,
    sparsemax,
)
from crosslens.errors import InputError

RNG = np.random.default_rng(0)
TABLE = (RNG.normal(size=(40, 8)) * np.arange(1, 9) + 3).astype(np.float32)
SHARED = np.array([4, -1, 7, -1, 0, -1, -1, 39, 2])
VECTORS = RNG.normal(size=(9, 5)).astype(np.float32)
VECTORS[6] = np.nan


def test_random_rows_have_the_old_ones_mean_and_deviation():
    found = random_rows(TABLE, 20_000, seed=3)
    error = TABLE.std(0) / 20_000**0.5
    assert (np.abs(found.rows.mean(0) - TABLE.mean(0)) < 5 * error).all()
    np.testing.assert_allclose(found.rows.std(0), TABLE.std(0), rtol=0.03)
    assert np.array_equal(found.rows, random_rows(TABLE, 20_000, seed=3).rows)
    assert not np.array_equal(found.rows, random_rows(TABLE, 20_000, seed=4).rows)


def test_shared_rows_are_copied_bit_for_bit():
    found = copied_rows(TABLE, SHARED)
    there = SHARED >= 0
    assert np.array_equal(found.rows[there], TABLE[SHARED[there]])
    assert found.made.tolist() == [int(one) for one in there]
    assert found.counts == {"sampled": 4, "copied": 5, "combined": 0}


def test_means_are_weighted_by_translations():
    weights = np.zeros((9, 40))
    weights[0, [1, 2]], weights[1, 5] = [1, 3], 2
    found = mean_rows(TABLE, csr_matrix(weights), SHARED)
    np.testing.assert_allclose(found.rows[0], (TABLE[1] + 3 * TABLE[2]) / 4, rtol=1e-5)
    np.testing.assert_allclose(found.rows[1], TABLE[5], rtol=1e-6)
    assert np.array_equal(found.rows[2], TABLE[7])  # no translation, but shared
    assert found.made.tolist() == [2, 2, 1, 0, 1, 0, 0, 1, 1]


@given(arrays.arrays(np.float64, (3, 6), elements=st.floats(-5, 5)))
def test_sparsemax_is_the_nearest_point_of_the_simplex(scores):
    found = sparsemax(scores)
    assert (found >= 0).all() and np.allclose(found.sum(1), 1)
    for mine, row in zip(found, scores, strict=True):
        # optimal: weights of the support are the scores less one number, and no other score is above it
        threshold = (row - mine)[mine > 0]
        assert np.ptp(threshold) < 1e-9 and (row[mine == 0] <= threshold.max() + 1e-9).all()


def test_sparsemax_is_what_an_optimiser_finds():
    row = np.array([0.9, 0.5, 0.4, -0.3])
    best = minimize(
        lambda p: ((p - row) ** 2).sum(), np.full(4, 0.25), bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1}, options={"ftol": 1e-14},
    ).x  # fmt: skip
    np.testing.assert_allclose(sparsemax(row[None])[0], best, atol=1e-4)


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_similar_rows_are_sparse_means_of_shared_ones():
    found = similar_rows(TABLE, SHARED, VECTORS)
    anchors = [n for n in range(9) if SHARED[n] >= 0]
    for n in (1, 3, 5):
        weights = sparsemax(np.array([[cosine(VECTORS[n], VECTORS[a]) for a in anchors]]))[0]
        expected = sum(w * TABLE[SHARED[a]] for w, a in zip(weights, anchors, strict=True))
        np.testing.assert_allclose(found.rows[n], expected, rtol=1e-4)
    assert found.made.tolist() == [1, 2, 1, 2, 1, 2, 0, 1, 1]


def test_factorised_rows_of_full_rank_are_the_old_ones_and_means_of_near_ones():
    found = factorised_rows(TABLE, SHARED, VECTORS, rank=8, neighbours=2, temperature=0.5)
    there = SHARED >= 0
    np.testing.assert_allclose(found.rows[there], TABLE[SHARED[there]], rtol=1e-3, atol=1e-3)
    anchors = [n for n in range(9) if SHARED[n] >= 0]
    cosines = sorted(((cosine(VECTORS[3], VECTORS[a]), a) for a in anchors), reverse=True)[:2]
    weights = np.exp([c / 0.5 for c, _ in cosines])
    expected = sum(
        w * TABLE[SHARED[a]] for w, (_, a) in zip(weights / weights.sum(), cosines, strict=True)
    )
    np.testing.assert_allclose(found.rows[3], expected, rtol=1e-3, atol=1e-3)


def test_a_low_rank_is_that_of_the_singular_values():
    found = factorised_rows(TABLE, np.arange(40), np.ones((40, 2), np.float32), rank=3)
    u, s, v = np.linalg.svd(TABLE, full_matrices=False)
    np.testing.assert_allclose(found.rows, (u[:, :3] * s[:3]) @ v[:3], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: copied_rows(TABLE, np.array([-1, -1])), "shared: expected a subword"),
        (lambda: copied_rows(TABLE, np.array([40])), "shared: expected numbers below 40"),
        (
            lambda: random_rows(np.full((2, 2), np.nan, np.float32), 3),
            "table: expected rows of finite",
        ),
        (lambda: mean_rows(TABLE, csr_matrix((2, 40))), "weights: expected a translation"),
        (lambda: mean_rows(TABLE, csr_matrix((2, 39))), "weights: expected a column for each"),
        (
            lambda: mean_rows(TABLE, csr_matrix(-np.ones((2, 40)))),
            "weights: expected numbers of at",
        ),
        (lambda: similar_rows(TABLE, SHARED, VECTORS[:3]), "vectors: expected a row for each of 9"),
        (
            lambda: similar_rows(TABLE, SHARED, VECTORS * np.nan),
            "vectors: expected a vector of one",
        ),
        (lambda: factorised_rows(TABLE, SHARED, VECTORS, rank=9), "rank: expected from 1 to 8"),
    ],
)
def test_what_does_not_fit_is_refused(call, match):
    with pytest.raises(InputError, match=match):
        call()
