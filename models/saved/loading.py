"""A folder or hub name to an encoder with its tokeniser."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from crosslens.errors import CrosslensError, check_choice, panics_as_errors, refuse
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.machine.precision import remark_slow_bfloat16
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.saved.locate import encoder_fingerprint, hub_commit, resolve_encoder
from crosslens.models.saved.model_files import find_model_files, is_native
from crosslens.models.saved.native import load_model, load_unfinished
from crosslens.models.saved.native_encoder import NativeEncoder
from crosslens.models.saved.pretrained import PretrainedEncoder
from crosslens.models.saved.xlm_tokeniser import with_offsets
from crosslens.progress import say

__all__ = [
    "call_by_folder",
    "encoder_class",
    "find_tokenizer",
    "load_encoder",
    "make_model",
    "opened",
    "refuse_missing",
    "unread_layers",
]

# parameters for each byte of weights (of 4 bits, or shared), and whatever the weights
_PER_BYTE, _PARAMETERS = 4, 1 << 24
_NUMBER = re.compile(r"\.(\d+)(?=\.)")  # of a layer, in the name of a weight


def load_encoder(
    name: str | Path,
    *,
    random_seed: int | None = None,
    trust_remote_code: bool = False,
    device: str = "cpu",
    precision: str = "float32",
    revision: str | None = None,
    language: str | None = None,
) -> Encoder:
    """Load an encoder, or a copy of it that is re-initialised at random (the control).

    Any encoder, decoder or encoder half that transformers loads will do; and what `crosslens train`
    leaves: a finished model with modules of each language, or a checkpoint in its run's folder.
    Weights are read from safetensors only.

    Parameters
    ----------
    name: a folder; or a name on the hub, such as "xlm-roberta-base", which is downloaded once.
    random_seed: when given, only the architecture and the tokeniser are taken; the weights are
        sampled anew, as the architecture prescribes, from this seed.
    trust_remote_code: run the Python code that the folder brings for its model or its tokeniser.
    device: "cpu", "cuda", "cuda:1" or "mps".
    precision: of the matrix products, "float32" or "bfloat16" (autocast); weights and what is
        returned stay float32.
    revision: for a hub name, the commit, tag or branch to take.
    language: the language that the encoder is told (XLM), by its own name for it or by a code, or
        whose modules it uses (ours); without it, that of each text.

    Raises
    ------
    InputError: it cannot be loaded, the weights do not fill the model, it wants code of its own to
        be run, its states depend on the other texts of a batch; the device is not there; or it does
        not have the language, or takes none.

    >>> import crosslens as cl
    >>> from crosslens.recipes.quickstart import DATA  # the encoder that the package carries
    >>> cl.load_encoder(DATA / "tiny-encoder")
    Encoder(tiny-encoder, layers 0–4 × 128, up to 128 tokens)
    >>> cl.load_encoder(DATA / "tiny-encoder", random_seed=0)
    Encoder(tiny-encoder, random weights of seed 0, layers 0–4 × 128, up to 128 tokens)
    """
    name = str(name)
    _check_device(device, precision)
    remark_slow_bfloat16(device, precision)
    folder = resolve_encoder(name, trust_remote_code=trust_remote_code, revision=revision)
    if is_native(folder):
        return _native(name, folder, random_seed, device, precision, language)
    plain = (device, precision) == ("cpu", "float32")
    remedy = (
        "check the folder"
        if plain
        else "check the folder, or whether it runs on the cpu in float32"
    )
    with opened(name, folder, "a model that transformers loads and runs", remedy) as view:
        model, tokenizer = _load(name, view, random_seed, trust_remote_code)
        call_by_folder(folder, model, tokenizer)
        short = folder.resolve().name if Path(name).is_dir() else name
        mark = encoder_fingerprint(folder, random_seed)
        commit = "" if Path(name).is_dir() else hub_commit(folder) or revision or ""
        told: dict[str, Any] = {
            "device": device,
            "precision": precision,
            "revision": commit,
            "random_seed": random_seed,
        }
        encoder = PretrainedEncoder(short, model, tokenizer, mark, **told)
        return encoder if language is None else encoder.in_language(language)


def _check_device(device: str, precision: str) -> None:
    """Refuse a device that is not there, or a precision that is none."""
    check_choice(precision, "precision", ("float32", "bfloat16"))
    match = re.fullmatch(r"cpu|mps|cuda(?::(\d+))?", device)
    if not match:
        refuse("device", "cpu, cuda, cuda:NUMBER or mps", f"{device!r}", "choose one of them")
    if device == "mps" and not torch.backends.mps.is_available():
        refuse("device", "one that is there", "mps, and this machine has none", "use cpu")
    if device.startswith("cuda"):
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(match[1] or 0) >= there:
            remedy = (
                f"choose one from cuda:0 to cuda:{there - 1}"
                if there
                else "use cpu, or install a torch that fits the GPU"
            )
            refuse("device", "one that is there", f"{device}, and torch finds {there} GPUs", remedy)


def _native(
    name: str, folder: Path, seed: int | None, device: str, precision: str, language: str | None
) -> NativeEncoder:
    """An encoder of ours with the modules of several languages, or of a checkpoint."""
    model, vocabularies = (load_model if (folder / "config.json").exists() else load_unfinished)(
        folder
    )
    if seed is not None:
        model = MaskedLM(
            model.config, seed, languages=model.languages, plan=model.plan, sizes=model.sizes
        )
    mark = encoder_fingerprint(folder, seed)
    encoder = NativeEncoder(
        folder.resolve().name,
        model,
        vocabularies,
        mark,
        device=device,
        precision=precision,
        random_seed=seed,
    )
    return encoder if language is None else encoder.in_language(language)


@contextlib.contextmanager
def opened(name: str, folder: Path, expected: str, remedy: str) -> Iterator[Path]:
    """A folder with nothing but the files of an encoder, for transformers; whatever goes wrong in
    the block becomes a refusal.

    Parameters
    ----------
    name: what the encoder is called in messages.
    folder: from :func:`resolve_encoder`.
    expected, remedy: what a refusal says.
    """
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with find_model_files(name, folder).view() as view:
        try:
            with panics_as_errors():
                yield view
        except CrosslensError:
            raise
        except Exception as error:  # transformers, safetensors and tokenizers raise many kinds
            got = " ".join(str(error).replace(str(view), str(folder)).split())
            refuse(f"encoder {name}", expected, got[:300] or type(error).__name__, remedy)


def call_by_folder(folder: Path, model: Any, tokenizer: Any) -> None:
    """Let a model and its tokeniser name the folder that they come from, in place of the temporary
    one they were read through."""
    model.config.name_or_path = model.name_or_path = tokenizer.name_or_path = str(folder)


def _load(name: str, folder: Path, random_seed: int | None, trusted: bool) -> tuple[Any, Any]:
    """The model, whole and in evaluation mode, and its tokeniser."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, trust_remote_code=trusted)
    maker = encoder_class(config)
    config.use_cache = False  # a decoder would keep the keys and values of every layer
    tokenizer = find_tokenizer(name, folder, trusted)
    model, absent, unused = make_model(name, folder, maker, config, random_seed, trusted)
    refuse_missing(name, absent)
    if left := unread_layers(unused, model.state_dict()):
        say(
            f"encoder {name}: layers {', '.join(left)} of its weights are not read, since its "
            "configuration has fewer; correct the configuration if it should have them"
        )
    return model.eval(), tokenizer


