"""Our weights as an ordinary transformers model folder, and back.

An exported folder holds ``config.json``, ``model.safetensors`` and the tokeniser; ``AutoModel`` and
``AutoModelForMaskedLM`` load it and give the same numbers. What is exported is one language's
*view*: the shared parts and those that the language owns. Which of transformers' classes it becomes
follows from the shape:

    head        position_offset   class
    transform   0                 BertForMaskedLM (BertForPreTraining with a next-sentence head)
    transform   above 0           RobertaForMaskedLM
    plain       0                 XLMWithLMHeadModel

:func:`import_model` reads BERT, RoBERTa, XLM-RoBERTa and XLM folders.
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save
from tokenizers import Tokenizer
from torch import Tensor

from crosslens.errors import (
    CrosslensError,
    InputError,
    StoreError,
    check_choice,
    cut,
    quote,
    refuse,
)
from crosslens.files import check_shape, read_json, write_json, write_whole
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.saved.arrays import halved, load_tensors
from crosslens.models.saved.model_files import check_file
from crosslens.models.text.tokenisation import save_tokenizer, with_segments
from crosslens.progress import say

__all__ = [
    "check_exportable",
    "export_model",
    "filled_model",
    "has_views",
    "import_model",
    "read_weights",
    "unfilled_model",
    "view_weights",
]

_WHOLE, _RESTORE = "give a whole folder", "restore the folder"


class _Bert(TypedDict):
    """What is read of the config.json of BERT, RoBERTa and their kin."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    hidden_act: NotRequired[str]
    position_embedding_type: NotRequired[str]
    is_decoder: NotRequired[bool]
    pad_token_id: NotRequired[int]
    hidden_dropout_prob: NotRequired[float]
    attention_probs_dropout_prob: NotRequired[float]
    layer_norm_eps: NotRequired[float]
    initializer_range: NotRequired[float]
    type_vocab_size: NotRequired[int]
    tie_word_embeddings: NotRequired[bool]


class _Xlm(TypedDict):
    """The same of XLM."""

    emb_dim: int
    n_layers: int
    n_heads: int
    n_langs: NotRequired[int]
    max_position_embeddings: NotRequired[int]
    dropout: NotRequired[float]
    layer_norm_eps: NotRequired[float]
    gelu_activation: NotRequired[bool]
    tie_word_embeddings: NotRequired[bool]
    pad_index: NotRequired[int]


@dataclasses.dataclass(frozen=True)
class Family:
    """One of transformers' layouts: their names for ours, "{i}" for the layer, "{qkv}" for queries,
    keys and values."""

    model_type: str
    layer: Mapping[str, str]
    rest: Mapping[str, str]
    qkv: tuple[str, str, str] = ("query", "key", "value")


def _bert_like(model_type: str, prefix: str, head: Mapping[str, str]) -> Family:
    inside = f"{prefix}.encoder.layer.{{i}}."
    return Family(
        model_type,
        {
            "qkv": inside + "attention.self.{qkv}",
            "attention_output": inside + "attention.output.dense",
            "attention_norm": inside + "attention.output.LayerNorm",
            "ffn_in": inside + "intermediate.dense",
            "ffn_out": inside + "output.dense",
            "ffn_norm": inside + "output.LayerNorm",
        },
        {
            "encoder.token": f"{prefix}.embeddings.word_embeddings",
            "encoder.position": f"{prefix}.embeddings.position_embeddings",
            "encoder.segment": f"{prefix}.embeddings.token_type_embeddings",
            "encoder.norm": f"{prefix}.embeddings.LayerNorm",
            **head,
        },
    )


