"""XNLI: does the second sentence follow from the first, contradict it, or neither?"""

from collections.abc import Sequence

from crosslens.languages import code_of, same_language
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import TextPairs
from crosslens.probes.tasks.language_files import find_files, languages_of, name_splits
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.sentence_pairs import SentencePairs, read_sentence_pairs, with_labels

__all__ = ["TASK"]

_PATTERNS = (
    "xnli/xnli.{split}.{language}.tsv",
    "xnli/{split}-{language}.tsv",  # XTREME
    "XNLI-MT-1.0/multinli/multinli.{split}.{language}.tsv",
    "multinli/multinli.{split}.{language}.tsv",
)
_SPLITS = {name: name for name in ("train", "dev", "test")}
_WHOLE = {split: f"XNLI-1.0/xnli.{split}.tsv" for split in ("dev", "test")}
_LABELS = ("contradiction", "entailment", "neutral")
# of all languages
_LANGUAGES = (
    "ar",
    "bg",
    "de",
    "el",
    "en",
    "es",
    "fr",
    "hi",
    "ru",
    "sw",
    "th",
    "tr",
    "ur",
    "vi",
    "zh",
)


def _languages(data: DataFolder) -> Sequence[str]:
    official = _LANGUAGES if any(map(data.path, _WHOLE.values())) else ()
    return languages_of([*find_files(data, _PATTERNS, _SPLITS), *official])


def _read(data: DataFolder, language: str) -> TextPairs:
    there = find_files(data, _PATTERNS, _SPLITS)
    whole = {split: path for split, name in _WHOLE.items() if (path := data.path(name))}
    official = next((name for name in _LANGUAGES if same_language(name, language)), None)
    splits: dict[str, SentencePairs] = {}
    if whole and official is not None:
        data.note(whole.values())
        splits = {
            split: read_sentence_pairs(path, official, _LABELS) for split, path in whole.items()
        }
    if not splits or any(same_language(name, language) for name in there):
        _, found = name_splits(there, language, _PATTERNS)
        paths = {split: path for split, path in found.items() if split not in splits}
        data.note(paths.values())
        splits = with_labels(paths, labels=_LABELS) | splits
    return TextPairs(splits, code_of(language))


TASK = Task(
    name="xnli",
    kind="pair",
    group="semantic",
    metrics=("accuracy",),
    read=_read,
    languages=_languages,
    usual=(),
    card=Card(
        title="Natural language inference (XNLI)",
        says="An encoder is fine-tuned to say whether a sentence follows from another one, "
        "contradicts it, or neither.",
        data="XNLI-1.0/xnli.{dev,test}.tsv with XNLI-MT-1.0/multinli/multinli.train.{language}.tsv, "
        "xnli/xnli.{split}.{language}.tsv, or XTREME's xnli/{split}-{language}.tsv",
        languages="15: Arabic, Bulgarian, Chinese, English, French, German, Greek, Hindi, Russian, "
        "Spanish, Swahili, Thai, Turkish, Urdu, Vietnamese",
        chance="1/3",
        citation="""@inproceedings{conneau2018xnli,
  author = {Conneau, Alexis and Rinott, Ruty and Lample, Guillaume and Williams, Adina and Bowman, Samuel and Schwenk, Holger and
    Stoyanov, Veselin},
  title = {{XNLI}: Evaluating Cross-lingual Sentence Representations}, booktitle = {Proceedings of EMNLP}, year = {2018}
}""",
        licence="CC BY-NC 4.0",
        address="https://github.com/facebookresearch/XNLI",
    ),
)
