"""Inputs to vectors: what an encoder makes of located text, pooled to its items.

In a block, inputs are sorted by length, so that a batch holds little padding. On a CPU several threads encode, each a batch of its
own. Batches, and the order in which their vectors are put together, are the same with any number of threads.
"""

import contextlib
import math
from collections.abc import Generator, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from crosslens.errors import refuse
from crosslens.models.arrays import extremes
from crosslens.models.loading import PretrainedEncoder
from crosslens.models.threads import in_order
from crosslens.models.units import Located

__all__ = ["encode"]

_BATCH_TOKENS = {"cpu": 512, "cuda": 32_768}  # a CPU is fastest with what its caches hold
_LIKE, _SMALL = 0.9, 4  # the least length beside the longest of a batch, once it holds this part of its tokens


def encode(
    encoder: PretrainedEncoder, blocks: Iterable[Located], pool: str, arrays: Sequence[str]
) -> Generator[tuple[Located, dict[str, Tensor]], None, None]:
    """Each block with the vectors of its items, by array name, (items, d) in float32; rows of items without pieces are NaN.

    They stand in memory that the block after the next one is written to. A block is asked for before the one ahead of it is done.

    Raises
    ------
    InputError: the encoder's activations are not finite.
    """
    rooms: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    turn = 0
    vectors: dict[str, Tensor] = {}
    with contextlib.closing(in_order(_pooled, encoder, _batches_of(encoder, blocks, pool, arrays))) as done:
        for batch, pooled in done:
            plan = batch.plan
            if batch.first:
                vectors, turn = plan.room(rooms[turn]), 1 - turn
            plan.put(vectors, batch, pooled)
            if batch.last:
                plan.finish(vectors)
                yield plan.found, vectors


