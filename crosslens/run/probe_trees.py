"""Tasks of a battery on dependency trees: structural probes of distances and depths (Hewitt & Manning 2019)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.outcomes import Outcomes
from crosslens.probes.methods.rows import TakenRows
from crosslens.probes.methods.splits import Parts
from crosslens.probes.methods.structural import StructuralProbe
from crosslens.probes.methods.structural_scores import StructuralScore, StructuralScores, structural_scores
from crosslens.progress import Progress
from crosslens.readers.treebank import Trees, trees
from crosslens.run.probe_items import Measured, Shared, TestItems, shared_texts, text_names
from crosslens.run.probe_scores import without_shared
from crosslens.run.probe_splits import normal_texts
from crosslens.run.probe_tasks import Given, TreebankTask
from crosslens.score import Score

__all__ = ["StructuralTask"]

_RANK = 64
_MOST = {"train": 1000, "dev": 500, "test": 2000}  # sentences: a probe takes about half a minute per layer
_COLUMNS = ("text", "pieces", "head", "upos")


@dataclasses.dataclass(frozen=True, eq=False)
class _Part:
    """Some sentences: their numbers in the treebank, rows of their words in the store, and their trees."""

    sentences: np.ndarray
    rows: np.ndarray
    heads: np.ndarray
    lengths: np.ndarray
    punctuation: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class StructuralTask(TreebankTask):
    """A structural probe of every layer; the name is structural_distance or structural_depth."""

    def __post_init__(self) -> None:
        columns = self.columns()
        trees({name: column for name, column in columns.items() if name in _COLUMNS})  # refuses what is no tree
        for part in ("train", "dev", "test"):
            if not (self.part_of == part).any():
                refuse(self.name, f"sentences in {part}", "none", "give a treebank that has them, or more of its sentences")

    @property
    def kind(self) -> str:
        """What is learnt: "distance" or "depth"."""
        return self.name.removeprefix("structural_")

    def facts(self) -> dict[str, Any]:
        """Sentences of each part that are used, and how they were drawn."""
        counts = {f"{part}_sentences": min(most, int((self.part_of == part).sum())) for part, most in _MOST.items()}
        return {**counts, "drawn": f"{self.drawn}; of larger parts so many sentences, drawn with the seed", "rank": _RANK}

    def measure(self, given: Given) -> Measured:
        """The measures of each layer, and those of word order alone; edges (or roots) of a sentence are of one group."""
        (name,) = self.texts
        store, seed = given.stores[name], given.seed
        drawn = seed if given.items_seed is None else given.items_seed
        found = trees(store.index(list(_COLUMNS)))
        sentence_of = np.asarray(store.index(["text"])["text"])[found.rows]
        parts = {part: self._part(found, sentence_of, part, drawn) for part in _MOST}
        told = {"part": "test", "n_train": len(parts["train"].lengths), "unit": "sentences", "parts": self.drawn, "seeds": [seed]}
        told |= {"dropped": {"sentences with a word that has no piece": found.left_out}} if found.left_out else {}
        shared = self._shared(parts)
        told |= shared.details()
        scores, outcomes = list[Score](), list[Outcomes]()
        with Progress(store.layers * (1 + (given.random is not None)), f"{self.name} of {given.common['encoder']}", "layers") as progress:
            for layer in range(store.layers):
                for random in (False, True) if given.random is not None else (False,):
                    condition = {"condition": "random_encoder"} if random else {}
                    fields = {**given.common, "task": self.name, "layer": layer, **condition}
                    vectors = {p: given.layers(name, part.rows, random)[layer] for p, part in parts.items()}
                    more, items = self._layer(vectors, parts, fields, told, seed, first=not scores)
                    scores += [self._beside(more[0], items, shared), *more[1:]]
                    quantity = "uuas" if self.kind == "distance" else "root_accuracy"
                    outcomes.append(self._outcomes(items, parts["test"], {**fields, "part": "test", "quantity": quantity}))
                    progress.add(1)
        return Measured(scores, outcomes)

    def has_seed(self, given: Given) -> bool:
        """Of the map that training begins with: what is minimised is not convex."""
        return True

    def _shared(self, parts: Mapping[str, _Part]) -> Shared:
        """Test sentences that are in training, too: they have the same trees, or others."""
        names = text_names(normal_texts(self.text.corpus.sentences))
        of = [names[parts[part].sentences] for part in ("train", "dev", "test")]
        heads = [np.split(parts[p].heads, np.cumsum(parts[p].lengths)[:-1]) for p in ("train", "dev", "test")]
        labels = np.array([" ".join(map(str, one.tolist())) for some in heads for one in some])
        ends = np.cumsum([len(some) for some in of])
        train, dev, test = np.split(np.arange(ends[-1]), ends[:-1])
        return shared_texts(np.concatenate(of), labels, Parts(train, test, dev))

    def _beside(self, score: Score, items: np.ndarray, shared: Shared) -> Score:
        """The score with what it is without the sentences that training has, too."""
        edges = shared.of(items[:, 0])
        without = without_shared(items[:, 2] == 1, items[:, 0], edges)
        kept = {name: value for name, value in (score.details or {}).items() if name != "shared_texts"}
        return dataclasses.replace(score, details={**kept, **edges.details(), **without})

    def _outcomes(self, found: np.ndarray, part: _Part, fields: Mapping[str, Any]) -> Outcomes:
        """Which edges of the trees (or which roots) were found: an item is the dependent of an edge, or a root."""
        corpus = self.text.corpus
        number, word = part.sentences[found[:, 0]], found[:, 1]
        begin = np.cumsum(part.lengths) - part.lengths
        heads = part.heads[begin[found[:, 0]] + word].tolist()
        told = [(corpus.sentences[i], j, head) for i, j, head in zip(number.tolist(), word.tolist(), heads, strict=True)]
        items = TestItems.of(told, text_names(normal_texts(corpus.sentences))[number], [str(head) for head in heads])
        return items.outcomes(found[:, 2].astype(np.float64), **fields)

    def _part(self, found: Trees, sentence_of: np.ndarray, part: str, seed: int) -> _Part:
        """Some of the sentences of a part."""
        ends = np.cumsum(found.lengths)
        mine = np.flatnonzero(self.part_of[sentence_of[ends - 1]] == part)
        if not len(mine):
            refuse(self.name, f"sentences in {part} whose words all have vectors", "none", "give more sentences")
        if len(mine) > _MOST[part]:
            mine = np.sort(np.random.default_rng([seed, 0x7EE5]).permutation(mine)[: _MOST[part]])
        words = np.concatenate([np.arange(ends[i] - found.lengths[i], ends[i]) for i in mine])
        return _Part(sentence_of[ends[mine] - 1], found.rows[words], found.heads[words], found.lengths[mine], found.punctuation[words])

    def _layer(
        self,
        vectors: Mapping[str, TakenRows],
        parts: Mapping[str, _Part],
        fields: Mapping[str, Any],
        told: Mapping[str, Any],
        seed: int,
        *,
        first: bool,
    ) -> tuple[list[Score], np.ndarray]:
        train, dev = parts["train"], parts["dev"]
        probe = StructuralProbe(self.kind, rank=min(_RANK, vectors["train"].shape[1]), seed=seed)
        probe.fit(vectors["train"], train.heads, train.lengths, (vectors["dev"], dev.heads, dev.lengths))
        details = {**told, "rank": probe.rank, "steps": probe.n_iter_, "dev_loss": float(probe.loss_), "converged": probe.converged_}
        measured = {part: self._measured(probe, vectors[part], parts[part]) for part in ("dev", "test")}
        scores = [_score(one, quantity, fields, details) for quantity, one in measured["test"].probe.items()]
        if "condition" not in fields:
            scores += [_score(one, quantity, fields, {**details, "part": "dev"}) for quantity, one in measured["dev"].probe.items()]
        if first:
            place = {**fields, "layer": None, "condition": "word_order"}
            scores += [_score(one, quantity, place, {"part": "test"}) for quantity, one in measured["test"].linear.items()]
        return scores, measured["test"].items

    def _measured(self, probe: StructuralProbe, vectors: TakenRows, part: _Part) -> StructuralScores:
        return structural_scores(probe.predict(vectors, part.lengths), part.heads, part.lengths, part.punctuation, kind=self.kind)


def _score(one: StructuralScore, quantity: str, fields: Mapping[str, Any], details: Mapping[str, Any]) -> Score:
    told = {**details, **({"undefined": one.undefined} if one.undefined else {})}
    if np.isnan(one.value):
        told["reason"] = "no sentence of a length that it is defined for"
    return Score(**fields, quantity=quantity, value=one.value, n=one.n, low=one.low, high=one.high, details=told)
