"""Inputs to vectors: what an encoder makes of located text, pooled to its items.

In a block, inputs are sorted by length, so that a batch holds little padding. On a CPU several
threads encode, each a batch of its own. Batches, and the order in which their vectors are put
together, are the same with any number of threads.
"""

import contextlib
import dataclasses
import math
from collections.abc import Generator, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from crosslens.errors import refuse
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.extraction.units import Located
from crosslens.models.machine.threads import in_order
from crosslens.models.saved.arrays import extremes

__all__ = ["Encoded", "encode"]

_BATCH_TOKENS = {"cpu": 512, "cuda": 32_768}  # a CPU is fastest with what its caches hold
# the least length beside the longest of a batch, once it holds this part of its tokens
_LIKE, _SMALL = 0.9, 4


@dataclasses.dataclass(frozen=True, eq=False)
class Encoded:
    """What one batch gives of a block.

    Attributes
    ----------
    found: the block.
    items: (r,) numbers of items of the block. Over all batches of the block each item comes once.
    vectors: their vectors by array name, (r, d) in float32; rows of items without subwords are NaN.
    inputs: how many inputs of the block are done when this one is, from and to.
    """

    found: Located
    items: np.ndarray
    vectors: dict[str, Tensor]
    inputs: tuple[int, int]

    @property
    def last(self) -> bool:
        """Whether the block is done with it."""
        return self.inputs[1] == len(self.found.inputs)

    def share(self, total: int) -> int:
        """How many of ``total``, spread over the block's inputs, are done with this batch."""
        if not self.found.inputs:
            return total
        before, after = (total * number // len(self.found.inputs) for number in self.inputs)
        return after - before


def encode(
    encoder: Encoder, blocks: Iterable[Located], pool: str, arrays: Sequence[str]
) -> Generator[Encoded, None, None]:
    """The vectors of each block's items, batch by batch, block after block. Blocks are asked for
    before those ahead of them are done.

    Raises
    ------
    InputError: the encoder's activations are not finite.
    """
    with contextlib.closing(
        in_order(_pooled, encoder, _batches_of(encoder, blocks, pool, arrays))
    ) as done:
        for batch, pooled in done:
            yield batch.plan.encoded(batch, pooled)


class _Plan:
    """Where a block's vectors come from."""

    def __init__(self, encoder: Encoder, found: Located, pool: str, arrays: Sequence[str]) -> None:
        self.found = found
        self.pool = pool
        self.arrays = arrays
        self.d = encoder.d
        self.name = encoder.name
        kinds = (name.rpartition("_")[0] for name in arrays)
        self.outputs = list(dict.fromkeys("hidden" if kind == "layer" else kind for kind in kinds))
        self.every = encoder.output_names(self.outputs)
        owner = found.owner[found.entry_token]
        self.order = np.argsort(owner, kind="stable")
        self.bounds = np.searchsorted(owner[self.order], np.arange(len(found.inputs) + 1))
        same = np.diff(found.entry_item, prepend=-1) == 0
        # items whose subwords are in several inputs
        self.split = np.unique(found.entry_item[same & (np.diff(owner, prepend=-1) != 0)])
        self.sums: dict[str, Tensor] = {}  # of these, so far

    def encoded(self, batch: "_Batch", pooled: dict[str, Tensor]) -> Encoded:
        """What is whole with this batch: its items, but for those of which other inputs have
        subwords, too; at last these as well."""
        found, items = self.found, batch.items
        if len(self.split):
            place = np.searchsorted(self.split, items)
            parts = self.split[np.minimum(place, len(self.split) - 1)] == items
            self._add(
                place[parts], {name: rows[torch.from_numpy(parts)] for name, rows in pooled.items()}
            )
            items = items[~parts]
            pooled = {name: rows[torch.from_numpy(~parts)] for name, rows in pooled.items()}
        part = Encoded(found, items, pooled, batch.done)
        if not part.last:
            return part
        empty = np.flatnonzero(found.pieces == 0)
        rest = torch.full((len(empty), self.d), torch.nan)
        vectors = {
            name: torch.cat([rows, *([self.sums[name]] if self.sums else []), rest])
            for name, rows in pooled.items()
        }
        return Encoded(found, np.concatenate([items, self.split, empty]), vectors, batch.done)

    def _add(self, place: np.ndarray, pooled: dict[str, Tensor]) -> None:
        for name, rows in pooled.items():
            if name not in self.sums:
                self.sums[name] = torch.full(
                    (len(self.split), self.d), -torch.inf if self.pool == "max" else 0.0
                )
            if self.pool == "max":
                # windows of one item may share a batch
                np.maximum.at(self.sums[name].numpy(), place, rows.numpy())
            else:
                self.sums[name].index_add_(0, torch.from_numpy(place), rows)


class _Batch:
    """Some inputs of a block that are encoded together."""

    def __init__(self, plan: _Plan, inputs: np.ndarray, before: int) -> None:
        self.plan, self.inputs, self.done = plan, inputs, (before, before + len(inputs))
        found, order, bounds = plan.found, plan.order, plan.bounds
        self.entries = np.concatenate(
            [order[:0], *(order[bounds[i] : bounds[i + 1]] for i in inputs)]
        )
        self.row = np.repeat(np.arange(len(inputs)), [bounds[i + 1] - bounds[i] for i in inputs])
        item = found.entry_item[self.entries]
        self.begins = np.flatnonzero(
            (np.diff(item, prepend=-1) != 0) | (np.diff(self.row, prepend=-1) != 0)
        )
        self.items = item[self.begins]


class _Gather:
    """Pools a batch's states to its items."""

    def __init__(
        self,
        place: np.ndarray,
        begins: np.ndarray,
        weights: np.ndarray | None,
        pool: str,
        device: torch.device,
    ) -> None:
        self.place = torch.from_numpy(place).to(device)
        self.begins = torch.from_numpy(begins).to(device)
        self.weights = None if weights is None else torch.from_numpy(weights).to(device)
        self.single, self.pool = len(place) == len(begins) and pool != "mean", pool

    def __call__(self, state: Tensor) -> Tensor:
        flat = state.reshape(-1, state.shape[-1])
        if self.single:
            return flat.index_select(0, self.place)
        mode = "sum" if self.pool == "mean" else "max"
        return torch.nn.functional.embedding_bag(
            self.place, flat, self.begins, mode=mode, per_sample_weights=self.weights
        )


@torch.inference_mode()
def _pooled(encoder: Encoder, batch: _Batch) -> dict[str, Tensor]:
    """The vectors of a batch's items, by array name, (items, d) each; sums over the batch's
    subwords where an item has more."""
    plan, found, entries = batch.plan, batch.plan.found, batch.entries
    if not len(batch.inputs):
        return {name: torch.empty((0, plan.d)) for name in plan.arrays}
    tokens, mask, segments = _padded(encoder, found, batch.inputs)
    place = batch.row * tokens.shape[1] + found.column[found.entry_token[entries]]
    weights = (
        (1 / found.pieces[found.entry_item[entries]]).astype(np.float32)
        if plan.pool == "mean"
        else None
    )
    states = encoder.states(tokens, mask, plan.outputs, segments=segments)
    flat = dict(
        zip(
            plan.every,
            (state for output in plan.outputs for state in states[output]),
            strict=True,
        )
    )
    gather = _Gather(place, batch.begins, weights, plan.pool, encoder.device)
    vectors = {name: gather(flat[name]).cpu() for name in plan.arrays}
    for name, rows in vectors.items():
        if not all(map(math.isfinite, extremes(rows))):
            remedy = "choose float32, or another encoder"
            refuse(f"encoder {plan.name}", "finite activations", f"others in {name}", remedy)
    return vectors


def _batches_of(
    encoder: Encoder, blocks: Iterable[Located], pool: str, arrays: Sequence[str]
) -> Iterator[_Batch]:
    for found in blocks:
        plan = _Plan(encoder, found, pool, arrays)
        done = 0
        # a block of blank lines has no input
        for some in _by_length(found, encoder) if found.inputs else [np.arange(0)]:
            yield _Batch(plan, some, done)
            done += len(some)


def _by_length(found: Located, encoder: Encoder) -> Iterator[np.ndarray]:
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
            end = min(
                end,
                max(
                    at + -(-most // (_SMALL * width)),
                    int(np.searchsorted(downwards, -_LIKE * width, "right")),
                ),
            )
        yield order[at:end]
        at = end


def _padded(encoder: Encoder, found: Located, batch: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    width = len(found.inputs[batch[0]])
    tokens = np.full((len(batch), width), encoder.pad_id)
    mask = np.zeros((len(batch), width), np.int64)
    segments = np.zeros((len(batch), width), np.int64)
    for row, i in enumerate(batch):
        taken = found.inputs[i]
        tokens[row, : len(taken)], mask[row, : len(taken)] = found.ids[taken], 1
        segments[row, : len(taken)] = found.segments[taken]
    device = encoder.device
    return (
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(mask).to(device),
        torch.from_numpy(segments).to(device),
    )
