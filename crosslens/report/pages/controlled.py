"""The page of a controlled study: how far each condition brought two languages together, and which of
the paper's orders are found."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from crosslens.readers.published import PAPERS
from crosslens.report.folders.controlled import (
    StudyFolder,
    load_study,
    printed,
    printed_what,
)
from crosslens.report.folders.controlled_findings import (
    JUDGED,
    Findings,
    findings,
)
from crosslens.report.folders.controlled_kept_order import (
    KeptOrder,
    kept_order,
)
from crosslens.report.folders.controlled_sentences import (
    MANY,
    anchors_told,
    cut_told,
    few_trainings_told,
    intervals_told,
)
from crosslens.report.folders.controlled_similarity import (
    curves_by_pair,
    has_two_models,
    over_layers_told,
    similarity_told,
)
from crosslens.report.folders.log import as_number, as_table
from crosslens.report.parts.columns import filled_columns
from crosslens.report.parts.drawing import (
    Axis,
    Line,
    Style,
    curve_panel,
    line_of,
    plain_style,
    series_panel,
    series_style,
    upper_limit,
)
from crosslens.report.parts.layout import (
    Numbering,
    document,
    figure,
    files_table,
    headline,
    legend,
    panel,
    section,
    settings_table,
    table,
    value_cell,
)
from crosslens.report.parts.scatter import scatter_panel
from crosslens.report.parts.wording import (
    decimal,
    estimate,
    join,
    named,
    number,
    paragraph,
    short_names,
    tag,
    text,
    with_minus,
)
from crosslens.report.sections.controlled_similarity import (
    similarity_figure,
    similarity_section,
    similarity_told_of,
)
from crosslens.score import Score

__all__ = ["controlled_page"]

_SENTENCES, _SUBWORDS, _CKA = "precision_at_1", "token_alignment", "debiased_linear_cka"
_UNTRAINED = Style("#8a9097", dash="dotted", width=1.3)
_ALIKE = 0.05  # curves of untrained encoders that differ by less everywhere are drawn as one


def controlled_page(folder: str | Path) -> str:
    """The report of a controlled study, finished or not.

    Raises
    ------
    StoreError: the folder holds no such study, nothing of it is measured yet, or one of its files is
        damaged.
    """
    folder, numbering = Path(folder), Numbering()
    study = load_study(folder)
    styles = {
        name: dataclasses.replace(series_style(place), band=True)
        for place, name in enumerate(dict.fromkeys([*study.names, *study.learning]))
    }
    found = findings(study)
    ladder = kept_order(study)
    pairs = curves_by_pair(study) if has_two_models(study) else {}
    with plain_style():
        parts = [
            headline(
                study.title,
                similarity_figure(study, pairs, numbering)
                if pairs
                else _lead(study, styles, numbering)
                if ladder is None
                else _by_kept_order(ladder, numbering),
                [text(found.control), *similarity_told_of(study, pairs)]
                if pairs
                else _told(study, found, ladder),
                _facts(study),
                _notes(folder, study),
                [],
                "Nothing was measured in this run.",
            ),
            similarity_section(study, pairs) if pairs else "",
            section("conditions", "Condition by condition", _conditions(study)),
            _layers(study, styles, numbering) if ladder is None else "",
            _found(found, study.told["paper"]) if found.rows else "",
            section(
                "provenance",
                "How it was made",
                *_recipes(study),
                settings_table("Versions.", as_table(study.config.get("versions"))),
                files_table(folder),
            ),
        ]
    return document(study.title, parts)


def _lead(study: StudyFolder, styles: Mapping[str, Style], numbering: Numbering) -> str:
    """Alignment of subwords over tokens, where there is such a thing, and sentences by layer."""
    panels = []
    if study.learning:
        lines = []
        for name, one in study.learning.items():
            curve, style = one.curve(), styles[name]
            ends = [list(side) for side in zip(*curve.values(), strict=True)] or [[], [], []]
            if 1 < len(one.seeds) < MANY:  # each says more than an interval of a few
                thin = dataclasses.replace(style, width=0.7, marker="", band=False)
                for seed in one.seeds.values():
                    places = sorted(seed)
                    lines.append(Line([t / 1e6 for t in places], [seed[t] for t in places], thin))
                style = dataclasses.replace(style, band=False)
            lines.append(Line([t / 1e6 for t in curve], ends[0], style, ends[1], ends[2]))
        picture = series_panel(
            numbering.panel(),
            "P@1 of subwords over tokens: " + ", ".join(study.learning),
            lines,
            "million tokens, both languages together",
            Axis("P@1 of subwords", (0.0, 1.0)),
            level=0.5,
        )
        panels.append(panel("Subwords, while the encoders were trained", "", picture))
    curves = {name: study.curve(name, _SENTENCES, "unaligned") for name in study.names}
    drawn = [line_of(curve, styles[name]) for name, curve in curves.items()]
    if study.compares_gains:  # words in common alone find some
        for name in study.names:
            dotted = dataclasses.replace(
                styles[name], dash="dotted", width=1.3, marker="", band=False
            )
            drawn.append(line_of(study.curve(name, _SENTENCES, "random_encoder"), dotted))
    picture = curve_panel(
        numbering.panel(),
        "P@1 of sentences by layer: " + ", ".join(curves),
        drawn,
        (0.0, upper_limit(curves.values())),
        "P@1 of sentences",
    )
    panels.append(panel("Sentences, when they were trained", "", picture))
    dots = "dotted lines are the untrained encoders" if study.compares_gains else ""
    over = (
        f"over tokens thin lines are single trainings (of {MANY} and more there is a band); "
        "the dotted line is .5, which the positive control must reach"
    )
    return figure(
        numbering,
        "How near two languages came to each other, by condition.",
        f"means over seeds, bands are 95 % {intervals_told(study)}; {dots or over}",
        legend([(style, name) for name, style in styles.items()], sticky=False),
        panels,
    )


_Orders = list[tuple[str, ...]]


def _verdicts(orders: _Orders) -> dict[str, dict[str, list[str]]]:
    """Measure -> found, open or reversed -> the orders of which it says so."""
    told: dict[str, dict[str, list[str]]] = {}
    for row in orders[1:]:
        for measure, word in zip(orders[0][1::2], row[2::2], strict=True):
            if word != "-":
                told.setdefault(measure, {}).setdefault(word, []).append(row[0])
    return told


def _counted(orders: _Orders) -> str:
    """How many orders are found, open and reversed, by each measure."""
    return "; ".join(
        f"by {measure} " + ", ".join(f"{len(names)} {word}" for word, names in groups.items())
        for measure, groups in _verdicts(orders).items()
    )


def _by_kept_order(ladder: KeptOrder, numbering: Numbering) -> str:
    """Alignment against how much of the order is kept, a point for each condition."""
    horizontal = Axis("neighbours kept", (0.0, 1.0))
    alignment = Axis("P@1 of subwords", (0.0, 1.0))
    panels, called = [], short_names([*ladder.kept, *ladder.contexts, *ladder.onsets])
    near = "Alignment and how much of the contexts is kept"
    for title, what, kept, found in (
        (
            "Alignment and how much of the order is kept",
            "neighbours kept",
            ladder.kept,
            ladder.aligned,
        ),
        (near, "contexts kept", ladder.contexts, ladder.aligned),
        (f"{near}, after a map", "contexts kept", ladder.contexts, ladder.mapped),
    ):
        points = {
            called[name]: (share, found[name]) for name, share in kept.items() if name in found
        }
        if points:
            axes = Axis(what, (0.0, 1.0)), alignment
            picture = scatter_panel(numbering.panel(), f"P@1 of subwords over {what}", points, axes)
            panels.append(panel(title, "", picture))
    when = {
        called[name]: (ladder.kept[name], tokens / 1e6)
        for name, tokens in ladder.onsets.items()
        if math.isfinite(tokens)
    }
    if when:
        axis = Axis("million tokens until P@1 is .5")
        drawn = scatter_panel(
            numbering.panel(), "Tokens until .5 over neighbours kept", when, (horizontal, axis)
        )
        missing = sum(map(math.isinf, ladder.onsets.values()))
        panels.append(panel("When half of the subwords were found", f"{missing} never", drawn))
    return figure(
        numbering,
        "How near two languages came to each other, by how much of the order is kept.",
        "each point is a condition, the mean over its seeds (of tokens: the median over those whose "
        "training is over); neighbours and "
        "contexts kept are numbers of the text and the transformation, known before anything was trained",
        "",
        panels,
    )


def _told(study: StudyFolder, found: Findings, ladder: KeptOrder | None) -> list[str]:
    """Three sentences as HTML: the control, the orders, and the tokens that alignment took."""
    told = [text(one) for one in (found.control, *anchors_told(study)) if one]
    if found.rows:
        paper, said = PAPERS[study.told["paper"]], _counted(found.rows) or "none can be told yet"
        told.append(text(f"Of the orders that {paper} found: {said}."))
    if ladder is not None:
        told.append(text(with_minus(ladder.told())))
    elif study.learning:
        reached = [f"{name} {one.reached()}" for name, one in study.learning.items()]
        told.append(text(f"Tokens until half of the subwords are found: {'; '.join(reached)}."))
    return told


def _facts(study: StudyFolder) -> dict[str, str]:
    settings = as_table(study.config.get("settings"))
    recipes = [*study.recipes.values()]
    shape = as_table(recipes[0].get("encoder")) if recipes else {}
    subwords = {as_table(one.get("vocabulary")).get("size", "?") for one in recipes}
    tokens = {as_number(one.get("steps")) * as_number(one.get("batch_tokens")) for one in recipes}
    return {
        "Study": named(study.told["name"]),
        "After": text(PAPERS[study.told["paper"]]),
        "Conditions": join([named(name) for name in study.told["published"]]),
        "Seeds of each": text(settings.get("seeds", "not recorded")),
        "Encoder": text(
            f"{shape.get('layers', '?')} layers of {shape.get('hidden_size', '?')}, "
            f"{' or '.join(map(str, sorted(subwords, key=str)))} subwords"
        ),
        "Tokens of each training": join(
            ["not recorded" if math.isnan(one) else f"{one / 1e6:.1f} M" for one in sorted(tokens)]
        ),
    }


def _notes(folder: Path, study: StudyFolder) -> list[str]:
    if (folder / "scores.jsonl").is_file():
        return []
    return [
        "This study is not finished. What stands here is of the trainings that are, and its intervals "
        "will change."
    ]


def _conditions(study: StudyFolder) -> str:
    head, *rows = _columns(study)
    told = [
        _columns_told(study),
        cut_told(study.scores),
        few_trainings_told(study.all_trainings, subwords=not study.compares_gains),
    ]
    return table(" ".join(filter(None, told)), head, rows)


def _columns(study: StudyFolder) -> list[list[str]]:
    """The table of the conditions with its head: the columns of which one condition at least has
    something."""
    paper, names = study.told["paper"], study.names
    direct = {name: study.mean(name, _SUBWORDS, "unaligned") for name in names}
    frequency = {n: None if one is None else one.evidence.by_frequency for n, one in direct.items()}
    learning, layers = study.learning, study.layers

    def mean(quantity: str, digits: int = 3) -> list[str]:
        return [text(number(study.mean(name, quantity, None), digits)) for name in names]

    columns = {
        "Condition": [named(name) for name in names],
        "Seeds": [str(study.trainings(name)) for name in names],
        "Neighbours kept": mean("neighbours_kept", 2),
        "Contexts kept": mean("contexts_kept", 2),
        "P@1 of subwords": [value_cell(direct[name]) for name in names],
        "after a map": [value_cell(study.mean(name, _SUBWORDS, "procrustes")) for name in names],
        "by frequency alone": ["–" if one is None else decimal(one) for one in frequency.values()],
        "tokens until .5": [
            text(learning[name].reached()) if name in learning else "–" for name in names
        ],
        "P@1 of sentences": [value_cell(study.sentences(name)) for name in names],
        "layer": ["–" if (best := layers[name]) is None else str(best.layer) for name in names],
        "untrained": [text(number(study.sentences(name, "random_encoder"))) for name in names],
        "CKA there": [text(number(study.cka(name), 2)) for name in names],
        "Subwords in common": mean("subword_overlap_types"),
        "of all that occur": mean("subword_overlap_tokens"),
        f"{PAPERS[paper]}: {printed_what(study)}": [
            "–" if (one := printed(study, name)) == "-" else text(with_minus(one)) for name in names
        ],
    }
    rows = [*zip(*columns.values(), strict=True)]
    return [*map(list, filled_columns(tuple(columns), rows, "–"))]


def _columns_told(study: StudyFolder) -> str:
    """What the columns of the conditions are."""
    has = {score.quantity for score in study.scores}
    order = (
        "Neighbours kept: the share of neighbouring subwords that stay neighbours in the same order; "
        "contexts kept: of pairs of subwords at most 5 places apart, the share that stay so in any order. "
    )
    shared = (
        "Subwords in common: the share of the second language's different subwords, and of all that "
        "occur, that the first one's text has as well"
        f"{'' if study.compares_gains else ', before any get ids of their own'}. "
    )
    return (
        f"Means over seeds; brackets are 95 % {intervals_told(study)}. "
        f"{order if 'neighbours_kept' in has else ''}"
        "The layer is chosen on one half of the kept sentences and shown on the other; untrained: P@1 of "
        "sentences of the encoder before training, at its best layer. "
        f"{shared if 'subword_overlap_types' in has else ''}"
    ).rstrip()


def _layers(study: StudyFolder, styles: Mapping[str, Style], numbering: Numbering) -> str:
    """Retrieval after a map, and CKA, by layer, beside the untrained encoder."""
    panels = []
    for title, quantity, condition, control in (
        ("Sentences after a map", _SENTENCES, "procrustes", "random_encoder_procrustes"),
        ("CKA", _CKA, None, "random_encoder"),
    ):
        curves = {name: study.curve(name, quantity, condition) for name in study.names}
        curves = {name: curve for name, curve in curves.items() if curve}
        if not curves:
            continue
        untrained = _different(study.curve(name, quantity, control) for name in curves)
        lines = [line_of(curve, _UNTRAINED) for curve in untrained]
        lines += [line_of(curve, styles[name]) for name, curve in curves.items()]
        limits = (0.0, upper_limit([*curves.values(), *untrained]))
        label = "P@1 of sentences" if quantity == _SENTENCES else "debiased linear CKA"
        picture = curve_panel(numbering.panel(), f"{title} by layer", lines, limits, label)
        panels.append(panel(title, "", picture))
    if not panels:
        return ""
    entries = [(styles[name], name) for name in study.names]
    key = legend([*entries, (_UNTRAINED, "untrained")], sticky=False)
    reading = f"means over seeds, bands are 95 % {intervals_told(study)}"
    drawn = figure(numbering, "Layer by layer.", reading, key, panels)
    told = "; ".join(
        f"{named(name)} {text(estimate(study.sentences(name)))}"
        for name, best in study.layers.items()
        if best is not None
    )
    further = [
        paragraph(text(with_minus(one)))
        for one in (*similarity_told(study), *over_layers_told(study))
    ]
    about = paragraph(f"P@1 without a map: {told}.")
    return section("layers", "Layer by layer", drawn, about, *further)


def _different(curves: Iterable[Mapping[int, Score]]) -> list[Mapping[int, Score]]:
    """Those that are not, to the eye, one that was there before: conditions whose languages have the
    same ids have another untrained encoder than those that do not."""
    found: list[Mapping[int, Score]] = []
    for curve in curves:
        if curve and not any(
            curve.keys() == one.keys()
            and all(abs(curve[layer].value - one[layer].value) < _ALIKE for layer in curve)
            for one in found
        ):
            found.append(curve)
    return found


def _found(found: Findings, paper: str) -> str:
    """The section on the orders of a paper, by its key."""
    ours = (
        "subwords after a map, and sentences, are our own measures"
        if paper == "deshpande"
        else f"the measures are ours: {PAPERS[paper]} measure transfer"
    )
    over = (
        " Intervals of subwords are over seeds (Welch), of sentences over seeds and sentences. "
        f"{ours[0].upper()}{ours[1:]}."
        if _verdicts(found.rows)
        else ""
    )
    reading = (
        "Found: the 95 % interval of the difference lies above 0; reversed: below 0; open: it holds "
        f"0. {JUDGED}{over} {found.compared}"
    ).rstrip()
    return section(
        "orders",
        "What the paper found, and what is found here",
        _orders_table(found.rows),
        paragraph(reading),
        told=_counted(found.rows),
    )


def _orders_table(orders: _Orders) -> str:
    called = orders[0][0]
    head = [f"{called[0].upper()}{called[1:]}"]
    head += [cell for what in orders[0][1::2] for cell in (f"{what.capitalize()}: difference", "")]
    rows = [[_cell(cell) for cell in row] for row in orders[1:]]
    return table("Differences of means with 95 % intervals.", head, rows)


def _cell(cell: str) -> str:
    if cell == "-":
        return "–"
    return text(with_minus(cell))


def _recipes(study: StudyFolder) -> list[str]:
    """The settings that all conditions have, and those in which each differs."""
    recipes = study.recipes
    first = next(iter(recipes.values()), {})
    common = {
        key: value
        for key, value in first.items()
        if all(one.get(key) == value for one in recipes.values())
    }
    parts = [
        settings_table(
            "Settings of all conditions; the seed is that of the first training.", common
        )
    ]
    for name, recipe in recipes.items():
        own = {key: value for key, value in recipe.items() if key not in common}
        if own:
            parts.append(settings_table(f"Settings of {name}.", own))
    return [tag("div", part) for part in parts]
