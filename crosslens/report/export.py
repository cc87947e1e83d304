"""A finished run for a paper: its measurements as CSV, LaTeX and Markdown, its figures as PDF, SVG
and PNG."""

import csv
import dataclasses
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import InputError, OutputError, refuse
from crosslens.files import make_folder, read_json, write_whole
from crosslens.report.figures import layer_figure
from crosslens.report.folders.training import load_training, validation_scores
from crosslens.score import QUANTITIES, Score, first_seed, read_scores

__all__ = ["FORMATS", "csv_text", "export_run", "latex_text", "markdown_text"]

FORMATS = ("pdf", "svg", "png")
_FIELDS = tuple(field.name for field in dataclasses.fields(Score) if field.name != "details")
_ROW = ("encoder", "source", "target", "condition")
_LONGEST = 60  # characters of a detail that tells rows apart
_REMARKS = ("reason", "drawn")  # texts that say something of a row, and are no part of its name
_CHOSEN_BY = (
    "train",
    "dev",
)  # parts that layers are chosen by: in the CSV alone, where there are others
_Cell = tuple[str, str]  # a value, and its interval, if it has one


@dataclasses.dataclass(frozen=True)
class _Table:
    """Measurements of one task: a row for each thing that was measured, a column for each layer."""

    task: str
    head: list[str]
    layers: list[int | None]
    rows: list[tuple[list[str], list[_Cell]]]
    caption: str


def export_run(folder: str | Path, out: str | Path) -> list[Path]:
    """Write ``scores.csv``, ``tables.tex``, ``tables.md`` and ``figures/TASK.pdf``, ``.svg``,
    ``.png`` to a folder.

    The CSV has every measurement, a row each, at full precision, with n and interval. There is one
    table for each task, with the layers as columns, fractions in per cent, n, and 95 % intervals in
    brackets; of similarities between layers it has the same layer on both sides, and not what
    layers were chosen by (the parts "train" and "dev"). The LaTeX needs the package booktabs. Of a
    run of several seeds tables and figures have the first one; of a training the last validation.

    Parameters
    ----------
    folder: of a finished run of any kind. out: a new folder, or one of an earlier export, which is
        written over; figures that it has of other tasks are removed.

    Returns
    -------
    The files.

    Raises
    ------
    InputError: it is no such run.
    StoreError: a file of it is damaged.
    OutputError: ``out`` holds something else.
    """
    folder, out = Path(folder), Path(out)
    config, scores, first = _measured(folder)
    if (
        out.is_dir()
        and any(out.iterdir())
        and not (out / "scores.csv").is_file()
        or out.exists()
        and not out.is_dir()
    ):
        expected = "a new folder, or one of an earlier export"
        refuse(str(out), expected, "something else", "choose another folder", OutputError)
    earlier = _tasks_of(out / "scores.csv")
    tables = list(_tables(first))
    make_folder(out / "figures", "--out")
    texts = {
        "scores.csv": csv_text(scores),
        "tables.tex": _latex(tables),
        "tables.md": _markdown(tables),
    }
    for name, text in texts.items():
        write_whole(out / name, text)
    figures = _figures(first, config, out / "figures")
    for task, kind in itertools.product(earlier, FORMATS):
        if (path := out / "figures" / f"{task}.{kind}") not in figures:
            path.unlink(missing_ok=True)
    return [*(out / name for name in texts), *figures]


def _tasks_of(table: Path) -> list[str]:
    """The tasks of an earlier export, whose figures are beside its table."""
    if not table.is_file():
        return []
    with open(table, encoding="utf-8", errors="replace", newline="") as lines:
        found = {row.get("task") or "" for row in csv.DictReader(lines)}
    return sorted(task for task in found if task and Path(task).name == task)


def _measured(folder: Path) -> tuple[dict[str, Any], list[Score], list[Score]]:
    """A run's configuration, all its measurements, and those that tables and figures show."""
    named = "name a run that has measured something"
    if not (folder / "config.json").is_file():
        refuse(str(folder), "the folder of a run, with config.json", "one without it", named)
    config = read_json(folder / "config.json", dict[str, Any])
    if config.get("kind") == "train":
        training = load_training(folder)
        by_step = [validation_scores(training, found) for found in training.validations]
        if not by_step:
            refuse(str(folder), "a training with a validation", "none in its log.jsonl", named)
        return {}, [score for scores in by_step for score in scores], by_step[-1]
    if not (folder / "scores.jsonl").is_file():
        expected = "the folder of a finished run, with scores.jsonl"
        refuse(str(folder), expected, "one without it", named)
    scores = list(read_scores(folder / "scores.jsonl"))
    settings = config.get("settings")
    return config, scores, first_seed(scores, settings if isinstance(settings, dict) else {})


