"""The words of a text: where each of them stands in its sentence.

Words come from white space, from CoNLL-U files, from JSON lines that list them, or
from a segmenter where the script writes no spaces. Whatever they come from, a word is a
span of characters of its sentence. A list of words is laid along the text from left to
right, and only white space may stand between two of them; no word is ever searched for.
"""

import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.checks import check_columns
from crosslens.corpus import Corpus, Lazy, check_sentence, check_spans
from crosslens.errors import InputError, check_choice, cut, quote, refuse
from crosslens.files import parse_json
from crosslens.readers.plain import file_name, read_lines

__all__ = [
    "SEGMENTERS",
    "is_unspaced",
    "locate_words",
    "parse_conllu",
    "read_conllu",
    "read_words",
    "segment",
    "split_words",
    "whitespace_spans",
]

Span = tuple[int, int]
Segmenter = Callable[[str], Iterable[str] | Iterable[Span]]

_WORD = re.compile(r"\S+")  # what \s means for text is what str.split() splits at
# letters of scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, CJK
_UNSPACED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_WORD_ID = re.compile(r"([0-9]{1,9})(?:([-.])([0-9]{1,9}))?")
_COLUMNS = {"form": 1, "lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "head": 6, "deprel": 7}


def whitespace_spans(text: str) -> list[Span]:
    """Spans of the longest runs without white space: the words of ``text.split()``.

    No-break and ideographic spaces separate words; zero-width characters are no white space and
    stay in their word.

    >>> whitespace_spans("a  word ")
    [(0, 1), (3, 7)]
    """
    return [found.span() for found in _WORD.finditer(text)]


def is_unspaced(words: Collection[str]) -> bool:
    """Whether most of the words that white space separates are of a script that puts no spaces
    between its own: Chinese, Japanese, Thai, Lao, Khmer, Burmese or Tibetan.

    >>> is_unspaced(["我们学习", "cat", "语言"]), is_unspaced(["chat"])
    (True, False)
    """
    return 2 * sum(bool(_UNSPACED.search(word)) for word in words) > len(words)


def locate_words(text: str, words: Sequence[str], where: str) -> list[Span]:
    """Spans of ``words`` in ``text``; ``where`` is the sentence's place, for the message.

    Raises
    ------
    InputError: the text is not these words in this order with nothing but white space around them.

    >>> locate_words("Don't  go!", ["Do", "n't", "go", "!"], "text.txt:1")
    [(0, 2), (2, 5), (7, 9), (9, 10)]
    >>> locate_words("Don't go!", ["Do", "not", "go", "!"], "text.txt:1")
    Traceback (most recent call last):
    ...
    crosslens.errors.InputError: text.txt:1: expected word 2, 'not', at character 2, got "n't go!"; list the words as the text has them
    """
    return _locate(text, words, lambda _: where)


def _locate(text: str, words: Sequence[Any], where: Callable[[int], str]) -> list[Span]:
    """:func:`locate_words`, where every word has its own place (the last word's is that of what is
    left over)."""
    spans: list[Span] = []
    at, length = 0, len(text)
    for number, word in enumerate(words):
        if not isinstance(word, str) or not word:
            refuse(
                where(number), f"text as word {number + 1}", repr(word), "leave out what is no word"
            )
        while not text.startswith(word, at):  # first of all here: a word may begin with white space
            if at >= length or not text[at].isspace():
                expected = f"word {number + 1}, {word!r}, at character {at}"
                refuse(
                    where(number), expected, _there(text, at), "list the words as the text has them"
                )
            at += 1
        spans.append((at, at + len(word)))
        at += len(word)
    if rest := text[at:].lstrip():
        at = text.index(rest, at)
        got = f"{_there(text, at)} at character {at}"
        refuse(
            where(max(len(words) - 1, 0)),
            f"the end of the text after word {len(words)}",
            got,
            "list all words of the text",
        )
    return spans


def _there(text: str, at: int) -> str:
    """What stands at a place of a text, not too much of it."""
    if at >= len(text):
        return "the end of the text"
    return repr(text[at : at + 20]) + ("…" if len(text) > at + 20 else "")


def split_words(corpus: Corpus) -> Corpus:
    """The corpus with the words that white space separates, found when they are read.

    >>> corpus = split_words(Corpus("eng", ["One two.", "Three."], ["0", "1"], "numbers"))
    >>> corpus.words[0]
    [(0, 3), (4, 8)]
    """
    sentences = corpus.sentences
    words = Lazy(len(corpus), lambda i: whitespace_spans(sentences[i]))
    return dataclasses.replace(corpus, words=words, annotations=None)


@dataclasses.dataclass
class _Sentence:
    """A sentence of a CoNLL-U file while it is read."""

    comments: dict[str, str] = dataclasses.field(default_factory=dict)
    # form, line number, does a space follow
    tokens: list[tuple[str, int, bool]] = dataclasses.field(default_factory=list)
    owners: list[int] = dataclasses.field(default_factory=list)  # word -> its token
    rows: list[list[str]] = dataclasses.field(default_factory=list)  # word -> its ten columns
    until: int = 0  # the last word of the multiword token that is being read

    def add(self, cells: list[str], path: str | Path, number: int) -> None:
        """Take in one line of ten columns."""
        found = _WORD_ID.fullmatch(cells[0])
        following = len(self.rows) + 1
        if found is None:
            expected = "a word's number, or 3-4, or 3.1, in the first column"
            refuse(f"{path}:{number}", expected, quote(cells[0]), "repair the line")
        first, kind, second = found.groups()
        if kind == ".":
            return  # an empty node of the enhanced dependencies stands for nothing in the text
        spaced = "SpaceAfter=No" not in cells[9].split("|")
        if int(first) != following or (
            kind == "-" and (int(second) < following or following <= self.until)
        ):
            remedy = "number the words of a sentence from 1, none twice"
            refuse(f"{path}:{number}", f"word {following}", cells[0], remedy)
        if kind == "-":
            self.tokens.append((cells[1], number, spaced))
            self.until = int(second)
            return
        if following > self.until:
            self.tokens.append((cells[1], number, spaced))
        self.owners.append(len(self.tokens) - 1)
        self.rows.append(cells)

    def place(self, path: str | Path) -> tuple[str, list[Span]]:
        """The text and the spans of the words."""
        text = self.comments.get("text")
        if text is None:
            text = "".join(form + " " * spaced for form, _, spaced in self.tokens).removesuffix(" ")
        spans = _locate(
            text,
            [form for form, _, _ in self.tokens],
            lambda token: f"{path}:{self.tokens[token][1]}",
        )
        return text, [spans[token] for token in self.owners]


def read_conllu(path: str | Path, language: str) -> Corpus:
    """Read the words of a CoNLL-U file (or ``.conllu.gz``), with their annotations.

    The words are the syntactic ones (lines with a whole number); those of a multiword token share
    its span, and empty nodes are left out. The text is that of ``# text``, in which the tokens are
    found one after the other, whatever white space stands between them; without it the text is made
    of the tokens and ``SpaceAfter=No``. The id is ``sent_id``, or else the sentence's number, from
    0. ``annotations`` has form, lemma, upos, xpos, feats, head and deprel, as the file writes them.

    Source: https://universaldependencies.org/format.html

    Raises
    ------
    InputError: as for :func:`crosslens.readers.plain.read_text` but for blank lines; or a line has not ten
        columns, words are not numbered from 1, a token is not in the text, a sentence has no words,
        or two have one id.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "en.conllu"
    >>> dogs, bark = "1 Dogs dog NOUN _ _ 2 nsubj _ _", "2 bark bark VERB _ _ 0 root _ _"
    >>> _ = path.write_text("\\n".join(line.replace(" ", "\\t") for line in (dogs, bark, "", "")))
    >>> dogs = read_conllu(path, "eng")
    >>> dogs.sentences, dogs.words, dogs.annotations["upos"]
    (['Dogs bark'], [[(0, 4), (5, 9)]], [['NOUN', 'VERB']])
    """
    return parse_conllu(read_lines(path), path, language)


def parse_conllu(lines: Sequence[str], path: str | Path, language: str) -> Corpus:
    """The same of lines that are read already; ``path`` is where they are from, for messages."""
    sentences: list[str] = []
    ids: dict[str, int] = {}  # id -> line of the sentence
    words: list[list[Span]] = []
    annotations: dict[str, list[list[str]]] = {column: [] for column in _COLUMNS}
    for number, sentence in _conllu_sentences(lines, path):
        text, spans = sentence.place(path)
        _new_id(ids, sentence.comments.get("sent_id", str(len(ids))).strip(), path, number)
        sentences.append(text)
        words.append(spans)
        for column, cell in _COLUMNS.items():
            # few differ: each is kept once
            annotations[column].append([sys.intern(cells[cell]) for cells in sentence.rows])
    forms = [form for row in annotations["form"] for form in row]
    if 2 * forms.count("_") > len(forms):
        got = f"_ for {forms.count('_'):,} of {len(forms):,}: it is published without its text"
        refuse(str(path), "words", got, "add the text as its README says, or take another treebank")
    return Corpus(language, sentences, list(ids), file_name(path), words, annotations)


def _conllu_sentences(lines: Sequence[str], path: str | Path) -> Iterator[tuple[int, _Sentence]]:
    """(number of its first line, sentence) of each sentence of a file."""
    sentence, begun = _Sentence(), 0
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            begun = begun or number
            if line.startswith("#"):
                key, equals, value = line[1:].partition("=")
                if equals:
                    sentence.comments[key.strip()] = value.removeprefix(" ")
                continue
            cells = line.split("\t")
            check_columns(f"{path}:{number}", cells, 10)
            sentence.add(cells, path, number)
        elif begun:
            if not sentence.rows:
                remedy = "remove the sentence, or give its words"
                refuse(f"{path}:{begun}", "a sentence with words", "none", remedy)
            if sentence.until > len(sentence.rows):
                got = f"the end of the sentence after word {len(sentence.rows)}"
                expected = f"word {sentence.until} of the multiword token"
                refuse(f"{path}:{number - 1}", expected, got, "repair the sentence")
            yield begun, sentence
            sentence, begun = _Sentence(), 0


def _new_id(ids: dict[str, int], name: str, path: str | Path, number: int) -> None:
    if name in ids:
        got = f"{name!r}, the id at line {ids[name]} too"
        refuse(f"{path}:{number}", "an id of its own", got, "give every sentence another id")
    ids[name] = number


def read_words(path: str | Path, language: str) -> Corpus:
    """Read JSON lines (or ``.jsonl.gz``), each with a sentence and its words.

    A line is ``{"text": "Don't go", "words": ["Do", "n't", "go"]}``, or has ``"spans": [[0, 2], [2,
    5], [6, 8]]`` in place of the words: characters, the end excluded. ``"id"``, text or a whole
    number, is the sentence's id; without it that is the number of the line, from 0. Other keys are
    not read.

    Raises
    ------
    InputError: as for :func:`crosslens.readers.plain.read_text`; or a line is not such an object, its
        words are not those of its text, or two lines have one id.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "en.jsonl"
    >>> _ = path.write_text('{"text": "A cat.", "words": ["A", "cat", "."]}')
    >>> read_words(path, "eng").words
    [[(0, 1), (2, 5), (5, 6)]]
    """
    sentences: list[str] = []
    ids: dict[str, int] = {}
    words: list[list[Span]] = []
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}:{number}"
        record = parse_json(line, where, dict, "repair the line", InputError)
        if not isinstance(record.get("text"), str) or ("words" in record) == ("spans" in record):
            got = f"the keys {cut(', '.join(map(repr, record)))}"
            expected = 'an object {"text": …, "words": […]}, or with "spans" for "words"'
            refuse(where, expected, got, "repair the line")
        if not record["text"].strip():
            refuse(where, "a sentence", "a blank text", "remove the line, or fill it")
        name = record.get("id", number - 1)
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            refuse(where, "text or a whole number as id", quote(name), "repair the line")
        _new_id(ids, check_sentence(str(name), f"{where} (id)"), path, number)
        sentences.append(check_sentence(record["text"], where))
        words.append(_listed(record, where))
    return Corpus(language, sentences, list(ids), file_name(path), words)


