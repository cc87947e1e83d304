"""Outcomes per item: what each measurement of a run was counted from, kept in one column file
beside ``scores.jsonl``.

``RUN/outcomes.parquet`` has a row per measurement and test item (columns: :data:`COLUMNS`). Items
have names that follow from what they are, so that two runs can be compared on the items that both
have, and groups, since words of one sentence are no independent items.

    read_outcomes    run -> the measurements that are asked for, each with its items
    pair_outcomes    two of them -> their outcomes on the items that both have
"""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Shaped

from crosslens.data_frames import need_pandas
from crosslens.errors import StoreError, check_choice, refuse
from crosslens.files import write_whole

__all__ = [
    "COLUMNS",
    "FILE",
    "Outcomes",
    "item_ids",
    "join_outcomes",
    "pair_outcomes",
    "read_outcomes",
    "shared_ratings",
    "sums_by_group",
    "write_outcomes",
]

FILE = "outcomes.parquet"
"""What the file is called in a run's folder."""

_TEXT = pa.dictionary(pa.int32(), pa.string())
_KEY = {
    "task": _TEXT,
    "suite": _TEXT,
    "part": _TEXT,
    "method": _TEXT,
    "representation": _TEXT,
    "encoder": _TEXT,
    "condition": _TEXT,
    "layer": pa.int32(),
    "seed": pa.int64(),
    "quantity": _TEXT,
    "source": _TEXT,
    "target": _TEXT,
}
_ITEM = {
    "item": pa.int32(),
    "item_id": _TEXT,
    "group": _TEXT,
    "outcome": pa.float64(),
    "gold": _TEXT,
    "predicted": _TEXT,
    "of": pa.float64(),
}
COLUMNS = (*_KEY, *_ITEM)
"""The columns of the file: which measurement (null where a field does not apply), then which item
and what came of it."""

_SCHEMA = pa.schema({**_KEY, **_ITEM})
_NEW = ("source", "target", "of")  # files of earlier runs lack the last of them, or all
_ALWAYS = ("task", "quantity", "item", "item_id", "group", "outcome")  # never null
# Above the usual limit of 1 MB names would be written out row by row.
_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "dictionary_pagesize_limit": 64 << 20,
    "write_page_checksum": True,
}


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Outcomes:
    """One measurement, item by item.

    Attributes
    ----------
    task, suite, part, method, representation, encoder, condition, layer, seed, source, target:
        which measurement, as in :class:`crosslens.score.Score` (source is the language of training,
        target that of the items) and its details; None where a field does not apply.
    quantity: what is averaged or correlated: accuracy, uuas, root_accuracy (outcomes 1 and 0) or
        spearman (outcomes are cosines, or numbers that a probe answered).
    item: shape (n,), the item's position among the test items, from 0.
    item_id: shape (n,), names that follow from what the items are (:func:`item_ids`); each once.
    group: shape (n,), the sentence, paragraph or document that the item belongs to; items of one
        group are not independent.
    outcome: shape (n,), 1 right and 0 wrong (their mean where several seeds were measured), a
        cosine or a number; NaN where not measured.
    gold, predicted: shape (n,), the label (of similarities the rating, of numbers the number, as
        text) and the answer; None where there are none.
    of: shape (n,), what the outcome is a share of, where items count differently: the words of a
        sentence, its predicted and gold spans; None where each counts 1.

    Raises
    ------
    InputError: columns of different lengths, or an item twice.

    >>> Outcomes(task="t", quantity="accuracy", item=np.arange(2), item_id=np.array(["a", "b"]), group=np.array(["s", "s"]),
    ...          outcome=np.array([1.0, 0.0])).mean
    0.5
    """

    task: str
    quantity: str
    item: np.ndarray
    item_id: np.ndarray
    group: np.ndarray
    outcome: np.ndarray
    gold: np.ndarray | None = None
    predicted: np.ndarray | None = None
    of: np.ndarray | None = None
    suite: str | None = None
    part: str | None = None
    method: str | None = None
    representation: str | None = None
    encoder: str | None = None
    condition: str | None = None
    layer: int | None = None
    seed: int | None = None
    source: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        lengths = {
            name: len(column) for name in _ITEM if (column := getattr(self, name)) is not None
        }
        if len({*lengths.values()}) > 1:
            got = ", ".join(f"{n} of {name}" for name, n in lengths.items())
            refuse("outcomes", "one of everything for every item", got, "give as many of each")
        if len({*self.item_id.tolist()}) < len(self.item_id):
            name, times = Counter(self.item_id.tolist()).most_common(1)[0]
            remedy = "number equal items (item_ids does)"
            refuse("item_id", "each item once", f"{name} {times} times", remedy)

    def __len__(self) -> int:
        return len(self.outcome)

    @property
    def measured(self) -> Shaped[np.ndarray, " n"]:
        """Shape (n,), which items were measured."""
        return ~np.isnan(self.outcome)

    @property
    def mean(self) -> float:
        """Mean outcome of the measured items, or their share of ``of``; NaN if there are none."""
        there = self.outcome[self.measured]
        if self.of is not None:
            of = self.of[self.measured].sum()
            return float(there.sum() / of) if of else float("nan")
        return float(there.mean()) if len(there) else float("nan")

    def __repr__(self) -> str:
        where = [
            str(value) for value in (self.encoder, self.condition, self.part) if value is not None
        ]
        where += [] if self.layer is None else [f"layer {self.layer}"]
        mean = f"mean {self.mean:.3f}" if self.measured.any() else "none measured"
        return (
            f"Outcomes({', '.join([self.task, *where])}: {self.quantity} of {len(self):,} items, "
            f"{mean})"
        )

    def to_pandas(self) -> Any:
        """A pandas data frame with a row per item: item, item_id, group, outcome, gold, predicted, of.

        Raises
        ------
        InputError: pandas is not installed; the message names the command.
        """
        return need_pandas().DataFrame({name: getattr(self, name) for name in _ITEM})


