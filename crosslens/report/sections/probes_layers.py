"""Tasks that are probed layer by layer: curves beside their controls, encoders beside each other,
representations, and the table."""

import math
from collections.abc import Iterable, Mapping, Sequence

from crosslens.report.folders.probes import (
    CONDITIONS,
    ProbeRuns,
    Subject,
    axis_label,
    in_words,
    of_seeds,
)
from crosslens.report.folders.study import Curve
from crosslens.report.parts.curves import NamedCurve, layer_curves
from crosslens.report.parts.drawing import Axis, Style, series_style
from crosslens.report.parts.layout import (
    Numbering,
    figure,
    flow,
    folded,
    legend,
    section,
    table,
    value_cell,
)
from crosslens.report.parts.wording import decimal, estimate, join, paragraph, plural, tag, text
from crosslens.report.sections.probes_classes import class_figures
from crosslens.report.sections.probes_drawing import fraction_ends
from crosslens.report.sections.probes_printed import printed_table
from crosslens.score import QUANTITIES, Score, set_aside

__all__ = ["STYLES", "task_section"]

STYLES: dict[str | None, Style] = {
    "majority": Style("#000000", dash="dotted", width=1.2),
    "word_order": Style("#000000", dash="dashed", width=1.2),
    "word_majority": Style("#9c7500", dash="dashed", marker="s", width=1.2, hollow=True),
    "fasttext": Style("#00795c", dash="dashed", width=1.3),
    "character_ngrams": Style("#9c7500", dash="dashed", marker="D", width=1.3, hollow=True),
    "shuffled_labels": Style("#aa4499", dash="dashed", marker="v", width=1.3, hollow=True),
    "control_task": Style("#aa4499", dash="dashed", marker="^", width=1.3, hollow=True),
    "random_encoder": Style("#8a9097", marker="x", width=1.3),
    None: Style("#0072b2", marker="o", band=True),
}
_LENGTHS = ("codelength", "compression")  # have axes of their own
_APART = ("selectivity", "r2")  # R² has no lower end that an axis could share


def task_section(runs: ProbeRuns, task: str, numbering: Numbering, key: str) -> str:
    """The whole section of one task."""
    subjects = [subject for subject in runs.subjects if runs.layers(subject, task)]
    parts = []
    about = [paragraph(text(_about(runs, task) + _trained(runs, task))), *_left_out(runs, task)]
    about += [paragraph(text(told)) for told in _weights(runs, task)]
    if not subjects:
        about.append(
            paragraph(
                "Nothing of it was measured by layer; its values are in the table at the top."
            )
        )
    if len(subjects) > 1:
        parts.append(_compared(runs, task, subjects, numbering))
    if any(len(runs.representations(subject, task)) > 1 for subject in subjects):
        parts.append(_representations(runs, task, subjects, numbering))
    if subjects:
        parts += [
            _beside_controls(runs, task, subjects, numbering),
            _lengths(runs, task, subjects, numbering),
        ]
    elsewhere = runs.elsewhere(task)
    if subjects and elsewhere:
        parts.append(_by_language(runs, [task, *elsewhere], subjects, numbering))
    drawn, tables = class_figures(runs, task, numbering)
    shown = flow(*parts, *drawn, tag("div", "".join(about), class_="text"))
    numbers = folded(
        "All numbers",
        *(_table(runs, one, subject) for one in (task, *elsewhere) for subject in subjects),
        *tables,
    )
    printed = printed_table({runs.title(task): task}, runs.quantities(task))
    return section(key, runs.title(task), shown, numbers, printed, told=_told(runs, task))


def _weights(runs: ProbeRuns, task: str) -> list[str]:
    """How much a mix uses each layer, of every encoder."""
    found = {
        s.label: told for s, score in _details(runs, task) if (told := score.evidence.layer_weights)
    }
    many = len(runs.subjects) > 1
    return [
        (
            f"{f'{who}: ' if many else ''}weights of layers 0 to {len(w) - 1}: "
            f"{', '.join(map(decimal, w))}."
        )
        for who, w in found.items()
    ]


def _about(runs: ProbeRuns, task: str) -> str:
    if "r2" not in runs.quantities(task):
        return runs.about(task)
    return (
        "A ridge regression is trained on the vectors of one layer to tell a number: Spearman’s "
        "correlation of its answers, and R²."
    )


def _told(runs: ProbeRuns, task: str) -> str:
    """What came out, in a few words: the value where it is reported, the highest of several
    encoders."""
    found = [
        chosen for subject in runs.subjects if (chosen := runs.chosen(subject, task)) is not None
    ]
    if not found:
        return ""
    values = [
        decimal(chosen.score.value) + ("" if chosen.layer is None else f" at layer {chosen.layer}")
        for chosen in found
    ]
    return f"{in_words(runs.main_quantity(task))} {join(values, most=3)}"


