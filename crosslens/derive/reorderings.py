"""Transformations that put a sentence's tokens into another order: inversion, permutation, and the
shuffles of Kallini et al. 2024.

Each is a function of the number of tokens, the seed and the sentence's number, so each undoes
itself: the same order is made again and taken back.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from crosslens.checks import check_positive_int
from crosslens.derive.transformation import Derived, Sentence, Transformation, generator
from crosslens.errors import refuse

__all__ = [
    "DeterministicShuffle",
    "EvenOdd",
    "Identity",
    "Inversion",
    "LimitedPermutation",
    "LocalShuffle",
    "Permutation",
    "Reordering",
    "contexts_kept",
    "neighbours_kept",
    "take",
]

Order = Int[np.ndarray, " n"]


def take(tokens: Sequence[Any], order: Order) -> Sequence[Any]:
    """The tokens at these places: an array of an array, a list of anything else.

    >>> take(["a", "b", "c"], np.array([2, 0]))
    ['c', 'a']
    """
    if isinstance(tokens, np.ndarray):
        return tokens[order]
    return [tokens[place] for place in order.tolist()]


class Reordering(Transformation):
    """A transformation that is an order of places; what it is called stands in ``word``."""

    changes: ClassVar[frozenset[str]] = frozenset({"order"})
    undoes: ClassVar[bool] = True
    word: ClassVar[str]

    @property
    def name(self) -> str:
        """The text form."""
        return self.word

    @abc.abstractmethod
    def order(self, n: int, seed: int, number: int, epoch: int) -> Order:
        """For each place of the derived sentence, the place that its token is from: shape (n,)."""

    def derive(self, sentence: Sentence, seed: int, number: int, *, epoch: int = 0) -> Derived:
        """The tokens in their new order."""
        order = self.order(len(sentence.tokens), seed, number, epoch)
        return Derived(take(sentence.tokens, order), order.tolist())

    def undo(
        self, tokens: Sequence[Any], seed: int, number: int, *, epoch: int = 0
    ) -> Sequence[Any]:
        """The tokens in the order that they had."""
        order = self.order(len(tokens), seed, number, epoch)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return take(tokens, back)


@dataclasses.dataclass(frozen=True)
class Identity(Reordering):
    """The sentence as it is.

    >>> Identity().derive(Sentence(["a", "b"]), 0, 0).tokens
    ['a', 'b']
    """

    word: ClassVar[str] = "identity"
    changes: ClassVar[frozenset[str]] = frozenset()

    def order(self, n: int, seed: int, number: int, epoch: int) -> Order:
        """0, 1, …"""
        return np.arange(n)


@dataclasses.dataclass(frozen=True)
class Inversion(Reordering):
    """The last token first; its own inverse.

    Deshpande et al. 2022, § 2.2.

    >>> Inversion().derive(Sentence("the cat sat".split()), 0, 0).tokens
    ['sat', 'cat', 'the']
    """

    word: ClassVar[str] = "inversion"

    def order(self, n: int, seed: int, number: int, epoch: int) -> Order:
        """n - 1, n - 2, …"""
        return np.arange(n)[::-1]


@dataclasses.dataclass(frozen=True)
class Permutation(Reordering):
    """An order of its own for each sentence, all orders being equally probable.

    Deshpande et al. 2022, § 2.2; the nondeterministic shuffle of Kallini et al. 2024, § 3.1.

    Attributes
    ----------
    per_epoch: whether the order is drawn anew in every pass over the text ("permutation:epoch");
        without it one is drawn once, as Deshpande et al.'s code does.

    >>> Permutation().derive(Sentence("the cat sat on it".split()), seed=1, number=0).tokens
    ['it', 'the', 'cat', 'sat', 'on']
    """

    per_epoch: bool = False
    word: ClassVar[str] = "permutation"
    draws: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The text form."""
        return f"{self.word}:epoch" if self.per_epoch else self.word

    def order(self, n: int, seed: int, number: int, epoch: int) -> Order:
        """Drawn from (seed, number), and the epoch where that is asked for."""
        return generator(seed, number, epoch if self.per_epoch else 0).permutation(n)


@functools.lru_cache(maxsize=4096)
def _of_length(n: int, seed: int) -> Order:
    """The one order of all sentences of a length: (seed, length) has a stream that no sentence's
    number has."""
    order = generator(seed, n, 0, 1).permutation(n)
    order.flags.writeable = False  # it is kept for the next sentence
    return order


@functools.lru_cache(maxsize=4096)
def _of_window(n: int, seed: int) -> Order:
    """The one order of all windows of a length, drawn until something moves: of two tokens every
    other order would leave the text as it is."""
    places, attempt = np.arange(n), 0
    while np.array_equal(order := generator(seed, n, attempt, 1).permutation(n), places):
        attempt += 1
    order.flags.writeable = False
    return order


@dataclasses.dataclass(frozen=True)
class DeterministicShuffle(Reordering):
    """One order for all sentences of the same length: the shuffle is a rule, which can be learnt.

    Kallini et al. 2024, § 3.1.

    >>> shuffle = DeterministicShuffle()
    >>> [shuffle.derive(Sentence(text.split()), 3, i).tokens for i, text in enumerate(["a b c d", "e f g h"])]
    [['d', 'b', 'a', 'c'], ['h', 'f', 'e', 'g']]
    """

    word: ClassVar[str] = "deterministic-shuffle"
    draws: ClassVar[bool] = True

    def order(self, n: int, seed: int, number: int, epoch: int) -> Order:
        """Drawn from (seed, n)."""
        return _of_length(n, seed)


