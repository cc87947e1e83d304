"""All tasks at a glance: the table of results, tasks against layers, and the paired tests."""

import math
from collections.abc import Sequence

from crosslens.report.drawing import colour_bar
from crosslens.report.layout import Numbering, figure, panel, section, table
from crosslens.report.probes_drawing import cell_words, heat_table, row_name, value_cell
from crosslens.report.probes_pairs import pair_averages
from crosslens.report.probes_run import CONDITIONS, SURFACE, Chosen, ProbeRuns, Subject, against, in_words, task_title
from crosslens.report.study import Curve
from crosslens.report.wording import count_of, decimal, estimate, paragraph, plural, tag, text
from crosslens.score import QUANTITIES, Score

__all__ = ["control_at", "overview_section", "paired_section", "selectivity"]


def control_at(
    runs: ProbeRuns, subject: Subject, task: str, condition: str | None, chosen: Chosen, quantity: str | None = None
) -> Score | None:
    """A control (or another quantity of the encoder) where the task is reported."""
    quantity = quantity or runs.main_quantity(task)
    if chosen.layer is None:
        return runs.whole(subject, task, quantity, condition)
    return runs.curve(subject, task, quantity, condition, chosen.representation).get(chosen.layer)


def selectivity(runs: ProbeRuns, subject: Subject, task: str, representation: str) -> Curve:
    """Accuracy minus that of the control task, by layer, whichever condition the run filed it under."""
    curves = (
        runs.curve(subject, task, "selectivity", condition, representation) for condition in (None, "control_task", "shuffled_labels")
    )
    return next((curve for curve in curves if curve), {})


def overview_section(runs: ProbeRuns, numbering: Numbering) -> str:
    """The table of results and a map for each encoder."""
    return section("overview", "All tasks", _results(runs), _maps(runs, numbering))


def _results(runs: ProbeRuns) -> str:
    many = len(runs.subjects) > 1
    head = [
        "Task",
        *(["Encoder"] if many else []),
        "Measured as",
        "Layer",
        "Value",
        "n",
        "Majority class",
        "Random encoder",
        "Control labels",
    ]
    head += ["Selectivity", "The text itself"]
    rows = []
    for task in runs.tasks():
        for subject in runs.subjects:
            if any(key[0] == task for key in runs.cells[subject]):
                rows.append([row_name(task_title(task)), *([cell_words(subject.label)] if many else []), *_result(runs, task, subject)])
    for task, subject, method, name, score, random in pair_averages(runs):
        about = f"{QUANTITIES[score.quantity].label}, {method}, {name}".replace("_", " ")
        cells = [
            cell_words(about),
            "–",
            value_cell(score),
            f"{score.n:,}",
            "0.5" + _remark("chance"),
            value_cell(random),
            *["–"] * 3,
        ]
        rows.append([row_name(task_title(task)), *([cell_words(subject.label)] if many else []), *cells])
    names = dict(enumerate(folder.resolve().name for folder in runs.folders))
    for run, task, reason in runs.not_measured():
        who = [cell_words(names[run])] if many else []
        rows.append([row_name(task_title(task)), *who, cell_words("not measured:", reason), *["–"] * 8])
    caption = (
        "Each task at the layer that is best on the dev part; where there was none, at the layer that is best on the reported items "
        "themselves (marked “same items”), which is slightly optimistic. Values with 95 % intervals over items; controls at the same layer."
    )
    return table(caption, head, rows) if rows else paragraph("Nothing was measured.")


def _remark(words: str) -> str:
    return tag("small", text(words))


def _result(runs: ProbeRuns, task: str, subject: Subject) -> list[str]:
    """The cells of one task and encoder."""
    main, chosen = runs.main_quantity(task), runs.chosen(subject, task)
    if chosen is None:
        some = next((s for k in runs.layers(subject, task) if (s := runs.curve(subject, task, main).get(k))), None)
        return [cell_words(QUANTITIES[main].label), "–", value_cell(some) if some else "not computed", *["–"] * 6]
    how = "" if chosen.layer is None or chosen.layers < 2 else _remark("chosen on dev" if chosen.on_dev else "same items")
    part = runs.part(subject, task)
    measured = ", ".join(filter(None, (QUANTITIES[main].label, chosen.representation.replace("_", " "), part)))
    select = selectivity(runs, subject, task, chosen.representation).get(chosen.layer) if chosen.layer is not None else None
    cells = [
        cell_words(measured),
        ("–" if chosen.layer is None else str(chosen.layer)) + how,
        text(estimate(chosen.score)),
        f"{chosen.score.n:,}",
    ]
    for conditions in (("majority",), ("random_encoder",), ("control_task", "shuffled_labels", "word_order")):
        cells.append(_controls(runs, task, subject, chosen, conditions))
    return [*cells, value_cell(select), _controls(runs, task, subject, chosen, SURFACE)]


