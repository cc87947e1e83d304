"""The optimiser: minima known beforehand or found by scipy, gradients by differences, and what it
must not depend on."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from crosslens.errors import InputError
from crosslens.probes.methods.linear import solver
from crosslens.probes.methods.linear.solver import (
    Preconditioner,
    Surprise,
    check_strengths,
    fit_softmax,
    frequencies,
    minimise,
    new_pairs,
    residuals_in_place,
    rough_start,
)
from crosslens.probes.methods.rows import BLOCK, StandardisedLayer


@pytest.fixture
def rng():
    return np.random.default_rng(3)


class Bowl:
    """1 + (x - target)' A (x - target) / 2, preconditioned by a diagonal."""

    def __init__(self, curvatures, target, diagonal):
        self.curvatures, self.target, self.diagonal, self.calls = (
            np.array(curvatures),
            np.array(target),
            np.array(diagonal),
            0,
        )

    def __call__(self, at):
        self.calls += 1
        away = at - self.target
        return 1 + float((self.curvatures * away**2).sum()) / 2, self.curvatures * away

    def precondition(self, gradient):
        return gradient / self.diagonal


class Valley:
    """Rosenbrock's, which is not convex, lifted above 0."""

    def __call__(self, at):
        x, y = at
        return 1 + (1 - x) ** 2 + 100 * (y - x * x) ** 2, np.array(
            [2 * (x - 1) - 400 * x * (y - x * x), 200 * (y - x * x)]
        )

    def precondition(self, gradient):
        return gradient.copy()


def problem(rng, n=300, d=7, classes=4, dtype=np.float64):
    mixing = rng.normal(size=(d, d)) * np.geomspace(1, 30, d)
    codes = rng.integers(0, classes, size=n)
    x = (rng.normal(size=(classes, d))[codes] + rng.normal(size=(n, d))) @ mixing + 4
    return StandardisedLayer.of(x.astype(dtype), "x"), codes


def plain(layer, codes, penalty, at):
    """The documented objective, written out."""
    z = (np.asarray(layer.source, np.float64) - layer.mean) / layer.scale
    logs = log_softmax(z @ at[:, :-1].T + at[:, -1], axis=1)
    return -logs[np.arange(len(codes)), codes].mean() + penalty * np.square(at[:, :-1]).sum() / 2


@pytest.mark.parametrize(
    "diagonal", [[1, 1, 1], [1, 100, 1e4], [1e-4, 1e-4, 1e-4], [1e4, 1e4, 1e4]]
)
def test_it_finds_the_bottom_of_a_bowl_however_badly_it_is_preconditioned(diagonal):
    found = minimise(
        Bowl([1, 100, 1e4], [3, -2, 5], diagonal), np.zeros(3), tolerance=1e-14, max_iter=200
    )
    assert found.converged
    assert np.allclose(found.at, [3, -2, 5], atol=1e-5)
    assert found.value == pytest.approx(1, abs=1e-10)


def test_with_the_true_curvature_one_step_is_enough():
    bowl = Bowl([1, 100, 1e4], [3, -2, 5], [1, 100, 1e4])
    found = minimise(bowl, np.zeros(3), tolerance=1e-14, max_iter=200)
    assert (found.steps, bowl.calls) == (1, 2)


def test_it_finds_the_end_of_a_winding_valley():
    found = minimise(Valley(), np.array([-1.2, 1.0]), tolerance=1e-14, max_iter=200)
    assert found.converged and np.allclose(found.at, 1, atol=1e-5)


def test_it_stops_where_it_begins_if_that_is_the_minimum():
    found = minimise(
        Bowl([1, 2], [3, 4], [1, 1]), np.array([3.0, 4.0]), tolerance=1e-12, max_iter=5
    )
    assert (found.steps, found.converged, found.at.tolist()) == (0, True, [3.0, 4.0])


def test_too_few_steps_are_said():
    found = minimise(Valley(), np.array([-1.2, 1.0]), tolerance=1e-14, max_iter=3)
    assert (found.steps, found.converged) == (3, False)


def test_what_it_stops_at_is_the_gain_still_to_be_had(rng):
    layer, codes = problem(rng)
    best = fit_softmax(
        Surprise(layer, codes, 4), 1.0, np.zeros((4, 8)), tolerance=1e-14, max_iter=500
    )
    for tolerance in (1e-3, 1e-5, 1e-7):
        found = fit_softmax(
            Surprise(layer, codes, 4), 1.0, np.zeros((4, 8)), tolerance=tolerance, max_iter=500
        )
        assert best.value <= found.value <= best.value * (1 + 10 * tolerance)


