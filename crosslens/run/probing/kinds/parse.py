"""Tasks on dependency trees: structural probes of distances and depths (Hewitt & Manning 2019)."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.outcomes import Outcomes
from crosslens.probes.methods.rows import JoinedRows, TakenRows
from crosslens.probes.methods.splits import Parts
from crosslens.probes.methods.structural import StructuralProbe
from crosslens.probes.methods.structural_scores import (
    StructuralScore,
    StructuralScores,
    structural_scores,
)
from crosslens.progress import Progress
from crosslens.readers.treebank import Trees, trees
from crosslens.run.probing.items import Measured, Shared, TestItems, shared_texts
from crosslens.run.probing.kinds.tag import TreebankTask, WordsText
from crosslens.run.probing.kinds.task import Given, joined_languages
from crosslens.run.probing.scores import without_shared
from crosslens.run.probing.splits import PARTS
from crosslens.score import Score

__all__ = ["StructuralTask"]

_RANK = 64
# sentences: a probe takes about half a minute per layer
_MOST = {"train": 1000, "dev": 500, "test": 2000}
_COLUMNS = ("text", "pieces", "head", "upos")
_MAIN = {"distance": "uuas", "depth": "root_accuracy"}


@dataclasses.dataclass(frozen=True, eq=False)
class _Part:
    """Some sentences of one treebank or more on end.

    Attributes
    ----------
    language: of the treebank, or of all.
    rows: name of an activation dataset -> rows of its words.
    heads, lengths, punctuation: of the trees.
    sentences: each sentence's text. texts: a name of each; equal ones have one.
    left_out: sentences of the part that have a word without a subword, and are not among these.
    """

    language: str | None
    rows: Mapping[str, np.ndarray]
    heads: np.ndarray
    lengths: np.ndarray
    punctuation: np.ndarray
    sentences: Sequence[str]
    texts: np.ndarray
    left_out: int

    @classmethod
    def joined(cls, parts: Sequence["_Part"]) -> "_Part":
        """Several languages' as one."""
        if len(parts) == 1:
            return parts[0]
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("heads", "lengths", "punctuation", "texts")
        }
        return cls(
            joined_languages([part.language for part in parts]),
            {name: rows for part in parts for name, rows in part.rows.items()},
            **columns,
            sentences=[sentence for part in parts for sentence in part.sentences],
            left_out=sum(part.left_out for part in parts),
        )

    def layer(self, given: Given, layer: int, random: bool) -> TakenRows | JoinedRows:
        found = [given.layers(name, rows, random)[layer] for name, rows in self.rows.items()]
        return found[0] if len(found) == 1 else JoinedRows(found)

    def dropped(self) -> dict[str, Any]:
        """For the details of scores: what was left out; nothing where all are there."""
        reason = "sentences with a word that has no subword"
        return {"dropped": {reason: self.left_out}} if self.left_out else {}

    @property
    def trees(self) -> np.ndarray:
        """The heads of each sentence, as text."""
        heads = np.split(self.heads, np.cumsum(self.lengths)[:-1])
        return np.array([" ".join(map(str, one.tolist())) for one in heads])


