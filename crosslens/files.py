"""Files that appear whole or not at all, and what a file's content is called.

Everything that the library writes goes through here: the content is written beside
its final place and renamed, so a reader never sees half a file and kill -9 leaves
at most a hidden ``.partial`` that nothing reads and the next run writes over.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
import types
import typing
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, NoReturn

from crosslens.errors import CrosslensError, InputError, OutputError, StoreError, cut, quote, refuse

__all__ = [
    "cannot_write",
    "check_folder",
    "check_name",
    "check_shape",
    "check_writable",
    "claim_folder",
    "fingerprint",
    "lock_file",
    "lock_folder",
    "make_folder",
    "nearest_there",
    "need_space",
    "parse_json",
    "read_json",
    "refuse_begun",
    "remove_folder",
    "same_settings",
    "sha256_file",
    "write_file",
    "write_json",
    "write_whole",
]

_RESTORE = "restore it, or begin in another folder"
_DEEPEST = 100  # brackets within brackets in JSON; what the library writes has a handful
_LONGEST_NUMBER = 308  # digits of a whole number: any such number has a float
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NOTHING = object()  # stands where a key must be and is not
_KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    None: "null",
    type(None): "null",
    list: "a list",
    dict: "an object",
}
# characters, and twice as many bytes: with what is put behind it, it is a file's name everywhere
_LONGEST_NAME = 100


def check_name(value: Any, name: str, error: type[CrosslensError] = InputError) -> str:
    """Return a name that may become part of a path: letters and digits of any script, ``-``, ``_``
    and ``.``.

    It does not begin with a full stop, has no two of them side by side, and has at most 100
    characters (200 bytes of UTF-8). Letters of all scripts are letters, with the marks that belong
    to them: a language may be called by its own name.

    Raises
    ------
    InputError (``error``): it is something else.

    >>> check_name("deu_Latn", "language"), check_name("हिन्दी", "language")
    ('deu_Latn', 'हिन्दी')
    >>> check_name("../../x", "language")
    Traceback (most recent call last):
    ...
    crosslens.errors.InputError: language: expected a name of letters, digits, -, _ and ., got '../../x'; choose a name that a file can have
    """
    whole = isinstance(value, str) and all(
        c in "-_." or unicodedata.category(c)[0] in "LMN" for c in value
    )
    if not whole or not value or value.startswith(".") or ".." in value:
        expected = "a name of letters, digits, -, _ and ."
        refuse(name, expected, quote(value), "choose a name that a file can have", error)
    if len(value) > _LONGEST_NAME or len(value.encode()) > 2 * _LONGEST_NAME:
        expected = f"a name of at most {_LONGEST_NAME} characters"
        refuse(name, expected, quote(value), "choose a shorter one", error)
    return str(value)


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write ``content`` beside ``path``, flush it to disk, and rename it into place."""
    path = Path(path)
    # one name: what a killed run leaves, the next one writes over
    aside = path.with_name(f".{path.name}.partial")
    # a file's name may be no Unicode
    data = content.encode(errors="replace") if isinstance(content, str) else content
    try:
        with open(aside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_file(path: str | Path, content: str | bytes) -> None:
    """:func:`write_whole` of a file that the user has named.

    Raises
    ------
    OutputError: it cannot be written.
    """
    try:
        write_whole(path, content)
    except OSError as error:
        cannot_write(path, error.strerror or error)


def cannot_write(path: str | Path, why: object) -> NoReturn:
    """Refuse a file that the user has named and that cannot be written."""
    got, remedy = f"{path} ({why})", "choose another place or make room"
    refuse("path", "a file that can be written", got, remedy, OutputError)


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON, whole or not at all; what is no Unicode (part of a file's
    name, say) becomes "?"."""
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    """What JSON has no word for: numbers and arrays of numpy as Python's, all else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def read_json(
    path: str | Path,
    shape: Any = dict,
    remedy: str = _RESTORE,
    error: type[CrosslensError] = StoreError,
) -> Any:
    """Read a JSON file, if it holds what the caller builds on.

    Parameters
    ----------
    shape: what it must be, as Python annotates it: ``int``, ``float`` (any number), ``str``,
        ``bool``, ``None``, ``list[...]``, ``dict[str, ...]``, ``A | B``, ``Literal[...]``, ``Any``,
        or a ``TypedDict`` (keys that it does not name may be there).
    remedy: what is left to do where it is something else. error: what is raised then.

    Raises
    ------
    StoreError (``error``): no such file, no JSON, or of another shape; the message names the file
        and the key.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            refuse(
                str(path),
                "a JSON file",
                "a folder" if path.is_dir() else "no ordinary file",
                remedy,
                error,
            )
        content = path.read_bytes()
    except (OSError, ValueError) as fault:
        got = (
            "no such file"
            if isinstance(fault, FileNotFoundError)
            else f"an error ({getattr(fault, 'strerror', None) or fault})"
        )
        refuse(str(path), "a JSON file that can be read", got, remedy, error)
    return parse_json(content, str(path), shape, remedy, error)


def parse_json(
    content: str | bytes,
    where: str,
    shape: Any = dict,
    remedy: str = _RESTORE,
    error: type[CrosslensError] = StoreError,
) -> Any:
    """Read JSON, as :func:`read_json` does; ``where`` is its place (file and line, say), for the
    message.

    >>> parse_json('{"n": 3}', "sizes.json", dict[str, int])
    {'n': 3}
    >>> parse_json('{"n": "3"}', "sizes.json", dict[str, int])
    Traceback (most recent call last):
    ...
    crosslens.errors.StoreError: sizes.json, key n: expected a whole number, got '3'; restore it, or begin in another folder
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_object, parse_int=_integer)
        if text.count("[") + text.count("{") > _DEEPEST:
            _check_depth(value)
        if _SURROGATE.search(text):  # a pair is one character, and half of one is none
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        refuse(where, "JSON", "brackets nested too deeply", remedy, error)
    except UnicodeEncodeError as fault:
        refuse(
            where,
            "JSON",
            f"a lone surrogate (U+{ord(fault.object[fault.start]):04X}) in it",
            remedy,
            error,
        )
    except ValueError as fault:
        got = f"something else ({cut(str(fault), 160)})" if content.strip() else "nothing"
        refuse(where, "JSON", got, remedy, error)
    return check_shape(value, where, shape, remedy, error)


