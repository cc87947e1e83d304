"""One fine-tuning of a run of transfer: its data, its settings, and its answers in every language."""

import copy
import dataclasses
import functools
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from crosslens.corpus import Corpus
from crosslens.outcomes import Outcomes
from crosslens.probes.methods.counted import Counted
from crosslens.probes.tasks.task import Task
from crosslens.progress import say
from crosslens.readers.treebank import UPOS
from crosslens.run.engine import Run
from crosslens.run.transfer.data import TaskData
from crosslens.run.transfer.measures import (
    Answers,
    answers_of,
    counted,
    in_order,
    majority,
    most_frequent,
    n_of_dev,
    outcomes,
)
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.splits import Reading, Split
from crosslens.score import Score

__all__ = [
    "IN_LANGUAGE",
    "LESS",
    "RANDOM",
    "Fit",
    "Loaded",
    "System",
    "answering",
    "derived_examples",
    "examples_of",
    "fit_one",
    "kept_encoder",
    "kind_of",
    "settings_of",
    "share_right",
]

IN_LANGUAGE, RANDOM = "in_language", "random_encoder"
LESS = "zero_shot_less_in_language"


@dataclasses.dataclass(frozen=True, eq=False)
class System:
    """What is fine-tuned.

    Attributes
    ----------
    encoder: its name in scores. path: where it is. mark: its content hash.
    condition: None, "in_language" or "random_encoder".
    freeze: layers that are frozen.
    readings: derived language -> how it is read.
    """

    encoder: str
    path: str
    mark: str
    condition: str | None
    freeze: int
    readings: Mapping[str, Reading] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """One fine-tuning: what, with which settings and seed, on what, tested on what.

    Attributes
    ----------
    to_beat: what it must exceed on dev to be tested: a setting of a grid that others have beaten there
        already will not be taken.
    """

    system: System
    data: TaskData
    point: Mapping[str, Any]
    number: int
    seed: int
    to_beat: float = -math.inf

    @property
    def name(self) -> str:
        """What the part of the run is called whose file has its scores."""
        system, trained = self.system, self.data.trained_on
        if system.condition == IN_LANGUAGE:  # two treebanks of one language are two trainings
            (trained,) = self.data.tests
        told = [self.data.task.name, trained, system.encoder, system.condition or "encoder"]
        return "-".join([*told, f"freeze{system.freeze}", f"setting{self.number}", f"{self.seed}"])


def settings_of(
    point: Mapping[str, Any], kind: str, freeze: int, seed: int, transfer: Transfer
) -> Any:
    """The settings of one fine-tuning."""
    from crosslens.models.finetuning.settings import FineTuning

    known = {field.name for field in dataclasses.fields(FineTuning)}
    values = {name: value for name, value in point.items() if name in known}
    average = min(transfer.average, int(values.get("epochs", 1)))
    return FineTuning(
        **values, freeze=freeze, seed=seed, average=average, precision=transfer.precision
    )


class Loaded:
    """The encoder of a system, loaded when it is first needed."""

    def __init__(self, transfer: Transfer, system: System) -> None:
        self.transfer, self.system = transfer, system

    @functools.cached_property
    def encoder(self) -> Any:
        """The encoder, loaded at the first call: of the control with random weights, and with new random
        rows for a language that it has none of, where that is asked for."""
        from crosslens.models.saved.loading import load_encoder

        seed = self.transfer.seed if self.system.condition == RANDOM else None
        encoder = load_encoder(
            self.system.path,
            random_seed=seed,
            device=self.transfer.device,
            trust_remote_code=self.transfer.trust_remote_code,
        )
        if any(one.unseen == "random" for one in self.system.readings.values()):
            from crosslens.models.finetuning.derived import with_random_rows

            return with_random_rows(encoder, self.transfer.seed)
        return encoder


