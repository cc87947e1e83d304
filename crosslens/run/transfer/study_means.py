"""Means over the trainings of a controlled study, from what each of its models answered, item by
item: trainings and test items are crossed, so that intervals are over both.

    runs of transfer -> condition, control -> training -> outcomes
    -> means; zero-shot less in-language; the differences of which a paper has an order
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.files import read_json
from crosslens.grid_settings import averaged, chosen_outcomes
from crosslens.languages import same_language
from crosslens.outcomes import Outcomes, read_outcomes
from crosslens.readers.published import Claim
from crosslens.run.transfer.fits import IN_LANGUAGE, LESS
from crosslens.run.transfer.measures import contrast, over_seeds
from crosslens.run.transfer.shortfall import UNREAD, unread_told
from crosslens.run.transfer.splits import PUBLISHED
from crosslens.score import Score, headline_quantities, is_headline, read_scores

__all__ = ["COMPARED", "MONOLINGUAL", "Answered", "study_means"]

MONOLINGUAL = "monolingual"
"""``condition`` of a score of an encoder that was trained on the original alone."""
COMPARED = "conditions"
"""``condition`` of a difference that a paper's claim is of, whose ``encoder`` is "HIGHER / LOWER"."""

_CONTROLS = ("majority", "random_encoder")
_Key = tuple[str, str, str | None, str]  # task, condition of the study, control, target
_Measured = dict[_Key, dict[int, Outcomes]]
_System = tuple[str, str, str | None]  # task, condition of the study, control


@dataclasses.dataclass(frozen=True)
class Answered:
    """The finished run of transfer of one training of a study, from whose folder the answers to each
    test item are read.

    Attributes
    ----------
    name: condition of the study. seed: of the training. folder: of the run of transfer.
    called: code of a tested language in the run -> code in the study: {"eng": "eng", "eng-x-2":
        "eng-x"} of an encoder of the original alone, which tests the copies of several conditions.
    alone: whether the encoder was trained on the original alone (MZ).
    """

    name: str
    seed: int
    folder: Path
    called: Mapping[str, str]
    alone: bool = False

    @functools.cached_property
    def scores(self) -> Sequence[Score]:
        """Of the run."""
        return list(read_scores(self.folder / "scores.jsonl"))

    def code(self, language: str) -> str | None:
        """What the study calls a language of the run ("zho", whose data may be called "cmn"); None
        of one that is not this condition's."""
        if language in self.called or self.alone:
            return self.called.get(language)
        return next((code for code in self.called.values() if same_language(code, language)), None)

    def named(self, score: Score) -> Score:
        """The score with languages called as the study calls them."""
        source, target = (
            code and (self.code(code) or code) for code in (score.source, score.target)
        )
        return dataclasses.replace(score, source=source, target=target)


def study_means(
    runs: Sequence[Answered],
    languages: tuple[str, str],
    paper: str,
    claimed: Sequence[Claim],
) -> list[Score]:
    """Means over trainings as scores without a seed, the controls, and the differences, each with its
    95 % interval over trainings and test items; of one training over its items.

    Parameters
    ----------
    runs: of all trainings, those of one condition with the same items.
    languages: the original and its copy.
    paper: key of :data:`crosslens.readers.published.PAPERS`; Deshpande et al. compare zero-shot less
        in-language, Conneau et al. zero-shot.
    claimed: of the study, what the paper puts above what.
    """
    measured, told = _Measured(), dict[_Key, Score]()
    for run in runs:
        for key, mine, score in _of(run):
            first = measured.get((key[0], runs[0].name, key[2], key[3]), {}).values()
            mine = _same_sentences(next(iter(first), mine), mine)
            measured.setdefault(key, {})[run.seed] = mine
            told.setdefault(key, score)
    scores = [_mean(key, seeds, told[key]) for key, seeds in measured.items()]
    warnings = _warnings(runs)
    scores = [_warned(score, warnings, languages[1]) for score in scores]
    scores += _controls(runs, languages)
    names = list(dict.fromkeys(run.name for run in runs))
    for task in dict.fromkeys(key[0] for key in measured):
        sides = _Sides(measured, told, task, languages[1])
        for name in names:
            scores += sides.less(name)
        for claim in claimed:
            scores += sides.compared(claim, less=paper == "deshpande")
    return scores


