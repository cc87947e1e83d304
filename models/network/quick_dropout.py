"""A transformers model with the project's dropout, which costs little on a CPU.

Torch samples one random number for each element there: of attention over 250 subwords that takes
longer than the products. What is dropped is still decided by ``torch.manual_seed``, with the same
probability, and evaluation is as it was.
"""

from typing import Any

import torch
from torch import Tensor, nn

from crosslens.models.network.dropout import dropout
from crosslens.models.network.encoder import attend

__all__ = ["QuickDropout", "use_quick_dropout"]

_NAME = "crosslens_quick_dropout"


class QuickDropout(nn.Dropout):
    """Torch's module with the project's dropout.

    >>> QuickDropout(0.5).eval()(torch.ones(2)).tolist()
    [1.0, 1.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape; elements are 0 with probability ``p``, the others divided by 1 - p."""
        return dropout(x, self.p, self.training)


def use_quick_dropout(model: nn.Module) -> None:
    """Let a transformers model, and its attention where that is scaled dot-product attention, drop
    by :func:`crosslens.models.network.dropout.dropout`."""
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                setattr(parent, name, QuickDropout(child.p))
    config = getattr(model, "config", None)
    if getattr(config, "_attn_implementation", None) == "sdpa":
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        ALL_ATTENTION_FUNCTIONS.register(_NAME, _attention)
        ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
        model.set_attn_implementation(_NAME)  # type: ignore[operator]


_PLAIN = {"position_bias", "cache", "softcap"}


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it; its own where nothing is dropped, or more than a mask and
    dropout takes part."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    causal = attention_mask is None and getattr(module, "is_causal", True)
    special = any(others.get(name) is not None for name in _PLAIN)
    grouped = getattr(module, "num_key_value_groups", 1) > 1
    standard = scaling is None or scaling == query.shape[-1] ** -0.5
    if (
        not dropout
        or special
        or grouped
        or not standard
        or (causal if is_causal is None else is_causal)
    ):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, **others
        )
    bias = attention_mask
    if bias is not None and bias.dtype == torch.bool:
        bias = torch.zeros_like(bias, dtype=query.dtype).masked_fill_(~bias, float("-inf"))
    return attend(query, key, value, bias, dropout).transpose(1, 2).contiguous(), None
