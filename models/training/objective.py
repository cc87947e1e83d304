"""What a training minimises; :mod:`crosslens.models.training.loop` does everything else.

An objective holds the model and knows its batches, its loss and how to measure how good the model
is. The loop owns the steps, the learning rate, clipping, precision, the processes, checkpoints and
the log. Both halves are functions of the step's number, so a training that was stopped is resumed
to the same bits whatever the objective is.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from crosslens.errors import TrainingError, refuse

__all__ = ["FixedShapes", "Objective", "Step", "moved", "need_number"]


@dataclasses.dataclass(frozen=True)
class Step:
    """One update's batch.

    Attributes
    ----------
    parts: what this process computes, one after the other; each is the keyword arguments of the
        model's ``forward``.
    predicted: answers of the whole batch, over all parts and processes, that its loss is the mean
        over: masked tokens, say.
    tokens: its tokens without padding.
    divisor: ``predicted`` as a tensor, in batches of fixed shapes (:class:`FixedShapes`); else None.
    """

    parts: list[dict[str, Any]]
    predicted: int
    tokens: int
    divisor: Tensor | None = dataclasses.field(default=None, kw_only=True)


S = TypeVar("S", bound=Step)


@runtime_checkable
class Objective(Protocol[S]):
    """What is trained, and for what.

    Attributes
    ----------
    model: the model, whole and on its device. Parameters that ask for no gradient are frozen: the
        optimiser never sees them.
    """

    @property
    def model(self) -> nn.Module:
        """The model that is trained, whole and on its device."""

    @property
    def rate_factors(self) -> Mapping[str, float]:
        """Beginning of a parameter's name -> what its learning rate is multiplied by; empty where
        all have the same."""

    def batch(self, step: int) -> S:
        """The batch of an update (counted from 0): a function of the number alone."""

    def loss(self, runner: nn.Module, inputs: Mapping[str, Any], batch: S) -> Tensor:
        """One part's share of the batch's mean loss; the shares of all parts and processes add up
        to it.

        ``runner`` is the model as its processes call it, ``inputs`` a part of ``batch`` on the
        model's device.
        """

    def flops(self, batch: S) -> float:
        """Floating-point operations of the batch's update; asked for only where the machine's best
        rate is known."""

    def validate(self, device: torch.device) -> dict[str, Any]:
        """What is measured on held-out data: a line of the log. The model is left in training
        mode."""

    def measure(self, found: Mapping[str, Any]) -> float:
        """What of a validation the best weights are chosen by; lower is better."""


@runtime_checkable
class FixedShapes(Protocol):
    """An objective whose batches can be had in shapes that come again."""

    def in_fixed_shapes(self, batch: Any) -> Any:
        """The batch with what varies from one to the next filled up, so that its loss and gradients
        are the same, and with its ``divisor``; None where it has no such shape."""


def need_number(what: str, value: float) -> None:
    """Stop a training that has gone wrong.

    Raises
    ------
    TrainingError: the value is not finite.
    """
    if not math.isfinite(value):
        remedy = "lower optimisation.peak_rate; the last checkpoint is kept"
        refuse(what, "a number", str(value), remedy, TrainingError)


def moved(tensors: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """The same arguments with their tensors on a device."""
    return {
        name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
        for name, value in tensors.items()
    }
