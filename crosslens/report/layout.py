"""The page's building blocks: skeleton, head, sections, figures with their legend, panels, tables, and the style sheet."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.report.drawing import Style, swatch
from crosslens.report.wording import paragraph, plural, tag, text

__all__ = [
    "GENERATOR",
    "STYLE_SHEET",
    "Numbering",
    "document",
    "figure",
    "files_table",
    "headline",
    "legend",
    "not_computed",
    "panel",
    "section",
    "settings_table",
    "table",
]

GENERATOR = '<meta name="generator" content="crosslens">'  # a page that has it may be written over by the next
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE_SHEET = """
:root{color-scheme:light;--ink:#20242a;--soft:#5b626b;--rule:#dfe2e6;--accent:#0b5a8f}
*{box-sizing:border-box}
html{background:#fff;-webkit-text-size-adjust:100%}
body{margin:0;background:#fff;color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI","Helvetica Neue",Arial,"Noto Sans",sans-serif;
overflow-wrap:anywhere}
main{max-width:1216px;margin:0 auto;padding:36px 0 80px}
@media(max-width:1280px){main{margin:0 32px}}
@media(max-width:720px){main{margin:0 16px;padding-top:22px}}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .5rem;letter-spacing:-.01em;text-wrap:balance}
h2{font-size:1.35rem;line-height:1.25;margin:3.4rem 0 .6rem;padding-top:1.1rem;border-top:1px solid var(--rule)}
h3{font-size:1.02rem;margin:2rem 0 .5rem}
h4{font-size:.94rem;margin:0;font-weight:600;line-height:1.3}
p,li,figcaption,dd{max-width:80ch}
p{margin:.5rem 0}
ul{margin:.5rem 0;padding-left:1.2rem}
li{margin:.4rem 0}
a{color:var(--accent)}
code{font:.94em ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
nav{margin:.9rem 0 0;font-size:.92rem}
nav a{margin-right:1.1rem;display:inline-block}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.2rem;margin:1rem 0}
.facts dt{color:var(--soft)}
.facts dd{margin:0}
@media(max-width:720px){.facts{grid-template-columns:1fr;gap:0}.facts dd{margin-bottom:.5rem}}
.note{border-left:4px solid #d9a400;background:#fff9e6;padding:.55rem .9rem;margin:.8rem 0;max-width:84ch}
.note p{margin:.2rem 0}
.quiet,.n{color:var(--soft)}
.quiet{font-size:.92rem}
figure{margin:1.4rem 0 2.4rem}
figcaption{font-size:.94rem;color:#383e46;margin:0 0 .7rem}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;list-style:none;margin:0 0 .9rem;padding:.45rem 0;font-size:.88rem;line-height:1.35;
background:#fff;border-top:1px solid var(--rule);border-bottom:1px solid var(--rule)}
.legend li{display:flex;align-items:center;gap:.5rem;margin:0;max-width:100%}
.swatch{flex:none}
@media(min-width:1000px){.sticky{position:sticky;top:0;z-index:1}}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));gap:1.5rem 28px}
.grid.broad{grid-template-columns:minmax(0,1fr)}
.grid.narrow{grid-template-columns:repeat(auto-fill,minmax(min(100%,270px),1fr));gap:1.5rem 20px}
.panel{min-width:0;break-inside:avoid;display:grid;grid-template-rows:subgrid;grid-row:span 2;row-gap:.3rem}
.panel>div{min-width:0}

