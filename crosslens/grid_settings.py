"""The settings of a grid that a run of transfer took, and what was answered with them.

Each setting of a preset is trained with one seed; those that are best on dev of the training language
are trained with all, and reported alone.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.outcomes import Outcomes
from crosslens.score import Score

__all__ = ["averaged", "chosen_outcomes", "chosen_settings", "setting_of", "settings_taken"]


def setting_of(where: str | None) -> dict[str, Any]:
    """The setting and the frozen layers of a fine-tuning, from its outcomes."""
    setting, _, frozen = (where or "").partition(", ")
    freeze = int(frozen.removeprefix("freeze ") or -1)
    number = int(setting.removeprefix("setting ") or 0)
    return {"part": "test", "setting": number} | ({} if freeze == -1 else {"freeze": freeze})


def chosen_outcomes(
    every: Iterable[Outcomes], dev: Iterable[Score]
) -> dict[tuple[Any, ...], dict[int, Outcomes]]:
    """(task, encoder, condition, which weights, setting and frozen layers, source, target, quantity,
    whose count) -> seed -> outcomes, of the settings that were chosen on dev alone; of two that were,
    their mean, under the name of the better one."""
    chosen = chosen_settings(dev)
    groups: dict[tuple[Any, ...], dict[int, dict[int, Outcomes]]] = {}
    for one in every:
        told = setting_of(one.representation)
        system = _system(one, told.get("freeze", -1))
        taken = chosen.get(system, [told["setting"]])
        if told["setting"] not in taken:
            continue
        where = f"setting {taken[0]}, {str(one.representation).partition(', ')[2]}"
        key = (one.task, one.encoder, one.condition, one.suite, where, one.source)
        mine = groups.setdefault((*key, one.target, one.quantity, one.method), {})
        mine.setdefault(one.seed or 0, {})[taken.index(told["setting"])] = one
    return {
        key: {
            seed: averaged([found[rank] for rank in sorted(found)]) for seed, found in mine.items()
        }
        for key, mine in groups.items()
    }


def chosen_settings(dev: Iterable[Score]) -> dict[tuple[Any, ...], list[int]]:
    """(task, encoder, condition, source, frozen layers, the test set that it is trained for, or None)
    -> numbers of the settings of a grid that are taken, the best on dev first; nothing of systems
    with one setting."""
    found = {}
    for score in dev:
        told = score.details or {}
        if "chosen" in told:
            found[_system(score, told.get("freeze", -1))] = list(told["chosen"])
    return found


def settings_taken(task: str, values: Mapping[str, Any], dev: Iterable[Score]) -> dict[str, str]:
    """What was fine-tuned on a grid -> the values that it took, of the names that were to be chosen.

    Parameters
    ----------
    values: of the task, as a run records them: a list where one of several was to be chosen.

    >>> told = {"setting": 0, "chosen": [1]}
    >>> dev = [Score(quantity="las", value=0.5, n=9, task="t", encoder="e", source="eng", details=told)]
    >>> settings_taken("t", {"epochs": [3, 4], "batch_size": 32}, dev)
    {'e, trained on eng': 'epochs 4'}
    """
    names = [name for name, value in values.items() if isinstance(value, list)]
    points = [*itertools.product(*(values[name] for name in names))]
    found = {}
    for system, chosen in chosen_settings(dev).items():
        of, encoder, condition, source, freeze, target = system
        if of != task or not all(number < len(points) for number in chosen):
            continue
        told = [str(encoder), *([] if condition is None else [condition.replace("_", " ")])]
        told += [] if freeze == -1 else [f"frozen to layer {freeze}"]
        pairs = [zip(names, points[number], strict=True) for number in chosen]
        each = [", ".join(f"{name} {value}" for name, value in some) for some in pairs]
        found[", ".join([*told, f"trained on {target or source}"])] = "; and ".join(each)
    return found


def _system(one: Score | Outcomes, freeze: int) -> tuple[Any, ...]:
    """In its own language each test set has a training of its own: two treebanks may have one code."""
    target = one.target if one.condition == "in_language" else None
    return one.task, one.encoder, one.condition, one.source, freeze, target


def averaged(found: Sequence[Outcomes]) -> Outcomes:
    """Several measurements of the same items as one, whose share is the mean of their shares.

    Each counts alike, however much it counts (for F1, predicted and gold), and of each item no more
    is found than there is.

    >>> ids = np.array(["a", "b"])
    >>> one, two = (
    ...     Outcomes(task="t", quantity="span_f1", item=np.arange(2), item_id=ids, group=ids,
    ...              outcome=np.array(right), of=np.array(of))
    ...     for right, of in (([2.0, 0.0], [2.0, 2.0]), ([0.0, 0.0], [2.0, 6.0]))
    ... )
    >>> one.mean, two.mean, averaged([one, two]).mean
    (0.5, 0.0, 0.25)
    """
    if len(found) == 1:
        return found[0]
    sides = [(one.outcome, np.ones(len(one)) if one.of is None else one.of) for one in found]
    sizes = [float(of.sum()) for _, of in sides]
    scales = [np.mean(sizes) / size if all(sizes) else 1.0 for size in sizes]
    outcome, of = (
        np.mean([scale * side[k] for scale, side in zip(scales, sides, strict=True)], axis=0)
        for k in (0, 1)
    )
    return dataclasses.replace(found[0], outcome=outcome, of=of)
