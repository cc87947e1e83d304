"""Code-switching: words of a text replaced by their translations, which gives two languages words
in common.

These are the extra anchors of Conneau et al. 2020, § 4.1: each word that the dictionary knows is
replaced with probability .3 by one of its translations, sampled in proportion to their weights,
and at most .15 of the words of a batch are. Where more were sampled, a random subset of the allowed
number is kept: the limits hold by construction, in every batch.

Words are anything that can be a key of a dictionary: strings, or tuples of subwords' ids.
"""

import dataclasses
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from crosslens.checks import is_number
from crosslens.errors import quote, refuse

__all__ = ["CodeSwitch", "Switched", "translations_of"]

W = TypeVar("W", bound=Hashable)
_ROUNDING = 1e-6  # by which a sum of probabilities may be off 1


@dataclasses.dataclass(frozen=True)
class Switched(Generic[W]):
    """A batch of sentences after code-switching.

    Attributes
    ----------
    sentences: the words, as many in each sentence as before.
    places: (sentence, word) of those that were replaced, in their order.
    words, known: words of the batch, and how many of them are in the dictionary.
    """

    sentences: list[list[W]]
    places: list[tuple[int, int]]
    words: int
    known: int

    @property
    def of_known(self) -> float:
        """The realised rate: replaced words over those that the dictionary knows, 0 to 1."""
        return len(self.places) / self.known if self.known else 0.0

    @property
    def of_words(self) -> float:
        """Replaced words over all words, 0 to 1."""
        return len(self.places) / self.words if self.words else 0.0


def translations_of(
    pairs: Iterable[tuple[W, W]], weights: Iterable[float] | None = None
) -> dict[W, dict[W, float]]:
    """Word to its translations with the probability of each.

    Parameters
    ----------
    pairs: (word, translation). A pair that comes several times has the sum of its weights.
    weights: one for each pair, above 0 (how good a translation is, say); None: all the same.

    Raises
    ------
    InputError: a weight is not a number above 0, or there is not one for each pair.

    >>> found = translations_of([("dog", "chien"), ("dog", "chienne"), ("cat", "chat")], [3, 1, 5])
    >>> found["dog"], found["cat"]
    ({'chien': 0.75, 'chienne': 0.25}, {'chat': 1.0})
    """
    given = list(pairs)
    told = [1.0] * len(given) if weights is None else list(weights)
    if len(told) != len(given):
        refuse("weights", f"one for each of {len(given)} pairs", str(len(told)), "weigh every pair")
    sums: dict[W, dict[W, float]] = {}
    for row, ((word, translation), weight) in enumerate(zip(given, told, strict=True)):
        if not (math.isfinite(weight) and weight > 0):
            refuse(
                f"weights[{row}]", "a number above 0", repr(weight), "leave out what must not be"
            )
        mine = sums.setdefault(word, {})
        mine[translation] = mine.get(translation, 0.0) + weight
    totals = {word: sum(mine.values()) for word, mine in sums.items()}
    return {
        word: {one: weight / totals[word] for one, weight in mine.items()}
        for word, mine in sums.items()
    }


class CodeSwitch(Generic[W]):
    """Replaces words by their translations, within two limits.

    Parameters
    ----------
    translations: word to its translations with their probabilities (:func:`translations_of`).
    rate: probability that a known word is chosen.
    most: share of a batch's words that may be replaced, rounded down to whole words.

    Raises
    ------
    InputError: no translations, probabilities of a word that are negative or do not sum to 1, or a
        rate or share that is not from 0 to 1.

    References
    ----------
    Conneau, Wu, Li, Zettlemoyer & Stoyanov 2020, Emerging cross-lingual structure in pretrained
    language models, § 4.1.

    >>> switch = CodeSwitch({"dog": {"chien": 1.0}}, rate=1.0, most=0.5)
    >>> found = switch([["a", "dog", "sees", "a", "dog"], ["no", "dog"]], np.random.default_rng(0))
    >>> found.places, found.known, found.words
    ([(0, 1), (0, 4), (1, 1)], 3, 7)
    >>> found.sentences[1], round(found.of_words, 2)
    (['no', 'chien'], 0.43)
    """

    def __init__(
        self,
        translations: Mapping[W, Mapping[W, float]],
        *,
        rate: float = 0.3,
        most: float = 0.15,
    ) -> None:
        for name, value in (("rate", rate), ("most", most)):
            if not is_number(value) or not 0 <= value <= 1:
                refuse(name, "a share from 0 to 1", quote(value), "0.3 and 0.15 are the paper's")
        if not translations:
            refuse("translations", "at least one word", "none", "give a dictionary")
        for word, mine in translations.items():
            shares = mine.values()
            if not (mine and min(shares) >= 0 and abs(sum(shares) - 1) < _ROUNDING):
                expected = f"probabilities of the translations of {quote(word)} that sum to 1"
                got = quote(dict(mine))
                refuse("translations", expected, got, "make them of weights by translations_of")
        self.rate, self.most = rate, most
        self._choices = {
            word: (list(mine), np.cumsum(list(mine.values())))
            for word, mine in translations.items()
        }

    def __call__(self, sentences: Sequence[Sequence[W]], rng: np.random.Generator) -> Switched[W]:
        """Code-switch one batch.

        Parameters
        ----------
        sentences: the words of each sentence; they are not changed.
        rng: where the draws come from. The result is a function of the batch and of it.
        """
        known = [
            (i, j)
            for i, words in enumerate(sentences)
            for j, word in enumerate(words)
            if word in self._choices
        ]
        total = sum(map(len, sentences))
        chosen = np.flatnonzero(rng.random(len(known)) < self.rate)
        # the product may lie a rounding below the whole number that it is
        allowed = math.floor(self.most * total * (1 + 1e-12))
        if len(chosen) > allowed:
            chosen = np.sort(rng.choice(chosen, allowed, replace=False))
        places = [known[which] for which in chosen.tolist()]
        found = [list(words) for words in sentences]
        for (i, j), draw in zip(places, rng.random(len(places)).tolist(), strict=True):
            choices, ends = self._choices[found[i][j]]
            # below the last end, whatever the sum was rounded to
            found[i][j] = choices[min(int(np.searchsorted(ends, draw, "right")), len(choices) - 1)]
        return Switched(found, places, total, len(known))
