"""Writing a store of activations: the same bytes however often it was stopped and whoever wrote
which block; refusals are clear."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tracemalloc
import weakref
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from ground_tools import snapshot
from pyarrow import parquet

from crosslens import activation_plan
from crosslens import activations_writer as activation_files
from crosslens.activations import Activations
from crosslens.activations_writer import ActivationsWriter, Block
from crosslens.errors import InputError, OutputError, StoreError
from crosslens.files import lock_file

N, D, BLOCK = 23, 5, 4
ARRAYS = ["layer_00", "layer_01", "attention_01"]
SETTINGS = {"encoder": "abc", "text": {"sha": "def"}, "pooling": "mean"}
INDEX = {"id": [f"s{i}" for i in range(N)], "pieces": list(range(N))}
STATES = dict(
    zip(ARRAYS, np.random.default_rng(0).normal(size=(3, N, D)).astype(np.float32), strict=True)
)
MORE = {"language": "eng", "encoder": "toy"}


SHAPE = {"arrays": ARRAYS, "d": D, "dtype": "float32"}
OPEN = weakref.WeakSet()


def writer(folder, **changes):
    """A writer of a new run: the processes of the run before have ended."""
    if not changes.get("rank"):
        for mine in list(OPEN):
            mine.close()
    mine = ActivationsWriter(folder, **{"settings": SETTINGS, **SHAPE, **changes})
    OPEN.add(mine)
    return mine


def plan(mine, step=BLOCK):
    """Plan all rows, added ``step`` at a time."""
    with mine.plan() as planned:
        for start in range(0, N, BLOCK):
            for at in range(start, min(start + BLOCK, N), step):
                planned.add(
                    {
                        name: column[at : min(at + step, start + BLOCK)]
                        for name, column in INDEX.items()
                    }
                )
            planned.end_block(text_start=start * 10)
    return mine


def write(mine, blocks):
    for block in blocks:
        mine.write(block, {name: state[block.start : block.stop] for name, state in STATES.items()})


def write_all(mine):
    if not mine.planned:
        plan(mine)
    write(mine, mine.left)
    return mine.finish(**MORE)


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    folder = tmp_path_factory.mktemp("master") / "store"
    write_all(writer(folder)).verify()
    return snapshot(folder)


def test_what_is_put_goes_to_the_disk_as_it_comes_and_all_of_it_before_the_store_is_seen(
    tmp_path, master, monkeypatch
):
    mine = plan(writer(tmp_path / "store"))
    monkeypatch.setattr(activation_files, "_FLUSH", 2 * 3 * D * 4)  # two rows of the three arrays
    flushed, flush = [], activation_files.flush_file
    monkeypatch.setattr(
        activation_files, "flush_file", lambda path: (flushed.append(path.stem), flush(path))
    )
    block = mine.left[0]
    for row, seen in ((0, []), (1, ARRAYS), (2, ARRAYS)):
        mine.put(block, np.array([row]), {name: state[[row]] for name, state in STATES.items()})
        assert flushed == seen
    mine.put(block, np.array([3]), {name: state[[3]] for name, state in STATES.items()})
    assert flushed == 2 * ARRAYS
    mine.end(block)
    write(mine, mine.left)
    flushed.clear()
    mine.finish(**MORE)
    assert flushed[:3] == ARRAYS and snapshot(tmp_path / "store") == master


# ---------------------------------------------------------------- the plan


def test_a_plan_s_blocks_are_its_rows_once_in_order_with_their_facts(tmp_path):
    mine = writer(tmp_path / "store")
    assert (mine.planned, mine.blocks, mine.left, mine.n) == (False, [], [], 0)
    plan(mine)
    assert mine.planned and mine.n == N and mine.left == mine.blocks
    assert mine.blocks == [
        Block(i, 4 * i, min(4 * i + 4, N), {"text_start": 40 * i}) for i in range(6)
    ]
    again = writer(tmp_path / "store", rank=1)
    assert again.planned and again.blocks == mine.blocks and len(again.blocks[-1]) == 3
    assert again.index() == INDEX and again.index(["pieces"]) == {"pieces": INDEX["pieces"]}
    assert again.aside == tmp_path / "store.partial" and again.aside.is_dir()


def test_a_finished_store_holds_what_was_written_and_no_scaffold(tmp_path, master):
    opened = write_all(writer(tmp_path / "store"))
    assert (
        opened.index() == INDEX
        and opened.manifest["settings"] == SETTINGS
        and opened.manifest["encoder"] == "toy"
    )
    assert all(
        np.array_equal(
            opened.layer(int(name[-1]), "attention" if name[0] == "a" else "hidden"), STATES[name]
        )
        for name in ARRAYS
    )
    assert sorted(master) == [
        "attention_01.safetensors",
        "checksums.bin",
        "index.parquet",
        "layer_00.safetensors",
        "layer_01.safetensors",
        "manifest.json",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("step", [1, 3])
def test_the_index_does_not_depend_on_how_the_rows_came(tmp_path, monkeypatch, step):
    monkeypatch.setattr(activation_plan, "_GROUP", 8)
    whole, pieces = writer(tmp_path / "whole"), writer(tmp_path / "pieces")
    with whole.plan() as planned:
        planned.add({name: np.array(column) for name, column in INDEX.items()})
        planned.end_block()
    plan(pieces, step)
    paths = [tmp_path / f"{name}.partial" / "index.parquet" for name in ("whole", "pieces")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    metadata = parquet.ParquetFile(paths[0]).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [8, 8, 7]


def test_memory_does_not_grow_with_the_index(tmp_path):
    def peak(rows):
        most = 0
        tracemalloc.start()
        with writer(tmp_path / "store").plan() as planned:
            for start in range(0, rows, 4096):
                planned.add(
                    {
                        "id": [f"sentence {i}" for i in range(start, start + 4096)],
                        "language": ["eng"] * 4096,
                    }
                )
                planned.end_block()
                most = max(most, pa.total_allocated_bytes())
        most += tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    one, six = peak(1 << 16), peak(6 << 16)
    # the list of 96 blocks is the difference; 5 groups of items would be 5 times as much
    assert six < 1.25 * one, (one, six)
    assert (
        parquet.ParquetFile(tmp_path / "store.partial" / "index.parquet").metadata.num_row_groups
        == 6
    )


def test_a_schema_fixes_the_types_and_else_the_first_rows_do(tmp_path):
    schema = pa.schema({"id": pa.int32(), "pieces": pa.list_(pa.int32()), "note": pa.string()})
    mine = writer(tmp_path / "store")
    with mine.plan(schema) as planned:
        # from these no type could be guessed
        planned.add({"note": [None], "id": [1], "pieces": [[]]})
        planned.add({"id": [2], "pieces": [[7]], "note": ["x"]})
        planned.end_block()
    found = parquet.read_table(tmp_path / "store.partial" / "index.parquet")
    assert found.schema.equals(schema) and found.to_pydict() == {
        "id": [1, 2],
        "pieces": [[], [7]],
        "note": [None, "x"],
    }
    with pytest.raises(InputError, match=r"^columns\['id'\]: expected"):
        with mine.plan() as planned:
            planned.add({"id": [1]})
            planned.add({"id": ["one"]})
            planned.end_block()
    assert not mine.planned


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            {"id": ["a"], "pieces": [1, 2]},
            "^columns: expected columns of one length",
        ),
        ({}, "^columns: expected columns of one length"),
        ({"id": ["a"]}, "^columns: expected id, pieces"),
        ({"id": [{1}], "pieces": [1]}, r"^columns\['id'\]: expected values of type string"),
        (
            {"id": ["\ud800"], "pieces": [1]},
            r"^columns\['id'\]: expected values of type string",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_planned(tmp_path, master, columns, told):
    mine = writer(tmp_path / "store")
    with pytest.raises(InputError, match=told):
        with mine.plan() as planned:
            planned.add({"id": ["x"], "pieces": [0]})
            planned.add(columns)
            planned.end_block()
    assert not mine.planned and not writer(tmp_path / "store").planned
    assert snapshot(write_all(writer(tmp_path / "store")).folder) == master


def test_rows_in_no_block_and_a_plan_without_columns_are_refused(tmp_path):
    mine = writer(tmp_path / "store")
    with pytest.raises(InputError, match="^plan: .*got 1 rows behind"):
        with mine.plan() as planned:
            planned.add({"id": ["x"]})
            planned.end_block()
            planned.add({"id": ["y"]})
    with pytest.raises(InputError, match="^plan: .*got none"):
        with mine.plan():
            pass
    assert not mine.planned


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError])
def test_stopped_in_the_middle_of_the_plan_it_plans_again(tmp_path, master, error):
    mine = plan(writer(tmp_path / "store"))
    with pytest.raises(error):
        with mine.plan() as planned:
            planned.add({"id": ["other"], "pieces": [0]})
            planned.end_block()
            raise error
    assert [path.name for path in tmp_path.iterdir()] == [".store.lock"]
    assert not mine.planned and not writer(tmp_path / "store").planned
    assert snapshot(write_all(mine).folder) == master


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_store_of_no_rows_and_a_block_of_no_rows(tmp_path, dtype):
    mine = writer(tmp_path / "store", dtype=dtype)
    with mine.plan() as planned:
        planned.add({"id": []})
        planned.end_block()
    write(mine, mine.left)
    opened = mine.finish()
    opened.verify()
    assert (
        opened.n == 0
        and opened.layer(1).shape == (0, D)
        and opened.index() == {"id": []}
        and list(opened.blocks()) == []
    )


# ---------------------------------------------------------------- blocks in any order, by anybody


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 0, 3, 1, 4, 2]])
@pytest.mark.parametrize("stops", [1, 3, 6])
def test_a_stopped_store_goes_on_behind_its_whole_blocks_to_the_same_bytes(
    master, tmp_path, order, stops
):
    mine = plan(writer(tmp_path / "store"))
    write(mine, [mine.blocks[turn] for turn in order[:stops]])
    assert not (tmp_path / "store").exists()
    again = writer(tmp_path / "store")
    assert again.planned and again.left == mine.left == [
        mine.blocks[i] for i in sorted(order[stops:])
    ]
    write_all(again)
    assert snapshot(tmp_path / "store") == master


def test_two_processes_write_the_bytes_of_one(master, tmp_path):
    first = plan(writer(tmp_path / "store", processes=2))
    second = writer(tmp_path / "store", rank=1, processes=2)
    assert first.left == first.blocks[::2] and second.left == first.blocks[1::2]
    for even, odd in zip(first.blocks[::2], second.blocks[1::2], strict=True):
        write(second, [odd])
        write(first, [even])
    assert first.left == second.left == []
    first.finish(**MORE)
    assert snapshot(tmp_path / "store") == master


def test_after_two_processes_one_goes_on_and_after_one_two(master, tmp_path):
    first = plan(writer(tmp_path / "store"))
    write(writer(tmp_path / "store", rank=1), first.blocks[3:5])
    write(first, first.blocks[:1])
    alone = writer(tmp_path / "store")
    assert [block.number for block in alone.left] == [1, 2, 5]
    write(alone, alone.blocks[1:2])
    both = [writer(tmp_path / "store", rank=rank, processes=2) for rank in (0, 1)]
    assert [[block.number for block in one.left] for one in both] == [[2], [5]]
    for one in both:
        write(one, one.left)
    both[0].finish(**MORE)
    assert snapshot(tmp_path / "store") == master


def test_other_ranks_wait_for_the_plan(tmp_path):
    with pytest.raises(
        StoreError,
        match=(
            r"expected activations that rank 0 has planned, got none; construct the other ranks "
            r"after"
        ),
    ):
        writer(tmp_path / "store", rank=1)
    assert list(tmp_path.iterdir()) == []


def test_a_block_that_has_changed_on_the_disk_is_written_again(master, tmp_path):
    mine = plan(writer(tmp_path / "store"))
    write(mine, mine.blocks[:2])
    write(writer(tmp_path / "store", rank=1), mine.blocks[2:4])
    # as a failing machine leaves it: the journal is ahead of the data
    for name, row in [("layer_01", 0), ("attention_01", 11)]:
        with open(tmp_path / "store.partial" / f"{name}.safetensors", "r+b") as file:
            file.seek(256 + row * D * 4)
            file.write(b"\0" * D * 4)
    again = writer(tmp_path / "store")
    assert [block.number for block in again.left] == [0, 2, 4, 5]
    write(again, again.left)
    assert [block.number for block in writer(tmp_path / "store").left] == []
    write_all(writer(tmp_path / "store"))
    assert snapshot(tmp_path / "store") == master


def test_what_earlier_runs_wrote_is_compared_by_all_processes_each_its_share(
    master, tmp_path, monkeypatch
):
    mine = plan(writer(tmp_path / "store"))
    write(mine, mine.blocks[:5])
    # nothing is read yet
    both = [writer(tmp_path / "store", rank=rank, processes=2) for rank in (0, 1)]
    compared, sums = [], activation_files.block_checksums
    monkeypatch.setattr(
        activation_files,
        "block_checksums",
        lambda paths, places, *more: sums(paths, note(places), *more),
    )

    def note(places):
        for at, size in places:
            compared.append((at - 256) // (D * 4 * BLOCK))
            yield at, size

    assert both[1].left == [mine.blocks[5]] and compared == [1, 3]
    assert both[0].left == [] and compared == [1, 3, 0, 2, 4]
    assert both[0].left == [] and len(compared) == 5  # once
    write(both[1], both[1].left)
    both[0].finish(**MORE)
    assert snapshot(tmp_path / "store") == master


def test_killed_while_it_compares_nothing_is_lost(master, tmp_path, monkeypatch):
    mine = plan(writer(tmp_path / "store"))
    write(mine, mine.blocks[:2])
    write(writer(tmp_path / "store", rank=1, processes=2), [mine.blocks[3]])

    def stopped(*_):
        raise KeyboardInterrupt

    # before and after the journals are put together
    for name in ("block_checksums", "write_whole"):
        with monkeypatch.context() as patched:
            patched.setattr(activation_files, name, stopped)
            with pytest.raises(KeyboardInterrupt):
                _ = writer(tmp_path / "store").left
    assert [block.number for block in writer(tmp_path / "store").left] == [2, 4, 5]
    again = writer(tmp_path / "store", rank=0, processes=3)
    assert (
        snapshot(write_all(writer(tmp_path / "store")).folder) == master
        and again.blocks == mine.blocks
    )


def test_an_index_that_has_changed_is_refused_when_it_goes_on(tmp_path):
    mine = plan(writer(tmp_path / "store"))
    path = tmp_path / "store.partial" / "index.parquet"
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        StoreError,
        match=(
            r"expected half-written activations, got damaged ones \(no whole index\.parquet\); begin "
            r"anew"
        ),
    ):
        _ = writer(tmp_path / "store").left
    assert mine.planned


@pytest.mark.parametrize(
    "torn", ['{"blo', '{"block": 1}\n', "\0\0\0\0", '{"block": 99, "sha256": {}}\n', "[]\n3\n"]
)
def test_a_torn_journal_line_counts_for_nothing_and_harms_nobody(master, tmp_path, torn):
    mine = plan(writer(tmp_path / "store"))
    write(mine, mine.blocks[:1])
    with open(tmp_path / "store.partial" / "journal-0.jsonl", "a") as journal:
        journal.write(torn)
    again = writer(tmp_path / "store")
    assert again.left == mine.blocks[1:]
    write(again, again.left[:1])  # its line must not run into the torn one
    assert writer(tmp_path / "store").left == mine.blocks[2:]
    write_all(again)
    assert snapshot(tmp_path / "store") == master


KILL_AT_EVERY_STEP = """
import os, signal, sys
sys.path[:0] = sys.argv[2:-1]
import test_activation_files as tests

