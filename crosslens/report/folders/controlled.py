"""A controlled study as its report and the terminal show it: each condition, whether what the paper
found is found, and how alignment grew while the conditions were trained."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from crosslens.errors import StoreError, refuse
from crosslens.files import check_shape, read_json
from crosslens.readers.published import PAPERS, published
from crosslens.report.folders.log import as_number, as_table, read_log
from crosslens.score import Score, format_value, read_scores
from crosslens.seed_intervals import seeds_difference
from crosslens.seed_means import hits_of, means
from crosslens.selection import Best, chosen_layer
from crosslens.stats import mean_interval, pearson_interval, spearman_interval

__all__ = [
    "KeptOrder",
    "Learning",
    "StudyFolder",
    "differences",
    "findings",
    "kept_order",
    "load_study",
    "measured_so_far",
    "onset",
    "printed",
    "printed_what",
    "similarity_told",
    "summary",
]

_Rows = list[tuple[str, ...]]
_FEWEST = 8  # conditions by which a correlation is told
_FLOOR = 0.05  # P@1 below which alignment is none
_REACHED = 0.5  # what the positive control must reach
_AGAIN = "run the study again"


class Told(TypedDict):
    """What a run notes of its study."""

    name: str
    question: str
    paper: str
    order: list[list[str]]
    control: str
    published: dict[str, str]


def measured_so_far(folder: str | Path) -> list[Score]:
    """The measurements of a study, finished or not: of each seed, and the means over those that are
    there."""
    folder = Path(folder)
    if (folder / "scores.jsonl").exists():
        return list(read_scores(folder / "scores.jsonl"))
    found = [
        score for part in sorted((folder / "parts").glob("*.jsonl")) for score in read_scores(part)
    ]
    return [*found, *means(found)]


@dataclasses.dataclass(frozen=True)
class Learning:
    """P@1 of subwords while one condition was trained.

    Attributes
    ----------
    seeds: seed -> tokens seen, both languages' -> P@1, the mean of both directions.
    end: tokens of a whole training.
    """

    seeds: Mapping[int, Mapping[float, float]]
    end: float

    def curve(self) -> dict[float, tuple[float, float, float]]:
        """Tokens -> mean over the seeds and its 95 % interval (NaN of one seed), where all seeds
        were measured."""
        every = [set(curve) for curve in self.seeds.values()]
        found = {}
        for tokens in sorted(set.intersection(*every)) if every else ():
            values = np.array([curve[tokens] for curve in self.seeds.values()])
            mean, low, high = (
                mean_interval(values) if len(values) > 1 else (values[0], math.nan, math.nan)
            )
            found[tokens] = (float(mean), float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1)))
        return found

    def reached(self) -> str:
        """After how many tokens P@1 was .5, over the seeds; seeds that did not get there are
        counted, not averaged."""
        onsets = [onset(curve, _REACHED) for curve in self.seeds.values()]
        there = [one / 1e6 for one in onsets if one is not None]
        last = max((max(curve) for curve in self.seeds.values()), default=self.end)
        if not there:
            return f"not by {last / 1e6:.1f} M"
        if len(there) < len(onsets):
            when = " and ".join(f"{one:.1f}" for one in sorted(there))
            return f"{len(there)} of {len(onsets)} seeds, at {when} M"
        if len(there) == 1:
            return f"{there[0]:.1f} M"
        mean, low, high = mean_interval(np.array(there))
        return f"{mean:.1f} M [{max(0.0, low):.1f}, {high:.1f}]"


def onset(curve: Mapping[float, float], level: float) -> float | None:
    """Where a curve first reaches a level, on straight lines between its points; None where it does
    not.

    >>> onset({1e6: 0.1, 2e6: 0.3, 3e6: 0.7}, 0.5), onset({1e6: 0.1}, 0.5)
    (2500000.0, None)
    """
    before: tuple[float, float] | None = None
    for place, value in sorted(curve.items()):
        if value >= level:
            if before is None:
                return place
            return before[0] + (place - before[0]) * (level - before[1]) / (value - before[1])
        before = (place, value)
    return None


@dataclasses.dataclass(frozen=True)
class StudyFolder:
    """A run's folder, finished or not.

    Attributes
    ----------
    told: what it notes of its study. scores: of each seed, and means (without a seed).
    names: conditions that are measured. layers: the layer at which each one's sentences are found
        best, chosen on other sentences. learning: of conditions whose subwords have two ids.
    config: all of its config.json.
    """

    told: Told
    scores: list[Score]
    names: list[str]
    layers: Mapping[str, Best | None]
    learning: Mapping[str, Learning]
    config: Mapping[str, Any]

    def mean(
        self, name: str, quantity: str, condition: str | None, layer: int | None = None
    ) -> Score | None:
        """A mean over seeds; None where there is none."""
        return _mean_of(self.scores, name, quantity, condition, layer)

    def curve(self, name: str, quantity: str, condition: str | None) -> dict[int, Score]:
        """Layer -> mean over seeds."""
        return {
            score.layer: score
            for score in self.scores
            if score.seed is None
            and score.layer is not None
            and (score.encoder, score.quantity, score.condition) == (name, quantity, condition)
        }


def load_study(folder: str | Path) -> StudyFolder:
    """What a study's folder says so far.

    Raises
    ------
    StoreError: the folder holds no such study, or nothing of it is measured yet.
    """
    folder = Path(folder)
    config = read_json(folder / "config.json", dict, _AGAIN)
    told: Told = check_shape(config.get("study"), f"{folder}/config.json, study", Told, _AGAIN)
    scores = measured_so_far(folder)
    if not scores:
        refuse(str(folder), "a training that is measured", "none yet", "resume it", StoreError)
    measured = dict.fromkeys(str(score.encoder) for score in scores)
    names = list(dict.fromkeys([*(n for n in told["published"] if n in measured), *measured]))
    layers = {name: _layer(scores, name) for name in names}
    conditions = as_table(as_table(config.get("settings")).get("conditions"))
    learning = {}
    for name in conditions:
        found = _learning(folder / name)
        if any(found.values()):
            recipe = as_table(as_table(conditions[name]).get("recipe"))
            end = as_number(recipe.get("steps")) * as_number(recipe.get("batch_tokens"))
            learning[name] = Learning(found, end)
    return StudyFolder(told, scores, names, layers, learning, config)


def _learning(folder: Path) -> dict[int, dict[float, float]]:
    """Seed -> tokens -> P@1 of subwords, from the logs of a condition's trainings."""
    found: dict[int, dict[float, float]] = {}
    for place in sorted(folder.glob("seed-*"), key=lambda path: (len(path.name), path.name)):
        number = place.name.partition("-")[2]
        if not number.isdigit():
            continue
        for _, tokens, line in read_log(place / "log.jsonl", "alignment").rows:
            ways = [
                as_number(as_table(way).get("value"))
                for way in as_table(line.get("alignment")).values()
            ]
            if ways and not any(map(math.isnan, ways)):
                found.setdefault(int(number), {})[tokens] = sum(ways) / len(ways)
    return found


