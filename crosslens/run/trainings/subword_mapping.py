"""Subword vectors of one language brought into the space of another's, by VecMap's self-learning and
an orthogonal map (Artetxe, Labaka & Agirre 2018)."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from crosslens.alignment.maps.induction import self_learning
from crosslens.alignment.maps.procrustes import orthogonal_procrustes
from crosslens.alignment.maps.seeds import identical_words, unsupervised_seed
from crosslens.alignment.neighbours.csls import csls_neighbours
from crosslens.alignment.neighbours.retrieval import RetrievalResult, result_of
from crosslens.alignment.normalisation import normalise
from crosslens.errors import refuse
from crosslens.models.text.subword_vectors import SubwordVectors

__all__ = ["SEEDS", "Induction", "map_subwords", "normalised", "refuse_no_overlap"]

SEEDS = ("identical", "unsupervised")
"""What self-learning begins with: subwords that are spelt alike, or the vectors alone."""


@dataclasses.dataclass(frozen=True, eq=False)
class Induction:
    """How the induction of a dictionary went.

    Attributes
    ----------
    seeds: pairs that it began with.
    pairs: shape (p, 2), ids of the target's and of the source's subwords: the last induced dictionary,
        which the map is fitted to; what was found in both directions stands there twice.
    objectives: of each iteration, the mean cosine of a subword with its nearest of the other side.
    identical: of the target's subwords that the source spells alike, how many are nearest to
        themselves by CSLS under the map; None where there are none.
    """

    seeds: int
    pairs: Int[np.ndarray, "p 2"]
    objectives: Float[np.ndarray, " i"]
    identical: RetrievalResult | None

    def told(self) -> dict[str, Any]:
        """In numbers, as config.json keeps it."""
        different, often = np.unique(self.pairs, axis=0, return_counts=True)
        return {
            "seeds": self.seeds,
            "iterations": len(self.objectives),
            "first_objective": float(self.objectives[0]),
            "objective": float(self.objectives[-1]),
            "pairs": len(different),
            "mutual": int((often == 2).sum()),
        }


def map_subwords(
    target: SubwordVectors,
    source: SubwordVectors,
    seeds: str = "identical",
    *,
    seed: int = 0,
    state: str | Path | None = None,
) -> tuple[SubwordVectors, Induction]:
    """Bring a language's subwords into another's space.

    Both sides are normalised (length, centre, length), over the subwords that have vectors. From the
    seeds, :func:`crosslens.alignment.maps.induction.self_learning` induces a dictionary with its default
    settings, and the orthogonal map that brings its target side closest to its source side is applied:
    VecMap's ``--identical`` or ``--unsupervised`` with ``--orthogonal``.

    Parameters
    ----------
    seeds: one of :data:`SEEDS`.
    seed: of self-learning. state: a file in which it keeps how far it has come.

    Returns
    -------
    the target's subwords in the space of :func:`normalised` ``(source)``; rows without vectors stay
    zero, which is the mean of the others. And how the induction went.

    Raises
    ------
    InputError: no such seeds, no subword that both spell alike, too few subwords, vectors of different
        widths or that cannot be normalised.
    """
    if seeds not in SEEDS:
        refuse("seeds", f"one of {', '.join(SEEDS)}", repr(seeds), "choose one of these")
    ids_x, ids_y = target.by_frequency, source.by_frequency
    x, y = target.vectors[ids_x], source.vectors[ids_y]
    words_x, words_y = _words(target), _words(source)
    if seeds == "identical":
        refuse_no_overlap(source.language, words_y, target.language, words_x)
        pairs = identical_words(words_x, words_y)
    else:
        pairs = unsupervised_seed(x, y)
    learnt = self_learning(x, y, pairs, seed=seed, state=state)
    x, y = normalise(x), normalise(y)
    rotation = orthogonal_procrustes(x[learnt.pairs[:, 0]], y[learnt.pairs[:, 1]])
    mapped = x @ rotation
    table = np.zeros_like(target.vectors)
    table[ids_x] = mapped
    told = np.stack([ids_x[learnt.pairs[:, 0]], ids_y[learnt.pairs[:, 1]]], axis=1)
    found = _identical(mapped, words_x, y, words_y)
    return (
        SubwordVectors(target.vocabulary, table, target.counts),
        Induction(len(pairs), told, learnt.objectives, found),
    )


def normalised(vectors: SubwordVectors) -> SubwordVectors:
    """A language's subwords at length 1, around 0: the space that others are mapped into."""
    table, ids = np.zeros_like(vectors.vectors), vectors.by_frequency
    table[ids] = normalise(vectors.vectors[ids])
    return SubwordVectors(vectors.vocabulary, table, vectors.counts)


def refuse_no_overlap(
    source: str, source_words: list[str], target: str, target_words: list[str]
) -> None:
    """Refuse two vocabularies without a common spelling, which identical seeds need.

    Raises
    ------
    InputError: they have none.
    """
    if not set(source_words) & set(target_words):
        expected = f"subwords that {source} and {target} spell alike"
        got = f"none among {len(source_words)} and {len(target_words)}"
        refuse("seeds", expected, got, "set seeds=unsupervised")


def _words(vectors: SubwordVectors) -> list[str]:
    pieces = vectors.vocabulary.pieces(vectors.language)
    return [pieces[i] for i in vectors.by_frequency.tolist()]


def _identical(
    x: Float[np.ndarray, "n d"], words_x: list[str], y: Float[np.ndarray, "m d"], words_y: list[str]
) -> RetrievalResult | None:
    """Of the subwords that both spell alike, whether the nearest is its own spelling."""
    if not set(words_x) & set(words_y):
        return None
    pairs = identical_words(words_x, words_y)
    nearest, _ = csls_neighbours(x, y, 1)
    return result_of(nearest[pairs[:, 0], 0] == pairs[:, 1])
