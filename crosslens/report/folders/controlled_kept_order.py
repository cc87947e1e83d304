"""How alignment goes with how much of the order a derived language keeps (the ladder)."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from crosslens.report.folders.controlled import REACHED, StudyFolder, onset
from crosslens.report.folders.controlled_sentences import WITH_INTERVAL
from crosslens.stats import spearman_interval

__all__ = ["KeptOrder", "kept_order"]

_FLOOR = 0.05  # P@1 below which alignment is none


@dataclasses.dataclass(frozen=True)
class KeptOrder:
    """Conditions by how much of the order of English they keep, by two numbers that are known before
    anything is trained.

    Attributes
    ----------
    kept: condition -> share of neighbours that stay neighbours, in their order.
    contexts: condition -> share of subwords near each other that stay near, in any order; empty
        where a study of an earlier version did not measure it.
    aligned: condition -> P@1 of subwords, the mean over seeds. mapped: the same after a map.
    onsets: condition -> tokens until it is .5, the median over the seeds whose training is over;
        infinite where half of these or more did not get there.
    under_way: seeds of these conditions whose training is not over.
    """

    kept: Mapping[str, float]
    contexts: Mapping[str, float]
    aligned: Mapping[str, float]
    mapped: Mapping[str, float]
    onsets: Mapping[str, float]
    under_way: int = 0

    def correlation(self, kept: Mapping[str, float]) -> tuple[float, float, float]:
        """Spearman's correlation of alignment with what is kept (by one of the two numbers), over
        conditions, and its 95 % interval; NaN where it cannot be computed. Alignment below .05 is
        none: conditions there are tied, since what differs among them is chance."""
        return _spearman(kept, {name: max(one, _FLOOR) for name, one in self.aligned.items()})

    def mapped_correlation(self, kept: Mapping[str, float]) -> tuple[float, float, float]:
        """The same of alignment after a map."""
        return _spearman(kept, {name: max(one, _FLOOR) for name, one in self.mapped.items()})

    def onset_correlation(self, kept: Mapping[str, float]) -> tuple[float, float, float]:
        """The same of tokens until .5. Those that did not get there are tied, and last."""
        last = 2 * max((one for one in self.onsets.values() if math.isfinite(one)), default=1.0)
        return _spearman(kept, {name: min(one, last) for name, one in self.onsets.items()})

    def told(self) -> str:
        """What goes with what, in some sentences."""
        low, mapped_low = (
            sum(one < _FLOOR for one in side.values()) for side in (self.aligned, self.mapped)
        )
        never = sum(math.isinf(one) for one in self.onsets.values())
        how = (self.correlation, self.mapped_correlation, self.onset_correlation)
        aligned, mapped, onsets = map(self._goes_with, how)
        left_out = {
            0: "",
            1: "; 1 seed that is under way is left out",
        }.get(self.under_way, f"; {self.under_way} seeds that are under way are left out")
        turned = (
            " A rule that turns sentences round keeps all contexts, and no neighbours in their order."
            if self.contexts
            else ""
        )
        return (
            f"Over {len(self.aligned)} conditions, P@1 of subwords: {aligned}; {low} of them are "
            f"below {_FLOOR} and count as tied. After a map: {mapped}; {mapped_low} are tied. "
            f"Tokens until P@1 is {REACHED}: {onsets}; {never} did not get there and share the "
            f"last rank{left_out}.{turned}"
        )

    def _goes_with(self, how: Callable[[Mapping[str, float]], tuple[float, float, float]]) -> str:
        """How something goes with what is kept, by each of the two numbers."""
        numbers = {"neighbours": self.kept, "contexts": self.contexts}
        found = {name: how(kept) for name, kept in numbers.items() if kept}
        told = [
            f"{value:z.2f} [{low:z.2f}, {high:z.2f}] with the share of {name} kept"
            for name, (value, low, high) in found.items()
            if not math.isnan(value)
        ]
        return f"Spearman's {' and '.join(told)}" if told else "nothing to hold them against"


def _spearman(kept: Mapping[str, float], values: Mapping[str, float]) -> tuple[float, float, float]:
    names = [name for name in kept if name in values]
    x, y = (np.array([side[name] for name in names]) for side in (kept, values))
    if len(names) < WITH_INTERVAL or len(set(x.tolist())) < 2 or len(set(y.tolist())) < 2:
        return math.nan, math.nan, math.nan
    return spearman_interval(x, y)


def kept_order(study: StudyFolder) -> KeptOrder | None:
    """The conditions of a study by how much of the order they keep; None where fewer than eight
    say so and have subwords that could be aligned."""
    kept, contexts = dict[str, float](), dict[str, float]()
    aligned, mapped, onsets = dict[str, float](), dict[str, float](), dict[str, float]()
    under_way = 0
    for name in study.names:
        order = study.mean(name, "neighbours_kept", None)
        near = study.mean(name, "contexts_kept", None)
        found = study.mean(name, "token_alignment", "unaligned")
        turned = study.mean(name, "token_alignment", "procrustes")
        learning = study.learning.get(name)
        if order is None or found is None or learning is None:
            continue
        kept[name], aligned[name] = order.value, found.value
        mapped |= {} if turned is None else {name: turned.value}
        contexts |= {} if near is None else {name: near.value}
        each = [onset(learning.seeds[seed], REACHED) for seed in learning.ended]
        under_way += len(learning.seeds) - len(each)
        if each:
            onsets[name] = float(np.median([math.inf if one is None else one for one in each]))
    contexts = contexts if contexts.keys() == kept.keys() else {}
    if len(kept) < WITH_INTERVAL:
        return None
    return KeptOrder(kept, contexts, aligned, mapped, onsets, under_way)
