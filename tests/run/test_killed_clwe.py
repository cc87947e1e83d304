"""`crosslens train clwe` killed in each of its stages and between them: the resumed run ends with the
same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from toy_texts import log, without_times

PLACES = [
    "in-skip-gram",
    "between-skip-gram-and-mapping",
    "in-self-learning",
    "before-mapped-vectors-are-saved",
    "in-the-training",
    "in-joining",
    "before-the-scores",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place, here = tmp_path_factory.mktemp("killed"), Path(__file__).parent
    paths = [str(here), str(here.parent / "helpers"), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(here / "killed_clwe.py"), str(place), "undisturbed", *PLACES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    told = [f"{name} {how}" for name in PLACES for how in ("killed", "status 0")]
    assert done.stdout.splitlines() == ["undisturbed status 0", *told], done.stdout + done.stderr
    return place


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_run_killed_anywhere_ends_with_the_same_bytes(folder, place):
    run, other = folder / place, folder / "undisturbed"
    files = {str(path.relative_to(other)) for path in other.rglob("*") if path.is_file()}
    assert {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()} == files
    for path in files:
        # these hold times, or where the run lies
        if not path.endswith(("log.jsonl", "state.json", "config.json", ".lock")):
            assert (run / path).read_bytes() == (other / path).read_bytes(), path
    assert without_times(log(run / "bert")) == without_times(log(other / "bert"))
