"""Retrieval: a plain loop as the reference, ties, blocks, both directions, and every refusal."""

import dataclasses

import numpy as np
import pytest

from crosslens.alignment import (
    nearest_neighbours,
    retrieval_both_directions,
    retrieval_precision,
    unit_rows,
)
from crosslens.alignment.neighbours import tiles
from crosslens.alignment.rows import row_lengths
from crosslens.errors import InputError
from crosslens.stats import wilson_interval


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def by_loop(queries, keys, k):
    """The definition: all cosines of one query in float64, best first, lower index first among
    equals."""
    found = []
    for query in queries.astype(np.float64):
        cosines = [
            float(np.dot(query, key) / np.sqrt(np.dot(query, query) * np.dot(key, key)))
            for key in keys.astype(np.float64)
        ]
        found.append(sorted(range(len(keys)), key=lambda j: (-cosines[j], j))[:k])
    return np.array(found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("block", [3, 7, 16, 1024])
def test_it_finds_what_a_loop_finds(rng, dtype, k, block):
    queries, keys = rng.normal(size=(23, 6)).astype(dtype), rng.normal(size=(40, 6)).astype(dtype)
    indices, similarities = nearest_neighbours(queries, keys, k, block=block)
    assert np.array_equal(indices, by_loop(queries, keys, k))
    expected = unit_rows(queries) @ unit_rows(keys).T
    assert similarities.dtype == dtype
    assert np.allclose(similarities, np.take_along_axis(expected, indices, axis=1), atol=1e-6)


def test_equal_keys_come_in_the_order_of_their_index_whatever_the_block(rng):
    base = rng.normal(size=(50, 33)).astype(np.float32)
    keys = base[rng.integers(0, 50, size=700)]  # every key about fourteen times
    queries = base + 0.01 * rng.normal(size=base.shape).astype(np.float32)
    indices, similarities = nearest_neighbours(queries, keys, 5)
    for i in range(50):
        copies = np.flatnonzero((keys == base[i]).all(axis=1))[:5]
        assert indices[i, : len(copies)].tolist() == copies.tolist()
    for block in (33, 64, 100, 699, 2000):
        again = nearest_neighbours(queries, keys, 5, block=block)
        assert np.array_equal(again[0], indices)
        assert np.array_equal(again[1], similarities)


def test_near_ties_do_not_depend_on_the_block_or_on_float32_products(rng):
    """Keys closer together than float32 products can tell: order by the exact cosine all the
    same."""
    centre = rng.normal(size=64)
    keys = (centre + 1e-5 * rng.normal(size=(300, 64))).astype(np.float32)
    queries = (centre + 1e-5 * rng.normal(size=(9, 64))).astype(np.float32)
    expected = by_loop(queries, keys, 2)
    products = unit_rows(queries) @ unit_rows(keys).T
    assert not np.array_equal(products.argmax(axis=1), expected[:, 0]), (
        "the case is too easy to show anything"
    )
    for block in (5, 300):
        assert np.array_equal(nearest_neighbours(queries, keys, 2, block=block)[0], expected)


def test_lengths_of_vectors_do_not_matter(rng):
    queries, keys = rng.normal(size=(20, 5)), rng.normal(size=(30, 5))
    stretched = nearest_neighbours(queries * 7, keys * rng.uniform(1, 100, size=(30, 1)), 4)[0]
    assert np.array_equal(stretched, nearest_neighbours(queries, keys, 4)[0])


def test_memory_order_and_lists_change_nothing(rng):
    queries, keys = rng.normal(size=(20, 5)), rng.normal(size=(30, 5))
    expected = nearest_neighbours(queries, keys, 2)[0]
    assert np.array_equal(
        nearest_neighbours(np.asfortranarray(queries), np.asfortranarray(keys), 2)[0], expected
    )
    assert np.array_equal(nearest_neighbours(queries.tolist(), keys.tolist(), 2)[0], expected)


def test_precision_counts_hits_among_k(rng):
    queries = rng.normal(size=(60, 4))
    keys = queries + rng.normal(size=(60, 4))
    for k in (1, 5):
        result = retrieval_precision(queries, keys, k=k)
        expected = [i in row for i, row in enumerate(by_loop(queries, keys, k))]
        assert result.correct.tolist() == expected
        assert result.precision == sum(expected) / 60
        assert result.n == 60
        assert result.interval == wilson_interval(float(sum(expected)), 60)
    assert 0 < retrieval_precision(queries, keys).precision < 1


def test_gold_says_which_key_is_right(rng):
    keys = rng.normal(size=(30, 4))
    gold = rng.permutation(30)[:12]
    assert retrieval_precision(keys[gold], keys, gold).precision == 1
    assert retrieval_precision(keys[gold], keys, np.roll(gold, 1)).precision == 0


def test_a_duplicate_of_the_right_key_takes_its_place():
    result = retrieval_precision([[1.0, 0.0], [1.0, 0.0]], [[2.0, 0.0], [2.0, 0.0]])
    assert result.correct.tolist() == [True, False]


@pytest.mark.parametrize("block", [7, 16, 1024])
def test_both_directions_are_the_two_single_ones(rng, block, monkeypatch):
    monkeypatch.setattr(tiles, "BLOCK", block)
    x = rng.normal(size=(90, 6)).astype(np.float32)
    y = (x + rng.normal(size=x.shape)).astype(np.float32)
    x[50:60], y[70:75] = x[:10], y[3:8]  # ties on both sides
    results = retrieval_both_directions(x, y)
    for result, expected in zip(
        results, (retrieval_precision(x, y), retrieval_precision(y, x)), strict=True
    ):
        assert np.array_equal(result.correct, expected.correct)
        assert (result.precision, result.n, result.interval) == (
            expected.precision,
            expected.n,
            expected.interval,
        )
    assert results[0].precision != results[1].precision
    assert results[0].correct.tolist() == (by_loop(x, y, 1)[:, 0] == np.arange(90)).tolist()


def test_both_directions_multiply_once(rng, monkeypatch):
    multiplied = []
    plain = tiles._Tile.of
    monkeypatch.setattr(
        tiles._Tile, "of", lambda *arguments: multiplied.append(1) or plain(*arguments)
    )
    x = rng.normal(size=(30, 6))
    retrieval_both_directions(x, x)
    assert len(multiplied) == 1


def test_results_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        retrieval_precision([[1.0]], [[1.0]]).precision = 0.5


def test_unit_rows_have_length_one_and_leave_the_input_alone(rng):
    x = rng.normal(size=(10, 3)).astype(np.float32)
    before = x.copy()
    units = unit_rows(x)
    assert units.dtype == np.float32
    assert np.allclose(np.linalg.norm(units, axis=1), 1, atol=1e-6)
    assert np.allclose(units * np.linalg.norm(x, axis=1, keepdims=True), x, atol=1e-6)
    assert np.array_equal(x, before)


def test_a_rows_length_does_not_depend_on_where_it_stands(rng):
    row = rng.normal(size=(1, 77)).astype(np.float32)
    assert (
        len(
            set(row_lengths(np.repeat(row, 5000, axis=0), "x").tolist())
            | set(row_lengths(row, "x").tolist())
        )
        == 1
    )


def test_refusals(rng):
    x = rng.normal(size=(6, 3))
    hole = x.copy()
    hole[4] = 0
    zero = r"expected rows with a direction, got 1 row\(s\) of zeros, the first is row 4; remove"
    for call, name in (
        (lambda: nearest_neighbours(hole, x), "queries"),
        (lambda: nearest_neighbours(x, hole), "keys"),
        (lambda: retrieval_precision(x, hole), "keys"),
        (lambda: retrieval_both_directions(hole, x), "x"),
        (lambda: unit_rows(hole), "x"),
    ):
        with pytest.raises(InputError, match=f"{name}: {zero}"):
            call()
    with pytest.raises(InputError, match=r"keys: .*got 2 columns"):
        nearest_neighbours(x, x[:, :2])
    with pytest.raises(InputError, match=r"y: .*got 2 columns"):
        retrieval_both_directions(x, x[:, :2])
    for k in (0, 7, True):
        with pytest.raises(InputError, match="k: expected"):
            nearest_neighbours(x, x, k)
    with pytest.raises(InputError, match=r"block: .*got 0"):
        nearest_neighbours(x, x, block=0)
    with pytest.raises(InputError, match=r"keys: .*got 5 rows"):
        retrieval_precision(x, x[:5])
    with pytest.raises(InputError, match=r"gold: .*got int64 of shape"):
        retrieval_precision(x, x, [0, 1, 2, 3, 4])
    with pytest.raises(InputError, match=r"gold: .*got float64"):
        retrieval_precision(x, x, np.arange(6.0))
    with pytest.raises(InputError, match=r"gold: .*got 6 for query"):
        retrieval_precision(x, x, [0, 6, 2, 3, 4, 5])
    with pytest.raises(InputError, match=r"gold: .*got -1 for query"):
        retrieval_precision(x, x, [-1, 1, 2, 3, 4, 5])
