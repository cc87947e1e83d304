"""MultiBLiMP: minimal pairs of agreement in 101 languages."""

from collections.abc import Sequence
from pathlib import Path

from crosslens.languages import code_of, same_language
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import PairsOfSentences
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.hub import HubSet
from crosslens.readers.minimal_pairs import MinimalPair, read_minimal_pairs

__all__ = ["TASK"]

_FILES = ("multiblimp/*.tsv", "multiblimp/*.csv", "multiblimp/*/*.tsv", "multiblimp/*/*.csv")

_HUB = HubSet(name="jumelet/multiblimp", columns=("sen", "wrong_sen", "phenomenon"))
"""Each language is a configuration ("fra"), whose only split is called train."""


def _named(path: Path) -> str:
    """The language that a file's folder names, or its own name: multiblimp/fra/data.tsv,
    multiblimp/fra.tsv."""
    return path.name.split(".")[0] if path.parent.name == "multiblimp" else path.parent.name


def _pairs(data: DataFolder, path: Path) -> list[MinimalPair]:
    found: list[MinimalPair] = data.once(path, lambda: read_minimal_pairs(path))
    return found


def _is_of_several(data: DataFolder, path: Path) -> bool:
    """Whether a file lies where no language is named: then a column has to."""
    return (
        path.parent.name == "multiblimp"
        and len(_named(path)) > 3
        and any(pair.language for pair in _pairs(data, path)[:1])
    )


def _languages(data: DataFolder) -> Sequence[str]:
    if data.hub is not None:
        return sorted({code_of(name) for name in data.configurations(_HUB)})
    named = set()
    for path in data.glob(*_FILES):
        several = _is_of_several(data, path)
        named |= (
            {code_of(pair.language) for pair in _pairs(data, path)}
            if several
            else {code_of(_named(path))}
        )
    return sorted(named)


def _read(data: DataFolder, language: str) -> PairsOfSentences:
    if data.hub is not None:
        return _of_hub(data, language)
    pairs, used = list[MinimalPair](), list[Path]()
    for path in data.glob(*_FILES):
        if _is_of_several(data, path):
            found = [pair for pair in _pairs(data, path) if same_language(pair.language, language)]
        else:
            found = _pairs(data, path) if same_language(_named(path), language) else []
        pairs += found
        used += [path] if found else []
    if not pairs:
        raise Absent(
            f"no multiblimp/{code_of(language)}/*.tsv (nor .csv, nor .gz) in the data folder"
        )
    data.note(used)
    source = f"multiblimp, {len(used)} file{'s' if len(used) > 1 else ''}"
    return PairsOfSentences(pairs, source, language=code_of(language))


def _of_hub(data: DataFolder, language: str) -> PairsOfSentences:
    named = [name for name in data.configurations(_HUB) if same_language(name, language)]
    if not named:
        raise Absent(f"no pairs of {language} in {_HUB.name}")
    some = data.records(_HUB, named[0], "train")
    columns = zip(*(some.texts(name) for name in _HUB.columns), some.places, strict=True)
    pairs = [
        MinimalPair(good, bad, kind, str(number), place)
        for number, (good, bad, kind, place) in enumerate(columns)
    ]
    return PairsOfSentences(pairs, _HUB.name, language=code_of(language))


TASK = Task(
    name="multiblimp",
    kind="minimal_pairs",
    group="syntactic",
    metrics=("accuracy", "macro_accuracy"),
    read=_read,
    languages=_languages,
    usual=(),
    card=Card(
        title="Minimal pairs: MultiBLiMP",
        says="Two sentences differ in the agreement of one word: the model is right when it finds "
        "the grammatical one more probable "
        "(Jumelet et al. 2025). Nothing is trained; chance is 0.5.",
        data=f"multiblimp/{{language}}/data.tsv, or {_HUB.name} on the hub",
        languages="101, those of the folder",
        chance="0.5",
        citation="""@misc{jumelet2025multiblimp,
  author = {Jumelet, Jaap and Weissweiler, Leonie and Bisazza, Arianna},
  title = {{MultiBLiMP} 1.0: A Massively Multilingual Benchmark of Linguistic Minimal Pairs},
  howpublished = {arXiv:2504.02768}, year = {2025}
}""",
        licence="CC BY 4.0",
        address="https://huggingface.co/datasets/jumelet/multiblimp",
    ),
)
