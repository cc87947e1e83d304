"""Emergence: one language, a copy of it under ids of its own, and how much must be shared for the
two to fall into one space.

    text -> sentences for training and for the end -> one training per condition -> a study of each
    -> scores

The folder of a run:

    config.json    the recipes of all conditions, and the text's fingerprint
    text/          what is trained on, and the sentences that are kept for the end
    CONDITION/     an ordinary training run, and study/: retrieval and similarity of its two views
                   on the sentences that were kept
    scores.jsonl   what was measured at the end, of all conditions

:mod:`crosslens.report` draws the folder, finished or not.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from crosslens.asked import asked_of
from crosslens.errors import InputError, StoreError, refuse
from crosslens.files import (
    check_name,
    fingerprint,
    parse_json,
    read_json,
    refuse_begun,
)
from crosslens.models.training.settings import TrainRecipe, recipe_settings
from crosslens.progress import say
from crosslens.run.engine import Run
from crosslens.run.study import Study, run_study
from crosslens.run.trainings.shared import write_texts
from crosslens.score import Score, not_measured, read_scores
from crosslens.score_formats import format_value
from crosslens.selection import best_layer
from crosslens.stats import wilson_interval

__all__ = ["run_emergence", "sharing_rows", "split_rows", "split_text", "summary", "what_is_shared"]

_KEPT, _WORDS = 500, (5, 25)  # sentences for the end, and how long they may be
_AT_THE_END = {"precision_at_1": None, "linear_cka": None, "debiased_linear_cka": None}


class _Aligned(TypedDict):
    value: float
    by_frequency: float
    n: int


class _Line(TypedDict):
    """A line of the log of a training."""

    tokens: int
    seconds: float
    alignment: NotRequired[dict[str, _Aligned]]


def run_emergence(
    recipes: Mapping[str, TrainRecipe],
    sentences: Sequence[str],
    folder: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    asked: Mapping[str, Any] | None = None,
) -> Path:
    """Train all conditions, measure each, and return the folder with ``scores.jsonl``.

    Parameters
    ----------
    recipes: condition to its recipe; each has one source of two languages, the second a copy of the
        first. The source's texts are replaced by the run's own.
    sentences: the text, a sentence each.
    folder: the run's folder; with ``resume`` a stopped run is resumed.
    asked: what changes the recipe, kept for another run.

    Raises
    ------
    InputError: too few sentences.
    OutputError: the folder holds a run (without ``resume``), or another one.
    """
    from crosslens.models.training.masked_lm import train

    folder = Path(folder)
    seed = next(iter(recipes.values())).seed
    kept, rest = split_text(sentences, seed)
    settings = {"text": fingerprint(list(sentences)), **_told(recipes)}
    given = {"recipe": "emergence", "settings": asked_of(asked or {}, ["data", "exclude"])}
    run = Run(folder, "emergence", settings, given)
    if run.begun and not resume:
        refuse_begun(folder)
    with run.open():
        text = write_texts(folder, {"training": rest, "kept": kept})
        for name, recipe in recipes.items():
            train(
                _with_text(recipe, text / "training.txt"), folder / name, resume=True, device=device
            )
            _measure(recipe, folder / name, text / "kept.txt")
        if not run.finished:
            run.finish(score for name in recipes for score in _scores(folder / name, name))
    return folder


def _told(recipes: Mapping[str, TrainRecipe]) -> dict[str, Any]:
    """The settings of all conditions: once where they agree, else by condition."""
    asked = {name: recipe_settings(recipe) for name, recipe in recipes.items()}
    first = next(iter(asked.values()))
    agreed = {
        key: value
        for key, value in first.items()
        if key != "sources" and all(other[key] == value for other in asked.values())
    }
    return {
        **agreed,
        **{
            key: {name: asked[name][key] for name in asked}
            for key in first
            if key not in agreed and key != "sources"
        },
    }


def split_text(sentences: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """Different sentences: some of middling length that are kept for the end, and all others for
    training.

    Raises
    ------
    InputError: there are too few.

    >>> kept, rest = split_text([f"this is sentence number {i} of the text" for i in range(2000)], seed=0)
    >>> len(kept), len(rest)
    (500, 1500)
    """
    lines = [line.strip() for line in sentences]
    kept, rest = split_rows(lines, seed)
    return [lines[i] for i in kept], [lines[i] for i in rest]


def split_rows(
    lines: Sequence[str],
    seed: int,
    words: tuple[int, int] = _WORDS,
    may: Sequence[bool] | None = None,
    what: str = "text",
    count: Callable[[str], int] = lambda line: len(line.split()),
) -> tuple[list[int], list[int]]:
    """Which lines are kept for the end and which are for training: the first of equal ones.

    Parameters
    ----------
    words: the fewest and the most words of a line that is kept.
    may: for each line whether it may be kept; None where all may.
    what: what the user calls the text.
    count: how many words a line has.

    Raises
    ------
    InputError: there are too few.
    """
    first = {line: i for i, line in reversed(list(enumerate(lines))) if line}
    different = sorted(first.values())
    fit = [
        i for i in different if words[0] <= count(lines[i]) <= words[1] and (may is None or may[i])
    ]
    if len(fit) < 2 * _KEPT:
        least = f"at least {2 * _KEPT} different sentences of {words[0]} to {words[1]} words"
        least += "" if may is None else ", short on their other sides (a paraphrase in other words)"
        refuse(what, least, str(len(fit)), "give more text, a sentence per line")
    chosen = set(
        np.random.default_rng([seed, 0xE3]).choice(len(fit), _KEPT, replace=False).tolist()
    )
    kept = {fit[i] for i in chosen}
    return [i for i in different if i in kept], [i for i in different if i not in kept]


def _with_text(recipe: TrainRecipe, path: Path) -> TrainRecipe:
    source = recipe.sources[0]
    return dataclasses.replace(
        recipe, sources=(dataclasses.replace(source, texts=dict.fromkeys(source.texts, str(path))),)
    )


def _measure(recipe: TrainRecipe, run: Path, text: Path) -> None:
    """The study of a condition; a model that has collapsed at every layer has none, and does not
    end the run of the others."""
    try:
        run_study(_study(recipe, run, text), run / "study")
    except InputError as error:
        say(f"{run.name}: {error}")


def _study(recipe: TrainRecipe, run: Path, text: Path) -> Study:
    """The study of a condition's two views on the sentences that were kept: the same lines, read
    with each language's ids."""
    encoders = {language: str(run / "views" / language) for language in recipe.languages}
    return Study(
        encoders=encoders, texts=dict.fromkeys(recipe.languages, str(text)), seed=recipe.seed
    )


