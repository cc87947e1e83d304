"""The last layer of an encoder computed at position 0 alone, for heads that read no other.

Behind its attention a layer of BERT works on each token by itself. So two thirds of the products of
the last one are saved, a sixth of those of four layers, and no number at position 0 changes.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

__all__ = ["has_first_position", "only_first_position"]

# their layers: attention with what is added to it and its norm, then two matrices of each token
_FAMILIES = {"bert", "camembert", "electra", "roberta", "xlm-roberta"}


def has_first_position(model: Any) -> bool:
    """Whether this transformers model is known to have layers of that kind.

    >>> has_first_position(nn.Linear(2, 2))
    False
    """
    layers = getattr(getattr(model, "encoder", None), "layer", None)
    known = getattr(getattr(model, "config", None), "model_type", None) in _FAMILIES
    return known and isinstance(layers, nn.ModuleList)


@contextlib.contextmanager
def only_first_position(model: Any) -> Iterator[None]:
    """Within, the model's ``last_hidden_state`` is (batch, 1, d): the one at position 0.

    Parameters
    ----------
    model: one that :func:`has_first_position`.

    >>> from transformers import BertConfig, BertModel
    >>> import torch
    >>> small = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
    >>> model, ids = BertModel(BertConfig(vocab_size=20, **small)).eval(), torch.tensor([[2, 5, 9, 3]])
    >>> with only_first_position(model):
    ...     first = model(ids).last_hidden_state
    >>> first.shape, torch.allclose(first, model(ids).last_hidden_state[:, :1], atol=1e-6)
    (torch.Size([1, 1, 8]), True)
    """
    handle = model.encoder.layer[-1].attention.register_forward_hook(_first)
    try:
        yield
    finally:
        handle.remove()


def _first(module: nn.Module, given: Any, found: tuple[Tensor, Any]) -> tuple[Tensor, Any]:
    state, weights = found
    return state[:, :1], weights
