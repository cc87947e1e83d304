"""Ridge regression on every layer, for labels that are numbers, scored beside what its score has to
be read against."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike

from crosslens.checks import as_array, check_labels, check_seed
from crosslens.errors import refuse
from crosslens.one_line import one_line
from crosslens.probes.methods.linear.refit import LayerProbes
from crosslens.probes.methods.linear.regression import LayerRidge
from crosslens.probes.methods.rows import TakenRows, check_layers, check_random_layers
from crosslens.probes.methods.splits import Parts, shuffled
from crosslens.stats import spearman_interval

__all__ = ["RIDGE_PENALTIES", "NumberAnswers", "NumberResult", "probe_numbers"]

# of squared weights, on standardised features; from loose to strict
RIDGE_PENALTIES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)


@dataclasses.dataclass(frozen=True, eq=False)
class NumberAnswers:
    """What each of L layers answered to n test items, and the scores that follow from it.

    Attributes
    ----------
    true: shape (n,). given: shape (L, n).
    groups: shape (n,), the text of each item, say: items of one group are not taken to be
        independent; None where each stands for itself.
    """

    true: Float[np.ndarray, " n"]
    given: Float[np.ndarray, "L n"]
    groups: Shaped[np.ndarray, " n"] | None = None

    __repr__ = one_line

    @property
    def r2(self) -> Float[np.ndarray, " L"]:
        """1 - sum of squared errors / that of always answering test's mean; 1 is perfect, and it
        may be below 0. NaN where the numbers are all the same."""
        if np.ptp(self.true) == 0:
            return np.full(len(self.given), np.nan)
        return (
            1
            - np.square(self.given - self.true).sum(axis=1)
            / np.square(self.true - self.true.mean()).sum()
        )

    @property
    def spearman(self) -> Float[np.ndarray, " L"]:
        """Rank correlation of answers and numbers, from -1 to 1; NaN for a layer that answers the
        same to every item, or where the numbers are all the same."""
        from scipy.stats import spearmanr

        varies = len(self.true) > 1 and np.ptp(self.true) > 0
        values = [
            spearmanr(self.true, row).statistic if varies and np.ptp(row) > 0 else np.nan
            for row in self.given
        ]
        return np.clip(values, -1, 1)  # rounding may go one bit beyond

    @property
    def interval(self) -> list[tuple[float, float]]:
        """95 % interval of each Spearman correlation (:func:`crosslens.stats.spearman_interval`);
        NaN where that is."""
        return [
            (np.nan, np.nan)
            if np.isnan(value)
            else spearman_interval(row, self.true, self.groups)[1:]
            for value, row in zip(self.spearman, self.given, strict=True)
        ]

    def rows(self, chosen: ArrayLike) -> "NumberAnswers":
        """The answers to some of the items.

        >>> NumberAnswers(np.arange(3.0), np.zeros((1, 3))).rows([True, False, True]).true.tolist()
        [0.0, 2.0]
        """
        some = np.asarray(chosen)
        return NumberAnswers(
            self.true[some], self.given[:, some], None if self.groups is None else self.groups[some]
        )


@dataclasses.dataclass(frozen=True, eq=False)
class NumberResult:
    """Ridge regressions on L layers, scored on n test items.

    Attributes
    ----------
    answers: what each layer answered: R², Spearman's correlation and its interval.
    penalty: shape (L,), that each layer chose on the development part.
    dev: what each layer answered on the development part; None without one.
    shuffled: what the same probes answered when trained and scored on shuffled numbers, for each of
        s seeds.
    resampled: shape (s, L), the same after training on a bootstrap sample of the training items,
        for each seed.
    random_encoder: what the layers of an encoder with random weights answered; None if they were
        not given.
    sizes: items in train, dev and test. drawn: how the parts came about.
    """

    answers: NumberAnswers
    penalty: Float[np.ndarray, " L"]
    dev: NumberAnswers | None
    shuffled: tuple[NumberAnswers, ...]
    resampled: Float[np.ndarray, "s L"]
    random_encoder: NumberAnswers | None
    sizes: dict[str, int]
    drawn: str

    __repr__ = one_line

    @property
    def control(self) -> Float[np.ndarray, "s L"]:
        """Spearman's correlation on shuffled numbers, for each seed."""
        return np.array([one.spearman for one in self.shuffled]).reshape(
            len(self.shuffled), len(self.penalty)
        )


