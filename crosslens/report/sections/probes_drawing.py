"""What the page of probe runs draws besides curves: rows of cells that are coloured by their value,
and dots with intervals."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from unicodedata import east_asian_width

from matplotlib import colormaps
from matplotlib.colors import to_hex

from crosslens.report.parts.drawing import Style, layer_ticks
from crosslens.report.parts.wording import decimal, tag, text
from crosslens.score import Score

__all__ = ["DOT_STYLES", "Dots", "dot_panel", "fraction_ends", "heat_rows", "one_each"]

_WIDTH = 360.0  # pixels, as a panel of curves
_BESIDE = 190.0  # pixels, the widest name that stands beside its dots
_INK, _SOFT, _FAINT = "#3a3f45", "#8b9198", "#e6e8eb"
_Place = Callable[[float], float]

DOT_STYLES = (
    Style("#0072b2", marker="o"),
    Style("#d55e00", marker="s"),
    Style("#00795c", marker="^"),
    Style("#aa4499", marker="D"),
    Style("#9c7500", marker="v"),
    Style("#4aa8dc", marker="o", hollow=True),
    Style("#3a3f45", marker="s", hollow=True),
)


@dataclasses.dataclass(frozen=True)
class Dots:
    """One series: a value with its interval for each name, None where there is none."""

    style: Style
    scores: Sequence[Score | None]


def fraction_ends(
    scores: Iterable[Score | None], level: float | None = None
) -> tuple[float, float]:
    """Ends, at tenths, of the axis that scores share: at least 0.3 apart, and never beyond -1 and
    1."""
    told = [
        end
        for s in scores
        if s is not None
        for end in (s.value, s.low, s.high)
        if end is not None and not math.isnan(end)
    ]
    told += [] if level is None else [level]
    low = math.floor(10 * min(told, default=0.0) + 1e-9) / 10
    high = math.ceil(10 * max(told, default=1.0) - 1e-9) / 10
    while high - low < 0.299:
        low, high = (
            (low - 0.1, high)
            if high > 0.95 or (low > 0.05 and high - low < 0.15)
            else (low, high + 0.1)
        )
    return round(max(low, -1.0), 1), round(min(high, 1.0), 1)


def one_each(sentences: Sequence[str]) -> str:
    """HTML of what is told of each encoder: a list where there are several."""
    return (
        sentences[0]
        if len(sentences) == 1
        else tag("ul", "".join(tag("li", sentence) for sentence in sentences))
    )


def heat_rows(
    label: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float | None], int | None]],
    ends: tuple[float, float],
    axis: str,
) -> str:
    """Rows of cells that are darker the nearer their value is to the upper end, as an inline SVG
    element; each row's name stands above it.

    Parameters
    ----------
    label: what the picture shows, for readers who cannot see it.
    columns: what the columns are called.
    rows: the name; a value for each column (None: not measured, left empty; NaN: not computed, a
        dash); which column has a star, if any.
    ends: of the scale, see :func:`crosslens.report.parts.heat.scale_ends`.
    axis: what the columns are.
    """
    blues, cell, (low, high), y = colormaps["Blues"], (_WIDTH - 4) / len(columns), ends, 4.0
    size, parts = min(11.0, cell / 2.3) if cell >= 24 else 11.0, []
    for name, values, marked in rows:
        parts.append(_words(2.0, y + 11, _cut(name), "start"))
        for place, value in enumerate(values):
            left, middle = 2 + cell * place, f"{2 + cell * (place + 0.5):.2f}"
            star = "*" if place == marked else ""
            if value is None:
                continue
            share = (
                math.nan if math.isnan(value) else min(1.0, max(0.0, (value - low) / (high - low)))
            )
            ground = "#ffffff" if math.isnan(share) else to_hex(blues(share))
            parts.append(
                tag(
                    "rect",
                    x=f"{left:.2f}",
                    y=f"{y + 15:g}",
                    width=f"{cell - 0.6:.2f}",
                    height="18",
                    fill=ground,
                )
            )
            told = (
                "–"
                if math.isnan(value)
                else decimal(value, 2).replace("0.", ".", 1) + star
                if cell >= 24
                else star
            )
            if told:
                ink = "#ffffff" if share > 0.55 else "#20242a"
                weight = "bold" if star else "normal"
                words = {"font-size": f"{size:.1f}", "font-weight": weight, "text-anchor": "middle"}
                parts.append(tag("text", told, x=middle, y=f"{y + 28:g}", fill=ink, **words))
        y += 38
    parts += [
        _words(2 + cell * (k + 0.5), y + 11, columns[k], "middle")
        for k in layer_ticks(len(columns), 13)
    ]
    parts.append(_words(_WIDTH / 2, y + 28, axis, "middle"))
    return _plot(parts, y + 36, label)


def dot_panel(
    label: str,
    names: Sequence[str],
    series: Sequence[Dots],
    ends: tuple[float, float],
    axis: str,
    level: float | None = None,
) -> str:
    """Dots with intervals, a row for each name, as an inline SVG element.

    Parameters
    ----------
    label: what the picture shows, for readers who cannot see it.
    names: what the rows are called, from the top; where one is long, they stand above their dots
        and not beside them.
    series: drawn below each other within a row.
    ends: of the horizontal axis.
    axis: what it measures, with its unit.
    level: where to draw a dotted line, the chance level.
    """
    widest = max((_wide(name) for name in names), default=0.0)
    above = 16.0 if widest > _BESIDE else 0.0
    left = 14.0 if above else 22.0 + widest
    high = max(15.0, 7.0 + 8.0 * len(series)) + above
    bottom, right = 8 + high * len(names), _WIDTH - 14

    def place(value: float) -> float:
        return left + (right - left) * (min(max(value, ends[0]), ends[1]) - ends[0]) / (
            ends[1] - ends[0]
        )

    parts = [_grid(place, ends, bottom)]
    if level is not None:
        parts.append(_line(place(level), 4.0, place(level), bottom, "#000000", 1.1, "1 2"))
    for row, name in enumerate(names):
        middle = 8 + high * row + (high + above) / 2
        x, y, anchor = (
            (left, 8 + high * row + 11.0, "start") if above else (left - 8, middle + 3.6, "end")
        )
        parts.append(_words(x, y, _cut(name), anchor))
        if above and row:
            parts.append(_line(left, 8 + high * row, right, 8 + high * row, _FAINT, 0.8))
        for order, dots in enumerate(series):
            score = dots.scores[row]
            if score is not None and not math.isnan(score.value):
                parts.append(
                    _dot(place, score, middle + 8.0 * (order - (len(series) - 1) / 2), dots.style)
                )
    parts.append(_words((left + right) / 2, bottom + 34, axis, "middle"))
    return _plot(parts, bottom + 42, label)


def _plot(parts: Sequence[str], height: float, label: str) -> str:
    """The parts as one picture."""
    return tag(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {_WIDTH:g} {height:g}",
        width=f"{_WIDTH:g}",
        height=f"{height:g}",
        class_="plot",
        role="img",
        aria_label=label,
    )


def _wide(name: str) -> float:
    """About how many pixels a name takes."""
    return sum(
        12.0 if east_asian_width(character) in "WF" else 8.6 if character.isupper() else 6.6
        for character in " ".join(name.split())
    )


def _cut(name: str) -> str:
    """A name that fits the panel."""
    name = " ".join(name.split())
    while _wide(name) > _WIDTH - 14:
        name = name.rstrip("…")[:-1] + "…"
    return name


def _grid(place: _Place, ends: tuple[float, float], bottom: float) -> str:
    span = ends[1] - ends[0]
    step = 0.1 if span < 0.55 else 0.2 if span < 1.15 else 0.5
    ticks = [
        step * k
        for k in range(math.ceil(ends[0] / step - 1e-9), math.floor(ends[1] / step + 1e-9) + 1)
    ]
    lines = [_line(place(tick), 4.0, place(tick), bottom, _FAINT, 0.8) for tick in ticks]
    lines.append(_line(place(ends[0]), bottom, place(ends[1]), bottom, _SOFT, 0.8))
    return "".join(
        lines + [_words(place(tick), bottom + 15, decimal(tick, 1), "middle") for tick in ticks]
    )


def _dot(place: _Place, score: Score, y: float, style: Style) -> str:
    x, fill = place(score.value), "#ffffff" if style.hollow else style.colour
    bar = (
        ""
        if score.low is None or score.high is None
        else _line(place(score.low), y, place(score.high), y, style.colour, 1.4)
    )
    look = {"fill": fill, "stroke": style.colour, "stroke-width": "1.2"}
    shapes = {
        "s": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        "^": ((0, -3.6), (3.4, 2.8), (-3.4, 2.8)),
        "D": ((0, -4), (4, 0), (0, 4), (-4, 0)),
        "v": ((0, 3.6), (3.4, -2.8), (-3.4, -2.8)),
    }
    if style.marker == "x":
        cross = (
            f"M{x - 3:.2f} {y - 3:.2f} L{x + 3:.2f} {y + 3:.2f} M{x - 3:.2f} {y + 3:.2f} "
            f"L{x + 3:.2f} {y - 3:.2f}"
        )
        return bar + tag("path", d=cross, **look)
    if style.marker in shapes:
        return bar + tag(
            "polygon",
            points=" ".join(f"{x + a:.2f},{y + b:.2f}" for a, b in shapes[style.marker]),
            **look,
        )
    return bar + tag("circle", cx=f"{x:.2f}", cy=f"{y:.2f}", r="3", **look)


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: float, dashes: str = "none"
) -> str:
    ends = {"x1": f"{x1:.2f}", "y1": f"{y1:.2f}", "x2": f"{x2:.2f}", "y2": f"{y2:.2f}"}
    return tag("line", stroke=colour, stroke_width=f"{width:g}", stroke_dasharray=dashes, **ends)


def _words(x: float, y: float, words: str, anchor: str) -> str:
    return tag(
        "text",
        text(words),
        x=f"{x:.2f}",
        y=f"{y:.2f}",
        font_size="11",
        fill=_INK,
        text_anchor=anchor,
    )
