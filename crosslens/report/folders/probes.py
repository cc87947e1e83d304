"""Folders of probe runs as the report sees them: who was probed, on what, and where the numbers
are.

What stands beside a value is declared in :mod:`crosslens.evidence`; all of it may be missing. Layers
are chosen on dev where there is one; the other split is what is reported. The page shows the mean
over seeds of random encoders, and of other controls whose value is that of the first seed; rows of
further seeds, which the settings tell apart, are left out.

``config.json`` says under ``not_measured`` what the battery lacks: task -> reason.
"""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.files import read_json
from crosslens.report.folders.study import Curve
from crosslens.report.parts.wording import language
from crosslens.score import QUANTITIES, Score, by_language, first_seed, over_seeds, read_scores
from crosslens.selection import Choice, choose

__all__ = [
    "CONDITIONS",
    "SURFACE",
    "Chosen",
    "ProbeRuns",
    "Subject",
    "against",
    "axis_label",
    "in_words",
    "load_probe_runs",
    "of_seeds",
    "probe_runs_of",
]

CONDITIONS: dict[str | None, str] = {
    None: "Encoder",
    "random_encoder": "Random encoder",
    "control_task": "Control task",
    "shuffled_labels": "Shuffled labels",
    "majority": "Majority class",
    "word_order": "Word order alone",
    "word_majority": "Most frequent label of the word",
    "character_ngrams": "Character n-grams",
    "fasttext": "fastText",
}
# classifiers of the text itself: to be compared with, but no controls
SURFACE = ("character_ngrams", "fasttext")

# as crosslens.score.by_language writes them
_LANGUAGES = re.compile(r" \[(?:(?P<source>[^\[\]]+)->)?(?P<target>[^\[\]]+)\]$")
_MIX = ":mix"  # behind the name of a task that is probed on all layers at once
_MAIN = (
    "accuracy",
    "uuas",
    "root_accuracy",
    "spearman",
    "distance_spearman",
    "depth_spearman",
    "macro_f1",
)  # the first measured is what a task is judged by

_Key = tuple[str, str, str | None, str, str]  # task, quantity, condition, representation, part
_Cells = dict[int | None, Score]


