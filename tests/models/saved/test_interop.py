"""Our weights in transformers' layout, and back: the same numbers both ways."""

import dataclasses
import json

import numpy as np
import pytest
import torch
import toy_models
from safetensors.torch import load_file
from toy_models import change_weights
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    RobertaConfig,
    RobertaForMaskedLM,
    XLMConfig,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
    XLMWithLMHeadModel,
)

from crosslens.errors import InputError
from crosslens.models.network.encoder import EncoderConfig, Group, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.saved.interop import export_model, import_model, view_weights


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


THEIRS = {
    "bert": (
        BertForMaskedLM,
        BertConfig,
        {
            "num_hidden_layers": 3,
            "hidden_size": 24,
            "num_attention_heads": 2,
            "intermediate_size": 40,
        },
    ),
    "bert relu": (
        BertForMaskedLM,
        BertConfig,
        {
            "num_hidden_layers": 2,
            "hidden_size": 24,
            "num_attention_heads": 2,
            "intermediate_size": 40,
            "hidden_act": "relu",
        },
    ),
    "bert untied": (
        BertForMaskedLM,
        BertConfig,
        {
            "num_hidden_layers": 1,
            "hidden_size": 24,
            "num_attention_heads": 2,
            "intermediate_size": 40,
            "tie_word_embeddings": False,
        },
    ),
    "roberta": (
        RobertaForMaskedLM,
        RobertaConfig,
        {
            "num_hidden_layers": 2,
            "hidden_size": 24,
            "num_attention_heads": 3,
            "intermediate_size": 40,
            "type_vocab_size": 1,
        },
    ),
    "xlm-roberta": (
        XLMRobertaForMaskedLM,
        XLMRobertaConfig,
        {
            "num_hidden_layers": 2,
            "hidden_size": 24,
            "num_attention_heads": 3,
            "intermediate_size": 40,
            "type_vocab_size": 1,
        },
    ),
    "xlm": (
        XLMWithLMHeadModel,
        XLMConfig,
        {
            "n_layers": 2,
            "emb_dim": 24,
            "n_heads": 3,
            "n_langs": 1,
            "pad_index": 1,
            "pad_token_id": 1,
        },
    ),
}


@torch.no_grad()
def same_logits(theirs, ours, pad, language=None):
    """Logits at the real tokens of a padded batch, by both; float32, values near 1: 1e-5 is the
    room that the issue gives."""
    generator = torch.Generator().manual_seed(0)
    size = theirs.get_output_embeddings().weight.shape[0]
    ids, lengths = torch.randint(5, size, (3, 20), generator=generator), torch.tensor([20, 11, 6])
    real = torch.arange(20) < lengths[:, None]
    ids = torch.where(real, ids, torch.tensor(pad))
    reference = theirs.eval()(input_ids=ids, attention_mask=real.long()).logits
    groups = None if language is None else (Group(language, 3, 0),)
    last = ours.eval().encoder(ids, torch.arange(20).expand(3, 20), lengths, groups)[-1]
    logits = ours.scores(last, language)
    assert reference.abs().max() > 0.5  # a comparison of zeros would say nothing
    return (logits[real] - reference[real]).abs().max().item() <= 1e-5


@pytest.mark.parametrize("kind", THEIRS)
def test_a_model_of_transformers_is_read_with_the_same_logits(kind, tmp_path):
    model, config, shape = THEIRS[kind]
    words = {"n_words": 90} if kind == "xlm" else {"vocab_size": 90}
    theirs = toy_models.lively(model(config(**words, max_position_embeddings=40, **shape)))
    theirs.save_pretrained(tmp_path)
    assert same_logits(
        theirs, import_model(tmp_path), pad=1 if "roberta" in kind or kind == "xlm" else 0
    )


def test_a_causal_model_is_refused(tmp_path):
    """Read as an encoder it would look ahead: its logits would be others, without a word."""
    model, config, shape = THEIRS["xlm"]
    model(config(n_words=90, max_position_embeddings=40, causal=True, **shape)).save_pretrained(
        tmp_path
    )
    with pytest.raises(
        InputError,
        match=r"expected an encoder, got a decoder \(causal\); only encoders can be imported",
    ):
        import_model(tmp_path)


SHAPES = {
    "bert": {},
    "bert with segments and next sentences": {"segments": 2, "next_sentence": True},
    "bert untied": {"tied": False},
    "bert relu": {"activation": "relu"},
    "bert tanh": {"activation": "gelu_tanh"},
    "roberta": {"position_offset": 1, "segments": 1},
    "xlm": {"head": "plain", "init": "xlm", "language_embeddings": True},
    "xlm untied": {"head": "plain", "tied": False},
    "eager": {"attention": "eager"},
}


