"""What is learnt between the states of a frozen encoder and a head: a mean of its layers, and an LSTM.

(batch, length, layers, d) --ScalarMix--> (batch, length, d) --LSTM--> (batch, length, d)
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

__all__ = ["ScalarMix", "ScalarMixLSTM"]


class ScalarMix(nn.Module):
    """A mean of layers whose weights, the softmax of a number for each, are learnt; all are equal
    at first.

    Peters et al. 2018, equation 1, without the scale gamma (Wu & Dredze 2019, § 5.2).

    >>> import torch
    >>> ScalarMix(2)(torch.tensor([[[[1.0], [3.0]]]])).tolist()
    [[[2.0]]]
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layers))

    def forward(self, states: Tensor) -> Tensor:
        """(batch, length, d) of (batch, length, layers, d)."""
        return torch.einsum("l,btld->btd", self.weight.softmax(0), states)


class ScalarMixLSTM(nn.Module):
    """A mean of layers, and two bidirectional layers of LSTM on it.

    Parameters
    ----------
    layers: of the encoder, that of its embeddings included. d: their width.

    Wu & Dredze 2019, § 5.2, say "with d hidden size": here d in all, d / 2 in each direction, so
    that every head reads states as wide as the encoder's. Sequences are packed: padding changes
    nothing, and its states are 0.

    >>> import torch
    >>> ScalarMixLSTM(3, 4)(torch.ones(2, 5, 3, 4), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])).shape
    torch.Size([2, 5, 4])
    """

    def __init__(self, layers: int, d: int) -> None:
        super().__init__()
        self.d = 2 * (d // 2)
        self.mix = ScalarMix(layers)
        self.lstm = nn.LSTM(d, d // 2, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(batch, length, d) of (batch, length, layers, d) states; ``mask`` (batch, length) is 0 at
        padding, which is on the right."""
        packed = pack_padded_sequence(
            self.mix(states), mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        read, _ = self.lstm(packed)
        return pad_packed_sequence(read, batch_first=True, total_length=mask.shape[1])[0]
