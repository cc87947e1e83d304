"""MonoTrans: an encoder trained on one language, and other languages learnt under its body.

    text of the source -> step 1 -> body -> step 2, for each target -> its own parts -> one model

The folder of a run:

    config.json         the recipes of all steps, the texts' fingerprints, and what each step trains
    step-1/             an ordinary training on the source language
    step-2/LANGUAGE/    an ordinary training that starts from step 1's model; where it is repeated
                        LANGUAGE-1, LANGUAGE-2, …, of which the best goes into the model
    model/              the body with the parts of all languages: for steps 3 and 4, and for every
                        command that takes an encoder
    transfer/           steps 3 and 4, where tasks are asked for: a run of `crosslens transfer`
    scores.jsonl        held-out perplexity of each language where it was learnt, of a unigram and of
                        a bigram model

Each step is resumed where it was stopped, to the same bits.
"""

import contextlib
import dataclasses
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import TrainingError
from crosslens.files import read_json, refuse_begun
from crosslens.languages import same_language
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
from crosslens.score import Score, read_scores
from crosslens.score_formats import format_value
from crosslens.selection import choose

__all__ = ["run_monotrans", "summary", "trained_rows"]


def run_monotrans(
    recipes: Mapping[str, TrainRecipe],
    folder: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    parallel: str = "ddp",
    asked: Mapping[str, Any] | None = None,
) -> Path:
    """Train all steps and join the languages; returns the folder with ``model`` and
    ``scores.jsonl``.

    Under ``torchrun`` the processes share each training.

    Parameters
    ----------
    recipes: of :func:`crosslens.recipes.monotrans.monotrans`, for this folder.
    resume: a stopped run is resumed.
    asked: what was asked for, kept for another run.

    Raises
    ------
    InputError: texts or settings are not what is needed, of any step: it is said before the first.
    OutputError: the folder holds a run (without ``resume``), or another one.
    TrainingError: a loss is not a number any more, in step 1 or in all repeats of a language; the
        last checkpoint is kept.
    """
    from crosslens.models.machine.distributed import join_world
    from crosslens.models.training.masked_lm import train

    folder = Path(folder)
    with contextlib.ExitStack() as held:
        world = held.enter_context(join_world(device, parallel))
        with world.together():  # the first says what is wrong before it is ended
            given = {"recipe": "monotrans", "settings": dict(asked or {})}
            settings = text_settings(recipes)
            for name, recipe in recipes.items():
                settings[name] |= {"start": next(iter(recipes))} if recipe.start else {}
            run = Run(folder, "monotrans", settings, given)
            if run.begun and not resume:
                refuse_begun(folder)
            finished = run.finished
        with world.together():
            if world.first:
                if not finished:
                    new = not folder.exists()
                    held.enter_context(given_back(folder, ("texts",), "step-1", new=new))
                held.enter_context(run.open())
                if not finished and not (folder / "step-1").exists():
                    _check_texts(recipes, folder / "texts")
        with world.together():
            if world.first and "tasks" in given["settings"]:  # they may be asked for afterwards
                run.note(asked=given)
        if finished:
            return folder
        given_up = dict[str, str]()
        for name, recipe in recipes.items():
            try:
                train(recipe, folder / name, resume=True, device=device, parallel=parallel)
            except TrainingError as error:
                given_up[name] = str(error)
                others = [one for one in _repeats(name, recipes) if one not in given_up]
                if not others:  # step 1, or all trainings of a language
                    raise
                say(f"{name} is given up, {len(others)} of its repeats are left: {error}")
        with world.together():
            if world.first:
                scores = [
                    score
                    for name, recipe in recipes.items()
                    if name not in given_up
                    for score in held_out_scores(name, recipe, folder / name, world.device)
                ]
                chosen = _chosen(scores)
                _join(["step-1", *chosen.values()], folder)
                trained = trained_rows(folder, chosen)
                noted = {"chosen": chosen, "trained": trained, "lost": given_up}
                noted["seen"] = _seen(recipes)
                run.note(versions=versions(), **noted)
                run.finish(scores)
    return folder


def _check_texts(recipes: Mapping[str, TrainRecipe], place: Path) -> None:
    """Refuse every text that cannot be trained on before step 1, which is long: some refusals need
    the vocabulary. What is made for it does not stay."""
    done = set[tuple[str, ...]]()
    for recipe in recipes.values():
        if recipe.languages not in done:  # repeats have the same text
            done.add(recipe.languages)
            prepared(dataclasses.replace(recipe, start=""), place / "_".join(recipe.languages))
    shutil.rmtree(place)


def _repeats(name: str, recipes: Mapping[str, TrainRecipe]) -> list[str]:
    """The trainings of step 2 of the language that one of them is of; of step 1 it alone."""
    mine = recipes[name]
    if not mine.start:
        return [name]
    return [
        one for one, other in recipes.items() if other.start and other.languages == mine.languages
    ]


def _gains(scores: Iterable[Score]) -> dict[str, float]:
    """Training to how much better than a unigram model it is, in nats per masked token: what
    trainings with other masks and vocabularies can be compared by. 0 and below have not learnt."""
    found = {(str(score.encoder), score.condition): score.value for score in scores}
    return {
        name: math.log(found[name, "unigram"]) - math.log(value)
        for (name, condition), value in found.items()
        if condition is None
    }


