"""What came out of probing, in plain words: true also where the encoder is no better than its
controls."""

import math

from crosslens.evidence import Evidence
from crosslens.report.folders.probes import (
    SURFACE,
    Chosen,
    ProbeRuns,
    Subject,
    against,
    in_words,
    of_seeds,
)
from crosslens.report.parts.wording import (
    decimal,
    estimate,
    join,
    missing_reason,
    named,
    plural,
    tag,
    text,
)
from crosslens.report.sections.probes_comparison import RunComparison
from crosslens.report.sections.probes_drawing import one_each
from crosslens.report.sections.probes_overview import LABEL_CONTROLS, control_at, selectivity
from crosslens.report.sections.probes_pairs import pair_sentences
from crosslens.report.sections.probes_ranking import comparison_sentences, ranked
from crosslens.score import over_seeds, shared_texts
from crosslens.selection import choose

__all__ = ["layer_findings", "probe_sentences"]

_CALLED = {
    "majority": "the majority class",
    "word_order": "word order alone",
    "word_majority": "the most frequent label of each word",
    "random_encoder": "the random encoder",
    "control_task": "the control task",
    "shuffled_labels": "shuffled labels",
    "character_ngrams": "character n-grams",
    "fasttext": "fastText",
}


def probe_sentences(runs: ProbeRuns, comparison: RunComparison) -> list[str]:
    """What came out of all tasks together, in at most three sentences (HTML)."""
    if len(runs.subjects) > 1:
        return _encoders_together(runs, comparison)
    subject = runs.subjects[0]
    found = {
        task: chosen for task in runs.tasks() if (chosen := runs.chosen(subject, task)) is not None
    }
    told = []
    if found:
        told.append(
            _stands(runs, subject, found, ("random_encoder",), "its copy with random weights")
        )
        told.append(
            _stands(
                runs,
                subject,
                found,
                LABEL_CONTROLS,
                "the same probe on labels or trees that mean nothing",
            )
        )
    layered = {
        task: chosen
        for task, chosen in found.items()
        if chosen.layers > 1 and chosen.layer is not None
    }
    if shared := _shared_sentence(runs, found):
        told.append(shared)
    elif layered:
        layers = sorted({chosen.layer for chosen in layered.values() if chosen.layer is not None})
        where = f"layer {layers[0]}" if len(layers) == 1 else f"layers {layers[0]} to {layers[-1]}"
        how = (
            "chosen on dev"
            if all(c.on_dev for c in layered.values())
            else "in part chosen on the reported items, which favours it"
        )
        told.append(
            f"The best layer of a task is at {tag('strong', where)} of "
            f"{max(c.layers for c in layered.values())}, {how}."
        )
    return [sentence for sentence in told if sentence] or pair_sentences(runs)


def _shared_sentence(runs: ProbeRuns, found: dict[str, Chosen]) -> str:
    """In which tasks the test has texts that train has, too; empty where there are none."""
    parts = []
    for task, chosen in found.items():
        told = shared_texts(chosen.score)
        if told is not None and told[0].train:
            rest = (
                "no other is left" if told[1] is None else f"{decimal(told[1].value)} without them"
            )
            parts.append(
                f"{text(runs.title(task))} ({told[0].train:,} of {chosen.score.n:,} items; "
                f"{decimal(chosen.score.value)}, {rest})"
            )
    return (
        f"{tag('strong', 'Test texts that are in train, too')}: {join(parts, most=4)}."
        if parts
        else ""
    )


def _stands(
    runs: ProbeRuns,
    subject: Subject,
    found: dict[str, Chosen],
    conditions: tuple[str, ...],
    what: str,
) -> str:
    """In how many tasks the encoder is clearly above a control, and in which it is not."""
    stands: dict[str, str] = {}
    for task, chosen in found.items():
        controls = (control_at(runs, subject, task, condition, chosen) for condition in conditions)
        answers = [against(chosen.score, control) for control in controls if control is not None]
        stands |= (
            {task: "above" if all(a == "above" for a in answers) else "not"}
            if answers and None not in answers
            else {}
        )
    if not stands:
        return f"Nothing tells how the encoder stands to {what}."
    behind = [text(runs.title(task)) for task, stand in stands.items() if stand != "above"]
    lead = tag("strong", f"{len(stands) - len(behind)} of {plural(len(stands), 'task')}")
    return (
        f"The encoder is clearly above {what} in "
        f"{lead}{f', but not in {join(behind, most=4)}' if behind else ''}."
    )


