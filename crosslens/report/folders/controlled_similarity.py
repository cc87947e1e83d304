"""How alike models are, layer by layer, in a controlled study: curves of CKA, their averages, and
how CKA goes with retrieval (Conneau et al. 2020, § 5.4)."""

import dataclasses
import itertools
import math
from collections.abc import Mapping

import numpy as np

from crosslens.report.folders.controlled import StudyFolder
from crosslens.report.folders.controlled_findings import verdict, welch
from crosslens.report.folders.controlled_sentences import WITH_INTERVAL
from crosslens.report.folders.log import as_table
from crosslens.score import QUANTITIES, Score
from crosslens.stats import mean_interval, pearson_interval

__all__ = [
    "CKA",
    "Curve",
    "average_differences",
    "curves_by_pair",
    "has_two_models",
    "layer_correlations",
    "over_layers_told",
    "shown",
    "similarity_told",
]

CKA = {"linear_cka": "linear CKA", "debiased_linear_cka": "debiased linear CKA"}
"""Quantity -> what it is called, that of the papers first."""

_RANDOM = "random_encoder"
_WORDS = {"found": "above 0", "reversed": "below 0"}  # no order is expected
_FEWEST = 4  # layers over which a correlation is told
_RETRIEVAL = {"unaligned": "without a map", "procrustes": "after one"}


@dataclasses.dataclass(frozen=True)
class Curve:
    """CKA of one pair of encoders by layer.

    Attributes
    ----------
    name: how it is called. condition: of the study. is_random: the second side's encoder is
        untrained.
    """

    name: str
    condition: str
    is_random: bool

    def layers(self, study: StudyFolder, quantity: str) -> dict[int, Score]:
        """Layer -> mean over seeds."""
        return study.curve(self.condition, quantity, _RANDOM if self.is_random else None)

    def averages(self, study: StudyFolder, quantity: str) -> np.ndarray:
        """(seeds,) the mean over layers, L0 among them, of each seed."""
        return _over_layers(study, self.condition, quantity, _RANDOM if self.is_random else None)

    def average(self, study: StudyFolder, quantity: str) -> tuple[float, float, float]:
        """The mean over layers and seeds, and its 95 % interval over seeds; NaN of one seed."""
        value, low, high = _spread(self.averages(study, quantity))
        limits = QUANTITIES[quantity]
        return value, max(low, limits.low), min(high, limits.high)


def has_two_models(study: StudyFolder) -> bool:
    """Whether a study compares encoders of two trainings."""
    return any(as_table(one).get("beside") for one in study.conditions.values())


def curves_by_pair(study: StudyFolder) -> dict[str, list[Curve]]:
    """Second language -> the curves of its pair of texts: one model of both, a model of each, and
    an untrained one on the second side."""
    pairs: dict[str, list[Curve]] = {}
    for name in study.names:
        target = next(
            (s.target for s in study.scores if s.encoder == name and s.quantity in CKA), None
        )
        if target is None:
            continue
        found = pairs.setdefault(target, [])
        apart = bool(as_table(study.conditions.get(name)).get("beside"))
        found.append(Curve(name, name, False))
        if apart:
            which = name.partition("-")[2] or target  # "monolingual-fra"
            found.append(Curve(f"random-{which}", name, True))
    return pairs


def average_differences(study: StudyFolder) -> list[tuple[str, ...]]:
    """For each pair of texts, each curve less each later one by their averages: the difference with its
    95 % interval over seeds (Welch), and whether it is above 0, below, or open."""
    rows: list[tuple[str, ...]] = []
    for curves in curves_by_pair(study).values():
        for upper, lower in itertools.combinations(curves, 2):
            sides = [one.averages(study, "debiased_linear_cka") for one in (upper, lower)]
            found = welch(*sides) if min(map(len, sides)) > 1 else None
            if found is None and min(map(len, sides)):
                difference = float(sides[0].mean() - sides[1].mean())
                found = difference, math.nan, math.nan
            told, word = verdict(found)
            rows.append((f"{upper.name} less {lower.name}", told, _WORDS.get(word, word)))
    return rows


