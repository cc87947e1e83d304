"""The best partners of every item in two vocabularies, by cosine or by CSLS, from one matrix
product.

Nothing of the n × m product is kept but, for every item, its largest cosine within each
group of partners. That is enough to find its partners of the first few ranks: a group
whose largest possible score lies below what enough other groups are known to reach
cannot hold them. Only the groups left, about as many as the rank, are multiplied again.
A group holds partners of similar hubness, so that its largest CSLS score is known within a hair
from its largest cosine.

Results are those of the definition, in the precision of the products: two scores closer
together than rounding may come in either order on another machine. The work is shared among
threads that each have a BLAS of one, so their number changes nothing. Equal scores are ordered by
the lower index.
"""

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from crosslens.blas import for_each

__all__ = ["GroupMaxima"]

# partners in a group, unless the vocabularies are so large that the maxima would not fit
_GROUP = 32
_MAXIMA_BYTES = 2**28  # most memory for the maxima of both sides
_TILE = (1024, 2048)  # rows of x and of y in one product: 8 MB of float32 cosines
_GROUPS = 16  # groups that a thread looks in before it takes more
_CROWDED = 0.5  # where a larger share of them is wanted by each item, they are multiplied at once
_LOOKED_AT = 2**24  # most scores that one selection looks at together
_PART = 2048  # rows whose groups are bounded at a time


