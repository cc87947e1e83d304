"""The page of one or more probe runs: its head and the order of its sections."""

from collections.abc import Sequence
from pathlib import Path

from crosslens.report.folders.probes import ProbeRuns, load_probe_runs
from crosslens.report.parts.drawing import plain_style
from crosslens.report.parts.layout import (
    Numbering,
    definitions,
    document,
    files_table,
    headline,
    section,
    settings_table,
)
from crosslens.report.parts.wording import join, named, paragraph, plural, tag, text
from crosslens.report.sections.probes_comparison import RunComparison, compare_runs
from crosslens.report.sections.probes_findings import layer_findings, probe_sentences
from crosslens.report.sections.probes_layers import task_section
from crosslens.report.sections.probes_overview import (
    overview_figure,
    overview_section,
    paired_section,
)
from crosslens.report.sections.probes_pairs import pair_findings, pair_section, pair_tasks
from crosslens.report.sections.probes_ranking import comparison_section
from crosslens.report.sections.settings_differ import settings_differ

__all__ = ["probe_page", "probe_runs_page"]

_DEFINITIONS = (
    ("Layer", "0 is the output of the embedding layer."),
    (
        "Random encoder",
        "The same architecture and tokeniser with new random weights: what it reaches comes "
        "from word identity, length and "
        "architecture, not from training (Zhang & Bowman 2018). Of a run of several seeds it "
        "is the mean of several such encoders, and the "
        "interval is Student’s over them.",
    ),
    (
        "Control task and selectivity",
        "The same probe is trained on random labels, one for each word type: what it reaches "
        "it has learnt by "
        "heart. Selectivity is the accuracy minus that (Hewitt & Liang 2019). Sentences have "
        "the labels in another order instead, one for "
        "each distinct text. It is at chance where it is not clearly above always giving the "
        "same answer.",
    ),
    (
        "Texts that train and test share",
        (
            "Equal but for white space. A probe may remember them, so the value without these "
            "items is shown."
        ),
    ),
    ("Majority class", "Always giving the label that is most frequent in training."),
    (
        "Intervals",
        "95 %, over test items, or over groups of items that stand and fall together, such as "
        "the words of a sentence: Wilson’s "
        "(1927) for shares, Agresti & Min’s (2005) for differences on the same items; others "
        "are named in the details of scores.jsonl. "
        "They do not include the choice of the layer.",
    ),
    (
        "Retrained on resampled items",
        "Lowest and highest value after training on bootstrap samples of the training items. "
        "Such a sample "
        "repeats items and lacks others, so that the probe is usually a little worse: it is "
        "no interval of the value.",
    ),
    (
        "Clearly above",
        "Where encoder and random encoder were compared item by item, the 95 % interval of "
        "the difference lies above 0. "
        "Elsewhere the whole interval lies above the control’s, which is stricter. Neither is "
        "corrected for the number of comparisons.",
    ),
)


def probe_page(folder: str | Path) -> str:
    """The report of one probe run.

    Raises
    ------
    InputError: the folder holds no finished probe run.
    StoreError: one of its files is damaged.
    """
    return probe_runs_page([folder])


def probe_runs_page(folders: Sequence[str | Path]) -> str:
    """One page for any number of probe runs: the same tasks side by side, a line for each encoder
    of each run.

    Raises
    ------
    InputError: one of the folders holds no finished probe run, or is named twice.
    StoreError: one of the files is damaged.
    """
    runs, numbering = load_probe_runs(folders), Numbering()
    comparison = compare_runs(runs) if len(runs.folders) > 1 else RunComparison({}, {})
    with plain_style():
        parts = [
            _headline(runs, numbering, comparison),
            comparison_section(runs, comparison),
            overview_section(runs, numbering) if runs.tasks() or runs.not_measured() else "",
        ]
        parts += [
            task_section(runs, task, numbering, key) for key, task in _layer_keys(runs).items()
        ]
        parts += [
            pair_section(runs, tasks, numbering, key) for key, tasks in _pair_keys(runs).items()
        ]
        parts += [paired_section(runs), _made(runs)]
    return document(_title(runs), [part for part in parts if part])


