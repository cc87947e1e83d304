"""Dependency trees as the numbers of heads: whether they are trees, depths, distances, crossing
edges."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from crosslens.errors import quote, refuse

__all__ = ["check_heads", "crossing_edges", "head_number", "tree_depths", "tree_distances"]


def head_number(cell: Any, where: str) -> int:
    """A cell of a treebank's column ``head`` as a number: that of a word from 1, or 0 for the root.

    Parameters
    ----------
    where: what is refused otherwise: the sentence, say.

    Raises
    ------
    InputError: it is none.

    >>> head_number("3", "eng.conllu:1")
    3
    """
    text = str(cell)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        expected = "a word's number as head, or 0 for the root"
        refuse(where, expected, quote(text), "give a treebank with heads")
    return int(text)


def check_heads(
    heads: Int[np.ndarray, " n"],
    lengths: Int[np.ndarray, " s"],
    names: Sequence[Any] | np.ndarray | None = None,
) -> None:
    """Pass if every sentence is a tree: one word with head 0, all others below it.

    Parameters
    ----------
    heads: shape (n,). lengths: shape (s,), above 0. names: what to call the sentences in a refusal;
        without it their numbers, from 0.

    Raises
    ------
    InputError: lengths do not sum to n, or a sentence is no tree; the message names it.

    >>> check_heads(np.array([2, 3, 2]), np.array([3]))
    Traceback (most recent call last):
    ...
    crosslens.errors.InputError: heads: expected one root (head 0) in sentence 0, got 0; repair the sentence or leave it out
    """
    if (lengths < 1).any() or lengths.sum() != len(heads):
        told = f"{int(lengths.sum())} in {len(lengths)} sentence(s)"
        expected = f"{len(heads)} words in sentences of at least one"
        refuse("lengths", expected, told, "give the number of words of every sentence")
    ends = np.cumsum(lengths)
    for number, (start, end) in enumerate(zip(ends - lengths, ends, strict=True)):
        some, name = heads[start:end], number if names is None else names[number]
        if some.min() < 0 or some.max() > len(some):
            wrong = some[(some < 0) | (some > len(some))][0]
            expected = f"numbers from 0 to {len(some)} in sentence {name}"
            refuse("heads", expected, str(wrong), "repair the sentence or leave it out")
        if (some == 0).sum() != 1:
            got = str(int((some == 0).sum()))
            expected = f"one root (head 0) in sentence {name}"
            refuse("heads", expected, got, "repair the sentence or leave it out")
        if (_depths(some) < 0).any():
            remedy = "repair the sentence or leave it out"
            refuse("heads", f"a tree in sentence {name}", "a circle", remedy)


def tree_depths(heads: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The number of edges between each word of a sentence and its root.

    Parameters
    ----------
    heads: shape (n,), a tree: the head's number from 1, or 0 for the root.

    Returns
    -------
    shape (n,), from 0 (the root) to n - 1.

    Raises
    ------
    InputError: the heads are no tree.

    >>> tree_depths(np.array([2, 0, 4, 2])).tolist()
    [1, 0, 2, 1]
    """
    check_heads(heads, np.array([len(heads)]))
    return _depths(heads)


def _depths(heads: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Depths; -1 for words that no way from the root leads to. Each word looks twice as far up in
    each round, so that a chain of n words takes log n of them."""
    at_root = heads == 0
    above = np.where(at_root, np.arange(len(heads)), heads - 1)
    depths = (~at_root).astype(np.int64)
    for _ in range(len(heads).bit_length()):
        depths += depths[above]
        above = above[above]
    return np.where(at_root[above], depths, -1)


def tree_distances(heads: Int[np.ndarray, " n"]) -> Int[np.ndarray, "n n"]:
    """The number of edges on the way between any two words of a sentence.

    Parameters
    ----------
    heads: shape (n,), a tree: the head's number from 1, or 0 for the root.

    Returns
    -------
    shape (n, n), symmetric, zeros on the diagonal.

    Raises
    ------
    InputError: the heads are no tree.

    >>> tree_distances(np.array([2, 0, 4, 2])).tolist()
    [[0, 1, 3, 2], [1, 0, 2, 1], [3, 2, 0, 1], [2, 1, 1, 0]]
    """
    depths = tree_depths(heads)
    order = np.argsort(depths, kind="stable")  # every word behind its head
    distances = np.zeros((len(heads), len(heads)), np.int64)
    for place, word in enumerate(order[1:], 1):
        before = order[:place]
        distances[word, before] = distances[before, word] = distances[heads[word] - 1, before] + 1
    return distances


def crossing_edges(heads: Sequence[int]) -> int:
    """How many words have an edge that makes the tree non-projective: a word between them and their
    head is no descendant of that head. 0 means that the tree is projective.

    Parameters
    ----------
    heads: a tree: the head's number from 1, or 0 for the root.

    >>> crossing_edges([2, 0, 2]), crossing_edges([3, 4, 0, 3])
    (0, 1)
    """
    above = [0, *(int(head) for head in heads)]
    n = len(above)
    below: list[list[int]] = [[] for _ in above]
    for word in range(1, n):
        below[above[word]].append(word)
    order = [0]  # every word behind its head
    for word in order:
        order += below[word]
    sizes, starts = [1] * n, [0] * n  # a subtree's words have the numbers start, start + 1, …
    for word in order[:0:-1]:
        sizes[above[word]] += sizes[word]
    for word in order:
        start = starts[word] + 1
        for one in below[word]:
            starts[one], start = start, start + sizes[one]
    # from each word, as far as there are descendants of it alone; deep words first, whose reach is
    # then stepped over: no word is met twice from the same side
    reach = {-1: [*range(n)], 1: [*range(n)]}
    for word in order[:0:-1]:
        inside = range(starts[word], starts[word] + sizes[word])
        for step, far in reach.items():
            at = word + step
            while 0 < at < n and starts[at] in inside:
                at = far[at] + step
            far[word] = at - step
    return sum(
        head > 0 and not reach[-1][head] <= word <= reach[1][head]
        for word, head in enumerate(above)
    )
