"""What may predict transfer, and how closely it goes with the scores: subwords shared with the
training text, and word order as treebanks have it.

It is computed when everything is measured, from the texts of the run. Treebanks are those in the
data folder, whatever the task is about.
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import InputError
from crosslens.probes.methods.predictors import (
    CORRELATIONS,
    Orders,
    arc_orders,
    correlation,
    subword_overlap,
    word_order_distance,
)
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.treebanks import read_treebank
from crosslens.progress import say
from crosslens.run.transfer.data import TaskData
from crosslens.run.transfer.fits import Loaded, System
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.splits import Split, heads_of
from crosslens.score import Score, headline_quantities, is_headline

__all__ = ["correlation_score", "predicted"]

_PART = "train and test"  # what the numbers are of
_BLOCK = 10_000  # texts that are tokenised at once


def predicted(
    transfer: Transfer,
    systems: Sequence[System],
    tasks: Mapping[str, TaskData],
    scores: Sequence[Score],
) -> list[Score]:
    """What may predict transfer, of each task and test language, and its correlations with scores.

    Parameters
    ----------
    systems: what was fine-tuned; each encoder's tokeniser is asked once.
    scores: of :func:`crosslens.run.transfer.means.means`.
    """
    tasks = {name: data for name, data in map(_of_real_languages, tasks.items()) if data.tests}
    encoders = {one.encoder: one for one in systems if one.condition is None}
    found = [
        score
        for name, system in encoders.items()
        for score in _overlaps(name, Loaded(transfer, system).encoder, tasks)
    ]
    found += _distances(transfer, tasks)
    return [*found, *_correlations(tasks, found, scores)]


def _of_real_languages(one: tuple[str, TaskData]) -> tuple[str, TaskData]:
    """A task without derived languages, whose words and trees are those of the original; without
    any where one is trained on."""
    name, data = one
    if any(split.original for split in data.train):
        return name, dataclasses.replace(data, tests={})
    tests = {target: split for target, split in data.tests.items() if not split.original}
    return name, dataclasses.replace(data, tests=tests)


# -- subwords


def _overlaps(name: str, encoder: Any, tasks: Mapping[str, TaskData]) -> Iterator[Score]:
    for task, data in tasks.items():
        train = _subwords(encoder, data.train)
        for target, split in data.tests.items():
            test = _subwords(encoder, [split])
            overlap = subword_overlap(train, test)
            fields = {**_place(task, data, target), "encoder": name}
            for quantity, value, n in (
                ("subword_overlap_types", overlap.types, len(test)),
                ("subword_overlap_tokens", overlap.tokens, test.total()),
                ("subword_jaccard", overlap.jaccard, len(train.keys() | test.keys())),
            ):
                yield Score(quantity=quantity, value=value, n=n, **fields)


def _subwords(encoder: Any, splits: Iterable[Split]) -> collections.Counter[str]:
    """Subwords as they are written, but for special ones, the unknown one among them; each as often
    as it is in the items."""
    from crosslens.models.text.tokenisation import tokenised

    found = collections.Counter[str]()
    for split in splits:
        own = encoder.for_text(split.language, split.language)
        texts = collections.Counter([*split.texts, *(split.seconds or ())])
        every = list(texts)
        for start in range(0, len(every), _BLOCK):
            some = every[start : start + _BLOCK]
            rows = tokenised(own.name, own.tokenizer, some, add_special_tokens=False)
            for text, row in zip(some, rows, strict=True):
                for subword in row.tokens:
                    found[subword] += texts[text]
        for special in own.tokenizer.all_special_tokens:
            found.pop(special, None)
    return found


# -- word order


def _distances(transfer: Transfer, tasks: Mapping[str, TaskData]) -> Iterator[Score]:
    """Between the languages of training together and each test language, where the folder has
    treebanks of all of them."""
    folder = DataFolder(transfer.data)
    if folder.hub is not None:  # nothing is downloaded that was not asked for
        return
    trained = [_orders(folder, name) for name in dict.fromkeys(transfer.train)]
    there = [one for one in trained if one is not None]
    if len(there) < len(trained):
        return
    orders = _together(there)
    for task, data in tasks.items():
        asked = {name: one for one, name in data.names.items()}  # the very treebank that is tested
        for target in data.tests:
            other = _orders(folder, asked.get(target, target))
            if other is None:  # named entities of a treebank that is not there: the language's
                other = _orders(folder, target)
            if other is not None:
                value, kinds = word_order_distance(orders, other)
                place = _place(task, data, target)
                yield Score(quantity="word_order_distance", value=value, n=kinds, **place)


def _orders(folder: DataFolder, language: str) -> Orders | None:
    """A treebank's arcs, of all its splits; None where there is no treebank that can be read."""

    def count() -> Orders | None:
        try:
            splits = read_treebank(folder, language).splits.values()
            return _together([_arcs(corpus) for corpus in splits])
        except Absent:
            return None
        except InputError as error:
            say(f"no word-order distance of {language}: {error}")
            return None

    orders: Orders | None = folder.once(("orders", language), count)
    return orders


