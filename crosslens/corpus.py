"""Text of one language, and texts that are translations of each other line by line.

A :class:`Corpus` is a list of sentences with their ids. It is read from a file of plain text
(:mod:`crosslens.readers.plain`), from a data set of Hugging Face
(:mod:`crosslens.readers.data_set`), or, with words, by :mod:`crosslens.readers.words`.
"""

import dataclasses
import functools
import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

from crosslens.errors import quote, refuse
from crosslens.files import check_name

__all__ = [
    "Corpus",
    "Lazy",
    "as_corpus",
    "check_parallel",
    "check_sentence",
    "check_spans",
]

_T = TypeVar("_T")


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


# columns of the index of activations; annotations stand beside them
_INDEX = ("id", "language", "text", "position", "word", "start", "end", "pieces", "count", "piece")


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
    InputError: counts differ, a span is not one of its sentence, or an annotation is no string, or
        called as a column of the index of activations is ("word", say). A :class:`Lazy` sequence is
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
            if column in _INDEX:
                got = f"one called {column!r}, which the index of activations has already"
                refuse("annotations", "columns of other names", got, "call it otherwise")
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
                if odd := [one for one in row if not isinstance(one, str)]:
                    expected = f"values of {column!r} that are strings"
                    refuse(f"{self.name}:{number}", expected, quote(odd[0]), "write it as text")

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
