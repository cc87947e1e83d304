"""From a recipe's files to streams: what is read, what is left out and counted, what is held out."""

import gzip

import numpy as np
import pytest
import toy_texts

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.models.data import build_streams, read_source, split_rows
from crosslens.models.settings import Source

WHY_LONG = "longer than 30 pieces"


def build(recipe, tokenizer, folder):
    return build_streams(recipe, {source.name: read_source(source) for source in recipe.sources}, tokenizer, folder)


def rewrite(folder, changes):
    """Put other sentences into rows of the toy texts: language to row to sentence."""
    for language, rows in changes.items():
        path = folder / f"toy.{language}"
        lines = path.read_text().splitlines()
        for row, sentence in rows.items():
            lines[row] = sentence
        toy_texts.write_lines(path, lines)


def test_plain_texts_are_parallel_by_line(tmp_path):
    texts = {"eng": toy_texts.write_lines(tmp_path / "e", ["one", "two"]), "fra": toy_texts.write_lines(tmp_path / "f", ["un", "deux"])}
    corpora = read_source(Source(name="s", texts=texts))
    assert corpora["eng"].sentences == ["one", "two"] and corpora["fra"].sentences == ["un", "deux"]
    toy_texts.write_lines(tmp_path / "f", ["un"])
    with pytest.raises(InputError, match="texts: expected the same number of lines in every language, got eng 2, fra 1; line i of each"):
        read_source(Source(name="s", texts=texts))


def test_columns_of_one_file_are_parallel_by_line(tmp_path):
    path = tmp_path / "both.tsv.gz"
    path.write_bytes(gzip.compress(b"one\tun\ntwo\tdeux\n"))
    corpora = read_source(Source(name="s", texts={"eng": str(path), "fra": str(path)}, columns={"eng": 0, "fra": 1}))
    assert corpora["eng"].sentences == ["one", "two"] and corpora["fra"].sentences == ["un", "deux"]


def test_with_ids_rows_belong_together_by_id(tmp_path):
    texts = {
        "eng": toy_texts.write_lines(tmp_path / "e", ["1\tone", "2\ttwo", "3\tthree", "5\tfive"]),
        "fra": toy_texts.write_lines(tmp_path / "f", ["5\tcinq", "3\ttrois", "2\tdeux"]),
        "deu": toy_texts.write_lines(tmp_path / "d", ["3\tdrei", "4\tvier", "5\tfünf"]),
    }
    corpora = read_source(Source(name="s", texts=texts, columns=dict.fromkeys(texts, 1), id_column=0))
    assert {language: corpus.sentences for language, corpus in corpora.items()} == {
        "eng": ["three", "five"],
        "fra": ["trois", "cinq"],
        "deu": ["drei", "fünf"],
    }
    assert all(corpus.ids == ["3", "5"] for corpus in corpora.values())


def test_sources_that_cannot_be_read_are_refused(tmp_path):
    texts = {"eng": toy_texts.write_lines(tmp_path / "e", ["1\tone"]), "fra": toy_texts.write_lines(tmp_path / "f", ["2\tdeux"])}
    with pytest.raises(InputError, match="s.columns: expected a column for fra, got none; name the column of its text"):
        read_source(Source(name="s", texts=texts, columns={"eng": 1}))
    with pytest.raises(InputError, match="s: expected ids that all languages share, got none; check the id column"):
        read_source(Source(name="s", texts=texts, columns={"eng": 1, "fra": 1}, id_column=0))


def test_a_clean_text_is_used_whole(toy_tokenizer, tmp_path):
    data = build(toy_texts.toy_recipe(tmp_path), toy_tokenizer, tmp_path / "tokens")
    assert [stream.name for stream in data.streams] == ["toy eng", "toy nld", "toy eng-nld"]
    assert all(len(stream.rows) == 140 for stream in data.streams)
    assert all(len(stream.rows) == 20 for stream in data.held_out.values()) and set(data.held_out) == {s.name for s in data.streams}
    assert not any(data.left_out.values())


def test_held_out_rows_are_the_same_everywhere_and_never_trained_on(toy_tokenizer, tmp_path):
    data = build(toy_texts.toy_recipe(tmp_path), toy_tokenizer, tmp_path / "tokens")
    held = {tuple(stream.rows.tolist()) for stream in data.held_out.values()}
    assert len(held) == 1 and not any(np.isin(stream.rows, list(held)[0]).any() for stream in data.streams)
    other = build(toy_texts.toy_recipe(tmp_path, seed=1), toy_tokenizer, tmp_path / "tokens")
    assert other.held_out["toy eng"].rows.tolist() != list(list(held)[0])


def test_everything_left_out_is_counted_with_its_reason(toy_tokenizer, tmp_path):
    recipe = toy_texts.toy_recipe(tmp_path, exclude=(toy_texts.write_lines(tmp_path / "test.txt", ["the test set"]),))
    clean = {s.name: s for s in build(recipe, toy_tokenizer, tmp_path / "tokens").streams}
    one, _ = toy_texts.two_languages(160)
    a, b, c, d, e, f = clean["toy eng"].rows[:6].tolist()
    rewrite(
        tmp_path,
        {
            "eng": {a: one[f], b: "the cat " * 40, d: "the test set", e: "same words"},  # f repeats a, in English only
            "nld": {c: "de hond " * 40, e: "same words"},
        },
    )
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    elsewhere = "with a held-out sentence in another row"
    assert data.left_out == {"excluded by the recipe": 1, elsewhere: 0, WHY_LONG: 2, "repeated": 1, "pairs not translated": 1}
    dropped = {stream.name: sorted(set(clean[stream.name].rows.tolist()) - set(stream.rows.tolist())) for stream in data.streams}
    assert dropped == {"toy eng": [b, d, f], "toy nld": [c, d], "toy eng-nld": [b, c, d, e]}