@dataclasses.dataclass(frozen=True)
class KeptOrder:
    """Conditions by how much of the order of English they keep, a number that is known before
    anything is trained.

    Attributes
    ----------
    kept: condition -> share of neighbours that stay neighbours.
    aligned: condition -> P@1 of subwords, the mean over seeds.
    onsets: condition -> tokens until it is .5, the median over seeds; infinite where half of the
        seeds or more did not get there.
    """

    kept: Mapping[str, float]
    aligned: Mapping[str, float]
    onsets: Mapping[str, float]

    def correlation(self) -> tuple[float, float, float]:
        """Spearman's correlation of alignment with what is kept, over conditions, and its 95 %
        interval; NaN where it cannot be computed."""
        return self._spearman(self.aligned)

    def onset_correlation(self) -> tuple[float, float, float]:
        """The same of tokens until .5. Those that did not get there are equal, and last."""
        last = 2 * max((one for one in self.onsets.values() if math.isfinite(one)), default=1.0)
        return self._spearman({name: min(one, last) for name, one in self.onsets.items()})

    def _spearman(self, values: Mapping[str, float]) -> tuple[float, float, float]:
        names = [name for name in self.kept if name in values]
        x, y = (np.array([side[name] for name in names]) for side in (self.kept, values))
        if len(names) < _FEWEST or len(set(x.tolist())) < 2 or len(set(y.tolist())) < 2:
            return math.nan, math.nan, math.nan
        return spearman_interval(x, y)

    def told(self) -> str:
        """What goes with what, in a sentence or two."""
        found, when = self.correlation(), self.onset_correlation()
        n, low = len(self.aligned), sum(one < _FLOOR for one in self.aligned.values())
        never = sum(math.isinf(one) for one in self.onsets.values())
        return (
            f"Over {n} conditions, P@1 of subwords goes with the share of neighbours kept by "
            f"Spearman's {_spread(found)}; {low} of them are below {_FLOOR}, which are as good as "
            f"tied. Tokens until {_REACHED}: {_spread(when)}; {never} did not get there and share "
            f"the last rank."
        )