@pytest.mark.parametrize(
    "plan", ["", "sep=emb", "sep=1", "sep=emb,1-2", "sep=all", "sep=position,norm,transform"]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_view_is_loaded_by_transformers_with_the_same_logits(
    shape, plan, toy_tokenizer, tmp_path
):
    size = toy_tokenizer.get_vocab_size()
    config = EncoderConfig(
        vocab_size=size,
        hidden_size=16,
        layers=3,
        heads=4,
        ffn_size=64,
        max_positions=32,
        **SHAPES[shape],
    )
    sharing = SharingPlan.parse(plan, 3, tied=config.tied)
    model = toy_models.lively(MaskedLM(config, languages=("eng", "nld"), plan=sharing))
    for language in model.languages:
        export_model(model, toy_tokenizer, tmp_path / language, language=language)
        theirs, info = AutoModelForMaskedLM.from_pretrained(
            tmp_path / language, output_loading_info=True
        )
        assert not info["missing_keys"] and not info["mismatched_keys"]
        assert same_logits(theirs, model, 0, language)


def test_a_pair_of_sentences_is_read_and_decided_on_as_we_do(toy_tokenizer, tmp_path):
    """By transformers, as its users call it. Its class 0 is a sentence that follows, ours is 1."""
    config = EncoderConfig(
        vocab_size=toy_tokenizer.get_vocab_size(),
        hidden_size=16,
        layers=2,
        heads=2,
        ffn_size=32,
        max_positions=32,
        segments=2,
        next_sentence=True,
    )
    model = toy_models.lively(MaskedLM(config, languages=("eng",))).eval()
    export_model(model, toy_tokenizer, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    theirs, info = BertForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    pair = tokenizer("the cat sat", "on the mat", return_tensors="pt")
    ids, kinds = pair["input_ids"], pair["token_type_ids"]
    assert kinds[0, 0] == 0 and kinds[0, -1] == 1
    with torch.no_grad():
        found = theirs.eval()(**pair)
        places = torch.arange(ids.shape[1])[None]
        last = model.encoder(ids, places, None, None, kinds)[-1]
        ours = model.follows(torch.tanh(model.pooler(last[:, 0])))
    torch.testing.assert_close(found.prediction_logits[0], model.scores(last, "eng")[0])
    torch.testing.assert_close(found.seq_relationship_logits, ours[:, [1, 0]])
    back = import_model(tmp_path, language="eng")
    assert torch.equal(back.follows.weight, model.follows.weight)
    assert torch.equal(back.follows.bias, model.follows.bias)


def test_views_of_two_languages_differ_where_they_own_something(toy_model, toy_tokenizer):
    config = dataclasses.replace(toy_model.config, segments=0)
    model = MaskedLM(config, languages=("eng", "nld"), plan=SharingPlan.parse("sep=2", 3))
    a, b = view_weights(model, "eng"), view_weights(model, "nld")
    differ = {name for name in a if not torch.equal(a[name], b[name])}
    assert differ and all(name.startswith("encoder.layers.1.") for name in differ)
    with pytest.raises(InputError, match="language: .*got 'fra'"):
        view_weights(model, "fra")


@torch.no_grad()
def test_a_view_may_keep_only_the_rows_of_its_own_vocabulary(toy_tokenizer, tmp_path):
    """A union of vocabularies is cut down to the language's own pieces: the scores of these are the
    same."""
    size = toy_tokenizer.get_vocab_size()
    rows = np.concatenate(
        [np.arange(5), np.random.default_rng(0).permutation(np.arange(5, 2 * size))[: size - 5]]
    )
    model = toy_models.lively(
        MaskedLM(
            EncoderConfig(
                vocab_size=2 * size,
                hidden_size=16,
                layers=1,
                heads=2,
                ffn_size=24,
                max_positions=32,
            )
        )
    )
    export_model(model, toy_tokenizer, tmp_path, rows=rows)
    theirs = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    local = torch.randint(5, size, (1, 9), generator=torch.Generator().manual_seed(1))
    ours = model.eval().scores(
        model.encoder(torch.from_numpy(rows)[local], torch.arange(9)[None])[-1]
    )
    assert torch.allclose(theirs(local).logits, ours[..., torch.from_numpy(rows)], atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ({"norm_embeddings": False}, "norm_embeddings=false"),
        ({"head": "plain", "ffn_size": 24}, "a plain head with ffn_size other than 4 hidden_size"),
        ({"head": "plain", "segments": 2}, "a plain head with segments"),
        ({"position_offset": 2}, "a position offset that is not pad_id . 1"),
    ],
)
def test_shapes_that_transformers_does_not_have_are_refused(shape, reason, toy_tokenizer, tmp_path):
    config = EncoderConfig(
        **{
            "vocab_size": toy_tokenizer.get_vocab_size(),
            "hidden_size": 16,
            "heads": 2,
            "ffn_size": 64,
            "layers": 1,
            **shape,
        }
    )
    with pytest.raises(InputError, match=f"encoder: .*got {reason}"):
        export_model(MaskedLM(config), toy_tokenizer, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_tokeniser_of_another_vocabulary_is_refused(toy_model, toy_tokenizer, tmp_path):
    model = MaskedLM(dataclasses.replace(toy_model.config, vocab_size=77))
    with pytest.raises(InputError, match="tokenizer: expected"):
        export_model(model, toy_tokenizer, tmp_path / "x")


def test_export_and_import_give_the_same_bits(toy_model, originals):
    again = import_model(originals["ours"])
    assert again.config == toy_model.config
    state = again.state_dict()
    assert state.keys() == toy_model.state_dict().keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in toy_model.state_dict().items())


def test_the_same_model_is_exported_to_the_same_bytes(
    toy_model, toy_tokenizer, originals, tmp_path
):
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
        # half a unit in float16's last place
        assert torch.allclose(state[name], tensor, rtol=2**-11, atol=2**-24), name


def test_transformers_finds_every_weight_and_no_other(originals):
    _, info = BertForMaskedLM.from_pretrained(originals["ours"], output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]


def test_the_tokeniser_lies_beside_the_weights(originals, toy_tokenizer):
    tokenizer = AutoTokenizer.from_pretrained(originals["ours"])
    assert (
        tokenizer("the cat")["input_ids"] == toy_tokenizer.encode("the cat").ids
        and tokenizer.model_max_length == 32
    )


def test_a_folder_is_finished_only_when_config_json_is_there(
    toy_model, toy_tokenizer, tmp_path, monkeypatch
):
    """A resumed run takes config.json for the sign that the export is whole: it must be the last
    file."""

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("crosslens.models.saved.interop.save_tokenizer", killed)
    with pytest.raises(KeyboardInterrupt):
        export_model(toy_model, toy_tokenizer, tmp_path)
    assert not (tmp_path / "config.json").exists()


def test_other_architectures_are_refused(copy_of, originals):
    with pytest.raises(
        InputError,
        match=(
            "expected a model of type bert, roberta, xlm-roberta, xlm, got 'distilbert'; only these"
        ),
    ):
        import_model(originals["distilbert"])
    folder = copy_of("bert")
    change_config(folder, hidden_act="silu")
    with pytest.raises(
        InputError, match="expected a model with gelu or relu, got hidden_act 'silu'"
    ):
        import_model(folder)
    change_config(folder, hidden_act="gelu", is_decoder=True)
    with pytest.raises(InputError, match="expected an encoder, got a decoder"):
        import_model(folder)


def test_the_activation_that_a_roberta_may_have_is_named(copy_of):
    folder = copy_of("roberta")  # whose head has gelu, whatever its layers have
    change_config(folder, hidden_act="relu")
    with pytest.raises(InputError, match="expected a model with gelu, got hidden_act 'relu'"):
        import_model(folder)


def test_a_bert_without_its_vocabulary_head_is_refused(tmp_path):
    BertModel(
        BertConfig(
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
        )
    ).save_pretrained(tmp_path)
    with pytest.raises(
        InputError, match="expected the weights of a masked language model .bert., got none called"
    ):
        import_model(tmp_path)


def test_weights_that_are_missing_are_refused(copy_of):
    folder = copy_of("bert")
    change_weights(folder, lambda weights: weights.pop("bert.encoder.layer.1.output.dense.bias"))
    with pytest.raises(
        InputError,
        match=(
            "expected the weights of a masked language model .bert., got none called "
            "bert.encoder.layer.1.output.dense.bias"
        ),
    ):
        import_model(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_folder_without_a_model_is_refused(copy_of, name):
    folder = copy_of("bert")
    (folder / name).unlink()
    with pytest.raises(
        InputError,
        match=(
            f"expected a model folder with {name}, got none in it; give the folder that "
            f"save_pretrained wrote"
        ),
    ):
        import_model(folder)


def test_every_parameter_has_a_name_over_there(toy_model, originals):
    """As many numbers in the file as in the model, and one segment embedding of zeros more."""
    stored = load_file(originals["ours"] / "model.safetensors")
    segment = stored.pop("bert.embeddings.token_type_embeddings.weight")
    assert not segment.any()
    assert sum(t.numel() for t in stored.values()) == sum(
        p.numel() for p in MaskedLM(toy_model.config).parameters()
    )


def test_damaged_weights_are_refused_by_name(copy_of):
    path = copy_of("bert") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="model.safetensors: expected"):
        import_model(path.parent)
