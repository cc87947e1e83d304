"""What a controlled study finds: which of the paper's orders, with which differences, and whether what
is not found says anything."""

import dataclasses
import math
from collections.abc import Iterable, Mapping

import numpy as np

from crosslens.hits import equal_items, hits_of
from crosslens.readers.published import claims
from crosslens.report.folders.controlled import REACHED, StudyFolder, order_called
from crosslens.report.folders.controlled_sentences import comparisons_told
from crosslens.report.parts.wording import join
from crosslens.score import Score
from crosslens.seed_intervals import seeds_contrast

__all__ = [
    "JUDGED",
    "MEASURES",
    "Findings",
    "changed",
    "comparisons",
    "control_told",
    "differences",
    "findings",
    "verdict",
    "welch",
]

_MAPS = {"subwords": "unaligned", "subwords after a map": "procrustes"}
_SENTENCES, _GAIN = "sentences", "gain of sentences"
MEASURES = (*_MAPS, _SENTENCES, _GAIN)
"""By what two conditions are compared: P@1 of subwords as Deshpande et al. 2022 have it, the same after
an orthogonal map, and of sentences without one; all but the first are ours. On a natural pair, whose
sentences an untrained encoder finds by words that both languages write alike, also what training adds: the
gain of P@1 of sentences over the condition's own untrained encoder at its best layer."""
JUDGED = "An order is judged where both sides have two trainings or more."
"""Where there is no verdict."""

_Rows = list[tuple[str, ...]]


def differences(
    study: StudyFolder, better: str, worse: str
) -> dict[str, tuple[float, float, float]]:
    """By how much one condition is above another, with 95 % intervals, by each of :data:`MEASURES`: of
    subwords Welch's, over seeds (where no seed differs from another on either side, over subwords, from
    the intervals of both means), of sentences over seeds and sentences. What cannot be said is left
    out, and with one seed on a side that is everything: its sentences say nothing of another seed."""
    found = {}
    for measure, map_of in _MAPS.items():
        values = [
            np.array([s.value for s in study.scores if _is_alignment(s, name, map_of)])
            for name in (better, worse)
        ]
        if min(map(len, values)) > 1:
            difference, low, high = welch(*values)
            if math.isnan(low):
                of_means = (study.mean(name, "token_alignment", map_of) for name in (worse, better))
                difference, low, high = changed(*map(_with_ends, of_means))
            found[measure] = difference, max(low, -1.0), min(high, 1.0)  # of shares
    return found | _by_sentences(study, {better: 1.0, worse: -1.0})


def _by_sentences(
    study: StudyFolder, weights: Mapping[str, float]
) -> dict[str, tuple[float, float, float]]:
    """A sum of conditions with weights, by sentences and by what training adds to them, with 95 %
    intervals; nothing where a condition has one training, or one that was not measured there."""
    after = {name: _hits(study, name) for name in weights}
    if any(len(hits) < max(2, study.trainings(name)) for name, (hits, _) in after.items()):
        return {}
    sides = [[(weight, *after[name])] for name, weight in weights.items()]
    found = {_SENTENCES: seeds_contrast(*sides)}
    before = {name: _hits(study, name, "random_encoder") for name in weights}
    if study.compares_gains and all(len(before[name][0]) == len(after[name][0]) for name in after):
        # a gain is less what the untrained encoder finds; conditions that have the same untrained
        # encoder share one weight of it, which is 0 where it drops out
        untrained: dict[str, float] = {}
        for name, weight in weights.items():
            same = (one for one in untrained if all(map(np.array_equal, before[one], before[name])))
            first = next(same, name)
            untrained[first] = untrained.get(first, 0.0) - weight
        for side, name in zip(sides, weights, strict=True):
            if untrained.get(name):
                side.append((untrained[name], *before[name]))
        found[_GAIN] = seeds_contrast(*sides)
    return found


