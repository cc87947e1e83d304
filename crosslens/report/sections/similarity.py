"""Similarity of representations in the report: CKA as curves per pair, layers against layers, and a
table; other measures as curves."""

import math
from collections.abc import Iterable

import numpy as np

from crosslens.report.folders.study import Curve, Study, clear_of, mean_curve
from crosslens.report.parts.curves import Curves, NamedCurve, layer_curves
from crosslens.report.parts.drawing import Style
from crosslens.report.parts.heat import colour_bar, heat_panel, scale_ends
from crosslens.report.parts.layout import (
    Numbering,
    figure,
    flow,
    folded,
    legend,
    not_computed,
    panel,
    section,
    table,
    value_cell,
)
from crosslens.report.parts.wording import (
    count_of,
    decimal,
    estimate,
    join,
    language,
    missing_reason,
    paragraph,
    plural,
    short,
    spread,
    tag,
    text,
)
from crosslens.report.sections.provenance import languages_of
from crosslens.score import QUANTITIES, Score
from crosslens.selection import Best, at_layer, best_layer, choose

__all__ = ["similarity_curves", "similarity_findings", "similarity_section", "similarity_sentence"]

_TASK = "similarity"
_QUANTITIES = {"debiased_linear_cka": "debiased", "linear_cka": "biased"}
_DISTANCES = {"procrustes_distance"}  # lower is more alike
_CONDITIONS: dict[str | None, str] = {
    None: "Encoder",
    "random_encoder": "Random encoder",
    "shuffled_items": "Shuffled sentences",
}
_COLOURS: dict[str | None, tuple[str, str]] = {
    "shuffled_items": ("#aa4499", "^"),
    "random_encoder": ("#8a9097", "x"),
    None: ("#00795c", "o"),
}
_Pair = tuple[str, str]


def _called(pair: _Pair) -> str:
    return " – ".join(map(language, pair))


def _curves(study: Study, quantity: str, condition: str | None) -> dict[_Pair, Curve]:
    return {pair: study.curve(_TASK, quantity, condition, pair) for pair in study.pairs(_TASK)}


def _main_quantity(study: Study) -> tuple[str, Best] | None:
    """The debiased version where it was measured, otherwise the biased one, with its best layer."""
    for quantity in _QUANTITIES:
        best = best_layer(_curves(study, quantity, None).values())
        if best is not None:
            return quantity, best
    return None


def similarity_findings(study: Study) -> list[str]:
    """A sentence on what came out, as HTML."""
    main = _main_quantity(study)
    if main is None:
        return []
    quantity, best = main
    value = f"mean {_QUANTITIES[quantity]} linear CKA {decimal(best.mean)}"
    sides = "languages" if len(languages_of(study)) > 1 else "encoders"
    lead = tag(
        "strong",
        f"The representations of two {sides} are most alike at layer {best.layer}: {value}",
    )
    one = len(best.scores) == 1
    over = (
        f"({estimate(best.scores[0])} for the one pair; "
        if one
        else f"over {len(best.scores)} pairs ({spread(best.scores)}; "
    )
    sentence = f"{lead} {over}{count_of(best.scores)} sentences)."
    words_for = {
        "random_encoder": "a random encoder",
        "shuffled_items": "the sentences of one side shuffled",
    }
    for condition, words in words_for.items():
        curves = _curves(study, quantity, condition)
        control = at_layer(curves.values(), best.layer)
        if control is not None:
            sentence += f" With {words} it is {decimal(control.mean)} ({count_of(control.scores)})."
    return [sentence + _verdict(study, quantity, best.layer)]


def _verdict(study: Study, quantity: str, layer: int) -> str:
    """Which pairs are clearly above the random encoder; HTML, empty where no intervals allow to
    tell."""
    main, controls = _curves(study, quantity, None), _curves(study, quantity, "random_encoder")
    answers = {
        pair: clear_of(curve.get(layer), controls[pair].get(layer)) for pair, curve in main.items()
    }
    told = [pair for pair, answer in answers.items() if answer is not None]
    unclear = [_called(pair) for pair in told if not answers[pair]]
    if not told:
        return ""
    if unclear:
        names = text(join(unclear, most=8, rest="more"))
        return (
            f" <strong>Not clearly above the random encoder</strong> in {len(unclear)} of "
            f"{plural(len(told), 'pair')}: {names}."
        )
    where = "this pair" if len(told) == 1 else f"all {len(told)} pairs"
    return f" In {where} the encoder’s 95 % interval lies wholly above the random encoder’s."


