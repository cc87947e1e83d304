"""Which items a probe is trained on, which choose its penalty, and which it is scored on."""

import dataclasses

import numpy as np
from jaxtyping import Int, Shaped
from numpy.typing import ArrayLike

from crosslens.checks import as_array, check_fraction, check_labels, check_seed
from crosslens.errors import refuse
from crosslens.one_line import one_line
from crosslens.probes.methods.controls import check_classes

__all__ = ["Parts", "hold_out_dev", "shuffled", "stratified_parts"]

_NONE = np.array([], np.int64)


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
    """Numbers of items, from 0, in three parts that share none.

    Attributes
    ----------
    train, test: shape (a,) and (b,), at least one item each.
    dev: shape (c,); no item where no part is left for choosing a penalty.
    drawn: how the parts came about, for the record: "given", or what was sampled with which seed.

    Raises
    ------
    InputError: numbers that are not whole or are negative, an item in two parts or twice in one, no
        items to train or to test.

    >>> parts = Parts(train=[0, 1, 2], test=[4], dev=[3])
    >>> len(parts.train), parts.drawn
    (3, 'given')
    """

    train: Int[np.ndarray, " a"]
    test: Int[np.ndarray, " b"]
    dev: Int[np.ndarray, " c"] = dataclasses.field(default_factory=_NONE.copy)
    drawn: str = "given"

    __repr__ = one_line

    def __init__(
        self, train: ArrayLike, test: ArrayLike, dev: ArrayLike = _NONE, drawn: str = "given"
    ) -> None:
        for name, rows in (("train", train), ("test", test), ("dev", dev)):
            object.__setattr__(self, name, _check_rows(rows, name))
        object.__setattr__(self, "drawn", drawn)
        for name in ("train", "test"):
            if not len(getattr(self, name)):
                refuse(name, "at least one item", "none", "give items to train and to test on")
        rows, counts = np.unique(
            np.concatenate([self.train, self.dev, self.test]), return_counts=True
        )
        if (counts > 1).any():
            got = f"item {rows[counts > 1][0]} {counts.max()} times"
            refuse("parts", "every item once", got, "give splits that share no item")

    @property
    def sizes(self) -> dict[str, int]:
        """Items in train, dev and test."""
        return {name: len(getattr(self, name)) for name in ("train", "dev", "test")}

    @classmethod
    def of_names(cls, names: ArrayLike) -> "Parts":
        """The parts that a column says: "train", "dev" or "test" for each item.

        >>> Parts.of_names(["train", "test", "train"]).train.tolist()
        [0, 2]
        """
        said = as_array(names, "names")
        other = sorted({*said.tolist()} - {"train", "dev", "test"}, key=str)
        if said.ndim != 1 or other:
            got = repr(other[0]) if other else f"shape {said.shape}"
            refuse("names", "train, dev or test for every item", got, "call the splits so")
        train, test, dev = (np.flatnonzero(said == part) for part in ("train", "test", "dev"))
        return cls(train, test, dev)

    def check(self, n: int) -> None:
        """Pass if all rows are rows of n items.

        Raises
        ------
        InputError: a row that is not there.

        >>> Parts([0], [1]).check(2)
        """
        last = max(int(rows.max()) for rows in (self.train, self.dev, self.test) if len(rows))
        if last >= n:
            expected = f"rows of {n} items, 0 to {n - 1}"
            refuse("parts", expected, f"row {last}", "give splits of these items")


def _check_rows(rows: ArrayLike, name: str) -> np.ndarray:
    array = as_array(rows, name)
    if (
        array.ndim != 1
        or (array.dtype.kind not in "iu" and array.size)
        or (array.size and array.min() < 0)
    ):
        got = f"an array of {array.dtype} of shape {array.shape}"
        refuse(name, "numbers of items, from 0", got, "give whole numbers, not a mask")
    return array.astype(np.int64)


def stratified_parts(
    y: ArrayLike,
    fractions: tuple[float, float, float] = (0.7, 0.1, 0.2),
    seed: int = 0,
    *,
    groups: ArrayLike | None = None,
) -> Parts:
    """Divide items at random into train, dev and test, each label by itself.

    Of every label the same share goes to each part, rounded to whole items; a label with a single
    item is in train. Labels with equally many items are divided alike: where the j-th item of every
    language says the same, its translations stay together.

    Parameters
    ----------
    y: shape (n,), labels.
    fractions: of train, dev and test; they sum to 1. dev may be 0.
    seed: the same seed gives the same parts, and a label's do not depend on the other labels.
    groups: shape (n,), the text of each item, say: items of one group stay in one part. A group is
        sampled with the label of its first item.

    Raises
    ------
    InputError: labels that are missing or cannot be sorted, other fractions, or no item left to
        train or test on.

    >>> parts = stratified_parts(["de"] * 10 + ["fr"] * 20)
    >>> len(parts.train), len(parts.dev), len(parts.test), parts.drawn
    (21, 3, 6, 'a random 70 / 10 / 20 % of each label, seed 0')
    """
    labels, seed = check_classes(y, "y"), check_seed(seed)
    told = " / ".join(f"{100 * fraction:g}" for fraction in fractions)
    if len(fractions) != 3 or not min(fractions) >= 0 or not abs(sum(fractions) - 1) <= 1e-9:
        expected = "shares of train, dev and test that sum to 1"
        refuse("fractions", expected, repr(fractions), "0.7, 0.1, 0.2 is a usual choice")
    train, dev, test = _draw_groups(labels, groups, np.cumsum(fractions)[:2], seed)
    what = "each label" if len(set(labels.tolist())) > 1 else "the items"
    return Parts(train, test, dev, f"a random {told} % of {what}, seed {seed}")