@pytest.mark.parametrize("n", [30, BLOCK + 1])
def test_value_and_gradient_are_those_of_the_documented_objective(rng, n):
    layer, codes = problem(rng, n=n, d=3)
    objective = Surprise(layer, codes, 4)
    objective.penalty = 0.3
    at = rng.normal(size=(4, 4))
    value, gradient = objective(at)
    assert value == pytest.approx(plain(layer, codes, 0.3, at), rel=1e-12)
    for index in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-5
        slope = (plain(layer, codes, 0.3, at + step) - plain(layer, codes, 0.3, at - step)) / 2e-5
        assert gradient[index] == pytest.approx(slope, abs=1e-8)


def test_float32_differs_by_rounding_only(rng):
    layer, codes = problem(rng, n=3000)
    low = Surprise(StandardisedLayer.of(layer.source.astype(np.float32), "x"), codes, 4)
    at = rng.normal(size=(4, 8))
    (value, gradient), (close, near) = Surprise(layer, codes, 4)(at), low(at)
    assert near.dtype == np.float64
    assert close == pytest.approx(value, rel=1e-5)
    assert np.abs(near - gradient).max() < 1e-5 * np.abs(gradient).max()


def test_the_minimum_is_scipys(rng):
    layer, codes = problem(rng, n=80, d=3)
    found = fit_softmax(
        Surprise(layer, codes, 4), 0.5, np.zeros((4, 4)), tolerance=1e-13, max_iter=500
    )
    best = minimize(
        lambda flat: plain(layer, codes, 1 / (0.5 * 80), flat.reshape(4, 4)),
        np.zeros(16),
        tol=1e-12,
    )
    assert found.value == pytest.approx(best.fun, rel=1e-9)
    assert np.allclose(found.at[:, :-1], best.x.reshape(4, 4)[:, :-1], atol=1e-4)


def test_at_the_start_the_preconditioned_gradient_is_newtons_step(rng):
    layer, codes = problem(rng, n=400, d=5)
    objective = Surprise(layer, codes, 3 + 1)
    objective.penalty = 0.01
    start = np.zeros((4, 6))
    gradient = objective(start)[1]
    z = np.hstack([(layer.source - layer.mean) / layer.scale, np.ones((400, 1))])
    share = (np.eye(4) - 1 / 4) / 4
    hessian = np.kron(share, z.T @ z / 400) + 0.01 * np.kron(np.eye(4), np.diag([1.0] * 5 + [0]))
    newton = np.linalg.lstsq(hessian, gradient.ravel(), rcond=1e-12)[0].reshape(4, 6)
    assert np.allclose(objective.precondition(gradient), newton, atol=1e-3 * np.abs(newton).max())


def test_a_poor_preconditioner_changes_the_steps_but_not_the_minimum(rng, monkeypatch):
    layer, codes = problem(rng, n=2000, d=20)
    good = fit_softmax(
        Surprise(layer, codes, 4), 1.0, np.zeros((4, 21)), tolerance=1e-12, max_iter=500
    )
    objective = Surprise(layer, codes, 4)
    objective._preconditioner = Preconditioner(np.eye(20), 4)
    poor = fit_softmax(objective, 1.0, np.zeros((4, 21)), tolerance=1e-12, max_iter=500)
    monkeypatch.setattr(solver, "_LEAST_ROWS", 100)
    fair = fit_softmax(
        Surprise(layer, codes, 4), 1.0, np.zeros((4, 21)), tolerance=1e-12, max_iter=500
    )
    assert good.steps < 0.7 * poor.steps
    for other in (poor, fair):
        assert other.value == pytest.approx(good.value, rel=1e-9)
        assert np.allclose(other.at, good.at, atol=1e-4)


def test_after_a_step_that_was_cut_the_next_begins_cut(monkeypatch):
    # nothing is learnt: whole steps stay far too long
    monkeypatch.setattr(solver, "_remember", lambda *_: None)
    calls = {}
    for longer in (solver._LONGER, np.inf):
        monkeypatch.setattr(solver, "_LONGER", longer)
        bowl = Bowl([1.0, 30.0], [2.0, 3.0], [1.0, 1.0])
        found = minimise(bowl, np.zeros(2), tolerance=1e-10, max_iter=500)
        assert found.converged and found.at == pytest.approx([2, 3], abs=1e-3)
        calls[longer] = (bowl.calls - 1) / found.steps
    assert calls[2.0] < 1.75 < 2 <= calls[np.inf]


