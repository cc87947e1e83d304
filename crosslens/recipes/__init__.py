"""Studies and trainings by name, one per file; and recipes read from TOML files."""

import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import Any, cast

from crosslens.asked import read_asked
from crosslens.errors import InputError, cut, quote, refuse
from crosslens.files import check_shape
from crosslens.languages import NAMES
from crosslens.models.training.settings import TrainRecipe, from_dict

__all__ = [
    "RECIPES",
    "STUDIES",
    "TRAININGS",
    "clwe_settings",
    "conditions_of",
    "emergence_settings",
    "language_of",
    "load_recipe",
    "monotrans_settings",
    "study_settings",
]

STUDIES = {
    "deshpande-pairs": "which transformation of English leaves its sentences where they were?",
    "deshpande-compositions": "which change of order keeps a transliteration from the original?",
    "deshpande-corpora": "must the two languages be trained on the same text?",
    "deshpande-ladder": "how much of the order must be kept?",
    "conneau-sharing": "which parts must the two languages share?",
    "conneau-anchors": "do words in common bring the two languages together?",
    "conneau-cka": "are models of two languages alike, trained apart or together?",
}
"""Name -> what is asked."""

# texts that a study needs beside data
_FURTHER = {"deshpande-corpora": " other=FILE", "conneau-cka": " paraphrase=FILE"}

RECIPES = {
    "quickstart": (
        "the study of the encoder and the corpus that the package carries (crosslens quickstart)"
    ),
    "tiny-encoder": (
        "the training of that encoder, on a folder of texts (crosslens train tiny-encoder "
        "data=FOLDER)"
    ),
    "emergence": (
        "how much must be shared for two languages without a common token to meet (crosslens "
        "train emergence)"
    ),
    "monotrans": (
        "an encoder of one language, and others learnt under its body (crosslens train monotrans "
        "source=eng:eng.txt target=fra:fra.txt; with tasks=TASKS data=DATA fine-tuned and tested, too)"
    ),
    "clwe": (
        "an encoder of one language over mapped embeddings of subwords that stand still, and others "
        "read through theirs (crosslens train clwe source=eng:eng.txt target=fra:fra.txt; with "
        "tasks=TASKS data=DATA fine-tuned and tested, too)"
    ),
    "joint-pair": (
        "an encoder of two languages at once, to stand beside MonoTrans (crosslens train "
        "joint-pair source=eng:eng.txt target=fra:fra.txt)"
    ),
    "joint-multi": (
        "an encoder of any number of languages at once (crosslens train joint-multi "
        "text=eng:eng.txt,fra:fra.txt,deu:deu.txt)"
    ),
    **{
        name: f"a controlled study: {question} (crosslens train {name} data=FILE"
        f"{_FURTHER.get(name, '')})"
        for name, question in STUDIES.items()
    },
}
"""Studies and trainings that go by a name -> what they are."""

TRAININGS = (
    *("tiny-encoder", "emergence", "monotrans", "clwe", "joint-pair", "joint-multi"),
    *STUDIES,
)

_CONDITIONS = re.compile(r"([a-z]{3})-([a-z][a-z0-9:+,-]*)")


def load_recipe(name: str, data: str | None = None) -> TrainRecipe:
    """A training recipe by its name, from a TOML file, or that of an earlier run (its folder, or
    the config.json in it).

    Parameters
    ----------
    data: folder of a named recipe's texts. Relative paths in a TOML file are counted from the
        file's own folder.

    Raises
    ------
    InputError: no such recipe or file, or the file is not a recipe.
    """
    if name == "tiny-encoder":
        from crosslens.recipes.tiny_encoder import tiny_encoder

        return tiny_encoder(data or "text")
    path = Path(name)
    if data is not None and os.path.exists(path):
        refuse(
            "data", "a folder for a named recipe", f"the file {name}", "name the texts in the file"
        )
    if (asked := _earlier(path)) is not None:
        recipe = check_shape(
            asked.get("recipe", asked), name, dict[str, Any], "name another run", InputError
        )
        return cast(TrainRecipe, from_dict(TrainRecipe, recipe))
    if not os.path.isfile(path):  # a name may be too long for a file
        close = difflib.get_close_matches(name, TRAININGS, n=1)
        refuse(
            "recipe",
            f"a TOML file, one of {', '.join(TRAININGS)}, or LANGUAGE-TRANSFORMATION (eng-inversion)",
            quote(name),
            f"did you mean {close[0]}?" if close else "check the spelling",
        )
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except RecursionError:
        refuse(name, "a TOML file", "brackets nested too deeply", "repair the file")
    # TOMLDecodeError is a ValueError; so is what a number of 5,000 digits raises
    except (OSError, ValueError) as error:
        refuse(name, "a TOML file", f"something else ({cut(str(error), 200)})", "repair the file")
    sources = values.get("sources")
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict) and isinstance(source.get("texts"), dict):
            source["texts"] = {
                language: _beside(path, file) for language, file in source["texts"].items()
            }
    anchors = values.get("anchors")
    if isinstance(anchors, dict) and anchors.get("dictionary"):
        anchors["dictionary"] = _beside(path, anchors["dictionary"])
    for name in ("start", "embeddings"):
        if values.get(name):
            values[name] = _beside(path, values[name])
    if isinstance(values.get("exclude"), list):
        values["exclude"] = [_beside(path, file) for file in values["exclude"]]
    return cast(TrainRecipe, from_dict(TrainRecipe, values))


