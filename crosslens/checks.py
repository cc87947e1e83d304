"""Arrays and numbers as they must be, or a refusal that says what to do.

Each function takes a value and the name its caller knows it by, and returns the
same value (as an array where needed) when it is fit for use.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.errors import InputError, refuse

__all__ = [
    "as_array",
    "check_columns",
    "check_finite_rows",
    "check_fraction",
    "check_labels",
    "check_matrix",
    "check_paired",
    "check_positive_int",
    "check_same_width",
    "check_seed",
    "decompose",
    "is_number",
    "is_whole",
    "need_memory",
]


def as_array(value: Any, name: str) -> np.ndarray:
    """``value`` as numpy takes it; a tensor of torch without its gradient, from wherever it is.

    Raises
    ------
    InputError: a masked array, whose mask would be lost. ValueError, TypeError: it is no array at
        all.

    >>> as_array([1, 2], "x")
    array([1, 2])
    """
    if isinstance(value, np.ma.MaskedArray):
        got = f"a masked array ({int(np.ma.getmaskarray(value).sum())} masked)"
        refuse(name, "an array without a mask", got, "leave out what is masked, or fill it")
    # torch is not imported to ask
    if callable(getattr(value, "detach", None)) and callable(getattr(value, "cpu", None)):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()  # every number of it is one of float32
    return np.asarray(value)


def check_matrix(value: Any, name: str, *, min_rows: int = 1) -> np.ndarray:
    """Return ``value`` as a finite floating-point matrix (rows are items) of its own precision.

    float32 and float64 are kept; float16, bfloat16 and integers become float32. The input is
    never written to; a new array is made only where a conversion is needed.

    >>> check_matrix([[1, 2], [3, 4]], "x").dtype
    dtype('float32')
    """
    try:
        array = as_array(value, name)
        # of ml_dtypes, which numpy does not count among real numbers
        half = array.dtype.name == "bfloat16"
        # complex numbers, dates and text would become numbers without a word
        if array.dtype.kind not in "fiubO" and not half:
            raise TypeError
        if array.dtype == object and any(isinstance(one, (str, bytes)) for one in array.flat):
            raise TypeError
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(
                np.float32,
                casting="same_kind" if array.dtype.kind == "f" and not half else "unsafe",
            )
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):
        got = (
            f"an array of {value.dtype}"
            if isinstance(value, np.ndarray)
            else f"{type(value).__name__}"
        )
        refuse(name, "a matrix of numbers", got, "pass an array of shape (n, d)")
    if array.ndim != 2:
        refuse(
            name, "a matrix of shape (n, d)", f"an array of shape {array.shape}", "one row per item"
        )
    if array.shape[0] < min_rows or array.shape[1] < 1:
        expected = f"at least {min_rows} row(s) and 1 column"
        refuse(name, expected, f"shape {array.shape}", "give more items")
    with np.errstate(invalid="ignore", over="ignore"):  # the refusal says it, not a warning
        total = array.sum()
    # one pass; which rows, if it has not merely overflowed, only when it is needed
    if not np.isfinite(total):
        check_finite_rows(array, name)
    return array


def check_finite_rows(array: np.ndarray, name: str) -> None:
    """Refuse NaN and infinity, and say in which rows of a matrix they stand.

    >>> check_finite_rows(np.ones((2, 3)), "x")
    """
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        got = f"NaN or infinity in {len(bad)} row(s), the first is row {bad[0]}"
        refuse(name, "finite numbers", got, "remove or repair these rows")


def check_same_width(
    x: np.ndarray,
    y: np.ndarray,
    names: tuple[str, str] = ("x", "y"),
    remedy: str = "compare vectors of one space",
) -> None:
    """Refuse two matrices of different numbers of columns.

    >>> check_same_width(np.zeros((1, 2)), np.zeros((1, 3)))
    Traceback (most recent call last):
    crosslens.errors.InputError: y: expected as many columns as x (2), got 3 columns; compare vectors of one space
    """
    if x.shape[1] != y.shape[1]:
        expected = f"as many columns as {names[0]} ({x.shape[1]})"
        refuse(names[1], expected, f"{y.shape[1]} columns", remedy)


def check_paired(
    x: Any, y: Any, names: tuple[str, str] = ("x", "y"), *, min_rows: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return both matrices if row i of one belongs to row i of the other.

    >>> x, y = check_paired([[1.0]], [[2.0, 3.0]])
    >>> x.shape, y.shape
    ((1, 1), (1, 2))
    """
    x = check_matrix(x, names[0], min_rows=min_rows)
    y = check_matrix(y, names[1], min_rows=min_rows)
    if len(x) != len(y):
        remedy = "row i of one must belong to row i of the other"
        refuse(names[1], f"as many rows as {names[0]} ({len(x)})", f"{len(y)} rows", remedy)
    return x, y


