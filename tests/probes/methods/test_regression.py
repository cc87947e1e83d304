"""Ridge regression at every layer: scikit-learn as the reference, least squares of less than full
rank, and the choice of penalty."""

import ml_dtypes
import numpy as np
import pytest
import threadpoolctl
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crosslens.errors import InputError
from crosslens.probes.methods.linear.regression import LayerRidge
from crosslens.probes.methods.rows import BLOCK, TakenRows


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def stack(rng, n=200, d=8, layers=3, t=2):
    x = np.stack(
        [rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * 10.0**i + 30 for i in range(layers)]
    )
    answers = StandardScaler().fit_transform(x[0]) @ rng.normal(size=(d, t))
    return x, answers + rng.normal(size=(n, t)) + 7


@pytest.mark.parametrize("penalty", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_it_is_scikit_learns_ridge_on_standardised_features(rng, penalty, shape):
    layers, y = stack(rng)
    y = y if shape else y[:, 0]
    ridge = LayerRidge(penalty).fit(layers[:, :150], y[:150])
    assert ridge.predict(layers).shape == (3, 200, *shape)
    for i, x in enumerate(layers):
        other = make_pipeline(StandardScaler(), Ridge(alpha=penalty, solver="svd")).fit(
            x[:150], y[:150]
        )
        assert np.allclose(ridge.predict(layers)[i], other.predict(x), atol=1e-8)
        assert np.allclose(ridge.coef_[i], np.atleast_2d(other[-1].coef_), atol=1e-8)
        assert ridge.score(layers[:, 150:], y[150:])[i] == pytest.approx(
            r2_score(y[150:], other.predict(x[150:])), abs=1e-9
        )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_layers_on_disk_give_what_the_same_numbers_in_memory_give(rng, dtype, tmp_path):
    layers, y = stack(rng, n=BLOCK + 70)
    stored = layers.astype(dtype)
    stored.tofile(tmp_path / "layers")
    mapped = np.memmap(tmp_path / "layers", dtype, "r", shape=stored.shape)
    rows = rng.permutation(len(y))[: BLOCK + 5]
    there = LayerRidge().fit([TakenRows(layer, rows) for layer in mapped], y[rows])
    here = LayerRidge().fit(stored.astype(np.float32)[:, rows], y[rows])
    assert there.coef_.dtype == there.predict(mapped).dtype == np.float32
    assert np.array_equal(there.coef_, here.coef_) and np.array_equal(
        there.predict(mapped), here.predict(stored.astype(np.float32))
    )
    exact = Ridge(solver="svd").fit(
        StandardScaler().fit_transform(stored[1].astype(np.float64)[rows]), y[rows]
    )
    assert np.allclose(there.coef_[1], exact.coef_, atol=1e-4)


def test_without_a_penalty_it_is_least_squares_and_the_shortest_where_there_are_many(rng):
    layers, y = stack(rng)
    twice = np.concatenate([layers, layers[:, :, :3]], axis=2)  # three features are there twice
    few = twice[:, :5], y[:5]
    for x, targets in ((twice, y), few):
        ridge = LayerRidge(0.0).fit(x, targets)
        for i in range(3):
            z = StandardScaler().fit_transform(x[i])
            shortest = np.linalg.lstsq(z, targets - targets.mean(axis=0), rcond=1e-10)[0].T
            assert np.allclose(ridge.coef_[i], shortest, atol=1e-6)
    assert np.allclose(LayerRidge(0).fit(*few).predict(few[0]), few[1])


def test_each_layer_takes_the_penalty_with_the_highest_r2_in_development(rng):
    layers, y = stack(rng, n=130, d=20)
    layers[2] = rng.normal(size=(130, 20))
    penalties = (1.0, 1e5, 30.0)
    train, dev = slice(0, 30), slice(30, 130)
    ridge = LayerRidge(penalties).fit(layers[:, train], y[train], layers[:, dev], y[dev])
    alone = [
        LayerRidge(penalty).fit(layers[:, train], y[train]).score(layers[:, dev], y[dev])
        for penalty in penalties
    ]
    assert np.allclose(ridge.dev_r2_, np.array(alone).T, atol=1e-12)
    assert ridge.penalty_.tolist() == [penalties[k] for k in np.argmax(alone, axis=0)]
    assert len(set(ridge.penalty_)) > 1


def test_of_equal_penalties_the_strictest_is_taken(rng):
    layers = np.full((1, 20, 3), 0.1)
    y = rng.normal(size=20)
    ridge = LayerRidge((1.0, 100.0, 10.0)).fit(layers, y, layers, y)
    assert ridge.penalty_.tolist() == [100.0]
    assert not ridge.coef_.any() and np.allclose(ridge.predict(layers), y.mean())


def test_scale_and_shift_of_features_change_nothing_but_a_rotation_does(rng):
    layers, y = stack(rng)
    plain = LayerRidge(50).fit(layers, y).predict(layers)
    stretched = layers * np.geomspace(1e-3, 1e3, 8) - 40
    assert np.allclose(LayerRidge(50).fit(stretched, y).predict(stretched), plain, atol=1e-8)
    turned = layers @ np.linalg.qr(rng.normal(size=(8, 8)))[0]
    assert not np.allclose(LayerRidge(50).fit(turned, y).predict(turned), plain, atol=1e-3)


def test_far_means_cost_float32_no_digits(rng):
    layers, y = stack(rng)
    near, far = (
        LayerRidge().fit((layers - 30).astype(np.float32), y),
        LayerRidge().fit((layers[:, :, ::-1] * 2).astype(np.float32), y),
    )
    assert np.allclose(near.coef_, far.coef_[:, :, ::-1], atol=1e-4)


def test_the_number_of_threads_changes_no_bit(rng):
    layers, y = stack(rng, n=2000, d=30, layers=4)
    found = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads, "blas"):
            found.append(LayerRidge().fit(layers, y))
    assert np.array_equal(found[0].coef_, found[1].coef_)


