"""The page's building blocks: skeleton, head, sections, figures with their legend, panels and
tables.

A page says what came out by a figure first, then in three sentences; the rest is folded and opens
on demand.
"""

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.report.parts.drawing import Style, swatch
from crosslens.report.parts.saving import POLICY, SCRIPT, save_buttons
from crosslens.report.parts.style import STYLE_SHEET
from crosslens.report.parts.wording import (
    decimal,
    named,
    number,
    paragraph,
    plural,
    short,
    tag,
    text,
)
from crosslens.score import Score

__all__ = [
    "GENERATOR",
    "Numbering",
    "definitions",
    "document",
    "figure",
    "files_table",
    "flow",
    "folded",
    "headline",
    "legend",
    "not_computed",
    "panel",
    "section",
    "settings_table",
    "table",
    "value_cell",
    "words_cell",
]

# a page that has it may be written over by the next
GENERATOR = '<meta name="generator" content="crosslens">'


@dataclasses.dataclass
class Numbering:
    """Counts the figures and panels of one page, so that every id in it is unique."""

    figures: int = 0
    panels: int = 0

    def panel(self) -> str:
        """The next panel's key."""
        self.panels += 1
        return f"p{self.panels}"

    def figure(self) -> int:
        """The next figure's number."""
        self.figures += 1
        return self.figures


def document(title: str, parts: Sequence[str]) -> str:
    """A whole page that loads nothing: style, figures and the few lines that save them are inside
    it."""
    # stay on one line
    content = "\n".join(parts).replace("95 %", "95&nbsp;%").replace("n = ", "n&nbsp;=&nbsp;")
    head = (
        f'<meta charset="utf-8">{GENERATOR}<meta name="viewport" content="width=device-width, '
        f'initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(POLICY)}"><meta '
        f'name="color-scheme" content="light">'
        f"<title>{text(title)}</title><style>{STYLE_SHEET}</style>"
    )
    body = f"<main>\n{content}\n</main><script>{SCRIPT}</script>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def headline(
    title: str,
    lead: str,
    told: Sequence[str],
    facts: Mapping[str, str],
    notes: Sequence[str],
    findings: Sequence[str],
    nothing: str,
) -> str:
    """The top of a page: its figure, three sentences, and on demand all that came out and what the
    run is about.

    Parameters
    ----------
    lead: the figure that shows what came out; empty where there is none.
    told: at most three sentences on what came out, as HTML.
    facts: what the run is about, as HTML.
    notes: what the reader should know of the run.
    findings: all that came out, as HTML.
    nothing: what to say where nothing came out.
    """
    sentences = (
        tag("ul", "".join(tag("li", sentence) for sentence in told), class_="told")
        if told
        else paragraph(text(nothing))
    )
    remarks = _remarks(notes)
    listed = tag("ul", "".join(tag("li", finding) for finding in findings), class_="long")
    described = "".join(tag("dt", text(name)) + tag("dd", value) for name, value in facts.items())
    parts = [
        tag("h1", text(title)),
        flow(lead, tag("div", sentences + remarks, class_="text")),
        folded("What came out, in full", listed) if findings else "",
        folded("What was run", tag("dl", described, class_="facts")),
    ]
    return tag("header", "".join(parts))


def _remarks(notes: Sequence[str]) -> str:
    """The run's notes, folded behind the first sentence of the first."""
    if not notes:
        return ""
    first = short(notes[0].partition(". ")[0], 120)
    more = f" (and {plural(len(notes) - 1, 'more note')})" if len(notes) > 1 else ""
    inner = tag("summary", text(f"Note: {first}{more}")) + "".join(
        paragraph(text(note)) for note in notes
    )
    return tag("details", inner, class_="note", role="note")


def folded(summary: str, *parts: str) -> str:
    """What is shown on demand; empty where there is nothing."""
    inner = "".join(parts)
    return tag("details", tag("summary", text(summary)) + inner) if inner else ""


def flow(*parts: str) -> str:
    """Figures and text that stand side by side where the window is wide enough."""
    return tag("div", "".join(parts), class_="flow")


def section(key: str, title: str, *parts: str, told: str = "") -> str:
    """A section that opens on demand, with its heading and a word on what came out; empty parts are
    dropped."""
    heading = tag("h2", text(title)) + (
        " " + tag("span", text(told), class_="quiet") if told else ""
    )
    return tag(
        "details", tag("summary", heading) + tag("section", "".join(parts), id=key), class_="part"
    )


def legend(
    entries: Iterable[tuple[Style, str]], extra: Sequence[str] = (), *, sticky: bool = True
) -> str:
    """The key of a group of panels, and remarks that belong to it (HTML)."""
    items = [tag("li", swatch(style, label) + tag("span", text(label))) for style, label in entries]
    items += [tag("li", item) for item in extra]
    return (
        tag(
            "ul",
            "".join(items),
            class_="legend sticky" if sticky else "legend",
            aria_label="Legend",
        )
        if items
        else ""
    )


def panel(
    title: str, n: str, picture: str, names: str = "", missing: Sequence[str] = (), key: str = ""
) -> str:
    """One small picture: its title, the number of items behind it, what could not be computed, and
    a legend of its own if it needs one."""
    head = (
        tag("h4", f"{named(title)} {tag('span', text(n), class_='n')}")
        + (paragraph(text(names), "names") if names else "")
        + key
    )
    body = picture + "".join(paragraph(text(line), "missing") for line in missing)
    return tag("div", tag("div", head) + tag("div", body), class_="panel")