def _is_alignment(score: Score, name: str, map_of: str = "unaligned") -> bool:
    told = (score.encoder, score.quantity, score.condition)
    return told == (name, "token_alignment", map_of) and score.seed is not None


def _with_ends(mean: Score | None) -> tuple[float, float, float]:
    if mean is None or mean.low is None or mean.high is None:
        return math.nan if mean is None else mean.value, math.nan, math.nan
    return mean.value, mean.low, mean.high


def _hits(
    study: StudyFolder, name: str, condition: str = "unaligned"
) -> tuple[np.ndarray, np.ndarray]:
    """Right answers of a condition at its chosen layer, and of how many; none where nothing was measured."""
    best = (study.untrained if condition == "random_encoder" else study.layers).get(name)
    if best is None:
        return hits_of([])
    wanted = (name, "precision_at_1", condition, best.layer)
    found = [
        score
        for score in study.scores
        if (score.encoder, score.quantity, score.condition, score.layer) == wanted
    ]
    return hits_of(found, equal_items(study.scores))


def changed(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """By how much the second of two differences is above the first, with a 95 % interval from those of
    both; NaN where one has none. What they are of is independent: other trainings.

    References
    ----------
    Zou & Donner 2008, Construction of confidence limits about effect measures: a general approach, Stat. Med. 27.

    >>> tuple(round(x, 2) for x in changed((0.1, 0.07, 0.14), (0.3, 0.26, 0.33)))
    (0.2, 0.14, 0.24)
    """
    (one, one_low, one_high), (other, other_low, other_high) = first, second
    value = other - one
    low = value - math.hypot(other - other_low, one_high - one)
    high = value + math.hypot(other_high - other, one - one_low)
    return value, low, high


def welch(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Difference of two means with Welch's 95 % interval; NaN where neither side varies.

    >>> tuple(round(x, 2) for x in welch(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0])))
    (1.0, -1.27, 3.27)
    """
    from scipy.special import stdtrit

    difference = float(a.mean() - b.mean())
    if all(one.min() == one.max() for one in (a, b)):
        return difference, math.nan, math.nan
    parts = [float(one.var(ddof=1)) / len(one) for one in (a, b)]
    variance = sum(parts)
    degrees = variance**2 / sum(
        part**2 / (len(one) - 1) for part, one in zip(parts, (a, b), strict=True)
    )
    half = float(stdtrit(degrees, 0.975)) * math.sqrt(variance)
    return difference, difference - half, difference + half


@dataclasses.dataclass(frozen=True)
class Findings:
    """Which of a paper's orders are found.

    Attributes
    ----------
    rows: each claim of the paper (a condition above each that the paper puts below it, next to it or
        further down; what extra anchors bring) with the differences by each measure and their
        verdicts, below a head; empty where the paper claims nothing.
    compared: how many comparisons that is. control: whether what is not found says anything.
    judged: why there is no verdict. Each is a sentence, or "".
    """

    rows: _Rows
    compared: str
    control: str
    judged: str


def findings(study: StudyFolder) -> Findings:
    """Which of the paper's orders are found in a study."""
    told = study.told
    found = {
        f"{one.higher} > {one.lower}": (
            differences(study, one.higher, one.lower)
            if len(one.weights) == 2
            else _by_sentences(study, one.weights)
        )
        for one in claims(told["order"], told["published"], told["control"], study.layers)
    }
    may = (_SENTENCES, _GAIN) if study.compares_gains else (*_MAPS, _SENTENCES)
    measures = [what for what in may if any(what in one for one in found.values())] or may
    rows: _Rows = [
        (order_called(told["paper"]), *(cell for what in measures for cell in (what, "")))
    ]
    for claim, one in found.items():
        cells = [cell for what in measures for cell in verdict(one.get(what))]
        rows.append((claim, *cells))
    if len(rows) == 1:
        return Findings([], "", control_told(study), "")
    single = any(study.trainings(name) < 2 for name in study.names)
    compared = comparisons_told(comparisons(found.values()))
    return Findings(rows, compared, control_told(study), JUDGED if single else "")


