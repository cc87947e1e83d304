"""A run's folder: its settings, the parts that are finished, and its scores.

A study is made of parts (one language pair's retrieval, say). Each part's scores are
written when they are whole; after kill -9 the same command finds them and computes
only what is missing. The finished ``scores.jsonl`` holds them all, in a fixed order.
"""

import platform
import re
import shutil
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from crosslens import __version__
from crosslens.files import fingerprint, read_json, write_json
from crosslens.outcomes import FILE, Outcomes, join_outcomes, write_outcomes
from crosslens.score import Score, read_scores, write_scores

__all__ = ["RunFolder", "versions"]

_TOLD = ("torch", "transformers", "tokenizers", "numpy", "scipy", "scikit-learn")
_PLAIN = re.compile(r"[\w-]+(\.[\w-]+)*")
_LONGEST = 100  # bytes of the name of a part's file


class RunFolder:
    """A folder that was claimed for a run (:func:`crosslens.files.claim_folder`)."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._parts = self.path / "parts"
        self._measured: list[str] = []

    @property
    def scores(self) -> Path:
        """The finished measurements; exists only when all are there."""
        return self.path / "scores.jsonl"

    def note(self, **values: Any) -> None:
        """Add to ``config.json`` what was learnt during the run (it is not compared when the run is continued)."""
        write_json(self.path / "config.json", {**read_json(self.path / "config.json"), **values})

    def part(self, name: str, compute: Callable[[], list[Score]]) -> list[Score]:
        """The scores of a part: read when they are there, else computed and written."""
        path = self._file(name, ".jsonl")
        if not path.exists():
            self._parts.mkdir(exist_ok=True)
            write_scores(compute(), path)
        return list(read_scores(path))

    def measured_part(self, name: str, compute: Callable[[], tuple[list[Score], list[Outcomes]]]) -> list[Score]:
        """The scores of a part whose outcomes per item are kept, too; :meth:`finish_outcomes` puts these together."""
        beside = self._file(name, ".parquet")

        def both() -> list[Score]:
            scores, outcomes = compute()
            write_outcomes(outcomes, beside)
            return scores

        if not beside.exists():  # the scores are written behind the outcomes: these may be there alone, but not the reverse
            self._file(name, ".jsonl").unlink(missing_ok=True)
        scores = self.part(name, both)
        self._measured.append(name)
        return scores

    def finish_outcomes(self) -> Path:
        """Write the outcomes of all measured parts as one file, in the order of the parts."""
        path = self.path / FILE
        join_outcomes([self._file(name, ".parquet") for name in self._measured], path)
        return path

    def _file(self, name: str, ending: str) -> Path:
        """Where a part is: its name is made of several (a pair of languages, say), and may be too long for a file."""
        is_plain = _PLAIN.fullmatch(name) and len(name.encode()) <= _LONGEST
        return self._parts / f"{name if is_plain else fingerprint(name)}{ending}"

    def finish(self, scores: Iterable[Score]) -> None:
        """Write all scores; the parts are not needed any more."""
        write_scores(scores, self.scores)
        self.tidy()

    def tidy(self) -> None:
        """Remove the parts; once ``scores.jsonl`` is there nothing needs them."""
        shutil.rmtree(self._parts, ignore_errors=True)


def versions() -> dict[str, str]:
    """Versions of what the numbers may depend on."""
    return {"crosslens": __version__, "python": platform.python_version()} | {name: metadata.version(name) for name in _TOLD}
