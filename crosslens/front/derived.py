"""Files of texts and of labelled data to files of a derived language."""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from crosslens.corpus import Corpus, Lazy
from crosslens.derive.composition import Composition
from crosslens.derive.corpora import DerivedCorpus, Tags, Unit, derive_corpus
from crosslens.derive.passages import derived_answer
from crosslens.derive.registry import derived_code, transformation
from crosslens.derive.text_words import punctuation_spans
from crosslens.derive.transformation import Transformation
from crosslens.derive.transliteration import SubwordTransliteration
from crosslens.errors import OutputError, check_choice, quote, refuse
from crosslens.files import check_writable, make_folder, write_whole
from crosslens.languages import same_language
from crosslens.progress import say
from crosslens.readers.labelled_text import read_labelled_text
from crosslens.readers.plain import read_lines, read_text
from crosslens.readers.questions import Answer, Question, questions_text, read_questions
from crosslens.readers.sentence_pairs import read_sentence_pairs
from crosslens.readers.tagged_words import read_tagged_words, tagged_text
from crosslens.readers.treebank import conllu_text, words_apart
from crosslens.readers.words import (
    SEGMENTERS,
    is_unspaced,
    read_conllu,
    read_words,
    segment,
    split_words,
)

__all__ = ["DerivedFile", "check_derives", "derive_files", "sentence_places", "with_words"]

_Derived = tuple[DerivedCorpus, Corpus]
Files = Mapping[str, str | Path]
_SPLITS = {"train": "tr", "dev": "va", "test": "te"}  # as SentEval calls them


@dataclasses.dataclass(frozen=True)
class DerivedFile:
    """A file of a derived language.

    Attributes
    ----------
    kind: "text", "labels", "pairs", "treebank", "iob2" or "questions".
    language: its code, "eng-inversion".
    path: where it is. back: the map back, a JSON object for each of its sentences in order, with an
        ``id`` and what :func:`crosslens.derive.corpora.restore` needs.
    sentences, words: how many it has, as it was derived.
    shared: the share of its word types that the original has as well, from 0 to 1.
    """

    kind: str
    language: str
    path: Path
    back: Path
    sentences: int
    words: int
    shared: float


class _Made(NamedTuple):
    """The content of a file, and what it is made of."""

    content: str
    suffix: str
    derived: DerivedCorpus
    original: Corpus


@dataclasses.dataclass(frozen=True)
class _Asked:
    """How every file is derived."""

    how: Transformation
    seed: int
    unit: Unit
    words: str
    tags: Tags
    epoch: int

    def corpus(
        self,
        corpus: Corpus,
        path: str | Path = "",
        *,
        labels: bool = True,
        spans: Mapping[int, Sequence[tuple[int, int]]] | None = None,
    ) -> _Derived:
        """A text, derived; where its file has a word a line, refusals name the lines."""
        places = sentence_places(path) if corpus.annotations and path else []
        derived = derive_corpus(
            corpus,
            self.how,
            self.seed,
            unit=self.unit,
            epoch=self.epoch,
            labels=labels,
            tags=self.tags,
            places=places if len(places) == len(corpus) else None,
            spans=spans,
        )
        return derived, corpus


def with_words(corpus: Corpus, words: str) -> Corpus:
    """A plain text with the words that it is derived or parsed by.

    Raises
    ------
    InputError: "punctuation" in a script that puts no spaces between words, whose lines would be
        words.
    """
    if words == "whitespace":
        return split_words(corpus)
    if words != "punctuation":
        return segment(corpus, words)
    texts = corpus.sentences
    if is_unspaced({word for text in texts for word in text.split()}):
        expected = f"a segmenter for {corpus.name}, whose script puts no spaces between words"
        remedy = f"give one of {', '.join(SEGMENTERS)}; whitespace, where spaces were put in"
        refuse("words", expected, "punctuation", remedy)
    found = Lazy(len(corpus), lambda i: punctuation_spans(texts[i]))
    return dataclasses.replace(corpus, words=found)


def check_derives(how: Transformation, kind: str, path: str | Path) -> None:
    """Pass if a kind of file can be derived so at all.

    Raises
    ------
    InputError: words of a treebank would come or go, or ids of subwords are wanted.

    >>> check_derives(transformation("inversion"), "text", "eng.txt")
    """
    parts = how.parts if isinstance(how, Composition) else [how]
    if any(isinstance(part, SubwordTransliteration) for part in parts):
        got, remedy = (
            f"{how.name}, which is of subwords' ids",
            "name a script: transliteration:greek",
        )
        refuse(f"--{kind} {path}", "a transformation of words", got, remedy)
    if kind == "treebank" and "length" in how.changes:
        got = f"{how.name}, by which words come or go"
        remedy = "give --text the treebank: its text alone is derived"
        refuse(f"--treebank {path}", "a transformation that keeps each word", got, remedy)


