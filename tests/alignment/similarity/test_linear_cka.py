"""Linear CKA: Gram matrices by the book as the reference, invariances (and one that must not hold),
the jackknife by brute force."""

import numpy as np
import pytest

from crosslens.alignment import linear_cka, linear_cka_layers
from crosslens.alignment.similarity import linear_cka as similarity
from crosslens.errors import InputError


def gram_cka(x, y):
    """Kornblith et al. 2019, equations 3 and 4, with the centring matrix written out."""
    n = len(x)
    h = np.eye(n) - 1 / n
    k, m = ((h @ (side.astype(np.float64) @ side.T.astype(np.float64)) @ h) for side in (x, y))
    return np.trace(k @ m) / np.sqrt(np.trace(k @ k) * np.trace(m @ m))


def gram_debiased_cka(x, y):
    """Song et al. 2012, equation 5, term by term."""

    def hsic(k, m):
        n, one = len(k), np.ones(len(k))
        k, m = k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
        terms = (
            np.trace(k @ m)
            + (one @ k @ one) * (one @ m @ one) / ((n - 1) * (n - 2))
            - 2 / (n - 2) * (one @ k @ m @ one)
        )
        return terms / (n * (n - 3))

    k, m = (side.astype(np.float64) @ side.T.astype(np.float64) for side in (x, y))
    return hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m))


REFERENCES = {False: gram_cka, True: gram_debiased_cka}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def pair(rng):
    x = rng.normal(size=(60, 8)) * rng.uniform(0.2, 3, size=8)
    y = np.concatenate([x[:, :4] + rng.normal(size=(60, 4)), rng.normal(size=(60, 3))], axis=1)
    return x + 2, y - 1


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize(("n", "d"), [(60, 8), (9, 30), (4, 3)])
def test_it_is_the_formula_on_gram_matrices(rng, debiased, n, d):
    x = rng.normal(size=(n, d)) + 3
    y = x[:, : d - 1] ** 2 + rng.normal(size=(n, d - 1))
    assert linear_cka(x, y, debiased=debiased) == pytest.approx(
        REFERENCES[debiased](x, y), abs=1e-10
    )


@pytest.mark.parametrize("n", [2, 3])
def test_the_biased_one_needs_no_four_items(rng, n):
    x, y = rng.normal(size=(n, 5)), rng.normal(size=(n, 4))
    assert linear_cka(x, y) == pytest.approx(gram_cka(x, y), abs=1e-10)


@pytest.mark.parametrize("debiased", [False, True])
def test_rotation_scale_and_shift_of_a_side_change_nothing(rng, pair, debiased):
    x, y = pair
    turn, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    value = linear_cka(x, y, debiased=debiased)
    assert linear_cka(x, x @ turn * 5, debiased=debiased) == pytest.approx(1, abs=1e-12)
    assert linear_cka(x @ turn * 5 - 100, y, debiased=debiased) == pytest.approx(value, abs=1e-10)
    assert linear_cka(y, x, debiased=debiased) == pytest.approx(value, abs=1e-12)
    order = rng.permutation(60)
    assert linear_cka(x[order], y[order], debiased=debiased) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("debiased", [False, True])
def test_scaling_single_dimensions_and_unpairing_rows_do_change_it(rng, pair, debiased):
    x, y = pair
    value = linear_cka(x, y, debiased=debiased)
    assert abs(linear_cka(x * np.linspace(0.1, 10, 8), y, debiased=debiased) - value) > 0.05
    assert abs(linear_cka(x, y[::-1], debiased=debiased) - value) > 0.05


def test_unrelated_data_is_near_d_over_n_plus_d_when_biased_and_near_zero_when_debiased(rng):
    x, y = rng.normal(size=(100, 100)), rng.normal(size=(100, 100))
    assert linear_cka(x, y) == pytest.approx(0.5, abs=0.03)
    assert linear_cka(x, y, debiased=True) == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1, 1e18, 1e30])
def test_no_scale_is_too_small_or_too_large_for_float32(rng, debiased, scale):
    x = rng.normal(size=(50, 6)).astype(np.float32)
    y = (x + rng.normal(size=x.shape)).astype(np.float32)
    value = linear_cka(x * np.float32(scale), y, debiased=debiased)
    assert value == pytest.approx(REFERENCES[debiased](x, y), abs=1e-5)


@pytest.mark.parametrize("debiased", [False, True])
def test_outlier_dimensions_leave_float32_exact_to_1e_4(rng, debiased):
    x = rng.normal(size=(300, 48))
    y = x + rng.normal(size=x.shape)
    x[:, [5, 17]] += 300
    y[:, [5, 30]] -= 300
    value = linear_cka(x.astype(np.float32), y.astype(np.float32), debiased=debiased)
    assert value == pytest.approx(REFERENCES[debiased](x, y), abs=1e-4)