def fit_one(transfer: Transfer, fit: Fit, encoder: Loaded, run: Run, world: Any) -> list[Score]:
    """One fine-tuning and its answers; the score of dev. Of several processes the first answers and
    writes, and the others train along."""
    from crosslens.models.finetuning.finetune import drop_weights

    compute = functools.partial(_compute, transfer, fit, encoder, run)
    with world.together():  # all have looked before one writes
        there = run.has(fit.name)
    if world.first:
        scores = run.measured_part(fit.name, compute)
    elif not there:
        _tune(transfer, fit, encoder, run)
    with world.together():
        pass
    if world.first:  # what they answer is written
        drop_weights(run.path / "models" / fit.name)
    return scores if world.first else run.measured_part(fit.name, compute)


_Answer = Callable[[Split, Callable[[Any], Any]], Answers]


def _tune(transfer: Transfer, fit: Fit, loaded: Loaded, run: Run) -> tuple[Any, _Answer]:
    """What is fine-tuned, and what it answers to a split."""
    from crosslens.models.finetuning.finetune import fine_tune
    from crosslens.models.finetuning.frozen import FrozenStates

    data, task = fit.data, fit.data.task
    settings = settings_of(fit.point, task.kind, fit.system.freeze, fit.seed, transfer)
    kind = kind_of(data, settings, fit.point, transfer)
    spans_by = transfer.spans_by
    folder = run.path / "models" / fit.name

    answer = answering(kind, loaded.encoder, data)
    value = functools.partial(share_right, task, answer, spans_by)
    measures: dict[str, Callable[[Any], float]] = {"dev": functools.partial(value, data.dev)}
    if transfer.checkpoints and settings.epochs > 1:
        for language, split in data.target_devs.items():
            measures[f"dev of {language}"] = functools.partial(value, [split])
    say(f"fine-tuning {fit.name}")
    train = [examples_of(one, data, settings.max_length) for one in data.train]
    source = None
    if settings.features is not None:
        source = FrozenStates(loaded.encoder, run.path / "states", settings.precision)
    tuned = fine_tune(loaded.encoder, kind, train, settings, folder, measures, source)
    return tuned, answer


def _compute(
    transfer: Transfer, fit: Fit, loaded: Loaded, run: Run
) -> tuple[list[Score], list[Outcomes]]:
    from crosslens.models.finetuning.save import save_fine_tuned

    data, task, spans_by = fit.data, fit.data.task, transfer.spans_by
    tuned, answer = _tune(transfer, fit, loaded, run)
    made, wordless, unread = list[Outcomes](), dict[str, int](), dict[str, float]()
    answered: dict[Any, Answers] = {}  # the best epoch is often the last one, too
    best = tuned.best_epoch("dev")
    may_be_taken = tuned.epochs[best]["dev"] > fit.to_beat or fit.to_beat == -math.inf
    for way, epoch, languages in _checkpoints(transfer, tuned, data) if may_be_taken else ():
        for language in languages:
            split, key = data.tests[language], (tuned.numbers(epoch), language)
            if key not in answered:
                answered[key] = answer(split, tuned.use(epoch).predict)
            answers = answered[key]
            made += _outcomes(fit, split, answers, spans_by, suite=way, target=language)
            if answers.without_subword:
                wordless[language] = answers.without_subword
            if way == "dev" and (share := _unread(transfer, fit, loaded, split, answers)):
                unread[language] = share
    common = [counted(task, one, majority(task, data.train, one), spans_by)[0] for one in data.dev]
    if transfer.keep and fit.seed == transfer.seed and fit.system.condition != RANDOM:
        kept = kept_encoder(run, fit)
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            save_fine_tuned(tuned.use("dev"), data.classes, kept)
    epochs = tuned.epochs
    details = {
        "part": "dev",
        "setting": fit.number,
        "epoch": best,
        "epochs": {
            str(e): {k: _number(v) for k, v in found.items()} for e, found in epochs.items()
        },
        "updates": len(epochs) * tuned.per_epoch,
        **({"stopped": True} if len(epochs) < int(fit.point.get("epochs", 1)) else {}),
        "most_frequent": _number(_share(common)),
        **({"without_subword": wordless} if wordless else {}),
        **({"unread": unread} if unread else {}),
        **_freeze(fit.system),
    }
    trained = data.trained_on
    score = Score(
        quantity=common[0].quantity,
        value=epochs[best]["dev"],
        n=n_of_dev(task, data.train, data.dev, spans_by),
        task=task.name,
        encoder=fit.system.encoder,
        condition=fit.system.condition,
        source=trained,
        target=next(iter(data.tests)) if fit.system.condition == IN_LANGUAGE else trained,
        seed=fit.seed,
        details=details,
    )
    return [score], made


