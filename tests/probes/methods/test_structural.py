"""Structural probes: a gradient checked by differences, planted trees found again, and measures
checked by slow loops."""

import collections
import itertools
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from crosslens.errors import InputError
from crosslens.probes.methods import structural
from crosslens.probes.methods.structural import StructuralProbe, structural_loss
from crosslens.probes.methods.structural_scores import structural_scores
from crosslens.stats import share_interval, wilson_interval
from crosslens.trees import tree_depths, tree_distances

KINDS = ("distance", "depth")
# a few steps show what most tests ask
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def random_heads(rng, n):
    order, heads = rng.permutation(n), np.zeros(n, np.int64)
    for i in range(1, n):
        heads[order[i]] = order[rng.integers(i)] + 1
    return heads


def treebank(seed, sentences=60, axes=14, noise=4, shift=0.0):
    """Words whose vectors differ from their heads' by an axis of their own, turned at random,
    beside dimensions that know nothing."""
    rng, turn = (
        np.random.default_rng(seed),
        np.linalg.qr(np.random.default_rng(99).normal(size=(axes + noise, axes + noise)))[0],
    )
    vectors, heads, lengths = [], [], rng.integers(5, axes + 2, sentences)
    for n in lengths.tolist():
        some, axis = random_heads(rng, n), rng.permutation(axes)
        planted = np.zeros((n, axes + noise))
        for word in np.argsort(tree_depths(some)).tolist():
            if some[word]:
                planted[word] = planted[some[word] - 1] + np.eye(axes + noise)[axis[word % axes]]
        planted[:, axes:] = rng.normal(size=(n, noise)) * 3 + shift
        vectors.append(planted @ turn)
        heads.append(some)
    return np.concatenate(vectors).astype(np.float32), np.concatenate(heads), lengths


def batch(rng, kind, d=5):
    """Vectors, gold values and weights of three sentences of 4, 1 and 6 words."""
    lengths = [4, 1, 6]
    shape = (3, 6, 6) if kind == "distance" else (3, 6)
    gold, weights = np.zeros(shape), np.zeros(shape)
    for row, n in enumerate(lengths):
        heads = random_heads(rng, n)
        inside = (row, *(slice(0, n),) * (len(shape) - 1))
        gold[inside] = tree_distances(heads) if kind == "distance" else tree_depths(heads)
        weights[inside] = 1 / n ** (len(shape) - 1)
    return rng.normal(size=(11, d)), gold, weights, lengths


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_the_paper_s_and_its_gradient_that_of_differences(kind):
    rng = np.random.default_rng(0)
    vectors, gold, weights, lengths = batch(rng, kind)
    projection = rng.normal(size=(3, 5))

    def slow(projection):
        total, start = 0.0, 0
        for row, n in enumerate(lengths):
            words = [projection @ vectors[start + i] for i in range(n)]
            if kind == "distance":
                total += (
                    sum(
                        abs(gold[row, i, j] - ((words[i] - words[j]) ** 2).sum())
                        for i in range(n)
                        for j in range(n)
                    )
                    / n**2
                )
            else:
                total += sum(abs(gold[row, i] - (words[i] ** 2).sum()) for i in range(n)) / n
            start += n
        return total

    loss, gradient = structural_loss(projection, vectors, gold, weights)
    assert loss == pytest.approx(slow(projection), rel=1e-12)
    for place in itertools.product(range(3), range(5)):
        step = np.zeros_like(projection)
        step[place] = 1e-6
        assert gradient[place] == pytest.approx(
            (slow(projection + step) - slow(projection - step)) / 2e-6, rel=1e-5, abs=1e-6
        )


