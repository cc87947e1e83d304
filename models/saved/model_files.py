"""Which files of a model folder are read, and a view of the folder that holds no others.

A model folder is somebody else's. Its index may name weights that run code when they are read, or
those of another model; its settings may name files elsewhere; what lies beside them may be taken
for an adapter or a checkpoint of another kind. So what is read is decided here, by name:
transformers is given a folder of links to these files alone, and an encoder's fingerprint covers
them all.

    config.json                     settings
    model.safetensors               weights; or model.safetensors.index.json and the .safetensors
                                    files that it names
    tokenizer.json, vocab.txt, ...  the tokeniser
    *.py, and data beside it        where the folder's own code is to be run

A file is in the folder if its name is a path below the folder and what it leads to, where it is a
link, lies there, too. In the cache of the hub, where a snapshot's files are links, the cache's
``blobs`` are part of the folder.
"""

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from safetensors import SafetensorError, safe_open

from crosslens.errors import InputError, panics_as_errors, refuse
from crosslens.files import read_json, sha256_file

__all__ = [
    "HUB_PATTERNS",
    "ModelFiles",
    "check_file",
    "find_model_files",
    "find_weights",
    "is_native",
    "tensor_names",
]

_CONFIG, _WEIGHTS, _INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_TOKENISERS = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
)
_STATE, _CHECKPOINTS = "state.json", "checkpoints"
_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
# What else the tokenisers of transformers open: instead of one of the above, and beside one.
_RARE = (
    "byte_maps.json",
    "prophetnet.tokenizer",
    "sentencepiece.model",
    "source.spm",
    "spm.model",
    "spm_char.model",
    "tekken.json",
    "tiktoken.model",
)
_BESIDE = (
    "added_tokens.json",
    "bpe.codes",
    "dict.txt",
    "emoji.json",
    "entity_vocab.json",
    "merges.txt",
    "normalizer.json",
    "target.spm",
    "target_vocab.json",
    "vocab.bpe",
    "vocab-src.json",
    "vocab-tgt.json",
    "word_pronunciation.json",
    "word_shape.json",
)
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
# what a folder's own code may want to read
_BESIDE_CODE = {".json", ".txt", ".model", ".spm", ".tiktoken", ".vocab", ".bpe", ".tsv"}
# what is fetched from the hub
HUB_PATTERNS = ("*.json", "*.safetensors", *_TOKENISERS, *_RARE, *_BESIDE)
_CONVERT = (
    "convert them: load the model where you trust it and call save_pretrained(folder, "
    "safe_serialization=True)"
)
_LARGEST = {_CONFIG: 1 << 24}  # bytes of a file that is read into memory, parsed
_LARGEST_TEXT = 1 << 26
_LARGEST_SIZE, _MOST_LAYERS = 1 << 20, 256  # whatever the weights
_NO_SIZES = ("theta", "token", "_id", "seed", "version", "factor", "flos")


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """The files that an encoder is read from.

    Attributes
    ----------
    folder: where they are.
    weights: names of the files of weights, below the folder, sorted.
    index: name of the file that says which weight is in which of them, or None.
    others: names of the rest: the configuration, the tokeniser's, and code that is to be run.
    code: the classes that the folder wants to be taken from Python files, as "file.Class" or
        "repository--file.Class".
    """

    folder: Path
    weights: tuple[str, ...]
    index: str | None
    others: tuple[str, ...]
    code: tuple[str, ...]

    def settings(self) -> dict[str, Any]:
        """What config.json says."""
        return _read(self.folder / _CONFIG)

    def size(self) -> int:
        """Bytes of the weights."""
        return sum((self.folder / name).stat().st_size for name in self.weights)

    def sums(self, *, weights: bool = True) -> Iterator[str]:
        """A line "NAME SHA-256" for each file, with or without those of weights."""
        for name in (
            *(self.weights if weights else ()),
            *self.others,
            *([self.index] if weights and self.index else []),
        ):
            yield f"{name} {sha256_file(self.folder / name)}\n"

    @contextlib.contextmanager
    def view(self) -> Iterator[Path]:
        """A temporary folder with these files and no others; settings in it name no further
        files."""
        with tempfile.TemporaryDirectory(prefix="crosslens-") as base:
            folder = Path(base) / "model"
            for name in (*self.weights, *self.others, *([self.index] if self.index else [])):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                tamed = _tamed(name, self.folder / name) if name in (_CONFIG, *_SETTINGS) else None
                if tamed is None:
                    (folder / name).symlink_to((self.folder / name).resolve())
                else:
                    (folder / name).write_text(json.dumps(tamed), encoding="utf-8")
            yield folder