def similarity_section(study: Study, numbering: Numbering) -> str:
    """The whole section."""
    main = _main_quantity(study)
    if main is None:
        return section(
            "similarity",
            "Similarity of representations",
            paragraph("This run holds no similarity scores that could be shown."),
        )
    intro = (
        "Linear CKA compares the geometry of two sets of vectors of the same sentences: 1 "
        "when one is a rotated, uniformly scaled copy of "
        "the other, 0 when they are unrelated. It needs no alignment and is blind to rotation."
    )
    words = tag("div", paragraph(text(intro)) + _bias_note(study), class_="text")
    drawn = flow(
        _panels(study, numbering), *_others(study, numbering), _maps(study, numbering), words
    )
    quantity, best = main
    told = f"mean {_QUANTITIES[quantity]} CKA {decimal(best.mean)} at layer {best.layer}"
    return section(
        "similarity",
        "Similarity of representations",
        drawn,
        folded("All numbers", _table(study, best.layer)),
        told=told,
    )


def similarity_curves(study: Study) -> Curves | None:
    """The mean over all pairs by layer; None where nothing was measured."""
    main = _main_quantity(study)
    if main is None:
        return None
    quantity, word = main[0], _QUANTITIES[main[0]]
    curves = {
        condition: mean_curve(_curves(study, quantity, condition).values())
        for condition in _COLOURS
    }
    scores = [score for curve in curves.values() for score in curve.values()]
    many = len(study.pairs(_TASK))
    over = f"Mean over {plural(many, 'pair')} of linear CKA" if many > 1 else "Linear CKA"
    limits = _span(end for score in scores for end in (score.value, score.low, score.high))
    key = [(_look(c), _CONDITIONS[c]) for c in reversed(_COLOURS) if curves[c]]
    named = [(_CONDITIONS[c], _look(c), curve) for c, curve in curves.items()]
    what, axis = f"{over}, {word}, by layer", f"linear CKA, {word} (no unit)"
    return layer_curves("Similarity", what, named, limits, axis, key=key, gaps=False)


def similarity_sentence(study: Study) -> str:
    """One sentence on what came out, as HTML; empty where nothing was measured."""
    main = _main_quantity(study)
    if main is None:
        return ""
    quantity, best = main
    beside = []
    for condition, words in (
        ("random_encoder", "with random weights"),
        ("shuffled_items", "with shuffled sentences"),
    ):
        control = at_layer(_curves(study, quantity, condition).values(), best.layer)
        beside += [f"{decimal(control.mean)} {words}"] if control is not None else []
    lead = tag("strong", f"{_QUANTITIES[quantity]} linear CKA {decimal(best.mean)}")
    rest = f" ({', '.join(beside)})" if beside else ""
    who = "languages are represented" if len(languages_of(study)) > 1 else "encoders are"
    return (
        f"Two {who} most alike at layer {best.layer}, with {lead}{rest}; {count_of(best.scores)}."
    )


def _bias_note(study: Study) -> str:
    """What the shuffled control says about the bias in this very run; HTML."""
    told: list[str] = []
    for quantity, word in _QUANTITIES.items():
        scores = [
            s
            for curve in _curves(study, quantity, "shuffled_items").values()
            for s in curve.values()
            if not math.isnan(s.value)
        ]
        if scores:
            told.insert(
                0,
                (
                    f"{word} CKA still gives {spread(scores)} ({plural(len(scores), 'value')}, "
                    f"{count_of(scores)})"
                ),
            )
    note = (
        "Biased CKA is inflated when there are few sentences for the number of dimensions; the "
        "debiased estimate is not. "
    )
    if told:
        note += (
            f"How much that matters here is shown by shuffling the sentences of one side, which "
            f"leaves nothing to find: {join(told)}."
        )
    else:
        note += (
            "No shuffled control was measured in this run, so how much that matters here is not "
            "known: rely on the debiased curve."
        )
    return tag("div", paragraph(text(note)), class_="note")


