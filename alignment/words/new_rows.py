"""Embeddings of a new vocabulary from those of an old one: what the rows of a table begin with when
an encoder is given other subwords.

Each function takes the old table and what connects the two vocabularies, and gives a row for each
new subword, with how it was made: copied, combined of several old rows, or sampled where nothing is
known of it.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int, UInt8
from scipy.sparse import csr_matrix

from crosslens.errors import refuse

__all__ = [
    "NewRows",
    "copied_rows",
    "factorised_rows",
    "mean_rows",
    "random_rows",
    "similar_rows",
    "sparsemax",
]

_SAMPLED, _COPIED, _COMBINED = 0, 1, 2
_NAMES = ("sampled", "copied", "combined")
_BLOCK = 512  # rows whose similarities are computed at a time


@dataclasses.dataclass(frozen=True, eq=False)
class NewRows:
    """The embeddings of a new vocabulary.

    Attributes
    ----------
    rows: (n, d) an embedding for each new subword.
    made: (n,) 0 where it is sampled, 1 copied, 2 combined.
    """

    rows: Float[np.ndarray, "n d"]
    made: UInt8[np.ndarray, " n"]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows were sampled, copied and combined."""
        found = Counter(self.made.tolist())
        return {name: found[number] for number, name in enumerate(_NAMES)}


