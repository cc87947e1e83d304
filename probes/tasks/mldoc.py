"""MLDoc: what a news story is about, in eight languages."""

import ast
import dataclasses
import re

from crosslens.errors import refuse
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import Texts
from crosslens.probes.tasks.labelled_files import labelled_reader, languages_of_labelled
from crosslens.probes.tasks.task import Card, Task
from crosslens.progress import say

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


_READ = labelled_reader("mldoc", _PATTERNS, _SPLITS, _CALLED)
_BYTES = re.compile(r"b(['\"]).*\1", re.DOTALL)


def _read(data: DataFolder, language: str) -> Texts:
    """MLDoc's own program, run by Python 3, writes bytes as Python shows them: b'T\\xc3\\xa9l\\xc3\\xa9com'."""
    found = _READ(data, language)
    shown = [bool(_BYTES.fullmatch(text)) for text in found.texts.texts]
    if not any(shown):
        return found
    if not all(shown):
        place = found.texts.places[shown.index(False)]
        refuse(place, "bytes (b'...'), as other texts have", "none", "write all in one way")
    texts = [
        _decoded(text, place)
        for text, place in zip(found.texts.texts, found.texts.places, strict=True)
    ]
    say(f"mldoc, {language}: written as bytes of Python (b'...'), and decoded")
    return dataclasses.replace(found, texts=dataclasses.replace(found.texts, texts=texts))


def _decoded(text: str, place: str) -> str:
    try:
        return bytes(ast.literal_eval(text)).decode("utf-8")
    except (SyntaxError, ValueError) as error:
        refuse(place, "bytes of UTF-8 (b'...')", str(error), "repair the line")


TASK = Task(
    name="mldoc",
    kind="classify",
    group="semantic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=_read,
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
