"""Which language a sentence vector comes from: how much of a layer is specific to its language."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from crosslens.checks import as_array, check_labels, check_matrix, check_seed
from crosslens.errors import refuse
from crosslens.one_line import one_line
from crosslens.probes.methods.controls import (
    Accuracy,
    confusion_counts,
    f1_per_class,
    majority_accuracy,
    shuffled_labels,
)
from crosslens.probes.methods.evaluation import probe_layers
from crosslens.probes.methods.linear.linear import LinearProbe
from crosslens.probes.methods.linear.softmax_by_adam import SoftmaxByAdam
from crosslens.probes.methods.results import ProbeResult
from crosslens.probes.methods.splits import Parts

__all__ = [
    "LANGUAGE_ID_SETTINGS",
    "LanguageIdResult",
    "LanguageIdSettings",
    "identify_languages",
    "language_id",
]


@dataclasses.dataclass(frozen=True)
class LanguageIdSettings:
    """How languages are distinguished: which text, which tokens, which training.

    Attributes
    ----------
    text: what of a text is encoded: "whole", or "first_two_sentences", as a pair (the first alone
        if there is one).
    special_tokens: whether the mean over tokens counts [CLS] and [SEP]. Both are matters of
        extraction: see ``unit``.
    training: "convergence" (L2-penalised, the penalty chosen on the development part), or "adam" (a
        number of epochs, no penalty).
    epochs, batch, learning_rate: of Adam.
    differs: what is known to differ from Wu & Dredze 2019, for the record.

    >>> LANGUAGE_ID_SETTINGS["paper"].unit, LANGUAGE_ID_SETTINGS["default"].unit
    ('pair', 'sentence')
    """

    text: str
    special_tokens: bool
    training: str
    differs: str
    epochs: int = 10
    batch: int = 32
    learning_rate: float = 1e-3

    @property
    def unit(self) -> str:
        """The unit to extract (``crosslens extract --unit``): "pair" or "sentence"."""
        return "pair" if self.text == "first_two_sentences" else "sentence"

    def probe(self, seed: int) -> SoftmaxByAdam | None:
        """The probe for :func:`crosslens.probes.methods.evaluation.probe_layers`; None for its own.

        >>> LANGUAGE_ID_SETTINGS["paper"].probe(0).epochs
        10
        """
        if self.training == "convergence":
            return None
        return SoftmaxByAdam(self.epochs, self.batch, self.learning_rate, seed)


LANGUAGE_ID_SETTINGS = {
    "default": LanguageIdSettings(
        "whole",
        False,
        "convergence",
        (
            "whole texts, no special tokens, features standardised, trained to convergence with a "
            "penalty chosen on the development part"
        ),
    ),
    "paper": LanguageIdSettings(
        "first_two_sentences",
        True,
        "adam",
        "sentences are cut by punctuation, not by NLTK; no dropout on the vectors and no "
        "lowering of the learning rate, as the released "
        "code has; weights begin at 0",
    ),
}


def identify_languages(
    layers: Any,
    languages: ArrayLike,
    parts: Parts,
    *,
    settings: LanguageIdSettings = LANGUAGE_ID_SETTINGS["default"],
    random_layers: Any | None = None,
    seeds: Sequence[int] = (0, 1, 2),
) -> ProbeResult:
    """Which language is each sentence vector from? Every layer at once, with controls, F1 per
    language and confusion.

    Parameters
    ----------
    layers: L layers of shape (n, d), extracted as ``settings.unit`` and ``settings.special_tokens``
        say.
    languages: shape (n,). parts: rows of train, dev and test; translations of each other belong in
        one part.
    settings: a value of ``LANGUAGE_ID_SETTINGS``, or others.
    random_layers, seeds: as for :func:`crosslens.probes.methods.evaluation.probe_layers`; the first
        seed orders Adam's batches.

    Raises
    ------
    InputError: as :func:`crosslens.probes.methods.evaluation.probe_layers` refuses.

    References
    ----------
    Wu & Dredze 2019, Beto, Bentz, Becas, section 5.3: about 96 % at every layer of multilingual
    BERT, 99 languages of WiLI-2018.

    >>> rng, languages = np.random.default_rng(0), np.array(["deu", "eng", "swa"] * 100)
    >>> layers = [rng.normal(size=(300, 5)) + 5 * np.eye(5)[np.arange(300) % 3]]
    >>> result = identify_languages(layers, languages, Parts(range(150), range(200, 300), range(150, 200)))
    >>> result.accuracy[0].value > 0.95, result.answers.labels.tolist()
    (True, ['deu', 'eng', 'swa'])
    """
    probe = settings.probe(seeds[0] if seeds else 0)
    return probe_layers(
        layers, languages, parts, random_layers=random_layers, seeds=seeds, probe=probe
    )


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageIdResult:
    """How well languages can be distinguished, and what that is to be compared with.

    Attributes
    ----------
    languages: in sorted order, which is the order of ``confusion``.
    accuracy: share of test items whose language is recognised, from 0 to 1.
    n: number of test items.
    interval: 95 % interval of the accuracy: Wilson's (1927), or that of groups of rows
        (:func:`crosslens.stats.share_interval`).
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

    __repr__ = one_line


