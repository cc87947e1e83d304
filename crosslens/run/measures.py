"""Stored activations to scores: what the rooms compute, put together and told with its controls.

Every function takes open activation datasets whose row i is the same sentence, and returns
:class:`crosslens.score.Score` rows. A split is sampled once per study: the same
sentences train every mapping and probe, and the same are held out.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.activations import Activations
from crosslens.alignment import Procrustes, linear_cka_layers, retrieval_both_directions
from crosslens.alignment.neighbours.csls import By, neighbours_both
from crosslens.alignment.neighbours.retrieval import RetrievalResult, result_of
from crosslens.alignment.similarity.linear_cka import LayerCKA
from crosslens.errors import InputError, refuse
from crosslens.hits import kept_hits
from crosslens.probes import language_id
from crosslens.progress import Progress
from crosslens.run.collapse import collapse_reason, is_collapsed, reason_of
from crosslens.run.repeats import groups_of, repeated, store_groups, tested_too
from crosslens.run.similarities import cka_scores, cka_without_lost, read_layer
from crosslens.score import Score
from crosslens.stats import cluster_sums, share_interval

__all__ = [
    "Fitted",
    "Split",
    "fitted_elsewhere",
    "language_id_scores",
    "make_split",
    "retrieval_scores",
    "similarity_scores",
    "told_apart",
]

_NEIGHBOURS = 10  # of CSLS and of margins, as published
_OF_LANGUAGE_ID = (None, "majority", "shuffled_labels")  # conditions of an encoder's own layers
_FEWEST = 20  # sentences; below this no interval says anything


@dataclasses.dataclass(frozen=True)
class Split:
    """Rows for fitting and rows that are held out, both sorted; and the group of every row, where
    some say the same."""

    train: np.ndarray
    held_out: np.ndarray
    groups: np.ndarray | None = None

    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Two masks of the training rows, by turns; rows that say the same are in one."""
        groups = self.train if self.groups is None else self.groups[self.train]
        _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
        even = np.argsort(np.argsort(first))[codes] % 2 == 0
        return even, ~even

    def groups_in(self, part: str) -> np.ndarray | None:
        """The group of each row of a part ("all", "held_out", or "train" in the order in which its
        halves are judged); None where no two of its rows say the same."""
        if self.groups is None:
            return None
        rows = {"all": np.arange(len(self.groups)), "held_out": self.held_out}.get(part)
        if rows is None:
            rows = np.concatenate([self.train[half] for half in self.halves()[::-1]])
        groups = self.groups[rows]
        return groups if len(np.unique(groups)) < len(groups) else None


def make_split(n: int, train_fraction: float, seed: int, groups: np.ndarray | None = None) -> Split:
    """Divide n sentences at random.

    Parameters
    ----------
    groups: shape (n,), which of them say the same (:mod:`crosslens.run.repeats`): these stay on one
        side. Where no two do, the split is the one without groups.

    Raises
    ------
    InputError: fewer than 20 sentences, or fewer than 10 different ones in one part.

    >>> split = make_split(20, 0.5, seed=0)
    >>> len(split.train), len(split.held_out)
    (10, 10)
    """
    if n < _FEWEST:
        refuse("texts", f"at least {_FEWEST} sentences", str(n), "give more text")
    count = round(n * train_fraction)
    if min(count, n - count) < _FEWEST // 2:
        got = f"{count} and {n - count}"
        remedy = "choose it nearer to 0.5"
        refuse("train_fraction", f"at least {_FEWEST // 2} sentences on either side", got, remedy)
    codes = np.arange(n) if groups is None else groups_of([groups])
    order = np.random.default_rng([seed, 0x5917]).permutation(codes.max() + 1)
    sizes = np.cumsum(np.bincount(codes)[order])
    taken = np.isin(codes, order[: int(np.abs(sizes - count).argmin()) + 1])
    different = [len(np.unique(codes[side])) for side in (taken, ~taken)]
    if min(different) < _FEWEST // 2:
        expected = f"at least {_FEWEST // 2} different sentences on either side, equal ones on one"
        got = f"{different[0]} and {different[1]}, in {n}"
        refuse("texts", expected, got, "give more different sentences")
    return Split(
        np.flatnonzero(taken), np.flatnonzero(~taken), None if repeated(codes) == 0 else codes
    )


