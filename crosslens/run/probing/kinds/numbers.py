"""A task whose answer is a number: how deep a sentence's tree is, say, told from its vector by
ridge regression."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import quote, refuse
from crosslens.evidence import Difference, Ends
from crosslens.outcomes import Outcomes
from crosslens.probes.methods.number_probes import NumberAnswers, NumberResult, probe_numbers
from crosslens.probes.methods.splits import Parts, hold_out_dev, stratified_parts
from crosslens.readers.labelled_text import LabelledText
from crosslens.run.probing.items import Measured, Shared, TestItems, shared_texts
from crosslens.run.probing.kinds.task import Given, Task, Text
from crosslens.run.probing.seeds import seed_spread
from crosslens.run.probing.splits import SHARES
from crosslens.run.repeats import normal_texts, text_names
from crosslens.score import Score
from crosslens.stats import spearman_difference

__all__ = ["NumberTask", "number_parts", "read_numbers"]

_FEWEST = 4  # distinct texts: fewer have no interval
_CONSTANT = "the probe answers the same to every item, or these have one number"


def read_numbers(texts: LabelledText) -> np.ndarray:
    """The labels as numbers, shape (n,).

    Raises
    ------
    InputError: a label that is no finite number, with its line.
    """
    found = []
    for label, place in zip(texts.labels, texts.places, strict=True):
        try:
            value = float(label)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            remedy = "repair the line, or give classes to --labels"
            refuse(place, "a number in front of the text", quote(label), remedy)
        found.append(value)
    return np.array(found)


def number_parts(texts: LabelledText, seed: int) -> Parts:
    """The parts that the files say, or random ones; equal texts stay on one side of what is
    drawn."""
    same = np.unique(np.array(normal_texts(texts.texts), object).astype(str), return_inverse=True)[
        1
    ]
    one = np.zeros(len(texts), int)  # numbers are no classes to be sampled each by itself
    if texts.parts is None:
        parts = stratified_parts(one, SHARES, seed, groups=same)
    else:
        parts = Parts.of_names(texts.parts)
    if not len(parts.dev):
        parts = hold_out_dev(parts, one, seed=seed, groups=same)
    drawn = parts.drawn.replace(", each label by itself", "")
    return Parts(parts.train, parts.test, parts.dev, drawn)


@dataclasses.dataclass(frozen=True, eq=False)
class NumberTask(Task):
    """A number for each sentence.

    Attributes
    ----------
    name: of the task. text: the sentences. numbers: shape (n,), one each. parts: train, dev and
        test among them.
    """

    name: str
    text: Text
    numbers: np.ndarray
    parts: Parts

    def __post_init__(self) -> None:
        names = np.array(normal_texts(self.text.corpus.sentences), object)
        for part, rows in (
            ("train", self.parts.train),
            ("dev", self.parts.dev),
            ("test", self.parts.test),
        ):
            texts = len(set(names[rows].tolist()))
            if texts < _FEWEST or np.ptp(self.numbers[rows]) == 0:
                got = f"{texts} with {len(np.unique(self.numbers[rows]))} different number(s)"
                expected = f"{_FEWEST} or more texts in {part}, with numbers that differ"
                refuse(self.name, expected, got, "give more items")

    @property
    def texts(self) -> Mapping[str, Text]:
        """The text."""
        return {self.name: self.text}

    def facts(self) -> dict[str, Any]:
        """Sizes of the parts, how they were sampled, and between which numbers the labels lie."""
        return {
            **self.parts.sizes,
            "drawn": self.parts.drawn,
            "numbers": [float(self.numbers.min()), float(self.numbers.max())],
        }

    def measure(self, given: Given) -> Measured:
        """Spearman's correlation and R² of each layer, beside shuffled numbers and random
        weights."""
        layers = functools.partial(given.layers, self.name, np.arange(len(self.numbers)))
        names = text_names(normal_texts(self.text.corpus.sentences))
        result = probe_numbers(
            layers(),
            self.numbers,
            self.parts,
            texts=names,
            groups=names,
            random_layers=layers(random=True) if given.random is not None else None,
            seeds=given.seeds,
        )
        shared = shared_texts(names, self.numbers, self.parts)
        told = {
            "truncated": given.stores[self.name].manifest.get("truncated", 0),
            "n_train": len(self.parts.train),
        }
        told |= {
            "part": "test",
            "parts": self.parts.drawn,
            "seeds": list(given.seeds),
            **shared.details(),
        }
        fields = {**given.common, "task": self.name}
        return Measured(
            _scores(result, fields, told, shared),
            self._outcomes(result, names, fields, given.seeds),
        )

    def _outcomes(
        self,
        result: NumberResult,
        names: np.ndarray,
        fields: Mapping[str, Any],
        seeds: Sequence[int],
    ) -> list[Outcomes]:
        """The numbers that were answered to each test item; to shuffled numbers by the seed that
        shuffled them."""
        rows, found = self.parts.test, list[Outcomes]()
        sentences = self.text.corpus.sentences
        items = TestItems.of(
            [(sentences[row], float(self.numbers[row])) for row in rows], names[rows]
        )
        answered: list[tuple[NumberAnswers, dict[str, Any]]] = [(result.answers, {})]
        answered += (
            []
            if result.random_encoder is None
            else [(result.random_encoder, {"condition": "random_encoder"})]
        )
        shuffled = zip(result.shuffled, seeds, strict=True)
        answered += [
            (one, {"condition": "shuffled_labels", "seed": seed}) for one, seed in shuffled
        ]
        for answers, more in answered:
            mine = dataclasses.replace(
                items, gold=np.array([repr(number) for number in answers.true.tolist()])
            )
            place: dict[str, Any] = {**fields, "part": "test", "quantity": "spearman", **more}
            found += [
                mine.outcomes(given, **place, layer=layer)
                for layer, given in enumerate(answers.given)
            ]
        return found


def _scores(
    result: NumberResult, fields: Mapping[str, Any], told: dict[str, Any], shared: Shared
) -> list[Score]:
    """Every layer's measurements: of the encoder on dev and test, with random weights, on shuffled
    numbers."""
    answers, random, scores = result.answers, result.random_encoder, list[Score]()
    assert answers.groups is not None
    if (groups := len(np.unique(answers.groups))) < len(answers.true):
        told = {**told, "groups": groups}
    for layer, penalty in enumerate(result.penalty.tolist()):
        place, details = {**fields, "layer": layer}, {**told, "ridge_penalty": penalty}
        if result.dev is not None:
            scores += _two(result.dev, layer, place, {**details, "part": "dev"})[:1]
        spread = result.resampled[:, layer]
        there = len(spread) > 0 and not np.isnan(spread).any()
        mine = {
            **details,
            **({"resampled": [float(spread.min()), float(spread.max())]} if there else {}),
        }
        scores += _two(
            answers,
            layer,
            place,
            {**mine, **_above(answers, random, layer), **_without_shared(answers, layer, shared)},
        )
        if random is not None:
            scores += _two(random, layer, {**place, "condition": "random_encoder"}, details)
        if len(result.shuffled):
            scores.append(
                _control(result.control[:, layer], {**place, "n": len(answers.true)}, details)
            )
    return scores


def _two(
    answers: NumberAnswers, layer: int, place: Mapping[str, Any], details: dict[str, Any]
) -> list[Score]:
    """Spearman's correlation, with its interval, and R² of one layer."""
    value, ends, n = float(answers.spearman[layer]), answers.interval[layer], len(answers.true)
    low, high = (None, None) if math.isnan(ends[0]) else ends
    reason = {"reason": _CONSTANT} if math.isnan(value) else {}
    unpaired = {
        key: told
        for key, told in details.items()
        if key not in ("resampled", "above_control", "without_shared")
    }
    return [
        Score(
            **place,
            quantity="spearman",
            value=value,
            low=low,
            high=high,
            n=n,
            details={**details, **reason},
        ),
        Score(**place, quantity="r2", value=float(answers.r2[layer]), n=n, details=unpaired),
    ]


