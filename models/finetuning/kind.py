"""What fine-tuning must know of a kind of task; each kind is one file beside this one.

examples --rows--> inputs of the encoder with their targets --batch--> tensors
states   --loss--> a number          states --outputs--> answers of each row --join--> predictions
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from torch import Tensor, nn

from crosslens.models.extraction.encoder import Encoder

__all__ = ["Kind", "Row", "no_longer"]


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One input of the encoder.

    Attributes
    ----------
    ids: (length,) token ids. segments: (length,) 1 for the second text of a pair.
    items: what is answered in it, as numbers among the examples: of a text itself, of its words.
    targets: what the kind needs beside: places of words, labels.
    counted: answers that the loss is the mean over.
    languages: of the text, and of the second text of a pair.
    states: (length, layers, d) states of a frozen encoder, where they are kept.
    """

    ids: np.ndarray
    segments: np.ndarray
    items: np.ndarray
    targets: Mapping[str, Any]
    counted: int
    languages: tuple[str, str | None]
    states: np.ndarray | None = None


E = TypeVar("E", contravariant=True)


@runtime_checkable
class Kind(Protocol[E]):
    """A kind of task.

    Attributes
    ----------
    classes: number of classes.
    """

    classes: int

    def head(self, d: int) -> nn.Module:
        """The head on states of width d, with weights of torch's random state."""

    def rows(self, encoder: Encoder, examples: E) -> list[Row]:
        """The inputs of some examples; with targets where these have labels."""

    def batch(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """The targets of rows that are encoded together, filled up to one shape."""

    def loss(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> Tensor:
        """The sum of the losses of what is counted; (batch, length, d) states."""

    def outputs(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> list[Any]:
        """What is answered in each row."""

    def join(self, examples: E, rows: Sequence[Row], outputs: Sequence[Any]) -> Any:
        """The predictions of the examples, of all their rows' outputs."""


def no_longer(encoder: Encoder, longest: int) -> Encoder:
    """The same encoder for inputs of at most so many subwords."""
    if longest >= encoder.max_length:
        return encoder
    other = copy.copy(encoder)
    other.max_length = longest
    return other
