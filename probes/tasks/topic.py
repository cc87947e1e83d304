"""What a sentence is about: SIB-200, the same sentences in every language."""

from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import Texts
from crosslens.probes.tasks.language_files import language_name, languages_of, names_for, others
from crosslens.probes.tasks.sib200 import FILES, names_there, topics_of
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.hub import HubSet
from crosslens.readers.labelled_text import LabelledText

__all__ = ["TASK"]

_HUB = HubSet(name="Davlan/sib200", columns=("index_id", "category", "text"))
_SPLITS = {"train": "train", "validation": "dev", "test": "test"}  # as the hub calls them


def _names(data: DataFolder) -> list[str]:
    """Languages as the table, or the hub, writes them: eng_Latn."""
    if data.hub is not None:
        return sorted(data.configurations(_HUB))
    return names_there(data)


def _read(data: DataFolder, language: str) -> Texts:
    there = _names(data)
    if not there and data.hub is None:
        raise Absent("no sib200/*/train.tsv and no sib200/sib200.tsv (nor .gz) in the data folder")
    named = names_for(language, there)
    if not named:
        where = f"{'sib200' if data.hub is None else _HUB.name}{others(language, there)}"
        raise Absent(f"no sentences of {language} in {where}")
    name = named[0]
    texts = topics_of(data, name) if data.hub is None else _of_hub(data, name)
    return Texts(texts, language_name(name, there))


def _of_hub(data: DataFolder, name: str) -> LabelledText:
    """The same columns as those of the table, a split at a time."""
    splits = {part: data.records(_HUB, name, split) for split, part in _SPLITS.items()}
    return LabelledText(
        [label for some in splits.values() for label in some.texts("category")],
        [text for some in splits.values() for text in some.texts("text")],
        [place for some in splits.values() for place in some.places],
        _HUB.name,
        [part for part, some in splits.items() for _ in range(len(some))],
        [str(row["index_id"]) for some in splits.values() for row in some.rows],
    )


TASK = Task(
    name="topic",
    kind="classify",
    group="semantic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=_read,
    languages=lambda data: languages_of(_names(data)),
    card=Card(
        title="Topic",
        says=(
            "A linear classifier is trained on the vectors of one layer to say what a sentence is "
            "about."
        ),
        data=f"{FILES}, or {_HUB.name} on the hub",
        languages="those of the table, up to 205",
        chance="the most frequent topic of training, about 0.25",
        citation="""@inproceedings{adelani2024sib,
  author = {Adelani, David Ifeoluwa and Liu, Hannah and Shen, Xiaoyu and Vassilyev, Nikita and Alabi, Jesujoba O. and Mao, Yanke and
    Gao, Haonan and Lee, En-Shiun Annie},
  title = {{SIB-200}: A Simple, Inclusive, and Big Evaluation Dataset for Topic Classification in 200+ Languages and Dialects},
  booktitle = {Proceedings of EACL}, year = {2024}
}""",
        licence="CC BY-SA 4.0",
        address="https://github.com/dadelani/sib-200",
    ),
)
