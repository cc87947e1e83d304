"""Opening a store of activations: what is there is found, at no cost before it is used; what is not
there or damaged is named."""

import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_file_torch

from crosslens import activations
from crosslens.activations import Activations, Joined, array_header, join
from crosslens.activations_writer import ActivationsWriter
from crosslens.errors import InputError, StoreError
from crosslens.files import fingerprint

N, D, BLOCK = 23, 5, 4
ARRAYS = ["layer_00", "layer_04", "layer_12", "attention_04", "mlp_12"]
STATES = dict(
    zip(
        ARRAYS,
        np.random.default_rng(0).normal(size=(len(ARRAYS), N, D)).astype(np.float32),
        strict=True,
    )
)
INDEX = {
    "id": [f"s{i}" for i in range(N)],
    "language": [("eng", "fra", "zho")[i % 3] for i in range(N)],
    "word": ["bank" if i % 4 == 0 else f"w{i}" for i in range(N)],
    "pieces": [i % 5 for i in range(N)],
    "note": [None if i % 2 else "odd" for i in range(N)],
}
DOCUMENT = Path(__file__).parents[2] / "docs" / "activations.md"


def write_store(
    folder, index=INDEX, states=STATES, dtype="float32", schema=None, rows=BLOCK, **more
):
    names, n = list(states), len(next(iter(index.values())))
    writer = ActivationsWriter(
        folder, {"a": 1}, arrays=names, d=next(iter(states.values())).shape[1], dtype=dtype
    )
    with writer.plan(schema) as plan:
        for start in range(0, max(n, 1), rows):
            plan.add({name: column[start : start + rows] for name, column in index.items()})
            plan.end_block()
    for block in writer.left:
        writer.write(block, {name: states[name][block.start : block.stop] for name in names})
    return writer.finish(**{"language": "mul", "unit": "word", **more})


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    folder = tmp_path_factory.mktemp("master") / "store"
    write_store(folder)
    return folder


@pytest.fixture
def store(master, tmp_path):
    return shutil.copytree(master, tmp_path / "store")


def items(folder, ids, **index):
    return write_store(
        folder, {"id": ids, **index}, {"layer_00": np.zeros((len(ids), 2), np.float32)}, rows=50_000
    )


# ---------------------------------------------------------------- what is there


def test_an_opened_store_says_what_it_holds(store):
    opened = Activations(store)
    assert (len(opened), opened.n, opened.d, opened.dtype, opened.language, opened.unit) == (
        N,
        N,
        D,
        np.float32,
        "mul",
        "word",
    )
    assert (opened.layers, opened.layer_numbers, opened.arrays) == (3, [0, 4, 12], ARRAYS)
    assert opened.manifest["settings"] == {"a": 1}
    opened.verify()


def test_every_array_is_the_one_that_was_written(store):
    opened = Activations(store)
    for name, state in STATES.items():
        kind, number = name.split("_")
        assert np.array_equal(
            opened.layer(int(number), {"layer": "hidden"}.get(kind, kind)), state
        ), name
    assert np.array_equal(opened.layer(4), opened.layer(4, "hidden")) and not np.array_equal(
        opened.layer(4), opened.layer(4, "attention")
    )


