"""What a dry run says: the same model as the training would build, and its cost by the formula."""

import dataclasses

import pytest
import torch

from crosslens.errors import InputError
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.network.sharing import SYSTEMS, SharingPlan
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training.costs import flops_per_token
from crosslens.models.training.estimate import estimate
from crosslens.models.training.settings import Source, TrainRecipe


def recipe(**changes):
    shape = EncoderConfig(
        vocab_size=50, hidden_size=16, layers=8, heads=2, ffn_size=32, max_positions=32
    )
    values = {
        "name": "x",
        "sources": (Source(name="s", texts={"eng": "no.txt", "fra": "no.txt"}),),
        "steps": 7,
        "batch_tokens": 100,
        "max_length": 30,
        "tlm_share": 0.0,
        "vocabulary": Vocabulary(size=50, kind="bpe"),
        "encoder": shape,
    }
    return TrainRecipe(**{**values, **changes})


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_parameters_are_those_of_the_model(system):
    found = estimate(recipe(sharing=system))
    # two vocabularies of 50 share five special tokens
    size = 95 if SYSTEMS[system].vocabulary in ("union", "disjoint") else 50
    shape = dataclasses.replace(recipe().encoder, vocab_size=size)
    model = MaskedLM(shape, languages=("eng", "fra"), plan=SharingPlan.parse(system, 8))
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.recipe.vocabulary.mode == SYSTEMS[system].vocabulary
    assert found.flops_per_token == flops_per_token(shape, 30, 0.15) and found.tokens == 700


def test_nothing_is_read_and_no_memory_is_taken():
    huge = EncoderConfig(
        vocab_size=50, hidden_size=8192, layers=96, heads=64, ffn_size=32_768, max_positions=512
    )
    found = estimate(recipe(encoder=huge, vocabulary=Vocabulary(size=250_000)))
    assert found.parameters > 70e9
    assert found.lines[2].startswith("time: about ")


def test_the_rate_of_products_is_measured():
    threads = torch.get_num_threads()
    assert 1e7 < estimate(recipe()).here < 1e14 and torch.get_num_threads() == threads


def test_a_plan_that_does_not_fit_is_refused_before_anything_is_read():
    with pytest.raises(InputError, match="sharing: .*got 7-9"):
        estimate(recipe(sharing="sep=7-9"))


def test_hours_on_a_gpu_are_those_of_the_precision():
    """Products of float32 have 67 of the 989 teraflops that an H100 has in bfloat16."""
    wide = EncoderConfig(
        vocab_size=50, hidden_size=512, layers=1, heads=8, ffn_size=64, max_positions=32
    )
    half, full = (
        estimate(recipe(encoder=wide, precision=precision)) for precision in ("bfloat16", "float32")
    )
    assert full.on_gpu / half.on_gpu == pytest.approx(989 / 67)
    assert "at 40 % of its bfloat16 peak" in half.lines[2]
    assert "at 2.7 % of its bfloat16 peak" in full.lines[2]
