"""The page of an emergence run: when alignment appeared without parallel text, and what had to be
shared for it."""

import dataclasses
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from crosslens.report.folders.emergence import (
    CONDITIONS,
    Check,
    Condition,
    Emergence,
    above_chance,
    by_frequency,
    chance_of,
    load_emergence,
)
from crosslens.report.folders.study import Curve
from crosslens.report.folders.training import smoothed
from crosslens.report.parts.curves import layer_curves
from crosslens.report.parts.drawing import (
    Axis,
    Line,
    Style,
    plain_style,
    series_panel,
    series_style,
    upper_limit,
)
from crosslens.report.parts.layout import (
    Numbering,
    document,
    figure,
    files_table,
    flow,
    headline,
    legend,
    panel,
    section,
    settings_table,
    table,
)
from crosslens.report.parts.wording import (
    count_of,
    decimal,
    estimate,
    join,
    language,
    named,
    paragraph,
    plural,
    tag,
    text,
)
from crosslens.report.sections.training_words import token_axis
from crosslens.score import Score

__all__ = ["emergence_page"]

_TITLE = "Emergence of alignment without parallel text"
_STYLES = {
    name: dataclasses.replace(series_style(place), band=True)
    for place, name in enumerate(CONDITIONS)
}
_CHANCE = Style("#000000", dash="dotted", width=1.1)
_LEVELS = (0.1, 0.5, 0.8)
_SIMILARITY = {"debiased_linear_cka": "debiased", "linear_cka": "biased"}
_DEFINITIONS = (
    (
        "Transliteration",
        "The same text written with other characters: every subword of English has one subword of "
        "the copy that means the "
        "same, and no subword occurs in both. So every translation of a subword is known, and "
        "nothing but the structure of the text links the "
        "two. Such a copy as a second language: K et al. 2020, “Cross-lingual ability of "
        "multilingual BERT: an empirical study”.",
    ),
    (
        "Token alignment, P@1",
        "The fraction of subwords whose nearest subword of the other language, by cosine of the "
        "token embeddings and "
        "among all its subwords, is their copy. Nothing is mapped or rotated before. Chance is 1/n.",
    ),
    (
        "Frequency alone",
        "Embeddings tell how frequent a subword is, and where the languages share the head’s "
        "transform they tell it in one "
        "direction, so that subwords of like frequency are neighbours. The P@1 to be expected "
        "of that alone is the mean over shuffles of the "
        "subwords’ names among subwords of about the same frequency (groups of about 20).",
    ),
    (
        "Sentence retrieval, P@1",
        "The fraction of held-out sentences whose nearest sentence of the other language, by "
        "cosine of their "
        "vectors at one layer, is their copy. Chance is 1/n.",
    ),
    (
        "Linear CKA",
        "How alike the geometry of a layer is in the two languages, whatever the rotation: "
        "Kornblith et al. 2019, "
        "“Similarity of neural network representations revisited”. The debiased version uses "
        "the unbiased estimate of HSIC (Song et al. "
        "2012).",
    ),
    (
        "Intervals",
        "95 %. Those of fractions are Wilson’s (1927) and treat subwords, or sentences, as "
        "independent; they say nothing about "
        "another seed. Those of CKA are what the run recorded.",
    ),
    (
        "Loss and perplexity",
        "The loss is the negative natural logarithm of the probability given to a hidden "
        "subword, averaged over hidden "
        "subwords (nats); perplexity is e to the power of the loss on held-out text.",
    ),
)


def emergence_page(folder: str | Path) -> str:
    """The report of an emergence run as HTML, finished or not.

    Parameters
    ----------
    folder: has ``config.json`` of kind "emergence", a folder with ``log.jsonl`` for each condition
        that has begun ("shared", "half", "none"), and ``scores.jsonl`` once the run has ended.

    Returns
    -------
    One page that loads nothing. Alignment and P@1 are fractions, tokens count what was read so far,
    and times are training time.

    Raises
    ------
    InputError: the folder holds no emergence run.
    StoreError: one of its files is damaged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "config.json").write_text('{"kind": "emergence", "settings": {}}')
    ...     "This run is not finished" in emergence_page(folder)
    True
    """
    run, numbering = load_emergence(folder), Numbering()
    with plain_style():
        parts = [
            _headline(run, numbering),
            _sharing(run),
            _alignment(run),
            _learning(run, numbering),
            _layers(run, numbering),
            _cost(run),
            _made(run),
        ]
    return document(_TITLE, parts)