def test_a_layer_is_mapped_and_read_only(store):
    layer = Activations(store).layer(4)
    assert isinstance(layer, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        layer[0, 0] = 1


@pytest.mark.parametrize(
    ("number", "output"), [(1, "hidden"), (-4, "hidden"), (13, "hidden"), (0, "mlp"), (4, "query")]
)
def test_what_is_not_stored_is_refused_with_what_is(store, number, output):
    there = r"hidden: 0, 4, 12; attention: 4; mlp: 12"
    with pytest.raises(InputError, match=rf"^layer: .*\({there}\), got {output} {number}"):
        Activations(store).layer(number, output)


def test_a_run_of_layers_is_told_in_short(tmp_path):
    states = {f"layer_{layer:02d}": np.zeros((1, 2), np.float32) for layer in range(12)}
    with pytest.raises(InputError, match=r"\(hidden: 0-11\), got hidden 12"):
        write_store(tmp_path / "store", {"id": ["a"]}, states).layer(12)


def test_more_than_a_hundred_layers_have_names_too(tmp_path):
    opened = write_store(
        tmp_path / "store",
        {"id": ["a"]},
        {"layer_05": np.zeros((1, 2)), "layer_105": np.ones((1, 2))},
    )
    assert opened.layer_numbers == [5, 105] and opened.layer(105).tolist() == [[1, 1]]


# ---------------------------------------------------------------- opening costs nothing


def test_opening_reads_nothing_but_the_manifest(store):
    for path in store.iterdir():
        if path.name != "manifest.json":
            path.write_bytes(b"\xff" * path.stat().st_size)  # whoever looked into it would stumble
    seen, watching = [], [True]
    sys.addaudithook(
        lambda event, arguments: (
            seen.append(str(arguments[0])) if event == "open" and watching[0] else None
        )
    )
    opened = Activations(store)
    watching[0] = False
    assert [path for path in seen if str(store) in path] == [
        str(store / "manifest.json")
    ] and opened.n == N
    with pytest.raises(StoreError, match=r"layer_04\.safetensors: expected the header "):
        opened.layer(4)
    with pytest.raises(StoreError, match=r"index\.parquet: expected"):
        opened.index()


def test_a_mapped_layer_is_read_where_it_is_used(tmp_path):
    """A store of 8 GB that is a hole in the disk: mapping and slicing it must not bring it into
    memory."""
    n, d = 1 << 20, 1 << 11
    write_store(tmp_path / "store", {"id": ["a"]}, {"layer_00": np.zeros((1, d), np.float32)})
    with open(tmp_path / "store" / "layer_00.safetensors", "r+b") as file:
        file.write(array_header("layer_00", n, d, "float32"))
        file.truncate(256 + n * d * 4)
    manifest = json.loads((tmp_path / "store" / "manifest.json").read_text())
    (tmp_path / "store" / "manifest.json").write_text(json.dumps({**manifest, "n": n}))
    before = resident()
    layer = Activations(tmp_path / "store").layer(0)
    assert layer.shape == (n, d) and layer[[0, n // 2, n - 1]].sum() == 0
    assert resident() - before < 64 << 20


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---------------------------------------------------------------- the index


def test_the_index_is_the_columns_or_some_of_them(store):
    opened = Activations(store)
    assert opened.index() == INDEX
    assert opened.index(["word", "id"]) == {"word": INDEX["word"], "id": INDEX["id"]}
    assert list(opened.index(["word", "id"])) == ["word", "id"]
    table = opened.table(["pieces"])
    assert (
        isinstance(table, pa.Table)
        and table.to_pydict() == {"pieces": INDEX["pieces"]}
        and len(opened.table()) == N
    )
    with pytest.raises(InputError, match=r"^column: .*got 'sentence'"):
        opened.index(["id", "sentence"])


@pytest.mark.parametrize(
    "equal",
    [
        {"language": "fra"},
        {"word": "bank"},
        {"language": ["fra", "zho"]},
        {"language": "eng", "word": "bank"},
        {"pieces": {0, 3}},
        {"pieces": np.array([1, 2])},
        {"pieces": np.array(2)},
        {"note": None},
        {"word": "nowhere"},
        {"word": []},
        {},
    ],
    ids=str,
)
def test_rows_are_those_that_a_loop_finds(store, equal):
    def fits(i):
        return all(
            INDEX[name][i]
            in (
                np.atleast_1d(value)
                if isinstance(value, np.ndarray)
                else value
                if isinstance(value, (list, set))
                else [value]
            )
            for name, value in equal.items()
        )

    opened = Activations(store)
    rows = opened.rows(**equal)
    assert rows.dtype == np.int64 and rows.tolist() == [i for i in range(N) if fits(i)]
    assert np.array_equal(
        opened.layer(4)[rows], STATES["layer_04"][[i for i in range(N) if fits(i)]]
    )


def test_rows_count_through_the_pieces_in_which_the_index_is_read(tmp_path):
    n = 200_000  # four row groups
    opened = items(
        tmp_path / "store",
        list(range(n)),
        language=["fra" if i % 70_001 == 5 else "eng" for i in range(n)],
    )
    assert opened.rows(language="fra").tolist() == [5, 70_006, 140_007]
    assert opened.rows(id=[199_999, 3]).tolist() == [3, 199_999]


def test_columns_with_a_dictionary_and_with_lists(tmp_path):
    schema = pa.schema(
        {
            "id": pa.int32(),
            "language": pa.dictionary(pa.int8(), pa.string()),
            "ids": pa.list_(pa.int32()),
        }
    )
    index = {"id": [1, 2, 3], "language": ["a", "b", "a"], "ids": [[1], [], [2, 3]]}
    opened = write_store(tmp_path / "store", index, {"layer_00": np.zeros((3, 2))}, schema=schema)
    assert opened.index() == index and opened.table().schema.types[:2] == schema.types[:2]
    assert opened.rows(language="a").tolist() == [0, 2]
    with pytest.raises(InputError, match=r"^ids: .*got list<"):
        opened.rows(ids=[[1]])
    with pytest.raises(InputError, match=r"^ids: .*got list<"):
        join([opened], on="ids")
    with pytest.raises(InputError, match=r"^language: .*got 'a' in 2"):
        join([opened], on="language")


def test_rows_of_a_column_that_is_not_there_or_a_value_of_another_type_are_refused(store):
    with pytest.raises(InputError, match=r"^column: .*got 'lang'"):
        Activations(store).rows(lang="fra")
    for value in ["three", [1, "three"], 1.5, 1 << 70]:
        with pytest.raises(InputError, match="^pieces: expected"):
            Activations(store).rows(pieces=value)


@pytest.mark.parametrize("rows", [1, 4, 22, 23, 24])
def test_blocks_cover_the_rows_once_in_order(store, rows):
    opened = Activations(store)
    layer = opened.layer(12)
    assert np.array_equal(
        np.concatenate([layer[block] for block in opened.blocks(rows)]), STATES["layer_12"]
    )
    assert {len(layer[block]) for block in opened.blocks(rows)} <= {rows, N % rows} - {0}


def test_blocks_of_nothing_are_refused(store):
    with pytest.raises(InputError, match="^rows: .*got 0"):
        Activations(store).blocks(0)


# ---------------------------------------------------------------- joining stores


def test_joined_rows_are_the_same_items(tmp_path):
    first = items(tmp_path / "a", ["s3", "s1", "s4", "s0", "s9"])
    second = items(tmp_path / "b", ["s0", "s1", "s2", "s3"])
    third = items(tmp_path / "c", ["s9", "s3", "s0", "s7", "s1", "s8"])
    joined = join([first, second, third])
    assert isinstance(joined, Joined) and [rows.tolist() for rows in joined.rows] == [
        [0, 1, 3],
        [3, 1, 0],
        [1, 4, 2],
    ]
    assert joined.left_out == [2, 1, 3] and {rows.dtype for rows in joined.rows} == {
        np.dtype(np.int64)
    }
    names = [
        np.array(store.index()["id"])[rows].tolist()
        for store, rows in zip((first, second, third), joined.rows, strict=True)
    ]
    assert names == [["s3", "s1", "s0"]] * 3


def test_stores_without_a_common_item_and_one_store_alone(tmp_path):
    first, second = items(tmp_path / "a", ["x", "y"]), items(tmp_path / "b", ["z"])
    assert [rows.tolist() for rows in join([first, second]).rows] == [[], []] and join(
        [first, second]
    ).left_out == [2, 1]
    assert join([first]).rows[0].tolist() == [0, 1]


def test_another_column_joins_too_and_so_do_numbers_of_another_width(tmp_path):
    first, second = (
        items(tmp_path / "a", ["x", "y"], verse=[10, 20]),
        items(tmp_path / "b", ["p", "q"], verse=[20, 1 << 40]),
    )
    assert [rows.tolist() for rows in join([first, second], on="verse").rows] == [[1], [0]]
    schema = pa.schema({"id": pa.string(), "verse": pa.int32()})
    narrow = write_store(
        tmp_path / "c", {"id": ["x"], "verse": [20]}, {"layer_00": np.zeros((1, 2))}, schema=schema
    )
    assert [rows.tolist() for rows in join([narrow, second, first], on="verse").rows] == [
        [0],
        [0],
        [1],
    ]
    assert [rows.tolist() for rows in join([second, narrow], on="verse").rows] == [[0], [0]]


def test_an_empty_store_joins_to_nothing(tmp_path):
    first, empty = items(tmp_path / "a", ["x", "y"]), items(tmp_path / "b", [])
    assert join([first, empty]).left_out == [2, 0] and join([empty, first]).left_out == [0, 2]


def test_items_that_are_not_unique_or_not_named_or_not_comparable_are_refused(tmp_path):
    good, twice = items(tmp_path / "a", ["x", "y"]), items(tmp_path / "b", ["x", "w", "w"])
    with pytest.raises(InputError, match=r"^id: .*got 'w' in 2"):
        join([good, twice])
    with pytest.raises(InputError, match=r"^id: .*got none in 1"):
        join([good, items(tmp_path / "c", ["x", None])])
    with pytest.raises(InputError, match=r"^id: .*got large_string"):
        join([items(tmp_path / "d", [1, 2]), good])
    with pytest.raises(InputError, match=r"^id: .*got int64 in .*d"):
        # the word "1" is not the number 1
        join([items(tmp_path / "e", ["1", "2"]), Activations(tmp_path / "d")])
    with pytest.raises(InputError, match=r"^column: .*got 'verse'"):
        join([good], on="verse")
    with pytest.raises(InputError, match="^stores: .*got none"):
        join([])


# ---------------------------------------------------------------- what others read


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_safetensors_itself_reads_the_arrays(tmp_path, dtype):
    opened = write_store(tmp_path / "store", dtype=dtype)
    for name, state in STATES.items():
        path = tmp_path / "store" / f"{name}.safetensors"
        assert path.stat().st_size == 256 + N * D * opened.dtype.itemsize
        tensors = load_file_torch(path)
        expected = torch.from_numpy(state).to(getattr(torch, dtype))  # torch rounds on its own
        assert list(tensors) == [name] and torch.equal(tensors[name], expected)
        if dtype != "bfloat16":
            assert np.array_equal(load_file(path)[name], state.astype(dtype))
        with safe_open(path, "pt") as file:
            assert torch.equal(file.get_slice(name)[3:7], expected[3:7])


def test_bfloat16_is_what_torch_makes_of_it(tmp_path):
    numbers = np.array(
        [[1 + 2**-9, 1 + 3 * 2**-9, -1e-41, 3.3e38, np.nan, np.inf, -0.0, 65504]], np.float32
    )
    layer = write_store(tmp_path / "store", {"id": ["a"]}, {"layer_00": numbers}, "bfloat16").layer(
        0
    )
    assert (
        layer.dtype == ml_dtypes.bfloat16 and layer.dtype == Activations(tmp_path / "store").dtype
    )
    expected = torch.from_numpy(numbers).bfloat16().view(torch.int16).numpy()
    number = ~np.isnan(numbers)  # of which NaN it is the two have their own opinion
    assert (
        np.array_equal(layer.view(np.int16)[number], expected[number])
        and np.isnan(layer[~number].astype(np.float32)).all()
    )


def document_codes():
    return re.findall(
        r"^```python\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_document_s_code_runs_beside_a_store_and_its_reader_reads(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    states = {"layer_00": STATES["layer_00"], "layer_01": STATES["layer_04"]}
    write_store("store", states=states)
    write_store("other", {"id": ["s5", "s3", "t"]}, {"layer_00": np.zeros((3, 2))})
    _, ours, reader, writing = document_codes()  # the first is run with those of all documents
    found = {}
    exec(compile(ours, "ours", "exec"), found)
    assert np.array_equal(found["french"], states["layer_01"][1::3]) and found["same"].left_out == [
        N - 2,
        1,
    ]
    # float32 sums
    assert np.isclose(
        sum(found["norms"]), (states["layer_01"].astype(np.float64) ** 2).sum(), rtol=1e-5
    )
    exec(compile(reader, "reader", "exec"), found)
    imported = re.findall(r"^(?:from|import) (.+)$", reader, re.MULTILINE)
    assert imported == ["json, struct", "numpy as np"]
    for dtype in activations.DTYPES:
        opened = write_store(dtype, states=states, dtype=dtype)
        read = found["read"](f"{dtype}/layer_01.safetensors")
        assert np.array_equal(read.astype(np.float32), opened.layer(1).astype(np.float32)), dtype
    exec(compile(writing, "writing", "exec"), found)
    assert found["store"].layer(0)[95].tolist() == [90] * 3 and found["store"].unit == "sentence"


def test_the_document_names_every_key_of_the_manifest(store):
    described = DOCUMENT.read_text(encoding="utf-8")
    assert [
        key
        for key in json.loads((store / "manifest.json").read_text())
        if f"`{key}`" not in described
    ] == []


def read_sums(store):
    """checksums.bin without crosslens: stop and digests of each block."""
    content, size = (store / "checksums.bin").read_bytes(), 8 + 32 * len(STATES)
    records = [content[at : at + size] for at in range(0, len(content), size)]
    return [
        (int.from_bytes(one[:8], "little"), [one[at : at + 32] for at in range(8, size, 32)])
        for one in records
    ]


def test_the_checksums_are_sha256_of_the_rows_bytes(store):
    sums, start = read_sums(store), 0
    assert [stop for stop, _ in sums] == [4, 8, 12, 16, 20, 23]
    for stop, digests in sums:
        assert digests == [
            hashlib.sha256(state[start:stop].tobytes()).digest() for state in STATES.values()
        ]
        start = stop
    manifest = json.loads((store / "manifest.json").read_text())
    for name, key in (("index.parquet", "index_sha256"), ("checksums.bin", "checksums_sha256")):
        assert manifest[key] == hashlib.sha256((store / name).read_bytes()).hexdigest()


def test_opening_and_reading_do_not_read_the_checksums(store):
    (store / "checksums.bin").unlink()
    opened = Activations(store)
    assert (
        np.array_equal(opened.layer(4), STATES["layer_04"])
        and opened.index() == INDEX
        and opened.fingerprint
    )
    assert (store / "manifest.json").stat().st_size < 1000


# ---------------------------------------------------------------- stores of the format before


OLD = Path(__file__).parent / "store_of_format_2"


def test_a_store_of_format_2_is_read_and_verified_and_gone_on_with(tmp_path):
    opened = Activations(OLD)
    opened.verify()
    rows = np.arange(7)
    assert (
        opened.layer(0).tolist() == np.stack([rows, -rows], 1).tolist()
        and opened.language == "eng"
        and opened.n == 7
    )
    assert opened.layer(1, "mlp").tolist() == np.stack([rows / 2, rows * 2], 1).tolist()
    assert opened.index() == {"id": [f"s{i}" for i in range(7)], "language": ["eng"] * 7}
    assert join([opened, opened]).left_out == [0, 0]
    # as in runs of then
    assert opened.fingerprint == fingerprint(
        [opened.manifest[key] for key in ("index_sha256", "blocks", "arrays")]
    )
    assert (
        ActivationsWriter.finished(OLD, {"encoder": "abc", "text": "def", "pooling": "mean"}).n == 7
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda blocks: blocks.pop(2),
        lambda blocks: blocks.reverse(),
        lambda blocks: blocks[1].pop("stop"),
        lambda blocks: blocks[1]["sha256"].pop("mlp_01"),
        lambda blocks: blocks[1]["sha256"].update(mlp_01="no digits"),
        lambda blocks: blocks[1].update(stop=-1),
        lambda blocks: blocks[1].update(sha256=3),
    ],
)
def test_verify_refuses_blocks_of_format_2_that_leave_rows_out(tmp_path, spoil):
    store = shutil.copytree(OLD, tmp_path / "store")
    manifest = json.loads((store / "manifest.json").read_text())
    spoil(manifest["blocks"])
    (store / "manifest.json").write_text(json.dumps(manifest))
    told = (
        r"manifest\.json.*: expected (blocks of rows that make up the 7 rows|the checksums of the "
        r"blocks|an object|a whole)"
    )
    with pytest.raises(StoreError, match=told):
        Activations(store).verify()


def test_verify_finds_damage_in_a_store_of_format_2(tmp_path):
    store = shutil.copytree(OLD, tmp_path / "store")
    data = bytearray((store / "mlp_01.safetensors").read_bytes())
    data[-1] ^= 1
    (store / "mlp_01.safetensors").write_bytes(data)
    with pytest.raises(
        StoreError, match=r"mlp_01\.safetensors, rows 6 to 6: expected sha256 80539742"
    ):
        Activations(store).verify()


# ---------------------------------------------------------------- damage


def test_no_store_and_another_format_are_refused(tmp_path, store):
    with pytest.raises(
        StoreError, match=r"expected a folder of activations, got no manifest\.json in it"
    ):
        Activations(tmp_path)
    (store / "manifest.json").write_text('{"format": 1, "n": 3}')
    with pytest.raises(
        StoreError, match="expected format 3 or 2, got 1; extract the activations again"
    ):
        Activations(store)
    (store / "manifest.json").write_text("[3]")
    with pytest.raises(
        StoreError, match="expected (format 3 or 2, got None|an object, got a list); "
    ):
        Activations(store)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n", -1),
        ("n", "23"),
        ("d", 0),
        ("dtype", "float64"),
        ("dtype", ["float32"]),
        ("arrays", []),
        ("arrays", ["../layer_00"]),
        ("arrays", ["layer_00", "layer_00"]),
        ("arrays", ["layer_005"]),
        ("arrays", [3]),
        ("checksums_sha256", None),
        ("settings", []),
        ("language", 3),
        ("encoder", ["x"]),
        ("truncated", "3"),
        ("n", 1 << 80),
        ("index_sha256", None),
    ],
)
def test_a_manifest_that_cannot_be_is_refused_at_the_door(store, key, value):
    manifest = json.loads((store / "manifest.json").read_text())
    (store / "manifest.json").write_text(json.dumps({**manifest, key: value}))
    with pytest.raises(StoreError, match=rf"manifest\.json, key {key}\S*: expected"):
        Activations(store)


@pytest.mark.parametrize(
    ("name", "row", "where"),
    [("layer_00", 0, "0 to 3"), ("layer_12", 22, "20 to 22"), ("mlp_12", 9, "8 to 11")],
)
def test_verify_names_the_rows_in_which_one_bit_is_other(store, name, row, where):
    path = store / f"{name}.safetensors"
    data = bytearray(path.read_bytes())
    data[256 + row * D * 4 + 7] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        StoreError, match=rf"{name}\.safetensors, rows {where}: .*got [0-9a-f]{{64}}"
    ):
        Activations(store).verify()


