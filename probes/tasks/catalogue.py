"""All tasks: a line for each, in the order in which they are measured and shown."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from crosslens.errors import check_choice, refuse
from crosslens.probes.tasks.task import GROUPS, Task

__all__ = ["TASKS", "cards", "choose_tasks", "find_task", "task_names"]

_LISTED = (  # module, and the task's name in it
    "wic.TASK",
    "xlwic.TASK",
    "scws.TASK",
    "topic.TASK",
    "mldoc.TASK",
    "documents.TASK",
    "xnli.TASK",
    "paws_x.TASK",
    "xquad.TASK",
    "mlqa.TASK",
    "squad.TASK",
    "minimal_pairs.TASK",
    "blimp.TASK",
    "multiblimp.TASK",
    "upos.TASK",
    "xpos.TASK",
    "deprel.TASK",
    "ner.TASK",
    "parsing.TASK",
    "feature.TASK",
    "structural.DISTANCE",
    "structural.DEPTH",
    "dependency_arcs.TASK",
    "language_id.TASK",
    "language_id.PAPER",
)


def _load(entry: str) -> Task:
    module, name = entry.split(".")
    task = getattr(import_module(f"crosslens.probes.tasks.{module}"), name)
    assert isinstance(task, Task), entry
    return task


TASKS = tuple(map(_load, _LISTED))
"""Every task there is."""


def find_task(name: str) -> Task | None:
    """The task of this name, or None.

    >>> find_task("feature_Tense").card.title, find_task("tense") is None
    ('Feature Tense', True)
    """
    return next((found for task in TASKS if (found := task.called(name)) is not None), None)


def task_names() -> tuple[str, ...]:
    """What tasks are called; of a family of names NAME stands for what follows.

    >>> task_names()[-2:]
    ('language_id', 'language_id_paper')
    """
    return tuple(f"{task.name}NAME" if task.name.endswith("_") else task.name for task in TASKS)


def choose_tasks(group: str | None, only: Sequence[str] = ()) -> tuple[str, ...]:
    """The tasks that a group is measured with, or those that are named.

    Parameters
    ----------
    group: one of :data:`crosslens.probes.tasks.task.GROUPS`, "all", or None for tasks of any group,
        which are then named.

    Raises
    ------
    InputError: no such group, or a task that it has not.

    >>> choose_tasks("semantic"), choose_tasks(None, ["wic", "feature_Tense"])
    (('wic', 'scws', 'topic'), ('wic', 'feature_Tense'))
    """
    check_choice(group, "--battery", (*GROUPS, "all", None))
    there = [task for task in TASKS if group in (task.group, "all", None)]
    for name in only:
        if not any(task.called(name) for task in there):
            of = "tasks" if group in (None, "all") else f"tasks of the battery {group}"
            names = ", ".join(
                name for name, task in zip(task_names(), TASKS, strict=True) if task in there
            )
            refuse("--tasks", f"{of} ({names})", repr(name), "choose among these")
    return tuple(dict.fromkeys(only)) or tuple(name for task in there for name in task.in_group)


def cards() -> dict[str, dict[str, Any]]:
    """Name of each task -> its card as plain data: title, sentence, data, languages, chance,
    citation, licence, kind, group, metrics.

    >>> cards()["wic"]["languages"], cards()["feature_NAME"]["kind"]
    ('English', 'tag')
    """
    return {name: task.record() for name, task in zip(task_names(), TASKS, strict=True)}