# ---------------------------------------------------------------- the head


def _headline(run: Emergence, numbering: Numbering) -> str:
    facts = {
        "Question": (
            "Do two languages with no subword in common become aligned by masked language modelling "
            "alone, and what must they share?"
        ),
        "Languages": join([named(language(code)) for code in run.languages() or ["eng", "eng-x"]])
        + ": real English and its transliteration",
        "Conditions": "; ".join(f"{name}: {meaning}" for name, meaning in CONDITIONS.items()),
        "Pieces": join(
            [
                text(f"{count_of([s])} ({_way(way)})")
                for way in run.directions()
                if (s := _first(run, way))
            ]
        )
        or "not measured yet",
        "Seed": text(run.settings.get("seed", "not recorded")),
    }
    nothing = "Alignment has not been measured yet."
    return headline(
        _TITLE,
        _overview(run, numbering),
        _sentences(run),
        facts,
        _notes(run),
        _findings(run),
        nothing,
    )


def _sentences(run: Emergence) -> list[str]:
    """At most three sentences on what came out in each condition, as HTML."""
    told = []
    for condition in run.conditions:
        ways = {
            way: s
            for way in run.directions()
            if (s := condition.aligned(way)) and not math.isnan(s.value)
        }
        if ways:
            shown = tag("strong", f"P@1 {join([decimal(s.value) for s in ways.values()])}")
            above = [above_chance(score) for score in ways.values()]
            clear = (
                "clearly above chance"
                if all(above)
                else "in part clearly above chance"
                if any(above)
                else "not clearly above chance"
            )
            beside = _beside_frequency(list(ways.values())) if all(above) else ""
            known = (
                clear + text(beside)
                if all(score.n for score in ways.values())
                else "n not recorded"
            )
            told.append(
                f"{text(f'“{condition.name}” ({CONDITIONS[condition.name]})')}, alignment is "
                f"{shown}: {known}"
            )
    # sentences that a page begins with
    three = [*told[:2], "; with ".join(told[2:])] if len(told) > 3 else told
    return [f"With {one}." for one in three]


def _notes(run: Emergence) -> list[str]:
    notes = []
    if not run.finished:
        told = [f"{c.name} is at step {c.done[0]:,} ({_tokens(c.done[1])})" for c in run.conditions]
        waiting = [name for name in CONDITIONS if name not in {c.name for c in run.conditions}]
        so_far = join(told) if told else "nothing is logged yet"
        later = (
            f", and {join(waiting)} {'has' if len(waiting) == 1 else 'have'} not begun"
            if waiting and told
            else ""
        )
        notes.append(
            f"This run is not finished: {so_far}{later}. The page shows what was there when "
            f"it was drawn."
        )
    half = [c.name for c in run.conditions if c.half_written]
    if half:
        notes.append(
            f"The last line of the log of {join(half)} is only half written and was passed over."
        )
    unknown = sum(c.unknown for c in run.conditions)
    if unknown:
        notes.append(
            f"{plural(unknown, 'line')} of the logs could not be understood and "
            f"{'is' if unknown == 1 else 'are'} not shown."
        )
    if run.undrawn:
        notes.append(
            f"{plural(run.undrawn, 'measurement')} of scores.jsonl "
            f"{'has' if run.undrawn == 1 else 'have'} no place on this page."
        )
    return notes


def _findings(run: Emergence) -> list[str]:
    """A sentence per condition on what came out, as HTML."""
    found = []
    for condition in run.conditions:
        ways = {
            way: score
            for way in run.directions()
            if (score := condition.aligned(way)) and not math.isnan(score.value)
        }
        if not ways:
            continue
        (way, first), *others = ways.items()
        lead = tag(
            "strong",
            (
                f"{text(condition.name)}: P@1 {decimal(first.value)} after "
                f"{_tokens(condition.done[1])}"
            ),
        )
        within = (
            f" [{decimal(first.low)}, {decimal(first.high)}]"
            if first.low is not None and first.high is not None
            else ""
        )
        told = [
            f"{_way(way)}{within}",
            *(f"{_way(other)} {estimate(score)}" for other, score in others),
            count_of(ways.values()),
        ]
        chance = chance_of(first)
        told += [f"chance {decimal(chance, 4)}"] if chance else []
        told += [f"{_minutes(condition.seconds)} of training"] if condition.seconds else []
        words = [_verdict(condition, list(ways.values())), *_still_shared(condition)]
        found.append(f"{lead} ({text('; '.join(told))}). {text(' '.join(words))}")
    return found


