"""Noise on embeddings: its mean and deviation, that the seed decides it, and that evaluation has
none."""

import copy

import pytest
import torch
from test_sharing import shape
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    T5Config,
    T5EncoderModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from crosslens.errors import InputError
from crosslens.models.network.encoder import Group, MaskedLM
from crosslens.models.network.noise import NOISE, add_noise
from crosslens.models.network.surgery import set_noise

IDS = torch.arange(5, 21).repeat(2000, 1)
POSITIONS = torch.arange(16).expand(2000, 16)


def make(**changes):
    return MaskedLM(shape(norm_embeddings=False, dropout=0.0, segments=2, **changes))


def summed(model, seed=0):
    """(2000, 16, 8) sums of the embeddings."""
    torch.manual_seed(seed)
    with torch.no_grad():
        return model.encoder.embed(IDS, POSITIONS, (Group("und", 2000, 0),), None, None)


def test_the_mean_and_the_deviation_are_those_asked_for():
    torch.manual_seed(0)
    x = torch.randn(400, 500)
    noise = add_noise(x, 0.3) - x
    # 200,000 numbers: their mean is known to .3 / 447, their deviation to .3 / 632
    assert abs(noise.mean().item()) < 4 * 0.3 / 447
    assert abs(noise.std().item() - 0.3) < 4 * 0.3 / 632
    assert NOISE == 0.075 and add_noise(x, 0.0) is x and add_noise(x, training=False) is x


@pytest.mark.parametrize("cls_position", [True, False])
def test_token_position_and_segment_embeddings_are_noisy_in_training_alone(cls_position):
    """Three draws are added up, and at a [CLS] without position and segment there is one."""
    quiet, noisy = (make(noise=sigma, cls_position=cls_position) for sigma in (0.0, 0.075))
    assert torch.equal(summed(noisy.eval()), summed(quiet.train()))
    noise = summed(noisy.train()) - summed(quiet)
    for place, draws in ((noise[:, 1:], 3), (noise[:, 0], 3 if cls_position else 1)):
        wanted, n = 0.075 * draws**0.5, place.numel()
        assert abs(place.mean().item()) < 4 * wanted / n**0.5
        assert abs(place.std().item() - wanted) < 4 * wanted / (2 * n) ** 0.5
    # each token has its own: rows hold the same ids, and what they are given has nothing in common
    assert abs(torch.corrcoef(noise.flatten(1)[:2])[0, 1].item()) < 4 / 128**0.5
    assert torch.equal(noise, summed(noisy) - summed(quiet))
    assert not torch.equal(summed(noisy, seed=1), summed(noisy))


def test_noise_is_switched_on_and_off_in_a_model_that_is_there():
    model = make().train()
    before = summed(model)
    set_noise(model)
    assert (summed(model) - before).std().item() == pytest.approx(0.075 * 3**0.5, rel=0.01)
    set_noise(model, 0.0)
    assert torch.equal(summed(model), before)


SMALL = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 20,
    "hidden_dropout_prob": 0.0,
}


@pytest.mark.parametrize(
    ("made", "tables"),
    [
        (lambda: BertModel(BertConfig(**SMALL)), 3),
        (lambda: BertForMaskedLM(BertConfig(**SMALL)), 3),
        (lambda: XLMRobertaModel(XLMRobertaConfig(**SMALL)), 3),
        (lambda: DistilBertModel(DistilBertConfig(vocab_size=30, dim=8, n_layers=1, n_heads=2)), 2),
    ],
    ids=["bert", "bert with a head", "xlm-roberta", "distilbert"],
)
def test_models_of_transformers_are_noisy_where_ours_are(made, tables):
    model = made()
    embeddings = getattr(model, model.base_model_prefix, model).embeddings
    embeddings.LayerNorm, embeddings.dropout = torch.nn.Identity(), torch.nn.Identity()

    def read(model):
        torch.manual_seed(0)
        inner = getattr(model, model.base_model_prefix, model).embeddings
        with torch.no_grad():
            return inner(input_ids=IDS)

    before = read(model)
    set_noise(model, 0.1)
    set_noise(model, 0.075)  # in its place
    assert torch.equal(read(model.eval()), before)
    noise = read(model.train()) - before
    assert noise.std().item() == pytest.approx(0.075 * tables**0.5, rel=0.02)
    # each row has noise of its own, of positions, too
    assert abs(torch.corrcoef(noise.flatten(1)[:2])[0, 1].item()) < 4 / 128**0.5
    copied = copy.deepcopy(model)
    assert torch.equal(read(copied) - before, noise)
    set_noise(copied, 0.0)
    assert torch.equal(read(copied), before) and torch.equal(read(model) - before, noise)
    set_noise(model, 0.0)
    assert torch.equal(read(model), before)


def test_embeddings_of_other_kinds_are_refused_by_name():
    model = T5EncoderModel(T5Config(vocab_size=30, d_model=8, d_ff=8, num_layers=1, num_heads=2))
    with pytest.raises(InputError, match="noise: .*got T5EncoderModel"):
        set_noise(model)
    set_noise(model, 0.0)
    for sigma in (-0.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match=f"noise: expected a number from 0 .*got {sigma}"):
            set_noise(model, sigma)
