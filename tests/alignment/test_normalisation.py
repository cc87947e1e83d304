"""Lengths and means: the published procedures restated row by row, what is replayed on new vectors,
and every refusal."""

import numpy as np
import pytest

from crosslens.alignment.normalisation import IterativeNormalisation, normalise
from crosslens.alignment.rows import check_varies, mean_row, row_lengths, unit_rows
from crosslens.errors import InputError, StoreError


@pytest.fixture
def rng():
    return np.random.default_rng(4)


@pytest.fixture
def x(rng):
    return rng.normal(1, 2, size=(90, 6))


def scaled(rows):
    return np.array([row / np.sqrt(sum(value * value for value in row)) for row in rows])


def centred(rows):
    return np.array([row - np.mean(rows, axis=0) for row in rows])


def published(rows, rounds=5):
    """Zhang et al. 2019 on the whole matrix: so many turns of length and mean, and the length once
    more."""
    for _ in range(rounds):
        rows = centred(scaled(rows))
    return scaled(rows)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (("unit",), scaled),
        (("centre",), centred),
        (("unit", "centre"), lambda rows: centred(scaled(rows))),
        (("centre", "unit"), lambda rows: scaled(centred(rows))),
        (("unit", "centre", "unit"), lambda rows: scaled(centred(scaled(rows)))),
        ((), np.copy),
    ],
)
def test_normalise_takes_its_steps_in_order(x, steps, expected):
    assert np.allclose(normalise(x, steps), expected(x), atol=1e-14)


def test_normalise_does_length_centre_length_by_default_and_once_is_not_enough_for_both(x):
    rows = normalise(x)
    assert np.array_equal(rows, normalise(x, ("unit", "centre", "unit")))
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-14)
    assert np.abs(rows.mean(axis=0)).max() > 1e-3
    assert np.abs(normalise(x, ["unit", "centre"]).mean(axis=0)).max() < 1e-15


def test_a_second_centring_subtracts_the_new_mean(x):
    twice = normalise(x, ("centre", "unit", "centre"))
    assert np.abs(twice.mean(axis=0)).max() < 1e-15


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
        (int, np.float32),
    ],
)
def test_normalise_keeps_the_precision_and_the_input(dtype, result):
    x = np.array([[1, 2], [3, 5], [4, 1]]).astype(dtype)
    before = x.copy()
    x.setflags(write=False)
    for steps in (("unit", "centre", "unit"), ()):
        rows = normalise(x, steps)
        assert rows.dtype == result
        rows[:] = 0
        assert np.array_equal(x, before)


def test_lengths_of_rows_do_not_depend_on_their_neighbours(x, monkeypatch):
    whole = row_lengths(x, "x")
    monkeypatch.setattr("crosslens.alignment.rows._BLOCK", 7)
    assert np.array_equal(row_lengths(np.asfortranarray(x), "x"), whole)
    assert np.array_equal(row_lengths(x[11:12], "x"), whole[11:12])


def test_means_of_large_float32_values_keep_their_precision(rng):
    x = (rng.normal(size=(50_000, 2)) + 3000).astype(np.float32)
    assert mean_row(x, "x").dtype == np.float32
    assert (
        np.abs(mean_row(x, "x") - x.astype(np.float64).mean(axis=0)).max()
        < 3000 * np.finfo(np.float32).eps
    )


@pytest.mark.parametrize("rounds", [1, 5])
def test_fit_transform_is_the_published_procedure(x, rounds):
    assert np.allclose(
        IterativeNormalisation(rounds).fit_transform(x), published(x, rounds), atol=1e-13
    )


def test_length_first_and_five_times_centre_and_length_is_the_same_procedure(x):
    rows = scaled(x)
    for _ in range(5):
        rows = scaled(centred(rows))
    assert np.allclose(IterativeNormalisation().fit_transform(x), rows, atol=1e-13)


def test_rows_end_with_length_one_and_nearly_no_mean_and_more_rounds_leave_less(x):
    left = []
    for rounds in (1, 2, 5, 20):
        rows = IterativeNormalisation(rounds).fit_transform(x)
        assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-14)
        left.append(np.linalg.norm(rows.mean(axis=0)))
    assert left == sorted(left, reverse=True)
    assert left[2] < 1e-3 < left[0]


def test_new_rows_are_treated_by_the_means_of_fit_and_not_by_their_own(x, rng):
    normaliser = IterativeNormalisation().fit(x)
    assert np.array_equal(normaliser.transform(x[3:5]), normaliser.fit_transform(x)[3:5])
    new = rng.normal(-2, 1, size=(40, 6))
    expected = new
    for mean in normaliser.means_:
        expected = scaled(expected) - mean
    assert np.allclose(normaliser.transform(new), scaled(expected), atol=1e-14)
    assert not np.allclose(normaliser.transform(new), published(new), atol=0.1)


