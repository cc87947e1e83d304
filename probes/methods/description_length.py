"""How many bits the labels cost when a probe on the vectors foretells them: minimum description
length by online coding.

Voita & Titov 2020, Information-theoretic probing with minimum description length, section 2.2.2. A
short code says that the labels can be read off the vectors, and that little data is enough to find
out how; accuracy says the first alone.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from crosslens.checks import check_seed
from crosslens.errors import refuse
from crosslens.one_line import one_line
from crosslens.probes.methods.controls import check_classes
from crosslens.probes.methods.linear.refit import LayerProbes
from crosslens.probes.methods.rows import TakenRows, check_layers

__all__ = ["PORTIONS", "DescriptionLength", "description_length"]

# Voita & Titov 2020, section 3.2
PORTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class DescriptionLength:
    """The length of the labels' code, for each of L layers.

    Attributes
    ----------
    bits: shape (L,), length of the whole code; lower is better.
    uniform: ``n log2 K``, the length of a code that knows nothing of n labels of K kinds.
    compression: shape (L,), ``uniform / bits``, above 0; higher is better, and 1 is no better than
        knowing nothing.
    blocks: shape (L, S), bits of each block; the first is coded uniformly.
    ends: shape (S,), how many items are coded after each block.
    classes: K.
    seed: of the order of the items.
    """

    bits: Float[np.ndarray, " L"]
    uniform: float
    compression: Float[np.ndarray, " L"]
    blocks: Float[np.ndarray, "L S"]
    ends: Int[np.ndarray, " S"]
    classes: int
    seed: int

    __repr__ = one_line


def description_length(
    layers: Any,
    y: ArrayLike,
    C: float | int | ArrayLike = 1.0,
    *,
    portions: tuple[float, ...] = PORTIONS,
    seed: int = 0,
) -> DescriptionLength:
    """Online code length of the labels given the vectors of each layer, in bits.

    Items are put in a random order and cut into blocks that end at ``t_1 < … < t_S = n``. The first
    block is coded uniformly; each later one with the probabilities of a probe trained on all blocks
    before it: ``t_1 log2 K - Σ_i log2 p(y_(t_i + 1 … t_(i+1)) | x, probe of the first t_i items)``.

    A label that the first t items do not have, of the K there are, has no probability from their
    probe. u such labels share ``u / (t + u)`` equally, and the probe's probabilities are scaled to
    sum to ``t / (t + u)``: what is left is a code, and once every label was seen it is the probe's
    alone. (Voita & Titov's networks have an output for every label, and so need no rule.)

    Parameters
    ----------
    layers: L layers of shape (n, d). y: shape (n,), at least two kinds of labels.
    C: inverse strength of the probe's penalty, one number or one per layer; the same for all
        blocks, as a prior has to be.
    portions: where blocks end, as increasing shares of n, the last 1; those that hold no new item
        are left out.
    seed: of the order.

    Raises
    ------
    InputError: a single label, other portions, or as
        :class:`crosslens.probes.methods.linear.layer_probe.LayerProbe` refuses.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(400) % 2
    >>> told, blank = rng.normal(size=(400, 3)) + 4 * y[:, None], rng.normal(size=(400, 3))
    >>> length = description_length([told, blank], y)
    >>> length.uniform, (length.compression > [5, 0.5]).tolist(), bool(length.compression[1] < 1)
    (400.0, [True, True], True)
    """
    layers = check_layers(layers)
    labels, codes = np.unique(check_classes(y, "y", layers[0].shape[0]), return_inverse=True)
    n, count = len(codes), len(labels)
    if count < 2:
        remedy = "give items of another class: there is nothing to code"
        refuse("y", "at least two classes", f"only {labels[0]!s}", remedy)
    order = np.random.default_rng([check_seed(seed), 0x3D1]).permutation(n)
    ends, strengths = _ends(portions, n), _strengths(C, len(layers))
    blocks = np.empty((len(layers), len(ends)))
    blocks[:, 0] = ends[0] * np.log2(count)
    for i, (start, end) in enumerate(zip(ends, ends[1:], strict=False), 1):
        seen, rows = order[:start], order[start:end]
        blocks[:, i] = _block_bits(layers, codes, seen, rows, strengths, count)
    bits, uniform = blocks.sum(axis=1), n * float(np.log2(count))
    return DescriptionLength(bits, uniform, uniform / bits, blocks, ends, count, int(seed))


def _strengths(C: float | int | ArrayLike, count: int) -> Float[np.ndarray, " L"]:
    values = np.asarray(C)
    if (
        values.dtype.kind not in "fiu"
        or values.shape not in ((), (count,))
        or not (np.isfinite(values) & (values > 0)).all()
    ):
        refuse(
            "C", f"a number above 0, or {count}, one per layer", repr(C), "1.0 is a usual choice"
        )
    return np.broadcast_to(values.astype(np.float64), (count,))


def _ends(portions: tuple[float, ...], n: int) -> Int[np.ndarray, " S"]:
    shares = np.asarray(portions, np.float64)
    if (
        shares.ndim != 1
        or not len(shares)
        or not shares[0] > 0
        or shares[-1] != 1
        or (np.diff(shares) <= 0).any()
    ):
        remedy = "leave them out for those of the paper"
        refuse("portions", "increasing shares above 0, the last 1", repr(portions), remedy)
    ends = np.unique(np.rint(shares * n).astype(np.int64))
    return ends[ends > 0]


def _block_bits(
    layers: list[Any],
    codes: np.ndarray,
    seen: np.ndarray,
    rows: np.ndarray,
    strengths: np.ndarray,
    count: int,
) -> Float[np.ndarray, " L"]:
    """Bits of the labels of ``rows`` by each layer's probe of the items ``seen``."""
    known, t = np.unique(codes[seen]), len(seen)
    unseen = count - len(known)
    place = np.searchsorted(known, codes[rows])
    new = known[np.minimum(place, len(known) - 1)] != codes[rows]
    # log2 of the share of all known labels, and of a single unknown one
    bits = np.full(
        len(layers),
        float(-np.log2(t / (t + unseen)) * (~new).sum() + np.log2(t + unseen) * new.sum()),
    )
    if len(known) > 1 and not new.all():
        probes = LayerProbes(strengths).fit(
            [TakenRows(layer, seen) for layer in layers], codes[seen]
        )
        told = probes.predict_log_proba([TakenRows(layer, rows[~new]) for layer in layers])
        bits -= np.take_along_axis(told, place[~new][None, :, None], axis=2)[..., 0].sum(
            axis=1
        ) / np.log(2)
    return bits
