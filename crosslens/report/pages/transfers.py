"""One page for several runs of transfer: the test items that all have, and nothing else."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from crosslens.errors import refuse
from crosslens.report.folders.transfer import load_transfer
from crosslens.report.folders.transfers import Contest, contests
from crosslens.report.parts.drawing import colour_bar, heat_panel, plain_style, scale_ends
from crosslens.report.parts.layout import (
    Numbering,
    document,
    figure,
    files_table,
    headline,
    panel,
    section,
    settings_table,
)
from crosslens.report.parts.wording import join, language, named, short_folders, tag, text
from crosslens.report.sections.probes_ranking import settings_differ
from crosslens.report.sections.transfer_compared import compared_sentence, compared_table
from crosslens.score import QUANTITIES

__all__ = ["transfers_page"]


def transfers_page(folders: Sequence[str | Path]) -> str:
    """One page for runs of transfer: each system's mean on the test items that all have, and its
    difference to the first one, seeds not paired.

    Raises
    ------
    InputError: a folder holds no finished run of transfer, or is named twice; or no two systems were
        tested in the same language of a task. StoreError: a file is damaged.
    """
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        refuse("report", "each folder once", "one of them twice", "leave it out")
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
    """A heat map of languages and systems for each task."""
    grids = {
        task: np.array(
            [
                [one.scores[name].value if name in one.scores else np.nan for name in systems]
                for one in found
            ]
        )
        for task, found in tasks.items()
    }
    ends = scale_ends(v for grid in grids.values() for v in grid[np.isfinite(grid)].tolist())
    panels = []
    for task, grid in grids.items():
        names = ([language(one.target) for one in tasks[task]], systems)
        high = 26.0 if len(grid) <= 20 else 15.0
        label = f"languages and systems, {titles[task]}"
        picture = heat_panel(
            numbering.panel(),
            label,
            grid,
            names,
            ("tested in", "system"),
            rows_high=high,
            ends=ends,
        )
        panels.append(panel(titles[task], "", picture))
    labels = dict.fromkeys(QUANTITIES[found[0].quantity].label for found in tasks.values())
    reading = (
        "each cell is a mean over seeds on the test items that all systems of its row have; the "
        "tables below have intervals and differences"
    )
    bar = colour_bar(numbering.panel(), join(list(labels)), ends)
    return figure(numbering, "What each system transfers.", reading, bar, panels)