def _details(runs: ProbeRuns, task: str) -> Iterable[tuple[Subject, Score]]:
    """All measurements of the encoders themselves."""
    for subject in runs.subjects:
        for (name, _, condition, _, _), cells in runs.cells[subject].items():
            if name == task and condition is None:
                yield from ((subject, score) for score in cells.values())


def _trained(runs: ProbeRuns, task: str) -> str:
    """What the probes were trained on, where all of them were trained on as much."""
    told = ""
    for field, words in (("n_train", "item"), ("classes", "class")):
        counts = {
            value
            for _, s in _details(runs, task)
            if (value := getattr(s.evidence, field)) is not None
        }
        if len(counts) == 1:
            many = plural(counts.pop(), words, "classes" if words == "class" else None)
            told += f" It was trained on {many}." if field == "n_train" else f" There are {many}."
    seeds = {len(value) for _, s in _details(runs, task) if (value := s.evidence.seeds) is not None}
    told += (
        f" Control labels are sampled with {plural(seeds.pop(), 'seed')}, and their mean is shown."
        if len(seeds) == 1
        else ""
    )
    random = {
        of_seeds(score)
        for cells in runs.cells.values()
        for (name, _, condition, _, _), found in cells.items()
        if (name, condition) == (task, "random_encoder")
        for score in found.values()
    }
    means = join(sorted(random - {""}))
    return told + (
        f" The random encoder is the {means}, its interval Student’s over encoders."
        if means
        else ""
    )


def _left_out(runs: ProbeRuns, task: str) -> list[str]:
    """Paragraphs on items that were left out, cut, or have a label that training lacks, and on
    warnings; each once for each encoder."""
    counts: dict[tuple[str, str], set[int]] = {}
    warned: dict[str, None] = {}
    for subject, score in _details(runs, task):
        who = f"{subject.label}: " if len(runs.subjects) > 1 else ""
        warned.update({f"{who}{message}": None for message in score.evidence.warnings or ()})
        for what, count in set_aside(score).items():
            counts.setdefault((who, what), set()).add(count)
    lines = [f"{who}{_span(found)} {what}." for (who, what), found in counts.items()]
    return [paragraph(text(line), "missing") for line in (*lines, *warned)]


def _span(counts: set[int]) -> str:
    low, high = min(counts), max(counts)
    return (
        plural(low, "item")
        if low == high
        else f"{low:,} to {high:,} items (it depends on the layer)"
    )


def _curve_of(
    runs: ProbeRuns, task: str, quantity: str, subject: Subject, condition: str | None = None
) -> Curve:
    """A curve of the representation that the task is reported with."""
    chosen = runs.chosen(subject, task)
    return runs.curve(
        subject,
        task,
        quantity,
        condition,
        chosen.representation if chosen else runs.representations(subject, task)[0],
    )


def _compared(runs: ProbeRuns, task: str, subjects: Sequence[Subject], numbering: Numbering) -> str:
    """All encoders in one panel, each as a line."""
    quantity = runs.main_quantity(task)
    named = [
        (s.label, series_style(place), _curve_of(runs, task, quantity, s))
        for place, s in enumerate(subjects)
    ]
    scores = [score for _, _, curve in named for score in curve.values()]
    levels = {
        s.value
        for subject in subjects
        for s in _curve_of(runs, task, quantity, subject, "majority").values()
    }
    level = levels.pop() if len(levels) == 1 else None
    ends = fraction_ends(scores, level)
    one = _panel(numbering, QUANTITIES[quantity].label, quantity, named, ends, level)
    extra = [] if level is None else ["dotted: majority class"]
    reading = (
        f"each line is one encoder, counted from its own embedding layer (0); the vertical "
        f"axis runs from {ends[0]:g} to {ends[1]:g}. "
        "Encoders of different depth are compared by their curves’ heights, not by layer "
        "numbers. Intervals are in the figures below, "
        "and whether a difference is more than chance in the paired tests, where there are any."
    )
    return figure(
        numbering,
        f"{runs.title(task)}: the encoders.",
        reading,
        legend([(s, n) for n, s, _ in named], extra),
        [one],
    )


