"""Equal and nearly equal rows: what is found is what the rule says, by loops over all pairs, whose
products are summed exactly."""

import math
from fractions import Fraction

import numpy as np
import pytest
import threadpoolctl

from crosslens.alignment import (
    adjusted_neighbours,
    evaluate_lexicon,
    mutual_knn,
    nearest_neighbours,
    neighbours_both,
    retrieval_both_directions,
)
from crosslens.alignment.neighbours.copies import Copies
from crosslens.alignment.neighbours.exact_products import exact_pairs


@pytest.fixture
def rng():
    return np.random.default_rng(23)


def exact_dots(x, y):
    """Sums of fractions, rounded once: products of float32 are exact in float64, and fsum rounds
    once; others are cut in two."""
    if x.dtype == y.dtype == np.float32:
        return np.array(
            [
                [math.fsum((one * other).tolist()) for other in y.astype(np.float64)]
                for one in x.astype(np.float64)
            ]
        )
    left, right = ([[Fraction(value) for value in row] for row in side.tolist()] for side in (x, y))
    return np.array(
        [
            [float(sum(a * b for a, b in zip(one, other, strict=True))) for other in right]
            for one in left
        ]
    )


def cosines(x, y):
    """By the rule: the exact dot product, rounded once to float64, and divided by the lengths."""
    lengths = [np.sqrt(np.square(side, dtype=np.float64).sum(axis=1)) for side in (x, y)]
    return exact_dots(x, y) / np.multiply.outer(*lengths)


def first(scores, k):
    return np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores), axis=1)[
        :, :k
    ]


def csls(x, y, neighbourhood):
    every = cosines(x, y)
    means = [
        np.take_along_axis(s, first(s, neighbourhood), axis=1).mean(axis=1)
        for s in (every, every.T)
    ]
    return 2.0 * (every - (means[0][:, None] / 2 + means[1] / 2)), every / (
        (means[0][:, None] + means[1]) / 2
    )


