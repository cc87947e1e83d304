"""A fine-tuned encoder as a folder that transformers loads with its head, where it has such a head.

What is written is loaded again and compared with the model that it comes from, so that a head which
transformers reads otherwise is never written as if it were the same: then the folder has the encoder
alone. ``head.safetensors`` and ``head.json`` lie beside it in either case, for
:func:`crosslens.models.finetuning.load.load_fine_tuned`.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crosslens.errors import OutputError, refuse
from crosslens.files import write_json
from crosslens.models.finetuning.finetune import FineTuned
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.network.heads import AnswerHead, ClassificationHead, TaggingHead
from crosslens.models.saved.arrays import save_tensors, writing
from crosslens.progress import say

__all__ = ["save_fine_tuned"]

_HEADS: dict[type[nn.Module], str] = {
    ClassificationHead: "AutoModelForSequenceClassification",
    TaggingHead: "AutoModelForTokenClassification",
    AnswerHead: "AutoModelForQuestionAnswering",
}
# our tensor -> what it is called in transformers' models: of BERT, of RoBERTa, of answers
_NAMES: Sequence[dict[str, str]] = (
    {"classifier": "classifier", "dense": "pooler.dense"},
    {"classifier": "classifier.out_proj", "dense": "classifier.dense"},
    {"classifier": "qa_outputs"},
)
_CLOSE = 1e-4


def save_fine_tuned(tuned: FineTuned, classes: Sequence[str], folder: str | Path) -> bool:
    """Write the weights as they are now as a transformers folder; returns whether the head is in it.

    Parameters
    ----------
    classes: names of the classes, in the order of their numbers.
    folder: a new one. ``config.json`` names the classes; the tokeniser is the encoder's.

    Raises
    ------
    OutputError: the folder is there already.
    InputError: the encoder is none of transformers.
    """
    from transformers.utils import logging

    if not isinstance(tuned.model, FineTunedModel):
        expected, remedy = "an encoder that is fine-tuned", "transformers has no such head"
        refuse("tuned", expected, "features of a frozen one", f"keep {tuned.folder}: {remedy}")
    module: Any = tuned.model.whole_module()
    folder = Path(folder)
    if folder.exists():
        refuse(str(folder), "a new folder", "one that is there", "choose another", OutputError)
    if not hasattr(module, "save_pretrained"):
        name = tuned.model.encoder.name
        remedy = "export it for one language first, and fine-tune that"
        refuse("encoder", "one that transformers loads", f"{name}, of ours", remedy)
    aside = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    logging.disable_progress_bar()
    whole = _with_head(tuned, classes)
    with writing(folder):
        (module if whole is None else whole).save_pretrained(aside, safe_serialization=True)
        tuned.model.encoder.tokenizer.save_pretrained(aside)
    if whole is None:
        pool = getattr(tuned.model.head, "pool", "pooled")
        why = "" if pool == "pooled" else f" (it has one for pool pooled, this is {pool})"
        say(f"{folder}: transformers has no such head{why}; it is in head.safetensors")
    head = {name: tensor.cpu() for name, tensor in tuned.model.head.state_dict().items()}
    save_tensors(head, aside / "head.safetensors")
    kind: Any = tuned.kind
    told = {"kind": type(kind).__name__, "classes": [*classes], "settings": vars(kind)}
    write_json(aside / "head.json", told)
    os.replace(aside, folder)
    return whole is not None


@torch.no_grad()
def _with_head(tuned: FineTuned, classes: Sequence[str]) -> Any:
    """The model of transformers that gives the same scores; None where there is none."""
    import transformers

    model: Any = tuned.model
    head, module = model.head, model.whole_module()
    maker = getattr(transformers, _HEADS.get(type(head), ""), None)
    if maker is None or getattr(head, "pool", "pooled") != "pooled":
        return None
    config = type(module.config).from_dict(module.config.to_dict())
    if not isinstance(head, AnswerHead):
        config.num_labels = len(classes)
        config.id2label = dict(enumerate(classes))
        config.label2id = {name: number for number, name in enumerate(classes)}
    try:
        whole = maker.from_config(config, dtype=torch.float32)
    except ValueError:  # no such head for this family
        return None
    mine = {f"{whole.base_model_prefix}.{n}": t for n, t in module.state_dict().items()}
    there = whole.state_dict()
    for names in _NAMES:
        own = {
            _renamed(name, names, whole.base_model_prefix): tensor
            for name, tensor in head.state_dict().items()
        }
        given = {n: t for n, t in {**mine, **own}.items() if n in there}
        fits = all(there[name].shape == tensor.shape for name, tensor in given.items())
        if own.keys() <= there.keys() and fits and len(given) == len(there):
            whole.load_state_dict(given)
            return whole.eval() if _agree(tuned, whole.eval()) else None
    return None


def _renamed(name: str, names: dict[str, str], prefix: str) -> str:
    layer, _, rest = name.partition(".")
    there = names.get(layer, layer)
    return f"{prefix}.{there}.{rest}" if there.startswith("pooler") else f"{there}.{rest}"


def _agree(tuned: FineTuned, whole: Any) -> bool:
    """Whether both give the same scores of some token ids."""
    encoder, head = tuned.model.eval().encoder, tuned.model.head
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(len(encoder.tokenizer), (2, 7), generator=generator)
    ids = torch.where(ids == encoder.pad_id, ids + 1, ids).clamp(max=len(encoder.tokenizer) - 1)
    ids, mask = ids.to(encoder.device), torch.ones_like(ids).to(encoder.device)
    whole.to(encoder.device)
    states = encoder.states(ids, mask)["hidden"][-1]
    found = whole(input_ids=ids, attention_mask=mask)
    if isinstance(head, ClassificationHead):
        return _close(head(states, mask), found.logits)
    if isinstance(head, TaggingHead):
        every = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        return _close(head(states, every), found.logits)
    return _close(head(states), torch.stack([found.start_logits, found.end_logits], -1))


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool((a - b).abs().max() <= _CLOSE * (1 + b.abs().max()))
