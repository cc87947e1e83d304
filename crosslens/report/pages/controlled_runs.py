"""One page for several controlled studies with the same conditions, of pairs of languages nearer and
farther, say (Conneau et al. 2020, Table 1: French, Russian, Chinese)."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from crosslens.errors import refuse
from crosslens.report.folders.controlled import StudyFolder, load_study, title_of
from crosslens.report.folders.controlled_findings import (
    MEASURES,
    changed,
    comparisons,
    control_told,
    differences,
    verdict,
)
from crosslens.report.folders.controlled_sentences import comparisons_told
from crosslens.report.folders.log import as_table
from crosslens.report.parts.drawing import plain_style, series_style
from crosslens.report.parts.intervals import interval_panel
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
    value_cell,
)
from crosslens.report.parts.wording import (
    join,
    language,
    named,
    paragraph,
    short_folders,
    tag,
    text,
    with_minus,
)
from crosslens.report.sections.settings_differ import settings_differ
from crosslens.score import Score

__all__ = ["controlled_runs_page"]

_VALUES = {
    "Sentences": "P@1 of sentences, at the layer that is chosen on other sentences",
    "Sentences, untrained": "the same before training, at the layer that is best",
    "Subwords": "P@1 of subwords",
    "CKA": "debiased linear CKA, at the layer that is chosen for the sentences",
}
_RATES = ("rate", "most")  # of extra anchors; the rest are files and languages
_Differences = Mapping[str, Mapping[str, Mapping[str, tuple[float, float, float]]]]


def controlled_runs_page(folders: Sequence[str | Path]) -> str:
    """One page for controlled studies: each condition in each of them, and by how much it is above or
    below the study's control there, in the order in which the folders are given.

    Raises
    ------
    InputError: no two studies have a condition in common.
    StoreError: a folder holds no controlled study, nothing of it is measured yet, or a file is damaged.
    """
    runs = _called([Path(folder) for folder in folders])
    names = list(dict.fromkeys(name for run in runs.values() for name in run.names))
    if not any(sum(name in run.names for run in runs.values()) > 1 for name in names):
        expected, got = "studies with a condition in common", join([str(f) for f in folders])
        refuse("report", expected, got, "draw each study's own page")
    numbering, first = Numbering(), next(iter(runs.values()))
    less = {name: {pair: _less_control(run, name) for pair, run in runs.items()} for name in names}
    title = f"{title_of(first.told).partition(':')[0]}: {join([*runs], most=4)}"
    with plain_style():
        parts = [
            headline(
                title,
                _overview(runs, names, numbering),
                [text(f"{pair}: {_control_of_pair(run)}") for pair, run in runs.items()],
                {
                    "Studies": join([named(pair) for pair in runs]),
                    "Seeds of each": join([_seeds(run) for run in runs.values()]),
                },
                settings_differ([*runs], [{"settings": one} for one in _sizes(runs.values())]),
                [],
                "Nothing was measured in these studies.",
            ),
            section(
                "conditions",
                "Condition by condition",
                *(_values(measure, runs, names) for measure in _VALUES),
            ),
            section("less", "Less the control", _less(runs, less), _more(runs, less)),
            section(
                "made",
                "How this was made",
                *(
                    tag("h3", text(pair))
                    + settings_table("What was asked for.", _asked(run))
                    + files_table(Path(folder))
                    for (pair, run), folder in zip(runs.items(), folders, strict=True)
                ),
            ),
        ]
    return document(title, parts)


def _called(folders: Sequence[Path]) -> dict[str, StudyFolder]:
    """The studies by their languages, and by their folders where these are the same."""
    runs = [load_study(folder) for folder in folders]
    short = short_folders([str(folder) for folder in folders])
    pairs = []
    for run in runs:
        one = next((s for s in run.scores if s.source and s.target), None)
        codes = [] if one is None else sorted({str(one.source), str(one.target)})
        pairs.append("–".join(language(code) for code in codes))
    return {
        short[str(folder)] if pairs.count(pair) > 1 or not pair else pair: run
        for folder, pair, run in zip(folders, pairs, runs, strict=True)
    }


def _seeds(run: StudyFolder) -> str:
    """How many trainings its conditions have, of those that have any."""
    trainings = [n for n in run.all_trainings if n] or [0]
    fewest, most = min(trainings), max(trainings)
    return str(most) if fewest == most else f"{fewest} to {most}"


def _sizes(runs: Iterable[StudyFolder]) -> list[dict[str, object]]:
    """What is to be the same in studies that are compared: all settings but the texts and the
    languages of every condition that all of them have."""
    found = [
        {
            name: {key: one for key, one in recipe.items() if key not in ("sources", "anchors")}
            | {"anchors": {k: v for k, v in as_table(recipe.get("anchors")).items() if k in _RATES}}
            for name, recipe in run.recipes.items()
        }
        for run in runs
    ]
    everywhere = set.intersection(*map(set, found))
    return [{name: one for name, one in size.items() if name in everywhere} for size in found]


def _asked(run: StudyFolder) -> dict[str, object]:
    return dict(as_table(as_table(run.config.get("asked")).get("settings")))


def _mean(run: StudyFolder, name: str, measure: str) -> Score | None:
    """A condition's mean by one of the measures that are shown."""
    if measure == "Subwords":
        return run.mean(name, "token_alignment", "unaligned")
    if measure == "CKA":
        return run.cka(name)
    return run.sentences(name, "unaligned" if measure == "Sentences" else "random_encoder")


