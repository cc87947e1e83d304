"""``--config``: options from a file, in the place of those that are not typed; and what was typed,
as a run keeps it."""

import argparse
import copy
from collections.abc import Mapping, Sequence
from typing import Any

from crosslens.cli.spelling import meant
from crosslens.errors import quote, refuse

__all__ = ["asked_by", "loose", "with_config"]

_PATHS = {"DIR", "FILE", "STORE", "ENCODER", "LANGUAGE=FILE", "NAME=FILE"}  # metavars
# what Study and Battery call them
_CALLED = {"encoders": "encoder", "texts": "text", "only": "tasks"}
# of one command, and of no run
_OF_THE_LINE = ("help", "config", "quiet", "json", "restart", "resume", "dry_run", "verb")


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

    values, beside = read_asked(typed["config"], verb)
    actions = {action.dest: action for action in parser._actions if action.dest not in _OF_THE_LINE}
    positions, options = list[str](), list[str]()
    for name, value in values.items():
        dest = _CALLED.get(name, name).replace("-", "_")
        if dest in NEVER:
            refuse(
                typed["config"],
                "no such setting in a file",
                name,
                f"type --{name.replace('_', '-')}, if you trust the code",
            )
        if dest not in actions:
            names = sorted(actions.keys() - NEVER)
            refuse(
                typed["config"],
                f"options of crosslens {verb}",
                quote(name),
                meant(dest, names) or "see its --help",
            )
        if dest in typed or value is None:
            continue
        action = actions[dest]
        given = absolute(value, beside) if action.metavar in _PATHS else value
        texts = _texts(action, given, f"{typed['config']}, {name}")
        if not action.option_strings:
            positions += texts
        elif action.nargs == 0:
            options += texts
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


def asked_by(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> dict[str, Any]:
    """What was typed, as a run keeps it: all but its folder and what belongs to one command
    alone."""
    from crosslens.asked import asked_of

    values = {
        name: value
        for name, value in vars(parsed).items()
        if name not in (*_OF_THE_LINE, "out") and value is not False
    }
    return asked_of(values, {action.dest for action in parser._actions if action.metavar in _PATHS})
