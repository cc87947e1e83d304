"""While the tests run, calls are checked where shapes of arrays are annotated."""

import numpy as np
import pytest
from checked_calls import modules_with_shapes
from jaxtyping import TypeCheckError

from crosslens.alignment.rows import row_lengths


def test_an_array_of_another_shape_is_noticed():
    assert row_lengths(np.ones((2, 4)), "x").tolist() == [2, 2]
    with pytest.raises(TypeCheckError, match="row_lengths"):
        row_lengths(np.ones(4), "x")


def test_modules_of_every_room_are_checked():
    named = {*modules_with_shapes()}
    assert {"crosslens.alignment.rows", "crosslens.models.scoring.cloze"} < named
    assert {"crosslens.probes.methods.rows", "crosslens.outcomes"} < named
    assert "crosslens.languages" not in named
