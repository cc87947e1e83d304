"""Dropout whose mask costs little on a CPU, where torch samples one random number per element.

Here 16 random bits decide on each element, and 64 of them are sampled at a time (by SFC64, from a
seed that torch's own generator gives, so ``torch.manual_seed`` decides what is dropped). Elsewhere
torch's dropout is used.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["draw_dropped", "dropout"]

_STEPS = 1 << 16


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Elements of x are 0 with probability ``rate``, the others divided by 1 - rate (Srivastava et
    al. 2014, scaled in training).

    On a CPU the rate is rounded to 1 in 65,536, and the scale is that of the rounded rate: the mean
    is exact.

    Parameters
    ----------
    rate: from 0 up to 1 (excluded).
    training: False changes nothing.

    >>> x = torch.ones(1000, 100)
    >>> kept = dropout(x, 0.25, True) > 0
    >>> abs(kept.float().mean().item() - 0.75) < 0.01, dropout(x, 0.25, False) is x
    (True, True)
    """
    if not training or not rate:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate, True)
    gone, scale = draw_dropped(x.shape, rate)
    return x.masked_fill(gone, 0) * scale


def draw_dropped(shape: torch.Size, rate: float) -> tuple[Tensor, float]:
    """Which elements are dropped, True for each, and what the others are multiplied by; on a
    CPU."""
    dropped, n = min(_STEPS - 1, round(rate * _STEPS)), shape.numel()
    numbers = (
        np.random.SFC64(int(torch.randint(1 << 62, ()))).random_raw(math.ceil(n / 4)).view(np.int16)
    )
    return (torch.from_numpy(numbers)[:n] < dropped - _STEPS // 2).view(shape), _STEPS / (
        _STEPS - dropped
    )
