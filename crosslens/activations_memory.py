"""Activations in memory: of a few sentences, or of anybody's arrays. They are read as stored ones
are, and hold the same bits."""

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from crosslens.activation_plan import Block, Plan
from crosslens.activations import DTYPES, Activations, checksum_records
from crosslens.activations_writer import ActivationsWriter
from crosslens.checks import as_array, is_whole, need_memory
from crosslens.errors import quote, refuse
from crosslens.files import check_name

__all__ = ["MemoryWriter", "as_activations"]

_REMEDY = "give out=FOLDER, which keeps them on disk; or fewer layers, or less text"


class _Held(Activations):
    """Activations whose index and arrays are in memory; the index as the very bytes that the file
    would have."""

    def __init__(
        self,
        manifest: dict[str, Any],
        index: pa.Buffer,
        held: Mapping[str, np.ndarray],
        stops: Sequence[int],
    ) -> None:
        self.folder = None
        self._describe(manifest)
        self._index, self._held, self._stops = index, held, stops
        for array in held.values():
            array.flags.writeable = False

    @functools.cached_property
    def fingerprint(self) -> str:
        """A short name for what they are: that of a folder with equal rows and numbers."""
        bounds = list(zip([0, *self._stops[:-1]], self._stops, strict=True)) if self._stops else []
        rows = [
            (stop, *(_digest(self._held[name][start:stop]) for name in self.arrays))
            for start, stop in bounds
        ]
        sums = np.array(rows, checksum_records(self.arrays)).tobytes()
        marks = {
            "index_sha256": hashlib.sha256(self._index).hexdigest(),
            "checksums_sha256": hashlib.sha256(sums).hexdigest(),
        }
        self.manifest |= marks
        return super().fingerprint

    def verify(self) -> None:
        """Nothing: what is in memory has no file that could be damaged."""

    def _array(self, name: str) -> np.ndarray:
        return self._held[name]

    def _open_index(self) -> parquet.ParquetFile:
        return parquet.ParquetFile(pa.BufferReader(self._index))


def _digest(rows: np.ndarray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data).digest()


class MemoryWriter(ActivationsWriter):
    """Takes what an extraction gives into memory, by the steps by which :class:`ActivationsWriter`
    writes it to a folder.

    Parameters
    ----------
    settings, arrays, d, dtype: as for a folder.

    >>> writer = MemoryWriter({}, arrays=["layer_00"], d=2, dtype="float16")
    >>> with writer.plan() as plan:
    ...     plan.add({"id": ["a", "b"]})
    ...     plan.end_block()
    >>> for block in writer.left:
    ...     writer.write(block, {"layer_00": np.arange(4).reshape(2, 2)})
    >>> writer.finish(language="eng").layer(0).tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """

    def __init__(
        self, settings: dict[str, Any], *, arrays: Sequence[str], d: int, dtype: str
    ) -> None:
        self._describe(settings, list(arrays), d, dtype)
        self.scratch = None
        self._index = pa.BufferOutputStream()
        self._states: dict[str, np.ndarray] = {}
        self._done: set[int] = set()

    def close(self) -> None:
        """Nothing: nobody else can write here."""

    def need(self, n: int) -> None:
        """Refuse more than memory holds.

        Raises
        ------
        InputError: n items with all their arrays do not fit.
        """
        what = f"{n:,} items × {len(self.arrays)} arrays × {self.d} of {self.dtype}"
        need_memory(n * len(self.arrays) * self._row, "out", what, _REMEDY)

    @contextlib.contextmanager
    def plan(self, schema: pa.Schema | None = None) -> Iterator[Plan]:
        """Take the index's rows and the blocks' bounds; when the ``with`` ends, memory is taken for
        the arrays.

        Raises
        ------
        InputError: rows do not fit the columns, the last of them are in no block, or memory does
            not hold them.
        """
        plan = Plan(lambda: self._index, "memory", schema)
        yield plan
        self.blocks = plan.end()
        self.need(self.n)
        self._states = {name: np.empty((self.n, self.d), self._numbers) for name in self.arrays}
        self.planned = True

    @property
    def left(self) -> list[Block]:
        """The blocks that are not written yet."""
        return [block for block in self.blocks if block.number not in self._done]

    def index(self, columns: Sequence[str] | None = None) -> dict[str, list[Any]]:
        """The planned items' columns, or some of them, as lists of n values."""
        return parquet.read_table(
            pa.BufferReader(self._index.getvalue()), columns=columns
        ).to_pydict()

    def _put(
        self, block: Block, rows: np.ndarray, states: Iterable[tuple[str, np.ndarray]]
    ) -> None:
        for name, numbers in states:
            self._states[name][block.start + rows] = numbers

    def end(self, block: Block) -> None:
        """Note that all rows of a block are written.

        Raises
        ------
        InputError: another number of rows was put than the block has.
        """
        self._check_end(block)
        self._done.add(block.number)

    def finish(self, **more: Any) -> Activations:
        """The activations, once every block is there.

        Parameters
        ----------
        more: further entries of the manifest.

        Raises
        ------
        InputError: blocks are missing.
        """
        if self.left or not self.planned:
            got = f"{len(self.left)} of {len(self.blocks)} missing"
            refuse("finish", "all blocks written", got, "write them first")
        manifest = {**self.sizes(), **more, "settings": self.settings}
        return _Held(
            manifest, self._index.getvalue(), self._states, [block.stop for block in self.blocks]
        )


