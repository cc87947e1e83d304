"""Training: one loop from token files to a model folder.

The folder of a run:

    config.json     the recipe
    tokenizer/      the vocabulary that was learnt
    tokens/         token files
    log.jsonl       a line per log interval and per validation
    checkpoints/    the last whole checkpoint
    model/          the finished encoder, for transformers and for `crosslens study`
"""

import dataclasses
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from crosslens.corpus import Corpus, read_text
from crosslens.errors import OutputError, TrainingError, refuse
from crosslens.files import check_folder, claim_folder, lock_folder, make_folder, write_json, write_whole
from crosslens.models.batches import Batch, Stream, collate, plan_epoch, schedule
from crosslens.models.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from crosslens.models.data import TrainingData, build_streams, check_sizes, read_source, split_rows
from crosslens.models.encoder import MaskedLM
from crosslens.models.interop import export_model
from crosslens.models.masking import mask_tokens
from crosslens.models.optimisers import build_optimiser, learning_rate
from crosslens.models.settings import TrainRecipe
from crosslens.models.tokenisation import SPECIAL_TOKENS, load_tokenizer, save_tokenizer, train_tokenizer
from crosslens.progress import Progress, say

__all__ = ["BatchSource", "train"]

_PAD, _, _CLS, _SEP, _MASK = range(len(SPECIAL_TOKENS))
_WHEN_ONLY = {"log_every", "validate_every", "save_every"}  # settings that no weight depends on


class BatchSource:
    """Batches by step: masked, as tensors, the same for the same (recipe, step) always."""

    def __init__(self, recipe: TrainRecipe, data: TrainingData, vocab_size: int) -> None:
        self.recipe, self.data = recipe, data
        self.is_special = np.arange(vocab_size) < len(SPECIAL_TOKENS)
        self.which, self.turn = schedule(data.probabilities, recipe.steps, recipe.seed)
        self._plans: dict[int, tuple[int, int, list[np.ndarray]]] = {}  # stream -> epoch, first turn of it, its batches

    def __getitem__(self, step: int) -> tuple[Batch, dict[str, Tensor]]:
        which, turn = int(self.which[step]), int(self.turn[step])
        stream = self.data.streams[which]
        batch = collate(stream, self._items(which, stream, turn), _CLS, _SEP, _PAD)
        return batch, _tensors(batch, self.is_special, self.recipe, np.random.default_rng([self.recipe.seed, 1, step]))

    def _items(self, which: int, stream: Stream, turn: int) -> np.ndarray:
        epoch, first, plan = self._plans.get(which, (-1, 0, []))
        while turn >= first + len(plan):  # after a resume this walks through the epochs that are over
            first, epoch = first + len(plan), epoch + 1
            plan = plan_epoch(stream.lengths, self.recipe.batch_tokens, [self.recipe.seed, 2, which, epoch])
        self._plans[which] = (epoch, first, plan)
        return plan[turn - first]


def _tensors(batch: Batch, is_special: np.ndarray, recipe: TrainRecipe, rng: np.random.Generator) -> dict[str, Tensor]:
    inputs, masked, labels = mask_tokens(batch.ids, is_special, _MASK, recipe.masking, rng)
    arrays = {"ids": inputs, "positions": batch.positions, "lengths": batch.lengths, "masked": masked, "labels": labels}
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def train(recipe: TrainRecipe, folder: str | Path, *, resume: bool = False) -> Path:
    """Run a recipe; returns the folder of the finished model.

    Parameters
    ----------
    folder: the run's folder. A run that was stopped goes on with ``resume``, to the same weights as if it had never stopped.

    Raises
    ------
    InputError: a text is missing, unfit or too short.
    OutputError: the folder holds a run (without ``resume``), or a run of another recipe.
    TrainingError: the loss is not a number any more; the last checkpoint is kept.
    """
    folder = Path(folder)
    corpora = {source.name: read_source(source) for source in recipe.sources}
    settings = _settings(recipe, corpora)
    if check_folder(folder, "train", settings) and not resume:
        refuse(str(folder), "a new folder", "a run of this recipe", "add --resume to go on with it", OutputError)
    check_sizes(recipe, corpora)
    make_folder(folder, str(folder))
    with lock_folder(folder):
        claim_folder(folder, "train", settings)
        return _train(recipe, corpora, folder, settings)


