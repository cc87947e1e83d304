"""The room's door: what it exports, under which name, and that no model library comes in with
it."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import crosslens.alignment
from crosslens.alignment import (
    approximate_neighbours,
    linear_cka,
    permutation_baseline,
    self_learning,
    token_embedding_alignment,
)
from crosslens.errors import InputError

ROOT = Path(__file__).parents[2]


def test_exports_are_sorted_and_exist():
    assert crosslens.alignment.__all__ == sorted(
        crosslens.alignment.__all__, key=lambda name: (name.lower() == name, name)
    )
    for name in crosslens.alignment.__all__:
        assert getattr(crosslens.alignment, name).__doc__, name


def test_the_bare_name_is_refused_with_the_right_one():
    run = subprocess.run(
        [sys.executable, "-c", "import alignment"], cwd=ROOT, capture_output=True, text=True
    )
    assert "ImportError: import this package as crosslens.alignment, not as alignment" in run.stderr


def test_it_brings_no_torch():
    unwanted = ["torch", "transformers", "crosslens.probes", "crosslens.models"]
    code = f"import sys, crosslens.alignment; print(', '.join(set({unwanted}) & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "", "")


X = np.random.default_rng(0).normal(size=(60, 4))
DRAWS = {  # None would draw anew every time, and the result could not be had again
    "approximate_neighbours": lambda seed: approximate_neighbours(X, X, seed=seed),
    "permutation_baseline": lambda seed: permutation_baseline(
        linear_cka, X, X, permutations=2, seed=seed
    ),
    "self_learning": lambda seed: self_learning(
        X, X, [[i, i] for i in range(9)], keep_probability=1, seed=seed
    ),
    "token_embedding_alignment": lambda seed: token_embedding_alignment(X, X, seed=seed),
}


def test_all_that_draws_is_known_here():
    functions = {
        name: getattr(crosslens.alignment, name)
        for name in crosslens.alignment.__all__
        if name.islower()
    }
    assert DRAWS.keys() == {
        name
        for name, function in functions.items()
        if "seed" in inspect.signature(function).parameters
    }


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_seed_is_checked(draw):
    draw(1)
    with pytest.raises(InputError, match=r"^seed: .*got -1"):
        draw(-1)
