"""Curves of CKA by layer of a controlled study whose models are compared, and what goes with them."""

from collections.abc import Mapping

from crosslens.report.folders.controlled import StudyFolder
from crosslens.report.folders.controlled_similarity import (
    CKA,
    Curve,
    average_differences,
    layer_correlations,
    shown,
)
from crosslens.report.parts.drawing import (
    Style,
    curve_panel,
    line_of,
    series_style,
    upper_limit,
)
from crosslens.report.parts.layout import Numbering, figure, legend, panel, section, table
from crosslens.report.parts.wording import (
    language,
    named,
    number,
    paragraph,
    text,
    with_minus,
)

__all__ = ["curve_styles", "similarity_figure", "similarity_section", "similarity_told_of"]

_PRINTED = "linear_cka"


def curve_styles(pairs: Mapping[str, list[Curve]]) -> dict[str, Style]:
    """Name of a curve -> its look; untrained encoders are grey."""
    names = [curve for curves in pairs.values() for curve in curves]
    styles = {one.name: series_style(place) for place, one in enumerate(names)}
    grey = {one.name: Style("#8a9097", "dotted", width=1.5) for one in names if one.is_random}
    looks = {**styles, **grey}
    return {
        name: Style(look.colour, look.dash, look.marker, look.width, look.hollow, band=True)
        for name, look in looks.items()
    }


def similarity_figure(
    study: StudyFolder, pairs: Mapping[str, list[Curve]], numbering: Numbering
) -> str:
    """A panel for each pair of texts, with the curves that stand side by side in it."""
    styles = curve_styles(pairs)
    drawn = {one.name: one.layers(study, _PRINTED) for curves in pairs.values() for one in curves}
    limits = (0.0, upper_limit(drawn.values()))
    panels = []
    for target, curves in pairs.items():
        told = "; ".join(f"{one.name} {one.average(study, _PRINTED)[0]:.2f}" for one in curves)
        picture = curve_panel(
            numbering.panel(),
            f"{CKA[_PRINTED]} by layer, {target}: {told}",
            [line_of(drawn[one.name], styles[one.name]) for one in reversed(curves)],
            limits,
            CKA[_PRINTED],
        )
        panels.append(panel(_texts(target), "", picture))
    return figure(
        numbering,
        "How alike the representations of two texts are, by layer.",
        "the first text is English, the second stands above each panel; means over seeds, bands are "
        "95 % intervals (of one seed: of the sentences, where there are any). Linear CKA grows where "
        "sentences are few beside dimensions; the debiased one is below",
        legend([(style, name) for name, style in styles.items()], sticky=False),
        panels,
    )


def similarity_told_of(study: StudyFolder, pairs: Mapping[str, list[Curve]]) -> list[str]:
    """What the averages are, and how many of their differences are clear, as HTML."""
    told = [
        f"{text(_texts(target))}: "
        + ", ".join(
            f"{named(one.name)} {text(shown(one.average(study, _PRINTED), 2))}" for one in curves
        )
        for target, curves in pairs.items()
    ]
    found: dict[str, int] = {}
    for row in average_differences(study):
        found[row[2]] = found.get(row[2], 0) + 1
    said = [f"Linear CKA, the average over layers: {'; '.join(told)}."]
    if found:
        counted = ", ".join(f"{count} {word}" for word, count in found.items())
        said.append(f"Of the differences between these averages {counted}.")
    return said


def _texts(target: str) -> str:
    """What a panel compares; a second English is a paraphrase."""
    return "English and " + ("its paraphrase" if target.startswith("eng-") else language(target))


def similarity_section(study: StudyFolder, pairs: Mapping[str, list[Curve]]) -> str:
    """The averages over layers, how they go with retrieval, and their differences."""
    last = max(
        (
            layer
            for curves in pairs.values()
            for one in curves
            for layer in one.layers(study, _PRINTED)
        ),
        default=0,
    )
    head = ["Encoders", "L0", f"L{last}", "average", "debiased: average"]
    head += ["r with P@1 over layers", "r with P@1 after a map"]
    rows = []
    for curves in pairs.values():
        for one in curves:
            layers = one.layers(study, _PRINTED)
            with_hits = {} if one.is_random else layer_correlations(study, one.condition)
            rows.append(
                [
                    named(one.name),
                    *(text(number(layers.get(at))) for at in (0, last)),
                    *(text(shown(one.average(study, quantity))) for quantity in CKA),
                    *(
                        text(shown(with_hits[key][:3], 2)) if key in with_hits else "–"
                        for key in ("unaligned", "procrustes")
                    ),
                ]
            )
    caption = (
        "CKA of English with the second text, means over seeds with 95 % intervals over seeds. r: "
        "Pearson's correlation of debiased CKA with P@1 of held-out sentences over layers, of each "
        "seed, and the mean of these."
    )
    orders = [
        [text(row[0]), text(with_minus(row[1])), row[2]] for row in average_differences(study)
    ]
    compared = sum(row[1] != "-" for row in orders)
    about = (
        "Differences of debiased CKA, the averages over layers, with 95 % intervals over seeds (Welch). "
        f"{compared} comparisons, each with an interval of its own. The paper draws its curves and "
        "prints no numbers."
    )
    return section(
        "similarity",
        "CKA of models",
        table(caption, head, rows),
        table(about, ["Averages", "Difference", ""], orders) if orders else "",
        paragraph(
            "An untrained encoder reads the second text alone; English is read by its trained one."
        ),
    )