@dataclasses.dataclass(frozen=True, eq=False)
class StructuralTask(TreebankTask):
    """A structural probe of every layer.

    Attributes
    ----------
    shape: what is learnt: "distance" or "depth".
    """

    shape: str = "distance"

    def __post_init__(self) -> None:
        for place, one in enumerate(self.treebanks):
            # refuses what is no tree
            trees({name: column for name, column in one.columns().items() if name in _COLUMNS})
            for part in PARTS if place < len(self.trained) else ("test",):
                if not (one.part_of == part).any():
                    remedy = "give a treebank that has them, or more of its sentences"
                    refuse(self.name, f"sentences in {part}", "none", remedy)

    def facts(self) -> dict[str, Any]:
        """Sentences of each part that are used, and how they were sampled."""
        counts = {
            f"{part}_sentences": sum(
                min(most, int((one.part_of == part).sum())) for one in self.trained
            )
            for part, most in _MOST.items()
        }
        drawn = f"{self.drawn}; of larger parts so many sentences, drawn with the seed"
        return {**super().facts(), **counts, "drawn": drawn, "rank": _RANK}

    def measure(self, given: Given) -> Measured:
        """The measures of each layer, and those of word order alone; edges (or roots) of a sentence
        are of one group."""
        drawn = given.seed if given.items_seed is None else given.items_seed
        every = [(one, *_trees(one, given)) for one in self.treebanks]
        first, others = every[: len(self.trained)], every[len(self.trained) :]
        train, dev, test = (
            _Part.joined([self._part(*one, part, drawn) for one in first]) for part in PARTS
        )
        each = [*(first if self.also else []), *others]
        tests = [test, *(self._part(*one, "test", drawn) for one in each)]
        shared = [_shared(train, dev, one) for one in tests]
        scores, outcomes = list[Score](), list[Outcomes]()
        layers = given.stores[self.trained[0].name].layers
        with Progress(
            layers * (1 + (given.random is not None)),
            f"{self.name} of {given.common['encoder']}",
            "layers",
        ) as progress:
            for layer in range(layers):
                for random in (False, True) if given.random is not None else (False,):
                    fields = {
                        **given.common,
                        "task": self.name,
                        "layer": layer,
                        "source": train.language,
                    }
                    fields |= {"condition": "random_encoder"} if random else {}
                    probe, dev_scores = self._fit(train, dev, fields, given, random)
                    for number, one in enumerate(tests):
                        place = {**fields, "target": one.language}
                        told = self._details(probe, train, shared[number], given.seed)
                        details = {**told, **one.dropped()}
                        measured = self._measured(probe, one.layer(given, layer, random), one)
                        rows = [
                            _score(found, quantity, place, details)
                            for quantity, found in measured.probe.items()
                        ]
                        scores.append(_beside(rows[0], measured.items, one, shared[number]))
                        scores += rows[1:]
                        if number == 0 and not random:
                            scores += [
                                _score(f, q, place, {**told, **dev.dropped(), "part": "dev"})
                                for q, f in dev_scores.probe.items()
                            ]
                        if layer == 0 and not random:
                            order = {**place, "layer": None, "condition": "word_order"}
                            scores += [
                                _score(f, q, order, {"part": "test"})
                                for q, f in measured.linear.items()
                            ]
                        place |= {"part": "test", "quantity": _MAIN[self.shape]}
                        outcomes.append(_outcomes(measured.items, one, place))
                    progress.add(1)
        return Measured(scores, outcomes)

    def has_seed(self, given: Given) -> bool:
        """Of the map that training begins with: what is minimised is not convex."""
        return True

    def _details(
        self, probe: StructuralProbe, train: _Part, shared: Shared, seed: int
    ) -> dict[str, Any]:
        told = {
            "part": "test",
            "n_train": len(train.lengths),
            "unit": "sentences",
            "parts": self.drawn,
            "seeds": [seed],
        }
        told |= shared.details()
        return {
            **told,
            "rank": probe.rank,
            "steps": probe.n_iter_,
            "dev_loss": float(probe.loss_),
            "converged": probe.converged_,
        }

    def _part(
        self,
        one: WordsText,
        found: Trees,
        sentence_of: np.ndarray,
        left_out: np.ndarray,
        part: str,
        seed: int,
    ) -> _Part:
        """Some of the sentences of a part."""
        ends = np.cumsum(found.lengths)
        mine = np.flatnonzero(one.part_of[sentence_of[ends - 1]] == part)
        if not len(mine):
            expected = f"sentences in {part} whose words all have vectors"
            refuse(self.name, expected, "none", "give more sentences")
        if len(mine) > _MOST[part]:
            mine = np.sort(np.random.default_rng([seed, 0x7EE5]).permutation(mine)[: _MOST[part]])
        words = np.concatenate([np.arange(ends[i] - found.lengths[i], ends[i]) for i in mine])
        rows = found.rows[words]
        heads = found.heads[words]
        lengths = found.lengths[mine]
        punctuation = found.punctuation[words]
        numbers = sentence_of[ends[mine] - 1]
        return _Part(
            one.language,
            {one.name: rows},
            heads,
            lengths,
            punctuation,
            [one.text.corpus.sentences[number] for number in numbers],
            one.groups()[numbers],
            int((one.part_of[left_out] == part).sum()),
        )

    def _fit(
        self, train: _Part, dev: _Part, fields: Mapping[str, Any], given: Given, random: bool
    ) -> tuple[StructuralProbe, StructuralScores]:
        """A layer's probe, and its measures on dev."""
        vectors, watched = (part.layer(given, fields["layer"], random) for part in (train, dev))
        probe = StructuralProbe(self.shape, rank=min(_RANK, vectors.shape[1]), seed=given.seed)
        probe.fit(vectors, train.heads, train.lengths, (watched, dev.heads, dev.lengths))
        return probe, self._measured(probe, watched, dev)

    def _measured(
        self, probe: StructuralProbe, vectors: TakenRows | JoinedRows, part: _Part
    ) -> StructuralScores:
        return structural_scores(
            probe.predict(vectors, part.lengths),
            part.heads,
            part.lengths,
            part.punctuation,
            kind=self.shape,
            groups=part.texts,
        )


