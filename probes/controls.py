"""What a probe's accuracy has to be read against: results that owe nothing to the vectors."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Shaped
from numpy.typing import ArrayLike

from crosslens.checks import check_labels
from crosslens.errors import refuse
from crosslens.stats import wilson_interval

__all__ = ["Accuracy", "check_classes", "check_seed", "majority_accuracy", "shuffled_labels"]


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """A share of items that were classified correctly.

    Attributes
    ----------
    value: the share, from 0 to 1; higher is better.
    n: number of items.
    low, high: 95 % interval (Wilson 1927).
    """

    value: float
    n: int
    low: float
    high: float

    @classmethod
    def of(cls, correct: Bool[np.ndarray, " n"]) -> "Accuracy":
        """The accuracy that follows from the outcome of each item; n must be at least 1.

        >>> Accuracy.of(np.array([True, False, True, True])).value
        0.75
        """
        hits, n = int(correct.sum()), len(correct)
        low, high = wilson_interval(float(hits), n)
        return cls(hits / n, n, low, high)


def majority_accuracy(y_train: ArrayLike, y_test: ArrayLike) -> Accuracy:
    """Accuracy of always answering the label that is most frequent in training.

    Of equally frequent labels the first in sorted order is taken. Test labels that
    training does not have count as wrong.

    Parameters
    ----------
    y_train: shape (n,). y_test: shape (m,). Labels of one kind, all words or all numbers.

    Raises
    ------
    InputError: no labels, not one-dimensional, or labels that cannot be sorted.

    >>> majority_accuracy(["de", "fr", "fr"], ["fr", "de", "it", "fr"]).value
    0.5
    """
    train, test = check_classes(y_train, "y_train"), check_classes(y_test, "y_test")
    labels, counts = np.unique(train, return_counts=True)
    return Accuracy.of(np.asarray(test == labels[counts.argmax()]))


def shuffled_labels(y: ArrayLike, seed: int) -> Shaped[np.ndarray, " n"]:
    """The same labels in another order: control labels that the vectors say nothing about.

    A uniform random permutation, so that every label stays as frequent as it was. A probe
    trained on them measures how much the probe itself can memorise (in the sense of Hewitt
    & Liang 2019, whose control tasks give random labels to word types rather than items).

    Parameters
    ----------
    y: shape (n,).
    seed: the same seed gives the same order on every machine; not negative.

    Returns
    -------
    shape (n,), a new array; ``y`` is not written to.

    Raises
    ------
    InputError: no labels, not one-dimensional, labels that cannot be sorted, or a negative seed.

    >>> shuffled_labels(["a", "a", "b", "c"], seed=0).tolist()
    ['b', 'a', 'a', 'c']
    """
    return np.random.default_rng(check_seed(seed)).permutation(check_classes(y, "y"))


def check_seed(seed: int) -> int:
    """Return a whole number from 0 up.

    >>> check_seed(0)
    0
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        refuse("seed", "a whole number from 0 up", repr(seed), "choose any such number and keep it with the result")
    return int(seed)


def check_classes(value: ArrayLike, name: str, n: int | None = None) -> Shaped[np.ndarray, " n"]:
    """Return class labels that can be told apart and sorted; ``n`` of them if it is given.

    >>> check_classes(["en", "fr"], "y").tolist()
    ['en', 'fr']
    """
    labels = check_labels(value, name, np.size(value) if n is None else n)
    if not len(labels):
        refuse(name, "at least one label", "none", "give the label of every item")
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    else:
        missing = np.array([label is None for label in labels])
    if missing.any():
        refuse(name, "a label for every item", f"none for item {np.flatnonzero(missing)[0]}", "remove items without a label")
    try:
        np.unique(labels)
    except TypeError:
        refuse(name, "labels of one kind", "labels that cannot be sorted", "use all words or all numbers")
    return labels
