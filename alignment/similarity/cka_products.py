"""The sums of products that linear CKA of all layer pairs is made of, by whichever form costs less.

With rows centred, ``K = XXᵀ`` and ``L = YYᵀ``, the one expensive number per pair of layers is

    ||XᵀY||_F²  =  Σ_ij K_ij L_ij

Its right side takes a Gram matrix per *layer*, n² d / 2 multiplications, and then next to nothing
per pair; its left side takes a cross-product per *pair*, n d². For two encoders of 13 layers the
Gram form is the cheaper one up to about n = 14 d. Both are computed in tiles: the first never holds
a Gram matrix, only tiles of 384 × 384 of all layers; the second holds cross-products of as many
pairs as fit in ``_BYTES``. Tiles are shared among the threads that BLAS has.

Rows are centred before they are multiplied, in their own precision, so that a dimension with a mean
of 300 costs no digit: what rounding leaves of the mean is smaller than the rounding of the numbers
themselves. Sums over tiles are taken in float64; where cross-products are summed, blocks of
``_BLOCK`` rows are added in the precision of the layers.

Items fall into groups (item i into group i mod ``groups``), and the sum is kept for every pair of
groups: how often each group counts can then be changed without multiplying again
(:mod:`crosslens.alignment.similarity.resampling`).
"""

import contextlib
import dataclasses
import itertools
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from jaxtyping import Float

from crosslens.alignment.rows import check_varies
from crosslens.blas import blas_workers
from crosslens.checks import as_array, check_matrix
from crosslens.errors import InputError, refuse

__all__ = ["Layer", "Products", "hsic", "products", "ratios"]

_TILE = 384  # rows of a tile of a Gram matrix
_PANEL = 768  # rows that stay centred while tiles are made of them and all later rows
_MOST_WORKERS = 8  # threads, each with tiles of all layers
_SCAN = 256  # rows looked at together when a layer is read for the first time
_BLOCK = 2048  # rows of a block where cross-products are summed
_BYTES = 1 << 29  # cross-products that are summed at a time


@dataclasses.dataclass(frozen=True, eq=False)
class Products:
    """What the estimates of HSIC are computed from; M layers.

    Attributes
    ----------
    cross: shape (groups, groups, M, M): ``Σ K_ij L_ij`` over i of one group and j of the other; NaN
        for pairs not asked for.
    squares: shape (n, M): the squared length of each centred row, ``K_ii``.
    """

    cross: Float[np.ndarray, "g g m m"]
    squares: Float[np.ndarray, "n m"]

    def cka(self, layers: Sequence["Layer"]) -> Float[np.ndarray, "2 m m"]:
        """Biased and debiased linear CKA of every pair, of the layers that the sums were made of.

        Raises
        ------
        InputError: nothing but rounding is left of what a layer varies.
        """
        squares = self.squares.sum(axis=0)
        estimates = hsic(
            len(self.squares), self.cross.sum(axis=(0, 1)), squares, self.squares.T @ self.squares
        )
        return ratios(estimates, [(layer.name, layer.dtype) for layer in layers])


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """A layer on disk or in memory, read in blocks, and what centring it takes.

    Attributes
    ----------
    name: what refusals call it.
    source: shape (n, d), sliced by rows and never read as a whole.
    dtype: of the arithmetic: float32, or float64 where the source is float64.
    mean: shape (d,).
    scale: a power of two that keeps products from over- and underflowing; 1 where the numbers are
        neither large nor small.
    """

    name: str
    source: Any
    dtype: np.dtype
    mean: np.ndarray
    scale: float

    @classmethod
    def of(cls, source: Any, name: str, *, min_rows: int) -> "Layer":
        """Read a layer once: every number is checked, the mean and the largest distance from it are
        taken."""
        if (
            not (
                hasattr(source, "shape")
                and hasattr(source, "dtype")
                and hasattr(source, "__getitem__")
            )
            or len(source.shape) != 2
        ):
            source = check_matrix(source, name, min_rows=min_rows)
        n, d = source.shape
        first = check_matrix(_floats(source[:_SCAN], name), name)
        if n < min_rows:
            check_matrix(first, name, min_rows=min_rows)
        dtype = first.dtype
        start = first.mean(axis=0, dtype=np.float64).astype(dtype)
        ones, total, peak, varies = np.ones(_SCAN, dtype), np.zeros(d), 0.0, False
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow or NaN is refused below
            for at in range(0, n, _SCAN):
                rows = _floats(source[at : at + _SCAN], name)
                varies = varies or bool((rows != first[0]).any())
                block = rows - start
                total += ones[: len(block)] @ block
                peak = max(peak, float(block.max()), -float(block.min()))
        if not np.isfinite(total).all() or not np.isfinite(peak):
            _refuse_numbers(source, name, dtype)
        if not varies:
            check_varies(first, name)
        limit = np.finfo(dtype).maxexp - 2
        exponent = (
            0.0 if 1e-3 < peak < 1e3 else float(np.clip(-np.floor(np.log2(peak)), -limit, limit))
        )
        return cls(name, source, dtype, (start + total / n).astype(dtype), 2.0**exponent)

    def __len__(self) -> int:
        return int(self.source.shape[0])

    @property
    def width(self) -> int:
        """d."""
        return int(self.source.shape[1])

    def centred(self, rows: slice, out: np.ndarray) -> np.ndarray:
        """These rows, centred and scaled, in the first rows of ``out``."""
        block = _floats(self.source[rows], self.name)
        out = out[: len(block)]
        np.subtract(block, self.mean, out=out)
        if self.scale != 1:
            out *= self.dtype.type(self.scale)
        return out


