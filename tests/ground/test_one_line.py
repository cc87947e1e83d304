"""Results say what they are in one line, however large their arrays are."""

import dataclasses

import numpy as np
import pytest

import crosslens.alignment
import crosslens.probes
from crosslens.alignment import Procrustes, retrieval_both_directions
from crosslens.one_line import one_line

X = np.random.default_rng(0).normal(size=(300, 4))


@dataclasses.dataclass
class Found:
    value: object

    __repr__ = one_line


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.zeros((3, 2), np.float32), "float32[3 × 2]"),
        (np.float64(2 / 3), "0.6667"),
        (True, "True"),
        (None, "None"),
        ("two\nlines", r"'two\nlines'"),
        ("x" * 1000, None),
        ([0.25, 1], "[0.25, 1]"),
        ((1,), "(1,)"),
        (list(range(100)), "list of 100"),
        ({"a": 1}, "dict of 1"),
        (Found(1), "Found(…)"),
    ],
)
def test_a_value_is_told_shortly(value, told):
    got = repr(Found(value))
    assert told is None or got == f"Found(value={told})"
    assert "\n" not in got and len(got) < 100


@pytest.mark.parametrize("room", [crosslens.alignment, crosslens.probes])
def test_public_results_with_arrays_say_so_in_one_line(room):
    public = [getattr(room, name) for name in room.__all__]
    results = [one for one in public if isinstance(one, type) and dataclasses.is_dataclass(one)]
    large = [
        one
        for one in results
        if any("ndarray" in str(field.type) for field in dataclasses.fields(one))
    ]
    assert len(large) > 3 and [one.__name__ for one in large if one.__repr__ is not one_line] == []


def test_retrieval_and_aligners_do():
    there, _ = retrieval_both_directions(X, X)
    assert (
        repr(there)
        == "RetrievalResult(correct=bool[300], precision=1, n=300, interval=(0.9874, 1))"
    )
    assert repr(Procrustes(normalise=True)) == "Procrustes(normalise=True)"
    assert repr(Procrustes().fit(X, X)) == "Procrustes() fitted on 4 dimensions"
