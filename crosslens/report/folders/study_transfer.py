"""A study's transfer as its report and the terminal show it: each condition zero-shot, trained on the
copy, and of the original alone, and how the difference goes with alignment."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from crosslens.errors import StoreError, refuse
from crosslens.files import check_shape
from crosslens.languages import same_language
from crosslens.readers.published import PAPERS, Published, published
from crosslens.report.folders.controlled import order_called
from crosslens.report.folders.controlled_sentences import (
    WITH_INTERVAL,
    comparisons_told,
    few_trainings_told,
)
from crosslens.report.folders.finished import finished_run
from crosslens.report.folders.transfer import LESS
from crosslens.report.parts.columns import filled_columns
from crosslens.report.parts.wording import join, language
from crosslens.score import QUANTITIES, Score, headline_quantities
from crosslens.score_formats import format_percent, format_with_ends

__all__ = [
    "COLUMNS",
    "StudyTransferFolder",
    "load_study_transfer",
    "points_told",
    "printed_head",
    "printed_less",
    "summary",
]

_Rows = list[tuple[str, ...]]
_DEFAULT = "default"  # the condition that Conneau et al. hold the others against
_MONOLINGUAL_LESS = "monolingual_less_in_language"
_MEASURES = {  # what may go with the difference -> the beginning of a sentence
    "token_alignment": "P@1 of subwords goes",
    "neighbours_kept": "the share of neighbours that a copy keeps goes",
    "contexts_kept": "the share of contexts that a copy keeps goes",
}
_COMPARED = "conditions"  # of the difference of two, whose encoder is "FIRST / SECOND"
COLUMNS = {
    "zero-shot": (None, True),
    "trained on it": ("in_language", True),
    "original alone": ("monolingual", True),
    "in the original": (None, False),
    "random encoder": ("random_encoder", True),
    "most frequent": ("majority", True),
}
"""What a table calls a measurement -> its condition, and whether it is of the copy."""


class Told(TypedDict):
    """What a run notes of its study."""

    name: str
    paper: str
    published: dict[str, str]
    alignment: dict[str, float]
    order: NotRequired[list[list[str]]]
    control: NotRequired[str]
    left_out: NotRequired[list[str]]


@dataclasses.dataclass(frozen=True)
class StudyTransferFolder:
    """A finished run.

    Attributes
    ----------
    told: of the study. scores: means over trainings, and those of each training (with a seed).
    names: conditions, in the study's order. languages: the original and the copy.
    main: task -> the quantity that it is judged by, and by whose definition.
    config: all of its config.json.
    """

    told: Told
    scores: list[Score]
    names: list[str]
    languages: tuple[str, str]
    main: Mapping[str, tuple[str, str]]
    config: Mapping[str, Any]

    @property
    def derived(self) -> bool:
        """Whether the second language is a copy of the original; else it is one of its own."""
        original, copy = self.languages
        return copy.startswith(f"{original}-")

    @property
    def called(self) -> tuple[str, str]:
        """What the original and the second language are called in a sentence."""
        if self.derived:
            return "the original", "the copy"
        original, other = map(language, self.languages)
        return original, other

    @property
    def title(self) -> str:
        """What a page on it is called."""
        pair = "" if self.derived else f": {'–'.join(self.called)}"
        return f"Zero-shot transfer in {self.told['name']}{pair}"

    def trainings(self, task: str, name: str) -> int:
        """How many trainings of a condition were fine-tuned in a task."""
        if self.mean(task, name, None) is None:
            return 0
        return len({s.seed for s in self.scores if s.encoder == name} - {None})

    def mean(
        self, task: str, name: str, condition: str | None, *, copy: bool = True
    ) -> Score | None:
        """A mean over trainings; None where there is none."""
        quantity = self.main[task][0]
        quantity += "_difference" if (condition or "").endswith("_less_in_language") else ""
        wanted = (task, name, condition, self.languages[copy], quantity, None)
        for s in self.scores:
            if (s.task, s.encoder, s.condition, s.target, s.quantity, s.seed) == wanted:
                return s
        return None

    def less(self, task: str, name: str) -> Score | None:
        """Zero-shot less in-language (BZ - BS)."""
        return self.mean(task, name, LESS)

    def less_default(self, task: str, name: str) -> float | None:
        """Zero-shot less that of "default", as Conneau et al. print it: a difference of means. None
        where ``has_default`` is not so, or one of the two is missing."""
        mine, default = (self.mean(task, one, None) for one in (name, _DEFAULT))
        if not self.has_default or mine is None or default is None:
            return None
        less = mine.value - default.value
        return None if math.isnan(less) else less

    @property
    def has_default(self) -> bool:
        """Whether zero-shot less that of "default" is told."""
        return self.told["paper"] != "deshpande" and _DEFAULT in self.names

    def monolingual_less(self, task: str, name: str) -> Score | None:
        """The same of an encoder of the original alone (MZ - BS)."""
        return self.mean(task, name, _MONOLINGUAL_LESS)

    def with_alignment(self, task: str) -> list[str]:
        """Sentences on how alignment goes with the difference, over conditions and over trainings, and
        what a copy keeps of the order; none of fewer than four."""
        told = []
        for measure, over in (
            ("token_alignment", "conditions"),
            ("token_alignment", "trainings"),
            *((measure, "conditions") for measure in _MEASURES if measure != "token_alignment"),
        ):
            found = self._correlations(task, over, measure)
            if found and not any(math.isnan(one.value) for one in found.values()):
                repeated = " (those of a condition are repetitions: no interval)"
                said = " and ".join(
                    f"{kind.capitalize()}'s "
                    + (f"{one.value:z.2f}" if one.n < WITH_INTERVAL else _spread(one))
                    for kind, one in found.items()
                )
                told.append(
                    f"Over {found['spearman'].n} {over}, {_MEASURES[measure]} with zero-shot less "
                    f"in-language by {said}{repeated if over == 'trainings' else ''}."
                )
        return told

    def with_alignment_points(
        self, task: str, measure: str = "token_alignment"
    ) -> tuple[dict[str, tuple[float, float]], str]:
        """Alignment, or another measure, and difference of each condition, or of each training where
        these are few; and which of the two it is."""
        found, what = dict[str, tuple[float, float]](), "conditions"
        for over in ("trainings", "conditions"):
            for one in self._correlations(task, over, measure).values():
                pairs = (one.evidence.points or {}).items()
                there = {k: (v[0], v[1]) for k, v in pairs if v is not None and len(v) == 2}
                if over == "trainings" or len(there) > 3:
                    found, what = there, over
        return found, what

    def _correlations(self, task: str, over: str, measure: str) -> dict[str, Score]:
        return {
            s.quantity: s
            for s in self.scores
            if s.task == task and s.condition == measure and s.evidence.over == over
        }

    @property
    def compared(self) -> str:
        """What the paper's orders are of: Deshpande et al. compare zero-shot less in-language (BZ -
        BS), Conneau et al. the zero-shot scores."""
        deshpande = self.told["paper"] == "deshpande"
        return "zero-shot less in-language" if deshpande else "zero-shot"

    @property
    def ordered_by(self) -> str:
        """What the paper's order is called."""
        return order_called(self.told["paper"])

    def orders(self, task: str) -> _Rows:
        """Of each two conditions that the paper puts in an order, by how many points the first is
        above in what the paper compares, the 95 % interval, and whether it is found. Of conditions
        with one training nothing is decided: the interval is over test items alone."""
        rows: _Rows = []
        judged_by_loss = self.told["paper"] == "deshpande"
        for s in self.scores:
            if (s.task, s.condition) == (task, _COMPARED):
                names = str(s.encoder).split(" / ")
                lacking = [name for name in names if judged_by_loss and not self.learnt(task, name)]
                single = [
                    one
                    for name in names
                    for one in name.split(" - ")
                    if self.trainings(task, one) < 2
                ]
                if single:
                    found = f"undecided: {single[0]} has one training"
                elif lacking:
                    found = f"undecided: {lacking[0]} is not clearly above the most frequent label"
                elif s.low is None or s.high is None:
                    found = "open"
                else:
                    found = "found" if s.low > 0 else "reversed" if s.high < 0 else "open"
                rows.append((" > ".join(names), points_told(s), found))
        return rows

    @property
    def over_items(self) -> bool:
        """Whether intervals are over trainings and test items; of an earlier version's run they are
        over trainings alone, and it has no differences of two conditions."""
        return any(s.evidence.over_seeds for s in self.scores if s.seed is None)

    def learnt(self, task: str, name: str) -> bool:
        """Whether a condition that is trained on the copy does better there than the most frequent
        label: if not, what it loses zero-shot says nothing."""
        return self._above_label(task, name, "in_language")

    def _above_label(self, task: str, name: str, condition: str | None) -> bool:
        """Whether a mean is clearly above the most frequent label; true where that is not known."""
        found, common = (self.mean(task, name, way) for way in (condition, "majority"))
        if found is None or common is None or math.isnan(found.value - common.value):
            return True
        return (found.value if found.low is None else found.low) > common.value

    def notes(self, task: str) -> list[str]:
        """What the reader should know: what the positive control reached, trainings that fell short,
        text that was not read, conditions that are left out, what intervals do not cover."""
        notes, control, other = list[str](), self.told.get("control", ""), self.called[1]
        sides = [self.mean(task, control, way) for way in (None, "in_language", "majority")]
        if sides[0] is not None and sides[1] is not None:
            common = "" if sides[2] is None else f", the most frequent label {_percent(sides[2])}"
            notes.append(
                f"The positive control, {control}, has {_percent(sides[0])} zero-shot and "
                f"{_percent(sides[1])} trained on {other}{common}."
            )
        low = [name for name in self.names if not self._above_label(task, name, None)]
        if low:
            are, their = ("is", "its place") if len(low) == 1 else ("are", "their places")
            notes.append(
                f"Zero-shot, {join(low)} {are} not clearly above the most frequent label: {their} among "
                "the others may be chance."
            )
        for name in self.names:
            if not self.learnt(task, name):
                notes.append(
                    f"{name}, trained on {other}, is not clearly above the most frequent label: what "
                    "it loses zero-shot says nothing."
                )
        for column, (condition, _) in COLUMNS.items():
            said = {
                name: score.evidence.warnings
                for name in self.names
                if (score := self.mean(task, name, condition)) and score.evidence.warnings
            }
            if said and column != "in the original":
                name, told = next(iter(said.items()))
                others = len(said) - 1
                more = f", and {others} further condition{'s' * (others > 1)}" if others else ""
                left = f"; and {len(told) - 3} more such" if len(told) > 3 else ""
                notes.append(f"{column} ({name}{more}): {'; '.join(told[:3])}{left}.")
        if not self.over_items:
            notes.append(
                "This run is of an earlier version: its intervals are over trainings alone, and the "
                "paper's orders are not compared. In another folder it can be run again."
            )
        for name in self.told.get("left_out", []):
            notes.append(
                f"{name} is left out: its copy is a text of its own, and no data in its order were "
                "named (--syntax)."
            )
        few = few_trainings_told([self.trainings(task, name) for name in self.names])
        return [*notes, few] if few else notes


