"""From a recipe's files to streams: what is read, what is left out and counted, what is held
out."""

import collections
import dataclasses
import gzip

import numpy as np
import pytest
import toy_texts

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.models.text.token_files import TokenFile
from crosslens.models.text.vocabularies import Vocabularies
from crosslens.models.training.batches import Stream
from crosslens.models.training.data import _same, _usable, build_streams
from crosslens.models.training.settings import Source
from crosslens.models.training.sources import fit_to_text, read_source, split_rows
from crosslens.models.training.streams import (
    ContinuousStream,
    MixedSentences,
    PackedStream,
    SegmentStream,
)

WHY_LONG = "longer than 30 subwords"


def joint(tokenizer, languages):
    n = tokenizer.get_vocab_size()
    return Vocabularies(
        "joint",
        dict.fromkeys(languages, tokenizer),
        dict.fromkeys(languages, np.arange(n)),
        dict.fromkeys(languages, n),
    )


def build(recipe, tokenizer, folder, corpora=None):
    corpora = corpora or {source.name: read_source(source) for source in recipe.sources}
    return build_streams(recipe, corpora, joint(tokenizer, recipe.languages), folder)


def rewrite(folder, changes):
    """Put other sentences into rows of the toy texts: language to row to sentence."""
    for language, rows in changes.items():
        path = folder / f"toy.{language}"
        lines = path.read_text().splitlines()
        for row, sentence in rows.items():
            lines[row] = sentence
        toy_texts.write_lines(path, lines)


def test_plain_texts_are_parallel_by_line(tmp_path):
    texts = {
        "eng": toy_texts.write_lines(tmp_path / "e", ["one", "two"]),
        "fra": toy_texts.write_lines(tmp_path / "f", ["un", "deux"]),
    }
    corpora = read_source(Source(name="s", texts=texts))
    assert corpora["eng"].sentences == ["one", "two"] and corpora["fra"].sentences == ["un", "deux"]
    toy_texts.write_lines(tmp_path / "f", ["un"])
    with pytest.raises(InputError, match="texts: .*got eng 2, fra"):
        read_source(Source(name="s", texts=texts))


def test_columns_of_one_file_are_parallel_by_line(tmp_path):
    path = tmp_path / "both.tsv.gz"
    path.write_bytes(gzip.compress(b"one\tun\ntwo\tdeux\n"))
    corpora = read_source(
        Source(name="s", texts={"eng": str(path), "fra": str(path)}, columns={"eng": 0, "fra": 1})
    )
    assert corpora["eng"].sentences == ["one", "two"] and corpora["fra"].sentences == ["un", "deux"]


def test_with_ids_rows_belong_together_by_id(tmp_path):
    texts = {
        "eng": toy_texts.write_lines(tmp_path / "e", ["1\tone", "2\ttwo", "3\tthree", "5\tfive"]),
        "fra": toy_texts.write_lines(tmp_path / "f", ["5\tcinq", "3\ttrois", "2\tdeux"]),
        "deu": toy_texts.write_lines(tmp_path / "d", ["3\tdrei", "4\tvier", "5\tfünf"]),
    }
    corpora = read_source(
        Source(name="s", texts=texts, columns=dict.fromkeys(texts, 1), id_column=0)
    )
    assert {language: corpus.sentences for language, corpus in corpora.items()} == {
        "eng": ["three", "five"],
        "fra": ["trois", "cinq"],
        "deu": ["drei", "fünf"],
    }
    assert all(corpus.ids == ["3", "5"] for corpus in corpora.values())


def test_an_id_that_stands_twice_is_refused_with_its_line_and_language(tmp_path):
    texts = {
        "eng": toy_texts.write_lines(tmp_path / "e", ["1\tone", "2\ttwo", "3\tthree"]),
        "fra": toy_texts.write_lines(tmp_path / "f", ["1\tun", "2\tdeux", "1\tune"]),
    }
    told = (
        r"/f:3: expected an id that no other line of fra has, got '1', which line 1 has too; give "
        r"each sentence an id of its own"
    )
    with pytest.raises(InputError, match=told):
        read_source(Source(name="s", texts=texts, columns=dict.fromkeys(texts, 1), id_column=0))


