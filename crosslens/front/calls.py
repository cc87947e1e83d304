"""Runs: texts, encoders and a folder to measurements that are kept, as the command line makes
them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.front.results import Run
from crosslens.progress import say

__all__ = ["names_of", "probe", "study", "train", "training_recipes", "transfer"]

_Files = str | Path | Sequence[str | Path]


def study(
    encoder: str | Path | Mapping[str, str | Path],
    texts: Mapping[str, str | Path],
    out: str | Path,
    *,
    train_fraction: float = 0.5,
    seed: int = 0,
    device: str = "cpu",
    trust_remote_code: bool = False,
    preset: str | None = None,
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
    out: the run's folder. The same call resumes a run that was stopped, and opens one that is
        finished.
    train_fraction: share of the sentences that mappings and probes are fitted on; the others are
        held out.
    seed: of the split, of the random encoder and of the shuffled labels.
    device: where encoders run: "cpu", "cuda", "cuda:1" or "mps".
    trust_remote_code: run the Python code that an encoder's folder brings.
    preset: "deshpande" or "xtreme": sentences are read as in these, special tokens included, and
        retrieval at their layer is told (:mod:`crosslens.run.retrieval_presets`).

    Returns
    -------
    The run: ``.scores``, ``.figure()``, ``.report()``, ``.to_pandas()``.

    Raises
    ------
    InputError: texts or encoders do not fit.
    OutputError: the folder holds something else, or cannot be written to.

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
        "preset": preset,
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


def probe(
    encoder: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    battery: str | None = None,
    only: str | Sequence[str] = (),
    data: str | Path | None = None,
    train: str | Sequence[str] | None = None,
    test: str | Sequence[str] = (),
    labels: Mapping[str, _Files] | None = None,
    numbers: Mapping[str, _Files] | None = None,
    treebank: str | None = None,
    mdl: bool = False,
    probe: str = "linear",
    pll: str = "original",
    random_control: bool = True,
    limit: int | None = None,
    seed: int = 0,
    seeds: int | None = None,
    device: str = "cpu",
    language: str = "",
    trust_remote_code: bool = False,
) -> Run:
    """Probe what the layers of an encoder know, on a battery of tasks or on your own, beside every
    control.

    Parameters
    ----------
    encoder: a folder or hub name; several are compared on the same items.
    out: the run's folder. The same call resumes a run that was stopped, and opens one that is
        finished.
    battery: "semantic", "syntactic", "language" or "all" tasks of the catalogue; ``only``: some of
        them by name; ``data``: the folder that holds the data sets, or "hf:" for the hub.
    train, test: the language that probes are trained on, or several, together; and further ones
        that they are tested on: ``only=["upos"], train="eng", test=["fra", "hin"]``.
    labels: a task of one's own, ``{"tense": "tense.tsv"}``, a file with lines ``label TAB text``,
        or a list of three, to train, choose and test on; ``numbers`` likewise, for numbers.
    limit: most items of each part of a task. seeds: how many seeds. This and all others are
        described in full by :class:`crosslens.run.probing.battery.Battery`, which has the same names.

    Returns
    -------
    The run: ``.scores``, ``.outcomes(task=…)``, ``.figure()``, ``.report()``.

    Raises
    ------
    InputError: data or encoders are not what is needed.
    OutputError: the folder holds something else.

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
    settings = {name: value for name, value in locals().items() if name not in ("encoder", "out")}
    from crosslens.run.probing.battery import Battery, run_battery

    for name in ("labels", "numbers"):
        settings[name] = {task: _files(files) for task, files in (settings[name] or {}).items()}
    settings["data"] = None if data is None else str(data)
    settings["only"], settings["test"] = names_of(only), names_of(test)
    several = list(encoder) if isinstance(encoder, (list, tuple)) else [encoder]
    encoders = [_path(name, "encoder", "a folder or a hub name") for name in several]
    return Run(run_battery(Battery(encoders=encoders, **settings), out))


