"""Gaussian-kernel CKA, CKA without centring and minibatch CKA: formulas written out with loops, and
what must and must not change them."""

import tracemalloc

import numpy as np
import pytest

from crosslens.alignment.similarity import kernels
from crosslens.alignment.similarity.kernels import minibatch_cka, rbf_cka, uncentred_cka
from crosslens.alignment.similarity.linear_cka import linear_cka
from crosslens.errors import InputError


def hsic_biased(k, m):
    h = np.eye(len(k)) - 1 / len(k)
    return np.trace(k @ h @ m @ h)


def hsic_unbiased(k, m):
    """Song et al. 2012, equation 5, term by term."""
    n, one = len(k), np.ones(len(k))
    k, m = k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
    terms = (
        np.trace(k @ m)
        + (one @ k @ one) * (one @ m @ one) / ((n - 1) * (n - 2))
        - 2 / (n - 2) * (one @ k @ m @ one)
    )
    return terms / (n * (n - 3))


HSIC = {False: hsic_biased, True: hsic_unbiased}


def gaussian(x, width):
    n = len(x)
    squared = np.array([[np.sum((x[i] - x[j]) ** 2) for j in range(n)] for i in range(n)])
    sigma = width * np.median([np.sqrt(squared[i, j]) for i in range(n) for j in range(i)])
    return np.exp(-squared / (2 * sigma**2))


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def pair(rng):
    x = rng.normal(size=(41, 6)) * rng.uniform(0.2, 3, size=6)
    y = np.concatenate([x[:, :3] ** 2 + rng.normal(size=(41, 3)), rng.normal(size=(41, 2))], axis=1)
    return x + 2, y - 1


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("width", [0.3, 1.0, 2.5])
def test_rbf_cka_is_the_formula(pair, width, debiased):
    k, m = (gaussian(side, width) for side in pair)
    hsic = HSIC[debiased]
    expected = hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m))
    assert rbf_cka(*pair, width=width, debiased=debiased) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4])  # an odd and an even number of distances
def test_rbf_cka_of_a_few_items(rng, n):
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
    k, m = gaussian(x, 1), gaussian(y, 1)
    assert rbf_cka(x, y) == pytest.approx(
        hsic_biased(k, m) / np.sqrt(hsic_biased(k, k) * hsic_biased(m, m)), abs=1e-12
    )


def test_a_wide_kernel_makes_rbf_cka_linear(pair):
    assert rbf_cka(*pair, width=100) == pytest.approx(linear_cka(*pair), abs=1e-3)
    assert abs(rbf_cka(*pair, width=0.5) - linear_cka(*pair)) > 0.05


@pytest.mark.parametrize(
    "measure", [lambda x, y: rbf_cka(x, y, width=0.7), lambda x, y: minibatch_cka(x, y, batch=10)]
)
def test_rotation_scale_shift_and_sides_change_nothing_but_the_scale_of_one_dimension_does(
    rng, pair, measure
):
    x, y = pair
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    value = measure(x, y)
    assert measure(x @ turn * 5 - 100, y) == pytest.approx(value, abs=1e-10)
    assert measure(y, x) == pytest.approx(value, abs=1e-12)
    assert measure(x, x @ turn * 5 + 9) == pytest.approx(1, abs=1e-10)
    assert abs(measure(x * np.linspace(0.01, 10, 6), y) - value) > 0.02


def test_order_of_items_is_nothing_to_rbf_cka_and_something_to_batches(rng, pair):
    x, y = pair
    order = rng.permutation(41)
    assert rbf_cka(x[order], y[order]) == pytest.approx(rbf_cka(x, y), abs=1e-12)
    assert minibatch_cka(x[order], y[order], batch=10) != pytest.approx(
        minibatch_cka(x, y, batch=10), abs=1e-4
    )


def test_uncentred_cka_is_the_printed_formula(pair):
    x, y = pair
    expected = np.linalg.norm(y.T @ x) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))
    assert uncentred_cka(x, y) == pytest.approx(expected, abs=1e-12)


def test_uncentred_cka_stands_rotation_and_scale_but_no_shift(rng, pair):
    x, y = pair
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    value = uncentred_cka(x, y)
    assert uncentred_cka(x @ turn * 5, y) == pytest.approx(value, abs=1e-12)
    assert uncentred_cka(x, x @ turn * 5) == pytest.approx(1, abs=1e-12)
    assert uncentred_cka(x + 50, y + 50) > 0.99 > value + 0.1
    centred = (side - side.mean(axis=0) for side in pair)
    assert uncentred_cka(*centred) == pytest.approx(linear_cka(x, y), abs=1e-12)


