"""Masked language modelling: from the texts of a recipe to the folder of a finished model.

With sentence pairs it is translation language modelling (Conneau & Lample 2019), and with pairs of
segments next-sentence prediction is learnt beside it (Devlin et al. 2019). The folder of a run:

    config.json     the recipe
    tokenizer/      the vocabularies that were learnt
    tokens/         token files
    data.json       what is trained on, in numbers
    anchors.json    what code-switching replaces in the first batches, where there is a dictionary
    sharing.json    part to its owners' numbers of parameters; "" owns what all languages share
    log.jsonl       a line per log interval and per validation
    checkpoints/    the last whole checkpoint, and the best one
    model/          the finished model: for transformers and `crosslens study` where all is shared,
                    else for load_model
    views/LANGUAGE/ each language's view for transformers, where something is not shared and
                    transformers has such an architecture
"""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crosslens.asked import absolute
from crosslens.corpus import Corpus
from crosslens.errors import InputError, refuse
from crosslens.files import (
    check_folder,
    claim_folder,
    free_folder,
    lock_folder,
    make_folder,
    refuse_begun,
    sha256_file,
    write_json,
)
from crosslens.models.machine.distributed import World, join_world
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import Owner, parameter_counts
from crosslens.models.saved.derived_languages import DerivedLanguage
from crosslens.models.saved.interop import check_exportable
from crosslens.models.saved.native import export_run
from crosslens.models.text.tokenisation import SPECIAL_TOKENS
from crosslens.models.text.usage import subwords_used
from crosslens.models.text.vocabularies import (
    Vocabularies,
    learn_vocabularies,
    load_vocabularies,
    save_vocabularies,
)
from crosslens.models.training.checkpoint import latest_checkpoint
from crosslens.models.training.costs import step_flops, trained_owners
from crosslens.models.training.data import TrainingData, build_streams
from crosslens.models.training.events import need_tensorboard
from crosslens.models.training.frozen_embeddings import (
    check_embeddings,
    embeddings_fingerprint,
    given_vocabularies,
    put_embeddings,
)
from crosslens.models.training.loop import run_loop
from crosslens.models.training.masked_batches import MaskedBatches, MaskedStep, filled_up
from crosslens.models.training.settings import TrainRecipe, recipe_settings, resolve
from crosslens.models.training.sources import (
    excluded_contents,
    fit_to_text,
    held_out_size,
    read_source,
    split_rows,
)
from crosslens.models.training.starts import (
    check_start,
    start_fingerprint,
    started_model,
    started_vocabularies,
)
from crosslens.models.training.validation import choice_measure, validate
from crosslens.progress import say

__all__ = ["MaskedLanguageModelling", "build_model", "describe_data", "prepare", "train"]

# what there is of a run before its first checkpoint
_MADE = (
    *("config.json", "data.json", "sharing.json", "anchors.json", "log.jsonl"),
    *("tokenizer", "tokens", "tensorboard"),
)
# numbers in a layer's states up to which batches have fixed shapes: 16,384 tokens of 256 dimensions
_SMALL = 16_384 * 256
_COUNTED_BATCHES = 200  # batches whose replaced words are counted before the training
# settings that no weight depends on (see _settings)
_WHEN_ONLY = {"log_every", "validate_every", "save_every", "tensorboard", "recompute"}


