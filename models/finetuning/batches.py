"""Batches of fine-tuning: random ones, each computed in parts of like length, without padding to a
longest input."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosslens.errors import refuse
from crosslens.models.finetuning.kind import Kind, Row
from crosslens.models.training.objective import Step

__all__ = ["EpochBatches", "by_length", "padded"]

_PART_TOKENS = {"cpu": 1_024, "cuda": 16_384}
"""Tokens of a part, padding included: what a processor's caches, or a GPU's memory, hold."""


def by_length(rows: Sequence[Row], numbers: np.ndarray, device: str) -> Iterator[np.ndarray]:
    """Numbers of rows as parts of one language and of like length, the longest first."""
    most = _PART_TOKENS.get(device, 4_096)
    keys = [(rows[n].languages[0], rows[n].languages[1] or "", -len(rows[n].ids)) for n in numbers]
    order = sorted(range(len(numbers)), key=keys.__getitem__)
    part: list[int] = []
    for place in order:
        new = part and keys[place][:2] != keys[part[0]][:2]
        if part and (new or (len(part) + 1) * -keys[part[0]][2] > most):
            yield numbers[part]
            part = []
        part.append(place)
    if part:
        yield numbers[part]


def padded(kind: Kind[Any], rows: Sequence[Row], pad_id: int) -> dict[str, Any]:
    """The keyword arguments of a model's ``forward`` for rows of one language: token ids, or the
    states that are kept of them."""
    width = max(len(row.ids) for row in rows)
    ids = np.full((len(rows), width), pad_id, np.int64)
    mask, segments = np.zeros_like(ids), np.zeros_like(ids)
    for number, row in enumerate(rows):
        n = len(row.ids)
        ids[number, :n], mask[number, :n], segments[number, :n] = row.ids, 1, row.segments
    if rows[0].states is not None:
        states = np.zeros((*ids.shape, *rows[0].states.shape[1:]), rows[0].states.dtype)
        for number, row in enumerate(rows):
            states[number, : len(row.ids)] = row.states
        kept = {"states": torch.from_numpy(states), "mask": torch.from_numpy(mask)}
        return {**kept, **kind.batch(rows)}
    tensors: dict[str, Tensor] = {
        "ids": torch.from_numpy(ids),
        "mask": torch.from_numpy(mask),
        "segments": torch.from_numpy(segments),
        **kind.batch(rows),
    }
    return {**tensors, "language": rows[0].languages[0], "second": rows[0].languages[1]}


@dataclasses.dataclass(frozen=True, eq=False)
class EpochBatches:
    """The batches of some epochs, each a function of its number.

    Attributes
    ----------
    kind, rows: of the training examples. batch_size: rows of a batch, over all processes.
    seed: of their order, which differs from epoch to epoch. pad_id: of the encoder.
    rank, size: of this process, and how many there are. device: "cpu" or "cuda".

    Raises
    ------
    InputError: there is nothing to train on.
    """

    kind: Kind[Any]
    rows: Sequence[Row]
    batch_size: int
    seed: int
    pad_id: int
    rank: int = 0
    size: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not sum(row.counted for row in self.rows):
            refuse("train", "examples with labels", "none", "give labelled examples")

    @property
    def per_epoch(self) -> int:
        """Batches of an epoch; the last one may be smaller."""
        return -(-len(self.rows) // self.batch_size)

    def numbers(self, step: int) -> np.ndarray:
        """Which rows the batch of an update has."""
        epoch, batch = divmod(step, self.per_epoch)
        order = np.random.default_rng([self.seed, 0xF17E, epoch]).permutation(len(self.rows))
        return order[batch * self.batch_size : (batch + 1) * self.batch_size]

    def __getitem__(self, step: int) -> Step:
        """The batch of an update (counted from 0)."""
        numbers = self.numbers(step)
        mine, weight = numbers[self.rank :: self.size], 1.0
        if not len(mine):  # fewer rows than processes: this one computes something that counts 0
            mine, weight = numbers[:1], 0.0
        parts = [
            {**padded(self.kind, [self.rows[n] for n in part], self.pad_id), "weight": weight}
            for part in by_length(self.rows, mine, self.device)
        ]
        return Step(
            parts,
            predicted=max(1, sum(self.rows[n].counted for n in numbers)),
            tokens=sum(len(self.rows[n].ids) for n in mine),
        )
