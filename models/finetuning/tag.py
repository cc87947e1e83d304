"""Classes of the words of a sentence."""

import copy
import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crosslens.errors import check_choice, refuse
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.extraction.units import Located, Reading, locate
from crosslens.models.finetuning.examples import WordExamples
from crosslens.models.finetuning.kind import Row, no_longer
from crosslens.models.network.heads import ChainTaggingHead, TaggingHead

__all__ = ["WINDOWS", "Tag", "cut_rows", "word_rows"]

_BLOCK = 2_000  # sentences that are tokenised at once
_NOT_COUNTED = -100
_Inputs = list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]


def word_rows(encoder: Encoder, examples: WordExamples, max_length: int) -> _Inputs:
    """Inputs of sentences and where the first subword of each word stands in them.

    A sentence longer than ``max_length`` subwords is read through windows that overlap by half, and
    each word is in the one where its first subword has the most context: every word that has a
    subword is in one row, once, so that sentences come back whole from their windows.

    Returns
    -------
    for each input its token ids and segments, the numbers of its words (counted through all
    sentences of the examples), and the columns of their first subwords.
    """
    return [
        (found.ids[taken], found.segments[taken], words, columns)
        for found, taken, words, columns in _located(no_longer(encoder, max_length), examples)
    ]


def cut_rows(encoder: Encoder, examples: WordExamples, max_length: int) -> _Inputs:
    """The same by the rule of Wu & Dredze's program: windows that are examples of their own.

    Before the word with which a window would have ``max_length`` subwords or more (without special
    tokens; less where the encoder reads less) it is given out, and its last ``max_length // 2``
    subwords are context, without labels, in the next one. Words without a subword are in no window.

    Theirs tokenises each word by itself; here a word's subwords go to where the next word begins.
    What of a word is beyond the encoder's longest input is cut off.

    References
    ----------
    Wu & Dredze 2019; src/dataset/tagging.py of crosslingual-nlp.
    """
    whole = copy.copy(encoder)
    whole.max_length = sys.maxsize
    rows = []
    for found, taken, words, columns in _located(whole, examples):
        if not len(words):
            continue
        plain = np.flatnonzero(~found.special[taken])
        front, end = int(plain[0]), int(plain[-1]) + 1
        room = encoder.max_length - (len(taken) - (end - front))
        longest = min(max_length, room)
        if longest < 2:
            expected = "room for two tokens beside the special ones"
            refuse("max_length", expected, str(longest), "raise it, or choose another encoder")
        for left, new, behind in _cut(front, [*np.unique(columns).tolist(), end], longest):
            body = taken[left : min(behind, left + room)]
            inside = np.r_[taken[:front], body, taken[end:]]
            mine = (columns >= new) & (columns < behind)
            places = columns[mine] - left + front
            rows.append((found.ids[inside], found.segments[inside], words[mine], places))
    return rows


def _cut(first: int, bounds: Sequence[int], longest: int) -> Iterator[tuple[int, int, int]]:
    """The windows of a sentence: where each begins, where its labels do, and where it ends.

    Parameters
    ----------
    first: the first subword of the sentence. bounds: where its words begin, and the last one ends.
    """
    left = new = first
    for begin, behind in itertools.pairwise(bounds):
        if behind - left >= longest:
            yield left, new, begin
            left, new = max(left, begin - longest // 2), begin
    yield left, new, bounds[-1]


def _located(
    encoder: Encoder, examples: WordExamples
) -> Iterator[tuple[Located, np.ndarray, np.ndarray, np.ndarray]]:
    """Of each input its tokens, the numbers of the words that are read in it, counted through all
    sentences, and the columns of their first subwords."""
    corpus, before = examples.corpus, 0
    reading = Reading(unit="word", pool="first")
    for start in range(0, len(corpus), _BLOCK):
        block = range(start, min(start + _BLOCK, len(corpus)))
        found = locate(encoder, corpus, block, reading)
        owner = found.owner[found.entry_token]
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(len(found.inputs) + 1))
        for number, taken in enumerate(found.inputs):
            mine = order[bounds[number] : bounds[number + 1]]
            columns = found.column[found.entry_token[mine]]
            words = found.entry_item[mine] + before
            yield found, taken, words, columns
        before += found.items


WINDOWS: Mapping[str, Callable[[Encoder, WordExamples, int], _Inputs]] = {
    "stitched": word_rows,
    "wu_dredze": cut_rows,
}
"""How sentences are read that are longer than an input, by name."""


