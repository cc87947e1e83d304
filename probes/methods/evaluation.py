"""A probe of every layer, scored beside everything that its score has to be read against."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import ArrayLike
from sklearn.base import clone

from crosslens.checks import check_labels, check_seed
from crosslens.errors import refuse
from crosslens.one_line import one_line
from crosslens.probes.methods.control_tasks import control_labels, mean_difference, selectivity
from crosslens.probes.methods.controls import (
    Accuracy,
    check_classes,
    confusion_counts,
    f1_per_class,
    majority_accuracy,
    number_labels,
    type_majority,
    unseen_labels,
)
from crosslens.probes.methods.description_length import DescriptionLength, description_length
from crosslens.probes.methods.linear.layer_mix import MixProbe
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.refit import LayerProbes
from crosslens.probes.methods.rows import TakenRows, check_layers, check_random_layers
from crosslens.probes.methods.splits import Parts, shuffled
from crosslens.stats import jackknife_interval

__all__ = ["PENALTIES", "Answers", "ControlTask", "ProbeResult", "probe_layers"]

# inverse strengths C, on standardised features; from strict to loose
PENALTIES = (0.001, 0.01, 0.1, 1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """What each of L layers answered to n test items, and the scores that follow from it.

    Attributes
    ----------
    labels: shape (c,), the labels of training in sorted order, then those that only other parts
        have.
    true: shape (n,), number of each item's label in ``labels``.
    given: shape (L, n), number of each answer.
    groups: shape (n,), which items stand and fall together, the words of a sentence say; None where
        items are independent.
    """

    labels: Shaped[np.ndarray, " c"]
    true: Int[np.ndarray, " n"]
    given: Int[np.ndarray, "L n"]
    groups: Shaped[np.ndarray, " n"] | None = None

    __repr__ = one_line

    def on(self, rows: Bool[np.ndarray, " n"]) -> "Answers":
        """The answers to some of the items."""
        return dataclasses.replace(
            self,
            true=self.true[rows],
            given=self.given[:, rows],
            groups=None if self.groups is None else self.groups[rows],
        )

    @property
    def correct(self) -> Bool[np.ndarray, "L n"]:
        """Whether each layer was right about each item: what paired tests take."""
        return self.given == self.true

    @property
    def accuracy(self) -> list[Accuracy]:
        """Of each layer, with its 95 % interval."""
        return [Accuracy.of(correct, self.groups) for correct in self.correct]

    def confusion(self, layer: int) -> Int[np.ndarray, "c c"]:
        """Counts, in the order of ``labels``; row is the true label, column the answer."""
        return confusion_counts(self.true, self.given[layer], len(self.labels))

    @property
    def f1(self) -> Float[np.ndarray, "L c"]:
        """``2 TP / (2 TP + FP + FN)`` per layer and label, from 0 to 1; NaN where a label is
        neither in test nor answered."""
        return np.stack([f1_per_class(self.confusion(layer)) for layer in range(len(self.given))])

    @property
    def macro_f1(self) -> Float[np.ndarray, " L"]:
        """Mean F1 over the labels that are in test or were answered (scikit-learn's macro average),
        from 0 to 1."""
        return np.nanmean(self.f1, axis=1)

    def macro_f1_interval(self, layer: int) -> tuple[float, float] | None:
        """95 % interval of a layer's macro F1 (:func:`crosslens.stats.jackknife_interval`, a group
        of items left out at a time).

        Simulated coverage is between 92 and 97 % from 30 groups on, also with 17 classes of which
        some have one or two items, where percentiles of a bootstrap hold the truth in 85 to 93 %
        and BCa in 91 to 96 %. None where there is a single group.
        """
        return _macro_f1_interval(self.true, self.given[layer], self.groups, len(self.labels))


def _macro_f1_interval(
    true: np.ndarray, given: np.ndarray, groups: np.ndarray | None, classes: int
) -> tuple[float, float] | None:
    """Ends of the interval of a layer's macro F1, by leaving out each group of items in turn."""
    codes = np.arange(len(true)) if groups is None else np.unique(groups, return_inverse=True)[1]
    count = int(codes.max()) + 1
    if count < 2:
        return None
    hits, there = np.zeros((count, classes)), np.zeros((count, classes))
    right = true == given
    np.add.at(hits, (codes[right], true[right]), 2.0)
    np.add.at(there, (codes, true), 1.0)
    np.add.at(there, (codes, given), 1.0)

    def macro(found: np.ndarray, of: np.ndarray) -> np.ndarray:
        return np.asarray(
            np.nanmean(np.divide(found, of, out=np.full(of.shape, np.nan), where=of > 0), axis=-1)
        )

    total, whole = hits.sum(axis=0), there.sum(axis=0)
    low, high = jackknife_interval(float(macro(total, whole)), macro(total - hits, whole - there))
    return max(0.0, low), min(1.0, high)