def test_refusals(rng):
    layers, y = stack(rng)
    ridge = LayerRidge().fit(layers, y)
    broken = y.copy()
    broken[3, 1] = np.inf
    constant = y.copy()
    constant[:, 1] = 4
    for call, message in [
        (
            lambda: LayerRidge().fit(layers, y[1:]),
            (
                r"y: expected numbers of shape \(200,\) or \(200, t\), got an array of float64 of "
                r"shape \(199, 2\)"
            ),
        ),
        (lambda: LayerRidge().fit(layers, np.full(200, "a")), r"y: expected numbers of shape"),
        (
            lambda: LayerRidge().fit(layers, broken),
            r"y: expected finite numbers, got NaN or infinity in 1 row\(s\), the first is row 3",
        ),
        (
            lambda: LayerRidge((0, 1)).fit(layers, y),
            r"dev_layers: expected a dev split to choose among several penalties by",
        ),
        (
            lambda: LayerRidge().fit(layers, y, layers),
            r"dev_y: expected both dev_layers and dev_y, or neither, got None",
        ),
        (
            lambda: LayerRidge().fit(layers, y, None, y),
            r"dev_layers: expected both dev_layers and dev_y, or neither, got None",
        ),
        (
            lambda: LayerRidge().fit(layers, y, layers, y[:, 0]),
            r"dev_y: expected 2 number\(s\) for each row, as in y of fit, got 1",
        ),
        (
            lambda: LayerRidge().fit(layers, y, layers, constant),
            r"dev_y: expected numbers that vary, .*, got 4 in all 200 row\(s\) of column 1",
        ),
        (
            lambda: LayerRidge(-1).fit(layers, y),
            r"penalties: expected finite numbers 0 or above, got -1",
        ),
        (lambda: ridge.score(layers, y[:, 0]), r"y: expected 2 number\(s\) for each row"),
        (lambda: ridge.score(layers[:, :1], y[:1]), r"y: expected numbers that vary"),
        (lambda: ridge.predict(layers[:1]), r"layers: expected 3 layers, as in fit, got 1"),
        (
            lambda: LayerRidge().predict(layers),
            r"LayerRidge: expected a fitted probe, got one without coefficients",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            call()
