"""Means over the seeds of a run of transfer, with intervals, beside the controls, and differences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crosslens.grid_settings import chosen_outcomes, setting_of
from crosslens.outcomes import Outcomes
from crosslens.run.transfer.data import TaskData
from crosslens.run.transfer.fits import IN_LANGUAGE, LESS
from crosslens.run.transfer.measures import (
    counted,
    difference,
    majority,
    n_counted,
    outcomes,
    over_seeds,
)
from crosslens.score import Score

__all__ = ["majority_scores", "means"]

_WAYS = {
    "dev": None,
    "last": "last_epoch",
    "average": "averaged_epochs",
    "target_dev": "target_dev_oracle",
}


def means(
    tasks: Mapping[str, TaskData],
    every: Sequence[Outcomes],
    dev: Sequence[Score],
    spans_by: str,
) -> list[Score]:
    """Means over seeds of each quantity in each language, the controls, and differences.

    Parameters
    ----------
    every: what was answered, of each setting of a grid that was tested, and each seed.
    dev: scores of dev, which say what setting of a grid is taken; of two that are, each seed has the
        mean.
    spans_by: whose reading of tags is the headline.
    """
    kept, scores = chosen_outcomes(every, dev), []
    for (name, encoder, condition, way, where, source, target, *_), seeds in kept.items():
        first = next(iter(seeds.values()))
        fields: dict[str, Any] = {
            "task": name,
            "encoder": encoder,
            "condition": _condition(condition, way),
            "source": source,
            "target": target,
            "n": n_counted(tasks[name].task, first),
            "details": setting_of(where),
        }
        scores.append(over_seeds(seeds, fields))
    for name, data in tasks.items():
        if data.task.kind == "answer":  # there is no most frequent answer
            continue
        scores += majority_scores(name, data, spans_by)
    return [*scores, *_differences(kept, tasks)]


def _condition(condition: str | None, way: str | None) -> str | None:
    told = [one for one in (condition, _WAYS[way or "dev"]) if one is not None]
    return "_".join(told) or None


def majority_scores(name: str, data: TaskData, spans_by: str) -> Iterator[Score]:
    """The control without an encoder, in each test language."""
    trained = data.trained_on
    for target, split in data.tests.items():
        answers = majority(data.task, data.train, split)
        for one in counted(data.task, split, answers, spans_by):
            fields = {"task": name, "source": trained, "target": target, "condition": "majority"}
            made = outcomes(split, answers, one, task=name)
            n = n_counted(data.task, made)
            yield over_seeds({0: made}, {**fields, "n": n, "details": {"part": "test"}})


def _differences(
    kept: Mapping[tuple[Any, ...], Mapping[int, Outcomes]], tasks: Mapping[str, TaskData]
) -> Iterator[Score]:
    """Zero-shot less in-language, and each encoder less each later one, at the epoch that is best on
    dev."""
    for key, seeds in kept.items():
        name, encoder, condition, way, where, source, target, quantity, preset = key
        if condition is not None or way != "dev":
            continue
        for other, theirs in kept.items():
            same = (other[0], other[3], other[6], other[7], other[8]) == (
                name,
                way,
                target,
                quantity,
                preset,
            )
            rival = same and other[2] is None and other[5] == source and other[1] != encoder
            rival = rival and list(kept).index(other) > list(kept).index(key)
            reference = same and other[2] == IN_LANGUAGE and other[1] == encoder
            frozen_alike = other[4].partition(", ")[2] == where.partition(", ")[2]
            if not (frozen_alike and (rival or reference)):
                continue
            fields = {
                "task": name,
                "encoder": f"{encoder} / {other[1]}" if rival else encoder,
                "condition": "encoders" if rival else LESS,
                "source": source,
                "target": target,
                "n": n_counted(tasks[name].task, next(iter(seeds.values()))),
                "details": {**setting_of(where), **({"counted_as": preset} if preset else {})},
            }
            if (score := difference(seeds, theirs, fields)) is not None:
                yield score
