"""Vocabularies of several languages: which pieces are one id, and that what is loaded is what was
learnt."""

import json

import numpy as np
import pytest
import toy_texts
from transformers import AutoTokenizer

from crosslens.errors import InputError, OutputError, StoreError
from crosslens.models.text.tokenisation import SPECIAL_TOKENS, Vocabulary, train_tokenizer
from crosslens.models.text.vocabularies import (
    Overlap,
    Vocabularies,
    learn_vocabularies,
    load_vocabularies,
    save_vocabularies,
)

MODES = ["joint", "union", "disjoint", "separate"]
SETTINGS = {"size": 70, "kind": "bpe", "sentences": 200}
THIRD = ["el gato, el perro", "un sol (grande) y un mar", "el gato mira el sol", "a-b don't"] * 20


@pytest.fixture(scope="module")
def texts():
    one, other = toy_texts.two_languages(120)
    return {"eng": one, "nld": other, "spa": THIRD}


@pytest.fixture(scope="module")
def learnt(texts):
    return {mode: learn_vocabularies(texts, Vocabulary(**SETTINGS, mode=mode), 3) for mode in MODES}


@pytest.fixture(params=MODES)
def vocabularies(request, learnt):
    return learnt[request.param]


def names(tokenizer):
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)


# --- numbering


def test_joint_is_the_vocabulary_of_all_texts(texts, learnt):
    joint = learnt["joint"]
    assert (
        joint.tokenizers["eng"].to_str()
        == train_tokenizer(texts, Vocabulary(**SETTINGS), 3).to_str()
    )
    assert joint.tokenizers["eng"] is joint.tokenizers["nld"] is joint.tokenizers["spa"]
    assert joint.languages == ("eng", "nld", "spa") and set(joint.sizes.values()) == {
        joint.tokenizers["eng"].get_vocab_size()
    }


@pytest.mark.parametrize("mode", ["union", "disjoint", "separate"])
def test_a_language_s_own_vocabulary_does_not_depend_on_the_others(texts, learnt, mode):
    for language, lines in texts.items():
        alone = train_tokenizer({language: lines}, Vocabulary(**SETTINGS), 3)
        assert learnt[mode].tokenizers[language].to_str() == alone.to_str()
        assert alone.get_vocab_size() <= SETTINGS["size"]


def test_tables_lead_to_the_ids_of_the_model(vocabularies):
    for language, tokenizer in vocabularies.tokenizers.items():
        table, size = vocabularies.tables[language], vocabularies.sizes[language]
        assert (
            table.dtype == np.int64
            and len(table) == tokenizer.get_vocab_size()
            and len(np.unique(table)) == len(table)
        )
        assert table[:5].tolist() == [0, 1, 2, 3, 4] and table[5:].min() >= 5 and table.max() < size
        pieces = vocabularies.pieces(language)
        assert len(pieces) == size and pieces[:5] == list(SPECIAL_TOKENS)
        assert [pieces[i] for i in table] == names(tokenizer)


def test_joint_and_separate_tables_change_nothing(learnt):
    for mode in ("joint", "separate"):
        assert all(
            np.array_equal(table, np.arange(len(table))) for table in learnt[mode].tables.values()
        )
    assert [learnt[mode].shared_ids for mode in MODES] == [True, True, True, False]


def test_the_union_numbers_pieces_as_they_come_up(learnt):
    union, expected = learnt["union"], list(SPECIAL_TOKENS)
    for language in ("eng", "nld", "spa"):
        expected += [
            piece for piece in names(union.tokenizers[language])[5:] if piece not in expected
        ]
    assert union.pieces("eng") == union.pieces("spa") == expected
    assert set(union.sizes.values()) == {len(expected)}


def test_disjoint_pieces_are_all_new_ones(learnt):
    disjoint, expected = learnt["disjoint"], list(SPECIAL_TOKENS)
    for language in ("eng", "nld", "spa"):
        expected += names(disjoint.tokenizers[language])[5:]
    assert disjoint.pieces("nld") == expected and set(disjoint.sizes.values()) == {len(expected)}
    assert np.array_equal(
        np.sort(np.concatenate([table[5:] for table in disjoint.tables.values()])),
        np.arange(5, len(expected)),
    )