def _draw_groups(
    labels: np.ndarray, groups: ArrayLike | None, ends: np.ndarray, seed: int
) -> list[np.ndarray]:
    """Rows of each part: whole groups, sampled by the labels of their first items; without repeats as
    if there were no groups."""
    if groups is None:
        return _draw(labels, ends, seed)
    names = check_labels(groups, "groups", len(labels))
    _, first, codes = np.unique(names, return_index=True, return_inverse=True)
    # groups as they are met, so that single items are sampled as if there were no groups
    order = np.argsort(first)
    rank = np.argsort(order)
    return [
        np.flatnonzero(np.isin(rank[codes], part))
        for part in _draw(labels[first[order]], ends, seed)
    ]


def _draw(labels: np.ndarray, ends: np.ndarray, seed: int) -> list[np.ndarray]:
    """Rows of each part; ``ends`` are the shares at which one part ends and the next begins."""
    found: list[list[np.ndarray]] = [[] for _ in range(len(ends) + 1)]
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        rows = rows[np.random.default_rng([seed, 0x9A27]).permutation(len(rows))]
        cuts = np.maximum(np.rint(ends * len(rows)).astype(int), 1)  # something to learn from
        for part, some in zip(found, np.split(rows, cuts), strict=True):
            part.append(some)
    return [np.sort(np.concatenate(part)) for part in found]


def hold_out_dev(
    parts: Parts,
    y: ArrayLike,
    fraction: float = 0.1,
    seed: int = 0,
    *,
    groups: ArrayLike | None = None,
) -> Parts:
    """Take a share of the training part, each label by itself, as the development part that it has
    none of.

    Parameters
    ----------
    parts: without a development part.
    y: shape (n,), labels of all items.
    fraction: of each label's training items.
    groups: shape (n,), as in :func:`stratified_parts`.

    Raises
    ------
    InputError: there is a development part, or the labels or the fraction are not what is needed.

    >>> parts = hold_out_dev(Parts(range(20), [20]), ["de"] * 21)
    >>> len(parts.train), len(parts.dev)
    (18, 2)
    """
    if len(parts.dev):
        refuse(
            "parts", "splits without dev", f"{len(parts.dev)} items in dev", "use them as they are"
        )
    labels, fraction = check_classes(y, "y"), check_fraction(fraction, "fraction")
    parts.check(len(labels))
    names = None if groups is None else check_labels(groups, "groups", len(labels))[parts.train]
    train, dev = _draw_groups(
        labels[parts.train], names, np.array([1 - fraction]), check_seed(seed)
    )
    if not len(dev):
        most = int(np.unique(labels[parts.train], return_counts=True)[1].max(initial=0))
        got = f"{fraction} of at most {most} training item(s) of a label"
        expected = "a share that holds an item of some label"
        refuse("fraction", expected, got, "give more items, or a larger share")
    drawn = (
        f"{parts.drawn}; dev is a random {100 * fraction:g} % of train, each label by itself, "
        f"seed {seed}"
    )
    return Parts(parts.train[train], parts.test, parts.train[dev], drawn)


def shuffled(
    values: Shaped[np.ndarray, " n"],
    parts: Parts,
    seed: int,
    texts: np.ndarray | None = None,
    sets: np.ndarray | None = None,
) -> Shaped[np.ndarray, " n"]:
    """The labels, or numbers, of each part (of test, of each of its sets) in another order; of equal
    texts the first one's, training first.

    Parameters
    ----------
    values: of each item. seed: of the order.
    texts: (n,) of each item; None where all differ.
    sets: (n,) the test set that each item is of; None where there is one.

    >>> shuffled(np.arange(6), Parts(train=[0, 1, 2], test=[3, 4, 5]), seed=1).tolist()
    [0, 2, 1, 4, 5, 3]
    """
    moved, test = values.copy(), parts.test
    names = (
        np.zeros(len(test), int) if sets is None else np.unique(sets[test], return_inverse=True)[1]
    )
    tests = [test[names == number] for number in dict.fromkeys(names.tolist())]
    order = np.concatenate([parts.train, parts.dev, *tests])
    names = (
        np.arange(len(order)) if texts is None else np.unique(texts[order], return_inverse=True)[1]
    )
    first = np.unique(names, return_index=True)[1]
    met = np.zeros(len(order), bool)
    met[first] = True
    ends = np.cumsum([len(parts.train), len(parts.dev), *map(len, tests)])
    for i, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        rows = order[start:end][met[start:end]]
        moved[rows] = np.random.default_rng([seed, 0x5AFF, i]).permutation(moved[rows])
    moved[order] = moved[order[first[names]]]
    return moved
