"""One pass over the products: a float64 loop as the reference, ties, near ties, tiles, threads,
memory, and every refusal."""

import tracemalloc

import numpy as np
import pytest
import threadpoolctl

from crosslens.alignment.neighbours import tiles
from crosslens.alignment.neighbours.products import (
    Cosine,
    best_both,
    nearest_both,
    neighbourhood_means,
)
from crosslens.alignment.neighbours.tiles import find_both, ranks
from crosslens.alignment.rows import unit_rows
from crosslens.errors import InputError


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def dots(x, y):
    """Every dot product in float64, each from its own pair only, so that equal vectors have equal
    ones."""
    return np.array(
        [[float((a * b).sum()) for b in y.astype(np.float64)] for a in x.astype(np.float64)]
    )


def means_by_loop(scores, k):
    return np.array([np.mean(sorted(row)[-k:]) for row in scores]), np.array(
        [np.mean(sorted(row)[-k:]) for row in scores.T]
    )


def order_by_loop(scores, k):
    return np.array([sorted(range(len(row)), key=lambda j: (-row[j], j))[:k] for row in scores])


def sides(rng, n, m, d=7):
    return unit_rows(rng.normal(size=(n, d)).astype(np.float32)), unit_rows(
        rng.normal(size=(m, d)).astype(np.float32)
    )


@pytest.mark.parametrize(
    ("n", "m", "k"), [(40, 61, 1), (40, 61, 10), (61, 40, 40), (1, 1, 1), (200, 333, 3)]
)
def test_means_of_the_nearest_are_those_of_a_loop(rng, n, m, k):
    x, y = sides(rng, n, m)
    found = neighbourhood_means(x, y, k)
    for mean, expected in zip(found, means_by_loop(dots(x, y), k), strict=True):
        assert mean.dtype == np.float32
        assert np.allclose(mean, expected, rtol=1e-7, atol=1e-8)  # rounded once


@pytest.mark.parametrize("k", [1, 5, 30])
@pytest.mark.parametrize("block", [3, 16, 50, None])
def test_partners_by_csls_are_those_of_a_loop_on_both_sides(rng, k, block):
    x, y = sides(rng, 90, 70)
    r_x, r_y = neighbourhood_means(x, y, 4)
    scores = 2 * dots(x, y) - r_x.astype(np.float64)[:, None] - r_y.astype(np.float64)
    of_x, of_y = nearest_both(x, y, k, r_x, r_y, block=block)
    assert np.array_equal(of_x.indices, order_by_loop(scores, k))
    assert np.array_equal(of_y.indices, order_by_loop(scores.T, k))
    assert np.allclose(of_x.scores, np.take_along_axis(scores, of_x.indices, axis=1), atol=1e-14)
    if k == 1:
        best = best_both(x, y, r_x, r_y)
        assert np.array_equal(best[0], of_x.indices[:, 0])
        assert np.array_equal(best[1], of_y.indices[:, 0])
    assert not np.array_equal(of_x.indices[:, 0], order_by_loop(dots(x, y), 1)[:, 0]), (
        "CSLS must matter here"
    )


@pytest.mark.parametrize("copies", [2, 40])
def test_equal_vectors_come_in_the_order_of_their_index_and_have_equal_means_whatever_the_tiles(
    rng, copies
):
    base = unit_rows(rng.normal(size=(20, 33)).astype(np.float32))
    x = unit_rows(base + 0.1 * rng.normal(size=base.shape).astype(np.float32))
    place = rng.permutation(np.repeat(np.arange(20), copies))
    y = base[place]
    seen = [find_both(Cosine.of(x, y).scores(), 5, block=block) for block in (5, 16, 33, 64, None)]
    for of_x, of_y in seen[1:]:
        for one, first in ((of_x, seen[0][0]), (of_y, seen[0][1])):
            assert np.array_equal(one.indices, first.indices)
            assert np.array_equal(one.scores, first.scores)  # to the last bit
    r_x, r_y = neighbourhood_means(x, y, 3)
    for word in range(20):
        mine = np.flatnonzero(place == word)
        assert len(set(r_y[mine].tolist())) == 1
        assert seen[0][0].indices[word, : min(5, copies)].tolist() == mine[:5].tolist()
    assert (
        best_both(x, y, r_x, r_y)[0] == [np.flatnonzero(place == word)[0] for word in range(20)]
    ).all()