def points_told(score: Score) -> str:
    """A difference in points with its interval.

    >>> points_told(Score(quantity="accuracy_difference", value=-0.25, n=9, low=-0.3, high=-0.2))
    '-25.0 [-30.0, -20.0]'
    """
    value = f"{100 * score.value:+.1f}"
    if score.low is None or score.high is None:
        return value
    return f"{value} [{100 * score.low:+.1f}, {100 * score.high:+.1f}]"


def _spread(score: Score) -> str:
    if score.low is None or score.high is None:
        return f"{score.value:z.2f}"
    return f"{score.value:z.2f} [{score.low:z.2f}, {score.high:z.2f}]"


def load_study_transfer(folder: str | Path) -> StudyTransferFolder:
    """Read a run of ``crosslens study-transfer``.

    Raises
    ------
    InputError: the folder holds no finished one.
    StoreError: one of its files is damaged.
    """
    folder = Path(folder)
    config, scores = finished_run(folder, "study_transfer", "study-transfer")
    told: Told = check_shape(config.get("study"), f"{folder}/config.json, study", Told)
    measured = dict.fromkeys(
        str(s.encoder) for s in scores if s.encoder is not None and s.condition != _COMPARED
    )
    names = list(dict.fromkeys([*(n for n in told["published"] if n in measured), *measured]))
    main = headline_quantities(scores)
    return StudyTransferFolder(
        told, scores, names, _languages(scores, folder / "scores.jsonl"), main, config
    )


