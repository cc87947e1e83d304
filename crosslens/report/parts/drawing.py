"""Panels: one small picture each, drawn by matplotlib, as SVG elements for one page.

Everything goes through matplotlib's object interface inside :func:`plain_style`, so a
user's matplotlib settings change nothing and no global state is left behind. Sizes are
CSS pixels: one unit of a panel is one pixel at its native width.
"""

import contextlib
import dataclasses
import io
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from crosslens.report.parts.wording import tag, text
from crosslens.score import Score

__all__ = [
    "Axis",
    "Line",
    "Style",
    "curve_panel",
    "draw_line",
    "inline_svg",
    "layer_axes",
    "layer_ticks",
    "line_of",
    "plain_style",
    "series_image",
    "series_panel",
    "series_style",
    "sized_axes",
    "swatch",
    "upper_limit",
]

WIDTH = 360.0  # pixels, a panel of curves or of layers against layers
NARROW = 284.0  # pixels, a small panel of many
_SHORT = 0.7  # factors of ten on a logarithmic axis that has steps of one size
INK = "#3a3f45"
_FAINT = "#e6e8eb"
# told apart by colour-blind readers
_COLOURS = ("#0072b2", "#d55e00", "#00795c", "#aa4499", "#9c7500", "#4aa8dc", "#3a3f45")
_MARKERS = ("o", "s", "^", "D", "v", "x", "+")
_FONTS = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
_DASHES: dict[str, tuple[float, ...]] = {"solid": (), "dashed": (5, 2.5), "dotted": (1.2, 2.4)}


@dataclasses.dataclass(frozen=True)
class Style:
    """How a line looks; two lines of one panel differ in more than colour."""

    colour: str
    dash: str = "solid"
    marker: str = ""
    width: float = 1.8
    hollow: bool = False
    band: bool = False