def _limits(study: Study, quantities: Iterable[str]) -> tuple[float, float]:
    """The vertical axis of all panels of a figure."""
    curves = (
        curve for q in quantities for c in _CONDITIONS for curve in _curves(study, q, c).values()
    )
    return _span(
        end
        for curve in curves
        for score in curve.values()
        for end in (score.value, score.low, score.high)
    )


def _span(values: Iterable[float | None]) -> tuple[float, float]:
    """An axis that these values fill: from 0, or below it as far as needed, to the tenth above the
    largest."""
    ends = [0.0, *(end for end in values if end is not None and not math.isnan(end))]
    low = 0.0 if min(ends) > -0.005 else math.floor(min(ends) * 10) / 10
    return low, max(0.1, math.ceil(max(ends) * 10 - 1e-9) / 10)


def _look(condition: str | None) -> Style:
    colour, marker = _COLOURS[condition]
    return Style(
        colour, marker=marker, width=1.8 if condition is None else 1.3, band=condition is None
    )


def _panels(study: Study, numbering: Numbering) -> str:
    limits, axis = _limits(study, _QUANTITIES), "linear CKA (no unit)"
    panels = [
        _pair_panel(study, numbering, pair, _QUANTITIES, ("Linear CKA", axis, limits))
        for pair in study.pairs(_TASK)
    ]
    entries = _conditions(study, _QUANTITIES) + [
        (Style("#3a3f45"), "debiased"),
        (Style("#3a3f45", dash="dashed"), "biased"),
    ]
    reading = (
        "each panel compares the same layer of two sides; colour and marker tell the "
        "encoder from its controls, solid lines are the "
        "debiased and dashed lines the biased estimate, and the bands are 95 % intervals of "
        "the former. Shuffled sentences show what the "
        "estimate gives when there is no relation."
    )
    return figure(
        numbering,
        "Linear CKA by layer.",
        reading,
        legend(entries),
        [part for part in panels if part],
    )


def _conditions(study: Study, quantities: Iterable[str]) -> list[tuple[Style, str]]:
    """The legend's entries for the encoder and its controls."""
    shown = [
        c
        for c in reversed(_COLOURS)
        if any(any(_curves(study, quantity, c).values()) for quantity in quantities)
    ]
    return [(_look(c), _CONDITIONS[c]) for c in shown]


def _others(study: Study, numbering: Numbering) -> list[str]:
    """A figure for each other measure of the same layers."""
    measured = dict.fromkeys(
        score.quantity
        for score in study.scores
        if score.task == _TASK and score.quantity not in _QUANTITIES
    )
    return [
        _other_figure(study, numbering, quantity)
        for quantity in measured
        if any(_curves(study, quantity, None).values())
    ]


def _other_figure(study: Study, numbering: Numbering, quantity: str) -> str:
    what = QUANTITIES[quantity]
    look = what.label, what.unit, _limits(study, [quantity])
    panels = [
        _pair_panel(study, numbering, pair, {quantity: what.label}, look)
        for pair in study.pairs(_TASK)
    ]
    reading = (
        f"each panel compares the same layer of two sides. The measure goes from "
        f"{what.low:g} to {what.high:g}; "
        f"{'lower' if quantity in _DISTANCES else 'higher'} is more alike. Shuffled sentences "
        f"show what it gives when there is no "
        "relation; bands are 95 % intervals, where there are any."
    )
    return figure(
        numbering,
        f"{what.label} by layer.",
        reading,
        legend(_conditions(study, [quantity])),
        [part for part in panels if part],
    )


def _pair_panel(
    study: Study,
    numbering: Numbering,
    pair: _Pair,
    quantities: dict[str, str],
    look: tuple[str, str, tuple[float, float]],
) -> str:
    """The curves of one pair, encoder and controls; ``look``: what is drawn, the vertical axis with
    its unit, and its ends."""
    what, axis, limits = look
    named: list[NamedCurve] = []
    for condition, (colour, marker) in _COLOURS.items():
        for quantity, word in reversed(quantities.items()):
            biased, main = quantity == "linear_cka", condition is None
            style = Style(
                colour, "dashed" if biased else "solid", marker, 1.8 if main else 1.3, biased, main
            )
            curve = study.curve(_TASK, quantity, condition, pair)
            named += [(f"{_CONDITIONS[condition]}, {word}", style, curve)] if curve else []
    names = _called(pair)
    return (
        layer_curves(names, f"{what} by layer, {names}", named, limits, axis).panel(numbering)
        if named
        else ""
    )


