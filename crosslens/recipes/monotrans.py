"""MonoTrans (Artetxe, Ruder & Yogatama 2020): a monolingual encoder taken to other languages by new
embeddings alone.

    crosslens train monotrans source=eng:eng.txt target=fra:fra.txt

    step 1    a BERT is trained on the source language
    step 2    its body stands still; each target language learns embeddings under it
    step 4    one model: the body, and each language's own parts

Step 3, fine-tuning in the source language, and what comes of it in the others are those of
``crosslens transfer``. Variants are cumulative, as in the paper:

    token        a target language has token embeddings of its own (and the output bias)
    positions    and positions; [CLS] has neither position nor segment, from step 1 on
    noise        the same two steps; noise comes in step 3 (``crosslens transfer --noise 0.075``)
    adapters     and adapters in every layer, of 64 units

The default is the last: it is the paper's best on XQuAD by five points of F1, within half a point of
the best on XNLI, and its step 2 did not fail to converge, as that of positions alone did at times.

Step 2 may be repeated, each time from another seed (``times=5``), since it does not always converge:
of a language's trainings the one goes into the model that gains most on a unigram model of its
held-out text.

The shape is small, so that a step takes minutes. Two numbers scale it, ``model`` (its width) and
``tokens`` (of each step). The paper's own are model=768 encoder.layers=12 vocabulary.size=32000
max_length=512 encoder.max_positions=512 encoder.dropout=0.1 optimisation.optimiser=lamb and 250,000
steps. It does not print batch, learning rate and warm-up; docs/training.md has You et al.'s.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosslens.asked import absolute
from crosslens.checks import check_positive_int
from crosslens.errors import refuse
from crosslens.files import check_name
from crosslens.models.network.adapters import BOTTLENECK
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training.masking import Masking
from crosslens.models.training.settings import Optimisation, Source, TrainRecipe, with_overrides

__all__ = ["VARIANTS", "asked_anywhere", "base_recipe", "monotrans", "named_texts"]

VARIANTS = ("token", "positions", "noise", "adapters")
"""In the paper's order: each has what those before it have."""

_BATCH = 4096
_OWN = ("source", "target", "variant", "model", "tokens", "times")
# what the steps and the variants decide
_FIXED = ("sources", "sharing", "start", "derived", "anchors", "encoder.special_table")
_FIXED_TOO = ("encoder.cls_position", "encoder.noise", "vocabulary.mode", "batch_languages")


def monotrans(settings: Mapping[str, Any], place: str | Path = "run") -> dict[str, TrainRecipe]:
    """The recipes of the steps, by the folders below the run's that they are trained in: "step-1",
    and "step-2/LANGUAGE" for each target; "step-2/LANGUAGE-1" and so on where step 2 is repeated.

    Parameters
    ----------
    settings: ``source`` and ``target``, each "LANGUAGE:FILE", several targets separated by commas;
        ``variant``, ``model`` (width, a multiple of 32; 128), ``tokens`` (of each step; 4 M),
        ``times`` (how often each target is learnt; 1), and
        settings of the recipes of all steps. "encoder.adapters" is that of step 2 alone.
    place: the run's folder, where the later steps find the first one's model.

    Raises
    ------
    InputError: no such variant or setting, a size that cannot be, or languages that are not different.

    >>> steps = monotrans({"source": "eng:eng.txt", "target": "fra:fra.txt,deu:deu.txt", "tokens": 2e6})
    >>> [(name, recipe.languages, recipe.sharing, recipe.steps) for name, recipe in steps.items()][1:]
    [('step-2/fra', ('fra',), 'sep=token,position,adapters', 488), ('step-2/deu', ('deu',), 'sep=token,position,adapters', 488)]
    """
    variant = settings.get("variant", VARIANTS[-1])
    if variant not in VARIANTS:
        refuse("variant", f"one of {', '.join(VARIANTS)}", repr(variant), "choose one of them")
    for name in settings:
        if name.partition(".")[0] in _FIXED or name in (*_FIXED, *_FIXED_TOO):
            refuse(name, "what the steps and the variant leave open", name, "leave it out")
    source, *targets = named_texts(settings)
    times = check_positive_int(settings.get("times", 1), "times")
    changes = {name: value for name, value in settings.items() if name not in _OWN}
    bottleneck = changes.pop("encoder.adapters", BOTTLENECK if variant == "adapters" else 0)
    if (variant == "adapters") != bool(bottleneck):
        expected = "some units with variant=adapters, none with others"
        refuse("encoder.adapters", expected, repr(bottleneck), "leave it out")
    base = base_recipe(source, settings.get("model", 128), settings.get("tokens", 4_000_000))
    if variant != "token":
        shape = dataclasses.replace(base.encoder, cls_position=False)
        base = dataclasses.replace(base, sharing="sep=token,position", encoder=shape)
    first = with_overrides(base, changes)
    start, made = str(Path(place) / "step-1" / "model"), {"step-1": first}
    sharing = first.sharing + (",adapters" if bottleneck else "")
    for language, path in targets:
        told = {"name": f"monotrans-{language}", "sharing": sharing, "start": start}
        own = (Source(name="text", texts={language: path}),)
        step = dataclasses.replace(first, sources=own)
        step = with_overrides(step, {**told, "encoder.adapters": bottleneck})
        for number in range(times):
            name = f"step-2/{language}" + (f"-{number + 1}" if times > 1 else "")
            made[name] = dataclasses.replace(step, seed=step.seed + number)
    return made


