"""Held-out retrieval during training: over tokens for every pair, per layer at the last validation,
and the table."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crosslens.report.folders.training import Training, split_stream
from crosslens.report.parts.drawing import Axis, Line, series_panel, series_style, upper_limit
from crosslens.report.parts.heat import colour_bar, heat_panel, scale_ends
from crosslens.report.parts.layout import (
    Numbering,
    figure,
    flow,
    folded,
    legend,
    panel,
    section,
    table,
    value_cell,
)
from crosslens.report.parts.wording import (
    decimal,
    join,
    language,
    named,
    paragraph,
    plural,
    spread,
    tag,
    text,
)
from crosslens.report.sections.training_words import among, at, token_axis
from crosslens.score import Score
from crosslens.selection import Best, best_layer

__all__ = ["retrieval_findings", "retrieval_overview", "retrieval_section", "retrieval_sentence"]

_MOST = 30  # pairs that are drawn; more are in the table
_TITLE = "Held-out retrieval"


def _bests(run: Training) -> dict[str, Best]:
    """Each source's best layer at the last validation, for the sources that have one."""
    bests = {source: run.best(source) for source in run.sources()}
    return {source: best for source, best in bests.items() if best is not None}


def retrieval_findings(run: Training) -> list[str]:
    """Sentences on what came out, as HTML."""
    found = []
    bests = _bests(run)
    for source, best in bests.items():
        counts = [score.n or None for score in best.scores]
        lead = tag(
            "strong",
            (
                f"Held-out retrieval in {text(source)} is best at layer {best.layer}: P@1 "
                f"{decimal(best.mean)}"
            ),
        )
        over = (
            f"the mean of {plural(len(counts), 'pair')}, {spread(best.scores)}"
            if len(counts) > 1
            else "one pair"
        )
        known = [n for n in counts if n is not None]
        chance = f"; chance {decimal(float(np.mean([1 / n for n in known])))}" if known else ""
        found.append(
            f"{lead} {at(run.validations[-1])} ({over}; {among(counts)} held-out "
            f"pairs{' each' if len(counts) > 1 else ''}{chance})."
        )
    most = max((best.layers for best in bests.values()), default=0)
    if most > 1:
        found.append(
            f"{'Each of these layers' if len(bests) > 1 else 'This layer'} is the best of "
            f"{most}, chosen on the same held-out pairs: "
            "read its P@1 as slightly optimistic. "
            "There is no random control here; a study of the finished model (crosslens study) "
            "has one."
        )
    return found


def retrieval_section(run: Training, numbering: Numbering) -> str:
    """The whole section."""
    bests = _bests(run)
    if not bests:
        why = (
            "No validation has measured it yet."
            if not run.validations
            else "No validation of this run measured it."
        )
        return section(
            "retrieval",
            _TITLE,
            paragraph(why + " It needs parallel text in two or more languages."),
        )
    intro = (
        "For every held-out pair of sentences, the sentence of the second language whose "
        "vector is nearest to that of the first (cosine, "
        "mean of the ordinary tokens) is looked up among the held-out sentences of the same "
        "source and pair; P@1 is the fraction for which "
        "it is the translation. Nothing is aligned."
    )
    drawn = flow(
        _over_tokens(run, numbering, bests),
        _per_layer(run, numbering, bests),
        tag("div", paragraph(text(intro)), class_="text"),
    )
    return section("retrieval", _TITLE, drawn, folded("All numbers", _table(run, bests)))


def retrieval_sentence(run: Training) -> str:
    """One sentence on what came out, as HTML; empty where nothing was measured."""
    parts = []
    for source, best in _bests(run).items():
        n = among(score.n or None for score in best.scores)
        parts.append(
            f"{tag('strong', decimal(best.mean))} in {named(source)} (layer {best.layer}, {n})"
        )
    return (
        (
            f"Held-out translations are found first with P@1 "
            f"{join(parts, most=3, rest='more sources')}."
        )
        if parts
        else ""
    )


def _more(run: Training) -> str:
    """What is said where not all pairs are drawn."""
    pairs = len(run.pairs())
    return (
        f" The first {_MOST} of {pairs:,} pairs are drawn; the table has all."
        if pairs > _MOST
        else ""
    )


def _plain(value: float) -> Score:
    return Score(quantity="precision_at_1", value=value if math.isfinite(value) else math.nan, n=0)


def _called(run: Training, pair: str) -> str:
    return " – ".join(map(language, run.sides(pair) or (pair,)))


# ---------------------------------------------------------------- over tokens