@pytest.mark.parametrize("kind", KINDS)
def test_planted_trees_are_found_in_sentences_that_training_has_not_seen(kind):
    train, test = treebank(0, 100), treebank(1, 40)
    probe = StructuralProbe(kind, rank=18).fit(*train)
    scores = structural_scores(probe.predict(test[0], test[2]), test[1], test[2], kind=kind)
    share, correlation = scores.probe.values()
    assert share.value > 0.99
    # the true values have ties, predicted ones do not: 1 cannot be reached
    assert correlation.value > 0.95
    assert all(score.value < 0.5 for score in scores.linear.values()), (
        "word order says little of random trees"
    )
    assert share.low <= share.value <= share.high


def test_vectors_without_trees_give_no_more_than_chance():
    vectors, heads, lengths = treebank(0, 60)
    random = np.random.default_rng(5).normal(size=vectors.shape).astype(np.float32)
    probe = StructuralProbe(rank=4, max_iter=30).fit(random, heads, lengths)
    other = treebank(1, 60)
    random = np.random.default_rng(6).normal(size=other[0].shape).astype(np.float32)
    scores = structural_scores(probe.predict(random, other[2]), *other[1:])
    assert scores.probe["uuas"].value < 0.3
    # every word is nearest to itself, which counts, as in the paper
    assert abs(scores.probe["distance_spearman"].value) < 0.45


def test_it_is_the_same_every_time_and_the_seed_moves_it():
    data = treebank(0, 30)
    first, second = (StructuralProbe(rank=4, max_iter=3).fit(*data) for _ in range(2))
    assert np.array_equal(first.projection_, second.projection_)
    assert not np.array_equal(
        first.projection_, StructuralProbe(rank=4, max_iter=3, seed=1).fit(*data).projection_
    )
    assert first.projection_.shape == (4, 18)
    assert first.projection_.dtype == np.float32


def test_a_common_shift_changes_distances_little_and_depths_much():
    vectors, heads, lengths = treebank(0, 40)
    for kind, same in (("distance", True), ("depth", False)):
        plain, moved = (
            StructuralProbe(kind, rank=6, max_iter=5).fit(some, heads, lengths)
            for some in (vectors, vectors + 2)
        )
        assert (plain.loss_ == pytest.approx(moved.loss_, rel=0.02)) == same


