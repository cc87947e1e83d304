"""What a retrieval kept of each item: whether it was found, and which items say the same, so that no
sentence counts for more than it says because a text repeats it."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from crosslens.score import Score
from crosslens.stats import cluster_sums

__all__ = ["equal_items", "hits_of", "item_outcomes", "kept_hits"]


def kept_hits(correct: np.ndarray, groups: np.ndarray | None = None) -> dict[str, Any]:
    """The details of a score that say which items were found.

    Parameters
    ----------
    correct: shape (n,), True where an item was found. groups: shape (n,), which of them say the
        same; None where no two do.

    >>> kept_hits(np.array([True, False, True]), np.array([4, 1, 4]))
    {'hits': '101', 'equal_items': [[0, 2]]}
    >>> kept_hits(np.array([True, False]))
    {'hits': '10'}
    """
    kept: dict[str, Any] = {"hits": "".join("1" if hit else "0" for hit in correct)}
    if groups is None:
        return kept
    codes = np.unique(groups, return_inverse=True)[1]
    together: dict[int, list[int]] = {}
    for item in np.flatnonzero(np.bincount(codes)[codes] > 1).tolist():
        together.setdefault(int(codes[item]), []).append(item)
    return kept | ({"equal_items": [*together.values()]} if together else {})


def item_outcomes(details: Mapping[str, Any] | None) -> np.ndarray | None:
    """(n,) True for each item that was found; None where it was not kept."""
    kept = (details or {}).get("hits")
    return None if kept is None else np.array([mark == "1" for mark in kept])


def equal_items(scores: Iterable[Score]) -> np.ndarray | None:
    """(n,) the group of each item, those together that say the same; None where no two do.

    Parameters
    ----------
    scores: of the same items; the first that tells it is believed.
    """
    for score in scores:
        details = score.details or {}
        if "hits" in details and (together := details.get("equal_items")):
            groups = np.arange(len(details["hits"]))
            for items in together:
                groups[items] = items[0]
            return groups
    return None


def hits_of(
    scores: Iterable[Score], groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Right answers of both directions, and of how many, for each held-out sentence, from scores of
    one layer and condition; those that do not keep their hits are left out.

    Parameters
    ----------
    groups: shape (n,), of :func:`equal_items`: sentences that say the same are counted together.

    Returns
    -------
    (seeds, g) each: g = n sentences, or groups of them; (0, 0) where no score keeps its hits.
    """
    seeds: dict[int | None, list[np.ndarray]] = {}
    for score in scores:
        if (found := item_outcomes(score.details)) is not None:
            seeds.setdefault(score.seed, []).append(found)
    if not seeds:
        return np.zeros((0, 0)), np.zeros((0, 0))
    right = np.array([np.sum(ways, axis=0, dtype=float) for _, ways in sorted(seeds.items())])
    of = np.full_like(right, len(next(iter(seeds.values()))))
    if groups is None:
        return right, of
    together = [np.array([cluster_sums(row, groups)[0] for row in rows]) for rows in (right, of)]
    return together[0], together[1]
