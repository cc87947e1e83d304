"""Streams of rows that are not single sentences: nothing is lost, nothing is invented, and a seed
decides everything."""

import collections

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.models.text.token_files import TokenFile
from crosslens.models.training.batches import plan_epoch
from crosslens.models.training.streams import (
    ContinuousStream,
    MixedSentences,
    PackedStream,
    SegmentStream,
    Text,
    by_language,
    shuffled_batches,
)

PAD, CLS, SEP = 0, 2, 3


def token_file(sentences, dtype=np.uint16):
    return TokenFile(
        np.array([i for s in sentences for i in s], dtype), np.cumsum([0, *map(len, sentences)])
    )


def text(sentences, language="eng", number=0, rows=None, dtype=np.uint16):
    rows = np.arange(len(sentences)) if rows is None else np.asarray(rows)
    return Text(language, number, token_file(sentences, dtype), rows)


def numbered(n, seed=0, low=1, high=9, start=10):
    """n sentences in which no token stands twice."""
    lengths = np.random.default_rng(seed).integers(low, high, size=n)
    ends = start + np.cumsum(lengths)
    return [
        list(range(end - length, end))
        for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
    ]


def two_languages():
    """English from two sources, with rows that are not used, and French; every token stands once.
    French comes second, numbered 2."""
    first, second, french = (
        numbered(60, 1),
        numbered(25, 2, start=1000),
        numbered(70, 3, start=100_000),
    )
    return [
        text(french, "fra", 2, dtype=np.uint32),
        text(first, rows=[i for i in range(60) if i % 7]),
        text(second, rows=np.arange(5, 25)),
    ]


def sentences_of(texts):
    return [text.file[row].tolist() for text in texts for row in text.rows.tolist()]


def served(stream, seed=(0,)):
    """The batches of an epoch, each checked for what all kinds promise."""
    batches = [stream.collate(items) for items in stream.plan(list(seed))]
    for batch in batches:
        assert all(
            a.dtype == np.int64
            for a in (batch.ids, batch.positions, batch.lengths, batch.languages)
        )
        assert (np.diff(batch.languages[:, 0]) >= 0).all() and (
            batch.languages == batch.languages[:, :1]
        ).all()
        real = np.arange(batch.ids.shape[1]) < batch.lengths[:, None]
        assert (
            (batch.ids[real] != PAD).all()
            and (batch.ids[~real] == PAD).all()
            and (batch.positions[~real] == 0).all()
        )
        assert np.array_equal(
            batch.positions[real], np.broadcast_to(np.arange(real.shape[1]), real.shape)[real]
        )
    return batches


def rows_of(batches):
    return [
        (int(b.languages[i, 0]), b.ids[i, : b.lengths[i]].tolist())
        for b in batches
        for i in range(len(b.ids))
    ]


def parts(row):
    """What stands between the marks of a row of ``[CLS] … [SEP]``."""
    found = []
    for token in row:
        if token == CLS:
            found.append([])
        elif token != SEP:
            found[-1].append(token)
    assert row == [t for part in found for t in [CLS, *part, SEP]]
    return found


EVERY = {
    "mixed sentences": lambda texts: MixedSentences("x", texts, 60),
    "continuous": lambda texts: ContinuousStream("x", texts, 12, 5),
    "packed": lambda texts: PackedStream("x", texts, 12, 5),
    "segments": lambda texts: SegmentStream("x", texts, 20, 5),
}


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("languages", [1, 2])
def test_an_epoch_is_a_function_of_its_seed(kind, languages):
    texts = two_languages()[2 - languages :]
    first, again = (EVERY[kind](texts) for _ in range(2))
    plan = [items.tolist() for items in first.plan([0, 2, 0])]
    first.plan([9])  # what was asked for in between does not matter
    assert (
        plan
        == [items.tolist() for items in first.plan([0, 2, 0])]
        == [items.tolist() for items in again.plan([0, 2, 0])]
    )
    assert plan != [items.tolist() for items in first.plan([0, 2, 1])]
    assert first.languages == ("eng", "fra")[:languages] and first.name == "x"


@pytest.mark.parametrize("kind", EVERY)
def test_mixed_batches_hold_rows_of_all_languages_sorted(kind):
    found = [set(batch.languages[:, 0].tolist()) for batch in served(EVERY[kind](two_languages()))]
    assert set().union(*found) == {0, 2} and {0, 2} in found


@pytest.mark.parametrize("kind", ["continuous", "packed", "segments"])
def test_rows_have_one_length_and_batches_one_size(kind):
    stream = EVERY[kind](two_languages())
    batches = [stream.collate(items) for items in stream.plan([4])]
    sizes = [batch.ids.shape for batch in batches]
    assert {width for _, width in sizes} == {stream.length}
    assert sorted(rows for rows, _ in sizes)[1:] == [5] * (len(sizes) - 1)  # at most one is smaller


