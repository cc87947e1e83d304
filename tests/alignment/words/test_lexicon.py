"""Lexicons: loops as the reference, the conventions by hand, coverage, mutual pairs, and every
refusal."""

import numpy as np
import pytest

from crosslens.alignment.neighbours.csls import adjusted_neighbours
from crosslens.alignment.words.lexicon import (
    evaluate_lexicon,
    induced_dictionary,
    mutual_neighbours,
)
from crosslens.errors import InputError
from crosslens.stats import wilson_interval


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def spaces(rng, n=200, m=180, d=12):
    x = rng.normal(size=(n, d)).astype(np.float32)
    y = rng.normal(size=(m, d)).astype(np.float32)
    y[:150] = x[:150] + 0.8 * rng.normal(size=(150, d))
    return x, y


def csls_by_hand(x, y, k=10):
    x, y = (
        side.astype(np.float64) / np.linalg.norm(side.astype(np.float64), axis=1, keepdims=True)
        for side in (x, y)
    )
    cosines = x @ y.T
    return (
        2 * cosines
        - np.sort(cosines, axis=1)[:, -k:].mean(axis=1)[:, None]
        - np.sort(cosines, axis=0)[-k:].mean(axis=0)
    )


PAIRS = np.array(
    [(i, (i * 7) % 150 if i % 3 else i) for i in range(100)]
    + [(i, i) for i in range(40)]
    + [(5, 9), (5, 170)]
)


@pytest.mark.parametrize("by", ["csls", "cosine"])
def test_precision_is_over_unique_sources_of_which_any_translation_counts(rng, by):
    x, y = spaces(rng)
    scores = csls_by_hand(x, y)
    if by == "cosine":
        scores = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (
            y / np.linalg.norm(y, axis=1, keepdims=True)
        ).T
    gold = {}
    for source, target in PAIRS.tolist():
        gold.setdefault(source, set()).add(target)
    places = [min(int((scores[s] > scores[s, t]).sum()) + 1 for t in gold[s]) for s in sorted(gold)]
    result = evaluate_lexicon(x, y, PAIRS, by=by, n_sources=125)
    assert result.sources.tolist() == sorted(gold)
    assert result.ranks.tolist() == places
    assert (result.n, result.n_sources, result.coverage, result.by) == (100, 125, 0.8, by)
    assert result.mrr == pytest.approx(np.mean([1 / place for place in places]), abs=1e-15)
    for k in (1, 5, 10):
        hits = sum(place <= k for place in places)
        assert result.precision[k] == hits / 100
        assert result.precision_of_all[k] == hits / 125
        assert result.intervals[k] == wilson_interval(hits, 100)
        assert result.intervals_of_all[k] == wilson_interval(hits, 125)
    assert 0 < result.precision[1] < result.precision[5] < result.precision[10] < 1


def test_a_hit_is_what_the_neighbours_say(rng):
    x, y = spaces(rng)
    result = evaluate_lexicon(x, y, PAIRS)
    found, _ = adjusted_neighbours(x, y, 5, by="csls", rows=result.sources)
    hits = [
        bool(set(row.tolist()) & {t for s, t in PAIRS.tolist() if s == source})
        for source, row in zip(result.sources, found, strict=True)
    ]
    assert (result.ranks <= 5).tolist() == hits


def test_muse_reports_csls_at_1_5_10_and_vecmap_the_cosine_at_1(rng):
    x, y = spaces(rng)
    muse, vecmap = evaluate_lexicon(x, y, PAIRS), evaluate_lexicon(x, y, PAIRS, convention="vecmap")
    assert (muse.convention, muse.by, list(muse.precision)) == ("muse", "csls", [1, 5, 10])
    assert (vecmap.convention, vecmap.by, list(vecmap.precision)) == ("vecmap", "cosine", [1])
    same = evaluate_lexicon(x, y, PAIRS, convention="vecmap", by="csls", ks=(1, 5, 10))
    assert same.ranks.tolist() == muse.ranks.tolist()
    hot, cold = (
        evaluate_lexicon(x, y, PAIRS, convention=name, by="inverted_softmax")
        for name in ("muse", "vecmap")
    )
    assert (
        hot.ranks.tolist()
        == evaluate_lexicon(
            x, y, PAIRS, by="inverted_softmax", inverse_temperature=30
        ).ranks.tolist()
    )
    assert (
        cold.ranks.tolist()
        == evaluate_lexicon(
            x, y, PAIRS, by="inverted_softmax", inverse_temperature=1.0
        ).ranks.tolist()
    )


def test_both_conventions_bring_both_sides_to_length_one(rng):
    x, y = spaces(rng)
    scaled = x * rng.uniform(0.1, 9, size=(200, 1)), y * rng.uniform(0.1, 9, size=(180, 1))
    for convention in ("muse", "vecmap"):
        plain = evaluate_lexicon(x, y, PAIRS, convention=convention)
        assert (
            evaluate_lexicon(*scaled, PAIRS, convention=convention).ranks.tolist()
            == plain.ranks.tolist()
        )


def test_all_targets_compete_not_only_those_of_the_dictionary(rng):
    x, y = spaces(rng)
    y[170] = x[0]  # in no pair
    assert evaluate_lexicon(x, y, [(0, 0)], by="cosine").ranks.tolist() == [2]


def test_the_lower_index_wins_a_tie(rng):
    x, y = spaces(rng)
    y[3], y[90] = x[3], 2 * x[3]
    assert evaluate_lexicon(x, y, [(3, 3)], convention="vecmap").precision[1] == 1
    assert evaluate_lexicon(x, y, [(3, 90)], convention="vecmap").ranks.tolist() == [2]
    assert evaluate_lexicon(x, y, [(3, 90)]).ranks.tolist() == [2]
    assert evaluate_lexicon(x, y, [(3, 90), (3, 3)]).ranks.tolist() == [1]


