"""One vector per word, and the text files they are kept in: .vec and .txt of word2vec, fastText and
GloVe.

A file has a line per word, ``word number number …``, and may begin with a line of two
whole numbers, how many words and how many numbers each (GloVe's files do not). Lines end
with a line feed, as in every file of these tools; other marks that Unicode calls line ends may be
part of a word. A word may hold spaces (GloVe has ``. . .``): the last d subwords of a line are its
numbers. :mod:`crosslens.readers.fasttext` reads fastText's own .bin and trains vectors.
"""

import codecs
import contextlib
import dataclasses
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int
from pyarrow import compute, csv

from crosslens.checks import check_matrix, check_positive_int
from crosslens.corpus import check_sentence
from crosslens.errors import check_choice, refuse
from crosslens.files import cannot_write
from crosslens.progress import Progress, say
from crosslens.readers.plain import file_name

__all__ = ["StaticVectors", "read_vec", "write_vec"]

_BLOCK = 1 << 24  # bytes of text that are read at a time, and the longest line
_DIGITS = 16  # of a number in a header
_WRITTEN = 1024  # rows that are written at a time
_ERRORS = ("refuse", "replace")


@dataclasses.dataclass(frozen=True, eq=False)
class StaticVectors:
    """Words and their vectors: row i belongs to word i.

    Attributes
    ----------
    words: n different words, in the order of the file (the most frequent first, in files of
        fastText and word2vec).
    vectors: shape (n, d), float32 (other numbers are converted).
    duplicates: how many lines the reader left out because their word stood on an earlier line.

    Raises
    ------
    InputError: counts differ, a word is empty or stands twice, or a number is not finite.

    >>> vectors = StaticVectors(["one", "two"], np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> len(vectors), vectors.row("two"), "three" in vectors
    (2, 1, False)
    >>> vectors.vectors[vectors.rows(["two", "one"])]
    array([[0., 2.],
           [1., 0.]], dtype=float32)
    """

    words: list[str]
    vectors: Float[np.ndarray, "n d"]
    duplicates: int = 0
    _rows: dict[str, int] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        # what does not fit float32 becomes infinite and is refused
        with np.errstate(over="ignore"):
            vectors = check_matrix(
                check_matrix(self.vectors, "vectors").astype(np.float32, copy=False), "vectors"
            )
        if len(self.words) != len(vectors):
            expected = f"{len(vectors)} words, one per row of vectors"
            refuse("words", expected, str(len(self.words)), "give every row its word")
        rows: dict[str, int] = {}
        for row, word in enumerate(self.words):
            if not isinstance(word, str) or not word:
                refuse(f"words[{row}]", "a word", repr(word), "leave out what is no word")
            if rows.setdefault(word, row) != row:
                got = f"{word!r}, the word of row {rows[word]} too"
                refuse(f"words[{row}]", "a word of its own", got, "give each word one vector")
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "_rows", rows)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._rows

    def row(self, word: str) -> int:
        """The number of a word's row, from 0.

        Raises
        ------
        InputError: there is no vector of this word.
        """
        row = self._rows.get(word)
        if row is None:
            expected = f"one of the {len(self)} words that have a vector"
            refuse("word", expected, repr(word), "ask `word in vectors` first; case matters")
        return row

    def rows(self, words: Iterable[str]) -> Int[np.ndarray, " k"]:
        """The rows of k words, in their order.

        Raises
        ------
        InputError: one of them has no vector.
        """
        return np.array([self.row(word) for word in words], np.int64)


