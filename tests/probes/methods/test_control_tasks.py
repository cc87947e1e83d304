"""Control tasks: a label per type whatever the order, in the labels' proportions; selectivity and
its interval."""

import os
import subprocess
import sys

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.probes.methods.control_tasks import control_labels, selectivity
from crosslens.stats import paired_interval

TYPES = np.array([f"word{i}" for i in range(3000)])
LABELS = np.repeat(["NOUN", "VERB", "X"], [60, 30, 10])


def test_a_type_has_one_label_wherever_it_stands():
    types = np.random.default_rng(0).choice(TYPES[:50], 400)
    labels = control_labels(types, LABELS, 0)
    assert all(len({*labels[types == name]}) == 1 for name in np.unique(types))
    assert len({*labels}) == 3


def test_neither_order_nor_company_of_types_matters():
    whole = dict(zip(TYPES, control_labels(TYPES, LABELS, 3), strict=True))
    turned = control_labels(TYPES[::-1], LABELS[::-1], 3)[::-1]
    assert turned.tolist() == list(whole.values())
    alone = control_labels(["word7"], LABELS, 3)
    assert alone.tolist() == [whole["word7"]]
    assert control_labels(TYPES.astype(object), LABELS, 3).tolist() == list(whole.values())


def test_neither_does_the_seed_of_hashes():
    code = (
        "from crosslens.probes.methods.control_tasks import control_labels; "
        "print(control_labels(list('abcdefgh'), list('xyz'), 5).tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "1"},
    )
    assert run.stdout == f"{control_labels(list('abcdefgh'), list('xyz'), 5).tolist()}\n"
    assert os.environ.get("PYTHONHASHSEED") != "1"


def test_labels_are_drawn_in_their_proportions_and_by_the_seed():
    labels = control_labels(TYPES, LABELS, 0)
    shares = [np.mean(labels == name) for name in ("NOUN", "VERB", "X")]
    assert shares == pytest.approx([0.6, 0.3, 0.1], abs=0.03)  # 3 standard errors of 3,000 draws
    # .6² + .3² + .1²: independent
    assert np.mean(labels == control_labels(TYPES, LABELS, 1)) == pytest.approx(0.46, abs=0.03)


def test_a_label_that_never_occurs_is_never_drawn():
    assert {*control_labels(TYPES, np.array([1, 1, 4]), 0).tolist()} == {1, 4}
    assert {*control_labels(TYPES, np.array(["only"]), 0).tolist()} == {"only"}


def test_selectivity_of_one_task_is_the_paired_interval():
    rng = np.random.default_rng(0)
    correct, control = rng.random(200) < 0.8, rng.random(200) < 0.4
    assert selectivity(correct, control[None]) == pytest.approx(
        paired_interval(correct, control), abs=1e-12
    )


def test_selectivity_of_several_tasks_is_their_mean_and_surer():
    rng = np.random.default_rng(0)
    correct, controls = rng.random(300) < 0.8, rng.random((5, 300)) < 0.4
    alone = [selectivity(correct, control[None]) for control in controls]
    value, low, high = selectivity(correct, controls)
    assert value == pytest.approx(np.mean([one[0] for one in alone]), abs=1e-12)
    assert low < value < high
    assert high - low < min(one[2] - one[1] for one in alone)


def test_at_the_ends_the_interval_still_has_a_width():
    value, low, high = selectivity(np.ones(20, bool), np.zeros((3, 20), bool))
    assert (value, high) == (1.0, 1.0)
    assert 0.7 < low < 1


def test_refusals():
    with pytest.raises(InputError, match=r"types: .*got an array of"):
        control_labels([["a", "b"], ["c", "d"]], LABELS, 0)
    with pytest.raises(InputError, match=r"y: .*got none"):
        control_labels(["a"], [], 0)
    with pytest.raises(InputError, match=r"seed: .*got -1"):
        control_labels(["a"], LABELS, -1)
    with pytest.raises(InputError, match=r"control: .*got shape \(2"):
        selectivity(np.ones(3, bool), np.ones((2, 4), bool))
    with pytest.raises(InputError, match=r"control: .*got shape \(0"):
        selectivity(np.ones(3, bool), np.ones((0, 3), bool))
