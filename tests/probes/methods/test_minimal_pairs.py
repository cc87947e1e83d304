"""Minimal pairs: coverage, accuracy and macro-averages from toy scorers whose answers are known."""

import math
from typing import NamedTuple

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.probes.methods.minimal_pairs import (
    REASONS,
    PairScores,
    judge,
    score_sentences,
    score_words,
)
from crosslens.readers.minimal_pairs import MinimalPair
from crosslens.readers.words import whitespace_spans
from crosslens.stats import wilson_interval


class Toy(NamedTuple):
    ids: np.ndarray
    spans: np.ndarray
    unknown: np.ndarray


class Vocabulary:
    """A token for each word of a vocabulary; of other words one for each half, or an unknown one
    where they are capital letters."""

    def __init__(self, words):
        self.words, self.asked = {word: i + 10 for i, word in enumerate(words)}, []

    def tokenise(self, sentences):
        found = []
        for sentence in sentences:
            tokens = [(1, 0, 0, False)]  # a special token at either end
            for start, end in whitespace_spans(sentence):
                word, half = sentence[start:end], (start + end + 1) // 2
                if word in self.words or len(word) == 1:
                    tokens.append((self.words.get(word, 3), start, end, False))
                elif word.isupper():
                    tokens.append((0, start, end, True))
                else:
                    tokens += [(4, start, half, False), (5 + len(word), half, end, False)]
            tokens.append((2, 0, 0, False))
            ids, *spans, unknown = (np.array(column) for column in zip(*tokens, strict=True))
            found.append(Toy(ids, np.stack(spans, 1), unknown))
        return found

    def score(self, texts, places, candidates):
        """Lower ids are likelier."""
        self.asked += list(zip(texts, places, strict=True))
        return [-np.array(one, np.float32) for one in candidates]


def pair(good, bad, category="agreement"):
    return MinimalPair(good, bad, category, "0", "toy:1")


def test_the_words_that_differ_are_scored_in_the_same_place():
    toy = Vocabulary(["the", "cat", "sleeps", "sleep", "soundly"])
    found = score_words(
        [pair("the cat sleeps soundly", "the cat sleep soundly")], toy.tokenise, toy.score
    )
    assert (found.good.tolist(), found.bad.tolist(), found.reasons) == ([-12.0], [-13.0], ("",))
    [(ids, place)] = toy.asked
    assert (ids.tolist(), place) == ([1, 10, 11, 12, 14, 2], 3)


def test_every_reason_is_found():
    toy = Vocabulary(["a", "cat", "sleeps", "sleep"])
    pairs = [
        pair("a cat sleeps", "a cat sleep"),
        pair("a cat sleeps", "a cat cat sleep"),
        pair("a cat sleeps", "cat a sleep"),
        pair("a cat sleeps", "a  cat sleeps"),  # but for white space they are equal
        pair("a cat SLEEPS", "a cat SLEEP"),
        pair("a cat sleeps", "a cat SLEEP"),
        pair("a cat sleeps", "a cat dozing"),
        pair("a cat walking", "a cat walked"),
        pair("a cat sleeps", "a cat sleeps"),
    ]
    found = score_words(pairs, toy.tokenise, toy.score)
    equal, lengths, words, unknown, pieces, _, _ = REASONS
    expected = ["", lengths, words, words, unknown, unknown, pieces, pieces, equal]
    assert list(found.reasons) == expected
    assert np.array_equal(np.isnan(found.good), [bool(reason) for reason in expected])
    assert found.covered.tolist() == [not reason for reason in expected]
    assert len(toy.asked) == 1


def test_a_rest_with_other_pieces_is_not_covered():
    class Joined(Vocabulary):
        def tokenise(self, sentences):  # the pieces of "a" depend on what stands behind it
            return [
                one._replace(ids=np.where(one.ids == 10, one.ids[2] + 50, one.ids))
                for one in super().tokenise(sentences)
            ]

    toy = Joined(["a", "cat", "cats"])
    assert score_words([pair("a cat", "a cats")], toy.tokenise, toy.score).reasons == (
        "other subwords differ",
    )


def test_common_punctuation_is_no_part_of_the_words():
    toy = Vocabulary(["a"])
    asked = []

    def tokenise(sentences):
        found = []
        for sentence in sentences:
            spans = [
                (0, 1),
                (2, 3),
                (3, len(sentence) - 2),
                (len(sentence) - 2, len(sentence) - 1),
                (len(sentence) - 1, len(sentence)),
            ]
            found.append(
                Toy(np.array([5, 6, 20 + len(sentence), 7, 8]), np.array(spans), np.zeros(5, bool))
            )
        asked.extend(sentences)
        return found

    found = score_words([pair('a "Sue".', 'a "Anna".')], tokenise, toy.score)
    assert (found.reasons, found.good.tolist(), found.bad.tolist()) == (("",), [-28.0], [-29.0])
    assert asked == ['a "Sue".', 'a "Anna".']


