"""The one loop that all trainings go through: steps of an objective, from its model's first weights
to the last.

    log.jsonl       a line per log interval and per validation
    checkpoints/    the last whole checkpoint, and the best one

are written into the run's folder; the rest of the folder belongs to whoever starts the loop.
"""

import dataclasses
import functools
import math
import time
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from crosslens.files import check_shape
from crosslens.models.machine.distributed import World, gathered, spread, whole
from crosslens.models.machine.memory import freed_memory_kept
from crosslens.models.machine.precision import remark_slow_bfloat16
from crosslens.models.training.checkpoint import (
    drop_other_checkpoints,
    latest_checkpoint,
    load_best,
    load_checkpoint,
    save_best,
    save_checkpoint,
)
from crosslens.models.training.costs import peak_flops
from crosslens.models.training.events import Events
from crosslens.models.training.graphs import repeated_updates
from crosslens.models.training.objective import Objective, Step, moved, need_number
from crosslens.models.training.optimisers import build_optimiser, learning_rate, set_rate
from crosslens.models.training.settings import LoopSettings
from crosslens.progress import Progress, say
from crosslens.selection import improves

__all__ = ["run_loop"]

_HALVED = 7  # times that leave less than a hundredth


def run_loop(
    objective: Objective[Any],
    settings: LoopSettings,
    folder: Path,
    depends: dict[str, Any],
    world: World,
) -> dict[str, Tensor]:
    """Train an objective's model; returns the finished weights, whole, by name.

    Parameters
    ----------
    folder: gets the log and the checkpoints. What it holds of a training that was stopped is
        resumed.
    depends: everything that the weights depend on; a checkpoint of a run with others is refused.

    Raises
    ------
    StoreError: a checkpoint is damaged, or belongs to another run.
    TrainingError: the loss is not a number any more; the last checkpoint is kept.
    """
    model, checkpoints = objective.model, folder / "checkpoints"
    if world.first:
        remark_slow_bfloat16(world.device, settings.precision)
    runner = spread(model, world)
    optimiser = build_optimiser(model, settings.optimisation, objective.rate_factors)
    done = 0
    memory: dict[str, Any] = {
        "tokens": 0,
        "seconds": 0.0,
        "best": math.inf,
        "worse": 0,
        "stopped": False,
        "halved": 0,
        "loss": 0.0,
        "predicted": 0,
    }
    checkpoint = latest_checkpoint(checkpoints)
    if checkpoint is not None:
        done, found = load_checkpoint(checkpoint, model, optimiser, depends)
        check_shape(
            found, f"{checkpoint / 'state.json'}, extra", _Memory, "delete this checkpoint folder"
        )
        memory |= found
    with world.together():
        if world.first and checkpoint is not None:
            drop_other_checkpoints(checkpoint)
        events = Events(folder, done, tensorboard=settings.tensorboard, silent=not world.first)
    run = _Run(objective, settings, folder, depends, world, runner, optimiser, events, memory)
    if not memory["stopped"]:
        with freed_memory_kept(world.device):
            _loop(run, done)
    events.close()
    if settings.select != "last":
        load_best(checkpoints, model, memory.get("best_step"))
    return {name: whole(tensor) for name, tensor in model.state_dict().items()}


class _Memory(TypedDict):
    """What a checkpoint remembers beside the weights."""

    tokens: int
    seconds: float
    best: float
    worse: int
    stopped: bool
    halved: NotRequired[int]  # how often the rate was, with decay "plateau"
    loss: NotRequired[float]  # since the last line of the log; older checkpoints have neither
    predicted: NotRequired[int]
    best_step: NotRequired[int]  # whose weights were best; not in older checkpoints


@dataclasses.dataclass
class _Run:
    """What the loop works with."""

    objective: Objective[Any]
    settings: LoopSettings
    folder: Path
    depends: dict[str, Any]
    world: World
    runner: nn.Module
    optimiser: torch.optim.Optimizer
    events: Events
    memory: dict[str, Any]


