"""The conditions of Conneau et al. 2020: what two languages share, and how many words they have in
common."""

import dataclasses

from crosslens.models.network.sharing import SYSTEMS
from crosslens.models.training.anchors import Anchors
from crosslens.models.training.settings import Source, TrainRecipe
from crosslens.run.controlled import Condition, Made

__all__ = ["WORDS", "anchored", "natural", "natural_anchors", "natural_sharing", "sharing"]

WORDS = (100, 1000)
"""Sizes of the identity dictionaries."""


def sharing(recipe: TrainRecipe, syntax: bool) -> Made:
    """The systems of the paper that share less and less. A copy has no natural anchors, so those
    whose languages share their embeddings have ids of their own in one matrix."""
    names = (
        "default",
        "sep-emb",
        "sep-1-3",
        "sep-emb-1-3",
        "sep-1-6",
        "sep-emb-1-6",
        "monolingual",
    )
    printed = ("No anchors", "Sep Emb", "Sep L1-3", "Sep Emb + L1-3", "Sep L1-6", "Sep Emb + L1-6")
    conditions = {}
    for name, published in zip(names, (*printed, ""), strict=True):
        system = SYSTEMS[name]
        own = system.vocabulary == "separate"
        conditions[name] = Condition(
            recipe=dataclasses.replace(
                recipe,
                sharing=system.plan,
                vocabulary=dataclasses.replace(
                    recipe.vocabulary, mode="separate" if own else "disjoint"
                ),
                masking=dataclasses.replace(recipe.masking, scope="language" if own else "all"),
            ),
            published=published,
        )
    order = [["sep-emb", "sep-1-3"], ["sep-emb-1-3"], ["sep-1-6"], ["sep-emb-1-6"]]
    return conditions, order, "default"


def anchored(recipe: TrainRecipe, syntax: bool) -> Made:
    """None, and identity dictionaries of the most frequent words."""
    conditions = {"none": Condition(recipe=recipe, published="No anchors")}
    language, copy = recipe.languages
    for size in WORDS:
        anchors = Anchors(dictionary=f"identity-{size}", source=language, target=copy)
        conditions[f"extra-{size}"] = Condition(
            recipe=dataclasses.replace(recipe, anchors=anchors), published="Extra anchors"
        )
    return conditions, [[f"extra-{size}" for size in WORDS], ["none"]], "none"


def _system(recipe: TrainRecipe, name: str, published: str) -> Condition:
    """A system of Conneau et al. 2020, Table 1, on a natural pair."""
    system = SYSTEMS[name]
    changed = dataclasses.replace(
        recipe,
        sharing=system.plan,
        vocabulary=dataclasses.replace(recipe.vocabulary, mode=system.vocabulary),
        masking=dataclasses.replace(recipe.masking, scope=system.scope),
    )
    return Condition(recipe=changed, kept={recipe.languages[1]: "kept-pair"}, published=published)


def natural_sharing(recipe: TrainRecipe, dictionary: bool) -> Made:
    """All systems of the paper's table, words in common among what is shared."""
    printed = {
        "default": "Default", "no-anchors": "No anchors", "default-anchors": "Default anchors",
        "sep-emb": "Sep Emb", "sep-1-3": "Sep L1-3", "sep-1-6": "Sep L1-6",
        "sep-emb-1-3": "Sep Emb + L1-3", "sep-emb-1-6": "Sep Emb + L1-6",
    }  # fmt: skip
    conditions = {name: _system(recipe, name, printed.get(name, "")) for name in SYSTEMS}
    order = [["sep-emb", "sep-1-3"], ["sep-emb-1-3"], ["sep-1-6"], ["sep-emb-1-6"]]
    return conditions, order, "default"


def natural_anchors(recipe: TrainRecipe, dictionary: bool) -> Made:
    """No identical subword is one, all are, and words are translated besides."""
    conditions = {
        "none": _system(recipe, "no-anchors", "No anchors"),
        "default": _system(recipe, "default-anchors", "Default anchors"),
    }
    if dictionary:
        plain, (first, second) = conditions["default"], recipe.languages
        anchors = Anchors(dictionary="dictionary", source=first, target=second)
        conditions["extra"] = dataclasses.replace(
            plain,
            recipe=dataclasses.replace(plain.recipe, anchors=anchors),
            published="Extra anchors",
        )
    order = [[name] for name in ("extra", "default", "none") if name in conditions]
    return conditions, order, "default"


def natural(recipe: TrainRecipe, language: str) -> TrainRecipe:
    """English and another language, of texts that say the same."""
    source = Source(name="text", texts={"eng": "training", language: "training-pair"})
    return dataclasses.replace(recipe, sources=(source,), derived={})
