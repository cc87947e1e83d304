"""Wrong answers of a task to read: a few of each test language."""

from collections.abc import Sequence

from crosslens.examples import Example
from crosslens.report.folders.transfer import System, Transfer, called
from crosslens.report.parts.layout import table
from crosslens.report.parts.wording import language, tag, text

__all__ = ["example_tables"]

_LONGEST = 400  # characters of a text that are shown


def example_tables(run: Transfer, task: str) -> str:
    """A table for each language and system; empty where no example was kept."""
    systems, found = run.systems(), dict[tuple[str, System], list[Example]]()
    for one in run.examples:
        if one.task == task:
            found.setdefault((one.target, System(one.encoder, one.freeze)), []).append(one)
    tables = []
    for (target, system), some in found.items():
        name = language(target) + (f", {called(system, systems)}" if len(systems) > 1 else "")
        caption = f"{name}: some of what was answered wrongly, seed {some[0].seed}."
        rows = [[_texts(one), _lines(one.gold), _lines(one.predicted)] for one in some]
        tables.append(table(caption, ["Text", "Gold", "Predicted"], rows, plain=True))
    return "".join(tables)


def _lines(lines: Sequence[str]) -> str:
    """Each on a line of its own, in the direction of its script."""
    return "".join(tag("div", text(line), dir="auto") for line in lines if line) or "–"


def _texts(one: Example) -> str:
    """The texts, cut where they are long, with what the answers are about marked in the first."""
    first = one.texts[0]
    begin = max(0, one.marks[0][0] - _LONGEST // 2) if one.marks else 0
    end = begin + _LONGEST
    parts, place = ["…" if begin else ""], begin
    for start, stop in ((a, min(b, end)) for a, b in one.marks if a < end):
        parts += [text(first[place:start]), tag("mark", text(first[start:stop]))]
        place = stop
    parts += [text(first[place:end]), "…" if end < len(first) else ""]
    others = [s[:_LONGEST] + ("…" if len(s) > _LONGEST else "") for s in one.texts[1:]]
    return tag("div", "".join(parts), dir="auto") + (_lines(others) if others else "")
