"""The page of a study's transfer: each condition zero-shot beside its controls, and how the loss goes
with alignment."""

import collections
import math
from pathlib import Path

import numpy as np

from crosslens.readers.published import PAPERS
from crosslens.report.folders.controlled_sentences import comparisons_told
from crosslens.report.folders.log import as_table
from crosslens.report.folders.study_transfer import (
    COLUMNS,
    StudyTransferFolder,
    load_study_transfer,
    points_told,
    printed_head,
    printed_less,
)
from crosslens.report.parts.columns import filled_columns
from crosslens.report.parts.drawing import Axis, plain_style
from crosslens.report.parts.heat import colour_bar, heat_panel, scale_ends
from crosslens.report.parts.layout import (
    Numbering,
    document,
    figure,
    files_table,
    headline,
    panel,
    section,
    settings_table,
    table,
    value_cell,
)
from crosslens.report.parts.scatter import scatter_panel
from crosslens.report.parts.wording import (
    decimal,
    join,
    language,
    named,
    short_names,
    tag,
    text,
    with_minus,
)
from crosslens.score import QUANTITIES, Score

__all__ = ["share_cell", "study_transfer_page"]


def study_transfer_page(folder: str | Path) -> str:
    """The report of a study's transfer.

    Raises
    ------
    InputError: the folder holds no finished one.
    StoreError: one of its files is damaged.
    """
    folder = Path(folder)
    run, numbering = load_study_transfer(folder), Numbering()
    title = run.title
    with plain_style():
        parts = [
            headline(
                title,
                "".join(_lead(run, task, numbering) for task in run.main),
                [sentence for task in run.main for sentence in _told(run, task)][:3],
                _facts(run),
                [*dict.fromkeys(note for task in run.main for note in run.notes(task))],
                [],
                "Nothing was measured in this run.",
            ),
            *(
                section(f"task-{place}", f"{task}, condition by condition", _table(run, task))
                for place, task in enumerate(run.main)
            ),
            section(
                "provenance",
                "How it was made",
                settings_table("What was asked for.", as_table(run.config.get("asked"))),
                settings_table("Settings.", as_table(run.config.get("settings"))),
                settings_table("Versions.", as_table(run.config.get("versions"))),
                files_table(folder),
            ),
        ]
    return document(title, parts)


def _lead(run: StudyTransferFolder, task: str, numbering: Numbering) -> str:
    """A heat map of conditions, and the loss against alignment, and against what is kept of the
    order, where three conditions have a number."""
    found = [
        [run.mean(task, name, way, copy=copy) for way, copy in COLUMNS.values()]
        for name in run.names
    ]
    grid = np.array([[np.nan if s is None else 100 * s.value for s in row] for row in found])
    there = ~np.isnan(grid).all(axis=0)  # what was not measured has no column
    grid, columns = grid[:, there], [one for one, kept in zip(COLUMNS, there, strict=True) if kept]
    ends = scale_ends(grid[np.isfinite(grid)].tolist())
    short = [*short_names(run.names).values()]
    picture = heat_panel(
        numbering.panel(),
        f"{task} by condition: " + ", ".join(run.names),
        grid,
        (short, columns),
        ("condition", "measured"),
        ends=ends,
    )
    label = f"{QUANTITIES[run.main[task][0]].label}, per cent"
    panels = [panel(f"{task}: {label}", "", picture)]
    for measure, what, kept in (
        ("token_alignment", "alignment", "P@1 of subwords"),
        ("neighbours_kept", "neighbours kept", "neighbours kept"),
        ("contexts_kept", "contexts kept", "contexts kept"),
    ):
        points, over = run.with_alignment_points(task, measure)
        if len(points) > 2:
            axes = Axis(kept, (0.0, 1.0)), Axis("BZ − BS, points")
            called = short_names(points)
            shown = {
                called[name].replace(", seed", ""): (beside, 100 * less)
                for name, (beside, less) in points.items()
            }
            drawn = scatter_panel(numbering.panel(), f"{task}: loss over {what}", shown, axes)
            of = "single trainings" if over == "trainings" else "means over trainings"
            panels.append(panel(f"What is lost, and {what}", of, drawn))
    original, other = run.called
    return figure(
        numbering,
        f"What {other} has of {task}.",
        f"colours are means over trainings, tested on {other} but for the column in the original; "
        f"zero-shot is fine-tuned on {original}, trained on it on {other}",
        colour_bar(numbering.panel(), label, ends),
        panels,
    )


