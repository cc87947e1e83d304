"""The page of a MonoTrans run: how well each language was learnt, and what was trained in each step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosslens.report.folders.finished import finished_run
from crosslens.report.folders.log import as_table
from crosslens.report.folders.monotrans import Step, steps_of
from crosslens.report.parts.drawing import (
    Axis,
    Line,
    Style,
    plain_style,
    series_panel,
    series_style,
)
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
)
from crosslens.report.parts.wording import decimal, join, language, tag, text
from crosslens.report.sections.fine_tuned import fine_tuned_section
from crosslens.report.sections.trained_parts import trained_picture, trained_table

__all__ = ["monotrans_page"]


def monotrans_page(folder: str | Path) -> str:
    """The report of a finished MonoTrans run.

    Raises
    ------
    InputError: the folder holds no finished one.
    StoreError: one of its files is damaged.
    """
    folder = Path(folder)
    config, scores = finished_run(folder, "monotrans", "train monotrans")
    steps, numbering = steps_of(folder, scores), Numbering()
    styles = {step.name: series_style(place) for place, step in enumerate(steps)}
    source, *targets = steps
    asked = as_table(as_table(config.get("asked")).get("settings"))
    under = join([language(code) for code in dict.fromkeys(t.language for t in targets)])
    title = f"MonoTrans, {language(source.language)} to {under}"
    with plain_style():
        parts = [
            headline(
                title,
                _lead(steps, styles, numbering),
                [_told(step) for step in steps[:3]],
                _facts(asked, source, under),
                [
                    "Perplexities of languages with vocabularies of their own cannot be compared.",
                    *_repeated(steps, as_table(config.get("chosen"))),
                    *_seen(steps, as_table(config.get("seen"))),
                    *(
                        f"{name} was given up: {why}."
                        for name, why in as_table(config.get("lost")).items()
                    ),
                ],
                [],
                "Nothing was measured in this run.",
            ),
            section(
                "trained",
                "What is trained in each step",
                trained_picture(folder, config, source.language, targets[0].language, numbering),
                _trained(folder, config),
            ),
            section("learnt", "Language by language", _learnt(steps)),
            fine_tuned_section(folder, "Steps 3 and 4"),
            section(
                "provenance",
                "How it was made",
                settings_table("What was asked for.", asked),
                *(
                    settings_table(f"Settings of {name}.", as_table(recipe))
                    for name, recipe in as_table(config.get("settings")).items()
                ),
                settings_table("Versions.", as_table(config.get("versions"))),
                files_table(folder),
            ),
        ]
    return document(title, parts)


def _lead(steps: list[Step], styles: Mapping[str, Style], numbering: Numbering) -> str:
    lines = [Line([*s.curve], [*s.curve.values()], styles[s.name]) for s in steps]
    picture = series_panel(
        numbering.panel(),
        "held-out perplexity over tokens: " + ", ".join(step.said for step in steps),
        lines,
        "million tokens of the step",
        Axis("held-out perplexity", log=True),
    )
    key = legend([(styles[step.name], step.said) for step in steps], sticky=False)
    return figure(
        numbering,
        "How each language was learnt.",
        "masked tokens of held-out text; in step 2 the body stands still, and only what the language "
        "owns is trained",
        "",
        [panel("", "", picture, key=key)],
    )


def _told(step: Step) -> str:
    """A sentence on a language, as HTML."""
    return (
        f"{tag('strong', text(step.said))}: a perplexity of {decimal(step.learnt.value, 1)}, where a "
        f"unigram model has {decimal(step.unigram.value, 1)}"
        + ("" if step.bigram is None else f" and a bigram model {decimal(step.bigram.value, 1)}")
        + "."
    )


def _repeated(steps: list[Step], chosen: Mapping[str, Any]) -> list[str]:
    """Which of repeated trainings went into the model, and which learnt nothing."""
    by_name = {step.name: step for step in steps[1:]}
    told = []
    if len(by_name) > len(chosen) > 0:
        names = join([by_name[name].said for name in chosen.values() if name in by_name])
        told.append(
            f"Of repeated trainings the model has {names}, which gain most on a unigram model. They are "
            "chosen on these very sentences, which makes their perplexities somewhat too good."
        )
    lost = [s.said for s in by_name.values() if not s.learnt.value < s.unigram.value]
    if lost:
        told.append(f"No better than a unigram model: {join(lost)}.")
    return told


def _seen(steps: list[Step], seen: Mapping[str, Any]) -> list[str]:
    """Of which held-out sentences step 1 has learnt some."""
    return [
        f"{found[0]} of {found[1]} held-out sentences of {step.said} are in the text of step 1: "
        "its perplexity is too good."
        for step in steps
        if isinstance(found := seen.get(step.name), list) and len(found) == 2
    ]


def _facts(asked: Mapping[str, Any], source: Step, under: str) -> dict[str, str]:
    return {
        "After": "Artetxe, Ruder &amp; Yogatama 2020",
        "Variant": text(asked.get("variant", "adapters")),
        "Body": text(f"trained on {language(source.language)}"),
        "Under it": text(under),
    }


def _trained(folder: Path, config: Mapping[str, Any]) -> str:
    caption = (
        "Parameters that are trained, of the run's own models: step 2 is the first target's; step 3, "
        "fine-tuning in the source language, trains the task's head beside these; in step 4 the target's own "
        "parts stand in the place of the source's."
    )
    return trained_table(folder, config, caption)


def _learnt(steps: list[Step]) -> str:
    head = ["Language", "Perplexity", "of a unigram model", "of a bigram model", "masked tokens"]
    rows = []
    for s in steps:
        cells = ["–" if one is None else decimal(one.value, 1) for one in (s.unigram, s.bigram)]
        rows.append([text(s.said), decimal(s.learnt.value, 1), *cells, f"{s.learnt.n:,}"])
    told = "Held-out text, at the end of each training. The bigram model knows the token before."
    return table(told, head, rows)
