"""Systems of transfer on the items that all of them have: means, and differences to the first."""

from collections.abc import Sequence

from crosslens.report.folders.transfers import Contest
from crosslens.report.parts.layout import table, value_cell
from crosslens.report.parts.wording import decimal, join, language, named, plural, tag, text
from crosslens.score import QUANTITIES, Score

__all__ = ["compared_sentence", "compared_table"]


def compared_table(found: Sequence[Contest]) -> str:
    """The table of a task; empty where no two systems were tested in a language."""
    if not found:
        return ""
    rows, first = [], next(iter(found[0].scores))
    for one in found:
        for name, score in one.scores.items():
            less = one.less.get(name) if first in one.scores else None
            cells = [value_cell(score), value_cell(less), f"{score.n:,}"]
            rows.append([f"{text(language(one.target))}, {named(name)}", *cells])
    head = ["Tested in", _measure(found[0]), f"Less {named(first)}", "n"]
    caption = (
        "Means over seeds with 95 % intervals over seeds and items, on the items that all of these "
        "have; differences on the same items, seeds not paired."
    )
    left = {language(one.target): one.left_out for one in found if one.left_out}
    if left:
        told = [f"{plural(count, 'item')} in {name}" for name, count in left.items()]
        caption += f" Left out, since some lack them: {join(told)}."
    return table(caption, head, rows)


def compared_sentence(found: Sequence[Contest], title: str) -> str:
    """Which systems differ from the first one in a task, as HTML."""
    told, first = [], next(iter(found[0].scores))
    found = [one for one in found if first in one.scores]  # what was not tested has no difference
    for name in dict.fromkeys(name for one in found for name in one.less):
        ways: dict[str, list[float]] = {"above": [], "below": [], "not told apart": []}
        for one in found:
            if name in one.less:
                ways[_verdict(one.less[name])].append(one.less[name].value)
        parts = [_range(way, values, len(found)) for way, values in ways.items() if values]
        told.append(f"{named(name)} {join(parts)}")
    label = QUANTITIES[found[0].quantity].label
    lead = f"{tag('strong', text(title))}, {text(label)}, beside {named(first)}"
    return f"{lead}: {'; '.join(told)}."


def _range(way: str, values: Sequence[float], languages: int) -> str:
    where = "all" if len(values) == languages > 1 else f"{len(values)} of {languages}"
    ends = dict.fromkeys(decimal(pick(values)) for pick in (min, max))
    return f"{way} in {where} ({' to '.join(ends)})"


def _measure(one: Contest) -> str:
    label = QUANTITIES[one.quantity].label
    return text(label + (f", as {one.counted_as} counts" if one.counted_as else ""))


def _verdict(less: Score) -> str:
    if less.low is None or less.high is None or less.low <= 0 <= less.high:
        return "not told apart"
    return "above" if less.value > 0 else "below"
