"""Text is read as it is, line by line, or refused with its line."""

import gc
import gzip
import hashlib
import importlib.util
import json
import os
import random
import sys
import tracemalloc
import types

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crosslens import corpus as corpus_module
from crosslens.corpus import (
    Corpus,
    Lazy,
    check_parallel,
    check_sentence,
    check_spans,
    open_text,
    read_dataset,
    read_text,
    read_tsv,
)
from crosslens.errors import InputError


@pytest.fixture
def text(tmp_path):
    def write(content: bytes, name: str = "text.txt"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def refusal(call, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as refused:
        call(*arguments, **keywords)
    return str(refused.value)


@pytest.mark.parametrize(
    ("content", "sentences"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"one\r\ntwo", ["one", "two"]),
        (b"\xef\xbb\xbfone\ntwo\n", ["one", "two"]),  # a byte-order mark
        (b"  one \n\ttwo\t\n", ["  one ", "\ttwo\t"]),  # kept as they are
        ("été\n我们\n🙂\n".encode(), ["été", "我们", "🙂"]),
        ("e\u0301\n\u00e9\n".encode(), ["e\u0301", "\u00e9"]),  # not normalised
    ],
)
def test_a_sentence_a_line(text, content, sentences):
    path = text(content)
    corpus = read_text(path, "eng")
    assert (corpus.sentences, corpus.ids, corpus.language, corpus.name) == (
        sentences,
        [str(i) for i in range(len(sentences))],
        "eng",
        path.name,
    )
    assert read_text(text(gzip.compress(content), "text.txt.gz"), "eng").sentences == sentences
    assert read_text(str(path), "eng").sentences == sentences


@pytest.mark.parametrize(
    "inside", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\r"]
)
def test_only_a_line_feed_ends_a_line(text, inside):
    assert read_text(text(f"a{inside}b\nc\n".encode()), "eng").sentences == [f"a{inside}b", "c"]
    assert read_tsv(text(f"0\ta{inside}b\n1\tc\n".encode()), "eng").sentences == [
        f"a{inside}b",
        "c",
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\n")).filter(
            lambda s: s.strip()
        ),
        min_size=1,
    )
)
def test_whatever_was_written_line_by_line_is_read(tmp_path_factory, sentences):
    sentences = [sentence.rstrip("\r").lstrip("\ufeff") or "x" for sentence in sentences]
    sentences = [sentence if sentence.strip() else "x" for sentence in sentences]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes("".join(sentence + "\n" for sentence in sentences).encode())
    assert read_text(path, "und").sentences == sentences


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b"",
            (
                ": expected at least one line of text, got an empty file; check the path, and "
                "what wrote the file"
            ),
        ),
        (b"\n\n \n", ": expected at least one line of text, got an empty file; "),
        (b"\xef\xbb\xbf", ": expected at least one line of text, got an empty file; "),
        (
            b"a\n\nb\n",
            (
                ":2: expected a sentence, got a blank line; remove the line from every language's "
                "file, or fill it"
            ),
        ),
        (b"a\r\n\r\nb\r\n", ":2: expected a sentence, got a blank line; "),
        ("a\nb\n\u3000\t\n".encode(), ":3: expected a sentence, got a blank line; "),
        (b"a\nb\n\n", ":3: expected a sentence, got a blank line; "),
        (
            b"a\ncaf\xe9\n",
            (
                ":2: expected UTF-8 text, got byte 0xe9; convert the file to UTF-8, with iconv "
                "for example"
            ),
        ),
        # the mark is not counted
        (b"\xef\xbb\xbfa\nb\nc\xe9\n", ":3: expected UTF-8 text, got byte 0xe9; "),
        (b"\xef\xbb\xbfa\n\xe9", ":2: expected UTF-8 text, got byte 0xe9; "),
        (b"a\n\xff", ":2: expected UTF-8 text, got byte 0xff; "),
        (b"\xed\xa0\x80\n", ":1: expected UTF-8 text, got byte 0xed; "),  # half of a surrogate pair
        (b"a\nb\0c\n", ":2: expected text, got a NUL byte; save the file as UTF-8 text"),
        ("ab\n".encode("utf-16"), ":1: expected text, got a NUL byte; "),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(text, content, told):
    path = text(content)
    assert refusal(read_text, path, "eng").startswith(f"{path}{told}")
    zipped = text(gzip.compress(content), "zipped.gz")
    assert refusal(read_text, zipped, "eng").startswith(f"{zipped}{told}")


