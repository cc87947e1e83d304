"""Controlled studies: trainings that differ in one thing, each with several seeds, and what became
of two languages in each.

    text -> sentences for training and for the end -> for each seed, one training per condition ->
    alignment of subwords and retrieval of sentences -> means over seeds

The folder of a run:

    config.json             study, recipes of all conditions, and the texts' fingerprints
    text/NAME.txt           the texts of the study; those named "kept" are never trained on
    CONDITION/seed-SEED/    an ordinary training run
    parts/                  measurements of each training, until all are there
    scores.jsonl            measurements of each seed, and their means (without a seed)

A training is a part: a run that was stopped goes on with the training that was under way. In a
score ``encoder`` names the condition; ``condition`` says how vectors were compared.
"""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.asked import asked_of
from crosslens.errors import OutputError, refuse
from crosslens.files import (
    fingerprint,
    lock_folder,
    read_json,
    refuse_begun,
    write_json,
)
from crosslens.models.training.settings import TrainRecipe, recipe_settings
from crosslens.progress import duration, say
from crosslens.readers.plain import read_text
from crosslens.run.engine import Run, versions
from crosslens.run.repeats import groups_of, normal_texts, repeated, text_names
from crosslens.run.trainings.controlled_measures import measure
from crosslens.run.trainings.shared import write_texts
from crosslens.score import Score, read_scores
from crosslens.seed_means import means

__all__ = [
    "Condition",
    "ControlledStudy",
    "Made",
    "expected_cost",
    "placed",
    "run_controlled",
    "seeds_of",
]

_PATHS = ("data", "other", "syntax", "dictionary", "paraphrase")  # settings that are files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Condition:
    """One of the things that are compared.

    Attributes
    ----------
    recipe: its training, of two languages, or of one. Sources name texts of the study in the place
        of files.
    kept: language to the text that is kept for the end, line by line the same sentences; both
        languages' "kept" where it is empty.
    published: what the paper calls it, and measures of it; "" where it has no such thing.
    beside: another condition of one language, before this one, whose model reads that language
        where this one's reads its own: two models are compared. "" where one model reads both, or
        where the condition is there to be beside others.
    """

    recipe: TrainRecipe
    kept: Mapping[str, str] = dataclasses.field(default_factory=dict)
    published: str = ""
    beside: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ControlledStudy:
    """What is asked, and by which trainings.

    Attributes
    ----------
    name: by which `crosslens train` knows it.
    question: one sentence.
    paper: key of :data:`crosslens.readers.published.PAPERS`.
    conditions: name to condition.
    order: what the paper found, from the best to the worst: groups of conditions, with no order
        within one.
    control: the condition that must reach .5 before anything that is not found counts; "": none is
        known to succeed.
    """

    name: str
    question: str
    paper: str
    conditions: Mapping[str, Condition]
    order: Sequence[Sequence[str]]
    control: str

    def readers(self, name: str) -> dict[str, str]:
        """Language to the condition whose model reads it, the first language first; of a condition
        that is there to be beside others, one language."""
        one = self.conditions[name]
        first = self.conditions[one.beside].recipe.languages if one.beside else ()
        return dict.fromkeys(first, one.beside) | dict.fromkeys(one.recipe.languages, name)


Made = tuple[dict[str, Condition], Sequence[Sequence[str]], str]
"""The conditions of a study, their order and the control among them ("": there is none)."""


def run_controlled(
    study: ControlledStudy,
    texts: Mapping[str, Sequence[str]],
    folder: str | Path,
    *,
    seeds: int = 3,
    resume: bool = False,
    device: str = "auto",
    parallel: str = "ddp",
    asked: Mapping[str, Any] | None = None,
) -> Path:
    """Train all conditions with all seeds, measure each, and return the folder with
    ``scores.jsonl``. Under ``torchrun`` the processes share each training; processes that are
    started apart, with the same folder and ``resume``, divide the trainings.

    Parameters
    ----------
    texts: name to sentences, as the recipes of the conditions name them.
    folder: the run's folder; with ``resume`` a stopped run is resumed, and one with fewer seeds or
        conditions, finished or not, gets more.
    seeds: how many; the first is that of the recipes.
    device, parallel: see :func:`crosslens.models.training.masked_lm.train`.
    asked: what changes the study, kept for another run.

    Raises
    ------
    InputError: a condition names a text that is not there.
    OutputError: the folder holds a run (without ``resume``), or another one.
    """
    from crosslens.models.machine.distributed import join_world
    from crosslens.models.training.masked_lm import train

    folder = Path(folder)
    given = {"recipe": study.name, "settings": asked_of(asked or {}, _PATHS), "seeds": seeds}
    with join_world(device, parallel) as world, contextlib.ExitStack() as held:
        with world.together():
            _check_texts(study, texts, seeds)
            groups = _groups(study, texts)
            settings = _settings(study, texts, seeds)
            if _with_fewer(folder, settings) is not None:
                if not resume:
                    refuse_begun(folder)
                if world.first:
                    _grow(study, folder, settings, given)
        with world.together():
            run = Run(folder, "controlled", settings, given)
            if run.begun and not resume:
                refuse_begun(folder)
        with world.together():
            if world.first:  # it writes; the others train with it
                say(expected_cost(study, seeds, gpu=world.device.type == "cuda"))
                held.enter_context(run.open(shared=True))
                with run.alone():
                    if not run.finished:
                        write_texts(folder, texts)
                        run.note(study=_told(study))
        if run.finished:
            return folder
        parts = _parts(study, seeds)
        free = run.free_parts(_needed(study, parts)) if world.first else iter(())
        while True:
            with world.together():
                part = next(free, None)
            if (part := world.agreed(part)) is None:
                break
            number, name = parts[part]
            recipe = study.conditions[name].recipe
            recipe = placed(recipe, recipe.seed + number, folder / "text")
            where = folder / name / f"seed-{recipe.seed}"
            train(recipe, where, resume=True, device=device, parallel=parallel)
            with world.together():
                if world.first:
                    run.part(part, functools.partial(_measure, study, name, number, folder, groups))
        with world.together():
            if world.first:
                with run.alone():
                    if not run.finished:
                        scores = run.whole(parts)
                        run.note(versions=versions())
                        run.finish([*scores, *means(scores)])
    return folder


