"""fastText's own models: read vectors from a .bin, and train skip-gram vectors on a file of tokens.

A .bin is read here from its parts (settings, words, input vectors, output vectors), and only the
rows that are needed. The package fasttext, which trains, would load it whole, believes whatever it
says (one that is cut short is loaded without a word, or ends the process), and in some versions
scales vectors to length 1.
"""

import codecs
import collections
import contextlib
import dataclasses
import mmap
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.checks import check_positive_int
from crosslens.corpus import check_sentence
from crosslens.errors import InputError, OutputError, check_choice, refuse
from crosslens.files import cannot_write, need_space
from crosslens.progress import Progress, say
from crosslens.readers.plain import file_name
from crosslens.readers.static_vectors import StaticVectors, write_vec

__all__ = ["read_fasttext_bin", "train_skipgram"]

_MAGIC, _VERSIONS, _CLASSIFIER, _END = 793712314, (11, 12), 3, b"</s>"
_HEAD = struct.Struct("<14id")
_COUNTS = struct.Struct("<3i2q")
_ENTRY = struct.Struct("<qb")
_MATRIX = struct.Struct("<?2q")
# a character of UTF-8, or what fastText takes for one
_LETTER = re.compile(rb"[^\x80-\xbf][\x80-\xbf]*")
_BLOCK = 1 << 24


def read_fasttext_bin(
    path: str | Path,
    words: Sequence[str] | None = None,
    *,
    most: int | None = None,
    errors: str = "refuse",
) -> StaticVectors:
    """Read the vectors of words from a fastText model (.bin).

    A word's vector is the mean of its own and those of its character n-grams (Bojanowski et al.
    2017, § 3.2), as in the .vec file that fastText writes. The file is mapped, not loaded.

    Parameters
    ----------
    path: a .bin of fastText, version 11 or 12, not quantised.
    words: the words to read, in the vocabulary or not; a word outside has the n-grams alone.
        Without it, the vocabulary, the most frequent words first; where fastText trained it,
        ``</s>``, the end of a line, is one of them.
    most: the first ``most`` words of the vocabulary only.
    errors: what to do with words of the vocabulary that are not UTF-8: "refuse", or "replace" by
        U+FFFD.

    Raises
    ------
    InputError: no such file, another format, a file that is shorter or longer than it says, or a
        quantised model; a word outside the vocabulary without any n-grams, of which the model knows
        nothing; numbers that are not finite; no words.
    """
    check_choice(errors, "errors", ("refuse", "replace"))
    if words is not None and (most is not None or len(words) == 0):
        got = f"{len(words)} words and most={most}"
        refuse("words", "words, or most, but not both", got, "leave one of them out")
    if most is not None:
        check_positive_int(most, "most")
    model = _read_bin(path)
    if words is None:
        raw = model.words[:most]
        if not raw:
            remedy = "give a model that was trained on text"
            refuse(str(path), "a model with words", "one without", remedy)
        return _first_of_each(path, raw, _composed(model, raw, path), errors)
    raw = [check_sentence(word, f"words[{i}]").encode() for i, word in enumerate(words)]
    return StaticVectors(list(words), _composed(model, raw, path))


def _composed(model: "_Model", raw: list[bytes], path: str | Path) -> np.ndarray:
    ids = {word: i for i, word in enumerate(model.words)}
    vectors = np.empty((len(raw), model.matrix.shape[1]), np.float32)
    with Progress(len(raw), f"reading {file_name(path)}", "words") as progress:
        for i, word in enumerate(raw):
            rows = ([ids[word]] if word in ids else []) + (
                model.ngrams(word) if word != _END else []
            )
            if not rows:
                got = repr(word.decode(errors="replace"))
                expected = f"a word of {path}, or one with n-grams that the model has"
                refuse(f"words[{i}]", expected, got, "leave the word out")
            vectors[i] = model.matrix[rows].mean(axis=0, dtype=np.float64)
            progress.add(1)
    return vectors