def test_a_final_stop_is_put_behind_each_sentence_on_demand():
    toy = Vocabulary(["a", "b", "c", "."])
    score_words([pair("a b", "a c")], toy.tokenise, toy.score, final_stop=True)
    assert toy.asked[0][0].tolist() == [1, 10, 11, 13, 2]


def test_coverage_equals_an_independent_count_for_a_given_vocabulary():
    subjects, verbs = ["author", "pilot", "farmer"], ["laugh", "swim", "smile", "hurt"]
    pairs = [
        pair(f"the {one} {verb}s", f"the {one} {verb}", "simple")
        for one in subjects
        for verb in verbs
    ]
    pairs += [
        pair(
            f"the {one} that {verb}s a man {other}",
            f"the {one} that {verb} a man {other}",
            "within",
        )
        for one in subjects
        for verb in verbs
        for other in ("sleeps", "sings")
    ]
    words = sorted({word for one in pairs for word in (*one.good.split(), *one.bad.split())})
    for seed in (0, 1):
        kept = {word for word in words if len(word) == 1} | set(
            np.random.default_rng(seed).permutation(words)[: len(words) // 2].tolist()
        )
        toy = Vocabulary(sorted(kept))
        result = judge(pairs, score_words(pairs, toy.tokenise, toy.score))
        expected = dict.fromkeys([one.category for one in pairs], 0)
        for one in pairs:
            # no word is there twice
            expected[one.category] += set(one.good.split()) ^ set(one.bad.split()) <= kept
        assert {one.category: one.covered for one in result.categories} == expected
        assert sum(result.reasons.values()) == len(pairs) - sum(expected.values())
        assert 0 < sum(expected.values()) < len(pairs)


def test_blocks_make_no_difference(monkeypatch):
    pairs = [
        pair("a b", "a c"),
        pair("a b", "a B B"),
        pair("a b", "a C"),
        pair("a bbb", "a ccc"),
        pair("a c", "a b"),
    ] * 3
    pairs = [pair(one.good, one.bad) for one in pairs]
    toy = Vocabulary(["a", "b", "c"])
    whole = score_words(pairs, toy.tokenise, toy.score)
    monkeypatch.setattr("crosslens.probes.methods.minimal_pairs._BLOCK", 2)
    parts = score_words(pairs, toy.tokenise, toy.score)
    assert whole.reasons == parts.reasons
    assert np.array_equal(whole.good, parts.good, equal_nan=True)
    assert np.array_equal(whole.bad, parts.bad, equal_nan=True)


def test_equal_sentences_are_scored_once_and_those_without_a_score_are_not_covered():
    asked = []

    def score(sentences):
        asked.extend(sentences)
        return np.array([np.nan if "?" in one else -float(len(one)) for one in sentences])

    pairs = [pair("a", "bb"), pair("a", "ccc"), pair("?", "a"), pair("a", "a")]
    found = score_sentences(pairs, score)
    assert asked == ["a", "bb", "ccc", "?"]
    assert found.reasons == ("", "", "no score", "equal sentences")
    assert np.array_equal(found.good, [-1, -1, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(found.bad, [-2, -3, np.nan, np.nan], equal_nan=True)


def scores(good, bad, reasons=None):
    return PairScores(
        np.array(good, float), np.array(bad, float), tuple(reasons or [""] * len(good))
    )


def test_accuracy_counts_covered_pairs_and_a_tie_is_wrong():
    pairs = [pair("a", "b"), pair("a", "c"), pair("a", "d"), pair("a", "e")]
    result = judge(pairs, scores([2, 1, 1, np.nan], [1, 2, 1, np.nan], ["", "", "", "no score"]))
    [row] = result.categories
    assert (row.pairs, row.covered, row.ties) == (4, 3, 1)
    assert (row.accuracy.value, row.accuracy.n) == (1 / 3, 3)
    assert (row.accuracy.low, row.accuracy.high) == wilson_interval(1, 3)
    assert result.reasons == {"no score": 1}


def test_the_rule_of_bert_syntax_counts_words_outside_the_vocabulary_as_errors():
    pairs = [pair("a", letter) for letter in "bcdef"]
    found = scores([2, *[np.nan] * 4], [1, *[np.nan] * 4], ["", *REASONS[1:5]])
    paper, code = judge(pairs, found), judge(pairs, found, rule="bert-syntax")
    assert (paper.accuracy.value, paper.accuracy.n) == (1, 1)
    # the pairs with other numbers of words do not count there, either
    assert (code.accuracy.value, code.accuracy.n) == (1 / 3, 3)
    assert code.categories[0].covered == paper.categories[0].covered == 1


def test_macro_averages_weigh_categories_alike():
    pairs = [pair("a", "b", "one")] * 3 + [pair("a", "b", "two")] + [pair("a", "b", "three")]
    result = judge(
        pairs,
        scores([1, 1, 1, 0, 1], [0, 0, 0, 1, 0]),
        groups={"pair": ["one", "two"], "last": ["three"]},
    )
    assert result.macro["pair"].value == 0.5
    assert result.macro["last"].value == 1
    assert result.accuracy.value == 0.8
    assert judge(pairs, scores([1, 1, 1, 0, 1], [0, 0, 0, 1, 0])).macro[
        "all categories"
    ].value == pytest.approx(2 / 3)
    assert (result.macro["pair"].n, result.macro["last"].n) == (4, 1)  # of its own categories only
    assert result.macro["pair"].categories == ("one", "two")


def test_the_interval_of_a_macro_average_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    sizes, shares = np.array([30, 400, 90]), np.array([0.9, 0.55, 0.7])
    pairs = [
        pair("a", "b", name) for name, size in zip("xyz", sizes, strict=True) for _ in range(size)
    ]
    inside = 0
    for _ in range(400):
        right = rng.random(len(pairs)) < np.repeat(shares, sizes)
        macro = judge(pairs, scores(right.astype(float), [0.5] * len(pairs))).macro[
            "all categories"
        ]
        inside += macro.low <= shares.mean() <= macro.high
    assert 0.92 <= inside / 400 <= 0.98


def test_of_a_single_category_the_macro_average_has_its_interval():
    pairs = [pair("a", "b", "one")] * 9
    macro = judge(pairs, scores([1] * 7 + [0] * 2, [0.5] * 9)).macro["all categories"]
    assert (macro.low, macro.high) == pytest.approx(wilson_interval(7, 9))


def test_a_category_without_covered_pairs_makes_its_macro_average_nan():
    pairs = [pair("a", "b", "one"), pair("a", "b", "two")]
    result = judge(
        pairs,
        scores([1, np.nan], [0, np.nan], ["", "not one subword each"]),
        groups={"both": ["one", "two"], "all": ["one", "none"]},
    )
    assert math.isnan(result.macro["both"].value)
    assert result.macro["both"].without == ("two",)
    assert math.isnan(result.macro["all"].value)
    assert result.categories[1].accuracy is None
    rows = result.table()
    assert rows[0] == ("category", "pairs", "covered", "per cent", "accuracy", "low", "high")
    assert rows[1][:5] == ("one", "1", "1", "100.0", "100.0")
    assert rows[2] == ("two", "1", "0", "0.0", "-", "-", "-")
    assert rows[3] == ("both (macro-average of 2)", "", "", "", "-", "-", "-")
    assert rows[-1][:2] == ("not covered: not one subword each", "1")


def test_a_monotone_change_of_scores_changes_nothing_and_another_sign_reverses_it():
    rng = np.random.default_rng(0)
    pairs = [pair("a", "b", str(i % 3)) for i in range(50)]
    good, bad = rng.normal(size=(2, 50))
    before = judge(pairs, scores(good, bad))
    assert judge(pairs, scores(np.exp(good), np.exp(bad))) == before
    assert judge(pairs, scores(-good, -bad)).accuracy.value == pytest.approx(
        1 - before.accuracy.value
    )
    order = rng.permutation(50)
    other = judge([pairs[i] for i in order], scores(good[order], bad[order]))
    assert {row.category: row for row in other.categories} == {
        row.category: row for row in before.categories
    }


def test_refusals():
    pairs = [pair("a", "b")]
    with pytest.raises(InputError, match=r"pairs: .*got none"):
        score_sentences([], lambda sentences: np.zeros(0))
    with pytest.raises(InputError, match=r"score: .*got shape \(1,\)"):
        score_sentences(pairs, lambda sentences: np.zeros(1))
    with pytest.raises(InputError, match=r"rule: .*got 'code'"):
        judge(pairs, scores([1], [0]), rule="code")
    with pytest.raises(InputError, match=r"scores: .*got 2, 2 and"):
        judge(pairs, scores([1, 1], [0, 0]))
