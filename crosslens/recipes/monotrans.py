"""MonoTrans (Artetxe, Ruder & Yogatama 2020): a monolingual encoder taken to other languages by new
embeddings alone.

    crosslens train monotrans source=eng:eng.txt target=fra:fra.txt

    step 1    a BERT is trained on the source language
    step 2    its body stands still; each target language learns embeddings under it
    step 3    with tasks=upos data=DATA: the model is fine-tuned in the source language
    step 4    one model: the body, and each language's own parts; tested in every language

Steps 3 and 4 are those of ``crosslens transfer``, whose other settings stand behind "transfer.":
transfer.peak_rate=1e-3. The model of all languages is put together before step 3, which leaves what
the targets own as it is. Variants are cumulative, as in the paper:

    token        a target language has token embeddings of its own (and the output bias)
    positions    and positions; [CLS] has neither position nor segment, from step 1 on
    noise        the same two steps; noise of .075 comes in step 3
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.asked import absolute
from crosslens.checks import check_positive_int
from crosslens.errors import refuse
from crosslens.models.network.adapters import BOTTLENECK
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.training.settings import Source, TrainRecipe, with_overrides
from crosslens.recipes.fine_tuned import fine_tuned, of_fine_tuning, with_absolute_data
from crosslens.recipes.small_bert import absolute_texts, language_files, small_bert
from crosslens.run.transfer.settings import Transfer

__all__ = ["NOISE", "OWNED", "VARIANTS", "asked_anywhere", "last_steps", "monotrans"]

VARIANTS = ("token", "positions", "noise", "adapters")
"""In the paper's order: each has what those before it have."""

OWNED = ("special", "segment", "norm", "transform")
"""Parts that the paper counts to the body by our reading, and that ``own`` gives to each language: the
special tokens, the segments and the norm of the embeddings, and the head's transform."""

NOISE = 0.075
"""Deviation of the noise in step 3 (its appendix; the text says "standard normal")."""

_OWN = ("source", "target", "variant", "model", "tokens", "times", "own")
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
        ``times`` (how often each target is learnt; 1), ``own`` (further parts that each language has
        of its own and learns in step 2, of :data:`OWNED`, separated by commas; none), and settings of
        the recipes of all steps. "encoder.adapters" and "encoder.adapter_norms" are those of step 2
        alone.
    place: the run's folder, where the later steps find the first one's model.

    Raises
    ------
    InputError: no such variant or setting, a size that cannot be, or languages that are not different.

    >>> steps = monotrans({"source": "eng:eng.txt", "target": "fra:fra.txt,deu:deu.txt", "tokens": 2e6})
    >>> [(name, recipe.languages, recipe.sharing, recipe.steps) for name, recipe in steps.items()][1:]
    [('step-2/fra', ('fra',), 'sep=token,position,adapters', 488), ('step-2/deu', ('deu',), 'sep=token,position,adapters', 488)]
    """
    variant = _variant(settings)
    settings = {name: value for name, value in settings.items() if not of_fine_tuning(name)}
    for name in settings:
        if name.partition(".")[0] in _FIXED or name in (*_FIXED, *_FIXED_TOO):
            refuse(name, "what the steps and the variant leave open", name, "leave it out")
    files = _texts(settings)
    times = check_positive_int(settings.get("times", 1), "times")
    owned = _owned(settings.get("own", ""))
    changes = {name: value for name, value in settings.items() if name not in _OWN}
    bottleneck = changes.pop("encoder.adapters", BOTTLENECK if variant == "adapters" else 0)
    if (variant == "adapters") != bool(bottleneck):
        expected = "some units with variant=adapters, none with others"
        refuse("encoder.adapters", expected, repr(bottleneck), "leave it out")
    (source,) = files["source"]
    base = small_bert(f"monotrans-{source[0]}", [source], settings, own=True)
    if variant != "token":
        shape = dataclasses.replace(base.encoder, cls_position=False)
        base = dataclasses.replace(base, sharing="sep=token,position", encoder=shape)
    if "special" in owned:  # they are rows of each language's token embeddings
        owned.remove("special")
        base = dataclasses.replace(
            base, encoder=dataclasses.replace(base.encoder, special_table=False)
        )
    base = dataclasses.replace(base, sharing=",".join([base.sharing, *owned]))
    norms = changes.pop("encoder.adapter_norms", False)
    first = with_overrides(base, changes)
    _check_owned(owned, first.encoder)
    start, made = str(Path(place) / "step-1" / "model"), {"step-1": first}
    sharing = first.sharing + (",adapters" if bottleneck else "")
    for language, path in files["target"]:
        told = {"name": f"monotrans-{language}", "sharing": sharing, "start": start}
        own = (Source(name="text", texts={language: path}, split=first.sources[0].split),)
        step = dataclasses.replace(first, sources=own)
        adapters = {"encoder.adapters": bottleneck, "encoder.adapter_norms": norms}
        step = with_overrides(step, {**told, **adapters})
        for number in range(times):
            name = f"step-2/{language}" + (f"-{number + 1}" if times > 1 else "")
            made[name] = dataclasses.replace(step, seed=step.seed + number)
    return made


def last_steps(settings: Mapping[str, Any], place: str | Path = "run") -> Transfer | None:
    """Steps 3 and 4, of the model that the others leave; None where no task is named.

    Parameters
    ----------
    settings: as :func:`monotrans` takes them. place: the run's folder.

    >>> told = {"source": "eng:e.txt", "target": "fra:f.txt", "tasks": "upos", "data": "data"}
    >>> last_steps(told).noise, last_steps({**told, "variant": "positions"}).noise
    (0.075, None)
    """
    noise = NOISE if _variant(settings) in VARIANTS[VARIANTS.index("noise") :] else None
    languages = [language for mine in _texts(settings).values() for language, _ in mine]
    return fine_tuned(settings, languages, place, noise)


def _variant(settings: Mapping[str, Any]) -> str:
    variant = settings.get("variant", VARIANTS[-1])
    if variant not in VARIANTS:
        refuse("variant", f"one of {', '.join(VARIANTS)}", repr(variant), "choose one of them")
    return str(variant)


def _owned(told: Any) -> list[str]:
    names = [one.strip() for one in told.split(",")] if isinstance(told, str) and told else []
    if told not in (None, "") and (not names or not {*names} <= {*OWNED}):
        refuse("own", f"some of {', '.join(OWNED)}, by commas", repr(told), "leave the others out")
    return [part for part in OWNED if part in names]


def _check_owned(owned: Sequence[str], shape: EncoderConfig) -> None:
    """Refuse parts that an encoder of this shape does not have: they would make no difference."""
    for part in owned:
        if part in shape.absent:
            refuse("own", "parts that the encoder has", part, "leave it out")


def asked_anywhere(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with absolute files, for another run wherever it stands."""
    texts = {name: absolute_texts(mine) for name, mine in _texts(settings).items()}
    excluded = {"exclude": absolute(settings["exclude"])} if "exclude" in settings else {}
    return {**with_absolute_data(settings), **texts, **excluded}


def _texts(settings: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    return language_files(settings, ("source", "target"), several="target")
