"""Noise on embeddings while a model is trained, so that what is learnt on one language's embeddings
bears the small differences of another's (Artetxe et al. 2020, § 2.2 and appendix A)."""

import torch
from torch import Tensor

__all__ = ["NOISE", "add_noise"]

NOISE = 0.075  # standard deviation; Artetxe et al. 2020, appendix A


def add_noise(x: Tensor, sigma: float = NOISE, training: bool = True) -> Tensor:
    """x + N(0, sigma²), sampled anew for each element; ``torch.manual_seed`` decides what is.

    Parameters
    ----------
    sigma: standard deviation; 0 adds none.
    training: False changes nothing.

    >>> x, _ = torch.ones(1000, 100), torch.manual_seed(0)
    >>> noise = add_noise(x) - x
    >>> abs(noise.mean().item()) < 1e-3, abs(noise.std().item() - 0.075) < 1e-3, add_noise(x, training=False) is x
    (True, True, True)
    """
    return x + sigma * torch.randn_like(x) if training and sigma else x
