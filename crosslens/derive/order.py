"""Word order: sentences whose heads and dependents stand in the order of another language.

Each node of the tree, a noun or a verb with its dependents, gets an order from a model that is learnt
from a treebank; the sentence is then read off the tree. The tree stays what it is: the same words
with the same heads and relations, in other places, and no two edges of it cross.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from jaxtyping import Float

from crosslens.checks import check_fraction
from crosslens.corpus import Corpus
from crosslens.derive.labels import check_tree
from crosslens.derive.order_features import size_events
from crosslens.derive.order_model import LARGEST, OrderModel, fit_order, mixed
from crosslens.derive.order_nodes import PARTS, Node, canonical, laid_out, nodes
from crosslens.derive.order_relation_weights import RelationWeights, fit_relation_weights
from crosslens.derive.transformation import Derived, Sentence, Transformation, generator
from crosslens.errors import check_choice, quote, refuse
from crosslens.files import check_name
from crosslens.trees import crossing_edges, head_number

__all__ = ["OrderCoverage", "WordOrder", "check_trees", "learn_word_order", "order_coverage"]

_TIE = 1e-9  # scores that differ by less differ by rounding alone
_REMEMBERED = 5  # items of the nodes whose distributions are kept: larger ones seldom come again


class _Model(Protocol):
    def scores(self, node: Node) -> Float[np.ndarray, " p"]:
        """The logarithm of each order's probability, but for a constant."""


_MIXED = "-with-"  # between the language of an order and what is mixed into it


@dataclasses.dataclass(frozen=True, eq=False)
class WordOrder(Transformation):
    """The words of each noun and verb, with those of its dependents, in the order of another
    language.

    Heads of other classes, and nodes of more than seven items, keep the order of their items. The
    subtree of every item stays together, so sentences whose edges cross become projective.

    Parameters
    ----------
    language: whose order it is; part of the name, as are classes and models other than the default.
    models: class of heads ("N": nouns, proper nouns and pronouns; "V": verbs) -> its model; heads
        of a class without one keep their order.
    choice: "sampled": an order drawn by its probability; "best": the most probable one, and among
        several the first in the sentence's own order.

    >>> columns = {"upos": ["DET", "NOUN", "ADJ"], "deprel": ["det", "root", "amod"]}
    >>> french = Corpus("fra", ["le chat noir"], ["0"], "toy", [[(0, 2), (3, 7), (8, 12)]],
    ...     {"form": [["le", "chat", "noir"]], "head": [["2", "0", "2"]]} | {name: [some] for name, some in columns.items()})
    >>> order = learn_word_order(french, parts="N", choice="best")
    >>> english = Sentence(["the", "black", "cat"], {"upos": ["DET", "ADJ", "NOUN"], "deprel": ["det", "amod", "root"]}, heads=[3, 3, 0])
    >>> order.name, order.derive(english, 0, 0).tokens
    ('order:fra,N,best', ['the', 'cat', 'black'])
    """

    language: str
    models: Mapping[str, _Model]
    choice: Literal["sampled", "best"] = "sampled"

    needs: ClassVar[frozenset[str]] = frozenset({"heads", "upos", "deprel", "words"})
    changes: ClassVar[frozenset[str]] = frozenset({"order"})

    @property
    def draws(self) -> bool:  # type: ignore[override]
        """Whether orders are sampled."""
        return self.choice == "sampled"

    def __post_init__(self) -> None:
        check_name(self.language, "language")
        check_choice(self.choice, "choice", ("sampled", "best"))
        if not self.models or not self.models.keys() <= PARTS.keys():
            expected = f"models of classes of heads ({', '.join(PARTS)})"
            refuse(
                "models", expected, ", ".join(self.models) or "none", "learn them from a treebank"
            )
        # nothing that a result depends on: what was computed once
        object.__setattr__(self, "_scores", {})

    @property
    def name(self) -> str:
        told = [f"order:{self.language}"]
        if len(self.models) < len(PARTS):
            told += self.models
        if all(isinstance(model, RelationWeights) for model in self.models.values()):
            told.append("relation-weights")
        return ",".join([*told, "best"] if self.choice == "best" else told)

    def derive(self, sentence: Sentence, seed: int, number: int, *, epoch: int = 0) -> Derived:
        self.check_needs(sentence)
        found, n = nodes(sentence), len(sentence.tokens)
        drawn = generator(seed, number).random(n)
        orders = [self._words(node, drawn[node.words[0]]) for node in found]
        order = laid_out(found, orders, n)
        return Derived([sentence.tokens[word] for word in order], order)

    def reorders(self, node: Node) -> bool:
        """Whether a node's items are put in order: its head has a model, and it is not too large."""
        return node.part in self.models and len(node.items) <= LARGEST

    def _words(self, node: Node, drawn: float) -> Sequence[int]:
        """A node's words in an order; ``drawn`` is a random number from 0 to 1."""
        if not self.reorders(node):
            return [node.words[item] for item in node.order]
        same = canonical(node)
        orders, scores = size_events(len(same.items)).orders, self._scores_of(same)
        if self.choice == "best":
            places = np.argsort(same.order)[orders[scores >= scores.max() - _TIE]]
            row = places[np.lexsort(places.T[::-1])[0]]
            return [same.words[same.order[place]] for place in row]
        sums = np.cumsum(np.exp(scores - scores.max()))
        row = np.searchsorted(sums[:-1], drawn * sums[-1], side="right")
        return [same.words[item] for item in orders[row]]

    def _scores_of(self, node: Node) -> Float[np.ndarray, " p"]:
        known: dict[Any, np.ndarray] = vars(self)["_scores"]
        found = known.get((node.part, node.items))
        if found is None:
            found = self.models[node.part].scores(node)
            if len(node.items) <= _REMEMBERED:
                known[node.part, node.items] = found
        return found

    def log_probability(self, node: Node) -> float:
        """The logarithm of the probability of the order that a node has, among all n! of them.

        Parameters
        ----------
        node: one that :meth:`reorders`.
        """
        same = canonical(node)
        scores = self._scores_of(same)
        (row,) = np.flatnonzero((size_events(len(same.items)).orders == same.order).all(axis=1))
        top = scores.max()
        return float(scores[row] - top - np.log(np.exp(scores - top).sum()))

    def mixed_with(self, substrate: "WordOrder", share: float = 0.05) -> "WordOrder":
        """The order whose weights are ``(1 - share)`` of this one and ``share`` of another one, that
        of the language which is derived, as GalacticDependencies has it (0.05). It is called so:
        fra-with-0.05-eng.

        Raises
        ------
        InputError: other classes of heads, a model without features, or a share that is not between
            0 and 1.
        """
        check_fraction(share, "share")
        both = [*self.models.values(), *substrate.models.values()]
        if self.models.keys() != substrate.models.keys() or not all(
            isinstance(one, OrderModel) for one in both
        ):
            expected = f"log-linear models of {', '.join(self.models)}"
            refuse("substrate", expected, "others", "learn both with the same settings")
        models = {
            part: mixed(model, substrate.models[part], share)  # type: ignore[arg-type]
            for part, model in self.models.items()
        }
        language = f"{self.language}{_MIXED}{share:g}-{substrate.language}"
        return dataclasses.replace(self, language=language, models=models)

    def is_of(self, language: str) -> bool:
        """Whether it is called the order of a language, or is mixed of that and another one
        (fra-with-0.05-eng of fra)."""
        return language in (self.language, self.language.partition(_MIXED)[0])


