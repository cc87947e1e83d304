"""The page of a run of mapped transfer: what a head reads of another encoder at each layer, without
a map and with one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosslens.report.folders.finished import finished_run
from crosslens.report.parts.drawing import Style, curve_panel, line_of, plain_style, upper_limit
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
from crosslens.report.parts.wording import estimate, language, named, tag, text
from crosslens.score import QUANTITIES, Score, headline_quantities, is_headline
from crosslens.selection import choose

__all__ = ["mapped_transfer_page"]

_OWN, _UNMAPPED, _MAPPED, _GAIN = None, "unaligned", "procrustes", "procrustes_less_unaligned"
_STYLES = {
    _OWN: Style("#8a9097", marker="x", width=1.3, band=True),
    _UNMAPPED: Style("#0072b2", marker="o", band=True),
    _MAPPED: Style("#d55e00", marker="s", band=True),
}
_Curves = Mapping[str | None, Mapping[int, Score]]


def mapped_transfer_page(folder: str | Path) -> str:
    """The report of a run of mapped transfer.

    Raises
    ------
    InputError: the folder holds no finished one.
    StoreError: one of its files is damaged.
    """
    folder = Path(folder)
    (config, scores), numbering = (
        finished_run(folder, "mapped_transfer", "mapped-transfer"),
        Numbering(),
    )
    main = headline_quantities(scores)
    ((task, (quantity, counted_as)),) = main.items()
    of_task = [
        s for s in scores if s.evidence.part == "test" and is_headline(s, main, differences=True)
    ]
    curves: dict[str | None, dict[int, Score]] = {}
    for score in of_task:
        if score.layer is not None:
            curves.setdefault(score.condition, {})[score.layer] = score
    majority = {s.target: s for s in of_task if s.condition == "majority"}
    own = next(iter(curves[_OWN].values()))
    target = str(next(iter(curves[_MAPPED].values())).target)
    title = (
        f"{_title(config, task)} through a map, {language(str(own.target))} to {language(target)}"
    )
    with plain_style():
        parts = [
            headline(
                title,
                _figure(
                    curves, majority.get(target), quantity, (str(own.target), target), numbering
                ),
                _findings(curves, target),
                _facts(config),
                ["The layer was not chosen beforehand: the best of many is somewhat too good."],
                [],
                "Nothing was measured in this run.",
            ),
            section(
                "layers",
                "Layer by layer",
                _table(curves, majority, (str(own.target), target)),
                told=QUANTITIES[quantity].label
                + (f", as {counted_as} counts" if counted_as else ""),
            ),
            _provenance(folder, config, task),
        ]
    return document(title, parts)


def _part(config: Mapping[str, Any], *names: str) -> dict[str, Any]:
    found: Any = config
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _title(config: Mapping[str, Any], task: str) -> str:
    return str(_part(config, "cards", task).get("title") or task)


def _figure(
    curves: _Curves,
    majority: Score | None,
    quantity: str,
    languages: tuple[str, str],
    numbering: Numbering,
) -> str:
    names = {
        _OWN: f"{language(languages[0])}, source encoder",
        _UNMAPPED: f"{language(languages[1])}, no map",
        _MAPPED: f"{language(languages[1])}, mapped",
    }
    there = [way for way in _STYLES if way in curves]
    label = QUANTITIES[quantity].label
    picture = curve_panel(
        numbering.panel(),
        f"{label} by layer: " + ", ".join(names[way] for way in there),
        [line_of(curves[way], _STYLES[way]) for way in there],
        (0.0, upper_limit(curves.values())),
        label,
        level=None if majority is None else majority.value,
    )
    key = legend([(_STYLES[way], names[way]) for way in there], sticky=False)
    reading = "means over seeds, bands are 95 % intervals over seeds and items" + (
        "" if majority is None else "; the dotted line is the most frequent label"
    )
    title = "What a head that was trained on one encoder reads of another."
    return figure(numbering, title, reading, "", [panel("", "", picture, key=key)])


def _findings(curves: _Curves, target: str) -> list[str]:
    """At which layer the map serves best, and where it does not, as HTML."""
    mapped = {n: s for n, s in curves[_MAPPED].items() if s.value == s.value}
    if not mapped:
        return []
    chosen = choose(mapped, lambda n: mapped[n].value, layer=int)
    assert chosen is not None  # of some that are numbers
    best = chosen.item
    told = [
        f"{tag('strong', 'Through the map')}: {estimate(mapped[best])} in {text(language(target))} at "
        f"layer {best}, the best of {len(mapped)}; without it {_at(curves, _UNMAPPED, best)}, and "
        f"{_at(curves, _OWN, best)} in the language of training."
    ]
    gains = curves.get(_GAIN, {})
    better = [n for n, s in sorted(gains.items()) if s.low is not None and s.low > 0]
    worse = [n for n, s in sorted(gains.items()) if s.high is not None and s.high < 0]
    for layers, words in ((better, "better with the map"), (worse, "worse with the map")):
        if layers:
            told.append(f"Clearly {words} at layers {', '.join(map(str, layers))}.")
    return told


def _at(curves: _Curves, condition: str | None, layer: int) -> str:
    score = curves.get(condition, {}).get(layer)
    return "not measured" if score is None else estimate(score)


def _facts(config: Mapping[str, Any]) -> dict[str, str]:
    asked = _part(config, "asked")
    return {
        "Source encoder": named(str(asked.get("encoder", "not recorded"))),
        "Target encoder": named(str(asked.get("target_encoder", "not recorded"))),
        "Trained on": text(asked.get("train", "not recorded")),
        "Seeds": text(_part(config, "settings").get("seeds", "not recorded")),
        "The map": "iterative normalisation of linked words of parallel sentences, and orthogonal "
        "Procrustes (Conneau et al. 2020, § 5.1.2)",
    }


def _table(
    curves: _Curves, majority: Mapping[str | None, Score], languages: tuple[str, str]
) -> str:
    head = ["Layer", f"{language(languages[0])}, source encoder"]
    head += [f"{language(languages[1])}, {way}" for way in ("no map", "mapped")]
    head += ["What the map is worth", "Pairs of words"]
    rows = []
    for layer in sorted(curves[_MAPPED]):
        found = [curves.get(way, {}).get(layer) for way in (*_STYLES, _GAIN)]
        pairs = curves[_MAPPED][layer].evidence.fitted_on
        cells = [value_cell(one) for one in found]
        rows.append([str(layer), *cells, "–" if pairs is None else f"{pairs:,}"])
    beside = [value_cell(majority.get(one)) for one in languages]
    if any(one != "–" for one in beside):
        rows.append(["most frequent label", beside[0], beside[1], "–", "–", "–"])
    return table("Means over seeds with 95 % intervals over seeds and items.", head, rows)


def _provenance(folder: Path, config: Mapping[str, Any], task: str) -> str:
    sources = _part(config, "sources", task)
    values = {
        name: f"{value} ({sources.get(name, 'not recorded')})"
        for name, value in _part(config, "settings", "values", task).items()
    }
    return section(
        "provenance",
        "How it was made",
        settings_table("Settings of the training.", values),
        settings_table("Settings.", _part(config, "settings")),
        settings_table("Data.", _part(config, "data", "tasks", task)),
        settings_table("Versions.", _part(config, "versions")),
        files_table(folder),
    )