class MaskedLanguageModelling:
    """The objective of a recipe: the mean cross-entropy of the masked tokens, in nats."""

    def __init__(self, model: MaskedLM, batches: MaskedBatches) -> None:
        self.model, self.batches, self.recipe = model, batches, batches.recipe

    @property
    def rate_factors(self) -> Mapping[str, float]:
        """All parameters have one learning rate."""
        return {}

    def batch(self, step: int) -> MaskedStep:
        """The masked batch of an update."""
        return self.batches[step]

    def loss(self, runner: nn.Module, inputs: Mapping[str, Any], batch: MaskedStep) -> Tensor:
        """A part's share of the mean loss; next-sentence decisions count as much as all masked
        tokens together."""
        sums = runner(**inputs)
        masked, following = sums if isinstance(sums, tuple) else (sums, None)
        loss = masked / (batch.predicted if batch.divisor is None else batch.divisor)
        return loss if following is None else loss + following / batch.rows

    def in_fixed_shapes(self, batch: MaskedStep) -> MaskedStep | None:
        """The batch filled up with tokens that count for nothing; None where rows are padded or
        nothing is masked, something is sampled in the model, layers are compiled (neither was tried)
        or computed twice to save memory, or states are large: what is recorded keeps memory of its
        own."""
        config, recipe = self.model.config, self.recipe
        if config.dropout or self.model.encoder.noise or recipe.compile or recipe.recompute:
            return None
        largest = max(part["ids"].numel() for part in batch.parts) * config.hidden_size
        if largest > _SMALL:
            return None
        apart = bool(self.model.plan.separate)
        parts = [filled_up(part, apart) for part in batch.parts]
        whole = [part for part in parts if part is not None and len(part["masked"])]
        if len(whole) < len(parts):
            return None
        return dataclasses.replace(batch, parts=whole, divisor=torch.tensor(float(batch.predicted)))

    def flops(self, batch: MaskedStep) -> float:
        """Floating-point operations of the batch's update."""
        return step_flops(self.model, batch.loads, self._trained)

    @functools.cached_property
    def _trained(self) -> frozenset[Owner]:
        """The model's parts that have gradients: what has none is decided before the first step."""
        return trained_owners(self.model)

    def validate(self, device: torch.device) -> dict[str, Any]:
        """Perplexity, retrieval, alignment of token embeddings: see
        :func:`crosslens.models.training.validation.validate`."""
        tables = self.batches.vocabularies.tables
        copies = {
            copy: original
            for copy, original in self.recipe.vocabulary.copies.items()
            if not np.array_equal(tables[copy], tables[original])
            or not self.batches.vocabularies.shared_ids
        }
        return validate(self.model, self.batches, device, copies)

    def measure(self, found: Mapping[str, Any]) -> float:
        """The perplexity that the best weights are chosen by."""
        return choice_measure(found, self.recipe.select)


def train(
    recipe: TrainRecipe,
    folder: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    parallel: str = "ddp",
) -> Path:
    """Run a recipe; returns the folder of the finished model.

    Under ``torchrun`` the processes share the work (:mod:`crosslens.models.machine.distributed`).

    Parameters
    ----------
    folder: the run's folder. A run that was stopped resumes with ``resume``, to the same weights as
        if it had never stopped.
    device: "auto" (a GPU where there is one), "cpu" or "cuda".
    parallel: how several processes share the model, "ddp" or "fsdp".

    Raises
    ------
    InputError: a text is missing, unfit or too short; or settings do not go together.
    OutputError: the folder holds a run (without ``resume``), or a run of another recipe.
    TrainingError: the loss is not a number any more; the last checkpoint is kept.
    """
    folder, asked = Path(folder), {"recipe": _asked(recipe)}
    check_exportable(resolve(recipe).encoder)
    if recipe.tensorboard:
        need_tensorboard()
    with join_world(device, parallel) as world, contextlib.ExitStack() as held:
        prepared: tuple[Vocabularies, TrainingData] | None = None
        with world.together():
            corpora = {source.name: read_source(source) for source in recipe.sources}
            recipe = fit_to_text(recipe, corpora)
            _check_parallel(recipe, world)
            if recipe.start:
                check_start(recipe)
            if recipe.embeddings:
                check_embeddings(recipe)
            settings = _settings(recipe, corpora)
        with world.together():
            if world.first:  # it prepares the files that all read
                if check_folder(folder, "train", settings) and not resume:
                    refuse_begun(folder)
                held.enter_context(_given_back(folder, new=not folder.exists()))
                make_folder(folder, str(folder))
                held.enter_context(lock_folder(folder))
                claim_folder(folder, "train", settings, asked)
                prepared = (
                    None
                    if (folder / "model" / "config.json").exists()
                    else prepare(recipe, corpora, folder)
                )
        if (folder / "model" / "config.json").exists():
            say(f"{folder / 'model'} is finished already")
            return folder / "model"
        with world.together():
            # the others find it done
            vocabularies, data = prepared or prepare(recipe, corpora, folder)
        return _train(recipe, vocabularies, data, folder, settings, world)