@pytest.mark.parametrize("repeats", ["eng", "nld"])
@pytest.mark.parametrize("units", ["sentences", "stream"])
def test_a_sentence_that_is_held_out_of_every_row_is_refused_where_it_stands(
    tmp_path, repeats, units
):
    recipe = toy_texts.toy_recipe(tmp_path, units=units)
    rewrite(tmp_path, {repeats: dict.fromkeys(range(160), "a cat")})
    corpora = {source.name: read_source(source) for source in recipe.sources}
    told = (
        f"text of {repeats} in toy: .* got 140 of 160 rows with sentences that are held out in "
        f"others, such as 'a cat'"
    )
    with pytest.raises(InputError, match=told):
        fit_to_text(recipe, corpora)


def test_excluding_all_sentences_names_the_language_that_has_them(tmp_path):
    recipe = toy_texts.toy_recipe(tmp_path)
    recipe = dataclasses.replace(recipe, exclude=(recipe.sources[0].texts["nld"],))
    with pytest.raises(
        InputError,
        match=(
            "text of nld in toy: .* got 160 of 160 rows with sentences that are excluded, such as '"
        ),
    ):
        fit_to_text(recipe, {source.name: read_source(source) for source in recipe.sources})


def test_sources_that_cannot_be_read_are_refused(tmp_path):
    texts = {
        "eng": toy_texts.write_lines(tmp_path / "e", ["1\tone"]),
        "fra": toy_texts.write_lines(tmp_path / "f", ["2\tdeux"]),
    }
    with pytest.raises(InputError, match="s.columns: .*got none"):
        read_source(Source(name="s", texts=texts, columns={"eng": 1}))
    with pytest.raises(InputError, match="s: .*got none"):
        read_source(Source(name="s", texts=texts, columns={"eng": 1, "fra": 1}, id_column=0))


def test_a_clean_text_is_used_whole(toy_tokenizer, tmp_path):
    data = build(toy_texts.toy_recipe(tmp_path), toy_tokenizer, tmp_path / "tokens")
    assert [stream.name for stream in data.streams] == ["toy eng", "toy nld", "toy eng-nld"]
    assert all(len(stream.rows) == 140 for stream in data.streams)
    assert all(len(stream.rows) == 20 for stream in data.held_out.values()) and set(
        data.held_out
    ) == {s.name for s in data.streams}
    assert not any(data.left_out.values())


def test_held_out_rows_are_the_same_everywhere_and_never_trained_on(toy_tokenizer, tmp_path):
    data = build(toy_texts.toy_recipe(tmp_path), toy_tokenizer, tmp_path / "tokens")
    held = {tuple(stream.rows.tolist()) for stream in data.held_out.values()}
    assert len(held) == 1 and not any(
        np.isin(stream.rows, list(held)[0]).any() for stream in data.streams
    )
    other = build(toy_texts.toy_recipe(tmp_path, seed=1), toy_tokenizer, tmp_path / "tokens")
    assert other.held_out["toy eng"].rows.tolist() != list(list(held)[0])


