"""Operations per token, against a count by torch itself."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from crosslens.models.costs import flops_per_token, peak_flops
from crosslens.models.encoder import EncoderConfig, MaskedLM


@pytest.mark.parametrize("changes", [{}, {"head": "plain"}, {"layers": 5, "ffn_size": 40}, {"vocab_size": 900}])
def test_the_formula_counts_what_torch_counts(changes):
    """Forward and backward of one batch; torch counts every product, so only the formula's words are at stake."""
    shape = {"vocab_size": 60, "hidden_size": 32, "layers": 2, "heads": 2, "ffn_size": 64, "max_positions": 16, "attention": "eager"}
    config = EncoderConfig(**{**shape, **changes}, dropout=0.0)
    model, ids = MaskedLM(config), torch.randint(5, 60, (4, 16))
    masked = torch.arange(0, 64, 4)
    with FlopCounterMode(display=False) as counter:
        model(ids, torch.arange(16).expand(4, 16), None, masked, ids.flatten()[masked]).backward()
    assert counter.get_total_flops() / 64 == pytest.approx(flops_per_token(config, 16, 16 / 64), rel=1e-9)


def test_a_cpu_has_no_known_peak():
    assert peak_flops() is None and peak_flops("cpu") is None
