"""A study's run folder, read and indexed for the report.

Two files are needed, ``config.json`` and ``scores.jsonl``. Keys of the configuration
that are missing count as empty; measurements that the page has no figure for are
counted, so that nothing disappears silently.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.files import read_json
from crosslens.score import Score, read_scores

__all__ = ["CONTROL_OF", "Curve", "Study", "clear_of", "load_study", "mean_curve", "study_of"]

Curve = dict[int, Score]  # layer -> measurement

CONTROL_OF = {"unaligned": "random_encoder", "procrustes": "random_encoder_procrustes"}

_DRAWN: dict[tuple[str, str], set[str | None]] = {
    ("sentence_retrieval", "precision_at_1"): {*CONTROL_OF, *CONTROL_OF.values()},
    ("mean_sentence_retrieval", "precision_at_1"): {*CONTROL_OF},
    ("word_translation", "precision_at_1"): {*CONTROL_OF, "refine", "self_learning"},
    ("contextual_word_retrieval", "precision_at_1"): {*CONTROL_OF},
    ("language_id", "accuracy"): {None, "random_encoder", "shuffled_labels", "majority"},
    ("language_id", "macro_f1"): {None, "random_encoder", "shuffled_labels", "majority"},
}

# of linear CKA, and of any other measure
_SIMILARITY: set[str | None] = {None, "random_encoder", "shuffled_items"}

# task, quantity, condition, part, source, target
_Key = tuple[str | None, str, str | None, str, str | None, str | None]


@dataclasses.dataclass
class Study:
    """What a run folder says, with look-ups by task, quantity and condition."""

    folder: Path
    config: dict[str, Any]
    scores: list[Score]
    index: dict[_Key, dict[tuple[int, int], Score]]
    repeated: int
    undrawn: dict[str, int]

    def section(self, name: str) -> dict[str, Any]:
        """A part of the configuration, empty where it is missing or not a table."""
        part = self.config.get(name)
        return part if isinstance(part, dict) else {}

    def languages(self) -> list[str]:
        """Language codes: in the order of the settings, then others that occur in measurements."""
        listed = self.section("settings").get("languages")
        codes = [str(code) for code in listed] if isinstance(listed, list) else []
        measured = [
            code
            for score in self.scores
            for code in (score.source, score.target)
            if code is not None
        ]
        return list(dict.fromkeys([*codes, *measured]))

    def pairs(self, task: str) -> list[tuple[str, str]]:
        """Unordered pairs of a task, each as it is first met, ordered like the languages."""
        order = {code: place for place, code in enumerate(self.languages())}
        met: dict[frozenset[str], tuple[str, str]] = {}
        for row_task, _, _, _, source, target in self.index:
            if row_task == task and source is not None and target is not None and source != target:
                met.setdefault(frozenset((source, target)), (source, target))
        pairs = list(met.values())
        # both directions were measured: the pair is called by the order of the languages
        if task == "sentence_retrieval":
            pairs = [(a, b) if order[a] < order[b] else (b, a) for a, b in pairs]
        return sorted(pairs, key=lambda pair: sorted(order[code] for code in pair))

    def directions(self) -> list[tuple[str, str]]:
        """Both directions of every retrieval pair."""
        return [way for a, b in self.pairs("sentence_retrieval") for way in ((a, b), (b, a))]

    def curve(
        self,
        task: str,
        quantity: str,
        condition: str | None,
        pair: tuple[str | None, str | None] = (None, None),
        part: str = "held_out",
    ) -> Curve:
        """Measurements by layer; for similarity those that compare a layer with itself."""
        found = self.index.get(
            (task, quantity, condition, part if task == "sentence_retrieval" else "", *pair), {}
        )
        return {layer: score for (layer, other), score in sorted(found.items()) if layer == other}

    def square(self, quantity: str, pair: tuple[str, str]) -> dict[tuple[int, int], Score]:
        """Similarity of every layer of the first language with every layer of the second."""
        return self.index.get(("similarity", quantity, None, "", *pair), {})


def _key(score: Score) -> _Key:
    part = score.evidence.part or "held_out" if score.task == "sentence_retrieval" else ""
    return score.task, score.quantity, score.condition, part, score.source, score.target


def _is_drawn(score: Score) -> bool:
    drawn = (
        _SIMILARITY
        if score.task == "similarity"
        else _DRAWN.get((score.task or "", score.quantity), set())
    )
    if score.condition not in drawn:
        return False
    return score.task in ("language_id", "mean_sentence_retrieval") or (
        score.source is not None and score.target is not None
    )


def _spread_layers(scores: list[Score]) -> list[Score]:
    """Repeat language-identification controls that belong to no layer at every layer of the
    encoder."""
    layers = sorted(
        {
            s.layer
            for s in scores
            if s.task == "language_id" and s.condition is None and s.layer is not None
        }
    )
    result: list[Score] = []
    for score in scores:
        everywhere = (
            score.task == "language_id"
            and score.layer is None
            and score.condition is not None
            and layers
        )
        result += (
            [dataclasses.replace(score, layer=layer) for layer in layers] if everywhere else [score]
        )
    return result


def mean_curve(curves: Iterable[Curve]) -> Curve:
    """The plain mean of curves at the layers of all of them; of one curve itself, with intervals.

    A layer that one of them lacks a number at is NaN.
    """
    curves = [curve for curve in curves if curve]
    if len(curves) < 2:
        return curves[0] if curves else {}
    found = {}
    for layer in sorted(set.intersection(*map(set, curves))):
        here = [curve[layer] for curve in curves]
        value, n = math.fsum(score.value for score in here) / len(here), min(s.n for s in here)
        found[layer] = Score(quantity=here[0].quantity, value=value, n=n, layer=layer)
    return found


def load_study(folder: str | Path) -> Study:
    """Read a run folder.

    Raises
    ------
    InputError: the folder holds no study.
    StoreError: one of its files is damaged.
    """
    folder = Path(folder)
    for name in ("config.json", "scores.jsonl"):
        if not (folder / name).is_file():
            remedy = "name a folder that crosslens study has written"
            refuse("folder", f"a run folder with {name}", f"{folder} without it", remedy)
    config = read_json(folder / "config.json", dict, "run the study again")
    return study_of(list(read_scores(folder / "scores.jsonl")), config, folder)


def study_of(scores: list[Score], config: dict[str, Any], folder: Path) -> Study:
    """Measurements, indexed for the report."""
    index: dict[_Key, dict[tuple[int, int], Score]] = {}
    repeated, undrawn = 0, Counter[str]()
    for score in _spread_layers(scores):
        if score.layer is None or not _is_drawn(score):
            undrawn[
                " · ".join(
                    str(part) for part in (score.task, score.quantity, score.condition) if part
                )
            ] += 1
            continue
        cells = index.setdefault(_key(score), {})
        cell = (score.layer, score.layer if score.other_layer is None else score.other_layer)
        repeated += cell in cells
        cells.setdefault(cell, score)
    return Study(folder, config, scores, index, repeated, dict(sorted(undrawn.items())))


def clear_of(score: Score | None, control: Score | None) -> bool | None:
    """Whether a score is clearly above its control; None where that cannot be told.

    Where the two were compared sentence by sentence, the interval of the difference must lie above
    0; else the score's interval must lie wholly above its control's.
    """
    paired = score.evidence.above_control if score is not None else None
    if control is not None and paired is not None:
        return paired.low > 0
    if score is None or control is None or score.low is None or control.high is None:
        return None
    if math.isnan(score.value) or math.isnan(control.value):
        return None
    return score.low > control.high