@dataclasses.dataclass(frozen=True)
class Subject:
    """One encoder of one run: a line of the page, called by its label."""

    run: int
    encoder: str | None
    label: str


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Where a task is reported: the layer (None where there are none), the score there, of how many
    layers and representations it is the best, and whether they were compared on dev."""

    layer: int | None
    representation: str
    score: Score
    layers: int
    representations: int
    on_dev: bool


@dataclasses.dataclass
class ProbeRuns:
    """What one or more run folders say, with look-ups by encoder, task, quantity and condition."""

    folders: list[Path]
    configs: list[dict[str, Any]]
    subjects: list[Subject]
    cells: dict[Subject, dict[_Key, _Cells]]
    pair_rows: dict[Subject, list[Score]]
    paired_tests: list[tuple[int, str, dict[str, Any]]]
    repeated: int
    undrawn: Counter[str]

    def tasks(self) -> list[str]:
        """What was measured by layer or once, as it is met, a user's own tasks last; minimal pairs
        are apart."""
        return sorted(
            dict.fromkeys(key[0] for cells in self.cells.values() for key in cells),
            key=lambda task: not self.card(task),
        )

    def card(self, task: str) -> dict[str, Any]:
        """What a run says of a task, whatever its language; empty for a user's own, and of earlier
        runs."""
        name, cards = self.base(task), (config.get("cards") for config in self.configs)
        found = (
            some[name]
            for some in cards
            if isinstance(some, dict) and isinstance(some.get(name), dict)
        )
        return next(found, {})

    def base(self, task: str) -> str:
        """The task, whatever its languages."""
        return _LANGUAGES.sub("", task)

    def elsewhere(self, task: str) -> list[str]:
        """The same task where its probes are tested on other languages than the one that they are
        trained on."""
        return [one for one in self.tasks() if one != task and self.base(one) == task]

    def tested_on(self, task: str) -> str:
        """The language of a task's test items, where there are several; of the task itself that
        which is trained on."""
        found = _LANGUAGES.search(task)
        if found is not None:
            return language(found["target"])
        others = (_LANGUAGES.search(one) for one in self.elsewhere(task))
        return next(
            (f"{language(one['source'])} (trained on)" for one in others if one and one["source"]),
            "",
        )

    def title(self, task: str) -> str:
        """What a task is called on the page, with its languages where there are several."""
        if found := _LANGUAGES.search(task):
            source, target = found["source"], found["target"]
            return (
                f"{self.title(task[: found.start()])}, "
                f"{f'{language(source)} to ' if source else ''}{language(target)}"
            )
        if task.endswith(_MIX):
            return f"{self.title(task.removesuffix(_MIX))}, mix of layers"
        return str(self.card(task).get("title") or task.replace("_", " "))

    def about(self, task: str) -> str:
        """A sentence or two on what a task measures."""
        if (name := self.base(task)).endswith(_MIX):
            return (
                "A linear classifier is trained on a weighted mean of all layers, whose weights "
                "are learnt with it (Peters et al. 2018)."
            )
        told = str(
            self.card(name).get("says")
            or (
                "A probe is trained on the vectors of one layer to say the labels that the run "
                "was given."
            )
        )
        found = _LANGUAGES.search(task)
        others = [] if found else self.elsewhere(task)
        there = next((one["source"] for o in others if (one := _LANGUAGES.search(o))), None)
        if there is not None and "+" in there:
            told += f" Trained and tested on {language(there)} together."
        if found and found["source"]:
            told += (
                f" Trained on {language(found['source'])}, and tested on "
                f"{language(found['target'])}."
            )
        return told

    def quantities(self, task: str) -> list[str]:
        """What was measured of a task, that by which it is judged first."""
        met = list(
            dict.fromkeys(
                key[1] for cells in self.cells.values() for key in cells if key[0] == task
            )
        )
        return [name for name in _MAIN if name in met] + [name for name in met if name not in _MAIN]

    def main_quantity(self, task: str) -> str:
        """What a task is judged by."""
        return self.quantities(task)[0]

    def representations(self, subject: Subject, task: str) -> list[str]:
        """The representations that were classified; [""] where there is but one."""
        return list(
            dict.fromkeys(
                key[3] for key in self.cells[subject] if key[0] == task and key[2] is None
            )
        ) or [""]

    def part(self, subject: Subject, task: str) -> str:
        """The part of the data that is reported: "test", else "dev", else "" (not said)."""
        met = {key[4] for key in self.cells[subject] if key[0] == task}
        return next((part for part in ("test", "dev") if part in met), "")

    def curve(
        self,
        subject: Subject,
        task: str,
        quantity: str,
        condition: str | None = None,
        representation: str = "",
        part: str | None = None,
    ) -> Curve:
        """Measurements by layer, of the reported part unless another is named (of the training part
        what only that has: code lengths).

        What a control says for no layer, representation or part in particular it says for all of
        them.
        """
        mine = self.cells[subject]
        parts = (self.part(subject, task), "", "train") if part is None else (part,)
        places = ((task, quantity, condition, r, p) for r in (representation, "") for p in parts)
        cells = next((mine[place] for place in places if place in mine), {})
        layered = {
            layer: score
            for layer, score in sorted((k, s) for k, s in cells.items() if k is not None)
        }
        if not layered and condition is not None and None in cells:
            return dict.fromkeys(self.layers(subject, task), cells[None])
        return layered

    def layers(self, subject: Subject, task: str) -> list[int]:
        """The layers at which the encoder was probed."""
        return sorted(
            {
                k
                for key, cells in self.cells[subject].items()
                if key[0] == task and key[2] is None
                for k in cells
                if k is not None
            }
        )

    def whole(
        self, subject: Subject, task: str, quantity: str, condition: str | None = None
    ) -> Score | None:
        """A measurement that belongs to no layer."""
        return (
            self.cells[subject]
            .get((task, quantity, condition, "", self.part(subject, task)), {})
            .get(None)
        )

    def chosen(self, subject: Subject, task: str) -> Chosen | None:
        """Where a task is reported: at the representation and layer that are best on dev, or else
        on the reported items themselves."""
        quantity, found = self.main_quantity(task), dict[str, Choice[int]]()
        dev = self.part(subject, task) == "test"
        representations = self.representations(subject, task)
        for representation in representations:
            curve = self.curve(subject, task, quantity, None, representation)
            judged = self.curve(subject, task, quantity, None, representation, "dev") if dev else {}
            values, by = _values(curve), _values(dict.fromkeys(curve) | judged)
            if best := choose(curve, values.__getitem__, by.__getitem__, layer=int):
                found[representation] = best
        compared = {name: one for name, one in found.items() if one.elsewhere} or found
        top = choose(
            compared, lambda name: compared[name].value, layer=lambda name: compared[name].item
        )
        if top is not None:
            best = compared[top.item]
            score = self.curve(subject, task, quantity, None, top.item)[compared[top.item].item]
            return Chosen(best.item, top.item, score, best.of, len(representations), best.elsewhere)
        whole = self.whole(subject, task, quantity)
        return (
            None
            if whole is None or math.isnan(whole.value)
            else Chosen(None, "", whole, 0, 1, False)
        )

    def not_measured(self) -> list[tuple[int, str, str]]:
        """(run, task, reason) of what a battery was asked for and does not have."""
        found = []
        for run, config in enumerate(self.configs):
            told = config.get("not_measured")
            if isinstance(told, dict):
                found += [(run, str(task), str(reason)) for task, reason in told.items()]
        return found


def _values(curve: Mapping[int, Score | None]) -> dict[int, float]:
    """Layer to value, NaN where there is none."""
    return {layer: math.nan if score is None else score.value for layer, score in curve.items()}


def against(score: Score, control: Score | None) -> str | None:
    """How a score compares with its control: "above", "below", "unclear" (the intervals touch), or
    None where that cannot be told.

    Where the two were compared item by item (``above_control`` in details) the interval of the
    difference decides, and of several random encoders the interval over them, too; otherwise one
    interval must lie wholly above the other. A majority share without an interval is taken as it
    is.
    """
    if control is None or math.isnan(score.value) or math.isnan(control.value):
        return None
    paired = score.evidence.above_control if control.condition == "random_encoder" else None
    if paired is not None:
        low, high = paired.low, paired.high
        if over_seeds(control) is not None and control.low is not None and control.high is not None:
            low, high = min(low, score.value - control.high), max(high, score.value - control.low)
        return "above" if low > 0 else "below" if high < 0 else "unclear"
    exact = control.value if control.condition == "majority" else None
    least, most = (exact if end is None else end for end in (control.low, control.high))
    if score.low is None or score.high is None or least is None or most is None:
        return None
    return "above" if score.low > most else "below" if score.high < least else "unclear"


def of_seeds(control: Score) -> str:
    """Of how many random encoders, or seeds, a control is the mean; empty where it is of one.

    >>> told = {"over_seeds": {"values": [0.5, 0.7], "mean": 0.6, "low": 0.0, "high": 1.0}}
    >>> of_seeds(Score(quantity="accuracy", value=0.6, n=4, condition="random_encoder", details=told))
    'mean of 2 encoders'
    """
    told = over_seeds(control)
    return (
        ""
        if told is None
        else f"mean of {told[1]} {'encoders' if control.condition == 'random_encoder' else 'seeds'}"
    )


def load_probe_runs(folders: Sequence[str | Path]) -> ProbeRuns:
    """Read the folders of probe runs.

    Raises
    ------
    InputError: one holds no finished probe run, or is named twice.
    StoreError: one of the files is damaged.
    """
    paths = [Path(folder) for folder in folders]
    for place, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:place]]:
            refuse("folders", "different runs", f"{path} twice", "name each run once")
    configs = [_config(path) for path in paths]
    scores = [
        first_seed(read_scores(path / "scores.jsonl"), _settings(config))
        for path, config in zip(paths, configs, strict=True)
    ]
    return probe_runs_of(paths, configs, scores)


def probe_runs_of(
    paths: list[Path], configs: list[dict[str, Any]], scores: Sequence[Sequence[Score]]
) -> ProbeRuns:
    """The measurements of each run, indexed for the report."""
    scores = [by_language(map(_shown, rows)) for rows in scores]
    runs = ProbeRuns(paths, configs, _subjects(paths, scores), {}, {}, [], 0, Counter())
    for subject in runs.subjects:
        runs.cells[subject], runs.pair_rows[subject] = {}, []
    for run, rows in enumerate(scores):
        for score in rows:
            _file(runs, run, score)
    return runs


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    given = config.get("settings")
    return given if isinstance(given, dict) else {}


def _shown(score: Score) -> Score:
    """A control of several seeds as their mean with its interval over seeds; one whose value is the
    mean already keeps its own."""
    told = over_seeds(score) if score.condition is not None else None
    return (
        score
        if told is None or (score.condition != "random_encoder" and told[0].value == score.value)
        else told[0]
    )


def _config(path: Path) -> dict[str, Any]:
    for name in ("config.json", "scores.jsonl"):
        if not (path / name).is_file():
            remedy = "finish the run: the same command resumes it"
            refuse("folder", f"a finished probe run with {name}", f"{path} without it", remedy)
    config: dict[str, Any] = read_json(path / "config.json", dict, "run the probes again")
    if config.get("kind") != "probe":
        kind = config.get("kind", "study")
        remedy = "name runs that crosslens probe --battery has written"
        refuse("folder", "a run of crosslens probe", f"{path} of kind {kind!r}", remedy)
    return config


def _subjects(paths: Sequence[Path], scores: Sequence[Iterable[Score]]) -> list[Subject]:
    """Every encoder of every run; encoders of one name are told apart by their folders."""
    found: list[tuple[int, str | None]] = []
    for run, rows in enumerate(scores):
        found += [
            (run, name)
            for name in dict.fromkeys(
                s.encoder for s in rows if s.encoder is not None and s.condition is None
            )
        ]
    found += [(run, None) for run in range(len(paths)) if run not in {r for r, _ in found}]
    times = Counter(name for _, name in found)
    folders = Counter(path.resolve().name for path in paths)
    subjects = []
    for run, name in sorted(found, key=lambda pair: pair[0]):
        folder = paths[run].resolve().name
        folder = f"{folder}, run {run + 1}" if folders[folder] > 1 else folder
        label = folder if name is None else f"{name} ({folder})" if times[name] > 1 else name
        subjects.append(Subject(run, name, label))
    return subjects


def _file(runs: ProbeRuns, run: int, score: Score) -> None:
    """Put a measurement where the page looks for it; one of no encoder belongs to all of its
    run."""
    kept, task = score.evidence, score.task or ""
    runs.paired_tests += [(run, task, test) for test in kept.paired_tests or ()]
    if "corrected_p" in (score.details or {}):
        ends = {
            "difference": score.value,
            "low": score.low,
            "high": score.high,
            "n": score.n,
            "encoder": score.encoder,
        }
        runs.paired_tests.append((run, task, {**ends, **(score.details or {})}))
        return
    if score.condition not in CONDITIONS or score.other_layer is not None or not task:
        runs.undrawn[
            " · ".join(str(part) for part in (score.task, score.quantity, score.condition) if part)
        ] += 1
        return
    for subject in runs.subjects:
        if subject.run != run or score.encoder not in (None, subject.encoder):
            continue
        if kept.category is not None or kept.average is not None:
            runs.pair_rows[subject].append(score)
            continue
        key = (
            task,
            score.quantity,
            score.condition,
            kept.representation or "",
            kept.part or "",
        )
        cells = runs.cells[subject].setdefault(key, {})
        runs.repeated += score.layer in cells
        cells.setdefault(score.layer, score)


def axis_label(quantity: str) -> str:
    """What an axis measures, with its unit: of a long name the unit alone, since the panel's title
    has the name.

    >>> axis_label("accuracy")
    'Accuracy (fraction of items)'
    """
    told = QUANTITIES[quantity]
    whole = f"{told.label} ({told.unit})"
    return whole if len(whole) <= 40 else told.unit


def in_words(quantity: str) -> str:
    """A quantity's name within a sentence.

    >>> in_words("accuracy"), in_words("spearman"), in_words("uuas")
    ('accuracy', 'Spearman correlation', 'UUAS')
    """
    label = QUANTITIES[quantity].label
    return (
        label
        if label.startswith("Spearman") or label[1].isupper()
        else label[0].lower() + label[1:]
    )
