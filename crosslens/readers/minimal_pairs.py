"""Files of minimal pairs: two sentences that differ in what makes one of them ungrammatical.

    Marvin & Linzen     template TAB case TAB grammatical TAB ungrammatical TAB extra, with a
                        header: the file of Goldberg's bert-syntax
    Gulordava et al.    ``generated.tab`` of Colorless green recurrent networks dream hierarchically
                        (2018): a row for the right form of a verb and one for the wrong form, and
                        the sentence in which they stand for the word behind the prefix; Italian's
                        has one more column, full_id
    CLAMS               a line ``True TAB grammatical``, and the next one ``False TAB ungrammatical``
                        (Mueller et al. 2020)
    BLiMP               a JSON object a line with sentence_good, sentence_bad, UID and pairID
                        (Warstadt et al. 2020)
    MultiBLiMP          a table with a header, whose columns sen and wrong_sen have the sentences and
                        phenomenon what they are about (SV-#, SP-G and so on), as {language}/data.tsv
                        on the hub has them among others (prefix, verb, swap_head, feature_vals …);
                        where a file has several languages, lang or language says which (Jumelet et
                        al. 2025); separated by tabs or commas
    RuBLiMP             such a table with the columns source_sentence, target_sentence (which is
                        ungrammatical) and PID (Taktasheva et al. 2024)
    any other           good TAB bad [TAB category], or a JSON object a line with good, bad and,
                        optionally, category and id

``.gz`` is read as it is. Nothing is dropped without being asked for: what cannot be read is refused
with its line.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from crosslens.checks import check_columns
from crosslens.errors import InputError, cut, quote, refuse
from crosslens.files import parse_json
from crosslens.readers.plain import file_name, read_lines

__all__ = ["MARVIN_LINZEN_CATEGORIES", "MinimalPair", "read_minimal_pairs"]

_COLORLESS = (
    "pattern constr_id sent_id correct_number form class type prefix n_attr punct freq "
    "len_context len_prefix sent"
).split()
_HEADER = ["template", "case", "grammatical", "ungrammatical", "extra"]
_KEYS = (("sentence_good", "sentence_bad", "UID", "pairID"), ("good", "bad", "category", "id"))
_SUFFIXES = (".tsv", ".csv", ".jsonl", ".tab", ".tsv.gz", ".csv.gz", ".jsonl.gz", ".tab.gz")
_PLAIN = (".txt", ".txt.gz")  # beside others these are notes; CLAMS has them alone
# columns of MultiBLiMP and of RuBLiMP
_TABLES = (("sen", "wrong_sen", "phenomenon"), ("source_sentence", "target_sentence", "PID"))
_MARKS = ("True", "False")  # of CLAMS
_LANGUAGE = ("lang", "language")

MARVIN_LINZEN_CATEGORIES: Mapping[str, str] = {
    "simple_agrmt": "simple agreement",
    "sent_comp": "in a sentential complement",
    "vp_coord": "short VP coordination",
    "long_vp_coord": "long VP coordination",
    "prep_anim": "across a prepositional phrase",
    "prep_inanim": "across a prepositional phrase",
    "subj_rel": "across a subject relative clause",
    "obj_rel_across_anim": "across an object relative clause",
    "obj_rel_across_inanim": "across an object relative clause",
    "obj_rel_no_comp_across_anim": "across an object relative clause (no that)",
    "obj_rel_no_comp_across_inanim": "across an object relative clause (no that)",
    "obj_rel_within_anim": "in an object relative clause",
    "obj_rel_within_inanim": "in an object relative clause",
    "obj_rel_no_comp_within_anim": "in an object relative clause (no that)",
    "obj_rel_no_comp_within_inanim": "in an object relative clause (no that)",
    "simple_reflexives": "simple reflexive",
    "reflexive_sent_comp": "reflexive in a sentential complement",
    "reflexives_across": "reflexive across a relative clause",
}
"""Template, as files name it, to category: ten of subject-verb agreement and three of reflexive
anaphora, in the order of the paper."""

_NPI_CATEGORIES = {
    "simple_npi_anim": "simple NPI",
    "simple_npi_inanim": "simple NPI",
    "npi_across_anim": "NPI across a relative clause",
    "npi_across_inanim": "NPI across a relative clause",
}


class MinimalPair(NamedTuple):
    """A grammatical sentence and its ungrammatical twin.

    Attributes
    ----------
    good, bad: the two sentences. (BLiMP has pairs of equal ones; they are read, and never covered.)
    category: what the pair is about; accuracy is told by category.
    id: names the pair in its file.
    where: its place (file and line), for messages.
    language: where the file says it, else empty.

    >>> MinimalPair("the author laughs", "the author laugh", "simple agreement", "0", "pairs.tsv:1").category
    'simple agreement'
    """

    good: str
    bad: str
    category: str
    id: str
    where: str
    language: str = ""


def read_minimal_pairs(path: str | Path, *, npi: bool = False) -> list[MinimalPair]:
    """Read a file of minimal pairs, in any of the formats above, or all such files of a folder in
    the order of their names.

    Parameters
    ----------
    path: ``.jsonl`` is read as JSON; anything else in the format whose header, or marks, it has,
        and without these as tab-separated. Without a category of its own a pair has the file's name
        for one.
    npi: keep Marvin & Linzen's negative polarity items, which Goldberg (2019) and Artetxe et al.
        (2020) leave out.

    Raises
    ------
    InputError: no such file or no text in it; a line has the wrong number of columns, is no JSON
        object with the two sentences, names a template that is unknown, or is marked True or False
        and has no partner; a table lacks the columns; a sentence is blank. The message names file
        and line.
    """
    path = Path(path)
    if path.is_dir():
        every = [
            sorted(file for file in path.iterdir() if file.name.endswith(endings))
            for endings in (_SUFFIXES, _PLAIN)
        ]
        files = every[0] or every[1]
        if not files:
            expected = f"files of minimal pairs ({', '.join(_SUFFIXES + _PLAIN)})"
            refuse(str(path), expected, "none in the folder", "name a file, or another folder")
        return [pair for file in files for pair in read_minimal_pairs(file, npi=npi)]
    lines = read_lines(path)
    if file_name(path).removesuffix(".gz").endswith(".jsonl"):
        return [_from_json(line, path, number) for number, line in enumerate(lines, 1)]
    if lines[0].split("\t") == _HEADER:
        return _marvin_linzen(lines, path, npi)
    if lines[0].split("\t")[: len(_COLORLESS)] == _COLORLESS:
        return _colorless(lines, path)
    for columns in _TABLES:
        for separator in "\t,":
            if {*columns[:2]} <= {*lines[0].split(separator)}:
                return _table(lines, path, separator, columns)
    if file_name(path).removesuffix(".gz").endswith(".csv") and "\t" not in lines[0]:
        wanted = " or ".join(f"{good} and {bad}" for good, bad, _ in _TABLES)
        remedy = "name the columns of the sentences so, the grammatical ones first"
        refuse(f"{path}:1", f"columns called {wanted}", quote(lines[0]), remedy)
    if any(line.partition("\t")[0] in _MARKS for line in lines):
        return _clams(lines, path)
    return [_from_columns(line, path, number) for number, line in enumerate(lines, 1)]


def _marvin_linzen(lines: list[str], path: Path, npi: bool) -> list[MinimalPair]:
    pairs = []
    for number, line in enumerate(lines[1:], 2):
        where, cells = f"{path}:{number}", line.split("\t")
        check_columns(where, cells, len(_HEADER), f" ({', '.join(_HEADER)})")
        template, case, good, bad, _ = cells
        if template in _NPI_CATEGORIES and not npi:
            continue
        category = MARVIN_LINZEN_CATEGORIES.get(template) or _NPI_CATEGORIES.get(template)
        if category is None:
            known = ", ".join([*MARVIN_LINZEN_CATEGORIES, *_NPI_CATEGORIES])
            remedy = "correct it, or give good TAB bad TAB category without a header"
            refuse(where, f"one of the templates {known}", quote(template), remedy)
        pairs.append(_pair(good, bad, category, f"{template}/{case}/{number}", where))
    if not pairs:
        remedy = "give another file" if npi else "set npi=True"
        refuse(str(path), "at least one pair", "none" if npi else "none but NPI", remedy)
    return pairs


def _colorless(lines: list[str], path: Path) -> list[MinimalPair]:
    """The pairs of a ``generated.tab``: rows of one construction and sentence, the right form
    first; cells may be quoted as in CSV."""
    header = lines[0].split("\t")
    reader, begins, rows = csv.reader(lines[1:], delimiter="\t"), 2, []
    try:
        for row in reader:
            rows.append(row)
            begins = reader.line_num + 2
    except csv.Error as error:  # a quotation mark that is not closed, say
        refuse(f"{path}:{begins}", "cells as CSV has them", str(error), "repair the line")
    pairs = []
    for number in range(0, len(rows), 2):
        where = f"{path}:{number + 2}"
        two = [
            dict(zip(header, row, strict=True))
            for row in rows[number : number + 2]
            if len(row) == len(header)
        ]
        same = len(two) == 2 and all(
            two[0][name] == two[1][name]
            for name in ("pattern", "constr_id", "sent_id", "sent", "len_prefix")
        )
        if not same or [row["class"] for row in two] != ["correct", "wrong"]:
            remedy = "fetch the file again: this is no generated.tab"
            refuse(where, "two rows of one sentence, correct and wrong", "others", remedy)
        words = [word for word in two[0]["sent"].split() if word != "<eos>"]
        if not two[0]["len_prefix"].isdecimal() or int(two[0]["len_prefix"]) >= len(words):
            expected = "a prefix shorter than its sentence"
            refuse(where, expected, repr(two[0]["len_prefix"][:80]), "fetch the file again")
        place = int(two[0]["len_prefix"])
        good, bad = (" ".join([*words[:place], row["form"], *words[place + 1 :]]) for row in two)
        pairs.append(
            _pair(
                good,
                bad,
                two[0]["pattern"],
                f"{two[0]['constr_id']}_{two[0]['sent_id']}/{number + 2}",
                where,
            )
        )
    if not pairs:
        refuse(str(path), "at least one pair", "none", "give another file")
    return pairs


def _clams(lines: list[str], path: Path) -> list[MinimalPair]:
    """The pairs of two lines each, the grammatical sentence first."""
    expected = "a line True TAB SENTENCE, and behind it one False TAB SENTENCE"
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if len(cells) != 2 or cells[0] != _MARKS[1 - number % 2]:
            refuse(f"{path}:{number}", expected, quote(line), "repair the line")
    if len(lines) % 2:
        refuse(f"{path}:{len(lines)}", expected, "the first alone", "add the other one")
    sentences = [line.split("\t")[1] for line in lines]
    return [
        _pair(good, bad, _stem(path), str(number), f"{path}:{number}")
        for number, good, bad in zip(
            range(1, len(lines), 2), sentences[::2], sentences[1::2], strict=True
        )
    ]


def _table(
    lines: list[str], path: Path, separator: str, columns: tuple[str, str, str]
) -> list[MinimalPair]:
    """The pairs of a table with a header, whose columns have the grammatical sentence, the other
    one and the category; cells may be quoted as in CSV."""
    header = lines[0].split(separator)
    place = {name: header.index(name) for name in header}
    language = next((place[name] for name in _LANGUAGE if name in place), None)
    pairs = []
    for number, line in enumerate(lines[1:], 2):
        where = f"{path}:{number}"
        try:
            (cells,) = csv.reader([line], delimiter=separator, strict=True)
        except csv.Error as error:
            refuse(where, "cells as CSV has them", str(error), "repair the line")
        if len(cells) != len(header):
            refuse(
                where, f"{len(header)} columns, as line 1 names", str(len(cells)), "repair the line"
            )
        good, bad, category = (cells[place[name]] if name in place else "" for name in columns)
        pairs.append(
            _pair(good, bad, category or _stem(path), str(number), where)._replace(
                language="" if language is None else cells[language]
            )
        )
    if not pairs:
        refuse(str(path), "at least one pair", "none", "give another file")
    return pairs


def _from_columns(line: str, path: Path, number: int) -> MinimalPair:
    where, cells = f"{path}:{number}", line.split("\t")
    if len(cells) not in (2, 3):
        expected = "2 or 3 tab-separated columns (good, bad, category)"
        refuse(where, expected, str(len(cells)), "repair the line")
    good, bad, category = [*cells, ""][:3]
    return _pair(good, bad, category or _stem(path), str(number), where)


def _from_json(line: str, path: Path, number: int) -> MinimalPair:
    where = f"{path}:{number}"
    found = parse_json(line, where, dict, "repair the line", InputError)
    for keys in _KEYS:
        if keys[0] in found and keys[1] in found:
            good, bad, category, name = (found.get(key) for key in keys)
            if not isinstance(good, str) or not isinstance(bad, str):
                got = f"{type(good).__name__} and {type(bad).__name__}"
                refuse(where, "two sentences", got, "give text")
            category = _stem(path) if category is None else category
            name = number if name is None else name
            return _pair(good, bad, str(category), str(name), where)
    wanted = " or ".join(f"{good} and {bad}" for good, bad, *_ in _KEYS)
    got = f"the keys {cut(', '.join(found)) or 'none'}"
    refuse(where, f"a JSON object with {wanted}", got, "repair the line")


def _pair(good: str, bad: str, category: str, name: str, where: str) -> MinimalPair:
    if not good.strip() or not bad.strip():
        refuse(where, "two sentences", "a blank one", "fill it, or remove the line")
    return MinimalPair(good, bad, category, name, where)


def _stem(path: Path) -> str:
    """The name of a file without the endings that tell its format."""
    name = file_name(path)
    for suffix in _SUFFIXES + _PLAIN:
        name = name.removesuffix(suffix)
    return name