def test_verify_finds_damage_in_a_header_and_in_the_index(store):
    opened = Activations(store)
    for name, at, told in [
        ("layer_04.safetensors", 12, "the header "),
        ("index.parquet", 50, "sha256 "),
    ]:
        whole = (store / name).read_bytes()
        (store / name).write_bytes(whole[:at] + b"?" + whole[at + 1 :])
        with pytest.raises(StoreError, match=rf"{name}: expected {told}"):
            opened.verify()
        (store / name).unlink()
        with pytest.raises(StoreError, match=rf"{name}: .*got no such file.*"):
            opened.verify()
        (store / name).write_bytes(whole)
    opened.verify()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda sums: sums[:-1],
        lambda sums: sums[168:],
        lambda sums: sums[336:504] + sums,
        lambda sums: sums[:-168],
        lambda sums: b"",
    ],
)
def test_verify_refuses_checksums_that_are_not_those_that_were_written(store, spoil):
    spoilt = spoil((store / "checksums.bin").read_bytes())
    (store / "checksums.bin").write_bytes(spoilt)
    with pytest.raises(StoreError, match=r"checksums\.bin: .*got [0-9a-f]{64}"):
        Activations(store).verify()
    manifest = json.loads((store / "manifest.json").read_text())
    (store / "manifest.json").write_text(
        json.dumps({**manifest, "checksums_sha256": hashlib.sha256(spoilt).hexdigest()})
    )
    with pytest.raises(StoreError, match=r"checksums\.bin: expected|rows \d+ to \d+: "):
        Activations(store).verify()


