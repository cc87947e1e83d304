"""Text of one language, and texts that are translations of each other line by line.

A :class:`Corpus` is a list of sentences with their ids. It is read from a plain
text file (a sentence a line) or from ``id TAB text``; ``.gz`` is read as it is. With the
extra ``datasets`` it is read from a data set of Hugging Face, as a stream.
Nothing is guessed and nothing dropped: what cannot be read is refused with its line.
"""

import dataclasses
import functools
import gzip
import hashlib
import itertools
import os
import urllib.parse
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import CrosslensError, refuse

__all__ = ["Corpus", "check_parallel", "read_dataset", "read_text", "read_tsv"]

_DATASET = "hf:PATH?config=NAME&split=NAME&field=NAME&limit=NUMBER (all but PATH may be left out)"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Sentences of one language.

    Attributes
    ----------
    language: ISO 639-3 code (any short name without "=", "/" or spaces will do).
    sentences: the sentences, in the order of the file.
    ids: one id per sentence; equal ids in two corpora mean translations of each other.
    name: where the text is from, for messages and reports.

    >>> corpus = Corpus("eng", ["One.", "Two."], ["0", "1"], "numbers")
    >>> len(corpus), corpus.fingerprint[:8]
    (2, '0e076893')
    """

    language: str
    sentences: Sequence[str]
    ids: Sequence[str]
    name: str

    def __post_init__(self) -> None:
        if not self.language or any(c in self.language for c in "=/\\ \t\n") or self.language.startswith("."):
            refuse("language", 'a short code such as "eng"', repr(self.language), "use an ISO 639-3 code")
        if len(self.sentences) != len(self.ids):
            refuse("ids", f"{len(self.sentences)} ids, one per sentence", str(len(self.ids)), "give every sentence its id")

    def __len__(self) -> int:
        return len(self.sentences)

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 over ids and sentences, 64 hexadecimal digits."""
        digest = hashlib.sha256()
        for name, sentence in zip(self.ids, self.sentences, strict=True):
            digest.update(f"{name}\t{sentence}\n".encode())
        return digest.hexdigest()


def read_text(path: str | Path, language: str) -> Corpus:
    """Read a sentence per line; ids are the line numbers, from 0.

    Raises
    ------
    InputError: no such file, an empty file, a blank line, text that is not UTF-8 or has NUL bytes.
    """
    lines = _lines(path)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            refuse(f"{path}:{number}", "a sentence", "a blank line", "remove the line from every language's file, or fill it")
    return Corpus(language, lines, [str(i) for i in range(len(lines))], _name(path))


def read_tsv(path: str | Path, language: str, *, text_column: int = 1, id_column: int | None = 0) -> Corpus:
    """Read tab-separated lines; without an id column ids are the line numbers, from 0.

    Raises
    ------
    InputError: as for :func:`read_text`; or a line has too few columns.
    """
    ids, sentences = [], []
    needed = max(text_column, id_column or 0) + 1
    for number, line in enumerate(_lines(path), 1):
        cells = line.split("\t")
        if len(cells) < needed:
            refuse(f"{path}:{number}", f"at least {needed} tab-separated columns", str(len(cells)), "repair the line")
        if not cells[text_column].strip():
            refuse(f"{path}:{number}", f"a sentence in column {text_column}", "a blank cell", "remove the line, or fill it")
        ids.append(str(number - 1) if id_column is None else cells[id_column])
        sentences.append(cells[text_column])
    return Corpus(language, sentences, ids, _name(path))


