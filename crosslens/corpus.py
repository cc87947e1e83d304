"""Text of one language, and texts that are translations of each other line by line.

A :class:`Corpus` is a list of sentences with their ids. It is read from a plain
text file (a sentence a line) or from ``id TAB text``; ``.gz`` is read as it is. With the
extra ``datasets`` it is read from a data set of Hugging Face, as a stream.
A text too large for memory stays on disk (:func:`open_text`). Sentences may have words:
:mod:`crosslens.readers.words`.
Nothing is guessed and nothing dropped: what cannot be read is refused with its line.
"""

import array
import codecs
import contextlib
import dataclasses
import functools
import gzip
import hashlib
import itertools
import operator
import os
import urllib.parse
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar, overload

from crosslens.errors import CrosslensError, refuse
from crosslens.files import check_name

__all__ = [
    "Corpus",
    "Lazy",
    "as_corpus",
    "check_parallel",
    "check_sentence",
    "check_spans",
    "file_name",
    "open_text",
    "read_dataset",
    "read_lines",
    "read_text",
    "read_tsv",
]

_T = TypeVar("_T")
_EVERY = 64  # open_text remembers where every 64th line begins: 125 kB for a million lines
_DATASET = "hf:PATH?config=NAME&split=NAME&field=NAME&limit=NUMBER (all but PATH may be left out)"


