"""What is fit for use comes back as it was, what is not is refused with its place."""

import ml_dtypes
import numpy as np
import pytest

from crosslens.checks import (
    check_fraction,
    check_labels,
    check_matrix,
    check_paired,
    check_positive_int,
    check_seed,
)
from crosslens.errors import InputError
from crosslens.files import check_name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fit_matrix_is_the_same_object(dtype):
    x = np.ones((3, 2), dtype)
    assert check_matrix(x, "x") is x


@pytest.mark.parametrize(
    "dtype", ["float16", "int8", "int64", "uint8", "bool", "longdouble", "object"]
)
def test_other_numbers_become_float32_and_the_input_is_untouched(dtype):
    x = np.array([[0, 1], [1, 0]], dtype)
    before = x.copy()
    y = check_matrix(x, "x")
    assert y.dtype == np.float32
    assert y.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert x.dtype == before.dtype and np.array_equal(x, before)


def test_bfloat16_becomes_float32_without_a_change():
    x = np.array([[0.5, -3.0], [1e30, 0.1]], ml_dtypes.bfloat16)
    assert check_matrix(x, "x").dtype == np.float32 and np.array_equal(
        check_matrix(x, "x"), x.astype(np.float32)
    )
    with pytest.raises(InputError, match=r"got NaN or infinity in 1 row\(s\), the first is row 1"):
        check_matrix(np.array([[1.0], [np.nan]], ml_dtypes.bfloat16), "x")


def test_a_read_only_memory_map_is_fit(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(check_matrix(x, "x"), x)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.array([[1j]]), "an array of complex128"),
        (np.array([["1"]]), "an array of <U1"),
        (np.array([[object()]]), "an array of object"),
        (np.array([["1", 2.0]], object), "an array of object"),
        ("text", "str"),
        ([[1, 2], [3]], "list"),
    ],
)
def test_what_is_no_number_is_refused_and_named(value, told):
    with pytest.raises(InputError, match=rf"^x: .*got {told}"):
        check_matrix(value, "x")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_are_not_finite_are_counted_and_the_first_named(bad, dtype):
    x = np.zeros((9, 4), dtype)
    x[3, 1] = x[3, 2] = x[7, 0] = bad
    with pytest.raises(InputError, match=r"got NaN or infinity in 2 row\(s\), the first is row 3;"):
        check_matrix(x, "x")


def test_infinities_that_cancel_are_found_without_a_warning(recwarn):
    with pytest.raises(InputError, match="infinity in 1 row"):
        check_matrix([[np.inf, -np.inf]], "x")
    assert not recwarn


def test_large_finite_numbers_are_finite():
    x = np.full((4, 2), 3e38, np.float32)  # their sum is beyond float32
    assert check_matrix(x, "x") is x


def test_pairs_name_both_sides():
    with pytest.raises(InputError, match=r"^right: .*got 3 rows"):
        check_paired(np.ones((2, 2)), np.ones((3, 5)), ("left", "right"))
    x, y = check_paired(np.ones((2, 2)), np.ones((2, 5)))
    assert (x.shape, y.shape) == ((2, 2), (2, 5))


def test_labels_may_be_anything_one_dimensional():
    assert check_labels(("a", "b"), "y", 2).tolist() == ["a", "b"]
    assert check_labels(np.array([3, 1]), "y", 2).tolist() == [3, 1]
    with pytest.raises(InputError, match=r"^y: .*got an array of"):
        check_labels([1, 2], "y", 3)
    with pytest.raises(InputError, match="y: expected a label for every item, got none for item 1"):
        check_labels(["a", float("nan"), "b"], "y", 3)
    with pytest.raises(InputError, match="y: expected words alone, or numbers alone, got 1 for it"):
        check_labels(["a", 1, "b"], "y", 3)


@pytest.mark.parametrize("value", [1, 3, np.int64(2), np.uint8(1)])
def test_whole_numbers_in_range_pass_as_int(value):
    assert type(check_positive_int(value, "k", most=3)) is int


@pytest.mark.parametrize("value", [0, -1, 4, 1.0, "1", None, True, np.bool_(True)])
def test_other_numbers_are_refused(value):
    with pytest.raises(InputError, match="^k: expected"):
        check_positive_int(value, "k", most=3)


@pytest.mark.parametrize("value", [0, 3, np.int64(2), np.uint8(1)])
def test_seeds_in_range_pass_as_int(value):
    assert type(check_seed(value, most=3)) is int


@pytest.mark.parametrize("value", [-1, 4, 1.0, "1", None, True, np.bool_(True)])
def test_what_is_no_seed_is_refused(value):
    with pytest.raises(InputError, match="^seed: expected"):
        check_seed(value, most=3)
    assert check_seed(2**70) == 2**70


@pytest.mark.parametrize("value", [1e-9, 0.5, np.float64(0.25), 1 - 1e-9])
def test_fractions_pass(value):
    assert check_fraction(value, "f") == value


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.1, float("nan"), float("inf"), True, "0.5", None])
def test_what_is_no_fraction_is_refused(value):
    with pytest.raises(InputError, match="^f: expected"):
        check_fraction(value, "f")


# ---------------------------------------------------------------- names, masks and tensors


@pytest.mark.parametrize(
    "name", ["eng", "deu_Latn", "a.b", "9", "-x", "é", "日本語", "हिन्दी", "x" * 100]
)
def test_names_that_files_can_have(name):
    assert check_name(name, "name") == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../../evil",
        "a/b",
        "a\\b",
        ".hidden",
        "a..b",
        "a b",
        "a\nb",
        "a\0b",
        "C:",
        "~",
        "$HOME",
        "x" * 101,
        "日" * 80,
        None,
        3,
        "a\ud800",
    ],
)
def test_names_that_lead_elsewhere_are_refused(name):
    with pytest.raises(InputError, match="name: expected"):
        check_name(name, "name")


def test_a_mask_is_not_lost_but_refused():
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]])
    for check in (lambda: check_matrix(masked, "x"), lambda: check_labels(masked[:, 0], "y", 2)):
        with pytest.raises(
            InputError,
            match=(
                r"expected an array without a mask, got a masked array \([01] masked\); leave "
                r"out"
            ),
        ):
            check()


class Tensor:
    """What torch's tensors do when numpy asks."""

    def __init__(self, array, dtype="torch.float32", bare=False):
        self.array, self.dtype, self.bare = array, dtype, bare

    def detach(self):
        return Tensor(self.array, self.dtype, bare=True)

    def cpu(self):
        return self

    def float(self):
        return Tensor(self.array, bare=self.bare)

    def __array__(self, dtype=None, copy=None):
        if not self.bare:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if "bfloat16" in self.dtype:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16"])
def test_tensors_lose_their_gradient_and_bfloat16_is_converted(dtype):
    assert (
        check_matrix(Tensor(np.eye(2, dtype=np.float32), dtype), "x").tolist() == np.eye(2).tolist()
    )
