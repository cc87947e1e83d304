"""Activations on disk: one memory-mapped array per layer, and what they are the activations of.

A store is a folder:

    manifest.json    what was encoded, by what, how; sizes, and a checksum of every other file
    index.parquet    one row per item: id, language, number of pieces, whether it was cut short
    layer_00.npy     (n, d) of layer 0, the embedding layer's output; then layer_01.npy ...

Rows are in the order of the text. While it is being written the folder is called
``NAME.partial`` and a journal in it says which blocks of rows are whole: after
kill -9 the same call goes on behind the last whole block. A store is never half-visible.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from crosslens.errors import OutputError, StoreError, refuse
from crosslens.files import need_space, read_json, same_settings, sha256_file, write_json, write_whole

__all__ = ["Activations", "ActivationsWriter"]

_FORMAT = 1
_HEADER = 128  # bytes that numpy's format puts in front of a matrix
_AGAIN = "delete the store and extract it again"


class Activations:
    """An open store. Opening reads the manifest and the files' sizes; layers are mapped when they are asked for.

    Parameters
    ----------
    folder: the store.

    Raises
    ------
    StoreError: there is no whole store, or a file has not the size that the manifest says.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "manifest.json").exists():
            refuse(str(folder), "a folder of activations", "no manifest.json in it", "extract the activations (again)", StoreError)
        self.manifest: dict[str, Any] = read_json(self.folder / "manifest.json")
        if self.manifest.get("format") != _FORMAT:
            refuse(str(folder), f"format {_FORMAT}", repr(self.manifest.get("format")), "extract the activations again", StoreError)
        self.n, self.d, self.layers = (int(self.manifest[key]) for key in ("n", "d", "layers"))
        self.language: str = self.manifest["language"]
        size = self.n * self.d * np.dtype(self.manifest["dtype"]).itemsize
        for path in (self.folder / _file(layer) for layer in range(self.layers)):
            there = path.stat().st_size if path.exists() else 0
            if there != size + _HEADER:
                refuse(str(path), f"a file of {size + _HEADER} bytes", f"{there} bytes", _AGAIN, StoreError)

    def __len__(self) -> int:
        return self.n

    def layer(self, layer: int) -> np.ndarray:
        """(n, d) of one layer, mapped read-only from disk; 0 is the embedding layer's output, layers - 1 the last.

        Raises
        ------
        InputError: no such layer.
        StoreError: the file is damaged.
        """
        if not 0 <= layer < self.layers:
            refuse("layer", f"a layer from 0 to {self.layers - 1}", repr(layer), "choose one of these")
        path = self.folder / _file(layer)
        try:
            array = np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            refuse(str(path), "an array", str(error), _AGAIN, StoreError)
        if array.shape != (self.n, self.d):
            refuse(str(path), f"shape {(self.n, self.d)}", str(array.shape), _AGAIN, StoreError)
        return array

    def index(self) -> dict[str, list[Any]]:
        """The items' columns: id, language, pieces, truncated.

        Raises
        ------
        StoreError: the file is damaged.
        """
        path = self.folder / "index.parquet"
        try:
            return parquet.read_table(path).to_pydict()
        except (OSError, pa.ArrowException) as error:
            refuse(str(path), "a table of the items", str(error), _AGAIN, StoreError)

    def verify(self) -> None:
        """Compare every file with its checksum.

        Raises
        ------
        StoreError: a file is damaged; the message names it.
        """
        for name, expected in self.manifest["sha256"].items():
            path = self.folder / name
            if not path.exists() or sha256_file(path) != expected:
                got = "another checksum" if path.exists() else "no such file"
                refuse(str(path), "the file that was written", got, _AGAIN, StoreError)