def kept_encoder(run: Run, fit: Fit) -> Path:
    """Where a run keeps the encoder of a fine-tuning."""
    name = fit.name.replace("/", "--")  # org/model is no folder, and is not org_model
    return run.path / "encoders" / re.sub(r"[^\w.+-]", "_", name)


def _unread(transfer: Transfer, fit: Fit, loaded: Loaded, split: Split, answers: Answers) -> float:
    """The share of words that the encoder did not read, or of texts or questions that were cut."""
    from crosslens.models.finetuning.answer import Answer
    from crosslens.models.finetuning.classify import Classify
    from crosslens.models.finetuning.derived import rows_of

    if split.corpus is not None:
        return answers.without_subword / max(1, sum(map(len, split.labels)))
    settings = settings_of(fit.point, fit.data.task.kind, fit.system.freeze, fit.seed, transfer)
    kind = kind_of(fit.data, settings, fit.point, transfer)
    if isinstance(kind, Answer):  # paragraphs are read through windows
        read = rows_of(cast(Any, kind), loaded.encoder, examples_of(split, fit.data))
        cut = {int(row.items[0]) for row in read if row.targets["window"].cut}
        return len(cut) / max(1, len(split))
    if not isinstance(kind, Classify):
        return 0.0
    most, whole = min(kind.max_length, loaded.encoder.max_length), copy.copy(loaded.encoder)
    whole.max_length = sys.maxsize
    uncut = dataclasses.replace(kind, max_length=sys.maxsize)
    rows = rows_of(cast(Any, uncut), whole, examples_of(split, fit.data))
    return sum(len(row.ids) > most for row in rows) / max(1, len(split))


def answering(
    kind: Any, encoder: Any, data: TaskData
) -> Callable[[Split, Callable[[Any], Any]], Answers]:
    """How the answers to a split follow from what predicts its examples; ``encoder`` reads them."""
    from crosslens.models.finetuning.derived import plain_of, rows_of, word_orders
    from crosslens.models.finetuning.tag import Tag

    common = most_frequent(data.train)

    @functools.cache
    def windows(split: Split) -> Any:
        if not isinstance(kind, Tag):
            return None
        plain = plain_of(examples_of(split, data))
        return kind.cuts(encoder.for_text(plain.corpus.language), plain)

    @functools.cache
    def orders(split: Split) -> Any:
        return word_orders(
            rows_of(kind, encoder, examples_of(split, data)), [len(row) for row in split.labels]
        )

    def answer(split: Split, predict: Callable[[Any], Any]) -> Answers:
        predicted = predict(examples_of(split, data))
        answers = answers_of(predicted, data.classes, common, windows(split))
        if data.task.spans and split.reading is not None and split.reading.moves:
            return in_order(split, answers, orders(split))
        return answers

    return answer


def share_right(
    task: Task,
    answer: Callable[[Split, Callable[[Any], Any]], Answers],
    spans_by: str,
    splits: Sequence[Split],
    predict: Callable[[Any], Any],
) -> float:
    """What development splits are judged by: the task's headline, over all of them."""
    return _share([counted(task, one, answer(one, predict), spans_by)[0] for one in splits])


def _share(found: Sequence[Counted]) -> float:
    """What is counted over several splits; NaN where there is nothing to count."""
    of = sum(one.of.sum() for one in found)
    return float(sum(one.found.sum() for one in found) / of) if of else math.nan


def _checkpoints(
    transfer: Transfer, tuned: Any, data: TaskData
) -> Iterator[tuple[str, int | str, list[str]]]:
    """Which weights are tested, and in which languages."""
    every = list(data.tests)
    yield "dev", "dev", every
    if transfer.checkpoints and tuned.settings.epochs > 1:
        yield "last", "last", every
        if tuned.settings.average > 1:
            yield "average", "average", every
        for language in data.target_devs:
            yield "target_dev", f"dev of {language}", [language]