def check_shape(
    value: Any,
    where: str,
    shape: Any,
    remedy: str = _RESTORE,
    error: type[CrosslensError] = StoreError,
) -> Any:
    """Return a value of JSON types that is of a shape; all as for :func:`parse_json`.

    >>> check_shape([1, 2.5], "sizes", list[float])
    [1, 2.5]
    """
    if wrong := _misfit(value, shape):
        key, expected, got = (
            "".join(wrong.key).lstrip("."),
            _expected(wrong.shape),
            _there(wrong.value),
        )
        refuse(f"{where}, key {cut(key)}" if key else where, expected, got, remedy, error)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {quote(twice)} twice")
    return found


def _integer(text: str) -> int | float:
    """A whole number; infinite where it is beyond all floats, as JSON's 1e999 is."""
    return int(text) if len(text) <= _LONGEST_NUMBER else float(text)


def _check_depth(value: Any) -> None:
    """Refuse what is nested so deeply that functions which call themselves would fail on it."""
    inner, depth = [value], 0
    while inner:
        if (depth := depth + 1) > _DEEPEST:
            raise RecursionError
        parts = (one.values() if isinstance(one, dict) else one for one in inner)
        inner = [part for some in parts for part in some if isinstance(part, (dict, list))]


class _Misfit(typing.NamedTuple):
    """A place where a value is not of its shape: the steps to it, its shape and what is there."""

    key: tuple[str, ...]
    shape: Any
    value: Any


class _Key(typing.NamedTuple):
    """A key of a TypedDict: its shape, the types of which any value is of it, and whether it must be
    there."""

    shape: Any
    plain: frozenset[type]
    required: bool


