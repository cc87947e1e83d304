"""What a retrieval keeps of each item, and how items that say the same are counted."""

import dataclasses

import numpy as np
import pytest

from crosslens.hits import equal_items, hits_of, item_outcomes, kept_hits
from crosslens.score import Score
from crosslens.seed_intervals import seeds_share
from crosslens.seed_means import means

GROUPS = np.array([7, 1, 7, 3, 1, 7])


def score(details, seed=0, **more):
    shown = {"encoder": "x", "layer": 1, "condition": "unaligned", **more}
    return Score(quantity="precision_at_1", value=0.5, n=6, seed=seed, details=details, **shown)


def test_what_is_kept_is_read_again():
    found = np.array([1, 0, 1, 1, 0, 0], bool)
    kept = kept_hits(found, GROUPS)
    assert kept == {"hits": "101100", "equal_items": [[0, 2, 5], [1, 4]]}
    assert (
        item_outcomes(kept).tolist() == found.tolist()
        and item_outcomes({}) is None
        and item_outcomes(None) is None
    )
    assert equal_items([score({"part": "test"}), score(kept)]).tolist() == [0, 1, 0, 3, 1, 0]
    for groups in (None, np.arange(6), np.arange(6)[::-1]):
        assert kept_hits(found, groups) == {"hits": "101100"}
    assert equal_items([score(kept_hits(found)), score(None)]) is None


@pytest.mark.parametrize("grouped", [False, True])
def test_right_answers_are_those_of_a_loop(grouped):
    draw = np.random.default_rng(0)
    outcomes = {(seed, way): draw.random(6) < 0.5 for seed in (2, 0, 1) for way in ("ab", "ba")}
    scores = [score(kept_hits(found), seed) for (seed, _), found in outcomes.items()]
    right, of = hits_of([score(None), *scores], GROUPS if grouped else None)
    places = [[1, 4], [3], [0, 2, 5]] if grouped else [[i] for i in range(6)]
    for row, seed in enumerate((0, 1, 2)):
        both = outcomes[seed, "ab"].astype(int) + outcomes[seed, "ba"]
        assert right[row].tolist() == [sum(both[i] for i in some) for some in places]
        assert of[row].tolist() == [2 * len(some) for some in places]
    assert [side.shape for side in hits_of([score(None)])] == [(0, 0), (0, 0)]


def test_a_mean_counts_what_says_the_same_once():
    """A text of which every sentence stands there ten times says no more than one of them."""
    draw = np.random.default_rng(1)
    once = {0: draw.random(40) < 0.4}
    ten = np.repeat(np.arange(40), 10)

    def mean(outcomes, groups):
        told = [
            score({"part": "held_out", **kept_hits(found, groups)}, seed, source=way)
            for seed, found in outcomes.items()
            for way in ("eng", "fra")
        ]
        return means(told)[0]

    plain = mean(once, None)
    tenfold = mean({seed: found[ten] for seed, found in once.items()}, ten)
    careless = mean({seed: found[ten] for seed, found in once.items()}, None)
    assert (tenfold.low, tenfold.high) == pytest.approx((plain.low, plain.high), abs=0.01)
    assert careless.high - careless.low < 0.5 * (tenfold.high - tenfold.low)
    right = np.array([2.0 * found for found in once.values()])
    assert (plain.value, plain.low, plain.high) == seeds_share(right, np.full_like(right, 2))


def test_a_seed_that_was_not_measured_leaves_no_mean_and_its_reason():
    whole = score({"part": "held_out", **kept_hits(np.ones(6, bool))})
    lost = dataclasses.replace(
        score({"part": "held_out", "reason": "all vectors are alike"}, seed=1), value=float("nan")
    )
    (mean,) = means([whole, lost])
    assert np.isnan(mean.value) and (mean.low, mean.high, mean.seed) == (None, None, None)
    assert mean.evidence.reason == "1 of 2 were not measured: all vectors are alike"
    assert mean.details["values"] == [0.5, None]
