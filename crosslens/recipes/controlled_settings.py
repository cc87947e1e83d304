"""What a user may tell a controlled study beside the settings of its recipe."""

import os
from collections.abc import Mapping
from typing import Any

from crosslens.asked import absolute
from crosslens.errors import cut, quote, refuse
from crosslens.files import check_name
from crosslens.languages import same_language

__all__ = ["OWN", "asked_anywhere", "check_read", "named_conditions", "natural_pair"]

_FILES = ("data", "other", "syntax", "pair", "dictionary", "paraphrase")
OWN = (*_FILES, "model", "tokens", "scale", "conditions")
"""Settings of a study alone."""

_FIXED = ("sharing", "derived", "anchors", "sources", "seed")  # what conditions decide
_OF_VOCABULARY = ("vocabulary.mode", "vocabulary.copies")  # and this of the vocabulary
# what a study calls a copy, and a condition of one, which no other language may be called
_COPIES = ("eng-x", "paraphrase")
_READ = {  # settings that are not for all studies -> those that read them
    "other": ("deshpande-corpora", "conneau-sharing"),
    "syntax": ("deshpande-pairs", "deshpande-compositions"),
    "pair": ("conneau-sharing", "conneau-anchors", "conneau-cka"),
    "paraphrase": ("conneau-cka",),
    "dictionary": ("conneau-anchors", "conneau-sharing"),
}


def check_read(name: str, settings: Mapping[str, Any]) -> None:
    """Pass if the study leaves every setting open and reads what is given to it."""
    for key in settings:
        if key in _OF_VOCABULARY or key.partition(".")[0] in _FIXED:
            refuse(key, "what the conditions of the study leave open", key, "leave it out")
        if key == "masking.scope" and name.startswith("conneau-"):
            expected = "what goes with the vocabulary of each system (all, language)"
            refuse(key, expected, repr(settings[key]), "leave it out")
    if settings.get("seeds") is not None:
        remedy = f"give --seeds {settings['seeds']}"
        refuse("seeds", "none among the settings", repr(settings["seeds"]), remedy)
    for key in _FILES:
        if not isinstance(settings.get(key), str | os.PathLike | None):
            remedy = "put the name in quotes within quotes, or call the file otherwise"
            refuse(key, "the name of a file", repr(settings[key]), remedy)
    for key, studies in _READ.items():
        if settings.get(key) is not None and name not in studies:
            remedy = f"choose {' or '.join(studies)}, or leave it out"
            refuse(key, f"none with {cut(name)}", repr(settings[key]), remedy)
    for key in ("dictionary", *(["other"] if name == "conneau-sharing" else [])):
        if settings.get(key) is not None and settings.get("pair") is None:
            refuse(key, "none without pair", repr(settings[key]), "add pair=")
    if name == "conneau-cka" and not (settings.get("paraphrase") or settings.get("pair")):
        expected = "English that says the same line by line, or pair=LANGUAGE:FILE"
        refuse("paraphrase", expected, "neither", "add paraphrase=FILE")


def asked_anywhere(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with an absolute file of the pair, for another run wherever it stands."""
    language, _, path = str(settings.get("pair", "")).partition(":")
    return {**settings, "pair": f"{language}:{absolute(path)}"} if path else dict(settings)


def natural_pair(settings: Mapping[str, Any]) -> tuple[str, str] | None:
    """Code and file of the other natural language; None where English meets its copy."""
    if (told := settings.get("pair")) is None:
        return None
    language, colon, path = str(told).partition(":")
    is_own = language in _COPIES or same_language(language, "eng")
    if not colon or not language or not path or is_own:
        expected = f"LANGUAGE:FILE, another one than eng, not called {' or '.join(_COPIES)}"
        refuse("pair", expected, repr(told), "write fra:fra.txt, say")
    return check_name(language, "pair"), path


def named_conditions(settings: Mapping[str, Any], beside: Mapping[str, str]) -> list[str]:
    """The conditions that ``conditions`` names ("a,b", or a list), in the order of the study; all
    without it.

    Parameters
    ----------
    beside: condition -> another one whose model is compared with its own; "" where there is none.

    Raises
    ------
    InputError: a condition that the study does not have, or one without that beside which it is measured.

    >>> named_conditions({"conditions": "c,a"}, {"a": "", "b": "", "c": "a"})
    ['a', 'c']
    """
    if (told := settings.get("conditions")) is None:
        return [*beside]
    listed = told.split(",") if isinstance(told, str) else told if isinstance(told, list) else []
    names = [str(name).strip() for name in listed]
    expected = f"one or more of {', '.join(beside)}, with commas between them"
    if not names or not set(names) <= beside.keys():
        refuse("conditions", expected, quote(str(told)), "leave it out for all of them")
    for name in names:
        if beside[name] and beside[name] not in names:
            got = f"{name} without {beside[name]}, beside which it is measured"
            refuse("conditions", expected, got, f"add {beside[name]}")
    if set(names) <= set(beside.values()):
        got = f"{', '.join(names)}, which is there for others to be measured beside it"
        refuse("conditions", expected, got, "add another one")
    return [name for name in beside if name in names]
