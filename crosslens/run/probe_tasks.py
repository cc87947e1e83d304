"""Tasks of a battery whose answer is a label: of a sentence, or of a word of a treebank.

A task says which texts it needs and measures their stored activations. Its measurements are :class:`crosslens.score.Score` rows:

    condition      None (the encoder), random_encoder, majority, control_task or shuffled_labels, character_ngrams, fasttext
    layer          None where a measurement belongs to none
    details        part ("test", or "dev", by which layers are chosen), penalty, spread over seeds, sizes, f1 and so on

The outcome of each test item stands beside them (:mod:`crosslens.run.probe_items`); from these :mod:`crosslens.run.probe_comparison`
makes paired tests.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from crosslens.activations import Activations
from crosslens.corpus import Corpus
from crosslens.errors import refuse
from crosslens.probes.evaluation import Answers, ProbeResult, probe_layers
from crosslens.probes.language_id import LanguageIdSettings
from crosslens.probes.parts import Parts
from crosslens.probes.rows import TakenRows
from crosslens.run.probe_items import Measured, TestItems, control_name, probe_outcomes, text_names
from crosslens.score import Score
from crosslens.stats import cluster_sums, paired_interval, share_interval
from crosslens.word_labels import WordLabels, word_labels

__all__ = ["Given", "SentenceTask", "Task", "Text", "TreebankTask", "WordTask", "probe_scores"]

_MOST_CLASSES = 300  # whose F1 and confusion are kept
_COLUMNS = ("text", "pieces", "start", "end", "form", "upos", "xpos", "feats", "deprel")


@dataclasses.dataclass(frozen=True, eq=False)
class Text:
    """A text to be extracted, and how: sentences, words, or pairs with the sentences of ``second``, for which ``pool`` stands."""

    corpus: Corpus
    unit: str = "sentence"
    second: Corpus | None = None
    pool: str = "first"

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of :func:`crosslens.models.extract.extract`: sentences and words are read through windows where they are too long
        for the encoder; of a pair, which cannot be, the vector in front of it ([CLS]) is kept, or the mean over all of its tokens."""
        if self.unit == "pair":
            return {"unit": "pair", "second": self.second, "pool": self.pool, "special_tokens": True, "long_input": "truncate"}
        return {"unit": self.unit}

    @property
    def items(self) -> int:
        """How many vectors a layer of it has."""
        return sum(map(len, self.corpus.words or ())) if self.unit == "word" else len(self.corpus)


@dataclasses.dataclass(frozen=True)
class Given:
    """What a task is measured on.

    Attributes
    ----------
    stores: name of a text -> its activations; random: those of the re-initialised encoder, None without this control.
    scorer: gives the masked language model, or its re-initialised copy (True), for tasks that ask it for probabilities.
    common: fields of every measurement: encoder and seed.
    mdl: whether description lengths are wanted.
    """

    stores: Mapping[str, Activations]
    random: Mapping[str, Activations] | None
    scorer: Callable[[bool], Any]
    common: Mapping[str, Any]
    mdl: bool

    @property
    def seeds(self) -> tuple[int, int, int]:
        """Of control tasks and of bootstrap samples."""
        first = int(self.common["seed"])
        return first, first + 1, first + 2

    def layers(self, text: str, rows: np.ndarray, random: bool = False) -> list[TakenRows]:
        """Some rows of every layer of a text."""
        store = (self.random or {})[text] if random else self.stores[text]
        return [TakenRows(store.layer(number), rows) for number in store.layer_numbers]


class Task(abc.ABC):
    """A task: what it needs, and how it is measured.

    Attributes
    ----------
    name: of the task.
    cloze: whether it asks a language model for probabilities, and not stored activations.
    """

    name: str
    cloze: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def texts(self) -> Mapping[str, Text]:
        """The texts that it needs, by the names under which they are stored."""

    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the run's folder remembers: sizes, labels, how parts were drawn."""

    @abc.abstractmethod
    def measure(self, given: Given) -> Measured:
        """All measurements of one encoder, and the outcome of each test item."""


