"""Minimal pairs in the report: accuracy by category against chance, averages, and the table of what
was covered."""

import dataclasses
import math
from collections.abc import Iterable, Sequence

from crosslens.report.folders.probes import ProbeRuns, Subject, of_seeds
from crosslens.report.parts.drawing import Style
from crosslens.report.parts.layout import (
    Numbering,
    figure,
    flow,
    folded,
    legend,
    panel,
    section,
    table,
    value_cell,
    words_cell,
)
from crosslens.report.parts.wording import (
    count_of,
    decimal,
    estimate,
    join,
    missing_reason,
    named,
    paragraph,
    plural,
    spoken_value,
    tag,
    text,
)
from crosslens.report.sections.probes_drawing import (
    DOT_STYLES,
    Dots,
    dot_panel,
    fraction_ends,
    one_each,
)
from crosslens.report.sections.probes_printed import printed_table
from crosslens.score import Score

__all__ = ["pair_averages", "pair_findings", "pair_section", "pair_sentences", "pair_tasks"]

_ALL = "all pairs"
_CHANCE = 0.5
_ROWS = 25  # categories in a panel
_RANDOM = Style("#8a9097", marker="x")


@dataclasses.dataclass(frozen=True)
class _Result:
    """One encoder by one method: category -> accuracy, average -> accuracy; the same of the random
    encoder."""

    subject: Subject
    method: str
    categories: dict[str, Score]
    averages: dict[str, Score]
    random: dict[str, Score]


def pair_tasks(runs: ProbeRuns) -> list[str]:
    """The tasks of minimal pairs that were measured."""
    return list(
        dict.fromkeys(score.task or "" for rows in runs.pair_rows.values() for score in rows)
    )


def _results(runs: ProbeRuns, task: str) -> dict[str, list[_Result]]:
    """By method, the results of each encoder."""
    found: dict[str, list[_Result]] = {}
    for subject, rows in runs.pair_rows.items():
        mine = [
            score
            for score in rows
            if score.task == task and score.quantity in ("accuracy", "macro_accuracy")
        ]
        for method in dict.fromkeys(_detail(score, "method") for score in mine):
            here = [score for score in mine if _detail(score, "method") == method]
            own = [score for score in here if score.condition is None]
            categories = {
                _detail(score, "category"): score for score in own if _detail(score, "category")
            }
            averages = {_average(score): score for score in own if not _detail(score, "category")}
            random = {
                _detail(s, "category") or _average(s): s
                for s in here
                if s.condition == "random_encoder"
            }
            if own:
                found.setdefault(method, []).append(
                    _Result(subject, method, categories, averages, random)
                )
    return found


def pair_averages(runs: ProbeRuns) -> list[tuple[str, Subject, str, str, Score, Score | None]]:
    """(task, encoder, method, what is averaged, accuracy, that of the random encoder) for every
    average."""
    found = []
    for task in pair_tasks(runs):
        for method, results in _results(runs, task).items():
            for result in results:
                found += [
                    (task, result.subject, method, n, score, result.random.get(n))
                    for n, score in result.averages.items()
                ]
    return found


def _detail(score: Score, name: str) -> str:
    return getattr(score.evidence, name) or ""


def _average(score: Score) -> str:
    return _detail(score, "average") or _ALL


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _standing(score: Score) -> str:
    """Where an accuracy lies: "above" or "below" chance with its whole interval, or "unclear"."""
    if score.low is None or score.high is None:
        return "unclear"
    return "above" if score.low > _CHANCE else "below" if score.high < _CHANCE else "unclear"


def pair_sentences(runs: ProbeRuns) -> list[str]:
    """The averages of a page on minimal pairs alone, in at most three sentences (HTML)."""
    told = []
    for task, subject, method, name, score, random in pair_averages(runs):
        if not math.isnan(score.value):
            who = f"{named(subject.label)}, " if len(runs.subjects) > 1 else ""
            beside = (
                ""
                if random is None or math.isnan(random.value)
                else f", {decimal(random.value)} with random weights"
            )
            lead = tag("strong", f"accuracy {decimal(score.value)}")
            told.append(
                f"{text(runs.title(task))}, {who}{text(_spoken(method))}, "
                f"{text(_spoken(name))}: {lead}{beside}; chance 0.5."
            )
    return told[-3:]


def pair_findings(runs: ProbeRuns) -> list[str]:
    """One entry (HTML) for each task: averages, categories that are at chance or below, and
    coverage."""
    found = []
    for task in pair_tasks(runs):
        told = [
            _told(result, len(runs.subjects) > 1)
            for results in _results(runs, task).values()
            for result in results
        ]
        if told:
            found.append(f"{tag('strong', text(runs.title(task)) + ':')} {one_each(told)}")
    return found


