"""Our weights in transformers' layout, and back: the same numbers both ways."""

import json

import pytest
import torch
from safetensors.torch import load_file
from toy_models import change_weights
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertModel

from crosslens.errors import InputError
from crosslens.models.encoder import MaskedLM
from crosslens.models.interop import export_model, import_model


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@torch.no_grad()
def test_a_random_bert_is_read_with_the_same_logits(originals):
    theirs, ours = BertForMaskedLM.from_pretrained(originals["bert"]).eval(), import_model(originals["bert"]).eval()
    ids, lengths = torch.randint(5, 80, (3, 20), generator=torch.Generator().manual_seed(0)), torch.tensor([20, 11, 6])
    real = torch.arange(20) < lengths[:, None]
    reference = theirs(input_ids=ids, attention_mask=real.long()).logits
    logits = ours.scores(ours.encoder(ids, torch.arange(20).expand(3, 20), lengths)[-1])
    assert torch.allclose(logits[real], reference[real], atol=1e-5)  # float32, values near 1


def test_export_and_import_give_the_same_bits(toy_model, originals):
    again = import_model(originals["ours"])
    assert again.config == toy_model.config
    state = again.state_dict()
    assert state.keys() == toy_model.state_dict().keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in toy_model.state_dict().items())


def test_the_same_model_is_exported_to_the_same_bytes(toy_model, toy_tokenizer, originals, tmp_path):
    export_model(toy_model, toy_tokenizer, tmp_path)
    for path in originals["ours"].iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_half_writes_float16_within_its_rounding(toy_model, toy_tokenizer, tmp_path):
    export_model(toy_model, toy_tokenizer, tmp_path, half=True)
    stored = load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float16"
    state = import_model(tmp_path).state_dict()
    for name, tensor in toy_model.state_dict().items():
        assert state[name].dtype == torch.float32
        assert torch.allclose(state[name], tensor, rtol=2**-11, atol=2**-24), name  # half a unit in float16's last place


def test_transformers_finds_every_weight_and_no_other(originals):
    _, info = BertForMaskedLM.from_pretrained(originals["ours"], output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]


def test_the_tokeniser_lies_beside_the_weights(originals, toy_tokenizer):
    tokenizer = AutoTokenizer.from_pretrained(originals["ours"])
    assert tokenizer("the cat")["input_ids"] == toy_tokenizer.encode("the cat").ids and tokenizer.model_max_length == 32


def test_a_folder_is_finished_only_when_config_json_is_there(toy_model, toy_tokenizer, tmp_path, monkeypatch):
    """A resumed run takes config.json for the sign that the export is whole: it must be the last file."""

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("crosslens.models.interop.save_tokenizer", killed)
    with pytest.raises(KeyboardInterrupt):
        export_model(toy_model, toy_tokenizer, tmp_path)
    assert not (tmp_path / "config.json").exists()


def test_other_architectures_are_refused(copy_of, originals):
    with pytest.raises(InputError, match="expected a BERT model with gelu, got model_type 'roberta'; only BERT folders can be imported"):
        import_model(originals["roberta"])
    folder = copy_of("bert")
    change_config(folder, hidden_act="relu")
    with pytest.raises(InputError, match="expected a BERT model with gelu, got model_type 'bert'"):
        import_model(folder)


def test_a_bert_without_its_vocabulary_head_is_refused(tmp_path):
    BertModel(BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)).save_pretrained(
        tmp_path
    )
    with pytest.raises(InputError, match="expected the weights of a BertForMaskedLM, got none called"):
        import_model(tmp_path)


def test_weights_that_are_missing_are_refused(copy_of):
    folder = copy_of("bert")
    change_weights(folder, lambda weights: weights.pop("bert.encoder.layer.1.output.dense.bias"))
    with pytest.raises(
        InputError, match="expected the weights of a BertForMaskedLM, got none called bert.encoder.layer.1.output.dense.bias"
    ):
        import_model(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_folder_without_a_model_is_refused(copy_of, name):
    folder = copy_of("bert")
    (folder / name).unlink()
    with pytest.raises(
        InputError, match=f"expected a model folder with {name}, got none in it; give the folder that save_pretrained wrote"
    ):
        import_model(folder)


def test_a_head_of_its_own_is_refused(copy_of):
    folder = copy_of("bert")
    change_config(folder, tie_word_embeddings=False)
    with pytest.raises(InputError, match="expected a head tied to the token embeddings, got tie_word_embeddings false; only tied heads"):
        import_model(folder)


def test_every_parameter_has_a_name_over_there(toy_model, originals):
    """As many numbers in the file as in the model, and one segment embedding of zeros more."""
    stored = load_file(originals["ours"] / "model.safetensors")
    segment = stored.pop("bert.embeddings.token_type_embeddings.weight")
    assert not segment.any()
    assert sum(t.numel() for t in stored.values()) == sum(p.numel() for p in MaskedLM(toy_model.config).parameters())
