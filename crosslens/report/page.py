"""A run folder becomes one self-contained HTML page."""

from pathlib import Path

from crosslens.files import write_whole
from crosslens.report.drawing import plain_style
from crosslens.report.language_id import language_id_findings, language_id_section
from crosslens.report.layout import STYLE_SHEET, Numbering
from crosslens.report.provenance import encoders, provenance_section
from crosslens.report.retrieval import retrieval_findings, retrieval_section
from crosslens.report.similarity import similarity_findings, similarity_section
from crosslens.report.study import Study, load_study
from crosslens.report.wording import count_of, join, language, paragraph, plural, tag, text

__all__ = ["render_report", "write_report"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_report(folder: str | Path) -> str:
    """The report of a study as HTML, the same characters for the same folder.

    The page loads nothing: style and figures are inside it, and it has no scripts.

    Raises
    ------
    InputError: the folder holds no study.
    StoreError: one of its files is damaged.
    """
    study, numbering = load_study(folder), Numbering()
    with plain_style():
        body = [
            _headline(study),
            retrieval_section(study, numbering),
            similarity_section(study, numbering),
            language_id_section(study, numbering),
            provenance_section(study),
        ]
    content = "\n".join(body).replace("95 %", "95&nbsp;%").replace("n = ", "n&nbsp;=&nbsp;")  # stay on one line
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(_POLICY)}"><meta name="color-scheme" content="light">'
        f"<title>{text(_title(study))}</title><style>{STYLE_SHEET}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main>\n{content}\n</main></body></html>\n'


def write_report(folder: str | Path) -> Path:
    """Write a study's report to ``report.html`` in its folder, whole or not at all, and return where it is.

    Raises
    ------
    InputError, StoreError: see :func:`render_report`.
    """
    path = Path(folder) / "report.html"
    write_whole(path, render_report(folder))
    return path


def _title(study: Study) -> str:
    names = list(dict.fromkeys(encoders(study).values()))
    what = f"{plural(len(study.languages()), 'language')} in "
    if not names:
        return f"{what}an encoder that was not recorded"
    return what + (names[0].rstrip("/").rsplit("/", 1)[-1] if len(names) == 1 else plural(len(names), "encoder"))


def _headline(study: Study) -> str:
    """Title, facts, findings, the run's notes, and the way to the sections."""
    findings = [*retrieval_findings(study), *similarity_findings(study), *language_id_findings(study)]
    links = (
        ("retrieval", "Sentence retrieval"),
        ("similarity", "Similarity"),
        ("language-id", "Language identification"),
        ("made", "How this was made"),
    )
    parts = [
        tag("h1", text(_title(study))),
        tag("nav", "".join(tag("a", text(name), href=f"#{key}") for key, name in links), aria_label="Sections"),
        _facts(study),
        _notes(study),
        tag("h2", "What came out"),
        tag("ul", "".join(tag("li", finding) for finding in findings)) if findings else paragraph("Nothing was measured in this run."),
    ]
    return tag("header", "".join(parts))


def _facts(study: Study) -> str:
    names, settings = encoders(study), study.section("settings")
    if set(names) == {"*"}:
        who = f"{names['*']}, shared by all languages"
    else:
        who = join([f"{name} for {'all others' if code == '*' else language(code)}" for code, name in names.items()]) or "not recorded"
    n = study.section("data").get("n")
    held = [s for s in study.scores if s.task == "sentence_retrieval" and (s.details or {}).get("part", "held_out") == "held_out"]
    sentences = f"n = {n:,} in every language" if isinstance(n, int) else "number not recorded"
    sentences += f"; retrieval is judged on held-out ones ({count_of(held)})" if held else ""
    layers = {score.layer for score in study.scores if score.layer is not None}
    facts = {
        "Languages": join([language(code) for code in study.languages()]) or "none",
        "Encoders" if len(names) > 1 else "Encoder": who,
        "Parallel sentences": sentences,
        "Layers": f"{len(layers)}, counted from 0 = the output of the embedding layer" if layers else "none measured",
        "Seed": str(settings.get("seed", "not recorded")),
    }
    return tag("dl", "".join(tag("dt", text(name)) + tag("dd", text(value)) for name, value in facts.items()), class_="facts")


def _notes(study: Study) -> str:
    """What the run wants its reader to know, and how many sentences were cut."""
    given = study.config.get("notes")
    notes = [str(note) for note in given] if isinstance(given, list) else [str(given)] if given else []
    for code, facts in study.section("extraction").items():
        cut = facts.get("truncated") if isinstance(facts, dict) else None
        if isinstance(cut, int) and cut > 0:
            notes.append(f"{language(str(code))}: {plural(cut, 'sentence')} had to be cut to fit the encoder.")
    return tag("div", "".join(paragraph(text(note)) for note in notes), class_="note", role="note") if notes else ""