def read_vec(path: str | Path, most: int | None = None, *, errors: str = "refuse") -> StaticVectors:
    """Read vectors from a .vec or .txt file (or one with ``.gz`` behind it).

    Memory grows with the vectors kept, not with the file. Where a word stands on several lines the
    first is kept; the others are counted in ``duplicates``, and that is said.

    Parameters
    ----------
    path: the file. Its first line is a header if it is two whole numbers, and else a word.
    most: keep the first ``most`` words and read no further.
    errors: what to do with bytes that are not UTF-8, as in some files of fastText. "refuse" names
        the line; "replace" puts U+FFFD in their place (words that become equal thereby are
        duplicates).

    Raises
    ------
    InputError: no such file, no words, bytes that are not UTF-8; a line with too few or too many
        numbers, with something that is no finite float32, or without a word; or, where there is a
        header, other counts of words or numbers than it says. A file that is read only in part
        (``most``) may go on as it likes. A word with a space before a number, as in ``route 66``,
        cannot be told from a number too many and is refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "glove.txt"
    >>> write_vec(path, StaticVectors(["one", "two"], np.array([[1.0, 0.0], [0.0, 2.5]])))
    >>> path.read_text()
    '2 2\\none 1 0\\ntwo 0 2.5\\n'
    >>> vectors = read_vec(path, most=1)
    >>> vectors.words, vectors.vectors
    (['one'], array([[1., 0.]], dtype=float32))
    """
    if most is not None:
        check_positive_int(most, "most")
    check_choice(errors, "errors", _ERRORS)
    reader = _Reader(path, most, errors)
    with (
        _reading(path) as (raw, file),
        Progress(os.path.getsize(path) >> 20, f"reading {file_name(path)}", "MB") as progress,
    ):
        for block in _blocks(file, path):
            reader.take(block)
            progress.add((raw.tell() >> 20) - progress.done)
            if reader.full:
                break
    return reader.result()


@contextlib.contextmanager
def _reading(path: str | Path) -> Iterator[tuple[io.BufferedIOBase, io.BufferedIOBase]]:
    """The file itself and its text; whatever goes wrong with the file is refused by its name."""
    try:
        with open(path, "rb") as raw:
            yield raw, gzip.GzipFile(fileobj=raw) if str(path).endswith(".gz") else raw
    except (OSError, EOFError, zlib.error) as error:
        got = getattr(error, "strerror", None) or " ".join(str(error).split())
        remedy = "check the path, or fetch the file again"
        refuse(str(path), "a file of word vectors that can be read", got, remedy)


def _blocks(file: io.BufferedIOBase, path: str | Path) -> Iterator[bytes]:
    """The file's bytes, whole lines at a time."""
    rest, lines = b"", 0
    while chunk := file.read(_BLOCK):
        cut = chunk.rfind(b"\n") + 1
        if not cut and len(rest) + len(chunk) > _BLOCK:
            expected = f"a line of at most {_BLOCK >> 20} MB"
            remedy = "give a text file with a line per word"
            refuse(f"{path}:{lines + 1}", expected, "a longer one", remedy)
        block, rest = (rest + chunk[:cut], chunk[cut:]) if cut else (b"", rest + chunk)
        if block:
            lines += block.count(b"\n")
            yield block
    if rest:
        yield rest


