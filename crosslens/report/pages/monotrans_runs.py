"""One page for several MonoTrans runs: how each variant learns a language in step 2, over seeds."""

import collections
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.readers.published import PAPERS, published
from crosslens.report.folders.finished import finished_run
from crosslens.report.folders.log import as_table
from crosslens.report.folders.monotrans import Step, steps_of
from crosslens.report.parts.drawing import Axis, Line, plain_style, series_panel, series_style
from crosslens.report.parts.layout import (
    Numbering,
    document,
    figure,
    files_table,
    headline,
    legend,
    panel,
    section,
    settings_table,
    table,
)
from crosslens.report.parts.wording import decimal, join, language, short_folders, tag, text
from crosslens.report.sections.settings_differ import settings_differ
from crosslens.score import QUANTITIES
from crosslens.stats import mean_interval

__all__ = ["monotrans_runs_page"]

_PRINTED = {  # variant -> the paper's system
    "token": "MonoTrans, token embeddings",
    "positions": "MonoTrans, + position embeddings",
    "noise": "MonoTrans, + noising",
    "adapters": "MonoTrans, + adapters",
}

_Runs = Mapping[str, Mapping[int, Sequence[Step]]]  # what it is called -> seed -> its trainings


def monotrans_runs_page(folders: Sequence[str | Path]) -> str:
    """One page for finished MonoTrans runs: the curves of step 2 of each variant, a panel for each
    target language, and perplexities as means over the runs of a variant that differ in the seed.

    Raises
    ------
    InputError: a folder holds no finished run, or the runs have no target language
        in common.
    StoreError: one of their files is damaged.
    """
    paths = [Path(folder) for folder in folders]
    read = [finished_run(path, "monotrans", "train monotrans") for path in paths]
    asked = [as_table(as_table(config.get("asked")).get("settings")) for config, _ in read]
    trainings = [
        _taken(steps_of(path, scores), as_table(config.get("chosen")))
        for path, (config, scores) in zip(paths, read, strict=True)
    ]
    seeds = [steps[0].learnt.seed or 0 for steps in trainings]
    names = _names(paths, asked, seeds)
    runs = dict[str, dict[int, Sequence[Step]]]()
    for name, seed, steps in zip(names, seeds, trainings, strict=True):
        runs.setdefault(name, {})[seed] = steps
    targets = _targets(runs)
    if not any(sum(len(_of(seeds, one)) for seeds in runs.values()) > 1 for one in targets):
        expected = "runs that learn one target language"
        refuse("report", expected, join([str(path) for path in paths]), "draw each run's own page")
    source = next(iter(next(iter(runs.values())).values()))[0].language
    title = f"MonoTrans, {language(source)} to {join([language(one) for one in targets])}"
    numbering = Numbering()
    with plain_style():
        parts = [
            headline(
                f"{title}: {join([*runs], most=4)}",
                _curves(runs, targets, numbering),
                [_told(runs, one) for one in targets[:3]],
                {
                    "After": "Artetxe, Ruder &amp; Yogatama 2020",
                    "Runs": join([f"{text(name)} ({len(seeds)})" for name, seeds in runs.items()]),
                },
                [
                    "Perplexities of languages with vocabularies of their own cannot be compared.",
                    *_differ(runs, asked, names),
                    *_given_up([config for config, _ in read], paths, trainings),
                ],
                [],
                "Nothing was measured in these runs.",
            ),
            section("learnt", "Language by language", *(_learnt(runs, one) for one in targets)),
            section("printed", "What the paper prints", _printed(runs)),
            section(
                "made",
                "How this was made",
                *(
                    tag("h3", text(path))
                    + settings_table("What was asked for.", told)
                    + files_table(path)
                    for path, told in zip(paths, asked, strict=True)
                ),
            ),
        ]
    return document(title, parts)


def _taken(steps: Sequence[Step], chosen: Mapping[str, Any]) -> list[Step]:
    """Step 1, and of each target the training that went into the model: repeats of step 2 under one
    body are no runs of their own."""
    return [
        step
        for step in steps
        if step.name == "step-1" or chosen.get(step.language) in (None, step.name)
    ]


def _given_up(
    configs: Sequence[Mapping[str, Any]], paths: Sequence[Path], trainings: Sequence[Sequence[Step]]
) -> list[str]:
    """Which trainings are missing, or no better than a unigram model."""
    told = []
    for config, path, steps in zip(configs, paths, trainings, strict=True):
        told += [
            f"{path}: {name} was given up: {why}."
            for name, why in as_table(config.get("lost")).items()
        ]
        if none := [step.said for step in steps if not step.learnt.value < step.unigram.value]:
            told.append(f"{path}: no better than a unigram model: {join(none)}.")
    return told