def test_order_and_repetition_of_pairs_change_nothing(rng):
    x, y = spaces(rng)
    plain = evaluate_lexicon(x, y, PAIRS)
    other = evaluate_lexicon(x, y, np.concatenate([PAIRS, PAIRS])[rng.permutation(2 * len(PAIRS))])
    assert other.ranks.tolist() == plain.ranks.tolist()
    assert other.n_sources == plain.n_sources == 100


def test_more_places_than_words_are_left_out_of_a_convention_and_refused_when_asked_for(rng):
    x, y = spaces(rng)
    assert list(evaluate_lexicon(x, y[:7], [(0, 0)], neighbourhood=5).precision) == [1, 5]
    with pytest.raises(InputError, match=r"^ks: .*got 10"):
        evaluate_lexicon(x, y[:7], [(0, 0)], neighbourhood=5, ks=(1, 10))
    with pytest.raises(InputError, match=r"^neighbourhood: .*got 10"):
        evaluate_lexicon(x, y[:7], [(0, 0)])


def by_loop(x, y):
    scores = csls_by_hand(x, y)
    there, back = scores.argmax(axis=1), scores.argmax(axis=0)
    forward, backward = (
        {(i, int(j)) for i, j in enumerate(there)},
        {(int(i), j) for j, i in enumerate(back)},
    )
    return scores, forward, backward


@pytest.mark.parametrize("keep", ["mutual", "forward", "backward", "union"])
def test_an_induced_dictionary_has_the_best_pairs_with_their_scores(rng, keep):
    x, y = spaces(rng)
    scores, forward, backward = by_loop(x, y)
    expected = {
        "mutual": forward & backward,
        "forward": forward,
        "backward": backward,
        "union": forward | backward,
    }[keep]
    found = induced_dictionary(x, y, keep=keep)
    assert found.pairs.tolist() == [list(pair) for pair in sorted(expected)]
    assert np.allclose(found.scores, scores[tuple(found.pairs.T)], atol=1e-7)
    assert found.mutual.tolist() == [
        tuple(pair) in forward & backward for pair in found.pairs.tolist()
    ]


def test_mutual_neighbours_are_the_mutual_part_and_the_same_from_both_sides(rng):
    x, y = spaces(rng)
    pairs, scores = mutual_neighbours(x, y)
    assert pairs.tolist() == induced_dictionary(x, y).pairs.tolist()
    turned, again = mutual_neighbours(y, x)
    order = np.argsort(turned[:, 1])
    assert turned[order][:, ::-1].tolist() == pairs.tolist()
    assert np.array_equal(again[order], scores)
    assert 0 < len(pairs) < 180


def test_scores_of_inverted_softmax_are_those_of_the_direction_that_found_the_pair(rng):
    x, y = spaces(rng)
    indices, scores = adjusted_neighbours(x, y, by="inverted_softmax")
    found = induced_dictionary(x, y, keep="forward", by="inverted_softmax")
    assert found.pairs[:, 1].tolist() == indices[:, 0].tolist()
    assert np.allclose(found.scores[~found.mutual], scores[~found.mutual, 0], atol=1e-5)


def test_results_do_not_depend_on_being_asked_twice(rng):
    x, y = spaces(rng)
    before = x.copy(), y.copy(), PAIRS.copy()
    first, second = evaluate_lexicon(x, y, PAIRS), evaluate_lexicon(x, y, PAIRS)
    assert first.ranks.tolist() == second.ranks.tolist()
    for now, then in zip((x, y, PAIRS), before, strict=True):
        assert np.array_equal(now, then)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            [],
            ("^pairs: expected at least one pair"),
        ),
        (np.empty((0, 2), int), "^pairs: expected at least one pair"),
        (
            [(0, 200)],
            "^pairs: expected rows of y from 0 to 179",
        ),
        (
            [(0, 0), (-1, 0)],
            "^pairs: expected rows of x from 0 to 199",
        ),
        (
            [(0, 0, 0)],
            r"^pairs: expected whole numbers of shape \(p, 2\)",
        ),
        (
            [(0.0, 1.0)],
            (r"^pairs: expected whole numbers of shape \(p, 2\)"),
        ),
        (
            [("dog", "chien")],
            r"^pairs: expected whole numbers of shape \(p, 2\)",
        ),
    ],
)
def test_pairs_that_are_none_are_refused(rng, pairs, message):
    with pytest.raises(InputError, match=message):
        evaluate_lexicon(*spaces(rng), pairs)


def test_refusals_say_what_to_do(rng):
    x, y = spaces(rng)
    with pytest.raises(InputError, match=r"^n_sources: .*got 99"):
        evaluate_lexicon(x, y, PAIRS, n_sources=99)
    with pytest.raises(InputError, match=r"^y: .*got 11 columns"):
        evaluate_lexicon(x, y[:, 1:], PAIRS)
    with pytest.raises(InputError, match=r"^y: .*got 1 row\(s\)"):
        evaluate_lexicon(x, np.where(np.arange(180)[:, None] == 179, 0, y), PAIRS)
    unchecked = [
        getattr(function, "__wrapped__", function)
        for function in (evaluate_lexicon, induced_dictionary)
    ]
    with pytest.raises(InputError, match="^ks: expected a list of whole numbers, got 1"):
        unchecked[0](x, y, PAIRS, ks=1)
    with pytest.raises(InputError, match=r"^convention: .*got 'xling'"):
        unchecked[0](x, y, PAIRS, convention="xling")
    with pytest.raises(InputError, match=r"^keep: .*got 'all'"):
        unchecked[1](x, y, keep="all")