def transfer(
    encoder: str | Path | Sequence[str | Path],
    tasks: str | Sequence[str],
    train: str | Sequence[str],
    test: str | Sequence[str],
    data: str | Path,
    out: str | Path,
    *,
    preset: str = "default",
    epochs: int | None = None,
    batch_size: int | None = None,
    group_by_length: bool | None = None,
    peak_rate: float | None = None,
    head_rate: float | None = None,
    max_length: int | None = None,
    pool: str | None = None,
    warmup: float | None = None,
    noise: float | None = None,
    parser: str = "wu_dredze",
    gold_pos: bool = False,
    crf: bool = False,
    features: str | None = None,
    segment: str | None = None,
    words_apart: bool = False,
    derived: Mapping[str, str] | None = None,
    unseen: str = "unknown",
    freeze: int | Sequence[int] = -1,
    seeds: int = 3,
    seed: int = 0,
    in_language: bool = False,
    random_control: bool = True,
    checkpoints: bool = True,
    average: int = 3,
    limit: int | None = None,
    keep: bool = False,
    precision: str = "float32",
    device: str = "cpu",
    trust_remote_code: bool = False,
) -> Run:
    """Fine-tune an encoder on one language, or several, and test it on others.

    Each number is a mean over seeds with a 95 % interval over seeds and test items, and stands
    beside the most frequent label and a fine-tuned encoder of random weights.

    Parameters
    ----------
    encoder: a folder or hub name; several are compared on the same items.
    tasks: names of tasks of the catalogue: "ner", "upos", "xnli", "topic", …
    train: languages that are trained on together. test: languages that are tested on. Codes, or
        names of treebanks; ``test="all"`` is every language that there is data in.
    data: the folder with the data sets, or "hf:". out: the run's folder; the same call resumes a
        run that was stopped, and opens one that is finished.
    preset: settings by name: "default", "wu_dredze", "wu_dredze_code", "conneau", "artetxe",
        "deshpande", "xtreme". Those that follow stand in the place of its own;
        group_by_length makes batches of inputs of like length, and noise is added to embeddings in
        training (0.075 in Artetxe et al. 2020): the presets have neither.
    parser: "wu_dredze", "allennlp" or "supar", sizes of the parser; gold_pos: it is given the words'
        parts of speech. crf: of tags, a conditional random field over each sentence's words.
    segment: "rjieba", "pythainlp" or "sudachipy": of names, its words are taken in its language.
    words_apart: of treebanks, a space stands between any two words, so that those of one token are
        read each by itself.
    derived: derived language -> "ORIGINAL:TRANSFORMATIONS", for encoders whose folder does not say it;
        unseen: what stands for subwords that an encoder has no embedding of, "unknown" or "random".
    features: freezes the encoder, and learns beside the head a mean of its layers and an LSTM
        ("mix+bilstm"), or four new layers on the last one ("transformer").
    freeze: -1 trains everything, 0 all but the embeddings, n all but these and the first n layers.
    seeds: how many. in_language: fine-tune on each test language, too. keep: keep the fine-tuned
        encoders of the first seed in ``out/encoders``. All are described in full by
        :class:`crosslens.run.transfer.settings.Transfer`, which has the same names.

    Returns
    -------
    The run: ``.scores``, ``.outcomes(task=…)``, ``.report()``.

    Raises
    ------
    InputError: data, settings or encoders are not what is needed.
    OutputError: the folder holds something else.
    TrainingError: a loss is not a number.

    >>> import tempfile
    >>> import crosslens as cl
    >>> from crosslens.recipes.quickstart import DATA  # the encoder that the package carries
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "xnli").mkdir()
    >>> def pair(i, word): return f"The {word} sleeps in house {i}.\\t{word}\\t{'neutral' if word == 'dog' else 'entailment'}"
    >>> for split, n in (("train", 16), ("dev", 4), ("test", 8)):
    ...     lines = "\\n".join(pair(i, "dog" if i % 2 else "cat") for i in range(n))
    ...     _ = (folder / "xnli" / f"{split}-en.tsv").write_text(lines)
    >>> run = cl.transfer(DATA / "tiny-encoder", "xnli", "eng", "eng", folder, folder / "run", seeds=2, peak_rate=1e-3,
    ...                   epochs=4, batch_size=4, random_control=False, checkpoints=False)
    >>> [(score.condition, score.value) for score in run.scores.where(part="test")]
    [(None, 1.0), ('majority', 0.5)]
    """
    settings = {
        name: value
        for name, value in locals().items()
        if name not in ("encoder", "tasks", "train", "test", "data", "out", "freeze", "derived")
    }
    from crosslens.run.transfer.settings import Transfer
    from crosslens.run.transfer.transfer import run_transfer

    several = list(encoder) if isinstance(encoder, (list, tuple)) else [encoder]
    encoders = [_path(name, "encoder", "a folder or a hub name") for name in several]
    layers = list(freeze) if isinstance(freeze, Iterable) else [freeze]
    told = Transfer(
        encoders=encoders,
        tasks=names_of(tasks),
        train=names_of(train),
        test=names_of(test),
        data=str(data),
        freeze=layers,
        derived=dict(derived or {}),
        **settings,
    )
    return Run(run_transfer(told, out))


