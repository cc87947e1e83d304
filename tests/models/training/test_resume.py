"""A run that was killed, stopped or disturbed goes on to the same bytes; whatever else lies in its
folder is refused."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import interrupted_runs
import pytest
from safetensors import SafetensorError
from toy_texts import log, toy_recipe, weights, without_times

from crosslens.errors import OutputError, StoreError
from crosslens.files import lock_folder
from crosslens.models.saved import arrays
from crosslens.models.training.checkpoint import latest_checkpoint
from crosslens.models.training.masked_lm import train
from crosslens.models.training.settings import with_overrides

SEED = int(os.environ.get("CROSSLENS_KILL_SEED") or random.SystemRandom().randrange(10**6))
DRAWN = random.Random(SEED)
PLACES = [
    "step-4",
    "step-17",
    "in-the-second-checkpoint",
    "between-log-and-checkpoint",
    "before-old-checkpoints-go",
    "in-the-export",
]
KILLS = [f"toy:{place}" for place in PLACES]
# the step is drawn below, for names of tests must not change
KILLS += [f"{run}:random" for run in ("nsp", "stream")]
KILLS += [
    "best:in-the-best",
    "best:between-best-and-last",
    "best:in-the-export",
    "unigram:before-the-vocabulary-stands",
]
AT = {name: name.replace("random", f"step-{DRAWN.randrange(1, 30)}") for name in KILLS}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder with the runs that were killed, by name; the texts lie beside them."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "texts").mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(interrupted_runs.__file__).parent), *sys.path]),
        "OMP_NUM_THREADS": "1",
    }
    command = [
        sys.executable,
        interrupted_runs.__file__,
        str(folder / "texts"),
        str(folder),
        *AT.values(),
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines() == [f"{name} killed" for name in AT.values()], (
        done.stdout + done.stderr
    )
    return folder


@pytest.fixture(scope="module")
def ended(tmp_path_factory, toy_folder, undisturbed):
    """Name of a recipe to its run that nothing happened to, made when it is asked for."""
    made = {"toy": undisturbed}

    def run(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "run"
            train(interrupted_runs.RECIPES[name](toy_recipe(toy_folder)), made[name])
        return made[name]

    return run


@pytest.mark.parametrize("name", KILLS)
def test_a_killed_run_goes_on_to_the_same_bytes(killed, ended, name):
    run, folder = name.partition(":")[0], killed / AT[name]
    print(f"CROSSLENS_KILL_SEED={SEED}: killed at {AT[name]}")  # shown where it fails
    assert not (folder / "model" / "config.json").exists()
    if name == "toy:step-4":
        assert latest_checkpoint(folder / "checkpoints") is None
    recipe = interrupted_runs.RECIPES[run](toy_recipe(killed / "texts"))
    assert train(recipe, folder, resume=True) == folder / "model"
    made = sorted(
        str(path.relative_to(ended(run))) for path in ended(run).rglob("*") if path.is_file()
    )
    assert (
        sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        == made
    )
    for path in made:
        if path == "config.json":  # each has been asked for the texts of a folder of its own
            told, wanted = (json.loads((one / path).read_text()) for one in (folder, ended(run)))
            assert told.pop("asked").keys() == wanted.pop("asked").keys() and told == wanted
        elif not path.endswith(("log.jsonl", "state.json", ".lock")):  # these hold times
            assert (folder / path).read_bytes() == (ended(run) / path).read_bytes(), path
    assert without_times(log(folder)) == without_times(log(ended(run)))


def test_how_often_is_logged_and_saved_changes_no_weight(stopped_at, undisturbed, toy):
    folder = stopped_at(
        with_overrides(toy, {"save_every": 4, "validate_every": 6, "log_every": 3}), 13
    )
    train(with_overrides(toy, {"save_every": 7}), folder, resume=True)
    assert weights(folder) == weights(undisturbed)


@pytest.mark.parametrize("chosen", [{"select": "best"}, {"patience": 2}])
def test_how_often_is_validated_matters_where_weights_are_chosen_by_it(stopped_at, toy, chosen):
    folder = stopped_at(with_overrides(toy, chosen), 11)
    with pytest.raises(
        OutputError,
        match=r"expected the same settings, got other ones \(validate_every: 15 there, 6 here\)",
    ):
        train(with_overrides(toy, {**chosen, "validate_every": 6}), folder, resume=True)


def test_a_log_line_that_was_cut_is_dropped(stopped_at, toy, undisturbed):
    folder = stopped_at(toy, 12)
    with open(folder / "log.jsonl", "a") as file:
        file.write('{"step": 12, "los')
    train(toy, folder, resume=True)
    assert without_times(log(folder)) == without_times(log(undisturbed))


def test_a_finished_run_is_left_as_it_is(undisturbed, toy, tmp_path):
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    before = {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }
    assert train(toy, folder, resume=True) == folder / "model"
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_run_is_not_continued_unasked(undisturbed, toy):
    with pytest.raises(
        OutputError,
        match="expected a new folder, got a run of this recipe; add --resume to continue it",
    ):
        train(toy, undisturbed)


def test_a_run_of_another_recipe_is_refused_naming_the_setting(undisturbed, toy):
    other = with_overrides(toy, {"masking.rate": 0.3, "seed": 7})
    for resume in (False, True):
        with pytest.raises(
            OutputError,
            match=(
                r"expected the same settings, got other ones \(masking.rate: 0.15 there, 0.3 "
                r"here; seed: 0 there, 7 here\)"
            ),
        ):
            train(other, undisturbed, resume=resume)


def test_a_folder_with_other_things_is_refused(toy, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(
        OutputError,
        match=(
            "expected a new folder, or one of a run, got a folder with other files in it; choose "
            "another"
        ),
    ):
        train(toy, tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_two_runs_do_not_share_a_folder(stopped_at, toy):
    folder = stopped_at(toy, 3)
    with (
        lock_folder(folder),
        pytest.raises(
            OutputError, match="expected a folder that nobody else works in, got one with a running"
        ),
    ):
        train(toy, folder, resume=True)


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors"])
@pytest.mark.parametrize("how", ["a flipped bit", "cut short", "gone"])
def test_a_damaged_checkpoint_is_refused_by_name(undisturbed, toy, tmp_path, name, how):
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    shutil.rmtree(folder / "model")
    path = folder / "checkpoints" / "step-00000030" / name
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content if how == "a flipped bit" else content[:-10])
    if how == "gone":
        path.unlink()
    with pytest.raises(StoreError, match=f"step-00000030/{name}: .*got another checksum"):
        train(toy, folder, resume=True)


def test_a_line_of_the_log_that_a_kill_has_cut_in_two_is_about_all_its_steps(
    stopped_at, toy, undisturbed
):
    """The checkpoint after step 16 is between the lines of steps 15 and 20: the second is the mean
    of five steps, not of four."""
    recipe = with_overrides(toy, {"save_every": 4})
    folder = stopped_at(recipe, 18)
    train(recipe, folder, resume=True)
    assert without_times(log(folder)) == without_times(log(undisturbed))


def test_a_disk_that_is_full_at_a_checkpoint_is_said_to_be_so(
    toy, undisturbed, tmp_path, monkeypatch
):
    """The library that writes tensors has errors of its own, which would be shown as a fault of
    this one."""

    def full(*_):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patched:
        patched.setattr(arrays, "save_file", full)
        with pytest.raises(OutputError, match=r"model.safetensors: .*got an error \(I/O"):
            train(toy, tmp_path / "run")
    train(toy, tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(undisturbed)
