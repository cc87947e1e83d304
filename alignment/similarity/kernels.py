"""Relatives of linear CKA: with a Gaussian kernel, without centring, and averaged over batches.

Each is the ratio ``HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))`` of some estimate of HSIC and some
kernel: see :func:`crosslens.alignment.similarity.linear_cka.linear_cka` for the one that is usually
meant.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, DTypeLike

from crosslens.alignment.rows import check_varies
from crosslens.alignment.similarity.cka_products import hsic
from crosslens.checks import check_paired, check_positive_int, is_number, need_memory
from crosslens.errors import refuse

__all__ = ["minibatch_cka", "rbf_cka", "uncentred_cka"]


def rbf_cka(
    x: ArrayLike, y: ArrayLike, *, width: float | int = 1.0, debiased: bool = False
) -> float:
    """CKA with a Gaussian kernel, ``K_ij = exp(-||x_i - x_j||² / (2 σ²))``, which sees more than
    linear relations.

    σ is ``width`` times the median distance of two different items, on each side separately; so
    shifting, rotating and scaling a side as a whole change nothing. Scaling single dimensions does.
    With a large width it tends to linear CKA.

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    width: σ as a fraction of the median distance; Kornblith et al. use 0.2 to 0.8.
    debiased: use the unbiased estimate of HSIC (Song et al. 2012) in all three places. The narrower
        the kernel, the more
        it matters: each item is then most alike to itself, on both sides.

    Returns
    -------
    Higher is more alike. Biased: from 0 to 1. Debiased: at most 1, about 0 for unrelated data. Both
    up to rounding.

    Raises
    ------
    InputError: not finite, different numbers of rows, fewer than 2 rows (4 if debiased), all rows
        equal, a width that is not positive, a median distance of zero (more than half of the pairs
        are copies), more rows than fit into memory, or too little variation for the debiased estimate.

    Notes
    -----
    The two kernel matrices are held in float64: 16 n² bytes, and as much again while they are made
    (3 GB at n = 10,000).

    References
    ----------
    Kornblith et al. 2019, Similarity of neural network representations revisited, section 3 and
    table 2. Their published notebook takes the median over all n² pairs, the n of an item with
    itself included.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 1))
    >>> rbf = [round(rbf_cka(x, y, width=0.5, debiased=True), 1) for y in (x + 300, x**2, rng.normal(size=(200, 1)))]
    >>> rbf
    [1.0, 0.6, 0.0]
    """
    x, y = check_paired(x, y, min_rows=4 if debiased else 2)
    if not is_number(width) or not 0 < width < np.inf:
        remedy = "give a fraction of the median distance, 0.5 say"
        refuse("width", "a positive number", repr(width), remedy)
    need_memory(32 * len(x) ** 2, "x", f"all pairs of {len(x):,} rows", "give fewer rows")
    grams = [_gaussian_gram(side, name, float(width)) for side, name in ((x, "x"), (y, "y"))]
    if debiased:
        estimate, rounding = _debiased, len(x) * float(np.finfo(float).eps)
    else:
        estimate, rounding = _biased, 0.0
        grams = [_double_centred(gram) for gram in grams]
    own = [estimate(gram, gram) for gram in grams]
    for name, value, gram in zip("xy", own, grams, strict=True):
        _check_left(name, value, rounding * float(np.vdot(gram, gram)))
    return estimate(*grams) / float(np.sqrt(own[0] * own[1]))


def uncentred_cka(x: ArrayLike, y: ArrayLike) -> float:
    """``||YᵀX||_F² / (||XᵀX||_F ||YᵀY||_F)`` of the rows as they are: the formula as Conneau et al.
    2020 print it.

    It is no CKA, whose kernel matrices are centred: where a side's mean is large beside its spread,
    as in the vectors of most encoders, it is close to 1 whatever the items are. It is here to
    recompute figures that were made with it. Rotating a side or scaling it as a whole changes
    nothing; shifting it does.

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.

    Returns
    -------
    From 0 to 1, higher is more alike; up to rounding.

    Raises
    ------
    InputError: not finite, different numbers of rows, or a side of zeros.

    References
    ----------
    Conneau et al. 2020, Emerging cross-lingual structure in pretrained language models, section
    5.3.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 500, 4))
    >>> round(uncentred_cka(x, y), 2), round(uncentred_cka(x + 5, y + 5), 2)
    (0.01, 0.98)
    """
    x, y = check_paired(x, y)
    x, y = (_at_scale(side, name) for side, name in ((x, "x"), (y, "y")))
    cross, own_x, own_y = (_squared_product(a, b) for a, b in ((x, y), (x, x), (y, y)))
    return cross / float(np.sqrt(own_x * own_y))


def minibatch_cka(x: ArrayLike, y: ArrayLike, *, batch: int = 256) -> float:
    """The estimate of linear CKA from batches of rows: debiased HSIC is averaged over batches
    before the ratio is taken.

    It is what remains of debiased CKA when only a batch is seen at a time; the larger the batch,
    the closer it is. With a batch of n rows it *is* the debiased CKA. Where all rows can be seen,
    :func:`crosslens.alignment.similarity.cka_stream.linear_cka_encoders` and
    :class:`crosslens.alignment.similarity.cka_stream.LinearCKAStream` give the exact value, in a
    single pass, too.

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    batch: rows of a batch, in the order of the rows; at least 4. The last batch has what is left;
        it counts by its number of rows like every other, and is joined to the one before it where
        it has fewer than 4.

    Returns
    -------
    Higher is more alike; at most 1 with equal batches and about 0 for unrelated data; up to
    rounding.

    Raises
    ------
    InputError: not finite, different numbers of rows, fewer than 4 rows, all rows equal, a batch
        below 4, or too little variation.

    References
    ----------
    Nguyen et al. 2021, Do wide and deep networks learn the same things?, equations 2 and 3; Song et
    al. 2012, equation 5.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 5)); y = x + rng.normal(size=(1000, 5))
    >>> value = minibatch_cka(x, y, batch=64)
    >>> round(value, 1), bool(minibatch_cka(x, x, batch=64) == 1)
    (0.5, True)
    """
    x, y = check_paired(x, y, min_rows=4)
    if check_positive_int(batch, "batch") < 4:
        refuse("batch", "at least 4 rows", str(batch), "the debiased estimate takes four items")
    for side, name in ((x, "x"), (y, "y")):
        check_varies(side, name)
    starts = list(range(0, len(x) - 3, batch))
    scales = [
        _scale(side, side.mean(axis=0, dtype=np.float64), np.float64, name)
        for side, name in ((x, "x"), (y, "y"))
    ]
    biased, debiased = np.zeros((2, 2)), np.zeros((2, 2))
    for start, stop in zip(starts, [*starts[1:], len(x)], strict=True):
        estimates = _batch_hsic(x[start:stop], y[start:stop], scales)
        # of n (n - 3), one factor is the batch's weight
        biased += estimates[0] / (stop - start - 3)
        debiased += estimates[1] / (stop - start - 3)
    own = np.diag(debiased)
    for name, value, size in zip("xy", own, np.diag(biased), strict=True):
        _check_left(name, value, 32 * float(np.finfo(float).eps) * size)
    return float(debiased[0, 1] / np.sqrt(own[0] * own[1]))


def _batch_hsic(x: np.ndarray, y: np.ndarray, scales: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Biased and debiased HSIC of both sides with each other and themselves, shape (2, 2), in
    float64; up to factors."""
    grams = []
    for side, scale in zip((x, y), scales, strict=True):
        centred = (side - side.mean(axis=0, dtype=np.float64)) * scale
        grams.append(centred @ centred.T)
    flat = np.stack([gram.ravel() for gram in grams])
    squares = np.stack([np.diag(gram) for gram in grams])
    return hsic(len(x), flat @ flat.T, squares.sum(axis=1), squares @ squares.T)