def language_id(
    train: Mapping[str, ArrayLike],
    test: Mapping[str, ArrayLike],
    seed: int = 0,
    *,
    groups: ArrayLike | None = None,
) -> LanguageIdResult:
    """Train a linear probe to name the language of a sentence vector, and test it beside its
    controls.

    The probe is :class:`crosslens.probes.LinearProbe` with its default settings, on the
    vectors of one layer (usually the mean over a sentence's tokens). Train and test should
    hold different sentences. Accuracy near 1 says that the layer marks the language; near
    the two controls, that a linear map cannot find it there.

    Parameters
    ----------
    train: language -> vectors of shape (n, d); n may differ between languages.
    test: the same languages -> vectors of shape (m, d).
    seed: of the shuffled training labels of the control; nothing else is random.
    groups: shape (m,), where row i of every test matrix is one item, its translations say: which
        items stand and fall together. Intervals are then those of groups. Without it all rows are
        independent.

    Raises
    ------
    InputError: fewer than two languages, a language in only one of the two, a matrix that is
        not finite, or different numbers of columns; the message names ``train['deu']``; or groups
        that are not one for each row of every test matrix.

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
        expected = f"{x_train.shape[1]} columns, as in train"
        remedy = "take both splits from the same layer"
        refuse("test", expected, f"{x_test.shape[1]} columns", remedy)
    together = None if groups is None else _check_groups(groups, test, languages)
    predicted = LinearProbe().fit(x_train, y_train).predict(x_test)
    control = LinearProbe().fit(x_train, shuffled_labels(y_train, seed)).predict(x_test)
    reached = Accuracy.of(predicted == y_test, together)
    confusion = confusion_counts(
        np.searchsorted(languages, y_test), np.searchsorted(languages, predicted), len(languages)
    )
    return LanguageIdResult(
        languages=languages,
        accuracy=reached.value,
        n=reached.n,
        interval=(reached.low, reached.high),
        f1=dict(zip(languages, f1_per_class(confusion).tolist(), strict=True)),
        confusion=confusion,
        majority=majority_accuracy(y_train, y_test, together),
        shuffled=Accuracy.of(control == y_test, together),
    )


def _check_languages(
    train: Mapping[str, ArrayLike], test: Mapping[str, ArrayLike]
) -> tuple[str, ...]:
    if len(train) < 2:
        remedy = "give vectors of another language to tell it from"
        refuse("train", "at least two languages", ", ".join(train) or "none", remedy)
    if train.keys() != test.keys():
        alone = ", ".join(sorted(train.keys() ^ test.keys()))
        got = f"{alone} in only one of the two"
        refuse("test", "the languages of train", got, "give both splits of every language")
    return tuple(sorted(train))


def _check_groups(
    groups: ArrayLike, test: Mapping[str, ArrayLike], languages: tuple[str, ...]
) -> np.ndarray:
    """The group of every test row, in the order of the languages."""
    rows = {language: len(as_array(test[language], "test")) for language in languages}
    if len(set(rows.values())) > 1:
        got = ", ".join(f"{n} of {language}" for language, n in rows.items())
        expected = "as many rows in every language where there are groups"
        refuse("test", expected, got, "give the same items in every language, or leave groups out")
    return np.tile(check_labels(groups, "groups", rows[languages[0]]), len(languages))


def _stack(
    side: Mapping[str, ArrayLike], languages: tuple[str, ...], name: str
) -> tuple[np.ndarray, np.ndarray]:
    """All vectors under each other, in the order of the languages, and the language of each."""
    matrices = [check_matrix(side[language], f"{name}['{language}']") for language in languages]
    width = matrices[0].shape[1]
    for language, matrix in zip(languages, matrices, strict=True):
        if matrix.shape[1] != width:
            got = f"{matrix.shape[1]} columns"
            expected = f"{width} columns, as {name}['{languages[0]}']"
            refuse(f"{name}['{language}']", expected, got, "take all languages from the same layer")
    return np.concatenate(matrices), np.repeat(languages, [len(matrix) for matrix in matrices])
