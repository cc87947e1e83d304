"""Zero-shot transfer of a controlled study's models (Deshpande et al. 2022, § 3.3).

    a study's trainings -> each fine-tuned on the original, and on its copy -> answers in both
    the original alone, as long -> fine-tuned on the original -> answers in each copy   (if asked)
    -> means over trainings with intervals, and how they go with alignment

What the paper calls so: BZ, a bilingual encoder fine-tuned on the original and tested on the copy;
BS, fine-tuned on the copy; MZ, an encoder that was trained on the original alone and is tested as
BZ is. In a score ``encoder`` names the condition, and ``condition`` is None for BZ, "in_language"
for BS and "monolingual" for MZ. The folder of a run:

    transfers/CONDITION/seed-SEED/      an ordinary run of transfer
    monolingual/seed-SEED/              the training on the original alone
    transfers/monolingual-SEED/         its run of transfer
    scores.jsonl                        of each training, and their means (without a seed)

On a natural pair the second language stands in the place of the copy.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from crosslens.asked import asked_of
from crosslens.errors import refuse
from crosslens.files import check_shape, read_json
from crosslens.models.saved.derived_languages import derived_languages
from crosslens.models.training.settings import TrainRecipe, from_dict
from crosslens.progress import say
from crosslens.run.engine import Run, versions
from crosslens.run.trainings.controlled import placed
from crosslens.run.transfer.fits import IN_LANGUAGE
from crosslens.run.transfer.predictors import correlation_score
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.transfer import checked_settings, run_transfer
from crosslens.score import Score, headline_quantities, read_scores
from crosslens.seed_means import means

__all__ = ["MONOLINGUAL", "StudyTransfer", "languages_of", "run_study_transfer"]

MONOLINGUAL = "monolingual"
"""``condition`` of a score of an encoder that was trained on the original alone."""

_PARTS = (None, IN_LANGUAGE, "majority", "random_encoder", "zero_shot_less_in_language")
_LESS = f"{MONOLINGUAL}_less_in_language"
_OPTIONS = (
    *(
        "tasks",
        "data",
        "preset",
        "epochs",
        "batch_size",
        "peak_rate",
        "head_rate",
        "pool",
        "warmup",
    ),
    *("unseen", "seeds", "seed", "random_control", "limit", "precision", "device"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyTransfer:
    """The settings of a transfer of a study.

    Attributes
    ----------
    study: folder of a controlled study.
    transfer: of its models: tasks, data, settings; ``encoders`` is the study's folder, ``train`` the
        original, ``test`` both languages.
    monolingual: also train an encoder of the original alone for each seed, for as many steps, and
        test it on each condition's copy.
    """

    study: str
    transfer: Transfer
    monolingual: bool = False


class _Condition(TypedDict):
    recipe: dict[str, Any]


class _Settings(TypedDict):
    conditions: dict[str, _Condition]


class _Told(TypedDict):
    name: str
    paper: str
    published: dict[str, str]


@dataclasses.dataclass(frozen=True)
class _Study:
    """What is read of a study's folder.

    Attributes
    ----------
    told: what it notes of itself. recipes: condition to recipe, whose sources name texts.
    seeds: those of which every condition is trained.
    alignment: condition and seed, or None for the mean over seeds, to P@1 of subwords without a map.
    """

    folder: Path
    told: _Told
    recipes: Mapping[str, TrainRecipe]
    seeds: Sequence[int]
    alignment: Mapping[tuple[str, int | None], float]

    def model(self, condition: str, seed: int) -> Path:
        return self.folder / condition / f"seed-{seed}" / "model"

    @property
    def languages(self) -> tuple[str, str]:
        first, second = next(iter(self.recipes.values())).languages
        return first, second


def languages_of(study: str | Path) -> tuple[str, str]:
    """The original of a study and its copy.

    Raises
    ------
    InputError: the folder holds no controlled study, or one without a finished seed.
    """
    return _read(Path(study)).languages


def run_study_transfer(told: StudyTransfer, out: str | Path) -> Path:
    """Run it, or resume a run that was stopped; returns the folder with ``scores.jsonl``. Processes
    that are started with the same folder divide its fine-tunings.

    Raises
    ------
    InputError: the folder holds no study, or data and settings are not what is needed.
    OutputError: the run's folder holds something else, or cannot be written to.
    """
    study = _read(Path(told.study))
    if told.monolingual and not all(one.derived for one in study.recipes.values()):
        expected, got = "a study of derived languages", f"{study.told['name']} of a natural pair"
        refuse("--monolingual", expected, got, "leave it out")
    run = Run(out, "study_transfer", _settings(told, study), _asked(told))
    if run.finished:
        with run.open(shared=True):
            return run.path
    jobs = dict(_jobs(told, study, run.path))
    with run.open(shared=True):
        with run.alone():
            if not run.finished:
                aligned = {
                    name: one for (name, seed), one in study.alignment.items() if seed is None
                }
                run.note(study={**study.told, "alignment": aligned}, versions=versions())
        for part in run.free_parts(dict.fromkeys(jobs, ())):
            run.part(part, jobs[part])
        with run.alone():
            if not run.finished:
                scores = run.whole(jobs)
                scores += _less_in_language(scores)
                found = [one for task in _tasks(scores) for one in _means(scores, task)]
                run.finish([*found, *_correlations(study, [*found, *scores]), *scores])
    return run.path


# -- the study


def _read(folder: Path) -> _Study:
    path = folder / "config.json"
    config = read_json(path, dict) if path.is_file() else {}
    if config.get("kind") != "controlled":
        expected = "the folder of a controlled study (crosslens train deshpande-corpora …)"
        refuse("study", expected, str(folder), "name one")
    settings: _Settings = check_shape(config.get("settings"), f"{path}, settings", _Settings)
    told: _Told = check_shape(config.get("study"), f"{path}, study", _Told)
    recipes = {
        name: from_dict(TrainRecipe, one["recipe"]) for name, one in settings["conditions"].items()
    }
    if any(len(one.languages) < 2 for one in recipes.values()):
        expected, got = "a study whose encoders have two languages each", told["name"]
        refuse("study", expected, got, "crosslens transfer compares encoders of one language")
    taken = {name: one for name, one in recipes.items() if not _is_text(one)}
    for name in recipes.keys() - taken.keys():
        say(f"{name} is left out: its copy is a text of its own, in which no task has data")
    numbers = [
        int(place.name.partition("-")[2])
        for name in taken
        for place in (folder / name).glob("seed-*")
    ]
    seeds = [
        seed
        for seed in sorted(set(numbers))
        if all(
            (folder / name / f"seed-{seed}" / "model" / "config.json").exists() for name in taken
        )
    ]
    if not seeds:
        got = f"none in {folder}"
        refuse("study", "a seed of which every condition is trained", got, "resume the study")
    return _Study(folder, told, taken, seeds, _alignment(folder))


def _is_text(recipe: TrainRecipe) -> bool:
    return bool(set(recipe.vocabulary.copies) - set(recipe.derived))


def _alignment(folder: Path) -> dict[tuple[str, int | None], float]:
    """As the study measured it; nothing of an unfinished one."""
    path = folder / "scores.jsonl"
    return {
        (str(score.encoder), score.seed): score.value
        for score in (read_scores(path) if path.exists() else ())
        if (score.quantity, score.condition) == ("token_alignment", "unaligned")
    }


def _settings(told: StudyTransfer, study: _Study) -> dict[str, Any]:
    """What the scores depend on; everything that can be refused is refused here."""
    from crosslens.models.saved.locate import encoder_fingerprint

    common = {
        name: checked_settings(_of(told, study, name, study.seeds[0])) for name in study.recipes
    }
    marks = {
        f"{name}/seed-{seed}": encoder_fingerprint(study.model(name, seed))
        for seed in study.seeds
        for name in study.recipes
    }
    shared = dict(next(iter(common.values())))
    return {**shared, "encoders": marks, "derived": {}, "monolingual": told.monolingual}


def _asked(told: StudyTransfer) -> dict[str, Any]:
    given = {name: getattr(told.transfer, name) for name in _OPTIONS}
    given |= {"study": told.study, "monolingual": told.monolingual}
    return asked_of(given, ["study", "data"])


# -- one training


def _of(told: StudyTransfer, study: _Study, name: str, seed: int) -> Transfer:
    """A training's transfer. One control of random weights for each condition is enough."""
    control = told.transfer.random_control and seed == study.seeds[0]
    return dataclasses.replace(
        told.transfer, encoders=[str(study.model(name, seed))], random_control=control
    )