def as_activations(
    layers: Any,
    *,
    language: str = "",
    ids: Sequence[str] | None = None,
    unit: str = "",
    encoder: str = "",
) -> Activations:
    """Anybody's vectors as activations, in memory: for ``align``, ``compare`` and ``probe``,
    whoever computed them.

    Parameters
    ----------
    layers: one matrix of shape (n, d); or several, with numbers or counted from 0: row i of each is
        the same item. float16, bfloat16 and float32 stay as they are, other numbers become float32.
        Tensors will do. They are copied.
    language: of the items, an ISO 639-3 code; empty where it does not matter.
    ids: a name for each item, by which rows of two languages are paired; row numbers without it.
    unit: what an item is, "sentence" say.
    encoder: who made the vectors, for tables and reports.

    Raises
    ------
    InputError: no matrix, matrices of several shapes, numbers that float32 does not hold, or
        another number of ids than of rows.

    >>> import numpy as np
    >>> from crosslens import as_activations
    >>> two = as_activations([np.zeros((3, 8)), np.ones((3, 8))], language="eng", unit="sentence")
    >>> two
    Activations(eng, 3 sentences × 8, layers 0–1, float32)
    >>> two.layer(1).sum(axis=1), two.index()
    (array([8., 8., 8.], dtype=float32), {'id': ['0', '1', '2'], 'language': ['eng', 'eng', 'eng']})
    """
    if language:
        check_name(language, "language")
    single = getattr(layers, "ndim", None) == 2 or not np.iterable(layers)
    numbered = (
        layers.items() if isinstance(layers, Mapping) else enumerate([layers] if single else layers)
    )
    found = {number: _matrix(rows, number) for number, rows in numbered}
    kinds = {
        (rows.shape, rows.dtype.name if rows.dtype.name in DTYPES else "float32")
        for rows in found.values()
    }
    if len(kinds) != 1:
        got = " and ".join(sorted(f"{shape} of {dtype}" for shape, dtype in kinds)) or "none"
        expected = "matrices of one shape (n, d) and one type of numbers"
        refuse("layers", expected, got, "give one row per item in every layer")
    (((n, d), dtype),) = kinds
    names = [str(row) for row in range(n)] if ids is None else list(ids)
    if len(names) != n:
        refuse("ids", f"{n} ids, one for each row", str(len(names)), "name every row")
    states = {f"layer_{number:02d}": found[number] for number in sorted(found)}
    writer = MemoryWriter({}, arrays=list(states), d=d, dtype=dtype)
    with writer.plan() as plan:
        plan.add({"id": names, "language": [language] * n})
        plan.end_block()
    writer.write(writer.blocks[0], states)
    told = {"language": language, "unit": unit, "encoder": encoder}
    return writer.finish(**{name: value for name, value in told.items() if value})


def _matrix(value: Any, number: Any) -> np.ndarray:
    """A layer as a matrix of numbers."""
    try:
        rows = as_array(value, f"layers[{number}]")
    except (ValueError, TypeError):  # no array at all
        rows = np.empty(0, object)
    if (
        rows.ndim != 2
        or not (rows.dtype.kind in "fiub" or rows.dtype.name in DTYPES)
        or not rows.shape[1]
    ):
        got = f"shape {rows.shape} of {rows.dtype}" if rows.size else type(value).__name__
        refuse(f"layers[{number}]", "a matrix of numbers of shape (n, d)", got, "one row per item")
    if not is_whole(number) or number < 0:
        remedy = "count from 0, the embedding layer's output"
        refuse("layers", "numbers of layers from 0", quote(number), remedy)
    return rows
