"""Transfer: encoders fine-tuned on one or more languages and tested on others.

    task, languages -> items -> each setting and seed fine-tuned -> answers in every language
    -> counts, item by item -> means over seeds with intervals, beside every control

A fine-tuning is a part of the run: it is resumed where it was stopped, and when its answers are
written its weights go, unless they are to be kept.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.asked import asked_of
from crosslens.corpus import Corpus
from crosslens.errors import InputError, refuse
from crosslens.models.network.parser_sizes import PARSERS
from crosslens.outcomes import Outcomes, read_outcomes
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.progress import say
from crosslens.readers.treebank import UPOS
from crosslens.run.engine import Run, versions
from crosslens.run.study import display_name
from crosslens.run.transfer_data import Split, TaskData, transfer_data
from crosslens.run.transfer_measures import (
    Answers,
    answers_of,
    counted,
    difference,
    items_counted,
    majority,
    most_frequent,
    outcomes,
    over_seeds,
)
from crosslens.run.transfer_presets import PRESETS, SPANS_BY, Preset, find_preset
from crosslens.score import Score

__all__ = ["Transfer", "run_transfer"]

_SET = ("epochs", "batch_size", "peak_rate", "max_length", "pool", "warmup")
IN_LANGUAGE, RANDOM = "in_language", "random_encoder"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transfer:
    """What a run of transfer is told.

    Attributes
    ----------
    encoders: folders or hub names, one or more; each is fine-tuned, and they are compared.
    tasks: names of the catalogue's tasks.
    data: the folder with the data sets, or "hf:".
    train: the languages that are trained on, together; names of treebanks will do.
    test: the languages that are tested on.
    preset: settings of fine-tuning by name (:data:`crosslens.run.transfer_presets.PRESETS`); where it
        is a grid, the setting that is best on dev is taken.
    epochs, batch_size, peak_rate, max_length, pool, warmup: in the place of the preset's.
    parser: of tasks on trees, sizes by name (:data:`crosslens.models.network.parser_sizes.PARSERS`).
    gold_pos: a parser is given the words' parts of speech as the treebank has them.
    freeze: -1 trains everything, 0 all but the embeddings, n all but these and the first n layers;
        several are measured one after the other.
    seeds: how many seeds, ``seed`` and those behind it: heads, order of examples, dropout.
    seed: the first of them, and that of what is sampled.
    in_language: fine-tune on each test language, too, where it can be trained on, and give the
        differences.
    random_control: fine-tune a randomly re-initialised copy of each encoder, too, with one seed.
    checkpoints: measure beside the epoch that is best on dev of the training language the last one,
        the average of the last ones, and that which is best on the target's dev (an oracle).
    average: how many of the last epochs are averaged.
    limit: most items of each split, sampled; None for all.
    keep: keep the fine-tuned encoders of the first seed, as folders that transformers loads.
    device: "cpu", "cuda", …; trust_remote_code: run the Python code that an encoder brings.

    >>> Transfer(encoders=["model"], tasks=["upos"], data="data", train=["eng"], test=["fra"]).all_seeds
    (0, 1, 2)
    """

    encoders: Sequence[str]
    tasks: Sequence[str]
    data: str
    train: Sequence[str]
    test: Sequence[str]
    preset: str = "default"
    epochs: int | None = None
    batch_size: int | None = None
    peak_rate: float | None = None
    max_length: int | None = None
    pool: str | None = None
    warmup: float | None = None
    parser: str = "wu_dredze"
    gold_pos: bool = False
    freeze: Sequence[int] = (-1,)
    seeds: int = 3
    seed: int = 0
    in_language: bool = False
    random_control: bool = True
    checkpoints: bool = True
    average: int = 3
    limit: int | None = None
    keep: bool = False
    device: str = "cpu"
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        for option, values, what in (
            ("--encoder", self.encoders, "an encoder"),
            ("--tasks", self.tasks, "a task"),
            ("--train", self.train, "a language to train on"),
            ("--test", self.test, "a language to test on"),
            ("--freeze", self.freeze, "a number of layers"),
        ):
            if not values:
                refuse(option, what, "none", f"add {option}")
        if self.preset not in PRESETS:
            expected = f"one of {', '.join(PRESETS)}"
            refuse("--preset", expected, repr(self.preset), "choose one of them")
        if self.parser not in PARSERS:
            refuse("--parser", f"one of {', '.join(PARSERS)}", repr(self.parser), "choose one")
        if self.seeds < 1:
            refuse("--seeds", "1 or more", str(self.seeds), "three show how seeds differ")
        if self.limit is not None and self.limit < 1:
            refuse("--limit", "1 or more items", str(self.limit), "leave it out to take all")

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds, the first one first."""
        return tuple(range(self.seed, self.seed + self.seeds))