def _series(run: Training, stream: str, layer: int) -> list[float]:
    """P@1 of a stream at one layer, validation by validation; NaN where there is none."""
    rows = [validation.retrieval.get(stream, []) for validation in run.validations]
    return [
        row[layer] if layer < len(row) and math.isfinite(row[layer]) else math.nan for row in rows
    ]


def retrieval_overview(run: Training, numbering: Numbering) -> str:
    """The mean over the pairs of each source, or the only pair, over tokens, for the top of the
    page; empty where there is none."""
    bests = _bests(run)
    panels, _ = _series_panels(run, numbering, bests, first=True) if bests else ([], 0.0)
    return "".join(panels)


def _series_panels(
    run: Training, numbering: Numbering, bests: dict[str, Best], *, first: bool
) -> tuple[list[str], float]:
    """P@1 over tokens, and where their axis ends: only the first panel (the mean over pairs, where
    there are several), or the others."""
    series = {
        (source, stream): _series(run, stream, best.layer)
        for source, best in bests.items()
        for stream in run.streams(source)
    }
    top = upper_limit(
        {i: _plain(value)} for values in series.values() for i, value in enumerate(values)
    )
    pairs = run.pairs()
    if first and len(pairs) > 1:
        wanted = [_mean_over_pairs(run, series, bests)]
    else:
        shown = pairs if first else pairs[:_MOST] if len(pairs) > 1 else []
        wanted = [_of_pair(run, series, pair, alone=first) for pair in shown]
    return [_series_panel(run, numbering, bests, one, top, first=first) for one in wanted], top


class _Drawn(NamedTuple):
    """What one panel draws: P@1 validation by validation, and numbers of held-out pairs, of each
    source."""

    title: str
    values: dict[str, list[float]]
    counts: dict[str, list[int | None]]
    spoken: str


def _mean_over_pairs(
    run: Training, series: dict[tuple[str, str], list[float]], bests: dict[str, Best]
) -> _Drawn:
    groups = {
        source: [values for (of, _), values in series.items() if of == source] for source in bests
    }
    means = {
        source: [math.fsum(column) / len(column) for column in zip(*group, strict=True)]
        for source, group in groups.items()
    }
    counts = {source: [run.held_out(stream) for stream in run.streams(source)] for source in bests}
    title = "Held-out retrieval, mean over pairs"
    return _Drawn(title, means, counts, "mean over the pairs of a source")


def _of_pair(
    run: Training, series: dict[tuple[str, str], list[float]], pair: str, *, alone: bool
) -> _Drawn:
    here = {
        source: values
        for (source, stream), values in series.items()
        if split_stream(stream)[1] == pair
    }
    counts = {source: [run.held_out(f"{source} {pair}")] for source in here}
    called = _called(run, pair)
    return _Drawn(f"Held-out retrieval, {called}" if alone else called, here, counts, called)


def _series_panel(
    run: Training,
    numbering: Numbering,
    bests: dict[str, Best],
    drawn: _Drawn,
    top: float,
    *,
    first: bool,
) -> str:
    unit, x_label = token_axis(run)
    places = [validation.tokens / unit for validation in run.validations]
    styles = {source: series_style(i) for i, source in enumerate(bests)}
    lines = [Line(places, values, styles[source]) for source, values in drawn.values.items()]
    ends = [
        f"{source} (layer {bests[source].layer}) {_ends(values)}"
        for source, values in drawn.values.items()
    ]
    label = (
        f"Held-out retrieval P@1 over tokens seen, {drawn.spoken}, first to last validation: "
        f"{'; '.join(ends)}"
    )
    axis = Axis("P@1 (fraction)", (-0.025 * top, 1.01 * top))
    picture = series_panel(numbering.panel(), label, lines, x_label, axis, narrow=not first)
    alone, counts = len(bests) == 1, drawn.counts
    entries = [(styles[source], f"{source}, layer {best.layer}") for source, best in bests.items()]
    return panel(
        drawn.title,
        among(n for some in counts.values() for n in some) if alone else "",
        picture,
        "" if alone else " · ".join(f"{of} {among(counts[of])}" for of in drawn.values),
        key=legend(entries, sticky=False) if first else "",
    )


def _over_tokens(run: Training, numbering: Numbering, bests: dict[str, Best]) -> str:
    panels, top = _series_panels(run, numbering, bests, first=False)
    if not panels:
        return ""
    styles = {source: series_style(i) for i, source in enumerate(bests)}
    entries = [
        (styles[source], f"{source}, layer {best.layer}, the best of {best.layers} at the end")
        for source, best in bests.items()
    ]
    reading = (
        "higher is better; each panel is one pair of languages and each line one source, at "
        "the layer where the mean over that source’s "
        f"pairs is highest at the last validation. {_wobble(bests)}All panels share one "
        f"vertical axis, up to {top:g}.{_more(run)}"
    )
    return figure(
        numbering,
        "Held-out retrieval over tokens seen.",
        reading,
        legend(entries),
        panels,
        size="narrow",
    )


