"""Approximate search: what it says of itself is true, and more effort finds more."""

import numpy as np
import pytest

from crosslens.alignment.neighbours.approximate import approximate_neighbours
from crosslens.alignment.neighbours.retrieval import nearest_neighbours
from crosslens.errors import InputError
from crosslens.stats import mean_interval


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def sides(rng, n=60, m=3000, d=24):
    keys = rng.normal(size=(m, d)).astype(np.float32)
    return keys[rng.permutation(m)[:n]] + 0.8 * rng.normal(size=(n, d)).astype(np.float32), keys


@pytest.mark.parametrize("index", ["hnsw", "ivf"])
def test_the_recall_told_is_the_share_of_exact_neighbours_found(rng, index):
    queries, keys = sides(rng)
    found = approximate_neighbours(queries, keys, 5, index=index, effort=6, sample=25)
    exact, _ = nearest_neighbours(queries, keys, 5)
    assert len(found.sample) == len(set(found.sample.tolist())) == 25
    shares = np.array(
        [len(set(found.indices[i].tolist()) & set(exact[i].tolist())) / 5 for i in found.sample]
    )
    assert found.recall == pytest.approx(shares.mean())
    _, low, high = mean_interval(shares)
    assert found.interval == (max(0, low), min(1, high))
    assert 0.1 < found.recall < 1
    assert (found.index, found.effort) == (index, 6)


@pytest.mark.parametrize("index", ["hnsw", "ivf"])
def test_more_effort_finds_more_and_enough_of_it_all(rng, index):
    queries, keys = sides(rng)
    few, all_of_them = (
        approximate_neighbours(queries, keys, 5, index=index, effort=effort) for effort in (5, 3000)
    )
    assert few.recall < all_of_them.recall == 1
    indices, similarities = nearest_neighbours(queries, keys, 5)
    assert np.array_equal(all_of_them.indices, indices)
    assert all_of_them.similarities.dtype == np.float32
    assert np.allclose(all_of_them.similarities, similarities, atol=1e-6)


def test_cells_are_the_same_for_the_same_seed(rng):
    queries, keys = sides(rng)
    one, same, other = (
        approximate_neighbours(queries, keys, 5, index="ivf", effort=3, sample=20, seed=seed)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one.indices, same.indices)
    assert np.array_equal(one.sample, same.sample)
    assert not np.array_equal(one.sample, other.sample)
    assert not np.array_equal(one.indices, other.indices)


def test_lengths_of_vectors_do_not_matter_and_inputs_stay(rng):
    queries, keys = sides(rng)
    before = queries.copy(), keys.copy()
    plain = approximate_neighbours(queries, keys, 3, effort=3000)
    scaled = approximate_neighbours(
        queries * 4, keys * rng.choice([0.5, 2], size=(3000, 1)).astype(np.float32), 3, effort=3000
    )
    assert np.array_equal(plain.indices, scaled.indices)
    assert np.array_equal(queries, before[0])
    assert np.array_equal(keys, before[1])


def test_one_query_has_a_recall_without_interval(rng):
    queries, keys = sides(rng)
    assert np.isnan(approximate_neighbours(queries[:1], keys, 2).interval).all()


def test_refusals_say_what_to_do(rng):
    queries, keys = sides(rng)
    with pytest.raises(InputError, match=r"^effort: .*got 1"):
        approximate_neighbours(queries, keys, 1000, index="ivf", effort=1)
    with pytest.raises(InputError, match=r"^k: .*got 3001"):
        approximate_neighbours(queries, keys, 3001)
    with pytest.raises(InputError, match=r"^keys: .*got 23 columns"):
        approximate_neighbours(queries, keys[:, 1:])
    with pytest.raises(InputError, match=r"^effort: .*got 0"):
        approximate_neighbours(queries, keys, effort=0)
    with pytest.raises(InputError, match=r"^sample: .*got 0"):
        approximate_neighbours(queries, keys, sample=0)
    with pytest.raises(InputError, match=r"^seed: .*got -1"):
        approximate_neighbours(queries, keys, seed=-1)
    unchecked = getattr(approximate_neighbours, "__wrapped__", approximate_neighbours)
    with pytest.raises(InputError, match=r"^index: .*got 'lsh'"):
        unchecked(queries, keys, index="lsh")
