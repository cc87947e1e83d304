"""An embedding table of which training sees some rows only: these are trained, the rest stands
aside.

A multilingual encoder has some 250,000 subwords, a labelled text a few thousand. A gradient, two
moments and a checkpoint of the whole table cost more than all layers together, and all but a few
thousand rows of them are zeros.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["TrainedRows", "train_rows"]


class TrainedRows(nn.Module):
    """The embeddings of a table, some of whose rows are trained.

    Parameters
    ----------
    table: the whole table; it is kept as it is, and no part of the state.
    ids: (k,) different rows that training sees. While training no other row may be asked for.

    Attributes
    ----------
    rows: (k, d) the rows that training sees.
    others: (1, 1) what all other rows are multiplied by. Their gradient is 0, and so is this one's,
        so that weight decay does to it what it would do to them.

    >>> table = nn.Embedding.from_pretrained(torch.eye(4), freeze=False)
    >>> some = TrainedRows(table, torch.tensor([1, 3]))
    >>> some.rows.shape, torch.equal(some.eval()(torch.tensor([3, 0])), table(torch.tensor([3, 0])))
    (torch.Size([2, 4]), True)
    """

    places: Tensor
    table: Tensor

    def __init__(self, table: nn.Embedding, ids: Tensor) -> None:
        super().__init__()
        weight = table.weight.detach()
        self.rows = nn.Parameter(weight[ids].clone())
        self.others = nn.Parameter(weight.new_ones(1, 1))
        places = torch.full((len(weight),), -1, device=weight.device)
        places[ids] = torch.arange(len(ids), device=weight.device)
        self.register_buffer("table", weight, persistent=False)
        self.register_buffer("places", places, persistent=False)
        pad = table.padding_idx
        self.pad = None if pad is None or places[pad] < 0 else int(places[pad])
        self.padding_idx, self.num_embeddings = pad, table.num_embeddings
        self.embedding_dim = table.embedding_dim

    def forward(self, ids: Tensor) -> Tensor:
        """(…, d) embeddings of token ids."""
        places = self.places[ids]
        if self.training:
            # no gradient is not the same as 0: without one nothing decays
            return F.embedding(places, self.rows, self.pad) + 0 * self.others
        found = F.embedding(places.clamp(min=0), self.rows)
        if bool((places < 0).any()):
            rest = F.embedding(ids, self.table) * self.others
            found = torch.where((places < 0).unsqueeze(-1), rest, found)
        return found

    @property
    def weight(self) -> Tensor:
        """The whole table as it is now, a copy."""
        found = self.table * self.others.detach()
        trained = self.places >= 0
        found[trained] = self.rows.detach()[self.places[trained]]
        return found

    def whole(self) -> nn.Embedding:
        """An ordinary table of the same embeddings."""
        return nn.Embedding.from_pretrained(self.weight, freeze=False, padding_idx=self.padding_idx)


def train_rows(model: nn.Module, ids: Tensor) -> bool:
    """Let a transformers model train only these rows of its token embeddings; returns whether it
    does.

    Rows that training does not see end as they would have ended. A model stays as it is whose table
    is frozen, is more than a table (scaled, say, or with a largest norm), or serves a second
    purpose (an output softmax).
    """
    try:
        table = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, RuntimeError):  # it has none, or says so
        return False
    if type(table) is not nn.Embedding or not table.weight.requires_grad:
        return False
    if table.max_norm is not None or table.scale_grad_by_freq or table.sparse:
        return False
    owners = [
        (parent, name)
        for parent in model.modules()
        for name, parameter in (*parent.named_children(), *parent.named_parameters(recurse=False))
        if parameter is table or (parameter is table.weight and parent is not table)
    ]
    if len(owners) != 1:
        return False
    parent, name = owners[0]
    setattr(parent, name, TrainedRows(cast(nn.Embedding, table), ids))
    return True
