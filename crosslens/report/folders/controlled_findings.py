"""What a controlled study finds: which of the paper's orders, and what goes with what."""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from crosslens.readers.published import ordered_pairs
from crosslens.report.folders.controlled import REACHED, StudyFolder, onset, order_called
from crosslens.report.parts.wording import join
from crosslens.score import Score
from crosslens.seed_intervals import seeds_contrast, seeds_difference
from crosslens.seed_means import hits_of
from crosslens.stats import pearson_interval, spearman_interval

__all__ = [
    "JUDGED",
    "MANY",
    "MEASURES",
    "WITH_INTERVAL",
    "Findings",
    "KeptOrder",
    "anchors_told",
    "changed",
    "comparisons",
    "comparisons_told",
    "control_told",
    "cut_told",
    "differences",
    "few_trainings_told",
    "findings",
    "intervals_told",
    "kept_order",
    "overlap_told",
    "similarity_told",
    "study_trainings_told",
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
MANY = 10
"""Trainings of which an interval over seeds covers what it says; fewer are drawn one by one."""
JUDGED = "An order is judged where both sides have two trainings or more."
"""Where there is no verdict."""

WITH_INTERVAL = 8
"""Points from which on a correlation is told with its interval."""

_Rows = list[tuple[str, ...]]
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
            f"{value:.2f} [{low:.2f}, {high:.2f}] with the share of {name} kept"
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
    ends = f" [{low:.2f}, {high:.2f}]" if len(pairs) >= WITH_INTERVAL else ""
    return [
        f"Over {len(pairs)} conditions, P@1 of sentences and CKA at the same layer: Pearson's "
        f"{r:.2f}{ends}."
    ]


def differences(
    study: StudyFolder, better: str, worse: str
) -> dict[str, tuple[float, float, float]]:
    """By how much one condition is above another, with 95 % intervals, by each of :data:`MEASURES`: of
    subwords Welch's, over seeds, of sentences over seeds and sentences. What cannot be said is left
    out, and with one seed on a side that is everything: its sentences say nothing of another seed."""
    found = {}
    for measure, map_of in _MAPS.items():
        values = [
            np.array([s.value for s in study.scores if _is_alignment(s, name, map_of)])
            for name in (better, worse)
        ]
        if min(map(len, values)) > 1:
            difference, low, high = welch(*values)
            found[measure] = difference, max(low, -1.0), min(high, 1.0)  # of shares
    sides = [_hits(study, name) for name in (better, worse)]
    if min(len(hits) for hits, _ in sides) > 1:
        found[_SENTENCES] = seeds_difference(sides[0], sides[1])
        before = [_hits(study, name, "random_encoder") for name in (better, worse)]
        if study.compares_gains and [len(one[0]) for one in before] == [
            len(one[0]) for one in sides
        ]:
            # what both gains are over drops out where it is the same
            found[_GAIN] = (
                found[_SENTENCES]
                if all(map(np.array_equal, *before))
                else seeds_contrast(
                    [(1.0, *sides[0]), (-1.0, *before[0])], [(-1.0, *sides[1]), (1.0, *before[1])]
                )
            )
    return found


def _is_alignment(score: Score, name: str, map_of: str = "unaligned") -> bool:
    told = (score.encoder, score.quantity, score.condition)
    return told == (name, "token_alignment", map_of) and score.seed is not None


def _hits(
    study: StudyFolder, name: str, condition: str = "unaligned"
) -> tuple[np.ndarray, np.ndarray]:
    """Right answers of a condition at its chosen layer, and of how many; none where nothing was measured."""
    best = (study.untrained if condition == "random_encoder" else study.layers).get(name)
    if best is None:
        return np.zeros((0, 0)), np.zeros((0, 0))
    wanted = (name, "precision_at_1", condition, best.layer)
    return hits_of(
        score
        for score in study.scores
        if (score.encoder, score.quantity, score.condition, score.layer) == wanted
    )


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
    rows: each condition against all that the paper puts below it, next to it or further down, with
        the differences by each measure and their verdicts, below a head; empty where the paper has no order.
    compared: how many comparisons that is. control: whether what is not found says anything.
    judged: why there is no verdict. Each is a sentence, or "".
    """

    rows: _Rows
    compared: str
    control: str
    judged: str


def findings(study: StudyFolder) -> Findings:
    """Which of the paper's orders are found in a study."""
    pairs = ordered_pairs(study.told["order"], study.layers)
    found = {pair: differences(study, *pair) for pair in pairs}
    may = (_SENTENCES, _GAIN) if study.compares_gains else (*_MAPS, _SENTENCES)
    measures = [what for what in may if any(what in one for one in found.values())] or may
    rows: _Rows = [
        (order_called(study.told["paper"]), *(cell for what in measures for cell in (what, "")))
    ]
    for (better, worse), one in found.items():
        cells = [cell for what in measures for cell in verdict(one.get(what))]
        rows.append((f"{better} > {worse}", *cells))
    if len(rows) == 1:
        return Findings([], "", control_told(study), "")
    single = any(study.trainings(name) < 2 for name in study.names)
    compared = comparisons_told(comparisons(found.values()))
    return Findings(rows, compared, control_told(study), JUDGED if single else "")


def intervals_told(study: StudyFolder) -> str:
    """What the 95 % intervals of a study's means are over, as the end of a sentence."""
    several = "over seeds (of sentences: over seeds and sentences)"
    single = [name for name in study.names if study.trainings(name) < 2]
    alone = "over the subwords, or sentences, of one training"
    if len(single) == len(study.names):
        return f"{alone}, and say nothing of other seeds"
    return f"{several}; of {', '.join(single)} {alone}" if single else several


def few_trainings_told(trainings: Collection[int], *, subwords: bool = False) -> str:
    """What an interval over few trainings of a condition does not cover; "" where none is over few.

    In simulations whose trainings end near .83 or near .03 the interval of three holds the mean of all
    that there could be in 34 to 81 %, by how many align; that of ten in 95 %, unless one or nine of
    ten do. Of conditions that are alike, with three trainings each or more, as many of one as of the
    other, the difference of two lies above 0 in at most 3 %; of two trainings in 6 %, of three against
    nine in 10 %. That is of subwords. Over trainings that align or do not, and test items, the interval
    of three holds the mean in 62 to 92 %.

    Parameters
    ----------
    trainings: how many there are of each condition. subwords: whether P@1 of subwords is told, of
        which the numbers are.

    >>> few_trainings_told([3, 1])
    'Where some trainings of a condition align and others do not, an interval over few of them is too narrow.'
    >>> few_trainings_told([1, 12])
    ''
    """
    if not any(2 <= n < MANY for n in trainings):
        return ""
    told = (
        "Where some trainings of a condition align and others do not, an interval over few of them is "
        "too narrow"
    )
    if subwords:
        told += ": that of three holds their mean of P@1 of subwords in 34 to 81 %, not in 95"
        if min(trainings) == max(trainings) > 2:
            told += "; a difference of conditions that are alike lies above 0 in at most 3 % all the same"
    return f"{told}."


def study_trainings_told(study: StudyFolder) -> str:
    """The same of a study."""
    trainings = [study.trainings(name) for name in study.names]
    return few_trainings_told(trainings, subwords=not study.compares_gains)


def comparisons(found: Iterable[Mapping[str, object]]) -> int:
    """How many comparisons there are in differences by measure; a gain that is the sentences' own
    difference is none of its own.

    >>> comparisons([{"sentences": (0.1, 0.0, 0.2), "gain of sentences": (0.1, 0.0, 0.2)}])
    1
    """
    return sum(len(set(one.values())) for one in found)


def comparisons_told(n: int) -> str:
    """What so many comparisons are worth; "" of one or none."""
    if n < 2:
        return ""
    return (
        f"{n} comparisons, each with an interval of its own: of 20 where there is no difference, "
        "one is expected to hold no 0."
    )


def control_told(study: StudyFolder) -> str:
    """Of each measure whether the positive control reached what makes a negative finding count; ""
    where it is not measured."""
    name = study.told["control"]
    if not name:
        return (
            "Nothing here is known to succeed, so what is not found says nothing: transliteration "
            "alone, as one of the conditions, would tell (translit, in the study's name)."
        )
    reached = {what: study.mean(name, "token_alignment", map_of) for what, map_of in _MAPS.items()}
    reached[_SENTENCES] = study.sentences(name)
    before = study.sentences(name, "random_encoder")
    untrained = 0.0 if before is None else before.value
    there = {measure: one for measure, one in reached.items() if one is not None}
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
    if enough:
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


def anchors_told(study: StudyFolder) -> list[str]:
    """A sentence on how many words extra anchors replaced; none where there are none."""
    said = []
    for name in study.names:
        seeds = [s for s in study.scores if (s.encoder, s.quantity) == (name, "words_replaced")]
        each = [(s.value, s.evidence.of_known) for s in seeds if s.evidence.of_known is not None]
        if each:
            whole, known = (100 * float(np.mean(side)) for side in zip(*each, strict=True))
            said.append(
                f"{name} {whole:.1f} % of all ({known:.1f} % of those that the dictionary knows)"
            )
    return [f"Words replaced: {'; '.join(said)}."] if said else []


def overlap_told(study: StudyFolder) -> list[str]:
    """A sentence on how many of the second language's subwords the first one's text has, too, with the
    conditions in which it is so; none where it was not measured."""
    said = dict[str, list[str]]()
    for name in study.names:
        found = [study.mean(name, f"subword_overlap_{what}", None) for what in ("types", "tokens")]
        shares = [100 * one.value for one in found if one is not None]
        if len(shares) == 2:
            share = f"{shares[0]:.1f} % ({shares[1]:.1f} % of all that occur)"
            said.setdefault(share, []).append(name)
    told = [f"{share} in {', '.join(names)}" for share, names in said.items()]
    if [*said.values()] == [study.names]:
        told = [f"{share} in every condition" for share in said]
    about = "Of the subwords of the second language's text the first one's has"
    return [f"{about} {'; '.join(told)}."] if told else []


def cut_told(scores: Sequence[Score]) -> str:
    """A sentence on how many of the kept sentences are cut, in the condition with most; "" where none
    is.

    >>> cut_told([Score(quantity="sentences_cut", value=0.012, n=500, encoder="default")])
    'At most 1.2 % of the kept sentences (default; of a pair, one or both sides) are cut to what the encoder reads.'
    """
    cut = [s for s in scores if s.quantity == "sentences_cut"]
    most = max((s.value for s in cut), default=0)
    if not most:
        return ""
    where = next(s.encoder for s in cut if s.value == most)
    return (
        f"At most {100 * most:.1f} % of the kept sentences ({where}; of a pair, one or both sides) are "
        "cut to what the encoder reads."
    )


def verdict(found: tuple[float, float, float] | None) -> tuple[str, str]:
    """A difference and its interval as text, and found, open or reversed.

    >>> verdict((0.2, 0.1, 0.3)), verdict((0.2, math.nan, math.nan))
    (('+0.200 [+0.100, +0.300]', 'found'), ('+0.200', 'open'))
    """
    if found is None:
        return "-", "-"
    difference, low, high = found
    if math.isnan(low):
        return f"{difference:+.3f}", "open"
    word = "found" if low > 0 else "reversed" if high < 0 else "open"
    return f"{difference:+.3f} [{low:+.3f}, {high:+.3f}]", word
