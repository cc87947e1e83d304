"""How alike stores of activations are, layer by layer, and whether that goes with retrieval."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.activations import Activations
from crosslens.alignment.similarity.canonical import canonical_correlations, mean_cca, pwcca, svcca
from crosslens.alignment.similarity.cka_stream import linear_cka_encoders
from crosslens.alignment.similarity.geometry import mutual_knn, procrustes_distance, rsa
from crosslens.alignment.similarity.kernels import minibatch_cka, rbf_cka, uncentred_cka
from crosslens.alignment.similarity.linear_cka import LayerCKA, linear_cka
from crosslens.errors import InputError, refuse
from crosslens.progress import Progress
from crosslens.score import Score
from crosslens.stats import pearson_interval

__all__ = ["MEASURES", "check_measures", "cka_scores", "compare_stores", "correlation_scores", "measure_layers", "read_layer"]

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
"""What layers can be compared by beside linear CKA, each with its usual settings; a quantity of :mod:`crosslens.score` each."""


def read_layer(store: Activations, number: int) -> np.ndarray:
    """A layer in float32, shape (n, d). What is stored so stays mapped from disk; half precision is widened, which loses nothing.

    Raises
    ------
    InputError: the store has no such layer.
    """
    return np.asarray(store.layer(number), np.float32)


def compare_stores(stores: Mapping[str, Activations], seed: int) -> list[Score]:
    """Linear CKA, biased and debiased, of every layer of each store with every layer of each other, and of shuffled rows.

    Widths and numbers of layers may differ. The vectors are read block by block, and all products are computed once for all pairs.

    Parameters
    ----------
    stores: name -> store; row i of all is the same item.

    Raises
    ------
    InputError: two of them do not vary, or have no layer.
    """
    layers = {name: [store.layer(number) for number in store.layer_numbers] for name, store in stores.items()}
    scores = []
    for pair, found in linear_cka_encoders(layers, intervals=True).items():
        x, y = (stores[name] for name in pair)
        common = _fields(stores, pair, seed)
        scores += cka_scores(found, x.layer_numbers, y.layer_numbers, common)
        scores += _shuffled(x, y, common, seed)
    return scores


def _fields(stores: Mapping[str, Activations], pair: tuple[str, str], seed: int) -> dict[str, Any]:
    """What all scores of a pair of stores have in common."""
    encoder = " / ".join(dict.fromkeys(stores[name].encoder for name in pair))
    return {"task": "similarity", "n": stores[pair[0]].n, "source": pair[0], "target": pair[1], "encoder": encoder, "seed": seed}


def cka_scores(found: LayerCKA, rows: Sequence[int], columns: Sequence[int], common: Mapping[str, Any]) -> list[Score]:
    """Biased and debiased CKA of every pair of layers as scores, the debiased with intervals where there are any.

    Parameters
    ----------
    rows, columns: the numbers of the layers of the two sides.
    common: everything else that the scores say, the number of items among it.
    """
    scores = []
    for quantity, values in (("linear_cka", found.biased), ("debiased_linear_cka", found.debiased)):
        for i, j in np.ndindex(values.shape):
            place: dict[str, Any] = {"layer": rows[i], "other_layer": columns[j]}
            if quantity == "debiased_linear_cka" and np.isfinite(found.debiased_low[i, j]):
                place |= {"low": float(found.debiased_low[i, j]), "high": float(found.debiased_high[i, j])}
            scores.append(Score(**common, quantity=quantity, value=float(values[i, j]), **place))
    return scores


def _shuffled(x: Activations, y: Activations, common: Mapping[str, Any], seed: int) -> list[Score]:
    """Biased CKA of the same layers with the rows of one side shuffled: what no relation looks like with so many items."""
    both = [number for number in x.layer_numbers if number in y.layer_numbers]
    order, scores = np.random.default_rng([seed, 0x5AFF]).permutation(y.n), []
    with Progress(len(both), "shuffling", "layers") as progress:
        for layer in both:
            value = linear_cka(read_layer(x, layer), read_layer(y, layer)[order])
            place: dict[str, Any] = {"layer": layer, "other_layer": layer, "condition": "shuffled_items"}
            scores.append(Score(**common, quantity="linear_cka", value=value, **place))
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


def measure_layers(stores: Mapping[str, Activations], names: Sequence[str], seed: int) -> list[Score]:
    """Other measures of the same layer of every two stores, and of the same with the rows of one shuffled.

    Parameters
    ----------
    names: of :data:`MEASURES`.

    Raises
    ------
    InputError: an unknown measure, two stores without a layer in common, or what the measure refuses (too few items for canonical
        correlations, say).
    """
    check_measures(names)
    pairs = list(itertools.combinations(stores, 2))
    for first, second in pairs if names else []:
        numbers = [stores[name].layer_numbers for name in (first, second)]
        if not {*numbers[0]} & {*numbers[1]}:
            got = f"{numbers[0]} of {first} and {numbers[1]} of {second}"
            refuse("stores", "a layer that both have, for other measures", got, "extract the same layers of both")
    scores = []
    with Progress(len(pairs) * len(names), "measuring", "measures") as progress:
        for pair, name in itertools.product(pairs, names):
            x, y = (stores[side] for side in pair)
            order, common = np.random.default_rng([seed, 0x5AFF]).permutation(y.n), _fields(stores, pair, seed)
            for layer in (number for number in x.layer_numbers if number in y.layer_numbers):
                left, right = read_layer(x, layer), read_layer(y, layer)
                place: dict[str, Any] = {"quantity": name, "layer": layer, "other_layer": layer}
                for condition, rows in ((None, right), ("shuffled_items", right[order])):
                    try:
                        value, details = _measured(name, left, rows)
                    except InputError as error:
                        raise _named(error, name, layer, pair) from None
                    scores.append(Score(**common, **place, condition=condition, value=value, details=details))
            progress.add(1, name)
    return scores


def _measured(name: str, left: np.ndarray, right: np.ndarray) -> tuple[float, dict[str, Any] | None]:
    """A measure's value; of canonical correlations also how many directions of either side they are of."""
    if name not in ("mean_cca", "svcca", "pwcca"):
        return MEASURES[name](left, right), None
    found = canonical_correlations(left, right, variance=0.99 if name == "svcca" else 1)
    return found.weighted if name == "pwcca" else found.mean, {"rank_x": found.rank_x, "rank_y": found.rank_y}