def _loop(run: _Run, done: int) -> None:
    objective, settings, optimiser, memory = run.objective, run.settings, run.optimiser, run.memory
    model, steps = objective.model.train(), settings.steps
    _settle(run, done)
    meter, plain = _Meter(run), functools.partial(_update, run)
    with (
        repeated_updates(plain, objective, optimiser, run.world) as update,
        Progress(steps, f"training {settings.name}", "steps", done) as progress,
    ):
        for step in range(done, steps):
            torch.manual_seed(_dropout_seed(run, step))
            batch = objective.batch(step)
            rate = learning_rate(step, settings.optimisation, steps) * 0.5 ** memory["halved"]
            set_rate(optimiser, rate)
            meter.add(step, *update(batch), batch)
            progress.add(1, meter.note)
            now = step + 1
            if now % settings.log_every == 0 or now == steps:
                meter.log(now)
            if now % settings.validate_every == 0 or now == steps:
                meter.log(now) if meter.pending or memory["predicted"] else None
                _validate(run, now)
                meter.restart()
            if now % settings.save_every == 0 or now == steps or memory["stopped"]:
                meter.check()  # weights that are spoilt are not saved
                meter.count_seconds()
                save_checkpoint(
                    run.folder / "checkpoints",
                    now,
                    model,
                    optimiser,
                    run.depends,
                    memory,
                    run.world,
                )
            if memory["stopped"]:
                how = f"no better validation in {memory['worse']}"
                if memory["halved"] == _HALVED:
                    how = f"the rate was halved {_HALVED} times, after validations that were no better"
                say(f"stopped at step {now}: {how}")
                return


def _update(run: _Run, batch: Step) -> tuple[Tensor, Tensor]:
    """Update the weights by a batch; returns its loss and the norm of its gradients."""
    shares = [_backward(run, batch, part) for part in range(len(batch.parts))]
    loss = sum(shares[1:], shares[0])
    norm = _clip(run.objective.model, run.settings.optimisation.clip)
    run.optimiser.step()
    # None, not zero: languages that are absent stay untouched
    run.optimiser.zero_grad(set_to_none=True)
    return loss, norm


def _dropout_seed(run: _Run, step: int) -> int:
    """What is dropped is a function of the step, too, and another one in each process."""
    return (run.settings.seed * 1_000_003 + step) * run.world.size + run.world.rank


def _settle(run: _Run, done: int) -> None:
    """Let DistributedDataParallel see one backward pass that trains nothing.

    After its first one it puts gradients together in another way, and sums over three processes and
    more are taken in another order. So every start, the first and a resumed one, has that behind
    it, and a resumed run is the same to the last bit.
    """
    if isinstance(run.runner, DistributedDataParallel) and done < run.settings.steps:
        batch = run.objective.batch(done)
        _backward(run, batch, len(batch.parts) - 1)
        run.optimiser.zero_grad(set_to_none=True)


def _backward(run: _Run, batch: Step, part: int) -> Tensor:
    """Gradients of one part of a batch; returns its share of the batch's mean loss (summed over
    processes by the meter)."""
    world = run.world
    _synchronise(run.runner, world, part == len(batch.parts) - 1)
    inputs = moved(batch.parts[part], world.device)
    with torch.autocast(
        world.device.type, torch.bfloat16, enabled=run.settings.precision == "bfloat16"
    ):
        loss = run.objective.loss(run.runner, inputs, batch)
    # gradients are averaged over processes, and each has but its own share of the sum
    (loss * world.size).backward()
    return loss.detach()


def _synchronise(runner: nn.Module, world: World, now: bool) -> None:
    """Whether the next backward pass exchanges gradients: with the last part those of all parts."""
    if world.size == 1:
        return
    if world.parallel == "ddp":
        runner.require_backward_grad_sync = now  # type: ignore[assignment]
    else:
        runner.set_requires_gradient_sync(now)  # type: ignore[operator]


