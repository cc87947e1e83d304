"""Language identification in the report: how well the language can be read off each layer."""

import dataclasses
import math

from crosslens.report.folders.study import Curve, Study
from crosslens.report.parts.curves import Curves, layer_curves
from crosslens.report.parts.drawing import Style
from crosslens.report.parts.layout import (
    Numbering,
    figure,
    flow,
    folded,
    legend,
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
    paragraph,
    plural,
    tag,
    text,
)
from crosslens.selection import best_layer, choose

__all__ = [
    "language_id_curves",
    "language_id_findings",
    "language_id_section",
    "language_id_sentence",
]

_TASK = "language_id"
_QUANTITIES = {
    "accuracy": ("Accuracy", "accuracy (fraction of sentences)"),
    "macro_f1": ("Macro F1", "macro F1 (mean over languages)"),
}
_NAMES: dict[str | None, str] = {
    None: "Encoder",
    "random_encoder": "Random encoder",
    "shuffled_labels": "Shuffled labels",
    "majority": "Always the most frequent language",
}
_STYLES: dict[str | None, Style] = {
    "majority": Style("#000000", dash="dotted", width=1.2),
    "shuffled_labels": Style("#aa4499", dash="dashed", marker="^", width=1.3, hollow=True),
    "random_encoder": Style("#8a9097", marker="x", width=1.3),
    None: Style("#0072b2", marker="o", band=True),
}


def _curves(study: Study, quantity: str) -> dict[str | None, Curve]:
    return {condition: study.curve(_TASK, quantity, condition) for condition in _STYLES}


def language_id_findings(study: Study) -> list[str]:
    """A sentence on what came out, as HTML."""
    curves = _curves(study, "accuracy")
    best = best_layer([curves[None]])
    if best is None:
        return []
    lead = tag(
        "strong",
        (
            f"The language can be read off best at layer {best.layer}: accuracy "
            f"{text(estimate(best.scores[0]))}"
        ),
    )
    controls = [
        (
            f"{words} {decimal(curves[name][best.layer].value)} "
            f"({count_of([curves[name][best.layer]])})"
        )
        for name, words in (
            ("random_encoder", "random encoder"),
            ("shuffled_labels", "shuffled labels"),
            ("majority", "majority class"),
        )
        if best.layer in curves[name] and not math.isnan(curves[name][best.layer].value)
    ]
    lowest = choose(
        curves[None].values(), lambda score: -score.value, layer=lambda score: score.layer
    )
    span = ""
    if lowest is not None and lowest.of > 1:
        span = (
            f" The lowest of {plural(lowest.of, 'layer')} is {lowest.item.layer}, with "
            f"{decimal(lowest.item.value)}."
        )
    compare = f" Controls there: {join(controls)}." if controls else " No control was measured."
    return [f"{lead} ({count_of(best.scores)} sentences).{span}{compare}"]


def language_id_section(study: Study, numbering: Numbering) -> str:
    """The whole section; where nothing was measured, why."""
    title = "Language identification"
    if not any(study.curve(_TASK, quantity, None) for quantity in _QUANTITIES):
        notes = study.config.get("notes")
        reasons = (
            [str(note) for note in notes if "language id" in str(note).lower()]
            if isinstance(notes, list)
            else []
        )
        why = "".join(paragraph(text(reason)) for reason in reasons) or paragraph(
            "This run holds no language identification scores."
        )
        return section("language-id", title, why)
    some = next(
        score for quantity in _QUANTITIES for score in study.curve(_TASK, quantity, None).values()
    )
    codes, many = some.evidence.languages, some.evidence.n_train
    among = (
        f" The languages are {join([language(str(code)) for code in codes])}."
        if codes is not None
        else ""
    )
    trained = f" It was trained on {plural(many, 'sentence')}." if many is not None else ""
    intro = (
        "A linear classifier is trained on the vectors of one layer to say which language a "
        "sentence is in, and tested on other sentences."
        f"{trained}{among} High accuracy means that the layer still carries language identity."
    )
    best = best_layer([_curves(study, "accuracy")[None]])
    drawn = flow(_figure(study, numbering), tag("div", paragraph(text(intro)), class_="text"))
    told = "" if best is None else f"accuracy {decimal(best.mean)} at layer {best.layer}"
    return section("language-id", title, drawn, folded("All numbers", _table(study)), told=told)


