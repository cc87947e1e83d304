"""Word vectors in files: every form of .vec and .txt that is about, and everything that can be
wrong with one."""

import gzip
import subprocess
import sys

import numpy as np
import pytest

from crosslens.errors import InputError, OutputError
from crosslens.readers import static_vectors
from crosslens.readers.static_vectors import StaticVectors, read_vec, write_vec


@pytest.fixture
def vectors():
    rng = np.random.default_rng(3)
    words = [
        "the",
        "naïve",
        "3",
        "non\u00a0breaking",
        "line\u2028end",
        "\u3000",
        "next\x85line",
        "N/A",
        "nan",
        "null",
        '"',
        "'s",
        "#",
        "</s>",
    ]
    return StaticVectors(words, rng.normal(size=(len(words), 7)).astype(np.float32))


@pytest.fixture
def read(tmp_path):
    """Read a file of these bytes."""

    def read(data, most=None, **more):
        path = tmp_path / "words.vec"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return read_vec(path, most, **more)

    return read


def by_loop(path):
    """The plain reading: a float of each piece."""
    lines = path.read_bytes().decode().split("\n")[1:-1]
    return [line.split(" ")[0] for line in lines], np.array(
        [[float(x) for x in line.split(" ")[1:]] for line in lines], np.float32
    )


def test_words_and_rows():
    vectors = StaticVectors(["a", "b"], np.eye(2))
    assert (len(vectors), vectors.row("b"), "b" in vectors, "B" in vectors) == (2, 1, True, False)
    assert vectors.rows(["b", "a", "b"]).tolist() == [1, 0, 1]
    assert vectors.rows([]).shape == (0,)
    assert vectors.vectors.dtype == np.float32
    with pytest.raises(InputError, match=r"word: .*got 'B'"):
        vectors.rows(["a", "B"])


def test_words_that_are_none_are_refused():
    with pytest.raises(InputError, match=r"words: .*got 1"):
        StaticVectors(["a"], np.eye(2))
    with pytest.raises(InputError, match=r"words\[1\]: .*got ''"):
        StaticVectors(["a", ""], np.eye(2))
    with pytest.raises(InputError, match=r"words\[2\]: .*got 'a', the word"):
        StaticVectors(["a", "b", "a"], np.eye(3))
    with pytest.raises(InputError, match=r"vectors: .*got NaN or infinity"):
        StaticVectors(["a", "b"], np.array([[1.0], [1e300]]))  # more than float32 can hold


def test_what_is_written_is_read_to_the_last_bit(vectors, tmp_path):
    path = tmp_path / "words.vec"
    rng = np.random.default_rng(0)
    # numbers of all sizes
    bits = rng.integers(0, 2**32, size=(400, 5), dtype=np.uint32).view(np.float32)
    bits[~np.isfinite(bits)] = -0.0
    for some in (vectors, StaticVectors([f"w{i}" for i in range(len(bits))], bits)):
        write_vec(path, some)
        again = read_vec(path)
        assert again.words == some.words
        assert again.vectors.tobytes() == some.vectors.tobytes()
        words, numbers = by_loop(path)
        assert (words, numbers.tobytes()) == (some.words, some.vectors.tobytes())
    assert [file.name for file in tmp_path.iterdir()] == ["words.vec"]


@pytest.mark.parametrize("block", [64, 97, 1 << 12])
def test_where_blocks_end_changes_nothing(vectors, tmp_path, monkeypatch, block):
    path = tmp_path / "words.vec"
    write_vec(path, vectors)
    longest = max(len(line) for line in path.read_bytes().splitlines(keepends=True))
    monkeypatch.setattr(static_vectors, "_BLOCK", max(block, longest))
    for most in (None, 1, 5, len(vectors), 1000):
        some = read_vec(path, most)
        assert some.words == vectors.words[:most]
        assert np.array_equal(some.vectors, vectors.vectors[:most])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("2 2\na 1 2\nb 3 4\n", ["a", "b"]),
        ("a 1 2\nb 3 4\n", ["a", "b"]),  # GloVe: no header
        ("2 2\na 1 2 \nb 3 4 \n", ["a", "b"]),  # fastText, word2vec: a space at the end
        ("2 2 \na 1 2\nb 3 4 \n", ["a", "b"]),
        ("2 2\na 1 2\nb 3 4", ["a", "b"]),  # no end of the last line
        ("2 2\r\na 1 2\r\nb 3 4\r\n", ["a", "b"]),
        ("a 1 2\r\nb 3 4 \r\n", ["a", "b"]),
        ("\ufeff2 2\na 1 2\nb 3 4\n", ["a", "b"]),
        ("\ufeffa 1 2\nb 3 4\n", ["a", "b"]),
        ("2 2\n\ufeffa 1 2\na 3 4\n", ["\ufeffa", "a"]),  # no mark, but part of a word
        ("66 1 2\n7 3 4\n", ["66", "7"]),  # numbers are words
        ("2 2\n66 1 2\n-0.5 3 4\n", ["66", "-0.5"]),
        (". . . 1 2\nat a@b.c 3 4\n", [". . .", "at a@b.c"]),  # GloVe 840B
        ("2 2\nNew York 1 2\n b 3 4\n", ["New York", " b"]),
        ("2 2\na 1e0 +2\nb 3. 0.4e1\n", ["a", "b"]),
    ],
)
def test_every_form_of_file_is_read(read, data, words):
    some = read(data)
    assert some.words == words
    assert some.vectors.tolist() == [[1, 2], [3, 4]]
    assert some.duplicates == 0


