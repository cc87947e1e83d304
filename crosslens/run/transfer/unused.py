"""Options that none of a run's tasks has a use for."""

from collections.abc import Mapping

from crosslens.errors import refuse
from crosslens.run.transfer.data import TaskData
from crosslens.run.transfer.resegmented import SEGMENTED
from crosslens.run.transfer.settings import Transfer

__all__ = ["check_used"]

_WORDS = ("tag", "tree")
_USES = {  # field -> the kinds of tasks that it is for, in words
    "crf": (("tag",), "the tags of words"),
    "gold_pos": (("tree",), "trees"),
    "parser": (("tree",), "trees"),
    "words_apart": (_WORDS, "the words of treebanks"),
    "pool": (("classify", "pair"), "texts"),
}


def check_used(transfer: Transfer, tasks: Mapping[str, TaskData]) -> None:
    """Refuse what was asked for, and no task of the run uses. What a preset says is not asked for.

    Raises
    ------
    InputError: such an option.
    """
    if transfer.segment is not None and not any("segment" in one.facts for one in tasks.values()):
        expected = f"names in {SEGMENTED[transfer.segment]}, which {transfer.segment} is for"
        refuse("--segment", expected, "none", "leave it out")
    for field, (kinds, what) in _USES.items():
        asked = getattr(transfer, field) != getattr(Transfer, field)
        if asked and not any(one.task.kind in kinds for one in tasks.values()):
            option, expected = f"--{field.replace('_', '-')}", f"a task on {what}, which it is for"
            refuse(option, expected, ", ".join(tasks), "leave it out")