def _told(result: _Result, many: bool) -> str:
    computed = {
        name: score for name, score in result.categories.items() if not math.isnan(score.value)
    }
    who = (
        text(
            ", ".join(filter(None, (result.subject.label if many else "", _spoken(result.method))))
        )
        + ": "
    )
    told = {name: score for name, score in result.averages.items() if not math.isnan(score.value)}
    averages = [
        f"{text(_spoken(name))} {text(estimate(score))}{_size(score)}"
        for name, score in told.items()
    ]
    sentences = [f"accuracy {tag('strong', join(averages))}." if averages else ""]
    missing = [
        f"{_spoken(n)}{_size(s)}: {missing_reason(s)}"
        for n, s in result.averages.items()
        if n not in told
    ]
    sentences.append(
        text(f"No average could be computed of {'; '.join(missing)}.") if missing else ""
    )
    stands = {name: _standing(score) for name, score in computed.items()}
    above = [name for name, stand in stands.items() if stand == "above"]
    if computed:
        scale = f"{len(above)} of {len(computed)} categories"
        sentences.append(
            f"{count_of(computed.values())} pairs a category; clearly above chance (0.5) in "
            f"{scale}."
        )
        for stand, words in (("unclear", "not clearly above chance"), ("below", "below chance")):
            names = [_spoken(name) for name, there in stands.items() if there == stand]
            sentences.append(
                (
                    f"{tag('strong', words[0].upper() + words[1:])} in "
                    f"{text(join(names, most=6, rest='more'))}."
                )
                if names
                else ""
            )
    sentences += [_beside_random(result, computed), _coverage(result.categories.values())]
    return who + " ".join(sentence for sentence in sentences if sentence)


def _size(score: Score) -> str:
    """What an average is over."""
    return f" {_mean_of(score)}" if _mean_of(score) else f" ({count_of([score])} pairs)"


def _beside_random(result: _Result, computed: dict[str, Score]) -> str:
    if not result.random:
        return "No random encoder was measured."
    both = [
        (score, result.random[name]) for name, score in computed.items() if name in result.random
    ]
    clear = sum(
        1
        for mine, other in both
        if None not in (mine.low, other.high) and (mine.low or 0) > (other.high or 0)
    )
    return (
        f"It is clearly above the random encoder in {clear} of {len(both)} categories."
        if both
        else ""
    )


def _counts(score: Score) -> tuple[int, int] | None:
    """Pairs, and how many of them were scored."""
    told = score.evidence
    covered = score.n if told.covered is None else told.covered
    return (told.pairs, covered) if told.pairs is not None and told.pairs > 0 else None


def _coverage(scores: Iterable[Score]) -> str:
    counts = [pair for score in scores if (pair := _counts(score)) is not None]
    pairs, covered = sum(pair[0] for pair in counts), sum(pair[1] for pair in counts)
    return (
        f"{covered:,} of {pairs:,} pairs could be scored ({100 * covered / pairs:.1f} %)."
        if pairs
        else ""
    )


def pair_section(runs: ProbeRuns, tasks: Sequence[str], numbering: Numbering, key: str) -> str:
    """The whole section of a task, in one language or in several."""
    if len(tasks) > 1:
        return _languages_section(runs, tasks, key)
    (task,) = tasks
    parts, about = [], paragraph(text(runs.about(task)))
    for method, results in _results(runs, task).items():
        tables = [
            _left_out(result) + _table(runs.title(task), result, len(runs.subjects) > 1)
            for result in results
        ]
        parts.append(tag("h3", text(_spoken(method) or "Method not recorded")))
        parts.append(
            flow(
                _figure(runs.title(task), method, results, numbering),
                tag("div", "".join(tables), class_="text"),
            )
        )
    return section(key, runs.title(task), *parts, about, _printed(runs, task))


def _printed(runs: ProbeRuns, task: str) -> str:
    """What papers print by category and on average."""
    names = dict.fromkeys(
        name
        for results in _results(runs, task).values()
        for result in results
        for name in (*result.categories, *result.averages)
    )
    told = {_spoken(name): f"{runs.base(task)}, {name}" for name in names}
    return printed_table(told, ("accuracy", "macro_accuracy"))


def _languages_section(runs: ProbeRuns, tasks: Sequence[str], key: str) -> str:
    """A row for each language, and its categories on demand."""
    rows, many, details = [], len(runs.subjects) > 1, []
    for task in tasks:
        for result in (one for results in _results(runs, task).values() for one in results):
            if (whole := result.averages.get(_ALL)) is not None:
                counts = _counts(whole)
                cells = (
                    [f"{counts[0]:,}", f"{counts[1]:,}", f"{100 * counts[1] / counts[0]:.1f}"]
                    if counts
                    else ["–"] * 3
                )
                who = [words_cell(result.subject.label)] if many else []
                rows.append(
                    [
                        words_cell(runs.tested_on(task)),
                        *who,
                        *cells,
                        value_cell(whole),
                        value_cell(result.random.get(_ALL)),
                    ]
                )
            title = ", ".join((runs.tested_on(task), *([result.subject.label] if many else [])))
            details.append(folded(title, _left_out(result), _table(runs.title(task), result, many)))
    head = [
        "Language",
        *(["Encoder"] if many else []),
        "Pairs",
        "Covered",
        "Per cent",
        "Accuracy",
        "Random encoder",
    ]
    called = runs.title(runs.base(tasks[0]))
    shown = table(
        (
            f"{called}: accuracy on the covered pairs of each language, with 95 % intervals; "
            f"chance is 0.5."
        ),
        head,
        rows,
    )
    return section(key, called, paragraph(text(runs.about(tasks[0]))), shown, *details)


