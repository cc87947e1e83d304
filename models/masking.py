"""Which tokens a masked language model must predict, and what it sees in their place.

15 % of the tokens are chosen; of these 80 % become the mask token, 10 % a random
token and 10 % stay (Devlin et al. 2019, § 3.1). Special tokens are never chosen.
The draw is a pure function of (seed, step): a resumed run masks as the
undisturbed one would have.
"""

import dataclasses
import math

import numpy as np

from crosslens.errors import refuse

__all__ = ["Masking", "choose_masked", "mask_tokens"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking:
    """How tokens are masked.

    Attributes
    ----------
    rate: share of the ordinary tokens of a batch that is predicted.
    masked, random: shares of these that become the mask token and a random token; the rest stays.
    count: "exact" picks exactly ceil(rate * candidates) tokens of the batch; "bernoulli" picks each with probability rate.
    """

    rate: float = 0.15
    masked: float = 0.8
    random: float = 0.1
    count: str = "exact"

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            refuse("masking.rate", "a fraction between 0 and 1", repr(self.rate), "0.15 is the usual choice")
        if min(self.masked, self.random) < 0 or self.masked + self.random > 1 + 1e-9:
            refuse("masking.masked + masking.random", "at most 1", f"{self.masked} + {self.random}", "0.8 and 0.1 are usual")
        if self.count not in ("exact", "bernoulli"):
            refuse("masking.count", "exact or bernoulli", repr(self.count), "choose one of the two")


def choose_masked(candidates: np.ndarray, masking: Masking, rng: np.random.Generator) -> np.ndarray:
    """Sorted indices of the tokens to predict, out of the indices ``candidates``; at least one.

    >>> len(choose_masked(np.arange(100), Masking(), np.random.default_rng(0)))
    15
    """
    if len(candidates) == 0:
        refuse("batch", "at least one ordinary token", "only special tokens", "drop empty sentences")
    if masking.count == "bernoulli":
        chosen = candidates[rng.random(len(candidates)) < masking.rate]
        if len(chosen):
            return chosen
    count = math.ceil(masking.rate * len(candidates)) if masking.count == "exact" else 1
    return np.sort(rng.choice(candidates, size=count, replace=False, shuffle=False))


def mask_tokens(
    ids: np.ndarray, is_special: np.ndarray, mask_id: int, masking: Masking, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask a batch.

    Parameters
    ----------
    ids: (batch, length) token ids.
    is_special: (vocab,) True for tokens that are never chosen nor drawn as random replacements.
    mask_id: id of the mask token.

    Returns
    -------
    inputs: (batch, length) what the model sees, a new array.
    masked: (m,) sorted indices into the flattened batch.
    labels: (m,) the original ids there.

    >>> ids = np.array([[0, 7, 8, 9, 1]])
    >>> special = np.arange(20) < 5
    >>> inputs, masked, labels = mask_tokens(ids, special, 4, Masking(), np.random.default_rng(0))
    >>> len(masked), bool((ids.ravel()[masked] == labels).all())
    (1, True)
    """
    flat = ids.ravel()
    masked = choose_masked(np.flatnonzero(~is_special[flat]), masking, rng)
    labels = flat[masked]
    inputs = flat.copy()
    draw = rng.random(len(masked))
    ordinary = np.flatnonzero(~is_special)
    replacements = ordinary[rng.integers(len(ordinary), size=len(masked))]
    inputs[masked] = np.where(draw < masking.masked, mask_id, np.where(draw < masking.masked + masking.random, replacements, labels))
    return inputs.reshape(ids.shape), masked, labels
