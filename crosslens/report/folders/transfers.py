"""Systems of one or several runs of transfer, measured on the test items that all of them have."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crosslens.outcomes import FILE, Outcomes, read_outcomes, sums_by_group
from crosslens.report.folders.transfer import System, Transfer, called
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
        for system, one in _measured(run, main):
            systems, name = run.systems(), short[str(run.folder)]
            if len(systems) > 1:
                name = called(system, systems) + (f" ({name})" if len(runs) > 1 else "")
            seeds = every.setdefault((one.task, str(one.target)), {})
            seeds.setdefault(name, {})[one.seed or 0] = one
    found = (_contest(*place, *main[place[0]], systems) for place, systems in every.items())
    return [one for one in found if one is not None]


def _measured(
    run: Transfer, main: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[System, Outcomes]]:
    """What each system of a run has answered, seed by seed."""
    if not (run.folder / FILE).is_file():
        return
    chosen = {
        (task, target, system.encoder, f"setting {score.evidence.setting or 0}, freeze {system.freeze}"): system
        for task in run.main
        for target in run.targets(task)
        for system in run.systems()
        if (score := run.find(task, target, None, system)) is not None
    }  # fmt: skip
    for one in read_outcomes(run.folder, condition=None, suite="dev"):
        key = (one.task, str(one.target), str(one.encoder), str(one.representation))
        if key in chosen and (one.quantity, one.method or "") == main[one.task]:
            yield chosen[key], one


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