@dataclasses.dataclass(frozen=True, eq=False)
class SentenceTask(Task):
    """A label for each sentence.

    Attributes
    ----------
    name: of the task. source: name and text that has the sentences; ``rows`` are theirs among it.
    labels, sentences, places: one per row. parts: train, dev and test among them.
    surface: whether classifiers of the characters themselves are told beside it (language identification).
    settings: how a probe of languages is trained; None for the usual probe.
    """

    name: str
    source: tuple[str, Text]
    rows: np.ndarray
    labels: np.ndarray
    parts: Parts
    sentences: Sequence[str]
    places: Sequence[str]
    surface: bool = False
    settings: LanguageIdSettings | None = None

    def __post_init__(self) -> None:
        _check_classes(self.labels[self.parts.train], self.name)

    @property
    def texts(self) -> Mapping[str, Text]:
        """The text."""
        return dict([self.source])

    def facts(self) -> dict[str, Any]:
        """Sizes of the parts, classes, how the parts were drawn."""
        told = {} if self.settings is None else {"settings": dataclasses.asdict(self.settings)}
        return {**_sizes(self.parts), "classes": len(np.unique(self.labels)), **told}

    def measure(self, given: Given) -> Measured:
        """Accuracy and macro F1 of each layer, with every control."""
        text = self.source[0]
        layers = functools.partial(given.layers, text, self.rows)
        names = text_names(self.sentences)
        result = probe_layers(
            layers(),
            self.labels,
            self.parts,
            groups=names,
            random_layers=layers(random=True) if given.random is not None else None,
            seeds=given.seeds,
            probe=None if self.settings is None else self.settings.probe(given.seeds[0]),
            mdl=given.mdl and self.settings is None,  # a code length is that of the usual probe
        )
        told = {"truncated": given.stores[text].manifest.get("truncated", 0)}
        items = self.test_items(names)
        return Measured(probe_scores(result, given, self.name, told), probe_outcomes(result, items, given.common, self.name))

    def test_items(self, names: np.ndarray) -> TestItems:
        """Texts with their labels; equal texts are of one group."""
        rows = self.parts.test
        labels = self.labels[rows].astype(str)
        texts = [self.sentences[row] for row in rows]
        return TestItems.of(list(zip(texts, labels.tolist(), strict=True)), names[rows], labels)


@dataclasses.dataclass(frozen=True, eq=False)
class TreebankTask(Task):
    """A task on the words of a treebank whose sentences are divided.

    Attributes
    ----------
    name: of the task. text: the treebank.
    part_of: for each sentence "train", "dev" or "test". drawn: how the parts came about.
    """

    name: str
    text: Text
    part_of: np.ndarray
    drawn: str

    @property
    def texts(self) -> Mapping[str, Text]:
        """The treebank."""
        return {f"words-{self.text.corpus.fingerprint[:8]}": self.text}

    def columns(self) -> dict[str, list[Any]]:
        """What is known of each word, in order, by column: "text", the number of its sentence, and the treebank's annotations."""
        corpus = self.text.corpus
        numbers = [i for i, words in enumerate(corpus.words or ()) for _ in words]
        return {"text": numbers, **{column: [v for row in rows for v in row] for column, rows in (corpus.annotations or {}).items()}}


