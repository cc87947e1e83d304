"""The items of each kind of task, as its file reads them; how they are measured is a matter of the
kind."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.corpus import Corpus
from crosslens.probes.methods.language_id import LanguageIdSettings
from crosslens.readers.labelled_text import LabelledText
from crosslens.readers.minimal_pairs import MinimalPair
from crosslens.readers.questions import Question
from crosslens.readers.scws import Scws
from crosslens.readers.sentence_pairs import SentencePairs
from crosslens.readers.wic import Wic

__all__ = [
    "Items",
    "PairsOfSentences",
    "Questions",
    "RatedWords",
    "Spans",
    "TextPairs",
    "Texts",
    "WordPairs",
    "Words",
]


@dataclasses.dataclass(frozen=True, eq=False)
class Texts:
    """A label for each text (kind classify).

    Attributes
    ----------
    texts: with their labels and, where the files say them, splits. language: of all of them, as
        :attr:`crosslens.probes.tasks.task.Task.languages` has it; "mul" for several.
    surface: whether classifiers of the characters themselves are measured beside it.
    settings: how a text is read and the probe trained, where that is not as usual.
    """

    texts: LabelledText
    language: str
    surface: bool = False
    settings: LanguageIdSettings | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Words:
    """A treebank (kinds tag, parse, tree and span); a sentence is a group.

    Attributes
    ----------
    splits: "train", "dev", "test", those that there are -> sentences with their words.
    name: of the treebank. language: as of texts.
    """

    splits: Mapping[str, Corpus]
    name: str
    language: str


@dataclasses.dataclass(frozen=True, eq=False)
class Spans:
    """Pairs of words with a label each (kind span), among the words of a treebank.

    Attributes
    ----------
    first, second: shape (n,), numbers of words in the order of the treebank; both are of one
        sentence.
    labels: shape (n,).
    """

    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class WordPairs:
    """A word in two sentences, which means the same in both or not (kind classify_pair); a word's
    items are a group.

    Attributes
    ----------
    splits: "train", "dev", "test" -> items with answers; without "dev" some of training are held
        out.
    """

    splits: Mapping[str, Wic]


@dataclasses.dataclass(frozen=True, eq=False)
class TextPairs:
    """A label for each pair of texts (kind pair).

    Attributes
    ----------
    splits: "train", "dev", "test", those that there are -> labelled pairs.
    language: ISO 639-3.
    """

    splits: Mapping[str, SentencePairs]
    language: str


@dataclasses.dataclass(frozen=True, eq=False)
class Questions:
    """Questions on paragraphs (kind answer); the questions on a paragraph, and on its translations,
    are a group.

    Attributes
    ----------
    splits: "train", "dev", "test", those that there are; "" for questions that belong to no split.
    language: ISO 639-3, of questions and paragraphs.
    """

    splits: Mapping[str, Sequence[Question]]
    language: str


@dataclasses.dataclass(frozen=True, eq=False)
class RatedWords:
    """Pairs of words in context, rated by people (kind rank)."""

    words: Scws


@dataclasses.dataclass(frozen=True, eq=False)
class PairsOfSentences:
    """Minimal pairs (kind minimal_pairs); pairs of one sentence but for the words compared are a
    group.

    Attributes
    ----------
    pairs: at least one. source: where they are from, for the record.
    method: how a masked model scores them; None leaves that to the run.
    averages: name -> categories that are averaged; None for all of them.
    language: ISO 639-3; None where it is not known.
    """

    pairs: Sequence[MinimalPair]
    source: str
    method: str | None = None
    averages: Mapping[str, Sequence[str]] | None = None
    language: str | None = None


Items = Texts | TextPairs | Words | WordPairs | RatedWords | PairsOfSentences | Questions
Pick = Callable[[Mapping[str, Sequence[Any]], int], Spans]
"""Columns of a treebank's words, and a seed -> pairs of words."""
