"""Means over the seeds of a run of transfer, with intervals, beside the controls, and differences."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crosslens.outcomes import Outcomes
from crosslens.run.transfer.data import TaskData
from crosslens.run.transfer.fits import IN_LANGUAGE
from crosslens.run.transfer.measures import (
    averaged,
    counted,
    difference,
    items_counted,
    majority,
    outcomes,
    over_seeds,
)
from crosslens.run.transfer.splits import Split
from crosslens.score import Score

__all__ = [
    "chosen_outcomes",
    "chosen_settings",
    "majority_scores",
    "means",
    "n_counted",
    "told_of",
]

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
    every: what was answered, of each setting of a grid and each seed.
    dev: scores of dev, which say what setting of a grid is taken; of two that are, each seed has the
        mean.
    spans_by: whose reading of tags is the headline.
    """
    kept, scores = chosen_outcomes(every, dev), []
    for (name, encoder, condition, way, where, source, target, *_), seeds in kept.items():
        data = tasks[name]
        split = data.tests.get(target)
        first = next(iter(seeds.values()))
        fields: dict[str, Any] = {
            "task": name,
            "encoder": encoder,
            "condition": _condition(condition, way),
            "source": source,
            "target": target,
            "n": len(first) if split is None else n_counted(data, split, first),
            "details": told_of(where),
        }
        scores.append(over_seeds(seeds, fields))
    for name, data in tasks.items():
        if data.task.kind == "answer":  # there is no most frequent answer
            continue
        scores += majority_scores(name, data, spans_by)
    return [*scores, *_differences(kept, tasks)]


def chosen_outcomes(
    every: Sequence[Outcomes], dev: Sequence[Score]
) -> dict[tuple[Any, ...], dict[int, Outcomes]]:
    """(task, encoder, condition, which weights, setting and frozen layers, source, target, quantity,
    whose count) -> seed -> outcomes, of the settings that were chosen on dev alone; of two that were,
    their mean, under the name of the better one."""
    chosen = chosen_settings(dev)
    groups: dict[tuple[Any, ...], dict[int, list[Outcomes]]] = {}
    for one in every:
        told = told_of(one.representation)
        system = (one.task, one.encoder, one.condition, one.source, told.get("freeze", -1))
        taken = chosen.get(system, [told["setting"]])
        if told["setting"] not in taken:
            continue
        where = f"setting {taken[0]}, {str(one.representation).partition(', ')[2]}"
        key = (one.task, one.encoder, one.condition, one.suite, where, one.source)
        mine = groups.setdefault((*key, one.target, one.quantity, one.method), {})
        mine.setdefault(one.seed or 0, []).append(one)
    return {
        key: {seed: averaged(found) for seed, found in mine.items()} for key, mine in groups.items()
    }


def chosen_settings(dev: Sequence[Score]) -> dict[tuple[Any, ...], list[int]]:
    """(task, encoder, condition, source, frozen layers) -> numbers of the settings of a grid that are
    taken, the best on dev first; nothing of systems with one setting."""
    found = {}
    for score in dev:
        told = score.details or {}
        if "chosen" in told:
            system = (score.task, score.encoder, score.condition, score.source)
            found[(*system, told.get("freeze", -1))] = list(told["chosen"])
    return found


def _condition(condition: str | None, way: str | None) -> str | None:
    told = [one for one in (condition, _WAYS[way or "dev"]) if one is not None]
    return "_".join(told) or None


def told_of(where: str | None) -> dict[str, Any]:
    """The setting and the frozen layers of a fine-tuning, from its outcomes."""
    setting, _, frozen = (where or "").partition(", ")
    freeze = int(frozen.removeprefix("freeze ") or -1)
    number = int(setting.removeprefix("setting ") or 0)
    return {"part": "test", "setting": number} | ({} if freeze == -1 else {"freeze": freeze})


def n_counted(data: TaskData, split: Split, first: Outcomes) -> int:
    """What the n of a measurement is, from its outcomes."""
    from crosslens.probes.methods.counted import Counted

    assert first.of is not None
    if split.original and first.gold is not None and data.task.spans:  # names may be torn apart
        labels = [["" if tag == "_" else tag for tag in row.split()] for row in first.gold.tolist()]
        split = dataclasses.replace(split, labels=labels)
    return items_counted(
        data.task, split, Counted(first.quantity, first.outcome, first.of, first.method or "")
    )


def majority_scores(name: str, data: TaskData, spans_by: str) -> Iterator[Score]:
    """The control without an encoder, in each test language."""
    trained = "+".join(one.language for one in data.train)
    for target, split in data.tests.items():
        answers = majority(data.task, data.train, split)
        for one in counted(data.task, split, answers, spans_by):
            fields = {"task": name, "source": trained, "target": target, "condition": "majority"}
            made = outcomes(split, answers, one, task=name)
            n = items_counted(data.task, split, one)
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
            rival = rival and other[4] == where and list(kept).index(other) > list(kept).index(key)
            reference = same and other[2] == IN_LANGUAGE and other[1] == encoder
            if not (rival or reference and other[4].endswith(where.partition(", ")[2])):
                continue
            fields = {
                "task": name,
                "encoder": f"{encoder} / {other[1]}" if rival else encoder,
                "condition": "encoders" if rival else "zero_shot_less_in_language",
                "source": source,
                "target": target,
                "n": len(next(iter(seeds.values()))),
                "details": {**told_of(where), **({"counted_as": preset} if preset else {})},
            }
            if (score := difference(seeds, theirs, fields)) is not None:
                yield score
