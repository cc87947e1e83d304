"""Curves over layers with all that is said of them: as a panel of a page, or as a picture of its
own."""

import dataclasses
import io
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crosslens.report.parts.drawing import (
    Line,
    Style,
    curve_panel,
    draw_line,
    layer_axes,
    line_of,
    plain_style,
)
from crosslens.report.parts.layout import Numbering, legend, not_computed, panel
from crosslens.report.parts.wording import count_of, decimal, missing_reason
from crosslens.score import Score
from crosslens.selection import best_layer

__all__ = ["Curves", "LayerFigure", "NamedCurve", "curves_figure", "layer_curves"]

NamedCurve = tuple[str, Style, Mapping[int, Score]]

_WIDTH, _HEIGHT = 4.4, 3.6  # inches, of one panel
_MOST_COLUMNS = 3
_NOTE, _NOTE_LINE = 75, 0.24  # letters of a note below a panel, and inches for each line of them


@dataclasses.dataclass(frozen=True)
class Curves:
    """What one panel shows.

    Attributes
    ----------
    title: what was measured. n: the number of items, in words.
    label: what the picture shows, for readers who cannot see it.
    lines: the first is drawn lowest. key: the look of each line, and what it is.
    limits: ends of the vertical axis. y_label: what that measures, with its unit.
    missing: sentences on what could not be computed. level: chance, a dotted line of a page's
        panel. note: what a reader of the picture alone has to know.
    """

    title: str
    n: str
    label: str
    lines: Sequence[Line]
    key: Sequence[tuple[Style, str]]
    limits: tuple[float, float]
    y_label: str
    missing: Sequence[str] = ()
    level: float | None = None
    note: str = ""

    def panel(self, numbering: Numbering) -> str:
        """The panel of a page, as HTML, with a legend of its own."""
        picture = curve_panel(
            numbering.panel(), self.label, self.lines, self.limits, self.y_label, self.level
        )
        lines = [*self.missing, *([self.note] if self.note else [])]
        banded = {line.style for line in self.lines if any(map(math.isfinite, line.low))}
        key = [
            (dataclasses.replace(look, band=look.band and look in banded), name)
            for look, name in self.key
        ]
        return panel(self.title, self.n, picture, missing=lines, key=legend(key, sticky=False))


def layer_curves(
    title: str,
    what: str,
    named: Iterable[NamedCurve],
    limits: tuple[float, float],
    y_label: str,
    level: float | None = None,
    *,
    key: Sequence[tuple[Style, str]] = (),
    gaps: bool = True,
) -> Curves:
    """Named measurements by layer, described in words; a curve without a layer is left out.

    Parameters
    ----------
    what: what is drawn, as the description begins. gaps: tell the layers that were not computed.
    """
    named = [(name, style, curve) for name, style, curve in named if curve]
    n = count_of(score for _, _, curve in named for score in curve.values())
    bests = [(name, best_layer([curve])) for name, _, curve in named]
    said = [f"{name}: highest {decimal(b.mean)} at layer {b.layer}" for name, b in bests if b]
    missing = not_computed(
        (name, layer, missing_reason(score))
        for name, _, curve in (named if gaps else ())
        for layer, score in curve.items()
        if math.isnan(score.value)
    )
    lines = [line_of(curve, style) for _, style, curve in named]
    label = f"{what}, {n}. {'. '.join(said)}."
    return Curves(title, n, label, lines, key, limits, y_label, missing, level)


class LayerFigure(Figure):
    """A figure of matplotlib that notebooks show, whether or not pyplot has been imported."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def curves_figure(parts: Sequence[Curves], about: str = "") -> LayerFigure:
    """Panels side by side, black on white, for a paper or a notebook.

    Parameters
    ----------
    parts: at least one. about: what all of them show; it stands below, before their notes.
    """
    columns = min(len(parts), _MOST_COLUMNS)
    rows = -(-len(parts) // columns)
    notes = dict.fromkeys(note for note in (about, *(part.note for part in parts)) if note)
    lines = textwrap.wrap(" ".join(notes), _NOTE * columns)
    size = _WIDTH * columns, _HEIGHT * rows + _NOTE_LINE * len(lines)
    with plain_style():
        figure = LayerFigure(figsize=size, facecolor="white")
        figure.set_layout_engine("constrained", w_pad=0.14, h_pad=0.1)
        for place, part in enumerate(parts, 1):
            _draw(figure.add_subplot(rows, columns, place), part)
        figure.supxlabel("\n".join(lines), fontsize=8)
    return figure


def _draw(axes: Axes, part: Curves) -> None:
    layer_axes(axes, part.lines, part.limits, part.y_label)
    for line in part.lines:
        draw_line(axes, line)
    drawn = {
        line.style: handle
        for line, handle in zip(part.lines, axes.get_lines()[-len(part.lines) :], strict=True)
    }
    looks = [look for look, _ in part.key if look in drawn]
    axes.set_title(f"{part.title}, {part.n}", fontsize=11, loc="left")
    axes.legend(
        [drawn[look] for look in looks],
        [name for look, name in part.key if look in drawn],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        ncols=2,
        fontsize=9,
        frameon=False,
    )
