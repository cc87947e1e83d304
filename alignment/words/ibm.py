"""Word alignment of parallel text by statistics alone (IBM models), with the package sil-thot;
needs the extra ``align``.

No encoder is asked, so that these links can serve to learn and to judge maps between encoders.
Alignment from vectors is in :mod:`crosslens.alignment.words.argmax`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from crosslens.checks import check_positive_int
from crosslens.corpus import check_sentence
from crosslens.errors import check_choice, refuse
from crosslens.progress import Progress

__all__ = ["MODELS", "SYMMETRISATIONS", "align_words"]

MODELS = ("fast_align", "hmm", "ibm1")
"""fast_align: IBM 2 that prefers the diagonal (Dyer et al. 2013); hmm: Vogel et al. 1996, begun
with IBM 1; ibm1: Brown et al. 1993."""

SYMMETRISATIONS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
"""How the alignments of the two directions become one (Och & Ney 2003; Koehn et al. 2005)."""

_BLOCK = 1000  # sentence pairs aligned at a time


def align_words(
    sentences_x: Sequence[Sequence[str]],
    sentences_y: Sequence[Sequence[str]],
    *,
    model: str = "hmm",
    symmetrisation: str = "grow-diag-final-and",
    iterations: int = 5,
) -> Int[np.ndarray, "k 3"]:
    """Learn from parallel sentences which words translate each other, and link them in the same
    sentences.

    A model is trained in each direction by expectation maximisation and its best alignments are
    symmetrised. The same sentences give the same links. Words are compared as they are: fold case
    first for more evidence per word. A few thousand sentences are the least for links that are
    mostly right.

    Parameters
    ----------
    sentences_x, sentences_y: the words of n sentences each, sentence i of one translating sentence
        i of the other. A sentence may be
        empty: it has no links.
    model: one of :data:`MODELS`.
    symmetrisation: one of :data:`SYMMETRISATIONS`.
    iterations: rounds of training; "hmm" has as many of IBM 1 before its own.

    Returns
    -------
    shape (k, 3): sentence, word of x, word of y, from 0, sorted (links as in
        :mod:`crosslens.alignment.words.links`).

    Raises
    ------
    InputError: the package is not installed; counts differ, all sentences are empty, a word is
        empty or no text, or a sentence has more words than the model can take (200 for "hmm", 1,024
        for the others); or a name that is not known.
    """
    for name, value, known in (
        ("model", model, MODELS),
        ("symmetrisation", symmetrisation, SYMMETRISATIONS),
    ):
        check_choice(value, name, known)
    check_positive_int(iterations, "iterations")
    if len(sentences_x) != len(sentences_y):
        expected = f"as many sentences as sentences_x ({len(sentences_x)})"
        refuse("sentences_y", expected, str(len(sentences_y)), "give translations in order")
    try:
        from thot import alignment
    except ImportError:
        remedy = "type: pip install 'crosslens[align]'"
        refuse("align_words", "the package of the aligner, sil-thot", "none installed", remedy)
    both = [i for i in range(len(sentences_x)) if len(sentences_x[i]) and len(sentences_y[i])]
    if not both:
        refuse("sentences_x", "a pair of sentences with words", "none", "give parallel text")
    most = _make(alignment, model).max_sentence_length
    x = [_checked(sentences_x[i], f"sentences_x[{i}]", most, model) for i in both]
    y = [_checked(sentences_y[i], f"sentences_y[{i}]", most, model) for i in both]
    with Progress(
        2 * iterations * (2 if model == "hmm" else 1), f"training {model}", "iterations"
    ) as progress:
        directions = [
            _trained(alignment, model, iterations, pair, progress) for pair in ((x, y), (y, x))
        ]
    aligner = alignment.SymmetrizedAligner(*directions)
    aligner.heuristic = getattr(
        alignment.SymmetrizationHeuristic, symmetrisation.upper().replace("-", "_")
    )
    found = [np.empty((0, 3), np.int64)]
    with Progress(len(both), "aligning words", "sentences") as progress:
        for start in range(0, len(both), _BLOCK):
            some = slice(start, start + _BLOCK)
            for sentence, (_, matrix) in zip(
                both[some], aligner.get_best_alignments(x[some], y[some]), strict=True
            ):
                links = np.argwhere(matrix.to_numpy())
                found.append(np.column_stack([np.full(len(links), sentence), links]))
            progress.add(len(both[some]))
    return np.concatenate(found)


def _checked(words: Sequence[str], where: str, most: int, model: str) -> list[str]:
    """The words, each marked, so that none is one of the package's own, such as NULL."""
    if len(words) > most:  # the package would pass over the sentence without a word
        remedy = "divide the sentence, or leave its pair out"
        refuse(where, f"at most {most} words, for {model}", str(len(words)), remedy)
    for word in words:
        if not isinstance(word, str) or not word:
            refuse(where, "words", repr(word), "leave out what is no word")
    return ["_" + check_sentence(word, where) for word in words]


def _make(alignment: Any, model: str, begun: Any = None) -> Any:
    """A new model of the package, begun with the values of another one if there is one."""
    kind = {
        "fast_align": "FastAlignModel",
        "hmm": "HmmAlignmentModel",
        "ibm1": "Ibm1AlignmentModel",
    }[model]
    return getattr(alignment, kind)(*([] if begun is None else [begun]))


def _trained(
    alignment: Any,
    model: str,
    iterations: int,
    pair: tuple[list[list[str]], list[list[str]]],
    progress: Progress,
) -> Any:
    """A model that links each word of the second side with a word of the first."""
    first = _make(alignment, "ibm1" if model == "hmm" else model)
    for source, target in zip(*pair, strict=True):
        first.add_sentence_pair(source, target)
    _train(first, iterations, progress)
    if model != "hmm":
        return first
    second = _make(alignment, model, first)
    _train(second, iterations, progress)
    return second


def _train(model: Any, iterations: int, progress: Progress) -> None:
    model.start_training()
    for _ in range(iterations):
        model.train()
        progress.add(1)
    model.end_training()
