"""Text is read as it is, line by line, or refused with its line."""

import gzip
import hashlib
import importlib.util
import json
import sys
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslens.corpus import Corpus, check_parallel, read_dataset, read_text, read_tsv
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


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\r"])
def test_only_a_line_feed_ends_a_line(text, inside):
    assert read_text(text(f"a{inside}b\nc\n".encode()), "eng").sentences == [f"a{inside}b", "c"]
    assert read_tsv(text(f"0\ta{inside}b\n1\tc\n".encode()), "eng").sentences == [f"a{inside}b", "c"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\n")).filter(lambda s: s.strip()), min_size=1))
def test_whatever_was_written_line_by_line_is_read(tmp_path_factory, sentences):
    sentences = [sentence.rstrip("\r").lstrip("\ufeff") or "x" for sentence in sentences]
    sentences = [sentence if sentence.strip() else "x" for sentence in sentences]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes("".join(sentence + "\n" for sentence in sentences).encode())
    assert read_text(path, "und").sentences == sentences


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", ": expected at least one sentence, got an empty file; give a text with one sentence per line"),
        (b"\n\n \n", ": expected at least one sentence, got an empty file; "),
        (b"\xef\xbb\xbf", ": expected at least one sentence, got an empty file; "),
        (b"a\n\nb\n", ":2: expected a sentence, got a blank line; remove the line from every language's file, or fill it"),
        (b"a\r\n\r\nb\r\n", ":2: expected a sentence, got a blank line; "),
        ("a\nb\n\u3000\t\n".encode(), ":3: expected a sentence, got a blank line; "),
        (b"a\nb\n\n", ":3: expected a sentence, got a blank line; "),
        (b"a\ncaf\xe9\n", ":2: expected UTF-8 text, got byte 0xe9; convert the file to UTF-8, with iconv for example"),
        (b"\xef\xbb\xbfa\nb\nc\xe9\n", ":3: expected UTF-8 text, got byte 0xe9; "),  # the mark is not counted
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
    assert refusal(read_text, none, "eng") == f"{none}: expected a text file that can be read, got no such file; check the path"
    assert refusal(read_text, tmp_path, "eng") == f"{tmp_path}: expected a text file, got a folder; name the file in it"
    below = text(b"x") / "below"
    assert refusal(read_text, below, "eng").startswith(f"{below}: expected a text file that can be read, got an error (")

    def forbidden(path):
        raise PermissionError(13, "Permission denied", str(path))

    path = text(b"x")
    monkeypatch.setattr("pathlib.Path.read_bytes", forbidden)  # root may read anything
    assert "got an error ([Errno 13] Permission denied" in refusal(read_text, path, "eng")


WHOLE = gzip.compress(b"a sentence\n" * 50)


@pytest.mark.parametrize("content", [b"plain text", b"", WHOLE[:-9], WHOLE[:20], WHOLE[:12] + b"\xff\xff\xff" + WHOLE[15:]])
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
    assert refusal(read_tsv, path, "deu") == f"{path}:2: expected at least 2 tab-separated columns, got 1; repair the line"
    assert refusal(read_tsv, path, "deu", text_column=3).startswith(f"{path}:1: expected at least 4 tab-separated columns, got 2")
    path = text(b"v1\teins\nv2\t \t\n")
    assert refusal(read_tsv, path, "deu") == f"{path}:2: expected a sentence in column 1, got a blank cell; remove the line, or fill it"


def corpus(language: str, n: int) -> Corpus:
    return Corpus(language, [f"s{i}" for i in range(n)], [str(i) for i in range(n)], language)


def test_differing_line_counts_are_named():
    told = refusal(check_parallel, {"eng": corpus("eng", 3), "fra": corpus("fra", 2), "deu": corpus("deu", 3)})
    expected = "texts: expected the same number of lines in every language, got eng 3, fra 2, deu 3; "
    assert told == expected + "line i of each file must be the same sentence"
    assert check_parallel({"eng": corpus("eng", 3), "fra": corpus("fra", 3)}) == 3


@pytest.mark.parametrize("language", ["", "en fr", "a/b", "a\\b", "en=fr", ".", "..", "a\tb", "a\nb"])
def test_a_language_is_a_word_that_can_name_a_folder(language):
    assert refusal(Corpus, language, [], [], "x").startswith(f'language: expected a short code such as "eng", got {language!r}; ')


def test_the_fingerprint_is_sha_256_of_ids_and_sentences_and_of_nothing_else():
    one = Corpus("eng", ["a", "b"], ["0", "1"], "here")
    assert one.fingerprint == hashlib.sha256(b"0\ta\n1\tb\n").hexdigest()
    assert one.fingerprint == Corpus("fra", ["a", "b"], ["0", "1"], "there").fingerprint
    others = [(["b", "a"], ["0", "1"]), (["a", "b"], ["1", "0"]), (["a", "b", "c"], ["0", "1", "2"])]
    assert len({one.fingerprint, *(Corpus("eng", s, i, "here").fingerprint for s, i in others)}) == 4


RECORDS = [{"text": "one\ntwo\n", "pair": {"fr": "un"}}, {"text": "", "pair": {"fr": "deux"}}, {"text": "three\r\nfour", "pair": {"fr": 3}}]


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
    assert corpus == Corpus("eng", ["one", "two", "", "three", "four"], ["0", "1", "2", "3", "4"], "some/set train")
    assert library == [("some/set", None, "train", True), 0, 1, 2]


def test_an_address_names_config_split_field_and_limit(library):
    corpus = read_dataset("hf:C:/a folder?field=pair.fr&limit=2&config=v1%20x&split=test", "fra")
    assert corpus.sentences == ["un", "deux"]
    assert library == [("C:/a folder", "v1 x", "test", True), 0, 1]  # no record is fetched that is not used


@pytest.mark.parametrize(
    "query", ["", "?split=a", "x?lim=1", "x?limit=0", "x?limit=-1", "x?limit=1.5", "x?split=", "x?split=a&split=b", "x?a&split=b"]
)
def test_an_address_that_cannot_be_read_is_refused(library, query):
    told = refusal(read_dataset, f"hf:{query}", "eng")
    assert told.startswith("hf:: expected hf:PATH?config=NAME&split=NAME&field=NAME&limit=NUMBER (all but PATH may be left out), got ")
    assert told.endswith(f"'hf:{query}'; correct the address") and library == []


def test_what_a_data_set_does_not_have_is_refused(library, monkeypatch):
    told = refusal(read_dataset, "hf:x?field=title", "eng")
    assert told == "hf:x?field=title (record 0): expected a field 'title', got the fields text, pair; name one of them"
    assert refusal(read_dataset, "hf:x?field=text.en", "eng").endswith("expected a field 'text.en', got the fields none; name one of them")
    told = refusal(read_dataset, "hf:x?field=pair.fr", "fra")
    assert told == "hf:x?field=pair.fr (record 2): expected text in the field 'pair.fr', got int; name a field of text"
    told = refusal(read_dataset, "hf:nowhere", "eng")
    found = "FileNotFoundError: no data set of this name; check path, config, split and connection"
    assert told == f"hf:nowhere: expected a data set that can be read, got {found}"
    monkeypatch.setitem(globals(), "RECORDS", [{"text": " \n"}])
    assert refusal(read_dataset, "hf:x", "eng") == "hf:x: expected at least one sentence, got no text; check split and field"


def test_without_the_library_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    told = refusal(read_dataset, "hf:x", "eng")
    assert told == "hf:x: expected the library that reads data sets, got none installed; type: pip install 'crosslens[datasets]'"


def test_the_real_library_reads_a_folder(tmp_path, monkeypatch):
    if importlib.util.find_spec("datasets") is None:
        pytest.skip(reason="the extra datasets is not installed")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_text("".join(json.dumps({"text": f"a{i}\nb{i}", "pair": {"fr": f"c{i}"}}) + "\n" for i in range(4)))
    assert read_dataset(f"hf:{folder}?limit=2", "eng").sentences == ["a0", "b0", "a1", "b1"]
    assert read_dataset(f"hf:{folder}?field=pair.fr", "fra").sentences == ["c0", "c1", "c2", "c3"]
    assert "Bad split: nope" in refusal(read_dataset, f"hf:{folder}?split=nope", "eng")
    assert "expected a data set that can be read, got " in refusal(read_dataset, f"hf:{folder}/none", "eng")