def _languages(scores: Sequence[Score], path: Path) -> tuple[str, str]:
    """The language of the fine-tuning, and the other one."""
    ways = [(str(s.source), str(s.target)) for s in scores if s.condition is None]
    for original, copy in ways:
        if copy != original:
            return original, copy
    expected = "scores of another language than that of the fine-tuning"
    refuse(str(path), expected, f"{len(ways)} without one", "make the run again", StoreError)


def printed_less(told: Told, name: str, task: str, copy: str) -> str:
    """The paper's number of a condition in a task, as printed, or numbers, where its tables differ;
    "" where there is none. Conneau et al.'s are less that of the system that our default is, in the
    very language where they print it; else they are means of three."""
    base = _DEFAULT if told["paper"] != "deshpande" else ""
    less = {one.table: one.value for one in _printed(told, base, task, copy)}
    found = [one.value - less.get(one.table, 0.0) for one in _printed(told, name, task, copy)]
    return " or ".join(dict.fromkeys(f"{value:.3g}" for value in found))


def _printed(told: Told, name: str, task: str, copy: str) -> list[Published]:
    """What a paper prints of a condition: differences, or scores in the very language."""
    deshpande, system = told["paper"] == "deshpande", told["published"].get(name, "")
    own = [
        one
        for one in published(paper=told["paper"], task=task)
        if not deshpande and same_language(one.language, copy)
    ]
    if own:
        return [one for one in own if one.system == system]
    system += ", BZ - BS" if deshpande else ""
    where = "eng" if deshpande else "mean"
    return [
        one
        for one in published(paper=told["paper"], task=task, language=where)
        if one.system == system and one.metric.endswith("_difference")
    ]


