"""From predictions to what is counted, and from several seeds to means with intervals."""

import collections
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.outcomes import Outcomes, item_ids, sums_by_group
from crosslens.probes.methods.answer_scores import ANSWER_PRESETS, answer_presets, count_answers
from crosslens.probes.methods.counted import Counted
from crosslens.probes.methods.parse_scores import (
    PARSE_PRESETS,
    SUBTYPED,
    Tree,
    count_attachments,
)
from crosslens.probes.methods.span_scores import SPAN_PRESETS, count_spans, spans
from crosslens.probes.methods.tag_scores import count_tags, count_tags_xtreme
from crosslens.probes.tasks.task import Task
from crosslens.run.transfer.splits import Split
from crosslens.score import Score
from crosslens.seed_intervals import seeds_contrast, seeds_share

__all__ = [
    "Answers",
    "answers_of",
    "contrast",
    "counted",
    "difference",
    "in_order",
    "majority",
    "most_frequent",
    "n_counted",
    "n_of_dev",
    "outcomes",
    "over_seeds",
]


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """What was answered to the items of a split.

    Attributes
    ----------
    labels: for each item a label, or for each sentence its words' labels, or the answer's text.
    heads: of trees, for each sentence its words' heads.
    without_subword: words that the encoder has no subword for, which get the most frequent label of
        training.
    windows: where windows are examples of their own, the places of each sentence's words in them.
    gold: tags of names in the order of a derived language, as ``labels`` are then; None: the
        split's.
    """

    labels: Sequence[Any]
    without_subword: int = 0
    heads: Sequence[np.ndarray] | None = None
    windows: Sequence[Sequence[np.ndarray]] | None = None
    gold: Sequence[Sequence[str]] | None = None


def answers_of(
    predictions: Any,
    classes: Sequence[str],
    common: str,
    windows: Sequence[Sequence[np.ndarray]] | None = None,
) -> Answers:
    """Labels of what a kind of fine-tuning predicts: log-probabilities (n, c), numbers of classes
    word by word, -1 where there is no subword, trees, or texts of answers.

    >>> found = answers_of([np.array([1, -1])], ["DET", "NOUN"], "NOUN")
    >>> found.labels, found.without_subword
    ([['NOUN', 'NOUN']], 1)
    """
    if isinstance(predictions, np.ndarray):
        return Answers([classes[best] for best in predictions.argmax(1).tolist()])
    if all(isinstance(one, str) for one in predictions):
        return Answers(predictions)
    heads = None
    if predictions and hasattr(predictions[0], "heads"):
        heads, predictions = [p.heads for p in predictions], [p.relations for p in predictions]
    rows = [[classes[n] if n >= 0 else common for n in row.tolist()] for row in predictions]
    return Answers(rows, sum(int((row < 0).sum()) for row in predictions), heads, windows)


def in_order(split: Split, answers: Answers, orders: Sequence[np.ndarray]) -> Answers:
    """Tags of names in the order of a derived language, where they are counted as in any other: the
    gold ones begin with B- there, and windows are one behind the other.

    Parameters
    ----------
    orders: for each sentence its words, numbers of the original, as the derived language has them.
    """
    from crosslens.models.finetuning.derived import entities_in_order

    gold = [entities_in_order(row, order) for row, order in zip(split.labels, orders, strict=True)]
    labels = [
        [row[word] for word in order.tolist()]
        for row, order in zip(answers.labels, orders, strict=True)
    ]
    windows = answers.windows
    if windows is not None:
        ends = [np.cumsum([0, *map(len, some)]) for some in windows]
        windows = [[np.arange(a, b) for a, b in itertools.pairwise(one)] for one in ends]
    return dataclasses.replace(answers, labels=labels, gold=gold, windows=windows)


def majority(task: Task, train: Sequence[Split], split: Split) -> Answers:
    """The most frequent label of training, whatever the item: the control without an encoder; of
    questions, no answer."""
    if task.kind == "answer":
        return Answers([""] * len(split))
    common = most_frequent(train)
    if split.corpus is None:
        return Answers([common] * len(split))
    heads = None if split.heads is None else _to_neighbours(train, split)
    return Answers([[common] * len(row) for row in split.labels], heads=heads)