def test_lengths_are_irrelevant_to_it_and_a_shift_is_not(x, rng):
    lengths = rng.uniform(0.1, 9, size=(90, 1))
    plain = IterativeNormalisation().fit_transform(x)
    assert np.allclose(IterativeNormalisation().fit_transform(x * lengths), plain, atol=1e-12)
    assert not np.allclose(IterativeNormalisation().fit_transform(x + 1), plain, atol=0.01)


def test_a_rotation_goes_through_it(x, rng):
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    assert np.allclose(
        IterativeNormalisation().fit_transform(x @ turn),
        IterativeNormalisation().fit_transform(x) @ turn,
        atol=1e-12,
    )


def test_a_saved_normaliser_comes_back_whole(x, tmp_path):
    normaliser = IterativeNormalisation(3).fit(x)
    normaliser.save(tmp_path / "means")
    loaded = IterativeNormalisation.load(tmp_path / "means")
    assert loaded.get_params() == {"rounds": 3}
    assert np.array_equal(loaded.transform(x), normaliser.transform(x))
    (tmp_path / "cut").write_bytes((tmp_path / "means").read_bytes()[:-5])
    with pytest.raises(StoreError, match=r"path: .*got .*cut"):
        IterativeNormalisation.load(tmp_path / "cut")


def test_refusals_of_normalise(x):
    for steps in ("unit", ("unit", "center"), ["none"]):
        with pytest.raises(
            InputError,
            match=('steps: expected a sequence of "unit" and "centre"'),
        ):
            normalise(x, steps)
    x[4] = 0
    with pytest.raises(InputError, match=r"x: .*got 1 row\(s\)"):
        normalise(x)
    with pytest.raises(InputError, match=r"x: .*got 1 row\(s\)"):
        unit_rows(x)
    with pytest.raises(InputError, match=r"x: .*got 3 equal row\(s\)"):
        normalise(np.full((3, 2), 0.1), ("centre",))
    with pytest.raises(InputError, match=r"x: .*got 2 equal row\(s\)"):
        check_varies(np.ones((2, 2)), "x")
    x[4] = np.nan
    with pytest.raises(InputError, match=r"x: .*got NaN or infinity"):
        normalise(x, ())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_that_is_the_mean_up_to_rounding_has_no_direction(rng, dtype):
    x = rng.normal(7, 1, size=(30, 5)).astype(dtype)
    x[17] = np.delete(x, 17, axis=0).mean(axis=0, dtype=np.float64)
    with pytest.raises(InputError, match=r"x: .*got 1 row\(s\)"):
        normalise(x, ("centre", "unit"))
    assert np.isfinite(normalise(x, ("centre",))).all()


def test_overflows_are_refused_and_not_mapped_to_zero():
    with pytest.raises(InputError, match=r"x: .*got an overflow"):
        unit_rows(np.array([[1, 1], [3e38, 3e38]], np.float32))
    with pytest.raises(InputError, match=r"x: .*got an overflow"):
        normalise(np.array([[1e200, 1], [3.0, 3]]))
    with pytest.raises(InputError, match=r"x: .*got an overflow"):
        normalise(np.array([[1.7e308], [1.6e308]]), ("centre",))


def test_refusals_of_iterative_normalisation(x):
    for rounds in (0, True):
        with pytest.raises(InputError, match="rounds: expected"):
            IterativeNormalisation(rounds).fit(x)
    with pytest.raises(InputError, match=r"X: .*got 4 equal row\(s\)"):
        IterativeNormalisation().fit(np.outer([1, 2, 4, 8], [3.0, 4, 5]))
    normaliser = IterativeNormalisation().fit(x)
    with pytest.raises(InputError, match=r"X: .*got 1 row\(s\)"):
        one = IterativeNormalisation(1).fit([[1.0, 0], [0, 1]])
        one.means_ = np.array([[0.6, 0.8]])
        one.transform([[1.0, 0], [3, 4]])
    with pytest.raises(InputError, match=r"X: .*got 1 row\(s\)"):
        normaliser.transform(x[:2] * [[0], [1]])
    with pytest.raises(InputError, match=r"IterativeNormalisation: .*got one without"):
        IterativeNormalisation().transform(x)


@pytest.mark.parametrize("size", [1e-150, 1e-160, 3e-162, 1e-170, 1e-300])
def test_lengths_of_numbers_whose_squares_leave_float64_are_exact(x, size):
    assert row_lengths(x * size, "x") / size == pytest.approx(row_lengths(x, "x"), rel=1e-12)
    assert np.linalg.norm(unit_rows(x * size), axis=1) == pytest.approx(1, rel=1e-12)
