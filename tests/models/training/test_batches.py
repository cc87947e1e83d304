"""Batches: how languages are drawn, what an epoch holds, and how a batch is laid out."""

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.models.text.token_files import TokenFile
from crosslens.models.text.tokenisation import sampling_weights
from crosslens.models.training.batches import (
    Stream,
    lay_out,
    plan_epoch,
    ranges,
    schedule,
    take,
)


def token_file(sentences, dtype=np.uint16):
    return TokenFile(
        np.array([i for s in sentences for i in s], dtype), np.cumsum([0, *map(len, sentences)])
    )


def sampling_probabilities(counts, exponent):
    weights = sampling_weights(counts, exponent)
    return weights / weights.sum()


def test_sampling_probabilities_are_those_worked_out_by_hand():
    """Golden check 1."""
    assert sampling_probabilities([900, 100], 0.7).round(4).tolist() == [0.8232, 0.1768]
    assert sampling_probabilities([900, 100], 0.0).tolist() == [0.5, 0.5]
    # "evenly" in the words of XLM
    assert sampling_probabilities([900, 100], -1).tolist() == [0.5, 0.5]
    assert np.allclose(sampling_probabilities([900, 100], 1.0), [0.9, 0.1], rtol=1e-15)


def test_sampling_probabilities_do_not_depend_on_the_unit():
    assert np.allclose(
        sampling_probabilities([9, 3, 1], 0.4),
        sampling_probabilities([9_000_000, 3_000_000, 1_000_000], 0.4),
        rtol=1e-14,
    )
    assert sampling_probabilities([9, 3, 1], 0.4).sum() == pytest.approx(1, abs=1e-15)


def test_more_steps_continue_the_same_schedule():
    p = np.array([0.2, 0.5, 0.3])
    short, long = schedule(p, 40, 7), schedule(p, 100, 7)
    assert all(np.array_equal(a, b[:40]) for a, b in zip(short, long, strict=True))
    assert not np.array_equal(schedule(p, 40, 8)[0], short[0])


def test_turns_count_the_earlier_steps_of_the_stream():
    stream, turn = schedule(np.array([0.2, 0.5, 0.3]), 200, 1)
    assert turn.tolist() == [int((stream[:step] == stream[step]).sum()) for step in range(200)]


def test_streams_are_drawn_with_their_probabilities():
    p, steps = np.array([0.0, 0.1, 0.6, 0.3, 0.0]), 20_000
    shares = np.bincount(schedule(p, steps, 3)[0], minlength=5) / steps
    # five standard deviations; never where p is 0
    assert (np.abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / steps)).all()


@pytest.mark.parametrize(("n", "budget"), [(1, 50), (500, 60), (3000, 20)])
def test_an_epoch_has_every_item_once_and_no_batch_over_the_budget(n, budget):
    lengths = np.random.default_rng(0).integers(3, 21, size=n)
    batches = plan_epoch(lengths, budget, [0, 1])
    assert sorted(np.concatenate(batches).tolist()) == list(range(n))
    assert max(len(batch) * lengths[batch].max() for batch in batches) <= budget


def test_little_is_spent_on_padding():
    lengths = np.random.default_rng(0).integers(3, 61, size=4000)
    padded = sum(len(batch) * lengths[batch].max() for batch in plan_epoch(lengths, 1000, [0]))
    assert lengths.sum() / padded > 0.9  # in random order it would be about a half


def test_an_epoch_is_a_function_of_its_seed():
    lengths = np.random.default_rng(0).integers(3, 9, size=300)
    first, again, next_epoch = (
        plan_epoch(lengths, 64, seed) for seed in ([0, 2, 0], [0, 2, 0], [0, 2, 1])
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert [b.tolist() for b in first] != [b.tolist() for b in next_epoch]


@pytest.mark.parametrize("lengths", [[3, 65, 2], []])
def test_a_budget_below_the_longest_item_is_refused(lengths):
    longest = max(lengths, default=0)
    with pytest.raises(InputError, match=rf"batch_tokens: .*\({longest} tokens\), got 64"):
        plan_epoch(np.array(lengths, np.int64), 64, [0])


def stream_of(sides, rows, name="toy", numbers=(0, 1), batch_tokens=64):
    return Stream(
        name,
        sides,
        np.asarray(rows),
        ("eng", "fra")[: len(sides)],
        numbers[: len(sides)],
        batch_tokens,
    )


def test_single_sentences_are_laid_out_with_specials_and_padding():
    stream = stream_of((token_file([[10, 11], [12], [13, 14, 15]]),), [0, 2], numbers=(4,))
    assert (stream.lengths.tolist(), stream.n, stream.tokens) == ([4, 5], 2, 9)
    batch = stream.collate(np.array([1, 0]))
    assert batch.ids.tolist() == [[2, 13, 14, 15, 3], [2, 10, 11, 3, 0]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 0]]
    assert batch.lengths.tolist() == [5, 4] and batch.ids.dtype == np.int64
    assert (
        batch.languages.tolist() == [[4] * 5] * 2
        and batch.segments is None
        and batch.following is None
    )


