"""Batches on several threads of a CPU: two small matrix products side by side are faster than one
that is cut in two."""

import collections
import concurrent.futures
import copy
import queue
from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

__all__ = ["in_order", "same_weights"]

# beyond, Python's own share of a forward pass, which one thread at a time can do, would hold them
# up
_MOST_WORKERS = 8


@runtime_checkable
class Model(Protocol):
    """What a thread computes with: on a device, and able to make another of itself for another
    thread."""

    @property
    def device(self) -> torch.device: ...
    def twin(self) -> "Model": ...


M = TypeVar("M", bound=Model)
Task = TypeVar("Task")
Result = TypeVar("Result")
N = TypeVar("N", bound=nn.Module)


def in_order(
    work: Callable[[M, Task], Result], model: M, tasks: Iterable[Task]
) -> Generator[tuple[Task, Result], None, None]:
    """Tasks with their results, in the order in which they come.

    On a CPU torch's threads are shared among workers, each with a task and a twin of the model;
    elsewhere, and with a single thread, each task is done when it is asked for. Close the generator
    where it may not be exhausted: that puts the number of threads back.

    Parameters
    ----------
    work: (model, task) -> result; called in a worker's thread, so under ``torch.inference_mode()``
        only if it sets that itself.
    model: has a ``device`` and makes twins, models on the same weights.
    tasks: taken up one after another in the caller's thread, at most two for each worker before
        their results are asked for.
    """
    threads = torch.get_num_threads() if model.device.type == "cpu" else 1
    most = min(threads, _MOST_WORKERS)
    # that leave few idle
    workers = max(
        range((most + 1) // 2, most + 1), key=lambda number: (threads // number * number, number)
    )
    if workers == 1:
        for task in tasks:
            yield task, work(model, task)
        return
    free: queue.SimpleQueue[M] = queue.SimpleQueue()
    for _ in range(workers):
        free.put(model.twin())  # type: ignore[arg-type]

    def done(task: Task) -> Result:
        mine = free.get()
        try:
            return work(mine, task)
        finally:
            free.put(mine)

    waiting: collections.deque[tuple[Task, concurrent.futures.Future[Result]]] = collections.deque()
    pool = concurrent.futures.ThreadPoolExecutor(workers, "encoder")
    torch.set_num_threads(threads // workers)  # for each worker's matrix products
    try:
        for task in tasks:
            waiting.append((task, pool.submit(done, task)))
            if len(waiting) > 2 * workers:
                first, result = waiting.popleft()
                yield first, result.result()
        while waiting:
            first, result = waiting.popleft()
            yield first, result.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def same_weights(module: N) -> N:
    """The module once more on the same weights: another thread may run it, and hooks set on one do
    not touch the other."""
    weights = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    return copy.deepcopy(module, weights)