def series_style(place: int) -> Style:
    """The look of one of many lines: neighbours differ in colour and in marker, and no two of the
    first 49 are alike."""
    count = len(_COLOURS)
    return Style(
        _COLOURS[place % count], marker=_MARKERS[(place + place // count) % count], width=1.6
    )


@dataclasses.dataclass(frozen=True)
class Line:
    """Values over layers or over tokens, NaN where there is none, with the lower and upper end of
    their intervals."""

    places: Sequence[int] | Sequence[float]
    values: Sequence[float]
    style: Style
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclasses.dataclass(frozen=True)
class Axis:
    """What a vertical axis measures, with its unit; where it ends (None: as the values ask for),
    and whether it is logarithmic."""

    label: str
    limits: tuple[float, float] | None = None
    log: bool = False

    def ends(self, values: Iterable[float]) -> tuple[float, float]:
        """The limits, or round-about ones for these values; what is no number, or has no logarithm,
        is passed over."""
        if self.limits is not None:
            return self.limits
        finite = [value for value in values if math.isfinite(value) and (value > 0 or not self.log)]
        low, high = min(finite, default=1.0), max(finite, default=1.0)
        if self.log:
            return low / 1.15, high * 1.15
        margin = 0.05 * (high - low) or max(0.5, 0.1 * abs(high))
        if low == high and 0 <= high <= 1:  # a share
            return 0.0, 1.0
        return low - margin, high + margin


def line_of(curve: Mapping[int, Score], style: Style) -> Line:
    """A curve of measurements as a line; layers that were left out in between become gaps."""
    layers = range(min(curve), max(curve) + 1) if curve else range(0)
    points = [curve.get(layer) for layer in layers]
    values = [math.nan if point is None else point.value for point in points]
    low = [math.nan if point is None or point.low is None else point.low for point in points]
    high = [math.nan if point is None or point.high is None else point.high for point in points]
    return Line(layers, values, style, low, high)


def upper_limit(curves: Iterable[Mapping[int, Score]]) -> float:
    """A round upper end for the axis of fractions that several panels share."""
    tops = [
        top
        for curve in curves
        for score in curve.values()
        for top in (score.value, score.high)
        if top is not None
    ]
    most = max((top for top in tops if not math.isnan(top)), default=1.0)
    return next(
        (limit for limit in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if most <= limit * 0.98), 1.0
    )


@contextlib.contextmanager
def plain_style() -> Iterator[None]:
    """Draw with matplotlib's defaults plus ours, and put the caller's settings back afterwards."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # the reader's browser has the fonts
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": "crosslens",
                "text.parse_math": False,
                "font.size": 11,
                "axes.labelsize": 11,
                "xtick.labelsize": 10.5,
                "ytick.labelsize": 10.5,
                "axes.edgecolor": "#8b9198",
                "axes.labelcolor": INK,
                "text.color": INK,
                "xtick.color": "#8b9198",
                "ytick.color": "#8b9198",
                "xtick.labelcolor": INK,
                "ytick.labelcolor": INK,
                "xtick.major.size": 3,
                "ytick.major.size": 3,
                "axes.linewidth": 0.8,
            }
        )
        yield


def sized_axes(
    width: float, height: float, left: float, bottom: float, inner_width: float, inner_height: float
) -> tuple[Figure, Axes]:
    """A figure of so many pixels with axes at a fixed place, so that neighbouring panels line
    up."""
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    figure.patch.set_visible(False)
    return figure, figure.add_axes(
        (left / width, bottom / height, inner_width / width, inner_height / height)
    )


def _drawn(figure: Figure, key: str) -> tuple[str, dict[str, str]]:
    """The figure's elements, with ids that start with ``key``, and the attributes of an SVG element
    around them."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    source = buffer.getvalue()
    opening = re.search(r'<svg[^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>', source)
    assert opening is not None
    width, height = opening.groups()
    body = source[opening.end() : source.rindex("</svg>")]
    body = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL
    )
    body = re.sub(r'<g id="[^"]*"', "<g", body)  # nothing refers to groups
    body = re.sub(r'(<(?:path|clipPath|image)\b[^>]*? id=")', rf"\g<1>{key}-", body)
    body = re.sub(r'(url\(#|xlink:href="#)', rf"\g<1>{key}-", body)
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    body = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", body)
    body = re.sub(
        r' (?:d|x|y)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found.group()), body
    )
    body = re.sub(r"\s*\n\s*", " ", body).replace("base64, ", "base64,").replace("> <", "><")
    return body, {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}


def inline_svg(figure: Figure, key: str, label: str) -> str:
    """The figure as an inline SVG element whose ids start with ``key`` and which has ``label`` as
    its text."""
    body, size = _drawn(figure, key)
    return tag("svg", body, **size, class_="plot", role="img", aria_label=label)


def layer_ticks(count: int, most: int = 8) -> list[int]:
    """The layers that have their number below an axis: at even steps, about so many.

    >>> layer_ticks(5), layer_ticks(25)
    ([0, 1, 2, 3, 4], [0, 3, 6, 9, 12, 15, 18, 21, 24])
    """
    step = next(
        step for step in (1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100, 10**9) if (count - 1) / step <= most
    )
    return list(range(0, count, step))


def curve_panel(
    key: str,
    label: str,
    lines: Sequence[Line],
    limits: tuple[float, float],
    y_label: str,
    level: float | None = None,
) -> str:
    """Curves over layers.

    Parameters
    ----------
    key: what the ids of this panel start with; different for every panel of a page.
    label: what the picture shows, for readers who cannot see it.
    lines: the first is drawn lowest.
    limits: ends of the vertical axis, shared by all panels of a group.
    y_label: the vertical axis with its unit.
    level: where to draw a thin dotted line, the chance level.
    """
    figure, axes = sized_axes(WIDTH, 236.0, 54.0, 44.0, WIDTH - 64, 182.0)
    layer_axes(axes, lines, limits, y_label)
    if level is not None:
        axes.axhline(level, color="black", linewidth=1.1, linestyle=(0, (1, 2)))
    for line in lines:
        draw_line(axes, line)
    return inline_svg(figure, key, label)


def layer_axes(
    axes: Axes, lines: Sequence[Line], limits: tuple[float, float], y_label: str
) -> None:
    """Axes for curves over layers; parameters as for :func:`curve_panel`."""
    last = int(max((layer for line in lines for layer in line.places), default=0))
    axes.set(
        xlim=(-0.2 - last / 60, last + 0.2 + last / 60),
        ylim=limits,
        xlabel="layer (0 = embeddings)",
        ylabel=y_label,
    )
    axes.set_xticks(layer_ticks(last + 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    if limits[0] < -0.05:
        axes.axhline(0, color="#b4b9bf", linewidth=0.8)


def draw_line(axes: Axes, line: Line) -> None:
    """Draw a line into axes, with its band."""
    style, gaps = line.style, len(line.places) == 1 or bool(np.isnan(line.values).any())
    if style.band and len(line.low):
        axes.fill_between(
            line.places, line.low, line.high, color=style.colour, alpha=0.16, linewidth=0
        )
        there = np.isfinite(np.asarray(line.low, float)) & np.isfinite(line.values)
        near = np.pad(there, 1)
        apart = there & ~near[:-2] & ~near[2:]  # a band has no width there
        places, low, high = (np.asarray(side)[apart] for side in (line.places, line.low, line.high))
        axes.vlines(places, low, high, color=style.colour, alpha=0.4, linewidth=2.5)
    axes.plot(
        line.places,
        line.values,
        color=style.colour,
        linewidth=style.width,
        marker=style.marker or ("." if gaps else ""),
        markersize=4.6,
        markerfacecolor="white" if style.hollow else style.colour,
        markeredgewidth=1.2,
        solid_capstyle="butt",
        linestyle=(0, _DASHES[style.dash]) if _DASHES[style.dash] else "-",
        markevery=1 if gaps else max(1, math.ceil(len(line.places) / 9)),
    )


def series_panel(
    key: str,
    label: str,
    lines: Sequence[Line],
    x_label: str,
    axis: Axis,
    level: float | None = None,
    *,
    narrow: bool = False,
) -> str:
    """Curves over something that grows from 0 or -1, such as the tokens seen.

    Parameters
    ----------
    key, label, lines, level: see :func:`curve_panel`.
    x_label: the horizontal axis with its unit.
    narrow: a panel of 284 instead of 360 pixels.
    """
    width, height = (NARROW, 200.0) if narrow else (WIDTH, 236.0)
    figure, axes = sized_axes(width, height, 58.0, 44.0, width - 72, height - 54)
    _series(axes, lines, x_label, axis, level)
    return inline_svg(figure, key, label)


def series_image(label: str, parts: Sequence[tuple[str, Sequence[Line], str, Axis]]) -> str:
    """A file of its own, black on white: titled curves side by side.

    Parameters
    ----------
    label: what the picture shows, for readers who cannot see it.
    parts: title, lines, horizontal axis and vertical axis of each.
    """
    width, height, each = 720.0, 260.0, 720.0 / len(parts)
    figure = Figure(figsize=(width / 72, height / 72), dpi=72, facecolor="white")
    for place, (title, lines, x_label, axis) in enumerate(parts):
        axes = figure.add_axes(
            ((place * each + 58) / width, 44 / height, (each - 74) / width, (height - 76) / height)
        )
        _series(axes, lines, x_label, axis)
        axes.set_title(title, fontsize=12, loc="left", x=0.0, pad=9)
    body, size = _drawn(figure, "training")
    # XML has no control characters
    plain = "".join(character for character in label if character.isprintable())
    names = {
        "xmlns": "http://www.w3.org/2000/svg",
        "xmlns:xlink": "http://www.w3.org/1999/xlink",
        "font-family": _FONTS,
    }
    style = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
    return (
        tag(
            "svg",
            tag("title", text(plain)) + body,
            role="img",
            aria_label=plain,
            **names,
            **style,
            **size,
        )
        + "\n"
    )


def _series(
    axes: Axes, lines: Sequence[Line], x_label: str, axis: Axis, level: float | None = None
) -> None:
    places = sorted({float(place) for line in lines for place in line.places})
    start, end = min([0.0, *places]), max(places, default=1.0) or 1.0
    low, high = axis.ends(
        [value for line in lines for value in line.values] + ([] if level is None else [level])
    )
    limits = start - 0.015 * (end - start), end + 0.025 * (end - start)
    axes.set(xlim=limits, xlabel=x_label, ylabel=axis.label)
    if axis.log:
        axes.set_yscale("log")
        span = math.log10(high) - math.log10(low)
        axes.yaxis.set_major_locator(
            MaxNLocator(5, steps=[1, 2, 5, 10])
            if span < _SHORT
            else LogLocator(subs=(1.0, 2.0, 5.0) if span < 3 else (1.0,), numticks=9)
        )
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(_round_about))
    axes.set_ylim(low, high)
    whole = all(place.is_integer() for place in places)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], integer=whole))
    if whole and len(places) <= 8 and end < 60:  # epochs, say, or layers
        axes.set_xticks(places)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    if level is not None:
        axes.axhline(level, color="black", linewidth=1.1, linestyle=(0, (1, 2)))
    for line in lines:
        draw_line(axes, line)