def _controls(runs: ProbeRuns, task: str, subject: Subject, chosen: Chosen, conditions: Sequence[str]) -> str:
    """A cell with those of some controls that were measured, named where the column does not name them."""
    parts = []
    for condition in conditions:
        control = control_at(runs, subject, task, condition, chosen)
        if control is None:
            continue
        names = [CONDITIONS[condition].lower()] if len(conditions) > 1 and condition not in SURFACE else []
        names = [CONDITIONS[condition]] if condition in SURFACE else names
        names += (
            ["encoder not clearly above"] if condition not in SURFACE and against(chosen.score, control) in ("unclear", "below") else []
        )
        parts.append(value_cell(control) + "".join(_remark(name) for name in names))
    return "".join(parts) or "–"


def _maps(runs: ProbeRuns, numbering: Numbering) -> str:
    panels = [part for subject in runs.subjects if (part := _map(runs, subject))]
    if not panels:
        return ""
    reading = (
        "a row is a task, a column a layer (0 = embeddings); the darker a cell, the nearer the value is to 1, and values of 0 and below "
        "are white. Tasks differ in what is measured and in what chance is: compare cells within a row. The cell with a star is the one "
        "that is reported. Rows of selectivity show by how much the accuracy is above that of the control task."
    )
    bar = tag("div", colour_bar(numbering.panel(), "value of the measure named in the row (same scale everywhere)"), class_="legend")
    return figure(numbering, "Tasks by layer.", reading, bar, panels, size="broad")


def _map(runs: ProbeRuns, subject: Subject) -> str:
    rows: list[tuple[str, Curve, int | None]] = []
    for task in runs.tasks():
        chosen, main = runs.chosen(subject, task), runs.main_quantity(task)
        curve = runs.curve(subject, task, main, None, chosen.representation) if chosen else {}
        if curve and chosen:
            rows.append((row_name(task_title(task), in_words(main)), curve, chosen.layer))
            extra = selectivity(runs, subject, task, chosen.representation)
            rows += [(row_name(task_title(task), "selectivity"), extra, chosen.layer)] if extra else []
    if not rows:
        return ""
    last = max(max(curve) for _, curve, _ in rows)
    cells = [(name, [curve[k].value if k in curve else None for k in range(last + 1)], marked) for name, curve, marked in rows]
    head = ["Task", *(str(layer) for layer in range(last + 1))]
    n = count_of(score for _, curve, _ in rows for score in curve.values())
    picture = heat_table(f"Value of each task at each layer, {subject.label}, {n}", head, cells)
    empty = any(math.isnan(value) for _, values, _ in cells for value in values if value is not None)
    return panel(
        f"{subject.label}, layers 0 to {last}", n, picture, missing=["– could not be computed; why is said at the task."] if empty else []
    )


def paired_section(runs: ProbeRuns) -> str:
    """Comparisons on the same items; empty where there are none."""
    if not runs.paired_tests:
        return ""
    rows = []
    for run, task, test in runs.paired_tests:
        mine = [s.label for s in runs.subjects if s.run == run and s.encoder is not None and s.encoder == test.get("encoder")]
        run_name = [runs.folders[run].resolve().name] if len(runs.folders) > 1 else []
        about = (mine or run_name) if len(runs.subjects) > 1 else []  # encoders that are compared with each other are named in the test
        where = f" ({about[0]})" if about else ""
        ends = [test.get(name) for name in ("difference", "low", "high")]
        numbers = [decimal(end) if isinstance(end, (int, float)) and math.isfinite(end) else "–" for end in ends]
        p = test.get("corrected_p")
        verdict = "different" if isinstance(p, (int, float)) and p < 0.05 else "not told apart"
        counts = [_count(test.get(name)) for name in ("n", "only_first", "only_second")]
        cells = [*(cell_words(str(test.get(name, "–"))) for name in ("first", "second")), *counts]
        interval = "" if test.get("low") is None else f" [{numbers[1]}, {numbers[2]}]"
        cells += [numbers[0] + interval, _probability(test.get("p")), _probability(p) + _remark(verdict)]
        rows.append([row_name(task_title(task) + where), *cells])
    head = ["Task", "First", "Second", "n", "Only first right", "Only second right", "Difference", "p", "p, corrected"]
    intro = (
        f"{plural(len(rows), 'comparison')} on the same items. The difference is the first minus the second, with its 95 % interval; p is "
        "that of a paired test (McNemar’s test, mid-p, for what is right or wrong), and is corrected by Holm’s procedure for the number of "
        "comparisons made together. “Not told apart” means a corrected p of 0.05 or more: it does not mean that the two are equal."
    )
    if any("chosen_from" in test for _, _, test in runs.paired_tests):
        intro += " Where a task has no dev part, the best layer was chosen on the items tested: p is multiplied by the number of choices."
    if len(runs.folders) > 1:
        intro += " Encoders of different runs were not compared item by item: for that, probe them in one run (--encoder A --encoder B)."
    return section("paired", "Paired tests", paragraph(text(intro)), table("Paired tests.", head, rows))


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def _probability(value: object) -> str:
    if not isinstance(value, (int, float)) or math.isnan(value):
        return "–"
    return "&lt; 0.001" if value < 0.001 else decimal(value)
