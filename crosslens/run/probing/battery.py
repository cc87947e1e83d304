"""A battery of probes: encoders and data sets to measurements of every layer, each beside its
controls.

    data, encoders -> activations of every text, read by all tasks that need it -> measurements per
    task -> paired tests

A text is encoded once, by the encoder and by its randomly re-initialised copy, whatever number of
tasks read it. Each task's measurements are written when they are whole: after a stop the same
command computes only what is missing.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.asked import asked_of
from crosslens.checks import check_seed, is_whole
from crosslens.errors import InputError, check_choice, quote, refuse
from crosslens.files import check_name, sha256_file
from crosslens.outcomes import read_outcomes
from crosslens.probes.tasks.task import GROUPS
from crosslens.progress import Progress, say
from crosslens.run.engine import Run, versions
from crosslens.run.probing.comparison import paired_tests
from crosslens.run.probing.data import Found, Sources, choose_tasks, read_tasks
from crosslens.run.probing.encoders import (
    Plan,
    Subject,
    check_encoders,
    extract_texts,
    find_subjects,
    language_models,
    random_name,
    texts_of,
)
from crosslens.run.probing.items import Measured
from crosslens.run.probing.kinds.classify import SentenceTask
from crosslens.run.probing.kinds.surface import surface_scores
from crosslens.run.probing.kinds.task import Given
from crosslens.run.probing.seeds import over_seeds
from crosslens.score import Score

__all__ = ["Battery", "run_battery"]

_PLL = {"original": "pll", "word-l2r": "pll_word_l2r"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Battery:
    """The settings of a battery.

    Attributes
    ----------
    encoders: folders or hub names, one or more; each is measured, and they are compared.
    battery: a group of tasks, "semantic", "syntactic" or "language", or "all"; None for those of
        ``only`` and the user's own.
    only: tasks of the catalogue, if not all of the battery's. What is named here must be there;
        other tasks without data are reported as not measured.
    data: the folder with the data sets (:mod:`crosslens.probes.tasks.catalogue` says under which
        names); "hf:" for the Hugging Face hub, or "hf:FOLDER" for copies of its data sets.
    train: the language that probes are trained on, a code of two or three letters, or a treebank's
        name; English without it. Of several the items are trained on together; a list, or with
        commas between them.
    test: further languages that they are tested on; tasks that train nothing are measured in these
        alone.
    labels: task -> a file of ``label TAB text`` or a treebank, or three of them: train, dev, test.
    numbers: task -> files of ``number TAB text`` likewise: the numbers are told by ridge
        regression. Which labels are numbers is said and not guessed, since classes may be called 1
        to 5.
    treebank: what the names of the treebank's files begin with; en_ewt without it.
    mdl: measure description lengths, too.
    probe: of labels: "linear" (an L2 penalty), "l1", "mlp" (one hidden layer), or "mix" (linear,
        and one more on a learnt mix of all layers). WiC's classifiers are linear always.
    pll: pseudo-log-likelihood of masked models: "original" (Salazar et al. 2020), or "word-l2r"
        (Kauf & Ivanova 2023).
    random_control: measure a randomly re-initialised copy of each encoder, too.
    limit: most items of each part of a task (sentences of a treebank, pairs of a category), drawn
        at random; None for all.
    seed: of everything that is sampled.
    seeds: how many seeds, ``seed`` and those behind it, 2 or more: as many randomly re-initialised
        copies, control tasks and, where the probe has one, first weights. None for one copy, three
        control tasks and one probe. Items and parts are sampled with ``seed`` alone.
    trust_remote_code: run the Python code that an encoder's folder brings.
    device: where the encoders run, "cpu", "cuda", "cuda:1" or "mps".
    language: what encoders that are told the language of their input (XLM), or have modules of
        each, are told, by their own name for it; "" for each text's own. Tasks with texts of
        several languages, and pairs of one's own, do not say theirs.

    >>> Battery(encoders=["model"], battery="semantic", data="data").tasks
    ('wic', 'scws', 'topic')
    """

    encoders: Sequence[str]
    battery: str | None = None
    only: Sequence[str] = ()
    data: str | None = None
    labels: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    numbers: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    train: str | Sequence[str] | None = None
    test: Sequence[str] = ()
    treebank: str | None = None
    mdl: bool = False
    probe: str = "linear"
    pll: str = "original"
    random_control: bool = True
    limit: int | None = None
    seed: int = 0
    seeds: int | None = None
    trust_remote_code: bool = False
    device: str = "cpu"
    language: str = ""

    def __post_init__(self) -> None:
        if not self.encoders:
            refuse("--encoder", "an encoder", "none", "add --encoder FOLDER_OR_HUB_NAME")
        if self.battery is None and not self.only and not self.labels and not self.numbers:
            remedy = f"choose one of {', '.join(GROUPS)}, all, or name tasks with --tasks"
            refuse("--battery", "a battery, or tasks of your own (--labels)", "neither", remedy)
        if self.tasks and self.data is None:
            refuse("--data", "the folder that holds the tasks' data sets", "none", "add --data DIR")
        if self.treebank is not None and (self.train or self.test):
            got = "also --train" if self.train else "also --test"
            refuse(
                "--treebank",
                "it, or --train and --test",
                got,
                f"name the treebank there, as in --train {self.treebank}",
            )
        check_choice(self.probe, "--probe", ("linear", "l1", "mlp", "mix"))
        if self.mdl and self.probe != "linear":
            refuse(
                "--mdl",
                "the linear probe",
                f"also --probe {self.probe}",
                "leave one of them out: codes are those of the linear probe",
            )
        check_seed(self.seed, most=(1 << 32) - 1, name="--seed")
        for name in ("seed", "seeds", "limit"):  # numpy's whole numbers as Python's
            if is_whole(value := getattr(self, name)):
                object.__setattr__(self, name, int(value))
        if self.seeds is not None and not (is_whole(self.seeds) and self.seeds >= 2):
            refuse(
                "--seeds",
                "2 or more",
                quote(self.seeds),
                "leave it out for one random encoder and three control tasks",
            )
        if self.seeds is not None and self.seed + self.seeds > 1 << 32:
            expected = f"at most {(1 << 32) - self.seeds} with --seeds {self.seeds}"
            refuse("--seed", expected, str(self.seed), "choose a smaller one")
        check_choice(self.pll, "--pll", _PLL)
        for option, name in [("--labels", name) for name in self.labels] + [
            ("--numbers", name) for name in self.numbers
        ]:
            check_name(name, option)
        for name in self.numbers:
            if name in {*self.labels, *self.tasks}:
                refuse(
                    "--numbers",
                    "tasks of other names",
                    f"{name}, which is a task already",
                    "give each task its own name",
                )

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the battery's tasks."""
        return (
            choose_tasks(self.battery, self.only) if self.battery is not None or self.only else ()
        )

    @property
    def trained_on(self) -> tuple[str, ...]:
        """The languages that probes are trained on, where they are named."""
        given = self.train or ()
        return tuple(
            name.strip()
            for name in (given.split(",") if isinstance(given, str) else given)
            if name.strip()
        )

    @property
    def loading(self) -> dict[str, Any]:
        """How encoders are loaded."""
        return {
            "trust_remote_code": self.trust_remote_code,
            "device": self.device,
            "language": self.language or None,
        }

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds, the first one first."""
        return tuple(range(self.seed, self.seed + (self.seeds or 1)))

    @property
    def sources(self) -> Sources:
        """Where the tasks come from."""
        chosen: dict[str, Any] = {
            name: getattr(self, name) for name in ("tasks", "labels", "numbers", "treebank", "test")
        }
        chosen["train"] = self.trained_on
        return Sources(
            folder=self.data, **chosen, limit=self.limit, seed=self.seed, pll=_PLL[self.pll]
        )


def run_battery(battery: Battery, out: str | Path) -> Path:
    """Run a battery, or resume one that was stopped; returns the folder with ``scores.jsonl``.

    Everything that can be refused is refused before anything is computed or written.

    Parameters
    ----------
    out: the run's folder: config.json, activations/, scores.jsonl, outcomes.parquet.
        ``not_measured`` in config.json names tasks that could not be measured, with the reason.

    Raises
    ------
    InputError: data or encoders are not what is needed.
    OutputError: the folder holds something else, or cannot be written to.
    """
    found = read_tasks(battery.sources, required=battery.only)
    subjects = find_subjects(battery.encoders, battery.all_seeds, battery.trust_remote_code)
    asked = asked_of(vars(battery), ["encoders", "data", "labels", "numbers"])
    run = Run(out, "probe", _settings(battery, found, subjects), asked)
    if run.finished:
        with run.open():
            return run.path
    copies = len(battery.all_seeds) if battery.random_control else 0
    plan = check_encoders(subjects, found.tasks, run.path, copies=copies, loading=battery.loading)
    not_measured = _not_measured(battery, found, plan, subjects)
    with run.open():
        run.note(**_facts(found, plan, not_measured))
        scores, failed = list[Score](), dict[tuple[str, str], str]()
        for subject in subjects:
            scores += _measure(battery, subject, found, plan, run, failed)
        scores += _surface(battery, found, run, failed)
        not_measured = _with_failed(not_measured, failed, several=len(subjects) > 1)
        if not scores:
            got = "; ".join(f"{name}: {reason}" for name, reason in not_measured.items())
            refuse(
                "--battery", "a task that can be measured", got, "choose other tasks, or other data"
            )
        run.note(not_measured=not_measured)
        outcomes = read_outcomes(run.finish_outcomes(), condition=None, seed=battery.seed)
        run.finish([*scores, *paired_tests(scores, outcomes, battery.seed)])
    return run.path


def _not_measured(
    battery: Battery, found: Found, plan: Plan, subjects: Sequence[Subject]
) -> dict[str, str]:
    """Task -> why it is not measured, for lack of data or (the encoders that cannot do it are
    named) of a head."""
    told = dict(found.not_measured)
    for name in found.tasks:
        cannot = {
            subject.name: reason
            for subject in subjects
            if (reason := plan.cannot.get((subject.name, name)))
        }
        if cannot and name in (*battery.only, *battery.labels):
            remedy = "leave out the task, or the encoder"
            refuse(f"task {name}", "encoders that can do it", next(iter(cannot.values())), remedy)
        if cannot:
            told[name] = "; ".join(f"{who}: {reason}" for who, reason in cannot.items())
    if all((subject.name, name) in plan.cannot for subject in subjects for name in found.tasks):
        got = "; ".join(f"{name}: {reason}" for name, reason in told.items())
        remedy = "choose other tasks, or another encoder"
        refuse("--battery", "a task that can be measured", got, remedy)
    for task, reason in told.items():
        say(f"not measured: {task} ({reason})")
    return told


def _settings(battery: Battery, found: Found, subjects: Sequence[Subject]) -> dict[str, Any]:
    """What the scores depend on: a folder with a run of other settings is refused."""
    # whose files, and which is train, dev and test, their names alone do not say
    own = {
        name: [sha256_file(path)[:16] for path in paths]
        for name, paths in {**battery.labels, **battery.numbers}.items()
    }
    return {
        "encoders": {subject.name: subject.fingerprint for subject in subjects},
        "tasks": list(found.tasks),
        "files": {name: digest[:16] for name, digest in found.files.items()},
        **(
            {"train": ",".join(battery.trained_on) or None, "test": list(battery.test)}
            if battery.train or battery.test
            else {}
        ),
        "treebank": battery.treebank or "en_ewt",
        "mdl": battery.mdl,
        "random_control": battery.random_control,
        "limit": battery.limit,
        "seed": battery.seed,
        **({} if battery.seeds is None else {"seeds": battery.seeds}),
        **({"numbers": list(battery.numbers)} if battery.numbers else {}),
        **({"own": own} if own else {}),
        **({} if battery.pll == "original" else {"pll": battery.pll}),
        **({} if battery.probe == "linear" else {"probe": battery.probe}),
        **({"language": battery.language} if battery.language else {}),
    }


def _facts(found: Found, plan: Plan, not_measured: Mapping[str, str]) -> dict[str, Any]:
    """What config.json remembers beside the settings."""
    texts = {
        name: {"items": text.items, "unit": text.unit}
        for name, text in texts_of(found.tasks).items()
    }
    data = {
        "tasks": {name: task.facts() for name, task in found.tasks.items()},
        "files": dict(found.files),
        "texts": texts,
        **({"revisions": dict(found.revisions)} if found.revisions else {}),
    }
    return {
        "data": data,
        "cards": found.cards,
        "activations": {"dtype": plan.dtype},
        "not_measured": not_measured,
        "versions": versions(),
    }


def _with_failed(
    not_measured: Mapping[str, str], failed: Mapping[tuple[str, str], str], several: bool
) -> dict[str, str]:
    """Why tasks are not measured, those that failed while the others went on among them; of several
    encoders it says which."""
    told = dict(not_measured)
    for (name, who), reason in failed.items():
        reason = f"{who}: {reason}" if several and who else reason
        told[name] = f"{told[name]}; {reason}" if name in told else reason
    return told


def _or_failed(
    name: str,
    who: str,
    run: Run,
    part: str,
    job: Callable[[], Measured],
    failed: dict[tuple[str, str], str],
) -> list[Score]:
    """A task's measurements, or none, with the reason kept: one task that cannot be measured is no
    reason to lose the others."""
    try:
        return run.measured_part(part, functools.partial(_told_warnings, name, job))
    except InputError as error:
        failed[name, who] = str(error)
        say(f"not measured: {name} ({error})")
        return []


def _measure(
    battery: Battery,
    subject: Subject,
    found: Found,
    plan: Plan,
    run: Run,
    failed: dict[tuple[str, str], str],
) -> list[Score]:
    """All tasks of one encoder, seed by seed; ``failed`` is added to."""
    tasks = {
        name: task for name, task in found.tasks.items() if (subject.name, name) not in plan.cannot
    }
    loading = plan.loading(subject, battery.loading)
    place = run.path / "activations"
    stores = extract_texts(
        subject, tasks, place, plan.dtype, random=battery.random_control, loading=loading
    )
    given = [
        Given(
            stores=stores["encoder"],
            random=stores.get(random_name(copy)),
            scorer=functools.partial(
                language_models, subject, loading, copy, subject.name in plan.told
            ),
            common={"encoder": subject.name, "seed": seed},
            mdl=battery.mdl,
            probe=battery.probe,
            draws=0 if copy else battery.seeds,
            items_seed=battery.seed,
        )
        for copy, seed in enumerate(battery.all_seeds)
    ]
    scores: list[Score] = []
    with Progress(
        len(tasks) * len(given),
        f"probing {subject.name}",
        "tasks" if len(given) == 1 else "tasks by seeds",
    ) as progress:
        for name, task in tasks.items():
            jobs = [
                functools.partial(task.measure_again if copy else task.measure, one)
                for copy, one in enumerate(given)
            ]
            scores += _by_seed(
                battery, name, subject.name, run, f"{name}.{subject.folder}", jobs, failed
            )
            progress.add(len(given), name)
    return scores


def _by_seed(
    battery: Battery,
    name: str,
    who: str,
    run: Run,
    part: str,
    jobs: Sequence[Callable[[], Measured]],
    failed: dict[tuple[str, str], str],
) -> list[Score]:
    """The first seed's measurements, then those of further seeds; each is a part of the run."""
    first, *others = jobs
    scores = _or_failed(name, who, run, part, first, failed)
    further = [
        _or_failed(f"{name}, seed {seed}", who, run, f"{part}, seed {seed}", job, failed)
        for seed, job in zip(battery.all_seeds[1:], others, strict=True)
        if scores
    ]
    return over_seeds(scores, further)


def _surface(
    battery: Battery, found: Found, run: Run, failed: dict[tuple[str, str], str]
) -> list[Score]:
    """What characters alone say, of tasks that ask for it."""
    scores = []
    for name, task in found.tasks.items():
        if isinstance(task, SentenceTask) and task.surface:
            jobs = [functools.partial(surface_scores, task, seed) for seed in battery.all_seeds]
            scores += _by_seed(
                battery, f"{name}, from characters alone", "", run, f"surface.{name}", jobs, failed
            )
    return scores


def _told_warnings(name: str, job: Callable[[], Measured]) -> Measured:
    """A task's measurements; warnings (no convergence, say) are kept in the details."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores, outcomes = job()
    messages = sorted(
        {str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)}
    )
    for message in messages:
        say(f"{name}: {message}")
    if messages:
        scores = [
            dataclasses.replace(score, details={**(score.details or {}), "warnings": messages})
            for score in scores
        ]
    return Measured(scores, outcomes)
