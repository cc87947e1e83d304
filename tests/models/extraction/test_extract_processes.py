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
    jobs = [told for unit, folder in folders.items() for told in (folder, unit)]
    assert extraction_process.in_a_process(originals["bert"], text, *jobs) == 0
    return {unit: files(folder) for unit, folder in folders.items()}


def kill(originals, text, store, unit, places):
    """Begin an extraction again and again, each time killed somewhere else."""
    for place, number in (where.split() for where in places):
        job = originals["bert"], text, store, unit, place, number
        assert extraction_process.in_a_process(*job) == -9, place
        assert not store.exists()
    assert store.with_name(f"{store.name}.partial").exists()


@pytest.fixture(scope="module")
def together(originals, text, tmp_path_factory):
    """What two processes make of each unit, and of words that a process was killed at: all three by
    one start of them, since starting takes longer than the work."""
    top = tmp_path_factory.mktemp("together")
    kill(originals, text, top / "killed", "word", ["encode 3", "write 3"])
    jobs = [told for unit in UNITS for told in (top / unit, unit)]
    done = torchrun(originals["bert"], text, *jobs, top / "killed", "word")
    assert done.returncode == 0, done.stderr
    return top


@pytest.mark.slow  # five processes that import torch
@pytest.mark.parametrize("unit", UNITS)
def test_two_processes_write_the_bytes_of_one(undisturbed, together, unit):
    assert files(together / unit) == undisturbed[unit]


@pytest.mark.slow  # of the same processes
def test_two_processes_finish_what_a_killed_one_has_begun(undisturbed, together):
    assert files(together / "killed") == undisturbed["word"]
    assert sorted(path.name for path in together.iterdir()) == sorted([*UNITS, "killed"])


@pytest.mark.slow  # processes that import torch
@pytest.mark.parametrize(
    ("unit", "places"),
    [("word", ["encode 3", "put 9", "write 3"]), ("type", ["encode 9", "write 1"])],
)
def test_after_kill_9_the_same_call_ends_with_the_same_bytes(
    originals, text, undisturbed, tmp_path, unit, places
):
    store = tmp_path / "store"
    kill(originals, text, store, unit, places)
    assert extraction_process.in_a_process(originals["bert"], text, store, unit) == 0
    assert files(store) == undisturbed[unit]
