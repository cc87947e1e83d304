"""Words in the report: how well a rotation translates word types, or finds the word that a word in
context is linked with."""

import dataclasses
from collections.abc import Mapping

from crosslens.report.folders.study import Curve, Study
from crosslens.report.parts.curves import Curves, layer_curves
from crosslens.report.parts.drawing import Style, upper_limit
from crosslens.report.parts.layout import Numbering, section, table, value_cell
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
    within,
)
from crosslens.score import few_pairs
from crosslens.selection import best_layer

__all__ = ["WORD_TASKS", "words_curves", "words_findings", "words_section", "words_sentence"]

WORD_TASKS = ("word_translation", "contextual_word_retrieval")
_STYLES = {
    "unaligned": Style("#0072b2", marker="o", band=True),
    "procrustes": Style("#d55e00", marker="s", band=True),
    "refine": Style("#00795c", marker="^", band=True),
    "self_learning": Style("#aa4499", marker="D", band=True),
}
_NAMES = {
    "unaligned": "Unaligned",
    "procrustes": "After Procrustes",
    "refine": "Refined",
    "self_learning": "Self-learning",
}
_WHAT = {
    "word_translation": "For every source word of the test dictionary its nearest word of the other language "
    "is "
    "looked up; it is right "
    "when the dictionary has it as a translation.",
    "contextual_word_retrieval": "For every linked word of a held-out sentence the nearest word in context of the "
    "other "
    "language is "
    "looked up; it is right when the two are linked.",
}
_HOW = {
    "procrustes": "Before Procrustes is fitted, each side is normalised iteratively (Zhang et al. 2019).",
    "refine": "Each side is normalised iteratively (Zhang et al. 2019); Procrustes is fitted, and again to "
    "the words that then find each other (Conneau et al. 2018).",
    "self_learning": "Self-learning scales vectors to length 1, centres and scales them again, and its map "
    "whitens, rotates, re-weights and de-whitens them (Artetxe et al. 2018).",
}
_Pair = tuple[str, str]


def _curves(study: Study) -> dict[tuple[str, _Pair], dict[str, Curve]]:
    """(task, direction) -> condition -> P@1 by layer."""
    found: dict[tuple[str, _Pair], dict[str, Curve]] = {}
    for task in WORD_TASKS:
        for first, second in study.pairs(task):
            for way in ((first, second), (second, first)):
                curves = {
                    condition: study.curve(task, "precision_at_1", condition, way)
                    for condition in _STYLES
                }
                if any(curves.values()):
                    found[task, way] = curves
    return found


def words_findings(study: Study) -> list[str]:
    """Sentences on what came out, as HTML."""
    found = []
    for (_, way), curves in _curves(study).items():
        for condition in list(_STYLES)[1:]:
            best, before = best_layer([curves[condition]]), best_layer([curves["unaligned"]])
            if best is None:
                continue
            what = (
                f"{within(_NAMES[condition])} best at layer {best.layer}, P@1 {decimal(best.mean)}"
            )
            kept = best.scores[0].evidence
            told = (
                f"{estimate(best.scores[0])}; {count_of(best.scores)} words, "
                f"{'?' if kept.fitted_on is None else kept.fitted_on} pairs learnt from"
            )
            if kept.coverage is not None and kept.sources is not None:
                told += (
                    f"; {100 * kept.coverage:.1f} % of the test dictionary’s "
                    f"{kept.sources:,} words are covered"
                )
            rest = (
                ""
                if before is None
                else f" Unaligned the best is {decimal(before.mean)}, at layer {before.layer}."
            )
            found.append(f"{tag('strong', f'Words, {_called(way)}: {what}')} ({text(told)}).{rest}")
    return found


def words_section(study: Study, numbering: Numbering) -> str:
    """The whole section."""
    curves = _curves(study)
    if not curves:
        return section(
            "words", "Words", paragraph("This run holds no scores of words that could be shown.")
        )
    tasks = list(dict.fromkeys(task for task, _ in curves))
    there = [name for name in _STYLES if any(group[name] for group in curves.values())]
    by = (
        str(study.section("settings").get("by") or "csls").replace("_", " ").replace("csls", "CSLS")
    )
    told = [*(_WHAT[task] for task in tasks), f"Words are looked up by {by}."]
    told += [_HOW[name] for name in there if name in _HOW]
    if {"unaligned", "procrustes"} <= {*there}:
        told.append(
            "What lies between the curves is the work of normalisation and rotation: unaligned "
            "vectors are compared as they are."
        )
    intro = " ".join(told)
    words = tag("div", paragraph(text(intro)), class_="text")
    return section("words", "Words", words, _table(curves))


def words_curves(study: Study) -> list[Curves]:
    """Words found by layer, for each direction."""
    curves = _curves(study)
    note = few_pairs(
        [s for s in study.scores if s.task in WORD_TASKS], study.section("data").get("d")
    )
    top = upper_limit(curve for group in curves.values() for curve in group.values())
    return [
        dataclasses.replace(_direction(way, group, (-0.025 * top, 1.01 * top)), note=note)
        for (_, way), group in curves.items()
    ]


def words_sentence(study: Study) -> str:
    """One sentence on what came out, as HTML; empty where nothing was measured."""
    told = []
    for (_, way), curves in _curves(study).items():
        bests = {
            condition: best
            for condition, curve in curves.items()
            if (best := best_layer([curve])) is not None
        }
        parts = [
            f"{within(_NAMES[c])} {tag('strong', decimal(best.mean))} (layer {best.layer})"
            for c, best in bests.items()
        ]
        told += [f"{text(_called(way))}: {join(parts)}"] if parts else []
    shown = join(told, most=4, rest="more directions")
    return f"Words find their translation first with P@1 as follows: {shown}." if told else ""


def _called(way: _Pair) -> str:
    return " → ".join(map(language, way))


def _direction(way: _Pair, curves: dict[str, Curve], limits: tuple[float, float]) -> Curves:
    names, axis = _called(way), "P@1 (fraction of words)"
    key = [(style, _NAMES[condition]) for condition, style in _STYLES.items() if curves[condition]]
    named = [(_NAMES[condition], _STYLES[condition], curve) for condition, curve in curves.items()]
    return layer_curves(
        f"Words, {names}", f"P@1 of words by layer, {names}", named, limits, axis, key=key
    )


def _table(curves: Mapping[tuple[str, _Pair], dict[str, Curve]]) -> str:
    rows = []
    for (_, way), group in curves.items():
        for layer in sorted({layer for curve in group.values() for layer in curve}):
            scores = [group[condition].get(layer) for condition in _STYLES]
            n = next((f"{score.n:,}" for score in scores if score is not None), "–")
            rows.append(
                [
                    text(f"{_called(way)}, layer {layer}"),
                    n,
                    *(value_cell(score) for score in scores),
                ]
            )
    head = ["Direction and layer", "n", *_NAMES.values()]
    return table(f"P@1 of words with 95 % intervals; {plural(len(rows), 'row')}.", head, rows)
