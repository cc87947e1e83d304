"""Zero-shot transfer of a controlled study's models (Deshpande et al. 2022, § 3.3).

    a study's trainings -> each fine-tuned on the original, and on its copy -> answers in both
    the original alone, as long -> fine-tuned on the original -> answers in each copy   (if asked)
    -> means over trainings with intervals, and how they go with alignment

What the paper calls so: BZ, a bilingual encoder fine-tuned on the original and tested on the copy;
BS, fine-tuned on the copy; MZ, an encoder that was trained on the original alone and is tested as
BZ is. In a score ``encoder`` names the condition, and ``condition`` is None for BZ, "in_language"
for BS and "monolingual" for MZ. The folder of a run:

    transfers/CONDITION/seed-SEED/      a run of transfer
    monolingual/seed-SEED/              the training on the original alone
    transfers/monolingual-SEED/         its run of transfer
    scores.jsonl                        of each training, and their means (without a seed)

On a natural pair the second language stands in the place of the copy.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.asked import asked_of
from crosslens.errors import refuse
from crosslens.models.saved.derived_languages import derived_languages
from crosslens.models.training.settings import TrainRecipe
from crosslens.probes.tasks.data_folder import DataFolder, check_folder
from crosslens.progress import say
from crosslens.readers.published import claims
from crosslens.run.engine import Run, versions
from crosslens.run.trainings.controlled import placed
from crosslens.run.transfer.fits import IN_LANGUAGE, LESS
from crosslens.run.transfer.predictors import correlation_score
from crosslens.run.transfer.reordered import check_reordered
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.study_means import MONOLINGUAL, Answered, study_means
from crosslens.run.transfer.study_models import (
    ALIGNMENT,
    StudyModels,
    as_begun,
    study_scores,
)
from crosslens.run.transfer.transfer import SharedData, check_room, checked_settings, run_transfer
from crosslens.score import Score, headline_quantities, is_headline, read_scores

__all__ = ["StudyTransfer", "run_study_transfer"]

_PARTS = (None, IN_LANGUAGE, "majority", "random_encoder", LESS)
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
    study: what there is of a controlled study.
    transfer: of its models: tasks, data, settings; ``encoders`` is the study's folder, ``train`` the
        original, ``test`` both languages.
    monolingual: also train an encoder of the original alone for each seed, for as many steps, and
        test it on each condition's copy.
    syntax: the language in the data folder whose items are in the word order of a condition whose
        copy is a text of its own; None leaves such conditions out.
    """

    study: StudyModels
    transfer: Transfer
    monolingual: bool = False
    syntax: str | None = None


def run_study_transfer(told: StudyTransfer, out: str | Path) -> Path:
    """Run it, or resume a run that was stopped; returns the folder with ``scores.jsonl``. Processes
    that are started with the same folder divide its fine-tunings.

    Raises
    ------
    InputError: data and settings are not what is needed.
    OutputError: the run's folder holds something else, or cannot be written to.
    """
    study = as_begun(told.study, Path(out))
    for name in study.left_out:
        say(f"{name} is left out: its copy is a text of its own; --syntax names data in its order")
    for seed in study.unfinished:
        say(f"seed {seed} is left out: not every condition is trained with it yet")
    if told.monolingual and not all(
        one.derived or study.is_text(name) for name, one in study.recipes.items()
    ):
        expected, got = "a study of derived languages", f"{study.told['name']} of a natural pair"
        refuse("--monolingual", expected, got, "leave it out")
    data = SharedData()
    run = Run(out, "study_transfer", _settings(told, study, data), _asked(told))
    if run.finished:
        with run.open(shared=True):
            return run.path
    jobs = dict(_jobs(told, study, run.path, data))
    with run.open(shared=True):
        with run.alone():
            if not run.finished:
                run.note(study=_noted(study), versions=versions())
        for part in run.free_parts(dict.fromkeys(jobs, ())):
            run.part(part, jobs[part])
        with run.alone():
            if not run.finished:
                scores = run.whole(jobs)
                # a study under way may have measured more of its models meanwhile
                study = dataclasses.replace(study, scores=study_scores(study.folder))
                run.note(study=_noted(study))
                about = study.told
                claimed = claims(
                    about.get("order", []),
                    about["published"],
                    about.get("control", ""),
                    [*study.recipes],
                )
                answered = _answered(told, study, run.path)
                found = study_means(answered, study.languages, about["paper"], claimed)
                run.finish([*found, *_correlations(study, [*found, *scores]), *scores])
    return run.path


