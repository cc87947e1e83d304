"""Mapped transfer: a head that is trained on a layer of one encoder reads the same layer of another
one through a map between the two (Conneau et al. 2020, § 5.1.2 and appendix A).

    source encoder, layer i --normalised--> four new layers --> head      trained on one language
    target encoder, layer i --normalised, rotated--> the same             tested on another
    target encoder, layer i --as if it were the source's--> the same      beside it: no map

With one encoder for both it is the bilingual encoder without and with a map.
"""

import dataclasses
import functools
import itertools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.activations import Activations
from crosslens.alignment.words.links import read_pharaoh
from crosslens.asked import asked_of
from crosslens.corpus import Corpus
from crosslens.errors import quote, refuse
from crosslens.files import sha256_file
from crosslens.languages import same_language
from crosslens.outcomes import Outcomes, read_outcomes
from crosslens.probes.tasks.data_folder import DataFolder, check_folder
from crosslens.progress import say
from crosslens.readers.plain import open_text
from crosslens.run.encoder_names import display_name
from crosslens.run.engine import Run, versions
from crosslens.run.transfer.data import TaskData, transfer_data
from crosslens.run.transfer.derived import refuse_derived
from crosslens.run.transfer.fits import answering, examples_of, kind_of, settings_of, share_right
from crosslens.run.transfer.means import majority_scores
from crosslens.run.transfer.measures import (
    counted,
    difference,
    n_counted,
    n_of_dev,
    outcomes,
    over_seeds,
)
from crosslens.run.transfer.presets import Preset
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.transfer import preset_of
from crosslens.run.transfer.unused import check_used
from crosslens.run.transfer.word_maps import LayerMap, learn_map
from crosslens.score import QUANTITIES, Score, headline_quantities, is_headline
from crosslens.score_formats import format_with_ends

__all__ = ["MappedTransfer", "run_mapped_transfer", "summary"]

_UNMAPPED, _MAPPED = "unaligned", "procrustes"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MappedTransfer:
    """The settings of a run of mapped transfer.

    Attributes
    ----------
    transfer: the source encoder, one task, its data, a language to train on, and the seeds;
        ``test`` has that language and the target's.
    target: the target's encoder, a folder or hub name; the source's own for a bilingual one.
    texts: of both languages a file of plain text, a sentence a line and words between spaces; line i
        of one translates line i of the other. First that of the language of training.
    links: a file of links between the words of these lines, in Pharaoh format (0-0 1-2).
    layers: which ones are measured, 0 being the embeddings; None for all.
    """

    transfer: Transfer
    target: str
    texts: Mapping[str, str]
    links: str
    layers: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if len(self.texts) != 2:
            expected = "a text of each language, first that of training"
            refuse("--text", expected, f"{len(self.texts)} of them", "give two")
        if len(set(self.transfer.test)) != 2:
            expected = "another language than that of training"
            refuse("--test", expected, ", ".join(self.transfer.test), "name one")
        if self.layers is None:
            return
        asked = np.asarray(self.layers)
        numbers = asked.tolist() if asked.ndim == 1 and asked.dtype.kind in "iu" else []
        if not numbers or len(set(numbers)) < len(numbers):
            expected = "whole numbers of layers, each once"
            refuse("layers", expected, quote(self.layers), "write [8] for layer 8 alone")
        object.__setattr__(self, "layers", numbers)


