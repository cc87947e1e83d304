"""What every finished run has: its configuration and its scores."""

from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.files import read_json
from crosslens.score import Score, read_scores

__all__ = ["finished_run"]


def finished_run(folder: Path, kind: str, made_by: str) -> tuple[dict[str, Any], list[Score]]:
    """The config.json and the scores.jsonl of a run that has ended.

    Parameters
    ----------
    kind: of the run, as its config.json says. made_by: the command, for the refusal.

    Raises
    ------
    InputError: the run is of another kind, or has not ended.
    StoreError: one of the files is damaged.
    """
    config, path = read_json(folder / "config.json", dict), folder / "scores.jsonl"
    expected, found = f"a finished run of crosslens {made_by}", config.get("kind")
    if found != kind:
        refuse(str(folder), expected, f"one of kind {found!r}", f"name runs of crosslens {made_by}")
    if not path.is_file():
        refuse(str(folder), expected, "one that is not finished", "run it to its end")
    return config, list(read_scores(path))
