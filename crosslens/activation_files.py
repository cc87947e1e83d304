"""Writes a store of activations: the index first, as the text is read, then the vectors, block by block, in any order.

While it is written a store is called ``NAME.partial``. Beside what docs/activations.md describes it holds

    plan.json             what is being written: settings, arrays, d, dtype
    blocks.json           the blocks of rows, and the index's checksum; there once the index is whole and the space is taken
    journal-0.jsonl ...   one file per process: a line for every block that it wrote, with its checksums

Nothing is kept in memory per item, and no block waits to be flushed to disk: kill -9 leaves what was written to
the operating system, and what a failing machine takes away a later run finds by its checksum and writes again.
"""

import contextlib
import errno
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from crosslens.activations import DTYPES, FORMAT, HEADER, Activations, array_header, block_checksum, check_arrays
from crosslens.errors import InputError, OutputError, StoreError, refuse
from crosslens.files import need_space, read_json, same_settings, sha256_file, write_json, write_whole

__all__ = ["ActivationsWriter", "Block", "Plan"]

_FLUSH = 1 << 25  # bytes after which what is written goes to the disk: at the end little is left to wait for
_GROUP = 1 << 16  # items in a row group of the index: what is held in memory of it
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80}  # the bits of infinity, sign aside: numpy's isinf takes seven times as long


@dataclass(frozen=True)
class Block:
    """Rows whose checksums are noted together, once all of them are written."""

    number: int
    """Counted from 0, in the order of the rows."""
    start: int
    """The first row."""
    stop: int
    """The row behind the last."""
    facts: dict[str, Any] = field(default_factory=dict, hash=False)
    """What the planner wants to know when it writes the block, of JSON types: where its text begins, say."""

    def __len__(self) -> int:
        return self.stop - self.start


