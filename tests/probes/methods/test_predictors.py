"""What may predict transfer: by hand, by its definition in a line, and by what must not change it."""

import collections
import math

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from crosslens.errors import InputError
from crosslens.probes.methods.predictors import (
    SubwordOverlap,
    arc_orders,
    correlation,
    subword_overlap,
    word_order_distance,
)
from crosslens.stats import pearson_interval, spearman_interval

# -- subwords


def test_overlap_by_hand():
    train, test = {"a": 5, "b": 1, "c": 1}, {"a": 6, "b": 1, "x": 1, "y": 2}
    assert subword_overlap(train, test) == SubwordOverlap(2 / 4, 7 / 10, 2 / 5)


@pytest.mark.parametrize("seed", range(5))
def test_overlap_by_its_definition(seed):
    rng = np.random.default_rng(seed)
    first, second = (rng.integers(k, k + 30, 60).tolist() for k in (0, 10))
    train, test = (collections.Counter(map(str, some)) for some in (first, second))
    found = subword_overlap(train, test)
    seen = {*first}
    assert found.types == pytest.approx(np.mean([one in seen for one in {*second}]))
    assert found.tokens == pytest.approx(np.mean([one in seen for one in second]))
    assert found.jaccard == subword_overlap(test, train).jaccard <= found.types
    often = {one: 9 * n for one, n in train.items()}
    assert subword_overlap(often, test) == found  # how often training has it does not matter


def test_equal_texts_share_all_and_disjoint_ones_nothing():
    assert subword_overlap({"a": 1}, {"a": 3}) == SubwordOverlap(1.0, 1.0, 1.0)
    assert subword_overlap({"a": 1}, {"b": 3}) == SubwordOverlap(0.0, 0.0, 0.0)
    assert math.isnan(subword_overlap({"a": 1}, {}).types)
    assert math.isnan(subword_overlap({}, {"a": 1}).jaccard)


# -- word order


def orders(*arcs):
    """(kind, before, all) -> orders."""
    return {("X", "Y", name): (before, n) for name, before, n in arcs}


def test_arcs_are_counted_by_their_direction():
    heads, names = [[2, 0, 2], [0, 1]], [["nsubj:pass", "root", "punct"], ["root", "obj"]]
    tags = [["NOUN", "VERB", "PUNCT"], ["VERB", "NOUN"]]
    assert arc_orders(heads, names, tags) == {
        ("NOUN", "VERB", "nsubj"): (1, 1),
        ("PUNCT", "VERB", "punct"): (0, 1),
        ("NOUN", "VERB", "obj"): (0, 1),
    }


def test_distance_by_hand():
    first, second = orders(("a", 9, 10), ("b", 2, 10)), orders(("a", 4, 5), ("c", 5, 5))
    # .9 and .8; .2 and .5, which it lacks; .5 and 1
    assert word_order_distance(first, second) == (pytest.approx((0.1 + 0.3 + 0.5) / 3), 3)
    assert word_order_distance(first, first) == (0.0, 2)
    assert word_order_distance(second, first) == word_order_distance(first, second)


def test_sentences_read_backwards_are_as_far_as_their_orders_are_fixed():
    heads, names = [2, 0, 2, 3], ["det", "root", "obj", "det"]
    tags = ["DET", "VERB", "NOUN", "DET"]
    back = [0 if head == 0 else 5 - head for head in heads[::-1]]
    there = arc_orders([heads], [names], [tags])
    mirrored = arc_orders([back], [names[::-1]], [tags[::-1]])
    assert word_order_distance(there, mirrored) == (1.0, 3)


def test_rare_kinds_of_arcs_are_left_out():
    common, rare = ("a", 500, 1000), ("b", 2, 2)
    assert word_order_distance(orders(common, rare), orders(common)) == (0.0, 1)
    assert word_order_distance(orders(common, ("b", 9, 9)), orders(common))[1] == 2


def test_a_language_without_arcs_is_refused():
    with pytest.raises(InputError, match="orders: expected an arc or more"):
        word_order_distance(orders(("a", 1, 1)), {})


# -- correlations


@pytest.mark.parametrize("n", [8, 9, 40])
def test_correlations_are_those_of_scipy(n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=n)
    y = x + rng.normal(size=n)
    for kind, test in (("pearson", pearsonr), ("spearman", spearmanr)):
        found = correlation(x, y, kind)
        assert (found.value, found.p) == pytest.approx(tuple(test(x, y)))
        assert found.low < found.value < found.high
        again = correlation(y[::-1], x[::-1], kind)
        assert (again.value, again.low) == pytest.approx((found.value, found.low))
    assert correlation(x, y, "pearson").low == pearson_interval(x, y)[1]
    assert correlation(x, np.exp(y), "spearman").value == correlation(x, y, "spearman").value


def test_few_ranks_have_no_interval():
    """It would not cover."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=6)
    y = x + rng.normal(size=6)
    assert correlation(x, y, "spearman").low is None
    assert spearman_interval(x, y)[1] < spearman_interval(x, y)[2]  # what is left out
    assert correlation(x, y, "pearson").low is not None


def test_numbers_on_one_line_have_no_interval():
    found = correlation(np.arange(5.0), -2 * np.arange(5.0), "spearman")
    assert (found.value, found.low, found.high) == (-1, None, None)


@pytest.mark.parametrize("y", [np.arange(3.0), np.ones(5), np.array([1, 2, 3, math.nan])])
def test_few_or_constant_numbers_are_refused(y):
    with pytest.raises(InputError, match="x, y: expected"):
        correlation(np.arange(float(len(y))), y, "pearson")
