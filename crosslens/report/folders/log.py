"""The log of a training as the report sees it: log.jsonl, which may still be written.

A last line that is only half written is passed over, and what is no number is NaN.
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import StoreError, refuse
from crosslens.files import parse_json, read_json

__all__ = [
    "Log",
    "Point",
    "as_count",
    "as_number",
    "as_table",
    "begun_run",
    "log_lines",
    "read_log",
    "smoothed",
]


def begun_run(folder: Path, kind: str, made_by: str) -> dict[str, Any]:
    """The config of a run that writes a log, finished or not.

    Raises
    ------
    InputError: the folder holds no run of this kind.
    StoreError: its config.json is damaged.
    """
    config = read_json(folder / "config.json", Any) if (folder / "config.json").is_file() else None
    if not isinstance(config, dict) or config.get("kind") != kind:
        remedy = f"name a folder that {made_by} has written"
        refuse("folder", f"a run of {made_by}", f"{folder} without one", remedy)
    return config


@dataclasses.dataclass(frozen=True)
class Point:
    """A line of the log: the mean loss since the line before."""

    step: int
    tokens: float
    loss: float
    rate: float


def as_table(value: Any) -> dict[str, Any]:
    """A table of a file; empty for what is none."""
    return value if isinstance(value, dict) else {}


def as_count(value: Any) -> int | None:
    """A count of a file; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def as_number(value: Any) -> float:
    """A number of the log; NaN for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


@dataclasses.dataclass
class Log:
    """What a log says.

    Attributes
    ----------
    points: the training loss, in the order of the steps.
    rows: step, tokens and the whole of each line that could be understood.
    half_written: whether the log ends in the middle of a line.
    unknown: how many lines could not be understood.
    """

    points: list[Point]
    rows: list[tuple[int, float, dict[str, Any]]]
    half_written: bool
    unknown: int


def read_log(path: Path, *others: str) -> Log:
    """A log.jsonl; its lines have a step, tokens, and a loss or something of ``others``.

    Raises
    ------
    StoreError: a line is no JSON object; the message names it.
    """
    lines, half_written = log_lines(path)
    found: list[tuple[int, float, dict[str, Any]]] = []
    for line in lines:
        step, tokens = as_count(line.get("step")), as_number(line.get("tokens"))
        if step is not None and math.isfinite(tokens) and {"loss", *others} & line.keys():
            found.append((step, tokens, line))
    points = {
        step: Point(step, tokens, as_number(line["loss"]), as_number(line.get("tokens_per_second")))
        for step, tokens, line in found
        if "loss" in line
    }
    ordered = [points[step] for step in sorted(points)]
    return Log(ordered, found, half_written, len(lines) - len(found))


def log_lines(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """The lines of a log.jsonl (none where there is no file), and whether the last one is only half
    written.

    Raises
    ------
    StoreError: another line is no JSON object; the message names it.
    """
    content = path.read_bytes() if path.is_file() else b""
    rows: list[dict[str, Any]] = []
    *whole, last = content.split(b"\n")
    for number, line in enumerate([*whole, last], 1):
        if not line.strip():
            continue
        try:
            rows.append(parse_json(line, f"{path}:{number}", dict, "delete the line"))
        except StoreError:
            # there is no line break after it: it is being written, or its writer was killed
            if number > len(whole):
                return rows, True
            raise
    return rows, False


def smoothed(values: Sequence[float]) -> list[float] | None:
    """A running mean over about a twelfth of the values, or None where they are few, smooth or not
    all numbers.

    The window is centred, and narrow at first and towards the end, so that a steep beginning is not
    flattened.

    >>> smoothed([3.0, 2.0, 1.0]) is None
    True
    """
    n = len(values)
    changes = [b - a for a, b in zip(values, values[1:], strict=False)]
    turns = sum(a * b < 0 for a, b in zip(changes, changes[1:], strict=False))
    if n < 24 or turns < n / 5 or not all(map(math.isfinite, values)):
        return None
    half = max(1, round(n / 24))
    windows = (
        values[i - reach : i + reach + 1]
        for i in range(n)
        for reach in [min(half, i // 4, n - 1 - i)]
    )
    return [math.fsum(window) / len(window) for window in windows]
