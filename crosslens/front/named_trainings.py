"""MonoTrans and CLWE: trainings by name, and what is fine-tuned of their models."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crosslens.errors import CrosslensError
from crosslens.files import read_json, write_json
from crosslens.front.results import Run
from crosslens.models.machine.distributed import World, join_world
from crosslens.models.network.shape import EncoderConfig
from crosslens.recipes import clwe_settings, monotrans_settings
from crosslens.recipes.clwe import clwe
from crosslens.recipes.fine_tuned import check_begun, fine_tuned, told_as_settings
from crosslens.recipes.monotrans import asked_anywhere, last_steps, monotrans
from crosslens.run.trainings.shared import FINE_TUNED
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.transfer import check_ahead, run_transfer

__all__ = ["clwe_asked", "fine_tuned_of", "monotrans_asked", "train_clwe", "train_monotrans"]

_MONOTRANS, _CLWE = "runs/monotrans", "runs/clwe"  # folders of runs without another


def monotrans_asked(recipe: Any, settings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What is asked of MonoTrans; None for other recipes."""
    found = monotrans_settings(str(recipe)) if isinstance(recipe, str | Path) else None
    return None if found is None else {**found, **(settings or {})}


def clwe_asked(recipe: Any, settings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What is asked of CLWE; None for other recipes."""
    found = clwe_settings(str(recipe)) if isinstance(recipe, str | Path) else None
    return None if found is None else {**found, **(settings or {})}


def train_monotrans(asked: Mapping[str, Any], out: str | Path | None, **how: Any) -> Run:
    """Train all steps that are asked for; ``how``: as :func:`crosslens.front.calls.train` has it."""
    from crosslens.run.trainings.monotrans import run_monotrans

    folder = Path(out or _MONOTRANS)
    recipes, last = monotrans(asked, folder), _of_monotrans(asked, folder)
    with _checked(last, folder, how) as world, _as_asked(folder, world):
        run_monotrans(recipes, folder, asked=asked_anywhere(asked), **how)
        _fine_tune(last, folder, world)
    return Run(folder)


def train_clwe(asked: Mapping[str, Any], out: str | Path | None, **how: Any) -> Run:
    """The same of CLWE."""
    from crosslens.run.trainings.clwe import run_clwe

    folder = Path(out or _CLWE)
    made, last = clwe(asked, folder), _of_clwe(asked, folder)
    with _checked(last, folder, how) as world, _as_asked(folder, world):
        run_clwe(made, folder, asked=asked_anywhere(asked), **how)
        _fine_tune(last, folder, world)
    return Run(folder)


@dataclasses.dataclass(frozen=True)
class _Last:
    """What is fine-tuned of a model that is trained first: of this shape, in these languages."""

    transfer: Transfer
    shape: EncoderConfig
    languages: Sequence[str]

    def check(self) -> None:
        """Refuse what would be refused after the training."""
        with told_as_settings():
            check_ahead(self.transfer, self.shape, self.languages)


def _of_monotrans(asked: Mapping[str, Any], place: str | Path) -> _Last | None:
    if (told := last_steps(asked, place)) is None:
        return None
    recipes = monotrans(asked, place)
    languages = [language for recipe in recipes.values() for language in recipe.languages]
    return _Last(told, recipes["step-1"].encoder, list(dict.fromkeys(languages)))


def _of_clwe(asked: Mapping[str, Any], place: str | Path) -> _Last | None:
    made = clwe(asked, place)
    languages = [made.source, *made.targets]
    told = fine_tuned(asked, languages, place)
    return None if told is None else _Last(told, made.bert.encoder, languages)


@contextmanager
def _checked(last: _Last | None, folder: Path, how: Mapping[str, Any]) -> Iterator[World]:
    """The processes of a training, which torchrun's meet in once; what cannot be fine-tuned of its
    model is refused first."""
    with join_world(how["device"], how["parallel"]) as world:
        with world.together():
            if last is not None:
                check_begun(last.transfer, folder / FINE_TUNED)
                last.check()
        yield world


@contextmanager
def _as_asked(folder: Path, world: World) -> Iterator[None]:
    """What is refused of a run that fine-tunes already is not what it was asked for."""
    path = folder / "config.json"
    before: Any = read_json(path, dict).get("asked") if path.is_file() else None
    try:
        yield
    except CrosslensError:
        if world.first and isinstance(before, dict) and "tasks" in before.get("settings", {}):
            write_json(path, {**read_json(path), "asked": before})
        raise


def _fine_tune(last: _Last | None, folder: Path, world: World) -> None:
    if last is not None:
        told = dataclasses.replace(last.transfer, device=world.device.type)
        with told_as_settings():
            run_transfer(told, folder / FINE_TUNED)


def fine_tuned_of(recipe: Any, settings: Mapping[str, Any] | None = None) -> Transfer | None:
    """What :func:`crosslens.train` would fine-tune after a training by name; None where no task is asked
    for.

    Raises
    ------
    InputError: it cannot be.

    >>> fine_tuned_of("monotrans", {"source": "eng:eng.txt", "target": "fra:fra.txt"})
    """
    last = None
    if (asked := monotrans_asked(recipe, settings)) is not None:
        last = _of_monotrans(asked, _MONOTRANS)
    elif (asked := clwe_asked(recipe, settings)) is not None:
        last = _of_clwe(asked, _CLWE)
    if last is None:
        return None
    last.check()
    return last.transfer
