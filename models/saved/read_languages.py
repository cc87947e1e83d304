"""Which languages an encoder reads texts of, before its weights are loaded."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from crosslens.errors import quote, refuse
from crosslens.files import read_json
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.saved.derived_languages import described, own_code, own_languages
from crosslens.models.saved.model_files import find_model_files, is_native, tensor_names
from crosslens.models.saved.model_languages import ModelLanguages

__all__ = ["check_read"]


def check_read(name: str, folder: Path, languages: Iterable[tuple[str, str]]) -> None:
    """Refuse texts in languages that an encoder does not have: one of ours with parts of each
    language, or one that embeds them (XLM). Others read any.

    Parameters
    ----------
    name: what it is called in messages. folder: where it is.
    languages: (the option that asks for it, code) of the texts.

    Raises
    ------
    InputError: it does not have one of them, or its words cannot be found here.
    """
    there, has = (_of_ours if is_native(folder) else _embedded)(name, folder)
    for option, language in languages:
        if not has(language):
            expected = f"languages that encoder {name} has ({', '.join(there)})"
            remedy = "leave the language out, or name an encoder that has it"
            refuse(option, expected, quote(language), remedy)


def _of_ours(name: str, folder: Path) -> tuple[tuple[str, ...], Callable[[str], bool]]:
    """As :class:`crosslens.models.saved.native_encoder.NativeEncoder` has it."""
    path, there = described(folder), own_languages(folder)
    told: dict[str, Any] = read_json(path, dict)
    told = told if "encoder" in told else told.get("settings") or {}  # of a checkpoint's run
    shape = told.get("encoder") or {}
    plan = SharingPlan.parse(told.get("sharing", ""), shape.get("layers", 1), tied=False)
    index = path.parent / "tokenizer" / "vocabulary.json"
    mode = read_json(index, dict).get("mode") if index.exists() else None  # loading says it
    if not plan.separate and mode == "joint" and not shape.get("language_embeddings"):
        return there, lambda language: True
    return there, lambda language: own_code(there, language) in there


def _embedded(name: str, folder: Path) -> tuple[tuple[str, ...], Callable[[str], bool]]:
    """As :func:`crosslens.models.saved.model_languages.find_languages` has it."""
    files = find_model_files(name, folder)
    settings = files.settings()
    ids, embeds = settings.get("lang2id"), settings.get("use_lang_emb", True)
    tables = (one.endswith("lang_embeddings.weight") for one in tensor_names(files))
    ids = ids if isinstance(ids, dict) else {}
    embedded, rules = bool(ids and embeds and any(tables)), settings.get("model_type") == "xlm"
    languages = ModelLanguages(name, ids, embedded, rules)
    if not embedded:  # any, whose words can be found
        return (), lambda language: not rules or bool(languages.choose(language))
    return tuple(ids), languages.has
