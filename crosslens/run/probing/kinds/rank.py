"""Pairs of words in context that people have rated: nothing is trained, cosines are ranked against
the ratings."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.probes.methods.scws import ScwsResult, cosines, missing_rows, scws
from crosslens.readers.scws import Scws
from crosslens.run.probing.items import Measured, TestItems
from crosslens.run.probing.kinds.task import Given, Task, Text
from crosslens.score import Score

__all__ = ["ScwsTask"]

_FEWEST = 5  # items; below this no correlation says anything


@dataclasses.dataclass(frozen=True, eq=False)
class ScwsTask(Task):
    """Stanford's contextual word similarity: nothing is trained, cosines are ranked against
    ratings.

    Attributes
    ----------
    name: of the task. items: pairs of words in their contexts.
    """

    name: str
    items: Scws

    def __post_init__(self) -> None:
        if len(self.items) < _FEWEST or np.ptp(self.items.ratings) == 0:
            got = (
                f"{len(self.items)} item(s) rated from {self.items.ratings.min():g} to "
                f"{self.items.ratings.max():g}"
            )
            expected = f"{_FEWEST} or more items with ratings that differ"
            refuse(self.name, expected, got, "take more items")

    @property
    def texts(self) -> Mapping[str, Text]:
        """The first and the second words in their contexts."""
        first, second = self.items.corpora()
        return {
            f"{self.name}-first": Text(first, "word"),
            f"{self.name}-second": Text(second, "word"),
        }

    def facts(self) -> dict[str, Any]:
        """Number of items, and which were left out because their words are not marked."""
        return {"test": len(self.items), "left_out": list(self.items.left_out)}

    def measure(self, given: Given) -> Measured:
        """Spearman's correlation of each layer, with cosines as they are and after centring."""
        fields = {**given.common, "task": self.name, "target": self.items.language}
        rows = np.arange(len(self.items))
        scores, outcomes, items = [], [], self._test_items()
        for representation, centred in (("cosine", False), ("centred_cosine", True)):
            for random in (False, True) if given.random is not None else (False,):
                sides = [given.layers(text, rows, random) for text in self.texts]
                result = scws(sides[0], sides[1], self.items.ratings, centred=centred)
                place = {**fields, "condition": "random_encoder" if random else None}
                scores += self._scores(result, place, representation)
                place |= {"representation": representation, "part": "test", "quantity": "spearman"}
                outcomes += [
                    items.outcomes(_cosines(sides, layer, centred), **place, layer=layer)
                    for layer in range(len(sides[0]))
                ]
        return Measured(scores, outcomes)

    def _test_items(self) -> TestItems:
        """Pairs of words in their contexts, with their ratings."""
        ratings = self.items.ratings.tolist()
        told = [
            (*one.contexts, *one.spans, rating)
            for one, rating in zip(self.items.items, ratings, strict=True)
        ]
        items = TestItems.of(told, [""] * len(told), [repr(rating) for rating in ratings])
        return dataclasses.replace(items, groups=items.ids)  # each for itself

    def _scores(
        self, result: ScwsResult, fields: Mapping[str, Any], representation: str
    ) -> list[Score]:
        found = []
        for layer, value in enumerate(result.spearman):
            dropped = {
                "words not marked in the file": len(self.items.left_out),
                "no subword of a word in the encoder": result.not_found,
                "a zero vector": int(result.zero[layer]),
            }
            told: dict[str, Any] = {
                "part": "test",
                "representation": representation,
                "found": int(result.n[layer]),
            }
            told["dropped"] = {reason: count for reason, count in dropped.items() if count}
            ends: dict[str, Any] = {
                "low": float(result.low[layer]),
                "high": float(result.high[layer]),
                "n": int(result.n[layer]),
            }
            found.append(
                Score(
                    **fields,
                    **ends,
                    quantity="spearman",
                    value=float(value),
                    layer=layer,
                    details=told,
                )
            )
        return found


def _cosines(sides: Sequence[Sequence[Any]], layer: int, centred: bool) -> np.ndarray:
    """A layer's cosines, NaN where a word has no vector."""
    first, second = sides[0][layer], sides[1][layer]
    rows = np.flatnonzero(~missing_rows(sides[0][0], sides[1][0]))
    found = np.full(len(first), np.nan)
    found[rows] = cosines(first, second, centred=centred, rows=rows)
    return found
