"""Small encoders for the tests of this room: random weights in the layouts that people use."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer, SentencePieceUnigramTokenizer
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    DistilBertConfig,
    DistilBertModel,
    DistilBertTokenizer,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaTokenizer,
    XLMRobertaConfig,
    XLMRobertaModel,
    XLMRobertaTokenizer,
)

PLACES = 40  # tokens that each transformers encoder takes, special ones included

# What real text does to tokenisers: emoji (with a skin tone and a joiner), Chinese, marks that
# combine, runs of spaces, a tab, one character, and a line far beyond the longest input.
HARD = [
    "The cat sat on the mat.",
    "🙂 the dog 👩🏽‍🚀 ran 🎉🎉",
    "我们喜欢猫和狗。",
    "e\u0301te\u0301 a\u030a  cre\u0300me",
    "two  spaces   and\ta tab",
    "x",
    "кот и собака",
    "the cat and the dog " * 60,
    "the cat",
    "the dog and the mat and the cat ran on",
]


def lively(model, seed: int = 0):
    """Every parameter drawn anew, norms and biases too: at their initial 1 and 0 a mistake with
    them cannot be seen."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
            parameter.copy_(centre + 0.2 * torch.randn(parameter.shape, generator=draw))
    return model.eval()


def change_weights(folder: Path, change) -> None:
    """Let ``change`` alter the dictionary of a folder's weights."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _wordpiece() -> dict[str, int]:
    learner = BertWordPieceTokenizer(lowercase=False)
    learner.train_from_iterator(HARD, vocab_size=150, show_progress=False)
    return learner.get_vocab()


def bert(folder: Path) -> None:
    tokenizer = BertTokenizer(vocab=_wordpiece(), do_lower_case=False, model_max_length=PLACES)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=64,  # longer than what the tokeniser allows
        type_vocab_size=2,
    )
    _save(folder, BertForMaskedLM(config), tokenizer)


def distilbert(folder: Path) -> None:
    tokenizer = DistilBertTokenizer(vocab=_wordpiece(), do_lower_case=False)
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        dim=16,
        n_layers=2,
        n_heads=2,
        hidden_dim=24,
        max_position_embeddings=PLACES,
    )
    _save(folder, DistilBertModel(config), tokenizer)


def roberta(folder: Path) -> None:
    learner = ByteLevelBPETokenizer()
    learner.train_from_iterator(
        HARD,
        vocab_size=320,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    )
    learnt = json.loads(learner.to_str())["model"]
    tokenizer = RobertaTokenizer(
        vocab=learnt["vocab"], merges=[tuple(merge) for merge in learnt["merges"]]
    )
    _save(folder, RobertaForMaskedLM(RobertaConfig(**_roberta_shape(len(tokenizer)))), tokenizer)


def xlm_roberta(folder: Path) -> None:
    learner = SentencePieceUnigramTokenizer()
    learner.train_from_iterator(
        HARD,
        vocab_size=120,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
    )
    pieces = [(piece, score) for piece, score in json.loads(learner.to_str())["model"]["vocab"]]
    tokenizer = XLMRobertaTokenizer(vocab=[*pieces, ("<mask>", 0.0)])
    _save(folder, XLMRobertaModel(XLMRobertaConfig(**_roberta_shape(len(tokenizer)))), tokenizer)


def _roberta_shape(vocab_size: int) -> dict[str, int]:
    return {
        "vocab_size": vocab_size,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": PLACES + 2,  # their positions are counted from 2
        "type_vocab_size": 1,
        "pad_token_id": 1,
    }


def _save(folder: Path, model, tokenizer) -> None:
    lively(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


KINDS = {"bert": bert, "distilbert": distilbert, "roberta": roberta, "xlm-roberta": xlm_roberta}
