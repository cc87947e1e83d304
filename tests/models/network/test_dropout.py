"""Dropout by its definition: how much is dropped, what stays, and that torch's seed decides."""

import pytest
import torch

from crosslens.models.network.dropout import dropout


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
def test_what_is_dropped_and_what_stays(rate):
    torch.manual_seed(0)
    x = torch.rand(400, 500) + 1
    out = dropout(x, rate, True)
    gone = (out == 0).float().mean().item()
    # five standard deviations of 200,000 draws
    assert abs(gone - rate) < 5 * (rate * (1 - rate) / 200_000) ** 0.5
    stays = out != 0
    # the rate is rounded to 1 in 65,536
    assert torch.allclose(out[stays], x[stays] / (1 - rate), rtol=1e-4)


def test_rows_columns_and_neighbours_are_dropped_independently():
    """Four neighbours share one draw of 64 bits: their fates must not."""
    torch.manual_seed(1)
    gone = (dropout(torch.ones(1000, 400), 0.5, True) == 0).double()
    for step in (1, 2, 3, 4, 5, 400):
        flat = gone.flatten()
        together = (flat[:-step] * flat[step:]).mean().item()
        assert abs(together - 0.25) < 5 * (0.25 * 0.75 / 400_000) ** 0.5, step
    # 400 columns: their spread is known to 4 %
    assert gone.mean(0).std().item() == pytest.approx((0.25 / 1000) ** 0.5, rel=0.15)


def test_the_gradient_is_that_of_the_mask():
    torch.manual_seed(2)
    x = torch.rand(30, 7, dtype=torch.float64, requires_grad=True)
    out = dropout(x, 0.3, True)
    out.sum().backward()
    assert torch.equal(x.grad != 0, out != 0) and len(x.grad[x.grad != 0].unique()) == 1


def test_torchs_seed_decides():
    x = torch.ones(50, 50)
    torch.manual_seed(3)
    first, second = dropout(x, 0.5, True), dropout(x, 0.5, True)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.5, True), first) and not torch.equal(first, second)


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 1), (0, 4), (2, 3, 5)])
def test_any_shape_will_do(shape):
    assert dropout(torch.ones(shape), 0.5, True).shape == shape


def test_nothing_is_dropped_in_evaluation_or_at_rate_0():
    x = torch.rand(5)
    torch.manual_seed(4)
    before = torch.get_rng_state()
    assert dropout(x, 0.5, False) is x and dropout(x, 0.0, True) is x
    assert torch.equal(torch.get_rng_state(), before)