def copied(rng, kind, n, dtype, d=6):
    """Rows among which many are equal, or nearly."""
    base = rng.normal(size=(n, d)).astype(dtype)
    if kind == "all":
        return np.repeat(base[:1], n, axis=0)
    if kind == "few":
        return base[rng.integers(0, 3, n)]
    if kind == "half":
        return np.where(rng.random((n, 1)) < 0.5, base[:1], base)
    if kind == "signed zeros":
        return np.where(rng.random((n, d)) < 0.5, dtype(0), dtype(-0.0)) + np.eye(d, dtype=dtype)[0]
    if kind == "ulp":
        return np.where(rng.random((n, d)) < 0.1, np.nextafter(base[:1], dtype(9)), base[:1])
    if kind == "mixed":
        return np.concatenate([np.repeat(base[:2], n // 4, axis=0), base[: n - 2 * (n // 4)]])[
            rng.permutation(n)
        ]
    return (base[:1] + dtype(kind) * base).astype(dtype)


KINDS = ["all", "few", "half", "signed zeros", "ulp", "mixed", "1e-7", "1e-6"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_are_those_of_the_rule(rng, kind, dtype):
    for n, m in ((40, 30), (7, 60)):
        x, y = copied(rng, kind, n, dtype), copied(rng, kind, m, dtype)
        y[: m // 2] = x[rng.integers(0, n, m // 2)]
        scores = cosines(x, y)
        for k in (1, 5, m):
            found, similarities = nearest_neighbours(x, y, k)
            assert np.array_equal(found, first(scores, k))
            assert np.array_equal(
                similarities, np.take_along_axis(scores, found, axis=1).astype(dtype)
            )
        there, back = retrieval_both_directions(x[: min(n, m)], y[: min(n, m)])
        own = np.arange(min(n, m))
        square = scores[: len(own), : len(own)]
        assert np.array_equal(there.correct, first(square, 1)[:, 0] == own) and np.array_equal(
            back.correct, first(square.T, 1)[:, 0] == own
        )


@pytest.mark.parametrize("kind", ["all", "few", "half", "mixed", "signed zeros"])
def test_scores_that_take_hubs_into_account_are_those_of_the_rule(rng, kind):
    x, y = copied(rng, kind, 40, np.float32), copied(rng, kind, 30, np.float32)
    y[:12] = x[:12]
    expected, ratio = csls(x, y, 4)
    of_x, of_y = neighbours_both(x, y, 6, neighbourhood=4)
    assert np.array_equal(of_x.indices, first(expected, 6)) and np.array_equal(
        of_y.indices, first(expected.T, 6)
    )
    assert of_x.scores == pytest.approx(
        np.take_along_axis(expected, of_x.indices, axis=1), abs=1e-12
    )
    some = np.array([7, 30, 2, 3])
    found, _ = adjusted_neighbours(x, y, 3, rows=some, neighbourhood=4)
    assert np.array_equal(found, first(expected[some], 3))
    if ratio.min() > 0 and kind in ("all", "signed zeros"):
        found, _ = adjusted_neighbours(x, y, 5, by="margin_ratio", neighbourhood=4)
        assert np.array_equal(found, first(ratio, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_translation_has_its_place_among_copies(rng, kind):
    x, y = copied(rng, kind, 30, np.float32), copied(rng, kind, 50, np.float32)
    pairs = np.stack([np.arange(30), rng.integers(0, 50, 30)], axis=1)
    result = evaluate_lexicon(x, y, pairs, by="cosine")
    order = first(cosines(x, y), 50)
    assert np.array_equal(result.ranks, [1 + np.flatnonzero(order[i] == j)[0] for i, j in pairs])


def test_items_that_are_all_alike_have_the_lowest_others_as_neighbours(rng):
    assert (
        mutual_knn(copied(rng, "all", 30, np.float32), copied(rng, "all", 30, np.float32), k=4) == 1
    )


@pytest.mark.parametrize("tile", [8, 64])
def test_many_near_ties_over_many_tiles(rng, tile, monkeypatch):
    monkeypatch.setattr("crosslens.alignment.neighbours.tiles.BLOCK", tile)
    x = copied(rng, "1e-7", 150, np.float32)
    for k in (1, 3, 20):
        assert np.array_equal(nearest_neighbours(x, x, k, block=tile)[0], first(cosines(x, x), k))


@pytest.mark.parametrize("often", [0, 16, 10**9])
@pytest.mark.parametrize("kind", ["mixed", "1e-8", "1e-7", "wide"])
def test_near_ties_are_those_of_the_rule_however_they_are_settled(rng, kind, often, monkeypatch):
    """All pairs alone, all in tiles, or either as the program decides; in another order, at other
    lengths, on several threads."""
    for name, value in {
        "BLOCK": 32,
        "_CROWDED": 16,
        "_PART": 24,
        "_FEW": 0,
        "_DENSE": often,
    }.items():
        monkeypatch.setattr(f"crosslens.alignment.neighbours.tiles.{name}", value)
    x, y = (copied(rng, "1e-7" if kind == "wide" else kind, n, np.float32, d=17) for n in (60, 70))
    y[:40] = x[np.arange(40) // 2] if kind == "mixed" else x[:40]
    if kind == "wide":
        x, y = (
            side * np.float32(10) ** np.linspace(-14, 0, 17, dtype=np.float32) for side in (x, y)
        )
    scales = 2.0 ** rng.integers(-40, 40, (60, 1)), 2.0 ** rng.integers(-40, 40, (70, 1))
    order = rng.permutation(60), rng.permutation(70)
    expected, _ = csls(x, y, 4)
    moved = expected[order[0]][:, order[1]]
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        for left, right, scores in (
            (x, y, expected),
            (
                (x * scales[0]).astype(np.float32)[order[0]],
                (y * scales[1]).astype(np.float32)[order[1]],
                moved,
            ),
        ):
            of_x, of_y = neighbours_both(left, right, 6, neighbourhood=4)
            assert np.array_equal(of_x.indices, first(scores, 6))
            assert np.array_equal(of_y.indices, first(scores.T, 6))
            assert np.array_equal(of_x.scores, np.take_along_axis(scores, of_x.indices, axis=1))
            assert np.array_equal(of_y.scores, np.take_along_axis(scores.T, of_y.indices, axis=1))
            pairs = np.stack([np.arange(60), rng.integers(0, 70, 60)], axis=1)
            ranks = evaluate_lexicon(left, right, pairs, by="csls", neighbourhood=4).ranks
            found = first(scores, 70)
            assert np.array_equal(ranks, [1 + np.flatnonzero(found[i] == j)[0] for i, j in pairs])


def test_near_ties_are_settled_by_several_threads(rng, monkeypatch):
    monkeypatch.setattr("crosslens.alignment.neighbours.tiles._FEW", 0)
    monkeypatch.setattr("crosslens.alignment.neighbours.tiles._CROWDED", 16)
    x = copied(rng, "1e-7", 150, np.float32)
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        assert np.array_equal(nearest_neighbours(x, x, 3)[0], first(cosines(x, x), 3))


@pytest.mark.parametrize("noise", ["1e-9", "1e-8", "1e-7", "1e-6", "1e-5"])
def test_few_pairs_are_scored_one_by_one_however_near_the_rows(rng, noise, monkeypatch):
    scored = []

    def counting(x, y, rows, columns):
        scored.append(len(rows))
        return exact_pairs(x, y, rows, columns)

    monkeypatch.setattr("crosslens.alignment.neighbours.products.exact_pairs", counting)
    x = copied(rng, noise, 1000, np.float32, d=128)
    nearest_neighbours(x, x[::-1], 10)
    assert sum(scored) < 100 * 1000


def test_copies_are_all_equal_rows_and_no_others(rng, monkeypatch):
    rows = rng.integers(0, 2, size=(90, 3)).astype(np.float32)
    more = rng.integers(0, 2, size=90).astype(float)
    for extras in ((), (more,)):
        table = np.column_stack([rows, *extras])
        found = Copies.among(rows, *extras)
        assert np.array_equal(found.of[:, None] == found.of, (table[:, None] == table).all(axis=2))
        assert np.array_equal(found.first, np.sort(np.unique(table, axis=0, return_index=True)[1]))
        assert [
            found.members[a:b].tolist()
            for a, b in zip(found.starts, found.starts[1:], strict=False)
        ] == [np.flatnonzero(found.of == g).tolist() for g in range(len(found.first))]
        exact = Copies._exactly(table)  # what a collision of names would lead to
        assert np.array_equal(exact.of, found.of)


@pytest.mark.parametrize("of", [np.float16, np.int8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_numbers_that_differ_have_other_names(rng, monkeypatch, of, dtype):
    """Their low bits are 0: products of them alone would collide."""
    values = rng.normal(size=(4000, 64)) if of is np.float16 else rng.choice([-1, 1], (4000, 64))
    monkeypatch.setattr(Copies, "_exactly", None)
    assert Copies.among(values.astype(of).astype(dtype)) is None


def test_rows_that_share_a_name_alone_are_no_copies():
    assert Copies._exactly(np.eye(3)) is None
