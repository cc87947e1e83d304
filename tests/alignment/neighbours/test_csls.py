"""Scores that take hubs into account: float64 formulas as the reference, golden values by hand,
queries, ties, and every refusal."""

import numpy as np
import pytest
from scipy.special import logsumexp

from crosslens.alignment.neighbours import csls, tiles
from crosslens.alignment.neighbours.csls import (
    adjusted_neighbours,
    check_rows,
    csls_neighbours,
    neighbours_both,
)
from crosslens.alignment.neighbours.retrieval import nearest_neighbours
from crosslens.errors import InputError

SCORES = ("cosine", "csls", "inverted_softmax", "margin_ratio", "margin_distance")


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def reference(x, y, by, k=10, b=30.0):
    """The published formulas over full matrices in float64."""
    x, y = (
        side.astype(np.float64) / np.linalg.norm(side.astype(np.float64), axis=1, keepdims=True)
        for side in (x, y)
    )
    cosines = x @ y.T
    r_x = np.array([np.mean(sorted(row)[-k:]) for row in cosines])[:, None]
    r_y = np.array([np.mean(sorted(row)[-k:]) for row in cosines.T])
    return {
        "cosine": cosines,
        "csls": 2 * cosines - r_x - r_y,
        "margin_distance": cosines - (r_x + r_y) / 2,
        "margin_ratio": cosines / ((r_x + r_y) / 2) if by == "margin_ratio" else None,
        "inverted_softmax": b * cosines - logsumexp(b * cosines, axis=0),
    }[by]