def _of(run: Answered) -> Iterator[tuple[_Key, Outcomes, Score]]:
    """What a run has of the quantity that each task is judged by, on test items, and a score of it:
    the mean over its fine-tunings."""
    scores, main = run.scores, headline_quantities(run.scores)
    dev = [score for score in scores if score.evidence.part == "dev"]
    for key, seeds in chosen_outcomes(read_outcomes(run.folder), dev).items():
        task, _, condition, way, _, source, target, quantity, method = key
        wanted = (quantity, method or "") == main[task] and way == "dev"
        code = run.code(target)
        if not wanted or condition in _CONTROLS or code is None:
            continue
        score = next(
            s
            for s in scores
            if (s.task, s.condition, s.source, s.target) == (task, condition, source, target)
            and (s.quantity, s.evidence.counted_as or "", s.evidence.part)
            == (quantity, method or "", "test")
        )
        control = MONOLINGUAL if run.alone else condition
        mine = averaged([seeds[seed] for seed in sorted(seeds)])
        yield (task, run.name, control, code), mine, run.named(score)


def _same_sentences(first: Outcomes, other: Outcomes) -> Outcomes:
    """The same answers under the names of the first one's items, where these are the same sentences
    with as many words each: a copy that is a text of its own has its words in another order, and what
    its items are called follows from their text."""
    if other.item_id.tolist() == first.item_id.tolist() or len(other) != len(first):
        return other
    gold = [one.gold.tolist() for one in (first, other) if one.gold is not None]
    words = [[len(str(labels).split()) for labels in rows] for rows in gold]
    if len(words) < 2 or words[0] != words[1]:
        return other
    return dataclasses.replace(other, item_id=first.item_id, group=first.group)


def _mean(key: _Key, seeds: Mapping[int, Outcomes], score: Score) -> Score:
    task, name, condition, target = key
    details: dict[str, Any] = {"part": "test"}
    fields = {"task": task, "encoder": name, "condition": condition, "source": score.source}
    return over_seeds(seeds, {**fields, "target": target, "n": score.n, "details": details})


def _controls(runs: Sequence[Answered], languages: tuple[str, str]) -> Iterator[Score]:
    """The most frequent label, and the first training's random weights, of each condition."""
    seen = set[Any]()
    for run in runs:
        main = headline_quantities(run.scores)
        for score in run.scores if not run.alone else ():
            score = run.named(score)
            key = (score.task, run.name, score.condition, score.target)
            if score.condition in _CONTROLS and is_headline(score, main) and key not in seen:
                if score.evidence.part == "test" and score.target in languages:
                    seen.add(key)
                    yield dataclasses.replace(score, encoder=run.name, seed=None)


def _warnings(runs: Sequence[Answered]) -> dict[_System, list[str]]:
    """What is said of the trainings of each condition and control, each sentence once, with the seeds
    that it is said of; that two were trained on more or less comes first."""
    found: dict[_System, dict[str, list[int]]] = {}
    updates: dict[_System, int] = {}
    for run in runs:
        control = MONOLINGUAL if run.alone else None
        for score in run.scores:
            details = score.details or {}
            taken = details.get("chosen", [details.get("setting")])[0] == details.get("setting")
            if score.evidence.part != "dev" or score.condition in _CONTROLS or not taken:
                continue
            key = (str(score.task), run.name, control or score.condition)
            updates.setdefault(key, details.get("updates", 0))
            for one in _as_called(score, run):
                found.setdefault(key, {}).setdefault(one, []).append(run.seed)
        for task, way, one in _in_language(run):
            key = (task, run.name, way or control)
            found.setdefault(key, {}).setdefault(one, []).append(run.seed)
    told = {
        key: [f"{_seeds(seeds)}: {one}" for one, seeds in said.items()]
        for key, said in found.items()
    }
    for (task, name, control), there in updates.items():
        zero = updates.get((task, name, None))
        if control == IN_LANGUAGE and there and zero and not 0.9 <= there / zero <= 1.1:
            first = (
                f"{there:,} updates, and {zero:,} on the original: the two differ in how much they "
                "are trained on, too"
            )
            told[task, name, control] = [first, *told.get((task, name, control), [])]
    return told


