"""Code-switching: its limits, its weights, and what it leaves alone."""

import math
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslens.derive.codeswitch import CodeSwitch, translations_of
from crosslens.errors import InputError

WORDS = "abcdefgh"
UPPER = {word: {word.upper(): 1.0} for word in WORDS}


@settings(max_examples=200, deadline=None)
@given(
    sentences=st.lists(st.lists(st.sampled_from(WORDS + "xyz"), max_size=9), max_size=9),
    rate=st.floats(0, 1),
    most=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_no_batch_exceeds_its_limit_and_only_known_words_change(sentences, rate, most, seed):
    found = CodeSwitch(UPPER, rate=rate, most=most)(sentences, np.random.default_rng(seed))
    words = sum(map(len, sentences))
    assert len(found.places) <= most * words + 1e-9
    assert (found.words, found.known) == (
        words,
        sum(word in UPPER for sentence in sentences for word in sentence),
    )
    for i, sentence in enumerate(sentences):
        expected = [w.upper() if (i, j) in found.places else w for j, w in enumerate(sentence)]
        assert found.sentences[i] == expected
        assert all(sentence[j] in UPPER for k, j in found.places if k == i)
    assert found.places == sorted(set(found.places))


def test_a_known_word_is_replaced_at_the_rate_where_the_limit_allows_it():
    switch = CodeSwitch(UPPER, rate=0.3, most=1.0)
    found = switch([list(WORDS) + ["x", "y"]] * 5000, np.random.default_rng(0))
    assert found.known == 40_000
    # four standard deviations
    assert abs(found.of_known - 0.3) < 4 * math.sqrt(0.3 * 0.7 / 40_000)


def test_the_limit_is_reached_to_the_word_and_every_place_is_as_likely():
    switch, places = CodeSwitch(UPPER, rate=1.0, most=0.15), Counter()
    batch = [list(WORDS) + ["x", "y"], list(WORDS) + ["x", "y"]]
    for seed in range(2000):
        found = switch(batch, np.random.default_rng(seed))
        assert len(found.places) == 3  # floor(.15 * 20), exactly 3 in whole numbers
        places.update(found.places)
    share = np.array([places[place] for place in sorted(places)]) / 2000
    assert len(places) == 16 and np.abs(share - 3 / 16).max() < 4.5 * math.sqrt(3 / 16 / 2000)


def test_a_share_that_is_a_whole_number_of_words_is_reached_whatever_it_is_rounded_to():
    assert 0.29 * 100 < 29
    found = CodeSwitch(UPPER, rate=1.0, most=0.29)([["a"] * 100], np.random.default_rng(0))
    assert len(found.places) == 29


def test_translations_come_in_proportion_to_their_weights():
    pairs = [("a", "x"), ("a", "y"), ("a", "z"), ("a", "x"), ("b", "q")]
    told = translations_of(pairs, [1, 2, 5, 2, 0.1])
    assert told == {"a": {"x": 0.3, "y": 0.2, "z": 0.5}, "b": {"q": 1.0}}
    found = CodeSwitch(told, rate=1.0, most=1.0)([["a"] * 20_000], np.random.default_rng(0))
    counts = Counter(found.sentences[0])
    for word, p in told["a"].items():
        assert abs(counts[word] / 20_000 - p) < 4 * math.sqrt(p * (1 - p) / 20_000)
    even = translations_of(pairs[:3])
    assert even["a"] == {word: pytest.approx(1 / 3) for word in "xyz"}


def test_weights_of_a_word_with_many_translations_take_a_time_that_grows_as_their_number():
    began = time.process_time()
    found = translations_of([("set", str(number)) for number in range(20_000)])
    assert time.process_time() - began < 1
    assert found["set"]["7"] == 1 / 20_000


def test_the_same_generator_gives_the_same_batch_and_another_one_another():
    switch, batch = CodeSwitch(UPPER, rate=0.3, most=0.3), [list(WORDS)] * 9
    one, again, other = (switch(batch, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one == again and one != other
    assert batch == [list(WORDS)] * 9


def test_nothing_known_is_nothing_replaced():
    found = CodeSwitch(UPPER)([["x"], []], np.random.default_rng(0))
    assert (found.places, found.of_known, found.of_words) == ([], 0.0, 0.0)
    assert CodeSwitch(UPPER)([], np.random.default_rng(0)).of_words == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CodeSwitch(UPPER, rate=1.5), r"rate: expected a share from 0 to 1, got 1\.5"),
        (lambda: CodeSwitch(UPPER, rate="0.3"), r"rate: expected a share from 0 to 1, got '0\.3'"),
        (lambda: CodeSwitch(UPPER, most=math.nan), "most: expected a share from 0 to 1, got nan"),
        (lambda: CodeSwitch({}), "translations: expected at least one word, got none"),
        (lambda: CodeSwitch({"dog": {}}), "translations of 'dog' that sum to 1, got {}"),
        (
            lambda: CodeSwitch({"dog": {"a": 3.0, "b": 1.0}}),
            r"sum to 1, got {'a': 3\.0, 'b': 1\.0}",
        ),
        (
            lambda: CodeSwitch({"dog": {"a": 1.5, "b": -0.5}}),
            "sum to 1, got .*; .* translations_of",
        ),
        (lambda: CodeSwitch({"dog": {"a": math.nan}}), "sum to 1, got {'a': nan}"),
        (
            lambda: translations_of([("a", "b")], [0.0]),
            r"weights\[0\]: expected a number above 0, got 0\.0",
        ),
        (lambda: translations_of([("a", "b")], [math.nan]), r"weights\[0\]: .* got nan"),
        (lambda: translations_of([("a", "b")], [math.inf]), r"weights\[0\]: .* got inf"),
        (lambda: translations_of([("a", "b")], []), "weights: expected one for each of 1 pairs"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
