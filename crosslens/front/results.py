"""What calls give back: measurements as a table, and the folder of a run."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from crosslens.data_frames import need_pandas
from crosslens.errors import StoreError, check_choice, refuse
from crosslens.files import read_json
from crosslens.outcomes import Outcomes, read_outcomes
from crosslens.score import Score, read_scores, write_scores

__all__ = ["Run", "Scores"]

_FIELDS = tuple(field.name for field in dataclasses.fields(Score) if field.name != "details")


class Scores(Sequence[Score]):
    """Measurements: a sequence of :class:`crosslens.Score`, which can be narrowed down, tabulated
    and drawn.

    Parameters
    ----------
    scores: in any order. notes: sentences on what was measured that no score says.

    >>> from crosslens import Score, Scores
    >>> both = Scores([Score(quantity="accuracy", value=v, n=50, layer=k, details={"part": "test"}) for k, v in enumerate((0.5, 0.9))])
    >>> both
    Scores(2 of accuracy, layers 0–1)
    >>> [score.value for score in both.where(layer=1, part="test")]
    [0.9]
    >>> both.to_pandas()[["layer", "value", "part"]].values.tolist()
    [[0, 0.5, 'test'], [1, 0.9, 'test']]
    """

    def __init__(self, scores: Iterable[Score], notes: Iterable[str] = ()) -> None:
        self._scores, self.notes = tuple(scores), tuple(notes)

    def __len__(self) -> int:
        return len(self._scores)

    @overload
    def __getitem__(self, place: int) -> Score: ...

    @overload
    def __getitem__(self, place: slice) -> "Scores": ...

    def __getitem__(self, place: int | slice) -> "Score | Scores":
        if isinstance(place, slice):
            return Scores(self._scores[place], self.notes)
        return self._scores[place]

    def __iter__(self) -> Iterator[Score]:
        return iter(self._scores)

    def __repr__(self) -> str:
        quantities = list(dict.fromkeys(score.quantity for score in self._scores))
        more = f" and {len(quantities) - 4} more" if len(quantities) > 4 else ""
        layers = sorted({score.layer for score in self._scores if score.layer is not None})
        span = (
            (
                f", layer{'s' if len(layers) > 1 else ''} "
                f"{'–'.join(str(end) for end in dict.fromkeys((layers[0], layers[-1])))}"
            )
            if layers
            else ""
        )
        of = f" of {', '.join(quantities[:4])}{more}" if quantities else ""
        return f"Scores({len(self):,}{of}{span})"

    def where(self, **equal: Any) -> "Scores":
        """Those whose fields, or entries of ``details``, equal the values; a list stands for any of
        its values.

        ``scores.where(task="sentence_retrieval", condition="procrustes", part="held_out")`` is
        retrieval after a rotation; ``condition=None`` is the encoder itself, where controls have a
        condition.

        Raises
        ------
        InputError: no score has such a field; the message says which there are.
        """
        names = dict.fromkeys(
            [*_FIELDS, *(name for score in self._scores for name in score.details or {})]
        )
        for name in equal if self._scores else ():
            check_choice(name, "where", names)
        chosen = (
            score
            for score in self._scores
            if all(_is(_value(score, name), wanted) for name, wanted in equal.items())
        )
        return Scores(chosen, self.notes)

    def to_pandas(self) -> Any:
        """A pandas data frame, a row for each: the fields of a score, then a column for each entry
        of ``details`` that one has.

        An entry that is called like a field is called ``details_NAME``.

        Raises
        ------
        InputError: pandas is not installed; the message names the command.
        """
        rows = []
        for score in self._scores:
            told = {
                f"details_{name}" if name in _FIELDS else name: value
                for name, value in (score.details or {}).items()
            }
            rows.append({name: getattr(score, name) for name in _FIELDS} | told)
        columns = dict.fromkeys([*_FIELDS, *(name for row in rows for name in row)])
        frame = need_pandas().DataFrame(rows, columns=list(columns))
        whole = {name: "Int64" for name in ("layer", "other_layer", "seed")}
        return frame.astype(whole)

    def figure(self, *tasks: str) -> Any:
        """A figure of matplotlib: a panel for each task by layer, with 95 % bands and controls.
        ``.savefig("x.pdf")`` keeps it.

        Parameters
        ----------
        tasks: "sentence_retrieval", "similarity", "language_id", "upos", …; all that were measured
            by layer where none is named.

        Raises
        ------
        InputError: nothing was measured by layer, or not this task.
        """
        from crosslens.report.figures import layer_figure

        return layer_figure(self, tasks)

    def save(self, path: str | Path) -> None:
        """Write a JSON object for each, a line each: the format of every run's ``scores.jsonl``."""
        write_scores(self, path)


def _value(score: Score, name: str) -> Any:
    return getattr(score, name) if name in _FIELDS else (score.details or {}).get(name)


def _is(value: Any, wanted: Any) -> bool:
    return (
        value in wanted
        if isinstance(wanted, (list, tuple, set, frozenset, range))
        else value == wanted
    )


