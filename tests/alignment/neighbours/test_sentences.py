"""Sentence retrieval: Tatoeba's and xSIM's conventions against loops, both directions, ties, and
every refusal."""

import numpy as np
import pytest

from crosslens.alignment.neighbours.retrieval import retrieval_both_directions
from crosslens.alignment.neighbours.sentences import sentence_retrieval
from crosslens.errors import InputError
from crosslens.stats import wilson_interval


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def sides(rng, n=150, d=10, noise=1.0, dtype=np.float32):
    x = rng.normal(size=(n, d)) + 0.7
    return x.astype(dtype), (x + noise * rng.normal(size=x.shape)).astype(dtype)


def cosines_of(x, y):
    x, y = (
        side.astype(np.float64) / np.linalg.norm(side.astype(np.float64), axis=1, keepdims=True)
        for side in (x, y)
    )
    return x @ y.T


def xsim_by_loop(cosines, k):
    """For each row, the best ratio among its k nearest."""
    found = []
    backward = [np.mean(sorted(column)[-k:]) for column in cosines.T]
    for row in cosines:
        nearest = sorted(range(len(row)), key=lambda j: -row[j])[:k]
        forward = np.mean([row[j] for j in nearest])
        found.append(max(nearest, key=lambda j: row[j] / ((forward + backward[j]) / 2)))
    return np.array(found)


@pytest.mark.parametrize("k", [1, 4, 10])
def test_xsim_is_the_error_of_the_best_ratio_among_the_k_nearest(rng, k):
    x, y = sides(rng)
    result = sentence_retrieval(x, y, convention="xsim", k=k)
    own, cosines = np.arange(150), cosines_of(x, y)
    assert result.there.correct.tolist() == (xsim_by_loop(cosines, k) == own).tolist()
    assert result.back.correct.tolist() == (xsim_by_loop(cosines.T, k) == own).tolist()
    assert result.published == 1 - result.there.precision
    assert 0 < result.published < 1


def test_four_neighbours_are_the_convention(rng):
    x, y = sides(rng)
    plain = sentence_retrieval(x, y, convention="xsim").there.correct.tolist()
    assert plain == sentence_retrieval(x, y, convention="xsim", k=4).there.correct.tolist()
    assert plain != sentence_retrieval(x, y, convention="xsim", k=50).there.correct.tolist()


def test_tatoeba_is_the_accuracy_by_cosine_from_x_to_y(rng):
    x, y = sides(rng)
    result = sentence_retrieval(x, y)
    expected = cosines_of(x, y).argmax(axis=1) == np.arange(150)
    assert result.there.correct.tolist() == expected.tolist()
    assert result.published == result.there.precision == expected.mean()
    assert result.there.interval == wilson_interval(int(expected.sum()), 150)
    there, back = retrieval_both_directions(x, y)
    assert result.there.correct.tolist() == there.correct.tolist()
    assert result.back.correct.tolist() == back.correct.tolist()
    assert result.there.precision != result.back.precision


@pytest.mark.parametrize("convention", ["tatoeba", "xsim"])
def test_the_directions_are_exchanged_with_the_sides(rng, convention):
    x, y = sides(rng)
    one, other = (
        sentence_retrieval(x, y, convention=convention),
        sentence_retrieval(y, x, convention=convention),
    )
    assert one.there.correct.tolist() == other.back.correct.tolist()
    assert one.back.correct.tolist() == other.there.correct.tolist()
    assert one.convention == convention


@pytest.mark.parametrize("convention", ["tatoeba", "xsim"])
def test_of_equal_sentences_the_first_is_found(rng, convention):
    x, y = sides(rng, noise=0.01)
    x[60], y[60] = x[20], y[20]
    result = sentence_retrieval(x, y, convention=convention)
    assert result.there.correct[20]
    assert not result.there.correct[60]
    assert result.there.correct.sum() == result.back.correct.sum() == 149


@pytest.mark.parametrize("convention", ["tatoeba", "xsim"])
def test_lengths_do_not_matter_but_a_shift_does(rng, convention):
    x, y = sides(rng)
    plain = sentence_retrieval(x, y, convention=convention).there.correct.tolist()
    assert (
        sentence_retrieval(
            x * 4, y * rng.uniform(1, 9, (150, 1)), convention=convention
        ).there.correct.tolist()
        == plain
    )
    assert sentence_retrieval(x + 3, y + 3, convention=convention).there.correct.tolist() != plain


def test_refusals_say_what_to_do(rng):
    x, y = sides(rng)
    with pytest.raises(InputError, match=r"^k: .*got 4"):
        sentence_retrieval(x[:3], y[:3], convention="xsim")
    assert sentence_retrieval(x[:3], y[:3]).there.n == 3  # Tatoeba's has no neighbourhood
    with pytest.raises(InputError, match=r"^y: .*got 149 rows"):
        sentence_retrieval(x, y[1:])
    with pytest.raises(InputError, match=r"^y: .*got 9 columns"):
        sentence_retrieval(x, y[:, 1:])
    with pytest.raises(InputError, match=r"^x: .*got 1 row\(s\)"):
        sentence_retrieval(np.where(np.arange(150)[:, None] == 0, 0, x), y)
    with pytest.raises(InputError, match=r"^convention: .*got xsim of sentences"):
        sentence_retrieval(np.abs(x), -np.abs(y), convention="xsim")
    unchecked = getattr(sentence_retrieval, "__wrapped__", sentence_retrieval)
    with pytest.raises(InputError, match=r"^convention: .*got 'bucc'"):
        unchecked(x, y, convention="bucc")
