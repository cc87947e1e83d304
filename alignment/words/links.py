"""Links between the words of sentences and of their translations: in files, as rows of vectors, and
compared with gold.

Links of any number of sentence pairs are one array of shape (k, 3): number of the sentence pair,
word of x, word of y, all counted from 0; rows are sorted, none stands twice. The words of many
sentences are one list with
``offsets``: sentence i has the words from ``offsets[i]`` to ``offsets[i + 1]``, the end excluded.
"""

import dataclasses
import re
from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from crosslens.checks import as_array, check_positive_int
from crosslens.errors import InputError, quote, refuse
from crosslens.files import write_file
from crosslens.one_line import one_line
from crosslens.readers.plain import read_lines
from crosslens.stats import share_interval

__all__ = [
    "AlignmentScores",
    "PharaohFile",
    "aligned_rows",
    "alignment_error_interval",
    "alignment_error_rate",
    "check_links",
    "check_offsets",
    "read_pharaoh",
    "sentence_offsets",
    "write_pharaoh",
]

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})", re.ASCII)


@dataclasses.dataclass(frozen=True, eq=False)
class PharaohFile:
    """The links of a file.

    Attributes
    ----------
    sure: shape (k, 3), the links written ``i-j``.
    possible: shape (l, 3), these and the links written ``ipj``: what an aligner may find without
        being wrong.
    sentences: how many lines the file has.
    """

    sure: Int[np.ndarray, "k 3"]
    possible: Int[np.ndarray, "l 3"]
    sentences: int

    __repr__ = one_line


@dataclasses.dataclass(frozen=True)
class AlignmentScores:
    """How an alignment A compares with sure (S) and possible (P) links of the same sentences.

    Attributes
    ----------
    error_rate: AER, ``1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)``; from 0 to 1, lower is better.
    precision: ``|A ∩ P| / |A|``; from 0 to 1, higher is better, as the two that follow.
    recall: ``|A ∩ S| / |S|``.
    f1: harmonic mean of precision and recall, 0 where both are 0.
    predicted, sure, possible: how many links each set has.
    """

    error_rate: float
    precision: float
    recall: float
    f1: float
    predicted: int
    sure: int
    possible: int


def alignment_error_rate(
    predicted: ArrayLike, sure: ArrayLike, possible: ArrayLike | None = None
) -> AlignmentScores:
    """Alignment error rate, precision and recall of links (Och & Ney 2003, equation 20).

    Parameters
    ----------
    predicted: shape (k, 3), the links to judge, of the gold's sentences and no others.
    sure: shape (l, 3), links that must be found.
    possible: shape (m, 3), links that may be found; sure links are possible whether they are listed
        or not. Without it, the sure ones.

    Raises
    ------
    InputError: no links predicted or none sure, so that a share is not defined; or not arrays of
        links.

    >>> scores = alignment_error_rate([[0, 0, 0], [0, 1, 1], [0, 2, 1]], [[0, 0, 0], [0, 1, 2]], [[0, 1, 1]])
    >>> scores.error_rate, round(scores.precision, 3), scores.recall
    (0.4, 0.667, 0.5)
    """
    found, must = check_links(predicted, "predicted"), check_links(sure, "sure")
    for links, name in ((found, "predicted"), (must, "sure")):
        if not len(links):
            remedy = "check sentences and settings: without links no share is defined"
            refuse(name, "at least one link", "none", remedy)
    may = (
        must
        if possible is None
        else np.unique(np.concatenate([must, check_links(possible, "possible")]), axis=0)
    )
    in_sure, in_possible = _common(found, must), _common(found, may)
    precision, recall = in_possible / len(found), in_sure / len(must)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    error = 1 - (in_sure + in_possible) / (len(found) + len(must))
    return AlignmentScores(error, precision, recall, f1, len(found), len(must), len(may))


