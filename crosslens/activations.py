"""Activations on disk: one memory-mapped array per layer, and what they are the activations of.

An activation dataset is a folder; docs/activations.md says byte by byte what is in it:

    manifest.json            what was encoded, by what, how; sizes
    checksums.bin            a checksum of every block of rows, read by `verify` alone
    index.parquet            one row per item: its id, language and whatever else the extraction
                             knows of it
    layer_00.safetensors     (n, d) of hidden layer 0, the embedding layer's output; then
                             layer_01.safetensors ...
    attention_01.safetensors, mlp_01.safetensors    where they were asked for: outputs before the
                                                    residual

Rows are in the order of the text. This module reads; ``crosslens.activations_writer`` writes.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import ml_dtypes
import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from crosslens.block_files import block_checksums
from crosslens.data_frames import need_pandas
from crosslens.errors import StoreError, check_choice, cut, quote, refuse
from crosslens.files import check_name, check_shape, fingerprint, read_json, sha256_file
from crosslens.progress import Progress

__all__ = [
    "DTYPES",
    "FORMAT",
    "HEADER",
    "OUTPUTS",
    "Activations",
    "Joined",
    "array_header",
    "check_arrays",
    "checksum_records",
    "join",
]

FORMAT = 3
_OLDER = 2  # has the blocks' checksums in its manifest, in hexadecimal digits
# bytes in front of every array; a multiple of 64, so that mapped rows begin on a cache line
HEADER = 256
DTYPES = {
    "float32": ("F32", np.dtype(np.float32)),
    "float16": ("F16", np.dtype(np.float16)),
    "bfloat16": ("BF16", np.dtype(ml_dtypes.bfloat16)),
}
OUTPUTS = {
    "hidden": "layer",
    "attention": "attention",
    "mlp": "mlp",
    "residual": "residual",
}  # what a layer gives -> how its file's name begins
_ARRAY = re.compile(rf"({'|'.join(OUTPUTS.values())})_(\d{{2,}})")
_AGAIN = "delete the folder and extract again"


def array_header(name: str, n: int, d: int, dtype: str) -> bytes:
    """The 256 bytes in front of an array: a safetensors header of one tensor, padded with
    spaces."""
    code, numbers = DTYPES[dtype]
    fields = {name: {"dtype": code, "shape": [n, d], "data_offsets": [0, n * d * numbers.itemsize]}}
    text = json.dumps(fields, separators=(",", ":")).encode().ljust(HEADER - 8)
    return len(text).to_bytes(8, "little") + text


def checksum_records(arrays: Sequence[str]) -> np.dtype:
    """A record of checksums.bin: the row behind a block's last, and the SHA-256 of the block's
    bytes in each array."""
    return np.dtype([("stop", "<u8"), *((name, "V32") for name in arrays)])


def check_arrays(arrays: Any) -> bool:
    """Whether this is a list of different array names: layer_00, attention_01, mlp_12 ..."""
    if not isinstance(arrays, list) or not all(isinstance(name, str) for name in arrays):
        return False
    found = [_ARRAY.fullmatch(name) for name in arrays]
    named = [f"{match[1]}_{int(match[2]):02d}" for match in found if match]
    return bool(arrays) and named == arrays and len(set(arrays)) == len(arrays)


class _Block(TypedDict):
    start: int
    stop: int
    sha256: dict[str, str]


class _AnyManifest(TypedDict):
    """What manifest.json must hold; further keys say what else the extraction noted."""

    n: int
    d: int
    dtype: Literal["float32", "float16", "bfloat16"]
    arrays: list[str]
    settings: dict[str, Any]
    index_sha256: str
    language: NotRequired[str]
    unit: NotRequired[str]
    encoder: NotRequired[str]
    truncated: NotRequired[int]


class _Manifest(_AnyManifest):
    checksums_sha256: str


class _OlderManifest(_AnyManifest):
    blocks: list[_Block]


class Activations:
    """What an encoder makes of a text: for each layer a matrix with a row per item, and an index of
    the items.

    ``Activations("runs/x/eng")`` opens a folder that ``extract`` has written. That reads the
    manifest and the files' sizes; a layer is mapped from disk when it is asked for, and read when
    it is used. What ``extract`` gives without a folder is held in memory, and is read in the same
    way (:mod:`crosslens.activations_memory`).

    Attributes
    ----------
    n, d: number of items, and of dimensions of each vector.
    layers, layer_numbers: how many hidden layers there are, and which; 0 is the embedding layer's
        output.
    dtype: of the numbers.
    language, unit, encoder: of what, of which items (sentence, word, token, …), by whom; empty
        where that is not known.
    arrays: names of all arrays, in order: hidden layers, and outputs of sub-layers where these were
        asked for.
    folder: where they are stored; None in memory.
    manifest: everything that is recorded of how they came about.

    Parameters
    ----------
    folder: the folder.

    Raises
    ------
    StoreError: there are no whole activations, or a file has not the size that the manifest says.

    >>> import tempfile
    >>> from crosslens import Activations, extract, load_encoder
    >>> from crosslens.recipes.quickstart import DATA
    >>> folder = f"{tempfile.mkdtemp()}/cats"
    >>> stored = extract(load_encoder(DATA / "tiny-encoder"), ["A cat.", "Two cats!"], folder, unit="word", language="eng")
    >>> cats = Activations(folder)
    >>> cats
    Activations(eng, 4 words × 128, layers 0–4, float32)
    >>> cats.layer(4).shape, cats.index(["id", "word"])
    ((4, 128), {'id': ['0', '0', '1', '1'], 'word': ['A', 'cat.', 'Two', 'cats!']})
    >>> cats.rows(word="cat.")
    array([1])
    """

    def __init__(self, folder: str | Path) -> None:
        self._place = Path(folder)
        self.folder: Path | None = self._place
        if not (self._place / "manifest.json").exists():
            got = "no manifest.json in it"
            remedy = "extract the activations (again)"
            refuse(str(folder), "a folder of activations", got, remedy, StoreError)
        self._describe(_read_manifest(self._place / "manifest.json"))
        if self.language:
            check_name(self.language, f"{self._place / 'manifest.json'}, key language", StoreError)
        size = HEADER + self.n * self._row
        for path in map(self._path, self.arrays):
            there = path.stat().st_size if path.is_file() else 0
            if there != size:
                refuse(str(path), f"a file of {size} bytes", f"{there} bytes", _AGAIN, StoreError)

    def _describe(self, manifest: dict[str, Any]) -> None:
        """Take over what the manifest says."""
        self.manifest = manifest
        self.n: int = manifest["n"]
        self.d: int = manifest["d"]
        self.dtype = DTYPES[manifest["dtype"]][1]
        self.arrays: list[str] = manifest["arrays"]
        self.layer_numbers = self._numbers("hidden")
        self.layers = len(self.layer_numbers)
        self.language: str = manifest.get("language", "")
        self.unit: str = manifest.get("unit", "")
        self.encoder: str = manifest.get("encoder", "")
        self._row = self.d * self.dtype.itemsize  # bytes

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        items = {"": "", "type": " word types", "embedding": " word types"}.get(
            self.unit, f" {self.unit}{'s' * (self.n != 1)}"
        )
        kinds = {OUTPUTS[kind]: numbers for kind in OUTPUTS if (numbers := self._numbers(kind))}
        told = [
            f"{kind}{'s' * (kind == 'layer' and len(numbers) > 1)} {_told(numbers, '–')}"
            for kind, numbers in kinds.items()
        ]
        size = f"{self.n:,}{items} × {self.d}"
        return f"Activations({', '.join([*filter(None, [self.language]), size, *told, self.dtype.name])})"

    @property
    def name(self) -> str:
        """What they are called in messages: the folder, or what they are of."""
        return repr(self) if self.folder is None else str(self.folder)

    @property
    def fingerprint(self) -> str:
        """A short name for what is in the activation dataset, as its manifest says: equal names,
        equal rows and numbers."""
        marks = self.manifest["blocks" if self.manifest["format"] == _OLDER else "checksums_sha256"]
        return fingerprint([self.manifest["index_sha256"], marks, self.arrays])

    def layer(self, number: int, output: str = "hidden") -> np.ndarray:
        """(n, d) of one layer, read-only; from a folder it is mapped: nothing is read before it is
        used.

        Parameters
        ----------
        number: of the layer; hidden layer 0 is the embedding layer's output.
        output: "hidden", the layer's result; "attention" or "mlp", what this part of it adds to the
            residual; "residual", what the last layer gives before the final normalisation.

        Raises
        ------
        InputError: the activation dataset has no such array; the message says which it has.
        StoreError: the file is damaged.
        """
        name = f"{OUTPUTS.get(output)}_{number!s:0>2}"
        if name not in self.arrays:
            there = "; ".join(
                f"{kind}: {_told(numbers)}" for kind in OUTPUTS if (numbers := self._numbers(kind))
            )
            remedy = "choose one of these, or extract it"
            refuse("layer", f"one that is stored ({there})", f"{output} {number}", remedy)
        return self._array(name)

    def _array(self, name: str) -> np.ndarray:
        path = self._path(name)
        try:
            self._check_header(name)
            return np.memmap(path, self.dtype, "r", offset=HEADER, shape=(self.n, self.d))
        except (OSError, ValueError) as error:
            refuse(str(path), "an array", str(error), _AGAIN, StoreError)

    @property
    def columns(self) -> list[str]:
        """Names of the index's columns."""
        return list(self._schema(None).names)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The items' columns, or some of them, as an Arrow table of n rows.

        Raises
        ------
        InputError: the index has no such column; the message says which it has.
        StoreError: the file is damaged.
        """
        return pa.Table.from_batches(self._batches(columns), self._schema(columns))

    def index(self, columns: Sequence[str] | None = None) -> dict[str, list[Any]]:
        """The items' columns, or some of them, as lists of n values.

        Raises
        ------
        InputError, StoreError: as for :meth:`table`.
        """
        return self.table(columns).to_pydict()

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """The items' columns, or some of them, as a pandas data frame of n rows: row i is row i of
        every layer.

        Raises
        ------
        InputError: pandas is not installed (the message names the command); or as for
            :meth:`table`.
        StoreError: as for :meth:`table`.
        """
        need_pandas()
        return self.table(columns).to_pandas()

    def rows(self, /, **equal: Any) -> np.ndarray:
        """Sorted row numbers (int64) of the items whose columns equal the values; a list stands for
        any of its values.

        ``store.layer(8)[store.rows(language="fra", word=["bank", "banque"])]`` are their vectors.
        The index is read in
        parts: memory holds one of them and the answer.

        Raises
        ------
        InputError: the index has no such column, or the column's type has no such value.
        StoreError: the file is damaged.
        """
        if not equal:
            return np.arange(self.n)
        wanted = {
            field.name: _values(field, equal[field.name]) for field in self._schema(list(equal))
        }
        found, at = [], 0
        for batch in self._batches(list(equal)):
            masks = [_is_in(batch[name], values, name) for name, values in wanted.items()]
            found.append(at + np.flatnonzero(np.logical_and.reduce(masks)))
            at += len(batch)
        return np.concatenate([np.empty(0, np.int64), *found])

    def blocks(self, rows: int = 1 << 16) -> Iterator[slice]:
        """Slices of at most ``rows`` rows that cover the activation dataset once, in order.

        Raises
        ------
        InputError: rows is not positive.
        """
        if rows < 1:
            refuse("rows", "a positive number of rows", repr(rows), "give at least 1")
        return (slice(at, min(at + rows, self.n)) for at in range(0, self.n, rows))

    def verify(self) -> None:
        """Compare every block of rows of every array, and the index, with their checksums, on
        several threads.

        Raises
        ------
        StoreError: something is damaged; the message names the file, the rows and the checksum.
        """
        path = self._place / "index.parquet"
        if (mark := sha256_file(path) if path.is_file() else "no such file") != self.manifest[
            "index_sha256"
        ]:
            refuse(str(path), f"sha256 {self.manifest['index_sha256']}", mark, _AGAIN, StoreError)
        records = self._records()
        for name in self.arrays:
            self._check_header(name)
        stops = records["stop"].astype(np.int64)
        bounds = (
            list(zip([0, *stops[:-1].tolist()], stops.tolist(), strict=True)) if len(stops) else []
        )
        places = (
            (HEADER + start * self._row, (stop - start) * self._row) for start, stop in bounds
        )
        sums = block_checksums({name: self._path(name) for name in self.arrays}, places)
        with Progress(len(bounds), f"verifying {self._place}", "blocks") as progress:
            for (start, stop), record, (_, got) in zip(bounds, records, sums, strict=True):
                for name in self.arrays:
                    if got[name] != (expected := record[name].tobytes()):
                        where = f"{self._path(name)}, rows {start} to {stop - 1}"
                        refuse(
                            where, f"sha256 {expected.hex()}", got[name].hex(), _AGAIN, StoreError
                        )
                progress.add(1)

    def _records(self) -> np.ndarray:
        """The checksums of the blocks, which together are all rows."""
        path = self._place / (
            "manifest.json" if self.manifest["format"] == _OLDER else "checksums.bin"
        )
        kind = checksum_records(self.arrays)
        try:
            if self.manifest["format"] == _OLDER:
                rows = [
                    (b["stop"], *(bytes.fromhex(b["sha256"][name]) for name in self.arrays))
                    for b in self.manifest["blocks"]
                ]
                records = np.array(rows, kind)
            else:
                content = path.read_bytes()
                if (got := hashlib.sha256(content).hexdigest()) != (
                    expected := self.manifest["checksums_sha256"]
                ):
                    refuse(str(path), f"sha256 {expected}", got, _AGAIN, StoreError)
                records = np.frombuffer(content, kind)
        except (OSError, LookupError, TypeError, ValueError, OverflowError) as error:
            refuse(
                str(path),
                "the checksums of the blocks",
                f"something else ({cut(str(error))})",
                _AGAIN,
                StoreError,
            )
        stops = records["stop"].astype(np.int64)
        if (int(stops[-1]) if len(stops) else 0) != self.n or (np.diff(stops, prepend=0) < 0).any():
            refuse(
                str(path),
                f"blocks of rows that make up the {self.n} rows",
                "other ones",
                _AGAIN,
                StoreError,
            )
        return records

    def _numbers(self, output: str) -> list[int]:
        """Layers of which this output is stored."""
        return sorted(
            int(number)
            for kind, number in (name.split("_") for name in self.arrays)
            if kind == OUTPUTS[output]
        )

    def _path(self, name: str) -> Path:
        return self._place / f"{name}.safetensors"

    def _check_header(self, name: str) -> None:
        expected = array_header(name, self.n, self.d, self.manifest["dtype"])
        path = self._path(name)
        got = b""
        if path.is_file():
            with open(path, "rb") as file:
                got = file.read(HEADER)
        if got != expected:
            told = (
                repr(got[8:].decode("latin-1").rstrip()) if got else "no such file, or an empty one"
            )
            refuse(
                str(path), f"the header {expected[8:].decode().rstrip()}", told, _AGAIN, StoreError
            )

    def _open_index(self) -> parquet.ParquetFile:
        path = self._place / "index.parquet"
        try:
            # as bytes: a name need not be UTF-8
            file = parquet.ParquetFile(pa.OSFile(os.fsencode(path)))
        except (OSError, pa.ArrowException) as error:
            refuse(str(path), "a table of the items", str(error), _AGAIN, StoreError)
        if file.metadata.num_rows != self.n:
            refuse(str(path), f"{self.n} rows", str(file.metadata.num_rows), _AGAIN, StoreError)
        return file

    def _schema(self, columns: Sequence[str] | None) -> pa.Schema:
        """Names and types of the index's columns, or of some of them."""
        with self._open_index() as file:
            there = file.schema_arrow
        for name in columns or ():
            check_choice(name, "column", there.names, "choose columns of the index")
        return there if columns is None else pa.schema([there.field(name) for name in columns])

    def _batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The index part by part, its columns in the order that was asked for."""
        names = self._schema(columns).names
        with self._open_index() as file:
            try:
                for batch in file.iter_batches(columns=names):
                    yield batch.select(names)
            except (OSError, pa.ArrowException) as error:
                expected = "a table of the items"
                refuse(str(self._place / "index.parquet"), expected, str(error), _AGAIN, StoreError)


@dataclass(frozen=True)
class Joined:
    """Which rows of several activation datasets belong together."""

    rows: list[np.ndarray]
    """For each activation dataset its row numbers (int64): row i of each is the same item."""
    left_out: list[int]
    """For each activation dataset how many of its items are not in all of the others."""


def join(stores: Sequence[Activations], on: str = "id") -> Joined:
    """Row numbers of every activation dataset such that row i of each has the same value in the
    index column ``on``.

    Items are in the order of the first activation dataset; those that are not in all activation
    datasets are left out and counted.

    Parameters
    ----------
    stores: at least one.
    on: a column in which an activation dataset has no value twice.

    Raises
    ------
    InputError: no activation dataset, a value that occurs twice (the message names it), an item
        without a value, or columns of types that cannot be compared.

    >>> import numpy as np
    >>> from crosslens import as_activations, join
    >>> eng = as_activations(np.arange(6).reshape(3, 2), ids=["a", "b", "c"])
    >>> fra = as_activations(np.arange(4).reshape(2, 2), ids=["c", "a"])
    >>> both = join([eng, fra])
    >>> [rows.tolist() for rows in both.rows], both.left_out
    ([[0, 2], [1, 0]], [1, 0])
    """
    if not stores:
        refuse("stores", "activations of at least one text", "none", "give the activations to join")
    keys = [_keys(store, on) for store in stores]
    rows = [np.arange(len(keys[0]))]
    for store, key in zip(stores[1:], keys[1:], strict=True):
        if (
            pa.types.is_large_string(key.type) != pa.types.is_large_string(keys[0].type)
            and len(key)
            and len(keys[0])
        ):
            got = f"{key.type} in {store.name}"  # Arrow would find the number 1 in the word "1"
            expected = f"values of type {keys[0].type} as in {stores[0].name}"
            refuse(on, expected, got, "join activations whose items are named alike")
        found = (
            compute.index_in(keys[0], value_set=key)
            if len(key) and len(keys[0])
            else pa.nulls(len(keys[0]), pa.int32())
        )
        rows.append(found.fill_null(-1).to_numpy().astype(np.int64))
    kept = np.logical_and.reduce([numbers >= 0 for numbers in rows])
    rows = [numbers[kept] for numbers in rows]
    return Joined(
        rows, [len(store) - len(numbers) for store, numbers in zip(stores, rows, strict=True)]
    )


def _keys(store: Activations, on: str) -> pa.Array:
    """A column of an activation dataset's index that names each item once."""
    column = _plain(store.table([on])[on])
    if pa.types.is_string(column.type):
        # strings of more than 2 GB do not fit into one array otherwise
        column = column.cast(pa.large_string())
    keys = column.combine_chunks()
    if keys.null_count:
        expected = f"a value for every item of {store.name}"
        refuse(on, expected, f"none in {keys.null_count}", "join on another column")
    try:
        counts = compute.value_counts(keys)
    except pa.ArrowNotImplementedError:
        expected = "a column of words or numbers"
        refuse(on, expected, f"{keys.type} in {store.name}", "join on another column")
    twice = counts.filter(compute.greater(counts.field("counts"), 1))
    if len(twice):
        got = f"{twice[0]['values'].as_py()!r} in {twice[0]['counts'].as_py()} of them"
        expected = f"a value of its own for every item of {store.name}"
        refuse(on, expected, got, "join on a column that names each item once")
    return keys


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column without the dictionary that its values may be written with."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _values(field: pa.Field, values: Any) -> pa.Array:
    """One or several values as an array of a column's type."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    several = list(values) if isinstance(values, (list, tuple, set, frozenset, range)) else [values]
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    try:
        array = pa.array(several, kind)
        if pa.types.is_integer(kind) and array.to_pylist() != several:  # 1.5 has become 1
            raise TypeError
        return array
    except (pa.ArrowException, TypeError, OverflowError):
        remedy = "compare the column with values of its own type"
        refuse(field.name, f"values of type {kind}", repr(values), remedy)


def _is_in(column: pa.Array, values: pa.Array, name: str) -> np.ndarray:
    """For each item of a column whether it is one of the values."""
    try:
        return compute.is_in(_plain(column), value_set=values).to_numpy(zero_copy_only=False)
    except pa.ArrowNotImplementedError:
        remedy = "choose items by another column, or by the index"
        refuse(name, "a column of words or numbers", str(column.type), remedy)


def _told(numbers: Sequence[int], to: str = "-") -> str:
    """Numbers as people write them: 0-12, or 0, 4, 8."""
    if len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}{to}{numbers[-1]}"
    return ", ".join(map(str, numbers))


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest, after a look at everything that the reader builds on."""
    manifest: dict[str, Any] = read_json(path, dict, _AGAIN)
    there = manifest.get("format")
    if there not in (FORMAT, _OLDER):
        remedy = "extract the activations again"
        refuse(str(path.parent), f"format {FORMAT} or {_OLDER}", quote(there), remedy, StoreError)
    check_shape(manifest, str(path), _OlderManifest if there == _OLDER else _Manifest, _AGAIN)
    whole = {
        "n": manifest["n"] >= 0,
        "d": manifest["d"] > 0,
        "arrays": check_arrays(manifest["arrays"]),
    }
    for key in (key for key, is_whole in whole.items() if not is_whole):
        wanted = "names such as layer_00, each once" if key == "arrays" else "a size"
        refuse(f"{path}, key {key}", wanted, quote(manifest[key]), _AGAIN, StoreError)
    return manifest
