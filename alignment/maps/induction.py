"""Mappings that find their own dictionary: VecMap's robust self-learning, and MUSE's refinement of
a mapping learnt from pairs.

:func:`self_learning` is a function and not an estimator, because it has no pairs of rows to
be fitted on: it takes two vocabularies of different sizes, and gives maps for both sides.
:func:`refine` takes any aligner that maps x into the space of y, and gives back a better one of the
same kind.
"""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from sklearn.base import clone

from crosslens.alignment.maps.fitted import check_axes, check_columns, read_tensors, write_tensors
from crosslens.alignment.maps.learning_state import LearningState, StateFile, checksum
from crosslens.alignment.maps.procrustes import Procrustes, orthogonal_procrustes
from crosslens.alignment.maps.seeds import check_pairs
from crosslens.alignment.maps.vecmap_maps import MultiStepMap, multi_step_maps
from crosslens.alignment.neighbours.group_maxima import GroupMaxima
from crosslens.alignment.neighbours.products import best_both, neighbourhood_means
from crosslens.alignment.normalisation import normalise
from crosslens.alignment.rows import mean_row, unit_rows
from crosslens.checks import (
    check_matrix,
    check_positive_int,
    check_same_width,
    check_seed,
    is_number,
)
from crosslens.errors import StoreError, cut, refuse
from crosslens.one_line import one_line
from crosslens.progress import Progress

__all__ = ["RefinementResult", "SelfLearningResult", "refine", "self_learning"]

_AXES = {
    "map_x": "dd",
    "map_y": "dd",
    "mean_x": "d",
    "mean_y": "d",
    "pairs": "p2",
    "objectives": "i",
    "keep_probabilities": "i",
}
_GAIN = 1e-6  # an objective that grows by less than this has not grown (Artetxe et al. 2018)
# source words whose mean cosine chooses the round (Conneau et al. 2018, section 3.4)
_CRITERION_WORDS = 10_000


