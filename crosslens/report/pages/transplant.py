"""The page of transplants: how their new embeddings began, and how they were learnt."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

from crosslens.errors import refuse
from crosslens.files import check_shape, read_json
from crosslens.report.parts.drawing import (
    Axis,
    Line,
    Style,
    plain_style,
    series_panel,
    series_style,
)
from crosslens.report.parts.layout import (
    Numbering,
    document,
    figure,
    headline,
    legend,
    panel,
    section,
    settings_table,
    table,
)
from crosslens.report.parts.wording import join, named, plural, short_folders, tag, text

__all__ = ["TOLD", "transplants_page"]

TOLD = "transplant.json"
"""The file in an encoder's folder that says how its vocabulary was made."""
_SAME = ("encoder", "text", "seed", "subwords")  # by which perplexities can be compared
_ELSEWHERE = ("rows", "learnt", "kind", "asked")  # not among the settings


class _Learnt(TypedDict):
    perplexities: dict[str, float | None]  # None: no number
    unigram: float
    masked: int
    new_head: NotRequired[bool]  # none of these where an earlier version wrote them
    head_tokens: NotRequired[int]
    converged: NotRequired[bool]
    repeats: NotRequired[dict[str, float | None]]
    kept: NotRequired[int | None]
    not_converged: NotRequired[int]


class _Told(TypedDict):
    by: str
    seed: int
    subwords: int
    text: str
    rows: dict[str, int]
    learnt: NotRequired[_Learnt]


def transplants_page(folders: Sequence[str | Path]) -> str:
    """One page for the folders that ``crosslens transplant`` has made: what their embeddings began
    with and, where they were trained, held-out perplexity over tokens.

    Raises
    ------
    InputError: a folder holds no transplant.
    StoreError: one is damaged.
    """
    every = {str(folder): _read(Path(folder)) for folder in folders}
    short = short_folders(list(every))
    shown = {short[folder]: told for folder, told in every.items()}
    learnt = {name: told["learnt"] for name, told in shown.items() if "learnt" in told}
    styles = {name: series_style(place) for place, name in enumerate(learnt)}
    numbering, title = Numbering(), "Another vocabulary: " + join(list(shown), most=4)
    with plain_style():
        parts = [
            headline(
                title,
                _curves(learnt, styles, numbering) if learnt else "",
                [_said(name, one) for name, one in learnt.items()][:4]
                or [text("None of these embeddings was trained.")],
                {"Encoders": join([named(name) for name in shown])},
                _notes(shown, learnt),
                [],
                "Nothing was trained here.",
            ),
            section("rows", "What the embeddings began with", _rows(shown)),
            section("learnt", "How they were learnt", _learnt(learnt)) if learnt else "",
            section(
                "provenance",
                "How they were made",
                *(settings_table(f"{name}.", _settings(told)) for name, told in shown.items()),
            ),
        ]
    return document(title, parts)


def _read(folder: Path) -> _Told:
    path = folder / TOLD
    if not path.is_file():
        expected, got = "a folder that crosslens transplant has made", f"{folder}, which is none"
        refuse("report", expected, got, "name such folders alone")
    told: _Told = check_shape(read_json(path, dict), str(path), _Told, "make it again")
    return told


def _curve(one: _Learnt) -> dict[float, float]:
    """Million tokens to perplexity; NaN where it was no number."""
    return {
        int(tokens) / 1e6: math.nan if value is None else value
        for tokens, value in one["perplexities"].items()
    }