@functools.cache
def _taken_apart(shape: Any) -> tuple[Any, tuple[Any, ...], dict[str, _Key] | None]:
    """Of which kind a value must be, the shape's parts, and of a TypedDict its keys, in the order in
    which they are declared."""
    if not typing.is_typeddict(shape):
        return typing.get_origin(shape) or shape, typing.get_args(shape), None
    hints, required = typing.get_type_hints(shape), shape.__required_keys__
    keys = {name: _Key(hint, _fit_by_type(hint), name in required) for name, hint in hints.items()}
    return dict, (), keys


@functools.cache
def _fit_by_type(shape: Any) -> frozenset[type]:
    """The types of which any value is of the shape: most values are seen to fit by their type."""
    kind, parts, _ = _taken_apart(shape)
    if kind in (types.UnionType, typing.Union):
        return frozenset[type]().union(*map(_fit_by_type, parts))
    if kind is float:
        return frozenset({float, int})
    if kind in (None, type(None)):
        return frozenset({type(None)})
    return frozenset({kind}) if kind in (str, bool) else frozenset()


def _misfit(value: Any, shape: Any) -> _Misfit | None:
    """The first place where a value of JSON is not of the shape."""
    kind, parts, keys = _taken_apart(shape)
    if kind in (types.UnionType, typing.Union):
        misfits = []
        for part in parts:
            if (wrong := _misfit(value, part)) is None:
                return None
            misfits.append(wrong)
        # of the right kind, with something wrong in it
        return next((one for one in misfits if one.key), _Misfit((), shape, value))
    if not _is(value, kind, parts):
        return _Misfit((), shape, value)
    items: Iterator[tuple[str, Any, Any]] = iter(())
    if keys is not None:
        items = (
            (f".{name}", item, key.shape)
            for name, key in keys.items()
            if type(item := value.get(name, _NOTHING)) not in key.plain
            and (key.required or name in value)
        )
    elif kind is dict and parts and parts[1] is not Any:
        plain = _fit_by_type(parts[1])
        items = (
            (f".{name}", item, parts[1]) for name, item in value.items() if type(item) not in plain
        )
    elif kind is list and parts:
        plain = _fit_by_type(parts[0])
        items = (
            (f"[{i}]", item, parts[0]) for i, item in enumerate(value) if type(item) not in plain
        )
    for name, item, part in items:
        if item is _NOTHING:
            return _Misfit((name,), part, item)
        if wrong := _misfit(item, part):
            return wrong._replace(key=(name, *wrong.key))
    return None


def _is(value: Any, kind: Any, choices: tuple[Any, ...]) -> bool:
    if kind is Any:
        return True
    if kind is typing.Literal:
        return any(type(value) is type(choice) and value == choice for choice in choices)
    if kind is float:
        return type(value) in (int, float)
    if kind is int:
        return type(value) is int and abs(value) < 1 << 63
    return value is None if kind in (None, type(None)) else isinstance(value, kind)


def _expected(shape: Any) -> str:
    origin, parts = typing.get_origin(shape), typing.get_args(shape)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(map(_expected, parts)))
    if origin is typing.Literal:
        return " or ".join(map(quote, parts))
    return _KINDS.get(dict if typing.is_typeddict(shape) else origin or shape, "something")


def _there(value: Any) -> str:
    return (
        "nothing"
        if value is _NOTHING
        else _KINDS[type(value)]
        if isinstance(value, (dict, list))
        else "null"
        if value is None
        else quote(value)
    )


