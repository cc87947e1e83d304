"""Token embeddings of another width than the model's: a projection, the same in and out."""

import pytest
import torch
from transformers import AutoModelForMaskedLM

from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import freeze_layers, parameter_counts
from crosslens.models.saved.interop import export_model, view_weights
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.text.vocabularies import learn_vocabularies

LINES = ["a cat and a dog", "a dog and a red cat"] * 9


@pytest.fixture(scope="module", params=[False, True], ids=["one table", "special table"])
def made(request):
    how = Vocabulary(size=30, kind="bpe", sentences=9, mode="separate")
    vocabulary = learn_vocabularies({"eng": LINES}, how, seed=0)
    size = vocabulary.sizes["eng"]
    config = EncoderConfig(
        vocab_size=size,
        hidden_size=8,
        layers=2,
        heads=2,
        ffn_size=12,
        max_positions=16,
        embedding_size=20,
        special_table=request.param,
    )
    plan = SharingPlan.parse("sep=token", 2)
    return MaskedLM(config, 1, languages=("eng",), plan=plan).eval(), vocabulary


def test_a_view_for_transformers_has_the_product_as_its_table(made, tmp_path):
    model, vocabulary = made
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
        tokenizer = vocabulary.tokenizers["eng"]
        export_model(model, tokenizer, tmp_path, language="eng")
        theirs = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
        ids = torch.tensor([tokenizer.encode(LINES[1]).ids])
        places = torch.arange(ids.shape[1])[None]
        states = model.encoder(ids, places)
        found = theirs(ids, output_hidden_states=True)
        for mine, other in zip(states, found.hidden_states, strict=True):
            torch.testing.assert_close(mine, other, atol=2e-5, rtol=1e-4)
        scores = model.scores(states[-1][0])
        torch.testing.assert_close(scores, found.logits[0], atol=1e-4, rtol=1e-4)
        rows = model.encoder.token_rows("eng")
        assert rows.shape == (model.sizes["eng"], 20)
        table = rows @ model.encoder.projection.weight.T
        torch.testing.assert_close(view_weights(model)["encoder.token.weight"], table)


def test_the_projection_is_shared_and_belongs_to_the_embeddings(made):
    model, _ = made
    counts = parameter_counts(model)
    assert counts["projection"] == {"": 160, "eng": 0}
    freeze_layers(model, 0)
    assert not model.encoder.projection.weight.requires_grad
    assert not model.encoder.token.of("eng").weight.requires_grad
    model.requires_grad_(True)
