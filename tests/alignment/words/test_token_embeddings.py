"""Token embeddings of two vocabularies: the published procedure step by step, what it does not see,
and every refusal."""

import numpy as np
import pytest

from crosslens.alignment.words.token_embeddings import (
    copy_alignment,
    token_embedding_alignment,
)
from crosslens.errors import InputError
from crosslens.stats import wilson_interval


@pytest.fixture(params=[np.float32, np.float64])
def halves(request):
    """An embedding matrix whose second half is the first, turned and with noise."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(300, 10)) + 0.2
    turn, triangle = np.linalg.qr(np.eye(10) + 0.2 * rng.normal(size=(10, 10)))
    turn *= np.sign(np.diag(triangle))  # close to no turn at all
    both = np.concatenate([x, x @ turn + 0.6 * rng.normal(size=x.shape)])
    return np.split(both.astype(request.param), 2)


def by_the_published_steps(x, y, train, queries):
    """Rows of length 1; W from the decomposition of YᵀX; products of the queries with all of y; the
    highest."""
    x, y = (
        rows.astype(float) / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
        for rows in (x, y)
    )
    u, _, v = np.linalg.svd(y[train].T @ x[train])
    return [
        (queries == np.argmax(some @ y.T, axis=1)) for some in (x[queries], x[queries] @ (u @ v).T)
    ]


def test_the_published_steps_give_the_same(halves):
    result = token_embedding_alignment(*halves)
    unmapped, mapped = by_the_published_steps(*halves, result.learnt_from, result.queries)
    assert np.array_equal(result.unmapped.correct, unmapped)
    assert np.array_equal(result.mapped.correct, mapped)
    assert 0.05 < result.unmapped.precision < result.mapped.precision < 0.95
    assert result.unmapped.interval == wilson_interval(int(unmapped.sum()), 120)
    assert (result.mapped.n, result.mapping.rank_, result.mapping.rotation_.dtype) == (
        120,
        10,
        halves[0].dtype,
    )


def test_rows_are_drawn_by_seed_and_none_is_learnt_and_looked_up(halves):
    first, again, other = (token_embedding_alignment(*halves, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.queries, again.queries)
    assert np.array_equal(first.mapped.correct, again.mapped.correct)
    assert not np.array_equal(first.queries, other.queries)
    assert (len(first.learnt_from), len(first.queries)) == (30, 120)
    assert not set(first.queries) & set(first.learnt_from)
    all_rows = token_embedding_alignment(*halves, train_fraction=0.3, valid_fraction=0.7)
    assert sorted([*all_rows.queries, *all_rows.learnt_from]) == list(range(300))


def test_a_share_is_cut_by_no_rounding_of_floats(halves):
    x, y = (half[:100] for half in halves)
    found = token_embedding_alignment(x, y, train_fraction=0.29, valid_fraction=0.57)
    assert (len(found.learnt_from), len(found.queries)) == (29, 57)


def test_all_derived_rows_compete_also_those_of_no_query(halves):
    x, y = halves
    result = token_embedding_alignment(x, y)
    bystander = next(
        i for i in range(300) if i not in set(result.queries) | set(result.learnt_from)
    )
    query = result.queries[result.unmapped.correct][0]
    crowded = y.copy()
    crowded[bystander] = x[query]
    assert not token_embedding_alignment(x, crowded).unmapped.correct[result.queries == query][0]


def test_other_counterparts_are_named_by_gold(halves):
    x, y = halves
    plain = token_embedding_alignment(x, y)
    gold = np.random.default_rng(2).permutation(310)[:300]
    # ten rows that belong to none, far away
    moved = np.random.default_rng(3).normal(size=(310, 10)).astype(y.dtype) * 0.01 - 5
    moved[gold] = y
    result = token_embedding_alignment(x, moved, gold)
    assert np.array_equal(result.unmapped.correct, plain.unmapped.correct)
    assert np.array_equal(result.mapped.correct, plain.mapped.correct)


def test_lengths_do_not_count_and_a_turn_is_undone_by_the_map_alone(halves):
    x, y = (rows.astype(float) for rows in halves)
    rng = np.random.default_rng(5)
    plain = token_embedding_alignment(x, y)
    scaled = token_embedding_alignment(
        x * rng.uniform(0.1, 9, size=(300, 1)), y * rng.uniform(0.1, 9, size=(300, 1))
    )
    assert np.array_equal(scaled.unmapped.correct, plain.unmapped.correct)
    assert np.array_equal(scaled.mapped.correct, plain.mapped.correct)
    turn, _ = np.linalg.qr(rng.normal(size=(10, 10)))
    turned = token_embedding_alignment(x, y @ turn)
    assert np.array_equal(turned.mapped.correct, plain.mapped.correct)
    assert turned.unmapped.precision < plain.unmapped.precision / 2
    shifted = token_embedding_alignment(x, y + 3)  # nothing is centred: moving a side is not undone
    assert shifted.mapped.precision < plain.mapped.precision


def test_too_few_tokens_for_the_map_are_told_by_its_rank(halves):
    assert token_embedding_alignment(*halves, train_fraction=0.02).mapping.rank_ == 6


def test_bad_arguments_are_refused(halves):
    x, y = halves
    with pytest.raises(InputError, match=r"y: .*got 299"):
        token_embedding_alignment(x, y[:-1])
    for gold, message in (
        (
            np.arange(299),
            r"gold: expected 300 whole numbers, one per row of x, got int64 of shape \(299,\)",
        ),
        (np.arange(300.0), r"gold: expected 300 whole numbers, one per row of x, got float64"),
        (
            np.arange(1, 301),
            (
                r"gold: expected rows of y, 0 to 299, got numbers from 1 to 300; leave out rows "
                r"without a counterpart"
            ),
        ),
        (
            np.arange(300) // 2,
            (
                r"gold: expected each row of y once, got row 0 2 times; leave out tokens that "
                r"share a counterpart"
            ),
        ),
    ):
        with pytest.raises(InputError, match=message):
            token_embedding_alignment(x, y, gold)
    with pytest.raises(InputError, match=r"valid_fraction: .*got 0\.5 and 0\.6"):
        token_embedding_alignment(x, y, train_fraction=0.5, valid_fraction=0.6)
    with pytest.raises(InputError, match="train_fraction: expected a fraction"):
        token_embedding_alignment(x, y, train_fraction=0.0)
    with pytest.raises(InputError, match=r"x: .*got 9"):
        token_embedding_alignment(x[:9], y[:9])
    with pytest.raises(InputError, match=r"y: .*got 9 columns"):
        token_embedding_alignment(x, y[:, :9])
    padded = x.copy()
    padded[1] = 0
    with pytest.raises(InputError, match=r"y: .*got 1 row\(s\)"):
        token_embedding_alignment(x, padded)


def test_copies_are_found_as_a_loop_finds_them():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 20, 4)).astype(np.float32)
    # half of the copies are near, so that the figure is neither 0 nor 1
    y[:10] = 3 * x[:10] + 0.01 * rng.normal(size=(10, 4))
    expected = []
    for mine, theirs in ((x, y), (y, x)):
        cosines = [
            [v @ w / np.sqrt((v @ v) * (w @ w)) for w in theirs.astype(float)]
            for v in mine.astype(float)
        ]
        expected.append(np.mean(np.argmax(cosines, axis=1) == np.arange(20)))
    assert 0 < expected[0] < 1
    found = copy_alignment(x, y, [7, 1000, 3, *range(100, 117)])
    assert [one.n for one in found] == [20, 20] and [one.precision for one in found] == expected


def test_what_frequency_alone_would_give_is_the_mean_over_shuffles_among_like_tokens():
    """60 tokens in three groups; neighbours that know the group and nothing else, and some that do
    not know even that."""
    rng = np.random.default_rng(0)
    counts, group = rng.permutation(60) + 1, np.empty(60, int)
    group[np.argsort(-counts)] = np.repeat([0, 1, 2], 20)
    x = np.eye(8)[group] + 0.1 * rng.normal(size=(60, 8))
    y = x[rng.permutation(60)]
    nearest, shuffles = (
        (
            (x / np.linalg.norm(x, axis=1, keepdims=True))
            @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T
        ).argmax(1),
        [],
    )
    for _ in range(3000):
        names = np.arange(60)
        for number in range(3):
            mine = np.flatnonzero(group == number)
            names[mine] = rng.permutation(mine)
        shuffles.append((names[nearest] == np.arange(60)).mean())
    told, _ = copy_alignment(x, y, counts)
    assert 1 / 60 < told.by_frequency < 1 / 20
    assert told.by_frequency == pytest.approx(
        np.mean(shuffles), abs=5 * np.std(shuffles) / 3000**0.5
    )


def test_counts_without_a_sign_sort_as_those_with_one():
    x, counts = np.eye(40), np.r_[np.arange(40, 10, -1), np.zeros(10, int)]
    # the most frequent tokens and the rarest are each other's neighbours
    signed, _ = copy_alignment(x, x[::-1], counts)
    unsigned, _ = copy_alignment(x, x[::-1], counts.astype(np.uint32))
    assert signed.by_frequency == unsigned.by_frequency == 0


def test_copies_need_a_count_each():
    with pytest.raises(InputError, match=r"counts: .*got shape \(3,\) of <U1"):
        copy_alignment(np.eye(3), np.eye(3), ["1", "2", "3"])
    with pytest.raises(InputError, match="counts: expected finite numbers, got NaN"):
        copy_alignment(np.eye(3), np.eye(3), [1, np.nan, 1])
    with pytest.raises(InputError, match=r"counts: .*got shape \(2,\)"):
        copy_alignment(np.eye(3), np.eye(3), [1, 2])
