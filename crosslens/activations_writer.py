"""Writes an activation dataset: the index first, as the text is read, then the vectors, block by
block, in any order.

While it is written an activation dataset is called ``NAME.partial``. Beside what
docs/activations.md describes it holds

    plan.json             what is being written: settings, arrays, d, dtype
    blocks.json           the blocks of rows, and the index's checksum; there once the index is
                          whole and the space is taken
    journal-0.jsonl ...   one file per process: a line for every block that it wrote, with its
                          checksums
    earlier.jsonl         what the journals of earlier runs said; each process compares its share of
                          it with what is there

Nothing is kept in memory per item, and no block waits to be flushed to disk: kill -9 leaves what
was written to the operating system, and what a failing machine takes away a later run finds by its
checksum and writes again.
"""

import contextlib
import glob
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from crosslens.activation_place import (
    aside_of,
    check_place,
    has_plan,
    read_blocks,
    refuse_damaged,
    remove_left_locks,
    tidy,
)
from crosslens.activation_plan import Block, Plan, on_disk
from crosslens.activations import (
    DTYPES,
    FORMAT,
    HEADER,
    Activations,
    array_header,
    check_arrays,
    checksum_records,
)
from crosslens.block_files import block_checksums, flush_file, take_space, write_at
from crosslens.errors import InputError, StoreError, refuse
from crosslens.files import (
    lock_file,
    need_space,
    parse_json,
    same_settings,
    sha256_file,
    write_json,
    write_whole,
)
from crosslens.progress import Progress

__all__ = ["ActivationsWriter", "Block", "Plan"]

# bytes after which what is written goes to the disk: at the end little is left to wait for
_FLUSH = 1 << 25
# the bits of infinity, sign aside: numpy's isinf takes seven times as long
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80}


class _Written(TypedDict):
    """A line of a journal."""

    block: int
    sha256: dict[str, str]


