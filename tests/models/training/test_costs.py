"""Operations of a step, against a count by torch itself."""

import dataclasses

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from toy_texts import deep, prepared

from crosslens.models.network.encoder import EncoderConfig, Group, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import Owner, freeze
from crosslens.models.training.costs import (
    Load,
    flops_per_token,
    peak_flops,
    step_flops,
    trained_owners,
)
from crosslens.models.training.masked_batches import MaskedBatches
from crosslens.models.training.masked_lm import build_model


def counted(model, **arguments):
    """Forward and backward; torch counts every product, so only the formula's words are at
    stake."""
    with FlopCounterMode(display=False) as counter:
        sums = model(**arguments)
        (sum(sums) if isinstance(sums, tuple) else sums).backward()
    return counter.get_total_flops()


def rows(rate=4, languages=1):
    """Four full rows of 16 tokens, every fourth of which is predicted."""
    ids, masked = torch.randint(5, 60, (4, 16)), torch.arange(0, 64, rate)
    groups = tuple(
        Group(f"l{i}", 4 // languages, len(masked) // languages) for i in range(languages)
    )
    places = torch.arange(0, 16, rate).expand(4, -1)
    return {
        "ids": ids,
        "positions": torch.arange(16).expand(4, 16),
        "lengths": None,
        "masked": masked,
        "labels": ids.flatten()[masked],
        "groups": groups,
        "places": places,
    }


def shape(**changes):
    values = {
        "vocab_size": 60,
        "hidden_size": 32,
        "layers": 3,
        "heads": 2,
        "ffn_size": 64,
        "max_positions": 16,
        "attention": "eager",
    }
    return EncoderConfig(**{**values, **changes}, dropout=0.0)


@pytest.mark.parametrize(
    "changes",
    [{}, {"head": "plain"}, {"layers": 5, "ffn_size": 40}, {"vocab_size": 900}, {"layers": 1}],
)
def test_the_formula_counts_what_torch_counts(changes):
    config = shape(**changes)
    found = counted(MaskedLM(config, languages=("l0",)), **rows())
    assert found / 64 == pytest.approx(flops_per_token(config, 16, 1 / 4), rel=1e-9)


def test_with_next_sentences_the_last_layer_is_computed_everywhere():
    config = shape(segments=2, next_sentence=True)
    batch = {**rows(), "places": None, "following": torch.tensor([0, 1, 1, 0])}
    found = counted(MaskedLM(config, languages=("l0",)), **batch)
    assert found / 64 == pytest.approx(flops_per_token(config, 16, 1 / 4), rel=1e-9)


EMBEDDINGS = ["token", "position", "norm"]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "parts",
    [
        [],
        ["2"],
        ["1", "2", "3"],
        EMBEDDINGS,
        [*EMBEDDINGS, "1"],
        [*EMBEDDINGS, "1", "2", "3"],
        ["transform"],
    ],
    ids=str,
)
def test_what_is_frozen_has_no_gradients(parts, tied):
    config = shape(tied=tied)
    model = MaskedLM(config, languages=("l0",))
    if parts:
        freeze(model, parts)
    batch = rows()
    load = Load(rows=4, tokens=64, squares=4 * 256, predicted=16, looks=16 * 16)
    assert counted(model, **batch) == pytest.approx(step_flops(model, {"l0": load}), rel=1e-9)


def test_trained_parts_are_told_with_their_owners_and_may_be_told_again():
    plan, languages = SharingPlan.parse("sep=1", 3), ("l0", "l1")
    model = MaskedLM(shape(), languages=languages, plan=plan)
    everything = trained_owners(model)
    assert {Owner("1", "l0"), Owner("1", "l1"), Owner("2", ""), Owner("token", "")} <= everything
    freeze(model, ["2", "token"])
    trained = trained_owners(model)
    assert everything - trained == {Owner("2", ""), Owner("token", "")} and trained < everything
    model.encoder.layers[0].of("l1").requires_grad_(False)
    assert trained - trained_owners(model) == {Owner("1", "l1")}
    load = Load(rows=4, tokens=64, squares=4 * 256, predicted=16, looks=16 * 16)
    costs = [step_flops(model, {"l1": load}, told) for told in (everything, trained, None)]
    assert costs[0] > costs[1] > costs[2] == step_flops(model, {"l1": load}, trained_owners(model))


@pytest.mark.parametrize("left", [["token", "adapters"], ["adapters"], ["special", "2"], None])
def test_adapters_and_the_table_of_special_tokens_are_counted(left):
    model = MaskedLM(shape(adapters=6, special_table=True), languages=("l0",))
    if left is not None:
        model.requires_grad_(False)
        freeze(model, left, frozen=False)
    load = Load(rows=4, tokens=64, squares=4 * 256, predicted=16, looks=16 * 16)
    assert counted(model, **rows()) == pytest.approx(step_flops(model, {"l0": load}), rel=1e-9)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("frozen", [[], ["token"], ["projection"], [*EMBEDDINGS, "special"]])
def test_a_projection_of_token_embeddings_is_counted(frozen, tied):
    config = shape(embedding_size=24, special_table=True, tied=tied)
    model = MaskedLM(config, languages=("l0",))
    if frozen:
        freeze(model, frozen)
    load = Load(rows=4, tokens=64, squares=4 * 256, predicted=16, looks=16 * 16)
    assert counted(model, **rows()) == pytest.approx(step_flops(model, {"l0": load}), rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "wasted"),
    [({"units": "stream"}, 0.2), ({}, 0.2), ({"units": "packed"}, 0.3)],
    ids=["stream", "sentences", "packed"],
)
def test_no_more_is_counted_than_a_real_step_does(toy, tmp_path, changes, wasted):
    """A step of a run: less than torch counts by padding, of rows and of the predicted tokens'
    columns, which is done in vain."""
    recipe = deep(toy, **changes)
    recipe = dataclasses.replace(
        recipe, encoder=dataclasses.replace(recipe.encoder, attention="eager", dropout=0.0)
    )
    recipe, data, vocabularies = prepared(recipe, tmp_path)
    model, feed = build_model(recipe, vocabularies), MaskedBatches(recipe, data, vocabularies)
    for number in range(3):
        step = feed[number]
        found, ours = counted(model, **step.parts[0]), step_flops(model, step.loads)
        assert (1 - wasted) * found < ours <= found * (1 + 1e-9)


def test_the_published_shape_costs_what_is_done():
    """Conneau et al. 2020: with the last layer computed at predicted tokens alone, 8 % less than 6
    per weight and token."""
    config = EncoderConfig(
        vocab_size=80_000, hidden_size=768, layers=8, heads=12, ffn_size=3072, head="plain"
    )
    d, f, s, rate = 768, 3072, 256, 0.15
    all_layers = 6 * 8 * (4 * d * d + 2 * d * f) + 6 * rate * d * 80_000 + 12 * 8 * d * s
    assert round(all_layers / 1e6) == 414
    spared = (1 - rate) * (6 * (2 * d * d + 2 * d * f) + 12 * d * s)
    assert flops_per_token(config, s, rate) == pytest.approx(all_layers - spared, rel=1e-12)
    assert spared / all_layers == pytest.approx(0.078, abs=5e-4)


def test_a_cpu_has_no_known_peak():
    assert peak_flops() is None and peak_flops("cpu") is None
