"""What several verbs take from the command line, declared once, and how it is read: typed, or from
a file (``--config``); and what may have been meant where it was mistyped."""

import argparse
import copy
import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crosslens.errors import quote, refuse

__all__ = [
    "LANGUAGE",
    "add_common",
    "by_language",
    "check_spelling",
    "encoders_by_language",
    "fraction",
    "layer_numbers",
    "loose",
    "meant",
    "names_in",
    "whole_number",
    "with_config",
]

LANGUAGE = re.compile(r"([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*)=(.+)")
# metavars of options whose values are files or folders
_PATHS = {"DIR", "FILE", "ACTIVATIONS", "ENCODER", "LANGUAGE=FILE", "NAME=FILE", "PARSER"}
# what Study and Battery call them
_CALLED = {"encoders": "encoder", "texts": "text", "only": "tasks"}
# of one command, and of no run
_OF_THE_LINE = ("help", "config", "quiet", "json", "restart", "resume", "dry_run", "verb")


def by_language(
    values: Iterable[str], argument: str, form: str = "LANGUAGE=FILE, such as fra=fra.txt"
) -> dict[str, str]:
    """LANGUAGE=VALUE arguments as a dictionary; ``form`` is what they look like."""
    found: dict[str, str] = {}
    for value in values:
        match = LANGUAGE.fullmatch(value)
        if match is None:
            remedy = "put the language's code, of two or three letters, and = in front"
            refuse(argument, form, repr(value), remedy)
        if match[1] in found:
            remedy = "give each text its own language code"
            refuse(argument, "each language once", f"{match[1]} twice", remedy)
        found[match[1]] = match[2]
    return found


def encoders_by_language(values: list[str]) -> dict[str, str]:
    """The encoder of each language, or one for all ("*")."""
    if all(LANGUAGE.fullmatch(value) for value in values):
        return by_language(values, "--encoder")
    if len(values) > 1:
        expected = "one encoder, or LANGUAGE=ENCODER for each text"
        refuse("--encoder", expected, " ".join(values), "name the language of each encoder")
    return {"*": values[0]}


def names_in(text: str | None) -> list[str]:
    """The names of a list with commas, and with spaces behind them or without.

    >>> names_in("svcca, rsa,"), names_in(None)
    (['svcca', 'rsa'], [])
    """
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def whole_number(text: str) -> int:
    """A seed: a whole number of 32 bits."""
    if not text.isdecimal() or int(text) >= 1 << 32:
        raise argparse.ArgumentTypeError(
            f"a whole number from 0 to {(1 << 32) - 1} is needed, not {text!r}"
        )
    return int(text)


def layer_numbers(text: str) -> list[int] | None:
    """The layers of ``--layers``; None for "all".

    >>> layer_numbers("0,4-6,5"), layer_numbers("all")
    ([0, 4, 5, 6], None)
    """
    if text == "all":
        return None
    found: list[int] = []
    for part in text.split(","):
        bounds = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())
        if bounds is None or int(bounds[2] or bounds[1]) < int(bounds[1]):
            expected = 'all, or numbers and ranges such as "0,4-8"'
            refuse("--layers", expected, repr(text), "name the layers so")
        found.extend(range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1))
    return list(dict.fromkeys(found))


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
        "help": "folder of the run; the same command resumes a stopped run",
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
        "help": "seed of everything that is sampled (default: 0)",
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


def with_config(parser: argparse.ArgumentParser, verb: str, line: Sequence[str]) -> list[str]:
    """The arguments of a verb with those of its ``--config`` put in front, but for options that the
    line has itself.

    Raises
    ------
    InputError: the file is none of options, or has one that the verb has not.
    """
    typed = vars(loose(parser).parse_args(list(line)))
    if typed.get("config") is None:
        return list(line)
    from crosslens.asked import NEVER, absolute, read_asked

    values, beside = read_asked(typed["config"], verb.replace("-", "_"))
    actions = {action.dest: action for action in parser._actions if action.dest not in _OF_THE_LINE}
    positions, options = list[str](), list[str]()
    for name, value in values.items():
        dest = _CALLED.get(name, name).replace("-", "_")
        if dest in NEVER:
            remedy = f"type --{name.replace('_', '-')}, if you trust the code"
            refuse(typed["config"], "no such setting in a file", name, remedy)
        if dest not in actions:
            names = sorted(actions.keys() - NEVER)
            remedy = meant(dest, names) or "see its --help"
            refuse(typed["config"], f"options of crosslens {verb}", quote(name), remedy)
        if dest in typed or value is None:
            continue
        action = actions[dest]
        given = absolute(value, beside) if action.metavar in _PATHS else value
        texts = _texts(action, given, f"{typed['config']}, {name}")
        if not action.option_strings:
            positions += texts
        elif action.nargs == 0:
            options += texts
        elif isinstance(action.nargs, int):  # of so many values, which stand side by side
            options += [action.option_strings[0], *texts]
        else:
            options += [f"{action.option_strings[0]}={text}" for text in texts]
    return [*positions, *options, *line]


def loose(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The same arguments, all of which may be missing: it finds what was typed."""
    loose = copy.deepcopy(parser)
    for action in loose._actions:
        action.required, action.default = False, argparse.SUPPRESS
        if not action.option_strings:
            action.nargs = "*"
    return loose


def _texts(action: argparse.Action, value: Any, where: str) -> list[str]:
    """A value as it would be typed."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            refuse(where, "true or false", quote(value), "give one of them")
        name = action.option_strings[0]
        if isinstance(action, argparse.BooleanOptionalAction):
            return [name if value else f"--no-{name[2:]}"]
        return [name] if value else []
    if isinstance(value, Mapping):
        texts = [
            _text(one, where) if name == "*" else f"{name}={_text(one, where)}"
            for name, one in value.items()
        ]
    elif isinstance(value, list) and (
        action.nargs is not None or isinstance(action, argparse._AppendAction)
    ):
        texts = [_text(one, where) for one in value]
    else:
        texts = [_text(value, where)]
    if len(texts) > 1 and action.nargs is None and not isinstance(action, argparse._AppendAction):
        refuse(where, "one value", f"{len(texts)}", "give one")
    return texts


def _text(value: Any, where: str) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        refuse(where, "a text or a number", quote(value), "write it as it would be typed")
    return str(value)


def meant(word: str, known: Iterable[str]) -> str | None:
    """A question after the most alike of the known words; None where none is alike.

    >>> meant("stduy", ["study", "train"]), meant("x", ["study"])
    ('did you mean study?', None)
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else None


def check_spelling(
    parser: argparse.ArgumentParser, verbs: dict[str, argparse.ArgumentParser], line: Sequence[str]
) -> None:
    """End with a refusal that asks after what was meant, where the verb or an option is none but
    looks like one.

    What looks like nothing is left to the parser. An unambiguous beginning of an option is that
    option.
    """
    place = next((i for i, word in enumerate(line) if not word.startswith("-")), None)
    if place is None:
        return
    verb = verbs.get(line[place])
    if verb is None:
        question = meant(line[place], verbs)
        if question:
            parser.error(f"no verb is called {line[place]!r}: {question}")
        return
    known = [name for action in verb._actions for name in action.option_strings]
    for word in line[place + 1 :]:
        name = word.partition("=")[0]
        if word == "--":
            return
        if (
            name.startswith("--")
            and " " not in word
            and not any(one.startswith(name) for one in known)
        ):
            question = meant(name, known)
            if question:
                verb.error(f"no option is called {name}: {question}")
