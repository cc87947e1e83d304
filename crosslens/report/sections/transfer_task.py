"""One task of a run of transfer: its table, learning curves, layers that were frozen, and what was
confused."""

import collections
import math
from collections.abc import Sequence

import numpy as np

from crosslens.grid_settings import settings_taken
from crosslens.readers.published import PAPERS, published
from crosslens.report.folders.transfer import LESS, System, Transfer, called
from crosslens.report.folders.transfers import Contest
from crosslens.report.parts.drawing import Axis, Line, Style, series_panel, series_style
from crosslens.report.parts.heat import colour_bar, heat_panel, scale_ends
from crosslens.report.parts.layout import (
    Numbering,
    figure,
    flow,
    folded,
    legend,
    panel,
    section,
    settings_table,
    table,
    value_cell,
)
from crosslens.report.parts.wording import language, paragraph, plural, text
from crosslens.report.sections.transfer_compared import compared_table
from crosslens.report.sections.transfer_examples import example_tables
from crosslens.report.sections.transfer_predictors import (
    correlation_table,
    predictor_figure,
    predictor_table,
)
from crosslens.report.sections.transfer_relations import relation_tables
from crosslens.score import QUANTITIES, Score

__all__ = ["transfer_section", "transfer_table"]

_WAYS = {
    "last_epoch": "last epoch",
    "averaged_epochs": "last epochs averaged",
    "target_dev_oracle": "oracle: best on the target’s dev",
}
_ABOUT = {
    "classify": "The encoder and a head are trained to say the class of a text.",
    "pair": "The encoder and a head are trained to say how two texts are related.",
    "tag": "The encoder and a head are trained to say the tag of each word.",
    "tree": "The encoder and a biaffine parser are trained to say the head of each word and the "
    "relation to it.",
    "answer": "The encoder and a head are trained to find the answer to a question in a paragraph.",
}
_MOST = 20  # classes of a matrix of confusions
_EXAMPLES = 12


def transfer_section(
    run: Transfer, task: str, numbering: Numbering, key: str, compared: Sequence[Contest]
) -> str:
    """The whole section of a task; ``compared`` are its systems on the items that all have."""
    quantity, preset = run.main[task]
    told = QUANTITIES[quantity].label + (f", as {preset} counts" if preset else "")
    figures = [
        _learning(run, task, numbering),
        _frozen(run, task, numbering),
        predictor_figure(run, task, numbering),
        _confusions(run, task, numbering),
    ]
    about = _ABOUT.get(str(run.section("cards", task).get("kind")), "")
    values, sources = run.section("settings", "values", task), run.section("sources", task)
    settings = {
        name: f"{value if not isinstance(value, list) else ', '.join(map(str, value))} "
        f"({sources.get(name, 'not recorded')})"
        for name, value in values.items()
    }
    taken = settings_taken(task, values, run.scores)
    settings |= {f"taken on dev: {system}": told for system, told in taken.items()}
    return section(
        key,
        run.title(task),
        paragraph(text(about)),
        transfer_table(run, task),
        flow(*figures),
        folded("Systems on the same items", compared_table(compared)),
        folded("Relations", relation_tables(run, task)),
        folded("Examples of errors", example_tables(run, task)),
        folded(
            "What may predict transfer", correlation_table(run, task), predictor_table(run, task)
        ),
        folded("Epochs and other ways to choose them", _ways(run, task)),
        folded("Printed in the papers", _printed(run, task)),
        folded("Settings, and where they come from", settings_table("Settings.", settings)),
        told=told,
    )