def _measure(
    study: ControlledStudy, name: str, number: int, folder: Path, groups: np.ndarray
) -> list[Score]:
    """What became of one training; nothing is said of one that is there to be beside others."""
    place, condition, readers = folder / "text", study.conditions[name], study.readers(name)
    if len(readers) < 2:
        return []
    kept = {
        language: read_text(place / f"{condition.kept.get(language, 'kept')}.txt", language)
        for language in readers
    }

    def trained(one: str) -> tuple[Path, TrainRecipe]:
        seed = study.conditions[one].recipe.seed + number
        return folder / one / f"seed-{seed}", placed(study.conditions[one].recipe, seed, place)

    beside = trained(condition.beside) if condition.beside else None
    return measure(*trained(name), kept, name, beside=beside, groups=groups)


def _groups(study: ControlledStudy, texts: Mapping[str, Sequence[str]]) -> np.ndarray:
    """(n,) which of the kept sentences say the same, in any text that a condition keeps: all
    conditions are divided alike, so that they can be held against each other."""
    names = [text for condition in study.conditions.values() for text in condition.kept.values()]
    sides = [texts[name] for name in dict.fromkeys(["kept", *names])]
    return groups_of([text_names(normal_texts(side)) for side in sides])


def _parts(study: ControlledStudy, seeds: int) -> dict[str, tuple[int, str]]:
    """Part of the run to number of the seed and condition, seed by seed: a run that is stopped early
    has all conditions of the seeds before."""
    return {
        f"{name}.seed-{condition.recipe.seed + number}": (number, name)
        for number in range(seeds)
        for name, condition in study.conditions.items()
    }


def _needed(
    study: ControlledStudy, parts: Mapping[str, tuple[int, str]]
) -> dict[str, Collection[str]]:
    """Part to those whose models it is measured beside."""
    names = {told: part for part, told in parts.items()}
    return {
        part: [names[number, study.conditions[name].beside]]
        if study.conditions[name].beside
        else []
        for part, (number, name) in parts.items()
    }


def placed(recipe: TrainRecipe, seed: int, place: Path) -> TrainRecipe:
    """A condition's recipe with its seed and the files of the run."""
    sources = tuple(
        dataclasses.replace(
            source,
            texts={language: str(place / f"{name}.txt") for language, name in source.texts.items()},
        )
        for source in recipe.sources
    )
    anchors = recipe.anchors
    if anchors.dictionary:
        anchors = dataclasses.replace(anchors, dictionary=str(place / f"{anchors.dictionary}.txt"))
    return dataclasses.replace(recipe, sources=sources, anchors=anchors, seed=seed)


def _check_texts(study: ControlledStudy, texts: Mapping[str, Sequence[str]], seeds: int) -> None:
    if seeds < 1:
        refuse("seeds", "1 or more", str(seeds), "3 is usual")
    for name, condition in study.conditions.items():
        recipe = condition.recipe
        needed = [text for source in recipe.sources for text in source.texts.values()]
        needed += [condition.kept.get(language, "kept") for language in study.readers(name)]
        needed += [recipe.anchors.dictionary] if recipe.anchors.dictionary else []
        for text in needed:
            if text not in texts:
                refuse(f"text {text}", f"the text that {name} is trained on", "none", "give it")


