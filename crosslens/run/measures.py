"""Stored activations to scores: what the rooms compute, put together and told with its controls.

Every function takes open stores whose row i is the same sentence, and returns
:class:`crosslens.score.Score` rows. A split is drawn once per study: the same
sentences train every mapping and probe, and the same are held out.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.activations import Activations
from crosslens.alignment import Procrustes, linear_cka_layers, retrieval_both_directions
from crosslens.alignment.neighbours.csls import By, neighbours_both
from crosslens.alignment.neighbours.retrieval import RetrievalResult, result_of
from crosslens.errors import InputError, refuse
from crosslens.probes import language_id
from crosslens.progress import Progress
from crosslens.run.similarities import cka_scores, read_layer
from crosslens.score import Score

__all__ = ["Split", "language_id_scores", "make_split", "retrieval_scores", "similarity_scores"]

_NEIGHBOURS = 10  # of CSLS and of margins, as published
_FEWEST = 20  # sentences; below this no interval says anything


@dataclasses.dataclass(frozen=True)
class Split:
    """Rows for fitting and rows that are held out, both sorted."""

    train: np.ndarray
    held_out: np.ndarray


def make_split(n: int, train_fraction: float, seed: int) -> Split:
    """Divide n sentences at random.

    Raises
    ------
    InputError: fewer than 20 sentences, or fewer than 10 in one part.

    >>> split = make_split(20, 0.5, seed=0)
    >>> len(split.train), len(split.held_out)
    (10, 10)
    """
    if n < _FEWEST:
        refuse("texts", f"at least {_FEWEST} sentences", str(n), "give more text")
    count = round(n * train_fraction)
    if min(count, n - count) < _FEWEST // 2:
        refuse("train_fraction", f"at least {_FEWEST // 2} sentences on either side", f"{count} and {n - count}", "choose it nearer to 0.5")
    order = np.random.default_rng([seed, 0x5917]).permutation(n)
    return Split(np.sort(order[:count]), np.sort(order[count:]))


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
) -> list[Score]:
    """Sentence retrieval per layer, in both directions, before and after orthogonal Procrustes.

    Before: by the cosine, or what else ``by`` says, on the vectors as they are, over all sentences and over the held-out ones. After:
    rows brought to unit length, centred with the means of the training part and rotated by the map fitted there; scored on the
    held-out part only.

    Parameters
    ----------
    control: "random_encoder" when the activations are of a re-initialised encoder.
    by: what sentences are compared by (:mod:`crosslens.alignment.neighbours.csls`); hubs are taken into account among the sentences that compete.
    on_train: also the same on the training part alone, within each half of it, by the rotation of the other half, to choose a layer by;
        of the part "train" in the details. No held-out sentence takes part.
    hits: keep the outcome of each held-out sentence in the details, for :func:`crosslens.run.comparison.compare_with_controls`.
    """
    scores = []
    fields = {**common, "task": "sentence_retrieval", "quantity": "precision_at_1"}
    for layer in _shown(_common_layers(x, y), f"retrieval {x.language}-{y.language}"):
        a, b = read_layer(x, layer), read_layer(y, layer)
        held = a[split.held_out], b[split.held_out]
        train = a[split.train], b[split.train]
        turned = f"{control}_procrustes" if control else "procrustes"
        try:
            outcomes = [
                (control or "unaligned", "all", _both_directions(a, b, by)),
                (control or "unaligned", "held_out", _both_directions(*held, by)),
                (turned, "held_out", _both_directions(*_turned(train, held), by)),
            ]
            if on_train:
                before, after = _on_train(*train, by)
                outcomes += [(control or "unaligned", "train", before), (turned, "train", after)]
        except InputError as error:  # a layer at which all rows are equal, say
            raise InputError(f"layer {layer} of {x.language} (X) and {y.language} (Y): {error}") from error
        for condition, part, results in outcomes:
            for (source, target_), result in zip(((x, y), (y, x)), results, strict=True):
                score = _retrieval_score(result, fields, layer, source.language, target_.language, condition, part, len(split.train))
                if by != "cosine" and score.details is not None:
                    score.details["by"] = by
                if hits and part == "held_out" and score.details is not None:
                    score.details["hits"] = "".join("1" if hit else "0" for hit in result.correct)
                scores.append(score)
    return scores


def _turned(train: tuple[np.ndarray, np.ndarray], held: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Both sides in the space of the second, by a rotation learnt from the training part, as seen from that part's mean."""
    mapping = Procrustes(normalise=True).fit(*train)
    target = held[1] / np.linalg.norm(held[1], axis=1, keepdims=True) - mapping.mean_y_
    return mapping.transform(held[0]) - mapping.mean_y_, target


def _on_train(a: np.ndarray, b: np.ndarray, by: By) -> list[tuple[RetrievalResult, RetrievalResult]]:
    """Retrieval within each half of the training part, as the rows are and by the rotation of the other half."""
    halves = np.arange(len(a)) % 2 == 0, np.arange(len(a)) % 2 == 1
    sides = [((a[learnt], b[learnt]), (a[judged], b[judged])) for learnt, judged in (halves, halves[::-1])]
    before = [_both_directions(*judged, by) for _, judged in sides]
    after = [_both_directions(*_turned(learnt, judged), by) for learnt, judged in sides]
    return [(_joined(found, 0), _joined(found, 1)) for found in (before, after)]


