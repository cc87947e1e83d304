"""Items that say the same: a division at random must not have one of them to learn from and another
to judge by."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import ml_dtypes
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from crosslens.activations import Activations
from crosslens.run.collapse import ROUNDING, is_collapsed

__all__ = [
    "equal_rows",
    "groups_of",
    "normal_texts",
    "repeated",
    "repeats_told",
    "sentence_groups",
    "store_groups",
    "tested_too",
    "text_names",
]

_BLOCK = 4096  # rows that are read at a time
_SHADOWS = 4  # projections by which rows are looked for that may be equal


def normal_texts(texts: Sequence[str]) -> list[str]:
    """Texts as they are compared: white space of any kind is one space, and none at the ends."""
    return [" ".join(text.split()) for text in texts]


def text_names(texts: Sequence[str]) -> np.ndarray:
    """Short names of texts; equal texts have one."""
    return np.array(
        [sha256(text.encode(errors="surrogatepass")).hexdigest()[:16] for text in texts]
    )


def groups_of(sides: Iterable[Sequence[Any] | np.ndarray]) -> np.ndarray:
    """The group of each of n items: those are together whose names are equal on any side, and those
    that are with these.

    Parameters
    ----------
    sides: n names each, the sentences of a language say; row i of all is one item.

    Returns
    -------
    shape (n,), numbers from 0 in the order in which the groups are met.

    >>> groups_of([["a", "b", "a", "c"], ["x", "y", "z", "z"]]).tolist()
    [0, 1, 0, 0]
    """
    found = None
    for side in sides:
        _, first, codes = np.unique(np.asarray(side), return_index=True, return_inverse=True)
        rows = np.arange(len(codes))
        found = _joined(rows if found is None else found, np.column_stack([rows, first[codes]]))
    assert found is not None
    return np.unique(found, return_inverse=True)[1]


def repeated(groups: np.ndarray) -> int:
    """How many items are not the only one of their group.

    >>> repeated(np.array([0, 1, 0, 2, 0]))
    3
    """
    counts = np.bincount(groups)
    return int(counts[counts > 1].sum())


def repeats_told(groups: np.ndarray) -> list[str]:
    """A sentence on how many items repeat another one; none where none does.

    >>> repeats_told(np.array([0, 1, 0]))
    ['2 of 3 items repeat another one: equal ones are on one side of the division, and as targets they tie.']
    """
    count = repeated(groups)
    told = (
        f"{count:,} of {len(groups):,} items repeat another one: equal ones are on one side of "
        f"the division, and as targets they tie."
    )
    return [told] if count else []


def store_groups(stores: Sequence[Activations]) -> np.ndarray:
    """The group of each item of activation datasets whose rows are the same items: those are
    together that an encoder reads alike.

    An activation dataset does not keep its text. An encoder gives equal texts equal vectors, but
    for rounding, so these are looked for in the last layer that has not collapsed; an activation
    dataset without such a layer says nothing.
    """
    sides = []
    for store in stores:
        layers = (store.layer(number) for number in reversed(store.layer_numbers))
        layer = next((layer for layer in layers if not is_collapsed([layer])), None)
        if layer is not None:
            sides.append(equal_rows(layer))
    return groups_of(sides) if sides else np.arange(stores[0].n)


def tested_too(learnt: Sequence[Activations], tested: Sequence[Activations]) -> np.ndarray:
    """Which items to learn from an encoder reads like one to judge by, in either language.

    Parameters
    ----------
    learnt, tested: one activation dataset for each language, in the same order and of the same
        encoder.

    Returns
    -------
    One truth value for each item to learn from.
    """
    found = np.zeros(learnt[0].n, bool)
    for one, other in zip(learnt, tested, strict=True):
        for number in reversed(one.layer_numbers):
            layers = [other.layer(number), one.layer(number)]
            if not any(is_collapsed([layer]) for layer in layers):
                first = equal_rows(np.concatenate([np.asarray(layer) for layer in layers]))
                found |= first[other.n :] < other.n
                break
    return found


def sentence_groups(stores: Sequence[Activations], n: int) -> np.ndarray:
    """The group of each of n sentences, of activation datasets of words in context: those are
    together that have the same words on any side."""
    sides = []
    for store in stores:
        if "word" not in store.columns:
            continue
        index, words = store.index(["text", "word"]), [list[str]() for _ in range(n)]
        for sentence, word in zip(index["text"], index["word"], strict=True):
            if sentence < n:
                words[sentence].append(word)
        sides.append(text_names([" ".join(some) for some in words]))
    return groups_of(sides) if sides else np.arange(n)


def equal_rows(layer: Any) -> np.ndarray:
    """For each row the first that is equal to it, but for what an encoder's arithmetic does in
    another batch.

    Parameters
    ----------
    layer: shape (n, d), in memory or mapped from disk.

    >>> equal_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]], np.float32)).tolist()
    [0, 1, 0]
    """
    n, d = layer.shape
    directions = np.random.default_rng(0xE0).normal(size=(d, _SHADOWS)) / np.sqrt(d)
    shadows, lengths = np.empty((n, _SHADOWS)), np.empty(n)
    for start in range(0, n, _BLOCK):
        rows = np.asarray(layer[start : start + _BLOCK]).astype(np.float64)
        shadows[start : start + _BLOCK] = rows @ directions
        lengths[start : start + _BLOCK] = np.linalg.norm(rows, axis=1)
    stored = float(ml_dtypes.finfo(layer.dtype).eps)
    order, found = np.argsort(shadows[:, 0], kind="stable"), np.arange(n)
    # of a random direction, six standard deviations
    within, step, active = 6 * (ROUNDING + stored) * lengths / np.sqrt(d), 1, np.arange(n)
    while len(active):
        active = active[active + step < n]
        one, other = order[active], order[active + step]
        close = shadows[other, 0] - shadows[one, 0] <= within[one]
        active, one, other = active[close], one[close], other[close]
        asked = (np.abs(shadows[other] - shadows[one]) <= within[one, None]).all(axis=1) & (
            found[one] != found[other]
        )
        same = [
            pair
            for pair in zip(one[asked].tolist(), other[asked].tolist(), strict=True)
            if _apart(layer, stored, *pair) <= ROUNDING * lengths[pair[0]]
        ]
        if same:
            found = _joined(found, np.array(same))
        # what equals a row further on leaves the rest to that one
        active = active[found[one] != found[other]]
        step += 1
    return found


def _apart(layer: Any, stored: float, one: int, other: int) -> float:
    """The distance of two rows, beyond one eps of the type that they are stored in of each
    number."""
    rows = np.asarray(layer[[one, other]]).astype(np.float64)
    return float(
        np.linalg.norm(np.maximum(np.abs(rows[0] - rows[1]) - stored * np.abs(rows).max(axis=0), 0))
    )


def _joined(found: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The first row of each group, once the groups of these pairs are one."""
    edges = (
        np.concatenate([np.arange(len(found)), pairs[:, 0]]),
        np.concatenate([found, pairs[:, 1]]),
    )
    graph = scipy.sparse.coo_array(
        (np.ones(len(edges[0]), bool), edges), shape=(len(found), len(found))
    )
    groups = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    first = np.unique(groups, return_index=True)[1]
    return first[groups]