def _maps(study: Study, numbering: Numbering) -> str:
    quantity = next(
        (
            q
            for q in _QUANTITIES
            if any(_off_diagonal(study.square(q, pair)) for pair in study.pairs(_TASK))
        ),
        None,
    )
    if quantity is None:
        return ""
    ends = scale_ends(
        s.value for pair in study.pairs(_TASK) for s in study.square(quantity, pair).values()
    )
    panels = [_map(study, numbering, quantity, pair, ends) for pair in study.pairs(_TASK)]
    below = "Values below 0 are drawn as 0; g" if ends[0] == 0 else "G"
    reading = (
        f"each cell compares one layer of the first language (vertical) with one layer of the "
        f"second (horizontal) by "
        f"{_QUANTITIES[quantity]} linear CKA; a dark diagonal means that the same layers "
        f"correspond. {below}rey cells were not computed."
    )
    bar = tag(
        "div",
        colour_bar(
            numbering.panel(),
            f"{_QUANTITIES[quantity]} linear CKA (same scale in all panels)",
            ends,
        ),
        class_="legend",
    )
    return figure(
        numbering,
        "Every layer against every layer.",
        reading,
        bar,
        [part for part in panels if part],
    )


def _off_diagonal(cells: dict[tuple[int, int], Score]) -> bool:
    return any(row != column for row, column in cells)


def _map(
    study: Study, numbering: Numbering, quantity: str, pair: _Pair, ends: tuple[float, float]
) -> str:
    cells = study.square(quantity, pair)
    if not cells:
        return ""
    values = np.full(
        (1 + max(row for row, _ in cells), 1 + max(column for _, column in cells)), math.nan
    )
    for place, score in cells.items():
        values[place] = score.value
    names, n = [language(code) for code in pair], count_of(cells.values())
    highest = choose(cells, lambda place: cells[place].value)
    label = (
        f"Layers of {names[0]} against layers of {names[1]}, {_QUANTITIES[quantity]} linear CKA, "
        f"{n}"
    )
    if highest is not None:
        row, column = highest.item
        label += f": highest {decimal(highest.value)} for layers {row} and {column}"
    ticks = (
        [str(layer) for layer in range(values.shape[0])],
        [str(layer) for layer in range(values.shape[1])],
    )
    axis_labels = (f"{short(names[0], 20)}, layer", f"{short(names[1], 20)}, layer")
    picture = heat_panel(
        numbering.panel(), label, values, ticks, axis_labels, upward=True, ends=ends
    )
    gaps = not_computed(
        (f"layer of {names[1]} {column} against {names[0]}", row, missing_reason(score))
        for (row, column), score in cells.items()
        if math.isnan(score.value) and row != column
    )
    return panel(
        _called(pair),
        n,
        picture,
        missing=gaps[:4] + ([f"… and {len(gaps) - 4} more."] if len(gaps) > 4 else []),
    )


def _table(study: Study, layer: int) -> str:
    columns = [(quantity, condition) for quantity in _QUANTITIES for condition in _CONDITIONS]
    curves = {column: _curves(study, *column) for column in columns}
    columns = [
        column for column in columns if any(layer in curve for curve in curves[column].values())
    ]
    head = [
        "Pair",
        "n",
        *(f"{_CONDITIONS[c]}<br><span class='quiet'>{_QUANTITIES[q]}</span>" for q, c in columns),
    ]
    rows = []
    for pair in study.pairs(_TASK):
        scores = [curves[column][pair].get(layer) for column in columns]
        counts = {score.n for score in scores if score is not None}
        n = counts.pop() if len(counts) == 1 else None
        several = "differs" if counts else "–"
        cells = [value_cell(s, n=n or 0) for s in scores]
        rows.append([text(_called(pair)), several if n is None else f"{n:,}", *cells])
    return table(
        (
            f"Linear CKA of layer {layer} with itself on the other side, with 95 % intervals "
            f"where there are any."
        ),
        head,
        rows,
    )