def _clip(model: nn.Module, most: float) -> Tensor:
    """Scale gradients down to a norm of ``most`` (0: leave them); returns their norm before."""
    return whole(torch.nn.utils.clip_grad_norm_(model.parameters(), most or math.inf))


def _validate(run: _Run, now: int) -> None:
    """Measure on held-out data, keep the best weights, and notice when nothing improves any
    more."""
    objective, settings, memory = run.objective, run.settings, run.memory
    with gathered(objective.model):
        found = objective.validate(run.world.device)
    run.events.write(
        {"step": now, "tokens": memory["tokens"], "seconds": round(memory["seconds"], 3), **found}
    )
    if not settings.decided_by_validation:
        return
    measure = run.world.agreed(objective.measure(found))
    if improves(measure, memory["best"]):
        memory.update(best=measure, worse=0)
        if settings.select != "last" or settings.patience:
            memory["best_step"] = now
            save_best(
                run.folder / "checkpoints", now, objective.model, run.depends, measure, run.world
            )
    else:
        memory["worse"] += 1
        memory["halved"] += settings.optimisation.decay == "plateau"
        memory["stopped"] = 0 < settings.patience <= memory["worse"] or memory["halved"] == _HALVED


class _Meter:
    """Adds up losses between log lines; on a GPU it looks at them only then, so that the queue of
    work never runs dry.

    What has been added up since the last line is remembered with the checkpoint: a resumed run logs
    the mean of the whole interval, and the seconds of all.
    """

    def __init__(self, run: _Run) -> None:
        self.run, self.note = run, ""
        self.started = self.counted = time.monotonic()
        self.peak = peak_flops(run.world.device)
        self.at_once = run.world.device.type == "cpu" and run.world.size == 1
        self._clear()

    def _clear(self) -> None:
        self.pending: list[tuple[int, Tensor, Tensor, int]] = []
        self.tokens, self.work = 0, 0.0

    def add(self, step: int, loss: Any, norm: Tensor, batch: Step) -> None:
        self.pending.append((step, loss, norm, batch.predicted))
        self.tokens += batch.tokens
        if self.peak is not None:
            self.work += self.run.objective.flops(batch)
        self.run.memory["tokens"] += batch.tokens
        if self.at_once:
            self.check()

    def check(self) -> None:
        """Look at the losses so far; a step without a number would spoil the weights, and the next
        checkpoint."""
        if not self.pending:
            return
        values = torch.stack(
            [
                torch.stack([loss.double(), norm.double() / self.run.world.size])
                for _, loss, norm, _ in self.pending
            ]
        )
        for (step, _, _, predicted), (loss, norm) in zip(
            self.pending, self.run.world.total(values).tolist(), strict=True
        ):
            need_number(f"loss at step {step}", loss)
            need_number(f"gradient norm at step {step}", norm)
            self.run.memory["loss"] += loss * predicted
            self.run.memory["predicted"] += predicted
            self.note = f"loss {loss:.2f}"
        self.pending = []

    def log(self, now: int) -> None:
        self.check()
        self.count_seconds()
        passed = self.counted - self.started
        memory, rate = self.run.memory, self.tokens / passed
        line = {
            "step": now,
            "tokens": memory["tokens"],
            "loss": memory["loss"] / memory["predicted"],
            "tokens_per_second": round(rate),
        }
        line["seconds"] = round(memory["seconds"], 3)
        if self.peak is not None:
            line["utilisation"] = round(self.work / passed / (self.peak * self.run.world.size), 4)
        self.run.events.write(line)
        memory.update(loss=0.0, predicted=0)
        self._clear()
        self.restart()

    def count_seconds(self) -> None:
        """Add what has passed since they were last counted."""
        now = time.monotonic()
        self.run.memory["seconds"] += now - self.counted
        self.counted = now

    def restart(self) -> None:
        """Begin an interval; what passed before and is not counted is not the training's."""
        self.started = self.counted = time.monotonic()