def _by_language(
    runs: ProbeRuns, tasks: Sequence[str], subjects: Sequence[Subject], numbering: Numbering
) -> str:
    """A panel for each encoder, a curve for each language that the probes are tested on."""
    quantity = runs.main_quantity(tasks[0])
    style = {task: series_style(place) for place, task in enumerate(tasks)}
    groups = {
        s: [
            (runs.tested_on(task), style[task], _curve_of(runs, task, quantity, s))
            for task in tasks
        ]
        for s in subjects
    }
    ends = fraction_ends(
        [score for group in groups.values() for _, _, curve in group for score in curve.values()]
    )
    panels = [
        _panel(numbering, subject.label, quantity, group, ends) for subject, group in groups.items()
    ]
    reading = (
        "each line is a language that the same probes are tested on. They are trained, and "
        "their penalties and the reported layer "
        "chosen, on what is named as trained on, and on nothing else. The controls of each language are in the table of all "
        "tasks and among the numbers below."
    )
    entries = legend([(style[task], runs.tested_on(task)) for task in tasks])
    return figure(
        numbering, f"{runs.title(tasks[0])}: tested on other languages.", reading, entries, panels
    )


def _representations(
    runs: ProbeRuns, task: str, subjects: Sequence[Subject], numbering: Numbering
) -> str:
    """A panel for each encoder, a curve for each representation."""
    quantity = runs.main_quantity(task)
    names = list(
        dict.fromkeys(name for subject in subjects for name in runs.representations(subject, task))
    )
    style = {name: series_style(place) for place, name in enumerate(names)}
    groups = {
        s: [
            (n, style[n], runs.curve(s, task, quantity, None, n))
            for n in runs.representations(s, task)
        ]
        for s in subjects
    }
    majority = {s: _curve_of(runs, task, quantity, s, "majority") for s in subjects}
    ends = fraction_ends(
        [
            score
            for group in [*groups.values(), [("", STYLES[None], c) for c in majority.values()]]
            for _, _, c in group
            for score in c.values()
        ]
    )
    panels = []
    for subject, group in groups.items():
        level = next(iter(majority[subject].values())).value if majority[subject] else None
        panels.append(_panel(numbering, subject.label, quantity, group, ends, level))
    entries = [(style[name], _spoken(name)) for name in names]
    dotted = "; the dotted line is the majority class" if any(majority.values()) else ""
    reading = (
        f"each curve is one representation of the items{dotted}. All panels share one vertical "
        f"axis, {ends[0]:g} to {ends[1]:g}."
    )
    return figure(
        numbering, f"{runs.title(task)} by representation.", reading, legend(entries), panels
    )


def _spoken(name: str) -> str:
    return name.replace("_", " ") or "not named"


def _beside_controls(
    runs: ProbeRuns, task: str, subjects: Sequence[Subject], numbering: Numbering
) -> str:
    """The encoder with its interval against its controls; further quantities only where the page is
    about one encoder."""
    quantities = [q for q in runs.quantities(task) if q not in (*_LENGTHS, *_APART)]
    quantities = quantities if len(subjects) == 1 else quantities[:1]
    curves = {
        (s, q): {c: _curve_of(runs, task, q, s, c) for c in STYLES}
        for s in subjects
        for q in quantities
    }
    curves = {place: group for place, group in curves.items() if group[None]}
    ends = fraction_ends(
        score for group in curves.values() for curve in group.values() for score in curve.values()
    )
    panels = []
    for (subject, quantity), group in curves.items():
        named = [(CONDITIONS[c], STYLES[c], curve) for c, curve in group.items() if curve]
        chosen = runs.chosen(subject, task)
        with_ = (
            f", {_spoken(chosen.representation)}"
            if chosen is not None and chosen.representation
            else ""
        )
        title = subject.label if len(subjects) > 1 else QUANTITIES[quantity].label
        panels.append(_panel(numbering, title + with_, quantity, named, ends))
    shown = [c for c in reversed(STYLES) if any(group[c] for group in curves.values())]
    wanted = (
        [("random_encoder",), ("control_task", "shuffled_labels"), ("majority",)]
        if quantities[0] == "accuracy"
        else [("random_encoder",)]
    )
    missing = [CONDITIONS[group[0]].lower() for group in wanted if not {*group}.intersection(shown)]
    lack = f" Not measured here: {join(missing)}." if missing else ""
    reading = (
        "the curve of the encoder with its 95 % band over items, against its controls (see "
        "the legend): what is reached without the "
        "encoder’s training, or without labels that mean anything. Where the band does not "
        "lie above a control, the score shows nothing "
        f"that the control does not have. The vertical axis runs from {ends[0]:g} to "
        f"{ends[1]:g}.{lack}"
    )
    entries = [(STYLES[c], CONDITIONS[c]) for c in shown]
    return figure(
        numbering,
        f"{runs.title(task)} by layer, beside its controls.",
        reading,
        legend(entries, sticky=False),
        panels,
    )


