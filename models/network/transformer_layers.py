"""New Transformer layers between the states of a frozen encoder's layer and a head."""

import math

from torch import Tensor, nn

__all__ = ["TransformerLayers"]

_LAYERS = 4


class TransformerLayers(nn.Module):
    """Four Transformer layers with weights of torch's random state, on the last layer that is given
    (Conneau et al. 2020, § 5.1.2).

    Parameters
    ----------
    d: width of the states. As in BERT of every size a head has 64 dimensions, and the perceptron is
        four times as wide; normalisation comes last, and a tenth is dropped.

    >>> import torch
    >>> TransformerLayers(8)(torch.ones(2, 3, 1, 8), torch.tensor([[1, 1, 0], [1, 1, 1]])).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.d, heads = d, math.gcd(d, max(1, d // 64))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, heads, 4 * d, 0.1, "gelu", batch_first=True)
            for _ in range(_LAYERS)
        )

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(batch, length, d) of (batch, length, layers, d) states; ``mask`` (batch, length) is 0 at
        padding, which no other token sees."""
        read, gone = states[:, :, -1], ~mask.bool()
        for layer in self.layers:
            read = layer(read, src_key_padding_mask=gone)
        return read
