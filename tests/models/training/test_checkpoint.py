"""Checkpoints: which is the latest, what they refuse to be loaded into, and the best one."""

import dataclasses
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from toy_texts import deep

from crosslens.errors import StoreError
from crosslens.files import sha256_file
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.training.checkpoint import (
    latest_checkpoint,
    load_best,
    load_checkpoint,
    save_best,
    save_checkpoint,
)
from crosslens.models.training.masked_lm import train
from crosslens.models.training.optimisers import build_optimiser
from crosslens.models.training.settings import Optimisation, with_overrides

TINY = EncoderConfig(vocab_size=20, hidden_size=8, layers=2, heads=2, ffn_size=8, max_positions=8)


def tiny(plan="", size=20):
    return MaskedLM(
        dataclasses.replace(TINY, vocab_size=size),
        3,
        languages=("eng", "nld"),
        plan=SharingPlan.parse(plan, 2),
    )


def adam(model):
    return build_optimiser(model, Optimisation())


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of a tiny model after one update."""
    model = tiny()
    optimiser = adam(model)
    ids = torch.arange(6)[None] + 5
    model(ids, torch.arange(6)[None], None, torch.tensor([1, 3]), torch.tensor([7, 9])).backward()
    optimiser.step()
    return (
        save_checkpoint(tmp_path / "checkpoints", 1, model, optimiser, {"seed": 0}, {"tokens": 6}),
        model,
        optimiser,
    )


def test_a_loaded_checkpoint_is_the_state_that_was_saved(saved):
    path, model, optimiser = saved
    other = tiny()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    fresh = adam(other)
    assert load_checkpoint(path, other, fresh, {"seed": 0}) == (1, {"tokens": 6})
    theirs = dict(other.named_parameters())
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, theirs[name]), name
        mine, loaded = optimiser.state.get(parameter, {}), fresh.state.get(theirs[name], {})
        assert mine.keys() == loaded.keys() and all(
            torch.equal(value, loaded[key]) for key, value in mine.items()
        ), name


def test_the_latest_checkpoint_is_the_newest_whole_one(tmp_path):
    assert latest_checkpoint(tmp_path / "none yet") is None
    for name in (
        "best",
        "step-00000900",
        "step-00001000",
        "step-00001100.partial",
        "step-00001200",
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("model.safetensors" if name.endswith("1200") else "state.json")).touch()
    assert latest_checkpoint(tmp_path) == tmp_path / "step-00001000"


def test_a_checkpoint_of_other_settings_is_refused(saved):
    path, model, optimiser = saved
    with pytest.raises(
        StoreError,
        match=(
            r"got other ones \(seed: 0 there, 5 here\); use another folder, or the settings of "
            r"this run"
        ),
    ):
        load_checkpoint(path, model, optimiser, {"seed": 5})


@pytest.mark.parametrize(
    ("plan", "size", "told"),
    [
        (
            "sep=emb",
            20,
            (
                r"expected the tensors of this model, got others: "
                r"encoder.position.own_eng.weight.* and \d+ more; use the plan and"
            ),
        ),
        (
            "sep=2",
            20,
            (
                r"got others: encoder.layers.1.own_eng.attention_norm.bias, .* and \d+ more; use "
                r"the plan and the vocabulary"
            ),
        ),
        (
            "",
            21,
            (
                r"got others: (encoder.token.shared.weight, "
                r"output_bias.shared.value|output_bias.*, encoder.token.*); use the plan"
            ),
        ),
    ],
)
def test_a_checkpoint_of_another_plan_or_vocabulary_is_refused_naming_tensors_that_differ(
    saved, plan, size, told
):
    other = tiny(plan, size)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(StoreError, match=told):
        load_checkpoint(saved[0], other, adam(other), {"seed": 0})
    # refused whole, not half loaded
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())


def test_a_checkpoint_that_was_put_into_another_plans_run_is_refused(undisturbed, toy, stopped_at):
    """What copying checkpoints between runs by hand leads to, even where the settings were made to
    match."""
    folder = stopped_at(deep(toy, sharing="sep-1-3", steps=12), 11)
    state = json.loads((folder / "checkpoints" / "step-00000010" / "state.json").read_text())
    shutil.rmtree(folder / "checkpoints")
    shutil.copytree(
        undisturbed / "checkpoints" / "step-00000030", folder / "checkpoints" / "step-00000010"
    )
    path = folder / "checkpoints" / "step-00000010" / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "settings": state["settings"]}))
    with pytest.raises(
        StoreError,
        match=(
            r"got others: encoder.layers.0.own_eng.*; use the plan and the vocabulary it was made "
            r"with"
        ),
    ):
        train(deep(toy, sharing="sep-1-3", steps=12), folder, resume=True)


def test_a_file_of_something_else_with_the_right_checksum_is_refused(saved):
    path, model, optimiser = saved
    content = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(content[: len(content) // 2])
    state = json.loads((path / "state.json").read_text())
    state["sha256"]["model.safetensors"] = sha256_file(path / "model.safetensors")
    (path / "state.json").write_text(json.dumps(state))
    with pytest.raises(StoreError, match=r"model.safetensors: .*got something else"):
        load_checkpoint(path, model, optimiser, {"seed": 0})


@pytest.mark.parametrize("file", ["model.safetensors", "optimiser.safetensors"])
def test_a_checkpoint_that_vouches_for_fewer_files_is_refused(saved, file):
    path, model, optimiser = saved
    state = json.loads((path / "state.json").read_text())
    del state["sha256"][file]
    (path / "state.json").write_text(json.dumps(state))
    with pytest.raises(StoreError, match=f"{file}: .*got another checksum"):
        load_checkpoint(path, model, optimiser, {"seed": 0})


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_older_checkpoints_go_and_the_best_one_stays(saved):
    path, model, optimiser = saved
    save_best(path.parent, 1, model, {"seed": 0}, 3.5)
    save_checkpoint(path.parent, 2, model, optimiser, {"seed": 0}, {"best_step": 1})
    assert names_in(path.parent) == ["best-00000001", "step-00000002"]


def test_the_best_weights_stay_until_a_checkpoint_remembers_others(saved):
    """A run that is resumed may not find the later ones best again."""
    path, model, optimiser = saved
    save_best(path.parent, 1, model, {"seed": 0}, 3.5)
    save_checkpoint(path.parent, 2, model, optimiser, {"seed": 0}, {"best_step": 1})
    for step in (3, 4, 5):
        save_best(path.parent, step, model, {"seed": 0}, 3.0)
    assert names_in(path.parent) == ["best-00000001", "best-00000005", "step-00000002"]
    save_checkpoint(path.parent, 6, model, optimiser, {"seed": 0}, {"best_step": 5})
    assert names_in(path.parent) == ["best-00000005", "step-00000006"]


def test_the_best_weights_of_an_earlier_version_are_found(saved):
    path, model, optimiser = saved
    save_best(path.parent, 1, model, {"seed": 0}, 3.5)
    (path.parent / "best-00000001").rename(path.parent / "best")
    save_checkpoint(path.parent, 2, model, optimiser, {"seed": 0}, {})
    assert load_best(path.parent, model, None) == 1
    save_best(path.parent, 3, model, {"seed": 0}, 3.0)
    assert names_in(path.parent) == ["best", "best-00000003", "step-00000002"]


def test_the_best_weights_are_those_that_were_saved(saved):
    path, model, _ = saved
    save_best(path.parent, 7, model, {"seed": 0}, 3.5)
    other = tiny()
    assert load_best(path.parent, other, 7) == 7
    assert all(
        torch.equal(tensor, other.state_dict()[name]) for name, tensor in model.state_dict().items()
    )
    assert json.loads((path.parent / "best-00000007" / "state.json").read_text())["extra"] == {
        "measure": 3.5
    }


def test_a_best_checkpoint_that_is_missing_or_damaged_is_refused(saved):
    path, model, _ = saved
    with pytest.raises(StoreError, match="best-00000007: .*got none"):
        load_best(path.parent, model, 7)
    save_best(path.parent, 7, model, {"seed": 0}, 3.5)
    file = path.parent / "best-00000007" / "model.safetensors"
    save_file({name: tensor + 1 for name, tensor in load_file(file).items()}, file)
    with pytest.raises(StoreError, match="best-00000007/model.safetensors: .*got another checksum"):
        load_best(path.parent, model, 7)


def test_a_seed_that_was_changed_is_named_by_the_run_itself(undisturbed, toy, tmp_path):
    """The run's folder agrees, its checkpoint does not."""
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    shutil.rmtree(folder / "model")
    path = folder / "checkpoints" / "step-00000030" / "state.json"
    state = json.loads(path.read_text())
    state["settings"]["seed"] = 5
    path.write_text(json.dumps(state))
    with pytest.raises(StoreError, match=r"step-00000030: .*got other ones"):
        train(with_overrides(toy, {}), folder, resume=True)
