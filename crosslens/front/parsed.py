"""Raw text to CoNLL-U, by a parser of the user's."""

import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from crosslens.corpus import Corpus
from crosslens.errors import OutputError, check_choice, refuse
from crosslens.files import cannot_write, lock_file, make_folder
from crosslens.front.derived import with_words
from crosslens.progress import Progress, say
from crosslens.readers.parsers import (
    COLUMNS,
    UNREAD,
    Parser,
    checked_line,
    spacy_parser,
    stanza_parser,
)
from crosslens.readers.plain import read_text
from crosslens.readers.treebank import conllu_text
from crosslens.readers.words import SEGMENTERS

__all__ = ["parse_files", "ready_to_parse"]

_BLOCK = 200  # lines that are parsed and written at once


def parse_files(
    text: Mapping[str, str | Path],
    parser: str | Path,
    out: str | Path,
    *,
    words: str = "punctuation",
    device: str = "cpu",
) -> dict[str, Path]:
    """Parse plain texts into CoNLL-U, a tree for each line, for :func:`crosslens.derive_files` and
    :func:`crosslens.word_order`.

    ``eng.txt`` becomes ``eng.conllu`` in ``out``. A file appears when it is whole; a call that was
    stopped goes on where it was, and one that finds the same text parsed by the same parser parses
    nothing.

    Parameters
    ----------
    text: language to a text, a sentence a line.
    parser: "spacy:PIPELINE", a package or a folder (extra ``spacy``); "stanza:LANGUAGE" or
        "stanza:LANGUAGE:FOLDER" (extra ``stanza``; nothing is downloaded); or the folder of a run of
        transfer that kept a parser and a tagger (``--tasks upos,parsing --keep``). Relations and
        parts of speech must be those of Universal Dependencies.
    out: the folder.
    words: of a run of transfer, which needs them: "punctuation" (white space, marks around a word
        being words of their own), "whitespace", or a segmenter of
        :data:`crosslens.readers.words.SEGMENTERS`. spaCy and Stanza find their own.
    device: of a run of transfer: "cpu", "cuda".

    Returns
    -------
    Language to its file.

    Raises
    ------
    InputError: no such parser, its package or its model is not there, it gives other relations than
        those of Universal Dependencies; a text that cannot be read, or a line that has no tree,
        which is named.
    OutputError: a file of that name with another content.

    >>> import tempfile
    >>> import crosslens as cl
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "eng.txt").write_text("The cat sat.\\n")
    >>> try:
    ...     cl.parse_files({"eng": folder / "eng.txt"}, "udpipe:en", folder)
    ... except cl.CrosslensError as error:
    ...     print(str(error)[:84])
    parser: expected spacy:PIPELINE, stanza:LANGUAGE or the folder of a run of transfer,
    """
    return ready_to_parse(text, parser, out, words=words, device=device)()


def ready_to_parse(
    text: Mapping[str, str | Path],
    parser: str | Path,
    out: str | Path,
    *,
    words: str = "punctuation",
    device: str = "cpu",
) -> Callable[[], dict[str, Path]]:
    """What parses as :func:`parse_files` does, once called: with texts that are read and parsers
    that are loaded, so that all that can be refused beforehand is."""
    check_choice(words, "words", ("punctuation", "whitespace", *SEGMENTERS))
    targets = {language: _target(path, Path(out)) for language, path in text.items()}
    if len({*targets.values()}) < len(targets):
        refuse("text", "names of their own", "one twice", "parse them into two folders")
    read = {language: read_text(path, language) for language, path in text.items()}
    found = {language: _parser(str(parser), language, words, device) for language in read}
    for language, target in targets.items():
        if target.exists():
            _check_same(target, _head(found[language], read[language]))

    def parse() -> dict[str, Path]:
        make_folder(out, "--out")
        for language, corpus in read.items():
            _parse(found[language], corpus, str(text[language]), targets[language])
        return targets

    return parse


def _target(path: str | Path, out: Path) -> Path:
    name = Path(path).name.removesuffix(".gz")
    if name.endswith((".conllu", ".jsonl")):
        expected = "plain text, a sentence a line, where there is a parser"
        refuse(str(path), expected, "a file with words", "leave the parser out")
    return out / f"{name.removesuffix('.txt')}.conllu"


