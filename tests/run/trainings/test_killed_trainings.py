"""Runs of several trainings, killed in each of their stages and between them: the resumed run ends
with the same bytes."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from toy_texts import log, without_times

PLACES = {
    "monotrans": (
        "in-step-1",
        "in-the-export-of-step-1",
        "in-step-2",
        "in-a-checkpoint-of-step-2",
        "in-joining",
        "before-the-scores",
    ),
    "clwe": (
        "in-skip-gram",
        "between-skip-gram-and-mapping",
        "in-self-learning",
        "before-mapped-vectors-are-saved",
        "in-the-training",
        "in-joining",
        "before-the-scores",
    ),
}
STEPS = {"monotrans": ("step-1", "step-2/nld"), "clwe": ("bert",)}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of a run's name, which has a run for each place where it was killed."""

    @functools.cache
    def folder(name):
        place, here = tmp_path_factory.mktemp(name), Path(__file__).parent
        paths = [str(here), str(here.parents[1] / "helpers"), *sys.path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, here / "killed_trainings.py", name, place, "undisturbed"]
        command += PLACES[name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        told = [f"{where} {how}" for where in PLACES[name] for how in ("killed", "status 0")]
        assert done.stdout.splitlines() == ["undisturbed status 0", *told], (
            done.stdout + done.stderr
        )
        return place

    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place"), [(n, p) for n, some in PLACES.items() for p in some])
def test_a_run_killed_anywhere_ends_with_the_same_bytes(killed, name, place):
    run, other = killed(name) / place, killed(name) / "undisturbed"
    files = {str(path.relative_to(other)) for path in other.rglob("*") if path.is_file()}
    assert {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()} == files
    for path in files:
        # these hold times, or where the run lies
        if not path.endswith(("log.jsonl", "state.json", "config.json", ".lock")):
            assert (run / path).read_bytes() == (other / path).read_bytes(), path
    for step in STEPS[name]:
        assert without_times(log(run / step)) == without_times(log(other / step))
