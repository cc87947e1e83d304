"""Pairs of rows of two vocabularies, to start a mapping from: a dictionary, shared spellings,
numerals, or the vectors alone.

Every seed is an array of index pairs in rising order, without repetition where words make it;
the same input gives the same array, whatever the hash seed of the process.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from crosslens.alignment.neighbours.products import best_both, neighbourhood_means
from crosslens.alignment.normalisation import normalise
from crosslens.checks import as_array, check_positive_int, decompose
from crosslens.errors import InputError, refuse

__all__ = ["check_pairs", "dictionary_seed", "identical_words", "numerals", "unsupervised_seed"]

_NUMERAL = re.compile("[0-9]+")


def dictionary_seed(
    pairs: Iterable[tuple[str, str]], words_x: Sequence[str], words_y: Sequence[str]
) -> Int[np.ndarray, "p 2"]:
    """The rows of a dictionary's words, for the entries whose both words have vectors.

    Parameters
    ----------
    pairs: word and translation; a word may have several, and an entry given twice counts once.
    words_x: the words of the source rows. words_y: those of the target rows.

    Returns
    -------
    shape (p, 2), rows of x and of y, rising.

    Raises
    ------
    InputError: no entry is left, or a word stands twice in a vocabulary.

    >>> dictionary_seed([("dog", "chien"), ("cat", "chat"), ("dog", "cabot")], ["the", "dog"], ["chat", "chien", "cabot"]).tolist()
    [[1, 1], [1, 2]]
    """
    rows_x, rows_y = _rows(words_x, "words_x"), _rows(words_y, "words_y")
    entries = list(pairs)
    found = {(rows_x[a], rows_y[b]) for a, b in entries if a in rows_x and b in rows_y}
    if not found:
        expected = "an entry whose words are in words_x and words_y"
        remedy = "check languages, direction and letter case of the dictionary"
        refuse("pairs", expected, f"none among {len(entries)}", remedy)
    return np.array(sorted(found))


def check_pairs(
    pairs: ArrayLike, n: int, m: int, name: str = "pairs", sides: tuple[str, str] = ("x", "y")
) -> Int[np.ndarray, "p 2"]:
    """Return pairs of a row of one side and a row of the other as an array of int64, in their
    order.

    Parameters
    ----------
    pairs: shape (p, 2), whole numbers. n, m: how many rows the two sides have.
    name, sides: what the caller calls the pairs and the two sides.

    Raises
    ------
    InputError: no pairs, not whole numbers of this shape, or a row that is not there.

    >>> check_pairs([(0, 2), (1, 0)], 2, 3)
    array([[0, 2],
           [1, 0]])
    """
    expected = "whole numbers of shape (p, 2)"
    remedy = f"give a row of {sides[0]} and a row of {sides[1]} for each pair"
    try:
        array = as_array(pairs, name)
    except InputError:
        raise
    except ValueError:
        refuse(name, expected, "rows of different lengths", remedy)
    if array.size == 0:
        refuse(
            name,
            "at least one pair",
            "none",
            "give pairs whose words are in both vocabularies, written alike (letter case, say)",
        )
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        refuse(name, expected, f"{array.dtype} of shape {array.shape}", remedy)
    for column, size, side in zip((0, 1), (n, m), sides, strict=True):
        outside = np.flatnonzero((array[:, column] < 0) | (array[:, column] >= size))
        if len(outside):
            got = f"{array[outside[0], column]} in pair {outside[0]}"
            refuse(
                name,
                f"rows of {side} from 0 to {size - 1}",
                got,
                "leave out words that are not in the vocabulary",
            )
    return array.astype(np.int64)


def identical_words(words_x: Sequence[str], words_y: Sequence[str]) -> Int[np.ndarray, "p 2"]:
    """The rows of all words that both vocabularies spell alike (Smith et al. 2017; names, numerals
    and loans, mostly).

    Parameters
    ----------
    words_x: the words of the source rows. words_y: those of the target rows.

    Returns
    -------
    shape (p, 2), rows of x and of y, rising.

    Raises
    ------
    InputError: no word is shared, or a word stands twice in a vocabulary.

    >>> identical_words(["the", "Paris", "2019"], ["2019", "le", "Paris"]).tolist()
    [[1, 2], [2, 0]]
    """
    return _shared(words_x, words_y, "a word that words_x has too")


def numerals(words_x: Sequence[str], words_y: Sequence[str]) -> Int[np.ndarray, "p 2"]:
    """Those of :func:`identical_words` that consist of the digits 0 to 9 (Artetxe et al. 2017);
    refused where there are none.

    >>> numerals(["the", "Paris", "2019"], ["2019", "le", "Paris"]).tolist()
    [[2, 0]]
    """
    return _shared(words_x, words_y, "a numeral that words_x has too", _NUMERAL)


def unsupervised_seed(
    x: ArrayLike, y: ArrayLike, vocabulary: int = 4000, k: int = 10
) -> Int[np.ndarray, "p 2"]:
    """Pairs of words whose similarities to their own vocabularies are distributed alike (Artetxe et
    al. 2018, section 3.2).

    With the ``vocabulary`` first rows of each side, normalised by length, centre and length
    (over the whole matrix), every word is described by its sorted row of ``sqrt(X Xᵀ)``; these
    descriptions are normalised in the same way, and each word is paired with its nearest one of the
    other side by CSLS.

    Parameters
    ----------
    x: shape (n, d), the most frequent words first.
    y: shape (m, e), likewise; e need not be d.
    vocabulary: how many rows of each side are used, at least k; the smaller side's number where it
        has fewer.
    k: neighbours of CSLS.

    Returns
    -------
    shape (p, 2) with p twice the rows used: the pairs found from x to y, then those from y to x. A
    pair found in both directions stands there twice. Few of them are right: they are where
    self-learning begins.

    Raises
    ------
    InputError: not finite, a zero row, rows that cannot be centred, or fewer than k rows.

    Notes
    -----
    Needs three matrices of ``vocabulary``² numbers (64 MB each in float32 with 4,000 rows).

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 8)) * np.arange(1, 9)
    >>> turn, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    >>> pairs = unsupervised_seed(x, x[::-1] @ turn, k=5)
    >>> bool((pairs.sum(axis=1) == 59).all())
    True
    """
    x, y = normalise(x), normalise(y)
    most = min(len(x), len(y))
    size = min(check_positive_int(vocabulary, "vocabulary"), most)
    k = check_positive_int(k, "k", most=size)
    x, y = _distributions(x[:size]), _distributions(y[:size])
    there, back = best_both(x, y, *neighbourhood_means(x, y, k))
    own = np.arange(size)
    return np.concatenate([np.stack([own, there], axis=1), np.stack([back, own], axis=1)])


def _distributions(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
    """Sorted rows of the square root of X Xᵀ, normalised; with X = U S Vᵀ the root is U S Uᵀ."""
    left, values, _ = decompose(x, "vectors")
    root = (left * values) @ left.T
    root.sort(axis=1)
    return normalise(root)


def _shared(
    words_x: Sequence[str],
    words_y: Sequence[str],
    expected: str,
    pattern: re.Pattern[str] | None = None,
) -> np.ndarray:
    rows_x, rows_y = _rows(words_x, "words_x"), _rows(words_y, "words_y")
    pairs = [
        (row, rows_y[word])
        for word, row in rows_x.items()
        if word in rows_y and (pattern is None or pattern.fullmatch(word))
    ]
    if not pairs:
        remedy = "give larger vocabularies, or start from a dictionary"
        refuse("words_y", expected, f"none among {len(rows_y)}", remedy)
    return np.array(pairs)


def _rows(words: Sequence[str], name: str) -> dict[str, int]:
    """The row of each word, in the order of the rows."""
    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        if rows.setdefault(word, row) != row:
            got = f"{word!r} in rows {rows[word]} and {row}"
            refuse(name, "every word once", got, "keep one row of each word")
    return rows