def transfer_table(run: Transfer, task: str) -> str:
    """Each language and system beside its controls, as HTML."""
    systems, rows = run.systems(), []
    for target in run.targets(task):
        for system in systems:
            score = run.find(task, target, None, system)
            if score is None:
                continue
            name = language(target) + (f", {called(system, systems)}" if len(systems) > 1 else "")
            beside = [
                run.find(task, target, "majority"),
                run.find(task, target, "random_encoder", system),
                run.find(task, target, "in_language", system),
            ]
            gained = next(
                (
                    s
                    for s in run.of(task)
                    if s.condition == LESS
                    and s.target == target
                    and s.encoder == system.encoder
                    and (s.evidence.freeze if s.evidence.freeze is not None else -1)
                    == system.freeze
                ),
                None,
            )
            n = score.n  # in its own language another part of the items may be tested
            cells = [value_cell(one, n=n) for one in beside] + [value_cell(gained)]
            rows.append([text(name), value_cell(score), _seeds(score), *cells, f"{score.n:,}"])
    head = [
        "Tested in", "Zero-shot", "Seeds", "Most frequent label", "Random encoder", "In language",
        "Difference", "n",
    ]  # fmt: skip
    kept = [0, 1, 2, *(k for k in range(3, 7) if any(row[k] != "–" for row in rows)), 7]
    caption = "Means over seeds with 95 % intervals over seeds and items."
    if any(len(told.seeds) == 1 for s in run.of(task) if (told := s.evidence.over_seeds)):
        caption += " Of one seed they are over items alone."
    return table(caption, [head[k] for k in kept], [[row[k] for k in kept] for row in rows])


def _printed(run: Transfer, task: str) -> str:
    """What the papers print for the same task, quantity and languages."""
    targets = [code for code in run.targets(task) if len(code) == 3]
    rows: dict[str, dict[str, float]] = {}
    for one in published(task=task, metric=run.main[task][0]):
        if one.language in targets:
            key = f"{one.system} ({PAPERS[one.paper]}, {one.table})"
            rows.setdefault(key, {})[one.language] = one.value
    if not rows:
        return ""
    there = [code for code in targets if any(code in found for found in rows.values())]
    cells = [
        [text(key), *(f"{found[code] / 100:.3f}" if code in found else "–" for code in there)]
        for key, found in rows.items()
    ]
    caption = "Other encoders, trained and tested on other data: what to expect, and no measure of this run."
    return table(caption, ["System", *map(language, there)], cells)


def _seeds(score: Score) -> str:
    told = score.evidence.over_seeds
    values = [v for v in told.values if v is not None] if told is not None else []
    return ", ".join(f"{value:.3f}" for value in values[:5]) + (" …" if len(values) > 5 else "")


def _ways(run: Transfer, task: str) -> str:
    systems, rows = run.systems(), []
    for target in run.targets(task):
        for system in systems:
            found = [run.find(task, target, way, system) for way in (None, *_WAYS)]
            if any(one is not None for one in found[1:]):
                name = language(target) + (
                    f", {called(system, systems)}" if len(systems) > 1 else ""
                )
                rows.append([text(name), *(value_cell(one) for one in found)])
    if not rows:
        return ""
    head = ["Tested in", "best on dev of the training language", *_WAYS.values()]
    return table("The same trainings, their epochs chosen otherwise.", head, rows)


def _learning(run: Transfer, task: str, numbering: Numbering) -> str:
    """Dev of the training language after each epoch, a curve for each seed."""
    panels, systems = [], run.systems()
    for system in systems:
        lines, names = list[Line](), list[tuple[Style, str]]()
        for score in run.dev(task, system):
            told = score.evidence.epochs or {}
            if len(told) < 2:
                continue
            values = {
                int(e): found.get("dev")
                for e, found in told.items()
                if found is not None and e.isdecimal()
            }
            line = [math.nan if v is None else v for _, v in sorted(values.items())]
            style = series_style(len(lines))
            lines.append(Line([float(e) for e in sorted(values)], line, style))
            several = len(score.evidence.chosen or []) > 1
            setting = f", setting {score.evidence.setting}" if several else ""
            names.append((style, f"seed {score.seed}{setting}"))
        if lines and len(lines) <= 12:
            axis = Axis(QUANTITIES[run.main[task][0]].label)
            label = f"dev after each epoch, {called(system, systems)}"
            picture = series_panel(numbering.panel(), label, lines, "epoch", axis, narrow=True)
            panels.append(
                panel(called(system, systems), "", picture, key=legend(names, sticky=False))
            )
    reading = "each curve is one seed; the epoch that is best on this split is the one tested"
    title = "Dev of the training language, epoch by epoch."
    return figure(numbering, title, reading, "", panels, size="narrow") if panels else ""