def spaces(rng, n=150, m=120, d=9, dtype=np.float32):
    return (rng.normal(size=(n, d)) + 0.5).astype(dtype), (rng.normal(size=(m, d)) + 0.5).astype(
        dtype
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("by", SCORES)
def test_every_score_is_its_formula_over_the_whole_vocabularies(rng, by, dtype):
    x, y = spaces(rng, dtype=dtype)
    expected = reference(x, y, by)
    rows = rng.permutation(150)[:20]
    indices, scores = adjusted_neighbours(x, y, 4, by=by, rows=rows)
    assert np.array_equal(indices, np.argsort(-expected[rows], axis=1)[:, :4])
    assert scores.dtype == dtype
    # of 30 times a cosine
    tolerance = (
        2e-5
        if by == "inverted_softmax" and dtype == np.float32
        else 3e-7
        if dtype == np.float32
        else 1e-13
    )
    assert np.allclose(scores, np.take_along_axis(expected[rows], indices, axis=1), atol=tolerance)


@pytest.mark.parametrize("by", SCORES)
def test_both_sides_at_once_are_each_side_alone(rng, by):
    x, y = spaces(rng)
    of_x, of_y = neighbours_both(x, y, 3, by=by)
    assert np.array_equal(of_x.indices, adjusted_neighbours(x, y, 3, by=by)[0])
    assert np.array_equal(of_y.indices, adjusted_neighbours(y, x, 3, by=by)[0])
    assert np.array_equal(of_y.indices[:, 0], reference(y, x, by).argmax(axis=1))


@pytest.mark.parametrize("by", SCORES)
@pytest.mark.parametrize("block", [16, 40])
def test_equal_targets_go_to_the_lower_index_whatever_the_tiles(rng, by, block, monkeypatch):
    x, y = spaces(rng, n=60, m=20, d=33)
    place = rng.permutation(np.tile(np.arange(20), 4))
    # powers of two: the cosine stays equal to the bit
    y = y[place] * rng.choice([0.5, 1, 4], size=(80, 1)).astype(np.float32)
    first = adjusted_neighbours(x, y, 6, by=by)
    monkeypatch.setattr(tiles, "BLOCK", block)
    again = adjusted_neighbours(x, y, 6, by=by)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    copies = [np.flatnonzero(place == place[best])[:4].tolist() for best in first[0][:, 0]]
    assert first[0][:, :4].tolist() == copies


def with_cosines(cosines):
    """Three rows on each side whose cosines are these."""
    left = np.eye(3, 4)
    rest = np.sqrt(1 - (cosines**2).sum(axis=0))
    return left, np.concatenate([cosines, rest[None]]).T


def test_golden_values_of_csls_by_hand():
    """Cosines and, with one neighbour, r_T = .6, .3, .7 and r_S = .7, .55, .3: the hub of column 0
    loses row 0 to column 1."""
    x, y = with_cosines(np.array([[0.6, 0.55, 0.1], [0.1, 0.2, 0.3], [0.7, 0.3, 0.2]]))
    indices, scores = csls_neighbours(x, y, 3, neighbourhood=1)
    assert indices.tolist() == [[1, 0, 2], [2, 1, 0], [0, 2, 1]]
    assert np.allclose(scores, [[-0.05, -0.1, -0.7], [0, -0.45, -0.8], [0, -0.6, -0.65]])
    assert nearest_neighbours(x, y)[0].ravel().tolist() == [0, 2, 0]


def test_a_hub_is_found_by_fewer_under_csls(rng):
    x = rng.normal(size=(300, 40)) + 1
    y = x + 1.5 * rng.normal(size=x.shape)
    y[7] = 1  # where all vectors point to: near to everything, and the right answer for nothing
    by_cosine, by_csls = nearest_neighbours(x, y)[0].ravel(), csls_neighbours(x, y)[0].ravel()
    assert (by_cosine == 7).mean() > 0.2
    assert (by_csls == 7).mean() < 0.1
    own = np.arange(300)
    assert (by_csls == own).mean() > (by_cosine == own).mean() + 0.2


def test_the_sources_that_do_not_ask_count_too(rng):
    x, y = spaces(rng)
    alone = csls_neighbours(x[:20], y)[1]
    asked = csls_neighbours(x, y, rows=np.arange(20))[1]
    assert np.abs(alone - asked).max() > 0.01


def test_csls_orders_as_the_margin_distance_which_is_half_of_it(rng):
    x, y = spaces(rng, dtype=np.float64)
    full, half = (adjusted_neighbours(x, y, 5, by=by) for by in ("csls", "margin_distance"))
    assert np.array_equal(full[0], half[0])
    assert np.allclose(full[1], 2 * half[1], atol=1e-14)


@pytest.mark.parametrize("by", SCORES)
def test_lengths_change_nothing_but_a_shift_does(rng, by):
    x, y = spaces(rng)
    plain = adjusted_neighbours(x, y, 3, by=by)[0]
    assert np.array_equal(
        adjusted_neighbours(
            x * 8, y * rng.choice([0.25, 2], size=(120, 1)).astype(np.float32), 3, by=by
        )[0],
        plain,
    )
    assert not np.array_equal(adjusted_neighbours(x + 2, y + 2, 3, by=by)[0], plain)


def test_inverted_softmax_does_not_overflow_or_vanish(rng):
    x, y = spaces(rng, dtype=np.float64)
    for b in (1.0, 1e4):
        expected = reference(x, y, "inverted_softmax", b=b)
        indices, scores = adjusted_neighbours(x, y, 1, by="inverted_softmax", inverse_temperature=b)
        # b cosines of single precision; with a large b many targets of a source score almost 0
        accuracy = 1e-6 * (b + 1)
        assert np.allclose(scores[:, 0], expected.max(axis=1), rtol=0, atol=accuracy)
        assert (expected[np.arange(150), indices[:, 0]] >= expected.max(axis=1) - accuracy).all()
        assert (scores <= accuracy).all()  # logarithms of probabilities


@pytest.mark.parametrize("room", [True, False])
def test_the_whole_work_is_one_product_of_the_vocabularies_and_without_room_one_of_the_queries(
    rng, room, monkeypatch
):
    sizes = []
    plain = tiles._Tile.of

    def counting(scores, corner, shape, *rest):
        tile = plain(scores, corner, shape, *rest)
        if scores.multiply is None:
            sizes.append(
                min(shape[0], len(scores.left) - corner[0])
                * min(shape[1], len(scores.right) - corner[1])
            )
        return tile

    monkeypatch.setattr(tiles._Tile, "of", counting)
    monkeypatch.setattr(tiles, "BLOCK", 32)
    monkeypatch.setattr(csls, "_KEPT", 4 * 3 * 120 - (not room))
    x, y = spaces(rng)
    csls_neighbours(x, y, 2, rows=[5, 9, 149])
    assert sum(sizes) == 150 * 120 + (0 if room else 3 * 120)


@pytest.mark.parametrize("by", ["csls", "margin_ratio", "margin_distance"])
@pytest.mark.parametrize("block", [16, 40, 2048])
def test_products_that_are_kept_change_no_bit(rng, by, block, monkeypatch):
    monkeypatch.setattr(tiles, "_FEW", 1)  # in threads
    monkeypatch.setattr(tiles, "BLOCK", block)
    x, y = spaces(rng, n=150, m=40, d=33)
    # equal ones, and ones that products cannot tell apart
    y = np.concatenate([y, y[:30] * 2, y[5:25] + 1e-7 * y[:20], y[:30]])
    rows = rng.permutation(150)[:50]
    monkeypatch.setattr(csls, "_KEPT", 0)
    alone = adjusted_neighbours(x, y, 5, by=by, rows=rows), neighbours_both(x, y, 5, by=by)
    monkeypatch.setattr(csls, "_KEPT", 2**29)
    kept = adjusted_neighbours(x, y, 5, by=by, rows=rows), neighbours_both(x, y, 5, by=by)
    for one, other in zip(alone[0], kept[0], strict=True):
        assert np.array_equal(one, other)
    for one, other in zip(alone[1], kept[1], strict=True):
        assert np.array_equal(one.indices, other.indices) and np.array_equal(
            one.scores, other.scores
        )


def test_rows_are_answered_in_the_order_asked(rng):
    x, y = spaces(rng)
    every = csls_neighbours(x, y, 2)
    rows = rng.permutation(150)[:30]
    for some, all_of_them in zip(csls_neighbours(x, y, 2, rows=rows), every, strict=True):
        assert np.array_equal(some, all_of_them[rows])


def test_inputs_are_not_written_to(rng):
    x, y = spaces(rng)
    before = x.copy(), y.copy()
    for by in SCORES:
        adjusted_neighbours(x, y, 2, by=by)
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 121}, "^k: expected a whole number from 1 to 120"),
        ({"neighbourhood": 121}, "^neighbourhood: expected a whole number from 1 to 120"),
        ({"neighbourhood": 0}, "^neighbourhood: expected a whole number from 1 to 120"),
        (
            {"rows": []},
            ("^rows: expected a list of row numbers, at least one"),
        ),
        (
            {"rows": [1.5]},
            "^rows: expected a list of row numbers, at least one",
        ),
        (
            {"rows": [0, 150]},
            "^rows: expected row numbers from 0 to 149",
        ),
        (
            {"rows": [4, 4]},
            "^rows: expected each row once",
        ),
        (
            {"by": "inverted_softmax", "inverse_temperature": 0},
            "^inverse_temperature: expected a number above 0",
        ),
    ],
)
def test_refusals_say_what_to_do(rng, arguments, message):
    x, y = spaces(rng)
    x, y = x - 0.5, y - 0.5
    with pytest.raises(InputError, match=message):
        adjusted_neighbours(x, y, **arguments)


