"""The conditions of Conneau et al. 2020: what two languages share, and how many words they have in
common."""

import dataclasses
import itertools
from collections.abc import Sequence

from crosslens.models.network.sharing import SYSTEMS
from crosslens.models.training.anchors import Anchors
from crosslens.models.training.settings import Source, TrainRecipe
from crosslens.run.trainings.controlled import Condition, Made

__all__ = [
    "WORDS",
    "anchored",
    "natural",
    "natural_anchors",
    "natural_sharing",
    "sharing",
    "similarity",
]

WORDS = (10, 100)
"""Sizes of the identity dictionaries: 30 % of the words that 100 know are as many as may be replaced,
15 % of a text; of those that 10 know about half as many."""

_PRINTED = {  # system -> what Conneau et al. call it
    "default": "Default", "no-anchors": "No anchors", "default-anchors": "Default anchors",
    "sep-emb": "Sep Emb", "sep-1-3": "Sep L1-3", "sep-1-6": "Sep L1-6",
    "sep-emb-1-3": "Sep Emb + L1-3", "sep-emb-1-6": "Sep Emb + L1-6",
}  # fmt: skip
_ORDER: Sequence[Sequence[str]] = [
    ["default"],
    ["sep-emb", "sep-1-3"],
    ["sep-emb-1-3"],
    ["sep-1-6"],
    ["sep-emb-1-6"],
]


def sharing(recipe: TrainRecipe) -> Made:
    """The systems of the paper that share less and less. A copy has no natural anchors, so those
    whose languages share their embeddings have ids of their own in one matrix."""
    printed = {**_PRINTED, "default": "No anchors"}
    conditions = {}
    for name in (*itertools.chain(*_ORDER), "monolingual"):
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
            published=printed.get(name, ""),
        )
    return conditions, _ORDER, "default"


def anchored(recipe: TrainRecipe) -> Made:
    """None, and identity dictionaries of the most frequent words."""
    conditions = {"none": Condition(recipe=recipe, published="No anchors")}
    language, copy = recipe.languages
    for size in WORDS:
        anchors = Anchors(dictionary=f"identity-{size}", source=language, target=copy)
        conditions[f"extra-{size}"] = Condition(
            recipe=dataclasses.replace(recipe, anchors=anchors), published="Extra anchors"
        )
    return conditions, [[f"extra-{size}" for size in WORDS], ["none"]], "none"


def _alone(recipe: TrainRecipe, language: str, text: str, seed: int = 0) -> TrainRecipe:
    """A training of one language."""
    return dataclasses.replace(
        recipe,
        sources=(Source(name="text", texts={language: text}),),
        derived={},
        vocabulary=dataclasses.replace(recipe.vocabulary, mode="joint"),
        # the best weights by the first language are those by the only one
        select=language if recipe.select in recipe.languages else recipe.select,
        seed=seed,
    )


_OTHER = 1000  # how far a model's seed is from that of the one beside it


def similarity(recipe: TrainRecipe, language: str | None, paraphrase: bool) -> Made:
    """Models of English and of another text that says the same (§ 5.4): each its own, or one of
    both, that of two Englishes with embeddings of their own. The figure has no numbers to put
    beside them."""
    english, copy = recipe.languages
    conditions = {"english": Condition(recipe=_alone(recipe, english, "training"))}
    if paraphrase:
        kept = {copy: "kept-paraphrase"}
        both = sharing(recipe)[0]["sep-emb"]
        conditions["bilingual-paraphrase"] = dataclasses.replace(both, kept=kept, published="")
        conditions["monolingual-paraphrase"] = Condition(
            recipe=_alone(recipe, copy, "training", _OTHER), kept=kept, beside="english"
        )
    if language is not None:
        conditions[f"bilingual-{language}"] = _system(natural(recipe, language), "default", "")
        conditions[f"monolingual-{language}"] = Condition(
            recipe=_alone(recipe, language, "training-pair", _OTHER),
            kept={language: "kept-pair"},
            beside="english",
        )
    return conditions, [], list(conditions)[1]


def _system(recipe: TrainRecipe, name: str, published: str) -> Condition:
    """A system of Conneau et al. 2020, Table 1, on a natural pair. One vocabulary of both languages
    is as large as the two of the others (80,000 beside 40,000 and 40,000)."""
    system, vocabulary = SYSTEMS[name], recipe.vocabulary
    size = vocabulary.size * (2 if system.vocabulary == "joint" else 1)
    changed = dataclasses.replace(
        recipe,
        sharing=system.plan,
        vocabulary=dataclasses.replace(vocabulary, mode=system.vocabulary, size=size),
        masking=dataclasses.replace(recipe.masking, scope=system.scope),
    )
    return Condition(recipe=changed, kept={recipe.languages[1]: "kept-pair"}, published=published)


def natural_sharing(recipe: TrainRecipe, dictionary: bool, other: bool) -> Made:
    """Eight systems of the paper's table, words in common among what is shared, and none shared at
    all; with a dictionary Extra anchors, and with another text of the second language Wiki-CC."""
    conditions = {name: _system(recipe, name, _PRINTED.get(name, "")) for name in SYSTEMS}
    if dictionary:
        conditions["extra"] = _extra(conditions["default"])
    if other:
        first, second = recipe.languages
        sources = (  # not line by line the same
            Source(name="text", texts={first: "training"}),
            Source(name="other", texts={second: "training-other"}),
        )
        apart = dataclasses.replace(recipe, sources=sources)
        conditions["other-source"] = _system(apart, "default", "Wiki-CC")
    return conditions, _ORDER, "default"


def _extra(default: Condition) -> Condition:
    """The paper's Extra anchors, which have one vocabulary of both languages, as its Default."""
    first, second = default.recipe.languages
    anchors = Anchors(dictionary="dictionary", source=first, target=second)
    recipe = dataclasses.replace(default.recipe, anchors=anchors)
    return dataclasses.replace(default, recipe=recipe, published="Extra anchors")


def natural_anchors(recipe: TrainRecipe, dictionary: bool) -> Made:
    """No identical subword is one, all are, or all with one vocabulary of both, and words are
    translated besides."""
    conditions = {
        "none": _system(recipe, "no-anchors", "No anchors"),
        "default-anchors": _system(recipe, "default-anchors", "Default anchors"),
        "default": _system(recipe, "default", "Default"),
    }
    if dictionary:
        conditions["extra"] = _extra(conditions["default"])
    order = [["extra"], ["default", "default-anchors"], ["none"]]
    return conditions, [group for group in order if group[0] in conditions], "default"


def natural(recipe: TrainRecipe, language: str) -> TrainRecipe:
    """English and another language, of texts that say the same."""
    source = Source(name="text", texts={"eng": "training", language: "training-pair"})
    return dataclasses.replace(recipe, sources=(source,), derived={})