class ActivationsWriter:
    """Writes a store block by block, and goes on where an earlier writer was stopped.

    Several processes may write one store, each with a rank of its own: the process of rank 0 is constructed and plans first, then
    the others are constructed; a block is written by one of them (``block.number % processes == rank``, say); rank 0 finishes
    when all have written. The store's bytes are the same however many processes wrote it and in whatever order.

    Parameters
    ----------
    folder: where the store will be.
    settings: what the numbers depend on, of JSON types. A half-written store with other settings is begun anew;
        :meth:`finished` refuses a whole one.
    arrays: names of the arrays: layer_00, attention_01, mlp_01 ...
    d: width of each.
    dtype: "float32", "float16" or "bfloat16": the numbers' type on disk.
    rank: number of this process.

    Attributes: ``planned``, whether index and blocks are complete; ``blocks``, all of them; ``aside``, the folder until it is finished.

    Raises
    ------
    InputError: arrays, d or dtype are none.
    OutputError: the folder holds something already, or cannot be written.
    StoreError: rank is not 0 and rank 0 has not planned.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = ActivationsWriter(f"{folder}/store", {}, arrays=["layer_00"], d=2, dtype="float16")
    ...     with writer.plan() as plan:
    ...         plan.add({"id": ["a", "b", "c"], "language": ["eng", "fra", "eng"]})
    ...         plan.end_block()
    ...     for block in writer.left:
    ...         writer.write(block, {"layer_00": np.arange(6).reshape(3, 2)})
    ...     store = writer.finish(language="eng")
    ...     store.layer(0)[store.rows(language="eng")].tolist()
    [[0.0, 1.0], [4.0, 5.0]]
    """

    def __init__(self, folder: str | Path, settings: dict[str, Any], *, arrays: Sequence[str], d: int, dtype: str, rank: int = 0) -> None:
        _check_shape(list(arrays), d, dtype)
        self.folder, self.settings, self.arrays, self.d, self.dtype, self.rank = Path(folder), settings, list(arrays), d, dtype, rank
        self._numbers = DTYPES[dtype][1]
        self._row = d * self._numbers.itemsize  # bytes
        self.aside = self.folder.with_name(f"{self.folder.name}.partial")
        self._wanted = json.loads(json.dumps({"settings": settings, "arrays": self.arrays, "d": d, "dtype": dtype}))
        self.planned, self.blocks, self._index_sha256 = False, list[Block](), ""
        self._rows_put: dict[int, int] = {}  # in blocks that are not at their end
        self._unflushed = 0
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            refuse(str(folder), "a new or empty folder", "one with files in it", "choose another folder", OutputError)
        self._resume()
        if rank and not self.planned:
            refuse(str(folder), "a store that rank 0 has planned", "none", "construct the other ranks after rank 0 has planned", StoreError)
        if self.planned and rank == 0:
            with _disk(self.folder):
                self._keep_whole_blocks()

    @staticmethod
    def finished(folder: str | Path, settings: dict[str, Any]) -> Activations | None:
        """The finished store of these settings, or None where there is none.

        Raises
        ------
        OutputError: a finished store has other settings; the message says which differ.
        StoreError: it is damaged.
        """
        if not (Path(folder) / "manifest.json").exists():
            return None
        store = Activations(folder)
        same_settings(str(folder), store.manifest["settings"], settings, "choose another folder, or delete this one")
        _tidy(store.folder)
        return store

    @property
    def n(self) -> int:
        """Number of rows, 0 before they are planned."""
        return self.blocks[-1].stop if self.blocks else 0

    @property
    def left(self) -> list[Block]:
        """The blocks that no process has written yet; the journals are read for each call."""
        written = self._journalled()
        return [block for block in self.blocks if block.number not in written]

    def index(self, columns: Sequence[str] | None = None) -> dict[str, list[Any]]:
        """The planned items' columns, or some of them, as lists of n values."""
        return parquet.read_table(self.aside / "index.parquet", columns=columns).to_pydict()

    @contextlib.contextmanager
    def plan(self, schema: pa.Schema | None = None) -> Iterator["Plan"]:
        """Begin the store, and take the index's rows and the blocks' bounds from the object that this gives.

        When the ``with`` ends without an error the index is whole, the arrays' space is taken on the disk, and ``planned`` is
        True. After an error nothing is left, and the next run plans again.

        Parameters
        ----------
        schema: names and types of the index's columns; where there is none, the first rows decide.

        Raises
        ------
        InputError: rows do not fit the columns, or the last of them are in no block.
        OutputError: the disk has no room for the store. It is asked before the first vector is computed.
        """
        with _disk(self.folder):
            shutil.rmtree(self.aside, ignore_errors=True)
            self.aside.mkdir(parents=True)
            write_json(self.aside / "plan.json", self._wanted)
        self.planned, self.blocks = False, []
        plan = Plan(self.aside / ".index.parquet.partial", self.folder, schema)
        try:
            try:
                yield plan
                blocks = plan._end()
            finally:
                plan._close()
            with _disk(self.folder):
                os.replace(self.aside / ".index.parquet.partial", self.aside / "index.parquet")
                self._take_space(plan.n)
                found = {"blocks": [asdict(block) for block in blocks], "index_sha256": sha256_file(self.aside / "index.parquet")}
                write_json(self.aside / "blocks.json", found)  # last: it says that all the rest is there
        except BaseException:
            shutil.rmtree(self.aside, ignore_errors=True)  # half a plan serves nobody, and a full disk needs the space
            raise
        self._resume()

    def write(self, block: Block, states: Mapping[str, np.ndarray]) -> None:
        """Write a whole block: one (len(block), d) array for each name in ``arrays``. :meth:`put` and :meth:`end` in one.

        Raises
        ------
        InputError: as for these.
        OutputError: the disk is full, or another error of it.
        """
        self._rows_put.pop(block.number, None)
        self.put(block, np.arange(len(block)), states)
        self.end(block)

    def put(self, block: Block, rows: np.ndarray, states: Mapping[str, np.ndarray]) -> None:
        """Write some rows of a block: one (len(rows), d) array for each name in ``arrays``, converted to the store's type.

        Arrays that have the type already are written as they are, which saves numpy's slow conversion to float16 where the
        caller has a faster one. NaN is written as it comes (a row of NaN is an item without pieces), and so is infinity; a finite
        number that the type on disk cannot hold is refused.

        Parameters
        ----------
        block: one of this store.
        rows: which rows of it, counted from the block's first, none twice. Neighbours that stand side by side are written at once.
        states: their numbers.

        Raises
        ------
        InputError: not a block or not the arrays of this store, rows outside it, another shape, or a number too large.
        OutputError: the disk is full, or another error of it.
        """
        if self.blocks[block.number : block.number + 1] != [block]:
            refuse("block", "a block of this store", str(block), "take blocks from `left`")
        if set(states) != set(self.arrays):
            refuse("states", f"the arrays {', '.join(self.arrays)}", ", ".join(map(str, states)) or "none", "give one array for each name")
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(block):
            refuse("rows", f"numbers from 0 to {len(block) - 1}", f"{rows.min()} to {rows.max()}", "count from the block's first row")
        begins = np.flatnonzero(np.diff(rows, prepend=-2) != 1).tolist()
        runs = [(begin, end, int(rows[begin])) for begin, end in itertools.pairwise([*begins, len(rows)])]
        for name in self.arrays:
            data = self._converted(states[name], len(rows), name).reshape(-1).view(np.uint8)  # bytes: bfloat16 has no buffer of its own
            with _disk(self.folder), open(self.aside / f"{name}.safetensors", "r+b", buffering=0) as file:
                for begin, end, first in runs:
                    _write_at(file.fileno(), data[begin * self._row : end * self._row].data, HEADER + (block.start + first) * self._row)
        self._rows_put[block.number] = self._rows_put.get(block.number, 0) + len(rows)
        self._unflushed += len(self.arrays) * len(rows) * self._row
        if self._unflushed >= _FLUSH:
            self._flush_arrays()

    def end(self, block: Block) -> None:
        """Note that all rows of a block are written, and their checksums. When this returns the block survives the end of this process.

        Raises
        ------
        InputError: another number of rows was put than the block has.
        OutputError: an error of the disk.
        """
        written = self._rows_put.pop(block.number, 0)
        if written != len(block):
            refuse(f"block {block.number}", f"{len(block)} rows written", str(written), "put each row once")
        checksums = {}
        for name in self.arrays:
            with _disk(self.folder), open(self.aside / f"{name}.safetensors", "rb") as file:
                checksums[name] = block_checksum(file, HEADER + block.start * self._row, len(block) * self._row)
        with _disk(self.folder), open(self.aside / f"journal-{self.rank}.jsonl", "a") as journal:
            journal.write(_line(block.number, checksums))

    def finish(self, **more: Any) -> Activations:
        """Check that every block is there, flush everything to disk, add the manifest, and make the store visible under its name.

        Parameters
        ----------
        more: further entries of the manifest, of JSON types: language, unit, encoder, versions ...

        Raises
        ------
        InputError: ``more`` has a name that the manifest uses already.
        OutputError: an error of the disk.
        StoreError: blocks are missing.
        """
        written = self._journalled()
        missing = len(self.blocks) - len(written)
        if missing or not self.planned:
            got = f"{missing} of {len(self.blocks)} missing" if self.planned else "no plan"
            refuse(str(self.folder), "all blocks written", got, "write them first", StoreError)
        sizes = {"format": FORMAT, "n": self.n, "d": self.d, "dtype": self.dtype, "arrays": self.arrays}
        blocks = [{"start": block.start, "stop": block.stop, "sha256": written[block.number][-1]} for block in self.blocks]
        rest = {"settings": self.settings, "index_sha256": self._index_sha256, "blocks": blocks}
        if taken := sorted(more.keys() & {*sizes, *rest}):
            refuse("more", "names that the manifest does not use", ", ".join(taken), "call them otherwise")
        with _disk(self.folder):
            self._flush_arrays()
            write_json(self.aside / "manifest.json", {**sizes, **more, **rest})
            os.replace(self.aside, self.folder)
            _tidy(self.folder)  # last: until the store stands under its name, a stopped run needs these to go on
        return Activations(self.folder)

    def _flush_arrays(self) -> None:
        with _disk(self.folder):
            for name in self.arrays:
                _flush(self.aside / f"{name}.safetensors")
        self._unflushed = 0

    def _resume(self) -> None:
        """Take up a plan that is complete and of the same settings."""
        plan, blocks = self.aside / "plan.json", self.aside / "blocks.json"
        if not plan.exists() or not blocks.exists() or read_json(plan) != self._wanted:
            return
        found = read_json(blocks)
        self.blocks, self._index_sha256 = [Block(**block) for block in found["blocks"]], found["index_sha256"]
        self.planned = (self.aside / "index.parquet").exists() and all(map(self._has_space, self.arrays))
        if not self.planned:
            self.blocks = []

    def _has_space(self, name: str) -> bool:
        path = self.aside / f"{name}.safetensors"
        if not path.exists() or path.stat().st_size != HEADER + self.n * self._row:
            return False
        with open(path, "rb") as file:
            return file.read(HEADER) == array_header(name, self.n, self.d, self.dtype)

    def _take_space(self, n: int) -> None:
        """Make the array files in their full size: a disk that fills up later cannot break a half-written store."""
        size = HEADER + n * self._row
        need_space(self.aside, len(self.arrays) * size + (1 << 20), str(self.folder))
        _flush(self.aside / "index.parquet")
        for name in self.arrays:
            with open(self.aside / f"{name}.safetensors", "wb") as file:
                file.write(array_header(name, n, self.d, self.dtype))
                file.flush()
                os.posix_fallocate(file.fileno(), 0, size)
                os.fsync(file.fileno())

    def _journalled(self) -> dict[int, list[dict[str, str]]]:
        """The blocks that some process has written, each with the checksums that were noted, the latest last; torn lines are left out."""
        found: dict[int, list[dict[str, str]]] = {}
        for journal in sorted(self.aside.glob("journal-*.jsonl")):
            for line in journal.read_text().splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    entry = json.loads(line)
                    checksums = {name: str(entry["sha256"][name]) for name in self.arrays}
                    if 0 <= int(entry["block"]) < len(self.blocks):
                        found.setdefault(int(entry["block"]), []).append(checksums)
        return found

    def _keep_whole_blocks(self) -> None:
        """Compare the blocks of earlier runs with their checksums, and write one journal of those that are whole."""
        journalled, whole = self._journalled(), []
        with contextlib.ExitStack() as stack:
            files = {name: stack.enter_context(open(self.aside / f"{name}.safetensors", "rb")) for name in self.arrays}
            for block in self.blocks:
                noted = journalled.get(block.number, [])
                at, size = HEADER + block.start * self._row, len(block) * self._row
                if noted and (there := {name: block_checksum(file, at, size) for name, file in files.items()}) in noted:
                    whole.append(_line(block.number, there))
        journals = list(self.aside.glob("journal-*.jsonl"))
        write_whole(self.aside / "journal-0.jsonl", "".join(whole))
        for journal in journals:
            if journal.name != "journal-0.jsonl":
                journal.unlink()

    def _converted(self, state: np.ndarray, rows: int, name: str) -> np.ndarray:
        state = np.asarray(state)
        if state.shape != (rows, self.d):
            refuse(f"states[{name!r}]", f"shape {(rows, self.d)}", str(state.shape), "give one row per item")
        if state.dtype.kind not in "fiub" and state.dtype != DTYPES["bfloat16"][1]:
            refuse(f"states[{name!r}]", "real numbers", str(state.dtype), "convert them first")
        with np.errstate(over="ignore"):
            data = np.ascontiguousarray(state, self._numbers)
        if data.dtype != state.dtype and (over := self._infinite(data)).any() and (over := over & np.isfinite(state)).any():
            remedy = {"float16": "use bfloat16 or float32", "bfloat16": "use float32", "float32": "scale the numbers"}[self.dtype]
            limit = {"float16": "65504", "bfloat16": "3.39e38", "float32": "3.40e38"}[self.dtype]
            refuse(f"states[{name!r}]", f"numbers that {self.dtype} holds (up to {limit})", f"{float(state[over][0]):g}", remedy)
        return data

    def _infinite(self, data: np.ndarray) -> np.ndarray:
        if self.dtype == "float32":
            return np.isinf(data)
        return (data.view(np.uint16) & 0x7FFF) == _INFINITY[self.dtype]


