"""Training: one loop from token files to a model folder.

The folder of a run:

    config.json     the recipe
    tokenizer/      the vocabularies that were learnt
    tokens/         token files
    data.json       what is trained on, in numbers
    sharing.json    part to its owners' numbers of parameters; "" owns what all languages share
    log.jsonl       a line per log interval and per validation
    checkpoints/    the last whole checkpoint, and the best one
    model/          the finished model: for transformers and `crosslens study` where all is shared, else for load_model
    views/LANGUAGE/ each language's view for transformers, where something is not shared
"""

import contextlib
import dataclasses
import json
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from crosslens.corpus import Corpus, read_text
from crosslens.errors import InputError, OutputError, refuse
from crosslens.files import check_folder, check_shape, claim_folder, lock_folder, make_folder, write_json
from crosslens.models.machine.distributed import World, gathered, join_world, spread, whole
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import parameter_counts
from crosslens.models.saved.interop import check_exportable
from crosslens.models.saved.native import export_run
from crosslens.models.text.vocabularies import Vocabularies, learn_vocabularies, load_vocabularies, save_vocabularies
from crosslens.models.training.checkpoint import latest_checkpoint, load_best, load_checkpoint, save_best, save_checkpoint
from crosslens.models.training.costs import peak_flops, step_flops
from crosslens.models.training.data import TrainingData, build_streams, fit_to_text, held_out_size, read_source, split_rows
from crosslens.models.training.events import Events, need_tensorboard
from crosslens.models.training.loader import Feed, Step
from crosslens.models.training.optimisers import build_optimiser, learning_rate
from crosslens.models.training.settings import TrainRecipe, resolve
from crosslens.models.training.validation import choice_measure, moved, need_number, validate
from crosslens.progress import Progress, say

__all__ = ["build_model", "describe_data", "train"]

_WHEN_ONLY = {"log_every", "validate_every", "save_every", "tensorboard", "recompute"}  # settings that no weight depends on (see _settings)


def train(recipe: TrainRecipe, folder: str | Path, *, resume: bool = False, device: str = "auto", parallel: str = "ddp") -> Path:
    """Run a recipe; returns the folder of the finished model.

    Under ``torchrun`` the processes share the work (:mod:`crosslens.models.machine.distributed`).

    Parameters
    ----------
    folder: the run's folder. A run that was stopped goes on with ``resume``, to the same weights as if it had never stopped.
    device: "auto" (a GPU where there is one), "cpu" or "cuda".
    parallel: how several processes share the model, "ddp" or "fsdp".

    Raises
    ------
    InputError: a text is missing, unfit or too short; or settings do not go together.
    OutputError: the folder holds a run (without ``resume``), or a run of another recipe.
    TrainingError: the loss is not a number any more; the last checkpoint is kept.
    """
    folder = Path(folder)
    check_exportable(resolve(recipe).encoder)
    if recipe.tensorboard:
        need_tensorboard()
    with join_world(device, parallel) as world, contextlib.ExitStack() as held:
        prepared: tuple[Vocabularies, TrainingData] | None = None
        with world.together():
            corpora = {source.name: read_source(source) for source in recipe.sources}
            recipe = fit_to_text(recipe, corpora)
            settings = _settings(recipe, corpora)
        with world.together():
            if world.first:  # it prepares the files that all read
                if check_folder(folder, "train", settings) and not resume:
                    refuse(str(folder), "a new folder", "a run of this recipe", "add --resume to go on with it", OutputError)
                held.enter_context(_given_back(folder, new=not folder.exists()))
                make_folder(folder, str(folder))
                held.enter_context(lock_folder(folder))
                claim_folder(folder, "train", settings)
                prepared = None if (folder / "model" / "config.json").exists() else _prepare(recipe, corpora, folder)
        if (folder / "model" / "config.json").exists():
            say(f"{folder / 'model'} is finished already")
            return folder / "model"
        with world.together():
            vocabularies, data = prepared or _prepare(recipe, corpora, folder)  # the others find it done
        return _train(recipe, vocabularies, data, folder, settings, world)


