"""The page of an emergence run: when alignment appeared without parallel text, and what had to be
shared for it."""

import math
from collections.abc import Sequence
from pathlib import Path

from crosslens.progress import duration
from crosslens.report.folders.emergence import (
    CONDITIONS,
    Condition,
    Emergence,
    above_chance,
    by_frequency,
    chance_of,
    load_emergence,
)
from crosslens.report.parts.drawing import plain_style
from crosslens.report.parts.layout import (
    Numbering,
    definitions,
    document,
    files_table,
    headline,
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
from crosslens.report.sections.emergence_alignment import alignment_overview, alignment_section
from crosslens.report.sections.emergence_layers import layers_section
from crosslens.report.sections.emergence_learning import cost_section, learning_section
from crosslens.report.sections.emergence_words import tokens_of, way_of
from crosslens.report.sections.training_words import log_notes
from crosslens.score import Score

__all__ = ["emergence_page"]

_TITLE = "Emergence of alignment without parallel text"
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
            alignment_section(run),
            learning_section(run, numbering),
            layers_section(run, numbering),
            cost_section(run),
            _made(run),
        ]
    return document(_TITLE, parts)


def _headline(run: Emergence, numbering: Numbering) -> str:
    facts = {
        "Question": (
            "Do two languages with no subword in common become aligned by masked language modelling "
            "alone, and what must they share?"
        ),
        "Languages": join([named(language(code)) for code in run.languages() or ["eng", "eng-x"]])
        + ": real English and its transliteration",
        "Conditions": "; ".join(f"{name}: {meaning}" for name, meaning in CONDITIONS.items()),
        "Subwords": join(
            [
                text(f"{count_of([s])} ({way_of(way)})")
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
        alignment_overview(run, numbering),
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
        told = [
            f"{c.name} is at step {c.done[0]:,} ({tokens_of(c.done[1])})" for c in run.conditions
        ]
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
    half = join([c.name for c in run.conditions if c.half_written])
    unknown = sum(c.unknown for c in run.conditions)
    notes += log_notes(f"the log of {half}" if half else "", unknown, "the logs")
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
                f"{tokens_of(condition.done[1])}"
            ),
        )
        within = (
            f" [{decimal(first.low)}, {decimal(first.high)}]"
            if first.low is not None and first.high is not None
            else ""
        )
        told = [
            f"{way_of(way)}{within}",
            *(f"{way_of(other)} {estimate(score)}" for other, score in others),
            count_of(ways.values()),
        ]
        chance = chance_of(first)
        told += [f"chance {decimal(chance, 4)}"] if chance else []
        told += [f"{duration(condition.seconds)} of training"] if condition.seconds else []
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
    since = f" and has been in every check since {tokens_of(left.tokens)}" if left else ""
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
        definitions(_DEFINITIONS),
    ]
    return section("made", "How this was made", *parts)