def derive_files(
    by: str | Transformation,
    out: str | Path,
    *,
    text: Files | None = None,
    labels: Files | None = None,
    pairs: Files | None = None,
    treebank: Files | None = None,
    iob2: Files | None = None,
    questions: Files | None = None,
    seed: int = 0,
    unit: Unit = "sentence",
    words: str = "punctuation",
    tags: Tags = "consistent",
    epoch: int = 0,
) -> list[DerivedFile]:
    """Write texts and labelled data as a derived language has them, and for each file a map back.

    Each file has the name of its original with the derived language's code in it, and lies in
    ``out``: ``en_ewt-ud-dev.conllu`` becomes ``eng-inversion_ewt-ud-dev.conllu``, so that tasks find
    it in a data folder. Everything is derived before the first file is written; the same call on a
    folder that has these files already changes nothing.

    Parameters
    ----------
    by: a transformation, or its text form: "inversion", "transliteration+permutation".
    out: the folder.
    text: language to a text, a sentence a line, or .conllu, or .jsonl with text and words.
    labels: language to lines of label TAB text. pairs: to pairs of sentences with labels, as XNLI
        has them; of a file with a column ``language`` those of this one. treebank: to CoNLL-U; words
        stand in their new order, each below its own head.
    iob2: language to words with BIO tags. questions: to questions as SQuAD 1.1 has them; the
        passages, the questions and the places of answers are derived.
    seed: of the derived language: the same for all its files.
    unit: what is derived in its place: "sentence", each of a line, or "line".
    words: of plain text: "punctuation" (white space, marks around a word being words of their own),
        "whitespace", or a segmenter of :data:`crosslens.readers.words.SEGMENTERS`.
    tags: of iob2: "consistent" writes B- and I- anew, "raw" leaves them with their words.
    epoch: which pass over the text it is, for what is drawn anew in each.

    Returns
    -------
    What was written, in the order of the arguments.

    Raises
    ------
    InputError: no such transformation, nothing to derive, a file that cannot be read or that lacks
        what the transformation needs, or labels that would break: an answer whose words are torn
        apart, a tree whose words have changed.
    OutputError: a file of that name with another content.

    >>> import tempfile
    >>> import crosslens as cl
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "eng.txt").write_text("The cat sat.\\n")
    >>> [made] = cl.derive_files("inversion", folder / "derived", text={"eng": folder / "eng.txt"})
    >>> made.path.name, made.path.read_text(), made.back.read_text()
    ('eng-inversion.txt', '. sat cat The\\n', '{"id": "0", "sources": [3, 2, 1, 0], "glued": [3]}\\n')
    """
    check_choice(words, "words", ("punctuation", "whitespace", *SEGMENTERS))
    asked = _Asked(transformation(by), seed, unit, words, tags, epoch)
    given = {
        "text": (text, _text),
        "labels": (labels, _labels),
        "pairs": (pairs, _pairs),
        "treebank": (treebank, _treebank),
        "iob2": (iob2, _iob2),
        "questions": (questions, _questions),
    }
    for kind, (files, _) in given.items():
        for path in (files or {}).values():
            check_derives(asked.how, kind, path)
    check_writable(out)
    files_of = [
        (kind, language, path, derive)
        for kind, (files, derive) in given.items()
        for language, path in (files or {}).items()
    ]
    # plain text, of which there may be most, comes after what labels and trees may refuse
    last_first = [derive(asked, path, language) for _, language, path, derive in reversed(files_of)]
    made = [(*told[:3], one) for told, one in zip(files_of, reversed(last_first), strict=True)]
    if not made:
        got = "none"
        refuse("text", "a file to derive", got, "give a text, or one of the other kinds")
    return _written(Path(out), asked.how, made)


def _text(asked: _Asked, path: str | Path, language: str) -> _Made:
    plain = str(path).removesuffix(".gz")
    if plain.endswith((".conllu", ".jsonl")):
        read = read_conllu if plain.endswith(".conllu") else read_words
        there = read(path, language)
        if plain.endswith(".jsonl"):
            _check_spans(there, path)
        derived, original = asked.corpus(there, path, labels=False)
        original = words_apart(original) if "form" in (original.annotations or {}) else original
    else:
        lines = read_text(path, language)
        _check_no_table(lines, path)
        derived, original = asked.corpus(with_words(lines, asked.words))
    return _Made("\n".join(derived.corpus.sentences) + "\n", ".txt", derived, original)