def seeds_of(folder: Path) -> int | None:
    """How many seeds a study was begun with; None where the folder holds none.

    >>> seeds_of(Path("no-such-folder"))
    """
    seeds = _written(folder, "settings").get("seeds")
    is_study = _written(folder).get("kind") == "controlled"
    return seeds if is_study and isinstance(seeds, int) else None


def _with_fewer(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a folder keeps of a run with these settings, but for fewer seeds, or conditions and texts;
    None where it holds no such run."""
    there, here = _written(folder, "settings"), json.loads(json.dumps(settings))
    tables = [(_written(folder, "settings", key), here[key]) for key in ("conditions", "texts")]
    seeds = there.get("seeds")
    may_grow = {key: here[key] for key in ("seeds", "conditions", "texts")}
    if {**there, **may_grow} != here or not isinstance(seeds, int) or seeds > here["seeds"]:
        return None
    if any(now.get(name) != value for before, now in tables for name, value in before.items()):
        return None
    same = all(before.keys() == now.keys() for before, now in tables)
    return None if same and seeds == here["seeds"] else _written(folder)


def _written(folder: Path, *keys: str) -> dict[str, Any]:
    """What ``config.json`` of a folder has under these keys, one within the other; empty where there
    is no such table."""
    path = folder / "config.json"
    found = read_json(path, Any) if path.is_file() else None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _grow(
    study: ControlledStudy, folder: Path, settings: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Let a run that was begun with fewer seeds or conditions have these. It is as one that was
    stopped, then, with what is measured of those before.

    Raises
    ------
    OutputError: another process works there, which would end with those before.
    """
    try:
        with lock_folder(folder):
            if (fewer := _with_fewer(folder, settings)) is not None:
                _reopen(study, folder, fewer["settings"])
                asked = {"asked": dict(given)} if isinstance(fewer.get("asked"), dict) else {}
                new = {**fewer, "settings": {**fewer["settings"], **settings}, **asked}
                write_json(folder / "config.json", new)
    except OutputError:
        if _with_fewer(folder, settings) is not None:
            raise  # else the other process has let it have these


def _reopen(study: ControlledStudy, folder: Path, settings: Mapping[str, Any]) -> None:
    """Make a finished run one that was stopped before its means were there: its parts are written
    again before the scores go."""
    run = Run(folder, "controlled", settings)
    if not run.finished:
        return
    scores = list(read_scores(run.scores))
    for part, (number, name) in _parts(study, settings["seeds"]).items():
        if name not in settings["conditions"]:
            continue
        told = (name, study.conditions[name].recipe.seed + number)
        mine = [score for score in scores if (score.encoder, score.seed) == told]
        run.part(part, functools.partial(list, mine))
    run.scores.unlink()


def _settings(
    study: ControlledStudy, texts: Mapping[str, Sequence[str]], seeds: int
) -> dict[str, Any]:
    """What the scores depend on; kept sentences that say the same only where there are any, so that
    studies of earlier versions, which did not look, are resumed where it makes no difference."""
    same = repeated(_groups(study, texts))
    return ({"repeated": same} if same else {}) | {
        "study": study.name,
        "seeds": seeds,
        "texts": {name: fingerprint(list(lines))[:16] for name, lines in texts.items()},
        "conditions": {
            name: {"recipe": recipe_settings(one.recipe), "kept": dict(one.kept)}
            | ({"beside": one.beside} if one.beside else {})
            for name, one in study.conditions.items()
        },
    }


def _told(study: ControlledStudy) -> dict[str, Any]:
    """What :mod:`crosslens.report.folders.controlled` must know of a study."""
    return {
        "name": study.name,
        "question": study.question,
        "paper": study.paper,
        "order": [list(group) for group in study.order],
        "control": study.control,
        "published": {name: one.published for name, one in study.conditions.items()},
    }


def expected_cost(study: ControlledStudy, seeds: int, *, gpu: bool = False) -> str:
    """How many tokens a study trains on, and about how long that takes on this machine's CPU, or on a
    GPU."""
    from crosslens.models.training.estimate import estimate

    found = [estimate(condition.recipe) for condition in study.conditions.values()]
    tokens = seeds * sum(one.tokens for one in found)
    seconds = (one.on_gpu if gpu else one.flops_per_token * one.tokens / one.here for one in found)
    time = duration(max(seeds * sum(seconds), 1))
    n = seeds * len(found)
    trainings = f"{n} training{'s' * (n > 1)}"
    conditions = f"{len(found)} condition{'s' * (len(found) > 1)}, {seeds} seed{'s' * (seeds > 1)}"
    millions = f"{tokens / 1e6:,.0f}" if tokens >= 1e7 else f"{tokens / 1e6:.2g}"
    where = (
        f"on one H100 at {100 * found[0].gpu_share:.2g} % of its bfloat16 peak"
        if gpu
        else "of pure products on this machine's CPU, expect two to three times as long"
    )
    return f"{study.name}: {trainings} ({conditions}), {millions} M tokens in all; {time} {where}"