class Lazy(Sequence[_T]):
    """A sequence whose items are made when they are read, and not kept.

    Parameters
    ----------
    length: how many items there are.
    make: number of an item, from 0 -> the item, checked. A :class:`Corpus` does not read what is
        lazy in order to check it.

    >>> squares = Lazy(1_000_000_000, lambda i: i * i)
    >>> squares[-1], squares[1:4]
    (999999998000000001, [1, 4, 9])
    """

    def __init__(self, length: int, make: Callable[[int], _T]) -> None:
        self._length, self._make = length, make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...

    def __getitem__(self, index: int | slice) -> _T | list[_T]:
        if isinstance(index, slice):
            return [self._make(i) for i in range(self._length)[index]]
        return self._make(range(self._length)[index])

    def __iter__(self) -> Iterator[_T]:
        return map(self._make, range(self._length))


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Sentences of one language, and their words where these are known.

    ``read_text`` reads one from a file; a list of strings is one by ``Corpus("eng", sentences, ids,
    "where it is from")``.

    Attributes
    ----------
    language: ISO 639-3 code (any name of letters, digits, ``-``, ``_`` and ``.`` will do: it
        becomes part of files' names).
    sentences: the sentences, in the order of the file.
    ids: one id per sentence; equal ids in two corpora mean translations of each other.
    name: where the text is from, for messages and reports.
    words: for each sentence the spans (start, end) of its words, in Python's characters, end
        excluded; starts do not decrease, and words of one multiword token have the same span.
    annotations: column (upos, say) -> for each sentence one value per word.

    Raises
    ------
    InputError: counts differ, or a span is not one of its sentence. A :class:`Lazy` sequence is
        only counted.

    >>> corpus = Corpus("eng", ["One.", "Two."], ["0", "1"], "numbers")
    >>> len(corpus), corpus.fingerprint[:8]
    (2, '0e076893')
    >>> corpus = Corpus("eng", ["One."], ["0"], "numbers", words=[[(0, 3), (3, 4)]], annotations={"upos": [["NUM", "PUNCT"]]})
    >>> [corpus.sentences[0][start:end] for start, end in corpus.words[0]]
    ['One', '.']
    """

    language: str
    sentences: Sequence[str]
    ids: Sequence[str]
    name: str
    words: Sequence[Sequence[tuple[int, int]]] | None = None
    annotations: Mapping[str, Sequence[Sequence[str]]] | None = None

    def __post_init__(self) -> None:
        check_name(self.language, "language")
        if len(self.sentences) != len(self.ids):
            expected = f"{len(self.sentences)} ids, one per sentence"
            refuse("ids", expected, str(len(self.ids)), "give every sentence its id")
        if self.words is not None:
            self._check_words(self.words)
        if self.annotations is not None:
            self._check_annotations(self.annotations)

    def _check_words(self, words: Sequence[Sequence[tuple[int, int]]]) -> None:
        if len(words) != len(self.sentences):
            expected = f"the words of {len(self.sentences)} sentences"
            refuse("words", expected, f"those of {len(words)}", "give the spans of every sentence")
        if not isinstance(words, Lazy):
            for number, (text, spans) in enumerate(zip(self.sentences, words, strict=True), 1):
                check_spans(text, spans, f"{self.name}:{number}")

    def _check_annotations(self, annotations: Mapping[str, Sequence[Sequence[str]]]) -> None:
        if self.words is None:
            refuse(
                "annotations", "annotations of words", "a corpus without words", "give words too"
            )
        for column, values in annotations.items():
            if len(values) != len(self.sentences):
                wanted = f"values for {len(self.sentences)} sentences"
                remedy = "give every sentence its values"
                refuse(f"annotations[{column!r}]", wanted, f"values for {len(values)}", remedy)
            if isinstance(values, Lazy) or isinstance(self.words, Lazy):
                continue
            for number, (spans, row) in enumerate(zip(self.words, values, strict=True), 1):
                if len(row) != len(spans):
                    where = f"{self.name}:{number}"
                    expected = f"{len(spans)} values of {column!r}, one per word"
                    refuse(where, expected, str(len(row)), "give every word its value")

    def __len__(self) -> int:
        return len(self.sentences)

    def __repr__(self) -> str:
        told = [
            self.language,
            f"{len(self):,} sentence{'s' * (len(self) != 1)}",
            *(["with words"] if self.words is not None else []),
        ]
        return f"Corpus({', '.join([*told, *(self.annotations or {})])})"

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 over ids, sentences and, where there are any, words and their annotations: 64
        hexadecimal digits.

        Raises
        ------
        InputError: an id or a sentence has a NUL character or a lone surrogate, which no file of
            UTF-8 text holds.
        """
        digest = hashlib.sha256()
        for number, (name, sentence) in enumerate(zip(self.ids, self.sentences, strict=True), 1):
            try:
                data = f"{name}\t{sentence}\n".encode()
            except UnicodeEncodeError:
                data = b"\0"
            if b"\0" in data:  # which of the two it is, is asked only here
                check_sentence(name, f"id of {self.name}:{number}")
                check_sentence(sentence, f"{self.name}:{number}")
            digest.update(data)
        for spans in self.words if self.words is not None else ():
            # no sentence has a NUL
            digest.update(
                ("\0" + " ".join(f"{start}-{end}" for start, end in spans) + "\n").encode()
            )
        # they stand in the index of what is made of the text
        for column, values in (self.annotations or {}).items():
            for some in values:
                digest.update(
                    ("\0\0" + "\t".join([column, *some]) + "\n").encode(errors="surrogatepass")
                )
        return digest.hexdigest()


def as_corpus(text: Any, language: str | None = None, name: str = "text") -> Corpus:
    """A corpus as it is; or a list of sentences as one, ids being their numbers from 0.

    Parameters
    ----------
    language: of a list; "und", undetermined, without it.
    name: what the sentences are called in messages.

    Raises
    ------
    InputError: it is a single string, an item is no string, or a corpus comes with another language
        than its own.

    >>> as_corpus(["One.", "Two."], "eng")
    Corpus(eng, 2 sentences)
    """
    if isinstance(text, Corpus):
        if language not in (None, text.language):
            refuse(
                "language", f"{text.language}, which the corpus has", repr(language), "leave it out"
            )
        return text
    if isinstance(text, str):
        remedy = "put it into a list, or read a file with read_text(PATH, LANGUAGE)"
        refuse(name, "a list of sentences", "a single string", remedy)
    try:
        sentences = list(text)
    except TypeError:
        refuse(
            name, "a list of sentences, or a Corpus", type(text).__name__, "give strings in a list"
        )
    for row, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            got = type(sentence).__name__
            refuse(f"{name}[{row}]", "a sentence, as a string", got, "give strings in a list")
    return Corpus(
        "und" if language is None else language,
        sentences,
        [str(row) for row in range(len(sentences))],
        name,
    )


def check_sentence(text: str, where: str) -> str:
    """Return ``text`` if it is text that UTF-8 can hold; ``where`` is its place, for the message.

    Raises
    ------
    InputError: it has a NUL character or half of a surrogate pair.

    >>> check_sentence("a\\ud83d", "text.txt:7")
    Traceback (most recent call last):
    ...
    crosslens.errors.InputError: text.txt:7: expected text, got a lone surrogate (U+D83D) at character 1; remove or repair the sentence
    """
    if "\0" in text:
        remedy = "remove or repair the sentence"
        refuse(where, "text", f"a NUL character at character {text.index(chr(0))}", remedy)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            got = f"a lone surrogate (U+{ord(text[error.start]):04X}) at character {error.start}"
            refuse(where, "text", got, "remove or repair the sentence")
    return text


def check_spans(text: str, spans: Iterable[Any], where: str) -> None:
    """Pass if ``spans``, (start, end) of each word of a sentence, lie in it, in order and none of
    them empty.

    Raises
    ------
    InputError: a span is not a pair of whole numbers, is empty, leaves the text, or starts before
        the one in front of it.
    """
    last, length, index = 0, len(text), operator.index
    for number, span in enumerate(spans, 1):
        try:
            start, end = span
            index(start), index(end)
        except (TypeError, ValueError):
            expected = "a pair of whole numbers (start, end) per word"
            refuse(where, expected, f"{span!r} for word {number}", "give every word its span")
        if not last <= start < end <= length:
            wanted = f"a span with {last} <= start < end <= {length} for word {number}"
            remedy = "count characters in the order of the text, the end excluded"
            refuse(where, wanted, f"({start}, {end})", remedy)
        last = start


def read_text(path: str | Path, language: str) -> Corpus:
    """Read a file of UTF-8 text with a sentence per line; ids are the line numbers, from 0.

    Line i of two languages' files is to be the same sentence where they are compared. What is
    larger than memory: :func:`open_text`.

    Parameters
    ----------
    path: the file; ``.gz`` is read as it is.
    language: ISO 639-3 code, such as "eng".

    Raises
    ------
    InputError: no such file, an empty file, a blank line, text that is not UTF-8 or has NUL bytes.

    >>> from crosslens import read_text
    >>> from crosslens.recipes.quickstart import DATA  # the sentences that the package carries
    >>> text = read_text(DATA / "corpus" / "eng.txt", "eng")
    >>> text, text.ids[:2]
    (Corpus(eng, 600 sentences), ['0', '1'])
    """
    lines = read_lines(path)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            _refuse_blank(path, number)
    return Corpus(language, lines, [str(i) for i in range(len(lines))], file_name(path))


def open_text(path: str | Path, language: str) -> Corpus:
    """The same corpus as :func:`read_text` gives, whose sentences stay in the file: memory does not
    grow with the text.

    The file is read once to check it; a sentence is read again when it is asked for, fastest in
    order. What is not an ordinary file (``.gz``, a pipe) is read into memory.

    Raises
    ------
    InputError: as for :func:`read_text`; or, when a sentence is read, the file has changed since it
        was opened.

    >>> from crosslens import open_text, read_text
    >>> from crosslens.recipes.quickstart import DATA  # the sentences that the package carries
    >>> path = DATA / "corpus" / "eng.txt"
    >>> list(open_text(path, "eng").sentences) == read_text(path, "eng").sentences
    True
    """
    if str(path).endswith(".gz") or not os.path.isfile(path):
        return read_text(path, language)
    lines = _FileLines(path)
    return Corpus(language, Lazy(lines.count, lines.line), Lazy(lines.count, str), file_name(path))


class _FileLines:
    """The lines of a file, checked once and read by their place, with the bytes of one block of
    lines in memory."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        with _reading(path):
            self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._stamp = self._now()
        self._starts, self.count = array.array("Q"), 0
        with _reading(path), open(self._file, "rb", closefd=False) as file:
            end = self._scan(file)
        self._starts.append(end)
        self._block: tuple[int, list[bytes]] = (-1, [])

    def _now(self) -> tuple[int, int]:
        state = os.fstat(self._file)
        return state.st_size, state.st_mtime_ns

    def _scan(self, file: Iterator[bytes]) -> int:
        """Find every 64th line and refuse what :func:`read_text` refuses, in its order: NUL, no
        UTF-8, no text at all, a blank line."""
        at, blank, first_wrong, some, returns, ends = 0, 0, None, False, 0, True
        for line in file:
            mark = 3 if at == 0 and line.startswith(codecs.BOM_UTF8) else 0
            if len(line) == mark:
                break  # nothing but a byte-order mark
            if self.count % _EVERY == 0:
                self._starts.append(at + mark)
            at += len(line)
            self.count += 1
            if b"\0" in line:
                _refuse_nul(self.path, self.count)
            returns += line.count(b"\r") - line.endswith((b"\r\n", b"\r"))
            ends = line.endswith(b"\n")
            try:
                if line[mark:].decode().strip():
                    some = True
                else:
                    blank = blank or self.count
            except UnicodeDecodeError as error:
                first_wrong = first_wrong or (self.count, error)
        if first_wrong is not None:
            _refuse_bytes(self.path, *first_wrong)
        if not some:
            _refuse_empty(self.path)
        if returns > self.count - (not ends):
            _refuse_old_ends(self.path)
        if blank:
            _refuse_blank(self.path, blank)
        return at

    def line(self, i: int) -> str:
        block, inside = divmod(i, _EVERY)
        there, lines = self._block
        if there != block:
            lines = self._read(self._starts[block], self._starts[block + 1]).split(b"\n")
            self._block = (block, lines)
        return lines[inside].decode().removesuffix("\r")

    def _read(self, start: int, end: int) -> bytes:
        parts = []
        with _reading(self.path):
            while (
                start < end
                and self._now() == self._stamp
                and (part := os.pread(self._file, end - start, start))
            ):
                parts.append(part)
                start += len(part)
        if start < end:
            expected = "the file as it was when it was opened"
            refuse(str(self.path), expected, "one that has changed since", "open it again")
        return b"".join(parts)


def read_tsv(
    path: str | Path,
    language: str,
    *,
    text_column: int = 1,
    id_column: int | None = 0,
    columns: int | None = None,
) -> Corpus:
    """Read tab-separated lines; without an id column ids are the line numbers, from 0.

    Parameters
    ----------
    text_column, id_column: which columns, counted from 0.
    columns: how many there must be; where it is None, as many as are read or more.

    Raises
    ------
    InputError: as for :func:`read_text`; or a line has too few columns, or another number than
        ``columns``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "cats.tsv"
    >>> _ = path.write_text("a1\\tA cat.\\na2\\tTwo cats.\\n")
    >>> cats = read_tsv(path, "eng")
    >>> cats.ids, cats.sentences
    (['a1', 'a2'], ['A cat.', 'Two cats.'])
    """
    ids, sentences = [], []
    needed = max(text_column, id_column or 0) + 1
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if len(cells) < needed:
            expected = f"at least {needed} tab-separated columns"
            refuse(f"{path}:{number}", expected, str(len(cells)), "repair the line")
        if columns not in (None, len(cells)):
            remedy = "repair the line, or cut the others off"
            refuse(f"{path}:{number}", f"{columns} tab-separated columns", str(len(cells)), remedy)
        if not cells[text_column].strip():
            expected = f"a sentence in column {text_column}"
            refuse(f"{path}:{number}", expected, "a blank cell", "remove the line, or fill it")
        ids.append(str(number - 1) if id_column is None else cells[id_column])
        sentences.append(cells[text_column])
    return Corpus(language, sentences, ids, file_name(path))


def read_dataset(address: str, language: str) -> Corpus:
    """Read the text of a Hugging Face data set, once, as a stream; needs the extra ``datasets``.

    Each line of a record's field is a sentence. A blank line stays where it is, as an empty
    sentence: sentences before and after it do not follow each other. Ids are the numbers of the
    lines, from 0.

    Parameters
    ----------
    address: ``hf:PATH?config=NAME&split=NAME&field=NAME&limit=NUMBER``. PATH is the data set's name
        on the hub or a local folder. Without them, there is no config, split is "train", field is
        "text", and limit, the number of records, is all. A field in a field is named with a dot,
        such as ``field=translation.fr``.

    Raises
    ------
    InputError: the library is not installed, the address cannot be read, there is no such data set,
        split or field, or no text in it.
    """
    path, config, split, field, limit = _address(address)
    try:
        import datasets
    except ImportError:
        remedy = "type: pip install 'crosslens[datasets]'"
        refuse(address, "the library that reads data sets", "none installed", remedy)
    lines: list[str] = []
    try:
        records = datasets.load_dataset(path, config, split=split, streaming=True)
        for number, record in enumerate(itertools.islice(records, limit)):
            text = _field(record, field, f"{address} (record {number})")
            lines.extend(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
    except CrosslensError:
        raise
    # the library has a dozen kinds for a wrong path, config or split, and more for the network
    except Exception as error:
        got = f"{type(error).__name__}: {' '.join(str(error).split())}"
        refuse(
            address, "a data set that can be read", got, "check path, config, split and connection"
        )
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
    whole = limit is None or (
        limit.isascii() and limit.isdecimal() and len(limit) < 16 and int(limit) > 0
    )
    filled = all(values.values()) and len(values) == len(told) == len(
        query.split("&") if query else []
    )
    if not path or not set(values) <= known or not whole or not filled:
        refuse("hf:", _DATASET, repr(address), "correct the address")
    return (
        path,
        values.get("config"),
        values.get("split", "train"),
        values.get("field", "text"),
        None if limit is None else int(limit),
    )


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


def file_name(path: str | Path) -> str:
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
        got = ", ".join(f"{language} {count}" for language, count in counts.items())
        remedy = "line i of each file must be the same sentence"
        refuse("texts", "the same number of lines in every language", got, remedy)
    return next(iter(counts.values()))


def read_lines(path: str | Path) -> list[str]:
    """All lines without their ends (line feed or carriage return and line feed; nothing else ends a
    line).

    Raises
    ------
    InputError: no such file, no text in it but blank lines, text that is not UTF-8 or has NUL
        bytes.
    """
    with _reading(path):
        data = Path(path).read_bytes()
        if str(path).endswith(".gz"):
            data = gzip.decompress(data)
    if b"\0" in data:
        _refuse_nul(path, data[: data.index(0)].count(10) + 1)
    try:
        text = data.decode("utf-8-sig")
    # its object is without the byte-order mark, if there was one
    except UnicodeDecodeError as error:
        _refuse_bytes(path, error.object[: error.start].count(b"\n") + 1, error)
    if not text.strip():
        _refuse_empty(path)
    if text.count("\r") - text.count("\r\n") > text.count("\n") + text.endswith("\r"):
        _refuse_old_ends(path)
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


@contextlib.contextmanager
def _reading(path: str | Path) -> Iterator[None]:
    """Refuse what the system says of a file that cannot be read."""
    try:
        yield
    except IsADirectoryError:
        refuse(str(path), "a text file", "a folder", "name the file in it")
    except (OSError, EOFError, zlib.error) as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else f"an error ({error})"
        refuse(str(path), "a text file that can be read", what, "check the path")


def _refuse_nul(path: str | Path, line: int) -> NoReturn:
    refuse(f"{path}:{line}", "text", "a NUL byte", "save the file as UTF-8 text")


def _refuse_bytes(path: str | Path, line: int, error: UnicodeDecodeError) -> NoReturn:
    got = f"byte 0x{error.object[error.start]:02x}"
    refuse(f"{path}:{line}", "UTF-8 text", got, "convert the file to UTF-8, with iconv for example")


def _refuse_old_ends(path: str | Path) -> NoReturn:
    got = "carriage returns alone, as on old Macs"
    remedy = "convert the file: tr '\\r' '\\n' < old > new"
    refuse(str(path), "lines that end with a line feed", got, remedy)


def _refuse_empty(path: str | Path) -> NoReturn:
    remedy = "check the path, and what wrote the file"
    refuse(str(path), "at least one line of text", "an empty file", remedy)


def _refuse_blank(path: str | Path, line: int) -> NoReturn:
    remedy = "remove the line from every language's file, or fill it"
    refuse(f"{path}:{line}", "a sentence", "a blank line", remedy)