def layer_correlations(
    study: StudyFolder, name: str
) -> Mapping[str, tuple[float, float, float, int]]:
    """ "unaligned" and "procrustes" -> Pearson's correlation of debiased CKA with P@1 of sentences
    over the layers of one condition, the mean over seeds with its 95 % interval (NaN of one seed),
    and how many layers; left out where there are fewer than four, or one of both is constant."""
    found = {}
    for condition in _RETRIEVAL:
        values, n = [], 0
        for seed in _seeds(study, name):
            cka = _by_layer(study, name, "debiased_linear_cka", None, seed)
            hits = _by_layer(study, name, "precision_at_1", condition, seed)
            layers = sorted(cka.keys() & hits.keys())
            x, y = (np.array([side[layer] for layer in layers]) for side in (cka, hits))
            finite = np.isfinite(x) & np.isfinite(y)
            x, y, n = x[finite], y[finite], int(finite.sum())
            if n >= _FEWEST and min(np.ptp(x), np.ptp(y)) > 0:
                values.append(float(np.corrcoef(x, y)[0, 1]))
        if values:
            mean, low, high = _spread(np.array(values))
            found[condition] = (mean, max(low, -1.0), min(high, 1.0), n)
    return found


def over_layers_told(study: StudyFolder) -> list[str]:
    """A sentence on how CKA and retrieval go together over the layers of each condition; none where
    no condition has four layers."""
    found = {name: layer_correlations(study, name) for name in study.names}
    found = {name: one for name, one in found.items() if one}
    if not found:
        return []
    numbers = {name: max(one[3] for one in kinds.values()) for name, kinds in found.items()}
    same = len(set(numbers.values())) == 1
    told = [
        f"{name}{'' if same else f' ({numbers[name]} layers)'} "
        + ", ".join(f"{shown(one[:3], 2)} {_RETRIEVAL[key]}" for key, one in kinds.items())
        for name, kinds in found.items()
    ]
    over = f"{numbers[next(iter(numbers))]} layers" if same else "layers"
    return [
        f"Over {over}, debiased CKA and P@1 of sentences: Pearson's {'; '.join(told)}. "
        "Brackets, where there are several seeds: 95 % over them."
    ]


def shown(found: tuple[float, float, float], places: int = 3) -> str:
    """A value and its interval, where it has one; "-" where there is no value.

    >>> shown((0.5, 0.25, 0.75), 2), shown((0.5, math.nan, math.nan), 2), shown((math.nan,) * 3)
    ('0.50 [0.25, 0.75]', '0.50', '-')
    """
    if math.isnan(found[0]):
        return "-"
    value, low, high = (f"{one:z.{places}f}" for one in found)
    return value if math.isnan(found[1]) else f"{value} [{low}, {high}]"


def _spread(values: np.ndarray) -> tuple[float, float, float]:
    if len(values) > 1:
        return mean_interval(values)
    return (float(values[0]) if len(values) else math.nan), math.nan, math.nan


def _seeds(study: StudyFolder, name: str) -> list[int]:
    return sorted({s.seed for s in study.scores if s.encoder == name and s.seed is not None})


def _by_layer(
    study: StudyFolder, name: str, quantity: str, condition: str | None, seed: int
) -> dict[int, float]:
    """Layer -> value of one seed; of retrieval the mean of both directions over the sentences that
    are held out."""
    found: dict[int, list[float]] = {}
    for score in study.scores:
        mine = (score.encoder, score.quantity, score.condition, score.seed)
        if mine != (name, quantity, condition, seed) or score.layer is None:
            continue
        if quantity == "precision_at_1" and score.evidence.part != "held_out":
            continue
        found.setdefault(score.layer, []).append(score.value)
    return {layer: float(np.mean(values)) for layer, values in found.items()}


def _over_layers(study: StudyFolder, name: str, quantity: str, condition: str | None) -> np.ndarray:
    found = [
        float(np.mean(list(curve.values())))
        for seed in _seeds(study, name)
        if (curve := _by_layer(study, name, quantity, condition, seed))
    ]
    return np.array(found)


def similarity_told(study: StudyFolder) -> list[str]:
    """A sentence on how CKA and retrieval go together over conditions, each at the layer where its
    sentences are found best; none of fewer than four conditions, or where one is everywhere the same."""
    pairs = []
    for name in study.layers:
        both = study.sentences(name), study.cka(name)
        values = [math.nan if one is None else one.value for one in both]
        if not any(map(math.isnan, values)):
            pairs.append(values)
    x, y = (np.array(side) for side in zip(*pairs, strict=True)) if pairs else (np.zeros(0),) * 2
    if len(pairs) < 4 or min(np.ptp(x), np.ptp(y)) == 0:
        return []
    r, low, high = pearson_interval(x, y)
    ends = f" [{low:z.2f}, {high:z.2f}]" if len(pairs) >= WITH_INTERVAL else ""
    return [
        f"Over {len(pairs)} conditions, P@1 of sentences and CKA at the same layer: Pearson's "
        f"{r:z.2f}{ends}."
    ]
