"""Minimal pairs: how often the grammatical sentence of a pair is the likelier one.

    pairs --score_words-------> a score for each of the two words that make the difference (Goldberg
    2019) pairs --score_sentences---> a score for each of the two sentences (pseudo-log-likelihood,
    log-likelihood) scores --judge------------> coverage, accuracy by category, macro-averages

The language model stays outside: what is needed of it is a function that tokenises and one that
scores. Chance is .5. A pair is right when the good sentence has the higher score; a tie is wrong,
since it prefers nothing (ties are counted). A pair that cannot be scored is not covered, and told
with its reason; unknown words are never compared with each other.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from crosslens.checks import check_labels
from crosslens.errors import check_choice, refuse
from crosslens.one_line import one_line
from crosslens.probes.methods.controls import Accuracy
from crosslens.readers.minimal_pairs import MinimalPair
from crosslens.readers.words import Span, whitespace_spans

__all__ = [
    "REASONS",
    "RULES",
    "CategoryResult",
    "MacroAverage",
    "PairResult",
    "PairScores",
    "judge",
    "score_sentences",
    "score_words",
    "sentence_frames",
]

RULES = ("paper", "bert-syntax")
UNKNOWN, NOT_ONE_SUBWORD = "an unknown word", "not one subword each"
EQUAL = "equal sentences"
LENGTHS = "another number of words"
WORDS = "not one word differs"
REST = "other subwords differ"
NO_SCORE = "no score"
REASONS = (EQUAL, LENGTHS, WORDS, UNKNOWN, NOT_ONE_SUBWORD, REST, NO_SCORE)
"""Why a pair is not covered."""

_BLOCK = 8192  # pairs that are tokenised and scored together


@runtime_checkable
class Tokens(Protocol):
    """A tokenised sentence: ids (l,), spans (l, 2) of characters with (0, 0) for special tokens,
    and which tokens are unknown (l,)."""

    @property
    def ids(self) -> np.ndarray: ...
    @property
    def spans(self) -> np.ndarray: ...
    @property
    def unknown(self) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True, eq=False)
class PairScores:
    """Scores of n pairs.

    Attributes
    ----------
    good, bad: (n,) higher is likelier; NaN where the pair is not covered.
    reasons: for each pair why it is not covered, one of :data:`REASONS`; "" where it is.
    """

    good: Float[np.ndarray, " n"]
    bad: Float[np.ndarray, " n"]
    reasons: tuple[str, ...]

    __repr__ = one_line

    @property
    def covered(self) -> Bool[np.ndarray, " n"]:
        """Which pairs have scores."""
        return np.array([not reason for reason in self.reasons], bool)


@dataclasses.dataclass(frozen=True)
class CategoryResult:
    """One category: how many pairs, how many of them covered, and how many right.

    Attributes
    ----------
    category: its name.
    pairs, covered: counts.
    accuracy: share of right pairs, with their number and its 95 % interval; None where no pair is
        counted.
    ties: covered pairs whose two scores are equal; they are wrong.
    """

    category: str
    pairs: int
    covered: int
    accuracy: Accuracy | None
    ties: int


@dataclasses.dataclass(frozen=True)
class MacroAverage:
    """The mean accuracy of some categories, each counting alike.

    Attributes
    ----------
    value: from 0 to 1; NaN where a category has no accuracy, since a mean of the others would be
        one of something else.
    low, high: its 95 % interval, put together from those of the categories (Zou & Donner 2008,
        equation 8); NaN where the value is.
    n: pairs counted in these categories.
    categories: their names.
    without: those that have no accuracy, because none of their pairs is counted.

    References
    ----------
    Zou & Donner 2008, Construction of confidence limits about effect measures: a general approach.
    """

    value: float
    low: float
    high: float
    n: int
    categories: tuple[str, ...]
    without: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PairResult:
    """What a model makes of minimal pairs.

    Attributes
    ----------
    categories: in the order of their first pairs.
    macro: group of categories to its macro-average.
    accuracy: over all counted pairs; None where there is none.
    reasons: why pairs are not covered, and how many each.
    rule: the rule of coverage.
    """

    categories: tuple[CategoryResult, ...]
    macro: dict[str, MacroAverage]
    accuracy: Accuracy | None
    reasons: dict[str, int]
    rule: str

    def table(self) -> list[tuple[str, ...]]:
        """Coverage and accuracy as rows of cells: a head, then a row for each category, group and
        reason."""
        rows: list[tuple[str, ...]] = [
            ("category", "pairs", "covered", "per cent", "accuracy", "low", "high")
        ]
        for one in self.categories:
            share = f"{100 * one.covered / one.pairs:.1f}"
            rows.append(
                (one.category, f"{one.pairs:,}", f"{one.covered:,}", share, *_cells(one.accuracy))
            )
        for name, macro in self.macro.items():
            cells = (_number(number) for number in (macro.value, macro.low, macro.high))
            rows.append((f"{name} (macro-average of {len(macro.categories)})", "", "", "", *cells))
        rows.extend(
            (f"not covered: {reason}", f"{count:,}", "", "", "", "", "")
            for reason, count in self.reasons.items()
        )
        return rows


def score_words(
    pairs: Sequence[MinimalPair],
    tokenise: Callable[[list[str]], Sequence[Tokens]],
    score: Callable[[list[np.ndarray], list[int], list[tuple[int, int]]], Sequence[np.ndarray]],
    *,
    final_stop: bool = False,
) -> PairScores:
    """Score the two words that make the difference, each in the place of the same blank (Goldberg
    2019).

    A pair is covered when its sentences have as many words (between white space) and differ in one
    of them, both forms of it are in the vocabulary as one subword, and the rest of the two sentences
    has the same subwords. Punctuation that both forms begin or end with is no part of them. (Read
    literally, Artetxe et al. 2020 would also keep a pair whose words have several subwords and differ
    in one of these; here the word must be the blank, as in bert-syntax.)

    Parameters
    ----------
    tokenise: sentences -> the tokens of each (:class:`crosslens.models.scoring.cloze.ClozeScorer`
        has such a method).
    score: texts as token ids, the place to be masked in each, two candidates for each -> two scores
        for each text.
    final_stop: put " ." behind each sentence, as bert-syntax does with Marvin & Linzen's pairs,
        which have none; the papers do not say.

    Raises
    ------
    InputError: no pairs.

    >>> from typing import NamedTuple
    >>> class Toy(NamedTuple):
    ...     ids: np.ndarray; spans: np.ndarray; unknown: np.ndarray
    >>> def tokenise(sentences):  # a token a word, whose id is its length
    ...     spans = [np.array(whitespace_spans(one)) for one in sentences]
    ...     return [Toy(one[:, 1] - one[:, 0], one, np.zeros(len(one), bool)) for one in spans]
    >>> pairs = [MinimalPair("she laughs", "she laugh", "agreement", "0", "a:1"), MinimalPair("a b c", "d e c", "agreement", "1", "a:2")]
    >>> found = score_words(pairs, tokenise, lambda texts, places, candidates: [np.log(one) for one in candidates])
    >>> found.good.round(2).tolist(), found.reasons
    ([1.79, nan], ('', 'not one word differs'))
    """
    _check_pairs(pairs)
    ending = " ." if final_stop else ""
    good, bad = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    reasons = [""] * len(pairs)
    for start in range(0, len(pairs), _BLOCK):
        some = pairs[start : start + _BLOCK]
        words = [_differing_word(pair.good, pair.bad) for pair in some]
        located = [(i, spans) for i, spans in enumerate(words) if not isinstance(spans, str)]
        sentences = [text + ending for i, _ in located for text in (some[i].good, some[i].bad)]
        tokens = tokenise(sentences) if sentences else []
        blanks = [
            _blank(tokens[2 * j], tokens[2 * j + 1], spans) for j, (_, spans) in enumerate(located)
        ]
        for i, found in [
            *enumerate(words),
            *((i, blank) for (i, _), blank in zip(located, blanks, strict=True)),
        ]:
            if isinstance(found, str):
                reasons[start + i] = found
        asked = [
            (start + located[j][0], tokens[2 * j].ids, *blank)
            for j, blank in enumerate(blanks)
            if not isinstance(blank, str)
        ]
        if asked:
            rows, texts, places, candidates = (list(column) for column in zip(*asked, strict=True))
            good[rows], bad[rows] = np.array(score(texts, places, candidates), np.float64).T
    return PairScores(good, bad, tuple(reasons))


def score_sentences(
    pairs: Sequence[MinimalPair], score: Callable[[list[str]], np.ndarray]
) -> PairScores:
    """Score whole sentences; equal ones are scored once.

    Parameters
    ----------
    score: sentences -> a score for each, NaN where a sentence has none (an unknown subword in it):
        its pairs are not covered.

    Raises
    ------
    InputError: no pairs, or another number of scores than of sentences.

    >>> pairs = [MinimalPair("she laughs", "she laugh", "agreement", "0", "a:1")]
    >>> score_sentences(pairs, lambda sentences: np.array([-float(len(one)) for one in sentences])).good.tolist()
    [-10.0]
    """
    _check_pairs(pairs)
    place: dict[str, int] = {}
    for pair in pairs:
        for text in (pair.good, pair.bad):
            place.setdefault(text, len(place))
    scores = np.asarray(score(list(place)), np.float64)
    if scores.shape != (len(place),):
        expected = f"a function that gives {len(place)} scores, one per sentence"
        refuse("score", expected, f"shape {scores.shape}", "give every sentence one")
    good, bad = (
        scores[[place[text] for text in side]]
        for side in ([p.good for p in pairs], [p.bad for p in pairs])
    )
    without = np.isnan(good) | np.isnan(bad)
    reasons = tuple(
        EQUAL if pair.good == pair.bad else NO_SCORE if one else ""
        for pair, one in zip(pairs, without, strict=True)
    )
    out = np.array([bool(reason) for reason in reasons])
    return PairScores(np.where(out, np.nan, good), np.where(out, np.nan, bad), reasons)


def sentence_frames(pairs: Sequence[MinimalPair]) -> list[str]:
    """What the two sentences of each pair have in common, for those that differ in one word; of
    others the good sentence.

    Pairs of one frame ("the author that likes the guards …") are no independent items: their scores
    share all other words.

    >>> sentence_frames([MinimalPair("she laughs", "she laugh", "agreement", "0", "a:1"), MinimalPair("a b c", "d e c", "x", "1", "a:2")])
    ['she …', 'a b c']
    """
    found = []
    for pair in pairs:
        words = _differing_word(pair.good, pair.bad)
        found.append(
            pair.good
            if isinstance(words, str)
            else f"{pair.good[: words[0][0]]}…{pair.good[words[0][1] :]}"
        )
    return found


def judge(
    pairs: Sequence[MinimalPair],
    scores: PairScores,
    *,
    rule: str = "paper",
    groups: Mapping[str, Sequence[str]] | None = None,
    clusters: ArrayLike | None = None,
) -> PairResult:
    """Accuracy by category, and macro-averages over groups of categories.

    Parameters
    ----------
    scores: of these pairs.
    rule: "paper", what is not covered does not count (Artetxe et al. 2020); or "bert-syntax", words
        that are not in the vocabulary as one subword count as errors, which is what Goldberg's code
        does with Marvin & Linzen's pairs.
    groups: name to categories (:data:`crosslens.probes.methods.marvin_linzen.GROUPS`); None means
        one group of all.
    clusters: which pairs stand and fall together (:func:`sentence_frames`), for intervals; None
        means that they are independent.

    Raises
    ------
    InputError: no pairs, scores of others, or no such rule.

    >>> pairs = [MinimalPair("a b", "a c", "one", "0", "x:1"), MinimalPair("b b", "b c", "one", "1", "x:2")]
    >>> result = judge(pairs, PairScores(np.array([-1.0, -2.0]), np.array([-2.0, -2.0]), ("", "")))
    >>> result.categories[0].accuracy.value, result.categories[0].ties, result.macro["all categories"].value
    (0.5, 1, 0.5)
    """
    _check_pairs(pairs)
    check_choice(rule, "rule", RULES)
    if not len(pairs) == len(scores.good) == len(scores.bad) == len(scores.reasons):
        got = f"{len(scores.good)}, {len(scores.bad)} and {len(scores.reasons)}"
        refuse("scores", f"scores of {len(pairs)} pairs", got, "score them")
    covered = scores.covered
    out = np.array([reason in (UNKNOWN, NOT_ONE_SUBWORD) for reason in scores.reasons], bool)
    counted = covered | out if rule == "bert-syntax" else covered
    right = covered & (scores.good > scores.bad)  # a comparison with NaN is False
    members: dict[str, list[int]] = {}
    for i, pair in enumerate(pairs):
        members.setdefault(pair.category, []).append(i)
    rows = {category: np.array(where) for category, where in members.items()}
    together = None if clusters is None else check_labels(clusters, "clusters", len(pairs))
    results = {
        category: CategoryResult(
            category,
            len(i),
            int(covered[i].sum()),
            _accuracy(right, i[counted[i]], together),
            int((scores.good[i] == scores.bad[i]).sum()),
        )
        for category, i in rows.items()
    }
    reasons = collections.Counter(reason for reason in scores.reasons if reason)
    return PairResult(
        tuple(results.values()),
        {
            name: _macro(results, members)
            for name, members in (groups or {"all categories": tuple(results)}).items()
        },
        _accuracy(right, np.flatnonzero(counted), together),
        dict(sorted(reasons.items(), key=lambda item: REASONS.index(item[0]))),
        rule,
    )


def _accuracy(
    right: Bool[np.ndarray, " n"], rows: Int[np.ndarray, " m"], clusters: np.ndarray | None
) -> Accuracy | None:
    return (
        Accuracy.of(right[rows], None if clusters is None else clusters[rows])
        if len(rows)
        else None
    )


def _macro(results: Mapping[str, CategoryResult], categories: Sequence[str]) -> MacroAverage:
    found = [results[one].accuracy if one in results else None for one in categories]
    without = tuple(
        one for one, accuracy in zip(categories, found, strict=True) if accuracy is None
    )
    there = [accuracy for accuracy in found if accuracy is not None]
    n, names = sum(accuracy.n for accuracy in there), tuple(categories)
    if without or not there:
        return MacroAverage(math.nan, math.nan, math.nan, n, names, without)
    value = math.fsum(accuracy.value for accuracy in there) / len(there)
    down, up = (
        math.hypot(*(accuracy.value - getattr(accuracy, end) for accuracy in there)) / len(there)
        for end in ("low", "high")
    )
    return MacroAverage(value, value - down, value + up, n, names, without)


def _check_pairs(pairs: Sequence[MinimalPair]) -> None:
    if not len(pairs):
        refuse("pairs", "at least one", "none", "read a file of pairs, or generate them")


def _differing_word(good: str, bad: str) -> str | tuple[Span, Span]:
    """Where the one word in which two sentences differ stands in each of them, or why there is no
    such word."""
    if good == bad:
        return EQUAL
    spans = whitespace_spans(good), whitespace_spans(bad)
    if len(spans[0]) != len(spans[1]):
        return LENGTHS
    places = [(a, b) for a, b in zip(*spans, strict=True) if good[slice(*a)] != bad[slice(*b)]]
    if len(places) != 1:
        return WORDS
    [((start, end), (other_start, other_end))] = places
    while (
        min(end - start, other_end - other_start) > 1
        and good[start] == bad[other_start]
        and not good[start].isalnum()
    ):
        start, other_start = start + 1, other_start + 1
    while (
        min(end - start, other_end - other_start) > 1
        and good[end - 1] == bad[other_end - 1]
        and not good[end - 1].isalnum()
    ):
        end, other_end = end - 1, other_end - 1
    return (start, end), (other_start, other_end)


def _blank(
    good: Tokens, bad: Tokens, words: str | tuple[tuple[int, int], tuple[int, int]]
) -> str | tuple[int, tuple[int, int]]:
    """The place that is masked and the two candidates for it, or why the pair is not covered."""
    assert not isinstance(words, str)
    inside = []
    for tokens, (start, end) in zip((good, bad), words, strict=True):
        inside.append(np.flatnonzero((tokens.spans[:, 0] < end) & (tokens.spans[:, 1] > start)))
    if good.unknown[inside[0]].any() or bad.unknown[inside[1]].any():
        return UNKNOWN
    if len(inside[0]) != 1 or len(inside[1]) != 1:
        return NOT_ONE_SUBWORD
    place, other = int(inside[0][0]), int(inside[1][0])
    if not np.array_equal(np.delete(good.ids, place), np.delete(bad.ids, other)) or place != other:
        return REST
    return place, (int(good.ids[place]), int(bad.ids[other]))


def _cells(accuracy: Accuracy | None) -> tuple[str, str, str]:
    return (
        ("-", "-", "-")
        if accuracy is None
        else (_number(accuracy.value), _number(accuracy.low), _number(accuracy.high))
    )


def _number(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.1f}"