def language_id_curves(study: Study) -> Curves | None:
    """Accuracy by layer; None where nothing was measured."""
    return (
        _quantity_curves(study, "accuracy", "Language identification")
        if _curves(study, "accuracy")[None]
        else None
    )


def language_id_sentence(study: Study) -> str:
    """One sentence on what came out, as HTML; empty where nothing was measured."""
    curves = _curves(study, "accuracy")
    best = best_layer([curves[None]])
    if best is None:
        return ""
    words = {"random_encoder": "with random weights", "majority": "for the most frequent language"}
    beside = [
        f"{decimal(curves[name][best.layer].value)} {word}"
        for name, word in words.items()
        if best.layer in curves[name] and not math.isnan(curves[name][best.layer].value)
    ]
    lead = tag("strong", f"accuracy {decimal(best.mean)}")
    rest = f" ({', '.join(beside)})" if beside else ""
    return (
        f"Which language a sentence is in is read off best at layer {best.layer}, with "
        f"{lead}{rest}; {count_of(best.scores)}."
    )


def _figure(study: Study, numbering: Numbering) -> str:
    shown = [
        (quantity, name)
        for quantity, (name, _) in _QUANTITIES.items()
        if _curves(study, quantity)[None]
    ]
    panels = [
        dataclasses.replace(_quantity_curves(study, *one), key=()).panel(numbering) for one in shown
    ]
    curves = _curves(study, "accuracy")
    entries = [
        (style, _NAMES[name])
        for name, style in reversed(_STYLES.items())
        if curves[name] or study.curve(_TASK, "macro_f1", name)
    ]
    reading = (
        "the curve of the encoder, with its 95 % band, against what the same classifier gets "
        "from a random encoder, from labels that were "
        "shuffled before training, and from always naming the most frequent language."
    )
    return figure(
        numbering,
        "Language identification by layer.",
        reading,
        legend(entries, sticky=False),
        panels,
    )


def _quantity_curves(study: Study, quantity: str, title: str) -> Curves:
    """The curves of one quantity with its controls."""
    curves, (name, axis) = _curves(study, quantity), _QUANTITIES[quantity]
    named = [(_NAMES[condition], _STYLES[condition], curve) for condition, curve in curves.items()]
    key = [(style, _NAMES[name]) for name, style in reversed(_STYLES.items()) if curves[name]]
    what = f"{name} of language identification by layer"
    return layer_curves(title, what, named, (-0.025, 1.02), axis, key=key)


def _table(study: Study) -> str:
    columns: list[tuple[str, str | None]] = [
        (quantity, condition) for quantity in _QUANTITIES for condition in _NAMES
    ]
    curves = {column: study.curve(_TASK, *column) for column in columns}
    columns = [column for column in columns if curves[column]]
    layers = sorted({layer for column in columns for layer in curves[column]})
    head = [
        "Layer",
        "n",
        *(
            f"{text(_NAMES[c])}<br><span class='quiet'>{_QUANTITIES[q][0]}</span>"
            for q, c in columns
        ),
    ]
    rows = []
    for layer in layers:
        scores = [curves[column].get(layer) for column in columns]
        counts = {score.n for score in scores if score is not None}
        n = counts.pop() if len(counts) == 1 else None
        cells = [value_cell(s, n=n or 0) for s in scores]
        rows.append([str(layer), "differs" if n is None else f"{n:,}", *cells])
    return table(
        "Language identification by layer, with 95 % intervals where there are any.", head, rows
    )
