"""Adapters: what they compute, that they begin near the identity, and that each language's are its
own."""

import pytest
import torch
from test_sharing import batch, shape
from torch.nn import functional as F

from crosslens.errors import InputError
from crosslens.models.network.adapters import Adapter
from crosslens.models.network.encoder import Group, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import add_adapters, parameter_counts, sharing_table
from crosslens.models.training.optimisers import build_optimiser
from crosslens.models.training.settings import Optimisation


def make(text="sep=token,position,adapters", seed=0, languages=("a", "b"), **changes):
    config = shape(**{"adapters": 4, "dropout": 0.0, **changes})
    return MaskedLM(config, seed, languages=languages, plan=SharingPlan.parse(text, 3))


def logits(model, language="a"):
    ids = torch.arange(5, 26).view(3, 7)
    with torch.no_grad():
        states = model.eval().encoder(
            ids, torch.arange(7).expand(3, 7), None, (Group(language, 3, 0),)
        )
    return model.scores(states[-1], language)


def test_an_adapter_is_its_formula_and_its_first_weights_are_those_of_the_paper():
    """Houlsby et al. 2019: N(0, 1e-3) cut at two standard deviations, whose own is .880 of it."""
    torch.manual_seed(0)
    adapter = Adapter(200, 64)
    for linear in (adapter.down, adapter.up):
        assert linear.weight.abs().max() <= 2e-3 and not linear.bias.any()
        # 12,800 weights: the deviation is known to 1 %, the mean to 1 %
        assert abs(linear.weight.std().item() / 0.88e-3 - 1) < 0.03
        assert abs(linear.weight.mean().item()) < 0.04e-3
    x = torch.randn(5, 200)
    inner = x @ adapter.down.weight.T + adapter.down.bias
    bent = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
    expected = x + bent @ adapter.up.weight.T + adapter.up.bias
    assert torch.allclose(adapter(x), expected, atol=1e-6)


def test_without_adapters_the_weights_are_those_they_were_and_with_them_the_others_too():
    plain, adapted = make(adapters=0), make()
    state, more = plain.state_dict(), adapted.state_dict()
    assert not any("adapters" in name for name in state)
    assert all(torch.equal(tensor, more[name]) for name, tensor in state.items())
    assert {name.split(".")[1] for name in more.keys() - state.keys()} == {"adapters"}


@pytest.mark.parametrize("d", [8, 128])
def test_at_first_adapters_change_logits_by_less_than_a_thousandth(d):
    sizes = {"hidden_size": d, "heads": 2, "ffn_size": 2 * d}
    plain, adapted = (make(adapters=units, **sizes) for units in (0, 64))
    off = (logits(plain) - logits(adapted)).abs().max()
    assert 0 < off < 1e-3


def test_adapters_stand_before_the_residual_and_the_norm_of_each_block():
    """A layer of the formula of Houlsby et al., in plain steps, on weights far from the identity."""
    model = make(text="", languages=("a",)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    ids, positions = torch.arange(5, 12)[None], torch.arange(7)[None]
    with torch.no_grad():
        states = model.encoder(ids, positions)
    layer, pair = model.encoder.layers[1]["shared"], model.encoder.adapters[1]["shared"]
    h = states[1]
    q, k, v = layer.qkv(h).view(1, 7, 3, 2, 4).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 7, 8)
    h = layer.attention_norm(h + pair.attention(layer.attention_output(mixed)))
    h = layer.ffn_norm(h + pair.ffn(layer.ffn_out(F.gelu(layer.ffn_in(h)))))
    assert torch.allclose(h, states[2], atol=1e-10)


