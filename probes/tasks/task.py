"""What a task declares."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from crosslens.errors import check_choice
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import Items, Pick

__all__ = ["GROUPS", "KINDS", "TUNED", "Card", "Task"]

KINDS = (
    *("classify", "classify_pair", "pair", "tag", "span", "parse", "tree", "rank"),
    *("minimal_pairs", "answer"),
)
"""What is asked: a label of a text, of a word in two texts, of a pair of texts, of a word, of two
words; a tree's shape; a tree with relations; an order; which of two sentences is right; what in a
paragraph answers a question."""

TUNED = ("pair", "tree", "answer")
"""Kinds that nothing is probed for: an encoder is fine-tuned for them."""

GROUPS = ("semantic", "syntactic", "language")
"""What tasks are about."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """What people read of a task.

    Attributes
    ----------
    title: its name for people. says: what is measured, in a sentence or two.
    data: its files, below the folder of data sets. languages: in which it is to be had.
    chance: what is reached without knowing anything. licence: of the data.
    citation: BibTeX, and address: the web page where the data are to be had; "" where they are the
        user's own.
    """

    title: str
    says: str
    data: str
    languages: str
    chance: str
    citation: str
    licence: str
    address: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A task.

    Attributes
    ----------
    name: ends in "_" where it is the beginning of names: ``feature_`` has ``feature_Number``.
    kind: one of :data:`KINDS`. group: one of :data:`GROUPS`.
    metrics: quantities of :data:`crosslens.score.QUANTITIES`, the main one first.
    read: the items of a language; ``None`` where a task has no language of its own.
    languages: those that the folder has items in (ISO 639-3; of two scripts of a language the data's
        own names); ("mul",) where labels are languages.
    label: kinds tag and tree: what :func:`crosslens.readers.treebank.word_labels` predicts. pick: kind span:
        which pairs of words.
    shape: kind parse: "distance" or "depth".
    usual: names that a group is measured with; () for tasks that have to be named.
    spans: kind tag: labels are BIO tags, and spans are what counts.
    answers: kind answer: by which of :data:`crosslens.probes.methods.answer_scores.ANSWER_PRESETS`
        answers are counted.
    """

    name: str
    kind: str
    group: str
    metrics: tuple[str, ...]
    read: Callable[[DataFolder, str], Items]
    languages: Callable[[DataFolder], Sequence[str]]
    card: Card
    label: str | None = None
    pick: Pick | None = None
    shape: str | None = None
    usual: tuple[str, ...] | None = None
    spans: bool = False
    answers: str | None = None

    def __post_init__(self) -> None:
        for what, value, known in (("kind", self.kind, KINDS), ("group", self.group, GROUPS)):
            check_choice(value, f"{what} of task {self.name}", known)

    @property
    def in_group(self) -> tuple[str, ...]:
        """Under which names the task is measured with its group."""
        return (self.name,) if self.usual is None else self.usual

    def called(self, name: str) -> "Task | None":
        """The task under this name: itself, or the one of a family of names; None if it is not
        called so."""
        if name == self.name and not name.endswith("_"):
            return self
        rest = name.removeprefix(self.name)
        if not self.name.endswith("_") or rest in ("", name):
            return None
        card = dataclasses.replace(self.card, title=f"{self.card.title} {rest}")
        return dataclasses.replace(self, name=name, label=f"{self.label}{rest}", card=card)

    def record(self) -> dict[str, Any]:
        """The card as a run keeps it, and its page shows it: without the address."""
        card = dataclasses.asdict(self.card)
        del card["address"]
        return {
            **card,
            "kind": self.kind,
            "group": self.group,
            "metrics": list(self.metrics),
        }