@contextlib.contextmanager
def _given_back(folder: Path, *, new: bool) -> Iterator[None]:
    """Free a run's folder when its recipe is refused before the first checkpoint: what was made would refuse the corrected recipe.

    Some refusals need the vocabulary: a sentence that is too long for a batch is known by its pieces alone.
    """
    try:
        yield
    except InputError:
        if latest_checkpoint(folder / "checkpoints") is None and not (folder / "model").exists():
            for name in ("config.json", "data.json", "sharing.json", "log.jsonl"):
                (folder / name).unlink(missing_ok=True)
            for name in ("tokenizer", "tokens", "tensorboard"):
                shutil.rmtree(folder / name, ignore_errors=True)
            if new:
                (folder / ".lock").unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # somebody else has put a file there
                    folder.rmdir()
        raise


def _prepare(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]], folder: Path) -> tuple[Vocabularies, TrainingData]:
    """Learn the vocabularies and tokenise, or find both done."""
    vocabularies = _vocabularies(recipe, corpora, folder / "tokenizer")
    data = build_streams(recipe, corpora, vocabularies, folder / "tokens")
    if not (folder / "data.json").exists():
        write_json(folder / "data.json", describe_data(data, vocabularies))
    return vocabularies, data


def build_model(recipe: TrainRecipe, vocabularies: Vocabularies) -> MaskedLM:
    """The untrained model of a recipe."""
    shape = dataclasses.replace(recipe.encoder, vocab_size=max(vocabularies.sizes.values()))
    plan = SharingPlan.parse(recipe.sharing, shape.layers, tied=shape.tied)
    model = MaskedLM(shape, recipe.seed, languages=recipe.languages, plan=plan, sizes=vocabularies.sizes)
    model.encoder.recompute = recipe.recompute
    if recipe.compile:
        for bank in model.encoder.banks:
            for layer in bank.values():
                layer.compile()
    return model


def _train(
    recipe: TrainRecipe, vocabularies: Vocabularies, data: TrainingData, folder: Path, settings: dict[str, Any], world: World
) -> Path:
    with world.together():
        model = build_model(recipe, vocabularies).to(world.device)
        if world.first:
            write_json(folder / "sharing.json", parameter_counts(model))
    runner = spread(model, world, one_language=recipe.batch_languages == "one")
    optimiser = build_optimiser(model, recipe.optimisation)
    done = 0
    memory: dict[str, Any] = {"tokens": 0, "seconds": 0.0, "best": math.inf, "worse": 0, "stopped": False, "loss": 0.0, "predicted": 0}
    checkpoint = latest_checkpoint(folder / "checkpoints")
    if checkpoint is not None:
        done, found = load_checkpoint(checkpoint, model, optimiser, settings)
        check_shape(found, f"{checkpoint / 'state.json'}, extra", _Memory, "delete this checkpoint folder")
        memory |= found
    with world.together():
        feed = Feed(recipe, data, vocabularies, world.rank, world.size)
        events = Events(folder, done, tensorboard=recipe.tensorboard, silent=not world.first)
    run = _Run(recipe, folder, settings, world, model, optimiser, feed, events, memory)
    if not memory["stopped"]:
        _loop(run, runner, done)
    events.close()
    if recipe.select != "last":
        load_best(folder / "checkpoints", model)
    weights = {name: whole(tensor) for name, tensor in model.state_dict().items()}
    with world.together():
        if world.first:
            finished = build_model(dataclasses.replace(recipe, compile=False), vocabularies)
            finished.load_state_dict(weights)
            export_run(finished, vocabularies, folder, half=recipe.half)
    return folder / "model"


class _Memory(TypedDict):
    """What a checkpoint remembers beside the weights."""

    tokens: int
    seconds: float
    best: float
    worse: int
    stopped: bool
    loss: NotRequired[float]  # since the last line of the log; older checkpoints have neither
    predicted: NotRequired[int]


@dataclasses.dataclass
class _Run:
    """What the loop works with."""

    recipe: TrainRecipe
    folder: Path
    settings: dict[str, Any]
    world: World
    model: MaskedLM
    optimiser: torch.optim.Optimizer
    feed: Feed
    events: Events
    memory: dict[str, Any]


