"""Word-in-Context: pairs of sentences with one word in both, and whether it has the same meaning
there.

The official files are read as they are published: ``data.txt`` has ``word TAB part of speech TAB
i-j TAB sentence 1 TAB sentence 2``, where i and j number the target among the tokens of each
sentence, from 0, and a space stands between tokens; ``gold.txt`` has T (same meaning) or F on the
same line. A target becomes a span of characters, so that nothing is ever searched for in a
sentence.

Source: Pilehvar & Camacho-Collados 2019, WiC: the Word-in-Context dataset for evaluating
    context-sensitive meaning representations.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import Bool

from crosslens.corpus import Corpus, check_spans
from crosslens.errors import InputError, quote, refuse
from crosslens.readers.plain import file_name, read_lines

__all__ = ["Wic", "WicItem", "read_wic", "read_wic_spans"]

Span = tuple[int, int]
_T = TypeVar("_T")

_TOKEN = re.compile("[^ ]+")
_PLACES = re.compile("([0-9]{1,9})-([0-9]{1,9})")
_SAME = {"T": True, "F": False, "1": True, "0": False}
_NAMED = 5  # of all wrong lines so many are named, and all are counted


@dataclasses.dataclass(frozen=True)
class WicItem:
    """Two sentences with a target word in each.

    Attributes
    ----------
    word: the target's dictionary form.
    pos: its part of speech, as the file writes it.
    sentences: the two sentences.
    spans: the target in each, (start, end) in Python's characters, end excluded.
    same: whether it means the same in both; None where the answer is not published.
    """

    word: str
    pos: str
    sentences: tuple[str, str]
    spans: tuple[Span, Span]
    same: bool | None = None


@dataclasses.dataclass(frozen=True)
class Wic:
    """Items of a Word-in-Context file, in its order.

    Attributes
    ----------
    items: at least one.
    language: of all sentences (ISO 639-3).
    name: where they are from, for messages and reports.

    >>> item = WicItem("bank", "N", ("The river bank .", "Banks lend ."), ((10, 14), (0, 5)), same=False)
    >>> wic = Wic([item], "eng", "example")
    >>> first, second = wic.corpora()
    >>> [corpus.sentences[0][slice(*corpus.words[0][0])] for corpus in (first, second)], wic.labels.tolist()
    (['bank', 'Banks'], [False])
    """

    items: Sequence[WicItem]
    language: str
    name: str

    def __len__(self) -> int:
        return len(self.items)

    @property
    def labels(self) -> Bool[np.ndarray, " n"]:
        """Shape (n,): True where the target means the same in both sentences.

        Raises
        ------
        InputError: an item has no answer.
        """
        unknown = [number for number, item in enumerate(self.items, 1) if item.same is None]
        if unknown:
            got = f"none for {len(unknown)} of {len(self)}, the first is item {unknown[0]}"
            remedy = "read the file together with its answers"
            refuse(self.name, "an answer for every item", got, remedy)
        return np.array([item.same for item in self.items], bool)

    def corpora(self) -> tuple[Corpus, Corpus]:
        """The first and the second sentences as two corpora with one word per sentence, the target.

        Row i of both is item i, whose number from 0 is the id. Extracted with ``unit="word"`` each
        gives the targets' vectors; extracted together (``corpus=first, second=second, unit="pair",
        pool="first", special_tokens=True``) they give the vector of [CLS] in front of each pair.
        """
        ids = [str(i) for i in range(len(self))]
        first, second = (
            Corpus(
                self.language,
                [item.sentences[side] for item in self.items],
                ids,
                f"{self.name} {side + 1}",
                [[item.spans[side]] for item in self.items],
            )
            for side in (0, 1)
        )
        return first, second


def read_wic(data: str | Path, gold: str | Path | None = None, language: str = "eng") -> Wic:
    """Read a part of the official data set.

    Parameters
    ----------
    data: ``train.data.txt``, say (``.gz`` will do).
    gold: ``train.gold.txt``; without it items have no answer.
    language: of the sentences; the official files are English.

    Raises
    ------
    InputError: a file cannot be read, the two have not as many lines, or lines are wrong: not five
        columns, no target at the place that the third names, an answer that is neither T nor F. All
        wrong lines of a file are counted, and the first ones named.
    """
    expected = "word TAB part of speech TAB i-j TAB sentence 1 TAB sentence 2"
    items = _read_all(data, read_lines(data), _official, expected)
    return Wic(_answered(items, data, gold), language, file_name(data))


def _answered(items: list[WicItem], data: str | Path, gold: str | Path | None) -> list[WicItem]:
    """Items with the answers of another file; as they are without it."""
    if gold is None:
        return items
    answers = _read_all(gold, read_lines(gold), _answer, "T or F on each line")
    if len(answers) != len(items):
        expected = f"{len(items)} lines, one for each of {data}"
        refuse(str(gold), expected, str(len(answers)), "give the two files of one split")
    return [dataclasses.replace(item, same=same) for item, same in zip(items, answers, strict=True)]


def read_wic_spans(path: str | Path, language: str, gold: str | Path | None = None) -> Wic:
    """Read nine columns in which targets are given by characters, which languages written without
    spaces need.

    A line is ``word TAB part of speech TAB start 1 TAB end 1 TAB start 2 TAB end 2 TAB sentence 1
    TAB sentence 2 TAB answer``: characters from 0, the end excluded; T or 1 for the same meaning, F
    or 0 for another. Without the ninth column an item has no answer.

    The files of XL-WiC (Raganato et al. 2020) are of this kind, those of its test with the answers,
    1 or 0, line by line in a file of their own: ``de_test_data.txt`` and ``de_test_gold.txt``.

    Parameters
    ----------
    gold: the file with the answers, where they are not in the ninth column.

    Raises
    ------
    InputError: the file cannot be read, or lines are wrong: another number of columns, a span
        outside its sentence, another answer. All wrong lines are counted, and the first ones named.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "zho.tsv"
    >>> _ = path.write_text("行\\tN\\t2\\t3\\t1\\t2\\t我去行\\t不行\\tF\\n", encoding="utf-8")
    >>> read_wic_spans(path, "zho").items[0].spans
    ((2, 3), (1, 2))
    """
    expected = (
        "word, part of speech, start 1, end 1, start 2, end 2, sentence 1, sentence 2 and answer "
        "between tabs"
    )
    items = _read_all(path, read_lines(path), _by_characters, expected)
    return Wic(_answered(items, path, gold), language, file_name(path))


def _read_all(
    path: str | Path, lines: Sequence[str], read: Callable[[str], _T], expected: str
) -> list[_T]:
    """What ``read`` makes of every line, or one refusal that counts the lines that it cannot read
    (it raises ValueError)."""
    found, wrong = [], []
    for number, line in enumerate(lines, 1):
        try:
            found.append(read(line))
        except ValueError as error:
            wrong.append(f"line {number} has {error}")
    if wrong:
        got = "; ".join(wrong[:_NAMED]) + ("; …" if len(wrong) > _NAMED else "")
        remedy = "repair or remove these lines"
        refuse(str(path), expected, f"{len(wrong)} wrong line(s): {got}", remedy)
    return found


def _official(line: str) -> WicItem:
    cells = _cells(line, 5)
    places = _PLACES.fullmatch(cells[2])
    if places is None:
        raise ValueError(f"{quote(cells[2])} for i-j")
    spans = []
    for side, (place, sentence) in enumerate(
        zip(map(int, places.groups()), cells[3:], strict=True), 1
    ):
        tokens = [found.span() for found in _TOKEN.finditer(sentence)]
        if place >= len(tokens):
            raise ValueError(f"target {place} in sentence {side} of {len(tokens)} token(s)")
        spans.append(tokens[place])
    return WicItem(cells[0], cells[1], (cells[3], cells[4]), (spans[0], spans[1]))


def _by_characters(line: str) -> WicItem:
    cells = _cells(line, 8, 9)
    if not all(cell.isascii() and cell.isdecimal() and len(cell) < 10 for cell in cells[2:6]):
        raise ValueError(f"{quote(' '.join(cells[2:6]))} for four places")
    start1, end1, start2, end2 = map(int, cells[2:6])
    spans = (start1, end1), (start2, end2)
    for side, (span, sentence) in enumerate(zip(spans, cells[6:8], strict=True), 1):
        try:
            check_spans(sentence, [span], "")
        except InputError:
            raise ValueError(
                f"the span {span} in sentence {side} of {len(sentence)} character(s)"
            ) from None
    return WicItem(
        cells[0],
        cells[1],
        (cells[6], cells[7]),
        spans,
        _answer(cells[8]) if len(cells) == 9 else None,
    )


def _cells(line: str, *counts: int) -> list[str]:
    cells = line.split("\t")
    if len(cells) not in counts:
        raise ValueError(f"{len(cells)} column(s)")
    return cells


def _answer(line: str) -> bool:
    if line.strip() not in _SAME:
        raise ValueError(quote(line))
    return _SAME[line.strip()]
