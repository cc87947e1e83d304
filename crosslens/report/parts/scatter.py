"""Points with names: one small picture of two numbers of each language."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from crosslens.report.parts.drawing import WIDTH, Axis, inline_svg, sized_axes

__all__ = ["scatter_panel"]

_HEIGHT, _LEFT, _BOTTOM = 286.0, 58.0, 44.0  # pixels
_LETTER, _LINE, _SIZE = 6.0, 11.5, 9.0  # pixels: a name's letters, its height, its font
_COLOUR, _INK, _FAINT, _LINK = "#0072b2", "#3a3f45", "#e6e8eb", "#8b9198"
_Box = tuple[float, float, float, float]  # left, lower, right, upper end


def scatter_panel(
    key: str, label: str, points: Mapping[str, Sequence[float]], axes_of: tuple[Axis, Axis]
) -> str:
    """A dot for each named point, and its name beside it; where there is no room it stands at the end
    of a line, or is left out.

    Parameters
    ----------
    key, label: see :func:`crosslens.report.parts.drawing.curve_panel`.
    points: name -> the two numbers. axes_of: the horizontal and the vertical axis.
    """
    inner = WIDTH - _LEFT - 14, _HEIGHT - _BOTTOM - 10
    figure, axes = sized_axes(WIDTH, _HEIGHT, _LEFT, _BOTTOM, *inner)
    places = np.array([*points.values()], float).reshape(-1, 2)
    ends = [axis.ends(places[:, side].tolist()) for side, axis in enumerate(axes_of)]
    axes.set(xlim=ends[0], ylim=ends[1], xlabel=axes_of[0].label, ylabel=axes_of[1].label)
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}".replace("-", "−")))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.scatter(places[:, 0], places[:, 1], s=14, color=_COLOUR, linewidths=0)
    low, high = np.array(ends).T
    pixels = (places - low) / (high - low) * inner
    for name, middle, radius in _names(list(points), pixels, inner):
        x, y = (low + np.array(middle) / inner * (high - low)).tolist()
        if radius > 1:  # a line that ends before the name
            (from_x, from_y), part = points[name], 1 - 1 / radius
            line = [from_x, from_x + part * (x - from_x)], [from_y, from_y + part * (y - from_y)]
            axes.plot(*line, color=_LINK, linewidth=0.7, zorder=1)
        axes.text(x, y, name, ha="center", va="center_baseline", color=_INK, fontsize=_SIZE)
    return inline_svg(figure, key, label)


def _names(
    names: Sequence[str], pixels: np.ndarray, inner: tuple[float, float]
) -> Iterator[tuple[str, tuple[float, float], float]]:
    """Each name with the middle of the first free place around its point, the nearest first, and
    how many times the nearest's distance that is."""
    taken: list[_Box] = [(x - 3, y - 3, x + 3, y + 3) for x, y in pixels]
    for name, (x, y) in zip(names, pixels, strict=True):
        width = _LETTER * len(name)
        for radius, angle in ((r, a) for r in (1.0, 1.6, 2.4) for a in range(0, 360, 45)):
            turn = math.radians(angle)
            middle = (
                x + radius * math.cos(turn) * (width / 2 + 4),
                y + radius * math.sin(turn) * (_LINE / 2 + 4),
            )
            box = (
                middle[0] - width / 2, middle[1] - _LINE / 2,
                middle[0] + width / 2, middle[1] + _LINE / 2,
            )  # fmt: skip
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= inner[0] + 12 and box[3] <= inner[1]
            if inside and not any(_meet(box, other) for other in taken):
                taken.append(box)
                yield name, middle, radius
                break


def _meet(first: _Box, second: _Box) -> bool:
    return (
        first[0] < second[2]
        and second[0] < first[2]
        and first[1] < second[3]
        and second[1] < first[3]
    )