def _scores(run: Path, condition: str) -> list[Score]:
    """A condition's measurements at the end, under its name: alignment of tokens, and per layer
    those of its study, unaligned."""
    last = next((line for line in reversed(_log(run)) if "alignment" in line), None)
    if last is None:
        expected = "a line with the alignment of tokens"
        remedy = "delete the folder and train again"
        refuse(str(run / "log.jsonl"), expected, "none", remedy, StoreError)
    found = []
    for direction, aligned in last["alignment"].items():
        source, target = direction.split(">")
        n = int(aligned["n"])
        low, high = wilson_interval(round(aligned["value"] * n), n)
        found.append(
            Score(
                quantity="token_alignment",
                value=aligned["value"],
                n=n,
                low=low,
                high=high,
                source=source,
                target=target,
                condition=condition,
                details={"by_frequency": aligned["by_frequency"]},
            )
        )
    study = run / "study" / "scores.jsonl"
    for score in read_scores(study) if study.exists() else ():
        everything = (score.details or {}).get("part", "all") == "all"
        unaligned = score.condition == ("unaligned" if score.quantity == "precision_at_1" else None)
        if (
            score.quantity in _AT_THE_END
            and everything
            and unaligned
            and score.other_layer in (None, score.layer)
        ):
            found.append(dataclasses.replace(score, condition=condition))
    return found


