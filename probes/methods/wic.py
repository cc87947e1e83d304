"""Word-in-Context: does a layer tell whether a word means the same in two sentences?

The paper trains "a linear classifier on the fixed representation of the sentence pair" and leaves
open which that is. The choices, by name:

    pair_cls             the vector of both sentences read as one input: that of [CLS], say
    concatenation        the target's two vectors u and v side by side
    difference           |u - v|
    product              u * v, number by number
    concatenation+difference+product   all of these side by side
    cosine_threshold     no classifier: "same" where cos(u, v) reaches a threshold, the best one for
                         the training items

The linear classifier's penalty is chosen on a part of the training items that is held out for it,
and the classifier is then trained on
all of them: development and test items are only ever scored.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from crosslens.checks import as_array, check_fraction, check_labels, check_seed
from crosslens.errors import check_choice, refuse
from crosslens.one_line import one_line
from crosslens.probes.methods.controls import (
    Accuracy,
    check_classes,
    majority_accuracy,
    shuffled_labels,
)
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.refit import LayerProbes
from crosslens.probes.methods.rows import TakenRows, is_layer
from crosslens.probes.methods.scws import cosines, missing_rows
from crosslens.probes.methods.splits import stratified_parts

__all__ = ["REPRESENTATIONS", "WicPart", "WicResult", "WicVectors", "best_threshold", "wic"]

_PARTS_OF = {
    "concatenation": ("u", "v"),
    "difference": ("|u - v|",),
    "product": ("u * v",),
    "concatenation+difference+product": ("u", "v", "|u - v|", "u * v"),
}
REPRESENTATIONS = ("pair_cls", *_PARTS_OF, "cosine_threshold")
"""Names of what a sentence pair may be represented by."""

_PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


@dataclasses.dataclass(frozen=True, eq=False)
class WicVectors:
    """The vectors of one part's items, and their answers.

    Attributes
    ----------
    same: shape (n,), whether the target means the same in both sentences.
    pair: L layers of shape (n, d), or an array (L, n, d): the vector of the sentence pair; for
        "pair_cls".
    first, second: the same of the target's vector in the first and in the second sentence; for all
        others.
    groups: shape (n,), which items stand and fall together, those of one word say, for intervals;
        None where items are independent.
    """

    same: ArrayLike
    pair: Any = None
    first: Any = None
    second: Any = None
    groups: ArrayLike | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class WicPart:
    """How well the items of one part are answered, and what that is to be compared with.

    Attributes
    ----------
    accuracy: per layer, with its 95 % interval.
    majority: of always giving the answer that is most frequent in training; 0.5 in the published
        data.
    shuffled: per layer, of the same probe trained on shuffled answers.
    random_encoder: per layer, of the same probe on vectors of an encoder with random weights, where
        they were given.
    correct: shape (L, n), whether each item is answered correctly, for paired tests.
    shuffled_correct, random_correct: the same of the two controls.
    same: shape (n,), the answers that are right.
    items: shape (n,), the items' rows in the arrays that were given.
    left_out: items in which the encoder has no vector for a target (a row of NaN, as extraction
        marks words without subwords).
    """

    accuracy: tuple[Accuracy, ...]
    majority: Accuracy
    shuffled: tuple[Accuracy, ...]
    random_encoder: tuple[Accuracy, ...] | None
    correct: Bool[np.ndarray, "L n"]
    shuffled_correct: Bool[np.ndarray, "L n"]
    random_correct: Bool[np.ndarray, "L n"] | None
    same: Bool[np.ndarray, " n"]
    items: Int[np.ndarray, " n"]
    left_out: int


@dataclasses.dataclass(frozen=True, eq=False)
class WicResult:
    """The probe of one representation.

    Attributes
    ----------
    representation: its name.
    parts: name of a part, "dev" say -> its accuracies; all parts but "train".
    chosen: shape (L,), each layer's penalty (C of the classifier), or its threshold.
    left_out: training items without a vector for a target.
    """

    representation: str
    parts: dict[str, WicPart]
    chosen: Float[np.ndarray, " L"]
    left_out: int

    __repr__ = one_line


def wic(
    parts: Mapping[str, WicVectors],
    representation: str = "pair_cls",
    *,
    random_encoder: Mapping[str, WicVectors] | None = None,
    penalties: Sequence[float] = _PENALTIES,
    held_out: float = 0.2,
    seed: int = 0,
) -> WicResult:
    """Train on the part "train", and answer the items of every other part, layer by layer.

    Parameters
    ----------
    parts: "train" and at least one more, "dev" and "test" say.
    representation: one of :data:`REPRESENTATIONS`.
    random_encoder: the same parts as vectors of an encoder of this shape whose weights are random:
        what tokens alone tell.
    penalties: values of C to choose from, the inverse strength of the L2 penalty; see
        :class:`crosslens.probes.methods.linear.layer_probe.LayerProbe`.
    held_out: share of the training items on which the penalty is chosen; not used for a threshold
        or a single penalty.
    seed: of the held-out items and the control's shuffled answers.

    Raises
    ------
    InputError: no part "train" or no other; an unknown representation; vectors that it needs are
        missing, do not fit, or are not finite; a random encoder's of other items; answers that are
        not one per row, or all the same in training.

    References
    ----------
    Pilehvar & Camacho-Collados 2019 (data, and the cosine threshold as a baseline); Artetxe et al.
    2020, appendix D (a linear classifier on the pair's representation; 59.1 % of the development
    items for their English encoder).

    >>> rng = np.random.default_rng(0)
    >>> def part(n):
    ...     u, noise, same = rng.normal(size=(n, 8)), rng.normal(size=(n, 8)), np.arange(n) % 2 == 0
    ...     return WicVectors(same, first=[u], second=[np.where(same[:, None], u + 0.1 * noise, noise)])
    >>> result = wic({"train": part(200), "dev": part(100)}, "cosine_threshold")
    >>> result.parts["dev"].accuracy[0].value > 0.95 > result.parts["dev"].majority.value
    True
    """
    seed, held_out = check_seed(seed), check_fraction(held_out, "held_out")
    check_choice(representation, "representation", REPRESENTATIONS)
    there = _check_parts(parts, representation, "parts")
    train, others = there["train"], [name for name in parts if name != "train"]
    if len(np.unique(train.same)) < 2:
        got = f"{bool(train.same[0])} for all {len(train.same)} training items"
        expected = "at least two classes, True and False"
        refuse("parts['train'].same", expected, got, "give items of both kinds")
    settings = (representation, tuple(penalties), held_out, seed)
    answers, chosen = _answers(there, train.same, settings)
    shuffled, _ = _answers(there, shuffled_labels(train.same, seed), settings)
    random = None
    if random_encoder is not None:
        if random_encoder.keys() != parts.keys():
            expected = f"the splits {', '.join(parts)}"
            refuse("random_encoder", expected, ", ".join(random_encoder), "encode the same splits")
        random_parts = _check_parts(random_encoder, representation, "random_encoder")
        for name, part in random_parts.items():
            if not np.array_equal(part.items, there[name].items):
                expected = f"vectors of the same {len(there[name].items)} items, as in parts"
                remedy = "extract the same items from both encoders"
                got = f"{len(part.items)} items"
                refuse(f"random_encoder['{name}']", expected, got, remedy)
        random_answers, _ = _answers(random_parts, random_parts["train"].same, settings)
        random = {name: random_answers[name] == random_parts[name].same for name in others}
    scored = {
        name: WicPart(
            accuracy=_accuracies(answers[name] == there[name].same, there[name].groups),
            majority=majority_accuracy(train.same, there[name].same, there[name].groups),
            shuffled=_accuracies(shuffled[name] == there[name].same, there[name].groups),
            random_encoder=None
            if random is None
            else _accuracies(random[name], there[name].groups),
            correct=answers[name] == there[name].same,
            shuffled_correct=shuffled[name] == there[name].same,
            random_correct=None if random is None else random[name],
            same=there[name].same,
            items=there[name].items,
            left_out=there[name].left_out,
        )
        for name in others
    }
    return WicResult(representation, scored, chosen, train.left_out)


def _accuracies(
    correct: Bool[np.ndarray, "L n"], groups: np.ndarray | None
) -> tuple[Accuracy, ...]:
    return tuple(Accuracy.of(layer, groups) for layer in correct)


@dataclasses.dataclass(frozen=True, eq=False)
class _Part:
    """A part's layers of features (or its cosines, shape (L, n)) and answers, without items that
    have no vector."""

    layers: Sequence[Any]
    same: Bool[np.ndarray, " n"]
    items: Int[np.ndarray, " n"]
    left_out: int
    groups: np.ndarray | None


class _Features:
    """The features of u and v, made block by block when they are read."""

    def __init__(self, u: Any, v: Any, names: Sequence[str]) -> None:
        self._u, self._v, self._names = u, v, names
        self.shape = (len(u), np.shape(u)[1] * len(names))
        self.ndim = 2
        self.dtype = np.dtype(np.float64 if u.dtype == v.dtype == np.float64 else np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        u, v = (
            np.asarray(side[rows]).astype(self.dtype, copy=False) for side in (self._u, self._v)
        )
        made = {
            "u": lambda: u,
            "v": lambda: v,
            "|u - v|": lambda: np.abs(u - v),
            "u * v": lambda: u * v,
        }
        return np.concatenate([made[name]() for name in self._names], axis=1)


def _check_parts(
    parts: Mapping[str, WicVectors], representation: str, name: str
) -> dict[str, _Part]:
    if "train" not in parts or len(parts) < 2:
        expected = 'a split "train" and another to score'
        refuse(name, expected, ", ".join(parts) or "none", "give the splits by their names")
    return {
        key: _part(vectors, representation, f"{name}['{key}']") for key, vectors in parts.items()
    }


def _part(vectors: WicVectors, representation: str, name: str) -> _Part:
    needed = ("pair",) if representation == "pair_cls" else ("first", "second")
    sides = [_layers(getattr(vectors, side), f"{name}.{side}") for side in needed]
    shapes = {layer.shape for side in sides for layer in side}
    if len(shapes) > 1 or len({len(side) for side in sides}) > 1:
        got = ", ".join(
            f"{len(side)} layers of shapes {sorted({layer.shape for layer in side})}"
            for side in sides
        )
        expected = "as many layers of one shape on each side"
        refuse(f"{name}.{', '.join(needed)}", expected, got, "encode all items with one encoder")
    n = len(sides[0][0])
    same = check_classes(vectors.same, f"{name}.same", n)
    if same.dtype != bool:
        remedy = "give whether the word means the same"
        refuse(f"{name}.same", "True or False for each item", f"values of {same.dtype}", remedy)
    kept = np.flatnonzero(~missing_rows(*(side[0] for side in sides)))
    if not len(kept):
        refuse(name, "items with a vector", f"none of {n}", "look at what was extracted")
    groups = (
        None if vectors.groups is None else check_labels(vectors.groups, f"{name}.groups", n)[kept]
    )
    if representation == "pair_cls":
        layers = sides[0]
    elif representation == "cosine_threshold":
        rows = [
            cosines(u, v, rows=kept, name=f"{name}, layer {i}")
            for i, (u, v) in enumerate(zip(*sides, strict=True))
        ]
        return _Part(_check_cosines(rows, name), same[kept], kept, n - len(kept), groups)
    else:
        layers = [_Features(u, v, _PARTS_OF[representation]) for u, v in zip(*sides, strict=True)]
    return _Part(
        [TakenRows(layer, kept) for layer in layers], same[kept], kept, n - len(kept), groups
    )


def _layers(layers: Any, name: str) -> list[Any]:
    if layers is None or not len(layers):
        refuse(name, "at least one layer", "none", "this representation needs these vectors")
    arrays = [layer if is_layer(layer) else as_array(layer, name) for layer in layers]
    for number, array in enumerate(arrays):
        if not is_layer(array) or min(array.shape) < 1:
            got = f"an array of {array.dtype} of shape {array.shape}"
            expected = "a matrix of numbers of shape (n, d)"
            refuse(f"{name}[{number}]", expected, got, "one row per item")
    return arrays


def _check_cosines(rows: list[np.ndarray], name: str) -> list[np.ndarray]:
    for number, values in enumerate(rows):
        if np.isnan(values).any():
            got = f"one in {int(np.isnan(values).sum())} item(s) of layer {number}"
            remedy = "a zero vector has no cosine: leave these items out"
            refuse(name, "vectors that are not zero", got, remedy)
    return rows


def _answers(
    parts: Mapping[str, _Part],
    same: np.ndarray,
    settings: tuple[str, tuple[float, ...], float, int],
) -> tuple[dict[str, Any], Any]:
    """Answers (L, n) for every part but the training part, and what was chosen for each layer;
    ``same`` is what to train on."""
    representation, penalties, held_out, seed = settings
    train = parts["train"].layers
    others = {name: part.layers for name, part in parts.items() if name != "train"}
    for name, layers in others.items():
        if len(layers) != len(train) or np.shape(layers[0])[1:] != np.shape(train[0])[1:]:
            got = f"{len(layers)} layers of {np.shape(layers[0])[1:]} columns"
            expected = f"{len(train)} layers of {np.shape(train[0])[1:]} columns, as train"
            refuse(name, expected, got, "encode all splits alike")
    if representation == "cosine_threshold":
        chosen = np.array([best_threshold(values, same) for values in train])
        return {
            name: np.stack(layers) >= chosen[:, None] for name, layers in others.items()
        }, chosen
    chosen = np.full(len(train), penalties[0] if penalties else np.nan)
    if len(penalties) != 1:
        drawn = stratified_parts(same, (1 - held_out, 0.0, held_out), seed)
        fitted, held = (
            [TakenRows(layer, rows) for layer in train] for rows in (drawn.train, drawn.test)
        )
        chosen = (
            LayerProbe(penalties=penalties)
            .fit(fitted, same[drawn.train], held, same[drawn.test])
            .C_
        )
    probes = LayerProbes(chosen).fit(train, same)
    return {name: probes.predict(layers) for name, layers in others.items()}, chosen


def best_threshold(values: ArrayLike, same: ArrayLike) -> float:
    """The threshold t for which "same where value >= t" is right for the most items.

    Candidates are the lowest value, the middles between neighbouring values, and infinity; of
    equally good ones the lowest is taken.

    Parameters
    ----------
    values: shape (n,), finite. same: shape (n,), True or False.

    Raises
    ------
    InputError: no items, or not one answer per value.

    >>> best_threshold([0.1, 0.4, 0.6, 0.9], [False, False, True, True])
    0.5
    """
    numbers, answers = np.asarray(values, np.float64), np.asarray(same)
    if (
        numbers.ndim != 1
        or numbers.shape != answers.shape
        or not len(numbers)
        or answers.dtype != bool
    ):
        got = f"{answers.dtype} of shape {answers.shape} for values of shape {numbers.shape}"
        expected = "True or False for each value, and at least one"
        refuse("same", expected, got, "give one answer per value")
    levels, place = np.unique(numbers, return_inverse=True)
    right = np.bincount(place[answers], minlength=len(levels))
    wrong = np.bincount(place[~answers], minlength=len(levels))
    # at candidate i, items of the levels below i are answered "different", and all others "same"
    hits = np.r_[0, np.cumsum(wrong)] + np.r_[np.cumsum(right[::-1])[::-1], 0]
    middles = (levels[:-1] + levels[1:]) / 2
    # of two neighbouring floats the middle is one of the two, and may be the lower
    candidates = np.r_[levels[0], np.where(middles > levels[:-1], middles, levels[1:]), np.inf]
    return float(candidates[hits.argmax()])
