"""RSA, Procrustes distance and mutual neighbours against scipy, scikit-learn and loops."""

import tracemalloc

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.spatial import procrustes
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.neighbors import NearestNeighbors

from crosslens.alignment.similarity import geometry
from crosslens.alignment.similarity.geometry import mutual_knn, procrustes_distance, rsa
from crosslens.errors import InputError


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def pair(rng):
    x = rng.normal(size=(50, 6)) * rng.uniform(0.2, 3, size=6)
    y = np.concatenate([x[:, :4] + rng.normal(size=(50, 4)), rng.normal(size=(50, 1))], axis=1)
    return x + 2, y - 1


@pytest.fixture
def turn(rng):
    return np.linalg.qr(rng.normal(size=(6, 6)))[0]


@pytest.mark.parametrize("kind", ["correlation", "cosine"])
def test_rsa_is_scipys_rank_correlation_of_scipys_distances(pair, kind):
    x, y = pair
    assert rsa(x, y, dissimilarity=kind) == pytest.approx(
        spearmanr(pdist(x, kind), pdist(y, kind)).statistic, abs=1e-12
    )


def test_rsa_gives_ties_their_mean_rank():
    # exact cosines but for the last
    corners = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]])
    other = np.array([[1.0, 2.0], [3.0, 1.0], [5.0, -1.0], [0.5, 4.0], [-2.0, 3.0]])
    expected = spearmanr(pdist(corners, "cosine").round(12), pdist(other, "cosine")).statistic
    assert rsa(corners, other, dissimilarity="cosine") == pytest.approx(expected, abs=1e-12)


def test_rsa_takes_dissimilarities_for_equal_that_rounding_alone_sets_apart(rng, turn):
    other = rng.normal(size=(40, 3))
    marks = rng.integers(0, 2, size=(40, 6)).astype(float)
    marks[:, :2] = 0, 1  # no row is the same in all dimensions
    expected = spearmanr(
        pdist(marks, "correlation").round(12), pdist(other, "correlation")
    ).statistic
    assert rsa(marks, other) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(InputError, match="x: expected dissimilarities that differ, got equal ones"):
        rsa(turn, other[:6], dissimilarity="cosine")  # rows at right angles


def test_rsa_stands_row_scale_and_what_its_dissimilarity_ignores(rng, pair, turn):
    x, y = pair
    sizes, shifts = rng.uniform(0.1, 9, size=(2, 50, 1))
    assert rsa(x * sizes + shifts, y) == pytest.approx(rsa(x, y), abs=1e-10)
    assert rsa(x @ turn * sizes, y, dissimilarity="cosine") == pytest.approx(
        rsa(x, y, dissimilarity="cosine"), abs=1e-10
    )
    assert rsa(y, x) == pytest.approx(rsa(x, y), abs=1e-12)
    assert abs(rsa(x + np.arange(6) * 9, y) - rsa(x, y)) > 0.05, "a shift of the side is seen"
    assert abs(rsa(x[::-1], y) - rsa(x, y)) > 0.05, "and so is the pairing"


def test_procrustes_distance_is_scipys_disparity_and_residual(pair):
    x, y = pair
    y = np.hstack([y, np.zeros((50, 1))])
    a, b = (side - side.mean(axis=0) for side in (x, y))
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    rotation, nuclear = orthogonal_procrustes(a, b)
    value = procrustes_distance(x, y)
    assert value == pytest.approx(np.linalg.norm(a @ rotation - b) ** 2, abs=1e-12)
    assert value == pytest.approx(2 - 2 * nuclear, abs=1e-12)
    # scipy also chooses the best scale
    assert 1 - (1 - value / 2) ** 2 == pytest.approx(procrustes(x, y)[2], abs=1e-12)
    assert procrustes_distance(x, y, convention="root") == pytest.approx(np.sqrt(value), abs=1e-12)
    assert procrustes_distance(x, y, convention="angular") == pytest.approx(
        np.arccos(nuclear), abs=1e-12
    )


def test_fewer_dimensions_are_filled_up_with_zeros(pair):
    x, y = pair
    filled = np.hstack([y, np.zeros((50, 1))])
    for convention in ("squared", "root", "angular"):
        value = procrustes_distance(x, y, convention=convention)
        assert value == pytest.approx(
            procrustes_distance(x, filled, convention=convention), abs=1e-12
        )
        assert value == pytest.approx(procrustes_distance(y, x, convention=convention), abs=1e-12)


def test_procrustes_distance_is_zero_for_the_same_shape_to_full_precision(pair, turn):
    x, y = pair
    assert procrustes_distance(x, 5 * x @ turn - 30, convention="root") < 1e-14
    assert procrustes_distance(x @ turn * 3 + 4, y) == pytest.approx(
        procrustes_distance(x, y), abs=1e-12
    )
    assert procrustes_distance(x * np.linspace(0.1, 9, 6), y) - procrustes_distance(x, y) > 0.02, (
        "single dimensions matter"
    )
    assert procrustes_distance(x[::-1], y) - procrustes_distance(x, y) > 0.1


@pytest.mark.parametrize("convention", ["root", "angular"])
def test_the_metrics_keep_the_triangle_inequality(rng, convention):
    for _ in range(20):
        x, y, z = (rng.normal(size=(6, 2)) for _ in range(3))
        xy, yz, xz = (
            procrustes_distance(*sides, convention=convention) for sides in ((x, y), (y, z), (x, z))
        )
        assert xz <= xy + yz + 1e-12


