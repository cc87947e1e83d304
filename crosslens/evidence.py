"""What a run keeps beside a measurement's value, as far as the report reads it: declared once, for
those who write it and for those who read it.

It is stored in a score's ``details``, where a run may say more; what is not declared here, no page
depends on.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

__all__ = ["Confusion", "Difference", "Ends", "Evidence", "OverSeeds", "SharedTexts"]

_Read = TypeVar("_Read")


class _Kept:
    """A part of the evidence that is a table of its own."""

    def as_dict(self) -> dict[str, Any]:
        """As it stands in ``details``."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _list_of(read: Callable[[Any], _Read | None]) -> Callable[[Any], list[_Read] | None]:
    def items(value: Any) -> list[_Read] | None:
        found = [read(item) for item in value] if isinstance(value, list) else [None]
        kept = [item for item in found if item is not None]
        return kept if len(kept) == len(found) else None

    return items


def _named(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _counts(value: Any) -> dict[str, int] | None:
    if not isinstance(value, dict):
        return None
    return {str(name): n for name, n in value.items() if _whole(n) is not None}


def _numbers(value: Any) -> dict[str, float | None] | None:
    return _table_of(_number)(value)


def _table_of(read: Callable[[Any], _Read]) -> Callable[[Any], dict[str, _Read] | None]:
    def table(value: Any) -> dict[str, _Read] | None:
        return {str(k): read(v) for k, v in value.items()} if isinstance(value, dict) else None

    return table


@dataclasses.dataclass(frozen=True)
class Difference(_Kept):
    """A score minus that of its control on the same items, with its 95 % interval.

    >>> Difference.of((0.2, 0.1, 0.3)).as_dict()
    {'difference': 0.2, 'low': 0.1, 'high': 0.3}
    """

    difference: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Difference":
        """From the three numbers in their order."""
        return cls(*map(float, values))

    @classmethod
    def read(cls, value: Any) -> "Difference | None":
        """From ``details``; None for what is none."""
        if not isinstance(value, dict):
            return None
        ends = [_number(value.get(field.name)) for field in dataclasses.fields(cls)]
        return None if None in ends else cls.of(end for end in ends if end is not None)


@dataclasses.dataclass(frozen=True)
class Ends(_Kept):
    """A value with its 95 % interval and the number of items; None where it could not be
    computed."""

    value: float | None
    low: float | None
    high: float | None
    n: int

    @classmethod
    def read(cls, value: Any) -> "Ends | None":
        """From ``details``; None for what is none."""
        if not isinstance(value, dict):
            return None
        reached, low, high = (_number(value.get(name)) for name in ("value", "low", "high"))
        return cls(reached, low, high, _whole(value.get("n")) or 0)


@dataclasses.dataclass(frozen=True)
class OverSeeds(_Kept):
    """What each seed gave, and the mean with Student's 95 % interval; None where a seed's value could
    not be computed."""

    seeds: Sequence[int]
    values: Sequence[float | None]
    mean: float | None
    low: float | None
    high: float | None

    @classmethod
    def read(cls, value: Any) -> "OverSeeds | None":
        """From ``details``; None for what is none."""
        if not isinstance(value, dict):
            return None
        ends = (_number(value.get(name)) for name in ("mean", "low", "high"))
        each = value.get("values")
        values = [_number(one) for one in each] if isinstance(each, list) else []
        return cls(_list_of(_whole)(value.get("seeds")) or [], values, *ends)


@dataclasses.dataclass(frozen=True)
class SharedTexts(_Kept):
    """Items of one split whose text is in another one, too.

    Attributes
    ----------
    train: test items whose text is in train. same_label: those of them that have the same label
        there.
    dev: test items whose text is in dev. dev_train: dev items whose text is in train.
    """

    train: int
    same_label: int
    dev: int
    dev_train: int

    @classmethod
    def read(cls, value: Any) -> "SharedTexts | None":
        """From ``details``; None for what is none."""
        if not isinstance(value, dict):
            return None
        return cls(*(_whole(value.get(field.name)) or 0 for field in dataclasses.fields(cls)))


@dataclasses.dataclass(frozen=True)
class Confusion(_Kept):
    """How often each true label was answered by each label: ``counts[true][answer]``, in the order of
    ``labels``; whoever draws them checks their shape."""

    labels: list[str]
    counts: Any

    @classmethod
    def read(cls, value: Any) -> "Confusion | None":
        """From ``details``; None for what is none."""
        if not isinstance(value, dict) or not isinstance(value.get("labels"), list):
            return None
        return cls([str(label) for label in value["labels"]], value.get("counts"))


def _kept(read: Callable[[Any], _Read | None]) -> Any:
    return dataclasses.field(default=None, metadata={"read": read})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
    """What stands beside a value; None where a measurement does not say it.

    Attributes
    ----------
    part: the split that it was measured on: train, dev, test, held_out, or train and test.
    reason: why the value could not be computed.
    representation: what of a pair of words was classified. method: how minimal pairs were scored.
        category, average: of minimal pairs, one category, or the mean over several.
    groups: how many groups of items (sentences, say) the interval is over.
    pairs, covered: minimal pairs, and how many of them were scored. categories: how many an average
        is over.
    n_train, classes: items that a probe was trained on, and their classes.
    fitted_on, dimensions: pairs that a map was learnt from, and the width of the vectors.
    coverage, sources: the share of a test dictionary's words that are in the vectors, and how many
        words it has.
    languages: codes of the languages that are told apart.
    above_control: the score minus that of a randomly initialised encoder. above_chance: that of a
        control task minus ``chance``, what always the same answer gives.
    over_seeds: of several seeds. seeds: of the control tasks. values: of each training, where a score
        is their mean.
    shared_texts, without_shared: texts that splits share, and the score without these items.
    dropped: reason -> items left out. truncated: items cut to fit the encoder. unseen_in_training:
        split -> label -> items.
    f1: label -> F1. confusion: true labels by answers.
    layer_weights: how much a mix uses each layer. penalty, ridge_penalty: chosen on dev. resampled:
        lowest and highest value after training on bootstrap samples.
    warnings: sentences. by_frequency: the P@1 that frequency alone would give.
    counted_as: whose definition of the quantity. setting, freeze: of a fine-tuning, the point of its grid
        and the layers that were frozen. chosen: points of the grid that were taken, best first.
    epochs: epoch -> split -> its value after that epoch.
    points: of a correlation over languages, language -> the two numbers. p: of no correlation.
    over: what the points of a correlation are, where they are no languages.
    of_known: of words that are replaced, their share of those that a dictionary knows.
    corrected_p: the measurement is a paired test, with the fields of
        :class:`crosslens.probes.methods.paired_tests.PairedTest`. paired_tests: such tests.

    >>> Evidence.read({"part": "test", "groups": 12, "else": 1}).groups
    12
    """

    part: str | None = _kept(_text)
    reason: str | None = _kept(_text)
    representation: str | None = _kept(_text)
    method: str | None = _kept(_text)
    category: str | None = _kept(_text)
    average: str | None = _kept(_text)
    groups: int | None = _kept(_whole)
    pairs: int | None = _kept(_whole)
    covered: int | None = _kept(_whole)
    categories: int | None = _kept(_whole)
    n_train: int | None = _kept(_whole)
    classes: int | None = _kept(_whole)
    fitted_on: int | None = _kept(_whole)
    dimensions: int | None = _kept(_whole)
    of_known: float | None = _kept(_number)
    coverage: float | None = _kept(_number)
    sources: int | None = _kept(_whole)
    languages: list[str] | None = _kept(_list_of(_text))
    above_control: Difference | None = _kept(Difference.read)
    above_chance: Difference | None = _kept(Difference.read)
    chance: float | None = _kept(_number)
    over_seeds: OverSeeds | None = _kept(OverSeeds.read)
    seeds: list[int] | None = _kept(_list_of(_whole))
    values: list[float] | None = _kept(_list_of(_number))
    shared_texts: SharedTexts | None = _kept(SharedTexts.read)
    without_shared: Ends | None = _kept(Ends.read)
    dropped: dict[str, int] | None = _kept(_counts)
    truncated: int | None = _kept(_whole)
    unseen_in_training: dict[str, dict[str, int] | None] | None = _kept(_table_of(_counts))
    f1: dict[str, float | None] | None = _kept(_table_of(_number))
    confusion: Confusion | None = _kept(Confusion.read)
    layer_weights: list[float] | None = _kept(_list_of(_number))
    penalty: float | None = _kept(_number)
    ridge_penalty: float | None = _kept(_number)
    resampled: list[float] | None = _kept(_list_of(_number))
    warnings: list[str] | None = _kept(_list_of(_text))
    by_frequency: float | None = _kept(_number)
    counted_as: str | None = _kept(_text)
    setting: int | None = _kept(_whole)
    chosen: list[int] | None = _kept(_list_of(_whole))
    freeze: int | None = _kept(_whole)
    epochs: dict[str, dict[str, float | None] | None] | None = _kept(_table_of(_numbers))
    points: dict[str, list[float] | None] | None = _kept(_table_of(_list_of(_number)))
    over: str | None = _kept(_text)
    p: float | None = _kept(_number)
    corrected_p: float | None = _kept(_number)
    paired_tests: list[dict[str, Any]] | None = _kept(_list_of(_named))

    @classmethod
    def read(cls, details: Mapping[str, Any] | None) -> "Evidence":
        """What ``details`` say; what is of another kind than declared counts as not said."""
        return cls(
            **{
                name: read(details[name])
                for name, read in _READ.items()
                if details is not None and name in details
            }
        )


_READ: dict[str, Callable[[Any], Any]] = {
    field.name: field.metadata["read"] for field in dataclasses.fields(Evidence)
}