def _curves(learnt: dict[str, _Learnt], styles: dict[str, Style], numbering: Numbering) -> str:
    lines = [
        Line([*curve], [*curve.values()], styles[name])
        for name, one in learnt.items()
        for curve in [_curve(one)]
    ]
    unigrams = {one["unigram"] for one in learnt.values()}
    picture = series_panel(
        numbering.panel(),
        "held-out perplexity over tokens: " + ", ".join(learnt),
        lines,
        "million tokens",
        Axis("held-out perplexity", log=True),
        level=unigrams.pop() if len(unigrams) == 1 else None,
    )
    key = legend([(styles[name], name) for name in learnt], sticky=False)
    return figure(
        numbering,
        "How the new embeddings were learnt.",
        "masked subwords of held-out sentences, under a body that stands still; the dotted line is a "
        "unigram model, where all have the same",
        "",
        [panel("", "", picture, key=key)],
    )


def _said(name: str, one: _Learnt) -> str:
    """A sentence on an encoder, as HTML."""
    values = [*_curve(one).values()]
    lost = "" if one.get("converged", True) else ": it did not converge"
    return (
        f"{tag('strong', text(name))}: a perplexity of {_shown(values[0])} before and "
        f"{_shown(values[-1])} after; a unigram model has {one['unigram']:,.0f}{lost}."
    )


def _shown(perplexity: float) -> str:
    return "not a number" if math.isnan(perplexity) else f"{perplexity:,.0f}"


def _notes(shown: dict[str, _Told], learnt: dict[str, _Learnt]) -> list[str]:
    """Which trainings did not converge, what was made for them, and why perplexities may not be
    compared."""
    notes = []
    if lost := [name for name, one in learnt.items() if not one.get("converged", True)]:
        notes.append(
            f"{len(lost)} of {plural(len(learnt), 'training')} did not converge ({join(lost)}): no "
            "better than a unigram model, or than their start."
        )
    for name, one in learnt.items():
        if ends := one.get("repeats"):
            told = ", ".join(
                f"seed {seed}: {'given up' if end is None else format(end, ',.0f')}"
                for seed, end in ends.items()
            )
            short = one.get("not_converged", 0)
            notes.append(
                f"{name} is the best of {len(ends)} trainings, from seed {one.get('kept')} ({told}), "
                "chosen on these very sentences, which makes its perplexity somewhat too good."
                + (f" {short} of them did not converge." if short else "")
            )
    if heads := [name for name, one in learnt.items() if one.get("new_head")]:
        has = "has" if len(heads) == 1 else "have"
        notes.append(
            f"{join(heads)} {has} no head for masked words: a new one was trained first, with body and "
            "embeddings as they were, and the perplexity before is by it."
        )
    if len({tuple(str(dict(told).get(name)) for name in _SAME) for told in shown.values()}) > 1:
        notes.append(
            "These differ in their encoder, text, seed or number of subwords, so in what is held out or "
            "in how it is divided: their perplexities cannot be compared."
        )
    return notes


def _rows(shown: dict[str, _Told]) -> str:
    head = ["Encoder", "embeddings", "subwords", "copied", "combined", "sampled"]
    rows = [
        [named(name), text(told["by"]), f"{told['subwords']:,}"]
        + [f"{told['rows'].get(kind, 0):,}" for kind in ("copied", "combined", "sampled")]
        for name, told in shown.items()
    ]
    return table("Embeddings of the new subwords before any training.", head, rows)


def _learnt(learnt: dict[str, _Learnt]) -> str:
    head = ["Encoder", "tokens", "of a new head before", "perplexity before", "after"]
    head += ["of a unigram model", "masked"]
    rows = []
    for name, one in learnt.items():
        curve = _curve(one)
        cells = [*curve.values()][0], [*curve.values()][-1], one["unigram"]
        last = max(map(int, one["perplexities"]))
        told = [*map(_shown, cells)]
        made = f"{one.get('head_tokens', 0):,}" if one.get("new_head") else "-"
        rows.append([named(name), f"{last:,}", made, *told, f"{one['masked']:,}"])
    return table("Held-out sentences, the same masks each time.", head, rows)


def _settings(told: _Told) -> dict[str, object]:
    return {name: value for name, value in told.items() if name not in _ELSEWHERE}