def decompose(
    matrix: np.ndarray, name: str, remedy: str = "rescale it"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The singular value decomposition U, s, Vᵀ of a matrix (a, b), with as many directions as the
    smaller of a and b, or a refusal where LAPACK finds none.

    >>> decompose(np.diag([3.0, 2.0]), "x")[1].tolist()
    [3.0, 2.0]
    """
    try:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError as error:
        refuse(name, "a matrix with a singular value decomposition", str(error), remedy)
    return left, values, right


def check_columns(place: str, cells: Sequence[str], n: int, what: str = "") -> None:
    """Refuse a line of a file that has not n columns between tabs.

    Parameters
    ----------
    place: file and line. what: what is said of the columns behind their number.

    >>> check_columns("a.tsv:1", ["en", "house"], 2, " (label and text)")
    """
    if len(cells) != n:
        refuse(place, f"{n} tab-separated columns{what}", str(len(cells)), "repair the line")


def check_labels(value: Any, name: str, n: int) -> np.ndarray:
    """Return ``n`` labels as a one-dimensional array.

    >>> check_labels(["en", "fr"], "y", 2).tolist()
    ['en', 'fr']
    """
    try:
        labels = as_array(value, name)
    except InputError:
        raise
    except ValueError:
        refuse(
            name, f"{n} labels, one per row", "rows of different lengths", "give one label per row"
        )
    if labels.ndim != 1 or len(labels) != n:
        got = f"an array of shape {labels.shape}"
        refuse(name, f"{n} labels, one per row", got, "give one label per row")
    if labels.dtype.kind in "US" and isinstance(value, (list, tuple)):
        # numpy writes what is no text as text, too: a missing label would be the class "nan"
        for row, label in enumerate(value):
            if not isinstance(label, (str, bytes)):
                missing = isinstance(label, float) and label != label
                expected = "a label for every item" if missing else "words alone, or numbers alone"
                got = f"none for item {row}" if missing else f"{label!r} for item {row}, and words"
                refuse(name, expected, got, "remove items without a label, or write all in one way")
    return labels


def is_whole(value: object) -> bool:
    """Whether a value is a whole number of Python or numpy, which True is not.

    >>> is_whole(np.int64(3)), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value is a real number of Python or numpy, which True is not.

    >>> is_number(3), is_number(np.float32(0.5)), is_number(True), is_number(1j)
    (True, True, False, False)
    """
    return is_whole(value) or isinstance(value, (float, np.floating))


def check_positive_int(value: Any, name: str, *, most: int | None = None) -> int:
    """Return a whole number from 1 to ``most``.

    >>> check_positive_int(10, "k")
    10
    """
    top = "up" if most is None else f"to {most}"
    if not is_whole(value) or value < 1 or (most is not None and value > most):
        refuse(name, f"a whole number from 1 {top}", repr(value), f"choose {name} in this range")
    return int(value)


def check_seed(value: Any, *, most: int | None = None, name: str = "seed") -> int:
    """Return a whole number from 0 to ``most``, as random number generators take it.

    >>> check_seed(np.int64(3))
    3
    """
    top = "up" if most is None else f"to {most}"
    if not is_whole(value) or value < 0 or (most is not None and value > most):
        remedy = "choose any such number: the same one gives the same result"
        refuse(name, f"a whole number from 0 {top}", repr(value), remedy)
    return int(value)


def check_fraction(value: Any, name: str) -> float:
    """Return a number strictly between 0 and 1.

    >>> check_fraction(0.5, "train_fraction")
    0.5
    """
    if not is_number(value) or not 0 < value < 1:
        expected = "a fraction between 0 and 1 (both excluded)"
        refuse(name, expected, repr(value), f"choose {name} in this range")
    return float(value)


def need_memory(size: int, name: str, what: str, remedy: str) -> None:
    """Refuse what would not fit: more than four fifths of the memory that this machine, or the
    group of processes, has to give now.

    Parameters
    ----------
    size: bytes. what: what they are of, for the message.

    Raises
    ------
    InputError: it does not fit.

    >>> need_memory(10**18, "text", "vectors", "give less text")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    crosslens.errors.InputError: text: expected what fits into memory (... GB), got vectors (1000000000.0 GB); give less text
    """
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path, pattern, unit in (
        ("/proc/meminfo", r"MemAvailable: *(\d+) kB", 1024),
        ("/sys/fs/cgroup/memory.max", r"(\d+)", 1),
    ):
        try:
            found = re.search(pattern, Path(path).read_text())
        except OSError:  # not on this system
            continue
        there = min(there, unit * int(found[1])) if found else there
    if size > 0.8 * there:
        expected = f"what fits into memory ({there / 1e9:.1f} GB)"
        refuse(name, expected, f"{what} ({size / 1e9:.1f} GB)", remedy)
