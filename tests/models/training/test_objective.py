"""The loop takes any objective: here one that it has never heard of, sentences classified by a head
on an encoder."""

import dataclasses
import json
import types
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from toy_texts import without_times

from crosslens.errors import StoreError, TrainingError
from crosslens.models.machine.distributed import join_world
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.training import loop
from crosslens.models.training.loop import run_loop
from crosslens.models.training.objective import Objective, Step
from crosslens.models.training.settings import LoopSettings, Optimisation

SHAPE = EncoderConfig(
    vocab_size=20, hidden_size=16, layers=2, heads=2, ffn_size=32, max_positions=8, dropout=0.1
)
SETTINGS = LoopSettings(
    name="toy",
    steps=30,
    seed=3,
    log_every=5,
    validate_every=10,
    save_every=10,
    select="best",
    optimisation=Optimisation(peak_rate=1e-2),
)


class Classifier(torch.nn.Module):
    """The mean of an encoder's last states, and a linear map to the scores of two classes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder, self.head = (
            MaskedLM(SHAPE, seed=1).encoder,
            torch.nn.Linear(SHAPE.hidden_size, 2),
        )

    def forward(self, ids):
        positions = torch.arange(ids.shape[1]).expand_as(ids)
        return self.head(self.encoder(ids, positions)[-1].mean(1))


class Classification:
    """Which of two halves of the vocabulary most of a sentence's tokens are from; embeddings of
    positions are frozen."""

    def __init__(self):
        self.model = Classifier()
        self.model.encoder.position.requires_grad_(False)

    rate_factors: Mapping[str, float] = {}

    def draw(self, rng, n):
        ids = torch.from_numpy(rng.integers(20, size=(n, 7)))
        return ids, ((ids >= 10).sum(1) >= 4).long()

    def batch(self, step):
        ids, labels = self.draw(np.random.default_rng([SETTINGS.seed, step]), 16)
        halves = [
            {"ids": ids[rows], "labels": labels[rows]} for rows in (slice(0, 8), slice(8, 16))
        ]
        return Step(halves, predicted=16, tokens=ids.numel())

    def loss(self, runner, inputs, batch):
        return (
            F.cross_entropy(runner(inputs["ids"]), inputs["labels"], reduction="sum")
            / batch.predicted
        )

    def flops(self, batch):
        raise NotImplementedError  # asked for only on a GPU

    @torch.no_grad()
    def validate(self, device):
        self.model.eval()
        ids, labels = self.draw(np.random.default_rng(99), 100)
        right = (self.model(ids).argmax(1) == labels).float().mean().item()
        self.model.train()
        return {"accuracy": right}

    def measure(self, found):
        return -found["accuracy"]


def run(folder, settings=SETTINGS, objective=None):
    with join_world("cpu") as world:
        return run_loop(
            objective or Classification(), settings, folder, {"seed": settings.seed}, world
        )


def log(folder):
    return without_times(
        [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return folder, run(folder)


def test_another_objective_is_learnt_by_the_same_loop(undisturbed):
    folder, weights = undisturbed
    losses = [line["loss"] for line in log(folder) if "loss" in line]
    accuracies = [line["accuracy"] for line in log(folder) if "accuracy" in line]
    assert len(losses) == 6 and losses[-1] < 0.8 * losses[0]
    assert len(accuracies) == 3 and max(accuracies) > 0.7
    finished = Classification()
    finished.model.load_state_dict(weights)
    assert finished.validate(None)["accuracy"] == max(accuracies)


def test_what_is_frozen_stays(undisturbed):
    _, weights = undisturbed
    first = Classifier().state_dict()
    moved = {name for name, tensor in weights.items() if not torch.equal(tensor, first[name])}
    assert moved == set(first) - {"encoder.position.shared.weight"}


@pytest.mark.parametrize("step", [4, 17])
def test_it_is_resumed_to_the_same_bits(undisturbed, tmp_path, monkeypatch, step):
    folder, weights = undisturbed

    def stop(now, *rest):
        if now == step:
            raise KeyboardInterrupt
        return rate(now, *rest)

    rate = loop.learning_rate
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(loop, "learning_rate", stop)
        run(tmp_path)
    assert [path.name for path in tmp_path.glob("checkpoints/step-*")] == (
        [] if step == 4 else ["step-00000010"]
    )
    resumed = run(tmp_path)
    assert resumed.keys() == weights.keys() and all(
        torch.equal(tensor, weights[name]) for name, tensor in resumed.items()
    )
    assert log(tmp_path) == log(folder)
    with pytest.raises(StoreError, match=r"settings of this run|seed: 3 there, 4 here"):
        run(tmp_path, dataclasses.replace(SETTINGS, seed=4))


def test_seconds_since_the_last_line_of_the_log_are_resumed_too(tmp_path, monkeypatch):
    """Every step takes a second; what came after the last checkpoint is computed again."""
    settings = dataclasses.replace(SETTINGS, log_every=10, save_every=4, validate_every=30)
    rate, passed, until = loop.learning_rate, 0.0, 18

    def step(now, *rest):
        nonlocal passed
        passed += 1
        if now == until:
            raise KeyboardInterrupt
        return rate(now, *rest)

    monkeypatch.setattr(loop, "learning_rate", step)
    monkeypatch.setattr(loop, "time", types.SimpleNamespace(monotonic=lambda: passed))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, settings)
    until = None
    run(tmp_path, settings)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    told = [line for line in lines if "loss" in line]
    assert [(line["step"], line["seconds"]) for line in told] == [(10, 10), (20, 20), (30, 30)]
    assert len({line["tokens_per_second"] for line in told}) == 1  # of the steps since the start


def test_a_loss_that_is_no_number_stops_it_before_anything_is_saved(tmp_path):
    class Spoilt(Classification):
        def loss(self, *arguments):
            return super().loss(*arguments) * float("nan")

    with pytest.raises(TrainingError, match="loss at step 0: .*got nan"):
        run(tmp_path, objective=Spoilt())
    assert not (tmp_path / "checkpoints").exists()


def test_it_is_an_objective_by_its_methods():
    assert isinstance(Classification(), Objective)