def _frozen(run: Transfer, task: str, numbering: Numbering) -> str:
    """The main quantity by the number of frozen layers, a curve for each language."""
    systems = run.systems()
    layers = sorted({system.freeze for system in systems})
    if len(layers) < 2:
        return ""
    panels = []
    for encoder in dict.fromkeys(system.encoder for system in systems):
        lines, names = list[Line](), list[tuple[Style, str]]()
        for name, targets in _curves(run, task).items():
            found = [[run.find(task, t, None, System(encoder, n)) for t in targets] for n in layers]
            values = [np.mean([math.nan if s is None else s.value for s in row]) for row in found]
            style = series_style(len(lines))
            lines.append(Line([float(n) for n in layers], [float(v) for v in values], style))
            names.append((style, name))
        axis = Axis(QUANTITIES[run.main[task][0]].label)
        key = legend(names, sticky=False)
        label = f"by frozen layer, {encoder}"
        x_label = "last frozen layer (−1: none, 0: embeddings)"
        picture = series_panel(numbering.panel(), label, lines, x_label, axis)
        panels.append(panel(encoder, "", picture, key=key))
    reading = "layers up to this one, and the embeddings, are as before fine-tuning"
    return figure(numbering, "How much is frozen.", reading, "", panels)


def _curves(run: Transfer, task: str) -> dict[str, list[str]]:
    """Name of a curve -> test sets that it is the mean of: each, or, where there are many, those of
    other languages together."""
    targets = run.targets(task)
    if len(targets) <= _EXAMPLES:
        return {language(one): [one] for one in targets}
    own = [s.target for s in run.of(task) if s.target and run.trained_in(s)]
    others = [one for one in targets if one not in own]
    return {
        **{language(one): [one] for one in dict.fromkeys(own)},
        f"mean of {len(others)} others": others,
    }


def _confusions(run: Transfer, task: str, numbering: Numbering) -> str:
    """What was taken for what, of the first seed, in each language."""
    system, panels = run.systems()[0], []
    by_word = run.section("cards", task).get("kind") == "tag"
    first: dict[str, collections.Counter[tuple[str, str]]] = {}
    for target, seeds in run.answered(task, system, quantity="accuracy", method=None).items():
        one = next(iter(seeds.values()))
        if one.gold is None or one.predicted is None:
            continue
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for gold, predicted in zip(one.gold.tolist(), one.predicted.tolist(), strict=True):
            both = (
                zip(gold.split(), predicted.split(), strict=True)
                if by_word
                else [(gold, predicted)]
            )
            counts.update(both)
        first[target] = counts
    for target, counts in list(first.items())[:_EXAMPLES]:
        classes = sorted({name for pair in counts for name in pair} - {"_"})
        if not 1 < len(classes) <= _MOST:
            continue
        rows = np.array([[counts[a, b] for b in classes] for a in classes], float)
        shares = rows / np.where(rows.sum(1, keepdims=True) > 0, rows.sum(1, keepdims=True), np.nan)
        label = f"confusions in {language(target)}"
        names = ([*classes], [*classes])
        picture = heat_panel(
            numbering.panel(),
            label,
            shares,
            names,
            ("gold", "predicted"),
            ends=scale_ends([0.0, 1.0]),
        )
        n = plural(int(rows.sum()), "word" if by_word else "item")
        panels.append(panel(language(target), n, picture))
    if not panels:
        return ""
    reading = "each row is a gold label and adds up to 1; of the first seed"
    if len(first) > _EXAMPLES:
        reading += f", in the first {_EXAMPLES} languages"
    bar = colour_bar(numbering.panel(), "share of the gold label", (0.0, 1.0))
    return figure(numbering, "What was taken for what.", reading, bar, panels)
