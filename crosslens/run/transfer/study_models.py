"""A controlled study as its transfer reads it: the models of its conditions, the seeds of which all
are there, and how far subwords are aligned, and order is kept, in each."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from crosslens.errors import refuse
from crosslens.files import check_shape, read_json
from crosslens.models.training.settings import TrainRecipe, from_dict
from crosslens.score import Score, read_scores

__all__ = ["ALIGNMENT", "BySeed", "StudyModels", "as_begun", "study_models", "study_scores"]

BySeed = Mapping[tuple[str, int | None], float]
"""Condition and seed, or None for the mean over seeds, to a number."""
ALIGNMENT = "token_alignment"
_KEPT = ("neighbours_kept", "contexts_kept")


class _Condition(TypedDict):
    recipe: dict[str, Any]


class _Settings(TypedDict):
    conditions: dict[str, _Condition]


class _Told(TypedDict):
    name: str
    paper: str
    published: dict[str, str]
    order: NotRequired[list[list[str]]]
    control: NotRequired[str]


@dataclasses.dataclass(frozen=True)
class StudyModels:
    """What is read of a study's folder.

    Attributes
    ----------
    told: what it notes of itself. recipes: condition to recipe, whose sources name texts.
    left_out: conditions whose copy is a text of its own, where nobody says what data are in its order.
    seeds: those of which every condition is trained.
    scores: of the study, finished or not.
    unfinished: seeds that lack a condition.
    """

    folder: Path
    told: _Told
    recipes: Mapping[str, TrainRecipe]
    left_out: Sequence[str]
    seeds: Sequence[int]
    scores: Sequence[Score] = dataclasses.field(repr=False)
    unfinished: Sequence[int] = ()

    def model(self, condition: str, seed: int) -> Path:
        """Folder of a training's model."""
        return self.folder / condition / f"seed-{seed}" / "model"

    def is_text(self, condition: str) -> bool:
        """Whether the copy is a text of its own: the original's subwords are not transformed."""
        return _is_text(self.recipes[condition])

    @property
    def languages(self) -> tuple[str, str]:
        """The original and its copy, or the two languages of a natural pair."""
        first, second = next(iter(self.recipes.values())).languages
        return first, second

    @functools.cached_property
    def measured(self) -> Mapping[str, BySeed]:
        """Measure (``token_alignment``: P@1 of subwords without a map; ``neighbours_kept`` and
        ``contexts_kept``: how much of the order a copy keeps) to condition and seed, or None for the
        mean over the seeds, to what the study found."""
        return {
            ALIGNMENT: _by_seed(self.scores, ALIGNMENT, "unaligned", self.seeds),
            **{one: _by_seed(self.scores, one, None, self.seeds) for one in _KEPT},
        }


def study_models(folder: Path, syntax: str | None = None) -> StudyModels:
    """What there is of a study, finished or not.

    Parameters
    ----------
    syntax: the language whose data are in the word order of a copy that is a text of its own; None
        leaves such conditions out.

    Raises
    ------
    InputError: the folder holds no controlled study, one whose encoders have one language, one
        without a finished seed, or ``syntax`` is given and no copy is a text of its own.
    """
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
    if syntax is not None and not any(map(_is_text, recipes.values())):
        got = f"{told['name']}, which has no condition with syntax"
        refuse("--syntax", "a study whose copy is a text in another order", got, "leave it out")
    taken = {name: one for name, one in recipes.items() if syntax is not None or not _is_text(one)}
    left_out = [name for name in recipes if name not in taken]
    numbers = [
        int(number)
        for name in taken
        for place in (folder / name).glob("seed-*")
        # a folder that the user has put aside is called otherwise
        if (number := place.name.partition("-")[2]).isdecimal()
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
    unfinished = sorted(set(numbers) - set(seeds))
    return StudyModels(folder, told, taken, left_out, seeds, study_scores(folder), unfinished)


def study_scores(folder: Path) -> list[Score]:
    """What is measured of a study by now, finished or not."""
    path = folder / "scores.jsonl"
    files = [path] if path.exists() else sorted((folder / "parts").glob("*.jsonl"))
    return [score for file in files for score in read_scores(file)]


def _is_text(recipe: TrainRecipe) -> bool:
    return bool(set(recipe.vocabulary.copies) - set(recipe.derived))


def _by_seed(
    scores: Sequence[Score], quantity: str, condition: str | None, seeds: Sequence[int]
) -> BySeed:
    """One measure; the mean where all seeds have it."""
    found: dict[tuple[str, int | None], float] = {
        (str(score.encoder), score.seed): score.value
        for score in scores
        if score.seed in seeds and (score.quantity, score.condition) == (quantity, condition)
    }
    for name in dict.fromkeys(name for name, _ in found):
        values = [found[name, seed] for seed in seeds if (name, seed) in found]
        if len(values) == len(seeds):
            found[name, None] = sum(values) / len(values)
    return found


def as_begun(study: StudyModels, out: Path) -> StudyModels:
    """The study with the seeds alone that a run was begun with, where it has more by now."""
    path = out / "config.json"
    config = read_json(path, dict) if path.is_file() else {}
    marks = (config.get("settings") or {}).get("encoders")
    if config.get("kind") != "study_transfer" or not isinstance(marks, dict):
        return study
    begun = {name.rpartition("/seed-")[2] for name in marks}
    seeds = [seed for seed in study.seeds if str(seed) in begun]
    return dataclasses.replace(study, seeds=seeds or study.seeds)
