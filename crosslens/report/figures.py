"""Figures of measurements for papers and notebooks: the curves by layer that a page begins with, as
one figure of matplotlib."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.report.folders.probes import (
    CONDITIONS,
    ProbeRuns,
    axis_label,
    in_words,
    probe_runs_of,
)
from crosslens.report.folders.study import Curve, mean_curve, study_of
from crosslens.report.pages.study import study_curves
from crosslens.report.parts.curves import Curves, LayerFigure, curves_figure, layer_curves
from crosslens.report.parts.drawing import series_style
from crosslens.report.parts.wording import join, language
from crosslens.report.sections.probes_drawing import fraction_ends
from crosslens.report.sections.probes_layers import STYLES
from crosslens.score import Score

__all__ = ["layer_figure"]

_MOST_NAMED = 6
_PAIRED = (
    "sentence_retrieval",
    "mean_sentence_retrieval",
    "similarity",
    "word_translation",
    "contextual_word_retrieval",
    "language_id",
)


def layer_figure(
    scores: Sequence[Score], tasks: Sequence[str] = (), config: Mapping[str, Any] | None = None
) -> LayerFigure:
    """A panel for each task that was measured by layer: means over directions and pairs, 95 %
    bands, controls; of several encoders a line for each, without controls.

    Parameters
    ----------
    tasks: which; all of them where it is empty. config: of the run, which has the tasks' titles and
        the dimensions of the vectors.

    Raises
    ------
    InputError: nothing was measured by layer, or a task is not among what was.
    """
    there = dict.fromkeys(score.task for score in scores if score.task and score.layer is not None)
    if wrong := [task for task in tasks if task not in there]:
        refuse(
            "tasks", f"some of {', '.join(there)}", ", ".join(map(repr, wrong)), "choose among them"
        )
    means = [f"mean_{task}" for task in tasks]
    chosen = [score for score in scores if not tasks or score.task in (*tasks, *means)]
    compared = [s for s in chosen if _is_paired(s)]
    paired = _over_seeds(compared)
    seeds = len(paired) < len(compared)  # a controlled study
    several = len({s.encoder for s in paired if s.encoder}) > 1  # of several conditions
    if several and (drawn := _by_encoder(paired)):
        return curves_figure(drawn, _about(_plain(paired), (), seeds))
    parts = [
        *study_curves(study_of(paired, dict(config or {}), Path())),
        *_probes([s for s in chosen if not _is_paired(s)], dict(config or {})),
    ]
    averaged = paired if parts else chosen  # a panel of a probe is of one direction
    parts = parts or _by_condition(chosen)
    if not parts:
        remedy = "a training's curves are in its report"
        refuse("scores", "measurements of several layers", f"{len(scores)} others", remedy)
    return curves_figure(parts, _about(chosen, averaged, seeds))


def _about(scores: Sequence[Score], averaged: Sequence[Score], seeds: bool) -> str:
    """Whose layers, in which languages, and what is drawn.

    Parameters
    ----------
    averaged: those among them of which means are drawn. seeds: whether scores are means over seeds.
    """
    by_layer = [score for score in scores if score.layer is not None]
    encoders = list(dict.fromkeys(score.encoder for score in by_layer if score.encoder))
    codes = dict.fromkeys(code for s in by_layer for code in (s.source, s.target) if code)
    ways = {(s.source, s.target) for s in averaged if s.layer is not None and s.source and s.target}
    told = [
        join(encoders, most=_MOST_NAMED, rest="more encoders"),
        join([language(code) for code in codes], most=_MOST_NAMED, rest="more languages"),
        "means over seeds" if seeds else "",
        "means over directions or pairs" if len(ways) > 1 else "",
        "bands: 95\N{NO-BREAK SPACE}% intervals"
        if any(score.low is not None for score in by_layer)
        else "",
    ]
    return "; ".join(part for part in told if part) + "."


def _by_encoder(scores: Sequence[Score]) -> list[Curves]:
    """A panel for each task of a controlled study: a line for each of its conditions."""
    return _lines(_plain(scores), lambda score: score.encoder or "encoder")


def _plain(scores: Sequence[Score]) -> list[Score]:
    """What a study found without a map."""
    return [
        s
        for s in scores
        if s.condition in (None, "unaligned") and s.evidence.part in (None, "held_out")
    ]


def _over_seeds(scores: Sequence[Score]) -> list[Score]:
    """What was measured, by the means over seeds alone where there are any."""

    def what(score: Score) -> tuple[str | None, ...]:
        return score.encoder, score.task, score.quantity, score.condition

    means = {what(score) for score in scores if score.seed is None}
    return [score for score in scores if score.seed is None or what(score) not in means]


def _by_condition(scores: Sequence[Score]) -> list[Curves]:
    """A panel for each task of a run with conditions of its own, an emergence: a line for each, the
    mean over directions."""
    return _lines(scores, lambda score: score.condition or "encoder")


def _lines(scores: Sequence[Score], called: Callable[[Score], str]) -> list[Curves]:
    found = []
    by_layer = [
        s for s in scores if s.task and s.layer is not None and s.other_layer in (None, s.layer)
    ]
    for task in dict.fromkeys(str(score.task) for score in by_layer):
        mine = [score for score in by_layer if score.task == task]
        quantities = dict.fromkeys(score.quantity for score in mine)
        quantity = next(
            (one for one in quantities if one == "debiased_linear_cka"), next(iter(quantities))
        )
        curves: dict[str, dict[Any, Curve]] = {}
        for score in (score for score in mine if score.quantity == quantity):
            ways = curves.setdefault(called(score), {})
            way = score.source, score.target, score.seed
            ways.setdefault(way, {})[score.layer or 0] = score
        named = [
            (name, series_style(place), mean_curve(ways.values()))
            for place, (name, ways) in enumerate(curves.items())
        ]
        title, key = task.replace("_", " ").capitalize(), [(look, name) for name, look, _ in named]
        ends = fraction_ends([score for _, _, curve in named for score in curve.values()])
        what = f"{title}, {in_words(quantity)} by layer"
        found.append(
            layer_curves(title, what, named, ends, axis_label(quantity), key=key, gaps=False)
        )
    return found


def _is_paired(score: Score) -> bool:
    """Whether it compares languages, and is no probe with parts of its own."""
    return score.task in _PAIRED and score.evidence.part not in ("dev", "test")


def _probes(scores: list[Score], config: dict[str, Any]) -> list[Curves]:
    """A panel for each task: one encoder beside its controls, or several beside each other."""
    runs = probe_runs_of([Path()], [config], [scores])
    return [part for task in runs.tasks() if (part := _task_curves(runs, task)) is not None]


def _task_curves(runs: ProbeRuns, task: str) -> Curves | None:
    quantity, subjects = runs.main_quantity(task), runs.subjects
    found = []
    for place, subject in enumerate(subject for subject in subjects if runs.layers(subject, task)):
        chosen = runs.chosen(subject, task)
        representation = chosen.representation if chosen else ""
        for condition in CONDITIONS if len(subjects) == 1 else (None,):
            curve = runs.curve(subject, task, quantity, condition, representation)
            if curve:
                look, name = (
                    (STYLES[condition], CONDITIONS[condition])
                    if len(subjects) == 1
                    else (series_style(place), subject.label)
                )
                found.append((look, name, curve))
    scores = [
        score for _, _, curve in found for score in curve.values() if not math.isnan(score.value)
    ]
    if not scores:
        return None
    ends = fraction_ends([score for _, _, curve in found for score in curve.values()])
    named = [(name, look, curve) for look, name, curve in reversed(found)]
    title, key = runs.title(task), [(look, name) for look, name, _ in found]
    what = f"{title}, {in_words(quantity)} by layer"
    return layer_curves(title, what, named, ends, axis_label(quantity), key=key, gaps=False)
