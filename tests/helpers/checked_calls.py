"""What checks the arguments and results of functions while the tests run, by their annotations."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jaxtyping
from beartype import beartype

__all__ = ["check_calls", "checked", "modules_with_shapes"]

_ROOMS = ("alignment", "models", "probes", "readers")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with checks; one that is defined within another function as it is: that would be
    prepared anew in each call of the outer one, which takes longer than what most of them do."""
    return function if "<locals>" in function.__qualname__ else beartype(function)


def check_calls() -> None:
    """Check the calls of modules that name shapes of arrays from now on. In others mypy must do:
    checking every call would take a third of the tests' time."""
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
