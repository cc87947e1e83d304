"""Which sentences make up which training step: a pure function of (seed, step).

A *stream* is what one batch is sampled from. Every kind of stream offers the same: a
``name``, its ``languages``, the number ``n`` of its items and of their ``tokens``,
``plan`` (the batches of one epoch) and ``collate`` (a batch as arrays). Here is the one
of sentences of one language (masked language modelling, MLM) or of sentence pairs of two
(translation language modelling, TLM: Conneau & Lample 2019, § 3.3); the others are in
:mod:`crosslens.models.training.streams`. Each step belongs to one stream. Sentences of similar
length share a batch, so little is spent on padding. Resuming needs only the step:
nothing here remembers anything that cannot be computed again.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from crosslens.errors import refuse
from crosslens.models.text.token_files import TokenFile
from crosslens.models.text.tokenisation import SPECIAL_TOKENS

__all__ = [
    "Batch",
    "Stream",
    "lay_out",
    "plan_epoch",
    "ranges",
    "schedule",
    "take",
]

_POOL = 256  # batches' worth of sentences that are sorted by length together
_PAD, _CLS, _SEP = (SPECIAL_TOKENS.index(name) for name in ("[PAD]", "[CLS]", "[SEP]"))


@dataclasses.dataclass(frozen=True)
class Batch:
    """Token ids of ``b`` rows of up to ``l`` tokens, padded on the right, and what is known of
    each.

    Attributes
    ----------
    ids: (b, l) int64, padding is [PAD], 0.
    positions: (b, l) int64; 0 for padding.
    lengths: (b,) int64, real tokens of each row.
    languages: (b, l) int64, number of each token's language in ``recipe.languages``; padding has
        that of its row's last token. Rows are sorted by the language of their first token. Rows of
        two languages are never among rows of one.
    segments: (b, l) int64, 0 in the first segment and 1 in the second (0 for padding); None where
        rows have no segments.
    following: (b,) int64, 1 where the second segment follows the first in the text and 0 where it
        is from another place; None likewise. (Devlin et al. 2019 number the two the other way
        round.)
    """

    ids: np.ndarray
    positions: np.ndarray
    lengths: np.ndarray
    languages: np.ndarray
    segments: np.ndarray | None = None
    following: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Stream:
    """Sentences of a language, or pairs of two.

    Attributes
    ----------
    name: for logs, such as "tatoeba eng-fra".
    sides: one token file (MLM) or two line-aligned ones (TLM).
    rows: (n,) the sentences that are used, as rows of the token files.
    languages: the sides' languages.
    numbers: their numbers in ``recipe.languages``.
    batch_tokens: tokens of a batch, padding included.

    >>> file = TokenFile(np.array([10, 11, 12, 13], np.uint16), np.array([0, 2, 3, 4]))
    >>> stream = Stream("toy eng", (file,), np.array([0, 2]), ("eng",), (0,), 16)
    >>> [batch] = stream.plan([0])
    >>> stream.collate(np.sort(batch)).ids.tolist()
    [[2, 10, 11, 3], [2, 13, 3, 0]]
    """

    name: str
    sides: tuple[TokenFile, ...]
    rows: np.ndarray
    languages: tuple[str, ...]
    numbers: tuple[int, ...]
    batch_tokens: int

    @property
    def n(self) -> int:
        """Number of sentences or pairs."""
        return len(self.rows)

    @property
    def tokens(self) -> int:
        """Tokens of all of them, with [CLS] and [SEP]."""
        return int(self.lengths.sum())

    @property
    def lengths(self) -> np.ndarray:
        """(n,) tokens of each item with [CLS] and [SEP] on every side."""
        rows = self.rows
        return sum(
            (side.offsets[rows + 1] - side.offsets[rows] + 2 for side in self.sides),
            np.zeros(len(rows), np.int64),
        )

    def side(self, which: int) -> "Stream":
        """One side of pairs alone, the same rows in the same order."""
        return Stream(
            self.name,
            (self.sides[which],),
            self.rows,
            (self.languages[which],),
            (self.numbers[which],),
            self.batch_tokens,
        )

    def plan(self, seed: Sequence[int]) -> list[np.ndarray]:
        """The batches of one epoch, as item numbers; see :func:`plan_epoch`."""
        return plan_epoch(self.lengths, self.batch_tokens, seed)

    def collate(self, items: np.ndarray) -> Batch:
        """Put items into one padded array.

        A pair is two whole sentences, ``[CLS] a [SEP] [CLS] b [SEP]``, with the positions of each
        counted from 0 (XLM's reset positions): each side looks exactly as it will when it is
        encoded alone.
        """
        rows = self.rows[items]
        starts = [side.offsets[rows] for side in self.sides]
        counts = [
            side.offsets[rows + 1] - start for side, start in zip(self.sides, starts, strict=True)
        ]
        lengths = np.sum(counts, axis=0) + 2 * len(counts)
        ids, positions = lay_out(lengths)
        languages = np.full_like(ids, self.numbers[0])
        flat, column = ids.reshape(-1), np.arange(ids.shape[1])
        begin = np.arange(len(ids)) * ids.shape[1]  # of each row in the flat array
        for which, (side, start, count) in enumerate(zip(self.sides, starts, counts, strict=True)):
            if which:
                second = column >= (counts[0] + 2)[:, None]
                languages[second] = self.numbers[1]
                positions -= np.where(second & (positions > 0), (counts[0] + 2)[:, None], 0)
            flat[begin] = _CLS
            flat[ranges(begin + 1, count)] = take((side,), None, ranges(start, count))
            flat[begin + count + 1] = _SEP
            begin = begin + count + 2
        return Batch(ids, positions, lengths, languages)


def lay_out(lengths: np.ndarray, width: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Empty rows for ``lengths`` tokens each: ids (all padding) and positions, (b, width) each; the
    longest row's width if it is 0.

    >>> lay_out(np.array([2, 3]))[1].tolist()
    [[0, 1, 0], [0, 1, 2]]
    """
    column = np.arange(width or lengths.max(initial=0))
    return np.full((len(lengths), len(column)), _PAD, np.int64), np.where(
        column < lengths[:, None], column, 0
    )


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The whole numbers from each start on, ``counts`` of them each, one after the other.

    >>> ranges(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)


def take(files: Sequence[TokenFile], which: np.ndarray | None, places: np.ndarray) -> np.ndarray:
    """(m,) the ids at m places, place i in the ``which[i]``-th file; with one file ``which`` is not
    looked at."""
    if len(files) == 1 or which is None:
        return np.asarray(files[0].ids)[places]
    ids = np.empty(len(places), np.int64)
    for number in np.unique(which).tolist():
        mine = which == number
        ids[mine] = np.asarray(files[number].ids)[places[mine]]
    return ids


def schedule(probabilities: np.ndarray, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """For every step the stream it belongs to, and how many earlier steps belonged to the same
    stream.

    More steps with the same seed continue the same sequence.

    >>> stream, turn = schedule(np.array([0.5, 0.5]), 4, seed=0)
    >>> stream.tolist(), turn.tolist()
    ([1, 0, 1, 1], [0, 0, 1, 2])
    """
    draws = np.random.default_rng([seed, 0x5EED]).random(steps)
    stream = np.searchsorted(np.cumsum(probabilities)[:-1], draws, side="right")
    turn = np.empty(steps, np.int64)
    for which in range(len(probabilities)):
        mine = stream == which
        turn[mine] = np.arange(mine.sum())
    return stream, turn


def plan_epoch(lengths: np.ndarray, batch_tokens: int, seed: Sequence[int]) -> list[np.ndarray]:
    """Split one epoch's items into batches of at most ``batch_tokens`` tokens, padding included.

    Parameters
    ----------
    lengths: (n,) tokens of each item.
    seed: numbers that the order depends on.

    Returns
    -------
    item indices of each batch; every item is in exactly one.

    >>> batches = plan_epoch(np.array([3, 3, 9, 3]), 9, [0])
    >>> sorted(len(b) for b in batches)
    [1, 3]
    """
    if len(lengths) == 0 or lengths.max() > batch_tokens:
        expected = f"room for the longest item ({lengths.max(initial=0)} tokens)"
        refuse("batch_tokens", expected, str(batch_tokens), "raise it")
    rng = np.random.default_rng(list(seed))
    order = rng.permutation(len(lengths))
    pool = max(1, int(_POOL * batch_tokens / lengths.mean()))
    batches = []
    for start in range(0, len(order), pool):
        part = order[start : start + pool]
        part = part[np.argsort(lengths[part], kind="stable")]
        begin = 0
        for end in range(1, len(part) + 1):
            if end == len(part) or lengths[part[end]] * (end + 1 - begin) > batch_tokens:
                batches.append(part[begin:end])
                begin = end
    return [batches[i] for i in rng.permutation(len(batches))]
