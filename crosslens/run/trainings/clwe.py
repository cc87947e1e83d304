"""CLWE: an encoder of one language over cross-lingual embeddings that stand still.

    text of each language -> subwords -> skip-gram -> mapped to the source's -> BERT of the source
                                                            (not trained)   -> one model

The folder of a run:

    config.json         settings, the texts' fingerprints, how the dictionaries were induced, and what
                        is trained when
    texts/LANGUAGE/     vocabulary and token files
    vectors/LANGUAGE/   skip-gram vectors of the subwords
    mapped/LANGUAGE/    the same in the source's space; induction.json says how it was found
    bert/               an ordinary training on the source language, over its mapped vectors
    model/              the body with the embeddings of all languages: for every command that takes an
                        encoder
    transfer/           its fine-tuning, where tasks are asked for: a run of `crosslens transfer`
    scores.jsonl        held-out perplexity of the source, of a unigram and of a bigram model; and how
                        many subwords that both spell alike are nearest to themselves

Each stage is resumed where it was stopped, to the same bits; a skip-gram that was stopped begins
anew, and gives the same vectors.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crosslens.files import read_json, refuse_begun, write_json
from crosslens.models.text.subword_vectors import (
    SkipGram,
    SubwordVectors,
    Texts,
    learn_subword_vectors,
    subword_counts,
)
from crosslens.models.text.tokenisation import SPECIAL_TOKENS
from crosslens.models.text.vocabularies import Vocabularies
from crosslens.models.training.settings import TrainRecipe
from crosslens.progress import say
from crosslens.run.engine import Run, versions
from crosslens.run.trainings.shared import (
    fine_tuned_told,
    given_back,
    held_out_scores,
    prepared,
    text_settings,
)
from crosslens.run.trainings.subword_mapping import map_subwords, normalised, refuse_no_overlap
from crosslens.score import Score, read_scores
from crosslens.score_formats import format_value

__all__ = ["Clwe", "run_clwe", "summary"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clwe:
    """What a run is to do.

    Attributes
    ----------
    bert: the training on the source language, over ``mapped/LANGUAGE`` of the run's folder.
    texts: language to a recipe with its text, vocabulary and what is held out; the source first.
    skipgram: how vectors are learnt.
    seeds: what the mapping begins with: "identical" or "unsupervised".
    """

    bert: TrainRecipe
    texts: Mapping[str, TrainRecipe]
    skipgram: SkipGram
    seeds: str

    @property
    def source(self) -> str:
        """The language that the encoder is trained on."""
        return next(iter(self.texts))

    @property
    def targets(self) -> list[str]:
        """The other languages."""
        return [language for language in self.texts if language != self.source]

    @property
    def told(self) -> dict[str, Any]:
        """What is not in the training's recipe, as plain data."""
        return {"skipgram": dataclasses.asdict(self.skipgram), "seeds": self.seeds}

    @property
    def lines(self) -> list[str]:
        """The same, one setting a line."""
        skipgram = dataclasses.asdict(self.skipgram).items()
        return [f"seeds = {self.seeds!r}", *(f"skipgram.{k} = {v!r}" for k, v in skipgram)]


def run_clwe(
    clwe: Clwe,
    folder: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    parallel: str = "ddp",
    asked: Mapping[str, Any] | None = None,
) -> Path:
    """Learn and map the vectors, train the encoder, and join the languages; returns the folder with
    ``model`` and ``scores.jsonl``.

    Under ``torchrun`` the processes share the training; the first alone learns and maps vectors.

    Parameters
    ----------
    clwe: of :func:`crosslens.recipes.clwe.clwe`, for this folder.
    resume: a stopped run is resumed.
    asked: what was asked for, kept for another run.

    Raises
    ------
    InputError: texts or settings are not what is needed, or identical seeds where no subword is spelt
        alike: it is said before any vector is learnt.
    OutputError: the folder holds a run (without ``resume``), or another one.
    TrainingError: a loss is not a number any more; the last checkpoint is kept.
    """
    from crosslens.models.machine.distributed import join_world
    from crosslens.models.training.masked_lm import train

    folder = Path(folder)
    with contextlib.ExitStack() as held:
        world = held.enter_context(join_world(device, parallel))
        with world.together():
            given = {"recipe": "clwe", "settings": dict(asked or {})}
            run = Run(folder, "clwe", _settings(clwe), given)
            if run.begun and not resume:
                refuse_begun(folder)
            finished = run.finished
        with world.together():
            if world.first:
                new = not folder.exists()
                held.enter_context(
                    given_back(
                        folder, ("texts", "vectors"), "vectors/*/vectors.safetensors", new=new
                    )
                )
                held.enter_context(run.open())
                if not finished:
                    _make_vectors(clwe, folder)
        with world.together():
            if world.first and "tasks" in given["settings"]:  # they may be asked for afterwards
                run.note(asked=given)
        if finished:
            return folder
        train(clwe.bert, folder / "bert", resume=True, device=device, parallel=parallel)
        with world.together():
            if world.first:
                _join(clwe, folder)
                scores = list(held_out_scores("bert", clwe.bert, folder / "bert", world.device))
                induced = {name: _induced(folder, name) for name in clwe.targets}
                scores += _identical(clwe, induced)
                run.note(versions=versions(), induced=induced, trained=_trained(folder))
                run.finish(scores)
    return folder