@dataclasses.dataclass(frozen=True)
class LocalShuffle(Reordering):
    """Tokens stay within windows, in each of which they are shuffled by the same order, never the one
    that they have; a last window that is shorter has the order of its length.

    Kallini et al. 2024, § 3.1, with windows of 3, 5 and 10.

    Attributes
    ----------
    window: tokens in a window, 2 or more.

    Raises
    ------
    InputError: the window is no whole number above 1.

    >>> LocalShuffle(3).derive(Sentence("a b c d e f g".split()), 0, 0).tokens
    ['c', 'a', 'b', 'f', 'd', 'e', 'g']
    """

    window: int = 5
    word: ClassVar[str] = "local-shuffle"
    draws: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if check_positive_int(self.window, "window") == 1:
            refuse("window", "2 tokens or more", "1", "choose a window in which tokens can move")

    @property
    def name(self) -> str:
        """The text form."""
        return f"{self.word}:{self.window}"

    def order(self, n: int, seed: int, number: int, epoch: int) -> Order:
        """Window by window."""
        full = n // self.window
        rest = _of_length(n - full * self.window, seed) + full * self.window
        if not full:  # a window may be of any size
            return rest
        whole = _of_window(self.window, seed) + self.window * np.arange(full)[:, None]
        return np.concatenate([whole.ravel(), rest])


@dataclasses.dataclass(frozen=True)
class LimitedPermutation(Reordering):
    """An order of its own for each sentence, in which no token is more than some places from its own:
    between the sentence as it is and a permutation, there is one for each number of places.

    Token i goes by i + U(0, places + 1), in ascending order: the noise of Lample et al. 2018, § 2.3.

    Attributes
    ----------
    places: how far a token may go, 1 or more.

    Raises
    ------
    InputError: the number is no whole number above 0.

    >>> LimitedPermutation(2).derive(Sentence("a b c d e f g".split()), seed=1, number=0).tokens
    ['a', 'c', 'b', 'e', 'd', 'f', 'g']
    """

    places: int = 3
    word: ClassVar[str] = "limited-permutation"
    draws: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive_int(self.places, "places")

    @property
    def name(self) -> str:
        """The text form."""
        return f"{self.word}:{self.places}"

    def order(self, n: int, seed: int, number: int, epoch: int) -> Order:
        """Drawn from (seed, number)."""
        drawn = generator(seed, number).uniform(0, self.places + 1, size=n)
        return np.argsort(np.arange(n) + drawn, kind="stable")


@dataclasses.dataclass(frozen=True)
class EvenOdd(Reordering):
    """First the tokens at even places, counted from 0, then those at odd ones.

    Kallini et al. 2024, § 3.1.

    >>> EvenOdd().derive(Sentence("a b c d e".split()), 0, 0).tokens
    ['a', 'c', 'e', 'b', 'd']
    """

    word: ClassVar[str] = "even-odd"

    def order(self, n: int, seed: int, number: int, epoch: int) -> Order:
        """0, 2, …, 1, 3, …"""
        return np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)])


def contexts_kept(
    how: Transformation, lengths: Iterable[int], seed: int, *, window: int = 5
) -> float:
    """How much of each token's surroundings a transformation keeps: of the pairs of tokens that are
    at most ``window`` places apart, over all sentences, the share that are so afterwards, in
    whichever order; from 0 to 1.

    A rule that moves tokens together keeps most of it, whatever it does to their order. Of tokens in
    no order at all, what is kept is what chance brings together: much in short sentences.

    Parameters
    ----------
    lengths, seed: as for :func:`neighbours_kept`.
    window: places; 5 is what word2vec's contexts have by default.

    Returns
    -------
    NaN where no sentence has two tokens.

    >>> contexts_kept(Inversion(), [5, 30], 0), contexts_kept(LocalShuffle(2), [30], 0)
    (1.0, 0.9111111111111111)
    >>> round(contexts_kept(Permutation(), [60] * 50, 0), 2)  # in no order: 285 of 1,770 pairs
    0.16
    """
    check_positive_int(window, "window")
    kept = of = 0
    for number, n in enumerate(lengths):
        sources = np.asarray(how.derive(Sentence([*range(n)]), seed, number).sources, np.int64)
        there = np.flatnonzero(sources >= 0)  # none is a marker that was put in
        places = np.empty(n, np.int64)
        places[sources[there]] = there
        for apart in range(1, min(window, n - 1) + 1):
            kept += int((np.abs(places[apart:] - places[:-apart]) <= window).sum())
            of += n - apart
    return kept / of if of else math.nan


def neighbours_kept(how: Transformation, lengths: Iterable[int], seed: int) -> float:
    """How much of the order a transformation keeps: the share of neighbouring tokens, over all
    sentences, that are neighbours in the same order afterwards; from 0 to 1. A rule that keeps none,
    as inversion, has 0, less than no order at all.

    Parameters
    ----------
    lengths: tokens of each sentence, the first being number 0. seed: of the transformation.

    Returns
    -------
    NaN where no sentence has two tokens.

    >>> neighbours_kept(Inversion(), [5, 7], 0), neighbours_kept(EvenOdd(), [5], 0)
    (0.0, 0.0)
    >>> neighbours_kept(LocalShuffle(3), [9], 0)  # c a b, f d e, i g h: ab, de and gh of eight
    0.375
    """
    kept = of = 0
    for number, n in enumerate(lengths):
        sources = np.asarray(how.derive(Sentence([*range(n)]), seed, number).sources, np.int64)
        # none is a marker that was put in, from -1, before the first token
        kept += int(((np.diff(sources) == 1) & (sources[:-1] >= 0)).sum())
        of += max(n - 1, 0)
    return kept / of if of else math.nan
