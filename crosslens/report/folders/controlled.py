"""A controlled study as its report and the terminal show it: each condition, whether what the paper
found is found, and how alignment grew while the conditions were trained."""

import dataclasses
import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from crosslens.errors import StoreError, refuse
from crosslens.files import check_shape, read_json
from crosslens.languages import NAMES, same_language
from crosslens.readers.published import PAPERS, published
from crosslens.report.folders.log import as_number, as_table, read_log
from crosslens.report.parts.wording import language
from crosslens.score import Score, read_scores
from crosslens.seed_means import means
from crosslens.selection import Best, chosen_layer
from crosslens.stats import mean_interval

__all__ = [
    "REACHED",
    "Learning",
    "StudyFolder",
    "load_study",
    "measured_so_far",
    "onset",
    "order_called",
    "printed",
    "printed_what",
    "title_of",
]

REACHED = 0.5
"""P@1 that the positive control must reach."""

_AGAIN = "run the study again"


class Told(TypedDict):
    """What a run notes of its study."""

    name: str
    question: str
    paper: str
    order: list[list[str]]
    control: str
    published: dict[str, str]


def measured_so_far(folder: str | Path) -> list[Score]:
    """The measurements of a study, finished or not: of each seed, and the means over those that are
    there."""
    folder = Path(folder)
    if (folder / "scores.jsonl").exists():
        return list(read_scores(folder / "scores.jsonl"))
    found = [
        score for part in sorted((folder / "parts").glob("*.jsonl")) for score in read_scores(part)
    ]
    return [*found, *means(found)]


@dataclasses.dataclass(frozen=True)
class Learning:
    """P@1 of subwords while one condition was trained.

    Attributes
    ----------
    points: seed -> step -> tokens seen, both languages' together, and P@1, the mean of both
        directions.
    end: tokens of a whole training.
    ended: seeds whose training is over; the others may still get to where they are not.
    """

    points: Mapping[int, Mapping[int, tuple[float, float]]]
    end: float
    ended: Collection[int]

    @property
    def seeds(self) -> dict[int, dict[float, float]]:
        """Seed -> tokens seen -> P@1."""
        return {seed: dict(points.values()) for seed, points in self.points.items()}

    def curve(self) -> dict[float, tuple[float, float, float]]:
        """Tokens -> mean over the seeds and its 95 % interval (NaN of one seed), at the steps where
        all seeds were measured. Seeds may have seen other numbers of tokens by a step, as blocks of
        whole sentences hold more and fewer: these are averaged, too."""
        every = [set(points) for points in self.points.values()]
        found = {}
        for step in sorted(set.intersection(*every)) if every else ():
            tokens, values = np.array([points[step] for points in self.points.values()]).T
            mean, low, high = (
                mean_interval(values) if len(values) > 1 else (values[0], math.nan, math.nan)
            )
            low, high = (float(np.clip(end, 0, 1)) for end in (low, high))
            found[float(tokens.mean())] = float(mean), low, high
        return found

    def reached(self) -> str:
        """After how many tokens P@1 was .5, over the seeds; seeds that did not get there are
        counted, not averaged, and those that are under way and are not there yet are named apart."""
        seeds = self.seeds
        onsets = {seed: onset(curve, REACHED) for seed, curve in seeds.items()}
        there = sorted(one / 1e6 for one in onsets.values() if one is not None)
        open_ = [seed for seed, one in onsets.items() if one is None and seed not in self.ended]
        judged = [seed for seed in onsets if seed not in open_]
        if not there:
            last = [max(seeds[seed]) / 1e6 for seed in judged or onsets] or [self.end / 1e6]
            ends = dict.fromkeys(f"{one:.1f}" for one in (min(last), max(last)))
            told = f"not by {' to '.join(ends)} M"  # some trainings may have stopped early
        elif len(there) < len(judged):
            when = " and ".join(f"{one:.1f}" for one in there)
            told = f"{len(there)} of {len(judged)} seeds, at {when} M"
        elif len(there) == 1:
            told = f"{there[0]:.1f} M"
        else:
            mean, low, high = mean_interval(np.array(there))
            told = f"{mean:.1f} M [{max(0.0, low):.1f}, {high:.1f}]"
        more = f" ({_seeds_are(len(open_))} under way)"
        return f"{told}{more if open_ else ''}"


def _seeds_are(n: int) -> str:
    return "1 seed is" if n == 1 else f"{n} seeds are"


def onset(curve: Mapping[float, float], level: float) -> float | None:
    """Where a curve first reaches a level, on straight lines between its points; None where it does
    not.

    >>> onset({1e6: 0.1, 2e6: 0.3, 3e6: 0.7}, 0.5), onset({1e6: 0.1}, 0.5)
    (2500000.0, None)
    """
    before: tuple[float, float] | None = None
    for place, value in sorted(curve.items()):
        if value >= level:
            if before is None:
                return place
            return before[0] + (place - before[0]) * (level - before[1]) / (value - before[1])
        before = (place, value)
    return None


