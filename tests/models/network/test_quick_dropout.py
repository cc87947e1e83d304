"""Transformers models with the project's dropout."""

import pytest
import torch
from transformers import BertConfig, BertModel, XLMRobertaConfig, XLMRobertaModel

from crosslens.models.network.quick_dropout import QuickDropout, use_quick_dropout

SIZES = dict(
    vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=20,
)  # fmt: skip


def models(kind, attention, rate):
    make, config = {"bert": (BertModel, BertConfig), "xlmr": (XLMRobertaModel, XLMRobertaConfig)}[
        kind
    ]
    settings = config(
        **SIZES,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=rate,
        attn_implementation=attention,
    )
    torch.manual_seed(0)
    one = make(settings)
    torch.manual_seed(0)
    other = make(settings)
    use_quick_dropout(other)
    return one, other


IDS = torch.arange(3, 27).view(2, 12)
MASK = torch.tensor([[1] * 12, [1] * 7 + [0] * 5])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["bert", "xlmr"])
def test_without_dropout_states_and_gradients_are_those_of_transformers(kind, attention):
    one, other = models(kind, attention, 0.0)
    for model in (one, other):
        model.train()(IDS, attention_mask=MASK).last_hidden_state[MASK.bool()].pow(
            3
        ).sum().backward()
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-6, msg=name)
    with torch.no_grad():
        a, b = (m.eval()(IDS, attention_mask=MASK).last_hidden_state for m in (one, other))
    assert torch.equal(a, b)


def test_attention_drops_what_it_says():
    """The mean over many draws is what is computed without; each draw differs."""
    _, model = models("bert", "sdpa", 0.3)
    module = model.encoder.layer[0].attention.self
    torch.manual_seed(1)
    x = torch.randn(2, 12, 16)
    bias = MASK[:, None, None, :].bool()
    with torch.no_grad():
        expected = module.eval()(x, bias)[0]
        module.train()
        found = torch.stack([module(x, bias)[0] for _ in range(1500)])
    error = found.std(0) / 1500**0.5
    assert ((found.mean(0) - expected).abs() < 5.5 * error + 1e-6).all()
    assert not torch.equal(found[0], found[1])
    torch.manual_seed(2)
    again = module(x, bias)[0]
    torch.manual_seed(2)
    assert torch.equal(again, module(x, bias)[0])


def test_all_dropout_is_replaced_and_written_configurations_do_not_name_it(tmp_path):
    _, model = models("bert", "sdpa", 0.1)
    kinds = {type(m) for m in model.modules() if isinstance(m, torch.nn.Dropout)}
    assert kinds == {QuickDropout}
    model.save_pretrained(tmp_path)
    assert "quick" not in (tmp_path / "config.json").read_text()
