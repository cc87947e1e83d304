"""The verbs ``export`` and ``cite``: what a paper takes from a finished run."""

import argparse
from pathlib import Path
from typing import Any

from crosslens.errors import refuse

__all__ = ["add_arguments", "cite", "export"]


def add_arguments(export: argparse.ArgumentParser, cite: argparse.ArgumentParser) -> None:
    """What ``crosslens export`` and ``crosslens cite`` take."""
    export.add_argument(
        "run", metavar="RUN", help="folder of a finished run that has measured something"
    )
    export.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="folder for scores.csv, tables.tex, tables.md and figures/",
    )
    cite.add_argument(
        "runs", nargs="+", metavar="RUN", help="folders of runs; what several used is named once"
    )


def export(arguments: argparse.Namespace) -> None:
    """Write a run's measurements and figures as files for a paper."""
    from crosslens.report.export import export_run

    files = export_run(arguments.run, arguments.out)
    figures = len({file.stem for file in files if file.parent.name == "figures"})
    print(", ".join(str(file) for file in files if file.parent.name != "figures"))
    print(
        f"{figures} figures in {Path(arguments.out) / 'figures'}, each as PDF, SVG and PNG"
        if figures
        else "nothing was measured by layer"
    )


def cite(arguments: argparse.Namespace) -> None:
    """Print BibTeX of what runs used."""
    from crosslens.files import read_json
    from crosslens.report.citations import citations
    from crosslens.score import read_scores

    found: dict[str, None] = {}
    for run in map(Path, arguments.runs):
        if not (run / "config.json").is_file():
            refuse(
                str(run),
                "the folder of a run, with config.json",
                "one without it",
                "name a folder that a run has written",
            )
        config = read_json(run / "config.json", dict[str, Any])
        scores = list(read_scores(run / "scores.jsonl")) if (run / "scores.jsonl").is_file() else []
        found |= dict.fromkeys(citations(config, scores, _cards(config)))
    print("\n\n".join(found))


def _cards(config: dict[str, Any]) -> dict[str, Any]:
    """The cards of a run's tasks, from the catalogue."""
    from crosslens.probes.tasks.catalogue import find_task

    settings = config.get("settings")
    names = settings.get("tasks") if isinstance(settings, dict) else None
    tasks = {str(name): find_task(str(name)) for name in names or () if isinstance(names, list)}
    return {name: task.told() for name, task in tasks.items() if task is not None}