def _control(values: np.ndarray, place: Mapping[str, Any], details: dict[str, Any]) -> Score:
    """The mean correlation over seeds on shuffled numbers, with Student's interval over the
    seeds."""
    fields: dict[str, Any] = {**place, "quantity": "spearman", "condition": "shuffled_labels"}
    if np.isnan(values).any():
        return Score(**fields, value=math.nan, details={**details, "reason": _CONSTANT})
    spread = seed_spread(values, details["seeds"], "spearman")
    ends = {name: spread["over_seeds"][name] for name in ("low", "high")}
    return Score(
        **fields,
        value=spread["over_seeds"]["mean"],
        **ends,
        details={**details, **spread, "interval": "Student's t over seeds"},
    )


def _above(answers: NumberAnswers, random: NumberAnswers | None, layer: int) -> dict[str, Any]:
    """For the details: how far the correlation is above that with random weights, on the same
    items."""
    if random is None or np.ptp(answers.given[layer]) == 0 or np.ptp(random.given[layer]) == 0:
        return {}
    difference = spearman_difference(
        answers.given[layer], random.given[layer], answers.true, answers.groups
    )
    return {"above_control": Difference.of(difference[:3]).as_dict()}


def _without_shared(answers: NumberAnswers, layer: int, shared: Shared) -> dict[str, Any]:
    """For the details: the correlation on test items whose text is not in training; nothing where
    no text is shared."""
    if not shared.rows.any():
        return {}
    left = answers.rows(~shared.rows)
    assert left.groups is not None
    found = Ends(None, None, None, 0)
    if (
        len(np.unique(left.groups)) >= _FEWEST
        and np.ptp(left.true) > 0
        and not math.isnan(left.spearman[layer])
    ):
        low, high = left.interval[layer]
        found = Ends(float(left.spearman[layer]), low, high, len(left.true))
    return {"without_shared": found.as_dict()}
