"""One page for the transfer of several studies: over all their conditions, whether what is aligned
transfers (Deshpande et al. 2022, § 5), and each condition in each study (Conneau et al. 2020, Table 1:
French, Russian, Chinese)."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from crosslens.errors import refuse
from crosslens.report.folders.log import as_table
from crosslens.report.folders.study_transfer import (
    StudyTransferFolder,
    load_study_transfer,
    points,
)
from crosslens.report.pages.study_transfer import share_cell
from crosslens.report.parts.drawing import Axis, plain_style, series_style
from crosslens.report.parts.intervals import interval_panel
from crosslens.report.parts.layout import (
    Numbering,
    document,
    figure,
    files_table,
    headline,
    legend,
    panel,
    section,
    settings_table,
    table,
)
from crosslens.report.parts.scatter import scatter_panel
from crosslens.report.parts.wording import (
    decimal,
    join,
    named,
    short_folders,
    tag,
    text,
    with_minus,
)
from crosslens.score import QUANTITIES
from crosslens.stats import pearson_interval, spearman_interval

__all__ = ["study_transfers_page"]

_FEWEST, _WITH_ENDS = 4, 8  # conditions of a correlation, and of one with an interval


def study_transfers_page(folders: Sequence[str | Path]) -> str:
    """One page for runs of ``crosslens study-transfer``: alignment against what is lost over all their
    conditions, and a table of each task.

    Raises
    ------
    InputError: a folder holds no finished run, or no two have a task in common.
    StoreError: a file is damaged.
    """
    short = short_folders([str(folder) for folder in folders])
    runs = {short[str(folder)]: load_study_transfer(folder) for folder in folders}
    tasks = [task for run in runs.values() for task in run.main]
    tasks = [task for task in dict.fromkeys(tasks) if tasks.count(task) > 1]
    if not tasks:
        expected, got = "runs with a task in common", join([str(one) for one in folders])
        refuse("report", expected, got, "draw each run's own page")
    numbering = Numbering()
    title = f"Zero-shot transfer in {join([*runs], most=4)}"
    with plain_style():
        parts = [
            headline(
                title,
                "".join(_lead(runs, task, numbering) for task in tasks),
                [sentence for task in tasks for sentence in _correlations(runs, task)],
                {"Runs": join([named(name) for name in runs])},
                [
                    text(f"{name}: {note}")
                    for name, run in runs.items()
                    for task in tasks
                    if task in run.main
                    for note in run.notes(task)
                ],
                [],
                "Fewer than four conditions have an alignment of subwords to hold this against.",
            ),
            *(
                section(f"task-{place}", f"{task}, condition by condition", _table(runs, task))
                for place, task in enumerate(tasks)
            ),
            section(
                "made",
                "How this was made",
                *(
                    tag("h3", text(name))
                    + settings_table("What was asked for.", as_table(run.config.get("asked")))
                    + files_table(Path(folder))
                    for (name, run), folder in zip(runs.items(), folders, strict=True)
                ),
            ),
        ]
    return document(title, parts)


def _pairs(runs: Mapping[str, StudyTransferFolder], task: str) -> dict[str, tuple[float, float]]:
    """Condition of a study -> its alignment, and what is lost in points; of those that have both."""
    found = {}
    for name, run in runs.items():
        for condition, aligned in run.told["alignment"].items() if task in run.main else ():
            less = run.less(task, condition)
            if less is not None and not math.isnan(aligned) and not math.isnan(less.value):
                found[f"{name}, {condition}"] = aligned, 100 * less.value
    return found


def _lead(runs: Mapping[str, StudyTransferFolder], task: str, numbering: Numbering) -> str:
    return _zero_shot(runs, task, numbering) + _against_alignment(runs, task, numbering)


def _zero_shot(runs: Mapping[str, StudyTransferFolder], task: str, numbering: Numbering) -> str:
    """A row for each condition, a mark for each study."""
    there = {name: run for name, run in runs.items() if task in run.main}
    names = list(dict.fromkeys(one for run in there.values() for one in run.names))
    styles = {name: series_style(place) for place, name in enumerate(there)}
    measured = QUANTITIES[next(iter(there.values())).main[task][0]].label
    picture = interval_panel(
        numbering.panel(),
        f"zero-shot {task} by condition, with 95 % intervals",
        names,
        [
            (styles[name], [run.mean(task, one, None) for one in names])
            for name, run in there.items()
        ],
        f"{task}: {measured}",
    )
    about = "zero-shot on the copy, or the other language; means over trainings with 95 % intervals"
    key = legend([(style, name) for name, style in styles.items()])
    return figure(
        numbering, f"What is transferred of {task}.", about, key, [panel("", "", picture)]
    )


def _against_alignment(
    runs: Mapping[str, StudyTransferFolder], task: str, numbering: Numbering
) -> str:
    pairs = _pairs(runs, task)
    if len(pairs) < _FEWEST:
        return ""
    axes = Axis(QUANTITIES["token_alignment"].label, (0.0, 1.0)), Axis("BZ − BS, points")
    label = f"{task}: loss over alignment, by study and condition"
    picture = scatter_panel(numbering.panel(), label, pairs, axes)
    about = (
        "a point for each condition of each study: alignment of subwords without a map, and zero-shot on "
        "the copy less trained on it, both means over trainings"
    )
    return figure(
        numbering, f"What is lost in {task}, and alignment.", about, "", [panel("", "", picture)]
    )


def _correlations(runs: Mapping[str, StudyTransferFolder], task: str) -> list[str]:
    """How alignment goes with what is lost over the conditions of all studies, as HTML."""
    pairs = _pairs(runs, task)
    x, y = np.array([*pairs.values()], float).reshape(-1, 2).T
    if len(pairs) < _FEWEST or not np.ptp(x) or not np.ptp(y):
        return []
    told = []
    for kind, (r, low, high) in (
        ("Spearman's", spearman_interval(x, y)),
        ("Pearson's", pearson_interval(x, y)),
    ):
        ends = f" [{low:.2f}, {high:.2f}]" if len(pairs) >= _WITH_ENDS else ""
        told.append(f"{kind} {r:.2f}{ends}")
    few = "" if len(pairs) >= _WITH_ENDS else " (too few for an interval)"
    sentence = (
        f"over {len(pairs)} conditions of {len(runs)} studies{few} alignment of subwords goes with zero-shot "
        f"less trained on the copy by {' and '.join(told)}."
    )
    return [f"{tag('strong', text(task))}: {text(with_minus(sentence))}"]


def _table(runs: Mapping[str, StudyTransferFolder], task: str) -> str:
    there = {name: run for name, run in runs.items() if task in run.main}
    with_default = [name for name, run in there.items() if run.has_default]
    rows = []
    for condition in dict.fromkeys(one for run in there.values() for one in run.names):
        cells = [named(condition)]
        for name, run in there.items():
            less, aligned = run.less(task, condition), run.told["alignment"].get(condition)
            cells += [
                share_cell(run.mean(task, condition, None)),
                "–" if less is None else text(with_minus(points(less))),
            ]
            if name in with_default:
                lower = run.less_default(task, condition)
                cells.append("–" if lower is None else with_minus(f"{100 * lower:+.1f}"))
            cells.append("–" if aligned is None else decimal(aligned, 2))
        rows.append(cells)
    head = ["Condition"]
    for name in there:
        own = ["zero-shot", "BZ − BS", *(["less default"] if name in with_default else [])]
        head += [text(f"{name}: {one}") for one in (*own, "alignment")]
    caption = (
        "Per cent, means over trainings with 95 % intervals; differences in points. BZ: zero-shot on the "
        "copy, or the other language; BS: trained on it."
    )
    return table(caption, head, rows)