def alignment_error_interval(
    predicted: ArrayLike, sure: ArrayLike, possible: ArrayLike | None = None
) -> tuple[float, float]:
    """95 % interval of the alignment error rate, over sentence pairs.

    Links of one sentence stand and fall together, so that a sentence is a cluster: the interval is
    that of the share ``(|A ∩ S| + |A ∩ P|) / (|A| + |S|)`` that is right
    (:func:`crosslens.stats.share_interval`), turned round. Sentences without a predicted or a sure
    link do not count.

    Parameters
    ----------
    predicted, sure, possible: as for :func:`alignment_error_rate`.

    Returns
    -------
    low and high, each from 0 to 1.

    Raises
    ------
    InputError: as for :func:`alignment_error_rate`; or links of fewer than 2 sentences.

    >>> gold = [(sentence, word, word) for sentence in range(50) for word in range(4)]
    >>> found = [(sentence, word, word if sentence % 5 else 3 - word) for sentence, word, _ in gold]
    >>> low, high = alignment_error_interval(found, gold)
    >>> low < alignment_error_rate(found, gold).error_rate < high
    True
    """
    alignment_error_rate(predicted, sure, possible)  # refuses what has no error rate
    found, must = check_links(predicted, "predicted"), check_links(sure, "sure")
    may = must if possible is None else np.concatenate([must, check_links(possible, "possible")])
    sentences = np.unique(np.concatenate([found[:, 0], must[:, 0]]))
    if len(sentences) < 2:
        expected = "links of at least 2 sentences, which differ"
        refuse("predicted", expected, "1 sentence", "give more sentences")
    hits = np.concatenate([found[_among(found, must)], found[_among(found, may)]])
    right, links = (
        np.bincount(np.searchsorted(sentences, rows), minlength=len(sentences)) / 2
        for rows in (hits[:, 0], np.concatenate([found[:, 0], must[:, 0]]))
    )  # halves: a link that is right is there twice
    _, low, high = share_interval(right, links)
    return 1 - high, 1 - low


def check_links(links: ArrayLike, name: str) -> Int[np.ndarray, "k 3"]:
    """Return links as a sorted array of different rows.

    Raises
    ------
    InputError: not an array of whole numbers from 0 with three columns.

    >>> check_links([[0, 1, 1], [0, 0, 2], [0, 1, 1]], "links").tolist()
    [[0, 0, 2], [0, 1, 1]]
    """
    try:
        array = as_array(links, name)
    except InputError:
        raise
    except ValueError:
        remedy = "give sentence, word of x and word of y of each link"
        refuse(name, "links of shape (k, 3)", "rows of different lengths", remedy)
    if array.size == 0:
        return np.empty((0, 3), np.int64)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        got = f"{array.dtype} of shape {array.shape}"
        remedy = "give sentence, word of x and word of y of each link"
        refuse(name, "links of shape (k, 3), whole numbers", got, remedy)
    if array.min() < 0:
        refuse(name, "numbers from 0", str(array.min()), "count sentences and words from 0")
    return np.unique(array.astype(np.int64), axis=0)


def _common(first: np.ndarray, second: np.ndarray) -> int:
    """How many rows two arrays of different rows share."""
    return int(_among(first, second).sum())


