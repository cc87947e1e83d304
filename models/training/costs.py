"""What training costs: floating-point operations per token, and how much of a machine is used.

Operations of a step, forward and backward, as they are carried out: a product with n weights is 2n
operations a token forward, 2n for the gradient of the weights and 2n for that of its input. With L
layers of width d (4 d^2 + 2 d f weights, f inside the feed-forward block) and rows of s tokens of
which a share r is predicted, that is per token

    6 ((L - 1)(4 d^2 + 2 d f) + 2 d^2)        layers, and the last one's keys and values
    + 6 r (2 d^2 + 2 d f + head weights)      the last layer's other products, and the head: at
    predicted tokens alone + 12 d s (L - 1 + r)                      the attention's own products

Token embeddings of another width e are e d weights more for each token, and again for each predicted
one, and the head's are e wide. With next-sentence prediction the last layer is computed everywhere. The two adapters of a layer, of b
units, are 4 d b weights more, computed where its other products are. What is frozen has no gradient.
Padding, embedding look-ups, norms, dropout, the optimiser and what gradient checkpointing computes
again are not counted. Utilisation is these operations per second over the machine's best.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.network.surgery import Owner, parameters_by_owner

__all__ = ["Load", "flops_per_token", "peak_flops", "step_flops", "trained_owners"]

# Dense bfloat16 tensor-core peak, from the makers' data sheets (without sparsity).
_PEAKS = {
    "H100": 989e12,
    "H200": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "V100": 125e12,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Load:
    """What of a batch its cost depends on: sums over its rows of s tokens each, padding left out, m
    of which are predicted.

    Attributes
    ----------
    rows: their number.
    tokens, squares: sums of s and of s ** 2.
    predicted, looks: sums of m and of m * s.
    """

    rows: float | int
    tokens: float | int
    squares: float | int
    predicted: float | int
    looks: float | int

    @classmethod
    def of(cls, lengths: np.ndarray, predicted: np.ndarray) -> "Load":
        """The load of rows, from (b,) their tokens and (b,) how many of these are predicted.

        >>> Load.of(np.array([3, 5]), np.array([1, 2]))
        Load(rows=2, tokens=8, squares=34, predicted=3, looks=13)
        """
        sums = (lengths, lengths**2, predicted, predicted * lengths)
        tokens, squares, m, looks = (int(values.sum()) for values in sums)
        return cls(rows=len(lengths), tokens=tokens, squares=squares, predicted=m, looks=looks)

    @classmethod
    def of_token(cls, length: float | int, rate: float) -> "Load":
        """The load of one token of rows of ``length``, of which a share ``rate`` is predicted."""
        return cls(rows=1 / length, tokens=1, squares=length, predicted=rate, looks=rate * length)


def flops_per_token(config: EncoderConfig, length: float | int, rate: float) -> float:
    """Floating-point operations of training per token.

    Parameters
    ----------
    length: tokens of a row.
    rate: share of the tokens that is predicted: the head and most of the last layer are computed
        for these alone.

    >>> bert_like = EncoderConfig(vocab_size=80_000, hidden_size=768, layers=8, heads=12, ffn_size=3072, head="plain")
    >>> round(flops_per_token(bert_like, 256, 0.15) / 1e6), round(flops_per_token(bert_like, 256, 1.0) / 1e6)
    (382, 727)
    """
    return _operations(config, config.vocab_size, Load.of_token(length, rate), lambda part: True)


def trained_owners(model: MaskedLM) -> frozenset[Owner]:
    """The parts of a model that have gradients, with their owners."""
    return frozenset(
        owner for owner, _, parameter in parameters_by_owner(model) if parameter.requires_grad
    )


def step_flops(
    model: MaskedLM, loads: Mapping[str, Load], trained: frozenset[Owner] | None = None
) -> float:
    """Floating-point operations of one update of a model; its frozen parts have no gradients.

    Parameters
    ----------
    loads: language to the load of the batch's rows of this language.
    trained: what :func:`trained_owners` says of the model, where it is known already.
    """
    trained = trained_owners(model) if trained is None else trained
    total = 0.0
    for language, load in loads.items():
        parts = {owner.part for owner in trained if owner.language in ("", language)}
        total += _operations(model.config, model.sizes[language], load, parts.__contains__)
    return total


def _operations(
    config: EncoderConfig, pieces: int, load: Load, trains: Callable[[str], bool]
) -> float:
    """Operations of the rows of one language, forward and backward; ``trains`` says whether a part
    has a gradient."""
    d, f = config.hidden_size, config.ffn_size
    # whether an input has a gradient
    tokens = trains("token") or trains("special")
    embeddings = ("token", "special", "projection", "position", "segment", "language", "norm")
    total, above, adapted = 0.0, any(map(trains, embeddings)), trains("adapters")
    projected = 2 * d * config.embedding_size  # of a token
    total += projected * load.tokens * (1 + trains("projection") + tokens)
    for number in range(1, config.layers + 1):
        everywhere = number < config.layers or config.next_sentence
        asked, looks = (load.tokens, load.squares) if everywhere else (load.predicted, load.looks)
        own = trains(str(number))
        # queries; keys and values
        total += 2 * d * d * (asked + 2 * load.tokens) * (1 + own + above)
        above = above or own
        total += 4 * d * looks * (1 + 2 * above)
        total += 2 * d * d * asked * (1 + own + above)
        half = 2 * d * config.adapters * asked  # one matrix of an adapter
        total += half * (1 + adapted + above)
        above = above or adapted
        total += 4 * d * f * asked * (1 + own + above) + 3 * half * (1 + adapted + above)
    if config.head == "transform":
        own = trains("transform")
        total += 2 * d * d * load.predicted * (1 + own + above)
        above_head = above or own
    else:
        above_head = above
    wide = d
    if config.tied and config.embedding_size:
        wide, own = config.embedding_size, trains("projection")
        total += projected * load.predicted * (1 + own + above_head)
        above_head = above_head or own
    own = tokens if config.tied else trains("softmax")
    total += 2 * wide * pieces * load.predicted * (1 + own + above_head)
    if config.next_sentence:
        own = trains("next_sentence")
        total += 2 * d * d * load.rows * (1 + own + above) + 4 * d * load.rows * (
            1 + own + (above or own)
        )
    return total


def peak_flops(device: Any = None) -> float | None:
    """The device's best rate in bfloat16, in operations per second; None where it is not known (a
    CPU, another GPU)."""
    if device is None or torch.device(device).type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for key, peak in _PEAKS.items() if key in name), None)
