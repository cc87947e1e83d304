"""What a user may tell a controlled study beside the settings of its recipe."""

from collections.abc import Mapping
from typing import Any

from crosslens.asked import absolute
from crosslens.errors import refuse
from crosslens.files import check_name

__all__ = ["OWN", "asked_anywhere", "check_open", "natural_pair"]

OWN = ("data", "other", "syntax", "pair", "dictionary", "model", "tokens", "scale", "seeds")
"""Settings of a study alone."""

_FIXED = ("sharing", "derived", "anchors", "sources", "seed")  # what conditions decide
_NATURAL = ("conneau-sharing", "conneau-anchors")  # studies of a natural pair, too


def check_open(settings: Mapping[str, Any]) -> None:
    """Pass if no setting is one that the conditions decide."""
    for key in settings:
        if key.partition(".")[0] in _FIXED:
            refuse(key, "what the conditions of the study leave open", key, "leave it out")


def asked_anywhere(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with an absolute file of the pair, for another run wherever it stands."""
    language, _, path = str(settings.get("pair", "")).partition(":")
    return {**settings, "pair": f"{language}:{absolute(path)}"} if path else dict(settings)


def natural_pair(name: str, settings: Mapping[str, Any]) -> tuple[str, str] | None:
    """Code and file of the other natural language; None where English meets its copy."""
    told = settings.get("pair")
    if told is None:
        if settings.get("dictionary") is not None:
            refuse("dictionary", "none without pair", repr(settings["dictionary"]), "add pair=")
        return None
    if name not in _NATURAL:
        refuse("pair", f"none with {name}", repr(told), f"choose {' or '.join(_NATURAL)}")
    if settings.get("dictionary") is not None and name != "conneau-anchors":
        refuse("dictionary", f"none with {name}", repr(settings["dictionary"]), "leave it out")
    language, colon, path = str(told).partition(":")
    if not colon or not language or not path or language == "eng":
        refuse("pair", "LANGUAGE:FILE, another one than eng", repr(told), "write fra:fra.txt, say")
    return check_name(language, "pair"), path