def test_everything_left_out_is_counted_with_its_reason(toy_tokenizer, tmp_path):
    recipe = toy_texts.toy_recipe(
        tmp_path, exclude=(toy_texts.write_lines(tmp_path / "test.txt", ["the test set"]),)
    )
    clean = {s.name: s for s in build(recipe, toy_tokenizer, tmp_path / "tokens").streams}
    one, _ = toy_texts.two_languages(160)
    a, b, c, d, e, f = clean["toy eng"].rows[:6].tolist()
    rewrite(
        tmp_path,
        {
            # f repeats a, in English only
            "eng": {a: one[f], b: "the cat " * 40, d: "the test set", e: "same words"},
            "nld": {c: "de hond " * 40, e: "same words"},
        },
    )
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    elsewhere = "with a held-out sentence in another row"
    assert data.left_out == {
        "excluded by the recipe": 1,
        elsewhere: 0,
        WHY_LONG: 2,
        "repeated": 1,
        "pairs not translated": 1,
    }
    dropped = {
        stream.name: sorted(set(clean[stream.name].rows.tolist()) - set(stream.rows.tolist()))
        for stream in data.streams
    }
    assert dropped == {"toy eng": [b, d, f], "toy nld": [c, d], "toy eng-nld": [b, c, d, e]}


def test_a_held_out_sentence_is_in_no_training_row_and_not_in_the_vocabulary_s_text(
    toy_tokenizer, tmp_path
):
    recipe = toy_texts.toy_recipe(tmp_path)
    before = build(recipe, toy_tokenizer, tmp_path / "tokens")
    one, _ = toy_texts.two_languages(160)
    kept, trained = int(before.held_out["toy eng"].rows[0]), int(before.streams[2].rows[5])
    # the same English sentence, with another translation
    rewrite(tmp_path, {"eng": {trained: one[kept]}})
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    assert data.left_out["with a held-out sentence in another row"] == 1
    assert all(trained not in stream.rows for stream in data.streams)
    assert kept in data.held_out["toy eng"].rows
    rows = split_rows(recipe, {source.name: read_source(source) for source in recipe.sources})[
        "toy"
    ]
    assert not rows.train[trained] and not rows.held_out[trained] and not rows.train[kept]


def test_a_sentence_that_stands_first_in_an_unused_row_is_used_where_it_stands_again(
    toy_tokenizer, tmp_path
):
    recipe = toy_texts.toy_recipe(tmp_path)
    before = build(recipe, toy_tokenizer, tmp_path / "tokens")
    one, other = toy_texts.two_languages(160)
    kept = before.held_out["toy eng"].rows
    first, second, third = before.streams[2].rows[:3].tolist()
    assert first < kept[-1]
    # the first row has a held-out sentence in each language, so that it is not used, and the Dutch
    # one is trained on behind the second, which has another held-out sentence
    held_out = {"eng": one[kept[-1]], "nld": other[kept[-1]]}
    rewrite(
        tmp_path,
        {
            "eng": {first: held_out["eng"], second: one[kept[-2]]},
            "nld": {first: held_out["nld"], second: other[third]},
        },
    )
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    assert data.left_out["with a held-out sentence in another row"] == 2
    assert not data.left_out["repeated"]
    assert all(len(stream.rows) == 20 for stream in data.held_out.values())
    assert all(third in stream.rows for stream in data.streams)


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
    source = Source(name="toy", texts={"eng": "nowhere"})
    data = build(
        toy_texts.toy_recipe(tmp_path, tlm_share=0.0, sources=(source,)),
        toy_tokenizer,
        tmp_path / "tokens",
        corpora,
    )
    used = np.concatenate([data.streams[0].rows, data.held_out["toy eng"].rows])
    assert sorted(used.tolist()) == [i for i in range(50) if i != 7]


def test_longest_sentences_fit_exactly(toy_tokenizer, tmp_path):
    recipe = toy_texts.toy_recipe(tmp_path, max_length=6)
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    for stream in data.streams:
        assert max(side.lengths[stream.rows].max() for side in stream.sides) == 6
    assert data.left_out["longer than 6 subwords"] > 0


