"""Tasks of a battery on what words mean in context: Word-in-Context, and similarity in context (SCWS)."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.probes.controls import Accuracy
from crosslens.probes.parts import Parts
from crosslens.probes.scws import ScwsResult, cosines, missing_rows, scws
from crosslens.probes.wic import REPRESENTATIONS, WicPart, WicVectors, wic
from crosslens.run.probe_tasks import Given, Task, Text, outcomes
from crosslens.score import Score
from crosslens.scws import Scws
from crosslens.wic import Wic

__all__ = ["ScwsTask", "WicTask"]

_FEWEST = 5  # items; below this nothing can be held out, and no correlation says anything


@dataclasses.dataclass(frozen=True, eq=False)
class WicTask(Task):
    """Word-in-Context, with every representation of a pair.

    Attributes
    ----------
    name: of the task. items: all parts one behind the other; parts: which are which.
    """

    name: str
    items: Wic
    parts: Parts

    def __post_init__(self) -> None:
        counts = np.bincount(self.items.labels[self.parts.train], minlength=2)
        if counts.min() < _FEWEST:
            refuse(self.name, f"{_FEWEST} or more training items of each answer", f"{counts[1]} T and {counts[0]} F", "take more items")

    @property
    def texts(self) -> Mapping[str, Text]:
        """Targets in the first and in the second sentences, and the pairs."""
        first, second = self.items.corpora()
        return {"wic-first": Text(first, "word"), "wic-second": Text(second, "word"), "wic-pairs": Text(first, "pair", second)}

    def facts(self) -> dict[str, Any]:
        """Sizes of the parts."""
        return {"train": len(self.parts.train), "dev": len(self.parts.dev), "test": len(self.parts.test), "drawn": self.parts.drawn}

    def measure(self, given: Given) -> list[Score]:
        """Accuracy on dev and test of each representation and layer, with its controls."""
        parts = self._vectors(given, random=False)
        random = self._vectors(given, random=True) if given.random is not None else None
        seed, pairs = int(given.common["seed"]), given.stores["wic-pairs"].manifest["truncated"]
        results = {name: wic(parts, name, random_encoder=random, seed=seed) for name in REPRESENTATIONS}
        best = max(
            ((name, layer) for name, result in results.items() for layer in range(len(result.chosen))),
            key=lambda place: results[place[0]].parts["dev"].accuracy[place[1]].value,
        )
        scores = []
        for name, result in results.items():
            for part, found in result.parts.items():
                common = {"part": part, "representation": name, "n_train": len(self.parts.train) - result.left_out, "classes": 2}
                if found.left_out:
                    common["dropped"] = {"no piece of a target in the encoder": found.left_out}
                if name == "pair_cls" and pairs:
                    common["truncated"] = pairs
                kept = {0, best[1]} if name == best[0] and part == "test" else set[int]()
                hits = {layer: hits for layer, hits in enumerate(self._hits(found, parts[part])) if layer in kept}
                scores += _wic_scores(found, {**given.common, "task": self.name}, common, result.chosen, hits)
        return scores

    def _vectors(self, given: Given, *, random: bool) -> dict[str, WicVectors]:
        """The vectors and answers of each part."""
        same = self.items.labels
        return {
            part: WicVectors(same[rows], *(given.layers(text, rows, random) for text in ("wic-pairs", "wic-first", "wic-second")))
            for part, rows in (("train", self.parts.train), ("dev", self.parts.dev), ("test", self.parts.test))
        }

    @staticmethod
    def _hits(found: WicPart, vectors: WicVectors) -> list[str]:
        """The outcomes of a part, with a place for items that were left out."""
        n = len(np.asarray(vectors.same))
        if not found.left_out:
            return outcomes(found.correct, np.arange(n))
        assert vectors.first is not None and vectors.second is not None
        return outcomes(found.correct, np.flatnonzero(~missing_rows(vectors.first[0], vectors.second[0])), n)


def _wic_scores(
    found: WicPart, fields: Mapping[str, Any], common: Mapping[str, Any], chosen: np.ndarray, hits: Mapping[int, str]
) -> list[Score]:
    """The rows of one representation on one part."""
    what = "threshold" if common["representation"] == "cosine_threshold" else "penalty"
    majority = {key: value for key, value in common.items() if key == "part"}
    scores = [_accuracy(found.majority, fields, None, "majority", majority)] if common["representation"] == REPRESENTATIONS[0] else []
    for layer, reached in enumerate(found.accuracy):
        value = float(chosen[layer])
        told = {**common, what: value if np.isfinite(value) else None, **({"hits": hits[layer]} if layer in hits else {})}
        scores.append(_accuracy(reached, fields, layer, None, told))
        scores.append(_accuracy(found.shuffled[layer], fields, layer, "shuffled_labels", dict(common)))
        if found.random_encoder is not None:
            scores.append(_accuracy(found.random_encoder[layer], fields, layer, "random_encoder", dict(common)))
    return scores


def _accuracy(reached: Accuracy, fields: Mapping[str, Any], layer: int | None, condition: str | None, details: dict[str, Any]) -> Score:
    ends: dict[str, Any] = {"value": reached.value, "n": reached.n, "low": reached.low, "high": reached.high}
    return Score(**fields, **ends, quantity="accuracy", layer=layer, condition=condition, details=details)


@dataclasses.dataclass(frozen=True, eq=False)
class ScwsTask(Task):
    """Stanford's contextual word similarity: nothing is trained, cosines are ranked against ratings.

    Attributes
    ----------
    name: of the task. items: pairs of words in their contexts.
    """

    name: str
    items: Scws

    def __post_init__(self) -> None:
        if len(self.items) < _FEWEST or np.ptp(self.items.ratings) == 0:
            got = f"{len(self.items)} item(s) rated from {self.items.ratings.min():g} to {self.items.ratings.max():g}"
            refuse(self.name, f"{_FEWEST} or more items with ratings that differ", got, "take more items")

    @property
    def texts(self) -> Mapping[str, Text]:
        """The first and the second words in their contexts."""
        first, second = self.items.corpora()
        return {"scws-first": Text(first, "word"), "scws-second": Text(second, "word")}

    def facts(self) -> dict[str, Any]:
        """Number of items, and which were left out because their words are not marked."""
        return {"test": len(self.items), "left_out": list(self.items.left_out)}

    def measure(self, given: Given) -> list[Score]:
        """Spearman's correlation of each layer, with cosines as they are and after centring."""
        fields, rows = {**given.common, "task": self.name}, np.arange(len(self.items))
        scores = []
        for representation, centred in (("cosine", False), ("centred_cosine", True)):
            for random in (False, True) if given.random is not None else (False,):
                sides = [given.layers(text, rows, random) for text in ("scws-first", "scws-second")]
                result = scws(sides[0], sides[1], self.items.ratings, centred=centred)
                condition = {"condition": "random_encoder"} if random else {}
                # encoders and layers are compared by cosines as they are
                places = set[int]() if random or centred else {0, int(np.argmax(result.spearman))}
                kept = {layer: _cosines(sides, layer) for layer in places}
                scores += self._scores(result, {**fields, **condition}, representation, kept)
        return scores

    def _scores(
        self, result: ScwsResult, fields: Mapping[str, Any], representation: str, kept: Mapping[int, list[float | None]]
    ) -> list[Score]:
        found = []
        for layer, value in enumerate(result.spearman):
            dropped = {
                "words not marked in the file": len(self.items.left_out),
                "no piece of a word in the encoder": result.not_found,
                "a zero vector": int(result.zero[layer]),
            }
            told: dict[str, Any] = {"part": "test", "representation": representation, "found": int(result.n[layer])}
            told["dropped"] = {reason: count for reason, count in dropped.items() if count}
            if layer in kept:
                told |= {"cosines": kept[layer], "ratings": self.items.ratings.tolist()}
            ends: dict[str, Any] = {"low": float(result.low[layer]), "high": float(result.high[layer]), "n": int(result.n[layer])}
            found.append(Score(**fields, **ends, quantity="spearman", value=float(value), layer=layer, details=told))
        return found


def _cosines(sides: Sequence[Sequence[Any]], layer: int) -> list[float | None]:
    """A layer's cosines, None where a word has no vector."""
    first, second = sides[0][layer], sides[1][layer]
    rows = np.flatnonzero(~missing_rows(sides[0][0], sides[1][0]))
    found: list[float | None] = [None] * len(first)
    for row, value in zip(rows.tolist(), cosines(first, second, rows=rows).tolist(), strict=True):
        found[row] = None if np.isnan(value) else value
    return found
