"""The page of a run of transfer: a heat map of languages and tasks, three sentences, a section for
each task."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from crosslens.languages import code_of
from crosslens.report.folders.transfer import System, Transfer, called, load_transfer
from crosslens.report.folders.transfers import contests
from crosslens.report.parts.drawing import Style, plain_style, series_style
from crosslens.report.parts.heat import colour_bar, heat_panel, scale_ends
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
)
from crosslens.report.parts.wording import estimate, join, language, named, plural, tag, text
from crosslens.report.sections.transfer_task import transfer_section
from crosslens.score import QUANTITIES, Score

__all__ = ["transfer_page"]


_MOST = 40  # points of systems in one picture
_CONTROLS = {
    "in_language": (Style("#00795c", marker="D", hollow=True), "trained in the language"),
    "random_encoder": (Style("#8a9097", marker="x"), "random weights"),
    "majority": (Style("#3a3f45", marker="+"), "most frequent label"),
}


def transfer_page(folder: str | Path) -> str:
    """The report of a run of transfer.

    Raises
    ------
    InputError: the folder holds no finished one.
    StoreError: one of its files is damaged.
    """
    run, numbering = load_transfer(folder), Numbering()
    compared = contests([run]) if len(run.systems()) > 1 else []  # reads all outcomes, once
    with plain_style():
        parts = [
            _headline(run, numbering),
            *(
                transfer_section(
                    run,
                    task,
                    numbering,
                    f"task-{place}",
                    [one for one in compared if one.task == task],
                )
                for place, task in enumerate(run.main)
            ),
            _provenance(run),
        ]
    return document(_title(run), parts)


def _title(run: Transfer) -> str:
    trained = " + ".join(map(language, _list(run, "train")))
    tested = {code_of(t) for task in run.main for t in run.targets(task)}
    return f"Transfer from {trained}, tested in {plural(len(tested), 'language')}"


def _list(run: Transfer, name: str) -> list[str]:
    return _strings(run.section("settings").get(name))


def _strings(given: object) -> list[str]:
    return [str(one) for one in given] if isinstance(given, list) else []


def _headline(run: Transfer, numbering: Numbering) -> str:
    findings = [sentence for task in run.main for sentence in _finding(run, task)]
    return headline(
        _title(run),
        _overview(run, numbering),
        findings[:3],
        _facts(run),
        _notes(run),
        findings if len(findings) > 3 else [],
        "Nothing was measured in this run.",
    )


def _overview(run: Transfer, numbering: Numbering) -> str:
    """Of one task the numbers with their intervals, while they fit; otherwise a heat map of tasks and
    languages for each encoder."""
    systems = run.systems()
    tasks = list(run.main)
    targets = list(dict.fromkeys(t for task in tasks for t in run.targets(task)))
    if len(tasks) == 1 and targets and len(targets) * len(systems) <= _MOST:
        return _intervals(run, tasks[0], systems, targets, numbering)
    grids = {system: _grid(run, system, tasks, targets) for system in systems}
    if not targets:
        return ""
    ends = scale_ends(v for grid in grids.values() for v in grid[np.isfinite(grid)].tolist())
    panels = []
    for system, grid in grids.items():
        names = ([language(one) for one in targets], [run.title(task) for task in tasks])
        label = f"languages and tasks, {called(system, systems)}"
        high = 26.0 if len(targets) <= 20 else 15.0
        picture = heat_panel(
            numbering.panel(), label, grid, names, ("tested in", "task"), rows_high=high, ends=ends
        )
        panels.append(panel(called(system, systems), "", picture))
    measured = join(list(dict.fromkeys(QUANTITIES[run.main[task][0]].label for task in tasks)))
    reading = (
        "each cell is a mean over seeds on the test items of a language, at the epoch that is best "
        f"on dev of the training language ({measured}); the sections below have intervals and controls"
    )
    bar = colour_bar(numbering.panel(), measured, ends)
    return figure(numbering, "What is transferred.", reading, bar, panels)


def _intervals(
    run: Transfer,
    task: str,
    systems: Sequence[System],
    targets: Sequence[str],
    numbering: Numbering,
) -> str:
    """A row for each language: the systems, and beside them the controls that were run."""
    looks: list[tuple[Style, str, str | None, System | None]] = [
        (series_style(n), called(one, systems), None, one) for n, one in enumerate(systems)
    ]
    for condition, (style, name) in _CONTROLS.items():
        looks.append((style, name, condition, None if condition == "majority" else systems[0]))
    found = [
        (style, name, [run.find(task, target, condition, system) for target in targets])
        for style, name, condition, system in looks
    ]
    shown = [one for one in found if any(score is not None for score in one[2])]
    label = QUANTITIES[run.main[task][0]].label
    picture = interval_panel(
        numbering.panel(),
        f"{run.title(task)}: {label} by language, with 95 % intervals",
        [language(target) for target in targets],
        [(style, scores) for style, _, scores in shown],
        label,
    )
    reading = (
        "means over seeds on the test items of each language, at the epoch that is best on dev of the "
        "training language, with 95 % intervals over seeds and items"
    )
    if len(systems) > 1 and len(shown) > len(systems):
        reading += f"; what stands beside them is that of {called(systems[0], systems)}"
    key = legend([(style, name) for style, name, _ in shown], sticky=False)
    return figure(
        numbering, "What is transferred.", reading, key, [panel(run.title(task), "", picture)]
    )


def _grid(
    run: Transfer, system: System, tasks: Sequence[str], targets: Sequence[str]
) -> np.ndarray:
    found = [[run.find(task, target, None, system) for task in tasks] for target in targets]
    return np.array([[np.nan if s is None else s.value for s in row] for row in found])


def _finding(run: Transfer, task: str) -> list[str]:
    """What came out of a task, as HTML."""
    found = []
    for system in run.systems()[:3]:
        scores = {t: run.find(task, t, None, system) for t in run.targets(task)}
        there = {t: s for t, s in scores.items() if s is not None and s.value == s.value}
        own = {t: s for t, s in there.items() if run.trained_in(s)}
        others = {t: s for t, s in there.items() if t not in own}
        told = f"{run.title(task)}" + (
            f" ({called(system, run.systems())})" if len(run.systems()) > 1 else ""
        )
        parts = [f"{estimate(s)} in {text(language(t))}" for t, s in own.items()]
        if len(others) > 3:
            mean = sum(s.value for s in others.values()) / len(others)
            low, high = (pick(others, key=lambda t: others[t].value) for pick in (min, max))
            parts.append(
                f"{mean:.3f} on average of {_many(others)} (from "
                f"{others[low].value:.3f} in {text(language(low))} to {others[high].value:.3f} in "
                f"{text(language(high))})"
            )
        else:
            parts += [f"{estimate(s)} in {text(language(t))}" for t, s in others.items()]
        if parts:
            sentence = f"{tag('strong', text(told))}: {', '.join(parts)}."
            found.append(sentence + _beside(run, task, system, there))
    return found


def _many(others: Collection[str]) -> str:
    """How many languages there are beside that of training."""
    languages = {code_of(one) for one in others}
    test_sets = f"{len(others)} test sets in " if len(others) > len(languages) else ""
    return f"{test_sets}{len(languages)} other languages"


def _beside(run: Transfer, task: str, system: System, scores: dict[str, Score]) -> str:
    """Where nothing was learnt: languages in which the encoder is not clearly above its controls."""
    unclear = []
    for target, score in scores.items():
        controls = [
            run.find(task, target, "majority"),
            run.find(task, target, "random_encoder", system),
        ]
        there = [c for c in controls if c is not None and not math.isnan(c.value)]
        tops = [c.value if c.high is None else c.high for c in there]
        if tops and score.low is not None and score.low <= max(tops):
            unclear.append(language(target))
    if not unclear:
        return ""
    return f" Not clearly above the controls in {text(join(unclear, most=8, rest='more'))}."


def _facts(run: Transfer) -> dict[str, str]:
    settings = run.section("settings")
    return {
        "Trained on": text(join([language(one) for one in _list(run, "train")])),
        "Encoders": join([named(name) for name in run.section("settings", "encoders")]),
        "Preset": text(settings.get("preset", "not recorded")),
        "Seeds": text(settings.get("seeds", "not recorded")),
        "Selection": "the epoch, and of several settings the one, that is best on dev of the "
        "training language",
    }


def _notes(run: Transfer) -> list[str]:
    """What the reader should know: trainings that were too short, and of the data where splits were
    sampled and what was left out."""
    notes = []
    for score in run.scores:
        for warning in (score.evidence.warnings or ()) if score.task else ():
            trained = join([language(one) for one in str(score.source).split("+")])
            who = f"{run.title(str(score.task))}, {score.encoder}, trained on {trained}"
            notes.append(f"{who}: {warning}.")
    for task in run.section("data", "tasks"):
        for code, how in run.section("data", "tasks", task, "splits").items():
            if how != "as published":
                notes.append(f"{run.title(task)}, {language(code)}: {how}.")
        for code, taught in run.section("in_language", task).items():
            who = f"{run.title(task)}, {language(code)}, trained in it"
            if why := taught.get("not_trained"):
                notes.append(f"{who}: not measured ({why}).")
                continue
            sizes = [plural(n, "item") for n in taught.get("train_items", {}).values()]
            sampled = [how for how in taught.get("splits", {}).values() if how != "as published"]
            notes.append(f"{who}: {', '.join([*sizes, *sampled])}.")
        if lacking := _strings(run.section("data", "tasks", task).get("no_data_in")):
            where = join([language(one) for one in lacking])
            notes.append(f"{run.title(task)}: no data in {where}, so it was not tested there.")
        for key, words in (
            ("left_out_of_test", "left out of test, since they are trained on"),
            ("also_in_training", "tested on although their texts are trained on"),
        ):
            told = run.section("data", "tasks", task, key)
            for code, count in ((c, n) for c, n in told.items() if isinstance(n, int)):
                notes.append(
                    f"{run.title(task)}, {language(code)}: {plural(count, 'item')} {words}."
                )
    return notes


def _provenance(run: Transfer) -> str:
    data = {
        f"{task}, {name}": value
        for task in run.section("data", "tasks")
        for name, value in run.section("data", "tasks", task).items()
    }
    return section(
        "provenance",
        "How it was made",
        settings_table("Settings.", run.section("settings")),
        settings_table("Data.", data),
        settings_table("Versions.", run.section("versions")),
        files_table(run.folder),
    )
