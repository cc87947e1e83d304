"""Anybody's arrays as activations, and what they and stored ones say of themselves."""

import sys

import ml_dtypes
import numpy as np
import pytest
import torch

from crosslens.activations import join
from crosslens.activations_memory import MemoryWriter, as_activations
from crosslens.errors import InputError

X = np.random.default_rng(0).normal(size=(7, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_numbers_of_a_type_that_is_stored_stay_as_they_are(dtype):
    found = as_activations([X.astype(dtype), 2 * X.astype(dtype)])
    assert found.dtype == dtype and (found.n, found.d, found.layers, len(found)) == (7, 3, 2, 7)
    assert np.array_equal(found.layer(1), 2 * X.astype(dtype))


@pytest.mark.parametrize(
    "given", [X, torch.tensor(X), X.astype(int), X.tolist() and [X], {0: X}, np.stack([X])]
)
def test_other_numbers_become_float32_and_one_matrix_is_one_layer(given):
    found = as_activations(given)
    assert (
        found.layer_numbers == [0] and found.dtype == np.float32 and found.layer(0).shape == (7, 3)
    )


def test_the_callers_array_is_neither_kept_nor_locked():
    mine = X.astype(np.float32)
    found = as_activations(mine)
    mine[:] = 0
    assert found.layer(0).any()


def test_layers_have_the_numbers_they_are_given_and_ids_pair_rows():
    one = as_activations({12: X, 3: 2 * X, 100: X}, ids=list("abcdefg"), language="eng")
    assert one.layer_numbers == [3, 12, 100] and np.allclose(one.layer(3), 2 * X)
    other = as_activations(X[::-1], ids=list("gfedcba"), language="fra")
    joined = join([one, other])
    assert np.allclose(one.layer(12)[joined.rows[0]], other.layer(0)[joined.rows[1]])


@pytest.mark.parametrize(
    ("layers", "more", "argument"),
    [
        ([X, X[:3]], {}, "layers"),
        ([], {}, "layers"),
        (3, {}, r"layers\[0\]"),
        (None, {}, r"layers\[0\]"),
        ([X[0]], {}, r"layers\[0\]"),
        (["abc"], {}, r"layers\[0\]"),
        ([X[:, :0]], {}, r"layers\[0\]"),
        ([X + 1j], {}, r"layers\[0\]"),
        ({-1: X}, {}, "layers"),
        ({"first": X}, {}, "layers"),
        ([X * 1e300], {}, "states"),
        ([X], {"ids": ["a"]}, "ids"),
        ([X], {"language": "../eng"}, "language"),
    ],
)
def test_what_are_no_activations_is_refused(layers, more, argument):
    with pytest.raises(InputError, match=f"^{argument}"):
        as_activations(layers, **more)


def test_a_writer_refuses_to_finish_what_is_not_whole():
    writer = MemoryWriter({}, arrays=["layer_00"], d=3, dtype="float32")
    with pytest.raises(InputError, match="^finish"):
        writer.finish()
    with writer.plan() as plan:
        plan.add({"id": ["a", "b"]})
        plan.end_block()
    (block,) = writer.left
    writer.put(block, np.array([1]), {"layer_00": X[:1]})
    with pytest.raises(InputError, match="^block 0: .*got 1"):
        writer.end(block)
    with pytest.raises(InputError, match="^finish"):
        writer.finish()


@pytest.mark.parametrize(
    ("layers", "more", "expected"),
    [
        ([X], {}, "Activations(7 × 3, layer 0, float32)"),
        (
            [X[:1]],
            {"unit": "word", "language": "eng"},
            "Activations(eng, 1 word × 3, layer 0, float32)",
        ),
        ({3: X, 5: X}, {"unit": "type"}, "Activations(7 word types × 3, layers 3, 5, float32)"),
    ],
)
def test_they_say_what_they_are(layers, more, expected):
    assert repr(as_activations(layers, **more)) == expected


def test_the_index_becomes_a_data_frame():
    found = as_activations(X, language="eng", ids=list("abcdefg"))
    frame = found.to_pandas()
    assert frame["id"].tolist() == list("abcdefg") and list(frame.columns) == ["id", "language"]
    assert list(found.to_pandas(["language"]).columns) == ["language"]


def test_without_pandas_the_command_that_brings_it_is_named(monkeypatch):
    found = as_activations(X)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"pip install 'crosslens\[pandas\]'"):
        found.to_pandas()
