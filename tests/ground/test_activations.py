"""Stores of activations: what is written is what is opened, however often it was stopped; damage is named."""

import errno
import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from ground_tools import snapshot

from crosslens import activations
from crosslens.activations import Activations, ActivationsWriter
from crosslens.errors import InputError, OutputError, StoreError

N, D, LAYERS, BLOCK = 23, 5, 3, 4
SETTINGS = {"encoder": "abc", "text": {"sha": "def"}, "pooling": "mean"}
INDEX = {"id": [f"s{i}" for i in range(N)], "language": ["eng"] * N, "pieces": list(range(N)), "truncated": [i == 3 for i in range(N)]}
STATES = np.random.default_rng(0).normal(size=(LAYERS, N, D)).astype(np.float32)


def writer(folder, dtype="float32", **changes):
    return ActivationsWriter(folder, **{"settings": SETTINGS, "index": INDEX, **changes}, layers=LAYERS, d=D, dtype=dtype, block=BLOCK)


def write_all(mine, states=STATES):
    for rows in mine.blocks():
        mine.write(rows, list(states[:, rows.start : rows.stop]))
    return mine.finish(language="eng", encoder="toy")


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    folder = tmp_path_factory.mktemp("master") / "store"
    write_all(writer(folder))
    return folder


@pytest.fixture
def store(master, tmp_path):
    return shutil.copytree(master, tmp_path / "store")


# ---------------------------------------------------------------- what is written is what is opened


def test_a_reopened_store_is_the_fresh_arrays(store):
    opened = Activations(store)
    assert (len(opened), opened.n, opened.d, opened.layers, opened.language) == (N, N, D, LAYERS, "eng")
    for layer in range(LAYERS):
        assert np.array_equal(opened.layer(layer), STATES[layer])
    assert opened.index() == INDEX
    assert opened.manifest["settings"] == SETTINGS and opened.manifest["encoder"] == "toy"
    opened.verify()


def test_a_layer_is_mapped_and_read_only(store):
    layer = Activations(store).layer(1)
    assert isinstance(layer, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        layer[0, 0] = 1


@pytest.mark.parametrize("layer", [-1, LAYERS])
def test_there_are_no_other_layers(store, layer):
    with pytest.raises(InputError, match=rf"^layer: expected a layer from 0 to {LAYERS - 1}, got {layer}; "):
        Activations(store).layer(layer)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_sizes_on_disk_are_the_numbers_and_a_small_header(tmp_path, dtype):
    write_all(writer(tmp_path / "store", dtype))
    sizes = [(tmp_path / "store" / f"layer_{layer:02d}.npy").stat().st_size for layer in range(LAYERS)]
    assert sizes == [N * D * np.dtype(dtype).itemsize + 128] * LAYERS  # 128: numpy's header of a matrix
    assert np.array_equal(Activations(tmp_path / "store").layer(2), STATES[2].astype(dtype))


def test_files_are_the_ones_that_the_docstring_names(store):
    assert sorted(snapshot(store)) == ["index.parquet", "layer_00.npy", "layer_01.npy", "layer_02.npy", "manifest.json"]
    assert np.array_equal(np.load(store / "layer_00.npy"), STATES[0])  # plain numpy reads it


# ---------------------------------------------------------------- blocks, stops and resumption


def test_blocks_cover_the_rows_once_in_order(tmp_path):
    blocks = writer(tmp_path / "store").blocks()
    assert [row for rows in blocks for row in rows] == list(range(N))
    assert [len(rows) for rows in blocks] == [4, 4, 4, 4, 4, 3]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 0, 3, 1, 4, 2]])
@pytest.mark.parametrize("stops", [1, 3, 6])
def test_a_stopped_store_goes_on_behind_its_whole_blocks_to_the_same_bytes(master, tmp_path, order, stops):
    mine = writer(tmp_path / "store")
    blocks = mine.blocks()
    for turn in order[:stops]:
        mine.write(blocks[turn], list(STATES[:, blocks[turn].start : blocks[turn].stop]))
    assert not (tmp_path / "store").exists()
    again = writer(tmp_path / "store")
    assert again.blocks() == [blocks[i] for i in sorted(order[stops:])]
    write_all(again)
    assert snapshot(tmp_path / "store") == snapshot(master)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_torn_journal_line_counts_for_nothing_and_harms_nobody(master, tmp_path):
    mine = writer(tmp_path / "store")
    first, second, *_ = mine.blocks()
    mine.write(first, list(STATES[:, first.start : first.stop]))
    journal = tmp_path / "store.partial" / "journal.jsonl"
    journal.write_text(journal.read_text() + '{"blo')  # the disk was full in the middle of the line
    again = writer(tmp_path / "store")
    assert again.blocks()[0] == second
    again.write(second, list(STATES[:, second.start : second.stop]))
    third = writer(tmp_path / "store")
    assert len(third.blocks()) == len(mine.blocks()) - 1
    write_all(third)
    assert snapshot(tmp_path / "store") == snapshot(master)


