"""Which language is a sentence in? SIB-200's sentences, or WiLI-2018; and the same as Wu & Dredze
2019 read and train."""

import dataclasses

from crosslens.languages import SEVERAL
from crosslens.probes.methods.language_id import LANGUAGE_ID_SETTINGS
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import Texts
from crosslens.probes.tasks.sib200 import FILES, texts_by_language
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.labelled_text import read_wili

__all__ = ["PAPER", "TASK"]


def _read(data: DataFolder, language: str) -> Texts:
    if (texts := texts_by_language(data)) is not None:
        return Texts(texts, SEVERAL, surface=True)
    found = data.glob("wili*/x_train.txt")
    if not found:
        raise Absent(
            "no sib200/sib200.tsv, no sib200/*/train.tsv and no wili*/x_train.txt (nor .gz) in the data folder"
        )
    wili = found[0].parent
    data.find(*(f"{wili.name}/{kind}_{part}.txt" for kind in "xy" for part in ("train", "test")))
    return Texts(read_wili(wili), SEVERAL, surface=True)


def _read_once(data: DataFolder, language: str) -> Texts:
    found: Texts = data.once("language identification", lambda: _read(data, language))
    return found


def _read_as_in_the_paper(data: DataFolder, language: str) -> Texts:
    return dataclasses.replace(
        _read_once(data, language), surface=False, settings=LANGUAGE_ID_SETTINGS["paper"]
    )


TASK = Task(
    name="language_id",
    kind="classify",
    group="language",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=_read_once,
    languages=lambda data: (SEVERAL,),
    card=Card(
        title="Language identification",
        says=(
            "A linear classifier is trained on the vectors of one layer to say which language a "
            "sentence is in."
        ),
        data=f"{FILES}, or wili*/{{x,y}}_{{train,test}}.txt",
        languages="all of the data at once: they are the labels",
        chance=(
            "one in the number of languages; the characters alone reach far more, and are "
            "measured beside it"
        ),
        citation="""@inproceedings{adelani2024sib,
  author = {Adelani, David Ifeoluwa and Liu, Hannah and Shen, Xiaoyu and Vassilyev, Nikita and Alabi, Jesujoba O. and Mao, Yanke and
    Gao, Haonan and Lee, En-Shiun Annie},
  title = {{SIB-200}: A Simple, Inclusive, and Big Evaluation Dataset for Topic Classification in 200+ Languages and Dialects},
  booktitle = {Proceedings of EACL}, year = {2024}
}
@misc{thoma2018wili,
  author = {Thoma, Martin},
  title = {The {WiLI} benchmark dataset for written language identification}, howpublished = {arXiv:1801.07779}, year = {2018}
}""",
        licence="SIB-200: CC BY-SA 4.0; WiLI-2018: ODbL 1.0",
        address="SIB-200: https://github.com/dadelani/sib-200; WiLI-2018: https://zenodo.org/records/841984",
    ),
)

PAPER = dataclasses.replace(
    TASK,
    name="language_id_paper",
    read=_read_as_in_the_paper,
    usual=(),
    card=dataclasses.replace(
        TASK.card,
        title="Language identification as in Wu & Dredze 2019",
        says="A linear classifier is trained on the mean over all tokens, special ones included, "
        "of a text’s first two sentences: ten "
        "epochs of Adam, no penalty.",
        citation=f"""@inproceedings{{wu2019beto,
  author = {{Wu, Shijie and Dredze, Mark}},
  title = {{Beto, Bentz, Becas: The Surprising Cross-Lingual Effectiveness of {{BERT}}}},
  booktitle = {{Proceedings of EMNLP}}, year = {{2019}}
}}
{TASK.card.citation}""",
    ),
)