def _lengths(runs: ProbeRuns, task: str, subjects: Sequence[Subject], numbering: Numbering) -> str:
    """Description length by online coding, where it was asked for."""
    panels = []
    styles = {subject: series_style(place) for place, subject in enumerate(subjects)}
    for quantity in _LENGTHS:
        named = [(s.label, styles[s], _curve_of(runs, task, quantity, s)) for s in subjects]
        named = [entry for entry in named if entry[2]]
        if named:
            ends = Axis("").ends([score.value for _, _, curve in named for score in curve.values()])
            panels.append(_panel(numbering, QUANTITIES[quantity].label, quantity, named, ends))
    if not panels:
        return ""
    reading = (
        "how many bits it takes to send the training labels to someone who has the vectors, "
        "by a probe that is trained anew as labels "
        "arrive (online coding, Voita & Titov 2020), and how many times shorter that is than "
        "sending them without vectors. Short codes "
        "and high compression mean that the labels can be read off easily."
    )
    entries = (
        legend([(style, subject.label) for subject, style in styles.items()])
        if len(subjects) > 1
        else ""
    )
    return figure(numbering, f"{runs.title(task)}: description length.", reading, entries, panels)


def _panel(
    numbering: Numbering,
    title: str,
    quantity: str,
    named: Sequence[NamedCurve],
    ends: tuple[float, float],
    level: float | None = None,
) -> str:
    """Named curves of one quantity as one panel, with what could not be computed."""
    margin = 0.02 * (ends[1] - ends[0])  # a curve at the end of the axis stays visible
    what, limits = (
        f"{title}, {QUANTITIES[quantity].label} by layer",
        (ends[0] - margin, ends[1] + margin),
    )
    return layer_curves(title, what, named, limits, axis_label(quantity), level).panel(numbering)


def _table(runs: ProbeRuns, task: str, subject: Subject) -> str:
    """Every layer with every quantity and control of the representation that is reported."""
    found: Mapping[tuple[str, str | None], Curve] = {
        (quantity, condition): _curve_of(runs, task, quantity, subject, condition)
        for quantity in runs.quantities(task)
        for condition in CONDITIONS
    }
    columns = {place: curve for place, curve in found.items() if curve}
    main, chosen = runs.main_quantity(task), runs.chosen(subject, task)
    representation = chosen.representation if chosen else ""
    dev = (
        runs.curve(subject, task, main, None, representation, "dev")
        if runs.part(subject, task) == "test"
        else {}
    )
    told = {
        field: {
            k: value
            for k, s in found[main, None].items()
            if (value := getattr(s.evidence, field)) is not None
        }
        for field in _TOLD
    }
    told = {field: values for field, values in told.items() if values}
    head = [
        "Layer",
        "n",
        *(f"{CONDITIONS[c]}<br>{_quiet(QUANTITIES[q].label)}" for q, c in columns),
    ]
    head += [f"Encoder, dev<br>{_quiet(QUANTITIES[main].label)}"] if dev else []
    head += [_TOLD[field] for field in told]
    rows = []
    for layer in runs.layers(subject, task):
        here = found[main, None].get(layer)
        n = None if here is None else here.n
        cells = [_cell(curve.get(layer), n) for curve in columns.values()]
        cells += [value_cell(dev.get(layer))] if dev else []
        cells += [text(_value(values.get(layer))) for values in told.values()]
        mark = f" {_quiet('reported')}" if chosen is not None and layer == chosen.layer else ""
        rows.append([f"{layer}{mark}", "–" if n is None else f"{n:,}", *cells])
    part = runs.part(subject, task)
    about = ", ".join(
        filter(
            None,
            (
                subject.label,
                _spoken(representation) if representation else "",
                f"{part} part" if part else "",
            ),
        )
    )
    coded = (
        next((score for quantity in _LENGTHS for score in found[quantity, None].values()), None)
        if _LENGTHS[0] in runs.quantities(task)
        else None
    )
    code = "" if coded is None else f" Codes are those of the n = {coded.n:,} training labels."
    return table(
        f"{runs.title(task)} by layer: {about}, with 95 % intervals where there are any.{code}",
        head,
        rows,
    )


def _cell(score: Score | None, n: int | None) -> str:
    """A value; with its n where that differs from the row's, but for code lengths, whose n the
    caption tells."""
    if score is not None and score.quantity in _LENGTHS:
        return text(
            f"{score.value:,.0f}"
            if score.quantity == "codelength" and not math.isnan(score.value)
            else estimate(score, 2)
        )
    return value_cell(score) + (
        "" if score is None or score.n == n else tag("small", f"n = {score.n:,}")
    )


_TOLD = {
    "resampled": "Retrained on resampled items",
    "penalty": "C, chosen on dev",
    "ridge_penalty": "Ridge penalty, chosen on dev",
}


def _quiet(words: str) -> str:
    return tag("span", text(words), class_="quiet")


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return " to ".join(_value(part) for part in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(part)}" for key, part in value.items())
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
