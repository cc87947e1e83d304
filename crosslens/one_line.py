"""What a result says of itself in one line: its numbers as they are, its arrays by their shape."""

import dataclasses
from collections.abc import Mapping, Sized
from typing import Any

import numpy as np

from crosslens.errors import quote

__all__ = ["one_line"]

_MOST = 4  # items of a tuple or a list that are written out


def one_line(result: Any) -> str:
    """A dataclass in one line; to be its ``__repr__``.

    >>> @dataclasses.dataclass
    ... class Found:
    ...     share: float
    ...     n: int
    ...     interval: tuple[float, float]
    ...     right: np.ndarray
    ...     __repr__ = one_line
    >>> Found(2 / 3, 3, (0.2077, 0.9385), np.array([True, True, False]))
    Found(share=0.6667, n=3, interval=(0.2077, 0.9385), right=bool[3])
    """
    told = (
        f"{field.name}={_told(getattr(result, field.name))}" for field in dataclasses.fields(result)
    )
    return f"{type(result).__name__}({', '.join(told)})"


def _told(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{' × '.join(map(str, value.shape))}]"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if isinstance(value, (tuple, list)) and len(value) <= _MOST:
        inner = ", ".join(map(_told, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(…)"
    if (
        isinstance(value, (tuple, list, Mapping))
        or isinstance(value, Sized)
        and not isinstance(value, (str, bytes))
    ):
        return f"{type(value).__name__} of {len(value)}"
    return " ".join(quote(value, 60).split())
