"""Linear CKA of all layers of many encoders at once: from arrays of any size, or from blocks of
rows that pass by once.

:func:`linear_cka_encoders` takes arrays, in memory or mapped from disk. It chooses the cheaper of
two forms (:mod:`crosslens.alignment.similarity.cka_products`), keeps memory bounded by tiles, and
can give intervals for every pair.

:class:`LinearCKAStream` takes blocks of rows, each seen once and then forgotten, as an encoder
makes them. Its results are exact, too: nothing is averaged over batches. What it keeps does not
grow with the number of items, but with that of pairs: the cross-product of every pair of layers, 4
d² bytes each (0.4 GB for two encoders of 13 layers with d = 768).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crosslens.alignment.similarity.cka_products import Layer, hsic, products, ratios
from crosslens.alignment.similarity.linear_cka import GROUPS, LayerCKA
from crosslens.alignment.similarity.resampling import cka_intervals
from crosslens.checks import check_matrix
from crosslens.errors import refuse

__all__ = ["LinearCKAStream", "linear_cka_encoders"]

# standard deviations that the mean may lie from that of the first block: float32 keeps 4 digits
# there
_DRIFT = 30.0


def linear_cka_encoders(
    encoders: Mapping[str, Sequence[Any]], *, intervals: bool = False
) -> dict[tuple[str, str], LayerCKA]:
    """Biased and debiased linear CKA of every layer of each encoder with every layer of each other
    one.

    The formulas are those of :func:`crosslens.alignment.similarity.linear_cka.linear_cka`. All
    products are computed once for all pairs, in the form that costs less: by Gram matrices up to
    about n = 14 d, by cross-products above; neither is ever held as a whole. Beside the tiles
    (about 0.6 GB at most for d = 768), memory holds one number per item and layer.

    Parameters
    ----------
    encoders: name -> layers; a layer has shape (n, d), and row i belongs to row i of every other.
        Arrays, memory-mapped arrays, or what has ``shape`` and ``dtype`` and is sliced by rows; d
        may differ. Read in blocks, several times.
    intervals: also give 95 % intervals of the debiased values, of all pairs (item i is in group i
        mod 20, below 20 items each is a group); without, they are NaN. Beyond n = 14 d they cost a
        few per cent, below next to nothing.

    Returns
    -------
    (first, second) -> :class:`LayerCKA`, for every pair of names in the order given.

    Raises
    ------
    InputError: fewer than two encoders; one without layers; not finite, different numbers of rows,
        fewer than 5 rows, all rows equal, or too little variation for the debiased estimate: named
        ``en[3]``, layer 3 of the encoder ``en``.

    References
    ----------
    Kornblith et al. 2019, equation 4; Song et al. 2012, equation 5; for the intervals, see
    :func:`crosslens.alignment.similarity.resampling.cka_intervals`.

    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=(200, 3)).astype(np.float32)
    >>> found = linear_cka_encoders({"a": [first, first**3], "b": [2 * first], "c": [first[:, :1]]}, intervals=True)
    >>> list(found), found["a", "b"].biased.shape
    ([('a', 'b'), ('a', 'c'), ('b', 'c')], (2, 1))
    >>> cka = found["b", "c"]
    >>> bool(cka.debiased_low[0, 0] < cka.debiased[0, 0] < cka.debiased_high[0, 0])
    True
    """
    _check_encoders(encoders)
    layers = [
        Layer.of(layer, f"{name}[{i}]", min_rows=5)
        for name, side in encoders.items()
        for i, layer in enumerate(side)
    ]
    _check_same_items([(layer.name, len(layer)) for layer in layers])
    sides = _sides([(name, len(side)) for name, side in encoders.items()])
    found = products(layers, list(sides.values()), min(GROUPS, len(layers[0])) if intervals else 1)
    values = found.cka(layers)
    bounds = (
        cka_intervals(found, values[1])
        if intervals
        else np.full((2, len(layers), len(layers)), np.nan)
    )
    return _by_pair(sides, values, bounds, len(layers[0]))


class LinearCKAStream:
    """Linear CKA of all layers of many encoders from blocks of rows, each given once.

    After ``update`` with every block, ``result`` gives what :func:`linear_cka_encoders` would give,
    without intervals, and more blocks may follow. Blocks may have any number of rows; how the rows
    are cut changes nothing beyond rounding.

    Rows are centred at the mean of the *first* block while they pass, and exactly at the end. That
    is enough as long as the first block is like the rest: where the mean of all rows is more than
    30 standard deviations from it, digits are lost and ``result`` refuses.

    Attributes
    ----------
    n: rows seen so far.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 4)); y = x + rng.normal(size=(100, 4))
    >>> stream = LinearCKAStream()
    >>> for start in range(0, 100, 30):
    ...     rows = slice(start, start + 30)
    ...     stream.update({"a": [x[rows], x[rows] ** 2], "b": [y[rows]]})
    >>> whole = linear_cka_encoders({"a": [x, x**2], "b": [y]})
    >>> stream.n, bool(np.abs(stream.result()["a", "b"].debiased - whole["a", "b"].debiased).max() < 1e-12)
    (100, True)
    """

    def __init__(self) -> None:
        self.n = 0
        self._shapes: dict[str, list[int]] = {}

    def update(self, block: Mapping[str, Sequence[ArrayLike]]) -> None:
        """Take in the next rows.

        Parameters
        ----------
        block: name -> layers of shape (rows, d), the same names, numbers of layers and d in every
            block; row i belongs to row i of every other matrix. Not written to, and not kept.

        Raises
        ------
        InputError: not finite, different numbers of rows, or another shape than the first block.
            The stream is then as it was.
        """
        _check_encoders(block)
        rows = [
            check_matrix(layer, f"{name}[{i}]")
            for name, side in block.items()
            for i, layer in enumerate(side)
        ]
        names = [f"{name}[{i}]" for name, side in block.items() for i in range(len(side))]
        _check_same_items(list(zip(names, map(len, rows), strict=True)))
        widths = iter(rows)
        shapes = {name: [next(widths).shape[1] for _ in side] for name, side in block.items()}
        if not self._shapes:
            self._begin(shapes, names, rows)
        if shapes != self._shapes:
            expected = f"layers of as many dimensions as in the first block ({_told(self._shapes)})"
            refuse("block", expected, _told(shapes), "give every layer each time")
        shifted = [
            np.subtract(x, shift, dtype=self._dtype)
            for x, shift in zip(rows, self._shifts, strict=True)
        ]
        self._add(
            [np.multiply(x, scale, out=x) for x, scale in zip(shifted, self._scales, strict=True)]
        )

    def _begin(
        self, shapes: dict[str, list[int]], names: list[str], rows: list[np.ndarray]
    ) -> None:
        self._shapes, self._names = shapes, names
        self._sides = _sides([(name, len(side)) for name, side in shapes.items()])
        self._dtype = np.result_type(*rows)
        self._shifts = [x.mean(axis=0, dtype=np.float64).astype(self._dtype) for x in rows]
        limit = np.finfo(self._dtype).maxexp - 2
        sizes = [
            float(np.abs(x - shift).max()) or float(np.abs(x).max()) or 1.0
            for x, shift in zip(rows, self._shifts, strict=True)
        ]
        self._scales = [
            self._dtype.type(2.0 ** float(np.clip(-np.floor(np.log2(size)), -limit, limit)))
            for size in sizes
        ]
        at = np.cumsum([0, *(x.shape[1] for x in rows)])
        self._columns = [slice(int(a), int(b)) for a, b in zip(at, at[1:], strict=False)]
        m = len(rows)
        self._cross = {
            (i, j): np.zeros((rows[i].shape[1], rows[j].shape[1]), self._dtype)
            for i, j in self._pairs()
        }
        self._sums, self._rows_by_squares = np.zeros(at[-1]), np.zeros((at[-1], m))
        self._squares, self._squares_product = np.zeros(m), np.zeros((m, m))

    def _pairs(self) -> Iterator[tuple[int, int]]:
        """Every layer with itself and with the layers of other encoders."""
        sides = list(self._sides.values())
        for number, side in enumerate(sides):
            for i in range(side.start, side.stop):
                yield i, i
                for other in sides[number + 1 :]:
                    yield from ((i, j) for j in range(other.start, other.stop))

    def _add(self, rows: list[np.ndarray]) -> None:
        for (i, j), total in self._cross.items():
            total += rows[i].T @ rows[j]
        squares = np.stack([np.einsum("ij,ij->i", x, x) for x in rows], axis=1).astype(np.float64)
        for x, columns in zip(rows, self._columns, strict=True):
            self._sums[columns] += x.sum(axis=0, dtype=np.float64)
            self._rows_by_squares[columns] += x.T @ squares.astype(self._dtype)
        self._squares += squares.sum(axis=0)
        self._squares_product += squares.T @ squares
        self.n += len(rows[0])

    def result(self) -> dict[tuple[str, str], LayerCKA]:
        """Linear CKA of all rows so far; (first, second) -> :class:`LayerCKA`, whose intervals are
        NaN.

        Raises
        ------
        InputError: fewer than 5 rows so far, a layer whose rows are all equal or vary too little
            for the debiased estimate, or a first block that is too unlike the rest.
        """
        if self.n < 5:
            refuse("stream", "at least 5 rows", f"{self.n}", "update it with more blocks")
        m = len(self._names)
        values = ratios(self._estimates(), [(name, self._dtype) for name in self._names])
        return _by_pair(self._sides, values, np.full((2, m, m), np.nan), self.n)

    def _estimates(self) -> tuple[np.ndarray, np.ndarray]:
        """HSIC of rows centred at their mean δ, from sums over rows that were not: ``K_ii = |x_i|²
        - 2 x_i·δ + |δ|²`` and so on."""
        n, m = self.n, len(self._names)
        means = [self._sums[columns] / n for columns in self._columns]
        self._check_drift(means)
        cross, turned, along = np.full((m, m), np.nan), np.zeros((m, m)), np.zeros((m, m))
        for (i, j), total in self._cross.items():
            exact = total - n * np.outer(means[i], means[j])
            cross[i, j] = cross[j, i] = np.vdot(exact, exact)
            turned[i, j] = turned[j, i] = means[i] @ total @ means[j]  # Σ (x·δ)(y·δ')
        for i, columns in enumerate(self._columns):
            along[i] = means[i] @ self._rows_by_squares[columns]  # Σ (x·δ) |y|²
        lengths = np.array([mean @ mean for mean in means])
        squares = self._squares - n * lengths
        uncentred = self._squares_product - 2 * along - 2 * along.T + 4 * turned
        # Σ (a - 2 b + c)(a' - 2 b' + c') with Σ a = |x|² summed, Σ b = n c
        shifted = (
            lengths[:, None] * (self._squares - 2 * n * lengths)
            + (lengths[:, None] * (self._squares - 2 * n * lengths)).T
        )
        return hsic(n, cross, squares, uncentred + shifted + n * np.outer(lengths, lengths))

    def _check_drift(self, means: list[np.ndarray]) -> None:
        for i, mean in enumerate(means):
            variance = self._squares[i] / self.n - mean @ mean
            if (
                self._dtype == np.float32
                and not mean @ mean <= _DRIFT**2 * variance
                and variance > 0
            ):
                far = (
                    f"a mean {np.sqrt(mean @ mean / variance):.0f} standard deviations away from it"
                )
                remedy = "shuffle the rows, or begin with a larger block"
                refuse(self._names[i], "a first block that is like the rest", far, remedy)


def _check_encoders(encoders: Mapping[str, Sequence[Any]]) -> None:
    if not isinstance(encoders, Mapping) or len(encoders) < 2:
        got = f"{len(encoders)}" if isinstance(encoders, Mapping) else type(encoders).__name__
        expected = "a mapping from at least two names to layers"
        refuse("encoders", expected, got, "give {'a': [x0, x1], 'b': [y0, y1]}")
    for name, side in encoders.items():
        if len(side) == 0:
            refuse(str(name), "at least one layer", "none", "give a sequence of matrices")


def _check_same_items(layers: list[tuple[str, int]]) -> None:
    first, n = layers[0]
    for name, rows in layers:
        if rows != n:
            remedy = "every layer must hold the same items in the same order"
            refuse(name, f"as many rows as {first} ({n})", f"{rows} rows", remedy)


def _sides(counts: list[tuple[str, int]]) -> dict[str, slice]:
    """Which of all layers in a row belong to each encoder."""
    at = np.cumsum([0, *(count for _, count in counts)]).tolist()
    return {name: slice(at[i], at[i + 1]) for i, (name, _) in enumerate(counts)}


def _by_pair(
    sides: dict[str, slice], values: np.ndarray, intervals: np.ndarray, n: int
) -> dict[tuple[str, str], LayerCKA]:
    names, found = list(sides), {}
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            part = sides[first], sides[second]
            found[first, second] = LayerCKA(
                values[0][part], values[1][part], intervals[0][part], intervals[1][part], n
            )
    return found


def _told(shapes: dict[str, list[int]]) -> str:
    return ", ".join(f"{name}: {widths}" for name, widths in shapes.items())
