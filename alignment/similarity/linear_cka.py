"""How alike two sets of vectors for the same items are, whatever their coordinates: linear CKA.

A pair is computed from features, never from n × n Gram matrices: the d × d
cross-product, and per item its squared length and its row sum in the Gram matrix. All
pairs of layers together are computed in whichever form costs less
(:mod:`crosslens.alignment.similarity.cka_products`).
Rows are centred and scaled before they are multiplied, block by block, so float32 is
enough even where some dimensions have a mean of 300, and memory does not grow with n
beyond a few numbers per item. There is no epsilon and no clamping.

With rows x_i that are centred up to rounding, X their matrix, s = Σ x_i, and
``k_i = x_i·x_i``, ``r_i = x_i·s``, the two estimates of HSIC are (up to factors that cancel)

    biased      tr(HKHL)   = ||XᵀY||² - 2/n Σ r_i r'_i + Σ r_i Σ r'_i / n²
    debiased    n (n-3) HSIC_u = ||XᵀY||² - Σ k_i k'_i + Σ a_i Σ a'_i / ((n-1)(n-2)) - 2/(n-2) Σ a_i
                a'_i,   a_i = r_i - k_i

The first makes the centring exact; the second is equation 5 of Song et al. 2012, which
does not change when rows are shifted.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.alignment.rows import check_varies
from crosslens.alignment.similarity.cka_products import Layer, products
from crosslens.alignment.similarity.resampling import cka_intervals
from crosslens.checks import check_matrix, check_paired
from crosslens.errors import refuse
from crosslens.one_line import one_line

__all__ = ["GROUPS", "LayerCKA", "linear_cka", "linear_cka_layers"]

_BLOCK = 4096  # rows centred and multiplied at a time
GROUPS = 20  # of items, for intervals


@dataclasses.dataclass(frozen=True, eq=False)
class LayerCKA:
    """Linear CKA of every layer of one encoder with every layer of another.

    Attributes
    ----------
    biased, debiased: shape (Lx, Ly), as :func:`linear_cka` gives them. The biased one
        is close to 1 for any two encoders when n is small beside d: read the debiased one then.
    debiased_low, debiased_high: shape (Lx, Ly), 95 % interval of the true value, around
        ``debiased``, which with fewer than 30 items is too narrow; NaN where none was asked for,
        and where nearly all that varies is in one of the groups of items. There is none of
        ``biased``, which is off by about d / n from what it estimates.
    n: number of items.
    """

    biased: Float[np.ndarray, "lx ly"]
    debiased: Float[np.ndarray, "lx ly"]
    debiased_low: Float[np.ndarray, "lx ly"]
    debiased_high: Float[np.ndarray, "lx ly"]
    n: int

    __repr__ = one_line


def linear_cka(x: ArrayLike, y: ArrayLike, *, debiased: bool = False) -> float:
    """Linear centred kernel alignment of two matrices for the same items.

    ``CKA = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))`` with ``K = XXᵀ``, ``L = YYᵀ``; with
    centred columns it is ``||XᵀY||_F² / (||XᵀX||_F ||YᵀY||_F)``. Rotating, shifting or
    scaling a side as a whole changes nothing; scaling single dimensions does.

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    debiased: use the unbiased estimate of HSIC (Song et al. 2012) in all three places. The
        biased CKA of unrelated data is about d / (n + d), the debiased one about 0.

    Returns
    -------
    Higher is more alike. Biased: from 0 to 1. Debiased: at most 1 (by Cauchy-Schwarz), can
    be below 0. Both up to rounding.

    Raises
    ------
    InputError: not finite, different numbers of rows, fewer than 2 rows (4 if debiased),
        all rows equal, or too little variation for the debiased estimate.

    References
    ----------
    Kornblith et al. 2019, Similarity of neural network representations revisited, equation 4
    and the linear form in their table 1; Song et al. 2012, Feature selection via dependence
    maximization, equation 5.

    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [0.0, 3.0], [5.0, 1.0]])
    >>> round(linear_cka(x, 7 * x[:, ::-1] + 300), 12)
    1.0
    >>> y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> round(linear_cka(x, y), 3), round(linear_cka(x, y, debiased=True), 3)
    (0.439, -0.124)
    """
    x, y = check_paired(x, y, min_rows=4 if debiased else 2)
    layers = _Layer.of(x, "x"), _Layer.of(y, "y")
    kind = 1 if debiased else 0
    own = [_own(layer, kind) for layer in layers]
    return float(_hsic(*layers)[kind] / math.sqrt(own[0] * own[1]))


def linear_cka_layers(xs: Iterable[ArrayLike], ys: Iterable[ArrayLike]) -> LayerCKA:
    """Biased and debiased linear CKA of every pair of layers, with intervals of the debiased
    values.

    The formulas are those of :func:`linear_cka`, the intervals those of
    :func:`crosslens.alignment.similarity.resampling.cka_intervals`: item i is in group i mod 20
    (below 20 items each is a group). For more encoders, see
    :func:`crosslens.alignment.similarity.cka_stream.linear_cka_encoders`.

    Parameters
    ----------
    xs: Lx matrices of shape (n, d), one per layer; the d may differ. Memory-mapped arrays
        are read in blocks, several times; a generator is read to its end first.
    ys: Ly matrices with the same n; row i belongs to row i of every other matrix.

    Raises
    ------
    InputError: as for :func:`linear_cka`, naming the layer as ``xs[0]``; no layers; below 5 items.

    References
    ----------
    As for :func:`linear_cka`.

    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=(40, 3)).astype(np.float32)
    >>> cka = linear_cka_layers([first, first**3], [2 * first])
    >>> cka.biased.shape, bool(abs(cka.biased[0, 0] - 1) < 1e-6), bool(cka.biased[1, 0] < 0.9)
    ((2, 1), True, True)
    >>> (cka.debiased_low < cka.debiased + 1e-6).tolist(), (cka.debiased < cka.debiased_high + 1e-6).tolist()
    ([[True], [True]], [[True], [True]])
    """
    sides = _check_layers(xs, ys)
    layers = [Layer.of(x, name, min_rows=5) for side in sides for name, x in side]
    split = len(sides[0])
    part = slice(0, split), slice(split, len(layers))
    found = products(layers, part, min(GROUPS, len(layers[0])))
    values = found.cka(layers)
    bounds = cka_intervals(found, values[1])[:, part[0], part[1]]
    return LayerCKA(values[0][part], values[1][part], bounds[0], bounds[1], len(layers[0]))


def _check_layers(
    xs: Iterable[ArrayLike], ys: Iterable[ArrayLike]
) -> list[list[tuple[str, np.ndarray]]]:
    sides: list[list[tuple[str, np.ndarray]]] = []
    for name, side in (("xs", xs), ("ys", ys)):
        sides.append(
            [
                (f"{name}[{i}]", check_matrix(layer, f"{name}[{i}]", min_rows=5))
                for i, layer in enumerate(side)
            ]
        )
        if not sides[-1]:
            refuse(name, "at least one layer", "none", "give a sequence of matrices")
    n = len(sides[0][0][1])
    for name, layer in (*sides[0], *sides[1]):
        if len(layer) != n:
            remedy = "every layer must hold the same items in the same order"
            refuse(name, f"as many rows as xs[0] ({n})", f"{len(layer)} rows", remedy)
    return sides


@dataclasses.dataclass(frozen=True, eq=False)
class _Layer:
    """A matrix with what centring it takes, and what is needed of each row."""

    name: str
    rows: np.ndarray
    mean: np.ndarray
    scale: float  # a power of two: exact, and no product over- or underflows
    squares: Float[np.ndarray, " n"]  # k_i
    sums: Float[np.ndarray, " n"]  # r_i

    @classmethod
    def of(cls, x: np.ndarray, name: str) -> "_Layer":
        check_varies(x, name)
        n = len(x)
        with np.errstate(over="ignore"):  # refused in the next lines
            mean = x.mean(axis=0, dtype=np.float64).astype(x.dtype)
            peak = max(float(np.abs(x[rows] - mean).max()) for rows in _blocks(n))
        if not np.isfinite(peak):
            refuse(
                name, f"values whose differences fit in {x.dtype}", "an overflow", "scale them down"
            )
        limit = np.finfo(x.dtype).maxexp - 2
        scale = 2.0 ** float(np.clip(-np.floor(np.log2(peak)), -limit, limit))
        bare = cls(name, x, mean, scale, np.empty(n), np.empty(n))
        total = np.zeros(x.shape[1])
        for rows in _blocks(n):
            centred = bare.centred(rows)
            bare.squares[rows] = np.square(centred, dtype=np.float64).sum(axis=1)
            total += centred.sum(axis=0, dtype=np.float64)
        for rows in _blocks(n):
            bare.sums[rows] = bare.centred(rows) @ total
        return bare

    def centred(self, rows: slice) -> np.ndarray:
        block = self.rows[rows] - self.mean
        block *= self.rows.dtype.type(self.scale)
        return block


def _blocks(n: int) -> Iterator[slice]:
    """All rows in bounded blocks."""
    for start in range(0, n, _BLOCK):
        yield slice(start, start + _BLOCK)


def _hsic(x: _Layer, y: _Layer) -> tuple[float, float]:
    """Biased and debiased HSIC, up to factors that cancel."""
    total = np.zeros((x.rows.shape[1], y.rows.shape[1]))
    for rows in _blocks(len(x.rows)):
        left = x.centred(rows)
        total += left.T @ (left if y is x else y.centred(rows))
    n, cross = len(x.rows), float(np.vdot(total, total))
    biased = cross - 2 / n * float(x.sums @ y.sums) + float(x.sums.sum() * y.sums.sum()) / n**2
    if n < 4:
        return biased, math.nan
    a_x, a_y = x.sums - x.squares, y.sums - y.squares
    debiased = (
        cross - float(x.squares @ y.squares) + float(a_x.sum() * a_y.sum()) / ((n - 1) * (n - 2))
    )
    return biased, debiased - 2 / (n - 2) * float(a_x @ a_y)


def _own(layer: _Layer, kind: int) -> float:
    """HSIC of a layer with itself: more than what rounding leaves of it."""
    found = _hsic(layer, layer)
    if not found[kind] > 32 * np.finfo(layer.rows.dtype).eps * found[0]:
        expected = "rows that vary enough for debiased CKA"
        refuse(layer.name, expected, "a debiased variance of zero", "give more items that differ")
    return found[kind]