def _jobs(
    told: StudyTransfer, study: _Study, place: Path
) -> Iterator[tuple[str, Callable[[], list[Score]]]]:
    """Each part of the run, and what computes it."""
    for seed in study.seeds:
        for name in study.recipes:
            yield (
                f"{name}.seed-{seed}",
                functools.partial(_training, told, study, name, seed, place),
            )
        if told.monolingual:
            job = functools.partial(_monolingual, told, study, seed, place)
            yield f"{MONOLINGUAL}.seed-{seed}", job


def _training(told: StudyTransfer, study: _Study, name: str, seed: int, place: Path) -> list[Score]:
    say(f"{name}, seed {seed}")
    folder = run_transfer(_of(told, study, name, seed), place / "transfers" / name / f"seed-{seed}")
    return [
        dataclasses.replace(score, encoder=name, seed=seed)
        for score in _headlines(folder)
        if score.condition in _PARTS
    ]


def _headlines(folder: Path) -> Iterator[Score]:
    """What a run of transfer has of the quantity that each task is judged by, on test items."""
    scores = list(read_scores(folder / "scores.jsonl"))
    main = headline_quantities(scores)
    for score in scores:
        quantity, counted_as = main.get(str(score.task), ("", ""))
        told = score.evidence
        if told.part == "test" and (told.counted_as or "") == counted_as:
            if score.quantity in (quantity, f"{quantity}_difference"):
                yield score


