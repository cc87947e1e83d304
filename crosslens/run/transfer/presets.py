"""Settings of fine-tuning as the papers print them, as their code has them, and ours: by name, each
with where it comes from.

A preset may be a grid: several learning rates, batch sizes and numbers of epochs, of which the
best on the development set of the training language is taken.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from crosslens.errors import check_choice, refuse

__all__ = ["PRESETS", "SPANS_BY", "Preset", "find_preset", "with_features"]

_WU_DREDZE = "Wu & Dredze 2019, section 4"
_WU_DREDZE_CODE = "their code, evaluate.sh and src/model/base.py"
_WU_DREDZE_TREES = "their code, src/model/dependency_parser.py"
_WU_DREDZE_WINDOWS = "their code, src/dataset/tagging.py"
_CONNEAU = "Conneau et al. 2020, appendix"
_XLM = "README of XLM, whose grid they keep"
_ARTETXE = "Artetxe et al. 2020, section 3.2"
_DEVLIN = "Devlin et al. 2019"
_DESHPANDE = "Deshpande et al. 2022, appendix F"
_XTREME = "scripts of XTREME, and the defaults of what they call"
_OURS = "chosen here"

_UNTOLD = _OURS + " (the paper does not say)"

_SPANS = ("answer",)
_WORDS = ("tag", "tree")
_TEXTS = ("classify", "pair")


@dataclasses.dataclass(frozen=True)
class Preset:
    """The settings of fine-tuning for one kind of task.

    Attributes
    ----------
    name: of the preset.
    values: setting -> its value, or a tuple of values to choose among on dev.
    sources: setting -> where the value comes from.

    >>> [point["peak_rate"] for point in find_preset("wu_dredze", "tag").grid()][:3]
    [2e-05, 2e-05, 2e-05]
    >>> len(find_preset("wu_dredze", "tag").grid()), len(find_preset("default", "tag").grid())
    (12, 1)
    """

    name: str
    values: Mapping[str, Any]
    sources: Mapping[str, str]

    def grid(self) -> list[dict[str, Any]]:
        """The points of the grid, in a fixed order; one where nothing is to be chosen."""
        columns = [v if isinstance(v, tuple) else (v,) for v in self.values.values()]
        return [dict(zip(self.values, point, strict=True)) for point in itertools.product(*columns)]


def _made(source: str, **values: Any) -> dict[str, tuple[Any, str]]:
    return {name: (value, source) for name, value in values.items()}


def _from_bert(source: str = _DEVLIN) -> dict[str, tuple[Any, str]]:
    return _made(source, warmup=0.1, decay="linear", weight_decay=0.01, clip=1.0)


_FLAT = dict(warmup=0.0, decay="linear", weight_decay=0.0, clip=1.0)
_SQUAD = dict(max_length=384, stride=128)
_RATES = (2e-5, 3e-5, 5e-5)
_WU_DREDZE_GRID: dict[str, Any] = dict(
    peak_rate=_RATES,
    batch_size=(16, 32),
    epochs=(3, 4),
    max_length=128,
    warmup=0.1,
    decay="linear",
)

_PAPER = (
    _made(_WU_DREDZE, **_WU_DREDZE_GRID, weight_decay=0.01, beta2=0.999)
    | _made(_WU_DREDZE_CODE + " (the paper does not say)", clip=0.0)
)  # fmt: skip
_CODE = _made(_WU_DREDZE_CODE, **_WU_DREDZE_GRID, weight_decay=0.0, beta2=0.99, clip=0.0)
_CUT = _made(_WU_DREDZE_WINDOWS, windows="wu_dredze")
_ROOTS = _made(_WU_DREDZE_TREES, roots="any")

# preset -> kinds it is for -> setting -> (value, source)
_TABLE: dict[str, list[tuple[tuple[str, ...], dict[str, tuple[Any, str]]]]] = {
    "default": [
        (
            (*_TEXTS, *_WORDS),
            _made(_OURS, peak_rate=1e-4, head_rate=1e-3, batch_size=32, epochs=3, max_length=128)
            | _from_bert(),
        ),
        (
            _SPANS,
            _made(_OURS, peak_rate=1e-4, head_rate=1e-3, batch_size=16, epochs=2, **_SQUAD)
            | _from_bert(),
        ),
    ],
    "wu_dredze": [(_TEXTS, _PAPER), (("tag",), _PAPER | _CUT), (("tree",), _PAPER | _ROOTS)],
    "wu_dredze_code": [(_TEXTS, _CODE), (("tag",), _CODE | _CUT), (("tree",), _CODE | _ROOTS)],
    "conneau": [
        (
            _WORDS,
            _made(
                _CONNEAU, peak_rate=_RATES, batch_size=(16, 32), epochs=10, warmup=0.1, decay="linear"
            )
            | _made(_OURS + " (the paper does not say)", max_length=128, weight_decay=0.01, clip=1.0),
        ),
        (
            _TEXTS,
            _made(
                _CONNEAU,
                peak_rate=(1.25e-6, 2.5e-6, 5e-6),
                head_rate=(5e-6, 2.5e-5, 1.25e-4),
                batch_size=(4, 8),
                warmup=0.0,
                decay="constant",
            )
            | _made(_XLM, max_length=256, clip=0.0, weight_decay=0.0)
            | _made("200 epochs of 20,000 sentences are ten passes over MultiNLI", epochs=10),
        ),
    ],
    "artetxe": [
        (
            (*_TEXTS, *_WORDS),
            _made(_ARTETXE, peak_rate=2e-5, batch_size=32, epochs=2)
            | _from_bert()
            | _made(_DEVLIN, max_length=128),
        ),
        (
            _SPANS,
            _made(_ARTETXE, peak_rate=2e-5, batch_size=32, epochs=2)
            | _from_bert()
            | _made(_DEVLIN, **_SQUAD),
        ),
    ],
    "deshpande": [
        (
            _TEXTS,
            _made(_DESHPANDE, peak_rate=2e-5, batch_size=32, epochs=5, max_length=128)
            | _made("defaults of the scripts they name", **_FLAT),
        ),
        (
            _WORDS,
            _made(_DESHPANDE, peak_rate=2e-5, batch_size=32, epochs=10, max_length=128)
            | _made("defaults of the scripts they name", **_FLAT),
        ),
        (
            _SPANS,
            _made(
                _DESHPANDE, peak_rate=3e-5, batch_size=16, epochs=2, warmup=500, weight_decay=1e-4,
                decay="linear", **_SQUAD,
            )
            | _made("defaults of the scripts they name", clip=1.0),
        ),
    ],
    "xtreme": [
        (
            _TEXTS,
            _made(_XTREME, peak_rate=2e-5, batch_size=32, epochs=5, max_length=128, **_FLAT),
        ),
        (
            _WORDS,
            _made(_XTREME, peak_rate=2e-5, batch_size=32, epochs=10, max_length=128, **_FLAT),
        ),
        (
            _SPANS,
            _made(
                _XTREME, peak_rate=3e-5, batch_size=32, epochs=3, warmup=500, weight_decay=1e-4,
                decay="linear", clip=1.0, **_SQUAD,
            ),
        ),
    ],
}  # fmt: skip

# what is learnt on a frozen encoder -> setting -> (value, source)
_FEATURES: dict[str, dict[str, tuple[Any, str]]] = {
    "mix+bilstm": _made(
        "Wu & Dredze 2019, section 5.2", peak_rate=1e-3, batch_size=32, decay="plateau", pool="max"
    )
    | _made(_UNTOLD, epochs=100, warmup=0.0, weight_decay=0.0, clip=1.0),
    "transformer": _made(_UNTOLD, peak_rate=3e-4, batch_size=32, epochs=10) | _from_bert(_UNTOLD),
}
_READING = ("max_length", "stride", "windows", "roots")

PRESETS = tuple(_TABLE)
"""Names of all presets."""

WORDS_APART = ("wu_dredze", "wu_dredze_code")
"""Presets that read each word of a treebank by itself, as Wu & Dredze's program does."""

