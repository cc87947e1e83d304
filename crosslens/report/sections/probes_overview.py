"""All tasks at a glance: the table of results, tasks against layers, and the paired tests."""

import math
from collections.abc import Sequence

from crosslens.report.folders.probes import (
    CONDITIONS,
    SURFACE,
    Chosen,
    ProbeRuns,
    Subject,
    against,
    in_words,
    of_seeds,
)
from crosslens.report.folders.study import Curve
from crosslens.report.parts.drawing import Style
from crosslens.report.parts.heat import scale_ends
from crosslens.report.parts.layout import (
    Numbering,
    figure,
    legend,
    panel,
    section,
    table,
    value_cell,
    words_cell,
)
from crosslens.report.parts.wording import (
    count_of,
    decimal,
    named,
    paragraph,
    plural,
    spoken_value,
    tag,
    text,
)
from crosslens.report.sections.probes_drawing import (
    DOT_STYLES,
    Dots,
    dot_panel,
    fraction_ends,
    heat_rows,
)
from crosslens.report.sections.probes_pairs import pair_averages
from crosslens.score import QUANTITIES, Score, shared_texts

__all__ = [
    "LABEL_CONTROLS",
    "control_at",
    "overview_figure",
    "overview_section",
    "paired_section",
    "selectivity",
]

LABEL_CONTROLS = ("control_task", "shuffled_labels", "word_order")


def control_at(
    runs: ProbeRuns,
    subject: Subject,
    task: str,
    condition: str | None,
    chosen: Chosen,
    quantity: str | None = None,
) -> Score | None:
    """A control (or another quantity of the encoder) where the task is reported."""
    quantity = quantity or runs.main_quantity(task)
    if chosen.layer is None:
        return runs.whole(subject, task, quantity, condition)
    return runs.curve(subject, task, quantity, condition, chosen.representation).get(chosen.layer)


def selectivity(runs: ProbeRuns, subject: Subject, task: str, representation: str) -> Curve:
    """Accuracy minus that of the control task, by layer, whichever condition the run filed it
    under."""
    curves = (
        runs.curve(subject, task, "selectivity", condition, representation)
        for condition in (None, "control_task", "shuffled_labels")
    )
    return next((curve for curve in curves if curve), {})


def overview_figure(runs: ProbeRuns, numbering: Numbering) -> str:
    """Every task where it is reported, beside its controls or encoder by encoder, and layer by
    layer where there is one encoder."""
    panels = [
        part for part in (_dots(runs), *(_maps(runs) if len(runs.subjects) == 1 else ())) if part
    ]
    if not panels:
        return ""
    many = len(runs.subjects) > 1
    beside = "a mark for each encoder" if many else "the encoder beside its controls"
    reading = (
        f"left, each task at the layer where it is reported, with its 95 % interval over "
        f"items: {beside}. What the encoder does not have "
        f"beyond its controls, its training has not brought.{'' if many else ' ' + _READING} "
        f"Tasks differ in what is measured and in what "
        "chance is: compare within a task."
    )
    return figure(numbering, "All tasks.", reading, "", panels)


_READING = (
    "By layer, the darker a cell, the higher the value (a column is a layer, 0 = embeddings); "
    "the star marks the layer that is reported, "
    "and rows of selectivity show by how much the accuracy is above that of the control task."
)
_MARKS = {
    "random_encoder": Style("#8a9097", marker="x"),
    "control": Style("#aa4499", marker="^", hollow=True),
    "majority": Style("#000000", marker="v", hollow=True),
}