def _trees(one: WordsText, given: Given) -> tuple[Trees, np.ndarray, np.ndarray]:
    """The trees of a treebank's stored words, the sentence that each word is of, and the sentences
    that were left out."""
    store = given.stores[one.name]
    found = trees(store.index(list(_COLUMNS)))
    sentence_of = np.asarray(store.index(["text"])["text"])
    taken = sentence_of[found.rows]
    return found, taken, np.setdiff1d(sentence_of, taken)


def _shared(train: _Part, dev: _Part, test: _Part) -> Shared:
    """Test sentences that are in training, too: they have the same trees, or others."""
    ends = np.cumsum([len(part.lengths) for part in (train, dev, test)])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    names, labels = (
        np.concatenate([getattr(part, what) for part in (train, dev, test)])
        for what in ("texts", "trees")
    )
    return shared_texts(names, labels, Parts(rows[0], rows[2], rows[1]))


def _beside(score: Score, items: np.ndarray, part: _Part, shared: Shared) -> Score:
    """The score with what it is without the sentences that training has, too."""
    edges = shared.of(items[:, 0])
    without = without_shared(items[:, 2] == 1, part.texts[items[:, 0]], edges)
    kept = {name: value for name, value in (score.details or {}).items() if name != "shared_texts"}
    return dataclasses.replace(score, details={**kept, **edges.details(), **without})


def _outcomes(found: np.ndarray, part: _Part, fields: Mapping[str, Any]) -> Outcomes:
    """Which edges of the trees (or which roots) were found: an item is the dependent of an edge, or
    a root."""
    number, word = found[:, 0], found[:, 1]
    begin = np.cumsum(part.lengths) - part.lengths
    heads = part.heads[begin[number] + word].tolist()
    told = [
        (part.sentences[i], j, head)
        for i, j, head in zip(number.tolist(), word.tolist(), heads, strict=True)
    ]
    items = TestItems.of(told, part.texts[found[:, 0]], [str(head) for head in heads])
    return items.outcomes(found[:, 2].astype(np.float64), **fields)


def _score(
    one: StructuralScore, quantity: str, fields: Mapping[str, Any], details: Mapping[str, Any]
) -> Score:
    told = {**details, **({"undefined": one.undefined} if one.undefined else {})}
    if np.isnan(one.value):
        told["reason"] = "no sentence of a length that it is defined for"
    return Score(
        **fields,
        quantity=quantity,
        value=one.value,
        n=one.n,
        low=one.low,
        high=one.high,
        details=told,
    )
