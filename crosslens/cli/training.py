"""The verb ``train``: a recipe, with what is changed in it."""

import argparse
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import crosslens as cl
from crosslens.cli.arguments import add_common
from crosslens.cli.output import format_table, is_first_process, show
from crosslens.errors import refuse

__all__ = ["train", "train_arguments"]

_BARE_POINT = re.compile(r"[+-]?(\d+\.|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def train_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens train`` takes."""
    add = parser.add_argument
    recipes = (
        "a TOML file, the config.json of a run, or the name of a recipe (crosslens list recipes)"
    )
    add("recipe", nargs="?", help=recipes)
    add(
        "settings",
        nargs="*",
        metavar="key=value",
        help="settings to change, such as steps=2000 or masking.rate=0.3",
    )
    add("--out", metavar="DIR", help="folder of the run (default: runs/NAME)")
    add(
        "--seeds",
        type=int,
        metavar="N",
        help="of a controlled study: how many times each condition is trained (default: 3)",
    )
    add("--resume", action="store_true", help="resume a run that was stopped")
    add(
        "--dry-run",
        action="store_true",
        help="print the resolved recipe, who owns what, and the cost; do nothing",
    )
    add_common(
        parser,
        "device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        metavar=None,
        help="auto: a GPU where there is one",
    )
    add(
        "--parallel",
        choices=("ddp", "fsdp"),
        default="ddp",
        help="how the processes of torchrun share a model",
    )
    add_common(parser, "json")


def train(arguments: argparse.Namespace) -> None:
    """Train a recipe, or print it."""
    recipe, texts = arguments.recipe, arguments.settings
    if arguments.config is not None:
        recipe, texts = arguments.config, [*([recipe] if recipe else []), *texts]
    if recipe is None:
        from crosslens.recipes import TRAININGS

        named = ", ".join(TRAININGS)
        expected = f"a TOML file, the config.json of a run, or one of {named}"
        refuse("RECIPE", expected, "none", "name one")
    settings = _settings(texts)
    if arguments.dry_run:
        from crosslens.recipes import study_settings

        if arguments.seeds is not None and study_settings(recipe) is None:
            expected = "a controlled study by name"
            refuse("seeds", expected, recipe, "train with seed=0, seed=1, …")
        if arguments.seeds is not None and arguments.seeds < 1:
            refuse("--seeds", "1 or more", str(arguments.seeds), "3 is usual")
        gpu = str(arguments.device).startswith("cuda")
        for told, lines in _estimates(recipe, settings, arguments.seeds, gpu=gpu):
            print(json.dumps(told) if arguments.json else "\n".join(lines))
        return
    run = cl.train(
        recipe,
        arguments.out,
        resume=arguments.resume,
        device=arguments.device,
        parallel=arguments.parallel,
        settings=settings,
        seeds=arguments.seeds,
    )
    if not is_first_process():
        return
    if run.kind == "emergence":
        from crosslens.run.trainings.emergence import summary, what_is_shared

        parts = [what_is_shared(run.folder), *summary(run.folder)]
        show(arguments, run.scores, parts, run.folder)
        return
    if run.kind == "controlled":
        from crosslens.report.folders.controlled_summary import summary as study_summary

        _show_study(arguments, run, study_summary(run.folder))
        return
    if run.kind == "monotrans":
        from crosslens.run.trainings.monotrans import summary as monotrans_summary

        _show_study(arguments, run, monotrans_summary(run.folder))
        return
    if run.kind == "clwe":
        from crosslens.run.trainings.clwe import summary as clwe_summary

        _show_study(arguments, run, clwe_summary(run.folder))
        return
    from crosslens.report.folders.training import load_training

    told = {"model": str(run.model), "report": str(run.report())}
    used = load_training(run.folder).subwords_used()
    if arguments.json:
        print(json.dumps({**told, **({"subwords": used} if used else {})}))
        return
    if len(used) > 1:
        print(format_table(_subwords(used)))
        print("Of the subwords of its vocabulary: used at least once in its training text; the")
        print("fewest that make 99 % of its tokens.")
    print(*(f"{name.title()}: {path}" for name, path in told.items()), sep="\n")


def _subwords(used: Mapping[str, Mapping[str, int]]) -> list[tuple[str, ...]]:
    names = {"vocabulary": "vocabulary", "used": "used", "cover_99": "for 99 %", "tokens": "tokens"}
    rows = [(code, *(f"{of[name]:,}" for name in names)) for code, of in used.items()]
    return [("subwords of", *names.values()), *rows]


def _show_study(arguments: argparse.Namespace, run: Any, parts: Any) -> None:
    """Tables and sentences, or a line of JSON for each score."""
    from crosslens.run.trainings.shared import FINE_TUNED

    runs, tuned = [run], run.kind in ("monotrans", "clwe")
    if tuned and (run.folder / FINE_TUNED / "scores.jsonl").is_file():
        runs.append(cl.Run(run.folder / FINE_TUNED))
    if arguments.json:
        print("\n".join(score.as_json() for one in runs for score in one.scores))
        return
    told = [part if isinstance(part, str) else format_table(part) for part in parts]
    for one in runs:
        told += [f"Scores: {one.folder / 'scores.jsonl'}", f"Report: {one.report()}"]
    print(*told, sep="\n")


def _estimates(
    recipe: str, settings: dict[str, Any], seeds: int | None, *, gpu: bool
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """What a training is, and what it comes to, part by part: as JSON, and in lines."""
    from crosslens.front.calls import training_recipes
    from crosslens.front.named_trainings import clwe_asked, fine_tuned_of
    from crosslens.models.training.estimate import estimate
    from crosslens.models.training.settings import describe, recipe_settings
    from crosslens.recipes import study_settings

    recipes, last = training_recipes(recipe, settings), fine_tuned_of(recipe, settings)
    for name, one in recipes.items():
        found = estimate(one)
        cpu = found.flops_per_token * found.tokens / found.here
        told = {
            "training": name,
            "parameters": found.parameters,
            "flops_per_token": found.flops_per_token,
            "tokens": found.tokens,
            "seconds": {"cpu": cpu, "h100": found.on_gpu},
            "recipe": recipe_settings(found.recipe),
        }
        head = [f"# {name}"] if len(recipes) > 1 else []
        yield told, [*head, describe(found.recipe), "", format_table(found.table), *found.lines]
    if (named := study_settings(recipe)) is not None:
        from crosslens.recipes.controlled import controlled_study
        from crosslens.run.trainings.controlled import expected_cost

        name, before, there = named
        study = controlled_study(name, {**before, **settings})
        cost = expected_cost(study, seeds or there or 3, gpu=gpu)
        yield {"in_all": cost}, ["", "# in all", cost]
    if (asked := clwe_asked(recipe, settings)) is not None:
        from crosslens.recipes.clwe import clwe

        lines = list(clwe(asked).lines)
        yield {"vectors": lines}, ["", "# vectors", *lines]
    if last is not None:
        from crosslens.recipes.fine_tuned import as_settings

        given = as_settings(last)
        lines = [f"{name} = {value!r}" for name, value in given.items()]
        yield {"fine_tuning": given}, ["", "# fine-tuning", *lines]


def _settings(texts: Sequence[str]) -> dict[str, Any]:
    """key=value, each key once: of two the first would be lost without a word."""
    settings: dict[str, Any] = {}
    for name, value in map(_setting, texts):
        if name in settings:
            remedy = "leave one out; several texts are separated by commas"
            refuse(name, "one value", f"{name}= twice", remedy)
        settings[name] = value
    return settings


def _setting(text: str) -> tuple[str, Any]:
    """key=value with the value in TOML's words, or a number as Python has it (.3, 1.); a bare word is
    a string."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        refuse(
            "settings",
            "key=value, such as steps=2000",
            repr(text),
            "put = between a name and its value",
        )
    if _BARE_POINT.fullmatch(value):
        return name, float(value)
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    # no TOML, more digits than Python reads, or brackets without end
    except (ValueError, RecursionError):
        return name, value
