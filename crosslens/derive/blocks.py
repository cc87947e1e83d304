"""Subword numbers with special tokens among them: one input of a model, or a block of 512.

Between special tokens lie segments, and each segment is derived as a sentence: the two sentences of
a pair stay where they are, and a block has as many segments as lines of text. What a block cuts off
at its end is a segment, too.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from crosslens.checks import check_seed
from crosslens.derive.composition import Composition
from crosslens.derive.registry import transformation as made_of
from crosslens.derive.transformation import Derived, Sentence, Transformation
from crosslens.derive.transliteration import SubwordTransliteration
from crosslens.errors import check_choice, refuse

__all__ = ["DESHPANDE", "SpecialTokens", "derive_block", "derive_blocks", "segments"]

Style = Literal["deshpande", "fixed"]


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The numbers of a tokeniser's special tokens.

    Attributes
    ----------
    first, last: begin and end a segment (``<s>`` and ``</s>``, or [CLS] and [SEP]). padding,
    unknown, mask: the others.

    >>> sorted(SpecialTokens(first=101, last=102, padding=0, unknown=100, mask=103).all)
    [0, 100, 101, 102, 103]
    """

    first: int = 0
    last: int = 2
    padding: int = 1
    unknown: int = 3
    mask: int = 4

    @property
    def all(self) -> frozenset[int]:
        """All five."""
        return frozenset((self.first, self.last, self.padding, self.unknown, self.mask))


DESHPANDE = SpecialTokens()
"""Those of RoBERTa, which Deshpande et al. 2022 train."""


def segments(ids: Int[np.ndarray, " n"], special: SpecialTokens) -> list[tuple[int, int]]:
    """The (start, end) of each run of subwords between marks of a segment, the end excluded.

    >>> segments(np.array([0, 7, 8, 2, 2, 9, 2, 5]), DESHPANDE)
    [(1, 3), (5, 6), (7, 8)]
    """
    marks = np.isin(ids, (special.first, special.last))
    bounds = np.flatnonzero(np.diff(np.r_[True, marks, True].astype(np.int8)))
    return list(zip(bounds[::2].tolist(), bounds[1::2].tolist(), strict=True))


def derive_block(
    ids: Sequence[int] | Int[np.ndarray, " n"],
    transformation: str | Transformation,
    seed: int = 0,
    number: int = 0,
    *,
    special: SpecialTokens = DESHPANDE,
    style: Style = "deshpande",
    epoch: int = 0,
) -> Derived:
    """A block, or a model's input, each of whose segments is derived in its place.

    Parameters
    ----------
    ids: shape (n,). transformation: or its name. number: of the first segment; those behind it are
        counted on.
    style: what becomes of special tokens. "deshpande", as their code: the marks of a segment stay;
        padding moves with its segment and keeps its number; ``<unk>`` and ``<mask>`` are subwords
        like any other. "fixed": all five stay in place with their numbers, and subwords change
        places around them.

    Returns
    -------
    tokens, shape (n,) of int64, and where each is from.

    Raises
    ------
    InputError: no row of numbers; a transformation that changes the length, or needs words; or a
        seed, number or epoch that is no whole number from 0 up.

    >>> from crosslens.derive.reorderings import Inversion
    >>> derive_block([0, 7, 8, 2, 2, 9, 6, 5, 2], Inversion()).tokens.tolist()
    [0, 8, 7, 2, 2, 5, 6, 9, 2]
    >>> derive_block([0, 7, 4, 9, 2, 1, 1], Inversion(), style="fixed").tokens.tolist()
    [0, 9, 4, 7, 2, 1, 1]
    """
    block, how = np.asarray(ids), made_of(transformation)
    _check(block, how, style)
    for name, value in (("seed", seed), ("number", number), ("epoch", epoch)):
        check_seed(value, name=name)
    kept = special.all if style == "fixed" else {special.first, special.last, special.padding}
    block = block.astype(np.int64)  # a copy's numbers may not fit into the 16 bits of a file
    moved, sources = block.copy(), np.arange(len(block))
    told = _keeping(how, tuple(sorted(kept)))
    for count, (start, end) in enumerate(segments(block, special)):
        places = np.arange(start, end)
        if style == "fixed":
            places = places[~np.isin(block[start:end], tuple(special.all))]
        row: Any = block[places]  # an array is as good as a list of tokens
        sentence = Sentence(row, place=f"segment {number + count}")
        derived = told.derive(sentence, seed, number + count, epoch=epoch)
        moved[places] = derived.tokens
        sources[places] = places[np.asarray(derived.sources, np.int64)]
    made: Any = moved
    return Derived(made, sources.tolist())


def _check(block: np.ndarray, transformation: Transformation, style: str) -> None:
    if block.ndim != 1 or block.dtype.kind not in "iu" and block.size:
        got = f"shape {block.shape} of {block.dtype}"
        refuse("ids", "a row of whole numbers", got, "give the numbers of a tokeniser")
    check_choice(style, "style", ("deshpande", "fixed"))
    if "length" in transformation.changes or transformation.needs:
        why = "changes the length" if "length" in transformation.changes else "needs words"
        expected = "a transformation of numbers that keeps a block's length"
        refuse("transformation", expected, f"{transformation.name}, which {why}", "derive the text")


def _keeping(transformation: Transformation, kept: tuple[int, ...]) -> Transformation:
    """The same transformation; the numbers that transliteration keeps are those of the block."""
    if isinstance(transformation, SubwordTransliteration):
        if transformation.kept not in (SubwordTransliteration.kept, kept):
            expected = "no numbers that stay, since the block's special tokens say which do"
            refuse("transformation", expected, transformation.name, "leave them out")
        return dataclasses.replace(transformation, kept=kept)
    if isinstance(transformation, Composition):
        return Composition(tuple(_keeping(part, kept) for part in transformation.parts))
    return transformation


def derive_blocks(
    blocks: Int[np.ndarray, "b n"],
    transformation: str | Transformation,
    seed: int = 0,
    *,
    special: SpecialTokens = DESHPANDE,
    style: Style = "deshpande",
    epoch: int = 0,
) -> Any:
    """Many blocks of one length, as an array of the same shape (b, n): segments are counted through
    all of them.

    Raises
    ------
    InputError: blocks of several lengths; otherwise as :func:`derive_block`.

    >>> from crosslens.derive.transliteration import SubwordTransliteration
    >>> derive_blocks(np.array([[0, 5, 2], [0, 6, 2]]), SubwordTransliteration(10)).tolist()
    [[0, 15, 2], [0, 16, 2]]
    """
    if len({len(block) for block in blocks}) > 1:
        lengths = [len(block) for block in blocks]
        got = f"lengths from {min(lengths)} to {max(lengths)}"
        refuse("blocks", "blocks of one length", got, "derive each by derive_block")
    made, number = np.empty_like(blocks, dtype=np.int64), 0
    for row, block in enumerate(blocks):
        derived = derive_block(
            block, transformation, seed, number, special=special, style=style, epoch=epoch
        )
        made[row] = derived.tokens
        number += len(segments(block, special))
    return made