def learn_word_order(
    treebank: Corpus,
    *,
    parts: str = "NV",
    model: Literal["log-linear", "relation-weights"] = "log-linear",
    choice: Literal["sampled", "best"] = "sampled",
    places: Sequence[str] | None = None,
) -> WordOrder:
    """Learn the order of a treebank's language.

    Parameters
    ----------
    treebank: with the columns form, upos, head and deprel; its language names the order. Sentences
        whose edges cross are not learnt from.
    parts: the classes of heads whose words are put in order: "N", "V" or both.
    model: "log-linear" (Wang & Eisner 2016, :mod:`crosslens.derive.order_model`), one for each class,
        or "relation-weights" (Hahn et al. 2020, :mod:`crosslens.derive.order_relation_weights`), one
        for all, which learns from heads of every class.
    choice: see :class:`WordOrder`.
    places: what each sentence is called in a refusal.

    Raises
    ------
    InputError: other parts or models; a sentence without a tree; or nothing to learn from.
    """
    if not parts or not set(parts) <= PARTS.keys() or len(set(parts)) < len(parts):
        refuse("parts", "N, V or NV", quote(parts), "choose one of them")
    check_choice(model, "model", ("log-linear", "relation-weights"))
    found = [
        node
        for sentence in _sentences(treebank, places)
        if not crossing_edges(sentence.heads or ())
        for node in nodes(sentence)
    ]
    models: dict[str, _Model]
    if model == "relation-weights":
        models = dict.fromkeys(parts, fit_relation_weights(found))
    else:
        models = {part: fit_order(node for node in found if node.part == part) for part in parts}
    return WordOrder(treebank.language, models, choice)


def check_trees(treebank: Corpus, places: Sequence[str] | None = None) -> None:
    """Pass if every sentence of a treebank has a tree.

    Parameters
    ----------
    places: what each sentence is called in a refusal.

    Raises
    ------
    InputError: a column is missing, or a sentence is no tree.
    """
    for _ in _sentences(treebank, places):
        pass


def _sentences(treebank: Corpus, places: Sequence[str] | None = None) -> Iterator[Sentence]:
    """The sentences of a treebank, with their trees."""
    columns = treebank.annotations or {}
    if missing := sorted({"form", "upos", "head", "deprel"} - columns.keys()):
        expected = f"the columns {', '.join(missing)}"
        refuse(treebank.name, expected, "a text without them", "give a treebank (.conllu)")
    for number in range(len(treebank)):
        place = places[number] if places else f"{treebank.name}:{number + 1}"
        some = {name: values[number] for name, values in columns.items()}
        heads = [head_number(cell, place) for cell in some["head"]]
        check_tree(heads, place)
        yield Sentence(some["form"], some, heads, treebank.language, place)


@dataclasses.dataclass(frozen=True)
class OrderCoverage:
    """What of a treebank a word order applies to.

    Attributes
    ----------
    sentences: how many there are. crossing: how many of them have edges that cross, and are
        projective afterwards.
    heads: words with dependents. reordered: those whose words were put in order. too_large: those
        of the model's classes that kept theirs, as they have too many dependents; what is left are
        heads of other classes.
    """

    sentences: int
    crossing: int
    heads: int
    reordered: int
    too_large: int


def order_coverage(
    treebank: Corpus, order: WordOrder, places: Sequence[str] | None = None
) -> OrderCoverage:
    """What of a treebank a word order applies to.

    Parameters
    ----------
    places: what each sentence is called in a refusal.
    """
    counts = dict.fromkeys(("sentences", "crossing", "heads", "reordered", "too_large"), 0)
    for sentence in _sentences(treebank, places):
        found = nodes(sentence)
        counts["sentences"] += 1
        counts["crossing"] += crossing_edges(sentence.heads or ()) > 0
        counts["heads"] += len(found)
        counts["reordered"] += sum(order.reorders(node) for node in found)
        counts["too_large"] += sum(
            node.part in order.models and not order.reorders(node) for node in found
        )
    return OrderCoverage(**counts)
