"""Which layer, which checkpoint, by which part: decided here and nowhere else.

One rule holds for all. What is no number takes no part. The highest value is best; of equal ones
the lower layer, and then the one that was given first. What is judged on the very items that it
was chosen on looks better than it is: so a choice by other items (a dev set, training items) goes
before one by the reported values, and each choice says which of the two it is.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from crosslens.score import Score

__all__ = ["Best", "Choice", "at_layer", "best_layer", "choose", "chosen_layer", "improves"]

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class Choice(Generic[_T]):
    """What is best.

    Attributes
    ----------
    item: the one.
    value: what it was chosen by.
    of: how many were compared.
    elsewhere: whether it was chosen on other items than it is judged by.
    """

    item: _T
    value: float
    of: int
    elsewhere: bool


def choose(
    items: Iterable[_T],
    value: Callable[[_T], float],
    by: Callable[[_T], float] | None = None,
    layer: Callable[[_T], int | None] = lambda item: None,
) -> Choice[_T] | None:
    """The best of some items; None where nothing was measured.

    Parameters
    ----------
    value: what an item is judged by; higher is better, NaN takes no part.
    by: its value on other items (dev, say), NaN where it has none. Where any item has one, these
        decide, and only items that have one are compared.
    layer: an item's layer, for equal ones.

    >>> test, dev = {0: 0.5, 1: 0.9, 2: 0.7}, {0: 0.4, 2: 0.6}
    >>> choose(test, test.__getitem__)
    Choice(item=1, value=0.9, of=3, elsewhere=False)
    >>> choose(test, test.__getitem__, lambda layer: dev.get(layer, math.nan))
    Choice(item=2, value=0.6, of=2, elsewhere=True)
    """
    measured = [item for item in items if not math.isnan(value(item))]
    judged = [item for item in measured if by is not None and not math.isnan(by(item))]
    decides = by if by is not None and judged else value
    compared = judged or measured
    if not compared:
        return None
    best = max(compared, key=lambda item: (decides(item), -(layer(item) or 0)))
    return Choice(best, decides(best), len(compared), bool(judged))


def improves(loss: float, best: float) -> bool:
    """Whether a checkpoint's loss (lower is better) makes it the best; an equal one, or NaN, does
    not.

    >>> improves(2.0, math.inf), improves(2.0, 2.0), improves(math.nan, 2.0)
    (True, False, False)
    """
    return loss < best


@dataclasses.dataclass(frozen=True)
class Best:
    """A layer, its mean over languages or pairs, the measurements there, and how many layers were
    compared.

    ``on_train`` is the mean on the training part that it was chosen by; None where it was chosen
    by ``mean`` itself, which then is somewhat too high.
    """

    layer: int
    mean: float
    scores: list[Score]
    layers: int
    on_train: float | None = None


def best_layer(curves: Iterable[Mapping[int, Score]]) -> Best | None:
    """The layer at which the mean over ``curves`` is highest.

    Only layers at which as many values as possible were computed take part, so that a
    mean over few easy pairs cannot win.
    """
    return chosen_layer(curves, ())


def at_layer(curves: Iterable[Mapping[int, Score]], layer: int) -> Best | None:
    """The mean over ``curves`` at a layer that was chosen before (of a control, say)."""
    return best_layer({layer: curve[layer]} for curve in curves if layer in curve)


def chosen_layer(
    held_out: Iterable[Mapping[int, Score]], train: Iterable[Mapping[int, Score]]
) -> Best | None:
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
    layers = _comparable(held_out)
    on_train = _comparable(
        {layer: score for layer, score in curve.items() if layer in layers} for curve in train
    )
    means = {layer: _mean(scores) for layer, scores in layers.items()}
    found = choose(
        layers, means.__getitem__, lambda layer: _mean(on_train.get(layer, ())), layer=int
    )
    if found is None:
        return None
    layer = found.item
    return Best(
        layer, means[layer], layers[layer], found.of, found.value if found.elsewhere else None
    )


def _mean(scores: Iterable[Score]) -> float:
    values = [score.value for score in scores]
    return math.fsum(values) / len(values) if values else math.nan


def _comparable(curves: Iterable[Mapping[int, Score]]) -> dict[int, list[Score]]:
    """The values of each layer at which as many as possible were computed, by layer."""
    layers: dict[int, list[Score]] = {}
    for curve in curves:
        for layer, score in curve.items():
            if not math.isnan(score.value):
                layers.setdefault(layer, []).append(score)
    most = max((len(scores) for scores in layers.values()), default=0)
    return {layer: scores for layer, scores in sorted(layers.items()) if len(scores) == most}
