"""Systems of one or several runs of transfer, measured on the test items that all of them have."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from crosslens.outcomes import Outcomes, sums_by_group
from crosslens.report.folders.transfer import Transfer, called
from crosslens.report.parts.wording import short_folders
from crosslens.score import Score
from crosslens.seed_intervals import seeds_difference, seeds_share

__all__ = ["Contest", "contests"]


@dataclasses.dataclass(frozen=True)
class Contest:
    """The systems that were tested in a language of a task, on the items that all of them have.

    Attributes
    ----------
    task, target: of the task, the language or test set.
    quantity, counted_as: what is measured, and by whose definition ("" where there is one alone).
    scores: name of a system -> its mean over seeds; in the order of the runs.
    less: name of a system -> its difference to the first one: the same items, seeds not paired.
    left_out: items that some of the systems have and others lack.
    """

    task: str
    target: str
    quantity: str
    counted_as: str
    scores: Mapping[str, Score]
    less: Mapping[str, Score]
    left_out: int


def contests(runs: Sequence[Transfer]) -> list[Contest]:
    """Where two or more systems of these runs, encoders or numbers of frozen layers, were tested on
    the same items by the same quantity, at the setting and the epoch that are best on dev."""
    short = short_folders([str(run.folder) for run in runs])
    every: dict[tuple[str, str], dict[str, dict[int, Outcomes]]] = {}
    main: dict[str, tuple[str, str]] = {}
    for run in runs:
        main = {**run.main, **main}
        systems, short_name = run.systems(), short[str(run.folder)]
        for task in run.main:
            quantity, method = main[task]
            wanted = {"quantity": quantity, "method": method or None}
            for system in systems:
                name = short_name
                if len(systems) > 1:
                    name = called(system, systems)
                    name += f" ({short_name})" if len(runs) > 1 else ""
                for target, seeds in run.answered(task, system, **wanted).items():
                    every.setdefault((task, target), {}).setdefault(name, {}).update(seeds)
    found = (_contest(*place, *main[place[0]], systems) for place, systems in every.items())
    return [one for one in found if one is not None]


def _contest(
    task: str,
    target: str,
    quantity: str,
    counted_as: str,
    systems: Mapping[str, Mapping[int, Outcomes]],
) -> Contest | None:
    if len(systems) < 2:
        return None
    names = [set(next(iter(seeds.values())).item_id.tolist()) for seeds in systems.values()]
    shared, all_of_them = set.intersection(*names), set.union(*names)
    first = next(iter(next(iter(systems.values())).values()))
    items = [name for name in first.item_id.tolist() if name in shared]
    if not items:
        return None
    sides = {
        name: sums_by_group([seeds[seed] for seed in sorted(seeds)], items)
        for name, seeds in systems.items()
    }
    if not all((of.sum(axis=1) > 0).all() for _, of in sides.values()):
        return None  # nothing to count: no gold and no predicted name
    fields = {"task": task, "target": target, "n": len(items)}
    scores, less = dict[str, Score](), dict[str, Score]()
    start = next(iter(sides.values()))
    for place, (name, side) in enumerate(sides.items()):
        scores[name] = _score(quantity, seeds_share(*side), fields)
        if place:
            less[name] = _score(f"{quantity}_difference", seeds_difference(side, start), fields)
    left_out = len(all_of_them) - len(items)
    return Contest(task, target, quantity, counted_as, scores, less, left_out)


def _score(quantity: str, found: tuple[float, float, float], fields: Mapping[str, Any]) -> Score:
    value, low, high = found
    ends = (None, None) if math.isnan(low) else (low, high)
    return Score(quantity=quantity, value=value, low=ends[0], high=ends[1], **fields)