_BERT = _bert_like(
    "bert",
    "bert",
    {
        "transform": "cls.predictions.transform.dense",
        "transform_norm": "cls.predictions.transform.LayerNorm",
        "output": "cls.predictions.decoder",
        "output_bias.value": "cls.predictions.bias",
        "pooler": "bert.pooler.dense",
        "follows": "cls.seq_relationship",
    },
)
_ROBERTA = _bert_like(
    "roberta",
    "roberta",
    {
        "transform": "lm_head.dense",
        "transform_norm": "lm_head.layer_norm",
        "output": "lm_head.decoder",
        "output_bias.value": "lm_head.bias",
    },
)
_XLM = Family(
    "xlm",
    {
        "qkv": "transformer.attentions.{i}.{qkv}",
        "attention_output": "transformer.attentions.{i}.out_lin",
        "attention_norm": "transformer.layer_norm1.{i}",
        "ffn_in": "transformer.ffns.{i}.lin1",
        "ffn_out": "transformer.ffns.{i}.lin2",
        "ffn_norm": "transformer.layer_norm2.{i}",
    },
    {
        "encoder.token": "transformer.embeddings",
        "encoder.position": "transformer.position_embeddings",
        "encoder.language": "transformer.lang_embeddings",
        "encoder.norm": "transformer.layer_norm_emb",
        "output": "pred_layer.proj",
        "output_bias.value": "pred_layer.proj.bias",
    },
    ("q_lin", "k_lin", "v_lin"),
)
_FAMILIES = {"bert": _BERT, "roberta": _ROBERTA, "xlm-roberta": _ROBERTA, "xlm": _XLM}
_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}
_OUR_ACTIVATION = {
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "relu": "relu",
}
_LAYER_NAME = re.compile(r"encoder\.layers\.(\d+)\.(\w+)\.(\w+)")


def _their_names(name: str, family: Family) -> list[str]:
    """Their names of one of our tensors: three for queries, keys and values, else one. KeyError
    where they have none."""
    match = _LAYER_NAME.fullmatch(name)
    if match:
        layer, part, kind = match.groups()
        pattern = f"{family.layer[part]}.{kind}"
        return [
            pattern.format(i=layer, qkv=piece) for piece in (family.qkv if part == "qkv" else ("",))
        ]
    if name in family.rest:
        return [family.rest[name]]
    part, _, kind = name.rpartition(".")
    return [f"{family.rest[part]}.{kind}"]


def _in_their_order(name: str, tensor: Tensor) -> Tensor:
    """Rows of a tensor in the order of transformers, or back: of the decision on the next sentence
    0 is theirs for one that follows, and ours for one that does not."""
    return tensor.flip(0) if name.startswith("follows.") else tensor


@torch.no_grad()
def view_weights(
    model: MaskedLM, language: str | None = None, rows: np.ndarray | None = None
) -> dict[str, Tensor]:
    """One language's view: the shared tensors and the language's own, under plain names; embeddings
    of the language folded in.

    Parameters
    ----------
    language: whose view; None where everything is shared.
    rows: (subwords,) the token ids that the language's own tokeniser knows, in its order; None keeps
        all.
    """
    language = language or model.languages[0]
    check_choice(language, "language", model.languages, "name a language that the model has")
    weights = {}
    for name, tensor in model.state_dict().items():
        if ".own_" not in name:
            weights[name.replace(".shared", "")] = tensor.detach()
        elif f".own_{language}." in name:
            weights[name.replace(f".own_{language}", "")] = tensor.detach()
    # tables that were put together, or are of another width, are one table of transformers'
    weights.pop("encoder.special.weight", None)
    weights.pop("encoder.projection.weight", None)
    weights["encoder.token.weight"] = model.encoder.token_table(language).detach()
    # one language, so one vector, added to every token: it fits into the position table
    if model.config.language_embeddings:
        vector = weights.pop("encoder.language.weight")[model.languages.index(language)]
        weights["encoder.position.weight"] = weights["encoder.position.weight"] + vector
    if rows is not None:
        index = torch.from_numpy(np.asarray(rows, np.int64))
        for name in ("encoder.token.weight", "output.weight", "output_bias.value"):
            if name in weights:
                weights[name] = weights[name][index]
    return weights


