"""Which layer a study tells of, decided once for the terminal and the page."""

import dataclasses
import math
from collections.abc import Iterable, Mapping

from crosslens.score import Score

__all__ = ["Best", "best_layer", "chosen_layer"]


@dataclasses.dataclass(frozen=True)
class Best:
    """A layer, its mean over languages or pairs, the measurements there, and how many layers were compared.

    ``on_train`` is the mean on the training part that it was chosen by; None where it was chosen
    by ``mean`` itself, which then is somewhat too high.
    """

    layer: int
    mean: float
    scores: list[Score]
    layers: int
    on_train: float | None = None


def best_layer(curves: Iterable[Mapping[int, Score]]) -> Best | None:
    """The layer at which the mean over ``curves`` is highest (the lowest such layer on a tie).

    Only layers at which as many values as possible were computed take part, so that a
    mean over few easy pairs cannot win.
    """
    layers = _comparable(curves)
    if not layers:
        return None
    means = {layer: math.fsum(s.value for s in scores) / len(scores) for layer, scores in layers.items()}
    layer = max(means, key=lambda layer: (means[layer], -layer))
    return Best(layer, means[layer], layers[layer], len(means))


def chosen_layer(held_out: Iterable[Mapping[int, Score]], train: Iterable[Mapping[int, Score]]) -> Best | None:
    """The layer that is best on the training part, with its measurements on the held-out part.

    A layer that is chosen on the very items that it is judged by looks better than it is. Runs
    that have no measurement of the training part have it chosen on the held-out one, as
    ``on_train`` says.

    Parameters
    ----------
    held_out, train: layer -> measurement, one curve for each language or direction.

    >>> def curve(*values):
    ...     keys = {"quantity": "precision_at_1", "n": 10}
    ...     return {layer: Score(value=value, layer=layer, **keys) for layer, value in enumerate(values)}
    >>> best = chosen_layer([curve(0.9, 0.5)], [curve(0.2, 0.6)])
    >>> best.layer, best.mean, best.on_train
    (1, 0.5, 0.6)
    >>> chosen_layer([curve(0.9, 0.5)], []).layer
    0
    """
    held_out = list(held_out)
    layers = _comparable(held_out)
    found = best_layer({layer: score for layer, score in curve.items() if layer in layers} for curve in train)
    if found is None:
        return best_layer(held_out)
    scores = layers[found.layer]
    return Best(found.layer, math.fsum(s.value for s in scores) / len(scores), scores, found.layers, found.mean)


def _comparable(curves: Iterable[Mapping[int, Score]]) -> dict[int, list[Score]]:
    """The values of each layer at which as many as possible were computed, by layer."""
    layers: dict[int, list[Score]] = {}
    for curve in curves:
        for layer, score in curve.items():
            if not math.isnan(score.value):
                layers.setdefault(layer, []).append(score)
    most = max((len(scores) for scores in layers.values()), default=0)
    return {layer: scores for layer, scores in sorted(layers.items()) if len(scores) == most}