def _arcs(corpus: Any) -> Orders:
    heads = [row.tolist() for row in heads_of(corpus)]
    return arc_orders(heads, corpus.annotations["deprel"], corpus.annotations["upos"])


def _together(every: Sequence[Orders]) -> Orders:
    kinds = dict.fromkeys(kind for one in every for kind in one)
    counts = {kind: [one.get(kind, (0, 0)) for one in every] for kind in kinds}
    return {kind: (sum(b for b, _ in of), sum(n for _, n in of)) for kind, of in counts.items()}


# -- correlations


def _correlations(
    tasks: Mapping[str, TaskData], predictors: Sequence[Score], scores: Sequence[Score]
) -> Iterator[Score]:
    """Over the languages that are not trained on, of each system and what may predict its scores."""
    main = headline_quantities(scores)
    for task, (quantity, preset) in main.items():
        if task not in tasks:
            continue
        systems: dict[tuple[str, Any], dict[str, float]] = {}
        for score in scores:
            told = score.details or {}
            if (score.task, score.condition, told.get("part")) == (task, None, "test"):
                if is_headline(score, main):
                    values = systems.setdefault((str(score.encoder), told.get("freeze")), {})
                    values[str(score.target)] = score.value
        for (encoder, freeze), values in systems.items():
            mine = [s for s in predictors if s.task == task and s.encoder in (None, encoder)]
            for name in dict.fromkeys(score.quantity for score in mine):
                found = {str(s.target): s.value for s in mine if s.quantity == name}
                points = _points(tasks[task], found, values)
                details = {"of": quantity, "counted_as": preset or None, "freeze": freeze}
                told = {key: value for key, value in details.items() if value is not None}
                fields = {"encoder": encoder, "condition": name, "source": mine[0].source}
                for kind in CORRELATIONS:
                    yield correlation_score(kind, points, {"task": task, **fields}, told)


def _points(
    data: TaskData, predictor: Mapping[str, float], values: Mapping[str, float]
) -> dict[str, list[float]]:
    """Language -> predictor and score, means where it has several test sets."""
    trained = {one.language for one in data.train}
    found: dict[str, list[tuple[float, float]]] = {}
    for target, split in data.tests.items():
        both = predictor.get(target, math.nan), values.get(target, math.nan)
        if split.language not in trained and np.isfinite(both).all():
            found.setdefault(split.language, []).append(both)
    return {code: np.mean(rows, axis=0).tolist() for code, rows in found.items()}


def correlation_score(
    kind: Any,
    points: Mapping[str, list[float]],
    fields: Mapping[str, Any],
    details: Mapping[str, Any],
) -> Score:
    """The correlation of two numbers as a score, NaN with its reason where there is none.

    Parameters
    ----------
    kind: "pearson" or "spearman". points: what each point is called -> the two numbers.
    fields, details: of the score.
    """
    details = {"part": _PART, **details, "points": dict(points)}
    fields = {**fields, "quantity": kind, "n": len(points)}
    try:
        x, y = np.array([*points.values()], float).reshape(-1, 2).T
        found = correlation(x, y, kind)
    except InputError as error:  # few languages, or numbers that do not vary
        details["reason"] = str(error).partition(": ")[2]
        return Score(**fields, value=math.nan, details=details)
    fields |= {"low": found.low, "high": found.high, "details": {**details, "p": found.p}}
    return Score(**fields, value=found.value)


def _place(task: str, data: TaskData, target: str) -> dict[str, Any]:
    trained = data.trained_on
    return {
        "task": task,
        "source": trained,
        "target": target,
        "condition": "predictor",
        "details": {"part": _PART},
    }
