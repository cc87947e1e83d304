"""Files that appear whole or not at all, and what a file's content is called.

Everything that the library writes goes through here: the content is written beside
its final place and renamed, so a reader never sees half a file and kill -9 leaves
at most a hidden ``.partial`` that nothing reads and the next run writes over.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crosslens.errors import CrosslensError, OutputError, StoreError, refuse

__all__ = [
    "check_folder",
    "claim_folder",
    "fingerprint",
    "lock_folder",
    "make_folder",
    "need_space",
    "read_json",
    "same_settings",
    "sha256_file",
    "write_json",
    "write_whole",
]


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write ``content`` beside ``path``, flush it to disk, and rename it into place."""
    path = Path(path)
    aside = path.with_name(f".{path.name}.partial")  # one name: what a killed run leaves, the next one writes over
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(aside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON, whole or not at all."""
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file that the library wrote.

    Raises
    ------
    StoreError: the file is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        refuse(str(path), "a JSON file", f"something else ({error})", "restore it, or begin in another folder", StoreError)


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
        probe = path / f".writable.{os.getpid()}"
        try:
            probe.write_bytes(b"crosslens")
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        refuse(argument, "a folder that can be written to", f"{path} ({error.strerror})", "choose another folder or make room", OutputError)
    return path


def need_space(folder: str | Path, size: int, argument: str) -> None:
    """Refuse when the disk of ``folder`` (which need not exist yet) has less than ``size`` bytes free.

    Raises
    ------
    OutputError: the disk is too full.
    """
    there = next(path for path in (Path(folder), *Path(folder).resolve().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < size:
        refuse(
            argument,
            f"{size / 1e6:.1f} MB of free disk",
            f"{free / 1e6:.1f} MB at {folder}",
            "free some space or choose another folder; what is finished is kept",
            OutputError,
        )


def same_settings(
    where: str, there: Mapping[str, Any], here: Mapping[str, Any], remedy: str, error: type[CrosslensError] = OutputError
) -> None:
    """Refuse when two nested settings differ, naming each setting that does with both values.

    >>> same_settings("runs/a", {"seed": 0}, {"seed": 1}, "choose another folder")
    Traceback (most recent call last):
    ...
    crosslens.errors.OutputError: runs/a: expected the same settings, got other ones (seed: 0 there, 1 here); choose another folder
    """
    first, second = _flat(json.loads(json.dumps(there))), _flat(json.loads(json.dumps(here)))
    differing = [key for key in sorted(first.keys() | second.keys()) if first.get(key) != second.get(key)]
    if differing:
        told = "; ".join(f"{key}: {first.get(key)!r} there, {second.get(key)!r} here" for key in differing)
        refuse(where, "the same settings", f"other ones ({told})", remedy, error)


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries and lists as one level, keys joined by dots."""
    if isinstance(value, dict) and value:
        return {k: v for name, item in value.items() for k, v in _flat(item, f"{prefix}.{name}" if prefix else str(name)).items()}
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return _flat({str(i): item for i, item in enumerate(value)}, prefix)
    return {prefix: value}


def check_folder(folder: str | Path, kind: str, settings: Mapping[str, Any]) -> bool:
    """Whether a folder holds this very run (True) or is free for it (False); nothing is written.

    Raises
    ------
    OutputError: it holds a run of another kind or with other settings, or something that is no run.
    """
    path = Path(folder) / "config.json"
    if path.exists():
        there = read_json(path)
        made_by = there.get("kind") if isinstance(there, dict) and "settings" in there else None
        if made_by != kind:
            got = f"one of `crosslens {made_by}`" if made_by else "a folder with somebody else's config.json"
            refuse(str(folder), f"a run made by `crosslens {kind}`", got, "choose another folder", OutputError)
        same_settings(str(folder), there["settings"], settings, "choose another folder, or repeat the settings of this run")
        return True
    if Path(folder).is_dir() and any(name for name in os.listdir(folder) if not name.startswith(".")):
        refuse(str(folder), "a new folder, or one of a run", "a folder with other files in it", "choose another folder", OutputError)
    return False


def claim_folder(folder: str | Path, kind: str, settings: Mapping[str, Any]) -> bool:
    """Make a run's folder, or come back to it; True when it was there already.

    Raises
    ------
    OutputError: as for :func:`check_folder`; or it cannot be written to.
    """
    there = check_folder(folder, kind, settings)
    make_folder(folder, str(folder))
    if not there:
        write_json(Path(folder) / "config.json", {"kind": kind, "settings": settings})
    return there


@contextlib.contextmanager
def lock_folder(folder: str | Path) -> Iterator[None]:
    """Keep a second process out of a run's folder; the lock ends with the process, however it ends.

    Raises
    ------
    OutputError: another process works there.
    """
    with open(Path(folder) / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            refuse(
                str(folder),
                "a folder that nobody else works in",
                "one with a running crosslens",
                "wait for it, or choose another",
                OutputError,
            )
        yield