def _dots(runs: ProbeRuns) -> str:
    """Values with intervals, a row for each task."""
    many, names, rows = len(runs.subjects) > 1, [], []
    for task in runs.tasks():
        found = [runs.chosen(subject, task) for subject in runs.subjects]
        if not any(found):
            continue
        names.append(f"{runs.title(task)}, {in_words(runs.main_quantity(task))}")
        if many:
            rows.append([None if chosen is None else chosen.score for chosen in found])
        elif found[0] is not None:
            controls = [("random_encoder",), LABEL_CONTROLS, ("majority",)]
            rows.append(
                [
                    found[0].score,
                    *(
                        _first_control(runs, task, runs.subjects[0], found[0], some)
                        for some in controls
                    ),
                ]
            )
    for (task, *told), average in _averages(runs).items():
        names.append(
            ", ".join((runs.title(task), *(part.replace("_", " ") for part in told if part)))
        )
        own = [average.get(subject, (None, None))[0] for subject in runs.subjects]
        rows.append(own if many else [*own, average[runs.subjects[0]][1], None, None])
    if not rows:
        return ""
    styles = (
        [DOT_STYLES[i % len(DOT_STYLES)] for i in range(len(runs.subjects))]
        if many
        else [DOT_STYLES[0], *_MARKS.values()]
    )
    said = (
        [subject.label for subject in runs.subjects]
        if many
        else ["encoder", "random encoder", "control labels", "majority class"]
    )
    columns = [list(column) for column in zip(*rows, strict=True)]
    shown = [place for place, column in enumerate(columns) if any(column)]
    ends = fraction_ends(score for column in columns for score in column)
    spoken = "; ".join(
        f"{name} {spoken_value(row[0])}" for name, row in zip(names, rows, strict=True)
    )
    picture = dot_panel(
        f"Value of each task, {said[0]}: {spoken}",
        names,
        [Dots(styles[k], columns[k]) for k in shown],
        ends,
        "value",
    )
    key = legend([(styles[k], said[k]) for k in shown], sticky=False)
    return panel(
        "At the reported layer",
        count_of(score for row in rows for score in row[:1]),
        picture,
        key=key,
    )


def _averages(
    runs: ProbeRuns,
) -> dict[tuple[str, str, str], dict[Subject, tuple[Score, Score | None]]]:
    """Averages of minimal pairs: (task, method, what is averaged) -> encoder -> accuracy, that of
    the random encoder."""
    found: dict[tuple[str, str, str], dict[Subject, tuple[Score, Score | None]]] = {}
    for task, subject, method, name, score, random in pair_averages(runs):
        found.setdefault((task, method, name), {})[subject] = score, random
    return {
        key: row for key, row in found.items() if len(runs.subjects) > 1 or runs.subjects[0] in row
    }


def _first_control(
    runs: ProbeRuns, task: str, subject: Subject, chosen: Chosen, conditions: Sequence[str]
) -> Score | None:
    found = (control_at(runs, subject, task, condition, chosen) for condition in conditions)
    return next(
        (control for control in found if control is not None and not math.isnan(control.value)),
        None,
    )


def overview_section(runs: ProbeRuns, numbering: Numbering) -> str:
    """The table of results, what was not measured, and a map for each of several encoders."""
    maps = _maps(runs) if len(runs.subjects) > 1 else []
    drawn = figure(numbering, "Tasks by layer.", _READING, "", maps) if maps else ""
    return section("overview", "All tasks", drawn, _results(runs), _not_measured(runs))


def _not_measured(runs: ProbeRuns) -> str:
    """What a battery was asked for and does not have, with the reasons."""
    many = len(runs.folders) > 1
    items = []
    for run, task, reason in runs.not_measured():
        where = f" ({named(runs.folders[run].resolve().name)})" if many else ""
        items.append(f"{tag('strong', text(runs.title(task)))}{where}: {text(reason)}")
    return (
        tag("h3", "Not measured") + tag("ul", "".join(tag("li", item) for item in items))
        if items
        else ""
    )


def _results(runs: ProbeRuns) -> str:
    many = len(runs.subjects) > 1
    head = [
        "Task",
        *(["Encoder"] if many else []),
        "Value",
        "Layer",
        "n",
        "Random encoder",
        "Control labels",
        "Majority class",
    ]
    leaks = any(
        _without_shared(runs, task, subject) != "–"
        for task in runs.tasks()
        for subject in runs.subjects
    )
    head += [
        "Selectivity",
        "The text itself",
        *(["Without texts that are in train"] if leaks else []),
    ]
    rows = []
    for task in runs.tasks():
        for subject in runs.subjects:
            if any(key[0] == task for key in runs.cells[subject]):
                who = [words_cell(subject.label)] if many else []
                measured, *cells = _result(runs, task, subject)
                cells += [_without_shared(runs, task, subject)] if leaks else []
                rows.append([words_cell(runs.title(task), measured), *who, *cells])
    for task, subject, method, name, score, random in pair_averages(runs):
        about = f"{QUANTITIES[score.quantity].label}, {method}, {name}".replace("_", " ")
        cells = [
            value_cell(score),
            "–",
            f"{score.n:,}",
            value_cell(random),
            "–",
            "0.5" + _remark("chance"),
            "–",
            "–",
            *(["–"] if leaks else []),
        ]
        rows.append(
            [
                words_cell(runs.title(task), about),
                *([words_cell(subject.label)] if many else []),
                *cells,
            ]
        )
    caption = (
        "Each task at the layer that is best on the dev split; where there was none, at the "
        "layer that is best on the reported items "
        "themselves (marked “same items”), which is slightly optimistic. Values with 95 % "
        "intervals over items; controls at the same layer."
    )
    return table(caption, head, rows) if rows else paragraph("Nothing was measured.")


