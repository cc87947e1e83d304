"""Nearest neighbours by a faiss index: most of the right ones, in a fraction of the time, for
vocabularies beyond a million.

Everything else in this room is exact. What an index misses is measured here on a sample and told in
the result.
"""

import dataclasses
import math
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from crosslens.alignment.neighbours.products import Cosine
from crosslens.alignment.neighbours.retrieval import nearest_neighbours
from crosslens.checks import check_matrix, check_positive_int, check_seed
from crosslens.errors import check_choice, refuse
from crosslens.one_line import one_line

__all__ = ["ApproximateNeighbours", "approximate_neighbours"]

Index = Literal["hnsw", "ivf"]
# HNSW: links of each key, and candidates looked at while it is linked (Malkov & Yashunin 2018)
_LINKS, _BUILD = 32, 200


@dataclasses.dataclass(frozen=True, eq=False)
class ApproximateNeighbours:
    """Neighbours that an index has found, and the share of the right ones that are among them.

    Attributes
    ----------
    indices: shape (n, k), rows of the keys, nearest first.
    similarities: shape (n, k), cosines, falling along each row.
    recall: the share of the k exact neighbours that were found, over the sampled queries; 0 to 1,
        higher is better.
    interval: 95 % interval of the recall over queries; (nan, nan) for a sample of one query.
    sample: shape (s,), the queries that were looked up exactly as well.
    index, effort: what was used.
    """

    indices: Int[np.ndarray, "n k"]
    similarities: Float[np.ndarray, "n k"]
    recall: float
    interval: tuple[float, float]
    sample: Int[np.ndarray, " s"]
    index: str
    effort: int

    __repr__ = one_line


def approximate_neighbours(
    queries: ArrayLike,
    keys: ArrayLike,
    k: int = 1,
    *,
    index: Index = "hnsw",
    effort: int = 128,
    sample: int = 1000,
    seed: int = 0,
) -> ApproximateNeighbours:
    """About the k keys that are most similar to each query by the cosine, best first.

    An index is built over the keys and asked once; the sampled queries are looked up exactly as
    well. Without an index, :func:`crosslens.alignment.neighbours.retrieval.nearest_neighbours` is
    exact.

    Parameters
    ----------
    queries: shape (n, d). keys: shape (m, d).
    k: how many keys to find per query, 1 to m.
    index: "hnsw", a graph of neighbours (Malkov & Yashunin 2018): slow to build, quickest to ask;
        with several threads the graph differs a little from run to run. "ivf", keys in about 4
        sqrt(m) cells around k-means centres (Sivic & Zisserman 2003).
    effort: how many keys ("hnsw", at least k) or cells ("ivf") are looked at per query; more take
        longer and miss less.
    sample: how many queries the recall is measured on; all, if there are fewer.
    seed: decides which, and the k-means.

    Raises
    ------
    InputError: not finite, different numbers of columns, a zero row (named), a number out of range,
        an unknown index, or an index that has found fewer than k keys for a query (told what to
        raise).

    >>> keys = np.random.default_rng(0).normal(size=(500, 8))
    >>> found = approximate_neighbours(keys[:5] * 2, keys, k=3)
    >>> found.indices[:, 0].tolist(), found.recall > 0.9
    ([0, 1, 2, 3, 4], True)
    """
    queries, keys = check_matrix(queries, "queries"), check_matrix(keys, "keys")
    check_choice(index, "index", get_args(Index))
    cosine = Cosine.of(queries, keys, ("queries", "keys"))
    k = check_positive_int(k, "k", most=len(keys))
    effort, sample = check_positive_int(effort, "effort"), check_positive_int(sample, "sample")
    seed = check_seed(seed, most=2**31 - 2)  # as faiss takes it
    d = queries.shape[1]
    similarities, indices = _search(
        cosine.x_units[:, :d], cosine.y_units[:, :d], k, index, effort, seed
    )
    if (indices < 0).any():
        expected = "enough cells to hold k keys for every query"
        refuse("effort", expected, str(effort), "raise effort, or lower k")
    some = np.sort(np.random.default_rng(seed).permutation(len(queries))[:sample])
    exact, _ = nearest_neighbours(queries[some], keys, k)
    shares = np.array(
        [len(np.intersect1d(a, b)) / k for a, b in zip(indices[some], exact, strict=True)]
    )
    return ApproximateNeighbours(
        indices,
        similarities.astype(np.result_type(queries, keys)),
        float(shares.mean()),
        _interval(shares),
        some,
        index,
        effort,
    )


def _search(
    queries: np.ndarray, keys: np.ndarray, k: int, index: str, effort: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    import faiss  # here: it takes a while to load, and exact retrieval does without it

    d = keys.shape[1]
    if index == "hnsw":
        graph = faiss.IndexHNSWFlat(d, _LINKS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction, graph.hnsw.efSearch = _BUILD, max(effort, k)
        graph.add(np.ascontiguousarray(keys))
        found: tuple[np.ndarray, np.ndarray] = graph.search(np.ascontiguousarray(queries), k)
        return found
    # faiss wants 39 keys a cell to find centres
    cells = max(1, min(round(4 * math.sqrt(len(keys))), len(keys) // 39))
    inverted = faiss.IndexIVFFlat(faiss.IndexFlatIP(d), d, cells, faiss.METRIC_INNER_PRODUCT)
    inverted.cp.seed, inverted.nprobe = seed, min(effort, cells)
    units = np.ascontiguousarray(keys)
    inverted.train(units)
    inverted.add(units)
    answer: tuple[np.ndarray, np.ndarray] = inverted.search(np.ascontiguousarray(queries), k)
    return answer


def _interval(shares: np.ndarray) -> tuple[float, float]:
    if len(shares) < 2:
        return math.nan, math.nan
    from crosslens.stats import mean_interval

    _, low, high = mean_interval(shares)
    return max(0.0, low), min(1.0, high)
