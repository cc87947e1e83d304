"""Canonical correlations against scikit-learn and a generalised eigenproblem; SVCCA and PWCCA
against their formulas."""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.cross_decomposition import CCA

from crosslens.alignment.similarity.canonical import canonical_correlations, mean_cca, pwcca, svcca
from crosslens.errors import InputError


def by_eigenproblem(x, y):
    """Canonical correlations and x's directions: ``C_xy C_yy⁻¹ C_yx w = ρ² C_xx w`` (Hotelling
    1936)."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    left = x.T @ y @ np.linalg.solve(y.T @ y, y.T @ x)
    values, directions = eigh(left, x.T @ x)
    order = np.argsort(values)[::-1][: min(x.shape[1], y.shape[1])]
    return np.sqrt(values[order]), directions[:, order], x


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def pair(rng):
    shared = rng.normal(size=(120, 3))
    x = np.hstack([shared * [5, 1, 0.5], rng.normal(size=(120, 2))]) @ rng.normal(size=(5, 5))
    y = np.hstack(
        [shared + 0.7 * rng.normal(size=(120, 3)), rng.normal(size=(120, 1))]
    ) @ rng.normal(size=(4, 4))
    return x + 3, y - 7


MEASURES = [mean_cca, svcca, pwcca]


def test_mean_cca_is_the_eigenproblem_and_scikit_learn(pair):
    value = mean_cca(*pair)
    assert value == pytest.approx(by_eigenproblem(*pair)[0].mean(), abs=1e-10)
    x, y = CCA(n_components=4, max_iter=5000, tol=1e-12).fit(*pair).transform(*pair)
    assert value == pytest.approx(
        np.mean([np.corrcoef(x[:, i], y[:, i])[0, 1] for i in range(4)]), abs=1e-6
    )


def test_svcca_is_cca_of_the_components_that_hold_the_variance(pair):
    def reduced(side, share):
        u, s, _ = np.linalg.svd(side - side.mean(axis=0), full_matrices=False)
        kept = next(k for k in range(1, len(s) + 1) if (s[:k] ** 2).sum() / (s**2).sum() >= share)
        return (u * s)[:, :kept]

    for share in (0.6, 0.9, 0.99):
        assert svcca(*pair, variance=share) == pytest.approx(
            mean_cca(*(reduced(side, share) for side in pair)), abs=1e-10
        )
    assert svcca(*pair, variance=1) == pytest.approx(mean_cca(*pair), abs=1e-12)
    assert svcca(*pair, variance=0.6) != pytest.approx(mean_cca(*pair), abs=0.01)


def test_pwcca_is_the_formula_of_morcos(pair):
    correlations, directions, x = by_eigenproblem(*pair)
    variables = x @ directions
    variables /= np.linalg.norm(variables, axis=0)
    weights = np.array([sum(abs(variables[:, i] @ x[:, j]) for j in range(5)) for i in range(4)])
    assert pwcca(*pair) == pytest.approx(weights @ correlations / weights.sum(), abs=1e-10)


def test_any_invertible_map_leaves_mean_cca_alone_and_moves_svcca(rng, pair):
    x, y = pair
    change = rng.normal(size=(5, 5)) * [1, 3, 0.2, 1, 9]
    assert mean_cca(x @ change + 50, y) == pytest.approx(mean_cca(x, y), abs=1e-10)
    assert mean_cca(x, x @ change) == pytest.approx(1, abs=1e-10)
    assert (
        abs(svcca(x @ np.diag([1, 1, 1, 1, 1e3]), y, variance=0.9) - svcca(x, y, variance=0.9))
        > 0.05
    )


def test_rotation_shift_and_scale_leave_svcca_alone(rng, pair):
    x, y = pair
    turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    assert svcca(x @ turn * 9 - 4, y, variance=0.9) == pytest.approx(
        svcca(x, y, variance=0.9), abs=1e-10
    )
    assert svcca(y, x, variance=0.9) == pytest.approx(svcca(x, y, variance=0.9), abs=1e-10)


def test_pwcca_weighs_by_its_first_side(rng, pair):
    x, y = pair
    turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    value = pwcca(x, y)
    assert pwcca(3 * x + 300, y @ rng.normal(size=(4, 4)) - 5) == pytest.approx(value, abs=1e-9)
    assert pwcca(y, x) != pytest.approx(value, abs=1e-3)
    assert pwcca(x @ turn, y) != pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("measure", MEASURES)
def test_pairing_matters(pair, measure):
    x, y = pair
    assert measure(x[::-1], y) < measure(x, y) - 0.1


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("scale", [1e-30, 1, 1e30])
def test_float32_with_outlier_dimensions_and_any_scale(pair, measure, scale):
    x, y = pair
    x = x + [0, 300, 0, 0, 300]
    single = (x * scale).astype(np.float32), y.astype(np.float32)
    assert measure(*single) == pytest.approx(measure(x, y), abs=1e-4)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_dependent_dimension_adds_nothing(pair, measure):
    x, y = pair
    wider = np.hstack([x, x[:, :1] - x[:, 1:2]])
    assert mean_cca(wider, y) == pytest.approx(mean_cca(x, y), abs=1e-10)
    before = wider.copy()
    measure(wider, y)
    assert np.array_equal(wider, before)


@pytest.mark.parametrize("decay", [2, 4])
@pytest.mark.parametrize("outlier", [1, 1000])
def test_float32_has_the_directions_of_float64_however_many_items(rng, decay, outlier):
    """The cut grew with n, and with the largest column: .98 in float32 was .75 in float64, of the
    same numbers."""
    n, d = 30_000, 12
    shared = rng.normal(size=(n, d))
    turns = [np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2)]
    # small directions are less alike: to leave them out shows
    noisy = shared + rng.normal(size=(n, d)) * np.linspace(0, 2, d)
    x, y = (
        side * np.logspace(0, -decay, d) @ turn
        for side, turn in zip((shared, noisy), turns, strict=True)
    )
    x[:, 0] *= outlier
    x, y = x.astype(np.float32), y.astype(np.float32)
    for measure in MEASURES:
        assert measure(x, y) == pytest.approx(measure(x.astype(float), y.astype(float)), abs=1e-9)
    found = canonical_correlations(x, y)
    assert (found.rank_x, found.rank_y) == (d, d)
    assert found.mean == pytest.approx(
        np.mean(1 / np.sqrt(1 + np.linspace(0, 2, d) ** 2)), abs=0.01
    )


def test_ranks_are_told(pair):
    x, y = pair
    found = canonical_correlations(
        np.hstack([x, x[:, :2], np.full((120, 1), 300)]).astype(np.float32), y
    )
    assert (found.rank_x, found.rank_y, len(found.values)) == (5, 4, 4)
    assert (found.mean, found.weights.sum()) == pytest.approx((mean_cca(x, y), 1), abs=1e-5)
    most = canonical_correlations(x, y, variance=0.6)
    assert most.rank_x < 5 and most.mean == svcca(x, y, variance=0.6)
    assert canonical_correlations(x, y).weighted == pwcca(x, y)


def test_refusals(rng):
    x = rng.normal(size=(10, 3))
    for measure in MEASURES:
        with pytest.raises(InputError, match=r"y: .*got 10 items with"):
            measure(x, rng.normal(size=(10, 30)))
        with pytest.raises(InputError, match=r"x: .*got 10 equal"):
            measure(np.full((10, 2), 0.1), x)
        with pytest.raises(InputError, match=r"y: .*got 9 rows"):
            measure(x, x[:9])
        with pytest.raises(InputError, match=r"x: expected finite numbers"):
            measure(np.where(x == x[0, 0], np.nan, x), x)
        with pytest.raises(InputError, match=r"x: expected at least 3 row"):
            measure(x[:2], x[:2])
    with pytest.raises(InputError, match="x: expected rows that"):
        mean_cca(1 + 1e-8 * x, x)
    for share in (0, 1.5, True, float("nan")):
        with pytest.raises(InputError, match="variance: expected"):
            svcca(x, x, variance=share)
