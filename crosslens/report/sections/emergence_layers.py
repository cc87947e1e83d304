"""Retrieval and linear CKA at every layer of the finished encoders of an emergence run."""

import math

from crosslens.report.folders.emergence import Emergence, chance_of
from crosslens.report.folders.study import Curve
from crosslens.report.parts.curves import layer_curves
from crosslens.report.parts.drawing import upper_limit
from crosslens.report.parts.layout import Numbering, figure, flow, section
from crosslens.report.parts.wording import paragraph, tag
from crosslens.report.sections.emergence_words import STYLES, key, way_of

__all__ = ["layers_section"]

_SIMILARITY = {"debiased_linear_cka": "debiased", "linear_cka": "biased"}


def layers_section(run: Emergence, numbering: Numbering) -> str:
    """The whole section."""
    title = "Layers at the end"
    parts = [_retrieval_figure(run, numbering), _similarity_figure(run, numbering)]
    if not any(parts):
        when = (
            "This run holds no measurements by layer."
            if run.finished
            else "Layers are compared once the run has ended."
        )
        return section("layers", title, paragraph(when))
    intro = (
        "Held-out sentences and their copies are compared at every layer of the finished "
        "encoders, with no alignment between them."
    )
    return section("layers", title, flow(*parts, tag("div", paragraph(intro), class_="text")))


def _retrieval_figure(run: Emergence, numbering: Numbering) -> str:
    ways = run.retrieval_directions()
    curves = {way: {c.name: c.curve("precision_at_1", way) for c in run.conditions} for way in ways}
    if not ways:
        return ""
    top = upper_limit(curve for group in curves.values() for curve in group.values())
    limits = (-0.025 * top, 1.01 * top)
    panels = [
        _layer_panel(
            numbering,
            way_of(way),
            "Sentence retrieval P@1",
            group,
            limits,
            "P@1 (fraction of sentences)",
            chance=True,
        )
        for way, group in curves.items()
    ]
    reading = (
        "higher is better; for each sentence the nearest copy is looked up by cosine among "
        "all held-out copies (n, sentences), and the "
        "dotted line is chance, 1/n. Bands are 95 % intervals. Layer 0 knows no context: what "
        "it finds, it finds by single subwords."
    )
    return figure(
        numbering, "Sentence retrieval by layer.", reading, key(run, ["chance, 1/n"]), panels
    )


def _similarity_figure(run: Emergence, numbering: Numbering) -> str:
    groups = {
        word: {c.name: c.curve(quantity) for c in run.conditions}
        for quantity, word in _SIMILARITY.items()
    }
    groups = {word: group for word, group in groups.items() if any(group.values())}
    if not groups:
        return ""
    ends = [
        end
        for g in groups.values()
        for c in g.values()
        for s in c.values()
        for end in (s.value, s.low)
        if end is not None
    ]
    lowest = min((end for end in ends if not math.isnan(end)), default=0.0)
    highest = max((end for end in ends if not math.isnan(end)), default=1.0)
    limits = (
        0.0 if lowest > -0.005 else max(-1.0, math.floor(lowest * 10) / 10),
        max(0.1, math.ceil(highest * 10 - 1e-9) / 10),
    )
    panels = [
        _layer_panel(
            numbering,
            f"Linear CKA, {word}",
            f"Linear CKA, {word}",
            group,
            limits,
            "linear CKA (no unit)",
        )
        for word, group in groups.items()
    ]
    reading = (
        "1 means that a layer’s vectors of the copies are the English ones, rotated and "
        "scaled; 0 means unrelated. CKA is blind to "
        "rotation: it may be high where retrieval, which is not, finds nothing. The biased "
        "estimate is too high when there are few "
        "sentences for the number of dimensions. Bands are 95 % intervals where the run "
        "recorded them."
    )
    return figure(numbering, "Linear CKA by layer.", reading, key(run), panels)


def _layer_panel(
    numbering: Numbering,
    title: str,
    what: str,
    group: dict[str, Curve],
    limits: tuple[float, float],
    y_label: str,
    *,
    chance: bool = False,
) -> str:
    scores = [score for curve in group.values() for score in curve.values()]
    level = next((found for s in scores if (found := chance_of(s))), None) if chance else None
    named = [(name, STYLES[name], curve) for name, curve in group.items()]
    return layer_curves(title, f"{what} by layer, {title}", named, limits, y_label, level).panel(
        numbering
    )
