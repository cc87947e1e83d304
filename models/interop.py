"""Our weights as an ordinary transformers model folder, and back.

The folder holds ``config.json`` (model type "bert"), ``model.safetensors`` and the
tokeniser; ``AutoModel`` and ``AutoModelForMaskedLM`` load it and give the same numbers.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save
from tokenizers import Tokenizer
from torch import Tensor

from crosslens.errors import refuse
from crosslens.files import read_json, write_json, write_whole
from crosslens.models.encoder import EncoderConfig, MaskedLM
from crosslens.models.tokenisation import SPECIAL_TOKENS, save_tokenizer

__all__ = ["export_model", "import_model"]

_LAYER = {
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "ffn_in": "intermediate.dense",
    "ffn_out": "output.dense",
    "ffn_norm": "output.LayerNorm",
}
_REST = {
    "encoder.token.weight": "bert.embeddings.word_embeddings.weight",
    "encoder.position.weight": "bert.embeddings.position_embeddings.weight",
    "encoder.norm": "bert.embeddings.LayerNorm",
    "transform_norm": "cls.predictions.transform.LayerNorm",
    "transform": "cls.predictions.transform.dense",
    "output_bias": "cls.predictions.bias",
}


def _their_name(name: str) -> str:
    """Our parameter name in BertForMaskedLM's words (queries, keys and values are handled by the callers)."""
    if name.startswith("encoder.layers."):
        _, _, layer, part, kind = name.split(".")
        return f"bert.encoder.layer.{layer}.{_LAYER[part]}.{kind}"
    for ours, theirs in _REST.items():
        if name == ours or name.startswith(f"{ours}."):
            return theirs + name[len(ours) :]
    raise KeyError(name)


def export_model(model: MaskedLM, tokenizer: Tokenizer, folder: str | Path, *, half: bool = False) -> None:
    """Write a model folder that transformers loads as ``BertForMaskedLM``.

    Parameters
    ----------
    half: store float16 (half the size; values change by at most 1 in 2048).
    """
    folder, config = Path(folder), model.config
    folder.mkdir(parents=True, exist_ok=True)
    theirs: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if ".qkv." in name:
            layer, kind = name.split(".")[2], name.split(".")[-1]
            for part, piece in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                theirs[f"bert.encoder.layer.{layer}.attention.self.{part}.{kind}"] = piece
        else:
            theirs[_their_name(name)] = tensor
    theirs["bert.embeddings.token_type_embeddings.weight"] = torch.zeros(1, config.hidden_size)
    dtype = torch.float16 if half else torch.float32
    weights = {name: tensor.to(dtype).contiguous() for name, tensor in theirs.items()}
    write_whole(folder / "model.safetensors", save(weights, metadata={"format": "pt"}))
    save_tokenizer(tokenizer, folder, config.max_positions)
    write_json(  # last: who finds it finds a whole model
        folder / "config.json",
        {
            "architectures": ["BertForMaskedLM"],
            "model_type": "bert",
            "vocab_size": config.vocab_size,
            "hidden_size": config.hidden_size,
            "num_hidden_layers": config.layers,
            "num_attention_heads": config.heads,
            "intermediate_size": config.ffn_size,
            "max_position_embeddings": config.max_positions,
            "type_vocab_size": 1,
            "hidden_act": "gelu",
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.dropout,
            "layer_norm_eps": config.norm_eps,
            "initializer_range": config.init_std,
            "pad_token_id": SPECIAL_TOKENS.index("[PAD]"),
            "tie_word_embeddings": True,
            "dtype": str(dtype).removeprefix("torch."),
        },
    )


def import_model(folder: str | Path) -> MaskedLM:
    """Read a ``BertForMaskedLM`` folder into our encoder.

    The first segment embedding is folded into the position embeddings, which changes nothing for single segments.

    Raises
    ------
    InputError: the folder holds another architecture, or not all weights.
    """
    folder = Path(folder)
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).exists():
            refuse(str(folder), f"a model folder with {name}", "none in it", "give the folder that save_pretrained wrote")
    theirs = read_json(folder / "config.json")
    if theirs.get("model_type") != "bert" or theirs.get("hidden_act", "gelu") != "gelu":
        refuse(str(folder), "a BERT model with gelu", f"model_type {theirs.get('model_type')!r}", "only BERT folders can be imported")
    if not theirs.get("tie_word_embeddings", True):
        refuse(str(folder), "a head tied to the token embeddings", "tie_word_embeddings false", "only tied heads can be imported")
    config = EncoderConfig(
        vocab_size=theirs["vocab_size"],
        hidden_size=theirs["hidden_size"],
        layers=theirs["num_hidden_layers"],
        heads=theirs["num_attention_heads"],
        ffn_size=theirs["intermediate_size"],
        max_positions=theirs["max_position_embeddings"],
        dropout=theirs.get("hidden_dropout_prob", 0.1),
        norm_eps=theirs.get("layer_norm_eps", 1e-12),
        init_std=theirs.get("initializer_range", 0.02),
    )
    model, weights = MaskedLM(config), {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    try:
        model.load_state_dict(_our_state(list(model.state_dict()), weights))
    except KeyError as error:
        refuse(str(folder), "the weights of a BertForMaskedLM", f"none called {error.args[0]}", "give a whole masked language model")
    return model


def _our_state(names: list[str], weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """BertForMaskedLM's tensors under our names; KeyError names one that is missing."""
    state = {}
    for name in names:
        if ".qkv." in name:
            layer, kind = name.split(".")[2], name.split(".")[-1]
            parts = [weights[f"bert.encoder.layer.{layer}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            state[name] = torch.cat(parts)
        else:
            state[name] = weights[_their_name(name)]
    state["encoder.position.weight"] = state["encoder.position.weight"] + weights["bert.embeddings.token_type_embeddings.weight"][0]
    return state