def _among(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each row whether it is among others."""
    numbers = np.unique(np.concatenate([rows, others]), axis=0, return_inverse=True)[1].ravel()
    return np.isin(numbers[: len(rows)], numbers[len(rows) :])


def read_pharaoh(path: str | Path, *, first: int = 0) -> PharaohFile:
    """Read links in Pharaoh format: a line per sentence pair, ``0-0 1-2 3p2``; ``-`` is a sure link
    and ``p`` a possible one.

    A line without links is a sentence pair without links. A ``.gz`` file is read as it is.

    Parameters
    ----------
    path: the file.
    first: the number of a sentence's first word in the file, 0 or 1 (some gold files count from 1);
        in the result it is 0.

    Raises
    ------
    InputError: no such file, not one link in it, or something else than links in a line (named).

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "gold.txt"
    >>> _ = path.write_text("0-0 1p2\\n\\n2-1\\n")
    >>> gold = read_pharaoh(path)
    >>> gold.sure.tolist(), gold.possible.tolist(), gold.sentences
    ([[0, 0, 0], [2, 2, 1]], [[0, 0, 0], [0, 1, 2], [2, 2, 1]], 3)
    """
    _check_first(first)
    lines = read_lines(path)
    sure, possible = [], []
    for number, line in enumerate(lines):
        for piece in line.split():
            link = _LINK.fullmatch(piece)
            if link is None:
                expected = "links such as 0-0 or 0p0"
                refuse(f"{path}:{number + 1}", expected, quote(piece), "repair the line")
            i, j = int(link[1]) - first, int(link[3]) - first
            if min(i, j) < 0:
                remedy = f"pass first={1 - first} if they are not"
                refuse(f"{path}:{number + 1}", f"words counted from {first}", repr(piece), remedy)
            possible.append((number, i, j))
            if link[2] == "-":
                sure.append((number, i, j))
    return PharaohFile(check_links(sure, "sure"), check_links(possible, "possible"), len(lines))


def _check_first(first: int) -> None:
    if first not in (0, 1):
        expected = "0 or 1, the number of a sentence's first word"
        refuse("first", expected, repr(first), "choose one of them")


def write_pharaoh(
    path: str | Path,
    sure: ArrayLike,
    sentences: int,
    *,
    possible: ArrayLike | None = None,
    first: int = 0,
) -> None:
    """Write links in Pharaoh format, whole or not at all; :func:`read_pharaoh` reads them.

    Parameters
    ----------
    path: the file.
    sure: shape (k, 3), written ``i-j``.
    sentences: how many sentence pairs, and so lines, there are; those without links have an empty
        line.
    possible: shape (l, 3), written ``ipj`` where they are not sure.
    first: the number of a sentence's first word in the file, 0 or 1.

    Raises
    ------
    InputError: not arrays of links, or a link of a sentence beyond the last.
    OutputError: the file cannot be written.
    """
    _check_first(first)
    check_positive_int(sentences, "sentences")
    must = check_links(sure, "sure")
    every = (
        must
        if possible is None
        else np.unique(np.concatenate([must, check_links(possible, "possible")]), axis=0)
    )
    _check_sentences(every, sentences)
    known = set(map(tuple, must.tolist())) if possible is not None else None
    lines: list[list[str]] = [[] for _ in range(sentences)]
    for sentence, i, j in every.tolist():
        lines[sentence].append(
            f"{i + first}{'-' if known is None or (sentence, i, j) in known else 'p'}{j + first}"
        )
    write_file(path, "".join(" ".join(line) + "\n" for line in lines))


def _check_sentences(links: Int[np.ndarray, "k 3"], sentences: int) -> None:
    if len(links) and links[-1, 0] >= sentences:
        expected = f"links of sentences 0 to {sentences - 1}"
        refuse("links", expected, f"one of sentence {links[-1, 0]}", "give all sentences")


def sentence_offsets(sentence_ids: ArrayLike, sentences: int) -> Int[np.ndarray, " s1"]:
    """Where each sentence's words begin, from the number of the sentence of each word (column
    ``text`` of an activation dataset's index).

    Parameters
    ----------
    sentence_ids: shape (n,), never falling.
    sentences: how many sentences there are; those without words are empty.

    Returns
    -------
    shape (sentences + 1,): sentence i has the rows from ``offsets[i]`` to ``offsets[i + 1]``, the
        end excluded.

    Raises
    ------
    InputError: not whole numbers from 0 to ``sentences - 1`` in rising order.

    >>> sentence_offsets([0, 0, 2, 2, 2], 4)
    array([0, 2, 2, 5, 5])
    """
    check_positive_int(sentences, "sentences")
    ids = as_array(sentence_ids, "sentence_ids")
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        expected = "whole numbers, one per word"
        remedy = "give the sentence of each word"
        refuse("sentence_ids", expected, f"{ids.dtype} of shape {ids.shape}", remedy)
    if ids.size and (ids.min() < 0 or ids.max() >= sentences or (ids[1:] < ids[:-1]).any()):
        got = f"numbers from {ids.min()} to {ids.max()}" + (
            ", not in order" if (ids[1:] < ids[:-1]).any() else ""
        )
        expected = f"numbers from 0 to {sentences - 1}, never falling"
        refuse("sentence_ids", expected, got, "give the words in the order of the text")
    return np.searchsorted(ids, np.arange(sentences + 1))


def aligned_rows(
    links: ArrayLike, offsets_x: ArrayLike, offsets_y: ArrayLike
) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
    """The linked words as rows of the two flat lists of words: parallel words, as Procrustes wants
    them.

    Parameters
    ----------
    links: shape (k, 3).
    offsets_x, offsets_y: shape (s + 1,), see :func:`sentence_offsets`.

    Returns
    -------
    rows_x, rows_y: shape (k,); word ``rows_x[i]`` of one list is linked with word ``rows_y[i]`` of
        the other.

    Raises
    ------
    InputError: a link of a sentence or a word that is not there.

    >>> aligned_rows([[0, 1, 0], [1, 0, 2]], [0, 2, 3], [0, 1, 4])
    (array([1, 2]), array([0, 3]))
    """
    begin_x, begin_y = check_offsets(offsets_x, offsets_y)
    every = check_links(links, "links")
    _check_sentences(every, len(begin_x) - 1)
    sentence, rows = every[:, 0], []
    for side, begin, column in (("x", begin_x, 1), ("y", begin_y, 2)):
        beyond = np.flatnonzero(every[:, column] >= (begin[1:] - begin[:-1])[sentence])
        if len(beyond):
            at, _, _ = link = every[beyond[0]]
            there = begin[at + 1] - begin[at]
            got = f"word {link[column]} where there are {there}, in sentence {at} (line {at + 1})"
            remedy = (
                "align and pool the same words"
                if (every[:, 1:] == 0).any()
                else "words seem to be counted from 1: subtract 1 (read_pharaoh, first=1)"
            )
            refuse("links", f"words that are in {side}, counted from 0", got, remedy)
        rows.append(begin[sentence] + every[:, column])
    return rows[0], rows[1]


def check_offsets(
    offsets_x: ArrayLike, offsets_y: ArrayLike
) -> tuple[Int[np.ndarray, " s1"], Int[np.ndarray, " s1"]]:
    """Return both offsets, of equally many sentences, as arrays.

    Raises
    ------
    InputError: not whole numbers from 0 that never fall, or different numbers of sentences.

    >>> check_offsets([0, 2, 5], [0, 3, 3])
    (array([0, 2, 5]), array([0, 3, 3]))
    """
    begins = []
    for name, value in (("offsets_x", offsets_x), ("offsets_y", offsets_y)):
        begin = as_array(value, name)
        if (
            begin.ndim != 1
            or len(begin) < 2
            or begin.dtype.kind not in "iu"
            or begin[0] != 0
            or (begin[1:] < begin[:-1]).any()
        ):
            wanted = "whole numbers from 0, never falling: where each sentence begins, and the end"
            remedy = "make them with sentence_offsets"
            refuse(name, wanted, f"{begin.dtype} of shape {begin.shape}", remedy)
        begins.append(begin.astype(np.int64))
    if len(begins[0]) != len(begins[1]):
        got = f"{len(begins[1]) - 1}"
        wanted = f"as many sentences as offsets_x ({len(begins[0]) - 1})"
        refuse("offsets_y", wanted, got, "sentence i of one translates sentence i of the other")
    return begins[0], begins[1]
