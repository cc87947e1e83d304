"""What a model of word order looks at: the orders of a head and its dependents, and the features of
each of them.

The items of a node are its head (item 0) and its dependents. All ``n!`` orders of ``n`` items are
listed, and with them the *events* that make them up: one item before another, one next to another,
two of them on one side of the head. Which events an order has depends on ``n`` alone; which feature
an event is depends on the items' symbols (part of speech, relation, or both). So all nodes of one
size share one matrix of events, and a feature is a whole number that is made of symbols.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from crosslens.errors import refuse

__all__ = [
    "KINDS",
    "Events",
    "Symbols",
    "coarse",
    "head_views",
    "pair_codes",
    "recoded",
    "run_codes",
    "size_events",
    "views",
]

KINDS = ("BI", "PRE", "BFR", "BTW", "AFT", "HI")
"""Kinds of features, as GalacticDependencies calls them: next to each other; one before the other;
both before the head, on either side of it, both after it; a run of three to five, and at most of as
many as the node has items."""

_BI, _PRE, _BFR, _BTW, _AFT, _HI = range(len(KINDS))
_LONGEST = 5  # items of a run
_BITS = 12  # of a symbol's number, five of which and a kind make a whole number of 63 bits
_NONE, _BEGIN, _END, _FIRST = 0, 1, 2, 3  # no symbol; begin and end of a node; the first real one
_UNKNOWN = (1 << _BITS) - 1


def views(upos: str, relation: str, form: object = None) -> tuple[str, str, str]:
    """The three symbols of a dependent: part of speech; relation without its subtype, which
    treebanks of all languages share; and part of speech and relation as they are written.

    Of punctuation the third has the mark itself in place of the part of speech: an opening bracket
    stands elsewhere than a full stop. (GalacticDependencies has no marks, and subtypes in the
    second, too.)

    >>> views("VERB", "acl:relcl"), views("PUNCT", "punct", ",")
    (('VERB', 'acl', 'VERB&acl:relcl'), ('PUNCT', 'punct', ',&punct'))
    """
    mark = form if upos == "PUNCT" and isinstance(form, str) else upos
    return upos, coarse(relation), f"{mark}&{relation}"


def head_views(upos: str) -> tuple[str, str, str]:
    """The three symbols of a head among its dependents.

    >>> head_views("NOUN")
    ('@NOUN', '@', '@NOUN&@')
    """
    return f"@{upos}", "@", f"@{upos}&@"


def coarse(relation: str) -> str:
    """A relation without its subtype.

    >>> coarse("nsubj:pass")
    'nsubj'
    """
    return relation.partition(":")[0]


class Symbols:
    """Symbols with their numbers.

    >>> some = Symbols(["NOUN", "@NOUN"])
    >>> some.numbers(["@NOUN", "NOUN", "VERB"])
    [3, 4, 4095]

    Parameters
    ----------
    symbols: any, each kept once.

    Raises
    ------
    InputError: more than 4,092 of them.
    """

    def __init__(self, symbols: Iterable[str]) -> None:
        self.names = tuple(sorted(set(symbols)))
        if len(self.names) > _UNKNOWN - _FIRST:
            got, remedy = f"{len(self.names):,}", "give a treebank of Universal Dependencies"
            refuse("treebank", f"up to {_UNKNOWN - _FIRST:,} pairs of tags", got, remedy)
        self._numbers = {name: number for number, name in enumerate(self.names, _FIRST)}

    def numbers(self, names: Sequence[str]) -> list[int]:
        """The number of each name; one number for all that are unknown."""
        return [self._numbers.get(name, _UNKNOWN) for name in names]

    def moved_to(self, other: "Symbols") -> Int[np.ndarray, " s"]:
        """For each number here, the number of the same symbol there."""
        moved = np.full(1 << _BITS, _UNKNOWN)
        moved[:_FIRST] = range(_FIRST)
        moved[_FIRST : _FIRST + len(self.names)] = other.numbers(self.names)
        return moved


def recoded(codes: Int[np.ndarray, " f"], moved: Int[np.ndarray, " s"]) -> Int[np.ndarray, " f"]:
    """Features with other numbers for their symbols.

    Parameters
    ----------
    moved: of :meth:`Symbols.moved_to`.
    """
    kind = codes >> (_LONGEST * _BITS)
    slots = [moved[(codes >> slot * _BITS) & _UNKNOWN] for slot in reversed(range(_LONGEST))]
    return _codes(kind, np.stack(slots, axis=-1))


def _codes(kind: int | np.ndarray, slots: Int[np.ndarray, "... 5"]) -> Int[np.ndarray, "..."]:
    shifts = _BITS * np.arange(_LONGEST)[::-1]
    return (np.asarray(kind, np.int64) << _LONGEST * _BITS) + (
        slots.astype(np.int64) << shifts
    ).sum(axis=-1)


@dataclasses.dataclass(frozen=True, eq=False)
class Events:
    """All orders of the items of a node, and what happens in them.

    Attributes
    ----------
    orders: shape (n!, n), lexicographic: which item stands at each place.
    kinds, pairs: shapes (e,) and (e, 2), events of two items; item n is the begin, n + 1 the end.
    has_pair: shape (n!, e), 1 where an order has an event.
    runs: shape (r, 5), items of the runs of three to five, at most of n; n + 2 fills the shorter ones.
    has_run: shape (n!, r), the same of runs; sparse.
    """

    orders: Int[np.ndarray, "p n"]
    kinds: Int[np.ndarray, " e"]
    pairs: Int[np.ndarray, "e 2"]
    has_pair: Float[np.ndarray, "p e"]
    runs: Int[np.ndarray, "r 5"]
    has_run: scipy.sparse.csc_array


@functools.cache
def size_events(n: int) -> Events:
    """The orders of ``n`` items, and their events; item 0 is the head.

    >>> found = size_events(2)
    >>> found.orders.tolist()
    [[0, 1], [1, 0]]
    >>> [KINDS[kind] for kind in found.kinds], found.pairs.tolist()
    (['PRE', 'BI', 'PRE', 'BI', 'BI', 'BI', 'BI', 'BI'], [[0, 1], [0, 1], [1, 0], [1, 0], [2, 0], [0, 3], [2, 1], [1, 3]])
    """
    orders = np.array(list(itertools.permutations(range(n))))
    place = np.argsort(orders, axis=1)
    head = place[:, 0]
    found: list[tuple[int, int, int, np.ndarray]] = []
    for i, j in itertools.permutations(range(n), 2):
        before = place[:, i] < place[:, j]
        found.append((_PRE, i, j, before))
        found.append((_BI, i, j, place[:, i] + 1 == place[:, j]))
        if i and j:
            found.append((_BFR, i, j, before & (place[:, j] < head)))
            found.append((_BTW, i, j, (place[:, i] < head) & (head < place[:, j])))
            found.append((_AFT, i, j, before & (head < place[:, i])))
    for i in range(n):
        found.append((_BI, n, i, place[:, i] == 0))
        found.append((_BI, i, n + 1, place[:, i] == n - 1))
    kinds, first, second, has = zip(*found, strict=True)
    runs, has_run = _runs(orders)
    pairs, has_pair = np.array([first, second]).T, np.array(has, np.float64).T
    return Events(orders, np.array(kinds), pairs, has_pair, runs, has_run)


def _runs(orders: Int[np.ndarray, "p n"]) -> tuple[Int[np.ndarray, "r 5"], scipy.sparse.csc_array]:
    """The runs of three to five, at most of n, among the n items with one begin and one end, and who
    has them."""
    count, n = orders.shape
    fill = np.full((count, _LONGEST), n + 2)
    whole = np.hstack([np.full((count, 1), n), orders, np.full((count, 1), n + 1), fill])
    windows = []
    for length in range(3, min(n, _LONGEST) + 1):
        for start in range(n + 3 - length):
            window = whole[:, start : start + _LONGEST].copy()
            window[:, length:] = n + 2
            windows.append(window)
    if not windows:
        return np.zeros((0, _LONGEST), np.int64), scipy.sparse.csc_array((count, 0))
    stacked = np.concatenate(windows)
    _, at, columns = np.unique(
        stacked @ (n + 3) ** np.arange(_LONGEST), return_index=True, return_inverse=True
    )
    rows = np.tile(np.arange(count), len(windows))
    shape = (count, len(at))
    return stacked[at], scipy.sparse.csc_array((np.ones(len(rows)), (rows, columns)), shape)


def pair_codes(events: Events, numbers: Int[np.ndarray, "m n 3"]) -> Int[np.ndarray, "m e 3"]:
    """The features that the events of two items are: one for each view.

    Parameters
    ----------
    numbers: shape (m, n, 3), the symbols of each node's items, head first.
    """
    slots = np.zeros((len(numbers), len(events.pairs), 3, _LONGEST), np.int64)
    slots[..., :2] = _ended(numbers)[:, events.pairs].swapaxes(2, 3)
    return _codes(events.kinds[:, None], slots)


def run_codes(events: Events, numbers: Int[np.ndarray, "m n 3"]) -> Int[np.ndarray, "m r"]:
    """The features that the runs are: of part of speech and relation together.

    Parameters
    ----------
    numbers: as for :func:`pair_codes`.
    """
    return _codes(_HI, _ended(numbers[:, :, 2])[:, events.runs])


def _ended(numbers: Int[np.ndarray, "m n ..."]) -> Int[np.ndarray, "m o ..."]:
    """Symbols of items with those of begin, end and nothing behind them."""
    end = np.array([_BEGIN, _END, _NONE]).reshape(1, 3, *[1] * (numbers.ndim - 2))
    return np.hstack([numbers, np.broadcast_to(end, (len(numbers), 3, *numbers.shape[2:]))])
