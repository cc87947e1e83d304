"""One training on several processes: who I am, how the model is spread, and tensors made whole
again.

``torchrun`` starts the processes and torch.distributed does the work. Every process makes the whole
batch of a step and computes its share of the rows; gradients are averaged over processes and the
loss is scaled so that the update is that of one process with the same batch. Files are written by
the first process.

DistributedDataParallel keeps a whole model on each device. Fully sharded data parallel (FSDP2)
divides weights and optimiser state over the devices, for models that do not fit; it needs every
process to use the same parts in a step.
"""

import contextlib
import dataclasses
import datetime
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from crosslens.errors import CrosslensError, check_choice, refuse
from crosslens.models.network.encoder import Layer, PerLanguage
from crosslens.progress import be_quiet, is_quiet

__all__ = ["World", "gathered", "join_world", "like", "own_rank", "spread", "whole"]

_Value = TypeVar("_Value")
# the first process may learn vocabularies and tokenise for long while the others wait
_PATIENCE = datetime.timedelta(days=7)
# seconds in which the first process says what is wrong: torchrun ends it when it sees that another
# has failed
_AFTER_YOU = 0.5


@dataclasses.dataclass(frozen=True)
class World:
    """Where this process stands.

    Attributes
    ----------
    rank, size: number of this process, and of all.
    device: where the model is.
    parallel: "ddp" or "fsdp"; without meaning for one process.
    talk: the group in which processes wait for each other and exchange errors; it is patient, since
        one may prepare files for hours.
    """

    rank: int
    size: int
    device: torch.device
    parallel: str = "ddp"
    talk: Any = None

    @property
    def first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Do something that may fail; what one process raises in here, all raise when they leave,
        so that none waits for one that is gone.

        All processes must enter, and nothing in here may wait for the others. Leaving waits for
        all.
        """
        if self.size == 1:
            yield
            return
        mine: Exception | None = None
        try:
            yield
        except Exception as error:
            mine = error
        told: list[CrosslensError | None] = [None] * self.size
        dist.all_gather_object(told, _in_words(mine), group=self.talk)
        if not self.first and any(told):
            time.sleep(_AFTER_YOU)
        if mine is not None:
            raise mine
        for other in told:
            if other is not None:
                raise other

    def agreed(self, value: _Value) -> _Value:
        """The first process's value, so that what is decided by it is decided alike everywhere."""
        if self.size == 1:
            return value
        told = [value]
        dist.broadcast_object_list(told, src=0, group=self.talk)
        return told[0]

    def total(self, values: Tensor) -> Tensor:
        """Sums over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values


def _in_words(error: Exception | None) -> CrosslensError | None:
    """An error as the other processes can raise it."""
    if error is None or isinstance(error, CrosslensError):
        return error
    return CrosslensError(f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def join_world(device: str = "auto", parallel: str = "ddp") -> Iterator[World]:
    """Join the processes that torchrun started (or a group of torch.distributed that the caller has
    joined already), or stand alone.

    All processes but the first are quiet in here.

    Parameters
    ----------
    device: "cpu", "cuda", or "auto": a GPU where there is one; or, of one process, "cuda:1".

    Raises
    ------
    InputError: no such device or way of spreading, or more processes than GPUs.
    """
    check_choice(parallel, "parallel", ("ddp", "fsdp"))
    number = device.removeprefix("cuda:") if device.startswith("cuda:") else None
    device = device if number is None else "cuda"
    check_choice(device, "device", ("auto", "cpu", "cuda"))
    if device == "cuda" and not torch.cuda.is_available():
        refuse(
            "device", "a GPU that torch can use", "none", "choose cpu, or see `crosslens doctor`"
        )
    kind = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    joined = dist.is_initialized()
    size = dist.get_world_size() if joined else int(os.environ.get("WORLD_SIZE", "1"))
    mine = torch.device(kind, _my_gpu(number, size)) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(mine)
    if size == 1:
        yield World(0, 1, mine, parallel)
        return
    if not joined:
        dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    quiet, talk = is_quiet(), None
    try:
        talk = dist.new_group(backend="gloo", timeout=_PATIENCE)
        world = World(dist.get_rank(), size, mine, parallel, talk)
        be_quiet(quiet or not world.first)
        yield world
    finally:
        be_quiet(quiet)
        if not joined or talk is not None:  # a group of the caller's stays
            dist.destroy_process_group(talk if joined else None)


def own_rank() -> int:
    """The number of this process among those that train together, whether torchrun started them or
    the caller joined a group of torch.distributed; 0 of one that stands alone."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK", "0"))


def _my_gpu(number: str | None = None, size: int = 1) -> int:
    """Which of the machine's GPUs is this process's: the one asked for, or that of its rank."""
    here, there = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if here > there:
        expected = f"at most one process for each GPU ({there})"
        refuse("--nproc-per-node", expected, str(here), "start fewer processes, or use device=cpu")
    mine = os.environ.get("LOCAL_RANK", "0")
    if number is None or number == mine:
        return int(mine)
    if size > 1 or not number.isdecimal() or int(number) >= there:
        expected = f"cuda, or in one process cuda:0 to cuda:{there - 1}"
        refuse("device", expected, f"cuda:{number}", "choose one of them")
    return int(number)


def spread(model: nn.Module, world: World) -> nn.Module:
    """The model as its processes call it. What is divided is called by all of them in every
    step."""
    if world.size == 1:
        return model
    if world.parallel == "ddp":
        # Where languages own parts, some of them are in no batch of a process: these gradients must
        # be looked for.
        owned = any(module.owned for module in model.modules() if isinstance(module, PerLanguage))
        unused = owned or getattr(model, "leaves_out", False)
        with warnings.catch_warnings():
            # newer torch warns of the argument, which is the only one that older ones know
            warnings.simplefilter("ignore", FutureWarning)
            # buffers are constants, some of them large
            return DistributedDataParallel(
                model, find_unused_parameters=unused, broadcast_buffers=False
            )
    for layer in [module for module in model.modules() if isinstance(module, Layer)]:
        fully_shard(layer)
    fully_shard(model)
    return model


@contextlib.contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """Hold a divided model's embeddings and head whole, for parts of it that are called by
    themselves; layers see to themselves."""
    if not isinstance(model, FSDPModule):
        yield
        return
    model.unshard()
    try:
        yield
    finally:
        model.reshard()


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor that may be divided over processes (all of them must ask)."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, example: Tensor) -> Tensor:
    """A whole tensor, on the device of another and divided as that is."""
    if isinstance(example, DTensor) and tensor.shape == example.shape:
        # No source: every process has read the whole, and takes its share.
        return distribute_tensor(
            tensor.to(example.device), example.device_mesh, example.placements, src_data_rank=None
        )
    return tensor.to(example.device) if tensor.ndim else tensor
