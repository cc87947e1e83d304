"""What several verbs read from their arguments."""

import argparse
import math
import re
from collections.abc import Iterable

from crosslens.errors import refuse

__all__ = ["LANGUAGE", "by_language", "fraction", "whole_number"]

LANGUAGE = re.compile(r"([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*)=(.+)")


def by_language(values: Iterable[str], argument: str) -> dict[str, str]:
    """LANGUAGE=VALUE arguments as a dictionary."""
    found: dict[str, str] = {}
    for value in values:
        match = LANGUAGE.fullmatch(value)
        if match is None:
            refuse(argument, "LANGUAGE=FILE, such as fra=fra.txt", repr(value), "put the language's code and = in front")
        if match[1] in found:
            refuse(argument, "each language once", f"{match[1]} twice", "give each text its own language code")
        found[match[1]] = match[2]
    return found


def whole_number(text: str) -> int:
    """A seed: a whole number of 32 bits."""
    if not text.isdecimal() or int(text) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"a whole number from 0 to {(1 << 32) - 1} is needed, not {text!r}")
    return int(text)


def fraction(text: str) -> float:
    """A number between 0 and 1, both left out."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"a number between 0 and 1 is needed, not {text!r}")
    return value