def test_separate_ids_are_each_language_s_own(learnt):
    separate = learnt["separate"]
    for language, tokenizer in separate.tokenizers.items():
        assert (
            separate.pieces(language) == names(tokenizer)
            and separate.sizes[language] == tokenizer.get_vocab_size()
        )


def test_learning_twice_gives_the_same_ids(texts, vocabularies):
    again = learn_vocabularies(texts, Vocabulary(**SETTINGS, mode=vocabularies.mode), 3)
    assert all(again.pieces(language) == vocabularies.pieces(language) for language in texts)


def test_unigram_pieces_are_united_too(texts):
    union = learn_vocabularies(
        texts, Vocabulary(size=70, kind="unigram", sentences=200, mode="union"), 0
    )
    ids = union.tables["nld"][union.tokenizers["nld"].encode("de kat").ids]
    assert "".join(union.pieces("nld")[i] for i in ids[1:-1] if i != 1).startswith("▁de")


# --- overlap


def test_overlap_is_what_sets_say(vocabularies):
    for a, b in (("eng", "nld"), ("spa", "eng"), ("nld", "nld")):
        first, second = (set(names(vocabularies.tokenizers[language])[5:]) for language in (a, b))
        shared = len(first & second) if vocabularies.mode in ("joint", "union") or a == b else 0
        overlap = vocabularies.overlap(a, b)
        assert overlap == Overlap(
            first=len(first), second=len(second), identical=len(first & second), shared=shared
        )
        every = len(first | second) if shared else len(first) + len(second)
        assert overlap.jaccard == pytest.approx(shared / every, rel=1e-12)


def test_overlap_has_the_ends_that_the_modes_promise(learnt):
    whole, some, *none = (learnt[mode].overlap("eng", "nld") for mode in MODES)
    assert whole.jaccard == 1.0 and 0 < some.jaccard < 1 and some.shared == some.identical
    assert all(overlap.jaccard == 0.0 and overlap.identical == some.identical for overlap in none)


def test_an_empty_overlap_is_zero():
    assert Overlap(first=0, second=0, identical=0, shared=0).jaccard == 0.0


# --- word starts


def test_words_start_at_spaces_and_punctuation(vocabularies):
    for language in vocabularies.languages:
        starts, pieces = vocabularies.starts(language), vocabularies.pieces(language)
        assert (
            starts.dtype == bool
            and starts.shape == (vocabularies.sizes[language],)
            and not starts[:5].any()
        )
        for piece, begins in zip(pieces[5:], starts[5:], strict=True):
            assert begins == (piece[0] in "▁,()-'"), piece
    pieces = set(vocabularies.pieces("spa"))
    assert {",", "(", "-", "'", "▁"} <= pieces


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("el gato, el perro", ["▁el", "▁gato", ",", "▁el", "▁perro"]),
        ("un (grande) sol", ["▁un", "▁", "(grande", ")", "▁sol"]),
        ("a-b don't", ["▁a", "-b", "▁don", "'t"]),
    ],
)
def test_words_are_put_together_from_their_pieces(learnt, text, words):
    union = learnt["union"]
    starts, pieces, found = union.starts("spa"), union.pieces("spa"), []
    for i in union.tables["spa"][
        union.tokenizers["spa"].encode(text, add_special_tokens=False).ids
    ]:
        found = [*found, pieces[i]] if starts[i] else [*found[:-1], found[-1] + pieces[i]]
    assert found == words


# --- saved and loaded


def test_what_is_loaded_is_what_was_saved(vocabularies, tmp_path):
    save_vocabularies(vocabularies, tmp_path / "new" / "folder", 64)
    loaded = load_vocabularies(tmp_path / "new" / "folder")
    assert (
        loaded.mode == vocabularies.mode
        and loaded.languages == vocabularies.languages
        and loaded.sizes == dict(vocabularies.sizes)
    )
    for language in loaded.languages:
        assert np.array_equal(loaded.tables[language], vocabularies.tables[language])
        assert loaded.tokenizers[language].to_str() == vocabularies.tokenizers[language].to_str()
    assert (len({id(tokenizer) for tokenizer in loaded.tokenizers.values()}) == 1) == (
        loaded.mode == "joint"
    )


def test_transformers_reads_the_folders(vocabularies, tmp_path):
    save_vocabularies(vocabularies, tmp_path, 64)
    for language in vocabularies.languages:
        theirs = AutoTokenizer.from_pretrained(
            tmp_path if vocabularies.mode == "joint" else tmp_path / language
        )
        assert (
            theirs("el gato")["input_ids"]
            == vocabularies.tokenizers[language].encode("el gato").ids
            and theirs.model_max_length == 64
        )


