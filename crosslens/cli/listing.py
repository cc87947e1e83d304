"""The verbs ``list`` and ``doctor``: what there is to measure, and what of it is installed."""

import argparse
import json
import math
import os
import platform
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

from crosslens.cli.arguments import meant
from crosslens.cli.output import format_table
from crosslens.errors import quote, refuse
from crosslens.version import __version__

__all__ = ["KINDS", "doctor", "doctor_arguments", "list_all", "list_arguments"]

KINDS = ("tasks", "recipes", "transformations", "measures")
_OURS = ("test", "bench", "docs")  # extras of those who work on the library itself


def list_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens list`` takes."""
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)} (default: all of them)"
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder with the data sets: say in which languages each task is there",
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object, tasks with their whole cards"
    )


def list_all(arguments: argparse.Namespace) -> None:
    """Print tasks with their cards, recipes, transformations and measures."""
    from crosslens.derive.registry import TRANSFORMATIONS
    from crosslens.probes.tasks.catalogue import TASKS, task_names
    from crosslens.probes.tasks.data_folder import DataFolder
    from crosslens.recipes import RECIPES
    from crosslens.score import QUANTITIES

    tasks: dict[str, Any] = {
        name: {**task.record(), "address": task.card.address}
        for name, task in zip(task_names(), TASKS, strict=True)
    }
    if arguments.data is not None:
        data = DataFolder(_folder(arguments.data))
        for card, task in zip(tasks.values(), TASKS, strict=True):
            card["there_in"] = _there_in(task, data)
    measures = {
        name: {
            "label": one.label,
            "unit": one.unit,
            "low": one.low if math.isfinite(one.low) else None,
            "high": one.high if math.isfinite(one.high) else None,
            "higher_is_better": one.higher_is_better,
        }
        for name, one in QUANTITIES.items()
    }
    kinds = arguments.kinds or KINDS
    for kind in kinds:
        if kind not in KINDS:
            remedy = meant(kind, KINDS) or "choose among them"
            refuse("KIND", f"some of {', '.join(KINDS)}", quote(kind), remedy)
    transformations = {
        name: {"says": one.says, "setting": one.setting, "paper": one.paper}
        for name, one in TRANSFORMATIONS.items()
    }
    found = {
        "tasks": tasks,
        "recipes": RECIPES,
        "transformations": transformations,
        "measures": measures,
    }
    if arguments.json:
        print(json.dumps({kind: found[kind] for kind in kinds}, ensure_ascii=False))
        return
    shown = {
        "tasks": _tasks(tasks, TASKS),
        "recipes": (_entry(*one) for one in RECIPES.items()),
        "transformations": _transformations(transformations),
        "measures": _measures(measures),
    }
    print(
        "\n\n".join(
            "\n".join([textwrap.fill(_HEADS[kind], _width()), *shown[kind]]) for kind in kinds
        )
    )


def _folder(path: str) -> str:
    if not path.startswith("hf:") and not os.path.isdir(path):
        refuse("--data", "a folder", f"{quote(path)}, which is none", "check the path")
    return path


def _there_in(task: Any, data: Any) -> list[str]:
    """In which languages a folder has items of a task; of one whose labels are languages, these."""
    from crosslens.languages import SEVERAL
    from crosslens.probes.tasks.data_folder import Absent
    from crosslens.probes.tasks.language_files import languages_of

    languages = list(task.languages(data))
    if languages != [SEVERAL]:
        return sorted(languages)
    try:
        return list(languages_of({*map(str, task.read(data, SEVERAL).texts.labels)}))
    except Absent:
        return []


_HEADS = {
    "tasks": "Tasks (crosslens probe or transfer --tasks NAME,NAME --data DIR; crosslens probe --battery GROUP)",
    "recipes": "Recipes",
    "transformations": "Transformations (crosslens derive --by NAME, NAME:SETTING or NAME+NAME)",
    "measures": "Measures (quantity in scores.jsonl)",
}


def _tasks(cards: dict[str, Any], tasks: Iterable[Any]) -> Iterator[str]:
    for (name, card), task in zip(cards.items(), tasks, strict=True):
        more = [
            card["says"],
            (
                f"Languages: {card['languages']}. Data: {card['data']} ({card['licence']}). "
                f"Chance: {card['chance']}."
            ),
        ]
        if card["address"]:
            more.append(f"To be had from {card['address']}")
        if "there_in" in card:
            more.append(f"In this folder: {', '.join(card['there_in']) or 'none'}.")
        yield _entry(name, f"{card['title']}; {_asked_for(task)}", *more)


def _asked_for(task: Any) -> str:
    from crosslens.probes.tasks.task import TUNED

    if task.kind in TUNED:
        return "crosslens transfer alone"
    return f"battery {task.group}" if task.in_group else "by its name alone"


def _transformations(entries: dict[str, dict[str, str]]) -> Iterator[str]:
    for name, one in entries.items():
        setting = f"; {name}:SETTING, {one['setting']}" if one["setting"] else ""
        paper = f" ({one['paper']})" if one["paper"] else ""
        yield _entry(name, f"{one['says']}{setting}{paper}")


def _measures(measures: dict[str, Any]) -> Iterator[str]:
    for name, one in measures.items():
        low, high = (
            f"{sign}∞" if end is None else f"{end:g}"
            for sign, end in (("-", one["low"]), ("", one["high"]))
        )
        better = {True: ", more is better", False: ", less is better", None: ""}[
            one["higher_is_better"]
        ]
        yield _entry(name, f"{one['label']}: {one['unit']}, {low} to {high}{better}")


def _width() -> int:
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def _entry(name: str, title: str, *more: str) -> str:
    """A name with what it is, no wider than the terminal."""
    wrap = textwrap.TextWrapper(
        _width(), subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
    )
    lines = wrap.wrap(f"  {name}: {title}")
    wrap.initial_indent = "      "
    return "\n".join([*lines, *(line for text in more for line in wrap.wrap(text))])


def doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens doctor`` takes: nothing of its own."""


def doctor(arguments: argparse.Namespace) -> None:
    """Say what is there, what is missing, and how to get it; imports nothing that may be broken."""
    rows: list[tuple[str, ...]] = [
        ("what", "found"),
        ("crosslens", __version__),
        ("python", platform.python_version()),
    ]
    rows.append(("platform", platform.platform()))
    rows.append(
        (
            "threads",
            os.environ.get(
                "OMP_NUM_THREADS",
                f"{os.cpu_count()} (all cores; OMP_NUM_THREADS sets another number)",
            ),
        )
    )
    needed = _needed()
    for name in needed.pop("", []):
        rows.append((name, _version(name) or "missing; pip install -c constraints.txt . brings it"))
    for extra, names in needed.items():
        absent = [name for name in names if _version(name) is None]
        there = ", ".join(f"{name} {_version(name)}" for name in names if name not in absent)
        remedy = (
            f"absent ({', '.join(absent)}); pip install -c constraints.txt '.[{extra}]' brings it"
        )
        rows.append((f"extra {extra}", remedy if absent else there))
    if _version("torch"):
        import torch

        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        rows.append(
            (
                "GPUs",
                ", ".join(names) + " (train and extract use them: --device)"
                if names
                else "none (none is needed)",
            )
        )
    print(format_table(rows))


def _needed() -> dict[str, list[str]]:
    """Extra -> the packages that it brings, as the installed crosslens declares them; "" for those
    that are always needed."""
    found: dict[str, list[str]] = {"": []}
    for line in metadata.requires("crosslens") or []:
        name, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        key = extra[1] if extra else ""
        if name is not None and key not in _OURS:
            found.setdefault(key, []).append(name[0])
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
