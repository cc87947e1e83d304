"""Learning rates by their formulas, and what decays."""

import math

import numpy as np
import pytest
import torch

from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.training.optimisers import build_optimiser, learning_rate, set_rate
from crosslens.models.training.settings import Optimisation


def rates(decay, steps=100, warmup=20, peak=2.0):
    return [
        learning_rate(step, Optimisation(peak_rate=peak, warmup=warmup, decay=decay), steps)
        for step in range(steps)
    ]


@pytest.mark.parametrize("decay", ["linear", "cosine", "inverse_sqrt"])
def test_the_rate_rises_to_its_peak_and_falls(decay):
    told = rates(decay)
    assert told[:20] == pytest.approx([2.0 * (step + 1) / 20 for step in range(20)], rel=1e-12)
    assert max(told) == 2.0 and all(a >= b for a, b in zip(told[19:], told[20:], strict=False))
    assert all(rate > 0 for rate in told)


def test_linear_and_cosine_by_their_formulas():
    assert rates("linear")[20:] == pytest.approx(
        [2 * (100 - step) / 80 for step in range(20, 100)], rel=1e-12
    )
    assert rates("cosine")[20:] == pytest.approx(
        [1 + math.cos(math.pi * (step - 20) / 80) for step in range(20, 100)], rel=1e-9
    )


def test_inverse_sqrt_is_the_published_one():
    """Golden check 2: XLM's schedule, which begins its rise at 1e-7."""
    settings = Optimisation(peak_rate=1e-4, first_rate=1e-7, warmup=30_000, decay="inverse_sqrt")
    told = [learning_rate(step, settings, 417_000) for step in (0, 15_000, 30_000, 120_000)]
    assert told == pytest.approx([1e-7, 5.005e-5, 1e-4, 5e-5], rel=1e-12)
    assert learning_rate(119_999, settings, 120_000) == learning_rate(119_999, settings, 10**9)


def test_a_run_shorter_than_the_warm_up_only_rises():
    assert rates("linear", steps=10) == pytest.approx([2.0 * (step + 1) / 20 for step in range(10)])


def test_biases_and_norms_do_not_decay():
    model = MaskedLM(EncoderConfig(vocab_size=30, hidden_size=8, layers=1, heads=2, ffn_size=8))
    groups = build_optimiser(model, Optimisation(weight_decay=0.3)).param_groups
    decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        exempt = "bias" in name or "norm" in name
        assert decays[id(parameter)] == (0.0 if exempt else 0.3), name
    assert len(decays) == len(list(model.parameters()))


def test_it_is_adamw_with_these_settings():
    """One step against the formulas: m and v start at 0, so the first step is lr * sign(g), and the
    decay lr * decay * w."""
    layer = torch.nn.Linear(3, 2)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    optimiser = build_optimiser(layer, Optimisation(peak_rate=0.01, weight_decay=0.5, beta2=0.9))
    assert optimiser.defaults["betas"] == (0.9, 0.9) and optimiser.defaults["eps"] == 1e-8
    layer(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    # float32
    assert torch.allclose(layer.weight, before["weight"] * (1 - 0.01 * 0.5) - 0.01, atol=1e-6)
    assert torch.allclose(layer.bias, before["bias"] - 0.01, atol=1e-6)


def test_frozen_parameters_are_left_out():
    layer = torch.nn.Linear(3, 2)
    layer.bias.requires_grad_(False)
    assert [
        len(group["params"]) for group in build_optimiser(layer, Optimisation()).param_groups
    ] == [1, 0]


def quadratic(parameters, target=3.0):
    return sum(((p - target) ** 2).sum() for p in parameters)


def test_adam_puts_the_decay_into_the_gradient():
    """Kingma & Ba's algorithm 1 in numpy, three steps, the gradient being 2 (w - 3) + decay w."""
    weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0]], dtype=torch.float64))
    module = torch.nn.Module()
    module.weight = weight
    optimiser = build_optimiser(
        module,
        Optimisation(
            optimiser="adam", peak_rate=0.1, weight_decay=0.5, beta1=0.8, beta2=0.9, eps=1e-6
        ),
    )
    w, m, v = np.array([[1.0, -2.0]]), np.zeros((1, 2)), np.zeros((1, 2))
    for step in range(1, 4):
        g = 2 * (w - 3) + 0.5 * w
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        w = w - 0.1 * (m / (1 - 0.8**step)) / (np.sqrt(v / (1 - 0.9**step)) + 1e-6)
        optimiser.zero_grad()
        quadratic([weight]).backward()
        optimiser.step()
        assert np.allclose(weight.detach().numpy(), w, rtol=1e-10)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01, 0.2])