def test_sentences_are_found_where_they_are():
    texts = two_languages()
    groups = by_language(texts)
    assert [(g.language, g.number, len(g)) for g in groups] == [("eng", 0, 71), ("fra", 2, 70)]
    found = [
        g.files[p].ids[s : s + c].tolist()
        for g in groups
        for p, s, c in zip(g.part, g.starts, g.counts, strict=True)
    ]
    assert found == sentences_of([texts[1], texts[2], texts[0]])
    rows = texts[1].rows.tolist()
    expected = (
        [False] + [b == a + 1 for a, b in zip(rows, rows[1:], strict=False)] + [False] + [True] * 19
    )
    assert groups[0].follows.tolist() == expected


def test_a_sentence_without_tokens_is_a_gap():
    [group] = by_language([text([[10], [], [11], [12]])])
    assert group.counts.tolist() == [1, 1, 1] and group.follows.tolist() == [False, False, True]


def test_shuffled_batches_have_everything_once():
    batches = shuffled_batches(23, 5, np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(23)) and [
        len(b) for b in batches
    ] == [5, 5, 5, 5, 3]
    assert all((np.diff(batch) > 0).all() for batch in batches)


def test_mixed_sentences_are_each_served_once_and_planned_by_length():
    texts = two_languages()
    stream = MixedSentences("x", texts, 60)
    batches = served(stream)
    found = [(language, part) for language, row in rows_of(batches) for part in parts(row)]
    expected = [
        (text.number, text.file[row].tolist()) for text in texts for row in text.rows.tolist()
    ]
    assert sorted(found) == sorted(expected) and stream.n == len(expected)
    assert stream.tokens == sum(int(batch.lengths.sum()) for batch in batches)
    assert max(batch.ids.size for batch in batches) <= 60
    lengths = np.array([len(s) + 2 for s in sentences_of([texts[1], texts[2], texts[0]])])
    assert [items.tolist() for items in stream.plan([5])] == [
        np.sort(items).tolist() for items in plan_epoch(lengths, 60, [5])
    ]


