"""Sub-layer outputs: with the model's own norms and MLPs, they make up each hidden state from the
one below."""

import pytest
import torch
from model_families import FAMILIES, VOCABULARY, load_family, save_family
from transformers import AutoConfig, AutoModel

from crosslens.errors import InputError
from crosslens.models.extraction.outputs import captured, output_names
from crosslens.models.saved.loading import load_encoder

NO_FINAL_NORM = ("bert", "distilbert", "albert", "xlm", "opt, norms last")


@pytest.fixture
def family(tmp_path_factory):
    return lambda name: load_family(name, tmp_path_factory)[1]


@pytest.fixture
def batch():
    ids = torch.randint(4, VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return ids, mask


def layer_of(model, i):
    """The module of layer i, counted from 0."""
    stack = (
        getattr(model, "encoder", None)
        or getattr(model, "transformer", None)
        or getattr(model, "decoder", None)
        or model
    )
    if hasattr(stack, "albert_layer_groups"):
        groups = stack.albert_layer_groups
        return groups[i * len(groups) // model.config.num_hidden_layers].albert_layers[0]
    return next(
        getattr(stack, name) for name in ("layer", "layers", "h", "block") if hasattr(stack, name)
    )[i]


def bert_mlp(layer, x):
    return layer.output.dense(layer.intermediate(x))


def opt_mlp(layer, x):
    return layer.fc2(layer.activation_fn(layer.fc1(x)))


def composed(style, model, i, h, a):
    """The MLP's output and the next hidden state (before any final norm), from the state and the
    attention's output."""
    if style == "xlm":
        x = model.layer_norm1[i](h + a)
        return model.ffns[i](x), model.layer_norm2[i](x + model.ffns[i](x))
    layer = layer_of(model, i)
    if style == "bert":
        attention = (
            layer.attention if hasattr(layer.attention, "LayerNorm") else layer.attention.output
        )
        x = attention.LayerNorm(h + a)
        return bert_mlp(layer, x), layer.output.LayerNorm(x + bert_mlp(layer, x))
    if style == "distilbert":
        x = layer.sa_layer_norm(h + a)
        return layer.ffn(x), layer.output_layer_norm(x + layer.ffn(x))
    if style == "albert":
        x = layer.attention.LayerNorm(h + a)
        return layer.ff_chunk(x), layer.full_layer_layer_norm(x + layer.ff_chunk(x))
    if style == "opt, norms last":
        x = layer.self_attn_layer_norm(h + a)
        return opt_mlp(layer, x), layer.final_layer_norm(x + opt_mlp(layer, x))
    mlp = {
        "modernbert": lambda x: layer.mlp(layer.mlp_norm(x)),
        "gpt2": lambda x: layer.mlp(layer.ln_2(x)),
        # beside the attention, not behind it
        "gpt_neox": lambda x: layer.mlp(layer.post_attention_layernorm(h)),
        "bloom": lambda x: layer.mlp(layer.post_attention_layernorm(x), torch.zeros_like(x)),
        "t5": lambda x: layer.layer[1].DenseReluDense(layer.layer[1].layer_norm(x)),
        "opt": lambda x: opt_mlp(layer, layer.final_layer_norm(x)),
        "llama": lambda x: layer.mlp(layer.post_attention_layernorm(x)),
        "gemma2": lambda x: layer.post_feedforward_layernorm(
            layer.mlp(layer.pre_feedforward_layernorm(x))
        ),
        "olmo2": lambda x: layer.post_feedforward_layernorm(layer.mlp(x)),
    }[style]
    return mlp(h + a), h + a + mlp(h + a)


def final_norm(model):
    stack = getattr(model, "decoder", getattr(model, "encoder", model))
    return next(
        getattr(stack, name)
        for name in ("norm", "final_norm", "ln_f", "final_layer_norm", "layer_norm")
        if hasattr(stack, name)
    )


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_each_hidden_state_is_made_of_the_one_below_and_what_the_sublayers_add(family, batch, name):
    encoder, style = family(name), FAMILIES[name][2]
    states = encoder.states(*batch, ("hidden", "attention", "mlp"))
    hidden, attention, mlp = states["hidden"], states["attention"], states["mlp"]
    assert len(hidden) == encoder.layers and len(attention) == len(mlp) == encoder.layers - 1 >= 3
    shape = (*batch[0].shape, encoder.d)
    assert {(tuple(x.shape), x.dtype) for some in states.values() for x in some} == {
        (shape, torch.float32)
    }
    real = batch[1].bool()  # some families set padding to zero afterwards
    for i, (a, m) in enumerate(zip(attention, mlp, strict=True)):
        expected_mlp, expected = composed(style, encoder.model, i, hidden[i], a)
        if i == len(mlp) - 1 and style not in NO_FINAL_NORM:
            before = encoder.states(*batch, ("residual",))["residual"]
            assert len(before) == 1 and encoder.output_names(["residual"]) == [
                f"residual_{i + 1:02d}"
            ]
            scale = float(expected.abs().max())
            torch.testing.assert_close(before[0][real], expected[real], atol=1e-5 * scale, rtol=0)
            expected = final_norm(encoder.model)(expected)
        scale = max(1.0, float(hidden[i + 1].abs().max()), float(m.abs().max()))
        torch.testing.assert_close(m[real], expected_mlp[real], atol=1e-5 * scale, rtol=0)
        torch.testing.assert_close(hidden[i + 1][real], expected[real], atol=1e-5 * scale, rtol=0)
        assert float(a[real].abs().max()) > 1e-3  # else nothing was tested


@pytest.mark.parametrize("name", ["bert", "deberta", "mpnet"])
def test_random_weights_have_no_final_norm_either(tmp_path, name):
    """Their embedding of padding is 0, and so is what every normalisation gives for it."""
    there = tmp_path / "random"
    save_family(there, name)
    AutoModel.from_config(AutoConfig.from_pretrained(there)).save_pretrained(there)
    assert load_encoder(there).final_norm is None


@pytest.mark.parametrize(
    "name", [name for name, (_, _, style) in FAMILIES.items() if style in NO_FINAL_NORM]
)
def test_a_family_without_a_final_norm_has_no_residual_before_it(family, batch, name):
    encoder = family(name)
    told = (
        "outputs: expected no residual of .*, which has no final normalisation, got residual; "
        "leave residual out: the last hidden"
    )
    for call in (
        lambda: encoder.output_names(["hidden", "residual"]),
        lambda: encoder.states(*batch, ("residual",)),
    ):
        with pytest.raises(InputError, match=told):
            call()


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_hidden_states_are_the_same_whatever_is_asked_for_besides(family, batch, name):
    encoder = family(name)
    plain = encoder.hidden_states(*batch)
    every = encoder.states(*batch, ("mlp", "hidden"))
    assert list(every) == ["mlp", "hidden"] and list(encoder.states(*batch)) == ["hidden"]
    assert all(torch.equal(a, b) for a, b in zip(plain, every["hidden"], strict=True))
    alone = encoder.states(*batch, ("mlp",))["mlp"]
    assert all(torch.equal(a, b) for a, b in zip(alone, every["mlp"], strict=True))


@torch.inference_mode()
def test_a_shared_layer_gives_one_output_a_call_in_the_order_of_the_calls(family, batch):
    encoder = family("albert in two groups")
    attention = encoder.states(*batch, ("attention",))["attention"]
    assert len(attention) == 4 and len({float(a.sum()) for a in attention}) == 4


def hooks_of(model):
    return sum(len(module._forward_hooks) for module in model.modules())


@torch.inference_mode()
def test_hooks_are_there_only_while_they_are_needed(family, batch):
    encoder = family("bert")
    before = hooks_of(encoder.model)
    with captured(encoder.model, ("hidden",), encoder.layers):
        assert hooks_of(encoder.model) == before
    with (
        pytest.raises(RuntimeError, match="stop"),
        captured(encoder.model, ("attention", "mlp"), encoder.layers),
    ):
        assert hooks_of(encoder.model) == before + 6
        raise RuntimeError("stop")
    assert hooks_of(encoder.model) == before
    encoder.states(*batch, ("mlp",))
    assert hooks_of(encoder.model) == before


def test_an_unknown_family_is_refused_by_its_name(family, batch, monkeypatch):
    encoder = family("bert")
    monkeypatch.setattr(encoder.model.config, "model_type", "nobodys")
    told = (
        r"outputs: expected hidden only, or an encoder of the families albert, bert, "
        r".*xlm-roberta, got BertModel \(model type 'nobodys'\)"
    )
    with pytest.raises(InputError, match=told):
        encoder.states(*batch, ("hidden", "attention"))
    assert len(encoder.states(*batch)["hidden"]) == 4


def test_an_mlp_that_is_computed_in_chunks_is_refused_and_not_cut(family, batch, monkeypatch):
    encoder = family("bert")
    for layer in encoder.model.encoder.layer:
        monkeypatch.setattr(layer, "chunk_size_feed_forward", 3)
    with pytest.raises(
        InputError,
        match="expected one mlp output for each of 3 layers, got 9; ask for the hidden states only",
    ):
        encoder.states(*batch, ("mlp",))


@pytest.mark.parametrize("outputs", [("hiden",), (), ("mlp", "mlp"), "hidden"])
def test_outputs_that_do_not_exist_are_refused(family, batch, outputs):
    encoder = family("bert")
    for call in (lambda: encoder.states(*batch, outputs), lambda: encoder.output_names(outputs)):
        with pytest.raises(InputError, match="outputs: expected"):
            call()


def test_names_are_in_the_order_of_the_outputs_and_layers(family):
    encoder = family("bert")
    assert encoder.output_names() == ["layer_00", "layer_01", "layer_02", "layer_03"]
    assert encoder.output_names(("mlp", "attention")) == [
        "mlp_01",
        "mlp_02",
        "mlp_03",
        "attention_01",
        "attention_02",
        "attention_03",
    ]
    assert output_names(("hidden",), 101)[-1] == "layer_100"


@torch.inference_mode()
def test_segments_reach_the_encoders_that_embed_them_and_no_others(family, batch):
    ids, mask = batch
    segments = (torch.arange(ids.shape[1]) > 4).long().expand_as(ids)
    bert = family("bert")
    expected = bert.model(
        input_ids=ids, attention_mask=mask, token_type_ids=segments, output_hidden_states=True
    ).hidden_states
    got = bert.states(ids, mask, segments=segments)["hidden"]
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    assert not torch.allclose(got[-1], bert.hidden_states(ids, mask)[-1], atol=1e-3)
    # XLM and GPT-2 would add the embedding of token 1
    for name in ("xlm-roberta", "xlm", "gpt2", "llama"):
        other = family(name)
        assert torch.equal(
            other.hidden_states(ids, mask, segments=segments)[-1],
            other.hidden_states(ids, mask)[-1],
        )


@torch.inference_mode()
def test_in_bfloat16_the_outputs_are_float32_and_close(tmp_path, batch):
    folder = save_family(tmp_path, "llama")
    outputs = ("hidden", "attention", "mlp")
    full, half = (
        load_encoder(folder, precision=precision).states(*batch, outputs)
        for precision in ("float32", "bfloat16")
    )
    real = batch[1].bool()
    for name in outputs:
        for a, b in zip(full[name], half[name], strict=True):
            assert b.dtype == torch.float32 and torch.allclose(
                a[real], b[real], atol=0.05 * float(a.abs().max())
            )
    assert not torch.equal(full["mlp"][-1], half["mlp"][-1])