def _to_neighbours(train: Sequence[Split], split: Split) -> list[np.ndarray]:
    """Each word below its neighbour on that side which is more often right in training."""
    before = after = 0
    for row in (row for one in train for row in one.heads or ()):
        places = np.arange(1, len(row) + 1)
        before, after = before + (row == places - 1).sum(), after + (row == places + 1).sum()
    made = []
    for row in split.heads or ():
        places = np.arange(1, len(row) + 1)
        made.append(places - 1 if before >= after else np.where(places < len(row), places + 1, 0))
    return made


def most_frequent(train: Sequence[Split]) -> str:
    """The most frequent label of training items; of equal ones the first in their order; "" of
    questions, which have none."""
    counts = collections.Counter(
        label
        for one in train
        for row in one.labels
        for label in ([row] if isinstance(row, str) else row)
        if isinstance(label, str) and label
    )
    return counts.most_common(1)[0][0] if counts else ""


def counted(task: Task, split: Split, answers: Answers, spans_by: str) -> list[Counted]:
    """Everything that is counted of the answers, the headline first.

    Parameters
    ----------
    spans_by: of tasks of spans, the reading that is the headline; Wu & Dredze's is by windows where
        these are examples of their own. Of trees the headline is Wu & Dredze's; the gold relations
        are the treebank's with their subtypes, of which no parser here predicts one.
    """
    if task.kind == "answer":
        return _count_answers(task, split, answers)
    if split.corpus is None:
        right = np.array([float(a == b) for a, b in zip(split.labels, answers.labels, strict=True)])
        return [Counted("accuracy", right, np.ones(len(right)))]
    if split.heads is not None:
        found = (
            _trees(split, split.heads, _whole_relations(split)),
            _trees(split, answers.heads, answers.labels),
        )
        return [one for preset in PARSE_PRESETS for one in count_attachments(*found, preset)]
    labels = split.labels if answers.gold is None else answers.gold
    accuracy = count_tags(labels, answers.labels)
    if not task.spans:
        return [accuracy, count_tags_xtreme(labels, answers.labels)]
    gold = [[label or "O" for label in row] for row in labels]
    presets = [spans_by, *(preset for preset in SPAN_PRESETS if preset != spans_by)]
    windows = {"wu_dredze": answers.windows}
    return [
        *(count_spans(gold, answers.labels, one, windows.get(one)) for one in presets),
        accuracy,
    ]


def _whole_relations(split: Split) -> Sequence[Sequence[str]]:
    """The treebank's own relations; ``labels``, which parsers learn, have no subtypes."""
    assert split.corpus is not None
    relations: Sequence[Sequence[str]] = (split.corpus.annotations or {})["deprel"]
    return relations


def _trees(
    split: Split, heads: Sequence[np.ndarray] | None, relations: Sequence[Sequence[str]]
) -> list[Tree]:
    assert split.corpus is not None and heads is not None
    columns = split.corpus.annotations or {}
    rows = zip(heads, relations, columns["form"], columns["upos"], strict=True)
    return [Tree(some.tolist(), names, forms, tags) for some, names, forms, tags in rows]


def _count_answers(task: Task, split: Split, answers: Answers) -> list[Counted]:
    """F1 and exact match by the task's own definition, and by others that hold for the language."""
    gold = [[one.text for one in row] for row in split.labels]
    language = split.original or split.language
    first = task.answers or ANSWER_PRESETS[0]
    presets = [first, *(one for one in answer_presets(language) if one != first)]
    return [
        one for preset in presets for one in count_answers(gold, answers.labels, language, preset)
    ]


def outcomes(split: Split, answers: Answers, one: Counted, **fields: Any) -> Outcomes:
    """A quantity of a test set, item by item."""

    def plain(label: Any) -> str:
        if isinstance(label, tuple):
            return " | ".join(dict.fromkeys(answer.text for answer in label))
        return label if isinstance(label, str) else " ".join(tag or "_" for tag in label)

    def text(labels: Sequence[Any], heads: Sequence[np.ndarray] | None) -> np.ndarray:
        if heads is not None:
            pairs = [zip(*row, strict=True) for row in zip(heads, labels, strict=True)]
            labels = [[f"{head}:{name}" for head, name in row] for row in pairs]
        return np.array([plain(label) for label in labels], object)

    gold = text(split.labels, split.heads)
    seconds = split.seconds or [""] * len(split)
    named = zip(split.texts, seconds, gold.tolist(), strict=True)  # whatever the order
    shown = gold if answers.gold is None else text(answers.gold, None)
    if one.preset in SUBTYPED:
        shown = text(_whole_relations(split), split.heads)
    return Outcomes(
        quantity=one.quantity,
        method=one.preset or None,
        item=np.arange(len(split)),
        item_id=item_ids(named),
        group=split.groups,
        outcome=one.found,
        of=one.of,
        gold=shown,
        predicted=text(answers.labels, answers.heads),
        **fields,
    )


