"""Spans of one segmentation of a text as spans of another: names of Chinese characters as names of
words."""

from collections.abc import Sequence

import numpy as np

from crosslens.probes.methods.span_scores import spans

__all__ = ["project_spans"]

Place = tuple[int, int]


def project_spans(
    tags: Sequence[str], words: Sequence[Place], others: Sequence[Place]
) -> tuple[list[str], int]:
    """BIO tags of other words of the same text.

    A span whose border falls within one of them covers that word, and is counted. Of two spans in
    one word the first has it; of the second is left what is behind, which may be nothing.

    Parameters
    ----------
    tags: of each of ``words``. words, others: their characters, start and the one behind; sorted.

    Returns
    -------
    a tag for each of ``others``, and how many spans have other borders than before.

    References
    ----------
    Conneau et al. 2020, appendix: labels of Chinese are aligned to the words of a segmenter. How is
    not said.

    >>> project_spans(["B-LOC", "I-LOC", "O", "O"], [(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 2), (2, 4)])
    (['B-LOC', 'O'], 0)
    >>> project_spans(["B-LOC", "O", "B-PER"], [(0, 1), (1, 2), (2, 3)], [(0, 2), (2, 3)])
    (['B-LOC', 'B-PER'], 1)
    """
    starts, ends = np.array([*others], int).reshape(-1, 2).T
    found, moved, free = ["O"] * len(others), 0, 0
    for kind, first, behind in spans(tags):
        begin, end = words[first][0], words[behind - 1][1]
        covered = np.flatnonzero((starts < end) & (ends > begin))
        mine = covered[covered >= free].tolist()
        sticks_out = len(covered) and (starts[covered[0]] < begin or ends[covered[-1]] > end)
        moved += bool(sticks_out or not mine)
        for word in mine:
            found[word] = f"{'B' if word == mine[0] else 'I'}-{kind}"
            free = word + 1
    return found, moved
