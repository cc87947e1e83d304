"""Commands that are killed, interrupted or run out of room at random moments, and given again, end
with the bytes of an undisturbed one.

``CROSSLENS_KILLS`` is the number of moments for each command (ten), ``CROSSLENS_SEED`` draws
others.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MOMENTS, SEED = os.environ.get("CROSSLENS_KILLS", "10"), os.environ.get("CROSSLENS_SEED", "0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kills")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "interrupt", "full"])
@pytest.mark.parametrize(
    "job", ["sentence", "word", "type", "study", "probe", "transfer", "step-3"]
)
def test_a_command_that_was_stopped_ends_with_the_bytes_of_one_that_was_not(folder, job, how):
    command = [
        sys.executable,
        str(Path(__file__).with_name("killed_runs.py")),
        str(folder),
        job,
        how,
        MOMENTS,
        SEED,
    ]
    done = subprocess.run(
        command,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["faults"] == [] and told["stopped_in_the_middle"] >= int(MOMENTS) // 5, told
