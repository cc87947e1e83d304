"""Streams whose rows are not single sentences, and those whose batches mix languages.

Each kind has the methods of :class:`crosslens.models.training.batches.Stream`. A stream of texts of
one language has batches of that language; one of several has batches of all of them, every row of
every language in a uniformly random order (as in Deshpande et al. 2022), and in each batch the rows
sorted by language. Which rows make up an epoch is a pure function of the seed that ``plan`` is
given.
"""

import copy
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from crosslens.errors import refuse
from crosslens.models.text.token_files import TokenFile
from crosslens.models.text.tokenisation import SPECIAL_TOKENS
from crosslens.models.training.batches import Batch, Stream, lay_out, plan_epoch, ranges, take
from crosslens.models.training.derivation import RedrawnTokens

__all__ = [
    "AnyStream",
    "ContinuousStream",
    "MixedSentences",
    "PackedStream",
    "SegmentStream",
    "Sentences",
    "Text",
    "at_epoch",
    "by_language",
    "shuffled_batches",
]

_CLS, _SEP = SPECIAL_TOKENS.index("[CLS]"), SPECIAL_TOKENS.index("[SEP]")


@dataclasses.dataclass(frozen=True)
class Text:
    """The sentences of one language in one source that are used.

    Attributes
    ----------
    language, number: the language, and its number in ``recipe.languages``.
    file: the source's token file.
    rows: (n,) rows of the file, ascending.
    """

    language: str
    number: int
    file: TokenFile
    rows: np.ndarray


@dataclasses.dataclass(frozen=True)
class Sentences:
    """Where the sentences of some texts of one language are.

    Attributes
    ----------
    language, number: the language, and its number in ``recipe.languages``.
    files: token files.
    part: (n,) number of each sentence's file in ``files``.
    starts, counts: (n,) its first place there, and its tokens; none has 0.
    follows: (n,) whether it follows the one before it in its text, with nothing in between.
    """

    language: str
    number: int
    files: tuple[TokenFile, ...]
    part: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    follows: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)


def by_language(texts: Sequence[Text]) -> list[Sentences]:
    """The sentences of texts, of one language after the other in the order of their numbers; texts
    of a language in the given order.

    >>> file = TokenFile(np.array([10, 11, 12], np.uint16), np.array([0, 2, 2, 3]))
    >>> by_language([Text("eng", 0, file, np.arange(3))])[0].counts.tolist()
    [2, 1]
    """
    found = []
    for number in sorted({text.number for text in texts}):
        mine = [text for text in texts if text.number == number]
        columns: list[list[np.ndarray]] = [[], [], [], []]
        for part, text in enumerate(mine):
            counts = text.file.offsets[text.rows + 1] - text.file.offsets[text.rows]
            rows = text.rows[counts > 0]
            follows = np.diff(rows, prepend=-2) == 1  # -2: the first one follows none
            for column, values in zip(
                columns,
                (np.full(len(rows), part), text.file.offsets[rows], counts[counts > 0], follows),
                strict=True,
            ):
                column.append(values)
        found.append(
            Sentences(
                mine[0].language,
                number,
                tuple(t.file for t in mine),
                *(np.concatenate(column) for column in columns),
            )
        )
    return found


