"""Masking: how many, which, and what stands in their place."""

import math

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.models.masking import Masking, choose_masked, mask_tokens

VOCABULARY, MASK = 200, 4
SPECIAL = np.arange(VOCABULARY) < 5


@pytest.fixture
def rng():
    return np.random.default_rng(21)


def sentences(rng, rows=40, length=50):
    ids = rng.integers(5, VOCABULARY, size=(rows, length))
    ids[:, 0], ids[:, -1] = 2, 3
    ids[: rows // 2, -10:] = 0
    return ids


@pytest.mark.parametrize(("rate", "n", "count"), [(0.15, 100, 15), (0.15, 101, 16), (0.15, 1, 1), (0.4, 7, 3), (0.999, 5, 5)])
def test_exactly_the_ceiling_of_the_share_is_chosen(rng, rate, n, count):
    candidates = np.sort(rng.permutation(10 * n)[:n])
    chosen = choose_masked(candidates, Masking(rate=rate), rng)
    assert len(chosen) == math.ceil(rate * n) == count
    assert np.isin(chosen, candidates).all() and (np.diff(chosen) > 0).all()


def test_a_batch_has_the_share_of_its_ordinary_tokens_masked(rng):
    ids = sentences(rng)
    _, masked, _ = mask_tokens(ids, SPECIAL, MASK, Masking(), rng)
    assert len(masked) == math.ceil(0.15 * (ids >= 5).sum())
    assert len(np.unique(masked)) == len(masked)


@pytest.mark.parametrize("count", ["exact", "bernoulli"])
def test_special_tokens_are_never_chosen_and_never_drawn(rng, count):
    ids = sentences(rng, 400)
    inputs, masked, _ = mask_tokens(ids, SPECIAL, MASK, Masking(rate=0.9, masked=0.0, random=1.0, count=count), rng)
    assert not SPECIAL[ids.ravel()[masked]].any()
    assert not SPECIAL[inputs.ravel()[masked]].any()
    assert np.array_equal(np.unique(inputs.ravel()[masked]), np.arange(5, VOCABULARY))  # and every other token is drawn


def test_special_tokens_need_not_be_the_first_ones(rng):
    special = np.isin(np.arange(VOCABULARY), [7, 100, 199])
    ids = rng.integers(VOCABULARY, size=(50, 40))
    inputs, masked, _ = mask_tokens(ids, special, 100, Masking(masked=0.0, random=1.0, rate=0.8), rng)
    assert not special[ids.ravel()[masked]].any() and not special[inputs.ravel()[masked]].any()


def test_replacements_have_their_shares(rng):
    ids = sentences(rng, 2000)
    inputs, masked, labels = mask_tokens(ids, SPECIAL, MASK, Masking(), rng)
    seen, n = inputs.ravel()[masked], len(masked)
    by_chance = 0.1 / (VOCABULARY - 5)  # a random token that happens to be the right one looks like one that stays
    for share, told in [(0.8, seen == MASK), (0.1 + by_chance, seen == labels), (0.1 - by_chance, (seen != MASK) & (seen != labels))]:
        spread = math.sqrt(share * (1 - share) / n)
        assert told.mean() == pytest.approx(share, abs=5 * spread)  # five standard deviations of a binomial share
    assert n > 10_000


def test_bernoulli_picks_each_token_with_the_rate():
    rng, n = np.random.default_rng(3), 100_000
    count = len(choose_masked(np.arange(n), Masking(count="bernoulli"), rng))
    assert count == pytest.approx(0.15 * n, abs=5 * math.sqrt(0.15 * 0.85 * n))  # five standard deviations
    counts = {len(choose_masked(np.arange(30), Masking(count="bernoulli"), rng)) for _ in range(50)}
    assert len(counts) > 3 and min(counts) >= 1


def test_at_least_one_token_is_chosen_even_by_bernoulli():
    for seed in range(20):
        chosen = choose_masked(np.array([3, 8]), Masking(rate=0.001, count="bernoulli"), np.random.default_rng(seed))
        assert len(chosen) == 1 and chosen[0] in (3, 8)


def test_every_candidate_is_as_likely(rng):
    draws = 4000
    hits = sum(np.bincount(choose_masked(np.arange(10), Masking(rate=0.3), rng), minlength=10) for _ in range(draws))
    assert np.abs(hits / draws - 0.3).max() < 5 * math.sqrt(0.3 * 0.7 / draws)  # five standard deviations of a binomial share


def test_the_same_generator_gives_the_same_mask():
    ids = sentences(np.random.default_rng(0))
    first, second, other = (mask_tokens(ids, SPECIAL, MASK, Masking(), np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first[1], other[1])


def test_labels_are_the_originals_and_the_rest_is_untouched(rng):
    ids = sentences(rng)
    before = ids.copy()
    inputs, masked, labels = mask_tokens(ids, SPECIAL, MASK, Masking(), rng)
    assert np.array_equal(ids, before) and not np.shares_memory(ids, inputs)
    assert np.array_equal(labels, before.ravel()[masked])
    restored = inputs.ravel().copy()
    restored[masked] = labels
    assert np.array_equal(restored.reshape(ids.shape), before) and inputs.shape == ids.shape


def test_a_batch_of_special_tokens_is_refused(rng):
    with pytest.raises(InputError, match="batch: expected at least one ordinary token, got only special tokens; drop empty sentences"):
        mask_tokens(np.array([[2, 3, 0]]), SPECIAL, MASK, Masking(), rng)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rate": 0.0}, "masking.rate: expected a fraction between 0 and 1, got 0.0; 0.15 is the usual choice"),
        ({"rate": 1.0}, "masking.rate: expected a fraction between 0 and 1, got 1.0"),
        ({"masked": 0.8, "random": 0.3}, r"masking.masked \+ masking.random: expected at most 1, got 0.8 \+ 0.3; 0.8 and 0.1 are usual"),
        ({"random": -0.1}, r"masking.masked \+ masking.random: expected at most 1, got 0.8 \+ -0.1"),
        ({"count": "some"}, "masking.count: expected exact or bernoulli, got 'some'; choose one of the two"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, told):
    with pytest.raises(InputError, match=told):
        Masking(**changes)
