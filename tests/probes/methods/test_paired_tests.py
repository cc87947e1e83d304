"""Tests between layers or models: scipy's binomial test, a hand-written Holm, and tests that keep
their level."""

from math import comb

import numpy as np
import pytest
from scipy.stats import binomtest

from crosslens.errors import InputError
from crosslens.probes.methods.controls import macro_f1
from crosslens.probes.methods.paired_tests import compare_all, holm, mcnemar, permutation_test
from crosslens.stats import paired_interval


def outcomes(only_first, only_second, both=5, none=4):
    first = np.repeat([True, False, True, False], [only_first, only_second, both, none])
    second = np.repeat([False, True, True, False], [only_first, only_second, both, none])
    order = np.random.default_rng(0).permutation(len(first))
    return first[order], second[order]


@pytest.mark.parametrize(
    ("more", "less"), [(0, 0), (1, 0), (3, 3), (9, 2), (2, 9), (40, 21), (400, 310)]
)
def test_mcnemar_is_the_binomial_test_of_discordant_items_less_half_of_what_was_seen(more, less):
    first, second = outcomes(more, less)
    test = mcnemar(first, second)
    expected = binomtest(more, more + less, 0.5).pvalue if more + less else 1.0
    # of equal numbers the two tails share it: p is 1
    seen = comb(more + less, more) / 2 ** (more + less) if more != less else 0.0
    assert test.p == pytest.approx(expected - seen, rel=1e-9)
    assert (test.p == 1) == (more == less)
    assert (test.n, test.only_first, test.only_second) == (len(first), more, less)
    assert (test.difference, test.low, test.high) == paired_interval(first, second)
    assert test.corrected_p == test.p


def test_items_that_both_got_right_change_the_difference_but_not_p():
    small, large = mcnemar(*outcomes(9, 2)), mcnemar(*outcomes(9, 2, both=500))
    assert small.p == large.p
    assert small.difference > large.difference


def by_hand(p):
    """Holm's procedure as the paper has it: reject in ascending order at alpha / (m - k); the least
    alpha that rejects."""
    values, found = sorted(p), []
    for one in p:
        rank = max(k for k, value in enumerate(values) if value <= one)
        found.append(min(1.0, max(values[k] * (len(p) - k) for k in range(rank + 1))))
    return found


@pytest.mark.parametrize("m", [1, 2, 5, 30])
def test_holm_is_the_step_down_procedure(m):
    p = np.random.default_rng(m).random(m) ** 3
    assert holm(p).tolist() == pytest.approx(by_hand(p.tolist()), rel=1e-12)


def test_holm_of_known_numbers_and_of_ties():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.02, 0.02, 0.02]).tolist() == pytest.approx([0.06] * 3)
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    p = np.random.default_rng(0).random(20)
    order = np.random.default_rng(1).permutation(20)
    assert np.array_equal(holm(p)[order], holm(p[order]))
    # between none and Bonferroni
    assert (holm(p) >= p).all() and (holm(p) <= np.minimum(1, 20 * p)).all()


def test_all_pairs_are_tested_and_corrected_together():
    rng = np.random.default_rng(2)
    right = {f"layer {i}": rng.random(300) < share for i, share in enumerate((0.5, 0.6, 0.9, 0.9))}
    tests = compare_all(right)
    assert [(test.first, test.second) for test in tests][:2] == [
        ("layer 0", "layer 1"),
        ("layer 0", "layer 2"),
    ]
    assert len(tests) == 6
    assert [test.corrected_p for test in tests] == pytest.approx(holm([test.p for test in tests]))
    chosen = compare_all(right, [("layer 2", "layer 0")])
    assert chosen[0].difference == -tests[1].difference
    assert chosen[0].corrected_p == chosen[0].p == tests[1].p < tests[1].corrected_p


def share(true, answers):
    return np.mean(true == answers)


def answers_of(seed, accuracy, n=150):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return y, np.where(rng.random(n) < accuracy, y, (y + 1) % 3)


def test_a_real_difference_of_macro_f1_is_found_with_its_interval():
    y, first = answers_of(0, 0.9)
    _, second = answers_of(1, 0.6)
    test = permutation_test(first, second, y, macro_f1, samples=200)
    assert test.difference == macro_f1(y, first) - macro_f1(y, second)
    assert test.p == 1 / 201
    assert 0 < test.low < test.difference < test.high
    turned = permutation_test(second, first, y, macro_f1, samples=200)
    assert (turned.difference, turned.p) == (-test.difference, test.p)


def test_of_accuracies_it_agrees_with_mcnemar():
    y, first = answers_of(2, 0.75)
    _, second = answers_of(3, 0.65)
    exact = mcnemar(first == y, second == y)
    drawn = permutation_test(first, second, y, share, samples=2000)
    assert drawn.difference == pytest.approx(exact.difference)
    assert drawn.p == pytest.approx(exact.p, abs=0.04)  # 4 standard errors of 2,000 permutations
    assert (drawn.low, drawn.high) == pytest.approx((exact.low, exact.high), abs=0.03)
    assert 0.01 < exact.p < 0.5, "too clear a case shows nothing"


def test_equal_answers_are_no_evidence_and_the_seed_decides():
    y, first = answers_of(4, 0.7)
    _, second = answers_of(5, 0.7)
    assert permutation_test(first, first, y, share, samples=50).p == 1.0
    one, two = (permutation_test(first, second, y, share, samples=50, seed=seed) for seed in (0, 1))
    assert one != two
    assert permutation_test(first, second, y, share, samples=50) == one


def test_refusals():
    right = np.ones(4, bool)
    with pytest.raises(InputError, match=r"second: .*got 3"):
        mcnemar(right, right[:3])
    right = np.array([True, False])
    for name, sides in (
        ("first", (np.array([1.0, 0.0]), right)),
        ("second", (right, np.array([[True, False]]))),
    ):
        with pytest.raises(InputError, match=f"{name}: expected True or False for each item, got"):
            mcnemar(*sides)
    with pytest.raises(InputError, match=r"p: .*got \[0.5, nan\]"):
        holm([0.5, float("nan")])
    with pytest.raises(InputError, match="p: expected a list"):
        holm([])
    with pytest.raises(InputError, match=r"outcomes: .*got a"):
        compare_all({"a": right})
    for pairs in ([("a", "c")], [("a", "a")], [("a", "b"), ("b", "a")]):
        with pytest.raises(InputError, match=r"pairs: .*got \('\w', '\w'\)"):
            compare_all({"a": right, "b": right}, pairs)
    y = np.arange(4)
    with pytest.raises(InputError, match=r"first, second: .*got \(3,\) and"):
        permutation_test(y[:3], y, y, share)
    with pytest.raises(InputError, match=r"score: .*got nan"):
        permutation_test(y, y, y, lambda true, answers: float("nan"))
    with pytest.raises(InputError, match=r"samples: .*got 0"):
        permutation_test(y, y, y, share, samples=0)