def test_vectors_that_cannot_be_compared_are_refused(rng):
    x, y = spaces(rng)
    with pytest.raises(InputError, match=r"^y: .*got 8 columns"):
        csls_neighbours(x, y[:, :8])
    with pytest.raises(InputError, match=r"^x: .*got 1 row\(s\)"):
        csls_neighbours(np.where(np.arange(150)[:, None] == 3, 0, x), y, rows=[0])
    with pytest.raises(InputError, match=r"^y: .*got NaN or infinity"):
        csls_neighbours(x, np.where(np.arange(120)[:, None] == 2, np.inf, y))
    with pytest.raises(InputError, match=r"^y: .*got NaN or infinity"):
        neighbours_both(x, np.where(np.arange(120)[:, None] == 2, np.inf, y))


def test_a_ratio_to_a_number_that_is_not_positive_is_refused(rng):
    x, y = spaces(rng)
    with pytest.raises(InputError, match=r"^by: .*got margin_ratio"):
        adjusted_neighbours(np.abs(x), -np.abs(y), by="margin_ratio")


def test_an_unknown_score_is_refused(rng):
    x, y = spaces(rng)
    # without the tests' own check of types
    unchecked = getattr(csls.scores_of, "__wrapped__", csls.scores_of)
    with pytest.raises(InputError, match=r"^by: .*got 'euclid'"):
        unchecked(x, y, check_rows(None, 150), "euclid", 10, 30.0)
