"""What checks the arguments and results of functions while the tests run, by their annotations."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jaxtyping
from beartype import beartype

__all__ = ["check_calls", "checked", "modules_with_shapes"]


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with checks; one that is defined within another function as it is: that would be
    prepared anew in each call of the outer one, which takes longer than what most of them do."""
    return function if "<locals>" in function.__qualname__ else beartype(function)


def check_calls() -> None:
    """Check the calls of modules that name shapes of arrays from now on. In others mypy must do:
    checking each call would take a third of the tests' time."""
    jaxtyping.install_import_hook([*modules_with_shapes()], "checked_calls.checked")


def modules_with_shapes() -> Iterator[str]:
    """The modules of the package that annotate shapes."""
    (package,) = find_spec("crosslens").submodule_search_locations
    for folder, _, names in os.walk(package, followlinks=True):  # rooms are links in a checkout
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            if "jaxtyping" in path.read_text(encoding="utf-8"):
                within = path.relative_to(package).with_suffix("").parts
                yield ".".join(["crosslens", *within])
