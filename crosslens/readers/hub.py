"""Data sets of the Hugging Face hub by their names, or copies of them in a folder: configurations,
splits and records.

They are read with Hugging Face's library (the extra ``datasets``), which runs no code of a data set
from its version 4 on: Parquet, CSV and JSON are read, loading scripts are refused. What was fetched
once is kept in the library's own cache.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from crosslens.errors import CrosslensError, refuse

__all__ = ["Hub", "HubSet", "Records"]

_T = TypeVar("_T")
_OLDEST = 4  # of the library: those before it run loading scripts


@dataclasses.dataclass(frozen=True, kw_only=True)
class HubSet:
    """Where a task's records are on the hub.

    Attributes
    ----------
    name: of the data set, "Davlan/sib200". columns: those that are read.
    revision: a branch, tag or commit; None for the newest.
    folders: whether configurations are folders of the repository, as on the branch
        ``refs/convert/parquet``, to which the hub converts what has a loading script.
    """

    name: str
    columns: tuple[str, ...]
    revision: str | None = None
    folders: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Records:
    """The n records of one split.

    Attributes
    ----------
    rows: column -> value, for each record.
    place: the split, for messages: "hf:Davlan/sib200/fra_Latn/test".
    revision: the commit that they are of; None for copies in a folder.
    sha256: of the records' columns.
    """

    rows: Sequence[Mapping[str, Any]]
    place: str
    revision: str | None
    sha256: str

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def places(self) -> list[str]:
        """The place of each record, numbered from 0."""
        return [f"{self.place}:{number}" for number in range(len(self))]

    def texts(self, column: str) -> list[str]:
        """A column of text.

        Raises
        ------
        InputError: a value is none; the message names the record.

        >>> Records([{"text": "a dog"}], "hf:x/y/eng/test", None, "").texts("text")
        ['a dog']
        """
        found = [row[column] for row in self.rows]
        for place, value in zip(self.places, found, strict=True):
            if not isinstance(value, str):
                remedy = "give the task's official files instead"
                refuse(place, f"text in the column {column!r}", type(value).__name__, remedy)
        return found


class Hub:
    """The hub, or a folder with copies of its data sets under their names.

    Parameters
    ----------
    copies: the folder, which has ``Davlan/sib200`` and so on, each as it is downloaded; empty for
        the hub itself.

    Raises
    ------
    InputError: there is no such folder, or the library is not installed, or too old.
    """

    def __init__(self, copies: str = "") -> None:
        if copies and not Path(copies).is_dir():
            expected = "hf:, or hf:FOLDER with copies of data sets of the hub"
            refuse("--data", expected, f"hf:{copies}, which is no folder", "check the path")
        self._copies = copies
        self._library = _library()

    def __repr__(self) -> str:
        return f"Hub({self._copies!r})"

    def has(self, one: HubSet) -> bool:
        """Whether a copy is there; of the hub itself that is known when it is asked."""
        return not self._copies or Path(self._path(one)).is_dir()

    def configurations(self, one: HubSet) -> list[str]:
        """Names of its configurations.

        Raises
        ------
        InputError: it cannot be read: no such data set, no connection, a loading script.
        """
        names: list[str] = self._asked(
            one,
            "",
            lambda: self._library.get_dataset_config_names(
                self._path(one), revision=None if self._copies else one.revision
            ),
        )
        return names

    def splits(self, one: HubSet, configuration: str) -> list[str]:
        """Names of a configuration's splits.

        Raises
        ------
        InputError: as for :meth:`configurations`; or no such configuration.
        """
        builder = self._asked(one, configuration, lambda: self._builder(one, configuration))
        return [str(name) for name in builder.config.data_files]

    def read(self, one: HubSet, configuration: str, split: str) -> Records:
        """The records of a split, of which the columns are read that the data set declares.

        Raises
        ------
        InputError: as for :meth:`splits`; no such split or column; or no record.
        """
        place = f"hf:{one.name}/{configuration}/{split}"

        def load() -> tuple[Any, str | None]:
            builder = self._builder(one, configuration)
            builder.download_and_prepare()
            return builder.as_dataset(split=split), None if self._copies else str(builder.hash)

        found, revision = self._asked(one, f"{configuration}/{split}", load)
        if missing := [name for name in one.columns if name not in found.column_names]:
            there = ", ".join(found.column_names)
            got = f"{there}: no {', '.join(missing)}"
            remedy = "give the task's official files instead"
            refuse(place, f"the columns {', '.join(one.columns)}", got, remedy)
        rows = list(found.select_columns(list(one.columns)))
        if not rows:
            refuse(place, "at least one record", "none", "choose other data")
        digest = sha256()
        for row in rows:
            digest.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
        return Records(rows, place, revision, digest.hexdigest())

    def _path(self, one: HubSet) -> str:
        return str(Path(self._copies) / one.name) if self._copies else one.name

    def _builder(self, one: HubSet, configuration: str) -> Any:
        where = {"data_dir": configuration} if one.folders else {"name": configuration}
        return self._library.load_dataset_builder(
            self._path(one), revision=None if self._copies else one.revision, **where
        )

    def _asked(self, one: HubSet, what: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except CrosslensError:
            raise
        # the library has a dozen kinds for a wrong name, and more for the network
        except Exception as error:
            cause = error.__cause__ or error  # what it says itself is that something went wrong
            told = f"{type(cause).__name__}: {' '.join(str(cause).split())}"
            expected = "a data set that can be read"
            remedy = "check name and connection, or give its copy as --data hf:FOLDER"
            refuse(f"hf:{one.name}{f'/{what}' if what else ''}", expected, told, remedy)


def _library() -> Any:
    """Hugging Face's library."""
    try:
        import datasets
    except ImportError:
        remedy = "type: pip install 'crosslens[datasets]'"
        refuse("--data hf:", "the library that reads data sets", "none installed", remedy)
    if int(str(datasets.__version__).split(".")[0]) < _OLDEST:
        refuse(
            "--data hf:",
            f"version {_OLDEST} or later of the library datasets, which runs no loading scripts",
            str(datasets.__version__),
            "type: pip install --upgrade 'crosslens[datasets]'",
        )
    datasets.disable_progress_bars()
    return datasets
