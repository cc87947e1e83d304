"""Batches of fine-tuning: random ones or of like length, each computed in parts of like length,
without padding to a longest input."""

import dataclasses
import itertools
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
_PART_COSTS = {"cpu": 64, "cuda": 4_096}
"""What a further part costs, in tokens: starting its products, and adding up gradients. On two cores
the encoders of 256 to 768 dimensions needed 60 to 90."""
_GROUPED_OVER = 50  # random batches whose rows are sorted together
_STATES_COST = 512  # of kept states: a further part costs an LSTM another walk over its length


def by_length(rows: Sequence[Row], numbers: np.ndarray, device: str) -> Iterator[np.ndarray]:
    """Numbers of rows as parts of one language and of like length, the longest first, so that padding
    and parts cost as little as they can together."""
    keys = [(rows[n].languages[0], rows[n].languages[1] or "", -len(rows[n].ids)) for n in numbers]
    order = sorted(range(len(numbers)), key=keys.__getitem__)
    cost = _PART_COSTS.get(device, 1_024)
    if len(order) and rows[numbers[0]].states is not None:
        cost = max(cost, _STATES_COST)
    for _, of_language in itertools.groupby(order, key=lambda place: keys[place][:2]):
        places = np.array(list(of_language))
        lengths = np.array([-keys[place][2] for place in places])
        for begin, end in _cuts(lengths, cost, _PART_TOKENS.get(device, 4_096)):
            yield numbers[places[begin:end]]


def _cuts(lengths: np.ndarray, cost: int, most: int) -> list[tuple[int, int]]:
    """The parts, from and to, of falling lengths that make tokens with padding, and ``cost`` for each
    part, least; a part has at most ``most`` tokens, or one row. The shortest path over places."""
    least, came_from = np.zeros(len(lengths) + 1), np.zeros(len(lengths) + 1, np.int64)
    first = 0
    for end in range(1, len(lengths) + 1):
        while first < end - 1 and lengths[first] * (end - first) > most:
            first += 1  # lengths fall: what is too much here stays too much
        begins = np.arange(first, end)
        sums = least[begins] + lengths[begins] * (end - begins) + cost
        chosen = int(sums.argmin())
        least[end], came_from[end] = sums[chosen], begins[chosen]
    cuts, end = [], len(lengths)
    while end:
        cuts.append((int(came_from[end]), end))
        end = int(came_from[end])
    return cuts[::-1]


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
    grouped: batches are of rows of like length, in random order
        (:class:`crosslens.models.finetuning.settings.FineTuning`).

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
    grouped: bool = False
    _orders: dict[int, np.ndarray] = dataclasses.field(default_factory=dict, repr=False)

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
        if epoch not in self._orders:
            self._orders.clear()
            self._orders[epoch] = self._order(epoch)
        return self._orders[epoch][batch * self.batch_size : (batch + 1) * self.batch_size]

    def _order(self, epoch: int) -> np.ndarray:
        drawn = np.random.default_rng([self.seed, 0xF17E, epoch])
        order = drawn.permutation(len(self.rows))
        if not self.grouped:
            return order
        lengths = np.array([len(row.ids) for row in self.rows])
        sorted_over = self.batch_size * max(1, min(_GROUPED_OVER, self.per_epoch // 4))
        for begin in range(0, len(order), sorted_over):
            some = order[begin : begin + sorted_over]
            some[:] = some[np.argsort(-lengths[some], kind="stable")]
        whole = len(order) // self.batch_size * self.batch_size  # what is left over stays last
        batches = drawn.permutation(order[:whole].reshape(-1, self.batch_size))
        return np.concatenate([batches.ravel(), order[whole:]])

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
            tokens=sum(len(self.rows[n].ids) for n in numbers),
        )
