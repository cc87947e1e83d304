"""Stanford's Contextual Word Similarity: two words, each in a context, and how similar people find
them there.

``ratings.txt`` has 18 columns: number, word 1, part of speech 1, word 2, part of speech 2, context
1, context 2, mean rating and the ten ratings, from 0 to 10. The word that is meant stands between
``<b>`` and ``</b>`` in its context. The markers are taken out, with the spaces beside the word that
belong to them, and the word becomes a span of characters of the text that is left.

Source: Huang, Socher, Manning & Ng 2012, Improving word representations via global context and
    multiple word prototypes.
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from crosslens.checks import check_columns
from crosslens.corpus import Corpus
from crosslens.errors import refuse
from crosslens.progress import say
from crosslens.readers.plain import file_name, read_lines

__all__ = ["Scws", "ScwsItem", "read_scws"]

Span = tuple[int, int]

_COLUMNS = 18


@dataclasses.dataclass(frozen=True)
class ScwsItem:
    """Two words in their contexts.

    Attributes
    ----------
    id: the item's number in the file.
    words: the two words, as the file lists them; the contexts may have other forms of them.
    pos: their parts of speech, as the file writes them.
    contexts: the two contexts, without markers.
    spans: the word in each, (start, end) in Python's characters, end excluded.
    rating: mean of the ratings, from 0 (nothing in common) to 10 (the same).
    ratings: all ratings.
    """

    id: str
    words: tuple[str, str]
    pos: tuple[str, str]
    contexts: tuple[str, str]
    spans: tuple[Span, Span]
    rating: float
    ratings: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Scws:
    """Items of a file of similarity in context, in its order.

    Attributes
    ----------
    items: at least one.
    language: of all contexts (ISO 639-3).
    name: where they are from, for messages and reports.
    left_out: for each item whose words could not be located, its line and the reason.
    """

    items: Sequence[ScwsItem]
    language: str
    name: str
    left_out: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.items)

    @property
    def ratings(self) -> Float[np.ndarray, " n"]:
        """Shape (n,): the mean rating of each item, from 0 to 10, more for words that are more
        similar."""
        return np.array([item.rating for item in self.items])

    def corpora(self) -> tuple[Corpus, Corpus]:
        """The first and the second contexts as two corpora with one word per text, the one that was
        marked.

        Row i of both is item i. Extracted with ``unit="word"`` they give the vectors that
        :func:`crosslens.probes.methods.scws.scws` compares.
        Contexts are some 50 words before and after the word: an encoder of short inputs reads them
        through windows.
        """
        first, second = (
            Corpus(
                self.language,
                [item.contexts[side] for item in self.items],
                [item.id for item in self.items],
                f"{self.name} {side + 1}",
                [[item.spans[side]] for item in self.items],
            )
            for side in (0, 1)
        )
        return first, second


def read_scws(path: str | Path, language: str = "eng") -> Scws:
    """Read the official ``ratings.txt`` (or ``.gz``).

    An item whose context has no marker, or several, or nothing between them, is left out, counted
    and named in ``left_out``; so much is also said on the terminal.

    Raises
    ------
    InputError: the file cannot be read; a line has not 18 columns, ratings that are no numbers from
        0 to 10, or the number of an earlier line; or no item is left.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ratings.txt"
    >>> cells = ["1", "bank", "n", "shore", "n", "the <b> bank </b> .", "a <b> shore </b>", "7.5", *["7.5"] * 10]
    >>> _ = path.write_text("\\t".join(cells) + "\\n")
    >>> (item,) = read_scws(path).items
    >>> item.contexts, item.spans, item.rating
    (('the bank .', 'a shore'), ((4, 8), (2, 7)), 7.5)
    """
    items: list[ScwsItem] = []
    left_out: list[str] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        where = f"{path}:{number}"
        check_columns(where, cells, _COLUMNS)
        if seen.setdefault(cells[0], number) != number:
            got = f"{cells[0]!r}, the number at line {seen[cells[0]]} too"
            refuse(where, "a number of its own", got, "number every item once")
        rating, *ratings = (_rating(cell, where) for cell in cells[7:])
        try:
            (first, span1), (second, span2) = (
                _locate(cells[5 + side], side + 1) for side in (0, 1)
            )
        except ValueError as error:
            left_out.append(f"line {number}: {error}")
            continue
        words, pos = (cells[1], cells[3]), (cells[2], cells[4])
        items.append(
            ScwsItem(cells[0], words, pos, (first, second), (span1, span2), rating, tuple(ratings))
        )
    told = (
        f"{len(left_out)} item(s) left out "
        f"({'; '.join(left_out[:5])}{'; …' if len(left_out) > 5 else ''})"
    )
    if not items:
        expected = "an item whose words are marked with <b> and </b>"
        refuse(str(path), expected, told, "give the file as it is published")
    if left_out:
        say(f"{path}: {told}")
    return Scws(items, language, file_name(path), tuple(left_out))


def _rating(cell: str, where: str) -> float:
    try:
        rating = float(cell)
    except ValueError:
        rating = math.nan
    if not 0 <= rating <= 10:
        refuse(where, "ratings from 0 to 10", repr(cell), "repair the line")
    return rating


def _locate(context: str, side: int) -> tuple[str, Span]:
    """The context without its markers, and the span of the word that they mark."""
    starts, ends = context.count("<b>"), context.count("</b>")
    before, _, rest = context.partition("<b>")
    marked, closed, after = rest.partition("</b>")
    if starts != 1 or ends != 1 or not closed:
        raise ValueError(f"context {side} has {starts} <b> and {ends} </b>")
    word = marked.strip()
    if not word:
        raise ValueError(f"context {side} has nothing between <b> and </b>")
    return before + word + after, (len(before), len(before) + len(word))
