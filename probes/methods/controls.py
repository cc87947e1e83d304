"""What a probe's accuracy has to be read against: results that owe nothing to the vectors."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import ArrayLike

from crosslens.checks import check_labels, check_seed
from crosslens.errors import refuse
from crosslens.stats import cluster_sums, share_interval, wilson_interval

__all__ = [
    "Accuracy",
    "check_classes",
    "confusion_counts",
    "f1_per_class",
    "macro_f1",
    "majority_accuracy",
    "number_labels",
    "shuffled_labels",
    "type_majority",
    "unseen_labels",
]


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """A share of items that were classified correctly.

    Attributes
    ----------
    value: the share, from 0 to 1; higher is better.
    n: number of items.
    low, high: 95 % interval: Wilson's (1927) for independent items, and of items in groups
        :func:`crosslens.stats.share_interval`.
    """

    value: float
    n: int
    low: float
    high: float

    @classmethod
    def of(
        cls, correct: Bool[np.ndarray, " n"], groups: Shaped[np.ndarray, " n"] | None = None
    ) -> "Accuracy":
        """The accuracy that follows from the outcome of each item; n must be at least 1.

        Parameters
        ----------
        groups: which items stand and fall together, the words of a sentence say. Of a single group
            the interval is from 0 to 1.

        >>> Accuracy.of(np.array([True, False, True, True])).value
        0.75
        """
        hits, n = int(correct.sum()), len(correct)
        low, high = wilson_interval(float(hits), n)
        if groups is not None:
            found, of = cluster_sums(correct, groups)
            if len(of) < n:
                low, high = share_interval(found, of)[1:] if len(of) > 1 else (0.0, 1.0)
        return cls(hits / n, n, low, high)


def majority_accuracy(
    y_train: ArrayLike, y_test: ArrayLike, groups: Shaped[np.ndarray, " m"] | None = None
) -> Accuracy:
    """Accuracy of always answering the label that is most frequent in training.

    Of equally frequent labels the first in sorted order is taken. Test labels that
    training does not have count as wrong.

    Parameters
    ----------
    y_train: shape (n,). y_test: shape (m,). Labels of one kind, all words or all numbers.
    groups: shape (m,), which test items stand and fall together, for the interval.

    Raises
    ------
    InputError: no labels, not one-dimensional, or labels that cannot be sorted.

    >>> majority_accuracy(["de", "fr", "fr"], ["fr", "de", "it", "fr"]).value
    0.5
    """
    train, test = check_classes(y_train, "y_train"), check_classes(y_test, "y_test")
    labels, counts = np.unique(train, return_counts=True)
    return Accuracy.of(np.asarray(test == labels[counts.argmax()]), groups)


def type_majority(
    train_types: Shaped[np.ndarray, " n"],
    y_train: Int[np.ndarray, " n"],
    types: Shaped[np.ndarray, " m"],
) -> Int[np.ndarray, " m"]:
    """What a table of words says: the most frequent label of each word type in training, of types
    that it lacks the most frequent of all.

    Of equally frequent labels the lowest number is taken.

    Parameters
    ----------
    train_types, y_train: word type and number of the label of each training item. types: word type
        of each item that is asked about.

    >>> type_majority(np.array(["the", "run", "run"]), np.array([0, 1, 1]), np.array(["the", "new"])).tolist()
    [0, 1]
    """
    kinds, codes = np.unique(train_types, return_inverse=True)
    counts = np.zeros((len(kinds), int(y_train.max()) + 1), np.int64)
    np.add.at(counts, (codes, y_train), 1)
    place = np.minimum(np.searchsorted(kinds, types), len(kinds) - 1)
    return np.where(
        kinds[place] == types, counts.argmax(axis=1)[place], counts.sum(axis=0).argmax()
    )


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


def confusion_counts(
    true: Int[np.ndarray, " n"], answers: Int[np.ndarray, " n"], classes: int
) -> Int[np.ndarray, "c c"]:
    """How often each class was answered for each: row is the true class, column the answer.

    Parameters
    ----------
    true, answers: shape (n,), numbers of classes, from 0 to ``classes - 1``.

    >>> confusion_counts(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(true * classes + answers, minlength=classes**2).reshape(classes, classes)


def f1_per_class(confusion: Int[np.ndarray, "c c"]) -> Float[np.ndarray, " c"]:
    """``2 TP / (2 TP + FP + FN)`` of each class, from 0 to 1; NaN for a class that is neither there
    nor answered.

    Parameters
    ----------
    confusion: as of :func:`confusion_counts`.

    >>> f1_per_class(np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]])).round(3).tolist()
    [0.667, 0.667, nan]
    """
    there = confusion.sum(axis=0) + confusion.sum(axis=1)
    return np.divide(
        2 * confusion.diagonal(), there, out=np.full(len(confusion), np.nan), where=there > 0
    )


def macro_f1(true: Int[np.ndarray, " n"], answers: Int[np.ndarray, " n"]) -> float:
    """Mean F1 over the classes that are there or were answered (scikit-learn's macro average), from
    0 to 1; higher is better.

    Parameters
    ----------
    true, answers: shape (n,), numbers of classes, from 0.

    >>> round(macro_f1(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0])), 3)
    0.733
    """
    return float(
        np.nanmean(
            f1_per_class(confusion_counts(true, answers, 1 + int(max(true.max(), answers.max()))))
        )
    )


def number_labels(
    train: Shaped[np.ndarray, " m"], y: Shaped[np.ndarray, " n"]
) -> tuple[Shaped[np.ndarray, " c"], Int[np.ndarray, " n"]]:
    """All labels, those of training first and each group sorted, and the number of each of ``y``
    among them.

    Parameters
    ----------
    train: shape (m,), labels of the training items. y: shape (n,), any labels.

    Raises
    ------
    InputError: words on one side and numbers on the other.

    >>> labels, codes = number_labels(np.array(["b", "c"]), np.array(["a", "c"]))
    >>> labels.tolist(), codes.tolist()
    (['b', 'c', 'a'], [2, 1])
    """
    kinds = {
        "words" if some.dtype.kind in "US" else "numbers"
        for some in (train, y)
        if some.dtype.kind in "USiufb"
    }
    try:
        labels = np.concatenate([np.unique(train), np.setdiff1d(y, train)])
        sorter = np.argsort(labels)
        codes = sorter[np.searchsorted(labels, y, sorter=sorter)]
    except TypeError:
        kinds = {"words", "numbers"}
    if len(kinds) > 1:
        refuse("labels", "labels of one kind", "words and numbers", "use all words or all numbers")
    return labels, codes


def unseen_labels(
    labels: Shaped[np.ndarray, " c"], codes: Int[np.ndarray, " n"], trained: int
) -> dict[Any, int]:
    """How many items have each label that training does not have: those numbered from ``trained``
    on.

    >>> unseen_labels(np.array(["b", "c", "a"]), np.array([2, 1, 2]), 2)
    {'a': 2}
    """
    numbers, counts = np.unique(codes[codes >= trained], return_counts=True)
    return dict(zip(labels[numbers].tolist(), counts.tolist(), strict=True))


def check_classes(value: ArrayLike, name: str, n: int | None = None) -> Shaped[np.ndarray, " n"]:
    """Return class labels that can be distinguished and sorted; ``n`` of them if it is given.

    >>> check_classes(["en", "fr"], "y").tolist()
    ['en', 'fr']
    """
    labels = check_labels(value, name, np.size(value) if n is None else n)
    if not len(labels):
        refuse(name, "at least one label", "none", "give the label of every item")
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    else:
        missing = np.array([label is None or bool(label != label) for label in labels])
    if missing.any():
        got = f"none for item {np.flatnonzero(missing)[0]}"
        refuse(name, "a label for every item", got, "remove items without a label")
    try:
        np.unique(labels)
    except TypeError:
        got = "labels that cannot be sorted"
        refuse(name, "labels of one kind", got, "use all words or all numbers")
    return labels
