"""Plain tables for a terminal."""

import shutil
from collections.abc import Sequence

__all__ = ["format_table"]


def format_table(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Align columns; the first row is the head. Where the terminal is narrower, rows become blocks
    of "name: value" lines.

    >>> print(format_table([("layer", "P@1"), ("0", "12.5"), ("10", "9.0")], width=80))
    layer  P@1
        0  12.5
       10  9.0
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
    return "\n\n".join(
        "\n".join(f"{name}: {cell}" for name, cell in zip(head, row, strict=True)) for row in body
    )