class _Reader:
    """What has been read of a file so far."""

    def __init__(self, path: str | Path, most: int | None, errors: str) -> None:
        self.path, self.most, self.errors = path, most, errors
        self.promised: int | None = None  # words, by the header
        self.line = 0  # lines done, the header too
        self.words_seen = self.duplicates = 0
        self.rows: dict[str, int] = {}
        self.d = 0
        self.matrix = np.empty((0, 0), np.float32)

    @property
    def full(self) -> bool:
        return self.most is not None and len(self.rows) == self.most

    def take(self, block: bytes) -> None:
        """Take in whole lines, no more of them than are needed."""
        if not self.d:
            block = self._begin(block.removeprefix(codecs.BOM_UTF8))
        while block and not self.full:
            part, block = (
                (block, b"")
                if self.most is None
                else _first_lines(block, self.most - len(self.rows))
            )
            words, vectors = self._quick(part) or self._slow(part)
            self.line += len(words)
            self.words_seen += len(words)
            self._keep(words, vectors)

    def _begin(self, block: bytes) -> bytes:
        """Learn the header, if there is one, and d; what comes after the header is returned."""
        first, _, rest = block.partition(b"\n")
        pieces = first.split()
        if len(pieces) == 2 and all(piece.isdigit() and len(piece) < _DIGITS for piece in pieces):
            self.promised, self.d, self.line = int(pieces[0]), int(pieces[1]), 1
            if not self.promised or not self.d:
                expected = "how many words and how many numbers each"
                refuse(f"{self.path}:1", expected, _shown(first), "repair the header")
            if rest:
                # what a header says is believed once a line has shown it
                self._line(rest.partition(b"\n")[0], f"{self.path}:2")
            return rest
        pieces = first.rstrip(b"\r ").split(b" ")
        while self.d < len(pieces) - 1 and _numbers([pieces[-1 - self.d]]) is not None:
            self.d += 1
        if not self.d:
            remedy = "give a file of word vectors in text form"
            refuse(f"{self.path}:1", "a header, or a word and its numbers", _shown(first), remedy)
        return block

    def _quick(self, part: bytes) -> tuple[list[str], np.ndarray] | None:
        """Words and vectors of lines in good order; None where one of them needs to be looked at by
        itself."""
        if b"\r" in part:
            part = part.replace(b"\r\n", b"\n")
        if part.startswith(codecs.BOM_UTF8):
            part = codecs.BOM_UTF8 + part  # Arrow leaves out one, and here it is part of a word
        if part[: part.find(b"\n")].endswith(b" "):
            part = part.replace(b" \n", b"\n")  # fastText and word2vec end their lines with a space
        count = part.count(b"\n") + (not part.endswith(b"\n"))
        names = ["word", *map(str, range(self.d))]
        try:
            table = csv.read_csv(
                pa.BufferReader(part),
                csv.ReadOptions(column_names=names, block_size=1 << 22),
                csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(
                    column_types={"word": pa.string()} | dict.fromkeys(names[1:], pa.float32()),
                    null_values=[],
                ),
            )
        except pa.ArrowInvalid:
            return None
        words: list[str] = table.column(0).to_pylist()
        vectors = np.empty((len(words), self.d), np.float32)
        for j in range(self.d):
            vectors[:, j] = table.column(j + 1).to_numpy()
        more = self.promised is not None and self.words_seen + count > self.promised
        good = len(words) == count and "" not in words and np.isfinite(vectors).all() and not more
        return (words, vectors) if good else None

    def _slow(self, part: bytes) -> tuple[list[str], np.ndarray]:
        """The same, line by line, for words with spaces and for refusals by line number."""
        lines = part.removesuffix(b"\n").split(b"\n")
        words, vectors = [], np.empty((len(lines), self.d), np.float32)
        for i, line in enumerate(lines):
            where = f"{self.path}:{self.line + i + 1}"
            if self.promised is not None and self.words_seen + i >= self.promised:
                expected = f"the end after {self.promised} words, as the header says"
                refuse(where, expected, "another line", "repair the header, or remove it")
            word, vectors[i] = self._line(line, where)
            words.append(word)
        return words, vectors

    def _line(self, line: bytes, where: str) -> tuple[str, np.ndarray]:
        says = " as the header says" if self.promised is not None else " as on line 1"
        wanted = f"a word and {self.d} numbers,{says}"
        remedy = "repair or remove the line (the file may be cut off)"
        word, *pieces = line.rstrip(b"\r ").rsplit(b" ", self.d)
        if len(pieces) < self.d:
            refuse(where, wanted, f"{len(pieces)} numbers" if word else "a blank line", remedy)
        if not word:
            refuse(where, wanted, "no word before the numbers", remedy)
        if b" " in word and _numbers([word.rpartition(b" ")[2]]) is not None:
            refuse(where, wanted, f"a number more, {_shown(word.rpartition(b' ')[2])}", remedy)
        numbers = _numbers(pieces)
        if numbers is None or not np.isfinite(numbers).all():
            wrong = next(
                piece
                for piece in pieces
                if (number := _numbers([piece])) is None or not np.isfinite(number).all()
            )
            refuse(where, f"{self.d} finite numbers that float32 can hold", _shown(wrong), remedy)
        try:
            return word.decode(errors="replace" if self.errors == "replace" else "strict"), numbers
        except UnicodeDecodeError as error:
            got = f"byte 0x{word[error.start]:02x} in {_shown(word)}"
            refuse(where, "UTF-8 text", got, 'convert the file to UTF-8, or pass errors="replace"')

    def _keep(self, words: list[str], vectors: np.ndarray) -> None:
        new = []
        for i, word in enumerate(words):
            if word not in self.rows:
                self.rows[word] = len(self.rows)
                new.append(i)
        if len(new) < len(words):
            self.duplicates += len(words) - len(new)
            vectors = vectors[new]
        # grows where it lies, so that there are never two of it
        self.matrix.resize((len(self.rows), self.d), refcheck=False)
        self.matrix[len(self.rows) - len(new) :] = vectors

    def result(self) -> StaticVectors:
        if not self.rows:
            got = "an empty file" if not self.line else "a header alone"
            refuse(str(self.path), "word vectors", got, "check the path")
        if self.promised is not None and not self.full and self.words_seen < self.promised:
            wanted = f"{self.promised} words, as the header says"
            remedy = "fetch the file again, or repair the header"
            refuse(f"{self.path}:{self.line}", wanted, f"the end after {self.words_seen}", remedy)
        if self.duplicates:
            say(
                f"{self.path}: {self.duplicates} line(s) left out, whose words stand on "
                f"earlier lines"
            )
        return StaticVectors(list(self.rows), self.matrix, self.duplicates)


