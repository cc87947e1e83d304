"""What a recipe would make and cost, before anything is read or trained: `crosslens train RECIPE
--dry-run`."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from crosslens.models.network.encoder import MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import freeze, freeze_all_but, sharing_table
from crosslens.models.saved.interop import check_exportable
from crosslens.models.training.costs import Load, step_flops
from crosslens.models.training.frozen_embeddings import given_vocabularies
from crosslens.models.training.settings import TrainRecipe, resolve
from crosslens.progress import duration

__all__ = ["Estimate", "estimate"]

_H100 = 989e12  # its bfloat16 peak, operations per second
# Width to the share of it that a training has alone: measured at width 64 in batches of 2,048 tokens
# as CUDA graphs, and at 256 in batches of 16,384 without; that of wider models is assumed.
_SHARES, _WIDE_SHARE = {64: 0.0025, 256: 0.02}, 0.4
_FLOAT32 = 67e12 / _H100  # of float32, as which products are then computed


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a recipe comes to.

    Attributes
    ----------
    recipe: with all that a named system stands for.
    table: who owns how many parameters (:func:`crosslens.models.network.surgery.sharing_table`), of
        those that are trained.
    parameters: of the whole model; with a start, of what its new language sees.
    flops_per_token: forward and backward (:mod:`crosslens.models.training.costs`).
    tokens: that the training sees at most, padding included.
    here: operations per second of a float32 product of this width on this machine's CPU.
    """

    recipe: TrainRecipe
    table: Sequence[tuple[str, ...]]
    parameters: int
    flops_per_token: float
    tokens: int
    here: float

    @property
    def gpu_share(self) -> float:
        """The share of an H100's bfloat16 peak that is reckoned with: of the next width that was
        measured; of wider models in float32 as much of the peak of float32."""
        width = self.recipe.encoder.hidden_size
        wide = _WIDE_SHARE * (_FLOAT32 if self.recipe.precision == "float32" else 1)
        return next((share for most, share in _SHARES.items() if width <= most), wide)

    @property
    def on_gpu(self) -> float:
        """Seconds on one H100 at :attr:`gpu_share` of its peak."""
        return self.flops_per_token * self.tokens / (_H100 * self.gpu_share)

    @property
    def lines(self) -> list[str]:
        """The sums in words."""
        total = self.flops_per_token * self.tokens
        left_open = [
            (
                "held out: a tenth of each source, at most 300 sentences (validation=N sets "
                "another number)"
            )
        ]
        return [
            (
                f"parameters: {self.parameters:,} at most (a learnt vocabulary may be smaller "
                f"than asked for)"
            ),
            (
                f"operations: {self.flops_per_token / 1e6:,.1f} MFLOP per token; {total:.2e} in "
                f"all, for {self.tokens:,} tokens"
            ),
            f"time: about {duration(max(total / self.here, 1))} of pure products on this machine's "
            f"CPU ({self.here / 1e9:,.0f} GFLOP/s measured; "
            f"expect two to three times as long), about {duration(max(self.on_gpu, 1))} on one H100 at "
            f"{100 * self.gpu_share:.2g} % of its bfloat16 peak",
            *(left_open if self.recipe.validation is None else []),
        ]


def estimate(recipe: TrainRecipe) -> Estimate:
    """Shape, owners and cost of a recipe; no text is read, of ``embeddings`` that are there the size.

    Raises
    ------
    InputError: settings that do not go together.
    """
    recipe = resolve(recipe)
    check_exportable(recipe.encoder)
    vocabulary, languages = recipe.vocabulary, recipe.languages
    united = vocabulary.mode in ("union", "disjoint")
    # the special tokens are shared
    size = 5 + (vocabulary.size - 5) * len(languages) if united else vocabulary.size
    if recipe.embeddings and Path(recipe.embeddings).is_dir():  # may be made later
        size = max(given_vocabularies(recipe).sizes.values())
    shape = dataclasses.replace(recipe.encoder, vocab_size=size)
    plan = SharingPlan.parse(recipe.sharing, shape.layers, tied=shape.tied)
    with torch.device("meta"):  # shapes without memory
        model = MaskedLM(shape, languages=languages, plan=plan)
    if recipe.start:
        freeze_all_but(model, languages[0])
    if recipe.embeddings:
        freeze(model, ["token"])
    load = Load.of_token(recipe.max_length, recipe.masking.rate)
    return Estimate(
        recipe,
        sharing_table(model, trained_only=True),
        sum(parameter.numel() for parameter in model.parameters()),
        step_flops(model, {languages[0]: load}),
        recipe.steps * recipe.batch_tokens,
        # the rate of larger products is the same
        _product_rate(min(shape.hidden_size, 1024), min(shape.ffn_size, 1024)),
    )


def _product_rate(d: int, wide: int, rows: int = 512) -> float:
    """Operations per second of (rows, d) x (d, wide) here: the best of some, as other work on the
    machine only makes it slower."""
    a, b = torch.rand(rows, d), torch.rand(d, wide)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return 2 * rows * d * wide / min(times)
