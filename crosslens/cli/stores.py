"""What the verbs that read stores of activations have in common."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from crosslens.cli.table import format_table
from crosslens.errors import refuse
from crosslens.progress import say
from crosslens.score import Score

__all__ = ["PlannedRun", "common_fields", "open_stores", "parallel_stores", "print_scores"]


def open_stores(folders: Iterable[str]) -> list[Any]:
    """Open stores, all of one unit.

    Raises
    ------
    InputError: their units differ. StoreError: one is no store, or damaged.
    """
    from crosslens.activations import Activations

    stores = [Activations(folder) for folder in folders]
    units = {store.unit: store for store in stores}
    if len(units) > 1:
        got = ", ".join(
            f"{store.folder} of {unit or 'no known unit'}s" for unit, store in units.items()
        )
        refuse("stores", "stores of one unit", got, "extract all of them with the same --unit")
    return stores


def parallel_stores(folders: Iterable[str], *, same_language: bool = False) -> list[Any]:
    """Open stores and make sure that their rows are the same items, each in a language of its own
    unless ``same_language`` may be.

    Raises
    ------
    InputError: their items differ, or two have one language. StoreError: one is no store, or
        damaged.
    """
    stores = open_stores(folders)
    for store in stores[1:]:
        if _items(store) != _items(stores[0]):
            got = (
                f"{store.n} others"
                if store.n != stores[0].n
                else f"{store.n}, but not the same ones"
            )
            refuse(
                str(store.folder),
                f"the same items as {stores[0].folder} ({stores[0].n})",
                got,
                "extract line-aligned texts",
            )
    if not same_language and len({store.language for store in stores}) < len(stores):
        languages = ", ".join(store.language for store in stores)
        refuse(
            "stores",
            "a language of its own for each",
            languages,
            "extract each text under its own code",
        )
    return stores


def _items(store: Any) -> list[Any]:
    """What each row is, so that rows of two stores can be compared: the sentence, and of words and
    tokens which one."""
    index = store.index([name for name in ("id", "position") if name in store.columns])
    return list(zip(*index.values(), strict=True))


def common_fields(stores: list[Any], seed: int) -> dict[str, Any]:
    """Encoder and seed, for the scores."""
    return {"encoder": " / ".join(dict.fromkeys(store.encoder for store in stores)), "seed": seed}


def print_scores(
    scores: Iterable[Score], rows: list[tuple[str, ...]], text: str, as_json: bool
) -> None:
    """A table and a sentence below it, or a line of JSON for each score."""
    if as_json:
        print("\n".join(score.as_json() for score in scores))
    else:
        print(format_table(rows), text, sep="\n")


class PlannedRun:
    """A run's folder: looked at before anything is computed, and made when there is something to
    put into it.

    Parameters
    ----------
    out: the folder; without it nothing is written. kind: the verb.
    settings: what the folder must agree with where it holds a run already. asked: what was typed.

    Raises
    ------
    OutputError: the folder holds something else, or cannot be written to.
    """

    def __init__(
        self, out: str | None, kind: str, settings: Mapping[str, Any], asked: Mapping[str, Any]
    ) -> None:
        from crosslens.run.engine import Run

        self.run = None if out is None else Run(out, kind, settings, asked)

    @contextlib.contextmanager
    def long_work(self, name: str) -> Iterator[Path | None]:
        """The file in the folder where long work keeps how far it is; None without a folder.

        A folder that is new is removed again where the work is refused.
        """
        if self.run is None:
            yield None
            return
        with self.run.open(given_back=[name]):
            yield self.run.path / name

    def finish(
        self,
        scores: Iterable[Score],
        write: Callable[[Path], None] = lambda folder: None,
        **told: Any,
    ) -> Path | None:
        """Make the folder with scores and report; the report's path.

        Parameters
        ----------
        write: puts what there is beside the scores into the folder.
        told: facts for config.json that are not compared when the command is given again.
        """
        if self.run is None:
            return None
        from crosslens.report import write_report
        from crosslens.run.engine import versions

        with self.run.open():
            self.run.note(versions=versions(), **told)
            write(self.run.path)
            self.run.finish(scores)
            say("drawing the report")
            return write_report(self.run.path)
