"""Examples as a derived language has them: the original's, tokenised, with their subwords transformed.

original examples --kind--> rows --subwords of each segment in another order--> rows of the language

What a training of two languages transforms is subwords (Deshpande et al. 2022), so here it is
subwords, too: those between special tokens change places, for each text of a pair by itself. A label
of a whole text stays. What is asked of a word is asked where its first subword now stands, and comes
back under the word: predictions are in the order of the original, whatever the order of the input.

A text that is longer than an input is cut, or read through windows, first, and each window is
transformed as a sentence, as Deshpande et al.'s program does it with its blocks. Sentences are
counted through all rows, as in training: a permutation is a function of (seed, number).
"""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from crosslens.derive.labels import OUTSIDE, derived_entities
from crosslens.derive.transformation import Derived, Sentence, Transformation
from crosslens.errors import refuse
from crosslens.files import fingerprint
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.finetuning.examples import Examples, languages_of
from crosslens.models.finetuning.kind import Kind, Row
from crosslens.models.saved.derived_languages import DerivedLanguage

__all__ = [
    "UNSEEN",
    "DerivedExamples",
    "derived_order",
    "entities_in_order",
    "plain_of",
    "rows_of",
    "with_random_rows",
    "word_orders",
]

UNSEEN = ("unknown", "random")
"""What an encoder reads in the place of subwords that it has no embedding of, by name: the unknown
token, or new rows of its table with random weights."""


@dataclasses.dataclass(frozen=True, eq=False)
class DerivedExamples:
    """Examples of a language that is derived from that of their texts.

    Attributes
    ----------
    plain: the original's; the language of its corpus is the one that the encoder is told.
    how: the derivation.
    unseen: a name of :data:`UNSEEN` where the language has ids of its own and the encoder has none
        of them; None where it has them, or ids are the original's.
    names: of tags with B- and I-, the names of the classes: tags are written anew, so that each name
        begins with B- in the order of the derived language.
    """

    plain: Examples
    how: DerivedLanguage
    unseen: str | None = None
    names: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.plain)

    @property
    def content(self) -> str:
        """16 hexadecimal digits that follow from the examples and the derivation."""
        told = [self.plain.content, self.how.told, self.unseen, [*(self.names or ())]]
        return fingerprint(told)[:16]


def plain_of(examples: Any) -> Any:
    """The original's examples, of those of a derived language; others as they are."""
    return examples.plain if isinstance(examples, DerivedExamples) else examples


def rows_of(kind: Kind[Any], encoder: Encoder, examples: Any) -> list[Row]:
    """The inputs of some examples, derived where they are those of a derived language.

    Parameters
    ----------
    encoder: it is told the language here.

    Raises
    ------
    InputError: it has no unknown token, where one is to be read.
    """
    told = encoder.for_text(*languages_of(plain_of(examples)))
    if not isinstance(examples, DerivedExamples):
        return kind.rows(told, examples)
    rows = _derived_rows(told, kind.rows(told, examples.plain), examples)
    labels = getattr(examples.plain, "labels", None)
    if examples.names is None or labels is None:
        return rows
    flat = np.concatenate([*_labels_in_order(rows, labels, examples.names), np.arange(0)])
    return [_with_labels(row, flat[row.items]) for row in rows]


def _derived_rows(told: Encoder, plain: Sequence[Row], examples: DerivedExamples) -> list[Row]:
    marks, kept = _special(told.tokenizer)
    made, number = examples.how.derivation.transformation, 0
    unseen = None if examples.unseen is None else _unseen(told, kept, examples.unseen)
    rows = []
    for row in plain:
        sources, sentences = derived_order(row.ids, marks, made, examples.how.seed, number)
        number += sentences
        moved = _moved(row, sources)
        if unseen is not None:
            moved = dataclasses.replace(moved, ids=unseen(moved.ids))
        rows.append(moved)
    return rows


