"""Single classes in the report, those of language identification above all: F1 of each, and what is
taken for what."""

import dataclasses
import math
from pathlib import Path

import numpy as np

from crosslens.errors import StoreError, refuse
from crosslens.evidence import Confusion
from crosslens.report.folders.probes import ProbeRuns, Subject
from crosslens.report.parts.heat import colour_bar, heat_panel, scale_ends
from crosslens.report.parts.layout import Numbering, figure, legend, panel, table, words_cell
from crosslens.report.parts.wording import decimal, join, language, plural, tag, text
from crosslens.report.sections.probes_drawing import DOT_STYLES, Dots, dot_panel, fraction_ends
from crosslens.score import Score

__all__ = ["class_figures"]

_MOST = 16  # classes in a map of confusions: more could not be named
_ROWS = 25  # classes in a panel of dots


@dataclasses.dataclass(frozen=True)
class _Classes:
    """F1 of each class where a task is reported, and the counts of true class by answer where they
    are known."""

    subject: Subject
    layer: int
    n: int
    f1: dict[str, float | None]
    labels: list[str]
    counts: np.ndarray


def class_figures(runs: ProbeRuns, task: str, numbering: Numbering) -> tuple[list[str], list[str]]:
    """Figures of F1 of every class and of the confusions, and the tables of confusions, as HTML;
    none where the run kept neither.

    Raises
    ------
    StoreError: confusion counts that are damaged.
    """
    found = [
        classes
        for subject in runs.subjects
        if (classes := _classes(runs, task, subject)) is not None
    ]
    if not found:
        return [], []
    many = len(runs.subjects) > 1
    first = _f1_figure(runs.title(task), found, numbering)
    shown = [
        _confusions(runs.title(task), one, numbering, many) for one in found if len(one.labels) > 1
    ]
    return [first, *(drawn for drawn, _ in shown)], [listed for _, listed in shown]


def _classes(runs: ProbeRuns, task: str, subject: Subject) -> _Classes | None:
    """What the score where the task is reported says about single classes."""
    chosen = runs.chosen(subject, task)
    if chosen is None or chosen.layer is None:
        return None
    told = chosen.score.evidence
    f1, (labels, counts) = told.f1 or {}, _counts(runs.folders[subject.run], told.confusion)
    if not f1 and not labels:
        return None
    if _are_languages(runs, task, labels or list(f1)):
        f1 = {language(label): value for label, value in f1.items()}
        labels = [language(label) for label in labels]
    return _Classes(subject, chosen.layer, chosen.score.n, f1, labels, counts)


def _are_languages(runs: ProbeRuns, task: str, labels: list[str]) -> bool:
    """Whether labels are codes of languages: by the task's card, or (of earlier runs) if each of
    them is one."""
    group = runs.card(task).get("group")
    return group == "language" if group else all(language(label) != label for label in labels)


def _counts(folder: Path, given: Confusion | None) -> tuple[list[str], np.ndarray]:
    """Labels and counts, as the score tells them."""
    nothing: tuple[list[str], np.ndarray] = ([], np.zeros((0, 0)))
    if given is None:
        return nothing
    labels = given.labels
    try:
        counts = np.asarray(given.counts, np.float64)
    except (ValueError, TypeError):
        counts = np.zeros((0, 0))
    if counts.shape != (len(labels), len(labels)):
        expected = f"confusion counts of {plural(len(labels), 'label')}"
        got = f"shape {counts.shape}"
        refuse(str(folder / "scores.jsonl"), expected, got, "run it again", StoreError)
    return labels, counts


