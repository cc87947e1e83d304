"""SQuAD 1.1: what in a paragraph of English Wikipedia answers a question?"""

import dataclasses
from collections.abc import Sequence

from crosslens.languages import code_of, same_language
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import Questions
from crosslens.probes.tasks.language_files import find_files, languages_of, name_splits
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.questions import Question, read_questions

__all__ = ["TASK", "trained_on"]

_PATTERNS = ("squad/{split}-v1.1.json",)
# the test split is not published: dev is what systems are compared on
_SPLITS, _CALLED = {"train": "train", "dev": "test"}, {"": "eng"}


def _read(data: DataFolder, language: str) -> Questions:
    there = find_files(data, _PATTERNS, _SPLITS, _CALLED)
    _, paths = name_splits(there, language, _PATTERNS)
    data.note(paths.values())
    splits = {split: read_questions(path) for split, path in paths.items()}
    return Questions(splits, code_of(language))


def trained_on(data: DataFolder, language: str) -> dict[str, Sequence[Question]]:
    """SQuAD's training questions as the split "train" of a task that has none of its own; nothing in
    other languages than English, or where the file is not there.

    Their documents are named apart from those of the task.
    """
    path = data.path("squad/train-v1.1.json")
    if path is None or not same_language(language, "eng"):
        return {}
    data.note([path])
    found: list[Question] = data.once(("squad", "train"), lambda: read_questions(path))
    return {"train": [dataclasses.replace(one, title=f"SQuAD: {one.title}") for one in found]}


TASK = Task(
    name="squad",
    kind="answer",
    group="semantic",
    metrics=("answer_f1", "exact_match"),
    read=_read,
    languages=lambda data: languages_of(find_files(data, _PATTERNS, _SPLITS, _CALLED)),
    usual=(),
    answers="squad",
    card=Card(
        title="Question answering (SQuAD 1.1)",
        says="An encoder is fine-tuned to find the answer to a question in a paragraph of English "
        "Wikipedia.",
        data="squad/train-v1.1.json and squad/dev-v1.1.json; dev is tested on",
        languages="English",
        chance="0",
        citation="""@inproceedings{rajpurkar2016squad,
  author = {Rajpurkar, Pranav and Zhang, Jian and Lopyrev, Konstantin and Liang, Percy},
  title = {{SQuAD}: 100,000+ Questions for Machine Comprehension of Text}, booktitle = {Proceedings of EMNLP}, year = {2016}
}""",
        licence="CC BY-SA 4.0",
        address="https://rajpurkar.github.io/SQuAD-explorer",
    ),
)