def _earlier(path: Path) -> dict[str, Any] | None:
    """What an earlier run was asked; None where the path is of no such thing."""
    return (
        read_asked(path, "train", "emergence", "controlled", "monotrans", "clwe")[0]
        if path.suffix == ".json" or os.path.isfile(path / "config.json")
        else None
    )


def emergence_settings(name: str) -> dict[str, Any] | None:
    """What changes the recipe of emergence: nothing where it is named, an earlier run's where that
    is; None for other recipes."""
    return _named_settings("emergence", name)


def monotrans_settings(name: str) -> dict[str, Any] | None:
    """What changes the recipe of monotrans, as :func:`emergence_settings`."""
    return _named_settings("monotrans", name)


def clwe_settings(name: str) -> dict[str, Any] | None:
    """What changes the recipe of clwe, as :func:`emergence_settings`."""
    return _named_settings("clwe", name)


def _named_settings(recipe: str, name: str) -> dict[str, Any] | None:
    asked = {"recipe": name, "settings": {}} if name == recipe else _earlier(Path(name))
    if asked is None or asked.get("recipe") != recipe:
        return None
    return cast(
        dict[str, Any],
        check_shape(
            asked.get("settings", {}), name, dict[str, Any], "name another run", InputError
        ),
    )


def conditions_of(name: str) -> list[str]:
    """The transformations that a study is named by, joined by commas behind a language's
    code, each with those that it is composed of; empty where a name is none of these. ``translit`` is short for
    ``transliteration``.

    >>> conditions_of("eng-translit,translit+inversion"), conditions_of("english")
    (['transliteration', 'transliteration+inversion'], [])
    >>> conditions_of("fra-permutation"), conditions_of("tiny-encoder")
    (['permutation'], [])
    """
    match = _CONDITIONS.fullmatch(name)
    if match is None or match[1] not in NAMES:
        return []
    return [
        "+".join("transliteration" if part == "translit" else part for part in one.split("+"))
        for one in match[2].split(",")
    ]


def language_of(name: str) -> str:
    """The language that a controlled study makes copies of.

    >>> language_of("fra-inversion"), language_of("deshpande-pairs")
    ('fra', 'eng')
    """
    return name[:3] if conditions_of(name) else "eng"


def study_settings(name: str) -> tuple[str, dict[str, Any], int | None] | None:
    """Name, settings and seeds of a controlled study: nothing but its name where it is named, or its
    conditions are (:func:`conditions_of`), an
    earlier run's where that is; None for other recipes."""
    conditions = conditions_of(name)
    if name in STUDIES:
        return name, {}, None
    if conditions and os.path.isfile(name):
        return None
    try:
        asked = _earlier(Path(name))
    except InputError:  # the folder of something else, which may well have this name
        if not conditions:
            raise
        asked = None
    recipe = None if asked is None else asked.get("recipe")
    if not isinstance(recipe, str) or (recipe not in STUDIES and not conditions_of(recipe)):
        return (name, {}, None) if conditions else None
    assert asked is not None
    remedy = "name another run"
    settings = check_shape(asked.get("settings", {}), name, dict[str, Any], remedy, InputError)
    seeds = check_shape(asked.get("seeds", 3), name, int, remedy, InputError)
    return recipe, cast(dict[str, Any], settings), cast(int, seeds)


def _beside(recipe: Path, file: Any) -> Any:
    """A path that is counted from the recipe's folder; anything but a string is left for the type
    check."""
    if file == "":  # it would be the folder itself
        refuse(str(recipe), "the name of a file", "an empty one", "name the file")
    return str(recipe.parent / file) if isinstance(file, str) else file
