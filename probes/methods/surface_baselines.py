"""What the letters alone say: classifiers of texts that a probe on an encoder's vectors should be
compared with."""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crosslens.checks import check_positive_int, check_seed
from crosslens.errors import OutputError, refuse
from crosslens.one_line import one_line
from crosslens.probes.methods.controls import Accuracy, check_classes, number_labels, unseen_labels
from crosslens.probes.methods.results import Answers
from crosslens.progress import Progress

__all__ = ["BaselineResult", "fasttext_baseline", "ngram_baseline"]

_BLOCK = 1024  # texts that are vectorised at a time
# where fastText ends a token; \n would end the text
_SEPARATORS = str.maketrans({sign: " " for sign in "\n\r\t\v\f\0"})


@dataclasses.dataclass(frozen=True, eq=False)
class BaselineResult:
    """A text classifier scored on test texts.

    Attributes
    ----------
    name: what was trained.
    answers: what it answered, as the single layer of
        :class:`crosslens.probes.methods.results.Answers`: F1 per label, macro F1, confusion, and
        the outcome of each text for paired tests.
    unseen: label -> how many test texts have it; training does not have these, and they count as
        wrong.
    """

    name: str
    answers: Answers
    unseen: dict[Any, int]

    __repr__ = one_line

    @property
    def accuracy(self) -> Accuracy:
        """On test, with its 95 % interval."""
        return self.answers.accuracy[0]


def ngram_baseline(
    train_texts: Sequence[Any],
    train_labels: ArrayLike,
    test_texts: Sequence[Any],
    test_labels: ArrayLike,
    *,
    longest: int = 4,
    features: int = 2**18,
    epochs: int = 5,
    seed: int = 0,
) -> BaselineResult:
    """Logistic regression on the character n-grams of texts, from 1 to ``longest`` characters.

    Counts of n-grams are hashed to ``features`` columns and each text brought to length 1; one
    classifier per label against all others is trained by averaged stochastic gradient descent, with
    a slight L2 penalty (1e-6). Case, spaces and punctuation are characters too. Memory holds a
    block of texts and 16 bytes × features × labels.

    Parameters
    ----------
    train_texts, train_labels: n texts and their labels, at least two different ones. test_texts,
        test_labels: m of each.
    longest: characters of the longest n-grams.
    features: columns that n-grams are hashed to.
    epochs: how often the training texts are read, each time in another order.
    seed: of these orders; the same seed gives the same answers.

    Raises
    ------
    InputError: not one label per text, no texts, what is no text, or a single label in training.

    References
    ----------
    Cavnar & Trenkle 1994, N-gram-based text categorization; Weinberger et al. 2009, Feature hashing
    for large scale multitask learning.

    >>> train = ["the dog", "the cat", "a dog", "le chien", "le chat", "un chien"]
    >>> result = ngram_baseline(train, ["eng"] * 3 + ["fra"] * 3, ["the cats", "les chiens"], ["eng", "fra"], features=2**12)
    >>> result.accuracy.value
    1.0
    """
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import SGDClassifier

    numbers = {"longest": longest, "features": features, "epochs": epochs}
    longest, features, epochs = (check_positive_int(value, name) for name, value in numbers.items())
    task = _Task.of(train_texts, train_labels, test_texts, test_labels)
    hashing = HashingVectorizer(
        analyzer="char",
        ngram_range=(1, longest),
        n_features=features,
        alternate_sign=False,
        lowercase=False,
        dtype=np.float32,
    )
    model = SGDClassifier(
        loss="log_loss", alpha=1e-6, average=True, random_state=check_seed(seed) % 2**32
    )
    rng = np.random.default_rng([seed, 0x96A3])
    with Progress(epochs * len(task.train), "n-gram baseline", "texts") as progress:
        for _ in range(epochs):
            order = rng.permutation(len(task.train))
            for start in range(0, len(order), _BLOCK):
                rows = order[start : start + _BLOCK]
                model.partial_fit(
                    hashing.transform([task.train[i] for i in rows]),
                    task.codes[rows],
                    classes=np.arange(task.trained),
                )
                progress.add(len(rows))
    given = np.empty(len(task.test), np.int64)
    for start in range(0, len(given), _BLOCK):
        given[start : start + _BLOCK] = model.predict(
            hashing.transform(task.test[start : start + _BLOCK])
        )
    return task.result(f"logistic regression on character n-grams, 1 to {longest}", given)


