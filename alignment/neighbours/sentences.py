"""Sentence retrieval as it is published: Tatoeba's accuracy and xSIM's error rate."""

import dataclasses
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from crosslens.alignment.neighbours.products import Cosine
from crosslens.alignment.neighbours.retrieval import RetrievalResult, result_of
from crosslens.alignment.neighbours.tiles import Found, find_both
from crosslens.checks import check_paired, check_positive_int
from crosslens.errors import check_choice, refuse
from crosslens.one_line import one_line

__all__ = ["SentenceRetrieval", "sentence_retrieval"]

Convention = Literal["tatoeba", "xsim"]


@dataclasses.dataclass(frozen=True, eq=False)
class SentenceRetrieval:
    """How often sentences found their translations, in both directions.

    Attributes
    ----------
    there: from x to y. back: from y to x.
    convention: what decides which sentence is found.
    published: the number that is reported under this convention, from x to y: for "tatoeba" the
        accuracy, 0 to 1, higher is better; for "xsim" the error rate, 0 to 1, lower is better.
    """

    there: RetrievalResult
    back: RetrievalResult
    convention: str
    published: float

    __repr__ = one_line


def sentence_retrieval(
    x: ArrayLike, y: ArrayLike, *, convention: Convention = "tatoeba", k: int = 4
) -> SentenceRetrieval:
    """Whether each sentence finds its translation among all sentences of the other side.

    tatoeba: the highest cosine wins. XTREME and Artetxe & Schwenk 2019 report the direction into
    English only: give the other language as x and English as y.

    xsim: of the k sentences with the highest cosine the one with the highest ratio margin wins,
    ``cos(x, y) / ((r(x) + r(y)) / 2)``, r being the mean cosine of a sentence and its k nearest on
    the other side. LASER reports the error rate from x to y, with k = 4. (A ratio over all
    sentences, not only those k, is ``adjusted_neighbours(x, y, by="margin_ratio",
    neighbourhood=4)``.)

    Both directions come from one pass. Equal scores go to the lower index.

    Parameters
    ----------
    x, y: shape (n, d); row i of one is the translation of row i of the other.
    convention: "tatoeba" or "xsim".
    k: neighbours of xsim, 1 to n; not used by tatoeba.

    Raises
    ------
    InputError: not finite, different shapes, a zero row (named), k out of range, an unknown
        convention, or, for xsim, sentences whose mean cosines are not positive.

    References
    ----------
    Artetxe & Schwenk 2019, Massively multilingual sentence embeddings (Tatoeba); Margin-based
    parallel corpus mining (the margin). Hu et al. 2020, XTREME. Heffernan, Çelebi & Schwenk 2022,
    Bitext mining using distilled sentence representations (xSIM).

    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.1], [1.0, 0.3]])
    >>> sentence_retrieval(x, y).published, sentence_retrieval(x, y, convention="xsim", k=2).published
    (1.0, 0.0)
    >>> sentence_retrieval(x, y).back.precision
    0.5
    """
    check_choice(convention, "convention", get_args(Convention))
    x, y = check_paired(x, y)
    cosine, own = Cosine.of(x, y), np.arange(len(x))
    if convention == "tatoeba":
        of_x, of_y = find_both(cosine.scores(), 1)
        there, back = result_of(of_x.indices[:, 0] == own), result_of(of_y.indices[:, 0] == own)
        return SentenceRetrieval(there, back, convention, there.precision)
    of_x, of_y = find_both(cosine.scores(), check_positive_int(k, "k", most=len(x)))
    r_x, r_y = of_x.scores.mean(axis=1), of_y.scores.mean(axis=1)
    if r_x.min() + r_y.min() <= 0:
        got = "xsim of sentences whose mean cosines are not positive"
        refuse("convention", "tatoeba", got, "a ratio to such a number has no order")
    there = result_of(_best_margin(of_x, r_x, r_y) == own)
    back = result_of(_best_margin(of_y, r_y, r_x) == own)
    return SentenceRetrieval(there, back, convention, 1 - there.precision)


def _best_margin(found: Found, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of each item's k nearest the one with the highest ratio."""
    ratios = found.scores / ((own[:, None] + other[found.indices]) / 2)
    return np.take_along_axis(found.indices, np.lexsort((found.indices, -ratios), axis=1), axis=1)[
        :, 0
    ]
