"""The items of a language, split as its files are, for transfer.

a task's texts, pairs, words, trees or questions  ->  texts, labels and groups, as models and
                                                      measures read them
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.corpus import Corpus
from crosslens.derive.reorderings import Identity
from crosslens.errors import InputError, refuse
from crosslens.languages import same_language
from crosslens.models.saved.derived_languages import DerivedLanguage
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import Items, Questions, TextPairs, Texts, Words
from crosslens.probes.tasks.task import Task
from crosslens.readers.treebank import trees, word_labels, words_apart
from crosslens.run.probing.splits import PARTS, some_sentences
from crosslens.run.repeats import normal_texts, text_names
from crosslens.run.transfer.resegmented import SEGMENTED, resegmented

__all__ = [
    "PUBLISHED",
    "READ",
    "LanguageSplits",
    "Reading",
    "Split",
    "called",
    "heads_of",
    "splits_of",
]

PUBLISHED = "as published"
"""How the items of a language are divided where its files say it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    """How an encoder reads a derived language.

    Attributes
    ----------
    how: the derivation.
    told: the language that the encoder is told: the derived one where it has it, or the original.
    unseen: what it reads in the place of subwords that it has no embedding of
        (:data:`crosslens.models.finetuning.derived.UNSEEN`); None where it has them.
    """

    how: DerivedLanguage
    told: str
    unseen: str | None = None

    @property
    def moves(self) -> bool:
        """Whether subwords are in another order."""
        made = self.how.derivation.transformation
        return made is not None and not isinstance(made, Identity)


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """Items of one split in one language.

    Attributes
    ----------
    language: ISO 639-3.
    texts: n texts: a sentence or, of pairs, the first one.
    seconds: n second texts; None where there are none.
    labels: of tasks on texts the class of each; of tasks on words one label per word, "" for
        words that are not counted; of questions on second texts their answers.
    groups: shape (n,), which items stand and fall together: equal texts, translations of one
        sentence.
    corpus: of tasks on words, the sentences with their words; None for others.
    places: of tasks on texts, ``file:line`` of each, for messages.
    original: of a derived language, the one whose items these are, as they were; "" of others.
    reading: how the encoder at hand reads a derived language.
    heads: of tasks on trees, for each sentence the numbers of its words' heads, from 1; 0 for the
        root. ``labels`` are the relations, and ``corpus`` has the words apart from each other.
    """

    language: str
    texts: Sequence[str]
    labels: Sequence[Any]
    groups: np.ndarray
    seconds: Sequence[str] | None = None
    corpus: Corpus | None = None
    heads: Sequence[np.ndarray] | None = None
    places: Sequence[str] | None = None
    original: str = ""
    reading: Reading | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: np.ndarray) -> "Split":
        """The items of these rows, in this order."""
        chosen = rows.tolist()
        return Split(
            self.language,
            [self.texts[row] for row in chosen],
            [self.labels[row] for row in chosen],
            self.groups[rows],
            None if self.seconds is None else [self.seconds[row] for row in chosen],
            None if self.corpus is None else some_sentences(self.corpus, rows),
            None if self.heads is None else [self.heads[row] for row in chosen],
            None if self.places is None else [self.places[row] for row in chosen],
            self.original,
            self.reading,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageSplits:
    """What a language has: "train", "dev", "test"; "" for items that belong to no split; how many
    names have other borders among a segmenter's words; and how many pairs were left out, since one
    of their sentences is blank."""

    language: str
    splits: Mapping[str, Split]
    how: str = PUBLISHED
    moved: int | None = None
    blank: int = 0


def splits_of(
    task: Task,
    data: DataFolder,
    language: str,
    segment: str | None = None,
    *,
    apart: bool = False,
) -> LanguageSplits:
    """A task's items in a language.

    Parameters
    ----------
    segment: of names, the segmenter whose words are taken in its language.
    apart: words of a treebank have a space between any two.

    Raises
    ------
    InputError: there are none, or none of their words has a label.
    """
    there = task.languages(data)
    if there and not any(same_language(language, one) for one in there):
        told = ", ".join(there) if len(there) <= 8 else f"{len(there)} languages"
        refuse(f"task {task.name}", f"a language of the data ({told})", language, "choose another")
    try:
        items = task.read(data, language)
    except Absent as absent:
        refuse(f"task {task.name}", f"its data in {language}", str(absent), "add the files")
    if apart and isinstance(items, Words):
        items = dataclasses.replace(items, splits={p: _apart(c) for p, c in items.splits.items()})
    if segment and task.spans and isinstance(items, Words) and task.label:
        if same_language(items.language, SEGMENTED[segment]):
            made = {p: resegmented(c, task.label, segment) for p, c in items.splits.items()}
            corpora = {part: corpus for part, (corpus, _) in made.items()}
            found = _read_words(task, dataclasses.replace(items, splits=corpora))
            return dataclasses.replace(found, moved=sum(n for _, n in made.values()))
    try:
        return READ[task.kind](task, items)
    except Absent as absent:
        remedy = "leave the language out, or take another treebank"
        refuse(f"task {task.name}", f"words of {language} with a label", str(absent), remedy)


def called(found: LanguageSplits, language: str) -> LanguageSplits:
    """The items of a language as those of a language that is derived from it."""
    splits = {
        part: dataclasses.replace(split, language=language, original=split.language)
        for part, split in found.splits.items()
    }
    return dataclasses.replace(found, language=language, splits=splits)


def _read_texts(task: Task, items: Items) -> LanguageSplits:
    if not isinstance(items, Texts):
        refuse(
            f"task {task.name}", "a label for each text", "something else", "choose another task"
        )
    texts = items.texts
    groups = (
        text_names(normal_texts(texts.texts)) if texts.groups is None else np.array(texts.groups)
    )
    told = items.language, list(texts.texts), list(texts.labels), groups
    whole = Split(*told, places=texts.places)
    if texts.parts is None:
        return LanguageSplits(items.language, {"": whole})
    names = np.array(texts.parts)
    parts = {part: np.flatnonzero(names == part) for part in PARTS}
    return LanguageSplits(
        items.language, {p: whole.take(rows) for p, rows in parts.items() if len(rows)}
    )


def _apart(corpus: Corpus) -> Corpus:
    return words_apart(corpus) if "form" in (corpus.annotations or {}) else corpus


def _read_words(task: Task, items: Items) -> LanguageSplits:
    if not isinstance(items, Words) or task.label is None:
        refuse(
            f"task {task.name}", "a label for each word", "something else", "choose another task"
        )
    return LanguageSplits(
        items.language,
        {
            part: _of_words(corpus, items.language, task.label)
            for part, corpus in items.splits.items()
        },
    )


def _of_words(corpus: Corpus, language: str, label: str) -> Split:
    lengths = [len(spans) for spans in corpus.words or ()]
    columns = {
        column: [value for row in rows for value in row]
        for column, rows in (corpus.annotations or {}).items()
    }
    flat = np.full(sum(lengths), "", object)
    try:
        found = word_labels(columns, label)
    except InputError:
        raise Absent(f"none in {corpus.name}") from None
    flat[found.rows] = found.labels
    labels = [row.tolist() for row in np.split(flat, np.cumsum(lengths)[:-1])]
    sentences = list(corpus.sentences)
    return Split(language, sentences, labels, text_names(normal_texts(sentences)), corpus=corpus)


def _read_trees(task: Task, items: Items) -> LanguageSplits:
    found = _read_words(task, items)
    assert isinstance(items, Words)
    made = {}
    for part, split in found.splits.items():
        corpus = words_apart(items.splits[part])
        made[part] = dataclasses.replace(split, corpus=corpus, heads=heads_of(corpus))
    return LanguageSplits(found.language, made)


def heads_of(corpus: Corpus) -> list[np.ndarray]:
    """The heads of each sentence of a treebank.

    Raises
    ------
    InputError: a sentence is no tree.
    """
    columns: dict[str, list[Any]] = {
        name: [value for row in (corpus.annotations or {})[name] for value in row]
        for name in ("head", "upos")
    }
    lengths = [len(spans) for spans in corpus.words or ()]
    columns["text"] = np.repeat(np.arange(len(lengths)), lengths).tolist()
    try:
        return np.split(trees(columns, corpus.ids).heads, np.cumsum(lengths)[:-1])
    except InputError as error:
        raise InputError(f"{corpus.name}: {error}") from None


def _read_pairs(task: Task, items: Items) -> LanguageSplits:
    if not isinstance(items, TextPairs):
        expected = "a label for each pair of texts"
        refuse(f"task {task.name}", expected, "something else", "choose another task")
    splits = {}
    for part, pairs in items.splits.items():
        names = text_names(normal_texts(pairs.firsts))
        firsts, seconds = list(pairs.firsts), list(pairs.seconds)
        told = items.language, firsts, list(pairs.labels), names, seconds
        splits[part] = Split(*told, places=pairs.places)
    blank = sum(pairs.blank for pairs in items.splits.values())
    return LanguageSplits(items.language, splits, blank=blank)


def _read_questions(task: Task, items: Items) -> LanguageSplits:
    if not isinstance(items, Questions):
        expected = "answers to questions"
        refuse(f"task {task.name}", expected, "something else", "choose another task")
    splits = {}
    for part, questions in items.splits.items():
        firsts, contexts = [one.question for one in questions], [one.context for one in questions]
        groups = text_names([one.place for one in questions])
        answers = [tuple(one.answers) for one in questions]
        splits[part] = Split(items.language, firsts, answers, groups, contexts)
    return LanguageSplits(items.language, splits)


READ: Mapping[str, Callable[[Task, Items], LanguageSplits]] = {
    "classify": _read_texts,
    "pair": _read_pairs,
    "tag": _read_words,
    "tree": _read_trees,
    "answer": _read_questions,
}
"""Kind of a task that can be fine-tuned -> what reads its items."""
