"""Sentences whose words have BIO tags: named entities.

One word a line, blank lines between sentences. The tag is the last column (CoNLL-2002 and 2003,
WikiAnn, iob2) or, in a file whose first column numbers the words of each sentence, the third
(Universal NER). Words that are written ``en:word``, as in WikiAnn, are taken without their language.
``# text = …`` says what the sentence is; without it the words stand between single spaces.

In the files of CoNLL-2003 a name begins with I-, and with B- only right behind another one of its
type (IOB1). Such a file is read with B- at the beginning of every name (IOB2). So is one in which
at most one name in a hundred begins with I- (some of Universal NER have one or two), which is said;
one that has more of both is neither, and refused. A sentence with the comment ``# tags = raw``, of a
derived language say, is read as it stands.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from crosslens.corpus import Corpus, check_sentence
from crosslens.errors import quote, refuse
from crosslens.progress import say
from crosslens.readers.plain import file_name, read_lines
from crosslens.readers.words import locate_words

__all__ = ["read_tagged_words", "tagged_text"]

_TAG = re.compile(r"O|[BI]-\S+")
_COMMENT = re.compile(r"# (text|sent_id|tags) = ?(.*)")
_PREFIX = re.compile(r"([a-z]{2,3}(-[a-z]+)*|simple):")  # WikiAnn's languages
_DOCUMENT = "-DOCSTART-"


def read_tagged_words(path: str | Path, language: str, column: str = "ner") -> Corpus:
    """Read the words of a file and their tags, as the annotation ``column`` of the corpus.

    Raises
    ------
    InputError: no such file, not UTF-8, a line without a tag, a tag that is none (B-TYPE, I-TYPE or
        O), names that begin with I- in a file where others begin with B- (more than one in a
        hundred), words that are not those of the sentence's text, or no sentence at all.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "en.iob2"
    >>> _ = path.write_text("Ada\\tB-PER\\nLovelace\\tI-PER\\nwrote\\tO\\n\\n")
    >>> corpus = read_tagged_words(path, "eng")
    >>> corpus.sentences, corpus.annotations["ner"]
    (['Ada Lovelace wrote'], [['B-PER', 'I-PER', 'O']])
    """
    sentences, words, tags = [], [], []
    ids = list[str]()
    for comments, rows in _begun([*_sentences(read_lines(path), path)], path):
        forms = [form for _, form, _ in rows]
        text = comments.get("text", " ".join(forms))
        check_sentence(text, f"{path}:{rows[0][0]}")
        words.append(locate_words(text, forms, f"{path}:{rows[0][0]}"))
        sentences.append(text)
        ids.append(comments.get("sent_id", str(len(ids))))
        tags.append([tag for _, _, tag in rows])
    if not sentences:
        refuse(str(path), "sentences with tagged words", "none", "check the file")
    if len({*ids}) < len(ids):
        ids = [str(number) for number in range(len(ids))]
    return Corpus(language, sentences, ids, file_name(path), words, {column: tags})


Row = tuple[int, str, str]


def _sentences(
    lines: Sequence[str], path: str | Path
) -> Iterator[tuple[dict[str, str], list[Row]]]:
    """Each sentence's comments and its words: line, form, tag."""
    found: list[tuple[dict[str, str], list[tuple[int, list[str]]]]] = []
    comments: dict[str, str] = {}
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate([*lines, ""], 1):
        if not rows and _is_comment(line):
            if comment := _COMMENT.fullmatch(line):
                comments[comment[1]] = comment[2]
        elif not line.strip() or line.startswith(_DOCUMENT):
            if rows:
                found.append((comments, rows))
            comments, rows = {}, []
        else:
            rows.append((number, line.split("\t") if "\t" in line else line.split()))
    numbered = _numbered([[cells for _, cells in some] for _, some in found])
    prefix = _prefix([cells[0] for _, some in found for _, cells in some])
    for comments, some in found:
        words = list[Row]()
        for position, (number, cells) in enumerate(some, 1):
            form, tag = _word(cells, position if numbered else None, f"{path}:{number}")
            words.append((number, form.removeprefix(prefix) or form, tag))
        yield comments, words


