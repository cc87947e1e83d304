"""A run of transfer, read and indexed for the report."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosslens.examples import EXAMPLES, Example, read_examples
from crosslens.grid_settings import chosen_outcomes, setting_of
from crosslens.languages import names_of
from crosslens.outcomes import FILE, Outcomes, read_outcomes
from crosslens.report.folders.finished import finished_run
from crosslens.score import QUANTITIES, Score, headline_quantities, is_headline

__all__ = ["LESS", "System", "Transfer", "called", "load_transfer"]

LESS = "zero_shot_less_in_language"
"""``condition`` of zero-shot less in-language, as a run writes it."""


@dataclasses.dataclass(frozen=True)
class System:
    """An encoder, and how many of its layers were frozen (-1: none)."""

    encoder: str
    freeze: int = -1


def called(system: System, systems: Sequence[System]) -> str:
    """What a system is called beside others."""
    told = [system.encoder] if len({one.encoder for one in systems}) > 1 else []
    if len({one.freeze for one in systems}) > 1:
        told.append("nothing frozen" if system.freeze < 0 else f"frozen to layer {system.freeze}")
    return ", ".join(told) or system.encoder


@dataclasses.dataclass
class Transfer:
    """What a run folder says.

    Attributes
    ----------
    folder, config, scores: of the run.
    main: task -> the quantity that it is judged by, and by whose definition.
    examples: some wrong answers; none of earlier versions' runs.
    """

    folder: Path
    config: dict[str, Any]
    scores: list[Score]
    main: dict[str, tuple[str, str]]
    examples: list[Example]

    def section(self, *names: str) -> dict[str, Any]:
        """A part of the configuration, or a part of a part; empty where it is missing."""
        part: Any = self.config
        for name in names:
            part = part.get(name) if isinstance(part, dict) else None
        return part if isinstance(part, dict) else {}

    def title(self, task: str) -> str:
        """What a task is called."""
        return str(self.section("cards", task).get("title") or task)

    def systems(self) -> list[System]:
        """What was fine-tuned, in order."""
        found = [
            System(str(s.encoder), _freeze(s))
            for s in self.scores
            if s.encoder and s.condition is None
        ]
        return list(dict.fromkeys(found))

    def targets(self, task: str) -> list[str]:
        """The languages that a task was tested in, in order."""
        found = (s.target for s in self.scores if s.task == task and _part(s) == "test")
        return list(dict.fromkeys(str(one) for one in found))

    def trained_in(self, score: Score) -> bool:
        """Whether the language of a measurement was trained in."""
        there = self.targets(str(score.task))
        return any(score.target in names_of(one, there) for one in str(score.source).split("+"))

    def of(self, task: str) -> list[Score]:
        """Measurements of a task's main quantity on test items."""
        return [
            s
            for s in self.scores
            if s.task == task and _part(s) != "dev" and is_headline(s, self.main, differences=True)
        ]

    def find(
        self, task: str, target: str, condition: str | None, system: System | None = None
    ) -> Score | None:
        """One of them; of a control without an encoder ``system`` is None."""
        for score in self.of(task):
            same = score.target == target and score.condition == condition
            if not same or score.quantity.endswith("_difference"):
                continue
            if system is None or (
                score.encoder == system.encoder and _freeze(score) == system.freeze
            ):
                return score
        return None

    def dev(self, task: str, system: System) -> list[Score]:
        """What was measured on dev of the training language, a score for each seed and each setting
        that was taken."""
        return [
            s
            for s in self.scores
            if s.task == task
            and _part(s) == "dev"
            and s.condition is None
            and s.encoder == system.encoder
            and _freeze(s) == system.freeze
            and (s.evidence.chosen is None or s.evidence.setting in s.evidence.chosen)
        ]

    def answered(self, task: str, system: System, **wanted: Any) -> dict[str, dict[int, Outcomes]]:
        """Test language -> seed -> what a system answered, at the setting and the epoch that are best
        on dev.

        Parameters
        ----------
        wanted: fields of :class:`crosslens.outcomes.Outcomes`, quantity and method, say.
        """
        told = {"task": task, "encoder": system.encoder, **wanted}
        every = [
            one
            for one in self._answers
            if all(getattr(one, name) == value for name, value in told.items())
        ]
        return {
            str(key[6]): dict(sorted(seeds.items()))
            for key, seeds in chosen_outcomes(every, self.scores).items()
            if setting_of(key[4]).get("freeze", -1) == system.freeze
        }

    @functools.cached_property
    def _answers(self) -> list[Outcomes]:
        """What all systems answered at the epoch that is best on dev; read once."""
        if not (self.folder / FILE).is_file():
            return []
        return read_outcomes(self.folder, suite="dev", condition=None)

    def predictors(self, task: str) -> list[Score]:
        """What may predict a task's transfer, of each test language."""
        return [s for s in self.scores if s.task == task and s.condition == "predictor"]

    def correlations(self, task: str, system: System, kind: str) -> dict[str, Score]:
        """Quantity that may predict transfer -> its correlation (pearson or spearman) with the
        scores of a system."""
        return {
            str(s.condition): s
            for s in self.scores
            if (s.task, s.quantity, s.encoder) == (task, kind, system.encoder)
            and _freeze(s) == system.freeze
            and s.condition in QUANTITIES
        }


def _part(score: Score) -> str | None:
    return score.evidence.part


def _freeze(score: Score) -> int:
    return -1 if score.evidence.freeze is None else score.evidence.freeze


def load_transfer(folder: str | Path) -> Transfer:
    """Read a run of transfer.

    Raises
    ------
    InputError: the folder holds no finished one.
    StoreError: one of its files is damaged.
    """
    folder = Path(folder)
    config, scores = finished_run(folder, "transfer", "transfer")
    kept = folder / EXAMPLES
    examples = read_examples(kept) if kept.is_file() else []
    return Transfer(folder, config, scores, headline_quantities(scores), examples)