def _asked(recipe: TrainRecipe) -> dict[str, Any]:
    """The recipe as it was given, for another run: its files wherever the next one stands."""
    told = json.loads(json.dumps(dataclasses.asdict(recipe)))
    sources = [{**source, "texts": absolute(source["texts"])} for source in told["sources"]]
    dictionary = absolute(recipe.anchors.dictionary)
    anchors = {**told["anchors"], "dictionary": dictionary}
    paths = {name: absolute(told[name]) for name in ("exclude", "start", "embeddings")}
    return {**told, "sources": sources, **paths, "anchors": anchors}


@contextlib.contextmanager
def _given_back(folder: Path, *, new: bool) -> Iterator[None]:
    """Free a run's folder when its recipe is refused before the first checkpoint: what was made
    would refuse the corrected recipe.

    Some refusals need the vocabulary: a sentence that is too long for a batch is known by its
    subwords alone.
    """
    try:
        yield
    except InputError:
        if latest_checkpoint(folder / "checkpoints") is None and not (folder / "model").exists():
            free_folder(folder, _MADE, new=new)
        raise


def _check_parallel(recipe: TrainRecipe, world: World) -> None:
    """Refuse to divide a model over processes that do not all use the same parts in a step."""
    plan = SharingPlan.parse(recipe.sharing, recipe.encoder.layers, tied=recipe.encoder.tied)
    if (
        world.size > 1
        and world.parallel == "fsdp"
        and plan.separate
        and recipe.batch_languages != "one"
    ):
        refuse(
            "parallel",
            "ddp where batches mix languages that own parts",
            "fsdp",
            'use ddp, or batch_languages="one"',
        )


def prepare(
    recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]], folder: Path
) -> tuple[Vocabularies, TrainingData]:
    """Learn the vocabularies and tokenise, or find both done.

    Parameters
    ----------
    recipe: as :func:`crosslens.models.training.sources.fit_to_text` makes it. folder: the run's.
    """
    vocabularies = _vocabularies(recipe, corpora, folder / "tokenizer")
    data = build_streams(recipe, corpora, vocabularies, folder / "tokens")
    if not (folder / "data.json").exists():
        write_json(folder / "data.json", describe_data(data, vocabularies))
    return vocabularies, data


def build_model(recipe: TrainRecipe, vocabularies: Vocabularies) -> MaskedLM:
    """The model of a recipe before its first step; what stands still asks for no gradient."""
    model = (started_model if recipe.start else _untrained)(recipe, vocabularies)
    model.encoder.recompute = recipe.recompute
    if recipe.compile:
        for modules in model.encoder.layer_modules:
            for layer in modules.values():
                layer.compile()
    return model


def _untrained(recipe: TrainRecipe, vocabularies: Vocabularies) -> MaskedLM:
    shape = dataclasses.replace(recipe.encoder, vocab_size=max(vocabularies.sizes.values()))
    plan = SharingPlan.parse(recipe.sharing, shape.layers, tied=shape.tied)
    model = MaskedLM(
        shape, recipe.seed, languages=recipe.languages, plan=plan, sizes=vocabularies.sizes
    )
    if recipe.embeddings:
        put_embeddings(model, recipe.embeddings)
    return model


def _train(
    recipe: TrainRecipe,
    vocabularies: Vocabularies,
    data: TrainingData,
    folder: Path,
    settings: dict[str, Any],
    world: World,
) -> Path:
    with world.together():
        model = build_model(recipe, vocabularies).to(world.device)
        if world.first:
            write_json(folder / "sharing.json", parameter_counts(model))
        objective = MaskedLanguageModelling(
            model, MaskedBatches(recipe, data, vocabularies, world.rank, world.size)
        )
        if world.first and recipe.anchors.dictionary:
            _tell_anchors(objective.batches, folder)
    weights = run_loop(objective, recipe, folder, settings, world)
    with world.together():
        if world.first:
            finished = build_model(dataclasses.replace(recipe, compile=False), vocabularies)
            finished.load_state_dict(weights)
            derived = {
                language: DerivedLanguage(one.of, one.by, one.seed_in(recipe.seed))
                for language, one in recipe.derived.items()
            }
            export_run(finished, vocabularies, folder, half=recipe.half, derived=derived)
    return folder / "model"


