"""Plain text of one language: a sentence a line, or ``id TAB text``; ``.gz`` is read as it is.

A text too large for memory stays on disk (:func:`open_text`). Nothing is guessed and nothing
dropped: what cannot be read is refused with its line.
"""

import array
import codecs
import contextlib
import gzip
import os
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from crosslens.corpus import Corpus, Lazy
from crosslens.errors import refuse

__all__ = ["file_name", "open_text", "read_lines", "read_text", "read_tsv"]

_EVERY = 64  # open_text remembers where every 64th line begins: 125 kB for a million lines


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


def file_name(path: str | Path) -> str:
    """The file's name as text that can be printed and stored, whatever its bytes are."""
    return os.fsencode(Path(path).name).decode("utf-8", "replace")


@contextlib.contextmanager
def _reading(path: str | Path) -> Iterator[None]:
    """Refuse what the system says of a file that cannot be read."""
    try:
        yield
    except IsADirectoryError:
        refuse(str(path), "a text file", "a folder", "name the file in it")
    except ValueError as error:
        if "\0" not in str(path):
            raise
        refuse(repr(str(path)), "a file", str(error), "correct its name")
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
