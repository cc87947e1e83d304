"""Spans of BIO tags, by three readings, and their F1.

Tags that a classifier predicts word by word need not make spans: an I- may follow no B-, or one of
another type. Who counts differs in what that is:

    strict      a span begins with B-; an I- without a span of its type before it is none
                (CoNLL-2003's evaluation would begin one; this is seqeval's strict IOB2)
    wu_dredze   an I- without an open span begins one, and so does one of another type than the open
                one: B-PER I-LOC is PER, LOC (their program)
    conneau     a span goes on whatever the types of its I-, and has the last one's: B-PER I-LOC
                I-ORG is one ORG; an I- without an open span begins one (Conneau et al. 2020,
                appendix)
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from crosslens.errors import check_choice, refuse
from crosslens.probes.methods.counted import Counted

__all__ = ["SPAN_PRESETS", "count_spans", "spans"]

Span = tuple[str, int, int]


def spans(tags: Sequence[str], preset: str = "strict") -> list[Span]:
    """Spans of a sentence's tags: type, first word, and the word behind the last one.

    Parameters
    ----------
    tags: B-TYPE, I-TYPE or O. preset: one of :data:`SPAN_PRESETS`.

    Raises
    ------
    InputError: no such preset, or a tag that is none.

    >>> [spans(["B-PER", "I-LOC", "I-ORG"], preset) for preset in ("wu_dredze", "conneau", "strict")]
    [[('PER', 0, 1), ('LOC', 1, 2), ('ORG', 2, 3)], [('ORG', 0, 3)], [('PER', 0, 1)]]
    """
    check_choice(preset, "preset", SPAN_PRESETS)
    found: list[Span] = []
    kind, start = "", 0
    for place, tag in enumerate([*tags, "O"]):
        mark, _, new = tag.partition("-")
        if mark not in ("B", "I", "O") or (mark == "O") == bool(new):
            refuse("tags", "B-TYPE, I-TYPE or O", repr(tag), "repair the tags")
        if mark == "I" and kind and _GOES_ON[preset](kind, new):
            kind = new
            continue
        if kind:
            found.append((kind, start, place))
        begins = mark == "B" or (mark == "I" and preset != "strict")
        kind, start = (new, place) if begins else ("", 0)
    return found


_GOES_ON: Mapping[str, Callable[[str, str], bool]] = {
    "strict": lambda kind, new: kind == new,
    "wu_dredze": lambda kind, new: kind == new,
    "conneau": lambda kind, new: True,
}
SPAN_PRESETS = tuple(_GOES_ON)
"""The readings."""


def count_spans(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    preset: str = "strict",
    windows: Sequence[Sequence[np.ndarray]] | None = None,
) -> Counted:
    """F1 of the spans of some sentences, micro-averaged: a span is right if its type and both ends
    are.

    Both sides are read by the same preset. ``found`` is twice the spans that both have, ``of`` the
    spans of both together.

    Parameters
    ----------
    windows: for each sentence the places of its words window by window, where a span ends with its
        window, gold or predicted, as in Wu & Dredze's program; words in no window are left out.

    Raises
    ------
    InputError: different numbers of sentences, or of words in one.

    >>> counted = count_spans([["B-PER", "O"], ["B-LOC", "I-LOC"]], [["B-PER", "O"], ["B-LOC", "O"]])
    >>> counted.value, counted.found.tolist(), counted.of.tolist()
    (0.5, [2.0, 0.0], [2.0, 2.0])
    >>> cut = [[np.array([0, 1]), np.array([2])]]
    >>> count_spans([["B-LOC", "I-LOC", "I-LOC"]], [["B-LOC", "I-LOC", "O"]], "wu_dredze", cut).of.tolist()
    [3.0]
    """
    if [len(row) for row in gold] != [len(row) for row in predicted]:
        refuse("predicted", "a tag for each word of gold", "others", "predict every word")
    found, of = np.zeros(len(gold)), np.zeros(len(gold))
    for number, (mine, theirs) in enumerate(zip(gold, predicted, strict=True)):
        for words in [range(len(mine))] if windows is None else windows[number]:
            one, other = ({*spans([side[w] for w in words], preset)} for side in (mine, theirs))
            found[number] += 2.0 * len(one & other)
            of[number] += len(one) + len(other)
    return Counted("span_f1", found, of, preset)
