"""A treebank's own tags (XPOS)."""

from crosslens.probes.tasks.task import Card, Task
from crosslens.probes.tasks.treebanks import (
    ADDRESS,
    CITATION,
    FILES,
    LICENCE,
    read_treebank,
    treebank_languages,
)

__all__ = ["TASK"]

TASK = Task(
    name="xpos",
    kind="tag",
    group="syntactic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=read_treebank,
    languages=treebank_languages,
    label="xpos",
    usual=(),
    card=Card(
        title="Part of speech, the treebank’s own tags",
        says="A linear classifier is trained on the vectors of words to say their tag (XPOS).",
        data=FILES,
        languages="any that has a treebank",
        chance="the most frequent tag of training",
        citation=CITATION,
        licence=LICENCE,
        address=ADDRESS,
    ),
)