@pytest.mark.parametrize("languages", ["one", "mixed"])
def test_a_batch_without_room_for_what_comes_up_late_is_refused(toy_tokenizer, tmp_path, languages):
    recipe = toy_texts.toy_recipe(tmp_path, tlm_share=0.0, batch_languages=languages)
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    kept = int(data.held_out["toy eng"].rows[3])
    rewrite(tmp_path, {"eng": {kept: "the cat sat on " * 5}})
    most = {"batch_tokens": 21, "max_length": 30}
    with pytest.raises(
        InputError, match=r"batch_tokens: .* the longest item \(\d+ tokens\), got 21"
    ):
        build(dataclasses.replace(recipe, **most), toy_tokenizer, tmp_path / "tokens")
    # pairs are longer, and as rare as they are asked for
    rewrite(tmp_path, {"eng": {kept: "the cat"}})
    build(dataclasses.replace(recipe, **most), toy_tokenizer, tmp_path / "tokens")
    rare = dataclasses.replace(recipe, **most, tlm_share=1e-9)
    with pytest.raises(InputError, match="batch_tokens: .* the longest item"):
        build(rare, toy_tokenizer, tmp_path / "tokens")


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_probabilities_keep_the_shares_of_mlm_and_tlm(toy_tokenizer, tmp_path, share):
    recipe = toy_texts.toy_recipe(tmp_path, tlm_share=share)
    small, _ = toy_texts.two_languages(60, seed=5)
    extra = Source(
        name="extra", texts={"eng": toy_texts.write_lines(tmp_path / "x", small)}, weight=3.0
    )
    recipe = toy_texts.toy_recipe(
        tmp_path, tlm_share=share, sources=(*recipe.sources, extra), sample_exponent=0.5
    )
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    drawn = dict(zip([stream.name for stream in data.streams], data.probabilities, strict=True))
    assert data.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert drawn["toy eng-nld"] == pytest.approx(share, abs=1e-12)
    assert drawn["extra eng"] * np.sqrt(140) == pytest.approx(
        drawn["toy eng"] * 3 * np.sqrt(40), rel=1e-12
    )
    assert drawn["toy eng"] == pytest.approx(drawn["toy nld"], rel=1e-12)


def test_pairs_without_two_languages_are_refused(toy_tokenizer, tmp_path):
    one, _ = toy_texts.two_languages(60)
    source = Source(name="toy", texts={"eng": toy_texts.write_lines(tmp_path / "e", one)})
    recipe = toy_texts.toy_recipe(tmp_path, sources=(source,), tlm_share=0.5)
    with pytest.raises(InputError, match=r"tlm_share: .*got 0.5"):
        build(recipe, toy_tokenizer, tmp_path / "tokens")
    data = build(dataclasses.replace(recipe, tlm_share=None), toy_tokenizer, tmp_path / "tokens")
    assert [stream.name for stream in data.streams] == [
        "toy eng"
    ] and data.probabilities.tolist() == [1.0]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_language_with_nothing_to_train_on_is_named(toy_tokenizer, tmp_path, share):
    recipe = toy_texts.toy_recipe(tmp_path, tlm_share=share)
    rewrite(tmp_path, {"nld": {row: f"de hond {row} " * 40 for row in range(160)}})
    with pytest.raises(InputError, match="text of nld: .*got none that is"):
        build(recipe, toy_tokenizer, tmp_path / "tokens")
    with pytest.raises(InputError, match="text of eng: .*got none that is"):
        build(
            toy_texts.toy_recipe(tmp_path, max_length=1, tlm_share=share),
            toy_tokenizer,
            tmp_path / "tokens",
        )


def test_token_files_follow_text_and_vocabulary(toy_tokenizer, tmp_path):
    recipe = toy_texts.toy_recipe(tmp_path)
    before = build(recipe, toy_tokenizer, tmp_path / "tokens").streams[0]
    rewrite(tmp_path, {"eng": {int(before.rows[0]): "the cat sees the sea"}})
    after = build(recipe, toy_tokenizer, tmp_path / "tokens").streams[0]
    expected = toy_tokenizer.encode("the cat sees the sea", add_special_tokens=False).ids
    assert after.sides[0][int(before.rows[0])].tolist() == expected


