"""Layers read in blocks: the same numbers as from memory in any format, chosen rows, and never a
layer as a whole."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import sklearn
from sklearn.preprocessing import StandardScaler

from crosslens.errors import InputError
from crosslens.probes.methods.rows import (
    BLOCK,
    StandardisedLayer,
    TakenRows,
    check_layers,
    check_same_layers,
)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


class Recorder:
    """An array that remembers how many rows it was asked for at a time."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.most = array, array.shape, array.dtype, 0

    def __len__(self):
        return len(self.array)

    def __getitem__(self, rows):
        found = self.array[rows]
        self.most = max(self.most, len(found))
        return found


def test_taken_rows_are_those_of_the_array(rng):
    x, rows = rng.normal(size=(50, 4)), rng.integers(0, 50, size=70)
    taken = TakenRows(x, rows)
    assert (taken.shape, len(taken), taken.ndim, taken.dtype) == ((70, 4), 70, 2, np.float64)
    assert np.array_equal(np.asarray(taken), x[rows])
    assert np.array_equal(taken[13:29], x[rows][13:29])
    assert np.array_equal(taken[::-3], x[rows][::-3])
    assert np.array_equal(taken[5], x[rows[5]])
    assert np.asarray(taken, np.float32).dtype == np.float32


def test_rows_can_be_taken_of_taken_rows(rng):
    x, rows, again = rng.normal(size=(50, 4)), rng.permutation(50), [7, 3, 3]
    assert np.array_equal(TakenRows(TakenRows(x, rows), again)[:], x[rows][again])


def test_taking_rows_copies_nothing_until_they_are_read(rng):
    source = Recorder(rng.normal(size=(5000, 3)))
    taken = TakenRows(source, np.arange(4999, -1, -1))
    assert source.most == 0
    StandardisedLayer.of(taken, "x")
    assert 0 < source.most <= BLOCK


def test_refused_rows(rng):
    x = rng.normal(size=(5, 2))
    with pytest.raises(InputError, match=r"rows: .*got 5"):
        TakenRows(x, [0, 5])
    with pytest.raises(InputError, match=r"rows: .*got -1"):
        TakenRows(x, [-1])
    for wrong in ([True, False], [0.5], [[0]], ["a"]):
        with pytest.raises(InputError, match="rows: expected"):
            TakenRows(x, wrong)
    with pytest.raises(InputError, match=r"array: .*got list"):
        TakenRows([[1.0]], [0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [3, BLOCK, 2 * BLOCK + 1])
def test_means_and_scales_are_scikit_learns(rng, dtype, n):
    x = (rng.normal(size=(n, 5)) * [1, 10, 1e-3, 1, 1] + [0, 3, 0, 300, -1]).astype(dtype)
    layer, reference = StandardisedLayer.of(x, "x"), StandardScaler().fit(x.astype(np.float64))
    assert layer.mean.dtype == layer.scale.dtype == dtype
    assert np.allclose(layer.mean, reference.mean_, rtol=1e-6, atol=1e-7)
    assert np.allclose(layer.scale, reference.scale_, rtol=1e-4 if dtype == np.float32 else 1e-9)
    whole = np.concatenate([block.copy() for _, block in layer.centred()]) * layer.folded
    assert np.allclose(whole, reference.transform(x), atol=1e-3 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int32])
def test_other_formats_are_read_as_float32(rng, dtype, tmp_path):
    x = (10 * rng.normal(size=(BLOCK + 9, 4))).astype(dtype)
    x.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", dtype, "r", shape=x.shape)
    here, there = StandardisedLayer.of(x.astype(np.float32), "x"), StandardisedLayer.of(mapped, "x")
    assert there.mean.dtype == np.float32
    assert np.array_equal(here.mean, there.mean) and np.array_equal(here.scale, there.scale)
    for (rows, one), (others, other) in zip(here.centred(), there.centred(), strict=True):
        assert rows == others and np.array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_features_have_scale_one_and_no_part(rng, dtype):
    x = rng.normal(size=(100, 3)).astype(dtype)
    x[:, 1] = 0.1
    layer = StandardisedLayer.of(x, "x")
    assert (
        layer.scale[1] == 1
        and layer.varies.tolist() == [True, False, True]
        and layer.folded[1] == 0
    )


