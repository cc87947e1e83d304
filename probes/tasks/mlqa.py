"""MLQA: questions on paragraphs of Wikipedia in the language's own words."""

from crosslens.languages import code_of
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import Questions
from crosslens.probes.tasks.language_files import find_files, languages_of, name_splits
from crosslens.probes.tasks.squad import trained_on
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.questions import read_questions

__all__ = ["TASK"]

_PATTERNS = (
    "mlqa/{split}-context-{language}-question-{language}.json",
    "mlqa/MLQA_V1/{split}/{split}-context-{language}-question-{language}.json",  # XTREME
    "MLQA_V1/{split}/{split}-context-{language}-question-{language}.json",
)
_SPLITS = {"dev": "dev", "test": "test"}


def _read(data: DataFolder, language: str) -> Questions:
    """With SQuAD's training questions in English, where they are there."""
    name, paths = name_splits(find_files(data, _PATTERNS, _SPLITS), language, _PATTERNS)
    data.note(paths.values())
    own = {split: read_questions(path) for split, path in paths.items()}
    return Questions({**trained_on(data, language), **own}, code_of(name))


TASK = Task(
    name="mlqa",
    kind="answer",
    group="semantic",
    metrics=("answer_f1", "exact_match"),
    read=_read,
    languages=lambda data: languages_of(find_files(data, _PATTERNS, _SPLITS)),
    usual=(),
    answers="mlqa",
    card=Card(
        title="Question answering (MLQA)",
        says="An encoder is fine-tuned to find the answer to a question in a paragraph of Wikipedia; "
        "question and paragraph are in one language.",
        data="mlqa/{dev,test}-context-{language}-question-{language}.json, with squad/train-v1.1.json "
        "to train on",
        languages="7: Arabic, Chinese, English, German, Hindi, Spanish, Vietnamese",
        chance="0",
        citation="""@inproceedings{lewis2020mlqa,
  author = {Lewis, Patrick and Oguz, Barlas and Rinott, Ruty and Riedel, Sebastian and Schwenk, Holger},
  title = {{MLQA}: Evaluating Cross-lingual Extractive Question Answering}, booktitle = {Proceedings of ACL}, year = {2020}
}""",
        licence="CC BY-SA 3.0",
        address="https://github.com/facebookresearch/MLQA",
    ),
)
