"""PAWS-X: do two sentences of much the same words mean the same?"""

from crosslens.languages import code_of
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import TextPairs
from crosslens.probes.tasks.language_files import find_files, languages_of, name_splits
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.sentence_pairs import with_labels

__all__ = ["TASK"]

_PATTERNS = (
    "x-final/{language}/{split}.tsv",
    "pawsx/{split}-{language}.tsv",  # XTREME
)
_SPLITS = {
    "train": "train",
    "translated_train": "train",
    "dev_2k": "dev",
    "dev": "dev",
    "test_2k": "test",
    "test": "test",
}


def _read(data: DataFolder, language: str) -> TextPairs:
    name, paths = name_splits(find_files(data, _PATTERNS, _SPLITS), language, _PATTERNS)
    data.note(paths.values())
    return TextPairs(
        # some of the translations that are trained on failed, and are blank
        with_labels(paths, labels=("0", "1"), skip_blank=True),
        code_of(name),
    )


TASK = Task(
    name="paws_x",
    kind="pair",
    group="semantic",
    metrics=("accuracy",),
    read=_read,
    languages=lambda data: languages_of(find_files(data, _PATTERNS, _SPLITS)),
    usual=(),
    card=Card(
        title="Paraphrase (PAWS-X)",
        says="An encoder is fine-tuned to say whether two sentences of much the same words mean "
        "the same.",
        data="x-final/{language}/{train,translated_train,dev_2k,test_2k}.tsv, or XTREME's "
        "pawsx/{split}-{language}.tsv",
        languages="7: Chinese, English, French, German, Japanese, Korean, Spanish",
        chance="0.55, the more frequent class",
        citation="""@inproceedings{yang2019pawsx,
  author = {Yang, Yinfei and Zhang, Yuan and Tar, Chris and Baldridge, Jason},
  title = {{PAWS-X}: A Cross-lingual Adversarial Dataset for Paraphrase Identification},
  booktitle = {Proceedings of EMNLP-IJCNLP}, year = {2019}
}""",
        licence="free to use, with attribution to Google LLC",
        address="https://github.com/google-research-datasets/paws",
    ),
)
