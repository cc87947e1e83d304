"""What pages read of a MonoTrans run: its trainings, each with its curve."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from crosslens.report.folders.log import as_number, as_table, read_log
from crosslens.report.parts.wording import language
from crosslens.score import Score

__all__ = ["Step", "steps_of"]


@dataclasses.dataclass(frozen=True)
class Step:
    """A training of the run: its folder's name, its language, what was measured at its end (``bigram``
    is None in runs of earlier versions), and held-out perplexity over millions of tokens."""

    name: str
    language: str
    learnt: Score
    unigram: Score
    bigram: Score | None
    curve: Mapping[float, float]

    @property
    def repeat(self) -> str:
        """The number of a training of step 2 that is repeated, else ""."""
        number = self.name.removeprefix(f"step-2/{self.language}").removeprefix("-")
        return number if number.isdigit() else ""

    @property
    def said(self) -> str:
        """What it is called: "French, step 2, training 1"."""
        again = f", training {self.repeat}" if self.repeat else ""
        return f"{language(self.language)}, step {'1' if self.name == 'step-1' else '2'}{again}"


def steps_of(folder: Path, scores: Sequence[Score]) -> list[Step]:
    """All trainings, step 1 first."""
    found = {(str(score.encoder), score.condition): score for score in scores}
    steps = []
    for (name, condition), score in found.items():
        if condition is not None:
            continue
        curve = {
            tokens / 1e6: as_number(as_table(line["perplexity"]).get(str(score.source)))
            for _, tokens, line in read_log(folder / name / "log.jsonl", "perplexity").rows
            if "perplexity" in line
        }
        unigram, bigram = found[name, "unigram"], found.get((name, "bigram"))
        steps.append(Step(name, str(score.source), score, unigram, bigram, curve))
    return sorted(steps, key=lambda step: step.name != "step-1")
