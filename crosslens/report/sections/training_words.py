"""What the sections on trainings say in the same words: when something was measured, on
how many, over how many tokens, and what a log does not say."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from crosslens.report.folders.training import Validation
from crosslens.report.parts.drawing import Style
from crosslens.report.parts.wording import join, plural

__all__ = ["CHANCE", "among", "at", "log_notes", "not_drawn", "token_axis"]

_UNITS = ((1e9, "billion"), (1e6, "million"), (1e3, "thousand"))
CHANCE = Style("#000000", dash="dotted", width=1.1)


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


def not_drawn(what: str, steps: Sequence[int]) -> list[str]:
    """A sentence on values that are no numbers, if there are any."""
    steps_named = join([f"{step:,}" for step in steps], most=6, rest="more")
    return (
        [
            (
                f"Not drawn: {what} at step{'s' if len(steps) > 1 else ''} {steps_named}, where the log "
                f"has no usable number."
            )
        ]
        if steps
        else []
    )


def log_notes(half_written: str, unknown: int, where: str) -> list[str]:
    """What the reader should know of logs: which (in words) end in the middle of a line, and how many
    lines could not be understood."""
    notes = []
    if half_written:
        notes.append(f"The last line of {half_written} is only half written and was passed over.")
    if unknown:
        notes.append(
            f"{plural(unknown, 'line')} of {where} could not be understood and "
            f"{'is' if unknown == 1 else 'are'} not shown."
        )
    return notes
