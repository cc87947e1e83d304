"""Least squares and ridge: numpy and scikit-learn as references, identities, what rank and residual
say, and every refusal."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from crosslens.alignment.maps.linear_maps import LeastSquares, pseudo_inverse, triangular_factor
from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.maps.vecmap_maps import MultiStepMap
from crosslens.errors import InputError, StoreError


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def pairs(rng):
    x = rng.normal(size=(60, 7)) + 3
    return x, x @ rng.normal(size=(7, 5)) + rng.normal(size=(60, 5)) - 2


def test_without_centring_it_is_numpys_lstsq(pairs):
    x, y = pairs
    solution, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    aligner = LeastSquares(centre=False).fit(x, y)
    assert np.allclose(aligner.matrix_, solution, atol=1e-12)
    assert aligner.rank_ == rank == 7


def test_with_centring_it_is_numpys_lstsq_with_a_column_of_ones(pairs):
    x, y = pairs
    solution = np.linalg.lstsq(np.hstack([x, np.ones((60, 1))]), y, rcond=None)[0]
    aligner = LeastSquares().fit(x, y)
    assert np.allclose(aligner.matrix_, solution[:-1], atol=1e-12)
    assert np.allclose(
        aligner.transform(x[:3]), np.hstack([x[:3], np.ones((3, 1))]) @ solution, atol=1e-12
    )


@pytest.mark.parametrize("penalty", [1e-3, 1, 50.0])
@pytest.mark.parametrize("centre", [True, False])
def test_with_a_penalty_it_is_scikit_learns_ridge(pairs, penalty, centre):
    x, y = pairs
    ridge = Ridge(alpha=penalty, fit_intercept=centre, solver="svd").fit(x, y)
    aligner = LeastSquares(penalty, centre=centre).fit(x, y)
    assert np.allclose(aligner.matrix_, ridge.coef_.T, atol=1e-12)
    assert np.allclose(aligner.transform(x), ridge.predict(x), atol=1e-11)


@pytest.mark.parametrize("penalty", [0, 0.3])
def test_ridge_and_least_squares_with_fewer_pairs_than_dimensions(rng, penalty):
    x, y = rng.normal(size=(6, 20)), rng.normal(size=(6, 4))
    aligner = LeastSquares(penalty).fit(x, y)
    centred_x, centred_y = x - x.mean(axis=0), y - y.mean(axis=0)
    expected = (
        np.linalg.pinv(centred_x) @ centred_y
        if not penalty
        else Ridge(alpha=penalty).fit(x, y).coef_.T
    )
    assert np.allclose(aligner.matrix_, expected, atol=1e-10)
    assert aligner.rank_ == 5  # six pairs, one spent on the mean
    assert (aligner.residual_ < 1e-12) == (not penalty)


def test_of_all_maps_that_fit_equally_it_is_the_smallest(rng):
    x, y = rng.normal(size=(4, 9)), rng.normal(size=(4, 3))
    aligner = LeastSquares(centre=False).fit(x, y)
    unseen = np.eye(9) - np.linalg.pinv(x) @ x  # what the pairs say nothing about
    other = aligner.matrix_ + unseen @ rng.normal(size=(9, 3))
    assert np.allclose(x @ other, y)
    assert np.linalg.norm(aligner.matrix_) < np.linalg.norm(other)
    assert np.abs(unseen @ aligner.matrix_).max() < 1e-12


def test_duplicated_columns_show_in_the_rank_and_change_no_prediction(pairs):
    x, y = pairs
    doubled = LeastSquares().fit(np.hstack([x, x[:, :2]]), y)
    assert doubled.rank_ == 7
    assert np.allclose(
        doubled.transform(np.hstack([x, x[:, :2]])),
        LeastSquares().fit(x, y).transform(x),
        atol=1e-10,
    )


def test_an_affine_map_of_any_shape_is_recovered_and_undone(rng):
    x, stretch = rng.normal(size=(50, 6)), rng.normal(size=(6, 9))
    aligner = LeastSquares().fit(x, x @ stretch + 4)
    assert aligner.residual_ < 1e-12
    assert np.allclose(aligner.matrix_, stretch, atol=1e-12)
    assert np.allclose(aligner.inverse_transform(x @ stretch + 4), x, atol=1e-10)


def test_the_inverse_into_more_dimensions_is_mapped_back_to_where_it_came_from(pairs, rng):
    aligner = LeastSquares().fit(*pairs)
    there = rng.normal(size=(8, 5))
    assert np.allclose(aligner.transform(aligner.inverse_transform(there)), there, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_inverse_does_not_amplify_directions_that_rounding_made(rng, dtype):
    x, y = rng.normal(size=(6, 20)).astype(dtype), rng.normal(size=(6, 20)).astype(dtype)
    aligner = LeastSquares().fit(x, y)
    assert (
        np.linalg.matrix_rank(pseudo_inverse(aligner.matrix_, np.dtype(dtype)), tol=1e-3)
        == aligner.rank_
        == 5
    )
    assert np.allclose(
        aligner.transform(aligner.inverse_transform(y)),
        y,
        atol=1e-4 if dtype == np.float32 else 1e-12,
    )


def test_it_fits_at_least_as_well_as_any_rotation_and_is_no_rotation(pairs, rng):
    x, y = pairs[0][:, :5], pairs[1]
    free, turned = LeastSquares().fit(x, y), Procrustes().fit(x, y)
    assert free.residual_ < turned.residual_
    assert not np.allclose(free.matrix_ @ free.matrix_.T, np.eye(5), atol=0.1)


def test_residual_is_that_of_the_training_pairs(pairs):
    x, y = pairs
    aligner = LeastSquares(20).fit(x, y)
    target = y - y.mean(axis=0)
    assert aligner.residual_ == pytest.approx(
        np.linalg.norm(aligner.transform(x) - y) / np.linalg.norm(target), rel=1e-12
    )


def test_a_growing_penalty_shrinks_the_map_to_the_mean(pairs):
    x, y = pairs
    fitted = [LeastSquares(penalty).fit(x, y) for penalty in (0, 1, 100, 1e12)]
    norms = [np.linalg.norm(aligner.matrix_) for aligner in fitted]
    residuals = [aligner.residual_ for aligner in fitted]
    assert norms == sorted(norms, reverse=True)
    assert residuals == sorted(residuals)
    assert np.allclose(fitted[-1].transform(x), y.mean(axis=0), atol=1e-6)


def test_a_rotated_source_gives_the_rotated_map_but_a_stretched_one_another_under_ridge(pairs, rng):
    x, y = pairs
    turn, _ = np.linalg.qr(rng.normal(size=(7, 7)))
    stretch = np.diag(np.linspace(0.5, 4, 7))
    for penalty in (0, 10):
        plain = LeastSquares(penalty).fit(x, y).transform(x)
        assert np.allclose(
            LeastSquares(penalty).fit(x @ turn, y).transform(x @ turn), plain, atol=1e-10
        )
        stretched = LeastSquares(penalty).fit(x @ stretch, y).transform(x @ stretch)
        assert np.allclose(stretched, plain, atol=1e-10) == (penalty == 0)


def test_normalise_makes_row_lengths_irrelevant(pairs, rng):
    x, y = pairs
    lengths = rng.uniform(1, 9, size=(60, 1))
    plain, scaled = (
        LeastSquares(normalise=True).fit(x, y),
        LeastSquares(normalise=True).fit(x * lengths, y / lengths),
    )
    assert np.allclose(plain.matrix_, scaled.matrix_, atol=1e-10)
    assert np.allclose(plain.transform(x), plain.transform(x * lengths), atol=1e-10)
    assert np.allclose(plain.inverse_transform(y), plain.inverse_transform(y * lengths), atol=1e-9)
    assert not np.allclose(
        LeastSquares().fit(x, y).matrix_,
        LeastSquares().fit(x * lengths, y / lengths).matrix_,
        atol=1e-3,
    )


def test_outlier_dimensions_and_an_ill_conditioned_side_do_not_cost_precision(rng):
    x = rng.normal(size=(300, 12)) * np.logspace(0, -6, 12)  # XᵀX would have condition 1e12
    x[:, 3] += 300
    stretch = rng.normal(size=(12, 12))
    aligner = LeastSquares().fit(x, x @ stretch)
    assert aligner.rank_ == 12
    assert np.abs(aligner.matrix_ - stretch).max() < 1e-5  # 1e-16 * 300 / 1e-6 = 3e-8 per value
    low = LeastSquares().fit(x.astype(np.float32), (x @ stretch).astype(np.float32))
    # every column holds its own differences; that another has a mean of 300 takes none away
    assert low.rank_ == 12
    mixed = ((x - x.mean(axis=0)) @ np.linalg.qr(rng.normal(size=(12, 12)))[0] + 300).astype(
        np.float32
    )
    # here float32 holds no differences of 1e-6 beside the mean
    assert LeastSquares().fit(mixed, x).rank_ < 12
    assert low.matrix_.dtype == np.float32
    assert np.abs(low.transform(x.astype(np.float32)) - x @ stretch).max() < 0.01


def test_the_rank_grows_with_no_dimension_and_falls_with_no_row(rng):
    """In float32 and float64 alike: a spectrum down to 1e-4, a column a thousand times as large,
    few and many rows and columns."""
    for n, d in ((50, 8), (9000, 8), (3000, 128)):
        x = (
            rng.normal(size=(n, d))
            * np.logspace(0, -4, d)
            @ np.linalg.qr(rng.normal(size=(d, d)))[0]
        )
        x[:, 0] *= 1000
        single, y = x.astype(np.float32), rng.normal(size=(n, 2)).astype(np.float32)
        fits = [
            LeastSquares().fit(single.astype(kind), y.astype(kind))
            for kind in (np.float32, np.float64)
        ]
        assert [fit.rank_ for fit in fits] == [d, d]
        assert (
            np.abs(
                fits[0].transform(single[:9]) - fits[1].transform(single[:9].astype(float))
            ).max()
            < 1e-3
        )
        assert MultiStepMap().fit(single, np.roll(single, 1, axis=1)).rank_ == d


def test_blocks_of_rows_change_nothing(pairs, monkeypatch):
    whole = LeastSquares().fit(*pairs)
    monkeypatch.setattr("crosslens.alignment.maps.linear_maps._BLOCK", 7)
    parts = LeastSquares().fit(*pairs)
    assert np.allclose(parts.matrix_, whole.matrix_, atol=1e-12)
    assert parts.residual_ == pytest.approx(whole.residual_, rel=1e-12)


@pytest.mark.parametrize("n", [3, 50])
def test_the_factor_has_the_inner_products_of_the_rows(rng, n):
    x, y = rng.normal(size=(n, 4)), rng.normal(size=(n, 6))
    a, b = triangular_factor(x, y, x.mean(axis=0), y.mean(axis=0), ("x", "y"))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    assert len(a) == len(b) == min(n, 10)
    assert all(
        np.allclose(small, large, atol=1e-12)
        for small, large in ((a.T @ a, x.T @ x), (a.T @ b, x.T @ y), (b.T @ b, y.T @ y))
    )


def test_integers_and_float16_will_do():
    x = np.array([[0, 1], [2, 0], [3, 5]])
    assert np.allclose(LeastSquares().fit(x, x * 2).matrix_, 2 * np.eye(2), atol=1e-6)
    assert (
        LeastSquares()
        .fit(x.astype(np.float16), x.astype(np.float16))
        .transform(x.astype(np.float16))
        .dtype
        == np.float32
    )


def test_a_saved_map_comes_back_and_is_taken_for_no_other(pairs, tmp_path):
    aligner = LeastSquares(np.float64(0.5), normalise=True).fit(*pairs)
    aligner.save(tmp_path / "map")
    loaded = LeastSquares.load(tmp_path / "map")
    assert loaded.get_params() == aligner.get_params()
    assert np.array_equal(loaded.transform(pairs[0]), aligner.transform(pairs[0]))
    with pytest.raises(StoreError, match=r"path: .*got .*LeastSquares.*"):
        Procrustes.load(tmp_path / "map")


def test_refusals(pairs, rng, monkeypatch):
    x, y = pairs
    for penalty in (-1, np.nan, np.inf, "much", None, True):
        with pytest.raises(InputError, match="penalty: expected"):
            LeastSquares().set_params(penalty=penalty).fit(x, y)
    with pytest.raises(InputError, match=r"Y: .*got 59 rows"):
        LeastSquares().fit(x, y[1:])
    with pytest.raises(InputError, match=r"X: .*got 60 equal row\(s\)"):
        LeastSquares().fit(np.ones_like(x), y)
    with pytest.raises(InputError, match=r"Y: .*got 60 equal row\(s\)"):
        LeastSquares().fit(x, np.ones_like(y))
    for side, arguments in (("X", (0 * x, y)), ("Y", (x, 0 * y))):
        with pytest.raises(InputError, match=rf"{side}: .*got 60 row\(s\)"):
            LeastSquares(centre=False).fit(*arguments)
    with pytest.raises(InputError, match=r"X: .*got 1 row\(s\)"):
        LeastSquares(normalise=True).fit(np.where(np.arange(60)[:, None] == 2, 0, x), y)
    with pytest.raises(InputError, match=r"X: .*got differences"):
        LeastSquares().fit(np.where(x > 3, 1e8, 1e8 + 8).astype(np.float32), y)
    with pytest.raises(InputError, match=r"X: .*got an overflow"):
        LeastSquares().fit((x * 1e-30).astype(np.float32), (y * 1e25).astype(np.float32))
    with pytest.raises(InputError, match=r"fit: .*got an overflow"):
        LeastSquares().fit(x * 1e30, y * 1e-30).inverse_transform(y.astype(np.float32))
    squares = r"expected values whose squares fit in float64 \(1e-140 to 1e\+140\), got .*; rescale"
    for name, factors in (
        ("X", (1e200, 1)),
        ("X", (1e-200, 1)),
        ("Y", (1, 1e-200)),
        ("Y", (1, 1e300)),
    ):
        with pytest.raises(InputError, match=f"{name}: {squares} {name}"):
            LeastSquares().fit(x * factors[0], y * factors[1])
    with pytest.raises(InputError, match=r"Y: .*got 4 columns"):
        LeastSquares().fit(x, y).inverse_transform(y[:, :4])
    with pytest.raises(InputError, match=r"LeastSquares: .*got one without"):
        LeastSquares().inverse_transform(y)


def test_a_decomposition_that_fails_is_an_error_and_no_number(pairs, monkeypatch):
    def fail(_, full_matrices):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", fail)
    with pytest.raises(InputError, match=r"X: .*got SVD did not"):
        LeastSquares().fit(*pairs)
