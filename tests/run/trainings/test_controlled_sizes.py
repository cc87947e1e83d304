"""The size of a controlled study's trainings: the small one and how it is scaled, and the papers'."""

import pytest

from crosslens.front.calls import training_recipes


def first_of(name, **settings):
    return next(iter(training_recipes(name, {"data": "x", **settings}).values()))


@pytest.mark.parametrize(
    ("name", "layers", "scope"), [("deshpande-pairs", 2, "original"), ("conneau-anchors", 8, "all")]
)
def test_the_small_size_is_as_wide_and_as_long_as_it_is_asked_to_be(name, layers, scope):
    small, wide = first_of(name), first_of(name, model=128)
    assert (small.masking.rate, small.masking.scope) == (0.25, scope)
    assert small.encoder.layers == wide.encoder.layers == layers
    assert (small.optimisation.peak_rate, wide.optimisation.peak_rate) == (4e-3, 2e-3)
    shape = wide.encoder
    assert (shape.hidden_size, shape.heads, shape.ffn_size) == (128, 4, 512)
    batches = first_of(name, tokens=4_096_000, batch_tokens=4096)
    assert (batches.steps, batches.batch_tokens) == (1000, 4096)


def test_the_papers_masking_optimiser_and_sampling_are_theirs():
    """Deshpande et al. 2022, appendix and program; Conneau et al. 2020, § 2.1, and XLM's program."""
    one, other = (first_of(name, scale="paper") for name in ("deshpande-pairs", "conneau-sharing"))
    assert (one.masking.scope, one.encoder.norm_eps) == ("original", 1e-5)
    by = one.optimisation
    assert (by.optimiser, by.beta2, by.weight_decay, by.warmup) == ("adamw", 0.999, 0.0, 10_000)
    assert (other.sample_exponent, other.masking.count, other.masking.exponent) == (0.7, "xlm", 0.5)
    by = other.optimisation
    assert (by.optimiser, by.decay, by.weight_decay) == ("adam", "inverse_sqrt", 0.0)
    assert (by.first_rate, by.warmup) == (1e-7, 30_000)