@dataclasses.dataclass(frozen=True)
class StudyFolder:
    """A run's folder, finished or not.

    Attributes
    ----------
    told: what it notes of its study. scores: of each seed, and means (without a seed).
    names: conditions that are measured. layers: the layer at which each one's sentences are found
        best, chosen on other sentences. untrained: the same of its encoder before training, at the layer
        that is best on these sentences. learning: of conditions whose subwords have two ids.
    config: all of its config.json.
    """

    told: Told
    scores: list[Score]
    names: list[str]
    layers: Mapping[str, Best | None]
    untrained: Mapping[str, Best | None]
    learning: Mapping[str, Learning]
    config: Mapping[str, Any]

    @property
    def conditions(self) -> dict[str, Any]:
        """Each condition as the run notes it."""
        return as_table(as_table(self.config.get("settings")).get("conditions"))

    @property
    def recipes(self) -> dict[str, dict[str, Any]]:
        """Each condition's recipe."""
        return {
            name: as_table(as_table(one).get("recipe")) for name, one in self.conditions.items()
        }

    @property
    def title(self) -> str:
        """What a page on it is called: a study of one natural pair by its languages, too."""
        name, colon, question = title_of(self.told).partition(": ")
        pairs = {frozenset((s.source, s.target)) for s in self.scores if s.source and s.target}
        codes = sorted(map(str, next(iter(pairs)))) if len(pairs) == 1 else []
        natural = len(codes) == 2 and not any("-" in code for code in codes)
        pair = f", {'–'.join(map(language, codes))}" if natural else ""
        return f"{name}{pair}{colon}{question}"

    @property
    def compares_gains(self) -> bool:
        """Whether conditions are compared by what training adds, too: of two natural languages, or of a
        copy with the original's ids, an untrained encoder finds sentences by what both write alike."""
        return not any(score.quantity == "token_alignment" for score in self.scores)

    def trainings(self, name: str) -> int:
        """How many trainings of a condition are measured."""
        return len({s.seed for s in self.scores if s.encoder == name and s.seed is not None})

    @property
    def all_trainings(self) -> list[int]:
        """How many trainings of each condition are measured, in the order of the names."""
        return [self.trainings(name) for name in self.names]

    def sentences(self, name: str, condition: str = "unaligned") -> Score | None:
        """P@1 of sentences without a map, the mean over seeds, at the chosen layer; with
        "random_encoder" the untrained encoder's."""
        best = (self.untrained if condition == "random_encoder" else self.layers).get(name)
        layer = None if best is None else best.layer
        return self.mean(name, "precision_at_1", condition, layer)

    def cka(self, name: str) -> Score | None:
        """CKA, the mean over seeds, at the layer that is chosen for the sentences."""
        best = self.layers.get(name)
        return self.mean(name, "debiased_linear_cka", None, None if best is None else best.layer)

    def mean(
        self, name: str, quantity: str, condition: str | None, layer: int | None = None
    ) -> Score | None:
        """A mean over seeds; None where there is none."""
        wanted = (name, quantity, condition, layer)
        return next(
            (
                score
                for score in self.scores
                if score.seed is None
                and (score.encoder, score.quantity, score.condition, score.layer) == wanted
            ),
            None,
        )

    def curve(self, name: str, quantity: str, condition: str | None) -> dict[int, Score]:
        """Layer -> mean over seeds."""
        return {
            score.layer: score
            for score in self.scores
            if score.seed is None
            and score.layer is not None
            and (score.encoder, score.quantity, score.condition) == (name, quantity, condition)
        }


def load_study(folder: str | Path) -> StudyFolder:
    """What a study's folder says so far.

    Raises
    ------
    InputError: it is a run of another kind.
    StoreError: its files are damaged, or nothing of it is measured yet.
    """
    folder = Path(folder)
    config = read_json(folder / "config.json", dict, _AGAIN)
    if (kind := config.get("kind")) != "controlled":
        expected, remedy = "a controlled study", "name folders of crosslens train conneau-sharing …"
        refuse(str(folder), expected, f"a run of kind {kind!r}", remedy)
    told: Told = check_shape(config.get("study"), f"{folder}/config.json, study", Told, _AGAIN)
    scores = measured_so_far(folder)
    if not scores:
        refuse(str(folder), "a training that is measured", "none yet", "resume it", StoreError)
    measured = dict.fromkeys(str(score.encoder) for score in scores)
    names = list(dict.fromkeys([*(n for n in told["published"] if n in measured), *measured]))
    layers = {name: _layer(scores, name) for name in names}
    untrained = {name: _layer(scores, name, "random_encoder") for name in names}
    study = StudyFolder(told, scores, names, layers, untrained, {}, config)
    learning = {}
    for name, recipe in study.recipes.items():
        if (found := _learning(folder / name, recipe)) is not None:
            learning[name] = found
    return dataclasses.replace(study, learning=learning)


