"""What the settings of a training say of its last steps: fine-tuning in one language, tests in the
others.

    tasks=upos,topic data=DATA transfer.peak_rate=1e-3    ->    a run of ``crosslens transfer``
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import InputError, refuse
from crosslens.models.training.settings import from_dict
from crosslens.run.transfer.settings import STANDARD_NORMAL, Transfer

__all__ = ["fine_tuned", "of_fine_tuning", "told_as_settings"]

_TASKS = ("tasks", "data")
_HERE = "transfer."  # before the name of another setting of transfer
# what the training decides, and what is said of the whole command
_FIXED = ("encoders", "device", "trust_remote_code", "derived", "unseen")


def of_fine_tuning(name: str) -> bool:
    """Whether a setting of a training is one of fine-tuning.

    >>> [of_fine_tuning(name) for name in ("tasks", "transfer.seeds", "tokens")]
    [True, True, False]
    """
    return name in _TASKS or name.startswith(_HERE)


def fine_tuned(
    settings: Mapping[str, Any],
    languages: Sequence[str],
    place: str | Path,
    noise: float | None = None,
) -> Transfer | None:
    """The run of transfer that settings ask for; None where they name no task.

    Parameters
    ----------
    settings: of a training: ``tasks`` (by commas), ``data`` (a folder, or "hf:"), and any other
        setting of :class:`crosslens.run.transfer.settings.Transfer` behind "transfer.":
        "transfer.test" is ``languages`` without it, "transfer.train" the first of them.
    languages: of the training, the source first.
    place: the training's folder.
    noise: in training, where the settings say nothing of it.

    Raises
    ------
    InputError: one of ``tasks`` and ``data`` without the other, or settings that cannot be.

    >>> told = fine_tuned({"tasks": "upos", "data": "d", "transfer.seeds": 1}, ["eng", "fra"], "runs/m")
    >>> told.encoders, told.train, told.test, told.seeds
    (('runs/m/model',), ('eng',), ('eng', 'fra'), 1)
    """
    if not any(map(of_fine_tuning, settings)):
        return None
    for name in _TASKS:
        told = settings.get(name)
        if not isinstance(told, str) or not _listed(told):
            got = "none" if told is None else repr(told)
            refuse(
                name, "tasks to fine-tune on, and the folder of their data", got, f"give {name}="
            )
    own = {
        name.removeprefix(_HERE): value
        for name, value in settings.items()
        if name.startswith(_HERE)
    }
    for name in own:
        if name in (*_FIXED, *_TASKS):
            refuse(f"{_HERE}{name}", "settings that are open here", "it", "leave it out")
    lists = {"tasks": settings["tasks"], "train": languages[0], "test": ",".join(languages)}
    lists |= {name: own.pop(name) for name in ("train", "test") if name in own}
    if own.get("noise") == STANDARD_NORMAL:
        own["noise"] = 1.0
    made = {name: _listed(told) if isinstance(told, str) else told for name, told in lists.items()}
    made |= {"encoders": [str(Path(place) / "model")], "data": settings["data"]}
    with told_as_settings():
        whole: Transfer = from_dict(Transfer, {"noise": noise, **made, **own}, _HERE)
    return whole


@contextlib.contextmanager
def told_as_settings() -> Iterator[None]:
    """Refusals of ``transfer`` in here name the setting, where they name its option."""
    try:
        yield
    except InputError as error:
        raise InputError(re.sub(r"\A--([a-z-]+)", _setting, str(error))) from error


def _setting(found: re.Match[str]) -> str:
    name = found[1].replace("-", "_")
    return name if name in _TASKS else f"{_HERE}{name}"


def _listed(told: str) -> list[str]:
    return [one.strip() for one in told.split(",") if one.strip()]
