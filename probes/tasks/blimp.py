"""BLiMP: English minimal pairs of 67 kinds, each a file."""

from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import PairsOfSentences
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.minimal_pairs import read_minimal_pairs

__all__ = ["TASK"]

_FILES = "blimp/*.jsonl"


def _read(data: DataFolder, language: str) -> PairsOfSentences:
    paths = data.glob(_FILES)
    if not paths:
        raise Absent(f"no {_FILES} (nor .gz) in the data folder")
    data.note(paths)
    pairs = [pair for path in paths for pair in read_minimal_pairs(path)]
    return PairsOfSentences(pairs, f"blimp, {len(paths)} files", language="eng")


TASK = Task(
    name="blimp",
    kind="minimal_pairs",
    group="syntactic",
    metrics=("accuracy", "macro_accuracy"),
    read=_read,
    languages=lambda data: ("eng",) if data.glob(_FILES) else (),
    card=Card(
        title="Minimal pairs: BLiMP",
        says="Two sentences differ in their grammar alone: the model is right when it finds the "
        "grammatical one more probable "
        "(Warstadt et al. 2020). Nothing is trained; chance is 0.5.",
        data=_FILES,
        languages="English",
        chance="0.5",
        citation="""@article{warstadt2020blimp,
  author = {Warstadt, Alex and Parrish, Alicia and Liu, Haokun and Mohananey, Anhad and Peng, Wei and Wang, Sheng-Fu and Bowman, Samuel R.},
  title = {{BLiMP}: The Benchmark of Linguistic Minimal Pairs for {English}},
  journal = {Transactions of the ACL}, volume = {8}, pages = {377--392}, year = {2020}
}""",
        licence="CC BY 4.0",
    ),
)