def test_pairs_are_two_whole_sentences_with_positions_counted_anew():
    sides = token_file([[10, 11], [12], [13]]), token_file([[20], [21], [22, 23], [24]], np.uint32)
    stream = stream_of(sides, [0, 2, 1], numbers=(3, 1))
    assert stream.lengths.tolist() == [7, 7, 6]
    batch = stream.collate(np.array([0, 1, 2]))
    assert batch.ids.tolist() == [
        [2, 10, 11, 3, 2, 20, 3],
        [2, 13, 3, 2, 22, 23, 3],
        [2, 12, 3, 2, 21, 3, 0],
    ]
    assert batch.positions.tolist() == [
        [0, 1, 2, 3, 0, 1, 2],
        [0, 1, 2, 0, 1, 2, 3],
        [0, 1, 2, 0, 1, 2, 0],
    ]
    assert batch.languages.tolist() == [[3] * 4 + [1] * 3, [3] * 3 + [1] * 4, [3] * 3 + [1] * 4]
    assert batch.lengths.tolist() == [7, 7, 6]


def collate_row_by_row(stream, items):
    """The layout as a loop, as it was before it was vectorised: a run must not change."""
    lengths = stream.lengths[items]
    ids = np.zeros((len(items), lengths.max()), np.int64)
    positions = np.zeros_like(ids)
    for row, item in enumerate(stream.rows[items]):
        at = 0
        for side in stream.sides:
            pieces = side[item]
            end = at + len(pieces) + 2
            ids[row, at], ids[row, at + 1 : end - 1], ids[row, end - 1] = 2, pieces, 3
            positions[row, at:end] = np.arange(end - at)
            at = end
    return ids, positions, lengths


@pytest.mark.parametrize("sides", [1, 2])
def test_batches_are_those_of_the_loop(sides):
    rng = np.random.default_rng(0)
    files = tuple(
        token_file([rng.integers(5, 99, size=rng.integers(1, 12)) for _ in range(300)])
        for _ in range(sides)
    )
    stream = stream_of(files, np.flatnonzero(rng.random(300) < 0.8))
    for items in stream.plan([0, 2, 0]):
        batch = stream.collate(items)
        for array, expected in zip(
            (batch.ids, batch.positions, batch.lengths),
            collate_row_by_row(stream, items),
            strict=True,
        ):
            assert np.array_equal(array, expected) and array.dtype == np.int64
    assert [b.tolist() for b in stream.plan([3])] == [
        b.tolist() for b in plan_epoch(stream.lengths, 64, [3])
    ]


def test_the_order_of_an_epoch_is_the_one_that_runs_were_trained_with():
    """Worked out with the code of the first runs; when this changes, a run that was stopped cannot
    go on."""
    lengths = np.random.default_rng(5).integers(3, 9, size=9)
    assert [batch.tolist() for batch in plan_epoch(lengths, 16, [7, 2, 1, 0])] == [
        [2, 7, 4],
        [6, 5],
        [1, 3],
        [0, 8],
    ]
    assert schedule(np.array([0.2, 0.5, 0.3]), 12, 7)[0].tolist() == [
        2,
        1,
        2,
        2,
        1,
        2,
        1,
        1,
        0,
        1,
        0,
        1,
    ]


def test_each_side_of_a_pair_looks_as_it_does_alone():
    pairs = stream_of(
        (token_file([[10, 11], [12]]), token_file([[20], [21, 22, 23]])), np.arange(2)
    )
    both = pairs.collate(np.array([1]))
    at = 0
    for which in range(2):
        side = pairs.side(which)
        assert (side.languages, side.numbers) == (
            pairs.languages[which : which + 1],
            pairs.numbers[which : which + 1],
        )
        alone = side.collate(np.array([1]))
        end = at + int(alone.lengths[0])
        for name in ("ids", "positions", "languages"):
            assert np.array_equal(getattr(both, name)[:, at:end], getattr(alone, name))
        at = end


def test_ranges_and_places_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    starts, counts = rng.integers(100, size=50), rng.integers(4, size=50)
    assert ranges(starts, counts).tolist() == [
        int(s) + i for s, n in zip(starts, counts, strict=True) for i in range(n)
    ]
    assert (
        ranges(starts[:0], counts[:0]).tolist() == []
        and ranges(starts[:1], np.array([0])).tolist() == []
    )
    files = token_file([range(40)]), token_file([range(100, 140)], np.uint32)
    which, places = rng.integers(2, size=30), rng.integers(40, size=30)
    assert take(files, which, places).tolist() == [
        100 * int(w) + int(p) for w, p in zip(which, places, strict=True)
    ]
    ids, positions = lay_out(np.array([1, 2]), 4)
    assert ids.tolist() == [[0] * 4] * 2 and positions.tolist() == [[0] * 4, [0, 1, 0, 0]]


@pytest.mark.parametrize("exponent", [float("nan"), float("inf"), -0.5, -2.0, 50.0, True])
def test_an_exponent_that_is_no_power_is_refused(exponent):
    with pytest.raises(InputError, match="sample_exponent: expected"):
        sampling_probabilities([900, 100], exponent)