def _learning(folder: Path, recipe: Mapping[str, Any]) -> Learning | None:
    """P@1 of subwords from the logs of a condition's trainings; None where none has it."""
    steps, found, ended = (
        as_number(recipe.get("steps")),
        dict[int, dict[int, tuple[float, float]]](),
        set[int](),
    )
    for place in sorted(folder.glob("seed-*"), key=lambda path: (len(path.name), path.name)):
        number = place.name.partition("-")[2]
        if not number.isdigit():
            continue
        seed = int(number)
        if (place / "model" / "config.json").is_file():  # it may have stopped before its last step
            ended.add(seed)
        for step, tokens, line in read_log(place / "log.jsonl", "alignment").rows:
            ways = [
                as_number(as_table(way).get("value"))
                for way in as_table(line.get("alignment")).values()
            ]
            if ways and not any(map(math.isnan, ways)):
                found.setdefault(seed, {})[step] = tokens, sum(ways) / len(ways)
                ended |= {seed} if step >= steps else set()
    end = steps * as_number(recipe.get("batch_tokens"))
    return Learning(found, end, ended & found.keys()) if found else None


def _layer(scores: Sequence[Score], name: str, condition: str = "unaligned") -> Best | None:
    """The layer whose sentences are found best, chosen on the training half of the sentences, where
    these were measured."""
    curves: dict[str, dict[tuple[Any, ...], dict[int, Score]]] = {"held_out": {}, "train": {}}
    for score in scores:
        mine = (score.encoder, score.quantity, score.condition)
        if mine != (name, "precision_at_1", condition) or score.seed is None:
            continue
        if (part := score.evidence.part) in curves:
            curve = curves[part].setdefault((score.seed, score.source), {})
            curve[score.layer or 0] = score
    return chosen_layer(curves["held_out"].values(), curves["train"].values())


def title_of(told: Told) -> str:
    """What a page on a study is called: a study that is named by its conditions would have all of
    them in its name.

    >>> named = {"name": "eng-translit+inversion", "question": "?", "published": {"a": ""}}
    >>> title_of(named)
    'English and a copy of it by transliteration and inversion: does it come to lie on the original?'
    >>> title_of({**named, "name": "eng-translit,inversion", "published": {"a": "", "b": ""}})
    'English and 2 copies of it: which of them come to lie on the original?'
    """
    name, n = told["name"], len(told["published"])
    code, _, by = name.partition("-")
    if code in PAPERS or code not in NAMES:
        return f"{name}: {told['question']}"
    if n > 1:
        return f"{NAMES[code]} and {n} copies of it: which of them come to lie on the original?"
    how = re.sub(r"\btranslit\b", "transliteration", by).replace("+", " and ")
    return f"{NAMES[code]} and a copy of it by {how}: does it come to lie on the original?"


def order_called(paper: str) -> str:
    """What a paper's order of conditions is called: Conneau et al.'s is that of the mean over their
    languages of what is asked in XNLI (their NER has no anchors above the identical ones), and in one
    language it may be another.

    >>> order_called("deshpande"), order_called("conneau")
    ("the paper's order", "the paper's order, by its mean of XNLI")
    """
    return "the paper's order" + (", by its mean of XNLI" if paper == "conneau" else "")


def printed_what(study: StudyFolder) -> str:
    """What :func:`printed` are numbers of."""
    if study.told["paper"] == "deshpande":
        return "alignment, %"
    own = _own_language(study)
    return f"XNLI, {language(own) if own else 'mean of 3'}, less Default"


def printed(study: StudyFolder, name: str) -> str:
    """The paper's number of a condition, as printed, or less its Default's, where it prints the very
    language; "-" where there is none."""
    told = study.told
    system, default = told["published"].get(name, ""), 0.0
    if told["paper"] == "deshpande":
        there = published(paper=told["paper"], metric="token_alignment")
    elif own := _own_language(study):
        there = published(paper=told["paper"], task="xnli", language=own, metric="accuracy")
        default = next(one.value for one in there if one.system == "Default")
    else:
        there = published(
            paper=told["paper"], task="xnli", language="mean", metric="accuracy_difference"
        )
    found = [one.value - default for one in there if one.system == system]
    return f"{found[0]:g}" if found else "-"


def _own_language(study: StudyFolder) -> str:
    """The second language of a pair, where Conneau et al. print numbers of it; else ""."""
    printed_of = {one.language for one in published(paper=study.told["paper"], task="xnli")}
    codes = {str(code) for s in study.scores for code in (s.source, s.target)}
    own = {one for one in printed_of for code in codes if same_language(one, code)}
    return own.pop() if len(own) == 1 else ""
