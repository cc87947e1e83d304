"""Texts with a label each: what sentence probes and language identification are trained and tested
on.

Read from ``label TAB text`` files, from the folder of WiLI-2018 (Thoma 2018), or from a table whose
first line names its columns, as that of SIB-200 does. Nothing is guessed and nothing dropped: what
cannot be read is refused with its line.
"""

import collections
import csv
import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from crosslens.checks import check_columns
from crosslens.corpus import Corpus
from crosslens.errors import refuse
from crosslens.readers.plain import file_name, read_lines

__all__ = ["LabelledText", "first_two_sentences", "read_labelled_text", "read_table", "read_wili"]

_PARTS = {"train": "train", "dev": "dev", "validation": "dev", "test": "test"}
_SENTEVAL = {"tr": "train", "va": "dev", "te": "test"}
# A full stop and its like end a sentence where white space follows; those of writing without spaces
# end it anywhere.
_SENTENCE = re.compile(r"(?<=[.!?؟।॥։።])[\"'»”’)\]]*\s+|(?<=[。！？])(?=[^。！？」』”])")


@dataclasses.dataclass(frozen=True)
class LabelledText:
    """Texts, the label of each, and where each stands.

    Attributes
    ----------
    labels, texts: one per item.
    places: ``file:line`` of each item, for messages.
    name: where the texts are from, for reports.
    parts: "train", "dev" or "test" for each item; None where the source has no parts, and they have
        to be sampled.
    groups: what each item says: translations of one sentence have one name. None where that is not
        known.

    Raises
    ------
    InputError: counts differ, no items, a label or a text that is blank, white space around a
        label, or another part.

    >>> texts = LabelledText(["eng", "fra"], ["a dog", "un chien"], ["x:1", "x:2"], "x")
    >>> len(texts), texts.counts()
    (2, {'eng': 1, 'fra': 1})
    """

    labels: Sequence[str]
    texts: Sequence[str]
    places: Sequence[str]
    name: str
    parts: Sequence[str] | None = None
    groups: Sequence[str] | None = None

    def __post_init__(self) -> None:
        parts, groups = (
            self.labels if given is None else given for given in (self.parts, self.groups)
        )
        columns = {
            "labels": self.labels,
            "texts": self.texts,
            "places": self.places,
            "parts": parts,
            "groups": groups,
        }
        if len({len(column) for column in columns.values()}) > 1:
            got = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
            refuse(self.name, "one of everything for every item", got, "give as many of each")
        if not self.labels:
            refuse(self.name, "at least one item", "none", "give a file with texts and labels")
        for label, text, place in zip(self.labels, self.texts, self.places, strict=True):
            if not text.strip():
                refuse(place, "a text", "a blank one", "remove the item, or give its text")
            if not label or label != label.strip():
                refuse(
                    place, "a label without white space around it", repr(label), "repair the label"
                )
        for part, place in zip(self.parts or (), self.places, strict=False):
            if part not in ("train", "dev", "test"):
                refuse(
                    place, "one of the splits train, dev, test", repr(part), "call the splits so"
                )

    def __len__(self) -> int:
        return len(self.texts)

    def counts(self) -> dict[str, int]:
        """How many items each label has, in the sorted order of the labels.

        >>> LabelledText(["b", "a", "b"], ["1", "2", "3"], ["x:1", "x:2", "x:3"], "x").counts()
        {'a': 1, 'b': 2}
        """
        return dict(sorted(collections.Counter(self.labels).items()))

    def corpus(self, language: str, rows: Iterable[int] | None = None) -> Corpus:
        """The texts of some rows (all of them without ``rows``), to be extracted; the ids are the
        numbers of the items.

        Parameters
        ----------
        language: the language that is noted, and whose parts an encoder uses where languages have
            parts of their own.
        rows: numbers of items, from 0; the corpus has them in this order.

        >>> LabelledText(["eng", "fra"], ["a dog", "un chien"], ["x:1", "x:2"], "x").corpus("fra", [1]).sentences
        ['un chien']
        """
        chosen = range(len(self)) if rows is None else [int(row) for row in rows]
        return Corpus(
            language, [self.texts[row] for row in chosen], [str(row) for row in chosen], self.name
        )


