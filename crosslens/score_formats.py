"""How values and their intervals are written in tables and sentences."""

import math

from crosslens.score import Score

__all__ = ["format_ends", "format_percent", "format_value", "format_with_ends"]


def format_value(value: float, places: int) -> str:
    """A value as a table has it: "-" where it is NaN; what rounds to zero has no sign.

    >>> format_value(0.456, 1), format_value(math.nan, 1), format_value(-0.0001, 3)
    ('0.5', '-', '0.000')
    """
    return "-" if math.isnan(value) else f"{value:z.{places}f}"


def format_percent(value: float) -> str:
    """A fraction in per cent; "-" where it is NaN.

    >>> format_percent(0.456), format_percent(math.nan)
    ('45.6', '-')
    """
    return format_value(100 * value, 1)


def format_ends(score: Score, places: int = 1, scale: float = 100) -> str:
    """The ends of a score's interval, times ``scale``; "-" where it has none.

    >>> import dataclasses
    >>> score = Score(quantity="accuracy", value=0.5, n=9, low=0.25, high=0.75)
    >>> format_ends(score), format_ends(dataclasses.replace(score, low=-0.02), 3, 1)
    ('25.0-75.0', '-0.020 to 0.750')
    """
    if score.low is None or score.high is None or math.isnan(score.low):
        return "-"
    join = "-" if score.low >= 0 else " to "
    return f"{scale * score.low:z.{places}f}{join}{scale * score.high:z.{places}f}"


def format_with_ends(score: Score | None, places: int = 1, scale: float = 100) -> str:
    """A score and the ends of its interval, times ``scale``; "-" where there is none.

    >>> score = Score(quantity="accuracy", value=0.5, n=9, low=0.25, high=0.75)
    >>> format_with_ends(score), format_with_ends(None)
    ('50.0 [25.0, 75.0]', '-')
    """
    if score is None:
        return "-"
    value = format_value(scale * score.value, places)
    if score.low is None or score.high is None or math.isnan(score.low):
        return value
    return f"{value} [{scale * score.low:z.{places}f}, {scale * score.high:z.{places}f}]"
