"""Where data sets are: a folder of files, or the Hugging Face hub; and what of them a run has
read."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.files import sha256_file
from crosslens.readers.hub import Hub, HubSet, Records

__all__ = ["Absent", "DataFolder", "check_folder"]


class Absent(Exception):
    """What a task needs is not there; the message says what was looked for."""


def check_folder(path: str | Path) -> None:
    """Refuse a folder of data sets that is not there ("hf:" is none).

    Raises
    ------
    InputError: it is no folder.
    """
    if not str(path).startswith("hf:") and not Path(path).is_dir():
        remedy = "name the folder that holds the data sets"
        refuse("--data", "a folder with data sets", str(path), remedy)


class DataFolder:
    """Finds files below a folder, each with or without ``.gz`` behind its name, and remembers which
    were read.

    Parameters
    ----------
    path: of the folder; None where there is none, in which nothing is found; "hf:" for the hub, or
        "hf:FOLDER" for copies of its data sets below a folder, FOLDER/Davlan/sib200 say.
    treebank: what the names of the treebank's files begin with, where a language has several; None
        to take the language's first.

    Attributes
    ----------
    files: name of each file that was read, or of a split of the hub -> its SHA-256.
    revisions: name of each data set of the hub that was read -> its commit; None for a copy.
    hub: None for a folder of files.

    >>> DataFolder(None).path("ud/en_ewt-ud-test.conllu") is None
    True
    """

    def __init__(self, path: str | Path | None, treebank: str | None = None) -> None:
        address = "" if path is None else str(path)
        self.hub = Hub(address.removeprefix("hf:")) if address.startswith("hf:") else None
        self.folder = None if path is None or self.hub is not None else Path(path)
        self.treebank = treebank
        self.files: dict[str, str] = {}
        self.revisions: dict[str, str | None] = {}
        self._noted: dict[str, Path] = {}
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
        if self.hub is not None:
            raise Absent(f"it is read from files ({', '.join(names)}), and not from the hub")
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
            name = self._name_of(path)
            if name not in self.files:
                self.files[name] = sha256_file(path)
        return found

    def _name_of(self, path: Path) -> str:
        """What a file is noted as: its place below the folder, or its name, with as many of the
        folders that it is in as tell it from those that were noted before."""
        whole, names = path.absolute(), list[str]()
        if self.folder is not None and path.is_relative_to(self.folder):
            names.append(path.relative_to(self.folder).as_posix())
        names += ["/".join(whole.parts[-n:]) for n in range(1, len(whole.parts) + 1)]
        return next(name for name in names if self._noted.setdefault(name, whole) == whole)

    def has(self, one: HubSet) -> bool:
        """Whether a data set of the hub can be read: False in a folder of files."""
        return self.hub is not None and self.hub.has(one)

    def configurations(self, one: HubSet) -> list[str]:
        """Names of the configurations of a data set of the hub; none of a copy that is not there,
        or without a hub."""
        if self.hub is None or not self.hub.has(one):
            return []
        hub = self.hub
        names: list[str] = self.once((one.name, "names"), lambda: hub.configurations(one))
        return names

    def records(self, one: HubSet, configuration: str, split: str) -> Records:
        """The records of a split, noted as read.

        Raises
        ------
        Absent: no copy is there.
        """
        if self.hub is None or not self.hub.has(one):
            raise Absent(f"no {one.name} in the folder with copies of the hub's data sets")
        hub, key = self.hub, (one.name, configuration, split)
        found: Records = self.once(key, lambda: hub.read(one, configuration, split))
        self.files[found.place] = found.sha256
        self.revisions[one.name] = found.revision
        return found

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, which is called for each key but once."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