def test_whole_steps_come_back_after_one_that_was_cut(monkeypatch):
    tried, search = [], solver._line_search
    monkeypatch.setattr(
        solver, "_line_search", lambda *given: tried.append(given[-1]) or search(*given)
    )
    found = minimise(Valley(), np.array([-1.2, 1.0]), tolerance=1e-12, max_iter=200)
    assert found.converged and min(tried) < 1 == tried[-1]
    assert all(after <= 1 for after in tried)


def test_a_rough_start_from_a_sample_saves_steps_and_keeps_the_minimum(rng, monkeypatch):
    layer, codes = problem(rng, n=3000)
    monkeypatch.setattr(solver, "_LEAST_ROWS", 250)
    objective = Surprise(layer, codes, 4)
    learnt = new_pairs()
    start = rough_start(objective, 0.5, learnt)
    assert start.shape == (4, 8) and len(learnt) > 1
    found = {
        name: fit_softmax(objective, 0.5, at, tolerance=1e-6, max_iter=500, pairs=pairs)
        for name, at, pairs in (
            ("taught", start, learnt),
            ("start", start, None),
            ("zeros", np.zeros_like(start), None),
        )
    }
    lowest = fit_softmax(objective, 0.5, start, tolerance=1e-12, max_iter=500)
    assert found["taught"].steps < min(found["start"].steps, found["zeros"].steps)
    for each in found.values():
        assert each.value == pytest.approx(lowest.value, rel=1e-5) and np.allclose(
            each.at, lowest.at, atol=0.01
        )
    assert plain(layer, codes, objective.penalty, start) - lowest.value < 0.1 * (
        np.log(4) - lowest.value
    )


def test_a_rough_start_has_rows_of_every_class_and_needs_many_rows(rng, monkeypatch):
    layer, codes = problem(rng, n=3000)
    monkeypatch.setattr(solver, "_LEAST_ROWS", 300)
    codes = np.sort(codes)  # as files by language are
    seen = []
    monkeypatch.setattr(
        Surprise,
        "sample",
        lambda self, rows: seen.append(rows) or Surprise(self.layer, self.codes, 4),
    )
    rough_start(Surprise(layer, codes, 4), 1.0, new_pairs())
    assert len(seen) == 2 and not np.intersect1d(*seen).size, "one to learn from, one to judge by"
    for rows in seen:
        assert np.array_equal(np.unique(rows), rows)
        assert np.allclose(np.bincount(codes[rows]), np.bincount(codes) / 10, atol=1)
    monkeypatch.setattr(solver, "_LEAST_ROWS", 751)  # not four times as many
    nothing = new_pairs()
    assert (
        not rough_start(Surprise(layer, codes, 4), 1.0, nothing)[:, :-1].any()
        and len(seen) == 2
        and not nothing
    )


def test_a_sample_that_is_overfitted_is_no_start(rng, monkeypatch):
    monkeypatch.setattr(solver, "_LEAST_ROWS", 60)
    monkeypatch.setattr(solver, "_PER_DIMENSION", 1)
    x = rng.normal(size=(600, 40)).astype(np.float32)
    # nothing to learn
    objective = Surprise(StandardisedLayer.of(x, "layers[0]"), rng.integers(0, 2, 600), 2)
    for strength, taken in ((1e-3, True), (100.0, False)):
        pairs = new_pairs()
        start = rough_start(objective, strength, pairs)
        assert start[:, :-1].any() == taken == bool(pairs)


def test_each_stage_of_a_rough_start_goes_on_from_the_last(rng, monkeypatch):
    layer, codes = problem(rng, n=3000)
    monkeypatch.setattr(solver, "_LEAST_ROWS", 250)
    objective = Surprise(layer, codes, 4)
    above = []
    for stages, steps in ((1, 2), (12, 2), (1, 24)):
        monkeypatch.setattr(solver, "_STAGES", stages)
        monkeypatch.setattr(solver, "_STEPS_ROUGHLY", steps)
        start = rough_start(objective, 0.5, new_pairs())
        above.append(plain(layer, codes, 1 / 1500, start))
    assert above[1] == pytest.approx(above[2], rel=0.01) and above[0] > 1.02 * above[1]


