"""Words of two stores, layer by layer: which rows translate each other, and what a rotation makes
of it."""

import numpy as np
import pytest
from tests_run_helpers import D, N, context_stores, word_store

from crosslens.alignment.normalisation import IterativeNormalisation
from crosslens.alignment.words.argmax import align_argmax
from crosslens.alignment.words.lexicon import evaluate_lexicon
from crosslens.alignment.words.links import alignment_error_interval, alignment_error_rate
from crosslens.errors import InputError
from crosslens.readers.dictionary import Dictionary
from crosslens.run.measures import make_split
from crosslens.run.word_alignment import (
    gold_of_dictionaries,
    gold_of_links,
    split_dictionary,
    word_scores,
)
from crosslens.stats import cluster_sums, share_interval

COMMON = {"encoder": "made", "seed": 0}


@pytest.fixture
def turned(tmp_path):
    """Two stores of types: layer 0 of the second is unrelated to the first's, layer 1 is turned;
    word x7 translates y7."""
    rng = np.random.default_rng(0)
    x, turn = rng.normal(size=(2, N, D)), np.linalg.qr(rng.normal(size=(D, D)))[0]
    first = word_store(
        tmp_path / "x", "eng", list(x), {"word": [f"x{i}" for i in range(N)]}, "type"
    )
    layers = [rng.normal(size=(N, D)), 3 * x[1] @ turn]
    return first, word_store(
        tmp_path / "y", "fra", layers, {"word": [f"y{i}" for i in range(N)]}, "type"
    )


def lexicon(rows):
    return Dictionary([(f"x{i}", f"y{i}") for i in rows])


def test_a_turned_layer_is_found_by_its_rotation_and_an_unrelated_one_is_not(turned):
    gold = gold_of_dictionaries(*turned, lexicon(range(30)), lexicon(range(30, 60)))
    scores = {(s.layer, s.condition, s.quantity): s for s in word_scores(*turned, gold, COMMON)}
    assert scores[1, "procrustes", "precision_at_1"].value == 1
    assert scores[1, "procrustes", "mrr"].value == 1
    assert scores[1, "unaligned", "precision_at_1"].value < 0.3
    assert scores[0, "procrustes", "precision_at_1"].value < 0.3
    one = scores[0, "procrustes", "precision_at_10"]
    assert (one.n, one.source, one.target, one.task) == (30, "eng", "fra", "word_translation")
    assert one.details == {
        "candidates": N,
        "by": "csls",
        "fitted_on": 30,
        "dimensions": 8,
        "normalisation": "iterative",
        "chance": 10 / N,
        "coverage": 1.0,
        "sources": 30,
        "value_of_all": one.value,
    }
    assert len(scores) == 2 * 2 * 4


def test_the_numbers_are_those_of_the_steps_taken_one_by_one(turned):
    train, test = [(i, i) for i in range(20)], [(i, i) for i in range(20, 60)]
    gold = gold_of_dictionaries(*turned, lexicon(range(20)), lexicon(range(20, 60)))
    x, y = (IterativeNormalisation().fit_transform(np.array(store.layer(0))) for store in turned)
    left, _, right = np.linalg.svd(x[[i for i, _ in train]].T @ y[[j for _, j in train]])
    expected = evaluate_lexicon(x @ (left @ right), y, test)
    scores = {
        s.quantity: s
        for s in word_scores(*turned, gold, COMMON)
        if (s.layer, s.condition) == (0, "procrustes")
    }
    assert [scores[f"precision_at_{k}"].value for k in (1, 5, 10)] == [
        expected.precision[k] for k in (1, 5, 10)
    ]
    assert (scores["precision_at_5"].low, scores["precision_at_5"].high) == expected.intervals[5]
    assert scores["mrr"].value == expected.mrr


def test_a_dictionary_s_missing_words_are_told_and_left_out(turned):
    test = Dictionary([*lexicon(range(30, 40)), ("nowhere", "y1"), ("x41", "nulle part")])
    gold = gold_of_dictionaries(*turned, lexicon(range(30)), test)
    score = next(
        s for s in word_scores(*turned, gold, COMMON) if (s.layer, s.condition) == (1, "procrustes")
    )
    assert (score.n, score.details["sources"], score.details["coverage"]) == (
        10,
        12,
        round(10 / 12, 4),
    )
    assert score.details["value_of_all"] == pytest.approx(score.value * 10 / 12)


