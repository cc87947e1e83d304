"""Morphological features, each a task of its own: ``feature_Number``, ``feature_Tense``, whatever a
treebank has."""

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
    name="feature_",
    kind="tag",
    group="syntactic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=read_treebank,
    languages=treebank_languages,
    label="feature:",
    usual=("feature_Number",),
    card=Card(
        title="Feature",
        says=(
            "A linear classifier is trained on the vectors of words to say the value of this "
            "feature."
        ),
        data=FILES,
        languages="any that has a treebank",
        chance="the most frequent value of training",
        citation=CITATION,
        licence=LICENCE,
        address=ADDRESS,
    ),
)