@dataclasses.dataclass(frozen=True, eq=False)
class _System:
    """What is fine-tuned.

    Attributes
    ----------
    encoder: its name in scores. path: where it is. mark: its content hash.
    condition: None, "in_language" or "random_encoder".
    freeze: layers that are frozen.
    """

    encoder: str
    path: str
    mark: str
    condition: str | None
    freeze: int


@dataclasses.dataclass(frozen=True, eq=False)
class _Fit:
    """One fine-tuning: what, with which settings and seed, on what, tested on what."""

    system: _System
    data: TaskData
    point: Mapping[str, Any]
    number: int
    seed: int

    @property
    def name(self) -> str:
        """Of the part of the run."""
        system, trained = self.system, "+".join(one.language for one in self.data.train)
        told = [self.data.task.name, trained, system.encoder, system.condition or "encoder"]
        return "-".join([*told, f"freeze{system.freeze}", f"setting{self.number}", f"{self.seed}"])


def run_transfer(transfer: Transfer, out: str | Path) -> Path:
    """Run it, or resume a run that was stopped; returns the folder with ``scores.jsonl``.

    Everything that can be refused is refused before anything is computed or written.

    Parameters
    ----------
    out: the run's folder: config.json, scores.jsonl, outcomes.parquet, models/ while it is trained.

    Raises
    ------
    InputError: data, settings or encoders are not what is needed.
    OutputError: the folder holds something else, or cannot be written to.
    """
    data = DataFolder(transfer.data)
    told: dict[str, Any] = {"limit": transfer.limit, "seed": transfer.seed}
    tasks = {
        name: transfer_data(name, data, transfer.train, transfer.test, **told)
        for name in dict.fromkeys(transfer.tasks)
    }
    presets = {name: _preset(transfer, one) for name, one in tasks.items()}
    for name, preset in presets.items():
        for point in preset.grid():
            _settings_of(point, tasks[name].task.kind, -1, 0, transfer)
    systems = list(_systems(transfer))
    run = Run(out, "transfer", _settings(transfer, data, systems, presets), _asked(transfer))
    if run.finished:
        with run.open():
            return run.path
    with run.open():
        run.note(**_facts(tasks, data, presets))
        dev = list[Score]()
        for name, task in tasks.items():
            for system in systems:
                dev += _measure(transfer, system, task, presets[name], data, run)
        every = read_outcomes(run.finish_outcomes())
        run.finish([*_means(transfer, tasks, every, presets), *dev])
    return run.path


def _asked(transfer: Transfer) -> dict[str, Any]:
    told = {**vars(transfer), "freeze": ",".join(map(str, transfer.freeze))}
    return asked_of(told, ["encoders", "data"])


def _systems(transfer: Transfer) -> Iterator[_System]:
    from crosslens.models.saved.locate import encoder_fingerprint, resolve_encoder

    for path in dict.fromkeys(transfer.encoders):
        trusted = transfer.trust_remote_code
        mark = encoder_fingerprint(resolve_encoder(path, trust_remote_code=trusted))
        conditions = [None, *([IN_LANGUAGE] * transfer.in_language)]
        conditions += [RANDOM] * transfer.random_control
        for freeze in dict.fromkeys(transfer.freeze):
            for condition in conditions:
                yield _System(display_name(path), path, mark, condition, freeze)


