"""The page of a CLWE run: how the encoder was learnt, how the languages were mapped, and what was
trained when."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosslens.report.folders.finished import finished_run
from crosslens.report.folders.log import as_number, as_table, read_log
from crosslens.report.parts.drawing import Axis, Line, plain_style, series_panel, series_style
from crosslens.report.parts.layout import (
    Numbering,
    document,
    figure,
    files_table,
    headline,
    panel,
    section,
    settings_table,
    table,
)
from crosslens.report.parts.wording import decimal, join, language, tag, text
from crosslens.report.sections.fine_tuned import fine_tuned_section
from crosslens.report.sections.trained_parts import trained_table
from crosslens.score import Score

__all__ = ["clwe_page"]

_NUMBERS = {"seeds": "seeds", "iterations": "iterations", "pairs": "pairs", "mutual": "mutual"}


def clwe_page(folder: str | Path) -> str:
    """The report of a finished CLWE run.

    Raises
    ------
    InputError: the folder holds no finished one.
    StoreError: one of its files is damaged.
    """
    folder = Path(folder)
    (config, scores), numbering = finished_run(folder, "clwe", "train clwe"), Numbering()
    settings = as_table(config.get("settings"))
    induced = as_table(config.get("induced"))
    learnt = {score.condition: score for score in scores if score.quantity == "perplexity"}
    source = language(str(learnt[None].source)) if None in learnt else "?"
    targets = join([language(code) for code in induced])
    title = f"CLWE, {source} to {targets}"
    skipgram = as_table(settings.get("skipgram"))
    seeds = str(settings.get("seeds", "?"))
    with plain_style():
        parts = [
            headline(
                title,
                _lead(folder, str(learnt[None].source) if None in learnt else "", numbering),
                _told(learnt, source, induced),
                {
                    "After": "Artetxe, Ruder &amp; Yogatama 2020",
                    "Vectors": text(f"of {skipgram.get('dimensions', '?')} dimensions"),
                    "Mapped from": text(f"{seeds} seeds"),
                },
                [
                    "The encoder has been trained on one language; of the others it has seen nothing."
                ],
                [],
                "Nothing was measured in this run.",
            ),
            section("mapped", "How the languages were mapped", _mapped(induced, seeds)),
            section("trained", "What is trained when", _trained(folder, config)),
            fine_tuned_section(folder, "Fine-tuned"),
            section(
                "provenance",
                "How it was made",
                settings_table(
                    "What was asked for.", as_table(as_table(config.get("asked")).get("settings"))
                ),
                settings_table("Settings of skip-gram.", skipgram),
                settings_table("Settings of the encoder.", as_table(settings.get("bert"))),
                settings_table("Versions.", as_table(config.get("versions"))),
                files_table(folder),
            ),
        ]
    return document(title, parts)


def _lead(folder: Path, source: str, numbering: Numbering) -> str:
    curve = {
        tokens / 1e6: as_number(as_table(line["perplexity"]).get(source))
        for _, tokens, line in read_log(folder / "bert" / "log.jsonl", "perplexity").rows
        if "perplexity" in line
    }
    picture = series_panel(
        numbering.panel(),
        f"held-out perplexity of {language(source)} over tokens",
        [Line([*curve], [*curve.values()], series_style(0))],
        "million tokens",
        Axis("held-out perplexity", log=True),
    )
    told = "masked tokens of held-out text; the token embeddings stand still"
    return figure(numbering, "How the encoder was learnt.", told, "", [panel("", "", picture)])


def _told(learnt: Mapping[str | None, Score], source: str, induced: Mapping[str, Any]) -> list[str]:
    """A sentence on the encoder, and one on each language that was mapped, as HTML."""
    sentences = []
    if None in learnt:
        others = [
            f"a {name} model {decimal(learnt[name].value, 1)}"
            for name in ("unigram", "bigram")
            if name in learnt
        ]
        sentences.append(
            f"{tag('strong', text(source))}: a perplexity of {decimal(learnt[None].value, 1)}"
            + (f", where {join(others)}." if others else ".")
        )
    for code, told in induced.items():
        right, n = _alike(told)
        if n:
            sentences.append(
                f"{tag('strong', text(language(code)))}: {right:,} of {n:,} subwords that both spell "
                "alike are nearest to themselves after the mapping."
            )
    return sentences[:3]


def _alike(told: Any) -> tuple[int, int]:
    """How many subwords that both spell alike are nearest to themselves, and of how many."""
    found = as_table(told).get("identical")
    right, n = found if isinstance(found, list) and len(found) == 2 else (0, 0)
    return (right, n) if isinstance(right, int) and isinstance(n, int) else (0, 0)


def _mapped(induced: Mapping[str, Any], seeds: str) -> str:
    head = ["Language", f"Seeds ({seeds})", "iterations", "pairs", "mutual", "mean cosine"]
    rows = []
    for code, told in induced.items():
        numbers = [as_number(as_table(told).get(name)) for name in _NUMBERS]
        cells = ["–" if math.isnan(one) else f"{one:,.0f}" for one in numbers]
        right, n = _alike(told)
        rows.append(
            [text(language(code)), *cells, decimal(as_number(as_table(told).get("objective")), 3)]
            + [f"{right:,} of {n:,}" if n else "–"]
        )
    caption = (
        "Self-learning induces a dictionary; the orthogonal map is fitted to its pairs. Mutual pairs "
        "were found in both directions. The mean cosine is that of a subword with its nearest of the "
        "other side, under the map of the last iteration; subwords that both spell alike are "
        "looked up by CSLS."
    )
    return table(caption, [*map(text, head), "spelt alike and nearest"], rows)


def _trained(folder: Path, config: Mapping[str, Any]) -> str:
    caption = (
        "Parameters that are trained, of the run's own model; fine-tuning in the source language trains "
        "the task's head beside these. Where a target is tested its own embeddings stand in the place "
        "of the source's."
    )
    return trained_table(folder, config, caption)
