"""Which word of a sentence translates which word of its translation, from the words' vectors.

Any encoder's vectors will do (Jalili Sabet et al. 2020; Dou & Neubig 2021). Word vectors of many
sentences are one matrix with ``offsets``, see
:func:`crosslens.alignment.words.links.sentence_offsets`; the result is links as in
:mod:`crosslens.alignment.words.links`.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from crosslens.alignment.rows import row_lengths
from crosslens.alignment.words.links import check_offsets
from crosslens.checks import check_fraction, check_matrix, check_positive_int, check_same_width
from crosslens.errors import refuse

__all__ = ["align_argmax", "align_itermax", "align_softmax"]

# similarities in float64 closer than this are equal, as those of equal words in a sentence are but
# for rounding
_TIE = 2.0**-40


def align_argmax(
    x: ArrayLike, y: ArrayLike, offsets_x: ArrayLike, offsets_y: ArrayLike
) -> Int[np.ndarray, "k 3"]:
    """Links between words that are each other's most similar word in their sentence pair (Jalili
    Sabet et al. 2020, "Argmax").

    Similarity is the cosine. Of several words that are equally similar, up to rounding, the first
    is the most similar, so that no word has two links.

    Parameters
    ----------
    x, y: shape (n, d) and (m, d), the words' vectors, sentence after sentence.
    offsets_x, offsets_y: shape (s + 1,), see
        :func:`crosslens.alignment.words.links.sentence_offsets`.

    Returns
    -------
    shape (k, 3): sentence, word of x, word of y.

    Raises
    ------
    InputError: not finite, a row of zeros, different dimensions, or offsets that do not fit.

    >>> words = np.eye(3)
    >>> align_argmax(words, words[[1, 0, 2]], [0, 2, 3], [0, 2, 3]).tolist()
    [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    """
    return _align(x, y, offsets_x, offsets_y, True, _mutual_best)


def align_itermax(
    x: ArrayLike,
    y: ArrayLike,
    offsets_x: ArrayLike,
    offsets_y: ArrayLike,
    *,
    rounds: int = 2,
    alpha: float = 0.9,
) -> Int[np.ndarray, "k 3"]:
    """Argmax alignment, then more of it for the words left over (Jalili Sabet et al. 2020,
    "Itermax", Algorithm 1).

    In each further round the similarities ``(1 + cosine) / 2`` are multiplied by ``alpha`` where
    one of the two words is linked already and by 0 where both are; words that are then each other's
    best are linked too. So a word can get several links, and recall rises.

    Parameters
    ----------
    x, y, offsets_x, offsets_y: as for :func:`align_argmax`.
    rounds: how many rounds, the first included.
    alpha: between 0 and 1; the higher, the more links of words that are linked already.

    Returns
    -------
    shape (k, 3): sentence, word of x, word of y.

    Raises
    ------
    InputError: as for :func:`align_argmax`; rounds or alpha out of range.

    Notes
    -----
    The authors' program stops after the first round in sentences of one or two words, and once all
    words of one side have a link; their Algorithm 1, which is followed here, does not.
    """
    check_positive_int(rounds, "rounds")
    check_fraction(alpha, "alpha")

    def linked(cosines: np.ndarray) -> np.ndarray:
        similarities = (1 + cosines) / 2
        links = _mutual_best(similarities)
        for _ in range(rounds - 1):
            # how many of the two words have a link
            taken = links.any(axis=1, keepdims=True).astype(int) + links.any(axis=0)
            more = _mutual_best(similarities * np.choose(taken, [1.0, alpha, 0.0])) & (taken < 2)
            if not more.any():
                break
            links |= more
        return links

    return _align(x, y, offsets_x, offsets_y, True, linked)


def align_softmax(
    x: ArrayLike,
    y: ArrayLike,
    offsets_x: ArrayLike,
    offsets_y: ArrayLike,
    *,
    threshold: float = 0.001,
) -> Int[np.ndarray, "k 3"]:
    """Links between words that each find the other probable (Dou & Neubig 2021, "softmax",
    equations 1 and 2).

    The probabilities are softmaxes of the products ``x · y`` (no cosines: lengths count) over the
    words of the other sentence; both must exceed ``threshold``.

    Parameters
    ----------
    x, y, offsets_x, offsets_y: as for :func:`align_argmax`; rows of zeros are allowed.
    threshold: between 0 and 1; the higher, the fewer links. The authors' 0.001 is for states of
        mBERT's layer 8.

    Returns
    -------
    shape (k, 3): sentence, word of x, word of y.

    Raises
    ------
    InputError: not finite, different dimensions, or offsets or threshold that do not fit.
    """
    check_fraction(threshold, "threshold")

    def linked(products: np.ndarray) -> np.ndarray:
        return (_softmax(products, 1) > threshold) & (_softmax(products, 0) > threshold)

    return _align(x, y, offsets_x, offsets_y, False, linked)


def _softmax(products: Float[np.ndarray, "m n"], axis: int) -> Float[np.ndarray, "m n"]:
    powers = np.exp(products - products.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _mutual_best(similarities: Float[np.ndarray, "m n"]) -> Bool[np.ndarray, "m n"]:
    """True where a value is the first of the highest of its row and of its column."""
    links = np.zeros(similarities.shape, bool)
    rows = np.arange(len(similarities))
    best_y = (similarities >= similarities.max(axis=1, keepdims=True) - _TIE).argmax(axis=1)
    best_x = (similarities >= similarities.max(axis=0) - _TIE).argmax(axis=0)
    links[rows, best_y] = best_x[best_y] == rows
    return links


def _align(
    x: ArrayLike,
    y: ArrayLike,
    offsets_x: ArrayLike,
    offsets_y: ArrayLike,
    cosine: bool,
    linked: Callable[[np.ndarray], np.ndarray],
) -> Int[np.ndarray, "k 3"]:
    """Links of all sentence pairs, by a function of the products (or cosines) of one pair's
    vectors."""
    x, y = check_matrix(x, "x"), check_matrix(y, "y")
    check_same_width(x, y, remedy="compare vectors of one encoder and layer")
    begin_x, begin_y = check_offsets(offsets_x, offsets_y)
    for name, rows, begin in (("offsets_x", x, begin_x), ("offsets_y", y, begin_y)):
        if begin[-1] != len(rows):
            expected = f"{len(rows)} at the end, the number of words"
            refuse(name, expected, str(begin[-1]), "make them with sentence_offsets")
    lengths_x, lengths_y = (
        (row_lengths(x, "x"), row_lengths(y, "y")) if cosine else (np.ones(len(x)), np.ones(len(y)))
    )
    found = [np.empty((0, 3), np.int64)]
    for sentence in range(len(begin_x) - 1):
        here_x = slice(*begin_x[sentence : sentence + 2])
        here_y = slice(*begin_y[sentence : sentence + 2])
        # in float64
        a, b = x[here_x] / lengths_x[here_x, None], y[here_y] / lengths_y[here_y, None]
        if len(a) and len(b):
            pairs = np.argwhere(linked(a @ b.T))
            found.append(np.column_stack([np.full(len(pairs), sentence), pairs]))
    return np.concatenate(found)