def _joined(halves: Sequence[tuple[RetrievalResult, RetrievalResult]], way: int) -> RetrievalResult:
    return result_of(np.concatenate([half[way].correct for half in halves]))


def _both_directions(x: np.ndarray, y: np.ndarray, by: By) -> tuple[RetrievalResult, RetrievalResult]:
    if by == "cosine":
        return retrieval_both_directions(x, y)
    own = np.arange(len(x))
    there, back = neighbours_both(x, y, by=by, neighbourhood=min(_NEIGHBOURS, len(x)))
    return result_of(there.indices[:, 0] == own), result_of(back.indices[:, 0] == own)


def _retrieval_score(
    result: RetrievalResult, fields: Mapping[str, Any], layer: int, source: str, target: str, condition: str, part: str, fitted_on: int
) -> Score:
    low, high = result.interval
    competing = result.n // 2 if part == "train" else result.n  # in a half
    details: dict[str, Any] = {"part": part, "chance": 1 / competing}
    if condition.endswith("procrustes"):
        details["fitted_on"] = fitted_on // 2 if part == "train" else fitted_on
    return Score(
        **fields,
        value=result.precision,
        n=result.n,
        low=low,
        high=high,
        layer=layer,
        source=source,
        target=target,
        condition=condition,
        details=details,
    )


def similarity_scores(
    x: Activations, y: Activations, common: Mapping[str, Any], *, control: str | None = None, seed: int = 0
) -> list[Score]:
    """Linear CKA, biased and debiased.

    Without a control: every pair of layers, and same-layer values of shuffled rows (what no relation looks like).
    With ``control="random_encoder"``: same-layer values only.
    """
    fields: dict[str, Any] = {**common, "task": "similarity", "n": x.n, "source": x.language, "target": y.language}
    both = [number for number in x.layer_numbers if number in y.layer_numbers]
    if control:
        return [score for layer in both for score in _cka_pair(read_layer(x, layer), read_layer(y, layer), layer, control, fields)]
    found = linear_cka_layers(*([read_layer(store, number) for number in store.layer_numbers] for store in (x, y)))
    scores = cka_scores(found, x.layer_numbers, y.layer_numbers, fields)
    order = np.random.default_rng([seed, 0x5AFF]).permutation(y.n)
    for layer in both:
        scores += _cka_pair(read_layer(x, layer), read_layer(y, layer)[order], layer, "shuffled_items", fields)
    return scores


def _cka_pair(a: np.ndarray, b: np.ndarray, layer: int, condition: str, fields: Mapping[str, Any]) -> list[Score]:
    """A control's values at one layer, with their intervals."""
    return cka_scores(linear_cka_layers([a], [b]), [layer], [layer], {**fields, "condition": condition})


def language_id_scores(stores: Sequence[Activations], split: Split, common: Mapping[str, Any], control: str | None = None) -> list[Score]:
    """A linear language-identification probe per layer on sentence vectors, with majority class and shuffled labels.

    Sentences are divided by what they say, not by language: no translation of a held-out sentence is trained on.
    """
    scores = []
    numbers = [number for number in stores[0].layer_numbers if all(number in store.layer_numbers for store in stores)]
    if not numbers:
        got = " and ".join(str(store.layer_numbers) for store in stores)
        refuse("stores", "a layer that all of them have", got, "extract the same layers of all")
    for layer in _shown(numbers, "language identification"):
        arrays = {store.language: read_layer(store, layer) for store in stores}
        result = language_id(
            {language: array[split.train] for language, array in arrays.items()},
            {language: array[split.held_out] for language, array in arrays.items()},
            seed=common["seed"],
        )
        details = {"languages": list(arrays), "n_train": len(split.train) * len(arrays)}
        fields = {**common, "task": "language_id", "layer": layer, "n": result.n}
        low, high = result.interval
        per_language = {language: round(f1, 4) for language, f1 in result.f1.items()}
        scores.append(
            Score(
                **fields,
                quantity="accuracy",
                value=result.accuracy,
                low=low,
                high=high,
                condition=control,
                details={**details, "f1": per_language},
            )
        )
        if control is None:
            for condition, told in (("majority", result.majority), ("shuffled_labels", result.shuffled)):
                scores.append(
                    Score(
                        **fields, quantity="accuracy", value=told.value, low=told.low, high=told.high, condition=condition, details=details
                    )
                )
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
        refuse("encoders", "the same number of layers and the same width on both sides", got, "compare encoders of one shape")
    if x.layer_numbers != y.layer_numbers:
        got = f"{x.layer_numbers} and {y.layer_numbers}"
        refuse("encoders", "the same layers on both sides", got, "extract the same layers of both")
    return x.layer_numbers
