"""Minimal pairs: a language model itself says which of two sentences is likelier."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from crosslens.probes.methods.minimal_pairs import (
    CategoryResult,
    PairResult,
    PairScores,
    judge,
    score_sentences,
    score_words,
    sentence_frames,
)
from crosslens.readers.minimal_pairs import MinimalPair
from crosslens.run.probing.items import Measured, TestItems
from crosslens.run.probing.kinds.task import Given, Task, Text
from crosslens.run.repeats import text_names
from crosslens.score import Score

__all__ = ["PairsTask"]


@dataclasses.dataclass(frozen=True, eq=False)
class PairsTask(Task):
    """Minimal pairs.

    Attributes
    ----------
    name: of the task. pairs: at least one. source: where they come from.
    method: "single_mask" or "pll"; a causal model, which can do neither, scores sentences by their
        log-likelihood.
    groups: name -> categories that are averaged; None for all of them.
    language: of the pairs; None where it is not known.
    others: the same task in other languages.
    """

    name: str
    pairs: Sequence[MinimalPair]
    source: str
    method: str = "pll"
    groups: Mapping[str, Sequence[str]] | None = None
    language: str | None = None
    others: tuple["PairsTask", ...] = ()
    cloze: ClassVar[bool] = True

    @property
    def languages(self) -> tuple[str | None, ...]:
        """Of the pairs."""
        return tuple(one.language for one in (self, *self.others))

    @property
    def texts(self) -> Mapping[str, Text]:
        """None: the model scores the pairs itself."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Number of pairs, and where they come from."""
        others = {str(one.language): len(one.pairs) for one in self.others}
        told = {"pairs": len(self.pairs), "source": self.source, "method": self.method}
        return {
            **told,
            **({"pairs_in": {str(self.language): len(self.pairs), **others}} if others else {}),
        }

    def measure(self, given: Given) -> Measured:
        """Accuracy by category with its coverage, averages, and the same of the re-initialised
        model, in each language."""
        scores, outcomes = [], []
        for random in (False, True) if given.random is not None else (False,):
            scorer = given.scorer(random)
            for one in (self, *self.others):
                found = one._measure_with(
                    scorer(one.language),
                    {**given.common, "condition": "random_encoder" if random else None},
                )
                scores += found.scores
                outcomes += found.outcomes
        return Measured(scores, outcomes)

    def _measure_with(self, scorer: Any, fields: Mapping[str, Any]) -> Measured:
        frames = sentence_frames(self.pairs)
        items = TestItems.of(
            [(pair.good, pair.bad, pair.category) for pair in self.pairs], text_names(frames)
        )
        method = self.method if self.method in scorer.methods else scorer.methods[0]
        found = self._scores(scorer, method)
        result = judge(self.pairs, found, groups=self.groups, clusters=frames)
        fields = {**fields, "task": self.name, "target": self.language}
        right = np.where(found.covered, found.good > found.bad, np.nan)
        outcomes = items.outcomes(right, **fields, method=method, part="test", quantity="accuracy")
        return Measured(_rows(result, fields, {"method": method}), [outcomes])

    def _scores(self, scorer: Any, method: str) -> PairScores:
        if method == "single_mask":
            return score_words(self.pairs, scorer.tokenise, scorer.score_candidates)
        return score_sentences(
            self.pairs,
            lambda sentences: np.asarray(scorer.score_sentences(sentences, method).total),
        )


def _rows(result: PairResult, fields: Mapping[str, Any], told: Mapping[str, Any]) -> list[Score]:
    """A row for each category, for each average, and for all pairs."""
    rows = [_category(one, fields, told) for one in result.categories]
    for name, macro in result.macro.items():
        details: dict[str, Any] = {**told, "average": name, "categories": len(macro.categories)}
        if macro.without:
            details |= {
                "reason": f"no pair of {', '.join(macro.without)} can be scored",
                "without": list(macro.without),
            }
        low, high = (None, None) if macro.without else (macro.low, macro.high)
        rows.append(
            Score(
                **fields,
                quantity="macro_accuracy",
                value=macro.value,
                n=macro.n,
                low=low,
                high=high,
                details=details,
            )
        )
    pairs, covered = (
        sum(getattr(one, name) for one in result.categories) for name in ("pairs", "covered")
    )
    whole = CategoryResult(
        "", pairs, covered, result.accuracy, sum(one.ties for one in result.categories)
    )
    return [
        *rows,
        _category(whole, fields, {**told, "average": "all pairs", "dropped": result.reasons}),
    ]


def _category(one: CategoryResult, fields: Mapping[str, Any], told: Mapping[str, Any]) -> Score:
    counts = {
        "pairs": one.pairs,
        "covered": one.covered,
        "percent": 100 * one.covered / one.pairs,
        "ties": one.ties,
    }
    details = {**told, **counts, **({"category": one.category} if one.category else {})}
    if one.accuracy is None:
        details["reason"] = "none of the pairs can be scored"
        return Score(**fields, quantity="accuracy", value=float("nan"), n=0, details=details)
    reached = one.accuracy
    return Score(
        **fields,
        quantity="accuracy",
        value=reached.value,
        n=reached.n,
        low=reached.low,
        high=reached.high,
        details=details,
    )
