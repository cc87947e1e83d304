"""Controls: the majority label and shuffled labels."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score

from crosslens.errors import InputError
from crosslens.probes import Accuracy, majority_accuracy, shuffled_labels
from crosslens.probes.methods.controls import (
    confusion_counts,
    f1_per_class,
    macro_f1,
    number_labels,
    unseen_labels,
)
from crosslens.stats import wilson_interval


def test_the_majority_is_that_of_training_not_of_test():
    result = majority_accuracy(["a"] * 3 + ["b"] * 2, ["b"] * 9 + ["a"])
    assert result == Accuracy(0.1, 10, *wilson_interval(1.0, 10))


def test_of_equally_frequent_labels_the_first_is_taken():
    assert majority_accuracy([2, 1, 1, 2], [1, 1, 1, 2]).value == 0.75
    assert majority_accuracy([1, 2, 2, 1], [1, 1, 1, 2]).value == 0.75


def test_unseen_test_labels_are_wrong():
    assert majority_accuracy(["a"], ["b", "c"]).value == 0


def test_shuffling_keeps_the_labels_and_loses_their_places():
    y = np.repeat(["a", "b", "c"], [50, 30, 20])
    before = y.copy()
    shuffled = shuffled_labels(y, 3)
    assert np.array_equal(y, before)
    assert sorted(shuffled) == sorted(y)
    assert 0.2 < (shuffled == y).mean() < 0.6  # by chance .5² + .3² + .2² = .38


def test_the_seed_decides():
    y = np.arange(50)
    assert np.array_equal(shuffled_labels(y, 3), shuffled_labels(y.tolist(), 3))
    assert not np.array_equal(shuffled_labels(y, 3), shuffled_labels(y, 4))


def test_global_random_state_is_neither_read_nor_moved():
    np.random.seed(0)  # noqa: NPY002
    first = shuffled_labels(np.arange(20), 1)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert np.array_equal(shuffled_labels(np.arange(20), 1), first)
    np.random.seed(0)  # noqa: NPY002
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_confusion_and_f1_are_scikit_learns():
    rng = np.random.default_rng(0)
    true, answers = rng.integers(0, 5, 60), rng.integers(0, 4, 60)
    counts = confusion_counts(true, answers, 6)
    assert np.array_equal(counts, confusion_matrix(true, answers, labels=range(6)))
    assert f1_per_class(counts)[:5] == pytest.approx(
        f1_score(true, answers, labels=range(5), average=None, zero_division=0)
    )
    assert macro_f1(true, answers) == pytest.approx(
        f1_score(true, answers, average="macro", zero_division=0)
    )
    # neither there nor answered: no number, and no warning
    assert np.isnan(f1_per_class(counts)[5])


def test_labels_of_training_are_numbered_first():
    labels, codes = number_labels(np.array(["c", "b", "c"]), np.array(["d", "a", "b", "a"]))
    assert labels.tolist() == ["b", "c", "a", "d"]
    assert codes.tolist() == [3, 2, 0, 2]
    assert unseen_labels(labels, codes, 2) == {"a": 2, "d": 1}
    objects, codes = number_labels(np.array(["b", "a"], object), np.array(["c"], object))
    assert (objects.tolist(), codes.tolist()) == (["a", "b", "c"], [2])
    for train, y in (
        (np.array(["1"]), np.array([1])),
        (np.array(["a"], object), np.array([1], object)),
    ):
        with pytest.raises(InputError, match=r"labels: .*got words and numbers"):
            number_labels(train, y)


def test_refusals():
    with pytest.raises(InputError, match=r"y_train: .*got none"):
        majority_accuracy([], ["a"])
    with pytest.raises(InputError, match=r"y_test: .*got none"):
        majority_accuracy(["a"], [])
    with pytest.raises(InputError, match=r"y: .*got an array of"):
        shuffled_labels([["a", "b"], ["c", "d"]], 0)
    with pytest.raises(InputError, match=r"seed: .*got -1"):
        shuffled_labels(["a"], -1)
    with pytest.raises(InputError, match=r"seed: .*got True"):
        shuffled_labels(["a"], True)
