"""The best tree among scores of arcs."""

import numpy as np
from jaxtyping import Float, Int

from crosslens.errors import refuse

__all__ = ["best_tree"]


def best_tree(
    scores: Float[np.ndarray, "n n1"], *, single_root: bool = True
) -> Int[np.ndarray, " n"]:
    """The heads that make a tree whose arcs have the highest sum.

    Parameters
    ----------
    scores: ``[i, j]`` for word i (from 0) below word j (from 1; 0 is the root); minus infinity for
        arcs that cannot be.
    single_root: exactly one word depends on the root, as Universal Dependencies have it: each arc
        from the root costs more than all others together could gain.

    Returns
    -------
    shape (n,), numbers of heads, from 0.

    Raises
    ------
    InputError: scores are not (n, n + 1), or not numbers.

    References
    ----------
    Chu & Liu 1965; Edmonds 1967; Zmigrod et al. 2020, Please Mind the Root, for single roots.

    >>> scores = np.array([[1.0, -9.0, 5.0, 2.0], [1.5, 6.0, -9.0, 2.0], [0.0, 1.0, 3.0, -9.0]])
    >>> scores.argmax(1).tolist(), best_tree(scores).tolist()  # each word's best head: a circle
    ([2, 1, 2], [0, 1, 2])
    """
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    n = len(scores)
    if scores.ndim != 2 or scores.shape[1] != n + 1:
        got = " x ".join(map(str, scores.shape))
        refuse("scores", f"{n} x {n + 1} of them", got, "give a column for the root first")
    there = np.isfinite(scores)
    if np.isnan(scores).any() or not there.any(1).all():
        refuse("scores", "numbers, at least one in each row", "others", "look at the model")
    if not n:
        return np.zeros(0, np.int64)
    known = scores[there].astype(np.float64)
    span = 1 + known.max() - known.min()
    whole = np.full((n + 1, n + 1), known.min() - 3 * (n + 1) * span)
    whole[1:][there] = known
    if single_root:
        whole[1:, 0] -= (n + 1) * span
    np.fill_diagonal(whole, np.nan)  # the packaged decoder skips what is no number
    whole[0] = np.nan
    heads, _ = chu_liu_edmonds(whole)
    return np.array(heads[1:], np.int64)