def find_model_files(name: str, folder: Path) -> ModelFiles:
    """The files of a model folder that are read.

    Parameters
    ----------
    name: what the encoder is called in messages.
    folder: the folder.

    Raises
    ------
    InputError: the folder lacks its configuration, its weights or a tokeniser, or its settings are
        no JSON object; its weights are no safetensors, or an adapter's; a file is not in the
        folder, is none, or is larger than any of its kind.
    """
    who = f"encoder {name}"
    if _is_checkpoint(folder):
        real = folder.resolve()
        return _native_files(who, real.parent.parent, f"{_CHECKPOINTS}/{real.name}/{_WEIGHTS}")
    if not (folder / _CONFIG).exists():
        remedy = "give the folder that save_pretrained wrote"
        refuse(who, "a model folder with config.json", "none in it", remedy)
    for one in (_CONFIG, *_SETTINGS):
        if (folder / one).exists():
            check_file(who, folder, one)  # before it is read
    if is_native(folder):
        return _native_files(who, folder)
    if (folder / "adapter_config.json").exists():
        remedy = "merge it with its model, and save that"
        refuse(who, "whole weights", "an adapter (adapter_config.json)", remedy)
    weights, index = find_weights(name, folder)
    if not any((folder / file).exists() for file in (*_TOKENISERS, *_RARE)):
        remedy = "save the tokeniser beside the weights"
        refuse(who, "a tokeniser (tokenizer.json)", "none in the folder", remedy)
    code = _wanted_code(folder)
    others = [
        _CONFIG,
        *(
            one
            for one in (*_TOKENISERS, "tokenizer_config.json", "merges.txt")
            if (folder / one).exists()
        ),
    ]
    found = {one for one in (*_SETTINGS, *_RARE, *_BESIDE) if (folder / one).exists()}
    # of one version of transformers
    found |= {path.name for path in folder.glob("tokenizer.*.json")}
    if code:
        others += [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.py"))]
        found |= {
            path.name for path in folder.iterdir() if path.suffix in _BESIDE_CODE and path.is_file()
        } - {index}
    others += sorted(found - set(others))
    for one in (*weights, *others):
        check_file(who, folder, one)
    found_files = ModelFiles(folder, weights, index, tuple(others), tuple(code))
    _check_sizes(who, found_files)
    return found_files


def is_native(folder: Path) -> bool:
    """Whether a folder holds a model of ours with the modules of several languages, or a checkpoint
    in its run's folder."""
    return _is_checkpoint(folder) or _read(folder / _CONFIG).get("model_type") == "crosslens"


def _is_checkpoint(folder: Path) -> bool:
    return (
        (folder / _STATE).is_file()
        and not (folder / _CONFIG).exists()
        and folder.resolve().parent.name == _CHECKPOINTS
    )


def _native_files(who: str, folder: Path, weights: str = _WEIGHTS) -> ModelFiles:
    """The files of a model of ours; a checkpoint's shape and tokenisers are in the folder of its
    run."""
    tokenisers = [
        path
        for place in ("*.json", "*/tokenizer.json")
        for path in sorted((folder / "tokenizer").glob(place))
    ]
    others = (_CONFIG, *(path.relative_to(folder).as_posix() for path in tokenisers))
    for one in (weights, *others):
        check_file(who, folder, one)
    return ModelFiles(folder, (weights,), None, others, ())


def _check_sizes(who: str, files: ModelFiles) -> None:
    """Refuse sizes that the weights cannot have, before a model of such a size is made."""
    most = max(_LARGEST_SIZE, files.size())
    layers = max(_MOST_LAYERS, len(tensor_names(files)))
    inner: list[tuple[str, Any]] = list(files.settings().items())
    while inner:
        key, value = inner.pop()
        if isinstance(value, dict):
            inner += value.items()
        elif (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and value > _bound(key, most, layers)
        ):
            got = f"{key[:80]} {str(value)[:20]}"
            refuse(who, "sizes that its weights can have", got, "check its config.json")


def _bound(key: str, most: int, layers: int) -> int | float:
    """The largest number that a key of a configuration can sensibly have."""
    if "layers" in key or key == "n_layer":
        return layers
    if key == "num_labels":  # a name is made for each
        return _LARGEST_SIZE
    return float("inf") if any(part in key for part in _NO_SIZES) else most


def tensor_names(files: ModelFiles) -> list[str]:
    """The names of an encoder's weights; none of a file that is damaged or cannot be read, which
    loading it says."""
    found = list[str]()
    for name in files.weights:
        try:
            with panics_as_errors(), safe_open(files.folder / name, "numpy") as file:
                found += file.keys()
        except (SafetensorError, OSError, RuntimeError):  # a runtime error: what was a panic
            continue
    return found


def find_weights(name: str, folder: Path) -> tuple[tuple[str, ...], str | None]:
    """The names of a folder's files of weights, sorted, and of their index, or None where there is
    one file.

    Raises
    ------
    InputError: there are none, or one is no safetensors file of the folder.
    """
    who = f"encoder {name}"
    named = _read(folder / _CONFIG).get("transformers_weights")
    first = (
        named if isinstance(named, str) else _WEIGHTS if (folder / _WEIGHTS).exists() else _INDEX
    )
    if not (folder / first).exists():
        pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
        others = sorted(path.name for path in folder.glob("*.safetensors"))
        got = (
            f"only pickled weights ({pickled[0]})"
            if pickled
            else f"only {others[0]}"
            if others
            else "no weights"
        )
        # pickled weights are not even fetched from the hub
        here = bool(pickled) or not Path(name).is_dir()
        remedy = _CONVERT if here and not others else "give a folder with model.safetensors"
        refuse(who, "weights as safetensors", got, remedy)
    if not first.endswith(".index.json"):
        _check_weights(who, folder, first, _CONFIG)
        return (first,), None
    check_file(who, folder, first)
    shards = _read(folder / first).get("weight_map")
    if (
        not isinstance(shards, dict)
        or not shards
        or not all(isinstance(shard, str) for shard in shards.values())
    ):
        refuse(who, f"an index of weights ({first})", "something else", "give the whole checkpoint")
    for shard in sorted(set(shards.values())):
        _check_weights(who, folder, shard, first)
    return tuple(sorted(set(shards.values()))), first


def _check_weights(who: str, folder: Path, weights: str, source: str) -> None:
    """Refuse a file of weights, named in ``source``, that is no safetensors file of the folder."""
    if not weights.endswith(".safetensors"):
        refuse(who, "weights as safetensors", f"{weights[:80]!r} (named in {source})", _CONVERT)
    check_file(who, folder, weights)


def check_file(who: str, folder: Path, name: str) -> None:
    """Refuse what is no file, not in the folder, or larger than files of its kind can be.

    Parameters
    ----------
    who: whose file it is, for the message.
    folder: the folder.
    name: the file's name, a path below the folder.
    """
    path = folder / name
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        remedy = "copy the file into the folder and name it there"
        refuse(who, "files in its own folder", f"{name[:80]!r}", remedy)
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # none, or links in a circle
        refuse(who, f"{name[:80]} in the folder", "none", "give the whole folder")
    if not any(real.is_relative_to(home) for home in _homes(folder)):
        got = f"{name[:80]}, a link to {str(real)[:80]}"
        refuse(who, "files in its own folder", got, "copy the file into the folder")
    if not real.is_file():
        remedy = "give the folder that save_pretrained wrote"
        refuse(who, f"a file {name[:80]}", "something else", remedy)
    most = _LARGEST.get(name, _LARGEST_TEXT)
    if not name.endswith(".safetensors") and real.stat().st_size > most:
        expected = f"a {name[:80]} of at most {most >> 20} MiB"
        refuse(who, expected, f"{real.stat().st_size >> 20} MiB", "check the folder")


def _homes(folder: Path) -> list[Path]:
    """The folder itself, and the blobs that the files of a snapshot in the hub's cache are links
    to."""
    real = folder.resolve()
    repository = real.parent.parent
    if real.parent.name != "snapshots" or not repository.name.startswith("models--"):
        return [real]
    return [real, (repository / "blobs").resolve(), (repository.parent / "blobs").resolve()]


def _read(path: Path) -> dict[str, Any]:
    """Settings; nothing where there are none."""
    found: dict[str, Any] = (
        read_json(path, dict, "check the folder", InputError) if path.exists() else {}
    )
    return found


def _wanted_code(folder: Path) -> list[str]:
    wanted: list[str] = []
    for file in (_CONFIG, "tokenizer_config.json"):
        named = _read(folder / file).get("auto_map") or {}
        values = list(named.values()) if isinstance(named, dict) else [named]
        wanted += [
            one
            for value in values
            for one in (value if isinstance(value, list) else [value])
            if isinstance(one, str)
        ]
    return list(dict.fromkeys(wanted))


def _tamed(name: str, path: Path) -> dict[str, Any] | None:
    """Settings without what would make transformers read or run something else; None where they may
    stay as they are."""
    found = _read(path)
    if name == _CONFIG:  # a kernel of the hub is code
        unwanted = [
            key
            for key in found
            if "attn_implementation" in key
            or "experts_implementation" in key
            or key == "kernel_config"
        ]
    elif name == "special_tokens_map.json":
        unwanted = [key for key in found if not key.endswith(("_token", "_tokens"))]
    else:
        unwanted = [
            key
            for key in found
            if key.endswith(("_file", "_object"))
            or key in ("init_inputs", "vocab", "merges", "spm")
        ]
        named = found.get("fast_tokenizer_files", [])
        if not isinstance(named, list) or not all(
            isinstance(one, str) and Path(one).name == one for one in named
        ):
            unwanted.append("fast_tokenizer_files")
    return {key: value for key, value in found.items() if key not in unwanted} if unwanted else None
