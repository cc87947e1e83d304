"""What extraction, probing and scoring need of an encoder, whoever has made it.

:class:`crosslens.models.saved.pretrained.PretrainedEncoder` is what transformers loads,
:class:`crosslens.models.saved.native_encoder.NativeEncoder` a model of ours with modules of its own
for each language.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

__all__ = ["Encoder"]


@runtime_checkable
class Encoder(Protocol):
    """Text to hidden states. Token ids are those of its own tokeniser.

    Attributes
    ----------
    name: short name, for reports.
    tokenizer: a fast tokeniser as transformers has them: ids, character spans, special tokens.
    layers: number of hidden states, the embedding layer's output included.
    d: their width.
    max_length: longest input in tokens, special tokens included.
    pad_id: token id to fill a batch up with on the right.
    device: where it computes.
    precision: of the matrix products, "float32" or "bfloat16".
    fingerprint: 16 hexadecimal digits over everything that was loaded (and the seed of a random
        copy).
    revision: the hub's commit; "" where there is none.
    causal: whether a token changes no state before it.
    padding_free: whether only inputs of equal length may share a batch.
    languages: those that it can be told; None where it takes none.
    """

    name: str
    layers: int
    d: int
    max_length: int
    pad_id: int
    device: torch.device
    precision: str
    fingerprint: str
    revision: str
    causal: bool
    padding_free: bool
    languages: Any
    tokenizer: Any

    def states(
        self,
        ids: Tensor,
        mask: Tensor | None,
        outputs: Sequence[str] = ("hidden",),
        *,
        segments: Tensor | None = None,
    ) -> dict[str, list[Tensor]]:
        """By name of the output one float32 tensor a layer, each (batch, length, d), of (batch,
        length) token ids."""

    def output_names(self, outputs: Sequence[str] = ("hidden",)) -> list[str]:
        """Names of the arrays that :meth:`states` gives, in order."""

    def token_embeddings(self) -> Tensor:
        """(subwords, width) the row of each of the tokeniser's ids in the embedding matrix."""

    def check_ids(self, ids: np.ndarray) -> None:
        """Refuse token ids that the model has no embedding for."""

    def for_text(self, language: str, second: str | None = None) -> "Encoder":
        """The encoder as it reads a text in some language, and the second texts of pairs."""

    def in_language(self, language: str) -> "Encoder":
        """The encoder as it reads every text as one of this language."""

    def language_settings(self) -> dict[str, str]:
        """What its states depend on beside text and fingerprint."""

    def twin(self) -> "Encoder":
        """The same encoder on the same weights, for another thread."""
