"""Fine-tuning from examples to predictions.

    FOLDER/log.jsonl       a line per log interval and per epoch
    FOLDER/checkpoints/    the last whole checkpoint, while it is trained
    FOLDER/epochs.json     epoch -> what was measured after it, and a fingerprint of that
    FOLDER/epochs/         weights after the epochs that FineTuned.use may choose, and their
                           checksums

A training that was stopped is resumed from its last checkpoint, to the same bits.
"""

import contextlib
import dataclasses
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from crosslens.errors import StoreError, refuse
from crosslens.files import (
    fingerprint,
    lock_folder,
    read_json,
    same_settings,
    sha256_file,
    write_json,
)
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.finetuning.batches import EpochBatches, by_length, padded
from crosslens.models.finetuning.derived import DerivedExamples, plain_of
from crosslens.models.finetuning.examples import Examples
from crosslens.models.finetuning.frozen import FeatureModel, FrozenStates
from crosslens.models.finetuning.kind import Kind
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.machine.distributed import World, join_world
from crosslens.models.saved.arrays import load_tensors, save_tensors
from crosslens.models.training.checkpoint import latest_checkpoint
from crosslens.models.training.loop import run_loop
from crosslens.models.training.objective import Step, moved
from crosslens.selection import choose

__all__ = ["FineTuned", "Measures", "Predict", "drop_weights", "fine_tune"]

_Model = FineTunedModel | FeatureModel

Predict = Callable[[Any], Any]
"""Examples -> their predictions."""
Measures = Mapping[str, Callable[[Predict], float]]
"""Name -> what is measured after each epoch, with the weights of then; higher is better."""


class _Objective:
    """The mean loss of what is counted, as the loop minimises it."""

    def __init__(
        self, model: _Model, batches: EpochBatches, tuned: "FineTuned", world: World
    ) -> None:
        self.model, self.batches, self.tuned, self.world = model, batches, tuned, world
        self._step = 0

    @property
    def rate_factors(self) -> Mapping[str, float]:
        """See :class:`crosslens.models.training.objective.Objective`."""
        return {"head.": self.tuned.settings.head_factor}

    def batch(self, step: int) -> Step:
        """The batch of an update."""
        self._step, self.tuned.held = step + 1, None
        return self.batches[step]

    def loss(self, runner: nn.Module, inputs: Mapping[str, Any], batch: Step) -> Tensor:
        """A part's share of the mean loss."""
        loss: Tensor = runner(**inputs) / batch.predicted
        return loss

    def flops(self, batch: Step) -> float:
        """Six for each parameter beside embeddings and token, attention left out."""
        inside = sum(p.numel() for n, p in self.model.named_parameters() if "embedding" not in n)
        return 6.0 * inside * batch.tokens

    def validate(self, device: torch.device) -> dict[str, Any]:
        """What is measured after an epoch; its weights are kept where they may be chosen."""
        epoch = self._step // self.batches.per_epoch
        found = {name: measure(self.tuned.predict) for name, measure in self.tuned.measures.items()}
        if self.world.first:
            self.tuned.keep(epoch, found)
        self.tuned.held = epoch
        self.model.train()
        return {"epoch": epoch, **found}

    def measure(self, found: Mapping[str, Any]) -> float:
        """What the rate of "plateau" follows; epochs are chosen when all are there."""
        return -float(found[next(iter(self.tuned.measures))])


