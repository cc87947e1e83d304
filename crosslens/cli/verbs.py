"""What each verb does: its arguments become one call, and the result is printed."""

import argparse
import json
import os
import tomllib
from pathlib import Path
from typing import Any

from crosslens.cli.alignment import align, compare
from crosslens.cli.arguments import by_language, encoders_by_language
from crosslens.cli.export import cite, export
from crosslens.cli.extraction import extract
from crosslens.cli.listing import doctor
from crosslens.cli.listing import list_all as list
from crosslens.cli.probes import probe
from crosslens.cli.table import format_table
from crosslens.errors import refuse
from crosslens.progress import be_quiet, say

__all__ = [
    "align",
    "cite",
    "compare",
    "doctor",
    "export",
    "extract",
    "list",
    "probe",
    "quickstart",
    "report",
    "study",
    "train",
]


def quickstart(arguments: argparse.Namespace) -> None:
    """Run the study that the package carries, and print its table."""
    from crosslens.recipes.quickstart import quickstart as recipe

    _study(recipe(arguments.seed), arguments)


def study(arguments: argparse.Namespace) -> None:
    """Run a study of the user's encoders and texts, and print its table."""
    from crosslens.run.study import Study

    texts = by_language(arguments.text, "--text")
    encoders = encoders_by_language(arguments.encoder, texts)
    told = {
        name: getattr(arguments, name)
        for name in ("train_fraction", "seed", "trust_remote_code", "device")
    }
    what = Study(encoders=encoders, texts=texts, **told)
    _study(what, arguments)


def _study(what: Any, arguments: argparse.Namespace) -> None:
    from crosslens.report import write_report
    from crosslens.run.study import run_study, summary

    be_quiet(arguments.quiet)
    folder = run_study(what, arguments.out)
    say("drawing the report")
    report_path = write_report(folder)
    if arguments.json:
        _print_json(folder)
        return
    rows, text = summary(folder)
    print(*([format_table(rows)] if rows else []), text, f"Report: {report_path}", sep="\n")


def _print_json(folder: Path) -> None:
    """The measurements of a finished run, a line of JSON each."""
    from crosslens.score import read_scores

    print("\n".join(score.as_json() for score in read_scores(folder / "scores.jsonl")))


def train(arguments: argparse.Namespace) -> None:
    """Train a recipe, or print it."""
    from crosslens.models.training.masked_lm import train as run
    from crosslens.models.training.settings import with_overrides
    from crosslens.recipes import TRAININGS, emergence_settings, load_recipe

    # under torchrun the first process speaks
    be_quiet(arguments.quiet or os.environ.get("RANK", "0") != "0")
    if arguments.config is not None:
        arguments.settings = [
            *([arguments.recipe] if arguments.recipe else []),
            *arguments.settings,
        ]
        arguments.recipe = arguments.config
    if arguments.recipe is None:
        refuse(
            "RECIPE",
            f"a TOML file, the config.json of a run, or one of {', '.join(TRAININGS)}",
            "none",
            "name one",
        )
    given = dict(_setting(text) for text in arguments.settings)
    if (before := emergence_settings(arguments.recipe)) is not None:
        _emergence({**before, **given}, arguments)
        return
    recipe = with_overrides(load_recipe(arguments.recipe, given.pop("data", None)), given)
    if arguments.dry_run:
        _print_estimate(recipe)
        return
    out = arguments.out or f"runs/{recipe.name}"
    model = run(
        recipe, out, resume=arguments.resume, device=arguments.device, parallel=arguments.parallel
    )
    if os.environ.get("RANK", "0") == "0":
        from crosslens.report import write_report

        report_path = write_report(model.parent)
        if arguments.json:
            print(json.dumps({"model": str(model), "report": str(report_path)}))
            return
        print(f"Model: {model}", f"Report: {report_path}", sep="\n")


def _emergence(given: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Train the conditions of the emergence experiment, or print them."""
    from crosslens.models.training.settings import with_overrides
    from crosslens.recipes.emergence import emergence, emergence_text

    asked, text = dict(given), given.pop("data", None)
    if os.environ.get("WORLD_SIZE", "1") != "1":
        refuse(
            "emergence",
            "one process (the models are small)",
            f"{os.environ['WORLD_SIZE']} of torchrun",
            "run it without torchrun",
        )
    if "sharing" in given:
        refuse(
            "sharing",
            "the conditions of the recipe",
            repr(given["sharing"]),
            "train a recipe of your own with another plan",
        )
    recipes = {name: with_overrides(recipe, given) for name, recipe in emergence().items()}
    if arguments.dry_run:
        for name, recipe in recipes.items():
            print(f"# {name}")
            _print_estimate(recipe)
        return
    from crosslens.report import write_report
    from crosslens.run.emergence import run_emergence, summary, what_is_shared

    say("reading the text")
    out = arguments.out or "runs/emergence"
    folder = run_emergence(
        recipes,
        emergence_text(text),
        out,
        resume=arguments.resume,
        device=arguments.device,
        asked=asked,
    )
    report_path = write_report(folder)
    if arguments.json:
        _print_json(folder)
        return
    rows, words = summary(folder)
    print(
        format_table(what_is_shared(folder)),
        format_table(rows),
        words,
        f"Report: {report_path}",
        sep="\n",
    )


def _print_estimate(recipe: Any) -> None:
    from crosslens.models.training.estimate import estimate
    from crosslens.models.training.settings import describe

    found = estimate(recipe)
    print(describe(found.recipe), "", format_table(found.table), *found.lines, sep="\n")


def report(arguments: argparse.Namespace) -> None:
    """Draw the report of a finished study or probe run again, that of a training, finished or not,
    or one page for several probe runs."""
    from crosslens.report.pages.page import run_kind, write_comparison, write_report

    runs, out = [Path(run) for run in arguments.runs], arguments.out
    if out is not None and (
        Path(out).suffix.lower() not in (".html", ".htm") or Path(out).is_dir()
    ):
        refuse(
            "--out",
            "a file name that ends in .html",
            repr(out),
            "name the page so, as in --out probes.html",
        )
    if len(runs) > 1:
        if out is None:
            refuse(
                "--out", f"a file for the page of {len(runs)} runs", "none", "add --out FILE.html"
            )
        print(f"Report: {write_comparison(runs, out)}")
        return
    if run_kind(runs[0]) == "study" and not (runs[0] / "scores.jsonl").exists():
        refuse(
            str(runs[0]),
            "the folder of a finished study",
            "one without scores.jsonl",
            "finish the study first",
        )
    print(f"Report: {write_report(runs[0], out)}")


def _setting(text: str) -> tuple[str, Any]:
    """key=value with the value in TOML's words; a bare word is a string."""
    name, equals, value = text.partition("=")
    if not equals:
        refuse(
            "settings", "key=value, such as steps=2000", repr(text), "put = between name and value"
        )
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    # no TOML, more digits than Python reads, or brackets without end
    except (ValueError, RecursionError):
        return name, value
