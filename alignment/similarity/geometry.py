"""Similarity by geometry: which items lie far from which (RSA), how far one cloud is from the other
once turned (Procrustes distance), and whether items have the same neighbours (mutual k-NN)."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.alignment.neighbours.retrieval import nearest_neighbours
from crosslens.alignment.rows import centred_to_one, row_lengths
from crosslens.checks import check_paired, check_positive_int, decompose, need_memory
from crosslens.errors import check_choice, refuse

__all__ = ["mutual_knn", "procrustes_distance", "rsa"]

_DISSIMILARITIES = ("correlation", "cosine")
_CONVENTIONS = ("squared", "root", "angular")
_PLACES = 12  # decimals of a dissimilarity: beyond them stands what rounding has left


def rsa(x: ArrayLike, y: ArrayLike, *, dissimilarity: str = "correlation") -> float:
    """Representational similarity: the Spearman correlation of the two sides' dissimilarities of
    all pairs of items.

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    dissimilarity: "correlation", 1 - Pearson's r of two rows over their dimensions; "cosine", 1 -
        their cosine.

    Returns
    -------
    From -1 to 1, higher is more alike. Scaling a row changes nothing, nor does, with "correlation",
    adding a number to all dimensions of a row, or, with "cosine", rotating a side. Shifting a side
    as a whole does change it.

    Raises
    ------
    InputError: not finite, different numbers of rows, fewer than 3 rows, a dissimilarity that is
        none of these, a row without direction (zero, or for "correlation" equal in all dimensions),
        more rows than fit into memory, or dissimilarities that are all equal.

    Notes
    -----
    Ties take mean ranks; dissimilarities that are equal to 12 decimals tie, as rounding alone sets
    them apart. Memory: about 50 n² bytes.

    References
    ----------
    Kriegeskorte, Mur & Bandettini 2008, Representational similarity analysis.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(30, 5))
    >>> turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    >>> round(rsa(x, 3 * x @ turn, dissimilarity="cosine"), 12), bool(rsa(x, x[::-1]) < 0.5)
    (1.0, True)
    """
    from scipy.stats import rankdata

    x, y = check_paired(x, y, min_rows=3)
    check_choice(dissimilarity, "dissimilarity", _DISSIMILARITIES)
    need_memory(50 * len(x) ** 2, "x", f"all pairs of {len(x):,} rows", "give fewer rows")
    ranks = []
    for side, name in ((x, "x"), (y, "y")):
        rank = rankdata(_dissimilarities(side, name, dissimilarity))
        rank -= rank.mean()
        if not rank.any():
            remedy = "ranks need at least two different values"
            refuse(name, "dissimilarities that differ", "equal ones between all items", remedy)
        ranks.append(rank)
    first, second = ranks
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))


def procrustes_distance(x: ArrayLike, y: ArrayLike, *, convention: str = "squared") -> float:
    """How far two clouds of points stay apart when one is turned onto the other.

    Each side is centred and scaled to Frobenius norm 1; Q is the best orthogonal map (with fewer
    dimensions, a side is filled up with zeros). With the nuclear norm ``||·||_*``, the conventions
    in use are

        "squared"  ||X Q - Y||_F² = 2 - 2 ||XᵀY||_*     from 0 to 2 (Ding et al. 2021)
        "root"     ||X Q - Y||_F                        from 0 to √2, a metric
        "angular"  arccos ||XᵀY||_*                     from 0 to π/2 radians, a metric (Williams et
                   al. 2021)

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    convention: one of the three.

    Returns
    -------
    *Lower* is more alike; 0 for the same shape. Rotating, reflecting, shifting or scaling a side as
    a whole changes nothing; scaling single dimensions does.

    Raises
    ------
    InputError: not finite, different numbers of rows, fewer than 2 rows, all rows equal, a
        convention that is none of these, or no convergence of the decomposition.

    Notes
    -----
    The distance is measured, not computed from the nuclear norm, which would lose half of the
    digits near 0. Computed in float64.

    References
    ----------
    Schönemann 1966; Ding, Denain & Steinhardt 2021, Grounding representation similarity with
    statistical testing, section 2; Williams et al. 2021, Generalized shape metrics on neural
    representations, section 2.1.

    >>> x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> procrustes_distance(x, 7 * x @ np.array([[0.0, 1.0], [-1.0, 0.0]]) + 3) < 1e-15
    True
    >>> round(procrustes_distance(x, x[:, :1]), 3), round(procrustes_distance(x, x[:, :1], convention="angular"), 3)
    (0.735, 0.886)
    """
    x, y = check_paired(x, y, min_rows=2)
    check_choice(convention, "convention", _CONVENTIONS)
    left, right = _unit_cloud(x, "x"), _unit_cloud(y, "y")
    u, _, vt = decompose(left.T @ right, "x", "rescale x and y")
    # With d1 = d2 this is ||X Q - Y||²; otherwise the wider side also has a part that no turned
    # narrower side can reach.
    narrow, wide = (
        (left @ u, right @ vt.T) if left.shape[1] <= right.shape[1] else (right @ vt.T, left @ u)
    )
    whole = right if left.shape[1] <= right.shape[1] else left
    basis = vt.T if left.shape[1] <= right.shape[1] else u
    squared = float(np.square(narrow - wide).sum() + np.square(whole - wide @ basis.T).sum())
    if convention == "squared":
        return squared
    return (
        float(np.sqrt(squared))
        if convention == "root"
        else float(2 * np.arcsin(np.sqrt(squared) / 2))
    )


def mutual_knn(x: ArrayLike, y: ArrayLike, *, k: int = 10) -> float:
    """The share of neighbours that the two sides have in common, of the k nearest of each item,
    averaged over items.

    ``1/n Σ_i |N_k(x_i) ∩ N_k(y_i)| / k``. Nearness is cosine; an item is no neighbour of itself;
    ties go to the lower index.

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    k: neighbours of each item, from 1 to n - 2 (with n - 1 all are neighbours, and the answer is
        1).

    Returns
    -------
    From 0 to 1, higher is more alike; k / (n - 1) for unrelated data. Rotating a side or scaling
    its rows changes nothing; shifting it does: centre first if the mean is large.

    Raises
    ------
    InputError: not finite, different numbers of rows, fewer than 3 rows, a zero row, or k out of
        range.

    References
    ----------
    Huh et al. 2024, The platonic representation hypothesis, appendix A.

    >>> angles = np.array([0.0, 0.1, 0.3, 2.0, 2.1, 2.3])
    >>> x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> mutual_knn(x, 5 * x[:, ::-1], k=2), round(mutual_knn(x, x[[3, 1, 2, 0, 4, 5]], k=2), 2)
    (1.0, 0.33)
    """
    x, y = check_paired(x, y, min_rows=3)
    k = check_positive_int(k, "k", most=len(x) - 2)
    first, second = _neighbours(x, "x", k), _neighbours(y, "y", k)
    ordered = np.sort(np.concatenate([first, second], axis=1), axis=1)
    return float((ordered[:, 1:] == ordered[:, :-1]).sum() / (len(x) * k))


def _neighbours(x: Float[np.ndarray, "n d"], name: str, k: int) -> np.ndarray:
    """Of the k + 1 nearest, those that are not the item itself: among many copies it may not even
    be among them."""
    row_lengths(x, name)
    found, _ = nearest_neighbours(x, x, k + 1)
    other = found != np.arange(len(x))[:, None]
    return found[other & (np.cumsum(other, axis=1) <= k)].reshape(len(x), k)


def _dissimilarities(
    x: Float[np.ndarray, "n d"], name: str, kind: str
) -> Float[np.ndarray, " pairs"]:
    rows = x.astype(np.float64)
    if kind == "correlation":
        flat = np.flatnonzero((x == x[:, :1]).all(axis=1))
        if len(flat):
            got = f"{len(flat)} row(s) that do not, the first is row {flat[0]}"
            remedy = "they have no correlation: use dissimilarity='cosine'"
            refuse(name, "rows that vary over their dimensions", got, remedy)
        rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.abs(rows).max(axis=1, keepdims=True) if rows.any(axis=1).all() else 1.0
    rows /= row_lengths(rows, name)[:, None]
    return (1 - rows @ rows.T)[np.triu_indices(len(x), 1)].round(_PLACES)


def _unit_cloud(x: Float[np.ndarray, "n d"], name: str) -> Float[np.ndarray, "n d"]:
    centred = centred_to_one(x, name)
    return centred / np.linalg.norm(centred)
