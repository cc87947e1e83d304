"""What may predict the transfer of a task: pictures of its scores over each number, how closely they
go together, and the numbers of each language."""

import math
from collections.abc import Mapping

from crosslens.report.folders.transfer import System, Transfer, called
from crosslens.report.parts.drawing import Axis
from crosslens.report.parts.layout import Numbering, figure, panel, table, value_cell
from crosslens.report.parts.scatter import scatter_panel
from crosslens.report.parts.wording import decimal, language, plural, text, within
from crosslens.score import QUANTITIES, Score

__all__ = ["correlation_table", "predictor_figure", "predictor_table"]

_FEWEST = 5  # languages of a picture


def predictor_figure(run: Transfer, task: str, numbering: Numbering) -> str:
    """The scores of the first system over each number, a point for each language; empty where there
    are fewer than five."""
    panels = []
    score = QUANTITIES[run.main[task][0]].label
    for name, found in run.correlations(task, run.systems()[0], "pearson").items():
        points = {code: both for code, both in (found.evidence.points or {}).items() if both}
        if len(points) >= _FEWEST:
            what = QUANTITIES[name].label
            told = f"r = {_round(found)}, {plural(len(points), 'language')}"
            label = f"{score} over {within(what)}, {told}"
            picture = scatter_panel(numbering.panel(), label, points, (Axis(what), Axis(score)))
            panels.append(panel(what, told, picture))
    reading = (
        "each point is a language that is not trained on, with its code (ISO 639-3) where there is "
        "room; r is Pearson’s correlation. Related languages are not independent, so intervals are "
        "rather too narrow, and p is that of one correlation, however many there are"
    )
    return figure(numbering, "What goes with transfer.", reading, "", panels) if panels else ""


def correlation_table(run: Transfer, task: str) -> str:
    """Both correlations of each number and system, where there are five languages or more."""
    systems, rows = run.systems(), []
    for system in systems:
        ranks = run.correlations(task, system, "spearman")
        for name, found in run.correlations(task, system, "pearson").items():
            if found.n >= _FEWEST and name in ranks:
                cells = [cell for s in (found, ranks[name]) for cell in (value_cell(s), _p(s))]
                what = QUANTITIES[name].label + _of(system, systems)
                rows.append([text(what), *cells, f"{found.n:,}"])
    if not rows:
        return ""
    caption = "Correlations over languages that are not trained on, with 95 % intervals."
    head = ["Of the score with", "Pearson", "p", "Spearman", "p (Spearman)", "Languages"]
    return table(caption, head, rows)


def predictor_table(run: Transfer, task: str) -> str:
    """The numbers, language by language."""
    found: dict[tuple[str, str], dict[str, Score]] = {}
    for score in run.predictors(task):
        found.setdefault((str(score.target), score.encoder or ""), {})[score.quantity] = score
    encoders = list(dict.fromkeys(encoder for _, encoder in found if encoder))
    names = list(dict.fromkeys(name for values in found.values() for name in values))
    rows = []
    for target, encoder in (key for key in found if key[1]):
        values: Mapping[str, Score] = {**found.get((target, ""), {}), **found[target, encoder]}
        where = language(target) + (f", {encoder}" if len(encoders) > 1 else "")
        rows.append([text(where), *(value_cell(values.get(name)) for name in names)])
    caption = "Subwords of the test text that the training text has, and word order."
    head = ["Tested in", *(QUANTITIES[name].label for name in names)]
    return table(caption, head, rows) if rows else ""


def _of(system: System, systems: list[System]) -> str:
    return f", {called(system, systems)}" if len(systems) > 1 else ""


def _round(score: Score) -> str:
    return "not computed" if math.isnan(score.value) else decimal(score.value, 2)


def _p(score: Score) -> str:
    p = score.evidence.p
    return "–" if p is None else "&lt; .001" if p < 0.001 else decimal(p, 3)
