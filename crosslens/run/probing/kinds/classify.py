"""Tasks whose answer is a label of a text."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.probes.methods.language_id import LanguageIdSettings
from crosslens.probes.methods.splits import Parts
from crosslens.run.probing.items import Measured, TestItems
from crosslens.run.probing.kinds.labels import Labelled, check_classes, check_dev, measure_labels
from crosslens.run.probing.kinds.task import Given, Task, Text
from crosslens.run.probing.splits import PARTS, split_names
from crosslens.run.repeats import normal_texts, text_names

__all__ = ["SentenceTask", "TestedTexts"]


@dataclasses.dataclass(frozen=True, eq=False)
class TestedTexts:
    """Texts of another language than that of training, all of them test items.

    Attributes
    ----------
    language: of the texts. source: name and text that has them. labels: shape (n,).
    """

    language: str
    source: tuple[str, Text]
    labels: np.ndarray

    def labelled(self, given: Given) -> Labelled:
        """The items, all of them of the test."""
        (name, text), n = self.source, len(self.labels)
        names, sentences = text_names(normal_texts(text.corpus.sentences)), text.corpus.sentences
        return Labelled(
            functools.partial(given.layers, name, np.arange(n)),
            self.labels,
            np.full(n, "test"),
            names,
            self.labels,
            _test_items(sentences, self.labels, names),
            self.language,
            texts=names,
            details={"truncated": given.stores[name].manifest.get("truncated", 0)},
        )


@dataclasses.dataclass(frozen=True, eq=False)
class SentenceTask(Task):
    """A label for each sentence.

    Attributes
    ----------
    name: of the task. source: name and text of the sentences.
    labels, sentences, places: one per row. parts: train, dev and test among them.
    surface: whether classifiers of the characters themselves are told beside it (language
        identification).
    settings: how a probe of languages is trained; None for the usual probe.
    groups: what each sentence says, where translations of each other are known: they stand and fall
        together. None: equal texts do.
    language: of the sentences; None for several, or where it is not known.
    tested: other languages that the probes are tested on.
    also: the same task in further languages that are trained on together with it.
    """

    name: str
    source: tuple[str, Text]
    labels: np.ndarray
    parts: Parts
    sentences: Sequence[str]
    places: Sequence[str]
    surface: bool = False
    settings: LanguageIdSettings | None = None
    groups: np.ndarray | None = None
    language: str | None = None
    tested: tuple[TestedTexts, ...] = ()
    also: tuple["SentenceTask", ...] = ()

    def __post_init__(self) -> None:
        check_classes(self.labels[self.parts.train], self.labels[self.parts.test], self.name)
        trained = np.concatenate([one.labels[one.parts.train] for one in self.trained])
        dev = np.concatenate([one.labels[one.parts.dev] for one in self.trained])
        check_dev(trained, dev, self.name)
        for one in self.tested:
            check_classes(trained, one.labels, f"{self.name} in {one.language}")

    @property
    def trained(self) -> list["SentenceTask"]:
        """The task in each language that is trained on."""
        return [self, *self.also]

    @property
    def texts(self) -> Mapping[str, Text]:
        """The text, and those of other languages."""
        trained = [one.source for one in self.trained]
        return dict([*trained, *(one.source for one in self.tested)])

    def facts(self) -> dict[str, Any]:
        """Sizes of the parts, classes, how the parts were drawn."""
        sizes = {part: sum(len(getattr(one.parts, part)) for one in self.trained) for part in PARTS}
        told: dict[str, Any] = {"drawn": self.parts.drawn}
        told["classes"] = len(np.unique(np.concatenate([one.labels for one in self.trained])))
        if self.settings is not None:
            told["settings"] = dataclasses.asdict(self.settings)
        if self.also:
            told["train_in"] = {str(one.language): len(one.parts.train) for one in self.trained}
        if self.tested:
            told["test_in"] = {one.language: len(one.labels) for one in self.tested}
        return {**sizes, **told}

    def measure(self, given: Given) -> Measured:
        """Accuracy and macro F1 of each layer, with every control."""
        languages = [one.labelled(given) for one in self.trained]
        languages += [one.labelled(given) for one in self.tested]
        probe = None if self.settings is None else self.settings.probe(given.seed)
        return measure_labels(
            self.name,
            given,
            languages,
            self.parts.drawn,
            trained=len(self.trained),
            probe=probe,
        )

    def labelled(self, given: Given) -> Labelled:
        """The items of this language, with their parts."""
        names = text_names(normal_texts(self.sentences))
        return Labelled(
            functools.partial(given.layers, self.source[0], np.arange(len(self.labels))),
            self.labels,
            split_names(self.parts, len(self.labels)),
            names if self.groups is None else self.groups,
            self.labels,
            self.test_items(names),
            self.language,
            texts=names,
            details={"truncated": given.stores[self.source[0]].manifest.get("truncated", 0)},
        )

    def has_seed(self, given: Given) -> bool:
        """An MLP's first weights, the order of what Adam reads, and that in which labels are
        sent."""
        if self.settings is None:
            return given.probe == "mlp" or given.mdl
        return self.settings.probe(given.seed) is not None

    def test_items(self, names: np.ndarray) -> TestItems:
        """Texts with their labels; equal texts are of one group, and so are translations of each
        other where they are known."""
        rows, groups = self.parts.test, names if self.groups is None else self.groups
        return _test_items([self.sentences[row] for row in rows], self.labels[rows], groups[rows])


def _test_items(texts: Sequence[str], labels: np.ndarray, names: np.ndarray) -> TestItems:
    return TestItems.of(
        list(zip(texts, labels.astype(str).tolist(), strict=True)), names, labels.astype(str)
    )
