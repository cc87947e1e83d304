"""Loss and held-out perplexity of a training: over tokens, and as a table."""

import math

from crosslens.report.folders.log import smoothed
from crosslens.report.folders.training import Training
from crosslens.report.parts.drawing import Axis, Line, Style, series_panel, series_style
from crosslens.report.parts.layout import Numbering, legend, panel, section, table
from crosslens.report.parts.wording import decimal, language, paragraph, plural, tag, text
from crosslens.report.sections.training_words import CHANCE, among, at, not_drawn, token_axis
from crosslens.selection import choose

__all__ = [
    "finite_of",
    "learning_section",
    "loss_lines",
    "loss_panel",
    "perplexity_panel",
    "shown",
    "validated",
]

_RAW, _SMOOTH = Style("#9aa0a6", width=0.9), Style("#0072b2", width=2.0)


def learning_section(run: Training) -> str:
    """The whole section; its figures stand on top of the page."""
    if not run.points and not validated(run):
        return section("learning", "Loss and perplexity", paragraph("Nothing has been logged yet."))
    intro = (
        "Some subwords of each sentence are hidden, and the encoder guesses them from the rest. "
        "The training loss is measured on the text "
        "that the weights are fitted to; perplexity is measured on held-out sentences, with "
        "the same subwords hidden every time."
    )
    return section("learning", "Loss and perplexity", paragraph(text(intro)), _table(run))


def loss_lines(run: Training, unit: float) -> list[Line]:
    """The loss as it was logged and, where it is noisy, its running mean."""
    places = [point.tokens / unit for point in run.points]
    losses = [finite_of(point.loss) for point in run.points]
    smooth = smoothed(losses)
    return (
        [Line(places, losses, _SMOOTH)]
        if smooth is None
        else [Line(places, losses, _RAW), Line(places, smooth, _SMOOTH)]
    )


def loss_panel(run: Training, numbering: Numbering) -> str:
    """The training loss over tokens; empty where none is logged."""
    if not run.points:
        return ""
    unit, x_label = token_axis(run)
    lines, level = loss_lines(run, unit), math.log(run.vocabulary) if run.vocabulary else None
    finite = [point for point in run.points if math.isfinite(point.loss)]
    label = f"Training loss over tokens seen, {plural(len(run.points), 'log line')}"
    if finite:
        label += (
            f": {decimal(finite[0].loss)} at step {finite[0].step:,}, {decimal(finite[-1].loss)} "
            f"at step {finite[-1].step:,}"
        )
    picture = series_panel(
        numbering.panel(), label, lines, x_label, Axis("loss (nats per masked token)"), level
    )
    missing = not_drawn(
        "loss", [point.step for point in run.points if not math.isfinite(point.loss)]
    )
    entries = (
        [(_RAW, "as logged"), (_SMOOTH, "running mean")]
        if len(lines) > 1
        else [(_SMOOTH, "as logged")]
    )
    entries += [(CHANCE, "guessing evenly over the vocabulary")] if level is not None else []
    return panel(
        "Training loss",
        plural(len(run.points), "log line"),
        picture,
        missing=missing,
        key=legend(entries, sticky=False),
    )


def perplexity_panel(run: Training, numbering: Numbering) -> str:
    """Held-out perplexity of each language over tokens; empty where nothing was validated."""
    codes = validated(run)
    if not codes:
        return ""
    unit, x_label = token_axis(run)
    places = [validation.tokens / unit for validation in run.validations]
    values = {
        code: [
            finite_of(validation.perplexity.get(code, math.nan), above=0.0)
            for validation in run.validations
        ]
        for code in codes
    }
    lines = [Line(places, values[code], series_style(i)) for i, code in enumerate(codes)]
    said, missing = [], []
    for code in codes:
        finite = [value for value in values[code] if not math.isnan(value)]
        said.append(
            f"{language(code)} "
            f"{f'{decimal(finite[0], 1)} to {decimal(finite[-1], 1)}' if finite else 'no numbers'}"
        )
        bad = [
            v.step
            for v, value in zip(run.validations, values[code], strict=True)
            if math.isnan(value)
        ]
        missing += not_drawn(language(code), bad)
    counts = [run.held_out_sentences(code) for code in codes]
    label = (
        f"Held-out perplexity over tokens seen, {plural(len(places), 'validation')}, first to "
        f"last: {'; '.join(said)}"
    )
    picture = series_panel(
        numbering.panel(), label, lines, x_label, Axis("perplexity (log scale)", log=True)
    )
    entries = [
        (series_style(i), f"{language(code)}, {among([counts[i]])}") for i, code in enumerate(codes)
    ]
    return panel(
        "Held-out perplexity",
        among(counts),
        picture,
        missing=missing,
        key=legend(entries, sticky=False),
    )


def validated(run: Training) -> list[str]:
    """The languages that were validated."""
    seen = {code for validation in run.validations for code in validation.perplexity}
    return [code for code in run.languages() if code in seen]


def finite_of(value: float, above: float = -math.inf) -> float:
    """The value, or NaN where nothing can be drawn."""
    return value if math.isfinite(value) and value > above else math.nan


def _table(run: Training) -> str:
    codes = validated(run)
    if not codes:
        return ""
    first, last = run.validations[0], run.validations[-1]
    rows = []
    for code in codes:
        n = run.held_out_sentences(code)
        usable = [
            (v.perplexity[code], v)
            for v in run.validations
            if not math.isnan(finite_of(v.perplexity.get(code, math.nan), above=0.0))
        ]
        lowest = choose(usable, lambda entry: -entry[0])
        cells = [shown(validation.perplexity.get(code, math.nan)) for validation in (first, last)]
        where = (
            "–"
            if lowest is None
            else f"{shown(-lowest.value)} {tag('span', at(lowest.item[1]), class_='quiet')}"
        )
        rows.append([text(language(code)), "–" if n is None else f"{n:,}", *cells, where])
    head = [
        "Language",
        "n, sentences",
        *(f"{tag('span', at(v), class_='quiet')}" for v in (first, last)),
        "Lowest",
    ]
    head[2], head[3] = f"First<br>{head[2]}", f"Last<br>{head[3]}"
    return table(
        "Held-out perplexity at the first and at the last validation, and where it was lowest.",
        head,
        rows,
    )


def shown(value: float) -> str:
    """A perplexity."""
    if math.isinf(value):
        return "infinite"
    return (
        "not a number"
        if math.isnan(value)
        else f"{value:.2e}"
        if abs(value) >= 1e7
        else f"{value:,.1f}"
    )
