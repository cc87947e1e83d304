"""The folder of an emergence run as the report sees it: what each condition's log says so far, and
what was measured at the end.

A run may still be going on: whatever is not there yet is simply missing.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosslens.files import read_json
from crosslens.report.folders.log import Point, as_number, as_table, begun_run, read_log
from crosslens.report.folders.study import Curve, clear_of
from crosslens.score import Score, read_scores
from crosslens.stats import wilson_interval

__all__ = [
    "CONDITIONS",
    "Check",
    "Condition",
    "Emergence",
    "above_chance",
    "by_frequency",
    "chance_of",
    "load_emergence",
]

CONDITIONS = {
    "shared": "everything but the token embeddings and their output is shared",
    "half": "the bottom half of the layers is separate too",
    "none": "all layers are separate",
    "separate": "nothing is shared: each language has a model of its own",
}


@dataclasses.dataclass(frozen=True)
class Check:
    """What was measured during training: perplexity per language, and alignment per direction."""

    step: int
    tokens: float
    seconds: float
    perplexity: dict[str, float]
    alignment: dict[str, Score]


@dataclasses.dataclass
class Condition:
    """One training of the run; points and checks in the order of their steps.

    ``sharing`` is part to owner ("" where both languages share it) to the number of parameters;
    empty where the run has not said.
    """

    name: str
    points: list[Point]
    checks: list[Check]
    seconds: float
    half_written: bool
    unknown: int
    scores: list[Score]
    sharing: dict[str, dict[str, int]]

    @property
    def shared(self) -> list[str]:
        """The parts that both languages share."""
        return [part for part, owners in self.sharing.items() if owners.get("")]

    @property
    def done(self) -> tuple[int, float]:
        """Steps and tokens that are logged."""
        logged = [(point.step, point.tokens) for point in self.points] + [
            (check.step, check.tokens) for check in self.checks
        ]
        return max(logged, default=(0, 0.0))

    def aligned(self, direction: str) -> Score | None:
        """Alignment in one direction at the end, or as it was last measured during training."""
        final = [
            s
            for s in self.scores
            if s.quantity == "token_alignment" and f"{s.source}>{s.target}" == direction
        ]
        return (
            final[0]
            if final
            else next(
                (c.alignment[direction] for c in reversed(self.checks) if direction in c.alignment),
                None,
            )
        )

    def curve(self, quantity: str, direction: str | None = None) -> Curve:
        """Measurements by layer at the end; for retrieval those of one direction."""
        rows = [
            s
            for s in self.scores
            if s.quantity == quantity and s.layer is not None and s.other_layer in (None, s.layer)
        ]
        return {
            int(s.layer or 0): s
            for s in rows
            if direction is None or f"{s.source}>{s.target}" == direction
        }

    def reached(self, level: float) -> Check | None:
        """The first check at which both directions have at least ``level``."""
        return next(
            (
                c
                for c in self.checks
                if c.alignment and all(s.value >= level for s in c.alignment.values())
            ),
            None,
        )

    def left_chance(self) -> Check | None:
        """The check from which on every interval of both directions lies above chance; None where
        there is none."""
        first = None
        for check in reversed(self.checks):
            if check.alignment and not all(above_chance(s) for s in check.alignment.values()):
                break
            first = check if check.alignment else first
        return first


def chance_of(score: Score | None) -> float | None:
    """What guessing gives: 1/n; None where n is not known."""
    return 1 / score.n if score is not None and score.n else None


def above_chance(score: Score) -> bool:
    """Whether the whole interval lies above chance."""
    chance = chance_of(score)
    return (
        chance is not None
        and clear_of(score, dataclasses.replace(score, value=chance, low=chance, high=chance))
        is True
    )


def by_frequency(score: Score) -> float | None:
    """The P@1 of neighbours that tell how frequent a subword is and nothing else; None where the run
    has not measured it."""
    return score.evidence.by_frequency


@dataclasses.dataclass
class Emergence:
    """What the run folder says; conditions that have begun, in the order of :data:`CONDITIONS`."""

    folder: Path
    config: dict[str, Any]
    conditions: list[Condition]
    finished: bool
    undrawn: int

    @property
    def settings(self) -> dict[str, Any]:
        """The recipe."""
        given = self.config.get("settings")
        return given if isinstance(given, dict) else {}

    @property
    def done(self) -> tuple[int, float]:
        """Steps and tokens of the condition that is farthest."""
        return max((condition.done for condition in self.conditions), default=(0, 0.0))

    def directions(self) -> list[str]:
        """The directions of alignment ("eng>eng-x"), as the logs name them."""
        return list(
            dict.fromkeys(
                way for c in self.conditions for check in c.checks for way in check.alignment
            )
        )

    def retrieval_directions(self) -> list[str]:
        """The directions of sentence retrieval."""
        rows = [
            s
            for c in self.conditions
            for s in c.scores
            if s.quantity == "precision_at_1" and s.layer is not None
        ]
        return list(dict.fromkeys(f"{s.source}>{s.target}" for s in rows))

    def languages(self) -> list[str]:
        """Languages whose perplexity was measured."""
        return list(
            dict.fromkeys(
                code for c in self.conditions for check in c.checks for code in check.perplexity
            )
        )


def load_emergence(folder: str | Path) -> Emergence:
    """Read the folder of an emergence run, finished or not.

    Raises
    ------
    InputError: the folder holds no emergence run.
    StoreError: one of its files is damaged.
    """
    folder = Path(folder)
    config = begun_run(folder, "emergence", "crosslens train emergence")
    path = folder / "scores.jsonl"
    scores = list(read_scores(path)) if path.is_file() else []
    known = {"token_alignment", "precision_at_1", "linear_cka", "debiased_linear_cka"}
    drawn = [score for score in scores if score.condition in CONDITIONS and score.quantity in known]
    conditions = [
        _condition(folder, name, [score for score in drawn if score.condition == name])
        for name in CONDITIONS
    ]
    begun = [condition for condition in conditions if condition is not None]
    return Emergence(folder, config, begun, path.is_file(), len(scores) - len(drawn))


def _condition(folder: Path, name: str, scores: list[Score]) -> Condition | None:
    path = folder / name / "log.jsonl"
    if not path.is_file() and not scores:
        return None
    log, checks, seconds = read_log(path, "perplexity", "alignment"), dict[int, Check](), 0.0
    for step, tokens, row in log.rows:
        spent = _number(row.get("seconds"))
        seconds = max(seconds, spent) if math.isfinite(spent) else seconds
        if "perplexity" in row or "alignment" in row:
            perplexity = {
                str(code): _number(value) for code, value in as_table(row.get("perplexity")).items()
            }
            alignment = {
                str(way): _aligned(str(way), as_table(entry))
                for way, entry in as_table(row.get("alignment")).items()
            }
            checks[step] = Check(step, tokens, spent, perplexity, alignment)
    ordered = [checks[step] for step in sorted(checks)]
    told = folder / name / "sharing.json"
    sharing = read_json(told, dict[str, dict[str, int]]) if told.is_file() else {}
    return Condition(
        name, log.points, ordered, seconds, log.half_written, log.unknown, scores, sharing
    )


def _aligned(direction: str, entry: Mapping[str, Any]) -> Score:
    """One entry of the log as a measurement with its interval."""
    value, n = _number(entry.get("value")), entry.get("n")
    n = n if isinstance(n, int) and not isinstance(n, bool) and n > 0 else 0
    source, _, target = direction.partition(">")
    if not 0 <= value <= 1:
        return Score(
            quantity="token_alignment",
            value=math.nan,
            n=n,
            source=source,
            target=target,
            details={"reason": "no fraction in the log"},
        )
    low, high = wilson_interval(round(value * n), n) if n else (None, None)
    details = {"by_frequency": entry["by_frequency"]} if "by_frequency" in entry else None
    return Score(
        quantity="token_alignment",
        value=value,
        n=n,
        low=low,
        high=high,
        source=source,
        target=target,
        details=details,
    )


def _number(value: Any) -> float:
    """A number of the log; NaN for what is none, and for what is too large to draw."""
    number = as_number(value)
    return number if abs(number) < 1e300 else math.nan
