"""Tiny models of many families, each with every weight at random and a tokeniser of whole words."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from toy_models import lively
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from crosslens.models.saved.loading import load_encoder

WORDS = ["the", "cat", "sat", "on", "mat", "and", "dog", "lay", "there", "a", ",", "."]
VOCABULARY = 20
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
GROUPED = {**SHAPE, "num_key_value_heads": 1, "head_dim": 8}
# whose positions are counted from behind the padding id
BEHIND = {**SHAPE, "type_vocab_size": 1, "pad_token_id": 1}
SMALL = {"d_model": 16, "ffn_dim": 24, "max_position_embeddings": 40, "vocab_size": VOCABULARY}
OPT = {**SHAPE, "ffn_dim": 24, "word_embed_proj_dim": 16, "pad_token_id": 1}
RELATIVE = {**SHAPE, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 3,
    "num_heads": 2,
    "pad_token_id": 0,
}
ALBERT = {**SHAPE, "embedding_size": 8}
# Name to the model type, its configuration, and how its layers are put together.
FAMILIES = {
    "bert": ("bert", SHAPE, "bert"),
    "distilbert": (
        "distilbert",
        {
            "vocab_size": VOCABULARY,
            "dim": 16,
            "n_layers": 3,
            "n_heads": 2,
            "hidden_dim": 24,
            "max_position_embeddings": 40,
        },
        "distilbert",
    ),
    "roberta": ("roberta", BEHIND, "bert"),
    "xlm-roberta": ("xlm-roberta", BEHIND, "bert"),
    "camembert": ("camembert", BEHIND, "bert"),
    "mpnet": ("mpnet", BEHIND, "bert"),
    "electra": ("electra", {**SHAPE, "embedding_size": 8}, "bert"),
    "deberta": ("deberta", RELATIVE, "bert"),
    "deberta-v2": ("deberta-v2", RELATIVE, "bert"),
    "xlm": (
        "xlm",
        {
            "vocab_size": VOCABULARY,
            "emb_dim": 16,
            "n_layers": 3,
            "n_heads": 2,
            "max_position_embeddings": 40,
            "pad_index": 0,
        },
        "xlm",
    ),
    "albert": ("albert", ALBERT, "albert"),
    "albert in two groups": (
        "albert",
        {**ALBERT, "num_hidden_layers": 4, "num_hidden_groups": 2},
        "albert",
    ),
    "modernbert": (
        "modernbert",
        {**SHAPE, "global_attn_every_n_layers": 2, "local_attention": 8},
        "modernbert",
    ),
    "eurobert": ("eurobert", {**SHAPE, "num_key_value_heads": 1}, "llama"),
    "t5": ("t5", T5, "t5"),
    "mt5": ("mt5", {**T5, "feed_forward_proj": "gated-gelu"}, "t5"),
    "umt5": ("umt5", T5, "t5"),
    "gpt2": (
        "gpt2",
        {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 40},
        "gpt2",
    ),
    "gpt_neox": ("gpt_neox", SHAPE, "gpt_neox"),
    "bloom": (
        "bloom",
        {"vocab_size": VOCABULARY, "hidden_size": 16, "n_layer": 3, "n_head": 2},
        "bloom",
    ),
    "opt": ("opt", OPT, "opt"),
    "opt, norms last": ("opt", {**OPT, "do_layer_norm_before": False}, "opt, norms last"),
    "xglm": ("xglm", {**SMALL, "num_layers": 3, "attention_heads": 2}, "opt"),
    "llama": ("llama", GROUPED, "llama"),
    "mistral": ("mistral", GROUPED, "llama"),
    "qwen2": ("qwen2", GROUPED, "llama"),
    "qwen3": ("qwen3", GROUPED, "llama"),
    "phi3": ("phi3", {**SHAPE, "num_key_value_heads": 1}, "llama"),
    "gemma": ("gemma", GROUPED, "llama"),
    "gemma2": ("gemma2", {**GROUPED, "query_pre_attn_scalar": 8}, "gemma2"),
    "gemma3": ("gemma3_text", {**GROUPED, "query_pre_attn_scalar": 8}, "gemma2"),
    "olmo2": ("olmo2", {**SHAPE, "num_key_value_heads": 1}, "olmo2"),
}


LOADED = {}  # family -> folder and encoder


def save_family(folder, family, changes=None, limit=None):
    """A tiny encoder of a family with every weight at random, and a tokeniser of whole words."""
    model_type, shape, _ = FAMILIES[family]
    config = AutoConfig.for_model(model_type, **{**shape, **(changes or {})})
    lively(AutoModel.from_config(config)).save_pretrained(folder)
    special = (
        ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
        if config.pad_token_id == 1
        else ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    )
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate([*special, *WORDS])}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", special.index("[CLS]")), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    named = (
        {"unk_token": "[UNK]"}
        if config.pad_token_id is None
        else {"unk_token": "[UNK]", "pad_token": "[PAD]"}
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=limit, **named
    ).save_pretrained(folder)
    return str(folder)


def load_family(name, tmp_path_factory):
    """The folder of a tiny encoder of a family and the encoder, made once. Neither is to be
    changed."""
    if name not in LOADED:
        folder = save_family(tmp_path_factory.mktemp("family"), name)
        with torch.inference_mode(False):  # its weights serve in both modes
            LOADED[name] = folder, load_encoder(folder)
    return LOADED[name]