def test_the_scale_of_the_vectors_does_not_matter():
    vectors, heads, lengths = treebank(0, 30)
    plain, larger = (
        StructuralProbe(rank=4, max_iter=3).fit(some, heads, lengths)
        for some in (vectors, 1024 * vectors)
    )
    np.testing.assert_allclose(larger.projection_ * 1024, plain.projection_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_follow_from_the_projection(kind):
    vectors, heads, lengths = treebank(0, 10)
    probe = StructuralProbe(kind, rank=4, max_iter=2).fit(vectors, heads, lengths)
    mapped, start = vectors.astype(np.float64) @ probe.projection_.astype(np.float64).T, 0
    for n, predicted in zip(lengths.tolist(), probe.predict(vectors, lengths), strict=True):
        some = mapped[start : start + n]
        difference = some[:, None] - some[None] if kind == "distance" else some
        np.testing.assert_allclose(predicted, (difference**2).sum(axis=-1), rtol=1e-9)
        start += n


def test_the_development_sentences_decide_when_to_stop():
    train, dev = treebank(0, 30), treebank(1, 30)
    noise = np.random.default_rng(0).normal(size=dev[0].shape).astype(np.float32)
    probe = StructuralProbe(rank=18, max_iter=60).fit(*train, dev=(noise, *dev[1:]))
    longer = StructuralProbe(rank=18, max_iter=60).fit(*train)
    assert probe.n_iter_ < longer.n_iter_, (
        "on vectors without trees training helps for a short while only"
    )
    own = np.mean(
        [
            np.abs(p - tree_distances(h)).mean()
            for p, h in zip(
                probe.predict(noise, dev[2]), np.split(dev[1], np.cumsum(dev[2])[:-1]), strict=True
            )
        ]
    )
    assert probe.loss_ == pytest.approx(own, rel=1e-4), (
        "the loss is that of the development sentences, of the projection that is kept"
    )


def test_layers_on_disk_are_read_by_batches_and_inputs_are_not_written_to(tmp_path):
    vectors, heads, lengths = treebank(0, 30)
    np.save(tmp_path / "layer.npy", vectors)
    before = [some.copy() for some in (vectors, heads, lengths)]
    mapped = np.load(tmp_path / "layer.npy", mmap_mode="r")
    first, second = (
        StructuralProbe(rank=4, max_iter=3).fit(some, heads, lengths) for some in (vectors, mapped)
    )
    assert np.array_equal(first.projection_, second.projection_)
    assert all(
        np.array_equal(some, old)
        for some, old in zip((vectors, heads, lengths), before, strict=True)
    )


def test_memory_is_bounded_by_a_batch(tmp_path):
    sentences, n, d = 750, 40, 512
    heads, lengths = np.tile(np.minimum(np.arange(n), 1), sentences), np.full(sentences, n)
    mapped = np.lib.format.open_memmap(tmp_path / "layer.npy", "w+", np.float16, (sentences * n, d))
    mapped[:] = np.tile(np.random.default_rng(0).normal(size=(n, d)), (sentences, 1))
    tracemalloc.start()
    probe = StructuralProbe("depth", rank=4, max_iter=1).fit(mapped, heads, lengths)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert probe.n_iter_ == 1
    assert peak < 30e6 < 4 * mapped.size, (
        "two blocks of 2048 words in float64 are 17 MB, the layer in float32 is 61 MB"
    )


def test_fit_leaves_parameters_alone_and_forgets():
    probe = StructuralProbe(rank=3, max_iter=2)
    probe.fit(*treebank(0, 20)).fit(*treebank(1, 20))
    assert (
        probe.get_params()
        == clone(probe).get_params()
        == {"kind": "distance", "rank": 3, "max_iter": 2, "seed": 0}
    )
    assert np.array_equal(
        probe.projection_, StructuralProbe(rank=3, max_iter=2).fit(*treebank(1, 20)).projection_
    )


def test_stopping_early_is_said():
    with pytest.warns(ConvergenceWarning, match=r"max_iter: .*got none in 1"):
        StructuralProbe(rank=3, max_iter=1).fit(*treebank(0, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StructuralProbe(rank=3, max_iter=500).fit(*treebank(0, 20))


# The measures.


def cases(seed=0, sentences=40):
    rng, predicted, heads, marks = np.random.default_rng(seed), [], [], []
    lengths = rng.integers(1, 12, sentences)
    for n in lengths.tolist():
        some = random_heads(rng, n)
        noisy = tree_distances(some) + rng.normal(0, 1.2, (n, n))
        predicted.append(np.abs(noisy + noisy.T) / 2 * (1 - np.eye(n)))
        heads.append(some)
        marks.append(rng.random(n) < 0.2)
    return predicted, heads, lengths, marks


def kruskal(distances, words):
    """Edges of the minimum spanning tree among some words: the shortest first, unless they close a
    circle."""
    group, edges = {word: word for word in words}, set()
    for i, j in sorted(itertools.combinations(words, 2), key=lambda pair: distances[pair]):
        if group[i] != group[j]:
            edges.add((i, j))
            old = group[j]
            group = {word: group[i] if mine == old else mine for word, mine in group.items()}
    return edges


def test_attachment_is_that_of_a_slow_spanning_tree():
    predicted, heads, lengths, marks = cases()
    hits = total = 0
    for distances, some, mark in zip(predicted, heads, marks, strict=True):
        words = [word for word in range(len(some)) if not mark[word]]
        gold = {
            tuple(sorted((word, some[word] - 1)))
            for word in words
            if some[word] and not mark[some[word] - 1]
        }
        hits, total = hits + len(gold & kruskal(distances, words)), total + len(gold)
    found = structural_scores(
        predicted, np.concatenate(heads), lengths, np.concatenate(marks)
    ).probe["uuas"]
    assert (found.value, found.n) == (hits / total, total)
    assert 0.3 < found.value < 0.95, "the case is too easy or too hard to show anything"
    assert found.low < found.value < found.high


@pytest.mark.parametrize("kind", KINDS)
def test_correlations_are_scipy_s_averaged_by_length(kind):
    predicted, heads, lengths, _ = cases()
    if kind == "depth":
        predicted = [distances[0] for distances in predicted]
    by_length, n = collections.defaultdict(list), 0
    for some_predicted, some in zip(predicted, heads, strict=True):
        gold = tree_distances(some) if kind == "distance" else tree_depths(some)[None]
        if 5 <= len(some) <= 50:
            values = [
                spearmanr(p, g).statistic
                for p, g in zip(np.atleast_2d(some_predicted), gold, strict=True)
            ]
            by_length[len(some)].extend(values)
            n += len(values)
    found = structural_scores(predicted, np.concatenate(heads), lengths, kind=kind).probe[
        f"{kind}_spearman"
    ]
    assert found.value == pytest.approx(
        np.mean([np.mean(values) for values in by_length.values()]), abs=1e-12
    )
    assert (found.n, found.undefined) == (n, 0)
    assert len({len(values) for values in by_length.values()}) > 1, (
        "a mean over all would be another number"
    )


def test_roots_are_sought_among_words_that_are_no_punctuation():
    depths, heads = [np.array([0.5, 0.1, 0.9, 0.7]), np.array([0.2, 0.1])], [2, 3, 0, 3, 2, 0]
    marks = np.array([False, True, False, False, False, False])
    assert (
        structural_scores(depths, heads, [4, 2], kind="depth").probe["root_accuracy"].value == 0.5
    )
    found = structural_scores(
        [np.array([0.5, 0.1, 0.4, 0.7]), depths[1]], heads, [4, 2], marks, kind="depth"
    ).probe["root_accuracy"]
    assert (found.value, found.n) == (1.0, 2)
    marks = np.array([False, False, True, False, False, False])
    scores = structural_scores(depths, heads, [4, 2], marks, kind="depth")
    assert scores.probe["root_accuracy"].n == 1, "a root that is punctuation"
    assert scores.found.sum(axis=0).tolist() == [
        round(scores.probe["root_accuracy"].value),
        1,
    ] and scores.found.shape == (2, 2)


def test_true_distances_are_perfect_and_any_growing_function_of_them():
    _, heads, lengths, _ = cases()
    gold = [tree_distances(some) for some in heads]
    for some in (
        gold,
        [np.expm1(distances / 3) for distances in gold],
        [1e-20 * distances for distances in gold],
    ):
        found = structural_scores(some, np.concatenate(heads), lengths).probe
        assert (found["uuas"].value, found["uuas"].high) == (1.0, 1.0)
        assert found["distance_spearman"].value == pytest.approx(1.0)


@pytest.mark.parametrize("right", [0, 1, 10])
def test_roots_have_wilson_s_interval(right):
    depths = [*np.array([[1, 0, 1]] * right + [[0, 1, 1]] * (10 - right))]
    found = structural_scores(depths, [2, 0, 2] * 10, [3] * 10, kind="depth").probe["root_accuracy"]
    assert (found.value, found.low, found.high) == (right / 10, *wilson_interval(right, 10))


def test_edges_have_the_interval_of_clusters():
    predicted, heads, lengths, marks = cases()
    scores = structural_scores(predicted, np.concatenate(heads), lengths, np.concatenate(marks))
    found, uuas = scores.found[scores.found[:, 1] > 0], scores.probe["uuas"]
    assert (uuas.value, uuas.low, uuas.high) == pytest.approx(share_interval(*found.T))


@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_a_sentence_do_not_narrow_an_interval(kind):
    predicted, heads, lengths, _ = cases()
    if kind == "depth":
        predicted = [distances[0] for distances in predicted]
    lengths = [len(some) for some in heads]
    once = structural_scores(predicted, np.concatenate(heads), lengths, kind=kind)
    names = [f"text {number}" for number in range(len(heads))]
    thrice, unaware = (
        structural_scores(
            3 * predicted, np.concatenate(3 * heads), 3 * lengths, kind=kind, groups=g
        )
        for g in (3 * names, None)
    )
    found = once.found[once.found[:, 1] > 0]
    for quantity, one in once.probe.items():
        three, other = thrice.probe[quantity], unaware.probe[quantity]
        assert (three.value, three.n) == (pytest.approx(one.value), 3 * one.n)
        ends = (one.low, one.high) if "spearman" in quantity else share_interval(*3 * found.T)[1:]
        assert (three.low, three.high) == pytest.approx(ends)
        assert other.high - other.low < 0.9 * (three.high - three.low)


def test_words_of_equal_vectors_have_an_edge_between_them():
    # two words of one token: distance 0 is an edge, too
    same = np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 2.0], [2.0, 2.0, 0.0]])
    assert structural_scores([same], [2, 0, 2], [3]).probe["uuas"].value >= 0.5
    chain = structural_scores([np.array([[0.0, 0.0], [0.0, 0.0]])], [2, 0], [2]).probe["uuas"]
    assert (chain.value, chain.n, chain.low) == (1.0, 1, None)