def _train(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]], folder: Path, settings: dict[str, Any]) -> Path:
    if (folder / "model" / "config.json").exists():
        say(f"{folder / 'model'} is finished already")
        return folder / "model"
    tokenizer = _tokenizer(recipe, corpora, folder)
    data = build_streams(recipe, corpora, tokenizer, folder / "tokens")
    write_json(folder / "data.json", describe_data(data))
    shape = dataclasses.replace(recipe.encoder, vocab_size=tokenizer.get_vocab_size())
    model = MaskedLM(shape, recipe.seed)
    optimiser = build_optimiser(model, recipe.optimisation)
    done, memory = 0, {"tokens": 0}
    checkpoint = latest_checkpoint(folder / "checkpoints")
    if checkpoint is not None:
        done, memory = load_checkpoint(checkpoint, model, optimiser, settings)
    _cut_log(folder / "log.jsonl", done)
    batches = BatchSource(recipe, data, shape.vocab_size)
    _loop(recipe, model, optimiser, batches, folder, settings, done, memory)
    export_model(model, tokenizer, folder / "model", half=recipe.half)
    return folder / "model"


def _loop(
    recipe: TrainRecipe,
    model: MaskedLM,
    optimiser: torch.optim.AdamW,
    batches: BatchSource,
    folder: Path,
    settings: dict[str, Any],
    done: int,
    memory: dict[str, Any],
) -> None:
    loss_sum, count, tokens, started = 0.0, 0, 0, time.monotonic()
    model.train()
    with Progress(recipe.steps, f"training {recipe.name}", "steps", done) as progress:
        for step in range(done, recipe.steps):
            torch.manual_seed(recipe.seed * 1_000_003 + step)  # dropout, too, is a function of the step
            batch, tensors = batches[step]
            predicted = len(tensors["labels"])
            loss = model(**tensors) / predicted
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.optimisation.clip).item()
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(step, recipe.optimisation, recipe.steps)
            value = loss.item()
            _need_number(f"loss at step {step}", value)
            _need_number(f"gradient norm at step {step}", norm)  # such a step would spoil the weights, and the next checkpoint
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            loss_sum, count, tokens = loss_sum + value * predicted, count + predicted, tokens + int(batch.lengths.sum())
            memory["tokens"] += int(batch.lengths.sum())
            progress.add(1, f"loss {value:.2f}")
            now = step + 1
            if now % recipe.log_every == 0 or now == recipe.steps:
                rate = tokens / (time.monotonic() - started)
                line = {"step": now, "tokens": memory["tokens"], "loss": loss_sum / count, "tokens_per_second": round(rate)}
                _append_log(folder / "log.jsonl", line)
                loss_sum, count, tokens, started = 0.0, 0, 0, time.monotonic()
            if now % recipe.validate_every == 0 or now == recipe.steps:
                _append_log(folder / "log.jsonl", {"step": now, "tokens": memory["tokens"], **validate(recipe, model, batches)})
                started = time.monotonic()
            if now % recipe.save_every == 0 or now == recipe.steps:
                save_checkpoint(folder / "checkpoints", now, model, optimiser, settings, memory)


@torch.no_grad()
def validate(recipe: TrainRecipe, model: MaskedLM, batches: BatchSource) -> dict[str, Any]:
    """Masked loss per language, and nearest-neighbour retrieval of held-out pairs per layer (mean of ordinary tokens, cosine)."""
    model.eval()
    sums: dict[str, list[float]] = {}
    retrieval = {}
    for name, stream in batches.data.held_out.items():
        if len(stream.sides) == 1:
            rng = np.random.default_rng([recipe.seed, 3])
            total = sums.setdefault(name.split()[-1], [0.0, 0.0])
            for items in plan_epoch(stream.lengths, recipe.batch_tokens, [recipe.seed, 3]):
                tensors = _tensors(collate(stream, items, _CLS, _SEP, _PAD), batches.is_special, recipe, rng)
                total[0] += model(**tensors).item()
                total[1] += len(tensors["labels"])
        else:
            a, b = (_sentence_vectors(model, Stream(name, (side,), stream.rows)) for side in stream.sides)
            hits = ((x @ y.T).argmax(1) == torch.arange(len(x)) for x, y in zip(a, b, strict=True))
            retrieval[name] = [round(hit.float().mean().item(), 4) for hit in hits]
    model.train()
    means = {language: loss / count for language, (loss, count) in sums.items()}
    for language, mean in means.items():
        _need_number(f"validation loss of {language}", math.inf if mean > 700 else mean)  # e ** 710 is beyond a float
    perplexity = {language: math.exp(mean) for language, mean in means.items()}
    return {"perplexity": perplexity, "retrieval": retrieval}