def _figure(called: str, method: str, results: list[_Result], numbering: Numbering) -> str:
    names = list(
        dict.fromkeys(name for result in results for name in (*result.categories, *result.averages))
    )
    single = len(results) == 1
    rows: list[tuple[Style, str, list[Score | None]]] = []
    for place, result in enumerate(results):
        shown = {**result.categories, **result.averages}
        rows.append(
            (
                DOT_STYLES[place % len(DOT_STYLES)],
                result.subject.label,
                [shown.get(name) for name in names],
            )
        )
    if single and results[0].random:
        rows.append((_RANDOM, "Random encoder", [results[0].random.get(name) for name in names]))
    ends = fraction_ends((score for _, _, scores in rows for score in scores), _CHANCE)
    panels = []
    for start in range(0, len(names), _ROWS):
        part = slice(start, start + _ROWS)
        first = [score for score in rows[0][2][part] if score is not None]
        told = ", ".join(
            f"{_spoken(name)} {spoken_value(s)}"
            for name, s in zip(names[part], rows[0][2][part], strict=True)
        )
        label = f"Accuracy by category, {called}, {_spoken(method)}: {told}"
        series = [Dots(style, scores[part]) for style, _, scores in rows]
        picture = dot_panel(
            label,
            [_spoken(name) for name in names[part]],
            series,
            ends,
            "accuracy (fraction of pairs)",
            _CHANCE,
        )
        title = (
            f"Categories {start + 1} to {min(start + _ROWS, len(names))} of {len(names)}"
            if len(names) > _ROWS
            else "All categories"
        )
        panels.append(panel(title, count_of(first), picture, missing=_gaps(results, names[part])))
    reading = (
        "a dot is the share of pairs in which the grammatical sentence is the more probable "
        "one, the bar its 95 % interval over pairs, and "
        "the dotted line chance, 0.5. Below the categories stand the averages. A category "
        "whose bar reaches the dotted line shows nothing."
    )
    entries = [(style, name) for style, name, _ in rows] if len(rows) > 1 else []
    dotted = ["dotted: chance, 0.5"]
    return figure(
        numbering,
        f"{called}: accuracy by category.",
        reading,
        legend(entries, dotted, sticky=False),
        panels,
    )


def _gaps(results: list[_Result], names: list[str]) -> list[str]:
    """Why categories have no dot, those with the same reason together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for result in results:
        who = f"{result.subject.label}, " if len(results) > 1 else ""
        for name, score in {**result.categories, **result.averages}.items():
            if name in names and math.isnan(score.value):
                groups.setdefault((who, missing_reason(score)), []).append(_spoken(name))
    return [
        f"Not computed: {who}{join(found)} ({reason})." for (who, reason), found in groups.items()
    ]


def _mean_of(score: Score) -> str:
    """Of how many categories an average is the mean; empty for anything else."""
    many = score.evidence.categories
    return f"(mean of {plural(many, 'category', 'categories')})" if many is not None else ""


def _left_out(result: _Result) -> str:
    """Why pairs could not be scored, as a paragraph."""
    reasons: dict[str, int] = {}
    for score in result.averages.values():
        reasons |= score.evidence.dropped or {}
    told = [f"{count:,} ({reason})" for reason, count in reasons.items() if count]
    return (
        paragraph(
            text(f"{result.subject.label}: pairs that could not be scored: {join(told)}."),
            "missing",
        )
        if told
        else ""
    )


def _table(called: str, result: _Result, many: bool) -> str:
    """Pairs, how many of them were covered, and accuracy, by category and on average."""
    rows = []
    for name, score in (*result.categories.items(), *result.averages.items()):
        counts = _counts(score)
        cells = (
            [f"{counts[0]:,}", f"{counts[1]:,}", f"{100 * counts[1] / counts[0]:.1f}"]
            if counts
            else ["–"] * 3
        )
        random = [value_cell(result.random.get(name))] if result.random else []
        below = (
            {"unclear": "not clearly above chance", "below": "below chance"}.get(
                _standing(score), ""
            )
            if score.low is not None
            else ""
        )
        cell = value_cell(score) + (
            tag("small", below) if below and not math.isnan(score.value) else ""
        )
        rows.append([words_cell(_spoken(name), _mean_of(score)), *cells, cell, *random])
    head = [
        "Category",
        "Pairs",
        "Covered",
        "Per cent",
        "Accuracy",
        *(["Random encoder"] if result.random else []),
    ]
    who = f", {result.subject.label}" if many else ""
    means = join(sorted({of_seeds(score) for score in result.random.values()} - {""}))
    beside = f" Random encoder: {means}, the interval Student’s over encoders." if means else ""
    return table(
        f"{called}{who}: coverage and accuracy by category, with 95 % intervals.{beside}",
        head,
        rows,
    )