def n_counted(task: Task, one: Outcomes) -> int:
    """What the n of a measurement is, from its outcomes: texts, words with a label, or gold spans."""
    if one.quantity == "span_f1" and task.spans and one.gold is not None:
        rows = (["O" if tag == "_" else tag for tag in row.split()] for row in one.gold.tolist())
        return sum(len(spans(row, one.method or "strict")) for row in rows)
    by_word = task.kind in ("tag", "tree") and one.quantity in ("accuracy", "las", "uas")
    return int(one.of.sum()) if by_word and one.of is not None else len(one)


def n_of_dev(task: Task, train: Sequence[Split], dev: Sequence[Split], spans_by: str) -> int:
    """The n of a measurement on development splits together, as :func:`n_counted` has it of one."""
    found = 0
    for split in dev:
        answers = majority(task, train, split)
        one = counted(task, split, answers, spans_by)[0]
        found += n_counted(task, outcomes(split, answers, one, task=task.name))
    return found


def over_seeds(seeds: Mapping[int, Outcomes], fields: Mapping[str, Any]) -> Score:
    """The mean over seeds with its 95 % interval over seeds and groups of items.

    Parameters
    ----------
    seeds: seed -> the same quantity of the same items. fields: of the score, details among them.
    """
    order = sorted(seeds)
    first = seeds[order[0]]
    found, of = sums_by_group([seeds[seed] for seed in order])
    details: dict[str, Any] = {**fields.get("details", {}), "groups": found.shape[1]}
    if first.method:
        details["counted_as"] = first.method
    each = [seeds[seed].mean for seed in order]  # JSON has no word for NaN
    values = [None if np.isnan(value) else value for value in each]
    details["over_seeds"] = {"seeds": order, "values": values}
    told = {**fields, "quantity": first.quantity, "details": details}
    if not (of.sum(axis=1) > 0).all():
        details["reason"] = "nothing to count: no gold and no predicted span"
        return Score(**told, value=float("nan"))
    mean, low, high = seeds_share(found, of)
    bounds = (None, None) if np.isnan(low) else (low, high)
    return Score(**told, value=mean, low=bounds[0], high=bounds[1])


def difference(
    first: Mapping[int, Outcomes], second: Mapping[int, Outcomes], fields: Mapping[str, Any]
) -> Score | None:
    """The difference of two systems' means over seeds on the same items, first - second; None where
    the items differ or nothing was counted."""
    one, other = ([side[seed] for seed in sorted(side)] for side in (first, second))
    return contrast([[(1.0, one)], [(-1.0, other)]], fields)


def contrast(
    sides: Sequence[Sequence[tuple[float, Sequence[Outcomes]]]], fields: Mapping[str, Any]
) -> Score | None:
    """A sum with weights of means over seeds on the same items with its 95 % interval
    (:func:`crosslens.seed_intervals.seeds_contrast`); None where the items differ or nothing was
    counted.

    Parameters
    ----------
    sides: of each side, whose seeds are its own, (weight, outcomes of each seed); within a side seeds
        are paired. fields: of the score.
    """
    every = [one for side in sides for _, found in side for one in found]
    if any(one.item_id.tolist() != every[0].item_id.tolist() for one in every):
        return None
    counts = [[(weight, *sums_by_group(found)) for weight, found in side] for side in sides]
    if any((of.sum(axis=1) <= 0).any() for side in counts for _, _, of in side):
        return None
    value, low, high = seeds_contrast(*counts)
    bounds = (None, None) if np.isnan(low) else (low, high)
    quantity = f"{every[0].quantity}_difference"
    return Score(**{**fields, "quantity": quantity}, value=value, low=bounds[0], high=bounds[1])