class _Plan:
    """Where a block's vectors come from, and where they go."""

    def __init__(self, encoder: PretrainedEncoder, found: Located, pool: str, arrays: Sequence[str]) -> None:
        self.found, self.pool, self.arrays, self.d, self.name = found, pool, arrays, encoder.d, encoder.name
        kinds = (name.rpartition("_")[0] for name in arrays)
        self.outputs = list(dict.fromkeys("hidden" if kind == "layer" else kind for kind in kinds))
        self.every = encoder.output_names(self.outputs)
        owner = found.owner[found.entry_token]
        self.order = np.argsort(owner, kind="stable")
        self.bounds = np.searchsorted(owner[self.order], np.arange(len(found.inputs) + 1))
        changes = np.diff(found.entry_item, prepend=-1) != 0
        self.split = bool((~changes & (np.diff(owner, prepend=-1) != 0)).any())  # some item's pieces are in several inputs

    def room(self, room: dict[str, Tensor]) -> dict[str, Tensor]:
        """Memory for the vectors, used again where it is large enough: what is used again and again does not grow."""
        items = self.found.items
        for name in self.arrays:
            if name not in room or len(room[name]) < items:
                room[name] = torch.from_numpy(np.empty((items + items // 4, self.d), np.float32))  # numpy asks for huge pages
        vectors = {name: room[name][:items] for name in self.arrays}
        if self.split:  # else each item's row is written once, as a whole
            for vector in vectors.values():
                vector.fill_(-torch.inf if self.pool == "max" else 0.0)
        return vectors

    def put(self, vectors: dict[str, Tensor], batch: "_Batch", pooled: dict[str, Tensor]) -> None:
        """Put what a batch gives into the rows of its items."""
        target = torch.from_numpy(batch.items)
        for name, rows in pooled.items():
            if not self.split:
                vectors[name].index_copy_(0, target, rows)
            elif self.pool == "max":
                np.maximum.at(vectors[name].numpy(), batch.items, rows.numpy())  # windows of one item may share a batch
            else:
                vectors[name].index_add_(0, target, rows)

    def finish(self, vectors: dict[str, Tensor]) -> None:
        """Check the numbers, and mark the rows that have none."""
        empty = torch.from_numpy(np.flatnonzero(self.found.pieces == 0))
        for name, vector in vectors.items():
            vector[empty] = 0.0
            if not all(map(math.isfinite, extremes(vector))):
                refuse(f"encoder {self.name}", "finite activations", f"others in {name}", "choose float32, or another encoder")
            vector[empty] = torch.nan


class _Batch:
    """Some inputs of a block that are encoded together."""

    def __init__(self, plan: _Plan, inputs: np.ndarray, first: bool, last: bool) -> None:
        self.plan, self.inputs, self.first, self.last = plan, inputs, first, last
        found, order, bounds = plan.found, plan.order, plan.bounds
        self._entries = np.concatenate([order[bounds[i] : bounds[i + 1]] for i in inputs])
        self._row = np.repeat(np.arange(len(inputs)), [bounds[i + 1] - bounds[i] for i in inputs])
        item = found.entry_item[self._entries]
        self._begins = np.flatnonzero((np.diff(item, prepend=-1) != 0) | (np.diff(self._row, prepend=-1) != 0))
        self.items = item[self._begins]

    def pooled(self, encoder: PretrainedEncoder) -> dict[str, Tensor]:
        """The vectors of :attr:`items`, by array name, (items, d) each."""
        plan, found, entries = self.plan, self.plan.found, self._entries
        tokens, mask, segments = _padded(encoder, found, self.inputs)
        place = self._row * tokens.shape[1] + found.column[found.entry_token[entries]]
        weights = (1 / found.pieces[found.entry_item[entries]]).astype(np.float32) if plan.pool == "mean" else None
        states = encoder.states(tokens, mask, plan.outputs, segments=segments)
        flat = dict(zip(plan.every, (state for output in plan.outputs for state in states[output]), strict=True))
        gather = _Gather(place, self._begins, weights, plan.pool, encoder.device)
        return {name: gather(flat[name]).cpu() for name in plan.arrays}


class _Gather:
    """Pools a batch's states to its items."""

    def __init__(self, place: np.ndarray, begins: np.ndarray, weights: np.ndarray | None, pool: str, device: torch.device) -> None:
        self.place, self.begins = torch.from_numpy(place).to(device), torch.from_numpy(begins).to(device)
        self.weights = None if weights is None else torch.from_numpy(weights).to(device)
        self.single, self.pool = len(place) == len(begins) and pool != "mean", pool

    def __call__(self, state: Tensor) -> Tensor:
        flat = state.reshape(-1, state.shape[-1])
        if self.single:
            return flat.index_select(0, self.place)
        mode = "sum" if self.pool == "mean" else "max"
        return torch.nn.functional.embedding_bag(self.place, flat, self.begins, mode=mode, per_sample_weights=self.weights)


@torch.inference_mode()
def _pooled(encoder: PretrainedEncoder, batch: _Batch) -> dict[str, Tensor]:
    return batch.pooled(encoder)


def _batches_of(encoder: PretrainedEncoder, blocks: Iterable[Located], pool: str, arrays: Sequence[str]) -> Iterator[_Batch]:
    for found in blocks:
        plan = _Plan(encoder, found, pool, arrays)
        inputs = list(_by_length(found, encoder))
        for number, some in enumerate(inputs):
            yield _Batch(plan, some, number == 0, number == len(inputs) - 1)


def _by_length(found: Located, encoder: PretrainedEncoder) -> Iterator[np.ndarray]:
    """Inputs of like length, the longest first: what does not fit into memory shows at once."""
    lengths = np.array([len(taken) for taken in found.inputs])
    order = np.argsort(-lengths, kind="stable")
    downwards, most, at = -lengths[order], _BATCH_TOKENS.get(encoder.device.type, 4096), 0
    while at < len(order):
        width = lengths[order[at]]
        end = at + max(1, most // width)
        if encoder.padding_free:
            end = min(end, int(np.searchsorted(downwards, -width, "right")))
        else:  # much shorter ones wait for the next batch, unless this one is small
            end = min(end, max(at + -(-most // (_SMALL * width)), int(np.searchsorted(downwards, -_LIKE * width, "right"))))
        yield order[at:end]
        at = end


def _padded(encoder: PretrainedEncoder, found: Located, batch: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    width = len(found.inputs[batch[0]])
    tokens = np.full((len(batch), width), encoder.pad_id)
    mask, segments = np.zeros((len(batch), width), np.int64), np.zeros((len(batch), width), np.int64)
    for row, i in enumerate(batch):
        taken = found.inputs[i]
        tokens[row, : len(taken)], mask[row, : len(taken)] = found.ids[taken], 1
        segments[row, : len(taken)] = found.segments[taken]
    device = encoder.device
    return torch.from_numpy(tokens).to(device), torch.from_numpy(mask).to(device), torch.from_numpy(segments).to(device)
