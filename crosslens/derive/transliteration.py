"""The same text in other characters, or in other subwords: a bijection, so that it undoes itself.

Of subwords, as Deshpande et al. 2022 do it: the number of each is moved by the size of the
vocabulary, so the copy shares none. Of characters: two alphabets change places. A text in Latin
letters is then one in Cyrillic letters, in which a tokeniser finds words as in any other; what was
Cyrillic becomes Latin, so no two characters ever become one.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from crosslens.checks import check_positive_int
from crosslens.derive.transformation import Derived, Sentence, Transformation
from crosslens.errors import check_choice, quote, refuse

__all__ = ["SCRIPTS", "SubwordTransliteration", "Transliteration", "exchange"]


def _run(*bounds: int, step: int = 1) -> str:
    """The characters from each even bound to the odd one behind it, this one included."""
    return "".join(
        chr(code)
        for first, last in zip(bounds[::2], bounds[1::2], strict=True)
        for code in range(first, last + 1, step)
    )


SCRIPTS: Mapping[str, str] = {
    "latin": "abcdefghijklmnopqrstuvwxyz"
    + _run(0xE0, 0xF6, 0xF8, 0xFE)
    + _run(0x101, 0x12F, 0x133, 0x137, 0x13A, 0x148, 0x14B, 0x177, step=2)
    + "źżž",
    "cyrillic": _run(0x430, 0x44F, 0x450, 0x45F)
    + _run(0x461, 0x481, 0x48B, 0x4BF, 0x4C2, 0x4CE, 0x4D1, 0x52F, step=2),
    "greek": "αβγδεζηθικλμνξοπρστυφχψωάέήίόύώϊϋ" + _run(0x3D9, 0x3EF, step=2),
    "armenian": _run(0x561, 0x586),
    "georgian": _run(0x10D0, 0x10FA),
}
"""Script -> its small letters, in the order in which they are exchanged; capitals follow them."""

# What every text has besides letters changes places with what hardly any has: digits with those of
# Devanagari, marks with those that editors of old manuscripts use.
_DIGITS = ("0123456789", _run(0x966, 0x96F))
_MARKS = (
    _run(0x21, 0x2F, 0x3A, 0x40, 0x5B, 0x60, 0x7B, 0x7E) + "‘’“”„‚«»‹›–—‐…•·¡¿°§€£©®™′″×−",
    _run(0x2E00, 0x2E2E, 0x2E30, 0x2E42),
)


@functools.cache
def exchange(one: str, other: str) -> Mapping[int, str]:
    """What each character becomes when two scripts change places, digits and marks as well: a table
    for ``str.translate`` that is its own inverse.

    The i-th letters of the two scripts (:data:`SCRIPTS`) are exchanged, capitals with capitals;
    letters without a partner, white space and all other characters stay.

    Raises
    ------
    InputError: a script that is not there, or one script twice.

    >>> "The cat sat.".translate(exchange("latin", "cyrillic"))
    'Узд вау тау⸍'
    """
    for script in (one, other):
        check_choice(script, "script", SCRIPTS)
    if one == other:
        refuse("script", "two scripts", f"{one} twice", "name another script")
    table: dict[str, str] = {}
    for first, second in ((SCRIPTS[one], SCRIPTS[other]), _DIGITS, _MARKS):
        for a, b in zip(first, second, strict=False):  # the shorter one decides
            table |= {a: b, b: a, a.upper(): b.upper(), b.upper(): a.upper()}
    return str.maketrans(table)


@dataclasses.dataclass(frozen=True)
class Transliteration(Transformation):
    """Text in the letters of another script: two scripts change places (:func:`exchange`), so doing
    it twice gives the text back.

    Attributes
    ----------
    script, other: names of :data:`SCRIPTS`. Cyrillic has a letter for each of 117 Latin ones, most
        of those of European languages (ß, ÿ, ș, ț and ı have none), the other three for the first
        38 and more.

    Raises
    ------
    InputError: no such script, or one script twice; or, when a sentence is derived, it is no text.

    >>> Transliteration("greek").derive(Sentence(["A", "dog", "!"]), 0, 0).tokens
    ['Α', 'δοη', '⸀']
    """

    script: str = "cyrillic"
    other: str = "latin"
    needs: ClassVar[frozenset[str]] = frozenset({"characters"})
    changes: ClassVar[frozenset[str]] = frozenset({"tokens"})
    undoes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        exchange(self.script, self.other)

    @property
    def name(self) -> str:
        """The text form: "transliteration" into Cyrillic, "transliteration:greek", or
        "transliteration:greek-cyrillic" without Latin."""
        if (self.script, self.other) == ("cyrillic", "latin"):
            return "transliteration"
        other = "" if self.other == "latin" else f"-{self.other}"
        return f"transliteration:{self.script}{other}"

    def derive(self, sentence: Sentence, seed: int, number: int, *, epoch: int = 0) -> Derived:
        """The words in their places, written with other characters."""
        self.check_needs(sentence)
        return Derived(self._written(sentence.tokens), range(len(sentence.tokens)))

    def undo(
        self, tokens: Sequence[Any], seed: int, number: int, *, epoch: int = 0
    ) -> Sequence[Any]:
        """The words as they were."""
        return self._written(tokens)

    def _written(self, tokens: Sequence[str]) -> list[str]:
        table = exchange(self.script, self.other)
        return [token.translate(table) for token in tokens]


@dataclasses.dataclass(frozen=True)
class SubwordTransliteration(Transformation):
    """Numbers of subwords, each moved by the size of the vocabulary: a model of both languages has
    twice as many rows.

    Deshpande et al. 2022, § 2.2, as coded: ``<unk>`` is moved as well, the marks of the sequence
    are not.

    Attributes
    ----------
    size: of the vocabulary.
    kept: numbers that stay; 0, 1 and 2 (``<s>``, ``<pad>``, ``</s>``) with that paper's code.

    Raises
    ------
    InputError: a size below 1; or, when a sentence is derived or undone, a number outside the
        vocabulary (or outside its copy).

    >>> SubwordTransliteration(40_000).derive(Sentence([0, 3, 57, 2, 1]), 0, 0).tokens
    [0, 40003, 40057, 2, 1]
    """

    size: int
    kept: tuple[int, ...] = (0, 1, 2)
    changes: ClassVar[frozenset[str]] = frozenset({"tokens"})
    undoes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive_int(self.size, "size")

    @property
    def name(self) -> str:
        """The text form; without what is kept where that is the papers'."""
        kept = "" if self.kept == (0, 1, 2) else f",{'-'.join(map(str, self.kept))}"
        return f"transliteration:{self.size}{kept}"

    def derive(self, sentence: Sentence, seed: int, number: int, *, epoch: int = 0) -> Derived:
        """Each number with the size of the vocabulary added."""
        moved = self._moved(sentence.tokens, 0, sentence.place)
        return Derived(moved, range(len(sentence.tokens)))

    def undo(
        self, tokens: Sequence[Any], seed: int, number: int, *, epoch: int = 0
    ) -> Sequence[Any]:
        """The numbers as they were."""
        return self._moved(tokens, self.size, "undo")

    def _moved(self, tokens: Sequence[Any], first: int, place: str) -> Sequence[Any]:
        """Numbers from ``first`` on, moved to the other half of the doubled vocabulary."""
        ids = np.asarray(tokens)
        if ids.size and ids.dtype.kind not in "iu":
            refuse(place, "numbers of subwords", quote(tokens[0]), "tokenise the text first")
        ids = ids.astype(np.int64)
        kept = np.isin(ids, self.kept)
        wrong = ids[~kept & ((ids < first) | (ids >= first + self.size))]
        if len(wrong):
            expected = f"numbers from {first} to {first + self.size - 1}"
            refuse(place, expected, str(wrong[0]), "give the size of the tokeniser's vocabulary")
        moved = np.where(kept, ids, ids + (self.size if first == 0 else -self.size))
        return moved if isinstance(tokens, np.ndarray) else moved.tolist()
