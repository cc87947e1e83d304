"""`crosslens train` killed, interrupted or on a full disk at any moment: the resumed run ends with
the same bytes.

CROSSLENS_KILLS says how often (10), CROSSLENS_KILL_SEED when.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from toy_texts import log, two_languages, without_times, write_lines

KILLS = int(os.environ.get("CROSSLENS_KILLS") or 10)
SEED = int(os.environ.get("CROSSLENS_KILL_SEED") or random.SystemRandom().randrange(10**6))
JOBS = [
    f"{how} {number}"
    for how, n in (("kill", KILLS), ("interrupt", -(-KILLS // 3)), ("full", -(-KILLS // 2)))
    for number in range(n)
]
RECIPE = """
name = "toy"
steps = 30
batch_tokens = 256
max_length = 30
log_every = 5
validate_every = 15
save_every = 4
select = "best"
vocabulary = {size = 90, sentences = 300}
encoder = {hidden_size = 32, layers = 2, heads = 2, ffn_size = 64, max_positions = 32}
[[sources]]
name = "toy"
texts = {eng = "toy.eng", nld = "toy.nld"}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The folder of the runs, and job to what happened to it."""
    folder = tmp_path_factory.mktemp("killed")
    for name, lines in zip(("toy.eng", "toy.nld"), two_languages(160), strict=True):
        write_lines(folder / name, lines)
    (folder / "recipe.toml").write_text(RECIPE)
    here = Path(__file__).parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(here), *sys.path]),
        "OMP_NUM_THREADS": "1",
        "RANK": "0",
    }
    command = [
        sys.executable,
        str(here / "killed_training.py"),
        str(folder / "recipe.toml"),
        str(folder),
        str(SEED),
        *JOBS,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    stories = [json.loads(line) for line in done.stdout.splitlines()]
    return folder, {story["job"]: story["story"] for story in stories}


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_run_that_was_stopped_anywhere_ends_with_the_same_bytes(told, job):
    folder, stories = told
    # shown where it fails
    print(f"CROSSLENS_KILL_SEED={SEED}:", json.dumps(stories[job], indent=1))
    *stops, last = stories[job]
    assert last["status"] == 0
    for stop in stops:
        said = stop["said"]
        assert (
            stop["status"]
            in {"kill": (-9, 0), "interrupt": (130, -2, 0), "full": (2, 0)}[job.partition(" ")[0]]
        )
        assert "Traceback" not in said and "internal error" not in said
    run, other = folder / job.replace(" ", "-"), folder / "undisturbed"
    files = {str(path.relative_to(other)) for path in other.rglob("*") if path.is_file()}
    assert {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()} == files
    for path in files:
        # these hold times
        if not path.endswith(("log.jsonl", "state.json", "report.html", ".lock")):
            assert (run / path).read_bytes() == (other / path).read_bytes(), path
    assert without_times(log(run)) == without_times(log(other))
