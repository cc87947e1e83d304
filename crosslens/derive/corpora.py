"""Whole texts: every sentence derived, the words' annotations with it, and a map that leads back.

A text without words is cut into words at white space, the marks of punctuation around them being
words of their own; in a line of several sentences each is derived in its place. A text with words
(a treebank, words with tags) is derived sentence by sentence as its file has them.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from crosslens.checks import check_seed
from crosslens.corpus import Corpus, as_corpus, check_sentence
from crosslens.derive.labels import (
    OUTSIDE,
    check_tree,
    derived_entities,
    derived_heads,
    derived_tags,
)
from crosslens.derive.markers import TokenHop, WordHop, is_marked
from crosslens.derive.registry import derived_code, transformation
from crosslens.derive.text_words import punctuation_spans, sentence_bounds
from crosslens.derive.transformation import INSERTED, Derived, Sentence, Transformation
from crosslens.derive.transliteration import Transliteration
from crosslens.errors import InputError, check_choice, quote, refuse
from crosslens.files import check_shape
from crosslens.progress import Progress
from crosslens.trees import head_number

__all__ = ["DerivedCorpus", "LineDeriver", "derive_corpus", "restore"]

Span = tuple[int, int]
Unit = Literal["sentence", "line"]
Tags = Literal["consistent", "raw"]
_EMPTY = "_"
_FILE = "take it from the .back.jsonl file of this text"


class _Back(TypedDict):
    """What leads from a derived line back to its original."""

    sources: list[int]  # where each word of the line is from
    words: NotRequired[dict[str, str]]  # place -> a word of the original that is not in the line
    glued: NotRequired[list[int]]  # places of words without a space before them
    text: NotRequired[str]  # the original itself, where the others are not enough


@dataclasses.dataclass(frozen=True)
class DerivedCorpus:
    """A derived text, and the way back.

    Attributes
    ----------
    corpus: the derived text, under its own code ("eng-inversion"), with the ids of the original; it
        has words and annotations where the original has.
    sources: for each sentence, where each of its words is from; -1 for one that stands for none.
    back: for each sentence what :func:`restore` needs to make the original of it, as JSON has it.

    >>> made = derive_corpus(["The cat sat.", "It slept."], "inversion", language="eng")
    >>> made.corpus, made.corpus.sentences
    (Corpus(eng-inversion, 2 sentences), ['. sat cat The', '. slept It'])
    >>> [restore(*both) for both in zip(made.corpus.sentences, made.back, strict=True)]
    ['The cat sat.', 'It slept.']
    """

    corpus: Corpus
    sources: Sequence[Sequence[int]]
    back: Sequence[Mapping[str, Any]]


class LineDeriver:
    """Derives line after line of a text, and counts its sentences.

    Parameters
    ----------
    how: the transformation. seed: of the language.
    unit: "sentence": each sentence of a line is derived in its place; "line": the line as a whole.
    epoch: which pass over the text it is, for what is drawn anew in each.

    Raises
    ------
    InputError: another unit, or a seed or an epoch that is none.

    >>> from crosslens.derive.reorderings import Inversion
    >>> deriver = LineDeriver(Inversion(), 0, "sentence")
    >>> deriver.line(Sentence("A dog . A cat .".split())).tokens
    ['.', 'dog', 'A', '.', 'cat', 'A']
    """

    def __init__(self, how: Transformation, seed: int, unit: Unit = "sentence", epoch: int = 0):
        if unit not in ("sentence", "line"):
            expected = "sentence or line"
            refuse("unit", expected, quote(unit), "take derive_blocks for blocks of subwords")
        self.how, self.unit = how, unit
        self.seed, self.number = check_seed(seed), 0
        self.epoch = check_seed(epoch, name="epoch")

    def line(
        self, sentence: Sentence, *, whole: bool = False, together: Iterable[Span] = ()
    ) -> Derived:
        """The derived line.

        Parameters
        ----------
        whole: whether the line is one sentence. together: (first, last) words, within which no
            sentence ends.
        """
        n = len(sentence.tokens)
        bounds = [(0, n)]
        if self.unit == "sentence" and not whole:
            bounds = sentence_bounds(sentence.tokens)
        for first, last in together:
            cut = [start for start, _ in bounds if first < start <= last]
            starts = sorted({start for start, _ in bounds} - {*cut})
            bounds = list(zip(starts, [*starts[1:], n], strict=True))
        tokens, sources = list[Any](), list[int]()
        for start, end in bounds:
            one = sentence if (start, end) == (0, n) else _part(sentence, start, end)
            derived = self.how.derive(one, self.seed, self.number, epoch=self.epoch)
            self.number += 1
            tokens += derived.tokens
            sources += [s if s == INSERTED else s + start for s in derived.sources]
        return Derived(tokens, sources)


def _part(sentence: Sentence, start: int, end: int) -> Sentence:
    columns = {name: values[start:end] for name, values in sentence.columns.items()}
    return dataclasses.replace(
        sentence, tokens=sentence.tokens[start:end], columns=columns, heads=None
    )


def derive_corpus(
    text: Corpus | Sequence[str],
    how: str | Transformation,
    seed: int = 0,
    *,
    language: str | None = None,
    unit: Unit = "sentence",
    epoch: int = 0,
    labels: bool = True,
    tags: Tags = "consistent",
    places: Sequence[str] | None = None,
    spans: Mapping[int, Sequence[Span]] | None = None,
) -> DerivedCorpus:
    """A text as it is in a derived language.

    Parameters
    ----------
    text: a corpus, or sentences. Words of a treebank are derived by their forms, so that the parts
        of a multiword token are words of their own. language: of a list of sentences.
    how: a transformation or its text form (:func:`crosslens.derive.registry.transformation`).
    seed: of the derived language: everything that is drawn follows from it.
    unit: "sentence" derives each sentence of a line in its place, "line" the line as a whole; words
        with annotations are sentences already. epoch: which pass over the text it is, for
        transformations that are drawn anew in each.
    labels: whether the words' annotations follow: heads so that the same words are joined, names
        (column ``ner``) with B- and I- written anew, every other column with its word. False gives
        the text alone.
    tags: "raw" leaves B- and I- as the words have them, as Deshpande et al.'s code does.
    places: what each sentence is called in a refusal, ``file:line`` say; without it the name of the
        text and the sentence's number.
    spans: number of a line -> (start, end) in characters of what is one thing, an answer say: no
        sentence ends within it.

    Raises
    ------
    InputError: no such transformation; a sentence without what it needs; heads that are no tree;
        or annotations that would break: the message names the sentence. Or a transliteration of a
        text more than half of whose words are in neither script.

    >>> derive_corpus(["A dog . A cat ."], "inversion", unit="line").corpus.sentences
    ['. cat A . dog A']
    """
    corpus, made = as_corpus(text, language), transformation(how)
    check_choice(tags, "tags", ("consistent", "raw"))
    deriver = LineDeriver(made, seed, unit, epoch)
    parts, kept = getattr(made, "parts", (made,)), collections.Counter[bool]()
    columns = corpus.annotations or {}
    _check_hops(parts, columns, corpus.name)
    keeps = not {"order", "length"} & made.changes and "form" not in columns
    lines, sources, back = list[str](), list[Sequence[int]](), list[Mapping[str, Any]]()
    words = list[list[Span]]()
    annotations = {name: list[list[str]]() for name in columns}
    with Progress(len(corpus), f"deriving {corpus.name}", "sentences") as progress:
        for number, original in enumerate(corpus.sentences):
            place = places[number] if places else f"{corpus.name}:{number + 1}"
            sentence, there = _sentence(corpus, number, original, place)
            together = _words_of((spans or {}).get(number, ()), there or ())
            derived = deriver.line(sentence, whole=bool(columns), together=together)
            if columns and labels:
                for name, values in _annotated(sentence, derived, tags).items():
                    annotations[name].append(values)
            line, placed = _line(original, there, derived.tokens, keeps)
            lines.append(line)
            words.append(placed)
            if any(isinstance(part, Transliteration) for part in parts):
                kept.update(_kept(sentence.tokens, derived))
            sources.append(derived.sources)
            back.append(_back(original, there, derived, line))
            progress.add(1)
    if 2 * kept[True] > kept.total():
        expected = f"text in the letters of {made.name}"
        got = f"{kept[True]:,} of {kept.total():,} words in others"
        remedy = "name the two scripts (greek-latin, say), or transliterate subwords"
        refuse(corpus.name, expected, got, remedy)
    result = Corpus(
        derived_code(corpus.language, made),
        lines,
        corpus.ids,
        f"{corpus.name}, {made.name}",
        words if corpus.words is not None else None,
        annotations if labels and columns else None,
    )
    return DerivedCorpus(result, sources, back)


def _check_hops(
    parts: Sequence[Transformation], columns: Mapping[str, Sequence[Sequence[str]]], name: str
) -> None:
    """Refuse hops in a text without a verb whose number they could take."""
    hops = [part for part in parts if isinstance(part, TokenHop | WordHop)]
    if hops and "feats" in columns and not any(map(is_marked, itertools.chain(*columns["feats"]))):
        expected = f"a verb in the third person, whose number {hops[0].name} takes"
        got = "no word with Person=3, Tense=Pres, VerbForm=Fin and Number=Sing or Number=Plur"
        refuse(name, expected, got, "give a treebank whose column feats has these features")


def _sentence(
    corpus: Corpus, number: int, text: str, place: str
) -> tuple[Sentence, Sequence[Span] | None]:
    """A sentence with what is known of its words; and their spans, None where words are written by
    their forms."""
    columns = {name: values[number] for name, values in (corpus.annotations or {}).items()}
    if "form" in columns:
        heads = None
        if any(cell != _EMPTY for cell in columns.get("head", ())):
            heads = [head_number(cell, place) for cell in columns["head"]]
            check_tree(heads, place)
        return Sentence(columns["form"], columns, heads, corpus.language, place), None
    check_sentence(text, place)
    spans = punctuation_spans(text) if corpus.words is None else corpus.words[number]
    forms = [text[start:end] for start, end in spans]
    return Sentence(forms, columns, None, corpus.language, place), spans


def _kept(tokens: Sequence[str], derived: Derived) -> Iterator[bool]:
    """Of each word with letters, whether it is what it was."""
    for token, source in zip(derived.tokens, derived.sources, strict=True):
        if source != INSERTED and any(map(str.isalpha, tokens[source])):
            yield token == tokens[source]


def _words_of(spans: Sequence[Span], words: Sequence[Span]) -> list[Span]:
    """The (first, last) word of each span of characters that has one."""
    found = list[Span]()
    for start, end in spans:
        inside = [i for i, (first, last) in enumerate(words) if first < end and last > start]
        found += [(inside[0], inside[-1])] if inside else []
    return found


def _annotated(sentence: Sentence, derived: Derived, tags: Tags) -> dict[str, list[str]]:
    """Each column of the derived sentence."""
    made = dict[str, list[str]]()
    for name, values in sentence.columns.items():
        if name == "head" and sentence.heads is not None:
            heads = derived_heads(derived, sentence.heads, sentence.place)
            made[name] = [str(head) for head in heads]
        elif name == "ner" and tags == "consistent":
            made[name] = derived_entities(derived, values, sentence.place)
        else:
            made[name] = derived_tags(derived, values, OUTSIDE if name == "ner" else _EMPTY)
    if "form" in made:
        made["form"] = [*derived.tokens]
    return made


def _line(
    text: str, spans: Sequence[Span] | None, tokens: Sequence[str], keeps: bool
) -> tuple[str, list[Span]]:
    """The derived words as a line, and where each stands: between single spaces, or, where all
    words keep their places, with what was between them."""
    if keeps and spans is not None and len(spans) == len(tokens):
        ends = [0, *(end for _, end in spans)]
        between = [text[end:start] for end, (start, _) in zip(ends, spans, strict=False)]
        rest = text[ends[-1] :]
    else:
        between, rest = [" " if place else "" for place in range(len(tokens))], ""
    pieces, placed, at = list[str](), list[Span](), 0
    for gap, token in zip(between, tokens, strict=True):
        at += len(gap)
        placed.append((at, at + len(token)))
        at += len(token)
        pieces += [gap, token]
    return "".join([*pieces, rest]), placed


def _back(text: str, spans: Sequence[Span] | None, derived: Derived, line: str) -> dict[str, Any]:
    """What leads from a derived line to its original: the places that its words are from, which of
    them had no space before them and which words are not in the line; or, where that is not enough
    (other white space, say), the original itself."""
    record: dict[str, Any] = {"sources": derived.sources}
    if spans is not None:
        there = dict(zip(derived.sources, derived.tokens, strict=True))
        forms = [text[start:end] for start, end in spans]
        glued = [i for i in range(1, len(spans)) if spans[i][0] == spans[i - 1][1]]
        lost = {str(i): form for i, form in enumerate(forms) if there.get(i) != form}
        record |= {"glued": glued} if glued else {}
        if len(lost) < len(forms) and line.count(" ") == len(derived.tokens) - 1:
            record |= {"words": lost} if lost else {}
            if _restored(line, record) == text:
                return record
    return {"sources": derived.sources, "text": text}


def restore(line: str, back: Mapping[str, Any]) -> str:
    """The original of a derived line, from what is kept beside it.

    Parameters
    ----------
    line: derived. back: its entry of ``DerivedCorpus.back``, or of the file of it.

    Raises
    ------
    InputError: the line has another number of words than its entry, or this is none.

    >>> restore(". cat A", {"sources": [2, 1, 0], "glued": [2]})
    'A cat.'
    """
    check_shape(back, "back", _Back, _FILE, InputError)
    return _restored(line, back)


def _restored(line: str, back: Mapping[str, Any]) -> str:
    if "text" in back:
        return str(back["text"])
    tokens, sources = line.split(" "), back["sources"]
    if len(tokens) != len(sources):
        expected = f"a line of {len(sources)} words"
        refuse("line", expected, str(len(tokens)), "take the entry of this very line")
    words = {
        str(source): token for source, token in zip(sources, tokens, strict=True) if source >= 0
    }
    words |= back.get("words", {})
    places = [str(place) for place in range(len(words))]
    if missing := [place for place in places if place not in words]:
        got = f"nothing at place {missing[0]} of {len(words)}"
        refuse("back", "an entry with every word of the original", got, _FILE)
    glued = {"0", *map(str, back.get("glued", ()))}
    return "".join(("" if place in glued else " ") + words[place] for place in places)
