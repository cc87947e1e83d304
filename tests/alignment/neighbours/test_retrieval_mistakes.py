"""Mistakes that were found in published programs for retrieval and mapping, each as an input on
which they go wrong, with the right answer.

What is wrong is said in each test; MUSE, vecmap, LASER and XTREME are those of 2017 to 2024.
"""

import tracemalloc

import numpy as np
import pytest

from crosslens.alignment.neighbours import tiles
from crosslens.alignment.neighbours.csls import adjusted_neighbours, csls_neighbours
from crosslens.alignment.neighbours.products import best_both, neighbourhood_means
from crosslens.alignment.neighbours.retrieval import nearest_neighbours
from crosslens.alignment.neighbours.sentences import sentence_retrieval
from crosslens.alignment.rows import unit_rows
from crosslens.alignment.words.lexicon import evaluate_lexicon, induced_dictionary


@pytest.fixture
def rng():
    return np.random.default_rng(6)


def spaces(rng, n=400, m=300, d=8):
    return rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(m, d)).astype(np.float32)


def test_memory_does_not_grow_with_the_lines_of_a_dictionary(rng, monkeypatch):
    """MUSE: a matrix of one row per line of the dictionary and one column per word of the
    vocabulary, however often a word comes."""
    monkeypatch.setattr(tiles, "BLOCK", 256)
    x, y = spaces(rng, 300, 4000)
    pairs = np.stack([np.repeat(np.arange(20), 200), np.arange(4000)], axis=1)

    def peak(lines):
        tracemalloc.start()
        evaluate_lexicon(x, y, lines, by="cosine")
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return held

    one_line_each, many = peak(pairs[::200]), peak(pairs)
    assert many < one_line_each + 2 * 2**20  # the matrix of all lines would have 64 MB


def test_a_source_with_many_lines_counts_once(rng):
    """Counting lines: a word with ten translations, of which one is found, would be wrong nine
    times."""
    x, y = spaces(rng)
    y[0], y[1] = x[0], x[1]
    pairs = [(0, 0), *((0, 100 + j) for j in range(9)), (1, 250)]
    assert evaluate_lexicon(x, y, pairs, by="cosine").precision[1] == 0.5


def test_words_that_are_missing_are_told(rng):
    """MUSE: sources without a translation in the vocabulary leave the denominator without a
    word."""
    x, y = spaces(rng)
    y[:50] = x[:50]
    result = evaluate_lexicon(x, y, [(i, i) for i in range(50)], n_sources=200, by="cosine")
    assert (result.precision[1], result.coverage, result.precision_of_all[1]) == (1, 0.25, 0.25)


def test_hubness_is_learnt_from_all_sources_whoever_asks(rng):
    """CSLS over the queries alone: r_S then depends on which words of a dictionary are asked
    together."""
    x, y = spaces(rng)
    every = csls_neighbours(x, y, 3)
    for rows in ([0], [5, 3, 399], np.arange(0, 400, 7)):
        some = csls_neighbours(x, y, 3, rows=rows)
        assert np.array_equal(some[0], every[0][np.asarray(rows)])
        assert np.array_equal(some[1], every[1][np.asarray(rows)])


def test_callers_vectors_are_not_normalised_in_place(rng):
    """LASER and XTREME: faiss.normalize_L2 writes into the array that it is given."""
    x, y = (side * 5 for side in spaces(rng, 300, 300))
    before = x.copy(), y.copy()
    sentence_retrieval(x, y)
    sentence_retrieval(x + 50, y + 50, convention="xsim")
    evaluate_lexicon(x, y, [(0, 0)])
    induced_dictionary(x, y)
    for now, then in zip((x, y), before, strict=True):
        assert np.array_equal(now, then)


def test_float32_stays_float32(rng):
    """vecmap: a division by a list of lengths turns the vectors into float64, twice the memory and
    half the speed."""
    x, y = (unit_rows(side) for side in spaces(rng))
    assert nearest_neighbours(x, y)[1].dtype == np.float32
    assert csls_neighbours(x, y)[1].dtype == np.float32
    assert {means.dtype for means in neighbourhood_means(x, y)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("block", [16, 48, 100, 2048])
def test_ties_do_not_depend_on_how_the_work_is_cut(rng, block, monkeypatch):
    """torch.topk and faiss promise no order, and products in blocks of another size differ in their
    last bits."""
    x, y = spaces(rng, 100, 60, d=50)
    y = np.concatenate([y, y[::-1], y])
    monkeypatch.setattr(tiles, "BLOCK", block)
    for by in ("cosine", "csls", "margin_distance"):
        indices, _ = adjusted_neighbours(x, y, 3, by=by)
        first = indices[:, 0]
        assert (first < 60).all()
        assert indices[:, 1].tolist() == (119 - first).tolist()
        assert indices[:, 2].tolist() == (first + 120).tolist()
    units = unit_rows(x), unit_rows(y)
    assert (best_both(*units, *neighbourhood_means(*units))[0] < 60).all()


def test_a_pair_of_which_nothing_is_known_is_not_a_pair_of_score_zero(rng):
    """vecmap's dropout sets cosines to 0, so that with negative cosines what was dropped wins. Here
    what fills a tile up never wins."""
    x, y = spaces(rng, 30, 37)
    x, y = np.abs(x), -np.abs(y)  # every cosine is negative, and 30 and 37 are no whole groups
    indices, similarities = nearest_neighbours(x, y, 5)
    cosines = unit_rows(x) @ unit_rows(y).T
    assert np.array_equal(indices[:, 0], cosines.argmax(axis=1))
    assert (similarities < 0).all()
    means = neighbourhood_means(unit_rows(x), unit_rows(y), 20)
    for mean, expected in zip(
        means,
        (
            np.sort(cosines, axis=1)[:, -20:].mean(axis=1),
            np.sort(cosines, axis=0)[-20:].mean(axis=0),
        ),
        strict=True,
    ):
        assert np.allclose(mean, expected, atol=1e-6)


def test_a_vocabulary_smaller_than_the_neighbourhood_is_refused_not_padded(rng):
    """faiss fills places without a neighbour with index -1 and the lowest float, which then enter
    the mean."""
    x, y = spaces(rng, 30, 6)
    with pytest.raises(ValueError, match=r"^neighbourhood: .*got 10"):
        csls_neighbours(x, y)
    with pytest.raises(ValueError, match=r"^k: .*got 7"):
        nearest_neighbours(x, y, 7)