def xlm_batches(tokens, bs, bptt):
    """XLM's StreamDataset in its own steps: a buffer padded on the left, columns, a line of end
    signs above."""
    n_batches = -(-len(tokens) // (bs * bptt))
    buffer = np.full(n_batches * bptt * bs, SEP)
    buffer[len(buffer) - len(tokens) :] = tokens
    data = np.full((n_batches * bptt + 1, bs), SEP)
    data[1:] = buffer.reshape(bs, -1).T
    return buffer, data, [data[i * bptt : (i + 1) * bptt].T.tolist() for i in range(n_batches)]


def test_ten_tokens_in_two_columns_are_those_worked_out_by_hand():
    """Golden check 4: two batches of 2 x 3, two signs in front, and the last line of seven is never
    served."""
    stream = ContinuousStream("x", [text([[10, 11, 12], [13, 14], [15, 16]])], length=3, rows=2)
    assert (stream.n, stream.tokens) == (4, 10)
    batches = [stream.collate(np.arange(2 * i, 2 * i + 2)).ids.tolist() for i in range(2)]
    assert batches == [[[3, 3, 3], [3, 13, 14]], [[10, 11, 12], [3, 15, 16]]]
    # without the line above
    columns = [np.concatenate([batch[c] for batch in batches])[1:].tolist() for c in range(2)]
    # with the last line, which is two end signs here
    served_of_each = [*columns[0], 3, *columns[1], 3]
    assert served_of_each[2:] == [10, 11, 12, 3, 13, 14, 3, 15, 16, 3]


@pytest.mark.parametrize(("rows", "length"), [(1, 4), (2, 3), (5, 12), (3, 7), (16, 40), (200, 2)])
def test_the_continuous_text_is_xlms(rows, length):
    texts = two_languages()[1:]
    tokens = [t for sentence in sentences_of(texts) for t in [*sentence, SEP]]
    buffer, data, expected = xlm_batches(tokens, rows, length)
    stream = ContinuousStream("x", texts, length, rows)
    found = [stream.collate(np.arange(i * rows, (i + 1) * rows)) for i in range(len(expected))]
    assert [batch.ids.tolist() for batch in found] == expected
    assert stream.n == rows * len(expected) and stream.tokens == len(tokens)
    # the reference, too, gives the text back
    assert data[1:].T.ravel()[len(buffer) - len(tokens) :].tolist() == tokens
    plan = stream.plan([3])
    assert sorted(int(items[0]) // rows for items in plan) == list(range(len(expected)))
    assert all((np.diff(items) == 1).all() for items in plan)  # whole batches, in another order
    assert all(batch.lengths.tolist() == [length] * rows for batch in served(stream))


@pytest.mark.parametrize("languages", [1, 2])
@pytest.mark.parametrize("length", range(2, 9))
def test_no_batch_of_continuous_text_has_nothing_to_predict(languages, length):
    """A row alone is filled up in front with as many end signs as it has tokens, but for one."""
    texts = [text([[*range(10, 22)]]), text([[*range(30, 42)]], "fra", 1)][:languages]
    stream = ContinuousStream("x", texts, length, 1)
    batches = served(stream)
    assert all((batch.ids > SEP).any() for batch in batches)
    words = sorted(t for batch in batches for t in batch.ids.ravel().tolist() if t != SEP)
    assert words == sorted(t for one in texts for t in one.file.ids.tolist())


def test_mixed_continuous_rows_are_those_of_each_language():
    texts = two_languages()
    alone = [ContinuousStream("x", mine, 12, 5) for mine in (texts[1:], texts[:1])]
    expected = collections.Counter(
        (n, tuple(row)) for s, n in zip(alone, (0, 2), strict=True) for _, row in rows_of(served(s))
    )
    mixed = ContinuousStream("x", texts, 12, 5)
    assert (
        collections.Counter((language, tuple(row)) for language, row in rows_of(served(mixed)))
        == expected
    )
    assert mixed.tokens == sum(s.tokens for s in alone) and mixed.n == sum(s.n for s in alone)


@pytest.mark.parametrize("texts", [two_languages()[1:], two_languages()], ids=["one", "mixed"])
def test_packed_rows_hold_every_sentence_once(texts):
    stream = PackedStream("x", texts, 12, 5)
    for seed in ((0,), (1,)):
        batches = served(stream, seed)
        found = [(language, part) for language, row in rows_of(batches) for part in parts(row)]
        assert sorted(found) == sorted(
            (t.number, t.file[row].tolist()) for t in texts for row in t.rows.tolist()
        )
        assert stream.n == len(found) and stream.tokens == sum(
            int(batch.lengths.sum()) for batch in batches
        )


def test_packing_is_greedy():
    texts = two_languages()[1:]
    stream = PackedStream("x", texts, 12, 5)
    rows = [parts(row) for _, row in rows_of(served(stream))]
    for row, following in zip(rows, rows[1:], strict=False):
        # the next row's first would not have fitted
        assert sum(len(part) + 2 for part in [*row, following[0]]) > 12


def test_a_sentence_longer_than_a_row_is_cut_and_nothing_is_lost():
    long = list(range(10, 10 + 25))
    stream = PackedStream("x", [text([long, [99]])], 12, 3)
    found = sorted(part for _, row in rows_of(served(stream)) for part in parts(row))
    assert found == [long[:10], long[10:20], long[20:], [99]] and (stream.n, stream.tokens) == (
        4,
        26 + 8,
    )


def segments_of(batch, i):
    row, segment = (
        batch.ids[i, : batch.lengths[i]].tolist(),
        batch.segments[i, : batch.lengths[i]].tolist(),
    )
    middle = row.index(SEP)
    assert row[0] == CLS and row[-1] == SEP and row.count(SEP) == 2 and row.count(CLS) == 1
    assert segment == [0] * (middle + 1) + [1] * (len(row) - middle - 1)
    return row[1:middle], row[middle + 1 : -1]


def pairs_of(stream, seed=(0,)):
    """(language, A, B, following) of all pairs of an epoch."""
    found = []
    for batch in served(stream, seed):
        assert (
            batch.following.shape == (len(batch.ids),)
            and batch.segments.dtype == batch.following.dtype == np.int64
        )
        padding = np.arange(batch.ids.shape[1]) >= batch.lengths[:, None]
        assert (batch.segments[padding] == 0).all()
        for i in range(len(batch.ids)):
            found.append(
                (int(batch.languages[i, 0]), *segments_of(batch, i), int(batch.following[i]))
            )
    return found


def test_what_follows_really_follows_and_the_rest_is_elsewhere():
    texts = two_languages()
    long_enough = SegmentStream("x", texts, 40, 5, short=0.0)
    where = {
        token: (t.language, k, int(row))
        for k, t in enumerate(texts)
        for row in t.rows
        for token in t.file[row].tolist()
    }
    names = {0: "eng", 2: "fra"}
    for seed in range(5):
        for language, a, b, following in pairs_of(long_enough, (seed,)):
            assert {where[token][0] for token in a + b} == {names[language]}
            assert len(a) + len(b) <= 37 and a and b
            for segment in (a, b):  # tokens and rows run on
                places = [where[token][1:] for token in segment]
                assert len({k for k, _ in places}) == 1 and segment == list(
                    range(segment[0], segment[-1] + 1)
                )
                assert {row for _, row in places} == set(range(places[0][1], places[-1][1] + 1))
            (k, last), (other, first) = where[a[-1]][1:], where[b[0]][1:]
            if following:
                # tokens are numbered through a text; what is cut is less than the longest sentence
                gap = b[0] - a[-1] - 1
                assert other == k and 0 <= gap < 8 and (gap == 0 or len(a) + len(b) == 37)
                assert gap or first in (last, last + 1)
            else:
                assert not set(a) & set(b)
                assert (other, first) != (k, last + 1)


def test_about_half_follow_and_some_are_shorter():
    texts = [text(numbered(4000, 4, low=2, high=6))]
    pairs = pairs_of(SegmentStream("x", texts, 32, 8))
    follows = np.mean([following for *_, following in pairs])
    # five standard deviations; short targets may have one sentence
    assert abs(follows - 0.5) < 5 * 0.5 / np.sqrt(len(pairs)) + 0.01
    lengths = np.array([len(a) + len(b) for _, a, b, _ in pairs])
    # a tenth is shorter, a part of these only a little
    assert lengths.max() == 29 and 0.03 < (lengths < 20).mean() < 0.12
    never = np.array(
        [len(a) + len(b) for _, a, b, _ in pairs_of(SegmentStream("x", texts, 32, 8, short=0.0))]
    )
    assert (never < 20).mean() < 0.02  # B's at the end of the text


@pytest.mark.parametrize("short", [0.0, 0.1, 1.0])
def test_every_sentence_is_a_or_a_b_that_follows_once(short):
    texts = two_languages()
    stream = SegmentStream("x", texts, 400, 5, short=short)  # so long that nothing is cut
    used = [a + (b if following else []) for _, a, b, following in pairs_of(stream)]
    tokens = sorted(token for segment in used for token in segment)
    assert tokens == sorted(token for sentence in sentences_of(texts) for token in sentence)
    assert stream.n == len(sentences_of(texts)) and stream.tokens == len(tokens)


def truncated_one_by_one(a, b, room):
    """How the paper's code cuts: a token off the longer one, again and again."""
    while a + b > room:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    return a, b


def test_long_segments_are_cut_as_the_papers_code_cuts():
    texts = [text(numbered(300, 6, low=1, high=40))]
    stream = SegmentStream("x", texts, 24, 5)
    [group] = by_language(texts)
    drawn = stream._pairs(group, np.random.default_rng([8]))  # the first thing that a plan draws
    expected = collections.Counter(
        truncated_one_by_one(a, b, 21) + (following,) for _, _, a, b, following in drawn
    )
    assert (
        collections.Counter(
            (len(a), len(b), following) for _, a, b, following in pairs_of(stream, (8,))
        )
        == expected
    )
    assert any(a + b > 21 for _, _, a, b, _ in drawn)
    begins = {sentence[0] for sentence in sentences_of(texts)}
    heads = [a[0] in begins for _, a, _, _ in pairs_of(stream, (8,)) if len(a) > 9]
    assert True in heads and False in heads  # words are cut off at both ends


@pytest.mark.parametrize("n", [2, 3])
def test_the_smallest_texts_make_pairs(n):
    for rows in (range(n), range(0, 2 * n, 2)):
        stream = SegmentStream("x", [text(numbered(2 * n), rows=list(rows))], 12, 2)
        assert all(
            a and b and a != b for seed in range(20) for _, a, b, _ in pairs_of(stream, (seed,))
        )


def test_what_cannot_be_done_is_refused():
    texts = [text([[10, 11]])]
    with pytest.raises(InputError, match="text of eng: .*got 1"):
        SegmentStream("x", texts, 12, 2)
    with pytest.raises(InputError, match="max_length: .*got 4"):
        SegmentStream("x", texts, 4, 2)
    with pytest.raises(InputError, match="max_length: .*got 2"):
        PackedStream("x", texts, 2, 2)


def test_the_text_is_not_copied(tmp_path):
    """Ids stay in their file: what a stream keeps grows with sentences, not with tokens."""
    np.save(tmp_path / "ids.npy", np.arange(10, 5010, dtype=np.uint16))
    ids = np.load(tmp_path / "ids.npy", mmap_mode="r")
    texts = [Text("eng", 0, TokenFile(ids, np.arange(0, 5001, 1000)), np.arange(5))]
    for stream in (ContinuousStream("x", texts, 50, 4), SegmentStream("x", texts, 50, 4)):
        groups = stream._groups
        assert all(np.shares_memory(file.ids, ids) for group in groups for file in group.files)
        kept = [
            v
            for v in [*vars(stream).values(), *vars(groups[0]).values()]
            if isinstance(v, np.ndarray)
        ]
        assert sum(array.size for array in kept) < 100
