"""Outcomes per item: what was written is read again, items are found in other runs, and what is no
such file is refused."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosslens.errors import InputError, StoreError
from crosslens.outcomes import (
    COLUMNS,
    FILE,
    Outcomes,
    item_ids,
    join_outcomes,
    pair_outcomes,
    read_outcomes,
    shared_ratings,
    write_outcomes,
)

FIELDS = [
    name
    for name in COLUMNS
    if name not in ("item", "item_id", "group", "outcome", "gold", "predicted", "of")
]


def made(n=5, seed=0, **fields):
    rng = np.random.default_rng(seed)
    ids = item_ids((f"text {i // 2}", i) for i in range(n))
    outcome = rng.integers(0, 2, n).astype(float)
    outcome[-1] = np.nan
    gold = np.array(["NOUN", "VERB", "ADJ", "ADP", "DET"] * n)[:n]
    return Outcomes(
        **{"task": "upos", "quantity": "accuracy", "encoder": "e", "layer": 3, **fields},
        item=np.arange(n),
        item_id=ids,
        group=np.array([str(i // 2) for i in range(n)]),
        outcome=outcome,
        gold=gold,
        predicted=gold[::-1],
    )


def same(one, other):
    assert all(getattr(one, name) == getattr(other, name) for name in FIELDS)
    for name in ("item", "item_id", "group", "outcome", "gold", "predicted", "of"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None and theirs is None) or np.array_equal(
            mine, theirs.astype(mine.dtype), equal_nan=name == "outcome"
        )


@pytest.fixture
def written(tmp_path):
    some = [
        made(layer=0),
        made(7, seed=1, condition="random_encoder"),
        made(
            6,
            seed=2,
            task="scws",
            quantity="spearman",
            representation="cosine",
            part="test",
            suite="s",
            method="m",
        ),
        made(3, task="wic", layer=None, encoder=None),
    ]
    write_outcomes(some, tmp_path / FILE)
    return some, tmp_path


def test_what_is_written_is_read(written):
    some, folder = written
    for one, other in zip(some, read_outcomes(folder), strict=True):
        same(one, other)
    for one, other in zip(some, read_outcomes(folder / FILE), strict=True):
        same(one, other)


def test_fields_choose_and_none_means_that_a_field_does_not_apply(written):
    some, folder = written
    assert [one.layer for one in read_outcomes(folder, task="upos")] == [0, 3]
    (one,) = read_outcomes(folder, task="upos", condition=None)
    same(some[0], one)
    (one,) = read_outcomes(folder, encoder=None, layer=None)
    same(some[3], one)
    assert read_outcomes(folder, task="upos", layer=7) == []
    with pytest.raises(InputError, match=r"wanted: .*got 'gold'"):
        read_outcomes(folder, gold="NOUN")


def test_without_labels_there_are_none(tmp_path):
    plain = Outcomes(
        task="t",
        quantity="uuas",
        item=np.arange(2),
        item_id=np.array(["a", "b"]),
        group=np.array(["s", "s"]),
        outcome=np.ones(2),
    )
    write_outcomes([plain], tmp_path / "one.parquet")
    (found,) = read_outcomes(tmp_path / "one.parquet")
    assert found.gold is None and found.predicted is None and found.mean == 1.0


def test_joined_files_read_as_one_and_bytes_are_the_same_each_time(written, tmp_path):
    some, folder = written
    for number, one in enumerate(some):
        write_outcomes([one], tmp_path / f"{number}.parquet")
    write_outcomes([], tmp_path / "none.parquet")
    files = [tmp_path / f"{number}.parquet" for number in range(len(some))] + [
        tmp_path / "none.parquet"
    ]
    join_outcomes(files, tmp_path / "joined.parquet")
    for one, other in zip(some, read_outcomes(tmp_path / "joined.parquet"), strict=True):
        same(one, other)
    again = tmp_path / "again.parquet"
    join_outcomes(files, again)
    assert again.read_bytes() == (tmp_path / "joined.parquet").read_bytes()
    write_outcomes(some, again)
    assert again.read_bytes() == (folder / FILE).read_bytes()
    assert read_outcomes(tmp_path / "none.parquet") == []


def test_the_columns_are_dictionaries_that_any_reader_of_parquet_knows(written):
    some, folder = written
    table = pq.read_table(folder / FILE)
    assert table.column_names == list(COLUMNS) and len(table) == sum(map(len, some))
    assert (
        pa.types.is_dictionary(table.schema.field("item_id").type)
        and table.schema.field("outcome").type == pa.float64()
    )
    assert (
        table.column("task").to_pylist()[0] == "upos"
        and table.column("condition").to_pylist()[0] is None
    )


def test_equal_items_are_numbered_and_names_do_not_depend_on_what_else_there_is():
    items = [("a dog", 0, "DET"), ("a dog", 1, "NOUN"), ("a dog", 0, "DET")]
    names = item_ids(items)
    assert (
        len({*names}) == 3
        and item_ids(items[1:2])[0] == names[1]
        and (item_ids(items) == names).all()
    )
    assert item_ids([("a", "b c")])[0] != item_ids([("a b", "c")])[0]


def test_items_that_both_have_are_paired_in_the_firsts_order():
    one, other = made(6), made(8, seed=3)
    turned = Outcomes(
        **{name: getattr(other, name) for name in FIELDS},
        item=other.item,
        item_id=other.item_id[::-1],
        group=other.group[::-1],
        outcome=other.outcome[::-1],
    )
    first, second, group = pair_outcomes(one, turned)
    assert (
        first.tolist() == one.outcome[:5].tolist() and second.tolist() == other.outcome[:5].tolist()
    )
    assert group.tolist() == one.group[:5].tolist()
    with pytest.raises(InputError, match=r"second: .*got uuas"):
        pair_outcomes(one, made(quantity="uuas"))


def test_what_is_no_such_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"run: .*got '.*', which"):
        read_outcomes(tmp_path)
    (tmp_path / FILE).write_bytes(b"no parquet")
    with pytest.raises(StoreError, match=r"outcomes.parquet: .*got something else"):
        read_outcomes(tmp_path)
    pq.write_table(pa.table({"task": ["a"]}), tmp_path / FILE)
    with pytest.raises(StoreError, match=r"outcomes.parquet: .*got task"):
        read_outcomes(tmp_path)
    write_outcomes([made()], tmp_path / FILE)
    table = pq.read_table(tmp_path / FILE)
    place = COLUMNS.index("group")
    pq.write_table(
        table.set_column(place, "group", pa.nulls(len(table), pa.string())), tmp_path / FILE
    )
    with pytest.raises(StoreError, match=r"expected a group in every row, got none in some"):
        read_outcomes(tmp_path)
    write_outcomes([made(500)], tmp_path / FILE)
    whole = (tmp_path / FILE).read_bytes()
    for cut in (len(whole) // 3, len(whole) - 5):
        (tmp_path / FILE).write_bytes(whole[:cut])
        with pytest.raises(StoreError, match=r"outcomes.parquet: expected"):
            read_outcomes(tmp_path)
    damaged = bytearray(whole)
    damaged[40:200] = bytes(160)
    (tmp_path / FILE).write_bytes(bytes(damaged))
    with pytest.raises(StoreError, match=r"outcomes.parquet: expected"):
        read_outcomes(tmp_path)


def test_columns_that_do_not_fit_and_items_twice_are_refused():
    ids = np.array(["a", "b"])
    with pytest.raises(InputError, match=r"outcomes: .*got 2 of item"):
        Outcomes(
            task="t",
            quantity="accuracy",
            item=np.arange(2),
            item_id=ids[:1],
            group=ids,
            outcome=np.ones(2),
        )
    with pytest.raises(InputError, match=r"item_id: .*got a 2 times"):
        Outcomes(
            task="t",
            quantity="accuracy",
            item=np.arange(2),
            item_id=np.array(["a", "a"]),
            group=ids,
            outcome=np.ones(2),
        )


def test_ratings_of_shared_items_are_in_the_order_of_their_outcomes():
    def of(names, outcome):
        gold, ids = np.array([f"{ord(name)}.5" for name in names]), np.array(list(names))
        return Outcomes(
            task="t",
            quantity="spearman",
            item=np.arange(len(ids)),
            item_id=ids,
            group=ids,
            gold=gold,
            outcome=np.array(outcome),
        )

    first, second = of("abcd", [0.1, np.nan, 0.3, 0.4]), of("dxcb", [1.0, 2.0, 3.0, 4.0])
    assert shared_ratings(first, second).tolist() == [99.5, 100.5]
    assert pair_outcomes(first, second)[2].tolist() == ["c", "d"]
    with pytest.raises(InputError, match="first: expected outcomes with"):
        shared_ratings(dataclasses.replace(first, gold=None), second)


def test_a_share_of_what_items_hold_is_kept(tmp_path):
    shares = outcomes_of_three(of=np.array([2.0, 4.0, 1.0]), outcome=np.array([1.0, 3.0, 0.0]))
    assert shares.mean == pytest.approx(4 / 7)
    write_outcomes([shares], tmp_path / "o.parquet")
    (found,) = read_outcomes(tmp_path / "o.parquet")
    assert found.of.tolist() == [2.0, 4.0, 1.0] and found.mean == shares.mean


def outcomes_of_three(**changes):
    ids = np.array(["a", "b", "c"])
    values = {
        "task": "t",
        "quantity": "span_f1",
        "item": np.arange(3),
        "item_id": ids,
        "group": ids,
    }
    return Outcomes(**{**values, **changes})
