"""The folder of an alignment or a comparison, where one is wanted."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.asked import asked_of
from crosslens.front.results import Scores
from crosslens.run.engine import Run, versions
from crosslens.score import Score

__all__ = ["Kept"]


class Kept:
    """A run's folder: looked at before anything is computed, and made when there is something to
    put into it. Without ``out`` nothing is written.

    Parameters
    ----------
    kind: the verb. settings: what the folder must agree with where it holds a run already.
    asked: the call's arguments by the names of the command line; ``paths`` among them are kept as
        absolute ones.

    Raises
    ------
    OutputError: the folder holds something else, or cannot be written to.
    """

    def __init__(
        self,
        out: str | Path | None,
        kind: str,
        settings: Mapping[str, Any],
        asked: Mapping[str, Any],
        paths: Collection[str],
    ) -> None:
        self.run = None if out is None else Run(out, kind, settings, asked_of(asked, paths))

    @contextlib.contextmanager
    def long_work(self, name: str) -> Iterator[Path | None]:
        """The file in the folder where long work keeps how far it is; None without a folder.

        An empty name is that of no file. A folder that is new is removed again where the work is refused.
        """
        if self.run is None or not name:
            yield None
            return
        with self.run.open(given_back=[name]):
            yield self.run.path / name

    def finish(
        self,
        scores: Sequence[Score],
        notes: Sequence[str] = (),
        write: Callable[[Path], None] = lambda folder: None,
        **facts: Any,
    ) -> Scores:
        """The scores with their notes, once they are in the folder.

        Parameters
        ----------
        write: puts what there is beside the scores into the folder.
        facts: for config.json; they are not compared when the call is repeated.
        """
        if self.run is not None:
            with self.run.open():
                self.run.note(versions=versions(), notes=list(notes), **facts)
                write(self.run.path)
                self.run.finish(scores)
        return Scores(scores, notes)
