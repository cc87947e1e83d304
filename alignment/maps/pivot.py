"""Several languages in one space: each mapped onto the same pivot by a dictionary of its own, in
one call."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import clone

from crosslens.alignment.maps.fitted import check_columns, pack, read_tensors, unpack, write_tensors
from crosslens.alignment.maps.linear_maps import LeastSquares
from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.maps.seeds import check_pairs
from crosslens.checks import check_matrix
from crosslens.errors import InputError, StoreError, cut, refuse
from crosslens.files import check_shape
from crosslens.one_line import one_line

__all__ = ["PivotMaps", "map_to_pivot"]

_KINDS: dict[str, type[Procrustes] | type[LeastSquares]] = {
    "LeastSquares": LeastSquares,
    "Procrustes": Procrustes,
}


class _Facts(TypedDict):
    """What the metadata of a file say beside the class."""

    pivot: str
    languages: dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class PivotMaps:
    """Fitted maps from several languages into the space of one; :func:`map_to_pivot` makes them.

    Attributes
    ----------
    pivot: the language whose space is shared.
    aligners: language -> its fitted aligner, which tells rank and residual; the pivot has none.
    """

    pivot: str
    aligners: dict[str, Procrustes | LeastSquares]

    __repr__ = one_line

    def transform(self, language: str, X: ArrayLike) -> Float[np.ndarray, "n e"]:
        """Map rows of a language's space into the pivot's; the pivot's own rows stay as they are.

        Parameters
        ----------
        language: the pivot, or one of ``aligners``.
        X: shape (n, d), any number of rows.

        Returns
        -------
        shape (n, e), e dimensions as the pivot, in the precision of ``X``.

        Raises
        ------
        InputError: no map for this language; not finite; or another number of columns than in its
            training.
        """
        aligner = self._aligner(language)
        return self._own(X, "X") if aligner is None else aligner.transform(X)

    def inverse_transform(self, language: str, Y: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Map rows of the pivot's space into a language's, by the ``inverse_transform`` of its
        aligner.

        After ``transform(other, X)`` this leads from one language to another through the pivot.

        Parameters
        ----------
        language: the pivot, or one of ``aligners``.
        Y: shape (n, e), any number of rows.

        Returns
        -------
        shape (n, d), in the precision of ``Y``.

        Raises
        ------
        InputError: as for :meth:`transform`.
        """
        aligner = self._aligner(language)
        return self._own(Y, "Y") if aligner is None else aligner.inverse_transform(Y)

    def save(self, path: str | Path) -> None:
        """Write all maps as one safetensors file, whole or not at all.

        Raises
        ------
        OutputError: the place cannot be written to.
        """
        packed = {language: pack(aligner) for language, aligner in self.aligners.items()}
        tensors = {
            f"{language}/{name}": value
            for language, (arrays, _) in packed.items()
            for name, value in arrays.items()
        }
        languages = {language: facts for language, (_, facts) in packed.items()}
        write_tensors(
            path, tensors, {"class": "PivotMaps", "pivot": self.pivot, "languages": languages}
        )

    @classmethod
    def load(cls, path: str | Path) -> "PivotMaps":
        """Read maps that :meth:`save` wrote; they map as the saved ones did, to the last bit.

        Raises
        ------
        InputError: there is no such file.
        StoreError: the file is damaged or something else.
        """
        writer = "PivotMaps.save"
        tensors, facts = read_tensors(path, writer)
        if facts["class"] == "PivotMaps":
            check_shape(facts, f"path {path}", _Facts, "fit and save the maps again")
        try:
            if facts["class"] != "PivotMaps" or not facts["languages"]:
                raise KeyError(facts["class"])
            aligners = {}
            for language, told in facts["languages"].items():
                own = {
                    name.removeprefix(f"{language}/"): value
                    for name, value in tensors.items()
                    if name.startswith(f"{language}/")
                }
                aligners[language] = unpack(_KINDS[told["class"]], own, told)
            if len({len(aligner.mean_y_) for aligner in aligners.values()}) > 1:
                raise ValueError("maps into different spaces")
            return cls(facts["pivot"], aligners)
        except (KeyError, TypeError, ValueError) as error:
            got = f"{path} ({cut(str(error), 200)})"
            remedy = "fit and save the maps again"
            refuse("path", f"a file written by {writer}", got, remedy, StoreError)

    def _aligner(self, language: str) -> Procrustes | LeastSquares | None:
        if language != self.pivot and language not in self.aligners:
            known = ", ".join(sorted([self.pivot, *self.aligners]))
            remedy = "map this language together with the others"
            refuse("language", f"one of {known}", repr(language), remedy)
        return self.aligners.get(language)

    def _own(self, rows: ArrayLike, name: str) -> np.ndarray:
        columns = len(next(iter(self.aligners.values())).mean_y_)
        return check_columns(rows, name, columns, f"{self.pivot} in fit").copy()


