"""Sentences on a controlled study: what its intervals cover, how many comparisons it makes, words that
anchors replaced, subwords in common, sentences that were cut."""

from collections.abc import Collection, Sequence

import numpy as np

from crosslens.report.folders.controlled import StudyFolder
from crosslens.score import Score

__all__ = [
    "MANY",
    "WITH_INTERVAL",
    "anchors_told",
    "comparisons_told",
    "cut_told",
    "few_trainings_told",
    "intervals_told",
    "overlap_told",
]

MANY = 10
"""Trainings of which an interval over seeds covers what it says; fewer are drawn one by one."""
WITH_INTERVAL = 8
"""Points from which on a correlation is told with its interval."""


def intervals_told(study: StudyFolder) -> str:
    """What the 95 % intervals of a study's means are over, as the end of a sentence."""
    several = "over seeds (of sentences: over seeds and sentences)"
    single = [name for name in study.names if study.trainings(name) < 2]
    alone = "over the subwords, or sentences, of one training"
    if len(single) == len(study.names):
        return f"{alone}, and say nothing of other seeds"
    return f"{several}; of {', '.join(single)} {alone}" if single else several


def few_trainings_told(trainings: Collection[int], *, subwords: bool = False) -> str:
    """What an interval over few trainings of a condition does not cover; "" where none is over few.

    In simulations whose trainings end near .83 or near .03 the interval of three holds the mean of all
    that there could be in 34 to 81 %, by how many align; that of ten in 95 %, unless one or nine of
    ten do. Of conditions that are alike, with three trainings each or more, as many of one as of the
    other, the difference of two lies above 0 in at most 3 %; of two trainings in 6 %, of three against
    nine in 10 %. That is of subwords. Over trainings that align or do not, and test items, the interval
    of three holds the mean in 62 to 92 %.

    Parameters
    ----------
    trainings: how many there are of each condition. subwords: whether P@1 of subwords is told, of
        which the numbers are.

    >>> few_trainings_told([3, 1])
    'Where some trainings of a condition align and others do not, an interval over few of them is too narrow.'
    >>> few_trainings_told([1, 12])
    ''
    """
    if not any(2 <= n < MANY for n in trainings):
        return ""
    told = (
        "Where some trainings of a condition align and others do not, an interval over few of them is "
        "too narrow"
    )
    if subwords:
        told += ": that of three holds their mean of P@1 of subwords in 34 to 81 %, not in 95"
        if min(trainings) == max(trainings) > 2:
            told += "; a difference of conditions that are alike lies above 0 in at most 3 % all the same"
    return f"{told}."


def comparisons_told(n: int) -> str:
    """What so many comparisons are worth; "" of one or none."""
    if n < 2:
        return ""
    return (
        f"{n} comparisons, each with an interval of its own: of 20 where there is no difference, "
        "one is expected to hold no 0."
    )


def anchors_told(study: StudyFolder) -> list[str]:
    """A sentence on how many words extra anchors replaced; none where there are none."""
    said = []
    for name in study.names:
        seeds = [s for s in study.scores if (s.encoder, s.quantity) == (name, "words_replaced")]
        each = [(s.value, s.evidence.of_known) for s in seeds if s.evidence.of_known is not None]
        if each:
            whole, known = (100 * float(np.mean(side)) for side in zip(*each, strict=True))
            said.append(
                f"{name} {whole:.1f} % of all ({known:.1f} % of those that the dictionary knows)"
            )
    return [f"Words replaced: {'; '.join(said)}."] if said else []


def overlap_told(study: StudyFolder) -> list[str]:
    """A sentence on how many of the second language's subwords the first one's text has, too, with the
    conditions in which it is so; none where it was not measured."""
    said = dict[str, list[str]]()
    for name in study.names:
        found = [study.mean(name, f"subword_overlap_{what}", None) for what in ("types", "tokens")]
        shares = [100 * one.value for one in found if one is not None]
        if len(shares) == 2:
            share = f"{shares[0]:.1f} % ({shares[1]:.1f} % of all that occur)"
            said.setdefault(share, []).append(name)
    told = [f"{share} in {', '.join(names)}" for share, names in said.items()]
    if [*said.values()] == [study.names]:
        told = [f"{share} in every condition" for share in said]
    own = "" if study.compares_gains else ", before any get ids of their own,"
    about = f"Of the subwords of the second language's text{own} the first one's has"
    return [f"{about} {'; '.join(told)}."] if told else []


def cut_told(scores: Sequence[Score]) -> str:
    """A sentence on how many of the kept sentences are cut, in the condition with most; "" where none
    is.

    >>> cut_told([Score(quantity="sentences_cut", value=0.012, n=500, encoder="default")])
    'At most 1.2 % of the kept sentences (default; of a pair, one or both sides) are cut to what the encoder reads.'
    """
    cut = [s for s in scores if s.quantity == "sentences_cut"]
    most = max((s.value for s in cut), default=0)
    if not most:
        return ""
    where = next(s.encoder for s in cut if s.value == most)
    return (
        f"At most {100 * most:.1f} % of the kept sentences ({where}; of a pair, one or both sides) are "
        "cut to what the encoder reads."
    )