def _settings(
    transfer: Transfer,
    data: DataFolder,
    systems: Sequence[_System],
    presets: Mapping[str, Preset],
) -> dict[str, Any]:
    """What the scores depend on."""
    return {
        "encoders": {one.encoder: one.mark for one in systems},
        "tasks": list(presets),
        "files": {name: digest[:16] for name, digest in data.files.items()},
        "train": list(transfer.train),
        "test": list(transfer.test),
        "preset": transfer.preset,
        "values": {name: _plain(preset.values) for name, preset in presets.items()},
        **{
            name: getattr(transfer, name)
            for name in (
                "seeds",
                "seed",
                "in_language",
                "random_control",
                "checkpoints",
                "parser",
                "gold_pos",
            )  # fmt: skip
        },
        "average": transfer.average,
        "limit": transfer.limit,
        "freeze": list(transfer.freeze),
    }


def _facts(
    tasks: Mapping[str, TaskData], data: DataFolder, presets: Mapping[str, Preset]
) -> dict[str, Any]:
    return {
        "data": {
            "tasks": {name: dict(one.facts) for name, one in tasks.items()},
            "files": dict(data.files),
            **({"revisions": dict(data.revisions)} if data.revisions else {}),
        },
        "cards": {name: one.task.record() for name, one in tasks.items()},
        "sources": {name: dict(preset.sources) for name, preset in presets.items()},
        "versions": versions(),
    }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def _preset(transfer: Transfer, data: TaskData) -> Preset:
    """The preset with what was asked for in its place."""
    preset = find_preset(transfer.preset, data.task.kind)
    given = {name: value for name in _SET if (value := getattr(transfer, name)) is not None}
    sources = {**preset.sources, **dict.fromkeys(given, "asked for")}
    return Preset(preset.name, {**preset.values, **given}, sources)


def _settings_of(
    point: Mapping[str, Any], kind: str, freeze: int, seed: int, transfer: Transfer
) -> Any:
    """The settings of one fine-tuning."""
    from crosslens.models.finetuning.settings import FineTuning

    known = {field.name for field in dataclasses.fields(FineTuning)}
    values = {name: value for name, value in point.items() if name in known}
    average = min(transfer.average, int(values.get("epochs", 1)))
    return FineTuning(**values, freeze=freeze, seed=seed, average=average)


# -- one system on one task


def _measure(
    transfer: Transfer,
    system: _System,
    data: TaskData,
    preset: Preset,
    folder: DataFolder,
    run: Run,
) -> list[Score]:
    """Fine-tune a system with every seed, at the setting that is best on dev; returns the scores of
    dev."""
    if system.condition == IN_LANGUAGE:
        return [
            score
            for one in _in_language(transfer, data, folder)
            for score in _with_seeds(transfer, system, one, preset, run)
        ]
    return _with_seeds(transfer, system, data, preset, run)


def _in_language(transfer: Transfer, data: TaskData, folder: DataFolder) -> Iterator[TaskData]:
    """The task trained on each test language that can be and is not trained on already."""
    trained = {one.language for one in data.train}
    for language in transfer.test:
        try:
            told: dict[str, Any] = {"limit": transfer.limit, "seed": transfer.seed}
            one = transfer_data(data.task.name, folder, [language], [language], **told)
        except InputError as error:  # nothing to train on in this language
            say(f"not fine-tuned on {language}: {error}")
            continue
        if one.train[0].language not in trained:
            yield one