def _f1_figure(called: str, found: list[_Classes], numbering: Numbering) -> str:
    """Dots, sorted by the first encoder that has each class, worst first; 25 classes to a panel."""
    order: dict[str, float] = {}
    for one in found:
        for label, value in one.f1.items():
            order.setdefault(label, -1.0 if value is None else value)
    names = sorted(order, key=lambda label: (order[label], label))
    if not names:
        return ""
    scores = [[_dot(one, name) for name in names] for one in found]
    ends = fraction_ends(score for row in scores for score in row)
    panels = []
    for start in range(0, len(names), _ROWS):
        part = names[start : start + _ROWS]
        series = [
            Dots(DOT_STYLES[i % len(DOT_STYLES)], row[start : start + _ROWS])
            for i, row in enumerate(scores)
        ]
        told = ", ".join(
            f"{name} {decimal(order[name], 2) if order[name] >= 0 else 'none'}" for name in part
        )
        title = (
            f"Classes {start + 1} to {start + len(part)} of {len(names)}"
            if len(names) > _ROWS
            else "All classes"
        )
        n = f"{found[0].n:,} items" if len({one.n for one in found}) == 1 else "n differs"
        picture = dot_panel(
            f"F1 by class, {called}: {told}", [name for name in part], series, ends, "F1 (0 to 1)"
        )
        panels.append(panel(title, n, picture))
    where = join([f"{one.subject.label} at layer {one.layer} (n = {one.n:,})" for one in found])
    reading = (
        f"each dot is one class, sorted by "
        f"F1{' of the first encoder' if len(found) > 1 else ''}, the worst first; {where}. F1 "
        f"is the "
        "harmonic mean of precision and recall of that class; classes without a dot are "
        "neither in the test split nor answered. Single "
        "classes have few items: read small differences as noise."
    )
    entries = (
        [(DOT_STYLES[i % len(DOT_STYLES)], one.subject.label) for i, one in enumerate(found)]
        if len(found) > 1
        else []
    )
    return figure(
        numbering, f"{called}: F1 of each class.", reading, legend(entries, sticky=False), panels
    )


def _dot(one: _Classes, name: str) -> Score | None:
    value = one.f1.get(name)
    return None if value is None else Score(quantity="macro_f1", value=value, n=one.n)


def _confusions(called: str, one: _Classes, numbering: Numbering, many: bool) -> tuple[str, str]:
    """A map of the classes with the most errors, and the commonest confusions as a table."""
    wrong = one.counts.copy()
    np.fill_diagonal(wrong, 0)
    who = f"{one.subject.label}, " if many else ""
    total, errors = int(one.counts.sum()), int(wrong.sum())
    if not errors:
        return tag(
            "p", text(f"{who}layer {one.layer}: no item of {total:,} was taken for another class.")
        ), ""
    worst = sorted(
        range(len(one.labels)), key=lambda i: (-(wrong[i].sum() + wrong[:, i].sum()), one.labels[i])
    )[:_MOST]
    chosen = sorted(worst, key=lambda i: one.labels[i])
    names = [one.labels[i] for i in chosen]
    sizes = one.counts.sum(axis=1)
    cells = np.array(
        [[one.counts[i, j] / sizes[i] if sizes[i] else math.nan for j in chosen] for i in chosen]
    )
    scale = scale_ends(cells.ravel().tolist())
    label = (
        f"Confusion matrix of {called}, {who}layer {one.layer}, n = {total:,}, shares of each "
        f"true class"
    )
    picture = heat_panel(
        numbering.panel(), label, cells, (names, names), ("true class", "answer"), ends=scale
    )
    which = (
        f"the {len(names)} of {len(one.labels)} classes with the most errors"
        if len(names) < len(one.labels)
        else "all classes"
    )
    reading = (
        f"a row is the true class, a column the answer, darker is a larger share of the row; "
        f"{which}. The diagonal is recall; a row adds "
        "up to 1 with the answers that have no column here. Grey rows have no items."
    )
    bar = tag(
        "div",
        colour_bar(numbering.panel(), "share of the items of the true class", scale),
        class_="legend",
    )
    title = f"{called}: what is taken for what{f', {one.subject.label}' if many else ''}."
    shown = figure(
        numbering, title, reading, bar, [panel(f"Layer {one.layer}", f"n = {total:,}", picture)]
    )
    return shown, _commonest(called, one, wrong, who, errors, total)


def _commonest(
    called: str, one: _Classes, wrong: np.ndarray, who: str, errors: int, total: int
) -> str:
    pairs = [
        (int(wrong[i, j]), one.labels[i], one.labels[j], float(one.counts[i].sum()))
        for i, j in np.argwhere(wrong > 0)
    ]
    rows = []
    for count, true, answer, size in sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2]))[
        :12
    ]:
        rows.append(
            [
                words_cell(true),
                words_cell(answer),
                f"{count:,}",
                f"{100 * count / size:.1f} %",
                f"{size:,.0f}",
            ]
        )
    caption = (
        f"The commonest confusions, {who}layer {one.layer}: {plural(errors, 'error')} among "
        f"{plural(total, 'item')}."
    )
    return table(
        caption,
        ["True class", "Taken for", "Items", "Share of the true class", "n of the true class"],
        rows,
    )