def hsic(
    n: int, cross: np.ndarray, squares: np.ndarray, squares_product: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Biased and debiased HSIC of centred rows, times (n - 1)² and n (n - 3): factors that cancel
    in CKA.

    Parameters
    ----------
    cross: shape (..., M, M), ``Σ_ij K_ij L_ij``.
    squares: shape (..., M), ``Σ_i K_ii``.
    squares_product: shape (..., M, M), ``Σ_i K_ii L_ii``.

    References
    ----------
    Song et al. 2012, equation 5, with ``Σ_{j ≠ i} K_ij = -K_ii``, as it is for centred rows.

    >>> x = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    >>> k = (x**2)[:, 0]
    >>> biased, debiased = hsic(4, np.array([[np.sum((x @ x.T) ** 2)]]), k.sum(keepdims=True), np.array([[k @ k]]))
    >>> float(biased[0, 0]), round(float(debiased[0, 0]), 3)
    (100.0, 48.667)
    """
    both = squares[..., :, None] * squares[..., None, :]
    if n < 4:
        return cross, np.full_like(cross, np.nan)
    return cross, cross - squares_product * (1 + 2 / (n - 2)) + both / ((n - 1) * (n - 2))


def ratios(
    estimates: tuple[np.ndarray, np.ndarray], layers: Sequence[tuple[str, np.dtype]]
) -> Float[np.ndarray, "2 m m"]:
    """From biased and debiased HSIC of M layers to CKA.

    Parameters
    ----------
    estimates: two of shape (M, M), as :func:`hsic` gives them.
    layers: the name of each layer, and the precision that it was computed in.

    Raises
    ------
    InputError: nothing but rounding is left of a layer's HSIC with itself.

    >>> ratios((np.array([[4.0, 3.0], [3.0, 9.0]]), np.ones((2, 2))), [("x", np.dtype(float)), ("y", np.dtype(float))])[0].round(3).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    for i, (name, dtype) in enumerate(layers):
        biased, debiased = (estimate[i, i] for estimate in estimates)
        if not biased > 0:
            remedy = "give at least two different items; with one vector for all, nothing varies"
            refuse(name, "rows that differ", "equal rows", remedy)
        if not debiased > 32 * np.finfo(dtype).eps * biased:
            expected = "rows that vary enough for debiased CKA"
            refuse(name, expected, "a debiased variance of zero", "give more items that differ")
    own = [np.sqrt(np.diag(estimate)) for estimate in estimates]
    return np.stack(
        [estimate / root[:, None] / root for estimate, root in zip(estimates, own, strict=True)]
    )


def _floats(block: Any, name: str) -> np.ndarray:
    """Rows in float32, or in float64 where they are so; complex numbers, dates and text are
    refused, as everywhere."""
    try:
        array = as_array(block, name)
        if array.dtype.kind not in "fiubO" and array.dtype.name != "bfloat16":
            raise TypeError
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
    except InputError:
        raise
    except (TypeError, ValueError):
        got = f"one of {getattr(block, 'dtype', type(block).__name__)}"
        refuse(name, "a matrix of numbers", got, "pass an array of shape (n, d)")


def _refuse_numbers(source: Any, name: str, dtype: np.dtype) -> None:
    n = source.shape[0]
    bad = np.concatenate(
        [
            ~np.isfinite(_floats(source[at : at + _BLOCK], name)).all(axis=1)
            for at in range(0, n, _BLOCK)
        ]
    ).nonzero()[0]
    if len(bad):
        got = f"NaN or infinity in {len(bad)} row(s), the first is row {bad[0]}"
        refuse(name, "finite numbers", got, "remove or repair these rows")
    refuse(name, f"values whose differences fit in {dtype}", "an overflow", "scale them down")


@dataclasses.dataclass(frozen=True, eq=False)
class _Piece:
    """Some items of one group: which, and their centred rows in every layer."""

    group: int
    rows: slice
    blocks: list[np.ndarray]


def products(layers: Sequence[Layer], sides: Sequence[slice], groups: int) -> Products:
    """The sums for every pair of layers of different sides, and for every layer with itself.

    Parameters
    ----------
    layers: M layers with the same items.
    sides: which of them belong together; no products are asked for within a side.
    groups: how many groups the items fall into.
    """
    n = len(layers[0])
    widths = np.array([layer.width for layer in layers], dtype=float)
    between = sum(
        float(widths[a].sum() * widths[b].sum())
        for i, a in enumerate(sides)
        for b in sides[i + 1 :]
    )
    stacked = n * (between + np.square(widths).sum() / 2)
    gram = n**2 / 2 * (widths.sum() + len(layers) ** 2 / 2)
    return _gram_form(layers, groups) if gram <= stacked else _stacked_form(layers, sides, groups)


def _gram_form(layers: Sequence[Layer], groups: int) -> Products:
    """Tiles of all Gram matrices, and from each tile the sums of all pairs in one product; a tile
    on each thread."""
    n, m = len(layers[0]), len(layers)
    dtype = np.result_type(*(layer.dtype for layer in layers))
    found = Products(np.zeros((groups, groups, m, m)), np.empty((n, m)))
    panel_room = [np.empty((min(n, _PANEL), layer.width), layer.dtype) for layer in layers]
    with blas_workers(_MOST_WORKERS) as (pool, threads):
        rooms: queue.SimpleQueue[tuple[list[np.ndarray], np.ndarray]] = queue.SimpleQueue()
        for _ in range(threads):
            piece_room = [np.empty((min(n, _TILE), layer.width), layer.dtype) for layer in layers]
            rooms.put((piece_room, np.empty(m * min(n, _TILE) ** 2, dtype)))

        def within(number: int) -> list[tuple[_Piece, _Piece, np.ndarray]]:
            """The tiles of a piece of the panel and those behind it."""
            with _taken(rooms) as (_, tiles):
                return [
                    (panel[number], right, _tile_sums(panel[number].blocks, right.blocks, tiles))
                    for right in panel[number:]
                ]

        def beyond(piece: tuple[int, slice]) -> list[tuple[_Piece, _Piece, np.ndarray]]:
            """The tiles of the panel's pieces and one that is read for them."""
            with _taken(rooms) as (room, tiles):
                right = _Piece(
                    *piece,
                    [
                        layer.centred(piece[1], space)
                        for layer, space in zip(layers, room, strict=True)
                    ],
                )
                return [
                    (left, right, _tile_sums(left.blocks, right.blocks, tiles)) for left in panel
                ]

        pieces = list(_pieces(n, groups, _TILE))
        while pieces:
            panel = _load_panel(layers, pieces, panel_room, found.squares, pool)
            del pieces[: len(panel)]
            for some in itertools.chain(
                pool.map(within, range(len(panel))), pool.map(beyond, pieces)
            ):
                for left, right, sums in some:
                    found.cross[left.group, right.group] += sums
                    if left is not right:
                        found.cross[right.group, left.group] += sums  # the tile's mirror image
    return found


@contextlib.contextmanager
def _taken(rooms: queue.SimpleQueue[Any]) -> Iterator[Any]:
    """Memory that nobody else uses meanwhile."""
    mine = rooms.get()
    try:
        yield mine
    finally:
        rooms.put(mine)


def _load_panel(
    layers: Sequence[Layer],
    pieces: list[tuple[int, slice]],
    room: list[np.ndarray],
    squares: np.ndarray,
    pool: Executor,
) -> list[_Piece]:
    """The first pieces, as many as there is room for, one after another; the squared lengths of
    their rows are noted."""

    def load(i: int) -> np.ndarray:
        block = layers[i].centred(rows, room[i][held:])
        squares[rows, i] = np.einsum("ij,ij->i", block, block)
        return block

    panel: list[_Piece] = []
    held = 0
    for group, rows in pieces:
        size = len(range(rows.start, rows.stop, rows.step))
        if held + size > len(room[0]):
            break
        panel.append(_Piece(group, rows, list(pool.map(load, range(len(layers))))))
        held += size
    return panel


def _tile_sums(
    left: Sequence[np.ndarray], right: Sequence[np.ndarray], room: np.ndarray
) -> Float[np.ndarray, "m m"]:
    height, width = len(left[0]), len(right[0])
    tiles = room[: len(left) * height * width].reshape(len(left), height * width)
    for tile, a, b in zip(tiles, left, right, strict=True):
        np.matmul(a, b.T, out=tile.reshape(height, width))
    return tiles @ tiles.T


def _pieces(n: int, groups: int, most: int) -> Iterator[tuple[int, slice]]:
    """All items in pieces of at most ``most`` items of one group: (group, rows)."""
    for group in range(groups):
        size = len(range(group, n, groups))
        for part in np.array_split(np.arange(size), -(-size // most)):
            yield (
                group,
                slice(group + int(part[0]) * groups, group + int(part[-1]) * groups + 1, groups),
            )


def _stacked_form(layers: Sequence[Layer], sides: Sequence[slice], groups: int) -> Products:
    """Cross-products of the layers of one side, one after another, with the layers of another that
    lie side by side."""
    n, m = len(layers[0]), len(layers)
    found = Products(np.full((groups, groups, m, m), np.nan), np.empty((n, m)))
    for i, layer in enumerate(layers):
        found.cross[:, :, i, i] = _own_sums(layer, groups, found.squares[:, i])
    for number, side in enumerate(sides):
        for other in sides[number + 1 :]:
            for rows, columns in _layer_tiles(layers, side, other, groups):
                sums = _cross_sums([layers[i] for i in rows], [layers[j] for j in columns], groups)
                found.cross[:, :, rows[:, None], columns] = sums
                found.cross[:, :, columns[:, None], rows] = sums.transpose(0, 1, 3, 2)
    return found


def _layer_tiles(
    layers: Sequence[Layer], side: slice, other: slice, groups: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of lists of layers whose cross-products fit in memory together: as many columns as can
    be, then rows."""
    indices = np.arange(len(layers))
    widest = max(layer.width for layer in layers)
    room = max(1, _BYTES // (groups * widest**2 * layers[0].dtype.itemsize))  # pairs
    columns = min(len(indices[other]), room if groups == 1 else max(1, int(room**0.5)))
    rows = max(1, room // columns)
    for i in range(0, len(indices[side]), rows):
        for j in range(0, len(indices[other]), columns):
            yield indices[side][i : i + rows], indices[other][j : j + columns]


def _own_sums(layer: Layer, groups: int, squares: np.ndarray) -> Float[np.ndarray, "g g"]:
    parts = np.zeros((groups, layer.width, layer.width), layer.dtype)
    room = np.empty((_BLOCK, layer.width), layer.dtype)
    for group, rows in _pieces(len(layer), groups, _BLOCK):
        block = layer.centred(rows, room)
        squares[rows] = np.einsum("ij,ij->i", block, block)
        parts[group] += block.T @ block
    return _inner(parts)


def _cross_sums(
    xs: Sequence[Layer], ys: Sequence[Layer], groups: int
) -> Float[np.ndarray, "g g lx ly"]:
    dtype = np.result_type(*(layer.dtype for layer in (*xs, *ys)))
    above, along = (np.cumsum([0, *(layer.width for layer in side)]) for side in (xs, ys))
    parts = np.zeros((groups, above[-1], along[-1]), dtype)
    stack = np.empty((_BLOCK, along[-1]), dtype)
    for group, rows in _pieces(len(xs[0]), groups, _BLOCK):
        for y, at in zip(ys, along, strict=False):
            columns = y.centred(rows, stack[:, at : at + y.width])
        for x, at in zip(xs, above, strict=False):
            block = x.centred(rows, np.empty((len(columns), x.width), x.dtype))
            parts[group, at : at + x.width] += block.T @ stack[: len(columns)]
    sums = np.empty((groups, groups, len(xs), len(ys)))
    for i, j in np.ndindex(len(xs), len(ys)):
        sums[:, :, i, j] = _inner(parts[:, above[i] : above[i + 1], along[j] : along[j + 1]])
    return sums


def _inner(parts: Float[np.ndarray, "g d1 d2"]) -> Float[np.ndarray, "g g"]:
    """The inner products of matrices with each other, summed in float64 some rows at a time."""
    total = np.zeros((len(parts), len(parts)))
    for at in range(0, parts.shape[1], 64):
        flat = parts[:, at : at + 64].reshape(len(parts), -1).astype(np.float64)
        total += flat @ flat.T
    return total