@dataclasses.dataclass(frozen=True, eq=False)
class SelfLearningResult:
    """The maps into a common space, the dictionary they come from, and how learning went.

    Attributes
    ----------
    map_x, map_y: shape (d, d), for normalised rows; :meth:`transform_x` and :meth:`transform_y`
        apply them to any vectors.
    mean_x, mean_y: shape (d,), the means of the two vocabularies at length 1.
    pairs: shape (p, 2), the last induced dictionary as rows of x and of y: from x to y, then from y
        to x. A pair found in both directions stands there twice, and weighs twice.
    objectives: one number per iteration, from -1 to 1, higher is better: the cosine of each word
        with its nearest of the other side under the map of that iteration, averaged over both
        sides.
    keep_probabilities: one number per iteration, with which each candidate stayed in the choice.
    """

    map_x: Float[np.ndarray, "d d"]
    map_y: Float[np.ndarray, "d d"]
    mean_x: Float[np.ndarray, " d"]
    mean_y: Float[np.ndarray, " d"]
    pairs: Int[np.ndarray, "p 2"]
    objectives: Float[np.ndarray, " iterations"]
    keep_probabilities: Float[np.ndarray, " iterations"]

    __repr__ = one_line

    def transform_x(self, x: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Map vectors of the first language, also new ones, into the common space: length, stored
        mean, length, map.

        Raises
        ------
        InputError: not finite, another number of columns, a zero row, or a row that equals the
            mean.
        """
        return _mapped(x, "x", self.mean_x, self.map_x)

    def transform_y(self, y: ArrayLike) -> Float[np.ndarray, "m d"]:
        """Map vectors of the second language, also new ones, into the common space.

        Raises
        ------
        InputError: as for :meth:`transform_x`.
        """
        return _mapped(y, "y", self.mean_y, self.map_y)

    def save(self, path: str | Path) -> None:
        """Write the maps, and all else that was learnt, as one safetensors file, whole or not at
        all.

        Raises
        ------
        OutputError: the place cannot be written to.
        """
        tensors = {
            field.name: np.ascontiguousarray(getattr(self, field.name))
            for field in dataclasses.fields(self)
        }
        write_tensors(path, tensors, {"class": type(self).__name__})

    @classmethod
    def load(cls, path: str | Path) -> "SelfLearningResult":
        """Read what :meth:`save` wrote; it maps as the saved one did, to the last bit.

        Raises
        ------
        InputError: there is no such file.
        StoreError: the file is damaged or something else.
        """
        writer = f"{cls.__name__}.save"
        tensors, facts = read_tensors(path, writer)
        names = {field.name for field in dataclasses.fields(cls)}
        got = f"of {facts['class']}, with {', '.join(sorted(tensors)) or 'nothing'}"
        try:
            if facts["class"] != cls.__name__ or tensors.keys() != names:
                raise ValueError(got)
            check_axes(tensors, _AXES)
        except ValueError as error:
            got = f"{path} ({cut(str(error), 200)})"
            remedy = "learn and save the maps again"
            refuse("path", f"a file written by {writer}", got, remedy, StoreError)
        return cls(**tensors)


def self_learning(
    x: ArrayLike,
    y: ArrayLike,
    pairs: ArrayLike,
    *,
    vocabulary: int = 20_000,
    k: int = 10,
    keep_probability: float | int = 0.1,
    patience: int = 50,
    seed: int = 0,
    state: str | Path | None = None,
) -> SelfLearningResult:
    """Map two vocabularies into one space, and induce their dictionary, in turn until neither gets
    better.

    Each iteration fits an orthogonal map of x onto y to the pairs at hand, and then pairs every one
    of the most frequent words with its nearest of the other side by CSLS, in both directions. So
    that learning does not settle too early, every candidate pair is removed from the choice with
    probability ``1 - keep_probability``, which is halved towards choosing freely: the keep
    probability doubles after ``patience`` iterations without gain in the objective, and learning
    ends when it is 1 and there is no gain any more. The last pairs give the
    maps: whitening, orthogonal maps of both sides, re-weighting by the square root of the singular
    values, and de-whitening.

    Parameters
    ----------
    x: shape (n, d), the most frequent words first. y: shape (m, d), likewise. Rows are normalised
        here: length, centre, length.
    pairs: shape (p, 2), rows of x and of y to start from; see
        :mod:`crosslens.alignment.maps.seeds`.
    vocabulary: how many rows of each side, the first ones, take part in the dictionary; at least k.
    k: neighbours of CSLS.
    keep_probability: the first one, above 0 and at most 1. With 1, induction is deterministic.
    patience: iterations without gain.
    seed: of the random numbers. The same seed gives the same result on the same machine, whatever
        the hash seed.
    state: a file that keeps how far learning has come, written every ten seconds and at the end.
        Where it is there, learning is resumed from it, and gives the same bits as if it had never
        been stopped.

    Raises
    ------
    InputError: not finite, a zero row, different numbers of columns, no pairs, pairs that point
        outside, fewer rows than k, a seed that is none, or nothing left of a very small vocabulary
        at this keep probability.
    OutputError: ``state`` cannot be written, or is of other data or settings.
    StoreError: ``state`` is damaged or something else.

    Notes
    -----
    Which candidate survives is sampled without drawing for every candidate. If each stays with
    probability p, independently, the rank of the best that stays is geometric: P(rank = g) = p (1 -
    p)^(g-1); and a word all of whose m candidates are removed, which has probability (1 - p)^m, has
    no pair. So one rank per word and direction is sampled, the candidate of that rank is taken, and a
    word whose rank exceeds m is left out: the same distribution. In the published code a removed
    candidate's score is set to 0, which is not removal where scores are negative.

    Where the keep probability is 1 and the dictionary comes out as it was, all further iterations
    would repeat it, and learning ends at once.

    References
    ----------
    Artetxe, Labaka & Agirre 2018, A robust self-learning method for fully unsupervised
    cross-lingual mappings of word embeddings, sections 3.3 and 3.4.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 5))
    >>> turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    >>> result = self_learning(x, x @ turn, [[i, i] for i in range(10)], patience=3)
    >>> bool((result.pairs[:, 0] == result.pairs[:, 1]).all())
    True
    """
    raw_x, raw_y = check_matrix(x, "x"), check_matrix(y, "y")
    check_same_width(raw_x, raw_y)
    pairs = check_pairs(pairs, len(raw_x), len(raw_y))
    size, k = _check_vocabulary(vocabulary, k, len(raw_x), len(raw_y))
    patience, seed = check_positive_int(patience, "patience"), check_seed(seed)
    stages = _keep_probabilities(keep_probability)
    precision = np.result_type(raw_x, raw_y)
    x = normalise(raw_x).astype(precision, copy=False)
    y = normalise(raw_y).astype(precision, copy=False)
    settings: dict[str, Any] = {
        "vocabulary": size,
        "k": k,
        "keep_probability": stages[0],
        "patience": patience,
        "seed": seed,
    }
    if state is not None:
        settings |= {"x": checksum(raw_x), "y": checksum(raw_y), "pairs": checksum(pairs)}
    file = StateFile(state, settings)
    now = file.read(
        LearningState(
            pairs, np.arange(len(x[:size])), np.arange(len(y[:size])), np.random.default_rng(seed)
        )
    )
    with Progress(len(stages), "self-learning", "stages", done=now.stage) as progress:
        while now.stage < len(stages):
            keep, before = stages[now.stage], now.pairs
            objective = _induce(
                x[:size] @ orthogonal_procrustes(x[before[:, 0]], y[before[:, 1]]),
                y[:size],
                k,
                keep,
                now,
            )
            now.objectives.append(objective)
            now.keeps.append(keep)
            now.best, now.stale = (
                (objective, 0) if objective - now.best >= _GAIN else (now.best, now.stale + 1)
            )
            progress.add(0, f"iteration {len(now.keeps)}, keep {keep:g}, objective {objective:.5f}")
            if now.stale == patience or keep == 1 and np.array_equal(now.pairs, before):
                now.stage, now.stale = now.stage + 1, 0
                progress.add(1)
            file.write(now, last=now.stage == len(stages))
    pairs = now.pairs
    map_x, map_y = multi_step_maps(x[pairs[:, 0]], y[pairs[:, 1]])
    mean_x, mean_y = (
        mean_row(unit_rows(raw), name).astype(precision)
        for raw, name in ((raw_x, "x"), (raw_y, "y"))
    )
    return SelfLearningResult(
        map_x, map_y, mean_x, mean_y, pairs, np.array(now.objectives), np.array(now.keeps)
    )


def _induce(
    mapped: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "m d"],
    k: int,
    keep: float,
    now: LearningState,
) -> float:
    """Put the pairs of both directions into ``now``, and give the objective.

    Words are grouped by the CSLS terms of the time before, which change slowly.
    """
    maxima = GroupMaxima(mapped, y, now.order_x, now.order_y)
    r_x, r_y = maxima.neighbourhood_means(k)
    now.order_x, now.order_y = np.argsort(r_x, kind="stable"), np.argsort(r_y, kind="stable")
    there, back = maxima.partners(
        r_x, r_y, *(now.random.geometric(keep, len(r)) for r in (r_x, r_y))
    )
    some_x, some_y = np.flatnonzero(there >= 0), np.flatnonzero(back >= 0)
    if not len(some_x) + len(some_y):
        got = f"{keep:g} with {len(there)} words"
        remedy = "raise it, or give more words"
        refuse("keep_probability", "one at which a pair is left", got, remedy)
    now.pairs = np.concatenate(
        [np.stack([some_x, there[some_x]], axis=1), np.stack([back[some_y], some_y], axis=1)]
    )
    return float(np.mean([best.mean(dtype=np.float64) for best in maxima.best_cosines()]))


@dataclasses.dataclass(frozen=True, eq=False)
class RefinementResult:
    """The best aligner of all rounds, the dictionary that it induces, and what the choice was made
    by.

    Attributes
    ----------
    aligner: fitted; maps x into the space of y.
    pairs: shape (p, 2), rows of x and of y: mutual nearest neighbours by CSLS under ``aligner``, by
        rising row of x.
    criteria: shape (rounds + 1,), the unsupervised criterion of the start and of each round, from
        -1 to 1, higher is better.
    best_round: the round that ``aligner`` is from; 0 is the start.
    """

    aligner: Any
    pairs: Int[np.ndarray, "p 2"]
    criteria: Float[np.ndarray, " rounds"]
    best_round: int

    __repr__ = one_line


def refine(
    x: ArrayLike,
    y: ArrayLike,
    start: Any,
    *,
    rounds: int = 5,
    vocabulary: int = 15_000,
    k: int = 10,
) -> RefinementResult:
    """Make a supervised map better: fit it again to the mutual nearest neighbours that it finds,
    several times.

    Each round pairs the words of the first ``vocabulary`` rows that are each other's nearest by
    CSLS, and fits the aligner to these pairs alone. The round is chosen by the mean cosine between
    the (at most 10,000) most frequent mapped words and their nearest by CSLS: no dictionary that a
    result is later evaluated on takes part.

    Parameters
    ----------
    x: shape (n, d), the most frequent words first. y: shape (m, e), likewise.
    start: pairs, shape (p, 2), rows of x and of y, that a ``Procrustes(centre=False,
        normalise=True)`` is fitted to; or an aligner fitted already, with ``transform`` from x's
        space into y's. It is not changed: unfitted copies of it are fitted.
    rounds: how often to fit again.
    vocabulary: how many rows of each side, the first ones, can form pairs; at least k.
    k: neighbours of CSLS.

    Raises
    ------
    InputError: not finite, a zero row, different numbers of columns, no pairs, pairs that point
        outside, fewer rows than k, a MultiStepMap (it maps into a space between both sides), or the
        aligner refuses.

    Notes
    -----
    MUSE searches the nearest neighbours of the 15,000 in the whole other vocabulary, and drops
    pairs outside the 15,000 afterwards; here both sides are cut first.

    References
    ----------
    Conneau et al. 2018, Word translation without parallel data, sections 3.2 to 3.4.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 5))
    >>> turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    >>> result = refine(x, x @ turn + 0.01 * rng.normal(size=x.shape), [[i, i] for i in range(10)], rounds=2)
    >>> bool((result.pairs[:, 0] == result.pairs[:, 1]).all()), len(result.criteria)
    (True, 3)
    """
    x, y = check_matrix(x, "x"), check_matrix(y, "y")
    size, k = _check_vocabulary(vocabulary, k, len(x), len(y))
    if isinstance(start, MultiStepMap):
        remedy = "give a Procrustes or a LeastSquares: it maps into a space between both"
        refuse("start", "pairs, or a map from x into the space of y", "a MultiStepMap", remedy)
    aligner = start
    if not hasattr(start, "transform"):
        pairs = check_pairs(start, len(x), len(y), "start")
        aligner = Procrustes(centre=False, normalise=True).fit(x[pairs[:, 0]], y[pairs[:, 1]])
    units = unit_rows(y[:size])
    tried, criteria = [], []
    with Progress(check_positive_int(rounds, "rounds"), "refinement", "rounds") as progress:
        for number in itertools.count():
            pairs, criterion = _mutual(unit_rows(aligner.transform(x[:size])), units, k)
            criteria.append(criterion)
            tried.append((aligner, pairs))
            if number == rounds:
                break
            aligner = clone(aligner).fit(x[pairs[:, 0]], y[pairs[:, 1]])
            progress.add(1, f"criterion {criterion:.4f}")
    best = int(np.argmax(criteria))
    return RefinementResult(*tried[best], np.array(criteria), best)


def _mutual(
    mapped: Float[np.ndarray, "n d"], y: Float[np.ndarray, "m d"], k: int
) -> tuple[Int[np.ndarray, "p 2"], float]:
    """Mutual nearest neighbours by CSLS, and the criterion."""
    there, back = best_both(mapped, y, *neighbourhood_means(mapped, y, k))
    own = np.flatnonzero(back[there] == np.arange(len(there)))
    cosines = np.einsum("ij,ij->i", mapped[:_CRITERION_WORDS], y[there[:_CRITERION_WORDS]])
    return np.stack([own, there[own]], axis=1), float(cosines.mean(dtype=np.float64))


def _mapped(x: ArrayLike, name: str, mean: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    x = check_columns(x, name, len(mean), "when learning")
    return unit_rows(unit_rows(x) - mean.astype(x.dtype)) @ matrix.astype(x.dtype)


def _keep_probabilities(first: float | int) -> list[float]:
    """The first one, doubled until it reaches 1."""
    if not is_number(first) or not 0 < first <= 1:
        expected, remedy = "a probability above 0 and at most 1", "use 0.1 unless you know better"
        refuse("keep_probability", expected, repr(first), remedy)
    stages = [float(first)]
    while stages[-1] < 1:
        stages.append(min(1.0, 2 * stages[-1]))
    return stages


def _check_vocabulary(vocabulary: int, k: int, n: int, m: int) -> tuple[int, int]:
    """How many first rows take part at most, and k."""
    k, vocabulary = check_positive_int(k, "k"), check_positive_int(vocabulary, "vocabulary")
    if min(vocabulary, n, m) < k:
        expected = f"at most the number of words that take part, {min(vocabulary, n, m)}"
        refuse("k", expected, str(k), "lower k, or give more words")
    return vocabulary, k
