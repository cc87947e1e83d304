"""Classes of texts and of pairs of texts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from crosslens.models.extraction.encoder import Encoder
from crosslens.models.extraction.units import Reading, locate
from crosslens.models.finetuning.examples import TextExamples
from crosslens.models.finetuning.kind import Row, no_longer
from crosslens.models.network.heads import ClassificationHead

__all__ = ["Classify"]

_BLOCK = 2_000  # texts that are tokenised at once


@dataclasses.dataclass(frozen=True)
class Classify:
    """A class for each text, or each pair of texts, which is one input.

    Attributes
    ----------
    classes: their number. max_length: longer inputs are cut (of pairs the longer text first).
    dropout, pool: of the head, see :class:`crosslens.models.finetuning.settings.FineTuning`.
    """

    classes: int
    max_length: int = 128
    dropout: float = 0.1
    pool: str = "first"

    def head(self, d: int) -> nn.Module:
        """See :class:`crosslens.models.network.heads.ClassificationHead`."""
        return ClassificationHead(d, self.classes, self.dropout, self.pool)

    def rows(self, encoder: Encoder, examples: TextExamples) -> list[Row]:
        """One row for each text."""
        corpus, second = examples.corpus, examples.second
        reading = Reading(
            unit="sentence" if second is None else "pair",
            pool="first",
            special_tokens=True,
            long_input="truncate",
        )
        short = no_longer(encoder, self.max_length)
        languages = (corpus.language, None if second is None else second.language)
        rows: list[Row] = []
        for start in range(0, len(corpus), _BLOCK):
            block = range(start, min(start + _BLOCK, len(corpus)))
            found = locate(short, corpus, block, reading, second)
            for number, taken in zip(block, found.inputs, strict=True):
                targets = {} if examples.labels is None else {"label": int(examples.labels[number])}
                rows.append(
                    Row(
                        found.ids[taken],
                        found.segments[taken],
                        np.array([number]),
                        targets,
                        1,
                        languages,
                    )
                )
        return rows

    def batch(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """``labels`` (batch,), where they are known."""
        if "label" not in rows[0].targets:
            return {}
        return {"labels": torch.tensor([row.targets["label"] for row in rows])}

    def loss(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> Tensor:
        """Cross-entropy in nats, summed over texts."""
        return F.cross_entropy(head(states, mask).float(), targets["labels"], reduction="sum")

    def outputs(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> list[Any]:
        """Log-probabilities of the classes of each text."""
        return list(head(states, mask).float().log_softmax(-1).cpu().numpy())

    def join(
        self, examples: TextExamples, rows: Sequence[Row], outputs: Sequence[Any]
    ) -> Float[np.ndarray, "n c"]:
        """Log-probabilities, shape (n, classes)."""
        found = np.full((len(examples), self.classes), np.nan, np.float32)
        for row, scores in zip(rows, outputs, strict=True):
            found[row.items[0]] = scores
        return cast(np.ndarray, found)