def _settings(clwe: Clwe) -> dict[str, Any]:
    """What the weights depend on."""
    told = text_settings({"bert": clwe.bert, **clwe.texts})
    bert = told.pop("bert") | {"embeddings": f"mapped/{clwe.source}"}
    return {"bert": bert, "texts": told, **clwe.told}


def _make_vectors(clwe: Clwe, folder: Path) -> None:
    """Vocabularies, skip-gram vectors, and these in the source's space: each that is not there."""
    read = {language: _text(recipe, folder) for language, recipe in clwe.texts.items()}
    if clwe.seeds == "identical":
        known = {language: _occurring(*text) for language, text in read.items()}
        for name in clwe.targets:
            refuse_no_overlap(clwe.source, known[clwe.source], name, known[name])
    for language, (vocabulary, texts) in read.items():
        place = folder / "vectors" / language
        if not SubwordVectors.finished(place):
            aside, seed = place.with_name(f"{language}.partial"), clwe.bert.seed
            learn_subword_vectors(vocabulary, texts, clwe.skipgram, aside, seed).save(place)
    source = SubwordVectors.load(folder / "vectors" / clwe.source)
    if not SubwordVectors.finished(folder / "mapped" / clwe.source):
        normalised(source).save(folder / "mapped" / clwe.source)
    for language in clwe.targets:
        if not SubwordVectors.finished(folder / "mapped" / language):
            _map(clwe, source, language, folder)


def _text(recipe: TrainRecipe, folder: Path) -> tuple[Vocabularies, Texts]:
    """A language's vocabulary, and its tokens with the sentences that are trained on."""
    from crosslens.models.training.data import encode_sentences
    from crosslens.models.training.sources import fit_to_text, read_source, split_rows

    corpora = {source.name: read_source(source) for source in recipe.sources}
    recipe = fit_to_text(recipe, corpora)
    (language,) = recipe.languages
    place = folder / "texts" / language
    vocabulary = prepared(recipe, place)
    texts = []
    for name, rows in split_rows(recipe, corpora).items():
        corpus, tokens = corpora[name][language], place / "tokens" / f"{name}.{language}"
        file = encode_sentences(vocabulary, corpus, tokens, recipe)
        texts.append((file, rows.train.nonzero()[0]))
    return vocabulary, texts


def _occurring(vocabulary: Vocabularies, texts: Texts) -> list[str]:
    """The subwords of a vocabulary that occur in a text, without special tokens."""
    (language,) = vocabulary.languages
    counts, pieces = subword_counts(texts, vocabulary.sizes[language]), vocabulary.pieces(language)
    return [pieces[i] for i in counts.nonzero()[0].tolist() if i >= len(SPECIAL_TOKENS)]


def _map(clwe: Clwe, source: SubwordVectors, language: str, folder: Path) -> None:
    """A language's vectors in the source's space, and how that was found."""
    target, place = SubwordVectors.load(folder / "vectors" / language), folder / "mapped"
    state = place / f"{language}.state"
    say(f"mapping {language} to {source.language}")
    mapped, induction = map_subwords(target, source, clwe.seeds, seed=clwe.bert.seed, state=state)
    found = induction.identical
    told = {"identical": None if found is None else [int(found.correct.sum()), found.n]}
    (place / language).mkdir(exist_ok=True)
    write_json(place / language / "induction.json", {**induction.told(), **told})
    mapped.save(place / language)
    state.unlink(missing_ok=True)  # once what it led to is there