def _loop(run: _Run, runner: torch.nn.Module, done: int) -> None:
    recipe, model, optimiser, memory = run.recipe, run.model, run.optimiser, run.memory
    model.train()
    _settle(run, runner, done)
    meter = _Meter(run)
    with Progress(recipe.steps, f"training {recipe.name}", "steps", done) as progress:
        for step in range(done, recipe.steps):
            torch.manual_seed((recipe.seed * 1_000_003 + step) * run.world.size + run.world.rank)  # dropout is a function of the step, too
            batch = run.feed[step]
            loss = sum(_backward(run, runner, batch, part) for part in range(len(batch.parts)))
            norm = _clip(model, recipe.optimisation.clip)
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(step, recipe.optimisation, recipe.steps)
            meter.add(step, loss, norm, batch)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)  # None, not zero: languages that are absent stay untouched
            progress.add(1, meter.note)
            now = step + 1
            if now % recipe.log_every == 0 or now == recipe.steps:
                meter.log(now)
            if now % recipe.validate_every == 0 or now == recipe.steps:
                meter.log(now) if meter.pending or memory["predicted"] else None
                _validate(run, now)
                meter.restart()
            if now % recipe.save_every == 0 or now == recipe.steps or memory["stopped"]:
                meter.check()  # weights that are spoilt are not saved
                save_checkpoint(run.folder / "checkpoints", now, model, optimiser, run.settings, memory, run.world)
            if memory["stopped"]:
                say(f"stopped at step {now}: no better validation in {recipe.patience}")
                return


def _settle(run: _Run, runner: torch.nn.Module, done: int) -> None:
    """Let DistributedDataParallel see one backward pass that trains nothing.

    After its first one it puts gradients together in another way, and sums over three processes and more are taken in another order.
    So every start, the first and a resumed one, has that behind it, and a resumed run is the same to the last bit.
    """
    if isinstance(runner, DistributedDataParallel) and done < run.recipe.steps:
        batch = run.feed[done]
        _backward(run, runner, batch, len(batch.parts) - 1)
        run.optimiser.zero_grad(set_to_none=True)


def _backward(run: _Run, runner: torch.nn.Module, batch: Step, part: int) -> torch.Tensor:
    """Gradients of one part of a batch; returns its share of the batch's mean loss (summed over processes by the meter)."""
    recipe, world = run.recipe, run.world
    last = part == len(batch.parts) - 1
    _synchronise(runner, world, last)
    with torch.autocast(world.device.type, torch.bfloat16, enabled=recipe.precision == "bfloat16"):
        sums = runner(**moved(batch.parts[part], world.device))
    masked, following = sums if isinstance(sums, tuple) else (sums, None)
    loss = masked / batch.predicted
    if following is not None:
        loss = loss + following / batch.rows
    (loss * world.size).backward()  # gradients are averaged over processes, and each has but its own share of the sum
    return loss.detach()


def _synchronise(runner: torch.nn.Module, world: World, now: bool) -> None:
    """Whether the next backward pass exchanges gradients: with the last part those of all parts."""
    if world.size == 1:
        return
    if world.parallel == "ddp":
        runner.require_backward_grad_sync = now  # type: ignore[assignment]
    else:
        runner.set_requires_gradient_sync(now)  # type: ignore[operator]


def _clip(model: torch.nn.Module, most: float) -> torch.Tensor:
    """Scale gradients down to a norm of ``most`` (0: leave them); returns their norm before."""
    return whole(torch.nn.utils.clip_grad_norm_(model.parameters(), most or math.inf))


def _validate(run: _Run, now: int) -> None:
    """Measure on held-out text, keep the best weights, and notice when nothing improves any more."""
    recipe, memory = run.recipe, run.memory
    with gathered(run.model):
        found = validate(run.model, run.feed, run.world.device, recipe.vocabulary.copies)
    run.events.write({"step": now, "tokens": memory["tokens"], "seconds": round(memory["seconds"], 3), **found})
    if recipe.select == "last" and not recipe.patience:
        return
    measure = run.world.agreed(choice_measure(found, recipe.select))
    if measure < memory["best"]:
        memory.update(best=measure, worse=0)
        save_best(run.folder / "checkpoints", now, run.model, run.settings, measure, run.world)
    else:
        memory["worse"] += 1
        memory["stopped"] = 0 < recipe.patience <= memory["worse"]


