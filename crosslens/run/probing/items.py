"""The test items of a task, and what came of each: from a probe's answers to
:class:`crosslens.outcomes.Outcomes`."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from crosslens.evidence import SharedTexts
from crosslens.outcomes import Outcomes, item_ids
from crosslens.probes.methods.results import Answers, ProbeResult
from crosslens.probes.methods.splits import Parts
from crosslens.score import Score

__all__ = [
    "Measured",
    "Shared",
    "TestItems",
    "control_name",
    "probe_outcomes",
    "shared_texts",
]


class Measured(NamedTuple):
    """What a task gives: its measurements, and what they were counted from."""

    scores: list[Score]
    outcomes: list[Outcomes]


@dataclasses.dataclass(frozen=True, eq=False)
class TestItems:
    """The n test items of a task, of which m can be measured.

    Attributes
    ----------
    ids: shape (n,), their names. groups: shape (n,), which of them stand and fall together.
    gold: shape (n,), their labels; None where there are none.
    places: shape (m,), which of them can be measured.
    """

    __test__ = False  # no test of pytest's

    ids: np.ndarray
    groups: np.ndarray
    gold: np.ndarray | None
    places: np.ndarray

    @classmethod
    def of(
        cls,
        items: Sequence[Sequence[Any]],
        groups: Sequence[str] | np.ndarray,
        gold: Any = None,
        places: np.ndarray | None = None,
    ) -> "TestItems":
        """Items by what they are (:func:`crosslens.outcomes.item_ids`); all of them can be measured
        where no places are given."""
        labels = None if gold is None else np.asarray(gold)
        return cls(
            item_ids(items),
            np.asarray(groups),
            labels,
            np.arange(len(items)) if places is None else places,
        )

    @classmethod
    def joined(cls, several: Sequence[tuple[str, "TestItems"]]) -> "TestItems":
        """The items of several languages on end; the language stands in front of each name."""
        ends = np.cumsum([0, *(len(items.ids) for _, items in several)])
        golds = [items.gold for _, items in several]
        return cls(
            np.array([f"{code} {name}" for code, items in several for name in items.ids.tolist()]),
            np.concatenate([items.groups for _, items in several]),
            None
            if any(gold is None for gold in golds)
            else np.concatenate([gold for gold in golds if gold is not None]),
            np.concatenate(
                [begin + items.places for begin, (_, items) in zip(ends, several, strict=False)]
            ),
        )

    def outcomes(
        self, values: np.ndarray, predicted: np.ndarray | None = None, **fields: Any
    ) -> Outcomes:
        """What came of the items that can be measured: shape (m,); and the answers to them."""
        outcome = np.full(len(self.ids), np.nan)
        outcome[self.places] = values
        answers = None
        if predicted is not None:
            answers = np.full(len(self.ids), None, object)
            answers[self.places] = [str(label) for label in predicted.tolist()]
        item = np.arange(len(self.ids))
        columns: dict[str, Any] = {
            "item": item,
            "item_id": self.ids,
            "group": self.groups,
            "gold": self.gold,
            "predicted": answers,
        }
        return Outcomes(**fields, **columns, outcome=outcome)


@dataclasses.dataclass(frozen=True, eq=False)
class Shared:
    """Which test items have a text that training has, too: what a probe may remember is no
    knowledge.

    Attributes
    ----------
    rows: shape (m,), True for these. same: shape (m,), True for those of them that have the same
        label there.
    counts: how many, for the details of scores.
    """

    rows: np.ndarray
    same: np.ndarray
    counts: SharedTexts

    def of(self, places: np.ndarray) -> "Shared":
        """The same of items that stand at these places: edges of sentences, say."""
        rows, same = self.rows[places], self.same[places]
        return Shared(
            rows,
            same,
            dataclasses.replace(self.counts, train=int(rows.sum()), same_label=int(same.sum())),
        )

    def details(self) -> dict[str, Any]:
        """What is reported beside a score; nothing where no text is shared."""
        return (
            {"shared_texts": self.counts.as_dict()}
            if self.counts.train or self.counts.dev or self.counts.dev_train
            else {}
        )


def shared_texts(names: np.ndarray, labels: np.ndarray, parts: Parts) -> Shared:
    """Test items whose text is in train or in dev.

    Parameters
    ----------
    names: shape (n,), the text of each item of all parts. labels: shape (n,), its label (of a word
        its place, too).
    """
    train, dev, test = names[parts.train], names[parts.dev], names[parts.test]
    rows = np.isin(test, train)
    trained = set(zip(train.tolist(), labels[parts.train].tolist(), strict=True))
    same = np.array(
        [one in trained for one in zip(test.tolist(), labels[parts.test].tolist(), strict=True)],
        bool,
    )
    return Shared(
        rows,
        same,
        SharedTexts(
            int(rows.sum()),
            int(same.sum()),
            int(np.isin(test, dev).sum()),
            int(np.isin(dev, train).sum()),
        ),
    )


def probe_outcomes(
    result: ProbeResult, items: TestItems, common: Mapping[str, Any], task: str
) -> list[Outcomes]:
    """Every layer's answers, those on random vectors, to the control tasks (their mean over seeds),
    and the majority's."""
    fields: dict[str, Any] = {**common, "task": task, "part": "test", "quantity": "accuracy"}
    answers = result.answers
    majority = answers.labels[np.full(len(answers.true), result.always)]
    found = [
        items.outcomes(
            (answers.true == result.always).astype(np.float64),
            majority,
            **fields,
            condition="majority",
        )
    ]
    if result.by_type is not None:
        found.append(
            _of_answers(items, result.by_type, 0, {**fields, "condition": "word_majority"})
        )
    for layer in range(len(answers.given)):
        place = {**fields, "layer": layer}
        found.append(_of_answers(items, answers, layer, place))
        if result.random_encoder is not None:
            found.append(
                _of_answers(
                    items, result.random_encoder, layer, {**place, "condition": "random_encoder"}
                )
            )
        if result.control is not None:
            found.append(
                items.outcomes(
                    result.control.correct[:, layer].mean(axis=0),
                    **place,
                    condition=control_name(result),
                )
            )
    return found


def _of_answers(
    items: TestItems, answers: Answers, layer: int, fields: Mapping[str, Any]
) -> Outcomes:
    return items.outcomes(
        answers.correct[layer].astype(np.float64), answers.labels[answers.given[layer]], **fields
    )


def control_name(result: ProbeResult) -> str | None:
    """The condition of the control's measurements."""
    if result.control is None:
        return None
    return "control_task" if result.control.kind == "word_types" else result.control.kind
