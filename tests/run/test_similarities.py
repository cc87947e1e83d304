"""Stores compared layer by layer, and whether similarity goes with retrieval."""

import json
import re

import numpy as np
import pytest
from scipy import stats
from tests_run_helpers import store

from crosslens.alignment.similarity.linear_cka import linear_cka
from crosslens.errors import InputError
from crosslens.run.measures import make_split, retrieval_scores
from crosslens.run.similarities import MEASURES, compare_stores, correlation_scores, measure_layers
from crosslens.score import not_measured

N = 80


@pytest.fixture
def three(tmp_path):
    """Stores of other widths and depths for the same items."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(N, 6))
    shapes = {"a": (3, 6), "b": (2, 4), "c": (1, 6)}
    return {
        name: store(
            tmp_path / name,
            name,
            [
                base @ rng.normal(size=(6, d)) + layer * rng.normal(size=(N, d))
                for layer in range(layers)
            ],
        )
        for name, (layers, d) in shapes.items()
    }


def test_every_pair_of_layers_of_every_pair_of_stores_has_its_cka(three):
    scores = compare_stores(three, seed=0)
    found = {
        (s.source, s.target, s.layer, s.other_layer, s.quantity): s
        for s in scores
        if s.condition is None
    }
    assert len(found) == 2 * (3 * 2 + 3 * 1 + 2 * 1) == sum(s.condition is None for s in scores)
    for (source, target, layer, other, quantity), score in found.items():
        x, y = three[source].layer(layer), three[target].layer(other)
        assert score.value == pytest.approx(
            linear_cka(x, y, debiased=quantity.startswith("debiased")), abs=2e-6
        )  # float32, summed in tiles
        assert (score.n, score.low is None, score.task) == (
            N,
            quantity == "linear_cka",
            "similarity",
        )


def test_shuffled_rows_are_less_alike_and_follow_the_seed(three):
    first, again, other = (compare_stores(three, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    shuffled = {
        (s.source, s.target, s.layer): s.value for s in first if s.condition == "shuffled_items"
    }
    assert set(shuffled) == {("a", "b", 0), ("a", "b", 1), ("a", "c", 0), ("b", "c", 0)}
    real = {
        (s.source, s.target, s.layer): s.value
        for s in first
        if s.condition is None and s.layer == s.other_layer
    }
    assert all(shuffled[key] < 0.6 * real[key] for key in shuffled if key[2] == 0)


def test_debiased_values_of_every_pair_of_layers_have_an_interval_and_biased_ones_none(three):
    for s in compare_stores(three, seed=0):
        assert (
            (s.low, s.high) == (None, None)
            if s.quantity == "linear_cka"
            else s.low < s.value < s.high
        )


def test_the_correlation_is_scipy_s_over_layers(tmp_path):
    rng = np.random.default_rng(2)
    base = rng.normal(size=(N, 12))
    x, y = (
        store(
            tmp_path / name,
            name,
            [base + noise * rng.normal(size=base.shape) for noise in (0.2, 0.6, 1.0, 1.5, 2.5)],
        )
        for name in "xy"
    )
    retrieval = retrieval_scores(x, y, make_split(N, 0.5, seed=0), {"encoder": "made", "seed": 0})
    scores = {
        s.condition: s for s in correlation_scores(x, y, retrieval, {"encoder": "made", "seed": 0})
    }
    assert set(scores) == {"unaligned", "procrustes"}
    cka = [linear_cka(x.layer(layer), y.layer(layer), debiased=True) for layer in range(5)]
    for condition, score in scores.items():
        held = [
            s for s in retrieval if s.condition == condition and s.details["part"] == "held_out"
        ]
        means = [np.mean([s.value for s in held if s.layer == layer]) for layer in range(5)]
        assert score.value == pytest.approx(stats.pearsonr(cka, means).statistic, abs=1e-6)
        assert (score.low, score.high) == (None, None)  # layers are not independent
        assert (score.n, score.quantity, score.source, score.target) == (5, "pearson", "x", "y")
    assert scores["unaligned"].value > 0.9


def test_a_correlation_that_is_not_there_is_a_nan_with_its_reason(tmp_path):
    rng = np.random.default_rng(3)
    few = [store(tmp_path / name, name, list(rng.normal(size=(3, N, 5)))) for name in "xy"]
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    layers = list(rng.normal(size=(4, N, 5)))
    flat = [
        store(tmp_path / "a", "a", layers),
        store(tmp_path / "b", "b", [2 * layer @ turn for layer in layers]),
    ]
    reasons = {
        "few": (
            few,
            ["unaligned", "procrustes"],
            3,
            r"expected 4 or more pairs of numbers, got shapes \(3,\) and \(3,\); give more pairs",
        ),
        "flat": (
            flat,
            ["procrustes"],
            4,
            (
                r"expected numbers that vary, got equal ones; a correlation with a constant is "
                r"not defined"
            ),
        ),
    }
    for (x, y), conditions, n, reason in reasons.values():
        retrieval = retrieval_scores(
            x, y, make_split(N, 0.5, seed=0), {"encoder": "made", "seed": 0}
        )
        scores = {
            s.condition: s
            for s in correlation_scores(x, y, retrieval, {"encoder": "made", "seed": 0})
        }
        assert set(scores) == {"unaligned", "procrustes"}
        for condition in conditions:
            score = scores[condition]
            assert np.isnan(score.value) and (score.low, score.high, score.n) == (None, None, n)
            assert re.fullmatch(reason, score.details["reason"])
            assert json.loads(score.as_json())["value"] is None
    # layers turned alike, by chance
    assert np.isfinite(scores["unaligned"].value) and "reason" not in scores["unaligned"].details


def test_other_measures_compare_same_layers_and_shuffled_rows(three):
    scores = measure_layers(three, list(MEASURES), seed=0)
    found = {(s.quantity, s.source, s.target, s.layer, s.condition): s.value for s in scores}
    assert len(found) == len(scores) == len(MEASURES) * 2 * (2 + 1 + 1)
    for name, measure in MEASURES.items():
        assert found[name, "a", "b", 1, None] == measure(
            np.array(three["a"].layer(1)), np.array(three["b"].layer(1))
        )
        real, shuffled = found[name, "a", "b", 0, None], found[name, "a", "b", 0, "shuffled_items"]
        assert real < shuffled if name == "procrustes_distance" else real > shuffled
    with pytest.raises(InputError, match="also: .*got cosine"):
        measure_layers(three, ["rsa", "cosine"], seed=0)


def test_what_a_measure_refuses_is_said_of_the_stores(tmp_path):
    rng = np.random.default_rng(4)
    stores = {
        name: store(tmp_path / name, name, list(rng.normal(size=(2, 8, d))))
        for name, d in (("deu", 3), ("spa", 9))
    }
    told = (
        "mean_cca of layer 0, spa: expected more items than independent directions, by at least "
        "2, got 8 items with 7 "
    )
    with pytest.raises(InputError) as refused:
        measure_layers(stores, ["mean_cca"], seed=0)
    assert str(refused.value).startswith(told) and str(refused.value).endswith(
        ": give more items, or do without mean_cca"
    )
    with pytest.raises(InputError, match=r"^mutual_knn of layer 0, k: .*got 10"):
        measure_layers(stores, ["mutual_knn"], seed=0)
    layers = rng.normal(size=(2, 8, 3))
    layers[1, 3] = 0
    lost = {"deu": stores["deu"], "ita": store(tmp_path / "ita", "ita", list(layers))}
    assert not_measured(measure_layers(lost, ["rsa", "procrustes_distance"], seed=0)) == [
        "Not measured: layer 1, rsa (ita: expected rows that vary over their dimensions, got 1 row(s) "
        "that do not, the first is row 3)."
    ]
    broken = rng.normal(size=(8, 3))
    broken[5, 1] = np.nan
    with pytest.raises(InputError, match="^rsa of layer 0, fra: expected finite numbers,"):
        measure_layers(
            {"deu": stores["deu"], "fra": store(tmp_path / "fra", "fra", [broken])}, ["rsa"], seed=0
        )