def _listed(record: dict[str, Any], where: str) -> list[Span]:
    """The spans of one JSON line."""
    key = "words" if "words" in record else "spans"
    listed = record[key]
    if not isinstance(listed, list):
        refuse(where, f"a list as {key}", type(listed).__name__, "repair the line")
    if key == "words":
        return _locate(record["text"], listed, lambda _: where)
    check_spans(record["text"], listed, where)
    # JSON's pairs are lists, and true is a number to Python
    return [(int(start), int(end)) for start, end in listed]


def segment(corpus: Corpus, segmenter: str | Segmenter) -> Corpus:
    """The corpus with the words that a segmenter finds, each sentence's when they are read.

    Parameters
    ----------
    corpus: sentences, in a script without spaces say.
    segmenter: a name of :data:`SEGMENTERS` (extra ``segment``), or a function text -> its words,
        one after the other, or text -> spans (start, end). White space around words is left out; it
        may be a word of its own, which is dropped, or be missing.

    Raises
    ------
    InputError: no segmenter of this name, or its package is not installed; or, when words are read,
        they do not make up the sentence.

    >>> corpus = segment(Corpus("jpn", ["ねこ です"], ["0"], "cats"), lambda text: [text[:2], text[2:3], text[3:]])
    >>> corpus.words[0]
    [(0, 2), (3, 5)]
    """
    if isinstance(segmenter, str):
        check_choice(segmenter, "segmenter", SEGMENTERS, "choose one of them, or give a function")
        try:
            cut = SEGMENTERS[segmenter]()
        except ImportError as error:
            remedy = "type: pip install 'crosslens[segment]'"
            refuse("segmenter", f"the package of {segmenter}", f"none installed ({error})", remedy)
    else:
        cut = segmenter
    sentences, name = corpus.sentences, corpus.name

    def words(i: int) -> list[Span]:
        where = f"{name}:{i + 1}"
        text = check_sentence(sentences[i], where)
        try:
            pieces: list[Any] = list(cut(text))
        # each package has its own kinds: a sentence may be too long for it, say
        except Exception as error:
            if cut is segmenter:
                raise  # a mistake in the caller's own function is shown whole
            got = f"{type(error).__name__}: {' '.join(str(error).split())}"
            remedy = "divide the sentence, or read its words from a file"
            refuse(where, f"a sentence that {segmenter} can cut", got, remedy)
        if any(isinstance(piece, str) for piece in pieces):
            stripped = (piece.strip() if isinstance(piece, str) else piece for piece in pieces)
            return _locate(text, [piece for piece in stripped if piece != ""], lambda _: where)
        check_spans(text, pieces, where)
        return [(int(start), int(end)) for start, end in pieces]

    return dataclasses.replace(corpus, words=Lazy(len(corpus), words), annotations=None)


def _rjieba() -> Segmenter:
    import rjieba

    return rjieba.cut


def _pythainlp() -> Segmenter:
    from pythainlp.tokenize import word_tokenize

    return functools.partial(word_tokenize, engine="newmm")


def _sudachipy() -> Segmenter:
    import sudachidict_small  # noqa: F401  (its absence shall be told like that of any package)
    import sudachipy

    tokenizer = sudachipy.Dictionary(dict="small").tokenizer(mode=sudachipy.SplitMode.A)
    return lambda text: [morpheme.surface() for morpheme in tokenizer.tokenize(text)]


SEGMENTERS: Mapping[str, Callable[[], Segmenter]] = {
    "rjieba": _rjieba,
    "pythainlp": _pythainlp,
    "sudachipy": _sudachipy,
}
"""Name -> what loads it. rjieba: Chinese (jieba's words); pythainlp: Thai (newmm); sudachipy:
Japanese (short units, mode A)."""
