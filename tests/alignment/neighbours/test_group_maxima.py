"""Best partners from group maxima: a full product and a full sort as the reference, whatever the
groups, the batches and the order."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from crosslens.alignment.neighbours import group_maxima
from crosslens.alignment.neighbours.group_maxima import GroupMaxima
from crosslens.alignment.rows import unit_rows


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def reference(x, y, k, ranks_x, ranks_y):
    """Everything from the whole matrix of cosines in float64."""
    cosines = x.astype(np.float64) @ y.astype(np.float64).T
    r_x, r_y = (
        np.sort(cosines, axis=1)[:, -k:].mean(axis=1),
        np.sort(cosines, axis=0)[-k:].mean(axis=0),
    )
    csls = 2 * cosines - r_x[:, None] - r_y
    there = [
        np.argsort(-row, kind="stable")[rank - 1] if rank <= len(row) else -1
        for row, rank in zip(csls, ranks_x, strict=True)
    ]
    back = [
        np.argsort(-row, kind="stable")[rank - 1] if rank <= len(row) else -1
        for row, rank in zip(csls.T, ranks_y, strict=True)
    ]
    return (cosines.max(axis=1), cosines.max(axis=0)), (r_x, r_y), (there, back)


def check(x, y, k, ranks_x, ranks_y, order_x, order_y, tolerance=1e-6):
    maxima = GroupMaxima(x, y, order_x, order_y)
    best, means, partners = reference(x, y, k, ranks_x, ranks_y)
    for found, expected in zip(
        (*maxima.best_cosines(), *maxima.neighbourhood_means(k)), (*best, *means), strict=True
    ):
        assert found.dtype == x.dtype
        assert np.allclose(found, expected, atol=tolerance)
    found = maxima.partners(*(r.astype(x.dtype) for r in means), ranks_x, ranks_y)
    assert np.array_equal(found[0], partners[0])
    assert np.array_equal(found[1], partners[1])


@pytest.mark.parametrize(
    ("n", "m", "d", "k"),
    [(600, 450, 20, 10), (33, 64, 5, 10), (70, 31, 3, 1), (5, 3, 2, 3), (1, 1, 4, 1)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_finds_what_a_full_sort_finds(rng, n, m, d, k, dtype):
    x, y = (
        unit_rows(rng.normal(size=(n, d)).astype(dtype)),
        unit_rows(rng.normal(size=(m, d)).astype(dtype)),
    )
    ranks_x, ranks_y = rng.geometric(0.1, n), rng.geometric(0.1, m)
    check(x, y, k, ranks_x, ranks_y, np.arange(n), np.arange(m))
    check(x, y, k, ranks_x, ranks_y, rng.permutation(n), rng.permutation(m))


def test_groups_tiles_and_batches_change_nothing(rng, monkeypatch):
    x, y = (
        unit_rows(rng.normal(size=(300, 8)).astype(np.float32)),
        unit_rows(rng.normal(size=(211, 8)).astype(np.float32)),
    )
    ranks_x, ranks_y = rng.geometric(0.2, 300), rng.geometric(0.2, 211)
    for name, value in {"_GROUP": 7, "_TILE": (40, 33), "_LOOKED_AT": 900, "_PART": 37}.items():
        monkeypatch.setattr(group_maxima, name, value)
    check(x, y, 10, ranks_x, ranks_y, rng.permutation(300), rng.permutation(211))
    monkeypatch.setattr(group_maxima, "_MAXIMA_BYTES", 20_000)  # groups of 26 instead of 7
    check(x, y, 10, ranks_x, ranks_y, rng.permutation(300), rng.permutation(211))


def test_the_maxima_of_large_vocabularies_stay_within_their_memory(rng, monkeypatch):
    monkeypatch.setattr(group_maxima, "_MAXIMA_BYTES", 2**18)
    x = unit_rows(rng.normal(size=(2000, 3)).astype(np.float32))
    maxima = GroupMaxima(x, x, np.arange(2000), np.arange(2000))
    assert maxima._over_x.nbytes + maxima._over_y.nbytes < 1.1 * 2**18  # the last group is not full


def test_equal_scores_are_ordered_by_the_lower_index(rng):
    x = np.eye(4, dtype=np.float32)  # every product is exact
    y = np.eye(4, dtype=np.float32)[rng.integers(0, 4, 100)]
    maxima = GroupMaxima(x, y, np.arange(4), rng.permutation(100))
    nothing = np.zeros(100, np.float32)
    for rank in (1, 2, 5):
        there, _ = maxima.partners(
            np.zeros(4, np.float32), nothing, np.full(4, rank), np.ones(100, int)
        )
        assert there.tolist() == [np.flatnonzero(y[:, i])[rank - 1] for i in range(4)]


def test_many_equal_vectors_are_slow_at_worst(rng, monkeypatch):
    monkeypatch.setattr(group_maxima, "_LOOKED_AT", 5000)
    x, y = np.ones((90, 1), np.float32), np.ones((200, 1), np.float32)
    maxima = GroupMaxima(x, y, np.arange(90), rng.permutation(200))
    assert [r.tolist() for r in maxima.neighbourhood_means(10)] == [[1.0] * 90, [1.0] * 200]
    there, back = maxima.partners(
        np.ones(90, np.float32), np.ones(200, np.float32), np.full(90, 7), np.full(200, 91)
    )
    assert set(there) == {6}
    assert set(back) == {-1}


@pytest.mark.parametrize("noise", [0, 1e-6])
def test_pairs_that_tie_are_not_all_kept_to_the_last_sort(rng, monkeypatch, noise):
    """Half of the rows equal, or nearly: the same bits as of all pairs, from a fifth of them."""
    alike = rng.normal(size=8) + noise * rng.normal(size=(600, 8))
    x = unit_rows(
        np.where(np.arange(600)[:, None] % 2, alike, rng.normal(size=(600, 8))).astype(np.float32)
    )
    ranks, order = rng.geometric(0.2, 600), rng.permutation(600)
    ranks[:2] = 599, 650
    lexsort, found, kept = np.lexsort, {}, dict.fromkeys((0.5, 2), 0)
    for share in kept:

        def counting(keys, share=share):
            kept[share] += len(keys[0])
            return lexsort(keys)

        monkeypatch.setattr(group_maxima.np, "lexsort", counting)
        monkeypatch.setattr(group_maxima, "_CROWDED", share)
        maxima = GroupMaxima(x, x, order, order[::-1].copy())
        means = maxima.neighbourhood_means(5)
        found[share] = [*means, *maxima.partners(*means, ranks, ranks)]
    assert all(np.array_equal(few, whole) for few, whole in zip(found[0.5], found[2], strict=True))
    assert 5 * kept[0.5] < kept[2]


def test_few_groups_are_looked_in_when_neighbours_in_the_order_have_similar_means(rng):
    """What makes it quick: about as many groups as the rank, and not all."""
    centres = rng.normal(size=(60, 30))
    noise = rng.normal(size=(3000, 30)) * rng.uniform(0.3, 2, size=(3000, 1))
    x = unit_rows((centres[rng.integers(0, 60, 3000)] + noise).astype(np.float32))
    r_x, r_y = GroupMaxima(x, x, np.arange(3000), np.arange(3000)).neighbourhood_means(10)
    sorted_groups, loose_groups = (
        group_maxima._groups_to_look_in(maxima._y, maxima._over_y, r_y, np.full(3000, 10))[0]
        .sum(axis=0)
        .mean()
        for maxima in (
            GroupMaxima(x, x, np.argsort(r_x), np.argsort(r_y)),
            GroupMaxima(x, x, np.arange(3000), np.arange(3000)),
        )
    )
    assert 10 <= sorted_groups < 13 < loose_groups


def test_the_number_of_threads_changes_no_bit(rng, monkeypatch):
    monkeypatch.setattr(group_maxima, "_TILE", (64, 128))  # many parts to share
    x, y = (unit_rows(rng.normal(size=(n, 30)).astype(np.float32)) for n in (700, 500))
    ranks = rng.integers(1, 6, size=700), rng.integers(1, 6, size=500)
    order, found = rng.permutation(700), []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            maxima = GroupMaxima(x, y, order, np.arange(500))
            means = maxima.neighbourhood_means(10)
            found.append((*maxima.best_cosines(), *means, *maxima.partners(*means, *ranks)))
    for other in found[1:]:
        assert all(np.array_equal(one, two) for one, two in zip(found[0], other, strict=True))