def item_ids(items: Iterable[Sequence[Any]]) -> Shaped[np.ndarray, " n"]:
    """Names of items that follow from what they are, the same in every run.

    Parameters
    ----------
    items: for each item what makes it: its text or texts, its position in them, and its label;
        values that JSON has a word for. Items that are equal in all of it are distinguished by the
        order in which they stand.

    Returns
    -------
    shape (n,), 16 hexadecimal digits each: the beginning of the SHA-256 of the item as JSON.

    >>> item_ids([("a dog", 1, "NOUN"), ("a dog", 0, "DET"), ("a dog", 1, "NOUN")]).tolist()[0]
    '74a3d646371df2ee'
    """
    met: Counter[str] = Counter()
    found = []
    for item in items:
        text = json.dumps(list(item), ensure_ascii=True)
        found.append(sha256(f"{met[text]} {text}".encode()).hexdigest()[:16])
        met[text] += 1
    return np.array(found, dtype="<U16")


def write_outcomes(outcomes: Iterable[Outcomes], path: str | Path) -> None:
    """Write measurements item by item as one Parquet file, whole or not at all; the same outcomes
    give the same bytes."""
    columns: dict[str, list[pa.Array]] = {name: [] for name in COLUMNS}
    for one in outcomes:
        for name, kind in _KEY.items():
            columns[name].append(_repeated(getattr(one, name), kind, len(one)))
        for name, kind in _ITEM.items():
            columns[name].append(_column(getattr(one, name), kind, len(one)))
    chunks = [pa.chunked_array(columns[name], kind) for name, kind in (_KEY | _ITEM).items()]
    _write([pa.table(chunks, schema=_SCHEMA)], path)


def _repeated(value: Any, kind: pa.DataType, n: int) -> pa.Array:
    """A field of a measurement, for all of its items."""
    if value is None:
        return pa.nulls(n, kind)
    if kind == _TEXT:
        return pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(n, np.int32)), pa.array([str(value)])
        )
    return pa.array(np.full(n, value, kind.to_pandas_dtype()))


def _column(values: np.ndarray | None, kind: pa.DataType, n: int) -> pa.Array:
    """What is said of each item."""
    if values is None:
        return pa.nulls(n, kind)
    if kind == _TEXT:
        return pa.array(
            [None if value is None else str(value) for value in values.tolist()], pa.string()
        ).dictionary_encode()
    return pa.array(values).cast(kind)


def join_outcomes(paths: Sequence[str | Path], path: str | Path) -> None:
    """Write the measurements of several files as one, in this order."""
    _write((pq.read_table(one, schema=_SCHEMA) for one in paths), path)


