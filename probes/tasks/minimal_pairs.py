"""Marvin & Linzen's minimal pairs of agreement and reflexives, scored as Goldberg (2019) does: one
mask for the words that differ."""

from crosslens.probes.methods.marvin_linzen import GROUPS, marvin_linzen_pairs
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import PairsOfSentences
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.minimal_pairs import read_minimal_pairs

__all__ = ["TASK"]

_FILE = "marvin_linzen/pairs.tsv"


def _read(data: DataFolder, language: str) -> PairsOfSentences:
    if (path := data.path(_FILE)) is None:
        return PairsOfSentences(
            marvin_linzen_pairs(),
            "generated from the grammar's templates",
            "single_mask",
            GROUPS,
            "eng",
        )
    data.note([path])
    return PairsOfSentences(read_minimal_pairs(path), _FILE, "single_mask", GROUPS, "eng")


TASK = Task(
    name="minimal_pairs",
    kind="minimal_pairs",
    group="syntactic",
    metrics=("accuracy", "macro_accuracy"),
    read=_read,
    languages=lambda data: ("eng",),
    card=Card(
        title="Minimal pairs",
        says="Two sentences differ in their grammar alone: the model is right when it finds the "
        "grammatical one more probable. Nothing "
        "is trained; chance is 0.5.",
        data=f"{_FILE}; without it the pairs are generated",
        languages="English",
        chance="0.5",
        citation="""@inproceedings{marvin2018targeted,
  author = {Marvin, Rebecca and Linzen, Tal},
  title = {Targeted Syntactic Evaluation of Language Models}, booktitle = {Proceedings of EMNLP}, year = {2018}
}
@misc{goldberg2019assessing,
  author = {Goldberg, Yoav}, title = {Assessing {BERT}'s Syntactic Abilities}, howpublished = {arXiv:1901.05287}, year = {2019}
}""",
        licence="MIT",
        address="https://github.com/BeckyMarvin/LM_syneval",
    ),
)
