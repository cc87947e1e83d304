"""A parser of our own, from a run of transfer: words to parts of speech and a tree.

RUN/encoders/ has what ``crosslens transfer --tasks upos,parsing --keep`` leaves: an encoder that
tags, and one that parses. Neither divides a text into words: these are given.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.corpus import Corpus
from crosslens.errors import InputError, refuse
from crosslens.files import read_json
from crosslens.models.finetuning.examples import TreeExamples, WordExamples
from crosslens.models.finetuning.load import LoadedHead, load_fine_tuned
from crosslens.models.finetuning.parse import Parse
from crosslens.models.finetuning.spanning_trees import best_projective_tree
from crosslens.readers.parsers import UNREAD, ParsedLine, Parser
from crosslens.readers.treebank import UPOS

__all__ = ["trained_parser"]

_NOTHING = "_"
_REMEDY = "train them: crosslens transfer --tasks upos,parsing --train TREEBANK --keep"

_SEVERAL = (
    "each encoder, each --freeze, each language of --in-language and each of conneau's two settings "
    "leaves one of its own: train one alone"
)


def trained_parser(
    run: str | Path,
    language: str,
    words: Callable[[Corpus], Corpus],
    *,
    device: str = "cpu",
) -> Parser:
    """The parser of a run, with the tagger of the same run.

    Trees are the best ones without crossing arcs: nearly all trees of a treebank are such, and what
    puts words in order keeps subtrees together. Relations are as the parser has learnt them, without
    subtypes. A word that the parser did not read (it was cut off, or has no subword) is below the
    word before it, as ``dep``, and its tag of the language's own (XPOS) is
    :data:`crosslens.readers.parsers.UNREAD`; a word that the tagger did not read (it has no subword)
    is tagged X. The root's relation is ``root`` and no other word's.

    Parameters
    ----------
    run: its folder. language: of the lines. words: gives a text its words.

    Raises
    ------
    InputError: the run has not kept one encoder that parses and one that tags parts of speech.
    """
    found: dict[str, list[Path]] = {"Parse": [], "Tag": []}
    for path in sorted((Path(run) / "encoders").glob("*/head.json")):
        told = read_json(path, dict, _REMEDY, InputError)
        kind, classes = str(told.get("kind")), told.get("classes")
        if kind == "Parse" or kind == "Tag" and set(classes or [""]) <= {*UPOS}:
            found[kind].append(path.parent)
    if any(len(paths) != 1 for paths in found.values()):
        got = f"{len(found['Parse'])} and {len(found['Tag'])}"
        remedy = _SEVERAL if all(found.values()) else _REMEDY
        refuse(str(run), "one kept parser and one kept tagger of parts of speech", got, remedy)
    parser, tagger = (load_fine_tuned(found[kind][0], device=device) for kind in ("Parse", "Tag"))
    projective: Any = _Projective(**vars(parser.tuned.kind))
    parser.tuned.kind = projective

    def parse(lines: Sequence[str], places: Sequence[str]) -> Iterator[ParsedLine]:
        ids = [str(number) for number in range(len(lines))]
        corpus = words(Corpus(language, list(lines), ids, "text"))
        yield from _parsed(parser, tagger, corpus)

    name = f"{Path(run).resolve().name} {parser.mark} {tagger.mark}, projective"
    return Parser(name, parse)


class _Projective(Parse):
    """The same parser, of whose trees no arcs cross."""

    def tree(self, scores: np.ndarray) -> np.ndarray:
        """See :meth:`crosslens.models.finetuning.parse.Parse.tree`."""
        return best_projective_tree(scores)


def _parsed(parser: LoadedHead, tagger: LoadedHead, corpus: Corpus) -> Iterator[ParsedLine]:
    number = {name: n for n, name in enumerate(UPOS)}
    tags = [
        [tagger.classes[n] if n >= 0 else "X" for n in row.tolist()]
        for row in tagger.tuned.predict(WordExamples(corpus))
    ]
    given = [np.array([number[tag] for tag in row], int) for row in tags]
    trees = parser.tuned.predict(TreeExamples(corpus, tags=given))
    every = zip(corpus.sentences, corpus.words or (), tags, trees, strict=True)
    for text, spans, upos, tree in every:
        rows = list[tuple[str, ...]]()
        for (start, end), tag, head, relation in zip(
            spans, upos, tree.heads.tolist(), tree.relations.tolist(), strict=True
        ):
            name = parser.classes[relation] if relation >= 0 else "dep"
            name = "root" if head == 0 else "dep" if name == "root" else name
            own = UNREAD if relation < 0 else _NOTHING
            cells = _NOTHING, tag, own, _NOTHING, str(head), name
            rows.append((text[start:end], *cells))
        yield ParsedLine([*spans], rows)