@dataclasses.dataclass(frozen=True, eq=False)
class _Work:
    """What all layers and seeds of a run share."""

    told: MappedTransfer
    run: Run
    data: TaskData
    preset: Preset
    parallel: tuple[Corpus, Corpus]
    links: np.ndarray

    @functools.cached_property
    def encoders(self) -> tuple[Any, Any]:
        """Source and target, loaded when they are first needed."""
        source, target = load_both(self.told)
        if (source.layers, source.d) != (target.layers, target.d):
            expected = f"an encoder with {source.layers - 1} layers, {source.d} wide, as the source"
            got = f"{target.layers - 1} layers, {target.d} wide"
            refuse("target encoder", expected, got, "choose encoders of one shape")
        for layer in self.told.layers or ():
            if not 0 <= layer < source.layers:
                expected = f"from 0 to {source.layers - 1}"
                refuse("layers", expected, str(layer), "name layers that are there")
        return source, target

    @functools.cached_property
    def words(self) -> tuple[Activations, Activations]:
        """The words of the parallel text in context, of source and target."""
        from crosslens.models.extraction.extract import extract

        folders = (self.run.path / "words" / side for side in ("source", "target"))
        source, target = (
            extract(encoder, corpus, folder, unit="word", dtype="float16")
            for encoder, corpus, folder in zip(self.encoders, self.parallel, folders, strict=True)
        )
        return source, target

    def map(self, layer: int) -> LayerMap:
        """The map of a layer."""
        return learn_map(*self.words, self.links, len(self.parallel[0]), layer)


def load_both(told: MappedTransfer) -> tuple[Any, Any]:
    """Source and target encoder; one object where they are the same."""
    from crosslens.models.saved.loading import load_encoder

    transfer, loaded = told.transfer, dict[str, Any]()
    paths = (transfer.encoders[0], told.target)
    for path in paths:
        if path not in loaded:
            trusted = transfer.trust_remote_code
            loaded[path] = load_encoder(path, device=transfer.device, trust_remote_code=trusted)
    return loaded[paths[0]], loaded[paths[1]]


def run_mapped_transfer(told: MappedTransfer, out: str | Path) -> Path:
    """Run it, or resume a run that was stopped; returns the folder with ``scores.jsonl``.

    Raises
    ------
    InputError: data, texts, links or encoders are not what is needed.
    OutputError: the folder holds something else, or cannot be written to.
    """
    from crosslens.models.finetuning.finetune import drop_weights

    transfer, folder = told.transfer, DataFolder(told.transfer.data)
    check_folder(transfer.data)
    (name,) = transfer.tasks
    refuse_derived([*transfer.train, *transfer.test])
    sampled: dict[str, Any] = {"limit": transfer.limit, "seed": transfer.seed}
    data = transfer_data(name, folder, transfer.train, transfer.test, **sampled)
    check_used(transfer, {name: data})
    preset = preset_of(transfer, data)
    settings_of(preset.values, data.task.kind, -1, 0, transfer)
    _check_texts(told, data)
    parallel, links = _parallel(told)
    _check_languages(told, data)
    run = Run(out, "mapped_transfer", _settings(told, folder, preset, parallel), _asked(told))
    if run.finished:
        with run.open():
            return run.path
    work = _Work(told, run, data, preset, parallel, links)
    source, _ = work.encoders
    layers = range(source.layers) if told.layers is None else told.layers
    with run.open():
        run.note(
            data={"tasks": {name: dict(data.facts)}, "files": dict(folder.files)},
            cards={name: data.task.record()},
            sources={name: dict(preset.sources)},
            versions=versions(),
        )
        dev = list[Score]()
        for layer, seed in itertools.product(layers, transfer.all_seeds):
            one = f"layer{layer}-{seed}"
            dev += run.measured_part(one, functools.partial(_compute, work, layer, seed))
            drop_weights(run.path / "models" / one)  # what they answer is written
        every = read_outcomes(run.finish_outcomes())
        fitted = {score.layer: score.details or {} for score in dev}
        for kept in ("states", "words", "models"):
            shutil.rmtree(run.path / kept, ignore_errors=True)
        run.finish([*_means(work, every, fitted), *dev])
    return run.path


def _check_texts(told: MappedTransfer, data: TaskData) -> None:
    """Refuse texts of other languages, or in another order: words of the wrong side would be taken
    for those that links join."""
    wanted = [split.language for split in data.tests.values()]
    if not all(map(same_language, told.texts, wanted)):
        expected = f"a text in {wanted[0]}, that of training, then one in {wanted[1]}"
        refuse("--text", expected, ", ".join(told.texts), "give both, in this order")


