"""Invented emergence runs for the report's tests, and for looking at by eye.

``python tests/report/synthetic_emergence.py FOLDER [STEPS_DONE]`` makes one with its report.
"""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.score import Score, write_scores
from crosslens.stats import wilson_interval

N, SENTENCES, STEPS, TOKENS = 595, 400, 16_000, 2048
CEILING = {"shared": 0.86, "half": 0.41, "none": 0.0, "separate": 0.0}
OWN = {
    "shared": ("token",),
    "half": ("token", "1"),
    "none": ("token", "1", "2"),
    "separate": ("token", "position", "1", "2"),
}
BY_FREQUENCY = 0.004


def aligned(condition: str, part: float) -> float:
    """Alignment after a part of the training: chance, then a steep rise."""
    value = 1 / N + CEILING[condition] / (1 + math.exp(-14 * (part - 0.52)))
    return round(value * N) / N


def _log(condition: str, done: int, draw: np.random.Generator) -> list[dict[str, Any]]:
    """A loss every hundredth of the steps, a check every twentieth."""
    lines: list[dict[str, Any]] = []
    slower = 1 if condition == "shared" else 1.05
    for step in range(STEPS // 100, done + 1, STEPS // 100):
        part, base = (
            step / STEPS,
            {"step": step, "tokens": step * TOKENS, "seconds": step * 0.042 * slower},
        )
        loss = 2.6 + 3.6 * math.exp(-6 * part) + 0.2 * (condition == "none") + draw.normal(0, 0.04)
        lines.append({**base, "loss": loss, "tokens_per_second": (48_000 + step % 97) / slower})
        if step % (STEPS // 20) == 0:
            perplexity = {
                code: math.exp(loss + 0.03 * i) for i, code in enumerate(("eng", "eng-x"))
            }
            values = {
                "eng>eng-x": aligned(condition, part),
                "eng-x>eng": aligned(condition, part * 0.98),
            }
            alignment = {
                way: {"value": value, "by_frequency": BY_FREQUENCY, "n": N}
                for way, value in values.items()
            }
            lines.append({**base, "perplexity": perplexity, "alignment": alignment})
    return lines


def _scores(condition: str) -> list[Score]:
    found = []
    for source, target, part in (("eng", "eng-x", 1.0), ("eng-x", "eng", 0.98)):
        value = aligned(condition, part)
        low, high = wilson_interval(round(value * N), N)
        common: dict[str, Any] = {"source": source, "target": target, "condition": condition}
        found.append(
            Score(
                quantity="token_alignment",
                value=value,
                n=N,
                low=low,
                high=high,
                task="token_alignment",
                details={"by_frequency": BY_FREQUENCY},
                **common,
            )
        )
        for layer in range(5):
            hits = max(
                1,
                round(
                    SENTENCES * CEILING[condition] * (0.5 + 0.12 * layer - 0.02 * (source != "eng"))
                ),
            )
            low, high = wilson_interval(hits, SENTENCES)
            found.append(
                Score(
                    quantity="precision_at_1",
                    value=hits / SENTENCES,
                    n=SENTENCES,
                    low=low,
                    high=high,
                    layer=layer,
                    task="sentence_retrieval",
                    **common,
                )
            )
    for layer in range(5):
        for quantity, bias in (("debiased_linear_cka", 0.0), ("linear_cka", 0.06)):
            value = 0.1 + 0.9 * CEILING[condition] * (1 - 0.05 * layer) + bias
            found.append(
                Score(
                    quantity=quantity,
                    value=value,
                    n=SENTENCES,
                    low=value - 0.03,
                    high=value + 0.03,
                    layer=layer,
                    other_layer=layer,
                    source="eng",
                    target="eng-x",
                    condition=condition,
                    task="similarity",
                )
            )
    return found


def make_emergence(
    folder: Path,
    done: int = STEPS,
    *,
    conditions: Sequence[str] = ("shared", "half", "none", "separate"),
    scores: bool | None = None,
    **settings: Any,
) -> Path:
    """Write the folder of a run: the last condition has so many steps, those before it all. Keyword
    arguments replace settings."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(
        json.dumps(
            {
                "kind": "emergence",
                "settings": {
                    "text": "the installed English prose",
                    "steps": STEPS,
                    "seed": 3,
                    "vocabulary": {"size": 600},
                    "batch": 64,
                    "length": 32,
                    "encoder": {"hidden_size": 64, "layers": 4, "heads": 2},
                    "masking": {"rate": 0.15},
                    **settings,
                },
            }
        )
    )
    for place, condition in enumerate(conditions):
        (folder / condition).mkdir(exist_ok=True)
        steps = done if condition == conditions[-1] else STEPS
        lines = _log(condition, steps, np.random.default_rng(place))
        counts = {
            part: {
                owner: 500 * (bool(owner) == (part in OWN[condition]))
                for owner in ("", "eng", "eng-x")
            }
            for part in OWN["separate"]
        }
        (folder / condition / "sharing.json").write_text(json.dumps(counts))
        (folder / condition / "log.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )
    if done == STEPS if scores is None else scores:
        write_scores(
            [score for condition in conditions for score in _scores(condition)],
            folder / "scores.jsonl",
        )
    return folder


if __name__ == "__main__":
    from crosslens.report import write_report

    print(write_report(make_emergence(Path(sys.argv[1]), *map(int, sys.argv[2:3]))))
