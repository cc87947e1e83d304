"""What becomes of labels when a sentence is derived: tags of tokens, dependency trees, spans.

All of them follow from where each derived token is from (``Derived.sources``). The label of a
whole sentence, or of a pair of them, stays as it is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from crosslens.derive.transformation import INSERTED, Derived
from crosslens.errors import quote, refuse
from crosslens.trees import check_heads

__all__ = [
    "OUTSIDE",
    "check_tree",
    "derived_entities",
    "derived_heads",
    "derived_span",
    "derived_tags",
    "entities",
    "inverted_labels",
    "moved_heads",
]

OUTSIDE = "O"
"""The tag of a token that belongs to no name."""


def derived_tags(derived: Derived, tags: Sequence[Any], inserted: Any = OUTSIDE) -> list[Any]:
    """The tag of each derived token: that of the token it is from. Where names have B- and I-, use
    :func:`derived_entities`: this is what Deshpande et al.'s code does to them, and I- may then
    stand before B-.

    Parameters
    ----------
    inserted: the tag of tokens that stand for none.

    Raises
    ------
    InputError: a source beyond the tags, or a tag whose token is gone.

    >>> derived_tags(Derived(["b", "a"], [1, 0]), ["B-PER", "I-PER"])
    ['I-PER', 'B-PER']
    """
    _check_whole(derived, len(tags), "tags")
    return [inserted if source == INSERTED else tags[source] for source in derived.sources]


def _check_whole(derived: Derived, n: int, what: str) -> None:
    """Refuse sources that leave the sentence, or leave a token out."""
    there = {source for source in derived.sources if source != INSERTED}
    if there and max(there) >= n:
        got = f"a token from number {max(there)}"
        refuse(what, f"sources below {n}", got, f"give the {what} of this very sentence")
    if len(there) < n:
        missing = min(set(range(n)) - there)
        got = f"nothing from token {missing}, whose label would be lost"
        refuse(what, f"a derived token for each of {n}", got, "choose another transformation")


def entities(tags: Sequence[str], place: str = "tags") -> list[tuple[int, int, str]]:
    """Names as (first token, token behind the last, type), of tags in IOB2.

    Raises
    ------
    InputError: a tag that is none, or I- that continues no name of its type.

    >>> entities(["B-PER", "I-PER", "O", "B-LOC"])
    [(0, 2, 'PER'), (3, 4, 'LOC')]
    """
    found = list[tuple[int, int, str]]()
    before = OUTSIDE
    for number, tag in enumerate(tags):
        if tag.startswith("B-"):
            found.append((number, number + 1, tag[2:]))
        elif tag.startswith("I-") and before[1:] == tag[1:] and before != OUTSIDE:
            found[-1] = (found[-1][0], number + 1, tag[2:])
        elif tag != OUTSIDE:
            expected = f"B-TYPE, O, or an I- that continues a name, as tag {number + 1}"
            refuse(
                place, expected, quote(tag), "give tags in IOB2, or leave them as they are (raw)"
            )
        before = tag
    return found


def derived_entities(derived: Derived, tags: Sequence[str], place: str = "tags") -> list[str]:
    """The tags of names with B- and I- written anew: each run of tokens of one name begins with B-.

    A name that a shuffle tears apart becomes several, one for each run; none of its tokens loses
    its type. A marker between two tokens of a name is outside.

    Parameters
    ----------
    tags: in IOB2, one per token of the sentence. place: what the sentence is called in a refusal.

    Raises
    ------
    InputError: as for :func:`entities` and :func:`derived_tags`.

    >>> derived_entities(Derived(["wrote", "Lovelace", "Ada"], [2, 1, 0]), ["B-PER", "I-PER", "O"])
    ['O', 'B-PER', 'I-PER']
    """
    _check_whole(derived, len(tags), place)
    name_of = {
        token: (number, kind)
        for number, (first, end, kind) in enumerate(entities(tags, place))
        for token in range(first, end)
    }
    made, before = list[str](), None
    for source in derived.sources:
        name = name_of.get(source)
        same = name is not None and name == before
        made.append(OUTSIDE if name is None else f"{'I' if same else 'B'}-{name[1]}")
        before = name
    return made


def derived_heads(derived: Derived, heads: Sequence[int], place: str = "tree") -> list[int]:
    """The heads of a derived tree, whose edges join the same words as before.

    Parameters
    ----------
    heads: the number of each word's head from 1, or 0 for the root. place: what the sentence is
        called in a refusal.

    Raises
    ------
    InputError: the heads are no tree (a circle, two roots), or words have come or gone.

    >>> derived_heads(Derived(["barks", "dog", "the"], [2, 1, 0]), [2, 3, 0])
    [0, 1, 2]
    """
    check_tree(heads, place)
    if not derived.is_reordering(len(heads)):
        got = "words that have come or gone"
        refuse(
            place,
            "the same words in some order",
            got,
            "no tree can follow: leave the transformation out",
        )
    return moved_heads(derived.sources, heads)


def moved_heads(sources: Sequence[int], heads: Sequence[int]) -> list[int]:
    """The heads of words that have been put into another order.

    Parameters
    ----------
    sources: the place, from 0, that each word had; all of them. heads: of a tree.

    >>> moved_heads([2, 1, 0], [2, 3, 0])
    [0, 1, 2]
    """
    places = {source: number for number, source in enumerate(sources, 1)}
    above = [heads[source] for source in sources]
    return [places[head - 1] if head else 0 for head in above]


def check_tree(heads: Sequence[int], place: str) -> None:
    """Pass if the heads are a tree: one root, no circle.

    Raises
    ------
    InputError: they are none; the message has the sentence's place.
    """
    check_heads(np.asarray(heads, np.int64), np.array([len(heads)]), names=[place])


def derived_span(derived: Derived, start: int, end: int, place: str = "answer") -> tuple[int, int]:
    """Where the tokens from ``start`` to ``end`` are now, the first and the last: those of an
    answer, say.

    Parameters
    ----------
    start, end: first and last token, from 0, the end included, as Deshpande et al.'s code has them.
    place: what the answer is called in a refusal.

    Raises
    ------
    InputError: the tokens stand together no longer, or are not all there: the span would break.

    >>> derived_span(Derived("dcba", [3, 2, 1, 0]), 0, 2)
    (1, 3)
    """
    if not 0 <= start <= end:
        refuse(place, "0 <= start <= end", f"{start} and {end}", "give the first and last token")
    inside = [at for at, source in enumerate(derived.sources) if start <= source <= end]
    wanted = end - start + 1
    there = {derived.sources[at] for at in inside}
    if len(there) < wanted or inside[-1] - inside[0] + 1 != len(inside):
        got = "tokens that are torn apart" if len(there) == wanted else "tokens that are not there"
        remedy = "choose a transformation that keeps neighbours, such as inversion"
        refuse(place, f"the {wanted} tokens of the answer side by side", got, remedy)
    return inside[0], inside[-1]


def inverted_labels(labels: Sequence[Any]) -> list[Any]:
    """The labels of a sequence without its first and last in the opposite order, as Deshpande et
    al.'s code inverts them: right where these are the only special tokens, and wrong for what is
    padded, whose padding it moves to the front.

    >>> inverted_labels([-100, 1, 2, 3, -100]), inverted_labels([-100, 1, 2, -100, -100])
    ([-100, 3, 2, 1, -100], [-100, -100, 2, 1, -100])
    """
    return [*labels[:1], *labels[1:-1][::-1], *labels[1:][-1:]]
