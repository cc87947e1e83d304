"""Batches: how languages are drawn, what an epoch holds, and how a batch is laid out."""

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.models.batches import Stream, collate, plan_epoch, sampling_probabilities, schedule
from crosslens.models.tokens import TokenFile


def token_file(sentences, dtype=np.uint16):
    return TokenFile(np.array([i for s in sentences for i in s], dtype), np.cumsum([0, *map(len, sentences)]))


def test_sampling_probabilities_are_those_worked_out_by_hand():
    """Golden check 1."""
    assert sampling_probabilities([900, 100], 0.7).round(4).tolist() == [0.8232, 0.1768]
    assert sampling_probabilities([900, 100], 0.0).tolist() == [0.5, 0.5]
    assert np.allclose(sampling_probabilities([900, 100], 1.0), [0.9, 0.1], rtol=1e-15)


def test_sampling_probabilities_do_not_depend_on_the_unit():
    assert np.allclose(sampling_probabilities([9, 3, 1], 0.4), sampling_probabilities([9_000_000, 3_000_000, 1_000_000], 0.4), rtol=1e-14)
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
    assert (np.abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / steps)).all()  # five standard deviations; never where p is 0


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
    first, again, next_epoch = (plan_epoch(lengths, 64, seed) for seed in ([0, 2, 0], [0, 2, 0], [0, 2, 1]))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert [b.tolist() for b in first] != [b.tolist() for b in next_epoch]


@pytest.mark.parametrize("lengths", [[3, 65, 2], []])
def test_a_budget_below_the_longest_item_is_refused(lengths):
    longest = max(lengths, default=0)
    with pytest.raises(InputError, match=rf"batch_tokens: expected room for the longest item \({longest} tokens\), got 64; raise it"):
        plan_epoch(np.array(lengths, np.int64), 64, [0])


def test_single_sentences_are_laid_out_with_specials_and_padding():
    stream = Stream("toy eng", (token_file([[10, 11], [12], [13, 14, 15]]),), np.array([0, 2]))
    assert stream.lengths.tolist() == [4, 5]
    batch = collate(stream, np.array([1, 0]), 2, 3, 9)
    assert batch.ids.tolist() == [[2, 13, 14, 15, 3], [2, 10, 11, 3, 9]]
    assert batch.positions[0].tolist() == [0, 1, 2, 3, 4] and batch.positions[1, :4].tolist() == [0, 1, 2, 3]
    assert batch.lengths.tolist() == [5, 4] and batch.ids.dtype == np.int64


def test_pairs_are_two_whole_sentences_with_positions_counted_anew():
    sides = token_file([[10, 11], [12], [13]]), token_file([[20], [21], [22, 23]], np.uint32)
    stream = Stream("toy eng-fra", sides, np.array([0, 2]))
    assert stream.lengths.tolist() == [7, 7]
    batch = collate(stream, np.array([0, 1]), 2, 3, 0)
    assert batch.ids.tolist() == [[2, 10, 11, 3, 2, 20, 3], [2, 13, 3, 2, 22, 23, 3]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 0, 1, 2], [0, 1, 2, 0, 1, 2, 3]]
    assert batch.lengths.tolist() == [7, 7]


def test_each_side_of_a_pair_looks_as_it_does_alone():
    sides = token_file([[10, 11], [12]]), token_file([[20], [21, 22, 23]])
    pair = collate(Stream("both", sides, np.arange(2)), np.array([1]), 2, 3, 0)
    at = 0
    for side in sides:
        alone = collate(Stream("one", (side,), np.arange(2)), np.array([1]), 2, 3, 0)
        end = at + int(alone.lengths[0])
        assert np.array_equal(pair.ids[:, at:end], alone.ids) and np.array_equal(pair.positions[:, at:end], alone.positions)
        at = end