class GroupMaxima:
    """One pass over the cosines of all pairs, and what can be asked afterwards.

    Parameters
    ----------
    x: shape (n, d), rows of length 1; not checked here.
    y: shape (m, d), rows of length 1, in the precision of ``x``.
    order_x, order_y: shapes (n,) and (m,), the rows in the order in which they are grouped. Every
        order gives the same answers; the quickest has items of similar CSLS terms side by side.

    >>> x, y = np.eye(3, dtype=np.float32), np.float32([[0.6, 0.8, 0], [0, 0, 1]])
    >>> maxima = GroupMaxima(x, y, np.arange(3), np.arange(2))
    >>> [best.round(2).tolist() for best in maxima.best_cosines()]
    [[0.6000000238418579, 0.800000011920929, 1.0], [0.800000011920929, 1.0]]
    >>> r_x, r_y = maxima.neighbourhood_means(2)
    >>> r_x.round(2).tolist(), r_y.round(2).tolist()
    ([0.30000001192092896, 0.4000000059604645, 0.5], [0.699999988079071, 0.5])
    >>> there, back = maxima.partners(r_x, r_y, np.array([1, 1, 2]), np.array([1, 4]))
    >>> there.tolist(), back.tolist()
    ([0, 0, 0], [1, -1])
    """

    def __init__(
        self,
        x: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "m d"],
        order_x: Int[np.ndarray, " n"],
        order_y: Int[np.ndarray, " m"],
    ) -> None:
        self._size = max(_GROUP, -(-2 * len(x) * len(y) * x.itemsize // _MAXIMA_BYTES))
        self._x = _Vocabulary.of(x, order_x, self._size)
        self._y = _Vocabulary.of(y, order_y, self._size)
        self._over_y = np.empty((len(x), len(self._y.members)), x.dtype)
        over_x = np.empty((len(self._x.members), len(y)), x.dtype)
        parts = list(self._y.blocks(_TILE[1]))

        def look(number: int) -> None:
            b, columns = parts[number]
            right, memory = y[columns].T, np.empty(0, x.dtype)
            for a, rows in self._x.blocks(_TILE[0]):
                if memory.size < len(rows) * len(columns):
                    # kept: fresh memory costs a good part of what the product costs
                    memory = np.empty(len(rows) * len(columns), x.dtype)
                tile = np.matmul(
                    x[rows], right, out=memory[: len(rows) * len(columns)].reshape(len(rows), -1)
                )
                over_x[a, columns] = np.maximum.reduce(
                    tile.reshape(self._size, -1, len(columns)), axis=0
                )
                self._over_y[rows, b] = np.maximum.reduce(
                    tile.reshape(len(tile), self._size, -1), axis=1
                )

        for_each(look, len(parts))
        self._over_x = np.ascontiguousarray(over_x.T)

    def best_cosines(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " m"]]:
        """The largest cosine of each x with any y, and of each y with any x."""
        return self._over_y.max(axis=1), self._over_x.max(axis=1)

    def neighbourhood_means(
        self, k: int
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " m"]]:
        """The mean cosine of each item's k nearest on the other side: the terms ``r`` of CSLS
        (Conneau et al. 2018, eq. 2).

        ``k`` may be at most min(n, m).
        """
        means = []
        for one, other, maxima in (
            (self._x, self._y, self._over_y),
            (self._y, self._x, self._over_x),
        ):
            _, cosines = _first_ranks(one, other, maxima, None, np.full(len(maxima), k))
            means.append(cosines.reshape(-1, k).mean(axis=1))
        return means[0], means[1]

    def partners(
        self,
        r_x: Float[np.ndarray, " n"],
        r_y: Float[np.ndarray, " m"],
        ranks_x: Int[np.ndarray, " n"],
        ranks_y: Int[np.ndarray, " m"],
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
        """The partner of the wanted rank, by ``2 cos(x, y) - r_x - r_y``, of each x and of each y.

        Parameters
        ----------
        r_x, r_y: the CSLS terms, as :meth:`neighbourhood_means` gives them.
        ranks_x, ranks_y: 1 is the best partner; each item has a rank of its own.

        Returns
        -------
        rows of y, shape (n,), and rows of x, shape (m,); -1 where the rank is larger than the
        number of partners.
        """
        there = _at_rank(self._x, self._y, self._over_y, r_y, ranks_x)
        back = _at_rank(self._y, self._x, self._over_x, r_x, ranks_y)
        return there, back


@dataclasses.dataclass(frozen=True, eq=False)
class _Vocabulary:
    """Unit rows and their groups, shape (groups, size); the last group is filled up with copies of
    its last member."""

    units: np.ndarray
    members: np.ndarray

    @classmethod
    def of(cls, units: np.ndarray, order: np.ndarray, size: int) -> "_Vocabulary":
        filled = np.pad(order, (0, -len(order) % size), mode="edge")
        return cls(units, filled.reshape(-1, size))

    def blocks(self, rows: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Some groups at a time and their members: the first of every group, then the second of
        every group, and so on."""
        step = max(1, rows // self.members.shape[1])
        for start in range(0, len(self.members), step):
            groups = slice(start, start + step)
            yield groups, self.members[groups].T.ravel()

    def group(self, number: int) -> np.ndarray:
        """The members of one group, in rising order and without the copies."""
        return np.unique(self.members[number])


def _at_rank(
    one: _Vocabulary, other: _Vocabulary, maxima: np.ndarray, r: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    partners, _ = _first_ranks(one, other, maxima, r, ranks)
    there = np.full(len(ranks), -1)
    some = np.flatnonzero(ranks <= len(other.units))
    there[some] = partners[np.cumsum(ranks[some]) - 1]
    return there


def _first_ranks(
    one: _Vocabulary,
    other: _Vocabulary,
    maxima: np.ndarray,
    r: np.ndarray | None,
    ranks: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Partners and scores of the first ``ranks[i]`` ranks of each item i, best first, all items in
    one row.

    The score is the cosine, or ``2 cos - r`` where ``r`` is given. An item whose rank is larger
    than the number of partners has no entry.
    """
    wanted, least = _groups_to_look_in(other, maxima, r, ranks)
    sizes = np.cumsum(wanted.sum(axis=0) * other.members.shape[1])
    # nearly always there is nothing to cut
    cuts = np.searchsorted(sizes, np.arange(_LOOKED_AT, sizes[-1], _LOOKED_AT))
    batches = np.split(np.arange(len(ranks)), np.unique(cuts))
    found = [_look_in(one, other, r, rows, wanted[:, rows], least, ranks) for rows in batches]
    return np.concatenate([partners for partners, _ in found]), np.concatenate(
        [scores for _, scores in found]
    )


def _groups_to_look_in(
    other: _Vocabulary, maxima: np.ndarray, r: np.ndarray | None, ranks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which groups can hold partners of the wanted ranks, shape (groups, items), and the score that
    these partners reach at least.

    Every group has a member with the group's largest cosine, so an item's partner of rank g scores
    no less than the g-th largest of the groups' lower bounds.
    """
    groups = maxima.shape[1]
    wanted = np.zeros((groups, len(maxima)), bool)
    least = np.full(len(maxima), -np.inf, maxima.dtype)
    # A computed cosine is off by less than (d/2 + 2) eps; twice that for a difference of two, twice
    # for 2 cos, and some more.
    margin = 2 * np.finfo(maxima.dtype).eps * (other.units.shape[1] + 16)
    for start in range(0, len(maxima), _PART):
        part = slice(start, start + _PART)
        lower = upper = maxima[part]
        if r is not None:
            lower = 2 * lower - r[other.members].max(axis=1)
            upper = 2 * upper - r[other.members].min(axis=1)
        bounded = np.flatnonzero(ranks[part] <= groups)
        by_size = np.sort(lower[bounded], axis=1)
        least[start + bounded] = (
            by_size[np.arange(len(bounded)), groups - ranks[start + bounded]] - margin
        )
        wanted[:, part] = (upper >= least[part, None]).T
    wanted[:, ranks > len(other.units)] = False
    return wanted, least


def _look_in(
    one: _Vocabulary,
    other: _Vocabulary,
    r: np.ndarray | None,
    rows: np.ndarray,
    wanted: np.ndarray,
    least: np.ndarray,
    ranks: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Multiply the rows by the members of their wanted groups, and keep the partners of the first
    ranks.

    Where rows are equal or nearly so (a collapsed encoder), nearly all groups are wanted by all,
    and every pair would be left to the last sort, which would take most of the time: only what can
    be of the first ranks among several groups is then kept for it.
    """
    groups = np.flatnonzero(wanted.any(axis=1))

    def products(some: np.ndarray, keys: np.ndarray) -> np.ndarray:
        tile: np.ndarray = one.units[some] @ other.units[keys].T
        return tile if r is None else 2 * tile - r[keys]

    def look(number: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        chunk = groups[number * _GROUPS : (number + 1) * _GROUPS]
        if np.count_nonzero(wanted[chunk]) > _CROWDED * wanted[chunk].size:
            members = [other.group(group) for group in chunk.tolist()]
            ends = np.cumsum([len(keys) for keys in members])
            tile = np.full((len(rows), ends[-1]), -np.inf, one.units.dtype)
            for group, keys, end in zip(chunk.tolist(), members, ends, strict=True):
                tile[wanted[group], end - len(keys) : end] = products(rows[wanted[group]], keys)
            partners = np.concatenate(members)
            order = np.argsort(partners)
            tile = tile[:, order]
            item, place = _first_of(tile, ranks[rows], least[rows])
            return [(rows[item], partners[order[place]], tile[item, place])]
        found = []
        for group in chunk.tolist():
            some, keys = rows[wanted[group]], other.group(group)
            tile = products(some, keys)
            item, place = np.nonzero(tile >= least[some, None])
            found.append((some[item], keys[place], tile[item, place]))
        return found

    nobody = [(rows[:0], rows[:0], least[:0])]
    found = itertools.chain(nobody, *for_each(look, -(-len(groups) // _GROUPS)))
    item, partner, score = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((partner, -score, item))
    item = item[order]
    order = order[np.arange(len(item)) - np.searchsorted(item, item) < ranks[item]]
    return partner[order], score[order]


def _first_of(
    scores: np.ndarray, ranks: np.ndarray, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where in each row the scores of the first ranks stand that are ``least`` or more; of equal
    ones the first."""
    width = scores.shape[1]
    ranks = np.minimum(ranks, width)
    most = int(ranks.max())
    top = np.sort(np.partition(scores, width - most, axis=1)[:, width - most :], axis=1)
    least = np.maximum(least, top[np.arange(len(top)), most - ranks])
    # -inf stands where a group is not looked in
    least = np.maximum(least, np.finfo(scores.dtype).min)
    found = scores >= least[:, None]
    if np.count_nonzero(found) > 2 * ranks.sum():
        equal = scores == least[:, None]
        found &= ~equal | (np.cumsum(equal, axis=1) <= ranks[:, None])
    item, place = np.nonzero(found)
    return item, place
