"""JSON is read by one typed reader: checked data, or a refusal that names file and key."""

import gc
import json
import os
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from ground_tools import GRAMMAR

from crosslens.errors import CrosslensError, InputError, StoreError, cut, quote, refuse
from crosslens.files import check_folder, parse_json, read_json


class Block(TypedDict):
    start: int
    name: NotRequired[str]


class Manifest(TypedDict):
    n: int
    share: float
    blocks: list[Block]
    sums: dict[str, str | None]
    kind: Literal["a", "b"]
    rest: NotRequired[Any]


WHOLE = {
    "n": 3,
    "share": 1,
    "blocks": [{"start": 0}, {"start": 2, "name": "x"}],
    "sums": {"a": None},
    "kind": "a",
    "more": [1],
}


def test_what_fits_is_given_as_it_is():
    assert parse_json(json.dumps(WHOLE), "m", Manifest) == WHOLE
    assert parse_json("\ufeff[1]".encode(), "m", list[int]) == [1]
    assert parse_json('"\\ud83d\\ude42"', "m", str) == "🙂"
    assert parse_json("1" * 308, "m", float) == int("1" * 308)
    assert parse_json("-" + "1" * 5000, "m", float) == -float("inf")
    assert parse_json("[NaN, -Infinity]", "m", list[float])[1] == -float("inf")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n": "3"}, "key n: expected a whole number, got '3'"),
        ({"n": True}, "key n: expected a whole number, got True"),
        ({"n": 1.0}, "key n: expected a whole number, got 1.0"),
        ({"n": 1 << 63}, "key n: expected a whole number, got 9223372036854775808"),
        ({"n": 10**400}, "key n: expected a whole number, got inf"),
        ({"share": "1"}, "key share: expected a number, got '1'"),
        ({"share": False}, "key share: expected a number, got False"),
        ({"blocks": {}}, "key blocks: expected a list, got an object"),
        (
            {"blocks": [{"start": 0}, {"start": None}]},
            r"key blocks\[1\]\.start: expected a whole number, got null",
        ),
        ({"blocks": [{}]}, r"key blocks\[0\]\.start: expected a whole number, got nothing"),
        ({"blocks": [[]]}, r"key blocks\[0\]: expected an object, got a list"),
        ({"sums": {"a": 7}}, r"key sums\.a: expected text or null, got 7"),
        ({"kind": "c"}, "key kind: expected 'a' or 'b', got 'c'"),
    ],
)
def test_what_does_not_fit_is_refused_by_file_and_key(change, told):
    with pytest.raises(StoreError, match=rf"^x/m\.json, {told}; mend it$"):
        parse_json(json.dumps({**WHOLE, **change}), "x/m.json", Manifest, "mend it")


def test_in_a_choice_of_shapes_the_one_that_nearly_fits_is_told():
    with pytest.raises(StoreError, match=r"key a\.start: .*got 'x'"):
        parse_json('{"a": {"start": "x"}}', "m", dict[str, None | Block])


DAMAGED = {
    "empty": b"",
    "half": b'{"a": 1',
    "brackets": b"[" * 100_000,
    "brackets that close": b"[" * 900 + b"]" * 900,
    "brackets in keys": b'{"a":' * 200 + b"1" + b"}" * 200,
    "NUL": b'{"a": "\0"}',
    "NULs": b"\0" * 1000,
    "latin": b'{"a": "\xff"}',
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "twice": b'{"a": 1, "b": {"c": 1, "c": 2}}',
    "half of a pair": b'{"a": "\\ud83d"}',
    "half of a pair as a key": b'{"\\udc00": 1}',
    "a list": b"[1]",
    "a number": b"1",
    "two": b"{} {}",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("error", [StoreError, InputError])
def test_damage_of_every_kind_is_refused_in_one_short_line(content, error, tmp_path):
    (tmp_path / "m.json").write_bytes(content)
    gc.disable()  # a destructor that is called at the deepest bracket fails, which pytest reports
    try:
        with pytest.raises(error) as refused:
            read_json(tmp_path / "m.json", dict, "mend it", error)
    finally:
        gc.enable()
    assert GRAMMAR.fullmatch(str(refused.value)) and "m.json" in str(refused.value)
    assert len(str(refused.value)) < len(str(tmp_path)) + 300


def test_the_same_key_twice_is_named():
    with pytest.raises(StoreError, match="the key 'c' twice"):
        parse_json(DAMAGED["twice"], "m")


def test_what_is_no_file_is_refused_and_a_pipe_is_not_waited_for(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    told = {
        "folder": "a folder",
        "pipe": "no ordinary file",
        "none": "no such file",
        "nu\0l": "an error",
    }
    for name, got in told.items():
        with pytest.raises(StoreError, match=got):
            read_json(tmp_path / name)


@pytest.mark.parametrize(
    "config",
    [{"kind": []}, {"kind": "study", "settings": 3}, {"kind": "x" * 100_000, "settings": {}}],
)
def test_a_run_s_folder_with_other_types_in_its_config_is_somebody_else_s(config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CrosslensError, match="expected a run made by `crosslens study`") as refused:
        check_folder(tmp_path, "study", {})
    assert len(str(refused.value)) < len(str(tmp_path)) + 300


# ---------------------------------------------------------------- what a message quotes is cut


def test_of_a_long_value_both_ends_are_quoted():
    told = quote("begin" + "x" * 1_000_000 + "end")
    assert len(told) <= 80 and told.startswith("'begin") and told.endswith("end'")
    assert quote("x" * 78) == repr("x" * 78)
    assert cut("y" * 80) == "y" * 80
    assert len(cut("y" * 81)) <= 80


@pytest.mark.parametrize("long", range(4))
def test_no_part_of_a_refusal_is_longer_than_somebody_reads(long):
    parts = ["argument", "expected", "got", "remedy"]
    parts[long] += " x" * 50_000 + " end"
    with pytest.raises(InputError) as refused:
        refuse(*parts)
    assert GRAMMAR.fullmatch(str(refused.value))
    assert len(str(refused.value)) < 1200 and "end" in str(refused.value)


def test_a_refusal_is_one_line_whatever_another_library_has_said():
    with pytest.raises(InputError, match=r"^a b: .*got e f"):
        refuse("a\nb", "c\r\n\td", "e\n\n f", "g")