def sharing_rows(counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[tuple[str, ...]]:
    """A table of what each condition shares, part by part.

    Parameters
    ----------
    counts: condition to what :func:`crosslens.models.network.surgery.parameter_counts` says of its
        model.

    >>> none = {"token": {"": 0, "eng": 40, "eng-x": 40}, "1": {"": 0, "eng": 172, "eng-x": 172}}
    >>> sharing_rows({"shared": none | {"1": {"": 172, "eng": 0, "eng-x": 0}}, "none": none})
    [('part', 'parameters', 'shared', 'none'), ('token', '40', 'own', 'own'), ('layer 1', '172', 'shared', 'own')]
    """
    first = next(iter(counts.values()))
    rows: list[tuple[str, ...]] = [("part", "parameters", *counts)]
    for part, owners in first.items():
        cells = ("shared" if owners_of[part][""] else "own" for owners_of in counts.values())
        rows.append(
            (f"layer {part}" if part.isdigit() else part, f"{max(owners.values()):,}", *cells)
        )
    return rows


def what_is_shared(folder: str | Path) -> list[tuple[str, ...]]:
    """A finished run's table of what each condition shares, counted in the models that were
    trained."""
    folder = Path(folder)
    conditions = dict.fromkeys(
        str(score.condition) for score in read_scores(folder / "scores.jsonl")
    )
    return sharing_rows(
        {
            name: read_json(folder / name / "sharing.json", dict[str, dict[str, int]])
            for name in conditions
        }
    )


def _log(run: Path) -> list[_Line]:
    path = run / "log.jsonl"
    return [
        parse_json(line, f"{path}:{number}", _Line, "delete the folder and train again")
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
    ]


def summary(folder: str | Path) -> tuple[list[tuple[str, ...]], str]:
    """A finished run as a table, and a sentence on how to read it."""
    folder = Path(folder)
    scores = list(read_scores(folder / "scores.jsonl"))
    rows: list[tuple[str, ...]] = [
        (
            "condition",
            "tokens",
            "minutes",
            "P@1 of subwords",
            "95 % interval",
            "by frequency",
            "best layer: P@1 of sentences",
            "CKA",
        )
    ]
    reasons: list[str] = []
    for name in dict.fromkeys(
        check_name(score.condition, f"{folder / 'scores.jsonl'}, condition", StoreError)
        for score in scores
    ):
        mine = [score for score in scores if score.condition == name]
        last = _log(folder / str(name))[-1]
        pieces = next(score for score in mine if score.quantity == "token_alignment")
        found = [score for score in mine if score.quantity == "precision_at_1"]
        ways: dict[str | None, dict[int, Score]] = {}
        for score in found:
            if score.layer is not None:
                ways.setdefault(score.source, {})[score.layer] = score
        best = best_layer(ways.values())
        alike = [
            score
            for score in mine
            if score.quantity == "debiased_linear_cka"
            and best is not None
            and score.layer == best.layer
        ]
        reasons += not_measured(mine)
        rows.append(
            (
                str(name),
                f"{last['tokens'] / 1e6:.1f} M",
                f"{last['seconds'] / 60:.1f}",
                f"{pieces.value:.3f}",
                f"{pieces.low:.3f}-{pieces.high:.3f}",
                f"{(pieces.details or {})['by_frequency']:.4f}",
                "not measured"
                if best is None
                else f"{best.layer}: {best.mean:.3f} (n = {best.scores[0].n})",
                format_value(alike[0].value, 3) if alike else "-",
            )
        )
    n = next(score.n for score in scores if score.quantity == "token_alignment")
    text = (
        f"P@1 of subwords: a subword's nearest neighbour by cosine of the token embeddings is its "
        f"copy, among {n}; chance {1 / n:.4f}. "
        "By frequency: the P@1 to be expected if embeddings told how frequent a subword is, as "
        "they do, and nothing else. "
        "P@1 of sentences and debiased CKA: held-out sentences, no map, at the "
        "layer where the mean over both directions is highest. No parallel text was used."
    )
    return rows, "\n".join([text, *dict.fromkeys(reasons)])