def test_stopped_before_the_plan_was_written_it_begins_again(master, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(activations, "write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            writer(tmp_path / "store")
    write_all(writer(tmp_path / "store"))
    assert snapshot(tmp_path / "store") == snapshot(master)


def test_what_was_begun_with_other_settings_is_begun_anew(tmp_path):
    mine = writer(tmp_path / "store")
    mine.write(mine.blocks()[0], list(np.zeros((LAYERS, BLOCK, D), np.float32)))
    other = writer(tmp_path / "store", settings={**SETTINGS, "pooling": "first"})
    assert len(other.blocks()) == 6
    write_all(other).verify()
    assert np.array_equal(Activations(tmp_path / "store").layer(0), STATES[0])


def test_a_store_with_missing_blocks_is_not_finished(tmp_path):
    mine = writer(tmp_path / "store")
    mine.write(mine.blocks()[2], list(STATES[:, 8:12]))
    with pytest.raises(StoreError, match=r"expected all blocks written, got 5 missing; "):
        mine.finish()
    assert not (tmp_path / "store").exists()


def test_a_block_of_another_shape_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"^states: expected shape \(4, 5\), got \(4, 6\); "):
        writer(tmp_path / "store").write(range(4), [np.zeros((4, 6))] * LAYERS)


# ---------------------------------------------------------------- places that are taken, and disks that are full


def test_a_finished_store_of_the_same_settings_is_opened(store, tmp_path):
    assert np.array_equal(ActivationsWriter.finished(store, SETTINGS).layer(0), STATES[0])
    assert ActivationsWriter.finished(tmp_path / "none", SETTINGS) is None


def test_a_finished_store_of_other_settings_is_refused_naming_them(store):
    before = snapshot(store)
    with pytest.raises(OutputError) as refused:
        ActivationsWriter.finished(store, {**SETTINGS, "text": {"sha": "xyz"}, "pooling": "first"})
    told = "other ones (pooling: 'mean' there, 'first' here; text.sha: 'def' there, 'xyz' here)"
    assert str(refused.value) == f"{store}: expected the same settings, got {told}; choose another folder, or delete this one"
    assert snapshot(store) == before


def test_a_folder_with_files_is_refused_before_any_work_and_an_empty_one_is_used(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="expected a new or empty folder, got one with files in it; choose another folder"):
        writer(tmp_path / "store")
    (tmp_path / "store" / "thesis.tex").unlink()
    write_all(writer(tmp_path / "store")).verify()


def test_too_little_room_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("crosslens.files.shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(OutputError, match=r"expected 1\.0 MB of free disk, got 0\.0 MB at "):
        writer(tmp_path / "store")


def test_space_is_taken_before_the_first_block(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match="No space left"):
            writer(tmp_path / "store")
    assert not (tmp_path / "store").exists()
    write_all(writer(tmp_path / "store")).verify()


# ---------------------------------------------------------------- damage


def test_no_store_and_another_format_are_refused(tmp_path, store):
    with pytest.raises(StoreError, match="expected a folder of activations, got no manifest.json in it"):
        Activations(tmp_path)
    manifest = json.loads((store / "manifest.json").read_text())
    (store / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(StoreError, match="expected format 1, got 2; extract the activations again"):
        Activations(store)


@pytest.mark.parametrize("name", ["layer_00.npy", "layer_02.npy", "index.parquet"])
def test_verify_names_a_file_in_which_one_bit_is_other(store, name):
    data = bytearray((store / name).read_bytes())
    data[-3] ^= 1
    (store / name).write_bytes(data)
    opened = Activations(store)
    with pytest.raises(StoreError, match=rf"{name}: expected the file that was written, got another checksum; delete the store"):
        opened.verify()


def test_verify_names_a_missing_file(store):
    opened = Activations(store)
    (store / "index.parquet").unlink()
    with pytest.raises(StoreError, match=r"index\.parquet: expected the file that was written, got no such file"):
        opened.verify()
    with pytest.raises(StoreError, match=r"index\.parquet: expected a table of the items, got "):
        opened.index()


def test_a_damaged_index_is_refused(store):
    (store / "index.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(StoreError, match=r"index\.parquet: expected a table of the items, got .+; delete the store"):
        Activations(store).index()


@pytest.mark.parametrize("left", [0, 100, 128, -64, -1])
def test_a_truncated_layer_is_refused_at_the_door(store, left):
    data = (store / "layer_01.npy").read_bytes()
    (store / "layer_01.npy").write_bytes(data[:left])
    with pytest.raises(StoreError, match=r"layer_01\.npy: expected a file of 588 bytes, got \d+ bytes; delete the store"):
        Activations(store)


def test_a_missing_layer_is_refused_at_the_door(store):
    (store / "layer_01.npy").unlink()
    with pytest.raises(StoreError, match=r"layer_01\.npy: expected a file of 588 bytes, got 0 bytes"):
        Activations(store)


@pytest.mark.parametrize(
    "spoil", [lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"x" * 588), lambda path: path.unlink()]
)
def test_a_layer_spoilt_after_opening_is_refused(store, spoil):
    opened = Activations(store)
    spoil(store / "layer_01.npy")
    with pytest.raises(StoreError, match=r"layer_01\.npy: expected an array, got .+; delete the store and extract it again"):
        opened.layer(1)


def test_a_layer_of_another_shape_is_refused(store):
    np.save(store / "layer_01.npy", STATES[1].T.copy())
    with pytest.raises(StoreError, match=r"layer_01\.npy: expected shape \(23, 5\), got \(5, 23\)"):
        Activations(store).layer(1)