def shuffled_batches(n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """All numbers below ``n`` in a random order, cut into batches of ``size`` (the last may be
    smaller), ascending in each.

    >>> sorted(len(batch) for batch in shuffled_batches(7, 3, np.random.default_rng(0)))
    [1, 3, 3]
    """
    order = rng.permutation(n)
    return [np.sort(order[start : start + size]) for start in range(0, n, size)]


class MixedSentences:
    """Single sentences of several languages in the same batches, ``[CLS] … [SEP]`` each; sentences
    of similar length together.

    Parameters
    ----------
    texts: all texts of all languages.
    batch_tokens: tokens of a batch, padding included.
    """

    def __init__(self, name: str, texts: Sequence[Text], batch_tokens: int) -> None:
        self.name, self.batch_tokens, self._groups = name, batch_tokens, by_language(texts)
        self.languages = tuple(group.language for group in self._groups)
        self.files, self._part, self._starts, self._counts = _joined(self._groups)
        self._numbers = np.repeat(
            [group.number for group in self._groups], [len(group) for group in self._groups]
        )
        self.n, self.tokens = len(self._counts), int(self._counts.sum() + 2 * len(self._counts))

    @property
    def lengths(self) -> np.ndarray:
        """(n,) tokens of each sentence with [CLS] and [SEP]."""
        return self._counts + 2

    def plan(self, seed: Sequence[int]) -> list[np.ndarray]:
        """The batches of one epoch, as item numbers; items are numbered language by language."""
        return [np.sort(items) for items in plan_epoch(self.lengths, self.batch_tokens, seed)]

    def collate(self, items: np.ndarray) -> Batch:
        """Put items into one padded array."""
        starts, counts = self._starts[items], self._counts[items]
        ids, positions = lay_out(counts + 2)
        flat, begin = ids.reshape(-1), np.arange(len(ids)) * ids.shape[1]
        flat[begin], flat[begin + counts + 1] = _CLS, _SEP
        flat[ranges(begin + 1, counts)] = take(
            self.files, np.repeat(self._part[items], counts), ranges(starts, counts)
        )
        return Batch(ids, positions, counts + 2, _spread(self._numbers[items], ids.shape[1]))


class ContinuousStream:
    """Stretches of continuous text: XLM's ``StreamDataset`` (Conneau & Lample 2019).

    All sentences of a language, each followed by [SEP], are one text. [SEP]s are put in front of
    it, so that it can be written into ``rows`` columns of equal height, a whole number of times
    ``length``. Above them stands a line of [SEP]. Batch i is lines ``i * length`` to ``(i + 1) *
    length`` of this, a column a row. So a row goes on in the next batch, only the first batch
    begins with [SEP], and the last line is never served. An epoch is all batches in a random order;
    with several languages, all rows of all of them. A batch of [SEP]s alone, in which there is
    nothing to predict, is left out: with rows=1 the first may be one. Nothing is copied: a place in
    the text is looked up in the token files when it is needed.

    Parameters
    ----------
    texts: all texts of one or more languages.
    length: tokens of a row.
    rows: rows of a batch.

    Raises
    ------
    InputError: no texts.

    >>> file = TokenFile(np.array([10, 11, 12, 13, 14, 15, 16], np.uint16), np.array([0, 3, 5, 7]))
    >>> stream = ContinuousStream("all eng", [Text("eng", 0, file, np.arange(3))], length=3, rows=2)
    >>> stream.collate(np.array([0, 1])).ids.tolist()  # the line of [SEP], then 3 3 10 … and 13 14 3 …
    [[3, 3, 3], [3, 13, 14]]
    """

    def __init__(self, name: str, texts: Sequence[Text], length: int, rows: int) -> None:
        self.name, self.length, self.rows, self._groups = name, length, rows, by_language(texts)
        self.languages = tuple(group.language for group in self._groups)
        # ends[i]: the place in the text after sentence i - 1 and its [SEP]
        self._ends = [np.concatenate([[0], np.cumsum(group.counts + 1)]) for group in self._groups]
        self.tokens = sum(int(ends[-1]) for ends in self._ends)
        self._batches = [-(-int(ends[-1]) // (rows * length)) for ends in self._ends]
        # number of each language's first row
        self._first = np.concatenate([[0], np.cumsum(self._batches)]) * rows
        self.n = int(self._first[-1])

    def plan(self, seed: Sequence[int]) -> list[np.ndarray]:
        """The batches of one epoch, as numbers of rows: ``batch * rows + column``, language by
        language."""
        rng = np.random.default_rng(list(seed))
        if len(self._groups) == 1:
            batches = [
                np.arange(i * self.rows, (i + 1) * self.rows)
                for i in rng.permutation(self._batches[0]).tolist()
            ]
        else:
            batches = shuffled_batches(self.n, self.rows, rng)
        blank = np.concatenate([self._without_text(i) for i in range(len(self._groups))])
        return [items for items in batches if not blank[items].all()]

    def _without_text(self, which: int) -> np.ndarray:
        """(rows of a language,) whether a row has nothing but the [SEP]s in front of the text."""
        batch, column = np.divmod(np.arange(self._batches[which] * self.rows), self.rows)
        height = self._batches[which] * self.length
        padding = height * self.rows - int(self._ends[which][-1])
        return column * height + (batch + 1) * self.length - 1 <= padding

    def collate(self, items: np.ndarray) -> Batch:
        """Look rows up; they are full, so there is no padding."""
        lengths = np.full(len(items), self.length)
        ids, positions = lay_out(lengths)
        group = np.searchsorted(self._first, items, side="right") - 1
        for which in np.unique(group).tolist():
            ids[group == which] = self._look_up(which, items[group == which] - self._first[which])
        return Batch(
            ids,
            positions,
            lengths,
            _spread(np.array([g.number for g in self._groups])[group], self.length),
        )

    def _look_up(self, which: int, rows: np.ndarray) -> np.ndarray:
        """(b, length) rows of one language, numbered from 0."""
        group, ends = self._groups[which], self._ends[which]
        batch, column = np.divmod(rows, self.rows)
        height = self._batches[which] * self.length
        padding = height * self.rows - int(ends[-1])
        # place of a row's first token; the line of [SEP] is the -1
        first = column * height + batch * self.length - 1 - padding
        low = np.maximum(first + (batch == 0), 0)  # the text's places in a row: low <= place < high
        high = np.maximum(first + self.length, low)
        begin, end = (np.searchsorted(ends, place, side="right") - 1 for place in (low, high - 1))
        pieces = np.where(high > low, end - begin + 1, 0)  # sentences of which a row has something
        sentence, row = ranges(begin, pieces), np.repeat(np.arange(len(rows)), pieces)
        start = np.maximum(ends[sentence], low[row])
        # none if only its [SEP] is there
        words = np.maximum(
            np.minimum(ends[sentence] + group.counts[sentence], high[row]) - start, 0
        )
        ids = np.full((len(rows), self.length), _SEP, np.int64)
        places = ranges(group.starts[sentence] + start - ends[sentence], words)
        ids.reshape(-1)[ranges(row * self.length + start - first[row], words)] = take(
            group.files, np.repeat(group.part[sentence], words), places
        )
        return ids


class PackedStream:
    """Rows of whole sentences, each ``[CLS] … [SEP]``, as many as fit (FULL-SENTENCES of Liu et al.
    2019, over all documents).

    Every epoch takes a language's sentences in another random order and fills row after row; a
    sentence that does not fit begins the next one. A sentence longer than a row is cut into stretches
    that fill a row, and the rest; each has its marks. Positions run on through a row, which is of
    one language. With several languages rows are filled for each, then all rows are shuffled.

    Parameters
    ----------
    texts: all texts of one or more languages.
    length: tokens of a row.
    rows: rows of a batch.

    Raises
    ------
    InputError: a row has no room for a word and its marks.

    >>> file = TokenFile(np.array([10, 11, 12, 13, 14], np.uint16), np.array([0, 2, 3, 5]))
    >>> stream = PackedStream("all eng", [Text("eng", 0, file, np.arange(3))], length=7, rows=2)
    >>> [batch] = stream.plan([3])
    >>> stream.collate(batch).lengths.tolist(), stream.n, stream.tokens
    ([7, 4], 3, 11)
    """

    def __init__(self, name: str, texts: Sequence[Text], length: int, rows: int) -> None:
        _need_room(length, 3)
        self.name, self.length, self.rows, groups = name, length, rows, by_language(texts)
        self.languages = tuple(group.language for group in groups)
        self.files, part, starts, counts = _joined(groups)
        number = np.repeat([group.number for group in groups], [len(group) for group in groups])
        pieces = -(-counts // (length - 2))  # of each sentence
        sentence = np.repeat(np.arange(len(counts)), pieces)
        offset = ranges(np.zeros_like(pieces), pieces) * (length - 2)
        self._part = part[sentence]
        self._number = number[sentence]
        self._starts = starts[sentence] + offset
        self._counts = np.minimum(counts[sentence] - offset, length - 2)
        self.n, self.tokens = len(sentence), int(self._counts.sum() + 2 * len(sentence))

    def plan(self, seed: Sequence[int]) -> list[np.ndarray]:
        """The batches of one epoch: (k, 2) numbers of sentences (or of subwords of them), and the row
        in the batch that each is in."""
        rng = np.random.default_rng(list(seed))
        orders, firsts, at = [], [], 0
        for number in np.unique(self._number).tolist():
            order = rng.permutation(np.flatnonzero(self._number == number))
            orders.append(order)
            firsts.append(np.array(_fill(self._counts[order] + 2, self.length)) + at)
            at += len(order)
        order, first = np.concatenate(orders), np.concatenate([*firsts, [at]])
        n = len(first) - 1
        if len(orders) == 1:  # in a random order already
            batches = [
                np.arange(start, min(start + self.rows, n)) for start in range(0, n, self.rows)
            ]
        else:
            batches = shuffled_batches(n, self.rows, rng)
        counts = np.diff(first)
        return [
            np.stack(
                [
                    order[ranges(first[rows], counts[rows])],
                    np.repeat(np.arange(len(rows)), counts[rows]),
                ],
                axis=1,
            )
            for rows in batches
        ]

    def collate(self, items: np.ndarray) -> Batch:
        """Put the sentences of a batch into rows of ``length`` tokens."""
        sentence, row = items.T
        counts = self._counts[sentence]
        lengths = np.bincount(row, weights=counts + 2).astype(np.int64)
        ids, positions = lay_out(lengths, self.length)
        before = np.cumsum(counts + 2) - counts - 2  # tokens of the batch before a sentence
        begin = before - (np.cumsum(lengths) - lengths)[row] + row * self.length
        flat = ids.reshape(-1)
        flat[begin], flat[begin + counts + 1] = _CLS, _SEP
        places = ranges(self._starts[sentence], counts)
        flat[ranges(begin + 1, counts)] = take(
            self.files, np.repeat(self._part[sentence], counts), places
        )
        first = np.searchsorted(row, np.arange(len(lengths)))
        return Batch(ids, positions, lengths, _spread(self._number[sentence[first]], self.length))


class SegmentStream:
    """Pairs of segments for next-sentence prediction, ``[CLS] A [SEP] B [SEP]`` (Devlin et al.
    2019, as their code draws them).

    From the first sentence that is not used yet, sentences that follow each other are taken until
    the target length is reached: that of a row, or, with probability ``short``, one sampled uniformly
    from 2 up. (Their code draws that once a document; there are no documents here, so it is once a
    pair.) A is a random number of them, at least one and not all. B is the others; or, with
    probability .5 and always if there are none, text from a random other place of the language, and
    the others are left for the next pair. So every sentence stands in A, or in a B that follows.
    What is too long is cut from the longer segment, each word from its front or its end with equal
    probability. Pairs are shuffled.

    Sentences follow each other where their rows do: what is held out, excluded or empty ends a
    text.

    Parameters
    ----------
    texts: all texts of one or more languages.
    length: tokens of a row.
    rows: rows of a batch.
    short: probability of a shorter target.

    Raises
    ------
    InputError: a language has fewer than two sentences, or a row has no room for two words and
        their marks.

    >>> file = TokenFile(np.arange(10, 50, dtype=np.uint16), np.arange(0, 41, 4))
    >>> stream = SegmentStream("all eng", [Text("eng", 0, file, np.arange(10))], length=19, rows=2)
    >>> batch = stream.collate(stream.plan([1])[0])
    >>> batch.ids.shape, sorted(set(batch.following.tolist()) | {0, 1})
    ((2, 19), [0, 1])
    """

    def __init__(
        self, name: str, texts: Sequence[Text], length: int, rows: int, short: float = 0.1
    ) -> None:
        _need_room(length, 5)
        self.name = name
        self.length = length
        self.rows = rows
        self.short = short
        self._groups = by_language(texts)
        self.languages = tuple(group.language for group in self._groups)
        for group in self._groups:
            if len(group) < 2:
                expected = "at least two sentences for pairs"
                refuse(f"text of {group.language}", expected, str(len(group)), "give more text")
        self.files = tuple(itertools.chain.from_iterable(group.files for group in self._groups))
        self.n = sum(map(len, self._groups))
        self.tokens = sum(int(group.counts.sum()) for group in self._groups)

    def plan(self, seed: Sequence[int]) -> list[np.ndarray]:
        """The batches of one epoch, a row (language, file, place, tokens of A; file, place, tokens
        of B; following) for each pair."""
        rng = np.random.default_rng(list(seed))
        pairs, files = [], 0
        for which, group in enumerate(self._groups):
            a, b, a_tokens, b_tokens, following = np.array(self._pairs(group, rng), np.int64).T
            room = self.length - 3
            a_kept = np.minimum(a_tokens, np.maximum(room - b_tokens, (room + 1) // 2))
            b_kept = np.minimum(b_tokens, room - a_kept)
            a_from = group.starts[a] + rng.binomial(a_tokens - a_kept, 0.5)
            b_from = group.starts[b] + rng.binomial(b_tokens - b_kept, 0.5)
            language = np.full(len(a), which)
            pairs.append(
                np.stack(
                    [
                        language,
                        group.part[a] + files,
                        a_from,
                        a_kept,
                        group.part[b] + files,
                        b_from,
                        b_kept,
                        following,
                    ],
                    axis=1,
                )
            )
            files += len(group.files)
        every = np.concatenate(pairs)
        return [every[rows] for rows in shuffled_batches(len(every), self.rows, rng)]

    def _pairs(
        self, group: Sentences, rng: np.random.Generator
    ) -> list[tuple[int, int, int, int, int]]:
        """First sentence of A and of B, tokens of A and of B before they are cut, following; for
        every pair of an epoch."""
        n, room, pairs, at = len(group), self.length - 3, [], 0
        before = np.concatenate([[0], np.cumsum(group.counts)])  # tokens before each sentence
        texts = np.append(np.flatnonzero(~group.follows), n)
        stops = np.repeat(texts[1:], np.diff(texts))  # where the text of a sentence ends

        def reach(first: int, tokens: int, stop: int) -> int:
            """The sentence before which there are enough tokens, or the text ends."""
            return min(int(before.searchsorted(before[first] + max(tokens, 1))), stop)

        while at < n:
            is_short, which, is_random, elsewhere, a_share = rng.random(5).tolist()
            target = 2 + int(which * (room - 1)) if is_short < self.short else room
            end = reach(at, target, int(stops[at]))
            b = at + 1 + int(a_share * (end - at - 1)) if end - at > 1 else end
            used = min(b + 1, int(stops[at]))  # A and the sentence after it are no other place
            others = n - (used - at)
            following = int(others == 0 or (end - at > 1 and is_random >= 0.5))
            a_tokens, a, at = int(before[b] - before[at]), at, b
            if following:
                end = max(end, b + 1)
                at = end
            else:
                b = int(elsewhere * others)
                b += (used - a) * (b >= a)
                stop = min(int(stops[b]), a) if b < a else int(stops[b])
                end = reach(b, target - a_tokens, stop)
            pairs.append((a, b, a_tokens, int(before[end] - before[b]), following))
        return pairs

    def collate(self, items: np.ndarray) -> Batch:
        """Put pairs into rows of ``length`` tokens."""
        which, a_file, a_from, a_count, b_file, b_from, b_count, following = items.T
        ids, positions = lay_out(a_count + b_count + 3, self.length)
        flat, begin = ids.reshape(-1), np.arange(len(ids)) * self.length
        middle = begin + a_count + 1  # the [SEP] between the two
        flat[begin], flat[middle], flat[middle + b_count + 1] = _CLS, _SEP, _SEP
        flat[ranges(begin + 1, a_count)] = take(
            self.files, np.repeat(a_file, a_count), ranges(a_from, a_count)
        )
        flat[ranges(middle + 1, b_count)] = take(
            self.files, np.repeat(b_file, b_count), ranges(b_from, b_count)
        )
        languages = _spread(np.array([group.number for group in self._groups])[which], self.length)
        segments = (positions > (a_count + 1)[:, None]).astype(np.int64)
        return Batch(ids, positions, a_count + b_count + 3, languages, segments, following)


AnyStream = Stream | MixedSentences | ContinuousStream | PackedStream | SegmentStream


def at_epoch(stream: AnyStream, epoch: int) -> AnyStream:
    """A stream as it is in an epoch: the very stream, unless its texts are drawn anew in each.

    Sentences are as long in every epoch, so the plan of one is a plan of the other.
    """
    made: dict[int, TokenFile] = {}

    def then(files: Sequence[TokenFile]) -> tuple[TokenFile, ...]:
        for file in files:
            if isinstance(file, RedrawnTokens) and id(file) not in made:
                made[id(file)] = file.make(epoch)
        return tuple(made.get(id(file), file) for file in files)

    if isinstance(stream, Stream):
        sides = then(stream.sides)
        return dataclasses.replace(stream, sides=sides) if made else stream
    other = copy.copy(stream)
    if not isinstance(other, PackedStream):
        other._groups = [dataclasses.replace(one, files=then(one.files)) for one in other._groups]
    if not isinstance(other, ContinuousStream):
        other.files = then(other.files)
    return other if made else stream


def _need_room(length: int, least: int) -> None:
    """Refuse rows that are too short for what each must hold."""
    if length < least:
        refuse(
            "max_length", f"at least {least} tokens a row for these units", str(length), "raise it"
        )


def _joined(
    groups: Sequence[Sentences],
) -> tuple[tuple[TokenFile, ...], np.ndarray, np.ndarray, np.ndarray]:
    """Files, and part, starts and counts of the sentences of all languages, parts numbered anew."""
    before = np.cumsum([0, *(len(group.files) for group in groups)])
    part = np.concatenate(
        [group.part + shift for group, shift in zip(groups, before, strict=False)]
    )
    starts, counts = (
        np.concatenate([getattr(group, name) for group in groups]) for name in ("starts", "counts")
    )
    return (
        tuple(itertools.chain.from_iterable(group.files for group in groups)),
        part,
        starts,
        counts,
    )


def _spread(numbers: np.ndarray, width: int) -> np.ndarray:
    """(b, width) the language of each row at all its tokens."""
    return np.repeat(numbers[:, None], width, axis=1)


def _fill(sizes: np.ndarray, length: int) -> list[int]:
    """The first item of each row, where each row takes items in order as long as they fit."""
    before = np.concatenate([[0], np.cumsum(sizes)])
    following = (np.searchsorted(before, before[:-1] + length, side="right") - 1).tolist()
    firsts, at = [], 0
    while at < len(following):
        firsts.append(at)
        at = following[at]
    return firsts
