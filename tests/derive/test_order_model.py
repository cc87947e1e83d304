"""The models of word order against a loop over all orders, with nothing shared but the formula."""

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
from ground_tools import GRAMMAR

from crosslens.derive import order_model
from crosslens.derive.order_features import Symbols, head_views, size_events, views
from crosslens.derive.order_model import OrderModel, fit_order, likelihood, mixed
from crosslens.derive.order_nodes import Node, canonical
from crosslens.derive.order_relation_weights import (
    RelationWeights,
    _seen,
    fit_relation_weights,
    relation_likelihood,
)
from crosslens.errors import InputError

KINDS = [
    ("DET", "det"),
    ("ADJ", "amod"),
    ("ADP", "case"),
    ("NOUN", "nmod:poss"),
    ("PUNCT", "punct"),
]


def node(kinds, order):
    items = (
        head_views("NOUN"),
        *(views(*kind, "," if kind[0] == "PUNCT" else None) for kind in kinds),
    )
    return Node("N", items, tuple(range(len(items))), tuple(order))


def some_nodes(count=60, largest=5, seed=0):
    """Nodes whose orders follow a rule more often than not."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        kinds = [KINDS[i] for i in rng.integers(len(KINDS), size=rng.integers(1, largest))]
        place = {"DET": -2, "ADP": -3, "ADJ": 1, "NOUN": 2, "PUNCT": 3}
        keys = [0, *(place[kind[0]] + rng.normal() for kind in kinds)]
        found.append(node(kinds, np.argsort(keys).tolist()))
    return found


def features(items, order):
    """Names of the features of one order, one by one, as the papers define them."""
    names, head = [], order.index(0)
    for view in range(3):
        symbols = [items[item][view] for item in order]
        ended = ["<", *symbols, ">"]
        names += [("BI", *ended[i : i + 2]) for i in range(len(ended) - 1)]
        for i, j in itertools.combinations(range(len(order)), 2):
            names.append(("PRE", symbols[i], symbols[j]))
            if j < head:
                names.append(("BFR", symbols[i], symbols[j]))
            elif i > head:
                names.append(("AFT", symbols[i], symbols[j]))
            elif i < head < j:
                names.append(("BTW", symbols[i], symbols[j]))
        if view == 2:
            for length in range(3, min(5, len(order)) + 1):
                runs = range(len(ended) - length + 1)
                names += [("HI", *ended[i : i + length]) for i in runs]
    return names


def names_of(model):
    """The model's weights by the names that :func:`features` gives."""
    found = {}
    for code, weight in zip(model.codes.tolist(), model.weights.tolist(), strict=True):
        numbers = [(code >> 12 * slot) & 4095 for slot in (4, 3, 2, 1, 0)]
        known = ["<", ">", *model.symbols.names]
        slots = [known[number - 1] for number in numbers if number]
        found[(("BI", "PRE", "BFR", "BTW", "AFT", "HI")[code >> 60], *slots)] = weight
    return found


def scores_by_hand(weights, items):
    orders = itertools.permutations(range(len(items)))
    return [sum(weights.get(name, 0.0) for name in features(items, order)) for order in orders]


@pytest.fixture(scope="module")
def model():
    return fit_order(some_nodes())


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_scores_are_the_sums_of_the_features_of_each_order(model, size):
    rng = np.random.default_rng(size)
    weights = names_of(model)
    kinds = [KINDS[i] for i in rng.integers(len(KINDS), size=size - 1)]
    one = node(kinds, range(size))
    np.testing.assert_allclose(model.scores(one), scores_by_hand(weights, one.items), atol=1e-12)


