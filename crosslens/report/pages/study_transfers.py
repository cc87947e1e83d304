"""One page for the transfer of several studies: over all their conditions, whether what is aligned
transfers (Deshpande et al. 2022, § 5), and each condition in each study (Conneau et al. 2020, Table 1:
French, Russian, Chinese)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from crosslens.errors import refuse
from crosslens.report.folders.controlled_sentences import WITH_INTERVAL
from crosslens.report.folders.log import as_table
from crosslens.report.folders.study_transfer import (
    StudyTransferFolder,
    load_study_transfer,
    points_told,
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
    plural,
    short_folders,
    short_names,
    tag,
    text,
    with_minus,
)
from crosslens.report.sections.settings_differ import settings_differ
from crosslens.score import QUANTITIES
from crosslens.stats import pearson_interval, spearman_interval

__all__ = ["study_transfers_page"]

_FEWEST = 4  # conditions of a correlation
_OF_A_PAIR = ("test", "derived")  # settings that differ with the languages, as what is read does
_Pairs = dict[tuple[str, str], tuple[float, float]]


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
                {"Runs": join([_run_called(name, run) for name, run in runs.items()])},
                [
                    *settings_differ([*runs], [{"settings": _settings(r)} for r in runs.values()]),
                    *_notes(runs, tasks),
                ],
                [],
                "Fewer than four conditions have a P@1 of subwords to hold this against.",
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


def _run_called(name: str, run: StudyTransferFolder) -> str:
    """A run with its study, or with the two languages that it is of."""
    return f"{named(name)} ({text(run.told['name'] if run.derived else '–'.join(run.called))})"


def _notes(runs: Mapping[str, StudyTransferFolder], tasks: Sequence[str]) -> list[str]:
    """What the reader should know, each sentence once, with the runs that it is said of."""
    said = dict[str, list[str]]()
    for name, run in runs.items():
        for note in dict.fromkeys(
            note for task in tasks if task in run.main for note in run.notes(task)
        ):
            said.setdefault(note, []).append(name)
    return [f"{join(names)}: {note}" for note, names in said.items()]


def _settings(run: StudyTransferFolder) -> dict[str, object]:
    """What is to be the same in runs that are compared."""
    settings = as_table(run.config.get("settings"))
    data = as_table(run.config.get("asked")).get("data", "not recorded")
    return {k: v for k, v in settings.items() if k not in _OF_A_PAIR} | {"data": data}


def _second(runs: Iterable[StudyTransferFolder]) -> str:
    """What the second language is called, of runs of one or more."""
    others = list(dict.fromkeys(run.called[1] for run in runs))
    return others[0] if len(others) == 1 else "the second language"


def _pairs(runs: Mapping[str, StudyTransferFolder], task: str) -> _Pairs:
    """Run and condition -> its alignment, and what is lost in points; of those that have both."""
    found = _Pairs()
    for name, run in runs.items():
        for condition, aligned in run.told["alignment"].items() if task in run.main else ():
            less = run.less(task, condition)
            if less is not None and not math.isnan(aligned) and not math.isnan(less.value):
                found[name, condition] = aligned, 100 * less.value
    return found


def _lead(runs: Mapping[str, StudyTransferFolder], task: str, numbering: Numbering) -> str:
    return _zero_shot(runs, task, numbering) + _against_alignment(runs, task, numbering)


def _zero_shot(runs: Mapping[str, StudyTransferFolder], task: str, numbering: Numbering) -> str:
    """A row for each condition, a mark for each study."""
    there = {name: run for name, run in runs.items() if task in run.main}
    names = list(dict.fromkeys(one for run in there.values() for one in run.names))
    styles = {name: series_style(place) for place, name in enumerate(there)}
    rows = [*short_names(names).values()]
    measured = QUANTITIES[next(iter(there.values())).main[task][0]].label
    picture = interval_panel(
        numbering.panel(),
        f"zero-shot {task} by condition, with 95 % intervals",
        rows,
        [
            (styles[name], [run.mean(task, one, None) for one in names])
            for name, run in there.items()
        ],
        f"{task}: {measured}, per cent",
        scale=100,
    )
    about = f"zero-shot on {_second(there.values())}; means over trainings with 95 % intervals"
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
    axes = Axis("P@1 of subwords", (0.0, 1.0)), Axis("BZ − BS, points")
    several = len(_studies(pairs)) > 1
    called = short_names(condition for _, condition in pairs)
    shown = {
        (f"{name}, " if several else "") + called[condition]: one
        for (name, condition), one in pairs.items()
    }
    label = f"{task}: loss over alignment, by study and condition"
    picture = scatter_panel(numbering.panel(), label, shown, axes)
    about = (
        f"a point for each condition of {join(_studies(pairs))}: P@1 of subwords without a map, and zero-shot "
        "less trained on the language, both means over trainings"
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
    studies = _studies(pairs)
    again = _of_the_same_models([runs[name] for name in studies])
    few = len(pairs) < WITH_INTERVAL
    for kind, (r, low, high) in (
        ("Spearman's", spearman_interval(x, y)),
        ("Pearson's", pearson_interval(x, y)),
    ):
        ends = "" if few or again else f" [{low:z.2f}, {high:z.2f}]"
        told.append(f"{kind} {r:z.2f}{ends}")
    why = "too few for an interval" if few else "some of the same models: no interval"
    without = f" ({why})" if few or again else ""
    sentence = (
        f"over {len(pairs)} conditions of {plural(len(studies), 'study', 'studies')}{without} P@1 of subwords "
        f"goes with zero-shot less trained on {_second(runs[name] for name in studies)} by {' and '.join(told)}."
    )
    return [f"{tag('strong', text(task))}: {text(with_minus(sentence))}"]


def _of_the_same_models(runs: Iterable[StudyTransferFolder]) -> bool:
    """Whether some runs fine-tuned the same trained models (at other rates, say): their points are
    no conditions of their own."""
    models = [as_table(as_table(run.config.get("settings")).get("encoders")) for run in runs]
    sums = [one for of in models for one in {*map(str, of.values())}]
    return len(sums) > len({*sums})


def _studies(pairs: _Pairs) -> list[str]:
    """The runs that have points."""
    return list(dict.fromkeys(name for name, _ in pairs))


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
                "–" if less is None else text(with_minus(points_told(less))),
            ]
            if name in with_default:
                lower = run.less_default(task, condition)
                cells.append("–" if lower is None else with_minus(f"{100 * lower:+.1f}"))
            cells.append("–" if aligned is None else decimal(aligned, 2))
        rows.append(cells)
    head = ["Condition"]
    for name in there:
        own = ["zero-shot", "BZ − BS", *(["less default"] if name in with_default else [])]
        head += [text(f"{name}: {one}") for one in (*own, "P@1 of subwords")]
    caption = (
        "Per cent, means over trainings with 95 % intervals; differences in points. BZ: zero-shot on "
        f"{_second(there.values())}; BS: trained on it."
    )
    return table(caption, head, rows)
