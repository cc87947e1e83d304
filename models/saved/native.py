"""Whole models in a folder: all languages' parts, their plan and their vocabularies, in
safetensors.

    config.json         shape, languages, plan, sizes
    model.safetensors   every parameter under our own name
    tokenizer/          the vocabularies

A model whose languages share everything is written as an ordinary transformers folder instead,
which loses nothing; unless it has what no class of transformers has (adapters, a [CLS] without
position): then it is written like this.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from safetensors.torch import save

from crosslens.errors import InputError, StoreError, quote, refuse
from crosslens.files import check_shape, read_json, write_json, write_whole
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.saved.arrays import halved
from crosslens.models.saved.derived_languages import DerivedLanguage
from crosslens.models.saved.interop import export_model, filled_model, has_views, read_weights
from crosslens.models.saved.model_files import check_file
from crosslens.models.text.vocabularies import Vocabularies, load_vocabularies, save_vocabularies
from crosslens.models.training.settings import from_dict

__all__ = ["export_run", "export_view", "load_model", "load_unfinished", "save_model"]

_RESTORE = "restore the folder"


def save_model(
    model: MaskedLM,
    vocabularies: Vocabularies,
    folder: str | Path,
    *,
    half: bool = False,
    derived: Mapping[str, DerivedLanguage] | None = None,
) -> None:
    """Write a model of several languages, to be read by :func:`load_model`.

    Parameters
    ----------
    half: store float16 (half the size; values change by at most 1 in 2048, or by 3e-8).
    derived: languages that are made from others, and how, for
        :func:`crosslens.models.saved.derived_languages.derived_languages`.

    Raises
    ------
    InputError: a weight is too large for float16.
    """
    folder = Path(folder)
    weights = {
        name: (halved(tensor, name) if half else tensor.float()).detach().contiguous()
        for name, tensor in model.state_dict().items()
    }
    (folder / "tokenizer").mkdir(parents=True, exist_ok=True)
    write_whole(folder / "model.safetensors", save(weights, metadata={"format": "pt"}))
    save_vocabularies(vocabularies, folder / "tokenizer", model.config.max_positions)
    described = {
        "model_type": "crosslens",
        "encoder": model.config.told(),
        "languages": list(model.languages),
        "sharing": str(model.plan),
        "sizes": model.sizes,
        **_derived(derived),
    }
    write_json(folder / "config.json", described)  # last: who finds it finds a whole model


class _Settings(TypedDict):
    encoder: dict[str, Any]
    sharing: str


class _Run(TypedDict):
    """What is read of the config.json of a run."""

    kind: Literal["train"]
    settings: _Settings


class _Config(TypedDict):
    """config.json of a model that :func:`save_model` wrote."""

    encoder: dict[str, Any]
    languages: list[str]
    sharing: str
    sizes: dict[str, int]


def load_model(folder: str | Path) -> tuple[MaskedLM, Vocabularies]:
    """Read what :func:`save_model` wrote.

    Raises
    ------
    InputError: the folder holds no such model.
    StoreError: a file is damaged, or the weights are of another plan.
    """
    folder = Path(folder)
    path = folder / "config.json"
    found: dict[str, Any] = read_json(path, dict, _RESTORE) if path.exists() else {}
    if found.get("model_type") != "crosslens":
        got = f"one of type {quote(found['model_type'])}" if "model_type" in found else "none"
        remedy = "read transformers' folders with import_model"
        refuse(str(folder), "a model that save_model wrote", got, remedy)
    told: _Config = check_shape(found, str(path), _Config, _RESTORE)
    if (folder / "model.safetensors").exists():
        check_file(str(folder), folder, "model.safetensors")
    model = _filled(
        folder,
        path,
        told["encoder"],
        told["sharing"],
        languages=told["languages"],
        sizes=told["sizes"],
    )
    return model, load_vocabularies(folder / "tokenizer")


def load_unfinished(checkpoint: str | Path) -> tuple[MaskedLM, Vocabularies]:
    """Read a checkpoint, where it lies in the folder of its run.

    Raises
    ------
    InputError: it lies in no such folder.
    StoreError: a file is damaged.
    """
    checkpoint = Path(checkpoint).resolve()
    run = checkpoint.parent.parent
    path = run / "config.json"
    if not path.is_file():
        expected = "a checkpoint in the folder of its run"
        got = "no config.json two folders above"
        refuse(str(checkpoint), expected, got, "leave it where it was made")
    told: _Run = read_json(path, _Run, _RESTORE)
    vocabularies = load_vocabularies(run / "tokenizer")
    sizes = vocabularies.sizes
    shape = {**told["settings"]["encoder"], "vocab_size": max(sizes.values())}
    languages = vocabularies.languages
    return _filled(
        checkpoint, path, shape, told["settings"]["sharing"], languages=languages, sizes=sizes
    ), vocabularies


def _filled(folder: Path, path: Path, shape: dict[str, Any], sharing: str, **told: Any) -> MaskedLM:
    """The model that ``path`` describes, with the weights of a folder."""
    weights = read_weights(folder / "model.safetensors", _RESTORE, StoreError)
    try:
        config = from_dict(EncoderConfig, shape, "encoder.")
        plan = SharingPlan.parse(sharing, config.layers, tied=config.tied)
    except InputError as error:
        refuse(str(path), "the shape and plan of a model", str(error), _RESTORE, StoreError)
    return filled_model(folder, weights, config, plan=plan, **told)


def export_view(
    model: MaskedLM,
    vocabularies: Vocabularies,
    language: str,
    folder: str | Path,
    *,
    half: bool = False,
) -> None:
    """Write one language's view as an ordinary model folder of transformers, with the language's
    own tokeniser.

    Where several vocabularies were united, the view has the rows of its own subwords only: the scores
    of these are the same, and its softmax is over them alone.
    """
    rows = vocabularies.tables[language] if vocabularies.mode in ("union", "disjoint") else None
    export_model(
        model, vocabularies.tokenizers[language], folder, language=language, rows=rows, half=half
    )


def export_run(
    model: MaskedLM,
    vocabularies: Vocabularies,
    folder: Path,
    *,
    half: bool = False,
    derived: Mapping[str, DerivedLanguage] | None = None,
) -> None:
    """Write a finished training: ``model/``, and ``views/LANGUAGE`` where the languages do not
    share everything and transformers has such an architecture. ``derived``: see
    :func:`save_model`."""
    if not has_views(model.config):
        save_model(model, vocabularies, folder / "model", half=half, derived=derived)
        return
    if (
        vocabularies.mode == "joint"
        and not model.plan.separate
        and not model.config.language_embeddings
    ):
        tokenizer = vocabularies.tokenizers[model.languages[0]]
        export_model(model, tokenizer, folder / "model", half=half, more=_derived(derived))
        return
    for language in model.languages:
        export_view(model, vocabularies, language, folder / "views" / language, half=half)
    save_model(model, vocabularies, folder / "model", half=half, derived=derived)


def _derived(derived: Mapping[str, DerivedLanguage] | None) -> dict[str, Any]:
    """What config.json says of derived languages."""
    return {"derived": {name: one.told for name, one in derived.items()}} if derived else {}