def test_word_order_is_the_baseline():
    heads = [0, 1, 2, 3, 4]  # a chain from left to right
    scores = structural_scores([np.ones((5, 5)) - np.eye(5)], heads, [5])
    assert scores.linear["uuas"].value == 1.0
    assert scores.linear["distance_spearman"].value == pytest.approx(1.0)
    scores = structural_scores([np.zeros(5)], heads, [5], kind="depth")
    assert scores.linear["root_accuracy"].value == 1.0
    assert scores.linear["depth_spearman"].value == pytest.approx(1.0)


def test_what_cannot_be_measured_is_not_a_number():
    short = structural_scores([np.zeros((1, 1))], [0], [1])
    assert np.isnan(short.probe["uuas"].value) and short.probe["uuas"].n == 0
    assert (
        np.isnan(short.probe["distance_spearman"].value)
        and short.probe["distance_spearman"].low is None
    )
    flat = structural_scores([np.zeros(5)], [0, 1, 2, 3, 4], [5], kind="depth").probe[
        "depth_spearman"
    ]
    assert np.isnan(flat.value)
    assert (flat.n, flat.undefined) == (0, 1)


def test_refusals():
    vectors, heads, lengths = treebank(0, 5)
    probe = StructuralProbe(rank=2, max_iter=1)
    for changed, told in [
        ({"kind": "both"}, r"kind: expected one of distance, depth, got 'both'"),
        ({"rank": 19}, r"rank: expected a whole number from 1 to 18, got 19"),
        ({"max_iter": 0}, r"max_iter: expected a whole number from 1 up, got 0"),
        ({"seed": -1}, r"seed: expected a whole number from 0 up, got -1"),
    ]:
        with pytest.raises(InputError, match=told):
            clone(probe).set_params(**changed).fit(vectors, heads, lengths)
    broken = vectors.copy()
    broken[3, 1] = np.nan
    wrong_heads = heads.copy()
    wrong_heads[heads == 0] = 1
    for arguments, told in [
        (
            (broken, heads, lengths),
            (
                r"X: expected finite numbers, got NaN or infinity in row 3; leave out sentences "
                r"with words that have no"
            ),
        ),
        (
            (vectors[0], heads, lengths),
            r"X: expected a matrix of shape \(n, d\), got an array of shape \(18,\)",
        ),
        (
            (vectors, heads[1:], lengths),
            r"heads: expected \d+ whole numbers, one per word, got int64 of shape",
        ),
        (
            (vectors, heads.astype(str), lengths),
            r"heads: expected \d+ whole numbers, one per word, got <U",
        ),
        (
            (vectors, heads, lengths[1:]),
            r"lengths: expected whole numbers from 1 that sum to the \d+ rows of X, got others",
        ),
        (
            (vectors, wrong_heads, lengths),
            r"heads: expected one root \(head 0\) in sentence 0, got 0; repair",
        ),
        (
            (np.ones_like(vectors), heads, lengths),
            r"X: expected vectors that differ, got the same for all words",
        ),
    ]:
        with pytest.raises(InputError, match=told):
            probe.fit(*arguments)
    with pytest.raises(InputError, match=r"dev: .*got 17 columns"):
        probe.fit(vectors, heads, lengths, dev=(vectors[:, 1:], heads, lengths))
    with pytest.raises(InputError, match=r"StructuralProbe: .*got one without"):
        StructuralProbe().predict(vectors, lengths)
    with pytest.warns(ConvergenceWarning):
        probe.fit(vectors, heads, lengths)
    with pytest.raises(InputError, match=r"X: .*got 17 columns"):
        probe.predict(vectors[:, 1:], lengths)