@dataclasses.dataclass(frozen=True)
class Tag:
    """A class for each word, read off its first subword.

    Attributes
    ----------
    classes: their number. max_length: see :func:`word_rows`.
    dropout: of the head, see :class:`crosslens.models.finetuning.settings.FineTuning`.
    crf: the words of an input are a chain (:mod:`crosslens.models.network.crf`), of which the best
        path is the answer. Each window of a long sentence is a chain of its own.
    windows: "stitched", see :func:`word_rows`, or "wu_dredze", see :func:`cut_rows`.
    """

    classes: int
    max_length: int = 128
    dropout: float = 0.1
    crf: bool = False
    windows: str = "stitched"

    def __post_init__(self) -> None:
        check_choice(self.windows, "windows", WINDOWS)

    def head(self, d: int) -> nn.Module:
        """See :mod:`crosslens.models.network.heads`."""
        return (ChainTaggingHead if self.crf else TaggingHead)(d, self.classes, self.dropout)

    def rows(self, encoder: Encoder, examples: WordExamples) -> list[Row]:
        """The windows of all sentences that have a word in them."""
        labels = (
            None if examples.labels is None else np.concatenate([*examples.labels, np.arange(0)])
        )
        rows = []
        for ids, segments, words, columns in WINDOWS[self.windows](
            encoder, examples, self.max_length
        ):
            if not len(words):
                continue
            targets = {"first": columns}
            counted = len(words)
            if labels is not None:
                targets["labels"] = np.where(labels[words] < 0, _NOT_COUNTED, labels[words])
                counted = int((labels[words] >= 0).sum())
            rows.append(
                Row(ids, segments, words, targets, counted, (examples.corpus.language, None))
            )
        return rows

    def batch(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """``first`` (batch, words), columns of first subwords, and ``labels``, where known; and
        ``words`` (batch,), how many words each row has."""
        most = max(len(row.items) for row in rows)
        fill = {"first": 0, "labels": _NOT_COUNTED}
        found = {name: np.full((len(rows), most), fill[name], np.int64) for name in rows[0].targets}
        for number, row in enumerate(rows):
            for name, values in row.targets.items():
                found[name][number, : len(values)] = values
        tensors = {name: torch.from_numpy(values) for name, values in found.items()}
        return {**tensors, "words": torch.tensor([len(row.items) for row in rows])}

    def loss(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> Tensor:
        """Cross-entropy in nats, summed over the words that are counted; with a CRF that of the
        chains, over all classes of words that are not counted."""
        scores = head(states, targets["first"]).float()
        if isinstance(head, ChainTaggingHead):
            return head.crf.loss(scores, targets["words"], targets["labels"])
        return F.cross_entropy(
            scores.flatten(0, 1),
            targets["labels"].flatten(),
            ignore_index=_NOT_COUNTED,
            reduction="sum",
        )

    def outputs(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> list[Any]:
        """The class of each word of each row, and of what fills rows up."""
        scores = head(states, targets["first"]).float()
        if isinstance(head, ChainTaggingHead):
            return list(head.crf.best(scores, targets["words"]).cpu().numpy())
        return list(scores.argmax(-1).cpu().numpy())

    def join(
        self, examples: WordExamples, rows: Sequence[Row], outputs: Sequence[Any]
    ) -> list[np.ndarray]:
        """The class of each word of each sentence; -1 for a word without a subword."""
        counts = [len(spans) for spans in examples.corpus.words or ()]
        flat = np.full(sum(counts), -1)
        for row, classes in zip(rows, outputs, strict=True):
            flat[row.items] = classes[: len(row.items)]
        return np.split(flat, np.cumsum(counts)[:-1]) if counts else []

    def cuts(self, encoder: Encoder, examples: WordExamples) -> list[list[np.ndarray]] | None:
        """For each sentence the places of its words window by window, where windows are examples of
        their own and spans are counted so; None where they are stitched."""
        if self.windows == "stitched":
            return None
        begins = np.cumsum([0, *(len(spans) for spans in examples.corpus.words or ())])
        found: list[list[np.ndarray]] = [[] for _ in range(len(examples))]
        for row in self.rows(encoder, examples):
            sentence = int(np.searchsorted(begins, row.items[0], "right")) - 1
            found[sentence].append(row.items - begins[sentence])
        return found
