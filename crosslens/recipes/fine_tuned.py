"""What the settings of a training say of its last steps: fine-tuning in one language, tests in the
others.

    tasks=upos,topic data=DATA transfer.peak_rate=1e-3    ->    a run of ``crosslens transfer``
"""

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.asked import absolute
from crosslens.errors import InputError, refuse
from crosslens.files import read_json
from crosslens.models.training.settings import from_dict
from crosslens.run.transfer.settings import STANDARD_NORMAL, Transfer

__all__ = [
    "as_settings",
    "check_begun",
    "fine_tuned",
    "of_fine_tuning",
    "told_as_settings",
    "with_absolute_data",
]

_TASKS = {"tasks": "tasks to fine-tune on, by commas", "data": "the folder with the tasks' data"}
_HERE = "transfer."  # before the name of another setting of transfer
_FIELDS = [field.name for field in dataclasses.fields(Transfer)]
_FIXED = {  # settings of transfer that are not open here -> what to do
    "encoders": "leave it out: it is the training's own model",
    "tasks": "write tasks=",
    "data": "write data=",
    "device": "give --device",
    "keep": "leave it out: models of ours are not kept as folders that transformers loads",
    "derived": "leave it out, and use crosslens transfer on the model",
    "unseen": "leave it out, and use crosslens transfer on the model",
    "trust_remote_code": "leave it out: a model of ours brings no code",
}


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
        setting of :class:`crosslens.run.transfer.settings.Transfer` behind "transfer.".
        "transfer.train" is the first of the ``languages`` without it, "transfer.test" all of them but
        those that are learnt again ("eng-x"), which no task has data in; "transfer.seed" and
        "transfer.precision" are those of the training.
    languages: of the training, the source first.
    place: the training's folder.
    noise: in fine-tuning, where the settings say nothing of it.

    Raises
    ------
    InputError: one of ``tasks`` and ``data`` without the other, or settings that cannot be.

    >>> told = fine_tuned({"tasks": "upos", "data": "d", "transfer.seeds": 1}, ["eng", "fra"], "runs/m")
    >>> told.encoders, told.train, told.test, told.seeds
    (('runs/m/model',), ('eng',), ('eng', 'fra'), 1)
    """
    if not any(map(of_fine_tuning, settings)):
        return None
    for name, expected in _TASKS.items():
        if not settings.get(name):
            refuse(name, expected, "none", f"add {name}=")
    own = {
        name.removeprefix(_HERE): value
        for name, value in settings.items()
        if name.startswith(_HERE)
    }
    for name in own:
        if name in _FIXED:
            refuse(f"{_HERE}{name}", "none", repr(own[name]), _FIXED[name])
    told: dict[str, Any] = {
        "train": languages[0],
        "test": [language for language in languages if "-" not in language],
        "noise": None if own.get("features") else noise,  # what is frozen is encoded once
        **{name: settings[name] for name in ("seed", "precision") if name in settings},
        **own,
        "tasks": settings["tasks"],
        "encoders": [str(Path(place) / "model")],
        "data": str(settings["data"]),
    }
    for name in ("tasks", "train", "test"):
        told[name] = _listed(told[name])
    if "freeze" in told:
        told["freeze"] = [_whole(one) for one in _listed(told["freeze"])]
    if told["noise"] == STANDARD_NORMAL:
        told["noise"] = 1.0
    with told_as_settings():
        made: Transfer = from_dict(Transfer, told, _HERE)
    return made


def as_settings(told: Transfer) -> dict[str, Any]:
    """A run of transfer as the settings that ask for it; what is left to the preset is left out.

    >>> told = fine_tuned({"tasks": "upos", "data": "d"}, ["eng", "fra"], "runs/m")
    >>> {name: value for name, value in as_settings(told).items() if "t" == name[0] and "," in str(value)}
    {'transfer.test': 'eng,fra'}
    """
    found = {}
    for name, value in vars(told).items():
        if (name in _FIXED and name not in _TASKS) or value is None:
            continue
        plain = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        found[name if name in _TASKS else f"{_HERE}{name}"] = plain
    return found


def with_absolute_data(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with an absolute folder of data, where there is one.

    >>> with_absolute_data({"data": "/no/such", "tasks": "upos"})
    {'data': '/no/such', 'tasks': 'upos'}
    """
    data = {"data": absolute(str(settings["data"]))} if "data" in settings else {}
    return {**settings, **data}


def check_begun(told: Transfer, place: Path) -> None:
    """Refuse other tasks than those of a run of transfer that is in the folder.

    Raises
    ------
    InputError: it has others.
    """
    path = place / "config.json"
    if not path.is_file():
        return
    asked = read_json(path, dict).get("asked")
    there = asked.get("tasks") if isinstance(asked, dict) else None
    if isinstance(there, list) and there != list(told.tasks):
        remedy = (
            f"crosslens transfer --encoder {told.encoders[0]} has other tasks, in another folder"
        )
        refuse(
            "tasks", f"those of {place}: {','.join(map(str, there))}", ",".join(told.tasks), remedy
        )


@contextlib.contextmanager
def told_as_settings() -> Iterator[None]:
    """Refusals of ``transfer`` in here name settings, where they name its options or arguments."""
    try:
        yield
    except InputError as error:
        head, colon, rest = str(error).partition(":")
        name = head.removeprefix("--").replace("-", "_")
        head = _setting(name) if name in _FIELDS else head
        rest = re.sub(
            r"--([a-z-]+)",
            lambda m: _setting(n) if (n := m[1].replace("-", "_")) in _FIELDS else m[0],
            rest,
        )
        raise InputError(head + colon + rest) from error


def _setting(name: str) -> str:
    return name if name in _TASKS else f"{_HERE}{name}"


def _listed(told: Any) -> Any:
    """A text with commas as a list; one number as a list of it."""
    if isinstance(told, str):
        return [one.strip() for one in told.split(",") if one.strip()]
    return list(told) if isinstance(told, list | tuple) else [told]


def _whole(told: Any) -> Any:
    text = str(told)
    return int(text) if re.fullmatch(r"-?\d{1,6}", text) else told
