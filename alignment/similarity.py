"""How alike two sets of vectors for the same items are, whatever their coordinates: linear CKA.

A pair is computed from features, never from n × n Gram matrices: the d × d
cross-product, and per item its squared length and its row sum in the Gram matrix. All
pairs of layers together are computed in whichever form costs less
(:mod:`crosslens.alignment.cka_products`).
Rows are centred and scaled before they are multiplied, block by block, so float32 is
enough even where some dimensions have a mean of 300, and memory does not grow with n
beyond a few numbers per item. There is no epsilon and no clamping.

With rows x_i that are centred up to rounding, X their matrix, s = Σ x_i, and
``k_i = x_i·x_i``, ``r_i = x_i·s``, the two estimates of HSIC are (up to factors that cancel)

    biased      tr(HKHL)   = ||XᵀY||² - 2/n Σ r_i r'_i + Σ r_i Σ r'_i / n²
    debiased    n (n-3) HSIC_u = ||XᵀY||² - Σ k_i k'_i + Σ a_i Σ a'_i / ((n-1)(n-2)) - 2/(n-2) Σ a_i a'_i,   a_i = r_i - k_i

The first makes the centring exact; the second is equation 5 of Song et al. 2012, which
does not change when rows are shifted. Leaving out a group of items changes every term
by sums over items, so that the jackknife costs two more products instead of twenty.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.alignment.cka_products import Layer, products
from crosslens.alignment.normalisation import check_varies
from crosslens.checks import check_matrix, check_paired
from crosslens.errors import refuse
from crosslens.stats import jackknife_interval

__all__ = ["LayerCKA", "linear_cka", "linear_cka_layers"]

_BLOCK = 4096  # rows centred and multiplied at a time
_GROUPS = 20  # of the jackknife


@dataclasses.dataclass(frozen=True, eq=False)
class LayerCKA:
    """Linear CKA of every layer of one encoder with every layer of another.

    Attributes
    ----------
    biased, debiased: shape (Lx, Ly), as :func:`linear_cka` gives them. The biased one
        is close to 1 for any two encoders when n is small beside d: read the debiased one then.
    low, high: shape (Lx, Ly), 95 % interval of ``biased``; NaN off the diagonal.
    debiased_low, debiased_high: the same of ``debiased``.
    n: number of items.
    """

    biased: Float[np.ndarray, "lx ly"]
    debiased: Float[np.ndarray, "lx ly"]
    low: Float[np.ndarray, "lx ly"]
    high: Float[np.ndarray, "lx ly"]
    debiased_low: Float[np.ndarray, "lx ly"]
    debiased_high: Float[np.ndarray, "lx ly"]
    n: int


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
    layers = _Layer.of(x, "x", 0), _Layer.of(y, "y", 0)
    kind = 1 if debiased else 0
    own = [_own(layer, 0) for layer in layers]
    for layer, values in zip(layers, own, strict=True):
        _check_measurable(values[kind], layer)
    return float(_ratio(_hsic(*layers, 0)[kind], own[0][kind], own[1][kind])[0])


def linear_cka_layers(xs: Iterable[ArrayLike], ys: Iterable[ArrayLike]) -> LayerCKA:
    """Biased and debiased linear CKA of every pair of layers, with intervals on the diagonal.

    The formulas are those of :func:`linear_cka`. The intervals come from the delete-a-group
    jackknife over the items (:func:`crosslens.stats.jackknife_interval`): item i is in group
    i mod 20 (i mod n below 20 items). To keep the cost down they are computed for layer i
    against layer i only and are NaN elsewhere (for all pairs, and for more encoders, see
    :func:`crosslens.alignment.cka_stream.linear_cka_encoders`); they are also NaN where leaving out some group
    leaves a layer without variation. Centring is exact for the items that remain.

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
    As for :func:`linear_cka`; Efron & Stein 1981, The jackknife estimate of variance.

    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=(40, 3)).astype(np.float32)
    >>> cka = linear_cka_layers([first, first**3], [2 * first])
    >>> cka.biased.shape, bool(abs(cka.biased[0, 0] - 1) < 1e-6), bool(cka.biased[1, 0] < 0.9)
    ((2, 1), True, True)
    >>> np.isnan(cka.low).tolist()
    [[False], [True]]
    """
    sides = _check_layers(xs, ys)
    layers = [Layer.of(x, name, min_rows=5) for side in sides for name, x in side]
    split = len(sides[0])
    part = slice(0, split), slice(split, len(layers))
    values = products(layers, part, 1).cka(layers)[:, part[0], part[1]]
    lows, highs = np.full_like(values, np.nan), np.full_like(values, np.nan)
    for i, pair in enumerate(zip(*sides, strict=False)):
        x, y = (_Layer.of(matrix, name, _GROUPS) for name, matrix in pair)
        own, hsic = (_own(x, x.groups), _own(y, y.groups)), _hsic(x, y, x.groups)
        for kind in range(2):  # biased, debiased
            ratio = _ratio(hsic[kind], own[0][kind], own[1][kind])
            if not np.isnan(ratio).any():
                lows[kind, i, i], highs[kind, i, i] = jackknife_interval(float(ratio[0]), ratio[1:])
    return LayerCKA(values[0], values[1], lows[0], highs[0], lows[1], highs[1], len(layers[0]))


def _check_layers(xs: Iterable[ArrayLike], ys: Iterable[ArrayLike]) -> list[list[tuple[str, np.ndarray]]]:
    sides: list[list[tuple[str, np.ndarray]]] = []
    for name, side in (("xs", xs), ("ys", ys)):
        sides.append([(f"{name}[{i}]", check_matrix(layer, f"{name}[{i}]", min_rows=5)) for i, layer in enumerate(side)])
        if not sides[-1]:
            refuse(name, "at least one layer", "none", "give a sequence of matrices")
    n = len(sides[0][0][1])
    for name, layer in (*sides[0], *sides[1]):
        if len(layer) != n:
            refuse(name, f"as many rows as xs[0] ({n})", f"{len(layer)} rows", "every layer must hold the same items in the same order")
    return sides


@dataclasses.dataclass(frozen=True, eq=False)
class _Layer:
    """A matrix with what centring it takes, and what is needed of each row. Column 0 of
    ``sums`` belongs to all items, column 1 + g to the items outside group g."""

    name: str
    rows: np.ndarray
    mean: np.ndarray
    scale: float  # a power of two: exact, and no product over- or underflows
    squares: Float[np.ndarray, " n"]  # k_i
    sums: Float[np.ndarray, "n scenarios"]  # r_i, 0 where item i is left out

    @classmethod
    def of(cls, x: np.ndarray, name: str, groups: int) -> "_Layer":
        check_varies(x, name)
        n, groups = len(x), min(groups, len(x))
        with np.errstate(over="ignore"):  # refused in the next lines
            mean = x.mean(axis=0, dtype=np.float64).astype(x.dtype)
            peak = max(float(np.abs(x[rows] - mean).max()) for _, rows in _blocks(n, 0))
        if not np.isfinite(peak):
            refuse(name, f"values whose differences fit in {x.dtype}", "an overflow", "scale them down")
        limit = np.finfo(x.dtype).maxexp - 2
        scale = 2.0 ** float(np.clip(-np.floor(np.log2(peak)), -limit, limit))
        bare = cls(name, x, mean, scale, np.empty(n), np.empty((n, 1)))
        group_sums = np.zeros((max(groups, 1), x.shape[1]))
        for group, rows in _blocks(n, groups):
            centred = bare.centred(rows)
            bare.squares[rows] = np.square(centred, dtype=np.float64).sum(axis=1)
            group_sums[group] += centred.sum(axis=0, dtype=np.float64)
        parts = np.concatenate([bare.centred(rows) @ group_sums.T for _, rows in _blocks(n, 0)])
        total = parts.sum(axis=1, keepdims=True)
        sums = np.concatenate([total, total - parts], axis=1) * _kept(n, groups) if groups else total
        return dataclasses.replace(bare, sums=sums)

    @property
    def groups(self) -> int:
        return self.sums.shape[1] - 1

    def centred(self, rows: slice) -> np.ndarray:
        block = self.rows[rows] - self.mean
        block *= self.rows.dtype.type(self.scale)
        return block


def _blocks(n: int, groups: int) -> Iterator[tuple[int, slice]]:
    """All rows in bounded blocks, group by group (item i is in group i mod groups; 0 groups: one)."""
    step = max(groups, 1)
    for group in range(step):
        for start in range(group, n, _BLOCK * step):
            yield group, slice(start, start + _BLOCK * step, step)


def _kept(n: int, groups: int) -> Float[np.ndarray, "n scenarios"]:
    """1 where item i is present: column 0 with all groups, column 1 + g without group g."""
    kept = np.ones((n, 1 + groups))
    if groups:
        kept[np.arange(n), 1 + np.arange(n) % groups] = 0
    return kept


def _cross(x: _Layer, y: _Layer, groups: int) -> Float[np.ndarray, " scenarios"]:
    """``||XᵀY||_F²`` with all items, then without each group.

    With ``C = XᵀY`` and ``C_g`` the part of group g, ``||C - C_g||² = ||C||² - 2 <C, C_g> + ||C_g||²``,
    and ``<C, C_g> = Σ x_i C y_i`` over the items of the group: no part needs to be kept.
    """
    step, n = max(groups, 1), len(x.rows)
    total = np.zeros((x.rows.shape[1], y.rows.shape[1]))
    shared, own = np.zeros(step), np.zeros(step)
    for group in range(step):
        part = np.zeros_like(total) if groups else total
        for _, rows in (block for block in _blocks(n, groups) if block[0] == group):
            left = x.centred(rows)
            part += left.T @ (left if y is x else y.centred(rows))
        if groups:
            own[group] = np.vdot(part, part)
            total += part
    everything = np.vdot(total, total)
    if not groups:
        return np.array([everything])
    weights = total.astype(np.result_type(x.rows, y.rows))
    for group, rows in _blocks(n, groups):
        shared[group] += np.multiply(x.centred(rows) @ weights, y.centred(rows), dtype=np.float64).sum()
    return np.concatenate([[everything], everything - 2 * shared + own])


def _hsic(x: _Layer, y: _Layer, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Biased and debiased HSIC, up to factors that cancel, with all items and without each group."""
    cross, kept = _cross(x, y, groups), _kept(len(x.rows), groups)
    n = kept.sum(axis=0)
    r_x, r_y = x.sums[:, : 1 + groups], y.sums[:, : 1 + groups]
    biased = cross - 2 / n * (r_x * r_y).sum(axis=0) + r_x.sum(axis=0) * r_y.sum(axis=0) / n**2
    if n.min() < 4:
        return biased, np.full_like(biased, np.nan)
    k_x, k_y = x.squares[:, None] * kept, y.squares[:, None] * kept
    a_x, a_y = r_x - k_x, r_y - k_y
    debiased = cross - (k_x * k_y).sum(axis=0) + a_x.sum(axis=0) * a_y.sum(axis=0) / ((n - 1) * (n - 2))
    return biased, debiased - 2 / (n - 2) * (a_x * a_y).sum(axis=0)


def _own(layer: _Layer, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """HSIC of a layer with itself; NaN where nothing but rounding is left of it."""
    biased, debiased = _hsic(layer, layer, groups)
    rounding = 32 * np.finfo(layer.rows.dtype).eps * biased[0]
    return np.where(biased > rounding, biased, np.nan), np.where(debiased > rounding, debiased, np.nan)


def _check_measurable(own: np.ndarray, layer: _Layer) -> None:
    if np.isnan(own[0]):
        refuse(layer.name, "rows that vary enough for debiased CKA", "a debiased variance of zero", "give more items that differ")


def _ratio(hsic: np.ndarray, x_own: np.ndarray, y_own: np.ndarray) -> np.ndarray:
    return hsic / np.sqrt(x_own * y_own)
