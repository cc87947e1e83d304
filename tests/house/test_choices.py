"""Which layer or checkpoint is best is decided in crosslens.selection and nowhere else."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHERE = (
    "crosslens/run",
    "crosslens/report",
    "crosslens/cli",
    "crosslens/recipes",
    "models/training",
)
BEST = {"argmax", "argmin", "nanargmax", "nanargmin"}
OTHERS = {  # what is chosen there is neither a layer nor a checkpoint
    "crosslens/run/measures.py": "how many groups of sentences are taken for the training half",
    "crosslens/run/probing/splits.py": "labels whose counts are rounded up or down",
    "crosslens/run/transfer/measures.py": "the class with the highest probability",
    "models/finetuning/tag.py": "the class with the highest score",
    "crosslens/report/sections/probes_comparison.py": "an encoder, among those on the same items",
    "models/training/sources.py": "which of the costs has most texts, for a message",
    "models/training/masking.py": "the first token that fits, or is wrong",
    "models/training/validation.py": "nearest neighbours",
}


def choices(source: str) -> list[int]:
    """Lines with max(…, key=…), min(…, key=…) or an argmax, which say which one is best and not how
    good it is."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            keyed = name in ("max", "min") and any(
                keyword.arg == "key" for keyword in node.keywords
            )
            found += [node.lineno] if keyed or name in BEST else []
    return found


@pytest.mark.parametrize("where", WHERE)
def test_nobody_else_says_which_is_best(where):
    for path in sorted((ROOT / where).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        lines = choices(path.read_text())
        assert bool(lines) == (name in OTHERS), (
            f"{name}, lines {lines}: crosslens.selection says which is best"
        )


def test_a_choice_is_seen():
    assert choices("best = max(curve, key=curve.get)\nx.argmax()\nmax(1, 2)\nnp.nanargmin(y)") == [
        1,
        2,
        4,
    ]