def export_model(
    model: MaskedLM,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    language: str | None = None,
    rows: np.ndarray | None = None,
    half: bool = False,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write one language's view as a model folder that transformers loads.

    Parameters
    ----------
    tokenizer: the language's tokeniser.
    language, rows: as for :func:`view_weights`.
    half: store float16 (half the size; values change by at most 1 in 2048, or by 3e-8).
    more: what else config.json is to say; transformers keeps what it does not know.

    Raises
    ------
    InputError: transformers has no class of this shape, the tokeniser is another vocabulary's, or a
        weight is too large for float16.
    """
    folder, config, family = Path(folder), model.config, _family(model.config)
    weights = view_weights(model, language, rows)
    size = weights["encoder.token.weight"].shape[0]
    if tokenizer.get_vocab_size() != size:
        refuse(
            "tokenizer",
            f"{size} subwords, the rows of the embedding",
            str(tokenizer.get_vocab_size()),
            "give the model's own",
        )
    if family is not _XLM and "encoder.segment.weight" not in weights:
        weights["encoder.segment.weight"] = torch.zeros(1, config.hidden_size)
    theirs: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        names = _their_names(name, family)
        tensor = _in_their_order(name, tensor)
        theirs.update(zip(names, tensor.chunk(len(names)), strict=True))
    if not config.tied:  # with a matrix of its own, their decoder keeps its own bias, too
        theirs[f"{family.rest['output']}.bias"] = weights["output_bias.value"].clone()
    theirs = {name: halved(one, name) if half else one.float() for name, one in theirs.items()}
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(
        folder / "model.safetensors",
        save({k: v.contiguous() for k, v in theirs.items()}, metadata={"format": "pt"}),
    )
    segments = config.trained_segments
    save_tokenizer(
        with_segments(tokenizer, segments), folder, config.max_positions, segments=segments
    )
    described = {
        **_describe(config, family),
        "vocab_size": size,
        "dtype": "float16" if half else "float32",
        **(more or {}),
    }
    write_json(folder / "config.json", described)  # last: who finds it finds a whole model


def has_views(config: EncoderConfig) -> bool:
    """Whether a language's view can be written for transformers: none of its classes has adapters
    like ours, or a [CLS] without position and segment.

    >>> has_views(EncoderConfig()), has_views(EncoderConfig(adapters=64))
    (True, False)
    """
    return not config.adapters and config.cls_position


def check_exportable(config: EncoderConfig) -> None:
    """Refuse a shape whose views :func:`export_model` could not write though it
    :func:`has_views`, before anything is trained.

    Raises
    ------
    InputError: transformers has no class of this shape.

    >>> check_exportable(EncoderConfig())
    """
    if has_views(config):
        _family(config)


def _family(config: EncoderConfig) -> Family:
    """The layout that can hold a shape."""
    plain = config.head == "plain"
    family = _XLM if plain else _ROBERTA if config.position_offset else _BERT
    reasons = {
        "adapters": config.adapters > 0,
        "cls_position=false": not config.cls_position,
        "norm_embeddings=false": not config.norm_embeddings,
        "a plain head with segments": plain and config.segments > 0,
        "a plain head with a position offset": plain and config.position_offset > 0,
        "a plain head with ffn_size other than 4 hidden_size": plain
        and config.ffn_size != 4 * config.hidden_size,
        "a plain head with gelu_tanh": plain and config.activation == "gelu_tanh",
        "a plain head that decides on next sentences": plain and config.next_sentence,
        "a position offset and a next-sentence head": family is _ROBERTA and config.next_sentence,
        "a position offset and another activation than gelu": family is _ROBERTA
        and config.activation != "gelu",
        "a position offset that is not pad_id + 1": family is _ROBERTA
        and config.position_offset != config.pad_id + 1,
    }
    for reason, true in reasons.items():
        if true:
            refuse(
                "encoder",
                "a shape that one of transformers' classes has",
                reason,
                "change it, or keep the model with save_model",
            )
    return family


def _describe(config: EncoderConfig, family: Family) -> dict[str, Any]:
    """The config.json of a shape in transformers' words."""
    if family is _XLM:
        return {
            "architectures": ["XLMWithLMHeadModel"],
            "model_type": "xlm",
            "emb_dim": config.hidden_size,
            "n_layers": config.layers,
            "n_heads": config.heads,
            "max_position_embeddings": config.max_positions,
            "dropout": config.dropout,
            "attention_dropout": config.dropout,
            "gelu_activation": config.activation == "gelu",
            "layer_norm_eps": config.norm_eps,
            "n_langs": 1,
            "use_lang_emb": False,
            "pad_index": config.pad_id,
            "pad_token_id": config.pad_id,
            "tie_word_embeddings": config.tied,
        }
    name = (
        "BertForPreTraining"
        if config.next_sentence
        else f"{family.model_type.capitalize()}ForMaskedLM"
    )
    return {
        "architectures": [name],
        "model_type": family.model_type,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.ffn_size,
        "max_position_embeddings": config.max_positions + config.position_offset,
        "type_vocab_size": max(1, config.segments),
        "hidden_act": _ACTIVATIONS[config.activation],
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        "layer_norm_eps": config.norm_eps,
        "initializer_range": config.init_std,
        "pad_token_id": config.pad_id,
        "tie_word_embeddings": config.tied,
    }


def import_model(folder: str | Path, *, language: str = "und") -> MaskedLM:
    """Read a masked language model of transformers into our encoder: BERT, RoBERTa, XLM-RoBERTa,
    XLM.

    Parameters
    ----------
    language: the code of the one language that the model is given; everything is shared, so it
        serves others as well.

    Raises
    ------
    InputError: the folder holds another architecture, or not all weights.
    """
    folder = Path(folder)
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).exists():
            refuse(
                str(folder),
                f"a model folder with {name}",
                "none in it",
                "give the folder that save_pretrained wrote",
            )
        check_file(str(folder), folder, name)
    theirs = read_json(folder / "config.json", dict, _WHOLE, InputError)
    family = _FAMILIES.get(str(theirs.get("model_type")))
    if family is None:
        known = ", ".join(_FAMILIES)
        refuse(
            str(folder),
            f"a model of type {known}",
            quote(theirs.get("model_type")),
            "only these can be imported",
        )
    check_shape(
        theirs, str(folder / "config.json"), _Xlm if family is _XLM else _Bert, _WHOLE, InputError
    )
    weights = read_weights(folder / "model.safetensors", "restore it, or give another folder")
    config = _shape_of(str(folder), theirs, family, weights)
    segments = weights.get(family.rest.get("encoder.segment", "") + ".weight")
    if segments is not None and len(segments) == 1 and not segments.any():
        # one embedding of zeros is what transformers asks for where there is none
        config = dataclasses.replace(config, segments=0)
    if (
        family is _XLM
        and "transformer.lang_embeddings.weight" in weights
        and theirs.get("n_langs", 1) > 1
    ):
        refuse(
            str(folder),
            "a model without language embeddings",
            f"{theirs['n_langs']} languages",
            "fold one in, and export it first",
        )
    state = {}
    for name in unfilled_model(folder, weights, config, languages=(language,)).state_dict():
        names = _their_names(name.replace(".shared", ""), family)
        if name == "output_bias.shared.value" and not config.tied:
            # the one that transformers adds where the head is not tied
            names = [f"{family.rest['output']}.bias"]
        for missing in (n for n in names if n not in weights):
            refuse(
                str(folder),
                f"the weights of a masked language model ({family.model_type})",
                f"none called {missing}",
                "give a whole one",
            )
        state[name] = _in_their_order(name, torch.cat([weights[n] for n in names]))
    return filled_model(folder, state, config, languages=(language,))


