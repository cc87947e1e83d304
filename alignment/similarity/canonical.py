"""Similarity by canonical correlations: how well linear maps of one side predict linear maps of the
other.

With centred X and Y of rank p and q, and orthonormal bases ``U_x``, ``U_y`` of their column spaces,
the canonical correlations ``ρ_1 >= ρ_2 >= …`` are the min(p, q) singular values of ``U_xᵀ U_y``.
Any invertible linear map of a side leaves them as they are: they see which directions there are,
not how much varies along them. As that invites noise, SVCCA keeps only the directions with most
variance, and PWCCA weighs them.

All is computed in float64. With no more items than dimensions every correlation is 1, whatever the
data: such input is refused.

A direction counts where it varies by more than a few roundings of float32 beside the columns that
it is a mix of, each column measured by its own size. The bound depends neither on the number of
items nor on the type of the array: encoders compute in float32, and what is below its rounding is
no finding once the numbers stand in float64. So a column may be a million times as large as the
others, and the same numbers give the same result in both precisions. How many directions count is
in :class:`CanonicalCorrelations`.
"""

import dataclasses

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.alignment.maps.linear_maps import above_rounding
from crosslens.alignment.rows import centred_to_one
from crosslens.checks import check_paired, decompose, is_number
from crosslens.errors import refuse
from crosslens.one_line import one_line

__all__ = ["CanonicalCorrelations", "canonical_correlations", "mean_cca", "pwcca", "svcca"]

_PRECISION = np.dtype(np.float32)  # that encoders compute in


@dataclasses.dataclass(frozen=True, eq=False)
class CanonicalCorrelations:
    """The canonical correlations of two sides, and how many directions of each they are of.

    Attributes
    ----------
    values: shape (k,), from 1 down to 0; k is the smaller rank.
    weights: shape (k,), PWCCA's α: how much of x each direction accounts for; they sum to 1.
    rank_x, rank_y: directions that were compared: those that vary by more than rounding, and with
        ``variance`` below 1 those that hold so much of it. A rank below d says that some columns
        are mixes of others.
    """

    values: Float[np.ndarray, " k"]
    weights: Float[np.ndarray, " k"]
    rank_x: int
    rank_y: int

    __repr__ = one_line

    @property
    def mean(self) -> float:
        """What :func:`mean_cca` and :func:`svcca` give."""
        return float(self.values.mean())

    @property
    def weighted(self) -> float:
        """What :func:`pwcca` gives."""
        return float(self.weights @ self.values)


def canonical_correlations(
    x: ArrayLike, y: ArrayLike, *, variance: float | int = 1
) -> CanonicalCorrelations:
    """All canonical correlations of two matrices for the same items, with the ranks that they rest
    on.

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    variance: the share of each side's variance whose directions are compared, above 0 and at most
        1, as in :func:`svcca`; 1: all.

    Raises
    ------
    InputError: as for :func:`mean_cca`, or a share out of range.

    References
    ----------
    Hotelling 1936, Relations between two sets of variates.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 3))
    >>> found = canonical_correlations(np.hstack([x, x[:, :1] + x[:, 1:2]]), x[:, :2])
    >>> found.values.round(6).tolist(), found.rank_x, found.rank_y
    ([1.0, 1.0], 3, 2)
    """
    if not is_number(variance) or not 0 < variance <= 1:
        refuse("variance", "a share above 0 and at most 1", repr(variance), "0.99 is usual")
    x, y = check_paired(x, y, min_rows=3)
    left, right = _side(x, "x", variance), _side(y, "y", variance)
    turned, values, _ = decompose(left.basis.T @ right.basis, "x")
    variables = left.basis @ turned[:, : len(values)]
    weights = np.abs(variables.T @ left.centred).sum(axis=1)
    return CanonicalCorrelations(
        values, weights / weights.sum(), left.basis.shape[1], right.basis.shape[1]
    )


def mean_cca(x: ArrayLike, y: ArrayLike) -> float:
    """The mean of the canonical correlations of two matrices for the same items.

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other. n should be
        several times d1 + d2: unrelated data give about sqrt(d / n), not 0.

    Returns
    -------
    From 0 to 1, higher is more alike. Any invertible linear map or shift of a side changes nothing.

    Raises
    ------
    InputError: not finite, different numbers of rows, fewer than 3 rows, all rows equal, as many
        independent directions as n - 1, or no convergence of a decomposition.

    References
    ----------
    Hotelling 1936, Relations between two sets of variates; Kornblith et al. 2019, table 1 (mean CCA
    correlation).

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 3))
    >>> round(mean_cca(x, x @ rng.normal(size=(3, 3)) + 7), 12)
    1.0
    """
    return canonical_correlations(x, y).mean


