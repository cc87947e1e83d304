"""Which parameters a run of several trainings trains in each of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.patches import Rectangle

from crosslens.files import check_shape
from crosslens.report.parts.drawing import inline_svg, sized_axes
from crosslens.report.parts.layout import Numbering, figure, panel, table
from crosslens.report.parts.wording import language, text

__all__ = ["trained_picture", "trained_table"]


_UNREAD = ("transform", "softmax", "bias", "next_sentence")  # no task reads them
_STILL, _TRAINED, _PUT_IN = "stands still", "trained", "put in"
_COLOURS = {_TRAINED: "#0072b2", _STILL: "#e6e8eb", _PUT_IN: "#d55e00"}


def trained_table(folder: Path, config: Mapping[str, Any], caption: str) -> str:
    """The table of ``trained`` in a run's config.json: a head, and a row of counts for each part."""
    head, *parts = _rows(folder, config)
    cells = [
        [text(f"layer {name}" if name.isdigit() else name.replace("_", " "))]
        + [text("–" if count == "-" else count) for count in counts]
        for name, *counts in parts
    ]
    return table(caption, [text(name) for name in head], cells)


def trained_picture(
    folder: Path, config: Mapping[str, Any], source: str, target: str, numbering: Numbering
) -> str:
    """The four steps of MonoTrans, and of each part of the run's own models whether it is trained in
    a step, stands still, or is put in the place of the source's; of ``trained`` in config.json.

    Parameters
    ----------
    source, target: codes of the languages of steps 1 and 2.
    """
    parts = _alike({name: _in_steps(name, counts) for name, *counts in _rows(folder, config)[1:]})
    heads = [
        f"1: text\n{language(source)}",
        f"2: text\n{language(target)}",
        f"3: a task\n{language(source)}",
        f"4: tested\n{language(target)}",
    ]
    left, wide, high, gap, above = 98.0, 84.0, 22.0, 3.0, 40.0
    width, height = left + wide * len(heads), above + high * len(parts)
    figure_, axes = sized_axes(width, height, 0.0, 0.0, width, height)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for column, head in enumerate(heads):
        axes.text(left + wide * (column + 0.5), above / 2, head, ha="center", va="center", size=11)
    for row, (name, states) in enumerate(parts.items()):
        top = above + high * row
        axes.text(left - 8, top + high / 2, name, ha="right", va="center", size=11)
        for column, state in enumerate(states):
            if state:
                box = (left + wide * column + gap / 2, top + gap / 2)
                colour = _COLOURS[state]
                axes.add_patch(Rectangle(box, wide - gap, high - gap, color=colour, linewidth=0))
                ink = "#3a3f45" if state == _STILL else "white"
                at = (left + wide * (column + 0.5), top + high / 2)
                axes.text(*at, state, ha="center", va="center", size=10, color=ink)
    label = "; ".join(
        f"{name}: " + ", ".join(f"step {n} {state}" for n, state in enumerate(states, 1) if state)
        for name, states in parts.items()
    )
    picture = inline_svg(figure_, numbering.panel(), label)
    reading = (
        "a row is a part of the encoder, a column a step. What a language owns is learnt in step 2 under a "
        "body that stands still, and put in the place of the source's in step 4; what no task reads "
        "has no box behind step 2"
    )
    return figure(
        numbering,
        "The four steps, and what is trained in each.",
        reading,
        "",
        [panel("", "", picture)],
    )


def _rows(folder: Path, config: Mapping[str, Any]) -> list[list[str]]:
    where = f"{folder}/config.json, trained"
    rows: list[list[str]] = check_shape(config.get("trained"), where, list[list[str]])
    return rows


def _in_steps(name: str, counts: Sequence[str]) -> tuple[str, ...]:
    """What happens to a part in each of the four steps; "" where it is not there, or not read.

    >>> _in_steps("token", ["64,000", "64,000", "-"])
    ('trained', 'trained', 'stands still', 'put in')
    >>> _in_steps("adapters", ["-", "8,000", "-"]), _in_steps("0", ["50,000", "-", "50,000"])
    (('', 'trained', '', 'put in'), ('trained', 'stands still', 'trained', 'stands still'))
    """
    first, second, third = (count != "-" for count in counts)
    if not first:  # the source has none: the target's adapters
        return "", _TRAINED if second else "", "", _PUT_IN if second else ""
    steps = [_TRAINED, _TRAINED if second else _STILL]
    if name in _UNREAD:
        return *steps, "", ""
    return *steps, _TRAINED if third else _STILL, _PUT_IN if second else _STILL


def _alike(parts: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The parts by name; layers that are treated alike are one row."""
    layers = [name for name in parts if name.isdigit()]
    told = dict[str, tuple[str, ...]]()
    for name, states in parts.items():
        if not name.isdigit():
            told[name.replace("_", " ")] = states
        elif len({parts[one] for one in layers}) > 1:
            told[f"layer {name}"] = states
        else:
            told[f"layers {layers[0]} to {layers[-1]}"] = states
    return told
