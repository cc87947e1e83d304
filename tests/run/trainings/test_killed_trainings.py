"""Runs of several trainings, killed in each of their stages and between them: the resumed run ends
with the same bytes."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
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


def environment():
    """That of a process which is to find this folder and the helpers."""
    here = Path(__file__).parent
    paths = [str(here), str(here.parents[1] / "helpers"), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of a run's name, which has a run for each place where it was killed."""

    @functools.cache
    def folder(name):
        place, script = tmp_path_factory.mktemp(name), "killed_trainings.py"
        command = [sys.executable, Path(__file__).with_name(script), name, place, "undisturbed"]
        command += PLACES[name]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False
        )
        told = [f"{where} {how}" for where in PLACES[name] for how in ("killed", "status 0")]
        assert done.stdout.splitlines() == ["undisturbed status 0", *told], (
            done.stdout + done.stderr
        )
        return place

    return folder


def same_bytes(run, other, steps):
    """Two runs have the same files with the same bytes, and logs that say the same."""
    files = {str(path.relative_to(other)) for path in other.rglob("*") if path.is_file()}
    assert {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()} == files
    for path in files:
        # these hold times, or where the run lies
        if not path.endswith(("log.jsonl", "state.json", "config.json", ".lock")):
            assert (run / path).read_bytes() == (other / path).read_bytes(), path
    for step in steps:
        assert without_times(log(run / step)) == without_times(log(other / step))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place"), [(n, p) for n, some in PLACES.items() for p in some])
def test_a_run_killed_anywhere_ends_with_the_same_bytes(killed, name, place):
    same_bytes(killed(name) / place, killed(name) / "undisturbed", STEPS[name])


def together(name, place, out, where, process):
    """A run by two processes, of which one may be killed."""
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    line += [Path(__file__).with_name("killed_together.py"), name, place, out, where, process]
    return subprocess.run(line, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.slow  # processes that import torch
@pytest.mark.parametrize("name", [*STEPS])
def test_two_processes_learn_what_one_does(tmp_path, name):
    """Each step of the run, under a body that stands still as well."""
    command = [sys.executable, Path(__file__).with_name("killed_trainings.py"), f"{name}-plain"]
    command += [tmp_path, "undisturbed"]
    one = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    done = together(f"{name}-plain", tmp_path, "run", "undisturbed", "0")
    assert one.stdout == "undisturbed status 0\n" and done.returncode == 0, one.stderr + done.stderr
    alone, two = tmp_path / "undisturbed", tmp_path / "run"
    # gradients are summed in another order, and Adam divides them by their own size: rounding
    # becomes a thousandth within these few steps
    for step in STEPS[name]:
        logs = log(two / step), log(alone / step)
        assert all(any(what in line for line in logs[0]) for what in ("loss", "perplexity"))
        for mine, theirs in zip(*logs, strict=True):
            for what in {"loss", "perplexity"} & mine.keys():
                assert mine[what] == pytest.approx(theirs[what], rel=1e-3), (step, mine["step"])
    mine, theirs = (load_file(run / "model" / "model.safetensors") for run in (two, alone))
    assert mine.keys() == theirs.keys()
    for tensor in mine:
        assert torch.allclose(mine[tensor], theirs[tensor], rtol=1e-2, atol=1e-3), tensor


@pytest.mark.slow  # processes that import torch
@pytest.mark.parametrize(
    ("name", "place", "process"),
    [
        ("monotrans", "in-step-2", "1"),
        ("monotrans", "in-joining", "0"),
        ("clwe", "in-the-training", "1"),
    ],
)
def test_two_processes_one_of_which_is_killed_end_with_the_same_bytes(
    tmp_path, name, place, process
):
    undisturbed, killed, resumed = (
        together(name, tmp_path, out, where, process)
        for out, where in (("whole", "undisturbed"), ("run", place), ("run", "resumed"))
    )
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert killed.returncode and "Signal 9" in killed.stderr, killed.stderr
    assert resumed.returncode == 0, resumed.stderr
    same_bytes(tmp_path / "run", tmp_path / "whole", STEPS[name])