def test_blocks_of_rows_change_nothing(pair, monkeypatch):
    x, y = pair
    whole = linear_cka_layers([x, x**2], [y, y**2])
    alone = linear_cka(x, y), linear_cka(x, y, debiased=True)
    monkeypatch.setattr(similarity, "_BLOCK", 7)
    assert (linear_cka(x, y), linear_cka(x, y, debiased=True)) == pytest.approx(alone, abs=1e-12)
    parts = linear_cka_layers([x, x**2], [y, y**2])
    for name in ("biased", "debiased", "debiased_low", "debiased_high"):
        assert np.allclose(
            getattr(parts, name), getattr(whole, name), atol=1e-12, equal_nan=True
        ), name


@pytest.mark.parametrize(
    ("n", "dtype", "tolerance"),
    [
        (60, np.float64, 1e-9),
        (47, np.float64, 1e-9),
        (7, np.float64, 1e-9),
        (200, np.float32, 1e-4),
    ],
)
def test_layers_are_single_calls_and_have_intervals_around_them(rng, n, dtype, tolerance):
    xs = [
        (rng.normal(size=(n, d)) * rng.uniform(0.2, 3, size=d) + 5).astype(dtype) for d in (8, 5, 6)
    ]
    ys = [(x[:, :4] + rng.normal(size=(n, 4))).astype(dtype) for x in xs[:2]]
    if dtype == np.float32:
        # the references multiply before they centre: in float64 they are good to 1e-7 here, no
        # better
        xs[0][:, 2] += 300
    result = linear_cka_layers(xs, ys)
    assert result.n == n
    assert (
        result.biased.shape
        == result.debiased.shape
        == result.debiased_low.shape
        == result.debiased_high.shape
        == (3, 2)
    )
    for i, j in np.ndindex(3, 2):
        assert result.biased[i, j] == pytest.approx(gram_cka(xs[i], ys[j]), abs=tolerance)
        assert result.debiased[i, j] == pytest.approx(
            gram_debiased_cka(xs[i], ys[j]), abs=tolerance
        )
        assert result.debiased_low[i, j] < result.debiased[i, j] < result.debiased_high[i, j] <= 1


def test_an_interval_that_cannot_be_computed_is_nan_and_the_value_stays(rng):
    x = np.zeros((40, 2))
    x[[3, 23]] = rng.normal(size=(2, 2))  # all that varies is in group 3
    y = rng.normal(size=(40, 3))
    result = linear_cka_layers([x], [y])
    assert result.biased[0, 0] == pytest.approx(gram_cka(x, y), abs=1e-10)
    assert np.isnan([result.debiased_low[0, 0], result.debiased_high[0, 0]]).all()


def test_layers_may_come_from_a_generator_an_array_or_a_memory_map(rng, tmp_path):
    xs = rng.normal(size=(3, 30, 4)).astype(np.float32)
    expected = linear_cka_layers(list(xs), list(xs)).biased
    np.save(tmp_path / "xs.npy", xs)
    mapped = np.load(tmp_path / "xs.npy", mmap_mode="r")
    assert np.array_equal(linear_cka_layers((x for x in xs), xs).biased, expected)
    assert np.array_equal(linear_cka_layers(mapped, mapped).biased, expected)


def test_inputs_are_left_alone(rng):
    xs = rng.normal(size=(2, 30, 4)) + 3
    before = xs.copy()
    linear_cka_layers(xs, xs)
    linear_cka(xs[0], xs[1])
    assert np.array_equal(xs, before)


def test_refusals(rng):
    x = rng.normal(size=(10, 3))
    constant = np.full((10, 2), 0.1)
    with pytest.raises(InputError, match=r"x: .*got 10 equal row\(s\)"):
        linear_cka(constant, x)
    with pytest.raises(InputError, match=r"y: expected rows that differ"):
        linear_cka(x, constant.astype(np.float32), debiased=True)
    with pytest.raises(InputError, match=r"ys\[1\]: expected rows that"):
        linear_cka_layers([x], [x, constant])
    with pytest.raises(InputError, match=r"y: .*got 9 rows"):
        linear_cka(x, x[:9])
    with pytest.raises(InputError, match=r"x: expected at least 2 row"):
        linear_cka(x[:1], x[:1])
    with pytest.raises(InputError, match=r"x: expected at least 4 row"):
        linear_cka(x[:3], x[:3], debiased=True)
    with pytest.raises(InputError, match=r"xs\[0\]: expected at least"):
        linear_cka_layers([x[:4]], [x[:4]])
    with pytest.raises(InputError, match=r"ys\[1\]: .*got 9 rows"):
        linear_cka_layers([x, x], [x, x[:9]])
    with pytest.raises(InputError, match=r"ys: .*got none"):
        linear_cka_layers([x], [])
    with pytest.raises(InputError, match=r"xs\[1\]: .*got NaN or infinity"):
        linear_cka_layers([x, np.where(np.arange(10)[:, None] == 4, np.nan, x)], [x])
    alone = np.zeros((10, 3))
    alone[4] = 1  # one item apart from all others: the debiased variance is zero
    with pytest.raises(InputError, match=r"x: .*got a debiased"):
        linear_cka(alone, x, debiased=True)
    with pytest.raises(InputError, match=r"xs\[0\]: expected rows that"):
        linear_cka_layers([alone], [x])
    with pytest.raises(InputError, match=r"x: .*got an overflow"):
        linear_cka(np.array([[3.4e38], [3.4e38], [-3.4e38]], np.float32), x[:3])
