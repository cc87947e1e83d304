"""The relation of a word to its head, without subtypes."""

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
    name="deprel",
    kind="tag",
    group="syntactic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=read_treebank,
    languages=treebank_languages,
    label="coarse_deprel",
    card=Card(
        title="Dependency relation",
        says=(
            "A linear classifier is trained on the vectors of words to say their relation to "
            "their head."
        ),
        data=FILES,
        languages="any that has a treebank",
        chance="the most frequent relation of training",
        citation=CITATION,
        licence=LICENCE,
        address=ADDRESS,
    ),
)