def test_packed_files_are_read(vectors, tmp_path):
    write_vec(tmp_path / "words.vec", vectors)
    data = (tmp_path / "words.vec").read_bytes()
    packed = tmp_path / "words.vec.gz"
    packed.write_bytes(gzip.compress(data))
    assert np.array_equal(read_vec(packed).vectors, vectors.vectors)
    packed.write_bytes(gzip.compress(data)[:-30])
    with pytest.raises(InputError, match=r"words\.vec\.gz: .*got Compressed"):
        read_vec(packed)
    packed.write_bytes(data)
    with pytest.raises(InputError, match=r"got Not a gzipped file"):
        read_vec(packed)


def test_the_first_of_equal_words_is_kept_and_the_others_are_counted_and_told(read, capsys):
    some = read("4 1\na 1\nb 2\na 3\na 4\n")
    assert (some.words, some.vectors.ravel().tolist(), some.duplicates) == (["a", "b"], [1, 2], 2)
    assert "2 line(s) left out, whose words stand on earlier lines" in capsys.readouterr().err
    some = read("5 1\na 1\na 2\nb 3\nc 4\nd 5\n", most=3)  # `most` counts words, not lines
    assert (some.words, some.duplicates) == (["a", "b", "c"], 1)


def test_what_comes_after_the_words_asked_for_is_not_looked_at(read):
    assert read("9 1\na 1\nb 2\nc NaN\n", most=2).words == ["a", "b"]
    with pytest.raises(InputError, match=r"words\.vec:4: "):
        read("9 1\na 1\nb 2\nc NaN\n", most=3)
    with pytest.raises(InputError, match=r"words\.vec:3: .*got the end after"):
        read("9 1\na 1\nb 2\n", most=3)


_NUMBERS = r"expected a word and 2 numbers, as the header says, got"
_FINITE = r"expected 2 finite numbers that float32 can hold, got"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            "2 2\na 1 2\nb 3\n",
            rf":3: {_NUMBERS} 1 numbers; repair or remove the line \(the file may be cut off\)",
        ),
        ("a 1 2\nb 3\n", ":2: expected a word and 2 numbers, as on line 1"),
        ("2 2\na 1 2\nb 3 4 5\n", rf":3: {_NUMBERS} a number more, '3'"),
        ("2 2\na 1 2\n\nb 3 4\n", rf":3: {_NUMBERS} a blank line"),
        ("2 2\na 1 2\n 3 4\n", rf":3: {_NUMBERS} no word before the numbers"),
        (
            "2 3\na 1 2\nb 3 4\n",
            ":2: expected a word and 3 numbers, as the header says",
        ),
        (
            "2 1\na 1 2\nb 3 4\n",
            ":2: expected a word and 1 numbers, as the header says",
        ),
        (
            "3 2\na 1 2\nb 3 4\n",
            ":3: expected 3 words, as the header says",
        ),
        (
            "1 2\na 1 2\nb 3 4\n",
            (":3: expected the end after 1 words, as the header says"),
        ),
        ("2 2\na 1 2\nb 3 nan\n", rf":3: {_FINITE} 'nan'"),
        ("2 2\na 1 2\nb inf 4\n", rf":3: {_FINITE} 'inf'"),
        ("2 2\na 1 2\nb 3 1e39\n", rf":3: {_FINITE} '1e39'"),
        ("2 2\na 1 2\nb 3 4x\n", rf":3: {_FINITE} '4x'"),
        ("2 2\na 1 2\nb 3 1_0\n", rf":3: {_FINITE} '1_0'"),
        ("2 2\na 1 2\nb  4\n", rf":3: {_FINITE} ''"),
        ("2 2\na 1 2\nNew York 4\n", rf":3: {_FINITE} 'York'"),
        ("2 2\na\t1\t2\n", rf":2: {_NUMBERS} 0 numbers"),
        (
            b"2 2\na 1 2\nb\xff 3 4\n",
            (":3: expected UTF-8 text"),
        ),
        (
            "a\tb\n",
            (":1: expected a header, or a word and its numbers"),
        ),
        (b"\xba\x16\x4f\x2f\x0c\x00", ":1: expected a header, or a word and its numbers"),
        (
            "0 300\n",
            (":1: expected how many words and how many numbers each"),
        ),
        ("2 300\n", r"words\.vec: expected word vectors"),
        ("", r"words\.vec: expected word vectors"),
    ],
)
def test_files_that_are_wrong_are_refused_by_line(read, data, message):
    with pytest.raises(InputError, match=message):
        read(data)