def _names(
    paths: Sequence[Path], asked: Sequence[Mapping[str, Any]], seeds: Sequence[int]
) -> list[str]:
    """What each run is called: its variant, or its folder where runs of one variant differ in more
    than the seed, or have one seed."""
    variants = [str(told.get("variant", "adapters")) for told in asked]
    keys = collections.Counter(zip(variants, seeds, strict=True))
    rest = {
        (variant, json.dumps({**told, "seed": None}, sort_keys=True, default=str))
        for variant, told in zip(variants, asked, strict=True)
    }
    if max(keys.values()) == 1 and len(rest) == len(set(variants)):
        return variants
    short = short_folders([str(path) for path in paths])
    return [short[str(path)] for path in paths]


def _targets(runs: _Runs) -> list[str]:
    every = [step for seeds in runs.values() for steps in seeds.values() for step in steps[1:]]
    return list(dict.fromkeys(step.language for step in every))


def _of(seeds: Mapping[int, Sequence[Step]], target: str) -> list[Step]:
    """The trainings of a language in step 2, of all seeds."""
    return [step for steps in seeds.values() for step in steps[1:] if step.language == target]


def _differ(runs: _Runs, asked: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Settings in which the first runs of each name differ, but for the variant."""
    first = {name: told for name, told in reversed(list(zip(names, asked, strict=True)))}
    told = [
        {
            "settings": {
                key: value for key, value in first[name].items() if key not in ("variant", "seed")
            }
        }
        for name in runs
    ]
    return settings_differ([*runs], told)


def _curves(runs: _Runs, targets: Sequence[str], numbering: Numbering) -> str:
    styles = {name: series_style(place) for place, name in enumerate(runs)}
    panels = []
    for target in targets:
        lines = [
            Line([*step.curve], [*step.curve.values()], styles[name])
            for name, seeds in runs.items()
            for step in _of(seeds, target)
        ]
        levels = [step.unigram.value for seeds in runs.values() for step in _of(seeds, target)]
        picture = series_panel(
            numbering.panel(),
            f"held-out perplexity of {language(target)} in step 2 over tokens: {join([*runs])}",
            lines,
            "million tokens of step 2",
            Axis("held-out perplexity", log=True),
            float(np.mean(levels)),
        )
        panels.append(panel(language(target), "", picture))
    reading = (
        "masked tokens of held-out text while the body stands still and only what the language owns is "
        "trained, a line for each training; dotted, a unigram model"
    )
    key = legend([(style, name) for name, style in styles.items()])
    return figure(numbering, "How each variant learns a language in step 2.", reading, key, panels)


def _mean(values: Sequence[float]) -> str:
    """A mean with its 95 % interval over trainings; of one the value alone."""
    if len(values) < 2:
        return decimal(values[0], 1)
    mean, low, high = mean_interval(np.array(values))
    return f"{decimal(mean, 1)} [{decimal(low, 1)}, {decimal(high, 1)}]"


def _told(runs: _Runs, target: str) -> str:
    """A sentence on a language, as HTML."""
    found = {name: _of(seeds, target) for name, seeds in runs.items()}
    told = [
        f"{text(name)} {text(_mean([step.learnt.value for step in steps]))}"
        for name, steps in found.items()
        if steps
    ]
    levels = [step.unigram.value for steps in found.values() for step in steps]
    unigram = decimal(float(np.mean(levels)), 1)
    return (
        f"{tag('strong', text(language(target)))}, perplexity after step 2: {', '.join(told)}; a unigram "
        f"model {unigram}."
    )


def _learnt(runs: _Runs, target: str) -> str:
    head = [
        "Variant",
        "Trainings",
        "Perplexity",
        "of a unigram model",
        "of a bigram model",
        "Gain, nats",
    ]
    rows = []
    for name, seeds in runs.items():
        steps = _of(seeds, target)
        if not steps:
            continue
        bigram = [step.bigram.value for step in steps if step.bigram is not None]
        gains = [math.log(step.unigram.value / step.learnt.value) for step in steps]
        rows.append(
            [
                text(name),
                str(len(steps)),
                text(_mean([step.learnt.value for step in steps])),
                decimal(float(np.mean([step.unigram.value for step in steps])), 1),
                decimal(float(np.mean(bigram)), 1) if bigram else "–",
                decimal(float(np.mean(gains)), 2),
            ]
        )
    about = (
        f"{language(target)}: held-out text at the end of step 2; means over trainings with 95 % intervals "
        "over them. The gain is on the unigram model."
    )
    return table(about, head, rows)


def _printed(runs: _Runs) -> str:
    """Averages over languages that the paper prints of these variants: it has no perplexities."""
    found = {
        (one.system, one.task, one.metric): f"{one.value:g}"
        for one in published(paper="artetxe", language="mean")
        if one.system in _PRINTED.values()
    }
    columns = list(dict.fromkeys(key[1:] for key in found))
    rows = [
        [text(name), *(found.get((system, *column), "–") for column in columns)]
        for name, system in _PRINTED.items()
        if name in runs
    ]
    if not rows:
        return ""
    about = f"{PAPERS['artetxe']}: averages over languages, zero-shot; it prints no perplexities."
    head = [f"{text(task)}, {QUANTITIES[metric].label}" for task, metric in columns]
    return table(about, ["Variant", *head], rows)