@dataclasses.dataclass(frozen=True, eq=False)
class ControlTask:
    """The same probes on labels that say nothing, one control task per seed.

    Attributes
    ----------
    kind: "word_types" (a random label per type, Hewitt & Liang 2019) or "shuffled_labels" (items
        without types: the labels of each part in another order, so that every item is a type of its
        own).
    correct: shape (s, L, n), outcome of each test item on its control label.
    accuracy: shape (s, L).
    selectivity: per layer accuracy minus mean control accuracy, from -1 to 1; higher is better.
    low, high: shape (L,), its 95 % interval over items.
    chance: accuracy of always naming the most frequent control label of training, mean over control
        tasks.
    above_chance: shape (L, 3), mean control accuracy minus chance, and its 95 % interval: above 0
        the probe learns labels that say nothing.
    constant: shape (n,), in how many of the control tasks the most frequent control label of
        training is right, as a share.
    """

    kind: str
    correct: Bool[np.ndarray, "s L n"]
    accuracy: Float[np.ndarray, "s L"]
    selectivity: Float[np.ndarray, " L"]
    low: Float[np.ndarray, " L"]
    high: Float[np.ndarray, " L"]
    chance: float
    above_chance: Float[np.ndarray, "L 3"]
    constant: Float[np.ndarray, " n"]

    @classmethod
    def of(
        cls,
        kind: str,
        correct: Bool[np.ndarray, "s L n"],
        constant: Float[np.ndarray, " n"],
        answers: Answers,
    ) -> "ControlTask":
        """The scores that follow from what was right, beside the answers on the true labels."""
        layers, groups = range(len(answers.given)), answers.groups
        above = [
            mean_difference(correct[:, layer].mean(axis=0), constant, groups) for layer in layers
        ]
        chosen = [
            selectivity(answers.correct[layer], correct[:, layer], groups) for layer in layers
        ]
        value, low, high = (np.array(column) for column in zip(*chosen, strict=True))
        chance = float(constant.mean())
        return cls(
            kind, correct, correct.mean(axis=2), value, low, high, chance, np.array(above), constant
        )

    __repr__ = one_line


@dataclasses.dataclass(frozen=True, eq=False)
class ProbeResult:
    """Probes of L layers, scored on n test items.

    Attributes
    ----------
    answers: what each layer answered: accuracy with interval, macro F1, F1 per label, confusion,
        outcomes of items.
    C: shape (L,), inverse penalty that each layer chose on the development part; None for probes
        that have none.
    dev: what each layer answered to the development items; None without any.
    majority: accuracy of always naming the most frequent label of training.
    always: the number of that label in ``answers.labels``.
    by_type: what the most frequent label of each word type in training answers, as a single layer;
        None without types.
    control: the control tasks; None without seeds.
    again: shape (s, L, n), whether each test item is right after training on a bootstrap sample of
        the training items, drawn within each label, one for each seed: the spread of their means is
        that of the training data (the fit itself has no randomness).
    random_encoder: what the layers of an encoder with random weights answered; None if they were
        not given.
    unseen: part -> label -> how many items of the part have this label, which training does not
        have; they count as wrong.
    sizes: items in train, dev and test.
    drawn: how the parts came about.
    code: description length of the training labels; None if it was not asked for.
    weights: of the layers in a mix, whose answers are those of a single layer (L = 1); None for
        probes of each layer.
    """

    answers: Answers
    C: Float[np.ndarray, " L"] | None
    dev: Answers | None
    majority: Accuracy
    always: int
    by_type: Answers | None
    control: ControlTask | None
    again: Bool[np.ndarray, "s L n"]
    random_encoder: Answers | None
    unseen: dict[str, dict[Any, int]]
    sizes: dict[str, int]
    drawn: str
    code: DescriptionLength | None
    weights: Float[np.ndarray, " layers"] | None = None

    __repr__ = one_line

    def on(self, rows: Bool[np.ndarray, " n"]) -> "ProbeResult":
        """The same probes, scored on some of the test items: those of one language, say."""
        answers = self.answers.on(rows)
        control = self.control
        by_type = self.by_type
        random = self.random_encoder
        there = answers.labels[answers.true]
        unseen = {
            label: count for label in self.unseen["test"] if (count := int((there == label).sum()))
        }
        return dataclasses.replace(
            self,
            answers=answers,
            majority=Accuracy.of(answers.true == self.always, answers.groups),
            by_type=None if by_type is None else by_type.on(rows),
            control=control
            and ControlTask.of(
                control.kind, control.correct[:, :, rows], control.constant[rows], answers
            ),
            again=self.again[:, :, rows],
            random_encoder=None if random is None else random.on(rows),
            unseen={**self.unseen, "test": unseen},
            sizes={**self.sizes, "test": len(answers.true)},
        )

    @property
    def resampled(self) -> Float[np.ndarray, "s L"]:
        """Test accuracy after training on each bootstrap sample."""
        return np.asarray(self.again.mean(axis=2))

    @property
    def accuracy(self) -> list[Accuracy]:
        """Of each layer on test, with its 95 % interval."""
        return self.answers.accuracy

    @property
    def dev_accuracy(self) -> Float[np.ndarray, " L"] | None:
        """Of each layer on dev; None without a development part."""
        return (
            None if self.dev is None else np.array([reached.value for reached in self.dev.accuracy])
        )


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
