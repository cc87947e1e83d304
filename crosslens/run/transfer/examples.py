"""Examples of errors: a few items of each test language that were answered wrongly, sampled with the
run's seed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.examples import Example
from crosslens.grid_settings import chosen_settings, setting_of
from crosslens.outcomes import Outcomes
from crosslens.probes.methods.parse_scores import Tree, words_counted
from crosslens.probes.methods.span_scores import Span, spans
from crosslens.run.transfer.data import TaskData
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.splits import Split
from crosslens.score import Score

__all__ = ["examples"]

_EACH = 5  # items of a language


def examples(
    transfer: Transfer,
    tasks: Mapping[str, TaskData],
    every: Sequence[Outcomes],
    dev: Sequence[Score],
) -> Iterator[Example]:
    """Wrong answers of the first seed, at the epoch and setting that are best on dev, by the quantity
    that the task is judged by.

    Parameters
    ----------
    every: outcomes of the run. dev: its scores of dev, which say the settings that were chosen.
    """
    first, chosen = dict[str, tuple[str, str | None]](), chosen_settings(dev)
    for one in every:
        main = first.setdefault(one.task, (one.quantity, one.method))
        if (one.quantity, one.method) != main:
            continue
        told = setting_of(one.representation)
        freeze = told.get("freeze", -1)
        split = tasks[one.task].tests[str(one.target)]
        if split.original and tasks[one.task].task.spans:  # tags in another order than the words
            continue
        first_seed = (one.condition, one.suite, one.seed) == (None, "dev", transfer.seed)
        system = (one.task, one.encoder, None, one.source, freeze, None)
        if first_seed and told["setting"] == chosen.get(system, [0])[0]:
            yield from _sampled(tasks[one.task], one, freeze, transfer.seed)


def _sampled(data: TaskData, one: Outcomes, freeze: int, seed: int) -> Iterator[Example]:
    split, rng = data.tests[str(one.target)], np.random.default_rng(seed)
    wrong = np.flatnonzero(one.outcome < (1 if one.of is None else one.of))
    for row in sorted(rng.choice(wrong, min(_EACH, len(wrong)), replace=False).tolist()):
        yield Example(
            task=one.task,
            encoder=str(one.encoder),
            source=str(one.source),
            target=str(one.target),
            seed=seed,
            item=row,
            freeze=freeze,
            **_shown(data, split, row, one, rng),
        )


def _shown(
    data: TaskData, split: Split, row: int, one: Outcomes, rng: np.random.Generator
) -> dict[str, Any]:
    """What is read of an item, and both answers."""
    assert one.gold is not None and one.predicted is not None
    gold, predicted = str(one.gold[row]), str(one.predicted[row])
    if split.corpus is None:
        texts = [split.texts[row], *([] if split.seconds is None else [split.seconds[row]])]
        if data.task.kind == "answer":
            texts, answers = texts[:1], dict.fromkeys(answer.text for answer in split.labels[row])
            return {"texts": texts, "gold": [*answers], "predicted": [predicted]}
        return {"texts": texts, "gold": [gold], "predicted": [predicted]}
    if data.task.spans:
        return _names(split, row, gold.split(), predicted.split(), one.method or "strict")
    return _word(split, row, gold.split(), predicted.split(), rng)


def _word(
    split: Split, row: int, gold: list[str], predicted: list[str], rng: np.random.Generator
) -> dict[str, Any]:
    """One of the words with another tag, or another head or relation."""
    assert split.corpus is not None and split.corpus.words is not None
    columns = {name: rows[row] for name, rows in (split.corpus.annotations or {}).items()}
    counts = [label != "_" for label in gold]
    if split.heads is not None:
        counts = words_counted(Tree([], [], columns["form"], columns["upos"]))
    wrong = [k for k, counted in enumerate(counts) if counted and gold[k] != predicted[k]]
    word = int(rng.choice(wrong))
    answers = [gold[word], predicted[word]]
    if split.heads is not None:
        answers = [_arc(label, columns["form"]) for label in answers]
    sentence, span = split.corpus.sentences[row], split.corpus.words[row][word]
    return {"texts": [sentence], "marks": [span], "gold": answers[:1], "predicted": answers[1:]}


def _arc(label: str, forms: Sequence[str]) -> str:
    """A head and a relation in words, of "3:obj", say."""
    head, _, relation = label.partition(":")
    return relation if head == "0" else f"{relation} of {forms[int(head) - 1]} ({head})"


def _names(
    split: Split, row: int, gold: list[str], predicted: list[str], preset: str
) -> dict[str, Any]:
    """The names that are missing, and those that are wrong."""
    assert split.corpus is not None and split.corpus.words is not None
    text, words = split.corpus.sentences[row], split.corpus.words[row]
    sides = [
        spans(["O" if tag == "_" else tag for tag in tags], preset) for tags in (gold, predicted)
    ]

    def told(one: Span) -> str:
        return f"{text[words[one[1]][0] : words[one[2] - 1][1]]} ({one[0]})"

    missing, wrong = (
        [one for one in side if one not in other] for side, other in (sides, sides[::-1])
    )
    inside = {k for _, start, end in (*missing, *wrong) for k in range(start, end)}
    marks: list[tuple[int, int]] = []
    for k in sorted(inside):
        start, end = words[k]
        if k - 1 in inside and marks:
            start, end = marks.pop()[0], max(end, words[k - 1][1])
        if not marks or start >= marks[-1][1]:
            marks.append((start, end))
    return {
        "texts": [text],
        "marks": marks,
        "gold": [told(one) for one in missing],
        "predicted": [told(one) for one in wrong],
    }
