"""Bilingual dictionaries: the forms their files have, their pairs in two vocabularies, and every
refusal."""

import gzip

import numpy as np
import pytest

from crosslens.errors import InputError, OutputError
from crosslens.readers.dictionary import Dictionary, pairs_in, read_dictionary, write_dictionary


@pytest.fixture
def read(tmp_path):
    """Read a file of this text."""

    def read(text, **more):
        path = tmp_path / "en-fr.txt"
        path.write_text(text, encoding="utf-8", newline="")
        return read_dictionary(path, **more)

    return read


@pytest.mark.parametrize(
    "text",
    [
        "dog chien\ncat chat\n",
        "dog\tchien\ncat\tchat\n",
        "dog   chien\n\n cat\tchat \n \n",
        "dog chien\r\ncat\tchat\r\n",
        "\ufeffdog chien\ncat chat",
    ],
)
def test_spaces_and_tabs_separate_and_blank_lines_are_passed_over(read, text):
    dictionary = read(text)
    assert dictionary.pairs == [("dog", "chien"), ("cat", "chat")]
    assert (dictionary.scores, dictionary.duplicates) == (None, 0)


def test_words_may_hold_spaces_between_tabs_and_no_break_spaces_anywhere(read):
    assert read("New York\tla grosse pomme\n").pairs == [("New York", "la grosse pomme")]
    assert read("a\u00a0b c\u3000d\n").pairs == [("a\u00a0b", "c\u3000d")]


def test_pairs_on_several_lines_are_kept_once_and_counted(read, capsys):
    dictionary = read("dog chien\ndog chienne\ndog chien\nDog chien\ndog\tchien\n")
    assert dictionary.pairs == [("dog", "chien"), ("dog", "chienne"), ("Dog", "chien")]
    assert dictionary.duplicates == 2
    assert "2 line(s) left out, whose pairs stand on earlier lines" in capsys.readouterr().err
    assert dictionary.translations() == {"dog": ["chien", "chienne"], "Dog": ["chien"]}
    assert list(dictionary) == dictionary.pairs


def test_case_is_folded_only_on_request(read):
    assert read("Paris PARIS\nparis paris\n").pairs == [("Paris", "PARIS"), ("paris", "paris")]
    lower = read("Paris PARIS\nparis paris\n", lower=True)
    assert (lower.pairs, lower.duplicates) == ([("paris", "paris")], 1)


def test_scores_are_read_and_the_first_of_a_pair_counts(read):
    dictionary = read("dog\tchien\t0.5\ncat\tchat\t-1e-3\ndog\tchien\t0.9\n")
    assert (dictionary.scores, dictionary.duplicates) == ([0.5, -0.001], 1)


@pytest.mark.parametrize("scores", [None, [0.1, 1 / 3, -2.0]])
def test_what_is_written_is_read_again(tmp_path, scores):
    path = tmp_path / "induced.tsv"
    pairs = [("\ufeffa b", "c"), ("d\u00a0", "é"), ("\u00a0", "\u3000")]
    dictionary = Dictionary(pairs, scores)
    write_dictionary(path, dictionary)
    assert read_dictionary(path) == dictionary
    packed = tmp_path / "induced.tsv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_dictionary(packed) == dictionary


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a b\nc\n",
            (r"en-fr\.txt:2: expected source and target \(and a score, between tabs\)"),
        ),
        ("a b c\n", r"en-fr\.txt:1: .* got 3 columns, 'a b c'"),
        # a score needs tabs: else it may be a word
        ("a b 0.5\n", r"en-fr\.txt:1: .* got 3 columns"),
        ("\n\na\t\tb\n", r"en-fr\.txt:3: .* got 3 columns, 'a\\t\\tb'"),
        ("a\tb\tc\td\n", r"en-fr\.txt:1: .* got 4 columns"),
        ("a\t\n", r"en-fr\.txt:1: .* got 1 columns"),
        (
            "a\tb\tsure\n",
            r"en-fr\.txt:1: expected a finite score in column 3",
        ),
        ("a\tb\tnan\n", r"en-fr\.txt:1: expected a finite score in column 3"),
        (
            "a\tb\t1\nc\td\n",
            r"en-fr\.txt:2: expected a score on every line, or on none",
        ),
        ("a\tb\nc\td\t1\n", r"en-fr\.txt:2: expected a score on every line, or on none"),
        ("\n", r"en-fr\.txt: expected at least one"),
        ("", r"en-fr\.txt: expected at least one"),
        ("a\0 b\n", r"en-fr\.txt:1: expected text"),
    ],
)
def test_lines_that_are_wrong_are_refused_by_number(read, text, message):
    with pytest.raises(InputError, match=message):
        read(text)


