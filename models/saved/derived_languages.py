"""Which languages of a model are derived from another one, and how: its folder says so.

A training whose recipe has ``[derived.eng-x]`` writes it into the ``config.json`` of its model:

    "derived": {"eng-x": {"of": "eng", "by": "transliteration+inversion", "seed": 0}}

A checkpoint's are those of its run.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from crosslens.errors import InputError, StoreError, quote, refuse
from crosslens.files import check_shape, read_json
from crosslens.languages import same_language
from crosslens.models.training.derivation import Derivation, check_order

__all__ = ["DerivedLanguage", "derived_languages", "described", "own_code", "own_languages"]

_FORM = "ORIGINAL:TRANSFORMATIONS, such as eng:transliteration+inversion"
_RESTORE = "restore the folder"


@dataclasses.dataclass(frozen=True)
class DerivedLanguage:
    """How a language is made of another one's subwords.

    Attributes
    ----------
    of: the language that it is made from.
    by: transformations, as in :class:`crosslens.models.training.derivation.Derivation`.
    seed: of the transformations, that of the training.

    Raises
    ------
    InputError: transformations that need more than subwords, or change more than their order and
        their ids.

    >>> DerivedLanguage.parse("eng:local-shuffle:3@7")
    DerivedLanguage(of='eng', by='local-shuffle:3', seed=7)
    """

    of: str
    by: str
    seed: int = 0

    def __post_init__(self) -> None:
        check_order(self.derivation, "derived")

    @classmethod
    def parse(cls, text: str) -> "DerivedLanguage":
        """From ``ORIGINAL:TRANSFORMATIONS``, with ``@SEED`` at its end where that is not 0."""
        told, at, seed = text.partition("@")
        of, colon, by = told.partition(":")
        if not (of and colon and by) or (at and not (seed.isascii() and seed.isdecimal())):
            refuse("derived", _FORM, quote(text), "a seed, where there is one, stands behind @")
        return cls(of, by, int(seed or 0))

    @property
    def derivation(self) -> Derivation:
        """The same without the seed."""
        return Derivation(of=self.of, by=self.by)

    @property
    def told(self) -> dict[str, Any]:
        """As config.json has it."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return f"{self.of}:{self.by}" + (f"@{self.seed}" if self.seed else "")


class _Told(TypedDict):
    of: str
    by: str
    seed: NotRequired[int]  # a run's recipe has one for all


class _Vocabularies(TypedDict):
    languages: dict[str, Any]


def derived_languages(folder: str | Path) -> dict[str, DerivedLanguage]:
    """The derived languages that a model's folder knows; none where it says nothing of them.

    Parameters
    ----------
    folder: a model, or a checkpoint in the folder of its run.

    Raises
    ------
    StoreError: what it says is damaged.
    """
    path, seed = described(Path(folder)), 0
    values: Mapping[str, Any] = read_json(path, dict, _RESTORE) if path.exists() else {}
    if isinstance(values.get("settings"), dict):  # of a run
        values = values["settings"]
        seed = values["seed"] if isinstance(values.get("seed"), int) else 0
    shape = dict[str, _Told]
    found: dict[str, _Told] = check_shape(
        values.get("derived") or {}, f"{path}, key derived", shape, _RESTORE
    )
    try:
        return {
            language: DerivedLanguage(one["of"], one["by"], one.get("seed", seed))
            for language, one in found.items()
        }
    except InputError as error:
        refuse(f"{path}, key derived", "transformations", str(error), _RESTORE, StoreError)


def own_languages(folder: str | Path) -> tuple[str, ...]:
    """The languages that a model of ours has parts of its own for; none of a transformers folder."""
    folder = Path(folder)
    path = described(folder)
    values: Mapping[str, Any] = read_json(path, dict, _RESTORE) if path.exists() else {}
    if values.get("model_type") == "crosslens":
        return tuple(check_shape(values.get("languages"), str(path), list[str], _RESTORE))
    index = path.parent / "tokenizer" / "vocabulary.json"
    if path.parent == folder or not index.exists():
        return ()
    told: _Vocabularies = read_json(index, _Vocabularies, _RESTORE)
    return tuple(told["languages"])


def own_code(there: Sequence[str], language: str) -> str:
    """What a model calls a language: a text of "cmn" may be read by modules of "zho".

    Parameters
    ----------
    there: the languages of the model.

    >>> own_code(("eng", "zho"), "cmn"), own_code(("eng", "zho"), "fra")
    ('zho', 'fra')
    """
    same = [one for one in there if same_language(one, language)]
    return same[0] if language not in there and len(same) == 1 else language


def described(folder: Path) -> Path:
    """The file that describes a model: its own, or that of a checkpoint's run."""
    own = folder / "config.json"
    return own if own.exists() else folder.resolve().parent.parent / "config.json"
