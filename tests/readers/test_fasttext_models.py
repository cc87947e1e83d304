"""fastText's models: vectors as the library gives them, the same file every time, and damage found
before the library sees it."""

import struct

import fasttext
import numpy as np
import pytest

from crosslens.errors import InputError, OutputError
from crosslens.readers import fasttext as fasttext_models
from crosslens.readers.fasttext import read_fasttext_bin, train_skipgram
from crosslens.readers.static_vectors import read_vec


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """A text in which a day word is always beside its own number word."""
    rng = np.random.default_rng(0)
    lines = [
        " ".join(f"{kind}{i}" for kind in rng.permutation(["dé", "num", "__label__w"]))
        for i in rng.integers(0, 6, size=3000)
    ]
    path = tmp_path_factory.mktemp("tokens") / "tokens.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


SMALL = {"d": 12, "epochs": 2, "buckets": 500}


@pytest.fixture(scope="module")
def trained(tokens):
    path = tokens.with_name("model.bin")
    return path, train_skipgram(tokens, path, **SMALL)


def composed(model, word):
    """The mean of the vectors that fastText itself names."""
    return np.mean(
        [model.get_input_vector(row) for row in model.get_subwords(word)[1]],
        axis=0,
        dtype=np.float64,
    )


@pytest.mark.parametrize("subwords", [(3, 6), (1, 2), (2, 2), (0, 0)])
def test_vectors_are_the_means_of_the_parts_that_fasttext_names(tokens, tmp_path, subwords):
    path = tmp_path / "model.bin"
    train_skipgram(tokens, path, **SMALL, subwords=subwords)
    model, vectors = fasttext.load_model(str(path)), read_fasttext_bin(path)
    assert vectors.words == model.get_words()
    assert np.allclose(
        vectors.vectors, [composed(model, word) for word in vectors.words], rtol=1e-6, atol=0
    )
    if subwords != (0, 0):
        other = ["num7", "dé", "日本語のことば", "naïveté", "\u00a0", "🙂🙂", "d"]
        other = [word for word in other if len(model.get_subwords(word)[1])]
        assert len(other) >= 6
        assert np.allclose(
            read_fasttext_bin(path, other).vectors,
            [composed(model, word) for word in other],
            rtol=1e-6,
            atol=0,
        )


def test_a_model_has_its_words_by_frequency_and_words_can_be_chosen(trained):
    path, vectors = trained
    assert set(vectors.words) == {
        "</s>",
        *(f"{kind}{i}" for kind in ("dé", "num", "__label__w") for i in range(6)),
    }
    words, counts = fasttext.load_model(str(path)).get_words(include_freq=True)
    assert list(counts) == sorted(counts, reverse=True)
    assert vectors.words == words
    most = read_fasttext_bin(path, most=3)
    assert (most.words, most.vectors.tolist()) == (words[:3], vectors.vectors[:3].tolist())
    asked = read_fasttext_bin(path, ["num7", "dé0", "</s>"])
    assert np.array_equal(asked.vectors[1:], vectors.vectors[vectors.rows(["dé0", "</s>"])])
    # lengths are those of the model, not 1
    assert np.ptp(np.linalg.norm(vectors.vectors, axis=1)) > 0.01


def test_one_thread_gives_the_same_file_every_time_in_both_forms(tokens, trained, tmp_path, capfd):
    path, vectors = trained
    again = train_skipgram(tokens, tmp_path / "again.bin", **SMALL)
    assert (tmp_path / "again.bin").read_bytes() == path.read_bytes()
    assert np.array_equal(again.vectors, vectors.vectors)
    train_skipgram(tokens, tmp_path / "again.vec", **SMALL)
    text = read_vec(tmp_path / "again.vec")
    assert text.words == vectors.words
    assert np.array_equal(text.vectors, vectors.vectors)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.bin", "again.vec"]
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_words_of_one_context_come_out_alike(tokens, tmp_path):
    vectors = train_skipgram(tokens, tmp_path / "words.vec", d=20, epochs=100, subwords=(0, 0))
    units = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    same = [units[vectors.row(f"dé{i}")] @ units[vectors.row(f"num{i}")] for i in range(6)]
    other = [
        units[vectors.row(f"dé{i}")] @ units[vectors.row(f"num{j}")]
        for i in range(6)
        for j in range(6)
        if i != j
    ]
    assert min(same) > max(other)


