"""Any encoder that transformers loads, from a folder or by its hub name, with its tokeniser.

Weights are read from safetensors only, and no code from a model folder is run.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import torch

from crosslens.errors import CrosslensError, refuse
from crosslens.files import sha256_file
from crosslens.progress import is_quiet

__all__ = ["PretrainedEncoder", "encoder_fingerprint", "load_encoder", "resolve_encoder"]

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_TOKENISER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "tokenizer.model")
_TOKENISER_SETTINGS = ("tokenizer_config.json", "merges.txt")  # lower case or not, longest input
_WANTED = ["*.json", "*.safetensors", *_TOKENISER_FILES, "merges.txt"]


class PretrainedEncoder:
    """A loaded encoder.

    Attributes
    ----------
    name: short name, for reports.
    model: the transformers model, in float32 and evaluation mode.
    tokenizer: its fast tokeniser.
    layers: number of hidden states, the embedding layer's output included.
    d: width of the hidden states.
    max_length: longest input in tokens, special tokens included.
    fingerprint: 16 hexadecimal digits over configuration, weights and tokeniser (and the seed of a random copy).
    """

    def __init__(self, name: str, model: Any, tokenizer: Any, fingerprint: str) -> None:
        self.name, self.model, self.tokenizer, self.fingerprint = name, model, tokenizer, fingerprint
        self.max_length = _max_length(model, tokenizer)
        with torch.inference_mode():
            states = self.hidden_states(torch.tensor([tokenizer("a")["input_ids"]]), None)
        self.layers, self.d = len(states), int(states[0].shape[-1])

    def hidden_states(self, ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """Hidden states of every layer, each (batch, length, d), of (batch, length) token ids; mask is 1 for real tokens."""
        states = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        if not states or len({state.shape for state in states}) > 1:
            refuse(f"encoder {self.name}", "hidden states of one width", f"{len(states or ())} of several widths", "choose another encoder")
        return tuple(states)


def resolve_encoder(name: str) -> Path:
    """The folder of an encoder given as a folder or a hub name (which is downloaded unless it is in the cache).

    Raises
    ------
    InputError: no such folder or hub name, or the folder lacks weights or a tokeniser.
    """
    folder = Path(name)
    if not folder.is_dir():
        if folder.exists() or not _HUB_NAME.fullmatch(name):
            refuse("encoder", "a model folder or a hub name", f"{name!r}", "check the path")
        folder = _download(name)
    if not (folder / "config.json").exists():
        refuse(f"encoder {name}", "a model folder with config.json", "none in it", "give the folder that save_pretrained wrote")
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
        got = f"only pickled weights ({pickled[0]})" if pickled else "no weights"
        remedy = "convert them: load the model where you trust it and call save_pretrained(folder, safe_serialization=True)"
        here = pickled or not Path(name).is_dir()  # pickled weights are not even fetched from the hub
        refuse(f"encoder {name}", "weights as safetensors", got, remedy if here else "give a folder with model.safetensors")
    if not any((folder / file).exists() for file in _TOKENISER_FILES):
        refuse(f"encoder {name}", "a tokeniser (tokenizer.json)", "none in the folder", "save the tokeniser beside the weights")
    return folder


def load_encoder(name: str, *, random_seed: int | None = None) -> PretrainedEncoder:
    """Load an encoder, or a copy of it that is re-initialised at random (the control).

    Parameters
    ----------
    name: a folder, or a hub name.
    random_seed: when given, only the architecture and the tokeniser are taken; the weights are drawn anew, as the architecture
        prescribes, from this seed.

    Raises
    ------
    InputError: it cannot be loaded, or the weights do not fill the model.
    """
    folder = resolve_encoder(name)
    from transformers import AutoConfig, AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if config.is_encoder_decoder:
            raise ValueError("an encoder-decoder; only encoders and decoder-only models can be studied")
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        if random_seed is None:
            model, info = AutoModel.from_pretrained(
                folder, config=config, dtype=torch.float32, use_safetensors=True, trust_remote_code=False, output_loading_info=True
            )
            missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(random_seed)
                model, missing = AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False), []
        if missing:
            refuse(
                f"encoder {name}", "weights for the whole model", f"{len(missing)} missing ({missing[0]} ...)", "give the whole checkpoint"
            )
        if not tokenizer.is_fast:
            refuse(f"encoder {name}", "a fast tokeniser", type(tokenizer).__name__, "save it with tokenizer.json")
        fingerprint = encoder_fingerprint(folder, random_seed)
        return PretrainedEncoder(folder.resolve().name if Path(name).is_dir() else name, model.eval(), tokenizer, fingerprint)
    except CrosslensError:
        raise
    except Exception as error:  # transformers, safetensors and tokenizers raise many kinds
        got = " ".join(str(error).split())[:300] or type(error).__name__
        refuse(f"encoder {name}", "a model that transformers loads and runs", got, "check the folder")


def encoder_fingerprint(folder: Path, random_seed: int | None = None) -> str:
    """16 hexadecimal digits over the files that an encoder's numbers depend on (for a random copy: its seed instead of the weights)."""
    weights = sorted(folder.glob("*.safetensors")) if random_seed is None else []
    digest = hashlib.sha256(f"seed {random_seed}".encode())
    for path in [*weights, folder / "config.json", *(folder / name for name in (*_TOKENISER_FILES, *_TOKENISER_SETTINGS))]:
        if path.exists():
            digest.update(f"{path.name} {sha256_file(path)}\n".encode())
    return digest.hexdigest()[:16]


def _download(name: str) -> Path:
    from huggingface_hub import model_info, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if is_quiet():
        disable_progress_bars()
    from_cache = _offline()
    if not from_cache:
        try:
            model_info(name, timeout=10)  # snapshot_download itself would wait for a silent network without end
        except Exception:  # no network, or no such model: what the cache has decides
            from_cache = True
    try:
        return Path(snapshot_download(name, allow_patterns=_WANTED, ignore_patterns=["*/*"], etag_timeout=10, local_files_only=from_cache))
    except Exception as error:  # the hub client raises many kinds
        why = type(error).__name__
        refuse(
            "encoder",
            "a model folder or the name of a model on the hub",
            f"{name!r}, which could not be had ({why})",
            "check spelling and network",
        )


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")  # as the hub client reads it


def _max_length(model: Any, tokenizer: Any) -> int:
    positions = getattr(model.config, "max_position_embeddings", None) or 512
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions -= module.padding_idx + 1  # RoBERTa and its kin count positions from behind the padding id
    return int(min(positions, tokenizer.model_max_length))
