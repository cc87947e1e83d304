"""A fine-tuned encoder with its head, from the folder that ``crosslens transfer --keep`` leaves."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from safetensors import SafetensorError

from crosslens.errors import InputError, quote, refuse
from crosslens.files import fingerprint, read_json, sha256_file
from crosslens.models.finetuning.answer import Answer
from crosslens.models.finetuning.classify import Classify
from crosslens.models.finetuning.finetune import FineTuned
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.finetuning.parse import Parse
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.finetuning.tag import Tag
from crosslens.models.saved.arrays import load_tensors
from crosslens.models.saved.loading import load_encoder

__all__ = ["LoadedHead", "load_fine_tuned"]

_KINDS: dict[str, Any] = {one.__name__: one for one in (Answer, Classify, Parse, Tag)}
_AGAIN = "keep it again (crosslens transfer --keep)"


class _Told(TypedDict):
    """What head.json holds."""

    kind: str
    classes: list[str]
    settings: dict[str, Any]


class LoadedHead(NamedTuple):
    """A fine-tuned encoder, whose :meth:`~crosslens.models.finetuning.finetune.FineTuned.predict`
    answers; the names of its classes, by their numbers; and 16 hexadecimal digits that follow from
    the weights of both."""

    tuned: FineTuned
    classes: tuple[str, ...]
    mark: str


def load_fine_tuned(folder: str | Path, *, device: str = "cpu") -> LoadedHead:
    """Load what :func:`crosslens.models.finetuning.save.save_fine_tuned` has written: the encoder
    with the weights that it was kept with, and its head.

    Raises
    ------
    InputError: the folder has no head, or another one than it says, or no encoder.
    """
    folder = Path(folder)
    told: _Told = read_json(folder / "head.json", _Told, _AGAIN, InputError)
    where, make = str(folder / "head.json"), _KINDS.get(told["kind"])
    if make is None:
        got = quote(told["kind"])
        refuse(f"{where}, key kind", f"one of {', '.join(_KINDS)}", got, _AGAIN)
    known: dict[str, Any] = {
        field.name: field.type
        for field in dataclasses.fields(make)
        if field.init  # of answers the number of classes is no setting, and they have no names
    }
    given = {  # a rate that was given as 0 is written so
        name: float(value) if known.get(name) is float and type(value) is int else value
        for name, value in told["settings"].items()
    }
    fits = all(name in known and isinstance(value, known[name]) for name, value in given.items())
    fits = fits and ("classes" in given or "classes" not in known)
    if not fits or given.get("classes", len(told["classes"])) != len(told["classes"]):
        refuse(f"{where}, key settings", f"settings of {told['kind']}", quote(given), _AGAIN)
    kind, settings = make(**given), FineTuning()
    encoder = load_encoder(folder, device=device)
    model = FineTunedModel(encoder, kind, settings)
    weights = folder / "head.safetensors"
    try:
        model.head.load_state_dict(load_tensors(weights))
    except (OSError, RuntimeError, SafetensorError) as error:
        refuse(str(weights), f"the head of {where}", " ".join(str(error).split()), _AGAIN)
    mark = fingerprint([encoder.fingerprint, sha256_file(weights), told["classes"]])[:16]
    return LoadedHead(FineTuned(model, kind, settings, folder, {}), (*told["classes"],), mark)