def _write(tables: Iterable[pa.Table], path: str | Path) -> None:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, _SCHEMA, **_OPTIONS) as writer:
        for table in tables:
            if len(table):
                writer.write_table(table.unify_dictionaries(), row_group_size=len(table))
    write_whole(path, sink.getvalue().to_pybytes())


def read_outcomes(run: str | Path, **wanted: Any) -> list[Outcomes]:
    """The measurements of a run, item by item, in the order in which they were made.

    Parameters
    ----------
    run: the run's folder, or the file itself.
    wanted: fields and the value that each is to have: task, suite, part, method, representation,
        encoder, condition, layer, seed, quantity, source, target. None asks for measurements to
        which a field does not apply: ``condition=None`` is the encoder itself.

    Raises
    ------
    InputError: no such file, or no such field.
    StoreError: the file is damaged, or holds something else.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "outcomes.parquet"
    >>> names = item_ids([("a dog", "animal"), ("a king", "person")])
    >>> write_outcomes([Outcomes(task="t", quantity="accuracy", layer=layer, item=np.arange(2), item_id=names, group=names,
    ...                          outcome=np.array([1.0, layer])) for layer in (0, 1)], path)
    >>> [one.mean for one in read_outcomes(path, task="t", layer=1)]
    [1.0]
    """
    path = Path(run) / FILE if Path(run).is_dir() else Path(run)
    if not path.is_file():
        remedy = "name a folder that crosslens probe has written"
        refuse("run", f"a finished run with {FILE}", f"{str(run)!r}, which has none", remedy)
    for name in wanted:
        check_choice(name, "wanted", _KEY)
    try:
        with pq.ParquetFile(pa.OSFile(os.fsencode(path)), page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            earlier = ([name for name in COLUMNS if name not in new] for new in (_NEW, _NEW[-1:]))
            if names not in (list(COLUMNS), *earlier):
                expected = f"the columns {', '.join(COLUMNS)}"
                remedy = "name the file of a run"
                refuse(str(path), expected, ", ".join(names)[:80], remedy, StoreError)
            groups = range(file.num_row_groups)
            return [
                one
                for group in groups
                for one in _measurements(file.read_row_group(group), wanted, path)
            ]
    # names that are no UTF-8 are told so by Python
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        got = str(error).partition("\n")[0][:80]
        expected = "a Parquet file of outcomes"
        remedy = "restore it, or run the probes again"
        refuse(str(path), expected, f"something else ({got})", remedy, StoreError)


def _measurements(table: pa.Table, wanted: dict[str, Any], path: Path) -> Iterator[Outcomes]:
    """The measurements of a block of rows: those of one stand on end."""
    for name in _NEW:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table), (_KEY | _ITEM)[name]))
    table = table.select(COLUMNS).unify_dictionaries().combine_chunks().cast(_SCHEMA)
    for name in _ALWAYS:
        if table.column(name).null_count:
            remedy = "restore it, or run the probes again"
            refuse(str(path), f"a {name} in every row", "none in some", remedy, StoreError)
    columns = (
        {name: _read_column(table.column(name).chunk(0)) for name in COLUMNS} if len(table) else {}
    )
    changes = np.zeros(max(0, len(table) - 1), bool)
    for name in _KEY if len(table) else ():
        codes = columns[name][0]
        changes |= codes[1:] != codes[:-1]
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()] if len(table) else []
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        key = {name: _value(columns[name], start) for name in _KEY}
        if all(key[name] == value for name, value in wanted.items()):
            found: dict[str, Any] = {
                name: _values(columns[name], slice(start, end)) for name in _ITEM
            }
            yield Outcomes(**key, **found)


# numbers (of the names, if there are any), the names, which are null
_Column = tuple[np.ndarray, np.ndarray | None, np.ndarray]


def _read_column(array: Any) -> _Column:
    null = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if not pa.types.is_dictionary(array.type):
        return (
            np.asarray(array.fill_null(-1).to_numpy(zero_copy_only=False))
            if null.any()
            else array.to_numpy(),
            None,
            null,
        )
    codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, np.array([*array.dictionary.to_pylist(), None], object), null