def _figures(scores: list[Score], config: dict[str, Any], out: Path) -> list[Path]:
    """A file in each format for each task that was measured by layer."""
    import matplotlib

    found = []
    for task in dict.fromkeys(
        score.task for score in scores if score.task and score.layer is not None
    ):
        try:
            figure = layer_figure(scores, [task], config)
        except InputError:
            continue  # means over directions, say, which are part of another task's figure
        for kind in FORMATS:
            path, buffer = out / f"{task}.{kind}", io.BytesIO()
            # the same bytes again; fonts that can be edited
            with matplotlib.rc_context({"svg.hashsalt": "crosslens", "pdf.fonttype": 42}):
                dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
                figure.savefig(
                    buffer, format=kind, dpi=300, bbox_inches="tight", metadata=dates[kind]
                )
            write_whole(path, buffer.getvalue())
            found.append(path)
    return found


def csv_text(scores: Sequence[Score]) -> str:
    """A row for each measurement: its fields, then the entries of ``details`` that are numbers or
    short texts.

    Other entries (lists, tables) are in scores.jsonl alone. An entry that is called like a field is
    called ``details_NAME``.

    >>> told = {"task": "similarity", "layer": 3, "details": {"part": "test"}}
    >>> print(csv_text([Score(quantity="linear_cka", value=0.25, n=9, **told)]), end="")
    quantity,value,n,low,high,layer,other_layer,source,target,condition,task,encoder,seed,part
    linear_cka,0.25,9,,,3,,,,,similarity,,,test
    """
    rows = []
    for score in scores:
        details = {
            name: value
            for name, value in (score.details or {}).items()
            if isinstance(value, str | int | float)
        }
        told = {
            f"details_{name}" if name in _FIELDS else name: value for name, value in details.items()
        }
        rows.append({name: getattr(score, name) for name in _FIELDS} | told)
    buffer = io.StringIO()
    writer = csv.DictWriter(
        buffer,
        list(dict.fromkeys([*_FIELDS, *(name for row in rows for name in row)])),
        lineterminator="\n",
    )
    writer.writeheader()
    writer.writerows(
        {name: "" if _is_nan(value) else value for name, value in row.items()} for row in rows
    )
    return buffer.getvalue()


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _tables(scores: Sequence[Score]) -> Iterator[_Table]:
    """One for each task, in the order of the measurements; rows differ in what their head says."""
    same = [score for score in scores if score.other_layer in (None, score.layer)]
    for task in dict.fromkeys(score.task for score in same):
        whole = [score for score in same if score.task == task]
        mine = [score for score in whole if _part(score) not in _CHOSEN_BY] or whole
        named = [_named(score) for score in mine]
        names = dict.fromkeys(name for one in named for name in one)
        head = [name for name in names if len({one.get(name, "") for one in named}) > 1]
        rows: dict[tuple[str, ...], dict[int | None, Score]] = {}
        left_out = len(whole) - len(mine)
        for score, one in zip(mine, named, strict=True):
            cells = rows.setdefault(tuple(one.get(name, "") for name in head), {})
            left_out += score.layer in cells
            cells.setdefault(score.layer, score)
        layers = sorted({score.layer for score in mine if score.layer is not None})
        columns: list[int | None] = [
            *layers,
            *([None] if any(score.layer is None for score in mine) else []),
        ]
        counts = [_counted(cells.values()) for cells in rows.values()]
        several = len(set(counts)) > 1
        yield _Table(
            task=str(task or "run"),
            head=[*head, "n"] if several else head,
            layers=columns,
            rows=[
                ([*key, n] if several else [*key], [_cell(cells.get(layer)) for layer in columns])
                for (key, cells), n in zip(rows.items(), counts, strict=True)
            ],
            caption=_caption(mine, named[0], head, left_out),
        )


def _part(score: Score) -> Any:
    return score.evidence.part


def _counted(scores: Iterable[Score]) -> str:
    """The number of items behind measurements: "60", or "60–73"."""
    return "–".join(f"{n:,}" for n in dict.fromkeys(f(s.n for s in [*scores]) for f in (min, max)))


def _named(score: Score) -> dict[str, str]:
    """What tells a row from others: what was measured, encoder, languages, condition, and short
    texts among the details."""
    what = QUANTITIES[score.quantity]
    unit = "%" if _in_per_cent(score.quantity) else what.unit
    fields = {name: str(getattr(score, name) or "") for name in _ROW}
    details = {
        name: value
        for name, value in (score.details or {}).items()
        if isinstance(value, str) and name not in _REMARKS
    }
    return {
        "measure": f"{what.label} ({unit})",
        **{**fields, "condition": fields["condition"] or "encoder"},
        **{
            name: value
            for name, value in details.items()
            if len(value) <= _LONGEST and name not in _FIELDS
        },
    }


