"""A word in two contexts: does it mean the same? Every representation of the pair, at every
layer."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.outcomes import Outcomes
from crosslens.probes.methods.controls import Accuracy
from crosslens.probes.methods.splits import Parts
from crosslens.probes.methods.wic import REPRESENTATIONS, WicPart, WicVectors, wic
from crosslens.readers.wic import Wic
from crosslens.run.kinds.task import Given, Task, Text
from crosslens.run.probe_items import Measured, Shared, TestItems, shared_texts, text_names
from crosslens.run.probe_scores import without_shared
from crosslens.run.probe_splits import normal_texts
from crosslens.score import Score

__all__ = ["WicTask"]

_FEWEST = 5  # items of each answer; below this nothing can be held out


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
            refuse(
                self.name,
                f"{_FEWEST} or more training items of each answer",
                f"{counts[1]} T and {counts[0]} F",
                "take more items",
            )

    @property
    def texts(self) -> Mapping[str, Text]:
        """Targets in the first and in the second sentences, and the pairs."""
        first, second = self.items.corpora()
        named = {
            "first": Text(first, "word"),
            "second": Text(second, "word"),
            "pairs": Text(first, "pair", second),
        }
        return {f"{self.name}-{side}": text for side, text in named.items()}

    def facts(self) -> dict[str, Any]:
        """Sizes of the parts."""
        return {
            "train": len(self.parts.train),
            "dev": len(self.parts.dev),
            "test": len(self.parts.test),
            "drawn": self.parts.drawn,
        }

    def measure(self, given: Given) -> Measured:
        """Accuracy on dev and test of each representation and layer, with its controls."""
        parts = self._vectors(given, random=False)
        random = self._vectors(given, random=True) if given.random is not None else None
        seed, pairs = (
            int(given.common["seed"]),
            given.stores[f"{self.name}-pairs"].manifest.get("truncated", 0),
        )
        results = {
            name: wic(parts, name, random_encoder=random, seed=seed) for name in REPRESENTATIONS
        }
        fields = {
            **given.common,
            "task": self.name,
            "source": self.items.language,
            "target": self.items.language,
        }
        shared = self._shared()
        scores, outcomes = [], []
        for name, result in results.items():
            for part, found in result.parts.items():
                common = {
                    "part": part,
                    "representation": name,
                    "n_train": len(self.parts.train) - result.left_out,
                    "classes": 2,
                }
                if found.left_out:
                    common["dropped"] = {"no subword of a target in the encoder": found.left_out}
                if name == "pair_cls" and pairs:
                    common["truncated"] = pairs
                common |= shared.details()
                groups = np.array(self._groups(getattr(self.parts, part)))[found.items]
                left_out = shared.of(found.items) if part == "test" else None
                scores += _wic_scores(found, fields, common, result.chosen, groups, left_out)
            outcomes += self._outcomes(result.parts["test"], {**fields, "representation": name})
        return Measured(scores, outcomes)

    def has_seed(self, given: Given) -> bool:
        """The seed of the training items on which the penalty is chosen."""
        return True

    def _outcomes(self, found: WicPart, fields: Mapping[str, Any]) -> list[Outcomes]:
        """What came of each test item; items of one word are of one group."""
        some = [self.items.items[row] for row in self.parts.test]
        told = [(*one.sentences, *one.spans, bool(one.same)) for one in some]
        items = TestItems.of(
            told, self._groups(self.parts.test), ["FT"[bool(one.same)] for one in some], found.items
        )
        place: dict[str, Any] = {**fields, "part": "test", "quantity": "accuracy"}
        measured = {
            None: found.correct,
            "shuffled_labels": found.shuffled_correct,
            "random_encoder": found.random_correct,
        }
        return [
            items.outcomes(
                right.astype(np.float64),
                np.where(right == found.same, "T", "F"),
                **place,
                condition=condition,
                layer=layer,
            )
            for condition, correct in measured.items()
            for layer, right in enumerate(() if correct is None else correct)
        ]

    def _shared(self) -> Shared:
        """Test items of which training has the two sentences with these targets, too."""
        items = [(*normal_texts(one.sentences), *one.spans) for one in self.items.items]
        return shared_texts(
            text_names([repr(one) for one in items]), self.items.labels.astype(str), self.parts
        )

    def _groups(self, rows: np.ndarray) -> list[str]:
        return [f"{self.items.items[row].word} {self.items.items[row].pos}" for row in rows]

    def _vectors(self, given: Given, *, random: bool) -> dict[str, WicVectors]:
        """The vectors and answers of each part; items of one word are of one group."""
        found, texts = {}, [f"{self.name}-{side}" for side in ("pairs", "first", "second")]
        for part, rows in (
            ("train", self.parts.train),
            ("dev", self.parts.dev),
            ("test", self.parts.test),
        ):
            pair, first, second = (given.layers(text, rows, random) for text in texts)
            found[part] = WicVectors(
                self.items.labels[rows], pair, first, second, self._groups(rows)
            )
        return found


def _wic_scores(
    found: WicPart,
    fields: Mapping[str, Any],
    common: Mapping[str, Any],
    chosen: np.ndarray,
    groups: np.ndarray,
    shared: Shared | None,
) -> list[Score]:
    """The rows of one representation on one part; of test also without the items that training has,
    too."""

    def without(correct: np.ndarray) -> dict[str, Any]:
        return {**common, **({} if shared is None else without_shared(correct, groups, shared))}

    what = "threshold" if common["representation"] == "cosine_threshold" else "penalty"
    majority = {key: value for key, value in common.items() if key == "part"}
    scores = (
        [_accuracy(found.majority, fields, None, "majority", majority)]
        if common["representation"] == REPRESENTATIONS[0]
        else []
    )
    for layer, reached in enumerate(found.accuracy):
        value = float(chosen[layer])
        told = {**without(found.correct[layer]), what: value if np.isfinite(value) else None}
        scores.append(_accuracy(reached, fields, layer, None, told))
        scores.append(
            _accuracy(
                found.shuffled[layer],
                fields,
                layer,
                "shuffled_labels",
                without(found.shuffled_correct[layer]),
            )
        )
        if found.random_encoder is not None and found.random_correct is not None:
            told = without(found.random_correct[layer])
            scores.append(
                _accuracy(found.random_encoder[layer], fields, layer, "random_encoder", told)
            )
    return scores


def _accuracy(
    reached: Accuracy,
    fields: Mapping[str, Any],
    layer: int | None,
    condition: str | None,
    details: dict[str, Any],
) -> Score:
    ends: dict[str, Any] = {
        "value": reached.value,
        "n": reached.n,
        "low": reached.low,
        "high": reached.high,
    }
    return Score(
        **fields, **ends, quantity="accuracy", layer=layer, condition=condition, details=details
    )
