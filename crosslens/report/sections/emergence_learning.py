"""Loss and perplexity of the conditions of an emergence run, and what each cost."""

import dataclasses
import math
import statistics

from crosslens.report.folders.emergence import Emergence
from crosslens.report.folders.log import smoothed
from crosslens.report.parts.drawing import Axis, Line, series_panel
from crosslens.report.parts.layout import Numbering, figure, panel, section, table
from crosslens.report.parts.wording import decimal, language, paragraph, plural, text
from crosslens.report.sections.emergence_words import STYLES, ends, key
from crosslens.report.sections.training_words import token_axis

__all__ = ["cost_section", "learning_section"]


def learning_section(run: Emergence, numbering: Numbering) -> str:
    """The whole section."""
    title, panels = "Loss and perplexity", []
    if any(condition.points for condition in run.conditions):
        lines = {
            c.name: ([p.tokens for p in c.points], _smooth([p.loss for p in c.points]))
            for c in run.conditions
            if c.points
        }
        panels.append(
            _learning_panel(
                run, numbering, "Training loss", lines, Axis("loss (nats per masked token)")
            )
        )
    for code in run.languages():
        seen = {
            c.name: [check for check in c.checks if code in check.perplexity]
            for c in run.conditions
        }
        lines = {
            name: ([k.tokens for k in some], [k.perplexity[code] for k in some])
            for name, some in seen.items()
            if some
        }
        panels.append(
            _learning_panel(
                run,
                numbering,
                f"Held-out perplexity, {language(code)}",
                lines,
                Axis("perplexity (log scale)", log=True),
            )
        )
    if not panels:
        return section("learning", title, paragraph("Nothing has been logged yet."))
    reading = (
        "lower is better. The loss (a centred running mean, where it is noisy) is measured on "
        "the text that the weights are fitted to, the "
        "perplexity of each language on held-out text. Where conditions learn their languages "
        "equally well and differ in "
        "alignment, it is not for want of training. The vertical axes do not start at 0."
    )
    return section(
        "learning",
        title,
        figure(
            numbering,
            "Loss and perplexity over tokens seen.",
            reading,
            key(run, band=False),
            panels,
        ),
    )


def _smooth(values: list[float]) -> list[float]:
    return smoothed(values) or values


def _learning_panel(
    run: Emergence,
    numbering: Numbering,
    title: str,
    series: dict[str, tuple[list[float], list[float]]],
    axis: Axis,
) -> str:
    unit, x_label = token_axis(run)
    lines, said, lost = [], [], 0
    for name, (tokens, values) in series.items():
        usable = [value if value > 0 else math.nan for value in values]
        finite = [value for value in usable if not math.isnan(value)]
        lost += len(usable) - len(finite)
        said.append(f"{name} {ends(finite)}")
        look = dataclasses.replace(STYLES[name], band=False, width=1.5)
        lines.append(Line([count / unit for count in tokens], usable, look))
    label = f"{title} over tokens seen, first to last: {'; '.join(said)}"
    missing = (
        [
            (
                f"Not drawn: {plural(lost, 'value')} of the logs that "
                f"{'is' if lost == 1 else 'are'} no usable number."
            )
        ]
        if lost
        else []
    )
    counts = sorted({len(values) for _, values in series.values()})
    what = "check" if axis.log else "log line"
    n = f"{counts[0]:,} to {counts[-1]:,} {what}s" if len(counts) > 1 else plural(counts[0], what)
    return panel(
        title, n, series_panel(numbering.panel(), label, lines, x_label, axis), missing=missing
    )


def cost_section(run: Emergence) -> str:
    """The whole section."""
    if not run.conditions:
        return section("cost", "Cost", paragraph("Nothing has been logged yet."))
    rows = []
    for condition in run.conditions:
        step, tokens = condition.done
        rates = [point.rate for point in condition.points if math.isfinite(point.rate)]
        losses = [point.loss for point in condition.points if math.isfinite(point.loss)]
        last = condition.checks[-1].perplexity if condition.checks else {}
        rows.append(
            [
                text(condition.name),
                f"{step:,}",
                f"{tokens / 1e6:.1f}",
                f"{condition.seconds / 60:.1f}" if condition.seconds else "–",
                f"{statistics.median(rates):,.0f}" if rates else "–",
                decimal(losses[-1]) if losses else "–",
                *(
                    "–" if math.isnan(last.get(code, math.nan)) else decimal(last[code], 1)
                    for code in run.languages()
                ),
            ]
        )
    head = [
        "Condition",
        "Steps",
        "Tokens<br>(million)",
        "Minutes",
        "Tokens/s<br>(median)",
        "Last loss",
    ]
    head += [f"Perplexity<br>{text(language(code))}" for code in run.languages()]
    caption = (
        "What each condition cost so far, and where it stands: training time as logged, summed "
        "over resumptions."
    )
    return section("cost", "Cost", table(caption, head, rows))
