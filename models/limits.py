"""What every number of a recipe may be: one table, so that none is forgotten and each is refused by
its own name.

The bounds are wide. They keep out what no training survives (NaN, infinity, a negative rate), what
would need more memory than there is before the first step, and what no float32 can hold.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from crosslens.errors import refuse

__all__ = ["LIMITS", "Limits", "check_numbers", "shown"]

_ANY = "choose one in this range"


@dataclasses.dataclass(frozen=True)
class Limits:
    """The range of one number.

    Attributes
    ----------
    low, high: its ends, both included.
    whole: whether it is a whole number.
    above, below: whether ``low`` and ``high`` are left out.
    also: a number that is allowed besides, with a meaning of its own.
    remedy: what to do when it is refused.

    >>> str(Limits(0, 1, above=True)), Limits(0, 1, above=True).hold(0.0), Limits(1, 9, whole=True).hold(True)
    ('a number above 0 to 1', False, False)
    """

    low: float | int
    high: float | int
    whole: bool = False
    above: bool = False
    below: bool = False
    also: int | None = None
    remedy: str = _ANY

    def __str__(self) -> str:
        low, high = (
            f"{end:,}" if isinstance(end, int) else f"{end:g}" for end in (self.low, self.high)
        )
        also = "" if self.also is None else f"{self.also} or "
        begins, ends = (
            "above" if self.above else "from",
            ("and below" if self.above else "to below") if self.below else "to",
        )
        return f"{also}a {'whole ' if self.whole else ''}number {begins} {low} {ends} {high}"

    def hold(self, value: Any) -> bool:
        """Whether a value is such a number."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return False
        if self.also is not None and value == self.also:
            return True
        if not self.low <= value <= self.high:  # NaN is in no range
            return False
        return not (self.above and value == self.low) and not (self.below and value == self.high)


_MANY = 10**9
_COUNT, _STEPS = Limits(1, _MANY, whole=True), Limits(1, 10**8, whole=True)
_SHARE, _NONE_UP = Limits(0, 1), Limits(0, _MANY, whole=True)
_EXPONENT = Limits(
    0,
    5,
    also=-1,
    remedy="0.7 lifts what is rare, 1 keeps the text as it is, 0 or -1 samples evenly",
)
_MOMENT = Limits(0, 1, below=True)
_NOISE = Limits(0, 100, remedy="0.075 is Artetxe et al.'s (2020), 0 adds none")

_LOOP = {
    "steps": _STEPS,
    "seed": Limits(
        0,
        2**32 - 1,
        whole=True,
        remedy="choose any such number: the same one gives the same result",
    ),
    "patience": Limits(0, _MANY, whole=True, remedy="0 never stops early"),
    "log_every": _COUNT,
    "validate_every": _COUNT,
    "save_every": _COUNT,
}