def read_dataset(address: str, language: str) -> Corpus:
    """Read the text of a Hugging Face data set, once, as a stream; needs the extra ``datasets``.

    Each line of a record's field is a sentence. A blank line stays where it is, as an empty sentence: sentences before and after
    it do not follow each other. Ids are the numbers of the lines, from 0.

    Parameters
    ----------
    address: ``hf:PATH?config=NAME&split=NAME&field=NAME&limit=NUMBER``. PATH is the data set's name on the hub or a local folder.
        Without them, there is no config, split is "train", field is "text", and limit, the number of records, is all. A field in a
        field is named with a dot, such as ``field=translation.fr``.

    Raises
    ------
    InputError: the library is not installed, the address cannot be read, there is no such data set, split or field, or no text in it.
    """
    path, config, split, field, limit = _address(address)
    try:
        import datasets
    except ImportError:
        refuse(address, "the library that reads data sets", "none installed", "type: pip install 'crosslens[datasets]'")
    lines: list[str] = []
    try:
        records = datasets.load_dataset(path, config, split=split, streaming=True)
        for number, record in enumerate(itertools.islice(records, limit)):
            text = _field(record, field, f"{address} (record {number})")
            lines.extend(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
    except CrosslensError:
        raise
    except Exception as error:  # the library has a dozen kinds for a wrong path, config or split, and more for the network
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        refuse(address, "a data set that can be read", told, "check path, config, split and connection")
    if not any(line.strip() for line in lines):
        refuse(address, "at least one sentence", "no text", "check split and field")
    return Corpus(language, lines, [str(i) for i in range(len(lines))], f"{path} {split}")


def _address(address: str) -> tuple[str, str | None, str, str, int | None]:
    """Path, config, split, field and limit of an address."""
    path, _, query = address.removeprefix("hf:").partition("?")
    told = urllib.parse.parse_qsl(query, keep_blank_values=True)
    values = dict(told)
    limit = values.get("limit")
    known = {"config", "split", "field", "limit"}
    whole = limit is None or (limit.isdecimal() and int(limit) > 0)
    filled = all(values.values()) and len(values) == len(told) == len(query.split("&") if query else [])
    if not path or not set(values) <= known or not whole or not filled:
        refuse("hf:", _DATASET, repr(address), "correct the address")
    return path, values.get("config"), values.get("split", "train"), values.get("field", "text"), None if limit is None else int(limit)


def _field(record: Any, field: str, where: str) -> str:
    value = record
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            there = ", ".join(map(str, value)) if isinstance(value, Mapping) else "none"
            refuse(where, f"a field {field!r}", f"the fields {there}", "name one of them")
        value = value[name]
    if not isinstance(value, str):
        refuse(where, f"text in the field {field!r}", type(value).__name__, "name a field of text")
    return value


def _name(path: str | Path) -> str:
    """The file's name as text that can be printed and stored, whatever its bytes are."""
    return os.fsencode(Path(path).name).decode("utf-8", "replace")


def check_parallel(corpora: Mapping[str, Corpus]) -> int:
    """Return the common number of sentences of line-aligned texts.

    Raises
    ------
    InputError: counts differ.
    """
    counts = {language: len(corpus) for language, corpus in corpora.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{language} {count}" for language, count in counts.items())
        refuse("texts", "the same number of lines in every language", told, "line i of each file must be the same sentence")
    return next(iter(counts.values()))


def _lines(path: str | Path) -> list[str]:
    """All lines without their ends (line feed or carriage return and line feed; nothing else ends a line)."""
    try:
        data = Path(path).read_bytes()
        if str(path).endswith(".gz"):
            data = gzip.decompress(data)
    except IsADirectoryError:
        refuse(str(path), "a text file", "a folder", "name the file in it")
    except (OSError, EOFError, zlib.error) as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else f"an error ({error})"
        refuse(str(path), "a text file that can be read", what, "check the path")
    if b"\0" in data:
        refuse(f"{path}:{data[: data.index(0)].count(10) + 1}", "text", "a NUL byte", "save the file as UTF-8 text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        body = error.object  # without the byte-order mark, if there was one
        line = body[: error.start].count(b"\n") + 1
        refuse(f"{path}:{line}", "UTF-8 text", f"byte 0x{body[error.start]:02x}", "convert the file to UTF-8, with iconv for example")
    if not text.strip():
        refuse(str(path), "at least one sentence", "an empty file", "give a text with one sentence per line")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