def _spread(found: tuple[float, float, float]) -> str:
    if math.isnan(found[0]):
        return "correlation, which cannot be computed"
    return f"{found[0]:.2f} [{found[1]:.2f}, {found[2]:.2f}]"


def kept_order(study: StudyFolder) -> KeptOrder | None:
    """The conditions of a study by how much of the order they keep; None where fewer than eight
    say so and have subwords that could be aligned."""
    kept, aligned, onsets = {}, {}, {}
    for name in study.names:
        order = study.mean(name, "neighbours_kept", None)
        found = study.mean(name, "token_alignment", "unaligned")
        learning = study.learning.get(name)
        if order is None or found is None or learning is None:
            continue
        kept[name], aligned[name] = order.value, found.value
        each = [onset(curve, _REACHED) for curve in learning.seeds.values()]
        onsets[name] = float(np.median([math.inf if one is None else one for one in each]))
    return KeptOrder(kept, aligned, onsets) if len(kept) >= _FEWEST else None


def summary(folder: str | Path) -> list[_Rows | str]:
    """Tables and sentences on a study: its conditions beside the paper's numbers, and the order of
    the conditions that the paper found.

    Raises
    ------
    StoreError: the folder holds no such study, or nothing of it is measured yet.
    """
    study = load_study(folder)
    rows: _Rows = [
        (
            "condition",
            "seeds",
            "kept",
            "P@1 of subwords",
            "mapped",
            "by frequency",
            "P@1 of sentences",
            "at layer",
            "CKA there",
            f"{PAPERS[study.told['paper']]}: {printed_what(study.told['paper'])}",
        ),
        *(_row(study.scores, name, study.layers[name], study.told) for name in study.names),
    ]
    told = []
    if (ladder := kept_order(study)) is not None:
        told = [ladder.told()]
    elif study.learning:
        reached = [f"{name} {one.reached()}" for name, one in study.learning.items()]
        told = [f"Tokens until P@1 of subwords is {_REACHED}: {'; '.join(reached)}."]
    told += similarity_told(study)
    return [study.told["question"], rows, _how(study.scores), *told, *findings(study)]


def similarity_told(study: StudyFolder) -> list[str]:
    """A sentence on how CKA and retrieval go together over conditions, each at the layer where its
    sentences are found best; none of fewer than four conditions, or where one is everywhere the same."""
    pairs = []
    for name, best in study.layers.items():
        layer = None if best is None else best.layer
        both = (
            study.mean(name, "precision_at_1", "unaligned", layer),
            study.mean(name, "debiased_linear_cka", None, layer),
        )
        values = [math.nan if one is None else one.value for one in both]
        if not any(map(math.isnan, values)):
            pairs.append(values)
    x, y = (np.array(side) for side in zip(*pairs, strict=True)) if pairs else (np.zeros(0),) * 2
    if len(pairs) < 4 or min(np.ptp(x), np.ptp(y)) == 0:
        return []
    r, low, high = pearson_interval(x, y)
    return [
        f"Over {len(pairs)} conditions, P@1 of sentences and CKA at the same layer: Pearson's {r:.2f} "
        f"[{low:.2f}, {high:.2f}]."
    ]


