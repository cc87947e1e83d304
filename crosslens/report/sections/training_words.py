"""What the parts of a training run's page say in the same words: when something was measured, on
how many, and over how many tokens."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from crosslens.report.folders.training import Validation

__all__ = ["among", "at", "token_axis"]

_UNITS = ((1e9, "billion"), (1e6, "million"), (1e3, "thousand"))


def at(validation: Validation) -> str:
    """When a validation was made.

    >>> at(Validation(500, 1.0e6, {}, {}))
    'at step 500'
    """
    return f"at step {validation.step:,}"


def among(counts: Iterable[int | None]) -> str:
    """Numbers of held-out items.

    >>> among([96, 103, None]), among([None])
    ('n = 96 to 103', 'n not recorded')
    """
    known = sorted({count for count in counts if count is not None})
    if not known:
        return "n not recorded"
    return f"n = {known[0]:,}" if len(known) == 1 else f"n = {known[0]:,} to {known[-1]:,}"


@runtime_checkable
class _Counted(Protocol):
    """A run that knows how far it is."""

    @property
    def done(self) -> tuple[int, float]:
        """Steps and tokens."""


def token_axis(run: _Counted) -> tuple[float, str]:
    """How many tokens one unit of the horizontal axis is, and what the axis is called."""
    _, tokens = run.done
    unit, word = next((pair for pair in _UNITS if tokens >= 2 * pair[0]), (1.0, ""))
    return unit, f"tokens seen ({word})" if word else "tokens seen"
