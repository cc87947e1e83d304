"""What checks the arguments and results of functions while the tests run, by their annotations."""

from collections.abc import Callable
from typing import Any

from beartype import beartype

__all__ = ["checked"]


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with checks; one that is defined within another function as it is: that would be
    prepared anew in each call of the outer one, which takes longer than what most of them do."""
    return function if "<locals>" in function.__qualname__ else beartype(function)