def read_labelled_text(path: str | Path) -> LabelledText:
    """Read ``label TAB text``, one item a line (or a file with ``.gz`` behind its name). Such a
    file has no parts.

    A file whose lines are ``tr``, ``va`` or ``te``, label and text is read with its parts: those of
    SentEval's probing tasks (Conneau et al. 2018, What you can cram into a single vector) are such.

    Raises
    ------
    InputError: no such file, not UTF-8, a NUL byte, a line that is not two columns, or a blank
        label or text; with file and line.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.tsv"
    >>> _ = path.write_text("eng\\ta dog\\nfra\\tun chien\\n")
    >>> read_labelled_text(path).labels
    ['eng', 'fra']
    """
    labels, texts, places = [], [], []
    lines = read_lines(path)
    first = lines[0].split("\t")
    if len(first) == 3 and first[0] in _SENTEVAL:
        return _read_senteval(path, lines)
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        check_columns(f"{path}:{number}", cells, 2, " (label and text)")
        labels.append(cells[0])
        texts.append(cells[1])
        places.append(f"{path}:{number}")
    return LabelledText(labels, texts, places, file_name(path))


def _read_senteval(path: str | Path, lines: Sequence[str]) -> LabelledText:
    rows = []
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if len(cells) != 3 or cells[0] not in _SENTEVAL:
            wanted = "3 tab-separated columns (tr, va or te; label; text)"
            refuse(f"{path}:{number}", wanted, repr(line[:80]), "repair the line")
        rows.append((cells[1], cells[2], f"{path}:{number}", _SENTEVAL[cells[0]]))
    labels, texts, places, parts = (list(column) for column in zip(*rows, strict=True))
    return LabelledText(labels, texts, places, file_name(path), parts)


def read_wili(folder: str | Path) -> LabelledText:
    """Read WiLI-2018: the texts of ``x_train.txt`` and ``x_test.txt``; line by line, their labels
    in ``y_train.txt`` and ``y_test.txt``. Each may have ``.gz`` behind its name.

    There is no development part: hold a share of the training part out.

    Raises
    ------
    InputError: one of the four files is not there or is no text; texts and labels differ in number;
        a blank text or label.

    References
    ----------
    Thoma 2018, The WiLI benchmark dataset for written language identification.
    """
    labels, texts, places, parts = [], [], [], []
    for part in ("train", "test"):
        of_texts, of_labels = (_packed(Path(folder) / f"{kind}_{part}.txt") for kind in "xy")
        some, named = read_lines(of_texts), read_lines(of_labels)
        if len(some) != len(named):
            expected = f"{len(some)} labels, one per line of {of_texts.name}"
            refuse(str(of_labels), expected, str(len(named)), "fetch both files again")
        for number, label in enumerate(named, 1):
            if not label or label != label.strip():  # here the line is one of the labels' file
                expected = "a label without white space around it"
                refuse(f"{of_labels}:{number}", expected, repr(label), "repair the label")
        texts += some
        labels += named
        places += [f"{of_texts}:{number}" for number in range(1, len(some) + 1)]
        parts += [part] * len(some)
    return LabelledText(labels, texts, places, file_name(folder), parts)


