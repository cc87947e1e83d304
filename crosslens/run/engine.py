"""The engine of all runs: looks, claims, locks, resumes a run that was stopped, and finishes.

A run's folder holds ``config.json`` (its kind, its settings and what was learnt on the way), the
parts that are finished, and at the end ``scores.jsonl``. A run is made of parts (one language
pair's retrieval, say). Each part's scores are written when they are whole; after kill -9 the same
command finds them and computes only what is missing. Processes that share a run divide its parts.
"""

import contextlib
import platform
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from crosslens.errors import InputError, OutputError
from crosslens.files import (
    check_folder,
    check_writable,
    claim_folder,
    fingerprint,
    free_folder,
    lock_file,
    lock_folder,
    make_folder,
    read_json,
    write_json,
)
from crosslens.outcomes import FILE, Outcomes, join_outcomes, write_outcomes
from crosslens.progress import duration, say
from crosslens.score import Score, read_scores, write_scores
from crosslens.version import __version__

__all__ = ["Run", "versions"]

_TOLD = ("torch", "transformers", "tokenizers", "numpy", "scipy", "scikit-learn")
_PLAIN = re.compile(r"[\w-]+(\.[\w-]+)*")
_PAUSE = 2.0  # seconds between two looks at what other processes have done
_LONGEST = 100  # bytes of the name of a part's file