@dataclasses.dataclass(frozen=True, eq=False)
class WordTask(TreebankTask):
    """A label for each word of a treebank: ``upos``, ``xpos``, ``deprel`` (without subtypes) or ``feature_NAME``; the name says which."""

    def __post_init__(self) -> None:
        columns = self.columns()
        found = word_labels(columns, self.what)
        part = self.part_of[np.array(columns["text"])[found.rows]]
        for name in ("train", "dev", "test"):
            if not (part == name).any():
                refuse(self.name, f"labelled words in {name}", "none", "give a treebank that has them, or more of its sentences")
        _check_classes(found.labels[part == "train"], self.name)

    @property
    def what(self) -> str:
        """The label, as :func:`crosslens.word_labels.word_labels` calls it."""
        feature = self.name.removeprefix("feature_")
        return f"feature:{feature}" if feature != self.name else {"deprel": "coarse_deprel"}.get(self.name, self.name)

    def facts(self) -> dict[str, Any]:
        """Sentences of each part, and how the parts were drawn."""
        counts = {f"{part}_sentences": int((self.part_of == part).sum()) for part in ("train", "dev", "test")}
        return {**counts, "drawn": self.drawn, "label": self.what}

    def measure(self, given: Given) -> Measured:
        """Accuracy and macro F1 of each layer, with every control; the control task gives each word form a random label."""
        (name,) = self.texts
        store = given.stores[name]
        columns = store.index([column for column in _COLUMNS if column in store.columns])
        found = word_labels(columns, self.what)
        sentence = np.asarray(columns["text"])
        names = self.part_of[sentence]
        parts = dataclasses.replace(Parts.of_names(names[found.rows]), drawn=self.drawn)
        groups = text_names(self.text.corpus.sentences)[sentence]
        result = probe_layers(
            given.layers(name, found.rows),
            found.labels,
            parts,
            random_layers=given.layers(name, found.rows, random=True) if given.random is not None else None,
            types=np.array(columns["form"])[found.rows],
            groups=groups[found.rows],
            seeds=given.seeds,
            mdl=given.mdl,
        )
        items = self._test_items(columns, groups, found.rows[parts.test])
        return Measured(probe_scores(result, given, self.name, _left_out(found)), probe_outcomes(result, items, given.common, self.name))

    def _test_items(self, columns: Mapping[str, Any], groups: np.ndarray, measured: np.ndarray) -> TestItems:
        """The labelled words of test sentences, those without a vector among them; those of one sentence are of one group."""
        labelled = word_labels({name: column for name, column in columns.items() if name != "pieces"}, self.what)
        sentence = np.asarray(columns["text"])
        test = self.part_of[sentence[labelled.rows]] == "test"
        rows, labels = labelled.rows[test], labelled.labels[test]
        position = np.arange(len(sentence)) - np.searchsorted(sentence, sentence)  # of a word in its sentence
        texts = [self.text.corpus.sentences[number] for number in sentence[rows]]
        items = list(zip(texts, position[rows].tolist(), labels.tolist(), strict=True))
        return TestItems.of(items, groups[rows], labels, np.searchsorted(rows, measured))


def _left_out(found: WordLabels) -> dict[str, Any]:
    dropped = {"no such label": found.without_label, "no piece in the encoder": found.without_vector}
    return {"dropped": {reason: count for reason, count in dropped.items() if count}, "parts_of_multiword_tokens": found.sharing}


def _check_classes(labels: np.ndarray, name: str) -> None:
    if len(np.unique(labels)) < 2:
        told = f"only {labels[0]!s}" if len(labels) else "no items"
        refuse(name, "at least two classes in training", told, "give items of another class: there is nothing to tell apart")


def _sizes(parts: Parts) -> dict[str, Any]:
    return {"train": len(parts.train), "dev": len(parts.dev), "test": len(parts.test), "drawn": parts.drawn}


def probe_scores(result: ProbeResult, given: Given, task: str, told: Mapping[str, Any]) -> list[Score]:
    """The measurements of a probe of every layer and of its controls.

    Parameters
    ----------
    told: details of every row of the encoder.
    """
    fields = {**given.common, "task": task}
    n, dev = len(result.answers.true), None if result.dev is None else result.dev.accuracy
    common = {**told, "part": "test", "n_train": result.sizes["train"], "classes": len(result.answers.labels), "parts": result.drawn}
    unseen = {part: {str(label): count for label, count in labels.items()} for part, labels in result.unseen.items() if labels}
    common |= {"unseen_in_training": unseen} if unseen else {}
    if result.answers.groups is not None and (groups := len(np.unique(result.answers.groups))) < n:
        common["groups"] = groups  # of items that stand and fall together
    majority = result.majority
    scores = [
        Score(
            **fields, quantity="accuracy", value=majority.value, n=n, low=majority.low, high=majority.high, condition="majority",
            details=common,
        )
    ]  # fmt: skip
    kept = {0} if dev is None else {0, int(np.argmax([reached.value for reached in dev]))}
    for layer in range(len(result.answers.given)):
        more = {**common, "penalty": None if result.C is None else float(result.C[layer]), "seeds": list(given.seeds)}
        if dev is not None:
            place: dict[str, Any] = {"layer": layer, "n": dev[layer].n, "low": dev[layer].low, "high": dev[layer].high}
            scores.append(Score(**fields, **place, quantity="accuracy", value=dev[layer].value, details={**common, "part": "dev"}))
        scores += _layer_scores(result, fields, layer, more, layer in kept)
    return scores


