"""VecMap's steps: an independent float64 walk through them, identities and invariances of each, and
every refusal."""

import itertools

import numpy as np
import pytest
import scipy.linalg

from crosslens.alignment.maps.procrustes import orthogonal_procrustes
from crosslens.alignment.maps.vecmap_maps import MultiStepMap, multi_step_maps
from crosslens.alignment.normalisation import normalise
from crosslens.errors import InputError

ONLY_ORTHOGONAL = {
    "whiten": False,
    "reweight_x": 0,
    "reweight_y": 0,
    "dewhiten_x": None,
    "dewhiten_y": None,
}
ONLY_WHITE = {"reweight_x": 0, "reweight_y": 0, "dewhiten_x": None, "dewhiten_y": None}


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.fixture
def pairs(rng):
    x = normalise(rng.normal(size=(80, 6)) @ rng.normal(size=(6, 6)))
    return x, normalise(x @ rng.normal(size=(6, 6)) + 0.4 * rng.normal(size=(80, 6)))


def step_by_step(x, y, whiten, reweight_x, reweight_y, dewhiten_x, dewhiten_y, dimensions):
    """The published steps on the rows themselves, one after the other, with matrix roots from
    scipy."""
    root_x, root_y = (np.real(scipy.linalg.sqrtm(side.T @ side)) for side in (x, y))
    if whiten:
        x, y = x @ scipy.linalg.inv(root_x), y @ scipy.linalg.inv(root_y)
    u, s, vt = scipy.linalg.svd(x.T @ y)
    x, y = x @ u, y @ vt.T
    x, y = x @ np.diag(s**reweight_x), y @ np.diag(s**reweight_y)
    variances = {"x": u.T @ root_x @ u, "y": vt @ root_y @ vt.T, None: np.eye(len(s))}
    x, y = x @ variances[dewhiten_x], y @ variances[dewhiten_y]
    return x[:, :dimensions], y[:, :dimensions]


def settings():
    for x, y, powers in itertools.product(
        ("x", "y", None), ("x", "y", None), ((0, 0), (0.5, 0.5), (1, 0), (0, 1))
    ):
        yield {
            "whiten": True,
            "reweight_x": powers[0],
            "reweight_y": powers[1],
            "dewhiten_x": x,
            "dewhiten_y": y,
            "dimensions": None,
        }
    yield {**ONLY_ORTHOGONAL, "reweight_y": 1, "dimensions": 4}
    yield {
        "whiten": True,
        "reweight_x": 0.5,
        "reweight_y": 0.5,
        "dewhiten_x": "x",
        "dewhiten_y": "y",
        "dimensions": 3,
    }


@pytest.mark.parametrize(
    "steps", list(settings()), ids=lambda steps: "-".join(map(str, steps.values()))
)
def test_it_is_the_published_steps_one_by_one(pairs, steps):
    w_x, w_y = multi_step_maps(*pairs, **steps)
    x, y = step_by_step(*pairs, **steps)
    assert w_x.shape == w_y.shape == (6, steps["dimensions"] or 6)
    ours_x, ours_y = pairs[0] @ w_x, pairs[1] @ w_y
    # a direction may be turned round, on both sides at once
    signs = np.sign(np.sum(ours_x * x, axis=0))
    assert np.allclose(ours_x * signs, x, atol=1e-10)
    assert np.allclose(ours_y * signs, y, atol=1e-10)


def test_the_defaults_are_vecmaps(pairs):
    x, y = step_by_step(*pairs, True, 0.5, 0.5, "x", "y", None)
    aligner = MultiStepMap().fit(*pairs)
    assert np.allclose(
        aligner.transform(pairs[0]) @ aligner.transform_y(pairs[1]).T, x @ y.T, atol=1e-10
    )


def test_with_all_steps_but_the_orthogonal_one_off_it_is_procrustes(pairs):
    aligner = MultiStepMap(**ONLY_ORTHOGONAL).fit(*pairs)
    assert np.allclose(aligner.map_x_ @ aligner.map_y_.T, orthogonal_procrustes(*pairs), atol=1e-10)
    for side in (aligner.map_x_, aligner.map_y_):
        assert np.allclose(side.T @ side, np.eye(6), atol=1e-12)


