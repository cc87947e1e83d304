"""What a treebank says of its words, as labels for probes, and the trees that its words make.

An extracted activation dataset of words (``unit="word"``) has a row per word of the CoNLL-U file,
and in its index the file's columns: upos, feats, head, deprel and so on. Here these columns become
labels with the numbers of their rows, and heads become trees, depths and distances. Words that have
no label, or no vector because the encoder has no subword for them, are left out and counted.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from crosslens.corpus import Corpus
from crosslens.errors import refuse
from crosslens.trees import check_heads, head_number

__all__ = [
    "RELATIONS",
    "UPOS",
    "Trees",
    "WordLabels",
    "conllu_text",
    "trees",
    "word_labels",
    "words_apart",
]

UPOS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
"""The parts of speech of Universal Dependencies."""
RELATIONS = (
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse "
    "dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis "
    "punct reparandum root vocative xcomp"
).split()
"""The relations of Universal Dependencies (version 2), which subtypes stand behind (nsubj:pass)."""

_EMPTY = "_"  # how CoNLL-U writes that there is nothing
_FEATURE = "feature:"
_PLAIN = ("form", "lemma", "upos", "xpos", "deprel", "ner")


@dataclasses.dataclass(frozen=True, eq=False)
class WordLabels:
    """One label per word, for the words that have one.

    Attributes
    ----------
    labels: shape (m,), text.
    rows: shape (m,), the row of each in the activation dataset, rising.
    without_label: how many words were left out because the file gives them none.
    without_vector: how many were left out because the encoder has no subword for them (or they were
        cut off).
    sharing: how many of the labelled words are parts of a multiword token: they have the vector of
        the whole token, each of them.
    """

    labels: Shaped[np.ndarray, " m"]
    rows: Int[np.ndarray, " m"]
    without_label: int
    without_vector: int
    sharing: int


def word_labels(
    columns: Mapping[str, Sequence[Any]], what: str, *, none: str | None = None
) -> WordLabels:
    """The labels of an activation dataset's words.

    Parameters
    ----------
    columns: of the activation dataset's index (:meth:`crosslens.activations.Activations.index`),
        those that are asked for; with "pieces", words without a vector are left out; with "text",
        "start" and "end", words that share one are counted.
    what: "upos", "xpos", "lemma", "form", "deprel" or "ner", as the file writes them; "coarse_deprel", the
        relation without its subtype (nsubj of nsubj:pass), which Wu & Dredze 2019 predict; or
        "feature:NAME", the value of one feature: "feature:Number".
    none: a label for words for which the file gives none ("_", or not this feature); without it
        they are left out and counted. A lemma "_" is one where the form is "_", too.

    Raises
    ------
    InputError: no such kind of label, no such column, columns of different lengths, or no word with
        a label.

    >>> columns = {"feats": ["Case=Nom|Number=Sing", "_", "Number=Plur"], "pieces": [1, 1, 2]}
    >>> found = word_labels(columns, "feature:Number")
    >>> found.labels.tolist(), found.rows.tolist(), found.without_label
    (['Sing', 'Plur'], [0, 2], 1)
    """
    values = _values(columns, what)
    n = len(values)
    has_label = np.array([value is not None for value in values], bool)
    if none is not None:
        values, has_label = [none if value is None else value for value in values], np.ones(n, bool)
    has_vector = _has_vector(columns, n)
    rows = np.flatnonzero(has_label & has_vector)
    if not len(rows):
        refuse(
            what, "words with such a label", f"none of {n}", 'choose another, or set none="none"'
        )
    return WordLabels(
        labels=np.array([values[row] for row in rows]),
        rows=rows,
        without_label=int((~has_label).sum()),
        without_vector=int((has_label & ~has_vector).sum()),
        sharing=int(_sharing(columns, n)[rows].sum()),
    )


def _values(columns: Mapping[str, Sequence[Any]], what: str) -> list[str | None]:
    """Each word's label, None where it has none."""
    feature = what.removeprefix(_FEATURE) if what.startswith(_FEATURE) else None
    if what not in (*_PLAIN, "coarse_deprel") and not feature:
        expected = f"one of {', '.join(_PLAIN)}, coarse_deprel, or {_FEATURE}NAME"
        refuse("what", expected, repr(what), "choose one of these")
    column = "feats" if feature else "deprel" if what == "coarse_deprel" else what
    cells = _column(columns, column)
    if feature:
        return [dict(_pair(pair) for pair in cell.split("|")).get(feature) for cell in cells]
    if what == "coarse_deprel":
        cells = [cell.split(":")[0] for cell in cells]
    if what == "form":  # the sign "_" is a word, too
        return list(cells)
    if what == "lemma" and "form" in columns:  # and its own lemma
        _check_length(columns, "form", len(cells))
        return [
            None if cell in (_EMPTY, "") and cell != form else cell
            for cell, form in zip(cells, columns["form"], strict=True)
        ]
    return [None if cell in (_EMPTY, "") else cell for cell in cells]


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _column(columns: Mapping[str, Sequence[Any]], name: str) -> Sequence[Any]:
    if name not in columns:
        remedy = "extract words of a CoNLL-U file, and read this column"
        refuse("columns", f"the column {name!r}", f"{', '.join(columns) or 'none'}", remedy)
    return columns[name]