def test_vectors_that_float32_products_cannot_tell_apart_are_ordered_exactly(rng):
    centre = rng.normal(size=64)
    x, y = (centre + 1e-5 * rng.normal(size=(size, 64)) for size in (9, 300))
    x, y = x.astype(np.float32), y.astype(np.float32)
    lengths = [np.sqrt((side.astype(np.float64) ** 2).sum(axis=1)) for side in (x, y)]
    cosines = dots(x, y) / np.outer(*lengths)
    for block in (7, 64, None):
        of_x, of_y = find_both(Cosine.of(x, y).scores(), 3, block=block)
        assert np.array_equal(of_x.indices, order_by_loop(cosines, 3))
        assert np.array_equal(of_y.indices, order_by_loop(cosines.T, 3))
    quick = unit_rows(x) @ unit_rows(y).T
    assert not np.array_equal(quick.argmax(axis=1), of_x.indices[:, 0]), (
        "the case is too easy to show anything"
    )


def test_only_the_first_rows_of_a_side_need_to_ask(rng):
    x, y = sides(rng, 50, 80)
    all_x, all_y = find_both(Cosine.of(x, y).scores(), 4, block=16)
    some_x, some_y = find_both(Cosine.of(x, y).scores(), 4, 7, 33, block=16)
    for some, every, n in ((some_x, all_x, 7), (some_y, all_y, 33)):
        assert np.array_equal(some.indices, every.indices[:n])
        assert np.array_equal(some.scores, every.scores[:n])
    assert find_both(Cosine.of(x, y).scores(), 4, None, 0)[1].indices.shape == (0, 4)


def test_threads_change_nothing(rng, monkeypatch):
    monkeypatch.setattr(tiles, "_FEW", 1)
    x, y = sides(rng, 300, 200)
    cosine = Cosine.of(np.concatenate([x, x[:50]]), y)
    found = []
    for threads in (1, 3):
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            found.append(
                (
                    *find_both(cosine.scores(), 6, block=32),
                    ranks(cosine.scores(), np.arange(350) % 200),
                )
            )
            held = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
            assert all(library["num_threads"] == min(threads, 3) for library in held), (
                "BLAS has its threads back"
            )
    for one, other in zip(*found, strict=True):
        if isinstance(one, np.ndarray):
            assert np.array_equal(one, other)
        else:
            assert np.array_equal(one.indices, other.indices)
            assert np.array_equal(one.scores, other.scores)


def test_an_error_in_a_thread_reaches_the_caller(rng, monkeypatch):
    monkeypatch.setattr(tiles, "_FEW", 1)
    x, y = sides(rng, 100, 100)

    def broken(rows, columns):
        raise MemoryError("no room")

    scores = tiles.Scores(x, y, 1e-5, broken, broken, broken)
    with (
        threadpoolctl.threadpool_limits(2, user_api="blas"),
        pytest.raises(MemoryError, match="no room"),
    ):
        find_both(scores, 1, block=16)


@pytest.mark.parametrize("block", [16, 2048])
def test_a_rank_is_the_place_in_the_full_order(rng, block, monkeypatch):
    monkeypatch.setattr(tiles, "BLOCK", block)
    x, y = sides(rng, 30, 77)
    y[50:60] = y[:10]  # ties
    gold = rng.integers(0, 77, size=30)
    gold[:10], gold[10:20] = np.arange(10), np.arange(50, 60)
    order = order_by_loop(dots(x, y), 77)
    expected = [order[i].tolist().index(gold[i]) + 1 for i in range(30)]
    assert ranks(Cosine.of(x, y).scores(), gold).tolist() == expected


