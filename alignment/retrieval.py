"""Nearest neighbours by cosine similarity, and how often the right one is found.

Matrix products are fast, but their last bits depend on the shape of the block they
are computed in, so that ties would be broken by chance. Here a product only narrows
the choice: all keys within the product's rounding error of the best are compared
again, pair by pair in float64, and what is still equal goes to the lowest index. The
answer therefore depends on the vectors alone, not on block size, threads or BLAS.
(Very many keys closer together than rounding make this slower, never wrong.)
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from crosslens.alignment.normalisation import row_lengths
from crosslens.checks import check_matrix, check_paired, check_positive_int
from crosslens.errors import refuse
from crosslens.stats import wilson_interval

__all__ = ["RetrievalResult", "nearest_neighbours", "retrieval_both_directions", "retrieval_precision"]

_BLOCK = 1024  # rows of each side per product: 4 MB of float32 similarities
_PAIR_NUMBERS = 2**15  # numbers held while pairs are compared again: they stay in the processor's cache


@dataclasses.dataclass(frozen=True, eq=False)
class RetrievalResult:
    """How often the right key was among those found.

    Attributes
    ----------
    correct: shape (n,), True where the query's own key was found; the outcomes per item
        that paired tests need.
    precision: share of True, from 0 to 1; higher is better.
    n: number of queries.
    interval: 95 % interval of the precision (Wilson 1927).
    """

    correct: Bool[np.ndarray, " n"]
    precision: float
    n: int
    interval: tuple[float, float]


def nearest_neighbours(
    queries: ArrayLike, keys: ArrayLike, k: int = 1, *, block: int = _BLOCK
) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """The k keys that are most similar to each query, best first.

    Similarity is the cosine ``q · v / (||q|| ||v||)``, from -1 to 1 up to rounding;
    higher is closer. Equal similarities are ordered by the lower index; block size and
    threads change nothing (see the module's text).

    Parameters
    ----------
    queries: shape (n, d).
    keys: shape (m, d).
    k: how many keys to find per query, 1 to m.
    block: rows of each side that are multiplied at a time; memory grows with its
        square, beside one scaled copy of both inputs.

    Returns
    -------
    indices: shape (n, k), rows of ``keys``.
    similarities: shape (n, k), in the precision of the inputs, falling along each row.

    Raises
    ------
    InputError: not finite, different numbers of columns, a zero row (named), or k out of range.

    >>> indices, similarities = nearest_neighbours([[1, 0], [0, 2]], [[0, 1], [1, 1], [3, 0]], k=2)
    >>> indices.tolist()
    [[2, 1], [0, 1]]
    >>> similarities.round(3).tolist()
    [[1.0, 0.7070000171661377], [1.0, 0.7070000171661377]]
    """
    pair = _Pair.of(check_matrix(queries, "queries"), check_matrix(keys, "keys"), ("queries", "keys"))
    k = check_positive_int(k, "k", most=len(pair.y))
    best = _Best.empty(len(pair.x), k)
    for rows, columns, tile in pair.tiles(check_positive_int(block, "block")):
        best.offer(tile, 1, rows, columns, pair)
    return best.indices, best.similarities.astype(np.result_type(pair.x, pair.y))


def retrieval_precision(queries: ArrayLike, keys: ArrayLike, gold: ArrayLike | None = None, k: int = 1) -> RetrievalResult:
    """Precision at k: the share of queries whose own key is among the k nearest keys.

    Nearness is cosine similarity as in :func:`nearest_neighbours`; a key that ties with
    one of lower index comes after it, so a duplicate of the right key can take its place.

    Parameters
    ----------
    queries: shape (n, d).
    keys: shape (m, d); all of them compete, also those that belong to no query.
    gold: shape (n,), the row of ``keys`` that is right for each query; without it,
        row i belongs to row i and m must be n.
    k: how many keys may be looked at.

    Raises
    ------
    InputError: as for :func:`nearest_neighbours`, or ``gold`` is not one row number per query.

    >>> retrieval_precision([[1, 0], [0, 1]], [[1, 0.1], [1, 0]]).correct
    array([False, False])
    >>> retrieval_precision([[1, 0], [0, 1]], [[1, 0.1], [1, 0]], gold=[1, 0]).precision
    1.0
    """
    if gold is None:
        queries, keys = check_paired(queries, keys, ("queries", "keys"))
        rows = np.arange(len(keys))
    else:
        queries, keys = check_matrix(queries, "queries"), check_matrix(keys, "keys")
        rows = _check_gold(gold, len(queries), len(keys))
    indices, _ = nearest_neighbours(queries, keys, k)
    return _result((indices == rows[:, None]).any(axis=1))


def retrieval_both_directions(x: ArrayLike, y: ArrayLike) -> tuple[RetrievalResult, RetrievalResult]:
    """Precision at 1 from x to y and from y to x; the similarities are computed once for both.

    The results are those of ``retrieval_precision(x, y)`` and ``retrieval_precision(y, x)``.

    Parameters
    ----------
    x, y: shape (n, d); row i of one belongs to row i of the other.

    Raises
    ------
    InputError: not finite, different shapes, or a zero row (named).

    >>> there, back = retrieval_both_directions([[1, 0], [0, 1]], [[1, 0.1], [1, 0.2]])
    >>> there.correct, back.correct
    (array([ True,  True]), array([ True, False]))
    """
    x, y = check_paired(x, y)
    pair = _Pair.of(x, y, ("x", "y"))
    there, back = _Best.empty(len(x), 1), _Best.empty(len(y), 1)
    for rows, columns, tile in pair.tiles(_BLOCK):
        there.offer(tile, 1, rows, columns, pair)
        back.offer(tile, 0, rows, columns, pair)
    own = np.arange(len(x))
    return _result(there.indices[:, 0] == own), _result(back.indices[:, 0] == own)


def _check_gold(gold: ArrayLike, n: int, m: int) -> np.ndarray:
    rows = np.asarray(gold)
    if rows.shape != (n,) or rows.dtype.kind not in "iu":
        refuse("gold", f"{n} whole numbers, one per query", f"{rows.dtype} of shape {rows.shape}", "give the row of keys that is right")
    outside = np.flatnonzero((rows < 0) | (rows >= m))
    if len(outside):
        first = outside[0]
        refuse("gold", f"rows of keys, 0 to {m - 1}", f"{rows[first]} for query {first}", "remove queries whose key is not in keys")
    return rows


def _result(correct: Bool[np.ndarray, " n"]) -> RetrievalResult:
    hits = int(correct.sum())
    return RetrievalResult(correct, hits / len(correct), len(correct), wilson_interval(float(hits), len(correct)))


@dataclasses.dataclass(frozen=True, eq=False)
class _Pair:
    """Both sides, their lengths, and copies with rows of length 1 for the quick products."""

    x: np.ndarray
    y: np.ndarray
    x_lengths: np.ndarray
    y_lengths: np.ndarray
    x_units: np.ndarray
    y_units: np.ndarray
    margin: float  # two computed similarities further apart than this are ordered as the true ones are

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, names: tuple[str, str]) -> "_Pair":
        if x.shape[1] != y.shape[1]:
            refuse(names[1], f"as many columns as {names[0]} ({x.shape[1]})", f"{y.shape[1]} columns", "compare vectors of one space")
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        x_lengths, y_lengths = row_lengths(x, names[0]), row_lengths(y, names[1])
        x_units, y_units = x / x_lengths.astype(x.dtype)[:, None], y / y_lengths.astype(y.dtype)[:, None]
        # A sum of d products of unit vectors is off by at most d/2 eps, its scaled inputs add 1.5 eps; twice that for a difference,
        # and some more for the float64 comparison itself where the inputs are float64.
        coarser = max(np.finfo(x.dtype).eps, np.finfo(y.dtype).eps)
        return cls(x, y, x_lengths, y_lengths, x_units, y_units, float(coarser * (x.shape[1] + 16)))

    def tiles(self, block: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """Approximate similarities block by block, with the first row and column of each."""
        for row in range(0, len(self.x), block):
            for column in range(0, len(self.y), block):
                yield row, column, self.x_units[row : row + block] @ self.y_units[column : column + block].T

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Similarities of single pairs in float64; each depends on its two vectors only, to the last bit."""
        dots = np.empty(len(rows))
        step = max(1, _PAIR_NUMBERS // self.x.shape[1])
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            products = np.multiply(self.x[rows[some]], self.y[columns[some]], dtype=np.float64)
            dots[some] = products.sum(axis=1)  # along contiguous memory, in the same order for every pair
        return dots / (self.x_lengths[rows] * self.y_lengths[columns])


@dataclasses.dataclass(frozen=True, eq=False)
class _Best:
    """The k best partners of each item so far, best first; -inf marks a place not yet taken."""

    indices: np.ndarray
    similarities: np.ndarray

    @classmethod
    def empty(cls, n: int, k: int) -> "_Best":
        return cls(np.full((n, k), np.iinfo(np.int64).max), np.full((n, k), -np.inf))

    def offer(self, tile: np.ndarray, axis: int, row: int, column: int, pair: _Pair) -> None:
        """Take in a tile; its rows (axis 1) or its columns (axis 0) are the items that look for partners."""
        k, width = self.indices.shape[1], tile.shape[axis]
        first = row if axis == 1 else column
        mine = slice(first, first + tile.shape[1 - axis])
        if k == 1:
            least = tile.max(axis=axis)
        elif k < width:
            least = np.partition(tile, width - k, axis=axis).take(width - k, axis=axis)
        else:
            least = np.full(tile.shape[1 - axis], -np.inf)
        least = (np.maximum(least, self.similarities[mine, -1]) - pair.margin).astype(tile.dtype)
        promising = tile >= (least[:, None] if axis == 1 else least[None, :])
        rows, columns = np.divmod(np.flatnonzero(promising), tile.shape[1])
        similarities = pair.exact(rows + row, columns + column)
        items, partners = (rows, columns + column) if axis == 1 else (columns, rows + row)
        self._merge(mine, items, partners, similarities)

    def _merge(self, mine: slice, items: np.ndarray, partners: np.ndarray, similarities: np.ndarray) -> None:
        old_partners, old_similarities = self.indices[mine], self.similarities[mine]
        n, k = old_partners.shape
        items = np.concatenate([np.repeat(np.arange(n), k), items])
        partners = np.concatenate([old_partners.ravel(), partners])
        similarities = np.concatenate([old_similarities.ravel(), similarities])
        order = np.lexsort((partners, -similarities, items))
        starts = np.searchsorted(items[order], np.arange(n))
        keep = order[starts[:, None] + np.arange(k)]
        self.indices[mine], self.similarities[mine] = partners[keep], similarities[keep]
