"""XL-WiC: does a word mean the same in two sentences? In 13 languages, to be trained in one and
tested in others."""

from collections.abc import Sequence
from pathlib import Path

from crosslens.languages import code_of, same_language
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import WordPairs
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.wic import Wic, read_wic_spans

__all__ = ["TASK"]

_FOLDER = "xlwic_datasets"
_FILES = f"{_FOLDER}/xlwic_{{wn,wikt}}/{{name}}_{{language}}/{{language}}_{{train,valid,test_data,test_gold}}.txt"
_ENGLISH = f"{_FOLDER}/wic_english"  # as WiC, but for its test


def _tests(data: DataFolder) -> list[Path]:
    """The file of test items of each language."""
    return data.glob(f"{_FOLDER}/xlwic_*/*/*_test_data.txt")


def _prefix(path: Path) -> str:
    """What the names of a language's files begin with: "de"."""
    return path.name.partition("_")[0]


def _languages(data: DataFolder) -> Sequence[str]:
    english = ["eng"] if data.path(f"{_ENGLISH}/train_en.txt") else []
    return sorted({*english, *(code_of(_prefix(path)) for path in _tests(data))})


def _read(data: DataFolder, language: str) -> WordPairs:
    if same_language(language, "eng"):
        train, valid = data.find(f"{_ENGLISH}/train_en.txt", f"{_ENGLISH}/valid_en.txt")
        return WordPairs(
            {"train": read_wic_spans(train, "eng"), "test": read_wic_spans(valid, "eng")}
        )
    found = [path for path in _tests(data) if same_language(_prefix(path), language)]
    if not found:
        raise Absent(f"no {_FOLDER}/xlwic_*/*/*_test_data.txt of {language} in the data folder")
    code, folder = code_of(_prefix(found[0])), found[0].parent.relative_to(data.folder or "")
    names = f"{folder}/{_prefix(found[0])}"
    items, gold = data.find(f"{names}_test_data.txt", f"{names}_test_gold.txt")
    splits: dict[str, Wic] = {}
    for part, name in (("train", f"{names}_train.txt"), ("dev", f"{names}_valid.txt")):
        if data.path(name) is not None:
            splits[part] = read_wic_spans(data.find(name)[0], code)
    return WordPairs({**splits, "test": read_wic_spans(items, code, gold)})


TASK = Task(
    name="xlwic",
    kind="classify_pair",
    group="semantic",
    metrics=("accuracy",),
    read=_read,
    languages=_languages,
    usual=(),
    card=Card(
        title="Word in context, other languages (XL-WiC)",
        says="Two sentences share a word: a classifier on the vectors of one layer, trained in one "
        "language, says whether it has the same meaning in both, in this language and in others "
        "(Raganato et al. 2020).",
        data=f"{_FILES} and {_ENGLISH}/{{train,valid}}_en.txt",
        languages="bul, dan, deu, eng, est, fas, fra, hrv, ita, jpn, kor, nld, zho; deu, eng, fra "
        "and ita have items to train on. Of English the validation items are tested on",
        chance="0.5",
        citation="""@inproceedings{raganato2020xlwic,
  author = {Raganato, Alessandro and Pasini, Tommaso and Camacho-Collados, Jose and Pilehvar, Mohammad Taher},
  title = {{XL-WiC}: A Multilingual Benchmark for Evaluating Semantic Contextualization}, booktitle = {Proceedings of EMNLP}, year = {2020}
}""",
        licence="CC BY-NC 4.0",
        address="https://pilehvar.github.io/xlwic",
    ),
)