def _without_shared(runs: ProbeRuns, task: str, subject: Subject) -> str:
    """The cell with the value on test items whose text is not in train; "–" where no text is."""
    chosen = runs.chosen(subject, task)
    told = None if chosen is None else shared_texts(chosen.score)
    if told is None or not told[0].train:
        return "–"
    return words_cell("no item is left") if told[1] is None else value_cell(told[1], n=-1)


def _remark(words: str) -> str:
    return tag("small", text(words))


def _result(runs: ProbeRuns, task: str, subject: Subject) -> list[str]:
    """What is measured, in words, and the cells of one task and encoder."""
    main, chosen = runs.main_quantity(task), runs.chosen(subject, task)
    if chosen is None:
        some = next(
            (
                s
                for k in runs.layers(subject, task)
                if (s := runs.curve(subject, task, main).get(k))
            ),
            None,
        )
        return [QUANTITIES[main].label, value_cell(some) if some else "not computed", *["–"] * 7]
    how = (
        ""
        if chosen.layer is None or chosen.layers < 2
        else _remark("chosen on dev" if chosen.on_dev else "same items")
    )
    part = runs.part(subject, task)
    measured = ", ".join(
        filter(None, (QUANTITIES[main].label, chosen.representation.replace("_", " "), part))
    )
    select = (
        selectivity(runs, subject, task, chosen.representation).get(chosen.layer)
        if chosen.layer is not None
        else None
    )
    cells = [
        measured,
        value_cell(chosen.score),
        ("–" if chosen.layer is None else str(chosen.layer)) + how,
        f"{chosen.score.n:,}{_groups(chosen.score)}",
    ]
    for conditions in (("random_encoder",), LABEL_CONTROLS, ("majority",)):
        cells.append(_controls(runs, task, subject, chosen, conditions))
    return [*cells, value_cell(select), _controls(runs, task, subject, chosen, SURFACE)]


def _groups(score: Score) -> str:
    """How many groups of items that stand and fall together there are, where it is told."""
    many = score.evidence.groups
    return (
        tag("small", f"in {many:,} groups", class_="within")
        if isinstance(many, int) and many < score.n
        else ""
    )


def _controls(
    runs: ProbeRuns, task: str, subject: Subject, chosen: Chosen, conditions: Sequence[str]
) -> str:
    """A cell with those of some controls that were measured, named where the column does not name
    them."""
    parts = []
    for condition in conditions:
        control = control_at(runs, subject, task, condition, chosen)
        if control is None:
            continue
        names = (
            [CONDITIONS[condition].lower()]
            if len(conditions) > 1 and condition not in SURFACE
            else []
        )
        names = [CONDITIONS[condition]] if condition in SURFACE else names
        names += (
            ["encoder not clearly above"]
            if condition not in SURFACE and against(chosen.score, control) in ("unclear", "below")
            else []
        )
        names += [of_seeds(control)] if condition == "random_encoder" and of_seeds(control) else []
        parts.append(value_cell(control) + "".join(_remark(name) for name in names))
    return "".join(parts) or "–"


def _maps(runs: ProbeRuns) -> list[str]:
    """A panel of tasks against layers for each encoder, all on one scale."""
    rows = {subject: _map_rows(runs, subject) for subject in runs.subjects}
    ends = scale_ends(
        score.value for some in rows.values() for _, curve, _ in some for score in curve.values()
    )
    return [_map(subject, some, ends) for subject, some in rows.items() if some]


