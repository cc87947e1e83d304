"""The conditions of Deshpande et al. 2022: English beside what is made from it, and texts that say
the same or not."""

import dataclasses
import re
from collections.abc import Sequence

from crosslens.derive.registry import transformation
from crosslens.errors import refuse
from crosslens.models.training.derivation import Derivation, check_order
from crosslens.models.training.settings import Source, TrainRecipe
from crosslens.run.trainings.controlled import Condition, Made

__all__ = ["compositions", "corpora", "derived_conditions", "ladder", "pairs"]


def _by(recipe: TrainRecipe, by: str, published: str) -> Condition:
    """A condition by the transformations that make the copy. What they draw is drawn once: seeds are
    repetitions of a training on the same language."""
    language, copy = recipe.languages
    derived = {copy: Derivation(of=language, by=by, seed=recipe.seed)}
    mode = "disjoint" if derived[copy].transliterated else "union"
    vocabulary = dataclasses.replace(recipe.vocabulary, mode=mode)
    changed = dataclasses.replace(recipe, derived=derived, vocabulary=vocabulary)
    return Condition(recipe=changed, published=published if language == "eng" else "")


def _by_syntax(recipe: TrainRecipe, *, transliterated: bool, published: str) -> Condition:
    """A condition whose copy is a text in another word order, which the user gives."""
    language, copy = recipe.languages
    source = Source(name="text", texts={language: "training", copy: "training-syntax"})
    mode = "disjoint" if transliterated else "union"
    vocabulary = dataclasses.replace(recipe.vocabulary, mode=mode, copies={copy: language})
    changed = dataclasses.replace(recipe, sources=(source,), derived={}, vocabulary=vocabulary)
    return Condition(recipe=changed, kept={copy: "kept-syntax"}, published=published)


def pairs(recipe: TrainRecipe, syntax: bool) -> Made:
    """Each transformation alone."""
    names = ("transliteration", "permutation", "inversion")
    conditions = {name: _by(recipe, name, name) for name in names}
    if syntax:
        conditions["syntax"] = _by_syntax(recipe, transliterated=False, published="syntax")
    # the paper's order is of transfer: where both have the same ids, the means of a sentence's
    # vectors are alike from the start, so retrieval says nothing of it
    return conditions, [], "transliteration"


def compositions(recipe: TrainRecipe, syntax: bool) -> Made:
    """Transliteration alone, and in other orders."""
    named = ("transliteration", "transliteration+inversion", "transliteration+permutation")
    conditions, _, control = derived_conditions(recipe, named)
    order = [["transliteration"], ["transliteration-inversion", "transliteration-permutation"]]
    if syntax:
        told = "transliteration and syntax"
        other = _by_syntax(recipe, transliterated=True, published=told)
        first, *others = conditions.items()
        conditions = dict([first, ("transliteration-syntax", other), *others])
        order.insert(1, ["transliteration-syntax"])
    return conditions, order, control


_GRADES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)  # places that a token may go at most
_WINDOWS = (2, 3, 4, 5, 6, 8, 10, 12)  # tokens of a window
_ORDERS = (
    "transliteration",
    *(f"transliteration+limited-permutation:{places}" for places in _GRADES),
    *(f"transliteration+local-shuffle:{window}" for window in _WINDOWS),
    "transliteration+even-odd",
    "transliteration+deterministic-shuffle",
    "transliteration+inversion",
    *(f"transliteration+inversion+limited-permutation:{places}" for places in (1, 3, 8)),
    *(f"transliteration+even-odd+limited-permutation:{places}" for places in (1, 3, 8)),
    "transliteration+permutation",
    "transliteration+permutation:epoch",
)
"""From script alone, by orders that are drawn or are rules, to none."""


def ladder(recipe: TrainRecipe) -> Made:
    """Transliterations that keep the order less and less."""
    return derived_conditions(recipe, _ORDERS)


_PRINTED = {  # whether a copy has ids of its own, its order -> what Deshpande et al. call it
    (True, ""): "transliteration, parallel corpora",
    (True, "inversion"): "transliteration and inversion",
    (True, "permutation"): "transliteration and permutation",
    (False, "inversion"): "inversion",
    (False, "permutation"): "permutation",
}


def derived_conditions(recipe: TrainRecipe, named: Sequence[str]) -> Made:
    """A condition for each composition; no order is expected of them, and the control is
    transliteration alone, where it is one of them."""
    conditions, made = dict[str, Condition](), dict[tuple[bool, str], str]()
    for by in named:
        name = re.sub("[:+]", "-", transformation(by).name)  # a folder is called so
        remedy = "leave one of them out"
        if name in conditions:
            refuse("recipe", "conditions that differ", f"{by} twice", remedy)
        # ids are a copy's whichever part comes first, and the order is all that is left
        copy = Derivation(of=recipe.languages[0], by=by, seed=recipe.seed)
        check_order(copy, "recipe")
        kind = copy.transliterated, _order_of(copy)
        conditions[name] = _by(recipe, by, _PRINTED.get(kind, ""))
        same = made.setdefault(kind, by)
        if same != by:
            got = f"{by}, the language of {same}"
            refuse("recipe", "conditions that differ", got, remedy)
    plain = "transliteration"  # of the others none is known to succeed
    return conditions, [], plain if plain in conditions else ""


def _order_of(copy: Derivation) -> str:
    """How a copy's order is made, whatever leaves it as it is aside."""
    name = "" if copy.transformation is None else copy.transformation.name
    return "+".join(one for one in name.split("+") if one not in ("", "identity"))


def corpora(recipe: TrainRecipe) -> Made:
    """Both sides have texts of as many tokens in all conditions (:func:`study_texts`)."""
    conditions, (language, copy) = {}, recipe.languages
    for name, text, published in (
        ("parallel", "first", "transliteration, parallel corpora"),
        ("same", "second", "transliteration, same corpora"),
        ("different", "other", "transliteration, diff corpora"),
    ):
        sources: tuple[Source, ...] = (Source(name="text", texts={language: "first", copy: text}),)
        if text != "first":  # not line by line the same
            sources = (
                Source(name="text", texts={language: "first"}),
                Source(name="copy", texts={copy: text}),
            )
        conditions[name] = Condition(
            recipe=dataclasses.replace(recipe, sources=sources), published=published
        )
    return conditions, [["parallel"], ["same"], ["different"]], "parallel"