def _wobble(bests: dict[str, Best]) -> str:
    """How far chance alone carries the lines, from the intervals at the last validation."""
    scores = [score for best in bests.values() for score in best.scores]
    widths = [
        (score.high - score.low) / 2
        for score in scores
        if score.low is not None and score.high is not None
    ]
    chances = [1 / score.n for score in scores if score.n]
    if not widths or not chances:
        return ""
    return (
        f"The line of one pair is uncertain by up to ±{max(widths):.2f} (95 %); chance is at most "
        f"{max(chances):.3f}. "
    )


def _ends(values: Sequence[float]) -> str:
    finite = [value for value in values if not math.isnan(value)]
    return f"{decimal(finite[0], 2)} to {decimal(finite[-1], 2)}" if finite else "not measured"


# ---------------------------------------------------------------- per layer


def _per_layer(run: Training, numbering: Numbering, bests: dict[str, Best]) -> str:
    last = run.validations[-1]
    curves = {
        source: {s: run.curve(last, s) for s in run.streams(source) if last.retrieval.get(s)}
        for source in bests
    }
    scale = scale_ends(
        s.value for group in curves.values() for curve in group.values() for s in curve.values()
    )
    panels = []
    for source, group in curves.items():
        shown = list(group)[:_MOST]
        layers = max(len(group[stream]) for stream in shown)
        cells = np.array(
            [
                [group[stream][k].value if k in group[stream] else math.nan for k in range(layers)]
                for stream in shown
            ]
        )
        cells[~np.isfinite(cells)] = math.nan
        pairs = [split_stream(stream)[1] for stream in shown]
        n = among(run.held_out(stream) for stream in shown)
        told = [
            (
                f"{_called(run, pair)} "
                f"{' '.join('not a number' if math.isnan(v) else decimal(v, 2) for v in row)}"
            )
            for pair, row in zip(pairs, cells, strict=True)
        ]
        label = (
            f"Held-out retrieval P@1 per layer {at(last)}, {source}, {n}, layers 0 to "
            f"{layers - 1}: {'; '.join(told)}"
        )
        names = [_called(run, pair) for pair in pairs], [str(layer) for layer in range(layers)]
        axes = ("pair", "layer (0 = embeddings)")
        picture = heat_panel(
            numbering.panel(), label, cells, names, axes, rows_high=24.0, ends=scale
        )
        panels.append(panel(source, n, picture))
    reading = (
        "a row is a pair of languages, a column a layer; darker means that more translations "
        "are found. Layer 0 knows no context: "
        f"what it finds, it finds by single subwords. A dash on grey marks a value that was not "
        f"measured.{_more(run)}"
    )
    bar = tag(
        "div",
        colour_bar(numbering.panel(), "P@1, fraction of pairs (same scale in all panels)", scale),
        class_="legend",
    )
    return figure(
        numbering, f"Retrieval per layer {at(last)}, the last validation.", reading, bar, panels
    )


# ---------------------------------------------------------------- table


def _table(run: Training, bests: dict[str, Best]) -> str:
    first, last = run.validations[0], run.validations[-1]
    rows = []
    for source, best in bests.items():
        for stream in run.streams(source):
            n, curve = run.held_out(stream), run.curve(last, stream)
            before = run.curve(first, stream).get(best.layer)
            own = best_layer([curve])
            rows.append(
                [
                    text(f"{source} {_called(run, split_stream(stream)[1])}"),
                    "–" if n is None else f"{n:,} ({decimal(1 / n)})",
                    str(best.layer),
                    value_cell(before),
                    value_cell(curve.get(best.layer)),
                    "–"
                    if own is None
                    else f"{decimal(own.mean)} {tag('span', f'layer {own.layer}', class_='quiet')}",
                ]
            )
    quiet = {
        name: tag("span", at(validation), class_="quiet")
        for name, validation in (("First", first), ("Last", last))
    }
    head = [
        "Source and pair",
        "n, pairs (chance)",
        "Layer",
        *(f"{name}<br>{words}" for name, words in quiet.items()),
        "Pair’s own best layer",
    ]
    caption = (
        "Held-out retrieval P@1 with 95 % intervals, at the layer that is best for its source at "
        "the last validation."
    )
    return table(caption, head, rows)