def map_to_pivot(
    vectors: Mapping[str, ArrayLike],
    pivot: str,
    pairs: Mapping[str, ArrayLike],
    aligner: Procrustes | LeastSquares | None = None,
) -> PivotMaps:
    """Learn a map from every language into the pivot's space, each from its own dictionary.

    Parameters
    ----------
    vectors: language -> shape (n, d), n differing between languages; the pivot is one of them.
    pivot: the language whose space all others are mapped into.
    pairs: every other language -> shape (p, 2), whole numbers; (i, j) says that row i of the
        language corresponds to row j of the pivot. Dictionaries may differ in length and in the
        pivot's rows; a pair given twice counts twice.
    aligner: how to map, copied for each language; None is ``Procrustes()``.

    Returns
    -------
    the fitted maps.

    Raises
    ------
    InputError: no pivot or nothing but the pivot among ``vectors``, languages without pairs or the
        other way round, an empty dictionary, a row that is not there, or what the aligner's ``fit``
        refuses, under the name of the language.

    Notes
    -----
    :class:`crosslens.alignment.maps.vecmap_maps.MultiStepMap` is no aligner for this: each pair of
    languages gets a common space of its own from it.

    >>> rng = np.random.default_rng(0)
    >>> english, (turn, _) = rng.normal(size=(9, 3)), np.linalg.qr(rng.normal(size=(3, 3)))
    >>> maps = map_to_pivot(
    ...     {"eng": english, "fra": english[:8] @ turn, "deu": english @ turn.T},
    ...     pivot="eng",
    ...     pairs={"fra": [(i, i) for i in range(6)], "deu": [(i, i) for i in range(9)]},
    ... )
    >>> bool(np.allclose(maps.transform("fra", (english @ turn)[:8]), english[:8]))
    True
    """
    if aligner is not None and type(aligner) not in _KINDS.values():
        remedy = "only these map into the pivot's own space"
        refuse("aligner", "a Procrustes or a LeastSquares", type(aligner).__name__, remedy)
    matrices = {
        language: check_matrix(rows, f"vectors['{language}']") for language, rows in vectors.items()
    }
    if pivot not in matrices or len(matrices) < 2:
        there = ", ".join(sorted(matrices)) or "none"
        expected = f"vectors of {pivot} and of at least one other language"
        refuse("vectors", expected, there, "give the pivot's vectors and those to map")
    if pairs.keys() != matrices.keys() - {pivot}:
        alone = ", ".join(sorted(pairs.keys() ^ (matrices.keys() - {pivot})))
        expected = f"the languages of vectors without {pivot}"
        got = f"{alone} in only one of the two"
        refuse("pairs", expected, got, "give each language its dictionary")
    aligners = {}
    for language, listed in pairs.items():
        sides = "the language", "the pivot"
        rows = check_pairs(
            listed, len(matrices[language]), len(matrices[pivot]), f"pairs['{language}']", sides
        )
        try:
            aligners[language] = clone(aligner or Procrustes()).fit(
                matrices[language][rows[:, 0]], matrices[pivot][rows[:, 1]]
            )
        except InputError as error:
            raise InputError(f"{language} (X) to {pivot} (Y): {error}") from None
    return PivotMaps(pivot, aligners)
