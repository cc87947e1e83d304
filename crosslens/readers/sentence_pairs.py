"""Pairs of sentences with a label: inference (does the second follow from the first?), paraphrase.

Columns are found by the names in the first line: those of XNLI (``sentence1``, ``sentence2``,
``gold_label``, ``language``), of its machine-translated training data (``premise``, ``hypo``,
``label``), of PAWS-X (``sentence1``, ``sentence2``, ``label``). A file without such a line has
three columns, first, second and label, as XTREME's have; where its cells are quoted as CSV has it,
they are read so.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.checks import check_columns
from crosslens.corpus import Corpus
from crosslens.errors import InputError, quote, refuse
from crosslens.languages import same_language
from crosslens.progress import say
from crosslens.readers.plain import file_name, read_lines

__all__ = ["SentencePairs", "WithoutLabels", "read_sentence_pairs", "with_labels"]

_FIRST, _SECOND = ("premise", "sentence1"), ("hypothesis", "hypo", "sentence2")
_LABEL, _LANGUAGE = ("gold_label", "label"), "language"
_SAME = {"contradictory": "contradiction"}  # as the translated training data write it


class WithoutLabels(InputError):
    """Pairs alone, as XTREME has them for its tests."""


@dataclasses.dataclass(frozen=True)
class SentencePairs:
    """Pairs of sentences and the label of each.

    Attributes
    ----------
    firsts, seconds, labels: one per pair. places: ``file:line`` of each, for messages.
    name: where they are from. blank: how many pairs without one of their sentences were left out.

    >>> pairs = SentencePairs(["It rains."], ["It is wet."], ["entailment"], ["x:1"], "x")
    >>> [corpus.sentences for corpus in pairs.corpora("eng")]
    [['It rains.'], ['It is wet.']]
    """

    firsts: Sequence[str]
    seconds: Sequence[str]
    labels: Sequence[str]
    places: Sequence[str]
    name: str
    blank: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    def corpora(self, language: str) -> tuple[Corpus, Corpus]:
        """The first and the second sentences; the ids are the numbers of the pairs."""
        ids = [str(number) for number in range(len(self))]
        return (
            Corpus(language, self.firsts, ids, self.name),
            Corpus(language, self.seconds, ids, self.name),
        )


def read_sentence_pairs(
    path: str | Path,
    language: str | None = None,
    labels: Sequence[str] = (),
    skip_blank: bool = False,
) -> SentencePairs:
    """Read a tab-separated file of labelled pairs (or one with ``.gz`` behind its name).

    Parameters
    ----------
    language: of a file with a column ``language``, those pairs alone, by whichever of its codes.
    labels: those that there may be; any where none is named.
    skip_blank: leave out pairs of which a sentence is blank, and say how many; they are refused
        otherwise.

    Raises
    ------
    InputError: no such file, not UTF-8, a line with more or fewer cells than the first, a blank
        sentence or label, another label, a file without labels (XTREME's test files have none), or
        no pair left.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "multinli.train.fr.tsv"
    >>> _ = path.write_text("premise\\thypo\\tlabel\\nIl pleut.\\tIl fait beau.\\tcontradictory\\n")
    >>> read_sentence_pairs(path).labels
    ['contradiction']
    """
    rows = [line.split("\t") for line in read_lines(path)]
    names = rows[0]
    columns, start = _columns(names, path)
    if not start and _in_quotes(rows):
        rows = [[_unquoted(cell) for cell in cells] for cells in rows]
    wanted = columns.pop(_LANGUAGE, None)
    found: dict[str, list[str]] = {"first": [], "second": [], "label": []}
    places, same, blank = [], dict[str, bool](), list[int]()
    for number, cells in enumerate(rows[start:], start + 1):
        place = f"{path}:{number}"
        check_columns(place, cells, len(names), ", as line 1 has")
        if language is not None and wanted is not None:
            code = cells[wanted]
            if code not in same:
                same[code] = same_language(code, language)
            if not same[code]:
                continue
        sentences = (cells[columns[name]] for name in ("first", "second"))
        if skip_blank and not all(map(str.strip, sentences)):
            blank.append(number)
            continue
        for name, column in columns.items():
            if not cells[column].strip():
                refuse(place, f"a {name}", "a blank one", "repair the line")
            found[name].append(cells[column])
        label = found["label"][-1] = _SAME.get(found["label"][-1], found["label"][-1])
        if labels and label not in labels:
            refuse(place, f"a label ({', '.join(labels)})", quote(label), "repair the line")
        places.append(place)
    if not places:
        got = "none" if language is None else f"none of {language}"
        refuse(str(path), "labelled pairs", got, "check the file")
    if blank:
        say(
            f"{path}: pairs without one of the sentences left out: {len(blank):,} (the first on "
            f"line {blank[0]})"
        )
    columns_found = (found["first"], found["second"], found["label"])
    return SentencePairs(*columns_found, places, file_name(path), len(blank))


def with_labels(paths: Mapping[str, Path], **options: Any) -> dict[str, SentencePairs]:
    """The pairs of each split; a test without labels is left out, and this is said.

    Parameters
    ----------
    paths: split -> file. options: of :func:`read_sentence_pairs`.
    """
    found = {}
    for split, path in paths.items():
        try:
            found[split] = read_sentence_pairs(path, **options)
        except WithoutLabels:
            if split != "test" or len(paths) == 1:
                raise
            say(f"{path}: left out, since it has no labels")
    return found


_IN_QUOTES = re.compile(r'"(?:[^"]|"")*"')


def _in_quotes(rows: Sequence[Sequence[str]]) -> bool:
    """Whether cells with a quotation mark are quoted as CSV has it: each of them fits, and one has a
    doubled mark within."""
    marked = [cell for cells in rows for cell in cells if '"' in cell]
    doubled = any('""' in cell[1:-1] for cell in marked)
    return doubled and all(map(_IN_QUOTES.fullmatch, marked))


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if cell.startswith('"') else cell


def _columns(names: Sequence[str], path: str | Path) -> tuple[dict[str, int], int]:
    """Column of each field, and the line that the pairs begin at, from 0."""
    there = {
        field: next((names.index(name) for name in known if name in names), None)
        for field, known in (("first", _FIRST), ("second", _SECOND), ("label", _LABEL))
    }
    if there["first"] is None and there["second"] is None:  # no names
        if len(names) == 2:
            remedy = "take the file that was published with labels"
            got = "2 columns, pairs alone"
            refuse(str(path), "pairs with their labels", got, remedy, WithoutLabels)
        if len(names) != 3:
            got = f"{len(names)} columns ({quote(names[0])} …)"
            expected = "a first line that names the columns, or 3 columns (first, second, label)"
            refuse(f"{path}:1", expected, got, "check the file")
        return {"first": 0, "second": 1, "label": 2}, 0
    found = {field: column for field, column in there.items() if column is not None}
    if missing := sorted(there.keys() - found.keys()):
        expected = f"a column for the {missing[0]}"
        refuse(f"{path}:1", expected, ", ".join(names)[:80], "take the file with labels")
    return found | ({_LANGUAGE: names.index(_LANGUAGE)} if _LANGUAGE in names else {}), 1