def _round_about(value: float, _: object) -> str:
    """A number beside a logarithmic axis."""
    if not 1 <= value < 1e6:
        return f"{value:.0e}"
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def swatch(style: Style, label: str) -> str:
    """A short stretch of a line for the legend."""
    dashes = " ".join(f"{part * style.width:.1f}" for part in _DASHES[style.dash])
    fill = "white" if style.hollow else style.colour
    marks = {
        "": "",
        "o": (
            f'<circle cx="20" cy="7" r="3" fill="{fill}" stroke="{style.colour}" '
            f'stroke-width="1.2"/>'
        ),
        "s": (
            f'<rect x="17" y="4" width="6" height="6" fill="{fill}" stroke="{style.colour}" '
            f'stroke-width="1.2"/>'
        ),
        "^": (
            f'<path d="M20 3.4 L23.4 9.8 L16.6 9.8 Z" fill="{fill}" stroke="{style.colour}" '
            f'stroke-width="1.2"/>'
        ),
        "x": f'<path d="M17 4 L23 10 M23 4 L17 10" stroke="{style.colour}" stroke-width="1.4"/>',
        "D": (
            f'<path d="M20 3 L24 7 L20 11 L16 7 Z" fill="{fill}" stroke="{style.colour}" '
            f'stroke-width="1.2"/>'
        ),
        "v": (
            f'<path d="M20 10.6 L23.4 4.2 L16.6 4.2 Z" fill="{fill}" stroke="{style.colour}" '
            f'stroke-width="1.2"/>'
        ),
        "+": (
            f'<path d="M20 3.4 L20 10.6 M16.4 7 L23.6 7" stroke="{style.colour}" '
            f'stroke-width="1.4"/>'
        ),
    }
    band = (
        f'<rect x="0" y="1" width="40" height="12" fill="{style.colour}" fill-opacity="0.16"/>'
        if style.band
        else ""
    )
    line = (
        f'<path d="M0 7 L40 7" fill="none" stroke="{style.colour}" stroke-width="{style.width}" '
        f'stroke-dasharray="{dashes or "none"}"/>'
    )
    return tag(
        "svg",
        band + line + marks[style.marker],
        viewBox="0 0 40 14",
        width="40",
        height="14",
        class_="swatch",
        role="img",
        aria_label=f"{style.dash} line: {label}",
    )