def test_dictionaries_that_are_wrong_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"none\.txt: .*got no such file"):
        read_dictionary(tmp_path / "none.txt")
    with pytest.raises(InputError, match=r"pairs: .*got none"):
        Dictionary([])
    with pytest.raises(InputError, match=r"pairs\[1\]: .*got \('b', ''\)"):
        Dictionary([("a", "a"), ("b", "")])
    with pytest.raises(InputError, match=r"pairs\[1\]: .*got \('a', 'a'\)"):
        Dictionary([("a", "a"), ("a", "a")])
    with pytest.raises(InputError, match=r"scores: .*got 2"):
        Dictionary([("a", "a")], [1.0, 2.0])
    with pytest.raises(InputError, match=r"scores\[0\]: .*got nan"):
        Dictionary([("a", "a")], [float("nan")])
    for word in ("a\tb", "a\n", " a", "a ", "\ud83d"):
        with pytest.raises(InputError, match=r"pairs\[1\]: expected "):
            write_dictionary(tmp_path / "new.txt", Dictionary([("x", "y"), (word, "b")]))
    assert not (tmp_path / "new.txt").exists()
    with pytest.raises(OutputError, match="path: expected a file"):
        write_dictionary(tmp_path / "none" / "new.txt", Dictionary([("x", "y")]))


def test_pairs_are_those_of_a_loop_over_all_words():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    drawn = {(words[i], words[j]) for i, j in rng.integers(0, 60, size=(300, 2))}
    dictionary = Dictionary(sorted(drawn))
    words_x, words_y = ([str(word) for word in rng.permutation(words)[:40]] for _ in range(2))
    found = pairs_in(dictionary, words_x, words_y)
    pairs = {
        (i, j) for i, x in enumerate(words_x) for j, y in enumerate(words_y) if (x, y) in drawn
    }
    assert set(zip(found.x.tolist(), found.y.tolist(), strict=True)) == pairs
    assert len(found.x) == len(pairs)
    sources = {source for source, _ in drawn}
    covered = {words_x[i] for i, _ in pairs}
    assert (set(found.missing), found.sources) == (sources - covered, len(sources))
    assert found.coverage == len(covered) / len(sources)
    assert 0 < found.coverage < 1
    assert {x: set(ys.tolist()) for x, ys in found.gold().items()} == {
        i: {j for k, j in pairs if k == i} for i, _ in pairs
    }


def test_coverage_counts_sources_not_lines_and_case_is_kept():
    dictionary = Dictionary([("a", "x"), ("a", "y"), ("a", "z"), ("b", "x"), ("C", "x")])
    found = pairs_in(dictionary, ["b", "a", "c"], ["x", "z"])
    assert (found.x.tolist(), found.y.tolist()) == ([1, 1, 0], [0, 1, 0])
    assert (found.coverage, found.missing) == (2 / 3, ["C"])


def test_vocabularies_that_share_nothing_with_the_dictionary_are_refused():
    dictionary = Dictionary([("a", "x"), ("b", "y")])
    message = (
        r"dictionary: expected a pair that is in both lists of words, got none \(1 of 2 source "
        r"words are in words_x\); check"
    )
    with pytest.raises(InputError, match=message):
        pairs_in(dictionary, ["a", "c"], ["y"])
    with pytest.raises(InputError, match=r"words_y\[2\]: .*got 'x', the word"):
        pairs_in(dictionary, ["a"], ["x", "y", "x"])


def test_the_real_dictionaries_have_the_source_words_that_muse_names(shared_data):
    for pair in ("en-fr", "fr-en", "en-zh", "ru-en"):
        train, test = (
            read_dictionary(shared_data / "dictionaries" / f"{pair}.{part}.txt")
            for part in ("0-5000", "5000-6500")
        )
        assert (len(train.translations()), len(test.translations())) == (5000, 1500)
        assert not train.translations().keys() & test.translations().keys()
        assert (train.duplicates, test.duplicates) == (0, 0)