def test_lamb_by_its_algorithm(weight_decay):
    """You et al. 2020, algorithm 2, restated in numpy: a matrix is rescaled, whatever its decay, a
    vector is not; in float64."""
    rng = np.random.default_rng(0)
    matrix, vector = rng.normal(size=(3, 4)), rng.normal(size=4)
    module = torch.nn.Module()
    module.matrix, module.vector = (torch.nn.Parameter(torch.tensor(a)) for a in (matrix, vector))
    optimiser = build_optimiser(
        module,
        Optimisation(
            optimiser="lamb",
            peak_rate=0.05,
            weight_decay=weight_decay,
            beta1=0.9,
            beta2=0.99,
            eps=1e-6,
        ),
    )
    moments = [[np.zeros_like(a), np.zeros_like(a)] for a in (matrix, vector)]
    arrays = [matrix.copy(), vector.copy()]
    for step in range(1, 21):
        for i, matters in ((0, True), (1, False)):
            g, (m, v) = 2 * (arrays[i] - 3), moments[i]
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            moments[i] = [m, v]
            r = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.99**step)) + 1e-6)
            trust = 1.0
            if matters:
                r = r + weight_decay * arrays[i]
                trust = np.linalg.norm(arrays[i]) / np.linalg.norm(r)
            arrays[i] = arrays[i] - 0.05 * trust * r
        optimiser.zero_grad()
        quadratic(module.parameters()).backward()
        optimiser.step()
        assert np.allclose(module.matrix.detach().numpy(), arrays[0], rtol=1e-10)
        assert np.allclose(module.vector.detach().numpy(), arrays[1], rtol=1e-10)


@pytest.mark.parametrize("kind", ["adamw", "adam", "lamb"])
def test_every_optimiser_goes_downhill(kind):
    layer = torch.nn.Linear(3, 2)
    optimiser = build_optimiser(
        layer, Optimisation(optimiser=kind, peak_rate=0.05, weight_decay=0.0)
    )
    first = quadratic(layer.parameters()).item()
    for _ in range(200):
        optimiser.zero_grad()
        quadratic(layer.parameters()).backward()
        optimiser.step()
    assert quadratic(layer.parameters()).item() < 0.2 * first


def test_a_tensor_of_zeros_takes_a_plain_step_in_lamb():
    layer = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.zeros_(layer.weight)
    optimiser = build_optimiser(layer, Optimisation(optimiser="lamb", peak_rate=0.5))
    quadratic(layer.parameters()).backward()
    optimiser.step()
    # the sign of the gradient times the rate
    assert torch.allclose(layer.weight, torch.full((2, 2), 0.5), atol=1e-5)


def test_a_rate_is_set_as_a_number_or_in_the_tensor_that_is_there():
    """Times the factor of each group; a CUDA graph reads the same tensor again."""
    layer = torch.nn.Linear(3, 2)
    optimiser = build_optimiser(layer, Optimisation(), {"bias": 0.5})
    set_rate(optimiser, 0.25)
    groups = optimiser.param_groups
    assert [group["lr"] for group in groups] == [0.25, 0.25, 0.125, 0.125]
    assert all(type(group["lr"]) is float for group in groups)
    there = [torch.tensor(1.0), torch.tensor(1.0)]
    groups[0]["lr"], groups[2]["lr"] = there
    set_rate(optimiser, 0.75)
    assert groups[0]["lr"] is there[0] and groups[2]["lr"] is there[1]
    assert [float(group["lr"]) for group in groups] == [0.75, 0.75, 0.375, 0.375]
    assert type(groups[1]["lr"]) is type(groups[3]["lr"]) is float


def test_a_rate_in_a_tensor_takes_the_same_step():
    layers = [torch.nn.Linear(3, 2) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    optimisers = [build_optimiser(layer, Optimisation()) for layer in layers]
    for group in optimisers[1].param_groups:
        group["lr"] = torch.tensor(0.0)
    for layer, optimiser in zip(layers, optimisers, strict=True):
        set_rate(optimiser, 0.125)
        quadratic(layer.parameters()).backward()
        optimiser.step()
    assert torch.equal(layers[0].weight, layers[1].weight)
