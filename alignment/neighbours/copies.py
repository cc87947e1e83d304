"""Rows that are equal to the last bit: what is found for one of them holds for all, and is looked
for once."""

import dataclasses

import numpy as np
from jaxtyping import Int

__all__ = ["Copies"]

_PART = 2048  # rows looked at together


@dataclasses.dataclass(frozen=True, eq=False)
class Copies:
    """Which rows are copies of each other, as groups in the order of their first rows.

    Attributes
    ----------
    of: shape (n,), the group of each row.
    first: shape (groups,), the first row of each group, rising.
    members: shape (n,), the rows group by group, rising within each; group g has
        ``members[starts[g] : starts[g + 1]]``.
    starts: shape (groups + 1,).
    """

    of: Int[np.ndarray, " n"]
    first: Int[np.ndarray, " groups"]
    members: Int[np.ndarray, " n"]
    starts: Int[np.ndarray, " groups1"]

    @classmethod
    def among(cls, rows: np.ndarray, *more: np.ndarray) -> "Copies | None":
        """The groups of rows of shape (n, d) whose entries in ``more``, each of shape (n,), are
        equal, too; None where all differ.

        >>> Copies.among(np.array([[1.0], [2.0], [1.0]])).of.tolist()
        [0, 1, 0]
        >>> Copies.among(np.array([[1.0], [2.0], [3.0]])) is None
        True
        """
        names = np.zeros(len(rows), np.uint64)
        odd = (
            np.random.default_rng(0).integers(0, 2**63, rows.shape[1] + len(more), dtype=np.uint64)
            * 2
            + 1
        )
        for start in range(0, len(rows), _PART):
            part = slice(start, start + _PART)
            names[part] = (_bits(rows[part]) * odd[: rows.shape[1]]).sum(axis=1, dtype=np.uint64)
        for extra, factor in zip(more, odd[rows.shape[1] :], strict=True):
            names += _bits(np.asarray(extra, np.float64)) * factor
        if len(np.unique(names)) == len(rows):
            return None
        _, first, of = np.unique(names, return_index=True, return_inverse=True)
        for start in range(0, len(rows), _PART):
            part = slice(start, start + _PART)
            like = first[of[part]]
            if not (
                (rows[part] == rows[like]).all()
                and all((extra[part] == extra[like]).all() for extra in more)
            ):
                # two different rows have the same name, which is rare
                return cls._exactly(np.column_stack([rows, *more]))
        return cls._grouped(first, of.ravel())

    @classmethod
    def _exactly(cls, rows: np.ndarray) -> "Copies | None":
        _, first, of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return None if len(first) == len(rows) else cls._grouped(first, of.ravel())

    @classmethod
    def each(cls, n: int) -> "Copies":
        """Every row a group of its own."""
        return cls(np.arange(n), np.arange(n), np.arange(n), np.arange(n + 1))

    @classmethod
    def _grouped(cls, first: np.ndarray, of: np.ndarray) -> "Copies":
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        of = place[of]
        return cls(
            of,
            first[order],
            np.argsort(of, kind="stable"),
            np.concatenate([[0], np.cumsum(np.bincount(of))]),
        )

    @property
    def counts(self) -> Int[np.ndarray, " groups"]:
        """How many rows each group has."""
        return np.diff(self.starts)


def _bits(block: np.ndarray) -> np.ndarray:
    block = block + block.dtype.type(0)  # -0 becomes 0
    bits = block.view(np.uint32 if block.itemsize == 4 else np.uint64).astype(np.uint64)
    for shift in (16,) if block.itemsize == 4 else (32, 16):
        bits ^= bits >> shift  # of round numbers the low bits are 0, and would stay so in a product
    return bits