def _need_number(what: str, value: float) -> None:
    if not math.isfinite(value):
        refuse(what, "a number", str(value), "lower optimisation.peak_rate; the last checkpoint is kept", TrainingError)


def _sentence_vectors(model: MaskedLM, stream: Stream) -> list[Tensor]:
    """Unit-length mean vectors of every sentence, per layer."""
    parts = []
    for start in range(0, len(stream.rows), 300):
        batch = collate(stream, np.arange(start, min(start + 300, len(stream.rows))), _CLS, _SEP, _PAD)
        ids, positions, lengths = (torch.from_numpy(a) for a in (batch.ids, batch.positions, batch.lengths))
        place = torch.arange(ids.shape[1])
        ordinary = ((place > 0) & (place < lengths[:, None] - 1)).float()[:, :, None]
        states = model.encoder(ids, positions, lengths)
        parts.append([F.normalize((h * ordinary).sum(1) / ordinary.sum(1), dim=-1) for h in states])
    return [torch.cat(layer) for layer in zip(*parts, strict=True)]


def describe_data(data: TrainingData) -> dict[str, Any]:
    """What is trained on, in numbers."""
    streams = {
        stream.name: {"items": len(stream.rows), "tokens": int(stream.lengths.sum()), "drawn": round(float(p), 4)}
        for stream, p in zip(data.streams, data.probabilities, strict=True)
    }
    return {"streams": streams, "held_out": {name: len(s.rows) for name, s in data.held_out.items()}, "left_out": data.left_out}


def _settings(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]]) -> dict[str, Any]:
    """What the weights depend on: the recipe, with the texts' contents in the place of their paths."""
    settings = {name: value for name, value in dataclasses.asdict(recipe).items() if name not in _WHEN_ONLY}
    for source in settings["sources"]:
        source["texts"] = {language: corpus.fingerprint[:16] for language, corpus in corpora[source["name"]].items()}
    settings["exclude"] = [read_text(path, "und").fingerprint[:16] for path in recipe.exclude]
    return json.loads(json.dumps(settings))


def _tokenizer(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]], folder: Path) -> Tokenizer:
    """The run's vocabulary: learnt once, from all sources' sentences per language."""
    where = folder / "tokenizer"
    if not (where / "tokenizer_config.json").exists():
        texts: dict[str, list[str]] = {}
        for name, rows in split_rows(recipe, corpora).items():  # neither held-out nor excluded sentences shape the vocabulary
            for language, corpus in corpora[name].items():
                texts.setdefault(language, []).extend(corpus.sentences[i] for i in np.flatnonzero(rows.train).tolist())
        say(f"learning {recipe.vocabulary.size} {recipe.vocabulary.kind} pieces")
        tokenizer = train_tokenizer({k: list(dict.fromkeys(v)) for k, v in texts.items()}, recipe.vocabulary, recipe.seed)
        where.mkdir(parents=True, exist_ok=True)
        save_tokenizer(tokenizer, where, recipe.encoder.max_positions)
    return load_tokenizer(where)


def _append_log(path: Path, line: dict[str, Any]) -> None:
    with open(path, "a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")
        log.flush()
        os.fsync(log.fileno())


def _cut_log(path: Path, step: int) -> None:
    """Drop lines after ``step``: the resumed run writes them again."""
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        write_whole(path, "".join(line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step))
