"""Emergence: English and its transliteration become one space without a single shared token or
parallel sentence.

After Conneau et al. 2020 (what must be shared?) and Deshpande et al. 2022 (a language and its
transliteration, of which every translation is known). Four conditions that differ in nothing but
what the languages share:

    shared     all but the token embeddings and their output
    half       the lower half of the layers (the first of two) is separate, too
    none       all layers are separate; positions, the embeddings' norm and the head's transform
               are still shared
    separate   nothing is shared, not the initial values either: the control, which stays at chance

``crosslens train emergence --dry-run`` counts the parameters of each part. What "none" has above
chance it has by these remaining parts: the head's transform gives the languages one direction for
how frequent a subword is, so that subwords of like frequency are neighbours, and shared positions
tell the length of a sentence (docs/emergence.md, "What is left where no layer is shared").

Cost: about 20 minutes on one core for the four. Expected, on the text of the installed packages:
the figures of docs/emergence.md. What makes it quick is the weight decay: with 0.01 in the place of
0.3 the same model on the World English Bible has .51 after 29 M tokens, with 0.3 it has .93 after
10 M.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from crosslens.errors import refuse
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training.masking import Masking
from crosslens.models.training.settings import Optimisation, Source, TrainRecipe
from crosslens.readers.plain import read_text
from crosslens.recipes.prose import english_prose

__all__ = ["emergence", "emergence_text", "fit_conditions"]


def emergence(text: str = "text/training.txt") -> dict[str, TrainRecipe]:
    """Condition to its recipe; the run puts its own text in the place of ``text``."""
    shared = TrainRecipe(
        name="emergence",
        sources=(Source(name="prose", texts={"eng": text, "eng-x": text}),),
        steps=6000,
        units="stream",
        batch_languages="mixed",
        batch_tokens=2048,
        tlm_share=0.0,
        max_length=32,
        log_every=100,
        validate_every=500,
        save_every=500,
        vocabulary=Vocabulary(size=600, kind="bpe", mode="separate", copies={"eng-x": "eng"}),
        encoder=EncoderConfig(
            vocab_size=600,
            hidden_size=64,
            layers=2,
            heads=2,
            ffn_size=256,
            max_positions=32,
            dropout=0.0,
            init_std=0.05,
        ),
        masking=Masking(rate=0.25, scope="language"),
        optimisation=Optimisation(peak_rate=4e-3, warmup=200, weight_decay=0.3),
        sharing="sep=token",
    )
    separate = dataclasses.replace(shared, sharing="sep=all")
    return fit_conditions({"shared": shared, "half": shared, "none": shared, "separate": separate})


def fit_conditions(recipes: Mapping[str, TrainRecipe]) -> dict[str, TrainRecipe]:
    """The conditions' recipes, "half" and "none" with the layers that they separate, of as many as the
    encoder has.

    Raises
    ------
    InputError: an odd number of layers, which has no half; or ``select`` is not "last": the alignment
        of tokens is measured with the last weights.

    >>> {name: one.sharing for name, one in fit_conditions(emergence()).items() if "token" in one.sharing}
    {'shared': 'sep=token', 'half': 'sep=token,1', 'none': 'sep=token,1-2'}
    """
    found = {}
    for name, one in recipes.items():
        layers = one.encoder.layers
        if layers % 2 or not layers:
            remedy = "half of them are separate in one condition"
            refuse("encoder.layers", "an even number", str(layers), remedy)
        if one.select != "last":
            expected = '"last", since the alignment of tokens is measured with the last weights'
            refuse("select", expected, repr(one.select), "leave it out")
        if (until := {"half": layers // 2, "none": layers}.get(name)) is not None:
            separate = "1" if until == 1 else f"1-{until}"
            one = dataclasses.replace(one, sharing=f"sep=token,{separate}")
        found[name] = one
    return found


def emergence_text(path: str | None = None) -> list[str]:
    """The sentences: of a file that the user names, else the English prose that every installation
    has."""
    return english_prose() if path is None else list(read_text(Path(path), "eng").sentences)