SPANS_BY = {
    "wu_dredze": "wu_dredze",
    "wu_dredze_code": "wu_dredze",
    "conneau": "conneau",
    "deshpande": "wu_dredze",  # XTREME's: seqeval's default reads tags so
    "xtreme": "wu_dredze",
}
"""Preset -> how it reads spans off tags (:mod:`crosslens.probes.methods.span_scores`); others are
strict."""


def find_preset(name: str, kind: str) -> Preset:
    """The preset of this name for a kind of task.

    Parameters
    ----------
    kind: "classify", "pair", "tag", "tree" or "answer".

    Raises
    ------
    InputError: no such preset, or one that says nothing of this kind.

    >>> find_preset("xtreme", "answer").values["epochs"], find_preset("xtreme", "answer").sources["epochs"]
    (3, 'scripts of XTREME, and the defaults of what they call')
    """
    check_choice(name, "--preset", _TABLE)
    for kinds, settings in _TABLE[name]:
        if kind in kinds:
            values = {setting: value for setting, (value, _) in settings.items()}
            return Preset(name, values, {s: source for s, (_, source) in settings.items()})
    fits = [other for other in PRESETS if any(kind in kinds for kinds, _ in _TABLE[other])]
    expected = f"one for this kind of task ({', '.join(fits)})"
    refuse("--preset", expected, repr(name), "choose one of them")


def with_features(preset: Preset, features: str) -> Preset:
    """The same preset for features of a frozen encoder, with a schedule of their own.

    Parameters
    ----------
    features: "mix+bilstm" (Wu & Dredze 2019) or "transformer" (Conneau et al. 2020).

    Raises
    ------
    InputError: no such features.

    >>> with_features(find_preset("default", "tag"), "mix+bilstm").values["peak_rate"]
    0.001
    """
    check_choice(features, "--features", _FEATURES)
    schedule = _FEATURES[features]
    kept = {name: v for name, v in preset.values.items() if name in _READING}
    values = {**kept, "features": features, **{n: value for n, (value, _) in schedule.items()}}
    sources = {name: preset.sources[name] for name in kept} | {"features": "asked for"}
    return Preset(preset.name, values, sources | {n: source for n, (_, source) in schedule.items()})
