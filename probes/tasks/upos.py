"""Parts of speech that all languages share (UPOS)."""

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
    name="upos",
    kind="tag",
    group="syntactic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=read_treebank,
    languages=treebank_languages,
    label="upos",
    card=Card(
        title="Part of speech",
        says=(
            "A linear classifier is trained on the vectors of words to say their part of speech "
            "(UPOS)."
        ),
        data=FILES,
        languages="any that has a treebank",
        chance="the most frequent tag of training",
        citation=CITATION,
        licence=LICENCE,
        address=ADDRESS,
    ),
)