def _first_of_each(
    path: str | Path, raw: list[bytes], vectors: np.ndarray, errors: str
) -> StaticVectors:
    """The vocabulary as text; words that replacing has made equal are kept once."""
    rows: dict[str, int] = {}
    for row, word in enumerate(raw):
        try:
            rows.setdefault(word.decode(errors="replace" if errors == "replace" else "strict"), row)
        except UnicodeDecodeError as error:
            got = f"byte 0x{word[error.start]:02x} in word {row}, {word.decode(errors='replace')!r}"
            refuse(str(path), "words in UTF-8", got, 'pass errors="replace"')
    left_out = len(raw) - len(rows)
    if left_out:
        say(f"{path}: {left_out} word(s) left out, which are those of earlier rows")
    return StaticVectors(
        list(rows), vectors[list(rows.values())] if left_out else vectors, left_out
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Model:
    """What a .bin says: words as bytes, lengths of n-grams, and the input vectors (those of the
    words, then those of the buckets)."""

    words: list[bytes]
    shortest: int
    longest: int
    buckets: int
    matrix: np.ndarray

    def ngrams(self, word: bytes) -> list[int]:
        """Rows of the n-grams of ``<word>``: FNV-1a hashes of their bytes, which fastText takes as
        signed."""
        letters = _LETTER.findall(b"<" + word + b">")
        rows = []
        for start in range(len(letters)):
            value = 2166136261
            for n, letter in enumerate(letters[start : start + self.longest], 1):
                for byte in letter:
                    value = (
                        (value ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619
                    ) & 0xFFFFFFFF
                # the marks < and > alone are none
                if n >= self.shortest and not (n == 1 and start in (0, len(letters) - 1)):
                    rows.append(len(self.words) + value % self.buckets)
        return rows


def _read_bin(path: str | Path) -> _Model:
    """A model whose size is what its counts add up to."""
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                refuse(
                    str(path), "a model of fastText (.bin)", "an empty file", "fetch the file again"
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Parts(path, data).read()
    except OSError as error:
        refuse(
            str(path), "a model of fastText (.bin)", error.strerror or str(error), "check the path"
        )
    except struct.error:
        got = f"one cut off at {os.path.getsize(path)} bytes"
        refuse(str(path), "a whole model of fastText", got, "fetch the file again")


@dataclasses.dataclass
class _Parts:
    """A walk through the parts of a .bin."""

    path: str | Path
    data: mmap.mmap
    at: int = 0

    def read(self) -> _Model:
        if len(self.data) < 8 or struct.unpack_from("<i", self.data)[0] != _MAGIC:
            remedy = "read .vec and .txt with read_vec"
            refuse(str(self.path), "a model of fastText (.bin)", "a file of another format", remedy)
        _, version, d, *_, kind, buckets, shortest, longest, _, _ = self._take(_HEAD)
        if version not in _VERSIONS or d < 1:
            expected = "a model of version 11 or 12"
            remedy = "train it with fastText 0.9"
            refuse(str(self.path), expected, f"version {version} with {d} dimensions", remedy)
        size, count, _, _, pruned = self._take(_COUNTS)
        words = self._words(size)
        quantised, rows, columns = self._take(_MATRIX)
        if quantised or pruned >= 0:
            expected = "a model that is not quantised"
            remedy = "give the .bin that it was made from"
            refuse(str(self.path), expected, "a quantised one (.ftz)", remedy)
        begin = self.at
        if min(rows, columns) < 0 or 4 * rows * columns > len(self.data) - begin:
            raise struct.error("fewer vectors than are said to be there")
        self.at += 4 * rows * columns
        _, out_rows, out_columns = self._take(_MATRIX)
        whole = self.at + 4 * out_rows * out_columns
        wrong = (
            (columns, out_columns) != (d, d)
            or count != len(words)
            or rows < count + (buckets if longest > 0 else 0)
        )
        if wrong or (longest > 0 and buckets < 1) or whole != len(self.data):
            got = (
                f"{len(self.data)} bytes, and vectors of {rows} × {columns} for {len(words)} words"
            )
            expected = f"a model of {whole} bytes with {d} dimensions, as it says"
            refuse(str(self.path), expected, got, "fetch the file again")
        if version == 11 and kind == _CLASSIFIER:
            longest = 0  # classifiers had no n-grams then
        return _Model(
            words,
            shortest,
            longest,
            buckets,
            np.memmap(self.path, "<f4", "r", begin, (rows, columns)),
        )

    def _take(self, parts: struct.Struct) -> tuple[Any, ...]:
        values = parts.unpack_from(self.data, self.at)
        self.at += parts.size
        return values

    def _words(self, size: int) -> list[bytes]:
        words = []
        for _ in range(size):
            end = self.data.find(b"\0", self.at)
            if end < 0:
                raise struct.error("a word without an end")
            word, self.at = self.data[self.at : end], end + 1
            _, label = self._take(_ENTRY)
            if not label:
                words.append(word)
        return words


def train_skipgram(
    token_file: str | Path,
    path: str | Path,
    d: int = 300,
    *,
    epochs: int = 5,
    min_count: int = 5,
    window: int = 5,
    negatives: int = 5,
    learning_rate: float = 0.05,
    subwords: tuple[int, int] = (3, 6),
    buckets: int = 2_000_000,
    threads: int = 1,
) -> StaticVectors:
    """Train skip-gram vectors with fastText (Bojanowski et al. 2017) and write them, whole or not
    at all.

    The defaults are fastText's own, but for 300 dimensions and one thread: with one thread the same
    text gives the same file, with more the threads race. Nothing is shown while it trains.

    Parameters
    ----------
    token_file: UTF-8 text, a sentence per line, tokens separated by spaces. Case and punctuation
        are what they are.
    path: ``NAME.vec``, the words and their vectors, or ``NAME.bin``, the whole model, which knows
        n-grams. The model is on disk for a while even where NAME.vec is asked for.
    d: dimensions.
    epochs: how often the text is read.
    min_count: words that occur less often have no vector.
    window: most words to each side that are predicted.
    negatives: words sampled at random for each predicted one.
    learning_rate: at the start; it falls linearly to 0.
    subwords: shortest and longest character n-grams that make up a word's vector; (0, 0) for none,
        as in word2vec.
    buckets: rows of the table of n-grams; memory, and a .bin, have (words + buckets) × d × 4 bytes
        (2.4 GB by default).
    threads: how many train at once.

    Returns
    -------
    the words, the most frequent first, and their vectors; ``</s>``, the end of a line, is one of
    them.

    Raises
    ------
    InputError: no such file, bytes that are not UTF-8, fewer than two words that occur
        ``min_count`` times, an argument out of range, or training that runs off to infinity.
        OutputError: ``path`` cannot be written.
    """
    numbers = {
        "d": d,
        "epochs": epochs,
        "min_count": min_count,
        "window": window,
        "negatives": negatives,
        "threads": threads,
    }
    for name, value in (numbers | {"buckets": buckets}).items():
        check_positive_int(value, name, most=2**31 - 1)
    if not learning_rate > 0:
        refuse("learning_rate", "a number above 0", repr(learning_rate), "leave it out for 0.05")
    shortest, longest = subwords
    if not (subwords == (0, 0) or 1 <= shortest <= longest):
        expected = "the lengths of the shortest and the longest n-gram, or (0, 0)"
        refuse("subwords", expected, repr(subwords), "leave it out for (3, 6)")
    path = Path(path)
    if path.suffix not in (".vec", ".bin"):
        expected = "a file called NAME.vec or NAME.bin"
        refuse("path", expected, path.name, "choose what to write by its name")
    if not path.parent.is_dir():
        expected = "a file in a folder that is there"
        refuse("path", expected, str(path), "make the folder first", OutputError)
    _check_tokens(token_file, min_count)
    need_space(path.parent, 4 * (buckets if longest else 0) * d, "path")
    import fasttext

    try:
        model = fasttext.train_unsupervised(
            str(token_file),
            model="skipgram",
            dim=d,
            epoch=epochs,
            minCount=min_count,
            ws=window,
            neg=negatives,
            lr=learning_rate,
            minn=shortest,
            maxn=longest,
            bucket=buckets if longest else 0,
            thread=threads,
            verbose=0,
            label="\0",
        )
    # (no word begins with the label "\0", so that none is taken for one)
    except (ValueError, RuntimeError) as error:
        expected = "a text that fastText can learn from"
        remedy = "lower learning_rate or min_count"
        refuse(str(token_file), expected, " ".join(str(error).split()), remedy)
    return _save(model, path)


def _save(model: Any, path: Path) -> StaticVectors:
    """Write the model as NAME.bin, or its words' vectors as NAME.vec; nothing has its name before
    it is whole."""
    aside = path.with_name(f".{path.stem}.bin.partial")
    try:
        model.save_model(str(aside))
        try:
            vectors = read_fasttext_bin(aside)
        except InputError as error:  # a full disk, say
            cannot_write(path, error)
        if path.suffix == ".bin":
            os.replace(aside, path)
        else:
            write_vec(path, vectors)
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
    return vectors


def _check_tokens(path: str | Path, min_count: int) -> None:
    """Refuse what is no text, or too little of it: with one word alone fastText looks for another
    one for ever."""
    decoder, lines, rest, frequent = codecs.getincrementaldecoder("utf-8")(), 0, b"", 0
    counts: collections.Counter[bytes] = collections.Counter()
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                decoder.decode(block)
                lines += block.count(b"\n")
                if frequent < 2:  # two will do, and are found at once in any real text
                    block = rest + block
                    cut = max(block.rfind(b" "), block.rfind(b"\n")) + 1
                    counts.update(block[:cut].split())
                    rest = block[cut:]
                    frequent = sum(count >= min_count for _, count in counts.most_common(2))
            decoder.decode(b"", final=True)
    except OSError as error:
        expected = "a file of tokens that can be read"
        refuse(str(path), expected, error.strerror or str(error), "check the path")
    except UnicodeDecodeError as error:
        line = lines + 1 + error.object[: error.start].count(b"\n")
        got = f"byte 0x{error.object[error.start]:02x}"
        refuse(f"{path}:{line}", "UTF-8 text", got, "unpack the file, or convert it to UTF-8")
    counts.update(rest.split())
    frequent = max(frequent, sum(count >= min_count for _, count in counts.most_common(2)))
    if frequent < 2:
        wanted = f"at least 2 different words that occur {min_count} times (min_count)"
        refuse(str(path), wanted, str(frequent), "give more text, or lower min_count")
