"""What an activation dataset will hold: the rows of its index, and the blocks in which its vectors
are written."""

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from crosslens.errors import OutputError, refuse

__all__ = ["Block", "Plan", "on_disk"]

_GROUP = 1 << 16  # items in a row group of the index: what is held in memory of it


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
    """What the planner wants to know when it writes the block, of JSON types: where its text
    begins, say."""

    def __len__(self) -> int:
        return self.stop - self.start


class Plan:
    """Takes the rows of the index as the text is read; :meth:`ActivationsWriter.plan` gives one.

    Parameters
    ----------
    sink: opens what the index is written to.
    where: what a refusal names. schema: names and types of the columns; without it the first rows
        decide.
    """

    def __init__(
        self, sink: Callable[[], pa.NativeFile], where: str | Path, schema: pa.Schema | None
    ) -> None:
        self.n = 0
        self._open_sink, self._where, self._schema = sink, where, schema
        self._file: parquet.ParquetWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._waiting: dict[str, list[pa.Array]] = {}
        self._written = 0
        self._blocks: list[Block] = []
        self._empty: dict[str, list[Any]] = {}
        if schema is not None:
            self._open(schema)

    def add(self, columns: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
        """Append rows: the same columns in each call, all of one length.

        Raises
        ------
        InputError: other columns than before, columns of different lengths, or a value of another
            type.
        OutputError: the disk is full, or another error of it.
        """
        rows = {
            name: column.tolist() if isinstance(column, np.ndarray) else list(column)
            for name, column in columns.items()
        }
        lengths = {name: len(column) for name, column in rows.items()}
        if not rows or len(set(lengths.values())) > 1:
            remedy = "give each item a value in each column"
            refuse("columns", "columns of one length", str(lengths or "none"), remedy)
        if self._schema is None:
            if not any(lengths.values()):  # no value says of which type a column is
                self._empty = rows
                return
            self._open(_schema_of(rows))
        assert self._schema is not None
        if rows.keys() != self._waiting.keys():
            remedy = "give the same columns each time"
            refuse("columns", ", ".join(self._waiting), ", ".join(rows), remedy)
        for name, column in rows.items():
            # a tenth of what the list takes
            self._waiting[name].append(_array(name, column, self._schema.field(name).type))
        self.n += next(iter(lengths.values()))
        while self.n - self._written >= _GROUP:
            self._write_group()

    def end_block(self, **facts: Any) -> None:
        """Close a block: its rows are those added since the last one. ``facts``, of JSON types,
        stay with it."""
        start = self._blocks[-1].stop if self._blocks else 0
        self._blocks.append(Block(len(self._blocks), start, self.n, json.loads(json.dumps(facts))))

    def _open(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._waiting = {name: [pa.array([], schema.field(name).type)] for name in schema.names}
        with on_disk(self._where):
            self._sink = self._open_sink()
            self._file = parquet.ParquetWriter(self._sink, schema)

    def _write_group(self) -> None:
        """Write the first rows that wait. Groups are of one size, so that the file does not depend
        on how the rows came."""
        assert self._schema is not None and self._file is not None
        waiting = {name: pa.concat_arrays(arrays) for name, arrays in self._waiting.items()}
        # taken: a slice would hold the whole group
        rest = np.arange(_GROUP, len(next(iter(waiting.values()))))
        self._waiting = {name: [array.take(rest)] for name, array in waiting.items()}
        with on_disk(self._where):
            self._file.write_table(
                pa.Table.from_arrays(
                    [array[:_GROUP] for array in waiting.values()], schema=self._schema
                )
            )
        self._written += min(_GROUP, self.n - self._written)

    def end(self) -> list[Block]:
        blocked = self._blocks[-1].stop if self._blocks else 0
        if blocked != self.n:
            got = f"{self.n - blocked} rows behind the last one"
            refuse("plan", "every row in a block", got, "call end_block after them")
        if self._schema is None and self._empty:
            self._open(_schema_of(self._empty))
        if self._file is None:
            refuse("plan", "an index with columns", "none", "add rows, or give a schema")
        if self.n > self._written:
            self._write_group()
        self.close()
        return self._blocks

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with on_disk(self._where):
                file.close()
                # a buffer is not closed: its bytes would be gone
                if isinstance(self._sink, pa.OSFile):
                    self._sink.close()


def _schema_of(rows: Mapping[str, list[Any]]) -> pa.Schema:
    return pa.schema([pa.field(name, _array(name, column).type) for name, column in rows.items()])


def _array(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
    """A column's values, all of one type."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        expected = f"values of type {kind}" if kind else "values of one type"
        refuse(f"columns[{name!r}]", expected, str(error), "give all rows values of it")


@contextlib.contextmanager
def on_disk(where: str | Path) -> Iterator[None]:
    """Turn the operating system's errors into a refusal that says what to do."""
    try:
        yield
    except OSError as error:
        got = os.strerror(error.errno) if error.errno else str(error)  # Arrow has no strerror
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space and run it again" if full else "see to it and run it again"
        expected = "a disk with room for the activations"
        refuse(str(where), expected, got, f"finished blocks are kept; {remedy}", OutputError)
