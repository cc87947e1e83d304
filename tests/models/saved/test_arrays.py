"""Tensors on their way to disk and back."""

import contextlib
import math
import resource
import signal

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer

from crosslens.errors import InputError, OutputError
from crosslens.models.saved.arrays import DTYPES, as_tensor, extremes, stored, writing
from crosslens.recipes.quickstart import DATA


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_stored_comes_back_as_a_tensor(dtype):
    state = torch.linspace(-3, 3, 12).reshape(4, 3)
    array = stored(state, dtype, "layer_00")
    assert array.dtype == (ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype))
    assert torch.equal(as_tensor(array), state.to(DTYPES[dtype]))


def test_the_largest_number_that_rounds_to_a_finite_one_is_kept():
    edge = torch.tensor([[65519.99, -65519.99]])
    assert stored(edge, "float16", "layer_00").tolist() == [[65504, -65504]]
    for number in (65520.0, -65520.0):
        with pytest.raises(InputError, match=r"dtype: .*got 65520 in layer_00"):
            stored(torch.tensor([[1.0, number]]), "float16", "layer_00")
    with pytest.raises(
        InputError, match=r"expected numbers that bfloat16 holds, got 3.4e\+38 in mlp_01"
    ):
        stored(torch.tensor([[3.4e38]]), "bfloat16", "mlp_01")
    assert stored(torch.tensor([[3.4e38]]), "float32", "mlp_01")[0, 0] == np.float32(3.4e38)


def test_rows_that_are_not_finite_hide_no_number_that_is_too_large():
    state = torch.tensor([[torch.nan, torch.nan], [torch.inf, -torch.inf], [1.0, 2.0]])
    np.testing.assert_array_equal(
        stored(state, "float16", "layer_00"), state.numpy().astype(np.float16)
    )
    state[2, 1] = 1e6
    with pytest.raises(InputError, match="got 1e\\+06 in layer_00"):
        stored(state, "float16", "layer_00")


def test_extremes_are_not_finite_where_a_number_is_not():
    assert extremes(torch.tensor([[2.0, -7.0], [0.0, 5.0]])) == (-7.0, 5.0)
    assert extremes(torch.empty((0, 3))) == (0.0, 0.0)
    for number, place in [(torch.inf, 1), (-torch.inf, 0)]:
        assert extremes(torch.tensor([[1.0, number]]))[place] == number
    assert all(
        map(
            math.isnan,
            extremes(torch.cat([torch.zeros(99), torch.tensor([torch.nan]), torch.ones(99)])),
        )
    )


def test_an_empty_state_is_stored():
    assert stored(torch.empty((0, 4)), "float16", "layer_00").shape == (0, 4)


def test_a_full_disk_is_named_whichever_library_meets_it(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(DATA / "tiny-encoder")
    for write in (
        lambda: tokenizer.save_pretrained(tmp_path / "tokenizer"),
        lambda: save_file({"x": torch.zeros(1000)}, tmp_path / "x.safetensors"),
    ):
        with no_file_beyond(1000), pytest.raises(OutputError, match="free some space"):
            with writing(tmp_path):
                write()
    with pytest.raises(KeyError), writing(tmp_path):
        raise KeyError("another fault")


@contextlib.contextmanager
def no_file_beyond(size):
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, handler)