def test_token_files_follow_the_numbering(toy_tokenizer, tmp_path):
    recipe = toy_texts.toy_recipe(tmp_path)
    corpora = {source.name: read_source(source) for source in recipe.sources}
    plain, other = joint(toy_tokenizer, recipe.languages), joint(toy_tokenizer, recipe.languages)
    n = toy_tokenizer.get_vocab_size()
    other.tables["nld"], other.sizes["nld"] = np.arange(n) + 500, n + 500
    before = (
        build_streams(recipe, corpora, plain, tmp_path / "tokens")
        .streams[1]
        .sides[0]
        .ids.astype(int)
    )
    after = build_streams(recipe, corpora, other, tmp_path / "tokens")
    assert np.array_equal(after.streams[1].sides[0].ids, before + 500)
    assert (after.counts["nld"].shape, after.counts["eng"].shape) == (
        (n + 500,),
        (n,),
    ) and not after.counts["nld"][:500].any()


def usable_row_by_row(group, texts, files, wanted, max_length, left_out):
    """As it was before it was vectorised, but that rows nobody has make no others repeated ones."""
    columns = [texts[language].sentences for language in group]
    n = len(columns[0])
    fit = np.ones(n, bool)
    for language in group:
        lengths = files[language].lengths
        left_out[f"longer than {max_length} subwords"] += (
            int((lengths > max_length).sum()) if len(group) == 1 else 0
        )
        fit &= (lengths <= max_length) & (lengths > 0)
    seen = set()
    for i in range(n):
        key = tuple(column[i] for column in columns)
        if wanted[i] and key in seen:
            fit[i] = False
            left_out["repeated"] += 1
        elif len(key) == 2 and key[0] == key[1]:
            fit[i] = False
            left_out["pairs not translated"] += 1
        if wanted[i]:
            seen.add(key)
    return fit


def test_usable_rows_are_those_of_the_loop():
    rng = np.random.default_rng(0)
    words = ["a", "b", "c", "d e", "f g h", "i j k l"]
    texts, files = {}, {}
    for language in ("eng", "nld", "deu"):
        lines = [words[i] for i in rng.integers(len(words), size=80)]
        texts[language] = Corpus(language, lines, [str(i) for i in range(80)], "toy")
        files[language] = TokenFile(
            np.zeros(0), np.concatenate([[0], np.cumsum([len(line.split()) for line in lines])])
        )
    for group in [("eng",), ("nld",), ("eng", "nld"), ("deu", "eng")]:
        for wanted in (np.ones(80, bool), rng.random(80) < 0.6):
            counted, expected = collections.Counter(), collections.Counter()
            fit = _usable(group, _same(texts), files, wanted, 3, counted)
            alone = usable_row_by_row(group, texts, files, wanted, 3, expected)
            assert np.array_equal(fit, alone) and +counted == +expected
            assert fit.any() and counted["repeated"]