def test_whitened_training_pairs_are_white_and_matched_direction_by_direction(pairs):
    aligner = MultiStepMap(**ONLY_WHITE).fit(*pairs)
    x, y = aligner.transform(pairs[0]), aligner.transform_y(pairs[1])
    assert np.allclose(x.T @ x, np.eye(6), atol=1e-10)
    assert np.allclose(y.T @ y, np.eye(6), atol=1e-10)
    assert np.allclose(x.T @ y, np.diag(aligner.singular_values_), atol=1e-10)


def test_under_whitening_the_singular_values_are_the_canonical_correlations(pairs):
    angles = scipy.linalg.subspace_angles(*pairs)  # from the largest
    assert np.allclose(
        MultiStepMap().fit(*pairs).singular_values_, np.cos(angles)[::-1], atol=1e-10
    )


def test_de_whitening_without_re_weighting_restores_the_inner_products_of_its_own_side(pairs):
    aligner = MultiStepMap(reweight_x=0, reweight_y=0).fit(*pairs)
    x, y = aligner.transform(pairs[0]), aligner.transform_y(pairs[1])
    assert np.allclose(x @ x.T, pairs[0] @ pairs[0].T, atol=1e-10)
    assert np.allclose(y @ y.T, pairs[1] @ pairs[1].T, atol=1e-10)


def test_any_linear_map_of_a_side_is_seen_through_by_whitening_and_not_by_the_orthogonal_map(
    pairs, rng
):
    stretched = pairs[0] @ rng.normal(size=(6, 6))
    for steps, invariant in (({"dewhiten_x": "y"}, True), ({}, False), (ONLY_ORTHOGONAL, False)):
        plain, other = (
            MultiStepMap(**steps).fit(*pairs),
            MultiStepMap(**steps).fit(stretched, pairs[1]),
        )
        across = plain.transform(pairs[0]) @ plain.transform_y(pairs[1]).T
        across_too = other.transform(stretched) @ other.transform_y(pairs[1]).T
        assert np.allclose(across, across_too, atol=1e-8) == invariant


def test_a_rotation_of_either_side_changes_nothing_between_the_sides(pairs, rng):
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    plain, turned = MultiStepMap().fit(*pairs), MultiStepMap().fit(pairs[0] @ turn, pairs[1])
    across = plain.transform(pairs[0]) @ plain.transform_y(pairs[1]).T
    assert np.allclose(
        across, turned.transform(pairs[0] @ turn) @ turned.transform_y(pairs[1]).T, atol=1e-10
    )


def test_swapping_the_sides_swaps_the_maps(pairs):
    one, other = MultiStepMap().fit(*pairs), MultiStepMap().fit(*pairs[::-1])
    across = one.transform(pairs[0]) @ one.transform_y(pairs[1]).T
    assert np.allclose(
        across, (other.transform(pairs[1]) @ other.transform_y(pairs[0]).T).T, atol=1e-10
    )


def test_reduction_keeps_the_first_directions_of_the_full_map(pairs):
    full, reduced = (
        MultiStepMap(dewhiten_x=None).fit(*pairs),
        MultiStepMap(dewhiten_x=None, dimensions=2).fit(*pairs),
    )
    assert np.array_equal(reduced.map_x_, full.map_x_[:, :2])
    assert np.array_equal(reduced.map_y_, full.map_y_[:, :2])
    assert np.array_equal(reduced.singular_values_, full.singular_values_)


