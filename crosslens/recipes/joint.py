"""The joint systems that MonoTrans is compared with (Artetxe, Ruder & Yogatama 2020): one BERT is
trained on all languages at once.

    crosslens train joint-pair source=eng:eng.txt target=fra:fra.txt
    crosslens train joint-multi text=eng:eng.txt,fra:fra.txt,deu:deu.txt vocabulary.size=8000

    joint-pair     JointPair: two languages, with one vocabulary for both (vocabulary.mode=joint), or
                   with a vocabulary of each language's own, as MonoTrans has it (separate)
    joint-multi    JointMulti: any number of languages; in the paper with vocabularies of 32,000,
                   64,000, 100,000 and 200,000 subwords

Shape and settings are those of ``crosslens train monotrans``. ``tokens`` is counted for each
language: a joint model of two languages takes as many steps as MonoTrans' two trainings together.
"""

from collections.abc import Mapping
from typing import Any

from crosslens.errors import refuse
from crosslens.models.training.settings import TrainRecipe, with_overrides
from crosslens.recipes.small_bert import language_files, small_bert

__all__ = ["JOINT", "joint"]

JOINT = {"joint-pair": ("source", "target"), "joint-multi": ("text",)}
"""Name -> the settings that name its texts."""

_MODES = ("joint", "separate")
# what the vocabulary's mode decides
_FIXED = ("sources", "sharing", "start", "derived", "anchors", "encoder.special_table")


def joint(name: str, settings: Mapping[str, Any]) -> TrainRecipe:
    """The recipe of joint-pair or joint-multi.

    Parameters
    ----------
    settings: ``source`` and ``target``, or ``text`` with several, separated by commas, each
        "LANGUAGE:FILE"; ``vocabulary.mode`` ("joint", or "separate"), ``model`` (width, a multiple of 32; 128),
        ``tokens`` (of each language; 4 M), and settings of a recipe. ``vocabulary.size`` is that of the
        joint vocabulary, or that of each language.

    Raises
    ------
    InputError: no such setting, a text that is missing, one language alone or twice, or a size that
        cannot be.

    >>> recipe = joint("joint-multi", {"text": "eng:eng.txt,fra:fra.txt,deu:deu.txt", "tokens": 2e6})
    >>> recipe.name, recipe.languages, recipe.steps, recipe.sharing
    ('joint-multi', ('eng', 'fra', 'deu'), 1464, '')
    """
    for key in settings:
        if key.partition(".")[0] in _FIXED or key in _FIXED:
            refuse(key, "what the vocabulary's mode leaves open", key, "leave it out")
    mode = settings.get("vocabulary.mode", "joint")
    if mode not in _MODES:
        refuse("vocabulary.mode", " or ".join(_MODES), repr(mode), "choose one of them")
    names = JOINT[name]
    found = language_files(settings, names, several=names[-1])
    files = [one for mine in found.values() for one in mine]
    if len(files) < 2:
        expected, got = "two languages or more", f"{files[0][0]} alone"
        refuse("text", expected, got, "write text=eng:eng.txt,fra:fra.txt, say")
    if name == "joint-pair" and len(files) > 2:
        got = f"{len(found['target'])} of them"
        refuse("target", "one language", got, "take joint-multi for more than two languages")
    base = small_bert(name, files, settings, own=mode == "separate")
    own = (*names, "model", "tokens")
    return with_overrides(base, {key: one for key, one in settings.items() if key not in own})
