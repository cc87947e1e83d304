"""The page of a training run: its head, and how the run was made; and a picture for a model card."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.report.folders.training import Training, load_training
from crosslens.report.parts.drawing import Axis, Line, Style, plain_style, series_image
from crosslens.report.parts.layout import (
    Numbering,
    definitions,
    document,
    figure,
    files_table,
    headline,
    section,
    settings_table,
    table,
)
from crosslens.report.parts.wording import (
    decimal,
    join,
    language,
    named,
    paragraph,
    plural,
    tag,
    text,
)
from crosslens.report.sections.training_learning import (
    finite_of,
    learning_section,
    loss_lines,
    loss_panel,
    perplexity_panel,
    shown,
    validated,
)
from crosslens.report.sections.training_retrieval import (
    retrieval_findings,
    retrieval_overview,
    retrieval_section,
    retrieval_sentence,
)
from crosslens.report.sections.training_words import at, log_notes, token_axis

__all__ = ["training_figure", "training_page"]

_DEFINITIONS = (
    (
        "Masked language modelling (MLM)",
        "Some subwords of a sentence are hidden and guessed from the rest: Devlin et al. 2019, "
        "“BERT”. "
        "Translation language modelling (TLM) does the same with a sentence and its "
        "translation side by side, so that one may help with "
        "the other: Conneau & Lample 2019, “Cross-lingual language model pretraining”.",
    ),
    (
        "Loss",
        "The negative natural logarithm of the probability given to the hidden subword, "
        "averaged over hidden subwords (nats per masked "
        "token). The training loss mixes MLM and TLM steps as the streams are sampled.",
    ),
    (
        "Perplexity",
        "e to the power of the loss on held-out single sentences: between how many equally "
        "likely subwords the encoder is in "
        "doubt. It depends on the vocabulary and on how much is hidden, so compare it only "
        "between runs that share both.",
    ),
    (
        "Held-out retrieval, P@1",
        "For each held-out pair, whether the sentence of the second language that is nearest "
        "to the sentence of "
        "the first is its translation: cosine of the mean vectors of the ordinary tokens, "
        "among the held-out sentences of the same source "
        "and pair. Chance is 1/n. Intervals are Wilson’s (1927).",
    ),
)


def training_page(folder: str | Path) -> str:
    """The report of a training run, finished or not.

    Raises
    ------
    InputError: the folder holds no training run.
    StoreError: one of its files is damaged.
    """
    run, numbering = load_training(folder), Numbering()
    with plain_style():
        parts = [
            _headline(run, numbering),
            learning_section(run),
            retrieval_section(run, numbering),
            _made(run),
        ]
    return document(_title(run), parts)


def _title(run: Training) -> str:
    return f"Training of {run.name}"


def _headline(run: Training, numbering: Numbering) -> str:
    findings, told = (
        _findings(run),
        [sentence for sentence in (*_sentences(run), retrieval_sentence(run)) if sentence],
    )
    lead, nothing = _overview(run, numbering), "Nothing has been logged yet."
    return headline(
        _title(run),
        lead,
        told,
        _facts(run),
        _notes(run),
        [*findings, *retrieval_findings(run)],
        nothing,
    )


def _overview(run: Training, numbering: Numbering) -> str:
    """Loss, held-out perplexity and held-out retrieval over tokens; empty where nothing is
    logged."""
    panels = [
        loss_panel(run, numbering),
        perplexity_panel(run, numbering),
        retrieval_overview(run, numbering),
    ]
    panels = [part for part in panels if part]
    reading = (
        "lower is better for the loss, which is measured on the text that the weights are "
        "fitted to (each logged value is the mean over "
        "all masked tokens since the one before; a noisy one has its centred running mean in "
        "blue), and for the perplexity of each "
        "language on held-out sentences (n, sentences; equal steps upwards are equal factors; "
        "languages are not comparable with each "
        "other, as their texts differ). The vertical axes of both do not start at 0. Higher "
        "is better for held-out retrieval."
    )
    return figure(numbering, "Training over tokens seen.", reading, "", panels) if panels else ""


def _sentences(run: Training) -> list[str]:
    """What came out of the training, in a sentence or two, as HTML."""
    told = []
    losses = [point for point in run.points if math.isfinite(point.loss)]
    if losses:
        first, last = losses[0], losses[-1]
        even = (
            f"; guessing evenly over the vocabulary gives {decimal(math.log(run.vocabulary), 2)}"
            if run.vocabulary
            else ""
        )
        if len(losses) > 1:
            lead = tag("strong", f"{decimal(first.loss, 2)} to {decimal(last.loss, 2)} nats")
            went = f"went from {lead} per masked token in {last.step:,} steps"
        else:
            lead = tag("strong", f"{decimal(last.loss, 2)} nats")
            went = f"is {lead} per masked token at step {last.step:,}"
        told.append(f"The training loss {went}{even}.")
    if run.validations and not math.isnan(run.validations[-1].mean_perplexity):
        start, end = run.validations[0].mean_perplexity, run.validations[-1]
        over = f", the mean of {len(end.perplexity)} languages," if len(end.perplexity) > 1 else ""
        since = "" if len(run.validations) < 2 or math.isnan(start) else f", from {shown(start)}"
        if since and start > end.mean_perplexity:
            since = f", down from {shown(start)}"
        told.append(
            f"Held-out perplexity{over} is {tag('strong', shown(end.mean_perplexity))} "
            f"{at(end)}{since}."
        )
    return told


def _facts(run: Training) -> dict[str, str]:
    step, tokens = run.done
    encoder = run.settings.get("encoder")
    shape = encoder if isinstance(encoder, dict) else {}
    words = (("layers", "layer"), ("hidden_size", "dimension"), ("heads", "head"))
    rates = [point.rate for point in run.points if math.isfinite(point.rate)]
    asked = run.settings.get("vocabulary")
    size = f"{run.vocabulary:,} subwords" if run.vocabulary else "not known yet"
    if not run.vocabulary and isinstance(asked, dict) and isinstance(asked.get("size"), int):
        size += f" ({asked['size']:,} asked for)"
    of = f" of {run.steps:,} ({100 * step / run.steps:.0f} %)" if run.steps else ""
    return {
        "Languages": join([named(language(code)) for code in run.languages()]) or "not recorded",
        "Sources": join(list(map(named, run.sources()))) or "not recorded",
        "Steps": f"{step:,}{of}",
        "Tokens seen": f"{tokens:,.0f}, counting sentence marks and not padding",
        "Encoder": join([_some(shape[key], word) for key, word in words if key in shape])
        or "not recorded",
        "Parameters": f"{run.parameters:,} in model/model.safetensors"
        if run.parameters
        else "known once the model is written",
        "Vocabulary": size,
        "Seed": text(run.settings.get("seed", "not recorded")),
        "Throughput": (
            f"median {statistics.median(rates):,.0f} tokens/s ({plural(len(rates), 'log line')})"
        )
        if rates
        else "not logged yet",
    }


def _some(count: Any, what: str) -> str:
    """So many of something, as HTML; a recipe may say anything."""
    return plural(count, what) if isinstance(count, int) else text(f"{count} {what}s")


def _notes(run: Training) -> list[str]:
    step, _ = run.done
    notes = []
    if not run.finished:
        of = f" of {run.steps:,}" if run.steps else ""
        if not step:
            so_far = "nothing is logged yet"
        elif step == run.steps:
            so_far = f"all {step:,} steps are logged, but the model has not been written"
        else:
            so_far = f"{step:,}{of} steps are logged"
        notes.append(
            f"This run is not finished: {so_far}. The page shows what was there when it was drawn."
        )
    half = "log.jsonl" if run.half_written else ""
    return notes + log_notes(half, run.unknown, "log.jsonl")


def _findings(run: Training) -> list[str]:
    """Sentences on what came out, as HTML."""
    found = []
    losses = [point for point in run.points if math.isfinite(point.loss)]
    if losses:
        first, last = losses[0], losses[-1]
        even = (
            f" Guessing evenly over the vocabulary would give {decimal(math.log(run.vocabulary))}."
            if run.vocabulary
            else ""
        )
        went = (
            f"went from {decimal(first.loss)} to {decimal(last.loss)}"
            if len(losses) > 1
            else f"is {decimal(last.loss)}"
        )
        lead = tag("strong", f"The training loss {went} nats per masked token")
        span = (
            f"steps {first.step:,} and {last.step:,}; {plural(len(losses), 'log line')}"
            if len(losses) > 1
            else f"step {last.step:,}"
        )
        found.append(f"{lead} ({span}).{even}")
    if run.validations and not math.isnan(run.validations[-1].mean_perplexity):
        first_one, last_one = run.validations[0], run.validations[-1]
        ordered = sorted(last_one.perplexity, key=lambda code: (last_one.perplexity[code], code))
        over = (
            f" (geometric mean over {len(ordered)} languages)"
            if len(ordered) > 1
            else f" for {text(language(ordered[0]))}"
        )
        lead = tag("strong", f"Held-out perplexity is {shown(last_one.mean_perplexity)}")
        ends = [
            f"{text(language(code))} {shown(last_one.perplexity[code])}"
            for code in (ordered[0], ordered[-1])
        ]
        spread = f" Lowest: {ends[0]}; highest: {ends[1]}." if len(ordered) > 1 else ""
        before = first_one.mean_perplexity
        since = (
            f"; it was {shown(before)} {at(first_one)}"
            if first_one is not last_one and not math.isnan(before)
            else ""
        )
        found.append(f"{lead}{over} {at(last_one)}{since}.{spread}")
    return found


def _made(run: Training) -> str:
    plain = {key: value for key, value in run.settings.items() if key != "sources"}
    rest = {
        key: value for key, value in run.config.items() if key not in ("kind", "settings", "asked")
    }
    rest |= {
        f"data.{key}": value
        for key, value in run.data.items()
        if key not in ("streams", "held_out", "left_out")
    }
    left_out = run.data.get("left_out")
    right = settings_table(
        "Sentences and pairs that were left out, by reason.", _counts(left_out)
    ) + files_table(run.folder)
    parts = [
        _sources(run),
        _streams(run),
        _subwords(run),
        tag(
            "div",
            tag("div", settings_table("The recipe (config.json, “settings”).", _flat(plain)))
            + tag("div", right),
            class_="wide",
        ),
        settings_table("Anything else in config.json and data.json.", rest) if rest else "",
        definitions(_DEFINITIONS),
    ]
    return section("made", "How this was made", *parts)


def _counts(value: Any) -> dict[str, str]:
    entries = value.items() if isinstance(value, dict) else ()
    return {str(key): f"{n:,}" if isinstance(n, int) else str(n) for key, n in entries}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings with dotted names, as the command line takes them."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= (
            _flat(value, f"{prefix}{key}.")
            if isinstance(value, dict) and value
            else {f"{prefix}{key}": value}
        )
    return flat


def _sources(run: Training) -> str:
    rows = []
    for name, entry in run.sources().items():
        texts = entry.get("texts")
        files = {code: str(path) for code, path in texts.items()} if isinstance(texts, dict) else {}
        listed = "<br>".join(
            f"{text(language(code))} ({tag('code', text(code))}): {tag('code', text(path))}"
            for code, path in files.items()
        )
        weight = (
            tag("span", f"weight {text(entry['weight'])}", class_="quiet")
            if "weight" in entry
            else ""
        )
        rows.append([f"{text(name)}<br>{weight}", listed or "–"])
    return (
        table(
            (
                "Sources: their texts, and their weights, that is, how much more often than their "
                "size alone says they are sampled from; and the beginning of the SHA-256 of each text."
            ),
            ["Source", "Texts"],
            rows,
            plain=True,
        )
        if rows
        else ""
    )


def _streams(run: Training) -> str:
    streams = run.data.get("streams")
    if not isinstance(streams, dict) or not streams:
        return paragraph(
            "What is trained on has not been counted yet (data.json is not there, or empty).",
            "quiet",
        )
    held = run.data.get("held_out")
    names = dict.fromkeys([*streams, *(held if isinstance(held, dict) else ())])
    rows = []
    for name in names:
        entry = streams.get(name)
        facts = entry if isinstance(entry, dict) else {}
        drawn, n = facts.get("drawn"), run.held_out(name)
        share = f"{100 * drawn:.2f} %" if isinstance(drawn, (int, float)) else "–"
        rows.append(
            [
                text(run.called(name)),
                *(_count(facts.get(key)) for key in ("items", "tokens")),
                share,
                "–" if n is None else f"{n:,}",
            ]
        )
    head = ["Stream", "Sentences or pairs", "Tokens", "Share of the steps", "Held out"]
    return table(
        "What batches are sampled from (data.json): single sentences for MLM, pairs for TLM.",
        head,
        rows,
    )


def _subwords(run: Training) -> str:
    """How many subwords each language uses, or nothing where that was not counted."""
    rows = [
        [
            named(language(code)),
            f"{of['vocabulary']:,}",
            f"{of['used']:,}",
            f"{100 * of['used'] / of['vocabulary']:.1f} %",
            f"{of['cover_99']:,}",
            f"{of['tokens']:,}",
        ]
        for code, of in run.subwords_used().items()
    ]
    head = ["Language", "Vocabulary", "Used", "Share", "For 99 % of its tokens", "Tokens"]
    caption = (
        "Subwords of the vocabulary that the training text of each language uses at least once, "
        "and the fewest that make 99 % of its tokens (data.json). Languages with one vocabulary "
        "have it in common: what one of them uses, another may use, too."
    )
    return table(caption, head, rows) if rows else ""


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def training_figure(folder: str | Path) -> str:
    """Loss and mean held-out perplexity of a training run as the text of one SVG file, for a model
    card.

    Raises
    ------
    InputError: the folder holds no training run, or nothing is logged yet.
    StoreError: one of its files is damaged.
    """
    run = load_training(folder)
    if not any(math.isfinite(point.loss) for point in run.points):
        refuse(
            "folder",
            "a training run with a logged loss",
            f"{folder} without one",
            "wait for the first line of log.jsonl",
        )
    unit, x_label = token_axis(run)
    parts: list[tuple[str, Sequence[Line], str, Axis]] = [
        ("Training loss", loss_lines(run, unit), x_label, Axis("nats per masked token"))
    ]
    last = run.points[-1]
    label = (
        f"Training of {run.name}: loss {decimal(last.loss)} nats per masked token after "
        f"{last.tokens:,.0f} tokens"
    )
    values = [finite_of(validation.mean_perplexity) for validation in run.validations]
    if any(not math.isnan(value) for value in values):
        codes = len(validated(run))
        over = f" (mean of {codes} languages)" if codes > 1 else ""
        y_label = f"{'geometric mean' if codes > 1 else 'perplexity'} (log scale)"
        line = Line(
            [v.tokens / unit for v in run.validations],
            values,
            Style("#d55e00", marker="o", width=2.0),
        )
        parts.append((f"Held-out perplexity{over}", [line], x_label, Axis(y_label, log=True)))
        final = next(value for value in reversed(values) if not math.isnan(value))
        label += f"; held-out perplexity{over}: {decimal(final, 1)}"
    with plain_style():
        return series_image(label, parts)
