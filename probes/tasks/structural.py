"""Structural probes: distances between words, and depths of words, in the syntax tree."""

from crosslens.probes.tasks.task import Card, Task
from crosslens.probes.tasks.treebanks import (
    ADDRESS,
    FILES,
    LICENCE,
    read_treebank,
    treebank_languages,
)
from crosslens.probes.tasks.treebanks import CITATION as TREEBANKS

__all__ = ["DEPTH", "DISTANCE"]

_CITATION = f"""@inproceedings{{hewitt2019structural,
  author = {{Hewitt, John and Manning, Christopher D.}},
  title = {{A Structural Probe for Finding Syntax in Word Representations}}, booktitle = {{Proceedings of NAACL-HLT}}, year = {{2019}}
}}
{TREEBANKS}"""


def _task(shape: str, title: str, says: str, *metrics: str) -> Task:
    card = Card(
        title=title,
        says=f"A linear map is trained so that {says} in the syntax tree (Hewitt & Manning 2019).",
        data=FILES,
        languages="any that has a treebank",
        chance="that of word order alone, which is measured beside it",
        citation=_CITATION,
        licence=LICENCE,
        address=ADDRESS,
    )
    return Task(
        name=f"structural_{shape}",
        kind="parse",
        group="syntactic",
        metrics=metrics,
        read=read_treebank,
        languages=treebank_languages,
        shape=shape,
        card=card,
    )


DISTANCE = _task(
    "distance",
    "Tree distance",
    "squared distances of word vectors are distances",
    "uuas",
    "distance_spearman",
)
DEPTH = _task(
    "depth",
    "Tree depth",
    "squared lengths of word vectors are depths",
    "root_accuracy",
    "depth_spearman",
)