class FineTuned:
    """A fine-tuned encoder with its head.

    Attributes
    ----------
    model: with the weights that were last asked for (:meth:`use`).
    kind, settings, folder, measures: as given to :func:`fine_tune`.
    held: the epoch after which the model's weights are those that it has; None where that is not
        known, as before any training.
    per_epoch: updates in an epoch; 0 of one that is loaded.
    """

    held: int | None = None
    per_epoch: int = 0
    depends: Mapping[str, Any] | None = None  # what the weights depend on

    def __init__(
        self,
        model: _Model,
        kind: Kind[Any],
        settings: FineTuning,
        folder: Path,
        measures: Measures,
    ) -> None:
        self.model, self.kind, self.settings = model, kind, settings
        self.folder, self.measures = folder, measures

    @property
    def epochs(self) -> dict[int, dict[str, float]]:
        """Epoch, counted from 1 -> what was measured after it."""
        told = self._told()
        if told is None:
            return {}
        return {
            int(epoch): {name: math.nan if v is None else v for name, v in found.items()}
            for epoch, found in told["epochs"].items()
        }

    def _told(self) -> "_Told | None":
        path = self.folder / "epochs.json"
        if not path.exists():
            return None
        told: _Told = read_json(path, _Told)
        if told["fingerprint"] != fingerprint(told["epochs"]):
            remedy = f"delete {self.folder}, and run this again: it is trained anew"
            refuse(str(path), "the numbers that were written", "others", remedy, StoreError)
        return told

    def check_training(self) -> None:
        """Refuse a folder that holds another training, with what differs."""
        told = self._told()
        if told is not None and (training := told.get("training")) is not None:
            remedy = "use another folder, or what this training had"
            place = str(self.folder / "epochs.json")
            same_settings(place, training, dict(self.depends or {}), remedy, StoreError)

    def best_epoch(self, name: str) -> int:
        """The epoch after which a measure was highest, the first of equal ones; the last epoch where
        it was never a number."""
        return _best_of(self.epochs, name)

    def keep(self, epoch: int, found: Mapping[str, float]) -> None:
        """Write the weights after an epoch, and drop those that cannot be chosen any more, nor could
        be by a run that is resumed from the last checkpoint and measures otherwise from there on."""
        path = _weights(self.folder, epoch)
        path.parent.mkdir(exist_ok=True)
        aside = path.with_suffix(".partial")
        save_tensors(_plain(self.model.trained()), aside)
        write_json(path.with_name(_SUMS), {**self._sums(), path.name: sha256_file(aside)})
        os.replace(aside, path)
        told = {**self.epochs, epoch: dict(found)}
        known = {e: v for e, v in told.items() if e <= epoch}  # of a run that was stopped later
        measured = {
            str(e): {name: None if math.isnan(v) else v for name, v in values.items()}
            for e, values in sorted(known.items())
        }
        write_json(
            self.folder / "epochs.json",
            {
                "epochs": measured,
                "fingerprint": fingerprint(measured),
                "training": self.depends,
            },
        )
        last = latest_checkpoint(self.folder / "checkpoints")
        until = 0 if last is None else int(last.name.partition("-")[2]) // self.per_epoch
        wanted = set[int]()
        for now in {epoch, min(until, epoch)} - {0}:
            before = {e: v for e, v in known.items() if e <= now}
            wanted |= {_best_of(before, name) for name in found}
            wanted |= set(range(now - self.settings.average + 1, now + 1))
        for path in (self.folder / "epochs").glob("epoch-*.safetensors"):
            if int(path.stem.partition("-")[2]) not in wanted:
                path.unlink()

    def _sums(self) -> dict[str, str]:
        path = self.folder / "epochs" / _SUMS
        found: dict[str, str] = read_json(path, dict[str, str]) if path.exists() else {}
        return found

    def check(self, path: Path) -> Path:
        """Refuse a file of an epoch's weights that is not the one that was written (StoreError)."""
        if not path.is_file() or self._sums().get(path.name) != sha256_file(path):
            remedy = f"delete {self.folder}, and run this again: it is trained anew"
            refuse(str(path), "the weights that were written", "others", remedy, StoreError)
        return path

    def numbers(self, epoch: int | str) -> tuple[int, ...]:
        """The epochs, counted from 1, whose weights :meth:`use` takes for ``epoch``."""
        last = max(self.epochs)
        if epoch == "average":
            return tuple(range(max(1, last - self.settings.average + 1), last + 1))
        if epoch == "last":
            return (last,)
        return (self.best_epoch(epoch) if isinstance(epoch, str) else epoch,)

    def use(self, epoch: int | str) -> "FineTuned":
        """Take the weights after an epoch; returns itself.

        Parameters
        ----------
        epoch: its number from 1; the name of a measure, for the epoch that it is best after; "last";
            or "average", the mean of the last ``settings.average`` epochs' weights.
        """
        numbers = self.numbers(epoch)
        if numbers == (self.held,):
            return self
        with torch.no_grad():
            mine = self.model.trained()
            together = [load_tensors(self.check(_weights(self.folder, n))) for n in numbers]
            for name, tensor in mine.items():
                tensor.copy_(torch.stack([one[name] for one in together]).mean(0))
        self.held = numbers[0] if len(numbers) == 1 else None
        return self

    @torch.no_grad()
    def predict(self, examples: Any, source: FrozenStates | None = None) -> Any:
        """The predictions of the kind for some examples, of any language that the encoder reads.

        ``source``: where a frozen encoder's states are read, those of another in their place.
        """
        model = self.model.eval()
        if source is not None:
            assert isinstance(model, FeatureModel), "this encoder is not frozen"
            model = model.reading(source)
        encoder = model.encoder
        rows = model.rows(examples)
        outputs: list[Any] = [None] * len(rows)
        for part in by_length(rows, np.arange(len(rows)), encoder.device.type):
            inputs = moved(
                padded(self.kind, [rows[n] for n in part], encoder.pad_id), encoder.device
            )
            given = {name: inputs.pop(name) for name in model.reads}
            states = model.states(**given)
            found = self.kind.outputs(model.head, states, given["mask"], inputs)
            for number, output in zip(part, found, strict=True):
                outputs[number] = output
        return self.kind.join(plain_of(examples), rows, outputs)


def _best_of(epochs: Mapping[int, Mapping[str, float]], name: str) -> int:
    found = choose(epochs, lambda epoch: epochs[epoch][name], layer=int)
    return max(epochs) if found is None else found.item