def test_bytes_that_are_no_text_can_be_replaced(read):
    some = read(b"4 1\nb\xff 1\nc 2\nb\xfe 3\nd 4\n", errors="replace")
    assert (some.words, some.vectors.ravel().tolist(), some.duplicates) == (
        ["b\ufffd", "c", "d"],
        [1, 2, 4],
        1,
    )


def test_arguments_and_places_are_refused(read, tmp_path, vectors, monkeypatch):
    with pytest.raises(InputError, match=r"most: .*got 0"):
        read("a 1\n", most=0)
    with pytest.raises(InputError, match=r"errors: .*got 'ignore'"):
        read("a 1\n", errors="ignore")
    with pytest.raises(InputError, match=r"none\.vec: .*got No such file"):
        read_vec(tmp_path / "none.vec")
    with pytest.raises(InputError, match=r"got Is a directory"):
        read_vec(tmp_path)
    monkeypatch.setattr(static_vectors, "_BLOCK", 1 << 20)
    with pytest.raises(InputError, match=r"words\.vec:2: .*got a longer one"):
        read("a 1\n" + "b" * (1 << 21))
    with pytest.raises(OutputError, match=r"path: .*got .*No such file"):
        write_vec(tmp_path / "none" / "words.vec", vectors)
    for word, row in (("route 66", 1), ("two\nlines", 1), ("\ud83d", 0)):
        words = ["a", "a"]
        words[row] = word
        with pytest.raises(InputError, match=rf"words\[{row}\]: expected "):
            write_vec(
                tmp_path / "new.vec",
                StaticVectors([*words[:row], word, *["z"] * (1 - row)], np.eye(2)),
            )
    assert not (tmp_path / "new.vec").exists()


def test_a_write_that_fails_leaves_the_old_file_alone(vectors, tmp_path, monkeypatch):
    path = tmp_path / "words.vec"
    write_vec(path, vectors)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(static_vectors.os, "fsync", full)
    with pytest.raises(OutputError, match=r"No space left on device"):
        write_vec(path, StaticVectors(["other"], np.ones((1, 7))))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["words.vec"]


_PEAK = """
import re, sys
from crosslens.readers import static_vectors

def peak():  # bytes; getrusage would count the memory of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1)) * 1024

static_vectors._BLOCK = 1 << 20
static_vectors.read_vec(sys.argv[1])  # everything that reading needs is loaded
before = peak()
vectors = static_vectors.read_vec(sys.argv[2])
print(peak() - before, vectors.vectors.nbytes)
"""


def test_memory_grows_with_the_vectors_not_with_the_file(tmp_path):
    numbers = " ".join(["-0.12345678"] * 300)
    large, small = tmp_path / "large.vec", tmp_path / "small.vec"
    with open(large, "w") as file:
        file.writelines(f"w{i} {numbers}\n" for i in range(25_000))
    small.write_text("".join(f"w{i} {numbers}\n" for i in range(300)))
    run = subprocess.run(
        [sys.executable, "-c", _PEAK, small, large], capture_output=True, text=True, check=True
    )
    grown, size = map(int, run.stdout.split())
    assert large.stat().st_size > 2.9 * size
    assert grown < 1.5 * size  # the vectors once, and a block as text, as columns and as rows