def _control_of_pair(run: StudyFolder) -> str:
    """What a study says of its control, within a sentence."""
    told = control_told(run) or "the positive control is not measured yet."
    return f"{told[0].lower()}{told[1:]}"


def _overview(runs: Mapping[str, StudyFolder], names: Sequence[str], numbering: Numbering) -> str:
    styles = {pair: series_style(place) for place, pair in enumerate(runs)}
    picture = interval_panel(
        numbering.panel(),
        "P@1 of sentences by condition, with 95 % intervals",
        list(names),
        [
            (styles[pair], [_mean(run, name, "Sentences") for name in names])
            for pair, run in runs.items()
        ],
        "P@1 of sentences",
    )
    reading = (
        "means over seeds, without a map, with 95 % intervals over seeds and sentences (of one "
        "training: over its sentences)"
    )
    key = legend([(style, pair) for pair, style in styles.items()])
    return figure(
        numbering, "What each condition gives in each pair.", reading, key, [panel("", "", picture)]
    )


def _values(measure: str, runs: Mapping[str, StudyFolder], names: Sequence[str]) -> str:
    rows = [
        [named(name), *(value_cell(_mean(run, name, measure)) for run in runs.values())]
        for name in names
    ]
    if not any(_mean(run, name, measure) for run in runs.values() for name in names):
        return ""
    caption = f"{measure}: {_VALUES[measure]}; means over seeds."
    return table(caption, ["Condition", *map(text, runs)], rows)


def _less(runs: Mapping[str, StudyFolder], less: _Differences) -> str:
    """Each condition less the control of its own study: what a part, or an anchor, is worth there."""
    rows = []
    for name, pairs in less.items():
        for measure in MEASURES:
            cells = [pairs[pair].get(measure) for pair in runs]
            if any(cells):
                rows.append([named(name), measure, *map(_told, cells)])
    if not any(run.told["control"] for run in runs.values()):
        return paragraph("None of these studies has a positive control.")
    if not rows:
        return paragraph("Differences are told where both sides have two trainings or more.")
    about = (
        "Differences to the positive control of the same study, with 95 % intervals (subwords: Welch's, "
        "over seeds; sentences: over seeds and sentences), where both sides have two trainings or more. "
        "Gain: what training adds to the sentences that an untrained encoder finds. "
    )
    about += comparisons_told(comparisons(one for pairs in less.values() for one in pairs.values()))
    return table(about, ["Condition", "By", *map(text, runs)], rows)


def _more(runs: Mapping[str, StudyFolder], less: _Differences) -> str:
    """How the differences to the control differ between the first study and each other one: whether
    an anchor, or a part, is worth more in one pair than in another."""
    first, *others = runs
    others = [pair for pair in others if _control_of(runs[pair]) == _control_of(runs[first])]
    rows, different = [], dict[tuple[str, str], dict[str, tuple[float, float, float]]]()
    for name, pairs in less.items():
        for measure in MEASURES:
            here, there = pairs[first].get(measure), [pairs[pair].get(measure) for pair in others]
            cells = [changed(here, one) if here and one else None for one in there]
            for pair, cell in zip(others, cells, strict=True):
                if cell:
                    different.setdefault((name, pair), {})[measure] = cell
            if any(cells):
                rows.append([named(name), measure, *map(_told, cells)])
    if not rows:
        return ""
    about = (
        f"By how much each of these differences is higher than in {first}, with 95 % intervals from those of "
        "both (Zou & Donner 2008), as of pairs whose trainings are independent: one that holds 0 leaves open whether a "
        "condition is worth more in one pair than in the other. "
    )
    about += comparisons_told(comparisons(different.values()))
    return table(about.rstrip(), ["Condition", "By", *map(text, others)], rows)


def _control_of(run: StudyFolder) -> tuple[str, str]:
    """The control of a study, and which system of the paper it is: of a copy and of a natural pair one
    name may be of two."""
    name = run.told["control"]
    return name, run.told["published"].get(name, "")


def _less_control(run: StudyFolder, name: str) -> dict[str, tuple[float, float, float]]:
    """A condition less the control of its study, by each measure; none where it is the control, or
    there is too little."""
    control = run.told["control"]
    if name == control or name not in run.names or control not in run.names:
        return {}
    return differences(run, name, control)


def _told(found: tuple[float, float, float] | None) -> str:
    return text(with_minus(verdict(found)[0])) if found else "–"
