"""Stores that several processes write, and those of processes that were killed: the bytes of one
that was left in peace."""

import os
import subprocess
import sys

import extraction_process
import pytest
from toy_models import HARD

UNITS = ["word", "type"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "eng.txt"
    path.write_text("".join(f"{HARD[i % len(HARD)]} {i}\n" for i in range(60)), encoding="utf-8")
    return path


def torchrun(*arguments):
    """Two processes."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    command += [extraction_process.__file__, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def undisturbed(originals, text, tmp_path_factory):
    folders = {unit: tmp_path_factory.mktemp("whole") / unit for unit in UNITS}
    for unit, folder in folders.items():
        assert extraction_process.in_a_process(originals["bert"], text, folder, unit) == 0
    return {unit: files(folder) for unit, folder in folders.items()}


@pytest.mark.parametrize("unit", UNITS)
def test_two_processes_write_the_bytes_of_one(originals, text, undisturbed, tmp_path, unit):
    done = torchrun(originals["bert"], text, tmp_path / "store", unit)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "store") == undisturbed[unit]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize(
    ("unit", "places"),
    [
        ("word", ["encode 3", "put 9", "write 3"]),
        pytest.param("type", ["encode 9", "write 1"], marks=pytest.mark.slow),
    ],
)
def test_after_kill_9_the_same_call_ends_with_the_same_bytes(
    originals, text, undisturbed, tmp_path, unit, places
):
    """One run is killed again and again, each time somewhere else."""
    store = tmp_path / "store"
    for place, number in (where.split() for where in places):
        assert (
            extraction_process.in_a_process(
                originals["bert"], text, store, unit, place, int(number)
            )
            == -9
        ), place
        assert not store.exists()
    assert (tmp_path / "store.partial").exists()
    if unit == "word":  # two processes compare what one has written, each its share
        done = torchrun(originals["bert"], text, store, unit)
        assert done.returncode == 0, done.stderr
    else:
        assert extraction_process.in_a_process(originals["bert"], text, store, unit) == 0
    assert files(store) == undisturbed[unit]
