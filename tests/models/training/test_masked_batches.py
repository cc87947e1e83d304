"""Batches by step: functions of the step alone, whole epochs, and parts that add up to the
batch."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy_texts import deep, log, prepared
from transformers import AutoModelForMaskedLM

from crosslens.models.training.masked_batches import MaskedBatches
from crosslens.models.training.masked_lm import build_model
from crosslens.models.training.settings import with_overrides

TENSORS = ("ids", "positions", "masked", "labels")


@pytest.fixture(scope="module")
def source(toy, tmp_path_factory):
    """The toy run's feed, made anew."""
    return MaskedBatches(*prepared(toy, tmp_path_factory.mktemp("tokens")))


def shape_of(recipe, units):
    """The narrow recipe with its units, and the heads that these need."""
    changes = (
        {"encoder.layers": 2, "encoder.segments": 2, "encoder.next_sentence": True}
        if units == "nsp"
        else {"encoder.layers": 2}
    )
    return with_overrides(
        deep(recipe, batch_languages="mixed", sharing="monolingual"),
        {"units": units, "encoder.dropout": 0.0, **changes},
    )


def test_a_batch_depends_on_its_step_alone(source):
    """Asked for in another order, by a feed that has just been made: what resuming does."""
    in_order = [source[step] for step in range(30)]
    fresh = MaskedBatches(source.recipe, source.data, source.vocabularies)
    for step in (29, 3, 17, 3, 0):
        one = (
            fresh[step]
            if step != 17
            else MaskedBatches(source.recipe, source.data, source.vocabularies)[17]
        )
        assert (one.predicted, one.rows, one.tokens) == (
            in_order[step].predicted,
            in_order[step].rows,
            in_order[step].tokens,
        ), step
        assert all(
            torch.equal(one.parts[0][name], in_order[step].parts[0][name]) for name in TENSORS
        ), step


def test_an_epoch_that_is_over_can_be_asked_for_again(toy, source):
    long = MaskedBatches(with_overrides(toy, {"steps": 400}), source.data, source.vocabularies)
    first = long[0].parts[0]["ids"].clone()
    assert (
        long._items(int(long.which[399]), int(long.turn[399])) is not None
        and long._plans[int(long.which[399])][0] >= 2
    )
    for step in range(399, 300, -1):
        long[step]
    assert torch.equal(long[0].parts[0]["ids"], first)


def test_masks_are_drawn_anew_in_every_step_and_for_every_seed(source, toy):
    masks = []
    for seed in (toy.seed, toy.seed + 1):
        feed = MaskedBatches(
            with_overrides(source.recipe, {"seed": seed}), source.data, source.vocabularies
        )
        feed._items = lambda *_: np.arange(8)
        feed.which[:] = 0
        masks += [tuple(feed[step].parts[0]["masked"].tolist()) for step in range(6)]
    assert len(set(masks)) == 12


def test_a_stream_gives_every_sentence_once_before_any_comes_twice(toy, source):
    long = MaskedBatches(with_overrides(toy, {"steps": 400}), source.data, source.vocabularies)
    for which, stream in enumerate(source.data.streams):
        steps = np.flatnonzero(long.which == which)
        items = np.concatenate([long._items(which, int(long.turn[step])) for step in steps])
        n = stream.n
        epochs = len(items) // n
        assert epochs >= 2
        for epoch in range(epochs):
            assert sorted(items[epoch * n : (epoch + 1) * n].tolist()) == list(range(n))
        assert not np.array_equal(items[:n], items[n : 2 * n])  # the next epoch has its own order


def test_the_log_counts_the_tokens_that_were_trained_on(undisturbed, source):
    assert log(undisturbed)[-1]["tokens"] == sum(source[step].tokens for step in range(30))