def test_words_without_a_vector_do_not_compete(tmp_path, turned):
    layers = [np.array(turned[1].layer(0)), np.array(turned[1].layer(1))]
    for layer in layers:
        layer[[3, 50]] = np.nan
    y = word_store(tmp_path / "holes", "fra", layers, {"word": [f"y{i}" for i in range(N)]}, "type")
    gold = gold_of_dictionaries(turned[0], y, lexicon(range(30)), lexicon(range(30, 60)))
    assert (len(gold.train), len(gold.test), len(gold.x), len(gold.y)) == (29, 29, N, N - 2)
    scores = {
        (s.layer, s.condition): s
        for s in word_scores(turned[0], y, gold, COMMON)
        if s.quantity == "precision_at_1"
    }
    assert scores[1, "procrustes"].value == 1
    assert scores[1, "procrustes"].details["coverage"] == round(29 / 30, 4)


def test_a_dictionary_is_split_by_source_word():
    dictionary = Dictionary([(f"x{i}", f"y{i}{j}") for i in range(40) for j in range(1 + i % 3)])
    train, test = split_dictionary(dictionary, 0.25, seed=3)
    assert {source for source, _ in train}.isdisjoint({source for source, _ in test})
    assert len({source for source, _ in train}) == 10
    assert sorted([*train, *test]) == sorted(dictionary)
    assert (
        split_dictionary(dictionary, 0.25, seed=3)
        == (train, test)
        != split_dictionary(dictionary, 0.25, seed=4)
    )


def test_linked_words_are_found_in_both_directions(tmp_path):
    x, y, links = context_stores(tmp_path)
    split = make_split(40, 0.5, seed=0)
    gold = gold_of_links(x, y, links, split)
    assert (len(gold.train), len(gold.test), len(gold.x), len(gold.y)) == (80, 80, 80, 80)
    scores = [s for s in word_scores(x, y, gold, COMMON) if s.quantity == "precision_at_1"]
    found = {(s.condition, s.source, s.target): s.value for s in scores}
    assert found["procrustes", "eng", "rus"] == found["procrustes", "rus", "eng"] == 1
    assert found["unaligned", "eng", "rus"] < 0.3 > found["unaligned", "rus", "eng"]
    assert all(
        "coverage" not in s.details and s.task == "contextual_word_retrieval" for s in scores
    )


def test_intervals_of_words_in_context_are_those_of_sentences(tmp_path):
    x, y, links = context_stores(tmp_path)
    index = {name: y.index([name])[name] for name in ("text", "position")}
    text, rows_x = np.array(index["text"]), np.array(x.layer(0))
    # the words of every second sentence are found, all of them, and of the others none or few
    rows_y = rows_x[np.arange(160).reshape(40, 4)[:, ::-1].ravel()]
    rows_y[text % 2 == 1] = np.random.default_rng(2).normal(size=(80, D))
    half = word_store(tmp_path / "half", "rus", [rows_y], index, "word")
    split = make_split(40, 0.5, seed=0)
    scores = word_scores(x, half, gold_of_links(x, half, links, split), COMMON)
    held = np.flatnonzero(np.isin(text, split.held_out))
    pairs = [(i, i + 3 - 2 * (i % 4)) for i in range(80)]
    result = evaluate_lexicon(rows_x[held], rows_y[held], pairs)
    for k in (1, 5):
        score = next(s for s in scores if s.quantity == f"precision_at_{k}")
        assert (score.condition, score.source, score.n) == ("unaligned", "eng", 80)
        assert score.details["groups"] == 20  # sentences
        found = cluster_sums(result.ranks <= k, text[held])
        assert (score.value, score.low, score.high) == share_interval(*found)
        # they are twice as wide as those of as many independent words
        low, high = result.intervals[k]
        assert score.high - score.low > 1.4 * (high - low)


def test_links_of_held_out_sentences_are_not_learnt_from(tmp_path):
    x, y, links = context_stores(tmp_path)
    split = make_split(40, 0.5, seed=0)
    wrong = links.copy()
    held = np.isin(wrong[:, 0], split.held_out)
    # nonsense: what was learnt must be the same rotation, and find nothing of it
    wrong[held, 2] = wrong[held, 1]
    scores = {
        s.condition: s
        for s in word_scores(x, y, gold_of_links(x, y, wrong, split), COMMON)
        if s.quantity == "precision_at_1"
    }
    assert scores["procrustes"].value < 0.3


