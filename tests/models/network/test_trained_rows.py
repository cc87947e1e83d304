"""Rows that training sees, beside the whole table under the same optimiser."""

import copy

import pytest
import torch
from torch import nn

from crosslens.models.network.trained_rows import TrainedRows, train_rows


class Toy(nn.Module):
    """A table under a linear map, as a transformers model shows its own."""

    def __init__(self, table):
        super().__init__()
        self.inner = nn.ModuleDict({"table": table})
        self.out = nn.Linear(table.embedding_dim, 1)

    def get_input_embeddings(self):
        return self.inner["table"]

    def forward(self, ids):
        return self.out(torch.tanh(self.get_input_embeddings()(ids))).sum()


def toy(**options):
    torch.manual_seed(0)
    return Toy(nn.Embedding(50, 6, **options))


IDS = torch.tensor([[3, 7, 7, 0], [41, 3, 9, 0]])


def trained(model, steps=20):
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.3, fused=True)
    for step in range(steps):
        model(IDS if step % 3 else IDS[:1]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return model.eval()


@pytest.mark.parametrize("pad", [None, 0])
def test_all_rows_end_as_if_the_whole_table_were_trained(pad):
    whole, some = toy(padding_idx=pad), toy(padding_idx=pad)
    assert train_rows(some, IDS.unique())
    before = whole.get_input_embeddings().weight.detach().clone()
    trained(whole), trained(some)
    expected = whole.get_input_embeddings().weight
    found = some.get_input_embeddings()
    assert found.rows.shape == (5, 6)
    torch.testing.assert_close(found.weight, expected, rtol=1e-5, atol=1e-7)
    assert not torch.allclose(expected[20], before[20])  # decay moves what training never sees
    assert not torch.allclose(found.weight[3], before[3] * found.others)
    everything = torch.arange(50)
    torch.testing.assert_close(found(everything), expected, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found.whole()(everything), found(everything), rtol=0, atol=0)
    assert found.whole().padding_idx == pad


def test_the_state_holds_the_rows_alone():
    some = toy()
    train_rows(some, IDS.unique())
    assert {name: tuple(t.shape) for name, t in some.state_dict().items()} == {
        "inner.table.rows": (5, 6),
        "inner.table.others": (1, 1),
        "out.weight": (1, 6),
        "out.bias": (1,),
    }


def tied():
    model = toy()
    model.second = nn.Linear(6, 50, bias=False)
    model.second.weight = model.get_input_embeddings().weight
    return model


def frozen():
    model = toy()
    model.get_input_embeddings().weight.requires_grad_(False)
    return model


class Scaled(nn.Embedding):
    """A table that does more than look up."""

    def forward(self, ids):
        return 2 * super().forward(ids)


@pytest.mark.parametrize(
    "make",
    [tied, frozen, lambda: toy(max_norm=1.0), lambda: Toy(Scaled(50, 6)), lambda: nn.Linear(2, 2)],
    ids=["tied", "frozen", "norm", "scaled", "no table"],
)
def test_what_is_more_than_a_table_stays_as_it_is(make):
    model = make()
    before = copy.deepcopy(model)
    assert not train_rows(model, IDS.unique())
    assert not any(isinstance(module, TrainedRows) for module in model.modules())
    assert [name for name, _ in model.named_parameters()] == [
        n for n, _ in before.named_parameters()
    ]
