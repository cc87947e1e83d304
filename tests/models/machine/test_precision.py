"""Bfloat16 where a processor has no instructions for it."""

import pytest
import torch

from crosslens.models.machine import precision as module
from crosslens.models.machine.precision import remark_slow_bfloat16


@pytest.mark.parametrize(
    ("device", "precision", "able", "said"),
    [
        ("cpu", "bfloat16", False, True),
        ("cpu", "bfloat16", True, False),
        ("cpu", "float32", False, False),
        ("cuda:0", "bfloat16", False, False),
    ],
)
def test_slow_products_are_remarked(monkeypatch, device, precision, able, said):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: able)
    remarks: list[str] = []
    monkeypatch.setattr(module, "say", remarks.append)
    remark_slow_bfloat16(device, precision)
    assert any("no instructions" in one for one in remarks) is said