def encoder_class(config: Any) -> Any:
    """The class of transformers that makes the encoder of a configuration, without a head.

    Raises
    ------
    ValueError: an encoder-decoder whose encoder transformers cannot make by itself.
    """
    from transformers import (
        MODEL_FOR_TEXT_ENCODING_MAPPING,
        AutoModel,
        AutoModelForTextEncoding,
    )

    alone = str((config.architectures or [""])[0]).endswith("EncoderModel")  # saved without decoder
    if not (
        config.is_encoder_decoder or (alone and type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING)
    ):
        return AutoModel
    if type(config) not in MODEL_FOR_TEXT_ENCODING_MAPPING:
        raise ValueError(
            "an encoder-decoder without an encoder of its own in transformers; T5 and its "
            "kin have one"
        )
    return AutoModelForTextEncoding  # the decoder's weights are left in the file


def refuse_missing(name: str, absent: Sequence[str]) -> None:
    """Refuse weights that a folder lacks, but for those of a pooler, which nothing here reads:
    transformers would sample them and say so in passing.

    >>> refuse_missing("bert", ["pooler.dense.weight"])
    """
    missing = [key for key in absent if "pooler" not in key]
    if missing:
        got = f"{len(missing)} missing ({missing[0]} ...)"
        refuse(f"encoder {name}", "weights for the whole model", got, "give the whole checkpoint")