def _parser(asked: str, language: str, words: str, device: str) -> Parser:
    kind, _, name = asked.partition(":")
    if kind in ("spacy", "stanza") and name:
        if words != "punctuation":
            refuse("words", f"none, as {kind} finds them", words, "leave it out")
        if kind == "spacy":
            return spacy_parser(name)
        code, _, folder = name.partition(":")
        return stanza_parser(code, folder or None)
    if not Path(asked).is_dir():
        expected = "spacy:PIPELINE, stanza:LANGUAGE or the folder of a run of transfer"
        refuse("parser", expected, repr(asked), "choose one of these")
    from crosslens.models.finetuning.trained_parser import trained_parser

    cut = functools.partial(with_words, words=words)
    found = trained_parser(asked, language, cut, device=device)
    return Parser(f"{found.name}, words {words}", found.parse)


def _parse(parser: Parser, corpus: Corpus, path: str, target: Path) -> None:
    """Parse what is not parsed yet, and say how many words the parser did not read; the first
    sentence says what the file is made of."""
    head = _head(parser, corpus)
    aside = target.with_name(f".{target.name}.parsing")
    with lock_file(target.with_name(f".{target.name}.lock"), str(target)):
        if target.exists():
            _check_same(target, head)
            say(f"{target}: parsed already")
            _say_unread(target)
            return
        done = _begun(aside, head)
        try:
            with Progress(len(corpus), f"parsing {path}", "lines", done) as progress:
                with aside.open("ab") as file:
                    file.write(b"" if done else head.encode())
                    for start in range(done, len(corpus), _BLOCK):
                        block = range(start, min(start + _BLOCK, len(corpus)))
                        file.write(_block(parser, corpus, path, block).encode())
                        file.flush()
                        progress.add(len(block))
                    os.fsync(file.fileno())
            os.replace(aside, target)
        except OSError as error:
            cannot_write(target, error.strerror or error)
        _say_unread(target)


def _head(parser: Parser, corpus: Corpus) -> str:
    """The lines that a file begins with: by which parser, and of which text."""
    sums = hashlib.sha256("\n".join(corpus.sentences).encode()).hexdigest()[:16]
    return f"# parser = {parser.name}\n# parsed = {sums}\n"


def _check_same(target: Path, head: str) -> None:
    if not target.read_bytes().startswith(head.encode()):
        expected = "a new file, or this text parsed by the same parser"
        refuse(str(target), expected, "another content", "choose another folder", OutputError)


def _say_unread(target: Path) -> None:
    with target.open("rb") as file:
        count = sum(line.split(b"\t")[4:5] == [UNREAD.encode()] for line in file)
    if count:
        say(
            f"{target}: {count:,} words were not read (cut off, or without a subword); they hang below "
            "the word before them"
        )


def _begun(aside: Path, head: str) -> int:
    """How many lines were parsed into a file before it was stopped: whole blocks of them, to which
    it is cut back."""
    there = aside.read_bytes() if aside.exists() else b""
    ends = _ends(there)[_BLOCK - 1 :: _BLOCK]
    if not ends or not there.startswith(head.encode()):
        aside.unlink(missing_ok=True)
        return 0
    with aside.open("r+b") as file:
        file.truncate(ends[-1])
    return len(ends) * _BLOCK


def _ends(content: bytes) -> list[int]:
    """Where the sentences of a file end."""
    found, at = list[int](), content.find(b"\n\n")
    while at >= 0:
        found.append(at + 2)
        at = content.find(b"\n\n", at + 2)
    return found


def _block(parser: Parser, corpus: Corpus, path: str, block: range) -> str:
    lines = [corpus.sentences[number] for number in block]
    places = [f"{path}:{number + 1}" for number in block]
    parsed = parser.parse(lines, places)
    made = [checked_line(line, place) for line, place in zip(parsed, places, strict=True)]
    columns = {
        name: [[row[at] for row in line.rows] for line in made] for at, name in enumerate(COLUMNS)
    }
    ids = [corpus.ids[number] for number in block]
    spans = [line.spans for line in made]
    return conllu_text(Corpus(corpus.language, lines, ids, corpus.name, spans, columns))
