"""Nearest neighbours by cosine similarity, and how often the right one is found.

Equal similarities are ordered by index, and similarities that float32 products cannot distinguish by
their exact values: see :mod:`crosslens.alignment.neighbours.tiles`, which says how. Other scores
than the cosine are in :mod:`crosslens.alignment.neighbours.csls`.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from crosslens.alignment.neighbours.products import Cosine
from crosslens.alignment.neighbours.tiles import find_both
from crosslens.checks import as_array, check_matrix, check_paired, check_positive_int
from crosslens.errors import refuse
from crosslens.one_line import one_line
from crosslens.stats import wilson_interval

__all__ = [
    "RetrievalResult",
    "nearest_neighbours",
    "retrieval_both_directions",
    "retrieval_precision",
]


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

    __repr__ = one_line


def nearest_neighbours(
    queries: ArrayLike, keys: ArrayLike, k: int = 1, *, block: int | None = None
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
        square, beside one scaled copy of both inputs. Without it, 32 MB are multiplied at a time.

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
    queries, keys = check_matrix(queries, "queries"), check_matrix(keys, "keys")
    cosine = Cosine.of(queries, keys, ("queries", "keys"))
    k = check_positive_int(k, "k", most=len(keys))
    found, _ = find_both(
        cosine.scores(),
        k,
        None,
        0,
        block=None if block is None else check_positive_int(block, "block"),
    )
    return found.indices, found.scores.astype(np.result_type(queries, keys))


def retrieval_precision(
    queries: ArrayLike, keys: ArrayLike, gold: ArrayLike | None = None, k: int = 1
) -> RetrievalResult:
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
    return result_of((indices == rows[:, None]).any(axis=1))


def retrieval_both_directions(
    x: ArrayLike, y: ArrayLike
) -> tuple[RetrievalResult, RetrievalResult]:
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
    there, back = find_both(Cosine.of(x, y).scores(), 1)
    own = np.arange(len(x))
    return result_of(there.indices[:, 0] == own), result_of(back.indices[:, 0] == own)


def _check_gold(gold: ArrayLike, n: int, m: int) -> np.ndarray:
    rows = as_array(gold, "gold")
    if rows.shape != (n,) or rows.dtype.kind not in "iu":
        got = f"{rows.dtype} of shape {rows.shape}"
        remedy = "give the row of keys that is right"
        refuse("gold", f"{n} whole numbers, one per query", got, remedy)
    outside = np.flatnonzero((rows < 0) | (rows >= m))
    if len(outside):
        first = outside[0]
        remedy = "remove queries whose key is not in keys"
        refuse("gold", f"rows of keys, 0 to {m - 1}", f"{rows[first]} for query {first}", remedy)
    return rows


def result_of(correct: Bool[np.ndarray, " n"]) -> RetrievalResult:
    """Outcomes with their share and its interval."""
    hits = int(correct.sum())
    return RetrievalResult(
        correct, hits / len(correct), len(correct), wilson_interval(float(hits), len(correct))
    )