def test_linear_functions_of_standardised_features(rng):
    x, w, b = 5 + 3 * rng.normal(size=(BLOCK + 3, 4)), rng.normal(size=(2, 4)), rng.normal(size=2)
    expected = StandardScaler().fit_transform(x) @ w.T + b
    assert np.allclose(StandardisedLayer.of(x, "x").apply(w, b), expected, atol=1e-10)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_by_row_without_a_warning(rng, bad):
    x = rng.normal(size=(3000, 2))
    good = StandardisedLayer.of(x, "layers[4]")
    x[[2047, 2999], 1] = bad
    for call in (
        lambda: StandardisedLayer.of(x, "layers[4]"),
        lambda: good.apply(np.ones((1, 2)), np.ones(1)),
    ):
        with pytest.raises(InputError, match=r"layers\[4\]: .*got NaN or infinity"):
            call()


def test_numbers_too_large_to_be_squared_are_refused_without_a_warning():
    with pytest.raises(InputError, match=r"x: .*got an overflow"):
        StandardisedLayer.of(np.array([[1e200], [-1e200]]), "x")
    with pytest.raises(InputError, match=r"x: .*got an overflow"):
        StandardisedLayer.of(np.array([[1e308], [1e308]]), "x")


def test_layers_are_checked_one_by_one(rng):
    x = rng.normal(size=(5, 3))
    assert [layer.shape for layer in check_layers(np.stack([x, x]))] == [(5, 3)] * 2
    assert check_layers([x, x.tolist()])[1].shape == (5, 3)
    taken = TakenRows(x, [1, 2])
    assert check_layers((taken,))[0] is taken
    for wrong, message in [
        (
            x,
            (
                r"layers: expected layers of shape \(L, n, d\), got an array of shape \(5, 3\); "
                r"put a single layer into a list"
            ),
        ),
        ([], r"layers: expected at least one layer, got none"),
        ({"a": x}, r"layers: expected a sequence of layers, got dict"),
        ([x, x[:4]], r"layers\[1\]: expected shape \(5, 3\), as layers\[0\], got shape \(4, 3\)"),
        (
            [x, x[0]],
            r"layers\[1\]: expected a matrix of shape \(n, d\), got an array of shape \(3,\)",
        ),
        ([x[:0]], r"layers\[0\]: expected at least 1 row and 1 column, got shape \(0, 3\)"),
        ([x.astype(str)], r"layers\[0\]: expected a matrix of numbers"),
        ([x + 1j], r"layers\[0\]: expected a matrix of numbers"),
    ]:
        with pytest.raises(InputError, match=message):
            check_layers(wrong)
    with pytest.raises(InputError, match=r"layers: .*got 2"):
        check_same_layers([x, x], 3, 3)
    with pytest.raises(InputError, match=r"layers: .*got 3 columns"):
        check_same_layers([x, x], 4, 2)


def test_memory_is_a_block_not_the_layer(rng, tmp_path):
    np.save(tmp_path / "x.npy", rng.normal(size=(60 * BLOCK, 32)).astype(np.float16))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert sklearn.__version__  # loaded before memory is counted
    tracemalloc.start()
    StandardisedLayer.of(TakenRows(mapped, np.arange(len(mapped))), "x")
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # some blocks in float64, and the row numbers
    assert peak < 6 * BLOCK * 32 * 8 + 2 * 8 * len(mapped)
    assert peak < mapped.nbytes


def test_masks_of_layers_are_not_lost():
    masked = np.ma.masked_array(np.ones((3, 2)), mask=[[0, 1], [0, 0], [0, 0]])
    with pytest.raises(InputError, match=r"layers\[1\]: .*got a masked array"):
        check_layers([np.ones((3, 2)), masked])


def test_a_row_without_numbers_is_named_as_its_own_array_counts(rng):
    layer = rng.normal(size=(60, 3))
    layer[[55, 52], 1] = np.nan
    first = TakenRows(layer, np.arange(59, 29, -1))  # rows of rows, as a part of a split has them
    for taken in (first, TakenRows(first, np.arange(2, 20)), layer):
        with pytest.raises(InputError, match=r"x: .*in 2 row\(s\), the first is row 52;"):
            StandardisedLayer.of(taken, "x")
