"""From a task's declaration and its items, in the languages that are wanted, to something that can
be measured."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import InputError
from crosslens.languages import SEVERAL
from crosslens.probes.methods.splits import Parts, hold_out_dev, stratified_parts
from crosslens.probes.tasks.items import (
    Items,
    PairsOfSentences,
    RatedWords,
    Texts,
    WordPairs,
    Words,
)
from crosslens.probes.tasks.task import Task as Declared
from crosslens.readers.labelled_text import LabelledText, first_two_sentences
from crosslens.readers.minimal_pairs import MinimalPair
from crosslens.readers.wic import Wic
from crosslens.run.probing.kinds.classify import SentenceTask, TestedTexts
from crosslens.run.probing.kinds.classify_pair import WicTask
from crosslens.run.probing.kinds.minimal_pairs import PairsTask
from crosslens.run.probing.kinds.numbers import NumberTask, number_parts, read_numbers
from crosslens.run.probing.kinds.parse import StructuralTask
from crosslens.run.probing.kinds.rank import ScwsTask
from crosslens.run.probing.kinds.span import SpanTask
from crosslens.run.probing.kinds.tag import WordsText, WordTask
from crosslens.run.probing.kinds.task import Task, Text
from crosslens.run.probing.splits import (
    PARTS,
    SHARES,
    choose,
    join_treebanks,
    ranges,
    some,
    some_sentences,
    split_names,
    treebank_parts,
)
from crosslens.run.repeats import groups_of, normal_texts, text_names

__all__ = ["JOINED", "Drawing", "build", "numbers"]


@dataclasses.dataclass(frozen=True)
class Drawing:
    """What is sampled of the data.

    Attributes
    ----------
    limit: most items of each split (sentences of a treebank, pairs of a category); None for all.
        seed: of what is sampled.
    pll: how masked models score sentences of minimal pairs, where a task does not say.
    """

    limit: int | None = None
    seed: int = 0
    pll: str = "pll"

    def choose(self, parts: Parts, labels: np.ndarray | None = None) -> tuple[np.ndarray, Parts]:
        """Which items of the parts are taken, and the parts as places among these."""
        return choose(parts, self.limit, self.seed, labels)

    def some(self, n: int, labels: np.ndarray | None = None) -> np.ndarray:
        """Rows of at most ``limit`` of n items."""
        return some(np.arange(n), self.limit, self.seed, labels)


def build(
    task: Declared, trained: Sequence[Items], others: Sequence[Items], drawing: Drawing
) -> Task:
    """The task on its items.

    Parameters
    ----------
    trained: items of the language that is trained on; of several languages for the kinds classify,
        tag, parse and span. others: those of further languages, of which only the test items are
        used.

    Raises
    ------
    InputError: too few items, or of one label only.
    """
    if task.kind in JOINED:
        return _JOINED[task.kind](task, trained, others, drawing)
    (items,) = trained
    return _KINDS[task.kind](task, items, others, drawing)


# -- kinds
# --------------------------------------------------------------------------------------------------------------------


def _classify(
    task: Declared, trained: Sequence[Items], others: Sequence[Items], drawing: Drawing
) -> SentenceTask:
    tested = tuple(_tested(task.name, one, drawing) for one in others if isinstance(one, Texts))
    first, *also = (_sentences(task, items, drawing) for items in trained)
    sources = [
        dataclasses.replace(one, source=(f"{task.name}-{one.language}", one.source[1]))
        for one in also
    ]
    return dataclasses.replace(first, tested=tested, also=tuple(sources))


def _sentences(task: Declared, items: Items, drawing: Drawing) -> SentenceTask:
    """The texts of a language, with their parts."""
    assert isinstance(items, Texts)
    texts, name = items.texts, task.name
    labels = np.array(texts.labels)
    with _refusals_of(name):
        same = _same(texts)
        parts = _text_parts(texts, labels, same, drawing.seed)
    rows, chosen = drawing.choose(parts, labels)
    text = Text(texts.corpus(items.language, rows.tolist()))
    places = [texts.places[row] for row in rows]
    language = None if items.language == SEVERAL else items.language
    first = np.unique(same, return_index=True)[1]
    groups = None if texts.groups is None else np.array(texts.groups)[first][same][rows]
    made = SentenceTask(
        name,
        (name, text),
        labels[rows],
        chosen,
        text.corpus.sentences,
        places,
        surface=items.surface,
        groups=groups,
        language=language,
    )
    if items.settings is None:
        return made
    return dataclasses.replace(_first_sentences(made, items.settings.unit), settings=items.settings)


def _same(texts: LabelledText) -> np.ndarray:
    """The group of each text: equal ones are together, and translations of each other where they
    are known."""
    sides = [
        text_names(normal_texts(texts.texts)),
        *([] if texts.groups is None else [np.array(texts.groups)]),
    ]
    return groups_of(sides)


def _text_parts(texts: LabelledText, labels: np.ndarray, same: np.ndarray, seed: int) -> Parts:
    """The splits that the file says, or random ones; a group stays on one side of what is sampled."""
    if texts.parts is None:
        parts = stratified_parts(labels, SHARES, seed, groups=same)
    else:
        parts = Parts.of_names(texts.parts)
    return parts if len(parts.dev) else hold_out_dev(parts, labels, seed=seed, groups=same)


def _tested(name: str, items: Texts, drawing: Drawing) -> TestedTexts:
    """The test split of another language; all of a text without splits."""
    texts, labels = items.texts, np.array(items.texts.labels)
    rows = (
        np.arange(len(texts))
        if texts.parts is None
        else np.flatnonzero(np.array(texts.parts) == "test")
    )
    rows = some(rows, drawing.limit, drawing.seed, labels)
    source = f"{name}-{items.language}", Text(texts.corpus(items.language, rows.tolist()))
    return TestedTexts(items.language, source, labels[rows])


def _first_sentences(task: SentenceTask, unit: str) -> SentenceTask:
    """The same texts as the first two sentences of each, a pair, for which the mean over all tokens
    stands."""
    corpus = task.source[1].corpus
    firsts, seconds = zip(*map(first_two_sentences, task.sentences), strict=True)
    first = dataclasses.replace(corpus, sentences=firsts)
    second = dataclasses.replace(corpus, sentences=[sentence or "" for sentence in seconds])
    return dataclasses.replace(
        task, source=(task.name, Text(first, unit, second, pool="mean")), sentences=firsts
    )


def _treebank(items: Items, drawing: Drawing) -> tuple[WordsText, str]:
    """A treebank's sentences with their parts, and how these came about."""
    assert isinstance(items, Words)
    with _refusals_of(items.name):
        parts = treebank_parts(dict(items.splits), drawing.seed)
    rows, chosen = drawing.choose(parts)
    text = Text(some_sentences(join_treebanks(list(items.splits.values())), rows), "word")
    return WordsText(text, split_names(chosen, len(rows)), items.language), chosen.drawn


