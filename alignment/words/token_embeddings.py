"""How well the token embeddings of one vocabulary lie on those of another (Deshpande et al. 2022, §
4.4).

A model with two vocabularies whose tokens belong together one to one, such as an original and a
derived language, has two sets of rows in its embedding matrix. How often is a token's counterpart
its nearest neighbour?
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.neighbours.products import Cosine
from crosslens.alignment.neighbours.retrieval import RetrievalResult, retrieval_precision
from crosslens.alignment.neighbours.tiles import find_both
from crosslens.alignment.rows import row_lengths
from crosslens.checks import (
    as_array,
    check_fraction,
    check_matrix,
    check_paired,
    check_same_width,
    check_seed,
)
from crosslens.errors import refuse
from crosslens.one_line import one_line

__all__ = [
    "CopyAlignment",
    "TokenAlignment",
    "copy_alignment",
    "token_embedding_alignment",
]

_GROUP = 20  # tokens of about the same frequency


@dataclasses.dataclass(frozen=True, eq=False)
class TokenAlignment:
    """How often the counterpart of a token is found, with its interval.

    Attributes
    ----------
    unmapped: nearest neighbours in the embeddings as they are: the figure of the paper, by its
        text.
    mapped: the same after an orthogonal map, learnt on other tokens.
    mapping: this map (``mapping.rank_`` below d says that there were too few tokens to determine
        it).
    queries: shape (v,), rows of x that were looked up.
    learnt_from: shape (t,), rows of x that the map was learnt from; none of them is a query.
    """

    unmapped: RetrievalResult
    mapped: RetrievalResult
    mapping: Procrustes
    queries: Int[np.ndarray, " v"]
    learnt_from: Int[np.ndarray, " t"]

    __repr__ = one_line


def token_embedding_alignment(
    x: ArrayLike,
    y: ArrayLike,
    gold: ArrayLike | None = None,
    *,
    train_fraction: float = 0.1,
    valid_fraction: float = 0.4,
    seed: int = 0,
) -> TokenAlignment:
    """Precision at 1 of tokens' counterparts, without and with an orthogonal map, as Deshpande et
    al.'s program measures it.

    A part of x's rows, sampled at random, is looked up among **all** rows of y by cosine; a map is
    learnt from another part, by Procrustes on rows of length 1 that are not centred.

    Parameters
    ----------
    x: shape (n, d), embeddings of one vocabulary.
    y: shape (m, d), embeddings of the other.
    gold: shape (n,), for each row of x the row of y that is its counterpart, no row twice; without
        it row i belongs to row i and m is n.
    train_fraction, valid_fraction: shares of x's rows to learn from and to look up, together at
        most 1; counts are rounded down.
    seed: of the draw.

    Raises
    ------
    InputError: not finite, different numbers of columns, a row of zeros (a padding token, say),
        gold that is not one to one, fractions that overlap or leave no rows, or a seed that is
        none.

    References
    ----------
    Deshpande, Talukdar & Narasimhan 2022, When is BERT multilingual? Isolating crucial ingredients
    for cross-lingual transfer.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 4))
    >>> turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    >>> result = token_embedding_alignment(x, x @ turn)
    >>> result.unmapped.precision < 0.1, result.mapped.precision, result.mapped.n
    (True, 1.0, 80)
    """
    x, y = check_matrix(x, "x"), check_matrix(y, "y")
    check_same_width(x, y, remedy="compare vocabularies of one model")
    for side, name in ((x, "x"), (y, "y")):
        # a row of zeros is refused here by its own number, not by that in a part
        row_lengths(side, name)
    rows = _check_one_to_one(gold, len(x), len(y))
    seed = check_seed(seed)
    check_fraction(train_fraction, "train_fraction")
    check_fraction(valid_fraction, "valid_fraction")
    learn, look_up = _share(len(x), train_fraction), _share(len(x), valid_fraction)
    if train_fraction + valid_fraction > 1:
        got = f"{train_fraction} and {valid_fraction}"
        remedy = "look up other tokens than those learnt from"
        refuse("valid_fraction", "at most 1 together with train_fraction", got, remedy)
    if not learn or not look_up:
        remedy = "give more tokens, or larger fractions"
        refuse("x", "enough rows for both fractions", f"{len(x)}", remedy)
    order = np.random.default_rng(seed).permutation(len(x))
    train, queries = np.sort(order[:learn]), np.sort(order[len(x) - look_up :])
    mapping = Procrustes(centre=False, normalise=True).fit(x[train], y[rows[train]])
    unmapped = retrieval_precision(x[queries], y, rows[queries])
    mapped = retrieval_precision(mapping.transform(x[queries]), y, rows[queries])
    return TokenAlignment(unmapped, mapped, mapping, queries, train)


def _share(n: int, fraction: float) -> int:
    """A share of n, rounded down; .29 of 100 is 29, though the product in floats is less."""
    return math.floor(round(n * fraction, 9))


@dataclasses.dataclass(frozen=True)
class CopyAlignment:
    """How often a token's copy is its nearest neighbour.

    Attributes
    ----------
    precision: precision at 1, from 0 to 1; higher is better.
    by_frequency: the precision to be expected of neighbours that tell a token's frequency and
        nothing else.
    n: number of tokens.
    """

    precision: float
    by_frequency: float
    n: int


def copy_alignment(
    x: ArrayLike, y: ArrayLike, counts: ArrayLike
) -> tuple[CopyAlignment, CopyAlignment]:
    """Precision at 1 of all tokens among their copies, from x to y and from y to x, by cosine; no
    map is fitted.

    The control shuffles the tokens' names among those of about the same frequency: sorted by it, in
    groups of about 20. Where a neighbour lies in the group of its token, it is the copy in one of
    as many shuffles as the group has tokens.

    Parameters
    ----------
    x, y: shape (n, d), embeddings of tokens and of their copies; row i of one belongs to row i of
        the other.
    counts: shape (n,), how often each token occurs.

    Raises
    ------
    InputError: not finite, different shapes, a row of zeros, or not one count for each row.

    References
    ----------
    Deshpande, Talukdar & Narasimhan 2022, § 4.4, measure a language and its transliteration so.

    >>> there, back = copy_alignment(np.eye(3), 2 * np.eye(3), [5, 3, 1])
    >>> there
    CopyAlignment(precision=1.0, by_frequency=0.3333333333333333, n=3)
    """
    x, y = check_paired(x, y)
    frequencies = as_array(counts, "counts")
    if frequencies.shape != (len(x),) or frequencies.dtype.kind not in "iuf":
        expected = f"{len(x)} numbers, one per row of x"
        got = f"shape {frequencies.shape} of {frequencies.dtype}"
        refuse("counts", expected, got, "count every token")
    if not np.isfinite(frequencies).all():
        refuse("counts", "finite numbers", "NaN or an infinite one", "count every token")
    # whole numbers without a sign have no negative ones to be sorted by
    falling = np.argsort(-frequencies.astype(np.float64), kind="stable")
    group = np.empty(len(x), np.int64)
    for number, ranks in enumerate(np.array_split(falling, max(1, round(len(x) / _GROUP)))):
        group[ranks] = number
    sizes, own = np.bincount(group)[group], np.arange(len(x))
    found = []
    for nearest in (one.indices[:, 0] for one in find_both(Cosine.of(x, y).scores(), 1)):
        by_frequency = float(((group[nearest] == group) / sizes).mean())
        found.append(CopyAlignment(float((nearest == own).mean()), by_frequency, len(x)))
    return found[0], found[1]


def _check_one_to_one(gold: ArrayLike | None, n: int, m: int) -> Int[np.ndarray, " n"]:
    if gold is None:
        if n != m:
            refuse(
                "y", f"as many rows as x ({n})", str(m), "pass gold, the row of y for each row of x"
            )
        return np.arange(n)
    rows = as_array(gold, "gold")
    if rows.shape != (n,) or rows.dtype.kind not in "iu":
        got = f"{rows.dtype} of shape {rows.shape}"
        refuse("gold", f"{n} whole numbers, one per row of x", got, "give each row its counterpart")
    if rows.min() < 0 or rows.max() >= m:
        got = f"numbers from {rows.min()} to {rows.max()}"
        refuse("gold", f"rows of y, 0 to {m - 1}", got, "leave out rows without a counterpart")
    values, counts = np.unique(rows, return_counts=True)
    if len(values) < n:
        twice = values[counts > 1][0]
        remedy = "leave out tokens that share a counterpart"
        refuse("gold", "each row of y once", f"row {twice} {counts.max()} times", remedy)
    return rows
