"""Controlled studies after Deshpande et al. 2022 and Conneau et al. 2020, on English and languages
that are made from it: which of them come to lie on the original, and what must be shared?

    deshpande-pairs         inversion, permutation, transliteration (and syntax), each alone
    deshpande-compositions  transliteration alone, and with inversion, permutation (and syntax)
    deshpande-ladder        thirty transliterations in orders from that of English to none: alignment
                            against how many neighbours an order keeps
    deshpande-corpora       English and its transliteration: the same text, the other half of the
                            source, another source
    conneau-sharing         the same pair, and which parts each language owns
    conneau-anchors         the same pair, and how many words they have in common

    (the last two with pair=fra:fra.txt: English and another natural language)

    conneau-cka             CKA of two models, of English and of paraphrase= and pair=, and of one of both

    eng-BY[,BY]             English and what is derived from it by these transformations; fra-BY
                            French

    crosslens train deshpande-compositions data=eng.txt --seeds 3
    crosslens train eng-translit+inversion data=eng.txt --seeds 3

The model is that of :mod:`crosslens.recipes.emergence`, but with Deshpande et al.'s one embedding
matrix of twice the subwords. Two numbers scale it, ``model`` (its width) and ``tokens`` (of each
training); ``scale=paper`` is what the paper trained. Conneau et al.'s studies have eight layers, of
which sharing separates the first six. Random replacements are those of the papers' programs: subwords of the original alone
(Deshpande et al.), or any of the matrix (Conneau et al., where languages share it);
in Deshpande et al.'s studies ``masking.scope=language`` takes them from the token's own. 25 % are masked and nothing is
dropped out, for models as small as these; batches mix the languages.
"""

from collections.abc import Mapping
from typing import Any

from crosslens.errors import refuse
from crosslens.languages import NAMES
from crosslens.models.training.settings import with_overrides
from crosslens.recipes import STUDIES, conditions_of, conneau, deshpande, language_of
from crosslens.recipes.controlled_settings import (
    OWN,
    asked_anywhere,
    check_read,
    named_conditions,
    natural_pair,
)
from crosslens.recipes.controlled_sizes import paper_of, sized_recipe
from crosslens.recipes.controlled_texts import study_texts
from crosslens.run.trainings.controlled import ControlledStudy

__all__ = ["asked_anywhere", "controlled_study", "study_texts"]

_MAY_HAVE_SYNTAX = {
    "deshpande-pairs": deshpande.pairs,
    "deshpande-compositions": deshpande.compositions,
}
_OF_A_COPY = {
    "deshpande-ladder": deshpande.ladder,
    "deshpande-corpora": deshpande.corpora,
    "conneau-sharing": conneau.sharing,
    "conneau-anchors": conneau.anchored,
}


def controlled_study(name: str, settings: Mapping[str, Any]) -> ControlledStudy:
    """A study by name.

    Parameters
    ----------
    settings: ``model`` (width, a multiple of 32; 64), ``tokens`` (of each training; 12 M),
        ``scale`` ("small", or "paper": what the paper trained, a model as large on as many tokens),
        ``syntax`` (whether there is such a text), ``pair`` ("LANGUAGE:FILE", of conneau-sharing and
        conneau-anchors: a natural language in the copy's place, with which ``dictionary`` and, of
        conneau-sharing, ``other`` add conditions; of conneau-cka, beside it or in the
        place of ``paraphrase``), ``conditions`` (some of the study's alone: "default,extra"), and
        settings of the recipe of all conditions.

    Raises
    ------
    InputError: no such study or setting, or a size that cannot be.

    >>> study = controlled_study("deshpande-corpora", {"tokens": 1e6})
    >>> list(study.conditions), study.conditions["same"].recipe.steps
    (['parallel', 'same', 'different'], 488)
    """
    named = conditions_of(name)
    if name not in STUDIES and not named:
        expected = f"one of {', '.join(STUDIES)}, or LANGUAGE-TRANSFORMATION (eng-inversion)"
        refuse("recipe", expected, repr(name), "check the spelling")
    check_read(name, settings)
    base = sized_recipe(name, settings)
    changes = {key: value for key, value in settings.items() if key not in OWN}
    recipe, pair = with_overrides(base, changes), natural_pair(settings)
    if named:
        made = deshpande.derived_conditions(recipe, named)
    elif name == "conneau-cka":
        told = None if pair is None else pair[0]
        made = conneau.similarity(recipe, told, bool(settings.get("paraphrase")))
    elif pair is not None:
        natural, words = conneau.natural(recipe, pair[0]), bool(settings.get("dictionary"))
        if name == "conneau-anchors":
            made = conneau.natural_anchors(natural, words)
        else:
            made = conneau.natural_sharing(natural, words, bool(settings.get("other")))
    elif name in _MAY_HAVE_SYNTAX:
        made = _MAY_HAVE_SYNTAX[name](recipe, bool(settings.get("syntax")))
    else:
        made = _OF_A_COPY[name](recipe)
    conditions, order, control = made
    taken = named_conditions(settings, {key: one.beside for key, one in conditions.items()})
    language = NAMES[language_of(name)]
    return ControlledStudy(
        name=name,
        question=STUDIES.get(name) or f"does what is derived from {language} come to lie on it?",
        paper=paper_of(name),
        conditions={key: conditions[key] for key in taken},
        order=order,
        control=control,
    )