def test_what_cannot_be_opened_is_refused(tmp_path, text, monkeypatch):
    none = tmp_path / "none.txt"
    assert (
        refusal(read_text, none, "eng")
        == f"{none}: expected a text file that can be read, got no such file; check the path"
    )
    assert (
        refusal(read_text, tmp_path, "eng")
        == f"{tmp_path}: expected a text file, got a folder; name the file in it"
    )
    below = text(b"x") / "below"
    assert refusal(read_text, below, "eng").startswith(
        f"{below}: expected a text file that can be read, got an error ("
    )

    def forbidden(path):
        raise PermissionError(13, "Permission denied", str(path))

    path = text(b"x")
    monkeypatch.setattr("pathlib.Path.read_bytes", forbidden)  # root may read anything
    assert "got an error ([Errno 13] Permission denied" in refusal(read_text, path, "eng")


WHOLE = gzip.compress(b"a sentence\n" * 50, mtime=0)


@pytest.mark.parametrize(
    "content",
    [b"plain text", b"", WHOLE[:-9], WHOLE[:20], WHOLE[:12] + b"\xff\xff\xff" + WHOLE[15:]],
)
def test_a_damaged_gzip_file_is_refused(text, content):
    path = text(content, "text.gz")
    told = refusal(read_text, path, "eng")
    assert told.startswith(f"{path}: expected ")
    assert content == b"" or "a text file that can be read, got an error (" in told


def test_columns_by_position(text):
    path = text(b"v1\teins\tone\nv2\tzwei\ttwo\n")
    corpus = read_tsv(path, "deu")
    assert (corpus.ids, corpus.sentences) == (["v1", "v2"], ["eins", "zwei"])
    assert read_tsv(path, "eng", text_column=2).sentences == ["one", "two"]
    bare = read_tsv(path, "und", text_column=0, id_column=None)
    assert (bare.ids, bare.sentences) == (["0", "1"], ["v1", "v2"])


def test_lines_that_lack_a_column_or_its_text_are_named(text):
    path = text(b"v1\teins\nv2\n")
    assert (
        refusal(read_tsv, path, "deu")
        == f"{path}:2: expected at least 2 tab-separated columns, got 1; repair the line"
    )
    assert refusal(read_tsv, path, "deu", text_column=3).startswith(
        f"{path}:1: expected at least 4 tab-separated columns, got 2"
    )
    path = text(b"v1\teins\nv2\t \t\n")
    assert refusal(read_tsv, path, "deu") == (
        f"{path}:2: expected a sentence in column 1, got a blank cell; remove the line, or fill it"
    )


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


PIECES = [
    b"a",
    b"b c",
    "é".encode(),
    "我们".encode(),
    "🙂".encode(),
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    "\u3000".encode(),
    "\u2028".encode(),
]
ODD = [b"\n\n", b"\0", b"\xff", b"\xe2\x80", b"\xed\xa0\x80"]