def _row(scores: Sequence[Score], name: str, best: Best | None, told: Told) -> tuple[str, ...]:
    seeds = sorted({s.seed for s in scores if s.encoder == name and s.seed is not None})
    direct, mapped = (
        _mean_of(scores, name, "token_alignment", condition)
        for condition in ("unaligned", "procrustes")
    )
    layer = None if best is None else best.layer
    sentences = _mean_of(scores, name, "precision_at_1", "unaligned", layer)
    cka = _mean_of(scores, name, "debiased_linear_cka", None, layer)
    kept = _mean_of(scores, name, "neighbours_kept", None)
    return (
        name,
        str(len(seeds)),
        "-" if kept is None else format_value(kept.value, 2),
        _told(direct),
        _told(mapped),
        _frequency(direct),
        _told(sentences),
        "-" if layer is None else str(layer),
        "-" if cka is None else format_value(cka.value, 2),
        printed(told, name),
    )


def _frequency(score: Score | None) -> str:
    found = None if score is None else score.evidence.by_frequency
    return "-" if found is None else f"{found:.3f}"


def _told(score: Score | None) -> str:
    if score is None:
        return "-"
    if score.low is None or score.high is None or math.isnan(score.low):
        return format_value(score.value, 3)
    return f"{score.value:.3f} [{score.low:.3f}, {score.high:.3f}]"


def _mean_of(
    scores: Sequence[Score],
    name: str,
    quantity: str,
    condition: str | None,
    layer: int | None = None,
) -> Score | None:
    """A mean over seeds; None where there is none."""
    return next(
        (
            score
            for score in scores
            if score.seed is None
            and (score.encoder, score.quantity, score.condition) == (name, quantity, condition)
            and score.layer == layer
        ),
        None,
    )


def _layer(scores: Sequence[Score], name: str) -> Best | None:
    """The layer whose sentences are found best, chosen on the training half of the sentences."""
    curves: dict[str, dict[tuple[Any, ...], dict[int, Score]]] = {"held_out": {}, "train": {}}
    for score in scores:
        part = score.evidence.part
        mine = (score.encoder, score.quantity, score.condition)
        if (
            mine == (name, "precision_at_1", "unaligned")
            and part in curves
            and score.seed is not None
        ):
            curve = curves[part].setdefault((score.seed, score.source), {})
            curve[score.layer or 0] = score
    return chosen_layer(curves["held_out"].values(), curves["train"].values())


def printed_what(paper: str) -> str:
    """What :func:`printed` are numbers of.

    >>> printed_what("deshpande")
    'alignment, %'
    """
    return "alignment, %" if paper == "deshpande" else "XNLI, mean of 3, less Default"


def printed(told: Told, name: str) -> str:
    """The paper's number of a condition, as printed; "-" where there is none."""
    metric = "token_alignment" if told["paper"] == "deshpande" else "accuracy_difference"
    system, task = told["published"].get(name, ""), "xnli" if metric != "token_alignment" else None
    found = [
        one.value
        for one in published(paper=told["paper"], metric=metric, task=task)
        if one.system == system and (task is None or one.language == "mean")
    ]
    return f"{found[0]:g}" if found else "-"


def _how(scores: Sequence[Score]) -> str:
    n = next((s.n for s in scores if s.quantity == "token_alignment"), None)
    sentences = next(s for s in scores if s.quantity == "precision_at_1" and s.seed is None)
    chance = math.nan if sentences.evidence.chance is None else sentences.evidence.chance
    about_subwords = (
        f"P@1 of subwords: the nearest of all subwords of the other language by cosine, of {n} that "
        "are sampled (Deshpande et al. 2022, § 4.4); mapped: after an orthogonal map learnt from "
        "others; by frequency: what embeddings that told it alone would give. "
        if n is not None
        else ""
    )
    about_order = (
        "Kept: the share of neighbouring subwords that stay neighbours in the same order. "
        if any(s.quantity == "neighbours_kept" for s in scores)
        else ""
    )
    return (
        f"{about_order}{about_subwords}P@1 of sentences: {sentences.n} held-out sentences, both directions, no "
        f"map, chance {chance:.3f}; the layer is chosen on other sentences. Brackets: 95 % over "
        "seeds (of sentences: over seeds and sentences)."
    )