def _write_at(file: int, data: memoryview, at: int) -> None:
    while len(data):
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written


class Plan:
    """Takes the rows of the index as the text is read; :meth:`ActivationsWriter.plan` gives one."""

    def __init__(self, path: Path, folder: Path, schema: pa.Schema | None) -> None:
        self.n = 0
        self._path, self._folder, self._schema = path, folder, schema
        self._file: parquet.ParquetWriter | None = None
        self._waiting: dict[str, list[Any]] = {}
        self._blocks: list[Block] = []
        if schema is not None:
            self._open(schema)

    def add(self, columns: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
        """Append rows: the same columns in each call, all of one length.

        Raises
        ------
        InputError: other columns than before, columns of different lengths, or a value of another type.
        OutputError: the disk is full, or another error of it.
        """
        rows = {name: column.tolist() if isinstance(column, np.ndarray) else list(column) for name, column in columns.items()}
        lengths = {name: len(column) for name, column in rows.items()}
        if not rows or len(set(lengths.values())) > 1:
            refuse("columns", "columns of one length", str(lengths or "none"), "give each item a value in each column")
        if self._schema is None:
            self._open(pa.schema([pa.field(name, _array(name, column).type) for name, column in rows.items()]))
        if rows.keys() != self._waiting.keys():
            refuse("columns", ", ".join(self._waiting), ", ".join(rows), "give the same columns each time")
        for name, column in rows.items():
            self._waiting[name] += column
        self.n += next(iter(lengths.values()))
        while len(next(iter(self._waiting.values()))) >= _GROUP:
            self._write_group()

    def end_block(self, **facts: Any) -> None:
        """Close a block: its rows are those added since the last one. ``facts``, of JSON types, stay with it."""
        start = self._blocks[-1].stop if self._blocks else 0
        self._blocks.append(Block(len(self._blocks), start, self.n, json.loads(json.dumps(facts))))

    def _open(self, schema: pa.Schema) -> None:
        self._schema, self._waiting = schema, {name: [] for name in schema.names}
        with _disk(self._folder):
            self._file = parquet.ParquetWriter(self._path, schema)

    def _write_group(self) -> None:
        """Write the first rows that wait. Groups are of one size, so that the file does not depend on how the rows came."""
        assert self._schema is not None and self._file is not None
        arrays = [_array(field.name, self._waiting[field.name][:_GROUP], field.type) for field in self._schema]
        with _disk(self._folder):
            self._file.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        for column in self._waiting.values():
            del column[:_GROUP]

    def _end(self) -> list[Block]:
        blocked = self._blocks[-1].stop if self._blocks else 0
        if blocked != self.n:
            refuse("plan", "every row in a block", f"{self.n - blocked} rows behind the last one", "call end_block after them")
        if self._file is None:
            refuse("plan", "an index with columns", "none", "add rows, or give a schema")
        if any(self._waiting.values()):
            self._write_group()
        self._close()
        return self._blocks

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with _disk(self._folder):
                file.close()


def _array(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
    """A column's values, all of one type."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        refuse(f"columns[{name!r}]", f"values of type {kind}" if kind else "values of one type", str(error), "give all rows values of it")


def _check_shape(arrays: list[str], d: int, dtype: str) -> None:
    if not check_arrays(arrays):
        refuse("arrays", "different names such as layer_00, attention_01 or mlp_01", repr(arrays), "name the arrays so", InputError)
    if d < 1:
        refuse("d", "a positive number of dimensions", repr(d), "give the width of the vectors", InputError)
    if dtype not in DTYPES:
        refuse("dtype", f"one of {', '.join(DTYPES)}", repr(dtype), "choose one of these", InputError)


def _line(number: int, checksums: dict[str, str]) -> str:
    return json.dumps({"block": number, "sha256": checksums}) + "\n"


def _flush(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _tidy(folder: Path) -> None:
    """Remove what only an unfinished store needs."""
    for path in [folder / "plan.json", folder / "blocks.json", *folder.glob("journal-*.jsonl")]:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """Turn the operating system's errors into a refusal that says what to do."""
    try:
        yield
    except OSError as error:
        told = os.strerror(error.errno) if error.errno else str(error)  # Arrow has no strerror
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space and run it again" if full else "see to it and run it again"
        refuse(str(folder), "a disk that takes the store", told, f"finished blocks are kept; {remedy}", OutputError)