def _value(column: _Column, row: int) -> Any:
    codes, names, null = column
    return None if null[row] else int(codes[row]) if names is None else names[codes[row]]


def _values(column: _Column, rows: slice) -> np.ndarray | None:
    codes, names, null = column
    return None if null[rows].all() else codes[rows] if names is None else names[codes[rows]]


def pair_outcomes(
    first: Outcomes, second: Outcomes
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"], Shaped[np.ndarray, " m"]]:
    """Two measurements on the m items that both have measured, in the first one's order: what a
    paired test takes.

    Returns
    -------
    the first's outcomes, the second's, and the groups of the items.

    Raises
    ------
    InputError: they are of different quantities.

    >>> def of(*names):
    ...     ids = np.array(names)
    ...     return Outcomes(task="t", quantity="accuracy", item=np.arange(len(ids)), item_id=ids, group=ids,
    ...                     outcome=np.arange(len(ids)) % 2.0)
    >>> pair_outcomes(of("a", "b", "c"), of("c", "b"))
    (array([1., 0.]), array([1., 0.]), array(['b', 'c'], dtype='<U1'))
    """
    both, theirs = _both(first, second)
    return first.outcome[both], second.outcome[theirs], first.group[both]


def shared_ratings(first: Outcomes, second: Outcomes) -> Float[np.ndarray, " m"]:
    """The gold ratings, as numbers, of the m items of :func:`pair_outcomes`, in the same order.

    Raises
    ------
    InputError: the first has no gold ratings, or they are of different quantities.

    >>> ids = np.array(["a", "b"])
    >>> one = Outcomes(task="t", quantity="spearman", item=np.arange(2), item_id=ids, group=ids, gold=np.array(["2.5", "7"]),
    ...                outcome=np.array([0.1, 0.3]))
    >>> shared_ratings(one, one)
    array([2.5, 7. ])
    """
    if first.gold is None:
        remedy = "compare measurements of a task whose items are rated"
        refuse("first", "outcomes with gold ratings", "none", remedy)
    return np.asarray(first.gold)[_both(first, second)[0]].astype(np.float64)


def sums_by_group(
    seeds: Sequence[Outcomes], items: Sequence[str] | None = None
) -> tuple[Float[np.ndarray, "s g"], Float[np.ndarray, "s g"]]:
    """What several measurements of the same items found in each group of items, and of how much: what
    :func:`crosslens.seed_intervals.seeds_share` takes.

    Parameters
    ----------
    seeds: s measurements, with the same items in the same order unless ``items`` says which.
    items: names of items that each of them has; None for all.

    Returns
    -------
    shape (s, g) twice, the g groups in the order of their names.

    >>> ids = np.array(["a", "b", "c"])
    >>> one = Outcomes(task="t", quantity="accuracy", item=np.arange(3), item_id=ids, group=np.array(["x", "y", "x"]),
    ...                outcome=np.array([1.0, 0.0, 1.0]))
    >>> sums_by_group([one])[0].tolist(), sums_by_group([one], ["a", "b"])[1].tolist()
    ([[2.0, 0.0]], [[1.0, 1.0]])
    """
    sides = [(one.outcome, np.ones(len(one)) if one.of is None else one.of) for one in seeds]
    groups = seeds[0].group
    if items is not None:
        rows = []
        for one in seeds:
            place = {name: row for row, name in enumerate(one.item_id.tolist())}
            rows.append(np.array([place[name] for name in items], int))
        groups = groups[rows[0]]
        sides = [(found[mine], of[mine]) for (found, of), mine in zip(sides, rows, strict=True)]
    codes = np.unique(groups, return_inverse=True)[1]
    found, of = (np.array([np.bincount(codes, side[k]) for side in sides]) for k in (0, 1))
    return found, of


def _both(first: Outcomes, second: Outcomes) -> tuple[np.ndarray, np.ndarray]:
    """Rows of either of the items that both have measured, in the first one's order."""
    if first.quantity != second.quantity:
        refuse("second", first.quantity, second.quantity, "compare measurements of one quantity")
    place = {name: row for row, name in enumerate(second.item_id.tolist())}
    rows = np.array([place.get(name, -1) for name in first.item_id.tolist()], int)
    both = np.flatnonzero((rows >= 0) & first.measured)
    both = both[second.measured[rows[both]]]
    return both, rows[both]
