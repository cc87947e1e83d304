"""Layers read a block of rows at a time: from memory, from disk, or chosen rows of either.

A layer is anything with ``shape`` (n, d), ``dtype`` and slices of rows: an array, an array mapped
from disk in float16, bfloat16 or float32, or :class:`TakenRows` of one. It is never read as a
whole, and no standardised copy of it is made.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.checks import as_array, check_matrix
from crosslens.errors import refuse

__all__ = [
    "BLOCK",
    "JoinedRows",
    "PairRows",
    "StandardisedLayer",
    "TakenRows",
    "check_layers",
    "check_random_layers",
    "check_same_layers",
    "is_layer",
]

BLOCK = 512  # rows that are read at a time


class TakenRows:
    """Chosen rows of an array, copied when they are asked for and not before.

    A split of stored activations into training, development and test rows costs no memory: whoever
    reads it slice by slice copies a slice at a time. ``np.asarray`` copies all.

    Parameters
    ----------
    array: shape (n, d), in memory or mapped from disk.
    rows: shape (m,), whole numbers from 0 to n - 1, in any order; a row may be taken twice.

    Raises
    ------
    InputError: no array of two dimensions, or rows that are not whole numbers within it.

    >>> stored = np.arange(8.0).reshape(4, 2)
    >>> taken = TakenRows(stored, [3, 0, 1])
    >>> taken.shape, taken[:2].tolist()
    ((3, 2), [[6.0, 7.0], [0.0, 1.0]])
    """

    def __init__(self, array: Any, rows: ArrayLike) -> None:
        if not is_layer(array):
            remedy = "pass an array, in memory or mapped from disk"
            refuse("array", "an array of shape (n, d)", f"{type(array).__name__}", remedy)
        numbers = as_array(rows, "rows")
        if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
            got = f"{numbers.dtype} of shape {numbers.shape}"
            remedy = "pass whole numbers, np.flatnonzero of a mask, say"
            refuse("rows", "row numbers of shape (m,)", got, remedy)
        outside = np.flatnonzero((numbers < 0) | (numbers >= len(array)))
        if len(outside):
            expected = f"numbers from 0 to {len(array) - 1}"
            refuse("rows", expected, str(numbers[outside[0]]), "take rows that the array has")
        self._array = array
        self._rows = numbers.astype(np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return len(self._rows), int(self._array.shape[1])

    @property
    def dtype(self) -> np.dtype:
        """Of the array."""
        return np.dtype(self._array.dtype)

    @property
    def ndim(self) -> int:
        """2."""
        return 2

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.asarray(self._array[self._rows[rows]])

    def taken_from(self, rows: np.ndarray) -> np.ndarray:
        """Which rows of the array some of these are; of the innermost, where rows of rows are
        taken.

        >>> TakenRows(TakenRows(np.zeros((9, 1)), [8, 5, 2]), [2, 1]).taken_from(np.array([0]))
        array([2])
        """
        numbers = self._rows[rows]
        inner = isinstance(self._array, TakenRows)
        return self._array.taken_from(numbers) if inner else numbers

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:] if dtype is None else self[:].astype(dtype)


class JoinedRows:
    """Several arrays on end as one, copied when rows are asked for: the test items of several
    languages, each in an activation dataset of its own.

    Parameters
    ----------
    arrays: one or more of shape (n_i, d).

    Raises
    ------
    InputError: none, or arrays of different widths.

    >>> joined = JoinedRows([np.zeros((2, 3)), np.ones((1, 3))])
    >>> joined.shape, joined[[2, 0]].tolist()
    ((3, 3), [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    """

    ndim = 2

    def __init__(self, arrays: Sequence[Any]) -> None:
        widths = sorted({int(array.shape[1]) for array in arrays})
        if len(widths) != 1:
            remedy = "join activations of one encoder"
            refuse("arrays", "arrays of one width", f"widths {widths}", remedy)
        self._arrays = list(arrays)
        self._ends = np.cumsum([int(array.shape[0]) for array in arrays])
        self.shape = int(self._ends[-1]), widths[0]
        self.dtype = np.result_type(*(np.dtype(array.dtype) for array in arrays))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        numbers = np.arange(len(self))[rows]
        found = np.empty((len(numbers), self.shape[1]), self.dtype)
        of = np.searchsorted(self._ends, numbers, side="right")
        for place in np.unique(of).tolist():
            begin = int(self._ends[place - 1]) if place else 0
            found[of == place] = np.asarray(self._arrays[place][numbers[of == place] - begin])
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:] if dtype is None else self[:].astype(dtype)


class PairRows:
    """Two rows of an array each, with their product: ``[a; b; a * b]`` of shape (m, 3 d), made when
    they are asked for.

    Parameters
    ----------
    array: shape (n, d). first, second: shape (m,), row numbers.

    References
    ----------
    Liu et al. 2019, Linguistic knowledge and transferability of contextual representations, section
    3.

    >>> PairRows(np.array([[1.0, 2.0], [3.0, 4.0]]), [0], [1])[:].tolist()
    [[1.0, 2.0, 3.0, 4.0, 3.0, 8.0]]
    """

    ndim = 2

    def __init__(self, array: Any, first: ArrayLike, second: ArrayLike) -> None:
        self._sides = TakenRows(array, first), TakenRows(array, second)
        if len(self._sides[0]) != len(self._sides[1]):
            expected = f"{len(self._sides[0])} rows, as many as first"
            refuse("second", expected, str(len(self._sides[1])), "give pairs")
        self.shape = len(self._sides[0]), 3 * int(array.shape[1])
        self.dtype = np.dtype(_precision(array))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        one, other = (side[rows].astype(self.dtype) for side in self._sides)
        return np.concatenate([one, other, one * other], axis=-1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:] if dtype is None else self[:].astype(dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class StandardisedLayer:
    """A layer with the mean and scale of each feature, read in blocks.

    Attributes
    ----------
    name: what refusals call it.
    source: shape (n, d), sliced by rows.
    mean: shape (d,), of the rows that training was given, in the precision of the arithmetic:
        float32, or float64 where the source is float64.
    scale: shape (d,), their standard deviation (dividing by n), and 1 for features that do not
        vary.
    varies: shape (d,), whether they vary by more than rounding.
    """

    name: str
    source: Any
    mean: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    varies: np.ndarray

    @classmethod
    def of(cls, source: Any, name: str) -> "StandardisedLayer":
        """Read a layer twice, for its means and its scales; every number is checked.

        Raises
        ------
        InputError: numbers that are not finite (with their row), or whose squares leave float64.

        >>> layer = StandardisedLayer.of(np.array([[1.0, 7.0], [3.0, 7.0]]), "layers[0]")
        >>> layer.mean.tolist(), layer.scale.tolist(), layer.varies.tolist()
        ([2.0, 7.0], [1.0, 1.0], [True, False])
        """
        n, d = source.shape
        total = np.zeros(d)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            for _, block in _blocks(source):
                total += block.sum(axis=0, dtype=np.float64)
        precision = _precision(source)
        mean = total / n
        if not np.isfinite(mean.astype(precision)).all():
            _refuse_numbers(source, name)
        squares = np.zeros(d)
        with np.errstate(over="ignore"):
            for _, block in _blocks(source):
                # centred before squaring
                squares += np.square(block - mean.astype(precision), dtype=np.float64).sum(axis=0)
            scale = np.sqrt(squares / n)
        if not np.isfinite(scale.astype(precision)).all():
            expected = f"numbers whose squares fit in {precision}"
            refuse(name, expected, "an overflow", "rescale the vectors")
        # of the values, and of their mean
        rounding = 4 * np.finfo(precision).eps + n * np.finfo(np.float64).eps
        varies = scale > np.maximum(rounding * np.abs(mean), np.finfo(precision).tiny)
        return cls(
            name,
            source,
            mean.astype(precision),
            np.where(varies, scale, 1).astype(precision),
            varies,
        )

    @classmethod
    def learnt(
        cls, source: Any, name: str, mean: np.ndarray, scale: np.ndarray
    ) -> "StandardisedLayer":
        """Other rows of a layer, with the means and scales of those that a probe has learnt
        from."""
        precision = _precision(source)
        return cls(
            name, source, mean.astype(precision), scale.astype(precision), np.ones(len(mean), bool)
        )

    def held_out(self, source: Any, name: str) -> "StandardisedLayer":
        """Other rows of the layer, standardised as these are."""
        return dataclasses.replace(self, source=source, name=name)

    def __len__(self) -> int:
        return int(self.source.shape[0])

    @property
    def folded(self) -> Float[np.ndarray, " d"]:
        """What centred features are multiplied by: 1 / scale, and 0 for features that did not vary
        in training."""
        return np.where(self.varies, 1 / self.scale, 0).astype(self.mean.dtype)

    def centred(
        self, some: slice | None = None
    ) -> Iterator[tuple[slice, Float[np.ndarray, "b d"]]]:
        """Which rows, and these rows less the means, block after block in the same memory; of all
        rows, or of some."""
        room = np.empty((min(BLOCK, len(self)), len(self.mean)), self.mean.dtype)
        for rows, block in _blocks(self.source, some):
            out = room[: len(block)]
            np.subtract(block, self.mean, out=out, casting="same_kind")
            yield rows, out

    def apply(
        self, coefficients: Float[np.ndarray, "k d"], intercept: Float[np.ndarray, " k"]
    ) -> Float[np.ndarray, "n k"]:
        """Linear functions of the standardised features, in their precision.

        Raises
        ------
        InputError: numbers that are not finite; the message names their row.
        """
        weights = (coefficients * self.folded).astype(self.mean.dtype).T
        values = np.empty((len(self), len(intercept)), self.mean.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, block in self.centred():
                np.matmul(block, weights, out=values[rows])
            values += intercept.astype(self.mean.dtype)
        if not np.isfinite(values).all():
            _refuse_numbers(self.source, self.name)
        return values


def check_layers(layers: Any, name: str = "layers") -> list[Any]:
    """Return L layers of one shape (n, d), each to be read in blocks.

    Parameters
    ----------
    layers: an array of shape (L, n, d), or a sequence of layers: arrays, arrays mapped from disk,
        :class:`TakenRows`, or lists of rows.
    name: what refusals call them; layer 3 is ``layers[3]``.

    Raises
    ------
    InputError: no layers, a layer that is no matrix of numbers, or layers of different shapes.

    >>> [layer.shape for layer in check_layers(np.zeros((3, 5, 2)))]
    [(5, 2), (5, 2), (5, 2)]
    """
    if isinstance(layers, np.ndarray) and layers.ndim != 3:
        got = f"an array of shape {layers.shape}"
        refuse(name, "layers of shape (L, n, d)", got, "put a single layer into a list")
    if not isinstance(layers, (np.ndarray, Sequence)) or isinstance(layers, (str, bytes)):
        remedy = "pass a list of arrays of shape (n, d), or one array (L, n, d)"
        refuse(name, "a sequence of layers", f"{type(layers).__name__}", remedy)
    if not len(layers):
        refuse(name, "at least one layer", "none", "pass a list of arrays of shape (n, d)")
    checked = [
        layer if is_layer(layer) else check_matrix(layer, f"{name}[{i}]")
        for i, layer in enumerate(layers)
    ]
    for i, layer in enumerate(checked):
        if 0 in layer.shape:
            got = f"shape {tuple(layer.shape)}"
            refuse(f"{name}[{i}]", "at least 1 row and 1 column", got, "give more items")
        if tuple(layer.shape) != tuple(checked[0].shape):
            expected = f"shape {tuple(checked[0].shape)}, as {name}[0]"
            remedy = "pass the layers of one encoder on the same items"
            refuse(f"{name}[{i}]", expected, f"shape {tuple(layer.shape)}", remedy)
    return checked


def check_same_layers(layers: list[Any], d: int, count: int, name: str = "layers") -> None:
    """Refuse layers that are not as many, or not as wide, as those that were fitted.

    >>> check_same_layers([np.zeros((5, 2))], 2, 1)
    """
    if len(layers) != count:
        remedy = "pass the same layers of the same encoder"
        refuse(name, f"{count} layers, as in fit", str(len(layers)), remedy)
    if layers[0].shape[1] != d:
        remedy = "pass the same layers of the same encoder"
        refuse(name, f"{d} columns, as in fit", f"{layers[0].shape[1]} columns", remedy)


def is_layer(value: Any) -> bool:
    """Whether rows of numbers can be sliced from it as it is.

    >>> is_layer(np.eye(2)), is_layer([[1.0]]), is_layer(np.ma.masked_array(np.eye(2)))
    (True, False, False)
    """
    parts = ("shape", "dtype", "__getitem__")
    if (
        isinstance(value, np.ma.MaskedArray)
        or not all(hasattr(value, part) for part in parts)
        or len(value.shape) != 2
    ):
        return False
    try:
        dtype = np.dtype(value.dtype)
    except TypeError:  # of another library's arrays, which become numpy's first
        return False
    return dtype.kind in "fiu" or dtype.name == "bfloat16"


def _precision(source: Any) -> np.dtype:
    return np.dtype(np.float64 if np.dtype(source.dtype) == np.float64 else np.float32)


def _blocks(source: Any, some: slice | None = None) -> Iterator[tuple[slice, np.ndarray]]:
    """Which rows, and these rows as float32 (float64 where the source is float64)."""
    precision = _precision(source)
    first, stop, _ = (some or slice(None)).indices(source.shape[0])
    for start in range(first, stop, BLOCK):
        rows = slice(start, min(start + BLOCK, stop))
        yield rows, np.asarray(source[rows]).astype(precision, copy=False)


def _refuse_numbers(source: Any, name: str) -> None:
    """Say which rows are not finite, or that finite ones are too large."""
    finite = np.concatenate([np.isfinite(block).all(axis=1) for _, block in _blocks(source)])
    bad = np.flatnonzero(~finite)
    if len(bad):
        first = (source.taken_from(bad) if isinstance(source, TakenRows) else bad).min()
        got = f"NaN or infinity in {len(bad)} row(s), the first is row {first}"
        refuse(name, "finite numbers", got, "remove or repair these rows")
    expected = f"numbers whose sums fit in {_precision(source)}"
    refuse(name, expected, "an overflow", "rescale the vectors")


def check_random_layers(random_layers: Any, layers: Sequence[Any]) -> list[Any]:
    """The layers of a randomly re-initialised encoder: as many, of as many items.

    Raises
    ------
    InputError: other numbers of these.

    >>> len(check_random_layers(np.zeros((3, 5, 2)), check_layers(np.ones((3, 5, 2)))))
    3
    """
    others = check_layers(random_layers, "random_layers")
    there, here = (len(layers), layers[0].shape[0]), (len(others), others[0].shape[0])
    if there != here:
        got = f"{here[0]} layers of {here[1]} items"
        expected = f"{there[0]} layers of {there[1]} items, as in layers"
        refuse("random_layers", expected, got, "extract the same items from both encoders")
    return others
