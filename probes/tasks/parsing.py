"""Dependency parsing: the head of each word, and the relation to it."""

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
    name="parsing",
    kind="tree",
    group="syntactic",
    metrics=("las", "uas"),
    read=read_treebank,
    languages=treebank_languages,
    label="coarse_deprel",
    usual=(),
    card=Card(
        title="Dependency parsing",
        says=(
            "A deep biaffine parser is trained on the encoder to say the head of each word and the "
            "relation to it, without subtypes (nsubj:pass is nsubj); the arcs are made a tree."
        ),
        data=FILES,
        languages="any that has a treebank",
        chance="the neighbour on that side which is more often the head in training",
        citation=CITATION,
        licence=LICENCE,
        address=ADDRESS,
    ),
)
