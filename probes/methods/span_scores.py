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

from crosslens.errors import refuse
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
    if preset not in _GOES_ON:
        refuse("preset", f"one of {', '.join(SPAN_PRESETS)}", repr(preset), "choose one of these")
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
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], preset: str = "strict"
) -> Counted:
    """F1 of the spans of some sentences, micro-averaged: a span is right if its type and both ends
    are.

    Both sides are read by the same preset. ``found`` is twice the spans that both have, ``of`` the
    spans of both together.

    Raises
    ------
    InputError: different numbers of sentences, or of words in one.

    >>> counted = count_spans([["B-PER", "O"], ["B-LOC", "I-LOC"]], [["B-PER", "O"], ["B-LOC", "O"]])
    >>> counted.value, counted.found.tolist(), counted.of.tolist()
    (0.5, [2.0, 0.0], [2.0, 2.0])
    """
    if [len(row) for row in gold] != [len(row) for row in predicted]:
        refuse("predicted", "a tag for each word of gold", "others", "predict every word")
    pairs = [
        ({*spans(mine, preset)}, {*spans(theirs, preset)})
        for mine, theirs in zip(gold, predicted, strict=True)
    ]
    found = np.array([2.0 * len(mine & theirs) for mine, theirs in pairs])
    of = np.array([float(len(mine) + len(theirs)) for mine, theirs in pairs])
    return Counted("span_f1", found, of, preset)