def printed_head(told: Told, task: str, quantity: str, copy: str) -> str:
    """What the paper's numbers are: of what, and by which measure, where that is not ours."""
    head, called = PAPERS[told["paper"]], "BZ - BS"
    found = [one for name in told["published"] for one in _printed(told, name, task, copy)]
    if told["paper"] != "deshpande":
        in_it = any(same_language(one.language, copy) for one in found)
        where = language(copy) if in_it else "mean of 3"
        called = f"less {told['published'].get(_DEFAULT) or 'Default'}, {where}"
    metrics = dict.fromkeys(one.metric.removesuffix("_difference") for one in found)
    other = "".join(f", {_measure(one, quantity)}" for one in metrics if one != quantity)
    return f"{head}: {called}{other}"


def _measure(metric: str, quantity: str) -> str:
    """What a paper's measure is called beside ours: where ours counts labels of words one by one, F1
    is that of the labels, each run of the same being one, as XTREME has it."""
    if (metric, quantity) == ("span_f1", "accuracy"):
        return "F1 as XTREME counts it"
    return QUANTITIES[metric].label


def summary(folder: str | Path) -> list[_Rows | str]:
    """Tables and sentences on a finished run.

    Raises
    ------
    InputError: the folder holds no finished one.
    StoreError: one of its files is damaged.
    """
    run, parts = load_study_transfer(folder), list[_Rows | str]()
    for task, (quantity, counted_as) in run.main.items():
        label = QUANTITIES[quantity].label + (f", as {counted_as} counts" if counted_as else "")
        parts.append(f"{task}: {label} in per cent, means over trainings")
        head = ("condition", "trainings", *COLUMNS, "zero-shot less trained on it (BZ - BS)")
        head = (*head, "original alone less it (MZ - BS)")
        head += ("zero-shot less default",) if run.has_default else ()
        head = (*head, printed_head(run.told, task, quantity, run.languages[1]))
        rows: _Rows = []
        for name in run.names:
            cells = [run.mean(task, name, way, copy=copy) for way, copy in COLUMNS.values()]
            cells += [run.less(task, name), run.monolingual_less(task, name)]
            told = [_percent(one) for one in cells]
            if run.has_default:
                less = run.less_default(task, name)
                told.append("-" if less is None else f"{100 * less:+.1f}")
            n = run.trainings(task, name)
            printed = printed_less(run.told, name, task, run.languages[1]) or "-"
            rows.append((name, str(n), *told, printed))
        orders = run.orders(task)
        head_of = (run.ordered_by, f"{run.compared}: points", "")
        parts += [filled_columns(head, rows, "-"), *([[head_of, *orders]] if orders else [])]
        parts += [compared] if (compared := comparisons_told(len(orders))) else []
        parts += [*run.with_alignment(task), *run.notes(task)]
    return parts


def _percent(score: Score | None) -> str:
    """With the ends of its interval, but of a control the value alone."""
    if score is not None and score.condition in ("majority", "random_encoder"):
        return format_percent(score.value)
    return format_with_ends(score)