def _seeds(seeds: Sequence[int]) -> str:
    numbers = ", ".join(map(str, dict.fromkeys(seeds)))
    return f"seed{'s' * (len(set(seeds)) > 1)} {numbers}"


def _as_called(score: Score, run: Answered) -> list[str]:
    """The warnings of a run, with languages called as the study calls them: an encoder of the original
    alone tests the copies of all conditions, each under a code of its own."""
    unread = (score.details or {}).get("unread", {})
    codes = {name: run.code(name) for name in unread}
    here = {code: unread[name] for name, code in codes.items() if code is not None}
    said = []
    for one in score.evidence.warnings or ():
        for what in UNREAD:
            if one == unread_told(unread, what):
                one = unread_told(here, what)
        said += [one] if one else []
    return said


def _in_language(run: Answered) -> Iterator[tuple[str, str | None, str]]:
    """Task; where models were trained in the second language, IN_LANGUAGE, and on what, if not on the
    split that is published for it; otherwise None, and why not."""
    told = read_json(run.folder / "config.json", dict).get("in_language") or {}
    for task, languages in told.items():
        for target, one in languages.items():
            if (code := run.code(target)) is None:
                continue
            if why := one.get("not_trained"):
                yield task, None, f"not fine-tuned on {code} ({why})"
            elif (split := one.get("splits", {}).get(target, PUBLISHED)) != PUBLISHED:
                yield task, IN_LANGUAGE, f"{one['train_items'][target]:,} items, {split}"


def _warned(score: Score, warnings: Mapping[_System, Sequence[str]], copy: str) -> Score:
    told = warnings.get((str(score.task), str(score.encoder), score.condition))
    if not told or score.target != copy:
        return score
    return dataclasses.replace(score, details={**(score.details or {}), "warnings": list(told)})


@dataclasses.dataclass(frozen=True)
class _Sides:
    """Differences of conditions and controls on the copy, in one task: each is a contrast of two
    sides, which have a list of trainings each.

    Attributes
    ----------
    measured: what each training answered. told: a score of each, for its languages.
    task: name of the task. copy: the language tested.
    """

    measured: _Measured
    told: Mapping[_Key, Score]
    task: str
    copy: str

    def less(self, name: str) -> Iterator[Score]:
        """Zero-shot less in-language of the same trainings, and of encoders of the original alone."""
        zero, taught, alone = (self._seeds(name, c) for c in (None, IN_LANGUAGE, MONOLINGUAL))
        both = [seed for seed in zero if seed in taught]
        if both:
            side = [(1.0, [zero[s] for s in both]), (-1.0, [taught[s] for s in both])]
            yield from self._score(name, LESS, [side])
        if alone and taught:
            sides = [[(1.0, [*alone.values()])], [(-1.0, [*taught.values()])]]
            yield from self._score(name, f"{MONOLINGUAL}_less_in_language", sides)

    def compared(self, claim: Claim, *, less: bool) -> Iterator[Score]:
        """How much what a paper puts above something is above it: of zero-shot, or of zero-shot less
        in-language."""
        sides = []
        for name, weight in claim.weights.items():
            zero, taught = (self._seeds(name, c) for c in (None, IN_LANGUAGE))
            seeds = [seed for seed in zero if seed in taught or not less]
            side = [(weight, [zero[s] for s in seeds])]
            side += [(-weight, [taught[s] for s in seeds])] if less else []
            sides.append(side)
        if all(found for side in sides for _, found in side):
            yield from self._score(f"{claim.higher} / {claim.lower}", COMPARED, sides)

    def _seeds(self, name: str, control: str | None) -> dict[int, Outcomes]:
        return dict(sorted(self.measured.get((self.task, name, control, self.copy), {}).items()))

    def _score(
        self, name: str, condition: str, sides: Sequence[Sequence[tuple[float, list[Outcomes]]]]
    ) -> Iterator[Score]:
        """The contrast, where all are of the same items and something was counted."""
        first = next(
            s for key, s in self.told.items() if (key[0], key[3]) == (self.task, self.copy)
        )
        one = sides[0][0][1][0]
        fields = {
            "n": first.n,
            "task": self.task,
            "encoder": name,
            "condition": condition,
            "source": first.source,
            "target": self.copy,
            "details": {"part": "test", **({"counted_as": one.method} if one.method else {})},
        }
        if (found := contrast(sides, fields)) is not None:
            yield found