def asked_anywhere(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with absolute files, for another run wherever it stands."""
    source, *targets = (f"{name}:{absolute(path)}" for name, path in named_texts(settings))
    return {**settings, "source": source, "target": ",".join(targets)}


def named_texts(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Language and file of the source, and of each target."""
    found: list[tuple[str, str]] = []
    for name in ("source", "target"):
        told = settings.get(name)
        if not isinstance(told, str) or not told:
            refuse(name, "LANGUAGE:FILE", repr(told) if told else "none", f"add {name}=eng:eng.txt")
        for one in told.split(",") if name == "target" else [told]:
            language, colon, path = one.strip().partition(":")
            if not colon or not language or not path:
                refuse(name, "LANGUAGE:FILE", repr(one), "write eng:eng.txt, say")
            check_name(language, name)
            if language in dict(found):
                remedy = "call one of them otherwise, eng-x say"
                refuse(name, "languages that differ", f"{language} twice", remedy)
            found.append((language, path))
    return found


def base_recipe(source: tuple[str, str], model: Any, tokens: Any) -> TrainRecipe:
    """Step 1 with token embeddings that the language owns."""
    if isinstance(model, bool) or not isinstance(model, int) or model < 32 or model % 32:
        refuse("model", "a width that is a multiple of 32", repr(model), "128 is the default")
    if (
        isinstance(tokens, bool)
        or not isinstance(tokens, int | float)
        or not _BATCH <= tokens < 1e15
    ):
        refuse("tokens", f"a number from {_BATCH} up", repr(tokens), "4e6 is the default")
    language, path = source
    return TrainRecipe(
        name=f"monotrans-{language}",
        sources=(Source(name="text", texts={language: path}),),
        steps=int(tokens) // _BATCH,
        units="nsp",
        sharing="sep=token",
        batch_tokens=_BATCH,
        tlm_share=0.0,
        max_length=128,
        log_every=50,
        validate_every=500,
        save_every=250,
        vocabulary=Vocabulary(size=4000, mode="separate"),
        encoder=EncoderConfig(
            vocab_size=4000,
            hidden_size=model,
            layers=4,
            heads=model // 32,
            ffn_size=4 * model,
            max_positions=128,
            dropout=0.0,
            segments=2,
            next_sentence=True,
            special_table=True,
        ),
        masking=Masking(scope="language"),
        # wide models take smaller steps
        optimisation=Optimisation(peak_rate=2e-3 * 128 / model),
    )
