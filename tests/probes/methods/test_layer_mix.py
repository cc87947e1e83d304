"""The mix of layers: its gradient by differences, one layer as the plain probe, and which layer it
finds the answer in."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning

from crosslens.errors import InputError
from crosslens.probes.methods.evaluation import probe_layers
from crosslens.probes.methods.linear.layer_mix import LayerMix, MixedSurprise, MixProbe
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.linear import LinearProbe
from crosslens.probes.methods.rows import BLOCK, StandardisedLayer
from crosslens.probes.methods.splits import Parts


@pytest.fixture
def rng():
    return np.random.default_rng(6)


def stack(rng, knowing, n=300, d=5, layers=4, classes=3):
    """Layers of noise, but for those that know the class."""
    y = rng.integers(0, classes, size=n)
    x = rng.normal(size=(layers, n, d)) * 3 + 10
    for layer in knowing:
        x[layer] += 6 * rng.normal(size=(classes, d))[y]
    return x, np.array(["deu", "eng", "fra"])[y]


def plain(layers, codes, classes, penalty, unknowns):
    """The documented objective, written out."""
    weights = softmax(unknowns[-len(layers) :])
    at = unknowns[: -len(layers)].reshape(classes, -1)
    mixed = sum(
        weight * (layer.source - layer.mean) / layer.scale
        for weight, layer in zip(weights, layers, strict=True)
    )
    logs = log_softmax(mixed @ at[:, :-1].T + at[:, -1], axis=1)
    return -logs[np.arange(len(codes)), codes].mean() + penalty * np.square(at[:, :-1]).sum() / 2


@pytest.mark.parametrize("n", [40, BLOCK + 3])
def test_value_and_gradient_are_those_of_the_documented_objective(rng, n):
    x, y = stack(rng, [1], n=n, layers=3)
    layers, codes = (
        [StandardisedLayer.of(layer, "x") for layer in x],
        np.unique(y, return_inverse=True)[1],
    )
    objective = MixedSurprise(layers, codes, 3, 0.2)
    unknowns = rng.normal(size=3 * 6 + 3)
    value, gradient = objective(unknowns)
    assert value == pytest.approx(plain(layers, codes, 3, 0.2, unknowns), rel=1e-12)
    for i in range(len(unknowns)):
        step = 1e-5 * np.eye(len(unknowns))[i]
        slope = (
            plain(layers, codes, 3, 0.2, unknowns + step)
            - plain(layers, codes, 3, 0.2, unknowns - step)
        ) / 2e-5
        assert gradient[i] == pytest.approx(slope, abs=1e-8)


def test_it_ends_where_scipy_ends_from_the_same_start(rng):
    x, y = stack(rng, [0, 2], n=120, d=3, layers=3)
    layers, codes = (
        [StandardisedLayer.of(layer, "x") for layer in x],
        np.unique(y, return_inverse=True)[1],
    )
    mix = LayerMix(C=0.1).fit(x, y)
    best = minimize(
        lambda unknowns: plain(layers, codes, 3, 1 / (0.1 * 120), unknowns),
        np.zeros(3 * 4 + 3),
        tol=1e-10,
    )
    assert mix.loss_ == pytest.approx(best.fun, rel=1e-4)
    assert np.allclose(mix.weights_, softmax(best.x[-3:]), atol=0.01)


@pytest.mark.parametrize("known", [0, 3])
def test_the_layer_that_knows_the_answer_gets_the_weight(rng, known):
    x, y = stack(rng, [known])
    mix = LayerMix().fit(x[:, :200], y[:200])
    assert (
        mix.weights_.shape == (4,)
        and mix.weights_.sum() == pytest.approx(1, abs=1e-12)
        and (mix.weights_ > 0).all()
    )
    assert mix.weights_.argmax() == known and mix.weights_[known] > 0.6
    assert mix.score(x[:, 200:], y[200:]) > 0.8


def test_weights_follow_the_layers(rng):
    x, y = stack(rng, [1])
    plain, turned = LayerMix().fit(x, y), LayerMix().fit(x[::-1], y)
    assert np.allclose(plain.weights_, turned.weights_[::-1], atol=1e-3)


def test_copies_of_a_layer_share_evenly_what_one_would_get(rng):
    x, y = stack(rng, [0], layers=1)
    alone, twice = LayerProbe(1.0).fit(x, y), LayerMix(1.0).fit(np.concatenate([x, x]), y)
    assert np.allclose(twice.weights_, 0.5)
    assert np.allclose(twice.coef_, alone.coef_[0], atol=2e-3)


@pytest.mark.parametrize("classes", [2, 3])
def test_one_layer_is_the_plain_probe(rng, classes):
    x, y = stack(rng, [0], layers=1, classes=classes)
    alone, mix = LinearProbe(0.5).fit(x[0], y), LayerMix(0.5).fit(x, y)
    assert mix.weights_.tolist() == [1.0]
    right = alone.predict_proba(x[0])[np.arange(len(y)), np.searchsorted(alone.classes_, y)]
    lowest = -np.log(right, dtype=np.float64).mean() + np.square(
        alone.coef_, dtype=np.float64
    ).sum() / (2 * 0.5 * len(y))
    assert mix.loss_ == pytest.approx(lowest, rel=1e-6)
    assert mix.coef_.shape == (1 if classes == 2 else 3, 5)
    assert np.allclose(mix.predict_proba(x), alone.predict_proba(x[0]), atol=1e-3)
    assert np.array_equal(mix.predict(x), mix.classes_[mix.predict_proba(x).argmax(axis=1)])


def test_answers_are_those_of_the_mixed_vectors(rng):
    x, y = stack(rng, [1, 2])
    mix = LayerMix().fit(x, y)
    z = np.einsum("l,lnd->nd", mix.weights_, (x - mix.mean_[:, None]) / mix.scale_[:, None])
    assert np.allclose(
        mix.predict_proba(x), softmax(z @ mix.coef_.T + mix.intercept_, axis=1), atol=1e-9
    )


def test_float32_stays_and_agrees_with_float64(rng):
    x, y = stack(rng, [1])
    low, high = LayerMix().fit(x.astype(np.float32), y), LayerMix().fit(x, y)
    assert (
        low.coef_.dtype == np.float32
        and low.predict_proba(x.astype(np.float32)).dtype == np.float32
    )
    assert np.allclose(low.weights_, high.weights_, atol=1e-2)


def test_refusals_and_early_stops(rng):
    x, y = stack(rng, [1])
    mix = LayerMix().fit(x, y)
    with pytest.warns(ConvergenceWarning, match=r"max_iter: .*got none in 1"):
        LayerMix(max_iter=1).fit(x, y)
    for call, message in [
        (lambda: LayerMix(C=0).fit(x, y), r"C: expected finite numbers above 0, got 0"),
        (lambda: LayerMix().fit(x, y[1:]), r"y: expected 300 labels, one per row"),
        (
            lambda: LayerMix().fit(x, np.full(300, "a")),
            r"y: expected at least two classes, got only a",
        ),
        (
            lambda: LayerMix().fit(x[0], y),
            r"layers: expected layers of shape \(L, n, d\), got an array of shape \(300, 5\)",
        ),
        (lambda: mix.predict(x[:3]), r"layers: expected 4 layers, as in fit, got 3"),
        (lambda: mix.score(x[:, :1], ["ita"]), r"y: expected labels seen in fit, got 'ita'"),
        (
            lambda: LayerMix().predict(x),
            (
                r"LayerMix: expected a fitted probe, got one without coefficients; call "
                r"fit\(layers, y\) first"
            ),
        ),
    ]:
        with pytest.raises(InputError, match=message):
            call()


def test_the_penalty_is_the_one_that_is_best_on_dev(rng):
    x, y = stack(rng, [1], n=150, d=8, layers=3)
    x[1] += 30 * rng.normal(size=x[1].shape)  # hard enough for the penalty to matter
    train, dev = x[:, :60], x[:, 60:]
    mixes = {c: LayerMix(c).fit(train, y[:60]) for c in (0.001, 0.1, 10.0)}
    reached = {
        c: (
            mix.score(dev, y[60:]),
            np.log(
                mix.predict_proba(dev)[np.arange(90), np.searchsorted(mix.classes_, y[60:])]
            ).mean(),
        )
        for c, mix in mixes.items()
    }
    probe = MixProbe((10.0, 0.001, 0.1)).fit(train, y[:60], dev, y[60:])
    assert (
        probe.C_.tolist() == [max(reached, key=lambda c: reached[c])]
        and len({one for one, _ in reached.values()}) > 1
    )
    assert (
        probe.predict(dev) == mixes[probe.C_[0]].predict(dev)
    ).all() and probe.again().penalties == probe.C_[0]
    with pytest.raises(InputError, match="dev_layers: expected a dev split"):
        MixProbe((0.1, 1.0)).fit(train, y[:60])


def test_a_mix_has_the_controls_of_a_layer(rng):
    x, y = stack(rng, [1], n=200, layers=3)
    result = probe_layers(
        x,
        y,
        Parts(range(120), range(150, 200), range(120, 150)),
        probe=MixProbe((0.1, 1.0)),
        random_layers=x,
        seeds=(0,),
    )
    assert (
        result.answers.given.shape == (1, 50)
        and result.weights.shape == (3,)
        and result.weights.argmax() == 1
    )
    assert (
        result.C.shape == (1,)
        and result.resampled.shape == (1, 1)
        and result.control.selectivity[0] > 0.3
    )
    assert (result.random_encoder.given == result.answers.given).all()
