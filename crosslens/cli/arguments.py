"""What several verbs take from the command line, declared once, and how it is read."""

import argparse
import math
import re
from collections.abc import Iterable
from typing import Any

from crosslens.errors import refuse

__all__ = [
    "LANGUAGE",
    "add_common",
    "by_language",
    "encoders_by_language",
    "fraction",
    "whole_number",
]

LANGUAGE = re.compile(r"([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*)=(.+)")


def by_language(values: Iterable[str], argument: str) -> dict[str, str]:
    """LANGUAGE=VALUE arguments as a dictionary."""
    found: dict[str, str] = {}
    for value in values:
        match = LANGUAGE.fullmatch(value)
        if match is None:
            refuse(
                argument,
                "LANGUAGE=FILE, such as fra=fra.txt",
                repr(value),
                "put the language's code and = in front",
            )
        if match[1] in found:
            refuse(
                argument,
                "each language once",
                f"{match[1]} twice",
                "give each text its own language code",
            )
        found[match[1]] = match[2]
    return found


def encoders_by_language(values: list[str], languages: Iterable[str]) -> dict[str, str]:
    """The encoder of each language: one ENCODER for all, or LANGUAGE=ENCODER for exactly these."""
    if all(LANGUAGE.fullmatch(value) for value in values):
        found = by_language(values, "--encoder")
        if set(found) != set(languages):
            got = (
                f"encoders for {', '.join(sorted(found))} and texts for "
                f"{', '.join(sorted(languages))}"
            )
            refuse(
                "--encoder",
                "one encoder for all, or exactly one for each text's language",
                got,
                "name an encoder for each text",
            )
        return found
    if len(values) > 1:
        expected = "one encoder, or LANGUAGE=ENCODER for each text"
        refuse("--encoder", expected, " ".join(values), "name the language of each encoder")
    return {"*": values[0]}


def whole_number(text: str) -> int:
    """A seed: a whole number of 32 bits."""
    if not text.isdecimal() or int(text) >= 1 << 32:
        raise argparse.ArgumentTypeError(
            f"a whole number from 0 to {(1 << 32) - 1} is needed, not {text!r}"
        )
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


_COMMON: dict[str, dict[str, Any]] = {
    "encoder": {
        "action": "append",
        "metavar": "ENCODER",
        "help": (
            "model folder or hub name; once for a multilingual encoder, or LANGUAGE=ENCODER for "
            "each language"
        ),
    },
    "text": {
        "action": "extend",
        "nargs": "+",
        "metavar": "LANGUAGE=FILE",
        "help": "line-aligned UTF-8 text, a sentence per line; two or more",
    },
    "out": {
        "metavar": "DIR",
        "help": "folder of the run; the same command goes on with a stopped run",
    },
    "train-fraction": {
        "type": fraction,
        "default": 0.5,
        "metavar": "F",
        "help": "share of the sentences that maps and probes are fitted on (default: %(default)s)",
    },
    "language": {
        "metavar": "NAME",
        "help": (
            "for encoders that are told their input's language (XLM) or have modules of each: "
            "this one (default: each text's own)"
        ),
    },
    "device": {
        "default": "cpu",
        "metavar": "DEVICE",
        "help": "where encoders run: cpu, cuda, cuda:1 or mps (default: cpu)",
    },
    "trust-remote-code": {
        "action": "store_true",
        "help": (
            "run the Python code that comes with the encoder, which can do anything on this machine"
        ),
    },
    "seed": {
        "type": whole_number,
        "default": 0,
        "help": "seed of everything that is drawn (default: %(default)s)",
    },
    "config": {
        "metavar": "FILE",
        "help": (
            "take options from a file: config.json of an earlier run, or TOML or JSON of your "
            "own; those that are typed win"
        ),
    },
    "json": {"action": "store_true", "help": "print JSON lines instead of a table"},
    "quiet": {"action": "store_true", "help": "show no progress"},
}


def add_common(parser: argparse.ArgumentParser, *names: str, **changes: Any) -> None:
    """Options that mean the same in every verb, by their names; ``changes`` are what is particular
    to this one."""
    for name in names:
        parser.add_argument(f"--{name}", **{**_COMMON[name], **changes})