def unread_layers(unused: Sequence[str], read: Iterable[str]) -> list[str]:
    """Of weights that a model does not read, the layers that go on where its own end.

    Parameters
    ----------
    unused, read: names of weights, with numbers of layers within.

    >>> unread_layers(["bert.layer.2.a", "bert.layer.3.a", "cls.b"], ["layer.0.a", "layer.1.a"])
    ['2', '3']
    """
    last = dict[str, int]()
    for key in read:
        if match := _NUMBER.search(key):
            name = _NUMBER.sub(".#", key)
            last[name] = max(last.get(name, 0), int(match[1]))
    found = {
        int(match[1])
        for key in unused
        if (match := _NUMBER.search(key))
        for name, most in last.items()
        if int(match[1]) > most and _NUMBER.sub(".#", key).endswith(name)
    }
    return [str(number) for number in sorted(found)]


def find_tokenizer(name: str, folder: Path, trusted: bool) -> Any:
    """The tokeniser of an encoder, one that says which characters its subwords stand for.

    Parameters
    ----------
    name: what the encoder is called in messages. folder: from :func:`opened`. trusted: whether code
        from it may be run.

    Raises
    ------
    InputError: it has none such, or XLM's lacks a package.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trusted)
    except ImportError as error:
        if "sacremoses" not in str(error):
            raise
        wanted = "sacremoses, which splits text for XLM"
        refuse(f"encoder {name}", wanted, "none installed", "type: pip install 'crosslens[xlm]'")
    return with_offsets(name, tokenizer)


def make_model(
    name: str, folder: Path, maker: Any, config: Any, random_seed: int | None, trusted: bool
) -> tuple[Any, list[str], list[str]]:
    """The model of a configuration in float32, the names of the weights that the folder lacks, and of
    those that it has besides.

    Parameters
    ----------
    name, folder, trusted: as for :func:`find_tokenizer`.
    maker: the class of transformers that makes the model.
    random_seed: initialise it at random from this seed, and read no weights.

    Raises
    ------
    InputError: it would have many more parameters than the folder has weights.
    """
    if not trusted:
        _check_parameters(name, folder, maker, config)
    with torch.random.fork_rng(devices=[]):  # a pooler that the file lacks is sampled: always equal
        torch.manual_seed(random_seed or 0)
        if random_seed is None:
            model, info = maker.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=trusted,
                output_loading_info=True,
            )
            return model, sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
        return maker.from_config(config, dtype=torch.float32, trust_remote_code=trusted), [], []


def _check_parameters(name: str, folder: Path, maker: Any, config: Any) -> None:
    """Refuse a configuration of many more parameters than the folder has weights, before memory is
    taken for them.

    Parameters
    ----------
    maker: the class of transformers that makes the model of a configuration.
    """
    with torch.device("meta"):
        there = sum(parameter.numel() for parameter in maker.from_config(config).parameters())
    most = (
        sum(path.stat().st_size for path in folder.rglob("*.safetensors")) * _PER_BYTE + _PARAMETERS
    )
    if there > most:
        remedy = "give the whole checkpoint, and the configuration that belongs to it"
        got = f"{most:,} parameters at most, of {there:,}"
        refuse(f"encoder {name}", "weights for the whole model", got, remedy)
