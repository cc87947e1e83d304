"""Adapters: small networks between the modules of a layer, which are trained where the layer is
not."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["BOTTLENECK", "Adapter", "LayerAdapters", "Rescaling"]

BOTTLENECK = 64  # units; Houlsby et al. 2019
_STD = 1e-3


class Adapter(nn.Module):
    """``x + W_up gelu(W_down x + b) + c`` (Houlsby et al. 2019, § 2.1), nearly the identity at
    first: both matrices are N(0, 1e-3), cut at two standard deviations, and biases 0.

    Parameters
    ----------
    d: width of x.
    bottleneck: units between the two matrices.

    >>> x = torch.linspace(-1, 1, 8)
    >>> bool((Adapter(8, 4)(x) - x).abs().max() < 1e-4)
    True
    """

    def __init__(self, d: int, bottleneck: int = BOTTLENECK) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(d, bottleneck), nn.Linear(bottleneck, d)
        for linear in (self.down, self.up):
            nn.init.trunc_normal_(linear.weight, std=_STD, a=-2 * _STD, b=2 * _STD)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d)."""
        return x + self.up(F.gelu(self.down(x)))

    @torch.no_grad()
    def become_identity(self) -> None:
        """Let the output be the input, to the bit."""
        self.up.weight.zero_()
        self.up.bias.zero_()


class Rescaling(nn.Module):
    """``x * weight + bias``, the identity at first, to the bit. After a layer norm that stands still it
    is what training the norm's own weight and bias would be.

    Parameters
    ----------
    d: width of x.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d)."""
        return x * self.weight + self.bias


class LayerAdapters(nn.Module):
    """The two adapters of a transformer layer: on what its attention gives and on what its
    feed-forward block gives, before each is added to the layer's own input.

    Parameters
    ----------
    d, bottleneck: as for :class:`Adapter`.
    norms: whether the layer's two norms are rescaled as well. Houlsby et al. 2019 train them.
    """

    def __init__(self, d: int, bottleneck: int = BOTTLENECK, norms: bool = False) -> None:
        super().__init__()
        self.attention, self.ffn = Adapter(d, bottleneck), Adapter(d, bottleneck)
        self.norms = norms
        if norms:
            self.attention_norm, self.ffn_norm = Rescaling(d), Rescaling(d)

    def become_identity(self) -> None:
        """Let all outputs be the inputs, to the bit, as the norms' are at first."""
        self.attention.become_identity()
        self.ffn.become_identity()
