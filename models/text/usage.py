"""How many subwords of a vocabulary a text uses.

Artetxe et al. 2020 explain by it what the size of a joint vocabulary does: of 32,000 subwords that
fifteen languages share, each has few of its own.
"""

import dataclasses

import numpy as np
from jaxtyping import Int

from crosslens.errors import refuse
from crosslens.models.text.tokenisation import SPECIAL_TOKENS

__all__ = ["SubwordsUsed", "subwords_used"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubwordsUsed:
    """What one language uses of a vocabulary; special tokens are not counted.

    Attributes
    ----------
    vocabulary: number of subwords that it could use.
    used: number of those that its text has at least once.
    cover_99: the fewest subwords that make 99 % of its text's tokens: the effective size, which a
        few foreign names do not raise.
    tokens: of the text, special tokens left out.
    """

    vocabulary: int
    used: int
    cover_99: int
    tokens: int


def subwords_used(counts: Int[np.ndarray, " ids"], vocabulary: int | None = None) -> SubwordsUsed:
    """How many subwords a text uses.

    Parameters
    ----------
    counts: how often each id occurs in the text; the special tokens are ids 0 to 4.
    vocabulary: number of subwords that the text's language has; None: all ids but the special ones.

    Raises
    ------
    InputError: a count is negative, or more subwords are used than there are.

    >>> counts = np.array([0, 3, 9, 9, 0, 80, 19, 1, 0, 0])  # [PAD] to [MASK], then five subwords
    >>> subwords_used(counts)
    SubwordsUsed(vocabulary=5, used=3, cover_99=2, tokens=100)
    """
    mine = counts[len(SPECIAL_TOKENS) :]
    if len(mine) and mine.min() < 0:
        refuse("counts", "0 or more each", str(mine.min()), "count the ids anew")
    used, tokens = int(np.count_nonzero(mine)), int(mine.sum())
    vocabulary = len(mine) if vocabulary is None else vocabulary
    if used > vocabulary:
        expected = f"{used} or more, which the text uses"
        refuse("vocabulary", expected, str(vocabulary), "give the size of the text's vocabulary")
    reached = np.cumsum(np.sort(mine)[::-1])
    cover = int(np.searchsorted(100 * reached, 99 * tokens)) + 1 if tokens else 0
    return SubwordsUsed(vocabulary=vocabulary, used=used, cover_99=cover, tokens=tokens)