def _still_shared(condition: Condition) -> list[str]:
    """A sentence on what the two languages have in common, where the run has said it."""
    if not condition.sharing:
        return []
    shared = [f"layer {part}" if part.isdigit() else part for part in condition.shared]
    return [
        f"The languages share {join(shared)}." if shared else "The languages share no parameter."
    ]


def _verdict(condition: Condition, scores: Sequence[Score]) -> str:
    """Whether a condition has left chance, and when."""
    if not any(score.n for score in scores):
        return "Whether that is above chance cannot be told, as n is not recorded."
    above = [above_chance(score) for score in scores]
    if not all(above):
        return f"It is {'not' if not any(above) else 'only in one direction'} clearly above chance."
    left = condition.left_chance()
    since = f" and has been in every check since {_tokens(left.tokens)}" if left else ""
    return f"It is clearly above chance{since}{_beside_frequency(scores)}."


def _beside_frequency(scores: Sequence[Score]) -> str:
    """The end of a sentence: whether it is more than frequency explains."""
    levels = {
        level: score.low is not None and score.low > level
        for score in scores
        if (level := by_frequency(score)) is not None
    }
    if not levels:
        return ""
    told = (
        f"the {decimal(max(levels), 4)} of embeddings that tell how frequent a subword is and "
        f"nothing else"
    )
    return f", and above {told}" if all(levels.values()) else f", but not clearly above {told}"


def _sharing(run: Emergence) -> str:
    """Part by part what each condition shares, as counted in the models that were trained."""
    title, told = "What is shared", [condition for condition in run.conditions if condition.sharing]
    if not told:
        return section(
            "sharing",
            title,
            paragraph("This run has not recorded which parameters the languages share."),
        )
    parts = dict.fromkeys(part for condition in told for part in condition.sharing)
    rows = []
    for part in parts:
        owners = [condition.sharing.get(part, {}) for condition in told]
        size = max(max(counts.values(), default=0) for counts in owners)
        cells = ["shared" if counts.get("") else "own" if counts else "–" for counts in owners]
        rows.append([text(f"layer {part}" if part.isdigit() else part), f"{size:,}", *cells])
    caption = (
        "Which parameters the two languages share, counted in the models of this run "
        "(sharing.json): “own” means that each language has "
        "its own, so many each. Matrices of its own start from random values of their own; "
        "biases start at 0 and gains of norms at 1."
    )
    return section(
        "sharing",
        title,
        table(caption, ["Part", "Parameters", *(text(condition.name) for condition in told)], rows),
    )


def _first(run: Emergence, way: str) -> Score | None:
    return next((score for c in run.conditions if (score := c.aligned(way))), None)


def _way(direction: str) -> str:
    return " → ".join(map(language, direction.split(">")))


def _tokens(count: float) -> str:
    return f"{count / 1e6:.1f} million tokens" if count >= 1e6 else f"{count:,.0f} tokens"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if math.isfinite(seconds) else "time not recorded"


# ---------------------------------------------------------------- alignment


def _alignment(run: Emergence) -> str:
    title = "Alignment of the token embeddings"
    if not run.directions():
        return section("alignment", title, paragraph("No check of this run has measured it yet."))
    intro = (
        "The two languages share no subword, and the encoder never sees which subword belongs to "
        "which. At every check each subword’s nearest "
        "subword of the other language is looked up: where it is the same subword, written in the "
        "other script, it counts as found."
    )
    return section("alignment", title, paragraph(text(intro)), _milestones(run))


