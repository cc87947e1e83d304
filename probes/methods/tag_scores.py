"""Accuracy of words' tags, and what XTREME's evaluation makes of parts of speech."""

from collections.abc import Sequence

import numpy as np

from crosslens.errors import refuse
from crosslens.probes.methods.counted import Counted

__all__ = ["count_tags", "count_tags_xtreme"]


def count_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Counted:
    """Words with the right tag, of all words that have one ("" has none), sentence by sentence.

    >>> count_tags([["NOUN", "VERB"], ["", "ADP"]], [["NOUN", "NOUN"], ["X", "ADP"]]).of.tolist()
    [2.0, 1.0]
    """
    _same(gold, predicted)
    pairs = [
        [(mine, theirs) for mine, theirs in zip(*rows, strict=True) if mine]
        for rows in zip(gold, predicted, strict=True)
    ]
    right = [float(sum(mine == theirs for mine, theirs in some)) for some in pairs]
    return Counted("accuracy", np.array(right), np.array([float(len(some)) for some in pairs]))


def count_tags_xtreme(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Counted:
    """The F1 that XTREME calls that of parts of speech: seqeval's, for tags that are no BIO tags.

    It takes the first letter of a tag for B, I or O and the rest for the type, so equal neighbours
    are one span, SCONJ and CCONJ have one type, and X, which has none, begins no span behind O or
    another sentence: four nouns, one of them taken for a verb, have an F1 of 0 at an accuracy of
    .75. It is here to be compared with published numbers.

    References
    ----------
    Hu et al. 2020, XTREME; seqeval 1.2.2, default mode. (Versions before July 2020 take the whole
    tag for the type.)

    >>> count_tags_xtreme([["NOUN"] * 4], [["NOUN"] * 3 + ["VERB"]]).value
    0.0
    """
    _same(gold, predicted)
    pairs = [*zip(_runs(gold), _runs(predicted), strict=True)]
    found = np.array([2.0 * len(mine & theirs) for mine, theirs in pairs])
    of = np.array([float(len(mine) + len(theirs)) for mine, theirs in pairs])
    return Counted("span_f1", found, of, "xtreme")


def _runs(sentences: Sequence[Sequence[str]]) -> list[set[tuple[str, int, int]]]:
    """The spans that end in each sentence, as seqeval's default mode finds them: it reads all
    sentences as one, with an O behind each. Mark is a tag's first letter, type the rest."""
    before_mark, before, start, place = "O", "", 0, 0
    made = []
    for tags in sentences:
        found = set[tuple[str, int, int]]()
        for tag in (*tags, "O"):
            mark = tag[:1] or "O"
            kind = tag[1:].split("-", maxsplit=1)[-1] or "_"
            ends = (
                before_mark in "ES"
                or (before_mark in "BI" and mark in "BSO")
                or (before_mark not in ("O", ".") and before != kind)
            )
            begins = (
                mark in "BS"
                or (before_mark in "ESO" and mark in "EI")
                or (mark not in ("O", ".") and before != kind)
            )
            if ends:
                found.add((before, start, place))
            if begins:
                start = place
            before_mark, before, place = mark, kind, place + 1
        made.append(found)
    return made


def _same(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    if [len(row) for row in gold] != [len(row) for row in predicted]:
        refuse("predicted", "a tag for each word of gold", "others", "predict every word")
