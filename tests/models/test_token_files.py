"""Token files: what the tokeniser says, kept on disk, and never half there."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from crosslens.errors import StoreError
from crosslens.models import tokens
from crosslens.models.tokens import encode_text, open_tokens

LINES = ["the cat sees a dog", "🙂 unseen", "de hond", "the big sun and the sea"] * 3
KEY = {"text": "a", "vocabulary": "b"}


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
    assert file.lengths[1] == 0 and len(file[1]) == 0 and file[2].tolist() == toy_tokenizer.encode("a dog", add_special_tokens=False).ids


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
    with pytest.raises(StoreError, match=r"t: expected a token file, got .+; delete the folder and run the same command again"):
        encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY)


def test_ids_of_another_text_are_refused(toy_tokenizer, tmp_path):
    n = len(encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY).ids)
    np.save(tmp_path / "t" / "ids.npy", np.zeros(7, np.uint16))
    with pytest.raises(StoreError, match=f"expected {n} tokens, got 7; delete the folder"):
        open_tokens(tmp_path / "t")


def test_offsets_of_another_text_are_refused(toy_tokenizer, tmp_path):
    n = len(encode_text(toy_tokenizer, LINES, tmp_path / "t", KEY).ids)
    np.save(tmp_path / "t" / "offsets.npy", np.arange(len(LINES) + 1))
    with pytest.raises(StoreError, match=rf"expected {n} tokens, got .*; delete the folder"):
        open_tokens(tmp_path / "t")


def test_a_folder_that_is_no_token_file_is_refused(tmp_path):
    with pytest.raises(StoreError, match="expected a token file, got .*No such file"):
        open_tokens(tmp_path)