def _layer_scores(result: ProbeResult, fields: Mapping[str, Any], layer: int, details: dict[str, Any], whole: bool) -> list[Score]:
    """One layer's test scores: the encoder's, and those of its controls."""
    answers, random = result.answers, result.random_encoder
    spread = result.resampled[:, layer]
    mine = {**details, "spread": [float(spread.min()), float(spread.max())]} if len(spread) else dict(details)
    if random is not None:
        ends = ("difference", "low", "high")
        mine["above_control"] = dict(zip(ends, paired_interval(answers.correct[layer], random.correct[layer], answers.groups), strict=True))
    scores = _answer_scores(answers, {**fields, "layer": layer}, layer, mine, whole)
    shared = details
    if random is not None:
        scores += _answer_scores(random, {**fields, "layer": layer, "condition": "random_encoder"}, layer, shared, False)
    if result.control is not None:
        scores += _control_scores(result, {**fields, "layer": layer, "n": len(answers.true)}, layer, shared)
    if result.code is not None:
        code = result.code
        place = {**fields, "layer": layer, "n": int(code.ends[-1]), "details": {**shared, "part": "train", "uniform_bits": code.uniform}}
        scores.append(Score(**place, quantity="codelength", value=float(code.bits[layer])))
        scores.append(Score(**place, quantity="compression", value=float(code.compression[layer])))
    return scores


def _answer_scores(answers: Answers, fields: Mapping[str, Any], layer: int, details: dict[str, Any], whole: bool) -> list[Score]:
    reached, n = answers.accuracy[layer], len(answers.true)
    shared = {key: value for key, value in details.items() if key not in ("above_control", "spread")}
    if len(answers.labels) <= _MOST_CLASSES and "condition" not in fields:
        labels = [str(label) for label in answers.labels]
        details = details | {"f1": {label: _rounded(f1) for label, f1 in zip(labels, answers.f1[layer], strict=True)}}
        if whole:
            details["confusion"] = {"labels": labels, "counts": answers.confusion(layer).tolist()}
    return [
        Score(**fields, n=n, quantity="accuracy", value=reached.value, low=reached.low, high=reached.high, details=details),
        Score(**fields, n=n, quantity="macro_f1", value=float(answers.macro_f1[layer]), details=shared),
    ]


def _control_scores(result: ProbeResult, fields: Mapping[str, Any], layer: int, details: dict[str, Any]) -> list[Score]:
    control = result.control
    assert control is not None
    condition = control_name(result)
    outcome, accuracy = control.correct[:, layer].mean(axis=0), control.accuracy[:, layer]
    ends = _mean_ends(outcome, result.answers.groups)
    told = {**details, "spread": [float(accuracy.min()), float(accuracy.max())]}
    value = float(control.selectivity[layer])
    low, high = float(control.low[layer]), float(control.high[layer])
    return [
        Score(**fields, quantity="accuracy", value=float(accuracy.mean()), low=ends[0], high=ends[1], condition=condition, details=told),
        Score(**fields, quantity="selectivity", value=value, low=low, high=high, details={**details, "control": condition}),
    ]


def _mean_ends(outcome: np.ndarray, groups: np.ndarray | None) -> tuple[float | None, float | None]:
    """95 % interval of the mean of outcomes from 0 to 1, each a mean over control tasks."""
    found, of = (outcome, np.ones(len(outcome))) if groups is None else cluster_sums(outcome, groups)
    return share_interval(found, of)[1:] if len(of) > 1 else (None, None)


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