def _chosen(scores: Sequence[Score]) -> dict[str, str]:
    """Target language to its training that gains most."""
    gains, targets = _gains(scores), dict[str, list[str]]()
    for score in scores:
        if score.condition is None and score.encoder != "step-1":
            targets.setdefault(str(score.target), []).append(str(score.encoder))
    chosen = {language: choose(names, gains.__getitem__) for language, names in targets.items()}
    return {language: one.item for language, one in chosen.items() if one is not None}


def _seen(recipes: Mapping[str, TrainRecipe]) -> dict[str, list[int]]:
    """Training of step 2 -> how many of its held-out sentences step 1 is trained on, and of how many;
    where that is any: of a language that is learnt again (``eng-x``) from another selection of its
    text."""
    from crosslens.models.training.sources import fit_to_text, read_source, split_rows

    (source,) = recipes["step-1"].languages
    again = {
        name: told
        for name, told in recipes.items()
        if same_language(told.languages[0].partition("-x")[0], source)
    }
    if len(again) == 1:  # step 1 itself
        return {}
    sentences = dict[str, tuple[set[str], set[str]]]()
    for name, told in again.items():
        corpora = {one.name: read_source(one) for one in told.sources}
        train, held_out = set[str](), set[str]()
        for place, rows in split_rows(fit_to_text(told, corpora), corpora).items():
            for corpus in corpora[place].values():
                train |= {corpus.sentences[i] for i in rows.train.nonzero()[0].tolist()}
                held_out |= {corpus.sentences[i] for i in rows.held_out.nonzero()[0].tolist()}
        sentences[name] = (train if name == "step-1" else set(), {*filter(str.strip, held_out)})
    first = sentences.pop("step-1")[0]
    return {
        name: [len(kept & first), len(kept)]
        for name, (_, kept) in sentences.items()
        if kept & first
    }


def _join(names: list[str], folder: Path) -> None:
    """Step 4: the body with each language's own parts, as one model."""
    from crosslens.models.saved.joining import join_languages
    from crosslens.models.saved.native import save_model

    first, *others = (folder / name / "model" for name in names)
    model, vocabularies = join_languages(first, others)
    save_model(model, vocabularies, folder / "model")


def trained_rows(folder: str | Path, chosen: Mapping[str, str]) -> list[tuple[str, ...]]:
    """What is trained in each step of a run, as rows of cells: a head, and a row for each part with
    its number of parameters.

    Step 2 is the first target's, of the trainings that are ``chosen`` (language to folder); step 3 is
    what fine-tuning trains of ``model``, beside the head of its task.
    """
    from crosslens.models.network.surgery import freeze, freeze_all_but, parameter_counts
    from crosslens.models.saved.native import load_model

    folder = Path(folder)
    model, _ = load_model(folder / "model")
    source, target = model.languages[:2]
    first, _ = load_model(folder / "step-1" / "model")
    second, _ = load_model(folder / chosen[target] / "model")
    freeze_all_but(second, target)
    freeze(model)
    counts = [parameter_counts(one, trained_only=True) for one in (first, second, model)]
    steps = [
        {part: row[""] + row.get(owner, 0) for part, row in found.items()}
        for found, owner in zip(counts, (source, target, source), strict=True)
    ]
    for part in ("transform", "next_sentence"):  # no task reads them
        steps[2].pop(part, None)
    cells = [
        (part, *(f"{told[part]:,}" if told.get(part) else "-" for told in steps))
        for part in parameter_counts(model)
    ]
    return [("trained", "step 1", "step 2", "step 3"), *cells]


def summary(folder: str | Path) -> list[Any]:
    """What is trained in each step, the perplexities, and what comes next: tables and sentences."""
    folder = Path(folder)
    config = read_json(folder / "config.json")
    head = ("learnt", "perplexity", "of a unigram model", "of a bigram model", "masked tokens")
    rows: list[tuple[str, ...]] = [head]
    found = {(one.encoder, one.condition): one for one in read_scores(folder / "scores.jsonl")}
    for (name, condition), score in found.items():
        if condition is None:
            each = (score, found[name, "unigram"], found.get((name, "bigram")))
            told = (*("-" if one is None else format_value(one.value, 1) for one in each),)
            told = (*told, f"{score.n:,}")
            rows.append((f"{score.source}, {name}", *told))
    scores = list(found.values())
    last = fine_tuned_told(folder, "Steps 3 and 4")
    return [[tuple(row) for row in config["trained"]], rows, *_told(scores, config), *last]


def _told(scores: Sequence[Score], config: Mapping[str, Any]) -> list[str]:
    """Which trainings of step 2 went into the model, and how many learnt nothing; where there is
    something to say."""
    gains, chosen = _gains(scores), config.get("chosen") or {}
    diverged = dict(config.get("lost") or {})
    second = [*(name for name in gains if name != "step-1"), *diverged]
    unlearnt = [name for name in second if name in diverged or not gains[name] > 0]
    told = [
        f"{seen} of {n} held-out sentences of {name} are in the text of step 1: its perplexity is too "
        "good."
        for name, (seen, n) in (config.get("seen") or {}).items()
    ]
    if len(second) > len(chosen):
        names = ", ".join(f"{name} ({gains[name]:.2f} nats)" for name in chosen.values())
        told.append(
            f"Of repeated trainings those went into the model that gain most: {names}. They are "
            "chosen on these very sentences, which makes their perplexities somewhat too good."
        )
    if unlearnt:
        told.append(
            f"{len(unlearnt)} of {len(second)} {'training' if len(second) == 1 else 'trainings'} of step 2 "
            "did not converge: no better than a "
            f"unigram model, or their loss was no number any more ({', '.join(unlearnt)})."
        )
    return told
