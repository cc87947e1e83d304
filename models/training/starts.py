"""A training that starts from a finished model: a new language learnt under a body that stands still.

After Artetxe et al. 2020, § 2.2, step 2. Of the model that ``recipe.start`` names everything stays,
to the bit, and the recipe's one language comes to it with new parts of its own: whatever languages
own there (token embeddings with their output bias, positions), and adapters where the recipe has
them. These alone are trained. What the paper leaves open follows from that: each language has an
output bias, since the output softmax is its token embeddings; the special tokens, the norm of the
embeddings, the head's transform and the next-sentence head belong to the body, and stand still.
"""

import dataclasses
from pathlib import Path

import numpy as np

from crosslens.errors import refuse
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import add_adapters, freeze_all_but, plug_in
from crosslens.models.saved.locate import encoder_fingerprint
from crosslens.models.saved.native import load_model
from crosslens.models.text.vocabularies import (
    Vocabularies,
    check_separate,
    join_vocabularies,
    load_vocabularies,
)
from crosslens.models.training.settings import TrainRecipe

__all__ = ["check_start", "start_fingerprint", "started_model", "started_vocabularies"]


def check_start(recipe: TrainRecipe) -> None:
    """Refuse a start that the recipe does not fit, before anything is made.

    Parameters
    ----------
    recipe: as :func:`crosslens.models.training.settings.resolve` makes it.

    Raises
    ------
    InputError: the start is no model of ours, its languages do not own their token embeddings, it
        has the language already, or the recipe has another shape or plan.
    """
    model, vocabularies = load_model(recipe.start)
    (language,) = recipe.languages
    if language in model.languages:
        expected = f"a language that {recipe.start} does not have ({', '.join(model.languages)})"
        refuse("sources", expected, language, "start from the other language, or rename this one")
    if not model.plan.owned("token"):
        expected = "a model whose languages own their token embeddings"
        refuse("start", expected, str(model.plan), 'train one with sharing="sep=token"')
    check_separate(vocabularies)
    _check_shape(recipe, model)


def _check_shape(recipe: TrainRecipe, model: MaskedLM) -> None:
    """All numbers but the vocabulary's are the start's; adapters may be added."""
    free = {"vocab_size"} | (set() if model.config.adapters else {"adapters", "adapter_norms"})
    for field in dataclasses.fields(model.config):
        there, mine = (getattr(config, field.name) for config in (model.config, recipe.encoder))
        if field.name not in free and there != mine:
            expected = f"{there!r}, as the model that is started from has"
            refuse(f"encoder.{field.name}", expected, repr(mine), "set it to that")
    added = bool(recipe.encoder.adapters) and not model.config.adapters
    wanted = model.plan.separate | ({"adapters"} if added else set())
    mine = SharingPlan.parse(recipe.sharing, model.config.layers, tied=model.config.tied)
    if mine.separate != wanted:
        expected = (
            f"{dataclasses.replace(model.plan, separate=frozenset(wanted))}, as the start has"
        )
        refuse("sharing", expected, str(mine), "set it to that")


def start_fingerprint(recipe: TrainRecipe) -> str:
    """The content hash of the model that a recipe starts from."""
    return encoder_fingerprint(Path(recipe.start))


def started_vocabularies(recipe: TrainRecipe, learnt: Vocabularies) -> Vocabularies:
    """The vocabularies of the start, and that of the new language behind them."""
    return join_vocabularies(load_vocabularies(Path(recipe.start) / "tokenizer"), learnt)


def started_model(recipe: TrainRecipe, vocabularies: Vocabularies) -> MaskedLM:
    """The model of the start with new parts for the recipe's language, which alone are trained.

    The new parts begin with weights that are sampled from the recipe's seed and the language's name:
    with the seed alone they would be those that the start's own languages began with.
    Other languages have adapters that are the identity, to the bit.
    """
    model, _ = load_model(recipe.start)
    (language,) = recipe.languages
    size, units = vocabularies.sizes[language], model.config.adapters
    norms = model.config.adapter_norms
    shape = dataclasses.replace(
        recipe.encoder, vocab_size=size, adapters=units, adapter_norms=norms
    )
    own = int(np.random.SeedSequence([recipe.seed, *language.encode()]).generate_state(1)[0])
    alone = MaskedLM(shape, own, languages=(language,), plan=model.plan)
    plug_in(model, language, alone)
    if recipe.encoder.adapters and not units:
        add_adapters(
            model,
            recipe.encoder.adapters,
            languages=[language],
            norms=recipe.encoder.adapter_norms,
            seed=recipe.seed,
        )
    freeze_all_but(model, language)
    return model