def _outcomes(
    fit: Fit, split: Split, answers: Answers, spans_by: str, *, suite: str, target: str
) -> list[Outcomes]:
    fields: dict[str, Any] = {
        "task": fit.data.task.name,
        "suite": suite,
        "part": "test",
        "representation": f"setting {fit.number}, freeze {fit.system.freeze}",
        "encoder": fit.system.encoder,
        "condition": fit.system.condition,
        "seed": fit.seed,
        "source": fit.data.trained_on,
        "target": target,
    }
    every = counted(fit.data.task, split, answers, spans_by)
    return [outcomes(split, answers, one, **fields) for one in every]


def kind_of(data: TaskData, settings: Any, point: Mapping[str, Any], transfer: Transfer) -> Any:
    """What fine-tuning must know of the task."""
    from crosslens.models.finetuning.answer import Answer
    from crosslens.models.finetuning.classify import Classify
    from crosslens.models.finetuning.parse import Parse
    from crosslens.models.finetuning.tag import Tag

    n, longest, rate = len(data.classes), settings.max_length, settings.dropout
    if data.task.kind == "tag":
        windows = str(point.get("windows", "stitched"))
        return Tag(n, max_length=longest, dropout=rate, crf=transfer.crf, windows=windows)
    if data.task.kind == "tree":
        tags = len(UPOS) + 1 if transfer.gold_pos else 0
        roots = str(point.get("roots", "single"))
        return Parse(n, sizes=transfer.parser, tags=tags, roots=roots)
    if data.task.kind == "answer":
        return Answer(longest, int(point["stride"]))
    return Classify(n, max_length=longest, dropout=rate, pool=settings.pool)


def examples_of(split: Split, data: TaskData, longest: int | None = None) -> Any:
    """A split as fine-tuning reads it; a label that training lacks is not learnt from.

    ``longest`` is that of sentences whose trees are learnt from, in subwords.
    """
    plain = _plain_examples(split, data, longest)
    return plain if split.reading is None else derived_examples(plain, split.reading, data)


def derived_examples(plain: Any, reading: Reading, data: TaskData) -> Any:
    """The examples of the original as a derived language has them."""
    from crosslens.models.finetuning.derived import DerivedExamples

    corpora = {
        name: dataclasses.replace(corpus, language=reading.told)
        for name in ("corpus", "second")
        if (corpus := getattr(plain, name, None)) is not None
    }
    plain = dataclasses.replace(plain, **corpora)
    names = data.classes if data.task.spans and reading.moves else None
    return DerivedExamples(plain, reading.how, reading.unseen, names)


def _plain_examples(split: Split, data: TaskData, longest: int | None) -> Any:
    from crosslens.models.finetuning.examples import (
        QuestionExamples,
        TextExamples,
        TreeExamples,
        WordExamples,
    )

    number = {name: n for n, name in enumerate(data.classes)}
    if split.corpus is not None:
        rows = [np.array([number.get(label, -1) for label in row], int) for row in split.labels]
        corpus = split.corpus
        if split.original:  # the encoder is told the language that they are taken for
            corpus = dataclasses.replace(corpus, language=split.language)
        if split.heads is None:
            return WordExamples(corpus, rows)
        tag = {name: n for n, name in enumerate(UPOS)}
        upos = (corpus.annotations or {})["upos"]
        tags = [np.array([tag.get(name, len(UPOS)) for name in row], int) for row in upos]
        return TreeExamples(corpus, split.heads, rows, tags, longest)
    ids = [str(n) for n in range(len(split))]
    first = Corpus(split.language, list(split.texts), ids, data.task.name)
    if data.task.kind == "answer":
        contexts = Corpus(split.language, list(split.seconds or ()), ids, data.task.name)
        return QuestionExamples(first, contexts, split.labels)
    labels = np.array([number.get(label, -1) for label in split.labels], int)
    if split.seconds is None:
        return TextExamples(first, labels)
    return TextExamples(
        first, labels, Corpus(split.language, list(split.seconds), ids, data.task.name)
    )


def _freeze(system: System) -> dict[str, Any]:
    return {} if system.freeze == -1 else {"freeze": system.freeze}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
