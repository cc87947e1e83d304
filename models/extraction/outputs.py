"""What each layer adds to its input: the outputs of its attention and of its MLP, before the
residual is added; and what the last layer gives before the model's final normalisation
("residual").

transformers gives hidden states only. The two sub-layers are read by forward hooks on the modules
that end them, which are found by their names in the families that are listed here. Where a family
normalises a sub-layer's output before adding it (Gemma 2 and 3, OLMo 2), the normalised output is
meant, since that is what the residual stream receives. With h the hidden state below, a the
attention's output and m the MLP's, the state above is

    LayerNorm(LayerNorm(h + a) + m)     where layers are normalised after each addition (BERT and
    its kin, XLM, DistilBERT, ALBERT) h + a + m                           elsewhere; the topmost
    state has passed the model's final normalisation besides
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from crosslens.errors import refuse

__all__ = ["OUTPUTS", "captured", "check_final_norm", "find_final_norm", "output_names"]

OUTPUTS = ("hidden", "attention", "mlp", "residual")

_BERT = {"attention": r"layer\.\d+\.attention\.output\.dense", "mlp": r"layer\.\d+\.output\.dense"}
_LLAMA = {"attention": r"layers\.\d+\.self_attn\.o_proj", "mlp": r"layers\.\d+\.mlp\.down_proj"}
_NORMALISED = {
    "attention": r"layers\.\d+\.post_attention_layernorm",
    "mlp": r"layers\.\d+\.post_feedforward_layernorm",
}
_OPT = {"attention": r"layers\.\d+\.self_attn\.out_proj", "mlp": r"layers\.\d+\.fc2"}
_T5 = {
    "attention": r"block\.\d+\.layer\.0\.SelfAttention\.o",
    "mlp": r"block\.\d+\.layer\.1\.DenseReluDense\.wo",
}
_PLACES = {
    "albert": {
        "attention": r"albert_layers\.\d+\.attention\.dense",
        "mlp": r"albert_layers\.\d+\.ffn_output",
    },
    "bert": _BERT,
    "bloom": {"attention": r"h\.\d+\.self_attention\.dense", "mlp": r"h\.\d+\.mlp\.dense_4h_to_h"},
    "camembert": _BERT,
    # of each language
    "crosslens": {
        "attention": r"layers\.\d+\.[^.]+\.attention_output",
        "mlp": r"layers\.\d+\.[^.]+\.ffn_out",
    },
    "crosslens with adapters": {
        "attention": r"adapters\.\d+\.[^.]+\.attention",
        "mlp": r"adapters\.\d+\.[^.]+\.ffn",
    },
    "deberta": _BERT,
    "deberta-v2": _BERT,
    "distilbert": {"attention": r"layer\.\d+\.attention\.out_lin", "mlp": r"layer\.\d+\.ffn\.lin2"},
    "electra": _BERT,
    "eurobert": _LLAMA,
    "gemma": _LLAMA,
    "gemma2": _NORMALISED,
    "gemma3_text": _NORMALISED,
    "gpt2": {"attention": r"h\.\d+\.attn\.c_proj", "mlp": r"h\.\d+\.mlp\.c_proj"},
    "gpt_neox": {
        "attention": r"layers\.\d+\.attention\.dense",
        "mlp": r"layers\.\d+\.mlp\.dense_4h_to_h",
    },
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
    "mt5": _T5,
    "t5": _T5,
    "umt5": _T5,
    "xlm": {"attention": r"attentions\.\d+\.out_lin", "mlp": r"ffns\.\d+\.lin2"},
    "xlm-roberta": _BERT,
}


def output_names(outputs: Sequence[str], layers: int) -> list[str]:
    """Names of the arrays that some outputs of an encoder become, in order.

    Parameters
    ----------
    outputs: some of "hidden", "attention", "mlp" and "residual".
    layers: number of hidden states, the embedding layer's output included. The sub-layers are
        counted from 1, and "residual" is of the last layer alone.

    Raises
    ------
    InputError: an output that does not exist, or one twice.

    >>> output_names(["hidden", "mlp"], 3)
    ['layer_00', 'layer_01', 'layer_02', 'mlp_01', 'mlp_02']
    >>> output_names(["residual"], 13)
    ['residual_12']
    """
    _check(outputs)
    return [
        f"{'layer' if output == 'hidden' else output}_{layer:02d}"
        for output in outputs
        for layer in range({"hidden": 0, "residual": layers - 1}.get(output, 1), layers)
    ]


@contextmanager
def captured(
    model: Any, outputs: Sequence[str], layers: int, final_norm: str | None = None
) -> Iterator[dict[str, list[Tensor]]]:
    """Collect sub-layer outputs of one forward pass of ``model`` inside the ``with`` block.

    Parameters
    ----------
    model: a transformers model.
    outputs: some of :data:`OUTPUTS`; "hidden" is left to the caller, and without the others no hook
        is set.
    layers: number of hidden states, the embedding layer's output included.

    final_norm: name of the module that normalises the last layer's output, from
        :func:`find_final_norm`.

    Yields
    ------
    Output to one tensor a layer, in the order of the layers, filled by the forward pass. The hooks
    are gone after the block.

    Raises
    ------
    InputError: an output that does not exist, a family whose modules are not known here, or (after
        the pass) a layer that gave none.
    """
    _check(outputs)
    wanted = [output for output in outputs if output not in ("hidden", "residual")]
    collected: dict[str, list[Tensor]] = {output: [] for output in outputs if output != "hidden"}
    hooks = []
    try:
        if "residual" in outputs:
            check_final_norm(type(model).__name__, final_norm)
            module = model.get_submodule(final_norm)
            hooks.append(
                module.register_forward_pre_hook(
                    lambda _, given: collected["residual"].append(given[0])
                )
            )
        for output in wanted:
            for module in _modules(model, output):
                hooks.append(
                    module.register_forward_hook(
                        lambda _, __, result, to=collected[output]: to.append(result)
                    )
                )
        yield collected
    finally:
        for hook in hooks:
            hook.remove()
    for output, tensors in collected.items():
        # a part computed in chunks, or left out
        if len(tensors) != (1 if output == "residual" else layers - 1):
            expected = (
                "one state"
                if output == "residual"
                else f"one {output} output for each of {layers - 1} layers"
            )
            remedy = "ask for the hidden states only"
            refuse(f"encoder {type(model).__name__}", expected, f"{len(tensors)}", remedy)


def find_final_norm(model: Any, last_state: Callable[[], Tensor]) -> str | None:
    """The name of the module that normalises what the last layer gives, found by trying; None where
    there is none.

    It is the normalisation that stands in no layer and whose output is the last hidden state.

    Parameters
    ----------
    last_state: runs the model and returns its last hidden state.
    """
    outside = [
        (name, module)
        for name, module in model.named_modules()
        if "norm" in type(module).__name__.lower()
    ]
    given: dict[str, Any] = {}
    hooks = [
        module.register_forward_hook(lambda _, __, result, name=name: given.update({name: result}))
        for name, module in outside
        if not re.search(r"(^|\.)\d+(\.|$)", name)
    ]
    try:
        state = last_state()
    finally:
        for hook in hooks:
            hook.remove()
    same = [
        name
        for name, tensor in given.items()
        if isinstance(tensor, Tensor) and torch.equal(tensor.reshape(-1).float(), state.reshape(-1))
    ]
    return same[-1] if same else None


def check_final_norm(encoder: str, final_norm: str | None) -> None:
    """Refuse "residual" of an encoder whose last hidden state is what the last layer gives.

    Raises
    ------
    InputError: it has no final normalisation.
    """
    if final_norm is None:
        remedy = "leave residual out: the last hidden state is what the last layer gives"
        expected = f"no residual of {encoder}, which has no final normalisation"
        refuse("outputs", expected, "residual", remedy)


def _modules(model: Any, output: str) -> list[Any]:
    """The modules whose outputs are an output of each layer; ALBERT's, shared between layers, are
    called several times."""
    family = str(getattr(model.config, "model_type", ""))
    place = _PLACES.get(family, {}).get(output)
    found = [
        module
        for name, module in model.named_modules()
        if place and re.search(rf"(^|\.){place}$", name)
    ]
    if not found:
        got = f"{type(model).__name__} (model type {family!r})"
        expected = f"hidden only, or an encoder of the families {', '.join(_PLACES)}"
        refuse("outputs", expected, got, "leave attention and mlp out")
    return found


def _check(outputs: Sequence[str]) -> None:
    wrong = [output for output in outputs if output not in OUTPUTS]
    if isinstance(outputs, str) or wrong or not outputs or len(set(outputs)) < len(outputs):
        expected = f"some of {', '.join(OUTPUTS)}, each once"
        refuse("outputs", expected, f"{outputs!r}", "choose among them")