def _overview(run: Emergence, numbering: Numbering) -> str:
    """Alignment over tokens, a panel for each direction; empty where nothing was measured."""
    ways = run.directions()
    scores = [s for c in run.conditions for check in c.checks for s in check.alignment.values()]
    top = upper_limit([dict(enumerate(scores))])
    panels = [
        _alignment_panel(
            run, numbering, way, Axis("P@1 (fraction of subwords)", (-0.025 * top, 1.01 * top))
        )
        for way in ways
    ]
    reading = (
        "higher is better; each line is one training, its band the 95 % interval over subwords, "
        "and the dotted line is chance, 1/n. A line "
        "that rises says that the embeddings of the two languages have come to lie alike, "
        "though nothing tells the encoder to do so."
    )
    return (
        figure(
            numbering, "Alignment over tokens seen.", reading, _key(run, ["chance, 1/n"]), panels
        )
        if panels
        else ""
    )


def _key(run: Emergence, extra: Sequence[str] = (), *, band: bool = True) -> str:
    entries = [
        (dataclasses.replace(_STYLES[c.name], band=band), f"{c.name}: {CONDITIONS[c.name]}")
        for c in run.conditions
    ]
    return legend(entries + [(_CHANCE, words) for words in extra], sticky=False)


def _alignment_panel(run: Emergence, numbering: Numbering, way: str, axis: Axis) -> str:
    unit, x_label = token_axis(run)
    lines, said, missing, all_scores = [], [], [], []
    for condition in run.conditions:
        checks = [check for check in condition.checks if way in check.alignment]
        scores = [check.alignment[way] for check in checks]
        if not scores:
            continue
        all_scores += scores
        low, high = (
            [math.nan if end is None else end for end in ends]
            for ends in ([s.low for s in scores], [s.high for s in scores])
        )
        lines.append(
            Line(
                [check.tokens / unit for check in checks],
                [s.value for s in scores],
                _STYLES[condition.name],
                low,
                high,
            )
        )
        finite = [s.value for s in scores if not math.isnan(s.value)]
        said.append(f"{condition.name} {_ends(finite)}")
        missing += _gaps(
            condition.name, [c for c, s in zip(checks, scores, strict=True) if math.isnan(s.value)]
        )
    n = count_of(s for s in all_scores if s.n)
    label = (
        f"Alignment P@1 over tokens seen, {_way(way)}, {n}, first to last check: {'; '.join(said)}"
    )
    level = next((chance for s in all_scores if (chance := chance_of(s))), None)
    return panel(
        _way(way),
        n,
        series_panel(numbering.panel(), label, lines, x_label, axis, level),
        missing=missing,
    )


def _ends(finite: Sequence[float]) -> str:
    return f"{decimal(finite[0], 2)} to {decimal(finite[-1], 2)}" if finite else "no numbers"


def _gaps(what: str, checks: Sequence[Check]) -> list[str]:
    named = join([f"{check.step:,}" for check in checks], most=6, rest="more")
    return (
        [
            (
                f"Not drawn: {what} at step{'s' if len(checks) > 1 else ''} {named}, where the "
                f"log has no usable number."
            )
        ]
        if checks
        else []
    )


def _milestones(run: Emergence) -> str:
    rows = []
    for condition in run.conditions:
        marks = [condition.left_chance(), *(condition.reached(level) for level in _LEVELS)]
        rows.append(
            [text(condition.name), *("–" if mark is None else _when(mark) for mark in marks)]
        )
    head = ["Condition", "Above chance", *(f"P@1 {level:g}" for level in _LEVELS)]
    caption = (
        "When alignment came: million tokens (minutes of training) at the check from which on "
        "both directions’ intervals lie above chance, "
        "and at the first check at which both have reached a level. Checks are some way "
        "apart, so these are upper ends."
    )
    return table(caption, head, rows)


def _when(check: Check) -> str:
    spent = f" ({check.seconds / 60:.1f})" if math.isfinite(check.seconds) else ""
    return f"{check.tokens / 1e6:.1f}{spent}"


# ---------------------------------------------------------------- loss and perplexity


