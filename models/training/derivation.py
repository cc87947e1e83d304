"""Derived languages in training: the sentences of another language as its tokeniser cuts them, with
their subwords in another order, under ids of their own or not (Deshpande et al. 2022, § 3).

What is transformed is the ids of each sentence, before sentences are joined to rows, so the two
languages hold out the same sentences. Transliteration is a choice of ids, not of order: it is what
``vocabulary.copies`` does. A transformation that is drawn anew in every epoch is a function of
(seed, epoch, sentence), so a training that was stopped is resumed to the same bits.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping

import numpy as np

from crosslens.checks import check_seed
from crosslens.derive.registry import transformation
from crosslens.derive.transformation import Sentence, Transformation
from crosslens.errors import refuse
from crosslens.models.text.token_files import TokenFile

__all__ = [
    "Derivation",
    "RedrawnTokens",
    "changer",
    "check_derived",
    "check_order",
    "derived_tokens",
    "is_redrawn",
]

_TRANSLITERATION = "transliteration"
_PROBE = 32  # tokens of the sentence by which a transformation is tried


@dataclasses.dataclass(frozen=True, kw_only=True)
class Derivation:
    """How a language is made from another one.

    Attributes
    ----------
    of: the language whose tokeniser it has. What sources name as its text is text of that language.
    by: transformations of :mod:`crosslens.derive.registry` that put subwords into another order,
        joined by "+": "inversion", "permutation", "permutation:epoch"; "transliteration" among them
        gives the language ids of its own.
    seed: of the transformations: what is drawn is a part of the language, which trainings with
        several seeds then have in common. None for the training's own.

    >>> Derivation(of="eng", by="transliteration+inversion").order
    'inversion'
    """

    of: str
    by: str
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            check_seed(self.seed, name="derived.seed")

    def seed_in(self, training: int) -> int:
        """The seed of the transformations in a training with this seed."""
        return training if self.seed is None else self.seed

    @property
    def transliterated(self) -> bool:
        """Whether its subwords have ids of their own."""
        return _TRANSLITERATION in self._parts

    @property
    def order(self) -> str:
        """The transformations of the order, joined by "+"; empty where there is none."""
        return "+".join(one for one in self._parts if one != _TRANSLITERATION)

    @property
    def _parts(self) -> list[str]:
        return [one.strip() for one in self.by.split("+")]

    @property
    def transformation(self) -> Transformation | None:
        """What puts the ids of a sentence into another order; None where they stay."""
        return transformation(self.order) if self.order else None


def check_derived(
    derived: Mapping[str, Derivation], languages: Collection[str], mode: str
) -> dict[str, str]:
    """Derived language to the language that it is of, once it is known that all can be made.

    Parameters
    ----------
    languages: of the recipe. mode: of its vocabulary.

    Raises
    ------
    InputError: a language that the recipe lacks, or one derived from a derived one; a
        transformation that needs more than subwords or changes more than their order; or ids that
        are shared where they should not be, or not where they should.
    """
    for language, one in derived.items():
        where = f"derived.{language}"
        if language not in languages or one.of not in languages or one.of in derived:
            known = ", ".join(name for name in languages if name not in derived)
            refuse(where, f"a language of the texts, of one of {known}", f"of {one.of}", "check it")
        own = mode in ("disjoint", "separate")
        if one.transliterated != own:
            modes = "disjoint or separate" if one.transliterated else "joint or union"
            remedy = "set it, or change derived.by"
            refuse("vocabulary.mode", f"{modes} where {language} is by {one.by}", mode, remedy)
        check_order(one, f"{where}.by")
    return {language: one.of for language, one in derived.items()}


def check_order(one: Derivation, where: str) -> None:
    """Pass if a language can be made of subwords: their order and their ids are all that changes.

    Parameters
    ----------
    where: what is refused otherwise.

    Raises
    ------
    InputError: no such transformation, or one that needs words or changes something else.
    """
    made = one.transformation
    if made is not None and (made.needs or not made.changes <= {"order"}):
        expected = "transformations of the order of subwords, and transliteration"
        remedy = "derive a text by `crosslens derive`, and name it in the sources"
        refuse(where, expected, one.by, remedy)


def is_redrawn(made: Transformation) -> bool:
    """Whether a transformation is another one in another epoch.

    >>> from crosslens.derive.registry import transformation
    >>> is_redrawn(transformation("permutation")), is_redrawn(transformation("permutation:epoch"))
    (False, True)
    """
    first, second = (changer(made, 0, epoch)(0, np.arange(_PROBE)) for epoch in (0, 1))
    return not np.array_equal(first, second)


def changer(
    made: Transformation, seed: int, epoch: int = 0
) -> Callable[[int, np.ndarray], np.ndarray]:
    """A function of (number of a sentence, its ids) to the ids of the derived sentence."""

    def change(number: int, ids: np.ndarray) -> np.ndarray:
        found = made.derive(Sentence(ids.tolist()), seed, number, epoch=epoch)
        return np.array(found.tokens, np.int64)

    return change


def derived_tokens(file: TokenFile, made: Transformation, seed: int, epoch: int) -> TokenFile:
    """All sentences of a token file, derived, in memory.

    >>> from crosslens.derive.registry import transformation
    >>> file = TokenFile(np.array([5, 6, 7, 8], np.uint16), np.array([0, 3, 4]))
    >>> derived_tokens(file, transformation("inversion"), 0, 0).ids.tolist()
    [7, 6, 5, 8]
    """
    change = changer(made, seed, epoch)
    sentences = [change(number, np.asarray(file[number])) for number in range(len(file))]
    ids = np.concatenate(sentences) if sentences else np.zeros(0, np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in sentences], dtype=np.int64)])
    return TokenFile(ids.astype(file.ids.dtype), offsets)


@dataclasses.dataclass(frozen=True)
class RedrawnTokens(TokenFile):
    """A token file whose sentences are derived anew in every epoch; as it is, that of the first.

    Attributes
    ----------
    make: the token file of an epoch. Its sentences are as long as in the first.
    """

    make: Callable[[int], TokenFile]

    @classmethod
    def of(cls, file: TokenFile, made: Transformation, seed: int) -> "RedrawnTokens":
        """From the token file of the original."""

        def make(epoch: int) -> TokenFile:
            return derived_tokens(file, made, seed, epoch)

        first = make(0)
        return cls(first.ids, first.offsets, make)
