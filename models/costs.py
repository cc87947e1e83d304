"""What training costs: floating-point operations per token, and how much of a machine is used.

Model operations per token, forward and backward (papers count them so; a product of n weights is 2n operations forward, 4n backward):

    6 (body weights) + 6 (share of tokens predicted) (head weights) + 12 L d s

with L layers of width d over rows of s tokens; the last term is the attention's own products. Embedding look-ups, norms, dropout and the
optimiser are not counted. Utilisation is these operations per second over the machine's best.
"""

from typing import Any

import torch

from crosslens.models.encoder import EncoderConfig

__all__ = ["flops_per_token", "peak_flops"]

# Dense bfloat16 tensor-core peak, from the makers' data sheets (without sparsity).
_PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "V100": 125e12}


def flops_per_token(config: EncoderConfig, length: float | int, rate: float) -> float:
    """Floating-point operations of training per token.

    Parameters
    ----------
    length: tokens of a row.
    rate: share of the tokens that is predicted: the head is computed for these alone.

    >>> bert_like = EncoderConfig(vocab_size=80_000, hidden_size=768, layers=8, heads=12, ffn_size=3072, head="plain")
    >>> round(flops_per_token(bert_like, 256, 0.15) / 1e6), round(flops_per_token(bert_like, 256, 1.0) / 1e6)
    (414, 727)
    """
    d = config.hidden_size
    body = config.layers * (4 * d * d + 2 * d * config.ffn_size)
    head = d * config.vocab_size + (d * d if config.head == "transform" else 0)
    return 6 * body + 6 * rate * head + 12 * config.layers * d * length


def peak_flops(device: Any = None) -> float | None:
    """The device's best rate in bfloat16, in operations per second; None where it is not known (a CPU, another GPU)."""
    if device is None or torch.device(device).type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for key, peak in _PEAKS.items() if key in name), None)
