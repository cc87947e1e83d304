"""Transformations that put a marker into a sentence: reversals and hops of Kallini et al. 2024.

A reversal has a marker at a place that is drawn, and from there, or in all of the sentence, the
order is turned round. A hop takes the number out of a verb of the third person in the present tense
and says it by a marker some tokens, or words, behind the verb.
"""

import abc
import dataclasses
import unicodedata
from collections.abc import Sequence
from typing import Any, ClassVar

from crosslens.checks import check_positive_int
from crosslens.derive.transformation import (
    INSERTED,
    Derived,
    Sentence,
    Transformation,
    generator,
)
from crosslens.errors import quote, refuse

__all__ = [
    "PLURAL",
    "REVERSED",
    "SINGULAR",
    "FullReversal",
    "NoReversal",
    "PartialReversal",
    "TokenHop",
    "WordHop",
    "is_marked",
]

REVERSED = "🅁"
"""The marker of a reversal, as Kallini et al. write it."""
SINGULAR, PLURAL = "🅂", "🄿"
"""The markers of a verb's number, as Kallini et al. write them."""


class _Reversal(Transformation):
    """A marker at a place that is drawn, and what becomes of the tokens around it."""

    changes: ClassVar[frozenset[str]] = frozenset({"order", "length"})
    draws: ClassVar[bool] = True
    undoes: ClassVar[bool] = True
    word: ClassVar[str]
    marker: Any

    def __post_init__(self) -> None:
        if isinstance(self.marker, str) and self.marker.split() != [self.marker]:
            expected = "a token without white space, by which words are told apart"
            refuse("marker", expected, quote(self.marker), "choose another marker, X say")

    @property
    def name(self) -> str:
        """The text form."""
        return self.word if self.marker == REVERSED else f"{self.word}:{self.marker}"

    @staticmethod
    @abc.abstractmethod
    def _turned(before: list[int], marker: list[int], after: list[int]) -> list[int]:
        """The places in their new order."""

    def derive(self, sentence: Sentence, seed: int, number: int, *, epoch: int = 0) -> Derived:
        """The tokens with the marker among them."""
        sources = self._sources(len(sentence.tokens), seed, number)
        return Derived(
            [self.marker if source == INSERTED else sentence.tokens[source] for source in sources],
            sources,
        )

    def _sources(self, n: int, seed: int, number: int) -> list[int]:
        at = int(generator(seed, number).integers(n + 1))
        return self._turned([*range(at)], [INSERTED], [*range(at, n)])

    def undo(
        self, tokens: Sequence[Any], seed: int, number: int, *, epoch: int = 0
    ) -> Sequence[Any]:
        """The tokens without the marker, in the order that they had."""
        if not len(tokens):
            expected = f"the marker {self.marker} among the tokens"
            refuse("undo", expected, "none", "give a sentence that was derived")
        sources = self._sources(len(tokens) - 1, seed, number)
        at = sources.index(INSERTED)
        if tokens[at] != self.marker:
            expected = f"the marker {self.marker} as token {at + 1}"
            refuse("undo", expected, quote(tokens[at]), "give the seed and number of the sentence")
        found = {
            source: token
            for source, token in zip(sources, tokens, strict=True)
            if source != INSERTED
        }
        return [found[place] for place in range(len(found))]


@dataclasses.dataclass(frozen=True)
class PartialReversal(_Reversal):
    """A marker at a place that is drawn; the tokens behind it are turned round.

    Kallini et al. 2024, § 3.1.

    Attributes
    ----------
    marker: the token; a number of its own where tokens are numbers.

    Raises
    ------
    InputError: the marker is empty, or has white space in it.

    >>> PartialReversal().derive(Sentence("a b c d".split()), 0, number=1).tokens
    ['a', 'b', '🅁', 'd', 'c']
    """

    marker: Any = REVERSED
    word: ClassVar[str] = "partial-reversal"

    @staticmethod
    def _turned(before: list[int], marker: list[int], after: list[int]) -> list[int]:
        return before + marker + after[::-1]


@dataclasses.dataclass(frozen=True)
class FullReversal(_Reversal):
    """A marker at a place that is drawn, then the whole sentence turned round.

    Kallini et al. 2024, § 3.1.

    Attributes
    ----------
    marker: the token; a number of its own where tokens are numbers.

    Raises
    ------
    InputError: the marker is empty, or has white space in it.

    >>> FullReversal().derive(Sentence("a b c d".split()), 0, number=1).tokens
    ['d', 'c', '🅁', 'b', 'a']
    """

    marker: Any = REVERSED
    word: ClassVar[str] = "full-reversal"

    @staticmethod
    def _turned(before: list[int], marker: list[int], after: list[int]) -> list[int]:
        return (before + marker + after)[::-1]


