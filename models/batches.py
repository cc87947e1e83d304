"""Which sentences make up which training step: a pure function of (seed, step).

A *stream* is what one batch is drawn from: the sentences of one language (masked
language modelling, MLM), or sentence pairs of two languages (translation language
modelling, TLM: Lample & Conneau 2019, § 3.3). Each step belongs to one stream. Sentences
of similar length share a batch, so little is spent on padding. Resuming needs only
the step: nothing here remembers anything that cannot be computed again.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from crosslens.errors import refuse
from crosslens.models.tokens import TokenFile

__all__ = ["Batch", "Stream", "collate", "plan_epoch", "sampling_probabilities", "schedule"]

_POOL = 256  # batches' worth of sentences that are sorted by length together


@dataclasses.dataclass(frozen=True)
class Stream:
    """One source of batches.

    Attributes
    ----------
    name: for logs, such as "tatoeba eng-fra".
    sides: one token file (MLM) or two line-aligned ones (TLM).
    rows: (n,) the sentences that are used, as rows of the token files.
    """

    name: str
    sides: tuple[TokenFile, ...]
    rows: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """(n,) tokens of each item with [CLS] and [SEP] on every side."""
        return self.lengths_of(slice(None))

    def lengths_of(self, items: np.ndarray | slice) -> np.ndarray:
        """Tokens of some items, as in ``lengths``."""
        rows = self.rows[items]
        return sum((side.offsets[rows + 1] - side.offsets[rows] + 2 for side in self.sides), np.zeros(len(rows), np.int64))


@dataclasses.dataclass(frozen=True)
class Batch:
    """Token ids of a batch, padded on the right, with positions and true lengths."""

    ids: np.ndarray
    positions: np.ndarray
    lengths: np.ndarray


def sampling_probabilities(counts: Sequence[int], exponent: float) -> np.ndarray:
    """Probability of each language or stream, in proportion to its share ** exponent (Conneau & Lample 2019, eq. 1).

    >>> sampling_probabilities([900, 100], 0.7).round(4).tolist()
    [0.8232, 0.1768]
    """
    weights = np.asarray(counts, float) / np.sum(counts)
    weights = weights**exponent
    return weights / weights.sum()


def schedule(probabilities: np.ndarray, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """For every step the stream it belongs to, and how many earlier steps belonged to the same stream.

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
        refuse("batch_tokens", f"room for the longest item ({lengths.max(initial=0)} tokens)", str(batch_tokens), "raise it")
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


def collate(stream: Stream, items: np.ndarray, cls_id: int, sep_id: int, pad_id: int) -> Batch:
    """Put items of a stream into one padded array.

    A pair is two whole sentences, ``[CLS] a [SEP] [CLS] b [SEP]``, with the positions of each counted from 0 (XLM's reset
    positions): each side looks exactly as it will when it is encoded alone.
    """
    lengths = stream.lengths_of(items)
    ids = np.full((len(items), lengths.max()), pad_id, np.int64)
    positions = np.zeros_like(ids)
    for row, item in enumerate(stream.rows[items]):
        at = 0
        for side in stream.sides:
            pieces = side[item]
            end = at + len(pieces) + 2
            ids[row, at], ids[row, at + 1 : end - 1], ids[row, end - 1] = cls_id, pieces, sep_id
            positions[row, at:end] = np.arange(end - at)
            at = end
    return Batch(ids, positions, lengths)
