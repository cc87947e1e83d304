"""Text is read as it is, line by line, or refused with its line."""

import gc
import gzip
import os
import random
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crosslens.errors import InputError
from crosslens.readers import plain
from crosslens.readers.plain import open_text, read_text, read_tsv


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
        st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\n")).filter(
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
    monkeypatch.setattr(plain, "_EVERY", 3)
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


def test_a_name_with_a_nul_is_refused(tmp_path):
    """As a --config file may have it."""
    for read in (read_text, open_text):
        with pytest.raises(InputError, match=r"a\\x00b.txt': expected a file, got .*null"):
            read(str(tmp_path / "a\0b.txt"), "eng")