def test_features_are_those_of_all_orders_of_the_nodes_and_the_most_frequent_runs():
    some = some_nodes()
    seen = {}
    for one in some:
        for name in features(one.items, one.order):
            if name[0] == "HI":
                seen[name] = seen.get(name, 0) + 1
    expected = {
        name
        for one in some
        for order in itertools.permutations(range(len(one.items)))
        for name in features(one.items, order)
        if name[0] != "HI"
    }
    found = names_of(fit_order(some)).keys()
    runs = {name for name in found if name[0] == "HI"}
    assert found - runs == expected
    assert len(runs) == math.ceil(len(seen) / 10)
    assert min(seen[name] for name in runs) >= max(seen[name] for name in seen.keys() - runs)


def test_the_likelihood_is_that_of_a_loop_over_all_orders():
    some = some_nodes(20)
    symbols = Symbols(name for one in some for item in one.items for name in item)
    codes, sizes = order_model._training(symbols, some)
    weights = np.random.default_rng(1).normal(size=len(codes))
    named = names_of(OrderModel(symbols, codes, weights, 0))
    expected = weights @ weights / (2 * 0.5)
    for one in some:
        own = sum(named.get(name, 0.0) for name in features(one.items, one.order))
        scores = scores_by_hand(named, one.items)
        expected += math.log(sum(math.exp(score) for score in scores)) - own
    value, gradient = likelihood(weights, sizes, 0.5)
    assert value == pytest.approx(expected, rel=1e-12)
    # central differences of step 1e-6 are exact to about 1e-9 of the value
    numbers = np.random.default_rng(2).choice(len(codes), 40, replace=False)
    for number in numbers:
        step = np.zeros(len(codes))
        step[number] = 1e-6
        up, down = (likelihood(weights + s, sizes, 0.5)[0] for s in (step, -step))
        assert gradient[number] == pytest.approx((up - down) / 2e-6, abs=1e-6 * value)


def test_at_the_minimum_expected_counts_are_those_seen_but_for_the_penalty(model):
    some = some_nodes()
    codes, sizes = order_model._training(model.symbols, some)
    assert (codes == model.codes).all()
    _, gradient = likelihood(model.weights, sizes, 0.1)
    _, at_zero = likelihood(np.zeros(len(codes)), sizes, 0.1)
    assert np.abs(gradient).max() < 1e-3 * np.abs(at_zero).max()


def test_the_order_of_the_nodes_and_of_equal_dependents_changes_nothing(model):
    some = some_nodes()
    again = fit_order(some[::-1])
    np.testing.assert_array_equal(model.codes, again.codes)
    np.testing.assert_allclose(model.weights, again.weights, atol=1e-6)
    one = node([("ADJ", "amod"), ("DET", "det"), ("ADJ", "amod")], (2, 1, 0, 3))
    assert canonical(one).order == (3, 1, 0, 2)
    assert canonical(canonical(one)) == canonical(one)


def test_a_rule_is_learnt():
    order = {"DET": -2, "ADP": -3, "ADJ": 1, "NOUN": 2, "PUNCT": 3}
    some = []
    for one in some_nodes(80):
        places = [0, *(order[item[0]] for item in one.items[1:])]
        some.append(one._replace(order=tuple(np.argsort(places, kind="stable").tolist())))
    learnt = fit_order(some, variance=10.0)
    one = node([("ADP", "case"), ("DET", "det"), ("ADJ", "amod")], range(4))
    best = size_events(4).orders[learnt.scores(one).argmax()].tolist()
    assert best == [1, 2, 0, 3]


def test_what_was_never_seen_weighs_nothing(model):
    one = node([("X", "dep"), ("SYM", "list")], range(3))
    known = node([("X", "dep")], range(2))
    # the head's own beginning and end are all that is known of it
    assert model.scores(known)[0] != model.scores(known)[1]
    strange = one._replace(items=(("?", "?", "?"), *one.items[1:]))
    assert (model.scores(strange) == 0).all()


