"""What all conditions of a controlled study have in common: a language and its copy, the model, and
how much it is trained on, small or as the papers had it.

Cost: at the default size five minutes of one free core for a training of two layers, ten for one of
eight. Trainings differ a good deal: on the World English Bible the transliteration, which is the
positive control, was at .90 after 12 M tokens in one and at .46 in another. So the control is to be
looked at first, and more tokens given where it stays below .5.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from crosslens.errors import refuse
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training.derivation import Derivation
from crosslens.models.training.masking import Masking
from crosslens.models.training.settings import Optimisation, Source, TrainRecipe
from crosslens.recipes import language_of
from crosslens.recipes.small_bert import checked_size

__all__ = ["paper_of", "sized_recipe"]

_NAME = 80  # letters of a study's name, of which every condition may be a part


def sized_recipe(name: str, settings: Mapping[str, Any]) -> TrainRecipe:
    """What all conditions of a study have: a language and its transliteration, from one text."""
    scale = settings.get("scale", "small")
    if scale not in ("small", "paper"):
        refuse("scale", "small or paper", repr(scale), "choose one of these")
    if scale == "paper" and "model" in settings:
        refuse("model", "none with scale=paper", repr(settings["model"]), "leave one of them out")
    recipe = _PAPERS[paper_of(name)] if scale == "paper" else _SMALL
    whole = recipe.steps * recipe.batch_tokens
    remedy = "12e6 is the default" if scale == "small" else "leave it to the paper"
    model, batch, tokens = checked_size(settings, 64, recipe.batch_tokens, whole, remedy)
    steps = max(1, tokens // batch)
    optimisation = dataclasses.replace(
        recipe.optimisation,
        # wide models take smaller steps
        peak_rate=recipe.optimisation.peak_rate * (64 / model if scale == "small" else 1),
        warmup=min(recipe.optimisation.warmup_of(recipe.steps), max(1, steps // 4)),
    )
    shape, masking = recipe.encoder, recipe.masking
    if scale == "small":
        # as the papers' programs have it: random replacements are what the original has, or any
        # subword of the matrix; and Conneau et al.'s studies share or separate up to six layers
        deshpande = paper_of(name) == "deshpande"
        masking = dataclasses.replace(masking, scope="original" if deshpande else "all")
        shape = dataclasses.replace(
            shape,
            hidden_size=model,
            layers=2 if deshpande else 8,
            heads=model // 32,
            ffn_size=4 * model,
        )
    return dataclasses.replace(
        recipe,
        batch_tokens=batch,
        name=re.sub("[:+,]", "-", name)[:_NAME],  # a folder is called so
        steps=steps,
        encoder=shape,
        masking=masking,
        optimisation=optimisation,
        **_both(language_of(name)),
    )


def paper_of(name: str) -> str:
    """Whose measures and numbers stand beside a study's."""
    return "conneau" if name.startswith("conneau-") else "deshpande"


def _both(language: str) -> dict[str, Any]:
    """A language and its copy in other letters, of one text."""
    copy = f"{language}-x"
    return {
        "sources": (Source(name="text", texts={language: "training", copy: "training"}),),
        "derived": {copy: Derivation(of=language, by="transliteration")},
    }


_BOTH: dict[str, Any] = {**_both("eng"), "units": "stream", "tlm_share": 0.0}
_SMALL = TrainRecipe(
    **_BOTH,
    name="small",
    steps=12_000_000 // 2048,
    batch_languages="mixed",
    batch_tokens=2048,
    max_length=32,
    log_every=100,
    validate_every=500,
    save_every=500,
    vocabulary=Vocabulary(size=600, kind="bpe", mode="disjoint"),
    encoder=EncoderConfig(
        vocab_size=600, hidden_size=64, layers=2, heads=2, ffn_size=256, max_positions=32,
        dropout=0.0, init_std=0.05,
    ),
    masking=Masking(rate=0.25),
    optimisation=Optimisation(peak_rate=4e-3, warmup=200, weight_decay=0.3),
)  # fmt: skip
_PAPERS = {
    # Deshpande et al. 2022, appendix and program: 128 rows of 512 tokens, 500 k updates
    "deshpande": TrainRecipe(
        **_BOTH,
        name="deshpande",
        steps=500_000,
        batch_languages="mixed",
        batch_tokens=65_536,
        max_length=512,
        vocabulary=Vocabulary(size=40_000, kind="bpe", mode="disjoint"),
        encoder=EncoderConfig(
            vocab_size=40_000, hidden_size=512, layers=8, heads=8, ffn_size=2048, max_positions=512,
            norm_eps=1e-5,
        ),
        masking=Masking(scope="original"),
        optimisation=Optimisation(peak_rate=1e-4, warmup=10_000, weight_decay=0.0, beta2=0.999),
    ),
    # Conneau et al. 2020, § 2.1, with XLM's epochs: 8 x 96 rows of 256 tokens, 417 k updates
    "conneau": TrainRecipe(
        **_BOTH,
        name="conneau",
        steps=417_000,
        batch_tokens=196_608,
        max_length=256,
        sample_exponent=0.7,
        precision="bfloat16",
        select="eng",
        vocabulary=Vocabulary(size=40_000, kind="bpe", mode="disjoint"),
        encoder=EncoderConfig(
            vocab_size=40_000, hidden_size=768, layers=8, heads=12, ffn_size=3072,
            max_positions=256, head="plain", init="xlm",
        ),
        masking=Masking(count="xlm", counts="joint", exponent=0.5),
        optimisation=Optimisation(
            optimiser="adam", peak_rate=1e-4, first_rate=1e-7, warmup=30_000, decay="inverse_sqrt",
            weight_decay=0.0,
        ),
    ),
}  # fmt: skip
