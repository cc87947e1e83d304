"""One probe on a learnt mix of all layers, beside the probes of each layer."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.probes.methods.evaluation import PENALTIES, probe_layers
from crosslens.probes.methods.linear.layer_mix import MixProbe
from crosslens.probes.methods.splits import Parts
from crosslens.run.probe_items import Measured, Shared, TestItems, probe_outcomes
from crosslens.run.probe_scores import probe_scores

__all__ = ["measure_mix"]

_BY_WORD = "word_majority"  # stands beside the layers; it is the same


def measure_mix(
    layers: list[Any],
    labels: np.ndarray,
    parts: Parts,
    *,
    task: str,
    common: Mapping[str, Any],
    items: TestItems,
    shared: Shared,
    seeds: Sequence[int],
    **given: Any,
) -> Measured:
    """Accuracy and macro F1 of a mix of layers, with its controls; the task is called ``TASK:mix``, and no measurement has a layer.

    Every fit reads all layers many times.

    Parameters
    ----------
    common: encoder and seed. seeds: of control labels and bootstrap samples.
    given: other arguments of :func:`crosslens.probes.methods.evaluation.probe_layers`.
    """
    name = f"{task}:mix"
    result = probe_layers(layers, labels, parts, **given, seeds=seeds, probe=MixProbe(PENALTIES))
    assert result.weights is not None
    weights = {"layer_weights": [round(weight, 6) for weight in result.weights.tolist()]}
    scores = [
        dataclasses.replace(score, layer=None, details={**(score.details or {}), **(weights if score.condition is None else {})})
        for score in probe_scores(result, common, name, {}, shared, seeds)
        if score.condition != _BY_WORD
    ]
    outcomes = [dataclasses.replace(one, layer=None) for one in probe_outcomes(result, items, common, name) if one.condition != _BY_WORD]
    return Measured(scores, outcomes)
