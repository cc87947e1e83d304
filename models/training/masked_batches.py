"""Batches by step, masked, as tensors, cut into the parts that a process computes.

Everything is a function of (recipe, data, step): nothing is remembered but the plan of the epoch
that a stream is in.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from crosslens.models.network.encoder import Group
from crosslens.models.text.tokenisation import SPECIAL_TOKENS
from crosslens.models.text.vocabularies import Vocabularies
from crosslens.models.training.anchors import AnchorCounts, WordSwitch
from crosslens.models.training.batches import Batch, schedule
from crosslens.models.training.costs import Load
from crosslens.models.training.data import TrainingData
from crosslens.models.training.masking import Masker, Pieces
from crosslens.models.training.objective import Step
from crosslens.models.training.settings import TrainRecipe
from crosslens.models.training.streams import AnyStream, at_epoch

__all__ = ["MaskedBatches", "MaskedStep", "filled_up", "make_masker", "tensors_of"]

_GRAIN = 64  # masked tokens of a batch of fixed shape are a multiple of it
_IGNORED = -100  # torch's cross-entropy passes over this label


@dataclasses.dataclass(frozen=True)
class MaskedStep(Step):
    """One update's masked batch; ``predicted`` counts its masked tokens.

    Attributes
    ----------
    rows: rows of the whole batch.
    loads: language to what its rows cost (:mod:`crosslens.models.training.costs`).
    """

    rows: int
    loads: dict[str, Load]


class MaskedBatches:
    """The batches of a run.

    Parameters
    ----------
    rank, size: which share of every batch's rows this process computes: every ``size``-th row from
        ``rank`` on.
    """

    def __init__(
        self,
        recipe: TrainRecipe,
        data: TrainingData,
        vocabularies: Vocabularies,
        rank: int = 0,
        size: int = 1,
    ) -> None:
        self.recipe = recipe
        self.data = data
        self.vocabularies = vocabularies
        self.rank = rank
        self.size = size
        self.masker = make_masker(recipe, data, vocabularies)
        self.switch = _make_switch(recipe, vocabularies)
        self.which, self.turn = schedule(data.probabilities, recipe.steps, recipe.seed)
        # stream -> epoch, first turn of it, its batches
        self._plans: dict[int, tuple[int, int, list[np.ndarray]]] = {}
        # stream -> as it is in that epoch
        self._streams: dict[int, AnyStream] = {}

    def __getitem__(self, step: int) -> MaskedStep:
        batch, _ = self._rows(step)
        masked = self.masker(
            batch.ids, batch.languages, np.random.default_rng([self.recipe.seed, 1, step])
        )
        all_parts = self.size * self.recipe.accumulate
        mine = [
            tensors_of(
                batch, *masked, self.recipe, part=number * self.size + self.rank, parts=all_parts
            )
            for number in range(self.recipe.accumulate)
        ]
        return MaskedStep(
            mine,
            len(masked[2]),
            int(batch.lengths.sum()),
            len(batch.ids),
            self._loads(batch, masked[1]),
        )

    def anchor_counts(self, steps: int) -> dict[str, AnchorCounts]:
        """What is replaced in the first ``steps`` batches of a recipe with anchors, in each language;
        "" is all of them."""
        counts = {"": AnchorCounts()}
        for step in range(min(steps, self.recipe.steps)):
            batch = self._rows(step)[1]
            counts[""].add(batch.values())
            for language, one in batch.items():
                counts.setdefault(language, AnchorCounts()).add([one])
        return counts

    def _rows(self, step: int) -> tuple[Batch, dict[str, tuple[int, int, int]]]:
        """The rows of a step before they are masked, and each language's words, known and replaced."""
        which, turn = int(self.which[step]), int(self.turn[step])
        items = self._items(which, turn)
        batch = self._streams.get(which, self.data.streams[which]).collate(items)
        if self.switch is None:
            return batch, {}
        return self.switch(batch, np.random.default_rng([self.recipe.seed, 4, step]))

    def _loads(self, batch: Batch, masked: np.ndarray) -> dict[str, Load]:
        """Language to the load of the rows that begin in it: these use its parts."""
        predicted = np.bincount(masked // batch.ids.shape[1], minlength=len(batch.ids))
        numbers = batch.languages[:, 0]
        return {
            self.recipe.languages[number]: Load.of(
                batch.lengths[numbers == number], predicted[numbers == number]
            )
            for number in np.unique(numbers).tolist()
        }

    def _items(self, which: int, turn: int) -> np.ndarray:
        epoch, first, plan = self._plans.get(which, (-1, 0, []))
        if turn < first:  # in an epoch that is over: walk from the beginning
            epoch, first, plan = -1, 0, []
        # after a resume this walks through the epochs that are over
        while turn >= first + len(plan):
            first, epoch = first + len(plan), epoch + 1
            plan = self.data.streams[which].plan([self.recipe.seed, 2, which, epoch])
        if epoch != self._plans.get(which, (-1,))[0]:
            self._streams[which] = at_epoch(self.data.streams[which], epoch)
        self._plans[which] = (epoch, first, plan)
        return plan[turn - first]


def _make_switch(recipe: TrainRecipe, vocabularies: Vocabularies) -> WordSwitch | None:
    """What code-switches the batches of a recipe; None without anchors."""
    if not recipe.anchors.dictionary:
        return None
    whole = recipe.units == "sentences"
    room = recipe.max_length + 2 * whole
    return WordSwitch(recipe.anchors, recipe.languages, vocabularies, room=room, whole=whole)


def make_masker(recipe: TrainRecipe, data: TrainingData, vocabularies: Vocabularies) -> Masker:
    """The masker of a recipe, which knows what subwords each language has."""
    special = len(SPECIAL_TOKENS)
    pieces = [
        Pieces(
            special=np.arange(vocabularies.sizes[language]) < special,
            counts=data.counts[language],
            starts=vocabularies.starts(language),
        )
        for language in recipe.languages
    ]
    originals = [
        recipe.languages.index(recipe.vocabulary.copies.get(language, language))
        for language in recipe.languages
    ]
    return Masker(
        recipe.masking,
        pieces,
        SPECIAL_TOKENS.index("[MASK]"),
        vocabularies.shared_ids,
        originals,
    )


def tensors_of(
    batch: Batch,
    inputs: np.ndarray,
    masked: np.ndarray,
    labels: np.ndarray,
    recipe: TrainRecipe,
    *,
    part: int = 0,
    parts: int = 1,
) -> dict[str, Any]:
    """One part of a masked batch as the arguments of the model: every ``parts``-th row from
    ``part`` on.

    A batch with fewer rows than parts gives some parts its first row with nothing to predict: all
    processes then do the same work.
    """
    rows = np.arange(part, len(inputs), parts)
    length = inputs.shape[1]
    at = masked // length
    mine, empty = at % parts == part, not len(rows)
    if empty:
        rows, mine = np.array([0]), np.zeros(len(masked), bool)
    if parts > 1:
        masked = at[mine] // parts * length + masked[mine] % length
        labels = labels[mine]
        at = at[mine]
    numbers = batch.languages[rows, 0]
    groups = _groups(numbers, masked // length, recipe.languages)
    lengths = batch.lengths[rows]
    arrays = {
        "ids": inputs[rows],
        "positions": batch.positions[rows],
        "masked": masked,
        "labels": labels,
    }
    if (lengths < length).any():
        arrays["lengths"] = lengths
    if batch.segments is not None:
        arrays["segments"] = batch.segments[rows]
    if batch.following is not None:
        arrays["following"] = np.full(1, _IGNORED) if empty else batch.following[rows]
    elif len(masked):
        arrays["places"] = _places(masked, len(rows), length)
    if recipe.encoder.language_embeddings:
        arrays["languages"] = batch.languages[rows]
    tensors: dict[str, Any] = {
        name: torch.from_numpy(np.ascontiguousarray(array, np.int64))
        for name, array in arrays.items()
    }
    return {"lengths": None, **tensors, "groups": groups}


def filled_up(inputs: Mapping[str, Any], apart: bool) -> dict[str, Any] | None:
    """One part of a batch with its masked tokens filled up to a multiple of 64 by such that count for
    nothing: their number differs by a few from batch to batch. None where rows are padded, whose
    lengths differ.

    Parameters
    ----------
    apart: languages own parts of the model, so each one's tokens are filled up by themselves;
        otherwise all are as one language's.
    """
    if inputs["lengths"] is not None:
        return None
    rows, length = inputs["ids"].shape
    groups = inputs["groups"]
    if not apart:
        groups = (Group("", rows, len(inputs["masked"])),)
    masked, labels, filled, first, row = [], [], [], 0, 0
    for group in groups:
        here, room = slice(first, first + group.masked), -group.masked % _GRAIN
        masked += [inputs["masked"][here], torch.full((room,), row * length)]
        labels += [inputs["labels"][here], torch.full((room,), _IGNORED)]
        filled.append(group._replace(masked=group.masked + room))
        first, row = first + group.masked, row + group.rows
    others = {name: value for name, value in inputs.items() if name != "places"}
    return {
        **others,
        "masked": torch.cat(masked),
        "labels": torch.cat(labels),
        "groups": tuple(filled) if apart else None,
    }


def _places(masked: np.ndarray, rows: int, length: int) -> np.ndarray:
    """(rows, q) columns of the masked tokens of each row, filled up with -1; q is the most that a
    row has."""
    at, column = masked // length, masked % length
    counts = np.bincount(at, minlength=rows)
    places = np.full((rows, counts.max()), -1)
    places[at, np.arange(len(masked)) - (np.cumsum(counts) - counts)[at]] = column
    return places


def _groups(
    numbers: np.ndarray, masked_rows: np.ndarray, languages: Sequence[str]
) -> tuple[Group, ...]:
    """Consecutive rows of one language, from the rows' language numbers (sorted) and the rows of
    the masked tokens."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = np.append(starts[1:], len(numbers))
    return tuple(
        Group(
            languages[int(numbers[a])],
            int(b - a),
            int(((masked_rows >= a) & (masked_rows < b)).sum()),
        )
        for a, b in zip(starts, ends, strict=True)
    )
