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
from crosslens.files import lock_file, parse_json, read_json, write_json

__all__ = ["NEVER", "absolute", "asked_of", "keep_asked", "read_asked"]

NEVER = frozenset({"trust_remote_code"})
"""What is asked each time anew: a file from elsewhere must not make anybody's code run."""
_OF_KIND = re.compile(r"(hf:|spacy:|stanza:\w+:)(.+)", re.DOTALL)  # what may name a folder
_KEPT = ("transplant.json", "config.json")  # the first that is there says what a folder was asked


def asked_of(values: Mapping[str, Any], paths: Collection[str]) -> dict[str, Any]:
    """What was asked as plain data: what was not given is left out, and the ``paths`` among the
    values are absolute.

    >>> asked_of({"texts": {"eng": "hf:some/set"}, "limit": None, "trust_remote_code": True}, ["texts"])
    {'texts': {'eng': 'hf:some/set'}}
    """
    kept = {
        name: value
        for name, value in values.items()
        if name not in NEVER
        and value is not None
        and not (isinstance(value, list | dict | tuple) and not value)
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
    if (found := _OF_KIND.fullmatch(value)) and (beside / found[2]).is_dir():
        return f"{found[1]}{(beside / found[2]).absolute()}"
    name, equals, path = value.partition("=")
    return f"{name}={absolute(path, beside)}" if equals and re.fullmatch(r"[\w-]+", name) else value


def keep_asked(
    out: str | Path, kind: str, asked: Mapping[str, Any], files: Collection[str]
) -> None:
    """Keep what was asked in the ``config.json`` of a folder that several calls may write into; the
    last one's, with the files of earlier ones that asked the same of other files.

    A ``config.json`` of another kind is not touched.

    Parameters
    ----------
    kind: the verb. files: names of the values that are lists of LANGUAGE=FILE.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for text in ("eng=a.txt", "fra=b.txt"):
    ...     keep_asked(folder, "derive", {"by": "inversion", "text": [text]}, ["text"])
    >>> read_asked(folder, "derive")[0]
    {'by': 'inversion', 'text': ['eng=a.txt', 'fra=b.txt']}
    """
    with lock_file(Path(out) / ".alone", str(out), wait=True):  # other calls may do the same now
        path, last = Path(out) / "config.json", dict(asked)
        if path.exists():
            there = read_json(path, Any)
            if not isinstance(there, dict) or there.get("kind") != kind:
                return
            before = there.get("asked")
            if isinstance(before, dict) and _but(before, files) == _but(asked, files):
                joined = {name: _joined(before.get(name), asked.get(name)) for name in files}
                languages = [[one.partition("=")[0] for one in given] for given in joined.values()]
                if all(len(set(named)) == len(named) for named in languages):
                    last |= {name: given for name, given in joined.items() if given}
            if last == before:
                return
        write_json(path, {"kind": kind, "settings": {}, "asked": last})


def _but(asked: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in asked.items() if name not in names}


def _joined(before: Any, now: Any) -> list[str]:
    lists = [given for given in (before, now) if isinstance(given, list)]
    return list(dict.fromkeys(str(one) for given in lists for one in given))


def read_asked(path: str | Path, *kinds: str) -> tuple[dict[str, Any], Path]:
    """What a file asks for, and the folder that its relative paths are counted from.

    Parameters
    ----------
    path: the ``config.json`` of a run (``transplant.json`` of a transplant), or its folder; or a
        TOML or JSON file of options.
        kinds: of runs that will do.

    Raises
    ------
    InputError: there is no such file, it is something else, or of a run of another kind.
    """
    file = Path(path)
    if file.is_dir():
        there = (file / name for name in _KEPT)
        file = next((one for one in there if one.is_file()), file / _KEPT[-1])
    if not file.is_file():
        expected = "config.json of a run, or a TOML or JSON file of options"
        refuse("--config", expected, f"{quote(str(path))}, which is none", "check the path")
    if file.suffix == ".toml":
        try:
            return tomllib.loads(file.read_text(encoding="utf-8-sig")), file.parent
        except (OSError, ValueError, RecursionError) as error:
            remedy = "repair the file"
            refuse(str(file), "a TOML file", f"something else ({cut(str(error), 200)})", remedy)
    values = parse_json(file.read_bytes(), str(file), dict[str, Any], "repair the file", InputError)
    if "kind" not in values or not any(
        isinstance(values.get(name), dict) for name in ("settings", "asked")
    ):
        return values, file.parent
    if values["kind"] not in kinds:
        got = f"one of `crosslens {cut(str(values['kind']))}`"
        refuse(str(file), f"a run of `crosslens {kinds[0]}`", got, "name another run")
    if not isinstance(values.get("asked"), dict):
        remedy = "give the options themselves"
        refuse(str(file), "a run that says what it was asked", "one of an earlier version", remedy)
    return values["asked"], file.parent