def _encoders_together(runs: ProbeRuns, found: RunComparison) -> list[str]:
    """Which encoder is the highest, and of how many tasks that can be told."""
    if found.pairs:
        return comparison_sentences(runs, found)
    apart: dict[str, int] = {}
    tops = {task: top for task in runs.tasks() if (top := _top(runs, task)) is not None}
    for label, stands in tops.values():
        apart[label] = apart.get(label, 0) + all(stands.values())
    if not tops:
        return pair_sentences(runs) or ["No two encoders were measured on one task."]
    clear = [f"{named(label)} in {count}" for label, count in apart.items() if count]
    lead = tag("strong", f"{sum(apart.values())} of {plural(len(tops), 'task')}")
    return [
        f"One encoder is clearly above all others in {lead}{f': {join(clear)}' if clear else ''}."
    ]


def layer_findings(runs: ProbeRuns, comparison: RunComparison) -> list[str]:
    """One entry (HTML) for each task: where each encoder is best, how that compares with its
    controls, and on how many items."""
    found = []
    for task in runs.tasks():
        told = [
            _told(runs, task, subject)
            for subject in runs.subjects
            if any(key[0] == task for key in runs.cells[subject])
        ]
        if any(told):
            lead = ranked(comparison, task) if len(runs.folders) > 1 else _highest(runs, task)
            found.append(
                f"{tag('strong', text(runs.title(task)) + ':')} {lead} "
                f"{one_each([part for part in told if part])}"
            )
    optimistic = [
        s
        for s in runs.subjects
        for task in runs.tasks()
        if (c := runs.chosen(s, task)) and c.layers > 1 and not c.on_dev
    ]
    if optimistic:
        found.append(
            "Where it is not said that a layer is the best on dev, it is the best on the "
            "reported items themselves: read its value as "
            "slightly optimistic. The curves below show all layers."
        )
    return found


def _told(runs: ProbeRuns, task: str, subject: Subject) -> str:
    quantity, chosen = in_words(runs.main_quantity(task)), runs.chosen(subject, task)
    who = f"{text(subject.label)}: " if len(runs.subjects) > 1 else ""
    if chosen is None:
        scores = [
            s
            for key, cells in runs.cells[subject].items()
            if key[0] == task and key[2] is None
            for s in cells.values()
        ]
        return (
            f"{who}{quantity} could not be computed ({text(missing_reason(scores[0]))})."
            if scores
            else ""
        )
    where = "" if chosen.layer is None else f" at layer {chosen.layer}"
    each = f" and {chosen.representations} representations" if chosen.representations > 1 else ""
    of = f", the best of {plural(chosen.layers, 'layer')}{each}" if chosen.layers > 1 else ""
    how = " on dev" if chosen.on_dev and chosen.layers > 1 else ""
    with_ = f" ({text(chosen.representation.replace('_', ' '))})" if chosen.representation else ""
    n = f"{runs.part(subject, task)}, " if runs.part(subject, task) else ""
    lead = f"{who}{tag('strong', f'{quantity} {text(estimate(chosen.score))}{where}')}{with_}{of}{how} ({n}n = {chosen.score.n:,})."
    lead += _over_seeds(chosen) + _without_shared(chosen)
    return (
        f"{lead} "
        f"{_verdict(runs, task, subject, chosen)}{_selective(runs, task, subject, chosen)}{_surface(runs, task, subject, chosen)}"
    )


def _over_seeds(chosen: Chosen) -> str:
    """Of a probe that has a seed of its own: the mean over seeds."""
    told = over_seeds(chosen.score)
    if told is None or told[0].low == told[0].high:
        return ""
    return (
        f" That is the first seed’s probe: the mean over {told[1]} seeds is "
        f"{text(estimate(told[0]))}, the interval over seeds."
    )


def _without_shared(chosen: Chosen) -> str:
    """How many test items have a text that training has, too, and the score without them."""
    told = shared_texts(chosen.score)
    if told is None or not told[0].train:
        return ""
    shared, without = told
    same = f", {shared.same_label:,} with the same label" if shared.same_label else ""
    rest = (
        "no other test item is left"
        if without is None
        else f"without them it is {text(estimate(without))} (n = {without.n:,})"
    )
    return (
        f" "
        f"{tag('strong', f'{shared.train:,} of {chosen.score.n:,} test items have a text that is in train, too')}{same}: {rest}."
    )


