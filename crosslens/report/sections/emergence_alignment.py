"""Alignment of the token embeddings during an emergence run: over tokens, and when it came."""

import math

from crosslens.report.folders.emergence import Check, Emergence, chance_of
from crosslens.report.parts.drawing import Axis, Line, series_panel, upper_limit
from crosslens.report.parts.layout import Numbering, figure, panel, section, table
from crosslens.report.parts.wording import count_of, paragraph, text
from crosslens.report.sections.emergence_words import STYLES, ends, key, way_of
from crosslens.report.sections.training_words import not_drawn, token_axis

__all__ = ["alignment_overview", "alignment_section"]

_LEVELS = (0.1, 0.5, 0.8)


def alignment_section(run: Emergence) -> str:
    """The whole section; its figure is the page's first."""
    title = "Alignment of the token embeddings"
    if not run.directions():
        return section("alignment", title, paragraph("No check of this run has measured it yet."))
    intro = (
        "The two languages share no subword, and the encoder never sees which subword belongs to "
        "which. At every check each subword’s nearest "
        "subword of the other language is looked up: where it is the same subword, written in the "
        "other script, it counts as found."
    )
    return section("alignment", title, paragraph(text(intro)), _milestones(run))


def alignment_overview(run: Emergence, numbering: Numbering) -> str:
    """Alignment over tokens, a panel for each direction; empty where nothing was measured."""
    ways = run.directions()
    scores = [s for c in run.conditions for check in c.checks for s in check.alignment.values()]
    top = upper_limit([dict(enumerate(scores))])
    panels = [
        _alignment_panel(
            run, numbering, way, Axis("P@1 (fraction of subwords)", (-0.025 * top, 1.01 * top))
        )
        for way in ways
    ]
    reading = (
        "higher is better; each line is one training, its band the 95 % interval over subwords, "
        "and the dotted line is chance, 1/n. A line "
        "that rises says that the embeddings of the two languages have come to lie alike, "
        "though nothing tells the encoder to do so."
    )
    return (
        figure(numbering, "Alignment over tokens seen.", reading, key(run, ["chance, 1/n"]), panels)
        if panels
        else ""
    )


def _alignment_panel(run: Emergence, numbering: Numbering, way: str, axis: Axis) -> str:
    unit, x_label = token_axis(run)
    lines, said, missing, all_scores = [], [], [], []
    for condition in run.conditions:
        checks = [check for check in condition.checks if way in check.alignment]
        scores = [check.alignment[way] for check in checks]
        if not scores:
            continue
        all_scores += scores
        low, high = (
            [math.nan if end is None else end for end in ends]
            for ends in ([s.low for s in scores], [s.high for s in scores])
        )
        lines.append(
            Line(
                [check.tokens / unit for check in checks],
                [s.value for s in scores],
                STYLES[condition.name],
                low,
                high,
            )
        )
        finite = [s.value for s in scores if not math.isnan(s.value)]
        said.append(f"{condition.name} {ends(finite)}")
        missing += not_drawn(
            condition.name,
            [c.step for c, s in zip(checks, scores, strict=True) if math.isnan(s.value)],
        )
    n = count_of(s for s in all_scores if s.n)
    label = f"Alignment P@1 over tokens seen, {way_of(way)}, {n}, first to last check: {'; '.join(said)}"
    level = next((chance for s in all_scores if (chance := chance_of(s))), None)
    return panel(
        way_of(way),
        n,
        series_panel(numbering.panel(), label, lines, x_label, axis, level),
        missing=missing,
    )


def _milestones(run: Emergence) -> str:
    rows = []
    for condition in run.conditions:
        marks = [condition.left_chance(), *(condition.reached(level) for level in _LEVELS)]
        rows.append(
            [text(condition.name), *("–" if mark is None else _when(mark) for mark in marks)]
        )
    head = ["Condition", "Above chance", *(f"P@1 {level:g}" for level in _LEVELS)]
    caption = (
        "When alignment came: million tokens (minutes of training) at the check from which on "
        "both directions’ intervals lie above chance, "
        "and at the first check at which both have reached a level. Checks are some way "
        "apart, so these are upper ends."
    )
    return table(caption, head, rows)


def _when(check: Check) -> str:
    spent = f" ({check.seconds / 60:.1f})" if math.isfinite(check.seconds) else ""
    return f"{check.tokens / 1e6:.1f}{spent}"