def drop_weights(folder: str | Path) -> None:
    """Remove the weights and checkpoints of a fine-tuning, once nothing needs them; what was measured
    stays. Weights are there all or not at all: one that is stopped within is no damaged one."""
    checkpoints, epochs, gone = (Path(folder) / one for one in ("checkpoints", "epochs", "gone"))
    for one in (gone, checkpoints):
        shutil.rmtree(one, ignore_errors=True)
    if epochs.exists():
        os.replace(epochs, gone)
        shutil.rmtree(gone, ignore_errors=True)


_SUMS = "checksums.json"
_CAME_LATER = (("noise", 0), ("group_by_length", False))  # trainings that do not say it had this


class _Told(TypedDict):
    """What epochs.json holds."""

    epochs: dict[str, dict[str, float | None]]
    fingerprint: str
    training: NotRequired[dict[str, Any] | None]  # one that began earlier does not say it


def fine_tune(
    encoder: Encoder,
    kind: Kind[Any],
    train: Sequence[Examples | DerivedExamples],
    settings: FineTuning,
    folder: str | Path,
    measures: Measures,
    source: FrozenStates | None = None,
) -> FineTuned:
    """Train a copy of an encoder and a new head on labelled examples; returns it with the weights
    of the epoch that the first measure was best after.

    A training that was stopped is resumed, to the same bits. Under ``torchrun`` the processes share
    each batch.

    Parameters
    ----------
    encoder: the one to start from; it stays as it is.
    kind: of the task, with its number of classes.
    train: examples of one or more languages.
    folder: gets the log, the checkpoints and the epochs' weights.
    measures: name -> what is measured after each epoch, on development data; the first one chooses.
    source: with ``settings.features``, the states of the frozen encoder; fine-tunings share those of
        one folder. None: in ``folder``. They stay there.

    Raises
    ------
    InputError: nothing to train on, or settings do not fit the encoder.
    StoreError: a checkpoint or an epoch's weights are damaged, or belong to another training.
    TrainingError: the loss is not a number any more.

    >>> from tempfile import mkdtemp
    >>> import crosslens as cl
    >>> from crosslens.corpus import Corpus
    >>> from crosslens.models.finetuning.classify import Classify
    >>> from crosslens.models.finetuning.examples import TextExamples
    >>> from crosslens.recipes.quickstart import DATA
    >>> texts = ["A dog sleeps.", "The dog eats.", "Rain falls.", "It rains again."] * 4
    >>> train = TextExamples(Corpus("eng", texts, [str(i) for i in range(16)], "toy"), np.array([0, 0, 1, 1] * 4))
    >>> def accuracy(predict): return float((predict(train).argmax(1) == train.labels).mean())
    >>> tuned = fine_tune(cl.load_encoder(DATA / "tiny-encoder"), Classify(2), [train],
    ...                   FineTuning(epochs=4, batch_size=8, peak_rate=1e-3), mkdtemp(), {"dev": accuracy})
    >>> tuned.predict(train).argmax(1).tolist()[:4]
    [0, 0, 1, 1]
    """
    folder = Path(folder)
    if not measures:
        refuse("measures", "at least one", "none", "give what the best epoch is chosen by")
    folder.mkdir(parents=True, exist_ok=True)
    with join_world(str(encoder.device)) as world, contextlib.ExitStack() as held:
        if world.first:
            held.enter_context(lock_folder(folder))
        model: _Model
        if settings.features is None:
            model = FineTunedModel(encoder, kind, settings)
        else:
            source = source or FrozenStates(encoder, folder / "states", settings.precision)
            model = FeatureModel(source, kind, settings)
        rows = [row for examples in train for row in model.rows(examples)]
        if isinstance(model, FineTunedModel):
            model.train_rows_of(rows)
        batches = EpochBatches(
            kind,
            rows,
            settings.batch_size,
            settings.seed,
            encoder.pad_id,
            world.rank,
            world.size,
            encoder.device.type,
            settings.group_by_length,
        )
        tuned = FineTuned(model, kind, settings, folder, measures)
        tuned.per_epoch = batches.per_epoch
        loop = settings.loop(batches.per_epoch)
        depends = {
            "encoder": encoder.fingerprint,
            "kind": f"{type(kind).__name__} {dataclasses.asdict(kind)}",  # type: ignore[call-overload]
            "layer": None if source is None else source.layer,
            "train": [examples.content for examples in train],
            "settings": {
                name: value
                for name, value in dataclasses.asdict(settings).items()
                if name != "average" and (name, value) not in _CAME_LATER
            },
        }
        tuned.depends = depends
        tuned.check_training()
        for path in (folder / "epochs").glob("epoch-*.safetensors"):
            tuned.check(path)  # before another epoch is trained
        if len(tuned.epochs) < settings.epochs or not (folder / "epochs").exists():
            run_loop(_Objective(model, batches, tuned, world), loop, folder, depends, world)
        with world.together():  # all have read them before one drops them
            return tuned.use(next(iter(measures)))


def _weights(folder: Path, epoch: int) -> Path:
    return folder / "epochs" / f"epoch-{epoch:03d}.safetensors"


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
