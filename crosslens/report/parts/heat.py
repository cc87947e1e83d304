"""Heat maps: matrices of values on a scale of colours that their group shares.

Drawn as the other panels are (:mod:`crosslens.report.parts.drawing`).
"""

import math
from collections.abc import Iterable, Sequence

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.ticker import FuncFormatter

from crosslens.report.parts.drawing import INK, WIDTH, inline_svg, layer_ticks, sized_axes
from crosslens.report.parts.wording import decimal, short

__all__ = ["colour_bar", "heat_panel", "scale_ends"]

_MISSING = "#d9dce0"


def _places(count: int, layers: bool) -> Sequence[int]:
    """Which rows or columns are named: some layers, but every language."""
    return layer_ticks(count) if layers else range(count)


def _colours() -> Colormap:
    return colormaps["Blues"].with_extremes(bad=_MISSING)


def heat_panel(
    key: str,
    label: str,
    values: np.ndarray,
    names: tuple[Sequence[str], Sequence[str]],
    axis_labels: tuple[str, str],
    *,
    diagonal: bool = True,
    upward: bool = False,
    rows_high: float | None = None,
    ends: tuple[float, float] = (0.0, 1.0),
) -> str:
    """A matrix of values on a scale that its group shares; numbers are written into it while they
    fit.

    Parameters
    ----------
    key, label: see :func:`crosslens.report.parts.drawing.curve_panel`.
    values: shape (rows, columns); NaN is drawn grey with a dash.
    names: what rows and columns are called.
    axis_labels: what rows and columns are.
    diagonal: whether the diagonal means anything; if not, it stays empty.
    upward: whether the first row is the lowest.
    rows_high: height of every row in pixels, for rows and columns of different kinds; without it
        the cells are squares.
    ends: of the scale, see :func:`scale_ends`.
    """
    rows, columns = values.shape
    width, places = WIDTH, (_places(rows, upward), _places(columns, upward))
    most = (17, 26 if rows_high else 17)  # characters: names of tasks, say, are longer
    labels = [[short(names[side][place], most[side]) for place in places[side]] for side in (0, 1)]
    longest, widest = (7 * max(len(label) for label in side) for side in labels)  # pixels, about
    if not rows_high:
        longest = widest = max(longest, widest)
    left = max(64.0, 38.0 + longest)
    cell = (
        min((width - left - 12) / columns, 64.0)
        if rows_high
        else min((width - left - 12) / columns, 280 / rows, 64.0)
    )
    high = rows_high or cell
    tilted = not upward and widest > cell
    bottom = 32.0 + widest if tilted else 48.0
    height = bottom + high * rows + 8
    figure, axes = sized_axes(width, height, left, bottom, cell * columns, high * rows)
    cells = values.astype(float)
    axes.imshow(
        np.ma.masked_invalid(cells),
        cmap=_colours(),
        vmin=ends[0],
        vmax=ends[1],
        interpolation="none",
        aspect="auto",
        origin="lower" if upward else "upper",
    )
    if not diagonal:
        for place in range(min(rows, columns)):
            axes.add_patch(
                matplotlib.patches.Rectangle(
                    (place - 0.5, place - 0.5), 1, 1, facecolor="white", edgecolor="none"
                )
            )
    axes.set(xlabel=axis_labels[1], ylabel=axis_labels[0])
    axes.set_xticks(places[1], labels[1], rotation=90 if tilted else 0)
    axes.set_yticks(places[0], labels[0])
    axes.tick_params(length=0)
    axes.spines[:].set_color("#c9cdd2")
    if cell >= 24:
        _annotate(axes, cells, diagonal, ends)
    return inline_svg(figure, key, label)


def _annotate(axes: Axes, cells: np.ndarray, diagonal: bool, ends: tuple[float, float]) -> None:
    size = 10.5 if cells.shape[1] <= 6 else 9.5
    dark = ends[0] + 0.55 * (ends[1] - ends[0])
    for (row, column), value in np.ndenumerate(cells):
        if diagonal or row != column:
            ink = "white" if value > dark else INK
            axes.text(
                column,
                row,
                "–" if math.isnan(value) else decimal(value, 2),
                ha="center",
                va="center",
                color=ink,
                fontsize=size,
            )


def scale_ends(values: Iterable[float]) -> tuple[float, float]:
    """Round ends of a colour scale that these values fill; it begins at 0 where the least of them
    is less than half of the largest.

    >>> scale_ends([0.03, 0.46]), scale_ends([0.91, 0.99]), scale_ends([])
    ((0.0, 0.5), (0.9, 1.0), (0.0, 1.0))
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    least, most = min(finite), max(finite)
    least = 0.0 if -0.1 * abs(most) <= least < most / 2 else least
    step = _step(least, most)
    low, high = math.floor(least / step + 1e-9) * step, math.ceil(most / step - 1e-9) * step
    if high == low:
        low, high = (low - step, high) if low > 0 else (low, high + step)
    return round(low, 9), round(high, 9)


def _step(low: float, high: float) -> float:
    """A round step that divides a span into about five."""
    rough = (high - low) / 5 or 0.1
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * nice for nice in (1, 2, 5, 10) if rough <= power * nice * 1.0001)


def colour_bar(key: str, label: str, ends: tuple[float, float] = (0.0, 1.0)) -> str:
    """The scale shared by the heat maps of a group, from its lower to its upper end."""
    low, high = ends
    figure, axes = sized_axes(WIDTH, 54.0, 20.0, 38.0, WIDTH - 40, 12.0)
    axes.imshow(
        np.linspace(0, 1, 128)[None],
        cmap=_colours(),
        aspect="auto",
        extent=(low, high, 0, 1),
        interpolation="none",
    )
    axes.set(
        xticks=np.linspace(low, high, round((high - low) / _step(low, high)) + 1),
        yticks=[],
        xlabel=label,
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}".replace("-", "−")))
    axes.xaxis.labelpad = 3
    axes.spines[:].set_color("#c9cdd2")
    return inline_svg(
        figure, key, f"Colour scale from {low:g}, nearly white, to {high:g}, dark blue: {label}"
    )
