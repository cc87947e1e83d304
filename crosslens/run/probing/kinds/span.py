"""Tasks on two words of a sentence each: edge probing."""

import dataclasses

import numpy as np

from crosslens.errors import refuse
from crosslens.probes.tasks.items import Pick, Spans
from crosslens.run.probing.items import Measured, TestItems
from crosslens.run.probing.kinds.labels import Labelled, check_classes, check_dev, measure_labels
from crosslens.run.probing.kinds.tag import COLUMNS, TreebankTask, WordsText
from crosslens.run.probing.kinds.task import Given
from crosslens.run.probing.splits import PARTS

__all__ = ["SpanTask"]


@dataclasses.dataclass(frozen=True, eq=False)
class SpanTask(TreebankTask):
    """A label for each of some pairs of words.

    A layer's probe is given the vectors of both words and their product (Liu et al. 2019).

    Attributes
    ----------
    pick: which pairs of words. seed: what it samples with.
    """

    pick: Pick | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        trained, dev = list[np.ndarray](), list[np.ndarray]()
        for place, one in enumerate(self.treebanks):
            name = f"{self.name} in {one.language}" if place else self.name
            found, columns = self._pairs(one), one.columns()
            part = one.part_of[np.array(columns["text"])[found.first]]
            for wanted in PARTS if place < len(self.trained) else ("test",):
                if not (part == wanted).any():
                    remedy = "give a treebank that has them, or more of its sentences"
                    refuse(name, f"pairs of words in {wanted}", "none", remedy)
            trained += [found.labels[part == "train"]] if place < len(self.trained) else []
            dev += [found.labels[part == "dev"]] if place < len(self.trained) else []
            check_classes(np.concatenate(trained), found.labels[part == "test"], name)
        check_dev(np.concatenate(trained), np.concatenate(dev), self.name)

    def _pairs(self, one: WordsText) -> Spans:
        assert self.pick is not None
        return self.pick(one.columns(), self.seed)

    def measure(self, given: Given) -> Measured:
        """Accuracy and macro F1 of each layer, with every control; the control task gives each pair
        of forms a random label."""
        languages = [self._labelled(one, given) for one in self.treebanks]
        return measure_labels(self.name, given, languages, self.drawn, trained=len(self.trained))

    def _labelled(self, one: WordsText, given: Given) -> Labelled:
        store, pairs = given.stores[one.name], self._pairs(one)
        columns = store.index([column for column in COLUMNS if column in store.columns])
        sentence = np.asarray(columns["text"])
        position = np.arange(len(sentence)) - np.searchsorted(sentence, sentence)
        whole = np.asarray(columns["pieces"]) > 0
        there = whole[pairs.first] & whole[pairs.second]
        first, second, labels = pairs.first[there], pairs.second[there], pairs.labels[there]
        groups, forms = one.groups()[sentence], np.array(columns["form"])
        split = one.part_of[sentence]
        places = list(
            zip(
                position[pairs.first].tolist(),
                position[pairs.second].tolist(),
                pairs.labels.tolist(),
                strict=True,
            )
        )
        test = np.flatnonzero(split[pairs.first] == "test")
        texts = one.text.corpus.sentences
        told = [(texts[sentence[pairs.first[i]]], *places[i]) for i in test.tolist()]
        items = TestItems.of(
            told, groups[pairs.first[test]], pairs.labels[test], np.flatnonzero(there[test])
        )
        return Labelled(
            lambda random: given.pairs(one.name, first, second, random),
            labels,
            split[first],
            groups[first],
            np.array(
                [
                    f"{i} {j} {label}"
                    for i, j, label in (places[k] for k in np.flatnonzero(there).tolist())
                ]
            ),
            items,
            one.language,
            types=np.array(
                [
                    f"{i} {j}"
                    for i, j in zip(forms[first].tolist(), forms[second].tolist(), strict=True)
                ]
            ),
            details={
                "dropped": {"a word without a subword in the encoder": int((~there).sum())}
                if not there.all()
                else {}
            },
        )