def _induced(folder: Path, language: str) -> dict[str, Any]:
    return read_json(folder / "mapped" / language / "induction.json", dict[str, Any])


def _identical(clwe: Clwe, induced: Mapping[str, Mapping[str, Any]]) -> Iterator[Score]:
    """Of the subwords that both languages spell alike, the share that is nearest to itself."""
    from crosslens.stats import wilson_interval

    for language, told in induced.items():
        if told["identical"] is not None:
            right, n = told["identical"]
            low, high = wilson_interval(right, n)
            yield Score(
                quantity="precision_at_1",
                value=right / n,
                n=n,
                low=low,
                high=high,
                source=language,
                target=clwe.source,
                condition="csls",
                encoder=f"mapped/{language}",
                seed=clwe.bert.seed,
            )


def _join(clwe: Clwe, folder: Path) -> None:
    """The body with each language's own embeddings, as one model."""
    from crosslens.models.saved.joining import join_vectors
    from crosslens.models.saved.native import save_model

    mapped = [folder / "mapped" / language for language in clwe.targets]
    model, vocabularies = join_vectors(folder / "bert" / "model", mapped)
    save_model(model, vocabularies, folder / "model")


def _trained(folder: Path) -> list[tuple[str, ...]]:
    """What is trained when, as rows of cells: a head, and a row for each part with its number of
    parameters, "-" where it stands still or there is nothing of it."""
    from crosslens.models.network.surgery import freeze, parameter_counts
    from crosslens.models.saved.native import load_model

    model, _ = load_model(folder / "model")
    source = model.languages[0]
    every = parameter_counts(model)
    freeze(model, ["token"])
    first = parameter_counts(model, trained_only=True)
    freeze(model)
    tuned = parameter_counts(model, trained_only=True)
    for part in ("transform", "next_sentence"):  # no task reads them
        tuned.pop(part, None)
    return [
        ("trained", "masked LM", "fine-tuning"),
        *((part, *(_count(found.get(part), source) for found in (first, tuned))) for part in every),
    ]


def _count(row: Mapping[str, int] | None, source: str) -> str:
    n = 0 if row is None else row[""] + row.get(source, 0)
    return f"{n:,}" if n else "-"


def summary(folder: str | Path) -> list[Any]:
    """How the dictionaries were induced, what is trained when, the perplexities, and what comes next:
    tables and sentences."""
    folder = Path(folder)
    config = read_json(folder / "config.json")
    scores = list(read_scores(folder / "scores.jsonl"))
    found = {(one.quantity, one.condition): one for one in scores}
    learnt = found["perplexity", None]
    each = (found.get(("perplexity", name)) for name in (None, "unigram", "bigram"))
    cells = ["-" if one is None else format_value(one.value, 1) for one in each]
    perplexity = [
        ("learnt", "perplexity", "of a unigram model", "of a bigram model", "masked tokens"),
        (f"{learnt.source}, bert", *cells, f"{learnt.n:,}"),
    ]
    last = fine_tuned_told(folder, "Fine-tuning")
    trained = [tuple(row) for row in config["trained"]]
    induced = _induced_rows(config["induced"], config["settings"]["seeds"])
    return [trained, induced, perplexity, *last]


def _induced_rows(induced: Mapping[str, Mapping[str, Any]], seeds: str) -> list[tuple[str, ...]]:
    """How the dictionaries were induced, as rows of cells with a head."""
    head = ("mapped", f"seeds ({seeds})", "iterations", "mean cosine", "pairs", "mutual")
    rows: list[tuple[str, ...]] = [(*head, "spelt alike and nearest")]
    for language, told in induced.items():
        alike = "-" if told["identical"] is None else "{:,} of {:,}".format(*told["identical"])
        numbers = (f"{told[name]:,}" for name in ("seeds", "iterations"))
        cosine = f"{told['objective']:.3f}"
        rows.append(
            (language, *numbers, cosine, f"{told['pairs']:,}", f"{told['mutual']:,}", alike)
        )
    return rows
