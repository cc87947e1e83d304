"""How alike activation datasets are, layer by layer, and whether that goes with retrieval."""

import contextlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from crosslens.activations import Activations
from crosslens.alignment.similarity.canonical import canonical_correlations, mean_cca, pwcca, svcca
from crosslens.alignment.similarity.cka_stream import linear_cka_encoders
from crosslens.alignment.similarity.geometry import mutual_knn, procrustes_distance, rsa
from crosslens.alignment.similarity.kernels import minibatch_cka, rbf_cka, uncentred_cka
from crosslens.alignment.similarity.linear_cka import LayerCKA, linear_cka
from crosslens.errors import InputError, refuse
from crosslens.progress import Progress
from crosslens.run.collapse import collapse_reason, reason_of
from crosslens.score import Score
from crosslens.stats import pearson_interval

__all__ = [
    "MEASURES",
    "check_measures",
    "cka_scores",
    "cka_without_lost",
    "compare_stores",
    "correlation_scores",
    "measure_layers",
    "read_layer",
]

Computed = TypeVar("Computed")

MEASURES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "uncentred_cka": uncentred_cka,
    "rbf_cka": rbf_cka,
    "minibatch_cka": minibatch_cka,
    "mean_cca": mean_cca,
    "svcca": svcca,
    "pwcca": pwcca,
    "rsa": rsa,
    "procrustes_distance": procrustes_distance,
    "mutual_knn": mutual_knn,
}
"""What layers can be compared by beside linear CKA, each with its usual settings; a quantity of
:mod:`crosslens.score` each."""


def read_layer(store: Activations, number: int) -> np.ndarray:
    """A layer in float32, shape (n, d). What is stored so stays mapped from disk; half precision is
    widened, which loses nothing.

    Raises
    ------
    InputError: the activation dataset has no such layer.
    """
    return np.asarray(store.layer(number), np.float32)


def compare_stores(stores: Mapping[str, Activations], seed: int) -> list[Score]:
    """Linear CKA, biased and debiased, of every layer of each activation dataset with every layer
    of each other, and of shuffled rows.

    Widths and numbers of layers may differ. The vectors are read block by block, and all products
    are computed once for all pairs.

    Parameters
    ----------
    stores: name -> activation dataset; row i of all is the same item.

    Raises
    ------
    InputError: two of them have different items, or no layer. A layer that cannot be measured has
        NaN, and the reason in the details.
    """

    def compute(kept: Mapping[str, Sequence[int]]) -> dict[tuple[str, str], LayerCKA]:
        layers = {
            name: [stores[name].layer(number) for number in numbers]
            for name, numbers in kept.items()
        }
        return linear_cka_encoders(layers, intervals=True)

    found, lost = cka_without_lost(stores, compute)
    scores = []
    for pair in itertools.combinations(stores, 2):
        x, y = (stores[name] for name in pair)
        common, without = _fields(stores, pair, seed), (lost[pair[0]], lost[pair[1]])
        scores += cka_scores(
            (found or {}).get(pair), x.layer_numbers, y.layer_numbers, common, without
        )
        scores += _shuffled(x, y, common, seed, without)
    return scores


def cka_without_lost(
    stores: Mapping[str, Activations], compute: Callable[[dict[str, list[int]]], Computed]
) -> tuple[Computed | None, dict[str, dict[int, str]]]:
    """CKA of all layers that it can be computed of, and name -> layer -> why not, of the others.

    Parameters
    ----------
    compute: from name -> numbers of its layers, at least one and of at least two names, to what is
        wanted.

    Returns
    -------
    what was computed, None where fewer than two activation datasets have a layer left; and the
    layers that are lost.

    Raises
    ------
    InputError: what ``compute`` refuses, and no single layer is the cause of.
    """
    lost: dict[str, dict[int, str]] = {}
    for name, store in stores.items():
        reasons = {number: collapse_reason([store], number) for number in store.layer_numbers}
        lost[name] = {number: reason for number, reason in reasons.items() if reason}
    while True:
        kept = {
            name: [number for number in store.layer_numbers if number not in lost[name]]
            for name, store in stores.items()
        }
        kept = {name: numbers for name, numbers in kept.items() if numbers}
        if len(kept) < 2:
            return None, lost
        try:
            return compute(kept), lost
        except InputError:
            refused = {
                (name, n): _refused(stores[name], n)
                for name, numbers in kept.items()
                for n in numbers
            }
            for (name, number), reason in refused.items():
                if reason:
                    lost[name][number] = reason
            if not any(refused.values()):
                raise


def _refused(store: Activations, number: int) -> str:
    """Why a layer has no CKA with itself; empty where it has."""
    try:
        layer = read_layer(store, number)
        linear_cka(layer, layer, debiased=True)
    except InputError as error:
        return f"{store.language}: {reason_of(error)}"
    return ""


