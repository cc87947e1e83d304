"""`crosslens train` and `crosslens transfer` killed, interrupted or on a full disk at any moment: the
run that is resumed ends with the same bytes.

CROSSLENS_KILLS says how often (10), CROSSLENS_KILL_SEED when.
"""

import json
import os
import random
import subprocess
import sys

import pytest
import stopped_command
from toy_texts import log, two_languages, without_times, write_lines

from crosslens.recipes.quickstart import DATA

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
TRANSFER = f"""
    transfer --encoder {DATA / "tiny-encoder"} --tasks xnli,ner --train eng --test eng,deu
    --epochs 2 --batch-size 4 --seeds 2 --keep --data DATA
"""


def train_command(folder):
    """A training of two languages."""
    for name, lines in zip(("toy.eng", "toy.nld"), two_languages(160), strict=True):
        write_lines(folder / name, lines)
    (folder / "recipe.toml").write_text(RECIPE)
    return ["train", str(folder / "recipe.toml"), "--device", "cpu"]


def transfer_command(folder):
    """Two tasks, fine-tuned with two seeds and beside a random encoder."""
    pairs = [
        f"The {animal} sleeps in house {i}.\tA {animal}.\t{label}"
        for i in range(8)
        for animal, label in (("dog", "entailment"), ("cat", "neutral"))
    ]
    names = [
        line
        for i in range(8)
        for line in (f"Person{i}\tB-PER", "lives\tO", "in\tO", f"Town{i}\tB-LOC", "")
    ]
    for name in ("xnli", "ner"):
        (folder / "data" / name).mkdir(parents=True)
    for file in ("train-en", "dev-en", "test-en", "test-de"):
        write_lines(folder / "data" / "xnli" / f"{file}.tsv", pairs)
    for file in ("en_x-ud-train", "en_x-ud-dev", "en_x-ud-test", "de_x-ud-test"):
        write_lines(folder / "data" / "ner" / f"{file}.iob2", names)
    return [str(folder / "data") if word == "DATA" else word for word in TRANSFER.split()]


COMMANDS = {"train": train_command, "transfer": transfer_command}


@pytest.fixture(scope="module", params=COMMANDS)
def told(tmp_path_factory, request):
    """The folder of the runs, and job to what happened to it."""
    folder = tmp_path_factory.mktemp("stopped")
    command = json.dumps(COMMANDS[request.param](folder))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OMP_NUM_THREADS": "1",
        "RANK": "0",
    }
    line = [sys.executable, stopped_command.__file__, str(folder), str(SEED), command, *JOBS]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    stories = [json.loads(line) for line in done.stdout.splitlines()]
    return folder, {story["job"]: story["story"] for story in stories}


def content(path):
    """What a file holds, but for times."""
    found = path.read_bytes()
    if path.name == "state.json" and path.parent.name.startswith("step-"):
        return None  # of a training, with the seconds that it took
    if path.name == "config.json":
        return {name: value for name, value in json.loads(found).items() if name != "created"}
    return found


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
    for path in sorted(files):
        if path.endswith("log.jsonl"):
            mine, theirs = (log((one / path).parent) for one in (run, other))
            assert without_times(mine) == without_times(theirs), path
        elif not path.endswith(("report.html", ".lock")):
            assert content(run / path) == content(other / path), path
