"""Which items of a task train, choose and test: what files say, what is sampled where they say
nothing, and limits."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from crosslens.corpus import Corpus
from crosslens.probes.methods.splits import Parts, hold_out_dev, stratified_parts
from crosslens.run.repeats import normal_texts

__all__ = [
    "PARTS",
    "SHARES",
    "choose",
    "join_treebanks",
    "ranges",
    "some",
    "some_sentences",
    "split_names",
    "treebank_parts",
]

PARTS = ("train", "dev", "test")
SHARES = (0.7, 0.1, 0.2)


def ranges(counts: Sequence[int]) -> dict[str, np.ndarray]:
    """Rows of train, dev and test, of which there are so many one behind the other."""
    return dict(zip(PARTS, np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1]), strict=True))


def split_names(parts: Parts, n: int) -> np.ndarray:
    """The part of each of n items, by its name.

    >>> split_names(Parts(train=[2], test=[0], dev=[1]), 3).tolist()
    ['test', 'dev', 'train']
    """
    names = np.empty(n, dtype="<U5")
    for part in PARTS:
        names[getattr(parts, part)] = part
    return names


def treebank_parts(corpora: dict[str, Corpus], seed: int) -> Parts:
    """The parts of a treebank whose files are those of some of the parts, one behind the other in
    the order train, dev, test.

    An official test part stays what it is: without a train file the sentences of dev are trained
    on, without a dev file a share of the training sentences is held out. A single file is divided.
    Equal sentences stay on one side of what is sampled.
    """
    rows = ranges([len(corpora[part].sentences) if part in corpora else 0 for part in PARTS])
    sentences = normal_texts(
        [sentence for part in PARTS if part in corpora for sentence in corpora[part].sentences]
    )
    names = np.unique(np.array(sentences, object).astype(str), return_inverse=True)[1]
    one = np.zeros(len(sentences), int)
    if len(corpora) == len(PARTS):
        return Parts(rows["train"], rows["test"], rows["dev"])
    if len(corpora) == 1:
        parts = stratified_parts(one, SHARES, seed, groups=names)
        drawn = parts.drawn.replace(" of the items", " of the sentences")
        return Parts(parts.train, parts.test, parts.dev, drawn)
    trained, tested = corpora
    held = hold_out_dev(Parts(rows[trained], rows[tested]), one, seed=seed, groups=names)
    drawn = (
        f"the files of {trained} to train on, of {tested} to test on; dev is a random 10 % of the "
        f"sentences to train on, seed {seed}"
    )
    return Parts(held.train, held.test, held.dev, drawn)


def choose(
    parts: Parts, limit: int | None, seed: int, labels: np.ndarray | None = None
) -> tuple[np.ndarray, Parts]:
    """Which items of the parts are taken, rising, and the parts as places among these; labels keep
    their shares."""
    taken = {part: some(getattr(parts, part), limit, seed, labels) for part in PARTS}
    rows = np.sort(np.concatenate(list(taken.values())))
    told = (
        parts.drawn
        if limit is None
        else f"{parts.drawn}; at most {limit} of each part, seed {seed}"
    )
    places = {part: np.searchsorted(rows, mine) for part, mine in taken.items()}
    return rows, Parts(places["train"], places["test"], places["dev"], told)


def some(
    rows: np.ndarray, limit: int | None, seed: int, labels: np.ndarray | None = None
) -> np.ndarray:
    """At most so many of the rows, sampled at random, rising; of each label its share, and at least
    one while there is room.

    >>> labels = np.array(["a"] * 90 + ["b"] * 9 + ["c"])
    >>> np.unique(labels[some(np.arange(100), 20, 0, labels)], return_counts=True)[1].tolist()
    [18, 1, 1]
    """
    if limit is None or len(rows) <= limit:
        return np.sort(rows)
    order = np.random.default_rng([seed, 0x11F7]).permutation(rows)
    if labels is None:
        return np.sort(order[:limit])
    codes = np.unique(labels[order], return_inverse=True)[1]
    counts = np.bincount(codes)
    wanted = _shares(counts, limit)
    # of each row among those of its label, in the order that was sampled
    rank = np.empty(len(order), int)
    by_label = np.argsort(codes, kind="stable")
    rank[by_label] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[rank < wanted[codes]])


def _shares(counts: np.ndarray, limit: int) -> np.ndarray:
    """How many to take of each label: one of each while there is room, the commonest first, and
    then by largest remainder."""
    exact = counts * (limit / counts.sum())
    wanted = np.minimum(np.maximum(np.floor(exact), 1), counts).astype(int)
    commonest = np.argsort(-counts, kind="stable")
    if len(counts) > limit:
        wanted = np.zeros(len(counts), int)
        wanted[commonest[:limit]] = 1
    # what rounding up has taken too much, labels that have more than one give back
    while wanted.sum() > limit:
        wanted[np.argmax(np.where(wanted > 1, wanted - exact, -np.inf))] -= 1
    while wanted.sum() < limit:
        wanted[np.argmax(np.where(wanted < counts, exact - wanted, -np.inf))] += 1
    return wanted


def join_treebanks(corpora: Sequence[Corpus]) -> Corpus:
    """Several treebanks as one; the number of the file stands in front of each id."""
    words = [spans for corpus in corpora for spans in corpus.words or ()]
    columns = list(corpora[0].annotations or ())
    annotations = {
        column: [row for corpus in corpora for row in (corpus.annotations or {})[column]]
        for column in columns
    }
    ids = [f"{number}:{name}" for number, corpus in enumerate(corpora) for name in corpus.ids]
    sentences = [sentence for corpus in corpora for sentence in corpus.sentences]
    return Corpus(corpora[0].language, sentences, ids, corpora[0].name, words, annotations)


def some_sentences(corpus: Corpus, rows: np.ndarray) -> Corpus:
    """Some sentences of a treebank."""
    words, annotations = corpus.words or (), corpus.annotations or {}
    return dataclasses.replace(
        corpus,
        sentences=[corpus.sentences[row] for row in rows],
        ids=[corpus.ids[row] for row in rows],
        words=[words[row] for row in rows],
        annotations={
            column: [values[row] for row in rows] for column, values in annotations.items()
        },
    )