def _noted(study: StudyModels) -> dict[str, Any]:
    """What the run keeps of a study."""
    measured = study.measured[ALIGNMENT].items()
    aligned = {name: one for (name, seed), one in measured if seed is None}
    return {**study.told, "alignment": aligned, "left_out": list(study.left_out)}


def _settings(told: StudyTransfer, study: StudyModels, data: SharedData) -> dict[str, Any]:
    """What the scores depend on; everything that can be refused is refused here."""
    from crosslens.models.saved.locate import encoder_fingerprint

    for one in study.recipes.values():
        remedy = "train it with encoder.max_positions=512, say"
        check_room(told.transfer.tasks, one.encoder, "study", remedy)
    if told.syntax is not None:
        check_folder(told.transfer.data)
        folder, original = DataFolder(told.transfer.data), study.languages[0]
        sampled = {name: getattr(told.transfer, name) for name in ("limit", "seed")}
        check_reordered(told.transfer.tasks, folder, original, told.syntax, apart=True, **sampled)
    common = {
        name: checked_settings(_of(told, study, name, study.seeds[0]), data)
        for name in study.recipes
    }
    marks = {
        f"{name}/seed-{seed}": encoder_fingerprint(study.model(name, seed))
        for seed in study.seeds
        for name in study.recipes
    }
    shared = dict(next(iter(common.values())))
    shared |= {"encoders": marks, "derived": {}, "monolingual": told.monolingual}
    if told.syntax is not None:
        files = [one["files"] for one in common.values()]
        shared |= {"syntax": told.syntax, "files": dict(collections.ChainMap(*files[::-1]))}
    random = told.monolingual and told.transfer.unseen != "unknown"
    return {**shared, **({"unseen": told.transfer.unseen} if random else {})}


def _asked(told: StudyTransfer) -> dict[str, Any]:
    given = {name: getattr(told.transfer, name) for name in _OPTIONS}
    given |= {
        "study": str(told.study.folder),
        "monolingual": told.monolingual,
        "syntax": told.syntax,
    }
    return asked_of(given, ["study", "data"])


# -- one training


def _of(told: StudyTransfer, study: StudyModels, name: str, seed: int) -> Transfer:
    """A training's transfer. One control of random weights for each condition is enough."""
    control = told.transfer.random_control and seed == study.seeds[0]
    data_of = _data_of(told, study, {name: study.languages[1]})
    encoders = [str(study.model(name, seed))]
    return dataclasses.replace(
        told.transfer, encoders=encoders, random_control=control, data_of=data_of
    )


def _data_of(told: StudyTransfer, study: StudyModels, called: Mapping[str, str]) -> dict[str, str]:
    """What a copy is called, for each condition whose copy is a text of its own -> the language of the
    data that are in its order."""
    return {code: str(told.syntax) for name, code in called.items() if study.is_text(name)}


def _jobs(
    told: StudyTransfer, study: StudyModels, place: Path, data: SharedData
) -> Iterator[tuple[str, Callable[[], list[Score]]]]:
    """Each part of the run, and what computes it."""
    for seed in study.seeds:
        for name in study.recipes:
            yield (
                f"{name}.seed-{seed}",
                functools.partial(_training, told, study, name, seed, place, data),
            )
        if told.monolingual:  # a condition may be called monolingual, too
            job = functools.partial(_monolingual, told, study, seed, place, data)
            yield f"original_alone.seed-{seed}", job


def _training(
    told: StudyTransfer, study: StudyModels, name: str, seed: int, place: Path, data: SharedData
) -> list[Score]:
    folder = run_transfer(_of(told, study, name, seed), _place(place, name, seed), data)
    run = Answered(name, seed, folder, _same(study))
    return [
        dataclasses.replace(run.named(score), encoder=name, seed=seed)
        for score in _headlines(folder)
        if score.condition in _PARTS
    ]


def _place(place: Path, name: str, seed: int) -> Path:
    return place / "transfers" / name / f"seed-{seed}"


def _headlines(folder: Path) -> Iterator[Score]:
    """What a run of transfer has of the quantity that each task is judged by, on test items."""
    scores = list(read_scores(folder / "scores.jsonl"))
    main = headline_quantities(scores)
    for score in scores:
        if score.evidence.part == "test" and is_headline(score, main, differences=True):
            yield score


