"""The nodes of a tree, each a head with its dependents, and sentences that are laid out from them.

A node's items are its head (item 0) and its dependents, from left to right. Its order is a
permutation of them: ``(1, 0, 2)`` is a head between two dependents. A tree whose nodes have orders
is read off from its root: every dependent stands where its whole subtree stands, so that no two
edges of the result cross.
"""

import collections
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from crosslens.derive.order_features import head_views, views
from crosslens.derive.transformation import Sentence
from crosslens.errors import refuse

__all__ = ["PARTS", "Node", "canonical", "laid_out", "nodes", "part_of"]

PARTS: Mapping[str, tuple[str, ...]] = {"N": ("NOUN", "PROPN", "PRON"), "V": ("VERB",)}
"""Classes of heads that have an order model each, with their parts of speech, as in
GalacticDependencies."""

Symbols = tuple[str, str, str]


class Node(NamedTuple):
    """A head with its dependents.

    Attributes
    ----------
    part: the class of the head, N or V; "" of others.
    items: the symbols of each item, the head first and then its dependents from left to right
        (:func:`crosslens.derive.order_features.views`).
    words: the number of each item's word in its sentence, from 0.
    order: the items as the sentence has them.
    """

    part: str
    items: tuple[Symbols, ...]
    words: tuple[int, ...]
    order: tuple[int, ...]


def part_of(upos: str) -> str:
    """The class of a head, "" if it is neither noun nor verb.

    >>> part_of("PRON"), part_of("VERB"), part_of("ADJ")
    ('N', 'V', '')
    """
    return next((part for part, tags in PARTS.items() if upos in tags), "")


def nodes(sentence: Sentence) -> list[Node]:
    """The words of a tree that have dependents, from left to right.

    Parameters
    ----------
    sentence: with heads and the columns upos and deprel.

    >>> columns = {"upos": ["DET", "ADJ", "NOUN"], "deprel": ["det", "amod", "root"]}
    >>> [node] = nodes(Sentence(["the", "red", "car"], columns, heads=[3, 3, 0]))
    >>> node.part, node.items, node.order
    ('N', (('@NOUN', '@', '@NOUN&@'), ('DET', 'det', 'DET&det'), ('ADJ', 'amod', 'ADJ&amod')), (1, 2, 0))
    """
    upos, relations = sentence.columns["upos"], sentence.columns["deprel"]
    below: dict[int, list[int]] = collections.defaultdict(list)
    for word, head in enumerate(sentence.heads or ()):
        if head:
            below[head - 1].append(word)
    found = []
    for head in sorted(below):
        words = (head, *below[head])
        order = tuple(sorted(range(len(words)), key=words.__getitem__))
        symbols = (views(upos[w], relations[w], sentence.tokens[w]) for w in below[head])
        items = (head_views(upos[head]), *symbols)
        found.append(Node(part_of(upos[head]), items, words, order))
    return found


def canonical(node: Node) -> Node:
    """The same node with its dependents sorted by their symbols, so that nodes of the same items are
    equal but for their words and orders; equal dependents stay as they stand.

    >>> node = Node("N", (("@", "@", "@"), ("b", "b", "b"), ("a", "a", "a")), (4, 2, 3), (1, 2, 0))
    >>> canonical(node)
    Node(part='N', items=(('@', '@', '@'), ('a', 'a', 'a'), ('b', 'b', 'b')), words=(4, 3, 2), order=(2, 1, 0))
    """
    items = sorted(range(len(node.items)), key=lambda item: (item > 0, node.items[item], item))
    now = {item: number for number, item in enumerate(items)}
    return Node(
        node.part,
        tuple(node.items[item] for item in items),
        tuple(node.words[item] for item in items),
        tuple(now[item] for item in node.order),
    )


def laid_out(found: Sequence[Node], orders: Sequence[Sequence[Any]], n: int) -> list[int]:
    """The words of a tree whose nodes have these orders.

    Parameters
    ----------
    found: of :func:`nodes`. orders: the words of each, in their new order. n: words of the tree.

    Returns
    -------
    The numbers of all words, from 0, in their new places.

    Raises
    ------
    InputError: the nodes do not make up a tree of n words.

    >>> columns = {"upos": ["DET", "ADJ", "NOUN"], "deprel": ["det", "amod", "root"]}
    >>> found = nodes(Sentence(["the", "red", "car"], columns, heads=[3, 3, 0]))
    >>> laid_out(found, [(0, 2, 1)], 3)
    [0, 2, 1]
    """
    sequences = {node.words[0]: order for node, order in zip(found, orders, strict=True)}
    dependents = {word for node in found for word in node.words[1:]}
    waiting = [(word, True) for word in range(n) if word not in dependents]
    words: list[int] = []
    while waiting:  # trees may be deeper than functions can call themselves
        word, whole = waiting.pop()
        if whole and word in sequences:
            waiting += [(int(item), item != word) for item in reversed(sequences[word])]
        else:
            words.append(word)
    if sorted(words) != list(range(n)):
        got = f"{len(words)} that the nodes reach"
        refuse("nodes", f"a tree of {n} words", got, "give all nodes of one tree")
    return words
