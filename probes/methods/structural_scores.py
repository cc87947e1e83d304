"""How much of dependency trees a structural probe finds, in Hewitt & Manning's measures, beside
what word order alone gives.

    uuas                edges of the minimum spanning tree of predicted distances that are the
                        tree's, of all of its edges
    distance_spearman   Spearman's correlation of a word's predicted and true distances to all words
                        of its sentence
    root_accuracy       sentences whose root is the word of the smallest predicted depth
    depth_spearman      Spearman's correlation of predicted and true depths of a sentence's words

Punctuation counts for the correlations only: edges to it and from it are left out of ``uuas``, and
no root is sought in it. Correlations are averaged over the sentences of each length from 5 to 50
words, and then over these lengths.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.stats import rankdata

from crosslens.errors import check_choice, refuse
from crosslens.probes.methods.controls import Accuracy
from crosslens.probes.methods.structural import KINDS
from crosslens.stats import jackknife_interval
from crosslens.trees import check_heads, tree_depths, tree_distances

__all__ = ["StructuralScore", "StructuralScores", "structural_scores"]

_SHORTEST, _LONGEST = 5, 50  # words of the sentences that the correlations are averaged over
_PARTS = 20  # of the sentences, which the jackknife leaves out in turn


@dataclasses.dataclass(frozen=True)
class StructuralScore:
    """One measure.

    Attributes
    ----------
    value: a share from 0 to 1, or a correlation from -1 to 1; higher is better. NaN where n is 0.
    n: what it was measured on: edges (uuas), words (distance_spearman) or sentences.
    low, high: 95 % interval; of shares :class:`crosslens.probes.methods.controls.Accuracy`'s, of
        correlations by leaving out some of the sentences in turn. None where fewer than two groups
        of sentences have anything to measure.
    undefined: correlations that do not exist because all predictions of a sentence are equal; they
        are not in n.
    """

    value: float
    n: int
    low: float | None
    high: float | None
    undefined: int = 0


@dataclasses.dataclass(frozen=True)
class StructuralScores:
    """The measures of a kind of probe, and the same of a baseline that knows only where a word
    stands.

    Attributes
    ----------
    probe: measure -> score: uuas and distance_spearman, or root_accuracy and depth_spearman.
    linear: the same when ``|i - j|`` is taken for the distance of words i and j, or i for the depth
        of word i.
    found: shape (sentences, 2): how many edges of each sentence the probe finds, and how many there
        are; or whether it finds the root, of one or none.
    items: shape (m, 3): for each edge that could be found its sentence, its dependent's place in
        it, and whether it was found (1 or 0); of depths the root of each sentence. Two probes are
        compared by these.
    """

    probe: dict[str, StructuralScore]
    linear: dict[str, StructuralScore]
    found: Int[np.ndarray, "s 2"]
    items: Int[np.ndarray, "m 3"]


def structural_scores(
    predicted: Sequence[np.ndarray],
    heads: ArrayLike,
    lengths: ArrayLike,
    punctuation: ArrayLike | None = None,
    *,
    kind: str = "distance",
    groups: ArrayLike | None = None,
) -> StructuralScores:
    """Measure predicted distances or depths against the trees.

    Parameters
    ----------
    predicted: what :meth:`crosslens.probes.methods.structural.StructuralProbe.predict` gives: shape
        (s, s) or (s,) for each sentence.
    heads: shape (n,), the head's number in its sentence from 1, 0 for the root. lengths: words of
        each sentence.
    punctuation: shape (n,), True for words that are punctuation; without it none is.
    kind: "distance" or "depth".
    groups: one per sentence: those of the same group, equal texts say, stand and fall together in
        intervals. Without it each sentence is a group.

    Raises
    ------
    InputError: an unknown kind; heads that are no trees; lengths, punctuation, predictions or
        groups that do not fit; or predictions that are not finite.

    References
    ----------
    Hewitt & Manning 2019, A structural probe for finding syntax in word representations, section 3
    (UUAS, DSpr., Root %, NSpr.; the baseline is their LINEAR).

    >>> heads, lengths = [2, 0, 4, 2], [4]
    >>> scores = structural_scores([tree_distances(np.array(heads))], heads, lengths)
    >>> scores.probe["uuas"].value, round(scores.linear["uuas"].value, 2)
    (1.0, 0.67)
    """
    check_choice(kind, "kind", KINDS)
    all_heads, sizes = np.asarray(heads), np.asarray(lengths)
    check_heads(all_heads, sizes)
    marks = np.zeros(len(all_heads), bool) if punctuation is None else np.asarray(punctuation)
    if marks.shape != all_heads.shape or marks.dtype != bool:
        got = f"{marks.dtype} of shape {marks.shape}"
        refuse("punctuation", f"{len(all_heads)} values True or False", got, "give one per word")
    named = np.arange(len(sizes)) if groups is None else np.asarray(groups)
    if named.shape != sizes.shape:
        expected = f"a group for each of {len(sizes)} sentences"
        refuse("groups", expected, f"shape {named.shape}", "name the group of every sentence")
    bounds = np.cumsum(sizes)[:-1]
    sentences = [
        _Sentence(*each)
        for each in zip(np.split(all_heads, bounds), np.split(~marks, bounds), named, strict=True)
    ]
    predicted = [np.asarray(some, np.float64) for some in predicted]
    _check_predicted(predicted, sizes, kind)
    positions = [np.arange(s, dtype=np.float64) for s in sizes.tolist()]
    measure = _distances if kind == "distance" else _depths
    linear = (
        [np.abs(np.subtract.outer(some, some)) for some in positions]
        if kind == "distance"
        else positions
    )
    probe, found, items = measure(predicted, sentences)
    return StructuralScores(probe, measure(linear, sentences)[0], found, items)


@dataclasses.dataclass(frozen=True)
class _Sentence:
    heads: np.ndarray
    words: np.ndarray  # what is no punctuation
    group: Any


def _check_predicted(
    predicted: Sequence[np.ndarray], lengths: Int[np.ndarray, " s"], kind: str
) -> None:
    if len(predicted) != len(lengths):
        expected = f"predictions for {len(lengths)} sentences"
        refuse("predicted", expected, str(len(predicted)), "give one array per sentence")
    for number, (some, s) in enumerate(zip(predicted, lengths.tolist(), strict=True)):
        shape = (s, s) if kind == "distance" else (s,)
        if some.shape != shape or not np.isfinite(some).all():
            got = f"shape {some.shape}" if some.shape != shape else "NaN or infinity"
            remedy = "predict for these very sentences"
            refuse(f"predicted[{number}]", f"finite numbers of shape {shape}", got, remedy)


_Measured = tuple[dict[str, StructuralScore], np.ndarray, np.ndarray]


def _distances(predicted: Sequence[np.ndarray], sentences: Sequence[_Sentence]) -> _Measured:
    items = _items(
        [_edges(some, sentence) for some, sentence in zip(predicted, sentences, strict=True)]
    )
    found = _counts(items, len(sentences))
    gold = (tree_distances(sentence.heads) for sentence in sentences)
    correlations = [_spearman(*both) for both in zip(predicted, gold, strict=True)]
    return (
        {
            "uuas": _share(items, sentences),
            "distance_spearman": _by_length(correlations, sentences),
        },
        found,
        items,
    )


def _depths(predicted: Sequence[np.ndarray], sentences: Sequence[_Sentence]) -> _Measured:
    items = _items(
        [_root(some, sentence) for some, sentence in zip(predicted, sentences, strict=True)]
    )
    found = _counts(items, len(sentences))
    gold = (tree_depths(sentence.heads) for sentence in sentences)
    correlations = [_spearman(p[None], g[None]) for p, g in zip(predicted, gold, strict=True)]
    return (
        {
            "root_accuracy": _share(items, sentences),
            "depth_spearman": _by_length(correlations, sentences),
        },
        found,
        items,
    )


def _items(sentences: Sequence[dict[int, bool]]) -> Int[np.ndarray, "m 3"]:
    """Sentence, word and whether it was found, of everything that could be."""
    rows = [
        (number, word, int(found))
        for number, some in enumerate(sentences)
        for word, found in some.items()
    ]
    return np.array(rows, np.int64).reshape(len(rows), 3)


def _counts(items: Int[np.ndarray, "m 3"], sentences: int) -> Int[np.ndarray, "s 2"]:
    """What was found in each sentence, and what could have been."""
    found = np.bincount(items[:, 0], weights=items[:, 2], minlength=sentences).astype(np.int64)
    return np.stack([found, np.bincount(items[:, 0], minlength=sentences)], axis=1)


def _edges(distances: Float[np.ndarray, "s s"], sentence: _Sentence) -> dict[int, bool]:
    """Dependent of each edge of the true tree -> whether the predicted tree has the edge,
    punctuation left out."""
    words = np.flatnonzero(sentence.words)
    heads = sentence.heads - 1
    gold = {
        word: frozenset((word, int(heads[word])))
        for word in words.tolist()
        if heads[word] >= 0 and sentence.words[heads[word]]
    }
    if len(words) < 2:
        return dict.fromkeys(gold, False)
    some = distances[np.ix_(words, words)]
    # the order of the edges alone makes the tree, and scipy takes an edge of 0 for none
    order = np.unique(some, return_inverse=True)[1].reshape(some.shape)
    tree = minimum_spanning_tree(order + 1).tocoo()
    found = {
        frozenset((int(words[i]), int(words[j]))) for i, j in zip(tree.row, tree.col, strict=True)
    }
    return {word: edge in found for word, edge in gold.items()}


def _root(depths: Float[np.ndarray, " s"], sentence: _Sentence) -> dict[int, bool]:
    """The root -> whether the least deep word is it; nothing for a sentence whose root is
    punctuation."""
    words = np.flatnonzero(sentence.words)
    root = int(np.argmin(sentence.heads))
    return {root: int(words[depths[words].argmin()]) == root} if sentence.words[root] else {}


def _spearman(predicted: np.ndarray, gold: np.ndarray) -> Float[np.ndarray, " r"]:
    """Spearman's correlation of each row; NaN where it does not exist."""
    ranks = [rankdata(some, axis=1) for some in (predicted, gold)]
    x, y = (some - some.mean(axis=1, keepdims=True) for some in ranks)
    squares = np.square(x).sum(axis=1) * np.square(y).sum(axis=1)
    products = (x * y).sum(axis=1)
    return np.array(
        [p / math.sqrt(s) if s > 0 else math.nan for p, s in zip(products, squares, strict=True)]
    )