def _fields(stores: Mapping[str, Activations], pair: tuple[str, str], seed: int) -> dict[str, Any]:
    """What all scores of a pair of activation datasets have in common."""
    encoder = " / ".join(dict.fromkeys(stores[name].encoder for name in pair))
    return {
        "task": "similarity",
        "n": stores[pair[0]].n,
        "source": pair[0],
        "target": pair[1],
        "encoder": encoder,
        "seed": seed,
    }


def cka_scores(
    found: LayerCKA | None,
    rows: Sequence[int],
    columns: Sequence[int],
    common: Mapping[str, Any],
    lost: tuple[Mapping[int, str], Mapping[int, str]] = ({}, {}),
) -> list[Score]:
    """Biased and debiased CKA of every pair of layers as scores, the debiased with intervals where
    there are any.

    Parameters
    ----------
    found: of the layers that are not lost; None where either side has none.
    rows, columns: the numbers of the layers of the two sides.
    common: everything else that the scores say, the number of items among it.
    lost: of either side, layer -> why it could not be measured; these values are NaN.
    """
    kept = [
        [number for number in numbers if number not in without]
        for numbers, without in zip((rows, columns), lost, strict=True)
    ]
    places = [{number: at for at, number in enumerate(numbers)} for numbers in kept]
    scores = []
    for quantity in ("linear_cka", "debiased_linear_cka"):
        for row, column in itertools.product(rows, columns):
            place: dict[str, Any] = {"layer": row, "other_layer": column}
            if found is None or row in lost[0] or column in lost[1]:
                reasons = dict.fromkeys(
                    reason for reason in (lost[0].get(row), lost[1].get(column)) if reason
                )
                told = {
                    "reason": "; ".join(reasons)
                    or "the other side has no layer that can be measured"
                }
                scores.append(
                    Score(**common, **place, quantity=quantity, value=math.nan, details=told)
                )
                continue
            at = places[0][row], places[1][column]
            if quantity == "debiased_linear_cka" and np.isfinite(found.debiased_low[at]):
                place |= {
                    "low": float(found.debiased_low[at]),
                    "high": float(found.debiased_high[at]),
                }
            values = found.biased if quantity == "linear_cka" else found.debiased
            scores.append(Score(**common, quantity=quantity, value=float(values[at]), **place))
    return scores


def _shuffled(
    x: Activations,
    y: Activations,
    common: Mapping[str, Any],
    seed: int,
    lost: tuple[Mapping[int, str], Mapping[int, str]],
) -> list[Score]:
    """Biased CKA of the same layers with the rows of one side shuffled: what no relation looks like
    with so many items."""
    both = [number for number in x.layer_numbers if number in y.layer_numbers]
    order, scores = np.random.default_rng([seed, 0x5AFF]).permutation(y.n), []
    with Progress(len(both), "shuffling", "layers") as progress:
        for layer in both:
            place: dict[str, Any] = {
                "layer": layer,
                "other_layer": layer,
                "condition": "shuffled_items",
            }
            reason = lost[0].get(layer) or lost[1].get(layer)
            value = (
                math.nan
                if reason
                else linear_cka(read_layer(x, layer), read_layer(y, layer)[order])
            )
            scores.append(
                Score(
                    **common,
                    quantity="linear_cka",
                    value=value,
                    **place,
                    details={"reason": reason} if reason else None,
                )
            )
            progress.add(1)
    return scores


def check_measures(names: Sequence[str]) -> None:
    """Refuse measures that do not exist.

    Raises
    ------
    InputError: a name that is not in :data:`MEASURES`.
    """
    wrong = [name for name in names if name not in MEASURES]
    if wrong:
        refuse("also", f"some of {', '.join(MEASURES)}", ", ".join(wrong), "choose among them")


def measure_layers(
    stores: Mapping[str, Activations], names: Sequence[str], seed: int
) -> list[Score]:
    """Other measures of the same layer of every two activation datasets, and of the same with the
    rows of one shuffled.

    Parameters
    ----------
    names: of :data:`MEASURES`.

    Raises
    ------
    InputError: an unknown measure, two activation datasets without a layer in common, or what the
        measure refuses at every layer (too few items for canonical correlations, say). What it
        refuses at some layers is NaN there, with the reason in the details.
    """
    check_measures(names)
    pairs = list(itertools.combinations(stores, 2))
    for first, second in pairs if names else []:
        numbers = [stores[name].layer_numbers for name in (first, second)]
        if not {*numbers[0]} & {*numbers[1]}:
            got = f"{numbers[0]} of {first} and {numbers[1]} of {second}"
            expected = "a layer that both have, for other measures"
            refuse("stores", expected, got, "extract the same layers of both")
    scores, refused = [], dict[tuple[tuple[str, str], str], InputError]()
    with Progress(len(pairs) * len(names), "measuring", "measures") as progress:
        for pair, name in itertools.product(pairs, names):
            x, y = (stores[side] for side in pair)
            order = np.random.default_rng([seed, 0x5AFF]).permutation(y.n)
            common = _fields(stores, pair, seed)
            for layer in (number for number in x.layer_numbers if number in y.layer_numbers):
                place: dict[str, Any] = {"quantity": name, "layer": layer, "other_layer": layer}
                reason = ""  # of rows as they stand, whose numbers it may have
                for condition, rows in ((None, None), ("shuffled_items", order)):
                    try:
                        value, details = _measured(name, x, y, layer, rows)
                    except InputError as error:
                        refused.setdefault((pair, name), _named(error, name, layer, pair))
                        reason = reason or _reason(error, pair)
                        value, details = math.nan, {"reason": reason}
                    scores.append(
                        Score(**common, **place, condition=condition, value=value, details=details)
                    )
            progress.add(1, name)
    for (pair, name), refusal in refused.items():
        if all(
            math.isnan(score.value)
            for score in scores
            if (score.source, score.target, score.quantity) == (*pair, name)
        ):
            raise refusal
    return scores


