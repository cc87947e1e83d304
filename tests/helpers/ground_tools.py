"""What the ground floor's tests share."""

import re
from pathlib import Path

# argument: expected WHAT, got WHAT; WHAT TO DO
GRAMMAR = re.compile(r"[^:].*: expected .+, got .+; .+", re.DOTALL)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder and what is in it; empty folders count too."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }
