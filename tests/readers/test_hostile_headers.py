"""What a header promises takes no memory before a line has shown it; line ends of old Macs are
named."""

import gzip
import subprocess
import sys

import pytest

from crosslens.alignment.words.links import read_pharaoh
from crosslens.errors import InputError
from crosslens.readers.plain import open_text, read_lines, read_text
from crosslens.readers.static_vectors import read_vec
from crosslens.readers.words import read_conllu

LITTLE = """
import resource, sys
from crosslens.errors import CrosslensError
from crosslens.readers.static_vectors import read_vec
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_vec(sys.argv[1])
except CrosslensError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "header",
    ["3 20000000", "1000000000000 3", "3 999999999999999", "999999999999999 999999999999999"],
)
def test_the_first_line_of_vectors_is_believed_and_not_the_header(header, tmp_path):
    path = tmp_path / "v.vec"
    path.write_text(f"{header}\na 1 2 3\nb 1 2 3\nc 1 2 3\n")
    done = subprocess.run(
        [sys.executable, "-c", LITTLE, path], capture_output=True, text=True, timeout=60
    )
    told, more = done.stdout.splitlines()
    assert "v.vec:" in told and ": expected " in told and "as the header says" in told
    assert int(more) < 50_000  # kB


def test_a_number_with_thousands_of_digits_is_a_word_and_not_a_header(tmp_path):
    (tmp_path / "v.vec").write_text("9" * 5000 + " 3\n")
    assert len(read_vec(tmp_path / "v.vec").words[0]) == 5000


@pytest.mark.parametrize("link", ["0-4000000000", "9" * 5000 + "-0", "0p99999999999999999999"])
def test_links_to_words_that_no_sentence_has_are_refused(link, tmp_path):
    (tmp_path / "links").write_text(link + "\n")
    with pytest.raises(InputError, match="links:1: expected") as refused:
        read_pharaoh(tmp_path / "links")
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("number", ["9" * 10, "9" * 5000, "1-" + "9" * 10])
def test_words_with_huge_numbers_are_refused(number, tmp_path):
    (tmp_path / "a.conllu").write_text("\t".join([number, *"abcdefghi"]) + "\n\n")
    with pytest.raises(InputError, match=r"a\.conllu:1: expected a word's"):
        read_conllu(tmp_path / "a.conllu", "eng")


@pytest.mark.parametrize(
    "read", [read_lines, lambda path: read_text(path, "eng"), lambda path: open_text(path, "eng")]
)
@pytest.mark.parametrize(
    "content",
    ["one\rtwo\rthree\r", "one\rtwo", "one\rtwo\rthree\r\n", "\ufeffone\rtwo\rthree\rfour\n"],
)
def test_line_ends_of_old_macs_are_named(read, content, tmp_path):
    for name, data in (("a.txt", content.encode()), ("a.txt.gz", gzip.compress(content.encode()))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(
            InputError,
            match=r"expected lines that end with a line feed, got carriage returns alone",
        ):
            read(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("one\r\ntwo\nthree\r\n", ["one", "two", "three"]),
        ("one\r", ["one"]),
        ("a\rb\nc\nd\n", ["a\rb", "c", "d"]),
        ("a\u2028b\n\x85c\x0bd\x0c\n", ["a\u2028b", "\x85c\x0bd\x0c"]),
    ],
)
def test_other_marks_end_no_line(content, lines, tmp_path):
    (tmp_path / "a.txt").write_bytes(content.encode())
    assert read_lines(tmp_path / "a.txt") == lines
    assert list(open_text(tmp_path / "a.txt", "eng").sentences) == lines