def figure(
    numbering: Numbering,
    title: str,
    reading: str,
    key: str,
    panels: Sequence[str],
    *,
    size: str = "",
) -> str:
    """A group of panels (of size "" or "narrow") with one title, one legend, how to read them on
    demand, and buttons that save them."""
    number = numbering.figure()
    caption = tag("figcaption", f"<strong>Figure {number}. {text(title)}</strong>")
    size = "four" if len(panels) == 4 and not size else size  # two and two, not three and one
    grid = tag("div", "".join(panels), class_=f"grid {size}".rstrip())
    read = tag(
        "details",
        tag("summary", "How to read it") + paragraph(text(reading[0].upper() + reading[1:])),
    )
    foot = tag("div", read + save_buttons(number), class_="foot")
    return tag(
        "figure",
        caption + key + grid + foot,
        id=f"figure-{number}",
        class_=f"span{min(3, len(panels))}",
    )


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, plain: bool = False
) -> str:
    """A table of HTML cells inside its own frame; the first cell of each row names it.

    With ``plain`` the cells are prose that wraps; otherwise they are numbers, and in a narrow
    window each row becomes a card, so that every value is seen beside the name of its column.
    """
    kind = {} if plain else {"class_": "num"}
    first, *others = [
        tag("th", head[0], scope="col"),
        *(tag("th", cell, scope="col", **kind) for cell in head[1:]),
    ]
    names = [re.sub(r"<[^>]+>", "", cell.replace("<br>", ", ")) for cell in head]
    lines = []
    for row in rows:
        cells = [
            tag("td", cell) if plain else _numbers_cell(name, cell)
            for name, cell in zip(names[1:], row[1:], strict=True)
        ]
        lines.append(tag("tr", tag("th", row[0], scope="row", dir="auto") + "".join(cells)))
    body = tag("thead", tag("tr", first + "".join(others))) + tag("tbody", "".join(lines))
    inner = tag("table", body, class_="plain" if plain else "numbers", aria_label=caption)
    frame = tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return tag("div", paragraph(text(caption), "caption") + frame)


def _numbers_cell(name: str, cell: str) -> str:
    """A cell that knows the name of its column (HTML already)."""
    kind = "num none" if cell == "–" else "num"
    return f'<td class="{kind}" data-name="{name}">{tag("span", cell)}</td>'


def words_cell(words: str, more: str = "") -> str:
    """Words in a table of numbers, as HTML that may be broken into lines; ``more`` is less
    important."""
    return tag(
        "span",
        text(words) + (" " + tag("span", text(more), class_="quiet") if more else ""),
        class_="words",
        dir="auto",
    )


def value_cell(score: Score | None, places: int = 3, n: int | None = None) -> str:
    """A score as HTML, its interval below it; where it could not be computed, why; its own n where
    that is not ``n``."""
    if score is None:
        return "–"
    if math.isnan(score.value):
        return words_cell(number(score))
    ends = [
        decimal(end, places)
        for end in (score.low, score.high)
        if end is not None and not math.isnan(end)
    ]
    within = " " + tag("small", f"[{', '.join(ends)}]", class_="within") if len(ends) == 2 else ""
    return (
        decimal(score.value, places)
        + within
        + (tag("small", f"n = {score.n:,}") if n is not None and score.n != n else "")
    )


def settings_table(caption: str, values: Mapping[str, Any]) -> str:
    """Names and values; a value that is no text is shown as JSON."""
    # where a long name may be broken
    names = {key: text(key).replace(".", ".<wbr>").replace("_", "_<wbr>") for key in values}
    rows = [[tag("code", names[key]), text(_shown(value))] for key, value in values.items()]
    return (
        table(caption, ["Name", "Value"], rows, plain=True)
        if rows
        else paragraph(text(f"{caption} Not recorded."), "quiet")
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def files_table(folder: Path) -> str:
    """What a run folder holds."""
    rows = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if (
            path.name.startswith(".")
            or path.name == "report.html"
            or path.name.endswith(".partial")
        ):
            continue
        if path.is_dir():
            inside = f"folder, {plural(sum(1 for _ in path.iterdir()), 'entry', 'entries')}"
        else:
            inside = f"{path.stat().st_size:,} bytes"
        rows.append([tag("code", text(path.name)), inside])
    return table("Files in the run folder, besides this page.", ["Name", "Size"], rows, plain=True)


def definitions(entries: Iterable[tuple[str, str]]) -> str:
    """Terms and what they mean, under a heading of their own."""
    items = (
        tag("li", f"<strong>{text(name)}.</strong> {text(meaning)}") for name, meaning in entries
    )
    return tag("h3", "Definitions") + tag("ul", "".join(items))


def not_computed(entries: Iterable[tuple[str, int, str]]) -> list[str]:
    """Sentences about values that are NaN: (what, layer, reason), layers with the same reason
    together."""
    groups: dict[tuple[str, str], list[int]] = {}
    for what, layer, reason in entries:
        groups.setdefault((what, reason), []).append(layer)
    return [
        (
            f"Not computed: {what}, layer{'s' if len(layers) > 1 else ''} "
            f"{', '.join(map(str, layers))} ({reason})."
        )
        for (what, reason), layers in groups.items()
    ]