def _learning(run: Emergence, numbering: Numbering) -> str:
    title, panels = "Loss and perplexity", []
    if any(condition.points for condition in run.conditions):
        lines = {
            c.name: ([p.tokens for p in c.points], _smooth([p.loss for p in c.points]))
            for c in run.conditions
            if c.points
        }
        panels.append(
            _learning_panel(
                run, numbering, "Training loss", lines, Axis("loss (nats per masked token)")
            )
        )
    for code in run.languages():
        seen = {
            c.name: [check for check in c.checks if code in check.perplexity]
            for c in run.conditions
        }
        lines = {
            name: ([k.tokens for k in some], [k.perplexity[code] for k in some])
            for name, some in seen.items()
            if some
        }
        panels.append(
            _learning_panel(
                run,
                numbering,
                f"Held-out perplexity, {language(code)}",
                lines,
                Axis("perplexity (log scale)", log=True),
            )
        )
    if not panels:
        return section("learning", title, paragraph("Nothing has been logged yet."))
    reading = (
        "lower is better. The loss (a centred running mean, where it is noisy) is measured on "
        "the text that the weights are fitted to, the "
        "perplexity of each language on held-out text. Where conditions learn their languages "
        "equally well and differ in "
        "alignment, it is not for want of training. The vertical axes do not start at 0."
    )
    return section(
        "learning",
        title,
        figure(
            numbering,
            "Loss and perplexity over tokens seen.",
            reading,
            _key(run, band=False),
            panels,
        ),
    )


def _smooth(values: list[float]) -> list[float]:
    return smoothed(values) or values


def _learning_panel(
    run: Emergence,
    numbering: Numbering,
    title: str,
    series: dict[str, tuple[list[float], list[float]]],
    axis: Axis,
) -> str:
    unit, x_label = token_axis(run)
    lines, said, lost = [], [], 0
    for name, (tokens, values) in series.items():
        usable = [value if value > 0 else math.nan for value in values]
        finite = [value for value in usable if not math.isnan(value)]
        lost += len(usable) - len(finite)
        said.append(f"{name} {_ends(finite)}")
        look = dataclasses.replace(_STYLES[name], band=False, width=1.5)
        lines.append(Line([count / unit for count in tokens], usable, look))
    label = f"{title} over tokens seen, first to last: {'; '.join(said)}"
    missing = (
        [
            (
                f"Not drawn: {plural(lost, 'value')} of the logs that "
                f"{'is' if lost == 1 else 'are'} no usable number."
            )
        ]
        if lost
        else []
    )
    counts = sorted({len(values) for _, values in series.values()})
    what = "check" if axis.log else "log line"
    n = f"{counts[0]:,} to {counts[-1]:,} {what}s" if len(counts) > 1 else plural(counts[0], what)
    return panel(
        title, n, series_panel(numbering.panel(), label, lines, x_label, axis), missing=missing
    )


# ---------------------------------------------------------------- layers at the end


def _layers(run: Emergence, numbering: Numbering) -> str:
    title = "Layers at the end"
    parts = [_retrieval_figure(run, numbering), _similarity_figure(run, numbering)]
    if not any(parts):
        when = (
            "This run holds no measurements by layer."
            if run.finished
            else "Layers are compared once the run has ended."
        )
        return section("layers", title, paragraph(when))
    intro = (
        "Held-out sentences and their copies are compared at every layer of the finished "
        "encoders, with no alignment between them."
    )
    return section("layers", title, flow(*parts, tag("div", paragraph(intro), class_="text")))


def _retrieval_figure(run: Emergence, numbering: Numbering) -> str:
    ways = run.retrieval_directions()
    curves = {way: {c.name: c.curve("precision_at_1", way) for c in run.conditions} for way in ways}
    if not ways:
        return ""
    top = upper_limit(curve for group in curves.values() for curve in group.values())
    limits = (-0.025 * top, 1.01 * top)
    panels = [
        _layer_panel(
            numbering,
            _way(way),
            "Sentence retrieval P@1",
            group,
            limits,
            "P@1 (fraction of sentences)",
            chance=True,
        )
        for way, group in curves.items()
    ]
    reading = (
        "higher is better; for each sentence the nearest copy is looked up by cosine among "
        "all held-out copies (n, sentences), and the "
        "dotted line is chance, 1/n. Bands are 95 % intervals. Layer 0 knows no context: what "
        "it finds, it finds by single pieces."
    )
    return figure(
        numbering, "Sentence retrieval by layer.", reading, _key(run, ["chance, 1/n"]), panels
    )


