"""What all fitted aligners share: they refuse before ``fit``, and are saved and loaded as
safetensors.

One file holds an estimator's learnt arrays as tensors, and its class, parameters and
learnt numbers as JSON in the file's metadata. :mod:`crosslens.alignment.maps.pivot` keeps several
in one file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypedDict, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from crosslens.alignment.neighbours.retrieval import retrieval_both_directions
from crosslens.checks import check_matrix
from crosslens.errors import InputError, StoreError, cut, refuse
from crosslens.files import parse_json, write_file

__all__ = [
    "FittedEstimator",
    "NotYetFittedError",
    "check_axes",
    "check_columns",
    "pack",
    "read_tensors",
    "unpack",
    "write_tensors",
]


class NotYetFittedError(InputError, NotFittedError):
    """A fitted estimator is needed; an InputError that scikit-learn, too, knows for what it is."""


_Facts = TypedDict("_Facts", {"class": str})  # what the metadata say at least


_AXES = {
    "rotation_": "de",
    "matrix_": "de",
    "mean_x_": "d",
    "mean_y_": "e",
    "map_x_": "dp",
    "map_y_": "dp",
    "singular_values_": "s",
    "means_": "rd",
}
"""The axes of what estimators learn: d and e dimensions of the two sides."""

_Estimator = TypeVar("_Estimator", bound="FittedEstimator")


class FittedEstimator(TransformerMixin, BaseEstimator):
    """The ground that the aligners stand on; a subclass names in ``_learnt`` what its ``fit`` sets.

    ``fit(X, Y)`` takes two matrices, as scikit-learn's own cross-decomposition does; pipelines
    and scikit-learn's checks pass the second by position, whatever its name, and the
    tags tell them that it is a matrix.
    """

    _paired: ClassVar[bool] = True  # fit takes Y, too
    _lacks: ClassVar[str]  # what it is without before fit, as the refusal words it
    _learnt: ClassVar[tuple[str, ...]]  # arrays and plain numbers, n_features_in_ among them
    # of these, the numbers that older files lack, and what they were then
    _later: ClassVar[Mapping[str, float]] = {}

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # scikit-learn's own argument
        parameters = " ".join(super().__repr__(N_CHAR_MAX).split())
        width = getattr(self, "n_features_in_", None)
        return parameters if width is None else f"{parameters} fitted on {width} dimensions"

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator as one safetensors file, whole or not at all.

        Raises
        ------
        InputError: not fitted.
        OutputError: the place cannot be written to.
        """
        self._check_fitted()
        tensors, facts = pack(self)
        write_tensors(path, tensors, facts)

    @classmethod
    def load(cls: type[_Estimator], path: str | Path) -> _Estimator:
        """Read an estimator that :meth:`save` wrote; it maps as the saved one did, to the last bit.

        Raises
        ------
        InputError: there is no such file.
        StoreError: the file is damaged or something else.
        """
        writer = f"{cls.__name__}.save"
        tensors, facts = read_tensors(path, writer)
        try:
            return unpack(cls, tensors, facts)
        except (KeyError, TypeError, ValueError) as error:
            got = f"{path} ({cut(str(error), 200)})"
            remedy = "fit and save the aligner again"
            refuse("path", f"a file written by {writer}", got, remedy, StoreError)

    def _check_fitted(self) -> None:
        if not hasattr(self, self._learnt[0]):
            kind, call = ("aligner", "fit(X, Y)") if self._paired else ("normaliser", "fit(X)")
            got = f"one without {self._lacks}"
            remedy = f"call {call} first"
            refuse(type(self).__name__, f"a fitted {kind}", got, remedy, NotYetFittedError)

    def _check_rows(self, x: ArrayLike, name: str, columns: int) -> np.ndarray:
        """Rows to be mapped."""
        return check_columns(x, name, columns)

    def _score(self, predicted: np.ndarray, target: np.ndarray) -> float:
        """The share of rows that are nearest to their own row of the other side, the mean of both
        directions."""
        return float(
            np.mean([result.precision for result in retrieval_both_directions(predicted, target)])
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        if self._paired:
            tags.target_tags.required = tags.target_tags.multi_output = True
            tags.target_tags.single_output = False
        return tags


def check_columns(x: ArrayLike, name: str, columns: int, like: str = "in fit") -> np.ndarray:
    """Rows to be mapped: a finite matrix with as many columns as the rows of that side had that the
    map was learnt from.

    Raises
    ------
    InputError: it is not.

    >>> check_columns([[1.0, 2.0]], "X", 2).shape
    (1, 2)
    """
    x = check_matrix(x, name)
    if x.shape[1] != columns:
        remedy = "map vectors of the same encoder and layer"
        refuse(name, f"{columns} columns, as {like}", f"{x.shape[1]} columns", remedy)
    return x


def pack(estimator: FittedEstimator) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A fitted estimator's arrays, and all the rest of it as values that JSON can hold."""
    learnt = {name: getattr(estimator, name) for name in estimator._learnt}
    tensors = {
        name: np.ascontiguousarray(value)
        for name, value in learnt.items()
        if isinstance(value, np.ndarray)
    }
    rest = {name: value for name, value in learnt.items() if name not in tensors}
    return tensors, {"class": type(estimator).__name__, **estimator.get_params(), **rest}


def unpack(
    kind: type[_Estimator], tensors: Mapping[str, np.ndarray], facts: Mapping[str, Any]
) -> _Estimator:
    """The estimator that :func:`pack` took apart; a parameter that an older file lacks has its
    default.

    Raises
    ------
    KeyError, TypeError, ValueError: it was another class's, or something is missing, unknown, or of
        no such shape.
    """
    if facts["class"] != kind.__name__:
        raise KeyError(facts["class"])
    check_axes(
        tensors,
        {name: _AXES[name] for name in kind._learnt if name in _AXES},
        {"d": facts["n_features_in_"]},
    )
    if wrong := [
        name
        for name, value in facts.items()
        if value is not None and not isinstance(value, str | float | int)
    ]:
        raise TypeError(f"{wrong[0]} is no number")
    if wrong := [
        name for name in kind._learnt if name in facts and not isinstance(facts[name], float | int)
    ]:
        raise TypeError(f"{wrong[0]} is no number")
    learnt = {
        **kind._later,
        **tensors,
        **{name: value for name, value in facts.items() if name.endswith("_")},
    }
    estimator = kind(
        **{name: value for name, value in facts.items() if name not in ("class", *learnt)}
    )
    for name in kind._learnt:
        setattr(estimator, name, learnt[name])
    return estimator


def check_axes(
    tensors: Mapping[str, np.ndarray],
    axes: Mapping[str, str],
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Pass if arrays of finite numbers have the axes that they should: one letter each, the same
    letter for the same size.

    Parameters
    ----------
    axes: name of an array -> its axes: letters, or digits for a fixed size. sizes: letters whose
        sizes are known.

    Raises
    ------
    KeyError, ValueError: an array is missing, or is another one.

    >>> check_axes({"map": np.eye(3), "mean": np.zeros(3)}, {"map": "dd", "mean": "d"})
    """
    known = {digit: int(digit) for digit in "0123456789"} | dict(sizes or {})
    for name, letters in axes.items():
        array = tensors[name]
        if array.ndim != len(letters) or any(
            known.setdefault(letter, n) != n for letter, n in zip(letters, array.shape, strict=True)
        ):
            raise ValueError(f"{name} of shape {array.shape}")
        if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise ValueError(f"{name} with something else than numbers")


def write_tensors(
    path: str | Path, tensors: Mapping[str, np.ndarray], facts: Mapping[str, Any]
) -> None:
    """Write arrays, and facts as JSON in the metadata, as one safetensors file.

    Raises
    ------
    OutputError: the place cannot be written to.
    """
    # a parameter may be a numpy number
    metadata = {"crosslens": json.dumps(facts, default=lambda number: number.item())}
    write_file(path, to_safetensors(dict(tensors), metadata=metadata))


def read_tensors(
    path: str | Path, writer: str, remedy: str = "fit and save the aligner again"
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what :func:`write_tensors` wrote; ``writer`` is what the user would have called,
    ``remedy`` what is left to do without it.

    Raises
    ------
    InputError: there is no such file.
    StoreError: the file is damaged or something else.
    """
    if not Path(path).is_file():
        refuse("path", f"a file written by {writer}", f"{path}, which is no file", "check the path")
    try:
        with safe_open(path, framework="numpy") as file:
            facts = (file.metadata() or {})["crosslens"]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
    except (SafetensorError, KeyError, ValueError, TypeError, OSError, AttributeError) as error:
        got = f"{path} ({cut(str(error), 200)})"
        refuse("path", f"a file written by {writer}", got, remedy, StoreError)
    return tensors, parse_json(facts, f"path {path}", _Facts, remedy)
