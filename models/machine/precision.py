"""What a machine computes quickly."""

import torch

from crosslens.progress import say

__all__ = ["remark_slow_bfloat16"]


def remark_slow_bfloat16(device: torch.device | str, precision: str) -> None:
    """Say so where products in bfloat16 are asked of a processor that has no instructions for them:
    there each takes some ten times as long as in float32."""
    if torch.device(device).type != "cpu" or precision != "bfloat16":
        return
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        say(
            "bfloat16: this processor has no instructions for it; float32 is some ten times as fast"
        )
