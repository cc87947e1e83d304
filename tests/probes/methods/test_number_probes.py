"""Numbers regressed on every layer: scikit-learn's scores, scipy's Spearman, and controls that find
nothing."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crosslens.errors import InputError
from crosslens.probes.methods.number_probes import NumberAnswers, probe_numbers
from crosslens.probes.methods.splits import Parts
from crosslens.stats import spearman_interval

PARTS = Parts(range(200), range(250, 330), range(200, 250))


def data(seed=0):
    rng = np.random.default_rng(seed)
    depth = rng.integers(0, 8, 330)
    return [
        rng.normal(size=(330, 5)) + share * depth[:, None] * [1, 0, 0.2, 0, 0]
        for share in (0.0, 0.5, 2.0)
    ], depth


def reference(x, y, rows, penalty):
    return make_pipeline(StandardScaler(), Ridge(penalty)).fit(x[rows], y[rows])


def test_every_layer_is_ridge_with_the_penalty_that_dev_likes_best():
    layers, y = data()
    result = probe_numbers(layers, y, PARTS, seeds=(), penalties=(1.0, 1000.0))
    for i, x in enumerate(layers):
        models = {penalty: reference(x, y, PARTS.train, penalty) for penalty in (1.0, 1000.0)}
        best = max(models, key=lambda penalty: models[penalty].score(x[PARTS.dev], y[PARTS.dev]))  # noqa: B023
        assert result.penalty[i] == best
        answers = models[best].predict(x[PARTS.test])
        assert result.answers.given[i] == pytest.approx(answers, abs=1e-8)
        assert result.answers.r2[i] == pytest.approx(r2_score(y[PARTS.test], answers))
        assert result.answers.spearman[i] == pytest.approx(
            spearmanr(y[PARTS.test], answers).statistic
        )
        assert result.answers.interval[i] == pytest.approx(
            spearman_interval(answers, y[PARTS.test])[1:], abs=1e-7
        )
    assert (result.control.shape, result.resampled.shape, result.random_encoder) == (
        (0, 3),
        (0, 3),
        None,
    )


def test_shuffled_numbers_tell_nothing_and_bootstrap_samples_little_less():
    layers, y = data()
    result = probe_numbers(layers, y, PARTS, seeds=(0, 1, 2))
    assert (np.abs(result.control) < 0.4).all()  # 80 items: a standard error of .11
    assert (result.resampled[:, 2] > 0.9).all()
    rows = np.sort(np.random.default_rng([1, 0xB007]).choice(PARTS.train, 200))
    answers = reference(layers[1], y, rows, result.penalty[1]).predict(layers[1][PARTS.test])
    assert result.resampled[1, 1] == pytest.approx(spearmanr(y[PARTS.test], answers).statistic)


def test_the_random_encoder_is_scored_by_the_same_rules():
    (layers, y), (others, _) = data(), data(9)
    result = probe_numbers(layers, y, PARTS, random_layers=others, seeds=())
    assert np.array_equal(
        result.random_encoder.given, probe_numbers(others, y, PARTS, seeds=()).answers.given
    )


def test_a_layer_that_always_answers_the_same_has_no_correlation():
    answers = NumberAnswers(np.arange(5.0), np.full((1, 5), 2.0))
    assert answers.r2.tolist() == [0.0]
    assert np.isnan(answers.spearman[0]) and np.isnan(answers.interval[0]).all()


def test_refusals():
    layers, y = data()
    with pytest.raises(InputError, match=r"y: .*got an array of"):
        probe_numbers(layers, y.astype("U1"), PARTS)
    with pytest.raises(InputError, match=r"y: .*got .* with NaN"):
        probe_numbers(layers, np.where(y == 3, np.nan, y), PARTS)
    with pytest.raises(InputError, match=r"y: .*got the same for"):
        probe_numbers(layers, np.where(np.arange(330) >= 250, 1, y), PARTS)
    with pytest.raises(InputError, match=r"random_layers: .*got 2 layers of"):
        probe_numbers(layers, y, PARTS, random_layers=layers[:2])
    with pytest.raises(InputError, match=r"parts: .*got row 400"):
        probe_numbers(layers, y, Parts([0, 1], [400]))
    with pytest.raises(InputError, match=r"seed: .*got -1"):
        probe_numbers(layers, y, PARTS, seeds=(-1,))


def test_equal_texts_have_one_shuffled_number_and_widen_the_interval():
    layers, y = data()
    texts = np.arange(330) // 2  # every text twice, some in train and test
    layers, y = [layer[texts] for layer in layers], y[texts]
    alone, twice = (
        probe_numbers(layers, y, PARTS, seeds=(0,)),
        probe_numbers(layers, y, PARTS, seeds=(0,), texts=texts, groups=texts),
    )
    moved = twice.shuffled[0].true
    assert (moved[::2] == moved[1::2]).all() and not (
        alone.shuffled[0].true[::2] == alone.shuffled[0].true[1::2]
    ).all()
    assert twice.answers.spearman == pytest.approx(alone.answers.spearman)
    (low, high), (lower, higher) = alone.answers.interval[1], twice.answers.interval[1]
    assert lower < low < high < higher


def test_numbers_that_are_all_the_same_have_no_scores():
    rng = np.random.default_rng(0)
    answers = NumberAnswers(np.arange(9.0), rng.normal(size=(2, 9))).rows([4])
    same = NumberAnswers(np.full(9, 0.1), rng.normal(size=(2, 9)))
    for some in (answers, same):
        assert np.isnan(some.spearman).all() and np.isnan(some.interval).all()
        assert np.isnan(some.r2).all()