def _named(error: InputError, name: str, layer: int, pair: tuple[str, str]) -> InputError:
    """What a measure refuses, said of the stores."""
    who, _, told = str(error).partition(": ")
    side = {"x": f", {pair[0]}", "y": f", {pair[1]}"}.get(who, f", {who}")
    return InputError(f"{name} of layer {layer}{side}: {told}, or do without {name}")


def correlation_scores(x: Activations, y: Activations, retrieval: Sequence[Score], common: Mapping[str, Any]) -> list[Score]:
    """Pearson's correlation over layers of debiased linear CKA with sentence retrieval (Conneau et al. 2020, § 5.3).

    Retrieval is P@1 on held-out sentences, the mean of both directions, once unaligned and once after Procrustes. There is no
    interval: the layers of one encoder are not independent, and any that takes them to be is too narrow. With fewer than four
    layers, or where one of the two is the same in all of them, the value is NaN, and ``details["reason"]`` says why.

    Parameters
    ----------
    retrieval: what :func:`crosslens.run.measures.retrieval_scores` gave for the same stores.
    """
    similarity: dict[int, float] = {}
    with Progress(len(x.layer_numbers), "comparing", "layers") as progress:
        for layer in x.layer_numbers:
            similarity[layer] = linear_cka(read_layer(x, layer), read_layer(y, layer), debiased=True)
            progress.add(1)
    found: dict[str, dict[int, list[float]]] = {}
    for score in retrieval:
        if score.layer in similarity and (score.details or {}).get("part") == "held_out":
            found.setdefault(str(score.condition), {}).setdefault(score.layer, []).append(score.value)
    scores = []
    for condition, by_layer in found.items():
        layers = sorted(by_layer)
        told: dict[str, Any] = {"source": x.language, "target": y.language, "condition": condition, "task": "similarity_and_retrieval"}
        told["details"] = {"of": "debiased_linear_cka and precision_at_1 over layers", "items": x.n}
        curves = np.array([[similarity[layer], np.mean(by_layer[layer])] for layer in layers])
        value = math.nan
        try:
            value = pearson_interval(*curves.T)[0]
        except InputError as error:  # too few layers, or a curve that is flat: there is no correlation, and that is told
            told["details"]["reason"] = str(error).partition(": ")[2]
        scores.append(Score(**common, **told, quantity="pearson", value=value, n=len(layers)))
    return scores