@pytest.mark.parametrize("pieces", [PIECES[:9], PIECES + ODD], ids=["text", "anything"])
def test_an_opened_text_is_the_text_that_was_read(pieces, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "_EVERY", 3)
    path = tmp_path / "text.txt"
    seen = set()

    @settings(max_examples=150, deadline=None)
    @given(
        st.booleans(),
        st.lists(st.lists(st.sampled_from(pieces), max_size=4), max_size=12),
        st.booleans(),
        st.randoms(),
    )
    # whatever else is drawn, one that is read
    @example(True, [[b"a"], [b"b c"]], True, random.Random(0))
    def same(mark, lines, end, draw):
        path.write_bytes(b"\xef\xbb\xbf" * mark + b"\n".join(map(b"".join, lines)) + b"\n" * end)
        try:
            wanted = read_text(path, "und")
        except InputError as error:
            assert refusal(open_text, path, "und") == str(error)
            seen.add("refused")
            return
        opened = open_text(path, "und")
        assert (list(opened.sentences), list(opened.ids), opened.name) == (
            wanted.sentences,
            wanted.ids,
            wanted.name,
        )
        assert opened.fingerprint == wanted.fingerprint
        places = [draw.randrange(-len(wanted), len(wanted)) for _ in range(8)]
        assert [opened.sentences[i] for i in places] == [wanted.sentences[i] for i in places]
        assert (
            opened.sentences[1:-1:2] == wanted.sentences[1:-1:2]
            and opened.ids[-1] == wanted.ids[-1]
        )
        seen.add("read")

    same()
    assert seen == {"refused", "read"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xef\xbb\xbf",
        b"\xef\xbb",
        b"\n \n",
        b"\xff\n\n\0",
        b"\n\xff\n",
        b"a\n\n\xe9\n",
        b"\xef\xbb\xbf\n\xe9",
    ],
)
def test_an_opened_text_is_refused_as_a_text_that_is_read(text, content):
    path = text(content)
    assert refusal(open_text, path, "eng") == refusal(read_text, path, "eng")


def test_what_is_no_ordinary_file_is_read_at_once(text, tmp_path):
    zipped = open_text(text(gzip.compress(b"one\ntwo\n"), "text.gz"), "eng")
    assert zipped.sentences == ["one", "two"]
    assert (
        refusal(open_text, tmp_path, "eng")
        == f"{tmp_path}: expected a text file, got a folder; name the file in it"
    )
    assert refusal(open_text, tmp_path / "none", "eng").endswith(
        ": expected a text file that can be read, got no such file; check the path"
    )
    out, into = os.pipe()
    os.write(into, b"one\ntwo\n")
    os.close(into)
    try:
        assert open_text(f"/dev/fd/{out}", "eng").sentences == ["one", "two"]
    finally:
        os.close(out)


def test_a_text_that_may_not_be_opened_is_refused(text, monkeypatch):
    path = text(b"x")

    def forbidden(*_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.open", forbidden)  # root may read anything
    assert (
        "expected a text file that can be read, got an error ([Errno 13] Permission denied"
        in refusal(open_text, path, "eng")
    )


def test_a_text_that_changes_while_it_is_open_is_not_read_on(text, tmp_path):
    path = text(b"one\ntwo\n" * 200)
    there, other = open_text(path, "eng"), open_text(path, "eng")
    # A block that is in memory is read on, and a type check may have read any: say which.
    assert there.sentences[0] == "one" and other.sentences[399] == "two"
    with open(path, "ab") as file:
        file.write(b"three\n")
    changed = (
        f"{path}: expected the file as it was when it was opened, got one that has changed since; "
        f"open it again"
    )
    assert refusal(lambda: there.sentences[399]) == refusal(lambda: other.sentences[0]) == changed
    again = open_text(path, "eng")
    assert again.sentences[0] == "one"
    os.truncate(path, 10)
    assert refusal(lambda: again.sentences[400]) == changed
    path = text(b"one\n")
    there = open_text(path, "eng")
    (tmp_path / "new").write_bytes(b"two\n")
    os.replace(tmp_path / "new", path)  # another file of this name is not the one that is open
    assert there.sentences[0] == "one"


def test_memory_and_open_files_do_not_grow_with_an_opened_text(text):
    path = text(
        "".join(f"sentence {i} of a text of some length, that is\n" for i in range(8_000)).encode()
    )
    gc.collect()  # files that earlier tests left open, in cycles, are closed now and not meanwhile
    files = len(os.listdir("/proc/self/fd"))
    tracemalloc.start()
    there = open_text(path, "eng")
    assert sum(map(len, there.sentences)) == os.path.getsize(path) - len(there)
    assert len(there.fingerprint) == 64
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    table = 8_000 / 64 * 8
    # the table and one block of lines; a read buffer
    assert kept < table + 30_000 and most < kept + 28_000 < os.path.getsize(path) / 4
    del there
    assert len(os.listdir("/proc/self/fd")) == files


RECORDS = [
    {"text": "one\ntwo\n", "pair": {"fr": "un"}},
    {"text": "", "pair": {"fr": "deux"}},
    {"text": "three\r\nfour", "pair": {"fr": 3}},
]


@pytest.fixture
def library(monkeypatch):
    """A stand-in for Hugging Face's library; what it was asked for."""
    asked = []

    def load_dataset(path, config, *, split, streaming):
        asked.append((path, config, split, streaming))
        if path == "nowhere":
            raise FileNotFoundError("no data set\n  of this name")

        def stream():
            for number, record in enumerate(RECORDS):
                asked.append(number)
                yield record

        return stream()

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_a_data_set_is_streamed_once_and_blank_lines_stay(library):
    corpus = read_dataset("hf:some/set", "eng")
    assert corpus == Corpus(
        "eng", ["one", "two", "", "three", "four"], ["0", "1", "2", "3", "4"], "some/set train"
    )
    assert library == [("some/set", None, "train", True), 0, 1, 2]


def test_an_address_names_config_split_field_and_limit(library):
    corpus = read_dataset("hf:C:/a folder?field=pair.fr&limit=2&config=v1%20x&split=test", "fra")
    assert corpus.sentences == ["un", "deux"]
    # no record is fetched that is not used
    assert library == [("C:/a folder", "v1 x", "test", True), 0, 1]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?split=a",
        "x?lim=1",
        "x?limit=0",
        "x?limit=-1",
        "x?limit=1.5",
        "x?split=",
        "x?split=a&split=b",
        "x?a&split=b",
    ],
)
def test_an_address_that_cannot_be_read_is_refused(library, query):
    told = refusal(read_dataset, f"hf:{query}", "eng")
    assert told.startswith(
        "hf:: expected hf:PATH?config=NAME&split=NAME&field=NAME&limit=NUMBER (all but PATH "
        "may be left out), got "
    )
    assert told.endswith(f"'hf:{query}'; correct the address") and library == []


