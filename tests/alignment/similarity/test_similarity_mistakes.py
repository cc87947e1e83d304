"""Inputs on which programs in use give a wrong similarity, each with the right answer here; the
wrong one, too, where it is short.

The mistakes: the last batch for the mean of all, a wrong denominator, products of uncentred
    float32, clamping, an epsilon in the
denominator, a ragged last batch, attention masks dropped, PWCCA weights from uncentred data, a
threshold or a convention left unsaid, biased for debiased, and centring left out.
"""

import numpy as np
import pytest

from crosslens.alignment.similarity.canonical import pwcca, svcca
from crosslens.alignment.similarity.cka_stream import LinearCKAStream, linear_cka_encoders
from crosslens.alignment.similarity.geometry import procrustes_distance
from crosslens.alignment.similarity.kernels import minibatch_cka, uncentred_cka
from crosslens.alignment.similarity.linear_cka import linear_cka, linear_cka_layers
from crosslens.errors import InputError


def streamed(x, y, rows=64):
    stream = LinearCKAStream()
    for at in range(0, len(x), rows):
        stream.update({"a": [x[at : at + rows]], "b": [y[at : at + rows]]})
    return stream.result()["a", "b"]


def every_way(x, y, debiased):
    """Linear CKA by each of the functions that give it."""
    kind = "debiased" if debiased else "biased"
    results = (
        linear_cka_layers([x], [y]),
        linear_cka_encoders({"a": [x], "b": [y]})["a", "b"],
        streamed(x, y),
    )
    return [
        linear_cka(x, y, debiased=debiased),
        *(float(getattr(result, kind)[0, 0]) for result in results),
    ]


@pytest.fixture
def rng():
    return np.random.default_rng(42)


@pytest.fixture
def pair(rng):
    x = rng.normal(size=(500, 24)) * np.linspace(0.3, 2, 24)
    return x, x + rng.normal(size=x.shape)


def test_the_mean_over_batches_and_not_the_last_batch(rng, pair):
    x, y = pair
    y = y.copy()
    y[400:] = rng.normal(size=(100, 24))  # the last batch is unrelated, the others are not
    last = linear_cka(x[400:], y[400:], debiased=True)
    assert abs(last) < 0.05
    assert minibatch_cka(x, y, batch=100) > 0.3
    for value in every_way(x, y, debiased=True):
        assert value == pytest.approx(minibatch_cka(x, y, batch=100), abs=0.1)


def test_the_denominator_makes_any_side_with_itself_1_at_any_size(pair):
    x, y = pair
    for scale in (1e-6, 1.0, 1e6):
        for debiased in (False, True):
            assert every_way(x, x * scale, debiased) == pytest.approx([1] * 4, abs=1e-12)
            assert every_way(x * scale, y, debiased) == pytest.approx(
                every_way(x, y, debiased), abs=1e-12
            )


def test_outlier_dimensions_in_float32_as_transformers_have_them(rng):
    x = rng.normal(size=(1000, 64))
    y = x + rng.normal(size=x.shape)
    x[:, [3, 40]] += 300
    y[:, [3, 9]] += 300
    truth = linear_cka(x, y), linear_cka(x, y, debiased=True)
    assert 0.45 < truth[1] < 0.55
    single = x.astype(np.float32), y.astype(np.float32)
    for debiased in (False, True):
        assert every_way(*single, debiased) == pytest.approx([truth[debiased]] * 4, abs=1e-4)
    # what goes wrong: Gram matrices first, and the centring afterwards
    k, m = (side @ side.T for side in single)
    for gram in (k, m):
        np.fill_diagonal(gram, 0)
    n = np.float32(1000)

    def unbiased(a, b):
        return (
            (a * b).sum()
            + a.sum() * b.sum() / ((n - 1) * (n - 2))
            - 2 / (n - 2) * (a.sum(0) @ b.sum(0))
        )

    with np.errstate(invalid="ignore"):
        wrong = unbiased(k, m) / np.sqrt(unbiased(k, k) * unbiased(m, m))
    assert not abs(wrong - truth[1]) < 0.05


def test_a_negative_debiased_value_is_given_and_not_cut_at_0():
    rng = np.random.default_rng(0)
    values = [linear_cka(*rng.normal(size=(2, 12, 6)), debiased=True) for _ in range(30)]
    assert min(values) < -0.05
    assert abs(np.mean(values)) < 0.1, "about 0 on average, which cutting would spoil"


def test_nan_is_refused_and_not_made_a_number(pair):
    x, y = pair
    broken = np.where(np.arange(500)[:, None] == 3, np.nan, x)
    for measure in (
        linear_cka,
        minibatch_cka,
        uncentred_cka,
        svcca,
        pwcca,
        procrustes_distance,
        streamed,
    ):
        with pytest.raises(InputError, match="expected finite numbers"):
            measure(broken, y)


