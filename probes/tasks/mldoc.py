"""MLDoc: what a news story is about, in eight languages."""

from crosslens.languages import code_of
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import Texts
from crosslens.probes.tasks.language_files import find_files, languages_of, name_splits
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.labelled_text import LabelledText, read_labelled_text

__all__ = ["TASK"]

_PATTERNS = ("mldoc/{language}.{split}", "mldoc/{language}/{split}.txt")
_SPLITS = {"train.1000": "train", "train": "train", "dev": "dev", "test": "test"}
_CALLED = {
    "chinese": "zho",
    "english": "eng",
    "french": "fra",
    "german": "deu",
    "italian": "ita",
    "japanese": "jpn",
    "russian": "rus",
    "spanish": "spa",
}


def _read(data: DataFolder, language: str) -> Texts:
    name, paths = name_splits(find_files(data, _PATTERNS, _SPLITS, _CALLED), language, _PATTERNS)
    data.note(paths.values())
    parts = {
        split: read_labelled_text(paths[split])
        for split in ("train", "dev", "test")
        if split in paths
    }
    joined = LabelledText(
        [label for one in parts.values() for label in one.labels],
        [text for one in parts.values() for text in one.texts],
        [place for one in parts.values() for place in one.places],
        f"mldoc/{name}",
        [split for split, one in parts.items() for _ in range(len(one))],
    )
    return Texts(joined, code_of(name))


TASK = Task(
    name="mldoc",
    kind="classify",
    group="semantic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=_read,
    languages=lambda data: languages_of(find_files(data, _PATTERNS, _SPLITS, _CALLED)),
    usual=(),
    card=Card(
        title="Document classification (MLDoc)",
        says="What is a news story about: companies, economics, government or markets?",
        data="mldoc/{language}.{train.1000,dev,test}, lines of label TAB text",
        languages="8: Chinese, English, French, German, Italian, Japanese, Russian, Spanish",
        chance="0.25",
        citation="""@inproceedings{schwenk2018corpus,
  author = {Schwenk, Holger and Li, Xian},
  title = {A Corpus for Multilingual Document Classification in Eight Languages}, booktitle = {Proceedings of LREC}, year = {2018}
}""",
        licence="that of Reuters' corpora RCV1 and RCV2",
    ),
)