@dataclasses.dataclass(frozen=True)
class Fitted:
    """Sentences of another corpus, to learn a rotation from: two sides whose row i is the same
    sentence, and the rows that are used."""

    sides: tuple[Activations, Activations]
    rows: np.ndarray

    def layer(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """These rows of a layer, on both sides."""
        one, other = (read_layer(side, number)[self.rows] for side in self.sides)
        return one, other


def fitted_elsewhere(
    learnt: tuple[Activations, Activations], judged: tuple[Activations, Activations]
) -> tuple[Fitted, Split]:
    """A rotation's sentences from one corpus, and all sentences of another to judge it by.

    Sentences to learn from that are judged by as well, in either language, are left out.

    Raises
    ------
    InputError: fewer than 20 sentences to learn from, or fewer than 20 different ones to judge by.
    """
    rows, groups = np.flatnonzero(~tested_too(learnt, judged)), store_groups(judged)
    if (different := len(np.unique(groups))) < _FEWEST:
        expected = f"at least {_FEWEST} different sentences"
        refuse("texts", expected, str(different), "give more text")
    if len(rows) < _FEWEST:
        got = f"{len(rows)} that are not judged by"
        refuse("fit", f"at least {_FEWEST} sentences", got, "learn from another corpus")
    split = Split(np.arange(0), np.arange(len(groups)), groups if repeated(groups) else None)
    return Fitted(learnt, rows), split


def retrieval_scores(
    x: Activations,
    y: Activations,
    split: Split,
    common: Mapping[str, Any],
    control: str | None = None,
    *,
    hits: bool = False,
    by: By = "cosine",
    on_train: bool = False,
    fitted: Fitted | None = None,
) -> list[Score]:
    """Sentence retrieval per layer, in both directions, before and after orthogonal Procrustes.

    Before: by the cosine, or what else ``by`` says, on the vectors as they are, over all sentences
    and over the held-out ones. After: rows brought to unit length, centred with the means of the
    training part and rotated by the map fitted there; scored on the held-out part only.

    Parameters
    ----------
    control: "random_encoder" when the activations are of a re-initialised encoder.
    by: what sentences are compared by (:mod:`crosslens.alignment.neighbours.csls`); hubs are taken
        into account among the sentences that compete.
    on_train: also the same on the training part alone, within each half of it, by the rotation of
        the other half, to choose a layer by; of the part "train" in the details. No held-out
        sentence takes part.
    fitted: the sentences that the rotation is fitted on, where these are another corpus; the
        training part of ``split`` is not looked at then.
    hits: keep the outcome of each held-out sentence in the details, for
        :func:`crosslens.run.comparison.compare_with_controls`.

    Where sentences say the same, the interval is over groups of these
    (:func:`crosslens.stats.share_interval`), whose number is in the details; else it is Wilson's.

    A layer that cannot be measured, all of whose vectors are alike, say, has NaN for its values,
    and the reason in the details.
    """
    scores = []
    fields = {**common, "task": "sentence_retrieval", "quantity": "precision_at_1"}
    parts = ("all", "held_out", *(("train",) if on_train else ()))
    groups_in = {part: split.groups_in(part) for part in parts}
    for layer in _shown(_common_layers(x, y), f"retrieval {x.language}-{y.language}"):
        places = _places(control, split, on_train, None if fitted is None else len(fitted.rows))
        reason = collapse_reason((x, y, *(fitted.sides if fitted else ())), layer)
        try:
            found = (
                None
                if reason
                else _outcomes(
                    read_layer(x, layer),
                    read_layer(y, layer),
                    split,
                    by,
                    on_train,
                    None if fitted is None else fitted.layer(layer),
                )
            )
        except InputError as error:  # rows of zeros, say
            found, reason = None, reason_of(error)
        nothing: list[tuple[RetrievalResult | None, RetrievalResult | None]] = [(None, None)] * len(
            places
        )
        for place, results in zip(places, found or nothing, strict=True):
            for (source, target), result in zip(((x, y), (y, x)), results, strict=True):
                told: dict[str, Any] = {"by": by} if by != "cosine" else {}
                if place.fitted_on is not None:
                    told["dimensions"] = x.d
                groups = groups_in[place.part]
                if result is None:
                    told["reason"] = reason
                elif hits and place.part == "held_out":
                    told |= kept_hits(result.correct, groups)
                where = {
                    **fields,
                    "layer": layer,
                    "source": source.language,
                    "target": target.language,
                }
                scores.append(_retrieval_score(result, place, where, told, groups))
    return scores


@dataclasses.dataclass(frozen=True)
class _Place:
    """A condition, which and how many sentences it is measured on, how many of them compete, and
    how many pairs it has learnt from."""

    condition: str
    part: str
    n: int
    competing: int
    fitted_on: int | None = None


def _places(
    control: str | None, split: Split, on_train: bool, elsewhere: int | None
) -> list[_Place]:
    """In the order of :func:`_outcomes`; ``elsewhere`` sentences of another corpus are fitted on."""
    learnt, held = len(split.train), len(split.held_out)
    before, after = control or "unaligned", f"{control}_procrustes" if control else "procrustes"
    places = [
        _Place(before, "all", learnt + held, learnt + held),
        _Place(before, "held_out", held, held),
        _Place(after, "held_out", held, held, learnt if elsewhere is None else elsewhere),
    ]
    within = [
        _Place(before, "train", learnt, learnt // 2),
        _Place(after, "train", learnt, learnt // 2, learnt // 2),
    ]
    return places + within if on_train else places


def _outcomes(
    a: np.ndarray,
    b: np.ndarray,
    split: Split,
    by: By,
    on_train: bool,
    elsewhere: tuple[np.ndarray, np.ndarray] | None,
) -> list[tuple[RetrievalResult, RetrievalResult]]:
    held, train = (a[split.held_out], b[split.held_out]), (a[split.train], b[split.train])
    found = [
        _both_directions(a, b, by),
        _both_directions(*held, by),
        _both_directions(*_turned(elsewhere or train, held), by),
    ]
    return found + _on_train(*train, split.halves(), by) if on_train else found


def _turned(
    train: tuple[np.ndarray, np.ndarray], held: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Both sides in the space of the second, by a rotation learnt from the training part, as seen
    from that part's mean."""
    mapping = Procrustes(normalise=True).fit(*train)
    target = held[1] / np.linalg.norm(held[1], axis=1, keepdims=True) - mapping.mean_y_
    return mapping.transform(held[0]) - mapping.mean_y_, target


def _on_train(
    a: np.ndarray, b: np.ndarray, halves: tuple[np.ndarray, np.ndarray], by: By
) -> list[tuple[RetrievalResult, RetrievalResult]]:
    """Retrieval within each half of the training part, as the rows are and by the rotation of the
    other half."""
    sides = [
        ((a[learnt], b[learnt]), (a[judged], b[judged]))
        for learnt, judged in (halves, halves[::-1])
    ]
    before = [_both_directions(*judged, by) for _, judged in sides]
    after = [_both_directions(*_turned(learnt, judged), by) for learnt, judged in sides]
    return [(_joined(found, 0), _joined(found, 1)) for found in (before, after)]


def _joined(halves: Sequence[tuple[RetrievalResult, RetrievalResult]], way: int) -> RetrievalResult:
    return result_of(np.concatenate([half[way].correct for half in halves]))


def _both_directions(
    x: np.ndarray, y: np.ndarray, by: By
) -> tuple[RetrievalResult, RetrievalResult]:
    if by == "cosine":
        return retrieval_both_directions(x, y)
    own = np.arange(len(x))
    there, back = neighbours_both(x, y, by=by, neighbourhood=min(_NEIGHBOURS, len(x)))
    return result_of(there.indices[:, 0] == own), result_of(back.indices[:, 0] == own)


def _retrieval_score(
    result: RetrievalResult | None,
    place: _Place,
    fields: Mapping[str, Any],
    told: Mapping[str, Any],
    groups: np.ndarray | None,
) -> Score:
    """A score with what it was measured on, and of which groups of sentences; NaN without a result."""
    details: dict[str, Any] = {"part": place.part, "chance": 1 / place.competing}
    if place.fitted_on is not None:
        details["fitted_on"] = place.fitted_on
    details |= told
    low, high = (None, None) if result is None else result.interval
    if result is not None and groups is not None:
        found, of = cluster_sums(result.correct, groups)
        details["groups"] = len(of)
        low, high = share_interval(found, of)[1:]
    value = math.nan if result is None else result.precision
    return Score(
        **fields,
        value=value,
        n=place.n,
        low=low,
        high=high,
        condition=place.condition,
        details=details,
    )


def similarity_scores(
    x: Activations,
    y: Activations,
    common: Mapping[str, Any],
    *,
    control: str | None = None,
    seed: int = 0,
) -> list[Score]:
    """Linear CKA, biased and debiased.

    Without a control: every pair of layers, and same-layer values of shuffled rows (what no
    relation looks like). With ``control="random_encoder"``: same-layer values only. Layers that
    cannot be measured have NaN, and the reason in the details.
    """
    fields: dict[str, Any] = {
        **common,
        "task": "similarity",
        "n": x.n,
        "source": x.language,
        "target": y.language,
    }
    both = [number for number in x.layer_numbers if number in y.layer_numbers]
    order = np.random.default_rng([seed, 0x5AFF]).permutation(y.n)
    if control:
        return [
            score
            for layer in both
            for score in _cka_pair(x, y, layer, None, {**fields, "condition": control})
        ]

    def compute(kept: Mapping[str, Sequence[int]]) -> LayerCKA:
        return linear_cka_layers(
            *(
                [read_layer(store, number) for number in kept[name]]
                for name, store in (("x", x), ("y", y))
            )
        )

    found, lost = cka_without_lost({"x": x, "y": y}, compute)
    scores = cka_scores(found, x.layer_numbers, y.layer_numbers, fields, (lost["x"], lost["y"]))
    for layer in both:
        scores += _cka_pair(x, y, layer, order, {**fields, "condition": "shuffled_items"})
    return scores


def _cka_pair(
    x: Activations, y: Activations, layer: int, order: np.ndarray | None, fields: Mapping[str, Any]
) -> list[Score]:
    """A control's values at one layer, with their intervals; with ``order``, of the rows of y in
    another order."""
    reason, found = collapse_reason((x, y), layer), None
    try:
        if not reason:
            rows = read_layer(y, layer)
            found = linear_cka_layers(
                [read_layer(x, layer)], [rows if order is None else rows[order]]
            )
    except InputError as error:
        reason = reason_of(error)
    lost = {layer: reason} if reason else {}
    return cka_scores(found, [layer], [layer], fields, (lost, lost))


def told_apart(stores: Sequence[Activations]) -> bool:
    """Whether the encoder was told the language of each text, by an embedding or by modules of the
    language's own.

    To find the language in the vectors then says nothing.
    """
    told = (
        {store.manifest["settings"].get(name) for store in stores}
        for name in ("language_embedding", "language_modules")
    )
    return any(len(names) > 1 for names in told)


def language_id_scores(
    stores: Sequence[Activations],
    split: Split,
    common: Mapping[str, Any],
    control: str | None = None,
) -> list[Score]:
    """A linear language-identification probe per layer on sentence vectors, with majority class and
    shuffled labels.

    Sentences are divided by what they say, not by language: no translation of a held-out sentence
    is trained on. A sentence with its translations is one unit of the intervals. Layers that cannot
    be measured have NaN, and the reason in the details.
    """
    scores = []
    numbers = [
        number
        for number in stores[0].layer_numbers
        if all(number in store.layer_numbers for store in stores)
    ]
    if not numbers:
        got = " and ".join(str(store.layer_numbers) for store in stores)
        refuse("stores", "a layer that all of them have", got, "extract the same layers of all")
    together = split.held_out if split.groups is None else split.groups[split.held_out]
    for layer in _shown(numbers, "language identification"):
        arrays = {store.language: read_layer(store, layer) for store in stores}
        details = {
            "languages": list(arrays),
            "n_train": len(split.train) * len(arrays),
            "groups": len(np.unique(together)),
        }
        fields = {
            **common,
            "task": "language_id",
            "layer": layer,
            "quantity": "accuracy",
            "n": len(split.held_out) * len(arrays),
        }
        same, result = is_collapsed([store.layer(layer) for store in stores]), None
        reason = (
            "; ".join(f"all vectors of {language} are alike" for language in arrays) if same else ""
        )
        try:
            if not same:
                result = language_id(
                    {language: array[split.train] for language, array in arrays.items()},
                    {language: array[split.held_out] for language, array in arrays.items()},
                    seed=common["seed"],
                    groups=together,
                )
        except InputError as error:
            reason = reason_of(error)
        if result is None:
            lost = {**details, "reason": reason}
            scores += [
                Score(**fields, value=math.nan, condition=c, details=lost)
                for c in ((control,) if control else _OF_LANGUAGE_ID)
            ]
            continue
        low, high = result.interval
        per_language = {language: round(f1, 4) for language, f1 in result.f1.items()}
        told = {**details, "f1": per_language}
        scores.append(
            Score(
                **fields, value=result.accuracy, low=low, high=high, condition=control, details=told
            )
        )
        if control is None:
            for condition, beside in zip(
                _OF_LANGUAGE_ID[1:], (result.majority, result.shuffled), strict=True
            ):
                ends: dict[str, Any] = {
                    "value": beside.value,
                    "low": beside.low,
                    "high": beside.high,
                }
                scores.append(Score(**fields, **ends, condition=condition, details=details))
    return scores


def _shown(layers: Sequence[int], label: str) -> Iterator[int]:
    """The layers, with progress where they take long."""
    with Progress(len(layers), label, "layers") as progress:
        for layer in layers:
            yield layer
            progress.add(1)


def _common_layers(x: Activations, y: Activations) -> list[int]:
    if (x.layers, x.d) != (y.layers, y.d):
        got = f"{x.layers} layers of {x.d} and {y.layers} layers of {y.d}"
        expected = "the same number of layers and the same width on both sides"
        refuse("encoders", expected, got, "compare encoders of one shape")
    if x.layer_numbers != y.layer_numbers:
        got = f"{x.layer_numbers} and {y.layer_numbers}"
        refuse("encoders", "the same layers on both sides", got, "extract the same layers of both")
    return x.layer_numbers
