"""The folder that holds data sets, and which of its files a run has read."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from crosslens.files import sha256_file

__all__ = ["Absent", "DataFolder"]


class Absent(Exception):
    """What a task needs is not there; the message says what was looked for."""


class DataFolder:
    """Finds files below a folder, each with or without ``.gz`` behind its name, and remembers which
    were read.

    Parameters
    ----------
    path: of the folder; None where there is none, in which nothing is found.
    treebank: what the names of the treebank's files begin with, where a language has several; None
        to take the language's first.

    Attributes
    ----------
    files: name of each file that was read -> its SHA-256.

    >>> DataFolder(None).path("ud/en_ewt-ud-test.conllu") is None
    True
    """

    def __init__(self, path: str | Path | None, treebank: str | None = None) -> None:
        self.folder = None if path is None else Path(path)
        self.treebank = treebank
        self.files: dict[str, str] = {}
        self._made: dict[Any, Any] = {}

    def path(self, name: str) -> Path | None:
        """One file, or None."""
        if self.folder is None:
            return None
        paths = (self.folder / f"{name}{ending}" for ending in ("", ".gz"))
        return next((path for path in paths if path.is_file()), None)

    def find(self, *names: str) -> list[Path]:
        """These files, noted as read.

        Raises
        ------
        Absent: one of them is not there.
        """
        found = [self.path(name) for name in names]
        missing = [name for name, path in zip(names, found, strict=True) if path is None]
        if missing:
            raise Absent(f"no {', '.join(missing)} (nor .gz) in the data folder")
        return self.note([path for path in found if path is not None])

    def glob(self, *patterns: str) -> list[Path]:
        """The files whose names below the folder fit a pattern, or do so but for ``.gz``, sorted;
        they are not noted."""
        if self.folder is None:
            return []
        every = (
            self.folder.glob(f"{pattern}{ending}") for pattern in patterns for ending in ("", ".gz")
        )
        return sorted({path for some in every for path in some if path.is_file()})

    def note(self, paths: Iterable[str | Path]) -> list[Path]:
        """Remember what was read."""
        found = [Path(path) for path in paths]
        for path in found:
            below = self.folder is not None and path.is_relative_to(self.folder)
            name = (
                path.relative_to(self.folder).as_posix()
                if below and self.folder is not None
                else path.name
            )
            if name not in self.files:
                self.files[name] = sha256_file(path)
        return found

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, which is called for each key but once."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
