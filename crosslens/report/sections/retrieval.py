"""Sentence retrieval in the report: what came out, the matrices at the best layer, the curves and
the table."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from crosslens.report.folders.study import CONTROL_OF, Curve, Study, clear_of, mean_curve
from crosslens.report.parts.curves import Curves, NamedCurve, layer_curves
from crosslens.report.parts.drawing import Style, upper_limit
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
    join,
    language,
    missing_reason,
    paragraph,
    plural,
    spread,
    tag,
    text,
    within,
)
from crosslens.score import Score, few_pairs
from crosslens.selection import Best, at_layer, best_layer, chosen_layer

__all__ = ["retrieval_curves", "retrieval_findings", "retrieval_section", "retrieval_sentence"]

_TASK, _QUANTITY = "sentence_retrieval", "precision_at_1"
_NAMES = {
    "unaligned": "Unaligned",
    "procrustes": "After Procrustes",
    "random_encoder": "Random encoder",
    "random_encoder_procrustes": "Random + Procrustes",
}
_STYLES = {
    "random_encoder": Style("#8a9097", marker="x", width=1.3),
    "random_encoder_procrustes": Style("#5f656c", marker="+", width=1.3),
    "unaligned": Style("#0072b2", marker="o", band=True),
    "procrustes": Style("#d55e00", marker="s", band=True),
}
_Pair = tuple[str, str]


def _curves(study: Study, condition: str, part: str = "held_out") -> dict[_Pair, Curve]:
    return {way: study.curve(_TASK, _QUANTITY, condition, way, part) for way in study.directions()}


def _best(study: Study, condition: str) -> Best | None:
    """The layer at which a condition is shown."""
    return chosen_layer(
        _curves(study, condition).values(), _curves(study, condition, "train").values()
    )


def _chosen_layers(study: Study) -> dict[str, int]:
    """The layer at which each condition is shown; a control is shown where the encoder it belongs
    to is best."""
    layers: dict[str, int] = {}
    for condition, control in CONTROL_OF.items():
        best = _best(study, condition)
        if best is not None:
            layers.update({condition: best.layer, control: best.layer})
    return layers


def _ways(directions: Sequence[_Pair]) -> list[str]:
    """Directions as people write them; both directions of a pair in one."""
    given, result = set(directions), []
    for source, target in directions:
        if (target, source) not in given:
            result.append(f"{language(source)} → {language(target)}")
        elif directions.index((source, target)) < directions.index((target, source)):
            result.append(f"{language(source)} ↔ {language(target)}")
    return result


def _verdict(study: Study, condition: str, layer: int) -> str:
    """In how many directions the encoder is clearly above its random control; HTML."""
    main, answers = _curves(study, condition), _answers(study, condition, layer)
    paired = any(curve[layer].evidence.above_control for curve in main.values() if layer in curve)
    told = [way for way, answer in answers.items() if answer is not None]
    unclear = [way for way in told if not answers[way]]
    if not told:
        return "There is no random control with an interval to compare this with."
    rest = (
        f" ({plural(len(answers) - len(told), 'direction')} could not be compared.)"
        if len(told) < len(answers)
        else ""
    )
    if not unclear:
        everywhere = (
            "both directions"
            if len(told) == 2
            else f"all {plural(len(told), 'direction')}"
            if len(told) > 2
            else "this direction"
        )
        rule = (
            "the interval of that difference lies above 0"
            if paired
            else "its 95 % interval lies wholly above the random encoder’s"
        )
        return f"{_mean_sentence(study, condition, layer)}In {everywhere} {rule}.{rest}"
    names = text(join(_ways(unclear), most=8, rest="more, marked in the table"))
    scale = (
        "any direction"
        if len(unclear) == len(told)
        else f"{len(unclear)} of {plural(len(told), 'direction')}"
    )
    rule = (
        "the 95 % interval of the difference reaches 0"
        if paired
        else "its 95 % interval does not lie wholly above the random encoder’s"
    )
    lead = f"<strong>Not clearly above the random encoder</strong> in {scale}"
    return f"{_mean_sentence(study, condition, layer)}{lead} ({rule}): {names}.{rest}"


def _answers(study: Study, condition: str, layer: int) -> dict[_Pair, bool | None]:
    """Of each direction whether the encoder is clearly above its random control."""
    main, control = _curves(study, condition), _curves(study, CONTROL_OF[condition])
    return {
        way: clear_of(main[way].get(layer), control[way].get(layer))
        for way in main
        if layer in main[way]
    }


def _mean_sentence(study: Study, condition: str, layer: int) -> str:
    """How far the mean over directions lies above the control's; empty where that was not
    measured."""
    mean = study.curve("mean_sentence_retrieval", _QUANTITY, condition).get(layer)
    above = mean.evidence.above_control if mean is not None else None
    if above is None:
        return ""
    low, high = decimal(above.low), decimal(above.high)
    verdict = "" if above.low > 0 else ", <strong>which reaches 0</strong>"
    return (
        f"On the same sentences the mean lies {decimal(above.difference)} above the random "
        f"encoder’s "
        f"(95 % interval {low} to {high}{verdict}). "
    )


def _control_sentence(study: Study, condition: str, layer: int) -> str:
    curves = _curves(study, CONTROL_OF[condition])
    here, own = at_layer(curves.values(), layer), best_layer(curves.values())
    if here is None or own is None:
        return ""
    elsewhere = (
        ""
        if own.layer == layer
        else f"; its own best layer, {own.layer}, reaches {decimal(own.mean)}"
    )
    fitted = ", aligned in the same way," if condition == "procrustes" else ""
    return (
        f"The same architecture with random weights{fitted} has {decimal(here.mean)} there "
        f"({count_of(here.scores)}){elsewhere}. "
    )


def retrieval_findings(study: Study) -> list[str]:
    """Sentences on what came out, as HTML."""
    found = []
    leads = {
        "unaligned": "Without alignment, sentence retrieval",
        "procrustes": "After Procrustes alignment, sentence retrieval",
    }
    for condition, lead in leads.items():
        best = _best(study, condition)
        if best is None:
            continue
        how = (
            "is best at layer"
            if best.on_train is None
            else "at the layer that is best on the training sentences,"
        )
        where = tag("strong", f"{lead} {how} {best.layer}: mean P@1 {decimal(best.mean)}")
        without = len(study.directions()) - len(best.scores)
        but = f", {without} not computed" if without else ""
        values = f"{spread(best.scores)}; {count_of(best.scores)} held-out sentences each"
        chance = decimal(float(np.mean([1 / score.n for score in best.scores])))
        over = f"over {plural(len(best.scores), 'direction')}{but} ({values}; chance {chance})."
        found.append(
            f"{where} {over} "
            f"{_control_sentence(study, condition, best.layer)}{_verdict(study, condition, best.layer)}"
        )
    return [*found, *_choice_note(study)]


def _choice_note(study: Study) -> list[str]:
    """How the layers were chosen, where there was a choice."""
    bests = {
        condition: best
        for condition in CONTROL_OF
        if (best := _best(study, condition)) is not None and best.layers > 1
    }
    on_train = [
        f"{within(_NAMES[condition])} {decimal(best.on_train)}"
        for condition, best in bests.items()
        if best.on_train is not None
    ]
    if on_train:
        return [
            f"Layers were chosen by mean P@1 on the training sentences ({join(on_train)}), in "
            f"two halves, each rotated by the map of "
            "the other (cross-validation); no held-out sentence took part in the choice. The "
            "curves below show all layers."
        ]
    return [
        f"Each of these layers is the best of {best.layers}, chosen on the same held-out "
        f"sentences: read their means as slightly "
        "optimistic. The curves below show all layers."
        for best in list(bests.values())[:1]
    ]


def retrieval_section(study: Study, numbering: Numbering) -> str:
    """The whole section."""
    layers = _chosen_layers(study)
    if not layers:
        return section(
            "retrieval",
            "Sentence retrieval",
            paragraph("This run holds no retrieval scores that could be shown."),
        )
    by = str(study.section("settings").get("by") or "cosine")  # of crosslens align
    how = "cosine similarity" if by == "cosine" else f"{by.replace('_', ' ')} of the cosines"
    intro = (
        "For every sentence of the source language, the nearest sentence of the target "
        f"language ({how} of their vectors) is "
        "looked up; P@1 is the fraction of sentences for which it is the translation. Curves "
        "and matrices use held-out sentences, which "
        "no alignment was fitted on. Unaligned vectors are compared as they are; Procrustes "
        "scales them to unit length, centres and "
        "rotates them. Grey lines are controls: the same architecture with random weights."
    )
    drawn = flow(
        _matrices(study, numbering, layers),
        _panels(study, numbering),
        tag("div", paragraph(text(intro)), class_="text"),
    )
    return section(
        "retrieval",
        "Sentence retrieval",
        drawn,
        folded("All numbers", _table(study, layers)),
        told=_told(study),
    )


def _told(study: Study) -> str:
    best = _best(study, "unaligned") or _best(study, "procrustes")
    return "" if best is None else f"mean P@1 {decimal(best.mean)} at layer {best.layer}"


def retrieval_curves(study: Study) -> Curves | None:
    """The mean over all directions by layer; None where nothing was measured."""
    curves = {condition: _mean_curve(study, condition) for condition in _STYLES}
    if not any(curves.values()):
        return None
    top, many = upper_limit(curves.values()), len(study.directions())
    over = f"Mean over {plural(many, 'direction')} of retrieval" if many > 1 else "Retrieval"
    key = [(_STYLES[c], words) for c, words in _NAMES.items() if curves[c]]
    named = [(_NAMES[c], _STYLES[c], curve) for c, curve in curves.items()]
    limits, axis = (-0.025 * top, 1.01 * top), "P@1 (fraction of sentences)"
    found = layer_curves(
        "Sentence retrieval", f"{over} P@1 by layer", named, limits, axis, key=key, gaps=False
    )
    rotated = [score for score in study.scores if score.task == "sentence_retrieval"]
    note = few_pairs(rotated, study.section("data").get("d"))
    return dataclasses.replace(found, note=note)


def _mean_curve(study: Study, condition: str) -> Curve:
    """The mean over directions with its interval where the run has it; otherwise the plain mean at
    layers where all were computed."""
    told = study.curve("mean_sentence_retrieval", _QUANTITY, condition)
    return told or mean_curve(_curves(study, condition).values())


def retrieval_sentence(study: Study) -> str:
    """One sentence on what came out, as HTML; empty where nothing was measured."""
    bests = {
        condition: best for condition in CONTROL_OF if (best := _best(study, condition)) is not None
    }
    parts = []
    for condition, best in bests.items():
        control = at_layer(_curves(study, CONTROL_OF[condition]).values(), best.layer)
        against = "" if control is None else f", {decimal(control.mean)} with random weights"
        told = [
            answer
            for answer in _answers(study, condition, best.layer).values()
            if answer is not None
        ]
        clear = (
            f", clearly above them in {sum(told)} of {plural(len(told), 'direction')}"
            if told
            else ""
        )
        lead = tag(
            "strong",
            (
                f"{'without alignment' if condition == 'unaligned' else 'after Procrustes'} "
                f"{decimal(best.mean)}"
            ),
        )
        parts.append(f"{lead} (layer {best.layer}{against}{clear})")
    if not parts:
        return ""
    some = next(iter(bests.values()))
    n = count_of(some.scores)
    chance = decimal(float(np.mean([1 / score.n for score in some.scores])))
    return f"Held-out translations are found first with P@1 {join(parts)}; {n}, chance {chance}."


def _matrices(study: Study, numbering: Numbering, layers: dict[str, int]) -> str:
    shown = {}
    for condition in _NAMES:
        curves = _curves(study, condition)
        at = {
            way: curve[layers[condition]]
            for way, curve in curves.items()
            if layers.get(condition) in curve
        }
        if at:
            shown[condition] = at
    ends = scale_ends(score.value for at in shown.values() for score in at.values())
    panels = [
        _matrix(study, numbering, condition, layers[condition], at, ends)
        for condition, at in shown.items()
    ]
    bests = [best for condition in CONTROL_OF if (best := _best(study, condition)) is not None]
    where = " on the training sentences" if all(best.on_train is not None for best in bests) else ""
    reading = (
        "a row is the language of the query, a column the language that is searched; darker "
        "means that more translations are found. "
        f"Each condition is shown at the layer where its mean is highest{where}; a random "
        f"encoder is shown at the layer "
        "of the condition that it is the control of."
    )
    bar = tag(
        "div",
        colour_bar(
            numbering.panel(), "P@1, fraction of sentences (same scale in all panels)", ends
        ),
        class_="legend",
    )
    return figure(
        numbering, "Retrieval between all languages at the best layer.", reading, bar, panels
    )


def _matrix(
    study: Study,
    numbering: Numbering,
    condition: str,
    layer: int,
    at: dict[_Pair, Score],
    ends: tuple[float, float],
) -> str:
    codes = study.languages()
    codes = [code for code in codes if any(code in way for way in at)]
    cells = np.array([[at[s, t].value if (s, t) in at else math.nan for t in codes] for s in codes])
    n = count_of(at.values())
    told = [
        (
            f"{language(s)} to {language(t)} "
            f"{'not computed' if math.isnan(score.value) else decimal(score.value, 2)}"
        )
        for (s, t), score in at.items()
    ]
    label = f"Matrix of retrieval P@1, {_NAMES[condition]}, layer {layer}, {n}: {', '.join(told)}"
    names = [language(code) for code in codes]
    picture = heat_panel(
        numbering.panel(),
        label,
        cells,
        (names, names),
        ("query language", "searched language"),
        diagonal=False,
        ends=ends,
    )
    missing = not_computed(
        (f"{language(s)} → {language(t)}", layer, missing_reason(score))
        for (s, t), score in at.items()
        if math.isnan(score.value)
    )
    return panel(f"{_NAMES[condition]}, layer {layer}", n, picture, missing=missing)


def _panels(study: Study, numbering: Numbering) -> str:
    curves = {condition: _curves(study, condition) for condition in _STYLES}
    top = upper_limit(curve for group in curves.values() for curve in group.values())
    limits = (-0.025 * top, 1.01 * top)  # a curve at 0 stays visible
    panels = []
    for pair in study.pairs(_TASK):
        ways = {
            way: {condition: curves[condition][way] for condition in _STYLES}
            for way in (pair, pair[::-1])
        }
        panels.append(_pair_panel(numbering, pair, ways, limits))
    entries = [
        (_STYLES[name], words) for name, words in _NAMES.items() if any(curves[name].values())
    ]
    entries += [
        (Style("#3a3f45"), "first → second language"),
        (Style("#3a3f45", dash="dashed"), "second → first language"),
        (Style("#000000", dash="dotted", width=1.1), "chance, 1/n"),
    ]
    reading = (
        "each panel is one pair of languages; colour and marker tell the condition, solid and "
        "dashed lines the two directions, and the "
        "shaded bands are 95 % intervals. A coloured curve says something about training "
        "where its band lies above its grey control "
        f"(with crosses for the one after Procrustes). All panels share one vertical axis, up "
        f"to {top:g}."
    )
    return figure(
        numbering, "Retrieval by layer, held-out sentences.", reading, legend(entries), panels
    )


def _pair_panel(
    numbering: Numbering,
    pair: _Pair,
    ways: dict[_Pair, dict[str, Curve]],
    limits: tuple[float, float],
) -> str:
    named: list[NamedCurve] = []
    for condition, style in _STYLES.items():
        for way, curves in ways.items():
            dashed = way != pair
            look = Style(
                style.colour,
                "dashed" if dashed else "solid",
                style.marker,
                style.width,
                dashed,
                style.band,
            )
            named.append(
                (f"{_NAMES[condition]}, {' → '.join(map(language, way))}", look, curves[condition])
            )
    counts = {score.n for _, _, curve in named for score in curve.values()}
    chance = 1 / counts.pop() if len(counts) == 1 else None
    title = " ↔ ".join(map(language, pair))
    what = f"Retrieval P@1 by layer, {' – '.join(map(language, pair))}"
    return layer_curves(title, what, named, limits, "P@1 (fraction of sentences)", chance).panel(
        numbering
    )


def _table(study: Study, layers: dict[str, int]) -> str:
    parts = {
        "held_out": tuple(_NAMES),
        "all": tuple(CONTROL_OF)[:1] + tuple(CONTROL_OF.values())[:1],
    }
    curves = {
        (part, condition): _curves(study, condition, part)
        for part, conditions in parts.items()
        for condition in conditions
    }
    columns = [column for column in curves if column[1] in layers and any(curves[column].values())]
    head = ["Direction"]
    rows = [[text(" → ".join(map(language, way)))] for way in study.directions()]
    for part, words in (("held_out", "held-out"), ("all", "all sentences")):
        here = [condition for which, condition in columns if which == part]
        if here:
            head += [
                f"n (chance)<br>{_quiet(words)}",
                *(f"{_NAMES[c]}<br>{_quiet(f'layer {layers[c]}, {words}')}" for c in here),
            ]
        for row, way in zip(rows, study.directions(), strict=True):
            row += _row(
                {
                    condition: curves[part, condition][way].get(layers[condition])
                    for condition in here
                },
                part == "held_out",
            )
    caption = (
        "Retrieval P@1 with 95 % intervals, at the layers of the matrices above. “All "
        "sentences” includes those that Procrustes was fitted "
        "on; the two conditions shown for them fit nothing."
    )
    return table(caption, head, rows)


def _quiet(words: str) -> str:
    return tag("span", words, class_="quiet")


def _row(scores: dict[str, Score | None], compare: bool) -> list[str]:
    """The cells of one direction and one part of the sentences, led by their n; a cell names its
    own n where n differs."""
    if not scores:
        return []
    counts = {score.n for score in scores.values() if score is not None}
    n = counts.pop() if len(counts) == 1 else None
    several = "differs" if counts else "–"
    cells = [several if n is None else f"{n:,} ({decimal(1 / n)})"]
    for condition, score in scores.items():
        control = scores.get(CONTROL_OF.get(condition, "")) if compare else None
        cells.append(
            value_cell(score, n=n or 0)
            + (
                tag("small", "not clearly above random")
                if clear_of(score, control) is False
                else ""
            )
        )
    return cells