def _with_seeds(
    transfer: Transfer, system: _System, data: TaskData, preset: Preset, run: Run
) -> list[Score]:
    grid, seeds = preset.grid(), transfer.all_seeds
    seeds = seeds[:1] if system.condition == RANDOM else seeds
    encoder = _Loaded(transfer, system)
    fits = [_Fit(system, data, point, number, seeds[0]) for number, point in enumerate(grid)]
    scores = [score for fit in fits for score in _fit(transfer, fit, encoder, run)]
    best = _best_points(transfer, data, scores)
    for number in best:
        for seed in seeds[1:]:
            fit = _Fit(system, data, grid[number], number, seed)
            scores += _fit(transfer, fit, encoder, run)
    chosen = {"chosen": best} if len(grid) > 1 else {}
    return [
        dataclasses.replace(score, details={**(score.details or {}), **chosen}) for score in scores
    ]


def _best_points(transfer: Transfer, data: TaskData, dev: Sequence[Score]) -> list[int]:
    """The setting that is best on dev of the training languages; of Conneau et al. the best two."""
    values = {(score.details or {})["setting"]: score.value for score in dev}
    order = sorted(values, key=lambda n: (-values[n] if not math.isnan(values[n]) else 1.0, n))
    return order[: 2 if transfer.preset == "conneau" and len(order) > 1 else 1]


class _Loaded:
    """The encoder of a system, loaded when it is first needed."""

    def __init__(self, transfer: Transfer, system: _System) -> None:
        self.transfer, self.system = transfer, system

    @functools.cached_property
    def encoder(self) -> Any:
        """See above."""
        from crosslens.models.saved.loading import load_encoder

        seed = self.transfer.seed if self.system.condition == RANDOM else None
        return load_encoder(
            self.system.path,
            random_seed=seed,
            device=self.transfer.device,
            trust_remote_code=self.transfer.trust_remote_code,
        )


def _fit(transfer: Transfer, fit: _Fit, encoder: _Loaded, run: Run) -> list[Score]:
    """One fine-tuning and its answers; the score of dev."""
    return run.measured_part(fit.name, functools.partial(_compute, transfer, fit, encoder, run))


def _compute(
    transfer: Transfer, fit: _Fit, loaded: _Loaded, run: Run
) -> tuple[list[Score], list[Outcomes]]:
    from crosslens.models.finetuning.finetune import fine_tune
    from crosslens.models.finetuning.save import save_fine_tuned

    data, task = fit.data, fit.data.task
    settings = _settings_of(fit.point, task.kind, fit.system.freeze, fit.seed, transfer)
    kind = _kind(data, settings, fit.point, transfer)
    common, spans_by = most_frequent(data.train), SPANS_BY.get(transfer.preset, "strict")
    folder = run.path / "models" / fit.name

    def value(splits: Sequence[Split], predict: Callable[[Any], Any]) -> float:
        found = [
            counted(
                task,
                one,
                answers_of(predict(_examples(one, data)), data.classes, common),
                spans_by,
            )[0]
            for one in splits
        ]
        of = sum(one.of.sum() for one in found)
        return float(sum(one.found.sum() for one in found) / of) if of else math.nan

    measures: dict[str, Callable[[Any], float]] = {"dev": functools.partial(value, data.dev)}
    if transfer.checkpoints and settings.epochs > 1:
        for language, split in data.target_devs.items():
            measures[f"dev of {language}"] = functools.partial(value, [split])
    say(f"fine-tuning {fit.name}")
    train = [_examples(one, data, settings.max_length) for one in data.train]
    tuned = fine_tune(loaded.encoder, kind, train, settings, folder, measures)
    made, unread = list[Outcomes](), dict[str, int]()
    for way, epoch, languages in _checkpoints(transfer, tuned, data):
        tuned.use(epoch)
        for language in languages:
            split = data.tests[language]
            answers = answers_of(tuned.predict(_examples(split, data)), data.classes, common)
            made += _outcomes(fit, split, answers, spans_by, suite=way, target=language)
            if answers.without_subword:
                unread[language] = answers.without_subword
    best = tuned.best_epoch("dev")
    if transfer.keep and fit.seed == transfer.seed:
        kept = run.path / "encoders" / fit.name
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
        **({"without_subword": unread} if unread else {}),
        **_freeze(fit.system),
    }
    quantity = counted(task, data.dev[0], majority(task, data.train, data.dev[0]), spans_by)[
        0
    ].quantity
    trained = "+".join(one.language for one in data.train)
    score = Score(
        quantity=quantity,
        value=epochs[best]["dev"],
        n=sum(map(len, data.dev)),
        task=task.name,
        encoder=fit.system.encoder,
        condition=fit.system.condition,
        source=trained,
        target=trained,
        seed=fit.seed,
        details=details,
    )
    tuned.drop_weights()
    return [score], made


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
    fit: _Fit, split: Split, answers: Answers, spans_by: str, *, suite: str, target: str
) -> list[Outcomes]:
    fields: dict[str, Any] = {
        "task": fit.data.task.name,
        "suite": suite,
        "part": "test",
        "representation": f"setting {fit.number}, freeze {fit.system.freeze}",
        "encoder": fit.system.encoder,
        "condition": fit.system.condition,
        "seed": fit.seed,
        "source": "+".join(one.language for one in fit.data.train),
        "target": target,
    }
    every = counted(fit.data.task, split, answers, spans_by)
    return [outcomes(split, answers, one, **fields) for one in every]