def test_frequencies_are_the_minimum_where_features_say_nothing(rng):
    layer = StandardisedLayer.of(np.full((60, 2), 3.0), "layers[0]")
    codes = np.repeat([0, 1, 2], [30, 20, 10])
    objective = Surprise(layer, codes, 3)
    start = frequencies(objective)
    assert np.allclose(
        np.exp(start[:, -1]) / np.exp(start[:, -1]).sum(), [1 / 2, 1 / 3, 1 / 6], atol=1e-12
    )
    assert objective(start)[0] == pytest.approx(
        np.log(2) / 2 + np.log(3) / 3 + np.log(6) / 6
    ) and start.sum() == pytest.approx(0)
    assert np.abs(objective(start)[1]).max() < 1e-12


def test_a_sample_is_standardised_as_all_rows_are(rng):
    layer, codes = problem(rng, n=BLOCK + 40)
    rows = np.arange(0, BLOCK + 40, 3)
    whole, at = Surprise(layer, codes, 4), rng.normal(size=(4, 8))
    sample = whole.sample(rows)
    sample.penalty = whole.penalty = 0.0
    assert np.array_equal(sample.precondition(at), whole.precondition(at))
    z = (np.asarray(layer.source)[rows] - layer.mean) / layer.scale
    logs = log_softmax(z @ at[:, :-1].T + at[:, -1], axis=1)
    assert sample(at)[0] == pytest.approx(-logs[np.arange(len(rows)), codes[rows]].mean(), rel=1e-9)


def test_correlations_are_taken_from_rows_drawn_evenly(rng):
    """Every other row is unlike its neighbours: rows at a fixed distance would all be of one
    kind."""
    rows = rng.normal(size=(40000, 3)) * np.where(np.arange(40000) % 2, 1, 10)[:, None]
    found = Preconditioner.of(np.split(rows, 40), len(rows), 2).correlations
    assert np.allclose(np.diag(found), 50.5, rtol=0.2)
    whole = Preconditioner.of(np.split(rows[:30], 3), 30, 2).correlations
    assert np.allclose(whole, rows[:30].T @ rows[:30] / 30)


def test_residuals_are_probabilities_less_the_truth(rng):
    scores, codes = 5 * rng.normal(size=(4, 50)), rng.integers(0, 4, size=50)
    logs = log_softmax(scores, axis=0)
    surprise, openness = residuals_in_place(scores, codes)
    assert surprise == pytest.approx(-logs[codes, range(50)].sum())
    assert openness == pytest.approx((1 - np.exp(2 * logs).sum(axis=0)).sum())
    assert np.allclose(scores, np.exp(logs) - (np.arange(4)[:, None] == codes))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_residuals_survive_scores_far_apart(dtype):
    scores = np.array([[1000.0, -1000.0, 20.0], [0.0, 0.0, 0.0]], dtype)
    surprise, openness = residuals_in_place(scores, np.array([0, 0, 0]))
    left = np.exp(-20.0)  # below the rounding of float32 beside 1
    assert surprise == pytest.approx(1000 + left, abs=1e-12) and openness == pytest.approx(
        2 * left, rel=1e-5
    )
    assert scores[:, :2].tolist() == [[0.0, -1.0], [0.0, 1.0]]
    assert scores[:, 2] == pytest.approx([-left, left], rel=1e-6)


def test_perfectly_told_classes_converge_in_float32(rng):
    codes = np.repeat([0, 1, 2], 400)
    x = (np.eye(3)[codes] * 50 + rng.normal(size=(1200, 3))).astype(np.float32)
    for strength in (0.01, 1.0, 1e4):
        found = fit_softmax(
            Surprise(StandardisedLayer.of(x, "x"), codes, 3),
            strength,
            np.zeros((3, 4)),
            tolerance=1e-7,
            max_iter=300,
        )
        assert found.converged


def test_strengths():
    assert check_strengths(2, "C") == [2.0]
    assert check_strengths(np.array([0.1, 3]), "penalties") == [0.1, 3.0]
    assert check_strengths([0], "penalties", least="0 or above") == [0.0]
    for wrong in (0, -1, np.nan, np.inf, "1", True, None, [1, "x"]):
        with pytest.raises(InputError, match="penalties: expected"):
            check_strengths(wrong, "penalties")
    for wrong in ([], [1, 1.0]):
        with pytest.raises(InputError, match="penalties: expected"):
            check_strengths(wrong, "penalties")
