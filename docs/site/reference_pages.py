"""Pages that are made from the code: the API reference, and one page for the card of each task.
Needs no Sphinx."""

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from crosslens.probes.tasks.task import TUNED

__all__ = ["home", "modules", "reference_pages", "task_pages", "write_pages"]

_LONG = 300  # characters of a constant's value that are shown whole


def modules() -> list[str]:
    """Every module of the installed package by its dotted name, sorted."""
    package = importlib.import_module("crosslens")
    return sorted(
        [
            "crosslens",
            *(found.name for found in pkgutil.walk_packages(package.__path__, "crosslens.")),
        ]
    )


def home(value: Any) -> str | None:
    """Where a public class or function is written, by its dotted name; None for anything else."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return None
    module, name = value.__module__, value.__qualname__
    public = getattr(sys.modules.get(module), "__all__", ())
    return (
        f"{module}.{name}"
        if module.startswith("crosslens") and name.partition(".")[0] in public
        else None
    )


def reference_pages(names: Iterable[str]) -> dict[str, str]:
    """Page name -> reStructuredText: one for each module; those of packages list what lies in
    them."""
    names = sorted(names)
    return {
        name: _page(name, [other for other in names if other.rpartition(".")[0] == name])
        for name in names
    }


def _page(name: str, children: list[str]) -> str:
    module = importlib.import_module(name)
    values = {exported: getattr(module, exported) for exported in getattr(module, "__all__", [])}
    here = [
        key
        for key, value in values.items()
        if home(value) == f"{name}.{getattr(value, '__qualname__', '')}"
    ]
    here.sort(key=lambda key: inspect.getsourcelines(values[key])[1])
    title = name.replace("_", r"\_")
    lines = [title, "=" * len(title), "", f".. automodule:: {name}", "   :no-members:", ""]
    lines += _table(
        {key: value for key, value in values.items() if key not in here and home(value)}
    )
    lines += [
        line
        for key, value in values.items()
        if home(value) is None
        for line in _constant(module, key, value)
    ]
    for key in here:
        kind = (
            "exception"
            if inspect.isclass(values[key]) and issubclass(values[key], BaseException)
            else None
        )
        kind = kind or ("class" if inspect.isclass(values[key]) else "function")
        lines += [
            f".. auto{kind}:: {name}.{key}",
            *(["   :members:", "   :inherited-members:"] if kind != "function" else []),
            "",
        ]
    if children:
        listed = [f"   {child.removeprefix(name + '.')} <{child}>" for child in children]
        lines += [".. toctree::", "   :caption: Modules", "   :maxdepth: 1", "", *listed, ""]
    return "\n".join(lines)


def _table(values: dict[str, Any]) -> list[str]:
    """What a package passes on: each name, linked with where it is written, and its first
    sentence."""
    if not values:
        return []
    lines = [".. list-table::", "   :class: names", "   :widths: 35 65", ""]
    for key, value in values.items():
        role = "class" if inspect.isclass(value) else "func"
        said = (
            " ".join(inspect.getdoc(value).split("\n\n")[0].split())
            if inspect.getdoc(value)
            else ""
        )
        lines += [f"   * - :py:{role}:`{key} <{home(value)}>`", f"     - {said}"]
    return [*lines, ""]


def _constant(module: ModuleType, key: str, value: Any) -> list[str]:
    """A constant: what is said of it, and its value, or the names in it where it is a long
    table."""
    if isinstance(value, ModuleType):
        return []
    told = f"``{value!r}``"
    if len(told) > _LONG:
        many = isinstance(value, Collection) and not isinstance(value, (str, bytes))
        names = [f"``{name}``" for name in value if isinstance(name, str)] if many else []
        told = (
            f"{len(value):,} entries{': ' if names else ''}{', '.join(names)}"
            if many
            else f"``{type(value).__name__}``"
        )
    return [
        f".. py:data:: {key}",
        "",
        *(f"   {line}" for line in (*_said(module, key).split("\n"), "", told)),
        "",
    ]


def _said(module: ModuleType, key: str) -> str:
    """The string below an assignment, which Python itself forgets."""
    body = ast.parse(inspect.getsource(module)).body
    for before, after in pairwise(body):
        target = (
            before.targets[0] if isinstance(before, ast.Assign) else getattr(before, "target", None)
        )
        if (
            isinstance(target, ast.Name)
            and target.id == key
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            return inspect.cleandoc(str(after.value.value))
    return ""


def task_pages(cards: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Page name -> reStructuredText: one for each card, and ``index`` with all of them by group.

    A card has a title and a sentence (``says``), and may have anything else as text or a list of
    texts, which becomes a row.
    """
    groups: dict[str, list[str]] = {}
    for name, card in cards.items():
        groups.setdefault(str(card.get("group") or "other"), []).append(name)
    lines = [
        "Tasks",
        "=====",
        "",
        "What encoders can be asked. Each page is made from the card that the task carries.",
        "",
    ]
    for group, names in groups.items():
        lines += [
            group.capitalize(),
            "-" * len(group),
            "",
            ".. toctree::",
            "   :hidden:",
            "",
            *(f"   {name}" for name in names),
            "",
        ]
        lines += [".. list-table::", "   :class: names", "   :widths: 30 70", ""]
        for name in names:
            lines += [f"   * - :doc:`{name}`", f"     - {_text(cards[name].get('says', ''))}"]
        lines.append("")
    return {
        "index": "\n".join(lines),
        **{name: _task_page(name, card) for name, card in cards.items()},
    }


def _task_page(name: str, card: Mapping[str, Any]) -> str:
    title = str(card.get("title") or name)
    lines = [
        title,
        "=" * len(title),
        "",
        _text(card.get("says", "")),
        "",
        ".. list-table::",
        "   :widths: 20 80",
        "",
    ]
    for key, value in {"name": name, **card}.items():
        if value and key not in ("title", "says", "citation"):
            told = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            if key == "data":
                shown = re.sub(r"\S*/\S*[^\s,;:)]", lambda path: f"``{path[0]}``", told)
            else:
                shown = f"``{told}``" if key in ("name", "kind") else _text(told)
            lines += [f"   * - {key}", f"     - {shown}"]
    if citation := str(card.get("citation") or ""):
        lines += [
            "",
            "Cite",
            "----",
            "",
            ".. code-block:: bibtex",
            "",
            *(f"   {line}" for line in citation.strip().splitlines()),
        ]
    shown, verb, languages = name.replace("NAME", "Number"), "probe", ""
    if card.get("kind") in TUNED:
        test = "eng" if card.get("languages") == "English" else "eng,deu"
        verb, languages = "transfer", f"--train eng --test {test} "
    command = (
        f"crosslens {verb} --encoder xlm-roberta-base --tasks {shown} {languages}"
        f"--data data --out runs/{shown}"
    )
    return "\n".join(
        [
            *lines,
            "",
            "Measure it",
            "----------",
            "",
            ".. code-block:: bash",
            "",
            f"   {command}",
            "",
        ]
    )


def _text(told: Any) -> str:
    """Plain text in which nothing is markup."""
    return re.sub(r"[*|`_\\]", r"\\\g<0>", " ".join(str(told).split()))


def write_pages(folder: Path, pages: dict[str, str]) -> None:
    """Write pages as .rst files into a folder that is this program's own; one that has not changed
    keeps its time, and the rest goes."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