class _Meter:
    """Adds up losses between log lines; on a GPU it looks at them only then, so that the queue of work never runs dry.

    What has been added up since the last line is remembered with the checkpoint: a resumed run logs the mean of the whole interval.
    """

    def __init__(self, run: _Run) -> None:
        self.run, self.note, self.started = run, "", time.monotonic()
        self.peak = peak_flops(run.world.device)
        self.at_once = run.world.device.type == "cpu" and run.world.size == 1
        self._clear()

    def _clear(self) -> None:
        self.pending: list[tuple[int, torch.Tensor, torch.Tensor, int]] = []
        self.tokens, self.work = 0, 0.0

    def add(self, step: int, loss: Any, norm: torch.Tensor, batch: Step) -> None:
        self.pending.append((step, loss, norm, batch.predicted))
        self.tokens += batch.tokens
        if self.peak is not None:
            self.work += step_flops(self.run.model, batch.loads)
        self.run.memory["tokens"] += batch.tokens
        if self.at_once:
            self.check()

    def check(self) -> None:
        """Look at the losses so far; a step without a number would spoil the weights, and the next checkpoint."""
        if not self.pending:
            return
        values = torch.stack([torch.stack([loss.double(), norm.double() / self.run.world.size]) for _, loss, norm, _ in self.pending])
        for (step, _, _, predicted), (loss, norm) in zip(self.pending, self.run.world.total(values).tolist(), strict=True):
            need_number(f"loss at step {step}", loss)
            need_number(f"gradient norm at step {step}", norm)
            self.run.memory["loss"] += loss * predicted
            self.run.memory["predicted"] += predicted
            self.note = f"loss {loss:.2f}"
        self.pending = []

    def log(self, now: int) -> None:
        self.check()
        passed = time.monotonic() - self.started
        memory, rate = self.run.memory, self.tokens / passed
        memory["seconds"] += passed
        line = {"step": now, "tokens": memory["tokens"], "loss": memory["loss"] / memory["predicted"], "tokens_per_second": round(rate)}
        line["seconds"] = round(memory["seconds"], 3)
        if self.peak is not None:
            line["utilisation"] = round(self.work / passed / (self.peak * self.run.world.size), 4)
        self.run.events.write(line)
        memory.update(loss=0.0, predicted=0)
        self._clear()
        self.restart()

    def restart(self) -> None:
        self.started = time.monotonic()


def describe_data(data: TrainingData, vocabularies: Vocabularies) -> dict[str, Any]:
    """What is trained on, in numbers."""
    streams = {
        stream.name: {"items": stream.n, "tokens": stream.tokens, "drawn": round(float(p), 4)}
        for stream, p in zip(data.streams, data.probabilities, strict=True)
    }
    languages = vocabularies.languages
    overlap = {f"{a}-{b}": dataclasses.asdict(vocabularies.overlap(a, b)) for i, a in enumerate(languages) for b in languages[i + 1 :]}
    return {
        "streams": streams,
        "held_out": {name: stream.n for name, stream in data.held_out.items()},
        "left_out": data.left_out,
        "vocabulary": {"mode": vocabularies.mode, "sizes": dict(vocabularies.sizes), "overlap": overlap},
    }


def _settings(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]]) -> dict[str, Any]:
    """What the weights depend on: the recipe, with the texts' contents in the place of their paths."""
    free = _WHEN_ONLY if recipe.select == "last" and not recipe.patience else _WHEN_ONLY - {"validate_every"}
    settings = {name: value for name, value in dataclasses.asdict(recipe).items() if name not in free}
    for source in settings["sources"]:
        source["texts"] = {language: corpus.fingerprint[:16] for language, corpus in corpora[source["name"]].items()}
    if recipe.validation is None:  # what was chosen
        settings["validation"] = {name: held_out_size(recipe, len(next(iter(texts.values())))) for name, texts in corpora.items()}
    settings["exclude"] = [read_text(path, "und").fingerprint[:16] for path in recipe.exclude]
    return json.loads(json.dumps(settings))


def _vocabularies(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]], where: Path) -> Vocabularies:
    """The run's vocabularies: learnt once, from all sources' sentences per language."""
    if not (where / "vocabulary.json").exists():
        texts: dict[str, list[str]] = {}
        for name, rows in split_rows(recipe, corpora).items():  # neither held-out nor excluded sentences shape the vocabulary
            for language, corpus in corpora[name].items():
                texts.setdefault(language, []).extend(corpus.sentences[i] for i in np.flatnonzero(rows.train).tolist())
        say(f"learning {recipe.vocabulary.size} {recipe.vocabulary.kind} pieces ({recipe.vocabulary.mode})")
        learnt = learn_vocabularies({k: list(dict.fromkeys(v)) for k, v in texts.items()}, recipe.vocabulary, recipe.seed)
        where.mkdir(parents=True, exist_ok=True)
        save_vocabularies(learnt, where, recipe.encoder.max_positions)
    return load_vocabularies(where)
