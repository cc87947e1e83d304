"""Which parameters a run of several trainings trains in each of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosslens.files import check_shape
from crosslens.report.parts.layout import table
from crosslens.report.parts.wording import text

__all__ = ["trained_table"]


def trained_table(folder: Path, config: Mapping[str, Any], caption: str) -> str:
    """The table of ``trained`` in a run's config.json: a head, and a row of counts for each part."""
    rows: list[list[str]] = check_shape(
        config.get("trained"), f"{folder}/config.json, trained", list[list[str]]
    )
    head, *parts = rows
    cells = [
        [text(f"layer {name}" if name.isdigit() else name.replace("_", " "))]
        + [text("–" if count == "-" else count) for count in counts]
        for name, *counts in parts
    ]
    return table(caption, [text(name) for name in head], cells)