def test_refusals_of_the_measures():
    predicted, heads, lengths, _ = cases(sentences=3)
    flat = np.concatenate(heads)
    with pytest.raises(InputError, match=r"kind: .*got 'both'"):
        structural_scores(predicted, flat, lengths, kind="both")
    with pytest.raises(InputError, match=r"predicted: .*got 2"):
        structural_scores(predicted[:2], flat, lengths)
    with pytest.raises(InputError, match=r"predicted\[0\]: .*got shape"):
        structural_scores(predicted, flat, lengths, kind="depth")
    with pytest.raises(InputError, match=r"predicted\[1\]: .*got NaN or infinity"):
        structural_scores([predicted[0], predicted[1] * np.nan, predicted[2]], flat, lengths)
    with pytest.raises(InputError, match=r"punctuation: .*got int64 of shape"):
        structural_scores(predicted, flat, lengths, np.zeros(len(flat), np.int64))
    with pytest.raises(InputError, match=r"groups: .*3 sentences, got shape \(2,\)"):
        structural_scores(predicted, flat, lengths, groups=["a", "b"])


@pytest.mark.parametrize("kind", ["distance", "depth"])
def test_where_it_stops_plain_adam_finds_hardly_less(kind, monkeypatch):
    """The loss has corners, on which a quasi-Newton method stops short unless they are rounded
    off."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 12, 40)
    heads = np.concatenate(
        [[0, *(rng.integers(1, j + 1) for j in range(1, s))] for s in lengths.tolist()]
    )
    turn = np.linalg.qr(rng.normal(size=(64, 64)))[0]
    # few directions have most of the variance
    x = (rng.normal(size=(len(heads), 64)) / np.arange(1, 65) ** 0.8 @ turn).astype(np.float32)
    probe = StructuralProbe(kind, rank=16).fit(x, heads, lengths)
    treebank = structural._Treebank(x, heads, lengths, kind, "X")
    at, mean, square = probe.projection_.astype(np.float64), 0.0, 0.0
    least = structural._mean_loss(at, treebank)[0]
    assert probe.converged_ and least == pytest.approx(probe.loss_, rel=1e-4)
    for step in range(1, 151):
        gradient = structural._mean_loss(at, treebank)[1]
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        at = at - 5e-4 * (1 - step / 151) * (mean / (1 - 0.9**step)) / (
            np.sqrt(square / (1 - 0.999**step)) + 1e-8
        )
        least = min(least, structural._mean_loss(at, treebank)[0])
    assert least > 0.95 * probe.loss_
    monkeypatch.setattr(structural, "_WIDTHS", (0.0,))
    assert StructuralProbe(kind, rank=16).fit(x, heads, lengths).loss_ > 1.1 * probe.loss_
