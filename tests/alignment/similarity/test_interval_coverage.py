"""How often 95 % intervals hold the true value, in samples of populations whose true value is
known.

Intervals are made of debiased linear CKA, of precision at k, and of the alignment error rate; the
other measures have none.

The count of 500 samples has a standard error of 1 %, that of 200 one of 1.5 %.
"""

import numpy as np
import pytest

from crosslens.alignment import (
    alignment_error_interval,
    alignment_error_rate,
    linear_cka_layers,
    retrieval_both_directions,
)

SPECTRA = {"flat": lambda d: np.ones(d), "decaying": lambda d: 1 / np.arange(1, d + 1)}


def population(rng, n, d, relation, spectrum="flat", tails="normal"):
    """Two sides, turned against each other, whose columns correlate by ``relation``: the true CKA
    is its square."""
    shared, noise = rng.normal(size=(2, n, d))
    y = relation * shared + np.sqrt(1 - relation**2) * noise
    # rows of a t distribution with 5 degrees
    lengths = np.sqrt(3 / rng.chisquare(5, size=(n, 1))) if tails == "heavy" else 1.0
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return shared * SPECTRA[spectrum](d) * lengths, (y * SPECTRA[spectrum](d) * lengths) @ turn


def coverage_of_cka(samples, n, d, *kind):
    rng, held = np.random.default_rng(0), 0
    for _ in range(samples):
        x, y = population(rng, n, d, *kind)
        found = linear_cka_layers([x], [y])
        held += found.debiased_low[0, 0] <= kind[0] ** 2 <= found.debiased_high[0, 0]
    return held / samples


def test_in_small_samples_the_interval_of_cka_holds_the_truth_about_as_often_as_it_says():
    assert coverage_of_cka(40, 100, 8, 0.6) >= 0.85


KINDS = [
    *(
        (relation, spectrum, tails)
        for relation in (0.0, 0.6, 0.99)
        for spectrum in SPECTRA
        for tails in ("normal", "heavy")
    ),
    (0.15, "flat", "normal"),
    (0.15, "decaying", "normal"),
]
# below 93 % at n = 200
HARD = {(0.15, "decaying", "normal"), (0.6, "decaying", "heavy"), (0.99, "decaying", "heavy")}


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(200, 10), (200, 100), (2000, 20)])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
def test_the_interval_of_cka_holds_the_truth_about_as_often_as_it_says(kind, n, d):
    covered = coverage_of_cka(500 if n == 200 else 200, n, d, *kind)
    hard = kind == (0.0, "decaying", "heavy") or n == 200 and kind in HARD
    # 93 %, or 88 % as the docstring says, less thrice the count's error
    least = 0.85 if hard else 0.9
    assert least <= covered <= 0.995, covered  # of unrelated sides it ends at 0: 97.5 % are due


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "d", "noise"), [(200, 20, 0.6), (200, 20, 1.2), (200, 5, 2.0), (2000, 20, 1.2)]
)
def test_the_interval_of_precision_holds_the_mean_precision_of_many_samples(n, d, noise):
    """Queries share their keys, so that their outcomes hang together a little: more than binomial
    they hardly vary."""
    rng, found = np.random.default_rng(0), []
    for _ in range(600 if n == 200 else 150):
        x = rng.normal(size=(n, d))
        found.append(retrieval_both_directions(x, x + noise * rng.normal(size=(n, d)))[0])
    truth = np.mean([result.precision for result in found])
    assert (
        0.91
        <= np.mean([result.interval[0] <= truth <= result.interval[1] for result in found])
        <= 0.985
    )


def coverage_of_error_rate(samples, sentences, even):
    rng, values, bounds = np.random.default_rng(0), [], []
    for _ in range(samples):
        sure, found = [], []
        for sentence in range(sentences):
            # sentences of one population are not equally hard
            right = 0.75 if even else rng.beta(4, 1.5)
            for word in range(rng.integers(3, 25)):
                sure.append((sentence, word, word))
                found.append((sentence, word, word if rng.random() < right else word + 30))
        values.append(alignment_error_rate(found, sure).error_rate)
        bounds.append(alignment_error_interval(found, sure))
    return np.mean([low <= np.mean(values) <= high for low, high in bounds])


@pytest.mark.slow
@pytest.mark.parametrize("sentences", [20, 200])
@pytest.mark.parametrize("even", [True, False])
def test_the_interval_of_the_error_rate_holds_it_about_as_often_as_it_says(sentences, even):
    assert 0.92 <= coverage_of_error_rate(300, sentences, even) <= 0.99


@pytest.mark.parametrize(("sentences", "rate"), [(20, 0.005), (50, 0.01), (200, 0.005)])
def test_the_interval_of_an_error_rate_near_0_holds_it(sentences, rate):
    """Many samples of so few have no error at all."""
    rng, words = np.random.default_rng(0), 8
    sentence, word = np.divmod(np.arange(sentences * words), words)
    gold = np.stack([sentence, word, word], axis=1)
    held = []
    for _ in range(100):
        wrong = rng.random(len(gold)) < rate
        low, high = alignment_error_interval(gold + wrong[:, None] * [0, 0, words], gold)
        held.append(low <= rate <= high)
    assert np.mean(held) >= 0.9