def test_a_held_out_sentence_is_in_no_training_row_and_not_in_the_vocabulary_s_text(toy_tokenizer, tmp_path):
    recipe = toy_texts.toy_recipe(tmp_path)
    before = build(recipe, toy_tokenizer, tmp_path / "tokens")
    one, _ = toy_texts.two_languages(160)
    kept, trained = int(before.held_out["toy eng"].rows[0]), int(before.streams[2].rows[5])
    rewrite(tmp_path, {"eng": {trained: one[kept]}})  # the same English sentence, with another translation
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    assert data.left_out["with a held-out sentence in another row"] == 1
    assert all(trained not in stream.rows for stream in data.streams)
    assert kept in data.held_out["toy eng"].rows
    rows = split_rows(recipe, {source.name: read_source(source) for source in recipe.sources})["toy"]
    assert not rows.train[trained] and not rows.held_out[trained] and not rows.train[kept]


def test_the_second_of_two_equal_pairs_is_left_out(toy_tokenizer, tmp_path):
    recipe = toy_texts.toy_recipe(tmp_path)
    rows = build(recipe, toy_tokenizer, tmp_path / "tokens").streams[2].rows
    one, other = toy_texts.two_languages(160)
    first, second = int(rows[3]), int(rows[9])
    rewrite(tmp_path, {"eng": {second: one[first]}, "nld": {second: other[first]}})
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    assert data.left_out["repeated"] == 3  # in each language and as a pair
    assert all(second not in stream.rows and first in stream.rows for stream in data.streams)


def test_a_sentence_without_pieces_is_not_used(toy_tokenizer, tmp_path):
    one, _ = toy_texts.two_languages(50)
    one[7] = " "  # which files cannot hold
    corpora = {"toy": {"eng": Corpus("eng", one, [str(i) for i in range(50)], "toy")}}
    data = build_streams(toy_texts.toy_recipe(tmp_path, tlm_share=0.0), corpora, toy_tokenizer, tmp_path / "tokens")
    used = np.concatenate([data.streams[0].rows, data.held_out["toy eng"].rows])
    assert sorted(used.tolist()) == [i for i in range(50) if i != 7]


def test_longest_sentences_fit_exactly(toy_tokenizer, tmp_path):
    recipe = toy_texts.toy_recipe(tmp_path, max_length=6)
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    for stream in data.streams:
        assert max(side.lengths[stream.rows].max() for side in stream.sides) == 6
    assert data.left_out["longer than 6 pieces"] > 0


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_probabilities_keep_the_shares_of_mlm_and_tlm(toy_tokenizer, tmp_path, share):
    recipe = toy_texts.toy_recipe(tmp_path, tlm_share=share)
    small, _ = toy_texts.two_languages(60, seed=5)
    extra = Source(name="extra", texts={"eng": toy_texts.write_lines(tmp_path / "x", small)}, weight=3.0)
    recipe = toy_texts.toy_recipe(tmp_path, tlm_share=share, sources=(*recipe.sources, extra), sample_exponent=0.5)
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    drawn = dict(zip([stream.name for stream in data.streams], data.probabilities, strict=True))
    assert data.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert drawn["toy eng-nld"] == pytest.approx(share, abs=1e-12)
    assert drawn["extra eng"] * np.sqrt(140) == pytest.approx(drawn["toy eng"] * 3 * np.sqrt(40), rel=1e-12)
    assert drawn["toy eng"] == pytest.approx(drawn["toy nld"], rel=1e-12)


def test_pairs_without_two_languages_are_refused(toy_tokenizer, tmp_path):
    one, _ = toy_texts.two_languages(60)
    source = Source(name="toy", texts={"eng": toy_texts.write_lines(tmp_path / "e", one)})
    recipe = toy_texts.toy_recipe(tmp_path, sources=(source,))
    with pytest.raises(
        InputError, match=r"tlm_share: expected 0 where no source has two languages, got 0.5; set tlm_share=0 or add parallel"
    ):
        build(recipe, toy_tokenizer, tmp_path / "tokens")


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_text_with_nothing_to_train_on_is_refused(toy_tokenizer, tmp_path, share):
    with pytest.raises(InputError, match="sources: expected sentences to train on, got none that is left; raise max_length"):
        build(toy_texts.toy_recipe(tmp_path, max_length=1, tlm_share=share), toy_tokenizer, tmp_path / "tokens")


def test_token_files_follow_text_and_vocabulary(toy_tokenizer, tmp_path):
    recipe = toy_texts.toy_recipe(tmp_path)
    before = build(recipe, toy_tokenizer, tmp_path / "tokens").streams[0]
    rewrite(tmp_path, {"eng": {int(before.rows[0]): "the cat sees the sea"}})
    after = build(recipe, toy_tokenizer, tmp_path / "tokens").streams[0]
    expected = toy_tokenizer.encode("the cat sees the sea", add_special_tokens=False).ids
    assert after.sides[0][int(before.rows[0])].tolist() == expected
