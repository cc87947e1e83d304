"""Word-in-Context: does a word mean the same in two sentences?"""

from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import WordPairs
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.hub import HubSet, Records
from crosslens.readers.wic import Wic, WicItem, read_wic

__all__ = ["TASK"]

_SPLITS = ("train", "dev", "test")
_HUB = HubSet(
    name="aps/super_glue",
    columns=("word", "sentence1", "sentence2", "start1", "end1", "start2", "end2", "label"),
    revision="refs/convert/parquet",
    folders=True,
)
"""SuperGLUE's WiC, in the hub's own conversion to Parquet: label 1 is the same meaning. Of its test
split no answers are published."""
_FILES = tuple(f"wic/{split}.{kind}.txt" for split in _SPLITS for kind in ("data", "gold"))
_OF_HUB = {"train": "train", "test": "validation"}


def _read(data: DataFolder, language: str) -> WordPairs:
    if data.hub is not None:
        found = {part: data.records(_HUB, "wic", split) for part, split in _OF_HUB.items()}
        return WordPairs({part: _items(some) for part, some in found.items()})
    paths = data.find(*_files(data))
    return WordPairs(
        {split: read_wic(paths[2 * i], paths[2 * i + 1]) for i, split in enumerate(_SPLITS)}
    )


def _files(data: DataFolder) -> tuple[str, ...]:
    """The files in a folder for each split, as published, or all in one."""
    folders = tuple(name.replace("wic/", f"wic/{name[4:].split('.')[0]}/") for name in _FILES)
    return folders if data.path(folders[0]) else _FILES


def _items(some: Records) -> Wic:
    """SuperGLUE counts characters, the end excluded; it does not tell parts of speech."""
    words = zip(*(some.texts(name) for name in _HUB.columns[:3]), some.rows, strict=True)
    items = [
        WicItem(
            word,
            "",
            (first, second),
            ((row["start1"], row["end1"]), (row["start2"], row["end2"])),
            {0: False, 1: True}.get(row["label"]),
        )
        for word, first, second, row in words
    ]
    return Wic(items, "eng", some.place)


TASK = Task(
    name="wic",
    kind="classify_pair",
    group="semantic",
    metrics=("accuracy",),
    read=_read,
    languages=lambda data: ("eng",) if data.has(_HUB) or all(map(data.path, _files(data))) else (),
    card=Card(
        title="Word in context (WiC)",
        says="Two sentences share a word: a classifier on the vectors of one layer says whether it "
        "has the same meaning in both "
        "(Pilehvar & Camacho-Collados 2019).",
        data="wic/{train,dev,test}.{data,gold}.txt, or aps/super_glue on the hub, whose validation "
        "split is tested on: its test split has no answers",
        languages="English",
        chance="0.5",
        citation="""@inproceedings{pilehvar2019wic,
  author = {Pilehvar, Mohammad Taher and Camacho-Collados, Jose},
  title = {{WiC}: the Word-in-Context Dataset for Evaluating Context-Sensitive Meaning Representations},
  booktitle = {Proceedings of NAACL-HLT}, year = {2019}
}""",
        licence="CC BY-NC 4.0",
        address="https://pilehvar.github.io/wic",
    ),
)
