"""What checks the arguments and results of functions while the tests run, by their annotations."""

import functools
import os
import typing
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

import jaxtyping
from beartype import beartype

__all__ = ["check_calls", "checked", "modules_with_shapes"]

_ROOMS = ("alignment", "models", "probes", "readers")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with checks; one that is defined within another function as it is: that would be
    prepared anew in each call of the outer one, which takes longer than what most of them do."""
    return function if "<locals>" in function.__qualname__ else beartype(function)


def names_shapes(hint: Any) -> bool:
    """Whether an annotation has an array's shape in it; one in quotes may have one."""
    if isinstance(hint, (str, typing.ForwardRef)):
        return True
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(names_shapes, typing.get_args(hint)))


def with_shapes(jaxtyped: Callable[..., Any], *, typechecker: Any) -> Callable[..., Any]:
    """jaxtyping's decorator, for functions without shapes the plain checks: binding the arguments
    of each call took a tenth of the tests' time."""

    def decorate(decorated: Any) -> Any:
        hints = getattr(decorated, "__annotations__", {}).values()
        if isinstance(decorated, FunctionType) and not any(map(names_shapes, hints)):
            return checked(decorated)
        return jaxtyped(decorated, typechecker=typechecker)

    return decorate


def check_calls() -> None:
    """Check the calls of modules that name shapes of arrays from now on. In others mypy must do:
    checking every call would take a third of the tests' time."""
    jaxtyping.jaxtyped = functools.partial(with_shapes, jaxtyping.jaxtyped)
    jaxtyping.install_import_hook([*modules_with_shapes()], "checked_calls.checked")


def modules_with_shapes() -> Iterator[str]:
    """Those that annotate shapes, of the rooms and of the modules beside these."""
    (package,) = find_spec("crosslens").submodule_search_locations
    for folder, _, names in os.walk(package, followlinks=True):  # rooms are links in a checkout
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            within = path.relative_to(package).with_suffix("").parts
            is_checked = len(within) == 1 or within[0] in _ROOMS
            if is_checked and "jaxtyping" in path.read_text(encoding="utf-8"):
                yield ".".join(["crosslens", *within])