def events(kill_at, folder):
    count = 0
    def watch(event, arguments):
        nonlocal count
        if event in ("open", "os.rename", "os.remove", "os.mkdir") and str(folder) in str(arguments[0]):
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    tests.write_all(tests.writer(folder))

for kill_at in range(1, 1000, int(sys.argv[-1])):
    child = os.fork()  # nothing has been written here, so that Arrow has no threads yet
    if child == 0:
        events(kill_at, os.path.join(sys.argv[1], str(kill_at), "store"))
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(kill_at)
        break
"""


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_step_it_goes_on_to_the_same_bytes_and_is_never_half_visible(
    master, tmp_path, every
):
    here = os.path.dirname(__file__)
    root = os.path.dirname(os.path.dirname(here))
    command = [
        sys.executable,
        "-c",
        KILL_AT_EVERY_STEP,
        str(tmp_path),
        here,
        os.path.join(root, "tests", "helpers"),
        root,
        str(every),
    ]
    run = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert run.returncode == 0, run.stderr
    steps, begun, visible = int(run.stdout), [], []
    for step in range(1, steps, every):
        folder = tmp_path / str(step) / "store"
        if (folder / "manifest.json").exists():
            ActivationsWriter.finished(folder, SETTINGS).verify()
            visible.append(step)
        else:
            again = writer(folder)
            begun.append(len(again.blocks) - len(again.left))
            write_all(again)
        assert snapshot(folder) == master, step
    # killed with 0 … 6 blocks, and while tidying
    assert set(begun) == set(range(7)) and len(visible) >= 3 / every, (begun, visible)
    assert steps > 6 * len(ARRAYS) + 10


# ---------------------------------------------------------------- what is written


def test_numbers_are_rounded_to_the_type_on_disk_and_not_a_number_stays(tmp_path):
    mine = plan(writer(tmp_path / "store", dtype="float16"))
    state = np.random.default_rng(1).normal(size=(4, D))  # float64
    state[1], state[2, 0] = np.nan, -np.inf
    mine.write(
        mine.blocks[0],
        {
            "layer_00": state,
            "layer_01": state.astype(np.float16),
            "attention_01": np.full((4, D), 7),
        },
    )
    write(mine, mine.left)
    opened = mine.finish()
    for layer in (0, 1):
        assert np.array_equal(opened.layer(layer)[:4], state.astype(np.float16), equal_nan=True)
    assert (opened.layer(1, "attention")[:4] == 7).all() and np.isnan(opened.layer(0)[1]).all()


def test_arrays_in_any_memory_order_are_written_row_by_row(tmp_path, master):
    mine = plan(writer(tmp_path / "store"))
    for block in mine.left:
        mine.write(
            block,
            {
                name: np.asfortranarray(state[block.start : block.stop])
                for name, state in STATES.items()
            },
        )
    mine.finish(**MORE)
    assert snapshot(tmp_path / "store") == master


@pytest.mark.parametrize("piece", [None, 3])
def test_rows_come_in_any_order_and_a_block_counts_at_its_end(tmp_path, master, monkeypatch, piece):
    if piece is not None:  # a disk may take less than it is given
        whole = os.pwrite
        monkeypatch.setattr(os, "pwrite", lambda file, data, at: whole(file, data[:piece], at))
    rng = np.random.default_rng(0)
    mine = plan(writer(tmp_path / "store"))
    for block in mine.left:
        order = rng.permutation(len(block))
        for rows in (order[:1], order[1:1], order[1:]):
            assert block in mine.left
            mine.put(
                block,
                rows,
                {name: state[block.start : block.stop][rows] for name, state in STATES.items()},
            )
        mine.end(block)
        assert block not in mine.left
    mine.finish(**MORE)
    assert snapshot(tmp_path / "store") == master


def test_a_block_ends_with_each_row_once(tmp_path):
    mine = plan(writer(tmp_path / "store"))
    block, state = mine.blocks[1], {name: np.zeros((2, D)) for name in ARRAYS}
    for rows in ([0, 4], [-1, 0]):
        with pytest.raises(InputError, match=f"^rows: .*got {rows[0]} to"):
            mine.put(block, np.array(rows), state)
    mine.put(block, np.array([0, 1]), state)
    with pytest.raises(InputError, match="^block 1: .*got 2"):
        mine.end(block)
    for rows in ([0, 1], [2, 3], [3, 2]):
        mine.put(block, np.array(rows), state)
    with pytest.raises(InputError, match="^block 1: .*got 6"):
        mine.end(block)
    assert mine.left == mine.blocks
    mine.put(block, np.array([0, 1]), state)
    # a whole block: what was put before is written over
    mine.write(block, {name: np.ones((4, D)) for name in ARRAYS})
    assert mine.left == [one for one in mine.blocks if one != block]


@pytest.mark.parametrize(
    ("dtype", "number", "told"),
    [
        (
            "float16",
            70000.0,
            r"numbers that float16 holds \(up to 65504\), got 70000; use bfloat16 or float32",
        ),
        (
            "float16",
            -1e20,
            r"numbers that float16 holds \(up to 65504\), got -1e\+20; use bfloat16 or float32",
        ),
        (
            "bfloat16",
            3.4e38,
            r"numbers that bfloat16 holds \(up to 3\.39e38\), got 3\.4e\+38; use float32",
        ),
        (
            "float32",
            1e39,
            r"numbers that float32 holds \(up to 3\.40e38\), got 1e\+39; scale the numbers",
        ),
    ],
)
def test_a_number_that_the_type_cannot_hold_is_refused(tmp_path, dtype, number, told):
    mine = plan(writer(tmp_path / "store", dtype=dtype))
    states = {name: np.ones((4, D)) for name in ARRAYS}
    states["layer_01"][0, 0], states["layer_01"][2, 3] = np.inf, number
    with pytest.raises(InputError, match=rf"^states\['layer_01'\]: expected {told}$"):
        mine.write(mine.blocks[0], states)
    assert mine.left == mine.blocks
    states["layer_01"][2, 3] = {"float16": 65504, "bfloat16": 3.3e38, "float32": 3.4e38}[dtype]
    mine.write(mine.blocks[0], states)
    assert mine.left == mine.blocks[1:]


def test_blocks_and_states_that_do_not_fit_are_refused(tmp_path):
    mine = plan(writer(tmp_path / "store"))
    good = {name: np.zeros((4, D)) for name in ARRAYS}
    for block in (Block(0, 0, 5), Block(17, 0, 4), Block(0, 4, 8, {"text_start": 40})):
        with pytest.raises(InputError, match="^block: .*got Block"):
            mine.write(block, good)
    for states, told in [
        (
            {**good, "layer_01": np.zeros((4, D + 1))},
            r"^states\['layer_01'\]: expected shape \(4, 5\), got \(4, 6\); give one row",
        ),
        ({**good, "layer_01": np.zeros((1, D))}, r"expected shape \(4, 5\), got \(1, 5\)"),
        ({**good, "layer_01": np.zeros((4, D), complex)}, "expected real numbers, got complex128"),
        ({**good, "layer_01": np.full((4, D), "x")}, "expected real numbers, got <U1"),
        (
            {**good, "layer_02": good["layer_01"]},
            r"^states: expected the arrays layer_00, layer_01, attention_01, got .*layer_02; ",
        ),
        (
            {"layer_00": good["layer_00"]},
            r"^states: expected the arrays .*, got layer_00; give one array for each name",
        ),
        ({}, r"got none; "),
    ]:
        with pytest.raises(InputError, match=told):
            mine.write(mine.blocks[0], states)
    assert mine.left == mine.blocks


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"arrays": []}, "^arrays: expected different names such as layer_00, .*"),
        ({"arrays": ["layer_00", "layer_00"]}, "^arrays: expected different names"),
        ({"arrays": ["hidden_00"]}, "^arrays: expected different names"),
        ({"arrays": ["layer_0"]}, "^arrays: expected different names"),
        ({"d": 0}, "^d: expected a positive number of dimensions"),
        ({"dtype": "float64"}, "^dtype: expected one of float32, float16, bfloat16"),
    ],
)
def test_stores_that_cannot_be_are_refused(tmp_path, changes, told):
    with pytest.raises(InputError, match=told):
        writer(tmp_path / "store", **changes)


# ---------------------------------------------------------------- other settings, places that are
# taken


OTHERWISE = {
    "settings.pooling": (
        {"settings": {**SETTINGS, "pooling": "first"}},
        "pooling: 'mean' there, 'first' here",
    ),
    "arrays": (
        {"arrays": ARRAYS[:2]},
        "arrays: .'layer_00', 'layer_01', 'attention_01'. there, .'layer_00', 'layer_01'. here",
    ),
    "d": ({"d": 6}, "d: 5 there, 6 here"),
    "dtype": ({"dtype": "float16"}, "dtype: 'float32' there, 'float16' here"),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_a_half_written_store_of_other_settings_is_refused_and_kept_and_begun_anew_when_asked(
    tmp_path, master, what
):
    changes, differs = OTHERWISE[what]
    write(plan(writer(tmp_path / "store")), writer(tmp_path / "store").left[:2])
    before = snapshot(tmp_path)
    told = (
        rf"store\.partial: expected the same settings, got other ones \({differs}\); repeat those "
        rf".* --restart \(restart=True\)"
    )
    with pytest.raises(OutputError, match=told):
        writer(tmp_path / "store", **changes)
    with pytest.raises(OutputError, match=told):
        ActivationsWriter.check(tmp_path / "store", **{"settings": SETTINGS, **SHAPE, **changes})
    assert snapshot(tmp_path) == before
    ActivationsWriter.check(
        tmp_path / "store", **{"settings": SETTINGS, **SHAPE, **changes}, restart=True
    )
    assert snapshot(tmp_path) == before
    other = writer(tmp_path / "store", **changes, restart=True)
    assert not other.planned and other.blocks == [] and not other.aside.exists()
    assert plan(other).left == other.blocks
    with pytest.raises(StoreError, match="rank 0 has planned"):
        writer(tmp_path / "store", rank=1)


def test_begun_anew_by_the_same_settings_it_keeps_no_block(tmp_path, master):
    mine = plan(writer(tmp_path / "store"))
    mine.write(mine.blocks[0], {name: np.full((4, D), 7) for name in ARRAYS})
    assert not writer(tmp_path / "store", restart=True).planned
    assert snapshot(write_all(writer(tmp_path / "store")).folder) == master
    # what is finished is not deleted
    with pytest.raises(OutputError, match="expected a new or empty folder"):
        writer(tmp_path / "store", restart=True)


@pytest.mark.parametrize("restart", [False, True])
def test_a_folder_that_only_is_called_like_a_half_written_store_is_not_touched(tmp_path, restart):
    for name in ("thesis.tex", "model.safetensors", "layer_00.safetensors/"):
        aside = tmp_path / name.strip("/") / "store.partial"
        (aside / name).mkdir(parents=True) if name.endswith("/") else aside.mkdir(parents=True)
        if not name.endswith("/"):
            (aside / name).write_text("years of work")
        before = snapshot(tmp_path)
        with pytest.raises(
            OutputError,
            match=(
                r"expected half-written activations or nothing, got a folder with '.*' in it; move it "
                r"away"
            ),
        ):
            writer(aside.parent / "store", restart=restart)
        assert snapshot(tmp_path) == before
    (tmp_path / "file.partial").write_text("mine")
    with pytest.raises(
        OutputError,
        match="expected half-written activations or nothing, got something else; move it away",
    ):
        writer(tmp_path / "file", restart=restart)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: os.truncate(path, 300),
        lambda path: path.write_bytes(b"x" * 716),
    ],
)
def test_of_an_array_that_is_damaged_the_whole_blocks_are_kept(tmp_path, master, spoil):
    mine = plan(writer(tmp_path / "store"))
    write(mine, mine.left)
    spoil(tmp_path / "store.partial" / "layer_01.safetensors")
    again = writer(tmp_path / "store")
    assert again.planned and len(again.left) == 6
    assert snapshot(write_all(again).folder) == master
    mine = plan(writer(tmp_path / "other"))
    write(mine, mine.left)
    os.truncate(tmp_path / "other.partial" / "layer_01.safetensors", 256 + 9 * D * 4)
    assert writer(tmp_path / "other").left == mine.blocks[2:]


@pytest.mark.parametrize("name", ["plan.json", "blocks.json", "index.parquet"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"blocks": [{}], "index_sha256": ""}'])
def test_a_plan_that_is_damaged_is_refused_with_its_file_and_nothing_is_lost(
    tmp_path, master, name, content
):
    mine = plan(writer(tmp_path / "store"))
    write(mine, mine.blocks[:2])
    mine.close()
    path = tmp_path / "store.partial" / name
    path.unlink() if content is None else path.write_bytes(content)
    before = snapshot(tmp_path)
    with pytest.raises(StoreError, match=rf"{re.escape(name)}"):
        writer(tmp_path / "store")
    assert snapshot(tmp_path) == before
    assert snapshot(write_all(writer(tmp_path / "store", restart=True)).folder) == master


# ---------------------------------------------------------------- one writer at a time


def test_a_second_writer_is_refused_until_the_first_is_closed_and_loses_nothing(tmp_path, master):
    mine = plan(ActivationsWriter(tmp_path / "store", SETTINGS, **SHAPE))
    write(mine, mine.blocks[:2])
    for restart in (False, True):
        with pytest.raises(OutputError, match=r"store: .*got one with a"):
            ActivationsWriter(tmp_path / "store", SETTINGS, **SHAPE, restart=restart)
    write(mine, mine.left)
    mine.finish(**MORE)
    assert snapshot(tmp_path / "store") == master and [
        path.name for path in tmp_path.iterdir()
    ] == ["store"]


def test_a_writer_is_closed_by_with_and_by_an_error(tmp_path, master):
    with (
        pytest.raises(KeyboardInterrupt),
        ActivationsWriter(tmp_path / "store", SETTINGS, **SHAPE) as mine,
    ):
        write(plan(mine), mine.blocks[:2])
        raise KeyboardInterrupt
    with ActivationsWriter(tmp_path / "store", SETTINGS, **SHAPE) as again:
        assert again.left == again.blocks[2:]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store.partial"]


def test_while_a_rank_of_an_earlier_run_works_no_new_run_begins(tmp_path, master):
    first = plan(ActivationsWriter(tmp_path / "store", SETTINGS, **SHAPE))
    second = ActivationsWriter(tmp_path / "store", SETTINGS, **SHAPE, rank=1)
    first.close()  # it was killed, and the other has not yet heard of it
    with pytest.raises(OutputError, match="one with a running crosslens"):
        ActivationsWriter(tmp_path / "store", SETTINGS, **SHAPE)
    write(second, second.left[:1])
    second.close()
    (tmp_path / ".store.lock").touch()  # as kill -9 leaves them
    (tmp_path / ".store.lock-1").touch()
    with ActivationsWriter(tmp_path / "store", SETTINGS, **SHAPE) as again:
        write_all(again)
    assert snapshot(tmp_path / "store") == master and [
        path.name for path in tmp_path.iterdir()
    ] == ["store"]


def test_of_two_processes_that_begin_at_once_one_writes_and_the_other_is_refused(tmp_path, master):
    go, told = threading.Barrier(8), []

    def begin():
        go.wait()
        try:
            with ActivationsWriter(tmp_path / "store", SETTINGS, **SHAPE) as mine:
                write_all(mine)
                told.append("written")
        except OutputError as error:
            told.append(str(error))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told.count("written") == 1 and all(
        "running crosslens" in one or "new or empty folder" in one
        for one in told
        if one != "written"
    )
    assert snapshot(tmp_path / "store") == master and [
        path.name for path in tmp_path.iterdir()
    ] == ["store"]


def test_a_store_with_missing_blocks_or_no_plan_is_not_finished(tmp_path):
    mine = writer(tmp_path / "store")
    with pytest.raises(
        StoreError, match="expected all blocks written, got no plan; write them first"
    ):
        mine.finish()
    write(plan(mine), mine.blocks[2:3])
    with pytest.raises(
        StoreError, match="expected all blocks written, got 5 of 6 missing; write them first"
    ):
        mine.finish()
    write(mine, mine.left)
    with pytest.raises(InputError, match="^more: .*got checksums_sha256"):
        mine.finish(d=3, checksums_sha256=[], language="eng")
    assert not (tmp_path / "store").exists()


def test_a_finished_store_of_the_same_settings_is_opened_and_of_others_refused(tmp_path):
    write_all(writer(tmp_path / "store"))
    assert ActivationsWriter.finished(tmp_path / "none", SETTINGS) is None
    assert isinstance(ActivationsWriter.finished(tmp_path / "store", SETTINGS), Activations)
    before = snapshot(tmp_path)
    with pytest.raises(OutputError) as refused:
        ActivationsWriter.finished(
            tmp_path / "store", {**SETTINGS, "text": {"sha": "xyz"}, "pooling": "first"}
        )
    told = "other ones (pooling: 'mean' there, 'first' here; text.sha: 'def' there, 'xyz' here)"
    assert str(refused.value) == (
        f"{tmp_path / 'store'}: expected the same settings, got {told}; choose another "
        f"folder, or delete this one"
    )
    with pytest.raises(
        OutputError, match="expected a new or empty folder, got one with files in it"
    ):
        writer(tmp_path / "store")
    assert snapshot(tmp_path) == before


def test_a_folder_with_files_is_refused_before_any_work_and_an_empty_one_is_used(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "thesis.tex").write_text("years of work")
    with pytest.raises(
        OutputError,
        match="expected a new or empty folder, got one with files in it; choose another folder",
    ):
        writer(tmp_path / "store")
    (tmp_path / "store" / "thesis.tex").unlink()
    write_all(writer(tmp_path / "store")).verify()


# ---------------------------------------------------------------- disks that are full

FULL = (
    r"expected a disk with room for the activations, got No space left on device; finished blocks are "
    r"kept; free some space and run it again$"
)


def test_too_little_room_is_refused_before_any_block(tmp_path, monkeypatch, master):
    with monkeypatch.context() as patched:
        patched.setattr("crosslens.files.shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
        with pytest.raises(OutputError, match=r"expected 1\.1 MB of free disk, got 0\.0 MB at "):
            plan(writer(tmp_path / "store"))
    assert snapshot(write_all(writer(tmp_path / "store")).folder) == master


def test_space_is_taken_when_planned(tmp_path, monkeypatch, master):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    mine = writer(tmp_path / "store")
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(OutputError, match=FULL):
            plan(mine)
    # what was taken before the disk was full is given back
    assert [path.name for path in tmp_path.iterdir()] == [".store.lock"]
    assert not mine.planned and not writer(tmp_path / "store").planned
    plan(mine)
    held = [(tmp_path / "store.partial" / f"{name}.safetensors").stat() for name in ARRAYS]
    assert all(stat.st_size == 256 + N * D * 4 <= stat.st_blocks * 512 for stat in held)  # no holes
    assert snapshot(write_all(mine).folder) == master


@pytest.mark.parametrize("name", ["layer_01.safetensors", "journal-0.jsonl"])
def test_a_disk_that_is_full_in_the_middle_keeps_what_is_finished(tmp_path, master, name):
    mine = plan(writer(tmp_path / "store"))
    write(mine, mine.blocks[:2])
    path = tmp_path / "store.partial" / name
    shutil.move(path, tmp_path / "kept")
    path.symlink_to("/dev/full")
    with pytest.raises(OutputError, match=FULL):
        write(mine, mine.blocks[2:3])
    path.unlink()
    shutil.move(tmp_path / "kept", path)
    again = writer(tmp_path / "store")
    assert again.left == mine.blocks[2:]
    assert snapshot(write_all(again).folder) == master


def test_a_disk_that_is_full_while_the_index_is_written(tmp_path, master):
    mine = writer(tmp_path / "store")
    with pytest.raises(OutputError, match=FULL):
        with mine.plan() as planned:
            (tmp_path / "store.partial" / ".index.parquet.partial").symlink_to("/dev/full")
            planned.add(INDEX)
            planned.end_block()
    assert not mine.planned
    assert snapshot(write_all(writer(tmp_path / "store")).folder) == master


def test_other_errors_of_the_disk_are_told_too(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        OutputError,
        match=(
            r"expected a disk with room for the activations, got (Not a directory|File exists); .*see to "
            r"it and run"
        ),
    ):
        plan(writer(tmp_path / "file" / "store"))
    mine = plan(writer(tmp_path / "store"))
    (tmp_path / "store.partial" / "layer_01.safetensors").unlink()
    with pytest.raises(
        OutputError,
        match="got No such file or directory; finished blocks are kept; see to it and run it again",
    ):
        write(mine, mine.blocks[:1])


def test_the_journal_holds_a_line_for_each_block_of_this_process(tmp_path):
    mine = plan(writer(tmp_path / "store"))
    write(writer(tmp_path / "store", rank=3), mine.blocks[4:2:-1])
    lines = [
        json.loads(line)
        for line in (tmp_path / "store.partial" / "journal-3.jsonl").read_text().splitlines()
    ]
    assert [line["block"] for line in lines] == [4, 3] and all(
        set(line["sha256"]) == set(ARRAYS) for line in lines
    )


# ---------------------------------------------------------------- where space cannot be taken
# beforehand


@pytest.mark.parametrize("how", ["absent", errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_where_space_cannot_be_taken_the_files_are_written_in_full_and_a_full_disk_is_found_out(
    tmp_path, master, monkeypatch, how
):
    def refused(*_):
        raise OSError(how, os.strerror(how))

    if how == "absent":
        monkeypatch.delattr(os, "posix_fallocate")  # macOS
    else:
        monkeypatch.setattr(os, "posix_fallocate", refused)
    mine = plan(writer(tmp_path / "store"))
    held = [(tmp_path / "store.partial" / f"{name}.safetensors").stat() for name in ARRAYS]
    assert all(stat.st_size == 256 + N * D * 4 <= stat.st_blocks * 512 for stat in held)  # no holes
    write(mine, mine.blocks[:4])
    os.truncate(tmp_path / "store.partial" / "layer_01.safetensors", 256 + 9 * D * 4)
    # gives the file its size again, and leaves in it what is there
    again = writer(tmp_path / "store")
    assert again.left == mine.blocks[2:]
    assert snapshot(write_all(again).folder) == master

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutputError, match=FULL):
        plan(writer(tmp_path / "other"))
    assert not (tmp_path / "other.partial").exists()


def test_other_errors_of_taking_space_are_told(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "posix_fallocate", broken)
    with pytest.raises(
        OutputError, match="expected a disk with room for the activations, got Input/output error"
    ):
        plan(writer(tmp_path / "store"))


def test_what_a_killed_process_has_left_is_gone_once_the_store_is_whole(tmp_path):
    mine = plan(writer(tmp_path / "store"))
    write(mine, mine.left)
    # as safetensors leaves it where it is killed before it renames its file
    (tmp_path / "store.partial" / ".tmpF1A5jT").write_bytes(b"half a file")
    mine.finish(**MORE)
    assert not list((tmp_path / "store").glob(".tmp*"))
    left, others = tmp_path / ".store.lock", tmp_path / ".store.locked"
    left.touch()
    (tmp_path / ".store.lock-1").touch()
    others.touch()
    assert ActivationsWriter.finished(tmp_path / "store", mine.settings) is not None
    assert not left.exists() and not (tmp_path / ".store.lock-1").exists() and others.exists()
    with lock_file(left, "somebody at work"):
        ActivationsWriter.finished(tmp_path / "store", mine.settings)
        assert left.exists()
