"""What papers print for a task that encoders are probed by, to stand beside one's own."""

from collections.abc import Collection, Mapping

from crosslens.readers.published import PAPERS, Published, published
from crosslens.report.parts.layout import table
from crosslens.report.parts.wording import language, text

__all__ = ["printed_table"]

_COVERED = "covered"  # pairs, where the others are in per cent


def printed_table(names: Mapping[str, str], quantities: Collection[str]) -> str:
    """A table of what papers print for encoders that stand still; empty where they print nothing.

    Parameters
    ----------
    names: what a row is called -> the task as :mod:`crosslens.readers.published` has it.
    quantities: those that the run has, too.
    """
    wanted = {*quantities, _COVERED}
    rows = {
        shown: {_column(one): _cell(one) for one in found}
        for shown, task in names.items()
        if (found := [one for one in published(task=task) if one.frozen and one.metric in wanted])
    }
    # a paper's columns in its own order, what was covered before what came of it
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    columns.sort(key=lambda column: not column.startswith("Covered"))
    if not rows:
        return ""
    tasks = {names[shown] for shown in rows}
    papers = list(dict.fromkeys(PAPERS[o.paper] for o in published() if o.task in tasks))
    caption = (
        f"Printed by {' and '.join(papers)}: other encoders, larger and trained on other text. What "
        "to expect, and no measure of this run."
    )
    cells = [
        [text(shown), *(row.get(name, "–") for name in columns)] for shown, row in rows.items()
    ]
    return table(caption, ["", *map(text, columns)], cells)


def _column(one: Published) -> str:
    """The encoder, with the language that it comes from where there are several."""
    if one.metric == _COVERED:
        return f"Covered, {one.system}"
    several = {
        o.language for o in published(paper=one.paper, task=one.task) if o.system == one.system
    }
    if len(several) == 1:
        return one.system
    where = language(one.language) if len(one.language) == 3 else one.language
    return f"{one.system} {where}"


def _cell(one: Published) -> str:
    return f"{one.value:,.0f}" if one.metric == _COVERED else f"{one.value / 100:.3f}"
