"""First pairs: what is shared, in an order that depends on nothing else, and descriptions that
survive a rotation."""

import numpy as np
import pytest

from crosslens.alignment.maps import seeds
from crosslens.alignment.maps.seeds import (
    dictionary_seed,
    identical_words,
    numerals,
    unsupervised_seed,
)
from crosslens.errors import InputError

WORDS_X = ["the", "2019", "Paris", "7", "radio", "3,5", "x2"]
WORDS_Y = ["x2", "radio", "la", "7", "paris", "2019", "3,5", "٣"]


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_identical_words_are_those_of_both_in_the_order_of_x():
    assert [(WORDS_X[i], WORDS_Y[j]) for i, j in identical_words(WORDS_X, WORDS_Y)] == [
        (word, word) for word in ("2019", "7", "radio", "3,5", "x2")
    ]


def test_numerals_consist_of_digits_only():
    assert [(WORDS_X[i], WORDS_Y[j]) for i, j in numerals([*WORDS_X, "٣"], WORDS_Y)] == [
        ("2019", "2019"),
        ("7", "7"),
    ]


def test_a_dictionary_keeps_every_translation_once_and_drops_what_has_no_vector():
    pairs = [("b", "B"), ("a", "A2"), ("a", "A"), ("a", "A2"), ("missing", "A"), ("a", "missing")]
    assert dictionary_seed(pairs, ["a", "b"], ["A", "A2", "B"]).tolist() == [[0, 0], [0, 1], [1, 2]]
    assert dictionary_seed(iter(reversed(pairs)), ["a", "b"], ["A", "A2", "B"]).tolist() == [
        [0, 0],
        [0, 1],
        [1, 2],
    ]


def clustered(rng, n, d):
    scales = rng.gamma(2, 1, size=d)
    return (
        rng.normal(size=(n // 10, d))[rng.integers(0, n // 10, n)] + 0.6 * rng.normal(size=(n, d))
    ) * scales


def test_distributions_are_the_sorted_root_of_the_similarities(rng):
    x = rng.normal(size=(30, 6))
    values, vectors = np.linalg.eigh(x @ x.T)
    # there are 6 dimensions; a root would make much of the rounding in the other 24
    values[values < 1e-10] = 0
    root = (vectors * np.sqrt(values)) @ vectors.T
    assert np.allclose(root @ root, x @ x.T)
    root = np.sort(root, axis=1)
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    root -= root.mean(axis=0)
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    assert np.allclose(seeds._distributions(x), root, atol=1e-8)


def test_an_isometric_space_is_recognised_far_above_chance(rng):
    x = clustered(rng, 500, 20)
    turn, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    place = rng.permutation(500)
    y = (x @ turn + 0.3 * rng.normal(size=x.shape))[place]
    pairs = unsupervised_seed(x, y)
    right = place[pairs[:, 1]] == pairs[:, 0]
    assert pairs.shape == (1000, 2)
    assert pairs[:500, 0].tolist() == pairs[500:, 1].tolist() == list(range(500))
    assert right.mean() > 0.2  # chance is 1 in 500
    pairs = unsupervised_seed(x, rng.normal(size=x.shape))
    assert (pairs[:, 0] == pairs[:, 1]).mean() < 0.02, "noise has no such structure"


def test_rotations_and_lengths_change_no_pair_but_the_order_of_rows_does(rng):
    x, y = clustered(rng, 300, 12), clustered(rng, 300, 12)
    turn, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    pairs = unsupervised_seed(x, y, vocabulary=200)
    assert np.array_equal(
        unsupervised_seed(x @ turn * rng.uniform(1, 9, size=(300, 1)), y, vocabulary=200), pairs
    )
    assert not np.array_equal(unsupervised_seed(x[::-1], y, vocabulary=200), pairs)


def test_sides_may_differ_in_size_and_dimensions(rng):
    pairs = unsupervised_seed(rng.normal(size=(60, 4)), rng.normal(size=(45, 7)), k=3)
    assert pairs.shape == (90, 2)
    assert pairs.max() == 44


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dictionary_seed([("a", "b")], ["a"], ["c"]),
            "pairs: expected an entry whose words are in words_x and words_y",
        ),
        (
            lambda: dictionary_seed([], ["a"], ["c"]),
            "pairs: expected an entry whose words are in words_x and words_y",
        ),
        (
            lambda: dictionary_seed([("a", "b")], ["a", "c", "a"], ["b"]),
            "words_x: expected every word once",
        ),
        (
            lambda: identical_words(["a"], ["b", "b"]),
            "words_y: expected every word once",
        ),
        (
            lambda: identical_words(["a"], ["b"]),
            "words_y: expected a word that words_x has too",
        ),
        (
            lambda: numerals(["a", "1"], ["a", "2"]),
            "words_y: expected a numeral that words_x has too",
        ),
        (
            lambda: unsupervised_seed(np.eye(9), np.eye(9), k=10),
            "k: expected a whole number from 1 to 9",
        ),
        (
            lambda: unsupervised_seed(np.eye(9), np.eye(9), vocabulary=4, k=5),
            "k: expected a whole number from 1 to 4",
        ),
        (
            lambda: unsupervised_seed(np.eye(9), np.full((9, 2), np.nan)),
            r"finite numbers, got NaN or infinity in 9 row",
        ),
        (
            lambda: unsupervised_seed(np.eye(12) - np.eye(12)[0], np.eye(12)),
            "rows with a direction, got 1 row",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()
