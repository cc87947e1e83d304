"""Labelled items, of one language or of several: a probe of every layer, trained on the first or
the first few, and tested on each."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.probes.methods.evaluation import PENALTIES, probe_layers
from crosslens.probes.methods.linear.layer_mix import MixProbe
from crosslens.probes.methods.results import ProbeResult
from crosslens.probes.methods.rows import JoinedRows
from crosslens.probes.methods.splits import Parts
from crosslens.run.probing.items import Measured, TestItems, probe_outcomes, shared_texts
from crosslens.run.probing.kinds.task import Given, joined_details, joined_languages
from crosslens.run.probing.scores import probe_scores

__all__ = ["Labelled", "check_classes", "check_dev", "measure_labels"]

_BY_WORD = "word_majority"  # stands beside the layers; beside a mix of them it is the same
_OF_TRAINING = ("codelength", "compression")


@dataclasses.dataclass(frozen=True, eq=False)
class Labelled:
    """The n labelled items of a language.

    Attributes
    ----------
    layers: whether those of the re-initialised encoder -> the vectors of every layer, n rows each.
    labels, split: shape (n,), "train", "dev" or "test" of each item.
    groups: shape (n,), which items stand and fall together: the words of a sentence, say.
    same: shape (n,), what has to be equal, beside the text, for an item to be the same as one of
        training.
    items: the test items.
    language: ISO 639-3; None where there is none in particular.
    texts: shape (n,), the text that each item is of; its groups without it.
    types: shape (n,), word types, for control tasks; None where labels are shuffled over texts
        instead.
    details: of all measurements of the encoder.
    """

    layers: Callable[[bool], list[Any]]
    labels: np.ndarray
    split: np.ndarray
    groups: np.ndarray
    same: np.ndarray
    items: TestItems
    language: str | None
    texts: np.ndarray | None = None
    types: np.ndarray | None = None
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def measure_labels(
    name: str,
    given: Given,
    languages: Sequence[Labelled],
    drawn: str,
    *,
    trained: int = 1,
    probe: Any = None,
) -> Measured:
    """Accuracy and macro F1 of each layer in each language, with every control.

    Probes are trained, and their penalties chosen, on the items of the first languages together; of
    the others the test items are measured.

    Parameters
    ----------
    drawn: how the splits came about. trained: how many languages are trained on. Of several the
        test items are measured together, too.
    probe: what is trained on each layer in place of the run's probe. With the run's own,
        description lengths are measured where ``given.mdl``, and where it is "mix" one more is
        trained on a learnt mix of all layers, called ``NAME:mix``, whose measurements have no
        layer.
    """
    one, usual = _Joined.of(languages, drawn, trained), probe is None
    template = given.template() if usual else probe
    result = one.probe(
        given, seeds=given.seeds, probe=template, mdl=given.mdl and usual, mdl_seed=given.seed
    )
    found = one.measured(name, given, result, given.seeds)
    if given.probe != "mix" or not usual:
        return found
    mixed = one.probe(given, seeds=given.mix_seeds, probe=MixProbe(PENALTIES))
    more = _without_layers(mixed, one.measured(f"{name}:mix", given, mixed, given.mix_seeds))
    return Measured(found.scores + more.scores, found.outcomes + more.outcomes)


@dataclasses.dataclass(frozen=True, eq=False)
class _Joined:
    """The items of all languages on end, the number of each item's language, and how many languages
    are trained on."""

    languages: Sequence[Labelled]
    parts: Parts
    number: np.ndarray
    trained: int

    @classmethod
    def of(cls, languages: Sequence[Labelled], drawn: str, trained: int) -> "_Joined":
        parts = dataclasses.replace(
            Parts.of_names(np.concatenate([one.split for one in languages])), drawn=drawn
        )
        return cls(
            languages,
            parts,
            np.repeat(np.arange(len(languages)), [len(one.labels) for one in languages]),
            trained,
        )

    def column(self, name: str) -> np.ndarray:
        return np.concatenate([getattr(one, name) for one in self.languages])

    def texts(self) -> np.ndarray:
        return np.concatenate(
            [one.groups if one.texts is None else one.texts for one in self.languages]
        )

    def layers(self, random: bool) -> list[Any]:
        every = [one.layers(random) for one in self.languages]
        return (
            every[0] if len(every) == 1 else [JoinedRows(some) for some in zip(*every, strict=True)]
        )

    def probe(self, given: Given, **settings: Any) -> ProbeResult:
        control: dict[str, Any] = (
            {"types": self.column("types")}
            if self.languages[0].types is not None
            else {"texts": self.texts()}
        )
        return probe_layers(
            self.layers(False),
            self.column("labels"),
            self.parts,
            **control,
            groups=self.column("groups"),
            sets=self.number if len(self.languages) > 1 else None,
            random_layers=self.layers(True) if given.random is not None else None,
            **settings,
        )

    def tested(self) -> list[tuple[str | None, np.ndarray, TestItems, Mapping[str, Any]]]:
        """Language, which of the test items are its own, these items and their details: that of
        training, or those of training together, and then every other one."""
        of = self.number[self.parts.test]
        each = [
            (one.language, of == number, one.items, one.details)
            for number, one in enumerate(self.languages)
        ]
        if self.trained == 1:
            return each
        first = self.languages[: self.trained]
        together = (
            joined_languages([one.language for one in first]),
            of < self.trained,
            TestItems.joined([(str(one.language), one.items) for one in first]),
            joined_details([one.details for one in first]),
        )
        return [together, *each]

    def measured(
        self, name: str, given: Given, result: ProbeResult, seeds: Sequence[int]
    ) -> Measured:
        """The measurements of each language; those of dev and of training itself stand with what is
        trained on."""
        scores, outcomes = [], []
        texts, same, tested = self.texts(), self.column("same"), self.tested()
        for number, (language, there, items, details) in enumerate(tested):
            mine = result if there.all() else result.on(there)
            shared = shared_texts(
                texts, same, Parts(self.parts.train, self.parts.test[there], self.parts.dev)
            )
            if number:  # what dev and train share is said once
                shared = dataclasses.replace(
                    shared, counts=dataclasses.replace(shared.counts, dev_train=0)
                )
            common = {**given.common, "source": tested[0][0], "target": language}
            for score in probe_scores(mine, common, name, details, shared, seeds):
                if number == 0 or (
                    (score.details or {}).get("part") == "test"
                    and score.quantity not in _OF_TRAINING
                ):
                    scores.append(score)
            outcomes += probe_outcomes(mine, items, common, name)
        return Measured(scores, outcomes)


def _without_layers(result: ProbeResult, found: Measured) -> Measured:
    """The measurements of a mix of layers, with their weights in the details of the encoder's."""
    assert result.weights is not None
    weights = {"layer_weights": [round(weight, 6) for weight in result.weights.tolist()]}
    scores = [
        dataclasses.replace(
            score,
            layer=None,
            details={**(score.details or {}), **(weights if score.condition is None else {})},
        )
        for score in found.scores
        if score.condition != _BY_WORD
    ]
    return Measured(
        scores,
        [
            dataclasses.replace(one, layer=None)
            for one in found.outcomes
            if one.condition != _BY_WORD
        ],
    )


def check_dev(labels: np.ndarray, dev: np.ndarray, name: str) -> None:
    """Refuse a dev part by which nothing could be chosen, as no answer could be right there."""
    trained = np.unique(labels)
    if len(dev) and not np.isin(dev, trained).any():
        got, there = (", ".join(map(str, some[:6])) for some in (np.unique(dev), trained))
        expected = f"a dev split with labels of training ({there})"
        remedy = "check the files, or leave the dev split out: a share of train is held out then"
        refuse(name, expected, got, remedy)


def check_classes(labels: np.ndarray, tested: np.ndarray, name: str) -> None:
    """Refuse labels that leave nothing to distinguish, or a test part in which no answer could be
    right."""
    trained = np.unique(labels)
    if len(trained) < 2:
        got = f"only {labels[0]!s}" if len(labels) else "no items"
        remedy = "give items of another class: there is nothing to tell apart"
        refuse(name, "at least two classes in training", got, remedy)
    if not np.isin(tested, trained).any():
        got, there = (", ".join(map(str, some[:6])) for some in (np.unique(tested), trained))
        expected = f"a test split with labels of training ({there})"
        refuse(name, expected, got, "check the files: no answer could be right")