def _similarity_figure(run: Emergence, numbering: Numbering) -> str:
    groups = {
        word: {c.name: c.curve(quantity) for c in run.conditions}
        for quantity, word in _SIMILARITY.items()
    }
    groups = {word: group for word, group in groups.items() if any(group.values())}
    if not groups:
        return ""
    ends = [
        end
        for g in groups.values()
        for c in g.values()
        for s in c.values()
        for end in (s.value, s.low)
        if end is not None
    ]
    lowest = min((end for end in ends if not math.isnan(end)), default=0.0)
    highest = max((end for end in ends if not math.isnan(end)), default=1.0)
    limits = (
        0.0 if lowest > -0.005 else max(-1.0, math.floor(lowest * 10) / 10),
        max(0.1, math.ceil(highest * 10 - 1e-9) / 10),
    )
    panels = [
        _layer_panel(
            numbering,
            f"Linear CKA, {word}",
            f"Linear CKA, {word}",
            group,
            limits,
            "linear CKA (no unit)",
        )
        for word, group in groups.items()
    ]
    reading = (
        "1 means that a layer’s vectors of the copies are the English ones, rotated and "
        "scaled; 0 means unrelated. CKA is blind to "
        "rotation: it may be high where retrieval, which is not, finds nothing. The biased "
        "estimate is too high when there are few "
        "sentences for the number of dimensions. Bands are 95 % intervals where the run "
        "recorded them."
    )
    return figure(numbering, "Linear CKA by layer.", reading, _key(run), panels)


def _layer_panel(
    numbering: Numbering,
    title: str,
    what: str,
    group: dict[str, Curve],
    limits: tuple[float, float],
    y_label: str,
    *,
    chance: bool = False,
) -> str:
    scores = [score for curve in group.values() for score in curve.values()]
    level = next((found for s in scores if (found := chance_of(s))), None) if chance else None
    named = [(name, _STYLES[name], curve) for name, curve in group.items()]
    return layer_curves(title, f"{what} by layer, {title}", named, limits, y_label, level).panel(
        numbering
    )


# ---------------------------------------------------------------- cost, and how it was made


def _cost(run: Emergence) -> str:
    if not run.conditions:
        return section("cost", "Cost", paragraph("Nothing has been logged yet."))
    rows = []
    for condition in run.conditions:
        step, tokens = condition.done
        rates = [point.rate for point in condition.points if math.isfinite(point.rate)]
        losses = [point.loss for point in condition.points if math.isfinite(point.loss)]
        last = condition.checks[-1].perplexity if condition.checks else {}
        rows.append(
            [
                text(condition.name),
                f"{step:,}",
                f"{tokens / 1e6:.1f}",
                f"{condition.seconds / 60:.1f}" if condition.seconds else "–",
                f"{statistics.median(rates):,.0f}" if rates else "–",
                decimal(losses[-1]) if losses else "–",
                *(
                    "–" if math.isnan(last.get(code, math.nan)) else decimal(last[code], 1)
                    for code in run.languages()
                ),
            ]
        )
    head = [
        "Condition",
        "Steps",
        "Tokens<br>(million)",
        "Minutes",
        "Tokens/s<br>(median)",
        "Last loss",
    ]
    head += [f"Perplexity<br>{text(language(code))}" for code in run.languages()]
    caption = (
        "What each condition cost so far, and where it stands: training time as logged, summed "
        "over resumptions."
    )
    return section("cost", "Cost", table(caption, head, rows))


def _made(run: Emergence) -> str:
    rest = {
        key: value for key, value in run.config.items() if key not in ("kind", "settings", "asked")
    }
    left = settings_table("The recipe (config.json, “settings”).", run.settings)
    right = files_table(run.folder) + (
        settings_table("Anything else in config.json.", rest) if rest else ""
    )
    parts = [
        tag("div", tag("div", left) + tag("div", right), class_="wide"),
        tag("h3", "Definitions"),
        tag(
            "ul",
            "".join(
                tag("li", f"<strong>{text(name)}.</strong> {text(meaning)}")
                for name, meaning in _DEFINITIONS
            ),
        ),
    ]
    return section("made", "How this was made", *parts)