def _gaussian_gram(
    x: Float[np.ndarray, "n d"], name: str, width: float
) -> Float[np.ndarray, "n n"]:
    check_varies(x, name)
    mean = x.mean(axis=0, dtype=np.float64)
    centred = (x - mean) * _scale(x, mean, np.float64, name)
    squares = np.square(centred).sum(axis=1)
    distances = squares[:, None] + squares - 2 * (centred @ centred.T)  # squared
    pairs = distances[np.triu(np.ones(distances.shape, bool), 1)]
    # copies: 0 up to rounding
    median = float(
        np.median(np.sqrt(np.maximum(pairs, 0, out=pairs), out=pairs), overwrite_input=True)
    )
    if not median**2 > 64 * np.finfo(float).eps * squares.max():
        got = "copies in at least half of the pairs"
        refuse(name, "a median distance above zero", got, "remove rows that are equal")
    np.fill_diagonal(distances, 0)
    return np.exp(distances / (-2 * width**2 * median**2), out=distances)


def _double_centred(gram: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1, keepdims=True)
    return gram


def _biased(a: Float[np.ndarray, "n n"], b: Float[np.ndarray, "n n"]) -> float:
    """(n - 1)² HSIC of centred kernel matrices."""
    return float(np.vdot(a, b))


def _debiased(a: Float[np.ndarray, "n n"], b: Float[np.ndarray, "n n"]) -> float:
    """n (n - 3) HSIC_u, Song et al. 2012, equation 5; the diagonals are left out."""
    n, own_a, own_b = len(a), np.diag(a), np.diag(b)
    rows_a, rows_b = a.sum(axis=1) - own_a, b.sum(axis=1) - own_b
    pairs = np.vdot(a, b) - own_a @ own_b
    return float(
        pairs + rows_a.sum() * rows_b.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (rows_a @ rows_b)
    )


def _at_scale(x: Float[np.ndarray, "n d"], name: str) -> Float[np.ndarray, "n d"]:
    if not x.any():
        remedy = "with no length there is nothing to compare"
        refuse(name, "rows that are not all zero", f"{len(x)} row(s) of zeros", remedy)
    return x * x.dtype.type(_scale(x, np.zeros(x.shape[1]), x.dtype, name))


def _scale(
    x: Float[np.ndarray, "n d"], mean: Float[np.ndarray, " d"], precision: DTypeLike, name: str
) -> float:
    """A power of two that keeps products of centred rows from over- and underflowing where they are
    taken in ``precision``."""
    peak = float(max((x.max(axis=0) - mean).max(), (mean - x.min(axis=0)).max()))
    if not np.isfinite(peak):
        refuse(name, f"values whose differences fit in {x.dtype}", "an overflow", "scale them down")
    limit = np.finfo(precision).maxexp - 2
    return 2.0 ** float(np.clip(-np.floor(np.log2(peak)), -limit, limit))


def _squared_product(a: Float[np.ndarray, "n d1"], b: Float[np.ndarray, "n d2"]) -> float:
    total = np.zeros((a.shape[1], b.shape[1]))
    for at in range(0, len(a), 4096):
        total += a[at : at + 4096].T @ b[at : at + 4096]
    return float(np.vdot(total, total))


def _check_left(name: str, value: float, rounding: float) -> None:
    if not value > rounding:
        expected = "rows that vary enough for this estimate"
        refuse(name, expected, "a variance of zero", "give more items that differ")
