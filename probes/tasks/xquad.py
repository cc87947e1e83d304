"""XQuAD: questions and paragraphs of SQuAD's dev split, translated by people."""

from crosslens.languages import code_of
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import Questions
from crosslens.probes.tasks.language_files import find_files, languages_of, name_splits
from crosslens.probes.tasks.squad import trained_on
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.questions import read_questions

__all__ = ["TASK"]

_PATTERNS = ("xquad/xquad.{language}.json",)
_SPLITS = {"": ""}


def _read(data: DataFolder, language: str) -> Questions:
    """With SQuAD's training questions in English, where they are there; by itself it has no splits."""
    name, paths = name_splits(find_files(data, _PATTERNS, _SPLITS), language, _PATTERNS)
    data.note(paths.values())
    found, train = read_questions(paths[""]), trained_on(data, language)
    return Questions({**train, "test": found} if train else {"": found}, code_of(name))


TASK = Task(
    name="xquad",
    kind="answer",
    group="semantic",
    metrics=("answer_f1", "exact_match"),
    read=_read,
    languages=lambda data: languages_of(find_files(data, _PATTERNS, _SPLITS)),
    usual=(),
    answers="squad",
    card=Card(
        title="Question answering (XQuAD)",
        says="An encoder is fine-tuned to find the answer to a question in a paragraph; the same "
        "questions and paragraphs are there in every language.",
        data="xquad/xquad.{language}.json, with squad/train-v1.1.json to train on; without it the "
        "paragraphs are divided",
        languages="12: Arabic, Chinese, English, German, Greek, Hindi, Romanian, Russian, Spanish, "
        "Thai, Turkish, Vietnamese",
        chance="0",
        citation="""@inproceedings{artetxe2020cross,
  author = {Artetxe, Mikel and Ruder, Sebastian and Yogatama, Dani},
  title = {On the Cross-lingual Transferability of Monolingual Representations}, booktitle = {Proceedings of ACL}, year = {2020}
}""",
        licence="CC BY-SA 4.0",
        address="https://github.com/google-deepmind/xquad",
    ),
)