def _special(tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """The ids that part segments, and all special ones. The unknown token, and that of a blank, are
    subwords like others, which stand where they are put, under their own id."""
    every = np.array(sorted(tokenizer.all_special_ids), np.int64)
    words = [tokenizer.unk_token_id, tokenizer.mask_token_id]
    first = [tokenizer.cls_token_id, tokenizer.sep_token_id]  # where one of them is also unknown
    return np.array([i for i in every if i not in words or i in first], np.int64), every


def derived_order(
    ids: np.ndarray,
    marks: Sequence[int] | np.ndarray,
    made: Transformation | None,
    seed: int = 0,
    number: int = 0,
) -> tuple[np.ndarray, int]:
    """For each place of an input the place that its token is from, and how many sentences it has.

    Parameters
    ----------
    ids: (length,) token ids. marks: ids of special tokens, which stay; what stands between them is a
        sentence.
    made: the order; None for the same. number: of the first sentence.

    >>> from crosslens.derive.registry import transformation
    >>> derived_order(np.array([0, 7, 8, 2, 2, 9, 6, 5, 2]), [0, 2], transformation("inversion"))
    (array([0, 2, 1, 3, 4, 7, 6, 5, 8]), 2)
    """
    inside = ~np.isin(ids, marks)
    bounds = np.flatnonzero(np.diff(np.r_[False, inside, False].astype(np.int8))).reshape(-1, 2)
    sources = np.arange(len(ids))
    for count, (start, end) in enumerate(bounds.tolist() if made is not None else ()):
        assert made is not None
        sentence = Sentence(ids[start:end].tolist())
        order = made.derive(sentence, seed, number + count).sources
        sources[start:end] = start + np.asarray(order, np.int64)
    return sources, len(bounds)


def _moved(row: Row, sources: np.ndarray) -> Row:
    """A row whose tokens are in another order, with what its kind says of their places."""
    places = np.empty(len(sources), np.int64)
    places[sources] = np.arange(len(sources))
    targets = dict(row.targets)
    if "first" in targets:  # columns of words' first subwords
        targets["first"] = places[targets["first"]]
    if "window" in targets:  # of answers, where each token stands in the context
        window = targets["window"]
        parts = {name: getattr(window, name)[sources] for name in ("ids", "segments", "starts")}
        targets["window"] = dataclasses.replace(window, **parts, ends=window.ends[sources])
        targets["allowed"] = targets["allowed"][sources]
    if min(targets.get("bounds", (-1,))) >= 0:  # an answer that is turned round begins at its end
        first, last = sorted(places[list(targets["bounds"])].tolist())
        targets["bounds"] = (first, last)
    return dataclasses.replace(
        row, ids=row.ids[sources], segments=row.segments[sources], targets=targets
    )


def _unseen(encoder: Any, kept: np.ndarray, unseen: str) -> Callable[[np.ndarray], np.ndarray]:
    """From the original's ids to what an encoder reads that lacks those of the language."""
    if unseen == "random":
        shift = encoder.model.get_input_embeddings().num_embeddings // 2
        return lambda ids: np.where(np.isin(ids, kept), ids, ids + shift)
    unknown = encoder.tokenizer.unk_token_id
    if unknown is None:
        expected, remedy = "a tokeniser with an unknown token", "add --unseen random"
        refuse(f"encoder {encoder.name}", expected, "none", remedy)
    return lambda ids: np.where(np.isin(ids, kept), ids, unknown)


# -- tags of names


def word_orders(rows: Sequence[Row], lengths: Sequence[int]) -> list[np.ndarray]:
    """For each sentence its words as its rows have them, window by window; words without a subword
    are at the end.

    Parameters
    ----------
    rows: of words that are tagged. lengths: words of each sentence.
    """
    begins = np.cumsum([0, *lengths])
    found: list[list[int]] = [[] for _ in lengths]
    for row in rows:
        sentence = int(np.searchsorted(begins, row.items[0], "right")) - 1
        order = np.argsort(row.targets["first"], kind="stable")
        found[sentence] += (row.items[order] - begins[sentence]).tolist()
    return [
        np.array([*some, *sorted({*range(n)} - {*some})], np.int64)
        for some, n in zip(found, lengths, strict=True)
    ]


def entities_in_order(tags: Sequence[str], order: np.ndarray) -> list[str]:
    """The tags of a sentence's words in another order, each name's run beginning with B-; "" stays
    where a word is not counted.

    >>> entities_in_order(["B-PER", "I-PER", "", "O"], np.array([3, 2, 1, 0]))
    ['O', '', 'B-PER', 'I-PER']
    """
    whole, before = list[str](), OUTSIDE
    for tag in tags:  # what follows a word that is not counted begins a name
        goes_on = tag.startswith("I-") and before[1:] == tag[1:]
        whole.append(tag if goes_on else f"B-{tag[2:]}" if tag.startswith("I-") else tag or OUTSIDE)
        before = whole[-1]
    made = derived_entities(Derived(order.tolist(), order.tolist()), whole)
    return [tag if tags[word] else "" for tag, word in zip(made, order.tolist(), strict=True)]


def _labels_in_order(
    rows: Sequence[Row], labels: Sequence[np.ndarray], names: Sequence[str]
) -> list[np.ndarray]:
    """The numbers of the words' classes, in the order of the original, once names begin with B- in
    that of the rows; -1 where nothing is learnt."""
    number = {name: n for n, name in enumerate(names)}
    found = []
    for row, order in zip(labels, word_orders(rows, [len(row) for row in labels]), strict=True):
        tags = entities_in_order([names[n] if n >= 0 else "" for n in row.tolist()], order)
        made = np.full(len(row), -1)
        made[order] = [number.get(tag, -1) for tag in tags]
        found.append(made)
    return found


def _with_labels(row: Row, labels: np.ndarray) -> Row:
    """The same row with other classes; what is not learnt from stays so."""
    there = row.targets["labels"]
    targets = {**row.targets, "labels": np.where(there < 0, there, labels)}
    return dataclasses.replace(row, targets=targets)


# -- rows of a table for subwords that it lacks


def with_random_rows(encoder: Any, seed: int) -> Any:
    """The encoder with a second row for each of its token embeddings, drawn as its initial values
    are: N(0, s), s being what its configuration calls ``initializer_range``.

    Raises
    ------
    InputError: it is none of transformers with a plain table of token embeddings.
    """
    find = getattr(encoder.model, "get_input_embeddings", None)
    table = None if find is None else find()
    if type(table) is not nn.Embedding:
        remedy = "name a folder of its views, such as RUN/views/eng, or add --unseen unknown"
        refuse("--unseen random", "an encoder of transformers", encoder.name, remedy)
    n, d = table.weight.shape
    spread = float(getattr(encoder.model.config, "initializer_range", 0.02))
    generator = torch.Generator().manual_seed(seed)
    more = torch.empty(n, d).normal_(std=spread, generator=generator)
    other = copy.copy(encoder)
    other.model = copy.deepcopy(encoder.model)
    weight = torch.cat([table.weight.detach(), more.to(table.weight)])
    other.model.set_input_embeddings(
        nn.Embedding.from_pretrained(weight, freeze=False, padding_idx=table.padding_idx)
    )
    other.fingerprint = fingerprint([encoder.fingerprint, "random rows", seed])[:16]
    return other
