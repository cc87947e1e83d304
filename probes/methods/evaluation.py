"""A probe of every layer, scored beside everything that its score has to be read against."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from sklearn.base import clone

from crosslens.checks import check_labels, check_seed
from crosslens.errors import refuse
from crosslens.probes.methods.control_tasks import control_labels
from crosslens.probes.methods.controls import (
    check_classes,
    majority_accuracy,
    number_labels,
    type_majority,
    unseen_labels,
)
from crosslens.probes.methods.description_length import DescriptionLength, description_length
from crosslens.probes.methods.linear.layer_mix import MixProbe
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.refit import LayerProbes
from crosslens.probes.methods.results import Answers, ControlTask, ProbeResult
from crosslens.probes.methods.rows import TakenRows, check_layers, check_random_layers
from crosslens.probes.methods.splits import Parts, shuffled

__all__ = ["PENALTIES", "probe_layers"]

# inverse strengths C, on standardised features; from strict to loose
PENALTIES = (0.001, 0.01, 0.1, 1.0)


def probe_layers(
    layers: Any,
    y: ArrayLike,
    parts: Parts,
    *,
    random_layers: Any | None = None,
    types: ArrayLike | None = None,
    texts: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    sets: ArrayLike | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    penalties: Sequence[float] | None = None,
    probe: Any | None = None,
    mdl: bool = False,
    mdl_seed: int | None = None,
) -> ProbeResult:
    """Train a probe on every layer, with its controls, and score them on the test part.

    Each layer's penalty is chosen on the development part and kept for its controls; the final
    probe is trained on the training part alone. Labels of development and test items that training
    does not have are counted and named in the result, and these items count as wrong.

    Parameters
    ----------
    layers: L layers of shape (n, d), row i of each the same item; arrays on disk are read in
        blocks.
    y: shape (n,), labels.
    parts: which rows train, choose the penalty, and are scored.
    random_layers: the same items from an encoder with random weights, as many layers: the
        random-encoder control.
    types: shape (n,), word type of each item, for the control task; without them labels are
        shuffled.
    texts: shape (n,), the text of each item: where labels are shuffled, equal texts keep one label,
        in whatever part they are, as the occurrences of a word type do. So what a probe remembers
        of its training texts is not taken for knowledge.
    groups: shape (n,), which items stand and fall together, the words of a sentence say: intervals
        are then those of clusters.
    sets: shape (n,), the test set of each item where there are several, languages say: labels are
        shuffled within each of them, and :meth:`ProbeResult.on` gives the scores on one.
    seeds: one each for a control task and a bootstrap sample of the training items; none of them
        leaves both out. A probe that has a seed takes that of the control task for it.
    penalties: inverse strengths C to choose from on the development part; ``PENALTIES`` without it.
        A single one needs no such part.
    probe: what to train instead of :class:`crosslens.probes.methods.linear.layer_probe.LayerProbe`,
        such as a :class:`crosslens.probes.methods.linear.layer_mix.MixProbe`, whose answers stand
        as those of a single layer; cloned for each use. It is to have ``fit(layers, y)``, which may
        take development layers and labels too, and ``predict(layers)``.
    mdl: also measure the description length of the training labels (Voita & Titov 2020).
    mdl_seed: of the order in which labels are sent; the first of ``seeds`` without it.

    Raises
    ------
    InputError: labels of one class only, parts that are not of these items, several penalties and
        no development part to choose by, penalties beside a probe, types or random layers of other
        items, a seed that is repeated, or what the probe refuses.

    References
    ----------
    Hewitt & Liang 2019, Designing and interpreting probes with control tasks; Zhang & Bowman 2018,
    Language modeling teaches you more syntax than translation does (random encoders); Efron 1979
    (bootstrap).

    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["NOUN", "VERB"] * 150)
    >>> layers = [rng.normal(size=(300, 4)) + apart * (y == "VERB")[:, None] for apart in (0.0, 3.0)]
    >>> result = probe_layers(layers, y, Parts(range(200), range(250, 300), range(200, 250)))
    >>> [round(accuracy.value, 1) for accuracy in result.accuracy], result.majority.value
    ([0.6, 1.0], 0.5)
    >>> bool(result.control.selectivity[1] > 0.3)
    True
    """
    layers = check_layers(layers)
    task = _Task.of(layers, check_classes(y, "y", layers[0].shape[0]), parts)
    seeds = _check_seeds(seeds)
    template = _template(probe, penalties, len(task.seen(parts.dev)))
    fitted = task.fit(template)
    given = fitted.predict(task.layers_of(parts.test))
    names = None if groups is None else check_labels(groups, "groups", len(task.codes))
    together = None if names is None else names[parts.test]
    answers = Answers(task.labels, task.codes[parts.test], given, together)
    strengths = (
        np.asarray(fitted.C_, np.float64) if isinstance(template, (LayerProbe, MixProbe)) else None
    )
    # others choose anew
    refitted = strengths if isinstance(template, LayerProbe) and template.norm == "l2" else None
    again = _Again(task, fitted.again() if isinstance(fitted, MixProbe) else template, refitted)
    random = None
    if random_layers is not None:
        other = dataclasses.replace(task, layers=check_random_layers(random_layers, layers))
        random = Answers(
            task.labels,
            answers.true,
            other.fit(template).predict(other.layers_of(parts.test)),
            together,
        )
    dev = None
    if len(parts.dev):
        dev = Answers(
            task.labels,
            task.codes[parts.dev],
            fitted.predict(task.layers_of(parts.dev)),
            None if names is None else names[parts.dev],
        )
    return ProbeResult(
        answers=answers,
        C=strengths,
        dev=dev,
        majority=majority_accuracy(task.codes[parts.train], answers.true, together),
        always=int(np.bincount(task.codes[parts.train]).argmax()),
        by_type=_by_type(task, types, together),
        control=_control(again, types, texts, sets, seeds, answers) if seeds else None,
        again=np.array([again.bootstrap(seed) for seed in seeds], bool).reshape(
            len(seeds), *given.shape
        ),
        random_encoder=random,
        unseen={
            name: unseen_labels(task.labels, task.codes[rows], task.trained)
            for name, rows in (("dev", parts.dev), ("test", parts.test))
        },
        sizes=parts.sizes,
        drawn=parts.drawn,
        code=_code(
            task,
            refitted,
            check_seed(mdl_seed) if mdl_seed is not None else seeds[0] if seeds else 0,
        )
        if mdl
        else None,
        weights=fitted.weights_ if isinstance(fitted, MixProbe) else None,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Task:
    """Layers and the numbers of their labels; those below ``trained`` occur in training."""

    layers: list[Any]
    labels: np.ndarray
    codes: Int[np.ndarray, " n"]
    trained: int
    parts: Parts

    @classmethod
    def of(cls, layers: list[Any], y: np.ndarray, parts: Parts) -> "_Task":
        parts.check(len(y))
        trained = np.unique(y[parts.train])
        if len(trained) < 2:
            got = f"only {trained[0]!s} in training"
            remedy = "give items of another class: there is nothing to tell apart"
            refuse("y", "at least two classes", got, remedy)
        return cls(layers, *number_labels(trained, y), len(trained), parts)

    def layers_of(self, rows: np.ndarray) -> list[TakenRows]:
        return [TakenRows(layer, rows) for layer in self.layers]

    def seen(self, rows: np.ndarray) -> np.ndarray:
        """Those rows whose labels training has."""
        return rows[self.codes[rows] < self.trained]

    def fit(
        self, template: Any, codes: np.ndarray | None = None, train: np.ndarray | None = None
    ) -> Any:
        """A clone of the probe, trained; on other codes of the items, or on other rows, if they are
        given."""
        codes = self.codes if codes is None else codes
        train = self.parts.train if train is None else train
        probe, dev = clone(template), self.parts.dev[np.isin(codes[self.parts.dev], codes[train])]
        if len(dev):
            return probe.fit(self.layers_of(train), codes[train], self.layers_of(dev), codes[dev])
        return probe.fit(self.layers_of(train), codes[train])


@dataclasses.dataclass(frozen=True, eq=False)
class _Again:
    """The probes of a task once more, on other labels or other rows, with the penalties that were
    chosen."""

    task: _Task
    template: Any
    strengths: Float[np.ndarray, " L"] | None

    def answers(
        self, codes: np.ndarray, train: np.ndarray, seed: int | None = None
    ) -> Int[np.ndarray, "L n"]:
        task = self.task
        if self.strengths is None:
            probe = task.fit(_reseeded(self.template, seed), codes, train)
        else:
            probe = LayerProbes(self.strengths).fit(task.layers_of(train), codes[train])
        return probe.predict(task.layers_of(task.parts.test))

    def bootstrap(self, seed: int) -> Bool[np.ndarray, "L n"]:
        """What is right after training on as many items of each label, sampled with replacement."""
        task, rng = self.task, np.random.default_rng([seed, 0xB007])
        rows = task.parts.train
        drawn = [
            rng.choice(some, len(some))
            for some in (rows[task.codes[rows] == code] for code in range(task.trained))
        ]
        given = self.answers(task.codes, np.sort(np.concatenate(drawn)))
        return np.asarray(given == task.codes[task.parts.test])


def _control(
    again: _Again,
    types: ArrayLike | None,
    texts: ArrayLike | None,
    sets: ArrayLike | None,
    seeds: list[int],
    answers: Answers,
) -> ControlTask:
    task, correct, always = again.task, [], []
    names = None if types is None else check_labels(types, "types", len(task.codes))
    same = None if texts is None else check_labels(texts, "texts", len(task.codes))
    of = None if sets is None else check_labels(sets, "sets", len(task.codes))
    for seed in seeds:
        codes = (
            shuffled(task.codes, task.parts, seed, same, of)
            if names is None
            else control_labels(names, task.codes[task.parts.train], seed)
        )
        if len(np.unique(codes[task.parts.train])) < 2:
            got = f"one label for all {len(task.parts.train)} items with seed {seed}"
            remedy = "give more types, other seeds, or leave types out"
            refuse("types", "types whose control labels differ", got, remedy)
        correct.append(again.answers(codes, task.parts.train, seed) == codes[task.parts.test])
        always.append(codes[task.parts.test] == np.bincount(codes[task.parts.train]).argmax())
    kind = "shuffled_labels" if names is None else "word_types"
    return ControlTask.of(kind, np.stack(correct), np.stack(always).mean(axis=0), answers)


def _reseeded(template: Any, seed: int | None) -> Any:
    """The probe with this seed in place of its own, if it has one."""
    return (
        clone(template).set_params(seed=seed)
        if seed is not None and "seed" in template.get_params()
        else template
    )


def _by_type(task: _Task, types: ArrayLike | None, groups: np.ndarray | None) -> Answers | None:
    if types is None:
        return None
    names = check_labels(types, "types", len(task.codes)).astype(str)
    train = task.parts.train
    test = task.parts.test
    given = type_majority(names[train], task.codes[train], names[test])
    return Answers(task.labels, task.codes[test], given[None], groups)


def _code(task: _Task, strengths: np.ndarray | None, seed: int) -> DescriptionLength:
    if strengths is None:
        remedy = "leave probe out, or call description_length"
        refuse("mdl", "False for probes without a penalty C", "True", remedy)
    train = task.parts.train
    return description_length(task.layers_of(train), task.codes[train], strengths, seed=seed)


def _template(probe: Any | None, penalties: Sequence[float] | None, dev: int) -> Any:
    if probe is not None:
        if penalties is not None:
            refuse("penalties", "None beside a probe", repr(penalties), "give them to the probe")
        return probe
    chosen = PENALTIES if penalties is None else tuple(penalties)
    if len(chosen) > 1 and not dev:
        remedy = "hold a share of train out (hold_out_dev), or give a single penalty"
        expected = f"a dev split to choose among {len(chosen)} penalties by"
        refuse("parts", expected, "no items of trained labels in it", remedy)
    return LayerProbe(penalties=chosen)


def _check_seeds(seeds: Sequence[int]) -> list[int]:
    chosen = [check_seed(seed) for seed in seeds]
    if len({*chosen}) < len(chosen):
        refuse("seeds", "different seeds", repr(tuple(chosen)), "give each once")
    return chosen
