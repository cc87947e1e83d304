"""Token files: what the tokeniser says, kept on disk, and never half there."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from crosslens.errors import InputError, OutputError, StoreError
from crosslens.models.text import token_files as tokens
from crosslens.models.text.token_files import open_tokens

LINES = ["the cat sees a dog", "🙂 unseen", "de hond", "the big sun and the sea"] * 3
KEY = {"text": "a", "vocabulary": "b"}


def encode_text(tokenizer, sentences, folder, key, shift=0, size=0):
    """As the package does it, for a model whose ids are the tokeniser's, or some numbers further
    up."""
    here = tokenizer.get_vocab_size()
    return tokens.encode_text(
        tokenizer, np.arange(here) + shift, size or here + shift, sentences, folder, key
    )


def test_ids_are_the_models(toy_tokenizer, tmp_path):
    plain, moved = (
        encode_text(toy_tokenizer, LINES, tmp_path / "a", KEY),
        encode_text(toy_tokenizer, LINES, tmp_path / "b", KEY, 70_000),
    )
    assert moved.ids.dtype == np.uint32 and np.array_equal(
        moved.ids, plain.ids.astype(np.int64) + 70_000
    )
    assert np.array_equal(moved.offsets, plain.offsets)


def test_a_file_is_written_while_the_text_is_read(toy_tokenizer, tmp_path, monkeypatch):
    """The ids of chunks that are done are on disk (in the buffer of one file), not in memory."""
    monkeypatch.setattr(tokens, "_CHUNK", 100)
    sizes = []

    class Watched(list):
        def __getitem__(self, part):
            if isinstance(part, slice):
                sizes.append((tmp_path / "t.partial" / "ids.npy").stat().st_size)
            return super().__getitem__(part)

    file = encode_text(toy_tokenizer, Watched(LINES * 500), tmp_path / "t", KEY)
    assert len(sizes) == 60 and sizes[-1] > 0.8 * 2 * len(file.ids) and len(file) == 6000
    assert np.array_equal(
        file.ids, np.tile(encode_text(toy_tokenizer, LINES, tmp_path / "u", KEY).ids, 500)
    )


def test_a_vocabulary_that_no_token_type_holds_is_refused(toy_tokenizer, tmp_path):
    told = (
        "vocabulary.size: expected at most 4294967296 ids, what a token of 32 bits can be, got "
        "4294967297; lower it"
    )
    with pytest.raises(InputError, match=told):
        encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY, size=(1 << 32) + 1)
    assert not any(tmp_path.iterdir())


def test_a_text_without_pieces_is_refused(toy_tokenizer, tmp_path):
    with pytest.raises(InputError, match="t: .*got none"):
        encode_text(toy_tokenizer, [" ", ""], tmp_path / "t", KEY)
    assert not any(tmp_path.iterdir())


def test_an_interrupted_text_is_not_there(toy_tokenizer, tmp_path):
    with pytest.raises(TypeError):
        encode_text(toy_tokenizer, ["the cat", None], tmp_path / "t", KEY)
    assert not (tmp_path / "t").exists()
    assert len(encode_text(toy_tokenizer, ["the cat"], tmp_path / "t", KEY)) == 1


def test_the_ids_are_the_tokenisers(toy_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "_CHUNK", 5)  # so that the text is more than one chunk
    file = encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY)
    expected = [toy_tokenizer.encode(line, add_special_tokens=False).ids for line in LINES]
    assert len(file) == len(LINES) and [file[i].tolist() for i in range(len(file))] == expected
    assert file.lengths.tolist() == [len(ids) for ids in expected]
    again = open_tokens(tmp_path / "t")
    assert np.array_equal(again.ids, file.ids) and np.array_equal(again.offsets, file.offsets)
    assert isinstance(again.ids, np.memmap)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_sentence_without_pieces_keeps_its_row(toy_tokenizer, tmp_path):
    file = encode_text(toy_tokenizer, ["the cat", " ", "a dog"], tmp_path / "t", KEY)
    assert (
        file.lengths[1] == 0
        and len(file[1]) == 0
        and file[2].tolist() == toy_tokenizer.encode("a dog", add_special_tokens=False).ids
    )


def test_the_same_key_reuses_and_another_one_rewrites(toy_tokenizer, tmp_path):
    folder = tmp_path / "t"
    first = encode_text(toy_tokenizer, LINES, folder, KEY).ids.tolist()
    assert encode_text(toy_tokenizer, ["never looked at"], folder, dict(KEY)).ids.tolist() == first
    other = encode_text(toy_tokenizer, LINES[:2], folder, {**KEY, "text": "c"})
    assert len(other) == 2 and open_tokens(folder).ids.tolist() == other.ids.tolist() != first
    assert json.loads((folder / "manifest.json").read_text())["key"]["text"] == "c"


def test_what_a_killed_run_left_is_written_over(toy_tokenizer, tmp_path):
    (tmp_path / "t.partial").mkdir()
    (tmp_path / "t.partial" / "ids.npy").write_bytes(b"half")
    assert len(encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY)) == len(LINES)
    assert not (tmp_path / "t.partial").exists()


@pytest.mark.parametrize(("words", "dtype"), [(1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)])
def test_the_number_type_holds_the_largest_id(tmp_path, words, dtype):
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(words)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    file = encode_text(tokenizer, [f"w1 w{words - 1}"], tmp_path / "t", KEY)
    assert file.ids.dtype == dtype and file[0].tolist() == [1, words - 1]


def shorten(path, keep):
    path.write_bytes(path.read_bytes()[:keep])


@pytest.mark.parametrize("name", ["ids.npy", "offsets.npy"])
@pytest.mark.parametrize("keep", [0, 20, -3])
def test_a_truncated_file_is_refused(toy_tokenizer, tmp_path, name, keep):
    encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY)
    shorten(tmp_path / "t" / name, keep)
    with pytest.raises(StoreError, match="t/.+npy: expected"):
        encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY)


def test_ids_of_another_text_are_refused(toy_tokenizer, tmp_path):
    n = len(encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY).ids)
    np.save(tmp_path / "t" / "ids.npy", np.zeros(7, np.uint16))
    with pytest.raises(
        StoreError,
        match=f"expected {n} tokens of {len(LINES)} sentences, got 7 of .*; delete the folder",
    ):
        open_tokens(tmp_path / "t")


def test_offsets_of_another_text_are_refused(toy_tokenizer, tmp_path):
    encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY)
    np.save(tmp_path / "t" / "offsets.npy", np.arange(len(LINES) + 1))
    with pytest.raises(StoreError, match="offsets.npy: expected"):
        open_tokens(tmp_path / "t")


def test_a_folder_that_is_no_token_file_is_refused(tmp_path):
    with pytest.raises(StoreError, match="manifest.json: .*got no such file"):
        open_tokens(tmp_path)


@pytest.mark.parametrize("place", ["t", "t.partial"])
def test_a_folder_with_something_else_in_it_is_not_deleted(toy_tokenizer, tmp_path, place):
    (tmp_path / place).mkdir()
    (tmp_path / place / "thesis.tex").write_text("years of work")
    with pytest.raises(
        OutputError,
        match=(
            "expected a folder that crosslens has made, got one with 'thesis.tex' in it; move it "
            "away"
        ),
    ):
        encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY)
    assert (tmp_path / place / "thesis.tex").read_text() == "years of work"