def _share(items: Int[np.ndarray, "m 3"], sentences: Sequence[_Sentence]) -> StructuralScore:
    """Hits of all sentences, of all that there could have been."""
    if not len(items):
        return StructuralScore(math.nan, 0, None, None)
    groups = _groups(sentences)[items[:, 0]]
    reached = Accuracy.of(items[:, 2] == 1, groups)
    ends = (reached.low, reached.high) if np.ptp(groups) else (None, None)
    return StructuralScore(reached.value, reached.n, *ends)


def _groups(sentences: Sequence[_Sentence]) -> Int[np.ndarray, " s"]:
    """A number for the group of each sentence, in the order in which groups first appear."""
    _, first, codes = np.unique(
        [sentence.group for sentence in sentences], return_index=True, return_inverse=True
    )
    return np.asarray(np.argsort(np.argsort(first))[codes])


def _by_length(
    correlations: Sequence[np.ndarray], sentences: Sequence[_Sentence]
) -> StructuralScore:
    """The mean over lengths of the mean over all correlations of sentences of a length."""
    lengths = np.array([len(sentence.heads) for sentence in sentences])
    defined = [~np.isnan(some) for some in correlations]
    sums = np.array([some[there].sum() for some, there in zip(correlations, defined, strict=True)])
    counts = np.array([int(there.sum()) for there in defined])
    asked = (lengths >= _SHORTEST) & (lengths <= _LONGEST)

    def statistic(kept: Bool[np.ndarray, " s"]) -> float:
        some = asked & kept & (counts > 0)
        total, of = np.bincount(lengths[some], sums[some]), np.bincount(lengths[some], counts[some])
        return float((total[of > 0] / of[of > 0]).mean()) if some.any() else math.nan

    low, high = _interval(statistic, asked & (counts > 0), sentences)
    if low is not None and high is not None:
        low, high = max(-1.0, low), min(1.0, high)  # no correlation lies beyond
    undefined = sum(
        int((~there).sum()) for there, wanted in zip(defined, asked, strict=True) if wanted
    )
    return StructuralScore(statistic(asked), int(counts[asked].sum()), low, high, undefined)


def _interval(
    statistic: Callable[[np.ndarray], float],
    useful: Bool[np.ndarray, " s"],
    sentences: Sequence[_Sentence],
) -> tuple[float | None, float | None]:
    """95 % interval from leaving out every 20th group of useful sentences, in 20 ways (or each, if
    there are fewer)."""
    places = np.flatnonzero(useful)
    groups = _groups([sentences[place] for place in places.tolist()])
    parts = min(_PARTS, len(np.unique(groups)))
    if parts < 2:
        return None, None
    left_out = []
    for part in range(parts):
        kept = useful.copy()
        kept[places[groups % parts == part]] = False
        left_out.append(statistic(kept))
    return jackknife_interval(statistic(useful), np.array(left_out))