def _kind(data: TaskData, settings: Any, point: Mapping[str, Any], transfer: Transfer) -> Any:
    """What fine-tuning must know of the task."""
    from crosslens.models.finetuning.answer import Answer
    from crosslens.models.finetuning.classify import Classify
    from crosslens.models.finetuning.parse import Parse
    from crosslens.models.finetuning.tag import Tag

    n, longest, rate = len(data.classes), settings.max_length, settings.dropout
    if data.task.kind == "tag":
        return Tag(n, max_length=longest, dropout=rate)
    if data.task.kind == "tree":
        tags = len(UPOS) + 1 if transfer.gold_pos else 0
        return Parse(n, sizes=transfer.parser, tags=tags)
    if data.task.kind == "answer":
        return Answer(longest, int(point["stride"]))
    return Classify(n, max_length=longest, dropout=rate, pool=settings.pool)


def _examples(split: Split, data: TaskData, longest: int | None = None) -> Any:
    """A split as fine-tuning reads it; a label that training lacks is not learnt from.

    ``longest`` is that of sentences whose trees are learnt from, in subwords.
    """
    from crosslens.models.finetuning.examples import (
        QuestionExamples,
        TextExamples,
        TreeExamples,
        WordExamples,
    )

    number = {name: n for n, name in enumerate(data.classes)}
    if split.corpus is not None:
        rows = [np.array([number.get(label, -1) for label in row], int) for row in split.labels]
        if split.heads is None:
            return WordExamples(split.corpus, rows)
        tag = {name: n for n, name in enumerate(UPOS)}
        upos = (split.corpus.annotations or {})["upos"]
        tags = [np.array([tag.get(name, len(UPOS)) for name in row], int) for row in upos]
        return TreeExamples(split.corpus, split.heads, rows, tags, longest)
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


def _freeze(system: _System) -> dict[str, Any]:
    return {} if system.freeze == -1 else {"freeze": system.freeze}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


# -- means over seeds

_WAYS = {
    "dev": None,
    "last": "last_epoch",
    "average": "averaged_epochs",
    "target_dev": "target_dev_oracle",
}


