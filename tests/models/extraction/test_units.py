"""Items and their pieces: against loops over single texts, and the tokenisers' own word numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_extraction import Plain
from toy_models import HARD, KINDS
from transformers import AutoTokenizer

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.models.extraction import units
from crosslens.models.extraction.units import Reading, locate
from crosslens.models.saved.loading import load_encoder
from crosslens.readers.words import split_words, whitespace_spans

ODD = [
    *HARD,
    "▁ lone ▁▁ markers▁in words",
    "zero\u200bwidth \u200b \u200d joiners",
    "half ½ ﬁne ﷺ ①",
    "النص العربي هنا",
    "यह एक परीक्षण है",
    "ประโยค ภาษาไทย",
    "no\u00a0break and\u3000wide　spaces",
    "[CLS] the cat </s> <s> [SEP]",
]


def corpus(sentences=ODD, words=None):
    return Corpus(
        "und", sentences, [f"s{i}" for i in range(len(sentences))], "odd.txt", words=words
    )


def pieces_of(found):
    """For each item the token ids of its pieces."""
    return [
        found.ids[found.entry_token[found.entry_item == item]].tolist()
        for item in range(found.items)
    ]


@pytest.fixture(params=[*KINDS, "ours"])
def encoder(originals, request):
    return load_encoder(str(originals[request.param]))


def test_words_have_the_pieces_that_cover_them(encoder):
    """The reference: for every word a loop over all pieces of its sentence."""
    text = split_words(corpus())
    found = locate(encoder, text, range(len(ODD)), Reading("word"))
    plain = Plain(encoder.model.name_or_path, encoder.max_length)
    expected = [
        count for sentence in ODD for count in plain.words(sentence, whitespace_spans(sentence))[1]
    ]
    assert found.pieces.tolist() == expected and sum(expected) > 200
    assert found.columns["word"] == [word for sentence in ODD for word in sentence.split()]
    places = zip(
        found.columns["text"],
        found.columns["start"],
        found.columns["end"],
        found.columns["word"],
        strict=True,
    )
    assert all(ODD[row][start:end] == word for row, start, end, word in places)


def test_words_between_single_spaces_are_the_words_of_the_tokeniser(encoder):
    """word_ids() of a text given as a list of words says the same, where a tokeniser writes a space
    before every word."""
    tokenizer = AutoTokenizer.from_pretrained(encoder.model.name_or_path, add_prefix_space=True)
    sentence = "the cat sat on the mat and ran"
    found = locate(encoder, corpus([sentence]), range(1), Reading("word"))
    words = tokenizer(sentence.split(), is_split_into_words=True).word_ids()
    counts = [words.count(number) for number in range(len(sentence.split()))]
    lone = Plain(encoder.model.name_or_path, encoder.max_length).lone
    real = [sum(1 for token in pieces if token not in lone) for pieces in pieces_of(found)]
    assert [len(pieces) for pieces in pieces_of(found)] == found.pieces.tolist() == real
    # the two write "▁the" as two pieces, or one
    assert encoder.model.config.model_type in ("roberta", "xlm-roberta") or counts == real
    assert sum(counts) >= sum(real)


def test_a_marker_of_a_space_is_a_piece_only_where_there_is_no_other(originals):
    encoder = load_encoder(str(originals["xlm-roberta"]))
    found = locate(encoder, corpus(["x 猫 ▁ the"]), range(1), Reading("word"))
    marker = encoder.tokenizer.convert_tokens_to_ids("▁")
    assert [marker in pieces for pieces in pieces_of(found)] == [
        False,
        False,
        True,
        False,
    ] and found.pieces.min() == 1


def test_a_piece_that_covers_two_words_belongs_to_both(originals):
    encoder = load_encoder(str(originals["bert"]))
    whole = locate(encoder, corpus(["the mat"]), range(1), Reading("word"))
    halves = corpus(["the mat"], words=[[(0, 1), (1, 3), (4, 7)]])
    found = locate(encoder, halves, range(1), Reading("word"))
    if whole.pieces[0] == 1:
        assert pieces_of(found)[0] == pieces_of(found)[1] == pieces_of(whole)[0]
    assert pieces_of(found)[2] == pieces_of(whole)[1]


def test_words_of_a_multiword_token_share_its_pieces(originals):
    encoder = load_encoder(str(originals["bert"]))
    shared = corpus(["the cat ran"], words=[[(0, 3), (4, 7), (4, 7), (8, 11)]])
    found = locate(encoder, shared, range(1), Reading("word"))
    assert (
        pieces_of(found)[1] == pieces_of(found)[2] != []
        and pieces_of(found)[3] != pieces_of(found)[2]
    )
    assert found.columns["position"].tolist() == [0, 1, 2, 3]


def test_tokens_are_all_pieces_of_the_text_in_order(encoder):
    for special in (False, True):
        found = locate(encoder, corpus(), range(len(ODD)), Reading("token", special_tokens=special))
        encoded = [encoder.tokenizer(text, return_special_tokens_mask=True) for text in ODD]
        pairs = [
            pair
            for one in encoded
            for pair in zip(one["input_ids"], one["special_tokens_mask"], strict=True)
        ]
        expected = [token for token, added in pairs if special or not added]
        assert found.ids[found.entry_token].tolist() == expected and found.items == len(expected)
        assert found.columns["token"] == encoder.tokenizer.convert_ids_to_tokens(expected)
        assert found.columns["special"].any() == special


def test_windows_hold_every_token_once_and_the_special_ones_always(encoder):
    found = locate(encoder, corpus(), range(len(ODD)), Reading("token", special_tokens=True))
    assert (found.owner >= 0).all() and max(map(len, found.inputs)) <= encoder.max_length
    for token, (owner, column) in enumerate(
        zip(found.owner.tolist(), found.column.tolist(), strict=True)
    ):
        assert found.inputs[owner][column] == token
    first = encoder.tokenizer("x")["input_ids"][0]
    assert all(found.ids[taken[0]] == first for taken in found.inputs)
    assert len(found.inputs) > len(ODD)  # one of them is long


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(1, 200), st.booleans())
def test_a_token_is_taken_where_it_has_most_context(room, more, causal):
    length = room + more
    windows, whose = units._overlapping(np.arange(length), room, causal=causal)
    assert all(len(window) == room for window in windows) and np.array_equal(
        np.concatenate(whose), np.arange(length)
    )

    def context(window, token):
        left = token - window[0] if window[0] else length
        return (
            left if causal else min(left, window[-1] - token if window[-1] < length - 1 else length)
        )

    for window, mine in zip(windows, whose, strict=True):
        for token in mine:
            assert token in window
            assert context(window, token) == max(
                context(other, token) for other in windows if token in other
            )


@pytest.mark.parametrize("unit", ["sentence", "word", "token"])
def test_truncated_text_is_counted(originals, unit):
    encoder = load_encoder(str(originals["bert"]))
    found = locate(encoder, corpus(), range(len(ODD)), Reading(unit, long_input="truncate"))
    longest = max(range(len(ODD)), key=lambda i: len(ODD[i]))
    assert (
        found.cut == 1
        and len(found.inputs) == len(ODD)
        and len(found.inputs[longest]) == encoder.max_length
    )
    if unit == "word":  # nothing is dropped: words beyond the cut are there, without pieces
        assert found.items == sum(len(text.split()) for text in ODD)
        lost = [
            row
            for row, count in zip(found.columns["text"], found.pieces, strict=True)
            if count == 0
        ]
        assert lost.count(longest) > 200
    if unit == "sentence":
        assert np.flatnonzero(found.columns["truncated"]).tolist() == [longest]


@pytest.mark.parametrize("pool", ["first", "last"])
def test_first_and_last_are_one_piece_of_each_word(originals, pool):
    encoder = load_encoder(str(originals["roberta"]))
    every = pieces_of(locate(encoder, corpus(), range(len(ODD)), Reading("word")))
    found = locate(encoder, corpus(), range(len(ODD)), Reading("word", pool))
    assert pieces_of(found) == [pieces[:1] if pool == "first" else pieces[-1:] for pieces in every]
    # the index still says how many there are
    assert found.pieces.tolist() == [len(pieces) for pieces in every]


def test_pairs_are_one_input_each(originals):
    encoder = load_encoder(str(originals["bert"]))
    first, second = corpus(["the cat", "the dog ran"]), corpus(["the mat sat", "x"])
    found = locate(encoder, first, range(2), Reading("pair"), second)
    expected = [
        encoder.tokenizer(a, b)["input_ids"]
        for a, b in zip(first.sentences, second.sentences, strict=True)
    ]
    assert [found.ids[taken].tolist() for taken in found.inputs] == expected
    assert found.segments.tolist() == [
        s
        for a, b in zip(*(c.sentences for c in (first, second)), strict=True)
        for s in encoder.tokenizer(a, b)["token_type_ids"]
    ]
    long = corpus(["the cat " * 40])
    with pytest.raises(InputError, match=r"pair: .*got \d+ at odd.txt:1"):
        locate(encoder, long, range(1), Reading("pair"), first)
    cut = locate(
        encoder, long, range(1), Reading("pair", long_input="truncate"), corpus(["the dog"])
    )
    assert cut.cut == 1 and len(cut.inputs[0]) == 40 and cut.columns["truncated"].tolist() == [True]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"unit": "morpheme"},
            ("unit: expected one of sentence, pair, word, token, type, embedding"),
        ),
        (
            {"pool": "sum"},
            "pool: expected one of mean, max, first, last",
        ),
        (
            {"long_input": "drop"},
            "long_input: expected one of window, truncate",
        ),
        ({"unit": "word", "special_tokens": True}, "special_tokens: expected False for words"),
    ],
)
def test_a_reading_that_does_not_exist_is_refused(given, told):
    with pytest.raises(InputError, match=told):
        Reading(**given)