def _first_lines(block: bytes, count: int) -> tuple[bytes, bytes]:
    """The first ``count`` lines, and the rest."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    at = int(ends[count - 1]) + 1 if count <= len(ends) else len(block)
    return block[:at], block[at:]


def _numbers(pieces: list[bytes]) -> np.ndarray | None:
    """The numbers as the quick reading reads them, or None."""
    try:
        return pa.array(pieces, pa.binary()).cast(pa.string()).cast(pa.float32()).to_numpy()
    except pa.ArrowInvalid:
        return None


def _shown(data: bytes) -> str:
    text = data.decode(errors="replace")
    return repr(text if len(text) <= 40 else text[:39] + "…")


def write_vec(path: str | Path, vectors: StaticVectors) -> None:
    """Write vectors as a .vec file with a header, whole or not at all.

    Parameters
    ----------
    path: the file, without compression.
    vectors: what to write. Each number has as many digits as it takes (9 at most) for
        :func:`read_vec` to give the very same float32.

    Raises
    ------
    InputError: a word could not be read back: it holds a line feed or no UTF-8 text, or is ``route
        66`` (see :func:`read_vec`).
    OutputError: the file cannot be written.
    """
    for row, word in enumerate(vectors.words):
        last = word.rpartition(" ")[2]
        if "\n" in word or (last != word and _numbers([last.encode(errors="replace")]) is not None):
            expected = "a word that a .vec file can hold"
            refuse(f"words[{row}]", expected, repr(word), "leave the word out")
        check_sentence(word, f"words[{row}]")
    n, d = vectors.vectors.shape
    with (
        _writing(path) as file,
        Progress(len(vectors), f"writing {file_name(path)}", "words") as progress,
    ):
        file.write(f"{n} {d}\n".encode())
        for start in range(0, n, _WRITTEN):
            words = vectors.words[start : start + _WRITTEN]
            numbers = pa.array(vectors.vectors[start : start + _WRITTEN].ravel()).cast(pa.string())
            rows = compute.binary_join(
                pa.ListArray.from_arrays(range(0, d * len(words) + 1, d), numbers), " "
            ).to_pylist()
            file.write(
                "".join(f"{word} {row}\n" for word, row in zip(words, rows, strict=True)).encode()
            )
            progress.add(len(words))


@contextlib.contextmanager
def _writing(path: str | Path) -> Iterator[BinaryIO]:
    """A file that takes its name when it is whole, as in :func:`crosslens.files.write_whole`, but
    is never whole in memory."""
    path = Path(path)
    aside = path.with_name(f".{path.name}.partial")
    try:
        with open(aside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            cannot_write(path, error.strerror)
        raise