def test_no_epsilon_rules_at_small_scale(pair):
    x, _ = pair
    tiny = (x * 1e-7).astype(np.float32)
    assert every_way(tiny, tiny, debiased=True) == pytest.approx([1] * 4, abs=1e-6)
    assert minibatch_cka(tiny, tiny) == pytest.approx(1, abs=1e-12)
    gram = tiny.astype(float) @ tiny.T.astype(float)
    hsic = np.sum(gram**2) / 499**2
    assert hsic / (hsic + 1e-8) < 0.1, "what an epsilon of 1e-8 would make of it"


@pytest.mark.parametrize("n", [257, 258, 259, 260, 300, 511, 512])
def test_a_ragged_last_batch(n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 4))
    y = x + rng.normal(size=x.shape)
    value = minibatch_cka(x, y, batch=256)
    assert np.isfinite(value)
    assert value == pytest.approx(linear_cka(x, y, debiased=True), abs=0.02)
    assert streamed(x, y, rows=256).debiased[0, 0] == pytest.approx(
        linear_cka(x, y, debiased=True), abs=1e-12
    )


def test_rows_of_padding_count_so_they_must_not_be_given(pair):
    """Masks are applied before vectors come here: rows are items. What padding would do is not
    small."""
    x, y = pair
    padded = [np.concatenate([side, np.full((500, 24), 9.0)]) for side in (x, y)]
    mask = np.arange(1000) < 500
    assert linear_cka(*padded) > linear_cka(x, y) + 0.2
    assert linear_cka(*(side[mask] for side in padded)) == linear_cka(x, y)


def test_pwcca_takes_its_weights_from_centred_data(rng, pair):
    x, _ = pair
    x = x[:, :4]
    y = np.hstack([x[:, :2], rng.normal(size=(500, 2))])
    assert pwcca(x + [0, 0, 0, 500], y) == pytest.approx(pwcca(x, y), abs=1e-10)


def test_the_threshold_of_svcca_is_on_squares(rng):
    """Singular values 10, 1, 1, …: one component holds 90 % of their squares, but not of the values
    themselves."""
    spectrum = np.array([10, 1, 1, 1, 1, 1, 1.0])
    shared, *others = rng.normal(size=(13, 200))
    sides = [np.stack([shared, *rest], axis=1) for rest in (others[:6], others[6:])]
    x, y = (np.linalg.qr(side - side.mean(axis=0))[0] * spectrum for side in sides)
    assert (
        np.square(spectrum[0]) / np.square(spectrum).sum()
        > 0.9
        > spectrum[:4].sum() / spectrum.sum()
    )
    assert svcca(x, y, variance=0.9) == pytest.approx(1, abs=1e-10)
    assert svcca(x, y, variance=0.97) < 0.6, "with more components the unrelated ones count"


def test_the_three_procrustes_distances_differ_and_are_named(pair):
    squared, root, angular = (
        procrustes_distance(*pair, convention=name) for name in ("squared", "root", "angular")
    )
    assert squared == procrustes_distance(*pair)
    assert root**2 == pytest.approx(squared, abs=1e-12)
    assert np.cos(angular) == pytest.approx(1 - squared / 2, abs=1e-12)
    assert len({round(value, 2) for value in (squared, root, angular)}) == 3


def test_biased_and_debiased_are_told_apart():
    """Independent data, n of the order of d: one says "alike", the other does not."""
    rng = np.random.default_rng(1)
    for n, expected in ((50, 0.94), (400, 0.66)):
        x, y = rng.normal(size=(2, n, 768)).astype(np.float32)
        assert every_way(x, y, debiased=False) == pytest.approx([expected] * 4, abs=0.01)
        assert every_way(x, y, debiased=True) == pytest.approx([0] * 4, abs=0.06)


def test_the_printed_formula_without_centring_is_another_number(rng):
    x = rng.normal(size=(1000, 16))
    y = 0.6 * x + 0.8 * rng.normal(size=x.shape)
    right = linear_cka(x, y)
    assert 0.3 < right < 0.45
    assert uncentred_cka(x + 1, y + 1) > right + 0.3
    assert every_way(x + 1, y + 1, debiased=False) == pytest.approx([right] * 4, abs=1e-12)


def test_golden_check_12():
    """Linear CKA of X and a scaled turn of X is 1; it is symmetric; the uncentred formula differs
    when the mean is not zero."""
    rng = np.random.default_rng(12)
    x, y = rng.normal(size=(2, 200, 10)) + 2
    turn, _ = np.linalg.qr(rng.normal(size=(10, 10)))
    assert every_way(x, x @ turn * 7, debiased=False) == pytest.approx([1] * 4, abs=1e-12)
    assert every_way(x, y, debiased=False) == pytest.approx(
        every_way(y, x, debiased=False), abs=1e-12
    )
    assert uncentred_cka(x, y) - linear_cka(x, y) > 0.5
