"""One rule for what is best: numbers alone, by other items where there are any, the lower layer of
equal ones, then the first."""

import math

import pytest

from crosslens.score import Score
from crosslens.selection import Choice, at_layer, best_layer, choose, chosen_layer, improves


def curve(*values):
    return {
        k: Score(quantity="accuracy", value=value, n=10, layer=k) for k, value in enumerate(values)
    }


def test_what_is_no_number_takes_no_part():
    assert choose([math.nan, 0.1, math.nan], float) == Choice(0.1, 0.1, 1, False)
    assert choose([math.nan], float) is None
    assert choose([], float) is None


def test_equal_ones_go_to_the_lower_layer_then_to_the_first():
    items = [("a", 2), ("b", 1), ("c", 1), ("d", None)]
    assert choose(items[:3], lambda _: 0.5, layer=lambda item: item[1]).item == ("b", 1)
    assert choose(items, lambda _: 0.5).item == ("a", 2)
    # no layer: as layer 0
    assert choose(items, lambda _: 0.5, layer=lambda item: item[1]).item == ("d", None)


def test_other_items_decide_where_there_are_any():
    value, dev = {0: 0.9, 1: 0.2, 2: math.nan}, {1: 0.1, 2: 0.8}
    found = choose(value, value.__getitem__, lambda k: dev.get(k, math.nan))
    assert found == Choice(1, 0.1, 1, True)  # 0 has no value on dev, 2 none of its own
    assert choose(value, value.__getitem__, lambda k: math.nan) == Choice(0, 0.9, 2, False)


def test_an_equal_loss_or_none_makes_no_better_checkpoint():
    assert [improves(loss, 2.0) for loss in (1.9, 2.0, math.nan)] == [True, False, False]


def test_a_mean_over_few_curves_cannot_win():
    best = best_layer([curve(0.2, 0.9), curve(0.4, math.nan)])
    assert (best.layer, best.layers, best.on_train) == (0, 1, None)
    assert best.mean == pytest.approx(0.3)
    assert best_layer([curve(math.nan)]) is None


def test_a_layer_chosen_elsewhere_is_told_with_its_own_mean():
    chosen = chosen_layer([curve(0.1, 0.2, 0.9), curve(0.3, 0.4, 0.9)], [curve(0.5, 0.8, 0.7)])
    assert (chosen.layer, chosen.layers, chosen.on_train) == (1, 3, 0.8)
    assert chosen.mean == pytest.approx(0.3)
    assert at_layer([curve(0.1, 0.2), {}], 1).mean == 0.2
    assert at_layer([curve(0.1)], 1) is None