def _has_vector(columns: Mapping[str, Sequence[Any]], n: int) -> Bool[np.ndarray, " n"]:
    if "pieces" not in columns:
        return np.ones(n, bool)
    _check_length(columns, "pieces", n)
    return np.asarray(columns["pieces"]) > 0


def _check_length(columns: Mapping[str, Sequence[Any]], name: str, n: int) -> None:
    if len(columns[name]) != n:
        remedy = "take all columns from the same activations"
        refuse(f"columns[{name!r}]", f"{n} values, one per word", str(len(columns[name])), remedy)


def _sharing(columns: Mapping[str, Sequence[Any]], n: int) -> Bool[np.ndarray, " n"]:
    """Which words have the span of the word before or behind them."""
    if not {"text", "start", "end"} <= columns.keys():
        return np.zeros(n, bool)
    for name in ("text", "start", "end"):
        _check_length(columns, name, n)
    place = np.stack([np.asarray(columns[name]) for name in ("text", "start", "end")], axis=1)
    same = (place[1:] == place[:-1]).all(axis=1)
    return np.r_[False, same] | np.r_[same, False]


@dataclasses.dataclass(frozen=True, eq=False)
class Trees:
    """The dependency trees of some sentences, as words on end.

    Attributes
    ----------
    rows: shape (n,), the row of each word in the activation dataset; the words of a sentence stand
        together, in their order.
    heads: shape (n,), the head's number in its sentence, from 1; 0 for the root.
    lengths: shape (s,), words of each sentence; they sum to n.
    punctuation: shape (n,), True for words whose upos is PUNCT.
    left_out: how many sentences were left out because a word of them has no vector.
    """

    rows: Int[np.ndarray, " n"]
    heads: Int[np.ndarray, " n"]
    lengths: Int[np.ndarray, " s"]
    punctuation: Bool[np.ndarray, " n"]
    left_out: int


def trees(columns: Mapping[str, Sequence[Any]], names: Sequence[str] | None = None) -> Trees:
    """The trees of an activation dataset's sentences.

    Parameters
    ----------
    columns: "text" (the sentence's number), "head" and "upos" of the activation dataset's index;
        with "pieces", sentences in which a word has no vector are left out and counted.
    names: what to call the sentences in a refusal; without it their numbers.

    Raises
    ------
    InputError: a column is missing, heads do not make a tree (the sentence is named), or no
        sentence is left.

    >>> found = trees({"text": [0, 0, 0, 1], "head": ["2", "0", "2", "0"], "upos": ["DET", "NOUN", "PUNCT", "VERB"]})
    >>> found.heads.tolist(), found.lengths.tolist(), found.punctuation.tolist()
    ([2, 0, 2, 0], [3, 1], [False, False, True, False])
    """
    text = np.asarray(_column(columns, "text"))
    n = len(text)
    for name in ("head", "upos"):
        _column(columns, name)
        _check_length(columns, name, n)
    if (np.diff(text) < 0).any():
        remedy = "give the words as the activations have them"
        refuse("columns['text']", "sentences in their order", "others", remedy)
    bounds = np.flatnonzero(np.diff(text, prepend=-1, append=-1)) if n else np.zeros(1, np.int64)
    has_vector = _has_vector(columns, n)
    whole = np.array(
        [has_vector[start:end].all() for start, end in zip(bounds[:-1], bounds[1:], strict=True)],
        bool,
    )
    if not whole.any():
        expected = "a sentence whose words all have vectors"
        refuse("columns", expected, f"none of {len(whole)}", "give the words of a treebank")
    lengths = np.diff(bounds)
    rows = np.flatnonzero(np.repeat(whole, lengths))
    called = text if names is None else np.asarray(names)[text]
    heads = np.array(
        [
            head_number(columns["head"][row], f"head of row {row} (sentence {called[row]})")
            for row in rows.tolist()
        ],
        np.int64,
    )
    lengths = lengths[whole]
    check_heads(heads, lengths, names=called[bounds[:-1][whole]])
    punctuation = np.array([columns["upos"][row] == "PUNCT" for row in rows.tolist()], bool)
    return Trees(rows, heads, lengths, punctuation, int((~whole).sum()))


