"""Checkpoints: weights, optimiser state and step, as safetensors in a folder that appears whole or not at all.

    checkpoints/step-00001500/model.safetensors  optimiser.safetensors  state.json

Nothing else is needed to go on: batches, masks and dropout are functions of (seed, step).
"""

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from crosslens.errors import StoreError, refuse
from crosslens.files import read_json, same_settings, sha256_file, write_json

__all__ = ["latest_checkpoint", "load_checkpoint", "save_checkpoint"]


def save_checkpoint(
    folder: Path, step: int, model: nn.Module, optimiser: torch.optim.Optimizer, settings: dict[str, Any], extra: dict[str, Any]
) -> Path:
    """Write the state after ``step`` updates and drop older checkpoints.

    Parameters
    ----------
    settings: what the weights depend on; a run with others refuses to go on from here.
    extra: small things to remember (the best validation loss so far).
    """
    final, aside = folder / f"step-{step:08d}", folder / f"step-{step:08d}.partial"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, aside / "model.safetensors")
    save_file(_optimiser_tensors(model, optimiser), aside / "optimiser.safetensors")
    sums = {name: sha256_file(aside / name) for name in ("model.safetensors", "optimiser.safetensors")}
    write_json(aside / "state.json", {"step": step, "settings": settings, "sha256": sums, "extra": extra})
    shutil.rmtree(final, ignore_errors=True)
    os.replace(aside, final)
    for old in folder.glob("step-*"):
        if old != final:
            shutil.rmtree(old, ignore_errors=True)
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint of a folder, or None."""
    whole = sorted(path for path in folder.glob("step-*") if path.suffix != ".partial" and (path / "state.json").exists())
    return whole[-1] if whole else None


def load_checkpoint(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, settings: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Load weights and optimiser state in place; returns the number of updates made and what was remembered.

    Raises
    ------
    StoreError: a file is damaged, or the checkpoint belongs to other settings (the message says which differ).
    """
    state = read_json(path / "state.json")
    same_settings(str(path), state["settings"], settings, "use another folder, or the settings of this run", StoreError)
    for name, expected in state["sha256"].items():
        if not (path / name).exists() or sha256_file(path / name) != expected:
            refuse(str(path / name), "the file that was written", "another checksum", "delete this checkpoint folder", StoreError)
    model.load_state_dict(load_file(path / "model.safetensors"))
    tensors = load_file(path / "optimiser.safetensors")
    for name, parameter in model.named_parameters():
        mine = {key.split("/")[1]: value for key, value in tensors.items() if key.split("/")[0] == name}
        if mine:
            optimiser.state[parameter] = mine
    return state["step"], state["extra"]


def _optimiser_tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}/{key}": value.contiguous()
        for parameter, state in optimiser.state.items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }
