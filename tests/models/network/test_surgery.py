"""Models taken apart: tables of who owns what, freezing, and parts plugged in from another
model."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
)

from crosslens.errors import InputError
from crosslens.models.network.encoder import EncoderConfig, Group, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import freeze, freeze_layers, plug_in, sharing_table
from crosslens.models.training.optimisers import build_optimiser
from crosslens.models.training.settings import Optimisation


def make(text="sep=emb,1", languages=("a", "b"), sizes=None, seed=0, **changes):
    shape = EncoderConfig(
        **{
            "vocab_size": 30,
            "hidden_size": 8,
            "layers": 3,
            "heads": 2,
            "ffn_size": 12,
            "max_positions": 16,
            **changes,
        }
    )
    return MaskedLM(shape, seed, languages=languages, plan=SharingPlan.parse(text, 3), sizes=sizes)


def loss_of(model, language):
    ids = torch.arange(5, 19).view(2, 7)
    masked = torch.tensor([1, 3, 9])
    return model(
        ids,
        torch.arange(7).expand(2, 7),
        None,
        masked,
        ids.flatten()[masked],
        (Group(language, 2, 3),),
    )


@pytest.mark.parametrize("text", ["", "sep=emb", "sep=emb,1-2", "sep=all", "sep=norm"])
def test_the_table_adds_up_to_the_model(text):
    model = make(text, languages=("a", "b", "c"))
    rows = sharing_table(model)
    sums = next(row for row in rows if row[0] == "sum")
    assert sum(int(cell.replace(",", "")) for cell in sums[1:]) == sum(
        p.numel() for p in model.parameters()
    )
    sees = next(row for row in rows if row[0] == "one language sees")
    alone = sum(p.numel() for p in make("", languages=("a",)).parameters())
    assert {int(cell.replace(",", "")) for cell in sees[2:]} == {alone}
    columns = [
        [int(cell.replace(",", "")) for row in rows[1:-2] if (cell := row[i]) != "-"]
        for i in range(1, 5)
    ]
    assert [sum(column) for column in columns] == [int(cell.replace(",", "")) for cell in sums[1:]]


def test_freezing_what_languages_own():
    model = make()
    count = freeze(model)
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {name for name, _ in model.named_parameters() if ".own_" in name}
    assert count == sum(p.numel() for name, p in model.named_parameters() if name in frozen)
    freeze(model, frozen=False)
    assert all(p.requires_grad for p in model.parameters())


def test_freezing_one_language_or_some_parts():
    model = make()
    freeze(model, languages=["b"])
    assert {name for name, p in model.named_parameters() if not p.requires_grad} == {
        n for n, _ in model.named_parameters() if ".own_b." in n
    }
    model = make()
    freeze(model, ["3", "transform"])
    names = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert names == {
        n
        for n, _ in model.named_parameters()
        if n.startswith(("encoder.layers.2.", "transform.", "transform_norm."))
    }


def test_frozen_parts_stay_bit_by_bit_and_the_others_move():
    model = make()
    freeze(model, languages=["a"])
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = build_optimiser(model, Optimisation(weight_decay=0.3, peak_rate=0.01))
    loss_of(model, "a").backward()
    optimiser.step()
    for name, parameter in model.named_parameters():
        still = torch.equal(before[name], parameter)
        assert still == (".own_" in name or name == "encoder.segment"), name


def test_freezing_nothing_is_refused():
    with pytest.raises(InputError, match="parts: .*got nothing"):
        freeze(make(""))
    with pytest.raises(InputError, match="parts: .*got layer-1"):
        freeze(make(), ["layer-1"])


@pytest.mark.parametrize("n", [-1, 0, 3, 6, 9])
@pytest.mark.parametrize("kind", ["bert", "bert with a head", "ours"])
def test_freezing_the_lower_layers(kind, n):
    """Golden check 17. BERT has 5 tensors in its embeddings and 16 in a layer; frozen ones stay as
    they are under weight decay."""
    config = BertConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=10,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=16,
    )
    if kind == "bert":
        model, embeddings, layer, head = BertModel(config, add_pooling_layer=False), 5, 16, 0
    elif kind == "bert with a head":
        model, embeddings, layer, head = BertForMaskedLM(config), 5, 16, 5
    else:
        model, embeddings, layer, head = make("", layers=10), 4, 12, 5
    total = embeddings + 10 * layer + head
    left = freeze_layers(model, n)
    assert left == total - (0 if n < 0 else embeddings + n * layer)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    ids = torch.arange(5, 19).view(2, 7)
    loss = loss_of(model, "a") if kind == "ours" else model(input_ids=ids)[0].square().mean()
    optimiser = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=0.01, weight_decay=0.1
    )
    loss.backward()
    optimiser.step()
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad or torch.equal(before[name], parameter), name
    assert any(not torch.equal(before[name], p) for name, p in model.named_parameters())


def test_a_map_from_narrow_embeddings_to_the_layers_is_frozen_with_them():
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12}
    model = ElectraModel(
        ElectraConfig(vocab_size=30, embedding_size=4, num_hidden_layers=2, **sizes)
    )
    assert freeze_layers(model, 0) == 2 * 16
    assert not any(p.requires_grad for p in model.embeddings_project.parameters())


def test_freezing_refuses_what_it_does_not_know():
    with pytest.raises(InputError, match="n: .*got 4"):
        freeze_layers(make(), 4)
    with pytest.raises(InputError, match="model: .*got Linear"):
        freeze_layers(torch.nn.Linear(2, 2), 1)
    shape = DistilBertConfig(vocab_size=30, dim=8, n_layers=2, n_heads=2, hidden_dim=12)
    assert freeze_layers(DistilBertModel(shape), 1) == 16  # one layer of two is left


def test_parts_of_another_model_replace_a_languages_own():
    model, donor = make(seed=0), make(seed=1)
    shared = {
        name: p.detach().clone() for name, p in model.named_parameters() if ".own_b" not in name
    }
    plug_in(model, "b", donor)
    for name, parameter in model.named_parameters():
        expected = dict(donor.named_parameters())[name] if ".own_b." in name else shared[name]
        assert torch.equal(parameter, expected), name
    donor.encoder.token.of("b").weight.data.zero_()
    assert model.encoder.token.of("b").weight.abs().max() > 0  # a copy, not the donor's own


def test_what_is_plugged_in_is_computed_as_the_model_is():
    """Dropout and the way attention is computed are no part of what the donor learnt."""
    told = [{"dropout": 0.0, "attention": "sdpa"}, {"dropout": 0.5, "attention": "eager"}]
    for here, there in (told, told[::-1]):
        model, donor = make("sep=all", **here), make("sep=all", **there)
        plug_in(model, "b", donor)
        plug_in(model, "c", donor, "b")
        for layer in (one.of(language) for one in model.encoder.layers for language in "abc"):
            assert layer.rate == here["dropout"] and layer.eager == (here["attention"] == "eager")
        layer = donor.encoder.layers[0].of("b")
        assert layer.rate == there["dropout"]  # the donor stays as it was


def test_a_new_language_is_added_with_the_parts_of_a_monolingual_model():
    """As in MonoTrans: another vocabulary's embeddings under an English body."""
    model = make("sep=emb", sizes={"a": 30, "b": 25})
    monolingual = make("", languages=("x",), sizes={"x": 40}, vocab_size=40, seed=3)
    before = loss_of(model, "a")
    plug_in(model, "c", monolingual)
    assert model.languages == ("a", "b", "c") and model.sizes == {"a": 30, "b": 25, "c": 40}
    assert model.scores(torch.zeros(1, 8), "c").shape == (1, 40)
    assert torch.isfinite(loss_of(model, "c")) and loss_of(model, "c") != before
    assert torch.equal(
        model.encoder.position.of("c").weight, monolingual.encoder.position.of("x").weight
    )


