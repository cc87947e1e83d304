"""Treebanks of Universal Dependencies, found by their language:
``ud/{language}_{name}-ud-{train,dev,test}.conllu``, in a folder of its own or not, or a configuration of
``commul/universal_dependencies`` on the hub, which is called ``{language}_{name}``."""

import gzip
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from crosslens.languages import code_of, same_language
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import Words
from crosslens.probes.tasks.language_files import names_for, others
from crosslens.progress import say
from crosslens.readers.hub import HubSet
from crosslens.readers.hub_treebank import COLUMNS, conllu_lines
from crosslens.readers.words import parse_conllu, read_conllu

__all__ = [
    "ADDRESS",
    "CITATION",
    "FILES",
    "LICENCE",
    "SPLITS",
    "read_files",
    "read_treebank",
    "treebank_languages",
]

SPLITS = ("train", "dev", "test")
_HUB = HubSet(name="commul/universal_dependencies", columns=COLUMNS)
FILES = f"ud/{{language}}_{{treebank}}-ud-{{train,dev,test}}.conllu, or {_HUB.name} on the hub"
ADDRESS = "https://universaldependencies.org"
LICENCE = "each treebank's own (en_ewt: CC BY-SA 4.0)"
CITATION = """@article{demarneffe2021ud,
  author = {de Marneffe, Marie-Catherine and Manning, Christopher D. and Nivre, Joakim and Zeman, Daniel},
  title = {Universal Dependencies}, journal = {Computational Linguistics}, volume = {47}, number = {2}, pages = {255--308}, year = {2021}
}"""
_NAME = re.compile(r"(.+)-ud-(train|dev|test)(-[\w-]+)?\.conllu(\.gz)?")
_WORDS = 50  # of a file, by which it is seen whether it has its text


def _treebanks(data: DataFolder) -> dict[str, dict[str, Path]]:
    """Name of each treebank, en_ewt say -> split -> file."""
    found: dict[str, dict[str, Path]] = {}
    for path in data.glob("ud/*.conllu", "ud/*/*.conllu"):
        if (name := _NAME.fullmatch(path.name)) and not name[3]:
            found.setdefault(name[1], {}).setdefault(name[2], path)
    return found


def _say_of_parts(data: DataFolder, name: str, there: Collection[str]) -> None:
    """Some treebanks have a split in several files, de_hdt-ud-train-a-1.conllu and so on."""
    for split in (split for split in SPLITS if split not in there):
        pattern = f"{name}-ud-{split}-*.conllu"
        if parts := data.glob(f"ud/{pattern}", f"ud/*/{pattern}"):
            say(
                f"{name} has its {split} split in {len(parts)} files, which are not read: join them "
                f"(cat) as {parts[0].with_name(f'{name}-ud-{split}.conllu')}"
            )


def _has_text(path: Path) -> bool:
    """Whether the first words of a file are written there; some treebanks have _ in their place."""
    opened = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")
    with opened as file:
        lines = (line.split(b"\t") for line in file if line[:1].isdigit())
        forms = [cells[1] for cells in itertools.islice(lines, _WORDS) if len(cells) > 1]
    return 2 * forms.count(b"_") <= len(forms)


def treebank_languages(data: DataFolder) -> Sequence[str]:
    """Languages of the treebanks, ISO 639-3, sorted."""
    names = data.configurations(_HUB) if data.hub is not None else _treebanks(data)
    return sorted({code_of(name) for name in names})


def read_treebank(data: DataFolder, language: str) -> Words:
    """The treebank of a language, each but once.

    Of several that which ``data.treebank`` names, or else one that is published with its text, then
    one with a file to train on, then one with more files, then the first by name.

    Parameters
    ----------
    language: a code of any kind, or a treebank's own name ("fr_pud").

    Raises
    ------
    Absent: there is none.
    InputError: a file cannot be read.
    """
    if data.hub is not None:
        return _of_hub(data, language)
    there = _treebanks(data)
    chosen = _chosen(data, language, list(there))
    if not chosen:
        named = _asked(data, language)
        wanted = [
            f"ud/{named if '_' in named else named + '_*'}-ud-{split}.conllu" for split in SPLITS
        ]
        raise Absent(
            f"no {', '.join(wanted)} (nor .gz) in the data folder{others(language, there)}"
        )
    if len(chosen) > 1:
        written = [name for name in chosen if _has_text(next(iter(there[name].values())))]
        if written and (left := sorted({*chosen} - {*written})):
            say(f"{', '.join(left)} passed over: published without the text")
        chosen = written or chosen
    name = _best({name: there[name] for name in chosen})
    _say_of_parts(data, name, there[name])
    paths = {split: there[name][split] for split in SPLITS if split in there[name]}
    data.note(paths.values())
    words: Words = data.once(("treebank", name), lambda: read_files(paths, name))
    return words


def _asked(data: DataFolder, language: str) -> str:
    """The treebank's name, where one is asked for, or else the language."""
    named = data.treebank is not None and same_language(data.treebank, language)
    return str(data.treebank) if named else language


def _chosen(data: DataFolder, language: str, there: Sequence[str]) -> list[str]:
    """Names of the treebanks that will do."""
    named = _asked(data, language)
    if named == data.treebank:
        return [name for name in there if name == named]
    return names_for(named, there)


def _best(there: Mapping[str, Collection[str]]) -> str:
    """Of the treebanks with their splits that with a split to train on, then that with more, then
    the first by name."""
    return min(there, key=lambda name: ("train" not in there[name], -len(there[name]), name))


def _of_hub(data: DataFolder, language: str) -> Words:
    """A treebank of the hub, whose splits are called as the files are."""
    assert data.hub is not None
    hub, chosen = data.hub, _chosen(data, language, data.configurations(_HUB))
    if not chosen:
        known = others(language, data.configurations(_HUB))
        raise Absent(f"no {_asked(data, language)} in {_HUB.name}{known}")
    name = _best({name: hub.splits(_HUB, name) for name in chosen})

    def read() -> Words:
        found = {}
        for split in (split for split in SPLITS if split in hub.splits(_HUB, name)):
            some = data.records(_HUB, name, split)
            lines = [line for record in some.rows for line in conllu_lines(record)]
            found[split] = parse_conllu(lines, some.place, code_of(name))
        return Words(found, name, code_of(name))

    words: Words = data.once(("treebank", name), read)
    return words


def read_files(paths: dict[str, Path], name: str) -> Words:
    """A treebank from the files of some splits; the language is what its name begins with, if that
    is a code ("und" if not), of a derived language its code with how it was derived."""
    code = code_of(name.split(".")[0])
    base = code.split("-")[0]
    language = code if len(base) == 3 and base.isalpha() else "und"
    return Words(
        {split: read_conllu(path, language) for split, path in paths.items()}, name, language
    )
