"""Learning-rate schedules and optimisers.

A parameter without a gradient is left alone, and so is what the optimiser remembers of it:
languages that are not in a batch stay as they are (gradients must be None, not zero).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from crosslens.models.training.settings import Optimisation

__all__ = ["Lamb", "build_optimiser", "learning_rate", "set_rate"]


def learning_rate(step: int, settings: Optimisation, steps: int) -> float:
    """Learning rate of update ``step`` (counted from 0) out of ``steps``.

    With ``first_rate`` 0 the first update has the first rate above it; otherwise it has
    ``first_rate`` itself, as in XLM.

    >>> rates = [learning_rate(s, Optimisation(peak_rate=1.0, warmup=10), 110) for s in (0, 9, 10, 60, 109)]
    >>> [round(rate, 2) for rate in rates]
    [0.1, 1.0, 1.0, 0.5, 0.01]
    >>> xlm = Optimisation(peak_rate=1e-4, first_rate=1e-7, warmup=30_000, decay="inverse_sqrt")
    >>> [round(learning_rate(s, xlm, 417_000), 10) for s in (0, 15_000, 30_000, 120_000)]
    [1e-07, 5.005e-05, 0.0001, 5e-05]
    """
    first, peak, warmup = settings.first_rate, settings.peak_rate, settings.warmup_of(steps)
    at = step if first else step + 1
    if step < warmup:
        return first + (peak - first) * at / warmup
    if settings.decay == "inverse_sqrt":
        return peak * math.sqrt(warmup / at)
    if settings.decay in ("constant", "plateau"):  # the loop halves the latter
        return peak
    done = (step - warmup) / max(1, steps - warmup)
    return peak * (1 - done if settings.decay == "linear" else 0.5 * (1 + math.cos(math.pi * done)))


class Lamb(torch.optim.Optimizer):
    """LAMB (You et al. 2020, algorithm 2): Adam's step, rescaled for each tensor by ‖weights‖ /
    ‖step‖.

    Moments are corrected for their start; the decay is added to the step before its norm is taken.
    Groups with ``rescale`` False are not rescaled (biases and norms, as in the authors' program),
    and neither are tensors of zeros.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        rescale: bool = True,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "rescale": rescale,
            },
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(self._direction(parameter, group), alpha=group["lr"])
        return loss

    def _direction(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        """The step of one tensor, for a learning rate of 1."""
        (beta1, beta2), state, gradient = group["betas"], self.state[parameter], parameter.grad
        assert gradient is not None
        if not state:
            state.update(
                step=torch.tensor(0.0),
                exp_avg=torch.zeros_like(parameter),
                exp_avg_sq=torch.zeros_like(parameter),
            )
        state["step"] += 1
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        count = state["step"].item()
        root = (state["exp_avg_sq"] / (1 - beta2**count)).sqrt_().add_(group["eps"])
        direction = (state["exp_avg"] / (1 - beta1**count)).div_(root)
        direction.add_(parameter, alpha=group["weight_decay"])
        if not group["rescale"]:
            return direction
        weight, size = parameter.norm(), direction.norm()
        trust = torch.where((weight > 0) & (size > 0), weight / size, torch.ones_like(weight))
        return direction.mul_(trust)


def build_optimiser(
    model: nn.Module, settings: Optimisation, rate_factors: Mapping[str, float] | None = None
) -> torch.optim.Optimizer:
    """The optimiser over all trainable parameters; only matrices decay, and are rescaled by
    LAMB.

    Parameters
    ----------
    rate_factors: beginning of a parameter's name -> what the learning rate is multiplied by, under
        ``rate_factor`` in its group; 1 for all others.
    """
    factors = {name: factor for name, factor in (rate_factors or {}).items() if factor != 1.0}

    def factor_of(name: str) -> float:
        return next((f for start, f in factors.items() if name.startswith(start)), 1.0)

    trained = [(factor_of(name), p) for name, p in model.named_parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = []
    for factor in (1.0, *dict.fromkeys(factors.values())):
        mine = [p for its, p in trained if its == factor]
        groups += [
            {
                "params": [p for p in mine if p.ndim >= 2],
                "weight_decay": settings.weight_decay,
                "rate_factor": factor,
            },
            {
                "params": [p for p in mine if p.ndim < 2],
                "weight_decay": 0.0,
                "rate_factor": factor,
            },
        ]
    betas = (settings.beta1, settings.beta2)
    if settings.optimiser == "lamb":
        for number, group in enumerate(groups):
            group["rescale"] = number % 2 == 0
        return Lamb(groups, lr=settings.peak_rate, betas=betas, eps=settings.eps)
    kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    return kind(groups, lr=settings.peak_rate, betas=betas, eps=settings.eps, fused=True)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Give every group a learning rate, times the group's factor; where it has a tensor, in it."""
    for group in optimiser.param_groups:
        mine = rate * group["rate_factor"]
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(mine)
        else:
            group["lr"] = mine