def _test_treebank(items: Items, drawing: Drawing) -> WordsText:
    """The test sentences of a treebank of another language."""
    assert isinstance(items, Words)
    corpus = items.splits["test"]
    rows = drawing.some(len(corpus))
    return WordsText(
        Text(some_sentences(join_treebanks([corpus]), rows), "word"),
        np.full(len(rows), "test"),
        items.language,
    )


def _words(
    task: Declared, trained: Sequence[Items], others: Sequence[Items], drawing: Drawing
) -> Task:
    (one, drawn), *more = (_treebank(items, drawing) for items in trained)
    if any(told != drawn for _, told in more):
        told = zip(
            [one, *(other for other, _ in more)], [drawn, *(t for _, t in more)], strict=True
        )
        drawn = "; ".join(f"{words.language}: {said}" for words, said in told)
    common: dict[str, Any] = {
        "name": task.name,
        "text": one.text,
        "part_of": one.part_of,
        "drawn": drawn,
        "language": one.language,
        "tested": tuple(_test_treebank(other, drawing) for other in others),
        "also": tuple(other for other, _ in more),
    }
    if task.label is not None:
        return WordTask(**common, label=task.label)
    if task.shape is not None:
        return StructuralTask(**common, shape=task.shape)
    return SpanTask(**common, pick=task.pick, seed=drawing.seed)