def test_the_index_is_written_last(vocabularies, tmp_path, monkeypatch):
    save_vocabularies(vocabularies, tmp_path, 64)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("crosslens.models.text.vocabularies.save_tokenizer", stop)
    with pytest.raises(KeyboardInterrupt):
        save_vocabularies(vocabularies, tmp_path, 64)
    with pytest.raises(
        InputError,
        match=(
            r"expected a folder with vocabulary.json, got none there; give a folder of saved "
            r"vocabularies"
        ),
    ):
        load_vocabularies(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "",
        "[]",
        "{}",
        '{"mode": "joint"}',
        '{"mode": "all", "languages": {"eng": {"sha256": "0"}}}',
        '{"mode": "joint", "languages": {}}',
    ],
)
def test_a_damaged_index_is_refused(learnt, tmp_path, content):
    save_vocabularies(learnt["union"], tmp_path, 64)
    (tmp_path / "vocabulary.json").write_text(content)
    with pytest.raises(StoreError, match=r"vocabulary.json(, key \S+)?: expected"):
        load_vocabularies(tmp_path)


@pytest.mark.parametrize(
    "name", ["../other", "/tmp", "", ".hidden", "a/b", "a..b", "a b", "a\nb", "x" * 101]
)
def test_an_index_names_no_folder_elsewhere(learnt, tmp_path, name):
    save_vocabularies(learnt["separate"], tmp_path / "own", 64)
    path = tmp_path / "own" / "vocabulary.json"
    index = json.loads(path.read_text())
    index["languages"][name] = index["languages"]["eng"]
    path.write_text(json.dumps(index))
    (tmp_path / "own" / "eng").rename(tmp_path / "other")
    with pytest.raises(StoreError, match="vocabulary.json, key languages: expected a name"):
        load_vocabularies(tmp_path / "own")


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_a_missing_damaged_or_other_tokeniser_is_refused(learnt, tmp_path, mode):
    save_vocabularies(learnt[mode], tmp_path, 64)
    path = tmp_path / "tokenizer.json" if mode == "joint" else tmp_path / "nld" / "tokenizer.json"
    whole = path.read_text(encoding="utf-8")
    other = json.loads(whole)
    other["model"]["merges"].pop()  # still a tokeniser
    path.write_text(json.dumps(other), encoding="utf-8")
    with pytest.raises(StoreError, match=r"tokenizer.json: .*got another"):
        load_vocabularies(tmp_path)
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    with pytest.raises(InputError, match="tokenizer.json: expected"):
        load_vocabularies(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="tokenizer.json: expected"):
        load_vocabularies(tmp_path)


# --- refusals


def renamed(vocabularies, name):
    one = {name: vocabularies.tokenizers["eng"]}
    return Vocabularies(
        vocabularies.mode,
        one,
        {name: vocabularies.tables["eng"]},
        {name: vocabularies.sizes["eng"]},
    )


@pytest.mark.parametrize("name", ["a/b", "..", ".eng", "", "/eng", "a\0b", "x" * 101])
def test_a_language_that_cannot_be_a_folder_is_refused(learnt, tmp_path, name):
    with pytest.raises(InputError, match=r"language: .*got '.*'"):
        save_vocabularies(renamed(learnt["separate"], name), tmp_path, 64)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_to_is_refused(learnt, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="folder: expected"):
        save_vocabularies(learnt["joint"], tmp_path / "file", 64)


@pytest.mark.parametrize("mode", MODES)
def test_texts_that_give_no_vocabulary_are_refused(mode):
    settings = Vocabulary(**SETTINGS, mode=mode)
    with pytest.raises(InputError, match="texts: .*got none"):
        learn_vocabularies({}, settings, 0)
    with pytest.raises(InputError, match=r"texts\[fra\]: .*got none"):
        learn_vocabularies({"eng": ["a"], "fra": []}, settings, 0)


def test_an_unknown_language_is_refused(vocabularies):
    for call in (
        vocabularies.pieces,
        vocabularies.starts,
        lambda name: vocabularies.overlap("eng", name),
    ):
        with pytest.raises(InputError, match="language: .*got 'fra'"):
            call("fra")
