"""BLiMP: English minimal pairs of 67 kinds, each a file."""

from pathlib import Path

from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import PairsOfSentences
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.hub import HubSet
from crosslens.readers.minimal_pairs import MinimalPair, read_minimal_pairs

__all__ = ["TASK"]

_HUB = HubSet(name="nyu-mll/blimp", columns=("sentence_good", "sentence_bad", "UID", "pair_id"))
"""Each of the 67 kinds is a configuration, whose only split is called train."""

_FILES = "blimp/*.jsonl"
_PATTERNS = (_FILES, "blimp/data/*.jsonl")  # the second in its repository


def _read(data: DataFolder, language: str) -> PairsOfSentences:
    if data.hub is not None:
        return _of_hub(data)
    paths = _files(data)
    if not paths:
        raise Absent(f"no {_FILES} (nor .gz) in the data folder")
    data.note(paths)
    pairs = [pair for path in paths for pair in read_minimal_pairs(path)]
    return PairsOfSentences(pairs, f"blimp, {len(paths)} files", language="eng")


def _files(data: DataFolder) -> list[Path]:
    return next((found for pattern in _PATTERNS if (found := data.glob(pattern))), [])


def _of_hub(data: DataFolder) -> PairsOfSentences:
    kinds = [data.records(_HUB, name, "train") for name in sorted(data.configurations(_HUB))]
    if not kinds:
        raise Absent(f"no {_HUB.name}")
    columns = [
        zip(*(some.texts(name) for name in _HUB.columns[:3]), some.rows, some.places, strict=True)
        for some in kinds
    ]
    pairs = [
        MinimalPair(good, bad, kind, str(row["pair_id"]), place)
        for some in columns
        for good, bad, kind, row, place in some
    ]
    return PairsOfSentences(pairs, f"{_HUB.name}, {len(kinds)} kinds", language="eng")


TASK = Task(
    name="blimp",
    kind="minimal_pairs",
    group="syntactic",
    metrics=("accuracy", "macro_accuracy"),
    read=_read,
    languages=lambda data: ("eng",) if _files(data) or data.configurations(_HUB) else (),
    card=Card(
        title="Minimal pairs: BLiMP",
        says="Two sentences differ in their grammar alone: the model is right when it finds the "
        "grammatical one more probable "
        "(Warstadt et al. 2020). Nothing is trained; chance is 0.5.",
        data=f"{_FILES}, or {_HUB.name} on the hub",
        languages="English",
        chance="0.5",
        citation="""@article{warstadt2020blimp,
  author = {Warstadt, Alex and Parrish, Alicia and Liu, Haokun and Mohananey, Anhad and Peng, Wei and Wang, Sheng-Fu and Bowman, Samuel R.},
  title = {{BLiMP}: The Benchmark of Linguistic Minimal Pairs for {English}},
  journal = {Transactions of the ACL}, volume = {8}, pages = {377--392}, year = {2020}
}""",
        licence="CC BY 4.0",
        address="https://github.com/alexwarstadt/blimp",
    ),
)
