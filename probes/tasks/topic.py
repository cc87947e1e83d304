"""What a sentence is about: SIB-200, the same sentences in every language."""

from crosslens.languages import code_of, same_language
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import Texts
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.labelled_text import read_table

__all__ = ["TASK"]

_FILE = "sib200/sib200.tsv"


def _names(data: DataFolder) -> list[str]:
    """Languages as the table writes them: eng_Latn."""
    path = data.path(_FILE)
    return (
        []
        if path is None
        else data.once((_FILE, "languages"), lambda: sorted({*read_table(path, "language").labels}))
    )


def _read(data: DataFolder, language: str) -> Texts:
    (path,) = data.find(_FILE)
    named = [name for name in _names(data) if name == language or same_language(name, language)]
    if not named:
        raise Absent(f"no sentences of {language} in {_FILE}")
    name = language if language in named else named[0]
    return Texts(
        read_table(path, "topic", group="index_id", only={"language": name}), code_of(name)
    )


TASK = Task(
    name="topic",
    kind="classify",
    group="semantic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=_read,
    languages=lambda data: sorted({code_of(name) for name in _names(data)}),
    card=Card(
        title="Topic",
        says=(
            "A linear classifier is trained on the vectors of one layer to say what a sentence is "
            "about."
        ),
        data=_FILE,
        languages="those of the table, up to 205",
        chance="the most frequent topic of training, about 0.25",
        citation="""@inproceedings{adelani2024sib,
  author = {Adelani, David Ifeoluwa and Liu, Hannah and Shen, Xiaoyu and Vassilyev, Nikita and Alabi, Jesujoba O. and Mao, Yanke and
    Gao, Haonan and Lee, En-Shiun Annie},
  title = {{SIB-200}: A Simple, Inclusive, and Big Evaluation Dataset for Topic Classification in 200+ Languages and Dialects},
  booktitle = {Proceedings of EACL}, year = {2024}
}""",
        licence="CC BY-SA 4.0",
    ),
)
