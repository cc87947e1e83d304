"""A text of one language: what is a sentence, a span, a fingerprint."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslens.corpus import Corpus, Lazy, check_parallel, check_sentence, check_spans
from crosslens.errors import InputError


def refusal(call, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as refused:
        call(*arguments, **keywords)
    return str(refused.value)


def corpus(language: str, n: int) -> Corpus:
    return Corpus(language, [f"s{i}" for i in range(n)], [str(i) for i in range(n)], language)


def test_differing_line_counts_are_named():
    told = refusal(
        check_parallel, {"eng": corpus("eng", 3), "fra": corpus("fra", 2), "deu": corpus("deu", 3)}
    )
    expected = (
        "texts: expected the same number of lines in every language, got eng 3, fra 2, deu 3; "
    )
    assert told == expected + "line i of each file must be the same sentence"
    assert check_parallel({"eng": corpus("eng", 3), "fra": corpus("fra", 3)}) == 3


@pytest.mark.parametrize(
    "language", ["", "en fr", "a/b", "a\\b", "en=fr", ".", "..", "a\tb", "a\nb"]
)
def test_a_language_is_a_word_that_can_name_a_folder(language):
    assert refusal(Corpus, language, [], [], "x").startswith(
        f"language: expected a name of letters, digits, -, _ and ., got {language!r}; "
    )


def test_the_fingerprint_is_sha_256_of_ids_and_sentences_and_of_nothing_else():
    one = Corpus("eng", ["a", "b"], ["0", "1"], "here")
    assert one.fingerprint == hashlib.sha256(b"0\ta\n1\tb\n").hexdigest()
    assert one.fingerprint == Corpus("fra", ["a", "b"], ["0", "1"], "there").fingerprint
    others = [
        (["b", "a"], ["0", "1"]),
        (["a", "b"], ["1", "0"]),
        (["a", "b", "c"], ["0", "1", "2"]),
    ]
    assert (
        len({one.fingerprint, *(Corpus("eng", s, i, "here").fingerprint for s, i in others)}) == 4
    )


@pytest.mark.parametrize(
    ("sentence", "name", "told"),
    [
        (
            "a\0b",
            "1",
            (
                "here:2: expected text, got a NUL character at character 1; remove or repair the "
                "sentence"
            ),
        ),
        (
            "é\udc80",
            "1",
            (
                "here:2: expected text, got a lone surrogate (U+DC80) at character 1; remove or "
                "repair the sentence"
            ),
        ),
        # a pair is two halves in Python
        (
            "\ud83d\ude42",
            "1",
            "here:2: expected text, got a lone surrogate (U+D83D) at character 0; ",
        ),
        ("b", "\0", "id of here:2: expected text, got a NUL character at character 0; "),
        (
            "b",
            "x\udfff",
            "id of here:2: expected text, got a lone surrogate (U+DFFF) at character 1; ",
        ),
    ],
)
def test_what_utf_8_cannot_hold_is_refused_with_its_place_when_the_fingerprint_is_taken(
    sentence, name, told
):
    there = Corpus("eng", ["a?", sentence], ["0", name], "here")
    assert refusal(lambda: there.fingerprint).startswith(told)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters()))
def test_a_sentence_is_text_when_utf_8_holds_it_and_nothing_in_it_is_nul(sentence):
    fine = "\0" not in sentence and sentence.encode(errors="ignore").decode() == sentence
    if fine:
        assert check_sentence(sentence, "x") is sentence
    else:
        assert refusal(check_sentence, sentence, "x").startswith("x: expected text, got a ")


SPANS = [[(0, 3), (3, 4)], [], [(0, 2), (0, 2), (2, 5)]]


def test_words_are_spans_of_their_sentences():
    there = Corpus(
        "eng",
        ["One.", "-", "to it"],
        ["0", "1", "2"],
        "x",
        SPANS,
        {"upos": [["NUM", "PUNCT"], [], ["ADP", "X", "X"]]},
    )
    assert (there.words, there.annotations["upos"][0]) == (SPANS, ["NUM", "PUNCT"])
    assert Corpus("eng", ["One."], ["0"], "x").words is None
    assert refusal(Corpus, "eng", ["a"], ["0"], "x", []).startswith(
        "words: expected the words of 1 sentences, got those of 0; "
    )


@pytest.mark.parametrize(
    ("spans", "told"),
    [
        (
            [(0, 3), (3, 6)],
            "x:7: expected a span with 0 <= start < end <= 5 for word 2, got (3, 6); ",
        ),
        (
            [(-1, 3)],
            (
                "x:7: expected a span with 0 <= start < end <= 5 for word 1, got (-1, 3); count "
                "characters in the order of the text"
            ),
        ),
        ([(2, 2)], "x:7: expected a span with 0 <= start < end <= 5 for word 1, got (2, 2); "),
        (
            [(3, 5), (2, 4)],
            "x:7: expected a span with 3 <= start < end <= 5 for word 2, got (2, 4); ",
        ),
        (
            [(0.0, 1.0)],
            (
                "x:7: expected a pair of whole numbers (start, end) per word, got (0.0, 1.0) for "
                "word 1; give every word its span"
            ),
        ),
        (
            [(0, 1, 2)],
            (
                "x:7: expected a pair of whole numbers (start, end) per word, got (0, 1, 2) for "
                "word 1; "
            ),
        ),
        ([0], "x:7: expected a pair of whole numbers (start, end) per word, got 0 for word 1; "),
    ],
)
def test_what_is_no_span_of_the_sentence_is_refused(spans, told):
    assert refusal(check_spans, "words", spans, "x:7").startswith(told)


def test_spans_may_share_a_start_and_words_outside_are_named_with_their_sentence():
    check_spans("words", [(0, 5), (0, 2), (0, 2), (4, 5)], "x:7")
    told = refusal(Corpus, "eng", ["a", "b"], ["0", "1"], "here", [[(0, 1)], [(0, 2)]])
    assert told.startswith(
        "here:2: expected a span with 0 <= start < end <= 1 for word 1, got (0, 2); "
    )


def test_annotations_that_do_not_fit_the_words_are_refused():
    sentences, ids, spans = ["One.", "-", "to it"], ["0", "1", "2"], SPANS
    told = refusal(
        Corpus,
        "eng",
        sentences,
        ids,
        "here",
        None,
        {"upos": [["NUM", "PUNCT"], [], ["ADP", "X", "X"]]},
    )
    assert (
        told
        == "annotations: expected annotations of words, got a corpus without words; give words too"
    )
    told = refusal(Corpus, "eng", sentences, ids, "here", spans, {"upos": [["NUM", "PUNCT"]]})
    assert told == (
        "annotations['upos']: expected values for 3 sentences, got values for 1; give every "
        "sentence its values"
    )
    told = refusal(
        Corpus, "eng", sentences, ids, "here", spans, {"upos": [["NUM", "PUNCT"], [], ["ADP", "X"]]}
    )
    assert (
        told
        == "here:3: expected 3 values of 'upos', one per word, got 2; give every word its value"
    )


def test_annotations_are_strings_under_names_of_their_own():
    """Others ended an extraction with an error of Python's, or took the place of a column."""

    def told(columns):
        return refusal(Corpus, "eng", ["One."], ["0"], "here", [[(0, 3), (3, 4)]], columns)

    assert told({"head": [["2", 0]]}) == (
        "here:1: expected values of 'head' that are strings, got 0; write it as text"
    )
    assert told({"upos": [["NUM", None]]}).startswith("here:1: expected values of 'upos' that are")
    for name in ("word", "id", "pieces"):
        assert told({name: [["a", "b"]]}) == (
            "annotations: expected columns of other names, got one called "
            f"{name!r}, which the index of activations has already; call it otherwise"
        )