@pytest.mark.parametrize("text", ["sep=adapters", "sep=token,adapters", "sep=2", "sep=all", ""])
@pytest.mark.parametrize("places", [False, True])
def test_a_mixed_batch_is_its_languages_batches(text, places):
    model = make(text).double()
    with torch.no_grad():  # away from the identity
        for name, parameter in model.named_parameters():
            if "adapters" in name:
                parameter.add_(torch.randn_like(parameter))
    both = batch(("a", "b"))
    more = {"places": torch.tensor([[1, 4]]).expand(4, 2)} if places else {}
    model(**both, **more).backward()
    mixed = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    for half, group in enumerate(both["groups"]):
        rows = slice(2 * half, 2 * half + 2)
        ids, positions = both["ids"][rows], both["positions"][rows]
        masked, labels = both["masked"][:4], both["labels"][4 * half : 4 * half + 4]
        model(ids, positions, None, masked, labels, (group,)).backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(mixed[name], parameter.grad, atol=1e-10), name


def test_recomputed_layers_have_their_adapters():
    model = make().train()
    model(**batch(("a", "b"))).backward()
    kept = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    model.encoder.recompute = True
    model(**batch(("a", "b"))).backward()
    assert all(torch.equal(kept[name], p.grad) for name, p in model.named_parameters())


@pytest.mark.parametrize("kind", ["adamw", "adam", "lamb"])
def test_a_batch_of_one_language_leaves_the_adapters_of_the_other_untouched(kind):
    """Golden check 20: weights and what the optimiser remembers, with momentum and weight decay."""
    model = make()
    optimiser = build_optimiser(model, Optimisation(optimiser=kind, weight_decay=0.1))

    def step(language):
        model(**batch((language,))).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    step("a")
    step("b")
    own = {name: p for name, p in model.named_parameters() if ".own_b." in name}
    assert (
        sum("adapters" in name for name in own) == 3 * 2 * 4
    )  # layers, blocks, weights and biases
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    memory = {
        name: {key: value.clone() for key, value in optimiser.state[p].items()}
        for name, p in own.items()
        if p in optimiser.state
    }
    assert {name for name in own if "adapters" in name} <= memory.keys()
    step("a")
    assert all(torch.equal(before[name], p) for name, p in own.items())
    for name, kept in memory.items():
        now = optimiser.state[own[name]]
        assert all(torch.equal(value, now[key]) for key, value in kept.items())
    moved = [n for n, p in model.named_parameters() if not torch.equal(before[n], p)]
    assert sum("adapters" in name and ".own_a." in name for name in moved) == 3 * 2 * 4


def test_the_table_lists_adapters():
    row = next(row for row in sharing_table(make()) if row[0] == "adapters")
    each = 3 * 2 * (2 * 8 * 4 + 4 + 8)
    assert row == ("adapters", "-", str(each), str(each))
    shared = next(row for row in sharing_table(make("")) if row[0] == "adapters")
    assert shared == ("adapters", str(each), "-", "-")


def test_adapters_are_put_into_a_model_that_is_trained_already():
    model = make("sep=token", adapters=0)
    before = {language: logits(model, language) for language in "ab"}
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    add_adapters(model, 4, languages=["b"], seed=1)
    assert str(model.plan) == "sep=token,adapters,softmax,bias" and model.config.adapters == 4
    assert model.encoder.config == model.config
    # those of "a" are the identity: whoever was trained without them goes on being itself
    assert torch.equal(logits(model, "a"), before["a"])
    assert 0 < (logits(model, "b") - before["b"]).abs().max() < 1e-3
    now = model.state_dict()
    assert all(torch.equal(tensor, now[name]) for name, tensor in state.items())
    again = make("sep=token", adapters=0)
    add_adapters(again, 4, languages=["b"], seed=1)
    assert all(torch.equal(tensor, now[name]) for name, tensor in again.state_dict().items())
    assert parameter_counts(model)["adapters"] == parameter_counts(make())["adapters"]
    with pytest.raises(InputError, match="model: .*got one with adapters of 4"):
        add_adapters(model)
    with pytest.raises(InputError, match="languages: .*got c"):
        add_adapters(make(adapters=0), languages=["c"])
    with pytest.raises(InputError, match="bottleneck: expected 1 unit or more, got 0"):
        add_adapters(make(adapters=0), 0)