def probe_numbers(
    layers: Any,
    y: ArrayLike,
    parts: Parts,
    *,
    texts: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    random_layers: Any | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    penalties: Sequence[float] = RIDGE_PENALTIES,
) -> NumberResult:
    """Regress numbers, depths in trees say, on every layer, and score them on the test part.

    Each layer's penalty is chosen on the development part and kept for its controls; the final
    probe is trained on the training part alone.

    Parameters
    ----------
    layers: L layers of shape (n, d), row i of each the same item. y: shape (n,), numbers.
    parts: which rows train, choose the penalty, and are scored; at least 4 to score.
    texts: shape (n,), the text of each item: equal ones have one shuffled number. Without it each
        item has its own.
    groups: shape (n,), items that stand and fall together, for the intervals.
    random_layers: the same items from an encoder with random weights, as many layers.
    seeds: each draws shuffled numbers and a bootstrap sample of the training items; none of them
        leaves both out.
    penalties: to choose from; a single one needs no development part.

    Raises
    ------
    InputError: y is not one finite number per item, or the same number for all of train or test;
        parts or random layers of other items; or as
        :class:`crosslens.probes.methods.linear.regression.LayerRidge` refuses.

    >>> rng = np.random.default_rng(0)
    >>> depth = rng.integers(0, 9, 300)
    >>> layers = [rng.normal(size=(300, 4)), rng.normal(size=(300, 4)) + depth[:, None]]
    >>> result = probe_numbers(layers, depth, Parts(range(200), range(250, 300), range(200, 250)))
    >>> (result.answers.spearman > 0.9).tolist()
    [False, True]
    """
    layers = check_layers(layers)
    numbers = _check_numbers(y, layers[0].shape[0], parts)
    chosen = [check_seed(seed) for seed in seeds]
    names = None if groups is None else check_labels(groups, "groups", len(numbers))
    same = None if texts is None else check_labels(texts, "texts", len(numbers))

    def told(probes: Any, targets: np.ndarray, rows: np.ndarray, of: list[Any]) -> NumberAnswers:
        given = probes.predict([TakenRows(layer, rows) for layer in of])
        return NumberAnswers(targets[rows], given, None if names is None else names[rows])

    ridge = _fitted(layers, numbers, parts, penalties)
    random = None
    if random_layers is not None:
        others = check_random_layers(random_layers, layers)
        random = told(_fitted(others, numbers, parts, penalties), numbers, parts.test, others)

    def again(targets: np.ndarray, train: np.ndarray) -> NumberAnswers:
        probes = LayerProbes(ridge.penalty_, LayerRidge).fit(
            [TakenRows(layer, train) for layer in layers], targets[train]
        )
        return told(probes, targets, parts.test, layers)

    drawn = [
        np.random.default_rng([seed, 0xB007]).choice(parts.train, len(parts.train))
        for seed in chosen
    ]
    return NumberResult(
        answers=told(ridge, numbers, parts.test, layers),
        penalty=ridge.penalty_,
        dev=told(ridge, numbers, parts.dev, layers) if len(parts.dev) else None,
        shuffled=tuple(again(shuffled(numbers, parts, seed, same), parts.train) for seed in chosen),
        resampled=np.array([again(numbers, np.sort(rows)).spearman for rows in drawn]).reshape(
            len(chosen), len(layers)
        ),
        random_encoder=random,
        sizes=parts.sizes,
        drawn=parts.drawn,
    )


def _fitted(
    layers: list[Any], y: np.ndarray, parts: Parts, penalties: Sequence[float]
) -> LayerRidge:
    """The regressions, each with the penalty that dev likes best."""
    train, dev = ([TakenRows(layer, rows) for layer in layers] for rows in (parts.train, parts.dev))
    ridge = LayerRidge(penalties)
    return (
        ridge.fit(train, y[parts.train], dev, y[parts.dev])
        if len(parts.dev)
        else ridge.fit(train, y[parts.train])
    )


def _check_numbers(y: ArrayLike, n: int, parts: Parts) -> Float[np.ndarray, " n"]:
    parts.check(n)
    numbers = as_array(y, "y")
    if numbers.shape != (n,) or numbers.dtype.kind not in "fiu" or not np.isfinite(numbers).all():
        got = f"an array of {numbers.dtype} of shape {numbers.shape}" + (
            " with NaN or infinity" if numbers.dtype.kind == "f" else ""
        )
        refuse("y", f"{n} finite numbers, one per row", got, "give every item its number")
    for name, rows in (("train", parts.train), ("test", parts.test)):
        if np.ptp(numbers[rows]) == 0:
            remedy = "give items with other numbers"
            refuse("y", f"numbers that vary in {name}", "the same for all items", remedy)
    return numbers.astype(np.float64)