class ActivationsWriter:
    """Writes an activation dataset block by block, and resumes where an earlier writer was stopped.

    Several processes may write one activation dataset, each with a rank of its own: the process of
    rank 0 is constructed and plans first, then the others are constructed; each writes its share of
    the blocks (``block.number % processes == rank``); rank 0 finishes when all have written. The
    activation dataset's bytes are the same however many processes wrote it and in whatever order.

    Parameters
    ----------
    folder: where the activation dataset will be.
    settings: what the numbers depend on, of JSON types. An activation dataset with other settings,
        finished or half written, is refused.
    arrays: names of the arrays: layer_00, attention_01, mlp_01 ...
    d: width of each.
    dtype: "float32", "float16" or "bfloat16": the numbers' type on disk.
    rank: number of this process. processes: how many share the blocks.
    restart: delete what an earlier run has left half written, whatever its settings. A finished
        activation dataset stays.

    While a writer is open no other may write there, from this process or another; it is closed when
    the activation dataset is finished, at the end of a ``with`` block, and with the process,
    however that ends.

    Attributes: ``planned``, whether index and blocks are complete; ``blocks``, all of them;
    ``aside``, the folder until it is finished; ``scratch``, where the caller may keep files of its
    own until then.

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

    def __init__(
        self,
        folder: str | Path,
        settings: dict[str, Any],
        *,
        arrays: Sequence[str],
        d: int,
        dtype: str,
        rank: int = 0,
        processes: int = 1,
        restart: bool = False,
    ) -> None:
        self._describe(settings, list(arrays), d, dtype)
        self.folder = Path(folder)
        self.rank, self.processes = rank, processes
        self.aside = aside_of(self.folder)
        self.scratch: Path | None = self.aside
        self._index_sha256 = ""
        self._compared = False  # what earlier runs wrote of this share with its checksums
        self._unflushed = 0
        self._held = contextlib.ExitStack()
        try:
            if rank == 0:
                self._begin(restart)
            elif not self._has_plan():
                expected = "activations that rank 0 has planned"
                remedy = "construct the other ranks after rank 0 has planned"
                refuse(str(folder), expected, "none", remedy, StoreError)
            else:
                self._lock()
                self._read_plan()
        except BaseException:
            self.close()
            raise

    def _describe(self, settings: dict[str, Any], arrays: list[str], d: int, dtype: str) -> None:
        """What is being written; nothing of it is there yet."""
        _check_shape(arrays, d, dtype)
        self.settings, self.arrays, self.d, self.dtype = settings, arrays, d, dtype
        self._numbers = DTYPES[dtype][1]
        self._row = d * self._numbers.itemsize  # bytes
        self._shape = {"arrays": arrays, "d": d, "dtype": dtype}
        self.planned, self.blocks = False, list[Block]()
        self._rows_put: dict[int, int] = {}  # in blocks that are not at their end

    def __enter__(self) -> "ActivationsWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others write here. What is written stays; another writer with the same settings goes
        on with it."""
        self._held.close()

    @staticmethod
    def check(
        folder: str | Path,
        settings: dict[str, Any],
        *,
        arrays: Sequence[str],
        d: int,
        dtype: str,
        restart: bool = False,
    ) -> None:
        """Refuse what the constructor, or :meth:`finished`, would refuse of the place; nothing is
        written and nothing kept from others.

        Raises
        ------
        OutputError: there is an activation dataset of other settings, or something else.
        StoreError: a finished store, or a half-written one, is damaged.
        """
        if ActivationsWriter.finished(folder, settings) is None:
            check_place(
                Path(folder), settings, {"arrays": list(arrays), "d": d, "dtype": dtype}, restart
            )

    @staticmethod
    def finished(
        folder: str | Path, settings: dict[str, Any], *, verify: bool = False
    ) -> Activations | None:
        """The finished activation dataset of these settings, or None where there is none.

        Parameters
        ----------
        verify: read all of it, and compare it with its checksums.

        Raises
        ------
        OutputError: a finished activation dataset has other settings; the message says which
            differ.
        StoreError: it is damaged.
        """
        if not (Path(folder) / "manifest.json").exists():
            return None
        store = Activations(folder)
        same_settings(
            str(folder),
            store.manifest["settings"],
            settings,
            "choose another folder, or delete this one",
        )
        if verify:
            store.verify()
        tidy(Path(folder))
        remove_left_locks(Path(folder))
        return store

    @property
    def n(self) -> int:
        """Number of rows, 0 before they are planned."""
        return self.blocks[-1].stop if self.blocks else 0

    @property
    def left(self) -> list[Block]:
        """The blocks of this process's share that nobody has written yet; the journals are read for
        each call.

        The first call compares what earlier runs have written of the share with its checksums.

        Raises
        ------
        StoreError: the index is not what was written.
        """
        self._compare()
        written = self._journalled()
        return [block for block in self.blocks if self._mine(block) and block.number not in written]

    def _mine(self, block: Block) -> bool:
        return block.number % self.processes == self.rank

    def index(self, columns: Sequence[str] | None = None) -> dict[str, list[Any]]:
        """The planned items' columns, or some of them, as lists of n values."""
        return parquet.read_table(
            pa.OSFile(os.fsencode(self.aside / "index.parquet")), columns=columns
        ).to_pydict()

    @property
    def language(self) -> str | None:
        """What the planned items' text is called; None where they do not say, or there are none."""
        with parquet.ParquetFile(pa.OSFile(os.fsencode(self.aside / "index.parquet"))) as file:
            if "language" not in file.schema_arrow.names:
                return None
            first = next(file.iter_batches(batch_size=1, columns=["language"]), None)
        return None if first is None or not len(first) else str(first["language"][0])

    @contextlib.contextmanager
    def plan(self, schema: pa.Schema | None = None) -> Iterator["Plan"]:
        """Begin the activation dataset, and take the index's rows and the blocks' bounds from the
        object that this gives.

        When the ``with`` ends without an error the index is whole, the arrays' space is taken on
        the disk, and ``planned`` is True. After an error nothing is left, and the next run plans
        again.

        Parameters
        ----------
        schema: names and types of the index's columns; where there is none, the first rows decide.

        Raises
        ------
        InputError: rows do not fit the columns, or the last of them are in no block.
        OutputError: the disk has no room for the store. It is asked before the first vector is
            computed.
        """
        with on_disk(self.folder):
            shutil.rmtree(self.aside, ignore_errors=True)
            self.aside.mkdir(parents=True)
            write_json(self.aside / "plan.json", {"settings": self.settings, **self._shape})
        self.planned, self.blocks = False, []
        # as bytes: a name need not be UTF-8
        place = os.fsencode(self.aside / ".index.parquet.partial")
        plan = Plan(lambda: pa.OSFile(place, "wb"), self.folder, schema)
        try:
            try:
                yield plan
                blocks = plan.end()
            finally:
                plan.close()
            with on_disk(self.folder):
                os.replace(self.aside / ".index.parquet.partial", self.aside / "index.parquet")
                self._take_space(plan.n)
                found = {
                    "blocks": [asdict(block) for block in blocks],
                    "index_sha256": sha256_file(self.aside / "index.parquet"),
                }
                # last: it says that all the rest is there
                write_json(self.aside / "blocks.json", found)
        except BaseException:
            # half a plan serves nobody, and a full disk needs the space
            shutil.rmtree(self.aside, ignore_errors=True)
            raise
        self._read_plan()
        self._compared = True  # there is nothing yet

    def write(self, block: Block, states: Mapping[str, np.ndarray]) -> None:
        """Write a whole block: one (len(block), d) array for each name in ``arrays``. :meth:`put`
        and :meth:`end` in one.

        Raises
        ------
        InputError: as for these.
        OutputError: the disk is full, or another error of it.
        """
        self._rows_put.pop(block.number, None)
        self.put(block, np.arange(len(block)), states)
        self.end(block)

    def put(self, block: Block, rows: np.ndarray, states: Mapping[str, np.ndarray]) -> None:
        """Write some rows of a block: one (len(rows), d) array for each name in ``arrays``,
        converted to the activation dataset's type.

        Arrays that have the type already are written as they are, which saves numpy's slow
        conversion to float16 where the caller has a faster one. NaN is written as it comes (a row
        of NaN is an item without subwords), and so is infinity; a finite number that the type on disk
        cannot hold is refused.

        Parameters
        ----------
        block: one of this store.
        rows: which rows of it, counted from the block's first, none twice. Neighbours that stand
            side by side are written at once.
        states: their numbers.

        Raises
        ------
        InputError: not a block or not the arrays of this activation dataset, rows outside it,
            another shape, or a number too large.
        OutputError: the disk is full, or another error of it.
        """
        if self.blocks[block.number : block.number + 1] != [block]:
            refuse("block", "a block of these activations", str(block), "take blocks from `left`")
        if set(states) != set(self.arrays):
            expected = f"the arrays {', '.join(self.arrays)}"
            got = ", ".join(map(str, states)) or "none"
            refuse("states", expected, got, "give one array for each name")
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(block):
            expected = f"numbers from 0 to {len(block) - 1}"
            got = f"{rows.min()} to {rows.max()}"
            refuse("rows", expected, got, "count from the block's first row")
        self._put(
            block,
            rows,
            ((name, self._converted(states[name], len(rows), name)) for name in self.arrays),
        )
        self._rows_put[block.number] = self._rows_put.get(block.number, 0) + len(rows)

    def _put(
        self, block: Block, rows: np.ndarray, states: Iterable[tuple[str, np.ndarray]]
    ) -> None:
        """Write rows, of the type on disk already, to their places."""
        begins = np.flatnonzero(np.diff(rows, prepend=-2) != 1).tolist()
        runs = [
            (begin, end, int(rows[begin]))
            for begin, end in itertools.pairwise([*begins, len(rows)])
        ]
        for name, numbers in states:
            data = numbers.reshape(-1).view(np.uint8)  # bytes: bfloat16 has no buffer of its own
            with (
                on_disk(self.folder),
                open(self.aside / f"{name}.safetensors", "r+b", buffering=0) as file,
            ):
                for begin, end, first in runs:
                    write_at(
                        file.fileno(),
                        data[begin * self._row : end * self._row].data,
                        HEADER + (block.start + first) * self._row,
                    )
        self._unflushed += len(self.arrays) * len(rows) * self._row
        if self._unflushed >= _FLUSH:
            self._flush_arrays()

    def end(self, block: Block) -> None:
        """Note that all rows of a block are written, and their checksums. When this returns the
        block survives the end of this process.

        Raises
        ------
        InputError: another number of rows was put than the block has.
        OutputError: an error of the disk.
        """
        self._check_end(block)
        with on_disk(self.folder):
            ((_, checksums),) = self._checksums([block])
            with open(self.aside / f"journal-{self.rank}.jsonl", "a") as journal:
                journal.write(_line(block.number, checksums))

    def _check_end(self, block: Block) -> None:
        written = self._rows_put.pop(block.number, 0)
        if written != len(block):
            expected = f"{len(block)} rows written"
            refuse(f"block {block.number}", expected, str(written), "put each row once")

    def finish(self, **more: Any) -> Activations:
        """Check that every block is there, flush everything to disk, add the manifest, and make the
        activation dataset visible under its name.

        Parameters
        ----------
        more: further entries of the manifest, of JSON types: language, unit, encoder, versions ...

        Raises
        ------
        InputError: ``more`` has a name that the manifest uses already.
        OutputError: an error of the disk.
        StoreError: blocks are missing.
        """
        self._compare()
        written = self._journalled()
        missing = len(self.blocks) - len(written)
        if missing or not self.planned:
            got = f"{missing} of {len(self.blocks)} missing" if self.planned else "no plan"
            refuse(str(self.folder), "all blocks written", got, "write them first", StoreError)
        rows = [
            (block.stop, *(bytes.fromhex(written[block.number][name]) for name in self.arrays))
            for block in self.blocks
        ]
        sums = np.array(rows, checksum_records(self.arrays)).tobytes()
        marks = {
            "index_sha256": self._index_sha256,
            "checksums_sha256": hashlib.sha256(sums).hexdigest(),
        }
        sizes, rest = self.sizes(), {"settings": self.settings, **marks}
        if taken := sorted(more.keys() & {*sizes, *rest}):
            expected = "names that the manifest does not use"
            refuse("more", expected, ", ".join(taken), "call them otherwise")
        with on_disk(self.folder):
            self._flush_arrays()
            write_whole(self.aside / "checksums.bin", sums)
            write_json(self.aside / "manifest.json", {**sizes, **more, **rest})
            os.replace(self.aside, self.folder)
            # last: until the dataset stands under its name, a stopped run needs these to resume
            tidy(self.folder)
        self.close()
        return Activations(self.folder)

    def sizes(self) -> dict[str, Any]:
        """What the manifest says of the arrays."""
        return {
            "format": FORMAT,
            "n": self.n,
            "d": self.d,
            "dtype": self.dtype,
            "arrays": self.arrays,
        }

    def _flush_arrays(self) -> None:
        with on_disk(self.folder):
            for name in self.arrays:
                flush_file(self.aside / f"{name}.safetensors")
        self._unflushed = 0

    def _begin(self, restart: bool) -> None:
        """Take the place, and take up the plan that an earlier run has left there."""
        # before anything is made there
        check_place(self.folder, self.settings, self._shape, restart)
        self._lock()
        # somebody else may have been at work until now
        check_place(self.folder, self.settings, self._shape, restart)
        with on_disk(self.folder):
            if restart:
                shutil.rmtree(self.aside, ignore_errors=True)
            if self._has_plan():
                self._read_plan()
                self._mend_arrays()
                self._gather()

    def _lock(self) -> None:
        """A lock for each rank. The first one makes sure that no rank of an earlier run is still at
        work."""
        beside, name = self.folder.parent, f".{self.folder.name}.lock"
        with on_disk(self.folder):
            beside.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(
                lock_file(beside / (f"{name}-{self.rank}" if self.rank else name), str(self.folder))
            )
            for other in () if self.rank else beside.glob(f"{glob.escape(name)}-*"):
                with lock_file(other, str(self.folder)):
                    pass

    def _has_plan(self) -> bool:
        return has_plan(self.folder, self.settings, self._shape)

    def _read_plan(self) -> None:
        self.blocks, self._index_sha256 = read_blocks(self.aside)
        self.planned = True

    def _mend_arrays(self) -> None:
        """Give the array files their size and header again: what they have lost is found by its
        checksum."""
        for name in self.arrays:
            path = self.aside / f"{name}.safetensors"
            header = array_header(name, self.n, self.d, self.dtype)
            whole = path.exists() and path.stat().st_size == HEADER + self.n * self._row
            if whole:
                with open(path, "rb") as file:
                    whole = file.read(HEADER) == header
            if not whole:
                self._make_array(name)

    def _take_space(self, n: int) -> None:
        """Make the array files in their full size: a disk that fills up later cannot break a
        half-written store."""
        need_space(
            self.aside, len(self.arrays) * (HEADER + n * self._row) + (1 << 20), str(self.folder)
        )
        flush_file(self.aside / "index.parquet")
        for name in self.arrays:
            self._make_array(name, n)

    def _make_array(self, name: str, n: int | None = None) -> None:
        """An array's file in its full size; what is in it already stays."""
        n = self.n if n is None else n
        path = self.aside / f"{name}.safetensors"
        path.touch()
        with open(path, "r+b") as file:
            file.write(array_header(name, n, self.d, self.dtype))
            file.flush()
            take_space(file, HEADER + n * self._row)
            os.fsync(file.fileno())

    def _journalled(self) -> dict[int, dict[str, str]]:
        """The blocks that the processes of this run have written or found whole, with their
        checksums."""
        found: dict[int, dict[str, str]] = {}
        for journal in sorted(self.aside.glob("journal-*.jsonl")):
            found |= self._entries(journal)
        return found

    def _entries(self, path: Path) -> Iterator[tuple[int, dict[str, str]]]:
        """Blocks and checksums that a journal names, in order; torn lines are left out."""
        with open(path, "rb") as lines:
            for line in lines:
                with contextlib.suppress(StoreError, KeyError, ValueError):
                    entry: _Written = parse_json(line, str(path), _Written)
                    checksums = {
                        name: bytes.fromhex(entry["sha256"][name]).hex() for name in self.arrays
                    }
                    if 0 <= entry["block"] < len(self.blocks):
                        yield entry["block"], checksums

    def _gather(self) -> None:
        """Put the journals of earlier runs together: their lines are claims until they are compared
        with what is there."""
        journals, earlier = sorted(self.aside.glob("journal-*.jsonl")), self.aside / "earlier.jsonl"
        claims = [
            (number, tuple(sums.items()))
            for path in (earlier, *journals)
            if path.exists()
            for number, sums in self._entries(path)
        ]
        if claims:
            write_whole(
                earlier,
                "".join(_line(number, dict(sums)) for number, sums in dict.fromkeys(claims)),
            )
        for journal in journals:
            journal.unlink()

    def _compare(self) -> None:
        """Compare this share of the blocks of earlier runs with their checksums, and note in the
        journal which are whole."""
        earlier = self.aside / "earlier.jsonl"
        if self._compared or not self.planned:
            return
        if self.rank == 0 and sha256_file(self.aside / "index.parquet") != self._index_sha256:
            refuse_damaged(self.aside, "index.parquet")
        claims: dict[int, list[dict[str, str]]] = {}
        for number, checksums in self._entries(earlier) if earlier.exists() else ():
            if self._mine(self.blocks[number]):
                claims.setdefault(number, []).append(checksums)
        there = [self.blocks[number] for number in sorted(claims)]
        whole = []
        with (
            on_disk(self.folder),
            Progress(
                len(there), f"comparing what is written of {self.folder.name}", "blocks"
            ) as progress,
        ):
            for block, checksums in self._checksums(there):
                if checksums in claims[block.number]:
                    whole.append(_line(block.number, checksums))
                progress.add(1)
            if whole:
                with open(self.aside / f"journal-{self.rank}.jsonl", "a") as journal:
                    journal.writelines(whole)
        self._compared = True

    def _checksums(self, blocks: Sequence[Block]) -> Iterator[tuple[Block, dict[str, str]]]:
        """Blocks with the checksums of what is on the disk."""
        paths = {name: self.aside / f"{name}.safetensors" for name in self.arrays}
        places = ((HEADER + block.start * self._row, len(block) * self._row) for block in blocks)
        for block, (_, sums) in zip(
            blocks, block_checksums(paths, places, self.processes), strict=True
        ):
            yield block, {name: digest.hex() for name, digest in sums.items()}

    def _converted(self, state: np.ndarray, rows: int, name: str) -> np.ndarray:
        state = np.asarray(state)
        if state.shape != (rows, self.d):
            expected = f"shape {(rows, self.d)}"
            refuse(f"states[{name!r}]", expected, str(state.shape), "give one row per item")
        if state.dtype.kind not in "fiub" and state.dtype != DTYPES["bfloat16"][1]:
            refuse(f"states[{name!r}]", "real numbers", str(state.dtype), "convert them first")
        with np.errstate(over="ignore"):
            data = np.ascontiguousarray(state, self._numbers)
        if (
            data.dtype != state.dtype
            and (over := self._infinite(data)).any()
            and (over := over & np.isfinite(state)).any()
        ):
            remedy = {
                "float16": "use bfloat16 or float32",
                "bfloat16": "use float32",
                "float32": "scale the numbers",
            }[self.dtype]
            limit = {"float16": "65504", "bfloat16": "3.39e38", "float32": "3.40e38"}[self.dtype]
            expected = f"numbers that {self.dtype} holds (up to {limit})"
            refuse(f"states[{name!r}]", expected, f"{float(state[over][0]):g}", remedy)
        return data

    def _infinite(self, data: np.ndarray) -> np.ndarray:
        if self.dtype == "float32":
            return np.isinf(data)
        return (data.view(np.uint16) & 0x7FFF) == _INFINITY[self.dtype]


def _check_shape(arrays: list[str], d: int, dtype: str) -> None:
    if not check_arrays(arrays):
        expected = "different names such as layer_00, attention_01 or mlp_01"
        refuse("arrays", expected, repr(arrays), "name the arrays so", InputError)
    if d < 1:
        expected = "a positive number of dimensions"
        refuse("d", expected, repr(d), "give the width of the vectors", InputError)
    if dtype not in DTYPES:
        refuse(
            "dtype", f"one of {', '.join(DTYPES)}", repr(dtype), "choose one of these", InputError
        )


def _line(number: int, checksums: dict[str, str]) -> str:
    return json.dumps({"block": number, "sha256": checksums}) + "\n"
