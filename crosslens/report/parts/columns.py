"""Tables without the columns in which nothing stands."""

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["filled_columns"]

_Row = TypeVar("_Row", bound=Sequence[str])


def filled_columns(head: _Row, rows: Sequence[_Row], empty: str) -> list[tuple[str, ...]]:
    """A table, its head first, with the columns of which one row at least has something.

    Parameters
    ----------
    head, rows: cells, as many in each. empty: the cell that has nothing.

    >>> filled_columns(("system", "LAS", "UAS"), [("a", "-", "5"), ("b", "-", "-")], "-")
    [('system', 'UAS'), ('a', '5'), ('b', '-')]
    """
    columns = zip(head, *rows, strict=True)
    kept = [column for column in columns if not rows or set(column[1:]) != {empty}]
    return list(zip(*kept, strict=True))