def comparisons(found: Iterable[Mapping[str, object]]) -> int:
    """How many comparisons there are in differences by measure; a gain that is the sentences' own
    difference is none of its own.

    >>> comparisons([{"sentences": (0.1, 0.0, 0.2), "gain of sentences": (0.1, 0.0, 0.2)}])
    1
    """
    return sum(len(one) - (one.get(_GAIN) == one.get(_SENTENCES, 0)) for one in found)


def control_told(study: StudyFolder) -> str:
    """Of each measure whether the positive control reached what makes a negative finding count; ""
    where it is not measured."""
    name = study.told["control"]
    if not name:
        return (
            "Nothing here is known to succeed, so what is not found says nothing: transliteration "
            "alone, as one of the conditions, would tell (translit, in the study's name)."
        )
    if name not in {*study.told["published"], *study.names}:
        return f"The positive control, {name}, is not trained here: what is not found says nothing."
    reached = {what: study.mean(name, "token_alignment", map_of) for what, map_of in _MAPS.items()}
    reached[_SENTENCES] = study.sentences(name)
    before = study.sentences(name, "random_encoder")
    untrained = 0.0 if before is None else before.value
    there = {
        measure: one
        for measure, one in reached.items()
        if one is not None and not math.isnan(one.value)
    }
    if not there:
        return ""
    short = [measure for measure, one in there.items() if one.value < REACHED]
    # on a natural pair an untrained encoder may find half of the sentences
    found = there[_SENTENCES].value if _SENTENCES in there else 1.0
    learnt = (found - untrained) / (1 - untrained) if untrained < 1 else 0.0
    hardly_learnt = _SENTENCES not in short and learnt < REACHED
    enough = [
        one for one in there if one not in short and not (hardly_learnt and one == _SENTENCES)
    ]
    values = join(
        [f"{one.value:.2f} by {measure}{_of_trainings(one)}" for measure, one in there.items()]
    )
    told = [f"The positive control, {name}, reached {values}."]
    of_sentences = f"{_SENTENCES} or their gain" if study.compares_gains else _SENTENCES
    if study.compares_gains:
        if not hardly_learnt:
            told.append(f"An untrained encoder finds {untrained:.2f} of the sentences.")
        told.append("By sentences, words in common count, too: the gain is what training adds.")
    if enough and study.told["order"]:  # the ladder has none
        told.append(
            f"By {join(enough)} an order that is reversed counts at this size; of an open "
            "one these seeds cannot tell."
        )
    nothing = "what is not found, or reversed, by {} says nothing."
    if short:
        said = join([of_sentences if one == _SENTENCES else one for one in short])
        told.append(f"Below {REACHED}: {nothing.format(said)}")
    if hardly_learnt:
        told.append(
            f"An untrained encoder already finds {untrained:.2f} of the sentences, and training did "
            f"not bring half of the others: {nothing.format(of_sentences)}"
        )
    return " ".join(told)


def _of_trainings(mean: Score) -> str:
    """How many trainings reached it, where that is not what their mean says of all."""
    each = mean.evidence.values or []
    n = sum(value >= REACHED for value in each)
    return f" ({n} of {len(each)} trainings {REACHED} or more)" if 0 < n < len(each) else ""


def verdict(found: tuple[float, float, float] | None) -> tuple[str, str]:
    """A difference and its interval as text, and found, open or reversed.

    >>> verdict((0.2, 0.1, 0.3)), verdict((0.2, math.nan, math.nan))
    (('+0.200 [+0.100, +0.300]', 'found'), ('+0.200', 'open'))
    """
    if found is None or math.isnan(found[0]):
        return "-", "-"
    difference, low, high = found
    if math.isnan(low):
        return f"{difference:+.3f}", "open"
    word = "found" if low > 0 else "reversed" if high < 0 else "open"
    return f"{difference:+.3f} [{low:+.3f}, {high:+.3f}]", word