def _numbered(sentences: Sequence[Sequence[Sequence[str]]]) -> bool:
    """Whether the first column numbers the words: it does so of most of them. (A number may stand at
    its own place in any file.)"""
    fits = [
        len(cells) >= 3 and cells[0] == str(position) and bool(_TAG.fullmatch(cells[2]))
        for rows in sentences
        for position, cells in enumerate(rows, 1)
    ]
    return 2 * sum(fits) > len(fits)


def _prefix(forms: Sequence[str]) -> str:
    """The language that most words have before them, with its colon; "" where they have none."""
    found = Counter(match[0] for form in forms if (match := _PREFIX.match(form)))
    prefix, times = found.most_common(1)[0] if found else ("", 0)
    return prefix if 2 * times > len(forms) else ""


def _is_comment(line: str) -> bool:
    """Whether a line at the beginning of a sentence is a comment; "# O" is the word # with its
    tag."""
    if not line.startswith("# ") or "\t" in line:
        return False
    return " =" in line or not _TAG.fullmatch(line.split()[-1])


def _begun(
    sentences: Sequence[tuple[dict[str, str], list[Row]]], path: str | Path
) -> list[tuple[dict[str, str], list[Row]]]:
    """The same with B- at the beginning of every name."""
    stray, begun, made = list[tuple[int, str]](), list[int](), []
    for comments, rows in sentences:
        before, found = "O", list[Row]()
        for number, form, tag in rows:
            if tag[1:] != before[1:] and comments.get("tags") != "raw":
                stray += [(number, tag)] * tag.startswith("I-")
                begun += [number] * tag.startswith("B-")
                tag = tag.replace("I-", "B-", 1)
            found.append((number, form, tag))
            before = tag
        made.append((comments, found))
    if stray and begun:
        number, tag = stray[0]
        names = f"{len(stray)} of {len(stray) + len(begun):,} names"
        if 100 * len(stray) <= len(stray) + len(begun):
            say(f"{path}: {names} begin with I- (line {number}: {tag}); read as B-")
            return made
        expected = f"B-{tag[2:]} at the beginning of a name, as line {begun[0]} has"
        refuse(f"{path}:{number}", expected, quote(tag), "repair the line")
    return made


def _word(cells: Sequence[str], number: int | None, place: str) -> tuple[str, str]:
    """A word and its tag; ``number``: which the first column has to give it, if it numbers them."""
    line = "\t".join(cells)
    if number is not None and (len(cells) < 3 or cells[0] != str(number)):
        refuse(place, f"{number}, a word and its tag", quote(line), "repair the line")
    if len(cells) < 2:
        refuse(place, "a word and its tag", quote(line), "repair the line")
    form, tag = (cells[0], cells[-1]) if number is None else (cells[1], cells[2])
    if not _TAG.fullmatch(tag):
        refuse(place, "a tag B-TYPE, I-TYPE or O", quote(tag), "repair the line")
    return form, tag


def tagged_text(corpus: Corpus, column: str = "ner", *, raw: bool = False) -> str:
    """Words and their tags as a file of Universal NER has them.

    Parameters
    ----------
    corpus: with words, and their tags as the annotation ``column``.
    raw: say that names may begin with I- and go on with B-, which stays so when the file is read.

    >>> corpus = Corpus("eng", ["Ada wrote"], ["a"], "toy", [[(0, 3), (4, 9)]], {"ner": [["B-PER", "O"]]})
    >>> print(tagged_text(corpus).expandtabs(8).rstrip())
    # sent_id = a
    # text = Ada wrote
    1       Ada     B-PER   -       -
    2       wrote   O       -       -
    """
    lines = list[str]()
    assert corpus.words is not None and corpus.annotations is not None
    rows = zip(corpus.ids, corpus.sentences, corpus.words, corpus.annotations[column], strict=True)
    for name, text, spans, tags in rows:
        lines += [f"# sent_id = {name}", f"# text = {text}", *["# tags = raw"] * raw]
        for number, ((start, end), tag) in enumerate(zip(spans, tags, strict=True), 1):
            lines.append(f"{number}\t{text[start:end]}\t{tag}\t-\t-")
        lines.append("")
    return "\n".join(lines) + "\n"
