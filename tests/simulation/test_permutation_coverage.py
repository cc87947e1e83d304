"""Permutation tests reject, and their bootstrap intervals cover, as often as they say: accuracy and
macro F1."""

import numpy as np
import pytest
from coverage import COVERS, REJECTS, rejections

from crosslens.outcomes import Outcomes, item_ids
from crosslens.probes.methods.controls import macro_f1
from crosslens.probes.methods.paired_tests import permutation_test
from crosslens.run.probing.comparison import paired_tests

pytestmark = pytest.mark.slow


def accuracy(true, answers):
    return float(np.mean(true == answers))


def two_answers(rng, n):
    """Five classes from frequent to rare; two probes that are right as often."""
    y = rng.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    first, second = (np.where(rng.random(n) < 0.7, y, rng.integers(0, 5, n)) for _ in range(2))
    return first, second, y


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize(("draw", "score"), [(two_answers, accuracy), (two_answers, macro_f1)])
def test_without_a_difference(n, draw, score):
    rng = np.random.default_rng(0)
    tests = [permutation_test(*draw(rng, n), score, samples=300, seed=i) for i in range(600)]
    covered, rejected = (
        np.mean([test.low <= 0 <= test.high for test in tests]),
        np.mean([test.p <= 0.05 for test in tests]),
    )
    # one standard error of 600 draws is .9 points
    assert COVERS[0] - 0.009 <= covered <= COVERS[1] + 0.009
    assert REJECTS[0] - 0.009 <= rejected <= REJECTS[1] + 0.009


@pytest.mark.parametrize(("draw", "score"), [(two_answers, accuracy)])
def test_without_a_difference_on_thirty_items(draw, score):
    rng = np.random.default_rng(1)
    tests = [permutation_test(*draw(rng, 30), score, samples=300, seed=i) for i in range(600)]
    assert np.mean([test.low <= 0 <= test.high for test in tests]) >= COVERS[0] - 0.009
    assert np.mean([test.p <= 0.05 for test in tests]) <= REJECTS[1]


def test_the_best_of_thirteen_layers_is_not_called_better_too_often():
    """Without a dev part the layer is chosen on the items that are tested: thirteen layers that are
    equally good."""

    def draw(rng):
        shared, n = rng.normal(size=200), 200
        ids = item_ids((i,) for i in range(n))
        layers = []
        for layer in range(13):
            right = (0.7 * shared + 0.7 * rng.normal(size=n) > 0).astype(float)
            told = {
                "task": "t",
                "quantity": "accuracy",
                "part": "test",
                "encoder": "a",
                "layer": layer,
            }
            layers.append(
                Outcomes(**told, item=np.arange(n), item_id=ids, group=ids, outcome=right)
            )
        return min(
            [(test.details or {})["corrected_p"] for test in paired_tests([], layers, seed=0)],
            default=1.0,
        )

    assert rejections(draw, 400) <= REJECTS[1]
