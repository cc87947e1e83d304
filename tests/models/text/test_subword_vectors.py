"""Skip-gram vectors of subwords: what is learnt, and files that are refused."""

import numpy as np
import pytest
from toy_texts import two_languages

from crosslens.errors import InputError, StoreError
from crosslens.models.text.subword_vectors import (
    SkipGram,
    SubwordVectors,
    learn_subword_vectors,
    skipgram_of_ids,
    subword_counts,
)
from crosslens.models.text.token_files import encode_text
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.text.vocabularies import learn_vocabularies
from crosslens.readers.fasttext import train_skipgram

LINES = two_languages(60)[0]
SETTINGS = SkipGram(dimensions=6, epochs=2, window=3)


@pytest.fixture(scope="module")
def vocabulary():
    how = Vocabulary(size=60, kind="bpe", sentences=60, mode="separate")
    return learn_vocabularies({"eng": LINES}, how, seed=0)


@pytest.fixture(scope="module")
def texts(vocabulary, tmp_path_factory):
    """The first 50 sentences of 60."""
    folder = tmp_path_factory.mktemp("tokens") / "eng"
    told = (vocabulary.tokenizers["eng"], vocabulary.tables["eng"], vocabulary.sizes["eng"])
    return [(encode_text(*told, LINES, folder, {}), np.arange(50))]


@pytest.fixture(scope="module")
def learnt(vocabulary, texts, tmp_path_factory):
    place = tmp_path_factory.mktemp("learning") / "aside"
    return learn_subword_vectors(vocabulary, texts, SETTINGS, place, seed=3)


def test_vectors_are_fasttext_s_of_the_ids_in_an_order_of_the_seed(
    vocabulary, texts, learnt, tmp_path
):
    order = np.random.default_rng(3).permutation(50)
    tokenizer = vocabulary.tokenizers["eng"]
    lines = [
        " ".join(str(i) for i in tokenizer.encode(LINES[n], add_special_tokens=False).ids)
        for n in order
    ]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n")
    told = {"epochs": 2, "window": 3, "min_count": 1, "subwords": (0, 0)}
    theirs = train_skipgram(tmp_path / "t.txt", tmp_path / "t.vec", 6, **told)
    rows = {
        int(word): row
        for word, row in zip(theirs.words, theirs.vectors, strict=True)
        if word != "</s>"
    }
    for i, row in enumerate(learnt.vectors):
        assert np.array_equal(row, rows.get(i, np.zeros(6)))
    words = " ".join(lines).split()
    assert learnt.counts.tolist() == [words.count(str(i)) for i in range(len(learnt.counts))]
    assert np.array_equal(subword_counts(texts, len(learnt.counts)), learnt.counts)
    found = [int(word) for word in sorted(set(words), key=lambda w: (-words.count(w), int(w)))]
    assert learnt.by_frequency.tolist() == found and len(found) < len(learnt.counts) - 5


def test_ids_are_read_as_words_and_come_back_with_their_vectors(tmp_path):
    rows = [[7, 0, 3], [3, 7], [], [10, 3]] * 4
    ids, vectors = skipgram_of_ids(rows, SETTINGS, tmp_path)
    assert sorted(ids.tolist()) == [0, 3, 7, 10] and vectors.shape == (4, 6)
    (tmp_path / "t.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    told = {"epochs": 2, "window": 3, "min_count": 1, "subwords": (0, 0)}
    theirs = train_skipgram(tmp_path / "t.txt", tmp_path / "t.vec", 6, **told)
    for i, row in zip(ids.tolist(), vectors, strict=True):
        assert np.array_equal(row, theirs.vectors[list(theirs.words).index(str(i))])


def test_another_seed_gives_other_vectors(vocabulary, texts, learnt, tmp_path):
    other = learn_subword_vectors(vocabulary, texts, SETTINGS, tmp_path / "aside", seed=4)
    assert not np.array_equal(other.vectors, learnt.vectors)
    assert np.array_equal(other.counts, learnt.counts) and not (tmp_path / "aside").exists()


def test_a_seed_that_is_none_is_refused(vocabulary, texts, tmp_path):
    (tmp_path / "kept").touch()
    with pytest.raises(InputError, match="seed: expected a whole number from 0"):
        learn_subword_vectors(vocabulary, texts, SETTINGS, tmp_path, seed=-1)
    assert (tmp_path / "kept").exists()


def test_what_was_saved_is_loaded(learnt, tmp_path):
    assert not SubwordVectors.finished(tmp_path)
    learnt.save(tmp_path)
    again = SubwordVectors.load(tmp_path)
    assert again.language == "eng" and np.array_equal(again.vectors, learnt.vectors)
    assert np.array_equal(again.counts, learnt.counts)
    assert again.vocabulary.pieces("eng") == learnt.vocabulary.pieces("eng")


def test_what_is_not_whole_or_of_another_vocabulary_is_refused(learnt, vocabulary, tmp_path):
    with pytest.raises(InputError, match="expected a folder of subword vectors"):
        SubwordVectors.load(tmp_path / "none")
    learnt.save(tmp_path)
    file = tmp_path / "vectors.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    with pytest.raises(StoreError, match=r"SubwordVectors\.save"):
        SubwordVectors.load(tmp_path)
    how = Vocabulary(size=60, kind="bpe", sentences=60, mode="separate")
    other = learn_vocabularies({"eng": [line.upper() for line in LINES]}, how, seed=0)
    size = other.sizes["eng"]
    SubwordVectors(other, np.ones((size, 6), np.float32), np.ones(size, np.int64)).save(tmp_path)
    file.write_bytes(whole)
    with pytest.raises(StoreError, match=r"SubwordVectors\.save"):
        SubwordVectors.load(tmp_path)