def sha256_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(value: Any) -> str:
    """A short name for a value made of JSON types: equal values, equal names.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def make_folder(path: str | Path, argument: str) -> Path:
    """Make a folder (and its parents) and make sure that it can be written to.

    Raises
    ------
    OutputError: it cannot be made or written to.
    """
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:  # nameless, so that a kill leaves nothing
            probe.write(b"crosslens")
    except OSError as error:
        expected = "a folder that can be written to"
        remedy = "choose another folder or make room"
        refuse(argument, expected, f"{path} ({error.strerror})", remedy, OutputError)
    return path


def remove_folder(path: str | Path, names: Set[str]) -> None:
    """Delete a folder that the library has made, if there is one, with files of these names and
    nothing else in it.

    Raises
    ------
    OutputError: it holds something else (names that begin with a dot aside), or it is no folder.
    """
    path = Path(path)
    if path.is_symlink() or path.exists() and not path.is_dir():
        remedy = "move it away, or choose another place"
        refuse(str(path), "a folder, or nothing", "something else", remedy, OutputError)
    there = list(path.iterdir()) if path.exists() else []
    if foreign := [
        one.name
        for one in there
        if one.is_dir() or not one.name.startswith(".") and one.name not in names
    ]:
        got = f"one with {quote(min(foreign))} in it"
        remedy = "move it away, or choose another place"
        refuse(str(path), "a folder that crosslens has made", got, remedy, OutputError)
    shutil.rmtree(path, ignore_errors=True)


def check_writable(path: str | Path) -> None:
    """Refuse a place where no folder can be made, without making one.

    Raises
    ------
    OutputError: a file is in the way, or the nearest folder that is there cannot be written to.
    """
    there = nearest_there(path)
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        expected, got = "a folder that can be written to", f"{there}, which cannot"
        refuse(str(path), expected, got, "choose another folder", OutputError)


def nearest_there(path: str | Path) -> Path:
    """The path itself, or the nearest folder above it that is there.

    Raises
    ------
    OutputError: links on the way lead to each other.
    """
    try:
        above = Path(path).resolve().parents
    except (OSError, RuntimeError) as error:  # the latter before Python 3.13
        remedy = "choose another folder"
        refuse(str(path), "a path to a folder", str(error), remedy, OutputError)
    return next(one for one in (Path(path), *above) if one.exists())


def need_space(folder: str | Path, size: int, argument: str) -> None:
    """Refuse when the disk of ``folder`` (which need not exist yet) has less than ``size`` bytes
    free.

    Raises
    ------
    OutputError: the disk is too full.
    """
    there = nearest_there(folder)
    free = shutil.disk_usage(there).free
    if free < size:
        got = f"{free / 1e6:.1f} MB at {folder}"
        remedy = "free some space or choose another folder; what is finished is kept"
        refuse(argument, f"{size / 1e6:.1f} MB of free disk", got, remedy, OutputError)


def same_settings(
    where: str,
    there: Mapping[str, Any],
    here: Mapping[str, Any],
    remedy: str,
    error: type[CrosslensError] = OutputError,
) -> None:
    """Refuse when two nested settings differ, naming each setting that does with both values.

    >>> same_settings("runs/a", {"seed": 0}, {"seed": 1}, "choose another folder")
    Traceback (most recent call last):
    ...
    crosslens.errors.OutputError: runs/a: expected the same settings, got other ones (seed: 0 there, 1 here); choose another folder
    """
    # as write_json would
    written = (
        json.dumps(one, ensure_ascii=False, default=_plain).encode(errors="replace")
        for one in (there, here)
    )
    first, second = (_flat(json.loads(one)) for one in written)
    differing = [
        key for key in sorted(first.keys() | second.keys()) if first.get(key) != second.get(key)
    ]
    if differing:
        got = "; ".join(
            f"{key}: {quote(first.get(key))} there, {quote(second.get(key))} here"
            for key in differing
        )
        refuse(where, "the same settings", f"other ones ({got})", remedy, error)


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries and lists as one level, keys joined by dots."""
    if isinstance(value, dict) and value:
        return {
            k: v
            for name, item in value.items()
            for k, v in _flat(item, f"{prefix}.{name}" if prefix else str(name)).items()
        }
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return _flat({str(i): item for i, item in enumerate(value)}, prefix)
    return {prefix: value}


def refuse_begun(folder: str | Path) -> NoReturn:
    """Refuse the folder of a run that is begun, as nobody has asked to resume it."""
    remedy = "add --resume to continue it"
    refuse(str(folder), "a new folder", "a run of this recipe", remedy, OutputError)


