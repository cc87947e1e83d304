"""Which language a sentence vector comes from: how much of a layer is specific to its language."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from crosslens.checks import check_matrix
from crosslens.errors import refuse
from crosslens.probes.controls import Accuracy, check_seed, majority_accuracy, shuffled_labels
from crosslens.probes.linear import LinearProbe

__all__ = ["LanguageIdResult", "language_id"]


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageIdResult:
    """How well languages can be told apart, and what that is to be compared with.

    Attributes
    ----------
    languages: in sorted order, which is the order of ``confusion``.
    accuracy: share of test items whose language is recognised, from 0 to 1.
    n: number of test items.
    interval: 95 % interval of the accuracy (Wilson 1927).
    f1: per language ``2 TP / (2 TP + FP + FN)``, from 0 to 1.
    confusion: shape (languages, languages), counts; row is the true language, column the answer.
    majority: accuracy of always naming the language most frequent in training.
    shuffled: accuracy, on the true test labels, of the same probe trained on shuffled labels.
    """

    languages: tuple[str, ...]
    accuracy: float
    n: int
    interval: tuple[float, float]
    f1: dict[str, float]
    confusion: Int[np.ndarray, "languages languages"]
    majority: Accuracy
    shuffled: Accuracy


def language_id(train: Mapping[str, ArrayLike], test: Mapping[str, ArrayLike], seed: int = 0) -> LanguageIdResult:
    """Train a linear probe to name the language of a sentence vector, and test it beside its controls.

    The probe is :class:`crosslens.probes.LinearProbe` with its default settings, on the
    vectors of one layer (usually the mean over a sentence's tokens). Train and test should
    hold different sentences. Accuracy near 1 says that the layer marks the language; near
    the two controls, that a linear map cannot find it there.

    Parameters
    ----------
    train: language -> vectors of shape (n, d); n may differ between languages.
    test: the same languages -> vectors of shape (m, d).
    seed: draws the shuffled training labels of the control; nothing else is random.

    Raises
    ------
    InputError: fewer than two languages, a language in only one of the two, a matrix that is
        not finite, or different numbers of columns; the message names ``train['deu']``.

    References
    ----------
    Wu & Dredze 2019, Beto, Bentz, Becas, section 5 (language identification from mean-pooled
    layers); they train a softmax layer by Adam, here it is trained to convergence.

    >>> rng = np.random.default_rng(0)
    >>> def around(centre):
    ...     return rng.normal(centre, 1, size=(30, 4))
    >>> result = language_id({"deu": around(0), "eng": around(9)}, {"deu": around(0), "eng": around(9)})
    >>> result.accuracy, result.majority.value, result.confusion.tolist()
    (1.0, 0.5, [[30, 0], [0, 30]])
    """
    check_seed(seed)
    languages = _check_languages(train, test)
    x_train, y_train = _stack(train, languages, "train")
    x_test, y_test = _stack(test, languages, "test")
    if x_test.shape[1] != x_train.shape[1]:
        refuse("test", f"{x_train.shape[1]} columns, as in train", f"{x_test.shape[1]} columns", "take both parts from the same layer")
    predicted = LinearProbe().fit(x_train, y_train).predict(x_test)
    control = LinearProbe().fit(x_train, shuffled_labels(y_train, seed)).predict(x_test)
    reached = Accuracy.of(predicted == y_test)
    confusion = np.array([[int(((y_test == true) & (predicted == answer)).sum()) for answer in languages] for true in languages])
    return LanguageIdResult(
        languages=languages,
        accuracy=reached.value,
        n=reached.n,
        interval=(reached.low, reached.high),
        f1=_f1(confusion, languages),
        confusion=confusion,
        majority=majority_accuracy(y_train, y_test),
        shuffled=Accuracy.of(control == y_test),
    )


def _check_languages(train: Mapping[str, ArrayLike], test: Mapping[str, ArrayLike]) -> tuple[str, ...]:
    if len(train) < 2:
        refuse("train", "at least two languages", ", ".join(train) or "none", "give vectors of another language to tell it from")
    if train.keys() != test.keys():
        alone = ", ".join(sorted(train.keys() ^ test.keys()))
        refuse("test", "the languages of train", f"{alone} in only one of the two", "give both parts of every language")
    return tuple(sorted(train))


def _stack(side: Mapping[str, ArrayLike], languages: tuple[str, ...], name: str) -> tuple[np.ndarray, np.ndarray]:
    """All vectors under each other, in the order of the languages, and the language of each."""
    matrices = [check_matrix(side[language], f"{name}['{language}']") for language in languages]
    width = matrices[0].shape[1]
    for language, matrix in zip(languages, matrices, strict=True):
        if matrix.shape[1] != width:
            got = f"{matrix.shape[1]} columns"
            refuse(f"{name}['{language}']", f"{width} columns, as {name}['{languages[0]}']", got, "take all languages from the same layer")
    return np.concatenate(matrices), np.repeat(languages, [len(matrix) for matrix in matrices])


def _f1(confusion: Int[np.ndarray, "c c"], languages: tuple[str, ...]) -> dict[str, float]:
    # every language has test items, so no denominator is zero
    values = 2 * confusion.diagonal() / (confusion.sum(axis=0) + confusion.sum(axis=1))
    return {language: float(value) for language, value in zip(languages, values, strict=True)}