def test_without_subwords_there_are_no_vectors_for_other_words(tokens, tmp_path):
    path = tmp_path / "words.bin"
    train_skipgram(tokens, path, d=5, epochs=1, subwords=(0, 0))
    assert path.stat().st_size < 20_000  # and no table of n-grams
    message = (
        r"words\[1\]: expected a word of .*words\.bin, or one with n-grams that the model has, "
        r"got 'num7'; leave the word out"
    )
    with pytest.raises(InputError, match=message):
        read_fasttext_bin(path, ["num1", "num7"])


def test_every_cut_of_a_model_is_refused_and_so_is_anything_behind_it(trained, tmp_path):
    data = trained[0].read_bytes()
    path = tmp_path / "cut.bin"
    ends = [*range(1, 700, 7), *np.linspace(700, len(data) - 1, 50).astype(int)]
    for end in ends:
        path.write_bytes(data[:end])
        with pytest.raises(InputError, match=r"cut\.bin: expected"):
            read_fasttext_bin(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(
        InputError,
        match=(
            rf"expected a model of {len(data)} bytes with 12 dimensions, as it says, got "
            rf"{len(data) + 1} bytes"
        ),
    ):
        read_fasttext_bin(path)


@pytest.mark.parametrize("value", [-(2**31), -1, 0, 3, 10**9])
def test_counts_that_lie_are_refused(trained, tmp_path, value):
    data = bytearray(trained[0].read_bytes())
    path = tmp_path / "lies.bin"
    for at in (4, 8, 64, 68):  # version, dimensions, entries, words
        lie = bytearray(data)
        struct.pack_into("<i", lie, at, value)
        path.write_bytes(lie)
        with pytest.raises(InputError, match=r"lies\.bin: expected"):
            read_fasttext_bin(path)


def test_other_files_are_refused(trained, tmp_path):
    data = trained[0].read_bytes()
    path = tmp_path / "other.bin"
    path.write_bytes(b"2 3\na 1 2 3\n")
    with pytest.raises(InputError, match=r"other\.bin: .*got a file of"):
        read_fasttext_bin(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"got an empty file"):
        read_fasttext_bin(path)
    with pytest.raises(InputError, match=r"none\.bin: .*got No such file"):
        read_fasttext_bin(tmp_path / "none.bin")
    words = [f"{kind}{i}".encode() for kind in ("dé", "num", "__label__w") for i in range(6)] + [
        b"</s>"
    ]
    quantised = bytearray(data)
    quantised[8 + 56 + 28 + sum(len(word) + 10 for word in words)] = 1
    path.write_bytes(quantised)
    with pytest.raises(
        InputError, match=r"expected a model that is not quantised, got a quantised one"
    ):
        read_fasttext_bin(path)


def test_words_that_are_no_text_are_refused_or_replaced(trained, tmp_path, capsys):
    path = tmp_path / "bytes.bin"
    path.write_bytes(
        trained[0]
        .read_bytes()
        .replace("dé1\0".encode(), b"d\xff\xfe1\0")
        .replace("dé2\0".encode(), b"d\xfe\xff1\0")
    )
    with pytest.raises(InputError, match=r"bytes\.bin: .*got byte 0xf[ef]"):
        read_fasttext_bin(path)
    vectors = read_fasttext_bin(path, errors="replace")
    assert (vectors.duplicates, "d\ufffd\ufffd1" in vectors, len(vectors)) == (1, True, 18)
    assert "1 word(s) left out" in capsys.readouterr().err


def test_arguments_of_reading_are_refused(trained):
    path = trained[0]
    for words, most in (([], None), (["a"], 3)):
        with pytest.raises(InputError, match="words: expected"):
            read_fasttext_bin(path, words, most=most)
    with pytest.raises(InputError, match=r"words\[0\]: .*got a lone surrogate"):
        read_fasttext_bin(path, ["\ud83d"])
    with pytest.raises(InputError, match="most: expected a whole"):
        read_fasttext_bin(path, most=0)
    with pytest.raises(InputError, match="errors: expected one of"):
        read_fasttext_bin(path, errors="ignore")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"",
            (r"text\.txt: expected at least 2 different words that occur 5 times \(min_count\)"),
        ),
        (b"\n\n\n\n\n\n", r"got 0;"),
        (b"a " * 100, r"got 1;"),  # fastText would look for another word for ever
        (b"a " * 100 + b"\n" + b"b " * 4, r"got 1;"),
        (
            b"a b\n" * 9 + b"c \xff\n",
            (r"text\.txt:10: expected UTF-8 text"),
        ),
        (b"a b\n" * 9 + b"c \xc3", r"text\.txt:10: expected UTF-8 text"),
        (b"\x1f\x8b\x08", r"text\.txt:1: expected UTF-8 text"),
    ],
)
def test_texts_that_teach_nothing_are_refused(tmp_path, monkeypatch, data, message):
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    for block in (3, 1 << 24):
        monkeypatch.setattr(fasttext_models, "_BLOCK", block)
        with pytest.raises(InputError, match=message):
            train_skipgram(path, tmp_path / "new.vec", d=5)
    assert not (tmp_path / "new.vec").exists()


