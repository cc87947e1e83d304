"""An encoder with a head, as one module."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crosslens.errors import refuse
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.finetuning.derived import rows_of
from crosslens.models.finetuning.kind import Kind, Row
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.machine.threads import same_weights
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.network.first_position import has_first_position, only_first_position
from crosslens.models.network.quick_dropout import use_quick_dropout
from crosslens.models.network.surgery import freeze, freeze_layers, set_noise
from crosslens.models.network.trained_rows import TrainedRows, train_rows

__all__ = ["FineTunedModel"]


class FineTunedModel(nn.Module):
    """A copy of an encoder, and a head on its last states.

    Parameters
    ----------
    encoder: is copied; it stays as it is.
    kind: makes the head, from the seed of the settings, and its loss.
    settings: which layers are frozen, the seed, and the precision.

    Of an encoder with modules of each language those that languages own are frozen, so that another
    language's can be plugged in where it is tested (Conneau et al. 2020, § 4.1).

    Raises
    ------
    InputError: the encoder has no layers that could be frozen, or not so many; or no embeddings that
        noise could be added to.
    """

    reads = ("ids", "mask", "segments", "language", "second")
    leaves_out = True  # a pooler, say: several processes must look for gradients that are not there

    def __init__(self, encoder: Encoder, kind: Kind[Any], settings: FineTuning) -> None:
        super().__init__()
        source: Any = encoder
        mine: Any = copy.copy(source)
        mine.precision = settings.precision
        self.module = copy.deepcopy(source.model)  # the encoder's weights, trained in place
        if encoder.device.type == "cpu":
            use_quick_dropout(self.module)
        mine.model = self.module
        self._encoder = [mine]  # in a list: it is no module
        self.kind = kind
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.head = kind.head(encoder.d).to(encoder.device)
        self.module.requires_grad_(True)
        set_noise(self.module, settings.noise)
        at_first = getattr(self.head, "pool", None) in ("first", "pooled")
        self._at_first = at_first and has_first_position(self.module)
        if settings.freeze >= 0:
            freeze_layers(self.module, settings.freeze)
        if isinstance(self.module, MaskedLM):
            if self.module.plan.separate:
                freeze(self.module)
            _freeze_unused(self.module)
        if settings.freeze > encoder.layers - 1:
            got = str(settings.freeze)
            refuse("freeze", f"from -1 to {encoder.layers - 1}", got, "name a layer that is there")

    def train_rows_of(self, rows: Sequence[Row]) -> None:
        """Of the token embeddings train only those that these inputs have
        (:mod:`crosslens.models.network.trained_rows`)."""
        ids = np.unique(np.concatenate([[self.encoder.pad_id], *(row.ids for row in rows)]))
        train_rows(self.module, torch.from_numpy(ids.astype(np.int64)).to(self.encoder.device))

    def whole_module(self) -> Any:
        """The encoder's module as transformers knows it, on the weights as they are now."""
        table = getattr(self.module, "get_input_embeddings", lambda: None)()
        if not isinstance(table, TrainedRows):
            return self.module
        module: Any = same_weights(self.module)
        module.set_input_embeddings(table.whole())
        return module

    @property
    def encoder(self) -> Any:
        """The copy of the encoder, on the weights as they are now."""
        return self._encoder[0]

    def rows(self, examples: Any) -> list[Row]:
        """The inputs of some examples."""
        return rows_of(self.kind, self.encoder, examples)

    def states(
        self, ids: Tensor, mask: Tensor, segments: Tensor, language: str, second: str | None
    ) -> Tensor:
        """(batch, length, d) last states of texts of a language; of length 1 where the head reads
        position 0 alone."""
        told = self.encoder.for_text(language, second)
        if self._at_first:
            with only_first_position(self.module):
                first: Tensor = told.last_state(ids, mask, segments=segments)
            return first
        last: Tensor = told.states(ids, mask, ("hidden",), segments=segments)["hidden"][-1]
        return last

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        segments: Tensor,
        language: str,
        second: str | None = None,
        weight: float = 1.0,
        **targets: Tensor,
    ) -> Tensor:
        """The sum of the losses of what is counted, times ``weight``."""
        states = self.states(ids, mask, segments, language, second)
        return weight * self.kind.loss(self.head, states, mask, targets)

    def trained(self) -> dict[str, Tensor]:
        """The parameters that are trained, by name."""
        return {name: p.detach() for name, p in self.named_parameters() if p.requires_grad}


def _freeze_unused(model: MaskedLM) -> None:
    """What predicts masked tokens takes no part."""
    for name, parameter in model.named_parameters():
        if not name.startswith("encoder."):
            parameter.requires_grad_(False)