def names_of(given: str | Sequence[str]) -> list[str]:
    """Names that were given as a list, or as one text with commas.

    >>> names_of("upos, ner"), names_of(["upos", "ner"])
    (['upos', 'ner'], ['upos', 'ner'])
    """
    listed = given.split(",") if isinstance(given, str) else given
    return [name.strip() for name in listed if name.strip()]


def _files(files: str | Path | Sequence[str | Path]) -> list[str]:
    return [str(files)] if isinstance(files, (str, os.PathLike)) else [str(path) for path in files]


def train(
    recipe: str | Path | Any,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    device: str = "auto",
    parallel: str = "ddp",
    settings: Mapping[str, Any] | None = None,
    seeds: int | None = None,
) -> Run:
    """Train an encoder by masked language modelling, on one language or several.

    Parameters
    ----------
    recipe: a TOML file; the folder of an earlier run; "tiny-encoder", "emergence", "monotrans",
        "clwe", "joint-pair" or "joint-multi", which are recipes by name; or a
        :class:`crosslens.models.training.settings.TrainRecipe`.
    out: the run's folder: the model, its log, and a checkpoint to go on from; runs/NAME of the
        recipe's name without it.
    resume: resume a run that was stopped, to the same weights bit for bit; without ``out`` that of
        the folder that ``recipe`` names.
    device: "auto" (a GPU where there is one), "cpu" or "cuda".
    parallel: "ddp" or "fsdp", how the processes of torchrun share a model.
    settings: what to change in the recipe, by name: ``{"steps": 2000, "masking.rate": 0.3}``. Of a
        recipe by name, ``"data"`` says where its texts are; of "monotrans" and "clwe", with
        ``"tasks"``, where the data of these are: the model is fine-tuned on them and tested in every
        language, in the folder ``transfer`` of the run's.
    seeds: of a controlled study by name ("deshpande-compositions"): how many, 3 without it.

    Returns
    -------
    The run: ``load_encoder(run.model)`` loads the encoder; ``run.report()`` samples its curves; what was
    fine-tuned of it is ``cl.Run(run.folder / "transfer")``.

    Raises
    ------
    InputError: the recipe or its texts are not what is needed.
    OutputError: the folder holds another run.
    TrainingError: the loss is not a number.

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
    from crosslens.front import named_trainings
    from crosslens.models.training.masked_lm import train as run_training

    if resume and out is None and isinstance(recipe, str | Path):
        out = recipe if (Path(recipe) / "config.json").is_file() else None
    if (named := _study_of(recipe, settings)) is not None:
        return _train_study(*named, out, seeds, resume=resume, device=device, parallel=parallel)
    if seeds is not None:
        refuse("seeds", "a controlled study by name", str(recipe), "train with seed=0, seed=1, …")
    if (asked := named_trainings.monotrans_asked(recipe, settings)) is not None:
        how = {"resume": resume, "device": device, "parallel": parallel}
        return named_trainings.train_monotrans(asked, out, **how)
    if (asked := named_trainings.clwe_asked(recipe, settings)) is not None:
        how = {"resume": resume, "device": device, "parallel": parallel}
        return named_trainings.train_clwe(asked, out, **how)
    recipes = training_recipes(recipe, settings)
    if len(recipes) == 1:
        ((name, one),) = recipes.items()
        model = run_training(
            one, out or f"runs/{name}", resume=resume, device=device, parallel=parallel
        )
        return Run(model.parent)
    from crosslens.recipes import emergence_settings
    from crosslens.recipes.emergence import emergence_text
    from crosslens.run.trainings.emergence import run_emergence

    if (processes := os.environ.get("WORLD_SIZE", "1")) != "1":
        expected, told = "one process (the models are small)", "run it without torchrun"
        refuse("emergence", expected, f"{processes} of torchrun", told)
    asked = {**(emergence_settings(str(recipe)) or {}), **(settings or {})}
    say("reading the text")
    text, out = emergence_text(asked.get("data")), out or "runs/emergence"
    return Run(run_emergence(recipes, text, out, resume=resume, device=device, asked=asked))


def _study_of(
    recipe: str | Path | Any, settings: Mapping[str, Any] | None
) -> tuple[str, dict[str, Any], int | None] | None:
    """Name, settings and seeds of a controlled study; None for other recipes."""
    from crosslens.recipes import study_settings

    found = study_settings(str(recipe)) if isinstance(recipe, str | Path) else None
    return None if found is None else (found[0], {**found[1], **(settings or {})}, found[2])


def _train_study(
    name: str,
    settings: Mapping[str, Any],
    before: int | None,
    out: str | Path | None,
    seeds: int | None,
    *,
    resume: bool,
    device: str,
    parallel: str,
) -> Run:
    from crosslens.recipes.controlled import asked_anywhere, controlled_study, study_texts
    from crosslens.run.trainings.controlled import run_controlled, seeds_of

    study = controlled_study(name, settings)
    texts = study_texts(study, settings)
    place = Path(out or f"runs/{next(iter(study.conditions.values())).recipe.name}")
    if seeds is None:  # a run that is resumed keeps its own, unless others are asked for
        seeds = before or (seeds_of(place) if resume else None) or 3
    folder = run_controlled(
        study,
        texts,
        place,
        seeds=seeds,
        resume=resume,
        device=device,
        parallel=parallel,
        asked=asked_anywhere(settings),
    )
    return Run(folder)


def training_recipes(
    recipe: str | Path | Any, settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What :func:`train` would train, name by name, with all that it does not say filled in; of
    "emergence" one for each condition, of "monotrans" one for each step, of "clwe" the encoder's.

    Raises
    ------
    InputError: there is no such recipe or setting.

    >>> [(name, recipe.sharing) for name, recipe in training_recipes("emergence", {"steps": 300}).items()]
    [('shared', 'sep=token'), ('half', 'sep=token,1'), ('none', 'sep=token,1-2'), ('separate', 'sep=all')]
    """
    from crosslens.front import named_trainings
    from crosslens.models.training.settings import TrainRecipe, with_overrides
    from crosslens.recipes import emergence_settings, load_recipe
    from crosslens.recipes.emergence import emergence, fit_conditions
    from crosslens.recipes.joint import JOINT, joint

    if (named := _study_of(recipe, settings)) is not None:
        from crosslens.recipes.controlled import controlled_study

        conditions = controlled_study(*named[:2]).conditions
        return {name: condition.recipe for name, condition in conditions.items()}
    if (asked := named_trainings.monotrans_asked(recipe, settings)) is not None:
        from crosslens.recipes.monotrans import monotrans

        return monotrans(asked, "runs/monotrans")
    if (asked := named_trainings.clwe_asked(recipe, settings)) is not None:
        from crosslens.recipes.clwe import clwe

        return {"bert": clwe(asked, "runs/clwe").bert}
    given = dict(settings or {})
    if isinstance(recipe, TrainRecipe):
        return {recipe.name: with_overrides(recipe, given)}
    if recipe in JOINT:
        one = joint(str(recipe), given)
        return {one.name: one}
    if (before := emergence_settings(str(recipe))) is None:
        whole = with_overrides(load_recipe(str(recipe), given.pop("data", None)), given)
        return {whole.name: whole}
    if "sharing" in given:
        told = "train a recipe of your own with another plan"
        refuse("sharing", "the conditions of the recipe", repr(given["sharing"]), told)
    given = {name: value for name, value in {**before, **given}.items() if name != "data"}
    return fit_conditions({name: with_overrides(one, given) for name, one in emergence().items()})