def svcca(x: ArrayLike, y: ArrayLike, *, variance: float | int = 0.99) -> float:
    """The mean canonical correlation of the directions that hold most of the variance of each side.

    Each side is first projected on its leading principal components, as few as hold ``variance`` of
    the sum of the *squared* singular values, which is the variance. (Some programs compare the sum
    of the singular values themselves, and so keep more components.)

    Parameters
    ----------
    x: shape (n, d1). y: shape (n, d2). Row i of one belongs to row i of the other.
    variance: the share that is kept, above 0 and at most 1; 1 keeps all and gives :func:`mean_cca`.

    Returns
    -------
    From 0 to 1, higher is more alike. Rotating, shifting or scaling a side as a whole changes
    nothing; other linear maps do, as they change which directions have most variance.

    Raises
    ------
    InputError: as for :func:`mean_cca`, of what is kept; or a share out of range.

    References
    ----------
    Raghu et al. 2017, SVCCA: singular vector canonical correlation analysis for deep learning
    dynamics and interpretability, section 2.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 2)) * [10, 8]
    >>> noisy = np.hstack([x, 0.1 * rng.normal(size=(200, 3))]), np.hstack([x, 0.1 * rng.normal(size=(200, 3))])
    >>> round(svcca(*noisy), 2), round(mean_cca(*noisy), 2)
    (1.0, 0.46)
    """
    return canonical_correlations(x, y, variance=variance).mean


def pwcca(x: ArrayLike, y: ArrayLike) -> float:
    """Canonical correlations weighed by how much of ``x`` each canonical direction accounts for.

    ``Σ_i α_i ρ_i / Σ_i α_i`` with ``α_i = Σ_j |h_i · x_j|``, where ``h_i`` is the i-th canonical
    variable of x (of length 1, one number per item) and ``x_j`` the j-th column of x, *centred*. It
    is not symmetric: ``pwcca(y, x)`` weighs by y.

    Parameters
    ----------
    x: shape (n, d1): the side that gives the weights. y: shape (n, d2). Row i of one belongs to row
        i of the other.

    Returns
    -------
    From 0 to 1, higher is more alike. Shifting either side or scaling it as a whole changes
    nothing, nor does any invertible linear map of y; rotating x does, as the weights are sums over
    its dimensions.

    Raises
    ------
    InputError: as for :func:`mean_cca`.

    References
    ----------
    Morcos et al. 2018, Insights on representational similarity in neural networks with canonical
    correlation, section 3.2.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 3)) * [10, 1, 1]
    >>> y = np.hstack([x[:, :1], rng.normal(size=(200, 2))])
    >>> bool(pwcca(x, y) > mean_cca(x, y) + 0.2), round(pwcca(x + 300, y), 12) == round(pwcca(x, y), 12)
    (True, True)
    """
    return canonical_correlations(x, y).weighted


@dataclasses.dataclass(frozen=True, eq=False)
class _Side:
    """Centred rows, and an orthonormal basis of their columns' space, by falling variance."""

    centred: Float[np.ndarray, "n d"]
    basis: Float[np.ndarray, "n p"]


def _side(x: Float[np.ndarray, "n d"], name: str, variance: float | int) -> _Side:
    centred = centred_to_one(x, name)
    basis = _directions(x, name) if variance == 1 else _leading(centred, name, variance)
    kept = basis.shape[1]
    if kept >= len(x) - 1:
        got = f"{len(x)} items with {kept} independent directions"
        expected = "more items than independent directions, by at least 2"
        refuse(name, expected, got, "every correlation would be 1: give more items")
    return _Side(centred, basis)


def _directions(x: Float[np.ndarray, "n d"], name: str) -> Float[np.ndarray, "n p"]:
    """A basis of all that varies by more than rounding, each column measured by its own size, its
    mean included."""
    largest = np.abs(x).max(axis=0).astype(np.float64)
    rows = x[:, largest > 0] / largest[largest > 0]
    sizes = np.sqrt(np.square(rows).mean(axis=0))
    basis, values, right = decompose((rows - rows.mean(axis=0)) / sizes, name)
    varies = above_rounding(values, right, np.full(len(sizes), np.sqrt(len(x))), len(x), _PRECISION)
    if not varies.any():
        expected = "rows that differ by more than rounding"
        refuse(name, expected, "differences lost beside the mean", "give other items")
    return basis[:, varies]


def _leading(
    centred: Float[np.ndarray, "n d"], name: str, variance: float | int
) -> Float[np.ndarray, "n p"]:
    """A basis of the directions that hold so much of the variance."""
    basis, values, _ = decompose(centred, name)
    held = np.cumsum(np.square(values))
    varies = int((values > np.finfo(_PRECISION).eps * values[0]).sum())
    return basis[:, : min(varies, int(np.searchsorted(held, variance * held[-1])) + 1)]
