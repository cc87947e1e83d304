"""Static word vectors of two languages in one space: from a dictionary, from what is spelt alike,
or from the vectors alone.

vectors of two languages + first pairs --method--> both in one space --> P@k on a test dictionary,
and a dictionary of its own
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.alignment.maps.induction import SelfLearningResult, refine, self_learning
from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.maps.seeds import identical_words, numerals, unsupervised_seed
from crosslens.alignment.normalisation import IterativeNormalisation
from crosslens.alignment.words.lexicon import evaluate_lexicon, induced_dictionary
from crosslens.errors import check_choice, refuse
from crosslens.one_line import one_line
from crosslens.progress import say
from crosslens.readers.dictionary import Dictionary, WordPairs, fits_a_line, pairs_in
from crosslens.readers.static_vectors import StaticVectors
from crosslens.score import Score

__all__ = [
    "METHODS",
    "STARTS",
    "MappedVectors",
    "first_pairs",
    "map_vectors",
    "own_dictionary",
    "vector_scores",
]

METHODS = ("procrustes", "refine", "self-learning")
STARTS = ("dictionary", "identical", "numerals", "unsupervised")
_FREQUENT = 20_000  # words among which a dictionary is induced; VecMap's cutoff
_NEIGHBOURS = 10


def first_pairs(
    x: StaticVectors, y: StaticVectors, start: str, dictionary: Dictionary | None
) -> np.ndarray:
    """Rows of x and of y to begin with, shape (p, 2).

    Raises
    ------
    InputError: an unknown start, a dictionary that is not there, or no pair at all.
    """
    check_choice(start, "start", STARTS)
    if (start == "dictionary") != (dictionary is not None):
        got = f"start {start!r} with {'one' if dictionary else 'none'}"
        refuse("start", "a dictionary, and only where it is used", got, "give one of the two")
    if dictionary is not None:
        found = pairs_in(dictionary, x.words, y.words)
        return np.stack([found.x, found.y], axis=1)
    if start == "unsupervised":
        return unsupervised_seed(x.vectors, y.vectors)
    words = x.words[:_FREQUENT], y.words[:_FREQUENT]
    return identical_words(*words) if start == "identical" else numerals(*words)


@dataclasses.dataclass(frozen=True, eq=False)
class MappedVectors:
    """Both languages' vectors in one space, shapes (n, d) and (m, d), and what maps new words to
    it: each has ``save``, by name."""

    x: np.ndarray
    y: np.ndarray
    maps: Mapping[str, IterativeNormalisation | Procrustes | SelfLearningResult]

    __repr__ = one_line


def map_vectors(
    x: StaticVectors,
    y: StaticVectors,
    pairs: np.ndarray,
    method: str,
    seed: int,
    state: Path | None = None,
) -> MappedVectors:
    """Both languages' vectors in one space.

    procrustes: iterative normalisation (Zhang et al. 2019) and the rotation that fits the pairs.
    refine: the same, fitted again to mutual neighbours five times (Conneau et al. 2018).
    self-learning: :func:`crosslens.alignment.maps.induction.self_learning` from the pairs (Artetxe
    et al. 2018), which keeps how far it is in the file ``state`` and resumes there.

    The maps are called normalisation_x, normalisation_y and map; for self-learning there is ``map``
    alone, for both sides.

    Raises
    ------
    InputError: an unknown method, or what the method refuses. OutputError, StoreError: what
        self-learning says of ``state``.
    """
    check_choice(method, "method", METHODS)
    if method == "self-learning":
        size = min(_FREQUENT, len(x), len(y))
        learnt = self_learning(x.vectors, y.vectors, pairs, vocabulary=size, seed=seed, state=state)
        return MappedVectors(
            learnt.transform_x(x.vectors), learnt.transform_y(y.vectors), {"map": learnt}
        )
    sides = [IterativeNormalisation().fit(side.vectors) for side in (x, y)]
    left, right = (
        normalisation.transform(side.vectors)
        for normalisation, side in zip(sides, (x, y), strict=True)
    )
    rotation = Procrustes(centre=False).fit(left[pairs[:, 0]], right[pairs[:, 1]])
    if method == "refine":
        rotation = refine(left, right, rotation, vocabulary=min(15_000, len(x), len(y))).aligner
    maps = {"normalisation_x": sides[0], "normalisation_y": sides[1], "map": rotation}
    return MappedVectors(rotation.transform(left), right, maps)


def vector_scores(
    x: np.ndarray,
    y: np.ndarray,
    test: WordPairs,
    common: Mapping[str, Any],
    method: str,
    by: str,
    learnt: int,
) -> list[Score]:
    """P@1, P@5, P@10 and mean reciprocal rank of mapped vectors, by MUSE's rules; static vectors
    count as layer 0.

    Parameters
    ----------
    test: pairs of rows, with the coverage of the dictionary that they are from.
    common: source, target, encoder and seed.
    learnt: how many pairs the map was begun with.
    """
    pairs, near = np.stack([test.x, test.y], axis=1), min(_NEIGHBOURS, len(x), len(y))
    found = evaluate_lexicon(x, y, pairs, by=by, n_sources=test.sources, neighbourhood=near)  # type: ignore[arg-type]
    told = {
        "candidates": len(y),
        "by": by,
        "fitted_on": learnt,
        "dimensions": x.shape[1],
        "coverage": round(found.coverage, 4),
        "sources": found.n_sources,
    }
    fields: dict[str, Any] = {
        **common,
        "task": "word_translation",
        "condition": method.replace("-", "_"),
        "layer": 0,
        "n": found.n,
    }
    scores = [Score(**fields, quantity="mrr", value=found.mrr, details=told)]
    for k, value in found.precision.items():
        low, high = found.intervals[k]
        details = {**told, "chance": k / len(y), "value_of_all": found.precision_of_all[k]}
        scores.append(
            Score(
                **fields,
                quantity=f"precision_at_{k}",
                value=value,
                low=low,
                high=high,
                details=details,
            )
        )
    return scores


def own_dictionary(
    x: StaticVectors, y: StaticVectors, mapped: MappedVectors, by: str
) -> Dictionary:
    """The mutual neighbours among the frequent words of both languages, the surest first; without
    pairs whose words a dictionary's line cannot hold."""
    near = min(_NEIGHBOURS, len(x), len(y))
    found = induced_dictionary(
        mapped.x[:_FREQUENT],
        mapped.y[:_FREQUENT],
        by=by,  # type: ignore[arg-type]
        neighbourhood=near,
    )
    order = np.argsort(-found.scores, kind="stable")
    pairs = [(x.words[a], y.words[b]) for a, b in found.pairs[order].tolist()]
    kept = [row for row, pair in enumerate(pairs) if all(map(fits_a_line, pair))]
    if len(kept) < len(pairs):
        say(f"{len(pairs) - len(kept)} induced pair(s) left out, whose words a line cannot hold")
    scores = found.scores[order].tolist()
    return Dictionary([pairs[row] for row in kept], [scores[row] for row in kept])
