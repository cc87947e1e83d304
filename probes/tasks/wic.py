"""Word-in-Context: does a word mean the same in two sentences?"""

from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import WordPairs
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.wic import read_wic

__all__ = ["TASK"]

_SPLITS = ("train", "dev", "test")
_FILES = tuple(f"wic/{split}.{kind}.txt" for split in _SPLITS for kind in ("data", "gold"))


def _read(data: DataFolder, language: str) -> WordPairs:
    paths = data.find(*_FILES)
    return WordPairs(
        {split: read_wic(paths[2 * i], paths[2 * i + 1]) for i, split in enumerate(_SPLITS)}
    )


TASK = Task(
    name="wic",
    kind="classify_pair",
    group="semantic",
    metrics=("accuracy",),
    read=_read,
    languages=lambda data: ("eng",) if all(map(data.path, _FILES)) else (),
    card=Card(
        title="Word in context (WiC)",
        says="Two sentences share a word: a classifier on the vectors of one layer says whether it "
        "has the same meaning in both "
        "(Pilehvar & Camacho-Collados 2019).",
        data="wic/{train,dev,test}.{data,gold}.txt",
        languages="English",
        chance="0.5",
        citation="""@inproceedings{pilehvar2019wic,
  author = {Pilehvar, Mohammad Taher and Camacho-Collados, Jose},
  title = {{WiC}: the Word-in-Context Dataset for Evaluating Context-Sensitive Meaning Representations},
  booktitle = {Proceedings of NAACL-HLT}, year = {2019}
}""",
        licence="CC BY-NC 4.0",
    ),
)
