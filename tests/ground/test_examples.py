"""Examples: written and read again, and what is none refused."""

import dataclasses
import json

import pytest

from crosslens.errors import InputError, StoreError
from crosslens.examples import Example, read_examples, write_examples

TOLD = {"task": "t", "encoder": "e", "source": "eng", "target": "fra", "seed": 0, "item": 3}
ANSWERS = {"texts": ["Le chat", "dort"], "gold": ["A"], "predicted": []}


def test_what_is_written_is_read_again(tmp_path):
    some = [
        Example(**TOLD, **ANSWERS, marks=[[0, 2], [3, 7]]),
        Example(**TOLD, **ANSWERS, freeze=2),
    ]
    write_examples(some, tmp_path / "examples.jsonl")
    again = read_examples(tmp_path / "examples.jsonl")
    assert [json.dumps(dataclasses.asdict(one)) for one in again] == [
        json.dumps(dataclasses.asdict(one)) for one in some
    ]
    assert again[0].marked == "Le…chat" and again[1].marked == ""


@pytest.mark.parametrize("marks", [[[0, 8]], [[2, 1]], [[3, 4], [0, 2]], [[1]], [[-1, 2]]])
def test_spans_are_in_the_text_and_rising(marks):
    with pytest.raises(InputError, match="marks: expected spans of the first text, rising"):
        Example(**TOLD, **ANSWERS, marks=marks)


def test_a_text_is_needed():
    with pytest.raises(InputError, match="texts: expected a text or more"):
        Example(**TOLD, texts=[], gold=[], predicted=[])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"marks": [[0, 99]]}, ":1: marks: expected spans"),
        ({"item": "x"}, ":1.*item"),
        ({"texts": "a"}, ":1.*texts"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, change, match):
    path = tmp_path / "examples.jsonl"
    row = {**dataclasses.asdict(Example(**TOLD, **ANSWERS)), **change}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(StoreError, match=match):
        read_examples(path)


def test_no_file_is_refused(tmp_path):
    with pytest.raises(StoreError, match="expected a file of examples"):
        read_examples(tmp_path / "none.jsonl")