class Run:
    """One run's folder: looked at when this is made, written to within :meth:`open` alone.

    Parameters
    ----------
    out: the folder. kind: the verb that makes it.
    settings: what the scores depend on; a folder with a run of other settings is refused.
    asked: what was typed (:func:`crosslens.asked.asked_of`); it is kept, and not compared.

    Raises
    ------
    OutputError: the folder holds something else, or cannot be written to; nothing was written.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     run = Run(f"{folder}/run", "study", {"seed": 0})
    ...     with run.open():
    ...         run.finish(run.part("n", lambda: [Score(quantity="accuracy", value=0.5, n=4)]))
    ...     Run(f"{folder}/run", "study", {"seed": 0}).finished
    True
    """

    def __init__(
        self,
        out: str | Path,
        kind: str,
        settings: Mapping[str, Any],
        asked: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.kind, self.settings, self.asked = Path(out), kind, settings, asked
        self._parts = self.path / "parts"
        self._measured: list[str] = []
        self.begun = check_folder(self.path, kind, settings)
        check_writable(self.path)

    @property
    def scores(self) -> Path:
        """The finished measurements; exists only when all are there."""
        return self.path / "scores.jsonl"

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to measure."""
        return self.scores.exists()

    @contextlib.contextmanager
    def open(
        self, *, given_back: Iterable[str] | None = None, shared: bool = False
    ) -> Iterator[Self]:
        """Make the folder or come back to it, and keep everybody else out of it meanwhile.

        Parameters
        ----------
        shared: let other processes of the same run in, which divide its parts among them
            (:meth:`free_parts`).
        given_back: names of files of long work that may still be refused (InputError): a folder
            that was new is then freed of them and of the claim. None: what there is stays.

        Raises
        ------
        OutputError: as above; or another process works in the folder.
        """
        there = self.path.exists()
        make_folder(self.path, str(self.path))
        with lock_folder(self.path, shared=shared):
            with self.alone():
                begun = claim_folder(self.path, self.kind, self.settings, self.asked)
            if self.finished:
                self._tidy()
            try:
                yield self
            except InputError:
                if given_back is not None and not begun:
                    free_folder(self.path, ("config.json", ".lock", *given_back), new=not there)
                raise

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """For what processes that share a run may do only one at a time: waits until no other one is
        in here."""
        with lock_file(self.path / ".alone", str(self.path), wait=True):
            yield

    def free_parts(self, names: Mapping[str, Collection[str]]) -> Iterator[str]:
        """The parts that are missing and that no other process computes, each this process's own
        until the next one is asked for; it ends when no part is missing.

        Where all that are missing are computed by others it waits for them: one of these may be
        stopped. Before each it says which it is, how many are there, and about how long the others
        take, by those that came since this process began.

        Parameters
        ----------
        names: part -> those that must be there before it.

        Raises
        ------
        OutputError: the folder cannot be written to.
        """
        waiting, began, first = False, time.monotonic(), 0
        while not self.finished:
            missing = [name for name in names if not self.has(name, outcomes=False)]
            if self.finished or not missing:  # who finishes removes the parts
                return
            first = first or len(missing)
            ready = [name for name in missing if not {*missing} & {*names[name]}]
            with contextlib.ExitStack() as held:
                name = next((name for name in ready if self._claimed(name, held)), None)
                if name is not None:
                    if not self.finished and not self.has(name, outcomes=False):
                        waiting, passed = False, time.monotonic() - began
                        say(_next_told(name, len(names), len(missing), first, passed))
                        yield name
                    continue
            if not waiting:
                say(
                    f"{self.path}: waiting for {len(missing)} of {len(names)} parts, which others compute"
                )
                waiting = True
            time.sleep(_PAUSE)

    def _claimed(self, name: str, held: contextlib.ExitStack) -> bool:
        """Whether a part is this process's own until ``held`` is left."""
        path = self.path / f".{fingerprint(name)}.part"
        try:
            held.enter_context(lock_file(path, str(self.path)))
        except OutputError:
            return False
        return True

    def note(self, **values: Any) -> None:
        """Add to ``config.json`` what was learnt; it is not compared when the run is resumed."""
        config = self.path / "config.json"
        write_json(config, {**read_json(config), **values})

    def part(self, name: str, compute: Callable[[], list[Score]]) -> list[Score]:
        """The scores of a part: read when they are there, else computed and written."""
        path = self._file(name, ".jsonl")
        if not path.exists():
            self._parts.mkdir(exist_ok=True)
            write_scores(compute(), path)
        return list(read_scores(path))

    def whole(self, names: Iterable[str]) -> list[Score]:
        """The scores of parts that are all there, in this order.

        Raises
        ------
        StoreError: one is missing, or damaged.
        """
        return [score for name in names for score in read_scores(self._file(name, ".jsonl"))]

    def has(self, name: str, *, outcomes: bool = True) -> bool:
        """Whether a part is there, and its outcomes."""
        endings = (".jsonl", ".parquet") if outcomes else (".jsonl",)
        return all(self._file(name, ending).exists() for ending in endings)

    def measured_part(
        self, name: str, compute: Callable[[], tuple[list[Score], list[Outcomes]]]
    ) -> list[Score]:
        """The scores of a part whose outcomes per item are kept, too (:meth:`finish_outcomes`)."""
        beside = self._file(name, ".parquet")

        def both() -> list[Score]:
            scores, outcomes = compute()
            write_outcomes(outcomes, beside)
            return scores

        if not beside.exists():  # scores are written behind the outcomes: these may be there alone
            self._file(name, ".jsonl").unlink(missing_ok=True)
        scores = self.part(name, both)
        self._measured.append(name)
        return scores

    def finish_outcomes(self) -> Path:
        """Write the outcomes of all measured parts as one file, in the order of the parts."""
        path = self.path / FILE
        join_outcomes([self._file(name, ".parquet") for name in self._measured], path)
        return path

    def finish(self, scores: Iterable[Score]) -> None:
        """Write all scores; the parts are not needed any more."""
        write_scores(scores, self.scores)
        self._tidy()

    def _file(self, name: str, ending: str) -> Path:
        """Where a part is: its name, of several languages, say, may be too long for a file."""
        is_plain = _PLAIN.fullmatch(name) and len(name.encode()) <= _LONGEST
        return self._parts / f"{name if is_plain else fingerprint(name)}{ending}"

    def _tidy(self) -> None:
        shutil.rmtree(self._parts, ignore_errors=True)


def _next_told(name: str, total: int, missing: int, first: int, passed: float) -> str:
    """Which part is next, how many of all are there, and about how long the missing ones take, if they
    come as those did that were missing at ``first`` and came in the seconds that have passed.

    >>> _next_told("inversion.seed-1", 6, 6, 6, 0.1), _next_told("syntax.seed-1", 6, 4, 6, 7200.0)
    ('inversion, seed 1: 0 of 6 are done', 'syntax, seed 1: 2 of 6 are done, about 4 h left')
    """
    left = (
        f", about {duration(passed / (first - missing) * missing)} left" if first > missing else ""
    )
    what = name.replace(".seed-", ", seed ")
    return f"{what}: {total - missing} of {total} are done{left}"


def versions() -> dict[str, str]:
    """Versions of what the numbers may depend on."""
    own = {"crosslens": __version__, "python": platform.python_version()}
    return own | {name: metadata.version(name) for name in _TOLD}