def read_weights(
    path: Path, remedy: str, error: type[CrosslensError] = InputError
) -> dict[str, Tensor]:
    """The tensors of a safetensors file, as float32.

    Raises
    ------
    InputError (``error``): it is no such file.
    """
    try:
        return {name: tensor.float() for name, tensor in load_tensors(path).items()}
    except (SafetensorError, OSError, ValueError, RuntimeError) as fault:
        refuse(
            str(path), "a file of weights", cut(" ".join(str(fault).split()), 300), remedy, error
        )


def unfilled_model(
    where: Path, weights: Mapping[str, Tensor], config: EncoderConfig, **told: Any
) -> MaskedLM:
    """A model that takes no memory, to be filled with weights: sizes that a file only claims cost
    nothing.

    Parameters
    ----------
    where: the folder, for the message. told: further arguments of
        :class:`crosslens.models.network.encoder.MaskedLM`.

    Raises
    ------
    StoreError: the sizes are of no model that these weights could fill.
    """
    try:
        if config.layers > len(weights):
            raise ValueError(f"{config.layers} layers, and {len(weights)} tensors to fill them")
        with torch.device("meta"):
            return MaskedLM(config, **told)
    except (ValueError, RuntimeError, OverflowError) as fault:
        refuse(
            str(where / "config.json"),
            "the sizes of the weights",
            cut(" ".join(str(fault).split()), 300),
            _RESTORE,
            StoreError,
        )


