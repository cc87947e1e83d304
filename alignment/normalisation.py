"""Vectors made comparable: by length and mean, in turns (iterative normalisation), and maps between
spaces that were centred."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from crosslens.alignment.maps.fitted import FittedEstimator
from crosslens.alignment.rows import check_varies, mean_row, row_lengths
from crosslens.checks import check_matrix, check_paired, check_positive_int
from crosslens.errors import refuse

__all__ = ["CentredMap", "IterativeNormalisation", "normalise"]


def normalise(
    x: ArrayLike, steps: Sequence[str] = ("unit", "centre", "unit")
) -> Float[np.ndarray, "n d"]:
    """Scale and centre a whole matrix, one step after the other, as ``--normalize`` of VecMap does.

    ``"unit"`` scales every row to length 1, ``"centre"`` subtracts the mean over rows.
    With the default steps rows end with length 1, so that a dot product is a cosine.

    Parameters
    ----------
    x: shape (n, d); not written to.
    steps: any sequence of ``"unit"`` and ``"centre"``; with none the vectors stay as they are.

    Returns
    -------
    shape (n, d), a new array in the precision of ``x``.

    Raises
    ------
    InputError: ``x`` is no finite matrix, a step is unknown, a row to be scaled is zero (or
        equals the mean that was just subtracted), or rows to be centred are all equal.

    Notes
    -----
    The means are not kept: new vectors cannot be treated alike later. Where they must be, use
    :class:`IterativeNormalisation`, or :class:`crosslens.alignment.Procrustes`, which centres.

    References
    ----------
    Artetxe, Labaka & Agirre 2018, A robust self-learning method for fully unsupervised
    cross-lingual mappings of word embeddings, section 3.1 (length, centre, length).

    >>> normalise([[3, 4], [0, 2], [5, 0]], ("unit",)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0], [1.0, 0.0]]
    >>> bool(np.allclose(np.linalg.norm(normalise(np.array([[3.0, 4.0], [0.0, 2.0]])), axis=1), 1))
    True
    """
    if isinstance(steps, str) or any(step not in ("unit", "centre") for step in steps):
        remedy = 'choose from these two, for example ("unit", "centre", "unit")'
        refuse("steps", 'a sequence of "unit" and "centre"', repr(steps), remedy)
    result = np.array(check_matrix(x, "x"), order="C")
    mean = None
    for step in steps:
        if step == "centre":
            check_varies(result, "x")
            mean = mean_row(result, "x")
            result -= mean
        else:
            _scale_to_unit(result, "x", mean)
    return result


def _scale_to_unit(
    x: Float[np.ndarray, "n d"], name: str, mean: Float[np.ndarray, " d"] | None
) -> None:
    """Divide rows by their lengths in place; a row that a mean was subtracted from must be more
    than rounding."""
    if mean is None:
        lengths = row_lengths(x, name)
    else:
        lengths = row_lengths(x, name, zeros=True)
        rounding = 4 * np.finfo(x.dtype).eps * float(np.linalg.norm(mean.astype(np.float64)))
        at_mean = np.flatnonzero(lengths <= rounding)
        if len(at_mean):
            got = f"{len(at_mean)} row(s) equal to it, the first is row {at_mean[0]}"
            remedy = "remove these items: once centred, no direction is left of them"
            refuse(name, "rows that differ from the mean", got, remedy)
    x /= lengths.astype(x.dtype)[:, None]


class CentredMap(FittedEstimator):
    """The ground of maps between rows that are scaled (``normalise``) and centred (``centre``) as
    the pairs of ``fit`` were."""

    _matrix: ClassVar[str]  # the attribute that holds the learnt matrix
    centre: bool
    normalise: bool
    mean_x_: Float[np.ndarray, " d"]
    mean_y_: Float[np.ndarray, " e"]

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "n e"]:
        """Map rows of X's space into Y's: ``(X - mean_x_) @ W + mean_y_``, with W the learnt
        matrix.

        Parameters
        ----------
        X: shape (n, d), any number of rows.

        Returns
        -------
        shape (n, e), in the precision of ``X``.

        Raises
        ------
        InputError: not fitted, not finite, another number of columns, or a zero row under
            ``normalise``.
        """
        X = self._ready(X, "X")
        matrix: np.ndarray = getattr(self, self._matrix)
        return (X - self.mean_x_.astype(X.dtype)) @ matrix.astype(X.dtype) + self.mean_y_.astype(
            X.dtype
        )

    def predict(self, X: ArrayLike) -> Float[np.ndarray, "n e"]:
        """What rows of X's space are in Y's: :meth:`transform`, by the name that scikit-learn's
        searches and pipelines look for."""
        return self.transform(X)

    def score(self, X: ArrayLike, Y: ArrayLike) -> float:
        """Precision at 1 of retrieval by cosine between mapped X and Y, the mean of both
        directions.

        Both sides are seen from ``mean_y_``, and all rows given here compete: compare scores of
        equally many rows. Scikit-learn's searches choose by it.

        Parameters
        ----------
        X: shape (n, d). Y: shape (n, e). Row i of one belongs to row i of the other.

        Returns
        -------
        From 0 to 1, higher is better; 1 / n by chance.

        Raises
        ------
        InputError: as for :meth:`transform`, of both sides; different numbers of rows; or a row
            that is mapped to the mean.
        """
        mapped, target = check_paired(self.transform(X), self._ready(Y, "Y"), ("X", "Y"))
        return self._score(
            mapped - self.mean_y_.astype(mapped.dtype), target - self.mean_y_.astype(target.dtype)
        )

    def _scaled(self, x: np.ndarray, name: str) -> np.ndarray:
        return x / row_lengths(x, name).astype(x.dtype)[:, None] if self.normalise else x

    def _mean(self, x: Float[np.ndarray, "n d"], name: str) -> Float[np.ndarray, " d"]:
        return mean_row(x, name) if self.centre else np.zeros(x.shape[1], x.dtype)

    def _ready(self, rows: ArrayLike, name: str) -> np.ndarray:
        """Rows of side X or Y to be mapped: checked, and scaled where ``fit`` scaled."""
        self._check_fitted()
        columns = len(self.mean_x_ if name == "X" else self.mean_y_)
        return self._scaled(self._check_rows(rows, name, columns), name)


class IterativeNormalisation(FittedEstimator):
    """Rows of length 1 whose mean is (nearly) zero, by turns of scaling and centring; the means are
    kept for new vectors.

    ``fit`` runs rounds of scaling every row to length 1 and subtracting the mean over
    rows; ``transform`` subtracts the same means in the same turns, and scales to length 1 at
    the end. ``fit_transform(X)`` is the published procedure on the whole matrix X. Fit
    one per language, on the vectors that its mean should be taken over, before fitting a map. There
    is no
    inverse: the lengths are lost.

    Parameters
    ----------
    rounds: how many turns of (length, mean); 5 as published.

    Attributes
    ----------
    means_: shape (rounds, d), the mean that each round subtracts.
    n_features_in_: d.

    References
    ----------
    Zhang, Xu, Kawarabayashi, Jegelka & Boyd-Graber 2019, Are girls neko or shōjo? Cross-lingual
    alignment of non-isomorphic embeddings with iterative normalization, section 3.

    >>> x = np.random.default_rng(0).normal(1, 1, size=(500, 4))
    >>> z = IterativeNormalisation().fit_transform(x)
    >>> bool(np.allclose(np.linalg.norm(z, axis=1), 1)), bool(np.abs(z.mean(axis=0)).max() < 1e-3)
    (True, True)
    """

    _paired = False
    _lacks = "means"
    _learnt = ("means_", "n_features_in_")

    def __init__(self, rounds: int = 5) -> None:
        self.rounds = rounds

    def fit(self, X: ArrayLike, y: object = None) -> "IterativeNormalisation":
        """Learn the means.

        Parameters
        ----------
        X: shape (n, d), at least two rows that differ in direction. y: ignored, as in scikit-learn.

        Raises
        ------
        InputError: not finite, a zero row, rows all of one direction, or a row that centring leaves
            no direction.
        """
        rows = np.array(check_matrix(X, "X"), order="C")
        rounds = check_positive_int(self.rounds, "rounds")
        means = np.empty((rounds, rows.shape[1]), rows.dtype)
        for turn in range(rounds):
            _scale_to_unit(rows, "X", means[turn - 1] if turn else None)
            check_varies(rows, "X")
            means[turn] = mean_row(rows, "X")
            rows -= means[turn]
        self.means_ = means
        self.n_features_in_ = rows.shape[1]
        return self

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Scale and centre rows, those of ``fit`` or new ones, by the means that ``fit`` kept.

        Parameters
        ----------
        X: shape (n, d), any number of rows.

        Returns
        -------
        shape (n, d), a new array in the precision of ``X``, rows of length 1.

        Raises
        ------
        InputError: not fitted, not finite, another number of columns, or a row that is zero or that
            centring leaves no direction.
        """
        self._check_fitted()
        rows = np.array(self._check_rows(X, "X", self.n_features_in_), order="C")
        before = None
        for mean in self.means_.astype(rows.dtype):
            _scale_to_unit(rows, "X", before)
            rows -= mean
            before = mean
        _scale_to_unit(rows, "X", before)
        return rows
