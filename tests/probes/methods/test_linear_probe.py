"""The linear probe: scikit-learn's pipeline as the reference, what standardisation must do, and
every refusal."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crosslens.errors import InputError
from crosslens.probes import LinearProbe


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def blobs(rng, classes, n=150, d=6, apart=1.0):
    labels = np.array(["deu", "eng", "fra", "swa"])[:classes]
    y = rng.integers(0, classes, size=n)
    x = apart * rng.normal(size=(classes, d))[y] + rng.normal(size=(n, d))
    return x * rng.uniform(0.1, 20, size=d) + 5, labels[y]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("strength", [0.05, 1.0])
def test_it_is_scikit_learns_standardised_logistic_regression(rng, classes, strength):
    x, y = blobs(rng, classes)
    probe = LinearProbe(C=strength).fit(x[:100], y[:100])
    reference = make_pipeline(
        StandardScaler(), LogisticRegression(C=strength, tol=1e-9, max_iter=5000)
    ).fit(x[:100], y[:100])
    assert np.allclose(probe.predict_proba(x[100:]), reference.predict_proba(x[100:]), atol=1e-4)
    assert np.allclose(probe.coef_, reference[-1].coef_, atol=1e-3)
    assert np.array_equal(probe.predict(x[100:]), reference.predict(x[100:]))
    assert probe.score(x[100:], y[100:]) == reference.score(x[100:], y[100:])
    assert probe.classes_.tolist() == reference.classes_.tolist()


def test_it_reaches_the_minimum_of_the_documented_objective(rng):
    """Written out and minimised by another optimiser: catches a penalty that is scaled otherwise
    than we say."""
    x, y = blobs(rng, 3, n=60, d=3)
    strength, (n, d) = 0.3, x.shape
    z, codes = (x - x.mean(axis=0)) / x.std(axis=0), np.unique(y, return_inverse=True)[1]

    def objective(values):
        w, b = values[: 3 * d].reshape(3, d), values[3 * d :]
        logits = z @ w.T + b
        surprise = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(n), codes]
        return strength * surprise.sum() + (w**2).sum() / 2

    best = minimize(objective, np.zeros(3 * d + 3), tol=1e-10).x
    assert np.allclose(
        LinearProbe(C=strength).fit(x, y).coef_, best[: 3 * d].reshape(3, d), atol=1e-3
    )


def test_scale_and_shift_of_features_change_nothing(rng):
    x, y = blobs(rng, 3)
    plain = LinearProbe().fit(x, y).predict_proba(x)
    stretched = x * np.array([1e-3, 1, 7, 1e3, 1, 1]) + np.array([0, 300, 0, 0, -5, 0])
    assert np.allclose(LinearProbe().fit(stretched, y).predict_proba(stretched), plain, atol=1e-4)


def test_means_and_scales_come_from_training_rows_only(rng):
    x, y = blobs(rng, 2)
    probe = LinearProbe().fit(x[:100], y[:100])
    assert np.allclose(probe.mean_, x[:100].mean(axis=0))
    assert np.allclose(probe.scale_, x[:100].std(axis=0))
    # the rows beside a row do not matter
    assert np.array_equal(probe.predict_proba(x[100:]), probe.predict_proba(x)[100:])


def test_outlier_dimensions_in_float32(rng):
    x, y = blobs(rng, 3, apart=0.5)
    x[:, 2] = 300 + x[:, 2] / 10
    low, high = LinearProbe().fit(x.astype(np.float32), y), LinearProbe().fit(x, y)
    assert low.predict_proba(x.astype(np.float32)).dtype == np.float32
    assert np.allclose(low.predict_proba(x.astype(np.float32)), high.predict_proba(x), atol=2e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_feature_that_is_constant_in_training_has_no_influence(rng, dtype):
    x, y = blobs(rng, 2)
    x[:, 1] = 0.1
    probe = LinearProbe().fit(x.astype(dtype), y)
    moved = x.copy()
    moved[:, 1] = 50
    assert probe.scale_[1] == 1
    assert np.allclose(
        probe.predict_proba(moved.astype(dtype)), probe.predict_proba(x.astype(dtype)), atol=1e-6
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_sum_to_one_and_the_largest_is_predicted(rng, classes):
    x, y = blobs(rng, classes)
    probe = LinearProbe().fit(x, y)
    probabilities = probe.predict_proba(x)
    assert probabilities.shape == (150, classes)
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    assert np.array_equal(probe.predict(x), probe.classes_[probabilities.argmax(axis=1)])


def test_labels_may_be_numbers_words_or_objects(rng):
    x, y = blobs(rng, 3)
    codes = np.unique(y, return_inverse=True)[1]
    words = LinearProbe().fit(x, y).predict(x)
    numbers = LinearProbe().fit(x, codes * 10).predict(x)
    assert np.array_equal(np.unique(y)[numbers // 10], words)
    assert LinearProbe().fit(x, y.astype(object)).score(x, y.tolist()) == LinearProbe().fit(
        x, y
    ).score(x, y)


def test_it_is_the_same_every_time(rng):
    x, y = blobs(rng, 3)
    first, second = (LinearProbe().fit(x, y) for _ in range(2))
    assert np.array_equal(first.coef_, second.coef_)
    assert first.n_iter_ == second.n_iter_ > 1


def test_stopping_early_is_said_with_the_remedy(rng):
    x, y = blobs(rng, 3)
    message = r"max_iter: expected convergence, got none in 2 step\(s\); raise max_iter or lower C"
    with pytest.warns(ConvergenceWarning, match=message) as seen:
        probe = LinearProbe(max_iter=2).fit(x, y)
    assert len(seen) == 1
    assert probe.n_iter_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearProbe().fit(x, y)


def test_refusals(rng):
    x, y = blobs(rng, 2)
    probe = LinearProbe().fit(x, y)
    with pytest.raises(InputError, match=r"y: .*got only deu"):
        LinearProbe().fit(x, np.full(150, "deu"))
    with pytest.raises(InputError, match=r"y: .*got 'ita', 'nld'"):
        probe.score(x[:3], ["deu", "nld", "ita"])
    with pytest.raises(InputError, match=r"y: .*got '0'"):
        LinearProbe().fit(x, y == "deu").score(x[:1], ["0"])
    with pytest.raises(InputError, match=r"y: .*got an array of"):
        LinearProbe().fit(x, y[1:])
    with pytest.raises(InputError, match="y: expected 3 labels,"):
        probe.score(x[:3], y[:2])
    with pytest.raises(InputError, match=r"y: .*got none for item"):
        LinearProbe().fit(x, np.where(np.arange(150) == 4, np.nan, np.arange(150) % 2))
    with pytest.raises(InputError, match=r"y: .*got none for item"):
        LinearProbe().fit(x, np.where(np.arange(150) == 4, None, y.astype(object)))
    with pytest.raises(InputError, match=r"y: .*got labels that"):
        LinearProbe().fit(x, np.where(np.arange(150) == 4, 1, y.astype(object)))
    with pytest.raises(InputError, match=r"X: .*got 6 constant"):
        LinearProbe().fit(np.full((150, 6), 0.1), y)
    with pytest.raises(InputError, match=r"X: .*got 5 columns"):
        probe.predict(x[:, :5])
    with pytest.raises(InputError, match=r"LinearProbe: .*got one without"):
        LinearProbe().predict_proba(x)
    for strength in (0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="C: expected"):
            LinearProbe(C=strength).fit(x, y)
    with pytest.raises(InputError, match=r"max_iter: .*got 0"):
        LinearProbe(max_iter=0).fit(x, y)
