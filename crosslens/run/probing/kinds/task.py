"""What every kind of task has: texts to be extracted, facts for the record, and measurements of
their stored activations.

Measurements are :class:`crosslens.score.Score` rows:

    condition        None (the encoder), random_encoder, majority, control_task or shuffled_labels,
                     character_ngrams, fasttext
    layer            None where a measurement belongs to none
    source, target   the language that was trained on, and that of the test items; of several
                     languages that are trained on together "eng+fra"
    details          part ("test", or "dev", by which layers are chosen), penalty, sizes, f1 and so
                     on

The outcome of each test item stands beside them (:mod:`crosslens.run.probing.items`); from these
:mod:`crosslens.run.probing.comparison` makes paired tests.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from crosslens.activations import Activations
from crosslens.corpus import Corpus
from crosslens.probes.methods.evaluation import PENALTIES
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.mlp_probe import LayerMLP
from crosslens.probes.methods.rows import PairRows, TakenRows
from crosslens.run.probing.items import Measured
from crosslens.run.probing.seeds import of_copy, without_fixed

__all__ = ["Given", "Task", "Text", "joined_details", "joined_languages"]


@dataclasses.dataclass(frozen=True, eq=False)
class Text:
    """A text to be extracted, and how: sentences, words, or pairs with the sentences of ``second``,
    for which ``pool`` stands."""

    corpus: Corpus
    unit: str = "sentence"
    second: Corpus | None = None
    pool: str = "first"

    def is_same(self, other: "Text") -> bool:
        """Whether another text has the same sentences, read alike."""
        sides = [
            (one.unit, one.pool, one.corpus.language, one.corpus.fingerprint)
            + ((one.second.language, one.second.fingerprint) if one.second is not None else ())
            for one in (self, other)
        ]
        return sides[0] == sides[1]

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of :func:`crosslens.models.extraction.extract.extract`.

        Sentences and words are read through windows where they are too long for the encoder; of a
        pair, which cannot be, the vector in front of it ([CLS]) is kept, or the mean over all of
        its tokens.
        """
        if self.unit == "pair":
            return {
                "unit": "pair",
                "second": self.second,
                "pool": self.pool,
                "special_tokens": True,
                "long_input": "truncate",
            }
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
    stores: name of a text -> its activations; random: those of the re-initialised encoder, None
        without this control.
    scorer: gives the language model, or its re-initialised copy (True), for tasks that ask it for
        probabilities; by the language of the sentences, for a model that is told it.
    common: fields of every measurement: encoder and seed.
    mdl: whether description lengths are wanted.
    probe: "linear" (an L2 penalty), "l1", "mlp", or "mix" (linear, and one more on a mix of all
        layers).
    draws: how many control tasks and bootstrap samples; None for three (of a mix one).
    items_seed: draws items where a task takes some of many; that of ``common`` without it.
    """

    stores: Mapping[str, Activations]
    random: Mapping[str, Activations] | None
    scorer: Callable[[bool], Callable[[str | None], Any]]
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
        return dataclasses.replace(
            self, stores=self.random, random=None, scorer=lambda _: scorer(), mdl=False, draws=0
        )

    def layers(self, text: str, rows: np.ndarray, random: bool = False) -> list[TakenRows]:
        """Some rows of every layer of a text."""
        store = (self.random or {})[text] if random else self.stores[text]
        return [TakenRows(store.layer(number), rows) for number in store.layer_numbers]

    def pairs(
        self, text: str, first: np.ndarray, second: np.ndarray, random: bool = False
    ) -> list[PairRows]:
        """Some pairs of rows of every layer of a text, with their products."""
        store = (self.random or {})[text] if random else self.stores[text]
        return [PairRows(store.layer(number), first, second) for number in store.layer_numbers]


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
    def languages(self) -> tuple[str | None, ...]:
        """Those of sentences that the model scores itself; None where one is not known."""
        return ()

    @property
    @abc.abstractmethod
    def texts(self) -> Mapping[str, Text]:
        """The texts that it needs, by the names under which they are stored."""

    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the run's folder remembers: sizes, labels, how parts were sampled."""

    @abc.abstractmethod
    def measure(self, given: Given) -> Measured:
        """All measurements of one encoder, and the outcome of each test item."""

    def has_seed(self, given: Given) -> bool:
        """Whether what the encoder itself reaches depends on a seed: a probe whose minimum is
        unique has none."""
        return False

    def measure_again(self, given: Given) -> Measured:
        """What a further seed changes: a re-initialised encoder of its own and, where the probe has
        a seed, the encoder's measurements.

        Control tasks are not among it: :meth:`measure` samples all of them.
        """
        if self.has_seed(given):
            return without_fixed(self.measure(given))
        return (
            of_copy(self.measure(given.copy_alone()))
            if given.random is not None
            else Measured([], [])
        )


def joined_languages(languages: Sequence[str | None]) -> str | None:
    """What several languages together are called; None where one of them is not known.

    >>> joined_languages(["eng", "fra"]), joined_languages(["eng", None])
    ('eng+fra', None)
    """
    codes = [code for code in languages if code is not None]
    return "+".join(codes) if len(codes) == len(languages) else None


def joined_details(details: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The details of several languages' items as those of all of them: counts are added.

    >>> joined_details([{"cut": 1, "dropped": {"a": 2}}, {"cut": 2, "dropped": {"b": 1}}])
    {'cut': 3, 'dropped': {'a': 2, 'b': 1}}
    """
    found: dict[str, Any] = {}
    for one in details:
        for name, value in one.items():
            there = found.get(name)
            if isinstance(value, Mapping):
                found[name] = joined_details([there or {}, value])
            else:
                found[name] = value if there is None else there + value
    return found