def _map_rows(runs: ProbeRuns, subject: Subject) -> list[tuple[str, Curve, int | None]]:
    rows: list[tuple[str, Curve, int | None]] = []
    for task in runs.tasks():
        chosen, main = runs.chosen(subject, task), runs.main_quantity(task)
        curve = runs.curve(subject, task, main, None, chosen.representation) if chosen else {}
        if curve and chosen:
            rows.append((f"{runs.title(task)}, {in_words(main)}", curve, chosen.layer))
            extra = selectivity(runs, subject, task, chosen.representation)
            rows += [(f"{runs.title(task)}, selectivity", extra, chosen.layer)] if extra else []
    return rows


def _map(
    subject: Subject, rows: list[tuple[str, Curve, int | None]], ends: tuple[float, float]
) -> str:
    last = max(max(curve) for _, curve, _ in rows)
    cells = [
        (name, [curve[k].value if k in curve else None for k in range(last + 1)], marked)
        for name, curve, marked in rows
    ]
    n = count_of(score for _, curve, _ in rows for score in curve.values())
    label = (
        f"Value of each task at each layer, {subject.label}, {n}, from {ends[0]:g}, nearly white, "
        f"to {ends[1]:g}, dark blue"
    )
    picture = heat_rows(
        label, [str(layer) for layer in range(last + 1)], cells, ends, "layer (0 = embeddings)"
    )
    empty = any(
        math.isnan(value) for _, values, _ in cells for value in values if value is not None
    )
    missing = ["– could not be computed; why is said at the task."] if empty else []
    return panel(
        f"{subject.label}, by layer",
        f"{n}; white {ends[0]:g} to dark {ends[1]:g}",
        picture,
        missing=missing,
    )


def paired_section(runs: ProbeRuns) -> str:
    """Comparisons on the same items; empty where there are none."""
    if not runs.paired_tests:
        return ""
    rows = []
    for run, task, test in runs.paired_tests:
        mine = [
            s.label
            for s in runs.subjects
            if s.run == run and s.encoder is not None and s.encoder == test.get("encoder")
        ]
        run_name = [runs.folders[run].resolve().name] if len(runs.folders) > 1 else []
        # encoders that are compared with each other are named in the test
        about = (mine or run_name) if len(runs.subjects) > 1 else []
        where = f" ({about[0]})" if about else ""
        ends = [test.get(name) for name in ("difference", "low", "high")]
        numbers = [
            decimal(end) if isinstance(end, (int, float)) and math.isfinite(end) else "–"
            for end in ends
        ]
        p = test.get("corrected_p")
        verdict = "different" if isinstance(p, (int, float)) and p < 0.05 else "not told apart"
        counts = [_count(test.get(name)) for name in ("n", "only_first", "only_second")]
        cells = [*(words_cell(str(test.get(name, "–"))) for name in ("first", "second")), *counts]
        interval = "" if test.get("low") is None else f" [{numbers[1]}, {numbers[2]}]"
        cells += [
            numbers[0] + interval,
            _probability(test.get("p")),
            _probability(p) + _remark(verdict),
        ]
        rows.append([words_cell(runs.title(task) + where), *cells])
    head = [
        "Task",
        "First",
        "Second",
        "n",
        "Only first right",
        "Only second right",
        "Difference",
        "p",
        "p, corrected",
    ]
    intro = (
        f"{plural(len(rows), 'comparison')} on the same items. The difference is the first "
        f"minus the second, with its 95 % interval; p is "
        "that of a paired test (McNemar’s test, mid-p, for what is right or wrong), and is "
        "corrected by Holm’s procedure for the number of "
        "comparisons made together. “Not told apart” means a corrected p of 0.05 or more: it "
        "does not mean that the two are equal."
    )
    if any("chosen_from" in test for _, _, test in runs.paired_tests):
        intro += (
            " Where a task has no dev split, the best layer was chosen on the items tested: p is "
            "multiplied by the number of choices."
        )
    if len(runs.folders) > 1:
        intro += " These are the tests that each run made on its own."
    return section(
        "paired", "Paired tests", paragraph(text(intro)), table("Paired tests.", head, rows)
    )


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def _probability(value: object) -> str:
    if not isinstance(value, (int, float)) or math.isnan(value):
        return "–"
    return "&lt; 0.001" if value < 0.001 else decimal(value)