def free_folder(folder: str | Path, made: Iterable[str], *, new: bool) -> None:
    """Take what a refused run made out of its folder, and, where that was new, the folder.

    Parameters
    ----------
    made: names of files and folders in it. new: the folder was not there before.
    """
    folder = Path(folder)
    for name in (*made, ".lock") if new else made:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name, ignore_errors=True)
        else:
            (folder / name).unlink(missing_ok=True)
    if new:
        with contextlib.suppress(OSError):  # somebody else has put a file there
            folder.rmdir()


def check_folder(folder: str | Path, kind: str, settings: Mapping[str, Any]) -> bool:
    """Whether a folder holds this very run (True) or is free for it (False); nothing is written.

    Raises
    ------
    OutputError: it holds a run of another kind or with other settings, or something that is no run.
    """
    path = Path(folder) / "config.json"
    if path.exists():
        there = read_json(path, Any)
        made_by = (
            there.get("kind")
            if isinstance(there, dict) and isinstance(there.get("settings"), dict)
            else None
        )
        if made_by != kind:
            got = (
                f"one of `crosslens {cut(str(made_by))}`"
                if made_by
                else "a folder with somebody else's config.json"
            )
            expected = f"a run made by `crosslens {kind}`"
            refuse(str(folder), expected, got, "choose another folder", OutputError)
        same_settings(
            str(folder),
            there["settings"],
            settings,
            "choose another folder, or repeat the settings of this run",
        )
        return True
    if Path(folder).is_dir() and any(
        name for name in os.listdir(folder) if not name.startswith(".")
    ):
        expected = "a new folder, or one of a run"
        remedy = "choose another folder"
        refuse(str(folder), expected, "a folder with other files in it", remedy, OutputError)
    return False


def claim_folder(
    folder: str | Path,
    kind: str,
    settings: Mapping[str, Any],
    asked: Mapping[str, Any] | None = None,
) -> bool:
    """Make a run's folder, or come back to it; True when it was there already.

    Parameters
    ----------
    asked: what a new run was asked (:func:`crosslens.asked.asked_of`); it is kept, and not
        compared.

    Raises
    ------
    OutputError: as for :func:`check_folder`; or it cannot be written to.
    """
    there = check_folder(folder, kind, settings)
    make_folder(folder, str(folder))
    if not there:
        write_json(
            Path(folder) / "config.json",
            {"kind": kind, "settings": settings} | ({"asked": asked} if asked else {}),
        )
    return there


_HELD = (errno.EAGAIN, errno.EACCES)  # what the system says of a lock that somebody else has
# and where it has none
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)


@contextlib.contextmanager
def lock_folder(folder: str | Path, *, shared: bool = False) -> Iterator[None]:
    """Keep a second process out of a run's folder; the lock ends with the process, however it ends.

    Parameters
    ----------
    shared: let those in that ask to share it, too.

    Raises
    ------
    OutputError: another process works there.
    """
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    with _locked(Path(folder) / ".lock", str(folder), how):
        yield


@contextlib.contextmanager
def lock_file(path: str | Path, where: str, *, wait: bool = False) -> Iterator[None]:
    """Let nobody else, in this process or in another, hold the same file; it is made, and removed
    at the end.

    The lock ends with the process, however it ends. Where a file system has no locks nobody is kept
    out.

    Parameters
    ----------
    where: what it stands for, for the message.
    wait: until somebody else gives it up.

    Raises
    ------
    OutputError: somebody else holds it.
    """
    with _locked(Path(path), where, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)):
        try:
            yield
        finally:
            # while it is held: whoever has opened it looks again
            Path(path).unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path, where: str, how: int) -> Iterator[None]:
    while True:
        with open(path, "w") as file:
            try:
                fcntl.flock(file, how)
            except OSError as error:
                if error.errno in _HELD:
                    got, remedy = "one with a running crosslens", "wait for it, or choose another"
                    refuse(where, "a folder that nobody else works in", got, remedy, OutputError)
                if error.errno not in _NO_LOCKS:
                    raise
            try:
                same = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                same = False
            if same:
                yield
                return  # else another process has just removed the file that this one has opened