def _check_spans(corpus: Corpus, path: str | Path) -> None:
    """Refuse sentences of JSON lines of which text would be lost, or that would be two lines."""
    assert corpus.words is not None
    for number, (text, spans) in enumerate(zip(corpus.sentences, corpus.words, strict=True), 1):
        where = f"{path}:{number}"
        if "\n" in text or text.endswith("\r"):
            refuse(where, "one line as text", "a line break in it", "put a space in its place")
        ends = [0, *(end for _, end in spans)]
        for end, (start, _) in zip(ends, spans, strict=False):
            if start < end:
                got = f"one from character {start}, where the last ends at {end}"
                refuse(where, "words that do not overlap", got, "repair the spans")
        gaps = zip(ends, [*(start for start, _ in spans), len(text)], strict=True)
        lost = [text[end:start].strip() for end, start in gaps]
        if left := next((part for part in lost if any(map(str.isalnum, part))), ""):
            got = f"{quote(left, 40)} in none"
            refuse(where, "every letter of the text in a word", got, "give all words")
        if not spans:
            refuse(where, "words of the text", "none", "give its words, or leave the line out")


def _check_no_table(corpus: Corpus, path: str | Path) -> None:
    """Refuse a table as text: its ids would be words."""
    lines = [line for line in corpus.sentences if line.strip()]
    if lines and all("\t" in line for line in lines):
        remedy = f"take the column of the text: cut -f2 {path}"
        refuse(str(path), "a sentence a line", "a tab in every line", remedy)


def _labels(asked: _Asked, path: str | Path, language: str) -> _Made:
    read = read_labelled_text(path)
    derived, original = asked.corpus(with_words(read.corpus(language), asked.words))
    columns = [read.labels, derived.corpus.sentences]
    if read.parts is not None:
        columns.insert(0, [_SPLITS[part] for part in read.parts])
    return _Made(_table(*columns), ".tsv", derived, original)


def _table(*columns: Sequence[str]) -> str:
    return "".join("\t".join(cells) + "\n" for cells in zip(*columns, strict=True))


def _pairs(asked: _Asked, path: str | Path, language: str) -> _Made:
    """Both sentences of a pair stand side by side, so that each has a number of its own; of a file of
    several languages the pairs of this one."""
    read = read_sentence_pairs(path, language)
    both = [text for pair in zip(read.firsts, read.seconds, strict=True) for text in pair]
    ids = [f"{number}.{side}" for number in range(len(read)) for side in (1, 2)]
    derived, original = asked.corpus(
        with_words(Corpus(language, both, ids, read.name), asked.words)
    )
    lines = derived.corpus.sentences
    head = ("sentence1", "sentence2", "gold_label")
    columns = (lines[::2], lines[1::2], read.labels)
    told = [[name, *column] for name, column in zip(head, columns, strict=True)]
    return _Made(_table(*told), ".tsv", derived, original)


def _treebank(asked: _Asked, path: str | Path, language: str) -> _Made:
    derived, original = asked.corpus(read_conllu(path, language), path)
    return _Made(conllu_text(derived.corpus), ".conllu", derived, words_apart(original))


def _iob2(asked: _Asked, path: str | Path, language: str) -> _Made:
    derived, original = asked.corpus(read_tagged_words(path, language), path)
    return _Made(tagged_text(derived.corpus, raw=asked.tags == "raw"), ".iob2", derived, original)


def sentence_places(path: str | Path) -> list[str]:
    """``file:line`` of each sentence of a file with a word a line, CoNLL-U say."""
    found, inside = list[str](), False
    for number, line in enumerate(read_lines(path), 1):
        word = bool(line.strip()) and not line.startswith("# ")
        if word and not inside:
            found.append(f"{path}:{number}")
        inside = word or inside and bool(line.strip())
    return found