class ActivationsWriter:
    """Writes a store block by block, and goes on where an earlier writer was stopped.

    Parameters
    ----------
    folder: where the store will be.
    settings: what the numbers depend on. A half-written store with other settings is begun anew; ``finished`` refuses a whole one.
    index: columns of the items, each of length n.
    layers, d: number of hidden states and their width.
    dtype: numpy name of the numbers' type on disk.
    block: rows per block.

    Raises
    ------
    OutputError: the folder holds something already, or the disk has no room for the store.
    """

    def __init__(
        self, folder: str | Path, settings: dict[str, Any], index: dict[str, Sequence[Any]], *, layers: int, d: int, dtype: str, block: int
    ) -> None:
        self.folder, self.settings, self.layers, self.d, self.block = Path(folder), settings, layers, d, block
        self.n, self.dtype = len(index["id"]), np.dtype(dtype)
        self._aside = self.folder.with_name(f"{self.folder.name}.partial")
        self._journal = self._aside / "journal.jsonl"
        plan = json.loads(json.dumps({**settings, "n": self.n, "d": d, "layers": layers, "dtype": dtype, "block": block}))
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            refuse(str(folder), "a new or empty folder", "one with files in it", "choose another folder", OutputError)
        if not (self._aside / "plan.json").exists() or read_json(self._aside / "plan.json") != plan:
            self._begin(plan, index)
        whole = [line for line in self._journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
        write_whole(self._journal, "".join(whole))  # a torn last line would run into the next one
        self.done = {json.loads(line)["block"] for line in whole}

    @staticmethod
    def finished(folder: str | Path, settings: dict[str, Any]) -> Activations | None:
        """The finished store of these settings, or None where there is none.

        Raises
        ------
        OutputError: a finished store has other settings; the message says which differ.
        """
        if not (Path(folder) / "manifest.json").exists():
            return None
        store = Activations(folder)
        _tidy(store.folder)
        same_settings(str(folder), store.manifest["settings"], settings, "choose another folder, or delete this one")
        return store

    def _begin(self, plan: dict[str, Any], index: dict[str, Sequence[Any]]) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)
        need_space(self._aside, self.layers * self.n * self.d * self.dtype.itemsize + (1 << 20), str(self.folder))
        self._aside.mkdir(parents=True)
        for layer in range(self.layers):
            # The space is taken now: a disk that fills up later cannot break a half-written store.
            np.lib.format.open_memmap(self._aside / _file(layer), "w+", self.dtype, (self.n, self.d))
            with open(self._aside / _file(layer), "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        parquet.write_table(pa.table({name: pa.array(list(column)) for name, column in index.items()}), self._aside / "index.parquet")
        self._journal.touch()
        write_json(self._aside / "plan.json", plan)

    def blocks(self) -> list[range]:
        """The row ranges that are still to be written."""
        return [range(at, min(at + self.block, self.n)) for at in range(0, self.n, self.block) if at // self.block not in self.done]

    def write(self, rows: range, states: Sequence[np.ndarray]) -> None:
        """Write the block ``rows``: one (len(rows), d) array per layer. When this returns the block is on disk."""
        for layer, state in enumerate(states):
            data = np.ascontiguousarray(state, self.dtype)
            if data.shape != (len(rows), self.d):
                refuse("states", f"shape {(len(rows), self.d)}", str(data.shape), "give one row per item of the block")
            with open(self._aside / _file(layer), "r+b") as file:
                # The array is the end of the file: its rows are counted from there.
                file.seek(-(self.n - rows.start) * self.d * self.dtype.itemsize, os.SEEK_END)
                file.write(data.data)
                file.flush()
                os.fsync(file.fileno())
        with open(self._journal, "a") as journal:
            journal.write(json.dumps({"block": rows.start // self.block}) + "\n")
            journal.flush()
            os.fsync(journal.fileno())
        self.done.add(rows.start // self.block)

    def finish(self, **more: Any) -> Activations:
        """Check that every block is there, add the manifest, and make the store visible under its name."""
        if self.blocks():
            refuse(str(self.folder), "all blocks written", f"{len(self.blocks())} missing", "write them first", StoreError)
        names = [_file(layer) for layer in range(self.layers)] + ["index.parquet"]
        sums = {name: sha256_file(self._aside / name) for name in names}
        sizes = {"n": self.n, "d": self.d, "layers": self.layers, "dtype": str(self.dtype)}
        write_json(self._aside / "manifest.json", {"format": _FORMAT, **sizes, **more, "settings": self.settings, "sha256": sums})
        os.replace(self._aside, self.folder)
        _tidy(self.folder)  # last: until the store stands under its name, a stopped run needs these to go on
        return Activations(self.folder)


def _tidy(folder: Path) -> None:
    """Remove what only an unfinished store needs."""
    for name in ("plan.json", "journal.jsonl"):
        (folder / name).unlink(missing_ok=True)


def _file(layer: int) -> str:
    return f"layer_{layer:02d}.npy"