def _check_languages(told: MappedTransfer, data: TaskData) -> None:
    """Refuse a language that the encoder lacks which reads it, before a folder is begun."""
    from crosslens.models.saved.locate import resolve_encoder
    from crosslens.models.saved.read_languages import check_read

    own, other = (split.language for split in data.tests.values())
    trusted = told.transfer.trust_remote_code
    for path, option, language in (
        (told.transfer.encoders[0], "--train", own),
        (told.target, "--test", other),
    ):
        folder = resolve_encoder(path, trust_remote_code=trusted)
        check_read(display_name(path), folder, [(option, language)])


def _parallel(told: MappedTransfer) -> tuple[tuple[Corpus, Corpus], np.ndarray]:
    first, second = (open_text(path, language) for language, path in told.texts.items())
    links = read_pharaoh(told.links)
    if not len(first) == len(second) == links.sentences:
        got = f"{len(first)} and {len(second)} sentences, {links.sentences} lines of links"
        refuse("--links", "a line for each pair of sentences", got, "give parallel text")
    return (first, second), links.sure


def _settings(
    told: MappedTransfer, folder: DataFolder, preset: Preset, parallel: Sequence[Corpus]
) -> dict[str, Any]:
    """What the scores depend on."""
    from crosslens.models.saved.locate import encoder_fingerprint, resolve_encoder

    transfer = told.transfer
    names = ("tasks", "train", "test", "seeds", "seed", "limit", "parser", "crf", "precision")
    return {
        "encoders": [
            encoder_fingerprint(resolve_encoder(path, trust_remote_code=transfer.trust_remote_code))
            for path in (transfer.encoders[0], told.target)
        ],
        "files": {name: digest[:16] for name, digest in folder.files.items()},
        "texts": [corpus.fingerprint[:16] for corpus in parallel],
        "links": sha256_file(told.links)[:16],
        "layers": None if told.layers is None else list(told.layers),
        "values": {transfer.tasks[0]: dict(preset.values)},
        **{name: getattr(transfer, name) for name in names},
    }


def _asked(told: MappedTransfer) -> dict[str, Any]:
    """What was asked, by the names that the command has."""
    transfer = told.transfer
    names = ("epochs", "batch_size", "peak_rate", "max_length", "parser", "crf", "seeds", "seed")
    values = {
        "encoder": transfer.encoders[0],
        "target_encoder": told.target,
        "task": transfer.tasks[0],
        "train": transfer.train[0],
        "test": transfer.test[1],
        "data": transfer.data,
        "texts": told.texts,
        "links": told.links,
        "layers": None if told.layers is None else ",".join(map(str, told.layers)),
        **{name: getattr(transfer, name) for name in (*names, "limit", "precision", "device")},
    }
    return asked_of(values, ["encoder", "target_encoder", "data", "texts", "links"])


# -- one layer with one seed


