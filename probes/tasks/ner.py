"""Named entities: a BIO tag for each word."""

from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import Words
from crosslens.probes.tasks.language_files import (
    find_files,
    language_name,
    languages_of,
    name_splits,
)
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.tagged_words import read_tagged_words

__all__ = ["TASK"]

_PATTERNS = (
    "ner/{language}-ud-{split}.iob2",  # Universal NER
    "ner/{language}/{split}.iob2.txt",
    "panx/{split}-{language}.tsv",  # XTREME
    "wikiann/{language}/{split}",
    "conll2003/{language}.{split}",
    "conll2002/{language}.{split}",
)
_SPLITS = {
    **{name: name for name in ("train", "dev", "test")},
    "testa": "dev",  # CoNLL-2002 and 2003
    "testb": "test",
}
_CALLED = {"esp": "spa", "ned": "nld", "als": "gsw"}  # CoNLL-2002; Wikipedia's Alemannic


def _read(data: DataFolder, language: str) -> Words:
    there = find_files(data, _PATTERNS, _SPLITS, _CALLED)
    name, paths = name_splits(there, language, _PATTERNS)
    data.note(paths.values())
    code = language_name(name, there)
    words: Words = data.once(
        ("ner", name),
        lambda: Words(
            {split: read_tagged_words(path, code) for split, path in paths.items()}, name, code
        ),
    )
    return words


TASK = Task(
    name="ner",
    kind="tag",
    group="semantic",
    metrics=("span_f1", "accuracy"),
    read=_read,
    languages=lambda data: languages_of(find_files(data, _PATTERNS, _SPLITS, _CALLED)),
    label="ner",
    usual=(),
    spans=True,
    card=Card(
        title="Named entities",
        says="Each word gets a tag that says whether it begins or goes on with the name of a "
        "person, a place or an organisation; what counts are whole names.",
        data="ner/{language}_{treebank}-ud-{split}.iob2 (Universal NER), panx/{split}-{language}.tsv "
        "(XTREME), wikiann/{language}/{split}, conll2002/ and conll2003/{language}.{train,testa,testb}",
        languages="those of the files: 19 in Universal NER, 282 in WikiAnn",
        chance="0: no name is found where every word is taken for none",
        citation="""@inproceedings{mayhew2024uner,
  author = {Mayhew, Stephen and Blevins, Terra and Liu, Shuheng and {\\v{S}}uppa, Marek and Gonen, Hila and Imperial, Joseph Marvin
    and Karlsson, B{\\"o}rje F. and Lin, Peiqin and Ljube{\\v{s}}i{\\'c}, Nikola and Miranda, Lester James V. and Plank, Barbara
    and Riabi, Arij and Pinter, Yuval},
  title = {Universal {NER}: A Gold-Standard Multilingual Named Entity Recognition Benchmark},
  booktitle = {Proceedings of NAACL}, year = {2024}
}""",
        licence="each data set's own (Universal NER: CC BY-SA 4.0)",
        address="Universal NER: https://www.universalner.org",
    ),
)