def _cell(score: Score | None) -> _Cell:
    """A value and the ends of its interval; "–" where it could not be measured."""
    if score is None:
        return "", ""
    factor, places = (100, 1) if _in_per_cent(score.quantity) else (1, 3)
    if math.isnan(score.value):
        return "–", ""
    value = f"{factor * score.value:z.{places}f}"
    if score.low is None or score.high is None:
        return value, ""
    return value, f"[{factor * score.low:z.{places}f}, {factor * score.high:z.{places}f}]"


def _in_per_cent(quantity: str) -> bool:
    return QUANTITIES[quantity].unit.startswith("fraction")


def _caption(
    scores: Sequence[Score], named: Mapping[str, str], head: Sequence[str], left_out: int
) -> str:
    same = [value for name, value in named.items() if name not in head and value != "encoder"]
    measure = [] if "measure" in head else same[:1]
    more = [value for value in same[len(measure) :] if value]
    by_layer = " by layer" if any(score.layer is not None for score in scores) else ""
    parts = [f"{scores[0].task or 'The run'}: {', '.join([*measure, *more])}{by_layer}"]
    parts[0] = parts[0].replace(":  by", " by").removesuffix(": ")
    parts.append(f"n = {_counted(scores)}")
    if any(score.low is not None for score in scores):
        parts.append("95 % intervals in brackets")
    parts += [f"{left_out:,} further measurements are in scores.csv"] if left_out else []
    return "; ".join(parts) + "."


def markdown_text(scores: Sequence[Score]) -> str:
    """Tables as Markdown, the layers as columns.

    >>> both = [Score(quantity="accuracy", value=v, n=50, layer=k, task="wic") for k, v in enumerate((0.5, 0.9))]
    >>> print(markdown_text(both), end="")
    **wic: Accuracy (%) by layer; n = 50.**
    <BLANKLINE>
    | 0 | 1 |
    |---:|---:|
    | 50.0 | 90.0 |
    """
    return _markdown(list(_tables(scores)))


def _markdown(tables: Sequence[_Table]) -> str:
    return "\n".join(_markdown_table(table) for table in tables)


def _markdown_table(table: _Table) -> str:
    head = [*table.head, *("all" if layer is None else str(layer) for layer in table.layers)]
    lines = [f"**{table.caption}**", "", _line(head)]
    lines.append(f"|{'---|' * len(table.head)}{'---:|' * len(table.layers)}")
    rows = (
        [*names, *(" ".join(filter(None, cell)) for cell in cells)] for names, cells in table.rows
    )
    return "\n".join([*lines, *map(_line, rows)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def latex_text(scores: Sequence[Score]) -> str:
    r"""Tables for LaTeX with the package booktabs, the layers as columns.

    >>> both = [Score(quantity="accuracy", value=v, n=50, layer=k, task="a_b") for k, v in enumerate((0.5, 0.9))]
    >>> print(latex_text(both), end="")
    % needs \usepackage{booktabs}
    \begin{table}
      \centering
      \caption{a\_b: Accuracy (\%) by layer; n = 50.}
      \label{tab:a_b}
      \begin{tabular}{rr}
        \toprule
        0 & 1 \\
        \midrule
        50.0 & 90.0 \\
        \bottomrule
      \end{tabular}
    \end{table}
    """
    return _latex(list(_tables(scores)))


def _latex(tables: Sequence[_Table]) -> str:
    return "% needs \\usepackage{booktabs}\n" + "\n".join(_latex_table(table) for table in tables)


def _latex_table(table: _Table) -> str:
    columns = "l" * len(table.head) + "r" * len(table.layers)
    head = [*table.head, *("all" if layer is None else str(layer) for layer in table.layers)]
    body = [list(map(_escaped, head))]
    for names, cells in table.rows:
        body.append([*map(_escaped, names), *map(_latex_cell, cells)])
    lines = [f"    {' & '.join(row)} \\\\" for row in body]
    return "\n".join(
        [
            "\\begin{table}",
            "  \\centering",
            f"  \\caption{{{_escaped(table.caption)}}}",
            f"  \\label{{tab:{table.task}}}",
            f"  \\begin{{tabular}}{{{columns}}}",
            "    \\toprule",
            lines[0],
            "    \\midrule",
            *lines[1:],
            "    \\bottomrule",
            "  \\end{tabular}",
            "\\end{table}\n",
        ]
    )


def _latex_cell(cell: _Cell) -> str:
    """A value with its interval below it, small."""
    value, interval = map(_escaped, cell)
    return f"\\shortstack[r]{{{value}\\\\{{\\tiny {interval}}}}}" if interval else value


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "²": "\\textsuperscript{2}",
    "→": "$\\to$",
    "–": "--",
    "∞": "$\\infty$",
    "\n": " ",
}


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