@dataclasses.dataclass(frozen=True)
class NoReversal(_Reversal):
    """The marker alone, where the reversals have it: what they are compared with.

    Kallini et al. 2024, § 3.1.

    Attributes
    ----------
    marker: the token; a number of its own where tokens are numbers.

    Raises
    ------
    InputError: the marker is empty, or has white space in it.

    >>> NoReversal().derive(Sentence("a b c d".split()), 0, number=1).tokens
    ['a', 'b', '🅁', 'c', 'd']
    """

    marker: Any = REVERSED
    word: ClassVar[str] = "no-reversal"

    @staticmethod
    def _turned(before: list[int], marker: list[int], after: list[int]) -> list[int]:
        return before + marker + after


def is_marked(feats: str) -> bool:
    """Whether a hop takes this verb's number: features of the third person in the present tense,
    finite, with a number.

    >>> is_marked("Mood=Ind|Number=Sing|Person=3|Tense=Pres|VerbForm=Fin")
    True
    """
    there = set(feats.split("|"))
    third = {"Person=3", "Tense=Pres", "VerbForm=Fin"} <= there
    return third and bool({"Number=Sing", "Number=Plur"} & there)


class _Hop(Transformation):
    """The lemma in place of a verb of the third person in the present tense, and a marker of its
    number behind it."""

    needs: ClassVar[frozenset[str]] = frozenset({"feats", "lemma", "words"})
    changes: ClassVar[frozenset[str]] = frozenset({"tokens", "length"})
    word: ClassVar[str]
    steps: int

    def __post_init__(self) -> None:
        if self.steps != 0:
            check_positive_int(self.steps, "steps")

    @property
    def name(self) -> str:
        """The text form."""
        return self.word if self.steps == 4 else f"{self.word}:{self.steps}"

    def derive(self, sentence: Sentence, seed: int, number: int, *, epoch: int = 0) -> Derived:
        """The words with their markers; where the sentence ends before, the marker ends it."""
        self.check_needs(sentence)
        tokens, n = list(sentence.tokens), len(sentence.tokens)
        behind: dict[int, list[str]] = {}
        counted = self._counted(sentence)
        for place, feats in enumerate(sentence.columns["feats"]):
            if not is_marked(feats):
                continue
            lemma = sentence.columns["lemma"][place]
            tokens[place] = tokens[place] if lemma in ("", "_") else lemma
            marker = SINGULAR if "Number=Sing" in feats.split("|") else PLURAL
            last, left = place, self.steps
            while left and last + 1 < n:
                last += 1
                left -= counted[last]
            behind.setdefault(last, []).append(marker)
        made: list[str] = []
        sources: list[int] = []
        for place in range(n):
            markers = behind.get(place, [])
            made += [tokens[place], *markers]
            sources += [place, *[INSERTED] * len(markers)]
        return Derived(made, sources)

    @staticmethod
    @abc.abstractmethod
    def _counted(sentence: Sentence) -> list[bool]:
        """Which tokens are counted on the way."""


@dataclasses.dataclass(frozen=True)
class TokenHop(_Hop):
    """The number of a verb is said by a marker four tokens behind it, punctuation counted.

    Kallini et al. 2024, § 3.1; here tokens are words, where their code counts subwords. Markers are
    not counted on the way.

    Attributes
    ----------
    steps: tokens between the verb and its marker; 0 puts the marker right behind the verb, which is
        what hops are compared with.

    Raises
    ------
    InputError: when a sentence is derived, it has no features or lemmas.

    >>> verb = "Number=Sing|Person=3|Tense=Pres|VerbForm=Fin"
    >>> columns = {"feats": ["_", verb, "_"], "lemma": ["he", "clean", "it"]}
    >>> TokenHop(1).derive(Sentence(["He", "cleans", "it"], columns), 0, 0).tokens
    ['He', 'clean', 'it', '🅂']
    """

    steps: int = 4
    word: ClassVar[str] = "token-hop"

    @staticmethod
    def _counted(sentence: Sentence) -> list[bool]:
        return [True] * len(sentence.tokens)


@dataclasses.dataclass(frozen=True)
class WordHop(_Hop):
    """The number of a verb is said by a marker four words behind it; punctuation and symbols are no
    words.

    Kallini et al. 2024, § 3.1.

    Attributes
    ----------
    steps: words between the verb and its marker.

    Raises
    ------
    InputError: when a sentence is derived, it has no features or lemmas.

    >>> verb = "Number=Plur|Person=3|Tense=Pres|VerbForm=Fin"
    >>> columns = {"feats": [verb, "_", "_"], "lemma": ["go", ",", "on"]}
    >>> WordHop(1).derive(Sentence(["go", ",", "on"], columns), 0, 0).tokens
    ['go', ',', 'on', '🄿']
    """

    steps: int = 4
    word: ClassVar[str] = "word-hop"

    @staticmethod
    def _counted(sentence: Sentence) -> list[bool]:
        return [
            any(unicodedata.category(character)[0] in "LN" for character in token)
            for token in sentence.tokens
        ]