LIMITS: Mapping[str, Mapping[str, Limits]] = {
    "LoopSettings": _LOOP,
    "TrainRecipe": {
        **_LOOP,
        "batch_tokens": _COUNT,
        "tlm_share": Limits(0, 1, remedy="0.5 gives half of the steps to sentence pairs"),
        "sample_exponent": _EXPONENT,
        "max_length": Limits(1, 10**6, whole=True),
        "validation": _COUNT,
        "accumulate": Limits(1, 10**6, whole=True),
    },
    "FineTuning": {
        "epochs": Limits(1, 10_000, whole=True),
        "batch_size": Limits(1, 10**6, whole=True),
        "peak_rate": Limits(1e-12, 10, remedy="2e-5 to 5e-5 is usual"),
        "head_rate": Limits(1e-12, 10, remedy="leave it out for the encoder's rate"),
        "warmup": Limits(0, 10**8, remedy="0.1 is a tenth of the updates"),
        "weight_decay": Limits(0, 100, remedy="0 decays nothing, 0.01 is usual"),
        "beta2": _MOMENT,
        "clip": Limits(0, 1e10, remedy="0 leaves gradients alone"),
        "dropout": Limits(0, 1, below=True, remedy="0.1 is usual"),
        "max_length": Limits(4, 10**6, whole=True),
        "freeze": Limits(-1, 10_000, whole=True, remedy="-1 freezes nothing"),
        "average": Limits(1, 10_000, whole=True),
        "noise": _NOISE,
        "seed": _LOOP["seed"],
    },
    "Source": {
        "id_column": Limits(-1, 10**6, whole=True, remedy="-1 says that there is none"),
        "columns": Limits(0, 10**6, whole=True, remedy="the first column is 0"),
        "weight": Limits(1e-6, 1e6, remedy="leave the source out to sample nothing from it"),
    },
    "Optimisation": {
        "peak_rate": Limits(1e-12, 1e10, remedy="1e-3 suits small models, 1e-4 large ones"),
        "first_rate": Limits(0, 1e10, remedy="choose one from 0 to peak_rate"),
        "warmup": Limits(0, 10**8, whole=True, remedy="0 starts at the peak"),
        "weight_decay": Limits(0, 100, remedy="0 decays nothing, 0.01 is usual"),
        "beta1": _MOMENT,
        "beta2": _MOMENT,
        "eps": Limits(1e-30, 1),
        "clip": Limits(0, 1e10, remedy="0 leaves gradients alone"),
    },
    "Masking": {
        "rate": Limits(0, 1, above=True, below=True, remedy="0.15 is the usual choice"),
        "masked": _SHARE,
        "random": _SHARE,
        "exponent": Limits(0, 5, remedy="0 chooses evenly, 0.5 rare subwords more often"),
    },
    "Anchors": {"rate": _SHARE, "most": _SHARE},
    "SkipGram": {
        "dimensions": Limits(2, 10**5, whole=True, remedy="300 is usual"),
        "window": Limits(1, 10**4, whole=True, remedy="5 is usual"),
        "negatives": Limits(1, 10**4, whole=True, remedy="5 is usual"),
        "epochs": Limits(1, 10**4, whole=True, remedy="5 is usual"),
        "learning_rate": Limits(0, 10, above=True, remedy="0.05 is usual"),
    },
    "Vocabulary": {
        "size": Limits(6, 10**7, whole=True, remedy="5 of them are special tokens"),
        "sample_exponent": _EXPONENT,
        "sentences": _COUNT,
    },
    "EncoderConfig": {
        "vocab_size": Limits(1, 10**8, whole=True),
        "hidden_size": Limits(1, 10**6, whole=True),
        "layers": Limits(1, 10_000, whole=True),
        "heads": Limits(1, 10**6, whole=True),
        "ffn_size": Limits(1, 10**7, whole=True),
        "max_positions": Limits(1, 10**7, whole=True),
        "dropout": Limits(0, 1, below=True),
        "norm_eps": Limits(1e-30, 1),
        "init_std": Limits(1e-12, 100),
        "segments": _NONE_UP,
        "position_offset": _NONE_UP,
        "pad_id": _NONE_UP,
        "adapters": Limits(0, 10**6, whole=True, remedy="64 is usual, 0 puts in none"),
        "embedding_size": Limits(0, 10**6, whole=True, remedy="0 is hidden_size"),
        "noise": _NOISE,
    },
}
"""By the name of a settings class, the range of each of its numbers. A test compares it with the
classes' fields."""


def check_numbers(record: Any, prefix: str = "") -> None:
    """Refuse a settings record with a number that is none, or not in its range.

    A field whose default is None may be None: it is chosen when the rest is known.

    Parameters
    ----------
    prefix: what stands before the names of its fields ("optimisation.").

    Raises
    ------
    InputError: names the setting, its range and what was given.

    >>> from crosslens.models.training.masking import Masking
    >>> Masking(rate=float("nan"))
    Traceback (most recent call last):
    ...
    crosslens.errors.InputError: masking.rate: expected a number above 0 and below 1, got nan; 0.15 is the usual choice
    """
    optional = {field.name for field in dataclasses.fields(record) if field.default is None}
    for name, limits in LIMITS[type(record).__name__].items():
        value = getattr(record, name)
        if value is None and name in optional:
            continue
        values = (
            {f".{key}": item for key, item in value.items()}
            if isinstance(value, Mapping)
            else {"": value}
        )
        for key, item in values.items():
            if not limits.hold(item):
                refuse(f"{prefix}{name}{key}", str(limits), shown(item), limits.remedy)


def shown(value: Any) -> str:
    """A value as a message quotes it, cut where it is long.

    >>> shown("much"), shown(10**5000)
    ("'much'", 'a number of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to print it
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
