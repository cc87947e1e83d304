"""What every finished run has: its configuration and its scores."""

from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.files import read_json
from crosslens.score import Score, read_scores

__all__ = ["finished_run"]


def finished_run(folder: Path, made_by: str) -> tuple[dict[str, Any], list[Score]]:
    """The config.json and the scores.jsonl of a run that has ended.

    Parameters
    ----------
    made_by: the command, such as "transfer", for the refusal.

    Raises
    ------
    InputError: the run has not ended. StoreError: one of the files is damaged.
    """
    config, path = read_json(folder / "config.json", dict), folder / "scores.jsonl"
    if not path.is_file():
        expected, got = f"a finished run of crosslens {made_by}", "one that is not finished"
        refuse(str(folder), expected, got, "run it to its end")
    return config, list(read_scores(path))