def test_arguments_of_training_are_refused(tokens, tmp_path):
    for name in ("d", "epochs", "min_count", "window", "negatives", "buckets", "threads"):
        with pytest.raises(InputError, match=rf"{name}: .*got 0"):
            train_skipgram(tokens, tmp_path / "new.vec", **{name: 0})
    for rate in (0.0, float("nan")):
        with pytest.raises(InputError, match="learning_rate: expected a number"):
            train_skipgram(tokens, tmp_path / "new.vec", learning_rate=rate)
    for subwords in ((0, 3), (4, 3)):
        with pytest.raises(InputError, match="subwords: expected the lengths"):
            train_skipgram(tokens, tmp_path / "new.vec", subwords=subwords)
    with pytest.raises(InputError, match=r"path: .*got new\.txt"):
        train_skipgram(tokens, tmp_path / "new.txt")
    with pytest.raises(OutputError, match="path: expected a file"):
        train_skipgram(tokens, tmp_path / "none" / "new.vec")
    with pytest.raises(InputError, match=r"none\.txt: .*got No such file"):
        train_skipgram(tmp_path / "none.txt", tmp_path / "new.vec")
    with pytest.raises(
        InputError,
        match=(
            r"expected a text that fastText can learn from, got Encountered NaN.*; lower "
            r"learning_rate"
        ),
    ):
        train_skipgram(tokens, tmp_path / "new.vec", d=5, buckets=10, learning_rate=1e9)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_written_whole_gets_no_name(tokens, tmp_path, monkeypatch):
    class HalfSaved:
        def __init__(self, model):
            self.model = model

        def __getattr__(self, name):
            return getattr(self.model, name)

        def save_model(self, path):
            self.model.save_model(path)
            with open(path, "r+b") as file:
                file.truncate(300)

    train = fasttext.train_unsupervised
    monkeypatch.setattr(
        fasttext, "train_unsupervised", lambda *args, **more: HalfSaved(train(*args, **more))
    )
    with pytest.raises(OutputError, match=r"path: .*got .*new\.bin"):
        train_skipgram(tokens, tmp_path / "new.bin", **SMALL)
    assert list(tmp_path.iterdir()) == []
