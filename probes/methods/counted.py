"""What of test items was right, and of how much: the one shape of all shares.

Accuracy, F1 of spans, attachment scores, exact match: each is ``sum(found) / sum(of)`` over items,
so that means over seeds and intervals over groups of items are the same for all.
"""

import dataclasses

import numpy as np

from crosslens.errors import refuse

__all__ = ["Counted", "share"]


@dataclasses.dataclass(frozen=True, eq=False)
class Counted:
    """One quantity of one test set, item by item.

    Attributes
    ----------
    quantity: of :data:`crosslens.score.QUANTITIES`.
    found: shape (n,), what is right in each item: of F1 twice the true positives.
    of: shape (n,), what that is a share of: words; of F1 predicted and gold spans together.
    preset: by whose definition, where there are several; "" otherwise.

    Raises
    ------
    InputError: shapes differ, or more was found than there is.

    >>> Counted("accuracy", np.array([1.0, 0.0]), np.array([1.0, 1.0])).value
    0.5
    """

    quantity: str
    found: np.ndarray
    of: np.ndarray
    preset: str = ""

    def __post_init__(self) -> None:
        if self.found.shape != self.of.shape:
            got = f"{self.found.shape} and {self.of.shape}"
            refuse("found", "one number per item, as of", got, "count every item")
        if (self.found < 0).any() or (self.found > self.of).any():
            refuse("found", "from 0 to of", "others", "count what was right")

    @property
    def value(self) -> float:
        """The share; NaN where there is nothing to count."""
        return share(self.found, self.of)


def share(found: np.ndarray, of: np.ndarray) -> float:
    """``sum(found) / sum(of)``; NaN where there is nothing to count.

    >>> share(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    0.5
    """
    return float(found.sum() / of.sum()) if of.sum() > 0 else float("nan")