@pytest.mark.parametrize("units", ["sentences", "stream", "packed", "nsp"])
@pytest.mark.parametrize(("size", "accumulate"), [(2, 1), (1, 3), (2, 2), (1, 40)])
def test_the_parts_of_all_processes_have_the_loss_and_the_gradients_of_the_batch(
    toy, tmp_path, units, size, accumulate
):
    """Forty parts are more than there are rows. In float64, so sums in another order agree to
    rounding."""
    recipe, data, vocabularies = prepared(shape_of(toy, units), tmp_path)
    model = build_model(recipe, vocabularies).double()

    def result(steps):
        model.zero_grad()
        total = 0.0
        for step in steps:
            for part in step.parts:
                sums = model(**part)
                masked, following = sums if isinstance(sums, tuple) else (sums, torch.zeros(()))
                loss = masked / step.predicted + following / step.rows
                loss.backward()
                total += loss.item()
        return total, {
            name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None
        }

    expected, gradients = result([MaskedBatches(recipe, data, vocabularies)[0]])
    cut = with_overrides(recipe, {"accumulate": accumulate})
    steps = [MaskedBatches(cut, data, vocabularies, rank, size)[0] for rank in range(size)]
    assert all(len(step.parts) == accumulate for step in steps)
    if accumulate == 40:
        assert steps[0].rows < 40
    told, summed = result(steps)
    assert told == pytest.approx(expected, rel=1e-9)
    assert gradients.keys() == summed.keys()
    assert all(torch.allclose(gradients[name], summed[name], atol=1e-10) for name in gradients)


@pytest.mark.parametrize("units", ["sentences", "stream", "packed", "nsp"])
def test_groups_say_which_rows_and_masked_tokens_are_whose(toy, tmp_path, units):
    recipe, data, vocabularies = prepared(shape_of(toy, units), tmp_path)
    for part in MaskedBatches(with_overrides(recipe, {"accumulate": 2}), data, vocabularies)[
        1
    ].parts:
        length, start = part["ids"].shape[1], 0
        assert [group.language for group in part["groups"]] == ["eng", "nld"]
        for group in part["groups"]:
            rows = part["masked"] // length
            assert int(((rows >= start) & (rows < start + group.rows)).sum()) == group.masked
            start += group.rows
        assert start == len(part["ids"])


def test_the_first_step_is_the_one_written_out_here(toy, source, undisturbed):
    """The loss that the loop would see in step 0, from BERT's published formula by transformers,
    dropout off."""
    step = source[0]
    tensors = step.parts[0]
    model = AutoModelForMaskedLM.from_pretrained(undisturbed / "model").eval()
    ours = build_model(source.recipe, source.vocabularies)
    ours.load_state_dict(
        load_file(undisturbed / "checkpoints" / "step-00000030" / "model.safetensors")
    )
    lengths = (
        torch.full((step.rows,), tensors["ids"].shape[1])
        if tensors["lengths"] is None
        else tensors["lengths"]
    )
    real = torch.arange(tensors["ids"].shape[1]) < lengths[:, None]
    labels = torch.full(tensors["ids"].shape, -100)
    labels.view(-1)[tensors["masked"]] = tensors["labels"]
    with torch.no_grad():
        reference = model(
            input_ids=tensors["ids"],
            position_ids=tensors["positions"],
            attention_mask=real.long(),
            labels=labels,
        ).loss
        loss = ours.eval()(**tensors) / step.predicted
    assert loss.item() == pytest.approx(reference.item(), abs=1e-5)
    # The unmasked batch is what its stream collates.
    stream = source.data.streams[int(source.which[0])]
    whole = torch.from_numpy(stream.collate(source._items(int(source.which[0]), 0)).ids)
    back = tensors["ids"].clone()
    back.view(-1)[tensors["masked"]] = tensors["labels"]
    assert torch.equal(back, whole)


def test_places_are_the_columns_of_the_masked_tokens(source):
    """What the last layer is computed for: row by row, the columns of ``masked``, and nothing
    else."""
    for step in range(8):
        for part in source[step].parts:
            length = part["ids"].shape[1]
            rows, slots = np.nonzero(part["places"].numpy() >= 0)
            assert (rows * length + part["places"].numpy()[rows, slots]).tolist() == part[
                "masked"
            ].tolist()
