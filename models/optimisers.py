"""Learning-rate schedules and the optimiser."""

import math

import torch
from torch import nn

from crosslens.models.settings import Optimisation

__all__ = ["build_optimiser", "learning_rate"]


def learning_rate(step: int, settings: Optimisation, steps: int) -> float:
    """Learning rate of update ``step`` (counted from 0) out of ``steps``.

    >>> rates = [learning_rate(s, Optimisation(peak_rate=1.0, warmup=10), 110) for s in (0, 9, 10, 60, 109)]
    >>> [round(rate, 2) for rate in rates]
    [0.1, 1.0, 1.0, 0.5, 0.01]
    """
    if step < settings.warmup:
        return settings.peak_rate * (step + 1) / settings.warmup
    if settings.decay == "inverse_sqrt":
        return settings.peak_rate * math.sqrt(settings.warmup / (step + 1))
    done = (step - settings.warmup) / max(1, steps - settings.warmup)
    return settings.peak_rate * (1 - done if settings.decay == "linear" else 0.5 * (1 + math.cos(math.pi * done)))


def build_optimiser(model: nn.Module, settings: Optimisation) -> torch.optim.AdamW:
    """AdamW over all trainable parameters; only matrices decay."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.peak_rate, betas=(0.9, settings.beta2), eps=1e-8, fused=True)
