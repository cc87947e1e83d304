"""Tasks of a battery whose answer is a label: of a sentence, or of a word of a treebank.

A task says which texts it needs and measures their stored activations. Its measurements are :class:`crosslens.score.Score` rows:

    condition      None (the encoder), random_encoder, majority, control_task or shuffled_labels, character_ngrams, fasttext
    layer          None where a measurement belongs to none
    details        part ("test", or "dev", by which layers are chosen), penalty, sizes, f1 and so on

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
from crosslens.probes.methods.evaluation import PENALTIES, probe_layers
from crosslens.probes.methods.language_id import LanguageIdSettings
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.mlp_probe import LayerMLP
from crosslens.probes.methods.rows import TakenRows
from crosslens.probes.methods.splits import Parts
from crosslens.readers.treebank import WordLabels, word_labels
from crosslens.run.probe_items import Measured, TestItems, probe_outcomes, shared_texts, text_names
from crosslens.run.probe_mix import measure_mix
from crosslens.run.probe_scores import probe_scores
from crosslens.run.probe_seeds import of_copy, without_fixed
from crosslens.run.probe_splits import normal_texts

__all__ = ["Given", "SentenceTask", "Task", "Text", "TreebankTask", "WordTask"]

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
        """Arguments of :func:`crosslens.models.extraction.extract.extract`: sentences and words are read through windows
        where they are too long
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
    probe: "linear" (an L2 penalty), "l1", "mlp", or "mix" (linear, and one more on a mix of all layers).
    draws: how many control tasks and bootstrap samples; None for three (of a mix one).
    items_seed: draws items where a task takes some of many; that of ``common`` without it.
    """

    stores: Mapping[str, Activations]
    random: Mapping[str, Activations] | None
    scorer: Callable[[bool], Any]
    common: Mapping[str, Any]
    mdl: bool
    probe: str = "linear"
    draws: int | None = None
    items_seed: int | None = None

    def template(self) -> Any:
        """The probe that is trained on every layer; None for the usual one."""
        if self.probe == "mlp":
            return LayerMLP(seed=self.seed)
        return LayerProbe(penalties=PENALTIES, norm="l1") if self.probe == "l1" else None

    @property
    def seed(self) -> int:
        """Of the probe's first weights, and of the order of what it reads."""
        return int(self.common["seed"])

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of control tasks and of bootstrap samples."""
        return tuple(range(self.seed, self.seed + (3 if self.draws is None else self.draws)))

    @property
    def mix_seeds(self) -> tuple[int, ...]:
        """The same for a mix of layers, each fit of which reads all of them many times."""
        return self.seeds[:1] if self.draws is None else self.seeds

    def copy_alone(self) -> "Given":
        """The re-initialised encoder in the encoder's place, without controls of its own."""
        assert self.random is not None
        scorer = functools.partial(self.scorer, True)
        return dataclasses.replace(self, stores=self.random, random=None, scorer=lambda _: scorer(), mdl=False, draws=0)

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

    def has_seed(self, given: Given) -> bool:
        """Whether what the encoder itself reaches depends on a seed: a probe whose minimum is unique has none."""
        return False

    def measure_again(self, given: Given) -> Measured:
        """What a further seed changes: a re-initialised encoder of its own and, where the probe has a seed, the encoder's measurements.

        Control tasks are not among it: :meth:`measure` draws all of them.
        """
        if self.has_seed(given):
            return without_fixed(self.measure(given))
        return of_copy(self.measure(given.copy_alone())) if given.random is not None else Measured([], [])


@dataclasses.dataclass(frozen=True, eq=False)
class SentenceTask(Task):
    """A label for each sentence.

    Attributes
    ----------
    name: of the task. source: name and text that has the sentences; ``rows`` are theirs among it.
    labels, sentences, places: one per row. parts: train, dev and test among them.
    surface: whether classifiers of the characters themselves are told beside it (language identification).
    settings: how a probe of languages is trained; None for the usual probe.
    groups: what each sentence says, where translations of each other are known: they stand and fall together. None: equal texts do.
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
    groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        _check_classes(self.labels[self.parts.train], self.labels[self.parts.test], self.name)

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
        names = text_names(normal_texts(self.sentences))
        beside: dict[str, Any] = {
            "texts": names,
            "groups": names if self.groups is None else self.groups,
            "random_layers": layers(random=True) if given.random is not None else None,
        }
        result = probe_layers(
            layers(),
            self.labels,
            self.parts,
            **beside,
            seeds=given.seeds,
            probe=given.template() if self.settings is None else self.settings.probe(given.seed),
            mdl=given.mdl and self.settings is None,  # a code length is that of the usual probe
            mdl_seed=given.seed,
        )
        told = {"truncated": given.stores[text].manifest.get("truncated", 0)}
        items = self.test_items(names)
        shared = shared_texts(names, self.labels, self.parts)
        scores = probe_scores(result, given.common, self.name, told, shared, given.seeds)
        found = Measured(scores, probe_outcomes(result, items, given.common, self.name))
        if given.probe != "mix" or self.settings is not None:
            return found
        place: dict[str, Any] = {"task": self.name, "common": given.common, "items": items, "shared": shared, "seeds": given.mix_seeds}
        mix = measure_mix(layers(), self.labels, self.parts, **place, **beside)
        return Measured(found.scores + mix.scores, found.outcomes + mix.outcomes)

    def has_seed(self, given: Given) -> bool:
        """An MLP's first weights, the order of what Adam reads, and that in which labels are sent."""
        if self.settings is None:
            return given.probe == "mlp" or given.mdl
        return self.settings.probe(given.seed) is not None

    def test_items(self, names: np.ndarray) -> TestItems:
        """Texts with their labels; equal texts are of one group, and so are translations of each other where they are known."""
        rows, groups = self.parts.test, names if self.groups is None else self.groups
        labels = self.labels[rows].astype(str)
        texts = [self.sentences[row] for row in rows]
        return TestItems.of(list(zip(texts, labels.tolist(), strict=True)), groups[rows], labels)


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
        _check_classes(found.labels[part == "train"], found.labels[part == "test"], self.name)

    @property
    def what(self) -> str:
        """The label, as :func:`crosslens.readers.treebank.word_labels` calls it."""
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
        groups = text_names(normal_texts(self.text.corpus.sentences))[sentence]
        position = np.arange(len(sentence)) - np.searchsorted(sentence, sentence)  # of a word in its sentence
        random = given.layers(name, found.rows, random=True) if given.random is not None else None
        beside: dict[str, Any] = {"random_layers": random, "types": np.array(columns["form"])[found.rows], "groups": groups[found.rows]}
        result = probe_layers(
            given.layers(name, found.rows),
            found.labels,
            parts,
            **beside,
            seeds=given.seeds,
            probe=given.template(),
            mdl=given.mdl,
            mdl_seed=given.seed,
        )
        items = self._test_items(columns, groups, position, found.rows[parts.test])
        same = np.array([f"{place} {label}" for place, label in zip(position[found.rows].tolist(), found.labels.tolist(), strict=True)])
        shared = shared_texts(groups[found.rows], same, parts)
        scores = probe_scores(result, given.common, self.name, _left_out(found), shared, given.seeds)
        outcomes = probe_outcomes(result, items, given.common, self.name)
        if given.probe != "mix":
            return Measured(scores, outcomes)
        place: dict[str, Any] = {"task": self.name, "common": given.common, "items": items, "shared": shared, "seeds": given.mix_seeds}
        mix = measure_mix(given.layers(name, found.rows), found.labels, parts, **place, **beside)
        return Measured(scores + mix.scores, outcomes + mix.outcomes)

    def has_seed(self, given: Given) -> bool:
        """An MLP's first weights, and the order in which labels are sent."""
        return given.probe == "mlp" or given.mdl

    def _test_items(self, columns: Mapping[str, Any], groups: np.ndarray, position: np.ndarray, measured: np.ndarray) -> TestItems:
        """The labelled words of test sentences, those without a vector among them; those of one sentence are of one group."""
        labelled = word_labels({name: column for name, column in columns.items() if name != "pieces"}, self.what)
        sentence = np.asarray(columns["text"])
        test = self.part_of[sentence[labelled.rows]] == "test"
        rows, labels = labelled.rows[test], labelled.labels[test]
        texts = [self.text.corpus.sentences[number] for number in sentence[rows]]
        items = list(zip(texts, position[rows].tolist(), labels.tolist(), strict=True))
        return TestItems.of(items, groups[rows], labels, np.searchsorted(rows, measured))


def _left_out(found: WordLabels) -> dict[str, Any]:
    dropped = {"no such label": found.without_label, "no piece in the encoder": found.without_vector}
    return {"dropped": {reason: count for reason, count in dropped.items() if count}, "parts_of_multiword_tokens": found.sharing}


def _check_classes(labels: np.ndarray, tested: np.ndarray, name: str) -> None:
    trained = np.unique(labels)
    if len(trained) < 2:
        told = f"only {labels[0]!s}" if len(labels) else "no items"
        refuse(name, "at least two classes in training", told, "give items of another class: there is nothing to tell apart")
    if not np.isin(tested, trained).any():
        told, there = (", ".join(map(str, some[:6])) for some in (np.unique(tested), trained))
        refuse(name, f"a test part with labels of training ({there})", told, "check the files: no answer could be right")


def _sizes(parts: Parts) -> dict[str, Any]:
    return {"train": len(parts.train), "dev": len(parts.dev), "test": len(parts.test), "drawn": parts.drawn}
