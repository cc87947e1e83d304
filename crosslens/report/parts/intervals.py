"""Points with their intervals: one small picture of a number of each language, and of what stands
beside it."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from crosslens.report.parts.drawing import WIDTH, Style, inline_svg, sized_axes
from crosslens.report.parts.heat import scale_ends
from crosslens.report.parts.wording import short
from crosslens.score import Score

__all__ = ["interval_panel"]

_ROW, _BETWEEN, _BOTTOM, _LETTER = 12.0, 7.0, 44.0, 7.0  # pixels
_LONGEST = 24  # characters of a name
_FAINT = "#e6e8eb"


def interval_panel(
    key: str,
    label: str,
    names: Sequence[str],
    series: Sequence[tuple[Style, Sequence[Score | None]]],
    x_label: str,
    *,
    scale: float = 1.0,
) -> str:
    """A row for each name, and in it, one below the other, a point for each series with its interval.

    Parameters
    ----------
    key, label: see :func:`crosslens.report.parts.drawing.curve_panel`.
    names: of the rows, from the top. series: how its points look, and a score for each row, or None.
    x_label: what is measured, with its unit. scale: what scores are multiplied by, 100 for per cent.
    """
    rows = [short(name, _LONGEST) for name in names]
    high = _ROW * len(series) + _BETWEEN
    left = max(64.0, 16.0 + _LETTER * max(map(len, rows)))
    inner = WIDTH - left - 14, high * len(rows)
    figure, axes = sized_axes(WIDTH, inner[1] + _BOTTOM + 8, left, _BOTTOM, *inner)
    every = [score for _, scores in series for score in scores if score is not None]
    ends = scale_ends(
        value for score in every for value in (scale * score.value, *_ends(score, scale))
    )
    for place, (style, scores) in enumerate(series):
        middle = (place - (len(series) - 1) / 2) * _ROW / high
        for row, score in enumerate(scores):
            if score is None or math.isnan(score.value):
                continue
            y = row + middle
            axes.plot(_ends(score, scale), (y, y), color=style.colour, linewidth=1.6, alpha=0.5)
            axes.plot(
                scale * score.value,
                y,
                color=style.colour,
                marker=style.marker or "o",
                markersize=5,
                clip_on=False,
                markerfacecolor="white" if style.hollow else style.colour,
            )
    axes.set(xlim=ends, ylim=(len(rows) - 0.5, -0.5), xlabel=x_label)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(axis="y", length=0)
    axes.hlines(np.arange(1, len(rows)) - 0.5, *ends, color=_FAINT, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}".replace("-", "−")))
    axes.grid(axis="x", color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return inline_svg(figure, key, label)


def _ends(score: Score, scale: float) -> tuple[float, float]:
    """Of its interval, or itself twice, times a scale."""
    low, high = score.low, score.high
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return scale * score.value, scale * score.value
    return scale * low, scale * high