def _tell_anchors(batches: MaskedBatches, folder: Path) -> None:
    """Write and say how much the dictionary replaces."""
    counts = batches.anchor_counts(_COUNTED_BATCHES)
    told, *others = (one.told() for one in counts.values())
    languages = dict(zip([*counts][1:], others, strict=True))
    write_json(folder / "anchors.json", {**told, "languages": languages})
    each = ", ".join(
        f"{language} {100 * one['of_words']:.1f} %" for language, one in languages.items()
    )
    say(
        f"code-switching replaces {100 * told['of_known']:.1f} % of the words that the dictionary "
        f"knows, {100 * told['of_words']:.1f} % of all ({each})"
    )


def describe_data(data: TrainingData, vocabularies: Vocabularies) -> dict[str, Any]:
    """What is trained on, in numbers."""
    streams = {
        stream.name: {"items": stream.n, "tokens": stream.tokens, "drawn": round(float(p), 4)}
        for stream, p in zip(data.streams, data.probabilities, strict=True)
    }
    languages = vocabularies.languages
    overlap = {
        f"{a}-{b}": dataclasses.asdict(vocabularies.overlap(a, b))
        for i, a in enumerate(languages)
        for b in languages[i + 1 :]
    }
    return {
        "streams": streams,
        "held_out": {name: stream.n for name, stream in data.held_out.items()},
        "left_out": data.left_out,
        "vocabulary": {
            "mode": vocabularies.mode,
            "sizes": dict(vocabularies.sizes),
            "overlap": overlap,
            "used": {
                language: dataclasses.asdict(
                    subwords_used(
                        data.counts[language],
                        len(vocabularies.tables[language]) - len(SPECIAL_TOKENS),
                    )
                )
                for language in data.counts
            },
        },
    }


def _settings(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]]) -> dict[str, Any]:
    """What the weights depend on: the recipe, with the texts' contents in the place of their
    paths."""
    free = _WHEN_ONLY - ({"validate_every"} if recipe.decided_by_validation else set())
    settings = {name: value for name, value in recipe_settings(recipe).items() if name not in free}
    for source in settings["sources"]:
        source["texts"] = {
            language: corpus.fingerprint[:16]
            for language, corpus in corpora[source["name"]].items()
        }
    if recipe.validation is None:  # what was chosen
        settings["validation"] = {
            name: held_out_size(recipe, len(next(iter(texts.values()))))
            for name, texts in corpora.items()
        }
    if recipe.anchors.dictionary:
        settings["anchors"]["dictionary"] = sha256_file(recipe.anchors.dictionary)[:16]
    if recipe.start:
        settings["start"] = start_fingerprint(recipe)
    if recipe.embeddings:
        settings["embeddings"] = embeddings_fingerprint(recipe)
    settings["exclude"] = excluded_contents(recipe)
    return json.loads(json.dumps(settings))


def _vocabularies(
    recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]], where: Path
) -> Vocabularies:
    """The run's vocabularies: learnt once, from all sources' sentences per language."""
    if not (where / "vocabulary.json").exists() and recipe.embeddings:
        save_vocabularies(given_vocabularies(recipe), where, recipe.encoder.max_positions)
    if not (where / "vocabulary.json").exists():
        texts: dict[str, list[str]] = {}
        # neither held-out nor excluded sentences shape the vocabulary
        for name, rows in split_rows(recipe, corpora).items():
            for language, corpus in corpora[name].items():
                texts.setdefault(language, []).extend(
                    corpus.sentences[i] for i in np.flatnonzero(rows.train).tolist()
                )
        say(
            f"learning {recipe.vocabulary.size} {recipe.vocabulary.kind} subwords "
            f"({recipe.vocabulary.mode})"
        )
        learnt = learn_vocabularies(
            {k: list(dict.fromkeys(v)) for k, v in texts.items()}, recipe.vocabulary, recipe.seed
        )
        if recipe.start:
            learnt = started_vocabularies(recipe, learnt)
        where.mkdir(parents=True, exist_ok=True)
        save_vocabularies(learnt, where, recipe.encoder.max_positions)
    return load_vocabularies(where)
