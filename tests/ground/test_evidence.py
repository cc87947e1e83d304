"""What stands beside a value: declared once, read as it was written, and read by no page in another
way."""

import ast
import json
from pathlib import Path

import pytest

import crosslens
from crosslens.evidence import Confusion, Difference, Ends, Evidence, OverSeeds, SharedTexts
from crosslens.score import Score

KEPT = {
    "above_control": Difference(0.25, 0.125, 0.5),
    "without_shared": Ends(None, None, None, 0),
    "over_seeds": OverSeeds([3, 4], [0.5, None], None, None, None),
    "shared_texts": SharedTexts(4, 3, 2, 1),
    "confusion": Confusion(["a", "b"], [[1, 0], [2, 3]]),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_written_is_read_again(name: str) -> None:
    details = json.loads(json.dumps({name: KEPT[name].as_dict(), "of its own": 1}))
    score = Score(quantity="accuracy", value=0.5, n=4, details=details)
    assert getattr(score.evidence, name) == KEPT[name]
    assert score.evidence == Evidence(**{name: KEPT[name]})


@pytest.mark.parametrize("value", [None, "many", ["a", 1], {"low": "x"}, True], ids=repr)
def test_what_is_of_another_kind_counts_as_not_said(value: object) -> None:
    names = ["groups", "coverage", "above_control", "chance"]
    assert Evidence.read(dict.fromkeys(names, value)) == Evidence()


def test_without_details_nothing_is_said() -> None:
    assert Score(quantity="accuracy", value=0.5, n=4).evidence == Evidence()


def test_counts_and_values_of_tables_are_read_one_by_one() -> None:
    told = Evidence.read(
        {
            "dropped": {"a": 2, "b": "x"},
            "f1": {"c": 0.5, "d": None},
            "unseen_in_training": {"test": {"e": 1}},
            "points": {"deu": [0.5, 1], "fra": "x"},
        }
    )
    assert told.points == {"deu": [0.5, 1.0], "fra": None}
    assert told.dropped == {"a": 2} and told.f1 == {"c": 0.5, "d": None}
    assert told.unseen_in_training == {"test": {"e": 1}}


# they show, or hand on, whatever a run has kept
WHOLE = {"export.py", "citations.py", "training.py", "probes.py"}


def test_pages_read_what_is_declared_and_nothing_else() -> None:
    """``details`` are opened by key nowhere in the report; whoever takes all of them is listed."""
    met = set()
    for path in sorted((Path(crosslens.__file__).parent / "report").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr == "details":
                met.add(path.name)
    assert met == WHOLE
