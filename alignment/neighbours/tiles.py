"""One pass over the products of two sides, and who is near whom on both of them, in bounded memory.

All that retrieval needs from n × m similarities are the few largest of each row and of each column.
Here the products are computed in float32, tile by tile, and the matrix never exists. Of a tile only
the maxima of small groups are looked at, which costs a fraction of the product; where such a
maximum reaches an item's k-th best so far, the members of the group are taken in.

Matrix products are fast, but their last bits depend on the tile that they are computed in. So they
only narrow the choice: whatever lies within rounding of the k-th best is scored again in float64,
from the pair's exact dot product, and equal scores go to the lower index. The answers depend on the
vectors alone, not on tiles, threads or BLAS.

Rows that are equal to the last bit (crawled text repeats itself, and an encoder that has collapsed
gives one vector for all) are looked up once, and compete once; what is found is handed out to all
of them. Where many partners differ by less than rounding of float32, those around the k-th best are
narrowed down by a product in float64 first. Where that cannot tell them apart either, all pairs of
a tile are scored exactly, by a few products more
(:mod:`crosslens.alignment.neighbours.exact_products`): nearly equal rows cost a multiple of random
ones that does not grow with the rows.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from crosslens.alignment.neighbours.copies import Copies
from crosslens.blas import blas_workers

__all__ = ["BLOCK", "Found", "Scores", "find_both", "in_threads", "ranks", "rounding"]

BLOCK = 2048  # rows of a tile's shorter side, at most: a tile has up to 64 MB
_TILES = 2**29  # bytes of the tiles of all threads
_TURNS = 16  # tiles for each thread, at least, where they do not become too small
_TIED = 2  # times as many groups as an item's list is long: more would be taken in for nothing
_GROUP = 8  # scores of which only the largest is looked at
_SLACK = 2  # partners kept beyond k, so that what rounding has put in the wrong order is among them
_FEW = 2**22  # pairs that are compared on one thread
_PART = 512  # items settled at a time
_CROWDED = 256  # items that are settled once more at a time: each thread has some 50 MB for it
# where so many times the pairs that are to be scored exactly are more than a tile has, all of it is
_DENSE = 16
_HANDED = 2**20  # partners of copies that are put in order together
_LOWEST = np.finfo(np.float32).min
# twice: exact scores are sums in float64, too
_FINER = 2 * float(np.finfo(np.float64).eps / np.finfo(np.float32).eps)
_LAST = 2**32 - 1  # no partner has this number


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """What pairs are compared by: quickly, as products of two matrices, and exactly, pair by pair.

    Attributes
    ----------
    left, right: shape (n, e) and (m, e), float32; ``left @ right.T`` orders pairs as the exact
        scores do, but for rounding.
    margin: two quick scores further apart than this are in the right order.
    exact: row numbers and column numbers -> scores in float64, each from its own pair alone, to the
        last bit.
    exact_tile: row numbers and column numbers -> the same scores, of all pairs of these.
    scale: the exact score of a pair is this often its quick score.
    adjust: what is done to a tile of products, in place, to make quick scores of it; called with
        the tile and its first row and column.
    multiply: what writes a tile of products, where another pass has kept them; called alike.
        Without it, they are multiplied.
    closely: row numbers and column numbers -> a tile of exact scores but for rounding of float64.
    copies: rows of either side that have the same scores, to the last bit; None where there are
        none.
    restrict: row numbers and column numbers -> ``adjust`` of these alone.
    """

    left: Float[np.ndarray, "n e"]
    right: Float[np.ndarray, "m e"]
    margin: float
    exact: Callable[[np.ndarray, np.ndarray], np.ndarray]
    exact_tile: Callable[[np.ndarray, np.ndarray], np.ndarray]
    closely: Callable[[np.ndarray, np.ndarray], np.ndarray]
    scale: float = 1.0
    adjust: Callable[[np.ndarray, int, int], None] | None = None
    multiply: Callable[[np.ndarray, int, int], None] | None = None
    copies: tuple[Copies | None, Copies | None] = (None, None)
    restrict: Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray, int, int], None]] | None = (
        None
    )

    def turned(self) -> "Scores":
        """The same scores with the sides exchanged."""

        def adjust(tile: np.ndarray, row: int, column: int) -> None:
            if self.adjust is not None:
                self.adjust(tile.T, column, row)

        def exact(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return self.exact(columns, rows)

        def tile(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return self.exact_tile(columns, rows).T

        def closely(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return self.closely(columns, rows).T

        return Scores(self.right, self.left, self.margin, exact, tile, closely, self.scale, adjust)

    def among(self, rows: np.ndarray, columns: np.ndarray) -> "Scores":
        """The scores of some rows and columns, which are counted anew; none of them a copy of
        another."""

        def exact(some: np.ndarray, others: np.ndarray) -> np.ndarray:
            return self.exact(rows[some], columns[others])

        def tile(some: np.ndarray, others: np.ndarray) -> np.ndarray:
            return self.exact_tile(rows[some], columns[others])

        def closely(some: np.ndarray, others: np.ndarray) -> np.ndarray:
            return self.closely(rows[some], columns[others])

        adjust = None if self.restrict is None else self.restrict(rows, columns)
        return Scores(
            self.left[rows],
            self.right[columns],
            self.margin,
            exact,
            tile,
            closely,
            self.scale,
            adjust,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """The k best partners of each item, best first.

    Attributes
    ----------
    indices: shape (n, k), rows of the other side.
    scores: shape (n, k), float64, falling along each row; among equals the lower index comes first.
    """

    indices: Int[np.ndarray, "n k"]
    scores: Float[np.ndarray, "n k"]


def rounding(d: int, size: float = 1.0) -> float:
    """How far two sums of d float32 products may be apart and yet be in the wrong order; ``size``
    bounds the sum of the products' sizes.

    A sum of d products is off by at most d/2 eps of that, its rounded inputs add 1.5 eps; twice
    that for a difference, and some more.
    """
    return float(np.finfo(np.float32).eps * (d + 16) * size)


def find_both(
    scores: Scores,
    k: int,
    for_x: int | None = None,
    for_y: int | None = None,
    *,
    block: int | None = None,
) -> tuple[Found, Found]:
    """The k best partners of rows of both sides, from one pass over the products.

    Parameters
    ----------
    scores: what pairs are compared by.
    k: how many partners; at most the size of the other side, wherever one is looked for.
    for_x, for_y: how many rows of each side look for partners, the first ones; without them, all.
    block: rows of each side that are multiplied at a time. It changes time and memory, and nothing
        else.

    Returns
    -------
    of the left side, whose indices are rows of the right one; and of the right side.
    """
    n, m = len(scores.left), len(scores.right)
    for_x, for_y = n if for_x is None else for_x, m if for_y is None else for_y
    if scores.copies == (None, None):
        return _find(scores, (k, k), for_x, for_y, block)
    left, right = (
        copies or Copies.each(len(side))
        for copies, side in zip(scores.copies, (scores.left, scores.right), strict=True)
    )
    most = min(k, len(right.first)), min(k, len(left.first))
    looking_x, looking_y = (
        int(np.searchsorted(side.first, asked)) for side, asked in ((left, for_x), (right, for_y))
    )
    of_x, of_y = _find(scores.among(left.first, right.first), most, looking_x, looking_y, block)
    return _handed_out(of_x, left.of[:for_x], right, k), _handed_out(
        of_y, right.of[:for_y], left, k
    )


def _handed_out(found: Found, groups: Int[np.ndarray, " n"], others: Copies, k: int) -> Found:
    """From the k best groups of each group to the k best rows of each row: a row that is among them
    is of one of these groups."""
    indices, scores = np.empty((len(found.indices), k), np.int64), np.empty((len(found.indices), k))
    step = max(1, _HANDED // (k * max(1, found.indices.shape[1])))
    for start in range(0, len(indices), step):
        best = found.indices[start : start + step]
        score = found.scores[start : start + step].ravel()
        sizes = np.minimum(k, others.counts[best])
        flat, item = sizes.ravel(), np.repeat(np.arange(len(best)), sizes.sum(axis=1))
        place = np.arange(len(item)) - np.repeat(np.cumsum(flat) - flat, flat)
        partner = others.members[np.repeat(others.starts[best].ravel(), flat) + place]
        order = np.lexsort((partner, -np.repeat(score, flat), item))
        keep = order[np.searchsorted(item, np.arange(len(best)))[:, None] + np.arange(k)]
        indices[start : start + step] = partner[keep]
        scores[start : start + step] = np.repeat(score, flat)[keep]
    return Found(indices[groups], scores[groups])


def _find(
    scores: Scores, k: tuple[int, int], for_x: int, for_y: int, block: int | None
) -> tuple[Found, Found]:
    n, m = len(scores.left), len(scores.right)
    of_x, of_y = _Shortlist.empty(for_x, m, k[0]), _Shortlist.empty(for_y, n, k[1])
    # memory for one tile, kept: fresh memory costs a good part of what the product costs
    own = threading.local()

    def look(corner: tuple[int, int], size: tuple[int, int]) -> None:
        row, column = corner
        if not hasattr(own, "memory"):
            own.memory = np.empty(_whole(min(shape[0], n)) * _whole(min(shape[1], m)), np.float32)
        tile = _Tile.of(
            scores, corner, size, (len(of_x.worst) - row, len(of_y.worst) - column), own.memory
        )
        of_x.offer(tile, 0)
        of_y.offer(tile, 1)

    with in_threads(n * m) as (run, threads):
        shape = (
            _shape((n, m), len(of_x.worst), len(of_y.worst), threads)
            if block is None
            else (block, block)
        )
        run(lambda part: look(*part), _parts((n, m), shape, threads))
        return of_x.settled(scores, run), of_y.settled(scores.turned(), run)


def _shape(sides: tuple[int, int], for_x: int, for_y: int, threads: int) -> tuple[int, int]:
    """Rows and columns of a tile: the longer it is for those that look for partners, the fewer are
    taken in and dropped later.

    But each thread has a tile in memory, and with few tiles the threads would wait for the last
    one.
    """
    rows, columns = (1 if 4 * for_y < for_x else 2) * BLOCK, (1 if 4 * for_x < for_y else 2) * BLOCK
    while threads * 4 * rows * columns > _TILES and min(rows, columns) > BLOCK // 8:
        rows, columns = rows // 2, columns // 2
    rows, columns = _even(sides[0], rows), _even(sides[1], columns)
    least = BLOCK // 4
    while (
        threads > 1
        and -(-sides[0] // rows) * -(-sides[1] // columns) < _TURNS * threads
        and max(rows, columns) > least
    ):
        if rows >= columns:
            rows = _whole(-(-rows // 2))
        else:
            columns = _whole(-(-columns // 2))
    return rows, columns


def _parts(
    sides: tuple[int, int], shape: tuple[int, int], threads: int
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Corners and shapes of the tiles in their order; the last are cut in quarters, so that no
    thread waits long for another."""
    corners = [
        (row, column)
        for row in range(0, sides[0], shape[0])
        for column in range(0, sides[1], shape[1])
    ]
    last = threads if threads > 1 else 0
    low = _whole(-(-shape[0] // 4))
    whole, cut = corners[: len(corners) - last], corners[len(corners) - last :]
    ends = [(row, min(row + shape[0], sides[0]), column) for row, column in cut]
    quarters = [
        ((first, column), (min(low, stop - first), shape[1]))
        for row, stop, column in ends
        for first in range(row, stop, low)
    ]
    return [(corner, shape) for corner in whole] + quarters


def ranks(scores: Scores, columns: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Which place, counted from 1, a given column takes among all columns, for each row; an equal
    score of lower index goes before it."""
    n = len(scores.left)
    own = scores.exact(np.arange(n), columns)
    before = np.zeros(n, np.int64)
    copies = scores.copies[1]
    if copies is not None:
        scores = scores.among(np.arange(n), copies.first)
    copies = copies or Copies.each(len(scores.right))
    m, counts = len(scores.right), copies.counts
    # rising: how many of a group go before a row is looked up
    ahead = copies.members + copies.of[copies.members] * len(copies.members)

    def look(row: int, column: int) -> None:
        mine = slice(row, row + _PART)
        tile = scores.left[mine] @ scores.right[column : column + BLOCK].T
        if scores.adjust is not None:
            scores.adjust(tile, row, column)
        quick = (own[mine] / scores.scale)[:, None]
        above = tile > (quick + scores.margin).astype(np.float32)
        near = (tile >= (quick - scores.margin).astype(np.float32)) & ~above
        rows, others = np.nonzero(near)
        if len(rows) * _DENSE > tile.size:
            every = np.arange(row, row + len(tile)), np.arange(column, column + tile.shape[1])
            exact = scores.exact_tile(*every)[rows, others]
        else:
            exact = scores.exact(rows + row, others + column)
        rows, others = rows + row, others + column
        many = np.where(exact > own[rows], counts[others], 0)
        ties = np.flatnonzero(exact == own[rows])
        some = others[ties]
        many[ties] = (
            np.searchsorted(ahead, columns[rows[ties]] + some * len(copies.members))
            - copies.starts[some]
        )
        before[mine] += above @ counts[column : column + BLOCK] + np.bincount(
            rows - row, many, minlength=len(above)
        ).astype(np.int64)

    def look_along(row: int) -> None:
        for column in range(0, m, BLOCK):
            look(row, column)

    with in_threads(n * m) as (run, _):
        run(look_along, list(range(0, n, _PART)))
    return before + 1


@dataclasses.dataclass(frozen=True, eq=False)
class _Tile:
    """Quick scores of some rows and columns; -inf fills it up to whole groups. ``tops`` has each
    group's largest, by row and by column."""

    row: int
    column: int
    scores: np.ndarray  # (a, b)
    # (<= a, b / 8), of every (b / 8)-th score of a row; (a / 8, <= b), of 8 neighbours in a column
    tops: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(
        cls,
        scores: Scores,
        corner: tuple[int, int],
        shape: tuple[int, int],
        looking: tuple[int, int],
        memory: np.ndarray,
    ) -> "_Tile":
        """Multiply into ``memory``; of rows and columns as many as ``looking`` says look for
        partners, the first ones."""
        row, column = corner
        rows, columns = scores.left[row : row + shape[0]], scores.right[column : column + shape[1]]
        a, b = _whole(len(rows)), _whole(len(columns))
        tile = memory[: a * b].reshape(a, b)
        inside = tile[: len(rows), : len(columns)]
        if scores.multiply is None:
            np.matmul(rows, columns.T, out=inside)
        else:
            scores.multiply(inside, row, column)
        if scores.adjust is not None:
            scores.adjust(inside, row, column)
        tile[len(rows) :], tile[:, len(columns) :] = -np.inf, -np.inf
        by_row = np.maximum.reduce(tile.reshape(a, _GROUP, -1)[: max(0, looking[0])], axis=1)
        by_column = np.maximum.reduce(
            tile.reshape(-1, _GROUP, b)[:, :, : max(0, looking[1])], axis=1
        )
        return cls(row, column, tile, (by_row, by_column))

    def members(self, axis: int, item: np.ndarray, group: np.ndarray) -> np.ndarray:
        """The scores of some groups of some rows or columns, shape (groups, 8)."""
        width = self.scores.shape[1]
        first, step = (
            (item * width + group, width // _GROUP)
            if axis == 0
            else (group * (_GROUP * width) + item, width)
        )
        inside = first[:, None] + np.arange(0, _GROUP * step, step)
        # all are inside: mode saves a check
        return self.scores.reshape(-1).take(inside, mode="clip")


def _run_here(function: Callable[..., Any], arguments: list[Any]) -> None:
    for each in arguments:
        function(each)


Run = Callable[[Callable[..., Any], list[Any]], None]


@contextlib.contextmanager
def in_threads(pairs: int) -> Iterator[tuple[Run, int]]:
    """Gives ``run(function, arguments)``, which calls the function with each of the arguments, on
    as many threads as BLAS has; and these.

    BLAS has one thread in each meanwhile, in the whole process. So all of the work is shared out,
    where BLAS would share the products only. Few pairs are not worth it.
    """
    if pairs < _FEW:
        yield _run_here, 1
        return
    with blas_workers(pairs) as (pool, threads):

        def run(function: Callable[..., Any], arguments: list[Any]) -> None:
            for done in [pool.submit(function, each) for each in arguments]:
                done.result()

        yield run, threads


def _even(size: int, most: int) -> int:
    """How long parts of a side are that are nearly alike and no longer than this."""
    return min(most, _whole(-(-size // -(-size // most))))


def _whole(size: int) -> int:
    return -(-size // _GROUP) * _GROUP


def _packed(values: np.ndarray, partners: np.ndarray) -> np.ndarray:
    """A float32 score and a partner's number as one whole number: larger for a higher score, and
    for a lower number among equals."""
    bits = values.view(np.int32)
    ordered = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int64)
    packed: np.ndarray = (ordered << 32) | (_LAST - partners)
    return packed


def _unpacked_scores(packed: np.ndarray) -> np.ndarray:
    bits = (packed >> 32).astype(np.int32)
    return np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int32).view(np.float32)


@dataclasses.dataclass(frozen=True, eq=False)
class _Shortlist:
    """The best partners of each item so far, a few more than k, by quick scores; in no order."""

    packed: np.ndarray  # (n, size)
    worst: np.ndarray  # (n,), the lowest score in each list; -inf where the list is not full
    k: int
    partners: int  # on the other side
    lock: threading.Lock

    @classmethod
    def empty(cls, n: int, partners: int, k: int) -> "_Shortlist":
        size = min(k + _SLACK, partners)
        nobody = _packed(np.full(1, -np.inf, np.float32), np.full(1, _LAST, np.int64))[0]
        return cls(
            np.full((n, size), nobody),
            np.full(n, -np.inf, np.float32),
            k,
            partners,
            threading.Lock(),
        )

    def offer(self, tile: _Tile, axis: int) -> None:
        """Take in a tile whose rows (axis 0) or columns (axis 1) are the items that look for
        partners."""
        first, first_partner = (tile.row, tile.column) if axis == 0 else (tile.column, tile.row)
        stop = min(len(self.worst), first + tile.scores.shape[axis])
        if first >= stop:
            return
        tops, least = tile.tops[axis], self._least(tile, axis, slice(first, stop))
        wanted = tops >= (least[:, None] if axis == 0 else least)
        if np.count_nonzero(wanted) > _TIED * self.packed.shape[1] * len(least):
            reached, wanted = self._without_ties(wanted, tops, 1 - axis)
            least = np.maximum(least, reached)
        if axis == 0:
            item, group = np.divmod(np.flatnonzero(wanted), tops.shape[1])
        else:
            group, item = np.divmod(np.flatnonzero(wanted), tops.shape[1])
        values = tile.members(axis, item, group)
        hit, member = np.divmod(np.flatnonzero(values >= least[item, None]), _GROUP)
        partner = member * tops.shape[1] + group[hit] if axis == 0 else group[hit] * _GROUP + member
        if len(hit):
            # what another thread has taken in since only makes this tile's offers worse
            with self.lock:
                self._merge(first, item[hit], _packed(values[hit, member], partner + first_partner))

    def _least(self, tile: _Tile, axis: int, mine: slice) -> np.ndarray:
        """The score that each item of the tile must see to take a partner in."""
        worst = self.worst[mine]
        # A list that is full takes better ones only: where equal ones matter, all that come close
        # are scored again.
        worst = np.where(np.isfinite(worst), np.nextafter(worst, np.float32(np.inf)), worst)
        # the list is not full: as many groups as it is long have a member of at least this
        if not np.isfinite(worst).all():
            size, other = self.packed.shape[1], 1 - axis
            seen = tile.tops[axis] if tile.tops[axis].shape[other] >= size else tile.scores
            # larger groups do nearly as well, and sooner
            while seen.shape[other] % 2 == 0 and seen.shape[other] >= 8 * size:
                seen = np.maximum(*np.split(seen, 2, axis=other))
            place = seen.shape[other] - size
            if place >= 0:
                worst = np.maximum(
                    worst,
                    np.partition(seen, place, axis=other).take(place, axis=other)[: len(worst)],
                )
        least: np.ndarray = np.maximum(worst, _LOWEST)  # what fills a tile up never counts
        return least

    def _without_ties(
        self, wanted: np.ndarray, tops: np.ndarray, other: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """A score that enough groups of each item reach, and these groups: of those that have just
        this score, as many as the list is long.

        Equal ones beyond that need not be known: a list that ends in the midst of them is crowded,
        and the item is settled once more.
        """
        size = self.packed.shape[1]
        least = np.partition(tops, tops.shape[other] - size, axis=other).take(
            [tops.shape[other] - size], axis=other
        )
        equal = tops == least
        return least.ravel(), wanted & (
            (tops > least) | equal & (np.cumsum(equal, axis=other) <= size)
        )

    def _merge(self, first: int, item: np.ndarray, packed: np.ndarray) -> None:
        counts = np.bincount(item)
        touched = np.flatnonzero(counts)
        counts = counts[touched]
        order = np.argsort(item.astype(np.uint16) if item.max() < 2**16 else item, kind="stable")
        ends = np.cumsum(counts)
        place = np.arange(len(item)) - np.repeat(ends - counts, counts)
        size, most = self.packed.shape[1], int(counts.max())
        table = np.full((len(touched), size + most), np.iinfo(np.int64).min)
        table[:, :size] = self.packed[first + touched]
        table[np.repeat(np.arange(len(touched)), counts), size + place] = packed[order]
        table.partition(most, axis=1)
        self.packed[first + touched] = table[:, most:]
        self.worst[first + touched] = _unpacked_scores(table[:, most])

    def settled(self, scores: Scores, run: Run) -> Found:
        """The k best by exact scores."""
        n, k = len(self.worst), self.k
        found = Found(np.empty((n, k), np.int64), np.empty((n, k)))
        crowded = np.zeros(n, bool)

        def settle(start: int) -> None:
            mine = slice(start, start + _PART)
            packed = np.sort(self.packed[mine], axis=1)[:, ::-1]
            quick, partners = _unpacked_scores(packed), _LAST - (packed & _LAST)
            close = quick >= quick[:, [k - 1]] - scores.margin
            exact = np.full(quick.shape, -np.inf)
            rows, places = np.nonzero(close)
            exact[rows, places] = scores.exact(rows + start, partners[rows, places])
            order = np.lexsort((partners, -exact), axis=1)[:, :k]
            found.indices[mine] = np.take_along_axis(partners, order, axis=1)
            found.scores[mine] = np.take_along_axis(exact, order, axis=1)
            crowded[mine] = close[:, -1] & (quick.shape[1] < self.partners)

        run(settle, list(range(0, n, _PART)))
        _settle_crowded(scores, found, np.flatnonzero(crowded), run)
        return found


def _settle_crowded(scores: Scores, found: Found, items: np.ndarray, run: Run) -> None:
    """Once more for items around whose k-th partner there are more than the list has held.

    What comes close by a product in float64 is scored exactly. Where that is much of a tile, since
    rows differ by less than rounding of float64, all of the tile is, by products that are exact in
    any order.
    """
    k, m = found.indices.shape[1], len(scores.right)

    def settle(mine: np.ndarray) -> None:
        indices, best = np.full((len(mine), k), _LAST), np.full((len(mine), k), -np.inf)
        dense = False
        for column in range(0, m, BLOCK):
            columns = np.arange(column, min(column + BLOCK, m))
            if not dense:
                tile = scores.closely(mine, columns)
                least = (
                    np.maximum(_reached(tile, k), best[:, [-1]])
                    - scores.scale * scores.margin * _FINER
                )
                rows, places = np.nonzero(tile >= least)
                dense = len(rows) * _DENSE > tile.size
            if dense:
                tile = np.ascontiguousarray(scores.exact_tile(mine, columns))
                rows, places = _first_best(tile, k, best[:, [-1]])
                exact = tile[rows, places]
            else:
                exact = scores.exact(mine[rows], columns[places])
            _keep_best(indices, best, rows, places + column, exact)
        found.indices[mine], found.scores[mine] = indices, best

    run(settle, [items[start : start + _CROWDED] for start in range(0, len(items), _CROWDED)])


def _reached(tile: np.ndarray, k: int) -> np.ndarray:
    """A score that k in each row reach, and seldom many more, shape (rows, 1): the k-th of the
    largest of each group.

    -inf, where a row has fewer than k.
    """
    width = tile.shape[1]
    if k > width:
        return np.full((len(tile), 1), -np.inf)
    if width >= 4 * _GROUP * k:
        whole = width - width % _GROUP
        tile = np.maximum.reduce(tile[:, :whole].reshape(len(tile), _GROUP, -1), axis=1)
    place = tile.shape[1] - k
    least: np.ndarray = np.partition(tile, place, axis=1)[:, [place]]
    return least


def _first_best(tile: np.ndarray, k: int, worst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the k best of each row stand that are above its ``worst``, of equal ones the first; and
    some that are not among the best."""
    least = _reached(tile, k)
    # what stands further on must be better: among equals the first come first
    found = (tile >= least) & (tile > worst)
    if np.count_nonzero(found) > _GROUP * k * len(tile):
        equal = tile == least
        found &= ~equal | (np.cumsum(equal, axis=1) <= k)
    rows, columns = np.nonzero(found)
    return rows, columns


def _keep_best(
    indices: np.ndarray,
    best: np.ndarray,
    items: np.ndarray,
    partners: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Merge pairs into the k best of each item, in place."""
    n, k = indices.shape
    items = np.concatenate([np.repeat(np.arange(n), k), items])
    partners = np.concatenate([indices.ravel(), partners])
    scores = np.concatenate([best.ravel(), scores])
    order = np.lexsort((partners, -scores, items))
    starts = np.searchsorted(items[order], np.arange(n))
    keep = order[starts[:, None] + np.arange(k)]
    indices[...], best[...] = partners[keep], scores[keep]