def test_what_a_data_set_does_not_have_is_refused(library, monkeypatch):
    told = refusal(read_dataset, "hf:x?field=title", "eng")
    assert told == (
        "hf:x?field=title (record 0): expected a field 'title', got the fields text, pair; "
        "name one of them"
    )
    assert refusal(read_dataset, "hf:x?field=text.en", "eng").endswith(
        "expected a field 'text.en', got the fields none; name one of them"
    )
    told = refusal(read_dataset, "hf:x?field=pair.fr", "fra")
    assert told == (
        "hf:x?field=pair.fr (record 2): expected text in the field 'pair.fr', got int; name a "
        "field of text"
    )
    told = refusal(read_dataset, "hf:nowhere", "eng")
    found = "FileNotFoundError: no data set of this name; check path, config, split and connection"
    assert told == f"hf:nowhere: expected a data set that can be read, got {found}"
    monkeypatch.setitem(globals(), "RECORDS", [{"text": " \n"}])
    assert (
        refusal(read_dataset, "hf:x", "eng")
        == "hf:x: expected at least one sentence, got no text; check split and field"
    )


def test_without_the_library_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    told = refusal(read_dataset, "hf:x", "eng")
    assert told == (
        "hf:x: expected the library that reads data sets, got none installed; type: pip "
        "install 'crosslens[datasets]'"
    )


def test_the_real_library_reads_a_folder(tmp_path, monkeypatch):
    if importlib.util.find_spec("datasets") is None:
        pytest.skip(reason="the extra datasets is not installed")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_text(
        "".join(
            json.dumps({"text": f"a{i}\nb{i}", "pair": {"fr": f"c{i}"}}) + "\n" for i in range(4)
        )
    )
    assert read_dataset(f"hf:{folder}?limit=2", "eng").sentences == ["a0", "b0", "a1", "b1"]
    assert read_dataset(f"hf:{folder}?field=pair.fr", "fra").sentences == ["c0", "c1", "c2", "c3"]
    assert "Bad split: nope" in refusal(read_dataset, f"hf:{folder}?split=nope", "eng")
    assert "expected a data set that can be read, got " in refusal(
        read_dataset, f"hf:{folder}/none", "eng"
    )
