"""Transfer: encoders fine-tuned on one or more languages and tested on others.

    task, languages -> items -> each setting and seed fine-tuned -> answers in every language
    -> counts, item by item -> means over seeds with intervals, beside every control

A fine-tuning is a part of the run: it is resumed where it was stopped, and when its answers are
written its weights go, unless they are to be kept.
"""

import contextlib
import dataclasses
import functools
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.asked import asked_of
from crosslens.errors import InputError, OutputError, refuse
from crosslens.examples import EXAMPLES, write_examples
from crosslens.files import read_json
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.saved.derived_languages import own_code
from crosslens.outcomes import read_outcomes
from crosslens.probes.tasks.data_folder import DataFolder, check_folder
from crosslens.progress import say
from crosslens.run.encoder_names import encoder_names
from crosslens.run.engine import Run, versions
from crosslens.run.transfer.data import TaskData, languages_by_task, transfer_data
from crosslens.run.transfer.derived import (
    check_plain,
    check_tasks,
    originals,
    reading_splits,
    readings_of,
    told_readings,
)
from crosslens.run.transfer.examples import examples
from crosslens.run.transfer.fits import (
    IN_LANGUAGE,
    RANDOM,
    Fit,
    Loaded,
    System,
    fit_one,
    kept_encoder,
    settings_of,
)
from crosslens.run.transfer.means import means
from crosslens.run.transfer.predictors import predicted
from crosslens.run.transfer.presets import WORDS_APART, Preset, find_preset, with_features
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.shortfall import shortfall, unread_told
from crosslens.run.transfer.unused import check_used
from crosslens.score import Score

__all__ = [
    "SharedData",
    "check_ahead",
    "check_room",
    "checked_settings",
    "preset_of",
    "run_transfer",
]

_PARAGRAPHS = 128  # subwords that an encoder must read at least for questions on paragraphs
_READ = {"tag": "words", "tree": "words", "answer": "questions"}  # kind -> what is counted unread
_TAUGHT = ("train_items", "dev_items", "test_items", "splits")  # of the data of one language
_SET = (
    *("epochs", "batch_size", "group_by_length", "peak_rate", "head_rate", "max_length", "pool"),
    *("warmup", "noise"),
)


