"""Permutation tests reject, and their bootstrap intervals cover, as often as they say: measures that runs compare."""

import numpy as np
import pytest
from coverage import COVERS, REJECTS
from scipy.stats import rankdata

from crosslens.probes.controls import macro_f1
from crosslens.probes.paired_tests import permutation_test
from crosslens.run.probe_comparison import _share, _spearman

pytestmark = pytest.mark.slow


def accuracy(true, answers):
    return float(np.mean(true == answers))


def two_answers(rng, n):
    """Five classes from frequent to rare; two probes that are right as often."""
    y = rng.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    first, second = (np.where(rng.random(n) < 0.7, y, rng.integers(0, 5, n)) for _ in range(2))
    return first, second, y


def two_cosines(rng, n):
    """Two layers' similarities, as ranks, of pairs whose ratings have ties."""
    meaning, luck = rng.normal(size=(2, n))
    first, second = (rankdata(0.5 * meaning + 0.5 * luck + 0.7 * rng.normal(size=n)) for _ in range(2))
    return first, second, np.round(5 + 2 * meaning)


def two_parses(rng, n):
    """Edges found in sentences of unequal length, by two layers."""
    of = 1 + rng.poisson(11, n)
    ease = rng.beta(7, 3, n)
    first, second = (rng.binomial(of, np.clip(ease + rng.normal(0, 0.05, n), 0, 1)) for _ in range(2))
    return first, second, of


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize(
    ("draw", "score"), [(two_answers, accuracy), (two_answers, macro_f1), (two_cosines, _spearman), (two_parses, _share)]
)
def test_without_a_difference(n, draw, score):
    rng = np.random.default_rng(0)
    tests = [permutation_test(*draw(rng, n), score, samples=300, seed=i) for i in range(600)]
    covered, rejected = (np.mean([test.low <= 0 <= test.high for test in tests]), np.mean([test.p <= 0.05 for test in tests]))
    # one standard error of 600 draws is .9 points
    assert COVERS[0] - 0.009 <= covered <= COVERS[1] + 0.009
    assert REJECTS[0] - 0.009 <= rejected <= REJECTS[1] + 0.009


@pytest.mark.parametrize(("draw", "score"), [(two_answers, accuracy), (two_cosines, _spearman), (two_parses, _share)])
def test_without_a_difference_on_thirty_items(draw, score):
    rng = np.random.default_rng(1)
    tests = [permutation_test(*draw(rng, 30), score, samples=300, seed=i) for i in range(600)]
    assert np.mean([test.low <= 0 <= test.high for test in tests]) >= COVERS[0] - 0.009
    assert np.mean([test.p <= 0.05 for test in tests]) <= REJECTS[1]
