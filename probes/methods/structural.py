"""Structural probes: is there a linear map of a layer in which squared distances are those of the
dependency tree?

    distance    ||B (h_i - h_j)||^2 against the number of edges between words i and j    Hewitt &
                Manning 2019, section 2.2
    depth       ||B h_i||^2 against the number of edges between word i and the root      the same,
                section 2.3

B has ``rank`` rows. It minimises the mean over sentences of ``Σ_ij |d_ij - predicted_ij| / s²`` or
``Σ_i |d_i - predicted_i| / s``, s being the sentence's number of words, by L-BFGS on all sentences,
a batch at a time. On the corners of ``|x|`` L-BFGS stops short: what it minimises is ``sqrt(x² +
w²) - w``, for widths w that shrink to a hundredth of an edge, each from where the last one ended.
What it then predicts is measured in :mod:`crosslens.probes.methods.structural_scores`.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from crosslens.checks import as_array, check_positive_int, check_seed
from crosslens.errors import check_choice, refuse
from crosslens.probes.methods.fitted import check_fitted
from crosslens.probes.methods.rows import is_layer
from crosslens.trees import check_heads, tree_depths, tree_distances

__all__ = ["KINDS", "StructuralProbe", "structural_loss"]

KINDS = ("distance", "depth")
_START = 2.0  # mean of ||B h||² before training, about a tree's depths
_TOLERANCE = 1e-5  # of the loss: a step that lowers it by a smaller share is the last of its stage
# edges: the corner of |x| is rounded off over these, one stage after the other
_WIDTHS = (1.0, 0.3, 0.1, 0.03, 0.01)
_PATIENCE = 10  # steps that may pass without a lower loss of the development sentences
_PAIRS = 1 << 18  # pairs of words that are compared at a time
_ROWS = 2048  # words that are read at a time

Sentences = tuple[ArrayLike, ArrayLike, ArrayLike]


class StructuralProbe(BaseEstimator):
    """A linear map of word vectors under which squared distances (or norms) are those of dependency
    trees.

    Vectors are divided by one number, learnt from the training words, so that the start suits any
    encoder; for distances their mean is subtracted first, which changes no distance. Training ends
    where, at the smallest width, a step lowers the loss by less than a hundred-thousandth; or,
    where development sentences are given, when ten steps have not lowered theirs, and the
    projection with the lowest one is kept.

    Parameters
    ----------
    kind: "distance" or "depth".
    rank: rows of B, at most d; the paper finds no gain above 64 or 128.
    max_iter: most steps of the optimiser, over all widths.
    seed: of the B that training begins with.

    Attributes
    ----------
    projection_: shape (rank, d), B for the vectors as they are given.
    loss_: its mean loss per sentence on the development sentences, or the training sentences
        without them; from 0, lower is better.
    n_iter_: steps that were made.
    converged_: whether training ended as it should: False where the optimiser gave up, or
        ``max_iter`` steps did not suffice.
    n_features_in_: d.

    References
    ----------
    Hewitt & Manning 2019, A structural probe for finding syntax in word representations. They
    minimise the same loss by Adam, in batches of 20 sentences, on vectors as they are.

    Words whose vectors differ by one new axis from their heads' embed a tree exactly:

    >>> heads = [2, 0, 2, 3]
    >>> vectors = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 1]], np.float32)
    >>> probe = StructuralProbe(rank=3).fit(vectors, heads, [4])
    >>> probe.predict(vectors, [4])[0].round(1).tolist()[0]
    [0.0, 1.0, 2.0, 3.0]
    """

    def __init__(
        self, kind: str = "distance", rank: int = 64, max_iter: int = 1000, seed: int = 0
    ) -> None:
        self.kind = kind
        self.rank = rank
        self.max_iter = max_iter
        self.seed = seed

    def fit(
        self, X: Any, heads: ArrayLike, lengths: ArrayLike, dev: Sentences | None = None
    ) -> "StructuralProbe":
        """Learn from sentences and their trees.

        Parameters
        ----------
        X: shape (n, d), the words of all sentences on end: an array, or anything with a shape, a
            dtype and slices of rows (a memory-mapped layer); a batch of it is copied at a time.
        heads: shape (n,), the head's number in its sentence from 1, 0 for the root.
        lengths: shape (s,), words of each sentence.
        dev: the same three of other sentences, which then decide when to stop.

        Warns
        -----
        ConvergenceWarning: ``max_iter`` steps were made while the loss still fell, or the optimiser
            says that it could not go on.

        Raises
        ------
        InputError: an unknown kind, a number out of range, vectors that are not finite or do not
            vary, heads that are no trees (the sentence is named), or lengths that do not fit.
        """
        check_choice(self.kind, "kind", KINDS)
        max_iter, seed = check_positive_int(self.max_iter, "max_iter"), check_seed(self.seed)
        train = _Treebank(X, heads, lengths, self.kind, "X")
        rank = check_positive_int(self.rank, "rank", most=train.d)
        watched = None if dev is None else _Treebank(*dev, self.kind, "dev")
        if watched is not None and watched.d != train.d:
            remedy = "take both from the same layer"
            refuse("dev", f"{train.d} columns, as in X", f"{watched.d} columns", remedy)
        mean, scale = train.mean_and_scale()
        for part in (train, watched or train):
            part.mean, part.scale = mean, scale
        first = np.random.default_rng(seed).normal(
            0, np.sqrt(_START / (rank * train.d)), (rank, train.d)
        )
        best, self.loss_, self.n_iter_, why = _descend(first, train, watched, max_iter)
        self.converged_ = not why
        if why:
            message = (
                f"max_iter: expected convergence, got none in {self.n_iter_} step(s) ({why}); "
                f"raise max_iter"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        self.projection_ = (best / scale).astype(train.dtype)
        self.n_features_in_ = train.d
        return self

    def predict(self, X: Any, lengths: ArrayLike) -> list[np.ndarray]:
        """The predicted distances, or depths, of each sentence's words.

        Parameters
        ----------
        X: shape (n, d). lengths: shape (s,).

        Returns
        -------
        for each sentence of s words an array of shape (s, s), symmetric, not negative, zeros on its
        diagonal; or, of depths, of shape (s,).

        Raises
        ------
        InputError: not fitted, not finite, lengths that do not fit, or another number of columns
            than in ``fit``.
        """
        check_fitted(self, "projection_", "a projection", "fit(X, heads, lengths)")
        words = _Words(X, lengths, "X")
        if words.d != self.n_features_in_:
            remedy = "probe vectors of the same encoder and layer"
            refuse("X", f"{self.n_features_in_} columns, as in fit", f"{words.d} columns", remedy)
        projection = self.projection_.astype(np.float64)
        mapped = (
            words.rows(np.array([number])).astype(np.float64) @ projection.T
            for number in range(len(words.lengths))
        )
        if self.kind == "depth":
            return [np.square(some).sum(axis=1) for some in mapped]
        return [cdist(some, some, "sqeuclidean") for some in mapped]


class _Words:
    """Vectors of sentences' words, read a batch of sentences at a time."""

    def __init__(self, X: Any, lengths: ArrayLike, name: str) -> None:
        self.X = X if is_layer(X) else as_array(X, name)
        if len(self.X.shape) != 2 or min(self.X.shape) < 1:
            expected = "a matrix of shape (n, d)"
            refuse(name, expected, f"an array of shape {tuple(self.X.shape)}", "one row per word")
        self.lengths = as_array(lengths, "lengths")
        if (
            self.lengths.ndim != 1
            or self.lengths.dtype.kind not in "iu"
            or (self.lengths < 1).any()
            or self.lengths.sum() != len(self)
        ):
            expected = f"whole numbers from 1 that sum to the {len(self)} rows of {name}"
            refuse("lengths", expected, "others", "give each sentence's words")
        self.ends = np.cumsum(self.lengths)
        self.d = int(self.X.shape[1])
        self.dtype = np.dtype(np.float64 if self.X[:1].dtype == np.float64 else np.float32)
        self.mean, self.scale = np.zeros(self.d, self.dtype), 1.0
        for start in range(0, len(self), _ROWS):
            bad = np.flatnonzero(
                ~np.isfinite(np.asarray(self.X[start : start + _ROWS], self.dtype)).all(axis=1)
            )
            if len(bad):
                got = f"NaN or infinity in row {start + bad[0]}"
                remedy = "leave out sentences with words that have no vector"
                refuse(name, "finite numbers", got, remedy)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def rows(self, sentences: Int[np.ndarray, " b"]) -> Float[np.ndarray, "m d"]:
        """The words of some sentences, one sentence after the other, centred and scaled."""
        parts = [
            np.asarray(self.X[self.ends[i] - self.lengths[i] : self.ends[i]], self.dtype)
            for i in sentences
        ]
        return (np.concatenate(parts) - self.mean) / self.dtype.type(self.scale)