class SharedData:
    """What several runs of one process read of the same data: the items of a task, read once."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[TaskData, dict[str, str], dict[str, str | None]]] = {}

    def items(
        self,
        name: str,
        data: DataFolder,
        train: Sequence[str],
        test: Sequence[str],
        **told: Any,
    ) -> TaskData:
        """As :func:`crosslens.run.transfer.data.transfer_data`; a folder that did not read them
        itself is told which files they are of."""
        key = repr((name, str(data.folder), list(train), list(test), sorted(told.items())))
        if key not in self._read:
            made = transfer_data(name, data, train, test, **told)
            self._read[key] = made, dict(data.files), dict(data.revisions)
        made, files, revisions = self._read[key]
        data.files.update(files)
        data.revisions.update(revisions)
        return made


def run_transfer(transfer: Transfer, out: str | Path, shared: SharedData | None = None) -> Path:
    """Run it, or resume a run that was stopped; returns the folder with ``scores.jsonl``.

    Everything that can be refused is refused before anything is computed or written. Under
    ``torchrun`` the processes share each fine-tuning.

    Parameters
    ----------
    out: the run's folder: config.json, scores.jsonl, outcomes.parquet, examples.jsonl (some
        wrong answers), models/ while it is trained.
    shared: what other runs of this process have read.

    Raises
    ------
    InputError: data, settings or encoders are not what is needed.
    OutputError: the folder holds something else, or cannot be written to.
    """
    from crosslens.models.machine.distributed import join_world

    with contextlib.ExitStack() as held:
        world = held.enter_context(join_world(transfer.device))
        with world.together():  # the first says what is wrong before it is ended
            shared = shared or SharedData()
            data, tasks, presets, systems = _prepared(transfer, shared)
            settings = _settings(transfer, data, systems, presets)
            run = Run(out, "transfer", settings, _asked(transfer))
            _check_kept(transfer, run)
            finished = run.finished
        with world.together():
            if world.first:
                held.enter_context(run.open())
        if finished:
            return run.path
        if world.first:
            run.note(**_facts(tasks, data, presets))
            for name, one in tasks.items():
                if lacking := one.facts.get("no_data_in"):
                    say(f"task {name} has no data in {', '.join(lacking)}: not tested there")
        dev, taught = list[Score](), dict[str, Any]()  # what is trained on in each test language
        for name, task in tasks.items():
            for system in systems:
                read = functools.partial(shared.items, name, data)
                dev += _measure(transfer, system, task, presets[name], read, taught, run, world)
            with world.together():
                if world.first:  # 2 bytes for each number of each layer and subword
                    shutil.rmtree(run.path / "states", ignore_errors=True)
        with world.together():
            if world.first:
                every = read_outcomes(run.finish_outcomes())
                write_examples(examples(transfer, tasks, every, dev), run.path / EXAMPLES)
                found = means(tasks, every, dev, transfer.spans_by)
                run.finish([*found, *predicted(transfer, systems, tasks, found), *dev])
    return run.path


def checked_settings(transfer: Transfer, shared: SharedData | None = None) -> dict[str, Any]:
    """What the scores of a run would depend on; what can be refused before it begins is refused.

    Raises
    ------
    InputError: data, settings or encoders are not what is needed.
    """
    data, _, presets, systems = _prepared(transfer, shared or SharedData())
    return _settings(transfer, data, systems, presets)


def check_ahead(transfer: Transfer, shape: EncoderConfig, languages: Sequence[str]) -> None:
    """Refuse what :func:`run_transfer` would refuse, before its encoder is trained: one of this shape,
    with parts for each of these languages.

    Raises
    ------
    InputError: data or settings are not what is needed.
    """
    if (most := max(transfer.freeze)) > shape.layers:
        expected = f"numbers of layers, at most {shape.layers}"
        refuse("--freeze", expected, str(most), "choose fewer; 0 freezes the embeddings alone")
    check_room(transfer.tasks, shape, "encoder.max_positions", "train it with 512, say")
    for language in (*transfer.train, *transfer.test):
        check_plain(language, "model", languages)
    _, tasks, _ = _read(transfer, SharedData(), ())
    for option, language in _read_languages(tasks):
        if own_code(languages, language) not in languages:
            expected = f"languages that the model has ({', '.join(languages)})"
            remedy = "train it with this one, called by its ISO 639-3 code, or leave it out"
            refuse(option, expected, language, remedy)


def check_room(tasks: Sequence[str], shape: EncoderConfig, what: str, remedy: str) -> None:
    """Refuse questions on paragraphs where an encoder is too short for them.

    Parameters
    ----------
    what, remedy: of the refusal.
    """
    from crosslens.probes.tasks.catalogue import find_task

    for name in tasks:
        task = find_task(name)
        if task and task.kind == "answer" and shape.max_positions < _PARAGRAPHS:
            expected = f"encoders that read {_PARAGRAPHS} subwords or more, for {name}"
            refuse(what, expected, str(shape.max_positions), remedy)


def _prepared(
    transfer: Transfer, shared: SharedData
) -> tuple[DataFolder, dict[str, TaskData], dict[str, Preset], list[System]]:
    """What is asked for, checked: the data, the tasks, their presets, and what is fine-tuned."""
    from crosslens.models.saved.locate import resolve_encoder
    from crosslens.models.saved.read_languages import check_read

    systems = list(_systems(transfer))
    derived = bool(transfer.data_of) or any(one.readings for one in systems)
    if transfer.unseen != Transfer.unseen and not derived:
        refuse("--unseen", "a derived language, which it is for", "none", "leave it out")
    data, tasks, presets = _read(transfer, shared, systems)
    for one in {system.path: system for system in systems}.values():
        check_tasks(transfer, tasks, one.readings)
        folder = resolve_encoder(one.path, trust_remote_code=transfer.trust_remote_code)
        read = {name: reading_splits(task, one.readings) for name, task in tasks.items()}
        check_read(one.encoder, folder, _read_languages(read))
    return data, tasks, presets, systems


def _read_languages(tasks: Mapping[str, TaskData]) -> Iterator[tuple[str, str]]:
    """(option, what an encoder is told of it) of each language that is trained on or tested."""
    for task in tasks.values():
        splits = {"--train": (*task.train, *task.dev), "--test": task.tests.values()}
        for option, every in splits.items():
            told = (one.language if one.reading is None else one.reading.told for one in every)
            yield from ((option, language) for language in dict.fromkeys(told))


def _read(
    transfer: Transfer, shared: SharedData, systems: Sequence[System]
) -> tuple[DataFolder, dict[str, TaskData], dict[str, Preset]]:
    """The data, the tasks and their presets, checked."""
    check_folder(transfer.data)
    data, told = DataFolder(transfer.data), _of_data(transfer, systems)
    tested = languages_by_task(transfer.tasks, data, transfer.test, told["data_of"])
    tasks = {}
    for name, test in tested.items():
        one = shared.items(name, data, transfer.train, test, **told)
        if lacking := [language for language in transfer.test if language not in test]:
            one = dataclasses.replace(one, facts={**one.facts, "no_data_in": lacking})
        tasks[name] = one
    check_used(transfer, tasks)
    presets = {name: preset_of(transfer, one) for name, one in tasks.items()}
    for name, preset in presets.items():
        for point in preset.grid():
            settings_of(point, tasks[name].task.kind, -1, 0, transfer)
    return data, tasks, presets


def _of_data(transfer: Transfer, systems: Sequence[System]) -> dict[str, Any]:
    sampled = {name: getattr(transfer, name) for name in ("limit", "seed", "segment")}
    data_of = {**originals({one.path: one.readings for one in systems}), **transfer.data_of}
    apart = transfer.words_apart or transfer.preset in WORDS_APART
    return {**sampled, "apart": apart, "data_of": data_of}


def _asked(transfer: Transfer) -> dict[str, Any]:
    told = {**vars(transfer), "freeze": ",".join(map(str, transfer.freeze))}
    told["words_apart"] = transfer.words_apart or None
    return asked_of(told, ["encoders", "data"])


def _systems(transfer: Transfer) -> Iterator[System]:
    from crosslens.models.saved.locate import encoder_fingerprint, resolve_encoder

    given, marks = list(dict.fromkeys(transfer.encoders)), dict[str, str]()
    for path, name in zip(given, encoder_names(given), strict=True):
        folder = resolve_encoder(path, trust_remote_code=transfer.trust_remote_code)
        _check_freeze(transfer.freeze, path, folder)
        _check_keep(transfer, path, folder)
        mark, readings = encoder_fingerprint(folder), readings_of(transfer, path, folder)
        if (other := marks.setdefault(mark, path)) != path:
            got = f"{other} and {path}, which are one"
            refuse("--encoder", "different encoders", got, "name each encoder once")
        conditions = [None, *([IN_LANGUAGE] * transfer.in_language)]
        conditions += [RANDOM] * transfer.random_control
        for freeze in dict.fromkeys(transfer.freeze):
            for condition in conditions:
                yield System(name, path, mark, condition, freeze, readings)


def _check_keep(transfer: Transfer, path: str, folder: Path) -> None:
    """Refuse to keep what transformers could not load, before anything is trained."""
    from crosslens.models.saved.model_files import is_native

    if transfer.keep and is_native(folder):
        expected, got = "encoders that transformers loads", f"{path}, with modules of our own"
        remedy = "leave it out, or name a folder of its views, such as RUN/views/eng"
        refuse("--keep", expected, got, remedy)


def _check_kept(transfer: Transfer, run: Run) -> None:
    """Refuse to keep encoders in a run that was begun without that: the weights of what is measured
    there are gone."""
    if transfer.keep and run.begun:
        asked = read_json(run.path / "config.json", dict).get("asked")
        if not (isinstance(asked, dict) and asked.get("keep")):
            expected, got = (
                "a new folder, or a run that was begun with it",
                f"{run.path}, which was not",
            )
            refuse("--keep", expected, got, "choose another folder", OutputError)


def _check_freeze(freeze: Sequence[int], path: str, folder: Path) -> None:
    """Refuse more layers than an encoder has, before data are read."""
    from crosslens.models.network.surgery import numbered_layers
    from crosslens.models.saved.model_files import find_model_files, tensor_names

    most = max(freeze)
    if most > 0 and most > (depth := numbered_layers(tensor_names(find_model_files(path, folder)))):
        expected = f"numbers of layers, at most the {depth} of encoder {path}"
        refuse("--freeze", expected, str(most), "choose fewer; 0 freezes the embeddings alone")


def _settings(
    transfer: Transfer,
    data: DataFolder,
    systems: Sequence[System],
    presets: Mapping[str, Preset],
) -> dict[str, Any]:
    """What the scores depend on."""
    derived = {one.encoder: told_readings(one.readings) for one in systems if one.readings}
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
                "crf",
                "features",
                "precision",
            )  # fmt: skip
        },
        **({} if transfer.segment is None else {"segment": transfer.segment}),
        **({"derived": derived} if derived else {}),
        **({"items": dict(transfer.data_of)} if transfer.data_of else {}),
        **({"words_apart": True} if transfer.words_apart else {}),
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


def preset_of(transfer: Transfer, data: TaskData) -> Preset:
    """The preset with what was asked for in its place."""
    preset = find_preset(transfer.preset, data.task.kind)
    if transfer.features is not None:
        preset = with_features(preset, transfer.features)
    given = {name: value for name in _SET if (value := getattr(transfer, name)) is not None}
    sources = {**preset.sources, **dict.fromkeys(given, "asked for")}
    return Preset(preset.name, {**preset.values, **given}, sources)


# -- one system on one task


def _measure(
    transfer: Transfer,
    system: System,
    data: TaskData,
    preset: Preset,
    read: Callable[..., TaskData],
    taught: dict[str, Any],
    run: Run,
    world: Any,
) -> list[Score]:
    """Fine-tune a system with every seed, at the setting that is best on dev (of Conneau et al. the best
    two); returns the scores of dev."""
    if system.condition != IN_LANGUAGE:
        return _with_seeds(transfer, system, data, preset, run, world)
    scores, facts = list[Score](), dict[str, Any]()
    for target, one in _in_language(
        transfer, data, functools.partial(read, **_of_data(transfer, [system]))
    ):
        if isinstance(one, str):
            say(f"not fine-tuned on {target}: {one}")
            facts[target] = {"not_trained": one}
            continue
        facts[target] = {k: v for k, v in one.facts.items() if k in _TAUGHT}
        scores += _with_seeds(transfer, system, one, preset, run, world)
    if world.first:
        taught[data.task.name] = {**taught.get(data.task.name, {}), **facts}
        run.note(in_language=dict(taught))
    return scores


def _in_language(
    transfer: Transfer, data: TaskData, read: Callable[..., TaskData]
) -> Iterator[tuple[str, TaskData | str]]:
    """What each test language is called in the run, and the task trained and tested on it alone, or
    why it is not; nothing of a language that is trained on already."""
    trained = {one.language for one in data.train}
    lacking = data.facts.get("no_data_in", ())
    asked = [language for language in dict.fromkeys(transfer.test) if language not in lacking]
    for language in data.tests if asked == ["all"] else asked:
        target = data.names.get(language, language)
        try:
            one = read([language], [language])
        except InputError as error:  # nothing to train on in this language
            yield target, str(error)
            continue
        if one.train[0].language not in trained:
            (split,) = one.tests.values()
            yield target, dataclasses.replace(one, tests={target: split})


def _with_seeds(
    transfer: Transfer, system: System, data: TaskData, preset: Preset, run: Run, world: Any
) -> list[Score]:
    grid, seeds = preset.grid(), transfer.all_seeds
    seeds = seeds[:1] if system.condition == RANDOM else seeds
    encoder, data = Loaded(transfer, system), reading_splits(data, system.readings)
    scores, taken = list[Score](), 2 if transfer.preset == "conneau" and len(grid) > 1 else 1
    for number, point in enumerate(grid):
        found = [scores[n].value for n in _best_points(scores, taken)]
        to_beat = found[-1] if len(found) == taken and not math.isnan(found[-1]) else -math.inf
        fit = Fit(system, data, point, number, seeds[0], to_beat)
        scores += fit_one(transfer, fit, encoder, run, world)
    best = _best_points(scores, taken)
    if transfer.keep and world.first:  # what the grid did not take is in no score
        for number in {*range(len(grid))} - {*best}:
            beaten = Fit(system, data, grid[number], number, seeds[0])
            if (folder := kept_encoder(run, beaten)).exists():
                shutil.rmtree(folder)
    for number in best:
        for seed in seeds[1:]:
            fit = Fit(system, data, grid[number], number, seed)
            scores += fit_one(transfer, fit, encoder, run, world)
    if system.condition != RANDOM:
        scores = list(_warned(scores, best, _READ.get(data.task.kind, "texts")))
    chosen = {"chosen": best} if len(grid) > 1 else {}
    return [
        dataclasses.replace(score, details={**(score.details or {}), **chosen}) for score in scores
    ]


def _warned(dev: Sequence[Score], best: Sequence[int], what: str) -> Iterator[Score]:
    """The scores of dev; of each setting that is taken the first one says what its trainings lack,
    and what was not read."""
    left = set(best)
    for score in dev:
        details = score.details or {}
        setting, told = details["setting"], list[str]()
        if setting in left:
            left.discard(setting)
            told.append(shortfall([s for s in dev if (s.details or {})["setting"] == setting]))
            told.append(unread_told(details.get("unread", {}), what))
        frozen = details.get("freeze")
        before = "" if frozen is None else f"frozen to layer {frozen}, "
        if warnings := [f"{before}{one}" for one in told if one]:
            for one in warnings:
                say(f"{score.task}, {score.encoder}, trained on {score.source}: {one}")
            yield dataclasses.replace(score, details={**details, "warnings": warnings})
        else:
            yield score


def _best_points(dev: Sequence[Score], taken: int) -> list[int]:
    """The settings that are best on dev of the training languages, so many."""
    values = {(score.details or {})["setting"]: score.value for score in dev}
    order = sorted(values, key=lambda n: (-values[n] if not math.isnan(values[n]) else 1.0, n))
    return order[:taken]