def _compute(work: _Work, layer: int, seed: int) -> tuple[list[Score], list[Outcomes]]:
    from crosslens.models.finetuning.finetune import fine_tune
    from crosslens.models.finetuning.frozen import FrozenStates

    transfer, data, values = work.told.transfer, work.data, work.preset.values
    settings = settings_of(values, data.task.kind, -1, seed, transfer)
    kind = kind_of(data, settings, values, transfer)
    spans_by = transfer.spans_by
    learnt, (mine, theirs) = work.map(layer), work.encoders
    read = functools.partial(
        FrozenStates, folder=work.run.path / "states", precision=transfer.precision, layer=layer
    )
    say(f"training on layer {layer}, seed {seed}")
    folder, answer = work.run.path / "models" / f"layer{layer}-{seed}", answering(kind, mine, data)
    tuned = fine_tune(
        mine,
        kind,
        [examples_of(one, data, settings.max_length) for one in data.train],
        settings,
        folder,
        {"dev": functools.partial(share_right, data.task, answer, spans_by, data.dev)},
        read(mine, change=learnt.of_source),
    )
    own, other = data.tests.items()
    ways = (
        (None, own, read(mine, change=learnt.of_source)),
        (_UNMAPPED, other, read(theirs, change=learnt.of_source)),
        (_MAPPED, other, read(theirs, change=learnt.of_target)),
    )
    made = list[Outcomes]()
    for condition, (language, split), source in ways:
        answer = answering(kind, source.encoder, data)
        answers = answer(split, functools.partial(tuned.predict, source=source))
        fields: dict[str, Any] = {
            "task": data.task.name,
            "part": "test",
            "encoder": _named(work.told, condition),
            "condition": condition,
            "layer": layer,
            "seed": seed,
            "source": data.train[0].language,
            "target": language,
        }
        every = counted(data.task, split, answers, spans_by)
        made += [outcomes(split, answers, one, **fields) for one in every]
    best = tuned.best_epoch("dev")
    dev = Score(
        quantity=made[0].quantity,
        value=tuned.epochs[best]["dev"],
        n=n_of_dev(data.task, data.train, data.dev, spans_by),
        layer=layer,
        source=data.train[0].language,
        target=data.train[0].language,
        task=data.task.name,
        encoder=_named(work.told, None),
        seed=seed,
        details={"part": "dev", "epoch": best, "fitted_on": learnt.pairs, "dimensions": mine.d},
    )
    return [dev], made


def _named(told: MappedTransfer, condition: str | None) -> str:
    """Whose states are read."""
    return display_name(told.transfer.encoders[0] if condition is None else told.target)


# -- means over seeds


def _means(
    work: _Work, every: Sequence[Outcomes], fitted: Mapping[int | None, Mapping[str, Any]]
) -> Iterator[Score]:
    """Each quantity of each layer: in the language of training, without a map and with one; what the
    map is worth; and the most frequent label."""
    groups: dict[tuple[Any, ...], dict[int, Outcomes]] = {}
    for one in every:
        key = (one.layer, one.target, one.quantity, one.method, one.condition)
        groups.setdefault(key, {})[one.seed or 0] = one
    for (layer, target, quantity, method, condition), seeds in groups.items():
        first = seeds[min(seeds)]
        told = {name: fitted[layer][name] for name in ("fitted_on", "dimensions")}
        fields: dict[str, Any] = {
            "task": first.task,
            "encoder": first.encoder,
            "condition": condition,
            "layer": layer,
            "source": first.source,
            "target": target,
            "n": n_counted(work.data.task, first),
            "details": {"part": "test", **(told if condition == _MAPPED else {})},
        }
        yield over_seeds(seeds, fields)
        if condition == _MAPPED:
            without = groups[layer, target, quantity, method, _UNMAPPED]
            fields |= {"condition": f"{_MAPPED}_less_{_UNMAPPED}", "n": len(first)}
            fields["details"] |= {"counted_as": method} if method else {}
            if (gap := difference(seeds, without, fields)) is not None:
                yield gap
    if work.data.task.kind != "answer":
        spans_by = work.told.transfer.spans_by
        yield from majority_scores(work.data.task.name, work.data, spans_by)


def summary(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """The table of a finished run for a terminal: each layer's headline in per cent, with 95 %
    intervals."""
    test = [s for s in scores if s.layer is not None and s.evidence.part == "test"]
    main = headline_quantities(test)
    as_head = [s for s in test if is_headline(s, main, differences=True)]
    head = as_head[0]
    by = {(s.layer, s.condition): s for s in as_head}
    target = next(s.target for s in as_head if s.condition == _MAPPED)
    name = QUANTITIES[head.quantity].label
    rows: list[tuple[str, ...]]
    rows = [("layer", f"{name}, {head.target}", f"{target}, no map", f"{target}, mapped", "gain")]
    for layer in dict.fromkeys(s.layer for s in as_head):
        ways = (None, _UNMAPPED, _MAPPED, f"{_MAPPED}_less_{_UNMAPPED}")
        rows.append((str(layer), *(format_with_ends(by.get((layer, way))) for way in ways)))
    return rows