def _monolingual(told: StudyTransfer, study: _Study, seed: int, place: Path) -> list[Score]:
    """An encoder of the original alone, tested on the copy of each condition."""
    from crosslens.models.training.masked_lm import train

    original, copy = study.languages
    recipe = monolingual_recipe(next(iter(study.recipes.values())), original)
    folder = place / MONOLINGUAL / f"seed-{seed}"
    train(placed(recipe, seed, study.folder / "text"), folder, resume=True)
    derived, codes = dict[str, str](), dict[str, str]()  # conditions may have the same copy
    for name in study.recipes:
        how = str(derived_languages(study.model(name, seed))[copy])
        code = next((one for one, other in derived.items() if other == how), None)
        codes[name] = code or f"{original}-x-{len(derived) + 1}"
        derived[codes[name]] = how
    transfer = dataclasses.replace(
        told.transfer,
        encoders=[str(folder / "model")],
        test=[original, *derived],
        derived=derived,
        in_language=False,
        random_control=False,
    )
    out = run_transfer(transfer, place / "transfers" / f"{MONOLINGUAL}-{seed}")
    found = [score for score in _headlines(out) if score.condition is None]
    return [
        dataclasses.replace(
            score,
            encoder=name,
            seed=seed,
            target=copy if score.target == codes[name] else original,
            condition=MONOLINGUAL,
        )
        for name in study.recipes
        for score in found
        if score.target in (codes[name], original)
    ]


def monolingual_recipe(recipe: TrainRecipe, original: str) -> TrainRecipe:
    """The recipe of a condition without its copy: as many steps, of the original's text alone."""
    sources = tuple(
        dataclasses.replace(one, texts={original: one.texts[original]})
        for one in recipe.sources
        if original in one.texts
    )
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name}-{original}-alone",
        sources=sources,
        derived={},
        sharing="",
        vocabulary=dataclasses.replace(recipe.vocabulary, mode="union", copies={}),
        masking=dataclasses.replace(recipe.masking, scope="all", counts=None),
    )


# -- all of them


def _tasks(scores: Iterable[Score]) -> list[str]:
    return list(dict.fromkeys(str(score.task) for score in scores))


def _less_in_language(scores: Sequence[Score]) -> list[Score]:
    """MZ - BS of each training."""
    there = {(s.task, s.encoder, s.seed, s.target): s for s in scores if s.condition == IN_LANGUAGE}
    found = []
    for score in scores:
        other = there.get((score.task, score.encoder, score.seed, score.target))
        if score.condition == MONOLINGUAL and other is not None:
            changed: dict[str, Any] = {"condition": _LESS, "low": None, "high": None}
            changed["quantity"] = f"{score.quantity}_difference"
            changed["value"] = score.value - other.value
            found.append(dataclasses.replace(score, **changed))
    return found


def _means(scores: Sequence[Score], task: str) -> Iterator[Score]:
    """Over trainings, Student's interval; of one training that over its items."""
    for score in means([one for one in scores if one.task == task]):
        counted_as = next(
            one.evidence.counted_as
            for one in scores
            if one.task == task and one.quantity == score.quantity
        )
        told = {**(score.details or {}), "part": "test"}
        told |= {"counted_as": counted_as} if counted_as else {}
        yield dataclasses.replace(score, details=told)


def _correlations(study: _Study, scores: Sequence[Score]) -> Iterator[Score]:
    """Of alignment with zero-shot less in-language, over conditions (means over trainings), as the
    paper has it; and over trainings, without an interval: those of one condition are repetitions,
    and no points of their own."""
    original, copy = study.languages
    for task in _tasks(scores):
        less = [
            s
            for s in scores
            if (s.task, s.condition, s.target) == (task, "zero_shot_less_in_language", copy)
        ]
        for over, mine in (
            ("conditions", [s for s in less if s.seed is None]),
            ("trainings", [s for s in less if s.seed is not None]),
        ):
            points = {
                _called(score): [study.alignment[str(score.encoder), score.seed], score.value]
                for score in mine
                if (str(score.encoder), score.seed) in study.alignment
                and score.value == score.value
            }
            fields = {"task": task, "condition": "token_alignment", "source": original}
            details = {"of": mine[0].quantity, "over": over} if mine else {}
            for kind in ("spearman", "pearson") if mine else ():
                found = correlation_score(kind, points, {**fields, "target": copy}, details)
                if over == "trainings":
                    told = {k: v for k, v in (found.details or {}).items() if k != "p"}
                    found = dataclasses.replace(found, low=None, high=None, details=told)
                yield found


def _called(score: Score) -> str:
    return str(score.encoder) + ("" if score.seed is None else f", seed {score.seed}")