def _questions(asked: _Asked, path: str | Path, language: str) -> _Made:
    """Passages first, each once, then the questions. No sentence ends within an answer."""
    read = read_questions(path)
    passages = {f"{one.document}.{one.paragraph}": one.context for one in read}
    texts = passages | {one.id: one.question for one in read}
    if len(texts) < len(passages) + len(read):
        refuse(str(path), "ids of questions", "one such as 0.0", "rename the questions")
    rows = {name: row for row, name in enumerate(texts)}
    corpus = with_words(Corpus(language, [*texts.values()], [*texts], Path(path).name), asked.words)
    spans: dict[int, list[tuple[int, int]]] = {}
    for one in read:
        there = spans.setdefault(rows[f"{one.document}.{one.paragraph}"], [])
        there += [(answer.start, answer.end) for answer in one.answers]
    derived, original = asked.corpus(corpus, spans=spans)
    made = [_question(one, rows, derived, original, str(path)) for one in read]
    assert original.words is not None and derived.corpus.words is not None
    grown = 0
    for before, after in zip(read, made, strict=True):
        row = rows[f"{before.document}.{before.paragraph}"]
        for old, new in zip(before.answers, after.answers, strict=True):
            grown += _cuts(old, original.words[row]) and not _cuts(new, derived.corpus.words[row])
    if grown:
        say(f"{path}: {grown:,} answers began or ended within a word, and have all of it now")
    return _Made(questions_text(made), ".json", derived, original)


def _cuts(answer: Answer, words: Sequence[tuple[int, int]]) -> bool:
    """Whether an answer begins or ends within a word."""
    return any(start < edge < end for edge in (answer.start, answer.end) for start, end in words)


def _question(
    one: Question, rows: Mapping[str, int], derived: DerivedCorpus, original: Corpus, path: str
) -> Question:
    row = rows[f"{one.document}.{one.paragraph}"]
    context, words = derived.corpus.sentences[row], derived.corpus.words
    assert words is not None and original.words is not None
    answers = []
    for answer in one.answers:
        start, end = derived_answer(
            (answer.start, answer.end),
            original.words[row],
            words[row],
            derived.sources[row],
            f"{path}, question {quote(one.id)}, answer {quote(answer.text, 40)}",
        )
        answers.append(Answer(context[start:end], start))
    question = derived.corpus.sentences[rows[one.id]]
    return dataclasses.replace(one, question=question, context=context, answers=tuple(answers))


def _written(
    out: Path, how: Transformation, made: Sequence[tuple[str, str, str | Path, _Made]]
) -> list[DerivedFile]:
    """Write everything, each map back before the file that it belongs to."""
    done, contents = list[DerivedFile](), dict[Path, str]()
    for kind, language, path, one in made:
        code = derived_code(language, how)
        target = out / _named(Path(path).name, language, code, one.suffix)
        back = target.with_name(target.name + ".back.jsonl")
        for name, content in ((back, _back_lines(one.derived)), (target, one.content)):
            if contents.get(name, content) != content:
                expected = f"names of their own in {out}"
                refuse(str(path), expected, f"{name.name} twice", "derive them into two folders")
            contents[name] = content
        types = [set(_words(corpus)) for corpus in (one.derived.corpus, one.original)]
        shared = len(types[0] & types[1]) / max(len(types[0]), 1)
        n = sum(len(sources) for sources in one.derived.sources)
        done.append(DerivedFile(kind, code, target, back, len(one.derived.corpus), n, shared))
    for name, content in contents.items():
        if name.exists() and name.read_bytes() != content.encode():
            expected = "a folder without such a file, or with the very same one"
            refuse(str(name), expected, "another content", "choose another folder", OutputError)
    make_folder(out, "--out")
    for name, content in contents.items():
        write_whole(name, content)
    return done


def _back_lines(derived: DerivedCorpus) -> str:
    """The map back: a JSON object a line."""
    rows = zip(derived.corpus.ids, derived.back, strict=True)
    return "".join(
        json.dumps({"id": name, **back}, ensure_ascii=False) + "\n" for name, back in rows
    )


def _words(corpus: Corpus) -> Iterator[str]:
    """The words of a text."""
    assert corpus.words is not None
    for text, spans in zip(corpus.sentences, corpus.words, strict=True):
        yield from (text[start:end] for start, end in spans)


def _named(name: str, language: str, code: str, suffix: str) -> str:
    """A file's name with the derived language's code where the language stands in it (of several places the
    last: tatoeba.fra-eng.eng), or else before its suffix; compressed files become plain ones."""
    stem = re.sub(r"(\.(txt|tsv|conllu|jsonl?|iob2))?(\.gz)?$", "", name)
    parts = re.split(r"([._-])", stem)
    for place in reversed(range(len(parts))):
        if parts[place] and same_language(parts[place], language):
            return "".join([*parts[:place], code, *parts[place + 1 :]]) + suffix
    return f"{stem}.{code}{suffix}"
