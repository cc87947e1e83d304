"""A word in two contexts: does it mean the same? Every representation of the pair, at every
layer."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.outcomes import Outcomes
from crosslens.probes.methods.controls import Accuracy
from crosslens.probes.methods.splits import Parts
from crosslens.probes.methods.wic import REPRESENTATIONS, WicPart, WicVectors, wic
from crosslens.readers.wic import Wic, WicItem
from crosslens.run.probing.items import Measured, Shared, TestItems, shared_texts
from crosslens.run.probing.kinds.task import Given, Task, Text
from crosslens.run.probing.scores import without_shared
from crosslens.run.probing.splits import PARTS, ranges
from crosslens.run.repeats import normal_texts, text_names
from crosslens.score import Score

__all__ = ["WicTask"]

_FEWEST = 5  # items of each answer; below this nothing can be held out


@dataclasses.dataclass(frozen=True, eq=False)
class WicTask(Task):
    """Word-in-Context, with every representation of a pair.

    Attributes
    ----------
    name: of the task. items: all parts one behind the other; parts: which are which.
    tested: test items of other languages.
    """

    name: str
    items: Wic
    parts: Parts
    tested: tuple[Wic, ...] = ()

    def __post_init__(self) -> None:
        counts = np.bincount(self.items.labels[self.parts.train], minlength=2)
        if counts.min() < _FEWEST:
            expected = f"{_FEWEST} or more training items of each answer"
            refuse(self.name, expected, f"{counts[1]} T and {counts[0]} F", "take more items")

    @property
    def texts(self) -> Mapping[str, Text]:
        """Targets in the first and in the second sentences, and the pairs, of each language."""
        found = {}
        for name, items in self._languages().items():
            first, second = items.corpora()
            found[f"{name}-first"] = Text(first, "word")
            found[f"{name}-second"] = Text(second, "word")
            found[f"{name}-pairs"] = Text(first, "pair", second)
        return found

    def _languages(self) -> dict[str, Wic]:
        """What the texts of each language are called -> its items."""
        return {
            self.name: self.items,
            **{f"{self.name}-{one.language}": one for one in self.tested},
        }

    def facts(self) -> dict[str, Any]:
        """Sizes of the parts."""
        others = {one.language: len(one) for one in self.tested}
        return {
            **self.parts.sizes,
            "drawn": self.parts.drawn,
            **({"test_in": others} if others else {}),
        }

    def measure(self, given: Given) -> Measured:
        """Accuracy on dev and test of each representation and layer, with its controls; of other
        languages on test."""
        parts = self._vectors(given, random=False)
        random = self._vectors(given, random=True) if given.random is not None else None
        results = {
            name: wic(parts, name, random_encoder=random, seed=int(given.common["seed"]))
            for name in REPRESENTATIONS
        }
        fields = {**given.common, "task": self.name, "source": self.items.language}
        tests = {self.name: "test"} | {
            name: name for name in self._languages() if name != self.name
        }
        shared = {part: self._shared(part) for part in tests.values()}
        scores, outcomes = [], []
        for name, result in results.items():
            told = {
                "representation": name,
                "n_train": len(self.parts.train) - result.left_out,
                "classes": 2,
            }
            for text, part in (*[(self.name, "dev")], *tests.items()):
                found, items = result.parts[part], self._items(part)
                place = {**fields, "target": self._languages()[text].language}
                common = {"part": "dev" if part == "dev" else "test", **told}
                if found.left_out:
                    common["dropped"] = {"no subword of a target in the encoder": found.left_out}
                cut = given.stores[f"{text}-pairs"].manifest.get("truncated", 0)
                if name == "pair_cls" and cut:
                    common["truncated"] = cut
                common |= shared["test" if part == "dev" else part].details()
                groups = np.array(_groups(items))[found.items]
                left_out = None if part == "dev" else shared[part].of(found.items)
                scores += _wic_scores(found, place, common, result.chosen, groups, left_out)
                if part != "dev":
                    outcomes += _outcomes(found, items, {**place, "representation": name})
        return Measured(scores, outcomes)

    def has_seed(self, given: Given) -> bool:
        """The seed of the training items on which the penalty is chosen."""
        return True

    def _items(self, part: str) -> Sequence[WicItem]:
        """The items of a part, or all of another language, which is called as its texts are."""
        if part in PARTS:
            return [self.items.items[row] for row in getattr(self.parts, part)]
        return self._languages()[part].items

    def _shared(self, part: str) -> Shared:
        """Test items of which training has the two sentences with these targets, too."""
        tested = self._items(part)
        some = [*self._items("train"), *self._items("dev"), *tested]
        items = [repr((*normal_texts(one.sentences), *one.spans)) for one in some]
        rows = ranges([len(self.parts.train), len(self.parts.dev), len(tested)])
        answers = np.array([str(bool(one.same)) for one in some])
        where = Parts(rows["train"], rows["test"], rows["dev"])
        found = shared_texts(text_names(items), answers, where)
        if part in PARTS:
            return found
        # what dev and train share is said once
        return dataclasses.replace(found, counts=dataclasses.replace(found.counts, dev_train=0))

    def _vectors(self, given: Given, *, random: bool) -> dict[str, WicVectors]:
        """The vectors and answers of each part, and of each other language; items of one word are
        of one group."""
        places = [(part, self.name, getattr(self.parts, part)) for part in PARTS]
        places += [
            (name, name, np.arange(len(items)))
            for name, items in self._languages().items()
            if name != self.name
        ]
        found = {}
        for part, text, rows in places:
            pair, first, second = (
                given.layers(f"{text}-{side}", rows, random)
                for side in ("pairs", "first", "second")
            )
            same = self._languages()[text].labels[rows]
            found[part] = WicVectors(same, pair, first, second, _groups(self._items(part)))
        return found


def _groups(items: Sequence[WicItem]) -> list[str]:
    """The items of one word are of one group."""
    return [f"{item.word} {item.pos}" for item in items]


def _outcomes(found: WicPart, some: Sequence[WicItem], fields: Mapping[str, Any]) -> list[Outcomes]:
    """What came of each test item."""
    told = [(*one.sentences, *one.spans, bool(one.same)) for one in some]
    answers = ["FT"[bool(one.same)] for one in some]
    items = TestItems.of(told, _groups(some), answers, found.items)
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