@pytest.mark.parametrize(
    ("batch", "cuts"),
    [(10, [0, 10, 20, 30, 41]), (12, [0, 12, 24, 36, 41]), (20, [0, 20, 41]), (39, [0, 41])],
)
def test_minibatch_cka_averages_over_items_in_batches_and_a_rest_below_four_joins_the_last(
    pair, batch, cuts
):
    grams = [
        [side[a:b] @ side[a:b].T for side in pair] for a, b in zip(cuts, cuts[1:], strict=False)
    ]

    def mean(i, j):
        return np.average(
            [hsic_unbiased(gram[i], gram[j]) for gram in grams], weights=np.diff(cuts)
        )

    assert minibatch_cka(*pair, batch=batch) == pytest.approx(
        mean(0, 1) / np.sqrt(mean(0, 0) * mean(1, 1)), abs=1e-12
    )


@pytest.mark.parametrize("batch", [41, 1000])
def test_one_batch_is_the_debiased_cka(pair, batch):
    assert minibatch_cka(*pair, batch=batch) == pytest.approx(
        linear_cka(*pair, debiased=True), abs=1e-12
    )


@pytest.mark.parametrize("measure", [rbf_cka, uncentred_cka, minibatch_cka])
def test_float32_with_outlier_dimensions_is_within_1e_4_of_float64(rng, measure):
    x = rng.normal(size=(300, 48))
    y = x + rng.normal(size=x.shape)
    x[:, [5, 17]] += 300
    y[:, [5, 30]] -= 300
    assert measure(x.astype(np.float32), y.astype(np.float32)) == pytest.approx(
        measure(x, y), abs=1e-4
    )


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e18, 1e30])
@pytest.mark.parametrize("measure", [rbf_cka, uncentred_cka, minibatch_cka])
def test_no_scale_is_too_small_or_too_large_for_float32(rng, measure, scale):
    x = rng.normal(size=(50, 6)).astype(np.float32)
    y = (x + rng.normal(size=x.shape)).astype(np.float32)
    assert measure(x * np.float32(scale), y) == pytest.approx(measure(x, y), abs=1e-5)


@pytest.mark.parametrize("measure", [rbf_cka, uncentred_cka, minibatch_cka])
def test_inputs_are_left_alone(rng, measure):
    sides = rng.normal(size=(2, 30, 4)) + 3
    before = sides.copy()
    measure(*sides)
    assert np.array_equal(sides, before)


def test_refusals(rng):
    x = rng.normal(size=(10, 3))
    constant = np.full((10, 2), 0.1)
    copies = np.repeat(rng.normal(size=(2, 3)), [9, 1], axis=0)
    alone = np.zeros((10, 3))
    alone[4] = 1
    huge = np.array([[3.4e38], [-3.4e38], [0]], np.float32)
    with pytest.raises(InputError, match=r"width: .*got 0"):
        rbf_cka(x, x, width=0)
    with pytest.raises(InputError, match=r"width: .*got nan"):
        rbf_cka(x, x, width=float("nan"))
    with pytest.raises(InputError, match=r"y: .*got copies in at"):
        rbf_cka(x, copies)
    for measure in (rbf_cka, minibatch_cka):
        with pytest.raises(InputError, match=r"y: .*got 10 equal row\(s\)"):
            measure(x, constant)
    with pytest.raises(InputError, match=r"x: expected at least 4 row"):
        rbf_cka(x[:3], x[:3], debiased=True)
    with pytest.raises(InputError, match=r"x: expected at least 4 row"):
        minibatch_cka(x[:3], x[:3])
    with pytest.raises(InputError, match=r"batch: .*got 3"):
        minibatch_cka(x, x, batch=3)
    with pytest.raises(InputError, match=r"x: .*got a variance"):
        minibatch_cka(alone, x)
    with pytest.raises(InputError, match=r"y: .*got 10 row\(s\)"):
        uncentred_cka(x, 0 * x)
    for measure in (rbf_cka, uncentred_cka, minibatch_cka):
        with pytest.raises(InputError, match=r"y: .*got 9 rows"):
            measure(x, x[:9])
        with pytest.raises(InputError, match=r"x: .*got NaN or infinity"):
            measure(np.where(np.arange(10)[:, None] == 2, np.inf, x), x)
    assert rbf_cka(huge, x[:3]) == pytest.approx(rbf_cka(huge.astype(float), x[:3]), abs=1e-6)


def test_memory_for_all_pairs_is_asked_for_before_it_is_taken(monkeypatch):
    asked = []
    monkeypatch.setattr(kernels, "need_memory", lambda size, *_: asked.append(size))
    x = np.random.default_rng(0).normal(size=(600, 8))
    rbf_cka(x, x[::-1])  # what it loads once is loaded
    tracemalloc.start()
    rbf_cka(x, x[::-1])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.7 * asked[1] < peak < asked[1]