def _layer_keys(runs: ProbeRuns) -> dict[str, str]:
    """The sections of tasks; what is tested on other languages stands in that of the task
    itself."""
    return {
        f"task-{place}": task
        for place, task in enumerate((t for t in runs.tasks() if runs.base(t) == t), 1)
    }


def _pair_keys(runs: ProbeRuns) -> dict[str, list[str]]:
    """The sections of minimal pairs; those of a task in several languages are together."""
    found: dict[str, list[str]] = {}
    for task in pair_tasks(runs):
        found.setdefault(runs.base(task), []).append(task)
    return {f"pairs-{place}": tasks for place, tasks in enumerate(found.values(), 1)}


def _title(runs: ProbeRuns) -> str:
    if len(runs.folders) > 1:
        return f"Probes of {plural(len(runs.folders), 'run')}"
    if len(runs.subjects) > 1:
        return f"Probes of {plural(len(runs.subjects), 'encoder')}"
    return f"Probes of {runs.subjects[0].label.rstrip('/').rsplit('/', 1)[-1]}"


def _headline(runs: ProbeRuns, numbering: Numbering, comparison: RunComparison) -> str:
    findings = [*layer_findings(runs, comparison), *pair_findings(runs)]
    lead, told = overview_figure(runs, numbering), probe_sentences(runs, comparison)
    return headline(
        _title(runs), lead, told, _facts(runs), _notes(runs), findings, "Nothing was measured."
    )


def _facts(runs: ProbeRuns) -> dict[str, str]:
    tasks = [runs.title(task) for task in (*runs.tasks(), *pair_tasks(runs))]
    seeds = dict.fromkeys(
        str(settings.get("seed", "not recorded")) for settings in map(_settings, runs.configs)
    )
    return {
        "Encoders" if len(runs.subjects) > 1 else "Encoder": join(
            [named(subject.label) for subject in runs.subjects]
        ),
        "Runs": join([named(folder.resolve().name) for folder in runs.folders]),
        "Tasks": join(list(map(named, tasks))) or "none",
        "Seeds" if len(seeds) > 1 else "Seed": text(join(list(seeds))),
    }


def _settings(config: dict[str, object]) -> dict[str, object]:
    given = config.get("settings")
    return given if isinstance(given, dict) else {}


def _notes(runs: ProbeRuns) -> list[str]:
    """What could not be measured, and what the runs want their readers to know."""
    names, notes = (
        [f"{folder.resolve().name}: " if len(runs.folders) > 1 else "" for folder in runs.folders],
        [],
    )
    for run, task, reason in runs.not_measured():
        notes.append(f"{names[run]}{runs.title(task)} was not measured: {reason}")
    for run, config in enumerate(runs.configs):
        given = config.get("notes")
        notes += [
            f"{names[run]}{note}"
            for note in (given if isinstance(given, list) else [given] if given else [])
        ]
    folders = [folder.resolve().name for folder in runs.folders]
    return [*settings_differ(folders, runs.configs), *notes]


def _made(runs: ProbeRuns) -> str:
    """Settings, data, versions and files of every run, and the definitions."""
    parts = []
    for folder, config in zip(runs.folders, runs.configs, strict=True):
        parts.append(tag("h3", text(folder.resolve().name)) if len(runs.folders) > 1 else "")
        versions = config.get("versions")
        left = settings_table("Settings of the run (config.json, “settings”).", _settings(config))
        right = settings_table(
            "Versions.", versions if isinstance(versions, dict) else {}
        ) + files_table(folder)
        parts.append(tag("div", tag("div", left) + tag("div", right), class_="wide"))
        rest = {
            key: value
            for key, value in config.items()
            if key not in ("kind", "settings", "asked", "versions", "notes", "not_measured")
        }
        parts.append(settings_table("Anything else in config.json.", rest) if rest else "")
    if runs.undrawn:
        parts.append(
            settings_table(
                "Measurements that this page has no figure for (number of lines).",
                dict(sorted(runs.undrawn.items())),
            )
        )
    if runs.repeated:
        parts.append(
            paragraph(
                f"{plural(runs.repeated, 'line')} of scores.jsonl repeat the keys of an "
                f"earlier line; the earlier is shown."
            )
        )
    return section("made", "How this was made", *parts, definitions(_DEFINITIONS))