def test_counts_are_those_of_the_training_sentences(toy_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("crosslens.models.training.data._CHUNK", 7)
    data = build(toy_texts.toy_recipe(tmp_path), toy_tokenizer, tmp_path / "tokens")
    for stream in data.streams[:2]:
        ids = [i for row in stream.rows for i in stream.sides[0][row].tolist()]
        expected = np.bincount(ids, minlength=toy_tokenizer.get_vocab_size())
        assert (
            np.array_equal(data.counts[stream.languages[0]], expected)
            and data.counts[stream.languages[0]].dtype == np.int64
        )
        assert not expected[[0, 2, 3, 4]].any()


def two_sources(tmp_path, **changes):
    """Two sources with English, one of them with Dutch too."""
    small, _ = toy_texts.two_languages(60, seed=5)
    extra = Source(name="extra", texts={"eng": toy_texts.write_lines(tmp_path / "x", small)})
    recipe = toy_texts.toy_recipe(tmp_path, **{"tlm_share": 0.0, "max_length": 20, **changes})
    return toy_texts.toy_recipe(
        tmp_path,
        **{"tlm_share": 0.0, "max_length": 20, **changes, "sources": (*recipe.sources, extra)},
    )


KINDS = {"stream": ContinuousStream, "packed": PackedStream, "nsp": SegmentStream}


@pytest.mark.parametrize("units", KINDS)
def test_joined_units_have_a_stream_for_each_language_over_all_sources(
    toy_tokenizer, tmp_path, units
):
    data = build(two_sources(tmp_path, units=units), toy_tokenizer, tmp_path / "tokens")
    mine = [stream for stream in data.streams if data.probabilities[data.streams.index(stream)] > 0]
    assert [(type(stream), stream.name, stream.languages) for stream in mine] == [
        (KINDS[units], "all eng", ("eng",)),
        (KINDS[units], "all nld", ("nld",)),
    ]
    shares = np.array([140 + 40, 140]) ** 0.7
    assert np.allclose(data.probabilities[:2], shares / shares.sum(), rtol=1e-12)  # by sentences
    assert [type(stream) for stream in data.held_out.values()] == [
        KINDS[units],
        KINDS[units],
        Stream,
    ]
    assert list(data.held_out) == ["all eng", "all nld", "toy eng-nld"]
    batch = mine[1].collate(mine[1].plan([0])[0])
    assert batch.ids.shape == (256 // 20, 20) and (batch.languages == 1).all()


@pytest.mark.parametrize("units", ["sentences", *KINDS])
def test_mixed_batches_are_one_stream(toy_tokenizer, tmp_path, units):
    share = 0.0 if units == "nsp" else 0.25
    recipe = two_sources(
        tmp_path, units=units, batch_languages="mixed", tlm_share=share, batch_tokens=256
    )
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    assert [stream.name for stream in data.streams] == ["all mixed", "toy eng-nld"]
    assert type(data.streams[0]) is {"sentences": MixedSentences, **KINDS}[units] and data.streams[
        0
    ].languages == ("eng", "nld")
    assert data.probabilities.tolist() == [1 - share, share]
    single = ["all eng", "all nld"] if units != "sentences" else ["toy eng", "toy nld", "extra eng"]
    assert sorted(data.held_out) == sorted([*single, "toy eng-nld"])
    found = {
        tuple(np.unique(data.streams[0].collate(items).languages))
        for items in data.streams[0].plan([0])
    }
    assert (0, 1) in found


@pytest.mark.parametrize("units", KINDS)
def test_joined_text_is_kept_as_it_is(toy_tokenizer, tmp_path, units):
    """A repeated sentence, and one longer than a row, are text like any other; they would not do as
    rows of their own."""
    recipe = two_sources(tmp_path, units=units)
    clean = build(recipe, toy_tokenizer, tmp_path / "tokens")
    rows = split_rows(recipe, {s.name: read_source(s) for s in recipe.sources})["toy"]
    a, b, c = np.flatnonzero(rows.train)[3:6].tolist()
    rewrite(tmp_path, {"nld": {a: "de hond " * 40, b: "de zee", c: "de zee"}})
    data = build(recipe, toy_tokenizer, tmp_path / "tokens")
    used = data.counts["nld"].sum() - clean.counts["nld"].sum()
    assert used > 50 and data.left_out["with a held-out sentence in another row"] == 0
    assert data.streams[1].tokens - clean.streams[1].tokens >= used


def test_pairs_beside_joined_units_fit_into_a_row(toy_tokenizer, tmp_path):
    data = build(
        two_sources(tmp_path, units="packed", tlm_share=0.5, max_length=8),
        toy_tokenizer,
        tmp_path / "tokens",
    )
    pairs = data.streams[-1]
    assert pairs.name == "toy eng-nld" and data.probabilities[-1] == 0.5
    assert max(side.lengths[pairs.rows].max() for side in pairs.sides) == 6


def test_held_out_text_has_little_in_front_of_it(toy_tokenizer, tmp_path):
    data = build(
        two_sources(tmp_path, units="stream", batch_tokens=20_000, max_length=20),
        toy_tokenizer,
        tmp_path / "tokens",
    )
    held = data.held_out["all nld"]
    assert held.n * held.length < held.tokens + held.rows * held.length and held.rows > 1


def test_sentences_that_are_held_out_for_segments_follow_each_other(toy_tokenizer, tmp_path):
    recipe = two_sources(tmp_path, units="nsp", max_length=16)
    rows = split_rows(recipe, {source.name: read_source(source) for source in recipe.sources})
    for part in rows.values():
        assert part.held_out.sum() == 20 and (np.diff(np.flatnonzero(part.held_out)) == 1).all()
    held = build(recipe, toy_tokenizer, tmp_path / "tokens").held_out["all eng"]
    following = np.concatenate([held.collate(items).following for items in held.plan([0])])
    assert 0 < following.sum() < len(following)


def test_blank_lines_of_a_data_set_are_counted_and_part_texts(toy_tokenizer, tmp_path):
    one, _ = toy_texts.two_languages(100)
    lines = [line for sentence in one for line in (sentence, "")]
    corpora = {"toy": {"eng": Corpus("eng", lines, [str(i) for i in range(200)], "toy")}}
    recipe = toy_texts.toy_recipe(
        tmp_path,
        tlm_share=0.0,
        units="packed",
        sources=(Source(name="toy", texts={"eng": "hf:x"}),),
    )
    data = build(recipe, toy_tokenizer, tmp_path / "tokens", corpora)
    assert data.left_out == {
        "excluded by the recipe": 0,
        "with a held-out sentence in another row": 0,
        "without words": 100,
    }
    assert data.streams[0].n + data.held_out["all eng"].n == 100


def test_a_data_set_is_read_where_a_source_names_one(monkeypatch):
    monkeypatch.setattr(
        "crosslens.models.training.sources.read_dataset",
        lambda address, language: Corpus(language, [address], ["0"], "x"),
    )
    corpora = read_source(Source(name="s", texts={"eng": "hf:x?field=en", "fra": "hf:x?field=fr"}))
    assert [corpus.sentences for corpus in corpora.values()] == [
        ["hf:x?field=en"],
        ["hf:x?field=fr"],
    ]
    with pytest.raises(InputError, match=r"s.columns: .*got {'eng': 1}"):
        read_source(Source(name="s", texts={"eng": "hf:x"}, columns={"eng": 1}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"units": "packed", "batch_tokens": 19},
            r"batch_tokens: expected room for a row \(max_length = 20 tokens\)",
        ),
        (
            {"units": "nsp", "tlm_share": 0.5},
            (r"tlm_share: expected 0 with units = nsp \(sentence pairs have no next sentence\)"),
        ),
        (
            {"units": "nsp", "validation": 1},
            (r"validation: expected at least 2 with units = nsp \(a pair needs two sentences\)"),
        ),
        (
            {"batch_languages": "mixed", "tlm_share": 1.0, "weight": 2.0},
            "extra.weight: expected 1 where sources are joined",
        ),
        (
            {"units": "stream", "weight": 0.5},
            ("extra.weight: expected 1 where sources are joined"),
        ),
        (
            {"units": "packed", "max_length": 2},
            "max_length: expected at least 3 tokens a row for these units",
        ),
        (
            {"units": "nsp", "max_length": 4},
            "max_length: expected at least 5 tokens a row for these units",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(toy_tokenizer, tmp_path, changes, told):
    weight = changes.get("weight", 1.0)
    recipe = two_sources(
        tmp_path, **{name: value for name, value in changes.items() if name != "weight"}
    )
    sources = (recipe.sources[0], dataclasses.replace(recipe.sources[1], weight=weight))
    with pytest.raises(InputError, match=told):
        build(dataclasses.replace(recipe, sources=sources), toy_tokenizer, tmp_path / "tokens")