def test_language_embeddings_grow_with_the_languages():
    model = make("sep=1", language_embeddings=True)
    plug_in(model, "c", make("sep=1", seed=2), "b")
    assert model.encoder.language.weight.shape[0] == 3 and torch.isfinite(loss_of(model, "c"))
    assert model.encoder.language.weight.requires_grad
    freeze(model, ["language"])
    plug_in(model, "d", make("sep=1", seed=3), "b")
    assert not model.encoder.language.weight.requires_grad


def test_plugging_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="model: .*got sep=none"):
        plug_in(make(""), "a", make(""))
    with pytest.raises(InputError, match=r"donor: .*got \(48, 16\)"):
        plug_in(make("sep=1"), "a", make("sep=1", hidden_size=16))
    with pytest.raises(InputError, match="language: .*got 'c.d'"):
        plug_in(make(), "c.d", make(), "a")
    # their tensors have the shapes of the model's, and it would compute other numbers with them
    for plan, changes in (
        ("sep=1", {"heads": 4}),
        ("sep=1", {"activation": "relu"}),
        ("sep=norm", {"norm_eps": 1e-3}),
        ("sep=transform", {"activation": "relu"}),
        ("sep=position", {"position_offset": 2, "max_positions": 14}),
    ):
        name, value = next(iter(changes.items()))
        with pytest.raises(InputError, match=rf"donor: expected encoder.{name} = .*got {value!r}"):
            plug_in(make(plan), "a", make(plan, **changes))
    plug_in(make("sep=emb"), "a", make("sep=emb", heads=4))  # embeddings have no heads
    for norms in (True, False):
        pair = (make("sep=adapters", adapters=4, adapter_norms=one) for one in (norms, not norms))
        with pytest.raises(InputError, match=r"donor: .*got one with.* attention_norm.bias"):
            plug_in(next(pair), "a", next(pair))