def test_mixed_weights_are_those_of_both():
    first, second = fit_order(some_nodes()), fit_order(some_nodes(30, seed=3)[:12])
    both = mixed(first, second, 0.25)
    one = node([KINDS[0], KINDS[1], KINDS[4]], range(4))
    expected = 0.75 * first.scores(one) + 0.25 * second.scores(one)
    np.testing.assert_allclose(both.scores(one), expected, atol=1e-12)
    same = mixed(first, first, 0.3)
    np.testing.assert_allclose(same.weights, first.weights, atol=1e-15)


def test_no_node_to_learn_from_is_refused():
    large = node([KINDS[0]] * 6, range(7))
    for fit, some in ((fit_order, [large]), (fit_relation_weights, [])):
        with pytest.raises(InputError) as refused:
            fit(some)
        assert GRAMMAR.fullmatch(str(refused.value))
    with pytest.raises(InputError, match="treebank: expected up to 4,092"):
        Symbols(str(i) for i in range(4093))


# -- relation weights


def probability_by_hand(direction, distance, relations, order):
    """Hahn et al.'s, step by step: items that are left choose who is next."""
    at, found = order.index(0), 1.0
    for item in order:
        if item:
            before = 1 / (1 + math.exp(-direction.get(relations[item], 0.0)))
            found *= before if order.index(item) < at else 1 - before
    for side, sign in ((order[:at], 1), (order[at + 1 :], -1)):
        left = list(side)
        while left:
            each = [math.exp(sign * distance.get(relations[item], 0.0)) for item in left]
            found *= each[0] / sum(each)
            left.pop(0)
    return found


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_relation_weights_are_a_distribution_over_all_orders(size):
    rng = np.random.default_rng(size)
    names = ("amod", "det", "nmod")
    weights = RelationWeights(names, rng.normal(size=3), rng.normal(size=3), 0)
    kinds = [KINDS[i] for i in rng.integers(len(KINDS), size=size - 1)]  # some of them not known
    one = node(kinds, range(size))
    tables = [dict(zip(names, some, strict=True)) for some in (weights.direction, weights.distance)]
    relations = [item[1] for item in one.items]
    expected = [
        probability_by_hand(*tables, relations, order)
        for order in itertools.permutations(range(size))
    ]
    assert sum(expected) == pytest.approx(1)
    np.testing.assert_allclose(np.exp(weights.scores(one)), expected, rtol=1e-12)


def test_relation_weights_maximise_their_likelihood():
    some = some_nodes(50)
    fitted = fit_relation_weights(some)
    seen = _seen(some, fitted.relations)
    point = np.random.default_rng(0).normal(size=2 * len(fitted.relations))
    value, gradient = relation_likelihood(point, seen)
    given = RelationWeights(fitted.relations, *np.split(point, 2), 0)
    expected = point @ point / 2
    for one in some:
        row = next(
            i
            for i, order in enumerate(itertools.permutations(range(len(one.items))))
            if order == one.order
        )
        expected -= given.scores(one)[row]
    assert value == pytest.approx(expected, rel=1e-12)
    numeric = scipy.optimize.approx_fprime(point, lambda w: relation_likelihood(w, seen)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-4 * value)
    _, slope = relation_likelihood(np.r_[fitted.direction, fitted.distance], seen)
    assert np.abs(slope).max() < 1e-2
    at = fitted.relations.index("det")
    assert fitted.direction[at] > 1 > -0.5 > fitted.direction[fitted.relations.index("punct")]


def test_of_equally_frequent_runs_the_first_by_code_are_features():
    runs = size_events(3).has_run.shape[1]
    codes, counts = np.arange(5 * runs)[::-1].reshape(5, runs), np.ones((5, 6))
    often = (counts @ size_events(3).has_run).ravel()
    most = np.sort(codes.ravel()[often == often.max()])
    found = order_model._frequent_runs({3: codes}, {3: counts})
    assert len(found) == math.ceil(codes.size / 10) < len(most)
    assert found.tolist() == most[: len(found)].tolist()


def test_a_node_of_six_items_is_learnt_from():
    assert fit_order([node([KINDS[0]] * 5, range(6))]).nodes == 1