def _verdict(runs: ProbeRuns, task: str, subject: Subject, chosen: Chosen) -> str:
    """How the reported value stands to each control; HTML."""
    groups: dict[str | None, list[str]] = {"above": [], "unclear": [], "below": [], None: []}
    for condition, name in _CALLED.items():
        control = (
            None if condition in SURFACE else control_at(runs, subject, task, condition, chosen)
        )
        if control is not None and not math.isnan(control.value):
            seeds = (
                f", {of_seeds(control)}"
                if condition == "random_encoder" and of_seeds(control)
                else ""
            )
            beside = (
                f"{text(estimate(control))}{seeds}{_difference(chosen, condition, bool(seeds))}"
            )
            groups[against(chosen.score, control)].append(f"{name} ({beside})")
    if not any(groups.values()):
        return (
            "No control was measured, so it is not known how much of this the encoder’s training "
            "brings. "
        )
    sentences = []
    if groups["above"]:
        sentences.append(f"That is clearly above {join(groups['above'])}.")
    if groups["unclear"]:
        sentences.append(f"It is {tag('strong', 'not clearly above')} {join(groups['unclear'])}.")
    if groups["below"]:
        sentences.append(f"It is {tag('strong', 'below')} {join(groups['below'])}.")
    if groups[None]:
        sentences.append(
            f"Beside it, without an interval to tell them apart: {join(groups[None])}."
        )
    if "random_encoder" not in {
        c for c in _CALLED if control_at(runs, subject, task, c, chosen) is not None
    }:
        sentences.append("No random encoder was measured.")
    return " ".join(sentences) + " "


def _difference(chosen: Chosen, condition: str, several: bool) -> str:
    """How far the encoder is above its random copy (the first of several) on the same items, where
    that was measured."""
    paired = chosen.score.evidence.above_control if condition == "random_encoder" else None
    if paired is None:
        return ""
    difference, low, high = map(decimal, (paired.difference, paired.low, paired.high))
    of = " from the first of them" if several else ""
    return f"; on the same items the difference{of} is {difference} [{low}, {high}]"


def _top(runs: ProbeRuns, task: str) -> tuple[str, dict[str, bool]] | None:
    """The encoder with the highest value, and of every other whether it is clearly above; None
    where there are no two to compare."""
    found = [
        (subject.label, chosen.score)
        for subject in runs.subjects
        if (chosen := runs.chosen(subject, task)) is not None
    ]
    best = choose(found, lambda pair: pair[1].value)
    if best is None or len(found) < 2:
        return None
    label, top = best.item
    return label, {
        other: against(top, score) == "above" for other, score in found if other != label
    }


def _highest(runs: ProbeRuns, task: str) -> str:
    """Which encoder is highest, and from which its interval is apart; empty where there are no two
    to compare."""
    top = _top(runs, task)
    if top is None:
        return ""
    label, stands = top
    apart, near = (
        [text(other) for other, clear in stands.items() if clear is above]
        for above in (True, False)
    )
    told = [f"its interval lies wholly above that of {join(apart)}"] if apart else []
    told += [f"by the intervals it is not told apart from {join(near)}"] if near else []
    return f"highest is {tag('strong', text(label))}: {'; '.join(told)}."


def _selective(runs: ProbeRuns, task: str, subject: Subject, chosen: Chosen) -> str:
    if chosen.layer is None:
        return ""
    score = selectivity(runs, subject, task, chosen.representation).get(chosen.layer)
    if score is None or math.isnan(score.value):
        return ""
    weak = score.low is not None and score.low <= 0
    remark = f": {tag('strong', _weak(runs, task, subject, chosen))}" if weak else ""
    return f"Selectivity is {text(estimate(score))}{remark}. "


def _weak(runs: ProbeRuns, task: str, subject: Subject, chosen: Chosen) -> str:
    """What a selectivity that may be 0 says: that labels without meaning are learnt as well, or
    that neither are learnt."""
    controls = [
        control
        for name in LABEL_CONTROLS
        if (control := control_at(runs, subject, task, name, chosen)) is not None
    ]
    told = controls[0].evidence if controls else Evidence()
    above, chance = told.above_chance, told.chance
    if above is None or chance is None:
        return "the score is not clearly above that on labels without meaning"
    if above.low > 0:
        return "the probe learns labels without meaning as well"
    at = f"{decimal(controls[0].value)}, where always the same answer gives {decimal(chance)}"
    return (
        f"no more is learnt than of labels without meaning, and of these nothing: they are at "
        f"chance ({at})"
    )


def _surface(runs: ProbeRuns, task: str, subject: Subject, chosen: Chosen) -> str:
    """Classifiers of the text itself, which need no encoder."""
    told = []
    for condition in SURFACE:
        score = control_at(runs, subject, task, condition, chosen)
        if score is not None and not math.isnan(score.value):
            stand = {"above": "below the encoder", "below": "above the encoder"}.get(
                against(chosen.score, score) or "", ""
            )
            told.append(
                f"{_CALLED[condition]} "
                f"{text(estimate(score))}{f', clearly {stand}' if stand else ''}"
            )
    return f"On the text itself, without an encoder: {join(told)}." if told else ""
