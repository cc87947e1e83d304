"""Tags, trees and spans after a transformation, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslens.derive.labels import (
    derived_entities,
    derived_heads,
    derived_span,
    derived_tags,
    entities,
)
from crosslens.derive.passages import derived_answer
from crosslens.derive.registry import transformation
from crosslens.derive.transformation import Derived, Sentence
from crosslens.errors import InputError
from crosslens.trees import crossing_edges

QUICK = settings(max_examples=20, deadline=None, derandomize=True)


def refusal(function, *arguments, **options) -> str:
    with pytest.raises(InputError) as refused:
        function(*arguments, **options)
    return str(refused.value)


@st.composite
def trees(draw):
    n = draw(st.integers(1, 12))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for place, word in enumerate(order[1:], 1):
        heads[word - 1] = order[draw(st.integers(0, place - 1))]
    return heads


def crossing(heads):
    """Words whose edge crosses another one, by all pairs: an independent count of whether any."""
    edges = [(min(d, h), max(d, h)) for d, h in enumerate(heads, 1) if h]
    root = heads.index(0) + 1
    over_root = any(a < root < b for a, b in edges)
    return over_root or any(a < c < b < d for a, b in edges for c, d in edges)


@QUICK
@given(
    heads=trees(),
    seed=st.integers(0, 50),
    name=st.sampled_from(["inversion", "permutation", "even-odd"]),
)
def test_a_derived_tree_joins_the_same_words(heads, seed, name):
    words = [f"w{i}" for i in range(len(heads))]
    derived = transformation(name).derive(Sentence(words), seed, 0)
    above = derived_heads(derived, heads)

    def edges(words, heads):
        return {
            (word, words[head - 1] if head else None)
            for word, head in zip(words, heads, strict=True)
        }

    assert edges(derived.tokens, above) == edges(words, heads)
    assert (crossing_edges(heads) > 0) == crossing(heads)
    if name == "inversion":
        assert crossing_edges(above) == crossing_edges(heads)


@QUICK
@given(
    kinds=st.lists(
        st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]), min_size=1, max_size=15
    ),
    seed=st.integers(0, 50),
    name=st.sampled_from(["inversion", "permutation", "local-shuffle:3", "full-reversal"]),
)
def test_names_stay_whole_or_become_several_and_no_token_loses_its_type(kinds, seed, name):
    tags = list[str]()
    for tag in kinds:
        continues = tag[0] == "I" and tags and tags[-1][1:] == tag[1:]
        tags.append(tag if tag[0] != "I" or continues else "B" + tag[1:])
    derived = transformation(name).derive(Sentence([*map(str, range(len(tags)))]), seed, 0)
    made = derived_entities(derived, tags)
    for source, tag in zip(derived.sources, made, strict=True):
        assert tag[1:] == ("" if source < 0 else tags[source][1:])
    found = entities(made)  # they are IOB2
    if name == "inversion":
        n = len(tags)
        assert sorted(found) == sorted(
            (n - end, n - start, kind) for start, end, kind in entities(tags)
        )
    raw = derived_tags(derived, tags)
    assert [t for s, t in zip(derived.sources, raw, strict=True) if s >= 0] == [
        tags[s] for s in derived.sources if s >= 0
    ]


def test_a_name_that_is_torn_apart_and_two_that_come_to_touch():
    assert derived_entities(Derived("acb", [0, 2, 1]), ["B-PER", "I-PER", "O"]) == [
        "B-PER",
        "O",
        "B-PER",
    ]
    touching = derived_entities(Derived("acb", [0, 2, 1]), ["B-PER", "O", "B-PER"])
    assert touching == ["B-PER", "B-PER", "O"]
    two = derived_entities(Derived(["x", "y", "b"], [0, 0, 1]), ["B-PER", "O"])
    assert two == ["B-PER", "I-PER", "O"], "a translation of two words is one name"


def test_what_would_break_is_refused():
    assert "a:3: expected the same words in some order" in refusal(
        derived_heads, Derived("aba", [0, 1, 0]), [0, 1], "a:3"
    )
    assert "one root (head 0) in sentence a:3, got 2" in refusal(
        derived_heads, Derived("ab", [1, 0]), [0, 0], "a:3"
    )
    assert "a tree in sentence a:3, got a circle" in refusal(
        derived_heads, Derived("abc", [2, 1, 0]), [2, 1, 0], "a:3"
    )
    told = refusal(derived_span, Derived("acb", [0, 2, 1]), 0, 1, "question 'q'")
    assert told.startswith("question 'q': expected the 2 tokens of the answer side by side, got")
    assert "tokens that are not there" in refusal(derived_span, Derived("ac", [0, 2]), 0, 1)
    assert "got 2 and 1" in refusal(derived_span, Derived("ac", [0, 2]), 2, 1)
    assert "nothing from token 1, whose label would be lost" in refusal(
        derived_tags, Derived("a", [0]), ["X", "Y"]
    )
    assert "sources below 1" in refusal(derived_tags, Derived("b", [1]), ["X"])
    assert (
        "x:1: expected B-TYPE, O, or an I- that continues a name, as tag 2, got 'I-LOC'"
        in refusal(derived_entities, Derived("ab", [1, 0]), ["B-PER", "I-LOC"], "x:1")
    )
    assert "characters 3 to 4 without one" in refusal(
        derived_answer, (3, 4), [(0, 3)], [(0, 3)], [0]
    )


def test_an_answer_keeps_part_of_a_word_where_it_can_and_grows_where_not():
    words = [(0, 9), (10, 13)]  # mid-1990s oil
    assert derived_answer((4, 9), words, [(0, 3), (4, 13)], [1, 0]) == (8, 13)
    assert derived_answer((4, 13), words, words, [0, 1]) == (4, 13)
    assert derived_answer((0, 3), words, words, [0, 1]) == (0, 3)
    assert derived_answer((4, 11), words, words, [0, 1]) == (4, 11)
    assert derived_answer((4, 13), words, [(0, 3), (4, 13)], [1, 0]) == (0, 13)
    assert derived_answer((4, 9), words, [(0, 5), (6, 9)], [0, 1]) == (0, 5), "the word is another"


def test_sentences_without_what_is_needed():
    how = transformation("token-hop")
    assert (
        "x:2: expected feats and lemma of each word, which token-hop needs, got words alone; give a"
        in (refusal(how.derive, Sentence(["a"], place="x:2"), 0, 0))
    )
    greek = transformation("transliteration:greek")
    assert "x:2: expected words, which transliteration:greek needs, got 7" in (
        refusal(greek.derive, Sentence([7], place="x:2"), 0, 0)
    )
    assert "sentence: expected 2 values of 'upos', one per token, got 1" in (
        refusal(Sentence, ["a", "b"], {"upos": ["X"]})
    )
    assert "2 sources, one per token, got 1" in refusal(Derived, ["a", "b"], [0])
    full = transformation("full-reversal")
    assert "the marker 🅁 as token" in refusal(full.undo, [*"abc"], 0, 0)
    assert "undo: expected the marker 🅁 among the tokens, got none" in refusal(full.undo, [], 0, 0)
    for marker in ("a b", "a\nb", "a\tb"):  # it would be two words, or end its line
        told = refusal(transformation, f"partial-reversal:{marker}")
        assert "marker: expected a token without white space" in told and repr(marker) in told
    for name in ("permutation", "limited-permutation", "deterministic-shuffle", "full-reversal"):
        how = transformation(name)
        assert "seed: expected a whole" in refusal(how.derive, Sentence([*"abc"]), -1, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("inverzion", "got 'inverzion'; did you mean inversion?"),
        ("localshuffle", "did you mean local-shuffle?"),
        ("xyz", "choose among identity, inversion"),
        ("local-shuffle:1", "window: expected 2 tokens or more, got 1"),
        ("local-shuffle:x", "setting: expected a whole number, got 'x'"),
        ("permutation:daily", "setting: expected epoch, or none, got 'daily'"),
        ("even-odd:3", "expected even-odd without a setting"),
        ("transliteration:klingon", "expected one of latin, cyrillic, greek"),
        ("transliteration:latin", "expected two scripts, got latin twice"),
        ("transliteration:greek+transliteration:armenian", "words changed in one way"),
        ("word-hop+transliteration", "apply word-hop first: write it last"),
        ("word-hop+full-reversal", "the words that word-hop knows something of"),
        ("inversion+", "got ''"),
    ],
)
def test_names_and_compositions_that_are_none(text, told):
    assert told in refusal(transformation, text)


def crossing_by_definition(heads):
    """Each word between a word and its head is a descendant of that head, or the edge crosses."""
    above, crossing = [0, *heads], 0
    for word in range(1, len(above)):
        head, found = above[word], False
        for ancestor in range(min(word, head) + 1, max(word, head)) if head else ():
            while ancestor not in (0, head):
                ancestor = above[ancestor]
            found |= ancestor != head
        crossing += found
    return crossing


def test_edges_that_cross_are_counted_by_their_definition_in_one_pass():
    rng = np.random.default_rng(0)
    for _ in range(400):
        n = int(rng.integers(1, 25))
        order, heads = rng.permutation(n), [0] * n
        if rng.integers(2):  # mostly few edges that cross
            order = np.arange(n)
        for i in range(1, n):
            first = max(0, i - int(rng.integers(1, 4)))
            heads[order[i]] = int(order[rng.integers(first, i)]) + 1
        assert crossing_edges(heads) == crossing_by_definition(heads)
    chain = [*range(20_000)]  # by the definition this would take hours
    assert crossing_edges(chain) == 0 and crossing_edges([2, 0, *range(2, 20_000)]) == 0