def filled_model(
    where: Path, weights: Mapping[str, Tensor], config: EncoderConfig, **told: Any
) -> MaskedLM:
    """A model with these weights, which its state then is.

    Raises
    ------
    StoreError: the model has other tensors, or tensors of other shapes.
    """
    model = unfilled_model(where, weights, config, **told)
    try:
        model.load_state_dict(dict(weights), assign=True)
    except RuntimeError as fault:
        told_by_torch = cut(" ".join(str(fault).split()), 500)
        refuse(
            str(where / "model.safetensors"),
            "the weights of this plan",
            told_by_torch,
            _RESTORE,
            StoreError,
        )
    return model


def _shape_of(
    where: str, theirs: Mapping[str, Any], family: Family, weights: Mapping[str, Tensor]
) -> EncoderConfig:
    """Our words for their config.json; defaults are those of transformers."""
    if family is _XLM:
        d = theirs["emb_dim"]
        if theirs.get("causal"):
            refuse(where, "an encoder", "a decoder (causal)", "only encoders can be imported")
        if "transformer.embeddings.weight" not in weights:
            refuse(where, "the weights of XLM", "none called transformer.embeddings.weight", _WHOLE)
        return EncoderConfig(
            vocab_size=weights["transformer.embeddings.weight"].shape[0],
            hidden_size=d,
            layers=theirs["n_layers"],
            heads=theirs["n_heads"],
            ffn_size=4 * d,
            max_positions=theirs.get("max_position_embeddings", 512),
            dropout=theirs.get("dropout", 0.1),
            norm_eps=float(theirs.get("layer_norm_eps", 1e-12)),
            activation="gelu" if theirs.get("gelu_activation", True) else "relu",
            head="plain",
            tied=theirs.get("tie_word_embeddings", True),
            pad_id=theirs.get("pad_index", 2),
            init="xlm",
        )
    activation = _OUR_ACTIVATION.get(theirs.get("hidden_act", "gelu"))
    if activation is None or (family is _ROBERTA and activation != "gelu"):
        refuse(
            where,
            "a model with gelu" if family is _ROBERTA else "a model with gelu or relu",
            f"hidden_act {theirs.get('hidden_act')!r}",
            "only these can be imported",
        )
    if theirs.get("position_embedding_type", "absolute") != "absolute":
        refuse(
            where,
            "absolute positions",
            repr(theirs["position_embedding_type"]),
            "only these can be imported",
        )
    if theirs.get("is_decoder"):
        refuse(where, "an encoder", "a decoder (is_decoder)", "only encoders can be imported")
    pad = theirs.get("pad_token_id", 1 if family is _ROBERTA else 0)
    offset = pad + 1 if family is _ROBERTA else 0
    dropout, attention = (
        theirs.get("hidden_dropout_prob", 0.1),
        theirs.get("attention_probs_dropout_prob", 0.1),
    )
    if dropout != attention:
        say(
            f"{where}: attention dropout {attention} becomes {dropout}, as everywhere else in "
            f"the model"
        )
    return EncoderConfig(
        vocab_size=theirs["vocab_size"],
        hidden_size=theirs["hidden_size"],
        layers=theirs["num_hidden_layers"],
        heads=theirs["num_attention_heads"],
        ffn_size=theirs["intermediate_size"],
        max_positions=theirs["max_position_embeddings"] - offset,
        dropout=dropout,
        norm_eps=float(theirs.get("layer_norm_eps", 1e-12)),
        init_std=float(theirs.get("initializer_range", 0.02)),
        activation=activation,
        segments=theirs.get("type_vocab_size", 2),
        position_offset=offset,
        pad_id=pad,
        tied=theirs.get("tie_word_embeddings", True),
        next_sentence=family is _BERT and "cls.seq_relationship.weight" in weights,
    )