.panel h4 .n{font-weight:400;white-space:nowrap}
.panel .names{color:var(--soft);font-size:.84rem;line-height:1.3;margin:0}
.plot{display:block;width:100%;height:auto;max-width:386px}
.narrow .plot{max-width:300px}
.broad .plot{max-width:520px}
.plot *{stroke-linejoin:round;stroke-linecap:butt}
.plot text{font-family:system-ui,-apple-system,"Segoe UI","Helvetica Neue",Arial,"Noto Sans",sans-serif}
.missing{font-size:.84rem;color:#8a4b00;margin:.2rem 0 0}
.scroll{overflow-x:auto;margin:.8rem 0 1.4rem;border:1px solid var(--rule);border-radius:4px}
.scroll:focus-visible{outline:2px solid var(--accent)}
table{border-collapse:collapse;font-size:.88rem;line-height:1.35;width:100%;font-variant-numeric:tabular-nums}
.caption{margin:1.6rem 0 0;color:#383e46;font-size:.94rem;max-width:80ch}
.caption+.scroll{margin-top:.5rem}
thead tr:first-child th{border-top:0}
th,td{padding:.36rem .7rem;text-align:left;vertical-align:top;border-top:1px solid var(--rule);overflow-wrap:normal}
thead th{vertical-align:bottom;background:#f6f7f9;font-weight:600}
tbody th{font-weight:500;white-space:nowrap}
td.num,th.num{text-align:right;white-space:nowrap}
td small{display:block;color:#8a4b00}
table.plain th,table.plain td{white-space:normal;overflow-wrap:anywhere}
table.plain tbody th{min-width:9.2rem;width:39%}
table.numbers tbody th{position:sticky;left:0;background:#fff}
th .quiet,td .quiet{font-size:inherit;font-weight:400}
pre{overflow-x:auto;background:#f6f7f9;padding:.7rem .9rem;border-radius:4px;font-size:.85rem;white-space:pre-wrap}
.wide{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:0 28px;align-items:start}
.wide>*{min-width:0}
@media print{.sticky{position:static}h2{break-after:avoid}.scroll{overflow:visible}}
"""


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
    """A whole page that loads nothing: style and figures are inside it, and it has no scripts."""
    content = "\n".join(parts).replace("95 %", "95&nbsp;%").replace("n = ", "n&nbsp;=&nbsp;")  # stay on one line
    head = (
        f'<meta charset="utf-8">{GENERATOR}<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(_POLICY)}"><meta name="color-scheme" content="light">'
        f"<title>{text(title)}</title><style>{STYLE_SHEET}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main>\n{content}\n</main></body></html>\n'


def headline(
    title: str, links: Mapping[str, str], facts: Mapping[str, str], notes: Sequence[str], findings: Sequence[str], nothing: str
) -> str:
    """The top of a page.

    Parameters
    ----------
    links: key of each section to its name.
    facts: what the run is about, in words.
    notes: what the reader should know before anything else.
    findings: sentences on what came out, as HTML.
    nothing: what to say where there are none.
    """
    parts = [
        tag("h1", text(title)),
        tag("nav", "".join(tag("a", text(name), href=f"#{key}") for key, name in links.items()), aria_label="Sections"),
        tag("dl", "".join(tag("dt", text(name)) + tag("dd", text(value)) for name, value in facts.items()), class_="facts"),
        tag("div", "".join(paragraph(text(note)) for note in notes), class_="note", role="note") if notes else "",
        tag("h2", "What came out"),
        tag("ul", "".join(tag("li", finding) for finding in findings)) if findings else paragraph(text(nothing)),
    ]
    return tag("header", "".join(parts))


def section(key: str, title: str, *parts: str) -> str:
    """A section with its heading; empty parts are dropped."""
    return tag("section", tag("h2", text(title)) + "".join(parts), id=key)


def legend(entries: Iterable[tuple[Style, str]], extra: Sequence[str] = (), *, sticky: bool = True) -> str:
    """The key of a group of panels, and remarks that belong to it (HTML)."""
    items = [tag("li", swatch(style, label) + tag("span", text(label))) for style, label in entries]
    items += [tag("li", item) for item in extra]
    return tag("ul", "".join(items), class_="legend sticky" if sticky else "legend", aria_label="Legend") if items else ""


def panel(title: str, n: str, picture: str, names: str = "", missing: Sequence[str] = ()) -> str:
    """One small picture with its title, the number of items behind it, and what could not be computed."""
    head = tag("h4", f"{text(title)} {tag('span', text(n), class_='n')}") + (paragraph(text(names), "names") if names else "")
    body = picture + "".join(paragraph(text(line), "missing") for line in missing)
    return tag("div", tag("div", head) + tag("div", body), class_="panel")


def figure(numbering: Numbering, title: str, reading: str, key: str, panels: Sequence[str], *, size: str = "") -> str:
    """A group of panels (of size "", "narrow" or "broad") with one caption that says how to read them, and one legend."""
    caption = tag("figcaption", f"<strong>Figure {numbering.figure()}. {text(title)}</strong> How to read it: {text(reading)}")
    grid = tag("div", "".join(panels), class_=f"grid {size}".rstrip())
    return tag("figure", caption + key + grid)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, plain: bool = False) -> str:
    """A table of HTML cells that scrolls inside its own frame; the first cell of each row names it.

    With ``plain`` the cells are prose that wraps; otherwise they are numbers.
    """
    kind = {} if plain else {"class_": "num"}
    first, *others = [tag("th", head[0], scope="col"), *(tag("th", cell, scope="col", **kind) for cell in head[1:])]
    lines = [tag("tr", tag("th", row[0], scope="row") + "".join(tag("td", cell, **kind) for cell in row[1:])) for row in rows]
    body = tag("thead", tag("tr", first + "".join(others))) + tag("tbody", "".join(lines))
    inner = tag("table", body, class_="plain" if plain else "numbers", aria_label=caption)
    frame = tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return tag("div", paragraph(text(caption), "caption") + frame)


def settings_table(caption: str, values: Mapping[str, Any]) -> str:
    """Names and values; a value that is no text is shown as JSON."""
    names = {key: text(key).replace(".", ".<wbr>").replace("_", "_<wbr>") for key in values}  # where a long name may be broken
    rows = [[tag("code", names[key]), text(_shown(value))] for key, value in values.items()]
    return table(caption, ["Name", "Value"], rows, plain=True) if rows else paragraph(text(f"{caption} Not recorded."), "quiet")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def files_table(folder: Path) -> str:
    """What a run folder holds."""
    rows = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith(".") or path.name == "report.html" or path.name.endswith(".partial"):
            continue
        if path.is_dir():
            inside = f"folder, {plural(sum(1 for _ in path.iterdir()), 'entry', 'entries')}"
        else:
            inside = f"{path.stat().st_size:,} bytes"
        rows.append([tag("code", text(path.name)), inside])
    return table("Files in the run folder, besides this page.", ["Name", "Size"], rows, plain=True)


def not_computed(entries: Iterable[tuple[str, int, str]]) -> list[str]:
    """Sentences about values that are NaN: (what, layer, reason), layers with the same reason together."""
    groups: dict[tuple[str, str], list[int]] = {}
    for what, layer, reason in entries:
        groups.setdefault((what, reason), []).append(layer)
    return [
        f"Not computed: {what}, layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))} ({reason})."
        for (what, reason), layers in groups.items()
    ]
