"""Learning rates by their formulas, and what decays."""

import math

import pytest
import torch

from crosslens.models.encoder import EncoderConfig, MaskedLM
from crosslens.models.optimisers import build_optimiser, learning_rate
from crosslens.models.settings import Optimisation


def rates(decay, steps=100, warmup=20, peak=2.0):
    return [learning_rate(step, Optimisation(peak_rate=peak, warmup=warmup, decay=decay), steps) for step in range(steps)]


@pytest.mark.parametrize("decay", ["linear", "cosine", "inverse_sqrt"])
def test_the_rate_rises_to_its_peak_and_falls(decay):
    told = rates(decay)
    assert told[:20] == pytest.approx([2.0 * (step + 1) / 20 for step in range(20)], rel=1e-12)
    assert max(told) == 2.0 and all(a >= b for a, b in zip(told[19:], told[20:], strict=False))
    assert all(rate > 0 for rate in told)


def test_linear_and_cosine_by_their_formulas():
    assert rates("linear")[20:] == pytest.approx([2 * (100 - step) / 80 for step in range(20, 100)], rel=1e-12)
    assert rates("cosine")[20:] == pytest.approx([1 + math.cos(math.pi * (step - 20) / 80) for step in range(20, 100)], rel=1e-9)


def test_inverse_sqrt_is_the_published_one():
    """Golden check 2 (updates there are counted from 1); XLM begins its rise at 1e-7, we at 0."""
    settings = Optimisation(peak_rate=1e-4, warmup=30_000, decay="inverse_sqrt")
    assert learning_rate(29_999, settings, 200_000) == pytest.approx(1e-4, rel=1e-12)
    assert learning_rate(119_999, settings, 200_000) == pytest.approx(5e-5, rel=1e-12)
    assert learning_rate(14_999, settings, 200_000) == pytest.approx(5.005e-5, abs=1e-7)
    assert learning_rate(119_999, settings, 120_000) == learning_rate(119_999, settings, 10**9)


def test_a_run_shorter_than_the_warm_up_only_rises():
    assert rates("linear", steps=10) == pytest.approx([2.0 * (step + 1) / 20 for step in range(10)])


def test_biases_and_norms_do_not_decay():
    model = MaskedLM(EncoderConfig(vocab_size=30, hidden_size=8, layers=1, heads=2, ffn_size=8))
    groups = build_optimiser(model, Optimisation(weight_decay=0.3)).param_groups
    decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        exempt = name.endswith("bias") or "norm" in name
        assert decays[id(parameter)] == (0.0 if exempt else 0.3), name
    assert len(decays) == len(list(model.parameters()))


def test_it_is_adamw_with_these_settings():
    """One step against the formulas: m and v start at 0, so the first step is lr * sign(g), and the decay lr * decay * w."""
    layer = torch.nn.Linear(3, 2)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    optimiser = build_optimiser(layer, Optimisation(peak_rate=0.01, weight_decay=0.5, beta2=0.9))
    assert optimiser.defaults["betas"] == (0.9, 0.9) and optimiser.defaults["eps"] == 1e-8
    layer(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    assert torch.allclose(layer.weight, before["weight"] * (1 - 0.01 * 0.5) - 0.01, atol=1e-6)  # float32
    assert torch.allclose(layer.bias, before["bias"] - 0.01, atol=1e-6)


def test_frozen_parameters_are_left_out():
    layer = torch.nn.Linear(3, 2)
    layer.bias.requires_grad_(False)
    assert [len(group["params"]) for group in build_optimiser(layer, Optimisation()).param_groups] == [1, 0]