class _Treebank(_Words):
    """Words with what their trees say: distances, or depths."""

    def __init__(self, X: Any, heads: ArrayLike, lengths: ArrayLike, kind: str, name: str) -> None:
        super().__init__(X, lengths, name)
        all_heads = as_array(heads, "heads")
        if all_heads.shape != (len(self),) or all_heads.dtype.kind not in "iu":
            expected = f"{len(self)} whole numbers, one per word"
            got = f"{all_heads.dtype} of shape {all_heads.shape}"
            refuse("heads", expected, got, "give each word's head")
        check_heads(all_heads, self.lengths)
        self.kind = kind
        measure = tree_distances if kind == "distance" else tree_depths
        self.gold = [
            measure(all_heads[end - s : end]).astype(np.int16)
            for s, end in zip(self.lengths, self.ends, strict=True)
        ]

    def mean_and_scale(self) -> tuple[Float[np.ndarray, " d"], float]:
        """What is subtracted (nothing for depths), and what then makes a vector's mean square 1 per
        column."""
        blocks = [slice(start, start + _ROWS) for start in range(0, len(self), _ROWS)]
        mean = np.zeros(self.d)
        if self.kind == "distance":
            mean = sum(
                np.asarray(self.X[block], self.dtype).sum(axis=0, dtype=np.float64)
                for block in blocks
            ) / len(self)
        square = sum(
            float(np.square(np.asarray(self.X[block], np.float64) - mean).sum()) for block in blocks
        ) / (len(self) * self.d)
        largest = float(np.square(mean).mean())
        if square <= 1e-12 * largest or square == 0:
            remedy = "give other words or another layer"
            refuse("X", "vectors that differ", "the same for all words", remedy)
        return mean.astype(self.dtype), float(np.sqrt(square))

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Vectors (m, d), padded gold values and weights of batches of sentences, the longest
        first."""
        order, start = np.argsort(-self.lengths, kind="stable"), 0
        while start < len(order):
            longest = int(self.lengths[order[start]])
            some = order[start : start + max(1, min(_PAIRS // longest**2, _ROWS // longest))]
            start += len(some)
            shape = (
                (len(some), longest, longest) if self.kind == "distance" else (len(some), longest)
            )
            gold, weights = np.zeros(shape, self.dtype), np.zeros(shape, self.dtype)
            for row, number in enumerate(some):
                s = int(self.lengths[number])
                inside: tuple[Any, ...] = (row, *(slice(0, s),) * (len(shape) - 1))
                gold[inside] = self.gold[number]
                weights[inside] = 1 / s ** (len(shape) - 1)
            yield self.rows(some), gold, weights


def structural_loss(
    projection: Float[np.ndarray, "k d"],
    vectors: Float[np.ndarray, "m d"],
    gold: Float[np.ndarray, "b ..."],
    weights: Float[np.ndarray, "b ..."],
    width: float = 0.0,
) -> tuple[float, Float[np.ndarray, "k d"]]:
    """The loss of a batch of sentences, summed over them, and its gradient.

    Parameters
    ----------
    projection: B. vectors: the words of b sentences on end.
    gold: shape (b, t, t) distances or (b, t) depths, t being the longest sentence's length; shorter
        ones fill the front.
    weights: of the same shape: 1 / s² or 1 / s for the pairs or words of a sentence of s words, 0
        behind them.
    width: in edges; above 0 ``|x|`` is ``sqrt(x² + width²) - width``.

    Returns
    -------
    loss: ``Σ weights |predicted - gold|``; its unit is edges.
    gradient: shape (k, d), by the projection; where a prediction is exact, 0 is taken.

    >>> B, h = np.array([[2.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 5.0]])
    >>> loss, gradient = structural_loss(B, h, np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]]))
    >>> loss, gradient.tolist()
    (1.5, [[2.0, 10.0]])
    """
    mapped = vectors @ projection.T
    # which places of the padded batch are words
    there = (weights if weights.ndim == 2 else weights[:, 0]) > 0
    padded = np.zeros((*there.shape, len(projection)), mapped.dtype)
    padded[there] = mapped
    squares = np.square(padded).sum(axis=-1)
    if gold.ndim == 2:
        off = squares - gold
        size, sign = _rounded(off, width)
        by_mapped = 2 * (sign * weights)[..., None] * padded
    else:
        off = (
            squares[:, :, None] + squares[:, None, :] - 2 * (padded @ padded.swapaxes(1, 2)) - gold
        )
        size, sign = _rounded(off, width)
        signs = sign * weights  # symmetric
        by_mapped = 4 * (signs.sum(axis=2)[..., None] * padded - signs @ padded)
    loss = float((size * weights).sum(dtype=np.float64))
    return loss, by_mapped[there].T @ vectors


def _rounded(off: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """``|x|`` and its derivative, the corner rounded off over a width."""
    if width == 0:
        return np.abs(off), np.sign(off)
    root = np.sqrt(np.square(off) + off.dtype.type(width**2))
    return root - off.dtype.type(width), off / root


def _descend(
    first: np.ndarray, train: _Treebank, watched: _Treebank | None, max_iter: int
) -> tuple[np.ndarray, float, int, str]:
    """The best projection, its loss, the number of steps, and why it is no minimum ("" where it is
    one, or dev said when to stop)."""
    best: tuple[float, int, np.ndarray] = (np.inf, 0, first)
    steps, shape, why, enough, at = 0, first.shape, "", False, first.ravel()

    def watch(flat: np.ndarray) -> None:
        nonlocal best, steps, enough
        steps += 1
        if watched is not None:
            loss = _mean_loss(flat.reshape(shape), watched)[0]
            if loss < best[0]:
                best = loss, steps, flat.reshape(shape).copy()
            elif steps - best[1] >= _PATIENCE:
                enough = True
                raise StopIteration  # which is how scipy is told to end

    for width in _WIDTHS:

        def objective(flat: np.ndarray, width: float = width) -> tuple[float, np.ndarray]:
            loss, gradient = _mean_loss(flat.reshape(shape), train, width)
            return loss, gradient.ravel()

        left = max_iter - steps
        if not left:
            why = "the loss still fell"
            break
        options = {"maxiter": left, "maxfun": 4 * left, "ftol": _TOLERANCE, "gtol": 0.0}
        found = minimize(
            objective, at, jac=True, method="L-BFGS-B", callback=watch, options=options
        )
        at = found.x
        why = (
            ""
            if found.success
            else "the loss still fell"
            if steps >= max_iter
            else str(found.message)
        )
        if enough:
            why = ""
            break
    if watched is None:
        return at.reshape(shape), _mean_loss(at.reshape(shape), train)[0], steps, why
    return best[2], best[0], steps, why


def _mean_loss(
    projection: np.ndarray, treebank: _Treebank, width: float = 0.0
) -> tuple[float, np.ndarray]:
    """Loss per sentence, and its gradient in float64."""
    loss, gradient = 0.0, np.zeros(projection.shape)
    for batch in treebank.batches():
        some, by_projection = structural_loss(projection.astype(treebank.dtype), *batch, width)
        loss += some
        gradient += by_projection
    return loss / len(treebank.lengths), gradient / len(treebank.lengths)
