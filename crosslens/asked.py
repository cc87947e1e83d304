"""What a run was asked, as its ``config.json`` keeps it under ``asked``: enough to ask the same
again, or of other texts.

``settings``, beside it, says by names and fingerprints which folder may be resumed; ``asked`` says
where things lay, and is not compared.
"""

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from crosslens.errors import InputError, cut, quote, refuse
from crosslens.files import parse_json

__all__ = ["NEVER", "absolute", "asked_of", "read_asked"]

NEVER = frozenset({"trust_remote_code"})
"""What is asked each time anew: a file from elsewhere must not make anybody's code run."""


def asked_of(values: Mapping[str, Any], paths: Collection[str]) -> dict[str, Any]:
    """What was asked as plain data: what was not given is left out, and the ``paths`` among the
    values are absolute.

    >>> asked_of({"texts": {"eng": "hf:some/set"}, "limit": None, "trust_remote_code": True}, ["texts"])
    {'texts': {'eng': 'hf:some/set'}}
    """
    kept = {
        name: value
        for name, value in values.items()
        if name not in NEVER and value is not None and value not in ([], {}, ())
    }
    return {name: absolute(value) if name in paths else value for name, value in kept.items()}


def absolute(value: Any, beside: Path = Path()) -> Any:
    """Paths, counted from the folder ``beside``, as absolute ones; what is no path there (the name
    of a model on the hub) stays.

    >>> absolute({"eng": "no/such/file"}), absolute(["eng=/"]), absolute("")
    ({'eng': 'no/such/file'}, ['eng=/'], '')
    """
    if isinstance(value, Mapping):
        return {name: absolute(one, beside) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [absolute(one, beside) for one in value]
    if not isinstance(value, str) or not value or "\0" in value:
        return value
    if (beside / value).exists():
        return str((beside / value).absolute())
    if value.startswith("hf:") and (beside / (copies := value.removeprefix("hf:"))).is_dir():
        return f"hf:{(beside / copies).absolute()}" if copies else value
    name, equals, path = value.partition("=")
    return f"{name}={absolute(path, beside)}" if equals and re.fullmatch(r"[\w-]+", name) else value


def read_asked(path: str | Path, *kinds: str) -> tuple[dict[str, Any], Path]:
    """What a file asks for, and the folder that its relative paths are counted from.

    Parameters
    ----------
    path: the ``config.json`` of a run, or the run's folder; or a TOML or JSON file of options.
        kinds: of runs that will do.

    Raises
    ------
    InputError: there is no such file, it is something else, or of a run of another kind.
    """
    file = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        expected = "config.json of a run, or a TOML or JSON file of options"
        refuse("--config", expected, f"{quote(str(path))}, which is none", "check the path")
    if file.suffix == ".toml":
        try:
            return tomllib.loads(file.read_text(encoding="utf-8")), file.parent
        except (OSError, ValueError, RecursionError) as error:
            remedy = "repair the file"
            refuse(str(file), "a TOML file", f"something else ({cut(str(error), 200)})", remedy)
    values = parse_json(file.read_bytes(), str(file), dict[str, Any], "repair the file", InputError)
    if not (isinstance(values.get("settings"), dict) and "kind" in values):
        return values, file.parent
    if values["kind"] not in kinds:
        got = f"one of `crosslens {cut(str(values['kind']))}`"
        refuse(str(file), f"a run of `crosslens {kinds[0]}`", got, "name another run")
    if not isinstance(values.get("asked"), dict):
        remedy = "give the options themselves"
        refuse(str(file), "a run that says what it was asked", "one of an earlier version", remedy)
    return values["asked"], file.parent