def random_rows(table: Float[np.ndarray, "v d"], n: int, seed: int = 0) -> NewRows:
    """Rows sampled from a normal distribution with the old rows' mean and deviation in each
    dimension.

    >>> random_rows(np.ones((3, 2), np.float32), 2).rows.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    _check_table(table)
    rng = np.random.default_rng([seed, 0x7A8])
    mean, deviation = table.mean(0, dtype=np.float64), table.std(0, dtype=np.float64)
    rows = rng.standard_normal((n, table.shape[1])) * deviation + mean
    return NewRows(rows.astype(np.float32), np.zeros(n, np.uint8))


def copied_rows(
    table: Float[np.ndarray, "v d"], shared: Int[np.ndarray, " n"], seed: int = 0
) -> NewRows:
    """The old row of each subword that both vocabularies have; others are sampled.

    Parameters
    ----------
    shared: the old number of each new subword; -1 where it is new.

    Raises
    ------
    InputError: no subword is shared, or a number is beyond the table.

    >>> found = copied_rows(np.eye(3, dtype=np.float32), np.array([2, -1]))
    >>> found.rows[0].tolist(), found.counts
    ([0.0, 0.0, 1.0], {'sampled': 1, 'copied': 1, 'combined': 0})
    """
    _check_shared(table, shared)
    found = random_rows(table, len(shared), seed)
    there = shared >= 0
    found.rows[there] = table[shared[there]]
    found.made[there] = _COPIED
    return found


def mean_rows(
    table: Float[np.ndarray, "v d"],
    weights: csr_matrix,
    shared: Int[np.ndarray, " n"] | None = None,
    seed: int = 0,
) -> NewRows:
    """Means of old rows, weighted by how often old and new subwords translate each other
    (Trans-tokenisation: Remy et al. 2024); a subword that translates none is copied where both have
    it, and otherwise sampled.

    Parameters
    ----------
    weights: (n, v) of at least 0; rows need not add up to 1.
    shared: as for :func:`copied_rows`; None copies nothing.

    Raises
    ------
    InputError: no subword has a translation; shapes that do not fit; weights below 0.

    >>> translated = csr_matrix(np.array([[1, 3, 0], [0, 0, 0]]))
    >>> mean_rows(np.eye(3, dtype=np.float32), translated).rows[0].tolist()
    [0.25, 0.75, 0.0]
    """
    n = weights.shape[0]
    if weights.shape[1] != len(table):
        got = f"{weights.shape[1]} columns"
        refuse("weights", f"a column for each of {len(table)} old subwords", got, "check the order")
    if weights.nnz and weights.data.min() < 0:
        refuse("weights", "numbers of at least 0", str(weights.data.min()), "give counts")
    sums = np.asarray(weights.sum(1)).ravel()
    if not sums.any():
        expected, remedy = "a translation of one new subword at least", "check both languages"
        refuse("weights", expected, "none", remedy)
    absent = np.full(n, -1)
    there = absent if shared is None else shared
    found = copied_rows(table, there, seed) if (there >= 0).any() else random_rows(table, n, seed)
    known = sums > 0
    found.rows[known] = (weights[known] @ table) / sums[known, None]
    found.made[known] = _COMBINED
    return found


def similar_rows(
    table: Float[np.ndarray, "v d"],
    shared: Int[np.ndarray, " n"],
    vectors: Float[np.ndarray, "m k"],
    seed: int = 0,
) -> NewRows:
    """Copied rows, and for other subwords means of them weighted by similarity (FOCUS: Dobler & de
    Melo 2023): the sparsemax of cosines between static vectors of the new vocabulary.

    Parameters
    ----------
    shared: as for :func:`copied_rows`.
    vectors: static vectors of the new subwords, trained on text that they make up; rows of NaN where
        a subword has none: it is sampled.

    Raises
    ------
    InputError: no subword is shared, none of them has a vector, or shapes do not fit.

    >>> vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]])
    >>> similar_rows(np.eye(2, dtype=np.float32), np.array([0, 1, -1]), vectors).rows[2].astype(float).round(2).tolist()
    [0.95, 0.05]
    """
    found = copied_rows(table, shared, seed)
    anchors = _anchors(shared, vectors)
    for rows, cosines in _cosines(shared, vectors, anchors):
        found.rows[rows] = sparsemax(cosines) @ table[shared[anchors]]
        found.made[rows] = _COMBINED
    return found


def factorised_rows(
    table: Float[np.ndarray, "v d"],
    shared: Int[np.ndarray, " n"],
    vectors: Float[np.ndarray, "m k"],
    seed: int = 0,
    *,
    rank: int | None = None,
    neighbours: int = 10,
    temperature: float = 0.1,
) -> NewRows:
    """Rows that differ in few directions (OFA: Liu et al. 2024): the old table is taken apart into
    coordinates, (v, rank), and directions, (rank, d), by singular values; new coordinates are
    copied, or the mean of the most similar shared subwords', or sampled.

    Parameters
    ----------
    shared, vectors: as for :func:`similar_rows`.
    rank: None for half of d. neighbours: how many subwords a mean is of. temperature: of the softmax
        that weights them by their cosine.

    Raises
    ------
    InputError: as for :func:`similar_rows`, or a rank that is none.
    """
    _check_shared(table, shared)
    d = table.shape[1]
    rank = max(1, d // 2) if rank is None else rank
    if not 1 <= rank <= d:
        refuse("rank", f"from 1 to {d}", str(rank), "leave it out for half of the width")
    # the right singular vectors of the table: those of its d × d product
    _, directions = np.linalg.eigh(table.T.astype(np.float64) @ table.astype(np.float64))
    basis = directions[:, ::-1][:, :rank].astype(np.float32)
    coordinates = table @ basis
    found = copied_rows(coordinates, shared, seed)
    anchors = _anchors(shared, vectors)
    most = min(neighbours, len(anchors))
    for rows, cosines in _cosines(shared, vectors, anchors):
        near = np.argpartition(-cosines, most - 1, axis=1)[:, :most]
        sharp = np.take_along_axis(cosines, near, 1) / temperature
        weights = np.exp(sharp - sharp.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        found.rows[rows] = np.einsum("ik,ikr->ir", weights, coordinates[shared[anchors[near]]])
        found.made[rows] = _COMBINED
    return NewRows(found.rows @ basis.T, found.made)


def sparsemax(scores: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
    """The point of the simplex that is nearest to each row (Martins & Astudillo 2016): weights that
    add up to 1, most of them 0.

    >>> sparsemax(np.array([[1.0, 0.8, -1.0]])).round(2).tolist()
    [[0.6, 0.4, 0.0]]
    """
    ordered = -np.sort(-scores, axis=1)
    sums = np.cumsum(ordered, axis=1, dtype=np.float64)
    counts = np.arange(1, scores.shape[1] + 1)
    support = (1 + counts * ordered > sums).sum(1)
    threshold = (np.take_along_axis(sums, support[:, None] - 1, 1)[:, 0] - 1) / support
    return np.maximum(scores - threshold[:, None], 0).astype(scores.dtype)


def _anchors(
    shared: Int[np.ndarray, " n"], vectors: Float[np.ndarray, "m k"]
) -> Int[np.ndarray, " a"]:
    """The shared subwords that have a vector."""
    if len(vectors) != len(shared):
        refuse(
            "vectors", f"a row for each of {len(shared)} subwords", str(len(vectors)), "align them"
        )
    anchors = np.flatnonzero((shared >= 0) & np.isfinite(vectors).all(1))
    if not len(anchors):
        remedy = "give more text, or choose another initialiser"
        refuse("vectors", "a vector of one shared subword at least", "none", remedy)
    return anchors


def _cosines(
    shared: Int[np.ndarray, " n"],
    vectors: Float[np.ndarray, "m k"],
    anchors: Int[np.ndarray, " a"],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """New subwords that have a vector, some at a time, with their cosines to the shared ones."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    wanted = np.flatnonzero((shared < 0) & np.isfinite(vectors).all(1))
    for start in range(0, len(wanted), _BLOCK):
        rows = wanted[start : start + _BLOCK]
        yield rows, unit[rows] @ unit[anchors].T


def _check_table(table: Float[np.ndarray, "v d"]) -> None:
    if not len(table) or not np.isfinite(table).all():
        refuse("table", "rows of finite numbers", f"shape {table.shape}", "check the encoder")


def _check_shared(table: Float[np.ndarray, "v d"], shared: Int[np.ndarray, " n"]) -> None:
    _check_table(table)
    if len(shared) and shared.max() >= len(table):
        expected, remedy = f"numbers below {len(table)}", "give the encoder's own tokeniser"
        refuse("shared", expected, str(shared.max()), remedy)
    if not (shared >= 0).any():
        remedy = "choose random rows, or means by a dictionary"
        refuse("shared", "a subword that both vocabularies have", "none", remedy)