def _measured(
    name: str, x: Activations, y: Activations, layer: int, order: np.ndarray | None
) -> tuple[float, dict[str, Any] | None]:
    """A measure's value, the rows of y in another order if one is given; of canonical correlations
    also how many directions of either side they are of.

    Raises
    ------
    InputError: the vectors of a side are all alike, or the measure refuses them.
    """
    if alike := collapse_reason((x, y), layer):
        raise InputError(alike)
    left, right = read_layer(x, layer), read_layer(y, layer)
    right = right if order is None else right[order]
    if name not in ("mean_cca", "svcca", "pwcca"):
        return MEASURES[name](left, right), None
    found = canonical_correlations(left, right, variance=0.99 if name == "svcca" else 1)
    return found.weighted if name == "pwcca" else found.mean, {
        "rank_x": found.rank_x,
        "rank_y": found.rank_y,
    }


def _named(error: InputError, name: str, layer: int, pair: tuple[str, str]) -> InputError:
    """What a measure refuses, said of the stores."""
    who, colon, told = str(error).partition(": ")
    if not colon:  # of vectors that are all alike
        return InputError(
            f"{name} of layer {layer}: {error}; use other layers, or do without {name}"
        )
    side = {"x": f", {pair[0]}", "y": f", {pair[1]}"}.get(who, f", {who}")
    return InputError(f"{name} of layer {layer}{side}: {told}, or do without {name}")


def _reason(error: InputError, pair: tuple[str, str]) -> str:
    """Why a measure has no value, with the sides by name."""
    who, colon, told = reason_of(error).partition(": ")
    return f"{dict(zip('xy', pair, strict=True)).get(who, who)}{colon}{told}"


def correlation_scores(
    x: Activations, y: Activations, retrieval: Sequence[Score], common: Mapping[str, Any]
) -> list[Score]:
    """Pearson's correlation over layers of debiased linear CKA with sentence retrieval (Conneau et
    al. 2020, § 5.3).

    Retrieval is P@1 on held-out sentences, the mean of both directions, once unaligned and once
    after Procrustes. There is no interval: the layers of one encoder are not independent, and any
    that takes them to be is too narrow. With fewer than four layers that could be measured, or
    where one of the two is the same in all of them, the value is NaN, and ``details["reason"]``
    says why.

    Parameters
    ----------
    retrieval: what :func:`crosslens.run.measures.retrieval_scores` gave for the same stores.
    """
    similarity: dict[int, float] = {}
    with Progress(len(x.layer_numbers), "comparing", "layers") as progress:
        for layer in x.layer_numbers:
            if not collapse_reason((x, y), layer):
                # a layer that cannot be measured is no point of the curve
                with contextlib.suppress(InputError):
                    similarity[layer] = linear_cka(
                        read_layer(x, layer), read_layer(y, layer), debiased=True
                    )
            progress.add(1)
    found: dict[str, dict[int, list[float]]] = {}
    for score in retrieval:
        if (
            score.layer in similarity
            and not math.isnan(score.value)
            and (score.details or {}).get("part") == "held_out"
        ):
            found.setdefault(str(score.condition), {}).setdefault(score.layer, []).append(
                score.value
            )
    scores = []
    for condition, by_layer in found.items():
        layers = sorted(by_layer)
        told: dict[str, Any] = {
            "source": x.language,
            "target": y.language,
            "condition": condition,
            "task": "similarity_and_retrieval",
        }
        told["details"] = {"of": "debiased_linear_cka and precision_at_1 over layers", "items": x.n}
        curves = np.array([[similarity[layer], np.mean(by_layer[layer])] for layer in layers])
        value = math.nan
        try:
            value = pearson_interval(*curves.T)[0]
        # too few layers, or a curve that is flat: there is no correlation, and that is told
        except InputError as error:
            told["details"]["reason"] = str(error).partition(": ")[2]
        scores.append(Score(**common, **told, quantity="pearson", value=value, n=len(layers)))
    return scores
