"""What a verb prints: plain tables for a terminal, sentences, or lines of JSON."""

import argparse
import os
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

from crosslens.progress import say

__all__ = ["Part", "format_table", "is_first_process", "show"]

Part = str | Sequence[Sequence[str]]
"""A sentence, or the rows of a table, the head first."""


def is_first_process() -> bool:
    """Whether this process prints: of those that torchrun starts the first alone does."""
    return os.environ.get("RANK", "0") == "0"


def show(
    arguments: argparse.Namespace, scores: Sequence[Any], parts: Iterable[Part], out: Any = None
) -> None:
    """Print what was measured, a line of JSON for each score or tables and sentences; where there
    is a run's folder its report is drawn first.

    Parameters
    ----------
    scores: with ``notes``, or without. parts: tables without rows are left out.
    out: the folder, if ``--out`` does not say it.
    """
    folder, page = out or arguments.out if hasattr(arguments, "out") else None, None
    if folder is not None:
        from crosslens.report import write_report

        say("drawing the report")
        page = write_report(folder)
    notes = getattr(scores, "notes", ())
    if arguments.json:
        for note in notes:
            say(note)
        print("\n".join(score.as_json() for score in scores))
        return
    shown = (part for part in parts if part or part == "")
    told = [part if isinstance(part, str) else format_table(part) for part in shown]
    print(*told, *notes, *([f"Report: {page}"] if page else []), sep="\n")


def format_table(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Align columns; the first row is the head. Where the terminal is narrower, rows become blocks
    of "name: value" lines, and those of a table with two columns become one such line each.

    >>> print(format_table([("layer", "P@1"), ("0", "12.5"), ("10", "9.0")], width=80))
    layer  P@1
        0  12.5
       10  9.0
    >>> print(format_table([("encoders", "difference", ""), ("a - b", "0.12", "above 0")], width=20))
    encoders: a - b
    difference: 0.12
    above 0
    """
    width = width or shutil.get_terminal_size((100, 24)).columns
    sizes = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    if sum(sizes) + 2 * (len(sizes) - 1) <= width:
        lines = [
            "  ".join(
                [
                    row[0].rjust(sizes[0]),
                    *(cell.ljust(size) for cell, size in zip(row[1:], sizes[1:], strict=True)),
                ]
            )
            for row in rows
        ]
        return "\n".join(line.rstrip() for line in lines)
    head, *body = rows
    if len(head) == 2:
        return "\n".join(f"{name}: {cell}" for name, cell in body)
    return "\n\n".join(
        "\n".join(f"{name}: {cell}" if name else cell for name, cell in zip(head, row, strict=True))
        for row in body
    )