@pytest.mark.parametrize("k", [1, 5, 48])
def test_mutual_knn_is_scikit_learns_neighbours_shared(pair, k):
    sets = []
    for side in pair:
        # without the item itself
        found = (
            NearestNeighbors(n_neighbors=k, metric="cosine")
            .fit(side)
            .kneighbors(return_distance=False)
        )
        sets.append([set(row) for row in found])
    assert mutual_knn(*pair, k=k) == pytest.approx(
        np.mean([len(a & b) / k for a, b in zip(*sets, strict=True)]), abs=1e-12
    )


def test_mutual_knn_stands_rotation_and_row_scale_but_no_shift(rng, pair, turn):
    x, y = pair
    assert mutual_knn(x @ turn * rng.uniform(0.1, 9, size=(50, 1)), y) == pytest.approx(
        mutual_knn(x, y), abs=1e-12
    )
    assert mutual_knn(x, x @ turn) == 1
    assert mutual_knn(x + 100 * np.arange(6), y) != pytest.approx(mutual_knn(x, y), abs=0.01)


def test_unrelated_items_share_neighbours_by_chance(rng):
    x, y = rng.normal(size=(2, 400, 20))
    assert mutual_knn(x, y, k=20) == pytest.approx(20 / 399, abs=0.02)


def test_an_item_is_not_its_own_neighbour_among_copies_either():
    x = np.ones((6, 2))
    x[5] = [1, -1]
    y = np.array([[1.0, 0], [1, 0.1], [1, 0.2], [1, 0.3], [1, 0.4], [1, 0.5]])
    # Of copies, the lowest indices are nearest: item 0 has 1, 2; item 1 has 0, 2; the others 0, 1.
    # In y: 1 2, 0 2, 1 3, 2 4, 3 5, 4 3.
    assert mutual_knn(x, y, k=2) == pytest.approx((2 + 2 + 1 + 0 + 0 + 0) / 12)


@pytest.mark.parametrize(
    "measure",
    [rsa, procrustes_distance, lambda x, y: mutual_knn(x - x.mean(0), y - y.mean(0), k=5)],
)
@pytest.mark.parametrize("scale", [1e-18, 1, 1e18])
def test_float32_with_outlier_dimensions_and_any_scale(rng, measure, scale):
    x = rng.normal(size=(60, 20))
    y = x + rng.normal(size=x.shape)
    x[:, 3] += 300
    single = x.astype(np.float32) * np.float32(scale), y.astype(np.float32)
    # RSA ranks: of 1,770 dissimilarities that an outlier makes nearly equal, rounding of the input
    # swaps some.
    assert measure(*single) == pytest.approx(
        measure(x.astype(np.float32).astype(float), y.astype(np.float32).astype(float)), abs=1e-4
    )


def test_inputs_are_left_alone(pair):
    x, y = pair
    before = x.copy()
    for measure in (rsa, procrustes_distance, mutual_knn):
        measure(x, y)
    assert np.array_equal(x, before)


def test_refusals(rng):
    x = rng.normal(size=(10, 3))
    flat = x.copy()
    flat[4] = 2
    zero = x.copy()
    zero[7] = 0
    with pytest.raises(InputError, match=r"dissimilarity: .*got 'euclidean'"):
        rsa(x, x, dissimilarity="euclidean")
    with pytest.raises(InputError, match=r"y: .*got 1 row\(s\)"):
        rsa(x, flat)
    with pytest.raises(InputError, match=r"x: .*got 1 row\(s\)"):
        rsa(zero, x, dissimilarity="cosine")
    with pytest.raises(InputError, match=r"y: .*got equal ones"):
        rsa(x[:3], np.eye(3), dissimilarity="cosine")
    with pytest.raises(InputError, match=r"convention: .*got 'ding'"):
        procrustes_distance(x, x, convention="ding")
    with pytest.raises(InputError, match=r"y: .*got 10 equal row\(s\)"):
        procrustes_distance(x, np.full((10, 3), 0.1))
    with pytest.raises(InputError, match=r"k: .*got 9"):
        mutual_knn(x, x, k=9)
    with pytest.raises(InputError, match=r"y: .*got 1 row\(s\)"):
        mutual_knn(x, zero, k=2)
    for measure in (rsa, procrustes_distance, mutual_knn):
        with pytest.raises(InputError, match=r"y: .*got 9 rows"):
            measure(x, x[:9])
        with pytest.raises(InputError, match=r"x: expected finite numbers"):
            measure(np.where(x == x[0, 0], np.nan, x), x)
        with pytest.raises(InputError, match=r"x: expected at least [23] row"):
            measure(x[:1], x[:1])


def test_memory_for_all_pairs_is_asked_for_before_it_is_taken(monkeypatch):
    asked = []
    monkeypatch.setattr(geometry, "need_memory", lambda size, *_: asked.append(size))
    x = np.random.default_rng(0).normal(size=(600, 8))
    rsa(x, x[::-1])  # what it loads once is loaded
    tracemalloc.start()
    rsa(x, x[::-1])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.7 * asked[1] < peak < asked[1]