def test_the_inverse_undoes_the_map_and_after_a_reduction_is_mapped_back_to_where_it_came_from(
    pairs,
):
    x, y = pairs
    aligner = MultiStepMap().fit(x, y)
    assert np.allclose(aligner.inverse_transform(aligner.transform(x)), x, atol=1e-10)
    reduced = MultiStepMap(dimensions=2).fit(x, y)
    there = reduced.transform_y(y)
    assert np.allclose(reduced.transform(reduced.inverse_transform(there)), there, atol=1e-10)
    assert not np.allclose(reduced.inverse_transform(reduced.transform(x)), x, atol=1e-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fewer_pairs_than_dimensions_show_in_the_rank_and_stay_finite(rng, dtype):
    x, y = rng.normal(size=(5, 12)).astype(dtype), rng.normal(size=(5, 12)).astype(dtype)
    for steps in ({}, ONLY_ORTHOGONAL):
        aligner = MultiStepMap(**steps).fit(x, y)
        assert aligner.rank_ == 5
        assert not aligner.singular_values_[5:].any()
    white = MultiStepMap(**ONLY_WHITE).fit(x, y)
    mapped = white.transform(x), white.transform_y(y)
    # any five pairs are perfectly correlated
    assert np.allclose(mapped[0] @ mapped[1].T, np.eye(5), atol=1e-5)
    unseen = np.eye(12) - np.linalg.pinv(x) @ x
    assert np.abs(white.transform(unseen.astype(dtype))).max() < 1e-5


def test_float32_keeps_its_precision_on_many_uneven_rows(rng):
    x = normalise(rng.normal(size=(9000, 8)) * np.logspace(0, -3, 8))
    y = normalise(x @ rng.normal(size=(8, 8)) + 0.01 * rng.normal(size=(9000, 8)))
    small = x.astype(np.float32), y.astype(np.float32)
    low, high = MultiStepMap().fit(*small), MultiStepMap().fit(x, y)
    assert low.map_x_.dtype == low.map_y_.dtype == low.singular_values_.dtype == np.float32
    assert low.rank_ == high.rank_ == 8
    across = low.transform(small[0][:50]) @ low.transform_y(small[1][:50]).T
    assert np.abs(across - high.transform(x[:50]) @ high.transform_y(y[:50]).T).max() < 1e-4


def test_blocks_of_rows_change_nothing(pairs, monkeypatch):
    whole = MultiStepMap().fit(*pairs)
    monkeypatch.setattr("crosslens.alignment.maps.linear_maps._BLOCK", 7)
    parts = MultiStepMap().fit(*pairs)
    assert np.allclose(parts.map_x_ @ parts.map_y_.T, whole.map_x_ @ whole.map_y_.T, atol=1e-10)


def test_a_saved_map_comes_back_whole(pairs, tmp_path):
    aligner = MultiStepMap(dewhiten_y=None, dimensions=4).fit(*pairs)
    aligner.save(tmp_path / "map")
    loaded = MultiStepMap.load(tmp_path / "map")
    assert loaded.get_params() == aligner.get_params()
    assert np.array_equal(loaded.transform_y(pairs[1]), aligner.transform_y(pairs[1]))
    assert [path.name for path in tmp_path.iterdir()] == ["map"]


def test_refusals(pairs, monkeypatch):
    x, y = pairs
    for name in ("reweight_x", "reweight_y"):
        for power in (-1, np.nan, np.inf, "half", True):
            with pytest.raises(InputError, match=f"{name}: expected"):
                MultiStepMap().set_params(**{name: power}).fit(x, y)
    for name in ("dewhiten_x", "dewhiten_y"):
        with pytest.raises(InputError, match=rf"{name}: .*got \'src\'"):
            MultiStepMap(**{name: "src"}).fit(x, y)
        with pytest.raises(InputError, match=rf"{name}: .*got 'y'"):
            MultiStepMap(**{**ONLY_ORTHOGONAL, name: "y"}).fit(x, y)
    for dimensions in (0, 7, 2.0):
        with pytest.raises(InputError, match="dimensions: expected"):
            MultiStepMap().set_params(dimensions=dimensions).fit(x, y)
    with pytest.raises(InputError, match=r"y: .*got 5 columns"):
        multi_step_maps(x, y[:, :5])
    with pytest.raises(InputError, match=r"Y: .*got 79 rows"):
        MultiStepMap().fit(x, y[1:])
    with pytest.raises(InputError, match=r"y: .*got zeros"):
        multi_step_maps(x, 0 * y)
    with pytest.raises(InputError, match=r"X: .*got a cross-product"):
        MultiStepMap().fit(np.array([[1.0, 0], [0, 0]]), np.array([[0.0, 0], [0, 1]]))
    with pytest.raises(InputError, match=r"Z: .*got 5 columns"):
        MultiStepMap().fit(x, y).inverse_transform(x[:, :5])
    with pytest.raises(InputError, match=r"Y: .*got 5 columns"):
        MultiStepMap().fit(x, y).transform_y(x[:, :5])
    with pytest.raises(InputError, match=r"MultiStepMap: .*got one without"):
        MultiStepMap().transform_y(y)
    large = np.float32(1e30)
    with pytest.raises(InputError, match=r"x: .*got an overflow"):
        multi_step_maps(
            x.astype(np.float32) * large, y.astype(np.float32) * large, **ONLY_ORTHOGONAL
        )


def test_a_decomposition_that_fails_is_an_error_and_no_number(pairs, monkeypatch):
    def fail(_, full_matrices):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", fail)
    with pytest.raises(InputError, match=r"X: .*got SVD did not"):
        MultiStepMap().fit(*pairs)
