"""Bilingual dictionaries: which word translates which, in the form of MUSE's files.

A line is ``source target``, with a space or a tab between, or ``source TAB target TAB score`` as
induced dictionaries have it. A source word may stand on many lines, one for each of its
translations.
Case is kept: fold it by asking (``lower=True``), on both sides of a comparison or on none.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from crosslens.corpus import check_sentence
from crosslens.errors import refuse
from crosslens.files import write_file
from crosslens.progress import say
from crosslens.readers.plain import read_lines

__all__ = [
    "Dictionary",
    "WordPairs",
    "fits_a_line",
    "pairs_in",
    "read_dictionary",
    "write_dictionary",
]


@dataclasses.dataclass(frozen=True)
class Dictionary:
    """Pairs of words, each pair once, in the order of the file.

    Attributes
    ----------
    pairs: (source, target).
    scores: one per pair, where the file has them; higher is surer.
    duplicates: how many lines the reader left out because their pair stood on an earlier line.

    Raises
    ------
    InputError: no pairs, an empty word, a pair that stands twice, or scores that are not one finite
        number per pair.

    >>> dictionary = Dictionary([("dog", "chien"), ("dog", "chienne"), ("cat", "chat")])
    >>> len(dictionary), dictionary.translations()["dog"]
    (3, ['chien', 'chienne'])
    """

    pairs: Sequence[tuple[str, str]]
    scores: Sequence[float] | None = None
    duplicates: int = 0

    def __post_init__(self) -> None:
        if not self.pairs:
            remedy = "check what the dictionary was made from"
            refuse("pairs", "at least one pair of words", "none", remedy)
        rows: dict[tuple[str, str], int] = {}
        for row, pair in enumerate(self.pairs):
            if len(pair) != 2 or not all(isinstance(word, str) and word for word in pair):
                remedy = "leave out what is no word"
                refuse(f"pairs[{row}]", "a source and a target word", repr(pair), remedy)
            if rows.setdefault(pair, row) != row:
                got = f"{pair!r}, pair {rows[pair]} too"
                refuse(f"pairs[{row}]", "a pair of its own", got, "give each pair once")
        if self.scores is not None:
            if len(self.scores) != len(self.pairs):
                expected = f"{len(self.pairs)} scores, one per pair"
                refuse("scores", expected, str(len(self.scores)), "give every pair its score")
            for row, score in enumerate(self.scores):
                if not math.isfinite(score):
                    remedy = "leave out pairs without a score"
                    refuse(f"scores[{row}]", "a finite number", repr(score), remedy)

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def translations(self) -> dict[str, list[str]]:
        """Each source word with its translations, in the order of the pairs."""
        found: dict[str, list[str]] = {}
        for source, target in self.pairs:
            found.setdefault(source, []).append(target)
        return found


def read_dictionary(path: str | Path, *, lower: bool = False) -> Dictionary:
    """Read a dictionary (or one with ``.gz`` behind its name).

    Blank lines are passed over. A pair that stands on several lines is kept once, with the first
    score; how often that was is counted in ``duplicates`` and said. Words may hold spaces where
    tabs stand between the columns.

    Parameters
    ----------
    path: the file, in UTF-8.
    lower: make all words lower-case, as MUSE's own programs do.

    Raises
    ------
    InputError: no such file, not UTF-8, no pairs; or a line that is not two words, or two words and
        a finite score between tabs, or lines with and without a score.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "en-fr.txt"
    >>> _ = path.write_text("dog chien\\ncat\\tchat\\n")
    >>> read_dictionary(path).pairs
    [('dog', 'chien'), ('cat', 'chat')]
    """
    pairs: dict[tuple[str, str], float | None] = {}
    lines = 0
    for number, line in enumerate(read_lines(path), 1):
        if line.strip() or "\t" in line.strip("\t "):  # a no-break space may be a word
            source, target, score = _columns(line, f"{path}:{number}")
            lines += 1
            if lines > 1 and (score is None) != (next(iter(pairs.values())) is None):
                expected = "a score on every line, or on none"
                refuse(f"{path}:{number}", expected, repr(line.strip()), "repair the line")
            pairs.setdefault((source.lower(), target.lower()) if lower else (source, target), score)
    if not pairs:
        refuse(str(path), "at least one pair of words", "blank lines alone", "check the path")
    if lines > len(pairs):
        say(f"{path}: {lines - len(pairs)} line(s) left out, whose pairs stand on earlier lines")
    scores = [score for score in pairs.values() if score is not None]
    return Dictionary(list(pairs), scores or None, lines - len(pairs))


def _columns(line: str, where: str) -> tuple[str, str, float | None]:
    """Source, target and score of a line. Only spaces and tabs separate: a no-break space belongs
    to its word."""
    tabs = "\t" in line
    cells = (
        [cell.strip(" ") for cell in line.strip("\t ").split("\t")]
        if tabs
        else [cell for cell in line.split(" ") if cell]
    )
    if len(cells) not in ((2, 3) if tabs else (2,)) or not all(cells):
        wanted = "source and target (and a score, between tabs)"
        remedy = "repair the line, or separate words that hold spaces by a tab"
        refuse(where, wanted, f"{len(cells)} columns, {line.strip()!r}", remedy)
    if len(cells) == 2:
        return cells[0], cells[1], None
    try:
        score = float(cells[2])
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        refuse(where, "a finite score in column 3", repr(cells[2]), "repair the line")
    return cells[0], cells[1], score


def fits_a_line(word: str) -> bool:
    """Whether a word can be read back from a line of a dictionary: no tab or line feed is in it, and
    no space at its ends.

    >>> fits_a_line("pomme de terre"), fits_a_line(" pomme"), fits_a_line("pomme\\tterre")
    (True, False, False)
    """
    return word == word.strip(" \r") and "\t" not in word and "\n" not in word


def write_dictionary(path: str | Path, dictionary: Dictionary) -> None:
    """Write ``source TAB target``, or with scores ``source TAB target TAB score``, whole or not at
    all.

    :func:`read_dictionary` gives the same dictionary back, scores to the last bit.

    Raises
    ------
    InputError: a word could not be read back: a tab or line feed in it, a space at its end, or no
        UTF-8 text.
    OutputError: the file cannot be written.
    """
    lines = []
    for row, pair in enumerate(dictionary.pairs):
        for word in pair:
            check_sentence(word, f"pairs[{row}]")
            if not fits_a_line(word):
                refuse(
                    f"pairs[{row}]", "words that a line can hold", repr(pair), "leave the pair out"
                )
        lines.append(
            "\t".join(pair)
            + ("" if dictionary.scores is None else f"\t{float(dictionary.scores[row])!r}")
            + "\n"
        )
    text = "".join(lines)
    # what a word at the very beginning of a file begins with would be taken for a byte-order mark
    write_file(path, "\ufeff" * text.startswith("\ufeff") + text)


@dataclasses.dataclass(frozen=True, eq=False)
class WordPairs:
    """The pairs of a dictionary that two vocabularies have.

    Attributes
    ----------
    x, y: shape (k,); pair i is word ``x[i]`` of one list and word ``y[i]`` of the other, in the
        dictionary's order.
    coverage: share of the dictionary's different source words of which a pair was found, from 0 to
        1. A precision over the others is to be read beside it.
    sources: how many different source words the dictionary has.
    missing: the source words of which no pair was found, in the dictionary's order: they, or all
        their translations, are not there.
    """

    x: Int[np.ndarray, " k"]
    y: Int[np.ndarray, " k"]
    coverage: float
    sources: int
    missing: list[str]

    def gold(self) -> Mapping[int, np.ndarray]:
        """Row of each source word -> rows of all its translations: what a retrieval may find."""
        found: dict[int, list[int]] = {}
        for x, y in zip(self.x.tolist(), self.y.tolist(), strict=True):
            found.setdefault(x, []).append(y)
        return {x: np.array(ys, np.int64) for x, ys in found.items()}


def pairs_in(dictionary: Dictionary, words_x: Sequence[str], words_y: Sequence[str]) -> WordPairs:
    """Find a dictionary's pairs in two lists of words, those of two files of vectors say.

    Words are compared as they are, case and accents included.

    Parameters
    ----------
    dictionary: pairs of words.
    words_x, words_y: n and m words; no word twice in one list.

    Raises
    ------
    InputError: a word stands twice in a list, or not one pair is in both.

    >>> dictionary = Dictionary([("dog", "chien"), ("dog", "chienne"), ("cat", "chat"), ("Paris", "Paris")])
    >>> found = pairs_in(dictionary, ["cat", "dog"], ["chien", "chat", "chienne"])
    >>> found.x, found.y, round(found.coverage, 3), found.missing
    (array([1, 1, 0]), array([0, 2, 1]), 0.667, ['Paris'])
    """
    rows_x, rows_y = _rows(words_x, "words_x"), _rows(words_y, "words_y")
    found = [
        (rows_x[source], rows_y[target])
        for source, target in dictionary.pairs
        if source in rows_x and target in rows_y
    ]
    sources = dict.fromkeys(source for source, _ in dictionary.pairs)
    if not found:
        both = (
            f"{sum(source in rows_x for source in sources)} of {len(sources)} source words are in "
            f"words_x"
        )
        expected = "a pair that is in both lists of words"
        refuse("dictionary", expected, f"none ({both})", "check languages, direction and case")
    there = {words_x[x] for x, _ in found}
    missing = [source for source in sources if source not in there]
    x, y = np.array(found, np.int64).T
    return WordPairs(x, y, (len(sources) - len(missing)) / len(sources), len(sources), missing)


def _rows(words: Sequence[str], name: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        if rows.setdefault(word, row) != row:
            got = f"{word!r}, the word of row {rows[word]} too"
            refuse(f"{name}[{row}]", "a word of its own", got, "give each word one row")
    return rows
