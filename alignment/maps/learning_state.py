"""How far self-learning has come, in a file: after kill -9 it resumes there, and ends with the
same bits."""

import dataclasses
import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypedDict

import numpy as np

from crosslens.alignment.maps.fitted import check_axes, read_tensors, write_tensors
from crosslens.errors import OutputError, StoreError, cut, refuse
from crosslens.files import check_shape, same_settings

__all__ = ["LearningState", "StateFile", "checksum"]

_EVERY = 10.0  # seconds between two writings
_WRITER = "self_learning"
_AXES = {"pairs": "p2", "order_x": "n", "order_y": "m", "objectives": "i", "keeps": "i"}


class _Facts(TypedDict):
    settings: dict[str, Any]
    random: dict[str, Any]
    best: float
    stage: int
    stale: int


@dataclasses.dataclass
class LearningState:
    """All that the next iteration depends on, and what is reported of those before.

    Attributes
    ----------
    pairs: shape (p, 2), the dictionary that the next map is fitted to. order_x, order_y: the words
        as the next iteration groups them.
    random: draws which candidates stay.
    objectives, keeps: a number per iteration. best: the objective to beat. stage: how often the
        keep probability was
        raised. stale: iterations of this stage without gain.
    """

    pairs: np.ndarray
    order_x: np.ndarray
    order_y: np.ndarray
    random: np.random.Generator
    objectives: list[float] = dataclasses.field(default_factory=list)
    keeps: list[float] = dataclasses.field(default_factory=list)
    best: float = -np.inf
    stage: int = 0
    stale: int = 0


class StateFile:
    """The file of one learning; without a path nothing is read or written.

    Parameters
    ----------
    settings: what learning depends on; a file of other ones is refused.

    Raises
    ------
    OutputError: the file's folder is not there, or cannot be written to.
    """

    def __init__(self, path: str | Path | None, settings: Mapping[str, Any]) -> None:
        self.path, self.settings = None if path is None else Path(path), dict(settings)
        if self.path and not (
            self.path.parent.is_dir() and os.access(self.path.parent, os.W_OK | os.X_OK)
        ):
            expected = "a file in a folder that can be written to"
            remedy = "make the folder, or choose another"
            refuse("state", expected, str(self.path), remedy, OutputError)
        self._written = time.monotonic()

    def _refuse_damage(self, error: Exception, remedy: str) -> NoReturn:
        got = f"{self.path} ({cut(str(error), 200)})"
        refuse("state", f"a file written by {_WRITER}", got, remedy, StoreError)

    def read(self, fresh: LearningState) -> LearningState:
        """The state in the file; ``fresh`` where there is none.

        Raises
        ------
        OutputError: the file is of other data or settings.
        StoreError: it is damaged or something else.
        """
        if self.path is None or not self.path.exists():
            return fresh
        remedy = "remove it, and learning begins anew"
        arrays, facts = read_tensors(self.path, _WRITER, remedy)
        try:
            if facts["class"] != LearningState.__name__ or arrays.keys() != _AXES.keys():
                raise KeyError(facts["class"])
            check_axes(arrays, _AXES)
        except (KeyError, ValueError) as error:
            self._refuse_damage(error, remedy)
        told: _Facts = check_shape(facts, f"state {self.path}", _Facts, remedy)
        again = "choose another file, or repeat the data and settings of this one"
        same_settings(f"state {self.path}", told["settings"], self.settings, again)
        try:
            if not _fit(arrays, fresh) or told["stage"] < 0:
                raise ValueError("words that are not those of the data")
            fresh.random.bit_generator.state = told["random"]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            self._refuse_damage(error, remedy)
        fresh.pairs, fresh.order_x, fresh.order_y = (
            arrays[name] for name in ("pairs", "order_x", "order_y")
        )
        fresh.objectives, fresh.keeps = arrays["objectives"].tolist(), arrays["keeps"].tolist()
        fresh.best, fresh.stage, fresh.stale = told["best"], told["stage"], told["stale"]
        return fresh

    def write(self, state: LearningState, *, last: bool = False) -> None:
        """Write the state where that is some seconds ago, or ``last``.

        Raises
        ------
        OutputError: the place cannot be written to.
        """
        if self.path is None or not last and time.monotonic() - self._written < _EVERY:
            return
        arrays = {name: np.ascontiguousarray(getattr(state, name)) for name in _AXES}
        facts = {
            "class": LearningState.__name__,
            "settings": self.settings,
            "random": state.random.bit_generator.state,
        }
        write_tensors(
            self.path,
            arrays,
            facts | {"best": state.best, "stage": state.stage, "stale": state.stale},
        )
        self._written = time.monotonic()


def _fit(arrays: Mapping[str, np.ndarray], fresh: LearningState) -> bool:
    """Whether the words that a state names are those of the two vocabularies, each once in the
    order."""
    if not all(
        arrays[name].dtype.kind in "iu" for name in ("pairs", "order_x", "order_y")
    ) or not len(arrays["pairs"]):
        return False
    for side, name in enumerate(("order_x", "order_y")):
        order, here, pairs = arrays[name], getattr(fresh, name), arrays["pairs"][:, side]
        most = max(len(here), int(fresh.pairs[:, side].max()) + 1)
        if (
            not np.array_equal(np.sort(order), np.sort(here))
            or pairs.min() < 0
            or pairs.max() >= most
        ):
            return False
    return True


def checksum(array: np.ndarray) -> str:
    """A short name for an array: its type, shape and numbers.

    >>> checksum(np.zeros(2)) == checksum(np.zeros(2)), checksum(np.zeros(2)) == checksum(np.zeros((1, 2)))
    (True, False)
    """
    total = hashlib.sha256(f"{array.dtype} {array.shape} ".encode())
    total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()[:16]
