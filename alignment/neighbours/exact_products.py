"""Dot products whose last bit does not depend on how they are computed: alone, in tiles, on any
BLAS, by any number of threads.

Sums of floating-point numbers depend on their order, unless no step rounds. So each row is cut into
slices, whole numbers of so few bits that all sums of their products fit into the 53 bits of float64
(Ozaki et al. 2012). Products of slices are then exact, whoever adds them in whatever order, and may
be left to BLAS; what they add up to is rounded once.

Three slices have 60 bits or more up to d = 4,096, counted from a row's largest number down. Rows
whose numbers need no more than two, as float32 rows do whose numbers are within about 2^-18 of the
largest, have the exact dot product, rounded once to float64. In others, what lies below three
slices is left out: before it is rounded, a dot product is then off by less than ``2 d 2^(-3
bits)``, if the rows' largest numbers are 1.

Ozaki, Ogita, Oishi & Rump 2012, Error-free transformations of matrix multiplication by using fast
routines of matrix multiplication and its applications, Numerical Algorithms 59. The sums of two
parts of products of float32 follow Rump, Ogita & Oishi 2008, Accurate floating-point summation,
SIAM Journal on Scientific Computing 31.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = ["ExactRows", "exact_pairs", "exact_tile", "slice_bits"]

# numbers held while pairs are multiplied: few enough for a cache, and threads seldom wait for
# Python
_NUMBERS = 2**16
_TILE_NUMBERS = 2**20  # numbers of one side that are cut in slices together
_PART = 2048  # rows looked at together
_SLICES = 3


def slice_bits(d: int) -> int:
    """How many bits a slice has, so that sums of d products of each order are exact, and so is what
    is left below the highest.

    A slice is at most ``2^bits``, the ones after the first half of that. The largest sum has
    ``(1.25 d + 0.5) 2^(2 bits)``.

    >>> [slice_bits(d) for d in (1, 128, 1024, 4096)]
    [26, 22, 21, 20]
    """
    return int(53 - np.log2(1.25 * d + 0.5)) // 2


@dataclasses.dataclass(frozen=True, eq=False)
class ExactRows:
    """Rows of one side, and what their exact products need to know of them.

    Attributes
    ----------
    rows: shape (n, d), float32 or float64.
    units: shape (n,), a power of two for each row, above its largest number. All products are of
        rows divided by these, so that none overflows or vanishes.
    narrow: shape (n,), True where a row is float32 and its numbers are near enough to each other
        for a quicker way.
    """

    rows: np.ndarray
    units: Float[np.ndarray, " n"]
    narrow: Bool[np.ndarray, " n"]

    @classmethod
    def of(cls, rows: np.ndarray) -> "ExactRows":
        """From a contiguous matrix of finite numbers without rows of zeros."""
        units, narrow = np.empty(len(rows)), np.zeros(len(rows), bool)
        # two slices, but for the 24 bits of the number itself, and one to spare
        least = 2.0 ** -(2 * slice_bits(rows.shape[1]) - 25)
        for start in range(0, len(rows), _PART):
            part = slice(start, start + _PART)
            sizes = np.abs(rows[part])
            units[part] = np.ldexp(1.0, np.frexp(sizes.max(axis=1))[1])
            if rows.dtype == np.float32:
                narrow[part] = sizes.min(axis=1) >= least * units[part]
                low = np.flatnonzero(~narrow[part])
                narrow[start + low] = (
                    np.where(sizes[low] == 0, np.inf, sizes[low]).min(axis=1)
                    >= least * units[start + low]
                )
        return cls(rows, units, narrow)

    def slices(
        self, some: Int[np.ndarray, " a"], *, turned: bool = False
    ) -> tuple[Float[np.ndarray, "a e"], int]:
        """``rows / units`` as whole numbers, times 2^-bits, 2^-2 bits and 2^-3 bits, and how many
        of these there are.

        They stand side by side, the first one last if ``turned``. The last ones are not written if
        they are all 0.
        """
        d = self.rows.shape[1]
        size, slices = 2.0 ** slice_bits(d), np.empty((len(some), _SLICES * d))
        rest = self.rows[some] * (size / self.units[some])[:, None]
        for count in range(1, _SLICES + 1):
            place = (_SLICES - count if turned else count - 1) * d
            rest -= np.rint(rest, out=slices[:, place : place + d])
            if not rest.any():
                break
            rest *= size
        return slices, count


def exact_pairs(
    x: ExactRows, y: ExactRows, rows: Int[np.ndarray, " p"], columns: Int[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """Dot products of single pairs of rows, each divided by its unit.

    >>> x, y = ExactRows.of(np.array([[1.0, 2.0**-50]])), ExactRows.of(np.array([[1.0, 1.0], [3.0, 4.0]]))
    >>> x.units, y.units
    (array([2.]), array([2., 8.]))
    >>> exact_pairs(x, y, np.array([0, 0]), np.array([1, 0])) * [16, 4] - [3, 1]
    array([3.55271368e-15, 8.88178420e-16])
    """
    dots, step = np.empty(len(rows)), max(1, _NUMBERS // x.rows.shape[1])
    quick = x.narrow[rows] & y.narrow[columns]
    for multiply, some in (
        (_narrow_pairs, np.flatnonzero(quick)),
        (_sliced_pairs, np.flatnonzero(~quick)),
    ):
        for start in range(0, len(some), step):
            part = some[start : start + step]
            dots[part] = multiply(x, y, rows[part], columns[part])
    return dots


def exact_tile(
    x: ExactRows, y: ExactRows, rows: Int[np.ndarray, " a"], columns: Int[np.ndarray, " b"]
) -> Float[np.ndarray, "a b"]:
    """Dot products of all of some rows and columns: the numbers that :func:`exact_pairs` gives for
    them.

    >>> x = ExactRows.of(np.array([[1.0, 0.5], [0.25, 0.75]]))
    >>> exact_tile(x, x, np.array([1]), np.array([0, 1]))
    array([[0.3125, 0.625 ]])
    """
    tile, d = np.empty((len(rows), len(columns))), x.rows.shape[1]
    (left, count), step = x.slices(rows, turned=True), max(1, _TILE_NUMBERS // d)
    for start in range(0, len(columns), step):
        right, others = y.slices(columns[start : start + step])
        orders = [left[:, one] @ right[:, other].T for one, other in _orders(count, others, d)]
        tile[:, start : start + step] = _rounded(orders, slice_bits(d))
    return tile


def _orders(left: int, right: int, d: int) -> list[tuple[slice, slice]]:
    """For each order, where all pairs of slices stand whose numbers add up to it; from the numbers
    of slices, those of the left turned."""
    ranges = []
    for order in range(min(_SLICES, left + right - 1)):
        low, high = max(0, order - right + 1), min(order, left - 1)
        ranges.append(
            (
                slice((_SLICES - 1 - high) * d, (_SLICES - low) * d),
                slice((order - high) * d, (order - low + 1) * d),
            )
        )
    return ranges


def _sliced_pairs(x: ExactRows, y: ExactRows, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    starts = np.flatnonzero(np.diff(rows, prepend=-1))  # pairs of one row mostly come together
    own = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    left, count = x.slices(rows[starts], turned=True)
    right, others = y.slices(columns)
    d = x.rows.shape[1]
    left = left[own]
    orders = [
        np.einsum("ij,ij->i", left[:, one], right[:, other])
        for one, other in _orders(count, others, d)
    ]
    return _rounded(orders, slice_bits(d))


def _narrow_pairs(x: ExactRows, y: ExactRows, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Products of float32 are exact in float64; cut in two at a fixed bit, the upper parts have an
    exact sum, and so have the lower."""
    products = np.multiply(x.rows[rows], y.rows[columns], dtype=np.float64)
    units = x.units[rows] * y.units[columns]
    cut = (1.5 * 2.0 ** _up_to(x.rows.shape[1]) * units)[:, None]
    upper = products + cut
    upper -= cut
    products -= upper
    dots: np.ndarray = (upper.sum(axis=1) + products.sum(axis=1)) / units + 0.0
    return dots


def _up_to(d: int) -> int:
    """The power of two beside which a number keeps the bits that d of them can be added up with."""
    return int(np.ceil(np.log2(d))) + 1


def _rounded(orders: list[np.ndarray], bits: int) -> np.ndarray:
    """``orders[0] + 2^-bits orders[1] + 2^-2 bits orders[2]``, rounded once, times 2^-2 bits. The
    orders are written to."""
    upper, size = orders[0], 2.0**bits
    if len(orders) > 1:
        over = np.rint(orders[1] / size)
        upper += over
        over *= size
        lower = np.subtract(orders[1], over, out=over)
        lower *= size
        if len(orders) > 2:
            lower += orders[2]
        lower /= size * size
        upper += lower
    upper /= size * size
    upper += 0.0  # -0 becomes 0
    return upper
