"""What runs of several trainings have in common: which settings and texts they depend on, and how well
each training has learnt its languages."""

import contextlib
import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import InputError, refuse
from crosslens.files import free_folder, make_folder, write_whole
from crosslens.models.text.vocabularies import Vocabularies
from crosslens.models.training.settings import TrainRecipe, recipe_settings
from crosslens.score import Score, read_scores

__all__ = [
    "FINE_TUNED",
    "fine_tuned_told",
    "given_back",
    "held_out_scores",
    "prepared",
    "text_settings",
    "write_texts",
]

FINE_TUNED = "transfer"
"""Of a training's folder the one in which its model is fine-tuned, where that is asked for."""


@contextlib.contextmanager
def given_back(folder: Path, made: Sequence[str], learnt: str, *, new: bool) -> Iterator[None]:
    """Free a run's folder when it is refused before anything was learnt: what was made would refuse
    the corrected settings.

    Parameters
    ----------
    made: names of what there is by then, beside the claim. learnt: pattern of what is kept, in the
        folder. new: the folder was not there before.
    """
    try:
        yield
    except InputError:
        if not any(folder.glob(learnt)):
            free_folder(folder, ("config.json", *made), new=new)
        raise


def write_texts(folder: Path, texts: Mapping[str, Sequence[str]]) -> Path:
    """Write each text, a sentence a line, to ``text/NAME.txt`` of a run's folder, but for those that
    are there, and return where they are."""
    place = make_folder(folder / "text", str(folder))
    for name, lines in texts.items():
        if not (place / f"{name}.txt").exists():
            write_whole(place / f"{name}.txt", "".join(f"{line}\n" for line in lines))
    return place


def text_settings(recipes: Mapping[str, TrainRecipe]) -> dict[str, dict[str, Any]]:
    """What the weights depend on: the recipes, with the texts' contents in the place of their
    paths; each is checked against its text.

    Raises
    ------
    InputError: a text is missing, unfit or too short; or settings do not go together.
    """
    from crosslens.models.training.sources import excluded_contents, fit_to_text, read_source

    settings = {}
    for name, recipe in recipes.items():
        corpora = {source.name: read_source(source) for source in recipe.sources}
        fit_to_text(recipe, corpora)
        told = recipe_settings(recipe)
        for source in told["sources"]:
            texts = corpora[source["name"]].items()
            source["texts"] = {language: corpus.fingerprint[:16] for language, corpus in texts}
        told["exclude"] = excluded_contents(recipe)
        settings[name] = json.loads(json.dumps(told))
    return settings


def prepared(recipe: TrainRecipe, folder: Path) -> Vocabularies:
    """A recipe's vocabularies, learnt, and its texts tokenised, or both found done, before any training.

    Raises
    ------
    InputError: a text cannot be trained on, or none of its held-out sentences can be read, so that
        nothing would be measured.
    """
    from crosslens.models.training.masked_lm import prepare
    from crosslens.models.training.sources import fit_to_text, read_source

    corpora = {source.name: read_source(source) for source in recipe.sources}
    vocabularies, data = prepare(fit_to_text(recipe, corpora), corpora, folder)
    for language in recipe.languages:
        if not any(stream.languages == (language,) for stream in data.held_out.values()):
            expected = f"held-out sentences of at most {recipe.max_length} subwords"
            remedy = "raise validation, or max_length"
            refuse(f"text of {language}", expected, "none", remedy)
    return vocabularies


def held_out_scores(name: str, recipe: TrainRecipe, folder: Path, device: Any) -> Iterator[Score]:
    """Perplexity of the held-out text of a finished training, and those of a unigram and a bigram
    model of the same tokens.

    Parameters
    ----------
    name: what the scores call the training. folder: where it is.
    device: of torch.
    """
    from crosslens.models.saved.native import load_model
    from crosslens.models.training.masked_batches import MaskedBatches
    from crosslens.models.training.masked_lm import prepare
    from crosslens.models.training.sources import fit_to_text, read_source
    from crosslens.models.training.validation import held_out_losses

    corpora = {source.name: read_source(source) for source in recipe.sources}
    recipe = fit_to_text(recipe, corpora)
    vocabularies, data = prepare(recipe, corpora, folder)
    model = load_model(folder / "model")[0].to(device).eval()
    batches = MaskedBatches(recipe, data, vocabularies)
    for language, losses in held_out_losses(model, batches, device).items():
        found = {None: losses.model, "unigram": losses.unigram, "bigram": losses.bigram}
        for condition, loss in found.items():
            yield Score(
                quantity="perplexity",
                value=math.exp(loss),
                n=losses.n,
                source=language,
                target=language,
                condition=condition,
                encoder=name,
                seed=recipe.seed,
            )


def fine_tuned_told(folder: Path, step: str) -> list[Any]:
    """The tables of what a training's model was fine-tuned on and tested in; where it was not, the
    command that does it.

    Parameters
    ----------
    step: what this is called in the training.
    """
    place = folder / FINE_TUNED
    if not (place / "scores.jsonl").is_file():
        named = shlex.quote(str(folder))
        return [f"{step}: crosslens train {named} tasks=TASK data=DATA --resume --out {named}"]
    from crosslens.run.transfer.summary import tables

    told: list[Any] = [f"{step}, in {place}"]
    for title, rows, said in tables(place, list(read_scores(place / "scores.jsonl"))):
        if len(rows) > 1:
            told += [part for part in (title and f"{title}:", rows, said) if part]
    return told
