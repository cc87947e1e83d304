"""The encoder: token ids to hidden states to scores over the vocabulary at masked positions.

Post-LN BERT (Devlin et al. 2019), written once and read top to bottom:

    h0 = Dropout(LN(token + position))
    h' = LN(h + Dropout(Attention(h)))          for each layer
    h  = LN(h' + Dropout(FFN(h')))
    scores = LN(gelu(W h + b)) E^T + c          only at the positions asked for

The vocabulary head is tied to the token embeddings and computed only where the loss
needs it. Queries, keys and values are one product. :mod:`crosslens.models.interop`
writes and reads the weights in the layout that transformers loads.
"""

import dataclasses

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crosslens.errors import refuse

__all__ = ["Encoder", "EncoderConfig", "MaskedLM"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Shape of an encoder.

    Attributes
    ----------
    vocab_size: rows of the token embedding, special tokens included; in a recipe it follows the vocabulary that is learnt.
    hidden_size: d, the width of every hidden state.
    layers: number of transformer layers L; hidden states are numbered 0 (embeddings) to L.
    heads: attention heads; divides hidden_size.
    ffn_size: width inside the feed-forward blocks.
    max_positions: longest sequence in tokens.
    dropout: share of units dropped after embeddings, attention and feed-forward blocks, and of attention weights.
    norm_eps: epsilon of the layer norms.
    init_std: standard deviation of the normal initialisation.
    """

    vocab_size: int = 8000
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    ffn_size: int = 512
    max_positions: int = 128
    dropout: float = 0.1
    norm_eps: float = 1e-12
    init_std: float = 0.02

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "layers", "heads", "ffn_size", "max_positions"):
            if getattr(self, name) < 1:
                refuse(f"encoder.{name}", "a whole number from 1 up", repr(getattr(self, name)), "choose a larger one")
        if self.hidden_size % self.heads:
            refuse("encoder.heads", f"a divisor of hidden_size = {self.hidden_size}", str(self.heads), "change one of the two")
        if not 0 <= self.dropout < 1:
            refuse("encoder.dropout", "a fraction from 0 up to 1 (excluded)", repr(self.dropout), "choose a smaller one")


class Layer(nn.Module):
    """One post-LN transformer layer."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        d = config.hidden_size
        self.heads, self.rate = config.heads, config.dropout
        self.qkv = nn.Linear(d, 3 * d)
        self.attention_output = nn.Linear(d, d)
        self.attention_norm = nn.LayerNorm(d, eps=config.norm_eps)
        self.ffn_in = nn.Linear(d, config.ffn_size)
        self.ffn_out = nn.Linear(config.ffn_size, d)
        self.ffn_norm = nn.LayerNorm(d, eps=config.norm_eps)

    def forward(self, h: Tensor, bias: Tensor | None) -> Tensor:
        """(batch, length, d) and an additive attention bias (batch, 1, 1, length) -> (batch, length, d)."""
        batch, length, d = h.shape
        q, k, v = self.qkv(h).view(batch, length, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=self.rate if self.training else 0.0)
        mixed = self.attention_output(mixed.transpose(1, 2).reshape(batch, length, d))
        h = self.attention_norm(h + F.dropout(mixed, self.rate, self.training))
        wide = self.ffn_out(F.gelu(self.ffn_in(h)))
        return self.ffn_norm(h + F.dropout(wide, self.rate, self.training))


class Encoder(nn.Module):
    """Token ids to the hidden states of every layer."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_positions, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))

    def forward(self, ids: Tensor, positions: Tensor, lengths: Tensor | None = None) -> list[Tensor]:
        """Hidden states 0 ... L, each (batch, length, d).

        Parameters
        ----------
        ids: (batch, length) token ids, padded on the right.
        positions: (batch, length) position ids.
        lengths: (batch,) numbers of real tokens; None when nothing is padded.
        """
        h = self.norm(self.token(ids) + self.position(positions))
        states = [F.dropout(h, self.config.dropout, self.training)]
        bias = None
        if lengths is not None and bool((lengths < ids.shape[1]).any()):
            padded = torch.arange(ids.shape[1], device=ids.device) >= lengths[:, None]
            bias = torch.zeros(padded.shape, dtype=h.dtype, device=ids.device).masked_fill_(padded, float("-inf"))[:, None, None, :]
        for layer in self.layers:
            states.append(layer(states[-1], bias))
        return states


class MaskedLM(nn.Module):
    """An encoder with the tied vocabulary head of a masked language model.

    Parameters
    ----------
    config: the encoder's shape.
    seed: initial weights are a function of config and seed alone.
    """

    def __init__(self, config: EncoderConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        d = config.hidden_size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = Encoder(config)
            self.transform = nn.Linear(d, d)
            self.transform_norm = nn.LayerNorm(d, eps=config.norm_eps)
            self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=config.init_std)
                    nn.init.zeros_(module.bias)
                elif isinstance(module, nn.Embedding):
                    nn.init.normal_(module.weight, std=config.init_std)

    def scores(self, hidden: Tensor) -> Tensor:
        """(n, d) last hidden states -> (n, vocab) scores before the softmax."""
        h = self.transform_norm(F.gelu(self.transform(hidden)))
        return F.linear(h, self.encoder.token.weight, self.output_bias)

    def forward(self, ids: Tensor, positions: Tensor, lengths: Tensor | None, masked: Tensor, labels: Tensor) -> Tensor:
        """Sum of the masked tokens' cross-entropies in nats.

        Parameters
        ----------
        ids, positions, lengths: as for :class:`Encoder`, the masked tokens already replaced.
        masked: (m,) indices of the predicted tokens in the flattened batch.
        labels: (m,) the original ids at these places.
        """
        last = self.encoder(ids, positions, lengths)[-1]
        return F.cross_entropy(self.scores(last.flatten(0, 1)[masked]).float(), labels, reduction="sum")
