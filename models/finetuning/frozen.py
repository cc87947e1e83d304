"""A frozen encoder: its states are computed once and kept, and what reads them is trained.

rows --encoder, without dropout--> FOLDER/<content>.npy (tokens, layers, d) --> rows with their states
"""

import copy
import dataclasses
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crosslens.errors import refuse
from crosslens.files import need_space
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.finetuning.batches import by_length, padded
from crosslens.models.finetuning.derived import rows_of
from crosslens.models.finetuning.kind import Kind, Row
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.machine.distributed import own_rank
from crosslens.models.network.scalar_mix import ScalarMixLSTM
from crosslens.models.network.transformer_layers import TransformerLayers
from crosslens.progress import Progress

__all__ = ["FeatureModel", "FrozenStates"]


class FrozenStates:
    """The states of all layers of an encoder that is not trained, each input encoded once.

    Parameters
    ----------
    encoder: it is used as it is loaded, without dropout (as Wu & Dredze's program does not: there
        dropout is active in frozen layers).
    folder: keeps the states, in float16, under names that follow from encoder, languages and
        tokens: whoever gives the same folder shares them. It is for its user to remove.
    precision: of the encoder's matrix products, "float32" or "bfloat16".
    layer: the one that is read, from 0, the embeddings; None: all of them.
    change: what becomes of the (tokens, d) states of that layer before they are read: a map into
        another encoder's, say.
    """

    def __init__(
        self,
        encoder: Encoder,
        folder: Path,
        precision: str = "float32",
        layer: int | None = None,
        change: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.encoder: Any = copy.copy(encoder)
        self.encoder.precision = precision
        self.folder, self.layer, self.change = folder, layer, change

    def rows(self, kind: Kind[Any], examples: Any) -> list[Row]:
        """The inputs of some examples, each with its (length, layers, d) states.

        Raises
        ------
        InputError: states that are no numbers in float16.
        OutputError: the disk is too full.
        """
        rows = rows_of(kind, self.encoder, examples)
        if not rows:
            return rows
        path = self.folder / f"{self._content(rows)}.npy"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._encode(kind, rows, path)
        states = np.load(path, mmap_mode="r")
        if self.layer is not None:
            states = states[:, self.layer : self.layer + 1]
        ends = np.cumsum([len(row.ids) for row in rows])
        cut = np.split(states, ends[:-1])
        return [dataclasses.replace(row, states=s) for row, s in zip(rows, cut, strict=True)]

    def changed(self, states: Tensor, mask: Tensor) -> Tensor:
        """(batch, length, layers, d) states as they are read, in float32."""
        states = states.float()
        if self.change is not None:
            there = mask.bool()
            mine = self.change(states[there].squeeze(1).cpu().numpy())
            states[there] = torch.from_numpy(mine).to(states).unsqueeze(1)
        return states

    def _content(self, rows: Sequence[Row]) -> str:
        encoder = self.encoder
        digest = hashlib.sha256(f"{encoder.fingerprint} {encoder.precision}".encode())
        for row in rows:
            digest.update(f"{row.languages} {len(row.ids)}".encode())
            digest.update(
                row.ids.astype(np.int64).tobytes() + row.segments.astype(np.int8).tobytes()
            )
        return digest.hexdigest()[:16]

    @torch.no_grad()
    def _encode(self, kind: Kind[Any], rows: Sequence[Row], path: Path) -> None:
        encoder, begins = self.encoder, np.cumsum([0, *(len(row.ids) for row in rows)])
        shape = (int(begins[-1]), encoder.layers, encoder.d)
        # torchrun's processes each make one
        mine = own_rank()
        aside, told = path.with_suffix(f".{mine}.partial"), path.with_suffix(f".{mine}.encoded")
        made, encoded = self._begun(aside, told, shape, len(rows))
        with Progress(len(rows), f"encoding by {encoder.name}, frozen", "inputs") as progress:
            for part in by_length(rows, np.arange(len(rows)), encoder.device.type):
                if encoded[part].all():  # by a run that was stopped
                    progress.add(len(part))
                    continue
                given = padded(kind, [rows[n] for n in part], encoder.pad_id)
                reader = encoder.for_text(given["language"], given["second"])
                ids, mask, segments = (
                    given[n].to(encoder.device) for n in ("ids", "mask", "segments")
                )
                hidden = reader.states(ids, mask, ("hidden",), segments=segments)["hidden"]
                states = torch.stack(hidden, 2).half().cpu().numpy()
                for number, of_row in zip(part, states, strict=True):
                    of_row = of_row[: len(rows[number].ids)]
                    if not np.isfinite(of_row).all():
                        aside.unlink()
                        told.unlink()
                        expected, got = "states within float16", "larger ones, or none"
                        refuse(f"encoder {encoder.name}", expected, got, "choose another encoder")
                    made[begins[number] : begins[number + 1]] = of_row
                encoded[part] = True
                progress.add(len(part))
        made.flush()
        os.replace(aside, path)
        told.unlink()

    def _begun(
        self, aside: Path, told: Path, shape: tuple[int, int, int], rows: int
    ) -> tuple[np.memmap, np.memmap]:
        """The states on disk as far as a run that was stopped has them, and which rows' these are."""
        if aside.exists() and told.exists():
            return np.lib.format.open_memmap(aside, "r+"), np.lib.format.open_memmap(told, "r+")
        told.unlink(missing_ok=True)
        need_space(self.folder, 2 * int(np.prod(shape)), "states of a frozen encoder")
        made = np.lib.format.open_memmap(aside, "w+", np.float16, shape)
        whole = told.with_suffix(".begun")
        np.lib.format.open_memmap(whole, "w+", np.bool_, (rows,)).flush()
        os.replace(whole, told)
        return made, np.lib.format.open_memmap(told, "r+")


class FeatureModel(nn.Module):
    """What is trained on the states of a frozen encoder: a body, and a head on the body's states.

    Parameters
    ----------
    source: the encoder's states. kind, settings: as for
        :class:`crosslens.models.finetuning.model.FineTunedModel`.
    """

    reads = ("states", "mask")

    def __init__(self, source: FrozenStates, kind: Kind[Any], settings: FineTuning) -> None:
        super().__init__()
        self.source, self.kind, encoder = source, kind, source.encoder
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            body = (
                TransformerLayers(encoder.d)
                if settings.features == "transformer"
                else ScalarMixLSTM(encoder.layers, encoder.d)
            )
            self.body = body.to(encoder.device)
            self.head = kind.head(self.body.d).to(encoder.device)

    @property
    def encoder(self) -> Any:
        """The frozen encoder."""
        return self.source.encoder

    def reading(self, source: FrozenStates) -> "FeatureModel":
        """The same body and head, on the states of another source."""
        other = copy.copy(self)
        other.source = source
        return other

    def rows(self, examples: Any) -> list[Row]:
        """The inputs of some examples, with their states."""
        return self.source.rows(self.kind, examples)

    def states(self, states: Tensor, mask: Tensor) -> Tensor:
        """(batch, length, d) states of the body, of the encoder's (batch, length, layers, d)."""
        made: Tensor = self.body(self.source.changed(states, mask), mask)
        return made

    def forward(
        self, states: Tensor, mask: Tensor, weight: float = 1.0, **targets: Tensor
    ) -> Tensor:
        """The sum of the losses of what is counted, times ``weight``."""
        return weight * self.kind.loss(self.head, self.states(states, mask), mask, targets)

    def trained(self) -> dict[str, Tensor]:
        """The parameters, by name."""
        return {name: p.detach() for name, p in self.named_parameters()}