class Run:
    """The folder of a run: of ``study``, ``probe``, ``train``, or of the command line.

    Attributes
    ----------
    folder: where it is.

    Parameters
    ----------
    folder: any run's; ``Run("runs/x")`` opens one again.

    Raises
    ------
    InputError: it is no folder of a run.
    StoreError: a file of it is damaged.

    >>> import tempfile
    >>> from crosslens import Run, Score, Scores  # study() and its like give a Run; this one is made by hand
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "config.json").write_text('{"kind": "align"}')
    >>> told = {"quantity": "precision_at_1", "n": 50, "task": "sentence_retrieval", "condition": "unaligned"}
    >>> Scores(Score(**told, value=v, layer=k, source="eng", target="fra") for k, v in enumerate((0.4, 0.6))).save(folder / "scores.jsonl")
    >>> run = Run(folder)
    >>> run.kind, run.scores
    ('align', Scores(2 of precision_at_1, layers 0–1))
    >>> run.figure("sentence_retrieval").savefig(folder / "retrieval.png")
    >>> run.report().name
    'report.html'
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "config.json").is_file():
            remedy = "name a folder that a run has written"
            refuse("folder", "a folder of a run, with config.json", f"{folder} without it", remedy)

    def __repr__(self) -> str:
        scores = (
            f"{len(self.scores):,} scores"
            if (self.folder / "scores.jsonl").is_file()
            else "no scores"
        )
        return f"Run({self.kind}, {self.folder}, {scores})"

    @property
    def kind(self) -> str:
        """What made it: "study", "align", "compare", "probe", "transfer", "train", "emergence",
        "controlled", "monotrans", "clwe", …"""
        return str(self.config.get("kind", "study"))

    @property
    def config(self) -> dict[str, Any]:
        """What was asked, and what is known of data, encoders and versions (``config.json``)."""
        found: dict[str, Any] = read_json(self.folder / "config.json", dict, "run it again")
        return found

    @property
    def scores(self) -> Scores:
        """All measurements (``scores.jsonl``).

        Raises
        ------
        StoreError: the run is not finished, measures nothing (a training has a log), or the file is
            damaged.
        """
        if not (self.folder / "scores.jsonl").is_file():
            remedy = (
                "finish it, which the same call does; the curves of a training are in its report"
            )
            got = f"one of kind {self.kind!r} without scores.jsonl"
            refuse("scores", "a finished run that measures something", got, remedy, StoreError)
        return Scores(read_scores(self.folder / "scores.jsonl"))

    @property
    def model(self) -> Path:
        """The folder of the encoder that a training has made: ``load_encoder(run.model)`` loads it.

        Raises
        ------
        InputError: the run made none.
        """
        found = self.folder / "model"
        if not found.is_dir():
            expected = "a finished training of one model"
            refuse("model", expected, f"{self!r}, which has none", "name the folder of a training")
        return found

    def outcomes(self, **wanted: Any) -> list[Outcomes]:
        """What came of each test item of probes: :func:`crosslens.outcomes.read_outcomes`. Each has
        ``to_pandas()``.

        Parameters
        ----------
        wanted: task, condition, layer, …, and the value that each is to have.

        Raises
        ------
        InputError: the run has no outcomes, or there is no such field.
        StoreError: the file is damaged.
        """
        return read_outcomes(self.folder, **wanted)

    def to_pandas(self) -> Any:
        """The scores as a data frame: :meth:`Scores.to_pandas`."""
        return self.scores.to_pandas()

    def report(self, path: str | Path | None = None) -> Path:
        """Write the report, one self-contained HTML page, and return where it is.

        Parameters
        ----------
        path: of the page; ``report.html`` in the run's folder without it.

        Raises
        ------
        InputError, StoreError, OutputError: as for :func:`crosslens.report.write_report`.
        """
        from crosslens.report import write_report

        return write_report(self.folder, path)

    def figure(self, *tasks: str) -> Any:
        """A figure of what was measured by layer: :meth:`Scores.figure`."""
        from crosslens.report.figures import layer_figure

        return layer_figure(self.scores, tasks, self.config)

    def export(self, out: str | Path) -> list[Path]:
        """Write the run's tables and figures as files for a paper:
        :func:`crosslens.report.export.export_run`."""
        from crosslens.report.export import export_run

        return export_run(self.folder, out)

    def citations(self) -> list[str]:
        """BibTeX of what the run used: methods, data, this library."""
        from crosslens.probes.tasks.catalogue import find_task
        from crosslens.report.citations import citations

        if (made := self.folder / "transplant.json").is_file():
            return citations({"kind": "transplant", "settings": read_json(made)}, [])
        settings = self.config.get("settings")
        names = settings.get("tasks") if isinstance(settings, dict) else None
        tasks = {str(name): find_task(str(name)) for name in names or () if isinstance(names, list)}
        cards = {name: task.record() for name, task in tasks.items() if task is not None}
        measured = (self.folder / "scores.jsonl").is_file()
        return citations(self.config, self.scores if measured else [], cards)