def test_the_sides_can_be_exchanged(rng):
    x, y = sides(rng, 60, 45)
    for one, other in zip(
        neighbourhood_means(x, y, 5), neighbourhood_means(y, x, 5)[::-1], strict=True
    ):
        assert np.array_equal(one, other)


def test_a_common_rotation_changes_nothing_but_a_shift_does(rng):
    x, y = sides(rng, 60, 45)
    turn, _ = np.linalg.qr(rng.normal(size=(7, 7)))
    plain = neighbourhood_means(x, y, 5)[0]
    assert np.allclose(
        neighbourhood_means(unit_rows(x @ turn), unit_rows(y @ turn), 5)[0], plain, atol=1e-6
    )
    assert np.abs(neighbourhood_means(unit_rows(x + 1), unit_rows(y + 1), 5)[0] - plain).max() > 0.1


def test_memory_grows_with_the_sides_and_not_with_their_product(rng, monkeypatch):
    monkeypatch.setattr(tiles, "BLOCK", 128)
    x, y = sides(rng, 3000, 3000, d=16)
    tracemalloc.start()
    neighbourhood_means(x, y, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20  # the full matrix has 34 MB


def test_inputs_are_not_written_to(rng):
    x, y = sides(rng, 20, 30)
    before = x.copy(), y.copy()
    best_both(x, y, *neighbourhood_means(x, y, 2))
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])


def test_refusals_say_what_to_do(rng):
    x, y = sides(rng, 5, 6)
    r_x, r_y = neighbourhood_means(x, y, 2)
    with pytest.raises(InputError, match=r"^k: .*got 6"):
        neighbourhood_means(x, y, 6)
    with pytest.raises(InputError, match=r"^y: .*got 6 columns"):
        neighbourhood_means(x, y[:, :6], 2)
    with pytest.raises(InputError, match=r"^y: .*got length 2 in"):
        neighbourhood_means(x, y * 2, 2)
    with pytest.raises(InputError, match=r"^x: .*got 1 row\(s\)"):
        neighbourhood_means(np.where(np.arange(5)[:, None] == 3, 0, x), y, 2)
    with pytest.raises(InputError, match=r"^x: .*got NaN or infinity"):
        neighbourhood_means(np.where(np.arange(5)[:, None] == 3, np.nan, x), y, 2)
    with pytest.raises(InputError, match=r"^r_y: .*got None"):
        nearest_both(x, y, 1, r_x)
    with pytest.raises(InputError, match=r"^r_x: .*got float32 of"):
        best_both(x, y, r_y, r_x)
    with pytest.raises(InputError, match=r"^r_x: .*got NaN or infinity"):
        best_both(x, y, r_x * np.nan, r_y)
    with pytest.raises(InputError, match=r"^block: .*got 0"):
        nearest_both(x, y, block=0)


@pytest.mark.parametrize(
    ("sides", "shape"),
    [((350, 200), (32, 32)), ((16, 16), (16, 16)), ((7, 90), (8, 24)), ((100, 3), (40, 8))],
)
@pytest.mark.parametrize("threads", [1, 2, 9])
def test_tiles_cover_every_pair_once_and_the_last_are_small(sides, shape, threads):
    times = np.zeros(sides, int)
    parts = tiles._parts(sides, shape, threads)
    for (row, column), (rows, columns) in parts:
        times[row : row + rows, column : column + columns] += 1
    assert (times == 1).all()
    tall = [rows for _, (rows, _) in parts]
    assert max(tall[-threads:]) <= (shape[0] if threads == 1 else max(8, shape[0] // 4 + 8)), (
        "several threads end with small tiles"
    )
