"""What each layer adds to its input: the outputs of its attention and of its MLP, before the residual is added.

transformers gives hidden states only. The two sub-layers are read by forward hooks on the modules that end them, which are found
by their names in the families that are listed here. Where a family normalises a sub-layer's output before adding it (Gemma 2 and 3,
OLMo 2), the normalised output is meant, since that is what the residual stream receives. With h the hidden state below, a the
attention's output and m the MLP's, the state above is

    LayerNorm(LayerNorm(h + a) + m)     where layers are normalised after each addition (BERT and its kin, XLM, DistilBERT, ALBERT)
    h + a + m                           elsewhere; the topmost state has passed the model's final normalisation besides
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from crosslens.errors import refuse

__all__ = ["OUTPUTS", "captured", "output_names"]

OUTPUTS = ("hidden", "attention", "mlp")

_BERT = {"attention": r"layer\.\d+\.attention\.output\.dense", "mlp": r"layer\.\d+\.output\.dense"}
_LLAMA = {"attention": r"layers\.\d+\.self_attn\.o_proj", "mlp": r"layers\.\d+\.mlp\.down_proj"}
_NORMALISED = {"attention": r"layers\.\d+\.post_attention_layernorm", "mlp": r"layers\.\d+\.post_feedforward_layernorm"}
_OPT = {"attention": r"layers\.\d+\.self_attn\.out_proj", "mlp": r"layers\.\d+\.fc2"}
_PLACES = {
    "albert": {"attention": r"albert_layers\.\d+\.attention\.dense", "mlp": r"albert_layers\.\d+\.ffn_output"},
    "bert": _BERT,
    "bloom": {"attention": r"h\.\d+\.self_attention\.dense", "mlp": r"h\.\d+\.mlp\.dense_4h_to_h"},
    "camembert": _BERT,
    "deberta": _BERT,
    "deberta-v2": _BERT,
    "distilbert": {"attention": r"layer\.\d+\.attention\.out_lin", "mlp": r"layer\.\d+\.ffn\.lin2"},
    "electra": _BERT,
    "eurobert": _LLAMA,
    "gemma": _LLAMA,
    "gemma2": _NORMALISED,
    "gemma3_text": _NORMALISED,
    "gpt2": {"attention": r"h\.\d+\.attn\.c_proj", "mlp": r"h\.\d+\.mlp\.c_proj"},
    "gpt_neox": {"attention": r"layers\.\d+\.attention\.dense", "mlp": r"layers\.\d+\.mlp\.dense_4h_to_h"},
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "modernbert": {"attention": r"layers\.\d+\.attn\.Wo", "mlp": r"layers\.\d+\.mlp\.Wo"},
    "mpnet": {"attention": r"layer\.\d+\.attention\.attn\.o", "mlp": r"layer\.\d+\.output\.dense"},
    "olmo2": _NORMALISED,
    "opt": _OPT,
    "phi3": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "roberta": _BERT,
    "xglm": _OPT,
    "xlm": {"attention": r"attentions\.\d+\.out_lin", "mlp": r"ffns\.\d+\.lin2"},
    "xlm-roberta": _BERT,
}


def output_names(outputs: Sequence[str], layers: int) -> list[str]:
    """Names of the arrays that some outputs of an encoder become, in order.

    Parameters
    ----------
    outputs: some of "hidden", "attention" and "mlp".
    layers: number of hidden states, the embedding layer's output included. The sub-layers are counted from 1.

    Raises
    ------
    InputError: an output that does not exist, or one twice.

    >>> output_names(["hidden", "mlp"], 3)
    ['layer_00', 'layer_01', 'layer_02', 'mlp_01', 'mlp_02']
    """
    _check(outputs)
    return [
        f"{'layer' if output == 'hidden' else output}_{layer:02d}"
        for output in outputs
        for layer in range(0 if output == "hidden" else 1, layers)
    ]


@contextmanager
def captured(model: Any, outputs: Sequence[str], layers: int) -> Iterator[dict[str, list[Tensor]]]:
    """Collect sub-layer outputs of one forward pass of ``model`` inside the ``with`` block.

    Parameters
    ----------
    model: a transformers model.
    outputs: some of "hidden", "attention" and "mlp"; "hidden" is left to the caller, and without the others no hook is set.
    layers: number of hidden states, the embedding layer's output included.

    Yields
    ------
    Output to one tensor a layer, in the order of the layers, filled by the forward pass. The hooks are gone after the block.

    Raises
    ------
    InputError: an output that does not exist, a family whose modules are not known here, or (after the pass) a layer that gave none.
    """
    _check(outputs)
    wanted = [output for output in outputs if output != "hidden"]
    collected: dict[str, list[Tensor]] = {output: [] for output in wanted}
    hooks = []
    try:
        for output in wanted:
            for module in _modules(model, output):
                hooks.append(module.register_forward_hook(lambda _, __, result, to=collected[output]: to.append(result)))
        yield collected
    finally:
        for hook in hooks:
            hook.remove()
    for output, tensors in collected.items():
        if len(tensors) != layers - 1:  # a part computed in chunks, or left out
            expected = f"one {output} output for each of {layers - 1} layers"
            refuse(f"encoder {type(model).__name__}", expected, f"{len(tensors)}", "ask for the hidden states only")


def _modules(model: Any, output: str) -> list[Any]:
    """The modules whose outputs are an output of each layer; ALBERT's, shared between layers, are called several times."""
    family = str(getattr(model.config, "model_type", ""))
    place = _PLACES.get(family, {}).get(output)
    found = [module for name, module in model.named_modules() if place and re.search(rf"(^|\.){place}$", name)]
    if not found:
        got = f"{type(model).__name__} (model type {family!r})"
        refuse("outputs", f"hidden only, or an encoder of the families {', '.join(_PLACES)}", got, "leave attention and mlp out")
    return found


def _check(outputs: Sequence[str]) -> None:
    wrong = [output for output in outputs if output not in OUTPUTS]
    if isinstance(outputs, str) or wrong or not outputs or len(set(outputs)) < len(outputs):
        refuse("outputs", f"some of {', '.join(OUTPUTS)}, each once", f"{outputs!r}", "choose among them")
