"""Bilingual lexicons: how well a mapping translates the words of a dictionary, and the dictionary
that it makes itself.

Words stay with the caller: here a word is a row of its matrix, and a dictionary is pairs of row
numbers.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from crosslens.alignment.maps.seeds import check_pairs
from crosslens.alignment.neighbours.csls import By, neighbours_both, scores_of
from crosslens.alignment.neighbours.tiles import ranks
from crosslens.checks import check_matrix, check_positive_int, check_same_width
from crosslens.errors import check_choice, refuse
from crosslens.one_line import one_line
from crosslens.stats import wilson_interval

__all__ = [
    "InducedDictionary",
    "LexiconResult",
    "evaluate_lexicon",
    "induced_dictionary",
    "mutual_neighbours",
]

Convention = Literal["muse", "vecmap"]
Keep = Literal["mutual", "union", "forward", "backward"]


@dataclasses.dataclass(frozen=True)
class _Preset:
    """What a program does where nothing else is asked for."""

    by: By
    ks: tuple[int, ...]
    inverse_temperature: float


_PRESETS = {"muse": _Preset("csls", (1, 5, 10), 30.0), "vecmap": _Preset("cosine", (1,), 1.0)}


@dataclasses.dataclass(frozen=True, eq=False)
class LexiconResult:
    """How well the source words of a dictionary were translated.

    Attributes
    ----------
    sources: shape (s,), the rows of x that were looked up, each once, rising.
    ranks: shape (s,), the place of each source's best gold translation among all rows of y, counted
        from 1: outcomes per item for paired tests (``ranks <= k``).
    n: s, the number of sources that have a translation in the vocabularies.
    n_sources: the number of sources of the whole dictionary, these included.
    precision: by k, the share of the n sources with a gold translation among the k best; 0 to 1,
        higher is better.
    intervals: by k, its 95 % interval (Wilson 1927).
    precision_of_all: by k, the same hits as a share of all n_sources: what is not in the
        vocabularies counts as wrong.
    intervals_of_all: by k, its 95 % interval.
    mrr: mean over the n sources of 1 / rank; 0 to 1, higher is better.
    coverage: n / n_sources.
    convention, by: what the numbers follow.
    """

    sources: Int[np.ndarray, " s"]
    ranks: Int[np.ndarray, " s"]
    n: int
    n_sources: int
    precision: dict[int, float]
    intervals: dict[int, tuple[float, float]]
    precision_of_all: dict[int, float]
    intervals_of_all: dict[int, tuple[float, float]]
    mrr: float
    coverage: float
    convention: str
    by: str

    __repr__ = one_line


@dataclasses.dataclass(frozen=True, eq=False)
class InducedDictionary:
    """Pairs that a mapping holds for translations.

    Attributes
    ----------
    pairs: shape (p, 2), rows of x and of y; sorted by x, then y; no pair twice.
    scores: shape (p,), what the pairs were compared by; higher is closer. For inverted softmax, of
        the direction in which the pair was found, and of both the higher one.
    mutual: shape (p,), True where each is the other's best.
    """

    pairs: Int[np.ndarray, "p 2"]
    scores: Float[np.ndarray, " p"]
    mutual: np.ndarray

    __repr__ = one_line


def evaluate_lexicon(
    x: ArrayLike,
    y: ArrayLike,
    pairs: ArrayLike,
    *,
    convention: Convention = "muse",
    by: By | None = None,
    ks: Sequence[int] | None = None,
    n_sources: int | None = None,
    neighbourhood: int = 10,
    inverse_temperature: int | float | None = None,
) -> LexiconResult:
    """Precision, mean reciprocal rank and coverage of word translation, from mapped vectors and a
    dictionary.

    A source is looked up once, however many lines of the dictionary it has, and any of its
    translations is right. All rows of y compete. Vectors are compared by direction: both sides are
    brought to length 1 again. Equal scores go to the lower index.

    Both conventions agree on all of that, and differ in what they report:

        muse      precision at 1, 5 and 10, by CSLS unless told otherwise, inverse temperature 30
        vecmap    precision at 1, by the cosine unless told otherwise, inverse temperature 1

    MUSE's accuracy is ``precision``; both programs leave sources without a translation in the
    vocabularies out of the denominator, VecMap printing the coverage beside it.
    ``precision_of_all`` counts them as wrong.

    Parameters
    ----------
    x: shape (n, d), mapped vectors of the whole source vocabulary. y: shape (m, d), those of the
        target vocabulary.
    pairs: shape (p, 2), row of x and row of y; pairs that come twice count once.
    convention: see above.
    by: what pairs are compared by (:mod:`crosslens.alignment.neighbours.csls`).
    ks: how many of the best may be looked at, each from 1 to m; without it, the convention's that
        are not above m.
    n_sources: how many different source words the dictionary has, before words outside the
        vocabularies were left out; without it, as many as there are in ``pairs``.
    neighbourhood, inverse_temperature: as in
        :func:`crosslens.alignment.neighbours.csls.adjusted_neighbours`.

    Raises
    ------
    InputError: no pairs, rows out of range, fewer n_sources than sources, an unknown convention, or
        as for adjusted_neighbours.

    References
    ----------
    Conneau et al. 2018, Word translation without parallel data. Artetxe, Labaka & Agirre 2018,
    Generalizing and improving bilingual word embedding mappings with a multi-step framework of
    linear transformations.

    >>> x, y = np.eye(3), np.eye(3)[[0, 2, 1]]
    >>> result = evaluate_lexicon(x, y, [(0, 0), (1, 0), (1, 2), (2, 2)], n_sources=4, convention="vecmap")
    >>> result.ranks.tolist(), result.precision[1], result.precision_of_all[1], result.coverage
    ([1, 1, 3], 0.6666666666666666, 0.5, 0.75)
    """
    x, y = check_matrix(x, "x"), check_matrix(y, "y")
    check_same_width(x, y)
    check_choice(convention, "convention", get_args(Convention))
    preset = _PRESETS[convention]
    gold = np.unique(check_pairs(pairs, len(x), len(y)), axis=0)
    sources, first = np.unique(gold[:, 0], return_index=True)
    if n_sources is None:
        n_sources = len(sources)
    if check_positive_int(n_sources, "n_sources") < len(sources):
        remedy = "count the dictionary's different source words"
        refuse("n_sources", f"at least the {len(sources)} sources of pairs", str(n_sources), remedy)
    if ks is not None and not isinstance(ks, Iterable):
        refuse("ks", "a list of whole numbers", repr(ks), "give [1], say")
    places = (
        [check_positive_int(k, "ks", most=len(y)) for k in ks]
        if ks is not None
        else [k for k in preset.ks if k <= len(y)]
    )
    by = by or preset.by
    beta = preset.inverse_temperature if inverse_temperature is None else inverse_temperature
    scores = scores_of(x, y, sources, by, neighbourhood, beta)
    best = _best_gold(scores.exact(np.searchsorted(sources, gold[:, 0]), gold[:, 1]), gold, first)
    return _result(sources, ranks(scores, best), n_sources, places, convention, by)


def _best_gold(scores: np.ndarray, gold: np.ndarray, first: np.ndarray) -> np.ndarray:
    """For each source the translation that scores best; of equal ones the lowest row."""
    order = np.lexsort((gold[:, 1], -scores, gold[:, 0]))
    best: np.ndarray = gold[order][first, 1]
    return best


def _result(
    sources: np.ndarray,
    places: np.ndarray,
    n_sources: int,
    ks: Sequence[int],
    convention: str,
    by: str,
) -> LexiconResult:
    n, hits = len(sources), {k: int((places <= k).sum()) for k in ks}
    return LexiconResult(
        sources=sources,
        ranks=places,
        n=n,
        n_sources=n_sources,
        precision={k: hits[k] / n for k in ks},
        intervals={k: wilson_interval(hits[k], n) for k in ks},
        precision_of_all={k: hits[k] / n_sources for k in ks},
        intervals_of_all={k: wilson_interval(hits[k], n_sources) for k in ks},
        mrr=float((1 / places).mean()),
        coverage=n / n_sources,
        convention=convention,
        by=by,
    )


def mutual_neighbours(
    x: ArrayLike,
    y: ArrayLike,
    *,
    by: By = "csls",
    neighbourhood: int = 10,
    inverse_temperature: int | float = 30.0,
) -> tuple[Int[np.ndarray, "p 2"], Float[np.ndarray, " p"]]:
    """The pairs of rows each of which is the other's best.

    Parameters
    ----------
    x: shape (n, d). y: shape (m, d).
    by, neighbourhood, inverse_temperature: as in
        :func:`crosslens.alignment.neighbours.csls.adjusted_neighbours`.

    Returns
    -------
    pairs: shape (p, 2), sorted; each row of x and of y at most once. With csls, cosine and margins
        there is always at least one.
    scores: shape (p,), float64; higher is closer.

    Raises
    ------
    InputError: as for adjusted_neighbours.

    >>> pairs, scores = mutual_neighbours(np.eye(2), [[0.6, 0.8], [0.0, 1.0], [1.0, 0.1]], by="cosine")
    >>> pairs.tolist(), scores.round(3).tolist()
    ([[0, 2], [1, 1]], [0.995, 1.0])
    """
    found = induced_dictionary(
        x,
        y,
        keep="mutual",
        by=by,
        neighbourhood=neighbourhood,
        inverse_temperature=inverse_temperature,
    )
    return found.pairs, found.scores


def induced_dictionary(
    x: ArrayLike,
    y: ArrayLike,
    *,
    keep: Keep = "mutual",
    by: By = "csls",
    neighbourhood: int = 10,
    inverse_temperature: int | float = 30.0,
) -> InducedDictionary:
    """The dictionary that mapped vectors make: best partners with their scores.

    Parameters
    ----------
    x: shape (n, d). y: shape (m, d).
    keep: "mutual", pairs that are each other's best; "forward", each row of x with its best;
        "backward", each row of y with its best; "union", forward and backward.
    by, neighbourhood, inverse_temperature: as in
        :func:`crosslens.alignment.neighbours.csls.adjusted_neighbours`.

    Raises
    ------
    InputError: as for adjusted_neighbours, or an unknown ``keep``.

    >>> found = induced_dictionary(np.eye(2), [[0.6, 0.8], [0.0, 1.0], [1.0, 0.1]], keep="backward", by="cosine")
    >>> found.pairs.tolist(), found.mutual.tolist()
    ([[0, 2], [1, 0], [1, 1]], [True, False, True])
    """
    check_choice(keep, "keep", get_args(Keep))
    there, back = neighbours_both(
        x, y, 1, by=by, neighbourhood=neighbourhood, inverse_temperature=inverse_temperature
    )
    forward = np.stack([np.arange(len(there.indices)), there.indices[:, 0]], axis=1)
    backward = np.stack([back.indices[:, 0], np.arange(len(back.indices))], axis=1)
    pairs, place = np.unique(np.concatenate([forward, backward]), axis=0, return_inverse=True)
    scores = np.full(len(pairs), -np.inf)
    np.maximum.at(scores, place.ravel(), np.concatenate([there.scores[:, 0], back.scores[:, 0]]))
    is_forward, is_backward = np.zeros((2, len(pairs)), bool)
    is_forward[place.ravel()[: len(forward)]] = True
    is_backward[place.ravel()[len(forward) :]] = True
    wanted = {
        "mutual": is_forward & is_backward,
        "forward": is_forward,
        "backward": is_backward,
        "union": is_forward | is_backward,
    }[keep]
    return InducedDictionary(pairs[wanted], scores[wanted], (is_forward & is_backward)[wanted])
