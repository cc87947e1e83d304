"""The best tree among scores of arcs, and the best one whose arcs do not cross."""

import numpy as np
from jaxtyping import Float, Int

from crosslens.errors import refuse

__all__ = ["best_projective_tree", "best_tree"]


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
    InputError: scores are not (n, n + 1), or not numbers, or every such tree has an arc that cannot
        be.

    References
    ----------
    Chu & Liu 1965; Edmonds 1967; Zmigrod et al. 2020, Please Mind the Root, for single roots.

    >>> scores = np.array([[1.0, -9.0, 5.0, 2.0], [1.5, 6.0, -9.0, 2.0], [0.0, 1.0, 3.0, -9.0]])
    >>> scores.argmax(1).tolist(), best_tree(scores).tolist()  # each word's best head: a circle
    ([2, 1, 2], [0, 1, 2])
    """
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    there = _checked(scores)
    n = len(scores)
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
    heads = np.array(chu_liu_edmonds(whole)[0][1:], np.int64)
    if not there[np.arange(n), heads].all() or (single_root and np.sum(heads == 0) != 1):
        kind = "a tree with one root" if single_root else "a tree"
        refuse("scores", f"{kind} of arcs that can be", "none", "look at the model")
    return heads


def best_projective_tree(scores: Float[np.ndarray, "n n1"]) -> Int[np.ndarray, " n"]:
    """The heads that make a tree with one root, of which no two arcs cross, whose arcs have the
    highest sum.

    In time n³, all spans of one width together.

    Parameters
    ----------
    scores: as of :func:`best_tree`.

    Returns
    -------
    shape (n,), numbers of heads, from 0.

    Raises
    ------
    InputError: scores are not (n, n + 1), or not numbers, or every such tree has an arc that cannot
        be.

    References
    ----------
    Eisner 1996, Three New Probabilistic Models for Dependency Parsing.

    >>> scores = np.full((4, 5), -1.0)
    >>> scores[[0, 1, 2, 3], [3, 4, 0, 3]] = 5.0  # the arcs of the first two words cross
    >>> scores[1, 3] = 1.0
    >>> best_tree(scores).tolist(), best_projective_tree(scores).tolist()
    ([3, 4, 0, 3], [3, 3, 0, 3])
    """
    _checked(scores)
    n = len(scores)
    if not n:
        return np.zeros(0, np.int64)
    arcs = scores[:, 1:].astype(np.float64)
    # The best part of a tree over the words s to t whose head is s ("right") or t ("left"): with the
    # arc between the two and nothing else of t, or s, beyond it ("open"), or whole.
    whole_right, whole_left = np.zeros((n, n)), np.zeros((n, n))
    open_right, open_left = np.zeros((n, n)), np.zeros((n, n))
    cut = {name: np.zeros((n, n), np.int64) for name in ("open", "right", "left")}
    for width in range(1, n):
        s = np.arange(n - width)
        t, row = s + width, np.arange(n - width)
        middle = s[:, None] + np.arange(width)
        sums = whole_right[s[:, None], middle] + whole_left[middle + 1, t[:, None]]
        best = sums.argmax(1)
        cut["open"][s, t] = middle[row, best]
        open_right[s, t] = sums[row, best] + arcs[t, s]
        open_left[s, t] = sums[row, best] + arcs[s, t]
        sums = whole_left[s[:, None], middle] + open_left[middle, t[:, None]]
        best = sums.argmax(1)
        cut["left"][s, t], whole_left[s, t] = middle[row, best], sums[row, best]
        sums = open_right[s[:, None], middle + 1] + whole_right[middle + 1, t[:, None]]
        best = sums.argmax(1)
        cut["right"][s, t], whole_right[s, t] = middle[row, best] + 1, sums[row, best]
    totals = scores[:, 0] + whole_left[0] + whole_right[:, -1]
    root = int(totals.argmax())
    if not np.isfinite(totals[root]):
        refuse("scores", "a projective tree of arcs that can be", "none", "look at the model")
    heads = np.zeros(n, np.int64)
    todo = [("left", 0, root), ("right", root, n - 1)]
    while todo:
        what, first, last = todo.pop()
        if first == last:
            continue
        at = int(cut[what][first, last])
        if what == "open":
            todo += [("right", first, at), ("left", at + 1, last)]
        elif what == "right":
            heads[at] = first + 1
            todo += [("open", first, at), ("right", at, last)]
        else:
            heads[at] = last + 1
            todo += [("open", at, last), ("left", first, at)]
    return heads


def _checked(scores: np.ndarray) -> np.ndarray:
    """Which scores are of arcs that can be."""
    n = len(scores)
    if scores.ndim != 2 or scores.shape[1] != n + 1:
        got = " x ".join(map(str, scores.shape))
        refuse("scores", f"{n} x {n + 1} of them", got, "give a column for the root first")
    there = np.isfinite(scores)
    if np.isnan(scores).any() or not there.any(1).all():
        refuse("scores", "numbers, at least one in each row", "others", "look at the model")
    return there
