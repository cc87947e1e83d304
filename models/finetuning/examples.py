"""Labelled examples of each kind of task, as fine-tuning reads them."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from crosslens.corpus import Corpus
from crosslens.errors import quote, refuse
from crosslens.files import fingerprint
from crosslens.readers.questions import Answer
from crosslens.trees import check_heads

__all__ = [
    "Examples",
    "QuestionExamples",
    "TextExamples",
    "TreeExamples",
    "WordExamples",
    "languages_of",
]


@dataclasses.dataclass(frozen=True, eq=False)
class TextExamples:
    """Texts, or pairs of texts, with the number of their class.

    Attributes
    ----------
    corpus: n texts; of pairs, the first ones.
    labels: shape (n,), numbers of classes from 0; None where they are not known.
    second: the second texts of pairs.

    Raises
    ------
    InputError: counts differ.

    >>> TextExamples(Corpus("eng", ["Good.", "Bad."], ["0", "1"], "reviews"), np.array([1, 0]))
    TextExamples(2 texts of eng)
    """

    corpus: Corpus
    labels: np.ndarray | None = None
    second: Corpus | None = None

    def __post_init__(self) -> None:
        _same("labels", len(self), self.labels)
        _same("second", len(self), self.second)

    def __len__(self) -> int:
        return len(self.corpus)

    def __repr__(self) -> str:
        what = "texts" if self.second is None else "pairs of texts"
        return f"TextExamples({len(self):,} {what} of {self.corpus.language})"

    @property
    def content(self) -> str:
        """16 hexadecimal digits that follow from texts and labels."""
        second = "" if self.second is None else self.second.fingerprint
        labels = [] if self.labels is None else np.asarray(self.labels).tolist()
        return fingerprint([self.corpus.fingerprint, second, labels])[:16]


@dataclasses.dataclass(frozen=True, eq=False)
class WordExamples:
    """Sentences with the number of the class of each word.

    Attributes
    ----------
    corpus: n sentences with their words.
    labels: for each sentence the numbers of its words' classes, from 0; -1 for words that are
        neither learnt from nor counted; None where they are not known.

    Raises
    ------
    InputError: the corpus has no words, or counts differ.

    >>> corpus = Corpus("eng", ["A dog"], ["0"], "a treebank", words=[[(0, 1), (2, 5)]])
    >>> WordExamples(corpus, [np.array([0, 1])])
    WordExamples(2 words in 1 sentence of eng)
    """

    corpus: Corpus
    labels: Sequence[np.ndarray] | None = None

    def __post_init__(self) -> None:
        if self.corpus.words is None:
            refuse("corpus", "sentences with their words", "none", "read it with words")
        _same("labels", len(self), self.labels)
        for number, (spans, row) in enumerate(
            zip(self.corpus.words, self.labels or (), strict=self.labels is not None)
        ):
            if len(spans) != len(row):
                got = f"{len(row)} in sentence {number}"
                refuse("labels", f"{len(spans)} of them, one per word", got, "label every word")

    def __len__(self) -> int:
        return len(self.corpus)

    def __repr__(self) -> str:
        n, words = len(self), sum(map(len, self.corpus.words or ()))
        sentences = "sentence" if n == 1 else "sentences"
        return f"WordExamples({words:,} words in {n:,} {sentences} of {self.corpus.language})"

    @property
    def content(self) -> str:
        """16 hexadecimal digits that follow from texts, words and labels."""
        labels = [np.asarray(row).tolist() for row in self.labels or ()]
        return fingerprint([self.corpus.fingerprint, labels])[:16]


@dataclasses.dataclass(frozen=True, eq=False)
class TreeExamples:
    """Sentences with a dependency tree over their words.

    Attributes
    ----------
    corpus: n sentences with their words.
    heads: for each sentence the numbers of its words' heads, from 1; 0 for the root; None where
        they are not known.
    relations: for each sentence the numbers of its words' relations, from 0; -1 for those that are
        not learnt from.
    tags: for each sentence the numbers of its words' parts of speech, where a parser is given them.
    longest: most subwords of a sentence, the rest is cut; None for what the encoder can read.

    Raises
    ------
    InputError: the corpus has no words, counts differ, or heads are no tree.

    >>> corpus = Corpus("eng", ["A dog"], ["0"], "a treebank", words=[[(0, 1), (2, 5)]])
    >>> TreeExamples(corpus, [np.array([2, 0])], [np.array([1, 0])])
    TreeExamples(2 words in 1 sentence of eng)
    """

    corpus: Corpus
    heads: Sequence[np.ndarray] | None = None
    relations: Sequence[np.ndarray] | None = None
    tags: Sequence[np.ndarray] | None = None
    longest: int | None = None

    def __post_init__(self) -> None:
        for rows in (self.heads, self.relations, self.tags):
            WordExamples(self.corpus, rows)
        if (self.heads is None) != (self.relations is None):
            refuse("relations", "heads and relations, or neither", "one of them", "give both")
        if self.heads:
            lengths = np.array([len(row) for row in self.heads])
            check_heads(np.concatenate([*self.heads]), lengths, self.corpus.ids)

    def __len__(self) -> int:
        return len(self.corpus)

    def __repr__(self) -> str:
        return repr(WordExamples(self.corpus)).replace("WordExamples", "TreeExamples")

    @property
    def content(self) -> str:
        """16 hexadecimal digits that follow from texts, words and trees."""
        told = [
            None if rows is None else [np.asarray(row).tolist() for row in rows]
            for rows in (self.heads, self.relations, self.tags)
        ]
        return fingerprint([self.corpus.fingerprint, self.longest, *told])[:16]


@dataclasses.dataclass(frozen=True, eq=False)
class QuestionExamples:
    """Questions, each on a context that the answer stands in.

    Attributes
    ----------
    corpus: n questions. second: their contexts, of the same or another language.
    answers: for each question what it may be answered by, at least one, as it stands in the
        context; None where that is not known. The first one is learnt from.

    Raises
    ------
    InputError: counts differ, a question has no answer, or one does not stand where it is said to.

    >>> asked = Corpus("eng", ["Where is she?"], ["0"], "a file")
    >>> contexts = Corpus("eng", ["She is in Rome."], ["0"], "a file")
    >>> QuestionExamples(asked, contexts, [[Answer("Rome", 10)]])
    QuestionExamples(1 question of eng)
    """

    corpus: Corpus
    second: Corpus
    answers: Sequence[Sequence[Answer]] | None = None

    def __post_init__(self) -> None:
        _same("second", len(self), self.second)
        _same("answers", len(self), self.answers)
        for number, some in enumerate(self.answers or ()):
            context = self.second.sentences[number]
            if not some:
                refuse("answers", "one to each question", f"none to {number}", "leave it out")
            for one in some:
                if one.start < 0 or context[one.start : one.end] != one.text or not one.text:
                    got = f"{quote(one.text)}, which is not there, for question {number}"
                    expected = f"what stands at character {one.start} of the context"
                    refuse("answers", expected, got, "count characters, from 0")

    def __len__(self) -> int:
        return len(self.corpus)

    def __repr__(self) -> str:
        what = "question" if len(self) == 1 else "questions"
        return f"QuestionExamples({len(self):,} {what} of {self.corpus.language})"

    @property
    def content(self) -> str:
        """16 hexadecimal digits that follow from questions, contexts and answers."""
        answers = [[(one.text, one.start) for one in some] for some in self.answers or ()]
        return fingerprint([self.corpus.fingerprint, self.second.fingerprint, answers])[:16]


Examples = TextExamples | WordExamples | TreeExamples | QuestionExamples


def languages_of(examples: Examples) -> tuple[str, str | None]:
    """The language of the texts, and of the second texts where there are some."""
    second = getattr(examples, "second", None)
    return examples.corpus.language, None if second is None else second.language


def _same(name: str, n: int, values: object) -> None:
    if values is not None and len(values) != n:  # type: ignore[arg-type]
        refuse(name, f"{n} of them, one per text", str(len(values)), "give as many")  # type: ignore[arg-type]