def _packed(path: Path) -> Path:
    """The file with ``.gz`` behind its name, where it is there only so."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.is_file() and not path.is_file() else path


def read_table(
    path: str | Path,
    label: str,
    *,
    text: str = "text",
    part: str | None = "split",
    group: str | None = None,
    only: Mapping[str, str] | None = None,
    quoted: bool = False,
) -> LabelledText:
    """Read a tab-separated table (or one with ``.gz`` behind its name) whose first line names its
    columns.

    SIB-200's is split, language, index_id, topic, text: ``label="language"`` with
    ``group="index_id"``, which translations share, for language identification, and
    ``label="topic"`` with ``only={"language": "fra_Latn"}`` for the topics of one language.

    Parameters
    ----------
    path: the table.
    label, text: names of the columns with labels and with texts.
    part: name of the column that says "train", "dev" (or "validation") or "test"; None for a table
        without parts.
    group: name of the column that says which items say the same; None for a table without.
    only: column -> value: lines with other values are left out.
    quoted: a cell within quotation marks is what stands between them, and two in a row are one, as
        CSV has it; else they are characters like any other.

    Raises
    ------
    InputError: no such file, not UTF-8, a NUL byte, no such column or a column named twice, a line
        with more or fewer cells than the first, a quotation mark that is not closed (quoted),
        another part, a blank label or text, or no line left.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "table.tsv"
    >>> _ = path.write_text("split\\tlanguage\\ttext\\ntrain\\teng\\ta dog\\ntest\\tfra\\tun chien\\n")
    >>> read_table(path, "language").parts
    ['train', 'test']
    """
    lines = read_lines(path)
    names = lines[0].split("\t")
    wanted = {
        name: _column(names, name, path)
        for name in (
            label,
            text,
            *(name for name in (part, group) if name is not None),
            *(only or {}),
        )
    }
    labels, texts, places, parts, groups = [], [], [], [], []
    for number, line in enumerate(lines[1:], 2):
        place = f"{path}:{number}"
        cells = _unquoted(line, place) if quoted else line.split("\t")
        check_columns(place, cells, len(names), ", as line 1 names")
        if any(cells[wanted[name]] != value for name, value in (only or {}).items()):
            continue
        labels.append(cells[wanted[label]])
        texts.append(cells[wanted[text]])
        places.append(place)
        if part is not None:
            parts.append(_part(cells[wanted[part]], place))
        if group is not None:
            groups.append(cells[wanted[group]])
    if not labels:
        got = (
            ", ".join(f"{name}={value}" for name, value in (only or {}).items())
            or "the names of the columns alone"
        )
        remedy = "check the file and what is asked of it"
        refuse(str(path), "at least one line of items", f"none ({got})", remedy)
    return LabelledText(
        labels,
        texts,
        places,
        file_name(path),
        None if part is None else parts,
        None if group is None else groups,
    )


def _unquoted(line: str, place: str) -> list[str]:
    try:
        (cells,) = csv.reader([line], delimiter="\t", strict=True)
    except csv.Error as error:
        remedy = "write a quotation mark within a cell twice"
        refuse(place, "cells as CSV quotes them", str(error), remedy)
    return cells


def _column(names: Sequence[str], name: str, path: str | Path) -> int:
    if names.count(name) != 1:
        there = ", ".join(map(repr, names))
        got = "several" if name in names else f"the columns {there}"
        refuse(f"{path}:1", f"one column {name!r}", got, "name a column of the first line")
    return names.index(name)


def _part(value: str, place: str) -> str:
    if value not in _PARTS:
        expected = "one of the splits train, dev (or validation), test"
        refuse(place, expected, repr(value), "call the splits so")
    return _PARTS[value]


def first_two_sentences(text: str) -> tuple[str, str | None]:
    """The first two sentences of a text, the second None if there is only one.

    Wu & Dredze 2019 give an encoder the first two sentences as a pair (they cut with NLTK's punkt).
    Here a sentence ends after ``.``, ``!``, ``?`` and their like in Arabic, Devanagari, Armenian
    and Ethiopic writing, closing quotes included, where white space follows, and after ``。``, ``！``
    and ``？`` anywhere: abbreviations are not known.

    >>> first_two_sentences("One is here. Two too! Three.")
    ('One is here.', 'Two too!')
    >>> first_two_sentences("No end")
    ('No end', None)
    """
    sentences = [sentence.strip() for sentence in _split(text) if sentence.strip()]
    return (sentences[0] if sentences else text), (sentences[1] if len(sentences) > 1 else None)


def _split(text: str) -> Iterable[str]:
    start = 0
    for match in _SENTENCE.finditer(text):
        yield text[start : match.end()]
        start = match.end()
    yield text[start:]