def _classify_pair(
    task: Declared, items: Items, others: Sequence[Items], drawing: Drawing
) -> WicTask:
    assert isinstance(items, WordPairs)
    there = [items.splits[part] for part in PARTS if part in items.splits]
    every = [item for part in there for item in part.items]
    labels = np.concatenate([part.labels for part in there])
    where = ranges([len(items.splits.get(part, ())) for part in PARTS])
    parts = Parts(where["train"], where["test"], where["dev"])
    if not len(parts.dev):  # the items of a word stay on one side
        words = np.array([f"{item.word} {item.pos}" for item in every])
        parts = hold_out_dev(parts, labels, seed=drawing.seed, groups=words)
    rows, chosen = drawing.choose(parts, labels)
    mine = Wic([every[row] for row in rows], there[0].language, task.name)
    tested = tuple(_test_pairs(one, drawing) for one in others if isinstance(one, WordPairs))
    return WicTask(task.name, mine, chosen, tested)


def _test_pairs(items: WordPairs, drawing: Drawing) -> Wic:
    """The test items of another language."""
    test = items.splits["test"]
    rows = drawing.some(len(test), test.labels)
    return dataclasses.replace(test, items=[test.items[row] for row in rows])


def _rank(task: Declared, items: Items, others: Sequence[Items], drawing: Drawing) -> ScwsTask:
    assert isinstance(items, RatedWords)
    rows = drawing.some(len(items.words))
    return ScwsTask(
        task.name, dataclasses.replace(items.words, items=[items.words.items[row] for row in rows])
    )


def _minimal_pairs(
    task: Declared, items: Items, others: Sequence[Items], drawing: Drawing
) -> PairsTask:
    assert isinstance(items, PairsOfSentences)
    further = tuple(_minimal_pairs(task, other, (), drawing) for other in others)
    pairs, method = _some_pairs(items.pairs, drawing), items.method or drawing.pll
    return PairsTask(
        task.name, pairs, items.source, method, items.averages, items.language, further
    )


_JOINED: Mapping[str, Callable[[Declared, Sequence[Items], Sequence[Items], Drawing], Task]] = {
    "classify": _classify,
    "tag": _words,
    "parse": _words,
    "span": _words,
}
JOINED = tuple(_JOINED)
"""Kinds that can be trained on several languages together."""
_KINDS: Mapping[str, Callable[[Declared, Items, Sequence[Items], Drawing], Task]] = {
    "classify_pair": _classify_pair,
    "rank": _rank,
    "minimal_pairs": _minimal_pairs,
}


def numbers(name: str, texts: LabelledText, drawing: Drawing) -> NumberTask:
    """A task whose labels are numbers."""
    found = read_numbers(texts)
    with _refusals_of(name):
        rows, chosen = drawing.choose(number_parts(texts, drawing.seed))
    return NumberTask(name, Text(texts.corpus(SEVERAL, rows.tolist())), found[rows], chosen)


# -- helpers
# ------------------------------------------------------------------------------------------------------------------


def _some_pairs(pairs: Sequence[MinimalPair], drawing: Drawing) -> list[MinimalPair]:
    if drawing.limit is None:
        return list(pairs)
    categories: dict[str, list[int]] = {}
    for number, pair in enumerate(pairs):
        categories.setdefault(pair.category, []).append(number)
    taken = [some(np.array(mine), drawing.limit, drawing.seed) for mine in categories.values()]
    return [pairs[number] for number in np.sort(np.concatenate(taken))]


@contextlib.contextmanager
def _refusals_of(name: str) -> Iterator[None]:
    """A name in front of what is refused: too few items to divide, say."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
