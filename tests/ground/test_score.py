"""Measurements survive the way to disk and back, and a damaged line is named."""

import dataclasses
import json
import math

import numpy as np
import pytest
from ground_tools import snapshot

from crosslens.errors import InputError, StoreError
from crosslens.score import QUANTITIES, Score, read_scores, set_aside, write_scores

FULL = Score(
    quantity="precision_at_1",
    value=0.5,
    n=300,
    low=0.44,
    high=0.56,
    layer=3,
    other_layer=4,
    source="fra",
    target="eng",
    condition="procrustes",
    task="sentence_retrieval",
    encoder="org/mödel",
    seed=7,
    details={"part": "held_out", "counts": [1, 2], "nested": {"a": None}},
)
BARE = Score(quantity="loss", value=2.0, n=1)
MISSING = Score(quantity="linear_cka", value=math.nan, n=5, details={"reason": "a constant layer"})


def same(one: Score, other: Score) -> bool:
    return repr(one.as_dict()) == repr(other.as_dict())  # NaN is NaN


def test_the_keys_are_the_house_s_and_in_their_order():
    keys = (
        "quantity value n low high layer other_layer source target condition task encoder seed "
        "details"
    ).split()
    assert list(FULL.as_dict()) == keys == list(BARE.as_dict()) == list(json.loads(BARE.as_json()))


def test_round_trip(tmp_path):
    scores = [FULL, BARE, MISSING]
    write_scores(iter(scores), tmp_path / "scores.jsonl")
    read = list(read_scores(tmp_path / "scores.jsonl"))
    assert len(read) == 3 and all(map(same, read, scores))
    lines = (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line, parse_constant=pytest.fail)["value"] for line in lines] == [
        0.5,
        2.0,
        None,
    ]
    assert "mödel" in lines[0]


def test_nothing_is_a_file_with_no_lines(tmp_path):
    write_scores([], tmp_path / "scores.jsonl")
    assert (tmp_path / "scores.jsonl").read_bytes() == b""
    assert list(read_scores(tmp_path / "scores.jsonl")) == []


def test_numpy_numbers_are_numbers_and_nan_ends_of_an_interval_are_null():
    row = json.loads(
        dataclasses.replace(
            BARE, value=np.float64(0.25), low=math.nan, high=np.float64(0.5)
        ).as_json()
    )
    assert (row["value"], row["low"], row["high"]) == (0.25, None, 0.5)
    whole = {"n": np.int64(7), "layer": np.int32(3), "seed": np.uint8(1)}
    told = dataclasses.replace(BARE, **whole, details={"part": "test", "groups": np.int64(2)})
    row = json.loads(told.as_json())
    assert {name: row[name] for name in whole} == {"n": 7, "layer": 3, "seed": 1}
    assert row["details"]["groups"] == 2
    assert isinstance(json.loads(dataclasses.replace(BARE, value=1).as_json())["value"], float)


@pytest.mark.parametrize(
    "bad",
    [
        dataclasses.replace(BARE, value=math.inf),
        dataclasses.replace(BARE, high=-math.inf),
        dataclasses.replace(BARE, value="x"),
        dataclasses.replace(BARE, details={"x": math.nan}),
        dataclasses.replace(BARE, details={"x": {1, 2}}),
    ],
)
def test_what_json_cannot_say_is_refused_and_the_old_file_stays(bad, tmp_path):
    write_scores([FULL], tmp_path / "scores.jsonl")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match="^score loss: expected"):
        write_scores([FULL, bad], tmp_path / "scores.jsonl")
    assert snapshot(tmp_path) == before


def test_what_was_set_aside_is_counted_with_its_reason_and_nothing_else_is_told():
    unseen = {"dev": {}, "test": {letter: 2 for letter in "abcdefgh"}}
    details = {
        "dropped": {"no such label": 3, "a zero vector": 0},
        "truncated": 1,
        "unseen_in_training": unseen,
        "part": "test",
    }
    assert set_aside(Score(quantity="accuracy", value=0.5, n=4, details=details)) == {
        "left out: no such label": 3,
        "cut to fit the encoder": 1,
        "in test with a label that training lacks (a, b, c, d, e, f, 2 more), counted as wrong": 16,
    }
    seven = Score(
        quantity="accuracy",
        value=0.5,
        n=4,
        details={"unseen_in_training": {"test": {letter: 1 for letter in "abcdefg"}}},
    )
    assert list(set_aside(seven)) == [
        "in test with a label that training lacks (a, b, c, d, e, f, g), counted as wrong"
    ]
    assert (
        set_aside(Score(quantity="accuracy", value=0.5, n=4))
        == set_aside(Score(quantity="accuracy", value=0.5, n=4, details={"truncated": 0}))
        == {}
    )


def test_an_unknown_quantity_is_refused_with_the_known_ones():
    with pytest.raises(InputError) as refused:
        Score(quantity="goodness", value=1.0, n=1)
    assert str(refused.value) == (
        f"quantity: expected one of {', '.join(sorted(QUANTITIES))}, got 'goodness'; use a "
        f"declared quantity"
    )


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b'{"quantity": "loss", "val',
        b"[]",
        b"3",
        b'{"quantity": "loss", "n": 1}',
        b'{"value": 1.0, "n": 1}',
        b'{"quantity": "loss", "value": 1.0, "n": 1, "colour": "red"}',
        b'{"quantity": "goodness", "value": 1.0, "n": 1}',
        b'{"quantity": "loss", "value": 1.0, "n": 1, "source": "\xff"}',
        b'{"quantity": ["loss"], "value": 1.0, "n": 1}',
        b'{"quantity": "loss", "value": "1.0", "n": 1}',
        b'{"quantity": "loss", "value": 1.0, "n": 1.5}',
        b'{"quantity": "loss", "value": 1.0, "n": 1, "layer": [3]}'.replace(b"layer", b"value"),
        b'{"quantity": "loss", "value": 1e999, "n": 1}',
        b'{"quantity": "loss", "value": NaN, "n": 1}',
        b'{"quantity": "loss", "value": 1.0, "high": -1e999, "n": 1}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_line_is_named_and_what_is_before_it_was_read(damaged, tmp_path):
    good = FULL.as_json().encode()
    (tmp_path / "scores.jsonl").write_bytes(
        good + b"\n" + good + b"\n" + damaged + b"\n" + good + b"\n"
    )
    rows = read_scores(tmp_path / "scores.jsonl")
    assert same(next(rows), FULL) and same(next(rows), FULL)
    with pytest.raises(
        StoreError, match=r"scores\.jsonl:3(, key (n|quantity|value|high))?: expected"
    ):
        next(rows)


@pytest.mark.parametrize("name", sorted(QUANTITIES))
def test_a_quantity_says_what_it_is(name):
    quantity = QUANTITIES[name]
    assert quantity.low < quantity.high
    assert quantity.label and quantity.unit
    assert quantity.higher_is_better in (True, False, None)
    assert same(
        Score(quantity=name, value=quantity.low, n=1),
        dataclasses.replace(BARE, quantity=name, value=quantity.low),
    )