def _monolingual(
    told: StudyTransfer, study: StudyModels, seed: int, place: Path, data: SharedData
) -> list[Score]:
    """An encoder of the original alone, tested on the copy of each condition."""
    from crosslens.models.training.masked_lm import train

    original, copy = study.languages
    recipe = monolingual_recipe(next(iter(study.recipes.values())), original)
    folder = place / MONOLINGUAL / f"seed-{seed}"
    recipe = placed(recipe, seed, study.folder / "text")
    train(recipe, folder, resume=True, device=told.transfer.device)
    codes, derived = _codes(study, seed)
    random = told.transfer.unseen == "random"  # rows that transformers' class can be given
    transfer = dataclasses.replace(
        told.transfer,
        encoders=[str(folder / "views" / original if random else folder / "model")],
        test=[original, *derived],
        derived=derived,
        data_of=_data_of(told, study, codes),
        in_language=False,
        random_control=False,
    )
    out = run_transfer(transfer, _alone(place, seed), data)
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


def _alone(place: Path, seed: int) -> Path:
    return place / "transfers" / f"{MONOLINGUAL}-{seed}"


def _codes(study: StudyModels, seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """What an encoder of the original alone calls the copy of each condition, and how each such
    language is made: conditions may have the same copy. The data of a text of its own are in its
    order already, and only its subwords may be other ones."""
    original, copy = study.languages
    made, derived, codes = dict[tuple[str, bool], str](), dict[str, str](), dict[str, str]()
    for name, recipe in study.recipes.items():
        if text := study.is_text(name):
            disjoint = recipe.vocabulary.mode == "disjoint"
            how = f"{original}:{'transliteration' if disjoint else 'identity'}"
        else:
            how = str(derived_languages(study.model(name, seed))[copy])
        codes[name] = made.setdefault((how, text), f"{original}-x-{len(made) + 1}")
        derived[codes[name]] = how
    return codes, derived


def _answered(told: StudyTransfer, study: StudyModels, place: Path) -> list[Answered]:
    """The runs of all trainings, and of encoders of the original alone for each condition."""
    original, copy = study.languages
    runs = [
        Answered(name, seed, _place(place, name, seed), _same(study))
        for name in study.recipes
        for seed in study.seeds
    ]
    for seed in study.seeds if told.monolingual else ():
        codes, _ = _codes(study, seed)
        for name, code in codes.items():
            called = {original: original, code: copy}
            runs.append(Answered(name, seed, _alone(place, seed), called, alone=True))
    return runs


def _same(study: StudyModels) -> dict[str, str]:
    return {language: language for language in study.languages}


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
        tlm_share=0.0,  # one language has no pairs
        # the best weights by the copy are those by the only language
        select=original if recipe.select in recipe.languages else recipe.select,
        vocabulary=dataclasses.replace(recipe.vocabulary, mode="union", copies={}),
        masking=dataclasses.replace(recipe.masking, scope="all", counts=None),
    )


# -- all of them


def _tasks(scores: Iterable[Score]) -> list[str]:
    return list(dict.fromkeys(str(score.task) for score in scores))


def _correlations(study: StudyModels, scores: Sequence[Score]) -> Iterator[Score]:
    """Of alignment with zero-shot less in-language, over conditions (means over trainings), as the
    paper has it; and over trainings, without an interval: those of one condition are repetitions,
    and no points of their own. Over conditions also of how much of the order a copy keeps."""
    original, copy = study.languages
    for task in _tasks(scores):
        less = [s for s in scores if (s.task, s.condition, s.target) == (task, LESS, copy)]
        for measure, over in (
            *((one, "conditions") for one, there in study.measured.items() if there),
            *((one, "trainings") for one in (ALIGNMENT,) if study.measured[one]),
        ):
            beside = study.measured[measure]
            mine = [s for s in less if (s.seed is None) == (over == "conditions")]
            points = {
                _called(score): [beside[str(score.encoder), score.seed], score.value]
                for score in mine
                if (str(score.encoder), score.seed) in beside and score.value == score.value
            }
            fields = {"task": task, "condition": measure, "source": original, "target": copy}
            details = {"part": "test", "of": mine[0].quantity, "over": over} if mine else {}
            for kind in ("spearman", "pearson") if mine else ():
                found = correlation_score(kind, points, fields, details)
                if over == "trainings":
                    told = {k: v for k, v in (found.details or {}).items() if k != "p"}
                    found = dataclasses.replace(found, low=None, high=None, details=told)
                yield found


def _called(score: Score) -> str:
    return str(score.encoder) + ("" if score.seed is None else f", seed {score.seed}")
