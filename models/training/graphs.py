"""On a GPU, updates as CUDA graphs: a small model's update is some hundreds of kernels, each shorter
than the processor takes to start it; a graph starts them all at once.

A graph repeats the same kernels on the same memory, so it needs batches of shapes that come again
(:class:`crosslens.models.training.objective.FixedShapes`). The first batch of a shape is computed as
everywhere, with the second one its graph is recorded, and from there on the numbers of a batch are
copied to where the graph reads them. The kernels, and so the weights, are those of an update without
graphs.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from crosslens.models.machine.distributed import World
from crosslens.models.training.objective import FixedShapes, Step
from crosslens.progress import say

__all__ = ["Graphs", "Update", "repeated_updates"]

_MOST = 64  # graphs of one training; batches of further shapes are computed without

Update = Callable[[Step], tuple[Tensor, Tensor]]
"""One update of the weights by a batch; returns its loss and the norm of its gradients."""

Record = Callable[[Update, Step], Callable[[], tuple[Tensor, Tensor]]]
"""Takes an update and a batch whose tensors stay in place; returns what repeats the update on them."""


class Graphs:
    """An update that is recorded for every shape of batch, and repeated.

    Parameters
    ----------
    update: what is done without graphs.
    objective: whose batches.
    device: where the tensors of a batch must be.
    record: how an update is recorded; it need not carry it out.
    """

    def __init__(
        self, update: Update, objective: FixedShapes, device: torch.device, record: Record
    ) -> None:
        self.update, self.objective, self.device = update, objective, device
        self.record, self.room = record, _MOST
        self.seen: set[Any] = set()
        self.recorded: dict[Any, tuple[Step, Callable[[], tuple[Tensor, Tensor]]]] = {}

    def __call__(self, batch: Step) -> tuple[Tensor, Tensor]:
        """Update the weights by a batch."""
        fixed = self.objective.in_fixed_shapes(batch)
        if fixed is None:
            return self.update(batch)
        shape = _shape(fixed)
        if shape in self.recorded:
            still, again = self.recorded[shape]
            for there, here in zip(_tensors(still), _tensors(fixed), strict=True):
                there.copy_(here, non_blocking=True)
        elif shape in self.seen and self.room:
            still = _on(fixed, self.device)
            try:
                again = self.record(self.update, still)
            except RuntimeError as error:  # torch has no other for what cannot be recorded
                self.room = 0
                why = str(error).partition("\n")[0]
                say(f"no CUDA graphs, each kernel is started alone: {why}")
                return self.update(fixed)
            self.recorded[shape], self.room = (still, again), self.room - 1
        else:
            self.seen.add(shape)
            return self.update(_on(fixed, self.device))
        loss, norm = again()
        # the next batch of this shape is written over both
        return loss.clone(), norm.clone()


@contextlib.contextmanager
def repeated_updates(
    update: Update, objective: Any, optimiser: torch.optim.Optimizer, world: World
) -> Iterator[Update]:
    """The update with graphs where one process has a GPU, the objective has batches of fixed shapes
    and the optimiser can be recorded; the update itself elsewhere.

    Several processes exchange gradients, which would have to be recorded in all of them alike.
    Learning rates are tensors within, which a graph reads anew each time: fill them.
    """
    device, alone = world.device, world.size == 1
    plain = type(optimiser) in (torch.optim.Adam, torch.optim.AdamW)
    if not (device.type == "cuda" and alone and plain and isinstance(objective, FixedShapes)):
        yield update
        return
    for group in optimiser.param_groups:
        group["lr"] = torch.tensor(float(group["lr"]), device=device)
    stream, pool = torch.cuda.Stream(device), torch.cuda.graph_pool_handle()

    def record(update: Update, still: Step) -> Callable[[], tuple[Tensor, Tensor]]:
        graph = torch.cuda.CUDAGraph()
        try:
            for group in optimiser.param_groups:
                group["capturable"] = True
            with torch.cuda.graph(graph, pool, stream, capture_error_mode="thread_local"):
                found = update(still)
        finally:
            for group in optimiser.param_groups:
                group["capturable"] = False
            optimiser.zero_grad(set_to_none=True)

        def again() -> tuple[Tensor, Tensor]:
            graph.replay()
            return found

        return again

    # a graph is recorded on a stream of its own; all else is there, too, and so in order
    torch.cuda.synchronize(device)
    with torch.cuda.stream(stream):
        yield Graphs(update, objective, device, record)
    torch.cuda.synchronize(device)


def _shape(batch: Step) -> Any:
    """What two batches must have in common for one graph: sizes of tensors, and all that is no
    tensor."""
    return tuple(
        (name, (value.shape, value.dtype) if isinstance(value, Tensor) else value)
        for part in batch.parts
        for name, value in part.items()
    )


def _tensors(batch: Step) -> Iterator[Tensor]:
    for part in batch.parts:
        yield from (value for value in part.values() if isinstance(value, Tensor))
    if batch.divisor is not None:
        yield batch.divisor


def _on(batch: Step, device: torch.device) -> Step:
    """The batch with tensors of its own on a device."""
    parts = [
        {
            name: value.to(device, copy=True) if isinstance(value, Tensor) else value
            for name, value in part.items()
        }
        for part in batch.parts
    ]
    divisor = None if batch.divisor is None else batch.divisor.to(device, copy=True)
    return dataclasses.replace(batch, parts=parts, divisor=divisor)
