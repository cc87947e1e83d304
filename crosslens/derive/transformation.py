"""What a transformation is: a function of (sentence, seed, number) that says where each token of
its result is from.

Whatever a transformation does to a sentence, it gives back the new tokens and, for each of them,
the number of the token that it is from (``sources``). Labels, trees and answers follow from
``sources`` alone (:mod:`crosslens.derive.labels`), so no transformation knows about any of them.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from crosslens.checks import check_seed
from crosslens.errors import quote, refuse

__all__ = ["INSERTED", "Derived", "Sentence", "Transformation", "generator"]

INSERTED = -1
"""The source of a token that stands for none of the sentence's."""


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Tokens, and what is known of them.

    Attributes
    ----------
    tokens: words of a text, or numbers of subwords.
    columns: column of a treebank (upos, feats, lemma, deprel) -> a value per token, as the file
        writes them; empty where nothing is known.
    heads: the number of each token's head from 1, or 0 for the root; None without a tree.
    language: the code of the text; a dictionary or a model of word order may be one language's.
    place: what the sentence is called in a refusal: ``file:line``.

    Raises
    ------
    InputError: a column, or heads, of another length than the tokens.

    >>> Sentence(["dogs", "bark"], {"upos": ["NOUN", "VERB"]}, heads=[2, 0]).tokens
    ['dogs', 'bark']
    """

    tokens: Sequence[Any]
    columns: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    heads: Sequence[int] | None = None
    language: str = "und"
    place: str = "sentence"

    def __post_init__(self) -> None:
        there: dict[str, Sequence[Any]] = dict(self.columns)
        if self.heads is not None:
            there["heads"] = self.heads
        for name, values in there.items():
            if len(values) != len(self.tokens):
                expected = f"{len(self.tokens)} values of {name!r}, one per token"
                refuse(self.place, expected, str(len(values)), "give every token its value")


@dataclasses.dataclass(frozen=True)
class Derived:
    """The tokens that a sentence has become.

    Attributes
    ----------
    tokens: of the derived sentence.
    sources: for each of them the number, from 0, of the token that it is from; several tokens in a
        row may be from one (a translation of two words), and -1 (:data:`INSERTED`) is one that
        stands for none of the sentence's (a marker). What is missing here was taken out.

    Raises
    ------
    InputError: not one source per token.

    >>> Derived(["bark", "dogs"], [1, 0]).is_reordering(2)
    True
    """

    tokens: Sequence[Any]
    sources: Sequence[int]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.sources):
            expected = f"{len(self.tokens)} sources, one per token"
            refuse("sources", expected, str(len(self.sources)), "give every token its source")

    def is_reordering(self, n: int) -> bool:
        """Whether each of the sentence's ``n`` tokens is here, once, and nothing else."""
        return len(self.sources) == n and sorted(self.sources) == list(range(n))


class Transformation(abc.ABC):
    """What every transformation has; each is a frozen dataclass whose fields are its settings.

    Attributes
    ----------
    name: its text form, with its settings: "inversion", "local-shuffle:5".
    needs: what of a :class:`Sentence` it cannot do without, besides tokens: names of columns,
        "heads" for a tree, "words" where it looks at what the words of the language are (a
        dictionary, an alphabet), "characters" where tokens have to be text.
    changes: "order", "tokens" (other words or numbers), "length" (tokens come or go).
    draws: whether anything of it follows from the seed; of a composition's parts that draw, each has
        a stream of its own.
    undoes: whether :meth:`undo` gives the sentence back from its tokens alone.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    changes: ClassVar[frozenset[str]] = frozenset()
    draws: ClassVar[bool] = False
    undoes: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The text form, which :func:`crosslens.derive.registry.transformation` reads again."""

    @abc.abstractmethod
    def derive(self, sentence: Sentence, seed: int, number: int, *, epoch: int = 0) -> Derived:
        """The derived sentence: the same for the same (sentence, seed, number).

        Parameters
        ----------
        seed: of the language. number: of the sentence within its text, from 0.
        epoch: only what is drawn anew in each pass over a text looks at it.
        """

    def undo(
        self, tokens: Sequence[Any], seed: int, number: int, *, epoch: int = 0
    ) -> Sequence[Any]:
        """The sentence's tokens, from the derived ones.

        Raises
        ------
        InputError: this transformation cannot be undone from its tokens alone; the map back that is
            kept beside a text undoes it.
        """
        self.refuse_undo()

    def refuse_undo(self) -> NoReturn:
        """Say that the tokens alone do not give the sentence back."""
        expected, got = "a transformation that undoes itself", f"{self.name}, which forgets"
        refuse("undo", expected, got, "use the map back, which is kept beside the text")

    def check_needs(self, sentence: Sentence) -> None:
        """Pass if the sentence has what the transformation needs.

        Raises
        ------
        InputError: a column, or the tree, is missing, or tokens are no text.
        """
        # a column "head" without numbers gives no heads
        there = {*sentence.columns, *(["heads"] if sentence.heads is not None else [])} - {"head"}
        if missing := sorted(self.needs - there - {"words", "characters"}):
            got = ", ".join(sorted(there)) or "words alone"
            expected = f"{' and '.join(missing)} of each word, which {self.name} needs"
            remedy = "give a treebank (.conllu) as text, or a parser"
            refuse(sentence.place, expected, got, remedy)
        if self.needs & {"words", "characters"}:
            for token in sentence.tokens:
                if not isinstance(token, str):
                    expected = f"words, which {self.name} needs"
                    refuse(sentence.place, expected, quote(token), "give text, not numbers")


def generator(seed: int, number: int, *more: int) -> np.random.Generator:
    """The random numbers of one sentence: they depend on these numbers alone, on no sentence before
    it and no process.

    Raises
    ------
    InputError: one of them is no whole number from 0 up.

    >>> bool(generator(0, 7).random() == generator(0, 7).random())
    True
    >>> bool(generator(0, 7).random() == generator(0, 8).random())
    False
    """
    check_seed(seed)
    check_seed(number, name="number")
    for one in more:
        check_seed(one, name="epoch")
    return np.random.default_rng([seed, number, *more])
