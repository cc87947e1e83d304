"""Runs: texts, encoders and a folder to measurements that are kept, as the command line makes
them."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.front.results import Run

__all__ = ["probe", "study", "train"]


def study(
    encoder: str | Path | Mapping[str, str | Path],
    texts: Mapping[str, str | Path],
    out: str | Path,
    *,
    train_fraction: float = 0.5,
    seed: int = 0,
    device: str = "cpu",
    trust_remote_code: bool = False,
) -> Run:
    """Study parallel texts layer by layer: retrieval, similarity and language identification, each
    beside its controls.

    For every layer and pair of languages: is the nearest sentence of the other language the
    translation, before and after a rotation (orthogonal Procrustes) that was fitted on other
    sentences? How alike are the representations (linear CKA)? And can the language be read off? The
    same encoder with random weights is measured beside it.

    Parameters
    ----------
    encoder: a folder or hub name; for monolingual encoders a dictionary, language to encoder.
    texts: language (ISO 639-3) to a UTF-8 file with a sentence per line; line i is the same
        sentence in all. Two languages or more, 20 sentences or more.
    out: the run's folder. The same call goes on with a run that was stopped, and opens one that is
        finished.
    train_fraction: share of the sentences that mappings and probes are fitted on; the others are
        held out.
    seed: of the split, of the random encoder and of the shuffled labels.
    device: where encoders run: "cpu", "cuda", "cuda:1" or "mps".
    trust_remote_code: run the Python code that an encoder's folder brings.

    Returns
    -------
    The run: ``.scores``, ``.figure()``, ``.report()``, ``.to_pandas()``.

    Raises
    ------
    InputError: texts or encoders do not fit. OutputError: the folder holds something else, or
        cannot be written to.

    >>> import tempfile
    >>> import crosslens as cl
    >>> from crosslens.recipes.quickstart import DATA  # the encoder and the sentences that the package carries
    >>> texts = {language: DATA / "corpus" / f"{language}.txt" for language in ("eng", "fra")}
    >>> run = cl.study(DATA / "tiny-encoder", texts, tempfile.mkdtemp() + "/run")  # a few seconds
    >>> best = run.scores.where(task="sentence_retrieval", condition="procrustes", part="held_out", source="eng", layer=3)
    >>> best.to_pandas()[["target", "n", "fitted_on"]].values.tolist()
    [['fra', 300, 300]]
    """
    from crosslens.run.study import Study, run_study

    given = encoder if isinstance(encoder, Mapping) else {"*": encoder}
    encoders = {
        who: _path(name, "encoder", "a folder or a hub name") for who, name in given.items()
    }
    files = {
        language: _path(path, f"texts[{language!r}]", "a file of text")
        for language, path in texts.items()
    }
    told: dict[str, Any] = {
        "train_fraction": train_fraction,
        "seed": seed,
        "device": device,
        "trust_remote_code": trust_remote_code,
    }
    return Run(run_study(Study(encoders=encoders, texts=files, **told), out))


def _path(value: Any, name: str, expected: str) -> str:
    if not isinstance(value, (str, os.PathLike)):
        refuse(
            name,
            expected,
            type(value).__name__,
            "give its name: the run loads it, and knows it again by its content",
        )
    return str(value)


def probe(encoder: str | Path | Sequence[str | Path], out: str | Path, **settings: Any) -> Run:
    """Probe what the layers of an encoder know, on a battery of tasks or on your own, beside every
    control.

    Parameters
    ----------
    encoder: a folder or hub name; several are compared on the same items.
    out: the run's folder. The same call goes on with a run that was stopped, and opens one that is
        finished.
    settings: as for ``crosslens probe``.
        ``battery="semantic"``, "syntactic", "language" or "all", and ``only``, some tasks of the
        catalogue, with ``data``, the folder that holds the data sets. ``train`` and ``test``: the
        language that probes are trained on, and further ones that they are tested on:
        ``only=["upos"], train="eng", test=["fra", "hin"]``.
        ``labels``: a task of one's own, ``{"tense": "tense.tsv"}``, a file with lines ``label TAB
            text``, or a list of three, to train,
        choose and test on; ``numbers`` likewise, for numbers.
        ``limit``, most items of each part of a task; ``seed``; ``seeds``, how many; ``device``; and
        what else :class:`crosslens.run.battery.Battery` has.

    Returns
    -------
    The run: ``.scores``, ``.outcomes(task=…)``, ``.figure()``, ``.report()``.

    Raises
    ------
    InputError: data or encoders are not what is needed, or there is no such setting. OutputError:
        the folder holds something else.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import crosslens as cl
    >>> from crosslens.recipes.quickstart import DATA  # the encoder and the sentences that the package carries
    >>> languages = {language: (DATA / "corpus" / f"{language}.txt").read_text("utf-8").splitlines()[:60] for language in ("eng", "fra")}
    >>> place = Path(tempfile.mkdtemp())
    >>> lines = [f"{language}\\t{sentence}" for language, sentences in languages.items() for sentence in sentences]
    >>> _ = (place / "language.tsv").write_text("\\n".join(lines), encoding="utf-8")
    >>> run = cl.probe(DATA / "tiny-encoder", place / "run", labels={"language": place / "language.tsv"})
    >>> reached = run.scores.where(task="language", quantity="accuracy", part="test", layer=4)
    >>> [(score.condition, score.value > 0.9) for score in reached if score.condition in (None, "shuffled_labels")]
    [(None, True), ('shuffled_labels', False)]
    """
    from crosslens.run.battery import Battery, run_battery

    known = [field.name for field in dataclasses.fields(Battery) if field.name != "encoders"]
    if wrong := [name for name in settings if name not in known]:
        refuse("settings", f"some of {', '.join(known)}", ", ".join(wrong), "choose among them")
    for name in ("labels", "numbers"):
        if name in settings:
            settings[name] = {task: _files(files) for task, files in settings[name].items()}
    if settings.get("data") is not None:
        settings["data"] = str(settings["data"])
    several = list(encoder) if isinstance(encoder, (list, tuple)) else [encoder]
    encoders = [_path(name, "encoder", "a folder or a hub name") for name in several]
    return Run(run_battery(Battery(encoders=encoders, **settings), out))


def _files(files: str | Path | Sequence[str | Path]) -> list[str]:
    return [str(files)] if isinstance(files, (str, os.PathLike)) else [str(path) for path in files]


def train(
    recipe: str | Path | Any,
    out: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    settings: Mapping[str, Any] | None = None,
) -> Run:
    """Train an encoder by masked language modelling, on one language or several.

    Parameters
    ----------
    recipe: a TOML file, as the README shows one; "tiny-encoder" or "emergence", which are recipes
        by name; or a :class:`crosslens.models.training.settings.TrainRecipe`.
    out: the run's folder: the model, its log, and a checkpoint to go on from.
    resume: go on with a run that was stopped, to the same weights bit for bit.
    device: "auto" (a GPU where there is one), "cpu" or "cuda".
    settings: what to change in the recipe, by name: ``{"steps": 2000, "masking.rate": 0.3}``. Of a
        recipe by name, ``"data"`` says where its texts are.

    Returns
    -------
    The run: ``load_encoder(run.model)`` loads the encoder; ``run.report()`` draws its curves.

    Raises
    ------
    InputError: the recipe or its texts are not what is needed. OutputError: the folder holds
        another run. TrainingError: the loss is not a number.

    >>> import tempfile
    >>> import crosslens as cl
    >>> from crosslens.recipes.quickstart import DATA  # the sentences that the package carries
    >>> place = Path(tempfile.mkdtemp())
    >>> recipe = f'name = "mine"\\nsteps = 2\\n[[sources]]\\nname = "corpus"\\ntexts = {{eng = "{DATA}/corpus/eng.txt"}}\\n'
    >>> _ = (place / "mine.toml").write_text(recipe)
    >>> small = {"vocabulary.size": 400, "encoder.layers": 1, "encoder.hidden_size": 32, "encoder.heads": 2}
    >>> run = cl.train(place / "mine.toml", place / "run", settings=small, device="cpu")
    >>> cl.load_encoder(run.model).layers
    2
    """
    from crosslens.models.training.masked_lm import train as run_training
    from crosslens.models.training.settings import TrainRecipe, with_overrides
    from crosslens.recipes import load_recipe

    given = dict(settings or {})
    if recipe == "emergence":
        return _train_emergence(given, out, resume, device)
    if not isinstance(recipe, TrainRecipe):
        recipe = load_recipe(str(recipe), given.pop("data", None))
    return Run(
        run_training(with_overrides(recipe, given), out, resume=resume, device=device).parent
    )


def _train_emergence(given: dict[str, Any], out: str | Path, resume: bool, device: str) -> Run:
    """The recipe that trains several models, one for each condition."""
    from crosslens.models.training.settings import with_overrides
    from crosslens.recipes.emergence import emergence, emergence_text
    from crosslens.run.emergence import run_emergence

    asked = dict(given)
    text = emergence_text(given.pop("data", None))
    recipes = {name: with_overrides(recipe, given) for name, recipe in emergence().items()}
    return Run(run_emergence(recipes, text, out, resume=resume, device=device, asked=asked))