def test_the_fingerprint_covers_words():
    def told(words, sentences=("One.", "-", "to it"), annotations=None) -> str:
        return Corpus("eng", sentences, ["0", "1", "2"], "x", words, annotations).fingerprint

    bare = hashlib.sha256(b"0\tOne.\n1\t-\n2\tto it\n")
    assert told(None) == bare.hexdigest()
    bare.update(b"\x000-3 3-4\n\x00\n\x000-2 0-2 2-5\n")
    assert told(SPANS) == bare.hexdigest() == told(Lazy(3, SPANS.__getitem__))
    others = [
        [[], [], []],
        [[(0, 3)], [], SPANS[2]],
        [[(0, 4)], [], SPANS[2]],
        [SPANS[0], [(0, 1)], SPANS[2]],
    ]
    assert len({told(None), told(SPANS), *map(told, others)}) == 6


def test_the_fingerprint_covers_annotations():
    """They are columns of a store's index: a corrected tag must not find the old store finished."""

    def told(**annotations) -> str:
        return Corpus(
            "eng", ["One.", "-", "to it"], ["0", "1", "2"], "x", SPANS, annotations or None
        ).fingerprint

    tags = [["a", "b"], [], ["c"] * 3]
    assert told(x=tags) == told(x=[list(some) for some in tags])
    assert len({told(), told(x=tags), told(y=tags), told(x=[["a", "d"], [], ["c"] * 3])}) == 4


def test_a_lazy_sequence_is_a_sequence_and_makes_what_is_asked_for():
    made = []

    def make(i: int) -> str:
        made.append(i)
        return "abcde"[i]

    lazy = Lazy(5, make)
    assert (len(lazy), lazy[1], lazy[-1], lazy[1:3], lazy[::-2], lazy[7:]) == (
        5,
        "b",
        "e",
        ["b", "c"],
        ["e", "c", "a"],
        [],
    )
    assert made == [1, 4, 1, 2, 4, 2, 0]
    assert (
        list(lazy) == list("abcde")
        and "c" in lazy
        and lazy.index("d") == 3
        and list(reversed(lazy)) == list("edcba")
    )
    for outside in (5, -6):
        with pytest.raises(IndexError):
            lazy[outside]


def test_lazy_words_are_counted_but_not_read_by_the_corpus():
    read = []

    def make(i: int) -> list[tuple[int, int]]:
        read.append(i)
        return [(0, 1)]

    there = Corpus(
        "eng", ["a"] * 1000, ["0"] * 1000, "x", Lazy(1000, make), {"upos": [["X"]] * 1000}
    )
    assert len(read) < 10  # beartype, in these tests only, looks at some item
    assert there.words[999] == [(0, 1)]
    assert refusal(Corpus, "eng", ["a"], ["0"], "x", Lazy(2, make)).startswith(
        "words: expected the words of 1 sentences, got those of 2; "
    )