def fasttext_baseline(
    train_texts: Sequence[Any],
    train_labels: ArrayLike,
    test_texts: Sequence[Any],
    test_labels: ArrayLike,
    *,
    d: int = 16,
    subwords: tuple[int, int] = (2, 4),
    epochs: int = 10,
    learning_rate: float | int = 0.5,
    buckets: int = 200_000,
    seed: int = 0,
) -> BaselineResult:
    """fastText's supervised classifier (Joulin et al. 2017) on words and their character n-grams.

    Dimensions and n-grams are those of fastText's own language identifier, lid.176; the softmax is
    computed in full here. Texts are read in a random order by one thread, so that the same texts
    and seed give the same answers. Characters that fastText takes for the end of a word or a text
    become spaces, and the word ``</s>``, its end of a text, is left out. Texts are in a temporary
    file while it reads them.

    Parameters
    ----------
    train_texts, train_labels: n texts and their labels, at least two different ones. test_texts,
        test_labels: m of each. Labels may be anything; what looks like one of fastText's labels in
        a text is a word.
    d: dimensions of a word's vector.
    subwords: shortest and longest character n-grams; (0, 0) for words alone.
    epochs: how often the texts are read.
    learning_rate: at the start; it falls linearly to 0.
    buckets: rows of the table of n-grams.
    seed: of the first vectors and of the order of the texts.

    Raises
    ------
    InputError: not one label per text, no texts, what is no text, a single label in training, an
        argument out of range, or training that runs off to infinity.
    OutputError: no room for the temporary file.

    >>> train = ["the dog", "the cat", "a dog", "le chien", "le chat", "un chien"] * 5
    >>> labels = (["British English"] * 3 + ["fra"] * 3) * 5
    >>> result = fasttext_baseline(train, labels, ["the cats", "les chiens"], ["British English", "fra"], buckets=1000, epochs=30)
    >>> result.accuracy.value
    1.0
    """
    numbers = {"d": d, "epochs": epochs, "buckets": buckets}
    d, epochs, buckets = (
        check_positive_int(value, name, most=2**31 - 1) for name, value in numbers.items()
    )
    shortest, longest = subwords
    if not (subwords == (0, 0) or 1 <= shortest <= longest):
        expected = "the lengths of the shortest and the longest n-gram, or (0, 0)"
        refuse("subwords", expected, repr(subwords), "leave it out for (2, 4)")
    if not learning_rate > 0:
        refuse("learning_rate", "a number above 0", repr(learning_rate), "leave it out for 0.5")
    check_seed(seed)
    check_positive_int(seed + 1, "seed + 1", most=2**31 - 1)
    task = _Task.of(train_texts, train_labels, test_texts, test_labels)
    train, test = ([_one_line(text) for text in texts] for texts in (task.train, task.test))
    mark = _free_prefix((*train, *test))
    # it reads them as they stand, and texts that are sorted by label teach it little
    order = np.random.default_rng([seed, 0xF7]).permutation(len(train))
    lines = (f"{mark}{task.codes[i]} {train[i]}\n" for i in order)
    import fasttext

    with _temporary_file(lines) as path:
        try:
            model = fasttext.train_supervised(
                path,
                dim=d,
                epoch=epochs,
                lr=learning_rate,
                minn=shortest,
                maxn=longest,
                bucket=buckets if longest else 0,
                loss="softmax",
                thread=1,
                verbose=0,
                label=mark,
                seed=seed,
            )
        except (ValueError, RuntimeError) as error:
            expected = "texts that fastText can learn from"
            refuse("train_texts", expected, " ".join(str(error).split()), "lower learning_rate")
    found = model.predict(test)[0]  # never none: the end of a text is a word of every vocabulary
    return task.result(
        "fastText, supervised",
        np.array([int(labels[0].removeprefix(mark)) for labels in found], np.int64),
    )


def _one_line(text: str) -> str:
    return " ".join(word for word in text.translate(_SEPARATORS).split(" ") if word != "</s>")


def _free_prefix(texts: Sequence[str]) -> str:
    """A mark of labels that no word of the texts begins with."""
    mark = "__label__"
    while any(f" {mark}" in f" {text}" for text in texts):
        mark += "_"
    return mark


@contextlib.contextmanager
def _temporary_file(lines: Iterator[str]) -> Iterator[str]:
    """The path of a file with these lines, which is gone afterwards."""
    try:
        handle, path = tempfile.mkstemp(prefix="crosslens-", suffix=".txt")
    except OSError as error:
        expected = "a folder that can be written to"
        got = error.strerror or str(error)
        refuse("TMPDIR", expected, got, "choose another folder", OutputError)
    try:
        try:
            with open(handle, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(lines)
        except OSError as error:
            expected = "room for the training texts"
            got = error.strerror or str(error)
            refuse("TMPDIR", expected, got, "choose another folder", OutputError)
        yield path
    finally:
        os.unlink(path)


@dataclasses.dataclass(frozen=True, eq=False)
class _Task:
    """Checked texts and the numbers of their labels; those below ``trained`` occur in training."""

    train: Sequence[str]
    codes: np.ndarray
    test: Sequence[str]
    true: np.ndarray
    labels: np.ndarray
    trained: int

    @classmethod
    def of(
        cls,
        train: Sequence[Any],
        train_labels: ArrayLike,
        test: Sequence[Any],
        test_labels: ArrayLike,
    ) -> "_Task":
        train, test = _check_texts(train, "train_texts"), _check_texts(test, "test_texts")
        y = check_classes(train_labels, "train_labels", len(train))
        true = check_classes(test_labels, "test_labels", len(test))
        trained = np.unique(y)
        if len(trained) < 2:
            got = f"only {trained[0]!s}"
            remedy = "give texts of another class: there is nothing to tell apart"
            refuse("train_labels", "at least two classes", got, remedy)
        labels, codes = number_labels(y, true)
        return cls(train, np.searchsorted(trained, y), test, codes, labels, len(trained))

    def result(self, name: str, given: np.ndarray) -> BaselineResult:
        return BaselineResult(
            name,
            Answers(self.labels, self.true, given[None]),
            unseen_labels(self.labels, self.true, self.trained),
        )


def _check_texts(texts: Sequence[Any], name: str) -> list[str]:
    if isinstance(texts, str) or not len(texts):
        got = "a text" if isinstance(texts, str) else "none"
        refuse(name, "a list of texts", got, "give at least one text in a list")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            refuse(f"{name}[{i}]", "a text", type(text).__name__, "leave it out")
        try:
            text.encode()
        except UnicodeEncodeError:
            refuse(f"{name}[{i}]", "text", "a lone surrogate", "remove or repair the text")
    return list(texts)
