"""Every refusal of the library, in one grammar.

    CrosslensError
    ├── InputError          an argument, a text or a model folder is not what is needed
    ├── StoreError          something this library wrote earlier is damaged or unfinished
    ├── OutputError         the place to write to cannot be written, or holds something else
    └── TrainingError       training cannot go on (the loss is not a number, say)

A message reads ``argument: expected WHAT, got WHAT; WHAT TO DO``. The command
line prints it as one line and exits with status 2.
"""

import contextlib
from collections.abc import Collection, Hashable, Iterator
from typing import NoReturn

__all__ = [
    "CrosslensError",
    "InputError",
    "OutputError",
    "StoreError",
    "TrainingError",
    "check_choice",
    "cut",
    "panics_as_errors",
    "quote",
    "refuse",
]

# characters of one part of a refusal: more is nobody's reading, and fills a terminal
_LONGEST = 1000


class CrosslensError(Exception):
    """The base of all errors that the library raises on purpose."""


class InputError(CrosslensError, ValueError):
    """An argument, a text or a model folder is not what the call needs."""


class StoreError(CrosslensError):
    """Files that the library wrote earlier are damaged, truncated or unfinished."""


class OutputError(CrosslensError):
    """The output cannot be written, or the folder holds a run with other settings."""


class TrainingError(CrosslensError):
    """Training stopped because going on would be useless."""


def cut(text: str, most: int = 80) -> str:
    """``text``, without its middle where it has more than ``most`` characters.

    >>> cut("abcdefghijklmnopqrstuvwxyz", 15)
    'abcdef … uvwxyz'
    """
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def quote(value: object, most: int = 80) -> str:
    """A value as Python writes it, for a message: of a long one both ends.

    >>> quote("x" * 1_000_000, 15), quote(None)
    ("'xxxxx … xxxxx'", 'None')
    """
    if isinstance(value, str) and len(value) > 2 * most:
        value = value[:most] + value[-most:]  # the middle is not worth writing out
    return cut(repr(value), most)


def _line(text: str) -> str:
    """Text in one line: what other libraries say has several now and then, and so has the name of a
    file."""
    return text if text.isprintable() else " ".join(text.split())


def refuse(
    argument: str, expected: str, got: str, remedy: str, error: type[CrosslensError] = InputError
) -> NoReturn:
    """Raise ``error`` with the four parts that every refusal names; each is one line, and of a very
    long one both ends are kept.

    >>> refuse("k", "a whole number from 1 to 3", "7", "lower k or give more vectors")
    Traceback (most recent call last):
    ...
    crosslens.errors.InputError: k: expected a whole number from 1 to 3, got 7; lower k or give more vectors
    """
    argument, expected, got, remedy = (
        cut(_line(part), _LONGEST) for part in (argument, expected, got, remedy)
    )
    raise error(f"{argument}: expected {expected}, got {got}; {remedy}")


def check_choice(
    value: object, name: str, known: Collection[object], remedy: str = "choose one of these"
) -> None:
    """Refuse a value that is none of those that are known.

    Parameters
    ----------
    known: all that it may be; a None among them is not named.

    >>> check_choice("joint", "mode", ("joint", "union"))
    >>> check_choice("Joint", "mode", ("joint", "union"))
    Traceback (most recent call last):
    ...
    crosslens.errors.InputError: mode: expected one of joint, union, got 'Joint'; choose one of these
    """
    if not isinstance(value, Hashable) or value not in tuple(known):  # an array has no one answer
        expected = ", ".join(str(one) for one in known if one is not None)
        refuse(name, f"one of {expected}", quote(value), remedy)


@contextlib.contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic inside a library that is written in Rust (tokenizers, safetensors) into a
    RuntimeError.

    Such a panic is a fault of that library, or of what it was given, but no Exception: it would
    pass every ``except Exception``.

    >>> with panics_as_errors():
    ...     print("whatever is raised here and is no panic passes")
    whatever is raised here and is no panic passes
    """
    try:
        yield
    except BaseException as error:
        # each library brings a class of its own of this name
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"a panic of the library ({error})") from error
