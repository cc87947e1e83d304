"""MLDoc: what a news story is about, in eight languages."""

from crosslens.probes.tasks.labelled_files import labelled_reader, languages_of_labelled
from crosslens.probes.tasks.task import Card, Task

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


TASK = Task(
    name="mldoc",
    kind="classify",
    group="semantic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=labelled_reader("mldoc", _PATTERNS, _SPLITS, _CALLED),
    languages=languages_of_labelled(_PATTERNS, _SPLITS, _CALLED),
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
        address="https://github.com/facebookresearch/MLDoc, with the corpora of https://trec.nist.gov/data/reuters/reuters.html",
    ),
)