def differences(
    scores: Sequence[Score], better: str, worse: str, layers: Mapping[str, Best | None]
) -> dict[str, tuple[float, float, float]]:
    """By how much one condition is above another, with 95 % intervals: "subwords" (Welch's, over
    seeds) and "sentences" (over seeds and sentences); what cannot be said is left out."""
    found = {}
    values = [
        np.array([s.value for s in scores if _is_alignment(s, name)]) for name in (better, worse)
    ]
    if min(map(len, values)) > 1:
        found["subwords"] = _welch(*values)
    if layers.get(better) is not None and layers.get(worse) is not None:
        sides = [_hits(scores, name, layers[name]) for name in (better, worse)]
        found["sentences"] = seeds_difference(sides[0], sides[1])
    return found


def _is_alignment(score: Score, name: str) -> bool:
    told = (score.encoder, score.quantity, score.condition)
    return told == (name, "token_alignment", "unaligned") and score.seed is not None


def _hits(scores: Sequence[Score], name: str, best: Best | None) -> tuple[np.ndarray, np.ndarray]:
    return hits_of(
        score
        for score in scores
        if (score.encoder, score.quantity, score.condition) == (name, "precision_at_1", "unaligned")
        and best is not None
        and score.layer == best.layer
    )


def _welch(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Difference of two means with Welch's 95 % interval.

    >>> tuple(round(x, 2) for x in _welch(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0])))
    (1.0, -1.27, 3.27)
    """
    from scipy.special import stdtrit

    difference = float(a.mean() - b.mean())
    parts = [float(one.var(ddof=1)) / len(one) for one in (a, b)]
    if (variance := sum(parts)) == 0:
        return difference, difference, difference
    degrees = variance**2 / sum(
        part**2 / (len(one) - 1) for part, one in zip(parts, (a, b), strict=True)
    )
    half = float(stdtrit(degrees, 0.975)) * math.sqrt(variance)
    return difference, difference - half, difference + half


def findings(study: StudyFolder) -> list[_Rows | str]:
    """Which of the paper's orders are found (a table), and whether what is not found says anything
    (a sentence)."""
    scores, layers, told = study.scores, study.layers, study.told
    rows: _Rows = [("the paper's order", "subwords", "", "sentences", "")]
    for upper, lower in zip(told["order"], told["order"][1:], strict=False):
        for better in upper:
            for worse in lower:
                if better in layers and worse in layers:
                    found = differences(scores, better, worse, layers)
                    cells = [_verdict(found.get(what)) for what in ("subwords", "sentences")]
                    rows.append((f"{better} > {worse}", *cells[0], *cells[1]))
    reached = _mean_of(scores, told["control"], "token_alignment", "unaligned")
    best = layers.get(told["control"])
    if reached is None and best is not None:
        reached = _mean_of(scores, told["control"], "precision_at_1", "unaligned", best.layer)
    if reached is None:
        return [rows] if len(rows) > 1 else []
    enough = reached.value >= _REACHED
    return [
        *([rows] if len(rows) > 1 else []),
        f"The positive control, {told['control']}, reached {reached.value:.2f}: "
        + (
            "an order that is reversed counts against the paper at this size; of an open one "
            "these seeds cannot tell."
            if enough
            else "below 0.5, so what is not found here says nothing."
        ),
    ]


def _verdict(found: tuple[float, float, float] | None) -> tuple[str, str]:
    if found is None:
        return "-", "-"
    difference, low, high = found
    if math.isnan(low):
        return f"{difference:+.3f}", "open"
    word = "found" if low > 0 else "reversed" if high < 0 else "open"
    return f"{difference:+.3f} [{low:+.3f}, {high:+.3f}]", word