def _means(
    transfer: Transfer,
    tasks: Mapping[str, TaskData],
    every: Sequence[Outcomes],
    presets: Mapping[str, Preset],
) -> list[Score]:
    """Means over seeds of each quantity in each language, the controls, and differences."""
    groups: dict[tuple[Any, ...], dict[int, Outcomes]] = {}
    for one in every:
        key = (one.task, one.encoder, one.condition, one.suite, one.representation, one.source)
        groups.setdefault((*key, one.target, one.quantity, one.method), {})[one.seed or 0] = one
    kept = {key: seeds for key, seeds in groups.items() if _complete(transfer, key, groups)}
    scores = []
    spans_by = SPANS_BY.get(transfer.preset, "strict")
    for (name, encoder, condition, way, where, source, target, *_), seeds in kept.items():
        data = tasks[name]
        split = data.tests.get(target)
        first = next(iter(seeds.values()))
        fields: dict[str, Any] = {
            "task": name,
            "encoder": encoder,
            "condition": _condition(condition, way),
            "source": source,
            "target": target,
            "n": len(first) if split is None else _n(data, split, first),
            "details": _told(where),
        }
        scores.append(over_seeds(seeds, fields))
    for name, data in tasks.items():
        if data.task.kind == "answer":  # there is no most frequent answer
            continue
        scores += _majority_scores(name, data, spans_by)
    return [*scores, *_differences(kept, tasks)]


def _complete(transfer: Transfer, key: tuple[Any, ...], groups: Mapping[Any, Any]) -> bool:
    """Whether a setting was measured with all seeds: others of a grid were tried with one."""
    seeds = 1 if key[2] == RANDOM else transfer.seeds
    return len(groups[key]) == seeds or transfer.seeds == 1


def _condition(condition: str | None, way: str | None) -> str | None:
    told = [one for one in (condition, _WAYS[way or "dev"]) if one is not None]
    return "_".join(told) or None


def _told(where: str | None) -> dict[str, Any]:
    """The setting and the frozen layers of a fine-tuning, from its outcomes."""
    setting, _, frozen = (where or "").partition(", ")
    freeze = int(frozen.removeprefix("freeze ") or -1)
    number = int(setting.removeprefix("setting ") or 0)
    return {"part": "test", "setting": number} | ({} if freeze == -1 else {"freeze": freeze})


def _n(data: TaskData, split: Split, first: Outcomes) -> int:
    from crosslens.probes.methods.counted import Counted

    assert first.of is not None
    return items_counted(
        data.task, split, Counted(first.quantity, first.outcome, first.of, first.method or "")
    )


def _majority_scores(name: str, data: TaskData, spans_by: str) -> Iterator[Score]:
    trained = "+".join(one.language for one in data.train)
    for target, split in data.tests.items():
        answers = majority(data.task, data.train, split)
        for one in counted(data.task, split, answers, spans_by):
            fields = {"task": name, "source": trained, "target": target, "condition": "majority"}
            made = outcomes(split, answers, one, task=name)
            n = items_counted(data.task, split, one)
            yield over_seeds({0: made}, {**fields, "n": n, "details": {"part": "test"}})


def _differences(
    kept: Mapping[tuple[Any, ...], Mapping[int, Outcomes]], tasks: Mapping[str, TaskData]
) -> Iterator[Score]:
    """Zero-shot less in-language, and each encoder less each later one, at the epoch that is best on
    dev."""
    for key, seeds in kept.items():
        name, encoder, condition, way, where, source, target, quantity, preset = key
        if condition is not None or way != "dev":
            continue
        for other, theirs in kept.items():
            same = (other[0], other[3], other[6], other[7], other[8]) == (
                name,
                way,
                target,
                quantity,
                preset,
            )
            rival = same and other[2] is None and other[5] == source and other[1] != encoder
            rival = rival and other[4] == where and list(kept).index(other) > list(kept).index(key)
            reference = same and other[2] == IN_LANGUAGE and other[1] == encoder
            if not (rival or reference and other[4].endswith(where.partition(", ")[2])):
                continue
            fields = {
                "task": name,
                "encoder": f"{encoder} / {other[1]}" if rival else encoder,
                "condition": "encoders" if rival else "zero_shot_less_in_language",
                "source": source,
                "target": target,
                "n": len(next(iter(seeds.values()))),
                "details": {**_told(where), **({"counted_as": preset} if preset else {})},
            }
            if (score := difference(seeds, theirs, fields)) is not None:
                yield score
