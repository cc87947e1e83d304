"""Dependency trees: each word's head, and the relation to it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crosslens.errors import check_choice
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.extraction.units import Reading, locate
from crosslens.models.finetuning.examples import TreeExamples
from crosslens.models.finetuning.kind import Row, no_longer
from crosslens.models.finetuning.spanning_trees import best_tree
from crosslens.models.network.parser import ParserHead

__all__ = ["Parse", "Parsed"]

_BLOCK = 2_000  # sentences that are tokenised at once
_NOT_COUNTED = -100
_FILL = {"first": 0, "heads": _NOT_COUNTED, "relations": _NOT_COUNTED, "tags": 0}


@dataclasses.dataclass(frozen=True, eq=False)
class Parsed:
    """The tree of a sentence of n words.

    Attributes
    ----------
    heads: shape (n,), numbers of heads from 1; 0 for the root.
    relations: shape (n,), numbers of relations; -1 for words that the encoder did not read, which
        are below the word before them.
    """

    heads: np.ndarray
    relations: np.ndarray


@dataclasses.dataclass(frozen=True)
class Parse:
    """A tree for each sentence, from the states of its words' first subwords.

    A sentence is one input; what does not fit is cut. Words that are cut off, or have no subword,
    are attached to the word before them and counted.

    Attributes
    ----------
    classes: number of relations. sizes: a name of :data:`crosslens.models.network.parser_sizes.PARSERS`.
    tags: number of parts of speech that the parser is given; 0 for none.
    roots: how many words may depend on the root in what is predicted: "single" or "any".
    """

    classes: int
    sizes: str = "wu_dredze"
    tags: int = 0
    roots: str = "single"

    def __post_init__(self) -> None:
        check_choice(self.roots, "roots", ("single", "any"))

    def head(self, d: int) -> nn.Module:
        """See :class:`crosslens.models.network.parser.ParserHead`."""
        return ParserHead(d, self.classes, self.sizes, self.tags)

    def rows(self, encoder: Encoder, examples: TreeExamples) -> list[Row]:
        """A row for each sentence of which a word is read."""
        corpus, rows = examples.corpus, list[Row]()
        short = encoder if examples.longest is None else no_longer(encoder, examples.longest)
        reading = Reading(unit="word", pool="first", long_input="truncate")
        for start in range(0, len(corpus), _BLOCK):
            block = range(start, min(start + _BLOCK, len(corpus)))
            found = locate(short, corpus, block, reading)
            owner = found.owner[found.entry_token]
            begins = np.cumsum([0, *(len((corpus.words or ())[n]) for n in block)])
            bounds = np.searchsorted(found.entry_item, begins)
            for number, sentence in enumerate(block):
                entries = np.arange(bounds[number], bounds[number + 1])
                entries = entries[owner[entries] >= 0]
                if len(entries):
                    taken = found.inputs[owner[entries[0]]]
                    words = found.entry_item[entries] - begins[number]
                    columns = found.column[found.entry_token[entries]]
                    given = (found.ids[taken], found.segments[taken])
                    rows.append(self._row(examples, sentence, words, columns, given))
        return rows

    def _row(
        self,
        examples: TreeExamples,
        sentence: int,
        words: np.ndarray,
        columns: np.ndarray,
        given: tuple[np.ndarray, np.ndarray],
    ) -> Row:
        """A sentence of which these words are read; heads are their places among these."""
        targets: dict[str, np.ndarray] = {"first": columns}
        if examples.heads is not None and examples.relations is not None:
            n = len(examples.heads[sentence])
            place = np.full(n + 1, _NOT_COUNTED)  # of words that are not read
            place[0], place[words + 1] = 0, np.arange(1, len(words) + 1)
            heads = place[examples.heads[sentence][words]]
            relations = np.asarray(examples.relations[sentence])[words]
            known = (heads >= 0) & (relations >= 0)
            targets["heads"] = heads
            targets["relations"] = np.where(known, relations, _NOT_COUNTED)
        if self.tags:
            assert examples.tags is not None, "this parser reads parts of speech"
            targets["tags"] = np.asarray(examples.tags[sentence])[words]
        counted = int((targets.get("heads", columns) >= 0).sum())
        items = np.concatenate([[sentence], words])
        return Row(*given, items, targets, counted, (examples.corpus.language, None))

    def batch(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """``first``, ``heads``, ``relations`` and ``tags`` (batch, words), where they are known, and
        ``words`` (batch,), how many words each row has."""
        lengths = [len(row.targets["first"]) for row in rows]
        found = {
            name: np.full((len(rows), max(lengths)), _FILL[name], np.int64)
            for name in rows[0].targets
        }
        for number, row in enumerate(rows):
            for name, values in row.targets.items():
                found[name][number, : len(values)] = values
        tensors = {name: torch.from_numpy(values) for name, values in found.items()}
        return {**tensors, "words": torch.tensor(lengths)}

    def loss(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> Tensor:
        """Cross-entropy of heads, and of relations given the right head, in nats, summed over
        words."""
        assert isinstance(head, ParserHead)
        heads, relations = targets["heads"], targets["relations"]
        arcs, vectors = head(states, targets["first"], targets["words"], targets.get("tags"))
        scores = head.relations(vectors, heads.clamp(min=0))
        told: dict[str, Any] = {"ignore_index": _NOT_COUNTED, "reduction": "sum"}
        of_arcs = F.cross_entropy(arcs.float().flatten(0, 1), heads.flatten(), **told)
        return of_arcs + F.cross_entropy(scores.float().flatten(0, 1), relations.flatten(), **told)

    def tree(self, scores: np.ndarray) -> np.ndarray:
        """The heads of a sentence, by the scores of its arcs."""
        return best_tree(scores, single_root=self.roots == "single")

    def outputs(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> list[Any]:
        """(heads, relations) of the words that each row reads."""
        assert isinstance(head, ParserHead)
        arcs, vectors = head(states, targets["first"], targets["words"], targets.get("tags"))
        likely = arcs.float().log_softmax(-1).cpu().numpy()
        lengths = targets["words"].tolist()
        heads = np.zeros(targets["first"].shape, np.int64)
        for row, n in enumerate(lengths):
            scores = likely[row, :n, : n + 1]
            heads[row, :n] = self.tree(scores)
        found = head.relations(vectors, torch.from_numpy(heads).to(arcs.device)).argmax(-1)
        relations = found.cpu().numpy()
        return [(heads[k, :n], relations[k, :n]) for k, n in enumerate(lengths)]

    def join(
        self, examples: TreeExamples, rows: Sequence[Row], outputs: Sequence[Any]
    ) -> list[Parsed]:
        """The tree of each sentence."""
        lengths = [len(spans) for spans in examples.corpus.words or ()]
        found = [Parsed(np.arange(n), np.full(n, -1)) for n in lengths]
        for row, (heads, relations) in zip(rows, outputs, strict=True):
            tree, words = found[row.items[0]], row.items[1:]
            tree.heads[words] = np.concatenate([[0], words + 1])[heads]
            tree.relations[words] = relations
            first = int(words[0])
            if first:  # words before the first that is read: below the root's word, not the root
                tree.heads[0] = words[np.flatnonzero(heads == 0)[0]] + 1
        return found
