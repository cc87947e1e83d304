"""Treebanks of Universal Dependencies, found by their language:
``ud/{language}_{name}-ud-{train,dev,test}.conllu``."""

import re
from collections.abc import Sequence
from pathlib import Path

from crosslens.languages import code_of, same_language
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import Words
from crosslens.readers.words import read_conllu

__all__ = [
    "CITATION",
    "FILES",
    "LICENCE",
    "SPLITS",
    "read_files",
    "read_treebank",
    "treebank_languages",
]

SPLITS = ("train", "dev", "test")
FILES = "ud/{language}_{treebank}-ud-{train,dev,test}.conllu"
LICENCE = "each treebank's own (en_ewt: CC BY-SA 4.0)"
CITATION = """@article{demarneffe2021ud,
  author = {de Marneffe, Marie-Catherine and Manning, Christopher D. and Nivre, Joakim and Zeman, Daniel},
  title = {Universal Dependencies}, journal = {Computational Linguistics}, volume = {47}, number = {2}, pages = {255--308}, year = {2021}
}"""
_NAME = re.compile(r"(.+)-ud-(train|dev|test)\.conllu(\.gz)?")


def _treebanks(data: DataFolder) -> dict[str, dict[str, Path]]:
    """Name of each treebank, en_ewt say -> split -> file."""
    found: dict[str, dict[str, Path]] = {}
    for path in data.glob("ud/*.conllu"):
        if name := _NAME.fullmatch(path.name):
            found.setdefault(name[1], {}).setdefault(name[2], path)
    return found


def treebank_languages(data: DataFolder) -> Sequence[str]:
    """Languages of the treebanks, ISO 639-3, sorted."""
    return sorted({code_of(name) for name in _treebanks(data)})


def read_treebank(data: DataFolder, language: str) -> Words:
    """The treebank of a language, each but once.

    Of several that which ``data.treebank`` names, or else one with a file to train on, then one
    with more files, then the first by name.

    Parameters
    ----------
    language: a code of any kind, or a treebank's own name ("fr_pud").

    Raises
    ------
    Absent: there is none.
    InputError: a file cannot be read.
    """
    there = _treebanks(data)
    named = (
        data.treebank
        if data.treebank is not None and same_language(data.treebank, language)
        else language
    )
    found = {named: there[named]} if named in there else {} if named == data.treebank else there
    chosen = [name for name in found if name == named or same_language(name, language)]
    if not chosen:
        wanted = [
            f"ud/{named if '_' in named else named + '_*'}-ud-{split}.conllu" for split in SPLITS
        ]
        raise Absent(f"no {', '.join(wanted)} (nor .gz) in the data folder")
    name = min(chosen, key=lambda name: ("train" not in there[name], -len(there[name]), name))
    paths = {split: there[name][split] for split in SPLITS if split in there[name]}
    data.note(paths.values())
    words: Words = data.once(("treebank", name), lambda: read_files(paths, name))
    return words


def read_files(paths: dict[str, Path], name: str) -> Words:
    """A treebank from the files of some splits; the language is what its name begins with, if that
    is a code ("und" if not)."""
    code = code_of(name.split(".")[0])
    language = code if len(code) == 3 and code.isalpha() else "und"
    return Words(
        {split: read_conllu(path, language) for split, path in paths.items()}, name, language
    )
