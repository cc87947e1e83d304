"""Control tasks: the same probe on labels that say nothing, and how much better it is on those that
do.

Hewitt & Liang 2019, Designing and interpreting probes with control tasks: each word type gets a
random label that all its occurrences have, in training and in test. Only a probe that memorises
types does well on it, so that accuracy minus control accuracy, the selectivity, is what the vectors
themselves make easy.
"""

import hashlib
import math

import numpy as np
from jaxtyping import Shaped
from numpy.typing import ArrayLike

from crosslens.checks import check_labels, check_seed
from crosslens.errors import refuse
from crosslens.probes.methods.controls import check_classes
from crosslens.stats import cluster_sums, difference_interval

__all__ = ["control_labels", "mean_difference", "selectivity"]

_Z = 1.959963984540054  # the normal distribution's 97.5 % point


def control_labels(types: ArrayLike, y: ArrayLike, seed: int) -> Shaped[np.ndarray, " n"]:
    """A random label for each word type, sampled from the labels' frequencies (Hewitt & Liang 2019,
    section 2.1).

    Which label a type gets follows from the seed, its name and the frequencies alone: neither from
    the order of rows nor from which other types there are. The same type always has the same label.

    Parameters
    ----------
    types: shape (n,), the word type of each item; compared as text.
    y: shape (m,), labels whose frequencies the draw follows, those of the training items say; m and
        n may differ.
    seed: not negative.

    Returns
    -------
    shape (n,), labels of ``y``'s kind.

    Raises
    ------
    InputError: no labels or labels of several kinds, types that are no list, or a negative seed.

    >>> control_labels(["dog", "cat", "dog"], ["NOUN", "NOUN", "VERB"], seed=2).tolist()
    ['VERB', 'NOUN', 'VERB']
    """
    seed = check_seed(seed)
    labels, counts = np.unique(check_classes(y, "y"), return_counts=True)
    ends, total = np.cumsum(counts), int(counts.sum())
    names = check_labels(types, "types", np.size(types))
    kinds, codes = np.unique(names.astype(str), return_inverse=True)
    # a whole number below total
    drawn = [_share(name, seed) * total >> 64 for name in kinds.tolist()]
    return labels[np.searchsorted(ends, drawn, side="right")][codes]


def _share(name: str, seed: int) -> int:
    """A number from 0 to 2^64 - 1 that looks random and is the same on every machine."""
    data = f"{seed}\t{name}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def selectivity(
    correct: np.ndarray, control: np.ndarray, groups: np.ndarray | None = None
) -> tuple[float, float, float]:
    """Accuracy minus mean control accuracy over s control tasks, and its 95 % interval over items.

    The interval is that of :func:`crosslens.stats.paired_interval` (Agresti & Min 2005, "Wald+2":
    half an item is added to each cell of the table of outcomes), for differences that are means
    over s tasks; for s = 1 they are equal.

    Parameters
    ----------
    correct: shape (n,), outcome of each item on the task. control: shape (s, n), of the same items
        on each control task.
    groups: shape (n,), which items stand and fall together; the interval is then that of
        :func:`crosslens.stats.difference_interval`.

    Returns
    -------
    difference, low, high: each from -1 to 1.

    Raises
    ------
    InputError: no items, no control task, or different items.

    >>> selectivity(np.array([True] * 9 + [False]), np.array([[True] * 3 + [False] * 7]))[0]
    0.6
    """
    if control.ndim != 2 or control.shape[1:] != correct.shape or control.size == 0:
        expected = f"outcomes of {len(correct)} items, at least one"
        refuse("control", expected, f"shape {control.shape}", "score the same items")
    low, high = mean_difference(correct.astype(np.float64), control.mean(axis=0), groups)[1:]
    # of whole counts, so that 0.9 - 0.3 is 0.6
    return (
        (int(correct.sum()) * len(control) - int(control.sum())) / (len(correct) * len(control)),
        low,
        high,
    )


def mean_difference(
    first: np.ndarray, second: np.ndarray, groups: np.ndarray | None = None
) -> tuple[float, float, float]:
    """Mean difference of outcomes from 0 to 1 (means over repetitions need not be whole) of the
    same items, and its 95 % interval.

    Parameters
    ----------
    first, second: shape (n,). groups: shape (n,), which items stand and fall together.

    Returns
    -------
    first minus second, low, high: each from -1 to 1.

    >>> mean_difference(np.array([1.0, 0.5]), np.array([0.0, 0.5]))[0]
    0.5
    """
    n, differences = len(first), first - second
    more, squares = float(differences.sum()), float(np.square(differences).sum())
    if groups is not None:
        balance, of = cluster_sums(differences, groups)
        if len(of) < n:
            return (
                (more / n, *difference_interval(balance, of)[1:])
                if len(of) > 1
                else (more / n, -1.0, 1.0)
            )
    half = _Z * math.sqrt(squares + 1 - more**2 / (n + 2)) / (n + 2)
    centre = more / (n + 2)
    return more / n, max(-1.0, centre - half), min(1.0, centre + half)
