"""The probe with a hidden layer: what only it can tell, where it stops, and that a seed fixes
it."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

from crosslens.errors import InputError
from crosslens.probes.methods.evaluation import probe_layers
from crosslens.probes.methods.linear.linear import LinearProbe
from crosslens.probes.methods.linear.mlp_probe import LayerMLP, MLPProbe
from crosslens.probes.methods.splits import Parts


@pytest.fixture
def rng():
    return np.random.default_rng(9)


def quadrants(rng, n=600):
    """Whether the signs of two features are alike: no line tells. One answer in ten is wrong, so
    that learning has an end."""
    x = rng.normal(size=(n, 3)) * [1, 50, 1] + [0, 0, 9]
    return x, np.where((x[:, 0] * x[:, 1] > 0) ^ (rng.random(n) < 0.1), "same", "other")


def test_it_tells_what_no_line_can(rng):
    x, y = quadrants(rng)
    probe = MLPProbe(patience=5).fit(x[:400], y[:400], x[400:500], y[400:500])
    assert (
        probe.score(x[500:], y[500:])
        > 0.8
        > 0.7
        > LinearProbe().fit(x[:400], y[:400]).score(x[500:], y[500:])
    )
    assert probe.classes_.tolist() == ["other", "same"]


def test_the_weights_kept_are_those_of_the_lowest_surprise_in_development(rng):
    """Epoch by epoch with scikit-learn's network alone; labels of noise, so that it soon learns too
    much."""
    x = rng.normal(size=(130, 20))
    y = np.where(x[:, 0] + 0.5 * rng.normal(size=130) > 0, 1, 0)
    probe = MLPProbe(hidden=200, patience=10, seed=3).fit(x[:30], y[:30], x[30:], y[30:])
    z = (x - x[:30].mean(axis=0)) / x[:30].std(axis=0)
    network = MLPClassifier((200,), random_state=np.random.RandomState(3))
    losses = []
    for _ in probe.network_.loss_curve_:
        network.partial_fit(z[:30], y[:30], classes=[0, 1])
        losses.append(log_loss(y[30:], network.predict_proba(z[30:])))
    assert probe.n_iter_ == np.argmin(losses) + 1 < len(losses)
    assert probe.dev_loss_ == pytest.approx(min(losses), abs=1e-12)
    assert log_loss(y[30:], probe.predict_proba(x[30:])) == pytest.approx(min(losses), abs=1e-9)
    assert losses[-1] > min(losses) + 1e-4


@pytest.mark.filterwarnings("ignore:max_epochs")
def test_a_seed_fixes_it(rng):
    x, y = quadrants(rng, 200)
    first, second, other = (
        MLPProbe(8, patience=2, max_epochs=20, seed=s).fit(x[:150], y[:150], x[150:], y[150:])
        for s in (1, 1, 2)
    )
    assert np.array_equal(first.predict_proba(x), second.predict_proba(x))
    assert not np.allclose(first.predict_proba(x), other.predict_proba(x))


@pytest.mark.filterwarnings("ignore:max_epochs")
def test_scale_and_shift_of_features_change_nothing(rng):
    x, y = quadrants(rng, 200)
    plain = MLPProbe(8, max_epochs=20).fit(x[:150], y[:150], x[150:], y[150:]).predict_proba(x)
    moved = x * [1e3, 1, 0.1] - 7
    assert np.allclose(
        MLPProbe(8, max_epochs=20)
        .fit(moved[:150], y[:150], moved[150:], y[150:])
        .predict_proba(moved),
        plain,
        atol=1e-6,
    )


def test_three_classes_and_float32(rng):
    codes = rng.integers(0, 3, size=300)
    x = (1.5 * np.eye(3)[codes] + rng.normal(size=(300, 3))).astype(np.float32)
    probe = MLPProbe(50, patience=2).fit(x[:200], codes[:200], x[200:], codes[200:])
    probabilities = probe.predict_proba(x)
    assert probabilities.dtype == np.float32 and np.allclose(
        probabilities.sum(axis=1), 1, atol=1e-5
    )
    assert (
        np.array_equal(probe.predict(x), probabilities.argmax(axis=1))
        and probe.score(x, codes) > 0.6
    )


def test_refusals_and_early_ends(rng):
    x, y = quadrants(rng, 100)
    with pytest.warns(ConvergenceWarning, match=r"max_epochs: .*got none of it"):
        probe = MLPProbe(max_epochs=2).fit(x, y, x, y)
    for call, message in [
        (
            lambda: MLPProbe().fit(x, y, x[:, :2], y),
            r"dev_X: expected 3 columns, as in X, got 2 columns",
        ),
        (
            lambda: MLPProbe().fit(x, y, x, np.full(100, "a")),
            r"dev_y: expected labels seen in fit, got 'a'",
        ),
        (lambda: MLPProbe().fit(x, y, x, y[1:]), r"dev_y: expected 100 labels, one per row"),
        (
            lambda: MLPProbe().fit(x, np.full(100, "a"), x, y),
            r"y: expected at least two classes, got only a",
        ),
        (
            lambda: MLPProbe(hidden=0).fit(x, y, x, y),
            r"hidden: expected a whole number from 1 up, got 0",
        ),
        (
            lambda: MLPProbe(patience=0).fit(x, y, x, y),
            r"patience: expected a whole number from 1 up, got 0",
        ),
        (
            lambda: MLPProbe(max_epochs=0).fit(x, y, x, y),
            r"max_epochs: expected a whole number from 1 up, got 0",
        ),
        (
            lambda: MLPProbe(penalty=-1).fit(x, y, x, y),
            r"penalty: expected finite numbers 0 or above, got -1",
        ),
        (
            lambda: MLPProbe(seed=-1).fit(x, y, x, y),
            r"seed: expected a whole number from 0 up, got -1",
        ),
        (lambda: probe.predict(x[:, :2]), r"X: expected 3 columns, as in fit, got 2 columns"),
        (lambda: probe.score(x[:1], ["a"]), r"y: expected labels seen in fit, got 'a'"),
        (
            lambda: MLPProbe().predict(x),
            (
                r"MLPProbe: expected a fitted probe, got one without weights; call fit\(X, y, "
                r"dev_X, dev_y\) first"
            ),
        ),
    ]:
        with pytest.raises(InputError, match=message):
            call()


def test_layers_refuse_what_a_single_probe_does(rng):
    x, y = quadrants(rng, 60)
    with pytest.raises(InputError, match=r"dev_layers: expected a dev split, .*got None"):
        probe_layers([x], y, Parts(range(40), range(40, 60)), probe=LayerMLP(4))
    with pytest.raises(InputError, match=r"dev_layers: expected 2 layers"):
        LayerMLP(4).fit([x, x], y, [x], y)
    with pytest.raises(InputError, match=r"layers: expected 1 layers, as in fit, got 2"):
        LayerMLP(4).fit([x[:40]], y[:40], [x[40:]], y[40:]).predict([x, x])
