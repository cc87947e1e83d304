"""An encoder beside its control, sentence by sentence."""

import numpy as np
import pytest

from crosslens.hits import kept_hits
from crosslens.run.comparison import compare_with_controls
from crosslens.score import Score
from crosslens.stats import (
    cluster_sums,
    difference_interval,
    paired_interval,
    share_interval,
)

WAYS = [("eng", "fra"), ("fra", "eng"), ("eng", "rus")]
N = 120


def outcomes(seed=0):
    """(condition, way) -> which sentences were found, dependent as the same sentences are."""
    draw = np.random.default_rng(seed)
    hard = draw.random(N)
    levels = {
        "unaligned": 0.3,
        "random_encoder": 0.1,
        "procrustes": 0.5,
        "random_encoder_procrustes": 0.5,
    }
    return {
        (c, way): hard + 0.3 * draw.normal(size=N) < level
        for c, level in levels.items()
        for way in WAYS
    }


def score(condition, way, found, part="held_out", layer=2, groups=None):
    details = {"part": part, "chance": 1 / N}
    if part == "held_out":
        details |= kept_hits(found, groups)
    return Score(
        quantity="precision_at_1",
        value=float(found.mean()),
        n=N,
        layer=layer,
        source=way[0],
        target=way[1],
        condition=condition,
        task="sentence_retrieval",
        encoder="x",
        seed=0,
        details=details,
    )


def compared(found, **more):
    return compare_with_controls(
        [score(condition, way, hits, **more) for (condition, way), hits in found.items()]
    )


def test_every_direction_has_its_difference_on_the_same_sentences():
    found = outcomes()
    result = {
        (s.condition, (s.source, s.target)): s
        for s in compared(found)
        if s.task == "sentence_retrieval"
    }
    assert len(result) == 12
    for condition, control in (
        ("unaligned", "random_encoder"),
        ("procrustes", "random_encoder_procrustes"),
    ):
        for way in WAYS:
            expected = paired_interval(found[condition, way], found[control, way])
            assert tuple(result[condition, way].details["above_control"].values()) == pytest.approx(
                expected
            )
            assert "above_control" not in result[control, way].details
    assert all("hits" not in s.details for s in compared(found))


def test_the_mean_over_directions_counts_sentences_not_directions():
    found = outcomes()
    (mean,) = [
        s
        for s in compared(found)
        if s.task == "mean_sentence_retrieval" and s.condition == "unaligned"
    ]
    mine, control = (
        np.mean([found[c, way] for way in WAYS], axis=0) for c in ("unaligned", "random_encoder")
    )
    assert (
        mean.value == pytest.approx(mine.mean()) and mean.n == N and mean.details["directions"] == 3
    )
    three = np.full(N, 3)
    assert (mean.value, mean.low, mean.high) == pytest.approx(share_interval(mine * 3, three))
    assert tuple(mean.details["above_control"].values()) == pytest.approx(
        difference_interval((mine - control) * 3, three)
    )
    assert mean.details["above_control"]["difference"] == pytest.approx((mine - control).mean())
    assert mean.details["control"] == pytest.approx(control.mean()) and (
        mean.source,
        mean.target,
    ) == (None, None)


def test_sentences_that_say_the_same_are_one_unit_of_every_interval():
    found, groups = outcomes(), np.arange(N) // 3
    result = compared(found, groups=groups)
    assert not any({"hits", "equal_items"} & {*s.details} for s in result)
    of = np.full(40, 3)
    for s in result:
        if s.task == "sentence_retrieval" and s.condition == "unaligned":
            way = s.source, s.target
            more = found["unaligned", way].astype(int) - found["random_encoder", way]
            expected = difference_interval(more.reshape(40, 3).sum(1), of)
            assert tuple(s.details["above_control"].values()) == pytest.approx(expected)
    (mean,) = [
        s for s in result if s.task == "mean_sentence_retrieval" and s.condition == "unaligned"
    ]
    mine, control = (
        cluster_sums(np.sum([found[c, way] for way in WAYS], axis=0), groups)[0]
        for c in ("unaligned", "random_encoder")
    )
    assert (mean.value, mean.low, mean.high) == pytest.approx(share_interval(mine, 3 * of))
    expected = difference_interval(mine - control, 3 * of)
    assert tuple(mean.details["above_control"].values()) == pytest.approx(expected)
    assert mean.details["control"] == pytest.approx(control.sum() / (3 * N))
    assert (mean.n, mean.details["groups"]) == (N, 40)


def test_layers_are_compared_with_the_same_layer():
    first, second = outcomes(0), outcomes(1)
    scores = [
        score(c, way, hits, layer=layer)
        for layer, found in ((0, first), (1, second))
        for (c, way), hits in found.items()
    ]
    means = {
        (s.condition, s.layer): s
        for s in compare_with_controls(scores)
        if s.task == "mean_sentence_retrieval"
    }
    alone = {s.condition: s for s in compared(second) if s.task == "mean_sentence_retrieval"}
    assert (
        means["unaligned", 1].details == alone["unaligned"].details != means["unaligned", 0].details
    )


def test_without_a_control_there_is_a_mean_and_no_difference():
    found = {key: hits for key, hits in outcomes().items() if key[0] == "unaligned"}
    result = compared(found)
    assert (
        not any("above_control" in s.details for s in result)
        and [s.task for s in result].count("mean_sentence_retrieval") == 1
    )


def test_other_scores_pass_untouched():
    other = Score(quantity="accuracy", value=0.5, n=4, task="language_id")
    whole = score("unaligned", WAYS[0], np.ones(N, bool), part="all")
    assert compare_with_controls([other, whole]) == [other, whole]
