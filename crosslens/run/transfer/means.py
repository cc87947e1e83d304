"""Means over the seeds of a run of transfer, with intervals, beside the controls, and differences."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crosslens.outcomes import Outcomes
from crosslens.run.transfer.data import TaskData
from crosslens.run.transfer.fits import IN_LANGUAGE, RANDOM
from crosslens.run.transfer.measures import (
    counted,
    difference,
    items_counted,
    majority,
    outcomes,
    over_seeds,
)
from crosslens.run.transfer.presets import SPANS_BY, Preset
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.splits import Split
from crosslens.score import Score

__all__ = ["majority_scores", "means", "n_counted", "told_of"]

_WAYS = {
    "dev": None,
    "last": "last_epoch",
    "average": "averaged_epochs",
    "target_dev": "target_dev_oracle",
}


def means(
    transfer: Transfer,
    tasks: Mapping[str, TaskData],
    every: Sequence[Outcomes],
    presets: Mapping[str, Preset],
) -> list[Score]:
    """Means over seeds of each quantity in each language, the controls, and differences."""
    groups: dict[tuple[Any, ...], dict[int, Outcomes]] = {}
    for one in every:
        key = (one.task, one.encoder, one.condition, one.suite, one.representation, one.source)
        groups.setdefault((*key, one.target, one.quantity, one.method), {})[one.seed or 0] = one
    kept = {key: seeds for key, seeds in groups.items() if _complete(transfer, key, groups)}
    scores = []
    spans_by = SPANS_BY.get(transfer.preset, "strict")
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


def _complete(transfer: Transfer, key: tuple[Any, ...], groups: Mapping[Any, Any]) -> bool:
    """Whether a setting was measured with all seeds: others of a grid were tried with one."""
    seeds = 1 if key[2] == RANDOM else transfer.seeds
    return len(groups[key]) == seeds or transfer.seeds == 1


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