def test_links_that_the_vectors_make_are_judged_by_those_of_held_out_sentences(tmp_path):
    x, y, links = context_stores(tmp_path)
    split = make_split(40, 0.5, seed=0)
    scores = {
        s.condition: s
        for s in word_scores(x, y, gold_of_links(x, y, links, split), COMMON)
        if s.quantity == "alignment_error_rate"
    }
    first, turned = scores["unaligned"], scores["procrustes"]
    assert (turned.value, turned.low, turned.n) == (0, 0, 20) and 0.1 < turned.high < 0.2
    assert turned.details == {
        "by": "argmax",
        "fitted_on": 80,
        "normalisation": "iterative",
        "precision": 1,
        "recall": 1,
        "links": 80,
        "sure": 80,
        "possible": 80,
    }
    held = np.isin(links[:, 0], split.held_out)
    made = [
        row
        for row in align_argmax(x.layer(0), y.layer(0), range(0, 161, 4), range(0, 161, 4)).tolist()
        if row[0] in split.held_out
    ]
    assert first.value == alignment_error_rate(made, links[held]).error_rate > 0.3
    assert (first.low, first.high) == alignment_error_interval(made, links[held])
    assert (first.task, first.source, first.target, first.n) == ("word_alignment", "eng", "rus", 20)


def test_possible_links_are_no_mistakes_and_words_without_a_vector_are_missed(tmp_path):
    x, y, links = context_stores(tmp_path)
    split = make_split(40, 0.5, seed=0)
    odd = links[:, 1] % 2 == 1
    gold = gold_of_links(x, y, links[odd], split, possible=links)
    score = word_scores(x, y, gold, COMMON)[-1]
    assert (score.condition, score.value, score.details["recall"], score.details["precision"]) == (
        "procrustes",
        0,
        1,
        1,
    )
    strict = word_scores(x, y, gold_of_links(x, y, links[odd], split), COMMON)[-1]
    assert strict.value == pytest.approx(1 / 3) and strict.details["precision"] == 0.5
    # the first word of every sentence of y has no vector: a quarter of the links cannot be found,
    # and those found keep their words
    layer = np.array(y.layer(0))
    layer[::4] = np.nan
    index = {name: y.index([name])[name] for name in ("text", "position")}
    holes = word_store(tmp_path / "holes", "rus", [layer], index, "word")
    missed = word_scores(x, holes, gold_of_links(x, holes, links, split), COMMON)[-1]
    assert missed.details["recall"] == 0.75 and missed.details["precision"] >= 0.75


def test_what_does_not_fit_is_refused(tmp_path, turned):
    x, y, links = context_stores(tmp_path)
    split = make_split(40, 0.5, seed=0)
    with pytest.raises(InputError, match="x: expected activations of words, for links"):
        gold_of_links(*turned, links, split)
    with pytest.raises(InputError, match="cx: expected activations of word types"):
        gold_of_dictionaries(x, y, lexicon([1]), lexicon([2]))
    with pytest.raises(InputError, match=r"test: .*got 2 source words"):
        gold_of_dictionaries(*turned, lexicon([1, 2, 3]), lexicon([1, 2, 5]))
    with pytest.raises(InputError, match=r"links: .*got word 4 where"):
        gold_of_links(x, y, np.array([[0, 0, 4]]), split)
    with pytest.raises(InputError, match=r"dictionary: .*got 0 and 1"):
        split_dictionary(lexicon([1]), 0.5, seed=0)
    gold = gold_of_links(x, y, links[np.isin(links[:, 0], split.train)], split)
    with pytest.raises(InputError, match=r"test: .*got none"):
        word_scores(x, y, gold, COMMON)
    short = word_store(
        tmp_path / "short", "fra", [np.ones((N, D))], {"word": [f"y{i}" for i in range(N)]}, "type"
    )
    gold = gold_of_dictionaries(turned[0], short, lexicon(range(5)), lexicon(range(5, 9)))
    with pytest.raises(InputError, match=r"stores: .*got layers \[0"):
        word_scores(turned[0], short, gold, COMMON)