def words_apart(corpus: Corpus) -> Corpus:
    """The same words with a space between any two, as parsers read them: the parts of a multiword
    token ("du" = de + le) have places of their own.

    Parameters
    ----------
    corpus: a treebank, with the column "form".

    >>> columns = {"form": [["de", "le", "chat"]]}
    >>> spans = [[(0, 2), (0, 2), (3, 7)]]
    >>> apart = words_apart(Corpus("fra", ["du chat"], ["0"], "toy", words=spans, annotations=columns))
    >>> apart.sentences, apart.words
    (['de le chat'], [[(0, 2), (3, 5), (6, 10)]])
    """
    forms = (corpus.annotations or {})["form"]
    words = []
    for row in forms:
        ends = np.cumsum([len(form) + 1 for form in row]).tolist()
        words.append([(end - 1 - len(form), end - 1) for form, end in zip(row, ends, strict=True)])
    sentences = [" ".join(row) for row in forms]
    return dataclasses.replace(corpus, sentences=sentences, words=words)


def conllu_text(corpus: Corpus) -> str:
    """A treebank as a CoNLL-U file has it: ``sent_id``, ``text`` and ten columns, of which those that
    the corpus has not are "_". Words that share a span are the parts of a multiword token, and
    where no space follows a token the last column says so (``SpaceAfter=No``).

    Parameters
    ----------
    corpus: with the columns of :func:`crosslens.readers.words.read_conllu`.

    >>> columns = {"form": [["Dogs", "bark", "."]], "upos": [["NOUN", "VERB", "PUNCT"]], "head": [["2", "0", "2"]]}
    >>> spans = [[(0, 4), (5, 9), (9, 10)]]
    >>> corpus = Corpus("eng", ["Dogs bark."], ["a"], "toy", words=spans, annotations=columns)
    >>> print(conllu_text(corpus).expandtabs(6).rstrip())
    # sent_id = a
    # text = Dogs bark.
    1     Dogs  _     NOUN  _     _     2     _     _     _
    2     bark  _     VERB  _     _     0     _     _     SpaceAfter=No
    3     .     _     PUNCT _     _     2     _     _     _
    """
    assert corpus.words is not None, "a treebank has words"
    columns = corpus.annotations or {}
    lines = list[str]()
    for number, (name, text) in enumerate(zip(corpus.ids, corpus.sentences, strict=True)):
        lines += [f"# sent_id = {name}", f"# text = {text}"]
        spans = [*corpus.words[number]]
        n = len(columns["form"][number])
        nothing = [_EMPTY] * n
        rows = (
            columns[column][number] if column in columns else nothing
            for column in ("form", "lemma", "upos", "xpos", "feats", "head", "deprel")
        )
        first = behind = 0
        for word, cells in enumerate(zip(*rows, strict=True)):
            if word == behind:  # a token begins
                first, behind = word, word + 1
                while behind < n and spans[behind] == spans[first]:
                    behind += 1
            glued = behind < n and spans[behind][0] == spans[word][1]
            space = "SpaceAfter=No" if glued else _EMPTY
            if behind - first > 1:
                if word == first:
                    token = [
                        f"{word + 1}-{behind}",
                        text[slice(*spans[word])],
                        *[_EMPTY] * 7,
                        space,
                    ]
                    lines.append("\t".join(token))
                space = _EMPTY
            lines.append("\t".join([str(word + 1), *cells, _EMPTY, space]))
        lines.append("")
    return "\n".join(lines) + "\n"
