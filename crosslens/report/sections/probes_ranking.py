"""What the page says of encoders of different runs: who is the highest on the items that all have,
and what is not ranked."""

from collections.abc import Sequence

from crosslens.report.folders.probes import ProbeRuns
from crosslens.report.parts.layout import section, table, value_cell, words_cell
from crosslens.report.parts.wording import decimal, join, named, paragraph, plural, tag, text
from crosslens.report.sections.probes_comparison import Compared, RunComparison, Task
from crosslens.score import Score

__all__ = ["comparison_section", "comparison_sentences", "ranked"]


def comparison_sentences(runs: ProbeRuns, found: RunComparison) -> list[str]:
    """Which encoder is the highest of how many tasks, and how many tasks are not ranked, as
    HTML."""
    told, clear = [], {task: rank for task, rank in found.rankings.items() if not rank.near}
    if found.rankings:
        counts: dict[str, int] = {}
        for rank in clear.values():
            counts[rank.top.label] = counts.get(rank.top.label, 0) + 1
        who = (
            f": {join([f'{named(label)} in {count}' for label, count in counts.items()])}"
            if counts
            else ""
        )
        lead = tag("strong", f"{len(clear)} of {plural(len(found.rankings), 'task')}")
        shared = sorted({rank.n for rank in found.rankings.values()})
        n = f"n = {shared[0]:,}" if len(shared) == 1 else f"n = {shared[0]:,} to {shared[-1]:,}"
        told.append(
            f"On the test items that all share ({n}), one encoder is clearly above all others "
            f"in {lead}{who}."
        )
    if missing := found.not_ranked():
        reasons = dict.fromkeys(why for task in missing for why in _why(found.pairs[task]))
        names = join([text(_called(runs, task)) for task in missing], most=4)
        told.append(
            f"{tag('strong', 'Not ranked')}: {names}, since "
            f"{text(join(list(reasons), most=2, rest='more reasons'))}."
        )
    return told


def ranked(found: RunComparison, task: str) -> str:
    """What the ranking of a task's encoders says, as HTML; empty where only one run has it."""
    key = (task, "")
    if key not in found.pairs:
        return ""
    if key not in found.rankings:
        why = text(join(_why(found.pairs[key])))
        return f"the encoders are {tag('strong', 'not ranked')}, since {why}."
    rank = found.rankings[key]
    above, near = (
        join([named(subject.label) for subject in some]) for some in (rank.apart, rank.near)
    )
    told = [f"clearly above {above}"] if above else []
    told += [f"not told apart from {near}"] if near else []
    return (
        f"highest is {tag('strong', named(rank.top.label))} on the n = {rank.n:,} test items that "
        f"all share: {'; '.join(told)}."
    )


def _why(pairs: Sequence[Compared]) -> list[str]:
    """Why the encoders of a task are not ranked; where each two could be compared, it is that these
    are compared on other items than those that all have."""
    reasons = dict.fromkeys(one.reason for one in pairs if one.verdict is None)
    return list(reasons) or ["all of them together share too few test items"]


def _called(runs: ProbeRuns, task: Task) -> str:
    """A task with the method of minimal pairs."""
    return ", ".join(filter(None, (runs.title(task[0]), task[1].replace("_", " "))))


def comparison_section(runs: ProbeRuns, found: RunComparison) -> str:
    """Every comparison, and those that could not be made; empty where there are none."""
    rows, refused = [], []
    for task, pairs in found.pairs.items():
        for one in pairs:
            if one.verdict is None:
                who = f"{named(one.first.label)} and {named(one.second.label)}"
                refused.append(
                    f"{tag('strong', text(_called(runs, task)))}: {who} are not ranked: "
                    f"{text(one.reason)}."
                )
            else:
                rows.append(_row(runs, task, one))
    if not rows and not refused:
        return ""
    head = [
        "Task",
        "First",
        "Second",
        "Difference",
        "Items of both",
        "First on them",
        "Second on them",
        "p, corrected",
    ]
    intro = (
        "Two encoders are compared on the test items that both have, each at the layer where "
        "the task is reported, by a paired test "
        "(McNemar’s, mid-p, over groups of items such as the words of a sentence; the "
        "jackknife for correlations), corrected by "
        "Holm’s procedure for all comparisons of this table. Where a layer was chosen on the "
        "reported items, p is multiplied by the "
        "number of layers, and there is no interval. Runs that kept no outcomes per item are "
        "compared by their intervals, and only if "
        "their files and settings are the same."
    )
    shown = (
        table("The first minus the second on the items of both, with 95 % intervals.", head, rows)
        if rows
        else ""
    )
    listed = (
        tag("h3", "Not ranked") + tag("ul", "".join(tag("li", line) for line in refused))
        if refused
        else ""
    )
    told = (
        f"{plural(len(rows), 'comparison')}, {len(refused)} not possible"
        if refused
        else plural(len(rows), "comparison")
    )
    return section(
        "compared", "Encoders compared", shown, listed, paragraph(text(intro)), told=told
    )


def _row(runs: ProbeRuns, task: Task, one: Compared) -> list[str]:
    words = {
        "above": "the first is higher",
        "below": "the second is higher",
        "unclear": "not told apart",
    }[one.verdict or "unclear"]
    score = Score(
        quantity="accuracy_difference", value=one.difference, n=one.n, low=one.low, high=one.high
    )
    n = f"{one.n:,}" + tag(
        "small", text(f"of {one.n_first:,} and {one.n_second:,}"), class_="within"
    )
    p = (
        "by intervals"
        if one.corrected_p is None
        else "&lt; 0.001"
        if one.corrected_p < 0.001
        else decimal(one.corrected_p)
    )
    who = [words_cell(subject.label) for subject in (one.first, one.second)]
    values = [decimal(value) for value in one.values]
    return [
        words_cell(_called(runs, task)),
        *who,
        value_cell(score),
        n,
        *values,
        p + tag("small", words),
    ]
