"""Checkpoints: weights, optimiser state and step, as safetensors in a folder that appears whole or
not at all.

    checkpoints/step-00001500/model.safetensors  optimiser.safetensors  state.json
    checkpoints/best-00001200/model.safetensors  state.json

The best weights are those of a step that the last checkpoint remembers. Until the next one does,
those before stay: a run that is resumed may validate otherwise (with another number of processes).

Nothing else is needed to go on: batches, masks and dropout are functions of (seed, step).
"""

import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from crosslens.errors import StoreError, refuse
from crosslens.files import read_json, same_settings, sha256_file, write_json
from crosslens.models.machine.distributed import World, like, whole
from crosslens.models.saved.arrays import load_tensors, save_tensors

__all__ = [
    "drop_other_checkpoints",
    "latest_checkpoint",
    "load_best",
    "load_checkpoint",
    "save_best",
    "save_checkpoint",
]

_MODEL, _OPTIMISER = "model.safetensors", "optimiser.safetensors"
_ALONE = World(0, 1, torch.device("cpu"))
_DELETE = "delete this checkpoint folder"


class _State(TypedDict):
    step: int
    settings: dict[str, Any]
    extra: dict[str, Any]
    sha256: dict[str, str]


def save_checkpoint(
    folder: Path,
    step: int,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    settings: dict[str, Any],
    extra: dict[str, Any],
    world: World = _ALONE,
) -> Path:
    """Write the state after ``step`` updates and drop older checkpoints.

    Parameters
    ----------
    settings: what the weights depend on; a run with others refuses to go on from here.
    extra: small things to remember (the best validation loss so far).
    world: with several processes all of them must call; the first one writes.
    """
    tensors = {_MODEL: _model_tensors(model), _OPTIMISER: _optimiser_tensors(model, optimiser)}
    final = folder / f"step-{step:08d}"
    with world.together():
        if world.first:
            _write(final, tensors, {"step": step, "settings": settings, "extra": extra})
            drop_other_checkpoints(final)
            if (best := extra.get("best_step")) is not None:
                _drop_best_but(folder, {best})
    return final


def drop_other_checkpoints(path: Path) -> None:
    """Remove the checkpoints beside this one, and what is left of such after a kill.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> for name in ("step-1", "step-2", "best"): (folder / name).mkdir()
    >>> drop_other_checkpoints(folder / "step-2")
    >>> sorted(path.name for path in folder.iterdir())
    ['best', 'step-2']
    """
    for other in path.parent.glob("step-*"):
        if other != path:
            shutil.rmtree(other, ignore_errors=True)


def save_best(
    folder: Path,
    step: int,
    model: nn.Module,
    settings: dict[str, Any],
    measure: float,
    world: World = _ALONE,
) -> None:
    """Write the weights after ``step`` updates as the best so far; ``measure`` is what they were
    chosen by. The next checkpoint, whose ``extra`` has this as "best_step", drops those before."""
    tensors = {_MODEL: _model_tensors(model)}
    with world.together():
        if world.first:
            _write(
                _best(folder, step),
                tensors,
                {"step": step, "settings": settings, "extra": {"measure": measure}},
            )
            last = latest_checkpoint(folder)
            told = {} if last is None else read_json(last / "state.json", _State, _DELETE)["extra"]
            _drop_best_but(folder, {step} if last is None else {step, told.get("best_step")})


def _drop_best_but(folder: Path, steps: Collection[int | None]) -> None:
    kept = {_best(folder, step) for step in steps}
    for other in folder.glob("best*"):
        if other not in kept:
            shutil.rmtree(other, ignore_errors=True)


def _best(folder: Path, step: int | None) -> Path:
    return folder / ("best" if step is None else f"best-{step:08d}")


def load_best(folder: Path, model: nn.Module, step: int | None) -> int:
    """Load the best weights in place; returns the step they are from.

    Parameters
    ----------
    step: as the last checkpoint remembers it; None for a training of an earlier version, which had
        one folder for them.

    Raises
    ------
    StoreError: there are none, or they are damaged.
    """
    path = _best(folder, step)
    if not (path / "state.json").exists():
        remedy = "validate at least once, or take the last weights"
        refuse(str(path), "the best checkpoint", "none", remedy, StoreError)
    state = _checked(path, [_MODEL])
    _load_weights(model, _read(path / _MODEL))
    return state["step"]


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint of a folder, or None."""
    whole_ones = sorted(
        path
        for path in folder.glob("step-*")
        if path.suffix != ".partial" and (path / "state.json").exists()
    )
    return whole_ones[-1] if whole_ones else None


def load_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, settings: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    """Load weights and optimiser state in place; returns the number of updates made and what was
    remembered.

    Raises
    ------
    StoreError: a file is damaged, or the checkpoint belongs to other settings or another plan (the
        message says which differ).
    """
    told: _State = read_json(path / "state.json", _State, _DELETE)
    same_settings(
        str(path),
        told["settings"],
        settings,
        "use another folder, or the settings of this run",
        StoreError,
    )
    state = _checked(path, [_MODEL, _OPTIMISER])
    _load_weights(model, _read(path / _MODEL))
    tensors = _read(path / _OPTIMISER)
    # such an optimiser counts its steps on the device
    fused = bool(optimiser.defaults.get("fused"))
    for name, parameter in model.named_parameters():
        mine = {
            key.rpartition("/")[2]: value
            for key, value in tensors.items()
            if key.rpartition("/")[0] == name
        }
        if mine:
            optimiser.state[parameter] = {
                key: value.to(parameter.device)
                if fused and not value.ndim
                else like(value, parameter)
                for key, value in mine.items()
            }
    return state["step"], state["extra"]


def _write(final: Path, files: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
    aside = final.with_name(f"{final.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name, tensors in files.items():
        save_tensors(tensors, aside / name)
    write_json(
        aside / "state.json",
        {**state, "sha256": {name: sha256_file(aside / name) for name in files}},
    )
    shutil.rmtree(final, ignore_errors=True)
    os.replace(aside, final)


def _checked(path: Path, files: Sequence[str]) -> _State:
    """The state of a checkpoint whose files, each of them, are those that were written."""
    state: _State = read_json(path / "state.json", _State, _DELETE)
    if state["step"] < 0:
        got = str(state["step"])
        refuse(f"{path / 'state.json'}, key step", "a number of updates", got, _DELETE, StoreError)
    for name in files:
        if not (path / name).is_file() or sha256_file(path / name) != state["sha256"].get(name):
            expected = "the file that was written"
            refuse(str(path / name), expected, "another checksum", _DELETE, StoreError)
    return state


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_tensors(path)
    except (SafetensorError, OSError) as error:
        refuse(str(path), "a file of tensors", f"something else ({error})", _DELETE, StoreError)


@torch.no_grad()
def _load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Copy weights into a model; what is missing, left over or of another shape is named."""
    own = dict(model.state_dict())
    differ = sorted(own.keys() ^ weights.keys()) + [
        name for name in own.keys() & weights.keys() if own[name].shape != weights[name].shape
    ]
    if differ:
        got = ", ".join(differ[:3]) + (f" and {len(differ) - 3} more" if len(differ) > 3 else "")
        remedy = "use the plan and the vocabulary it was made with"
        refuse("checkpoint", "the tensors of this model", f"others: {got}", remedy, StoreError)
    for name, tensor in own.items():
        tensor.copy_(like(weights[name], tensor))


def _model_tensors(model: nn.Module) -> dict[str, Tensor]:
    return {
        name: whole(tensor.detach()).cpu().contiguous()
        for name, tensor in model.state_dict().items()
    }


def _optimiser_tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": whole(value).cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }
