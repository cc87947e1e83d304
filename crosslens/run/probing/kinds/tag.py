"""Tasks on the words of a treebank: a label of each word."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslens.activations import Activations
from crosslens.errors import refuse
from crosslens.readers.treebank import WordLabels, word_labels
from crosslens.run.probing.items import Measured, TestItems
from crosslens.run.probing.kinds.labels import Labelled, check_classes, check_dev, measure_labels
from crosslens.run.probing.kinds.task import Given, Task, Text
from crosslens.run.probing.splits import PARTS
from crosslens.run.repeats import normal_texts, text_names

__all__ = ["COLUMNS", "TreebankTask", "WordTask", "WordsText"]

COLUMNS = (
    *("text", "pieces", "start", "end", "form", "upos", "xpos", "feats", "head", "deprel", "ner"),
)
"""Of the index of stored words, those that labels are made of."""


@dataclasses.dataclass(frozen=True, eq=False)
class WordsText:
    """A treebank's text.

    Attributes
    ----------
    text: the treebank. part_of: for each sentence "train", "dev" or "test". language: ISO 639-3,
        None where it is not known.
    """

    text: Text
    part_of: np.ndarray
    language: str | None = None

    @property
    def name(self) -> str:
        """Under which it is stored."""
        return f"words-{self.text.corpus.fingerprint[:8]}"

    def columns(self) -> dict[str, list[Any]]:
        """What is known of each word, in order, by column: "text", the number of its sentence, and
        the treebank's annotations."""
        corpus = self.text.corpus
        numbers = [i for i, words in enumerate(corpus.words or ()) for _ in words]
        return {
            "text": numbers,
            **{
                column: [v for row in rows for v in row]
                for column, rows in (corpus.annotations or {}).items()
            },
        }

    def groups(self) -> np.ndarray:
        """A name of each sentence; equal ones have one."""
        return text_names(normal_texts(self.text.corpus.sentences))


@dataclasses.dataclass(frozen=True, eq=False)
class TreebankTask(Task):
    """A task on the words of a treebank whose sentences are divided.

    Attributes
    ----------
    name: of the task. text: the treebank.
    part_of: for each sentence "train", "dev" or "test". drawn: how the parts came about.
    language: of the treebank. tested: treebanks of other languages, of which the probes are tested
        on all sentences.
    also: divided treebanks of further languages that are trained on together with it.
    """

    name: str
    text: Text
    part_of: np.ndarray
    drawn: str
    language: str | None = None
    tested: tuple[WordsText, ...] = ()
    also: tuple[WordsText, ...] = ()

    @property
    def trained(self) -> list[WordsText]:
        """Those of training."""
        return [WordsText(self.text, self.part_of, self.language), *self.also]

    @property
    def treebanks(self) -> list[WordsText]:
        """Those of training, and those of other languages."""
        return [*self.trained, *self.tested]

    @property
    def texts(self) -> Mapping[str, Text]:
        """The treebanks."""
        return {one.name: one.text for one in self.treebanks}

    def facts(self) -> dict[str, Any]:
        """Sentences of each part, and how the parts were sampled."""
        counts: dict[str, Any] = {
            f"{part}_sentences": sum(int((one.part_of == part).sum()) for one in self.trained)
            for part in PARTS
        }
        others = {str(one.language): len(one.part_of) for one in self.tested}
        told = {"test_sentences_in": others} if others else {}
        if self.also:
            told["train_sentences_in"] = {
                str(one.language): int((one.part_of == "train").sum()) for one in self.trained
            }
        return {**counts, "drawn": self.drawn, **told}

    def has_seed(self, given: Given) -> bool:
        """An MLP's first weights, and the order in which labels are sent."""
        return given.probe == "mlp" or given.mdl


@dataclasses.dataclass(frozen=True, eq=False)
class WordTask(TreebankTask):
    """A label for each word of a treebank.

    Attributes
    ----------
    label: which, as :func:`crosslens.readers.treebank.word_labels` calls it.
    """

    label: str = ""

    def __post_init__(self) -> None:
        trained, dev = list[np.ndarray](), list[np.ndarray]()
        for place, one in enumerate(self.treebanks):
            columns = one.columns()
            found = word_labels(columns, self.label)
            part = one.part_of[np.array(columns["text"])[found.rows]]
            for name in PARTS if place < len(self.trained) else ("test",):
                if not (part == name).any():
                    remedy = "give a treebank that has them, or more of its sentences"
                    refuse(self._name(one), f"labelled words in {name}", "none", remedy)
            trained += [found.labels[part == "train"]] if place < len(self.trained) else []
            dev += [found.labels[part == "dev"]] if place < len(self.trained) else []
            check_classes(np.concatenate(trained), found.labels[part == "test"], self._name(one))
        check_dev(np.concatenate(trained), np.concatenate(dev), self.name)

    def _name(self, one: WordsText) -> str:
        return self.name if one.text is self.text else f"{self.name} in {one.language}"

    def facts(self) -> dict[str, Any]:
        """Sentences of each part, how the parts were sampled, and what is predicted."""
        return {**super().facts(), "label": self.label}

    def measure(self, given: Given) -> Measured:
        """Accuracy and macro F1 of each layer, with every control; the control task gives each word
        form a random label."""
        languages = [self._labelled(one, given) for one in self.treebanks]
        return measure_labels(self.name, given, languages, self.drawn, trained=len(self.trained))

    def _labelled(self, one: WordsText, given: Given) -> Labelled:
        store: Activations = given.stores[one.name]
        columns = store.index([column for column in COLUMNS if column in store.columns])
        found = word_labels(columns, self.label)
        sentence = np.asarray(columns["text"])
        groups = one.groups()[sentence]
        # of a word in its sentence
        position = np.arange(len(sentence)) - np.searchsorted(sentence, sentence)
        places = zip(position[found.rows].tolist(), found.labels.tolist(), strict=True)
        split = one.part_of[sentence[found.rows]]
        return Labelled(
            functools.partial(given.layers, one.name, found.rows),
            found.labels,
            split,
            groups[found.rows],
            np.array([f"{place} {label}" for place, label in places]),
            self._test_items(one, columns, groups, position, found.rows[split == "test"]),
            one.language,
            types=np.array(columns["form"])[found.rows],
            details=_left_out(found),
        )

    def _test_items(
        self,
        one: WordsText,
        columns: Mapping[str, Any],
        groups: np.ndarray,
        position: np.ndarray,
        measured: np.ndarray,
    ) -> TestItems:
        """The labelled words of test sentences, those without a vector among them; those of one
        sentence are of one group."""
        labelled = word_labels(
            {name: column for name, column in columns.items() if name != "pieces"}, self.label
        )
        sentence = np.asarray(columns["text"])
        test = one.part_of[sentence[labelled.rows]] == "test"
        rows, labels = labelled.rows[test], labelled.labels[test]
        texts = [one.text.corpus.sentences[number] for number in sentence[rows]]
        items = list(zip(texts, position[rows].tolist(), labels.tolist(), strict=True))
        return TestItems.of(items, groups[rows], labels, np.searchsorted(rows, measured))


def _left_out(found: WordLabels) -> dict[str, Any]:
    dropped = {
        "no such label": found.without_label,
        "no subword in the encoder": found.without_vector,
    }
    return {
        "dropped": {reason: count for reason, count in dropped.items() if count},
        "parts_of_multiword_tokens": found.sharing,
    }
