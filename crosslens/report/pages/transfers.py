"""One page for several runs of transfer: the test items that all have, and nothing else."""

from collections.abc import Sequence
from pathlib import Path

from crosslens.errors import refuse
from crosslens.report.folders.transfer import load_transfer
from crosslens.report.folders.transfers import Contest, contests
from crosslens.report.parts.drawing import plain_style, series_style
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
from crosslens.report.parts.wording import join, language, named, short_folders, tag, text
from crosslens.report.sections.settings_differ import settings_differ
from crosslens.report.sections.transfer_compared import compared_sentence, compared_table
from crosslens.score import QUANTITIES

__all__ = ["transfers_page"]


def transfers_page(folders: Sequence[str | Path]) -> str:
    """One page for runs of transfer: each system's mean on the test items that all have, and its
    difference to the first one, seeds not paired.

    Raises
    ------
    InputError: a folder holds no finished run of transfer, or no two systems
        were tested in the same language of a task.
    StoreError: a file is damaged.
    """
    runs = [load_transfer(folder) for folder in folders]
    tasks: dict[str, list[Contest]] = {}
    for one in contests(runs):
        tasks.setdefault(one.task, []).append(one)
    if not tasks:
        expected = "runs that share a task, a language and test items"
        refuse("report", expected, join([str(f) for f in folders]), "draw each run's own page")
    names = [short_folders([str(run.folder) for run in runs])[str(run.folder)] for run in runs]
    titles = {task: next(run.title(task) for run in runs if task in run.main) for task in tasks}
    systems = list(
        dict.fromkeys(s for found in tasks.values() for one in found for s in one.scores)
    )
    numbering, title = Numbering(), "Transfer compared: " + join(names, most=4)
    with plain_style():
        parts = [
            headline(
                title,
                _overview(tasks, titles, systems, numbering),
                [compared_sentence(found, titles[task]) for task, found in tasks.items()][:3],
                {
                    "Systems": join([named(name) for name in systems]),
                    "Items": text("those that all systems of a task and language have"),
                    "Differences": text(f"to {systems[0]}, or the first that has the task"),
                },
                settings_differ(names, [run.config for run in runs]),
                [],
                "Nothing was measured in these runs.",
            ),
            *(
                section(f"task-{place}", titles[task], compared_table(found))
                for place, (task, found) in enumerate(tasks.items())
            ),
            section(
                "made",
                "How this was made",
                *(
                    tag("h3", text(name))
                    + settings_table("Settings.", run.section("settings"))
                    + files_table(run.folder)
                    for name, run in zip(names, runs, strict=True)
                ),
            ),
        ]
    return document(title, parts)


def _overview(
    tasks: dict[str, list[Contest]],
    titles: dict[str, str],
    systems: Sequence[str],
    numbering: Numbering,
) -> str:
    """For each task a row for each language, with a point for each system."""
    styles = {name: series_style(place) for place, name in enumerate(systems)}
    panels = []
    for task, found in tasks.items():
        label = QUANTITIES[found[0].quantity].label
        picture = interval_panel(
            numbering.panel(),
            f"{titles[task]}: {label} by language, with 95 % intervals",
            [language(one.target) for one in found],
            [
                (style, [one.scores.get(name) for one in found])
                for name, style in styles.items()
                if any(name in one.scores for one in found)
            ],
            label,
        )
        panels.append(panel(titles[task], "", picture))
    reading = (
        "means over seeds on the test items that all systems of a row have, with 95 % intervals; the "
        "tables below have the differences, which are told apart better, since the items are the same"
    )
    key = legend([(style, name) for name, style in styles.items()])
    return figure(numbering, "What each system transfers.", reading, key, panels)
