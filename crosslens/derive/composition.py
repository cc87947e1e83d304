"""Transformations one after the other: ``a+b`` is a ∘ b, so b comes first, then a."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from crosslens.checks import check_seed
from crosslens.derive.labels import moved_heads
from crosslens.derive.transformation import INSERTED, Derived, Sentence, Transformation
from crosslens.errors import refuse

__all__ = ["Composition"]


@dataclasses.dataclass(frozen=True)
class Composition(Transformation):
    """Several transformations as one, written as mathematics writes them: the last one is applied
    first.

    ``transliteration+order`` puts the words of a tree into another order and then writes them in
    other letters. Deshpande et al. 2022, § 2.2, compose so; inversion and permutation commute with
    transliteration.

    Of the parts that draw, the one that is applied first draws as it does alone, and each later one
    from a stream of its own: with one seed for both, ``permutation+permutation`` would be the square
    of an order.

    Attributes
    ----------
    parts: two or more, the one that is applied first at the end; of one that is itself a composition
        all of its parts.

    Raises
    ------
    InputError: fewer than two; or one of them needs what an earlier one has changed: words that are
        written otherwise by then, or a tree whose words are no longer those of the sentence.

    >>> from crosslens.derive.reorderings import Inversion
    >>> from crosslens.derive.transliteration import SubwordTransliteration
    >>> both = Composition((SubwordTransliteration(100), Inversion()))
    >>> both.name, both.derive(Sentence([7, 8, 9]), 0, 0).tokens
    ('transliteration:100+inversion', [109, 108, 107])
    >>> both.undo([109, 108, 107], 0, 0)
    [7, 8, 9]
    """

    parts: tuple[Transformation, ...]

    def __post_init__(self) -> None:
        flat = [
            one
            for part in self.parts
            for one in (part.parts if isinstance(part, Composition) else [part])
        ]
        if len(flat) < 2:
            refuse("parts", "two transformations or more", str(len(flat)), "use the one by itself")
        object.__setattr__(self, "parts", tuple(flat))
        done = list[Transformation]()
        for part in self._in_turn():
            for before in done:
                _check_after(part, before, self.name)
            done.append(part)

    def _in_turn(self) -> Sequence[Transformation]:
        """The parts as they are applied."""
        return self.parts[::-1]

    @property
    def name(self) -> str:
        """The text form."""
        return "+".join(part.name for part in self.parts)

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """What any part needs."""
        return frozenset[str]().union(*(part.needs for part in self.parts))

    @property
    def changes(self) -> frozenset[str]:  # type: ignore[override]
        """What any part changes."""
        return frozenset[str]().union(*(part.changes for part in self.parts))

    @property
    def draws(self) -> bool:  # type: ignore[override]
        """Whether any part draws."""
        return any(part.draws for part in self.parts)

    @property
    def undoes(self) -> bool:  # type: ignore[override]
        """Whether all parts undo themselves."""
        return all(part.undoes for part in self.parts)

    def derive(self, sentence: Sentence, seed: int, number: int, *, epoch: int = 0) -> Derived:
        """The sentence after all parts, which have the same number."""
        self.check_needs(sentence)
        found, here = None, sentence
        for part, own in zip(self._in_turn(), self._seeds(seed), strict=True):
            derived = part.derive(here, own, number, epoch=epoch)
            if found is None:
                found = derived
            else:
                before = found.sources
                sources = [
                    INSERTED if source == INSERTED else before[source] for source in derived.sources
                ]
                found = Derived(derived.tokens, sources)
            here = _moved(here, derived)
        assert found is not None  # there are two parts
        return found

    def undo(
        self, tokens: Sequence[Any], seed: int, number: int, *, epoch: int = 0
    ) -> Sequence[Any]:
        """The sentence's tokens: what was done last is undone first."""
        for part, own in zip(self.parts, self._seeds(seed)[::-1], strict=True):
            tokens = part.undo(tokens, own, number, epoch=epoch)
        return tokens

    def _seeds(self, seed: int) -> list[int]:
        """The seed of each part, as they are applied."""
        seeds, drawn = list[int](), 0
        for part in self._in_turn():
            seeds.append(_stream(seed, drawn) if part.draws and drawn else seed)
            drawn += part.draws
        return seeds


@functools.lru_cache(maxsize=256)
def _stream(seed: int, number: int) -> int:
    """The seed of a part that is not the first to draw."""
    return int(np.random.SeedSequence([check_seed(seed), number, 0xC0]).generate_state(1)[0])


def _check_after(part: Transformation, before: Transformation, name: str) -> None:
    """Refuse a part that cannot follow another one."""
    swap = f"apply {part.name} first: write it last"
    if (
        "length" in part.changes
        and "length" in before.changes
        and {"feats"} <= part.needs & before.needs
    ):
        got = f"{before.name}, then {part.name}"
        refuse(name, "one hop, which takes the number of the verbs", got, "keep one of the two")
    if "words" in part.needs and "tokens" in before.changes:
        expected = f"words of the language, which {part.name} needs"
        refuse(name, expected, f"those that {before.name} has changed", swap)
    if "length" in before.changes and part.needs - {"words", "characters"}:
        expected = f"the words that {part.name} knows something of"
        refuse(name, expected, f"a sentence whose words {before.name} has changed", swap)
    if type(part) is type(before) and "tokens" in part.changes and "order" not in part.changes:
        got = f"{before.name}, then {part.name}"
        refuse(name, "words changed in one way", got, "keep one of the two")


def _moved(sentence: Sentence, derived: Derived) -> Sentence:
    """A sentence for the next part: tokens, and what is known of them where they are the same."""
    if not sentence.columns and sentence.heads is None:
        return Sentence(derived.tokens, language=sentence.language, place=sentence.place)
    if not derived.is_reordering(len(sentence.tokens)):
        return dataclasses.replace(sentence, tokens=derived.tokens, columns={}, heads=None)
    sources = derived.sources
    columns = {name: [row[i] for i in sources] for name, row in sentence.columns.items()}
    heads = None if sentence.heads is None else moved_heads(sources, sentence.heads)
    return dataclasses.replace(sentence, tokens=derived.tokens, columns=columns, heads=heads)