def test_verify_refuses_a_store_without_its_checksums(store):
    (store / "checksums.bin").unlink()
    with pytest.raises(StoreError, match=r"checksums\.bin: .*got something else"):
        Activations(store).verify()


@pytest.mark.parametrize("left", [0, 100, 256, -64, -1, None])
def test_a_truncated_or_missing_array_is_refused_at_the_door(store, left):
    path = store / "layer_04.safetensors"
    data = path.read_bytes()
    path.unlink()
    if left is not None:
        path.write_bytes(data[:left])
    with pytest.raises(StoreError, match=r"layer_04\.safetensors: .*got \d+ bytes"):
        Activations(store)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:300]),
        lambda path: path.unlink(),
    ],
)
def test_an_array_spoilt_after_opening_is_refused(store, spoil):
    opened = Activations(store)
    spoil(store / "layer_04.safetensors")
    with pytest.raises(StoreError, match=r"layer_04\.safetensors: expected"):
        opened.layer(4)


def test_an_index_that_is_damaged_or_of_other_items_is_refused(store, tmp_path):
    items(tmp_path / "other", ["a"])
    shutil.copy(tmp_path / "other" / "index.parquet", store / "index.parquet")
    with pytest.raises(StoreError, match=r"index\.parquet: .*got 1"):
        Activations(store).index()
    for content in (b"PAR1 nonsense", b""):
        (store / "index.parquet").write_bytes(content)
        with pytest.raises(StoreError, match=r"index\.parquet: expected"):
            Activations(store).rows(id="s1")