def _told(run: StudyTransferFolder, task: str) -> list[str]:
    """Sentences on a task, as HTML."""
    less = {name: run.less(task, name) for name in run.names}
    parts = [
        f"{named(name)} {text(with_minus(points_told(score)))}"
        for name, score in less.items()
        if score is not None
    ]
    told = list[str]()
    verdicts = collections.Counter(found.partition(":")[0] for *_, found in run.orders(task))
    if verdicts:
        said = text(join([f"{n} {verdict}" for verdict, n in sorted(verdicts.items())]))
        told.append(
            f"{tag('strong', text(task))}: by {text(run.compared)}, {said} of "
            f"{verdicts.total()} comparisons of {text(run.ordered_by)}."
        )
    if parts:
        told.append(
            f"{tag('strong', text(task))}: zero-shot less trained on {run.called[1]} is, in points, "
            f"{join(parts, most=6, rest='further conditions')}."
        )
    return [*told, *(text(with_minus(one)) for one in run.with_alignment(task))]


_APART = "in all data a space stands between any two words"


def _facts(run: StudyTransferFolder) -> dict[str, str]:
    asked = as_table(run.config.get("asked"))
    syntax = asked.get("syntax")
    return {
        "After": text(PAPERS[run.told["paper"]]),
        "Study": named(str(asked.get("study", "not recorded"))),
        "Fine-tuned on": text(f"{language(run.languages[0])}, and {run.called[1]}"),
        **({"Condition with syntax": text(f"tested on {syntax}; {_APART}")} if syntax else {}),
        "Fine-tunings of each training": text(asked.get("seeds", "not recorded")),
        "Intervals": "95 %, over trainings and test items; of a single training over its items"
        if run.over_items
        else "95 %, over trainings; of a single one over its test items",
    }


def _table(run: StudyTransferFolder, task: str) -> str:
    head, copy = ["Condition", *COLUMNS, "BZ − BS", "MZ − BS"], run.languages[1]
    head += ["less default"] if run.has_default else []
    head += [
        "P@1 of subwords",
        text(printed_head(run.told, task, run.main[task][0], copy).replace(" - ", " − ")),
    ]
    rows = []
    for name in run.names:
        scores = [run.mean(task, name, way, copy=copy) for way, copy in COLUMNS.values()]
        lost = [run.less(task, name), run.monolingual_less(task, name)]
        less, aligned = run.less_default(task, name), run.told["alignment"].get(name)
        beside = ["–" if less is None else with_minus(f"{100 * less:+.1f}")]
        rows.append(
            [
                named(name),
                *map(share_cell, scores),
                *("–" if one is None else text(with_minus(points_told(one))) for one in lost),
                *(beside if run.has_default else []),
                "–" if aligned is None else f"{aligned:.2f}",
                text(with_minus(printed_less(run.told, name, task, copy)) or "–"),
            ]
        )
    over = "trainings and test items" if run.over_items else "trainings"
    caption = (
        f"Per cent, means over trainings, with 95 % intervals over {over}; differences in points. "
        f"Random encoder: of the first training. BZ: zero-shot on {run.called[1]}; BS: trained on it; "
        "MZ: an encoder of the original alone, zero-shot."
        + (" Less default: zero-shot less that of default." if run.has_default else "")
    )
    orders = [[text(row[0]), text(with_minus(row[1])), text(row[2])] for row in run.orders(task)]
    about = f"Differences of {run.compared} in points, with 95 % intervals over trainings and test items."
    about = f"{about} {comparisons_told(len(orders))}".rstrip()
    ordered_by = f"{run.ordered_by[0].upper()}{run.ordered_by[1:]}"
    compared = table(about, [ordered_by, "Points", ""], orders) if orders else ""
    head, *rows = map(list, filled_columns(head, rows, "–"))
    return table(caption, head, rows) + compared


def share_cell(score: Score | None) -> str:
    """A share in per cent, its interval below it; where it could not be computed, why."""
    if score is None or math.isnan(score.value):
        return value_cell(score)
    shown = decimal(100 * score.value, 1)
    no_training = score.condition in ("majority", "random_encoder")
    if score.low is None or score.high is None or no_training:
        return shown
    ends = f"[{decimal(100 * score.low, 1)}, {decimal(100 * score.high, 1)}]"
    return f"{shown} {tag('small', ends, class_='within')}"
